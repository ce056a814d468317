"""Which library is really missing: Windows names the first of a chain, not the one at its end. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.binary.imports import AskedName, ImportWalk, ReachedFile, is_api_set
from scripts.doctor.machine import Line, Status

#: Files that are read at most; no program's start-up needs more.
MOST: Final = 600


class Missing(Struct, frozen=True, kw_only=True):
    """A library that is nowhere: its name, and the chain of files that leads to it."""

    name: str
    chain: tuple[str, ...]


def missing_libraries(
    start: Sequence[Path],
    needs: Callable[[Path], Iterable[str]],
    find: Callable[[Path, str], Path | None],
) -> Iterator[Missing]:
    """Follow imports from some files and name each library that is not found, once.

    Args:
        start: the program, and libraries that it loads later.
        needs: the names that a file imports at its start.
        find: where the loader would find a name that a file asks for.
    """

    def read(file: ReachedFile) -> Iterator[AskedName]:
        for name in needs(file.path):
            if not is_api_set(name):
                yield AskedName(name=name, found=find(file.path, name))

    walk, named = ImportWalk(read, limit=MOST), set[str]()
    for path in start:
        walk.add(path)
    for lost in walk:
        if lost.name.lower() not in named:
            named.add(lost.name.lower())
            yield Missing(name=lost.name, chain=lost.asker.chain)


def missing_lines(missing: Iterable[Missing]) -> Iterator[Line]:
    """Say which libraries are missing, and who asks for them."""
    for item in missing:
        text = f"{item.name} is nowhere on the search path; it is needed by {' > '.join(item.chain)}"
        yield Line(status=Status.FAIL, topic="program", text=text, looked_at="the chain of imports")
