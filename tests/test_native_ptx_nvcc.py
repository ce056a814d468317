"""CUDA C++ as nvcc compiles it, run by the engine and checked against NumPy. Skipped where there is no nvcc."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.native_cpu import no_compiler
from tests.native_ptx import Module

SOURCE = Path(__file__).parent / "native" / "ptx_kernels.cu"
NVCC = shutil.which("nvcc")
pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(bool(no_compiler()), reason=no_compiler() or "-"),
    pytest.mark.skipif(not NVCC, reason="nvcc is not installed"),
]
I32, U32, U64, F32 = np.int32, np.uint32, np.uint64, np.float32
TARGETS = (75, 90, 120)


@cache
def module(target: int) -> Module:
    assert NVCC
    line = [NVCC, "-std=c++17", "-ptx", f"-arch=compute_{target}", str(SOURCE), "-o", "-"]
    made = subprocess.run(line, capture_output=True, check=True, timeout=300)
    return Module(made.stdout)


def random() -> np.random.Generator:
    return np.random.default_rng(7)


def saxpy(m: Module) -> None:
    x, y = random().random((2, 5000), F32)
    before = y.copy()
    m.launch("saxpy", [x, y, F32(2), I32(4990)], grid=(20, 1, 1), block=(256, 1, 1))
    assert (
        y[:4990] == np.float32(2) * x[:4990] + before[:4990]
    ).mean() > 0.5  # nvcc fuses: equal or a rounding apart
    assert np.allclose(y[:4990], 2 * x[:4990] + before[:4990], rtol=1e-6)
    assert (y[4990:] == before[4990:]).all()


def matmul(m: Module) -> None:
    a, b = random().random((2, 64, 64), F32)
    c = np.zeros_like(a)
    m.launch("matmul", [a, b, c, I32(64)], grid=(4, 4, 1), block=(16, 16, 1))
    assert np.allclose(c, a @ b, rtol=1e-5)


def total(m: Module) -> None:
    x, out = random().random(10000, F32), np.zeros(40, F32)
    m.launch("total", [x, out, I32(10000)], grid=(40, 1, 1), block=(256, 1, 1))
    assert np.allclose(out.sum(), x.sum(), rtol=1e-5)


INDEX = np.arange(64)
FIBONACCI = np.array([0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
BY_INDEX = {
    "recursion": FIBONACCI[INDEX % 12],
    "pointers": np.select([INDEX % 3 == 0, INDEX % 3 == 1], [INDEX + 1, INDEX * 2], INDEX - 7),
    "virtuals": np.where(INDEX & 1, INDEX + 5, INDEX * INDEX),
    "returned": INDEX * (INDEX % 20) + INDEX,
    "heap": INDEX + 3,
    "switches": np.select([k == INDEX % 9 for k in range(8)], [5 + 0 * INDEX, INDEX * 3, -1 + 0 * INDEX, INDEX << 3, 77 + 0 * INDEX, INDEX ^ 55, INDEX * INDEX, INDEX // 3], INDEX % 5),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BY_INDEX)
def test_calls_and_branches(name: str, target: int) -> None:
    out = np.zeros(64, I32)
    module(target).launch(name, [out], block=(64, 1, 1))
    assert out.tolist() == BY_INDEX[name].tolist()


def by_value(m: Module) -> None:
    large, out = np.zeros(1, np.dtype([("a", "i4", 20), ("d", "f8")])), np.zeros(32, I32)
    large["a"][0], large["d"] = np.arange(20), 3.5
    m.launch("by_value", [large[0], out], block=(32, 1, 1))
    assert out.tolist() == [i % 20 + 3 for i in range(32)]


def divisions(m: Module) -> None:
    rng = random()
    a, b = rng.integers(-(2**62), 2**62, 32), rng.integers(1, 2**63, 32).astype(U64)
    x, y = [int(v) for v in a], [int(v) for v in b]
    m.launch("divisions", [a, b], block=(32, 1, 1))
    assert a.tolist() == [
        int(math.copysign(abs(v) // (w >> 1 | 1), v)) if abs(v) // (w >> 1 | 1) < 2**53 else 0
        for v, w in zip(x, y, strict=True)
    ]
    assert b.tolist() == [(w // 3 + (w * (v % 2**64) >> 64)) % 2**64 for v, w in zip(x, y, strict=True)]


def functions(m: Module) -> None:
    x, y = np.linspace(0.1, 3, 32, dtype=F32), np.linspace(0.1, 3, 32)
    want_x = np.sin(x) + np.exp(x) * np.log(x + 1) + x**1.5 + np.tan(x)
    want_y = np.sin(y) + np.exp(y) + np.log(y + 1) + y**1.5 + [math.erf(v) + math.gamma(v + 1) for v in y]
    m.launch("functions", [x, y], block=(32, 1, 1))
    assert np.allclose(x, want_x, rtol=2e-5)
    assert np.allclose(y, want_y, rtol=1e-14)


def halves(m: Module) -> None:
    x = (random().random((32, 2)) - 0.5).astype(np.float16)
    y, f = np.zeros_like(x), np.zeros(32, F32)
    m.launch("halves", [x, y, f], block=(32, 1, 1))
    assert np.abs(y - (x * x + np.sqrt(np.abs(x)))).max() < 2e-3
    assert (f == 2 * x[:, 0].astype(F32)).all()


def atomics(m: Module) -> None:
    c, f, d, least, h = (
        np.zeros(8, U32),
        np.zeros(1, F32),
        np.zeros(1),
        np.full(1, 99, U64),
        np.zeros(2, np.float16),
    )
    m.launch("atomics", [c, f, d, least, h], block=(64, 1, 1))
    assert c.tolist() == [64, 63, 64 % 7, 0, 480, 496, 512, 528]
    assert (f[0], d[0], least[0], h.tolist()) == (32, 16, 3, [64, 128])


def lock(m: Module) -> None:
    held, count = np.zeros(1, I32), np.zeros(1, I32)
    m.launch("lock", [held, count], grid=(4, 1, 1), block=(96, 1, 1))
    assert (held[0], count[0]) == (0, 384)


def rounds(m: Module) -> None:
    a = np.arange(1000, dtype=I32)
    m.launch("rounds", [a, I32(1000)], grid=(8, 1, 1), block=(128, 1, 1), cooperative=True)
    assert a.tolist() == [(i + 5) % 1000 for i in range(1000)]


def tiles(m: Module) -> None:
    a, out = np.arange(32, dtype=I32), np.zeros(64, I32)
    m.launch("tiles", [a, out], block=(32, 1, 1))
    assert out[:4].tolist() == [28, 92, 156, 220]
    assert out[32:43].tolist() == [11] * 11


def blocks(m: Module) -> None:
    keys, scanned, total_sum = (
        random().integers(-1000, 1000, 512).astype(I32),
        np.zeros(512, I32),
        np.zeros(1, I32),
    )
    want = np.sort(keys)
    m.launch("blocks", [keys, scanned, total_sum], block=(128, 1, 1))
    assert keys.tolist() == want.tolist()
    assert scanned.tolist() == np.cumsum(want).tolist()
    assert total_sum[0] == want.sum()


def tensor(m: Module) -> None:
    x, y, c = (
        random().random((16, 16)).astype(np.float16),
        random().random((8, 16)).astype(np.float16),
        np.zeros((16, 8), F32),
    )
    m.launch("tensor", [x, y, c], block=(32, 1, 1))
    assert np.allclose(c, x.astype(F32) @ y.T.astype(F32), rtol=1e-6)


PROGRAMS: dict[str, Callable[[Module], None]] = {
    f.__name__: f for f in (saxpy, matmul, total, by_value, divisions, functions, halves, atomics, lock, rounds, tiles, blocks, tensor)
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, target: int) -> None:
    if (name, target) == ("tensor", 75):
        pytest.skip("sm_75 has no mma.m16n8k16")
    PROGRAMS[name](module(target))
