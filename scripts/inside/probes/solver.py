"""Probes of cuSOLVER: LU, Cholesky, QR, singular values and eigenvalues, judged by what they must satisfy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from cuda_libraries import CudaLibrary
from kit import HANDLE, Buffer, ProbeSession, u

#: A backward-stable factorisation's residual is a small multiple of n u |A|: this one is allowed.
FACTOR = 20


class Solver(CudaLibrary):
    """cuSOLVER with a handle, for one type."""

    def __init__(self, s: ProbeSession, letter: str) -> None:
        """Load and start it."""
        super().__init__(s, "cusolver")
        self.s, self.letter, self.handle = s, letter, HANDLE()
        self.dtype = np.float32 if letter == "S" else np.float64
        self.info = s.cuda.given(np.full(1, -7, np.int32))
        self.call("cusolverDnCreate", ctypes.byref(self.handle))

    def run(self, name: str, *arguments: Any) -> None:
        """Call a function of this type."""
        self.call("cusolverDn%s%s" % (self.letter, name), self.handle, *arguments)

    def space(self, name: str, *arguments: Any) -> Any:
        """Ask how much memory a function needs; returns that memory and its length."""
        length = ctypes.c_int()
        self.run(name + "_bufferSize", *arguments, ctypes.byref(length))
        return self.s.cuda.empty(self.dtype, max(length.value, 1)), length.value

    def ended(self) -> int:
        """Return what the last function left in its info."""
        return int(self.info.get(np.int32)[0])

    def up(self, array: Any) -> Buffer:
        """Copy a matrix to the device, column-major."""
        return self.s.cuda.given(np.asarray(array, self.dtype).ravel(order="F"))

    def down(self, buffer: Buffer, rows: int, columns: int) -> Any:
        """Copy a matrix back."""
        return buffer.get(self.dtype).reshape(rows, columns, order="F").astype(np.float64)

    def slack(self, matrix: Any) -> float:
        """How far a residual may be off."""
        return float(FACTOR * max(matrix.shape) * u(self.dtype) * np.linalg.norm(matrix, 2)) + 1e-30


def lu(s: ProbeSession) -> None:
    """Solving by LU with pivots; a singular matrix is reported."""
    for letter in "SD":
        solver, n, many = Solver(s, letter), 83, 5
        a = s.floats(n, n, dtype=solver.dtype)
        b = s.floats(n, many, dtype=solver.dtype)
        matrix, pivots, right = solver.up(a), s.cuda.empty(np.int32, n), solver.up(b)
        work, _length = solver.space("getrf", n, n, matrix.at, n)
        solver.run("getrf", n, n, matrix.at, n, work.at, pivots.at, solver.info.at)
        s.equal(letter + ": info", solver.ended(), 0)
        solver.run("getrs", 0, n, many, matrix.at, n, pivots.at, right.at, n, solver.info.at)
        x, wide = solver.down(right, n, many), a.astype(np.float64)
        size = np.abs(wide) @ np.abs(x) + np.abs(b)
        s.near(letter + ": A x = b", wide @ x, b, FACTOR * n * u(solver.dtype) * size)
        singular = a.copy()
        singular[:, 7] = 0
        matrix = solver.up(singular)
        solver.run("getrf", n, n, matrix.at, n, work.at, pivots.at, solver.info.at)
        s.equal(letter + ": the column of zeros is named", solver.ended(), 8)


def cholesky(s: ProbeSession) -> None:
    """A positive definite matrix is a triangle times itself; another one is reported."""
    for letter in "SD":
        solver, n = Solver(s, letter), 71
        half = s.floats(n, n, dtype=np.float64)
        a = (half @ half.T / n + np.eye(n)).astype(solver.dtype)
        matrix = solver.up(a)
        work, length = solver.space("potrf", 0, n, matrix.at, n)
        solver.run("potrf", 0, n, matrix.at, n, work.at, length, solver.info.at)
        s.equal(letter + ": info", solver.ended(), 0)
        triangle = np.tril(solver.down(matrix, n, n))
        s.near(letter + ": L L^T = A", triangle @ triangle.T, a, solver.slack(a))
        bad = a.copy()
        bad[4, 4] = -1
        matrix = solver.up(bad)
        solver.run("potrf", 0, n, matrix.at, n, work.at, length, solver.info.at)
        s.equal(letter + ": what is not positive is named", solver.ended(), 5)


def qr(s: ProbeSession) -> None:
    """Q is orthogonal, R a triangle, and their product the matrix."""
    for letter in "SD":
        solver, (m, n) = Solver(s, letter), (90, 61)
        a = s.floats(m, n, dtype=solver.dtype)
        matrix, tau = solver.up(a), s.cuda.empty(solver.dtype, n)
        work, length = solver.space("geqrf", m, n, matrix.at, m)
        solver.run("geqrf", m, n, matrix.at, m, tau.at, work.at, length, solver.info.at)
        s.equal(letter + ": info", solver.ended(), 0)
        r = np.triu(solver.down(matrix, m, n)[:n])
        work, length = solver.space("orgqr", m, n, n, matrix.at, m, tau.at)
        solver.run("orgqr", m, n, n, matrix.at, m, tau.at, work.at, length, solver.info.at)
        q = solver.down(matrix, m, n)
        s.near(letter + ": Q R = A", q @ r, a, solver.slack(a))
        s.near(letter + ": Q^T Q = 1", q.T @ q, np.eye(n), FACTOR * m * u(solver.dtype))


def svd(s: ProbeSession) -> None:
    """Singular values are those of the reference; both bases are orthogonal; the product is the matrix."""
    for letter in "SD":
        solver, (m, n) = Solver(s, letter), (64, 45)
        a = s.floats(m, n, dtype=solver.dtype)
        matrix, values = solver.up(a), s.cuda.empty(solver.dtype, n)
        left, right = s.cuda.empty(solver.dtype, m, m), s.cuda.empty(solver.dtype, n, n)
        work, length = solver.space("gesvd", m, n)
        job = ctypes.c_byte(ord("A"))
        solver.run(
            "gesvd",
            job,
            job,
            m,
            n,
            matrix.at,
            m,
            values.at,
            left.at,
            m,
            right.at,
            n,
            work.at,
            length,
            None,
            solver.info.at,
        )
        s.equal(letter + ": info", solver.ended(), 0)
        found, slack = values.get(solver.dtype).astype(np.float64), solver.slack(a)
        s.near(letter + ": values", found, np.linalg.svd(a.astype(np.float64), compute_uv=False), slack)
        basis, other = solver.down(left, m, m), solver.down(right, n, n)
        s.near(letter + ": U S V^T = A", basis[:, :n] * found @ other, a, slack)
        s.near(letter + ": U^T U = 1", basis.T @ basis, np.eye(m), FACTOR * m * u(solver.dtype))
        s.near(letter + ": V^T V = 1", other @ other.T, np.eye(n), FACTOR * n * u(solver.dtype))


def eigen(s: ProbeSession) -> None:
    """Eigenvalues of a symmetric matrix are those of the reference, and A v = w v."""
    for letter in "SD":
        solver, n = Solver(s, letter), 70
        half = s.floats(n, n, dtype=solver.dtype)
        a = ((half + half.T) / 2).astype(solver.dtype)
        matrix, values = solver.up(a), s.cuda.empty(solver.dtype, n)
        work, length = solver.space("syevd", 1, 0, n, matrix.at, n, values.at)
        solver.run("syevd", 1, 0, n, matrix.at, n, values.at, work.at, length, solver.info.at)
        s.equal(letter + ": info", solver.ended(), 0)
        found, vectors = values.get(solver.dtype).astype(np.float64), solver.down(matrix, n, n)
        slack = solver.slack(a)
        s.near(letter + ": values", found, np.linalg.eigvalsh(a.astype(np.float64)), slack)
        s.near(letter + ": A V = V W", a.astype(np.float64) @ vectors, vectors * found, slack)
        s.near(letter + ": V^T V = 1", vectors.T @ vectors, np.eye(n), FACTOR * n * u(solver.dtype))


PROBES = {
    "cusolver-lu": lu,
    "cusolver-cholesky": cholesky,
    "cusolver-qr": qr,
    "cusolver-svd": svd,
    "cusolver-eigh": eigen,
}
