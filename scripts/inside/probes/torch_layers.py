"""Probes of PyTorch's layers: softmax, normalisation, convolution, attention, mixed precision."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
from kit import ProbeSession, Refused, growth, u
from torch_kit import Torch

F32 = u(np.float32)


def compare(
    s: ProbeSession, t: Torch, case: str, function: Any, inputs: Any, slack: float, **options: Any
) -> None:
    """Run a function and its gradient on the device, and the same in double precision on the CPU.

    The allowance is ``slack`` times one more than the reference's size, for outputs and for gradients.
    """
    torch = t.torch
    here = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    there = [t.double(x).requires_grad_(True) if x.is_floating_point() else x.cpu() for x in inputs]
    got, want = function(*here, **options), function(*there, **options)
    s.near(case, t.down(got), t.down(want), slack * (np.abs(t.down(want)) + 1))
    weight = torch.as_tensor(s.floats(*want.shape, dtype=np.float64))
    (want * weight).sum().backward()
    (got * weight.to(t.device, got.dtype)).sum().backward()
    for number, (mine, right) in enumerate(zip(here, there)):
        if mine.grad is not None:
            exact = t.down(right.grad)
            s.near(
                "%s: gradient %d" % (case, number),
                t.down(mine.grad),
                exact,
                4 * slack * (np.abs(exact) + np.abs(exact).max() + 1),
            )


def softmax(s: ProbeSession) -> None:
    """Softmax and its logarithm, along both axes, with gradients; large inputs do not overflow."""
    t = Torch(s)
    functional = t.torch.nn.functional
    x = t.up(s.floats(33, 1025) * 30)
    for axis in (0, 1):
        compare(s, t, "softmax %d" % axis, functional.softmax, [x], 64 * F32, dim=axis)
        compare(s, t, "logarithm %d" % axis, functional.log_softmax, [x], 64 * F32, dim=axis)
    labels = t.up(s.rng.integers(0, 1025, 33))
    compare(s, t, "cross entropy", functional.cross_entropy, [x, labels], 64 * F32)
    huge = t.down(functional.softmax(t.up(np.array([[1e30, 1e30, -1e30]], np.float32)), 1))
    s.near("huge inputs", huge, [[0.5, 0.5, 0.0]], 1e-6)


def layer_norm(s: ProbeSession) -> None:
    """Layer and group normalisation with weights, and gradients."""
    t = Torch(s)
    functional = t.torch.nn.functional
    x, w, b = t.up(s.floats(40, 768)), t.up(1 + s.floats(768) / 2), t.up(s.floats(768))
    compare(s, t, "layer", lambda a, c, d: functional.layer_norm(a, (768,), c, d), [x, w, b], 32 * F32)
    image, w, b = t.up(s.floats(4, 24, 9, 10)), t.up(1 + s.floats(24) / 2), t.up(s.floats(24))
    compare(s, t, "group", lambda a, c, d: functional.group_norm(a, 6, c, d), [image, w, b], 32 * F32)


def batch_norm(s: ProbeSession) -> None:
    """Batch normalisation in training and inference, its running values, and gradients."""
    t = Torch(s)
    torch, functional = t.torch, t.torch.nn.functional
    x, w, b = t.up(s.floats(8, 16, 14, 15)), t.up(1 + s.floats(16) / 2), t.up(s.floats(16))
    compare(
        s,
        t,
        "training",
        lambda a, c, d: functional.batch_norm(a, None, None, c, d, training=True),
        [x, w, b],
        64 * F32,
    )
    layer = torch.nn.BatchNorm2d(16, momentum=0.5).to(t.device)
    layer(x)
    wide = t.down(x)
    s.near("running mean", t.down(layer.running_mean), wide.mean((0, 2, 3)) / 2, 64 * F32)
    s.near("running variance", t.down(layer.running_var), running(wide), 64 * F32)
    layer.eval()
    mean, variance = t.down(layer.running_mean), t.down(layer.running_var)
    want = (wide - mean[:, None, None]) / np.sqrt(variance[:, None, None] + layer.eps)
    s.near("inference", t.down(layer(x)), want, 64 * F32)


def running(wide: Any) -> Any:
    """The running variance after one step with momentum 0.5, from 1."""
    count = wide.size // wide.shape[1]
    return 0.5 + 0.5 * wide.var((0, 2, 3)) * count / (count - 1)


def convolution(s: ProbeSession) -> None:
    """Convolution and its gradients: plain, padded, strided, dilated, grouped, transposed, in one dimension."""
    t = Torch(s)
    functional = t.torch.nn.functional
    x, b = t.up(s.floats(2, 8, 25, 23)), t.up(s.floats(12))
    for case, options, inner in (
        ("plain", {}, 8), ("padded", {"padding": 1}, 8), ("strided", {"padding": 2, "stride": 2}, 8),
        ("dilated", {"dilation": 2}, 8), ("grouped", {"padding": 1, "groups": 4}, 2),
    ):  # fmt: skip
        w = t.up(s.floats(12, inner, 3, 3) / 4)
        compare(s, t, case, functional.conv2d, [x, w, b], 2 * growth(600) * F32, **options)
    w = t.up(s.floats(8, 12, 4, 4) / 4)
    compare(
        s, t, "transposed", functional.conv_transpose2d, [x, w, b], 2 * growth(600) * F32, stride=2, padding=1
    )
    compare(
        s,
        t,
        "one dimension",
        functional.conv1d,
        [t.up(s.floats(3, 8, 200)), t.up(s.floats(5, 8, 9) / 4)],
        2 * growth(600) * F32,
    )


def convolution_half(s: ProbeSession) -> None:
    """Convolution in FP16, and its gradients."""
    t = Torch(s)
    x, w = t.up(s.floats(2, 16, 20, 20), t.torch.float16), t.up(s.floats(24, 16, 3, 3) / 12, t.torch.float16)
    compare(s, t, "half", t.torch.nn.functional.conv2d, [x, w], 8 * u(np.float16), padding=1)


def pooling(s: ProbeSession) -> None:
    """Pooling, upsampling and embedding, with gradients."""
    t = Torch(s)
    functional = t.torch.nn.functional
    x = t.up(s.floats(2, 6, 21, 22))
    compare(s, t, "largest", lambda a: functional.max_pool2d(a, 3, 2, 1), [x], 16 * F32)
    compare(s, t, "mean", lambda a: functional.avg_pool2d(a, 3, 2, 1), [x], 16 * F32)
    compare(s, t, "adaptive", lambda a: functional.adaptive_avg_pool2d(a, (5, 7)), [x], 16 * F32)
    compare(
        s, t, "upsampled", lambda a: functional.interpolate(a, scale_factor=2, mode="bilinear"), [x], 32 * F32
    )
    rows = t.up(s.rng.integers(0, 50, (8, 12)))
    compare(
        s,
        t,
        "embedding",
        lambda w: functional.embedding(rows.to(w.device), w),
        [t.up(s.floats(50, 32))],
        16 * F32,
    )


def attention(s: ProbeSession, name: str) -> None:
    """One way of attention alone, plain and causal, in the types that it has, with gradients."""
    t = Torch(s)
    torch = t.torch
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError as error:
        raise Refused(str(error)) from None
    backend = getattr(SDPBackend, name)
    types: Tuple[Any, ...] = (
        (torch.float32, torch.float16) if name != "FLASH_ATTENTION" else (torch.float16, torch.bfloat16)
    )
    if not t.on_gpu:
        types = (torch.float32,)
    for dtype in types:
        for causal in (False, True):
            q, k, v = (t.up(s.floats(2, 4, 96, 64), dtype) for _ in range(3))
            half = dtype != torch.float32
            slack = 8 * t.u(dtype) if half else 64 * F32
            case = "%s%s" % (str(dtype).replace("torch.", ""), " causal" if causal else "")

            def ask(a: Any, b: Any, c: Any, causal: Any = causal) -> Any:
                if a.dtype == torch.float64:
                    return exact_attention(torch, a, b, c, causal=causal)
                with sdpa_kernel([backend]):
                    return torch.nn.functional.scaled_dot_product_attention(a, b, c, is_causal=causal)

            try:
                compare(s, t, case, ask, [q, k, v], slack)
            except RuntimeError as error:
                if "No available kernel" in str(error) or "No viable backend" in str(error):
                    raise Refused(str(error).splitlines()[0]) from None
                raise


def exact_attention(torch: Any, q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Attention by its definition."""
    scores = q @ k.transpose(-2, -1) / np.sqrt(q.shape[-1])
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, -1) @ v


PROBES = {
    "torch-softmax": softmax,
    "torch-layer-norm": layer_norm,
    "torch-batch-norm": batch_norm,
    "torch-conv2d": convolution,
    "torch-conv2d-fp16": convolution_half,
    "torch-pooling": pooling,
    "torch-sdpa-math": lambda s: attention(s, "MATH"),
    "torch-sdpa-flash": lambda s: attention(s, "FLASH_ATTENTION"),
    "torch-sdpa-memory-efficient": lambda s: attention(s, "EFFICIENT_ATTENTION"),
}
