"""Containers of device code made of exactly what a test wants in them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import lz4.block
import zstandard

PTX, SASS = 1, 2
LETTERS = {"": 0, "a": 1 << 20, "f": 1 << 21}


def cubin(
    sm: int,
    kernels: Sequence[str] = ("k",),
    *,
    names_first: bool = True,
    ptx: bytes | None = None,
    suffixes: Sequence[str] = ("",),
) -> bytes:
    """Return an ELF file for NVIDIA's machine with one section of code for each kernel.

    Compiled with line information it has its PTX beside it, a NUL behind each line. The assembler puts the
    table of names first, empty ones among them, and then the names of symbols; nothing says that it must.
    """
    titles, places = bytearray(b"\0.shstrtab\0\0\0"), []
    for kernel in kernels:
        places.append(len(titles))
        titles += f".text.{kernel}".encode() + b"\0"
    places_of_ptx = []
    for suffix in suffixes if ptx is not None else ():
        places_of_ptx.append(len(titles))
        titles += b".nv_debug_ptx_txt" + suffix.encode() + b"\0"
    symbols = b"".join(f"\0.text.{kernel}\0{kernel}".encode() for kernel in kernels[:1])
    code, names = b"\xcc" * 16, bytes(titles) + symbols + b"\0" * 24
    at_names = 64 if names_first else 64 + len(code)
    at_code = 64 + len(names) if names_first else 64
    body = names + code if names_first else code + names
    at_ptx = 64 + len(body)
    body += ptx.replace(b"\n", b"\0") if ptx is not None else b""
    body += b"\0" * (-len(body) % 8)
    rows = b"\0" * 64 + struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, at_names, len(titles), 0, 0, 1, 0)
    for place in places:
        rows += struct.pack("<IIQQQQIIQQ", place, 1, 6, 0, at_code, 16, 0, 0, 16, 0)
    if ptx is not None:  # behind memory that takes no room in the file
        rows += struct.pack("<IIQQQQIIQQ", 0, 8, 3, 0, at_names, 1 << 16, 0, 0, 1, 0)
        for place in places_of_ptx:
            rows += struct.pack("<IIQQQQIIQQ", place, 1, 0, 0, at_ptx, len(ptx), 0, 0, 1, 0)
    head = b"\x7fELF\x02\x01\x01\x33\x07" + b"\0" * 7
    shape = (64, 0, 0, 64, len(rows) // 64, 1)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + len(body), sm, *shape)
    return head + body + rows


def packed(data: bytes, way: str) -> tuple[bytes, int]:
    """Return data packed as nvcc packs it, and the flag that says so."""
    if way == "lz4":
        return lz4.block.compress(data, store_size=False), 1 << 13
    if way == "zstd":
        return zstandard.ZstdCompressor().compress(data), 1 << 15
    return data, 0


def entry(
    kind: int,
    sm: int,
    payload: bytes,
    *,
    isa: tuple[int, int] = (8, 2),
    way: str = "",
    flags: int = 0,
    claims: int | None = None,
) -> bytes:
    """Return one entry with its header of 64 bytes, packed in some way; it may claim another size."""
    stored, flag = packed(payload, way)
    size = len(stored) if flag else 0
    stored += b"\0" * (-len(stored) % 8)
    minor, major = (isa[1], isa[0]) if kind == PTX else (8, 1)
    whole = (len(payload) if claims is None else claims) if flag else 0
    head = struct.pack("<HHIQIIHHI", kind, 0x0101, 64, len(stored), size, 0, minor, major, sm)
    return head + struct.pack("<IIQQQ", 0, 0, 0x11 | flag | flags, 0, whole) + stored


def container(*entries: bytes) -> bytes:
    """Return a container of entries."""
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def ptx(sm: int = 86, isa: tuple[int, int] = (8, 2), *, letter: str = "", way: str = "") -> bytes:
    """Return an entry of PTX text; ``letter`` is that of sm_90a."""
    text = f".version {isa[0]}.{isa[1]}\n.target sm_{sm}{letter}\n.visible .entry k() {{ ret; }}\n".encode()
    return entry(PTX, sm, text, isa=isa, way=way, flags=LETTERS[letter])


def sass(sm: int = 86, kernels: Sequence[str] = ("k",), *, letter: str = "", way: str = "") -> bytes:
    """Return an entry of machine code."""
    return entry(SASS, sm, cubin(sm, kernels), way=way, flags=LETTERS[letter])
