"""One pass over a file's data: names of libraries in it, and places of given bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scripts.binary.image import Format, Section
from scripts.binary.source import FileBytes

CHUNK: Final = 1 << 20
OVERLAP: Final = 256
#: No file's data is worth more than this; the answer then says that it is not complete.
MAX_BYTES: Final = 1 << 28
MAX_NAMES: Final = 4096
MAX_HITS: Final = 65_536
_BEFORE: Final = re.compile(rb"[A-Za-z0-9_.+\-]{1,100}$")
_WIDE_BEFORE: Final = re.compile(rb"(?:[A-Za-z0-9_.+\-]\0){1,100}$")
_VERSION: Final = re.compile(rb"(?:\.\d{1,5}){0,3}")


@dataclass
class Swept:
    """What one pass found: library names (``.dll`` in lower case, ``.so`` as written), offsets by needle."""

    names: set[str] = field(default_factory=set)
    hits: dict[str, list[int]] = field(default_factory=dict)
    complete: bool = True


def sweep(
    source: FileBytes, spans: Iterable[Section], form: Format, needles: Mapping[str, bytes] | None = None
) -> Swept:
    """Read the spans once, in pieces, and collect names and needles; the cost is linear in bytes."""
    found = Swept(hits={name: [] for name in needles or {}})
    left = MAX_BYTES
    for span in spans:
        for start in range(span.offset, span.offset + span.size, CHUNK):
            if left <= 0:
                found.complete = False
                return found
            size = min(CHUNK, span.offset + span.size - start)
            left -= size
            first = max(span.offset, start - OVERLAP)
            chunk = source.read(first, size + start - first)
            (_dll_names if form is Format.PE else _so_names)(chunk, found)
            for name, needle in (needles or {}).items():
                _hits(chunk, first, needle, found, name)
    return found


def _dll_names(chunk: bytes, found: Swept) -> None:
    """Collect ``name.dll`` in any case, in one byte or two bytes a letter."""
    lower = chunk.lower()
    for place in _places(lower, b".dll"):
        _add(found, lower[max(0, place - 100) : place], b".dll")
    for place in _places(lower, b".\0d\0l\0l\0"):
        wide = _WIDE_BEFORE.search(lower[max(0, place - 200) : place])
        _add(found, wide[0][::2] if wide else b"", b".dll")


def _so_names(chunk: bytes, found: Swept) -> None:
    """Collect ``libname.so`` with its version."""
    for place in _places(chunk, b".so"):
        tail = _VERSION.match(chunk, place + 3)
        _add(found, chunk[max(0, place - 100) : place], b".so" + (tail[0] if tail else b""))


def _places(chunk: bytes, needle: bytes) -> Iterable[int]:
    """Yield where a needle lies."""
    place = chunk.find(needle)
    while place >= 0:
        yield place
        place = chunk.find(needle, place + 1)


def _add(found: Swept, before: bytes, suffix: bytes) -> None:
    """Take the word before a suffix."""
    word = _BEFORE.search(before)
    if word is None:
        return
    if len(found.names) >= MAX_NAMES:
        found.complete = False
        return
    found.names.add((word[0] + suffix).decode("ascii"))


def _hits(chunk: bytes, first: int, needle: bytes, found: Swept, name: str) -> None:
    """Note where a needle lies in the file, each place once although pieces overlap."""
    hits = found.hits[name]
    for place in _places(chunk, needle):
        if hits and first + place <= hits[-1]:
            continue
        if len(hits) >= MAX_HITS:
            found.complete = False
            return
        hits.append(first + place)
