"""``wrap --trace``: the layer's tracing libraries get in, their logs lie in one folder and are summed up."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.app.context import Workspace
from scripts.app.wrap import WrapResult, not_started_code, wrap
from scripts.app.wrap_tracing import LONGEST, read_trace
from scripts.cli.console import Out
from scripts.cli.views.wrap import show_wrap as show
from scripts.errors import LaunchError, StagedFileError, UsageError
from scripts.evidence.tracelog import TraceReader
from scripts.launch.injection import PREFIX, Via, plan_launcher, plan_trace
from scripts.model import StackKind
from scripts.osal.output_log import LineFilter
from tests.wrapping import runtime_in, staged_over, workspace

LINUX = ("libcuda.so", "libcuda.so.1", "libcublas.so.13", "trace/libcuda.so", "trace/libcuda.so.1")
WINDOWS = ("zluda.exe", "nvcuda.dll", "nvml.dll", "zluda_redirect.dll", "trace/nvcuda.dll", "trace/nvml.dll")
LOGS = """\
cuInit(Flags: 0) -> CUDA_SUCCESS
cuModuleLoadData(module: 0x1, image: 0x2) -> CUDA_ERROR_INVALID_PTX
    Saved module to module_0001.ptx
    Error parsing module, log has been written to module_0001.log
"""
#: Acts as a program does into which the tracing libraries got: they are not needed for what is shown here.
TRACED = f"""
import os, sys
name, found = os.path.basename(sys.executable), os.environ["ZLUDA_LOG_DIR"]
for folder in (name, name + "_1", "child"):
    os.makedirs(os.path.join(found, folder))
    with open(os.path.join(found, folder, "log.txt"), "w") as log: log.write({LOGS!r})
with open(os.path.join(found, name, "module_0001.log"), "w") as log: log.write("Unrecognized statement\\n")
print("to stdout")
print("[ZLUDA_TRACE] cuInit(Flags: 0) -> CUDA_SUCCESS", file=sys.stderr)
print("own words", file=sys.stderr)
"""


class Traced:
    """``wrap --trace`` over a small layer in this process."""

    def __init__(self, tmp_path: Path, *names: str) -> None:
        self.runtime = runtime_in(tmp_path / "runtime", *names)
        self.staged = staged_over(self.runtime, kind=StackKind.TRANSLATION)
        self.ws: Workspace = workspace(tmp_path)

    def __call__(self, *args: str, **options: object) -> WrapResult:
        options = {"exe": sys.executable, "trace": True, **options}
        return wrap(
            self.ws, staged=lambda _ws, _stack: self.staged, program_args=("-I", *args), **options  # type: ignore[arg-type] # options of one test
        )  # fmt: skip


@pytest.mark.posix_only
def test_a_trace_lies_in_the_runs_folder_and_is_summed_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    traced = Traced(tmp_path, *LINUX)
    result = traced("-c", TRACED)
    assert (result.exit_code, result.via) == (0, Via.ENV)
    trace = result.trace
    assert trace is not None
    [folder] = (tmp_path / "stage" / "traces").iterdir()
    name = Path(sys.executable).name
    assert trace.logs == tuple(str(folder / part / "log.txt") for part in (name, f"{name}_1", "child"))
    assert (trace.folder, trace.calls, trace.modules) == (str(folder), {"nvcuda": 6}, 3)
    assert trace.errors == {f"{name}/module_0001.log": ("Unrecognized statement",)}
    body = result.to_json()["trace"]
    assert json.loads(json.dumps(body))["first_failure"]["function"] == "cuModuleLoadData"
    out, err = capfd.readouterr()
    assert (out, err) == ("to stdout\n", "own words\n"), (
        "the trace's own lines stay out of the program's stderr"
    )
    said = io.StringIO()
    show(result, Out(io.StringIO(), said))
    assert "trace: 6 CUDA calls of 3 processes" in said.getvalue()
    assert "3 of them refused" in said.getvalue()


@pytest.mark.posix_only
def test_a_log_of_the_program_holds_its_own_words_and_not_the_traces(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Traced(tmp_path, *LINUX)("-c", TRACED, log=str(tmp_path / "out.log"))
    assert sorted((tmp_path / "out.log").read_text(encoding="utf-8").splitlines()) == [
        "own words",
        "to stdout",
    ]
    assert "ZLUDA_TRACE" not in "".join(capfd.readouterr())


@pytest.mark.posix_only
def test_a_program_that_calls_no_cuda_has_an_empty_trace(tmp_path: Path) -> None:
    result = Traced(tmp_path, *LINUX)("-c", "raise SystemExit(7)")
    assert result.exit_code == 7
    assert result.trace is not None
    assert (result.trace.logs, dict(result.trace.calls)) == ((), {})


def test_of_an_endless_line_begin_and_status_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line of 300 MB took twice that in memory, and five of 220 KB, all repeated names, took minutes."""
    (tmp_path / "app").mkdir()
    endless = "cuX(name: " + "hfunc: 0x1 " * 300_000 + ") -> CUDA_ERROR_UNKNOWN\n"
    (tmp_path / "app" / "log.txt").write_text(
        f"{endless}cuInit(Flags: 0) -> CUDA_SUCCESS\n", encoding="utf-8"
    )
    longest: list[int] = []
    read = TraceReader.read

    def watched(self: TraceReader, log: str, lines: Iterable[str]) -> None:
        kept = list(lines)
        longest.append(max(map(len, kept)))
        read(self, log, kept)

    monkeypatch.setattr(TraceReader, "read", watched)
    summary = read_trace(tmp_path, Path("app"))
    assert [(f.function, f.status, f.line) for f in summary.failures] == [("cuX", "CUDA_ERROR_UNKNOWN", 1)]
    assert dict(summary.calls) == {"nvcuda": 2}
    assert longest <= [2 * LONGEST]


