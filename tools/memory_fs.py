"""A disk in memory behind the same seam: thousands of deaths take seconds, on Windows too.

It does what the real file system of this platform does; ``test_placement_crash.py`` compares the two after
every death, name by name, byte by byte, and second name by second name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scripts.osal.file_operations import FileKind, Seen
from scripts.osal.fs import LockFile
from scripts.placement.layout import fold
from tests.placement_harness import Dying, Failing, LightFs

#: By path: the kind, the bytes, and the first of the names that this file has.
Shape = dict[str, tuple[FileKind, object, str]]


@dataclass
class Node:
    """One inode; a folder's names are in ``names``."""

    kind: FileKind
    data: bytes = b""
    mode: int = 0o700
    mtime_ns: int = 0
    names: dict[str, Node] = field(default_factory=dict)
    inode: int = 0


@dataclass
class Disk:
    """Everything below one folder; ``clock`` counts the changes, so that no two have one time or inode."""

    top: Path
    root: Node
    clock: int
    #: Names are one whatever their case, and times are in steps of so many nanoseconds, as on FAT.
    folds: bool = False
    tick: int = 1

    @classmethod
    def of(cls, folder: Path, *, folds: bool = False, tick: int = 1) -> Disk:
        """Take a real folder in."""
        seen: dict[tuple[int, int], Node] = {}
        disk = cls(folder, _scan(folder, seen), clock=2_000_000_000_000_000_000, folds=folds, tick=tick)
        for _, node in _paths(disk.root):
            node.mtime_ns -= node.mtime_ns % tick
        return disk

    def copy(self) -> Disk:
        """Return an independent disk with the same inodes."""
        return Disk(self.top, _copied(self.root, {}), self.clock, self.folds, self.tick)

    def find(self, path: Path) -> Node | None:
        """Return what lies at a path."""
        node: Node | None = self.root
        for part in path.parts[len(self.top.parts) :]:
            node = node.names.get(self.spelled(node, part)) if node is not None else None
        return node

    def spelled(self, folder: Node, name: str) -> str:
        """Return the spelling under which a name is there, else the name."""
        if not self.folds or name in folder.names:
            return name
        return next((known for known in folder.names if fold(known) == fold(name)), name)

    def now(self) -> int:
        """Return a time later than any before, as far as the steps let it be seen."""
        self.clock += 1_000
        return self.clock - self.clock % self.tick

    def shape(self) -> Shape:
        """Return names, kinds, bytes and which names are one file, as ``shape_of`` does of a real folder."""
        return _shape(_paths(self.root))

    def state(self) -> tuple[object, ...]:
        """Return everything that must come back, times and modes as well; not the top's own time."""
        return tuple(
            (path, node.kind, node.data, node.mode, node.mtime_ns) for path, node in _paths(self.root)
        )

    def everything(self) -> tuple[object, ...]:
        """Return all that a recovery could go by: also which names are one file."""
        return tuple(
            (path, node.kind, node.data, node.mode, node.mtime_ns, node.inode)
            for path, node in _paths(self.root)
        )

    def contents(self) -> set[bytes]:
        """Return the bytes of every file."""
        return {node.data for _, node in _paths(self.root) if node.kind is not FileKind.FOLDER}


def shape_of(folder: Path) -> Shape:
    """Return a real folder's shape."""
    return Disk.of(folder).shape()


def _scan(path: Path, seen: dict[tuple[int, int], Node]) -> Node:
    found = path.lstat()
    known = seen.get((found.st_dev, found.st_ino))
    if known is not None and not stat.S_ISDIR(found.st_mode):
        return known
    node = Node(
        FileKind.FILE, mode=stat.S_IMODE(found.st_mode), mtime_ns=found.st_mtime_ns, inode=len(seen) + 1
    )
    seen[found.st_dev, found.st_ino] = node
    if path.is_symlink():
        node.kind, node.data = FileKind.LINK, os.fsencode(path.readlink())
    elif stat.S_ISDIR(found.st_mode):
        node.kind = FileKind.FOLDER
        node.names = {entry.name: _scan(Path(entry.path), seen) for entry in os.scandir(path)}
    else:
        node.data = path.read_bytes()
    return node


def _copied(node: Node, done: dict[int, Node]) -> Node:
    twin = done.get(node.inode)
    if twin is None:
        twin = Node(node.kind, node.data, node.mode, node.mtime_ns, {}, node.inode)
        done[node.inode] = twin
        twin.names = {name: _copied(inner, done) for name, inner in node.names.items()}
    return twin


def _paths(folder: Node, above: str = "") -> Iterator[tuple[str, Node]]:
    for name, node in sorted(folder.names.items()):
        yield above + name, node
        yield from _paths(node, f"{above}{name}/")


def _shape(paths: Iterator[tuple[str, Node]]) -> Shape:
    first: dict[int, str] = {}
    return {path: (node.kind, _told(path, node), first.setdefault(node.inode, path)) for path, node in paths}


def _told(path: str, node: Node) -> object:
    """Return the bytes; of what holds times of its own the length, and which records it has."""
    if path in {".cuda-amd/journal", ".cuda-amd/README.txt"}:
        return len(node.data), re.findall(rb'"record":"(\w+)"', node.data)
    return node.data


class MemoryLock(LockFile):
    """A lock file on a disk in memory, where no other process is."""

    def __init__(self, fs: MemoryFs, path: Path) -> None:
        super().__init__(path)
        self.fs = fs

    def try_acquire(self) -> bool:
        """Take it; the file appears."""
        self.fs.folder(self.path)
        if self.fs.disk.find(self.path) is None:
            self.fs.new(self.path, FileKind.FILE, mode=0o600)
        return True


