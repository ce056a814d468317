"""The smallest Windows library that carries a version resource."""

from __future__ import annotations

import struct

_RVA = 0x1000
_RAW = 0x200


def library(version: tuple[int, int, int, int]) -> bytes:
    """Return the bytes of a 64-bit PE file whose only content is its file version."""
    info = _version_info(version)
    # Three directories (type 16, name 1, language 0x409), one data entry, then the resource.
    resource = b""
    for number, target in ((16, 0x80000018), (1, 0x80000030), (0x409, 0x48)):
        resource += struct.pack("<IIHHHH", 0, 0, 0, 0, 0, 1) + struct.pack("<II", number, target)
    resource += struct.pack("<IIII", _RVA + 0x58, len(info), 0, 0) + info
    raw = resource.ljust(0x400, b"\0")
    headers = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64)
    headers += b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x2022)
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, 0, len(raw), 0, 0, _RVA)
    optional += struct.pack(
        "<QIIHHHHHHIIIIHH", 0x180000000, _RVA, _RAW, 6, 0, 0, 0, 6, 0, 0, 0x2000, _RAW, 0, 3, 0
    )
    optional += struct.pack("<QQQQII", 0x100000, 0x1000, 0x100000, 0x1000, 0, 16)
    directories = [(0, 0)] * 16
    directories[2] = (_RVA, len(resource))
    optional += b"".join(struct.pack("<II", *entry) for entry in directories)
    section = b".rsrc\0\0\0" + struct.pack(
        "<IIIIIIHHI", len(resource), _RVA, len(raw), _RAW, 0, 0, 0, 0, 0x40000040
    )
    return (headers + optional + section).ljust(_RAW, b"\0") + raw


def _version_info(version: tuple[int, int, int, int]) -> bytes:
    """Return a VS_VERSIONINFO block with nothing but the fixed part."""
    major, minor, build, revision = version
    key = "VS_VERSION_INFO\0".encode("utf-16-le")
    fixed = struct.pack("<IIII", 0xFEEF04BD, 0x10000, major << 16 | minor, build << 16 | revision)
    fixed += struct.pack("<9I", major << 16 | minor, build << 16 | revision, 0x3F, 0, 4, 2, 0, 0, 0)
    head = 6 + len(key)
    padding = b"\0" * (-head % 4)
    return struct.pack("<HHH", head + len(padding) + len(fixed), len(fixed), 0) + key + padding + fixed
