"""A full disk or a denied file ends a task with a sentence and 50; what may be a bug keeps its traceback."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from scripts.app import status
from scripts.cli.parse import Call, read_or_answer
from scripts.cli.present import perform, refusal_of
from scripts.cli.verbs import VERBS
from scripts.errors import FetchError, HostError, LaunchError, UsageError, WorkspaceError


@pytest.mark.parametrize(
    ("error", "reference"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no-space"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/x/y"), "no-space"),
        (PermissionError(errno.EACCES, "Permission denied", "/x/y"), "not-allowed"),
        (OSError(errno.EROFS, "Read-only file system", "/x/y"), "not-allowed"),
        (PermissionError(errno.EACCES, "Permission denied"), None),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x/y"), None),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), None),
    ],
    ids=["full", "quota", "denied", "read-only", "denied, nobody knows what", "missing", "connection"],
)
def test_which_refusals_are_no_bugs(error: OSError, reference: str | None) -> None:
    refused = refusal_of(error)
    assert (refused.reference if refused else None) == reference
    assert refused is None or refused.hint
    assert refused is None or error.filename is None or error.filename in refused.context


def test_a_full_disk_in_the_middle_of_a_task_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/stage/reports")

    monkeypatch.setattr(status, "status", full)
    assert perform(Call(VERBS["status"], {}, as_json=True)) == 50
    assert json.loads(capsys.readouterr().out)["error"]["reference"] == "no-space"


@pytest.mark.posix_only
@pytest.mark.parametrize("task", ["status", "wrap"])
@pytest.mark.parametrize("variable", ["CUDA_AMD_CACHE", "CUDA_AMD_STATE", "CUDA_AMD_LOCK"])
@pytest.mark.parametrize(
    ("text", "gone"),
    [("/" + "x" * 300, False), ("/x" * 3000, False), ("store", False), ("../store", False), ("store", True)],
    ids=["long name", "many folders", "relative", "relative, upwards", "relative to a folder that is gone"],
)
def test_a_variable_that_names_no_possible_place_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    task: str,
    variable: str,
    text: str,
    gone: bool,
) -> None:
    monkeypatch.setenv(variable, text)
    if gone:
        folder = tmp_path / "gone"
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
    options = {"exe": "/bin/true"} if task == "wrap" else {}
    code = perform(Call(VERBS[task], options, as_json=True))
    said = json.loads(capsys.readouterr().out)["error"]
    assert (code, said["reference"]) == (121 if task == "wrap" else 2, "bad-path")
    assert variable in said["message"]
    assert said["hint"]
    assert said["code"] == code


@pytest.mark.parametrize(
    ("kind", "code"), [(UsageError, 121), (FetchError, 122), (HostError, 123), (LaunchError, 126)]
)
def test_the_code_that_wrap_prints_is_the_one_it_ends_with(
    kind: type[WorkspaceError], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise kind("x", "y")

    monkeypatch.setattr("scripts.app.wrap.wrap", refuse)
    assert perform(Call(VERBS["wrap"], {"exe": "p"}, as_json=True)) == code
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code
    assert read_or_answer(["wrap", "--nope", "--json"]) == 121
    assert json.loads(capsys.readouterr().out)["error"]["code"] == 121


@pytest.mark.parametrize(
    ("options", "line", "task"),
    [
        ({"only": "memory-*", "fresh": True}, "; to go on: invoke probe '--only=memory-*'.", "probe"),
        ({"quick": True}, "; to go on: invoke probe --quick.", "probe"),
        ({"device": "cpu"}, "", "probe"),
        ({}, "; to go on: invoke setup.", "setup"),
        (
            {"with_": "a,b", "only_proven": True, "offline": False},
            "; begun again; to go on: invoke setup --with=a,b --only-proven.",
            "setup",
        ),
        ({}, "", "status"),
    ],
)
@pytest.mark.posix_only
def test_an_interrupted_task_names_the_line_that_goes_on(
    options: dict[str, object],
    line: str,
    task: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        stopped = KeyboardInterrupt()
        if "with_" in options:
            stopped.add_note("begun again")
        raise stopped

    monkeypatch.setattr(f"scripts.app.{task}.{task}", interrupted)
    monkeypatch.setattr("scripts.cli.present.discard_stdout", lambda: None)
    assert perform(Call(VERBS[task], options)) == 130
    noted = capsys.readouterr().err
    assert line in noted
    assert ("to go on" in noted) is bool(line)


def test_what_may_be_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "x")

    monkeypatch.setattr(status, "status", missing)
    with pytest.raises(FileNotFoundError):
        perform(Call(VERBS["status"], {}, as_json=True))
