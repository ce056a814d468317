"""How libraries are searched for, and the one walk over what files ask for.

Each file is read once, surer and shorter ways come first. Which names a file asks for, and which folders are
searched for them, the caller says; the walk knows order, chains and limits.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

#: Names that Windows serves by itself, whatever files there are.
_API_SETS: Final = ("api-ms-", "ext-ms-")
#: How sure it is that a library is loaded: when the program starts, or when it is first used.
AT_START: Final = 0
DELAYED: Final = 1
#: Files that are read at most.
MAX_FILES: Final = 4000


def is_api_set(name: str) -> bool:
    """Whether Windows serves a name without a file."""
    return name.lower().startswith(_API_SETS)


def asked_name(text: str) -> str:
    """Return the file name of a library as it is asked for, with or without folders of either system."""
    return text.replace("\\", "/").rpartition("/")[2]


class WindowsFolders:
    """Folders as Windows searches them: in order, and names without regard to case. Each is listed once."""

    def __init__(self) -> None:
        """List nothing yet."""
        self._listings: dict[Path, dict[str, Path]] = {}

    def find(self, name: str, folders: Iterable[Path | None]) -> Path | None:
        """Return the first file of that name; ``None`` among the folders is passed over."""
        listings = (self.listing(folder) for folder in folders if folder is not None)
        return next((found for listing in listings if (found := listing.get(name.lower()))), None)

    def listing(self, folder: Path) -> Mapping[str, Path]:
        """Return what lies in a folder, by lower-case name; nothing where it cannot be listed."""
        if folder not in self._listings:
            try:
                self._listings[folder] = {path.name.lower(): path for path in folder.iterdir()}
            except (OSError, ValueError):
                self._listings[folder] = {}
        return self._listings[folder]


_TOKEN: Final = re.compile(r"\$\{(ORIGIN|LIB|PLATFORM)\}")
#: What ``$LIB`` stands for in RPATH and RUNPATH: it differs by distribution, so each is looked in (ld.so(8)).
_LIB_FOLDERS: Final = ("lib/x86_64-linux-gnu", "lib64", "lib")


def search_path(asker: Path, entries: Sequence[str]) -> Iterator[Path]:
    """Expand ``$ORIGIN``, ``$LIB`` and ``$PLATFORM`` in RPATH or RUNPATH.

    What depends on the current folder is left out.
    """
    for entry in entries:
        text = _TOKEN.sub(r"$\1", entry)
        text = text.replace("$ORIGIN", str(asker.parent)).replace("$PLATFORM", "x86_64")
        for folder in _LIB_FOLDERS if "$LIB" in text else ("",):
            expanded = text.replace("$LIB", folder)
            if "$" not in expanded and Path(expanded).is_absolute():
                yield Path(expanded)


class AskedName(Struct, frozen=True, kw_only=True):
    """A name that a file asks for, and the file it leads to: ``None`` where there is none.

    ``rank`` says how sure it is that it is loaded; 0 is surest.
    """

    name: str
    found: Path | None
    rank: int = AT_START


class ReachedFile(Struct, frozen=True, kw_only=True):
    """A file on the walk: its chain of names from the start, and the rank of the least sure step to it."""

    path: Path
    chain: tuple[str, ...]
    rank: int = AT_START


class NameNotFound(Struct, frozen=True, kw_only=True):
    """A name that leads to no file: who asks for it, and how sure it is that it is needed."""

    name: str
    asker: ReachedFile
    rank: int


#: Reads one file, and returns what it asks for.
Reader = Callable[[ReachedFile], Iterable[AskedName]]


class ImportWalk:
    """Follows names from file to file; iterating yields the names that lead nowhere.

    ``complete`` is false when a limit ended it.
    """

    def __init__(self, read: Reader, *, limit: int = MAX_FILES) -> None:
        """Start with nothing to read."""
        self.complete = True
        self._read, self._limit = read, limit
        self._queue: list[tuple[int, int, int, ReachedFile]] = []
        self._seen: set[Path] = set()
        self._serial = 0

    def add(self, path: Path, *, chain: tuple[str, ...] = (), rank: int = AT_START) -> None:
        """Read a file when its turn comes. One file under two names is read once."""
        self._serial += 1
        real = path.resolve() if path.is_symlink() else path
        reached = ReachedFile(path=real, chain=chain or (path.name,), rank=rank)
        heapq.heappush(self._queue, (rank, len(reached.chain), self._serial, reached))

    def __iter__(self) -> Iterator[NameNotFound]:
        """Read files until there is none left."""
        while self._queue:
            *_, file = heapq.heappop(self._queue)
            if file.path in self._seen:
                continue
            if len(self._seen) >= self._limit:
                self.complete = False
                return
            self._seen.add(file.path)
            yield from self._follow(file)

    def _follow(self, file: ReachedFile) -> Iterator[NameNotFound]:
        """Read one file, and remember what it leads to."""
        for asked in self._read(file):
            rank = max(file.rank, asked.rank)
            if asked.found is None:
                yield NameNotFound(name=asked.name, asker=file, rank=rank)
            else:
                self.add(asked.found, chain=(*file.chain, asked.found.name), rank=rank)
