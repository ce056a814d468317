"""Containers of device code made of exactly what a test wants in them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

PTX, SASS = 1, 2


def cubin(sm: int, kernels: Sequence[str] = ("k",)) -> bytes:
    """Return an ELF file for NVIDIA's machine with one section of code for each kernel."""
    titles, rows, offset = bytearray(b"\0"), b"\0" * 64, 64
    for kernel in kernels:
        rows += struct.pack("<IIQQQQIIQQ", len(titles), 1, 6, 0, 64, 16, 0, 0, 16, 0)
        titles += f".text.{kernel}".encode() + b"\0"
    body = b"\xcc" * 16
    at_titles = offset + len(body)
    rows += struct.pack("<IIQQQQIIQQ", len(titles), 3, 0, 0, at_titles, len(titles) + 10, 0, 0, 1, 0)
    titles += b".shstrtab\0"
    body += bytes(titles)
    body += b"\0" * (-len(body) % 8)
    count = len(kernels) + 2
    head = b"\x7fELF\x02\x01\x01\x33\x07" + b"\0" * 7
    head += struct.pack(
        "<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, offset + len(body), sm, 64, 0, 0, 64, count, count - 1
    )
    return head + body + rows


def entry(kind: int, sm: int, payload: bytes, *, isa: tuple[int, int] = (8, 2), packed: int = 0) -> bytes:
    """Return one entry with its header of 64 bytes."""
    payload += b"\0" * (-len(payload) % 8)
    minor, major = (isa[1], isa[0]) if kind == PTX else (8, 1)
    head = struct.pack("<HHIQIIHHI", kind, 0x0101, 64, len(payload), packed, 0, minor, major, sm)
    return head + b"\0" * (64 - len(head)) + payload


def container(*entries: bytes) -> bytes:
    """Return a container of entries."""
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def ptx(sm: int = 86, isa: tuple[int, int] = (8, 2), *, packed: bool = False) -> bytes:
    """Return an entry of PTX text."""
    text = f".version {isa[0]}.{isa[1]}\n.target sm_{sm}\n.visible .entry k() {{ ret; }}\n".encode()
    return entry(PTX, sm, text, isa=isa, packed=40 if packed else 0)


def sass(sm: int = 86, kernels: Sequence[str] = ("k",), *, packed: bool = False) -> bytes:
    """Return an entry of machine code; ``packed`` ones cannot be looked into."""
    payload = b"\x99" * 64 if packed else cubin(sm, kernels)
    return entry(SASS, sm, payload, packed=60 if packed else 0)
