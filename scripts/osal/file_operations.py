"""The one seam between placement and the file system: small operations that say what they promise.

Every operation announces itself to ``before`` first, so that a test can end the process there, raise
an error there, or write down what would be lost if the power failed there. Nothing follows a link in
the last component of a path.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from scripts.osal import durable
from scripts.osal.fs import (
    LockFile,
    extended_path,
    is_link_status,
    open_patiently,
    retry_look,
    retry_on_sharing_violation,
    sync_folder,
    write_all,
)

# Paths go to the system as text, because Windows wants a prefix before long ones.
# ruff: noqa: PTH101, PTH102, PTH106, PTH108, PTH114, PTH115, PTH116, PTH208


#: What ``link`` meets where hard links do not exist or are forbidden for this file.
NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}
)
NO_LINKS_WINDOWS: Final = frozenset({1, 50, 1142})
_NOT_EMPTY_WINDOWS: Final = 145
_SECOND: Final = 1_000_000_000


class FileKind(StrEnum):
    """What a name stands for; a junction is a link."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


class Seen(NamedTuple):
    """One look at a name, links not followed. ``owner`` is ``None`` where the platform has no uid.

    A tuple, because a placement looks five times at every file.
    """

    kind: FileKind
    size: int
    mtime_ns: int
    mode: int
    inode: int
    device: int
    owner: int | None

    def same_file(self, other: Seen | None) -> bool:
        """Say whether both looks met one and the same file, whatever its name."""
        return other is not None and (self.device, self.inode) == (other.device, other.inode)

    def unchanged(self, other: Seen | None) -> bool:
        """Say whether both looks surely met the same file with nothing written in between.

        A time in whole seconds may come from a file system that has no finer ones (FAT has two seconds):
        it proves nothing, and the caller has to read the file.
        """
        return (
            other is not None
            and self.same_file(other)
            and self.mtime_ns % _SECOND != 0
            and ((self.kind, self.size, self.mtime_ns) == (other.kind, other.size, other.mtime_ns))
        )


