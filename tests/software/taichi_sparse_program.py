"""Taichi: sparse fields (pointer, bitmasked, dynamic), activation from kernels, lists of active cells, against NumPy."""

import numpy as np
import taichi as ti

ti.init(arch=ti.cuda, default_ip=ti.i32, offline_cache=False, log_level=ti.ERROR)
assert ti.lang.impl.current_cfg().arch == ti.cuda
N, B = 256, 16

mass = ti.field(ti.f32)
cells = ti.root.pointer(ti.ij, N // B)
cells.bitmasked(ti.ij, B).place(mass)
count = ti.field(ti.i32, shape=())
rows = ti.field(ti.i32)
lists = ti.root.dense(ti.i, 32)
lists.dynamic(ti.j, 1024, chunk_size=32).place(rows)
lengths = ti.field(ti.i32, shape=32)


@ti.kernel
def scatter(x: ti.types.ndarray(), n: ti.i32):
    for i in range(n):
        a, b = ti.cast(x[i, 0] * N, ti.i32), ti.cast(x[i, 1] * N, ti.i32)
        mass[a, b] += x[i, 2]
        ti.append(rows.parent(), a % 32, i)


@ti.kernel
def active() -> ti.i32:
    total = 0
    for i, j in mass:
        total += 1
    return total


@ti.kernel
def blocks() -> ti.i32:
    total = 0
    for i, j in cells:
        total += 1
    return total


@ti.kernel
def spread():
    for i, j in mass:
        if mass[i, j] > 1.0:
            count[None] += 1


@ti.kernel
def measure():
    for i in range(32):
        lengths[i] = ti.length(rows.parent(), i)


@ti.kernel
def sums(out: ti.types.ndarray()):
    for i, j in mass:
        ti.atomic_add(out[i], ti.cast(mass[i, j], ti.f64))


random = np.random.default_rng(9)
n = 4000
x = np.clip(random.standard_normal((n, 3)) * 0.06 + 0.5, 0, 0.999).astype(np.float32)
scatter(x, n)
a, b = (x[:, 0] * np.float32(N)).astype(int), (x[:, 1] * np.float32(N)).astype(int)
dense = np.zeros((N, N))
np.add.at(dense, (a, b), x[:, 2])
touched = np.zeros((N, N), bool)
touched[a, b] = True
assert active() == touched.sum(), (active(), touched.sum())
assert blocks() == touched.reshape(N // B, B, N // B, B).any((1, 3)).sum()
assert np.allclose(mass.to_numpy(), dense, rtol=1e-5)
out = np.zeros(N)
sums(out)
assert np.allclose(out, dense.sum(1), rtol=1e-5)
spread()
assert abs(count[None] - (dense > 1).sum()) <= 2
measure()
assert np.array_equal(lengths.to_numpy(), np.bincount(a % 32, minlength=32))
got = [sorted(rows[k, i] for i in range(lengths[k])) for k in (3, 17)]
assert got == [list(np.nonzero(a % 32 == k)[0]) for k in (3, 17)]
ti.deactivate_all_snodes()
assert active() == 0
scatter(x[:100], 100)
assert active() == len({(i, j) for i, j in zip(a[:100], b[:100])})
print("right")
