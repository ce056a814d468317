"""A game that an anti-cheat system guards is never given foreign libraries, by any way in."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest
from msgspec.structs import replace

from scripts.app.context import Staged
from scripts.app.preflight import inspect_program, warn_about
from scripts.app.wrap import wrap
from scripts.app.wrap_placing import BesidePlacer
from scripts.app.wrap_plan import WrapRequest, plan_run
from scripts.errors import TargetError, WorkspaceError
from scripts.guards import guard_near, guard_of, guards
from scripts.launch.injection import Via
from scripts.model import StackKind
from scripts.placement.place import explain
from scripts.preflight.coverage import Verdict
from tests.bounds import in_proportion
from tests.checkout import Checkout
from tests.preflight_programs import examined, exe, judged
from tests.wrapping import runtime_in, staged_over, workspace

#: Names as they lie in installed games; a folder ends with "/".
SIGNS = (
    *("EasyAntiCheat/", "EasyAntiCheat_x64.dll", "easyanticheat_x64.so", "EasyAntiCheat_EOS_Setup.exe"),
    *("start_protected_game.exe", "EACLauncher.exe", "Game_EAC.exe", "Game_EAC_EOS.exe"),
    *("BattlEye/", "BEClient_x64.dll", "BEService.exe", "BEService_x64.exe", "Game_BE.exe"),
    *("arma3battleye.exe",),
    *("BEDaisy.sys", "vgk.sys", "vgc.exe", "VALORANT.exe", "FACEIT.sys", "faceitservice.exe", "FACEIT AC/"),
    *("EQU8/", "equ8_conf.json", "GameGuard/", "GameGuard.des", "GameMon.des", "npggNT.des", "npggNT64.des"),
    *("XIGNCODE/", "x3.xem", "xhunter1.sys", "AntiCheatExpert/", "ACE-BASE.sys", "TP3Helper.exe"),
    *("EAAntiCheat.GameServiceLauncher.exe", "EAAntiCheat.Installer.exe", "Randgrid.sys", "PnkBstrA.exe"),
    *("Punkbuster/", "BlackCipher/", "BlackCall64.aes", "HShield/", "mhyprot2.sys", "NeacClient.exe"),
    *("ucldr_battlegrounds_gl.exe", "anybrainSDK.dll", "FredaikisAntiCheat/"),
)
#: Where the game's program lies, and where the sign, below the game's top folder.
LAYOUTS = {
    "beside": ("", ""),
    "beside-an-inner-program": ("Game/Binaries/Win64", "Game/Binaries/Win64"),
    "one-level-up": ("Client", ""),
    "above-bin": ("bin", ""),
    "above-bin-x64": ("bin/x64", ""),
    "unreal-above": ("Game/Binaries/Win64", ""),
    "unreal-project": ("Game/Binaries/Win64", "Game"),
    "unreal-below": ("", "Game/Binaries/Win64"),
}
#: What no sign may mean: names of ordinary CUDA programs and what lies beside them.
HARMLESS = (
    *("python.exe", "python311.dll", "blender.exe", "cudart64_12.dll", "nvcuda.dll", "torch/"),
    *("bin/", "lib/", "models/", "valorant_tracker.py", "faceit/", "facefusion/", "vgcore.dll", "vgg16.pt"),
    *("betaflight.exe", "service.exe", "guard.py", "equalizer.dll", "x3.bin", "anti_cheat_study/"),
    *("ace.dll", "acestream.exe", "shield.exe", "ring0.sys", "EULA.txt", "launcher.exe", "start_game.exe"),
)
PLATFORMS = {"posix": PurePosixPath("/srv/library"), "windows": PureWindowsPath("D:\\Library")}


def listing(top: PurePath, *files: str) -> Callable[[PurePath], list[str]]:
    """Return what lists a file system that holds these files below ``top``."""
    folders: dict[PurePath, set[str]] = {}
    for file in files:
        path = top / file.rstrip("/")
        for inner, outer in itertools.pairwise((path, *path.parents)):
            folders.setdefault(outer, set()).add(inner.name)
    return lambda folder: sorted(folders.get(folder, ()))


def lay_out(top: Path, layout: str, sign: str, *, name: str = "game.exe") -> Path:
    """Make a game on disk and return its program."""
    where, found = LAYOUTS[layout]
    program = top / where / name
    program.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32" or name.endswith(".exe"):
        program.write_bytes(exe())
    else:
        shutil.copy(sys.executable, program)
    put(top / found, sign)
    return program


def put(folder: Path, sign: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / sign
    if sign.endswith("/"):
        path.mkdir(exist_ok=True)
    elif not path.exists():
        path.write_bytes(b"")


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_sign_is_seen_in_every_layout(layout: str, platform: str) -> None:
    where, found = LAYOUTS[layout]
    top = PLATFORMS[platform] / "Some Game"
    for sign in SIGNS:
        for spelled in (sign, sign.upper(), sign.lower()):
            names = listing(top, f"{where}/game.exe".lstrip("/"), f"{found}/{spelled}".lstrip("/"))
            seen = guard_near([top / where], names)
            assert seen is not None, spelled
            assert (seen.name, seen.folder) == (spelled.rstrip("/"), top / found)
            assert seen.name in seen.text


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_ordinary_programs_have_no_guard(layout: str, platform: str) -> None:
    where, found = LAYOUTS[layout]
    top = PLATFORMS[platform] / "Some Tool"
    names = listing(top, f"{where}/tool.exe".lstrip("/"), *(f"{found}/{x}".lstrip("/") for x in HARMLESS))
    assert guard_near([top / where], names) is None


@pytest.mark.parametrize(
    ("program", "sign"),
    [
        ("C:\\Program Files (x86)\\Blender", "C:\\Program Files (x86)\\EasyAntiCheat"),
        ("C:\\Program Files\\Tool\\bin", "C:\\Program Files\\EasyAntiCheat"),
        ("C:\\Program Files (x86)\\Common Files\\Tool", "C:\\Program Files (x86)\\Common Files\\BattlEye"),
        ("D:\\SteamLibrary\\steamapps\\common\\Tool", "D:\\SteamLibrary\\steamapps\\common\\EasyAntiCheat"),
        ("C:\\Users\\me\\AppData\\Roaming\\Tool", "C:\\Users\\me\\AppData\\Roaming\\EasyAntiCheat"),
        ("C:\\Users\\me\\tool", "C:\\Users\\me\\EasyAntiCheat"),
        ("C:\\Users\\me\\Downloads\\tool", "C:\\Users\\me\\Downloads\\EasyAntiCheat_Setup.exe"),
        ("D:\\tool", "D:\\EasyAntiCheat"),
        ("C:\\Windows\\System32", "C:\\Windows\\System32\\GameMon.des"),
    ],
)
def test_what_is_installed_for_all_games_guards_no_other_program(program: str, sign: str) -> None:
    path = PureWindowsPath(sign)
    names = listing(path.parent, path.name)
    assert guard_near([PureWindowsPath(program)], names) is None


def make_link(link: Path, target: Path) -> None:
    try:
        link.symlink_to(target)
    except OSError:
        pytest.skip("this user may make no links here")
    if not link.is_symlink():
        pytest.skip("Wine 8 reports success and makes no link")


def test_a_link_to_a_guarded_program_is_as_guarded(tmp_path: Path) -> None:
    program = lay_out(tmp_path / "game", "unreal-above", "EasyAntiCheat/")
    link = tmp_path / "elsewhere" / "deep" / "tool.exe"
    link.parent.mkdir(parents=True)
    make_link(link, program)
    assert guard_of(link) is not None
    assert guard_of(tmp_path / "elsewhere" / "deep" / ".." / ".." / "game" / "x.exe") is not None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("place", ["Launcher", "Launcher/bin", "Launcher/Binaries/Win64", "../Elsewhere"])
def test_a_link_beside_the_program_hides_no_guard(tmp_path: Path, layout: str, place: str) -> None:
    program = lay_out(tmp_path / "library" / "Some Game", layout, "EasyAntiCheat/")
    link = program.parent / place / "tool.exe"
    link.parent.mkdir(parents=True)
    make_link(link, program)
    assert guard_of(link) is not None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_folder_that_is_looked_at_first_hides_a_guard(layout: str) -> None:
    where, found = LAYOUTS[layout]
    top = PurePosixPath("/srv/library/Some Game")
    start = top / where
    names = listing(top, f"{where}/game.exe".lstrip("/"), f"{found}/EasyAntiCheat".lstrip("/"))
    for first in (start, start / "Launcher", start / "Launcher/bin", *start.parents, PurePosixPath("/x/y")):
        assert guard_near([first, start], names) is not None, first


def test_a_link_that_lies_in_a_guarded_folder_is_as_guarded(tmp_path: Path) -> None:
    real = tmp_path / "real" / "deep" / "tool.exe"
    real.parent.mkdir(parents=True)
    real.write_bytes(b"")
    link = tmp_path / "game" / "tool.exe"
    put(link.parent, "BEService.exe")
    make_link(link, real)
    assert guard_of(real) is None
    assert guard_of(link) is not None


@pytest.mark.parametrize("path", ["/", "x" * 5000, "/nowhere/at/all/game", "a\0b/c"])
def test_a_path_that_cannot_be_listed_has_no_guard(path: str) -> None:
    assert guard_of(Path(path)) is None


def test_a_large_folder_is_looked_through_quickly() -> None:
    top = PurePosixPath("/srv/tool")
    names = [f"module_{n:06}.{ending}" for n in range(20_000) for ending in ("so",)]
    with in_proportion():
        assert guard_near([top], lambda folder: names if folder == top else []) is None


def test_every_guard_of_the_table_is_shown_by_a_sign_here() -> None:
    found = [guard_near([PurePosixPath("/x/y")], listing(PurePosixPath("/x/y"), sign)) for sign in SIGNS]
    shown = {sign.guard for sign in found if sign is not None}
    assert shown == {guard.name for guard in guards()}


def stack_in(tmp_path: Path, kind: StackKind = StackKind.TRANSLATION) -> Staged:
    names = ("zluda.exe", "nvcuda.dll", "zluda_redirect.dll", "libcuda.so.1")
    return staged_over(runtime_in(tmp_path / "runtime", *names), kind=kind)


def by_wrap(tmp_path: Path, program: Path, *, via: str, platform: str = "", look: bool = True) -> None:
    ws = workspace(tmp_path / "ws", **({"platform": platform} if platform else {}))
    stack = stack_in(tmp_path)
    plan_run(
        ws,
        WrapRequest(exe=str(program), via=via),
        staged=lambda _ws, _stack: stack,
        placer=BesidePlacer(ws),
        inspect=partial(inspect_program, ws) if look else None,
    )


def by_shim(tmp_path: Path, program: Path) -> None:
    ws = workspace(tmp_path / "ws")
    stack = stack_in(tmp_path)
    request = WrapRequest(exe=str(program))
    plan_run(ws, request, staged=lambda _ws, _stack: stack, placer=None, inspect=partial(warn_about, ws))


def by_placement(tmp_path: Path, program: Path) -> None:
    stack = stack_in(tmp_path)
    with BesidePlacer(workspace(tmp_path / "ws"))(stack, program):
        pass


def by_placement_plan(tmp_path: Path, program: Path) -> None:
    explain(program.parent, [], stack="s", digest="d" * 64, program=program).check()


def by_preflight(tmp_path: Path, program: Path) -> None:
    found = examined(program, tmp_path)
    assert found.kinds[0].kind.id == "anti-cheat"
    verdict = judged(program, tmp_path)
    assert verdict.verdict is Verdict.REFUSES
    raise TargetError("anti-cheat", verdict.reasons[0].text)


WAYS: Mapping[str, Callable[[Path, Path], None]] = {
    "auto": partial(by_wrap, via="auto"),
    "env": partial(by_wrap, via=Via.ENV),
    "env-unread": partial(by_wrap, via=Via.ENV, look=False),
    "launcher": partial(by_wrap, via=Via.LAUNCHER, platform="win32"),
    "beside": partial(by_wrap, via=Via.BESIDE),
    "shim": by_shim,
    "placement": by_placement,
    "placement-plan": by_placement_plan,
    "preflight": by_preflight,
}
#: One name of each kind, and those that one of the two earlier tables lacked.
DRIFTED = (
    *("EasyAntiCheat/", "start_protected_game.exe", "BEService.exe", "FACEIT.sys"),
    *("EQU8/", "vgc.exe", "npggNT.des", "x3.xem"),
)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
def test_no_way_in_leads_into_a_guarded_game(tmp_path: Path, way: str, layout: str) -> None:
    for number, sign in enumerate(DRIFTED):
        place = tmp_path / str(number)
        program = lay_out(place / "library" / "Some Game", layout, sign)
        with pytest.raises(TargetError) as caught:
            WAYS[way](place, program)
        assert caught.value.reference == "anti-cheat", sign
        assert sign.rstrip("/") in str(caught.value)
        assert not list(program.parent.glob("nvcuda*"))


@pytest.mark.parametrize("way", sorted({*WAYS} - {"preflight", "launcher", "placement-plan"}))
def test_the_same_ways_lead_into_an_ordinary_program(tmp_path: Path, way: str) -> None:
    program = lay_out(tmp_path / "library" / "Some Tool", "unreal-above", "readme.txt")
    refused = None
    try:
        WAYS[way](tmp_path, program)
    except WorkspaceError as error:  # this small stack has nothing for some of the ways
        refused = error.reference
    assert refused in {None, "no-way-in"}


@pytest.mark.parametrize("launcher", ["start_protected_game.exe", "Game_BE.exe", "Game_EAC_EOS.exe"])
@pytest.mark.parametrize("way", WAYS)
def test_a_guards_own_launcher_is_not_started(tmp_path: Path, way: str, launcher: str) -> None:
    program = lay_out(tmp_path / "library" / "Some Game", "beside", launcher, name=launcher)
    with pytest.raises(TargetError) as caught:
        WAYS[way](tmp_path, program)
    assert caught.value.reference == "anti-cheat"


@pytest.mark.parametrize("word", ["{game}", "game.exe"])
def test_a_program_that_starts_a_guarded_game_is_refused(tmp_path: Path, word: str) -> None:
    game = lay_out(tmp_path / "library" / "Some Game", "unreal-above", "EasyAntiCheat/")
    ws = workspace(tmp_path / "ws")
    stack = stack_in(tmp_path)
    request = WrapRequest(
        exe=sys.executable, cwd=str(game.parent), program_args=("-x", word.format(game=game))
    )
    with pytest.raises(TargetError) as caught:
        plan_run(ws, request, staged=lambda _ws, _stack: stack, placer=None, inspect=None)
    assert caught.value.reference == "anti-cheat"


def test_a_control_stack_adds_nothing_and_so_is_not_refused(tmp_path: Path) -> None:
    program = lay_out(tmp_path / "library" / "Some Game", "unreal-above", "EasyAntiCheat/")
    ws = workspace(tmp_path / "ws")
    stack = stack_in(tmp_path, StackKind.CONTROL)
    stack = replace(stack, runtime=replace(stack.runtime, path=None, files=()))
    look = partial(inspect_program, ws)
    plan = plan_run(ws, WrapRequest(exe=str(program)), staged=lambda _w, _s: stack, placer=None, inspect=look)
    assert plan.shown.via is Via.ENV


def test_a_refused_game_was_not_started(tmp_path: Path) -> None:
    program = lay_out(tmp_path / "library" / "Some Game", "unreal-above", "EasyAntiCheat/", name="game")
    ws = workspace(tmp_path / "ws")
    stack = stack_in(tmp_path, StackKind.REFERENCE)
    mark = tmp_path / "started"
    with pytest.raises(TargetError):
        wrap(
            ws,
            exe=str(program),
            program_args=("-c", f"open({str(mark)!r}, 'w')"),
            staged=lambda _ws, _stack: stack,
        )
    assert not mark.exists()


@pytest.mark.proof
@pytest.mark.posix_only
@pytest.mark.parametrize("task", ["wrap", "preflight", "shim"])
def test_the_command_line_refuses_a_guarded_game(ready: Checkout, tmp_path: Path, task: str) -> None:
    game = lay_out(tmp_path / "library" / "Some Game", "unreal-above", "EasyAntiCheat/", name="game")
    code = {"wrap": 125, "preflight": 3, "shim": 30}[task]
    body = ready.json(task, f"--exe={game}", code=code)
    shown = body["reasons"][0]["text"] if task == "preflight" else body["error"]["message"]
    assert "EasyAntiCheat" in shown
