"""Ctrl-C and SIGTERM in every long step: one sentence, 130 or 143, no process left, the next run works."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from scripts.app.context import Workspace
from tests.checkout import Checkout, make_checkout
from tests.small_stack import SmallStack, small_stack
from tests.test_bootstrap import BARE, Clone, answer, fake_uv
from tests.test_pins_tasks import OLD, OLD_NAME, WHEEL, certificates, running, serve, serve_tags, server, ws

__all__ = ["certificates", "running", "server", "ws"]

pytestmark = [pytest.mark.proof, pytest.mark.posix_only]

PATIENCE = 120.0
HOLDING = Path(__file__).with_name("holding.py")
#: The variable by which a process that we started is known, whatever its parent is now.
TAG = "INTERRUPTED_STEP"
SIGNALS = [signal.SIGINT, signal.SIGTERM]
EVERY = [*SIGNALS, *([signal.SIGQUIT] if hasattr(signal, "SIGQUIT") else [])]
#: A compiler that answers, and whose own helper never ends: as `cc` and its `cc1`.
COMPILER = """#!/bin/sh
case " $*" in
" --version") echo "slow compiler 1.0" ;;
" -dumpmachine") echo "x86_64-linux-gnu" ;;
*) echo $$ > "$0.begun"; sleep 120 & wait ;;
esac
"""


@dataclass(frozen=True)
class Step:
    """One long step: the line, and what holds it up.

    Attributes:
        words: the line.
        hold: what ``holding.py`` holds; empty where a program of the step hangs instead.
        fault: how the CPU reference misbehaves; then the step is reached when a child runs.
        small: with the lock of one small download.
        served: with a lock whose files and releases a server of the test has.
    """

    words: tuple[str, ...]
    hold: str = ""
    fault: str = ""
    small: bool = False
    served: bool = False
    env: dict[str, str] = field(default_factory=dict)


SMALL = ("--stack=small", "--yes")
STEPS = {
    "imports": Step(("status",), hold="scripts.cli.present"),
    "imports of the task": Step(("status",), hold="scripts.app.status"),
    "imports of a library": Step(("status",), hold="msgspec"),
    "a machine is looked at": Step(("scan",), hold="scripts.host.facts:scan_host"),
    "fetch": Step(("fetch", *SMALL), hold="scripts.store.fetch:fetch", small=True),
    "unpack": Step(("stage", *SMALL), hold="scripts.store.archive:_unpack_into", small=True),
    "assemble": Step(("stage", *SMALL), hold="scripts.staging.assemble:_bring", small=True),
    "check": Step(("check",), fault="hang"),
    "workload": Step(("run", "--workload=gemm"), fault="hang"),
    "probe": Step(("probe", "--only=cublas-sgemm"), fault="hang"),
    "verify": Step(("verify", "--deep"), hold="scripts.osal.fs:hash_file"),
    "pins.check": Step(("pins.check",), hold="scripts.net.request:open_url", served=True),
    "pins.check --stale": Step(
        ("pins.check", "--stale"), hold="scripts.net.session:Transport.session", served=True
    ),
    "validate": Step(("validate", "--stack=cpu-reference"), fault="hang"),
    "preflight of a folder": Step(("preflight", "--exe=FOLDER/program"), hold="scripts.preflight.look:look"),
    "bundle": Step(("report", "--bundle"), hold="scripts.app.report:make_bundle"),
    "matrix": Step(("matrix",), hold="scripts.app.matrix:site_files"),
    "wrap": Step(("wrap", "--exe=true"), hold="scripts.app.wrap_plan:plan_run"),
}


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Checkout:
    """A checkout where the CPU reference is active."""
    checkout = make_checkout(tmp_path_factory.mktemp("steps"), cache=shared_store)
    checkout.json("setup")
    return checkout


@pytest.fixture
def served(ws: Workspace, server: HTTPServer) -> dict[str, str]:
    """The settings with which a server of this test has all that a lock names."""
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    serve_tags(server, "v7-preview.1")
    server.expect_request("/files/wheel-1.0.whl").respond_with_data(WHEEL)
    return {**ws.environ, "CUDA_AMD_LOCK": str(ws.lock_path)}


def many_files(folder: Path) -> Path:
    """Make the folder of a program with libraries that were never read."""
    folder.mkdir()
    program = Path(shutil.which("true") or "true").read_bytes()
    for number in range(20):
        (folder / f"lib{number}.so").write_bytes(program + bytes([number]))
    (folder / "program").write_bytes(program + os.urandom(8))
    (folder / "program").chmod(0o755)
    return folder


def tagged(tag: str) -> list[int]:
    """Return the living processes whose environment has the tag."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"{TAG}={tag}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"it never came true: {what}"
        time.sleep(0.05)


@pytest.fixture
def tag(tmp_path: Path) -> Iterator[str]:
    """A tag of this test alone; what bears it at the end is killed."""
    yield str(tmp_path)  # its name alone may be another worker's, too
    for pid in tagged(str(tmp_path)):
        os.kill(pid, signal.SIGKILL)


def interrupted(
    command: list[str], env: dict[str, str], number: int, reached: Callable[[], bool], cwd: Path
) -> str:
    """Run a command, send a signal when the step is reached, and return what it said."""
    with subprocess.Popen(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    ) as run:
        until(lambda: reached() or run.poll() is not None, "the step is reached")
        if run.poll() is None:
            run.send_signal(number)
        said, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 128 + number, said
    return said


