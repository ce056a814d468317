"""Processes: the table that ``/proc`` shows (Linux), and what tells one from a later one with its number."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

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
    """Return a process's direct children."""
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


def children_of(parent: int) -> list[int]:
    """Return a process's direct children now, ended but not yet reaped ones included."""
    return children(processes(), parent)


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
