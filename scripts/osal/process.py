"""Run a program: with our console and handles and its whole tree waited for, or captured for a check.

This is the portable half: what to wait for, when to end it, what to report. ``process_posix`` and
``process_windows`` start the tree and know who belongs to it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.errors import LaunchError
from scripts.osal.processes import Captured, Command, Dialog, MappedFiles, ProcessResult
from scripts.osal.signals import DeferredSignals, ForwardedSignals

if sys.platform == "win32":
    from scripts.osal.process_windows import WindowsTree as StartedTree
else:
    from scripts.osal.process_posix import PosixTree as StartedTree

if TYPE_CHECKING:
    from scripts.osal.output_log import Keep, Log, LogTo, Tee

#: How a program ends whose libraries were not found: on Windows at its start or when first used, on Linux.
NOT_FOUND: Final = frozenset({0xC0000135, 0xC06D007E})
NO_LIBRARY: Final = 127
#: Seconds between asking a process to end and ending it.
GRACE: Final = 3.0
#: Seconds between two looks for message boxes, and the longest sleep of the waiting loop.
LOOK: Final = 1.0
#: The same where another thread may ask for an end.
LOOK_STOP: Final = 0.1
#: Seconds that output may still arrive after the last process of a tree has ended.
DRAIN: Final = 2.0


def run_inherited(
    command: Command,
    *,
    interruptions: ForwardedSignals,
    timeout: float | None = None,
    log: LogTo | None = None,
    unattended: bool = False,
    grace: float = GRACE,
    drop: bytes = b"",
    mapped: MappedFiles | None = None,
) -> ProcessResult:
    """Run a program with our three handles, our console and our process group; wait for its whole tree.

    Signals that reach us are handed on through ``interruptions`` (open it before, and keep it open for
    what must be finished afterwards). With ``log`` the program's output is copied byte by byte: its
    stdout and stderr are pipes then, and a program that asks whether it talks to a terminal hears no.

    Args:
        command: what to run.
        interruptions: the open watch over signals.
        timeout: seconds for the whole tree; then it is asked to end, and killed after ``grace``.
        log: where a copy of the output goes.
        unattended: close message boxes, which no one can answer (Windows).
        grace: seconds between asking and killing.
        drop: lines of its stderr that begin so are not passed on; its stderr is a pipe then.
        mapped: collects which files its processes have in memory.

    Raises:
        LaunchError: it did not start.
    """
    begin = time.monotonic()
    dialogs: list[Dialog] = []
    with ExitStack() as stack:
        copy = None if log is None else _open_log(log, stack)
        tree, tees = _start_inherited(command, copy, unattended=unattended, drop=drop)
        stack.callback(tree.close)
        stack.callback(interruptions.forward_to, None)
        interruptions.forward_to(tree.forward, pause=tree.pause, resume=tree.resume)

        def look() -> None:
            interruptions.look()
            if unattended:
                dialogs.extend(tree.close_dialogs())
            if mapped is not None:
                mapped.look(tree)

        timed_out = not _wait(
            tree,
            timeout,
            look,
            whole=True,
            paused=lambda: interruptions.paused,
            pause=(lambda: LOOK) if mapped is None else mapped.pause,
        )
        if timed_out:
            _end(tree, grace)
        for tee in tees:
            tee.finish(DRAIN)
        return ProcessResult(
            code=_final_code(tree),
            timed_out=timed_out,
            seconds=time.monotonic() - begin,
            received=tuple(interruptions.received),
            dialogs=tuple(dialogs),
            processes=tree.processes(),
            log_note="" if copy is None else copy.note,
        )


def run_captured(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float,
    cwd: Path | None = None,
    stdin: bytes | None = None,
    grace: float = GRACE,
    stop: threading.Event | None = None,
) -> Captured:
    """Run a check, a probe or a compiler in a session of its own and keep what it prints.

    It has no console and, unless ``stdin`` is given, nothing to read. When its main process has ended,
    whatever it left running is killed, so that a pipe held by a forgotten helper delays nothing. The
    output up to a timeout is kept. On Linux a daemon that has left its session and outlived its parents is
    not found; ``run_inherited`` finds those too. In a thread, which no signal reaches, ``stop`` ends it: the
    whole tree is killed when the event is set.

    Raises:
        LaunchError: it did not start, or ``stopped``.
    """
    args = tuple(os.fspath(word) for word in argv[1:])
    command = Command(program=Path(argv[0]), args=args, env=env or {}, cwd=cwd)
    return capture(command, timeout=timeout, stdin=stdin, grace=grace, stop=stop)


def capture(
    command: Command,
    *,
    timeout: float,
    stdin: bytes | None = None,
    grace: float = GRACE,
    stop: threading.Event | None = None,
    mapped: MappedFiles | None = None,
) -> Captured:
    """Run what ``run_captured`` runs, already planned: its own command line, its own folder.

    ``mapped`` collects which files its processes have in memory.

    Raises:
        LaunchError: it did not start, or ``stopped``.
    """
    begin = time.monotonic()
    dialogs: list[Dialog] = []

    def look() -> None:
        dialogs.extend(tree.close_dialogs())
        if mapped is not None:
            mapped.look(tree)
        if stop is not None and stop.is_set():
            msg = f"{command.program} was ended, because the task ends"
            raise LaunchError("stopped", msg, hint="run the task again")

    # A check has no terminal that would end it with us: whatever ends us politely has to end it first.
    with DeferredSignals() as shield:
        tree, out, err = _start_captured(command, stdin)
        try:
            shield.lower()
            usual = LOOK if stop is None else LOOK_STOP
            pause = (lambda: usual) if mapped is None else mapped.pause
            timed_out = not _wait(tree, timeout, look, whole=False, pause=pause)
            seconds = time.monotonic() - begin
            if timed_out:
                _end(tree, grace)
            leftovers = tree.kill()
            code = _final_code(tree)
        finally:
            shield.raise_()
            tree.kill()  # also when we are interrupted: nothing of a check stays behind
            tree.close()
            out.finish(DRAIN)
            err.finish(DRAIN)
    return Captured(
        returncode=code,
        stdout=out.kept,
        stderr=err.kept,
        timed_out=timed_out,
        seconds=seconds,
        leftovers=leftovers,
        dialogs=tuple(dialogs),
    )


def _wait(
    tree: StartedTree,
    timeout: float | None,
    look: Callable[[], None],
    *,
    whole: bool,
    paused: Callable[[], float] = lambda: 0.0,
    pause: Callable[[], float] = lambda: LOOK,
) -> bool:
    """Wait for a tree, looking around after every ``pause``; ``False`` when its time is over.

    ``paused`` returns for how many seconds everything has been stopped so far; they do not count.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        step = pause()
        left = step if deadline is None else deadline + paused() - time.monotonic()
        if tree.wait(max(0.0, min(step, left)), whole=whole):
            return True
        if left <= 0:
            return False
        look()


