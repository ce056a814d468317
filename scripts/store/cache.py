"""The content-addressed store: verified archives, unpacked trees, assembled runtimes.

``blobs-v1/ab/<sha256>`` is an archive as it was downloaded. ``trees-v1/<sha256>/`` and
``runtimes-v1/<digest>/`` are folders that never change once made; each is complete when its manifest
``<key>.json`` lies beside it. The number in a bucket's name changes with its format, so that old and
new versions of this program can share one store.

A folder without a manifest does not exist for us, so a run that is killed at any point leaves nothing that is
taken for whole.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from scripts.errors import ConflictError, HostError, UsageError, WorkspaceError
from scripts.model import NoProgress, Progress
from scripts.osal import fs

BLOBS: Final = "blobs-v1"
TREES: Final = "trees-v1"
RUNTIMES: Final = "runtimes-v1"
LOCKS: Final = "locks"

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_DIGEST: Final = re.compile(r"[0-9a-z][0-9a-z._-]{0,127}")
#: Larger manifests are not ours: 100,000 files with long names need less.
_MOST_MANIFEST: Final = 32 * 1024 * 1024
_LOCK_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")


class EntryKind(StrEnum):
    """What a cache entry is; a leftover is what a killed run left behind."""

    BLOB = "blob"
    TREE = "tree"
    RUNTIME = "runtime"
    LEFTOVER = "leftover"


class CacheEntry(Struct, frozen=True, kw_only=True):
    """One thing in the store; ``key`` is its SHA-256 (a leftover's file name).

    ``files`` are its files' sizes by device and number: a runtime's are second names of its trees' files.
    """

    kind: EntryKind
    key: str
    path: Path
    bytes: int
    files: Mapping[tuple[int, int], int] = field(default_factory=dict)


def disk_of(entries: Iterable[CacheEntry]) -> int:
    """Return the bytes that entries take together; a file with a name in several of them counts once."""
    return sum({number: size for entry in entries for number, size in entry.files.items()}.values())


class Cache(Struct, frozen=True):
    """The store below ``root``; nothing is made until ``ensure``."""

    root: Path
    progress: Progress = field(default_factory=NoProgress)

    def ensure(self) -> None:
        """Make the store's folders and its tag.

        Raises:
            UsageError: ``root`` holds files of other programs; a tag would exclude them from backups
                and allow us to delete them.
            HostError: ``root`` cannot be made or written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not fs.has_own_cachedir_tag(self.root):
                self._refuse_foreign_folder()
                fs.write_cachedir_tag(self.root)
            for bucket in (BLOBS, TREES, RUNTIMES, LOCKS):
                (self.root / bucket).mkdir(exist_ok=True)
        except OSError as error:
            raise not_writable(self.root, error) from error

    def blob_path(self, sha256: str) -> Path:
        """Return where the archive with this hash lies, or would."""
        key = _checked(_SHA256, sha256)
        return self.root / BLOBS / key[:2] / key

    def tree_path(self, sha256: str) -> Path:
        """Return the folder an archive is unpacked into."""
        return self.root / TREES / _checked(_SHA256, sha256)

    def runtime_path(self, digest: str) -> Path:
        """Return the folder of an assembled runtime."""
        return self.root / RUNTIMES / _checked(_DIGEST, digest)

    @contextmanager
    def locked(self, name: str, *, timeout: float = 1800.0) -> Iterator[None]:
        """Hold the lock ``name`` against other processes and threads; waiting is reported once.

        Raises:
            ConflictError: another run held it for ``timeout`` seconds.
        """
        from filelock import FileLock, Timeout  # noqa: PLC0415 - slow to import; most runs take no lock

        path = self.root / LOCKS / f"{_checked(_LOCK_NAME, name)}.lock"
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            self.progress.note(f"waiting for another run that works on {name} (it holds {path})")
            try:
                lock.acquire(timeout=timeout)
            except Timeout as error:
                msg = f"another run has held {path} for {timeout:.0f} seconds"
                hint = "wait for it or end it; the lock goes with the process, the file itself may stay"
                raise ConflictError("store-locked", msg, hint=hint) from error
        except OSError as error:
            raise not_writable(path, error) from error
        try:
            yield
        finally:
            lock.release()

    def making(self, path: Path) -> AbstractContextManager[None]:
        """Hold one entry, named by its path, against all others who make or remove it."""
        bucket = path.relative_to(self.root).parts[0]
        return self.locked(f"{bucket.partition('-')[0]}-{_key_in(path.name)}")

    def entries(self) -> tuple[CacheEntry, ...]:
        """List what is in the store, in a stable order."""
        found = (*self._blobs(), *self._folders(TREES), *self._folders(RUNTIMES))
        return tuple(sorted(found, key=lambda entry: (entry.kind, entry.key)))

    def remove(self, entry: CacheEntry) -> None:
        """Take one entry away, waiting for whoever is making it.

        The manifest goes first: a tree without one counts as absent, so that a crash leaves no half.

        Raises:
            ConflictError: the store has no valid tag, the entry is not of this store, or it is in use.
        """
        self._require_tag()
        inside = entry.path.is_relative_to(self.root) and ".." not in entry.path.parts
        bucket = entry.path.relative_to(self.root).parts[:1] if inside else ()
        if bucket not in {(BLOBS,), (TREES,), (RUNTIMES,)}:
            msg = f"{entry.path} is not an entry of this store"
            raise ConflictError("not-a-cache-entry", msg, hint="list what is there with `invoke cache.list`")
        with self.making(entry.path):
            try:
                if entry.kind in {EntryKind.TREE, EntryKind.RUNTIME}:
                    fs.remove(manifest_path(entry.path))
                fs.remove_tree(entry.path)
            except PermissionError as error:
                raise in_use(entry.path, error) from error

    def clear(self) -> None:
        """Take the whole store away; files in ``root`` that are not ours stay.

        Raises:
            ConflictError: the store has no valid tag, or something in it is in use.
        """
        if not self.root.exists():
            return
        self._require_tag()
        try:
            for bucket in (TREES, RUNTIMES, BLOBS, LOCKS):
                fs.remove_tree(self.root / bucket)
            fs.remove(self.root / fs.CACHEDIR_TAG)
        except PermissionError as error:
            raise in_use(self.root, error) from error
        if not any(self.root.iterdir()) and not fs.is_link(self.root):
            self.root.rmdir()

    def _refuse_foreign_folder(self) -> None:
        """Refuse a folder that holds anything but a tag another run is just writing."""
        strangers = [p.name for p in self.root.iterdir() if not p.name.startswith(f".{fs.CACHEDIR_TAG}")]
        if not strangers or fs.has_own_cachedir_tag(self.root):
            return
        msg = f"{self.root} is not empty and not a store of ours"
        raise UsageError(
            "cache-not-ours",
            msg,
            context=tuple(f"holds {name}" for name in sorted(strangers)[:5]),
            hint="set CUDA_AMD_CACHE to a folder that is empty or does not exist yet",
        )

    def _require_tag(self) -> None:
        """Refuse to delete in a folder that does not say that it is a cache."""
        if not fs.has_own_cachedir_tag(self.root):
            msg = f"{self.root} has no CACHEDIR.TAG of ours, so nothing in it is deleted"
            hint = "check that CUDA_AMD_CACHE points at the store; remove other folders by hand"
            raise ConflictError("cache-tag-missing", msg, hint=hint)

    def _blobs(self) -> Iterator[CacheEntry]:
        """List archives and what interrupted downloads left."""
        for folder in _children(self.root / BLOBS):
            for path in _children(folder):
                whole = _SHA256.fullmatch(path.name) is not None
                kind = EntryKind.BLOB if whole else EntryKind.LEFTOVER
                yield _entry(kind, path)

    def _folders(self, bucket: str) -> Iterator[CacheEntry]:
        """List complete folders (with a manifest beside them) and what killed runs left."""
        kind = EntryKind.TREE if bucket == TREES else EntryKind.RUNTIME
        for path in _children(self.root / bucket):
            if path.suffix == ".json" and path.with_suffix("").is_dir():
                continue
            complete = not path.name.startswith(".") and manifest_path(path).is_file()
            yield _entry(kind if complete else EntryKind.LEFTOVER, path)


def manifest_path(folder: Path) -> Path:
    """Return where the manifest of a tree or runtime lies: beside it, so that the folder stays untouched."""
    return folder.with_name(f"{folder.name}.json")


def not_writable(path: Path, error: OSError) -> WorkspaceError:
    """Describe a store that cannot be written."""
    msg = f"the store cannot be written: {path}"
    hint = "set CUDA_AMD_CACHE to a folder on a local disk that you may write"
    return HostError("cache-not-writable", msg, context=(str(error),), hint=hint)


def in_use(path: Path, error: OSError) -> WorkspaceError:
    """Describe an entry that a running program still holds."""
    msg = f"{path} could not be removed: a program still uses it"
    hint = "close the programs that were started with this stack, then try again"
    return ConflictError("store-in-use", msg, context=(str(error),), hint=hint)


def is_digest(text: object) -> bool:
    """Say whether this could name a runtime: no folder, no way out of one."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def _checked(pattern: re.Pattern[str], key: str) -> str:
    """Return ``key`` if it is shaped as it must be: it becomes part of a path."""
    if pattern.fullmatch(key) is None:
        msg = f"not a key of the store: {key!r}"
        raise ValueError(msg)
    return key


def _key_in(name: str) -> str:
    """Return the key in the name of an entry or of what a killed run left of it: the first hash in it."""
    found = _SHA256.search(name)
    if found:
        return found.group()
    return name if _LOCK_NAME.fullmatch(name) else "leftover"


def _children(folder: Path) -> list[Path]:
    """List a folder in a stable order; a missing one is empty, a link is not followed."""
    try:
        return [] if fs.is_link(folder) or not folder.is_dir() else sorted(folder.iterdir())
    except OSError:
        return []


def _entry(kind: EntryKind, path: Path) -> CacheEntry:
    """Measure one entry; what vanishes while we look counts as empty."""
    found = dict(_sizes(path))
    return CacheEntry(kind=kind, key=path.name, path=path, bytes=sum(found.values()), files=found)


def _sizes(path: Path) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield device and number, and the size, of a file or of everything below a folder."""
    try:
        if fs.is_link(path) or not path.is_dir():
            yield _measured(path)
            return
        for folder, _, names in os.walk(fs.long_path(path)):
            for name in names:
                yield _measured(Path(folder, name))
    except OSError:
        return


def _measured(path: Path) -> tuple[tuple[int, int], int]:
    """Look at one file; where a file system numbers none, its path stands for the number."""
    status = path.lstat()
    return (status.st_dev, status.st_ino or hash(path)), status.st_size


def write_manifest(folder: Path, body: object) -> None:
    """Declare a folder complete."""
    data = json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    fs.write_atomic(manifest_path(folder), data + b"\n")


def read_manifest(folder: Path) -> Any:  # noqa: ANN401 - parsed JSON, checked by the caller
    """Return what a manifest holds.

    Raises:
        ValueError, OSError: there is none, it is too large, or it is not JSON.
    """
    try:
        return json.loads(fs.read_bounded(manifest_path(folder), _MOST_MANIFEST))
    except RecursionError as error:
        raise ValueError(str(error)) from error


T = TypeVar("T")


def publish(final: Path, fill: Callable[[Path], T]) -> T:
    """Make the folder ``final`` of what ``fill`` writes into an empty one beside it, and verifies there.

    The caller holds the entry's lock, and writes the manifest when this has returned. The rename is durable
    then; the files' bytes need not be, because their hashes are in the manifest.

    Raises:
        ConflictError: ``store-in-use``: a program holds what a killed or damaged run left there.
    """
    clear_away(final)
    work = fs.temporary_beside(final)
    work.mkdir(parents=True)
    try:
        made = fill(work)
        fs.replace(work, final)
    except BaseException:
        fs.remove_tree(work)
        raise
    fs.sync_folder(final.parent)
    return made


def clear_away(final: Path) -> None:
    """Remove a folder and what killed runs left of it; its manifest first.

    Raises:
        ConflictError: ``store-in-use``: a program holds one of its files.
    """
    try:
        fs.remove(manifest_path(final))
        for path in (final, *final.parent.glob(f".{final.name}.*.tmp"), final.with_name(f"{final.name}.new")):
            fs.remove_tree(path)
    except PermissionError as error:
        raise in_use(final, error) from error
