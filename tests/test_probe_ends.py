"""How probes end, shown by real processes: hangs, crashes, trees of processes, boxes, several at once."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app import probe as task
from scripts.app.context import Workspace, workspace_from_environ
from scripts.bench.workload_record import MARK
from scripts.cli.console import Out, TerminalProgress
from scripts.model import Level, Outcome, StackKind
from tests.checkout import Checkout, make_ready
from tests.native_cpu import no_compiler

pytestmark = [pytest.mark.proof, pytest.mark.skipif(bool(no_compiler()), reason=no_compiler())]

#: How every stand-in for a probe begins: ``right()`` prints the line of a right answer.
BEGIN = f"""import json, os, subprocess, sys, time
def right():
    case = {{"case": "a", "outcome": "pass"}}
    line = json.dumps({{"outcome": "pass", "cases": 1, "results": [case]}})
    print({MARK!r}, line, file=sys.stderr, flush=True)
"""
#: Starts a process that goes on writing, and waits for it.
TREE = """
grow = "import time\\nwhile True:\\n    open({0!r}, 'ab').write(b'.'); time.sleep(0.05)"
subprocess.Popen([sys.executable, "-c", grow])
while not os.path.exists({0!r}):
    time.sleep(0.05)
right()
time.sleep(600)
"""
#: Answers only when another probe runs at the same time.
TOGETHER = """
mine = os.path.join({0!r}, sys.argv[1])
open(mine, "w").close()
for _ in range(600):
    if len(os.listdir({0!r})) > 1:
        right()
        break
    time.sleep(0.1)
"""
#: Answers only after a while, and leaves a file when it was not ended before.
SLOW = """
open(os.path.join({0!r}, sys.argv[1] + ".begun"), "w").close()
time.sleep(30)
open(os.path.join({0!r}, sys.argv[1] + ".finished"), "w").close()
"""
BOX = """
import ctypes
right()
ctypes.windll.user32.MessageBoxW(None, "amdhip64_7.dll was not found", "System Error", 0)
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Checkout:
    """One checkout with the CPU reference for all tests here; they only add reports to it."""
    return make_ready(tmp_path_factory.mktemp("ends"), cache=shared_store)


@pytest.fixture
def place(mine: Checkout) -> Workspace:
    return workspace_from_environ(mine.environ, root=mine.root)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program that is run in place of the probes; a test writes it."""
    script = tmp_path / "stand-in" / "probe.py"
    script.parent.mkdir()
    monkeypatch.setattr(task, "SCRIPT", (str(script),))
    return script


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [("hang:exit", Outcome.HANG_AFTER_RESULT), ("crash-at-exit", Outcome.CRASH_AFTER_RESULT)],
)
def test_a_right_answer_with_a_bad_end_is_kept_apart(mine: Checkout, fault: str, outcome: Outcome) -> None:
    env = {"CUDA_AMD_CPU_FAULT": fault}
    data = mine.json("probe", "--only=driver-api", "--timeout=5", env=env, code=3)
    (found,) = data["results"]
    assert (found["outcome"], found["level"]) == (outcome, Level.FUNCTIONAL)
    assert (data["score"]["passed"], data["score"]["failed"]) == (0, 1)


def test_the_whole_tree_of_a_probe_ends_with_it(place: Workspace, stand_in: Path) -> None:
    grown = stand_in.with_name("grown")
    stand_in.write_text(BEGIN + TREE.format(grown.as_posix()), encoding="utf-8")
    result = task.probe(place, only="driver-api", timeout="20" if sys.platform == "win32" else "5")
    assert [r.outcome for r in result.results] == [Outcome.HANG_AFTER_RESULT]
    size = grown.stat().st_size
    time.sleep(0.5)
    assert grown.stat().st_size == size > 0


@pytest.mark.skipif(sys.platform != "win32", reason="message boxes are Windows' own")
def test_a_box_counts_as_a_hang_and_its_title_is_the_reason(place: Workspace, stand_in: Path) -> None:
    stand_in.write_text(BEGIN + BOX, encoding="utf-8")
    (found,) = task.probe(place, only="driver-api", timeout="60").results
    assert found.outcome is Outcome.DIALOG
    assert "System Error: amdhip64_7.dll" in found.detail


def test_probes_run_at_once_where_they_share_no_gpu(
    place: Workspace, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    running = stand_in.with_name("running")
    running.mkdir()
    stand_in.write_text(BEGIN + TOGETHER.format(str(running)), encoding="utf-8")
    result = task.probe(place, only="memory-copy,memory-set", timeout="120")
    assert result.score.passed == 2


@pytest.mark.posix_only
def test_a_signal_ends_all_probes_that_run_at_once(
    place: Workspace, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_threads", lambda _kind: 2)
    running = stand_in.with_name("running")
    running.mkdir()
    stand_in.write_text(BEGIN + SLOW.format(str(running)), encoding="utf-8")

    def interrupt() -> None:
        while len(list(running.glob("*.begun"))) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        task.probe(place, only="memory-copy,memory-set,memory-pool", timeout="120", fresh=True)
    assert sorted(path.name for path in running.iterdir()) == ["memory-copy.begun", "memory-set.begun"]


@pytest.mark.parametrize("kind", [kind for kind in StackKind if kind is not StackKind.REFERENCE])
def test_probes_that_share_a_gpu_run_one_after_the_other(kind: StackKind) -> None:
    assert task._threads(kind) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "file"])
def test_a_person_at_a_terminal_sees_a_table_that_grows(
    place: Workspace, stand_in: Path, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stand_in.write_text(BEGIN + "right()\n", encoding="utf-8")
    stdout = io.StringIO()
    shown = replace(place, progress=TerminalProgress(Out(stdout, stream)))
    assert task.probe(shown, only="memory-copy,memory-set,driver-api").score.passed == 3
    rows = [line.replace("|", " ").split() for line in stream.getvalue().splitlines()]
    for row in (["memory", "0", "0", "0", "0", "2"], ["all", "0", "0", "0", "0", "3"]):
        assert (row in rows) is stream.isatty()
    assert (["all", "3", "0", "0", "0", "0"] in rows) is stream.isatty()
    assert stdout.getvalue() == ""
