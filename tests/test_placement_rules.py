"""What placing refuses, keeps, shares and gives back; and journals from strangers."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import asdict

from scripts.errors import ConflictError, JournalError, StagedFileError, TargetError, WorkspaceError
from scripts.osal.file_operations import Fs
from scripts.osal.fs import LockFile
from scripts.osal.paths import refusal
from scripts.osal.processes import User, process_start_time, this_process
from scripts.placement import journal as journals
from scripts.placement.inspect import CREATED, REPLACED, BackupState, CurrentState, take_snapshot
from scripts.placement.journal import Journal, JournalStep, parse, record
from scripts.placement.layout import Layout, unsafe_path
from scripts.placement.place import Placement, explain, place
from scripts.placement.plan import SYSTEM_TREES, PlacementItem, refuse
from scripts.placement.rollback import undo
from scripts.placement.status import TargetState, placement_status, placements
from scripts.staging.state_folder import PLACEMENTS, PlacementRegistry
from tests.placement_harness import GONE, STACK, LightFs, World, loader, mixed_world, pair_world, tree
from tools.memory_fs import Disk, MemoryFs

Record = Callable[[str, object], None]
FS = LightFs()


def run_place(world: World, **options: object) -> Placement:
    wish: dict[str, object] = {**STACK, "fs": FS, "user": GONE, **options}
    return place(world.target, world.items, **wish)  # type: ignore[arg-type] # options of one test


@pytest.fixture
def world(tmp_path: Path) -> World:
    return mixed_world(tmp_path)


# Refusals -------------------------------------------------------------------------------------------


def refused(world: World, **options: object) -> str:
    before = tree(world.target)
    with pytest.raises(WorkspaceError) as caught:
        run_place(world, **options)
    assert tree(world.target) == before, "a refusal changes nothing"
    return caught.value.reference


def test_a_missing_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError) as caught:
        place(tmp_path / "nowhere", [], **STACK)
    assert caught.value.reference == "target-missing"


@pytest.mark.parametrize(
    ("folder", "name", "reference"),
    [
        ("../other", "a.dll", "path-unsafe"),
        ("lib/../lib", "a.dll", "path-unsafe"),
        ("", "lib/a.dll", "path-unsafe"),
        ("", "a:b.dll", "path-unsafe"),
        (".CUDA-AMD/new", "a.dll", "path-unsafe"),
        ("absent", "a.dll", "folder-missing"),
        ("program.exe", "a.dll", "folder-missing"),
        ("", "lib", "not-a-file"),
    ],
)
def test_places_where_nothing_can_go(world: World, folder: str, name: str, reference: str) -> None:
    world.item(folder, name, b"ours")
    assert refused(world) == reference


def test_two_files_for_one_name_are_refused(world: World) -> None:
    world.item("", "NVML.DLL", b"another")
    assert refused(world) == "name-twice"


@pytest.mark.posix_only
def test_a_linked_folder_on_the_way_is_refused(world: World) -> None:
    (world.target / "plugins").symlink_to("lib")
    world.item("plugins", "a.dll", b"ours")
    assert refused(world) == "folder-is-link"


@pytest.mark.posix_only
def test_names_that_differ_in_case_only_are_ambiguous(world: World) -> None:
    world.own("NVCUDA.dll", b"another one")
    assert refused(world) == "name-ambiguous"


@pytest.mark.parametrize("name", ["EasyAntiCheat", "BattlEye", "start_protected_game.exe"])
def test_anti_cheat_near_the_program_is_refused(tmp_path: Path, name: str) -> None:
    world = World(tmp_path)
    world.own(f"{name}/x", b"")
    world.item("", "a.dll", b"ours")
    assert refused(world.settle()) == "anti-cheat"


def test_anti_cheat_above_an_unreal_program_is_seen(tmp_path: Path) -> None:
    (tmp_path / "Game" / "EasyAntiCheat").mkdir(parents=True)
    target = tmp_path / "Game" / "Project" / "Binaries" / "Win64"
    target.mkdir(parents=True)
    world = World(tmp_path)
    item = world.item("", "a.dll", b"ours")
    plan = explain(target, [item], **STACK, fs=FS)
    assert [refusal.reference for refusal in plan.refusals] == ["anti-cheat"]


def test_a_64_bit_library_for_a_32_bit_program_is_refused(world: World) -> None:
    pe = b"MZ" + b"\0" * 58 + (64).to_bytes(4, "little")
    world.own("program.exe", pe + b"PE\0\0" + b"\x4c\x01" + b"\0" * 300)
    world.item("", "x.dll", pe + b"PE\0\0" + b"\x64\x86" + b"\0" * 300)
    assert refused(world, program=world.target / "program.exe") == "machine-differs"


@pytest.mark.posix_only
@pytest.mark.parametrize("folder", ["/usr/lib", "/usr/local/bin", "/etc", "/"])
def test_system_folders_are_refused(folder: str) -> None:
    plan = explain(Path(folder), [], **STACK, fs=FS)
    assert plan.refusals[0].reference == "system-folder"
    assert SYSTEM_TREES


def test_folders_that_the_caller_calls_system_are_refused(world: World) -> None:
    assert refused(world, system_folders=(world.root,)) == "system-folder"


def test_another_volume_on_the_way_is_refused(world: World) -> None:
    snapshot = take_snapshot(world.target, world.items, fs=FS)
    lib = snapshot.folders["lib"]
    moved = type(lib)(**{**asdict(lib), "device": lib.device + 1})
    other = type(snapshot)(**{**asdict(snapshot), "folders": {**snapshot.folders, "lib": moved}})
    assert [r.reference for r in refuse(other, world.items)] == ["other-volume"]


def test_explaining_changes_nothing_and_says_everything(world: World) -> None:
    plan = explain(world.target, world.items, **STACK, fs=FS)
    assert tree(world.target) == world.start
    body = plan.to_json()
    assert body["create"] == ["nvml.dll"]
    assert "nvcuda.dll" in body["replace"]  # type: ignore[operator] # a list of names
    assert body["identical"] == ["lib/same.dll"]


@pytest.mark.posix_only
def test_a_file_that_a_program_has_mapped_is_a_warning(world: World) -> None:
    import mmap  # noqa: PLC0415 - this test alone

    path = world.target / "nvcuda.dll"
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        plan = explain(world.target, world.items, **STACK, fs=Fs())
    assert any("nvcuda.dll" in warning for warning in plan.warnings)
    assert not plan.refusals


@pytest.mark.windows_only
def test_a_file_in_use_is_refused(world: World) -> None:
    with (world.target / "nvcuda.dll").open("rb"):
        assert refused(world, fs=Fs()) == "file-in-use"


@pytest.mark.windows_only
def test_a_loaded_library_is_not_replaced(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.own("helper.dll", (Path(sys.executable).parent / "vcruntime140.dll").read_bytes())
    world.item("", "helper.dll", b"ours")
    world.settle()
    with loader(world.target / "helper.dll") as child:
        assert refused(world, fs=Fs()) == "file-in-use"
        child.communicate(b"")
    assert run_place(world, fs=Fs()).files == ("helper.dll",)
    assert undo(world.target).complete
    assert tree(world.target) == world.start


@pytest.mark.windows_only
def test_a_library_of_ours_that_is_loaded_moves_away_and_is_cleaned_up_later(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.own("helper.dll", b"theirs")
    world.item("", "helper.dll", (Path(sys.executable).parent / "vcruntime140.dll").read_bytes())
    world.settle()
    placement = run_place(world, fs=Fs(), user=this_process())
    with loader(world.target / "helper.dll") as child:
        report = placement.leave()
        assert report is not None
        assert report.complete
        assert report.pending == ("helper.dll",)
        assert (world.target / "helper.dll").read_bytes() == b"theirs"
        assert placement_status(world.target).standing is TargetState.CLEAN_UP
        child.communicate(b"")
    assert undo(world.target).complete
    assert tree(world.target) == world.start


# Placing --------------------------------------------------------------------------------------------


def test_a_different_spelling_is_replaced_under_its_own_name(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.own("NvCuda.DLL", b"theirs")
    world.item("", "nvcuda.dll", b"ours")
    world.settle()
    assert run_place(world).files == ("NvCuda.DLL",)
    assert (world.target / "NvCuda.DLL").read_bytes() == b"ours"
    undo(world.target, fs=FS)
    assert tree(world.target) == world.start


def test_identical_files_are_left_alone_and_nothing_is_written(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.own("a.dll", b"same")
    world.item("", "a.dll", b"same")
    world.settle()
    placement = run_place(world)
    assert placement.files == ()
    assert tree(world.target) == world.start
    assert placement.leave() is None


ODD = ["ümläut.dll", "with [brackets].dll", "two  spaces.dll", "100%.dll", "#hash&and;.dll", "日本語.dll"]


@pytest.mark.parametrize(
    "name", [*ODD, *(["trailing ", "trailing.", "new\\?"] if os.name == "posix" else [])]
)
def test_odd_names_come_back(tmp_path: Path, name: str) -> None:
    world = World(tmp_path)
    world.own(f"Büro [1]/{name}", b"theirs") if "\\" not in name else world.own("x", b"")
    world.item("Büro [1]" if "\\" not in name else "", name, b"ours")
    world.settle()
    if unsafe_path(name) or refusal(name):
        assert refused(world) == "path-unsafe"
        return
    run_place(world)
    undo(world.target, fs=FS)
    assert tree(world.target) == world.start


@pytest.mark.posix_only
def test_a_name_that_is_no_text_comes_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.own(os.fsdecode(b"b\xfcro/a.dll"), b"theirs")
    world.item(os.fsdecode(b"b\xfcro"), "a.dll", b"ours")
    world.settle()
    run_place(world)
    undo(world.target, fs=FS)
    assert tree(world.target) == world.start


def crowded_world(root: Path, count: int) -> World:
    world = World(root)
    for number in range(count):
        if number % 2:
            world.own(f"lib/{number}.dll", b"theirs %d" % number)
        world.item("lib" if number % 2 else "", f"{number}.dll", b"ours %d" % number)
    world.own("lib/x", b"")
    return world.settle()


#: Wine reads a whole folder for every name that is not there: a thousand of them take a minute.
CROWD = 1000 if sys.platform != "win32" else 100


@pytest.mark.slow
def test_a_thousand_files_come_back(tmp_path: Path) -> None:
    world = crowded_world(tmp_path, CROWD)
    assert len(run_place(world).files) == CROWD
    assert undo(world.target, fs=FS).complete
    assert tree(world.target) == world.start


def test_a_thousand_files_come_back_on_a_disk_in_memory(tmp_path: Path) -> None:
    """The same on every system; ``test_placement_crash.py`` shows that this disk is like the real one."""
    (tmp_path / "app" / "lib").mkdir(parents=True)
    source = tmp_path / "source"
    source.write_bytes(b"ours")
    digest = hashlib.sha256(b"ours").hexdigest()
    items = [
        PlacementItem(folder="lib" if n % 2 else "", name=f"{n}.dll", source=source, sha256=digest, size=4)
        for n in range(1000)
    ]
    fs = MemoryFs(Disk.of(tmp_path / "app"))
    for number in range(1, 1000, 2):
        fs.write_new(tmp_path / "app" / "lib" / f"{number}.dll", b"theirs %d" % number)
    start = fs.disk.state()
    placement = place(tmp_path / "app", items, **STACK, fs=fs, user=GONE)
    assert len(placement.files) == 1000
    assert undo(tmp_path / "app", fs=fs).complete
    assert fs.disk.state() == start


@pytest.mark.posix_only
def test_hard_links_of_the_users_stay_hard_links(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = world.own("a.dll", b"theirs")
    os.link(path, world.target / "b.dll")
    world.item("", "a.dll", b"ours")
    world.settle()
    run_place(world)
    assert (world.target / "b.dll").read_bytes() == b"theirs"
    undo(world.target, fs=FS)
    assert path.stat().st_ino == (world.target / "b.dll").stat().st_ino


@pytest.mark.slow
@pytest.mark.posix_only
def test_the_name_of_a_replaced_file_is_never_absent(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    path = world.target / "lib" / "a.dll"
    absent: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            try:
                os.close(os.open(path, os.O_RDONLY))
            except FileNotFoundError:
                absent.append(1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(60):
            run_place(world)
            undo(world.target, fs=FS)
    finally:
        stop.set()
        watcher.join()
    assert absent == []


def test_a_file_that_appears_after_the_plan_is_not_overwritten(tmp_path: Path) -> None:
    world = pair_world(tmp_path)

    class Late(LightFs):
        def copy_new(self, source: Path, path: Path) -> str:
            (world.target / "lib" / "b.dll").write_bytes(b"an updater was faster")
            return super().copy_new(source, path)

    with pytest.raises(TargetError) as caught:
        run_place(world, fs=Late())
    assert caught.value.reference == "target-changed-since-plan"
    assert (world.target / "lib" / "b.dll").read_bytes() == b"an updater was faster"
    assert (world.target / "lib" / "a.dll").read_bytes() == b"theirs: a"
    assert not (world.target / ".cuda-amd").exists()


def test_an_original_that_changes_after_the_plan_is_not_replaced(tmp_path: Path) -> None:
    world = pair_world(tmp_path)

    class Late(LightFs):
        def copy_new(self, source: Path, path: Path) -> str:
            (world.target / "lib" / "a.dll").write_bytes(b"a newer version")
            return super().copy_new(source, path)

    with pytest.raises(TargetError) as caught:
        run_place(world, fs=Late())
    assert caught.value.reference == "target-changed-since-plan"
    assert (world.target / "lib" / "a.dll").read_bytes() == b"a newer version"
    assert not (world.target / ".cuda-amd").exists()


@pytest.mark.parametrize("how", ["missing", "changed"])
def test_a_staged_file_that_is_gone_or_changed_is_its_own_error(world: World, how: str) -> None:
    source = world.items[1].source
    source.chmod(0o644)
    if how == "missing":
        source.unlink()
    else:
        source.write_bytes(b"something else")
    with pytest.raises(StagedFileError) as caught:
        run_place(world)
    assert caught.value.reference == f"staged-file-{how}"
    assert "off" not in caught.value.hint
    assert tree(world.target) == world.start


# Several users --------------------------------------------------------------------------------------


def test_the_last_one_out_undoes(world: World) -> None:
    first = run_place(world, user=this_process())
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        second = run_place(world, user=User(child.pid, process_start_time(child.pid) or ""))
        assert (first.attached, second.attached) == (False, True)
        assert first.leave() is None
        assert placement_status(world.target).standing is TargetState.IN_USE
        report = second.leave()
        child.communicate(b"")
    assert report is not None
    assert report.complete
    assert tree(world.target) == world.start


def test_a_dead_user_does_not_hold_a_placement(world: World) -> None:
    run_place(world, user=GONE)
    assert placement_status(world.target).standing is TargetState.LEFT_OVER
    second = run_place(world, user=this_process())
    assert second.leave() is not None
    assert tree(world.target) == world.start


def test_a_kept_placement_stays_until_unwrapped(world: World) -> None:
    placement = run_place(world, keep=True, user=this_process())
    assert placement.leave() is None
    assert placement_status(world.target).standing is TargetState.KEPT
    assert undo(world.target, fs=FS).complete
    assert tree(world.target) == world.start


def test_a_placement_in_use_is_not_undone_under_the_program(world: World) -> None:
    placement = run_place(world, user=this_process())
    with pytest.raises(ConflictError) as caught:
        undo(world.target, fs=FS)
    assert caught.value.reference == "placement-in-use"
    placement.leave()


def test_another_stack_is_refused(world: World) -> None:
    run_place(world)
    with pytest.raises(ConflictError) as caught:
        run_place(world, stack="another-stack")
    assert caught.value.reference == "other-stack-placed"
    undo(world.target, fs=FS)
    assert tree(world.target) == world.start


def test_a_damaged_placement_is_not_joined(world: World) -> None:
    run_place(world)
    (world.target / "nvml.dll").unlink()
    with pytest.raises(ConflictError) as caught:
        run_place(world)
    assert caught.value.reference == "placement-damaged"


def test_a_lock_deleted_under_its_holder_locks_nothing(tmp_path: Path) -> None:
    lock = LockFile(tmp_path / "lock")
    assert lock.try_acquire()
    if sys.platform == "win32":
        with pytest.raises(PermissionError):
            (tmp_path / "lock").unlink()
        lock.release()
        return
    (tmp_path / "lock").unlink()
    second = LockFile(tmp_path / "lock")
    assert second.try_acquire(), "a new file is another lock"
    third = LockFile(tmp_path / "lock")
    assert not third.try_acquire()
    lock.release()
    second.release()


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param(False, id="a rival alone"),
        pytest.param(True, id="beside a hidden file", marks=pytest.mark.posix_only),
    ],
)
def test_a_lock_taken_while_the_last_one_leaves_is_left_to_its_holder(tmp_path: Path, hidden: bool) -> None:
    """Between our lock's name and the folder going somebody makes a lock there: it is not removed."""
    world = pair_world(tmp_path)
    layout = Layout(world.target)
    rival = LockFile(layout.lock)
    taken: list[bool] = []

    class Crowded(LightFs):
        def rmdir(self, folder: Path) -> bool:
            if folder == layout.state and not taken:
                if hidden and not (folder / ".hidden").exists():
                    (folder / ".hidden").touch()  # as FUSE keeps a file that is still open
                    return super().rmdir(folder)
                (folder / ".hidden").unlink(missing_ok=True)
                assert rival.try_acquire()
                taken.append(True)
            return super().rmdir(folder)

    run_place(world)
    assert undo(world.target, fs=Crowded()).complete
    try:
        assert layout.lock.exists(), "its holder believes that nobody else can hold it"
        assert not LockFile(layout.lock).try_acquire()
    finally:
        rival.release()


