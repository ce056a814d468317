"""``invoke probe``: a matrix on the CPU reference with its document; what was interrupted goes on."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scripts.app import probe as task
from scripts.app.context import Workspace, workspace_from_environ
from scripts.bench.workload_record import MARK
from scripts.cli.console import Out, TerminalProgress
from scripts.errors import UsageError
from scripts.evidence.evidence_io import read_document
from scripts.model import Outcome
from scripts.osal.processes import Captured, Command
from scripts.probing.catalogue import probes
from tests.checkout import Checkout, make_ready
from tests.native_cpu import no_compiler

pytestmark = pytest.mark.skipif(bool(no_compiler()), reason=no_compiler())


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Checkout:
    """One checkout with the CPU reference for all tests here; they only add reports to it."""
    return make_ready(tmp_path_factory.mktemp("probes"), cache=shared_store)


@pytest.fixture
def place(mine: Checkout) -> Workspace:
    return workspace_from_environ(mine.environ, root=mine.root)


class Answers:
    """Stands in for processes: answers by the probe's name, and remembers who was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.timeouts: list[float] = []
        self.slow: set[str] = set()
        self.wrong: set[str] = set()
        self.stop_after = 99
        self.detail = "off"

    def __call__(self, command: Command, *, timeout: float, stop: threading.Event) -> Captured:
        name = next(word for word in command.args if word in probes())
        if len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.asked.append(name)
        self.timeouts.append(timeout)
        if name in self.slow:
            self.slow.discard(name)
            return Captured(returncode=-9, stdout=b"", stderr=b"", timed_out=True)
        word = "incorrect" if name in self.wrong else "pass"
        record = {
            "outcome": word,
            "cases": 1,
            "results": [{"case": "a", "outcome": word, "detail": self.detail}],
        }
        line = f"{MARK} {json.dumps(record)}\n"
        return Captured(returncode=3 if name in self.wrong else 0, stdout=b"", stderr=line.encode())


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    made = Answers()
    monkeypatch.setattr(task, "capture", made)
    return made  # type: ignore[return-value]  # a fixture without an end


NAMES = "memory-copy,memory-set,memory-pool,memory-accounting"


@pytest.mark.slow
def test_a_matrix_leaves_a_document_with_every_attempt(mine: Checkout) -> None:
    data: Any = mine.json("probe", "--only=memory-copy,kernel-warps")
    assert (data["score"]["passed"], data["percent"], data["simulated"]) == (2, 100.0, True)
    document = read_document(Path(data["evidence"]))
    assert [r.capability for r in document.results] == ["memory-copy", "kernel-warps"]
    assert [(a.capability, a.outcome) for a in document.attempts] == [
        ("memory-copy", Outcome.PASS),
        ("kernel-warps", Outcome.PASS),
    ]
    assert document.simulated
    assert "cufft-1d" in document.not_exercised


@pytest.mark.slow
def test_what_was_interrupted_goes_on_where_it_stopped(place: Workspace, answers: Answers) -> None:
    answers.stop_after = 2
    with pytest.raises(KeyboardInterrupt):
        task.probe(place, only=NAMES)
    first, answers.asked, answers.stop_after = list(answers.asked), [], 99
    result = task.probe(place, only=NAMES)
    assert sorted(first + answers.asked) == sorted(NAMES.split(","))
    assert (result.kept, result.score.passed) == (2, 4)
    answers.asked = []
    assert task.probe(place, only=NAMES).kept == 0  # a finished one is not taken up
    assert len(answers.asked) == 4


