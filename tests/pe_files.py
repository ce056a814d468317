"""Small Windows files made of exactly what a test wants in them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_ALIGN = 0x200
_PAGE = 0x1000
BASE = 0x180000000


class _Blob:
    """Bytes at an address, with room to point back into them."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.data = bytearray()

    @property
    def here(self) -> int:
        return self.address + len(self.data)

    def add(self, data: bytes) -> int:
        self.data += b"\0" * (-len(self.data) % 8)
        place = self.here
        self.data += data
        return place

    def text(self, name: str) -> int:
        return self.add(name.encode() + b"\0")


def pe(
    *,
    imports: Mapping[str, Sequence[str]] | None = None,
    delayed: Mapping[str, Sequence[str]] | None = None,
    exports: Mapping[str, str] | None = None,
    sections: Mapping[str, bytes] | None = None,
    manifest: str = "",
    managed: Sequence[str] = (),
    machine: int = 0x8664,
    dll: bool = True,
    flags: int = 0,
    load_flags: int = 0,
    overlay: bytes = b"",
) -> bytes:
    """Return a PE32+ file. ``exports`` maps a name to what it is forwarded to, or to an empty text."""
    tables = _Blob(_PAGE)
    directories = [(0, 0)] * 16
    if imports:
        directories[1] = (_imports(tables, imports), 20 * (len(imports) + 1))
    if delayed:
        directories[13] = (_delayed(tables, delayed), 32 * (len(delayed) + 1))
    if exports:
        directories[0] = _exports(tables, exports)
    if manifest:
        directories[2] = (_manifest(tables, manifest), 88)
    if managed:
        directories[14] = (_managed(tables, managed), 72)
    if load_flags:
        config = struct.pack("<I", 0x70) + b"\0" * 0x4A + struct.pack("<H", load_flags) + b"\0" * 0x20
        directories[10] = (tables.add(config), 0x70)
    parts = {".rdata": bytes(tables.data) or b"\0", **(sections or {})}
    return _file(parts, directories, machine=machine, dll=dll, flags=flags) + overlay


def _file(
    parts: Mapping[str, bytes], directories: Sequence[tuple[int, int]], *, machine: int, dll: bool, flags: int
) -> bytes:
    headers_size = (64 + 24 + 240 + 40 * len(parts) + _ALIGN - 1) // _ALIGN * _ALIGN
    table, body, address, offset = b"", b"", _PAGE, headers_size
    for name, data in parts.items():
        raw = data + b"\0" * (-len(data) % _ALIGN)
        kind = 0x60000020 if name == ".text" else 0x40000040
        table += name.encode()[:8].ljust(8, b"\0") + struct.pack(
            "<IIIIIIHHI", len(data), address, len(raw), offset, 0, 0, 0, 0, kind
        )
        body += raw
        address += (len(raw) + _PAGE - 1) // _PAGE * _PAGE
        offset += len(raw)
    head = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64)
    head += b"PE\0\0" + struct.pack(
        "<HHIIIHH", machine, len(parts), 0, 0, 0, 240, 0x22 | (0x2000 if dll else 0)
    )
    head += struct.pack("<HBBIIIII", 0x20B, 14, 0, 0, len(body), 0, 0, _PAGE)
    head += struct.pack(
        "<QIIHHHHHHIIIIHH", BASE, _PAGE, _ALIGN, 6, 0, 0, 0, 6, 0, 0, address, headers_size, 0, 3, flags
    )
    head += struct.pack("<QQQQII", 0x100000, 0x1000, 0x100000, 0x1000, 0, 16)
    head += b"".join(struct.pack("<II", *entry) for entry in directories) + table
    return head.ljust(headers_size, b"\0") + body


def _thunks(blob: _Blob, names: Sequence[str]) -> int:
    values = [
        (1 << 63) | int(name[1:]) if name.startswith("#") else blob.add(b"\0\0" + name.encode() + b"\0")
        for name in names
    ]
    return blob.add(struct.pack(f"<{len(values) + 1}Q", *values, 0))


def _imports(blob: _Blob, imports: Mapping[str, Sequence[str]]) -> int:
    rows = b""
    for library, names in imports.items():
        thunks, name = _thunks(blob, names), blob.text(library)
        rows += struct.pack("<5I", thunks, 0, 0, name, thunks)
    return blob.add(rows + b"\0" * 20)


def _delayed(blob: _Blob, delayed: Mapping[str, Sequence[str]]) -> int:
    rows = b""
    for library, names in delayed.items():
        thunks, name = _thunks(blob, names), blob.text(library)
        rows += struct.pack("<8I", 1, name, 0, thunks, thunks, 0, 0, 0)
    return blob.add(rows + b"\0" * 32)


def _exports(blob: _Blob, exports: Mapping[str, str]) -> tuple[int, int]:
    start = blob.add(b"\0" * 40)
    place = start - blob.address
    functions = [blob.text(target) if target else 0x9000 for target in exports.values()]
    names = [blob.text(name) for name in exports]
    count = len(functions)
    at_functions = blob.add(struct.pack(f"<{count}I", *functions))
    at_names = blob.add(struct.pack(f"<{count}I", *names))
    at_ordinals = blob.add(struct.pack(f"<{count}H", *range(count)))
    table = struct.pack("<IIHHIIIIIII", 0, 0, 0, 0, 0, 1, count, count, at_functions, at_names, at_ordinals)
    blob.data[place : place + 40] = table
    return start, blob.here - start


def _manifest(blob: _Blob, text: str) -> int:
    data = blob.add(text.encode())
    tree = b""
    for number, target in ((24, 0x80000018), (1, 0x80000030), (0x409, 0x48)):
        tree += struct.pack("<IIHHHH", 0, 0, 0, 0, 0, 1) + struct.pack("<II", number, target)
    return blob.add(tree + struct.pack("<IIII", data, len(text.encode()), 0, 0))


def _managed(blob: _Blob, names: Sequence[str]) -> int:
    heap = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    version = b"v4.0.30319\0\0"
    stream = b"#Strings".ljust(12, b"\0")
    size = 16 + len(version) + 4 + 8 + len(stream)
    metadata = b"BSJB" + struct.pack("<HHII", 1, 1, 0, len(version)) + version
    metadata += struct.pack("<HH", 0, 1) + struct.pack("<II", size, len(heap)) + stream + heap
    root = blob.add(metadata)
    return blob.add(struct.pack("<IHHII", 72, 2, 5, root, len(metadata)) + b"\0" * 56)
