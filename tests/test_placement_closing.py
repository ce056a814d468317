"""``wrap --via=beside`` whose terminal or console is closed under it: everything is put back all the same."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.placement_harness import World, tree
from tests.python_programs import write_python_program

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 120
LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
CREATED = "cublas64_12.dll" if sys.platform == "win32" else "libcublas.so.12"
#: Started as the program: says by a file that it runs, and runs for ever.
SLEEPER = "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(600)"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A program with its own copy of the driver, and a runtime that has another and one more."""
    made = World(tmp_path)
    made.own(LIBRARY, b"the program's own", mode=0o640)
    made.own("data.bin", b"data")
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    for name in (LIBRARY, CREATED):
        (runtime / name).write_bytes(b"ours: " + name.encode())
    return made


def environ(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "CUDA_AMD_STATE": str(tmp_path / "state"),
        "CUDA_AMD_CACHE": str(tmp_path / "cache"),
    }


def until_it_runs(mark: Path, world: World) -> None:
    """Wait for the program, and see that our libraries are beside it meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while not mark.exists():
        assert time.monotonic() < deadline, "the program never started"
        time.sleep(0.05)
    assert (world.target / LIBRARY).read_bytes() == b"ours: " + LIBRARY.encode()
    assert (world.target / CREATED).exists()


def words(tmp_path: Path, exe: Path) -> list[str]:
    return [str(tmp_path / "runtime"), "reference", "wrap", f"--exe={exe}", "--via=beside", "--"]


@pytest.mark.slow
@pytest.mark.posix_only
@pytest.mark.parametrize("name", ["SIGHUP", "SIGTERM", "SIGINT"])
@pytest.mark.parametrize("whole", [False, True], ids=["to us alone", "to the whole terminal"])
def test_a_signal_ends_the_program_and_leaves_its_folder_as_it_was(
    world: World, tmp_path: Path, name: str, whole: bool
) -> None:
    program, mark = world.target / "program", tmp_path / "runs"
    write_python_program(program, SLEEPER, "-I")
    world.settle()
    line = [sys.executable, "-m", "tests.wrapping", *words(tmp_path, program), str(mark)]
    with subprocess.Popen(
        line,
        cwd=ROOT,
        env=environ(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as running:
        until_it_runs(mark, world)
        number = getattr(signal, name)
        if whole:
            os.killpg(running.pid, number)
        else:
            running.send_signal(number)
        assert running.wait(PATIENCE) != 0
    assert tree(world.target) == world.start


@pytest.mark.posix_only
def test_a_terminal_that_goes_away_leaves_the_folder_as_it_was(world: World, tmp_path: Path) -> None:
    """The kernel hangs up the whole foreground, and nobody can be written to any more."""
    import pty  # noqa: PLC0415 - POSIX only

    program, mark = world.target / "program", tmp_path / "runs"
    write_python_program(program, SLEEPER, "-I")
    world.settle()
    line = [sys.executable, "-m", "tests.wrapping", *words(tmp_path, program), str(mark)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execve(line[0], line, environ(tmp_path))  # noqa: S606 - the point of it
    until_it_runs(mark, world)
    os.close(terminal)
    os.waitpid(pid, 0)
    assert tree(world.target) == world.start


#: Windows tells each process of a console's end by a thread at this function (2 is CTRL_CLOSE_EVENT), and
#: ends it when its handlers have returned. So does this, first here and then in the program.
CLOSER = """
    import ctypes, sys, threading, time
    from pathlib import Path
    from tests.wrapping import main

    mark = Path(sys.argv.pop(1))

    def close():
        while not mark.exists():
            time.sleep(0.05)
        time.sleep(0.5)
        Path(f"{mark}.closed").touch()
        ctypes.WinDLL("kernelbase").CtrlRoutine(2)

    threading.Thread(target=close, daemon=True).start()
    sys.exit(main(sys.argv))
"""
TOLD = """
    import ctypes, os, sys, time

    open(sys.argv[1], "w").close()
    while not os.path.exists(sys.argv[1] + ".closed"):
        time.sleep(0.05)
    time.sleep(0.5)
    ctypes.WinDLL("kernelbase").CtrlRoutine(2)
    time.sleep(600)
"""


@pytest.mark.windows_only
def test_a_console_that_is_closed_leaves_the_folder_as_it_was(world: World, tmp_path: Path) -> None:
    home, mark = Path(sys.executable).parent, tmp_path / "runs"
    for name in ("python.exe", "python311.dll", "vcruntime140.dll", "vcruntime140_1.dll"):
        if (home / name).exists():
            shutil.copy(home / name, world.target)
    world.settle()
    line = [sys.executable, "-c", textwrap.dedent(CLOSER), str(mark)]
    with subprocess.Popen(
        [*line, *words(tmp_path, world.target / "python.exe"), "-c", textwrap.dedent(TOLD), str(mark)],
        cwd=ROOT,
        env={**environ(tmp_path), "PYTHONHOME": str(home), "PYTHONPATH": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        until_it_runs(mark, world)
        running.wait(PATIENCE)
    assert tree(world.target) == world.start
