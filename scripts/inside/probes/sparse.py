"""Probes of cuSPARSE: a sparse matrix times a vector, and times a matrix."""

from __future__ import annotations

import ctypes
from typing import Any, Tuple

import numpy as np
from cuda_libraries import CudaLibrary
from kit import HANDLE, SIZE, ProbeSession, growth, u

INDEX_32, COLUMNS, ROWS = 2, 1, 2
TYPES = {np.float32: 0, np.float64: 1, np.complex64: 4}


class Sparse(CudaLibrary):
    """cuSPARSE with a handle, and one random matrix of it."""

    def __init__(self, s: ProbeSession) -> None:
        """Load and start it."""
        super().__init__(s, "cusparse")
        self.handle = HANDLE()
        self.call("cusparseCreate", ctypes.byref(self.handle))


def matrix(s: ProbeSession, sparse: Sparse, shape: Tuple[int, int], dtype: Any) -> Tuple[Any, HANDLE]:
    """Draw a matrix with a row and a column of zeros; returns it in full, and its CSR descriptor."""
    full = s.floats(*shape, dtype=dtype) * (s.rng.random(shape) < 0.07)
    full[shape[0] // 3], full[:, shape[1] // 2] = 0, 0
    rows, columns = np.nonzero(full)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))]).astype(np.int32)
    values = full[rows, columns].astype(dtype)
    held = [s.cuda.given(x) for x in (starts, columns.astype(np.int32), values)]
    found = HANDLE()
    sizes = [ctypes.c_int64(v) for v in (*shape, values.size)]
    sparse.call(
        "cusparseCreateCsr",
        ctypes.byref(found),
        *sizes,
        *(b.at for b in held),
        INDEX_32,
        INDEX_32,
        0,
        TYPES[dtype],
    )
    return full, found


def spmv(s: ProbeSession) -> None:
    """Y = alpha A x + beta y, plain and transposed, in three types."""
    sparse = Sparse(s)
    for dtype, kind in TYPES.items():
        full, a = matrix(s, sparse, (301, 203), dtype)
        for operation in (0, 1):
            m = full.T if operation else full
            x, y = s.floats(m.shape[1], dtype=dtype), s.floats(m.shape[0], dtype=dtype)
            left, out, vectors = s.cuda.given(x), s.cuda.given(y), (HANDLE(), HANDLE())
            for vector, data, size in zip(vectors, (left, out), (x.size, y.size)):
                sparse.call("cusparseCreateDnVec", ctypes.byref(vector), ctypes.c_int64(size), data.at, kind)
            one, two, space = np.array([1.5], dtype), np.array([-0.5], dtype), SIZE()
            head = (
                sparse.handle,
                operation,
                HANDLE(one.ctypes.data),
                a,
                vectors[0],
                HANDLE(two.ctypes.data),
                vectors[1],
                kind,
                0,
            )
            sparse.call("cusparseSpMV_bufferSize", *head, ctypes.byref(space))
            sparse.call("cusparseSpMV", *head, s.cuda.buffer(max(space.value, 4)).at)
            size = 1.5 * np.abs(m) @ np.abs(x) + np.abs(y)
            wide = np.complex128 if kind == TYPES[np.complex64] else np.float64
            want = 1.5 * m.astype(wide) @ x.astype(wide) - 0.5 * y.astype(wide)
            case = np.dtype(dtype).name + (" transposed" if operation else "")
            s.near(case, out.get(dtype), want, 4 * growth(64) * u(dtype) * size + 1e-30)


def spmm(s: ProbeSession) -> None:
    """C = A B for a dense B, stored by columns and by rows."""
    sparse = Sparse(s)
    for dtype in (np.float32, np.float64):
        kind, n = TYPES[dtype], 37
        full, a = matrix(s, sparse, (150, 220), dtype)
        b = s.floats(220, n, dtype=dtype)
        want, size = full.astype(np.float64) @ b.astype(np.float64), np.abs(full) @ np.abs(b)
        for order, letter in ((COLUMNS, "F"), (ROWS, "C")):
            right, out, mats = (
                s.cuda.given(b.ravel(order=letter)),
                s.cuda.empty(dtype, 150, n),
                (HANDLE(), HANDLE()),
            )
            for mat, data, rows in zip(mats, (right, out), (220, 150)):
                sizes = [ctypes.c_int64(v) for v in (rows, n, rows if order == COLUMNS else n)]
                sparse.call("cusparseCreateDnMat", ctypes.byref(mat), *sizes, data.at, kind, order)
            one, zero, space = np.array([1], dtype), np.array([0], dtype), SIZE()
            head = (
                sparse.handle,
                0,
                0,
                HANDLE(one.ctypes.data),
                a,
                mats[0],
                HANDLE(zero.ctypes.data),
                mats[1],
                kind,
                0,
            )
            sparse.call("cusparseSpMM_bufferSize", *head, ctypes.byref(space))
            sparse.call("cusparseSpMM", *head, s.cuda.buffer(max(space.value, 4)).at)
            got = out.get(dtype).reshape(150, n, order=letter)
            case = "%s by %s" % (np.dtype(dtype).name, "columns" if order == COLUMNS else "rows")
            s.near(case, got, want, 4 * growth(64) * u(dtype) * size + 1e-30)


def refusals(s: ProbeSession) -> None:
    """No handle, and a vector of the wrong length, are refused."""
    sparse = Sparse(s)
    found = HANDLE()
    bad = sparse.code("cusparseCreateDnVec", ctypes.byref(found), ctypes.c_int64(-1), None, 0)
    s.refuses("a vector of length -1", bad)
    _full, a = matrix(s, sparse, (10, 12), np.float32)
    data, vectors = s.cuda.given(s.floats(12)), (HANDLE(), HANDLE())
    for vector, size in zip(vectors, (11, 10)):
        sparse.call("cusparseCreateDnVec", ctypes.byref(vector), ctypes.c_int64(size), data.at, 0)
    one, space = np.ones(1, np.float32), SIZE()
    where = HANDLE(one.ctypes.data)
    code = sparse.code(
        "cusparseSpMV_bufferSize",
        sparse.handle,
        0,
        where,
        a,
        vectors[0],
        where,
        vectors[1],
        0,
        0,
        ctypes.byref(space),
    )
    if code == 0:
        code = sparse.code(
            "cusparseSpMV", sparse.handle, 0, where, a, vectors[0], where, vectors[1], 0, 0, data.at
        )
    s.refuses("a vector of 11 for 12 columns", code)
    s.refuses(
        "no handle", sparse.code("cusparseDestroy", None) or sparse.code("cusparseSetStream", None, None)
    )


PROBES = {"cusparse-spmv": spmv, "cusparse-spmm": spmm, "cusparse-refusals": refusals}
