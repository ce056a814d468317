"""The gemm workload: right answers pass, wrong ones never, and every way to fail has its exit code."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts.bench.workload_record import judge_run, parse_record
from scripts.model import Level, Outcome
from tests.native_cpu import WINDOWS, environment, folder
from tests.test_native_libraries import GEMM, hangs_after

pytestmark = pytest.mark.proof

sys.path.insert(0, str(GEMM.parent))  # workloads are started by path and find each other there
cuda_calls, gemm = importlib.import_module("cuda_calls"), importlib.import_module("gemm")
sys.path.remove(str(GEMM.parent))


def workload(*arguments: str, env: dict[str, str] | None = None, fault: str = "") -> Any:
    return subprocess.run(
        [sys.executable, str(GEMM), *arguments], env=env or environment(fault),
        capture_output=True, text=True, encoding="utf-8", timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def report(done: Any) -> dict[str, Any]:
    record = parse_record(done.stderr)
    assert not record.fault, done.stderr
    return dict(record.data)


SMALL = ("--size", "96", "--iterations", "2")


def test_a_right_answer_passes_and_names_its_libraries() -> None:
    done = workload(*SMALL, "--dtype", "both")
    said = report(done)
    assert done.returncode == 0
    assert (said["ok"], said["outcome"], said["size"]) == (True, "pass", 96)
    assert [r["dtype"] for r in said["results"]] == ["float32", "float64"]
    assert all(r["gflops"] > 0 and r["error_over_tolerance"] < 0.5 for r in said["results"])
    assert {Path(p).parent.resolve() for p in said["libraries"].values()} == {folder().resolve()}
    assert said["conditions"]["driver"] == 13000
    assert done.stdout.startswith("gemm float32 96: right, ")
    verdict = judge_run(parse_record(done.stderr), capability="gemm", exit_code=0, timed_out=False)
    assert (verdict.outcome, verdict.level) == (Outcome.PASS, Level.FUNCTIONAL)


@pytest.mark.parametrize(
    ("fault", "code", "outcome", "text"),
    [
        ("wrong", 3, "incorrect", "times the tolerance"),
        ("missing:cublas", 5, "error", "cublasCreate_v2 returned 1"),
        ("missing:nvcuda", 6, "unavailable", "cuInit returned 100"),
    ],
)
def test_each_fault_ends_in_its_own_exit_code(fault: str, code: int, outcome: str, text: str) -> None:
    done = workload(*SMALL, fault=fault)
    said = report(done)
    assert (done.returncode, said["outcome"]) == (code, outcome)
    assert said.get("ok") is (False if outcome == "incorrect" else None)
    assert text in done.stdout
    assert outcome.upper() in done.stdout


def test_a_crash_at_the_end_comes_after_the_result() -> None:
    done = workload(*SMALL, fault="crash-at-exit")
    assert report(done)["ok"] is True
    assert done.returncode == (0xC0000409 if WINDOWS else -11)


def test_a_hanging_product_leaves_no_result() -> None:
    """Seen through a marker that Python prints itself just before the workload starts."""
    code = (
        "import runpy, sys; print('started', flush=True); sys.argv = ['gemm', '--size', '8'];"
        f"sys.path.insert(0, {str(GEMM.parent)!r}); runpy.run_path({str(GEMM)!r}, run_name='__main__')"
    )
    text = hangs_after("hang:gemm", [sys.executable, "-c", code], b"started", "stdout")
    assert b"gemm float32" not in text


def test_without_a_driver_it_says_which_library_is_missing(tmp_path: Path) -> None:
    name = "PATH" if WINDOWS else "LD_LIBRARY_PATH"
    env = {**os.environ, name: str(tmp_path)}
    done = workload(*SMALL, env=env)
    said = report(done)
    if said["outcome"] == "pass":
        pytest.skip("this machine has a CUDA driver of its own")
    assert done.returncode == 6
    assert ("nvcuda" if WINDOWS else "libcuda.so.1") in said["error"]


@pytest.mark.parametrize(
    "arguments", [("--size", "0"), ("--dtype", "half"), ("--iterations", "0"), ("--seed", "-1")]
)
def test_bad_arguments_are_usage_errors(arguments: tuple[str, str]) -> None:
    done = workload(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage:" in done.stderr


def problem(dtype: str = "float32", size: int = 1024) -> Any:
    return gemm.Problem(np.random.default_rng(4), dtype, (size, size, size))


def test_nan_and_infinity_never_pass() -> None:
    asked = problem(size=32)
    right = np.asarray(asked.a @ asked.b)
    assert asked.judge(right) <= 1
    for bad in (np.nan, np.inf, -np.inf):
        spoiled = right.copy()
        spoiled[3, 5] = bad
        assert asked.judge(spoiled) == np.inf


def test_an_untouched_output_never_passes() -> None:
    asked = problem(size=8)
    assert asked.judge(asked.c) == np.inf
    assert asked.judge(np.zeros_like(asked.c)) > 1


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """Keep so many bits of a float32's fraction, as tensor cores do with their inputs."""
    drop = 23 - bits
    whole = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64) + (1 << (drop - 1))
    return ((whole >> drop) << drop).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("bits", "passes"), [(23, True), (10, False), (7, False)], ids=["f32", "tf32", "bf16"]
)
def test_the_tolerance_tells_float32_from_fewer_bits(bits: int, passes: bool) -> None:
    asked = problem()
    a, b = (np.asarray(x) if bits == 23 else rounded(x, bits) for x in (asked.a, asked.b))
    assert (asked.judge(np.asarray(a @ b)) <= 1) is passes


def test_one_wrong_element_is_enough() -> None:
    asked = problem(size=64)
    right = np.asarray(asked.a @ asked.b)
    right[63, 0] += 1e-3
    assert asked.judge(right) > 1


@pytest.mark.parametrize(
    ("driver", "first"), [(13000, "13"), (12080, "12"), (11080, "11"), (14000, "13"), (10020, "11")]
)
def test_the_drivers_own_release_is_tried_first(driver: int, first: str) -> None:
    names = cuda_calls.blas_names(driver)
    assert len(names) == 3
    assert first in names[0].replace("cublas64", "")


def test_libraries_in_packages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia/cublas/lib", "nvidia/cu13/lib", "torch/lib", "other/lib"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    found = [p.relative_to(tmp_path).as_posix() for p in cuda_calls.package_folders()]
    assert found == ["nvidia/cu13/lib", "nvidia/cublas/lib", "torch/lib"]


def test_the_worst_result_decides() -> None:
    outcomes = ["pass", "unavailable", "incorrect", "refused"]
    assert gemm.worst([{"outcome": o} for o in outcomes])["outcome"] == "incorrect"
    assert gemm.worst([{"outcome": "pass"}, {"outcome": "refused"}])["outcome"] == "refused"


def test_the_record_is_plain_json() -> None:
    done = workload(*SMALL)
    line = next(line for line in done.stderr.splitlines() if line.startswith(cuda_calls.MARK))
    assert json.loads(line.removeprefix(cuda_calls.MARK))["workload"] == "gemm"
