"""A model of losing power: what was not flushed may be there afterwards, or not, in any combination.

``RecordingFs`` does everything really and writes it down as effects on *inodes* and *names*. A rename is
one effect on two folders, as journaling file systems promise, and is durable when both were flushed. An
inode's bytes are durable when the file was flushed, a folder's time when the folder was. Every effect
that is not durable at the moment of the failure may be dropped on its own; a dropped write may leave
nothing, NULs of the right length, or half.
"""

from __future__ import annotations

import itertools
import os
import random
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.placement_harness import LightFs

#: Up to so many undecided effects every combination is tried; beyond, a sample that holds the extremes.
EXHAUSTIVE: Final = 9
SAMPLE: Final = 192


@dataclass
class Inode:
    kind: str
    data: bytes = b""
    mode: int = 0o700
    mtime_ns: int = 0
    names: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Inode:
        return Inode(self.kind, self.data, self.mode, self.mtime_ns, dict(self.names))


@dataclass
class Effect:
    """``names``: (folder, name, inode or None); ``data``: (inode, old, new); ``time``: (inode, time)."""

    what: str
    names: tuple[tuple[int, str, int | None], ...] = ()
    data: tuple[int, bytes, bytes] | None = None
    time: tuple[int, int] | None = None
    waiting: set[int] = field(default_factory=set)
    #: What changing names did to the times of their folders.
    touched: tuple[tuple[int, int], ...] = ()

    @property
    def durable(self) -> bool:
        return not self.waiting

    @property
    def outcomes(self) -> tuple[str, ...]:
        if self.data and self.data[2]:
            return ("kept", "dropped", "nuls", "half")
        return ("kept", "dropped")


