"""Which library is really missing: Windows names the first of a chain, not the one at its end. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.doctor.machine import Line, Status

#: Names that Windows answers by itself, whatever files there are.
VIRTUAL: Final = ("api-ms-", "ext-ms-")
#: Files that are read at most; no program's start-up needs more.
MOST: Final = 600


class Missing(Struct, frozen=True, kw_only=True):
    """A library that nobody has: its name, and the chain of files that leads to it."""

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
    queue: deque[tuple[Path, tuple[str, ...]]] = deque((path, (path.name,)) for path in start)
    seen, told = set(start), set[str]()
    while queue and len(seen) <= MOST:
        path, chain = queue.popleft()
        for name in needs(path):
            lower = name.lower()
            if lower.startswith(VIRTUAL) or lower in told:
                continue
            found = find(path, name)
            if found is None:
                told.add(lower)
                yield Missing(name=name, chain=chain)
            elif found not in seen:
                seen.add(found)
                queue.append((found, (*chain, name)))


def missing_lines(missing: Iterable[Missing]) -> Iterator[Line]:
    """Say which libraries are missing, and who asks for them."""
    for item in missing:
        text = f"{item.name} is nowhere on the search path; it is needed by {' > '.join(item.chain)}"
        yield Line(status=Status.FAIL, topic="program", text=text, looked_at="the chain of imports")
