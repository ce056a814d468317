"""The bytes of files, read, hashed and copied with few calls; a link at a path's end is never followed."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
from pathlib import Path
from typing import Final

from scripts.system.patience import native

CHUNK: Final = 1024 * 1024
_READ: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_UNLINKED: Final = _READ | getattr(os, "O_NOFOLLOW", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def read_file(path: Path) -> bytes:
    """Return the bytes of a small file, refusing a link that somebody put there."""
    descriptor = os.open(native(path), _UNLINKED)
    try:
        return b"".join(iter(lambda: os.read(descriptor, CHUNK), b""))
    finally:
        os.close(descriptor)


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a regular file, or of a link's own text."""
    if sys.platform == "win32" and path.is_symlink():
        return _hash_link(path)
    try:
        descriptor = os.open(native(path), _UNLINKED)
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
    old = os.open(native(source), _READ)
    try:
        found = os.fstat(old)
        new = os.open(native(path), _NEW, stat.S_IMODE(found.st_mode) | stat.S_IWUSR)
        try:
            if sys.platform != "win32":
                os.fchmod(new, stat.S_IMODE(found.st_mode) | stat.S_IWUSR)  # whatever the umask says
            piece = _piece(found.st_size)
            while chunk := os.read(old, piece):
                digest.update(chunk)
                _write(new, chunk)
        finally:
            os.close(new)
    finally:
        os.close(old)
    return digest.hexdigest()


def _hash_link(path: Path) -> str:
    """Hash the text of a link."""
    return hashlib.sha256(os.fsencode(path.readlink())).hexdigest()


def _piece(size: int) -> int:
    """Return how much to read at a time: a large buffer is dear for a small file."""
    return min(CHUNK, size + 1)


def _write(descriptor: int, data: bytes) -> None:
    """Write everything; the system may take less at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