class RecordingFs(LightFs):
    """Really does everything, and knows what would survive. ``deaf`` flushes, by number, do nothing."""

    def __init__(
        self, root: Path, *, deaf: int | None = None, links: bool = True, trades: bool = True
    ) -> None:
        super().__init__(links=links, trades=trades)
        self.root = root
        self.base: dict[int, Inode] = {}
        self.effects: list[Effect] = []
        #: At each moment: how many effects had happened, and which of them were not durable.
        self.moments: list[tuple[str, int, tuple[int, ...]]] = []
        self.deaf = deaf
        self.flushes: list[str] = []
        self.paths: dict[int, Path] = {}
        self.top = self._scan(root)
        self.live = {number: inode.copy() for number, inode in self.base.items()}
        self._moment("start")

    # Recording ----------------------------------------------------------------------------------

    def _scan(self, path: Path) -> int:
        found = path.lstat()
        number = len(self.base) + 1
        mode = stat.S_IMODE(found.st_mode)
        inode = Inode("file", b"", mode, found.st_mtime_ns)
        self.base[number] = inode
        self.paths[number] = path
        if stat.S_ISLNK(found.st_mode):
            inode.kind, inode.data = "link", os.fsencode(path.readlink())
        elif stat.S_ISDIR(found.st_mode):
            inode.kind = "folder"
            for name in sorted(entry.name for entry in path.iterdir()):
                inode.names[name] = self._scan(path / name)
        else:
            inode.data = path.read_bytes()
        return number

    def _find(self, path: Path) -> int:
        number = self.top
        for part in path.relative_to(self.root).parts:
            number = self.live[number].names[part]
        return number

    def _new(self, inode: Inode) -> int:
        number = max(self.live) + 1
        self.live[number] = inode
        self.base[number] = inode.copy()
        return number

    def _moment(self, what: str) -> None:
        open_ones = tuple(n for n, effect in enumerate(self.effects) if not effect.durable)
        self.moments.append((what, len(self.effects), open_ones))

    def _effect(self, effect: Effect) -> None:
        for folder, name, number in effect.names:
            if number is None:
                self.live[folder].names.pop(name, None)
            else:
                self.live[folder].names[name] = number
        if effect.data:
            self.live[effect.data[0]].data = effect.data[2]
        effect.touched = tuple((folder, self._mtime(folder)) for folder, _, _ in effect.names)
        self.effects.append(effect)
        self._moment(effect.what)

    def _mtime(self, folder: int) -> int:
        path = self.paths.get(folder, self.root)
        return path.stat().st_mtime_ns if path.exists() else 0

    def _rename(self, what: str, path: Path, name: Path) -> None:
        old, new, number = self._find(path.parent), self._find(name.parent), self._find(path)
        names = ((old, path.name, None), (new, name.name, number))
        self._effect(Effect(f"{what} {path.name} {name.name}", names=names, waiting={old, new}))

    # Operations ---------------------------------------------------------------------------------

    def mkdir(self, folder: Path, mode: int = 0o700) -> bool:
        made = super().mkdir(folder, mode)
        if made:
            parent = self._find(folder.parent)
            number = self._new(Inode("folder", mode=mode))
            self.paths[number] = folder
            self._effect(
                Effect(f"mkdir {folder.name}", names=((parent, folder.name, number),), waiting={parent})
            )
        return made

    def write_new(self, path: Path, data: bytes) -> None:
        super().write_new(path, data)
        self._written(path, data)

    def copy_new(self, source: Path, path: Path) -> str:
        digest = super().copy_new(source, path)
        self._written(path, path.read_bytes())
        return digest

    def _written(self, path: Path, data: bytes) -> None:
        parent = self._find(path.parent)
        number = self._new(Inode("file", mode=stat.S_IMODE(path.stat().st_mode)))
        self._effect(Effect(f"create {path.name}", names=((parent, path.name, number),), waiting={parent}))
        if data:
            self._effect(Effect(f"write {path.name}", data=(number, b"", data), waiting={number}))

    def append(self, path: Path, at: int, data: bytes) -> None:
        super().append(path, at, data)
        number = self._find(path)
        old = self.live[number].data
        self._effect(Effect(f"append {path.name}", data=(number, old, old[:at] + data), waiting={number}))

    def link(self, path: Path, name: Path) -> bool:
        done = super().link(path, name)
        if done:
            parent = self._find(name.parent)
            self._effect(
                Effect(f"link {name.name}", names=((parent, name.name, self._find(path)),), waiting={parent})
            )
        return done

    def rename_new(self, path: Path, name: Path) -> None:
        super().rename_new(path, name)
        self._rename("rename", path, name)

    def replace(self, path: Path, name: Path) -> None:
        super().replace(path, name)
        self._rename("replace", path, name)

    def exchange(self, path: Path, name: Path) -> bool:
        done = super().exchange(path, name)
        if done:
            one, two = self._find(path.parent), self._find(name.parent)
            names = ((one, path.name, self._find(name)), (two, name.name, self._find(path)))
            self._effect(Effect(f"exchange {name.name}", names=names, waiting={one, two}))
        return done

    def unlink(self, path: Path) -> None:
        there = os.path.lexists(path)
        super().unlink(path)
        if there:
            self._gone("unlink", path)

    def rmdir(self, folder: Path) -> bool:
        there = folder.exists()
        done = super().rmdir(folder)
        if there and done:
            self._gone("rmdir", folder)
        return done

    def _gone(self, what: str, path: Path) -> None:
        parent = self._find(path.parent)
        self._effect(Effect(f"{what} {path.name}", names=((parent, path.name, None),), waiting={parent}))

    def set_mtime(self, path: Path, mtime_ns: int) -> None:
        super().set_mtime(path, mtime_ns)
        number = self._find(path)
        self._effect(Effect(f"time {path.name}", time=(number, mtime_ns), waiting={number}))

    def sync_files(self, paths: Sequence[Path]) -> None:
        self._flush(f"files {' '.join(path.name for path in paths)}", [self._find(path) for path in paths])

    def sync_folder(self, folder: Path) -> None:
        self._flush(f"folder {folder.name}", [self._find(folder)])

    def _flush(self, what: str, numbers: list[int]) -> None:
        self.flushes.append(what)
        if len(self.flushes) == self.deaf:
            return
        for effect in self.effects:
            effect.waiting.difference_update(numbers)
        self._moment(f"flush {what}")

    # Replaying ----------------------------------------------------------------------------------

    def states(self, seen: set[object]) -> Iterator[tuple[str, dict[int, Inode]]]:
        """Yield every disk that a failure at any moment could leave, each once."""
        for what, count, undecided in self.moments:
            for choice in _choices([self.effects[n].outcomes for n in undecided]):
                fate = dict(zip(undecided, choice, strict=True))
                disk = self._replay(count, fate)
                key = _freeze(disk, self.top)
                if key not in seen:
                    seen.add(key)
                    lost = [f"{self.effects[n].what}: {fate[n]}" for n in undecided if fate[n] != "kept"]
                    yield f"after {what}; {', '.join(lost) or 'nothing lost'}", disk

    def _replay(self, count: int, fate: dict[int, str]) -> dict[int, Inode]:
        disk = {number: inode.copy() for number, inode in self.base.items()}
        for n, effect in enumerate(self.effects[:count]):
            how = fate.get(n, "kept")
            if effect.data:
                number, old, new = effect.data
                disk[number].data = _data(disk[number].data, old, new, how)
            elif how == "kept":
                for folder, name, number in effect.names:
                    if number is None:
                        disk[folder].names.pop(name, None)
                    else:
                        disk[folder].names[name] = number
                for folder, time in effect.touched:
                    disk[folder].mtime_ns = time
                if effect.time:
                    disk[effect.time[0]].mtime_ns = effect.time[1]
        return disk

    def write_out(self, disk: dict[int, Inode], root: Path) -> None:
        """Make a disk real in an empty folder; two names of one inode become hard links."""
        made: dict[int, Path] = {}
        _write_out(disk, self.top, root, made)


