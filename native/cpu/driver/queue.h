/* Streams: queues of work, each with a thread of its own once it has work. */
#ifndef CPU_DRIVER_QUEUE_H
#define CPU_DRIVER_QUEUE_H

#include "task.h"

typedef struct Work Work;

struct Work {
    Task task;
    Context *context;
    Work *next;
    Work **waits; /* what must be done before */
    size_t wait_count;
    unsigned references;
    bool done;
    uint64_t finished; /* nanoseconds */
};

typedef struct Capture Capture;

struct Stream {
    unsigned flags;
    int priority;
    uint64_t id;
    Context *owner;
    const void *thread; /* whose per-thread stream this is; NULL = no thread's */
    Stream *next;       /* of the same context */
    Work *first, *last; /* not started yet */
    Work *tail;         /* the latest, held */
    bool worker, closed;
    Capture *capture; /* while one is going on */
    Node **nodes;     /* of the capture: what the next one waits for */
    size_t node_count;
};

struct Event {
    unsigned flags;
    Work *work; /* held; NULL = never recorded */
    Capture *capture; /* it was recorded in; held */
    Node **nodes;     /* what a stream that waits depends on */
    size_t node_count;
};

/* `NULL`, 1 and 2 become the stream of the current context that they name; the stream's context is usable. */
CUresult need_stream(Stream **stream);
void stream_default(bool own); /* what `NULL` names in this thread: its own stream, or the legacy one */
CUresult need_event(const Event *event);
CUresult stream_new(Context *context, unsigned flags, const void *thread, Stream **stream);
void stream_close(Stream *stream); /* after its work */

/* Put work at the end of a stream or into its capture. The task is taken over, also on an error. */
CUresult stream_submit(Stream *stream, Task *task);
CUresult stream_enqueue(Stream *stream, Task *task, Work *const *waits, size_t count, Work **made);
CUresult stream_wait(Stream *stream); /* for all that was put into it */
bool stream_idle(Stream *stream);
void work_release(Work *work);

/* Captures. NOT_READY from one of the first three means: there is none, go on without. */
CUresult capture_submit(Stream *stream, Task *task);
CUresult capture_record(Stream *stream, Event *event);
CUresult capture_wait(Stream *stream, Event *event);
CUresult capture_forbids(Stream *stream); /* the error of a call that would have to wait for the stream */
void capture_forget(Event *event);
void capture_abandon(Stream *stream); /* before it is destroyed: its capture goes on without it, or ends with its origin */

#endif
