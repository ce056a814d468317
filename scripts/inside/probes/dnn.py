"""Probes of cuDNN: convolutions forward and backward, with padding, stride, dilation and groups."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar, Dict, Sequence, Tuple

import numpy as np
from cuda_libraries import CudaLibrary
from kit import HANDLE, SIZE, Buffer, ProbeSession, Refused, growth, u

KINDS = {np.float32: 0, np.float64: 1, np.float16: 2}
FMA, DEFAULT = 3, 0
#: Algorithms that multiply as they are; the others transform, in half precision with more rounding.
DIRECT = {"Forward": (0, 1, 2), "BackwardData": (0, 1), "BackwardFilter": (0, 1, 3)}


class Performance(ctypes.Structure):
    """``cudnnConvolution...AlgoPerf_t``."""

    _fields_: ClassVar[Any] = (
        ("algorithm", ctypes.c_int), ("status", ctypes.c_int), ("time", ctypes.c_float), ("memory", ctypes.c_size_t),
        ("determinism", ctypes.c_int), ("math", ctypes.c_int), ("reserved", ctypes.c_int * 3),
    )  # fmt: skip


class Dnn(CudaLibrary):
    """cuDNN with a handle."""

    def __init__(self, s: ProbeSession) -> None:
        """Load and start it."""
        super().__init__(s, "cudnn")
        self.s, self.handle = s, HANDLE()
        self.call("cudnnCreate", ctypes.byref(self.handle))
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)

    def described(self, array: Any) -> Tuple[HANDLE, Buffer]:
        """Describe an array of four dimensions and copy it to the device."""
        return self.tensor(array.shape, array.dtype.type), self.s.cuda.given(array)

    def tensor(self, shape: Sequence[int], dtype: Any) -> HANDLE:
        """Describe a tensor."""
        found = HANDLE()
        self.call("cudnnCreateTensorDescriptor", ctypes.byref(found))
        self.call("cudnnSetTensor4dDescriptor", found, 0, KINDS[dtype], *shape)
        return found

    def scale(self, value: float) -> Any:
        """A factor, in memory."""
        return ctypes.byref(ctypes.c_float(value))


class Convolution:
    """One convolution: shapes, its parameters, and the reference in double precision."""

    def __init__(
        self,
        x: Tuple[int, ...],
        w: Tuple[int, ...],
        *,
        pad: int = 0,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
    ) -> None:
        """Compute the output's shape."""
        self.x, self.w, self.pad, self.stride, self.dilation, self.groups = (
            x,
            w,
            pad,
            stride,
            dilation,
            groups,
        )
        sizes = [(x[a] + 2 * pad - dilation * (w[a] - 1) - 1) // stride + 1 for a in (2, 3)]
        self.y = (x[0], w[0], *sizes)

    @property
    def label(self) -> str:
        """What its cases are called."""
        extra = (
            ("pad", self.pad),
            ("stride", self.stride),
            ("dilation", self.dilation),
            ("groups", self.groups),
        )
        words = ["%s %d" % pair for pair in extra if pair[1] > (pair[0] != "pad")]
        return "%dx%d %s" % (self.w[2], self.w[3], " ".join(words) or "plain")

    def windows(self, whole: Any) -> Any:
        """Yield the place in the filter and what it sees of a padded input."""
        high, wide = self.y[2:]
        for r in range(self.w[2]):
            for q in range(self.w[3]):
                top, left = r * self.dilation, q * self.dilation
                rows = slice(top, top + (high - 1) * self.stride + 1, self.stride)
                columns = slice(left, left + (wide - 1) * self.stride + 1, self.stride)
                yield r, q, whole[:, :, rows, columns]

    def parts(self) -> Any:
        """Yield each group's channels of input and output."""
        a, b = self.w[1], self.w[0] // self.groups
        for g in range(self.groups):
            yield slice(g * a, (g + 1) * a), slice(g * b, (g + 1) * b)

    def padded(self, x: Any) -> Any:
        """Add zeros around an input."""
        p = self.pad
        return np.pad(x.astype(np.float64), ((0, 0), (0, 0), (p, p), (p, p)))

    def forward(self, x: Any, w: Any) -> Any:
        """The output."""
        y = np.zeros(self.y)
        for r, q, seen in self.windows(self.padded(x)):
            for inner, outer in self.parts():
                y[:, outer] += np.einsum(
                    "nchw,kc->nkhw", seen[:, inner], w[outer, :, r, q].astype(np.float64)
                )
        return y

    def to_input(self, w: Any, dy: Any) -> Any:
        """The gradient of the input."""
        dx = self.padded(np.zeros(self.x))
        for r, q, seen in self.windows(dx):
            for inner, outer in self.parts():
                seen[:, inner] += np.einsum(
                    "nkhw,kc->nchw", dy[:, outer].astype(np.float64), w[outer, :, r, q].astype(np.float64)
                )
        end = [size - self.pad for size in dx.shape[2:]]
        return dx[:, :, self.pad : end[0], self.pad : end[1]]

    def to_filter(self, x: Any, dy: Any) -> Any:
        """The gradient of the filter."""
        dw = np.zeros(self.w)
        for r, q, seen in self.windows(self.padded(x)):
            for inner, outer in self.parts():
                dw[outer, :, r, q] = np.einsum(
                    "nkhw,nchw->kc", dy[:, outer].astype(np.float64), seen[:, inner]
                )
        return dw


CASES = (
    Convolution((2, 8, 20, 22), (12, 8, 3, 3)),
    Convolution((2, 8, 19, 17), (16, 8, 3, 3), pad=1),
    Convolution((3, 16, 21, 20), (8, 16, 5, 5), pad=2, stride=2),
    Convolution((2, 8, 24, 24), (8, 8, 3, 3), pad=2, dilation=2),
    Convolution((2, 16, 16, 16), (32, 4, 3, 3), pad=1, groups=4),
    Convolution((2, 24, 9, 9), (40, 24, 1, 1)),
)


def convolve(dnn: Dnn, way: str, c: Convolution, dtype: Any, given: Dict[str, Any], out: Buffer) -> None:
    """Run one of the three ways by cuDNN's own choice of algorithm."""
    tensors = {"x": dnn.tensor(c.x, dtype), "y": dnn.tensor(c.y, dtype), "w": HANDLE()}
    description = HANDLE()
    dnn.call("cudnnCreateFilterDescriptor", ctypes.byref(tensors["w"]))
    dnn.call("cudnnSetFilter4dDescriptor", tensors["w"], KINDS[dtype], 0, *c.w)
    dnn.call("cudnnCreateConvolutionDescriptor", ctypes.byref(description))
    sizes = (c.pad, c.pad, c.stride, c.stride, c.dilation, c.dilation)
    dnn.call("cudnnSetConvolution2dDescriptor", description, *sizes, 1, 0)
    dnn.call("cudnnSetConvolutionGroupCount", description, c.groups)
    dnn.call("cudnnSetConvolutionMathType", description, FMA if dtype == np.float32 else DEFAULT)
    first, second, last = {
        "Forward": ("x", "w", "y"),
        "BackwardData": ("w", "y", "x"),
        "BackwardFilter": ("x", "y", "w"),
    }[way]
    where = (tensors[first], tensors[second], description, tensors[last])
    algorithm = choose(dnn, way, where, dtype)
    size = SIZE()
    dnn.call("cudnnGetConvolution%sWorkspaceSize" % way, dnn.handle, *where, algorithm, ctypes.byref(size))
    space = dnn.s.cuda.buffer(max(size.value, 16))
    dnn.call(
        "cudnnConvolution%s" % way, dnn.handle, dnn.scale(1), tensors[first], given[first].at, tensors[second],
        given[second].at, description, algorithm, space.at, size, dnn.scale(0), tensors[last], out.at,
    )  # fmt: skip


def choose(dnn: Dnn, way: str, where: Any, dtype: Any) -> int:
    """Return the algorithm that cuDNN puts first, in half precision the first that does not transform.

    Raises:
        Refused: it names none.
    """
    found, count = (Performance * 10)(), ctypes.c_int()
    dnn.call("cudnnGetConvolution%sAlgorithm_v7" % way, dnn.handle, *where, 10, ctypes.byref(count), found)
    fits = [p.algorithm for p in found[: count.value] if p.status == 0]
    if dtype == np.float16:
        fits = [a for a in fits if a in DIRECT[way]]
    if not fits:
        msg = "cudnnGetConvolution%sAlgorithm_v7 names no algorithm" % way
        raise Refused(msg)
    return int(fits[0])


def convolutions(s: ProbeSession, way: str) -> None:
    """One way for every shape, in single and half precision."""
    dnn = Dnn(s)
    for dtype in (np.float32, np.float16):
        for c in CASES:
            x, w, dy = s.floats(*c.x, dtype=dtype), s.floats(*c.w, dtype=dtype), s.floats(*c.y, dtype=dtype)
            shape, terms, reference, inputs = {
                "Forward": (c.y, c.w[1] * c.w[2] * c.w[3], c.forward, (x, w)),
                "BackwardData": (c.x, c.w[0] // c.groups * c.w[2] * c.w[3], c.to_input, (w, dy)),
                "BackwardFilter": (c.w, c.y[0] * c.y[2] * c.y[3], c.to_filter, (x, dy)),
            }[way]
            given = {"x": s.cuda.given(x), "w": s.cuda.given(w), "y": s.cuda.given(dy)}
            out = s.cuda.empty(dtype, *shape)
            convolve(dnn, way, c, dtype, given, out)
            s.cuda.call("cuCtxSynchronize")
            want, size = reference(*inputs), reference(*(np.abs(a) for a in inputs))
            allowed = 4 * growth(terms) * u(np.float32) * size + 2 * u(dtype) * np.abs(want) + 1e-6 * u(dtype)
            s.near("%s %s" % (np.dtype(dtype).name, c.label), out.get(dtype, *shape), want, allowed)
    dnn.call("cudnnDestroy", dnn.handle)


def refusals(s: ProbeSession) -> None:
    """Sizes of zero and below, a type that does not exist, and channels that do not fit are refused."""
    dnn, found = Dnn(s), HANDLE()
    dnn.call("cudnnCreateTensorDescriptor", ctypes.byref(found))
    s.refuses("a size below zero", dnn.code("cudnnSetTensor4dDescriptor", found, 0, 0, 1, -3, 8, 8))
    s.refuses("a type that does not exist", dnn.code("cudnnSetTensor4dDescriptor", found, 0, 77, 1, 3, 8, 8))
    x, w, description = dnn.tensor((1, 5, 8, 8), np.float32), HANDLE(), HANDLE()
    dnn.call("cudnnCreateFilterDescriptor", ctypes.byref(w))
    dnn.call("cudnnSetFilter4dDescriptor", w, 0, 0, 4, 3, 3, 3)
    dnn.call("cudnnCreateConvolutionDescriptor", ctypes.byref(description))
    dnn.call("cudnnSetConvolution2dDescriptor", description, 0, 0, 1, 1, 1, 1, 1, 0)
    sizes = [ctypes.c_int() for _ in range(4)]
    code = dnn.code(
        "cudnnGetConvolution2dForwardOutputDim", description, x, w, *(ctypes.byref(v) for v in sizes)
    )
    s.refuses("five channels for three", code)


PROBES = {
    "cudnn-conv-forward": lambda s: convolutions(s, "Forward"),
    "cudnn-conv-backward-data": lambda s: convolutions(s, "BackwardData"),
    "cudnn-conv-backward-filter": lambda s: convolutions(s, "BackwardFilter"),
    "cudnn-refusals": refusals,
}