RIVAL = """
import sys
from pathlib import Path
from scripts.placement.place import place
from scripts.placement.plan import PlacementItem
items = [PlacementItem(folder=f, name=n, source=Path(s), sha256=h, size=int(b))
         for f, n, s, h, b in (line.split("|") for line in sys.argv[2:])]
for _ in range(8):
    assert place(Path(sys.argv[1]), items, stack="test-stack", digest="d" * 64).files
    placement = place(Path(sys.argv[1]), items, stack="test-stack", digest="d" * 64)
    placement.leave()
print("done")
"""


@pytest.mark.slow
def test_many_processes_place_and_leave_at_once(world: World, record_property: Record) -> None:
    """Real processes fight for one target; whoever is last leaves it as it was."""
    items = [f"{i.folder}|{i.name}|{i.source}|{i.sha256}|{i.size}" for i in world.items]
    command = [sys.executable, "-c", RIVAL, str(world.target), *items]
    root = Path(__file__).resolve().parents[1]
    rivals = [
        subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        for _ in range(3)
    ]
    for rival in rivals:
        out, _ = rival.communicate(timeout=120)
        assert (rival.returncode, out.strip()) == (0, b"done")
    assert tree(world.target) == world.start
    record_property("placement: rounds of rivals", 24)


# Undoing what others changed ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["safe", "ours", "theirs"])
def test_a_changed_file_is_kept_and_both_ways_out_lose_nothing(tmp_path: Path, mode: str) -> None:
    world = pair_world(tmp_path)
    run_place(world)
    for name in ("a.dll", "b.dll"):
        (world.target / "lib" / name).write_bytes(b"the user's newer " + name.encode())
    report = undo(world.target, fs=FS)
    assert [left.path for left in report.kept] == ["lib/a.dll", "lib/b.dll"]
    again = undo(world.target, fs=FS, mode=mode)
    found = {path.name: path.read_bytes() for path in (world.target / "lib").iterdir()}
    newer = {"a.dll": b"the user's newer a.dll", "b.dll": b"the user's newer b.dll"}
    if mode == "safe":
        assert not again.complete
        assert found == newer
        return
    assert again.complete
    assert not (world.target / ".cuda-amd").exists()
    if mode == "theirs":
        assert found == {**newer, "a.dll.cuda-amd-original": b"theirs: a"}
    else:
        assert found == {
            "a.dll": b"theirs: a",
            "a.dll.cuda-amd-changed": b"the user's newer a.dll",
            "b.dll.cuda-amd-changed": b"the user's newer b.dll",
        }


