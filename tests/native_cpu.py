"""The CPU reference for tests: built once a test process, called by ctypes."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from scripts.errors import HostError
from scripts.model import NoProgress
from scripts.staging.build import Compiler, Output, build, find_compiler, read_recipe
from tests.checkout import compiler as stand_in

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "native"
WINDOWS = sys.platform == "win32"


@cache
def host_compiler() -> Compiler:
    return find_compiler({**os.environ, **stand_in()}, platform=sys.platform)


@cache
def folder() -> Path:
    """Build with warnings as errors, once a test process; gone when it ends."""
    place = Path(tempfile.mkdtemp(prefix="native-cpu-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)  # Windows keeps loaded libraries
    build(NATIVE, place, host_compiler(), progress=NoProgress(), extra=("-Werror",))
    return place


@cache
def outputs() -> tuple[Output, ...]:
    return read_recipe(NATIVE, windows=WINDOWS).outputs


@cache
def library(provides: str) -> ctypes.CDLL:
    """Load the library that answers for a CUDA library."""
    name = next(output.name for output in outputs() if output.provides == provides)
    return ctypes.CDLL(str(folder() / name))


def environment(fault: str = "") -> dict[str, str]:
    """Return an environment in which programs find the libraries."""
    name = "PATH" if WINDOWS else "LD_LIBRARY_PATH"
    env = {**os.environ, "CUDA_AMD_CPU_FAULT": fault}
    env[name] = os.pathsep.join((str(folder()), *([os.environ["PATH"]] if WINDOWS else [])))
    return env


@contextmanager
def blas_handle() -> Iterator[ctypes.c_void_p]:
    blas, handle = library("cublas12"), ctypes.c_void_p()
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
    yield handle
    assert blas.cublasDestroy_v2(handle) == 0


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def pointers(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def no_compiler() -> str:
    """Return why nothing can be built here, or an empty text."""
    try:
        host_compiler()
    except HostError as error:
        return error.message
    return ""
