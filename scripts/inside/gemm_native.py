"""The device's own matrix product beside ``gemm.py``: rocBLAS through HIP, or NumPy's BLAS on the CPU.

The same inputs, the same tolerance and the same clock as ``gemm.py``, without any CUDA in between, so
that the two can be put side by side. A process of its own, because a translation layer in the same one
would share its HIP context. Exit codes and the result line are those of ``gemm.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from cuda_calls import (  # type: ignore[import-not-found]  # its sibling: this file runs as a program
    EXIT,
    MARK,
    WINDOWS,
    Api,
    CallFailed,
    NotFound,
    conclude,
    load_first,
    path_of,
)
from gemm import Problem  # type: ignore[import-not-found]  # likewise

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
NO_TRANSPOSE = 111
Answer = Tuple[np.ndarray, List[float]]


class Hip:
    """HIP with rocBLAS on the first device that HIP shows."""

    def __init__(self) -> None:
        """Load both libraries and start them."""
        names = ["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"] if WINDOWS else hip_names("libamdhip64")
        library, name = load_first(names)
        self.hip, self.files = Api(library), {"hip": path_of(library, name)}
        library, name = load_first(["rocblas.dll"] if WINDOWS else hip_names("librocblas"))
        self.blas = Api(library)
        self.files["rocblas"] = path_of(library, name)
        self.hip.call("hipInit", 0)
        text = ctypes.create_string_buffer(256)
        self.hip.call("hipDeviceGetName", text, 256, 0)
        self.device, self.handle = text.value.decode("utf-8", "replace"), ctypes.c_void_p()
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
        self.timed(call)
        got = np.empty_like(problem.c, order="F")
        where, size = ctypes.c_void_p(got.ctypes.data), ctypes.c_size_t(got.nbytes)
        self.hip.call("hipMemcpy", where, c, size, DEVICE_TO_HOST)
        return got, [self.timed(call) for _ in range(iterations)]

    def upload(self, array: np.ndarray) -> ctypes.c_void_p:
        """Copy a column-major array into new device memory."""
        pointer, size = ctypes.c_void_p(), ctypes.c_size_t(array.nbytes)
        self.hip.call("hipMalloc", ctypes.byref(pointer), size)
        self.hip.call("hipMemcpy", pointer, ctypes.c_void_p(array.ctypes.data), size, HOST_TO_DEVICE)
        return pointer

    def timed(self, call: Sequence[Any]) -> float:
        """Return wall-clock seconds of one product."""
        self.hip.call("hipDeviceSynchronize")
        start = time.perf_counter()
        self.blas.call(*call)
        self.hip.call("hipDeviceSynchronize")
        return time.perf_counter() - start


class Cpu:
    """NumPy's own BLAS; which one it is NumPy tells."""

    def __init__(self) -> None:
        """Ask NumPy what it was built with."""
        self.device = "CPU"
        self.files: Dict[str, str] = {}
        show: Any = getattr(np, "show_config", None)
        try:
            blas = show(mode="dicts")["Build Dependencies"]["blas"]
            self.library = "%s %s" % (blas["name"], blas["version"])
        except (KeyError, TypeError):
            self.library = "NumPy %s" % np.__version__

    def multiply(self, problem: Problem, iterations: int) -> Answer:
        """Multiply once for the answer, then again for the clock."""
        got = problem.a @ problem.b
        seconds = []
        for _ in range(iterations):
            start = time.perf_counter()
            np.matmul(problem.a, problem.b, out=got)
            seconds.append(time.perf_counter() - start)
        return got, seconds


def hip_names(stem: str) -> List[str]:
    """Name a library of ROCm: the linker's name first, then its majors."""
    return [stem + ".so", *(stem + ".so.%d" % major for major in (7, 6, 5, 4))]


def run(report: Dict[str, Any], options: argparse.Namespace) -> None:
    """Fill the report; whatever fails is in it."""
    try:
        machine: Any = Hip() if options.backend == "hip" else Cpu()
        report["device"], report["library"] = machine.device, getattr(machine, "library", "rocBLAS")
        report["libraries"].update(machine.files)
        shape = (options.size, options.size, options.size)
        problem = Problem(np.random.default_rng(options.seed), options.dtype, shape)
        got, seconds = machine.multiply(problem, options.iterations)
        error = problem.judge(got)
        right = error <= 1
        conclude(report, "pass" if right else "incorrect", "" if right else "error %.3g" % error)
        if right:
            report["gflops_" + options.dtype] = 2.0 * options.size**3 / statistics.median(seconds) / 1e9
    except (CallFailed, NotFound) as error:
        conclude(report, error.outcome, str(error))


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the baseline and return its exit code."""
    parser = argparse.ArgumentParser(prog="gemm_native.py", description="matrix products without CUDA")
    parser.add_argument("--backend", choices=("hip", "cpu"), required=True)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--iterations", type=int, default=7)
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args(argv)
    if options.size < 1 or options.iterations < 1 or options.seed < 0:
        parser.error("--size and --iterations start at 1, --seed at 0")
    report: Dict[str, Any] = {"workload": "gemm-native", "size": options.size, "libraries": {}}
    run(report, options)
    sys.stderr.write("%s %s\n" % (MARK, json.dumps(report)))
    sys.stderr.flush()
    return int(EXIT[report["outcome"]])


if __name__ == "__main__":
    sys.exit(main())
