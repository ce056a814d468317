"""Probes of cuBLAS beyond products: vectors, matrix times vector, triangles; and of cuBLASLt."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import numpy as np
from blas import COMPUTE_32F, R_16F, R_32F, Blas, pointer, scalar, upload, wide
from cuda_libraries import CudaLibrary
from kit import HANDLE, SIZE, ProbeSession, Refused, growth, u


def level_1(s: ProbeSession) -> None:
    """Dot product, norm, sum, scaling, adding, the largest: with strides, single and double."""
    blas, n = Blas(s), 3001
    for letter, kind in (("S", np.float32), ("D", np.float64)):
        x, y = s.floats(n, 2, dtype=kind), s.floats(n, 3, dtype=kind)
        a, b = s.cuda.given(x), s.cuda.given(y)
        one, two = wide(x[:, 0]), wide(y[:, 0])
        result, slack = scalar(np.nan, kind), growth(n) * u(kind)
        asked = (("dot", (a.at, 2, b.at, 3), one @ two, np.abs(one) @ np.abs(two)),
                 ("nrm2", (a.at, 2), np.sqrt(one @ one), np.sqrt(one @ one)),
                 ("asum", (a.at, 2), np.abs(one).sum(), np.abs(one).sum()))  # fmt: skip
        for name, where, want, size in asked:
            blas.call("cublas%s%s_v2" % (letter, name), blas.handle, n, *where, pointer(result))
            s.near(letter + name, result[0], want, slack * size)
            result[0] = np.nan
        index = ctypes.c_int(-1)
        blas.call("cublasI%samax_v2" % letter.lower(), blas.handle, n, a.at, 2, ctypes.byref(index))
        s.equal(letter + "amax", index.value, int(np.abs(one).argmax()) + 1)
        factor = scalar(0.75, kind)
        blas.call("cublas%saxpy_v2" % letter, blas.handle, n, pointer(factor), a.at, 2, b.at, 3)
        want = y.copy()
        want[:, 0] = (0.75 * one + two).astype(kind)
        s.near(letter + "axpy", b.get(kind, n, 3), want, 2.1 * u(kind) * 2)
        blas.call("cublas%sscal_v2" % letter, blas.handle, n, pointer(factor), a.at, 2)
        s.equal(letter + "scal keeps what is between", a.get(kind, n, 2)[:, 1], x[:, 1])
        s.equal(letter + "scal", a.get(kind, n, 2)[:, 0], x[:, 0] * kind(0.75))
    blas.close()


def level_2_and_3(s: ProbeSession) -> None:
    """Matrix times vector, an outer product, a triangular system, and a product with its own transpose."""
    blas, (m, n), kind = Blas(s), (150, 70), np.float64
    a, x, y = s.floats(m, n, dtype=kind), s.floats(n, dtype=kind), s.floats(m, dtype=kind)
    one, half = scalar(1, kind), scalar(0.5, kind)
    matrix, left, right = upload(s, a), s.cuda.given(x), s.cuda.given(y)
    blas.call(
        "cublasDgemv_v2",
        blas.handle,
        0,
        m,
        n,
        pointer(one),
        matrix.at,
        m,
        left.at,
        1,
        pointer(half),
        right.at,
        1,
    )
    size = np.abs(a) @ np.abs(x) + np.abs(y)
    s.near("gemv", right.get(kind), a @ x + y / 2, growth(n) * u(kind) * size)
    right.put(y)
    blas.call(
        "cublasDgemv_v2",
        blas.handle,
        1,
        m,
        n,
        pointer(one),
        matrix.at,
        m,
        right.at,
        1,
        pointer(half),
        left.at,
        1,
    )
    s.near(
        "gemv transposed",
        left.get(kind),
        a.T @ y + x / 2,
        growth(m) * u(kind) * (np.abs(a.T) @ np.abs(y) + np.abs(x)),
    )
    left.put(x)
    blas.call("cublasDger_v2", blas.handle, m, n, pointer(half), right.at, 1, left.at, 1, matrix.at, m)
    outer = a + 0.5 * np.outer(y, x)
    s.near(
        "ger",
        matrix.get(kind).reshape(m, n, order="F"),
        outer,
        4 * u(kind) * (np.abs(a) + np.abs(np.outer(y, x))),
    )
    triangle = np.tril(s.floats(m, m, dtype=kind) / m) + 2 * np.eye(m)
    b = s.floats(m, n, dtype=kind)
    solved = upload(s, b)
    stored = triangle + np.triu(np.full((m, m), np.nan), 1)
    blas.call(
        "cublasDtrsm_v2", blas.handle, 0, 0, 0, 0, m, n, pointer(one), upload(s, stored).at, m, solved.at, m
    )
    got = solved.get(kind).reshape(m, n, order="F")
    s.near("trsm", triangle @ got, b, 4 * growth(m) * u(kind) * (np.abs(triangle) @ np.abs(got) + np.abs(b)))
    out = upload(s, np.full((m, m), np.nan))
    zero = scalar(0, kind)
    blas.call(
        "cublasDsyrk_v2", blas.handle, 0, 0, m, n, pointer(one), upload(s, a).at, m, pointer(zero), out.at, m
    )
    got, low = out.get(kind).reshape(m, m, order="F"), np.tril_indices(m)
    s.near("syrk", got[low], (a @ a.T)[low], growth(n) * u(kind) * (np.abs(a) @ np.abs(a.T))[low])
    s.need("syrk keeps the other half", np.isnan(got[np.triu_indices(m, 1)]).all(), "it was written")
    blas.close()


class Heuristic(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``."""

    _fields_: ClassVar[Any] = (
        ("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
        ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4),
    )  # fmt: skip


