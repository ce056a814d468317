"""The content-addressed store: verified archives, unpacked trees, assembled runtimes, and their locks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from scripts.model import NoProgress, Progress


class EntryKind(StrEnum):
    """What a cache entry is."""

    BLOB = "blob"
    TREE = "tree"
    RUNTIME = "runtime"
    LEFTOVER = "leftover"


@dataclass(frozen=True, kw_only=True)
class CacheEntry:
    """One thing in the store; ``key`` is its SHA-256 (a leftover's file name), ``mtime`` in seconds."""

    kind: EntryKind
    key: str
    path: Path
    bytes: int
    mtime: float


@dataclass(frozen=True)
class Cache:
    """The store below ``root``; nothing is made until ``ensure``."""

    root: Path
    progress: Progress = field(default_factory=NoProgress)

    def ensure(self) -> None:
        """Make the store's folders and its tag."""
        raise NotImplementedError

    def blob_path(self, sha256: str) -> Path:
        """Return where the archive with this hash lies, or would."""
        raise NotImplementedError

    def has_blob(self, sha256: str) -> bool:
        """Say whether a verified archive with this hash is here."""
        raise NotImplementedError

    def tree_path(self, sha256: str) -> Path:
        """Return the folder an archive is unpacked into; its manifest lies beside it."""
        raise NotImplementedError

    def runtime_path(self, digest: str) -> Path:
        """Return the folder of an assembled runtime."""
        raise NotImplementedError

    @contextmanager
    def locked(self, name: str, *, timeout: float = 600.0) -> Iterator[None]:
        """Hold the lock ``name`` against other processes."""
        raise NotImplementedError
        yield

    def entries(self) -> tuple[CacheEntry, ...]:
        """List what is in the store, in a stable order."""
        raise NotImplementedError

    def remove(self, entry: CacheEntry) -> None:
        """Take one entry away."""
        raise NotImplementedError

    def clear(self) -> None:
        """Take the whole store away."""
        raise NotImplementedError
