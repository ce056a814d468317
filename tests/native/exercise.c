/* Everything of the CPU reference once, and many products of random shape, in one program: built with
 * AddressSanitizer and UndefinedBehaviorSanitizer, which end it at the first wrong access. Matrices are
 * allocated to the byte, so one element too many is seen. Prints how many products were right. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long Address;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuDevicePrimaryCtxRelease_v2(int);
int cuCtxCreate_v2(void **, unsigned, int), cuCtxDestroy_v2(void *);
int cuMemAlloc_v2(Address *, size_t), cuMemFree_v2(Address), cuMemcpyHtoD_v2(Address, const void *, size_t);
int cuMemcpyDtoH_v2(void *, Address, size_t), cuMemsetD32_v2(Address, unsigned, size_t);
int cuMemHostAlloc(void **, size_t, unsigned), cuMemFreeHost(void *);
int cuStreamCreate(void **, unsigned), cuStreamDestroy_v2(void *), cuEventCreate(void **, unsigned);
int cuEventRecord(void *, void *), cuEventDestroy_v2(void *);
int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);
int cuModuleLoadData(void **, const void *), cuModuleGetFunction(void **, void *, const char *), cuModuleUnload(void *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **), cuStreamSynchronize(void *);
int cuStreamWaitEvent(void *, void *, unsigned), cuMemsetD32Async(Address, unsigned, size_t, void *), cuCtxSynchronize(void);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long), cuGraphLaunch(void *, void *);
int cuGraphExecUpdate_v2(void *, void *, void *), cuGraphExecDestroy(void *), cuGraphDestroy(void *);
int cuMemAllocAsync(Address *, size_t, void *), cuMemFreeAsync(Address, void *);
int cuLinkCreate_v2(unsigned, int *, void **, void **), cuLinkComplete(void *, void **, size_t *), cuLinkDestroy(void *);
int cuLinkAddData_v2(void *, int, void *, size_t, const char *, unsigned, int *, void **);
int cublasCreate_v2(void **), cublasDestroy_v2(void *);
int cublasSgemmStridedBatched(void *, int, int, int, int, int, const float *, const float *, int, long long, const float *,
                              int, long long, const float *, float *, int, long long, int);
int cublasGemmEx(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int,
                 const void *, void *, int, int, int, int);
int cublasLtCreate(void **), cublasLtDestroy(void *), cusparseCreate(void **), cusparseDestroy(void *);
int cufftCreate(int *), cufftDestroy(int), nvmlInit_v2(void), nvmlShutdown(void);

#define EXPECT(call, code)                                                        \
    do {                                                                          \
        int got = (call);                                                         \
        if (got != (code)) {                                                      \
            fprintf(stderr, "%s: %d instead of %d\n", #call, got, code);          \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static int below(int limit) { return rand() % limit; }

static float *numbers(size_t count) {
    float *made = malloc(count * sizeof *made);
    for (size_t i = 0; made && i < count; i++) made[i] = (float)(below(17) - 8) / 4; /* sums are exact */
    return made;
}

/* One batch of products against three plain loops; the numbers are small, so they must be equal. */
static void product(void *handle) {
    int m = below(70), n = below(70), k = below(70), ta = below(2), tb = below(2), batch = 1 + below(3);
    int rows_a = ta ? k : m, columns_a = ta ? m : k, rows_b = tb ? n : k, columns_b = tb ? k : n;
    int lda = rows_a + below(3) + !rows_a, ldb = rows_b + below(3) + !rows_b, ldc = m + below(3) + !m;
    float alpha = (float)(below(5) - 2), beta = (float)(below(3) - 1);
    long long size_a = (long long)lda * columns_a, size_b = (long long)ldb * columns_b, size_c = (long long)ldc * n;
    float *a = numbers((size_t)(size_a * batch)), *b = numbers((size_t)(size_b * batch));
    float *c = numbers((size_t)(size_c * batch)), *want = malloc((size_t)(size_c * batch) * sizeof *want + 1);
    memcpy(want, c, (size_t)(size_c * batch) * sizeof *want);
    for (int z = 0; z < batch; z++)
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++) {
                float sum = 0;
                for (int p = 0; p < k; p++)
                    sum += a[z * size_a + (ta ? p + (long long)i * lda : i + (long long)p * lda)] *
                           b[z * size_b + (tb ? j + (long long)p * ldb : p + (long long)j * ldb)];
                float *cell = &want[z * size_c + i + (long long)j * ldc];
                *cell = alpha * sum + (beta == 0 ? 0 : beta * *cell);
            }
    EXPECT(cublasSgemmStridedBatched(handle, ta, tb, m, n, k, &alpha, a, lda, size_a, b, ldb, size_b, &beta, c, ldc,
                                     size_c, batch), 0);
    for (long long i = 0; i < size_c * batch; i++)
        if (c[i] != want[i]) {
            fprintf(stderr, "%d x %d x %d: %g instead of %g\n", m, n, k, (double)c[i], (double)want[i]);
            exit(1);
        }
    free(a), free(b), free(c), free(want);
}

