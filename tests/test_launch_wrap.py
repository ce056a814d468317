"""``wrap`` decides, explains, runs, undoes and reports; what cannot start says why with its own code."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app.context import Staged
from scripts.app.wrap import WrapResult, not_started_code, wrap
from scripts.app.wrap_observations import NOT_LOADED, GpuUse, LoadedLibraries
from scripts.app.wrap_result import NOT_STARTED, Inspected, WrapPlacement
from scripts.cli.console import Out
from scripts.cli.views.wrap import show_wrap as show
from scripts.errors import (
    ConflictError,
    FetchError,
    HostError,
    JournalError,
    LaunchError,
    StagedFileError,
    UndoIncompleteError,
    UsageError,
    WorkspaceError,
)
from scripts.launch.environ import EnvPlan
from scripts.launch.injection import Via, ViaFacts
from scripts.model import NoProgress, StackKind
from scripts.osal.processes import Dialog, ProcessResult
from scripts.osal.signals import EndedBySignal
from scripts.preflight.loading import Places
from tests.wrapping import runtime_in, staged_over, workspace

PYTHON = sys.executable
LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


class Said(NoProgress):
    """Keeps what was said before the start."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


class Wrapped:
    """``wrap`` over a small runtime in this process."""

    def __init__(self, tmp_path: Path) -> None:
        self.said = Said()
        self.runtime = runtime_in(tmp_path / "runtime", LIBRARY)
        self.staged = staged_over(self.runtime)
        self.ws = workspace(tmp_path, progress=self.said)

    def __call__(self, **options: object) -> WrapResult:
        options.setdefault("exe", PYTHON)
        return wrap(self.ws, staged=lambda _ws, _stack: self.staged, **options)  # type: ignore[arg-type] # options of one test


@pytest.fixture
def wrapped(tmp_path: Path) -> Wrapped:
    return Wrapped(tmp_path)


def script(text: str) -> list[str]:
    return ["-I", "-c", text]


