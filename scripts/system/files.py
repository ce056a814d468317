"""File operations that survive crashes, antivirus programs, long Windows paths and read-only attributes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

CHUNK: Final = 1024 * 1024


def hash_file(path: Path, *, advance: Callable[[int], None] | None = None) -> str:
    """Return the SHA-256 of a file, lower-case hex, in constant memory."""
    raise NotImplementedError


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``path`` so that a reader sees the old bytes or the new ones, also after a crash."""
    raise NotImplementedError


def replace(source: Path, destination: Path) -> None:
    """Rename over ``destination``; on Windows wait for whoever holds it (errors 5, 32, 33 only)."""
    raise NotImplementedError


def remove(path: Path) -> None:
    """Remove one file, also a read-only one; on Windows wait as in ``replace``."""
    raise NotImplementedError


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` durable where the platform can (Windows cannot)."""
    raise NotImplementedError


def free_space(path: Path) -> int:
    """Return the bytes free for this user on the volume of ``path`` (which need not exist yet)."""
    raise NotImplementedError


def make_read_only(tree: Path) -> None:
    """Take write permission from every file below ``tree`` (folders too, on POSIX)."""
    raise NotImplementedError


def remove_tree(tree: Path) -> None:
    """Remove a tree of ours, read-only files included; never follow a link out of it."""
    raise NotImplementedError


def long_path(path: Path) -> Path:
    """Return ``path`` in the form Windows accepts beyond 260 characters; unchanged elsewhere."""
    raise NotImplementedError


def write_cachedir_tag(folder: Path) -> None:
    """Mark ``folder`` as a cache (bford.info/cachedir)."""
    raise NotImplementedError


def has_cachedir_tag(folder: Path) -> bool:
    """Say whether ``folder`` carries a valid CACHEDIR.TAG."""
    raise NotImplementedError
