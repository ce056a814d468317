"""What cannot be started as it was named: the whole line to type instead, or the system it is for."""

from __future__ import annotations

import io
import os
import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app.context import ROOT, workspace_from_environ
from scripts.app.preflight import preflight
from scripts.app.wrap import wrap
from scripts.app.wrap_result import not_started_code
from scripts.cli.console import Out
from scripts.cli.parse import Call, read_line
from scripts.cli.views.preflight import show_preflight as show
from scripts.errors import LaunchError, UsageError, WorkspaceError
from scripts.launch.program import find_program, interpreter_line, refuse_foreign, unstartable_script
from scripts.model import Host
from scripts.osal.text import option
from scripts.placement.plan import another_way, refuse_system
from tests.preflight_programs import exe
from tests.wrapping import runtime_in, staged_over, workspace

PYTHON_LINE = b"#!/usr/bin/env python3\n"


def file(path: Path, data: bytes = b"print(1)\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path


def refusal(tmp_path: Path, program: Path, *args: str, **options: str) -> WorkspaceError:
    """Return the error with which ``wrap`` refuses a program."""
    ready = staged_over(runtime_in(tmp_path / "runtime", "libcuda.so.1"))
    with pytest.raises(WorkspaceError) as caught:
        wrap(
            workspace(tmp_path),
            exe=str(program),
            program_args=args,
            staged=lambda *_: ready,
            **options,  # type: ignore[arg-type]  # options that are text
        )
    assert not_started_code(caught.value) == 126
    return caught.value


def closing(tmp_path: Path, program: Path, stack: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the last line of ``preflight`` on Linux."""
    monkeypatch.setattr("scripts.app.preflight.host_of", lambda _ws: Host(os="linux", machine="x86_64"))
    ws = workspace_from_environ(dict(os.environ), root=ROOT)
    ws = replace(ws, stage=tmp_path / "s", state_root=tmp_path / "t", cache_root=tmp_path / "c")
    shown = io.StringIO()
    show(preflight(ws, exe=str(program), stack=stack), Out(stdout=shown, stderr=shown))
    return shown.getvalue().rstrip().rpartition("\n")[2]


@pytest.mark.posix_only
@pytest.mark.parametrize(
    ("data", "mode", "reference"),
    [
        (PYTHON_LINE, 0o644, "program-not-executable"),
        (b"print(1)\n", 0o644, "program-not-executable"),
        (b"print(1)\n", 0o755, "program-format"),
        (b"", 0o755, "program-format"),
    ],
)
def test_a_python_script_is_answered_with_its_interpreters_line(
    tmp_path: Path, data: bytes, mode: int, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = file(tmp_path / "my app" / "train.py", data, mode)
    error = refusal(tmp_path, program, "a", "b c")
    assert error.reference == reference
    assert error.hint == f"type invoke wrap --exe=python3 -- \"{program}\" a 'b c'"
    last = closing(tmp_path, program, "zluda-v6-linux", monkeypatch)
    assert last.endswith(f'type invoke wrap --exe=python3 --stack=zluda-v6-linux -- "{program}"')


@pytest.mark.posix_only
def test_the_line_keeps_the_options_that_were_given(tmp_path: Path) -> None:
    program = file(tmp_path / "a$b.py", mode=0o644)
    hint = refusal(tmp_path, program, "--x=$y", stack="s", via="env").hint
    read = read_line(shlex.split(hint.partition("invoke ")[2]))
    assert isinstance(read, Call)
    assert read.options == {"exe": "python3", "stack": "s", "via": "env"}
    assert read.arguments == (str(program), "--x=$y")


@pytest.mark.parametrize(
    ("name", "data", "mode", "answer"),
    [
        ("a.py", PYTHON_LINE, 0o755, ("linux", "")),
        pytest.param("a.PY", PYTHON_LINE, 0o644, ("linux", "mode"), marks=pytest.mark.posix_only),
        pytest.param("a.sh", b"echo", 0o644, ("linux", ""), marks=pytest.mark.posix_only),
        ("a.py", PYTHON_LINE, 0o755, ("win32", "windows")),
        ("a.exe", b"MZ", 0o755, ("win32", "")),
    ],
)
def test_which_scripts_need_their_interpreter(
    tmp_path: Path, name: str, data: bytes, mode: int, answer: tuple[str, str]
) -> None:
    platform, lacks = answer
    assert unstartable_script(file(tmp_path / name, data, mode), platform=platform) == lacks


def test_the_line_for_windows_is_quoted_for_its_shells() -> None:
    line = interpreter_line(Path("train $x.py"), ["b c"], platform="win32")
    assert line == 'invoke wrap --exe=python.exe -- "train $x.py" "b c"'


@pytest.mark.posix_only
def test_a_windows_program_is_for_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that may be executed is left to the system: Wine may be registered for it."""
    program = file(tmp_path / "app.exe", exe({"cublas64_12.dll": ["cublasSgemm_v2"]}), 0o644)
    error = refusal(tmp_path, program)
    assert (error.reference, error.hint) == ("program-format", "start it on Windows")
    assert error.message == f"{program} is a Windows program, which does not run on this system"
    for stack in ("zluda-v6-linux", "zluda-v6p69-sdk64"):
        last = closing(tmp_path, program, stack, monkeypatch)
        assert "invoke stacks" not in last
        assert "Windows" in last


def test_a_program_for_every_system_is_not_refused(tmp_path: Path) -> None:
    refuse_foreign(file(tmp_path / "llamafile", b"MZqFpD='\n" + bytes(100)), platform="linux")
    refuse_foreign(file(tmp_path / "app.exe", b"MZ" + bytes(100)), platform="win32")
    with pytest.raises(LaunchError):
        refuse_foreign(file(tmp_path / "app.exe", b"MZ" + bytes(100)), platform="linux")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "name it: invoke wrap --exe=PROGRAM -- ARGUMENTS"),
        ("trian", "give the program's full path"),
        ("bin/trian", "give the program's full path"),
        (str(Path("no", "trian").absolute()), "check the path"),
    ],
)
def test_a_program_that_is_not_there_has_a_hint_for_both_forms(tmp_path: Path, text: str, hint: str) -> None:
    with pytest.raises((LaunchError, UsageError)) as caught:
        find_program(text, cwd=tmp_path, search=lambda _name: None, platform="linux")
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("text", "in_path", "meant"),
    [
        ("trian.py", None, "train.py"),
        ("TRAIN.PYY", None, "train.py"),
        ("bin/trian.py", None, ""),
        ("trian.py", "elsewhere/trian.py", "elsewhere/trian.py"),
        ("nothing alike", None, ""),
        ("model", None, ""),
    ],
)
def test_a_program_like_the_one_that_is_not_there_is_named(
    tmp_path: Path, text: str, in_path: str | None, meant: str
) -> None:
    file(tmp_path / "train.py", b"")
    (tmp_path / "models").mkdir()
    with pytest.raises(LaunchError) as caught:
        find_program(str(tmp_path / text), cwd=tmp_path, search=lambda _name: in_path, platform="linux")
    wanted = f"see whether this one was meant: {option('exe', tmp_path / meant)}"
    assert caught.value.hint == (wanted if meant else "check the path")


def test_what_was_looked_for_is_said(tmp_path: Path) -> None:
    """Windows means the ``.exe`` where no extension is given."""
    for name, platform, said in (
        ("no", "linux", f"looked for no in {tmp_path}"),
        ("no", "win32", f"looked for no.exe and no in {tmp_path}"),
        ("a/no", "linux", f"looked for no in {tmp_path / 'a'}, which is no folder"),
    ):
        with pytest.raises(LaunchError) as caught:
            find_program(str(tmp_path / name), cwd=tmp_path, search=lambda _name: None, platform=platform)
        assert caught.value.context == (said,)


def test_another_way_is_named_with_the_program() -> None:
    program = Path("/usr/bin/my app")
    assert another_way(program).endswith(f'`invoke wrap --explain --exe="{program}"`')
    assert another_way(None).endswith("`invoke wrap --explain`")
    [refused] = refuse_system(Path("/usr/bin"), (Path("/usr"),), program)
    assert refused.hint.endswith(another_way(program))
