"""Unpack a gzipped tar as it streams by: one pass, each header judged before its data is written.

The headers are walked here rather than by ``tarfile``, which stops silently at a broken one and reads a long
name or an extended header of any size into memory. Every unpacked byte counts against the limit, those of
headers, padding and the zeros behind the end too.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct, field

from scripts.osal import fs
from scripts.osal.paths import PathNames, refused
from scripts.osal.text import count
from scripts.store import entries
from scripts.store.entries import Limits, Link, archive_error, make_links
from scripts.store.trees import TreeFile

_BLOCK: Final = tarfile.BLOCKSIZE
_READ: Final = 256 * 1024
#: Extended headers of one member are small; large ones are an attack on memory.
_MOST_HEADER: Final = 1024 * 1024
_MODES: Final = 0o177777
_LINE_FEED: Final = 0x0A
_GNU_LONG: Final = {tarfile.GNUTYPE_LONGNAME: "path", tarfile.GNUTYPE_LONGLINK: "linkpath"}
_EXTENDED: Final = frozenset({*_GNU_LONG, tarfile.XHDTYPE, tarfile.XGLTYPE})
_FILES: Final = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE})
_DEVICES: Final = frozenset({tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE})


class _Counted:
    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._size = 0

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, which are less than is left to the limit."""
        data = self._stream.read(size)
        self._size += len(data)
        self._limits.check_total(self._size)
        return data


class _Tar(Struct):
    """The state of one walk through a tar."""

    stream: _Counted
    folder: Path
    limits: Limits
    advance: Callable[[int], None]
    names: PathNames
    written: list[TreeFile] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    total: int = 0
    count: int = 0


def unpack_tar_gz(blob: Path, folder: Path, limits: Limits, advance: Callable[[int], None]) -> list[TreeFile]:
    """Write every member of the tar below ``folder`` and return what was written, in the tar's order.

    ``advance`` is given unpacked bytes. Links are made last, so that nothing can be written through one.

    Raises:
        ArchiveError: a member is refused; what was written so far is the caller's to remove.
    """
    try:
        with fs.long_path(blob).open("rb") as packed, gzip.GzipFile(fileobj=packed) as plain:
            names = PathNames(case_counts=fs.is_case_sensitive(folder), most=limits.members)
            stream = _Counted(io.BufferedReader(plain, _READ), limits)
            tar = _Tar(stream, folder, limits, advance, names)
            _walk(tar)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise archive_error("archive-damaged", str(error)) from error
    return make_links(tar.links, folder, tar.written, limits)


def _walk(tar: _Tar) -> None:
    """Read header after header until the end mark; behind it only zeros may follow."""
    extended: dict[str, str] = {}
    room = _MOST_HEADER
    while (header := _exactly(tar.stream, _BLOCK)).count(0) != _BLOCK:
        info = _parse(header)
        if info.type not in _EXTENDED:
            _member(tar, info, extended)
            extended, room = {}, _MOST_HEADER
            continue
        room -= max(info.size, _BLOCK)
        if room < 0:
            raise archive_error("archive-damaged", f"extended headers have more than {_MOST_HEADER:,} bytes")
        data = _exactly(tar.stream, info.size)
        _exactly(tar.stream, -info.size % _BLOCK)
        if info.type in _GNU_LONG:
            extended[_GNU_LONG[info.type]] = data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
        elif info.type == tarfile.XHDTYPE:
            extended |= _pax(data)
        # A global header holds comments and the like; what would rename files is not used in practice.
    while block := tar.stream.read(_READ):
        if block.count(0) != len(block):
            raise archive_error("archive-damaged", "data follows the end of the tar")


def _member(tar: _Tar, info: tarfile.TarInfo, extended: dict[str, str]) -> None:
    """Judge one member and write it, or remember the link."""
    raw = extended.get("path", info.name)
    size = _number(extended.get("size"), info.size)
    _refuse_kind(raw, info, extended)
    tar.count += 1
    tar.limits.check_count(tar.count)
    is_folder = info.type == tarfile.DIRTYPE
    name = tar.names.admit(raw, folder=is_folder)
    if is_folder:
        fs.long_path(tar.folder / name).mkdir(parents=True, exist_ok=True)
        return
    if info.type in {tarfile.SYMTYPE, tarfile.LNKTYPE}:
        target = extended.get("linkpath", info.linkname)
        tar.links.append(Link.inside(name, target, hard=info.type == tarfile.LNKTYPE))
        return
    tar.total += size
    tar.limits.check_total(tar.total)
    destination = tar.folder / name
    fs.long_path(destination.parent).mkdir(parents=True, exist_ok=True)
    executable = entries.is_executable(info.mode)
    data = entries.blocks_of(tar.stream, size, _READ)
    tar.written.append(entries.write_member(name, destination, data, size=size, executable=executable))
    _exactly(tar.stream, -size % _BLOCK)
    tar.advance(size)


def _refuse_kind(name: str, info: tarfile.TarInfo, extended: dict[str, str]) -> None:
    if info.type in _DEVICES:
        raise refused(name, "device", "is a device, pipe or socket")
    known = _FILES | {tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE}
    if info.type not in known or any(key.startswith("GNU.sparse") for key in extended):
        raise refused(name, "member-type", f"is of a kind we do not unpack ({info.type!r})")
    if info.type != tarfile.DIRTYPE:
        entries.refuse_mode(name, info.mode)


def _parse(header: bytes) -> tarfile.TarInfo:
    """Read one header; its checksum must hold."""
    try:
        info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise archive_error("archive-damaged", f"a tar header is broken ({error})") from error
    if info.size < 0:
        raise archive_error("archive-damaged", "a tar header has a negative size")
    if not 0 <= info.mode <= _MODES:
        raise archive_error("archive-damaged", "a tar header has a mode that no file can have")
    return info


def _exactly(stream: _Counted, size: int) -> bytes:
    """Read ``size`` bytes, which must be there."""
    data = stream.read(size)
    if len(data) != size:
        raise archive_error("archive-damaged", "it ends in the middle of a member")
    return data


def _pax(data: bytes) -> dict[str, str]:
    """Read the records of a pax header: ``length key=value`` and a line feed each."""
    records: dict[str, str] = {}
    at = 0
    while at < len(data):
        space = data.find(b" ", at, at + len(str(_MOST_HEADER)) + 1)
        end = at + (count(data[at:space].decode("latin-1")) or 0) if space > 0 else 0
        key, equals, value = data[space + 1 : end - 1].partition(b"=")
        if not (equals and space < end <= len(data) and data[end - 1] == _LINE_FEED):
            raise archive_error("archive-damaged", "a pax header is broken")
        records[key.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
        at = end
    return records


def _number(text: str | None, otherwise: int) -> int:
    """Read a size from a pax header."""
    size = otherwise if text is None else count(text)
    if size is None:
        raise archive_error("archive-damaged", f"a pax header has the size {(text or '')[:40]!r}")
    return size