class Fs:
    """The real file system. Tests derive from it and override ``before`` or single operations."""

    def before(self, operation: str, *paths: Path) -> None:
        """Called before each operation."""

    # Looking ------------------------------------------------------------------------------------

    def look(self, path: Path) -> Seen | None:
        """Return what lies at ``path``, or ``None`` if nothing does (or a parent is missing)."""
        self.before("look", path)
        try:
            found = retry_look(lambda: os.lstat(extended_path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _seen(found)

    def names(self, folder: Path) -> tuple[str, ...]:
        """Return the names in a folder, sorted; empty if there is no such folder."""
        self.before("names", folder)
        return tuple(sorted(retry_look(lambda: _names(extended_path(folder)))))

    def read(self, path: Path) -> bytes:
        """Return the bytes of a small file of ours."""
        self.before("read", path)
        return read_file(path)

    def sha256(self, path: Path) -> str:
        """Return the SHA-256 of a regular file, or of a link's own text."""
        self.before("sha256", path)
        return hash_of(path)

    def free_bytes(self, folder: Path) -> int:
        """Return how many bytes this user may still write on the folder's volume.

        A network folder that says nothing about its size counts as endless.
        """
        usage = shutil.disk_usage(extended_path(folder))
        return usage.free if usage.total else sys.maxsize

    def writable(self, folder: Path) -> bool:
        """Say whether names in ``folder`` can be changed; its times stay as they are.

        Nothing is written: ``os.access`` says yes on Windows even for System32, so there the folder is opened
        for what would be done in it.
        """
        if sys.platform == "win32":
            return durable.may_fill(extended_path(folder))
        return os.access(folder, os.W_OK | os.X_OK)

    def in_use(self, files: Sequence[Path]) -> frozenset[Path]:
        """Return those that a running program has open or mapped (on Linux: mapped)."""
        return durable.held(files)

    def lock_at(self, path: Path) -> LockFile:
        """Return the lock that lies at a path, or will; it is not taken yet."""
        return LockFile(path)

    # Changing -----------------------------------------------------------------------------------

    def mkdir(self, folder: Path, mode: int = 0o700) -> bool:
        """Make a folder, for this user alone unless ``mode`` says more; return whether it is new."""
        self.before("mkdir", folder)
        try:
            retry_on_sharing_violation(lambda: os.mkdir(extended_path(folder), mode))
        except FileExistsError:
            return False
        return True

    def write_new(self, path: Path, data: bytes) -> None:
        """Write a new file; an existing one is an error."""
        self.before("write_new", path)
        with os.fdopen(open_patiently(path, _NEW, _MODE), "wb") as file:
            file.write(data)

    def append(self, path: Path, at: int, data: bytes) -> None:
        """Write ``data`` at offset ``at`` and let the file end there: what was torn behind it goes."""
        self.before("append", path)
        with os.fdopen(open_patiently(path, _CHANGED), "r+b") as file:
            file.truncate(at)
            file.seek(at)
            file.write(data)

    def copy_new(self, source: Path, path: Path) -> str:
        """Copy into a new file, writable by its owner; return the SHA-256 of what was written."""
        self.before("copy_new", source, path)
        return copy_hashed(source, path)

    def link(self, path: Path, name: Path) -> bool:
        """Give a file a second name, never over an existing one; false where that is impossible.

        A disk that shows the two names as two files (sshfs: FUSE numbers them itself) cannot tell later which
        of them was replaced meanwhile, so there the name is taken back.
        """
        self.before("link", path, name)
        try:
            retry_on_sharing_violation(lambda: durable.link(extended_path(path), extended_path(name)))
        except OSError as error:
            if _cannot_link(error):
                return False
            raise
        made = self.look(name)
        if made is not None and not made.same_file(self.look(path)):
            self.unlink(name)
            return False
        return True

    def rename_new(self, path: Path, name: Path) -> None:
        """Rename, never over an existing name: that is ``FileExistsError``."""
        self.before("rename_new", path, name)
        retry_on_sharing_violation(lambda: durable.rename_new(extended_path(path), extended_path(name)))

    def replace(self, path: Path, name: Path) -> None:
        """Rename over an existing file in one step: its name is never absent."""
        self.before("replace", path, name)
        retry_on_sharing_violation(lambda: durable.replace(extended_path(path), extended_path(name)))

    def exchange(self, path: Path, name: Path) -> bool:
        """Let two names trade their files in one step; false where the platform cannot."""
        self.before("exchange", path, name)
        return durable.exchange(extended_path(path), extended_path(name))

    def unlink(self, path: Path) -> None:
        """Remove one name of a file, also of a read-only one; absent is fine."""
        self.before("unlink", path)
        with contextlib.suppress(FileNotFoundError):
            retry_on_sharing_violation(lambda: _unlink(extended_path(path)))

    def rmdir(self, folder: Path) -> bool:
        """Remove an empty folder; false if it is not empty. Absent is fine."""
        self.before("rmdir", folder)
        try:
            retry_on_sharing_violation(lambda: os.rmdir(extended_path(folder)))
        except FileNotFoundError:
            return True
        except OSError as error:
            if (
                error.errno in {errno.ENOTEMPTY, errno.EEXIST}
                or getattr(error, "winerror", 0) == _NOT_EMPTY_WINDOWS
            ):
                return False
            raise
        return True

    def set_mtime(self, path: Path, mtime_ns: int) -> None:
        """Set the time of last change of a folder."""
        self.before("set_mtime", path)
        name = extended_path(path)
        retry_on_sharing_violation(lambda: os.utime(name, ns=(os.stat(name).st_atime_ns, mtime_ns)))

    # Making durable -----------------------------------------------------------------------------

    def sync_files(self, paths: Sequence[Path]) -> None:
        """Return when the bytes of these files would survive a power failure."""
        self.before("sync_files", *paths)
        durable.flush_files(paths)

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in this folder would survive a power failure.

        On Windows this does nothing, because Python cannot flush a folder there; renames are then
        written through one by one.
        """
        self.before("sync_folder", folder)
        sync_folder(folder)


def _names(folder: str) -> list[str]:
    """List a folder; one that is not there has no names."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError:
        if sys.platform == "win32" and not os.path.lexists(folder):
            return []  # a folder that goes just now is denied or called misnamed there
        raise


def _seen(found: os.stat_result) -> Seen:
    """Reduce a stat result to what placement decides by."""
    if is_link_status(found):
        kind = FileKind.LINK
    elif stat.S_ISREG(found.st_mode):
        kind = FileKind.FILE
    else:
        kind = FileKind.FOLDER if stat.S_ISDIR(found.st_mode) else FileKind.OTHER
    return Seen(
        kind=kind,
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        mode=stat.S_IMODE(found.st_mode),
        inode=found.st_ino,
        device=found.st_dev,
        owner=found.st_uid if sys.platform != "win32" else None,
    )


def _cannot_link(error: OSError) -> bool:
    """Tell "no hard links here" from a real failure."""
    winerror = getattr(error, "winerror", None)
    return winerror in NO_LINKS_WINDOWS if winerror is not None else error.errno in NO_LINKS


def _unlink(path: str) -> None:
    """Remove a name; Windows refuses read-only files until they are writable."""
    try:
        os.unlink(path)
    except PermissionError:
        if sys.platform != "win32" or os.stat(path).st_mode & stat.S_IWUSR:
            raise
        os.chmod(path, stat.S_IWRITE)
        os.unlink(path)


CHUNK: Final = 1024 * 1024
_READ: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_UNLINKED: Final = _READ | getattr(os, "O_NOFOLLOW", 0)
_CHANGED: Final = os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
#: The rights of a new file, less the umask.
_MODE: Final = 0o666
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def read_file(path: Path) -> bytes:
    """Return the bytes of a small file, refusing a link in its place."""
    descriptor = open_patiently(path, _UNLINKED)
    try:
        return b"".join(iter(lambda: os.read(descriptor, CHUNK), b""))
    finally:
        os.close(descriptor)


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a regular file, or of a link's own text."""
    if sys.platform == "win32" and os.path.islink(extended_path(path)):
        return _hash_link(path)
    try:
        descriptor = open_patiently(path, _UNLINKED)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return _hash_link(path)
    digest = hashlib.sha256()
    try:
        piece = _piece(os.fstat(descriptor).st_size)
        while chunk := os.read(descriptor, piece):
            digest.update(chunk)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def copy_hashed(source: Path, path: Path) -> str:
    """Copy into a new file with the source's mode, writable by its owner; return the SHA-256 of the bytes."""
    digest = hashlib.sha256()
    old = open_patiently(source, _READ)
    try:
        found = os.fstat(old)
        new = open_patiently(path, _NEW, stat.S_IMODE(found.st_mode) | stat.S_IWUSR)
        try:
            if sys.platform != "win32":
                os.fchmod(new, stat.S_IMODE(found.st_mode) | stat.S_IWUSR)  # whatever the umask says
            piece = _piece(found.st_size)
            while chunk := os.read(old, piece):
                digest.update(chunk)
                write_all(new, chunk)
        finally:
            os.close(new)
    finally:
        os.close(old)
    return digest.hexdigest()


def _hash_link(path: Path) -> str:
    """Hash the text of a link as ``Path`` writes it: journals of every version so far hold that."""
    return hashlib.sha256(os.fsencode(Path(os.readlink(extended_path(path))))).hexdigest()


def _piece(size: int) -> int:
    """Return how much to read at a time: a large buffer is dear for a small file."""
    return min(CHUNK, size + 1)
