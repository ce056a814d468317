/* The kinds of nodes: made, asked and changed, in a graph or in one that was instantiated. */
#include "allocations.h"
#include "graph.h"
#include "module.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>

/* ---- parameters into a task ---- */

static CUresult make_kernel(Task *task, const KernelParams *params) {
    task->kind = TASK_KERNEL;
    NEED_VALUE(params);
    NEED(launch_make(&task->launch, params));
    CUresult result = launch_check(&task->launch);
    if (result) task_end(task);
    return result;
}

/* Version 1 of a kernel's parameters ends before the kernel and the context. */
static CUresult make_older_kernel(Task *task, const KernelParams *params) {
    KernelParams whole = {0};
    if (params) memcpy(&whole, params, offsetof(KernelParams, kernel));
    return make_kernel(task, params ? &whole : NULL);
}

static CUresult make_copy(Task *task, const Copy3D *params) {
    NEED_VALUE(params);
    *task = (Task){.kind = TASK_COPY, .copy = *params};
    return copy_check(params);
}

static CUresult make_fill(Task *task, const Fill *params) {
    NEED_VALUE(params);
    *task = (Task){.kind = TASK_FILL, .fill = *params};
    return fill_check(params);
}

static CUresult make_host(Task *task, const HostCall *params) {
    NEED_VALUE(params && params->function);
    *task = (Task){.kind = TASK_HOST, .host = *params};
    return CUDA_SUCCESS;
}

