"""Probes of NVRTC: C++ becomes PTX, the PTX runs, and what is wrong does not compile."""

from __future__ import annotations

import ctypes
from typing import Any, List, Tuple

import numpy as np
from cuda_libraries import CudaLibrary
from kernels import number
from kernels_types import capability
from kit import HANDLE, SIZE, ProbeSession, Unavailable, u

SOURCE = b"""
template <typename T, int factor> __device__ T scaled(T value) { return value * T(factor); }
template <typename T>
__global__ void apply(const T *a, const T *b, T *out, unsigned n)
{
    __shared__ T shared[128];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    shared[threadIdx.x] = i < n ? a[i] : T(0);
    __syncthreads();
    unsigned other = threadIdx.x ^ 1;
    if (i < n && (i ^ 1) < n) out[i] = scaled<T, 3>(shared[other]) + sqrt(fabs(b[i]));
    else if (i < n) out[i] = T(-1);
}
"""


def compiled(library: CudaLibrary, source: bytes, options: List[bytes], names: Tuple[bytes, ...] = ()) -> Any:
    """Compile; returns the code, the program's handle, its log."""
    program = HANDLE()
    library.call("nvrtcCreateProgram", ctypes.byref(program), source, b"probe.cu", 0, None, None)
    for name in names:
        library.call("nvrtcAddNameExpression", program, name)
    array = (ctypes.c_char_p * max(len(options), 1))(*options)
    code = library.code("nvrtcCompileProgram", program, len(options), array)
    size = SIZE()
    library.call("nvrtcGetProgramLogSize", program, ctypes.byref(size))
    log = ctypes.create_string_buffer(max(size.value, 1))
    library.call("nvrtcGetProgramLog", program, log)
    return code, program, log.value


def target(s: ProbeSession, library: CudaLibrary) -> bytes:
    """The newest architecture that compiler and device both know.

    Raises:
        Unavailable: the library is there, and no compiler.
    """
    count, release = ctypes.c_int(), ctypes.c_int()
    if library.code("nvrtcVersion", ctypes.byref(release), ctypes.byref(count)):
        msg = "the library has no compiler behind it"
        raise Unavailable(msg)
    library.call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
    known = (ctypes.c_int * count.value)()
    library.call("nvrtcGetSupportedArchs", known)
    fitting = [arch for arch in known if arch <= capability(s)]
    return b"--gpu-architecture=compute_%d" % max(fitting)


def run(s: ProbeSession) -> None:
    """Templates of C++ for two types, found by their lowered names, compute what they say."""
    library = CudaLibrary(s, "nvrtc")
    names = (b"apply<float>", b"apply<double>")
    code, program, log = compiled(library, SOURCE, [target(s, library), b"--std=c++17"], names)
    if not s.need("it compiles", code == 0, (code, log[:500])):
        return
    size, module = SIZE(), HANDLE()
    library.call("nvrtcGetPTXSize", program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    library.call("nvrtcGetPTX", program, text)
    s.cuda.call("cuModuleLoadData", ctypes.byref(module), text)
    count = 1001
    for name, dtype in zip(names, (np.float32, np.float64)):
        lowered = ctypes.c_char_p()
        library.call("nvrtcGetLoweredName", program, name, ctypes.byref(lowered))
        kernel = s.cuda.function(module, (lowered.value or b"").decode())
        a, b = s.floats(count, dtype=dtype), s.floats(count, dtype=dtype)
        out = s.cuda.empty(dtype, count)
        s.cuda.launch(kernel, 8, 128, s.cuda.given(a), s.cuda.given(b), out, number(count))
        index = np.arange(count) ^ 1
        inside = index < count
        want = np.where(
            inside,
            3 * a.astype(np.float64)[np.where(inside, index, 0)] + np.sqrt(np.abs(b.astype(np.float64))),
            -1,
        )
        s.near(name.decode(), out.get(dtype), want, 8 * u(dtype))


def errors(s: ProbeSession) -> None:
    """C++ that is wrong does not compile and the log names the line; options that do not exist are refused."""
    library = CudaLibrary(s, "nvrtc")
    code, _program, log = compiled(
        library, b"__global__ void f(int *p)\n{\n    *p = nothing;\n}\n", [target(s, library)]
    )
    s.refuses("an unknown name", code, 6)
    s.need("the log names it and its line", b"nothing" in log and b"(3)" in log, repr(log[:300]))
    code, _program, _log = compiled(library, SOURCE, [b"--no-such-option-at-all"])
    s.refuses("an unknown option", code, 5)


PROBES = {"nvrtc-compile-and-launch": run, "nvrtc-refusals": errors}