@pytest.mark.parametrize("mode", ["ours", "theirs"])
def test_lost_originals_are_named_and_ours_stays(tmp_path: Path, mode: str) -> None:
    world = pair_world(tmp_path)
    run_place(world)
    (world.target / ".cuda-amd" / "originals" / "0001").unlink()
    report = undo(world.target, fs=FS)
    assert [(left.path, "quarantine" in left.why) for left in report.kept] == [("lib/a.dll", True)]
    assert (world.target / "lib" / "a.dll").read_bytes() == b"ours: a"
    assert undo(world.target, fs=FS, mode=mode).complete
    assert (world.target / "lib" / "a.dll").read_bytes() == b"ours: a"


@pytest.mark.parametrize("mode", ["ours", "theirs"])
def test_an_original_whose_folder_is_gone_is_kept(tmp_path: Path, mode: str) -> None:
    world = pair_world(tmp_path)
    run_place(world)
    for path in (world.target / "lib").iterdir():
        path.unlink()
    (world.target / "lib").rmdir()
    assert not undo(world.target, fs=FS).complete
    assert undo(world.target, fs=FS, mode=mode).complete
    back = "lib/a.dll" if mode == "ours" else "a.dll.cuda-amd-original"
    assert (world.target / back).read_bytes() == b"theirs: a"


