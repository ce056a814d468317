"""From probes to advice: what failed on a GPU is said about programs, and switches on what goes around it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scripts.app import probe as task
from scripts.app.context import ROOT, Staged, Workspace
from scripts.app.matrix import build_site
from scripts.app.preflight import preflight
from scripts.app.probe_findings import probe_warnings
from scripts.app.wrap import wrap
from scripts.app.wrap_result import Inspected, WrapResult
from scripts.errors import UsageError
from scripts.evidence.document import Document, Provenance
from scripts.evidence.evidence_io import Filed, write_document
from scripts.evidence.matrix import matrix as matrix_of
from scripts.evidence.store import open_store
from scripts.launch.profiles import TORCH_POLICY
from scripts.model import Gpu, Level, Outcome, StackKind
from scripts.probing.catalogue import probes
from scripts.probing.known_failures import failures_of
from tests.preflight_programs import examined, exe, ship
from tests.test_app_preflight import HOST, STACK, shown
from tests.test_validate import document
from tests.wrapping import runtime_in, staged_over, workspace
from tools.readme_table import status_table

FFT_WRONG = ("cufft-1d", Level.LOADABLE, Outcome.INCORRECT)
FFT_RIGHT = ("cufft-1d", Level.FUNCTIONAL, Outcome.PASS)
CONV_HANGS = ("torch-conv2d", Level.LOADABLE, Outcome.TIMEOUT)
MATMUL_WRONG = ("torch-matmul", Level.LOADABLE, Outcome.INCORRECT)
TORCH_FFT_REFUSED = ("torch-fft", Level.LOADABLE, Outcome.REFUSED)


def matrix(*results: tuple[str, Level | None, Outcome], day: int = 1, **more: str) -> Document:
    return document(*results, day=day, application="probes", **more)  # type: ignore[arg-type]  # by name


def failed(*documents: Document) -> list[str]:
    filed = [Filed(path=f"{n}.json", document=one) for n, one in enumerate(documents)]
    return [f"{f.probe} {f.document}" for f in failures_of(filed, stack="a", gfx="gfx1200")]


@pytest.mark.parametrize(
    ("documents", "names"),
    [
        pytest.param([matrix(FFT_WRONG)], ["cufft-1d 0.json"], id="wrong"),
        pytest.param([matrix(FFT_RIGHT)], [], id="right"),
        pytest.param([matrix(FFT_WRONG), matrix(FFT_RIGHT, day=2)], [], id="mended since"),
        pytest.param([matrix(FFT_RIGHT), matrix(FFT_WRONG, day=2)], ["cufft-1d 1.json"], id="worse since"),
        pytest.param([matrix(FFT_WRONG, gfx="gfx1100")], [], id="another architecture"),
        pytest.param([matrix(FFT_WRONG, stack="b")], [], id="another stack"),
        pytest.param([replace(matrix(FFT_WRONG), simulated=True)], [], id="simulated"),
        pytest.param([document(("nvml", None, Outcome.ERROR), day=1)], [], id="a check, no probe"),
        pytest.param([matrix(("cufft-1d", None, Outcome.UNAVAILABLE))], [], id="not there"),
    ],
)
def test_what_stands_as_failed_is_named_with_its_document(
    documents: list[Document], names: list[str]
) -> None:
    assert failed(*documents) == names


def test_the_readme_counts_what_passed_and_names_what_failed(tmp_path: Path) -> None:
    right = [(name, Level.FUNCTIONAL, Outcome.PASS) for name in ("memory-copy", "torch-matmul")]
    made = matrix(FFT_WRONG, *right)
    write_document(tmp_path, replace(made, not_exercised=("torch-fft",)), name="a.json")
    checked = document(("nvml", None, Outcome.ERROR), day=2)
    write_document(tmp_path, replace(checked, not_exercised=("nccl",)), name="b.json")
    with open_store() as store:
        store.ingest(tmp_path)
        table = status_table(matrix_of(store))
    assert "| **functional**: [2 probes](docs/probes.md) | **incorrect**: cufft-1d; " in table
    assert "not exercised: nccl, [1 probe](docs/probes.md) |" in table


def test_a_probe_that_is_asked_no_longer_is_counted_nowhere(tmp_path: Path) -> None:
    right = [(name, Level.FUNCTIONAL, Outcome.PASS) for name in ("memory-copy", "torch-sort-and-topk")]
    assert "torch-sort-and-topk" not in probes()
    ws = workspace(tmp_path)
    ws.evidence.mkdir()
    (tmp_path / "pins.lock").write_bytes((ROOT / "pins.lock").read_bytes())
    write_document(ws.evidence, matrix(*right), name="a.json")
    idle = ("torch-sort-and-topk",)
    write_document(ws.evidence, replace(matrix(right[0], day=2), not_exercised=idle), name="b.json")
    with open_store() as store:
        store.ingest(ws.evidence)
        table = status_table(matrix_of(store))
    assert "**functional**: [1 probe](docs/probes.md)" in table
    assert "sort-and-topk" not in table.replace("\\", "")
    content = build_site(ws, tmp_path / "site").content
    assert {cell.capability for cell in content.cells} == {"", "memory-copy"}
    assert ("probes", "torch-sort-and-topk") not in content.asked


def put(ws: Workspace, made: Document) -> Path:
    """File a document as a run here would."""
    folder = ws.stage / "reports" / f"{made.created:%Y%m%dT%H%M%SZ}-{made.subject.stack}"
    folder.mkdir(parents=True)
    return write_document(folder, made)


@pytest.fixture
def preflight_ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A machine with an RX 9060 XT."""
    monkeypatch.setattr("scripts.app.preflight.host_of", lambda _ws: HOST)
    places = {name: tmp_path / name for name in ("stage", "state_root", "cache_root")}
    return workspace(ROOT, **places)


