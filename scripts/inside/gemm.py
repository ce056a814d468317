"""Workload: matrix products through cuBLAS, as any CUDA program makes them, with a known answer.

It needs Python 3.8 and NumPy and imports nothing else; it is one file, so that it can be carried to any
machine and run there alone. The libraries are found the way CUDA programs find
them: by name through the system's loader, then in the packages that bring them (nvidia-*, torch).

One JSON line marked ``@@cuda-amd-result`` on stderr says everything, one line per type on stdout is for
people. Exit codes: 0 right; 2 usage; 3 a number is wrong; 4 the library refused (not supported);
5 a call failed; 6 a library or device is not there.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

MARK = "@@cuda-amd-result"
EXIT = {"pass": 0, "incorrect": 3, "refused": 4, "error": 5, "unavailable": 6}
WINDOWS = sys.platform == "win32"
Array = np.ndarray

CUBLAS_NOT_SUPPORTED = 15
CUDA_NOT_SUPPORTED = 801
CUDA_NO_DEVICE = 100
#: Elements after C that must keep their values.
GUARD = 64
#: How many standard deviations of the accumulated rounding error pass.
SIGMAS = 8
REASON = (
    "|C - C64| <= (min(k, %d sqrt(k)) + 2) u (|A||B| + |beta C|), element by element: u is the type's unit "
    "roundoff, k u (|A||B|) bounds any order of summation, and rounding errors of random sign grow like "
    "sqrt(k). Products of inputs rounded to fewer bits (TF32, half) do not fit in it." % SIGMAS
)


class CallFailed(Exception):  # noqa: N818 - says what happened
    """A CUDA call did not return success."""

    def __init__(self, call: str, code: int) -> None:
        """Keep the call's name and what it returned."""
        super().__init__("%s returned %d" % (call, code))
        self.outcome = "error"
        if (call.startswith("cublas") and code == CUBLAS_NOT_SUPPORTED) or code == CUDA_NOT_SUPPORTED:
            self.outcome = "refused"
        if call == "cuInit" and code == CUDA_NO_DEVICE:
            self.outcome = "unavailable"


class NotFound(Exception):  # noqa: N818 - says what happened
    """A library is not on this machine, or not loadable."""

    outcome = "unavailable"


# ---- finding libraries ----


def package_folders() -> Iterator[Path]:
    """Yield folders of installed packages that bring CUDA libraries."""
    for base in sys.path:
        for pattern in ("nvidia/*/lib", "nvidia/*/bin", "nvidia/*/bin/x86_64", "torch/lib"):
            yield from sorted(Path(base or ".").glob(pattern))


def load(name: str) -> ctypes.CDLL:
    """Load one library by name or path."""
    if not WINDOWS:
        return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    # A full path: its neighbours must be found as well. A name: LoadLibrary's own order, PATH included.
    return ctypes.CDLL(name, winmode=0x1100 if Path(name).is_absolute() else 0)


def load_first(names: Sequence[str]) -> Tuple[ctypes.CDLL, str]:
    """Load the first of several names: by the system's loader, then from packages.

    Raises:
        NotFound: none loads; says what the loader said.
    """
    files = (folder.absolute() / name for folder in package_folders() for name in names)
    problems = []
    for name in (*names, *(str(path) for path in files if path.is_file())):
        try:
            return load(name), name
        except OSError as error:
            problems.append("%s: %s" % (name, error))
    raise NotFound("; ".join(problems))


def blas_names(driver_version: int) -> List[str]:
    """Name cuBLAS libraries: the driver's own CUDA release first, then older ones, then newer ones."""
    major = driver_version // 1000
    majors = sorted((13, 12, 11), key=lambda m: (m > major, abs(m - major)))
    return ["cublas64_%d.dll" % m if WINDOWS else "libcublas.so.%d" % m for m in majors]


