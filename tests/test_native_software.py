"""Real software on the CPU reference: Numba, cuda.core, Taichi and what nvcc builds, checked against NumPy.

The programs are in ``software/``, each prints ``right`` at its end; their packages are locked beside them.
``CUDA_AMD_TEST_SOFTWARE`` names a folder that keeps the environments between runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native_cpu import ROOT, environment, no_compiler

pytestmark = [pytest.mark.network, pytest.mark.proof, pytest.mark.posix_only, pytest.mark.timeout(1800)]

SOFTWARE = ROOT / "tests" / "software"
NVCC = shutil.which("nvcc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if no_compiler():
        pytest.skip(no_compiler())
    kept = os.environ.get("CUDA_AMD_TEST_SOFTWARE")
    place = Path(kept) if kept else tmp_path_factory.mktemp("software")
    place.mkdir(parents=True, exist_ok=True)
    yield place
    if not kept:
        shutil.rmtree(place, ignore_errors=True)


def python_with(folder: Path, name: str) -> Path:
    """Make an environment of exactly the locked packages, once."""
    home = folder / name
    lock = SOFTWARE / f"requirements-{name}.lock"
    done = home / "done"
    python = home / "bin" / "python"
    if not done.is_file() or done.read_bytes() != lock.read_bytes():
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, timeout=300)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", str(lock)], check=True, timeout=1500)
        done.write_bytes(lock.read_bytes())
    return python


def output_of(line: list[str], **more: str) -> str:
    env = {**environment(), "PYTHONNOUSERSITE": "1", **more}
    done = subprocess.run(
        line, env=env, capture_output=True, text=True, timeout=900, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("program", ["numba_program", "numba_scan_program", "numba_streams_program"])
@pytest.mark.parametrize("release", ["numba-cu12", "numba-cu13"])
def test_numba_computes_what_numpy_computes(folder: Path, release: str, program: str) -> None:
    python = python_with(folder, release)
    line = [str(python), str(SOFTWARE / f"{program}.py")]
    assert output_of(line, CUDA_AMD_CPU_CAPABILITY="9.0") == "right"


@pytest.mark.parametrize("program", ["cuda_core_program", "cuda_core_graph_program"])
def test_cuda_core_computes_what_numpy_computes(folder: Path, program: str) -> None:
    python = python_with(folder, "cuda-core-cu13")
    assert output_of([str(python), str(SOFTWARE / f"{program}.py")]) == "right"


def test_taichi_computes_what_numpy_computes(folder: Path) -> None:
    python = python_with(folder, "taichi")
    assert output_of([str(python), str(SOFTWARE / "taichi_program.py")]) == "right"


@pytest.mark.parametrize("program", ["thrust", "cooperative"])
def test_what_nvcc_builds_with_the_shared_runtime_is_right(tmp_path: Path, program: str) -> None:
    if NVCC is None:
        pytest.skip("nvcc is not installed")
    made = tmp_path / program
    line = [
        NVCC,
        "-std=c++17",
        "--extended-lambda",
        "-cudart",
        "shared",
        "-arch=compute_75",
        "-code=compute_75",
    ]
    subprocess.run([*line, str(SOFTWARE / f"{program}.cu"), "-o", str(made)], check=True, timeout=900)
    assert output_of([str(made)]) == "right"
