"""Windows programs and libraries. pefile reads the headers; tables are walked here, within limits."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pefile
from msgspec import Struct, field
from msgspec.structs import replace

from scripts.binary.image import REINSTALL, FileBytes, Format, Image, Needed, Section, Unreadable
from scripts.binary.properties import machine_of

HEADERS: Final = 1 << 16
MAX_LIBRARIES: Final = 1024
MAX_FUNCTIONS: Final = 65_536
MAX_EXPORTS: Final = 1 << 20
MAX_NAME: Final = 4096
MAX_MANIFEST: Final = 1 << 16
_PLUS: Final = 0x20B
_SECTION: Final = struct.Struct("<8s4I12xI")
_SIGNATURE_AND_HEADER: Final = 24
_DLL: Final = 0x2000
_FORCE_INTEGRITY: Final = 0x0080
_GUI: Final = 2
_CODE: Final = 0x20
_SYSTEM32_ONLY: Final = 0x800
_EXPORT, _IMPORT, _RESOURCE, _CONFIG, _DELAY, _CLR = 0, 1, 2, 10, 13, 14
_MANIFEST: Final = 24
_MAX_ENTRIES: Final = 1024
_LEVELS: Final = 3
_FOLDER: Final = 0x8000_0000
#: What pefile is known to let through on damaged headers, beside its own error.
_DAMAGED: Final = (ValueError, AttributeError, IndexError, KeyError, TypeError, OverflowError, struct.error)


class _Open(Struct, kw_only=True):
    """An open file, the few header fields that matter, and what was found wrong."""

    source: FileBytes
    plus: bool
    base: int
    characteristics: int
    dll_characteristics: int
    subsystem: int
    spans: tuple[tuple[int, int, int], ...]
    sections: tuple[Section, ...]
    directories: tuple[tuple[int, int], ...]
    faults: list[str] = field(default_factory=list)
    budget: int = MAX_FUNCTIONS

    def offset(self, address: int) -> int:
        """Return where an address lies in the file, -1 where it does not."""
        for start, size, offset in self.spans:
            if start <= address < start + size:
                return offset + address - start
        return -1

    def read(self, address: int, size: int) -> bytes:
        """Read at an address."""
        return self.source.read(self.offset(address), size)

    def text(self, address: int) -> str:
        """Read a NUL-terminated name at an address."""
        at = self.offset(address)
        name = self.source.text(at)
        return name if len(name) < 512 else self.source.text(at, MAX_NAME)  # noqa: PLR2004 - text's own limit

    def directory(self, number: int) -> tuple[int, int]:
        """Return address and size of a data directory; (0, 0) where there is none."""
        return self.directories[number] if number < len(self.directories) else (0, 0)


def read_pe(path: Path, *, exports: bool = False) -> Image | Unreadable:
    """Read one PE file. Damage never raises: it is named in ``faults`` or by ``Unreadable``.

    ``exports`` also lists what it exports, which takes time where that is much.

    Raises:
        OSError: the file cannot be opened or read.
    """
    with FileBytes(path) as source:
        try:
            # The headers alone: given the whole file, pefile maps it, and collects garbage to let it go.
            opened = _opened(source, pefile.PE(data=source.read(0, HEADERS), fast_load=True))
        except pefile.PEFormatError as error:
            return Unreadable(reason=f"it is no PE file: {error.value}")
        except _DAMAGED:
            return Unreadable(reason="its PE headers are damaged", then=REINSTALL)
        return _image(opened, exports=exports)


def _opened(source: FileBytes, image: pefile.PE) -> _Open:
    """Take what is needed out of pefile's objects; sections it leaves out where they lie beyond its data."""
    optional = image.OPTIONAL_HEADER
    header_size = min(optional.SizeOfHeaders, 1 << 20)
    rows = list(_section_rows(source, image))
    return _Open(
        source=source,
        plus=optional.Magic == _PLUS,
        base=optional.ImageBase,
        characteristics=image.FILE_HEADER.Characteristics,
        dll_characteristics=optional.DllCharacteristics,
        subsystem=optional.Subsystem,
        spans=(*((address, s.size, s.offset) for address, s in rows), (0, header_size, 0)),
        sections=tuple(section for _, section in rows),
        directories=tuple((d.VirtualAddress, d.Size) for d in optional.DATA_DIRECTORY),
    )


