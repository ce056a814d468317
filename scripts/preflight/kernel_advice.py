"""Which of the kernels that are missing matter, and how a program can do without them.

A kernel matters more where another file of the program mentions it: by a whole text in its data that is the
kernel's name, or by a function that it imports and whose name the kernel's begins with.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Final

from msgspec import Struct, convert
from msgspec.structs import replace

from scripts.binary.image import FileBytes, Image, read_image
from scripts.osal.text import count_of
from scripts.preflight.kernels import KernelFate, KernelStore, demangled
from scripts.preflight.libraries import named
from scripts.preflight.needs import Closure
from scripts.preflight.unusable import FileKernels, plain_name
from scripts.serialize import JsonRecord, data_table

#: So many bytes of the files that may mention a kernel are searched, and so many of their functions are kept.
MAX_SEARCHED: Final = 1 << 28
MAX_FUNCTIONS: Final = 200_000
#: Shorter names are in every file.
SHORTEST: Final = 6
#: A bare name, of a kernel or a function, is no hint unless it is so long.
SHORTEST_FUNCTION: Final = 8
_PIECE: Final = 1 << 20
_OVERLAP: Final = 4096
_TEXT: Final = re.compile(rb"(?<=\0)[A-Za-z_][A-Za-z0-9_$]{%d,2000}(?=\0)" % (SHORTEST - 1))


class AvoidRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of ``avoid.toml``.

    Attributes:
        id: its name.
        files: the libraries that it is about, and ``kernels`` in them.
        avoids: what is not used then.
        set: environment variables.
        do: an option or setting of the program's own.
        source: who shows that it works so.
    """

    id: str
    files: re.Pattern[str]
    kernels: re.Pattern[str]
    avoids: str
    source: str
    set: dict[str, str] = {}
    do: str = ""


class Avoidance(JsonRecord, frozen=True, kw_only=True):
    """How a program does without some kernels: ``kernels`` of those that ``file`` misses."""

    row: AvoidRow
    file: str
    kernels: int

    JSON = "id=row.id file kernels avoids=row.avoids set=row.set do=row.do source=row.source"

    @property
    def sentence(self) -> str:
        """Say it, with what can be pasted."""
        row = self.row
        options = " ".join(f"--set={name}={value}" for name, value in row.set.items())
        how = f"`invoke wrap {options} …`" if options else row.do
        return f"To do without {row.avoids} ({count_of(self.kernels, 'kernel')} in {self.file}): {how}"


def avoidances(files: Sequence[FileKernels]) -> tuple[Avoidance, ...]:
    """Return how the kernels that files miss can be avoided, what avoids most first."""
    found: list[Avoidance] = []
    for file in files:
        name = file.path.name
        rows = [row for row in _ways() if row.files.fullmatch(name)] if file.tally.missing else []
        counts = _counts(rows, [demangled(fate.name) for fate in file.tally.missing] if rows else [])
        found += [Avoidance(row=r, file=name, kernels=counts[r.id]) for r in rows if r.id in counts]
    return tuple(sorted(found, key=lambda one: (-one.kernels, one.row.id)))


def _counts(rows: Sequence[AvoidRow], names: Sequence[str]) -> dict[str, int]:
    """Count by row the kernels that belong to it: each to the first that fits."""
    firsts = (next((row.id for row in rows if row.kernels.search(name)), "") for name in names)
    return Counter(filter(None, firsts))


@cache
def _ways() -> tuple[AvoidRow, ...]:
    rows = data_table("avoid.toml")["way"]
    return convert(rows, tuple[AvoidRow, ...], dec_hook=lambda _, text: re.compile(text, re.IGNORECASE))


def with_mentioned(
    files: Sequence[FileKernels], closure: Closure, store: KernelStore
) -> tuple[FileKernels, ...]:
    """Put the missing kernels first that another file of the program mentions, and name them."""
    return tuple(_with_mentioned(file, closure, store) if file.tally.missing else file for file in files)


