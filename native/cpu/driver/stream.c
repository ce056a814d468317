/* Streams and events. Every call has finished its work when it returns, which CUDA allows. */
#include "driver.h"

#include <stdlib.h>

struct Stream {
    unsigned flags;
    int priority;
    const Context *owner;
};

struct Event {
    unsigned flags;
    uint64_t recorded; /* nanoseconds; 0 = never */
};

enum { STREAM_NON_BLOCKING = 1, EVENT_DISABLE_TIMING = 2, EVENT_FLAGS_ALL = 7 };

/* 0, 1 and 2 name the default, the legacy and the per-thread stream. */
CUresult need_stream(const Stream *stream) {
    CUresult result = need_context();
    if (result || (uintptr_t)stream <= 2) return result;
    return registry_has(stream, HANDLE_STREAM) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult need_event(const Event *event) {
    CUresult result = need_context();
    if (result) return result;
    return registry_has(event, HANDLE_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
    CUresult result = need_context();
    if (result) return result;
    if (!stream || flags > STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    Stream *made = calloc(1, sizeof *made);
    if (!made || !registry_add(made, HANDLE_STREAM)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (void)priority; /* clamped to the only one there is, as CUDA clamps */
    made->flags = flags;
    made->owner = context_current();
    *stream = made;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(Stream **stream, unsigned flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

EXPORT CUresult cuStreamDestroy_v2(Stream *stream) {
    CUresult result = need_init();
    if (result) return result;
    if (!registry_remove(stream, HANDLE_STREAM)) return CUDA_ERROR_INVALID_HANDLE;
    free(stream);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy(Stream *stream) { return cuStreamDestroy_v2(stream); }
EXPORT CUresult cuStreamSynchronize(Stream *stream) { return need_stream(stream); }
EXPORT CUresult cuStreamQuery(Stream *stream) { return need_stream(stream); }

static bool made_by_program(const Stream *stream) { return (uintptr_t)stream > 2; }

EXPORT CUresult cuStreamGetFlags(Stream *stream, unsigned *flags) {
    CUresult result = need_stream(stream);
    if (result) return result;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = made_by_program(stream) ? stream->flags : 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetPriority(Stream *stream, int *priority) {
    CUresult result = need_stream(stream);
    if (result) return result;
    if (!priority) return CUDA_ERROR_INVALID_VALUE;
    *priority = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCtx(Stream *stream, const Context **context) {
    CUresult result = need_stream(stream);
    if (result) return result;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = made_by_program(stream) ? stream->owner : context_current();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(Stream *stream, int *status) {
    CUresult result = need_stream(stream);
    if (result) return result;
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    *status = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
    CUresult result = need_stream(stream);
    if (!result) result = need_event(event);
    if (result) return result;
    return flags <= 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuLaunchHostFunc(Stream *stream, void (*function)(void *), void *data) {
    CUresult result = need_stream(stream);
    if (result) return result;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    function(data);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamAddCallback(Stream *stream, void (*function)(Stream *, CUresult, void *), void *data,
                                    unsigned flags) {
    CUresult result = need_stream(stream);
    if (result) return result;
    if (!function || flags) return CUDA_ERROR_INVALID_VALUE;
    function(stream, CUDA_SUCCESS, data);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(Event **event, unsigned flags) {
    CUresult result = need_context();
    if (result) return result;
    if (!event || flags > EVENT_FLAGS_ALL) return CUDA_ERROR_INVALID_VALUE;
    Event *made = calloc(1, sizeof *made);
    if (!made || !registry_add(made, HANDLE_EVENT)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->flags = flags;
    *event = made;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(Event *event) {
    CUresult result = need_init();
    if (result) return result;
    if (!registry_remove(event, HANDLE_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    free(event);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy(Event *event) { return cuEventDestroy_v2(event); }

EXPORT CUresult cuEventRecord(Event *event, Stream *stream) {
    CUresult result = need_event(event);
    if (!result) result = need_stream(stream);
    if (!result) event->recorded = host_nanoseconds();
    return result;
}

EXPORT CUresult cuEventRecordWithFlags(Event *event, Stream *stream, unsigned flags) {
    return flags <= 1 ? cuEventRecord(event, stream) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuEventQuery(Event *event) { return need_event(event); }
EXPORT CUresult cuEventSynchronize(Event *event) { return need_event(event); }

EXPORT CUresult cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
    CUresult result = need_event(start);
    if (!result) result = need_event(end);
    if (result) return result;
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    if ((start->flags | end->flags) & EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
    if (!start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)((double)(int64_t)(end->recorded - start->recorded) * 1e-6);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, Event *start, Event *end) {
    return cuEventElapsedTime(milliseconds, start, end);
}
