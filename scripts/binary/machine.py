"""Which processor a program or library is made for, from its first bytes."""

from __future__ import annotations

import struct
from typing import Final

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
