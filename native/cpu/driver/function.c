/* Kernels: what they are and need, and how many blocks of one fit a multiprocessor. */
#include "module.h"

#include <string.h>

enum {
    MAX_THREADS, SHARED_BYTES, CONST_BYTES, LOCAL_BYTES, REGISTERS, PTX_VERSION, BINARY_VERSION, CACHE_MODE, DYNAMIC_MOST,
    CARVEOUT, CLUSTER_NEEDED, CLUSTER_WIDTH, CLUSTER_HEIGHT, CLUSTER_DEPTH, NON_PORTABLE, SCHEDULING,
};

const struct ptx_attributes *function_attributes(Function *function) {
    if (!function->measured) {
        struct ptx_attributes attributes = {0};
        ptx_function_attributes(function->ptx, &attributes);
        if (!attributes.max_threads) attributes.max_threads = (unsigned)device_number(1);
        lock_take();
        function->attributes = attributes;
        function->measured = true;
        lock_release();
    }
    return &function->attributes;
}

unsigned function_dynamic_most(Function *function) {
    if (function->dynamic_most >= 0) return (unsigned)function->dynamic_most;
    unsigned most = (unsigned)device_number(8), used = function_attributes(function)->shared_bytes;
    return used < most ? most - used : 0;
}

EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, Function *function) {
    NEED(need_function(function));
    NEED_VALUE(value);
    const struct ptx_attributes *known = function_attributes(function);
    switch (attribute) {
    case MAX_THREADS: *value = (int)known->max_threads; break;
    case SHARED_BYTES: *value = (int)known->shared_bytes; break;
    case CONST_BYTES: *value = (int)known->const_bytes; break;
    case LOCAL_BYTES: *value = (int)known->local_bytes; break;
    case REGISTERS: *value = (int)known->registers; break;
    case PTX_VERSION: *value = (int)known->target; break; /* the virtual architecture, not the language's version */
    case BINARY_VERSION: *value = reported_capability(); break;
    case DYNAMIC_MOST: *value = (int)function_dynamic_most(function); break;
    case CARVEOUT: *value = function->carveout; break;
    case CLUSTER_WIDTH: case CLUSTER_HEIGHT: case CLUSTER_DEPTH: *value = (int)function->cluster[attribute - CLUSTER_WIDTH]; break;
    case NON_PORTABLE: *value = function->non_portable; break;
    case SCHEDULING: *value = function->scheduling; break;
    case CACHE_MODE: case CLUSTER_NEEDED: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(Function *function, int attribute, int value) {
    NEED(need_function(function));
    switch (attribute) {
    case DYNAMIC_MOST:
        NEED_VALUE(value >= 0 && (unsigned)value + function_attributes(function)->shared_bytes <= (unsigned)device_number(97));
        function->dynamic_most = value;
        return CUDA_SUCCESS;
    case CARVEOUT:
        NEED_VALUE(value >= -1 && value <= 100);
        function->carveout = value;
        return CUDA_SUCCESS;
    case CLUSTER_WIDTH: case CLUSTER_HEIGHT: case CLUSTER_DEPTH:
        NEED_VALUE(value >= 0);
        function->cluster[attribute - CLUSTER_WIDTH] = (unsigned)value;
        return CUDA_SUCCESS;
    case NON_PORTABLE: function->non_portable = value != 0; return CUDA_SUCCESS;
    case SCHEDULING: function->scheduling = value; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT CUresult cuKernelGetAttribute(int *value, int attribute, Function *kernel, CUdevice device) {
    NEED(need_device(device));
    return cuFuncGetAttribute(value, attribute, kernel);
}

EXPORT CUresult cuKernelSetAttribute(int attribute, int value, Function *kernel, CUdevice device) {
    NEED(need_device(device));
    return cuFuncSetAttribute(kernel, attribute, value);
}

static CUresult accept(Function *function, bool valid) {
    NEED(need_function(function));
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuFuncSetCacheConfig(Function *function, int wish) { return accept(function, wish >= 0 && wish <= 3); }
EXPORT CUresult cuFuncSetSharedMemConfig(Function *function, int wish) { return accept(function, wish >= 0 && wish <= 2); }

EXPORT CUresult cuKernelSetCacheConfig(Function *kernel, int wish, CUdevice device) {
    NEED(need_device(device));
    return cuFuncSetCacheConfig(kernel, wish);
}

#define FUNCTION_ANSWER(name, Type, answer) ANSWER(name, (Type *value, Function *function), need_function(function), value, answer)

FUNCTION_ANSWER(cuFuncGetModule, Module *, function->module)
FUNCTION_ANSWER(cuKernelGetLibrary, Module *, function->module)
FUNCTION_ANSWER(cuKernelGetFunction, Function *, function)
FUNCTION_ANSWER(cuFuncGetName, const char *, ptx_function_name(function->ptx))
FUNCTION_ANSWER(cuKernelGetName, const char *, ptx_function_name(function->ptx))
FUNCTION_ANSWER(cuFuncIsLoaded, int, function->measured) /* CU_FUNCTION_LOADING_STATE_LOADED is 1 */

EXPORT CUresult cuFuncLoad(Function *function) {
    NEED(need_function(function));
    function_attributes(function);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetParamInfo(Function *function, size_t index, size_t *offset, size_t *size) {
    NEED(need_function(function));
    size_t bytes;
    NEED_VALUE(offset && ptx_parameter(function->ptx, index, offset, &bytes));
    if (size) *size = bytes;
    return CUDA_SUCCESS;
}

SAME(cuKernelGetParamInfo, cuFuncGetParamInfo)

/* ---- occupancy: the least of what threads, shared memory and the number of blocks allow. Registers limit nothing: those of
 * PTX are many more than a compiler would leave, and ours are memory. ---- */

enum { WARP = 32 };

CUresult blocks_per_processor(Function *function, unsigned threads, size_t shared, int *blocks) {
    const struct ptx_attributes *known = function_attributes(function);
    NEED_VALUE(threads && blocks);
    *blocks = 0;
    if (threads > known->max_threads || shared > function_dynamic_most(function)) return CUDA_SUCCESS;
    unsigned warps = (threads + WARP - 1) / WARP;
    size_t bytes = known->shared_bytes + shared + (size_t)device_number(111);
    size_t by_threads = (size_t)device_number(39) / (warps * WARP), by_shared = (size_t)device_number(81) / bytes;
    size_t least = (size_t)device_number(106);
    if (by_threads < least) least = by_threads;
    if (by_shared < least) least = by_shared;
    *blocks = (int)least;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, Function *function, int threads, size_t shared,
                                                                     unsigned flags) {
    NEED(need_function(function));
    NEED_VALUE(blocks && threads > 0 && flags <= 1);
    return blocks_per_processor(function, (unsigned)threads, shared, blocks);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function *function, int threads, size_t shared) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

/* The largest block among those with which most threads are resident. */
EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, Function *function, size_t (*shared_of)(int),
                                                          size_t shared, int limit, unsigned flags) {
    NEED(need_function(function));
    NEED_VALUE(grid && block && limit >= 0 && flags <= 1);
    int most = (int)function_attributes(function)->max_threads, best = 0;
    if (limit && limit < most) most = limit;
    *grid = *block = 0;
    for (int threads = (most + WARP - 1) / WARP * WARP; threads > 0; threads -= WARP) {
        int size = threads < most ? threads : most, blocks;
        NEED(blocks_per_processor(function, (unsigned)size, shared_of ? shared_of(size) : shared, &blocks));
        if (blocks * size <= best) continue;
        best = blocks * size;
        *block = size;
        *grid = blocks * device_number(16);
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, Function *function, size_t (*shared_of)(int),
                                                 size_t shared, int limit) {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared, limit, 0);
}

EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, Function *function, int blocks, int threads) {
    NEED(need_function(function));
    NEED_VALUE(bytes && blocks > 0 && threads > 0);
    int possible;
    NEED(blocks_per_processor(function, (unsigned)threads, 0, &possible));
    size_t each = (size_t)device_number(81) / (unsigned)blocks, used = function_attributes(function)->shared_bytes + (size_t)device_number(111);
    size_t left = blocks <= possible && each > used ? each - used : 0, most = (size_t)device_number(97);
    *bytes = left < most ? left : most;
    return CUDA_SUCCESS;
}
