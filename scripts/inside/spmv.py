"""Workload: a sparse matrix times a vector, by cuSPARSE; hipSPARSE and NumPy beside it.

``--size`` is the number of rows and of columns; a row has 1 to 63 numbers at random places. Every number
counts two operations. Exit codes and the result line are those of ``gemm.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from typing import Any, List

import numpy as np
from measured_work import Work, run

MOST_IN_A_ROW = 63
#: The same numbers in both libraries: 32-bit indices from zero, single precision, the default way.
INDEX_32, FROM_ZERO, SINGLE, DEFAULT, AS_IT_IS = 2, 0, 0, 0, 0
LIBRARY = {"cuda": "cusparse", "hip": "hipsparse"}


class SparseProduct(Work):
    """The matrix in rows (CSR), the vector, and their product in double precision."""

    def __init__(self, device: Any, options: argparse.Namespace) -> None:
        """Draw them."""
        rng, n = np.random.default_rng(options.seed), options.size
        lengths = rng.integers(1, MOST_IN_A_ROW + 1, n)
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        count = int(self.starts[-1])
        self.columns = rng.integers(0, n, count).astype(np.int32)
        self.values, self.x = (rng.uniform(-1, 1, k).astype(np.float32) for k in (count, n))
        parts = self.values.astype(np.float64) * self.x[self.columns]
        self.exact = np.add.reduceat(parts, self.starts[:-1])
        # A sum of m products in any order is right to (m + 1) u of the sum of their sizes.
        self.allowed = (lengths + 1) * 2.0**-24 * np.add.reduceat(np.abs(parts), self.starts[:-1]) + 1e-30
        self.amount, self.size, self.device = 2.0 * count, n, device


class LibraryProduct(SparseProduct):
    """The product by a library on the device."""

    def __init__(self, device: Any, options: argparse.Namespace) -> None:
        """Describe matrix and vectors, and poison the output."""
        self.library = name = LIBRARY[options.backend]
        self.api = device.library(name)
        super().__init__(device, options)
        self.handle, self.space = ctypes.c_void_p(), ctypes.c_size_t()
        self.api.call(name + "Create", ctypes.byref(self.handle))
        arrays = (self.starts, self.columns, self.values, self.x, np.full(self.size, np.nan, np.float32))
        self.held: List[Any] = [device.upload(array) for array in arrays]
        matrix, sizes = (
            ctypes.c_void_p(),
            [ctypes.c_int64(k) for k in (self.size, self.size, self.values.size)],
        )
        kinds = (INDEX_32, INDEX_32, FROM_ZERO, SINGLE)
        self.api.call(name + "CreateCsr", ctypes.byref(matrix), *sizes, *self.held[:3], *kinds)
        vectors = (ctypes.c_void_p(), ctypes.c_void_p())
        for vector, place in zip(vectors, self.held[3:]):
            self.api.call(name + "CreateDnVec", ctypes.byref(vector), sizes[0], place, SINGLE)
        self.factors = (ctypes.c_float(1), ctypes.c_float(0))
        one, zero = (ctypes.byref(factor) for factor in self.factors)
        self.head = (self.handle, AS_IT_IS, one, matrix, vectors[0], zero, vectors[1], SINGLE, DEFAULT)
        self.api.call(name + "SpMV_bufferSize", *self.head, ctypes.byref(self.space))
        self.held.append(device.upload(np.zeros(max(self.space.value, 4), np.uint8)))

    def act(self) -> None:
        """Multiply."""
        self.api.call(self.library + "SpMV", *self.head, self.held[-1])

    def result(self) -> Any:
        """Return what the device has written."""
        found = np.empty(self.size, np.float32)
        self.device.read(found, self.held[4])
        return found.astype(np.float64)

    def close(self) -> None:
        """Give the handle and the memory back."""
        self.api.call(self.library + "Destroy", self.handle)
        self.device.free(self.held)


class NumpyProduct(SparseProduct):
    """The product by NumPy."""

    library = "NumPy " + np.__version__

    def act(self) -> None:
        """Multiply."""
        self.found = np.add.reduceat(self.values * self.x[self.columns], self.starts[:-1])

    def result(self) -> Any:
        """Return what came out."""
        return self.found.astype(np.float64)


def make(device: Any, options: argparse.Namespace) -> Work:
    """Choose the way."""
    return NumpyProduct(device, options) if options.backend == "cpu" else LibraryProduct(device, options)


if __name__ == "__main__":
    backends = ("cuda", "hip", "cpu")
    sys.exit(run("spmv", "sparse products", make, metric="gflops", size=1 << 18, backends=backends))
