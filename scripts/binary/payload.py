"""The code inside a fat binary: unpacked as far as a question needs it, and every PTX text of a file."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from msgspec import Struct

from scripts.binary.fatbin import Container, Entry, Packing
from scripts.binary.image import FileBytes

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor


#: What one entry may become, and what is unpacked of one file for each of its bytes.
MAX_WHOLE: Final = 1 << 26
GROWTH: Final = 8
_LEAST_BUDGET: Final = 1 << 24
#: So many entries of one file are looked into.
MAX_LOOKS: Final = 1 << 20
#: A table of names that opens a cubin is this long in most files, and hardly ever longer than the second.
_HEADS: Final = (1 << 16, 1 << 22)
#: zstd unpacks whole blocks of up to 128 KiB.
_BLOCKS: Final = 1 << 18
_CUDA: Final = 190
_HEADER: Final = 64
_SECTION: Final = 64
_NEW_ABI: Final = 8
_ACCELERATED: Final = 0x800
_MAX_NOTE: Final = 1 << 16
_NAMES: Final = b"\0.shstrtab\0"
#: The name of a section of code. The names of symbols, which follow, have some of them once more.
_CODE: Final = re.compile(rb"\0\.text\.([^\0]+)")
#: What follows both, the table of symbols, begins with an empty one.
_SYMBOLS: Final = b"\0" * 16
_PTX_VERSION: Final = re.compile(rb"\.version\s+(\d{1,2}\.\d{1,2})")
_PTX_TARGET: Final = re.compile(rb"\.target\s+sm_(\d{1,4})([a-z]?)")
_PTXAS_TARGET: Final = re.compile(rb"-arch sm_(\d{1,4})([a-z]?)")


class Unopened(Struct, frozen=True, kw_only=True):
    """Why an entry's code could not be looked into; ``damaged`` is false where a limit of ours is why."""

    reason: str
    damaged: bool = True


class Readable(Protocol):
    """Bytes at a place: a file's, or those of code that was unpacked."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes at ``offset``."""


