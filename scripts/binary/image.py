"""Programs and libraries of either format in one shape, known by their first bytes, read within limits."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, Self

from msgspec import Struct

from scripts.serialize import data_table

BLOCK: Final = 4096
#: Small reads that march on by no more than this are cheaper read through than skipped.
STRIDE: Final = 1 << 15
AHEAD: Final = 1 << 18


class FileBytes:
    """A file read piece by piece; what lies beyond its end reads as nothing.

    Small reads near each other cost one system call. Nothing stays mapped, so memory does not grow
    with the file.

    Raises:
        OSError: the file cannot be opened or read.
    """

    def __init__(self, path: Path) -> None:
        """Open the file."""
        self._file = path.open("rb", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size
        self._start = 0
        self._block = b""
        self._ahead = BLOCK

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self._file.close()

    def read(self, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes at ``offset``; fewer, or none, where the file ends."""
        start = offset - self._start
        if size > 0 and start >= 0 and start + size <= len(self._block):
            return self._block[start : start + size]
        if offset < 0 or size <= 0 or offset >= self.size:
            return b""
        if size > BLOCK:
            return self._load(offset, min(size, self.size - offset))
        marching = 0 <= start - len(self._block) <= STRIDE or 0 <= start < len(self._block)
        self._ahead = min(self._ahead * 2, AHEAD) if marching and self._block else BLOCK
        self._start = offset
        self._block = self._load(offset, min(self._ahead, self.size - offset))
        return self._block[:size]

    def _load(self, offset: int, size: int) -> bytes:
        """Read from the file; a system may give less than asked for."""
        self._file.seek(offset)
        data = self._file.read(size) or b""
        while len(data) < size and (more := self._file.read(size - len(data))):
            data += more
        return data

    def text(self, offset: int, limit: int = 512) -> str:
        """Return the NUL-terminated text at ``offset``, cut at ``limit`` bytes; odd bytes are escaped."""
        return self.read(offset, limit).split(b"\0", 1)[0].decode("utf-8", "backslashreplace")


class Format(StrEnum):
    """The two formats."""

    PE = "pe"
    ELF = "elf"


class Section(Struct, frozen=True, kw_only=True):
    """A named run of bytes in the file."""

    name: str
    offset: int
    size: int
    code: bool = False


class Needed(Struct, frozen=True, kw_only=True):
    """A library this file asks for.

    Attributes:
        library: its file name as written.
        functions: what is imported from it; ``#12`` is an import by number. ELF names functions apart.
        delayed: it is loaded when first used, not when the program starts.
    """

    library: str
    functions: tuple[str, ...] = ()
    delayed: bool = False


class Image(Struct, frozen=True, kw_only=True):
    """One PE or ELF file.

    Attributes:
        machine: as ``machine_of`` says it; empty where unknown.
        library: it is a DLL or shared object, not a program.
        undefined: ELF: symbols that some library must bring.
        forwards: PE: libraries that answer for exports of this one.
        rpath: ELF: DT_RPATH, searched before everything; ``runpath`` after LD_LIBRARY_PATH.
        managed: PE: it is a .NET image.
        manifest: PE: the text of the application manifest, empty without one.
        force_integrity: PE: Windows loads it only with a valid signature.
        system_only: PE: the libraries it imports are looked for in the system folder alone.
        faults: what could not be read, sentence by sentence; the rest is right nevertheless.
    """

    format: Format
    machine: str
    library: bool
    needed: tuple[Needed, ...] = ()
    undefined: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    forwards: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    soname: str = ""
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    managed: bool = False
    manifest: str = ""
    force_integrity: bool = False
    system_only: bool = False
    gui: bool = False
    faults: tuple[str, ...] = ()


#: What to do with a program that is damaged.
REINSTALL: Final = "install it again: the file is damaged"


class Unreadable(Struct, frozen=True, kw_only=True):
    """A file that is no PE or ELF, or is damaged beyond its headers.

    ``then`` says what a person may name instead; empty where nothing is known.
    """

    reason: str
    then: str = ""


#: So much of a file is enough.
HEAD: Final = 512
_OPENED: Final = "name the program that opens it"
_TAR: Final = 257
_FAT_BINARY_COUNT: Final = 0x20


class Sniffed(NamedTuple):
    """What a file is, with its article, and what to do instead; ``then`` is empty where nothing is known."""

    what: str
    then: str = ""


_CONTROLS: Final = frozenset((*range(32), 127)) - frozenset(b"\t\n\r\f\x1b")


@cache
def _signs() -> tuple[tuple[bytes, Sniffed], ...]:
    rows = data_table("signs.toml")["sign"]
    return tuple((row["begins"].encode("latin-1"), Sniffed(row["what"], row.get("then", ""))) for row in rows)


def sniff(head: bytes, suffix: str) -> Sniffed:
    """Say what a file is by its first bytes; by the end of its name only where it is text."""
    if not head:
        return Sniffed("an empty file")
    if head.startswith(b"#!"):
        return _script(head)
    if head.startswith(b"\xca\xfe\xba\xbe"):  # a Java class says its version where a program its processors
        java = int.from_bytes(head[4:8], "big") >= _FAT_BINARY_COUNT
        return Sniffed("a Java class", "name java itself") if java else Sniffed("a program for macOS")
    known = next((what for sign, what in _signs() if head.startswith(sign)), None)
    if known is None and head[_TAR : _TAR + 5] == b"ustar":
        known = Sniffed("a tar archive", "unpack it and name the program in it")
    if known is not None:
        return known
    if not head.startswith((b"\xff\xfe", b"\xfe\xff")) and not _CONTROLS.isdisjoint(head):
        return Sniffed("data of a kind that is not known", _OPENED)
    scripts = (row for row in data_table("signs.toml")["script"] if row["ending"] == suffix.lower())
    return next((Sniffed(row["what"], row["then"]) for row in scripts), Sniffed("a text file", _OPENED))


#: A name that means itself in every shell.
_PLAIN_NAME: Final = re.compile(r"[\w.+-]+")


def _script(head: bytes) -> Sniffed:
    """Say what runs a script that names it in its first line."""
    words = head[2:128].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    names = [word.rpartition("/")[2] for word in words if not word.startswith("-")]
    runs = next((name for name in names if name != "env"), "")
    if not _PLAIN_NAME.fullmatch(runs):
        return Sniffed("a script", "name the program that it starts")
    return Sniffed(f"a script for {runs}", f"name what runs it, --exe={runs}, or the program that it starts")


def read_image(path: Path, *, exports: bool = False) -> Image | Unreadable:
    """Read a PE or ELF file, or say why it is neither. Never raises.

    ``exports`` also lists what a PE file exports (an ELF file's are always there).
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
        if head[:2] == b"MZ":
            from scripts.binary.pe import read_pe  # noqa: PLC0415 - most runs read nothing: the cache answers

            return read_pe(path, exports=exports)
        if head[:4] == b"\x7fELF":
            from scripts.binary.elf import read_elf  # noqa: PLC0415 - as above

            return read_elf(path)
    except OSError as error:
        return Unreadable(reason=f"it cannot be read: {error.strerror or error}")
    kind = sniff(head, path.suffix)
    return Unreadable(reason=f"it is {kind.what}", then=kind.then)
