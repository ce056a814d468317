"""Workload: matrix products through cuBLAS, as any CUDA program makes them, with a known answer.

It needs Python 3.8 and NumPy, and ``cuda_calls.py`` beside it, which finds the libraries the way CUDA
programs find them.

One JSON line marked ``@@cuda-amd-result`` on stderr says everything, one line per type on stdout is for
people. Exit codes: 0 right; 2 usage; 3 a number is wrong; 4 the library refused (not supported);
5 a call failed; 6 a library or device is not there.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import statistics
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from cuda_calls import (  # type: ignore[import-not-found]  # its sibling: this file runs as a program
    EXIT,
    Array,
    CallFailed,
    Machine,
    conclude,
    guarded,
    new_report,
    options_parser,
    print_marked,
    read_options,
    settle,
    timed,
)

#: Elements after C that must keep their values.
GUARD = 64
#: How many standard deviations of the accumulated rounding error pass.
SIGMAS = 8
REASON = (
    "|C - C64| <= (min(k, %d sqrt(k)) + 2) u (|A||B| + |beta C|), element by element: u is the type's unit "
    "roundoff, k u (|A||B|) bounds any order of summation, and rounding errors of random sign grow like "
    "sqrt(k). Products of inputs rounded to fewer bits (TF32, half) do not fit in it." % SIGMAS
)


# ---- the question and its answer ----


class Problem:
    """One product: C = alpha op(A) op(B) + beta C, column-major, with padded leading dimensions."""

    def __init__(
        self,
        rng: np.random.Generator,
        dtype: str,
        shape: Tuple[int, int, int],
        *,
        transpose: Tuple[bool, bool] = (False, False),
        pad: int = 0,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> None:
        """Draw the inputs, uniform in [-1, 1), and poison what must not be read."""
        self.dtype, self.shape, self.transpose = np.dtype(dtype), shape, transpose
        self.alpha, self.beta = alpha, beta
        m, n, k = shape
        self.a = self._draw(rng, (k, m) if transpose[0] else (m, k), pad)
        self.b = self._draw(rng, (n, k) if transpose[1] else (k, n), pad)
        self.c = self._draw(rng, (m, n), pad)
        if beta == 0:
            self.c[...] = np.nan
        self.ld = [x.strides[1] // x.itemsize for x in (self.a, self.b, self.c)]

    def _draw(self, rng: np.random.Generator, shape: Tuple[int, int], pad: int) -> Array:
        """Return a view of random numbers in a larger column-major array of NaN."""
        whole = np.full((shape[0] + pad, shape[1]), np.nan, self.dtype, order="F")
        part = whole[: shape[0], :]
        part[...] = rng.uniform(-1, 1, shape)
        return part

    def judge(self, got: Array) -> float:
        """Return the largest error as a multiple of what is allowed; NaN and infinity give infinity."""
        a, b = self.a.astype(np.float64), self.b.astype(np.float64)
        a, b = (a.T if self.transpose[0] else a), (b.T if self.transpose[1] else b)
        exact, size = self.alpha * (a @ b), abs(self.alpha) * (abs(a) @ abs(b))
        if self.beta != 0:
            before = self.c.astype(np.float64)
            exact, size = exact + self.beta * before, size + abs(self.beta * before)
        k = self.shape[2]
        allowed = (min(k, SIGMAS * math.sqrt(k)) + 2) * float(np.finfo(self.dtype).eps) / 2 * size
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.abs(got.astype(np.float64) - exact) / allowed
        return float(np.where(np.isfinite(got) & np.isfinite(ratio), ratio, np.inf).max())


def multiply(
    machine: Machine, problem: Problem, iterations: int, slowdown: float = 0.0
) -> Tuple[Array, bool, List[float]]:
    """Run a product and then again: the first result, whether its surroundings were kept, seconds of each."""
    real = ctypes.c_float if problem.dtype == np.float32 else ctypes.c_double
    name = "cublasSgemm_v2" if problem.dtype == np.float32 else "cublasDgemm_v2"
    m, n, k = problem.shape
    a, b, c = (whole(view).ravel(order="F") for view in (problem.a, problem.b, problem.c))
    before = np.concatenate([c, np.full(GUARD, 42, c.dtype)])
    pointers: List[ctypes.c_uint64] = []
    try:
        for array in (a, b, before):
            pointers.append(machine.upload(array))  # noqa: PERF401 - what is there must be freed if one fails
        alpha, beta = real(problem.alpha), real(problem.beta)
        arguments: List[Any] = [machine.handle, *(int(t) for t in problem.transpose), m, n, k]
        arguments += [ctypes.byref(alpha), pointers[0], problem.ld[0], pointers[1], problem.ld[1]]
        arguments += [ctypes.byref(beta), pointers[2], problem.ld[2]]

        def act() -> None:
            machine.blas.call(name, *arguments)

        seconds = [timed(machine.wait, act, slowdown)]
        after = np.empty_like(before)
        machine.read(after, pointers[2])
        if iterations:
            settle(machine.wait, act)
        seconds += [timed(machine.wait, act, slowdown) for _ in range(iterations)]
    finally:
        machine.free(pointers)
    around = after[:-GUARD].reshape(whole(problem.c).shape, order="F")
    kept = np.array_equal(after[-GUARD:], before[-GUARD:]) and bool(np.isnan(around[m:, :]).all())
    return around[:m, :], kept, seconds


def whole(view: Array) -> Array:
    """Return the array that a view was cut from."""
    return view if view.base is None else np.asarray(view.base)


def examine(machine: Machine, dtype: str, options: argparse.Namespace) -> Dict[str, Any]:
    """Ask one type: the timed square product, cold first, then a small one with every argument in use."""
    rng, size, iterations = np.random.default_rng(options.seed), options.size, options.iterations
    odd = Problem(rng, dtype, (67, 45, 129), transpose=(True, False), pad=3, alpha=-0.5, beta=0.25)
    square = Problem(rng, dtype, (size, size, size))
    largest = 0.0
    seconds: List[float] = []
    for label, problem, rounds in (("square", square, iterations), ("odd-shaped", odd, 0)):
        try:
            got, kept, spent = multiply(machine, problem, rounds, options.slowdown)
            seconds = seconds or spent
        except CallFailed as error:
            return {"dtype": dtype, "outcome": error.outcome, "detail": str(error)}
        largest = max(largest, problem.judge(got))
        if not (largest <= 1 and kept):
            wrong = "an error %.3g times the tolerance" % largest if kept else "writes outside of C"
            return {
                "dtype": dtype,
                "outcome": "incorrect",
                "detail": "the %s product has %s" % (label, wrong),
            }
    first, *seconds = seconds
    median = statistics.median(seconds)
    return {
        "dtype": dtype,
        "outcome": "pass",
        "detail": "",
        "error_over_tolerance": largest,
        "gflops": 2.0 * size**3 / median / 1e9,
        "seconds_median": median,
        "seconds_first": first,
        "seconds": seconds,
    }


# ---- telling ----


def add_iterations(report: Dict[str, Any], dtype: str, seconds: Sequence[float]) -> None:
    """Tell every timed product as one iteration, in figures where more is better."""
    rows = report.setdefault("iterations", [{} for _ in seconds])
    for index, row in enumerate(rows):
        row["gflops_" + dtype] = 2.0 * report["size"] ** 3 / seconds[index] / 1e9


def worst(results: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """Return the result that decides: a wrong number above all, then by exit code."""
    return max(results, key=lambda result: (result["outcome"] == "incorrect", EXIT[result["outcome"]]))


def tell(report: Dict[str, Any]) -> int:
    """Print the lines for people and the marked line for programs; return the exit code."""
    for result in report["results"]:
        if result["outcome"] == "pass":
            text = "gemm %s %d: right, %.1f GFLOP/s (error %.2g of the tolerance) on %s"
            figures = (result["gflops"], result["error_over_tolerance"], report["device"])
            print(text % (result["dtype"], report["size"], *figures))
        else:
            print("gemm %s: %s: %s" % (result["dtype"], result["outcome"].upper(), result["detail"]))
    if not report["results"]:
        print("gemm: %s: %s" % (report["outcome"].upper(), report["error"]))
    for role, path in sorted(report["libraries"].items()):
        print("  %s: %s" % (role, path))
    return int(print_marked(report))


def measure(report: Dict[str, Any], dtypes: Sequence[str], options: argparse.Namespace) -> None:
    """Ask every type; the worst result decides."""
    machine = Machine()
    report["device"] = machine.device
    report["libraries"].update(machine.files)
    report["conditions"].update(driver=machine.driver_version, cublas=machine.blas_version)
    for dtype in dtypes:
        result = examine(machine, dtype, options)
        report["results"].append(result)
        if "gflops" in result:
            report["gflops_" + dtype] = result["gflops"]
            add_iterations(report, dtype, result["seconds"])
            first = 2.0 * options.size**3 / result["seconds_first"] / 1e9
            report.setdefault("first", {})["gflops_" + dtype] = first
    machine.close()
    decides = worst(report["results"])
    conclude(report, decides["outcome"], decides["detail"])


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the workload and return its exit code."""
    text, meaning = "matrix products through cuBLAS", "rows and columns of the timed product"
    parser = options_parser("gemm.py", text, size=1024, iterations=7, meaning=meaning)
    parser.add_argument("--dtype", choices=("float32", "float64", "both"), default="float32")
    options = read_options(parser, argv)
    report = {**new_report("gemm", options), "results": []}
    report["conditions"]["tolerance"] = REASON
    dtypes = ("float32", "float64") if options.dtype == "both" else (options.dtype,)
    guarded(report, lambda: measure(report, dtypes, options))
    return tell(report)


if __name__ == "__main__":
    sys.exit(main())
