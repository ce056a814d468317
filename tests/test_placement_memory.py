"""A placement whose record vanishes is not taken for a placement that was undone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from scripts.errors import ConflictError, UndoIncompleteError, WorkspaceError
from scripts.osal.processes import User, process_start_time, this_process
from scripts.placement.inspect import Mode
from scripts.placement.journal import parse
from scripts.placement.layout import STATE
from scripts.placement.place import Placement, place, placed
from scripts.placement.rollback import undo
from scripts.placement.state import recalled
from scripts.placement.status import TargetState, placements
from scripts.staging.state_folder import PLACEMENTS, PlacementRegistry
from tests.placement_harness import (
    CHANGING,
    GONE,
    STACK,
    WORLDS,
    LightFs,
    World,
    create_world,
    mixed_world,
    tree,
)

FS = LightFs()
OLD = Path(__file__).parent / "data" / "placement-format-1"


def remove_all(state: Path) -> None:
    shutil.rmtree(state)


def empty(state: Path) -> None:
    shutil.rmtree(state)
    state.mkdir()


def drop_journal(state: Path) -> None:
    (state / "journal").unlink()


def empty_journal(state: Path) -> None:
    (state / "journal").write_bytes(b"")


def nul_journal(state: Path) -> None:
    (state / "journal").write_bytes(b"\0" * 4096)


#: What a cleaner, an updater or an antivirus program does, and whether the originals survive it.
VANISHING: dict[str, tuple[Callable[[Path], None], bool]] = {
    "folder-removed": (remove_all, False),
    "folder-emptied": (empty, False),
    "journal-removed": (drop_journal, True),
    "journal-emptied": (empty_journal, True),
    "journal-nulled": (nul_journal, True),
}


def do_place(world: World, registry: PlacementRegistry | None, **more: object) -> Placement:
    values: dict[str, object] = {"user": GONE, "fs": FS, **more}
    return place(world.target, world.items, **STACK, registry=registry, **values)  # type: ignore[arg-type]  # by name


def ours(world: World) -> list[str]:
    """Name the files that have the stack's bytes now, without those that were the same before."""
    found = [item for item in world.items if (world.target / item.path).is_file()]
    changed = [i for i in found if world.start.get(i.path) != tree(world.target).get(i.path)]
    return sorted(i.path for i in changed if (world.target / i.path).read_bytes() == i.source.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("listed", [True, False], ids=["registry", "no-registry"])
@pytest.mark.parametrize("how", VANISHING)
@pytest.mark.parametrize("kind", WORLDS)
def test_what_vanishes_while_a_program_runs_is_noticed(
    tmp_path: Path, kind: str, how: str, listed: bool
) -> None:
    world = WORLDS[kind](tmp_path)
    registry = PlacementRegistry(tmp_path / "state") if listed else None
    action, originals_survive = VANISHING[how]
    with placed(lambda: do_place(world, registry, user=this_process()), signals=False) as session:
        action(world.target / STATE)
    assert session.left, "absence is not success"
    assert "vanished" in " ".join(session.left)
    replaced = sorted(path for path in ours(world))
    if originals_survive:
        assert tree(world.target) == world.start
        assert replaced == []
    else:
        for path in replaced:
            assert path in world.start, "a file of ours that was created had to go"
            assert any(line.startswith(f"{path}:") for line in session.left)
    if registry is not None:
        assert [s.standing for s in placements(registry)] == ([TargetState.LOST] if replaced else [])


@pytest.mark.slow
@pytest.mark.parametrize("how", VANISHING)
@pytest.mark.parametrize("mode", [Mode.OURS, Mode.THEIRS])
def test_what_is_lost_is_called_so_until_it_is_settled(tmp_path: Path, how: str, mode: Mode) -> None:
    world = mixed_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    do_place(world, registry)
    action, originals_survive = VANISHING[how]
    action(world.target / STATE)
    assert [status.standing for status in placements(registry)] == [TargetState.LOST]
    assert placements(registry)[0].files == tuple(dict.fromkeys(placements(registry)[0].files)) != ()
    report = undo(world.target, fs=FS, registry=registry)
    assert report.lost
    assert report.complete is originals_survive
    if not originals_survive:
        assert [status.standing for status in placements(registry)] == [TargetState.LOST]
        assert undo(world.target, fs=FS, registry=registry, mode=mode).complete
    assert placements(registry) == ()
    assert registry.memory(PLACEMENTS, world.target) is None
    assert not (world.target / STATE).exists()


class VanishingFs(LightFs):
    """Loses the record before the n-th change."""

    def __init__(self, at: int, harm: Callable[[], None]) -> None:
        super().__init__()
        self.left = at
        self.harm = harm

    def before(self, operation: str, *paths: Path) -> None:
        if operation in CHANGING:
            self.left -= 1
            if self.left == 0:
                self.harm()


class DyingFolderFs(LightFs):
    """The state folder goes at the n-th change, and lets go of its name some changes later."""

    def __init__(self, at: int, state: Path, *, later: int) -> None:
        super().__init__()
        self.left, self.state, self.later = at, state, later

    def before(self, operation: str, *paths: Path) -> None:
        if operation in CHANGING:
            self.left -= 1
            if self.left == 0 and (self.state / "journal").exists():
                for path in self.state.iterdir():
                    if path.name not in {"originals", "lock"}:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
            elif self.left == -self.later:
                shutil.rmtree(self.state, ignore_errors=True)


@pytest.mark.proof
@pytest.mark.parametrize("later", [1, 2, 3])
def test_a_record_that_goes_piece_by_piece_while_placing_leaves_nothing_of_ours(
    tmp_path: Path, later: int
) -> None:
    for at in range(1, 200):
        world = create_world(tmp_path / str(at))
        fs = DyingFolderFs(at, world.target / STATE, later=later)
        reference = ""
        try:
            with placed(partial(do_place, world, None, user=this_process(), fs=fs), signals=False) as session:
                if fs.left > 0:
                    break
            assert session.failure is None, f"before change {at}: {session.left}"
        except WorkspaceError as error:
            reference = error.reference
        assert reference in {"", "placing-failed", "target-changed-since-plan"}, f"before change {at}"
        assert ours(world) == [], f"before change {at}"
    assert at > 10


@pytest.mark.proof
@pytest.mark.parametrize("listed", [True, False], ids=["registry", "no-registry"])
@pytest.mark.parametrize("how", VANISHING)
@pytest.mark.parametrize("kind", ["create", "mixed"])
def test_a_record_that_vanishes_while_placing_leaves_nothing_unnamed(
    tmp_path: Path, kind: str, how: str, listed: bool
) -> None:
    """Whichever step it is: all is as before, or each file that is not is named."""
    action, originals_survive = VANISHING[how]
    harmed = False
    for at in range(1, 200):
        world = WORLDS[kind](tmp_path / str(at))
        registry = PlacementRegistry(tmp_path / str(at) / "user") if listed else None
        state = world.target / STATE

        def harm(state: Path = state) -> None:
            nonlocal harmed
            if (state / "journal").exists():
                harmed = True
                action(state)

        fs = VanishingFs(at, harm)
        named: tuple[str, ...] = ()
        start = partial(do_place, world, registry, user=this_process(), fs=fs)
        try:
            with placed(start, signals=False) as session:
                if fs.left > 0:
                    break
            named = session.left
        except WorkspaceError as error:
            named = error.context
        now = tree(world.target)
        folders = {name for name in world.start if (world.target / name).is_dir()}  # but for their times
        names = {name for name in {*now, *world.start} - folders if not name.startswith(STATE)}
        changed = sorted(name for name in names if now.get(name) != world.start.get(name))
        if originals_survive:
            assert changed == [], f"before change {at}"
        missing = [name for name in changed if not any(line.startswith(f"{name}:") for line in named)]
        assert missing == [], f"before change {at}: {named}"
        assert all(name in world.start for name in changed), f"before change {at}: ours must go"
        if registry is not None:
            assert bool(placements(registry)) is bool(changed)
    assert harmed
    assert at > 10


def test_a_record_that_vanished_with_every_file_of_ours_is_no_loss(tmp_path: Path) -> None:
    world = create_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    with placed(lambda: do_place(world, registry, user=this_process()), signals=False) as session:
        remove_all(world.target / STATE)
        for item in world.items:
            (world.target / item.path).unlink()
    assert session.left == ()
    assert placements(registry) == ()
    assert not (world.target / STATE).exists()


def test_a_file_that_was_changed_meanwhile_is_named_and_left(tmp_path: Path) -> None:
    world = create_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    changed = world.target / world.items[0].path
    with placed(lambda: do_place(world, registry, user=this_process()), signals=False) as session:
        remove_all(world.target / STATE)
        changed.write_bytes(b"the program's own now")
    assert any(line.startswith(f"{world.items[0].path}:") for line in session.left)
    assert changed.read_bytes() == b"the program's own now"
    assert not (world.target / world.items[1].path).exists()


def test_a_journal_that_is_damaged_names_what_is_still_there(tmp_path: Path) -> None:
    world = create_world(tmp_path)
    with placed(lambda: do_place(world, None, user=this_process()), signals=False) as session:
        journal = world.target / STATE / "journal"
        data = bytearray(journal.read_bytes())
        data[50] ^= 1
        journal.write_bytes(bytes(data))
    assert session.failure is not None
    assert {line.partition(":")[0] for line in session.left} >= {item.path for item in world.items}


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "deleted"])
def test_a_folder_that_went_as_a_whole_is_called_lost(tmp_path: Path, moved: bool) -> None:
    world = mixed_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    elsewhere = tmp_path / "elsewhere"
    with placed(lambda: do_place(world, registry, user=this_process()), signals=False) as session:
        world.target.rename(elsewhere)
        if not moved:
            shutil.rmtree(elsewhere)
    assert session.lost
    assert session.left[0] == f"{world.target} is not a folder"
    told = [line.partition(":")[0] for line in session.left[1:] if "went with the folder" in line]
    assert len(told) == len(session.left) - 1 > 0
    assert {path in world.start for path in told} == {True}, "only what was the user's is missed"
    assert [status.standing for status in placements(registry)] == [TargetState.MISSING]
    if moved:
        assert undo(elsewhere, fs=FS, registry=registry, user=session.placement.user).complete
        assert tree(elsewhere) == world.start