def test_preflight_names_the_failed_probe_with_its_document(preflight_ws: Workspace, tmp_path: Path) -> None:
    program = ship(tmp_path / "p", {"app.exe": exe({"cufft64_11.dll": ["cufftPlan1d", "cufftExecC2C"]})})
    before = preflight(preflight_ws, exe=str(program), stack=STACK)
    assert (before.warnings, before.to_json()["failed_probes"]) == ((), [])
    path = put(preflight_ws, matrix(FFT_WRONG, MATMUL_WRONG, stack=STACK))
    result = preflight(preflight_ws, exe=str(program), stack=STACK)
    assert result.judged == before.judged  # files predict, documents show: each says its own
    body: Any = result.to_json()
    (warning,) = body["failed_probes"]
    assert warning["probe"] == "cufft-1d"
    assert warning["document"] == str(path)
    assert warning["shared_calls"] == ["cufftPlan1d", "cufftExecC2C"]
    said = f"{STACK} failed cufft-1d on gfx1200 (incorrect, measured: {path}); the program's files ask for"
    assert said in shown(result)


def test_calls_are_compared_without_their_forms_and_others_do_not_concern(
    preflight_ws: Workspace, tmp_path: Path
) -> None:
    wrong = [(name, Level.LOADABLE, Outcome.INCORRECT) for name in ("cublas-sgemm", "cufft-1d", "nvml")]
    put(preflight_ws, matrix(*wrong, stack=STACK))
    program = ship(tmp_path / "p", {"app.exe": exe({"cublas64_12.dll": ["cublasSgemm"]})})
    found = probe_warnings(preflight_ws, STACK, "gfx1200", examined(program, tmp_path))
    assert [(w.failed.probe, w.shared) for w in found] == [("cublas-sgemm", ("cublasSgemm_v2",))]
    assert probe_warnings(preflight_ws, STACK, "", examined(program, tmp_path)) == ()


@pytest.mark.parametrize("names", [b"", b"cufftPlan1d\0"], ids=["no names", "its names"])
def test_a_library_whose_calls_are_hidden_may_be_concerned(
    preflight_ws: Workspace, tmp_path: Path, names: bytes
) -> None:
    put(preflight_ws, matrix(FFT_WRONG, ("cusparse-spmv", None, Outcome.ERROR), stack=STACK))
    program = ship(tmp_path / "p", {"app.exe": exe(sections={".rdata": b"cufft64_11.dll\0" + names})})
    found = probe_warnings(preflight_ws, STACK, "gfx1200", examined(program, tmp_path))
    assert [(w.failed.probe, w.library) for w in found] == [("cufft-1d", "cuFFT 11")]
    assert found[0].sentence.endswith("the program loads cuFFT 11, and its calls are hidden")


def python_with_torch(folder: Path) -> Path:
    """An environment with PyTorch, as far as its files show."""
    info = folder / "venv" / "lib" / "python3.11" / "site-packages" / "torch-2.7.1+cu118.dist-info"
    info.mkdir(parents=True)
    program = folder / "venv" / "bin" / "python3"
    program.parent.mkdir()
    program.write_bytes(b"")
    program.chmod(0o755)
    return program


@pytest.fixture
def radeon(tmp_path: Path) -> Staged:
    """A translation stack on a Radeon."""
    staged = staged_over(runtime_in(tmp_path / "runtime", stack="a"), kind=StackKind.TRANSLATION)
    gpu = Gpu(index=0, name="RX", vendor="amd", gfx="gfx1200")
    return replace(staged, host=replace(staged.host, gpus=(gpu,), selected=0))


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return replace(workspace(ROOT), stage=tmp_path / "stage")


