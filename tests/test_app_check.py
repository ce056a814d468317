from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app.check import CheckResult, check_program, check_staged
from scripts.app.context import Staged
from scripts.cli.console import Out
from scripts.cli.views.measuring import show_check as show
from scripts.errors import StagedFileError
from scripts.model import Host, Lock, Outcome, Runtime, RuntimeFile, Stack, StackKind
from tests.checkout import workspace_in
from tests.python_programs import write_python_program

GOOD = "cufft11   : OK\nnvcuda    : OK (/x/libcuda.so.1)\ncublas12  : OK\n"
PROVIDES = ("nvcuda", "cublas12", "cufft11")


def staged(folder: Path, body: str) -> Staged:
    """A stack whose cuda_check is a small program of ours that behaves as ``body`` says."""
    write_python_program(folder / "cuda_check", f"import os, sys, time\n{body}")
    files = [RuntimeFile(name=f"lib{p}.so", sha256="a" * 64, size=1, provides=p) for p in PROVIDES]
    files.append(RuntimeFile(name="cuda_check", sha256="c" * 64, size=1))
    return Staged(
        lock=Lock(path=folder / "pins.lock", digest="d" * 64, artifacts={}, stacks={}),
        stack=Stack(id="cpu-reference", kind=StackKind.REFERENCE),
        runtime=Runtime(stack="cpu-reference", digest="b" * 64, path=folder, files=tuple(files)),
        host=Host(os="linux", machine="x86_64"),
    )


def checked(folder: Path, body: str, *, seconds: float = 60.0) -> CheckResult:
    ws = workspace_in(folder, environ={"PATH": "/usr/bin:/bin"})
    return check_staged(ws, staged(folder, body), seconds=seconds)


def say(text: str) -> str:
    return f"sys.stdout.write({text!r}); sys.stdout.flush()"


def shown(result: CheckResult) -> str:
    stdout, stderr = io.StringIO(), io.StringIO()
    show(result, Out(stdout, stderr))
    return stdout.getvalue() + stderr.getvalue()


@pytest.mark.slow
@pytest.mark.posix_only
@pytest.mark.parametrize(
    ("body", "seconds", "outcome", "code"),
    [
        (say(GOOD), 60.0, Outcome.PASS, 0),
        (say(GOOD) + "; time.sleep(600)", 1.5, Outcome.HANG_AFTER_RESULT, 0),
        (say(GOOD) + "; os.abort()", 60.0, Outcome.CRASH_AFTER_RESULT, 0),
        (say(GOOD[:16]) + "; time.sleep(600)", 1.5, Outcome.TIMEOUT, 3),
        (say(GOOD[:16]) + "; os.abort()", 60.0, Outcome.ERROR, 3),
        (say(GOOD.replace("nvcuda    : OK", "nvcuda: ERROR: Loading")), 60.0, Outcome.ERROR, 3),
        ("pass", 60.0, Outcome.NOT_REACHED, 3),
    ],
    ids=["good", "hang-after", "crash-after", "hang-before", "crash-before", "failing", "silent"],
)
def test_how_a_check_ends(tmp_path: Path, body: str, seconds: float, outcome: Outcome, code: int) -> None:
    result = checked(tmp_path, body, seconds=seconds)
    assert (result.verdict.outcome, result.exit_code) == (outcome, code)
    assert json.loads(json.dumps(result.to_json()))["outcome"] == outcome.value
    assert result.verdict.reason in shown(result)


@pytest.mark.posix_only
def test_what_a_library_says_on_stderr_is_kept_redacted_and_never_joins_a_line(tmp_path: Path) -> None:
    body = say(GOOD.rstrip()) + "; sys.stderr.write('Hip error: /home/somebody/x (100)\\ncublas13: OK\\n')"
    result = checked(tmp_path, body)
    assert result.verdict.loads
    assert result.noise == ("Hip error: /home/<user>/x (100)",)
    assert "cublas13" not in {r.capability for r in result.verdict.results}
    assert b"/home/somebody/x" in result.output


@pytest.mark.posix_only
def test_what_is_missing_behind_the_layer_is_shown_beside_the_lines(tmp_path: Path) -> None:
    result = checked(tmp_path, say(GOOD))
    assert result.notes == (), "nothing of HIP is asked for on Linux, or by the reference"
    found = replace(result, notes=("cudnn8 will fail: cudnn64_8.dll → MIOpen.dll: not in HIP",))
    assert "cudnn8 will fail" in shown(found)
    assert found.to_json()["notes"] == list(found.notes)
    assert found.exit_code == 0, "a library that nobody asks for is no failure of the check"


@pytest.mark.posix_only
def test_the_reference_stack_is_loudly_no_gpu(tmp_path: Path) -> None:
    text = " ".join(shown(checked(tmp_path, say(GOOD))).split())
    assert "proves the pipeline, not a GPU" in text
    assert "Loading is not working" in text


def test_the_topmost_check_of_a_runtime_is_used() -> None:
    names = ("zluda/32/cuda_check.exe", "cuda_check.exe", "cuda_check.txt.dll")
    files = tuple(RuntimeFile(name=n, sha256="a" * 64, size=1) for n in names)
    runtime = Runtime(stack="s", digest="b" * 64, path=Path("r"), files=files)
    assert check_program(runtime) == Path("r") / "cuda_check.exe"


@pytest.mark.parametrize("path", [None, Path("r")], ids=["nothing-staged", "no-check-in-it"])
def test_a_runtime_without_a_check_is_an_error(path: Path | None) -> None:
    with pytest.raises(StagedFileError) as caught:
        check_program(Runtime(stack="s", digest="b" * 64, path=path))
    assert caught.value.reference == "no-cuda-check"