def path_of(library: ctypes.CDLL, name: str) -> str:
    """Say which file a loaded library is."""
    if WINDOWS:
        text = ctypes.create_unicode_buffer(32768)
        ask = ctypes.CDLL("kernel32").GetModuleFileNameW
        ask(ctypes.c_void_p(library._handle), text, len(text))  # noqa: SLF001 - ctypes offers no other way
        return text.value or name
    wanted = Path(name).name.split(".so")[0] + ".so"
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    paths = {line.split(None, 5)[5] for line in maps.splitlines() if "/" + wanted in line}
    return min(paths, default=name)


# ---- calling ----


class Api:
    """A library whose calls return 0 for success."""

    def __init__(self, library: ctypes.CDLL) -> None:
        """Wrap a loaded library."""
        self.library = library

    def call(self, name: str, *arguments: object) -> None:
        """Call a function by name.

        Raises:
            CallFailed: it returned something else than 0.
        """
        try:
            function = getattr(self.library, name)
        except AttributeError:
            msg = "the library has no %s" % name
            raise NotFound(msg) from None
        code = function(*arguments)
        if code != 0:
            raise CallFailed(name, code)


class Driver:
    """The driver with a context on device 0."""

    def __init__(self) -> None:
        """Load the driver and start it."""
        library, name = load_first(["nvcuda.dll"] if WINDOWS else ["libcuda.so.1"])
        self.driver = Api(library)
        self.files = {"driver": path_of(library, name)}
        self.driver.call("cuInit", 0)
        version, device, self.context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self.driver.call("cuDriverGetVersion", ctypes.byref(version))
        self.driver.call("cuDeviceGet", ctypes.byref(device), 0)
        text = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", text, 256, device)
        self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.driver.call("cuCtxSetCurrent", self.context)
        self.device, self.driver_version = text.value.decode("utf-8", "replace"), version.value
        self.number = device

    def upload(self, array: Array) -> ctypes.c_uint64:
        """Copy an array into new device memory and return its address."""
        pointer = ctypes.c_uint64()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        size = ctypes.c_size_t(array.nbytes)
        self.driver.call("cuMemcpyHtoD_v2", pointer, ctypes.c_void_p(array.ctypes.data), size)
        return pointer

    def read(self, array: Array, pointer: ctypes.c_uint64) -> None:
        """Copy device memory into an array."""
        size = ctypes.c_size_t(array.nbytes)
        self.driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), pointer, size)

    def free(self, pointers: Sequence[ctypes.c_uint64]) -> None:
        """Give device memory back."""
        for pointer in pointers:
            self.driver.call("cuMemFree_v2", pointer)

    def wait(self) -> None:
        """Wait until the device has finished."""
        self.driver.call("cuCtxSynchronize")

    def close(self) -> None:
        """End as a well-behaved program does."""
        self.driver.call("cuDevicePrimaryCtxRelease_v2", self.number)


class Machine(Driver):
    """The driver with a context, and cuBLAS with a handle."""

    def __init__(self) -> None:
        """Load both libraries and start them on device 0."""
        super().__init__()
        library, name = load_first(blas_names(self.driver_version))
        self.blas = Api(library)
        self.files["cublas"] = path_of(library, name)
        self.handle, version = ctypes.c_void_p(), ctypes.c_int()
        self.blas.call("cublasCreate_v2", ctypes.byref(self.handle))
        self.blas.call("cublasGetVersion_v2", self.handle, ctypes.byref(version))
        self.blas_version = version.value

    def close(self) -> None:
        """Give the handle back, then the context."""
        self.blas.call("cublasDestroy_v2", self.handle)
        super().close()


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


def multiply(machine: Machine, problem: Problem, iterations: int) -> Tuple[Array, bool, List[float]]:
    """Run a product once, then time it: the first result, whether its surroundings were kept, seconds."""
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
        machine.blas.call(name, *arguments)
        machine.wait()
        after = np.empty_like(before)
        machine.read(after, pointers[2])
        seconds = [timed(machine, name, arguments) for _ in range(iterations)]
    finally:
        machine.free(pointers)
    around = after[:-GUARD].reshape(whole(problem.c).shape, order="F")
    kept = np.array_equal(after[-GUARD:], before[-GUARD:]) and bool(np.isnan(around[m:, :]).all())
    return around[:m, :], kept, seconds