static CUresult make_child(Task *task, const Graph *child) {
    NEED(need_graph(child));
    *task = (Task){.kind = TASK_GRAPH, .graph = graph_copy(child)};
    return task->graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult make_sorted_child(Task *task, const Graph *child) {
    NEED(make_child(task, child));
    if (graph_sort(task->graph)) return CUDA_SUCCESS;
    task_end(task);
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult make_event(Task *task, TaskKind kind, Event *event) {
    NEED(need_event(event));
    *task = (Task){.kind = kind, .event = event};
    return CUDA_SUCCESS;
}

/* The address must be known now, so the memory is there from now on. */
static CUresult make_alloc(Task *task, AllocParams *params) {
    NEED(need_context());
    NEED_VALUE(params && params->size);
    uintptr_t base;
    NEED(block_new(&base, params->size, BLOCK_GRAPH, 1, NULL, context_current()));
    params->pointer = base;
    *task = (Task){.kind = TASK_ALLOC, .alloc = *params};
    return CUDA_SUCCESS;
}

static CUresult make_free(Task *task, CUdeviceptr pointer) {
    Block block;
    NEED_VALUE(block_at((uintptr_t)pointer, &block) && block.base == pointer);
    *task = (Task){.kind = TASK_FREE, .freed = pointer};
    return CUDA_SUCCESS;
}

static CUresult make_any(Task *task, NodeParams *params) {
    NEED_VALUE(params);
    switch (params->type) {
    case TASK_KERNEL: return make_kernel(task, &params->kernel);
    case TASK_COPY: return make_copy(task, &params->copy.copy);
    case TASK_FILL: return make_fill(task, &params->fill);
    case TASK_HOST: return make_host(task, &params->host);
    case TASK_GRAPH: return make_child(task, params->child.graph);
    case TASK_EMPTY: *task = (Task){.kind = TASK_EMPTY}; return CUDA_SUCCESS;
    case TASK_WAIT: case TASK_RECORD: return make_event(task, (TaskKind)params->type, params->event);
    case TASK_ALLOC: return make_alloc(task, &params->alloc);
    case TASK_FREE: return make_free(task, params->freed);
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* ---- adding and changing ---- */

static CUresult add(Node **node, Graph *graph, Node *const *needs, size_t count, CUresult made, Task *task) {
    if (made) return made;
    CUresult result = need_graph(graph);
    if (!result && node) return graph_add(graph, task, needs, count, node);
    task_end(task);
    return result ? result : CUDA_ERROR_INVALID_VALUE;
}

/* Takes `task` over. */
static CUresult change(Node *node, CUresult made, Task *task) {
    if (made) return made;
    CUresult result = !node || node->task.kind != task->kind ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (result) {
        task_end(task);
        return result;
    }
    task_end(&node->task);
    node->task = *task;
    return CUDA_SUCCESS;
}

/* Launches that were asked for before keep the old parameters: they are let through first. */
static CUresult change_exec(GraphExec *exec, const Node *origin, CUresult made, Task *task) {
    if (made) return made;
    CUresult result = need_exec(exec);
    if (!result && context_current()) result = context_wait(context_current());
    if (!result) return change(graph_node_of(exec->graph, origin), CUDA_SUCCESS, task);
    task_end(task);
    return result;
}

static CUresult change_node(Node *node, CUresult made, Task *task) {
    return change(need_node(node) ? NULL : node, made, task);
}

#define NODE Node **node, Graph *graph, Node *const *needs, size_t count

#define ADD_NODE(name, Params, make)                                \
    EXPORT CUresult name(NODE, Params params) {                     \
        Task task;                                                  \
        CUresult made = make;                                       \
        return add(node, graph, needs, count, made, &task);         \
    }
#define SET_NODE(name, Params, make)                                \
    EXPORT CUresult name(Node *node, Params params) {               \
        Task task;                                                  \
        CUresult made = make;                                       \
        return change_node(node, made, &task);                      \
    }
#define SET_EXEC_NODE(name, Params, make)                           \
    EXPORT CUresult name(GraphExec *exec, Node *node, Params params) { \
        Task task;                                                  \
        CUresult made = make;                                       \
        return change_exec(exec, node, made, &task);                \
    }
#define NODE_KIND(add_name, set_name, exec_name, Params, make) \
    ADD_NODE(add_name, Params, make)                           \
    SET_NODE(set_name, Params, make)                           \
    SET_EXEC_NODE(exec_name, Params, make)

EXPORT CUresult cuGraphAddEmptyNode(NODE) {
    Task task = {.kind = TASK_EMPTY};
    return add(node, graph, needs, count, CUDA_SUCCESS, &task);
}

NODE_KIND(cuGraphAddNode, cuGraphNodeSetParams, cuGraphExecNodeSetParams, NodeParams *, make_any(&task, params))
NODE_KIND(cuGraphAddKernelNode_v2, cuGraphKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams_v2, const KernelParams *,
          make_kernel(&task, params))
NODE_KIND(cuGraphAddKernelNode, cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams, const KernelParams *,
          make_older_kernel(&task, params))
/* A context at the end does no harm: callers clean up their own arguments. */
NODE_KIND(cuGraphAddMemcpyNode, cuGraphMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, const Copy3D *, make_copy(&task, params))
NODE_KIND(cuGraphAddMemsetNode, cuGraphMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, const Fill *, make_fill(&task, params))
NODE_KIND(cuGraphAddHostNode, cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams, const HostCall *, make_host(&task, params))
NODE_KIND(cuGraphAddEventRecordNode, cuGraphEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, Event *,
          make_event(&task, TASK_RECORD, params))
NODE_KIND(cuGraphAddEventWaitNode, cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, Event *,
          make_event(&task, TASK_WAIT, params))
ADD_NODE(cuGraphAddChildGraphNode, Graph *, make_child(&task, params))
SET_EXEC_NODE(cuGraphExecChildGraphNodeSetParams, Graph *, make_sorted_child(&task, params))
ADD_NODE(cuGraphAddMemAllocNode, AllocParams *, make_alloc(&task, params))
ADD_NODE(cuGraphAddMemFreeNode, CUdeviceptr, make_free(&task, params))

EXPORT CUresult cuGraphAddNode_v2(Node **node, Graph *graph, Node *const *needs, const void *edges, size_t count, NodeParams *params) {
    (void)edges;
    return cuGraphAddNode(node, graph, needs, count, params);
}

/* ---- asking ---- */

static CUresult need_kind(const Node *node, TaskKind kind) {
    NEED(need_node(node));
    NEED_VALUE(node->task.kind == kind);
    return CUDA_SUCCESS;
}

#define NODE_ANSWER(name, kind, Type, answer) ANSWER(name, (Node *node, Type *value), need_kind(node, kind), value, answer)

NODE_ANSWER(cuGraphMemcpyNodeGetParams, TASK_COPY, Copy3D, node->task.copy)
NODE_ANSWER(cuGraphMemsetNodeGetParams, TASK_FILL, Fill, node->task.fill)
NODE_ANSWER(cuGraphHostNodeGetParams, TASK_HOST, HostCall, node->task.host)
NODE_ANSWER(cuGraphChildGraphNodeGetGraph, TASK_GRAPH, Graph *, node->task.graph)
NODE_ANSWER(cuGraphEventRecordNodeGetEvent, TASK_RECORD, Event *, node->task.event)
NODE_ANSWER(cuGraphEventWaitNodeGetEvent, TASK_WAIT, Event *, node->task.event)
NODE_ANSWER(cuGraphMemAllocNodeGetParams, TASK_ALLOC, AllocParams, node->task.alloc)
NODE_ANSWER(cuGraphMemFreeNodeGetParams, TASK_FREE, CUdeviceptr, node->task.freed)

static KernelParams kernel_params(const Launch *launch) {
    KernelParams params = {.function = launch->function, .shared = (unsigned)launch->shared, .arguments = launch->pointers};
    memcpy(params.grid, launch->grid, sizeof params.grid);
    memcpy(params.block, launch->block, sizeof params.block);
    return params;
}

NODE_ANSWER(cuGraphKernelNodeGetParams_v2, TASK_KERNEL, KernelParams, kernel_params(&node->task.launch))

EXPORT CUresult cuGraphKernelNodeGetParams(Node *node, KernelParams *value) {
    KernelParams whole;
    NEED_VALUE(value);
    NEED(cuGraphKernelNodeGetParams_v2(node, &whole));
    memcpy(value, &whole, offsetof(KernelParams, kernel));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeSetAttribute(Node *node, int attribute, const void *value) {
    NEED(need_kind(node, TASK_KERNEL));
    NEED_VALUE(value);
    LaunchAttribute wish = {.id = attribute};
    memcpy(&wish.value, value, sizeof wish.value);
    return launch_attributes(&node->task.launch, &wish, 1);
}

EXPORT CUresult cuGraphKernelNodeGetAttribute(Node *node, int attribute, void *value) {
    NEED(need_kind(node, TASK_KERNEL));
    NEED_VALUE(value);
    const Launch *launch = &node->task.launch;
    memset(value, 0, sizeof((LaunchAttribute *)0)->value);
    switch (attribute) {
    case 2: *(int *)value = launch->cooperative; return CUDA_SUCCESS;
    case 4: memcpy(value, launch->cluster, sizeof launch->cluster); return CUDA_SUCCESS;
    case 8: *(int *)value = launch->priority; return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

EXPORT CUresult cuGraphKernelNodeCopyAttributes(Node *to, Node *from) {
    NEED(need_kind(to, TASK_KERNEL));
    NEED(need_kind(from, TASK_KERNEL));
    to->task.launch.cooperative = from->task.launch.cooperative;
    to->task.launch.priority = from->task.launch.priority;
    memcpy(to->task.launch.cluster, from->task.launch.cluster, sizeof to->task.launch.cluster);
    return CUDA_SUCCESS;
}
