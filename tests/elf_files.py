"""Small Linux files made of exactly what a test wants in them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence


def elf(
    *,
    needed: Sequence[str] = (),
    undefined: Sequence[str] = (),
    defined: Sequence[str] = (),
    soname: str = "",
    rpath: str = "",
    runpath: str = "",
    sections: Mapping[str, bytes] | None = None,
    program: bool = False,
    machine: int = 62,
) -> bytes:
    """Return an ELF64 file with a dynamic table; a program has an interpreter."""
    names = bytearray(b"\0")

    def name(text: str) -> int:
        place = len(names)
        names.extend(text.encode() + b"\0")
        return place

    tags = [(1, name(n)) for n in needed]
    tags += [(tag, name(text)) for tag, text in ((14, soname), (15, rpath), (29, runpath)) if text]
    symbols = b"\0" * 24
    symbols += b"".join(struct.pack("<IBBHQQ", name(n), 0x12, 0, 0, 0, 0) for n in undefined)
    symbols += b"".join(struct.pack("<IBBHQQ", name(n), 0x12, 0, 1, 64, 8) for n in defined)
    segments = 3 if program else 2
    start = 64 + 56 * segments
    parts: list[tuple[str, int, bytes]] = [(".dynstr", 3, bytes(names)), (".dynsym", 11, symbols)]
    parts += [(title, 1, data) for title, data in (sections or {}).items()]
    offsets, body = [], b""
    for _title, _kind, data in parts:
        body += b"\0" * (-len(body) % 16)
        offsets.append(start + len(body))
        body += data
    body += b"\0" * (-len(body) % 16)
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in (*tags, (5, offsets[0]), (0, 0)))
    at_dynamic = start + len(body)
    body += dynamic
    titles = bytearray(b"\0")
    rows = b"\0" * 64
    for (title, kind, data), offset in zip(parts, offsets, strict=True):
        rows += struct.pack("<IIQQQQIIQQ", len(titles), kind, 2, offset, offset, len(data), 0, 0, 8, 0)
        titles += title.encode() + b"\0"
    at_titles = start + len(body)
    rows += struct.pack("<IIQQQQIIQQ", len(titles), 3, 0, 0, at_titles, len(titles) + 10, 0, 0, 1, 0)
    titles += b".shstrtab\0"
    body += bytes(titles)
    body += b"\0" * (-len(body) % 16)
    at_rows = start + len(body)
    whole = start + len(body) + len(rows)
    heads = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, whole, whole, 0x1000)
    heads += struct.pack("<IIQQQQQQ", 2, 6, at_dynamic, at_dynamic, at_dynamic, len(dynamic), len(dynamic), 8)
    if program:
        heads += struct.pack("<IIQQQQQQ", 3, 4, 0, 0, 0, 0, 0, 1)
    head = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    head += struct.pack(
        "<HHIQQQIHHHHHH",
        3,
        machine,
        1,
        0,
        64,
        at_rows,
        0,
        64,
        56,
        segments,
        64,
        len(parts) + 2,
        len(parts) + 1,
    )
    return head + heads + body + rows
