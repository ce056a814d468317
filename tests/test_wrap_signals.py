"""Every signal that can be caught reaches the program, stops or ends both, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.osal.signals import blocked, ending, stopping
from tests.python_programs import write_python_program

pytestmark = [pytest.mark.proof, pytest.mark.posix_only]

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 60.0
#: A program that writes down what it hears, counts while it runs, and ends with 7 on SIGTERM.
LISTENER = """
import os, signal, sys, time
folder = os.path.dirname(os.path.abspath(sys.argv[0]))
def heard(number, frame):
    with open(os.path.join(folder, 'heard'), 'a') as file:
        file.write(f'{number}\\n')
    if number == signal.SIGTERM:
        raise SystemExit(7)
for number in signal.valid_signals():
    if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP):
        signal.signal(number, heard)
count = 0
while True:
    count += 1
    with open(os.path.join(folder, 'count.new'), 'w') as file:
        file.write(f'{os.getpid()} {count}')
    os.replace(os.path.join(folder, 'count.new'), os.path.join(folder, 'count'))
    if count == 1:
        print('mask', sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))), flush=True)
        print('ready', flush=True)
    time.sleep(0.02)
"""


class Wrapped:
    """A wrapped program beside which files lie while it runs."""

    def __init__(self, folder: Path, text: str, *words: str) -> None:
        self.folder = folder / "program"
        self.folder.mkdir()
        runtime = folder / "runtime"
        runtime.mkdir()
        (runtime / "libcuda.so.1").write_bytes(b"ours")
        exe = self.folder / "app"
        write_python_program(exe, text, "-I")
        line = [sys.executable, "-m", "tests.wrapping", str(runtime), "reference", "wrap", f"--exe={exe}"]
        self.process = subprocess.Popen(
            [*line, "--via=beside", *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "CUDA_AMD_STATE": str(folder / "state")},
        )
        self.said = b""

    def expect(self, text: bytes) -> None:
        assert self.process.stdout is not None
        while text not in self.said:
            line = self.process.stdout.readline()
            assert line, f"{text!r} never came: {self.said!r}"
            self.said += line

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> int:
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def heard(self) -> list[int]:
        file = self.folder / "heard"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def counted(self) -> tuple[int, int]:
        """Return the program's id and how far it has counted."""
        number, count = (self.folder / "count").read_text().split()
        return int(number), int(count)

    def clean(self) -> bool:
        return not {".cuda-amd", "libcuda.so.1"} & {path.name for path in self.folder.iterdir()}


def until(true: object, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not true():  # type: ignore[operator]  # a function without arguments
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for stuck in tmp_path.glob("program/count"):
        words = stuck.read_text().split()
        if words and state_of(int(words[0])) != "gone":
            os.kill(int(words[0]), signal.SIGKILL)
            pytest.fail("the program was orphaned")


def test_every_signal_reaches_the_program_and_ends_nothing_else(folder: Path) -> None:
    wrapped = Wrapped(folder, LISTENER, f"--log={folder / 'log'}")
    wrapped.expect(b"ready")
    assert b"mask []" in wrapped.said, "the program was to inherit no blocked signals"
    numbers = sorted((ending() | blocked()) - {signal.SIGTERM})
    assert {signal.SIGUSR1, signal.SIGALRM, signal.SIGXCPU, signal.SIGSEGV, signal.SIGPIPE} <= set(numbers)
    for number in numbers:
        wrapped.send(number)
        until(lambda n=number: n in wrapped.heard())
    assert (wrapped.folder / "libcuda.so.1").read_bytes() == b"ours"
    wrapped.send(signal.SIGTERM)
    assert wrapped.end() == 7
    assert wrapped.clean()
    assert set(wrapped.heard()) >= {*numbers, signal.SIGTERM}
    assert b"ready" in (folder / "log").read_bytes()


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGALRM", "SIGSEGV", "SIGPIPE", "SIGRTMIN"])
def test_a_program_that_does_not_handle_a_signal_ends_by_it_and_so_do_we(folder: Path, name: str) -> None:
    number = int(getattr(signal, name))
    text = f"import signal, sys, time\nsignal.signal({number}, signal.SIG_DFL)\nprint('ready', flush=True)\n"
    wrapped = Wrapped(folder, text + "time.sleep(60)\n")
    wrapped.expect(b"ready")
    wrapped.send(number)
    assert wrapped.end() == -number
    assert wrapped.clean()


@pytest.mark.parametrize("number", sorted(stopping()), ids=lambda n: signal.Signals(n).name)
@pytest.mark.parametrize("ignores", [True, False], ids=["ignored", "default"])
def test_a_signal_that_stops_us_stops_both_and_both_go_on(folder: Path, number: int, ignores: bool) -> None:
    text = LISTENER.replace("count = 0", f"signal.signal({number}, signal.SIG_IGN)\ncount = 0")
    text = text if ignores else LISTENER.replace("signal.SIGTSTP)", "signal.SIGTSTP, 21, 22)")
    wrapped = Wrapped(folder, text, "--timeout=20", f"--log={folder / 'log'}")
    wrapped.expect(b"ready")
    program, _ = wrapped.counted()
    wrapped.send(number)
    until(lambda: state_of(wrapped.process.pid) == "T")
    until(lambda: state_of(program) == "T", 5)
    before = wrapped.counted()
    time.sleep(0.3)
    assert wrapped.counted() == before
    assert not wrapped.clean()
    wrapped.send(signal.SIGCONT)
    until(lambda: wrapped.counted() > before)
    wrapped.send(signal.SIGTERM)
    assert wrapped.end() == 7
    assert wrapped.clean()


def test_a_pause_does_not_count_for_the_timeout_and_the_timeout_still_ends_both(folder: Path) -> None:
    wrapped = Wrapped(folder, LISTENER.replace("raise SystemExit(7)", "pass"), "--timeout=4")
    wrapped.expect(b"ready")
    wrapped.send(signal.SIGUSR1)
    wrapped.send(signal.SIGTSTP)
    until(lambda: state_of(wrapped.process.pid) == "T")
    time.sleep(5)
    before = wrapped.counted()
    wrapped.send(signal.SIGCONT)
    until(lambda: wrapped.counted() > before)
    assert wrapped.end() == 124
    assert wrapped.clean()
    assert signal.SIGUSR1 in wrapped.heard()


def test_a_stop_while_nothing_runs_stops_us_alone() -> None:
    code = (
        "import os, signal, sys, time\nfrom scripts.osal.signals import ForwardedSignals\n"
        "with ForwardedSignals() as signals:\n    print('ready', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTSTP)\n    print(signals.paused > 0.2, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        until(lambda: state_of(child.pid) == "T")
        time.sleep(0.3)
        child.send_signal(signal.SIGCONT)
        assert child.stdout.read() == b"True\n"


def test_a_fault_of_our_own_still_ends_us() -> None:
    code = (
        "import ctypes\nfrom scripts.osal.signals import ForwardedSignals\n"
        "with ForwardedSignals():\n    ctypes.string_at(8)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=PATIENCE)
    assert done.returncode == -signal.SIGSEGV