class MemoryFs(LightFs):
    """Works on a ``Disk``; may lack what other file systems lack."""

    def __init__(
        self, disk: Disk, *, links: bool = True, trades: bool = True, noreplace: bool = True
    ) -> None:
        super().__init__(links=links, trades=trades and sys.platform != "win32", noreplace=noreplace)
        self.disk = disk

    # The disk -----------------------------------------------------------------------------------

    def at(self, path: Path) -> Node:
        node = self.disk.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        return node

    def folder(self, path: Path) -> Node:
        return self.at(path.parent)

    def new(self, path: Path, kind: FileKind, data: bytes = b"", *, mode: int) -> None:
        self.free(path)
        now = self.disk.now()
        self.put(path, Node(kind, data, mode, now, {}, inode=self.disk.clock))

    def put(self, path: Path, node: Node) -> None:
        folder = self.folder(path)
        folder.names[self.disk.spelled(folder, path.name)] = node
        self.touch(folder)

    def take(self, path: Path) -> Node:
        folder = self.folder(path)
        name = self.disk.spelled(folder, path.name)
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        self.touch(folder)
        return folder.names.pop(name)

    def touch(self, node: Node) -> None:
        node.mtime_ns = self.disk.now()

    def free(self, path: Path) -> None:
        if self.disk.find(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))

    # Looking ------------------------------------------------------------------------------------

    def look(self, path: Path) -> Seen | None:
        self.before("look", path)
        node = self.disk.find(path)
        if node is None:
            return None
        return Seen(
            kind=node.kind,
            size=len(node.data),
            mtime_ns=node.mtime_ns,
            mode=node.mode,
            inode=node.inode,
            device=1,
            owner=os.geteuid() if sys.platform != "win32" else None,
        )

    def names(self, folder: Path) -> tuple[str, ...]:
        self.before("names", folder)
        node = self.disk.find(folder)
        return tuple(sorted(node.names)) if node is not None else ()

    def read(self, path: Path) -> bytes:
        self.before("read", path)
        return self.at(path).data

    def sha256(self, path: Path) -> str:
        self.before("sha256", path)
        return hashlib.sha256(self.at(path).data).hexdigest()

    def free_bytes(self, folder: Path) -> int:
        del folder
        return 10**12

    def writable(self, folder: Path) -> bool:
        del folder
        return True

    def lock_at(self, path: Path) -> LockFile:
        return MemoryLock(self, path)

    # Changing -----------------------------------------------------------------------------------

    def mkdir(self, folder: Path, mode: int = 0o700) -> bool:
        self.before("mkdir", folder)
        if self.disk.find(folder) is not None:
            return False
        self.new(folder, FileKind.FOLDER, mode=mode)
        return True

    def write_new(self, path: Path, data: bytes) -> None:
        self.before("write_new", path)
        self.new(path, FileKind.FILE, data, mode=0o644)

    def append(self, path: Path, at: int, data: bytes) -> None:
        self.before("append", path)
        node = self.at(path)
        node.data = node.data[:at] + data
        self.touch(node)

    def copy_new(self, source: Path, path: Path) -> str:
        self.before("copy_new", source, path)
        data = _source(source)
        self.new(path, FileKind.FILE, data, mode=0o644)
        return hashlib.sha256(data).hexdigest()

    def halve(self, path: Path) -> None:
        node = self.at(path)
        node.data = node.data[: len(node.data) // 2]

    def link(self, path: Path, name: Path) -> bool:
        self.before("link", path, name)
        node = self.at(path)
        refused = sys.platform == "win32" and (node.kind is FileKind.LINK or not node.mode & stat.S_IWUSR)
        if not self.links or refused:
            return False
        self.free(name)
        self.put(name, node)
        return True

    def rename_new(self, path: Path, name: Path) -> None:
        self.before("rename_new", path, name)
        self.at(path)
        self.free(name)
        if self.noreplace:
            self.put(name, self.take(path))
            return
        self.put(name, self.at(path))
        self.before("unlink", path)
        self.take(path)

    def replace(self, path: Path, name: Path) -> None:
        self.before("replace", path, name)
        if self.at(path) is self.disk.find(name):
            return  # two names of one file: POSIX does nothing
        self.put(name, self.take(path))

    def exchange(self, path: Path, name: Path) -> bool:
        self.before("exchange", path, name)
        if not self.trades:
            return False
        one, two = self.at(path), self.at(name)
        self.put(path, two)
        self.put(name, one)
        return True

    def unlink(self, path: Path) -> None:
        self.before("unlink", path)
        if self.disk.find(path) is not None:
            self.take(path)

    def rmdir(self, folder: Path) -> bool:
        self.before("rmdir", folder)
        node = self.disk.find(folder)
        if node is not None and node.names:
            return False
        if node is not None:
            self.take(folder)
        return True

    def set_mtime(self, path: Path, mtime_ns: int) -> None:
        self.before("set_mtime", path)
        self.at(path).mtime_ns = mtime_ns - mtime_ns % self.disk.tick


class DyingMemory(Dying, MemoryFs):
    """Dies before its n-th change, or half-way through it."""

    def __init__(
        self,
        disk: Disk,
        at: int,
        *,
        half: bool = False,
        end: Callable[[], None] | None = None,
        **options: bool,
    ) -> None:
        MemoryFs.__init__(self, disk, **options)
        self.will_die(at, half=half, end=end)


class FailingMemory(Failing, MemoryFs):
    """Raises an error at its n-th change."""


_sources: dict[Path, bytes] = {}


def _source(path: Path) -> bytes:
    """Read a file of the store, once."""
    data = _sources.get(path)
    if data is None:
        data = _sources[path] = path.read_bytes()
    return data
