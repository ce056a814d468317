"""Probes of cuDNN beyond convolutions: batch normalisation, pooling, softmax, forward and backward."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from dnn import Dnn
from kit import HANDLE, ProbeSession, growth, u

SPATIAL, EPSILON = 1, 1e-4
MAX, AVERAGE_WITH, AVERAGE_WITHOUT = 0, 1, 2


def batch_norm(s: ProbeSession) -> None:
    """Training, inference and gradients of batch normalisation over channels."""
    dnn, shape, kind = Dnn(s), (4, 6, 9, 11), np.float32
    x, dy = s.floats(*shape), s.floats(*shape)
    scale, bias = 1 + s.floats(1, 6, 1, 1) / 2, s.floats(1, 6, 1, 1)
    description, given = dnn.described(x)
    derived, out = HANDLE(), s.cuda.empty(kind, *shape)
    dnn.call("cudnnCreateTensorDescriptor", ctypes.byref(derived))
    dnn.call("cudnnDeriveBNTensorDescriptor", derived, description, SPATIAL)
    gamma, beta = s.cuda.given(scale.astype(kind)), s.cuda.given(bias)
    running = [s.cuda.given(np.zeros(6, kind)) for _ in range(2)]
    saved = [s.cuda.empty(kind, 6) for _ in range(2)]
    factor, epsilon = ctypes.c_double(1.0), ctypes.c_double(EPSILON)
    one, zero = dnn.scale(1), dnn.scale(0)
    dnn.call(
        "cudnnBatchNormalizationForwardTraining", dnn.handle, SPATIAL, one, zero, description, given.at, description,
        out.at, derived, gamma.at, beta.at, factor, running[0].at, running[1].at, epsilon, saved[0].at, saved[1].at,
    )  # fmt: skip
    wide, axes, count = x.astype(np.float64), (0, 2, 3), x.size // 6
    mean, variance = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    deviation = 1 / np.sqrt(variance + EPSILON)
    normal = (wide - mean) * deviation
    slack = growth(count) * u(kind)
    s.near("output", out.get(kind, *shape), scale * normal + bias, 8 * slack)
    s.near("mean", saved[0].get(kind), mean.ravel(), slack)
    s.near("one over the deviation", saved[1].get(kind), deviation.ravel(), 8 * slack * deviation.ravel())
    s.near("running mean", running[0].get(kind), mean.ravel(), slack)
    s.near("running variance", running[1].get(kind), variance.ravel() * count / (count - 1), 8 * slack)
    dnn.call(
        "cudnnBatchNormalizationForwardInference", dnn.handle, SPATIAL, one, zero, description, given.at, description,
        out.at, derived, gamma.at, beta.at, running[0].at, running[1].at, epsilon,
    )  # fmt: skip
    rest = (wide - mean) / np.sqrt(variance * count / (count - 1) + EPSILON)
    s.near("inference", out.get(kind, *shape), scale * rest + bias, 8 * slack)
    dx, grads = s.cuda.empty(kind, *shape), [s.cuda.empty(kind, 6) for _ in range(2)]
    dnn.call(
        "cudnnBatchNormalizationBackward", dnn.handle, SPATIAL, one, zero, one, zero, description, given.at, description,
        s.cuda.given(dy).at, description, dx.at, derived, gamma.at, grads[0].at, grads[1].at, epsilon,
        saved[0].at, saved[1].at,
    )  # fmt: skip
    to_scale, to_bias = (dy * normal).sum(axes, keepdims=True), dy.astype(np.float64).sum(axes, keepdims=True)
    want = scale * deviation * (dy - to_bias / count - normal * to_scale / count)
    s.near(
        "gradient of the scale",
        grads[0].get(kind),
        to_scale.ravel(),
        8 * slack * np.abs(dy * normal).sum(axes),
    )
    s.near("gradient of the bias", grads[1].get(kind), to_bias.ravel(), slack * np.abs(dy).sum(axes))
    s.near("gradient of the input", dx.get(kind, *shape), want, 16 * slack * 4)


def windows(x: Any, size: int, pad: int, stride: int, fill: float) -> Any:
    """Every window of an input, flat, as the last axis."""
    whole = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(whole, (size, size), axis=(2, 3))[
        :, :, ::stride, ::stride
    ]
    return view.reshape(*view.shape[:4], -1)


def pooling(s: ProbeSession) -> None:
    """The largest and the mean of windows; the largest's gradient goes to where it was."""
    dnn, shape, size, pad, stride = Dnn(s), (2, 5, 13, 16), 3, 1, 2
    x = s.floats(*shape)
    description, given = dnn.described(x)
    for case, mode in (
        ("largest", MAX),
        ("mean with the padding", AVERAGE_WITH),
        ("mean without", AVERAGE_WITHOUT),
    ):
        pool, sizes = HANDLE(), [ctypes.c_int() for _ in range(4)]
        dnn.call("cudnnCreatePoolingDescriptor", ctypes.byref(pool))
        dnn.call("cudnnSetPooling2dDescriptor", pool, mode, 1, size, size, pad, pad, stride, stride)
        dnn.call("cudnnGetPooling2dForwardOutputDim", pool, description, *(ctypes.byref(v) for v in sizes))
        seen = windows(x, size, pad, stride, -np.inf if mode == MAX else 0.0)
        inside = windows(np.ones(shape), size, pad, stride, 0.0).sum(-1)
        want = seen.max(-1) if mode == MAX else seen.sum(-1) / (9 if mode == AVERAGE_WITH else inside)
        if not s.equal(case + ": shape", [v.value for v in sizes], want.shape):
            continue
        target, out = dnn.tensor(want.shape, np.float32), s.cuda.empty(np.float32, *want.shape)
        dnn.call(
            "cudnnPoolingForward",
            dnn.handle,
            pool,
            dnn.scale(1),
            description,
            given.at,
            dnn.scale(0),
            target,
            out.at,
        )
        s.near(case, out.get(np.float32, *want.shape), want, 16 * u(np.float32))
        dy, dx = s.floats(*want.shape), s.cuda.empty(np.float32, *shape)
        dnn.call(
            "cudnnPoolingBackward", dnn.handle, pool, dnn.scale(1), target, out.at, target, s.cuda.given(dy).at,
            description, given.at, dnn.scale(0), description, dx.at,
        )  # fmt: skip
        s.near(
            case + ": sum of the gradient",
            dx.get(np.float32).astype(np.float64).sum(),
            kept(dy, mode, inside),
            1e-3,
        )


