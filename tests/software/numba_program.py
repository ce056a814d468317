"""Numba: shared memory, atomics, libdevice, random numbers, warps, cooperative grids, checked against NumPy."""

import math
import warnings

import numpy as np
from numba import cuda, float32, vectorize
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

warnings.simplefilter("ignore")
random = np.random.default_rng(3)
TILE = 16


@cuda.jit
def multiply(a, b, c):
    left, right = cuda.shared.array((TILE, TILE), float32), cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for i in range((a.shape[1] + TILE - 1) // TILE):
        left[ty, tx] = a[y, tx + i * TILE] if y < a.shape[0] and tx + i * TILE < a.shape[1] else 0
        right[ty, tx] = b[ty + i * TILE, x] if x < b.shape[1] and ty + i * TILE < b.shape[0] else 0
        cuda.syncthreads()
        for j in range(TILE):
            total += left[ty, j] * right[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


@cuda.reduce
def add(one, other):
    return one + other


@cuda.jit
def count(values, bins):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, values[i], 1)


@cuda.jit
def functions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i, 0] = math.sin(x[i])
        out[i, 1] = math.exp(x[i])
        out[i, 2] = math.erf(x[i])
        out[i, 3] = math.lgamma(x[i] + 1)
        out[i, 4] = x[i] ** 2.5


@cuda.jit
def circle(states, rounds, out):
    i = cuda.grid(1)
    inside = 0
    for _ in range(rounds):
        x, y = xoroshiro128p_uniform_float32(states, i), xoroshiro128p_uniform_float32(states, i)
        if x * x + y * y <= 1:
            inside += 1
    out[i] = 4.0 * inside / rounds


@cuda.jit
def warps(values, out):
    value = values[cuda.grid(1)]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


@cuda.jit
def rounds(cells, number):
    grid, i = cuda.cg.this_grid(), cuda.grid(1)
    for k in range(1, number):
        cells[k, i] = cells[k - 1, (i + 1) % cells.shape[1]] + 1
        grid.sync()


@vectorize(["float32(float32, float32)"], target="cuda")
def mix(one, other):
    return one + other * 2


a, b = random.random((100, 70), dtype=np.float32), random.random((70, 90), dtype=np.float32)
c = np.zeros((100, 90), np.float32)
multiply[(7, 7), (TILE, TILE)](a, b, c)
assert np.allclose(c, a @ b, rtol=1e-5)
numbers = random.random(100_000)
assert np.isclose(add(numbers), numbers.sum())
values, bins = random.integers(0, 64, 50_000).astype(np.int32), np.zeros(64, np.int32)
count[200, 256](values, bins)
assert np.array_equal(bins, np.bincount(values, minlength=64))
x, out = random.random(1000) * 10, np.zeros((1000, 5))
functions[8, 128](x, out)
columns = [np.sin(x), np.exp(x), [math.erf(v) for v in x], [math.lgamma(v + 1) for v in x], x**2.5]
assert np.allclose(out, np.stack(columns, 1), rtol=1e-12)
pi = np.zeros(512, np.float32)
circle[8, 64](create_xoroshiro128p_states(512, seed=1), 500, pi)
assert abs(pi.mean() - math.pi) < 0.02
row, total = np.arange(1024, dtype=np.float32), np.zeros(1, np.float32)
warps[4, 256](row, total)
assert total[0] == row.sum()
cells = np.zeros((10, 64), np.int32)
cells[0] = np.arange(64)
rounds[2, 32](cells, 10)
assert all(np.array_equal(cells[k], np.roll(cells[k - 1], -1) + 1) for k in range(1, 10))
assert np.allclose(mix(row, row), row * 3)
stream = cuda.stream()
there = cuda.to_device(row, stream=stream)
back = there.copy_to_host(stream=stream)
stream.synchronize()
assert np.array_equal(back, row)
print("right")