def whole(view: Array) -> Array:
    """Return the array that a view was cut from."""
    return view if view.base is None else np.asarray(view.base)


def timed(machine: Machine, name: str, arguments: Sequence[object]) -> float:
    """Return wall-clock seconds of one product, synchronised before and after."""
    machine.wait()
    start = time.perf_counter()
    machine.blas.call(name, *arguments)
    machine.wait()
    return time.perf_counter() - start


def examine(machine: Machine, dtype: str, size: int, iterations: int, seed: int) -> Dict[str, Any]:
    """Ask one type: a small product with every argument in use, then the timed square one."""
    rng = np.random.default_rng(seed)
    odd = Problem(rng, dtype, (67, 45, 129), transpose=(True, False), pad=3, alpha=-0.5, beta=0.25)
    square = Problem(rng, dtype, (size, size, size))
    largest, seconds = 0.0, [0.0]
    for label, problem, rounds in (("odd-shaped", odd, 0), ("square", square, iterations)):
        try:
            got, kept, seconds = multiply(machine, problem, rounds)
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
    median = statistics.median(seconds)
    return {
        "dtype": dtype,
        "outcome": "pass",
        "detail": "",
        "error_over_tolerance": largest,
        "gflops": 2.0 * size**3 / median / 1e9,
        "seconds_median": median,
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


def conclude(report: Dict[str, Any], outcome: str, detail: str) -> None:
    """Say how it ended: ``ok`` for a right or wrong answer, ``error`` where there is none."""
    report["outcome"] = outcome
    if detail:
        report["detail"] = detail
    if outcome in ("pass", "incorrect"):
        report["ok"] = outcome == "pass"
        if detail:
            report["wrong"] = detail
    else:
        report["error"] = detail
        report["refused"] = outcome == "refused"


def tell(report: Dict[str, Any]) -> None:
    """Print the lines for people and the marked line for programs."""
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
    sys.stdout.flush()
    sys.stderr.write("%s %s\n" % (MARK, json.dumps(report)))
    sys.stderr.flush()


def run(report: Dict[str, Any], dtypes: Sequence[str], options: argparse.Namespace) -> None:
    """Fill the report; whatever fails is in it."""
    try:
        machine = Machine()
        report["device"] = machine.device
        report["libraries"].update(machine.files)
        report["conditions"].update(driver=machine.driver_version, cublas=machine.blas_version)
        for dtype in dtypes:
            result = examine(machine, dtype, options.size, options.iterations, options.seed)
            report["results"].append(result)
            if "gflops" in result:
                report["gflops_" + dtype] = result["gflops"]
                add_iterations(report, dtype, result["seconds"])
        machine.close()
    except (CallFailed, NotFound) as error:
        conclude(report, error.outcome, str(error))
    else:
        decides = worst(report["results"])
        conclude(report, decides["outcome"], decides["detail"])


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the workload and return its exit code."""
    parser = argparse.ArgumentParser(prog="gemm.py", description="matrix products through cuBLAS")
    parser.add_argument("--size", type=int, default=1024, help="rows and columns of the timed product")
    parser.add_argument("--dtype", choices=("float32", "float64", "both"), default="float32")
    parser.add_argument("--iterations", type=int, default=7, help="timed products; the median counts")
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args(argv)
    if options.size < 1 or options.iterations < 1 or options.seed < 0:
        parser.error("--size and --iterations start at 1, --seed at 0")
    conditions = {"iterations": options.iterations, "seed": options.seed, "numpy": np.__version__}
    conditions["tolerance"] = REASON
    report: Dict[str, Any] = {"workload": "gemm", "size": options.size}
    report.update(results=[], libraries={}, conditions=conditions)
    run(report, ("float32", "float64") if options.dtype == "both" else (options.dtype,), options)
    tell(report)
    return EXIT[report["outcome"]]


if __name__ == "__main__":
    sys.exit(main())