def _end(tree: StartedTree, grace: float) -> None:
    """Ask, wait, kill."""
    if not (tree.terminate() and tree.wait(grace, whole=True)):
        tree.kill()


def _final_code(tree: StartedTree) -> int:
    """Return the first process's code; it has ended by now, or ends within the grace of a kill."""
    tree.wait(GRACE, whole=False)
    code = tree.code()
    if code is None:
        msg = "the program did not end although it was killed"
        raise LaunchError(
            "program-unkillable", msg, hint="see whether the machine still answers: a driver may hold it"
        )
    return code


def _start_inherited(
    command: Command, log: Log | None, *, unattended: bool, drop: bytes
) -> tuple[StartedTree, tuple[Tee, ...]]:
    """Start with our own handles, or with pipes that are copied to them and into the log."""
    if log is None and not drop:
        return StartedTree(command, session=False, unattended=unattended), ()
    from scripts.osal.output_log import Tee  # noqa: PLC0415 - most runs copy nothing

    if log is None:
        tree, (err,) = _start_piped(command, "stderr", session=False, unattended=unattended)
        return tree, (Tee(err, 2, None, drop=drop),)
    tree, (out, err) = _start_piped(command, "stdout", "stderr", session=False, unattended=unattended)
    return tree, (Tee(out, 1, log), Tee(err, 2, log, drop=drop))


def _start_captured(command: Command, stdin: bytes | None) -> tuple[StartedTree, Keep, Keep]:
    """Start without a console, reading nothing or the given bytes."""
    from scripts.osal.output_log import Keep, feed  # noqa: PLC0415 - `wrap` itself captures nothing

    if stdin is None:
        source = os.open(os.devnull, os.O_RDONLY)
        sink = None
    else:
        source, sink = os.pipe()
    try:
        tree, (out, err) = _start_piped(
            command, "stdout", "stderr", session=True, stdin=source, unattended=True
        )
    except BaseException:
        if sink is not None:
            os.close(sink)
        raise
    finally:
        os.close(source)
    if sink is not None:
        feed(sink, stdin or b"")
    return tree, Keep(out), Keep(err)


def _start_piped(
    command: Command, *streams: str, session: bool, unattended: bool, stdin: int | None = None
) -> tuple[StartedTree, list[int]]:
    """Start with pipes for some of its output; return the tree and the ends we read."""
    pipes = {name: os.pipe() for name in streams}
    theirs = {name: child for name, (_, child) in pipes.items()}
    ours = [end for end, _ in pipes.values()]
    try:
        tree = StartedTree(command, session=session, unattended=unattended, stdin=stdin, **theirs)
    except BaseException:
        for end in ours:
            os.close(end)
        raise
    finally:
        for child in theirs.values():
            os.close(child)
    return tree, ours


def _open_log(log: LogTo, stack: ExitStack) -> Log:
    """Open the log before anything is started."""
    from scripts.osal.output_log import Log  # noqa: PLC0415 - most runs write none

    try:
        opened = Log(log.path, log.cap)
    except OSError as error:
        msg = f"the log cannot be written: {log.path}"
        raise LaunchError(
            "log-not-writable", msg, context=(str(error),), hint="choose another --log"
        ) from error
    stack.callback(opened.close)
    return opened


def name_exit(code: int, *, platform: str = sys.platform) -> str:
    """Return what an exit code says, or an empty string for a plain one.

    Windows: the NTSTATUS behind a negative (or unsigned) code. POSIX: the signal behind a negative one.
    """
    if platform == "win32":
        from scripts.statuses import tables  # noqa: PLC0415 - a program that ends well needs no such table

        status = tables().values["ntstatus"].get(code & 0xFFFFFFFF)
        return f"{status.name}: {status.meaning}" if status else ""
    if code >= 0:
        return ""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def is_loaders(code: int, platform: str = sys.platform) -> bool:
    """Whether a program ended as the system's loader ends one whose libraries were not found."""
    return (code & 0xFFFFFFFF) in NOT_FOUND if platform == "win32" else code == NO_LIBRARY


def signed(code: int) -> int:
    """Return a Windows exit code as the signed 32-bit number that ``sys.exit`` can hand on."""
    return (code & 0xFFFFFFFF) - (1 << 32) if code & 0x80000000 else code & 0xFFFFFFFF
