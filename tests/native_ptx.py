"""The PTX engine for tests: built once a test process beside a small host, called by ctypes."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np

from scripts.staging.build import Output, command_line, read_recipe
from tests.native_cpu import NATIVE, WINDOWS, host_compiler

HOST = "testing/ptx_host.c"
#: In the order of enum ptx_result.
RESULTS = (
    *("ok", "invalid-ptx", "unsupported", "not-found", "out-of-memory", "invalid-value", "too-large"),
    *("illegal-address", "misaligned", "assert", "trap", "illegal-instruction", "timeout"),
)
HEAD = ".version 8.8\n.target sm_90\n.address_size 64\n"
Triple = tuple[int, int, int]


class _Error(ctypes.Structure):
    _fields_ = [
        ("result", ctypes.c_int),
        ("kernel", ctypes.c_char * 128),
        ("line", ctypes.c_uint),
        ("address", ctypes.c_uint64),
        ("block", ctypes.c_uint * 3),
        ("thread", ctypes.c_uint * 3),
        ("text", ctypes.c_char * 512),
    ]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("cluster", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_size_t),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("buffer", ctypes.c_void_p),
        ("buffer_size", ctypes.c_size_t),
        ("cooperative", ctypes.c_bool),
    ]


class Attributes(ctypes.Structure):
    _fields_ = [
        ("max_threads", ctypes.c_uint),
        ("required_block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("const_bytes", ctypes.c_uint),
        ("local_bytes", ctypes.c_uint),
        ("registers", ctypes.c_uint),
        ("ptx_version", ctypes.c_uint),
        ("target", ctypes.c_uint),
        ("parameters", ctypes.c_size_t),
    ]


class PtxError(Exception):
    """What the engine reported; ``kind`` is one of ``RESULTS``."""

    def __init__(self, error: _Error) -> None:
        self.kind = RESULTS[error.result]
        self.line = int(error.line)
        self.address = int(error.address)
        self.kernel = error.kernel.decode()
        self.block: Triple = tuple(error.block)
        self.thread: Triple = tuple(error.thread)
        self.text = error.text.decode("utf-8", "replace")
        super().__init__(f"{self.kind}: {self.text} (line {self.line})")


def engine(*, windows: bool = WINDOWS) -> Output:
    """Return what the engine is built from and named, the host for tests included."""
    outputs = read_recipe(NATIVE, windows=windows).outputs
    driver = next(output for output in outputs if output.provides == "nvcuda")
    own = [name for name in driver.sources if name.startswith(("cpu/ptx/", "cpu/common/"))]
    return Output(name="ptx.dll" if windows else "libptx.so", sources=(*own, HOST))


@cache
def library() -> ctypes.CDLL:
    """Return the engine; ``CUDA_AMD_PTX_LIBRARY`` names one that is already built."""
    ready = os.environ.get("CUDA_AMD_PTX_LIBRARY")
    if ready:
        return _typed(ctypes.CDLL(ready))
    place = Path(tempfile.mkdtemp(prefix="native-ptx-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    line = command_line(host_compiler(), engine(), place, ("-Werror",))
    subprocess.run(line, cwd=NATIVE, check=True, capture_output=True, timeout=600)
    return _typed(ctypes.CDLL(str(place / engine().name)))


def _typed(lib: ctypes.CDLL) -> ctypes.CDLL:
    lib.test_function.restype = lib.test_launch.restype = ctypes.c_void_p
    lib.test_launch.restype = lib.test_load.restype = ctypes.c_int
    lib.test_allow.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
    lib.test_forbid.argtypes = [ctypes.c_uint64]
    for name in ("test_allow", "test_global", "test_parameter"):
        getattr(lib, name).restype = ctypes.c_bool
    lib.test_printed.restype = ctypes.c_size_t
    return lib


@contextmanager
def checking(what: str) -> Iterator[None]:
    """Let the engine check; on Windows its C library has a copy of the environment, made when it was loaded."""
    name, before = "CUDA_AMD_CPU_CHECK", os.environ.get("CUDA_AMD_CPU_CHECK", "")
    try:
        _set(name, what)
        yield
    finally:
        _set(name, before)


def _set(name: str, value: str) -> None:
    os.environ[name] = value
    if WINDOWS:
        ctypes.CDLL("msvcrt")._putenv(f"{name}={value}".encode())


def printed() -> bytes:
    """Return what kernels have printed since the last call."""
    room = ctypes.create_string_buffer(1 << 20)
    size = library().test_printed(room, ctypes.c_size_t(len(room)))
    return room.raw[:size]


class Module:
    """A loaded module; every array that is given to a launch is device memory while it runs."""

    def __init__(self, *texts: str | bytes) -> None:
        raw = [text.encode() if isinstance(text, str) else text for text in texts]
        pointers = (ctypes.c_char_p * len(raw))(*raw)
        sizes = (ctypes.c_size_t * len(raw))(*map(len, raw))
        self._handle = ctypes.c_void_p()
        error = _Error()
        if library().test_load(
            pointers, sizes, ctypes.c_size_t(len(raw)), ctypes.byref(self._handle), ctypes.byref(error)
        ):
            raise PtxError(error)

    def close(self) -> None:
        library().test_unload(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def function(self, name: str) -> ctypes.c_void_p:
        found = library().test_function(self._handle, name.encode())
        if not found:
            raise KeyError(name)
        return ctypes.c_void_p(found)

    def attributes(self, name: str) -> Attributes:
        out = Attributes()
        library().test_attributes(self.function(name), ctypes.byref(out))
        return out

    def variable(self, name: str) -> tuple[int, int]:
        address, size = ctypes.c_void_p(), ctypes.c_size_t()
        if not library().test_global(self._handle, name.encode(), ctypes.byref(address), ctypes.byref(size)):
            raise KeyError(name)
        return address.value or 0, size.value

    def launch(
        self,
        name: str,
        arguments: Sequence[np.ndarray | np.generic] = (),
        *,
        grid: Triple = (1, 1, 1),
        block: Triple = (1, 1, 1),
        shared: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Run a kernel. An array stands for its address, a NumPy scalar for itself.

        Raises:
            PtxError: the kernel could not be decoded or failed.
        """
        arrays = [value for value in arguments if isinstance(value, np.ndarray)]
        kept = [
            np.array([value.ctypes.data], np.uint64) if isinstance(value, np.ndarray) else np.array([value])
            for value in arguments
        ]
        pointers = (ctypes.c_void_p * max(1, len(kept)))(*(value.ctypes.data for value in kept))
        request = _Launch(grid, block, (0, 0, 0), shared, pointers, None, 0, cooperative)
        error = _Error()
        lib = library()
        for array in arrays:
            assert lib.test_allow(array.ctypes.data, array.nbytes)
        try:
            if lib.test_launch(self.function(name), ctypes.byref(request), ctypes.byref(error)):
                raise PtxError(error)
        finally:
            for array in arrays:
                lib.test_forbid(array.ctypes.data)


