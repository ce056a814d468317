"""cuda.core and NVRTC: C++ templates compiled to PTX and to "machine code", launched, checked against NumPy."""

import ctypes

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
template <typename T> __global__ void saxpy(T a, const T *x, const T *y, T *out, size_t n) {
    for (size_t i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += gridDim.x * blockDim.x) out[i] = a * x[i] + y[i];
}
template <typename T, int N> __global__ void blocksum(const T *x, T *out, size_t n) {
    __shared__ T part[N];
    size_t i = threadIdx.x + blockIdx.x * (size_t)N;
    part[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    for (int step = N / 2; step; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
"""


def copy(to: int, source: int, size: int) -> None:
    (error,) = driver.cuMemcpy(to, source, size)
    assert error == driver.CUresult.CUDA_SUCCESS, error


def run(code_type: str) -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    names = ("saxpy<float>", "saxpy<double>", "blocksum<int, 256>")
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    code = Program(SOURCE, code_type="c++", options=options).compile(code_type, name_expressions=names)
    n = 10_007
    random = np.random.default_rng(1)
    for dtype, name in ((np.float32, names[0]), (np.float64, names[1])):
        x, y, out = random.random(n, dtype), random.random(n, dtype), np.zeros(n, dtype)
        size = x.nbytes
        buffer = device.memory_resource.allocate(3 * size, stream=stream)
        at = int(buffer.handle)
        stream.sync()
        copy(at, x.ctypes.data, size)
        copy(at + size, y.ctypes.data, size)
        config = LaunchConfig(grid=16, block=128)
        launch(stream, config, code.get_kernel(name), dtype(2.5), at, at + size, at + 2 * size, np.uint64(n))
        stream.sync()
        copy(out.ctypes.data, at + 2 * size, size)
        assert np.allclose(out, dtype(2.5) * x + y, rtol=1e-6)
        buffer.close(stream)
    values = random.integers(-1000, 1000, n).astype(np.int32)
    buffer = device.memory_resource.allocate(values.nbytes + 4, stream=stream)
    at = int(buffer.handle)
    stream.sync()
    total = ctypes.c_int(0)
    copy(at, values.ctypes.data, values.nbytes)
    copy(at + values.nbytes, ctypes.addressof(total), 4)
    launch(
        stream,
        LaunchConfig(grid=(n + 255) // 256, block=256),
        code.get_kernel(names[2]),
        at,
        at + values.nbytes,
        np.uint64(n),
    )
    stream.sync()
    copy(ctypes.addressof(total), at + values.nbytes, 4)
    assert total.value == values.sum()
    buffer.close(stream)


for code_type in ("ptx", "cubin"):
    run(code_type)
print("right")
