"""Probes of cuBLAS: matrix products of every type, with transposes, padding, strides and batches."""

from __future__ import annotations

import ctypes
from typing import Any, Tuple

import numpy as np
from cuda_libraries import CudaLibrary
from kit import HANDLE, Buffer, ProbeSession, from_bf16, growth, to_bf16, u

INVALID, NOT_INITIALIZED = 7, 1
R_32F, R_64F, R_16F, R_8I, R_16BF, R_32I, COMPUTE_16F, COMPUTE_32F, COMPUTE_32I = (
    0,
    1,
    2,
    3,
    14,
    10,
    64,
    68,
    72,
)


class Blas(CudaLibrary):
    """cuBLAS with a handle."""

    def __init__(self, s: ProbeSession) -> None:
        """Load and start it."""
        super().__init__(s, "cublas")
        self.handle = HANDLE()
        self.call("cublasCreate_v2", ctypes.byref(self.handle))

    def close(self) -> None:
        """Give the handle back."""
        self.call("cublasDestroy_v2", self.handle)


def wide(array: Any) -> Any:
    """The array in double precision."""
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def op(array: Any, transpose: int) -> Any:
    """Apply no transpose, a transpose, or a conjugate one."""
    return (array, array.T, array.conj().T)[transpose]


def scalar(value: complex, dtype: Any) -> Any:
    """A number of a type, in memory."""
    return np.array([value], dtype)


def pointer(array: Any) -> HANDLE:
    """Where an array of the host lies."""
    return HANDLE(array.ctypes.data)


def padded(s: ProbeSession, rows: int, columns: int, dtype: Any, pad: int) -> Tuple[Any, Any]:
    """Random numbers, and the same in column-major memory with rows of NaN below each column."""
    numbers = s.floats(rows, columns, dtype=dtype)
    whole = np.full((rows + pad, columns), np.nan, dtype, order="F")
    whole[:rows] = numbers
    return numbers, whole


def upload(s: ProbeSession, array: Any) -> Buffer:
    """Copy a column-major array to the device as it lies."""
    return s.cuda.given(array.ravel(order="F"))


GEMM_CASES = (
    ((64, 64, 64), (0, 0), 0, 1.0, 0.0),
    ((67, 45, 129), (1, 0), 3, -0.5, 0.25),
    ((33, 100, 17), (0, 1), 5, 2.0, -1.0),
    ((1, 257, 300), (1, 1), 1, 1.0, 0.5),
    ((128, 1, 3), (2, 0), 0, 1.0, 1.0),
)


def gemm(s: ProbeSession, letter: str, dtype: Any) -> None:
    """C = alpha op(A) op(B) + beta C for one type, every argument in use; what lies between rows is kept."""
    blas, name = Blas(s), "cublas%sgemm_v2" % letter if letter != "H" else "cublasHgemm"
    complex_ = np.dtype(dtype).kind == "c"
    for (m, n, k), (ta, tb), pad, alpha, beta in GEMM_CASES:
        ta = ta if complex_ or ta < 2 else 1
        a, a_whole = padded(s, *((k, m) if ta else (m, k)), dtype, pad)
        b, b_whole = padded(s, *((n, k) if tb else (k, n)), dtype, pad)
        c, c_whole = padded(s, m, n, dtype, pad)
        factor = alpha + 0.5j if complex_ else alpha
        one, two = scalar(factor, dtype), scalar(beta, dtype)
        if beta == 0:
            c_whole[...] = np.nan
        out = upload(s, c_whole)
        blas.call(
            name, blas.handle, ta, tb, m, n, k, pointer(one), upload(s, a_whole).at, a_whole.shape[0],
            upload(s, b_whole).at, b_whole.shape[0], pointer(two), out.at, c_whole.shape[0],
        )  # fmt: skip
        got = out.get(dtype).reshape(c_whole.shape, order="F")
        left, right = op(wide(a), ta), op(wide(b), tb)
        want = factor * (left @ right) + (beta * wide(c) if beta else 0)
        size = abs(factor) * (np.abs(left) @ np.abs(right)) + abs(beta) * np.abs(wide(c))
        case = "%s %dx%dx%d" % ("NTC"[ta] + "NTC"[tb], m, n, k)
        s.near(case, got[:m], want, 2 * growth(2 * k) * u(dtype) * size + 1e-7 * u(dtype))
        s.need(case + " keeps what is between", np.isnan(got[m:]).all(), "it was written")
    blas.close()


