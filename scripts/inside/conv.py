"""Workload: a convolution of images, 64 channels to 64 with filters of 3 x 3, by cuDNN; NumPy beside it.

``--size`` is the number of images, 56 x 56 each, with a border of zeros. Products and sums are in single
precision (no tensor cores). Exit codes and the result line are those of ``gemm.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from typing import Any, List

import numpy as np
from measured_work import Work, run

CHANNELS, EDGE, FILTER = 64, 56, 3
DEPTH = CHANNELS * FILTER * FILTER
#: cuDNN's numbers: layout by channels, single precision, correlation, the implicit product, no tensor cores.
BY_CHANNEL, SINGLE, CORRELATION, IMPLICIT_PRODUCT, MULTIPLY_ADD = 0, 0, 1, 1, 3


def columns(images: Any) -> Any:
    """Lay out what every place of the filters sees: (images, depth, places)."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = [padded[:, :, r : r + EDGE, q : q + EDGE] for r in range(FILTER) for q in range(FILTER)]
    return np.stack(seen, axis=2).reshape(len(images), DEPTH, EDGE * EDGE)


class ImageConvolution(Work):
    """Images, filters, and what comes out in double precision."""

    def __init__(self, device: Any, options: argparse.Namespace) -> None:
        """Draw them."""
        rng = np.random.default_rng(options.seed)
        self.images = rng.uniform(-1, 1, (options.size, CHANNELS, EDGE, EDGE)).astype(np.float32)
        self.filters = rng.uniform(-1, 1, (CHANNELS, CHANNELS, FILTER, FILTER)).astype(np.float32)
        wide, seen = self.filters.reshape(CHANNELS, DEPTH).astype(np.float64), columns(self.images)
        self.exact = wide @ seen
        # As for gemm: rounding errors of random sign grow like the root of their number; eight deviations.
        self.allowed = (8 * np.sqrt(DEPTH) + 2) * 2.0**-24 * (np.abs(wide) @ np.abs(seen))
        self.amount, self.device = 2.0 * DEPTH * self.exact.size, device


class DnnConvolution(ImageConvolution):
    """The convolution by cuDNN."""

    library = "cudnn"

    def __init__(self, device: Any, options: argparse.Namespace) -> None:
        """Describe everything, and poison the output."""
        self.api, self.handle = device.library("cudnn"), ctypes.c_void_p()
        super().__init__(device, options)
        self.api.call("cudnnCreate", ctypes.byref(self.handle))
        shape = self.images.shape
        tensors = [self._made("TensorDescriptor") for _ in range(2)]
        for tensor in tensors:
            self.api.call("cudnnSetTensor4dDescriptor", tensor, BY_CHANNEL, SINGLE, *shape)
        weights, way = self._made("FilterDescriptor"), self._made("ConvolutionDescriptor")
        self.api.call("cudnnSetFilter4dDescriptor", weights, SINGLE, BY_CHANNEL, *self.filters.shape)
        self.api.call("cudnnSetConvolution2dDescriptor", way, 1, 1, 1, 1, 1, 1, CORRELATION, SINGLE)
        self.api.call("cudnnSetConvolutionMathType", way, MULTIPLY_ADD)
        space, described = ctypes.c_size_t(), (tensors[0], weights, way, tensors[1], IMPLICIT_PRODUCT)
        asked = (self.handle, *described, ctypes.byref(space))
        self.api.call("cudnnGetConvolutionForwardWorkspaceSize", *asked)
        room = np.zeros(max(space.value, 4), np.uint8)
        arrays = (self.images, self.filters, np.full(shape, np.nan, np.float32), room)
        self.held: List[Any] = [device.upload(array) for array in arrays]
        self.factors = (ctypes.c_float(1), ctypes.c_float(0))
        one, zero = (ctypes.byref(factor) for factor in self.factors)
        x, w, y, place = self.held
        operands = (self.handle, one, tensors[0], x, weights, w, way, IMPLICIT_PRODUCT, place)
        self.arguments = (*operands, ctypes.c_size_t(room.size), zero, tensors[1], y)

    def _made(self, what: str) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.api.call("cudnnCreate" + what, ctypes.byref(made))
        return made

    def act(self) -> None:
        """Convolve."""
        self.api.call("cudnnConvolutionForward", *self.arguments)

    def result(self) -> Any:
        """Return what the device has written."""
        found = np.empty(self.images.shape, np.float32)
        self.device.read(found, self.held[2])
        return found.reshape(self.exact.shape)

    def close(self) -> None:
        """Give the handle and the memory back."""
        self.api.call("cudnnDestroy", self.handle)
        self.device.free(self.held)


class NumpyConvolution(ImageConvolution):
    """The convolution as NumPy's matrix product."""

    library = "NumPy " + np.__version__

    def act(self) -> None:
        """Lay out and multiply."""
        self.found = self.filters.reshape(CHANNELS, DEPTH) @ columns(self.images)

    def result(self) -> Any:
        """Return what came out."""
        return self.found


def make(device: Any, options: argparse.Namespace) -> Work:
    """Choose the way."""
    return NumpyConvolution(device, options) if options.backend == "cpu" else DnnConvolution(device, options)


if __name__ == "__main__":
    sys.exit(run("conv", "convolutions", make, metric="gflops", size=16, backends=("cuda", "cpu")))
