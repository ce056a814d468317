/* Contexts: the primary one, those a program makes, and each thread's stack of current ones. */
#include "driver.h"

#include <stdlib.h>

enum { STACK_ROOM = 64, FLAGS_ALL = 0xff };

static _Thread_local Context *stack[STACK_ROOM];
static _Thread_local int depth;
static Context primary = {.primary = true};

Context *context_current(void) { return depth ? stack[depth - 1] : NULL; }

static bool alive(const Context *context) { return registry_has(context, HANDLE_CONTEXT); }

CUresult need_context(void) {
    CUresult result = need_init();
    if (result) return result;
    Context *current = context_current();
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    return alive(current) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult push(Context *context) {
    if (depth == STACK_ROOM) return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v2(Context **context, unsigned flags, CUdevice device) {
    CUresult result = need_device(device);
    if (result) return result;
    if (!context || (flags & ~(unsigned)FLAGS_ALL)) return CUDA_ERROR_INVALID_VALUE;
    Context *made = calloc(1, sizeof *made);
    if (!made || !registry_add(made, HANDLE_CONTEXT)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->flags = flags;
    result = push(made);
    if (result) {
        registry_remove(made, HANDLE_CONTEXT);
        free(made);
        return result;
    }
    *context = made;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate(Context **context, unsigned flags, CUdevice device) {
    return cuCtxCreate_v2(context, flags, device);
}

EXPORT CUresult cuCtxCreate_v3(Context **context, const void *affinity, int count, unsigned flags, CUdevice device) {
    if (affinity || count) return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(context, flags, device);
}

EXPORT CUresult cuCtxCreate_v4(Context **context, const void *parameters, unsigned flags, CUdevice device) {
    if (parameters) return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(context, flags, device);
}

EXPORT CUresult cuCtxDestroy_v2(Context *context) {
    CUresult result = need_init();
    if (result) return result;
    if (!context || context == &primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (!registry_remove(context, HANDLE_CONTEXT)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context_current() == context) depth--;
    memory_drop_context(context);
    free(context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDestroy(Context *context) { return cuCtxDestroy_v2(context); }

EXPORT CUresult cuCtxPushCurrent_v2(Context *context) {
    CUresult result = need_init();
    if (result) return result;
    return alive(context) ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuCtxPushCurrent(Context *context) { return cuCtxPushCurrent_v2(context); }

EXPORT CUresult cuCtxPopCurrent_v2(Context **context) {
    CUresult result = need_init();
    if (result) return result;
    if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context) *context = stack[depth];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent(Context **context) { return cuCtxPopCurrent_v2(context); }

EXPORT CUresult cuCtxSetCurrent(Context *context) {
    CUresult result = need_init();
    if (result) return result;
    if (context && !alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth) depth--;
    return context ? push(context) : CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(Context **context) {
    CUresult result = need_init();
    if (result) return result;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = context_current();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
    CUresult result = need_context();
    if (result) return result;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetFlags(unsigned *flags) {
    CUresult result = need_context();
    if (result) return result;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = context_current()->flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetApiVersion(Context *context, unsigned *version) {
    CUresult result = context ? need_init() : need_context();
    if (result) return result;
    if (context && !alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = 3020; /* what real drivers say for contexts made by cuCtxCreate_v2 */
    return CUDA_SUCCESS;
}

/* Work is done when its call returns, so there is nothing left to wait for. */
EXPORT CUresult cuCtxSynchronize(void) { return need_context(); }

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    CUresult result = need_context();
    if (result) return result;
    if (least) *least = 0;
    if (greatest) *greatest = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(Context **context, CUdevice device) {
    CUresult result = need_device(device);
    if (result) return result;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!alive(&primary) && !registry_add(&primary, HANDLE_CONTEXT)) return CUDA_ERROR_OUT_OF_MEMORY;
    lock_take();
    primary.retained++;
    lock_release();
    *context = &primary;
    return CUDA_SUCCESS;
}

static void primary_end(void) {
    registry_remove(&primary, HANDLE_CONTEXT);
    memory_drop_context(&primary);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    CUresult result = need_device(device);
    if (result) return result;
    lock_take();
    bool held = primary.retained > 0, last = primary.retained == 1;
    if (held) primary.retained--;
    lock_release();
    if (last) primary_end();
    return held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    CUresult result = need_device(device);
    if (result) return result;
    memory_drop_context(&primary);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    CUresult result = need_device(device);
    if (result) return result;
    if (flags) *flags = primary.flags;
    if (active) *active = alive(&primary);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    CUresult result = need_device(device);
    if (result) return result;
    if (flags & ~(unsigned)FLAGS_ALL) return CUDA_ERROR_INVALID_VALUE;
    primary.flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}
