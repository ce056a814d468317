"""Numba: prefix sums by blocks and by a cooperative grid, compaction by ballots, checked against NumPy."""
import numpy as np
from numba import cuda, int64
rng = np.random.default_rng(12)
B = 256

@cuda.jit(device=True, inline="always")
def block_scan(part, t):
    offset = 1
    while offset < B:
        v = part[t - offset] if t >= offset else 0
        cuda.syncthreads()
        part[t] += v
        cuda.syncthreads()
        offset *= 2

@cuda.jit
def scan_blocks(x, y, sums):
    part = cuda.shared.array(B, int64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    block_scan(part, t)
    if i < x.size:
        y[i] = part[t]
    if t == B - 1:
        sums[cuda.blockIdx.x] = part[t]

@cuda.jit
def add_offsets(y, offsets):
    i = cuda.grid(1)
    if i < y.size and cuda.blockIdx.x > 0:
        y[i] += offsets[cuda.blockIdx.x - 1]

def scan(x):
    n = x.size
    blocks = (n + B - 1) // B
    y = cuda.device_array(n, np.int64)
    sums = cuda.device_array(blocks, np.int64)
    scan_blocks[blocks, B](x, y, sums)
    if blocks > 1:
        add_offsets[blocks, B](y, scan(sums))
    return y

x = rng.integers(-100, 100, 100_001)
assert np.array_equal(scan(cuda.to_device(x)).copy_to_host(), np.cumsum(x))

@cuda.jit
def scan_grid(x, y, sums):
    grid = cuda.cg.this_grid()
    part = cuda.shared.array(B, int64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    block_scan(part, t)
    if t == B - 1:
        sums[cuda.blockIdx.x] = part[t]
    grid.sync()
    if i == 0:
        for k in range(1, cuda.gridDim.x):
            sums[k] += sums[k - 1]
    grid.sync()
    if i < x.size:
        y[i] = part[t] + (sums[cuda.blockIdx.x - 1] if cuda.blockIdx.x else 0)

dx = cuda.to_device(x[:2000])
y, sums = cuda.device_array(2000, np.int64), cuda.device_array(8, np.int64)
scan_grid[8, B](dx, y, sums)
assert np.array_equal(y.copy_to_host(), np.cumsum(x[:2000]))
kernel = list(scan_grid.overloads.values())[0]
limit = kernel.max_cooperative_grid_blocks(B)
assert limit >= 1, limit
try:
    scan_grid[limit + 1, B](dx, y, cuda.device_array(limit + 1, np.int64))
    cuda.synchronize()
    raise AssertionError("a grid that is too large was launched")
except ValueError as error:
    assert "exceeds the limit" in str(error), error

# compaction with ballots
@cuda.jit
def compact(x, out, count):
    i = cuda.grid(1)
    keep = i < x.size and x[i] > 0
    mask = cuda.ballot_sync(0xFFFFFFFF, keep)
    lane = cuda.laneid
    base = 0
    if lane == 0 and mask:
        base = cuda.atomic.add(count, 0, cuda.popc(mask))
    base = cuda.shfl_sync(0xFFFFFFFF, base, 0)
    if keep:
        out[base + cuda.popc(mask & ((1 << lane) - 1))] = x[i]

out, count = np.zeros(x.size, np.int64), np.zeros(1, np.int32)
compact[(x.size + 127) // 128, 128](x, out, count)
assert count[0] == (x > 0).sum() and np.array_equal(np.sort(out[: count[0]]), np.sort(x[x > 0]))
print("right")
