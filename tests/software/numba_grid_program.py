"""Numba: a heat equation and a bitonic sort on cooperative grids with shared arrays, checked against NumPy."""
import numpy as np
from numba import cuda, float64, int32, uint32

random = np.random.default_rng(4)
B = 128
W = B + 2

@cuda.jit
def heat(u, v, steps):
    tile = cuda.shared.array(W, float64)
    g, t, i = cuda.cg.this_grid(), cuda.threadIdx.x, cuda.grid(1)
    n = u.size
    a, b = u, v
    for _ in range(steps):
        tile[t + 1] = a[i] if i < n else 0.0
        if t == 0:
            tile[0] = a[i - 1] if 0 < i < n else 0.0
        if t == B - 1:
            tile[B + 1] = a[i + 1] if i + 1 < n else 0.0
        cuda.syncthreads()
        if i < n:
            b[i] = tile[t + 1] + 0.2 * (tile[t] - 2.0 * tile[t + 1] + tile[t + 2])
        g.sync()
        a, b = b, a

@cuda.jit
def bitonic(x):
    g, i, n = cuda.cg.this_grid(), cuda.grid(1), x.size
    k = 2
    while k <= n:
        j = k >> 1
        while j > 0:
            p = i ^ j
            if p > i and (x[i] > x[p]) == ((i & k) == 0):
                x[i], x[p] = x[p], x[i]
            g.sync()
            j >>= 1
        k <<= 1

@cuda.jit
def statistics(x, out, hist):
    local = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < 32:
        local[t] = 0
    cuda.syncthreads()
    low, high, total = 1e30, -1e30, 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        v = x[i]
        low, high, total = min(low, v), max(high, v), total + v
        cuda.atomic.add(local, int32(v * 32) & 31, 1)
    for d in (16, 8, 4, 2, 1):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, d)
        low = min(low, cuda.shfl_xor_sync(0xFFFFFFFF, low, d))
        high = max(high, cuda.shfl_xor_sync(0xFFFFFFFF, high, d))
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, total)
        cuda.atomic.min(out, 1, low)
        cuda.atomic.max(out, 2, high)
    cuda.syncthreads()
    if t < 32:
        cuda.atomic.add(hist, t, local[t])

record = np.dtype([("key", np.uint32), ("value", np.float64, (2,))], align=True)

@cuda.jit
def records(r, out):
    i = cuda.grid(1)
    if i < r.size:
        key = uint32(r[i].key)
        out[i] = cuda.popc(key) * r[i].value[0] + cuda.clz(key) * r[i].value[1]
        r[i].key = cuda.brev(key)

n = 1000
u = random.random(n)
d, e = cuda.to_device(u), cuda.device_array(n)
heat[(n + B - 1) // B, B](d, e, 7)
right = u.copy()
for _ in range(7):
    p = np.pad(right, 1)
    right = p[1:-1] + 0.2 * (p[:-2] - 2 * p[1:-1] + p[2:])
assert np.allclose(e.copy_to_host(), right)
x = random.random(1024).astype(np.float32)
y = cuda.to_device(x)
bitonic[8, B](y)
assert np.array_equal(y.copy_to_host(), np.sort(x))
z = random.random(20_000)
out, hist = cuda.to_device(np.array([0.0, 1e30, -1e30])), cuda.to_device(np.zeros(32, np.int32))
statistics[9, B](z, out, hist)
assert np.allclose(out.copy_to_host(), [z.sum(), z.min(), z.max()])
assert np.array_equal(hist.copy_to_host(), np.bincount((z * 32).astype(int), minlength=32))
r = np.zeros(77, record)
r["key"], r["value"] = random.integers(1, 2**32, 77), random.random((77, 2))
first, res = r.copy(), np.zeros(77)
records[1, B](r, res)
bits = [f"{k:032b}" for k in first["key"]]
assert np.allclose(res, [b.count("1") * v[0] + b.index("1") * v[1] for b, v in zip(bits, first["value"])])
assert np.array_equal(r["key"], [int(b[::-1], 2) for b in bits])
print("right")
