"""File operations that survive crashes, antivirus programs, long Windows paths and read-only attributes."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

#: Bytes read or hashed at a time: larger blocks fall out of the processor's cache and cost page faults.
CHUNK: Final = 256 * 1024
PATIENCE: Final = 2.0

_READ_NAMED: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0)
#: Opening a pipe does not wait for its writer.
_READ: Final = _READ_NAMED | getattr(os, "O_NONBLOCK", 0)

#: The bit of a reparse tag that means "this name stands for another place" (Windows, ntifs.h).
_NAME_SURROGATE: Final = 0x2000_0000

#: The signature that https://bford.info/cachedir/ prescribes; backup programs skip such folders.
CACHEDIR_SIGNATURE: Final = b"Signature: 8a477f597d28d172789f06886806bc55"
CACHEDIR_TAG: Final = "CACHEDIR.TAG"
#: What our own tag says beyond the signature: many programs tag their caches, and theirs are not ours.
_OWN_TAG: Final = (
    CACHEDIR_SIGNATURE + b"\n# Made by the CUDA-on-AMD workspace; see https://bford.info/cachedir/\n"
)


def hash_file(path: Path, *, advance: Callable[[int], None] | None = None) -> str:
    """Return the SHA-256 of a file, lower-case hex, in constant memory.

    ``advance`` is given the number of bytes read since its last call.
    """
    digest = hashlib.sha256()
    with io.FileIO(os.fspath(path), "r", opener=lambda *_: open_patiently(path, _READ_NAMED)) as file:
        buffer = bytearray(CHUNK // 4 if os.fstat(file.fileno()).st_size < CHUNK else CHUNK)
        view = memoryview(buffer)
        while count := file.readinto(buffer):
            digest.update(view[:count])
            if advance is not None:
                advance(count)
    return digest.hexdigest()


def read_bounded(path: Path, most: int, *, named: bool = False) -> bytes:
    """Return the bytes of a regular file of at most ``most`` bytes; others may be endless or never answer.

    ``named`` is for what a person named for this: a device, and a pipe with a writer, is then read as well.

    Raises:
        OSError: it is a folder, device or pipe (``EINVAL``), larger (``EFBIG``), or cannot be read.
    """
    with _open_to_read(path, named=named) as file:
        data = bytearray(_start_of_pipe(file, most + 1) if named and path.is_fifo() else b"")
        while block := file.read(min(CHUNK, most + 1 - len(data))):
            data += block
        if len(data) > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
        return bytes(data)


def read_end(path: Path, most: int) -> bytes:
    """Return the last ``most`` bytes of a regular file.

    Raises:
        OSError: as for ``read_bounded``, whatever its size.
    """
    with _open_to_read(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        data = bytearray()
        while block := file.read(min(CHUNK, most - len(data))):
            data += block
        return bytes(data)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading; opening anything else may wait for ever.

    Raises:
        OSError: it is a folder, device or pipe (``EINVAL``), or cannot be read.
    """
    return io.BufferedReader(_open_to_read(path))


def _start_of_pipe(file: io.FileIO, most: int) -> bytes:
    """Return what a pipe holds once it has a writer, which may take it ``PATIENCE`` seconds to get."""
    until = time.monotonic() + PATIENCE
    while (start := file.read(min(CHUNK, most))) == b"":
        if time.monotonic() > until:
            raise OSError(errno.EINVAL, "a pipe that no program writes to")
        time.sleep(0.01)
    if sys.platform != "win32":
        os.set_blocking(file.fileno(), True)
    return start or b""


def _open_to_read(path: Path, *, named: bool = False) -> io.FileIO:
    """Open a regular file, or (``named``) whatever else can be read."""
    descriptor = open_patiently(path, _READ_NAMED if named and not path.is_fifo() else _READ)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or (named and not stat.S_ISDIR(mode)):
        return io.FileIO(descriptor, "r")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def open_patiently(path: Path, flags: int, mode: int = 0o777) -> int:
    """Open a file; on Windows one that another process holds just now is waited for, under a second.

    There the C library tells neither that from a lack of rights nor a folder from a file.
    """
    for wait in _DENIED_WAITS if sys.platform == "win32" else ():
        try:
            return os.open(extended_path(path), flags, mode)
        except PermissionError as error:
            if long_path(path).is_dir():
                raise OSError(errno.EINVAL, "not a regular file", str(path)) from error
        time.sleep(wait)
    return os.open(extended_path(path), flags, mode)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, however small the pieces the system takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def replace(source: Path, destination: Path) -> None:
    """Rename over ``destination``, waiting for a scanner that holds one of them (Windows)."""
    retry_on_sharing_violation(lambda: os.replace(long_path(source), long_path(destination)))  # noqa: PTH105 - same call


