"""Worlds to place in, and file systems that die, refuse or lack something at the n-th operation."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scripts.osal.file_operations import Fs
from scripts.osal.processes import User
from scripts.placement.plan import PlacementItem

#: What changes the disk, or would make a change durable; only these are crash points.
CHANGING: Final = frozenset(
    {
        *("mkdir", "write_new", "append", "copy_new", "link", "rename_new", "replace", "exchange"),
        *("unlink", "rmdir", "set_mtime", "sync_files", "sync_folder", "lock"),
    }
)
#: A user whose process is never running.
GONE: Final = User(4_000_000_000, "never")
STACK: Final = {"stack": "test-stack", "digest": "d" * 64}
#: A second file system, tmpfs, where there is one; fast enough for thousands of crashes.
MEMORY: Final = Path("/dev/shm") if sys.platform != "win32" and Path("/dev/shm").is_dir() else None  # noqa: S108 - memory, and only tests write there
OLD: Final = 1_600_000_000_123_456_700  # a multiple of 100 ns, which is what NTFS keeps


class Died(BaseException):
    """The process ended here, as far as the code under test can tell."""


class LightFs(Fs):
    """Does not wait for the disk; can be told to lack what other file systems lack."""

    def __init__(self, *, links: bool = True, trades: bool = True, noreplace: bool = True) -> None:
        self.links = links
        self.trades = trades
        self.noreplace = noreplace

    def link(self, path: Path, name: Path) -> bool:
        if self.links:
            return super().link(path, name)
        self.before("link", path, name)
        return False

    def exchange(self, path: Path, name: Path) -> bool:
        if self.trades:
            return super().exchange(path, name)
        self.before("exchange", path, name)
        return False

    def rename_new(self, path: Path, name: Path) -> None:
        if self.noreplace:
            super().rename_new(path, name)
            return
        self.before("rename_new", path, name)
        os.link(path, name, follow_symlinks=False)
        self.before("unlink", path)
        path.unlink()

    def halve(self, path: Path) -> None:
        """Leave half of a file, as a write that was cut off does."""
        os.truncate(path, path.stat().st_size // 2)

    def in_use(self, files: Sequence[Path]) -> frozenset[Path]:
        return frozenset()

    def sync_files(self, paths: Sequence[Path]) -> None:
        self.before("sync_files", *paths)

    def sync_folder(self, folder: Path) -> None:
        self.before("sync_folder", folder)


class Dying(LightFs):
    """Dies before the n-th change, or with ``half`` in the middle of it where it writes."""

    def will_die(self, at: int, *, half: bool = False, end: Callable[[], None] | None = None) -> None:
        self.at_change = at
        self.half = half
        self.end = end
        self.count = 0
        self.dead = False
        self.log: list[str] = []

    def before(self, operation: str, *paths: Path) -> None:
        if self.dead:
            raise Died
        if operation in CHANGING:
            self.count += 1
            self.log.append(f"{operation} {' '.join(path.name for path in paths[-2:])}")
            writes = operation in {"write_new", "append", "copy_new"}
            if self.count == self.at_change and not (self.half and writes):
                self.die()

    def die(self) -> None:
        self.dead = True
        if self.end is not None:
            self.end()
        raise Died

    def write_new(self, path: Path, data: bytes) -> None:
        torn = self.half and self.count + 1 == self.at_change
        super().write_new(path, data[: len(data) // 2] if torn else data)
        if torn:
            self.die()

    def append(self, path: Path, at: int, data: bytes) -> None:
        torn = self.half and self.count + 1 == self.at_change
        super().append(path, at, data[: len(data) // 2] if torn else data)
        if torn:
            self.die()

    def copy_new(self, source: Path, path: Path) -> str:
        torn = self.half and self.count + 1 == self.at_change
        digest = super().copy_new(source, path)
        if torn:
            self.halve(path)
            self.die()
        return digest


class DyingFs(Dying):
    """The real file system, on which somebody dies."""

    def __init__(
        self, at: int, *, half: bool = False, end: Callable[[], None] | None = None, **options: bool
    ) -> None:
        super().__init__(**options)
        self.will_die(at, half=half, end=end)


class Failing(LightFs):
    """Raises an error at the n-th change, and with ``lasting`` at every later one of the same kind."""

    def will_fail(self, at: int, error: Callable[[], OSError], *, lasting: bool = False) -> None:
        self.at_change = at
        self.error = error
        self.lasting = lasting
        self.count = 0
        self.kind = ""

    def before(self, operation: str, *paths: Path) -> None:
        if operation not in CHANGING:
            return
        self.count += 1
        if self.count == self.at_change:
            self.kind = operation
            raise self.error()
        if self.lasting and operation == self.kind:
            raise self.error()


@dataclass
class World:
    """A program's folder and files to place there."""

    root: Path
    items: list[PlacementItem] = field(default_factory=list)
    start: dict[str, object] = field(default_factory=dict)

    @property
    def target(self) -> Path:
        return self.root / "app"

    def own(self, path: str, data: bytes, *, mode: int = 0o644) -> Path:
        """Make a file of the user's."""
        file = self.target.joinpath(*path.split("/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(mode)
        os.utime(file, ns=(OLD, OLD))
        return file

    def link(self, path: str, to: str) -> None:
        """Make a link of the user's."""
        file = self.target.joinpath(*path.split("/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(to)

    def item(self, folder: str, name: str, data: bytes) -> PlacementItem:
        """Make a file of ours and ask for it to be placed."""
        source = self.root / "store" / hashlib.sha256(os.fsencode(f"{folder}/{name}")).hexdigest()[:16]
        source.parent.mkdir(exist_ok=True)
        source.write_bytes(data)
        if sys.platform != "win32":  # there a read-only file cannot be removed after the test
            source.chmod(0o444)
        digest = hashlib.sha256(data).hexdigest()
        item = PlacementItem(folder=folder, name=name, source=source, sha256=digest, size=len(data))
        self.items.append(item)
        return item

    def settle(self) -> World:
        """Give folders an old time and remember how everything is."""
        for folder in sorted((p for p in self.target.rglob("*") if is_folder(p)), reverse=True):
            os.utime(folder, ns=(OLD + 5_000, OLD + 5_000))
        self.start = tree(self.target)
        return self

    def originals(self) -> set[str]:
        """Hash what the user had."""
        return {str(entry[1]) for entry in self.start.values() if isinstance(entry, tuple)}


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def tree(target: Path) -> dict[str, object]:
    """Return everything that must come back: names, kinds, bytes, modes, times; not the root's own time."""
    return {path.relative_to(target).as_posix(): _entry(path) for path in walk(target)}


def walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        path = Path(entry.path)
        yield path
        if is_folder(path):
            yield from walk(path)


def _entry(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return ("link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest(), found.st_mtime_ns)
    if stat.S_ISDIR(found.st_mode):
        return ("folder", "", mode, found.st_mtime_ns)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return ("file", digest, found.st_size, mode, found.st_mtime_ns)


def bytes_lost(world: World) -> set[str]:
    """Return hashes of the user's files that are nowhere in the target any more."""
    here = {str(entry[1]) for entry in tree(world.target).values() if isinstance(entry, tuple)}
    return world.originals() - here


def create_world(root: Path) -> World:
    world = World(root)
    world.own("program.exe", b"the program")
    world.own("lib/data.txt", b"data")
    world.item("", "nvcuda.dll", b"ours: nvcuda")
    world.item("lib", "cublas64_11.dll", b"ours: cublas")
    return world.settle()


def replace_world(root: Path) -> World:
    world = World(root)
    world.own("nvcuda.dll", b"theirs: nvcuda", mode=0o600)
    world.own("lib/cublas64_11.dll", b"theirs: cublas", mode=0o755)
    world.item("", "nvcuda.dll", b"ours: nvcuda")
    world.item("lib", "cublas64_11.dll", b"ours: cublas")
    return world.settle()


def mixed_world(root: Path) -> World:
    world = World(root)
    world.own("program.exe", b"the program")
    world.own("nvcuda.dll", b"theirs: nvcuda")
    world.own("lib/cufft64_10.dll", b"theirs: cufft", mode=0o444 if sys.platform != "win32" else 0o644)
    world.own("lib/same.dll", b"identical")
    world.item("", "nvcuda.dll", b"ours: nvcuda")
    world.item("", "nvml.dll", b"ours: nvml")
    world.item("lib", "cufft64_10.dll", b"ours: cufft")
    world.item("lib", "same.dll", b"identical")
    if sys.platform != "win32":
        world.link("lib/libcuda.so.1", "libcuda.so.470")
        world.item("lib", "libcuda.so.1", b"ours: libcuda")
    return world.settle()


def pair_world(root: Path) -> World:
    world = World(root)
    world.own("lib/a.dll", b"theirs: a")
    world.item("lib", "a.dll", b"ours: a")
    world.item("lib", "b.dll", b"ours: b")
    return world.settle()


WORLDS: Final = {
    "create": create_world,
    "replace": replace_world,
    "mixed": mixed_world,
    "pair": pair_world,
}

#: What a file system may lack, by a name for the test's id.
VARIANTS: Final[dict[str, dict[str, bool]]] = {
    "all": {},
    **({"no-exchange": {"trades": False}} if sys.platform != "win32" else {}),  # Windows never has it
    "no-links": {"links": False, "trades": False},
    **({"no-noreplace": {"trades": False, "noreplace": False}} if sys.platform != "win32" else {}),
}


LOADER = """
import ctypes, sys
ctypes.WinDLL(sys.argv[1])
print("loaded", flush=True)
sys.stdin.read()
"""


def loader(path: Path) -> subprocess.Popen[bytes]:
    """A real program that has loaded a library and waits."""
    command = [sys.executable, "-c", LOADER, str(path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == b"loaded"
    return child
