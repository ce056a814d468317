"""Linux programs and libraries. pyelftools reads headers and sections; tables are read here, in bulk."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from elftools.common.exceptions import ELFError
from elftools.construct.core import ConstructError
from elftools.elf.elffile import ELFFile
from msgspec import Struct

from scripts.binary.image import REINSTALL, FileBytes, Format, Image, Needed, Section, Unreadable
from scripts.binary.properties import machine_of

MAX_SECTIONS: Final = 4096
MAX_SEGMENTS: Final = 512
MAX_DYNAMIC: Final = 4096
MAX_SYMBOLS: Final = 1 << 21
MAX_NAMES: Final = 1 << 28
_NEEDED, _STRTAB, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
_EXECUTABLE: Final = 4
_GLOBALS: Final = frozenset({1, 2, 10})
#: What pyelftools is known to let through on damaged files, beside its own error.
_DAMAGED: Final = (
    ELFError,
    ConstructError,
    struct.error,
    ValueError,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    AssertionError,
)


class _Outline(Struct, frozen=True, kw_only=True):
    """Where things lie: loadable parts (address, offset, size); sections, and which are dynamic symbols."""

    bits: int
    little: bool
    library: bool
    loads: tuple[tuple[int, int, int], ...]
    dynamic: tuple[int, int]
    sections: tuple[tuple[Section, bool], ...]
    faults: tuple[str, ...]

    def offset(self, address: int) -> int:
        """Return where an address lies in the file, -1 where it does not."""
        for start, offset, size in self.loads:
            if start <= address < start + size:
                return offset + address - start
        return -1


def read_elf(path: Path) -> Image | Unreadable:
    """Read one ELF file. Damage never raises: it is named in ``faults`` or by ``Unreadable``.

    Raises:
        OSError: the file cannot be opened or read.
    """
    try:
        with path.open("rb") as stream:
            outline = _outline(ELFFile(stream), path.stat().st_size)
    except _DAMAGED as error:
        return Unreadable(reason=f"its ELF headers are damaged ({type(error).__name__})", then=REINSTALL)
    except OSError as error:
        if error.errno != errno.EINVAL:  # an offset that no file can have
            raise
        return Unreadable(reason="its ELF headers lead beyond any file", then=REINSTALL)
    with FileBytes(path) as source:
        return _image(source, outline)


def _outline(elf: ELFFile, size: int) -> _Outline:
    """Take what is needed out of pyelftools' objects, within limits."""
    faults: list[str] = []
    loads, dynamic, interpreter = [], (0, 0), False
    for number in range(min(elf.num_segments(), MAX_SEGMENTS)):
        header = elf._get_segment_header(number)  # noqa: SLF001 - the public way builds and checks what we do not need
        if header["p_type"] == "PT_LOAD":
            loads.append((header["p_vaddr"], header["p_offset"], header["p_filesz"]))
        elif header["p_type"] == "PT_DYNAMIC":
            dynamic = (header["p_offset"], header["p_filesz"])
        interpreter = interpreter or header["p_type"] == "PT_INTERP"
    sections = list(_sections(elf, size, faults))
    return _Outline(
        bits=elf.elfclass,
        little=elf.little_endian,
        library=elf.header["e_type"] == "ET_DYN" and not interpreter,
        loads=tuple(loads),
        dynamic=dynamic,
        sections=tuple(sections),
        faults=tuple(faults),
    )