def test_off_a_terminal_lines_say_how_far_it_is(
    place: Workspace, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    del answers
    monkeypatch.setattr(task, "EVERY", 2)
    stderr = io.StringIO()
    noted = replace(place, progress=TerminalProgress(Out(io.StringIO(), stderr)))
    task.probe(noted, only=NAMES, fresh=True)
    lines = stderr.getvalue().splitlines()
    assert lines == ["4 probes with cpu-reference; this can take minutes", "2 of 4 probes done"]


@pytest.mark.parametrize(
    ("only", "first"),
    [
        (NAMES, "2 probes with cpu-reference; this can take minutes; 2 results with"),
        ("memory-copy", "1 result with"),
    ],
)
def test_what_an_interrupted_run_has_left_is_announced(
    place: Workspace, answers: Answers, monkeypatch: pytest.MonkeyPatch, only: str, first: str
) -> None:
    monkeypatch.setattr(task, "_threads", lambda _kind: 1)
    answers.stop_after = 2
    with pytest.raises(KeyboardInterrupt):
        task.probe(place, only=NAMES, fresh=True)
    answers.stop_after = 99
    stderr = io.StringIO()
    task.probe(replace(place, progress=TerminalProgress(Out(io.StringIO(), stderr))), only=only)
    known = "cpu-reference known from the interrupted run; --fresh asks again"
    assert stderr.getvalue().splitlines() == [f"{first} {known}"]


@pytest.mark.parametrize(("timeout", "most"), [("", 900), ("1000", 1000)])
def test_a_lasting_probe_comes_last_and_is_announced(
    place: Workspace, answers: Answers, monkeypatch: pytest.MonkeyPatch, timeout: str, most: int
) -> None:
    monkeypatch.setattr(task, "_threads", lambda _kind: 1)
    stderr = io.StringIO()
    noted = replace(place, progress=TerminalProgress(Out(io.StringIO(), stderr)))
    task.probe(noted, only="memory-copy,endurance-*,cufft-1d", timeout=timeout, fresh=True)
    assert answers.asked == ["memory-copy", "endurance-memory-pressure", "cufft-1d", "endurance-soak"]
    leave_out = "--only='!endurance-soak'"
    assert stderr.getvalue().splitlines()[0] == (
        "4 probes with cpu-reference; this can take minutes; endurance-soak comes last: an attempt of it "
        f"ends after {most} s at the latest; to leave it out: {leave_out}"
    )
    answers.asked, answers.stop_after = [], len(probes())
    task.probe(noted, only=leave_out.removeprefix("--only="), fresh=True)
    assert set(answers.asked) == set(probes()) - {"endurance-soak"}


def test_a_slow_probe_is_named_while_it_runs(
    place: Workspace, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, heard = io.StringIO(), threading.Event()

    class Heard(TerminalProgress):
        def note(self, message: str) -> None:
            super().note(message)
            if message.startswith("waiting for memory-copy"):
                heard.set()

    def slow(command: Command, *, timeout: float, stop: threading.Event) -> Captured:
        assert heard.wait(60)
        return answers(command, timeout=timeout, stop=stop)

    monkeypatch.setattr(task, "SLOW", 0.01)
    monkeypatch.setattr(task, "capture", slow)
    task.probe(replace(place, progress=Heard(Out(io.StringIO(), said))), only="memory-copy", fresh=True)
    stop = f"to stop, press Ctrl-C or end process {os.getpid()}; what is done is kept"
    assert (
        f"waiting for memory-copy; this attempt ends after 120 s at the latest; {stop}\n" in said.getvalue()
    )


def test_fresh_begins_anew(place: Workspace, answers: Answers) -> None:
    answers.stop_after = 2
    with pytest.raises(KeyboardInterrupt):
        task.probe(place, only=NAMES)
    answers.asked, answers.stop_after = [], 99
    assert task.probe(place, only=NAMES, fresh=True).kept == 0
    assert len(answers.asked) == 4


def test_a_probe_without_an_answer_gets_one_longer_attempt(place: Workspace, answers: Answers) -> None:
    answers.slow = {"memory-set"}
    result = task.probe(place, only="memory-set", timeout="10")
    assert answers.timeouts == [10.0, 30.0]
    assert [a.result.outcome for a in result.attempts] == [Outcome.TIMEOUT, Outcome.PASS]
    assert result.score.passed == 1


@pytest.mark.parametrize("detail", ['token="abc', 'password: "x', "in C:\\Users\\Somebody\\"])
def test_the_matrix_stays_json_whatever_is_redacted(place: Workspace, answers: Answers, detail: str) -> None:
    answers.wrong, answers.detail = {"memory-set"}, detail
    result = task.probe(place, only="memory-set", fresh=True)
    text = Path(result.evidence).with_name("matrix.json").read_text(encoding="utf-8")
    whole = json.loads(text)
    outcomes = [attempt["result"]["outcome"] for attempt in whole["attempts"]]
    assert outcomes == ["incorrect"] * len(result.attempts)
    assert "abc" not in text
    assert "Somebody" not in text


@pytest.mark.slow
def test_two_documents_are_compared(mine: Checkout, place: Workspace, answers: Answers) -> None:
    good = task.probe(place, only="memory-set,memory-copy").evidence
    answers.wrong = {"memory-set"}
    bad = task.probe(place, only="memory-set,memory-copy,memory-pool").evidence
    data = mine.json("probe", "--compare", good, bad, code=3)
    assert {d["probe"]: d["change"] for d in data["differences"]} == {
        "memory-copy": "same",
        "memory-set": "worse",
        "memory-pool": "only-second",
    }
    assert [(one["passed"], one["failed"]) for one in data["scores"]] == [(2, 0), (2, 1)]
    said = mine.run("probe", "--compare", bad, good)
    assert said.returncode == 0
    assert "memory-set incorrect -> pass" in said.stdout
    assert "66.7 % passed (2 passed, 1 failed, 0 refused, 0 not here)" in said.stdout


def test_what_cannot_be_compared_or_asked_is_refused(place: Workspace, answers: Answers) -> None:
    good = task.probe(place, only="memory-set")
    with pytest.raises(UsageError, match="two documents"):
        task.probe(place, compare=[good.evidence])
    with pytest.raises(UsageError, match="neither cuda nor cpu"):
        task.probe(place, device="tpu")
