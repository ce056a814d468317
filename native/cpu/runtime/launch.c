/* Kernels: launches, attributes, occupancy. */
#include "runtime.h"

#include <string.h>

enum { PUSHED_MOST = 64 };

typedef struct {
    Dim3 grid, block;
    size_t shared;
    Stream *stream;
} Configuration;

static _Thread_local Configuration pushed[PUSHED_MOST];
static _Thread_local int depth;

/* What stands between <<< and >>>, until the kernel's host function takes it. */
EXPORT unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, Stream *stream) {
    if (depth == PUSHED_MOST) return (unsigned)keep(CUDA_ERROR_OUT_OF_MEMORY);
    pushed[depth++] = (Configuration){grid, block, shared, stream};
    return 0;
}

EXPORT int __cudaPopCallConfiguration(Dim3 *grid, Dim3 *block, size_t *shared, Stream **stream) {
    if (!depth) return keep(CUDART_MISSING_CONFIGURATION);
    const Configuration *top = &pushed[--depth];
    *grid = top->grid;
    *block = top->block;
    *shared = top->shared;
    *stream = top->stream;
    return 0;
}

/* The driver knows only "invalid value" for what the runtime calls an invalid configuration. */
static int launched(int error) { return keep(error == CUDA_ERROR_INVALID_VALUE ? CUDART_INVALID_CONFIGURATION : error); }

static int launch(const void *symbol, Dim3 grid, Dim3 block, void **arguments, size_t shared, Stream *stream, bool cooperative) {
    Function *function;
    TRY(ready());
    TRY(find_function(symbol, &function));
    LaunchAttribute together = {.id = 2, .value.cooperative = 1};
    LaunchConfig config = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, (unsigned)shared, stream, &together, cooperative};
    if (shared > UINT32_MAX) return launched(CUDA_ERROR_INVALID_VALUE);
    return launched(DRIVER("cuLaunchKernelEx", &config, function, arguments, 0));
}

#define LAUNCH(name, stream_of, cooperative)                                                                             \
    EXPORT int name(const void *symbol, Dim3 grid, Dim3 block, void **arguments, size_t shared, Stream *stream) {         \
        return launch(symbol, grid, block, arguments, shared, stream_of(stream), cooperative);                            \
    }

LAUNCH(cudaLaunchKernel, , false)
LAUNCH(cudaLaunchKernel_ptsz, OWN, false)
LAUNCH(__cudaLaunchKernel, , false)
LAUNCH(__cudaLaunchKernel_ptsz, OWN, false)
LAUNCH(cudaLaunchCooperativeKernel, , true)
LAUNCH(cudaLaunchCooperativeKernel_ptsz, OWN, true)

typedef struct { /* cudaLaunchConfig_t: its shared memory is a size_t, unlike the driver's */
    Dim3 grid, block;
    size_t shared;
    Stream *stream;
    LaunchAttribute *attributes;
    unsigned count;
} RuntimeConfig;

static int launch_config(const RuntimeConfig *config, const void *symbol, void **arguments, bool own) {
    Function *function;
    TRY(ready());
    TRY_VALUE(config && config->shared <= UINT32_MAX);
    TRY(find_function(symbol, &function));
    LaunchConfig wish = {{config->grid.x, config->grid.y, config->grid.z}, {config->block.x, config->block.y, config->block.z},
                         (unsigned)config->shared, own ? OWN(config->stream) : config->stream, config->attributes, config->count};
    return launched(DRIVER("cuLaunchKernelEx", &wish, function, arguments, 0));
}

EXPORT int cudaLaunchKernelExC(const RuntimeConfig *config, const void *symbol, void **arguments) {
    return launch_config(config, symbol, arguments, false);
}

EXPORT int cudaLaunchKernelExC_ptsz(const RuntimeConfig *config, const void *symbol, void **arguments) {
    return launch_config(config, symbol, arguments, true);
}

/* ---- attributes ---- */

typedef struct { /* cudaFuncAttributes */
    size_t shared, constant, local;
    int threads, registers, ptx, binary, cache, dynamic, carveout, cluster_needed, cluster[3], scheduling, non_portable, reserved[16];
} FuncAttributes;

EXPORT int cudaFuncGetAttributes(FuncAttributes *out, const void *symbol) {
    Function *function;
    int values[16] = {0};
    TRY(ready());
    TRY_VALUE(out);
    TRY(find_function(symbol, &function));
    for (int i = 0; i < 16; i++) TRY(DRIVER("cuFuncGetAttribute", &values[i], i, function));
    *out = (FuncAttributes){
        .threads = values[0], .shared = (size_t)values[1], .constant = (size_t)values[2], .local = (size_t)values[3],
        .registers = values[4], .ptx = values[5], .binary = values[6], .cache = values[7], .dynamic = values[8],
        .carveout = values[9], .cluster_needed = values[10], .cluster = {values[11], values[12], values[13]},
        .non_portable = values[14], .scheduling = values[15],
    };
    return 0;
}

/* Calls whose first argument, or second, is a kernel. */
#define KERNEL_FIRST(name, call, A, B, C)                               \
    EXPORT int name(const void *symbol, A a, B b, C c) {                \
        Function *function;                                            \
        TRY(ready());                                                   \
        TRY(find_function(symbol, &function));                          \
        return keep(DRIVER(call, function, a, b, c));                   \
    }
#define KERNEL_SECOND(name, call, Out, A, B, C)                         \
    EXPORT int name(Out out, const void *symbol, A a, B b, C c) {       \
        Function *function;                                            \
        TRY(ready());                                                   \
        TRY(find_function(symbol, &function));                          \
        return keep(DRIVER(call, out, function, a, b, c));              \
    }

KERNEL_FIRST(cudaFuncSetAttribute, "cuFuncSetAttribute", int, int, int)
KERNEL_FIRST(cudaFuncSetCacheConfig, "cuFuncSetCacheConfig", int, int, int)
KERNEL_FIRST(cudaFuncSetSharedMemConfig, "cuFuncSetSharedMemConfig", int, int, int)
KERNEL_FIRST(cudaFuncGetParamInfo, "cuFuncGetParamInfo", size_t, size_t *, size_t *)
KERNEL_SECOND(cudaFuncGetName, "cuFuncGetName", const char **, int, int, int)
KERNEL_SECOND(cudaOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor", int *, int, size_t, int)
KERNEL_SECOND(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", int *, int,
              size_t, unsigned)
KERNEL_SECOND(cudaOccupancyAvailableDynamicSMemPerBlock, "cuOccupancyAvailableDynamicSMemPerBlock", size_t *, int, int, int)

EXPORT int cudaKernelSetAttributeForDevice(Function *kernel, int attribute, int value, int device) {
    TRY(ready());
    return keep(DRIVER("cuKernelSetAttribute", attribute, value, kernel, device));
}