@pytest.mark.posix_only
def test_a_trace_that_cannot_be_written_stops_before_the_program(tmp_path: Path) -> None:
    (tmp_path / "stage").write_bytes(b"a file where the folder should be")
    with pytest.raises(LaunchError) as caught:
        Traced(tmp_path, *LINUX)("-c", f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert (caught.value.reference, not_started_code(caught.value)) == ("trace-not-writable", 126)
    assert not (tmp_path / "ran").exists()


@pytest.mark.posix_only
def test_on_linux_the_tracing_libraries_come_first_and_hand_on_to_the_layers_own(tmp_path: Path) -> None:
    traced = Traced(tmp_path, *LINUX)
    result = traced(explain=True)
    environ = result.environ.environ
    layer = traced.runtime.path
    assert layer is not None
    assert environ["LD_LIBRARY_PATH"].split(":")[:2] == [str(layer / "trace"), str(layer)]
    assert environ["ZLUDA_CUDA_LIB"] == str(layer / "libcuda.so")
    assert environ["ZLUDA_BLAS_LIB"] == str(layer / "libcublas.so.13")
    assert "ZLUDA_FFT_LIB" not in environ
    assert any(str(environ["ZLUDA_LOG_DIR"]) in note for note in result.notes)
    assert result.trace is None
    assert not (tmp_path / "stage").exists(), "explaining makes nothing"


@pytest.mark.posix_only
def test_an_inherited_folder_for_logs_is_not_ours(tmp_path: Path) -> None:
    traced = Traced(tmp_path, *LINUX)
    traced.ws = replace(
        traced.ws, environ={**traced.ws.environ, "ZLUDA_LOG_DIR": "/old", "ZLUDA_CUDA_LIB": "/x"}
    )
    environ = traced(explain=True).environ.environ
    assert environ["ZLUDA_LOG_DIR"].startswith(str(tmp_path / "stage" / "traces"))
    assert environ["ZLUDA_CUDA_LIB"].endswith("libcuda.so")


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({"via": "beside"}, "trace-way"),
        ({"keep": True}, "trace-way"),
        ({"via": "env" if sys.platform == "win32" else "launcher"}, "trace-way"),
        ({"set_": ["ZLUDA_LOG_DIR=here"]}, "trace-folder"),
    ],
    ids=["beside", "keep", "the other system's way", "own folder"],
)
def test_what_does_not_go_with_a_trace_is_a_usage_error(
    tmp_path: Path, options: dict[str, object], reference: str
) -> None:
    with pytest.raises(UsageError) as caught:
        Traced(tmp_path, *LINUX, *WINDOWS)(**options)
    assert (caught.value.reference, not_started_code(caught.value)) == (reference, 121)
    assert caught.value.hint
    assert not (tmp_path / "stage").exists()


