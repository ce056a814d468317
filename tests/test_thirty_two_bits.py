"""32-bit programs for Windows: served by ZLUDA v7's half for them, or refused in one plain sentence."""

from __future__ import annotations

import struct
from pathlib import Path, PureWindowsPath

import pytest
from msgspec.structs import replace

from scripts.app import shim as shims
from scripts.app.known_facts import stack_facts
from scripts.app.wrap import wrap
from scripts.app.wrap_result import Inspected
from scripts.cli.views.wrap import show_shim
from scripts.errors import LaunchError, StagedFileError, TargetError
from scripts.launch.injection import no_launcher, plan_launcher
from scripts.launch.profiles import AppFacts, matching
from scripts.lock.reader import read_lock
from scripts.model import Host, Runtime, RuntimeFile, Stack, StackKind
from scripts.preflight.coverage import Verdict
from tests.pe_files import pe
from tests.preflight_programs import judged, ship
from tests.test_pins_tasks import shown
from tests.wrapping import runtime_in, staged_over, workspace

LOCK = read_lock(Path(__file__).resolve().parents[1] / "pins.lock")
HOST = Host(os="windows", machine="AMD64")
V7 = [stack for stack in LOCK.stacks.values() if any("windows-v7" in part for part in stack.parts)]
OLDER = [stack for stack in LOCK.stacks.values() if any("windows-v6" in part for part in stack.parts)]
OLD = 0x014C
HALF = ("32/nvcuda.dll", "32/nvapi.dll", "32/zluda.exe", "32/zluda_redirect.dll", "zluda64_server.exe")
GAME = PureWindowsPath(r"C:\Games\old game\game.exe")


def head(machine: int, magic: int) -> bytes:
    start = b"MZ" + bytes(58) + struct.pack("<I", 64)
    return start + b"PE\0\0" + struct.pack("<H", machine) + bytes(18) + struct.pack("<H", magic) + bytes(400)


def locked(stack_id: str) -> Runtime:
    """Return a runtime with the files that the lock names for a stack's layer."""
    files = tuple(
        RuntimeFile(name=member.name, sha256="0" * 64, size=1, provides=member.provides, needs=member.needs)
        for part in LOCK.stacks[stack_id].parts
        for member in LOCK.artifacts[part].members
    )
    return Runtime(stack=stack_id, digest="d", path=Path("C:/store/runtime"), files=files)


@pytest.mark.parametrize("stack", V7, ids=lambda stack: stack.id)
def test_v7_starts_a_32_bit_program_with_its_32_bit_half(stack: Stack) -> None:
    runtime = locked(stack.id)
    plan = plan_launcher(
        runtime,
        folder=PureWindowsPath(r"C:\store\runtime"),
        program=GAME,
        machine="x86",
        args=("-windowed",),
        present=lambda _name: True,
    )
    assert plan.launcher == PureWindowsPath(r"C:\store\runtime\32\zluda.exe")
    assert plan.line.startswith(r'"C:\store\runtime\32\zluda.exe" -- ')


@pytest.mark.parametrize("stack", OLDER, ids=lambda stack: stack.id)
def test_v6_says_in_one_sentence_that_it_has_none(stack: Stack) -> None:
    runtime = locked(stack.id)
    with pytest.raises(LaunchError) as caught:
        plan_launcher(
            runtime,
            folder=PureWindowsPath(r"C:\store\runtime"),
            program=GAME,
            machine="x86",
            args=(),
            present=lambda _name: True,
        )
    assert caught.value.reference == "program-32-bit"
    assert "game.exe is a 32-bit program" in caught.value.message
    assert "ZLUDA v7" in caught.value.hint


@pytest.mark.parametrize("gone", [name for name in HALF if name != "32/zluda.exe"])
def test_a_half_with_a_file_missing_is_not_started(gone: str) -> None:
    with pytest.raises(StagedFileError) as caught:
        plan_launcher(
            locked("zluda-v7p11-sdk72"),
            folder=PureWindowsPath(r"C:\store\runtime"),
            program=GAME,
            machine="x86",
            args=(),
            present=lambda name: name != gone,
        )
    assert caught.value.context == (gone,)


def test_the_64_bit_server_is_not_missed_by_64_bit_programs() -> None:
    plan_launcher(
        locked("zluda-v7p11-sdk72"),
        folder=PureWindowsPath(r"C:\store\runtime"),
        program=GAME,
        machine="x86_64",
        args=(),
        present=lambda name: name not in HALF,
    )


