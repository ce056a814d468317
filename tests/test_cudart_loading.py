"""NVIDIA's real CUDA runtimes on Windows: copies beside the program do not serve them, injection does.

The driver of these tests says from where it was loaded and answers what nobody else answers
(``native/testing/says_nvcuda.c``); the launcher really injects (``native/testing/injecting_launcher.c``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

import pytest

from scripts.errors import LaunchError
from scripts.launch.argv import direct_line, launcher_line
from scripts.launch.injection import Via, ViaFacts, choose_via
from scripts.model import StackKind
from scripts.preflight.loading import loading_of
from tests.preflight_programs import NEEDS, examined, exe, ship

pytestmark = pytest.mark.windows_only


@dataclass(frozen=True, kw_only=True)
class Cudart:
    """One runtime and what cudaGetDeviceCount and cudaDriverGetVersion answer.

    Attributes:
        file: its name.
        alone: result, count and version when it finds no driver; -1 where nothing was written.
        served: the same with the driver of these tests. CUDA 13's file is half a runtime: it asks the driver
            for the other half (nvcudart_hybrid64.dll), which the driver of these tests has not.
        asked: how many functions and export tables it asks that driver for.
    """

    file: str
    alone: tuple[int, int, int]
    served: tuple[int, int, int]
    asked: tuple[int, int]


CUDARTS = (
    Cudart(file="cudart64_110.dll", alone=(35, -1, 0), served=(802, -1, 13090), asked=(411, 0)),
    Cudart(file="cudart64_12.dll", alone=(35, -1, 0), served=(802, -1, 13090), asked=(446, 1)),
    Cudart(file="cudart64_13.dll", alone=(35, -1, -1), served=(35, -1, -1), asked=(2, 2)),
)
each_cudart = pytest.mark.parametrize("cudart", CUDARTS, ids=lambda c: c.file)


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the program and the driver printed.

    Attributes:
        answers: the program's three numbers.
        loaded: from where the driver was loaded, once for each time.
        asked: what it was asked for, once for each time it was unloaded.
    """

    answers: tuple[int, ...]
    loaded: list[Path]
    asked: list[tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A program with copies wherever copies can lie, and a layer in a folder of its own."""

    program: Path
    runtimes: Path
    layer: Path

    def start(self, cudart: Cudart, *words: str) -> Said:
        """Start the program directly."""
        line = direct_line(PureWindowsPath(self.program), [str(self.runtimes / cudart.file), *words])
        return self._run(line)

    def inject(self, cudart: Cudart) -> Said:
        """Start the program through the layer's launcher."""
        words = [str(self.runtimes / cudart.file)]
        launcher = PureWindowsPath(self.layer / "zluda.exe")
        return self._run(launcher_line(launcher, PureWindowsPath(self.program), words)[0])

    def _run(self, line: str) -> Said:
        environ: Mapping[str, str] = {**os.environ, "PATH": f"{self.layer};{os.environ['PATH']}"}
        done = subprocess.run(
            line,
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            cwd=self.program.parent,
            env=environ,
            timeout=120,
        )
        return said(done.stdout.decode("utf-8").splitlines())


def said(lines: Sequence[str]) -> Said:
    def after(start: str) -> list[str]:
        return [line.removeprefix(start) for line in lines if line.startswith(start)]

    [answers] = after("cudart ")
    return Said(
        answers=tuple(map(int, answers.split())),
        loaded=[Path(path) for path in after("nvcuda loaded ")],
        asked=[tuple(map(int, numbers.split())) for numbers in after("nvcuda asked ")],
    )


@pytest.fixture(scope="module")
def runtimes() -> Path:
    folder = os.environ.get("CUDA_AMD_TEST_CUDART")
    if folder is None:
        pytest.skip("CUDA_AMD_TEST_CUDART does not name the folder of NVIDIA's CUDA runtimes")
    return Path(folder)


@pytest.fixture
def machine(runtimes: Path, tmp_path: Path) -> Machine:
    """The driver lies beside the program, which is the current folder, beside the runtime and on PATH."""
    programs = Path(os.environ["CUDA_AMD_TEST_BIN"])
    program, own, layer = tmp_path / "Programme (ü)", tmp_path / "own copies", tmp_path / "layer dir"
    for folder in (program, own, layer):
        folder.mkdir()
        shutil.copy(programs / "says" / "nvcuda.dll", folder)
    for cudart in CUDARTS:
        shutil.copy(runtimes / cudart.file, own)
    shutil.copy(programs / "uses_cudart.exe", program)
    shutil.copy(programs / "zluda_redirect.dll", layer)
    shutil.copy(programs / "injecting_launcher.exe", layer / "zluda.exe")
    return Machine(program=program / "uses_cudart.exe", runtimes=own, layer=layer)


@each_cudart
def test_copies_beside_the_program_beside_the_runtime_and_on_the_path_are_never_loaded(
    machine: Machine, cudart: Cudart
) -> None:
    assert machine.start(cudart) == Said(answers=cudart.alone, loaded=[], asked=[])


@each_cudart
def test_injection_serves_from_the_layer_past_those_copies(machine: Machine, cudart: Cudart) -> None:
    found = machine.inject(cudart)
    assert set(found.loaded) == {machine.layer / "nvcuda.dll"}
    assert found.answers == cudart.served
    assert found.asked[-1] == cudart.asked


@each_cudart
def test_a_copy_serves_where_the_program_loads_it_before_the_runtime_asks(
    machine: Machine, cudart: Cudart
) -> None:
    found = machine.start(cudart, "first")
    assert found.loaded == [machine.program.parent / "nvcuda.dll"]
    assert found.answers == cudart.served


@each_cudart
def test_the_way_that_is_chosen_is_the_one_that_serves(
    runtimes: Path, cudart: Cudart, tmp_path: Path
) -> None:
    program = ship(tmp_path / "p", {"app.exe": exe({cudart.file: ["cudaGetDeviceCount"]})})
    shutil.copy(runtimes / cudart.file, program.parent)
    seen = loading_of(examined(program, tmp_path).closure, NEEDS, hidden=False)
    assert seen.system_only == (cudart.file,)

    def choose(*, launcher: bool) -> Via:
        facts = ViaFacts(
            platform="win32",
            kind=StackKind.TRANSLATION,
            launcher=launcher,
            at_start=seen.at_start,
            bare_load=seen.bare_load,
            system_only=seen.system_only,
        )
        return choose_via(facts).via

    assert choose(launcher=True) is Via.LAUNCHER
    with pytest.raises(LaunchError, match=f"{cudart.file} loads CUDA from the system folder only"):
        choose(launcher=False)
