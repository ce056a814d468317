"""A CUDA library that the loader does not find: the doctor names ``wrap``, and ``wrap`` who brings it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from scripts.app import doctor as doctor_module
from scripts.app import doctor_look, loader_look
from scripts.app.context import ROOT, Workspace, workspace_from_environ
from scripts.app.doctor import doctor
from scripts.app.loader_look import missing_at_start
from scripts.app.trial import _attempt_own
from scripts.app.wrap import wrap
from scripts.bench.workloads import read_own_workload
from scripts.model import Host
from scripts.preflight.libraries import named
from scripts.preflight.loading import missing_cuda_library, package_of
from tests.pe_files import pe
from tests.preflight_programs import exe, ship
from tests.wrapping import runtime_in, staged_over, workspace

ZLUDA = ("nvcuda", "cublas11", "cublas12", "cufft11")
LOADER = "./app: error while loading shared libraries: {}: cannot open shared object file: No such file"
BOX = "The code execution cannot proceed because {} was not found. Reinstalling the program may fix this."


@pytest.mark.parametrize(
    ("name", "outside", "inside"),
    [
        ("libcublas.so.12", "comes with zluda, whose folder is on the search path", "is part of zluda"),
        ("nvcuda.dll", "start the program with `invoke wrap`", "`invoke verify`"),
        ("libcublas.so.13", "zluda has cuBLAS 11 and cuBLAS 12, not libcublas.so.13", "look for a build"),
        ("libcudart.so.12", "package nvidia-cuda-runtime-cu12 has it", "zluda has no libcudart.so.12"),
        ("cudart64_13.dll", "package nvidia-cuda-runtime has it", "zluda has no cudart64_13.dll"),
        (
            "cusolver64_11.dll",
            "no package that brings it is known to work with this stack",
            "zluda has no cusolver64_11.dll",
        ),
    ],
)
def test_what_brings_a_library(name: str, outside: str, inside: str) -> None:
    found = missing_cuda_library(name, stack="zluda", provided=ZLUDA)
    assert found is not None
    assert outside in found.outside
    assert inside in found.inside
    assert ("start the program" in found.outside) is found.served


def test_without_a_stack_the_way_to_one_is_named() -> None:
    found = missing_cuda_library("libcudart.so.12", stack="", provided=())
    assert found is not None
    assert "`invoke setup`, then start the program with `invoke wrap`" in found.outside
    assert missing_cuda_library("libpng.so.16", stack="", provided=()) is None


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("cudart64_110.dll", "nvidia-cuda-runtime-cu11"),
        ("libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12"),
        ("libnvrtc.so.13", "nvidia-cuda-nvrtc"),
        ("cublas64_12.dll", ""),
        ("libcudnn.so.9", ""),
        ("libcudart.so", ""),
    ],
)
def test_a_package_is_named_only_where_it_would_help(name: str, package: str) -> None:
    meant = named(name)
    assert meant is not None
    assert package_of(meant) == package


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    active = SimpleNamespace(active=SimpleNamespace(stack="zluda-v6p69-sdk64"), generations=())
    monkeypatch.setattr(doctor_look, "read_history", lambda _stage: active)
    monkeypatch.setattr(doctor_module, "host_of", lambda _ws: Host(os="windows", machine="x86_64"))
    ws = workspace_from_environ(dict(os.environ), root=ROOT)
    return replace(ws, stage=tmp_path / "stage", state_root=tmp_path / "state", cache_root=tmp_path / "store")


@pytest.mark.parametrize("words", [LOADER, BOX], ids=["Linux", "Windows"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "cublas64_12.dll",
            "cublas64_12.dll comes with zluda-v6p69-sdk64, whose folder is on the search path",
        ),
        ("cudart64_12.dll", "NVIDIA's package nvidia-cuda-runtime-cu12 has it"),
        ("cublasLt64_12.dll", "start the program with `invoke wrap`"),
    ],
)
def test_the_doctor_answers_a_missing_library_with_wrap(
    ws: Workspace, tmp_path: Path, words: str, name: str, says: str
) -> None:
    log = tmp_path / "out.log"
    log.write_text(words.format(name) + "\n", encoding="utf-8")
    result = doctor(ws, log=str(log))
    (line,) = result.lines
    assert says in line.text
    assert result.exit_code == 3
    log.write_text(words.format("libpng16.dll") + "\n", encoding="utf-8")
    assert doctor(ws, log=str(log)).lines == ()


@pytest.mark.parametrize(
    ("name", "before", "advised"),
    [
        ("libcusolver.so.11", "", False),
        ("libcublas.so.12", "", True),
        ("libcublas.so.12", "command: invoke wrap --stack=cpu-reference\n", False),
    ],
)
def test_wrap_is_no_advice_where_a_stack_was_in_use(
    ws: Workspace, tmp_path: Path, name: str, before: str, advised: bool
) -> None:
    log = tmp_path / "out.log"
    log.write_text(f"{before}my AMD Radeon RX 6600, {LOADER.format(name)}", encoding="utf-8")
    (found,) = (one for one in doctor(ws, log=str(log)).findings if one.rule == "absent-nvidia")
    assert any("invoke wrap" in step for step in found.fix) is advised
    assert found.fix


def test_a_program_for_windows_is_answered_without_a_log(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0xC0000135 names nothing: the imports do, here of a library that the program loads."""
    (tmp_path / "windows" / "System32").mkdir(parents=True)
    environ = {"SYSTEMROOT": str(tmp_path / "windows"), "PATH": ""}
    program = ship(
        tmp_path / "p",
        {
            "app.exe": pe(imports={"lib.dll": ["f"]}, dll=False),
            "lib.dll": pe(imports={"cublas64_12.dll": ["g"]}),
        },
    )
    missing = missing_at_start(program, environ, "win32")
    assert [(one.name, one.chain) for one in missing] == [("cublas64_12.dll", ("app.exe", "lib.dll"))]
    monkeypatch.setattr("scripts.app.doctor.missing_imports", lambda *_: missing)
    texts = [line.text for line in doctor(ws, exe=str(program)).lines]
    assert any("cublas64_12.dll is nowhere on the search path" in text for text in texts)
    assert any(text.startswith("cublas64_12.dll comes with zluda-v6p69-sdk64") for text in texts)
    (program.parent / "CUBLAS64_12.DLL").write_bytes(pe())
    assert missing_at_start(program, environ, "win32") == []