needs_env = pytest.mark.skipif(sys.platform == "win32", reason="the environment is laid out as on Linux")


def explained(ws: Workspace, staged: Staged, program: Path, **options: object) -> WrapResult:
    return wrap(
        ws,
        exe=str(program),
        explain=True,
        program_args=["train.py"],
        staged=lambda _ws, _stack: staged,
        inspect=lambda _staged, _program, facts: Inspected(facts=facts),
        **options,  # type: ignore[arg-type]  # by name
    )


def policies(result: WrapResult) -> set[str]:
    return set(filter(None, result.environ.environ.get(TORCH_POLICY, "").split(",")))


@needs_env
def test_nothing_is_switched_on_without_the_option(here: Workspace, radeon: Staged, tmp_path: Path) -> None:
    program = python_with_torch(tmp_path)
    before = policies(explained(here, radeon, program))
    put(here, matrix(CONV_HANGS))
    assert policies(explained(here, radeon, program)) == before
    assert "no-cudnn" not in before


@needs_env
def test_failed_probes_switch_on_what_goes_around_them(
    here: Workspace, radeon: Staged, tmp_path: Path
) -> None:
    program = python_with_torch(tmp_path)
    path = put(here, matrix(CONV_HANGS, MATMUL_WRONG, TORCH_FFT_REFUSED))
    usual = policies(explained(here, radeon, program))
    result = explained(here, radeon, program, policy="auto")
    assert policies(result) == {*usual, "no-cudnn", "fft-on-cpu"}
    said = "\n".join(result.notes)
    assert f"no-cudnn is set, because a failed torch-conv2d (timeout) on gfx1200 [{path}]" in said
    assert "a failed torch-matmul on gfx1200" in said
    alone = explained(here, radeon, program, policy="auto", no_profile=True)
    assert policies(alone) == {"no-cudnn", "fft-on-cpu"}
    left = explained(here, radeon, program, policy="auto", no_profile=True, without="no-cudnn")
    assert policies(left) == {"fft-on-cpu"}


@needs_env
@pytest.mark.parametrize(
    ("case", "said"),
    [
        pytest.param((CONV_HANGS, "gfx1100", True), "no document here shows", id="another GPU"),
        pytest.param((CONV_HANGS, None, True), "for a on this machine", id="no architecture"),
        pytest.param((CONV_HANGS, "gfx1200", False), "no PyTorch was found", id="no PyTorch"),
        pytest.param((MATMUL_WRONG, "gfx1200", True), "no setting goes around it", id="no setting"),
    ],
)
def test_where_nothing_can_be_switched_on_it_says_so(
    here: Workspace,
    radeon: Staged,
    tmp_path: Path,
    case: tuple[tuple[str, Level, Outcome], str | None, bool],
    said: str,
) -> None:
    made, gfx, torch = case
    program = python_with_torch(tmp_path)
    if not torch:
        next(program.parents[1].glob("lib/*/site-packages/torch-*")).rmdir()
    put(here, matrix(made))
    gpu = Gpu(index=0, name="RX", vendor="amd", gfx=gfx)
    host = replace(radeon.host, gpus=(gpu,), selected=0)
    result = explained(here, replace(radeon, host=host), program, policy="auto", no_profile=True)
    assert policies(result) == set()
    assert said in "\n".join(result.notes)


@needs_env
def test_the_control_is_given_nothing(here: Workspace, radeon: Staged, tmp_path: Path) -> None:
    control = replace(radeon, stack=replace(radeon.stack, kind=StackKind.CONTROL))
    result = explained(here, control, python_with_torch(tmp_path), policy="auto")
    assert policies(result) == set()
    assert any("sets nothing with the control" in note for note in result.notes)


def test_another_word_is_refused(here: Workspace, radeon: Staged, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown --policy value 'always'"):
        explained(here, radeon, python_with_torch(tmp_path), policy="always")


@needs_env
def test_a_probe_runs_without_what_would_hide_its_failure(
    here: Workspace, radeon: Staged, tmp_path: Path
) -> None:
    """With `topk-on-cpu` in force the CPU would answer for the stack, and rightly."""
    program = python_with_torch(tmp_path)
    assert "topk-on-cpu" in policies(explained(here, radeon, program))
    command = task.ProbeRun(here, radeon, str(program), 10.0)._command(probes()["torch-topk"], 10.0)
    assert TORCH_POLICY not in command.env


def test_reported_failures_count_where_nothing_was_measured() -> None:
    assert failed(matrix(FFT_WRONG, provenance=Provenance.REPORTED)) == ["cufft-1d 0.json"]
    assert failed(matrix(FFT_RIGHT), matrix(FFT_WRONG, day=2, provenance=Provenance.REPORTED)) == []
