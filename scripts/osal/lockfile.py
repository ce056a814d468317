"""A lock file held by an open handle: the operating system lets go when the process ends, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(self.path, flags, 0o600)
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
        here = os.lstat(path)
    except FileNotFoundError:
        return False
    held = os.fstat(handle)
    return (held.st_dev, held.st_ino) == (here.st_dev, here.st_ino)
