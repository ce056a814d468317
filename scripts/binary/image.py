"""What a program or library says about itself: one shape for PE and ELF."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


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
        overlay: where the sections end; what follows belongs to no section.
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
    overlay: int = 0
    faults: tuple[str, ...] = ()


#: What to do with a program that is damaged.
ANEW: Final = "install it anew: the file is damaged"


class Unreadable(Struct, frozen=True, kw_only=True):
    """A file that is no PE or ELF, or is damaged beyond its headers.

    ``then`` says what a person may name instead; empty where nothing is known.
    """

    reason: str
    then: str = ""