def test_the_way_and_its_reason_are_said_before_the_program_starts(wrapped: Wrapped, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    said_before: list[bool] = []
    note = wrapped.said.note
    wrapped.said.note = lambda message: (said_before.append(mark.exists()), note(message))[1]  # type: ignore[method-assign] # listens
    wrapped(program_args=script(f"open({str(mark)!r}, 'w')"))
    assert said_before[0] is False
    assert mark.exists()
    assert wrapped.said.notes[0].startswith("test-stack via env: ")


def test_the_libraries_come_first_in_the_search_path(wrapped: Wrapped, tmp_path: Path) -> None:
    name = "PATH" if sys.platform == "win32" else "LD_LIBRARY_PATH"
    mark = tmp_path / "path"
    text = f"import os; open({str(mark)!r}, 'w', encoding='utf-8').write(os.environ[{name!r}])"
    wrapped(program_args=script(text))
    assert mark.read_text(encoding="utf-8").split(os.pathsep)[0] == str(wrapped.runtime.path)
    assert str(wrapped.runtime.path) not in os.environ.get(name, "")


def test_settings_and_folder_reach_the_program(wrapped: Wrapped, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere ü"
    folder.mkdir()
    (folder / "here").touch()
    text = (
        "import os; raise SystemExit(os.environ['A'] + os.environ['B'] == 'x=y' and os.path.exists('here'))"
    )
    assert wrapped(program_args=script(text), set_=["A=x=y", "B="], cwd=str(folder)).exit_code == 1
    assert wrapped(program_args=script(text), set_=["A=x=y", "B=z"], cwd=str(folder)).exit_code == 0


def test_explain_runs_nothing(wrapped: Wrapped, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    result = wrapped(program_args=script(f"open({str(mark)!r}, 'w')"), explain=True)
    assert (result.exit, result.exit_code, result.outcome) == (None, 0, "explained")
    assert not mark.exists()
    assert wrapped.said.notes == []


def test_a_bare_name_is_looked_up_as_a_shell_would(wrapped: Wrapped) -> None:
    folder, name = os.path.split(PYTHON)
    wrapped.ws = replace(wrapped.ws, environ={**wrapped.ws.environ, "PATH": folder})
    assert wrapped(exe=name, explain=True).program == Path(PYTHON)


def test_the_report_says_everything_and_is_redacted_by_what_is_given(
    wrapped: Wrapped, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    result = wrapped(
        program_args=script("raise SystemExit(3)"),
        report=str(report),
        redact=lambda body: {**body, "program": "<hidden>"},  # type: ignore[dict-item] # a stand-in for a redactor
    )
    body = json.loads(report.read_text(encoding="utf-8"))
    assert body == {**result.to_json(), "program": "<hidden>"}
    assert (body["exit_code"], body["outcome"], body["exit"]["code"]) == (3, "exit", 3)
    assert body["environment"][-1]["why"]


def test_a_report_that_cannot_be_written_stops_before_the_program(wrapped: Wrapped, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with pytest.raises(UsageError) as caught:
        wrapped(program_args=script(f"open({str(mark)!r}, 'w')"), report=str(tmp_path / "no" / "report.json"))
    assert (caught.value.reference, not_started_code(caught.value)) == ("bad-output", 121)
    assert caught.value.context == (str(tmp_path / "no" / "report.json"),)
    assert not mark.exists()


@pytest.mark.posix_only
def test_a_report_that_the_system_refuses_is_named_without_the_temporary_file(wrapped: Wrapped) -> None:
    with pytest.raises(LaunchError) as caught:
        wrapped(report="/proc/report.json")
    assert (caught.value.reference, not_started_code(caught.value)) == ("report-not-writable", 126)
    assert ".tmp" not in " ".join((caught.value.message, *caught.value.context))


def test_a_report_that_becomes_impossible_meanwhile_keeps_the_program_s_own_end(
    wrapped: Wrapped, tmp_path: Path
) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    text = f"import shutil; shutil.rmtree({str(folder)!r}); raise SystemExit(7)"
    assert wrapped(program_args=script(text), report=str(folder / "report.json")).exit_code == 7
    assert any("the report cannot be written" in note for note in wrapped.said.notes)


def plain(tmp_path: Path, data: bytes, mode: int = 0o755, name: str = "thing") -> str:
    path = tmp_path / name
    path.write_bytes(data)
    path.chmod(mode)
    return str(path)


def pipe(tmp_path: Path) -> str:
    os.mkfifo(tmp_path / "pipe")
    return str(tmp_path / "pipe")


Options = dict[str, object]
POSIX = pytest.mark.posix_only
REFUSED: dict[str, tuple[Callable[[Path], Options], int, str]] = {
    "no such program": (lambda tmp: {"exe": str(tmp / "no")}, 126, "program-not-found"),
    "a blank before a name": (lambda _: {"exe": " no such"}, 126, "program-not-found"),
    "a folder": (lambda tmp: {"exe": str(tmp)}, 126, "not-a-file"),
    "no program": (lambda _: {"exe": ""}, 121, "no-program"),
    "a bad timeout": (lambda _: {"timeout": "soon"}, 121, "bad-timeout"),
    "no time at all": (lambda _: {"timeout": "0"}, 121, "bad-timeout"),
    "a bad way": (lambda _: {"via": "magic"}, 121, "bad-via"),
    "beside, not offered": (lambda _: {"via": "beside"}, 121, "via-beside-unavailable"),
    "keep, not offered": (lambda _: {"keep": True}, 121, "via-beside-unavailable"),
    "keep without beside": (lambda _: {"keep": True, "via": "env"}, 121, "keep-without-beside"),
    "a setting without value": (lambda _: {"set_": ["NAME"]}, 121, "bad-setting"),
    "a setting without name": (lambda _: {"set_": ["=x"]}, 121, "bad-setting"),
    "strict, not offered": (lambda _: {"strict": True}, 121, "strict-unavailable"),
    "no folder to start in": (lambda tmp: {"cwd": str(tmp / "no")}, 121, "folder-not-found"),
    "a log nowhere": (lambda tmp: {"log": str(tmp / "no" / "log")}, 121, "bad-output"),
    "no arguments file": (lambda tmp: {"args_file": str(tmp / "no")}, 121, "args-file-unreadable"),
    "an arguments file that is none": (
        lambda tmp: {"args_file": plain(tmp, b'["a", 1]')},
        121,
        "args-file-invalid",
    ),
    "arguments twice": (lambda _: {"args_file": "x", "program_args": ["y"]}, 121, "arguments-twice"),
    "a NUL": (lambda _: {"program_args": ["a\0b"]}, 121, "argument-nul"),
}
REFUSED_POSIX: dict[str, tuple[Callable[[Path], Options], int, str]] = {
    "not executable": (lambda tmp: {"exe": plain(tmp, b"#!/bin/sh", 0o644)}, 126, "program-not-executable"),
    "a pipe": (lambda tmp: {"exe": pipe(tmp)}, 126, "not-a-file"),
    "a script without its first line": (lambda tmp: {"exe": plain(tmp, b"echo hi")}, 126, "program-format"),
    "an interpreter that is not there": (
        lambda tmp: {"exe": plain(tmp, b"#!/no/such")},
        126,
        "program-not-found",
    ),
    "a Windows program": (lambda tmp: {"exe": plain(tmp, b"MZ" + bytes(100))}, 126, "program-format"),
    "too many arguments": (lambda _: {"program_args": ["x" * 100_000] * 40}, 126, "arguments-too-long"),
    "the launcher": (lambda _: {"via": "launcher"}, 121, "via-unavailable"),
}
REFUSED_WINDOWS: dict[str, tuple[Callable[[Path], Options], int, str]] = {
    "a batch file": (lambda tmp: {"exe": plain(tmp, b"echo", name="a.bat")}, 126, "batch-file"),
    "a script": (lambda tmp: {"exe": plain(tmp, b"print()", name="a.py")}, 126, "not-a-program"),
    "no program inside": (lambda tmp: {"exe": plain(tmp, b"hello", name="a.exe")}, 126, "program-format"),
    "a Store app": (
        lambda tmp: {"exe": plain(made(tmp / "WindowsApps"), b"", name="a.exe")},
        126,
        "store-app",
    ),
    "a stack without launcher": (lambda _: {"via": "launcher"}, 126, "no-launcher"),
}
CASES = [
    *(pytest.param(*case, id=name) for name, case in REFUSED.items()),
    *(pytest.param(*case, id=name, marks=POSIX) for name, case in REFUSED_POSIX.items()),
    *(pytest.param(*case, id=name, marks=pytest.mark.windows_only) for name, case in REFUSED_WINDOWS.items()),
]


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize(("options", "code", "reference"), CASES)
def test_what_cannot_start_says_why_and_has_its_own_code(
    options: Callable[[Path], Options], code: int, reference: str, wrapped: Wrapped, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    with pytest.raises(WorkspaceError) as caught:
        wrapped(**options(tmp_path), report=str(report))
    error = caught.value
    assert (not_started_code(error), error.reference) == (code, reference)
    assert error.hint
    body = json.loads(report.read_text(encoding="utf-8"))
    assert (body["error"]["reference"], body["exit_code"]) == (reference, code)
    assert body["error"]["code"] == code


@POSIX
def test_arguments_inside_the_programs_value_are_put_behind_the_dashes(
    wrapped: Wrapped, tmp_path: Path
) -> None:
    program = plain(tmp_path, b"#!/bin/sh")
    with pytest.raises(WorkspaceError) as caught:
        wrapped(exe=f"{program} --flag a")
    assert caught.value.hint == (f'put its arguments behind `--`: invoke wrap --exe="{program}" -- --flag a')


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UsageError, 121),
        (FetchError, 122),
        (StagedFileError, 122),
        (HostError, 123),
        (ConflictError, 125),
        (JournalError, 125),
        (UndoIncompleteError, 125),
        (LaunchError, 126),
        (WorkspaceError, 120),
    ],
)
def test_every_kind_of_failure_before_the_start_has_its_code(kind: type[WorkspaceError], code: int) -> None:
    assert not_started_code(kind("x", "y")) == code


def test_no_code_before_the_start_is_the_timeouts() -> None:
    codes = [code for code, _ in NOT_STARTED]
    assert 124 not in codes
    assert all(120 < code <= 126 for code in codes)
    assert len(set(codes)) == len(codes)


def test_a_stack_that_is_not_ready_stops_before_anything_else_is_changed(wrapped: Wrapped) -> None:
    def staged(_ws: object, stack: str) -> Staged:
        raise StagedFileError("runtime-missing", f"no {stack}", hint="setup")

    with pytest.raises(StagedFileError, match="no such-stack"):
        wrap(wrapped.ws, exe=PYTHON, stack="such-stack", staged=staged)


class Beside:
    """A placement that writes down what happened when."""

    def __init__(
        self,
        *,
        left: tuple[str, ...] = (),
        during: Callable[[], None] | None = None,
        undoing: Callable[[], None] | None = None,
    ) -> None:
        self.events: list[str] = []
        self.left = left
        self.during = during
        self.undoing = undoing

    @contextmanager
    def __call__(
        self, staged: Staged, program: Path, *, keep: bool, places: Places | None
    ) -> Iterator[WrapPlacement]:
        self.events.append(f"placed keep={keep}")
        if self.during is not None:
            self.during()
        placement = WrapPlacement(files=("nvcuda.dll",))
        try:
            yield placement
        finally:
            if self.undoing is not None:
                self.undoing()
            self.events.append("undone")
            placement.left = self.left


def test_what_was_placed_is_undone_after_the_program(wrapped: Wrapped) -> None:
    placer = Beside()
    result = wrapped(via="beside", placer=placer, program_args=script("raise SystemExit(2)"))
    assert placer.events == ["placed keep=False", "undone"]
    assert (result.exit_code, result.placement.files) == (2, ("nvcuda.dll",))


@pytest.mark.parametrize(("code", "expected"), [(0, 41), (5, 5)])
def test_an_incomplete_undo_turns_success_into_41_and_keeps_other_codes(
    code: int, expected: int, wrapped: Wrapped
) -> None:
    result = wrapped(
        via="beside", placer=Beside(left=("nvcuda.dll",)), program_args=script(f"raise SystemExit({code})")
    )
    assert (result.exit_code, result.placement.left) == (expected, ("nvcuda.dll",))


def test_what_was_placed_is_undone_when_the_program_does_not_start(wrapped: Wrapped, tmp_path: Path) -> None:
    folder = made(tmp_path / "vanishes")
    placer = Beside(during=folder.rmdir)
    with pytest.raises(LaunchError):
        wrapped(via="beside", placer=placer, cwd=str(folder))
    assert placer.events[-1] == "undone"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("SIGINT", KeyboardInterrupt), pytest.param("SIGTERM", EndedBySignal, marks=POSIX)],
)
def test_an_interruption_while_placing_starts_nothing_and_undoes(
    name: str, kind: type[BaseException], wrapped: Wrapped, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    placer = Beside(during=lambda: signal.raise_signal(getattr(signal, name)))
    with pytest.raises(kind):
        wrapped(via="beside", placer=placer, program_args=script(f"open({str(mark)!r}, 'w')"))
    assert placer.events[-1] == "undone"
    assert not mark.exists()


@pytest.mark.parametrize(
    "name",
    ["SIGINT", pytest.param("SIGTERM", marks=POSIX), pytest.param("SIGHUP", marks=POSIX)],
)
def test_no_signal_cuts_an_undo_short(name: str, wrapped: Wrapped) -> None:
    def twice() -> None:
        signal.raise_signal(getattr(signal, name))
        signal.raise_signal(getattr(signal, name))

    placer = Beside(undoing=twice)
    result = wrapped(via="beside", placer=placer, program_args=script("raise SystemExit(4)"))
    assert placer.events[-1] == "undone"
    assert result.exit_code == 4


def test_signals_are_ours_again_afterwards(wrapped: Wrapped) -> None:
    before = signal.getsignal(signal.SIGINT)
    wrapped(program_args=["-V"])
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_signals_are_left_alone(wrapped: Wrapped) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(wrapped, program_args=script("raise SystemExit(6)")).result().exit_code == 6


def test_keep_means_beside(wrapped: Wrapped) -> None:
    placer = Beside()
    assert wrapped(keep=True, placer=placer, program_args=["-V"]).via is Via.BESIDE
    assert placer.events[0] == "placed keep=True"


def test_a_look_into_the_program_decides_the_way(wrapped: Wrapped) -> None:
    def inspect(staged: Staged, program: Path, facts: ViaFacts) -> Inspected:
        return Inspected(
            facts=replace(facts, own_copies=("torch/lib/libcuda.so.1",), at_start=True),
            notes=("uses cuBLAS",),
        )

    placer = Beside()
    result = wrapped(inspect=inspect, placer=placer, explain=True)
    assert (result.via, result.notes[0]) == (Via.BESIDE, "uses cuBLAS")
    assert "torch/lib/libcuda.so.1" in result.reason or sys.platform == "win32"
    assert placer.events == []


@pytest.mark.parametrize("strict", [True, False])
def test_strict_stops_what_will_be_refused(strict: bool, wrapped: Wrapped) -> None:
    def inspect(staged: Staged, program: Path, facts: ViaFacts) -> Inspected:
        return Inspected(facts=facts, refusal="cufftExecC2C is not there")

    if strict:
        with pytest.raises(LaunchError, match="cufftExecC2C"):
            wrapped(inspect=inspect, strict=True, explain=True)
    else:
        assert "cufftExecC2C is not there" in wrapped(inspect=inspect, explain=True).notes


def result_with(
    ended: ProcessResult | None, platform: str, left: tuple[str, ...] = (), *, kept: bool = False
) -> WrapResult:
    return WrapResult(
        platform=platform,
        program=Path("app"),
        args=(),
        line="app",
        stack="test-stack",
        runtime="d" * 64,
        via=Via.ENV,
        reason="because",
        environ=EnvPlan(changes=(), environ={}),
        cwd=Path("here"),
        exit=ended,
        placement=WrapPlacement(left=left, kept=kept),
    )


@pytest.mark.parametrize(("platform", "said"), [("linux", True), ("win32", False)])
def test_what_is_kept_on_linux_is_not_promised_to_a_direct_start(platform: str, *, said: bool) -> None:
    (line,) = result_with(ProcessResult(code=0), platform, kept=True).ending
    assert line.startswith("kept beside it")
    assert "; to take it back: invoke unwrap --target=" in line
    assert ("LD_LIBRARY_PATH" in line) is said
    assert ("`invoke wrap`" in line) is said


@pytest.mark.parametrize(
    ("ended", "platform", "code", "outcome"),
    [
        (ProcessResult(code=0), "linux", 0, "exit"),
        (ProcessResult(code=255), "linux", 255, "exit"),
        (ProcessResult(code=-15), "linux", 143, "signal"),
        (ProcessResult(code=-9, timed_out=True), "linux", 124, "timeout"),
        (ProcessResult(code=-1073741515), "win32", -1073741515, "exit"),
        (ProcessResult(code=-1), "win32", -1, "exit"),
        (ProcessResult(code=0, dialogs=(Dialog(title="t", text="x"),)), "win32", 0, "dialog"),
        (None, "linux", 0, "explained"),
    ],
)
def test_how_it_ended_decides_code_and_outcome(
    ended: ProcessResult | None, platform: str, code: int, outcome: str
) -> None:
    result = result_with(ended, platform)
    assert (result.exit_code, result.outcome) == (code, outcome)
    json.dumps(result.to_json())


def shown(result: WrapResult) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    show(result, Out(out, err))
    return out.getvalue(), err.getvalue()


def test_a_good_end_says_nothing() -> None:
    assert shown(result_with(ProcessResult(code=0), "linux")) == ("", "")


@pytest.mark.parametrize(
    ("ended", "platform", "words"),
    [
        (
            ProcessResult(code=-1073741515),
            "win32",
            "app ended with -1073741515 (STATUS_DLL_NOT_FOUND: a DLL was not found)",
        ),
        (ProcessResult(code=-15), "linux", "app ended by SIGTERM\n"),
        (ProcessResult(code=-2), "linux", "app ended by SIGINT\n"),
        (
            ProcessResult(code=1, timed_out=True, seconds=5.2),
            "win32",
            "app was killed after 5 s (--timeout)",
        ),
        (
            ProcessResult(code=7, dialogs=(Dialog(title="Missing", text="rocblas"),)),
            "win32",
            "closed a message box: Missing: rocblas",
        ),
        (
            ProcessResult(code=0, log_note="the log ends at its cap of 9 bytes"),
            "linux",
            "the log ends at its cap of 9 bytes",
        ),
    ],
)
def test_a_notable_end_is_said_on_stderr(ended: ProcessResult, platform: str, words: str) -> None:
    out, err = shown(result_with(ended, platform))
    assert out == ""
    assert words in err


LOGGED = "invoke wrap --log=run.log --exe=app --set=A=b -- 'a b' --log=x"


@pytest.mark.posix_only
@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["--exe=app", "--set=A=b", "--", "a b", "--log=x"], [LOGGED, "invoke doctor --log=run.log"]),
        (["--exe=app", "--log=my log"], ["invoke doctor '--log=my log'"]),
        (["--exe=app", "--log", "l"], ["invoke doctor --log=l"]),
        (
            ["--log", "/dev/null", "--exe=app", "--set=A=b", "--", "a b", "--log=x"],
            [LOGGED, "invoke doctor --log=run.log"],
        ),
        (["--unreadable"], ["invoke wrap --log=run.log --exe=app", "invoke doctor --log=run.log"]),
    ],
    ids=["no-log", "log", "log-of-two-words", "log-of-a-device", "another-line"],
)
@pytest.mark.parametrize("code", [1, -11])
def test_a_program_that_fails_ends_with_lines_to_paste(
    words: list[str], lines: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["scripts", "wrap", *words])
    out, err = shown(result_with(ProcessResult(code=code), "linux"))
    assert out == ""
    assert [line.strip() for line in err.splitlines() if line.startswith("  ")] == lines


