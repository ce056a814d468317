/* Queues of work: who waits for whom, and the thread that works one off. */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

enum { STREAM_NON_BLOCKING = 1 };

static _Thread_local char this_thread; /* its address tells threads apart */
static _Thread_local bool default_is_own;

/* ---- work; everything here with the lock held ---- */

static void release(Work *work);

static void forget_waits(Work *work) {
    for (size_t i = 0; i < work->wait_count; i++) release(work->waits[i]);
    free(work->waits);
    work->waits = NULL;
    work->wait_count = 0;
}

static void release(Work *work) {
    if (!work || --work->references) return;
    forget_waits(work);
    free(work);
}

void work_release(Work *work) {
    lock_take();
    release(work);
    lock_release();
}

static bool blocking(const Stream *stream) {
    return stream != stream->owner->legacy && !(stream->flags & STREAM_NON_BLOCKING);
}

/* The legacy stream and every blocking one wait for each other. */
static bool related(const Stream *one, const Stream *other) {
    const Stream *legacy = one->owner->legacy;
    return (one == legacy && blocking(other)) || (other == legacy && blocking(one));
}

static bool pending(const Work *work) { return work && !work->done; }

typedef struct {
    Work **items;
    size_t used, room;
} WorkList;

static bool list_add(WorkList *list, Work *work) {
    if (!pending(work)) return true;
    if (list->used == list->room) {
        size_t room = list->room ? 2 * list->room : 4;
        Work **grown = realloc(list->items, room * sizeof *grown);
        if (!grown) return false;
        list->items = grown;
        list->room = room;
    }
    work->references++;
    list->items[list->used++] = work;
    return true;
}

static bool list_add_related(WorkList *list, const Stream *stream) {
    bool fits = true;
    for (Stream *other = stream->owner->streams; other; other = other->next)
        if (other != stream && related(stream, other)) fits &= list_add(list, other->tail);
    return fits;
}

static void list_end(WorkList *list) {
    for (size_t i = 0; i < list->used; i++) release(list->items[i]);
    free(list->items);
}

static void list_wait(WorkList *list) {
    for (size_t i = 0; i < list->used; i++)
        while (!list->items[i]->done) lock_wait();
}

/* ---- the thread of a stream ---- */

static bool ready(const Work *work) {
    for (size_t i = 0; i < work->wait_count; i++)
        if (!work->waits[i]->done) return false;
    return true;
}

static void unlink_stream(Stream *stream) {
    Stream **place = &stream->owner->streams;
    while (*place != stream) place = &(*place)->next;
    *place = stream->next;
    release(stream->tail);
    free(stream->nodes);
    free(stream);
}

static void finish(Work *work, CUresult result) {
    if (result && !work->context->fault) work->context->fault = result;
    work->finished = host_nanoseconds();
    work->done = true;
    forget_waits(work);
    release(work);
    lock_announce();
}

static void work_off(void *argument) {
    Stream *stream = argument;
    lock_take();
    for (;;) {
        while (!stream->first && !stream->closed) lock_wait();
        Work *work = stream->first;
        if (!work) break;
        while (!ready(work)) lock_wait();
        stream->first = work->next;
        if (!stream->first) stream->last = NULL;
        lock_release();
        CUresult result = task_run(&work->task, work->context);
        task_end(&work->task);
        lock_take();
        finish(work, result);
    }
    unlink_stream(stream);
    lock_announce();
    lock_release();
}

/* ---- streams ---- */

CUresult stream_new(Context *context, unsigned flags, const void *thread, Stream **stream) {
    Stream *made = calloc(1, sizeof *made);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (Stream){.flags = flags, .owner = context, .thread = thread, .id = next_id()};
    lock_take();
    made->next = context->streams;
    context->streams = made;
    lock_release();
    *stream = made;
    return CUDA_SUCCESS;
}

void stream_close(Stream *stream) {
    lock_take();
    stream->closed = true;
    if (stream->worker) lock_announce();
    else unlink_stream(stream);
    lock_release();
}

static CUresult own_stream(Context *context, Stream **stream) {
    lock_take();
    Stream *mine = context->streams;
    while (mine && mine->thread != &this_thread) mine = mine->next;
    lock_release();
    *stream = mine;
    return mine ? CUDA_SUCCESS : stream_new(context, 0, &this_thread, stream);
}

void stream_default(bool own) { default_is_own = own; }

CUresult need_stream(Stream **stream) {
    const Stream *handle = *stream;
    if (registry_has(handle, HANDLE_STREAM)) return need_owner(handle->owner);
    NEED(need_context());
    Context *context = context_current();
    if (handle == STREAM_PER_THREAD || (!handle && default_is_own)) return own_stream(context, stream);
    *stream = context->legacy;
    return !handle || handle == STREAM_LEGACY ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static bool start_worker(Stream *stream) {
    if (!stream->worker) stream->worker = host_thread(work_off, stream);
    return stream->worker;
}

static void append(Stream *stream, Work *work) {
    release(stream->tail);
    stream->tail = work;
    if (stream->last) stream->last->next = work;
    else stream->first = work;
    stream->last = work;
    lock_announce();
}

CUresult stream_enqueue(Stream *stream, Task *task, Work *const *waits, size_t count, Work **made) {
    Work *work = calloc(1, sizeof *work);
    WorkList list = {0};
    lock_take();
    bool fits = work && list_add_related(&list, stream);
    for (size_t i = 0; i < count; i++) fits = fits && list_add(&list, waits[i]);
    if (!fits || !start_worker(stream)) {
        list_end(&list);
        lock_release();
        free(work);
        task_end(task);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *work = (Work){.task = *task, .context = stream->owner, .waits = list.items, .wait_count = list.used,
                   .references = made ? 3 : 2}; /* the thread's, the tail's, the caller's */
    append(stream, work);
    lock_release();
    if (made) *made = work;
    return CUDA_SUCCESS;
}

CUresult stream_submit(Stream *stream, Task *task) {
    CUresult result = capture_submit(stream, task);
    if (result != CUDA_ERROR_NOT_READY) return result; /* it went into a capture */
    return stream_enqueue(stream, task, NULL, 0, NULL);
}

CUresult stream_wait(Stream *stream) {
    WorkList list = {0};
    lock_take();
    bool fits = list_add(&list, stream->tail) && list_add_related(&list, stream);
    if (fits) list_wait(&list);
    list_end(&list);
    CUresult fault = stream->owner->fault;
    lock_release();
    return fits ? fault : CUDA_ERROR_OUT_OF_MEMORY;
}

bool stream_idle(Stream *stream) {
    WorkList list = {0};
    lock_take();
    bool known = list_add(&list, stream->tail) && (stream != stream->owner->legacy || list_add_related(&list, stream));
    bool idle = known && !list.used;
    list_end(&list);
    lock_release();
    return idle;
}

CUresult context_wait(Context *context) {
    WorkList list = {0};
    lock_take();
    bool fits = true;
    for (Stream *stream = context->streams; stream; stream = stream->next) fits &= list_add(&list, stream->tail);
    if (fits) list_wait(&list);
    list_end(&list);
    CUresult fault = context->fault;
    lock_release();
    return fits ? fault : CUDA_ERROR_OUT_OF_MEMORY;
}
