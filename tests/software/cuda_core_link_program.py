"""cuda.core: two PTX texts linked into one kernel, run in a graph between others, with events, against NumPy."""

import numpy as np
from cuda.core import Device, EventOptions, LaunchConfig, Linker, LinkerOptions, ObjectCode, PinnedMemoryResource, Program, ProgramOptions, launch

HEAD = """.version 7.5
.target sm_75
.address_size 64
"""
MAIN = HEAD + """.extern .func (.param .b64 r) step(.param .b64 v, .param .b32 k);
.extern .global .align 8 .u64 calls;
.visible .entry walk(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %a<8>;
    ld.param.u64 %a0, [out]; ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p0, %r4, %r0; @%p0 ret;
    mul.wide.u32 %a1, %r4, 8; add.u64 %a2, %a0, %a1; ld.global.u64 %a3, [%a2];
    and.b32 %r5, %r4, 15; mov.u32 %r6, 0;
LOOP: setp.ge.u32 %p1, %r6, %r5; @%p1 bra DONE;
    { .param .b64 v; .param .b32 k; .param .b64 r; st.param.b64 [v], %a3; st.param.b32 [k], %r6;
      call.uni (r), step, (v, k); ld.param.b64 %a3, [r]; }
    atom.global.add.u64 %a4, [calls], 1; add.u32 %r6, %r6, 1; bra LOOP;
DONE: st.global.u64 [%a2], %a3; ret;
}
"""
PART = HEAD + """.visible .global .align 8 .u64 calls = 0;
.visible .const .align 8 .u64 factors[4] = {6364136223846793005, 3935559000370003845, 2862933555777941757, 3202034522624059733};
.visible .func (.param .b64 r) step(.param .b64 v, .param .b32 k)
{
    .reg .b32 %r<4>; .reg .b64 %a<8>;
    ld.param.b64 %a0, [v]; ld.param.b32 %r0, [k];
    and.b32 %r1, %r0, 3; mul.wide.u32 %a1, %r1, 8; mov.u64 %a2, factors; add.u64 %a2, %a2, %a1;
    ld.const.u64 %a3, [%a2]; cvt.u64.u32 %a4, %r0; mad.lo.u64 %a5, %a0, %a3, %a4; shr.u64 %a6, %a5, 29; xor.b64 %a7, %a5, %a6;
    st.param.b64 [r], %a7; ret;
}
.visible .entry tell(.param .u64 out) { .reg .b64 %a<3>; ld.param.u64 %a0, [out]; ld.global.u64 %a1, [calls]; st.global.u64 [%a0], %a1; ret; }
"""
OTHER = r"""extern "C" __global__ void fill(unsigned long long *x, unsigned n, unsigned long long by) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = i * by; }
template <typename T> __global__ void fold(const T *x, unsigned n, T *out) {
    __shared__ T part[64]; T v = 0;
    for (unsigned i = threadIdx.x; i < n; i += 64) v ^= x[i];
    part[threadIdx.x] = v; __syncthreads();
    for (int d = 32; d; d >>= 1) { if (threadIdx.x < d) part[threadIdx.x] ^= part[threadIdx.x + d]; __syncthreads(); }
    if (!threadIdx.x) *out = part[0]; }"""

device = Device()
device.set_current()
stream = device.create_stream()
arch = f"sm_{device.arch}"
parts = [ObjectCode.from_ptx(text.encode()) for text in (MAIN, PART)]
linked = Linker(*parts, options=LinkerOptions(arch=arch)).link("cubin")
walk, tell = linked.get_kernel("walk"), linked.get_kernel("tell")
name = "fold<unsigned long long>"
code = Program(OTHER, code_type="c++", options=ProgramOptions(arch=arch)).compile("ptx", name_expressions=(name,))
fill, fold = code.get_kernel("fill"), code.get_kernel(name)

n, by = 1000, 0x9E3779B97F4A7C15
memory = PinnedMemoryResource()
buffer, small = memory.allocate(8 * n, stream=stream), memory.allocate(16, stream=stream)
stream.sync()
x, two = np.from_dlpack(buffer).view(np.uint64), np.from_dlpack(small).view(np.uint64)
builder = device.create_graph_builder().begin_building()
launch(builder, LaunchConfig(grid=2, block=96), fill, buffer, np.uint32(n), np.uint64(by))
launch(builder, LaunchConfig(grid=8, block=128), walk, buffer, np.uint32(n))
launch(builder, LaunchConfig(grid=1, block=64), fold, buffer, np.uint32(n), small)
launch(builder, LaunchConfig(grid=1, block=1), tell, int(small.handle) + 8)
graph = builder.end_building().complete()
start = stream.record(options=EventOptions(timing_enabled=True))
for _ in range(3):
    graph.launch(stream)
end = stream.record(options=EventOptions(timing_enabled=True))
end.sync()
assert end - start >= 0

factors = [6364136223846793005, 3935559000370003845, 2862933555777941757, 3202034522624059733]
right = []
for i in range(n):
    v = i * by % 2**64
    for k in range(i & 15):
        v = (v * factors[k & 3] + k) % 2**64
        v ^= v >> 29
    right.append(v)
right = np.array(right, np.uint64)
assert np.array_equal(x, right)
assert two[0] == np.bitwise_xor.reduce(right)
assert two[1] == 3 * sum(i & 15 for i in range(n))
print("right")
