"""``Command``: what is started; how it ended; what a tree of processes can be asked; the system's table."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct


class Command(Struct, frozen=True, kw_only=True):
    """One program to start.

    Attributes:
        program: the file to start, absolute; nothing is searched.
        args: its arguments, without its own name.
        env: the whole environment of the child; an empty one is ours.
        cwd: the folder it starts in; ``None`` for ours.
        line: Windows only: the exact command line, where ``args`` quoted the usual way will not do.
    """

    program: Path
    args: tuple[str, ...] = ()
    env: Mapping[str, str]
    cwd: Path | None = None
    line: str | None = None


class Dialog(Struct, frozen=True, kw_only=True):
    """A message box of an unattended run: found, written down, closed."""

    title: str
    text: str


class ProcessResult(Struct, frozen=True, kw_only=True):
    """How a program and everything it started ended.

    Attributes:
        code: the exit code; signed 32-bit on Windows, minus the signal's number on POSIX.
        timed_out: killed after the time that --timeout gives.
        seconds: from the start to the end of the last process of the tree.
        received: signals that reached us meanwhile, in order.
        dialogs: message boxes closed in an unattended run.
        processes: how many processes the tree had, where the system counts them.
        log_note: what the log lacks: it reached its cap, or could not be written.
    """

    code: int
    timed_out: bool = False
    seconds: float = 0.0
    received: tuple[int, ...] = ()
    dialogs: tuple[Dialog, ...] = ()
    processes: int | None = None
    log_note: str = ""

    @property
    def signal(self) -> int | None:
        """The signal that ended the program, or ``None``."""
        return -self.code if -signal.NSIG < self.code < 0 else None


class Captured(Struct, frozen=True, kw_only=True):
    """A finished check or probe; after a timeout the output up to then.

    Attributes:
        returncode: as ``Exit.code``.
        stdout: the bytes it wrote, at most ``CAPTURE_CAP``.
        stderr: likewise.
        timed_out: killed after the time that --timeout gives.
        seconds: how long the main process ran.
        leftovers: processes of its own that were still running when it had ended, and were killed.
        dialogs: message boxes that were closed (Windows).
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    seconds: float = 0.0
    leftovers: int = 0
    dialogs: tuple[Dialog, ...] = ()


#: Seconds to the first look; each pause is twice the one before, up to ``LONGEST``.
FIRST: Final = 0.02
LONGEST: Final = 1.0
#: A look may take at most this part of the time.
SHARE: Final = 0.05
_COLUMNS: Final = 6
_GONE: Final = " (deleted)"

Wanted = Callable[[str], bool]


class MappingTree(Protocol):
    """What can be asked which files its processes have mapped."""

    def mapped(self, wanted: Wanted) -> frozenset[str]:
        """Return the paths whose file names are ``wanted``."""


class MappedFiles:
    """Collects what a tree has mapped, at every look."""

    def __init__(self, wanted: Wanted) -> None:
        """Collect files whose names (without folder) are ``wanted``."""
        self._wanted = wanted
        self._cost = 0.0
        self.looks = 0
        self.paths: frozenset[str] = frozenset()

    def look(self, tree: MappingTree) -> None:
        """Look once."""
        start = time.perf_counter()
        self.paths |= tree.mapped(self._wanted)
        self.looks += 1
        self._cost = time.perf_counter() - start

    def pause(self) -> float:
        """Return how long to wait before the next look."""
        return max(min(FIRST * 2.0 ** min(self.looks, 10), LONGEST), self._cost / SHARE)


def mapped_by(pid: int, wanted: Wanted) -> set[str]:
    """Return the wanted files that a process of Linux has mapped as code; none of one that has ended."""
    found: set[str] = set()
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
            columns = line.split(None, _COLUMNS - 1)
            if len(columns) == _COLUMNS and b"x" in columns[1]:
                path = columns[-1].decode("utf-8", "surrogateescape").removesuffix(_GONE)
                if path.startswith("/") and wanted(path.rpartition("/")[2]):
                    found.add(path)
    return found


#: The token of a process that is there and cannot be asked: another user's, or one with more rights.
UNKNOWN: Final = "unknown"
_NAME: Final = re.compile(r"([0-9]{1,10})-([0-9A-Za-z]{1,64})")

StartTime = Callable[[int], str | None]

#: Process id to parent, session and state letter.
Table = dict[int, tuple[int, int, str]]


def processes() -> Table:
    """Return every process of this machine that we may see."""
    table = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):  # it has ended meanwhile
                stat = (entry / "stat").read_bytes()
                state, parent, _, session = stat[stat.rindex(b")") + 2 :].split()[:4]
                table[int(entry.name)] = (int(parent), int(session), state.decode())
    return table


def children(table: Table, parent: int) -> list[int]:
    """Return a process's direct children, ended but not yet reaped ones included."""
    return [pid for pid, (its_parent, _, _) in table.items() if its_parent == parent]


def has_children() -> bool:
    """Whether this process has children, ended but not yet reaped ones included.

    The kernel's own short list says it without a look at every process of the machine. A list that is not
    empty may lack some, because it changes while it is read; that it is empty is certain.
    """
    try:
        return any((task / "children").read_bytes() for task in Path("/proc/self/task").iterdir())
    except OSError:  # a kernel without these lists, or a thread of ours that ends just now
        return True


def listed_children(pid: int) -> list[int]:
    """Return a process's children by the kernel's own short lists, which may lack one that is starting."""
    found: list[int] = []
    with suppress(OSError, ValueError):  # it has ended meanwhile, or the kernel has no such lists
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_bytes().split())
    return found


def process_start_time(pid: int) -> str | None:
    """Return a token that no later process with this id shares, or ``None`` if there is none.

    On Linux it is the kernel's own tick count since boot and the boot's identity, because a start
    *time* moves when the clock is set; on Windows the creation time, which is fixed, or ``UNKNOWN``.
    """
    if sys.platform == "win32":
        from scripts.osal.winapi import creation_time  # noqa: PLC0415 - Windows alone has it

        try:
            made = creation_time(pid)
        except PermissionError:
            return UNKNOWN
        return None if made is None else str(made)
    return _ticks(pid)


class User(Struct, frozen=True):
    """A process, distinct from any later one with the same id."""

    pid: int
    start: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.pid}-{self.start}"


def this_process() -> User:
    """Return the calling process as a user."""
    return User(os.getpid(), process_start_time(os.getpid()) or "0")


def running(name: str, *, start_time: StartTime = process_start_time) -> User | None:
    """Return the user of that name if its process still runs, as far as this user can know."""
    match = _NAME.fullmatch(name)
    user = User(int(match[1]), match[2]) if match else None
    return user if user is not None and start_time(user.pid) in {user.start, UNKNOWN} else None


def _ticks(pid: int) -> str | None:
    """Read field 22 of ``/proc/PID/stat``; the name before it may hold spaces and brackets."""
    try:
        fields = (Path("/proc") / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return None
    if fields[0] in {b"Z", b"X"}:
        return None
    return f"{boot[:8]}{fields[19].decode()}"
