/* Tasks: copied into graphs, run by the threads of streams. */
#include "task.h"
#include "allocations.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local bool in_host_function;

bool task_in_host_function(void) { return in_host_function; }

static CUresult launch_copy(Launch *launch) {
    if (!launch->arguments) return CUDA_SUCCESS;
    Launch from = *launch;
    size_t count = 0;
    while (from.pointers[count]) count++;
    launch->arguments = malloc(from.size ? from.size : 1);
    launch->pointers = calloc(count + 1, sizeof *launch->pointers);
    if (!launch->arguments || !launch->pointers) {
        free(launch->arguments);
        free(launch->pointers);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(launch->arguments, from.arguments, from.size);
    for (size_t i = 0; i < count; i++)
        launch->pointers[i] = (char *)launch->arguments + ((char *)from.pointers[i] - (char *)from.arguments);
    return CUDA_SUCCESS;
}

CUresult task_copy(Task *to, const Task *from) {
    *to = *from;
    if (from->kind == TASK_KERNEL) return launch_copy(&to->launch);
    if (from->kind == TASK_ALLOC) block_share((uintptr_t)from->alloc.pointer);
    if (from->kind != TASK_GRAPH) return CUDA_SUCCESS;
    to->graph = graph_copy(from->graph);
    return to->graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void task_end(Task *task) {
    if (task->kind == TASK_KERNEL) {
        free(task->launch.arguments);
        free(task->launch.pointers);
    }
    if (task->kind == TASK_GRAPH) graph_end(task->graph);
    if (task->kind == TASK_ALLOC) block_unshare((uintptr_t)task->alloc.pointer);
    if (task->kind == TASK_LAUNCH) exec_release(task->exec);
    task->kind = TASK_EMPTY;
}

static bool value_reached(uint64_t now, const ValueOp *op) {
    uint64_t distance = op->bytes == 4 ? (uint64_t)(int64_t)(int32_t)(uint32_t)(now - op->value) : now - op->value;
    switch (op->flags & 3) {
    case 0: return (int64_t)distance >= 0;
    case 1: return distance == 0;
    case 2: return (now & op->value) != 0;
    default: return (~(now | op->value) & (op->bytes == 4 ? UINT32_MAX : UINT64_MAX)) != 0;
    }
}

static void value_run(const ValueOp *op) {
    if (!op->wait) {
        if (op->bytes == 4) __atomic_store_n((uint32_t *)op->address, (uint32_t)op->value, __ATOMIC_RELEASE);
        else __atomic_store_n((uint64_t *)op->address, op->value, __ATOMIC_RELEASE);
        return;
    }
    for (;;) {
        uint64_t now = op->bytes == 4 ? __atomic_load_n((uint32_t *)op->address, __ATOMIC_ACQUIRE)
                                      : __atomic_load_n((uint64_t *)op->address, __ATOMIC_ACQUIRE);
        if (value_reached(now, op)) return;
        host_pause();
    }
}

static void call(const Task *task, CUresult status) {
    in_host_function = true;
    if (task->kind == TASK_HOST) task->host.function(task->host.data);
    else task->callback.function(task->callback.stream, status, task->callback.data);
    in_host_function = false;
}

/* After a kernel has failed nothing more is done in its context; callbacks learn of it. */
CUresult task_run(const Task *task, const Context *context) {
    lock_take();
    CUresult fault = context->fault;
    lock_release();
    if (task->kind == TASK_CALLBACK) call(task, fault);
    if (fault) return fault;
    switch (task->kind) {
    case TASK_KERNEL: return launch_run(&task->launch);
    case TASK_COPY: copy_run(&task->copy); break;
    case TASK_FILL: fill_run(&task->fill); break;
    case TASK_HOST: call(task, CUDA_SUCCESS); break;
    case TASK_GRAPH: return graph_run(task->graph, context);
    case TASK_LAUNCH: return exec_run(task->exec, context);
    case TASK_RECORD: return event_record_now(task->event);
    case TASK_WAIT: return event_wait_now(task->event);
    case TASK_FREE: block_release((uintptr_t)task->freed); break;
    case TASK_VALUE: value_run(&task->value); break;
    default: break;
    }
    return CUDA_SUCCESS;
}
