"""The system refuses at every operation: a failed placing leaves nothing, a failed undo can go on."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.errors import TargetError, UndoIncompleteError, WorkspaceError
from scripts.osal.file_operations import Fs
from scripts.osal.fs import retrying
from scripts.placement.place import place
from scripts.placement.rollback import undo
from scripts.staging.state_folder import PlacementRegistry
from tests.placement_harness import (
    CHANGING,
    GONE,
    MEMORY,
    STACK,
    Failing,
    LightFs,
    World,
    bytes_lost,
    mixed_world,
    pair_world,
    tree,
)
from tools.memory_fs import Disk, FailingMemory, MemoryFs

pytestmark = pytest.mark.proof

Record = Callable[[str, object], None]

ERRORS = {
    "full": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "denied": lambda: PermissionError(errno.EACCES, "Permission denied"),
    "read-only": lambda: OSError(errno.EROFS, "Read-only file system"),
    "broken": lambda: OSError(errno.EIO, "Input/output error"),
}


def run_place(world: World, fs: Fs) -> None:
    place(world.target, world.items, **STACK, fs=fs, user=GONE)


class RealDisk:
    """The real file system."""

    def __init__(self, world: World) -> None:
        self.world = world

    def sound(self) -> LightFs:
        return LightFs()

    def failing(self) -> Failing:
        return Failing()

    def lost(self) -> bool:
        return bool(bytes_lost(self.world))

    def as_before(self) -> bool:
        return tree(self.world.target) == self.world.start


class MemoryDisk:
    """A disk in memory, as ``test_placement_crash.py`` compares it with the real one."""

    def __init__(self, world: World) -> None:
        self.start = Disk.of(world.target)
        self.disk = self.start.copy()

    def sound(self) -> LightFs:
        return MemoryFs(self.disk)

    def failing(self) -> Failing:
        return FailingMemory(self.disk)

    def lost(self) -> bool:
        return not self.start.contents() <= self.disk.contents()

    def as_before(self) -> bool:
        return self.disk.state() == self.start.state()


#: Every error on both disks; under Wine, where a real one is slow, on the one in memory.
CASES = [
    (disk, error, lasting)
    for disk in (RealDisk, MemoryDisk)
    for error in ERRORS
    for lasting in (False, True)
    if disk is MemoryDisk or sys.platform != "win32"
]
each_case = pytest.mark.parametrize(
    ("kind", "error", "lasting"),
    CASES,
    ids=[f"{d.__name__}-{error}-{'lasting' if lasting else 'once'}" for d, error, lasting in CASES],
)


@each_case
def test_an_error_anywhere_while_placing_leaves_nothing_or_says_so(
    tmp_path: Path,
    kind: type[RealDisk | MemoryDisk],
    error: str,
    lasting: bool,
    record_property: Record,
) -> None:
    world = mixed_world(tmp_path)
    disk = kind(world)
    at = 0
    while True:
        at += 1
        fs = disk.failing()
        fs.will_fail(at, ERRORS[error], lasting=lasting)
        try:
            run_place(world, fs)
        except UndoIncompleteError:
            assert not disk.lost()
            undo(world.target, fs=disk.sound())
        except TargetError as refused:
            assert refused.reference == "placing-failed"  # noqa: PT017 - the loop needs the rest of the try
        else:
            undo(world.target, fs=disk.sound())
        assert disk.as_before(), (error, at, fs.kind)
        if fs.count < at:
            break
    assert at > 20
    record_property("placement: error points", at - 1)


@each_case
def test_an_error_anywhere_while_undoing_loses_nothing_and_can_be_resumed(
    tmp_path: Path,
    kind: type[RealDisk | MemoryDisk],
    error: str,
    lasting: bool,
    record_property: Record,
) -> None:
    world = mixed_world(tmp_path)
    disk = kind(world)
    at = 0
    while True:
        at += 1
        run_place(world, disk.sound())
        fs = disk.failing()
        fs.will_fail(at, ERRORS[error], lasting=lasting)
        try:
            undo(world.target, fs=fs)
        except UndoIncompleteError as blocked:
            assert blocked.reference == "undo-blocked"  # noqa: PT017 - the loop needs the rest of the try
        assert not disk.lost()
        assert undo(world.target, fs=disk.sound()).complete
        assert disk.as_before(), (error, at, fs.kind)
        if fs.count < at:
            break
    assert at > 10
    record_property("placement: error points", at - 1)


def test_a_list_of_placements_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.own("b.txt", b"theirs")
    world.item("", "a.dll", b"ours")
    world.settle()
    state = tmp_path / "the state ü"
    state.write_bytes(b"a file where the folder should be")
    with pytest.raises(TargetError) as caught:
        place(world.target, world.items, **STACK, registry=PlacementRegistry(state), user=GONE)
    assert caught.value.reference == "placing-failed"
    assert any(str(state) in line for line in caught.value.context)
    assert tree(world.target) == world.start


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EPERM, "who owns"),
        (errno.EACCES, "who owns"),
        (errno.EROFS, "who owns"),
        (errno.ENOSPC, "full"),
    ],
)
def test_what_the_system_refuses_decides_the_advice(tmp_path: Path, number: int, advice: str) -> None:
    """In a folder like /tmp another user's library cannot be moved: no full disk is the cause of that."""
    world = World(tmp_path)
    world.own("a.dll", b"theirs")
    world.item("", "a.dll", b"ours")
    world.settle()

    class Refusing(LightFs):
        def link(self, path: Path, name: Path) -> bool:
            raise OSError(number, os.strerror(number), str(path), None, str(name))

    with pytest.raises(TargetError) as caught:
        run_place(world, Refusing())
    assert advice in caught.value.hint
    assert "nothing was left behind" in caught.value.hint
    assert str(world.target / "a.dll") in caught.value.context
    assert tree(world.target) == world.start