def _sections(elf: ELFFile, size: int, faults: list[str]) -> Iterator[tuple[Section, bool]]:
    """Yield every section that has bytes, and whether it holds the dynamic symbols."""
    if not elf.header["e_shoff"] or elf.header["e_shoff"] >= size:
        return
    count = elf.num_sections()
    if count > MAX_SECTIONS:
        faults.append(f"it claims {count} sections; {MAX_SECTIONS} were read")
    names = elf._get_section_header(elf.get_shstrndx())  # noqa: SLF001 - one table, read once
    for number in range(min(count, MAX_SECTIONS)):
        header = elf._get_section_header(number)  # noqa: SLF001 - as above
        kind = header["sh_type"]
        if kind in {"SHT_NULL", "SHT_NOBITS"}:
            continue
        offset, length = header["sh_offset"], header["sh_size"]
        elf.stream.seek(names["sh_offset"] + header["sh_name"])
        name = elf.stream.read(128).split(b"\0", 1)[0].decode("ascii", "backslashreplace")
        if offset + length > size:
            faults.append(f"section {name} ends after the file does")
            length = max(0, size - offset)
        code = bool(header["sh_flags"] & _EXECUTABLE)
        section = Section(name=name, offset=min(offset, size), size=length, code=code)
        yield section, kind == "SHT_DYNSYM"


def _image(source: FileBytes, outline: _Outline) -> Image:
    faults = list(outline.faults)
    tags = _tags(source, outline)
    table = outline.offset(next((value for tag, value in tags if tag == _STRTAB), 0))
    if tags and table < 0:
        faults.append("the table of names lies outside the file")

    def texts(wanted: int) -> list[str]:
        return [source.text(table + value, 4096) for tag, value in tags if tag == wanted and table >= 0]

    undefined, defined = _symbols(source, outline, faults)
    return Image(
        format=Format.ELF,
        machine=machine_of(source.read(0, 4096)),
        library=outline.library,
        needed=tuple(Needed(library=name) for name in texts(_NEEDED) if name),
        undefined=undefined,
        exports=defined,
        sections=tuple(section for section, _ in outline.sections),
        soname=next(iter(texts(_SONAME)), ""),
        rpath=tuple(part for text in texts(_RPATH) for part in text.split(":") if part),
        runpath=tuple(part for text in texts(_RUNPATH) for part in text.split(":") if part),
        faults=tuple(dict.fromkeys(faults)),
    )


def _order(outline: _Outline) -> str:
    """The byte order as ``struct`` writes it."""
    return "<" if outline.little else ">"


def _tags(source: FileBytes, outline: _Outline) -> list[tuple[int, int]]:
    """Return the dynamic table up to its end mark."""
    offset, size = outline.dynamic
    pair = _order(outline) + ("QQ" if outline.bits == 64 else "II")  # noqa: PLR2004 - the word size
    width = struct.calcsize(pair)
    data = source.read(offset, min(size, MAX_DYNAMIC * width))
    found = []
    for tag, value in struct.iter_unpack(pair, data[: len(data) // width * width]):
        if not tag:
            break
        found.append((tag, value))
    return found


def _symbols(
    source: FileBytes, outline: _Outline, faults: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of undefined and of defined dynamic symbols, each once."""
    table = next((s for s, symbols in outline.sections if symbols), None)
    names = next((s for s, _ in outline.sections if s.name == ".dynstr"), None)
    if table is None or names is None:
        return (), ()
    wide = outline.bits == 64  # noqa: PLR2004 - the word size
    entry = struct.Struct(_order(outline) + ("IBBHQQ" if wide else "IIIBBH"))
    if table.size > MAX_SYMBOLS * entry.size or names.size > MAX_NAMES:
        faults.append(f"it claims more than {MAX_SYMBOLS} symbols; they were not read")
        return (), ()
    data, text = source.read(table.offset, table.size), source.read(names.offset, names.size)
    undefined: dict[str, None] = {}
    defined: dict[str, None] = {}
    budget = len(text) + MAX_NAMES // 16  # overlapping names must not multiply the work
    for fields in entry.iter_unpack(data[: len(data) // entry.size * entry.size]):
        place, info, section = (
            (fields[0], fields[1], fields[3]) if wide else (fields[0], fields[3], fields[5])
        )
        end = text.find(b"\0", place)
        if not place or end < 0 or info >> 4 not in _GLOBALS:
            continue
        budget -= end - place
        if budget < 0:
            faults.append("its names overlap; the rest was not read")
            break
        name = text[place : min(end, place + 4096)].decode("utf-8", "backslashreplace")
        (defined if section else undefined)[name] = None
    return tuple(undefined), tuple(defined)