def _data(now: bytes, old: bytes, new: bytes, how: str) -> bytes:
    common = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    if how == "kept":
        return new
    if how == "nuls":
        return new[:common] + b"\0" * (len(new) - common)
    if how == "half":
        return new[: common + (len(new) - common) // 2]
    return now


def _choices(outcomes: list[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    if len(outcomes) <= EXHAUSTIVE and _product(outcomes) <= 4 * SAMPLE:
        yield from itertools.product(*outcomes)
        return
    yield tuple("kept" for _ in outcomes)
    yield tuple("dropped" for _ in outcomes)
    for n, options in enumerate(outcomes):
        for how in options[1:]:
            yield tuple(how if m == n else "kept" for m in range(len(outcomes)))
        yield tuple("kept" if m == n else "dropped" for m in range(len(outcomes)))
    chance = random.Random(len(outcomes))  # noqa: S311 - a sample that is the same every time
    for _ in range(SAMPLE):
        yield tuple(chance.choice(options) for options in outcomes)


def _product(outcomes: list[tuple[str, ...]]) -> int:
    total = 1
    for options in outcomes:
        total *= len(options)
    return total


def _freeze(disk: dict[int, Inode], number: int) -> object:
    inode = disk[number]
    if inode.kind != "folder":
        return (number, inode.kind, inode.data)
    names = tuple((name, _freeze(disk, inner)) for name, inner in sorted(inode.names.items()))
    return ("folder", inode.mtime_ns, names)


def _write_out(disk: dict[int, Inode], number: int, path: Path, made: dict[int, Path]) -> None:
    inode = disk[number]
    if number in made:
        os.link(made[number], path, follow_symlinks=False)
        return
    made[number] = path
    if inode.kind == "link":
        path.symlink_to(os.fsdecode(inode.data))
        os.utime(path, ns=(inode.mtime_ns, inode.mtime_ns), follow_symlinks=False)
    elif inode.kind == "file":
        path.write_bytes(inode.data)
        path.chmod(inode.mode)
        os.utime(path, ns=(inode.mtime_ns, inode.mtime_ns))
    else:
        path.mkdir(exist_ok=True)
        for name, inner in sorted(inode.names.items()):
            _write_out(disk, inner, path / name, made)
        path.chmod(inode.mode)
        os.utime(path, ns=(inode.mtime_ns, inode.mtime_ns))