CC = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture
def needy(tmp_path: Path) -> Path:
    """A real program that needs a CUDA runtime which is nowhere."""
    if CC is None or os.name == "nt":
        pytest.skip("no C compiler here")
    for name, text in (
        ("rt.c", "int cudaStub(void){return 0;}"),
        ("app.c", "int cudaStub(void);int main(){return cudaStub();}"),
    ):
        (tmp_path / name).write_text(text)
    library = tmp_path / "libcudart.so.77"
    subprocess.run(
        [CC, "-shared", "-fPIC", "-Wl,-soname,libcudart.so.77", "-o", str(library), str(tmp_path / "rt.c")],
        check=True,
    )
    program = tmp_path / "app"
    subprocess.run([CC, "-o", str(program), str(tmp_path / "app.c"), str(library)], check=True)
    library.rename(tmp_path / "kept.so")
    return program


@pytest.mark.posix_only
def test_wrap_says_what_a_real_program_lacked_and_what_brings_it(needy: Path, tmp_path: Path) -> None:
    staged = staged_over(runtime_in(tmp_path / "runtime", "libcuda.so.1"))
    result = wrap(
        workspace(tmp_path), exe=str(needy), via="env", staged=lambda _ws, _stack: staged, program_args=()
    )
    assert result.exit_code == 127
    assert [one.name for one in result.lacking] == ["libcudart.so.77"]
    assert any("app did not start: test-stack has no libcudart.so.77" in text for text in result.ending)
    body = result.to_json()["lacking"]
    assert isinstance(body, list)
    (tmp_path / "kept.so").rename(tmp_path / "runtime" / "libcudart.so.77")
    again = wrap(
        workspace(tmp_path), exe=str(needy), via="env", staged=lambda _ws, _stack: staged, program_args=()
    )
    assert (again.exit_code, again.lacking) == (0, ())


@pytest.mark.posix_only
def test_run_says_it_of_a_program_of_the_users_as_well(needy: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'name = "own"\ncommand = ["./app"]\ntimeout = 60\nwarmup = 0\nprimary = "x"\n'
        '[metrics.x]\nbetter = "higher"\nunit = "1/s"\nregex = "x ([0-9]+)"\n'
        '[answer]\nregex = "answer (.*)"\nequals = "1"\n',
        encoding="utf-8",
    )
    staged = staged_over(runtime_in(tmp_path / "runtime", "libcuda.so.1"))
    attempted = _attempt_own(workspace(tmp_path), staged, read_own_workload(tmp_path / "own.toml"))
    assert attempted.result.detail.endswith("put the folder with the library on the search path")
    assert "test-stack has no libcudart.so.77" in attempted.result.detail


@pytest.mark.posix_only
def test_what_the_loaders_cache_has_is_not_missing(
    needy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [one.name for one in missing_at_start(needy, {}, "linux")] == ["libcudart.so.77"]
    (tmp_path / "cache").write_bytes(b"glibc-ld.so.cache1.1\0libcudart.so.77\0/opt/cuda/libcudart.so.77\0")
    monkeypatch.setattr(loader_look, "_CACHE", tmp_path / "cache")
    assert missing_at_start(needy, {}, "linux") == []
    assert missing_at_start(ship(tmp_path / "q", {"app.exe": exe()}), {}, "linux") == []
