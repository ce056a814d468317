/* Events: marks in streams. */
#include "queue.h"

#include <stdlib.h>

enum { EVENT_DISABLE_TIMING = 2, EVENT_INTERPROCESS = 4, EVENT_FLAGS_ALL = 7 };

NEED_HANDLE(need_event, Event, HANDLE_EVENT, need_owner(NULL), CUDA_ERROR_INVALID_HANDLE)

EXPORT CUresult cuEventCreate(Event **event, unsigned flags) {
    NEED(need_context());
    NEED_VALUE(event && flags <= EVENT_FLAGS_ALL);
    if (flags & EVENT_INTERPROCESS) return flags & EVENT_DISABLE_TIMING ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    Event *made = registry_new(sizeof *made, HANDLE_EVENT);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made->flags = flags;
    *event = made;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(Event *event) {
    NEED(need_init());
    if (!registry_remove(event, HANDLE_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    capture_forget(event);
    work_release(event->work);
    free(event);
    return CUDA_SUCCESS;
}

SAME(cuEventDestroy, cuEventDestroy_v2)

/* Takes `work` over. */
static void event_set(Event *event, Work *work) {
    lock_take();
    Work *before = event->work;
    event->work = work;
    lock_release();
    work_release(before);
}

CUresult event_record_now(Event *event) {
    if (!registry_has(event, HANDLE_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    Work *done = calloc(1, sizeof *done);
    if (!done) return CUDA_ERROR_OUT_OF_MEMORY;
    *done = (Work){.done = true, .references = 1, .finished = host_nanoseconds()};
    event_set(event, done);
    return CUDA_SUCCESS;
}

CUresult event_wait_now(Event *event) {
    if (!registry_has(event, HANDLE_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    lock_take();
    Work *work = event->work;
    if (work) work->references++;
    while (work && !work->done) lock_wait();
    lock_release();
    work_release(work);
    return CUDA_SUCCESS;
}

static CUresult record(Event *event, Stream *stream, bool external) {
    NEED(need_stream(&stream));
    NEED(need_event(event));
    CUresult result = external ? CUDA_ERROR_NOT_READY : capture_record(stream, event);
    if (result != CUDA_ERROR_NOT_READY) return result;
    if (external && stream->capture) {
        Task task = {.kind = TASK_RECORD, .event = event};
        return stream_submit(stream, &task);
    }
    Task nothing = {.kind = TASK_EMPTY};
    Work *work;
    NEED(stream_enqueue(stream, &nothing, NULL, 0, &work));
    capture_forget(event);
    event_set(event, work);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(Event *event, Stream *stream) { return record(event, stream, false); }

EXPORT CUresult cuEventRecordWithFlags(Event *event, Stream *stream, unsigned flags) {
    NEED_VALUE(flags <= 1);
    return record(event, stream, flags == 1);
}

EXPORT CUresult cuEventQuery(Event *event) {
    NEED(need_event(event));
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    lock_take();
    bool done = !event->work || event->work->done;
    lock_release();
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuEventSynchronize(Event *event) {
    NEED(need_event(event));
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    NEED(event_wait_now(event));
    return need_owner(NULL);
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
    NEED(need_event(start));
    NEED(need_event(end));
    NEED_VALUE(milliseconds);
    if ((start->flags | end->flags) & EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
    lock_take();
    bool recorded = start->work && end->work;
    bool done = recorded && start->work->done && end->work->done;
    int64_t passed = done ? (int64_t)(end->work->finished - start->work->finished) : 0;
    lock_release();
    if (done) *milliseconds = (float)((double)passed * 1e-6);
    return done ? CUDA_SUCCESS : recorded ? CUDA_ERROR_NOT_READY : CUDA_ERROR_INVALID_HANDLE;
}

SAME(cuEventElapsedTime_v2, cuEventElapsedTime)
