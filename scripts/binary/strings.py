"""One pass over a file's data: names of libraries in it, and places of given bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from scripts.binary.image import FileBytes, Format, Section

CHUNK: Final = 1 << 20
OVERLAP: Final = 256
#: No file's data is worth more than this; the answer then says that it is not complete.
MAX_BYTES: Final = 1 << 30
MAX_NAMES: Final = 4096
MAX_HITS: Final = 1 << 20
#: So many ends of names are looked at; a file of nothing else is no library.
MAX_ENDS: Final = 1 << 20
#: The word before an ending, read backwards: forwards it would cost the square of its length.
_BEFORE: Final = re.compile(rb"[A-Za-z0-9_.+\-]{1,100}")
_WIDE_BEFORE: Final = re.compile(rb"(?:\0[A-Za-z0-9_.+\-]){1,100}")
#: How a library's name ends: the first group in one byte a letter, the second in two.
_ENDINGS: Final[Mapping[Format, bytes]] = {
    Format.PE: rb"([dD][lL][lL])|(\0[dD]\0[lL]\0[lL]\0)",
    Format.ELF: rb"(so(?:\.\d{1,5}){0,3})|((?!))",
}


class Swept(Struct):
    """What one pass found: library names (``.dll`` in lower case, ``.so`` as written), offsets by needle."""

    names: set[str] = field(default_factory=set)
    hits: dict[str, list[int]] = field(default_factory=dict)
    limit: str = ""

    @property
    def complete(self) -> bool:
        """Whether no limit ended the pass; ``limit`` says which one, in numbers."""
        return not self.limit


def sweep(
    source: FileBytes, spans: Iterable[Section], form: Format, needles: Mapping[str, bytes] | None = None
) -> Swept:
    """Read the spans once, in pieces, and collect names and needles; the cost is linear in bytes."""
    found = Swept(hits={name: [] for name in needles or {}})
    dotted = {name: needle for name, needle in (needles or {}).items() if needle.startswith(b".")}
    others = {name: needle for name, needle in (needles or {}).items() if name not in dotted}
    # A regular expression that begins with one byte is the fastest search of all here, and serves many ends.
    groups = b"".join(b"|(" + re.escape(needle[1:]) + b")" for needle in dotted.values())
    pattern = re.compile(rb"\.(?:" + _ENDINGS[form] + groups + b")")
    ends = 0
    for first, chunk in _pieces(source, spans, found):
        for match in pattern.finditer(chunk):
            kind = match.lastindex or 0
            ends += 1
            if ends > MAX_ENDS:
                found.limit = f"it names more libraries than the {MAX_ENDS:,} that were looked at"
                return found
            if kind > 2:  # noqa: PLR2004 - the groups of the endings
                _hit(found, list(dotted)[kind - 3], first + match.start())
            else:
                _name(found, chunk, match, form, wide=kind == 2)  # noqa: PLR2004 - as above
        for name, needle in others.items():
            place = chunk.find(needle)
            while place >= 0:
                _hit(found, name, first + place)
                place = chunk.find(needle, place + 1)
    return found


def words(source: FileBytes, spans: Sequence[Section], heads: str) -> tuple[set[str], bool]:
    """Return the whole texts in the spans that begin like a function of a library, and whether that is all.

    A text is whole between NULs; ``heads`` is a regular expression for how its functions begin.
    """
    pattern = re.compile(rb"\0((?:" + heads.encode() + rb")[A-Za-z0-9_]{1,100})(?=\0)")
    found = Swept()
    for first, chunk in _pieces(source, spans, found):
        at_start = any(first == span.offset for span in spans)
        for match in pattern.finditer(b"\0" + chunk if at_start else chunk):
            _add(found, match[1])
    return found.names, found.complete


def _pieces(source: FileBytes, spans: Iterable[Section], found: Swept) -> Iterator[tuple[int, bytes]]:
    """Yield the spans in overlapping pieces, each with its place in the file, within the limit."""
    left = MAX_BYTES
    spans = tuple(spans)
    for span in spans:
        for start in range(span.offset, span.offset + span.size, CHUNK):
            if left <= 0:
                whole = sum(s.size for s in spans) >> 20
                found.limit = f"{MAX_BYTES >> 20:,} of the {whole:,} MiB of its data were searched"
                return
            size = min(CHUNK, span.offset + span.size - start)
            left -= size
            first = max(span.offset, start - OVERLAP)
            yield first, source.read(first, size + start - first)


def _name(found: Swept, chunk: bytes, match: re.Match[bytes], form: Format, *, wide: bool) -> None:
    """Take the word before a name's ending: ``.dll`` in any case, ``.so`` with its version."""
    before = chunk[max(0, match.start() - 200) : match.start()][::-1]
    read = (_WIDE_BEFORE if wide else _BEFORE).match(before)
    if read is None:
        return
    word, ending = read[0][:: -2 if wide else -1], match[0].replace(b"\0", b"")
    _add(found, (word + ending).lower() if form is Format.PE else word + ending)
    if wide and before[read.end() : read.end() + 1].strip(b"\0"):
        # The last letter of a text in one byte a letter, and its NUL, look like the first letter of this one.
        _add(found, (word[1:] + ending).lower())


def _add(found: Swept, word: bytes) -> None:
    if len(found.names) >= MAX_NAMES:
        found.limit = f"the first {MAX_NAMES:,} names of libraries in it were kept"
        return
    found.names.add(word.decode("ascii"))


def _hit(found: Swept, name: str, place: int) -> None:
    """Note where a needle lies in the file, each place once although pieces overlap."""
    hits = found.hits[name]
    if hits and place <= hits[-1]:
        return
    if len(hits) >= MAX_HITS:
        found.limit = f"the first {MAX_HITS:,} places of device code in its data were kept"
        return
    hits.append(place)