static void halves(void *handle) {
    float alpha = 1, beta = 1;
    unsigned short *a = malloc(7 * 5 * 2), *b = malloc(5 * 3 * 2), *c = malloc(7 * 3 * 2);
    for (int i = 0; i < 35; i++) a[i] = 0x3c00; /* 1 */
    for (int i = 0; i < 15; i++) b[i] = 0x4000; /* 2 */
    for (int i = 0; i < 21; i++) c[i] = 0x3c00;
    EXPECT(cublasGemmEx(handle, 0, 0, 7, 3, 5, &alpha, a, 2, 7, b, 2, 5, &beta, c, 2, 7, 68, -1), 0);
    for (int i = 0; i < 21; i++) EXPECT(c[i], 0x4980); /* 11 */
    free(a), free(b), free(c);
}

static void overlap(void *handle) {
    float one = 1, zero = 0, *memory = numbers(64 * 64 + 13), *b = numbers(64 * 64);
    EXPECT(cublasSgemmStridedBatched(handle, 0, 0, 64, 64, 64, &one, memory, 64, 0, b, 64, 0, &zero, memory + 13, 64, 0, 1), 0);
    free(memory), free(b);
}

static void driver(void) {
    void *context, *made, *stream, *event, *pinned, *call;
    Address one, two;
    char bytes[96] = {1};
    EXPECT(cuMemAlloc_v2(&one, 4), 3);
    EXPECT(cuInit(0), 0);
    EXPECT(cuMemAlloc_v2(&one, 4), 201);
    EXPECT(cuDevicePrimaryCtxRetain(&context, 0), 0);
    EXPECT(cuCtxSetCurrent(context), 0);
    EXPECT(cuMemAlloc_v2(&one, 96), 0);
    EXPECT(cuMemcpyHtoD_v2(one, bytes, 96), 0);
    EXPECT(cuMemcpyHtoD_v2(one, bytes, 97), 1);
    EXPECT(cuMemsetD32_v2(one + 4, 7, 23), 0);
    EXPECT(cuMemcpyDtoH_v2(bytes, one, 96), 0);
    EXPECT(bytes[0] == 1 && bytes[92] == 7, 1);
    EXPECT(cuMemHostAlloc(&pinned, 10, 0), 0);
    EXPECT(cuMemFreeHost(pinned), 0);
    EXPECT(cuCtxCreate_v2(&made, 0, 0), 0);
    EXPECT(cuMemAlloc_v2(&two, 5), 0);
    EXPECT(cuCtxDestroy_v2(made), 0); /* frees `two` */
    EXPECT(cuMemFree_v2(two), 1);
    EXPECT(cuStreamCreate(&stream, 0), 0);
    EXPECT(cuEventCreate(&event, 0), 0);
    EXPECT(cuEventRecord(event, stream), 0);
    EXPECT(cuEventDestroy_v2(event), 0);
    EXPECT(cuEventRecord(event, stream), 400);
    EXPECT(cuStreamDestroy_v2(stream), 0);
    EXPECT(cuGetProcAddress_v2("cuMemAlloc", &call, 12080, 0, NULL), 0);
    EXPECT(cuMemFree_v2(one), 0);
    EXPECT(cuDevicePrimaryCtxRelease_v2(0), 0);
}

static char DOUBLED[] =
    ".version 7.5\n.target sm_75\n.address_size 64\n"
    ".visible .entry doubled(.param .u64 cells, .param .u32 n)\n"
    "{ .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %a<3>;\n"
    "  ld.param.u64 %a0, [cells]; ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x; setp.ge.u32 %p, %r1, %r0; @%p bra DONE;\n"
    "  mul.wide.u32 %a1, %r1, 4; add.s64 %a2, %a0, %a1; ld.global.u32 %r2, [%a2]; add.s32 %r3, %r2, %r2;\n"
    "  st.global.u32 [%a2], %r3;\n"
    "DONE: ret; }\n";