@pytest.mark.parametrize(
    ("ended", "platform"),
    [
        (ProcessResult(code=0), "linux"),
        (ProcessResult(code=-2), "linux"),
        (ProcessResult(code=-15), "linux"),
        (ProcessResult(code=-13), "linux"),
        (ProcessResult(code=1, received=(2,)), "linux"),
        (ProcessResult(code=-9, timed_out=True), "linux"),
        (ProcessResult(code=-1073741510), "win32"),
        (None, "linux"),
    ],
    ids=["fine", "int", "term", "pipe", "handled", "timeout", "windows", "explained"],
)
def test_a_program_that_was_stopped_has_not_failed(ended: ProcessResult | None, platform: str) -> None:
    loaded = LoadedLibraries(looks=9, driver_expected=True)
    use = GpuUse(asked=False, why=NOT_LOADED, by_loading=True)
    result = replace(result_with(ended, platform), loaded=loaded, gpu=use)
    assert not result.failed
    _, err = shown(result)
    assert "invoke doctor" not in err
    assert any(NOT_LOADED in line for line in result.ending) is (ended == ProcessResult(code=0))


def test_files_that_were_left_are_listed_with_what_to_do() -> None:
    out, err = shown(result_with(ProcessResult(code=0), "linux", left=("lib/nvcuda.dll",)))
    assert out == ""
    assert "lib/nvcuda.dll" in err
    assert "invoke unwrap" in err


def test_explain_shows_way_command_and_every_change(
    wrapped: Wrapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["scripts", "wrap", "--exe=app", "--explain", "--", "a b"])
    out, _ = shown(wrapped(explain=True, program_args=["a b"], set_=["NAME=value"]))
    for words in (
        "test-stack",
        "via      env: ",
        "a b",
        "NAME",
        "you set it for this run",
        "run it: invoke wrap --exe=app -- ",
    ):
        assert words in out


def test_explain_says_on_stdout_what_would_be_placed(wrapped: Wrapped) -> None:
    told = "would create: C:\\App\\nvcuda.dll"
    out, err = shown(replace(wrapped(explain=True), notes=(told,)))
    assert told in out.splitlines()
    assert err == ""


def test_a_control_stack_changes_nothing(wrapped: Wrapped) -> None:
    runtime = replace(wrapped.runtime, path=None, files=())
    wrapped.staged = staged_over(runtime, kind=StackKind.CONTROL)
    result = wrapped(explain=True)
    assert result.environ.changes == ()
    assert "The environment stays as it is." in shown(result)[0]
