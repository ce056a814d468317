"""Process trees on Linux: orphans come to us, and none is missed.

A program started with our console stays in our process group (in a group of its own it would be
stopped at its first read from the terminal and never see Ctrl-C). Its orphans are given to this process
by ``PR_SET_CHILD_SUBREAPER``, so a launcher that starts the real program and exits is waited for.
One such tree at a time; children that we had before are left alone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Final

from scripts.errors import LaunchError
from scripts.osal.processes import (
    Command,
    Dialog,
    Table,
    Wanted,
    children,
    has_children,
    listed_children,
    mapped_by,
    processes,
)
from scripts.osal.signals import unblocked

assert sys.platform != "win32"  # noqa: S101 - tells mypy which half this is

PR_SET_CHILD_SUBREAPER: Final = 36
PR_GET_CHILD_SUBREAPER: Final = 37
#: Seconds between two looks at the tree while its first process runs, and when only others are left.
TICK_RUNNING: Final = 1.0
TICK_LEFT: Final = 0.05
#: Seconds that a program has to stop by itself before SIGSTOP stops it.
STOP_GRACE: Final = 0.5
#: Seconds between two looks where the kernel has no pidfd.
TICK_BLIND: Final = 0.02

#: errno of a failed start: reference, sentence, hint.
START_ERRORS: Final[dict[int, tuple[str, str, str]]] = {
    errno.ENOENT: (
        "program-not-found",
        "does not exist, or the interpreter in its first line does not",
        "check the path; for a script, check its first line",
    ),
    errno.EACCES: (
        "program-not-executable",
        "may not be executed",
        "make it executable (chmod +x), or name its interpreter as the program",
    ),
    errno.ENOEXEC: (
        "program-format",
        "is not a program of this machine",
        "give a script a first line such as #!/bin/sh, or name its interpreter as the program",
    ),
    errno.E2BIG: (
        "arguments-too-long",
        "cannot be given that many arguments and variables",
        "let the program read its arguments from a file, if it can",
    ),
    errno.ETXTBSY: ("program-busy", "is being written to", "wait until whoever writes it has finished"),
}


class PosixTree:
    """One started program and its descendants."""

    def __init__(
        self,
        command: Command,
        *,
        session: bool,
        unattended: bool = False,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        """Start the program, in our process group or in a session of its own.

        Args:
            command: what to start.
            session: for checks: no terminal, and what remains is found by its session.
            unattended: makes no difference here; Windows shows boxes.
            stdin: descriptor for the child; ``None`` inherits ours.
            stdout: likewise.
            stderr: likewise.

        Raises:
            LaunchError: it cannot be started; the reference says why.
        """
        del unattended
        _want_exit_codes()
        self._session = session
        self._mine_before: set[int] = set()
        self._was_reaper = False
        if not session:
            self._mine_before = set(_own_children())
            self._was_reaper = _set_subreaper(on=True)
        try:
            with unblocked():
                self._popen = subprocess.Popen(
                    [str(command.program), *command.args],
                    env=dict(command.env) or None,
                    cwd=command.cwd,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    close_fds=session,  # inheritable descriptors were meant for the program
                    start_new_session=session,
                )
        except (OSError, ValueError) as error:
            self.close()
            raise start_error(command, error) from error
        self.pid = self._popen.pid

    def code(self) -> int | None:
        """Return the first process's exit code, minus the signal's number, or ``None``."""
        return self._popen.poll()

    def wait(self, seconds: float, *, whole: bool) -> bool:
        """Wait for the first process or the whole tree; say whether it is gone."""
        deadline = time.monotonic() + seconds
        while True:
            self._reap()
            running = self.code() is None
            waiting_for = [self.pid] if running else self._rest() if whole else []
            if not waiting_for:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            _wait_for_any(waiting_for, min(left, TICK_RUNNING if running else TICK_LEFT))

    def forward(self, signum: int) -> None:
        r"""Hand a signal on to whoever has not had it.

        A terminal gives Ctrl-C and Ctrl-\ to the whole foreground group at once, the program included;
        what left the group (a daemon) is asked to end once the first process is gone.
        """
        running = self.code() is None
        if signum in {signal.SIGINT, signal.SIGQUIT} and _terminal_sent_it():
            group = os.getpgrp()
            if not running:
                _send([p for p in self._everyone() if _group_of(p) != group], signal.SIGTERM)
            return
        _send([self.pid] if running else self._everyone(), signum)

    def pause(self, signum: int) -> None:
        """Stop every process: those that ignore the signal, or that the kernel spares, by SIGSTOP.

        A process group without a shell that could continue it is spared by the kernel's default.
        """
        if not _terminal_sent_it():
            _send(self._everyone(), signum)
        gentle = time.monotonic() + STOP_GRACE
        while (awake := self._awake()) and time.monotonic() < gentle + STOP_GRACE:
            if time.monotonic() >= gentle:
                _send(awake, signal.SIGSTOP)
            time.sleep(TICK_BLIND)

    def resume(self) -> None:
        """Continue every process."""
        _send(self._everyone(), signal.SIGCONT)

    def mapped(self, wanted: Wanted) -> frozenset[str]:
        """Return the wanted files that its processes have mapped as code."""
        if self._session:
            pids = self._everyone()
        else:  # without a look at every process
            pids = _below([pid for pid in listed_children(os.getpid()) if self._is_ours(pid)])
        return frozenset(path for pid in pids for path in mapped_by(pid, wanted))

    def terminate(self) -> bool:
        """Send SIGTERM to every process."""
        _send(self._everyone(), signal.SIGTERM)
        return True

    def kill(self) -> int:
        """Send SIGKILL until none is left, because a process may have forked meanwhile."""
        killed: set[int] = set()
        while fresh := self._everyone():
            killed.update(fresh)
            _send(fresh, signal.SIGKILL)
            self.wait(TICK_LEFT, whole=True)
        return len(killed)

    def close_dialogs(self) -> tuple[Dialog, ...]:
        """Return nothing: no such thing here."""
        return ()

    def processes(self) -> int | None:
        """Return nothing: Linux does not count them."""
        return None

    def close(self) -> None:
        """Stop being given orphans."""
        if not self._session:
            _set_subreaper(on=self._was_reaper)

    def _everyone(self) -> list[int]:
        """Return every living process of the tree."""
        table = processes()
        roots = self._roots(table)
        found = set(roots)
        while roots:
            roots = {p for root in roots for p in children(table, root)} - found
            found |= roots
        if self._session:
            found |= {p for p, (_, sid, _) in table.items() if sid == self.pid}
        return [p for p in found if p in table and table[p][2] not in "ZX"]

    def _awake(self) -> list[int]:
        """Return every process that is not stopped."""
        table = processes()
        return [pid for pid in self._everyone() if pid in table and table[pid][2] not in "TtZX"]

    def _roots(self, table: Table) -> set[int]:
        """Return where our part of the table of processes begins.

        The first process counts only while it runs: afterwards its number may be another process's.
        """
        if self._session:
            return {self.pid} if self.code() is None else set()
        return {p for p in children(table, os.getpid()) if self._is_ours(p)}

    def _rest(self) -> list[int]:
        """Return what is left when the first process has ended."""
        if self._session:
            return self._everyone()
        return [p for p in _own_children() if self._is_ours(p)]

    def _is_ours(self, pid: int) -> bool:
        return pid not in self._mine_before

    def _reap(self) -> None:
        """Take the exit codes of orphans that came to us and ended."""
        if self._session:
            return
        for pid in _own_children():
            if pid != self.pid and self._is_ours(pid):
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _own_children() -> list[int]:
    """Return our direct children; most looks find none, and need no look at every process."""
    return children(processes(), os.getpid()) if has_children() else []


def start_error(command: Command, error: OSError | ValueError) -> LaunchError:
    """Say why a program could not be started."""
    number = error.errno if isinstance(error, OSError) else None
    if command.cwd is not None and not command.cwd.is_dir():
        return LaunchError(
            "folder-not-found", f"the folder to start in does not exist: {command.cwd}", hint="check --cwd"
        )
    reference, sentence, hint = START_ERRORS.get(
        number or 0,
        ("program-not-started", f"could not be started: {error}", "the context has the system's words"),
    )
    return LaunchError(reference, f"{command.program} {sentence}", context=(str(error),), hint=hint)


def _wait_for_any(pids: list[int], seconds: float) -> None:
    """Sleep until one of the processes ends, or for ``seconds``."""
    poll = select.poll()
    opened = []
    try:
        for pid in pids:
            opened.append(os.pidfd_open(pid))
            poll.register(opened[-1], select.POLLIN)
        poll.poll(seconds * 1000)
    except ProcessLookupError:
        return  # one is gone already
    except OSError:
        time.sleep(min(seconds, TICK_BLIND))
    finally:
        for fd in opened:
            os.close(fd)


def _send(pids: list[int], signum: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signum)


def _below(pids: list[int]) -> list[int]:
    """Return these processes and their descendants."""
    found = dict.fromkeys(pids)
    for pid in pids:
        found |= dict.fromkeys(_below([p for p in listed_children(pid) if p not in found]))
    return list(found)


def _group_of(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(pid)
    return None


def _terminal_sent_it() -> bool:
    """Whether we stand in the foreground of a terminal, whose keys reach the whole group."""
    try:
        fd = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(fd)


def _want_exit_codes() -> None:
    """Undo an inherited "ignore SIGCHLD", under which the kernel throws exit codes away."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _set_subreaper(*, on: bool) -> bool:
    """Ask for orphans (or not); return what was set before."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = ctypes.c_int(0)
    libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(on), 0, 0, 0)
    return bool(before.value)
