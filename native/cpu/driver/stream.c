/* Streams as programs see them. */
#include "allocations.h"
#include "queue.h"

#include <stdlib.h>

enum { STREAM_NON_BLOCKING = 1, CAPTURE_ACTIVE = 1, ATTRIBUTE_PRIORITY = 8 };

EXPORT CUresult cuStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
    NEED(need_context());
    NEED_VALUE(stream && flags <= STREAM_NON_BLOCKING);
    Stream *made;
    NEED(stream_new(context_current(), flags, NULL, &made));
    if (!registry_add(made, HANDLE_STREAM)) {
        stream_close(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (void)priority; /* clamped to the only one there is, as CUDA clamps */
    *stream = made;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(Stream **stream, unsigned flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

/* Returns at once; what is still in the stream is done all the same. */
EXPORT CUresult cuStreamDestroy_v2(Stream *stream) {
    NEED(need_init());
    if (!registry_remove(stream, HANDLE_STREAM)) return CUDA_ERROR_INVALID_HANDLE;
    capture_abandon(stream);
    stream_close(stream);
    return CUDA_SUCCESS;
}

SAME(cuStreamDestroy, cuStreamDestroy_v2)

EXPORT CUresult cuStreamSynchronize(Stream *stream) {
    NEED(need_stream(&stream));
    NEED(capture_forbids(stream));
    return stream_wait(stream);
}

EXPORT CUresult cuStreamQuery(Stream *stream) {
    NEED(need_stream(&stream));
    NEED(capture_forbids(stream));
    return stream_idle(stream) ? stream->owner->fault : CUDA_ERROR_NOT_READY;
}

#define STREAM_ANSWER(name, Type, answer) ANSWER(name, (Stream *stream, Type *value), need_stream(&stream), value, answer)

STREAM_ANSWER(cuStreamGetFlags, unsigned, stream->flags)
STREAM_ANSWER(cuStreamGetPriority, int, stream->priority)
STREAM_ANSWER(cuStreamGetCtx, Context *, stream->owner)
STREAM_ANSWER(cuStreamGetId, uint64_t, stream->id)
STREAM_ANSWER(cuStreamGetDevice, CUdevice, 0)

EXPORT CUresult cuStreamGetCtx_v2(Stream *stream, Context **context, void **green) {
    if (green) *green = NULL;
    return cuStreamGetCtx(stream, context);
}

/* Of a stream's attributes only the priority means something here; it is always 0. */
EXPORT CUresult cuStreamGetAttribute(Stream *stream, int attribute, int *value) {
    if (attribute != ATTRIBUTE_PRIORITY) return CUDA_ERROR_NOT_SUPPORTED;
    return cuStreamGetPriority(stream, value);
}

EXPORT CUresult cuStreamSetAttribute(Stream *stream, int attribute, const void *value) {
    NEED(need_stream(&stream));
    NEED_VALUE(value);
    return attribute == ATTRIBUTE_PRIORITY ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

EXPORT CUresult cuStreamCopyAttributes(Stream *to, Stream *from) {
    NEED(need_stream(&to));
    return need_stream(&from);
}

EXPORT CUresult cuStreamAttachMemAsync(Stream *stream, CUdeviceptr pointer, size_t size, unsigned flags) {
    (void)size;
    NEED(need_stream(&stream));
    NEED_VALUE(pointer && (flags == 1 || flags == 2 || flags == 4));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
    NEED(need_stream(&stream));
    NEED(need_event(event));
    NEED_VALUE(flags <= 1);
    CUresult result = capture_wait(stream, event);
    if (result != CUDA_ERROR_NOT_READY) return result;
    Task nothing = {.kind = TASK_EMPTY};
    lock_take();
    Work *work = event->work;
    if (work) work->references++;
    lock_release();
    if (!work) return CUDA_SUCCESS;
    result = stream_enqueue(stream, &nothing, &work, 1, NULL);
    work_release(work);
    return result;
}

EXPORT CUresult cuLaunchHostFunc(Stream *stream, HostFunction *function, void *data) {
    NEED(need_stream(&stream));
    NEED_VALUE(function);
    Task task = {.kind = TASK_HOST, .host = {function, data}};
    return stream_submit(stream, &task);
}

EXPORT CUresult cuStreamAddCallback(Stream *handle, StreamCallback *function, void *data, unsigned flags) {
    Stream *stream = handle;
    NEED(need_stream(&stream));
    NEED_VALUE(function && !flags);
    NEED(capture_forbids(stream));
    Task task = {.kind = TASK_CALLBACK, .callback = {function, stream->thread ? STREAM_PER_THREAD : handle, data}};
    return stream_enqueue(stream, &task, NULL, 0, NULL);
}

/* ---- values in memory: GEQ, EQ, AND, NOR when waiting ---- */

static CUresult value_op(Stream *stream, CUdeviceptr address, uint64_t value, unsigned bytes, unsigned flags, bool wait) {
    NEED(need_stream(&stream));
    NEED_VALUE(address && address % bytes == 0 && memory_reachable((uintptr_t)address, bytes));
    if (flags > (wait ? 3u : 1u)) return CUDA_ERROR_NOT_SUPPORTED;
    Task task = {.kind = TASK_VALUE, .value = {(void *)(uintptr_t)address, value, bytes, flags, wait}};
    return stream_submit(stream, &task);
}

#define VALUE_OP(name, Type, wait)                                                          \
    EXPORT CUresult name(Stream *stream, CUdeviceptr address, Type value, unsigned flags) { \
        return value_op(stream, address, value, sizeof value, flags, wait);                 \
    }

VALUE_OP(cuStreamWaitValue32_v2, uint32_t, true)
VALUE_OP(cuStreamWaitValue64_v2, uint64_t, true)
VALUE_OP(cuStreamWriteValue32_v2, uint32_t, false)
VALUE_OP(cuStreamWriteValue64_v2, uint64_t, false)
