"""Which files a tree of processes was seen to have in memory: looked at now and then, so never complete."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

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
