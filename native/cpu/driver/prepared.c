/* Launches by what was set on a kernel before: block, shared memory and arguments. NVIDIA replaced these calls with
 * cuLaunchKernel in CUDA 4; PyCUDA's prepared kernels still use them. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

enum { ARGUMENT_ROOM = 32764 }; /* bytes that a kernel's arguments may take */

struct Prepared {
    unsigned block[3], shared;
    size_t size;
    char arguments[ARGUMENT_ROOM];
};

static CUresult prepared(Function *function, struct Prepared **found) {
    NEED(need_context());
    NEED(need_function(function));
    lock_take();
    if (!function->prepared && (function->prepared = calloc(1, sizeof *function->prepared)))
        memcpy(function->prepared->block, (unsigned[]){1, 1, 1}, sizeof function->prepared->block);
    *found = function->prepared;
    lock_release();
    return *found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuFuncSetBlockShape(Function *function, int x, int y, int z) {
    struct Prepared *set;
    NEED(prepared(function, &set));
    NEED_VALUE(x > 0 && y > 0 && z > 0 && x <= device_number(2) && y <= device_number(3) && z <= device_number(4));
    NEED_VALUE((int64_t)x * y * z <= device_number(1));
    memcpy(set->block, (unsigned[]){(unsigned)x, (unsigned)y, (unsigned)z}, sizeof set->block);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetSharedSize(Function *function, unsigned bytes) {
    struct Prepared *set;
    NEED(prepared(function, &set));
    NEED_VALUE(bytes <= function_dynamic_most(function));
    set->shared = bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuParamSetSize(Function *function, unsigned bytes) {
    struct Prepared *set;
    NEED(prepared(function, &set));
    NEED_VALUE(bytes <= ARGUMENT_ROOM);
    set->size = bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuParamSetv(Function *function, int offset, const void *value, unsigned bytes) {
    struct Prepared *set;
    NEED(prepared(function, &set));
    NEED_VALUE(offset >= 0 && (value || !bytes) && bytes <= ARGUMENT_ROOM && (unsigned)offset <= ARGUMENT_ROOM - bytes);
    if (bytes) memcpy(set->arguments + offset, value, bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuParamSeti(Function *function, int offset, unsigned value) {
    return cuParamSetv(function, offset, &value, sizeof value);
}

EXPORT CUresult cuParamSetf(Function *function, int offset, float value) {
    return cuParamSetv(function, offset, &value, sizeof value);
}

CUresult cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, Stream *stream, void **arguments, void **extra);

/* As NVIDIA's driver does it: arguments that were not set are passed as they are, too many are refused. */
EXPORT CUresult cuLaunchGridAsync(Function *function, int width, int height, Stream *stream) {
    struct Prepared *set;
    NEED(prepared(function, &set));
    NEED_VALUE(width > 0 && height > 0);
    size_t count, size = packed_size(function, &count);
    if (set->size > size) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    void *extra[] = {(void *)1, set->arguments, (void *)2, &size, NULL};
    return cuLaunchKernel(function, (unsigned)width, (unsigned)height, 1, set->block[0], set->block[1], set->block[2], set->shared,
                          stream, NULL, extra);
}

EXPORT CUresult cuLaunchGrid(Function *function, int width, int height) {
    return cuLaunchGridAsync(function, width, height, NULL);
}

EXPORT CUresult cuLaunch(Function *function) { return cuLaunchGridAsync(function, 1, 1, NULL); }
