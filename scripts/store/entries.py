"""What archive readers and the unpacker share: entries, limits, and writing one member while hashing it."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from isal import isal_zlib

from scripts.errors import ArchiveError
from scripts.records import dataclass
from scripts.store.names import refused
from scripts.system import files


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where unpacking stops, because an archive that needs more is a bomb.

    Attributes:
        total: bytes all members may have together.
        members: how many entries there may be.
        ratio: how far one member may grow beyond ``floor``; deflate reaches 1,032 on zeros.
        floor: bytes every member may have whatever its packed size.
    """

    total: int = 64 * 1024**3
    members: int = 100_000
    ratio: int = 400
    floor: int = 64 * 1024**2

    def for_archive(self, packed: int) -> Limits:
        """Return the limits for an archive of ``packed`` bytes: all together may not grow more than one."""
        return replace(self, total=min(self.total, self.floor + self.ratio * packed))

    def check_count(self, members: int) -> None:
        """Refuse an archive of too many entries."""
        if members > self.members:
            raise archive_error("archive-bomb", f"it has more than {self.members:,} members")

    def check_total(self, size: int) -> None:
        """Refuse an archive whose members are too large together."""
        if size > self.total:
            raise archive_error(
                "archive-bomb", f"its members have {size:,} bytes or more, {self.total:,} are allowed"
            )

    def check_member(self, name: str, *, packed: int, size: int) -> None:
        """Refuse a member that grows too far."""
        if size > self.floor + self.ratio * packed:
            raise archive_error("archive-bomb", f"{name!r} grows from {packed:,} to {size:,} bytes")


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    """One file as it was written; ``link`` is a symbolic link's target, relative to its folder."""

    path: str
    sha256: str
    size: int
    link: str = ""


def write_member(
    name: str,
    destination: Path,
    blocks: Iterable[bytes],
    *,
    size: int,
    executable: bool,
    crc: int | None = None,
) -> Unpacked:
    """Write one member and hash it on the way; it must have exactly ``size`` bytes (and the ``crc``).

    The file is read-only when this returns.

    Raises:
        ArchiveError: the packed data holds more, less or other bytes than the archive declares.
    """
    digest, check, written = hashlib.sha256(), 0, 0
    with files.create_read_only(destination, executable=executable) as file:
        for block in blocks:
            written += len(block)
            if written > size:
                raise refused(name, "more-than-declared", f"holds more than the declared {size:,} bytes")
            digest.update(block)
            if crc is not None:
                check = isal_zlib.crc32(block, check)
            file.write(block)
    if written != size:
        raise refused(name, "less-than-declared", f"holds {written:,} of the declared {size:,} bytes")
    if crc is not None and check != crc:
        raise refused(name, "wrong-crc", "does not match its checksum")
    return Unpacked(path=name, sha256=digest.hexdigest(), size=size)


def refuse_mode(name: str, mode: int) -> None:
    """Refuse what a POSIX mode can say that we do not make: devices, pipes, sockets, setuid, setgid."""
    kind = stat.S_IFMT(mode)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}:
        raise refused(name, "device", "is a device, pipe or socket")
    if mode & (stat.S_ISUID | stat.S_ISGID):
        raise refused(name, "setuid", "asks for another user's rights (setuid or setgid)")


def is_executable(mode: int) -> bool:
    """Say whether anybody may run the file."""
    return bool(mode & 0o111)


def archive_error(reference: str, sentence: str) -> ArchiveError:
    """Make the error for an archive as a whole: ``archive-damaged`` or ``archive-bomb``."""
    hint = (
        "The file is the pinned one, so the artifact itself is at fault: report it. Nothing of it was kept."
    )
    return ArchiveError(reference, f"the archive is refused: {sentence}", hint=hint)
