"""Die at every operation of placing, undoing and recovering, then again while recovering: nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.placement.place import place
from scripts.placement.rollback import undo
from tests.placement_harness import (
    GONE,
    MEMORY,
    STACK,
    VARIANTS,
    WORLDS,
    Died,
    DyingFs,
    LightFs,
    World,
    bytes_lost,
    mixed_world,
    tree,
)
from tools.memory_fs import Disk, DyingMemory, MemoryFs, shape_of

pytestmark = pytest.mark.proof

Record = Callable[[str, object], None]
#: Real disks are slow under Wine: there the mixed world, which holds the others, must do on them.
KINDS = ["create", "replace", "mixed"] if sys.platform != "win32" else ["mixed"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A fast place where there is one (tmpfs); ext4 and NTFS have their own tests."""
    if MEMORY is None:
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=MEMORY))
    yield folder
    shutil.rmtree(folder)


def try_place(world: World, fs: LightFs) -> bool:
    """Place; say whether it came to its end."""
    try:
        place(world.target, world.items, **STACK, fs=fs, user=GONE)
    except Died:
        return False
    return True


def try_undo(world: World, fs: LightFs) -> bool:
    try:
        assert undo(world.target, fs=fs).complete
    except Died:
        return False
    return True


def assert_as_before(world: World, where: object) -> None:
    """Equal in every byte, size, mode and time, and so good for the next round."""
    assert tree(world.target) == world.start, f"died at {where}"


def points(log: list[str], *, half: bool) -> list[int]:
    """Return where to die, by the log of a run that nobody died in.

    Half-way only where something is written; and not before an act that follows a mere flush, since that
    death leaves the very disk that the death before the flush has left.
    """
    if half:
        return [n for n, line in enumerate(log, 1) if line.startswith(("write_new", "append", "copy_new"))]
    return [n for n in range(1, len(log) + 1) if n == 1 or not log[n - 2].startswith("sync_")]


def assert_like_memory(world: World, memory: MemoryFs, start: Disk, where: str) -> None:
    """Nothing of the user's is lost, and the disk in memory looks the same after the same death."""
    shape = shape_of(world.target)
    assert start.contents() <= {entry[1] for entry in shape.values() if isinstance(entry[1], bytes)}, where
    assert memory.disk.shape() == shape, where


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("half", [False, True], ids=["before", "halfway"])
def test_dying_anywhere_while_placing_loses_nothing(
    disk: Path, kind: str, variant: str, half: bool, record_property: Record
) -> None:
    world = WORLDS[kind](disk)
    options = VARIANTS[variant]
    start = Disk.of(world.target)
    whole = DyingMemory(start.copy(), 0, **options)
    assert try_place(world, whole)
    for at in points(whole.log, half=half):
        fs, memory = DyingFs(at, half=half, **options), DyingMemory(start.copy(), at, half=half, **options)
        assert not try_place(world, fs)
        assert not try_place(world, memory)
        assert_like_memory(world, memory, start, fs.log[-1])
        assert try_undo(world, LightFs(**options))
        assert_as_before(world, fs.log[-1])
    record_property("placement: crash points", len(points(whole.log, half=half)))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("half", [False, True], ids=["before", "halfway"])
def test_dying_anywhere_while_undoing_loses_nothing(
    disk: Path, kind: str, variant: str, half: bool, record_property: Record
) -> None:
    world = WORLDS[kind](disk)
    options = VARIANTS[variant]
    start = Disk.of(world.target)
    assert try_place(world, LightFs(**options))
    placed = Disk.of(world.target)
    whole = DyingMemory(placed.copy(), 0, **options)
    assert try_undo(world, whole)
    for at in points(whole.log, half=half):
        if at > 1:
            assert try_place(world, LightFs(**options))
        fs, memory = DyingFs(at, half=half, **options), DyingMemory(placed.copy(), at, half=half, **options)
        assert not try_undo(world, fs)
        assert not try_undo(world, memory)
        assert_like_memory(world, memory, start, fs.log[-1])
        assert try_undo(world, LightFs(**options))
        assert_as_before(world, fs.log[-1])
    record_property("placement: crash points", len(points(whole.log, half=half)))


