"""Waiting until bytes and names are on the disk, in as few waits as the system's promises allow."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.osal.fs import extended_path, open_patiently, retrying

#: How many files are flushed at a time: file systems with a journal then share one commit.
FLUSHERS: Final = 16
#: From so many files on one flush of their whole file system is cheaper than one for each.
MANY: Final = 64
#: File systems whose ``syncfs`` is a ``fsync`` of everything (``statfs(2)``: ext4, XFS, btrfs, F2FS, tmpfs).
#: It is not on FUSE, where the program behind it hears nothing, nor on network folders.
WHOLE: Final = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
#: Before this Linux ``syncfs`` kept quiet about errors.
_HONEST: Final = (5, 8)


def flush_files(paths: Sequence[Path]) -> None:
    """Return when the bytes of these files, all on one file system, would survive a power failure."""
    if len(paths) >= MANY and _flush_whole(paths[0].parent):
        return
    if len(paths) == 1:
        _flush(paths[0])
    elif paths:
        from scripts.osal.parallel import parallel_map  # noqa: PLC0415 - most runs flush nothing

        workers = min(FLUSHERS, len(paths))
        parallel_map(_flush_each, [paths[first::workers] for first in range(workers)], threads=workers)


def _flush_each(paths: Sequence[Path]) -> None:
    for path in paths:
        _flush(path)


def _flush(path: Path) -> None:
    """Flush one file; Windows flushes writable handles only."""
    descriptor = open_patiently(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if sys.platform == "win32":

    def _flush_whole(folder: Path) -> bool:
        """Flushing a whole volume needs an administrator."""
        del folder
        return False

else:
    _libc = ctypes.CDLL(None, use_errno=True)

    def _flush_whole(folder: Path) -> bool:
        """Flush the file system of a folder; false where that is less than flushing each file."""
        release = re.match(r"(\d+)\.(\d+)", os.uname().release)
        if release is None or (int(release[1]), int(release[2])) < _HONEST or not hasattr(_libc, "syncfs"):
            return False
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            if _kind_of(descriptor) not in WHOLE:
                return False
            if _libc.syncfs(descriptor):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), os.fspath(folder))
        finally:
            os.close(descriptor)
        return True

    def _kind_of(descriptor: int) -> int:
        """Return the number by which ``statfs`` tells file systems apart, its first field; -1 without one."""
        answer = (ctypes.c_long * 64)()
        return answer[0] if _libc.fstatfs(descriptor, answer) == 0 else -1


# Paths come as the text that the system takes.
# ruff: noqa: PTH105, PTH108, PTH116, PTH208


_AT_FDCWD: Final = -100
_NOREPLACE: Final = 1
_EXCHANGE: Final = 2
#: What kernels and file systems answer that do not know a flag of ``renameat2``.
_UNKNOWN_FLAG: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})

#: Why a file system cannot be worked with.
UNSAFE: Final = "this file system can neither rename without replacing nor give a file a second name"

if sys.platform == "win32":
    from ctypes import wintypes

    _REPLACE_EXISTING: Final = 1
    _WRITE_THROUGH: Final = 8
    _GENERIC_READ: Final = 0x8000_0000
    _GENERIC_WRITE: Final = 0x4000_0000
    _OPEN_EXISTING: Final = 3
    _OPEN_REPARSE_POINT: Final = 0x0020_0000
    #: FILE_ADD_FILE and FILE_ADD_SUBDIRECTORY; every way of sharing; what a handle of a folder needs.
    _FILL: Final = 0x2 | 0x4
    _SHARE_ALL: Final = 0x7
    _BACKUP_SEMANTICS: Final = 0x0200_0000
    _HELD: Final = frozenset({5, 32, 33, 1224})
    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.MoveFileExW.argtypes = (wintypes.LPCWSTR, wintypes.LPCWSTR, wintypes.DWORD)
    _kernel.MoveFileExW.restype = wintypes.BOOL
    _kernel.CreateFileW.argtypes = (
        *(wintypes.LPCWSTR, wintypes.DWORD, wintypes.DWORD, wintypes.LPVOID),
        *(wintypes.DWORD, wintypes.DWORD, wintypes.HANDLE),
    )
    _kernel.CreateFileW.restype = wintypes.HANDLE
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)

    def _move(path: str, name: str, flags: int) -> None:
        """Call ``MoveFileExW`` and raise what Python would raise."""
        if not _kernel.MoveFileExW(path, name, flags | _WRITE_THROUGH):
            code = ctypes.get_last_error()
            raise OSError(None, ctypes.FormatError(code).strip(), path, code, name)

    def link(path: str, name: str) -> None:
        """Give a file a second name. Links get none, and read-only files neither: see ``replace``.

        ``MoveFileExW`` refuses to rename over a read-only file, and its attribute belongs to the
        original, which is not ours to change.
        """
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or not found.st_mode & stat.S_IWUSR:
            raise OSError(errno.EPERM, "no second name for this file", path)
        os.link(path, name)

    def rename_new(path: str, name: str) -> None:
        """Rename unless ``name`` exists (``FileExistsError``)."""
        _move(path, name, 0)

    def replace(path: str, name: str) -> None:
        """Rename over ``name``."""
        _move(path, name, _REPLACE_EXISTING)

    def exchange(path: str, name: str) -> bool:
        """Windows has no such step."""
        del path, name
        return False

    def _try_to_open(path: str, access: int, share: int, flags: int) -> None:
        """Open and close what lies at a path, and raise what Python would raise."""
        handle = _kernel.CreateFileW(path, access, share, None, _OPEN_EXISTING, flags, None)
        if handle == wintypes.HANDLE(-1).value:
            code = ctypes.get_last_error()
            raise OSError(None, ctypes.FormatError(code).strip(), path, code)
        _kernel.CloseHandle(handle)

    def may_fill(folder: str) -> bool:
        """Whether this user may add files and folders: the system checks that when the folder is opened."""
        try:
            retrying(lambda: _try_to_open(folder, _FILL, _SHARE_ALL, _BACKUP_SEMANTICS), denials=0)
        except OSError:
            return False
        return True

    def held(files: Sequence[Path]) -> frozenset[Path]:
        """Open without sharing: this fails while any process has the file open, loaded or running."""
        return frozenset(path for path in files if _is_held(extended_path(path)))

    def _is_held(path: str) -> bool:
        """Try one file; a read-only one is opened for reading."""
        writable = os.stat(path).st_mode & stat.S_IWUSR
        access = _GENERIC_READ | _GENERIC_WRITE if writable else _GENERIC_READ
        try:
            _try_to_open(path, access, 0, _OPEN_REPARSE_POINT)
        except OSError as error:
            return getattr(error, "winerror", 0) in _HELD
        return False

else:
    #: Device and inode in a line of ``/proc/PID/maps``; inode 0 is memory without a file.
    _MAPPED: Final = re.compile(rb" ([0-9a-f]+:[0-9a-f]+ [1-9][0-9]*) ")

    def _renameat2(path: str, name: str, flag: int) -> int:
        """Return 0 or the error number; ``ENOSYS`` where the C library has no such call."""
        call = getattr(_libc, "renameat2", None)
        if call is None:
            return errno.ENOSYS
        done = call(_AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(name), flag)
        return 0 if done == 0 else ctypes.get_errno()

    def link(path: str, name: str) -> None:
        """Give a file, or a link itself, a second name."""
        os.link(path, name, follow_symlinks=False)

    def rename_new(path: str, name: str) -> None:
        """Rename unless ``name`` exists; where the kernel cannot, a second name and then the first gone.

        In between the file has both names, never none. Where there are no second names either (exFAT
        through FUSE) this refuses with ``EOPNOTSUPP``: looking first and renaming then could overwrite.
        """
        code = _renameat2(path, name, _NOREPLACE)
        if code in _UNKNOWN_FLAG:
            _link_over(path, name)
            os.unlink(path)
        elif code:
            raise OSError(code, os.strerror(code), path, None, name)

    def _link_over(path: str, name: str) -> None:
        """Give a file the name that it shall keep."""
        try:
            os.link(path, name, follow_symlinks=False)
        except OSError as error:
            if error.errno not in {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP}:
                raise
            raise OSError(errno.EOPNOTSUPP, UNSAFE, path, None, name) from error

    def replace(path: str, name: str) -> None:
        """Rename over ``name``."""
        os.replace(path, name)

    def exchange(path: str, name: str) -> bool:
        """Trade two names; false where the kernel or the file system cannot."""
        code = _renameat2(path, name, _EXCHANGE)
        if code in _UNKNOWN_FLAG:
            return False
        if code:
            raise OSError(code, os.strerror(code), path, None, name)
        return True

    def held(files: Sequence[Path]) -> frozenset[Path]:
        """Look for the files among the mappings of this user's processes."""
        mapped: set[bytes] = set()
        for pid in os.listdir("/proc"):
            if pid.isdigit():
                mapped.update(_MAPPED.findall(_maps(pid)))
        return frozenset(path for path in files if _mapped_as(os.lstat(path)) in mapped)

    def _mapped_as(found: os.stat_result) -> bytes:
        """Return device and inode as ``/proc/PID/maps`` writes them."""
        return b"%02x:%02x %d" % (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)

    def _maps(pid: str) -> bytes:
        """Return ``/proc/PID/maps``; nothing for a process that ended or is not ours."""
        try:
            return (Path("/proc") / pid / "maps").read_bytes()
        except OSError:
            return b""