def module(body: str, before: str = "", target: str = "sm_90") -> str:
    """A kernel ``k(input, output)`` with its pointers in %in and %out, and a few registers."""
    return f"""{HEAD.replace("sm_90", target)}{before}
.visible .entry k(.param .u64 input, .param .u64 output)
{{
  .reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<30>; .reg .f32 %f<10>; .reg .b64 %rd<30>; .reg .f64 %d<4>;
  .reg .b64 %in, %out, %off4, %off8, %in4, %out4;
  ld.param.u64 %in, [input]; ld.param.u64 %out, [output];
  cvta.to.global.u64 %in, %in; cvta.to.global.u64 %out, %out;
  .reg .b32 %t; mov.u32 %t, %tid.x; mul.wide.u32 %off4, %t, 4; mul.wide.u32 %off8, %t, 8;
  add.s64 %in4, %in, %off4; add.s64 %out4, %out, %off4;
{body}
  ret;
}}
"""


def aligned(data: np.ndarray) -> np.ndarray:
    """Copy to where device memory would begin: at a multiple of 256."""
    room = np.empty(data.nbytes + 256, np.uint8)
    made = room[-room.ctypes.data % 256 :][: data.nbytes].view(data.dtype).reshape(data.shape)
    made[...] = data
    return made


def run(text: str, data: np.ndarray, out: np.ndarray, threads: int = 1, **more: object) -> np.ndarray:
    data, out = aligned(data), aligned(out)
    with Module(text) as loaded:
        loaded.launch("k", [data, out], block=(threads, 1, 1), **more)  # type: ignore[arg-type] # the options of launch
    return out


def u32(*values: int) -> np.ndarray:
    return np.array(values, np.int64).astype(np.uint32)