@pytest.mark.parametrize(
    ("names", "kind", "refused"),
    [
        (("nvcuda.dll", "zluda.exe"), StackKind.TRANSLATION, True),
        (("nvcuda.dll",), StackKind.REFERENCE, True),
        (("nvcuda.dll", "zluda.exe", *HALF), StackKind.TRANSLATION, False),
        ((), StackKind.CONTROL, False),
    ],
    ids=["v6", "reference", "v7", "control"],
)
def test_wrap_says_it_before_it_looks_for_another_way_in(
    tmp_path: Path, names: tuple[str, ...], kind: StackKind, refused: bool
) -> None:
    program = tmp_path / "game.exe"
    program.write_bytes(head(OLD, 0x10B))
    staged = staged_over(runtime_in(tmp_path / "runtime", *names), kind=kind)
    ws = workspace(tmp_path, platform="win32")
    if refused:
        with pytest.raises(LaunchError) as caught:
            wrap(ws, exe=str(program), explain=True, staged=lambda _ws, _stack: staged)
        assert caught.value.reference == "program-32-bit"
    else:
        result = wrap(ws, exe=str(program), explain=True, staged=lambda _ws, _stack: staged)
        assert ("32" in PureWindowsPath(result.line.split('"')[1]).parts) is (kind is StackKind.TRANSLATION)


def test_preflight_names_what_serves_a_32_bit_program(tmp_path: Path) -> None:
    program = ship(
        tmp_path / "p", {"game.exe": pe(imports={"nvcuda.dll": ["cuInit"]}, dll=False, machine=OLD)}
    )
    older = stack_facts(LOCK, LOCK.stacks["zluda-v6p69-sdk64"], HOST, None)
    refusal = judged(program, tmp_path, older).reasons[0]
    assert (refusal.effect, refusal.text) == (
        Verdict.REFUSES,
        "game.exe is a 32-bit program, and zluda-v6p69-sdk64 has no half for those",
    )
    assert "ZLUDA v7" in refusal.then
    launcher = no_launcher(locked("zluda-v6p69-sdk64"), GAME, "x86")
    assert (launcher.message, launcher.hint) == (refusal.text, refusal.then)
    newer = judged(program, tmp_path, stack_facts(LOCK, LOCK.stacks["zluda-v7p11-sdk72"], HOST, None))
    assert newer.verdict is Verdict.PARTIAL
    assert "the driver and NVAPI alone" in "\n".join(reason.text for reason in newer.reasons)


@pytest.mark.parametrize("file", ["PhysXDevice.dll", "physxgpu.dll", "PhysX3Gpu_x86.dll"])
def test_a_game_with_physx_is_told_what_it_needs(file: str) -> None:
    facts = AppFacts(name="game.exe", files=(file,), stack="zluda-v7p11-sdk72")
    [profile] = matching(facts)
    assert profile.id == "physx"
    assert "PhysX System Software" in profile.notes[0]
    assert "invoke shim" in profile.notes[0]
    [older] = matching(replace(facts, stack="zluda-v6-sdk64"))
    assert "ZLUDA v7" in older.notes[0]


def made_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Path) -> shims.ShimResult:
    """Write a shim for a 32-bit game, as on Windows."""
    staged = staged_over(
        runtime_in(tmp_path / "runtime", "nvcuda.dll", "zluda.exe", *HALF), kind=StackKind.TRANSLATION
    )
    monkeypatch.setattr(shims, "staged_runtime", lambda _ws, _stack: staged)
    monkeypatch.setattr(shims, "warn_about", lambda _ws, _staged, _program, facts: Inspected(facts=facts))
    return shims.shim(workspace(tmp_path, platform="win32", state_root=tmp_path / "state"), exe=str(program))


def test_the_shim_prints_steams_launch_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not str(tmp_path).isascii():
        pytest.skip("a .cmd file carries plain letters alone, and these tests lie in a folder with others")
    program = tmp_path / "game.exe"
    program.write_bytes(head(OLD, 0x10B))
    result = made_shim(tmp_path, monkeypatch, program)
    assert result.steam.endswith('zluda.exe" -- %command%')
    assert "32" in PureWindowsPath(result.steam.split('"')[1]).parts
    assert result.steam_script == f'"{result.written}" %command%'
    text = shown(show_shim, result)
    assert result.steam_script in text.replace("\n", "")
    assert result.to_json()["steam"] == result.steam


def test_a_guarded_game_gets_no_launch_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "game" / "game.exe"
    (tmp_path / "game" / "EasyAntiCheat").mkdir(parents=True)
    program.write_bytes(head(OLD, 0x10B))
    with pytest.raises(TargetError) as caught:
        made_shim(tmp_path, monkeypatch, program)
    assert caught.value.reference == "anti-cheat"
    assert not (tmp_path / "stage").exists()