def _section_rows(source: FileBytes, image: pefile.PE) -> Iterator[tuple[int, Section]]:
    start = image.DOS_HEADER.e_lfanew + _SIGNATURE_AND_HEADER + image.FILE_HEADER.SizeOfOptionalHeader
    table = source.read(start, _SECTION.size * image.FILE_HEADER.NumberOfSections)
    for row in _SECTION.iter_unpack(table[: len(table) // _SECTION.size * _SECTION.size]):
        name, _virtual, address, size, offset, flags = row
        title = name.split(b"\0", 1)[0].decode("ascii", "backslashreplace")
        # Windows rounds the place in the file down to 512.
        yield address, Section(name=title, offset=offset & ~0x1FF, size=size, code=bool(flags & _CODE))


def _image(at: _Open, *, exports: bool) -> Image:
    size = at.source.size
    needed = (*_imports(at), *_delayed(at))
    names, forwards = _exports(at, names=exports)
    for section in at.sections:
        if section.size and section.offset + section.size > size:
            at.faults.append(f"section {section.name} ends after the file does")
    return Image(
        format=Format.PE,
        machine=machine_of(at.source.read(0, 4096)),
        library=bool(at.characteristics & _DLL),
        needed=needed,
        exports=names,
        forwards=forwards,
        sections=(*_inside(at.sections, size), *_names_heap(at)),
        managed=at.directory(_CLR)[0] != 0,
        manifest=_manifest(at).decode("utf-8", "replace"),
        force_integrity=bool(at.dll_characteristics & _FORCE_INTEGRITY),
        system_only=_system_only(at),
        gui=at.subsystem == _GUI,
        faults=tuple(dict.fromkeys(at.faults)),
    )


def _inside(sections: tuple[Section, ...], size: int) -> tuple[Section, ...]:
    """Cut sections where the file ends."""
    return tuple(
        replace(s, offset=min(s.offset, size), size=max(0, min(s.size, size - s.offset))) for s in sections
    )


def _imports(at: _Open) -> list[Needed]:
    found = []
    for entry in _entries(at, _IMPORT, 20, "import"):
        names, _stamp, _chain, name, first = struct.unpack("<5I", entry)
        if not name or not (names or first):
            break
        found.append(Needed(library=at.text(name), functions=_functions(at, names or first)))
    return [n for n in found if n.library]


def _delayed(at: _Open) -> list[Needed]:
    """Walk the delay-load table; old ones hold addresses where new ones hold offsets from the base."""
    found = []
    for entry in _entries(at, _DELAY, 32, "delay-load"):
        attributes, name, _handle, _addresses, names = struct.unpack_from("<5I", entry)
        if not name:
            break
        base = 0 if attributes & 1 else at.base
        functions = _functions(at, names - base, base=base)
        found.append(Needed(library=at.text(name - base), functions=functions, delayed=True))
    return [n for n in found if n.library]


def _entries(at: _Open, directory: int, size: int, name: str) -> Iterator[bytes]:
    """Yield the entries of a table of libraries, whose end the caller knows."""
    address = at.directory(directory)[0]
    for number in range(MAX_LIBRARIES if address else 0):
        entry = at.read(address + size * number, size)
        if len(entry) < size:
            at.faults.append(f"the {name} table ends after the file does")
            return
        yield entry


def _functions(at: _Open, address: int, *, base: int = 0) -> tuple[str, ...]:
    """Walk one list of imported functions, within what is left of the budget."""
    width, flag = (8, 1 << 63) if at.plus else (4, 1 << 31)
    found: list[str] = []
    while at.budget > 0:
        chunk = at.read(address + width * len(found), width * 256)
        values = struct.unpack(
            f"<{len(chunk) // width}{'Q' if at.plus else 'I'}", chunk[: len(chunk) // width * width]
        )
        for value in values:
            if not value or at.budget <= 0:
                return tuple(found)
            at.budget -= 1
            found.append(f"#{value & 0xFFFF}" if value & flag else at.text(value - base + 2))
        if not values:
            at.faults.append("a list of imported functions ends after the file does")
            return tuple(found)
    at.faults.append(f"more than {MAX_FUNCTIONS} functions are imported; the rest was not read")
    return tuple(found)


def _exports(at: _Open, *, names: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the exported names and the libraries that exports are forwarded to."""
    start, size = at.directory(_EXPORT)
    table = at.read(start, 40) if start else b""
    if len(table) < 40:  # noqa: PLR2004 - the size of the table
        return (), ()
    functions, count, at_functions, at_names = struct.unpack_from("<4I", table, 20)
    pointers = _numbers(at, at_functions, functions)
    forwards = {at.text(p).rpartition(".")[0] for p in pointers if start <= p < start + size}
    exports = [at.text(p) for p in _numbers(at, at_names, count)[:MAX_FUNCTIONS]] if names else []
    return tuple(filter(None, exports)), tuple(sorted(filter(None, forwards)))


def _numbers(at: _Open, address: int, count: int) -> tuple[int, ...]:
    """Read a list of 32-bit numbers, within limits."""
    data = at.read(address, 4 * min(count, MAX_EXPORTS))
    return struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])


def _system_only(at: _Open) -> bool:
    """Whether the load configuration sends the loader to the system folder alone."""
    address = at.directory(_CONFIG)[0]
    place = 0x4E if at.plus else 0x36
    flags = at.read(address + place, 2) if address else b""
    size = at.read(address, 4) if address else b""
    if len(flags) < 2 or len(size) < 4 or struct.unpack("<I", size)[0] < place + 2:  # noqa: PLR2004 - field sizes
        return False
    return bool(struct.unpack("<H", flags)[0] & _SYSTEM32_ONLY)


def _names_heap(at: _Open) -> tuple[Section, ...]:
    """Return a .NET image's heap of names as the section ``#Strings``: imported modules are in it."""
    address = at.directory(_CLR)[0]
    header = at.read(address, 16) if address else b""
    if len(header) < 16:  # noqa: PLR2004 - the size of what is read
        return ()
    (root,) = struct.unpack_from("<I", header, 8)
    metadata = at.read(root, 4096)
    if metadata[:4] != b"BSJB" or len(metadata) < 20:  # noqa: PLR2004 - the fixed part
        return ()
    place = 16 + (struct.unpack_from("<I", metadata, 12)[0] & 0xFFFF)
    if place + 4 > len(metadata):
        return ()
    (streams,) = struct.unpack_from("<H", metadata, place + 2)
    place += 4
    for _ in range(min(streams, 16)):
        if place + 9 > len(metadata):
            break
        offset, size = struct.unpack_from("<II", metadata, place)
        name = metadata[place + 8 : place + 40].split(b"\0", 1)[0]
        if name == b"#Strings" and (start := at.offset(root + offset)) >= 0:
            return (Section(name="#Strings", offset=start, size=max(0, min(size, at.source.size - start))),)
        place += 8 + (len(name) // 4 + 1) * 4
    return ()


def _manifest(at: _Open) -> bytes:
    """Return the first manifest among the resources, cut at a limit; empty where there is none."""
    root = at.directory(_RESOURCE)[0]
    if not root:
        return b""
    place = 0
    for level in range(_LEVELS):
        leads = _resource_entry(at, root + place, _MANIFEST if level == 0 else None)
        if leads is None:
            return b""
        place = leads
        if not place & _FOLDER:
            break
        place &= ~_FOLDER
    data = at.read(root + place, 8)
    if len(data) < 8:  # noqa: PLR2004 - address and size
        return b""
    address, size = struct.unpack("<II", data)
    return at.read(address, min(size, MAX_MANIFEST))


def _resource_entry(at: _Open, folder: int, wanted: int | None) -> int | None:
    """Return where an entry of one folder leads: the wanted one, or the first."""
    head = at.read(folder, 16)
    if len(head) < 16:  # noqa: PLR2004 - the size of a folder's head
        return None
    named, numbered = struct.unpack_from("<HH", head, 12)
    table = at.read(folder + 16, 8 * min(named + numbered, _MAX_ENTRIES))
    for identity, place in struct.iter_unpack("<II", table[: len(table) // 8 * 8]):
        if wanted is None or identity == wanted:
            return int(place)
    return None
