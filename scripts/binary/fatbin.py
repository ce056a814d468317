"""CUDA fat binaries: containers of PTX and machine code. NVIDIA documents none of this.

The layout was read from files made by nvcc 13.0 and from public packages of CUDA 11, 12 and 13; the flags
that say how code is packed are those that ZLUDA unpacks by (vosen/ZLUDA@6f068f2, dark_api.rs). A value that
was never seen stays "unknown" and is counted as such.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from scripts.binary.image import FileBytes

MAGIC: Final = struct.pack("<I", 0xBA55ED50)
MAX_ENTRIES: Final = 1_000_000
_HEAD: Final = 16
_ENTRY: Final = struct.Struct("<HHIQIIHHIIIQQQ")
_LEAST: Final = 64
_KINDS: Final = {1: "ptx", 2: "sass", 8: "lto"}
_GAP: Final = 1 << 16
#: Bits of an entry's flags: how its code is packed, and from the 20th on which letter follows the number.
_LZ4, _ZSTD = 1 << 13, 1 << 15
_LETTER: Final = 20
_LETTERS: Final = ("", "a", "f", "a")


class Packing(StrEnum):
    """How an entry's code is stored."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    UNKNOWN = "unknown"


class Entry(NamedTuple):
    """One entry.

    Attributes:
        kind: ``ptx``, ``sass``, ``lto`` (code that only linking turns into machine code) or ``unknown``.
        sm: the processor's number.
        isa: PTX's version, else empty.
        offset: where its code lies in the file, ``size`` bytes as stored.
        letter: ``a`` for one processor alone, ``f`` for its family alone, else empty.
        whole: the size of its code unpacked, as the entry claims.
    """

    kind: str
    sm: int
    isa: str
    offset: int
    size: int
    letter: str = ""
    packing: Packing = Packing.NONE
    whole: int = 0


class Container(NamedTuple):
    """One container; the code of one translation unit. ``fault`` is empty where all of it was read."""

    offset: int
    entries: tuple[Entry, ...]
    fault: str


class Containers(Struct, frozen=True, kw_only=True):
    """Every container of a span; ``complete`` is false where a limit or damage ended the reading."""

    found: tuple[Container, ...] = ()
    complete: bool = True


def read_containers(source: FileBytes, start: int, size: int) -> Containers:
    """Walk the containers between ``start`` and ``start + size``; their code is not read."""
    found: list[Container] = []
    end, place, entries = min(start + size, source.size), start, 0
    while (place := _next(source, place, end)) >= 0:
        container, place = _container(source, place, end, MAX_ENTRIES - entries)
        found.append(container)
        entries += len(container.entries) + 1
        if entries >= MAX_ENTRIES:
            return Containers(found=tuple(found), complete=False)
    return Containers(found=tuple(found), complete=not any(c.fault for c in found))


def read_container(source: FileBytes, place: int, limit: int = MAX_ENTRIES) -> Container | None:
    """Read the one container that begins at ``place``, ``None`` where none does."""
    if source.read(place, 4) != MAGIC:
        return None
    return _container(source, place, source.size, limit)[0]


def _next(source: FileBytes, place: int, end: int) -> int:
    """Return where the next container begins, -1 where none does."""
    place = -(-place // 8) * 8
    if source.read(place, 4) == MAGIC and place + _HEAD <= end:
        return place
    while place + _HEAD <= end:
        chunk = source.read(place, min(_GAP, end - place))
        hit = chunk.find(MAGIC)
        while hit >= 0 and (place + hit) % 8:
            hit = chunk.find(MAGIC, hit + 1)
        if hit >= 0:
            return place + hit
        if len(chunk) < _GAP:
            break
        place += _GAP - 8  # a multiple of 8: the magic may lie across two pieces
    return -1


def _container(source: FileBytes, place: int, end: int, limit: int) -> tuple[Container, int]:
    """Read one container's entries; return it and where to look on."""
    version, head, size = struct.unpack("<HHQ", source.read(place + 4, 12).ljust(12, b"\0"))
    if version != 1 or head < _HEAD:
        return Container(place, (), f"container version {version} is not known"), place + 8
    stop = place + head + size
    fault = "it ends after its section does" if stop > end else ""
    entries: list[Entry] = []
    at, last = place + head, min(stop, end) - _LEAST
    while at <= last:
        if len(entries) >= limit:
            return Container(place, tuple(entries), "it has too many entries"), end
        data = source.read(at, _LEAST)
        entry, step = _entry(data, at) if len(data) == _LEAST else (None, 0)
        if entry is None:
            return Container(place, tuple(entries), "an entry's size is damaged"), at + 8
        entries.append(entry)
        at += step
    if at > stop and not fault:
        fault = "its last entry is larger than the container"
    return Container(place, tuple(entries), fault), max(min(stop, end), place + _HEAD)


def _entry(data: bytes, place: int) -> tuple[Entry | None, int]:
    """Read one entry's header; return it and the step to the next, ``None`` where the header is damaged."""
    number, _seen, head, size, packed, _options, minor, major, sm, _name, _length, flags, _more, whole = (
        _ENTRY.unpack(data)
    )
    if head < _LEAST:
        return None, 0
    kind = _KINDS.get(number, "unknown")
    packing = Packing.NONE
    if packed or flags & (_LZ4 | _ZSTD):
        packing = Packing.LZ4 if flags & _LZ4 else Packing.ZSTD if flags & _ZSTD else Packing.UNKNOWN
    isa = f"{major}.{minor}" if kind == "ptx" else ""
    stored = packed if 0 < packed < size else size
    letter = _LETTERS[flags >> _LETTER & 3]
    return Entry(kind, sm, isa, place + head, stored, letter, packing, whole), head + size
