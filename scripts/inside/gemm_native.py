"""The device's own matrix product beside ``gemm.py``: rocBLAS through HIP, or NumPy's BLAS on the CPU.

The same inputs, the same tolerance and the same clock as ``gemm.py``, without any CUDA in between, so
that the two can be put side by side. A process of its own, because a translation layer in the same one
would share its HIP context. Exit codes and the result line are those of ``gemm.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from cuda_calls import (
    conclude,
    guarded,
    print_marked,
    read_options,
    settle,
    timed,
)
from gemm import Problem
from hip_calls import Cpu, Hip

NO_TRANSPOSE = 111
#: An answer, seconds of the product that gave it, and seconds of later ones.
Answer = Tuple[np.ndarray, float, List[float]]


class RocBlas(Hip):
    """HIP with rocBLAS."""

    library_name = "rocBLAS"

    def __init__(self) -> None:
        """Load both libraries and start them."""
        super().__init__()
        self.blas, self.handle = self.library("rocblas"), ctypes.c_void_p()
        self.blas.call("rocblas_create_handle", ctypes.byref(self.handle))

    def multiply(self, problem: Problem, iterations: int) -> Answer:
        """Run a product once for its answer, then time it with the device awaited before and after."""
        single = problem.dtype == np.float32
        real: Any = ctypes.c_float if single else ctypes.c_double
        name = "rocblas_sgemm" if single else "rocblas_dgemm"
        a, b, c = (self.upload(array) for array in (problem.a, problem.b, problem.c))
        alpha, beta = real(problem.alpha), real(problem.beta)
        call: List[Any] = [name, self.handle, NO_TRANSPOSE, NO_TRANSPOSE, *problem.shape]
        call += [ctypes.byref(alpha), a, problem.ld[0], b, problem.ld[1]]
        call += [ctypes.byref(beta), c, problem.ld[2]]

        def act() -> None:
            self.blas.call(*call)

        first = timed(self.wait, act)
        got = np.empty_like(problem.c, order="F")
        self.read(got, c)
        settle(self.wait, act)
        return got, first, [timed(self.wait, act) for _ in range(iterations)]


class NumpyBlas(Cpu):
    """NumPy's own BLAS; which one it is NumPy tells."""

    @property
    def library_name(self) -> str:
        """Its name and version."""
        return self.name

    def multiply(self, problem: Problem, iterations: int) -> Answer:
        """Multiply once for the answer, then again for the clock."""
        got = np.empty_like(problem.c, order="F")

        def act() -> None:
            np.matmul(problem.a, problem.b, out=got)

        first = timed(self.wait, act)
        settle(self.wait, act)
        return got, first, [timed(self.wait, act) for _ in range(iterations)]


def measure(report: Dict[str, Any], options: argparse.Namespace) -> None:
    """Multiply, and judge the answer."""
    machine: Any = RocBlas() if options.backend == "hip" else NumpyBlas()
    report["device"], report["library"] = machine.device, machine.library_name
    report["libraries"].update(machine.files)
    shape = (options.size, options.size, options.size)
    problem = Problem(np.random.default_rng(options.seed), options.dtype, shape)
    got, first, seconds = machine.multiply(problem, options.iterations)
    error = problem.judge(got)
    right = error <= 1
    conclude(report, "pass" if right else "incorrect", "" if right else "error %.3g" % error)
    if right:
        name, work = "gflops_" + options.dtype, 2.0 * options.size**3 / 1e9
        report["first"], report["iterations"] = {name: work / first}, [{name: work / s} for s in seconds]
        report[name] = work / statistics.median(seconds)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the baseline and return its exit code."""
    parser = argparse.ArgumentParser(prog="gemm_native.py", description="matrix products without CUDA")
    parser.add_argument("--backend", choices=("hip", "cpu"), required=True)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--iterations", type=int, default=7)
    parser.add_argument("--seed", type=int, default=20260101)
    options = read_options(parser, argv)
    report: Dict[str, Any] = {"workload": "gemm-native", "size": options.size, "libraries": {}}
    guarded(report, lambda: measure(report, options))
    return print_marked(report)


if __name__ == "__main__":
    sys.exit(main())