/* A module out of the linker, two streams that wait for each other, and a graph of what they do. */
static void kernels(void) {
    void *context, *link, *image, *module, *kernel, *one, *two, *event, *graph, *exec, *info[3];
    Address cells, more;
    unsigned n = 24, back[24];
    void *arguments[] = {&cells, &n};
    size_t size;
    EXPECT(cuCtxCreate_v2(&context, 0, 0), 0);
    EXPECT(cuLinkCreate_v2(0, NULL, NULL, &link), 0);
    EXPECT(cuLinkAddData_v2(link, 1, DOUBLED, strlen(DOUBLED), "doubled", 0, NULL, NULL), 0);
    EXPECT(cuLinkComplete(link, &image, &size), 0);
    EXPECT(cuModuleLoadData(&module, image), 0);
    EXPECT(cuLinkDestroy(link), 0);
    EXPECT(cuModuleGetFunction(&kernel, module, "doubled"), 0);
    EXPECT(cuStreamCreate(&one, 0), 0);
    EXPECT(cuStreamCreate(&two, 1), 0);
    EXPECT(cuEventCreate(&event, 0), 0);
    EXPECT(cuMemAlloc_v2(&cells, sizeof back), 0);
    EXPECT(cuStreamBeginCapture_v2(one, 0), 0);
    EXPECT(cuMemsetD32Async(cells, 3, n, one), 0);
    EXPECT(cuEventRecord(event, one), 0);
    EXPECT(cuStreamWaitEvent(two, event, 0), 0);
    EXPECT(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, two, arguments, NULL), 0);
    EXPECT(cuEventRecord(event, two), 0);
    EXPECT(cuStreamWaitEvent(one, event, 0), 0);
    EXPECT(cuStreamEndCapture(one, &graph), 0);
    EXPECT(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    EXPECT(cuGraphExecUpdate_v2(exec, graph, info), 0);
    for (int i = 0; i < 50; i++) {
        EXPECT(cuGraphLaunch(exec, i % 2 ? one : two), 0);
        EXPECT(cuMemAllocAsync(&more, 100, one), 0);
        EXPECT(cuMemFreeAsync(more, one), 0);
        EXPECT(cuEventRecord(event, i % 2 ? one : two), 0);
        EXPECT(cuStreamWaitEvent(i % 2 ? two : one, event, 0), 0);
    }
    EXPECT(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, one, arguments, NULL), 0);
    EXPECT(cuGraphExecDestroy(exec), 0); /* while it may still be at work */
    EXPECT(cuGraphDestroy(graph), 0);
    EXPECT(cuStreamDestroy_v2(two), 0);
    EXPECT(cuStreamSynchronize(one), 0);
    EXPECT(cuMemcpyDtoH_v2(back, cells, sizeof back), 0);
    for (unsigned i = 0; i < n; i++) EXPECT(back[i], 12);
    EXPECT(cuEventDestroy_v2(event), 0);
    EXPECT(cuModuleUnload(module), 0);
    EXPECT(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, one, arguments, NULL), 400);
    EXPECT(cuCtxDestroy_v2(context), 0); /* takes the rest along */
}

static void others(void) {
    void *handle;
    int plan;
    EXPECT(cublasLtCreate(&handle), 0);
    EXPECT(cublasLtDestroy(handle), 0);
    EXPECT(cusparseCreate(&handle), 0);
    EXPECT(cusparseDestroy(handle), 0);
    EXPECT(cusparseDestroy(handle), 1);
    EXPECT(cufftCreate(&plan), 0);
    EXPECT(cufftDestroy(plan), 0);
    EXPECT(nvmlInit_v2(), 0);
    EXPECT(nvmlShutdown(), 0);
}

int main(void) {
    enum { PRODUCTS = 400 };
    void *handle;
    driver();
    kernels();
    others();
    EXPECT(cublasCreate_v2(&handle), 0);
    for (int i = 0; i < PRODUCTS; i++) product(handle);
    halves(handle);
    overlap(handle);
    EXPECT(cublasDestroy_v2(handle), 0);
    printf("%d products right\n", PRODUCTS);
    return 0;
}