def gemm_ex(s: ProbeSession) -> None:
    """Half-precision and bfloat16 inputs, accumulated and stored in FP32."""
    blas, (m, n, k) = Blas(s), (96, 80, 144)
    one, zero = scalar(1, np.float32), scalar(0, np.float32)
    for case, kind in (("half", R_16F), ("bfloat16", R_16BF)):
        if kind == R_16F:
            a, b = s.floats(m, k, dtype=np.float16), s.floats(k, n, dtype=np.float16)
            raw = (a, b)
        else:
            raw = (to_bf16(s.floats(m, k)), to_bf16(s.floats(k, n)))
            a, b = from_bf16(raw[0]), from_bf16(raw[1])
        out = s.cuda.empty(np.float32, m, n)
        blas.call(
            "cublasGemmEx", blas.handle, 0, 0, m, n, k, pointer(one), upload(s, raw[0]).at, kind, m,
            upload(s, raw[1]).at, kind, k, pointer(zero), out.at, R_32F, m, COMPUTE_32F, -1,
        )  # fmt: skip
        size = np.abs(wide(a)) @ np.abs(wide(b))
        got = out.get(np.float32).reshape(m, n, order="F")
        # The matrix units may cut a product's last bits off, each by one unit.
        s.near(case, got, wide(a) @ wide(b), 2 * growth(k) * u(np.float32) * size)
    blas.close()


def gemm_int8(s: ProbeSession) -> None:
    """Products of bytes summed in 32 bits, exactly."""
    blas, (m, n, k) = Blas(s), (64, 48, 96)
    a, b = (s.rng.integers(-128, 128, shape).astype(np.int8) for shape in ((k, m), (k, n)))
    one, zero = scalar(1, np.int32), scalar(0, np.int32)
    out = s.cuda.empty(np.int32, m, n)
    blas.call(
        "cublasGemmEx", blas.handle, 1, 0, m, n, k, pointer(one), upload(s, a).at, R_8I, k,
        upload(s, b).at, R_8I, k, pointer(zero), out.at, R_32I, m, COMPUTE_32I, -1,
    )  # fmt: skip
    s.equal("bytes", out.get(np.int32).reshape(m, n, order="F"), a.T.astype(np.int64) @ b.astype(np.int64))
    blas.close()


def batches(s: ProbeSession) -> None:
    """Several products at once, by a stride and by an array of pointers."""
    blas, (m, n, k), count = Blas(s), (31, 17, 23), 7
    a, b = s.floats(count, k, m), s.floats(count, n, k)  # column-major matrices, one behind the other
    one, zero = scalar(1, np.float32), scalar(0, np.float32)
    left, right, out = s.cuda.given(a), s.cuda.given(b), s.cuda.empty(np.float32, count, n, m)
    want = wide(b) @ wide(a)
    allowed = 2 * growth(k) * u(np.float32) * (np.abs(wide(b)) @ np.abs(wide(a)))
    step = [ctypes.c_longlong(v) for v in (m * k, k * n, m * n)]
    blas.call(
        "cublasSgemmStridedBatched", blas.handle, 0, 0, m, n, k, pointer(one), left.at, m, step[0], right.at, k,
        step[1], pointer(zero), out.at, m, step[2], count,
    )  # fmt: skip
    s.near("by stride", out.get(np.float32, count, n, m), want, allowed)
    other = s.cuda.empty(np.float32, count, n, m)
    order = s.rng.permutation(count)
    lists = [np.array([x.at.value + 4 * size * int(i) for i in order], np.uint64)
             for x, size in ((left, m * k), (right, k * n), (other, m * n))]  # fmt: skip
    places = [s.cuda.given(addresses) for addresses in lists]
    blas.call(
        "cublasSgemmBatched", blas.handle, 0, 0, m, n, k, pointer(one), places[0].at, m, places[1].at, k,
        pointer(zero), places[2].at, m, count,
    )  # fmt: skip
    s.near("by pointers", other.get(np.float32, count, n, m), want, allowed)
    blas.close()


def refusals(s: ProbeSession) -> None:
    """Sizes below zero, rows shorter than the matrix and no handle are refused, and nothing is written."""
    blas = Blas(s)
    one = scalar(1, np.float32)
    a, out = s.cuda.given(s.floats(64, 64)), s.cuda.given(np.zeros((64, 64), np.float32))

    def ask(handle: Any, m: int, lda: int) -> int:
        where = (pointer(one), a.at, lda, a.at, 64, pointer(one), out.at, 64)
        return int(blas.code("cublasSgemm_v2", handle, 0, 0, m, 64, 64, *where))

    s.refuses("rows below zero", ask(blas.handle, -1, 64), INVALID)
    s.refuses("columns shorter than the matrix", ask(blas.handle, 64, 63), INVALID)
    s.refuses("no handle", ask(None, 64, 64), NOT_INITIALIZED)
    s.equal("nothing was written", out.get(np.float32), np.zeros(4096))
    s.equal("no rows at all is right", ask(blas.handle, 0, 64), 0)
    blas.close()


PROBES = {
    "cublas-sgemm": lambda s: gemm(s, "S", np.float32),
    "cublas-dgemm": lambda s: gemm(s, "D", np.float64),
    "cublas-hgemm": lambda s: gemm(s, "H", np.float16),
    "cublas-cgemm": lambda s: gemm(s, "C", np.complex64),
    "cublas-zgemm": lambda s: gemm(s, "Z", np.complex128),
    "cublas-gemm-ex": gemm_ex,
    "cublas-gemm-int8": gemm_int8,
    "cublas-batched": batches,
    "cublas-refusals": refusals,
}
