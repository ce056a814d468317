"""Lose power at every moment, with every set of unflushed operations dropped: nothing is lost."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.errors import WorkspaceError
from scripts.placement.place import place
from scripts.placement.rollback import undo
from scripts.placement.status import TargetState, placement_status
from tests.placement_harness import (
    GONE,
    MEMORY,
    STACK,
    WORLDS,
    Died,
    DyingFs,
    LightFs,
    World,
    pair_world,
    tree,
)
from tests.placement_power import RecordingFs

Record = Callable[[str, object], None]

# The model needs inodes and links; the order it proves is the same on Windows.
pytestmark = [pytest.mark.proof, pytest.mark.posix_only]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if MEMORY is None:
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=MEMORY))
    yield folder
    shutil.rmtree(folder)


def run_place(world: World, fs: LightFs) -> None:
    place(world.target, world.items, **STACK, fs=fs, user=GONE)


def after_power_loss(fs: RecordingFs, world: World, disk: Path) -> Iterator[tuple[str, bool]]:
    """Recover from every disk that a failure could leave; say for each whether all is as before."""
    root = disk / "after"
    root.mkdir(exist_ok=True)
    target = root / "app"
    for what, state in fs.states(set()):
        fs.write_out(state, target)
        try:
            good = undo(target, fs=LightFs()).complete and tree(target) == world.start
        except WorkspaceError:
            good = False
        shutil.rmtree(target)
        yield what, good


def assert_nothing_is_lost(fs: RecordingFs, world: World, disk: Path) -> int:
    count = 0
    for what, good in after_power_loss(fs, world, disk):
        assert good, what
        count += 1
    return count


@pytest.mark.parametrize(
    "options", [{}, {"trades": False}, {"links": False}], ids=["all", "no-exchange", "no-links"]
)
@pytest.mark.parametrize("kind", ["create", "replace", "mixed"])
def test_losing_power_while_placing(
    disk: Path, kind: str, options: dict[str, bool], record_property: Record
) -> None:
    world = WORLDS[kind](disk)
    fs = RecordingFs(world.target, **options)
    run_place(world, fs)
    record_property("placement: power losses", assert_nothing_is_lost(fs, world, disk))


@pytest.mark.parametrize("options", [{}, {"trades": False}], ids=["all", "no-exchange"])
@pytest.mark.parametrize("kind", ["create", "replace", "mixed"])
def test_losing_power_while_undoing(
    disk: Path, kind: str, options: dict[str, bool], record_property: Record
) -> None:
    world = WORLDS[kind](disk)
    run_place(world, LightFs())
    fs = RecordingFs(world.target, **options)
    assert undo(world.target, fs=fs).complete
    record_property("placement: power losses", assert_nothing_is_lost(fs, world, disk))


@pytest.mark.parametrize("options", [{}, {"trades": False}], ids=["all", "no-exchange"])
def test_losing_power_while_recovering_from_a_crash(
    disk: Path, options: dict[str, bool], record_property: Record
) -> None:
    """The process died at the n-th operation; the power fails while that is being recovered."""
    world = pair_world(disk)
    count = at = 0
    finished = False
    while not finished:
        at += 1
        try:
            run_place(world, DyingFs(at, **options))
            finished = True
        except Died:
            pass
        fs = RecordingFs(world.target, **options)
        assert undo(world.target, fs=fs).complete
        count += assert_nothing_is_lost(fs, world, disk)
    record_property("placement: power losses", count)


def test_power_and_process_end_together(disk: Path, record_property: Record) -> None:
    """An undo that died is run again, and the power fails with the changes of *both* runs unflushed."""
    world = pair_world(disk)
    count = at = 0
    finished = False
    while not finished:
        at += 1
        run_place(world, LightFs())
        fs = RecordingFs(world.target)
        dying = DyingFs(at)
        fs.before = dying.before  # type: ignore[method-assign] # dies, and what it did stays recorded
        try:
            undo(world.target, fs=fs)
            finished = True
        except Died:
            pass
        fs.before = lambda *_: None  # type: ignore[method-assign] # nothing dies any more
        assert undo(world.target, fs=fs).complete
        count += assert_nothing_is_lost(fs, world, disk)
    record_property("placement: power losses", count)


def test_what_undo_has_finished_stays_finished(disk: Path) -> None:
    """When undo has returned, a power failure cannot bring anything back."""
    world = WORLDS["mixed"](disk)
    run_place(world, LightFs())
    fs = RecordingFs(world.target)
    assert undo(world.target, fs=fs).complete
    last = fs.moments[-1]
    fs.moments = [last]
    for what, state in fs.states(set()):
        target = disk / "after"
        fs.write_out(state, target)
        assert tree(target) == world.start, what
        shutil.rmtree(target)


#: Flushes that safety does not need, by act and place among all: each keeps another promise.
PROMISES = {
    ("place", -1): "a placement that was reported as placed is still placed after a power failure",
    ("undo", -3): "files that are put back while a program still holds ours are not judged again",
    ("undo", -1): "an undo that was reported as finished is still finished after a power failure",
}


def recorded(act: str, disk: Path, deaf: int | None = None) -> tuple[World, RecordingFs]:
    world = pair_world(disk)
    if act == "undo":
        run_place(world, LightFs())
    fs = RecordingFs(world.target, deaf=deaf)
    if act == "place":
        run_place(world, fs)
    else:
        undo(world.target, fs=fs)
    return world, fs


@pytest.mark.parametrize("act", ["place", "undo"])
def test_no_flush_is_there_for_show(disk: Path, act: str, record_property: Record) -> None:
    """Without any one flush the proof above fails, so the proof can fail and the flush is needed."""
    (disk / "all").mkdir()
    total = len(recorded(act, disk / "all")[1].flushes)
    idle = []
    for number in range(1, total + 1):
        (disk / str(number)).mkdir()
        world, fs = recorded(act, disk / str(number), deaf=number)
        if all(good for _, good in after_power_loss(fs, world, disk / str(number))):
            idle.append((act, number - 1 - total))
    assert idle == [key for key in PROMISES if key[0] == act]
    record_property("placement: flushes shown to be needed", total - len(idle))


def test_what_place_has_finished_stays_placed(disk: Path) -> None:
    _, fs = recorded("place", disk)
    fs.moments = fs.moments[-1:]
    for what, state in fs.states(set()):
        fs.write_out(state, disk / "after")
        assert placement_status(disk / "after").standing is TargetState.LEFT_OVER, what
        shutil.rmtree(disk / "after")
