"""CUDA by ctypes for the workloads beside this file: find the libraries, call them, say how it ended.

It needs Python 3.8 and NumPy. The workloads are started by path, so Python finds this file beside them.
Libraries are found the way CUDA programs find them: by name through the system's loader, then in the
packages that bring them (nvidia-*, torch).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

MARK = "@@cuda-amd-result"
EXIT = {"pass": 0, "incorrect": 3, "refused": 4, "error": 5, "unavailable": 6}
WINDOWS = sys.platform == "win32"
Array = np.ndarray

#: Between the first update and the steady state, seconds: an idle GPU needs some to reach its clocks.
SETTLE = 0.3
#: The most percent by which a workload makes itself slower.
MOST_SLOWDOWN = 1000

CUBLAS_NOT_SUPPORTED = 15
CUDA_NOT_SUPPORTED = 801
CUDA_NO_DEVICE = 100


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


#: Bytes of device memory that libraries may keep for themselves while a workload runs.
MAY_GO = 64 << 20


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
        NotFound: none loads; with the loader's own words.
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
        self.write(pointer, array)
        return pointer

    def write(self, pointer: ctypes.c_uint64, array: Array) -> None:
        """Copy an array into device memory that is there."""
        size = ctypes.c_size_t(array.nbytes)
        self.driver.call("cuMemcpyHtoD_v2", pointer, ctypes.c_void_p(array.ctypes.data), size)

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


# ---- telling ----


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


def guarded(report: Dict[str, Any], body: Callable[[], None]) -> None:
    """Run a workload's body; a call that fails or a library that is missing is in the report."""
    try:
        body()
    except (CallFailed, NotFound) as error:
        conclude(report, error.outcome, str(error))


def finish(report: Dict[str, Any], line: str) -> int:
    """Print a line for people and the marked line for programs; return the exit code."""
    right = report["outcome"] == "pass"
    why = report.get("wrong") or report.get("error")
    print("%s: %s" % (report["workload"], line if right else "%s: %s" % (report["outcome"].upper(), why)))
    return print_marked(report)


def print_marked(report: Dict[str, Any]) -> int:
    """Print the marked line for programs; return the exit code."""
    sys.stdout.flush()
    sys.stderr.write("%s %s\n" % (MARK, json.dumps(report)))
    sys.stderr.flush()
    return int(EXIT[report["outcome"]])


# ---- the clock ----


def linger(start: float, slowdown: float) -> float:
    """Return the seconds since ``start`` after making them longer by so many percent.

    A stated slowness is how a comparison is shown to find an effect whose size is known.
    """
    spent = time.perf_counter() - start
    while slowdown and time.perf_counter() - start < spent * (1 + slowdown / 100):
        pass
    return time.perf_counter() - start


def timed(wait: Callable[[], None], act: Callable[[], object], slowdown: float = 0.0) -> float:
    """Return wall-clock seconds of one piece of work, with the device awaited before and after."""
    wait()
    start = time.perf_counter()
    act()
    wait()
    return linger(start, slowdown)


def settle(wait: Callable[[], None], act: Callable[[], object]) -> None:
    """Do the work untimed until clocks and caches have settled, for ``SETTLE`` seconds."""
    wait()
    start = time.perf_counter()
    while time.perf_counter() - start < SETTLE:
        act()
        wait()


# ---- asking ----


def options_parser(
    prog: str, text: str, *, size: int, iterations: int = 0, seed: bool = True, meaning: str = ""
) -> argparse.ArgumentParser:
    """Begin a workload's options; ``meaning`` is what its size counts, and without iterations it has none."""
    parser = argparse.ArgumentParser(prog=prog, description=text)
    parser.add_argument("--size", type=int, default=size, help=meaning)
    if iterations:
        parser.add_argument("--iterations", type=int, default=iterations)
    if seed:
        parser.add_argument("--seed", type=int, default=20260101)
    slowdown_option(parser)
    return parser


def read_options(parser: argparse.ArgumentParser, words: Optional[Sequence[str]]) -> argparse.Namespace:
    """Read a command line, whose numbers must be in their ranges."""
    options = parser.parse_args(words)
    if options.size < 1 or getattr(options, "iterations", 1) < 1 or getattr(options, "seed", 0) < 0:
        parser.error("--size and --iterations start at 1, --seed at 0")
    return options


def new_report(workload: str, options: argparse.Namespace) -> Dict[str, Any]:
    """Begin the report of one run."""
    asked = {name: getattr(options, name) for name in ("iterations", "seed") if hasattr(options, name)}
    conditions = {**asked, "numpy": np.__version__}
    return {"workload": workload, "size": options.size, "libraries": {}, "conditions": conditions}


def slowdown_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--slowdown`` to a workload's options."""
    text = "make every timed piece longer by so many percent, to see whether a comparison finds that"
    parser.add_argument("--slowdown", type=percentage, default=0.0, help=text)


def percentage(text: str) -> float:
    """Read percent from 0 to 1000.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST_SLOWDOWN:
        raise argparse.ArgumentTypeError("%s: percent, from 0 to 1000" % text)
    return value
