"""Workload: many complex Fourier transforms of one length, by cuFFT; hipFFT and NumPy beside it.

``--size`` is the length; there are as many transforms as make four million numbers. One transform counts
5 n log2(n) operations, as is usual for any length. Exit codes and the result line are those of ``gemm.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from typing import Any

import numpy as np
from measured_work import Work, run

NUMBERS = 1 << 22
COMPLEX, FORWARD = 0x29, -1
#: What plans are: a number in cuFFT, an address in hipFFT.
PLAN = {"cuda": ctypes.c_int, "hip": ctypes.c_void_p}
LIBRARY = {"cuda": "cufft", "hip": "hipfft"}


class Transforms(Work):
    """The numbers, their transforms in double precision, and the plan."""

    def __init__(self, device: Any, options: argparse.Namespace) -> None:
        """Draw the numbers and make the plan."""
        rng, n = np.random.default_rng(options.seed), options.size
        shape = (max(1, NUMBERS // n), n)
        parts = rng.uniform(-1, 1, (2, *shape)).astype(np.float32)
        self.data = (parts[0] + 1j * parts[1]).astype(np.complex64)
        self.exact = np.fft.fft(self.data.astype(np.complex128), axis=1)
        # 8 u log2(n) of a row's length is above what any fast transform's rounding amounts to.
        lengths = np.linalg.norm(self.data, axis=1, keepdims=True)
        self.allowed = 8 * 2.0**-24 * np.log2(max(n, 2)) * lengths
        self.amount = 5.0 * self.data.size * np.log2(max(n, 2))
        self.device = device


class PlannedTransforms(Transforms):
    """Transforms by a library on the device."""

    def __init__(self, device: Any, options: argparse.Namespace) -> None:
        """Make the plan, and poison the output."""
        self.library = LIBRARY[options.backend]
        self.api, self.plan = device.library(self.library), PLAN[options.backend]()
        super().__init__(device, options)
        self.api.call(self.library + "Plan1d", ctypes.byref(self.plan), options.size, COMPLEX, len(self.data))
        self.source = device.upload(self.data)
        self.target = device.upload(np.full_like(self.data, np.nan))

    def act(self) -> None:
        """Transform everything."""
        self.api.call(self.library + "ExecC2C", self.plan, self.source, self.target, FORWARD)

    def result(self) -> Any:
        """Return what the device has written."""
        found = np.empty_like(self.data)
        self.device.read(found, self.target)
        return found

    def close(self) -> None:
        """Give the plan and the memory back."""
        self.api.call(self.library + "Destroy", self.plan)
        self.device.free([self.source, self.target])


class NumpyTransforms(Transforms):
    """Transforms by NumPy."""

    library = "NumPy " + np.__version__

    def act(self) -> None:
        """Transform everything."""
        self.found = np.fft.fft(self.data, axis=1)

    def result(self) -> Any:
        """Return what came out."""
        return self.found


def make(device: Any, options: argparse.Namespace) -> Work:
    """Choose the way."""
    return (
        NumpyTransforms(device, options) if options.backend == "cpu" else PlannedTransforms(device, options)
    )


if __name__ == "__main__":
    backends = ("cuda", "hip", "cpu")
    sys.exit(run("fft", "Fourier transforms", make, metric="gflops", size=4096, backends=backends))
