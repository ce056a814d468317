"""Unpack a zip: everything it declares is judged first, then its members are written by several threads."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from isal import isal_zlib
from isal.igzip_lib import IsalError
from msgspec import Struct

from scripts.osal import fs
from scripts.osal.parallel import parallel_map
from scripts.osal.paths import PathNames, refused
from scripts.store import entries
from scripts.store.entries import Limits, archive_error
from scripts.store.trees import TreeFile

_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
_LOCAL_MAGIC: Final = b"PK\x03\x04"
_ENTRY: Final = struct.Struct("<28xHHH12x")
_ENTRY_MAGIC: Final = b"PK\x01\x02"
_MOST_DIRECTORY: Final = 16 * 1024 * 1024
_MOST_EXTRA: Final = 4096
#: Traditional encryption, strong encryption, masked headers.
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_UTF8: Final = 0x800
#: Bytes packed and unpacked at a time; measured: with 1 MiB the page faults cost as much as inflating.
_READ: Final = 64 * 1024
_MOST_THREADS: Final = 8


class _Member(NamedTuple):
    """One file of the zip, judged, and the name it is written as; all of it lies before ``end``."""

    name: str
    info: zipfile.ZipInfo
    end: int

    @property
    def size(self) -> int:
        """Its bytes when it is unpacked."""
        return self.info.file_size

    @property
    def stored(self) -> bool:
        """Whether it is not compressed."""
        return self.info.compress_type == zipfile.ZIP_STORED


class ZipContents(Struct, frozen=True, kw_only=True):
    """What a zip declares, once nothing of it is refused; ``size`` is that of all members together."""

    members: tuple[_Member, ...]
    folders: frozenset[str]
    size: int


def unpack_zip(
    contents: ZipContents, blob: Path, folder: Path, advance: Callable[[int], None]
) -> list[TreeFile]:
    """Write every member of the zip below ``folder`` and return what was written, in the zip's order.

    ``advance`` is given unpacked bytes. Memory stays at a few blocks for each thread.

    Raises:
        ArchiveError: a member is refused; what was written so far is the caller's to remove.
    """
    for name in contents.folders:
        fs.long_path(folder / name).mkdir(parents=True, exist_ok=True)

    def write(member: _Member) -> TreeFile:
        done = _write(member, blob, folder)
        advance(done.size)
        return done

    return parallel_map(write, contents.members, threads=min(_MOST_THREADS, os.cpu_count() or 1))


def read_contents(blob: Path, limits: Limits) -> ZipContents:
    """Return files and folders of the zip once nothing it declares is refused.

    Raises:
        ArchiveError: a member is refused, or they are too many or too large together.
    """
    infos, directory_start = _directory(blob, limits)
    limits.check_count(len(infos))
    size = sum(info.file_size for info in infos)
    limits.check_total(size)
    names, folders = PathNames(most=limits.members), set[str]()
    offsets = sorted(info.header_offset for info in infos)
    ends = dict(pairwise([*offsets, directory_start]))
    if offsets and not 0 <= offsets[0] <= offsets[-1] < directory_start:
        raise archive_error("archive-damaged", "a member lies outside of the file")
    if len(ends) != len(infos):
        raise archive_error("archive-damaged", "two members share their data")
    members = []
    for info in infos:
        name = names.admit(info.orig_filename, folder=info.orig_filename.endswith("/"))
        _refuse_kind(info, limits)
        if info.orig_filename.endswith("/"):
            folders.add(name)
        else:
            folders.add(name.rpartition("/")[0])
            members.append(_Member(name, info, ends[info.header_offset]))
    return ZipContents(members=tuple(members), folders=frozenset(folders), size=size)


def _directory(blob: Path, limits: Limits) -> tuple[list[zipfile.ZipInfo], int]:
    """Read the central directory: its entries and where it begins."""
    try:
        with fs.long_path(blob).open("rb") as file:
            bounded = cast("BinaryIO", _Bounded(file, limits))
            with zipfile.ZipFile(bounded) as archive:
                return archive.infolist(), archive.start_dir
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, EOFError) as error:
        raise archive_error("archive-damaged", str(error)[:200]) from error


class _Bounded:
    """The file that ``zipfile`` reads; a central directory is measured before an entry of it is parsed."""

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        self.seek = file.seek
        self.tell = file.tell
        self.close = file.close

    def read(self, size: int = -1) -> bytes:
        """Return bytes; ``zipfile`` asks for a whole directory at once."""
        if size > _MOST_DIRECTORY:
            raise archive_error("archive-bomb", f"its directory has {size:,} bytes")
        data = self._file.read(size if size >= 0 else _MOST_DIRECTORY)
        if data.startswith(_ENTRY_MAGIC):
            self._measure(data)
        return data

    def _measure(self, data: bytes) -> None:
        """Count entries; refuse extra fields of a size that no writer makes: parsing them is quadratic."""
        at = entries = 0
        while len(data) - at >= _ENTRY.size:
            name, extra, comment = _ENTRY.unpack_from(data, at)
            entries += 1
            if extra > _MOST_EXTRA:
                raise archive_error("archive-bomb", f"an entry of its directory has {extra:,} extra bytes")
            at += _ENTRY.size + name + extra + comment
        self._limits.check_count(entries)


def _refuse_kind(info: zipfile.ZipInfo, limits: Limits) -> None:
    name, mode = info.orig_filename, info.external_attr >> 16
    entries.refuse_mode(name, mode)
    if stat.S_ISLNK(mode):
        raise refused(name, "link", "is a symbolic link, which no zip of ours needs")
    if info.flag_bits & _ENCRYPTED:
        raise refused(name, "encrypted", "is encrypted")
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise refused(name, "compression", f"uses compression method {info.compress_type}")
    if name.endswith("/") and info.file_size:
        raise refused(name, "folder-with-data", "is a folder that holds data")
    limits.check_member(name, packed=info.compress_size, size=info.file_size)


def _write(member: _Member, blob: Path, folder: Path) -> TreeFile:
    """Write one member from its own view of the archive."""
    with fs.long_path(blob).open("rb", buffering=0) as file:
        _seek_data(file, member)
        raw = entries.blocks_of(file, member.info.compress_size, _READ)
        return entries.write_member(
            member.name,
            folder / member.name,
            raw if member.stored else _inflate(raw, member),
            size=member.size,
            executable=entries.is_executable(member.info.external_attr >> 16),
            crc=member.info.CRC,
        )


def _seek_data(file: BinaryIO, member: _Member) -> None:
    """Go to the member's data; its local header must name the same file, and nothing may overlap."""
    info = member.info
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) != _LOCAL_HEADER.size:
        raise archive_error("archive-damaged", f"{member.name!r} lies outside of the file")
    magic, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    named = info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8 else "cp437")
    if magic != _LOCAL_MAGIC or file.read(name_length) != named:
        raise refused(member.name, "two-names", "is another file in its own header than in the directory")
    start = info.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    if start + info.compress_size > member.end:
        raise refused(member.name, "overlap", "shares its data with another member")
    file.seek(start)


def _inflate(blocks: Iterator[bytes], member: _Member) -> Iterator[bytes]:
    """Decompress, a bounded piece at a time; stops at the end of the deflate stream.

    ISA-L takes two thirds of zlib's time for it, and a third of zlib's for the checksum.
    """
    inflater = isal_zlib.decompressobj(-isal_zlib.MAX_WBITS)
    try:
        for block in blocks:
            data, full = block, True
            while (data or full) and not inflater.eof:
                piece = inflater.decompress(data, _READ)
                # A full piece may not be all: ISA-L keeps what it has read ahead, and its output, to itself.
                data, full = inflater.unconsumed_tail, len(piece) == _READ
                if piece:
                    yield piece
            if inflater.eof:
                return
    except IsalError as error:  # type: ignore[misc]  # its stub declares the class as a value
        raise refused(member.name, "archive-damaged", f"cannot be decompressed ({error})") from error