def test_a_full_disk_does_not_stop_an_undo(tmp_path: Path) -> None:
    """The journal cannot grow, and everything is put back all the same."""
    world = mixed_world(tmp_path)
    run_place(world, LightFs())

    class Full(LightFs):
        def append(self, path: Path, at: int, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    assert undo(world.target, fs=Full()).complete
    assert tree(world.target) == world.start


def _mount(folder: Path, options: str) -> bool:
    if sys.platform == "win32" or os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MB (root only)."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not _mount(folder, "size=1m"):
        pytest.skip("only root may mount; the injected errors above show the same")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.posix_only
def test_a_disk_that_fills_while_copying_ends_as_it_was(small_disk: Path, tmp_path: Path) -> None:
    world = World(tmp_path)
    (small_disk / "app").mkdir()
    (tmp_path / "app").symlink_to(small_disk / "app")
    world.own("a.dll", b"theirs")
    world.item("", "a.dll", b"ours" * 1000)
    world.item("", "b.dll", os.urandom(900_000))
    (small_disk / "app" / "ballast").write_bytes(b"x" * 300_000)
    world.settle()

    class Blind(Fs):
        def free_bytes(self, folder: Path) -> int:
            return 10**9

    with pytest.raises(TargetError, match="No space left") as caught:
        run_place(world, Blind())
    assert caught.value.reference == "placing-failed"
    assert tree(world.target) == world.start
    with pytest.raises(TargetError) as caught:
        run_place(world, Fs())
    assert caught.value.reference == "too-little-space"


@pytest.mark.posix_only
def test_a_read_only_disk_refuses_and_an_undo_there_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    world = World(tmp_path)
    (small_disk / "app").mkdir()
    (tmp_path / "app").symlink_to(small_disk / "app")
    world.own("a.dll", b"theirs")
    world.item("", "a.dll", b"ours")
    world.settle()
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(remount, check=True)
    with pytest.raises(TargetError) as caught:
        run_place(world, Fs())
    assert caught.value.reference == "target-not-writable"
    subprocess.run([*remount[:2], "remount,rw", str(small_disk)], check=True)
    run_place(world, Fs())
    subprocess.run(remount, check=True)
    with pytest.raises(UndoIncompleteError) as blocked:
        undo(world.target)
    assert blocked.value.reference == "undo-blocked"
    subprocess.run([*remount[:2], "remount,rw", str(small_disk)], check=True)
    assert undo(world.target).complete
    assert tree(world.target) == world.start


def windows_error(code: int) -> OSError:
    error = PermissionError(errno.EACCES, "held")
    error.winerror = code  # type: ignore[attr-defined] # exists on Windows only
    return error


@pytest.mark.parametrize("code", [5, 32, 33])
def test_a_file_held_for_a_moment_is_waited_for(code: int) -> None:
    tries: list[int] = []
    slept: list[float] = []

    def act() -> str:
        tries.append(1)
        if len(tries) < 4:
            raise windows_error(code)
        return "done"

    assert retrying(act, waits=(0.01, 0.02, 0.04), sleep=slept.append) == "done"
    assert slept == [0.01, 0.02, 0.04]


@pytest.mark.parametrize("code", [2, 183, 1392, None])
def test_any_other_error_is_final(code: int | None) -> None:
    tries: list[int] = []

    def act() -> None:
        tries.append(1)
        raise windows_error(code) if code else PermissionError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        retrying(act, waits=(0.01,), sleep=lambda _: None)
    assert len(tries) == 1


def test_a_file_held_for_ever_is_an_error_in_the_end() -> None:
    with pytest.raises(PermissionError):
        retrying(lambda: (_ for _ in ()).throw(windows_error(32)), waits=(0.0, 0.0), sleep=lambda _: None)


class Locked(LightFs):
    """A running program has mapped what is moved into the trash, as on Windows: it cannot be deleted."""

    def unlink(self, path: Path) -> None:
        if path.parent.name == "trash":
            raise PermissionError(errno.EACCES, "mapped")
        super().unlink(path)


def test_a_mapped_library_is_out_of_the_way_and_cleaned_up_later(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    run_place(world, LightFs())
    report = undo(world.target, fs=Locked(trades=False))
    assert report.complete
    assert sorted(report.pending) == ["lib/a.dll", "lib/b.dll"]
    rest = {k: v for k, v in tree(world.target).items() if not k.startswith(".cuda-amd")}
    assert rest == world.start
    with pytest.raises(WorkspaceError) as caught:
        run_place(world, Locked(trades=False))
    assert caught.value.reference == "clean-up-pending"
    assert undo(world.target, fs=LightFs()).complete
    assert tree(world.target) == world.start


def test_every_operation_of_the_seam_is_a_crash_point() -> None:
    """Whoever adds an operation that changes something must add it to the proof."""
    looking = {"look", "names", "read", "sha256", "free_bytes", "writable", "in_use", "before", "lock_at"}
    public = {name for name in vars(Fs) if not name.startswith("_")}
    assert public - looking == CHANGING - {"lock"}


def test_memory_and_disk_agree(tmp_path: Path) -> None:
    """The real file systems here, flushes included: the temporary folder and, where there is one, tmpfs."""
    places = [tmp_path]
    if MEMORY is not None:
        places.append(Path(tempfile.mkdtemp(dir=MEMORY)))
    for folder in places:
        world = mixed_world(folder)
        run_place(world, Fs())
        assert undo(world.target).complete
        assert tree(world.target) == world.start
    for folder in places[1:]:
        shutil.rmtree(folder)
