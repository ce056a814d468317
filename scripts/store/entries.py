"""What archive readers and the unpacker share: entries, limits, and writing one member while hashing it."""

from __future__ import annotations

import hashlib
import posixpath
import stat
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

from isal import isal_zlib
from msgspec import Struct
from msgspec.structs import replace

from scripts.errors import ArchiveError
from scripts.osal import fs
from scripts.osal.paths import MAX_NAMES, MAX_PATH, refusal, refused
from scripts.store.trees import TreeFile


class ByteStream(Protocol):
    """Something that hands out bytes."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes; empty at the end."""


class Limits(Struct, frozen=True, kw_only=True):
    """Where unpacking stops, because an archive that needs more is a bomb.

    Attributes:
        total: bytes all members may have together.
        members: how many entries there may be.
        ratio: how far one member may grow beyond ``floor``; deflate reaches 1,032 on zeros.
        floor: bytes every member may have whatever its packed size.
    """

    total: int = 64 * 1024**3
    members: int = MAX_NAMES
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


def write_member(
    name: str,
    destination: Path,
    blocks: Iterable[bytes],
    *,
    size: int,
    executable: bool,
    crc: int | None = None,
) -> TreeFile:
    """Write one member and hash it on the way; it must have exactly ``size`` bytes (and the ``crc``).

    The file is read-only when this returns.

    Raises:
        ArchiveError: the packed data holds more, less or other bytes than the archive declares.
    """
    digest, check, written = hashlib.sha256(), 0, 0
    with fs.create_read_only(destination, executable=executable) as file:
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
    return TreeFile(path=name, sha256=digest.hexdigest(), size=size)


def refuse_mode(name: str, mode: int) -> None:
    """Refuse what a POSIX mode can say that we do not make: devices, pipes, sockets, setuid, setgid."""
    kind = stat.S_IFMT(mode)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}:
        raise refused(name, "device", "is a device, pipe or socket")
    if mode & (stat.S_ISUID | stat.S_ISGID):
        raise refused(name, "setuid", "asks for another user's rights (setuid or setgid)")


def is_executable(mode: int) -> bool:
    """Say whether any user may run the file."""
    return bool(mode & 0o111)


def archive_error(reference: str, sentence: str) -> ArchiveError:
    """Make the error for an archive as a whole: ``archive-damaged`` or ``archive-bomb``."""
    hint = "report the artifact: the file is the pinned one, so the fault is its own; nothing of it was kept"
    return ArchiveError(reference, f"the archive is refused: {sentence}", hint=hint)


class Link(Struct, frozen=True, kw_only=True):
    """A link to a file of the same archive; ``target`` is that file's path from the archive's root."""

    name: str
    target: str
    hard: bool

    @classmethod
    def inside(cls, name: str, raw_target: str, *, hard: bool) -> Link:
        """Resolve the target of the link ``name``.

        A symbolic link's target is relative to its folder, a hard link's to the archive's root.

        Raises:
            ArchiveError: the target is absolute, leaves the root, or has a name we would refuse.
        """
        parts = [] if hard else name.split("/")[:-1]
        outside = raw_target.startswith("/") or len(raw_target) > MAX_PATH
        for part in () if outside else raw_target.split("/"):
            if part == "..":
                outside = outside or not parts
                del parts[-1:]
            elif part not in {"", "."}:
                parts.append(part)
        target = "/".join(parts)
        if outside or refusal(target) is not None:
            sentence = f"is a link that leaves the archive ({raw_target[:MAX_PATH]!r})"
            raise refused(name, "link-outside", sentence)
        return cls(name=name, target=target, hard=hard)


def make_links(links: list[Link], folder: Path, written: list[TreeFile], limits: Limits) -> list[TreeFile]:
    """Make the links below ``folder`` and return ``written`` with them at its end.

    Hard links become copies. Symbolic links do too on Windows, which reserves them to administrators.

    Raises:
        ArchiveError: a link leads to something that is not a file of the archive, or in a circle.
    """
    made = {file.path: file for file in written}
    ends = _ends({link.name: link.target for link in links})
    total = sum(file.size for file in written)
    for link in links:
        source = made.get(ends[link.name])
        if source is None or source.link:
            sentence = f"is a link to {link.target!r}, which is no file in here"
            raise refused(link.name, "link-dangling", sentence)
        fs.long_path(folder / link.name).parent.mkdir(parents=True, exist_ok=True)
        if link.hard or sys.platform == "win32":
            total += source.size
            limits.check_total(total)
            original = folder / source.path
            runs = is_executable(fs.long_path(original).stat().st_mode)
            made[link.name] = copy_in(original, link.name, folder, size=source.size, executable=runs)
        else:
            text = posixpath.relpath(link.target, posixpath.dirname(link.name) or ".")
            (folder / link.name).symlink_to(text)
            made[link.name] = TreeFile(path=link.name, sha256=source.sha256, size=source.size, link=text)
    return list(made.values())


def _ends(leads: dict[str, str]) -> dict[str, str]:
    """Return where the chain of each link ends, each step taken once; a circle ends at one of its links."""
    ends: dict[str, str] = {}
    for name, target in leads.items():
        way, at, seen = [name], target, {name}
        while at in leads and at not in ends and at not in seen:
            seen.add(at)
            way.append(at)
            at = leads[at]
        ends |= dict.fromkeys(way, ends.get(at, at))
    return ends


def copy_in(source: Path, name: str, folder: Path, *, size: int, executable: bool = False) -> TreeFile:
    """Copy a file to the path ``name`` below ``folder``, hashing it on the way."""
    fs.long_path(folder / name).parent.mkdir(parents=True, exist_ok=True)
    with fs.long_path(source).open("rb", buffering=0) as file:
        blocks = iter(partial(file.read, fs.CHUNK), b"")
        return write_member(name, folder / name, blocks, size=size, executable=executable)


def blocks_of(stream: ByteStream, size: int, block_size: int) -> Iterator[bytes]:
    """Hand out the next ``size`` bytes in blocks, fewer if the stream ends."""
    while size and (block := stream.read(min(size, block_size))):
        size -= len(block)
        yield block
