"""Every probe without a GPU-only feature passes on the CPU reference, and finds out what computes wrongly."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.workload_record import MARK
from scripts.probing.catalogue import probes
from tests.native_cpu import environment, no_compiler

PROBE = Path(__file__).resolve().parents[1] / "scripts" / "inside" / "probes" / "probe.py"
#: All that can pass; the soak only shows here that it runs.
HERE = [probe.name for probe in probes().values() if not probe.gpu and not probe.torch]

#: Another Python that has PyTorch, where ours has none.
OTHER = os.environ.get("CUDA_AMD_TEST_TORCH", "")
PYTHON = OTHER or sys.executable
needs_torch = pytest.mark.skipif(
    not OTHER and importlib.util.find_spec("torch") is None, reason="no PyTorch is installed here"
)
#: What PyTorch's CPU device does not have.
NOT_ON_THE_CPU = {"torch-sdpa-memory-efficient", "torch-cuda-graph", "torch-streams", "torch-memory"}

pytestmark = [pytest.mark.proof, pytest.mark.skipif(bool(no_compiler()), reason=no_compiler())]


def ask(name: str, *, fault: str = "", seed: int = 20260101) -> dict[str, Any]:
    """Run one probe and return its result line."""
    command = [sys.executable, str(PROBE), name, "--seconds=2", f"--seed={seed}"]
    done = subprocess.run(command, env=environment(fault), capture_output=True, timeout=300, check=False)
    lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.startswith(MARK)]
    assert len(lines) == 1, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(lines[0][len(MARK) :])
    assert done.returncode == {"pass": 0, "incorrect": 3}.get(found["outcome"], done.returncode)
    return found


@pytest.mark.parametrize("name", HERE)
def test_it_passes_on_the_cpu_reference(name: str) -> None:
    found = ask(name)
    assert (found["outcome"], found.get("detail", "")) == ("pass", "")
    assert found["cases"] > 0


@pytest.mark.parametrize("name", ["cublas-sgemm", "cublas-batched"])
def test_another_seed_asks_other_numbers_and_passes_too(name: str) -> None:
    first, second = ask(name, seed=1), ask(name, seed=2)
    assert (first["outcome"], second["outcome"]) == ("pass", "pass")
    assert first["error_over_tolerance"] != second["error_over_tolerance"]


@needs_torch
@pytest.mark.parametrize("name", [probe.name for probe in probes().values() if probe.torch])
def test_the_probes_of_pytorch_are_right_on_its_cpu(name: str) -> None:
    """Without a GPU this finds a probe that is wrong itself."""
    command = [PYTHON, str(PROBE), name, "--device=cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    line = next(line for line in done.stderr.splitlines() if line.startswith(MARK))
    found = json.loads(line[len(MARK) :])
    assert found["outcome"] in ({"unavailable", "refused"} if name in NOT_ON_THE_CPU else {"pass"}), found


def test_pytorch_is_named_where_it_is_not_there() -> None:
    pytest.importorskip("numpy")
    found = ask("torch-matmul")
    assert found["outcome"] in {"unavailable", "pass"}
    assert found["outcome"] == "pass" or "PyTorch" in found["detail"]


@pytest.mark.parametrize("name", ["cublas-sgemm", "cublas-dgemm", "cublas-batched", "cublas-gemm-ex"])
def test_a_library_that_computes_wrongly_is_found_out(name: str) -> None:
    found = ask(name, fault="wrong")
    assert found["outcome"] == "incorrect"
    assert found["error_over_tolerance"] > 1 if "error_over_tolerance" in found else found["detail"]
