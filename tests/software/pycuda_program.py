"""PyCUDA: prepared kernels, constant memory, arrays, reductions, scans, streams, checked against NumPy."""

import numpy as np
import pycuda.driver as cuda
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel
from pycuda.scan import InclusiveScanKernel
from pycuda.tools import DeviceMemoryPool

SOURCE = r"""
__constant__ float weights[4];
__global__ void blur(float *out, const float *in, int n)
{
    extern __shared__ float part[];
    int i = threadIdx.x + blockIdx.x * blockDim.x, t = threadIdx.x;
    part[t + 1] = i < n ? in[i] : 0;
    if (t == 0) part[0] = i > 0 ? in[i - 1] : 0;
    if (t == blockDim.x - 1) part[t + 2] = i + 1 < n ? in[i + 1] : 0;
    __syncthreads();
    if (i < n) out[i] = part[t] * weights[0] + part[t + 1] * weights[1] + part[t + 2] * weights[2];
}
__global__ void transpose(double *out, const double *in, int width, int height)
{
    __shared__ double tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][threadIdx.y];
}
"""
cuda.init()
context = cuda.Device(0).make_context()
random = np.random.default_rng(5)
module = SourceModule(SOURCE)

n = 10_001
blur = module.get_function("blur")
weights = np.array([0.25, 0.5, 0.25, 0], np.float32)
cuda.memcpy_htod(module.get_global("weights")[0], weights)
x = random.random(n, np.float32)
wide = np.concatenate([[0], x, [0]]).astype(np.float32)
right = wide[:-2] * weights[0] + wide[1:-1] * weights[1] + wide[2:] * weights[2]
out = np.empty_like(x)
blur(cuda.Out(out), cuda.In(x), np.int32(n), block=(128, 1, 1), grid=(79, 1), shared=130 * 4)
assert np.allclose(out, right)

blur.prepare("PPi")
start, end, stream = cuda.Event(), cuda.Event(), cuda.Stream()
host = cuda.pagelocked_empty(n, np.float32)
source, target = cuda.mem_alloc(x.nbytes), cuda.mem_alloc(x.nbytes)
host[:] = x
start.record(stream)
cuda.memcpy_htod_async(source, host, stream)
blur.prepared_async_call((79, 1), (128, 1, 1), stream, target, source, n, shared_size=130 * 4)
cuda.memcpy_dtoh_async(host, target, stream)
end.record(stream)
stream.synchronize()
assert np.allclose(host, right)
assert start.time_till(end) >= 0
blur.prepared_call((79, 1), (128, 1, 1), source, target, n, shared_size=130 * 4)
cuda.memcpy_dtoh(out, source)
wide[1:-1] = right
assert np.allclose(out, wide[:-2] * weights[0] + wide[1:-1] * weights[1] + wide[2:] * weights[2], rtol=1e-5)

# The calls that cuLaunchKernel replaced.
blur._set_block_shape(128, 1, 1)
blur._set_shared_size(130 * 4)
blur._param_setv(0, np.array([int(target), int(source)], np.uint64))
blur._param_seti(16, n)
blur._param_set_size(20)
cuda.memcpy_htod(source, x)
blur._launch_grid(79, 1)
cuda.memcpy_dtoh(out, target)
assert np.allclose(out, right)

matrix = random.random((45, 70))
there, back = gpuarray.to_gpu(matrix), gpuarray.empty((70, 45), np.float64)
module.get_function("transpose")(back, there, np.int32(70), np.int32(45), block=(16, 16, 1), grid=(5, 3))
assert np.array_equal(back.get(), matrix.T)

a, b = gpuarray.to_gpu(x), gpuarray.to_gpu(x[::-1].copy())
assert np.allclose((2 * a + b * b - a / (b + 1)).get(), 2 * x + x[::-1] ** 2 - x / (x[::-1] + 1), rtol=1e-5)
step = ElementwiseKernel("float a, float *x, float *z", "z[i] = a * x[i] > 1 ? 1 : a * x[i]", "step")
limited = gpuarray.empty_like(a)
step(np.float32(3), a, limited)
assert np.allclose(limited.get(), np.minimum(3 * x, 1))
dot = ReductionKernel(np.float64, "0", "a + b", "(double)x[i] * y[i]", "const float *x, const float *y")
assert np.isclose(dot(a, b).get(), np.dot(x.astype(np.float64), x[::-1]))
counts = random.integers(0, 9, n).astype(np.int32)
scanned = gpuarray.to_gpu(counts)
InclusiveScanKernel(np.int32, "a + b")(scanned)
assert np.array_equal(scanned.get(), counts.cumsum())
assert gpuarray.max(a).get() == x.max()

pool = DeviceMemoryPool()
kept = gpuarray.to_gpu(x, allocator=pool.allocate)
assert np.array_equal((kept + 0).get(), x)
assert pool.active_bytes >= x.nbytes
context.pop()
context.push()
context.detach()
print("right")