def kept(dy: Any, mode: int, inside: Any) -> float:
    """How much of a gradient falls on the input and not on the padding."""
    return float((dy * (inside / 9 if mode == AVERAGE_WITH else 1.0)).sum())


def softmax(s: ProbeSession) -> None:
    """Softmax over channels, its logarithm, large inputs, and its gradient."""
    dnn, shape = Dnn(s), (5, 33, 4, 3)
    x = (s.floats(*shape) * 40).astype(np.float32)
    description, given = dnn.described(x)
    out, wide = s.cuda.empty(np.float32, *shape), x.astype(np.float64)
    logs = wide - wide.max(1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    for case, algorithm, want in (("softmax", 1, np.exp(logs)), ("logarithm", 2, logs)):
        dnn.call(
            "cudnnSoftmaxForward",
            dnn.handle,
            algorithm,
            1,
            dnn.scale(1),
            description,
            given.at,
            dnn.scale(0),
            description,
            out.at,
        )
        slack = 200 * u(np.float32) * (np.abs(want) + (1e-30 if algorithm == 1 else 1))
        s.near(case, out.get(np.float32, *shape), want, slack + (1e-7 if algorithm == 1 else 0))
    y, dy = np.exp(logs).astype(np.float32), s.floats(*shape)
    dx = s.cuda.empty(np.float32, *shape)
    dnn.call(
        "cudnnSoftmaxBackward", dnn.handle, 1, 1, dnn.scale(1), description, s.cuda.given(y).at, description,
        s.cuda.given(dy).at, dnn.scale(0), description, dx.at,
    )  # fmt: skip
    want = y * (dy - (y.astype(np.float64) * dy).sum(1, keepdims=True))
    s.near("gradient", dx.get(np.float32, *shape), want, 100 * u(np.float32) * np.abs(y) + 1e-6)


PROBES = {"cudnn-batch-norm": batch_norm, "cudnn-pooling": pooling, "cudnn-softmax": softmax}
