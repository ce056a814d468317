/* Contexts: the primary one, those a program makes, and each thread's stack of current ones. */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

enum { STACK_ROOM = 64, FLAGS_ALL = 0xff };

static _Thread_local Context *stack[STACK_ROOM];
static _Thread_local int depth;
static Context primary = {.primary = true};

Context *context_current(void) { return depth ? stack[depth - 1] : NULL; }

bool context_alive(const Context *context) { return registry_has(context, HANDLE_CONTEXT); }

uint64_t next_id(void) {
    static uint64_t last;
    lock_take();
    uint64_t id = ++last;
    lock_release();
    return id;
}

CUresult need_current(void) {
    NEED(need_init());
    Context *current = context_current();
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    return context_alive(current) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult need_owner(const Context *owner) {
    const Context *context = owner ? owner : context_current();
    NEED(need_init());
    if (!context) return CUDA_SUCCESS;
    if (!context_alive(context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (task_in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
    lock_take();
    CUresult fault = context->fault;
    lock_release();
    return fault;
}

CUresult need_context(void) {
    NEED(need_current());
    return need_owner(NULL);
}

/* ---- life and death ---- */

static const size_t LIMITS_AT_START[LIMITS] = {1024, 1 << 20, 8 << 20, 2, 2048, 64};

static CUresult context_open(Context *context, unsigned flags) {
    context->flags = flags;
    context->fault = CUDA_SUCCESS;
    context->id = next_id();
    memcpy(context->limits, LIMITS_AT_START, sizeof context->limits);
    NEED(stream_new(context, 0, NULL, &context->legacy));
    if (registry_add(context, HANDLE_CONTEXT)) return CUDA_SUCCESS;
    stream_close(context->legacy);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* All that belongs to it ends with it, once the work in it is done. */
static void context_close(Context *context) {
    context_wait(context);
    registry_remove(context, HANDLE_CONTEXT);
    lock_take();
    while (context->streams) {
        Stream *stream = context->streams;
        while (stream && stream->closed) stream = stream->next;
        if (!stream) {
            lock_wait(); /* for the threads to leave */
            continue;
        }
        lock_release();
        registry_remove(stream, HANDLE_STREAM);
        stream_close(stream);
        lock_take();
    }
    lock_release();
    modules_drop_context(context);
    memory_drop_context(context);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);

static CUresult push(Context *context) {
    if (depth == STACK_ROOM) return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v2(Context **context, unsigned flags, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(context && !(flags & ~(unsigned)FLAGS_ALL));
    Context *made = calloc(1, sizeof *made);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made->retained = 1;
    CUresult result = context_open(made, flags);
    if (!result && push(made)) {
        context_close(made);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result) free(made);
    else *context = made;
    return result;
}

SAME(cuCtxCreate, cuCtxCreate_v2)

EXPORT CUresult cuCtxCreate_v3(Context **context, const void *affinity, int count, unsigned flags, CUdevice device) {
    if (affinity || count) return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(context, flags, device);
}

EXPORT CUresult cuCtxCreate_v4(Context **context, const void *parameters, unsigned flags, CUdevice device) {
    if (parameters) return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(context, flags, device);
}

EXPORT CUresult cuCtxDestroy_v2(Context *context) {
    NEED(need_init());
    if (!context || context == &primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (!context_alive(context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    context_close(context);
    if (context_current() == context) depth--;
    free(context);
    return CUDA_SUCCESS;
}

SAME(cuCtxDestroy, cuCtxDestroy_v2)

EXPORT CUresult cuCtxAttach(Context **context, unsigned flags) {
    NEED(need_current());
    NEED_VALUE(context && !flags);
    *context = context_current();
    lock_count(&(*context)->retained, 1);
    return CUDA_SUCCESS;
}

/* The last one to leave ends the context; the primary one stays current. */
EXPORT CUresult cuCtxDetach(Context *context) {
    NEED(need_current());
    if (context != context_current()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context == &primary) return cuDevicePrimaryCtxRelease_v2(0);
    return lock_count(&context->retained, -1) ? CUDA_SUCCESS : cuCtxDestroy_v2(context);
}

EXPORT CUresult cuCtxPushCurrent_v2(Context *context) {
    NEED(need_init());
    return context_alive(context) ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

SAME(cuCtxPushCurrent, cuCtxPushCurrent_v2)

EXPORT CUresult cuCtxPopCurrent_v2(Context **context) {
    NEED(need_init());
    if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context) *context = stack[depth];
    return CUDA_SUCCESS;
}

SAME(cuCtxPopCurrent, cuCtxPopCurrent_v2)

EXPORT CUresult cuCtxSetCurrent(Context *context) {
    NEED(need_init());
    if (context && !context_alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth) depth--;
    return context ? push(context) : CUDA_SUCCESS;
}

/* ---- questions ---- */

ANSWER(cuCtxGetCurrent, (Context **context), need_init(), context, context_current())
ANSWER(cuCtxGetFlags, (unsigned *flags), need_current(), flags, context_current()->flags)

/* A context whose kernel failed still answers these. */
static CUresult answering(Context **context) {
    NEED(*context ? need_init() : need_current());
    if (*context && !context_alive(*context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!*context) *context = context_current();
    return CUDA_SUCCESS;
}

ANSWER(cuCtxGetDevice_v2, (CUdevice *device, Context *context), answering(&context), device, 0)
ANSWER(cuCtxGetDevice, (CUdevice *device), need_current(), device, 0)
ANSWER(cuCtxGetId, (Context *context, uint64_t *id), answering(&context), id, context->id)

EXPORT CUresult cuCtxSetFlags(unsigned flags) {
    NEED(need_current());
    NEED_VALUE(!(flags & ~(unsigned)FLAGS_ALL));
    context_current()->flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetApiVersion(Context *context, unsigned *version) {
    NEED(context ? need_init() : need_context());
    if (context && !context_alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
    NEED_VALUE(version);
    *version = 3020; /* what real drivers say for contexts made by cuCtxCreate_v2 */
    return CUDA_SUCCESS;
}

static CUresult synchronize(Context *context) {
    for (Stream *stream = context->streams; stream; stream = stream->next) NEED(capture_forbids(stream));
    return context_wait(context);
}

EXPORT CUresult cuCtxSynchronize(void) {
    NEED(need_context());
    return synchronize(context_current());
}

EXPORT CUresult cuCtxSynchronize_v2(Context *context) {
    NEED(answering(&context));
    return context->fault ? context->fault : synchronize(context);
}

EXPORT CUresult cuCtxRecordEvent(Context *context, Event *event) {
    NEED(answering(&context));
    NEED(need_event(event));
    NEED(synchronize(context));
    return event_record_now(event);
}

EXPORT CUresult cuCtxWaitEvent(Context *context, Event *event) {
    NEED(answering(&context));
    NEED(need_event(event));
    return event_wait_now(event);
}

enum { LIMIT_STACK, LIMIT_PRINTF, LIMIT_HEAP, LIMIT_SYNC_DEPTH, LIMIT_PENDING, LIMIT_L2_GRANULARITY };

EXPORT CUresult cuCtxGetLimit(size_t *value, int limit) {
    NEED(need_context());
    NEED_VALUE(value && limit >= 0 && limit < LIMITS);
    if (limit > LIMIT_L2_GRANULARITY) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = context_current()->limits[limit];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetLimit(int limit, size_t value) {
    NEED(need_context());
    NEED_VALUE(limit >= 0 && limit < LIMITS);
    if (limit > LIMIT_L2_GRANULARITY) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    NEED_VALUE(value || limit == LIMIT_STACK);
    context_current()->limits[limit] = value;
    return CUDA_SUCCESS;
}

/* How caches and banks are used is a GPU's matter: a wish is kept and has no effect. */
static int cache_wish, bank_wish;

static CUresult keep_wish(int *kept, int wish, int most) {
    NEED(need_context());
    NEED_VALUE(wish >= 0 && wish <= most);
    *kept = wish;
    return CUDA_SUCCESS;
}

ANSWER(cuCtxGetCacheConfig, (int *wish), need_context(), wish, cache_wish)
ANSWER(cuCtxGetSharedMemConfig, (int *wish), need_context(), wish, bank_wish)
EXPORT CUresult cuCtxSetCacheConfig(int wish) { return keep_wish(&cache_wish, wish, 3); }
EXPORT CUresult cuCtxSetSharedMemConfig(int wish) { return keep_wish(&bank_wish, wish, 2); }

EXPORT CUresult cuCtxResetPersistingL2Cache(void) { return need_context(); }

/* ---- peers: there is one device ---- */

EXPORT CUresult cuCtxEnablePeerAccess(Context *peer, unsigned flags) {
    NEED(need_context());
    NEED_VALUE(!flags);
    return peer == context_current() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

EXPORT CUresult cuCtxDisablePeerAccess(Context *peer) {
    NEED(need_context());
    (void)peer;
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    NEED(need_context());
    if (least) *least = 0;
    if (greatest) *greatest = 0;
    return CUDA_SUCCESS;
}

/* ---- the primary context ---- */

EXPORT CUresult cuDevicePrimaryCtxRetain(Context **context, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(context);
    if (!context_alive(&primary)) NEED(context_open(&primary, primary.flags));
    lock_count(&primary.retained, 1);
    *context = &primary;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    NEED(need_device(device));
    lock_take();
    bool held = primary.retained > 0, last = primary.retained == 1;
    if (held) primary.retained--;
    lock_release();
    if (last) context_close(&primary);
    return held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SAME(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    NEED(need_device(device));
    if (!context_alive(&primary)) return CUDA_SUCCESS;
    context_close(&primary);
    return context_open(&primary, primary.flags); /* those who retained it still hold it */
}

SAME(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2)

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    NEED(need_device(device));
    if (flags) *flags = primary.flags;
    if (active) *active = context_alive(&primary);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    NEED(need_device(device));
    NEED_VALUE(!(flags & ~(unsigned)FLAGS_ALL));
    primary.flags = flags;
    return CUDA_SUCCESS;
}

SAME(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2)
