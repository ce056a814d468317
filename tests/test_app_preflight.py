"""``preflight`` as scripts and people read it, and what ``wrap`` does with it."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app.context import ROOT, Staged, Workspace, workspace_from_environ
from scripts.app.preflight import PreflightResult, inspect_program, preflight
from scripts.cli.console import Out
from scripts.cli.views.preflight import show_preflight as show
from scripts.errors import TargetError, UsageError, WorkspaceError
from scripts.launch.injection import ViaFacts
from scripts.lock.reader import read_lock
from scripts.model import Gpu, HipRoot, Host, Level, StackKind
from scripts.preflight.coverage import Verdict
from tests.checkout import Checkout
from tests.elf_files import elf
from tests.fatbins import container, ptx, sass
from tests.preflight_programs import dll, exe, ship
from tests.wrapping import runtime_in

pytestmark = pytest.mark.proof

STACK = "zluda-v6p69-sdk64"
DATA = Path(__file__).parent / "data" / "preflight"
#: What an RX 9060 XT with HIP SDK 6.4 shows: no MIOpen.
HOST = Host(
    os="windows",
    machine="x86_64",
    gpus=(Gpu(index=0, name="AMD Radeon RX 9060 XT", vendor="amd", gfx="gfx1200"),),
    selected=0,
    hip_roots=(
        HipRoot(
            path=Path("C:/Program Files/AMD/ROCm/6.4"),
            version="6.4.2",
            source="HIP_PATH_64",
            libraries=("amdhip64", "amdhip64_6", "hipblaslt", "rocblas", "rocsparse"),
        ),
    ),
)


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr("scripts.app.preflight.host_of", lambda _ws: HOST)
    monkeypatch.setattr(
        "scripts.app.evidence_lookup.worth_here", lambda _ws: lambda _stack, _gfx: Level.LOADABLE
    )
    ws = workspace_from_environ(dict(os.environ), root=ROOT)
    return replace(ws, stage=tmp_path / "stage", state_root=tmp_path / "state", cache_root=tmp_path / "store")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    imports = {
        "cudart64_12.dll": ["cudaMalloc", "cudaMallocAsync", "cudaLaunchKernel"],
        "cublas64_12.dll": ["cublasSgemm_v2", "cublasDgemm_v2"],
    }
    return ship(
        tmp_path / "Ein Programm ü",
        {
            "app.exe": exe(imports, sections={".nv_fatb": container(ptx(), sass()) + container(sass(90))}),
            "cudart64_12.dll": dll(sections={".data": b"nvcuda.dll\0"}),
            "plugins/vision.dll": dll({"cudnn64_9.dll": ["cudnnCreate", "cudnnPoolingForward"]}),
        },
    )


def shown(result: PreflightResult) -> str:
    stdout, stderr = io.StringIO(), io.StringIO()
    show(result, Out(stdout=stdout, stderr=stderr))
    lines = [*stdout.getvalue().splitlines(), *stderr.getvalue().splitlines()]
    return "\n".join(line.rstrip() for line in lines).replace(str(result.program), "PROGRAM")


def test_a_person_reads_the_verdict_first(ws: Workspace, program: Path) -> None:
    text = shown(preflight(ws, exe=str(program), stack=STACK))
    text = text.replace("C:\\Program Files\\AMD\\ROCm\\6.4", "C:/Program Files/AMD/ROCm/6.4")
    assert text + "\n" == (DATA / "shown.txt").read_text(encoding="utf-8")


def test_a_person_who_asks_for_details_gets_them_all(ws: Workspace, program: Path) -> None:
    asked = {"details": True, "kernels": True, "all_stacks": True}
    text = shown(preflight(ws, exe=str(program), stack=STACK, **asked))
    text = text.replace("C:\\Program Files\\AMD\\ROCm\\6.4", "C:/Program Files/AMD/ROCm/6.4")
    assert text + "\n" == (DATA / "details.txt").read_text(encoding="utf-8")


def test_a_script_reads_every_need_and_why(ws: Workspace, program: Path) -> None:
    result = preflight(ws, exe=str(program), stack=STACK)
    body = json.loads(json.dumps(result.to_json()))
    assert (body["machine"], body["verdict"], body["stack"], body["gfx"]) == (
        "x86_64",
        "partial",
        STACK,
        "gfx1200",
    )
    by_library = {need["library"]: need for need in body["needs"]}
    blas = by_library["cublas12"]
    assert {k: blas[k] for k in ("file", "how", "from", "functions", "provided_by", "missing")} == {
        "file": "cublas64_12.dll",
        "how": "import",
        "from": ["app.exe"],
        "functions": ["cublasSgemm_v2", "cublasDgemm_v2"],
        "provided_by": "cublas64_12.dll",
        "missing": ["cublasDgemm_v2"],
    }
    assert (blas["aborts"], blas["not_exported"]) == ([], [])
    assert by_library["nvcuda"]["from"] == ["app.exe", "cudart64_12.dll"]
    assert by_library["cudnn9"]["backend_missing"] == ["miopen"]
    code = body["device_code"][0]
    assert Path(code["file"]).name == "app.exe"
    assert code["ptx"] == [{"sm": 86, "target": "sm_86", "isa": "8.2", "count": 1}]
    assert code["sass"] == [
        {"sm": 86, "target": "sm_86", "count": 1},
        {"sm": 90, "target": "sm_90", "count": 1},
    ]
    assert (code["section"], code["relocatable"]) == (".nv_fatb", False)
    first = body["reasons"][0]
    assert (first["effect"], first["file"], first["count"]) == ("partial", "app.exe", 1)
    assert body["rests_on"] == "static reading"


def test_a_stack_with_what_is_missing_is_named(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = HipRoot(
        path=Path("C:/Program Files/AMD/ROCm/7.2"),
        version="7.2.0",
        source="HIP_PATH_72",
        libraries=("amdhip64", "amdhip64_7", "hipblaslt", "rocblas", "rocsparse"),
    )
    host = replace(HOST, hip_roots=(*HOST.hip_roots, newer))
    monkeypatch.setattr("scripts.app.preflight.host_of", lambda _ws: host)
    program = ship(tmp_path / "p", {"app.exe": exe({"nvcuda.dll": ["cuInit", "cuStreamQuery"]})})
    better = preflight(ws, exe=str(program), stack=STACK).to_json()["better_stacks"]
    assert isinstance(better, list)
    assert ("zluda-v7p10-sdk72", "runs") in [(b["stack"], b["verdict"]) for b in better]
    assert ("zluda-v7p11-sdk72", "runs") in [(b["stack"], b["verdict"]) for b in better]
    assert not any(b["stack"].startswith("zluda-v6-") for b in better), (
        "a stack that was not read is not better"
    )


@pytest.mark.parametrize("imports", [{}, {"nvcuda.dll": ["cuInit"]}], ids=["beside it", "its own"])
def test_a_program_in_which_nothing_of_cuda_is_says_so(
    ws: Workspace, tmp_path: Path, imports: dict[str, list[str]]
) -> None:
    files = {"app.exe": exe(imports), "plugin.dll": dll({"nvcuda.dll": ["cuInit"]})}
    result = preflight(ws, exe=str(ship(tmp_path / "p", files)), stack=STACK)
    assert result.judged.verdict is Verdict.RUNS
    first = shown(result).splitlines()[0]
    assert ("nothing of CUDA was found in it" in first) is not bool(imports)


def test_native_alternatives_are_named_where_they_exist(ws: Workspace, tmp_path: Path) -> None:
    program = ship(
        tmp_path / "p",
        {"app.exe": exe({"ggml-cuda.dll": ["x"]}), "ggml-cuda.dll": dll({"cufft64_11.dll": ["cufftPlan1d"]})},
    )
    assert [a.id for a in preflight(ws, exe=str(program), stack=STACK).alternatives] == ["llama-hip"]


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
@pytest.mark.parametrize(
    ("imports", "code"),
    [
        ({"nvoptix.dll": ["x"]}, 3),
        ({"cufft64_11.dll": ["cufftPlan1d"]}, 0),
        ({}, 0),
        ({"nvcuda.dll": ["cuInit"]}, 0),
    ],
    ids=["refuses", "partial", "unknown", "runs"],
)
def test_only_a_refusal_is_negative(
    ws: Workspace, tmp_path: Path, imports: dict[str, list[str]], code: int, strict: bool
) -> None:
    program = ship(tmp_path / "p", {"app.exe": exe(imports)})
    assert preflight(ws, exe=str(program), stack=STACK, strict=strict).exit_code == code


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({}, "exe-needed"),
        ({"exe": "app.exe"}, "nothing-active"),
        ({"exe": "app.exe", "stack": "nonsense"}, "unknown-stack"),
    ],
    ids=["no-program", "no-stack", "unknown-stack"],
)
def test_what_cannot_be_asked_is_refused(ws: Workspace, options: dict[str, str], reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        preflight(ws, **options)
    assert caught.value.reference == reference


def test_a_program_that_is_not_there_is_said(ws: Workspace, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="gone"):
        preflight(ws, exe=str(tmp_path / "gone.exe"), stack=STACK)


def test_nothing_is_written_beside_the_program(ws: Workspace, program: Path) -> None:
    before = sorted(p for p in program.parent.rglob("*"))
    preflight(ws, exe=str(program), stack=STACK)
    assert sorted(p for p in program.parent.rglob("*")) == before
    assert list((ws.state_root / "preflight-v1").iterdir())


def staged(tmp_path: Path) -> Staged:
    lock = read_lock(ROOT / "pins.lock")
    members = lock.artifacts["zluda-windows-v6-preview.69"].members
    runtime = runtime_in(tmp_path / "runtime", "zluda.exe", *(m.name for m in members if m.provides))
    files = tuple(
        replace(f, provides=m.provides, needs=m.needs)
        for f, m in zip(runtime.files[1:], (m for m in members if m.provides), strict=True)
    )
    return Staged(
        lock=lock,
        stack=lock.stacks[STACK],
        runtime=replace(runtime, files=(runtime.files[0], *files)),
        host=HOST,
    )


def test_wrap_is_told_how_the_program_loads_and_what_it_will_miss(
    ws: Workspace, program: Path, tmp_path: Path
) -> None:
    facts = ViaFacts(platform="win32", kind=StackKind.TRANSLATION, launcher=True)
    seen = inspect_program(ws, staged(tmp_path), program, facts)
    assert seen.facts == replace(
        facts, at_start=False, bare_load=False, nvrtc=False, system_only=("cudart64_12.dll",)
    )
    assert seen.refusal == ""
    assert seen.notes[0].startswith("preflight: 1 of 2 modules in app.exe")
    assert seen.notes[-1] == "preflight: and 2 more; `invoke preflight` lists them"


def test_wrap_is_told_a_refusal_in_one_sentence(ws: Workspace, tmp_path: Path) -> None:
    program = ship(tmp_path / "p", {"app.exe": exe({"nvoptix.dll": ["x"]})})
    facts = ViaFacts(platform="win32", kind=StackKind.TRANSLATION)
    seen = inspect_program(ws, staged(tmp_path), program, facts)
    assert seen.refusal.startswith("preflight: OptiX has no provider")


@pytest.mark.parametrize("kind", [StackKind.TRANSLATION, StackKind.CONTROL], ids=str)
def test_a_guarded_game_is_never_given_foreign_libraries(
    ws: Workspace, tmp_path: Path, kind: StackKind
) -> None:
    program = ship(tmp_path / "p", {"game.exe": exe(), "EasyAntiCheat/settings.json": b"{}"})
    ready = staged(tmp_path)
    ready = replace(ready, stack=replace(ready.stack, kind=kind))
    facts = ViaFacts(platform="win32", kind=kind, launcher=True)
    if kind is StackKind.CONTROL:
        inspect_program(ws, ready, program, facts)
        return
    with pytest.raises(TargetError) as caught:
        inspect_program(ws, ready, program, facts)
    assert caught.value.reference == "anti-cheat"


def test_wrap_says_nothing_about_programs_without_cuda(ws: Workspace, tmp_path: Path) -> None:
    program = ship(tmp_path / "p", {"app.exe": exe()})
    facts = ViaFacts(platform="win32", kind=StackKind.TRANSLATION)
    seen = inspect_program(ws, staged(tmp_path), program, facts)
    assert (seen.facts, seen.notes, seen.refusal) == (facts, (), "")


def test_the_command_line_reads_a_program_without_a_stack_being_staged(
    checkout: Checkout, tmp_path: Path
) -> None:
    app = elf(needed=["libcublas.so.12"], undefined=["cublasSgemm_v2"], program=True)
    program = ship(tmp_path / "p", {"app": app})
    program.chmod(0o755)
    body = checkout.json("preflight", f"--exe={program}", "--stack=zluda-v6-linux")
    assert body["verdict"] in {"unknown", "refuses"}
    assert [need["library"] for need in body["needs"]] == ["cublas12"]
    checkout.json("preflight", code=2)


@pytest.mark.posix_only
def test_wrap_warns_and_strict_stops(ready: Checkout, tmp_path: Path) -> None:
    app = elf(needed=["libnvoptix.so.1"], program=True)
    program = ship(tmp_path / "p", {"app": app})
    program.chmod(0o755)
    body = ready.json("wrap", f"--exe={program}", "--explain")
    assert any("OptiX has no provider" in note for note in body["notes"])
    refused = ready.json("wrap", f"--exe={program}", "--explain", "--strict", code=126)
    assert refused["error"]["reference"] == "preflight-refused"


@pytest.mark.posix_only
def test_wrap_places_where_the_programs_own_copy_would_win(ready: Checkout, tmp_path: Path) -> None:
    app = elf(needed=["libcublas.so.12"], rpath="$ORIGIN", program=True)
    program = ship(tmp_path / "p", {"app": app, "libcublas.so.12": elf()})
    program.chmod(0o755)
    shown_wrap = ready.run("wrap", f"--exe={program}", "--explain", "--json")
    body = json.loads(shown_wrap.stdout)
    assert body.get("via") == "beside" or body["error"]["reference"] == "via-beside-unavailable"