def test_a_program_that_runs_keeps_what_is_lost(tmp_path: Path) -> None:
    world = create_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        do_place(world, registry, user=User(child.pid, process_start_time(child.pid) or ""))
        remove_all(world.target / STATE)
        with pytest.raises(ConflictError) as caught:
            undo(world.target, fs=FS, registry=registry)
        assert caught.value.reference == "placement-in-use"
        with pytest.raises(ConflictError) as caught:
            do_place(world, registry)
        assert caught.value.reference == "placement-in-use"
        child.communicate(b"")
    assert undo(world.target, fs=FS, registry=registry).complete
    assert tree(world.target) == world.start


def test_placing_again_settles_what_is_lost_first(tmp_path: Path) -> None:
    world = create_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    do_place(world, registry)
    remove_all(world.target / STATE)
    again = do_place(world, registry, user=this_process())
    assert set(again.files) == {item.path for item in world.items}
    again.leave()
    assert tree(world.target) == world.start


def test_placing_again_where_originals_are_lost_is_refused(tmp_path: Path) -> None:
    world = mixed_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    do_place(world, registry)
    remove_all(world.target / STATE)
    with pytest.raises(UndoIncompleteError):
        do_place(world, registry)
    assert registry.memory(PLACEMENTS, world.target) is not None