def remove(path: Path) -> None:
    """Remove one file or link, also a read-only one; a missing one is fine."""
    target = long_path(path)
    if sys.platform == "win32":
        # Windows does not delete a file with the read-only attribute.
        with suppress(OSError):
            if not is_link(target):
                target.chmod(stat.S_IWRITE)
    retry_on_sharing_violation(lambda: target.unlink(missing_ok=True))


def write_atomic(path: Path, data: bytes, *, durable: bool = True, keep_mode: bool = False) -> None:
    """Write ``path`` so that a reader sees the old bytes or the new ones.

    ``durable`` extends this to a loss of power; without it the file may then be lost or empty, which suits
    what is checked when read and can be made again: synchronising waits for everybody's writes.
    """
    put_in_place(path, data, durable=durable, keep_mode=keep_mode)
    if durable:
        sync_folder(path.parent)


def put_in_place(path: Path, data: bytes, *, durable: bool = True, keep_mode: bool = False) -> None:
    """Do what ``write_atomic`` does, up to the folder's part of being durable."""
    temporary = temporary_beside(path)
    try:
        with long_path(temporary).open("xb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if keep_mode:
            with suppress(FileNotFoundError):  # removed meanwhile: there is no mode to keep
                long_path(temporary).chmod(long_path(path).stat().st_mode)
        replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            remove(temporary)
        raise


def temporary_beside(path: Path) -> Path:
    """Return a fresh name in the same folder, so that a rename stays on one volume."""
    return path.with_name(f".{path.name[:80]}.{os.urandom(6).hex()}.tmp")


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder would survive a loss of power.

    A file system that cannot say so is taken at its word. On Windows this does nothing, because Python cannot
    flush a folder there.
    """
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def free_space(path: Path) -> int:
    """Return the bytes free for this user on the volume of ``path``, which need not exist yet."""
    place = path.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def is_case_sensitive(folder: Path) -> bool:
    """Ask the volume of an existing folder whether ``a`` and ``A`` are two names there."""
    import tempfile  # noqa: PLC0415 - only for this

    with tempfile.NamedTemporaryFile(dir=long_path(folder), prefix="case-") as probe:
        path = Path(probe.name)
        return not path.with_name(path.name.upper()).exists()


def is_link(path: Path) -> bool:
    """Say whether ``path`` itself is a symbolic link, a Windows junction, or another name for a place."""
    return is_link_status(path.lstat())


def is_link_status(found: os.stat_result) -> bool:
    """The same for what ``lstat`` returned."""
    return stat.S_ISLNK(found.st_mode) or bool(getattr(found, "st_reparse_tag", 0) & _NAME_SURROGATE)


def set_read_only(path: Path) -> None:
    """Take write permission, and the right to run it, from one file."""
    retry_on_sharing_violation(lambda: long_path(path).chmod(0o444))


def create_read_only(path: Path, *, executable: bool = False) -> io.FileIO:
    """Open a new file for writing that no process, ours included, can open for writing again."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o555 if executable else 0o444)

    return io.FileIO(os.fspath(long_path(path)), "x", opener=opener)


def make_read_only(tree: Path) -> None:
    """Take write permission from every file below ``tree``; links are left alone.

    Folders stay writable, so that ordinary tools can delete a cache; what is added to a tree is found
    by verification.
    """
    for folder, _, names in retry_on_sharing_violation(lambda: list(_walk(long_path(tree)))):
        for name in names:
            file = Path(folder, name)
            if not is_link(file):
                retry_on_sharing_violation(partial(file.chmod, file.stat().st_mode & ~0o222))


def remove_tree(tree: Path) -> None:
    """Remove a tree of ours, read-only files and folders included; a missing one is fine.

    A link or junction, also ``tree`` itself, is removed as such: what it leads to is never touched.
    """
    top = long_path(tree)
    try:
        link = is_link(top)
    except FileNotFoundError:
        return
    if link:
        _remove_link(top)
        return
    if not stat.S_ISDIR(top.lstat().st_mode):
        remove(top)
        return
    if sys.platform != "win32":
        top.chmod(0o700)
    for name in retry_on_sharing_violation(lambda: os.listdir(top)):  # noqa: PTH208 - all at once
        remove_tree(top / name)
    retry_on_sharing_violation(top.rmdir)


def _remove_link(path: Path) -> None:
    """Remove a link; on Windows a link to a folder is removed like a folder."""
    try:
        retry_on_sharing_violation(path.unlink)
    except OSError:
        if sys.platform != "win32":
            raise
        retry_on_sharing_violation(path.rmdir)


def long_path(path: Path) -> Path:
    """Return ``path`` in the form Windows accepts beyond 260 characters; unchanged elsewhere."""
    return Path(extended_path(path)) if sys.platform == "win32" else path


def write_cachedir_tag(folder: Path) -> None:
    """Mark ``folder`` as a cache of ours: backup programs skip it, and we may delete what is in it."""
    write_atomic(folder / CACHEDIR_TAG, _OWN_TAG)


def has_own_cachedir_tag(folder: Path) -> bool:
    """Say whether ``folder`` carries the ``CACHEDIR.TAG`` that we write (not a link to one)."""
    tag = folder / CACHEDIR_TAG
    try:
        if is_link(tag):
            return False
        with tag.open("rb") as file:
            return file.read(len(_OWN_TAG) + 1) == _OWN_TAG
    except OSError:
        return False


T = TypeVar("T")

#: Errors that an antivirus program or an indexer causes on Windows by holding a file for a moment.
PASSING: Final = frozenset({5, 32, 33})
#: 5 s in all; a virus scan of a large DLL takes about that.
WAITS: Final = tuple(0.01 * 2**n for n in range(9))
#: One of them also says that a right is missing for good. Where that is as likely it is believed after 0.6 s.
_DENIED: Final = 5
_DENIED_WAITS: Final = WAITS[:6]
_LONG: Final = 240


def extended_path(path: Path) -> str:
    """Return a path as the operating system takes it; Windows needs a prefix beyond 260 characters."""
    text = str(path)
    if sys.platform == "win32" and len(text) > _LONG and not text.startswith("\\\\?\\"):
        text = os.path.abspath(text)  # noqa: PTH100 - behind the prefix Windows reads neither . nor ..
        text = "\\\\?\\UNC" + text[1:] if text.startswith("\\\\") else "\\\\?\\" + text
    return text


def retrying(
    action: Callable[[], T],
    *,
    waits: Sequence[float] = WAITS,
    denials: int = len(WAITS),
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Try again while Windows says that another process holds the file; any other error is final.

    A denial is final as well when it comes after so many tries.
    """
    for number, wait in enumerate(waits):
        try:
            return action()
        except OSError as error:
            code = getattr(error, "winerror", None)
            if code not in PASSING or (code == _DENIED and number >= denials):
                raise
        sleep(wait)
    return action()


def retry_on_sharing_violation(action: Callable[[], T]) -> T:
    """Retry on Windows alone; elsewhere a refusal is an answer."""
    return retrying(action) if sys.platform == "win32" else action()


def retry_look(action: Callable[[], T]) -> T:
    """The same for what only looks: a missing right is answered in under a second."""
    return retrying(action, denials=len(_DENIED_WAITS)) if sys.platform == "win32" else action()


def paths_below(folder: Path) -> Iterator[str]:
    """List every file and link below a folder, POSIX and relative; links are not followed."""
    top = long_path(folder)
    yield from retry_on_sharing_violation(lambda: list(_paths_below(top)))


def _paths_below(top: Path) -> Iterator[str]:
    for place, folders, names in _walk(top):
        here = Path(place)
        linked = [name for name in folders if is_link(here / name)]
        folders[:] = [name for name in folders if name not in linked]
        for name in (*names, *linked):
            yield (here / name).relative_to(top).as_posix()


def _walk(top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk a tree; a folder that cannot be listed has no names, unless it is only held for a moment."""

    def failed(error: OSError) -> None:
        if getattr(error, "winerror", None) in PASSING - {_DENIED}:
            raise error

    return os.walk(top, onerror=failed)


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class LockFile:
    """A lock that lives as long as its handle."""

    def __init__(self, path: Path) -> None:
        """Name the file; nothing is opened yet."""
        self.path = path
        self._handle = -1

    def try_acquire(self) -> bool:
        """Take the lock now or say no; the file is made if it is missing.

        True also means that the file locked is the one that lies at the path: a lock file that was
        deleted under its holder is another file, and holding that would mean nothing.

        Raises:
            FileNotFoundError: the folder is gone.
            OSError: the path is a link or cannot be opened.
        """
        handle = open_patiently(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        if _lock(handle) and _is_at(handle, self.path):
            self._handle = handle
            return True
        os.close(handle)
        return False

    def release(self) -> None:
        """Let go; twice is once. The file stays."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _lock(handle: int) -> bool:
    """Lock without waiting."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Compare the file that is open with the file that lies at the path."""
    try:
        return os.path.samestat(os.fstat(handle), retry_look(lambda: os.lstat(extended_path(path))))
    except FileNotFoundError:
        return False
