"""The table of processes as ``/proc`` shows it (Linux)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

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


def children_of(parent: int) -> list[int]:
    """Return a process's direct children now, ended but not yet reaped ones included."""
    return children(processes(), parent)
