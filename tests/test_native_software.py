"""Real software on the CPU reference: Numba, cuda.core, Taichi, PyCUDA, nvcc's own, checked against NumPy.

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
from tests.native_cpu import folder as native_folder

pytestmark = [pytest.mark.network, pytest.mark.proof, pytest.mark.posix_only, pytest.mark.timeout(1800)]

SOFTWARE = ROOT / "tests" / "software"
NVCC = shutil.which("nvcc")
TOOLKITS = (*([Path(NVCC).resolve().parents[1]] if NVCC else []), Path("/usr/local/cuda"))


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


def python_with(folder: Path, name: str, **more: str) -> Path:
    """Make an environment of exactly the locked packages, once; ``more`` is set while they are installed."""
    home = folder / name
    lock = SOFTWARE / f"requirements-{name}.lock"
    done = home / "done"
    python = home / "bin" / "python"
    if not done.is_file() or done.read_bytes() != lock.read_bytes():
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, timeout=300)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        line = [*pip, "--require-hashes", "-r", str(lock)]
        subprocess.run(line, env={**os.environ, **more}, check=True, timeout=1500)
        done.write_bytes(lock.read_bytes())
    return python


def output_of(line: list[str], **more: str) -> str:
    env = {**environment(), "PYTHONNOUSERSITE": "1", **more}
    done = subprocess.run(
        line, env=env, capture_output=True, text=True, timeout=900, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "program", ["numba_program", "numba_scan_program", "numba_streams_program", "numba_grid_program"]
)
@pytest.mark.parametrize("release", ["numba-cu12", "numba-cu13"])
def test_numba_computes_what_numpy_computes(folder: Path, release: str, program: str) -> None:
    python = python_with(folder, release)
    line = [str(python), str(SOFTWARE / f"{program}.py")]
    assert output_of(line, CUDA_AMD_CPU_CAPABILITY="9.0") == "right"


@pytest.mark.parametrize(
    "program", ["cuda_core_program", "cuda_core_graph_program", "cuda_core_link_program"]
)
def test_cuda_core_computes_what_numpy_computes(folder: Path, program: str) -> None:
    python = python_with(folder, "cuda-core-cu13")
    assert output_of([str(python), str(SOFTWARE / f"{program}.py")]) == "right"


@pytest.mark.parametrize(
    "program", ["taichi_program", "taichi_nbody_program", "taichi_sparse_program", "taichi_reduce_program"]
)
def test_taichi_computes_what_numpy_computes(folder: Path, program: str) -> None:
    python = python_with(folder, "taichi")
    assert output_of([str(python), str(SOFTWARE / f"{program}.py")]) == "right"


def test_pycuda_computes_what_numpy_computes(folder: Path) -> None:
    """It is built with nvcc's headers and linked with the short name, which leads to the versioned one."""
    toolkit = next((place for place in TOOLKITS if (place / "include" / "cuda.h").is_file()), None)
    if NVCC is None or toolkit is None:
        pytest.skip("nvcc with its headers is not installed")
    settings = {
        "CUDA_ROOT": str(toolkit),
        "CUDADRV_LIB_DIR": [str(native_folder())],
        "CUDA_ENABLE_CURAND": False,
        "CUDA_ENABLE_GL": False,
    }
    home = folder / "pycuda-home"
    home.mkdir(exist_ok=True)
    lines = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
    (home / ".aksetup-defaults.py").write_text(lines, encoding="utf-8")
    python = python_with(folder, "pycuda", HOME=str(home))
    more = {"HOME": str(home), "PYCUDA_DISABLE_CACHE": "1", "NVCC_APPEND_FLAGS": "-lineinfo"}
    more["PATH"] = os.pathsep.join((str(toolkit / "bin"), os.environ["PATH"]))
    assert output_of([str(python), str(SOFTWARE / "pycuda_program.py")], **more) == "right"


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
