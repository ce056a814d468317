"""Every PTX text of a file, in whatever container and however it is packed: one at a time, each once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from scripts.binary.fatbin import Container, Entry
from scripts.binary.payload import MAX_WHOLE, Opener, Unopened
from scripts.binary.source import FileBytes

#: So much text is unpacked of one file; real libraries have up to 300 MB.
MAX_TEXT: Final = 1 << 31
_PIECE: Final = 1 << 20


class PtxGroup(NamedTuple):
    """The PTX entries of one container in their order, and how many containers have exactly these."""

    entries: tuple[Entry, ...]
    copies: int


class PtxReader:
    """Unpacks the PTX of one file within limits."""

    def __init__(self, source: FileBytes) -> None:
        """Unpack nothing yet."""
        self._source = source
        self._opener = Opener(source, budget=MAX_TEXT)

    def text(self, entry: Entry) -> bytes | Unopened:
        """Return one text."""
        if entry.packing == "none" and entry.size > MAX_WHOLE:
            return Unopened(reason=f"it is larger than {MAX_WHOLE >> 20} MiB", damaged=False)
        return self._opener.head(entry, entry.whole or entry.size)


def ptx_groups(source: FileBytes, containers: Iterable[Container]) -> tuple[tuple[PtxGroup, ...], str]:
    """Return the PTX of containers, equal ones once, and a name for all of it by its content.

    Only packed bytes are read. The name is empty where there is no PTX.
    """
    whole = hashlib.sha256()
    found: dict[bytes, tuple[tuple[Entry, ...], int]] = {}
    for container in containers:
        entries = tuple(entry for entry in container.entries if entry.kind == "ptx")
        if not entries:
            continue
        digest = hashlib.sha256()
        for entry in entries:
            digest.update(
                f"{entry.sm}{entry.letter} {entry.isa} {entry.packing} {entry.size} {entry.whole}\n".encode()
            )
            for piece in _pieces(source, entry):
                digest.update(piece)
        name = digest.digest()
        whole.update(name)
        first, copies = found.get(name, (entries, 0))
        found[name] = (first, copies + 1)
    groups = tuple(PtxGroup(entries, copies) for entries, copies in found.values())
    return groups, whole.hexdigest() if groups else ""


def text_entry(source: FileBytes, start: int, head: Entry) -> Entry:
    """Return an entry for a text that lies in other data: it goes on to the first NUL or the file's end."""
    at = start
    while at < source.size and at - start <= MAX_WHOLE:
        piece = source.read(at, _PIECE)
        end = piece.find(b"\0")
        if end >= 0 or not piece:
            at += max(end, 0)
            break
        at += len(piece)
    return head._replace(offset=start, size=at - start)


def outside(places: Sequence[int], containers: Iterable[Container]) -> list[int]:
    """Return the places that lie in no entry of the containers."""
    spans = sorted((e.offset, e.offset + e.size) for c in containers for e in c.entries)
    kept, at, reached = [], 0, 0
    for place in sorted(places):
        while at < len(spans) and spans[at][0] <= place:
            reached = max(reached, spans[at][1])
            at += 1
        if place >= reached:
            kept.append(place)
    return kept


def _pieces(source: FileBytes, entry: Entry) -> Iterator[bytes]:
    for at in range(entry.offset, entry.offset + entry.size, _PIECE):
        yield source.read(at, min(_PIECE, entry.offset + entry.size - at))
