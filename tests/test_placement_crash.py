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
from scripts.placement.undo import undo
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

Record = Callable[[str, object], None]
#: Under Wine everything is ten times slower: there the mixed world, which holds the others, must do.
KINDS = ["create", "replace", "mixed"] if sys.platform != "win32" else ["mixed"]
TWICE = [("mixed", "all")] if sys.platform != "win32" else []
# Under Wine one way of acting is enough here: a pair dies thousands of times, and dying once covers them all.
TWICE += [("pair", name) for name in VARIANTS if sys.platform != "win32" or name == "all"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A fast place where there is one (tmpfs); ext4 and NTFS have their own tests."""
    if sys.platform == "win32" or not MEMORY.is_dir():  # Wine shows the host's folders on drive Z
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


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("half", [False, True], ids=["before", "halfway"])
def test_dying_anywhere_while_placing_loses_nothing(
    disk: Path, kind: str, variant: str, half: bool, record_property: Record
) -> None:
    world = WORLDS[kind](disk)
    options = VARIANTS[variant]
    at = 0
    while True:
        at += 1
        fs = DyingFs(at, half=half, **options)
        finished = try_place(world, fs)
        assert bytes_lost(world) == set(), fs.log[-1]
        assert try_undo(world, LightFs(**options))
        assert_as_before(world, fs.log[-1])
        if finished:
            break
    assert at > 20
    record_property("placement: crash points", at - 1)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("half", [False, True], ids=["before", "halfway"])
def test_dying_anywhere_while_undoing_loses_nothing(
    disk: Path, kind: str, variant: str, half: bool, record_property: Record
) -> None:
    world = WORLDS[kind](disk)
    options = VARIANTS[variant]
    at = 0
    while True:
        at += 1
        assert try_place(world, LightFs(**options))
        fs = DyingFs(at, half=half, **options)
        finished = try_undo(world, fs)
        assert bytes_lost(world) == set(), fs.log[-1]
        assert try_undo(world, LightFs(**options))
        assert_as_before(world, fs.log[-1])
        if finished:
            break
    assert at > 10
    record_property("placement: crash points", at - 1)


@pytest.mark.parametrize(("kind", "variant"), TWICE)
@pytest.mark.parametrize("first", ["place", "undo"])
def test_dying_twice_loses_nothing(
    disk: Path, kind: str, variant: str, first: str, record_property: Record
) -> None:
    """At every operation, and then at every operation of the recovery from there."""
    world = WORLDS[kind](disk)
    options = VARIANTS[variant]
    points = at = 0
    while True:
        at += 1
        again = 0
        while True:
            again += 1
            fs = DyingFs(at, **options)
            if first == "place":
                finished = try_place(world, fs)
            else:
                assert try_place(world, LightFs(**options))
                finished = try_undo(world, fs)
            second = DyingFs(again, **options)
            recovered = try_undo(world, second)
            assert bytes_lost(world) == set(), (fs.log[-1], second.log[-1:])
            assert try_undo(world, LightFs(**options))
            assert_as_before(world, (fs.log[-1], second.log[-1:]))
            points += 1
            if recovered:
                break
        if finished:
            break
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
from scripts.placement.undo import undo

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
