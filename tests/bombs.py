"""Archives that are small and ask for much: more memory, time, files or digits than they have bytes."""

from __future__ import annotations

import gzip
import io
import struct
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from types import FrameType

from scripts.model import ArtifactFormat

MIB = 1024 * 1024


def packed(blocks: Iterator[bytes]) -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9) as stream:
        for block in blocks:
            stream.write(block)
    return out.getvalue()


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.USTAR_FORMAT)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def zeros_behind_the_end() -> bytes:
    return packed(iter([bytes(1024), *[bytes(MIB)] * 300]))


def endless_extended_headers() -> bytes:
    body = pax("comment", "x" * 500_000)
    return packed(iter([header("pax", tarfile.XHDTYPE, len(body)) + padded(body)] * 200))


def global_headers() -> bytes:
    body = pax("comment", "x" * 900_000)
    head = header("g", tarfile.XGLTYPE, len(body)) + padded(body)
    return packed(iter(head + member for member in files(200)))


def many_pax_records(count: int = 170_000) -> bytes:
    body = b"".join(b"6 %c=b\n" % (97 + n % 26) for n in range(count))
    head = header("pax", tarfile.XHDTYPE, len(body))
    return packed(iter([head + padded(body), *files(1), bytes(1024)]))


def long_name(kind: bytes = tarfile.GNUTYPE_LONGNAME, text: bytes = b"a" * 1_000_000) -> bytes:
    member = header("a", tarfile.SYMTYPE if kind == tarfile.GNUTYPE_LONGLINK else tarfile.REGTYPE)
    return packed(iter([header("n", kind, len(text)) + padded(text), member, bytes(1024)]))


def long_link() -> bytes:
    return long_name(tarfile.GNUTYPE_LONGLINK, b"a/" * 450_000)


def files(count: int) -> Iterator[bytes]:
    return (header(f"f{n}") for n in range(count))


def too_many_members(count: int = 100_001) -> bytes:
    return packed(files(count))


def deep_names(count: int = 100_000) -> bytes:
    """Each member lies in 60 folders of its own: six million folders if every one were made."""

    def members() -> Iterator[bytes]:
        for n in range(count):
            name = pax("path", f"{n}/" + "a/" * 59 + "x")
            yield header("pax", tarfile.XHDTYPE, len(name)) + padded(name) + header("x")

    return packed(members())


def chain_of_links(count: int = 50_000) -> bytes:
    def members() -> Iterator[bytes]:
        for n in range(count):
            info = tarfile.TarInfo(f"l{n}")
            info.type, info.linkname = tarfile.SYMTYPE, f"l{n + 1}"
            yield info.tobuf(tarfile.USTAR_FORMAT)
        yield bytes(1024)

    return packed(members())


def pax(key: str, value: str) -> bytes:
    body = f" {key}={value}\n".encode()
    length = len(body)
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


def pax_size(digits: str) -> bytes:
    body = pax("size", digits)
    return packed(iter([header("pax", tarfile.XHDTYPE, len(body)) + padded(body), *files(1), bytes(1024)]))


def huge_mode() -> bytes:
    block = bytearray(header("a"))
    block[100:108] = b"\x80\x7f" + b"\xff" * 6
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return packed(iter([bytes(block), bytes(1024)]))


def directory(entry: bytes, count: int, *, claimed: int | None = None) -> bytes:
    body = entry * count
    counted = min(count, 0xFFFF)
    size = len(body) if claimed is None else claimed
    return body + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, counted, counted, size, 0, 0)


def entry(name: bytes = b"", extra: bytes = b"") -> bytes:
    fields = (b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, len(name), len(extra), 0, 0, 0, 0, 0)
    return struct.pack("<4s6H3L5H2L", *fields) + name + extra


def zip_of_many(count: int = 340_000) -> bytes:
    return directory(entry(), count)


def zip_directory_too_large() -> bytes:
    return directory(entry(b"a" * 60_000), 700)


def zip_extra_fields() -> bytes:
    return directory(entry(b"a", b"\1\0\0\0" * 16_000), 200)


def zip_directory_beyond_the_file() -> bytes:
    return directory(entry(b"a"), 1, claimed=0xFFFF_FFF0)


def zip_deep_names(count: int = 20_000) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for n in range(count):
            archive.writestr(f"{n}/" + "a/" * 59 + "x", b"")
    return out.getvalue()


TAR, ZIP = ArtifactFormat.TAR_GZ, ArtifactFormat.ZIP
ARCHIVES: dict[str, tuple[Callable[[], bytes], ArtifactFormat]] = {
    "zeros": (zeros_behind_the_end, TAR),
    "extended": (endless_extended_headers, TAR),
    "global": (global_headers, TAR),
    "records": (many_pax_records, TAR),
    "long-name": (long_name, TAR),
    "long-link": (long_link, TAR),
    "members": (too_many_members, TAR),
    "deep": (deep_names, TAR),
    "links": (chain_of_links, TAR),
    "pax-5000-digits": (lambda: pax_size("9" * 5_000), TAR),
    "pax-19-digits": (lambda: pax_size("9" * 19), TAR),
    "mode": (huge_mode, TAR),
    "zip-entries": (zip_of_many, ZIP),
    "zip-directory": (zip_directory_too_large, ZIP),
    "zip-extra": (zip_extra_fields, ZIP),
    "zip-claim": (zip_directory_beyond_the_file, ZIP),
    "zip-deep": (zip_deep_names, ZIP),
}


def steps_of(act: Callable[[], object]) -> int:
    """Count the instructions of Python that an act takes, in this thread and in those it starts."""
    counted = [0]

    def trace(frame: FrameType, event: str, _value: object) -> object:
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted[0] += event == "opcode"
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]  # typeshed wants a function
    return counted[0]


#: Those whose size can be chosen.
GROWING: dict[str, Callable[[int], bytes]] = {
    "records": many_pax_records,
    "members": too_many_members,
    "deep": deep_names,
    "links": chain_of_links,
    "zip-entries": zip_of_many,
    "zip-deep": zip_deep_names,
}
