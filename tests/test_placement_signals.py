"""Whatever ends the body of ``placed``, the undo is finished first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scripts.osal.processes import this_process
from scripts.osal.signals import DeferredSignals, ForwardedSignals, console_closes
from scripts.placement.place import Placement, place, placed
from scripts.placement.rollback import undo
from tests.placement_harness import STACK, LightFs, World, mixed_world, tree

pytestmark = pytest.mark.proof


@pytest.fixture
def world(tmp_path: Path) -> World:
    return mixed_world(tmp_path)


def start(world: World, fs: LightFs) -> Placement:
    return place(world.target, world.items, **STACK, fs=fs, user=this_process())


def test_the_body_ends_and_everything_is_back(world: World) -> None:
    with placed(lambda: start(world, LightFs())) as session:
        assert (world.target / "nvml.dll").read_bytes() == b"ours: nvml"
    assert session.report is not None
    assert session.left == ()
    assert tree(world.target) == world.start


def test_an_error_in_the_body_passes_through_after_the_undo(world: World) -> None:
    with pytest.raises(RuntimeError, match="the program"), placed(lambda: start(world, LightFs())):  # noqa: PT012 - the body is the point
        msg = "the program"
        raise RuntimeError(msg)
    assert tree(world.target) == world.start


def test_what_is_left_is_told_and_not_raised(world: World) -> None:
    with placed(lambda: start(world, LightFs())) as session:
        (world.target / "nvml.dll").write_bytes(b"changed by the user")
    assert [line.partition(":")[0] for line in session.left] == ["nvml.dll"]
    undo(world.target, fs=LightFs(), mode="theirs")


def test_an_undo_that_cannot_be_tried_is_told_and_not_raised(world: World) -> None:
    with placed(lambda: start(world, LightFs())) as session:
        journal = world.target / ".cuda-amd" / "journal"
        journal.write_bytes(journal.read_bytes().replace(b'"format":1', b'"format":7'))
    assert "journal" in session.left[0]


SIGNALS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
if sys.platform != "win32":
    SIGNALS.append((signal.SIGHUP, SystemExit))


@pytest.mark.parametrize(("number", "kind"), SIGNALS)
def test_a_signal_in_the_body_ends_it_after_the_undo(
    world: World, number: int, kind: type[BaseException]
) -> None:
    with pytest.raises(kind) as caught, placed(lambda: start(world, LightFs())):  # noqa: PT012 - the body is the point
        signal.raise_signal(number)
        pytest.fail("the body goes on")
    if kind is SystemExit:
        assert caught.value.code == 128 + number  # type: ignore[attr-defined] # SystemExit has one
    assert tree(world.target) == world.start


class Interrupting(LightFs):
    """Sends signals before every operation of an undo, or of placing."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.on = False
        self.sent = 0

    def before(self, operation: str, *paths: Path) -> None:
        if self.on:
            self.sent += 1
            signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [number for number, _ in SIGNALS])
def test_signals_during_the_undo_wait_until_it_is_finished(world: World, number: int) -> None:
    """A second Ctrl-C, and a hundredth."""
    fs = Interrupting(number)
    with pytest.raises((KeyboardInterrupt, SystemExit)), placed(lambda: start(world, fs)):  # noqa: PT012 - the body is the point
        fs.on = True
        signal.raise_signal(signal.SIGINT)
    assert fs.sent > 20
    assert tree(world.target) == world.start


def test_a_signal_while_placing_waits_and_then_stops_before_the_body(world: World) -> None:
    fs = Interrupting(signal.SIGTERM)
    fs.on = True

    def go() -> Placement:
        placement = start(world, fs)
        fs.on = False
        return placement

    with pytest.raises(SystemExit), placed(go):
        pytest.fail("the body must not start")
    assert tree(world.target) == world.start


def test_handlers_are_given_back(world: World) -> None:
    before = {number: signal.getsignal(number) for number, _ in SIGNALS}
    with placed(lambda: start(world, LightFs())):
        assert signal.getsignal(signal.SIGINT) != before[signal.SIGINT]
    assert {number: signal.getsignal(number) for number, _ in SIGNALS} == before


def test_a_caller_that_handles_signals_keeps_them(world: World) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with placed(lambda: start(world, LightFs()), signals=False):
        assert signal.getsignal(signal.SIGTERM) == before


def test_a_closed_console_waits_for_the_undo() -> None:
    """Windows ends the process when the handler returns, so it must not return before the work is done."""
    with DeferredSignals(signals=False):
        answers: list[int] = []
        told = threading.Thread(target=lambda: answers.append(console_closes(2)))
        told.start()
        told.join(0.2)
        assert told.is_alive()
    told.join(5)
    assert answers == [1]
    with DeferredSignals(signals=False):
        assert console_closes(0) == 0, "Ctrl-C is not ours"
    assert console_closes(2) == 0, "nothing is left to finish"


def test_a_closed_console_is_told_to_the_outermost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two handlers were active together: the inner one ended the process before the outer one's work."""
    monkeypatch.setattr("scripts.osal.signals.HOLD", 0.05)
    sent: list[int] = []
    with ForwardedSignals() as outer:
        outer.forward_to(sent.append)
        with DeferredSignals(signals=False) as inner:
            inner.lower()
            assert console_closes(2) == 1
    assert len(sent) == 1
    assert inner.noted is None


PROGRAM = """
import os, sys, time
from pathlib import Path
from scripts.placement.place import place
from scripts.placement.plan import PlacementItem
from scripts.placement.place import placed
items = [PlacementItem(folder=f, name=n, source=Path(s), sha256=h, size=int(b))
         for f, n, s, h, b in (line.split("|") for line in sys.argv[2:])]
with placed(lambda: place(Path(sys.argv[1]), items, stack="s", digest="d")):
    print("placed", flush=True)
    time.sleep(600)
"""


@pytest.mark.posix_only
@pytest.mark.parametrize("number", [number for number, _ in SIGNALS])
def test_a_real_process_that_is_told_to_end_undoes_first(world: World, number: int) -> None:
    items = [f"{i.folder}|{i.name}|{i.source}|{i.sha256}|{i.size}" for i in world.items]
    command = [sys.executable, "-c", PROGRAM, str(world.target), *items]
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"placed"
        assert tree(world.target) != world.start
        os.kill(child.pid, number)
        os.kill(child.pid, number)
        assert child.wait(60) != 0
    assert tree(world.target) == world.start
