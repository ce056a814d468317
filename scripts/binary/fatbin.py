"""CUDA fat binaries: containers of PTX and machine code. NVIDIA documents none of this.

The layout was read from files made by nvcc 13.0 and from public Windows packages; a value that was never
seen stays "unknown" and is counted as such.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from scripts.binary.source import FileBytes

MAGIC: Final = struct.pack("<I", 0xBA55ED50)
MAX_ENTRIES: Final = 1_000_000
MAX_PTX: Final = 1 << 24
_HEAD: Final = 16
_ENTRY: Final = struct.Struct("<HHIQIIHHI")
_LEAST: Final = 64
_PTX, _ELF = 1, 2
_GAP: Final = 1 << 16
_CUDA: Final = 190
_ABI_SM_IN_SECOND_BYTE: Final = 8
_PTX_VERSION: Final = re.compile(rb"\.version\s+(\d{1,2}\.\d{1,2})")
_PTX_TARGET: Final = re.compile(rb"\.target\s+sm_(\d{1,4})[a-z]?")
_PTX_ENTRY: Final = re.compile(rb"\.entry\s")


class Entry(NamedTuple):
    """One entry: ``kind`` is ``ptx``, ``sass`` or ``unknown``; ``isa`` is PTX's version, else empty."""

    kind: str
    sm: int
    isa: str
    offset: int
    size: int
    compressed: bool


class Container(NamedTuple):
    """One container; the code of one translation unit. ``fault`` is empty where all of it was read."""

    offset: int
    entries: tuple[Entry, ...]
    fault: str


@dataclass(frozen=True, kw_only=True)
class Containers:
    """Every container of a span; ``complete`` is false where a limit or damage ended the reading."""

    found: tuple[Container, ...] = ()
    complete: bool = True


def read_containers(source: FileBytes, start: int, size: int) -> Containers:
    """Walk the containers between ``start`` and ``start + size``; payloads are not read."""
    found: list[Container] = []
    end, place, entries = min(start + size, source.size), start, 0
    while (place := _next(source, place, end)) >= 0:
        container, place = _container(source, place, end, MAX_ENTRIES - entries)
        found.append(container)
        entries += len(container.entries) + 1
        if entries >= MAX_ENTRIES:
            return Containers(found=tuple(found), complete=False)
    return Containers(found=tuple(found), complete=not any(c.fault for c in found))


def read_container(source: FileBytes, place: int) -> Container | None:
    """Read the one container that begins at ``place``, ``None`` where none does."""
    if source.read(place, 4) != MAGIC:
        return None
    return _container(source, place, source.size, MAX_ENTRIES)[0]


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
    at = place + head
    while at + _LEAST <= min(stop, end):
        if len(entries) >= limit:
            return Container(place, tuple(entries), "it has too many entries"), end
        entry, step = _entry(source, at)
        if step < _LEAST:
            return Container(place, tuple(entries), "an entry's size is damaged"), at + 8
        entries.append(entry)
        at += step
    if at > stop and not fault:
        fault = "its last entry is larger than the container"
    return Container(place, tuple(entries), fault), max(min(stop, end), place + _HEAD)


def _entry(source: FileBytes, place: int) -> tuple[Entry, int]:
    """Read one entry's header; return it and the step to the next, 0 where the header is damaged."""
    data = source.read(place, _ENTRY.size)
    if len(data) < _ENTRY.size:
        return Entry("unknown", 0, "", place, 0, compressed=False), 0
    kind, _seen, head, size, packed, _options, minor, major, sm = _ENTRY.unpack(data)
    name = {_PTX: "ptx", _ELF: "sass"}.get(kind, "unknown")
    isa = f"{major}.{minor}" if kind == _PTX else ""
    step = head + size if head >= _LEAST else 0
    return Entry(name, sm, isa, place + head, size, compressed=packed != 0), step


def read_cubin(source: FileBytes, offset: int = 0) -> Entry | None:
    """Read a bare cubin (an ELF file for NVIDIA's machine), ``None`` where there is none."""
    head = source.read(offset, 64)
    if head[:4] != b"\x7fELF" or len(head) < 64 or struct.unpack_from("<H", head, 18)[0] != _CUDA:  # noqa: PLR2004 - the size of an ELF header
        return None
    (flags,) = struct.unpack_from("<I", head, 48)
    sm = flags >> 8 & 0xFF if head[8] >= _ABI_SM_IN_SECOND_BYTE else flags & 0xFF
    return Entry("sass", sm, "", offset, source.size - offset, compressed=False)


def read_ptx(text: bytes, offset: int = 0) -> Entry | None:
    """Read the head of PTX text, ``None`` where it names no version and target."""
    version, target = _PTX_VERSION.search(text), _PTX_TARGET.search(text)
    if version is None or target is None:
        return None
    return Entry("ptx", int(target[1]), version[1].decode(), offset, len(text), compressed=False)


def kernels_in(source: FileBytes, entry: Entry) -> int | None:
    """Count the kernels of an entry that is stored as it is; ``None`` where that cannot be seen.

    A cubin has one section of code for each kernel, and for each device function that was not inlined,
    so its number is an upper bound. PTX text says ``.entry``.
    """
    if entry.compressed:
        return None
    if entry.kind == "ptx":
        return len(_PTX_ENTRY.findall(source.read(entry.offset, min(entry.size, MAX_PTX))))
    return _code_sections(source, entry.offset, entry.size) if entry.kind == "sass" else None


def _code_sections(source: FileBytes, start: int, size: int) -> int | None:
    """Count a cubin's sections of code by its tables alone; ``None`` where they are damaged."""
    head = source.read(start, 64)
    if head[:5] != b"\x7fELF\x02" or len(head) < 64:  # noqa: PLR2004 - the size of an ELF header
        return None
    (table,) = struct.unpack_from("<Q", head, 40)
    width, count, names = struct.unpack_from("<HHH", head, 58)
    if width != 64 or table + width * count > size or names >= count:  # noqa: PLR2004 - the size of a section header
        return None
    headers = source.read(start + table, width * count)
    if len(headers) < width * count:
        return None
    at, length = struct.unpack_from("<QQ", headers, width * names + 24)
    text = source.read(start + at, min(length, size, MAX_PTX))
    places = [struct.unpack_from("<I", headers, width * number)[0] for number in range(count)]
    if not text.startswith(b".shstrtab", places[names]):
        return None
    return sum(1 for place in places if text.startswith(b".text.", place))
