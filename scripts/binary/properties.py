"""What a program or library says of itself at one look: its processor, its version, its company."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pefile

#: Enough of a file for both formats.
HEAD: Final = 4096

_PE: Final = {0x8664: "x86_64", 0x014C: "x86", 0xAA64: "aarch64", 0x01C4: "arm"}
_ELF: Final = {62: "x86_64", 3: "x86", 183: "aarch64", 40: "arm"}
_BIG_ENDIAN: Final = 2
_PE32: Final = 0x10B
_CLR_DIRECTORY: Final = 96 + 14 * 8


def machine_of(head: bytes) -> str:
    """Return ``x86_64``, ``x86``, ``aarch64`` or ``arm``; empty where unknown.

    A 32-bit .NET image is such a case: Windows may run it as a 64-bit process.
    """
    try:
        if head[:4] == b"\x7fELF":
            order = ">" if head[5] == _BIG_ENDIAN else "<"
            return _ELF.get(struct.unpack_from(order + "H", head, 18)[0], "")
        if head[:2] == b"MZ":
            return _pe(head)
    except (struct.error, IndexError):
        return ""
    return ""


def _pe(head: bytes) -> str:
    """Follow the pointer to the PE header."""
    (start,) = struct.unpack_from("<I", head, 0x3C)
    if head[start : start + 4] != b"PE\0\0":
        return ""
    machine = _PE.get(struct.unpack_from("<H", head, start + 4)[0], "")
    (magic,) = struct.unpack_from("<H", head, start + 24)
    if machine == "x86" and magic == _PE32 and struct.unpack_from("<I", head, start + 24 + _CLR_DIRECTORY)[0]:
        return ""
    return machine


def file_version(path: Path) -> str | None:
    """Return the numeric file version (``10.0.3679.0``), or ``None`` where a file has none or is no PE."""
    for info in getattr(_with_resources(path), "VS_FIXEDFILEINFO", ()):
        high, low = info.FileVersionMS, info.FileVersionLS
        return f"{high >> 16}.{high & 0xFFFF}.{low >> 16}.{low & 0xFFFF}"
    return None


def company(path: Path) -> str:
    """Return the company a version resource names; empty where a file has none or is no PE."""
    parts = (part for parts in getattr(_with_resources(path), "FileInfo", ()) for part in parts)
    tables = (table for part in parts for table in getattr(part, "StringTable", ()))
    names = (table.entries.get(b"CompanyName", b"") for table in tables)
    return next((name.decode("utf-8", "replace") for name in names if name), "")


def _with_resources(path: Path) -> pefile.PE | None:
    """Read a PE file's resources and close it; ``None`` where it is none."""
    import pefile  # noqa: PLC0415 - slow to import, and most runs read no such file

    try:
        with pefile.PE(str(path), fast_load=True) as image:
            image.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_RESOURCE"]])
            return image
    except (OSError, pefile.PEFormatError, ValueError, AttributeError):
        return None  # an empty file cannot be mapped: ValueError
