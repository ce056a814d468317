"""Probes of PyTorch's tensors: elements, sums, products, transforms, sparse ones, indices, random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from kit import ProbeSession, Refused, growth, u
from torch_kit import Torch

F32 = u(np.float32)


def elementwise(s: ProbeSession) -> None:
    """Functions of single elements, with broadcasting and steps between elements."""
    t = Torch(s)
    torch, a, b = t.torch, s.floats(257, 130), np.abs(s.floats(257, 1)) + 0.1
    x, y = t.up(a)[:, ::2], t.up(b.astype(np.float32))
    wide, other = a[:, ::2].astype(np.float64), b.astype(np.float32).astype(np.float64)
    cases = {
        "add": (x + y, wide + other), "multiply": (x * y, wide * other), "divide": (x / y, wide / other),
        "power": (torch.pow(y, x), other**wide), "exp": (torch.exp(x), np.exp(wide)), "log": (torch.log(y), np.log(other)),
        "sin": (torch.sin(x), np.sin(wide)), "tanh": (torch.tanh(x), np.tanh(wide)),
        "root": (torch.sqrt(y), np.sqrt(other)), "sigmoid": (torch.sigmoid(x), 1 / (1 + np.exp(-wide))),
        "fused": (torch.addcmul(x, x, y, value=0.5), wide + 0.5 * wide * other),
        "where": (torch.where(x > 0, x, y), np.where(wide > 0, wide, other)),
    }  # fmt: skip
    for case, (got, want) in cases.items():
        s.near(case, t.down(got), want, 8 * F32 * (np.abs(want) + 1))
    s.equal("compare", t.down(x > y), wide > other)
    whole = s.rng.integers(-1000, 1000, 999)
    s.equal("integers", t.down(t.up(whole) // 7 * 3 - 5), whole // 7 * 3 - 5)


def reductions(s: ProbeSession) -> None:
    """Sums, means, variances, products, extremes and running sums, over each axis."""
    t = Torch(s)
    torch, a = t.torch, s.floats(123, 4099)
    x, wide = t.up(a), a.astype(np.float64)
    for axis in (0, 1):
        count, size = a.shape[axis], np.abs(wide).sum(axis)
        s.near("sum %d" % axis, t.down(x.sum(axis)), wide.sum(axis), growth(count) * F32 * size)
        s.near("mean %d" % axis, t.down(x.mean(axis)), wide.mean(axis), growth(count) * F32)
        s.near("variance %d" % axis, t.down(x.var(axis)), wide.var(axis, ddof=1), growth(count) * F32 * 2)
        s.near(
            "norm %d" % axis,
            t.down(x.norm(dim=axis)),
            np.linalg.norm(wide, axis=axis),
            growth(count) * F32 * 8,
        )
        s.equal("largest %d" % axis, t.down(x.amax(axis)), wide.max(axis))
        s.equal("where %d" % axis, t.down(x.argmin(axis)), wide.argmin(axis))
        sums = t.down(torch.cumsum(x, axis))
        s.near(
            "running sum %d" % axis, sums, wide.cumsum(axis), growth(count) * F32 * np.abs(wide).cumsum(axis)
        )
        s.near(
            "log-sum-exp %d" % axis,
            t.down(torch.logsumexp(x, axis)),
            np.log(np.exp(wide).sum(axis)),
            growth(count) * F32 * 16,
        )
    s.equal("any", t.down((x > 0.9999).any()), (wide > 0.9999).any())
    s.near("all of it", t.down(x.sum()), wide.sum(), growth(a.size) * F32 * np.abs(wide).sum() / 8)


def product(s: ProbeSession, name: str) -> None:
    """Matrix products: plain, transposed, batched, with a vector, with a bias."""
    t = Torch(s)
    torch = t.torch
    dtype = getattr(torch, name)
    numpy_type = np.complex64 if name == "complex64" else np.float32
    draw = lambda *shape: t.up(s.floats(*shape, dtype=numpy_type), dtype)
    a, b, c, v = draw(131, 257), draw(257, 65), draw(131, 65), draw(257)
    many, other = draw(5, 33, 70), draw(5, 70, 41)
    cases = (
        ("plain", a @ b, a, b), ("transposed", b.T @ a.T, b.T, a.T), ("vector", a @ v, a, v), ("batched", many @ other, many, other),
    )  # fmt: skip
    one = t.u(dtype)
    for case, got, left, right in cases:
        first, second = t.down(left), t.down(right)
        want, size = first @ second, np.abs(first) @ np.abs(second)
        # Half types are summed in FP32 and rounded once; splitting a sum may round parts of it, too.
        slack = 2 * growth(2 * first.shape[-1]) * F32 * size + (
            4 * one * np.sqrt(first.shape[-1]) if one > F32 else 0
        )
        s.near(case, t.down(got), want, slack + 2 * one * np.abs(want))
    want = 0.5 * t.down(c) + 2 * t.down(a) @ t.down(b)
    size = 2 * np.abs(t.down(a)) @ np.abs(t.down(b)) + 1
    got = torch.addmm(c, a, b, beta=0.5, alpha=2.0)
    slack = 2 * growth(514) * F32 * size + (8 * one * 16 if one > F32 else 0) + 2 * one * np.abs(want)
    s.near("with a bias", t.down(got), want, slack)


def fft(s: ProbeSession) -> None:
    """Transforms in one, two and three dimensions, real and complex, there and back."""
    t = Torch(s)
    torch = t.torch
    for shape, axes in (((7, 1000), (1,)), ((3, 64, 48), (1, 2)), ((12, 20, 15), (0, 1, 2))):
        a, length = s.floats(*shape, dtype=np.complex64), int(np.prod([shape[i] for i in axes]))
        x, wide = t.up(a), a.astype(np.complex128)
        slack = 8 * F32 * np.log2(length) * np.sqrt(2 / 3 * length) * 2
        s.near("%dd" % len(axes), t.down(torch.fft.fftn(x, dim=axes)), np.fft.fftn(wide, axes=axes), slack)
        s.near(
            "%dd back" % len(axes),
            t.down(torch.fft.ifftn(x, dim=axes)),
            np.fft.ifftn(wide, axes=axes),
            slack / np.sqrt(length),
        )
        real = a.real.copy()
        got = torch.fft.rfftn(t.up(real), dim=axes)
        s.near("%dd real" % len(axes), t.down(got), np.fft.rfftn(real.astype(np.float64), axes=axes), slack)
        back = torch.fft.irfftn(got, s=[shape[i] for i in axes], dim=axes)
        s.near("%dd real there and back" % len(axes), t.down(back), real, slack / np.sqrt(length))


def sparse(s: ProbeSession) -> None:
    """Sparse matrices, by coordinates and by rows, times dense ones and a vector."""
    t = Torch(s)
    torch = t.torch
    full = (s.floats(211, 170) * (s.rng.random((211, 170)) < 0.06)).astype(np.float32)
    b, v = s.floats(170, 33), s.floats(170)
    size = np.abs(full).astype(np.float64) @ np.abs(b)
    want = full.astype(np.float64) @ b
    for case, matrix in (("coordinates", t.up(full).to_sparse()), ("rows", t.up(full).to_sparse_csr())):
        s.near(case, t.down(matrix @ t.up(b)), want, growth(64) * F32 * size + 1e-30)
        s.near(
            case + ", a vector",
            t.down(matrix @ t.up(v)),
            full.astype(np.float64) @ v,
            growth(64) * F32 * np.abs(full) @ np.abs(v) + 1e-30,
        )
        s.equal(case + ", dense again", t.down(matrix.to_dense()), full)
    twice = torch.sparse_coo_tensor(
        t.up(np.array([[0, 0, 2], [1, 1, 0]])), t.up(np.array([1.0, 2.0, 4.0], np.float32)), (3, 2)
    )
    s.equal("doubled places are added", t.down(twice.coalesce().to_dense()), [[0, 3], [0, 0], [4, 0]])


def gather_scatter(s: ProbeSession) -> None:
    """Picking, placing and adding by index, and by mask."""
    t = Torch(s)
    torch, a = t.torch, s.floats(60, 80)
    x, where = t.up(a), s.rng.integers(0, 60, (45, 80))
    index = t.up(where)
    s.equal("gather", t.down(x.gather(0, index)), np.take_along_axis(a, where, 0))
    rows = s.rng.integers(0, 60, 500)
    s.equal("index", t.down(x[t.up(rows)]), a[rows])
    source = s.floats(500, 80)
    want = np.zeros((60, 80))
    np.add.at(want, rows, source.astype(np.float64))
    got = torch.zeros(60, 80, device=t.device).index_add_(0, t.up(rows), t.up(source))
    s.near("add by index", t.down(got), want, growth(64) * F32 * 32)
    want = np.zeros((60, 80))
    part = s.floats(45, 80)
    np.add.at(want, (where, np.arange(80)[None, :]), part)
    got = torch.zeros(60, 80, device=t.device).scatter_add_(0, index, t.up(part))
    s.near("scatter and add", t.down(got), want, growth(64) * F32 * 32)
    order = s.rng.permutation(80)
    got = torch.empty(60, 80, device=t.device).fill_(float("nan")).index_copy_(1, t.up(order), x)
    want = np.empty((60, 80))
    want[:, order] = a
    s.equal("copy by index", t.down(got), want)
    s.equal("by a mask", t.down(x[x > 0.25]), a[a > 0.25])
    s.equal("where it is", t.down(torch.nonzero(x > 0.9)), np.argwhere(a > np.float32(0.9)))
    counted = s.rng.integers(0, 50, 10000)
    s.equal(
        "counted", t.down(torch.bincount(t.up(counted), minlength=50)), np.bincount(counted, minlength=50)
    )


def sorting(s: ProbeSession) -> None:
    """Sorting, the middle, what is unique, and searching."""
    t = Torch(s)
    torch, a = t.torch, s.floats(37, 5003)
    x = t.up(a)
    values, places = torch.sort(x, dim=1)
    s.equal("sorted", t.down(values), np.sort(a, 1))
    s.equal("and where from", np.take_along_axis(a, t.down(places), 1), np.sort(a, 1))
    s.equal("the middle", t.down(x.median(1).values), np.sort(a, 1)[:, 2501])
    whole = s.rng.integers(0, 300, 20000)
    found, counts = torch.unique(t.up(whole), return_counts=True)
    s.equal("unique", t.down(found), np.unique(whole))
    s.equal("how often", t.down(counts), np.unique(whole, return_counts=True)[1])
    edges = np.sort(s.floats(100))
    s.equal("search", t.down(torch.searchsorted(t.up(edges), t.up(a[0]))), np.searchsorted(edges, a[0]))


def largest(s: ProbeSession) -> None:
    """The largest and the smallest few of each row, and where they are."""
    t = Torch(s)
    a = s.floats(30, 5003)
    x = t.up(a)
    values, places = t.torch.topk(x, 50, dim=1)
    s.equal("the largest fifty", t.down(values), -np.sort(-a, 1)[:, :50])
    s.equal("and where they are", np.take_along_axis(a, t.down(places), 1), -np.sort(-a, 1)[:, :50])
    values, places = x.topk(7, dim=1, largest=False)
    s.equal("the smallest seven", t.down(values), np.sort(a, 1)[:, :7])
    s.equal("and where those are", np.take_along_axis(a, t.down(places), 1), np.sort(a, 1)[:, :7])


def random(s: ProbeSession) -> None:
    """Uniform, normal, whole and Bernoulli numbers, permutations, dropout; what a seed fixes."""
    t = Torch(s)
    torch, count = t.torch, 1 << 18

    def drawn(seed: int) -> Any:
        torch.manual_seed(seed)
        return t.down(torch.rand(count, device=t.device))

    first = drawn(7)
    s.need("in [0, 1)", (first >= 0).all() and (first < 1).all(), (first.min(), first.max()))
    s.near("mean", first.mean(), 0.5, 6 * np.sqrt(1 / 12 / count))
    s.near("variance", first.var(), 1 / 12, 6 * np.sqrt(1 / 180 / count))
    s.equal("the same seed", drawn(7), first)
    s.need("another seed", (drawn(8) == first).mean() < 0.001, "the same numbers")
    normal = t.down(torch.randn(count, device=t.device))
    s.near("normal mean", normal.mean(), 0.0, 6 / np.sqrt(count))
    s.near("normal variance", normal.var(), 1.0, 6 * np.sqrt(2 / count))
    s.near("within one deviation", (np.abs(normal) < 1).mean(), 0.682689, 6 * np.sqrt(0.2166 / count))
    whole = t.down(torch.randint(3, 19, (count,), device=t.device))
    s.equal("whole numbers", (whole.min(), whole.max()), (3, 18))
    s.equal("a permutation", np.sort(t.down(torch.randperm(5000, device=t.device))), np.arange(5000))
    kept = t.down(torch.nn.functional.dropout(torch.ones(count, device=t.device), 0.3))
    s.near("dropout keeps seven in ten", (kept != 0).mean(), 0.7, 6 * np.sqrt(0.21 / count))
    s.near("and scales them", kept[kept != 0], np.full(int((kept != 0).sum()), 1 / 0.7), 1e-6)


def half_is_there(t: Torch, name: str) -> None:
    """End where the device says that it lacks the type.

    Raises:
        Refused: it does.
    """
    if name == "bfloat16" and t.on_gpu and not t.torch.cuda.is_bf16_supported():
        msg = "PyTorch says that this device has no BF16"
        raise Refused(msg)


def bfloat16(s: ProbeSession) -> None:
    """Products in BF16."""
    half_is_there(Torch(s), "bfloat16")
    product(s, "bfloat16")


PROBES = {
    "torch-elementwise": elementwise,
    "torch-reductions": reductions,
    "torch-matmul": lambda s: product(s, "float32"),
    "torch-matmul-fp16": lambda s: product(s, "float16"),
    "torch-matmul-bf16": bfloat16,
    "torch-matmul-complex": lambda s: product(s, "complex64"),
    "torch-matmul-fp64": lambda s: product(s, "float64"),
    "torch-fft": fft,
    "torch-sparse": sparse,
    "torch-gather-scatter": gather_scatter,
    "torch-sort": sorting,
    "torch-topk": largest,
    "torch-random": random,
}