class _Held:
    """Unpacked code as a file would be read."""

    def __init__(self, data: bytes) -> None:
        """Keep it."""
        self.data = data

    def read(self, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes at ``offset``."""
        return self.data[offset : offset + size] if offset >= 0 else b""


class Opener:
    """Unpacks entries of one file; all of it together costs no more than the file's size allows."""

    def __init__(self, source: FileBytes, *, budget: int = 0) -> None:
        """Open nothing yet; ``budget`` is how many bytes may be unpacked, by default what the size allows."""
        self._source = source
        self._budget = self._left = budget or max(GROWTH * source.size, _LEAST_BUDGET)
        self._looks = MAX_LOOKS

    def kernels(self, entry: Entry) -> int | Unopened:
        """Count the kernels of an entry of machine code.

        A cubin has one section of code for each kernel, and for each device function that was not inlined,
        so its number is an upper bound.
        """
        self._looks -= 1
        if self._looks < 0:
            return Unopened(reason=f"the file has more than {MAX_LOOKS} entries", damaged=False)
        if entry.packing is Packing.NONE:
            return _counted(_code_sections(self._source, entry.offset, entry.size))
        return self._packed_kernels(entry)

    def _packed_kernels(self, entry: Entry) -> int | Unopened:
        """Count the kernels of packed machine code: by the names that open it, else by its tables."""
        for size in _HEADS:
            head = self.head(entry, size)
            if isinstance(head, Unopened):
                return head
            if read_cubin(_Held(head), 0) is None:
                return Unopened(reason="it unpacks to something else than machine code")
            if (number := _code_names(head)) is not None:
                return number
            if entry.packing is Packing.LZ4 or len(head) < size:
                return _counted(_code_sections(_Held(head), 0, len(head)))
        whole = self.head(entry, MAX_WHOLE)
        return whole if isinstance(whole, Unopened) else _counted(_code_sections(_Held(whole), 0, len(whole)))

    def told(self, entry: Entry) -> Entry:
        """Return an entry of a kind that is not known as what its first bytes show it to be."""
        self._looks -= 1
        head = self.head(entry, _HEADER * 16) if self._looks >= 0 else b""
        if isinstance(head, Unopened):
            return entry
        shown = read_cubin(_Held(head), 0) or read_ptx(head)
        return entry if shown is None else entry._replace(kind=shown.kind, isa=shown.isa)

    def text(self, entry: Entry) -> bytes | Unopened:
        """Return one PTX text."""
        if entry.packing is Packing.NONE and entry.size > MAX_WHOLE:
            return Unopened(reason=f"it is larger than {MAX_WHOLE >> 20} MiB", damaged=False)
        return self.head(entry, entry.whole or entry.size)

    def head(self, entry: Entry, size: int) -> bytes | Unopened:
        """Return the first ``size`` bytes of an entry's code, or all where that is less.

        LZ4 gives all or nothing, so there it may be more than asked for.
        """
        if entry.packing is Packing.NONE:
            return self._source.read(entry.offset, min(size, entry.size))
        if entry.packing is Packing.UNKNOWN:
            return Unopened(reason="it is packed in a way that is not known")
        wanted = min(size, entry.whole) if entry.packing is Packing.ZSTD else entry.whole
        if wanted > MAX_WHOLE or entry.size > MAX_WHOLE:
            return Unopened(reason=f"it is larger than {MAX_WHOLE >> 20} MiB", damaged=False)
        if wanted > self._left:
            return Unopened(reason=f"it unpacks to more than {self._budget >> 20} MiB", damaged=False)
        self._left -= wanted
        return (
            _lz4(self._source, entry) if entry.packing is Packing.LZ4 else _zstd(self._source, entry, wanted)
        )


def _lz4(source: FileBytes, entry: Entry) -> bytes | Unopened:
    """Unpack one block; its size is known beforehand and cannot be exceeded."""
    import lz4.block  # noqa: PLC0415 - most runs unpack nothing: the cache answers

    try:
        data = lz4.block.decompress(source.read(entry.offset, entry.size), uncompressed_size=entry.whole)
    except (lz4.block.LZ4BlockError, ValueError, OverflowError, MemoryError):
        return Unopened(reason="its LZ4 data is damaged")
    return bytes(data) if len(data) == entry.whole else Unopened(reason="its LZ4 data has another size")


def _zstd(source: FileBytes, entry: Entry, size: int) -> bytes | Unopened:
    """Unpack as much of a stream as was asked for; of what is packed no more is read than that can need."""
    import zstandard  # noqa: PLC0415 - as above

    stored = source.read(entry.offset, min(entry.size, size + _BLOCKS))
    try:
        with _zstd_opener().stream_reader(stored) as stream:
            data = stream.read(size)
    except (zstandard.ZstdError, MemoryError):
        return Unopened(reason="its zstd data is damaged")
    return data if len(data) == size and size else Unopened(reason="its zstd data ends too early")


@cache
def _zstd_opener() -> ZstdDecompressor:
    """Return the one that serves all: making one takes longer than most streams."""
    from zstandard import ZstdDecompressor  # noqa: PLC0415 - as above

    return ZstdDecompressor(max_window_size=MAX_WHOLE)


def read_cubin(source: Readable, size: int, offset: int = 0) -> Entry | None:
    """Read a bare cubin (an ELF file for NVIDIA's machine), ``None`` where there is none.

    Its letter stands in flags where the ABI is old (llvm/llvm-project, BinaryFormat/ELF.h), else in the note
    that the assembler left.
    """
    head = source.read(offset, _HEADER)
    if head[:4] != b"\x7fELF" or len(head) < _HEADER or struct.unpack_from("<H", head, 18)[0] != _CUDA:
        return None
    (flags,) = struct.unpack_from("<I", head, 48)
    if head[8] < _NEW_ABI:
        return Entry("sass", flags & 0xFF, "", offset, size, "a" if flags & _ACCELERATED else "")
    sm = flags >> 8 & 0xFF
    note = _PTXAS_TARGET.search(_section(source, offset, size, b".note.nv.tkinfo"))
    letter = note[2].decode() if note is not None and int(note[1]) == sm else ""
    return Entry("sass", sm, "", offset, size, letter)


def read_ptx(text: bytes, offset: int = 0) -> Entry | None:
    """Read the head of PTX text, ``None`` where it names no version and target."""
    version, target = _PTX_VERSION.search(text), _PTX_TARGET.search(text)
    if version is None or target is None:
        return None
    return Entry("ptx", int(target[1]), version[1].decode(), offset, len(text), target[2].decode())


def _counted(number: int | None) -> int | Unopened:
    """Say where there is no number why."""
    return Unopened(reason="its tables cannot be read", damaged=False) if number is None else number


def _code_names(head: bytes) -> int | None:
    """Count a cubin's sections of code by the names that open it; ``None`` where they do not, or go on."""
    end = head.find(_SYMBOLS, _HEADER)
    if head[_HEADER : _HEADER + len(_NAMES)] != _NAMES or end < 0:
        return None
    return len(set(_CODE.findall(head, _HEADER, end + 1)))


def _sections(source: Readable, start: int, size: int) -> tuple[list[tuple[int, int, int]], bytes]:
    """Return place of name, offset and size of a cubin's sections, and their names; nothing where damaged."""
    head = source.read(start, _HEADER)
    if head[:5] != b"\x7fELF\x02" or len(head) < _HEADER:
        return [], b""
    (table,) = struct.unpack_from("<Q", head, 40)
    width, count, names = struct.unpack_from("<HHH", head, 58)
    if width != _SECTION or table + width * count > size or names >= count:
        return [], b""
    headers = source.read(start + table, width * count)
    if len(headers) < width * count:
        return [], b""
    rows = [struct.unpack_from("<I20xQQ", headers, width * number) for number in range(count)]
    place, at, length = rows[names]
    text = source.read(start + at, min(length, size, MAX_WHOLE))
    return (rows, text) if text.startswith(b".shstrtab", place) else ([], b"")


def _code_sections(source: Readable, start: int, size: int) -> int | None:
    """Count a cubin's sections of code by its tables alone; ``None`` where they are damaged."""
    rows, names = _sections(source, start, size)
    return sum(1 for place, _, _ in rows if names.startswith(b".text.", place)) if rows else None


def _section(source: Readable, start: int, size: int, wanted: bytes) -> bytes:
    """Return the bytes of a cubin's section, none where it has no such section."""
    rows, names = _sections(source, start, size)
    for place, at, length in rows:
        if names.startswith(wanted + b"\0", place):
            return source.read(start + at, min(length, _MAX_NOTE))
    return b""


#: So much text is unpacked of one file; real libraries have up to 300 MB.
MAX_TEXT: Final = 1 << 31
_PIECE: Final = 1 << 20


class PtxGroup(NamedTuple):
    """The PTX entries of one container in their order, and how many containers have exactly these."""

    entries: tuple[Entry, ...]
    copies: int


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
    end = min(entry.offset + entry.size, source.size)  # an entry may claim any size
    for at in range(entry.offset, end, _PIECE):
        yield source.read(at, min(_PIECE, end - at))
