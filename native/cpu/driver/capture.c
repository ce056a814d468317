/* Capturing streams: work becomes nodes of a graph instead of being done. */
#include "allocations.h"
#include "graph.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>

enum { NONE, ACTIVE, INVALIDATED }; /* CUstreamCaptureStatus */

struct Capture {
    Graph *graph;
    Stream *origin;
    uint64_t id;
    int mode;
    bool invalid, ended, own_graph;
    unsigned references; /* the origin's and events' */
    Node **loose;        /* the last nodes of streams that were destroyed meanwhile */
    size_t loose_count;
    uint64_t *edges; /* told to programs: all of them are plain, zero */
};

static _Thread_local int thread_mode; /* CU_STREAM_CAPTURE_MODE_GLOBAL is 0 */

static void release(Capture *capture) {
    if (!capture || --capture->references) return;
    free(capture->loose);
    free(capture->edges);
    free(capture);
}

static CUresult set_nodes(Node ***list, size_t *count, Node *const *nodes, size_t added, bool keep) {
    if (!keep) *count = 0;
    for (size_t i = 0; i < added; i++)
        if (!node_list_add(list, count, nodes[i])) return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult invalidate(Capture *capture, CUresult error) {
    capture->invalid = true;
    return error;
}

/* The legacy stream would have to wait for a stream that is captured. */
static CUresult implicit(const Stream *stream) {
    if (stream != stream->owner->legacy) return CUDA_SUCCESS;
    for (Stream *other = stream->owner->streams; other; other = other->next)
        if (other->capture && !(other->flags & 1)) return invalidate(other->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    return CUDA_SUCCESS;
}

CUresult capture_forbids(Stream *stream) {
    if (stream->capture) return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return implicit(stream);
}

CUresult capture_submit(Stream *stream, Task *task) {
    Capture *capture = stream->capture;
    if (!capture) {
        CUresult error = implicit(stream);
        if (error) task_end(task);
        return error ? error : CUDA_ERROR_NOT_READY;
    }
    if (capture->invalid || task->kind >= TASK_CALLBACK) {
        task_end(task);
        return capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    Node *node;
    CUresult result = graph_add(capture->graph, task, stream->nodes, stream->node_count, &node);
    if (!result) result = set_nodes(&stream->nodes, &stream->node_count, &node, 1, false);
    return result ? invalidate(capture, result) : CUDA_SUCCESS;
}

void capture_forget(Event *event) {
    release(event->capture);
    free(event->nodes);
    event->capture = NULL;
    event->nodes = NULL;
    event->node_count = 0;
}

CUresult capture_record(Stream *stream, Event *event) {
    if (!stream->capture) {
        CUresult error = implicit(stream);
        return error ? error : CUDA_ERROR_NOT_READY;
    }
    capture_forget(event);
    event->capture = stream->capture;
    event->capture->references++;
    return set_nodes(&event->nodes, &event->node_count, stream->nodes, stream->node_count, false);
}

CUresult capture_wait(Stream *stream, Event *event) {
    Capture *capture = event->capture;
    if (!capture) {
        if (stream->capture) return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        CUresult error = implicit(stream);
        return error ? error : CUDA_ERROR_NOT_READY;
    }
    NEED_VALUE(!capture->ended);
    if (stream->capture && stream->capture != capture) {
        stream->capture->invalid = true;
        return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (stream == stream->owner->legacy) return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    bool joined = stream->capture == capture;
    stream->capture = capture;
    return set_nodes(&stream->nodes, &stream->node_count, event->nodes, event->node_count, joined);
}

/* ---- beginning and ending ---- */

static CUresult begin(Stream *stream, Graph *graph, Node *const *needs, size_t count, int mode) {
    NEED(need_stream(&stream));
    NEED_VALUE(mode >= 0 && mode <= 2 && (!count || needs));
    if (stream == stream->owner->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture) return invalidate(stream->capture, CUDA_ERROR_ILLEGAL_STATE);
    Capture *capture = calloc(1, sizeof *capture);
    if (!capture) return CUDA_ERROR_OUT_OF_MEMORY;
    *capture = (Capture){.graph = graph, .origin = stream, .id = next_id(), .mode = mode, .own_graph = !graph, .references = 1};
    CUresult result = graph ? CUDA_SUCCESS : graph_new(&capture->graph);
    if (!result) result = set_nodes(&stream->nodes, &stream->node_count, needs, count, false);
    if (result) free(capture);
    else stream->capture = capture;
    return result;
}

EXPORT CUresult cuStreamBeginCapture_v2(Stream *stream, int mode) { return begin(stream, NULL, NULL, 0, mode); }
EXPORT CUresult cuStreamBeginCapture(Stream *stream) { return begin(stream, NULL, NULL, 0, 0); }

EXPORT CUresult cuStreamBeginCaptureToGraph(Stream *stream, Graph *graph, Node *const *needs, const void *edges, size_t count, int mode) {
    NEED(need_graph(graph));
    (void)edges;
    return begin(stream, graph, needs, count, mode);
}

static bool reached(const Stream *origin, const Node *node) {
    for (size_t i = 0; i < origin->node_count; i++)
        if (origin->nodes[i] == node || node_needs(origin->nodes[i], node)) return true;
    return false;
}

/* Every stream leaves; `joined` tells whether the origin waits for all that they did. */
static bool leave_all(Stream *origin) {
    Capture *capture = origin->capture;
    bool joined = true;
    for (Stream *stream = origin->owner->streams; stream; stream = stream->next) {
        if (stream->capture != capture) continue;
        for (size_t i = 0; i < stream->node_count; i++) joined = joined && reached(origin, stream->nodes[i]);
        stream->capture = NULL;
    }
    for (size_t i = 0; i < capture->loose_count; i++) joined = joined && reached(origin, capture->loose[i]);
    for (Stream *stream = origin->owner->streams; stream; stream = stream->next)
        if (!stream->capture) stream->node_count = 0;
    return joined;
}

static CUresult end(Stream *stream, Graph **graph) {
    Capture *capture = stream->capture;
    bool joined = leave_all(stream);
    CUresult result = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    capture->ended = true;
    if (result && capture->own_graph) graph_end(capture->graph);
    if (graph) *graph = result ? NULL : capture->graph;
    release(capture);
    return result;
}

EXPORT CUresult cuStreamEndCapture(Stream *stream, Graph **graph) {
    NEED(need_stream(&stream));
    NEED_VALUE(graph);
    if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->origin != stream) return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    return end(stream, graph);
}

void capture_abandon(Stream *stream) {
    Capture *capture = stream->capture;
    if (!capture) return;
    if (capture->origin != stream) {
        if (set_nodes(&capture->loose, &capture->loose_count, stream->nodes, stream->node_count, true)) capture->invalid = true;
        stream->capture = NULL;
        return;
    }
    capture->invalid = true;
    end(stream, NULL);
}

/* ---- asking ---- */

EXPORT CUresult cuStreamGetCaptureInfo_v2(Stream *stream, int *status, uint64_t *id, Graph **graph, Node *const **needs, size_t *count) {
    NEED(need_stream(&stream));
    NEED_VALUE(status);
    const Capture *capture = stream->capture;
    if (!capture) NEED(implicit(stream));
    *status = !capture ? NONE : capture->invalid ? INVALIDATED : ACTIVE;
    if (!capture) return CUDA_SUCCESS;
    if (id) *id = capture->id;
    if (graph) *graph = capture->graph;
    if (needs) *needs = stream->nodes;
    if (count) *count = stream->node_count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCaptureInfo(Stream *stream, int *status, uint64_t *id) {
    return cuStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(Stream *stream, int *status, uint64_t *id, Graph **graph, Node *const **needs,
                                          const void **edges, size_t *count) {
    NEED(cuStreamGetCaptureInfo_v2(stream, status, id, graph, needs, count));
    if (edges) *edges = NULL;
    if (*status == NONE || !edges) return CUDA_SUCCESS;
    NEED(need_stream(&stream));
    Capture *capture = stream->capture;
    free(capture->edges);
    *edges = capture->edges = calloc(stream->node_count + 1, sizeof *capture->edges);
    return capture->edges ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuStreamIsCapturing(Stream *stream, int *status) { return cuStreamGetCaptureInfo(stream, status, NULL); }

EXPORT CUresult cuStreamUpdateCaptureDependencies(Stream *stream, Node *const *needs, size_t count, unsigned flags) {
    NEED(need_stream(&stream));
    NEED_VALUE(flags <= 1 && (!count || needs));
    if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    for (size_t i = 0; i < count; i++) NEED(need_node(needs[i]));
    return set_nodes(&stream->nodes, &stream->node_count, needs, count, flags == 0); /* 0 adds, 1 sets */
}

EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(Stream *stream, Node *const *needs, const void *edges, size_t count, unsigned flags) {
    (void)edges;
    return cuStreamUpdateCaptureDependencies(stream, needs, count, flags);
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
    NEED(need_init());
    NEED_VALUE(mode && *mode >= 0 && *mode <= 2);
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