#: On the disk in memory also what is seldom mounted here: names without case and times of two seconds.
FAT = {"links": False, "trades": False}
DISKS: dict[str, tuple[dict[str, bool], dict[str, int]]] = {
    **{name: (options, {}) for name, options in VARIANTS.items()},
    "any-case": ({}, {"folds": True}),
    "fat": (FAT, {"folds": True, "tick": 2_000_000_000}),
}


@pytest.mark.parametrize("variant", DISKS)
@pytest.mark.parametrize("kind", ["mixed", *(["pair"] if sys.platform != "win32" else [])])
@pytest.mark.parametrize("first", ["place", "undo"])
def test_dying_twice_loses_nothing(
    disk: Path, kind: str, variant: str, first: str, record_property: Record
) -> None:
    """At every operation, and then at every operation of the recovery from there.

    On a disk in memory, which the tests above compare with the real one after every single death. What a
    death leaves is recovered once, however many deaths leave it.
    """
    world = WORLDS[kind](disk)
    options, traits = DISKS[variant]
    before = Disk.of(world.target, **traits)  # type: ignore[arg-type] # traits by name
    theirs = before.contents()
    start = MemoryFs(before.copy(), **options)
    if first == "undo":
        assert try_place(world, start)
    act = try_place if first == "place" else try_undo
    recovered: set[object] = set()
    known: dict[object, int] = {}
    points = at = 0
    finished = False
    while not finished:
        at += 1
        fs = DyingMemory(start.disk.copy(), at, **options)
        finished = act(world, fs)
        left = fs.disk.everything()
        points += known.get(left, 0)
        again, done = 0, left in known
        while not done:
            again += 1
            second = DyingMemory(fs.disk.copy(), again, **options)
            done = try_undo(world, second)
            points += 1
            known[left] = again
            state = second.disk.everything()
            if state in recovered:
                continue
            recovered.add(state)
            where = (fs.log[-1], second.log[-1:])
            assert theirs <= second.disk.contents(), where
            assert try_undo(world, MemoryFs(second.disk, **options)), where
            assert second.disk.state() == before.state(), where
    record_property("placement: crash points", points)


@pytest.mark.posix_only
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_ends_anywhere_loses_nothing(
    tmp_path: Path, kind: str, record_property: Record
) -> None:
    """A real end without clean-up (fork, ``os._exit``), on the file system of the temporary folder."""
    world = WORLDS[kind](tmp_path)
    at = 0
    while True:
        at += 1
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if try_place(world, DyingFs(at, end=lambda: os._exit(9))) else 1
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in {0, 9}
        assert bytes_lost(world) == set()
        assert try_undo(world, LightFs())
        assert_as_before(world, at)
        if code == 0:
            break
    record_property("placement: crash points", at - 1)


SLEEPER = """
import sys, time
from pathlib import Path
from tests.placement_harness import DyingFs, World, GONE, STACK, PlacementItem
from scripts.placement.place import place
from scripts.placement.rollback import undo

def wait():
    print("here", flush=True)
    time.sleep(600)

root, act, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
items = [PlacementItem(folder=f, name=n, source=Path(s), sha256=h, size=int(b))
         for f, n, s, h, b in (line.split("|") for line in sys.argv[4:])]
fs = DyingFs(at, end=wait)
if act == "place":
    place(root / "app", items, **STACK, fs=fs, user=GONE)
else:
    undo(root / "app", fs=fs)
"""


@pytest.mark.parametrize(
    ("act", "at"), [("place", 12), ("place", 20), ("place", 24), ("undo", 3), ("undo", 9)]
)
def test_a_killed_process_loses_nothing(tmp_path: Path, act: str, at: int, record_property: Record) -> None:
    """A second, real process, ended from outside while it works (SIGKILL, TerminateProcess)."""
    world = mixed_world(tmp_path)
    if act == "undo":
        assert try_place(world, LightFs())
    items = [f"{i.folder}|{i.name}|{i.source}|{i.sha256}|{i.size}" for i in world.items]
    command = [sys.executable, "-c", SLEEPER, str(tmp_path), act, str(at), *items]
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"here"
        child.kill()
    assert bytes_lost(world) == set()
    assert try_undo(world, LightFs())
    assert_as_before(world, (act, at))
    record_property("placement: crash points", 1)