def test_a_folder_that_the_program_wrote_into_keeps_its_own_time(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    run_place(world)
    os.utime(world.target / "lib", ns=(1, 1_700_000_000_000_000_000))
    (world.target / "lib" / "cache.bin").write_bytes(b"the program's own")
    assert undo(world.target, fs=FS).complete
    now = (world.target / "lib").stat().st_mtime_ns
    assert now != dict(world.start)["lib"][3]  # type: ignore[index] # a folder's entry
    assert (world.target / "lib" / "cache.bin").read_bytes() == b"the program's own"


def test_an_undo_can_be_repeated_and_nothing_placed_is_no_error(world: World) -> None:
    assert undo(world.target, fs=FS).complete
    run_place(world)
    assert undo(world.target, fs=FS).complete
    assert undo(world.target, fs=FS).restored == ()


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[]", '{"path": 1, "facts": {}, "added": ""}', '{"path": "x", "facts": [], "added": ""}'],
)
def test_a_damaged_entry_of_the_registry_hides_no_other(world: World, tmp_path: Path, text: str) -> None:
    registry = PlacementRegistry(tmp_path / "state")
    run_place(world, registry=registry)
    [entry] = (tmp_path / "state").rglob("*.json")
    entry.with_name("0.json").write_text(text, encoding="ascii")
    assert [status.target for status in placements(registry)] == [world.target]


