"""``unwrap`` and the placing half of ``wrap --via=beside``: what they choose, undo, refuse and show."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from pathlib import Path

import pytest

from scripts.app.context import Staged, Workspace
from scripts.app.status import StatusResult
from scripts.app.unwrap import UnwrapResult, unwrap
from scripts.app.wrap_placing import BesidePlacer, choose, placed_here, still_placed, system_folders
from scripts.cli.console import Out
from scripts.cli.views.status import show_status
from scripts.cli.views.wrap import show_unwrap as show
from scripts.errors import JournalError, TargetError, UsageError
from scripts.model import Host, Lock, Runtime, RuntimeFile, Stack, StackKind
from scripts.placement.status import PlacementStatus, TargetState
from scripts.preflight.loading import Places
from scripts.staging.runtimes import History
from tests.checkout import workspace_in
from tests.placement_harness import World, tree

FILES = {
    "nvcuda.dll": ("nvcuda", ("amdhip64",)),
    "nvcudart_hybrid64.dll": (None, ()),
    "cublas64_11.dll": ("cublas11", ("rocblas",)),
    "cufft64_10.dll": ("cufft10", ()),
    "cudnn64_8.dll": ("cudnn8", ("MIOpen",)),
    "cudart64_110.dll": ("cudart11", ()),
    "trace/nvcuda.dll": ("nvcuda", ()),
    "ptxas.exe": ("ptxas", ()),
    "zluda.exe": (None, ()),
}


def make_staged(root: Path, *, kind: StackKind = StackKind.TRANSLATION, name: str = "stack-a") -> Staged:
    folder = root / "runtime" / name
    files = []
    for path, (provides, needs) in FILES.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        data = f"{name} {path}".encode()
        file.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        files.append(RuntimeFile(name=path, sha256=digest, size=len(data), provides=provides, needs=needs))
    runtime = Runtime(stack=name, digest="e" * 64, path=folder, files=tuple(files))
    lock = Lock(path=root / "pins.lock", digest="", artifacts={}, stacks={})
    host = Host(os="linux", machine="x86_64")
    return Staged(lock=lock, stack=Stack(id=name, kind=kind), runtime=runtime, host=host)


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return workspace_in(tmp_path)


def program(root: Path) -> World:
    root.mkdir(parents=True, exist_ok=True)
    world = World(root)
    world.own("program.exe", b"the program")
    world.own("nvcuda.dll", b"theirs")
    return world.settle()


def kept(ws: Workspace, root: Path) -> World:
    world = program(root)
    with BesidePlacer(ws)(make_staged(root), world.target / "program.exe", keep=True):
        pass
    return world


def beside(staged: Staged, root: Path) -> list[str]:
    program = root / "app" / "program.exe"
    return [item.path for item in choose(staged, program).items]


def test_only_what_answers_for_a_library_goes_beside(tmp_path: Path) -> None:
    assert beside(make_staged(tmp_path), tmp_path) == [
        "nvcuda.dll",
        "cublas64_11.dll",
        "cudnn64_8.dll",
        "nvcudart_hybrid64.dll",
    ]


def test_the_reference_stack_has_no_stubs(tmp_path: Path) -> None:
    assert "cufft64_10.dll" in beside(make_staged(tmp_path, kind=StackKind.REFERENCE), tmp_path)


def test_wrap_places_and_takes_away(ws: Workspace, tmp_path: Path) -> None:
    world = program(tmp_path / "one")
    with BesidePlacer(ws)(make_staged(tmp_path), world.target / "program.exe") as placement:
        assert "nvcuda.dll" in placement.files
        assert (world.target / "nvcuda.dll").read_bytes() == b"stack-a nvcuda.dll"
        assert [status.standing for status in placed_here(ws)] == [TargetState.IN_USE]
    assert placement.left == ()
    assert tree(world.target) == world.start
    assert placed_here(ws) == ()


def test_wrap_tells_what_is_left_instead_of_raising(ws: Workspace, tmp_path: Path) -> None:
    world = program(tmp_path / "one")
    with BesidePlacer(ws)(make_staged(tmp_path), world.target / "program.exe") as placement:
        (world.target / "nvcuda.dll").write_bytes(b"an updater")
    assert [line.partition(":")[0] for line in placement.left] == ["nvcuda.dll"]
    assert "half-undone" in still_placed(ws)[0]


def test_the_programs_own_failure_passes_through(ws: Workspace, tmp_path: Path) -> None:
    world = program(tmp_path / "one")
    with (
        pytest.raises(JournalError, match="the body's"),
        BesidePlacer(ws)(make_staged(tmp_path), world.target / "program.exe"),
    ):
        raise JournalError("x", "the body's")
    assert tree(world.target) == world.start


def test_nothing_to_place_is_refused(ws: Workspace, tmp_path: Path) -> None:
    world = program(tmp_path / "one")
    with pytest.raises(TargetError) as caught:
        BesidePlacer(ws)(make_staged(tmp_path), world.target / "program.exe", places=Places())
    assert caught.value.reference == "nothing-to-place"


def test_windows_folders_come_from_the_environment() -> None:
    found = system_folders({"SYSTEMROOT": "C:/Windows", "PROGRAMFILES": "C:/Program Files"})
    assert [path.name for path in found] == ["Windows", "WindowsApps"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exe", "quoted exe", "target", "quoted target", "all", "nothing"])
def test_every_way_to_name_a_placement(ws: Workspace, tmp_path: Path, how: str) -> None:
    world = kept(ws, tmp_path / "one")
    exe = world.target / "program.exe"
    if how == "exe":
        result = unwrap(ws, exe=str(exe))
    elif how == "quoted exe":
        result = unwrap(ws, exe=f'"{exe}"')
    elif "target" in how:
        result = unwrap(ws, target=str(world.target) if how == "target" else f'"{world.target}"')
    else:
        result = unwrap(ws, all_=how == "all")
    assert result.exit_code == 0
    assert tree(world.target) == world.start
    assert placed_here(ws) == ()


@pytest.mark.parametrize(
    "options",
    [{"ours": True, "theirs": True}, {"exe": "a", "target": "b"}, {"exe": "a", "all_": True}],
    ids=["both ways", "exe and target", "exe and all"],
)
def test_contradictions_are_usage_errors(ws: Workspace, options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        unwrap(ws, **options)  # type: ignore[arg-type] # options of a table


def test_where_nothing_is_placed_nothing_can_be_taken_back(ws: Workspace) -> None:
    for result in (unwrap(ws), unwrap(ws, all_=True)):
        assert (result.reports, result.exit_code) == ((), 0)


def test_several_placements_must_be_named(ws: Workspace, tmp_path: Path) -> None:
    one, two = kept(ws, tmp_path / "one"), kept(ws, tmp_path / "two")
    with pytest.raises(UsageError) as caught:
        unwrap(ws)
    assert set(caught.value.context) == {str(one.target), str(two.target)}
    assert unwrap(ws, all_=True).exit_code == 0
    assert (tree(one.target), tree(two.target)) == (one.start, two.start)


def test_an_exe_without_a_placement_ends_as_its_folder_does(ws: Workspace, tmp_path: Path) -> None:
    world = program(tmp_path / "one")
    by_exe = unwrap(ws, exe=str(world.target / "program.exe"))
    by_target = unwrap(ws, target=str(world.target))
    assert by_exe.exit_code == by_target.exit_code == 0
    assert text(by_exe, tmp_path) == text(by_target, tmp_path)
    assert "nothing was placed" in text(by_exe, tmp_path)
    assert tree(world.target) == world.start


@pytest.mark.parametrize("name", ["no-such.exe", "no-such-folder/program.exe"])
def test_a_program_that_is_not_there_is_a_target_error(ws: Workspace, tmp_path: Path, name: str) -> None:
    with pytest.raises(TargetError) as caught:
        unwrap(ws, exe=str(program(tmp_path / "one").target / name))
    assert caught.value.reference == "no-program"
    assert "there is no program" in caught.value.message


@pytest.mark.parametrize("deleted", [False, True], ids=["mistyped", "deleted"])
def test_what_is_placed_for_another_program_stays_until_its_folder_is_named(
    ws: Workspace, tmp_path: Path, deleted: bool
) -> None:
    world = kept(ws, tmp_path / "one")
    exe = world.target / ("program.exe" if deleted else "nope.exe")
    before = (world.target / "program.exe").read_bytes()
    if deleted:
        exe.unlink()
    with pytest.raises(TargetError) as caught:
        unwrap(ws, exe=str(exe))
    assert caught.value.reference == "no-program"
    assert (world.target / "nvcuda.dll").read_bytes() == b"stack-a nvcuda.dll"
    assert caught.value.hint.endswith(f'invoke unwrap --target="{world.target}"')
    assert unwrap(ws, target=str(world.target)).exit_code == 0
    (world.target / "program.exe").write_bytes(before)
    assert (tree(world.target).keys(), placed_here(ws)) == (world.start.keys(), ())


def text(result: UnwrapResult, root: Path) -> str:
    stdout, stderr = io.StringIO(), io.StringIO()
    show(result, Out(stdout, stderr))
    return (stdout.getvalue() + stderr.getvalue()).replace(str(root), "ROOT").replace("\\", "/")


def test_an_incomplete_undo_is_41_and_shows_both_ways_out(ws: Workspace, tmp_path: Path) -> None:
    world = kept(ws, tmp_path / "one")
    (world.target / "nvcuda.dll").write_bytes(b"an updater")
    result = unwrap(ws, target=str(world.target))
    assert result.exit_code == 41
    assert text(result, tmp_path).replace("✓", "+").replace("→", "->").splitlines() == [
        "! ROOT/one/app",
        "    removed   cublas64_11.dll",
        "    removed   cudnn64_8.dll",
        "    removed   nvcudart_hybrid64.dll",
        "    left      nvcuda.dll: the stack's copy was changed or replaced since; your original is kept",
        "Two ways out of what is left, neither deletes a file of yours:",
        '  invoke unwrap --target="ROOT/one/app" --theirs',
        "      leaves these files, and puts each original beside as NAME.cuda-amd-original",
        '  invoke unwrap --target="ROOT/one/app" --ours',
        "      puts the originals back, and keeps these files beside as NAME.cuda-amd-changed",
        "-> look at the files that are left, then choose one of the two",
    ]
    settled = unwrap(ws, target=str(world.target), theirs=True)
    assert settled.exit_code == 0
    assert "not everything is as it was before" in text(settled, tmp_path)
    assert (world.target / "nvcuda.dll").read_bytes() == b"an updater"
    assert (world.target / "nvcuda.dll.cuda-amd-original").read_bytes() == b"theirs"


def test_a_changed_file_that_was_not_here_before_is_said_to_be_that(ws: Workspace, tmp_path: Path) -> None:
    world = kept(ws, tmp_path / "one")
    (world.target / "cudnn64_8.dll").write_bytes(b"an updater")
    shown = text(unwrap(ws, target=str(world.target)), tmp_path)
    assert "    left      cudnn64_8.dll: it was not here before" in shown


def test_nothing_to_take_back_is_said_so(ws: Workspace, tmp_path: Path) -> None:
    world = program(tmp_path / "one")
    assert "there was nothing to take back" in text(unwrap(ws, target=str(world.target)), tmp_path)


def shown_status(*placed: PlacementStatus) -> list[str]:
    lock = Lock(path=Path("pins.lock"), digest="0" * 64, artifacts={}, stacks={})
    result = StatusResult(
        lock=lock,
        history=History(),
        runtime_present=False,
        store="store",
        store_bytes=0,
        leftovers=(),
        placed=placed,
    )
    stdout = io.StringIO()
    show_status(result, Out(stdout, stdout))
    return stdout.getvalue().replace("✓", "+").replace("→", "->").replace("\\", "/").splitlines()[3:]


def test_status_says_what_is_placed_and_what_to_type(ws: Workspace, tmp_path: Path) -> None:
    """A folder with a blank and an umlaut; what is kept on purpose is no reason to warn."""
    world = kept(ws, tmp_path / "Büro 1")
    place = str(world.target).replace("\\", "/")
    files = f"4 files of stack-a beside the program in {place}"
    way = f'take it back: invoke unwrap --target="{place}"'
    assert shown_status(*placed_here(ws)) == [f"+ kept: {files}; {way}", "-> set one up: invoke setup"]
    (world.target / ".cuda-amd" / "users" / "keep").unlink()
    assert shown_status(*placed_here(ws)) == [f"! left over: {files}", f"-> {way}"]
    other = PlacementStatus(target=Path("else"), standing=TargetState.UNREADABLE, advice="damaged at byte 7")
    assert shown_status(*placed_here(ws), other) == [
        f"! left over: {files}",
        "! journal not trusted: else; damaged at byte 7",
        f"-> {way}",
    ]
    with BesidePlacer(ws)(make_staged(tmp_path / "Büro 1"), world.target / "program.exe"):
        assert shown_status(*placed_here(ws))[0] == f"+ in use (process {os.getpid()}): {files}"
    one = PlacementStatus(target=Path("x"), standing=TargetState.KEPT, stack="stack-a", files=("a",))
    assert "1 file of stack-a beside" in shown_status(one)[0]
    two = kept(ws, tmp_path / "two")
    two.target.rename(tmp_path / "two" / "elsewhere")
    gone = str(two.target).replace("\\", "/")
    lines = shown_status(*placed_here(ws))
    assert f"! folder missing or moved: {gone}" in lines
    assert lines[-1].startswith('-> if it was moved: invoke unwrap --target="NEW PLACE"')


def test_one_bad_journal_does_not_stop_the_others(ws: Workspace, tmp_path: Path) -> None:
    one, two = kept(ws, tmp_path / "one"), kept(ws, tmp_path / "two")
    journal = one.target / ".cuda-amd" / "journal"
    journal.write_bytes(b"a damaged line\n" + journal.read_bytes())
    result = unwrap(ws, all_=True)
    assert result.exit_code == 40
    assert tree(two.target) == two.start
    assert "journal-corrupt" in text(result, tmp_path)


def test_folders_that_are_gone_are_forgotten(ws: Workspace, tmp_path: Path) -> None:
    world = kept(ws, tmp_path / "one")
    world.target.rename(tmp_path / "one" / "moved")
    result = unwrap(ws, all_=True)
    assert [path.name for path in result.forgotten] == ["app"]
    assert placed_here(ws) == ()
    assert unwrap(ws, target=str(tmp_path / "one" / "moved")).exit_code == 0
    assert tree(tmp_path / "one" / "moved") == world.start


@pytest.mark.parametrize("above", ["empty", "gone"])
def test_a_disk_that_is_away_is_no_deleted_folder(ws: Workspace, tmp_path: Path, above: str) -> None:
    """An unmounted disk leaves an empty folder (or no drive): the placement on it stays on the list."""
    world = kept(ws, tmp_path / "disk")
    (tmp_path / "disk").rename(tmp_path / "elsewhere")
    if above == "empty":
        (tmp_path / "disk").mkdir()
    away = unwrap(ws, all_=True)
    assert (away.exit_code, away.forgotten) == (30, ())
    assert [error.reference for _, error in away.failures] == ["target-away"]
    assert [status.standing for status in placed_here(ws)] == [TargetState.MISSING]
    if above == "empty":
        (tmp_path / "disk").rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / "disk")
    assert unwrap(ws, all_=True).exit_code == 0
    assert tree(world.target) == world.start


@pytest.mark.parametrize("one", [False, True], ids=["all", "one"])
def test_a_person_can_say_that_a_folder_is_gone(ws: Workspace, tmp_path: Path, one: bool) -> None:
    world = kept(ws, tmp_path / "disk")
    (tmp_path / "disk").rename(tmp_path / "elsewhere")
    (found,) = placed_here(ws)
    assert f'invoke unwrap --target="{world.target}" --theirs' in found.advice
    done = unwrap(ws, target=str(world.target), theirs=True) if one else unwrap(ws, all_=True, theirs=True)
    assert (done.exit_code, done.forgotten) == (0, (world.target,))
    assert placed_here(ws) == ()


@pytest.mark.posix_only
def test_a_disk_that_does_not_answer_is_named_as_that(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network folder whose server went away: nothing about its journal is known."""
    world = kept(ws, tmp_path / "disk")
    lstat = os.lstat

    def silent(path: object, *rest: object, **named: object) -> os.stat_result:
        if str(path).startswith(str(world.target)):
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), str(path))
        return lstat(path, *rest, **named)  # type: ignore[call-overload]  # as it was called

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", silent)
        assert [status.standing for status in placed_here(ws)] == [TargetState.AWAY]
        done = unwrap(ws, all_=True)
    assert [error.reference for _, error in done.failures] == ["target-unreachable"]
    assert done.exit_code == 30
    assert unwrap(ws, all_=True).exit_code == 0
    assert tree(world.target) == world.start