def assert_one_sentence(said: str, number: int) -> None:
    """It ends with the sentence, and there is no traceback."""
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    begin = "Interrupted" if number == signal.SIGINT else f"Ended by {signal.Signals(number).name}"
    assert said.rstrip().splitlines()[-1].startswith(begin), said
    assert said.count(begin) == 1


def half_made(checkout: Checkout, small: SmallStack) -> list[str]:
    """Name what a killed run would leave half-written; a lock is no leftover, nor is a download to resume."""
    roots = [checkout.root / "stage", checkout.state, checkout.cache, small.folder / "own store"]
    names = (path for root in roots if root.is_dir() for path in root.rglob("*"))
    return [str(path) for path in names if path.suffix in {".tmp", ".new"} or path.name.startswith(".making")]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda n: n.name)
@pytest.mark.parametrize("name", STEPS)
def test_a_signal_ends_the_step_and_the_next_run_works(
    ready: Checkout, tmp_path: Path, tag: str, served: dict[str, str], *, name: str, number: int
) -> None:
    step, marker, small = STEPS[name], tmp_path / "reached", small_stack(tmp_path / "small")
    folder = many_files(tmp_path / "folder")
    words = tuple(word.replace("FOLDER", str(folder)) for word in step.words)
    words = (*words, f"--mirror={small.mirror}") if step.small else words
    plain = ready.environ | step.env | (small.env if step.small else served if step.served else {})
    env = plain | {TAG: tag} | ({"CUDA_AMD_CPU_FAULT": step.fault} if step.fault else {})
    line = [sys.executable, str(ready.front_door())]
    if step.hold:
        line = [sys.executable, str(HOLDING), str(ready.root), str(marker), step.hold]

    def reached() -> bool:
        return marker.exists() if step.hold else len(tagged(tag)) > 1

    said = interrupted([*line, *words], env, number, reached, ready.root)
    assert_one_sentence(said, number)
    assert tagged(tag) == []
    assert half_made(ready, small) == []
    done = ready.run(*words, env=plain)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("number", SIGNALS, ids=lambda n: n.name)
@pytest.mark.parametrize(
    ("words", "hold"),
    [
        (("status",), "scripts.cli.views.status:show_status"),
        (("wrap", "--exe=true"), "scripts.cli.views.wrap:show_wrap"),
    ],
    ids=["status", "wrap"],
)
def test_a_signal_while_the_result_is_shown_says_that_the_task_was_done(
    ready: Checkout, tmp_path: Path, words: tuple[str, ...], hold: str, number: int
) -> None:
    marker = tmp_path / "reached"
    line = [sys.executable, str(HOLDING), str(ready.root), str(marker), hold, *words]
    said = interrupted(line, ready.environ, number, marker.exists, ready.root)
    assert_one_sentence(said, number)
    assert said.endswith("; the task itself was done, its result may not have been shown whole.\n")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda n: n.name)
def test_compilers_end_with_us(checkout: Checkout, tmp_path: Path, tag: str, number: int) -> None:
    compiler = tmp_path / "slow cc"
    compiler.write_text(COMPILER, encoding="utf-8")
    compiler.chmod(0o755)
    store = tmp_path / "store of its own"
    env = checkout.environ | {TAG: tag, "CC": f"'{compiler}'", "CUDA_AMD_CACHE": str(store)}
    line = [sys.executable, str(checkout.front_door()), "setup", "--stack=cpu-reference"]
    begun = tmp_path / "slow cc.begun"
    said = interrupted(line, env, number, begun.exists, checkout.root)
    assert "Compiling the CPU reference with slow compiler 1.0, once: " in said
    assert "cuda_check" in said
    assert said.endswith(
        "; the unfinished compilation begins again; to go on: invoke setup --stack=cpu-reference.\n"
    )
    assert_one_sentence(said, number)
    assert tagged(tag) == []
    assert not [path for path in store.rglob("*") if path.name.startswith("lib")]


def test_a_failed_compilation_ends_the_others(checkout: Checkout, tmp_path: Path, tag: str) -> None:
    compiler = tmp_path / "slow cc"
    text = COMPILER.replace(
        "*) echo", '*libcublas.so.12*) while ! [ -e "$0.begun" ]; do sleep 0.1; done; exit 1 ;;\n*) echo'
    )
    compiler.write_text(text, encoding="utf-8")
    compiler.chmod(0o755)
    env = {TAG: tag, "CC": f"'{compiler}'", "CUDA_AMD_CACHE": str(tmp_path / "store of its own")}
    done = checkout.run("setup", "--stack=cpu-reference", env=env, timeout=60)
    assert "could not build libcublas.so.12" in done.stderr
    assert tagged(tag) == []


@pytest.mark.parametrize("number", EVERY, ids=lambda n: n.name)
def test_installers_end_with_us(tmp_path: Path, tag: str, number: int) -> None:
    clone = Clone(tmp_path)
    begun = tmp_path / "begun"
    path = fake_uv(tmp_path / "bin", f"touch '{begun}'; sleep 120 & wait")
    env = clone.environ(path) | {TAG: tag}
    said = interrupted([*BARE, str(clone.root / "scripts"), "status"], env, number, begun.exists, clone.root)
    assert_one_sentence(said, number)
    assert tagged(tag) == []
    assert answer(clone.run())["value"] == "first"
