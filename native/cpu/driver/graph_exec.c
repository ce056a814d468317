/* Graphs that can be launched, and objects that live as long as graphs do. */
#include "graph.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>

CUresult graph_run(const Graph *graph, const Context *context) {
    for (size_t i = 0; i < graph->count; i++)
        if (!graph->nodes[i]->disabled) NEED(task_run(&graph->nodes[i]->task, context));
    return CUDA_SUCCESS;
}

CUresult exec_run(GraphExec *exec, const Context *context) { return graph_run(exec->graph, context); }

void exec_release(GraphExec *exec) {
    if (lock_count(&exec->references, -1)) return;
    graph_end(exec->graph);
    free(exec);
}

static bool sort_all(Graph *graph) {
    bool sorted = graph_sort(graph);
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->task.kind == TASK_GRAPH) sorted = sorted && sort_all(graph->nodes[i]->task.graph);
    return sorted;
}

static CUresult copy_sorted(Graph *graph, Graph **copy) {
    *copy = graph_copy(graph);
    if (!*copy) return CUDA_ERROR_OUT_OF_MEMORY;
    if (sort_all(*copy)) return CUDA_SUCCESS;
    graph_end(*copy);
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphInstantiateWithFlags(GraphExec **exec, Graph *graph, unsigned long long flags) {
    NEED(need_context());
    NEED(need_graph(graph));
    NEED_VALUE(exec && flags <= 15);
    if (flags & 4) return CUDA_ERROR_NOT_SUPPORTED; /* launched by a kernel */
    GraphExec *made = calloc(1, sizeof *made);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = copy_sorted(graph, &made->graph);
    made->flags = flags;
    made->references = 1;
    if (!result && !registry_add(made, HANDLE_EXEC)) {
        graph_end(made->graph);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result) free(made);
    else *exec = made;
    return result;
}

EXPORT CUresult cuGraphInstantiate_v2(GraphExec **exec, Graph *graph, Node **error, char *log, size_t size) {
    if (error) *error = NULL;
    if (log && size) *log = '\0';
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}

SAME(cuGraphInstantiate, cuGraphInstantiate_v2)

typedef struct { /* CUDA_GRAPH_INSTANTIATE_PARAMS */
    uint64_t flags;
    Stream *stream;
    Node *error;
    int result;
} InstantiateParams;

EXPORT CUresult cuGraphInstantiateWithParams(GraphExec **exec, Graph *graph, InstantiateParams *params) {
    NEED_VALUE(params);
    params->error = NULL;
    CUresult result = cuGraphInstantiateWithFlags(exec, graph, params->flags);
    params->result = result != CUDA_SUCCESS; /* CUDA_GRAPH_INSTANTIATE_ERROR */
    return result;
}

ANSWER(cuGraphExecGetFlags, (GraphExec *exec, uint64_t *flags), need_exec(exec), flags, exec->flags)

EXPORT CUresult cuGraphExecDestroy(GraphExec *exec) {
    NEED(need_init());
    NEED_VALUE(registry_remove(exec, HANDLE_EXEC));
    exec_release(exec);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(GraphExec *exec, Stream *stream) {
    NEED(need_stream(&stream));
    NEED(need_exec(exec));
    if (stream->capture) {
        Task child = {.kind = TASK_GRAPH, .graph = graph_copy(exec->graph)};
        return child.graph ? stream_submit(stream, &child) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    lock_count(&exec->references, 1);
    Task task = {.kind = TASK_LAUNCH, .exec = exec};
    return stream_submit(stream, &task);
}

EXPORT CUresult cuGraphUpload(GraphExec *exec, Stream *stream) {
    NEED(need_exec(exec));
    return need_stream(&stream);
}

/* ---- updates: the same shape with other parameters ---- */

typedef struct { /* CUgraphExecUpdateResultInfo */
    int result;
    Node *error, *error_from;
} UpdateInfo;

enum { UPDATED, UPDATE_ERROR, TOPOLOGY_CHANGED, TYPE_CHANGED, FUNCTION_CHANGED, PARAMETERS_CHANGED, NOT_SUPPORTED_CHANGE };

static size_t place_of(const Graph *graph, const Node *node) {
    size_t i = 0;
    while (i < graph->count && graph->nodes[i] != node) i++;
    return i;
}

static bool same_needs(const Graph *one, const Graph *other, size_t i) {
    const Node *a = one->nodes[i], *b = other->nodes[i];
    bool same = a->need_count == b->need_count;
    for (size_t n = 0; n < a->need_count && same; n++) same = place_of(one, a->needs[n]) == place_of(other, b->needs[n]);
    return same;
}

static int compare(const Graph *exec, const Graph *graph, Node **error) {
    *error = NULL;
    if (exec->count != graph->count) return TOPOLOGY_CHANGED;
    for (size_t i = 0; i < graph->count; i++) {
        *error = (Node *)graph->nodes[i]->origin;
        if (exec->nodes[i]->task.kind != graph->nodes[i]->task.kind) return TYPE_CHANGED;
        if (!same_needs(exec, graph, i)) return TOPOLOGY_CHANGED;
    }
    *error = NULL;
    return UPDATED;
}

/* The nodes keep what they are copies of, so that later changes find them by the first graph's handles. */
static void take_over(Graph *exec, Graph *graph) {
    for (size_t i = 0; i < exec->count; i++) {
        Task task = exec->nodes[i]->task;
        exec->nodes[i]->task = graph->nodes[i]->task;
        graph->nodes[i]->task = task;
    }
}

EXPORT CUresult cuGraphExecUpdate_v2(GraphExec *exec, Graph *graph, UpdateInfo *info) {
    NEED(need_exec(exec));
    NEED(need_graph(graph));
    NEED_VALUE(info);
    if (context_current()) NEED(context_wait(context_current()));
    Graph *copy;
    *info = (UpdateInfo){.result = UPDATE_ERROR};
    NEED(copy_sorted(graph, &copy));
    info->result = compare(exec->graph, copy, &info->error);
    if (info->result == UPDATED) take_over(exec->graph, copy);
    graph_end(copy);
    return info->result == UPDATED ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

EXPORT CUresult cuGraphExecUpdate(GraphExec *exec, Graph *graph, Node **error, int *result) {
    UpdateInfo info;
    NEED_VALUE(result);
    CUresult updated = cuGraphExecUpdate_v2(exec, graph, &info);
    if (updated && updated != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) return updated;
    *result = info.result;
    if (error) *error = info.error;
    return updated;
}

static CUresult find_node(GraphExec *exec, const Node *origin, Node **node) {
    NEED(need_exec(exec));
    *node = graph_node_of(exec->graph, origin);
    return *node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphNodeSetEnabled(GraphExec *exec, Node *origin, unsigned enabled) {
    Node *node;
    NEED(find_node(exec, origin, &node));
    NEED_VALUE(node->task.kind <= TASK_FILL);
    if (context_current()) NEED(context_wait(context_current()));
    node->disabled = !enabled;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeGetEnabled(GraphExec *exec, Node *origin, unsigned *enabled) {
    Node *node;
    NEED(find_node(exec, origin, &node));
    NEED_VALUE(enabled && node->task.kind <= TASK_FILL);
    *enabled = !node->disabled;
    return CUDA_SUCCESS;
}

/* ---- objects of the program that a graph keeps alive ---- */

struct UserObject {
    void *object;
    HostFunction *destroy;
    unsigned references;
};

void user_object_retain(UserObject *object, unsigned count) { lock_count(&object->references, (int)count); }

void user_object_release(UserObject *object, unsigned count) {
    lock_take();
    object->references = object->references > count ? object->references - count : 0;
    bool last = !object->references;
    lock_release();
    if (!last) return;
    registry_remove(object, HANDLE_OBJECT);
    object->destroy(object->object);
    free(object);
}

static CUresult need_object(const UserObject *object, unsigned count) {
    NEED(need_init());
    return count && registry_has(object, HANDLE_OBJECT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuUserObjectCreate(UserObject **object, void *pointer, HostFunction *destroy, unsigned references, unsigned flags) {
    NEED(need_init());
    NEED_VALUE(object && destroy && references && flags == 1);
    UserObject *made = registry_new(sizeof *made, HANDLE_OBJECT);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (UserObject){pointer, destroy, references};
    *object = made;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuUserObjectRetain(UserObject *object, unsigned count) {
    NEED(need_object(object, count));
    user_object_retain(object, count);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuUserObjectRelease(UserObject *object, unsigned count) {
    NEED(need_object(object, count));
    user_object_release(object, count);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphRetainUserObject(Graph *graph, UserObject *object, unsigned count, unsigned flags) {
    NEED(need_graph(graph));
    NEED(need_object(object, count));
    UserObject **grown = realloc(graph->objects, (graph->object_count + count) * sizeof *grown);
    if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
    graph->objects = grown;
    for (unsigned i = 0; i < count; i++) grown[graph->object_count++] = object;
    if (!(flags & 1)) user_object_retain(object, count); /* 1: the caller gives its own references away */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphReleaseUserObject(Graph *graph, UserObject *object, unsigned count) {
    NEED(need_graph(graph));
    NEED(need_object(object, count));
    for (size_t i = 0; i < graph->object_count && count;) {
        if (graph->objects[i] != object) {
            i++;
            continue;
        }
        graph->objects[i] = graph->objects[--graph->object_count];
        count--;
        user_object_release(object, 1);
    }
    return count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
