"""Waiting until bytes and names are on the disk, in as few waits as the system's promises allow."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.system.patience import native
from scripts.system.spread import spread

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
        workers = min(FLUSHERS, len(paths))
        spread(_flush_each, [paths[first::workers] for first in range(workers)], threads=workers)


def flush_folder(folder: Path) -> None:
    """Return when the names in a folder would survive; a file system that cannot say so is taken at its word.

    On Windows this does nothing, because Python cannot flush a folder there.
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


def _flush_each(paths: Sequence[Path]) -> None:
    """Flush file after file."""
    for path in paths:
        _flush(path)


def _flush(path: Path) -> None:
    """Flush one file; Windows flushes writable handles only."""
    descriptor = os.open(native(path), os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
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
