"""Taichi: reductions, histograms in shared memory, sorting, shuffles, gradients, random numbers, small matrices, against NumPy."""

import numpy as np
import taichi as ti

ti.init(arch=ti.cuda, offline_cache=False, random_seed=1, log_level=ti.ERROR)
assert ti.lang.impl.current_cfg().arch == ti.cuda
n = 50_000
x = ti.field(ti.f32, shape=n, needs_grad=True)
loss = ti.field(ti.f32, shape=(), needs_grad=True)
hist = ti.field(ti.i32, shape=64)


@ti.kernel
def histogram(v: ti.types.ndarray(dtype=ti.i32, ndim=1)):
    ti.loop_config(block_dim=128)
    for i in range(v.shape[0]):
        ti.atomic_add(hist[v[i] & 63], 1)


@ti.kernel
def total(v: ti.types.ndarray(dtype=ti.f64, ndim=1)) -> ti.f64:
    s = ti.cast(0.0, ti.f64)
    for i in v:
        s += v[i] * v[i]
    return s


@ti.kernel
def extremes(v: ti.types.ndarray(dtype=ti.i64, ndim=1)) -> ti.types.vector(3, ti.i64):
    low, high, bits = ti.cast(2**30, ti.i64) * 1024, -ti.cast(2**30, ti.i64) * 1024, ti.cast(0, ti.i64)
    for i in v:
        ti.atomic_min(low, v[i])
        ti.atomic_max(high, v[i])
        ti.atomic_xor(bits, v[i])
    return ti.Vector([low, high, bits])


@ti.kernel
def compute():
    for i in x:
        loss[None] += ti.sin(x[i]) * ti.exp(-x[i] * x[i]) / n


@ti.kernel
def shared_sort(v: ti.types.ndarray(dtype=ti.f32, ndim=2)):
    ti.loop_config(block_dim=64)
    for i, t in ti.ndrange(v.shape[0], 64):
        pad = ti.simt.block.SharedArray((64,), ti.f32)
        pad[t] = v[i, t]
        ti.simt.block.sync()
        k = 2
        while k <= 64:
            j = k // 2
            while j > 0:
                o = t ^ j
                if o > t:
                    a, b = pad[t], pad[o]
                    if (a > b) == ((t & k) == 0):
                        pad[t] = b
                        pad[o] = a
                ti.simt.block.sync()
                j //= 2
            k *= 2
        v[i, t] = pad[t]


@ti.kernel
def warp_sums(v: ti.types.ndarray(dtype=ti.i32, ndim=1), out: ti.types.ndarray(dtype=ti.i32, ndim=1)):
    ti.loop_config(block_dim=32)
    for i in range(1024):
        s = v[i]
        for k in ti.static(range(5)):
            s += ti.simt.warp.shfl_down_i32(ti.u32(0xFFFFFFFF), s, 1 << k)
        if i % 32 == 0:
            out[i // 32] = s


@ti.kernel
def dice(v: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in v:
        v[i] = ti.random(ti.f32)


@ti.kernel
def solve(a: ti.types.ndarray(dtype=ti.types.matrix(3, 3, ti.f64), ndim=1), out: ti.types.ndarray(dtype=ti.f64, ndim=1)):
    for i in a:
        u, s, v = ti.svd(a[i], ti.f64)
        out[i] = s[0, 0] + s[1, 1] + s[2, 2] + a[i].determinant()


random = np.random.default_rng(21)
values = random.integers(0, 1000, n).astype(np.int32)
histogram(values)
assert np.array_equal(hist.to_numpy(), np.bincount(values & 63, minlength=64))
wide = random.random(n)
assert np.isclose(total(wide), (wide**2).sum())
big = random.integers(-(2**39), 2**39, n)
assert list(extremes(big)) == [big.min(), big.max(), np.bitwise_xor.reduce(big)]
start = random.standard_normal(n).astype(np.float32)
x.from_numpy(start)
with ti.ad.Tape(loss):
    compute()
assert np.isclose(loss[None], np.mean(np.sin(start) * np.exp(-start.astype(np.float64) ** 2)), atol=1e-5)
right = (np.cos(start) - 2 * start * np.sin(start)) * np.exp(-(start**2)) / n
assert np.allclose(x.grad.to_numpy(), right, atol=1e-9)
rows = random.random((50, 64), np.float32)
sorted_rows = rows.copy()
shared_sort(sorted_rows)
assert np.array_equal(sorted_rows, np.sort(rows, 1))
out = np.zeros(32, np.int32)
warp_sums(values[:1024].copy(), out)
assert np.array_equal(out, values[:1024].reshape(32, 32).sum(1))
u = np.zeros(n, np.float32)
dice(u)
assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.01 and len(np.unique(u)) > n * 0.95
mats = random.random((200, 3, 3))
nd = ti.Matrix.ndarray(3, 3, ti.f64, shape=200)
nd.from_numpy(mats)
res = np.zeros(200)
solve(nd, res)
values = np.linalg.svd(mats, compute_uv=False)
values[:, 2] *= np.sign(np.linalg.det(mats))  # Taichi's rotations do not reflect
assert np.allclose(res, values.sum(1) + np.linalg.det(mats))
print("right")