def test_what_is_kept_on_purpose_is_reported_and_stays(tmp_path: Path) -> None:
    world = create_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    start = lambda: do_place(world, registry, user=this_process(), keep=True)  # noqa: E731 - one call
    with placed(start, signals=False) as session:
        remove_all(world.target / STATE)
    assert len(session.left) > len(world.items)
    assert ours(world) == sorted(item.path for item in world.items)
    assert [status.standing for status in placements(registry)] == [TargetState.LOST]
    assert undo(world.target, fs=FS, registry=registry).complete
    assert tree(world.target) == world.start


@pytest.mark.parametrize("damage", [b"", b"\0" * 100, b"{}", b"x" * 3000, None])
def test_a_memory_that_cannot_be_read_is_none(tmp_path: Path, damage: bytes | None) -> None:
    world = create_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    do_place(world, registry)
    [memory] = (tmp_path / "state").rglob("*.memory")
    if damage is None:
        memory.unlink()
        memory.mkdir()
    else:
        memory.write_bytes(damage)
    assert recalled(registry.memory(PLACEMENTS, world.target)) is None
    assert [status.standing for status in placements(registry)] == [TargetState.LEFT_OVER]
    if damage is None:
        memory.rmdir()
    assert undo(world.target, fs=FS, registry=registry).complete
    assert tree(world.target) == world.start


@pytest.mark.slow
def test_an_undo_after_a_loss_that_dies_can_be_run_again(tmp_path: Path) -> None:
    from tests.placement_harness import Died, DyingFs  # noqa: PLC0415 - only here

    for at in range(1, 40):
        world = mixed_world(tmp_path / str(at))
        registry = PlacementRegistry(tmp_path / str(at) / "state")
        do_place(world, registry)
        drop_journal(world.target / STATE)
        fs = DyingFs(at)
        try:
            undo(world.target, fs=fs, registry=registry)
        except Died:
            assert undo(world.target, fs=FS, registry=registry).complete
        else:
            assert tree(world.target) == world.start
            return
        assert tree(world.target) == world.start, f"died at {fs.log[-1]}"
    pytest.fail("the undo never came to its end")


@pytest.mark.parametrize("step", ["committed", "half-placed", "half-undone"])
def test_a_placement_of_the_version_before_is_undone(tmp_path: Path, step: str) -> None:
    """Made by revision eea090c, before placements were remembered outside the target."""
    with tarfile.open(OLD / f"{step}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    target = tmp_path / "program"
    (target / STATE).chmod(0o700)
    journal = parse((target / STATE / "journal").read_bytes())
    assert journal is not None
    assert undo(target, registry=PlacementRegistry(tmp_path / "state")).complete
    left = {p.relative_to(target).as_posix(): p.read_bytes() for p in target.rglob("*") if p.is_file()}
    assert left == {
        "app.exe": b"the program\n",
        "notes.txt": b"notes\n",
        "nvcuda.dll": b"the user's own nvcuda\n",
        "lib/cublas64_12.dll": b"the user's own cublas\n",
    }
    assert not (target / STATE).exists()