def lt_product(s: ProbeSession, lt: Any, handle: HANDLE, kind: int, dtype: Any) -> None:
    """One product of cuBLASLt with a padded output and beta; D is another matrix than C."""
    m, n, k, pad = 72, 56, 88, 8
    a, b, c = s.floats(m, k, dtype=dtype), s.floats(k, n, dtype=dtype), s.floats(m, n, dtype=dtype)
    layouts = [HANDLE() for _ in range(4)]
    for layout, (rows, columns, ld) in zip(layouts, ((m, k, m), (k, n, k), (m, n, m), (m, n, m + pad))):
        sizes = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(ld))
        lt.call("cublasLtMatrixLayoutCreate", ctypes.byref(layout), kind, *sizes)
    description, preference = HANDLE(), HANDLE()
    lt.call("cublasLtMatmulDescCreate", ctypes.byref(description), COMPUTE_32F, R_32F)
    lt.call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
    space, found, result = s.cuda.buffer(1 << 22), ctypes.c_int(), Heuristic()
    most = ctypes.c_uint64(1 << 22)
    lt.call("cublasLtMatmulPreferenceSetAttribute", preference, 1, ctypes.byref(most), SIZE(8))
    lt.call(
        "cublasLtMatmulAlgoGetHeuristic",
        handle,
        description,
        *layouts,
        preference,
        1,
        ctypes.byref(result),
        ctypes.byref(found),
    )
    if not found.value:
        msg = "cublasLtMatmulAlgoGetHeuristic found no algorithm"
        raise Refused(msg)
    whole = np.full((m + pad, n), np.nan, dtype, order="F")
    out, alpha, beta = upload(s, whole), scalar(0.5, np.float32), scalar(-1, np.float32)
    where = (upload(s, a).at, layouts[0], upload(s, b).at, layouts[1])
    lt.call(
        "cublasLtMatmul", handle, description, pointer(alpha), *where, pointer(beta), upload(s, c).at, layouts[2],
        out.at, layouts[3], ctypes.byref(result), space.at, SIZE(1 << 22), None,
    )  # fmt: skip
    got = out.get(dtype).reshape(m + pad, n, order="F")
    size = 0.5 * np.abs(wide(a)) @ np.abs(wide(b)) + np.abs(wide(c))
    want, name = 0.5 * wide(a) @ wide(b) - wide(c), np.dtype(dtype).name
    s.near(name, got[:m], want, 2 * growth(k) * u(np.float32) * size + 2 * u(dtype) * np.abs(want))
    s.need(name + " keeps what is between", np.isnan(got[m:]).all(), "it was written")


def lt(s: ProbeSession) -> None:
    """Products of cuBLASLt in single and half precision, by its own choice of algorithm."""
    library, handle = CudaLibrary(s, "cublasLt"), HANDLE()
    library.call("cublasLtCreate", ctypes.byref(handle))
    lt_product(s, library, handle, R_32F, np.float32)
    lt_product(s, library, handle, R_16F, np.float16)
    library.call("cublasLtDestroy", handle)


PROBES = {
    "cublas-vectors": level_1,
    "cublas-matrix-vector-and-triangular": level_2_and_3,
    "cublaslt-matmul": lt,
}
