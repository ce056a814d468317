"""Taichi on its CUDA back-end: products, reductions, sparse fields, gradients, sorting, checked against NumPy."""

import numpy as np
import taichi as ti

ti.init(arch=ti.cuda, offline_cache=False, log_level=ti.ERROR)
assert ti.lang.impl.current_cfg().arch == ti.cuda
random = np.random.default_rng(2)
N = 48
a, b, c = (ti.field(ti.f32, shape=(N, N)) for _ in range(3))
total = ti.field(ti.f64, shape=())
x = ti.field(ti.f64, shape=1000)
y = ti.field(ti.f32, shape=10, needs_grad=True)
loss = ti.field(ti.f32, shape=(), needs_grad=True)
sparse = ti.field(ti.i32)
ti.root.pointer(ti.i, 16).dense(ti.i, 8).place(sparse)
keys, values = ti.field(ti.f32, shape=100), ti.field(ti.i32, shape=100)


@ti.kernel
def multiply():
    for i, j in c:
        s = 0.0
        for k in range(N):
            s += a[i, k] * b[k, j]
        c[i, j] = s


@ti.kernel
def add():
    for i in x:
        ti.atomic_add(total[None], x[i])


@ti.kernel
def fill():
    for i in range(128):
        if i % 3 == 0 and i < 60:
            sparse[i] = i


@ti.kernel
def active() -> ti.i32:
    count = 0
    for _ in sparse:
        count += 1
    return count


@ti.kernel
def squares():
    for i in y:
        loss[None] += y[i] ** 2


@ti.kernel
def sines(data: ti.types.ndarray(dtype=ti.f32, ndim=2), factor: ti.f32):
    for i, j in data:
        data[i, j] = ti.sin(data[i, j]) * factor


@ti.kernel
def reverse(out: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    ti.loop_config(block_dim=64)
    for i in range(256):
        part = ti.simt.block.SharedArray((64,), ti.f32)
        part[i % 64] = ti.cast(i, ti.f32)
        ti.simt.block.sync()
        out[i] = part[63 - i % 64]


left, right = (random.random((N, N), np.float32) for _ in range(2))
a.from_numpy(left)
b.from_numpy(right)
multiply()
assert np.allclose(c.to_numpy(), left @ right, rtol=1e-4)
numbers = random.random(1000)
x.from_numpy(numbers)
add()
assert abs(total[None] - numbers.sum()) < 1e-9
fill()
assert active() == 64
y.from_numpy(np.arange(10, dtype=np.float32))
with ti.ad.Tape(loss):
    squares()
assert np.allclose(y.grad.to_numpy(), 2 * np.arange(10))
data = random.random((20, 30), np.float32)
expected = np.sin(data) * np.float32(2)
sines(data, 2.0)
assert np.allclose(data, expected, rtol=1e-5)
out = np.zeros(256, np.float32)
reverse(out)
assert np.array_equal(out, (np.arange(256) // 64 * 64 + 63 - np.arange(256) % 64).astype(np.float32))
order = random.random(100, np.float32)
keys.from_numpy(order)
values.from_numpy(np.arange(100, dtype=np.int32))
ti.algorithms.parallel_sort(keys, values)
assert np.array_equal(values.to_numpy(), np.argsort(order))
print("right")
