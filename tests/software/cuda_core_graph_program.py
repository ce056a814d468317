"""cuda.core: linked objects, graphs with a fork, a child and an update, pinned pools, printf, checked against NumPy."""

import numpy as np
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, PinnedMemoryResource, Program, ProgramOptions, launch

MAIN = r"""extern __device__ int twice(int); extern __device__ int table[4];
extern "C" __global__ void apply(int *x) { x[threadIdx.x] = twice(x[threadIdx.x]) + table[threadIdx.x % 4]; }"""
PART = r"""__device__ int table[4] = {1, 10, 100, 1000}; __device__ int twice(int v) { return 2 * v; }"""
STEPS = r"""extern "C" __global__ void add(int *x, int v) { x[threadIdx.x] += v; }
extern "C" __global__ void mul(int *x, int v) { x[threadIdx.x] *= v; }
extern "C" __global__ void say(int n) { if (threadIdx.x < n) printf("lane %d: %4.1f\n", threadIdx.x, threadIdx.x * 1.5); }"""
ONE = LaunchConfig(grid=1, block=32)

device = Device()
device.set_current()
stream = device.create_stream()
memory = PinnedMemoryResource()
arch = f"sm_{device.arch}"


def compiled(source, **more):
    return Program(source, code_type="c++", options=ProgramOptions(arch=arch, **more)).compile("ptx")


def numbers():
    buffer = memory.allocate(128, stream=stream)
    stream.sync()
    return buffer, np.from_dlpack(buffer).view(np.int32)


def begun():
    return device.create_graph_builder().begin_building()


buffer, x = numbers()
other, y = numbers()
third, z = numbers()
linked = Linker(*(compiled(s, relocatable_device_code=True) for s in (MAIN, PART)), options=LinkerOptions(arch=arch))
x[:] = np.arange(32)
launch(stream, ONE, linked.link("cubin").get_kernel("apply"), buffer)
stream.sync()
assert np.array_equal(x, 2 * np.arange(32) + np.resize([1, 10, 100, 1000], 32))

code = compiled(STEPS)
add, mul = code.get_kernel("add"), code.get_kernel("mul")
builder = begun()
launch(builder, ONE, add, buffer, np.int32(1))
launch(builder, ONE, mul, buffer, np.int32(2))
left, right = builder.split(2)
launch(left, ONE, add, other, np.int32(7))
launch(right, ONE, mul, third, np.int32(3))
builder = type(builder).join(left, right)
launch(builder, ONE, add, buffer, np.int32(100))
graph = builder.end_building().complete()
x[:], y[:], z[:] = 1, 1, 1
graph.upload(stream)
for _ in range(3):
    graph.launch(stream)
stream.sync()
assert ((x == 722) & (y == 22) & (z == 27)).all()

child, outer = begun(), begun()
launch(child, ONE, mul, buffer, np.int32(9))
child.end_building()
launch(outer, ONE, add, buffer, np.int32(1))
outer.embed(child)
whole = outer.end_building().complete()
x[:] = 1
whole.launch(stream)
stream.sync()
assert (x == 18).all()

small, changed = begun(), begun()
launch(small, ONE, add, buffer, np.int32(4))
launch(changed, ONE, add, buffer, np.int32(40))
updated = small.end_building().complete()
updated.update(changed.end_building())
x[:] = 1
updated.launch(stream)
stream.sync()
assert (x == 41).all()
launch(stream, ONE, code.get_kernel("say"), np.int32(2))
stream.sync()
print("right")