def test_a_moved_folder_is_undone_where_it_is_now(world: World, tmp_path: Path) -> None:
    registry = PlacementRegistry(tmp_path / "state")
    run_place(world, registry=registry)
    world.target.rename(world.root / "moved")
    assert placements(registry)[0].standing is TargetState.MISSING
    assert undo(world.root / "moved", fs=FS).complete
    assert tree(world.root / "moved") == world.start


@pytest.mark.posix_only
def test_a_launcher_that_starts_the_real_program_and_exits(tmp_path: Path) -> None:
    """The real program goes on with the file it has mapped; the folder is clean all the same."""
    world = pair_world(tmp_path)
    placement = run_place(world, user=this_process())
    script = (
        "import mmap,sys,time\nf=open(sys.argv[1],'rb')\nm=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)\n"
        "print('mapped',flush=True)\nsys.stdin.read()\nprint(m[:].decode())"
    )
    launcher = "import subprocess,sys\nsubprocess.Popen([sys.executable,'-c',sys.argv[1],sys.argv[2]])"
    path = str(world.target / "lib" / "a.dll")
    with subprocess.Popen(
        [sys.executable, "-c", launcher, script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == b"mapped\n"
        child.wait()
        assert placement.leave() is not None
        assert tree(world.target) == world.start
        child.stdin.close()
        assert child.stdout.read() == b"ours: a\n"


# Journals from strangers ----------------------------------------------------------------------------


def stranger(world: World, change: Callable[[dict[str, object]], None]) -> bytes:
    """Return a journal that is whole and says something bad."""
    run_place(world)
    text = (world.target / ".cuda-amd" / "journal").read_bytes().split(b"\n")[0].split(b" ", 2)[2]
    body = json.loads(text)
    change(body)
    return record(body)


def action(body: dict[str, object]) -> dict[str, object]:
    actions = body["actions"]
    assert isinstance(actions, list)
    assert isinstance(actions[0], dict)
    return actions[0]


BAD: dict[str, Callable[[dict[str, object]], object]] = {
    "dotdot": lambda body: action(body).update(folder="../../etc"),
    "absolute": lambda body: action(body).update(folder="/etc"),
    "drive": lambda body: action(body).update(folder="C:/Windows"),
    "colon": lambda body: action(body).update(name="a.dll:stream"),
    "backslash": lambda body: action(body).update(name="..\\a.dll"),
    "control": lambda body: action(body).update(name="a\n.dll"),
    "own folder": lambda body: action(body).update(folder=".cuda-amd/originals"),
    "own folder, other case": lambda body: action(body).update(folder=".Cuda-AMD. /originals"),
    "name with folder": lambda body: action(body).update(name="x/y.dll"),
    "no name": lambda body: action(body).pop("name"),
    "no hash": lambda body: action(body).update(sha256="x"),
    "huge size": lambda body: action(body).update(size=2**70),
    "unknown deed": lambda body: action(body).update(deed="delete"),
    "no original": lambda body: action(body).update(before=None),
    "twice": lambda body: body.update(actions=[action(body), action(body)]),
    "no actions": lambda body: body.update(actions="all"),
    "bad folder": lambda body: body.update(folders={"../x": 1}),
    "huge time": lambda body: body.update(folders={"": 2**64}),
    "escape codes": lambda body: body.update(stack="\x1b[2J"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_journal_that_reaches_out_is_not_trusted(tmp_path: Path, bad: str) -> None:
    world = pair_world(tmp_path)
    planted = stranger(world, lambda body: BAD[bad](body) and None)
    (world.target / ".cuda-amd" / "journal").write_bytes(planted)
    before = tree(world.target)
    with pytest.raises(JournalError) as caught:
        undo(world.target, fs=FS)
    assert caught.value.reference == "journal-unsafe"
    assert {k: v for k, v in tree(world.target).items() if k != ".cuda-amd"} == {
        k: v for k, v in before.items() if k != ".cuda-amd"
    }
    assert placement_status(world.target).standing is TargetState.UNREADABLE


def test_a_journal_from_a_newer_workspace_is_left_to_it(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    planted = stranger(world, lambda body: body.update(format=2))
    (world.target / ".cuda-amd" / "journal").write_bytes(planted)
    with pytest.raises(JournalError, match="newer workspace") as caught:
        undo(world.target, fs=FS)
    assert caught.value.reference == "journal-newer"
    with pytest.raises(JournalError):
        run_place(world)


@pytest.mark.posix_only
@pytest.mark.parametrize("name", ["", "journal", "originals", "lock"])
def test_links_in_the_state_folder_are_not_followed(tmp_path: Path, name: str) -> None:
    world = pair_world(tmp_path)
    run_place(world)
    state = world.target / ".cuda-amd"
    outside = tmp_path / "outside"
    (state / name).rename(outside) if name else state.rename(outside)
    (state / name if name else state).symlink_to(outside)
    with pytest.raises(JournalError) as caught:
        undo(world.target, fs=FS)
    assert caught.value.reference == "journal-unsafe"
    assert (world.target / "lib" / "a.dll").read_bytes() == b"ours: a"


@pytest.mark.posix_only
def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    run_place(world)
    (world.target / "lib").rename(tmp_path / "elsewhere")
    (world.target / "lib").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError) as caught:
        undo(world.target, fs=FS)
    assert caught.value.reference == "journal-unsafe"
    assert (tmp_path / "elsewhere" / "a.dll").read_bytes() == b"ours: a"


@pytest.mark.posix_only
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_state_folder_is_not_trusted(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    run_place(world)
    os.chown(world.target / ".cuda-amd", 12345, 12345)
    with pytest.raises(JournalError, match="another user"):
        undo(world.target, fs=FS)


def sample() -> tuple[bytes, bytes, bytes]:
    first = journals.begin(Journal(stack="s", digest="d", actions=()))
    return first, journals.committed({}), journals.undoing(())


@pytest.mark.parametrize("tail", [b"", b"\0" * 100, b"0000", b"\0\n\0\n", sample()[2][:-1], sample()[2][:20]])
def test_a_torn_tail_ends_the_journal_before_it(tail: bytes) -> None:
    first, second, _ = sample()
    journal = parse(first + second + tail)
    assert journal is not None
    assert (journal.step, journal.end, journal.torn) == (
        JournalStep.COMMITTED,
        len(first + second),
        bool(tail),
    )


@pytest.mark.parametrize("cut", range(0, len(sample()[0]), 7))
def test_a_first_record_cut_anywhere_is_no_journal(cut: int) -> None:
    assert parse(sample()[0][:cut]) is None


@pytest.mark.parametrize("at", [3, 20, 60, -1])
def test_a_bad_record_before_a_good_one_is_corrupt(at: int) -> None:
    first, second, third = sample()
    damaged = bytearray(first + second + third)
    damaged[len(first) + at if at >= 0 else len(first) + len(second) - 1] ^= 0x15
    with pytest.raises(JournalError) as caught:
        parse(bytes(damaged))
    assert caught.value.reference == "journal-corrupt"


def test_originals_without_a_journal_are_not_touched(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    run_place(world)
    Layout(world.target).journal.write_bytes(b"")
    with pytest.raises(JournalError) as caught:
        undo(world.target, fs=FS)
    assert caught.value.reference == "journal-missing"
    assert (world.target / ".cuda-amd" / "originals" / "0001").read_bytes() == b"theirs: a"


def test_nul_tail_on_disk_is_repaired_by_the_undo(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    run_place(world)
    with Layout(world.target).journal.open("ab") as file:
        file.write(b"\0" * 4096)
    assert undo(world.target, fs=FS).complete
    assert tree(world.target) == world.start


# The rest -------------------------------------------------------------------------------------------


def test_the_decision_table_has_no_gaps() -> None:
    assert set(CREATED) == set(CurrentState)
    assert set(REPLACED) == {(now, kept) for now in CurrentState for kept in BackupState}


def test_the_readme_gives_a_person_the_way_back(tmp_path: Path) -> None:
    """Followed by hand, without a line of the tool."""
    world = pair_world(tmp_path)
    run_place(world)
    text = Layout(world.target).readme.read_text(encoding="utf-8")
    pairs = [line.strip() for line in text.splitlines() if line.startswith("    ") and "SHA" not in line]
    pairs = [line for line in pairs if not line.startswith(("first", "second", "python"))]
    assert pairs == ["lib/a.dll", ".cuda-amd/originals/0001", "lib/b.dll"]
    (world.target / pairs[0]).unlink()
    (world.target / pairs[1]).rename(world.target / pairs[0])
    (world.target / pairs[2]).unlink()
    assert (world.target / "lib" / "a.dll").read_bytes() == b"theirs: a"
    assert not list((world.target / ".cuda-amd" / "originals").iterdir())


def test_the_registry_is_only_an_index(world: World, tmp_path: Path) -> None:
    registry = PlacementRegistry(tmp_path / "state")
    run_place(world, registry=registry)
    assert [status.target for status in placements(registry)] == [world.target.resolve()]
    for file in (tmp_path / "state").rglob("*.json"):
        file.write_text("{", encoding="ascii")
    assert placements(registry) == ()
    assert undo(world.target, fs=FS, registry=registry).complete
    assert registry.entries(PLACEMENTS) == ()


@pytest.mark.posix_only
def test_the_hash_of_a_link_is_that_of_the_versions_before(tmp_path: Path) -> None:
    """Journals hold it, so that an undo compares with what another version has written."""
    link = tmp_path / "libcuda.so.1"
    link.symlink_to(".//folder/./real.so")
    seen = FS.look(link)
    assert seen is not None
    assert FS.sha256(link) == hashlib.sha256(b"folder/real.so").hexdigest()


def test_a_process_is_told_apart_from_a_later_one_with_its_id() -> None:
    assert process_start_time(os.getpid()) == process_start_time(os.getpid())
    with subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL) as child:
        child.wait()
        pid = child.pid
    assert process_start_time(pid) is None
    assert process_start_time(os.getpid()) != process_start_time(1)