def test_a_stack_without_tracing_libraries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        Traced(tmp_path, "libcuda.so.1", "nvcuda.dll", "zluda.exe")()
    assert (caught.value.reference, not_started_code(caught.value)) == ("no-trace", 126)


def test_on_windows_the_launcher_is_told_to_trace_and_keeps_our_folder(tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path / "layer", *WINDOWS)
    changes = {c.name: c.value for c in plan_trace(runtime, tmp_path / "logs", platform="win32")}
    assert changes == {
        "ZLUDA_LOG_DIR": str(tmp_path / "logs"),
        "CUDA_AMD_TRACE": "ZLUDA_LOG_DIR",
        "ZLUDA_NVML_LIB": str(tmp_path / "layer" / "nvml.dll"),
    }


def test_a_32_bit_program_needs_its_own_tracing_libraries(tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path / "a", *WINDOWS)
    with pytest.raises(LaunchError, match="no libraries that trace"):
        plan_trace(runtime, tmp_path / "logs", platform="win32", bits=32)
    both = runtime_in(tmp_path / "b", *WINDOWS, "32/zluda.exe", "32/nvcuda.dll", "32/trace/nvcuda.dll")
    assert plan_trace(both, tmp_path / "logs", platform="win32", bits=32)


def test_a_tracing_library_that_vanished_is_refused_before_the_start(tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path / "layer", *WINDOWS)

    def line(present: Callable[[str], bool], *, trace: bool) -> str:
        return plan_launcher(
            runtime,
            folder=PureWindowsPath(r"C:\layer"),
            program=PureWindowsPath(r"C:\a\app.exe"),
            machine="x86_64",
            args=("x y",),
            present=present,
            trace=trace,
        ).line

    def own(name: str) -> bool:
        return "trace" not in name

    assert line(lambda _: True, trace=True) == (
        r'"C:\layer\zluda.exe" --zluda-trace -- \"C:\a\app.exe\" "\"x y\""'
    )
    with pytest.raises(StagedFileError) as caught:
        line(own, trace=True)
    assert caught.value.context == ("trace/nvcuda.dll", "trace/nvml.dll")
    assert "--zluda-trace" not in line(own, trace=False)


PIECES = st.lists(
    st.sampled_from([b"[ZLUDA_TRACE] a\n", b"[ZLUDA_TRAC", b"E] ", b"own\n", b"\n", b"x[ZLUDA_TRACE]", b"["]),
    max_size=12,
)  # fmt: skip


@given(PIECES, st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_exactly_the_marked_lines_are_taken_out_however_the_bytes_arrive(
    pieces: list[bytes], sizes: list[int]
) -> None:
    whole = b"".join(pieces)
    lines = whole.splitlines(keepends=True)
    expected = b"".join(line for line in lines if not line.startswith(PREFIX))
    sieve, passed, rest, turn = LineFilter(PREFIX), b"", whole, 0
    while rest:
        size = sizes[turn % len(sizes)]
        passed += sieve.passing(rest[:size])
        rest, turn = rest[size:], turn + 1
    assert passed + sieve.rest() == expected


def test_a_line_that_begins_otherwise_passes_before_its_end() -> None:
    sieve = LineFilter(PREFIX)
    assert sieve.passing(b"Continue? [y/n] ") == b"Continue? [y/n] "