def _with_mentioned(file: FileKernels, closure: Closure, store: KernelStore) -> FileKernels:
    """Look for one file's kernels in the others; the answer is kept until one of these changes."""
    others = _others(file, closure)
    if not others:
        return file
    missing = file.tally.missing
    key = _key(missing, others)
    names = store.note(key)
    if names is None:
        names = tuple(sorted(_mentioned(missing, others)))
        store.put_note(key, names)
    first = frozenset(names)
    order = sorted(missing, key=lambda fate: fate.name not in first)
    return replace(file, tally=replace(file.tally, missing=tuple(order)), mentioned=first)


def _others(file: FileKernels, closure: Closure) -> list[Path]:
    """Return the files that may ask for a file's kernels: those that import it, else all that surely load."""
    name = file.path.name.lower()
    programs = [
        v for v in closure.visited if v.facts.format and v.path != file.path and not named(v.path.name)
    ]
    askers = [v for v in programs if any(ask.library.lower() == name for ask in v.facts.asks)]
    return [v.path for v in askers or (v for v in programs if v.how != "package")]


def _key(missing: Sequence[KernelFate], others: Sequence[Path]) -> str:
    """Name a question by what its answer depends on."""
    digest = hashlib.sha256()
    for path in others:
        try:
            status = path.stat()
        except OSError:
            continue
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    for fate in missing:
        digest.update(f"{fate.name}\n".encode())
    return digest.hexdigest()


def _mentioned(missing: Sequence[KernelFate], others: Sequence[Path]) -> set[str]:
    """Return the kernels that files mention; both bounds are for all files together."""
    plain: dict[str, list[str]] = {}
    for fate in missing:
        short = plain_name(fate.name)
        words = (fate.name, short if len(short) >= SHORTEST_FUNCTION else fate.name)
        for word in dict.fromkeys(words):
            plain.setdefault(word, []).append(fate.name)
    texts, functions, left = set[str](), set[str](), MAX_SEARCHED
    for path in others:
        image = read_image(path) if left > 0 else None
        if not isinstance(image, Image):
            continue
        try:
            with FileBytes(path) as source:
                for piece in _pieces(source, image, left):
                    left -= len(piece)
                    texts.update(word for word in map(bytes.decode, _TEXT.findall(piece)) if word in plain)
        except OSError:
            continue
        names = chain((name for needed in image.needed for name in needed.functions), image.undefined)
        functions.update(map(plain_name, islice(names, MAX_FUNCTIONS - len(functions))))
    texts |= _begun(plain, functions)
    return {name for word in texts for name in plain[word]}


def _begun(words: Collection[str], functions: Collection[str]) -> set[str]:
    """Return the words that begin with a function's name; both are sorted, so that no pair is tried."""
    order, found, last = sorted(words), set[str](), ""
    for function in sorted(name for name in functions if len(name) >= SHORTEST_FUNCTION):
        if last and function.startswith(last):  # its words are found already
            continue
        last, at = function, bisect_left(order, function)
        while at < len(order) and order[at].startswith(function):
            found.add(order[at])
            at += 1
    return found


def _pieces(source: FileBytes, image: Image, most: int) -> Iterator[bytes]:
    """Yield a file's data where names may stand, at most so many bytes; a text lies whole in one piece."""
    for section in image.sections:
        if section.code or section.name.startswith(
            (".nv", "__nv", ".debug", ".symtab", ".strtab", ".dynstr")
        ):
            continue
        end = section.offset + section.size
        for start in range(section.offset, end, _PIECE):
            first = max(section.offset, start - _OVERLAP)
            lead = b"\0" if first == section.offset else b""
            piece = lead + source.read(first, max(0, min(min(end, start + _PIECE) - first, most - len(lead))))
            if len(piece) <= len(lead):
                break
            most -= len(piece)
            yield piece
