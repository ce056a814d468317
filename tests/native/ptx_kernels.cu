// Kernels as nvcc makes them from ordinary CUDA C++, for tests/test_native_ptx_nvcc.py.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__ void

KERNEL saxpy(float *x, float *y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
KERNEL matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    float sum = 0;
    for (int t = 0; t < n; t += 16) {
        as[ty][tx] = a[row * n + t + tx];
        bs[ty][tx] = b[(t + ty) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += as[ty][k] * bs[k][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
KERNEL total(const float *x, float *out, int n) {
    __shared__ float parts[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
        for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
        if (threadIdx.x == 0) out[blockIdx.x] = v;
    }
}
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
KERNEL recursion(int *out) { out[threadIdx.x] = fibonacci(threadIdx.x % 12); }

typedef int (*function)(int);
__device__ int plus_one(int x) { return x + 1; }
__device__ int twice(int x) { return x * 2; }
__device__ int minus_seven(int x) { return x - 7; }
__device__ function table[3] = {plus_one, twice, minus_seven};
KERNEL pointers(int *out) { out[threadIdx.x] = table[threadIdx.x % 3](threadIdx.x); }

struct Base {
    __device__ virtual int value(int) = 0;
};
struct Sum : Base {
    int k;
    __device__ Sum(int k) : k(k) {}
    __device__ int value(int x) override { return x + k; }
};
struct Square : Base {
    __device__ int value(int x) override { return x * x; }
};
KERNEL virtuals(int *out) {
    Sum a(5);
    Square b;
    Base *p = threadIdx.x & 1 ? (Base *)&a : (Base *)&b;
    out[threadIdx.x] = p->value(threadIdx.x);
}
struct Large {
    int a[20];
    double d;
};
KERNEL by_value(Large p, int *out) { out[threadIdx.x] = p.a[threadIdx.x % 20] + (int)p.d; }
__device__ __noinline__ Large make(int i) {
    Large b;
    for (int k = 0; k < 20; k++) b.a[k] = i * k;
    b.d = i;
    return b;
}
KERNEL returned(int *out) {
    Large b = make(threadIdx.x);
    out[threadIdx.x] = b.a[threadIdx.x % 20] + (int)b.d;
}
KERNEL heap(int *out) {
    int *p = (int *)malloc(40), *q = new int(3);
    p[threadIdx.x % 10] = threadIdx.x;
    out[threadIdx.x] = p[threadIdx.x % 10] + *q;
    free(p);
    delete q;
}
KERNEL switches(int *out) {
    int i = threadIdx.x, r;
    switch (i % 9) {
    case 0: r = 5; break;
    case 1: r = i * 3; break;
    case 2: r = -1; break;
    case 3: r = i << 3; break;
    case 4: r = 77; break;
    case 5: r = i ^ 55; break;
    case 6: r = i * i; break;
    case 7: r = i / 3; break;
    default: r = i % 5;
    }
    out[i] = r;
}
KERNEL divisions(long long *a, unsigned long long *b) {
    int i = threadIdx.x;
    long long x = a[i];
    unsigned long long y = b[i];
    a[i] = x / (long long)(y >> 1 | 1);
    b[i] = y / 3 + __umul64hi(y, (unsigned long long)x);
}
KERNEL functions(float *x, double *y) {
    int i = threadIdx.x;
    x[i] = sinf(x[i]) + expf(x[i]) * logf(x[i] + 1) + powf(x[i], 1.5f) + tanf(x[i]);
    y[i] = sin(y[i]) + exp(y[i]) + log(y[i] + 1) + pow(y[i], 1.5) + erf(y[i]) + tgamma(y[i] + 1);
}
KERNEL halves(const __half2 *x, __half2 *y, float *f) {
    int i = threadIdx.x;
    y[i] = __hfma2(x[i], x[i], h2sqrt(__habs2(x[i])));
    f[i] = __half2float(__low2half(x[i])) * 2;
}
KERNEL atomics(unsigned *c, float *f, double *d, unsigned long long *l, __half2 *h) {
    __shared__ unsigned s[4];
    atomicAdd(c, 1), atomicMax(c + 1, threadIdx.x), atomicInc(c + 2, 6);
    atomicAdd(f, 0.5f), atomicAdd(d, 0.25), atomicMin(l, (unsigned long long)threadIdx.x + 3), atomicAdd(h, __floats2half2_rn(1, 2));
    if (threadIdx.x < 4) s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&s[threadIdx.x % 4], threadIdx.x);
    __syncthreads();
    if (threadIdx.x < 4) c[4 + threadIdx.x] = s[threadIdx.x];
}
KERNEL lock(int *held, int *count) {
    while (atomicCAS(held, 0, 1) != 0) {}
    *(volatile int *)count = *(volatile int *)count + 1;
    __threadfence();
    atomicExch(held, 0);
}
KERNEL rounds(int *a, int n) {
    auto grid = cg::this_grid();
    int i = grid.thread_rank();
    for (int r = 0; r < 5; r++) {
        int next = i < n ? a[(i + 1) % n] : 0;
        grid.sync();
        if (i < n) a[i] = next;
        grid.sync();
    }
}
KERNEL tiles(int *a, int *out) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int v = a[block.thread_rank()];
    for (int i = tile.size() / 2; i; i /= 2) v += tile.shfl_down(v, i);
    if (tile.thread_rank() == 0) out[block.thread_rank() / 8] = v;
    if (threadIdx.x % 3 == 0) {
        auto some = cg::coalesced_threads();
        out[32 + some.thread_rank()] = some.size();
    }
}
KERNEL blocks(int *keys, int *scanned, int *sum) {
    using Sort = cub::BlockRadixSort<int, 128, 4>;
    using Scan = cub::BlockScan<int, 128>;
    using Reduce = cub::BlockReduce<int, 128>;
    __shared__ union {
        typename Sort::TempStorage sort;
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
    } space;
    int mine[4], sums[4];
    for (int k = 0; k < 4; k++) mine[k] = keys[threadIdx.x * 4 + k];
    int all = Reduce(space.reduce).Sum(mine);
    if (threadIdx.x == 0) *sum = all;
    __syncthreads();
    Sort(space.sort).Sort(mine);
    __syncthreads();
    Scan(space.scan).InclusiveSum(mine, sums);
    for (int k = 0; k < 4; k++) keys[threadIdx.x * 4 + k] = mine[k], scanned[threadIdx.x * 4 + k] = sums[k];
}
#define MMA(d, a, b)                                                                                                         \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
KERNEL tensor(const __half *x, const __half *y, float *c) {
    __shared__ __align__(16) __half xs[16 * 16], ys[8 * 16];
    unsigned a[4], b[2];
    float d[4] = {0, 0, 0, 0};
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    for (int i = lane; i < 256; i += 32) xs[i] = x[i];
    for (int i = lane; i < 128; i += 32) ys[i] = y[i];
    __syncwarp();
    unsigned at = (unsigned)__cvta_generic_to_shared(&xs[lane % 16 * 16 + lane / 16 * 8]);
    unsigned bt = (unsigned)__cvta_generic_to_shared(&ys[lane % 8 * 16 + lane / 8 % 2 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1},[%2];" : "=r"(b[0]), "=r"(b[1]) : "r"(bt));
    MMA(d, a, b);
    c[g * 8 + t * 2] = d[0], c[g * 8 + t * 2 + 1] = d[1], c[(g + 8) * 8 + t * 2] = d[2], c[(g + 8) * 8 + t * 2 + 1] = d[3];
}
