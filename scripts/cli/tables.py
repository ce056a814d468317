"""Tables of plain text: columns that fit, prose that folds between words, and no word that is ever broken.

A hash, an id or a path is one word. To a pipe or a file each row is one line. On a terminal too narrow for
the longest words, a row becomes a block: its first cell, then the others by name.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from scripts.osal.text import visible

GAP: Final = 2
#: The last column folds down to this; a longer word in it goes beyond the edge, where a terminal wraps it.
NARROWEST_PROSE: Final = 24
NARROWEST: Final = 20


def terminal_width() -> int:
    """Return how many columns the terminal has; ``COLUMNS`` says otherwise."""
    return shutil.get_terminal_size((80, 24)).columns


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None) -> Iterator[str]:
    """Yield the lines of a table.

    A line feed in a cell, as of a file's name, is spelled. Without a ``width`` (the terminal's) nothing
    folds.
    """
    cells = [[" ".join(visible(cell).split()) for cell in row] for row in rows]
    natural = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    widths = natural if width is None else _fitted(columns, cells, natural, width)
    if not widths:
        yield from _blocks(columns, cells, width or 0)
        return
    yield _joined(columns, widths)
    yield _joined(["-" * size for size in widths], widths)
    for row in cells:
        folded = [_folded(cell, size) for cell, size in zip(row, widths, strict=True)]
        for number in range(max(map(len, folded))):
            yield _joined([part[number] if number < len(part) else "" for part in folded], widths)


def _fitted(
    columns: Sequence[str], cells: Sequence[Sequence[str]], natural: Sequence[int], width: int
) -> list[int]:
    """Return the widths with which the table fits; none where a word would have to be broken."""
    least = [_longest_word([name, *column]) for name, *column in zip(columns, *cells, strict=True)]
    least[-1] = min(least[-1], NARROWEST_PROSE)
    room = width - GAP * (len(columns) - 1)
    if sum(least) > room:
        return []
    widths = list(natural)
    while sum(widths) > room:
        widest = max((n for n in range(len(widths)) if widths[n] > least[n]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _longest_word(column: Sequence[str]) -> int:
    return max((len(word) for cell in column for word in cell.split()), default=0)


def _folded(cell: str, width: int) -> list[str]:
    return textwrap.wrap(cell, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return (" " * GAP).join(cell.ljust(size) for cell, size in zip(cells, widths, strict=True)).rstrip()


def _blocks(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    column = max(map(len, columns[1:]), default=0) + GAP
    for row in cells:
        yield row[0]
        for name, cell in zip(columns[1:], row[1:], strict=True):
            if cell:
                head, *rest = _folded(cell, max(width - column - 4, NARROWEST))
                yield f"    {name.ljust(column)}{head}"
                yield from (f"    {' ' * column}{line}" for line in rest)
