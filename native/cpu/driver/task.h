/* Work for a stream or a graph's node: what is done, with copies of all that it needs. */
#ifndef CPU_DRIVER_TASK_H
#define CPU_DRIVER_TASK_H

#include "driver.h"

typedef enum { /* the numbers are CUgraphNodeType's as far as it has them */
    TASK_KERNEL, TASK_COPY, TASK_FILL, TASK_HOST, TASK_GRAPH, TASK_EMPTY, TASK_WAIT, TASK_RECORD,
    TASK_ALLOC = 10, TASK_FREE = 11, TASK_CALLBACK = 100, TASK_LAUNCH = 101, TASK_VALUE = 102,
} TaskKind;

typedef struct {
    Function *function;
    unsigned grid[3], block[3], cluster[3];
    size_t shared;
    bool cooperative;
    int priority;
    void *arguments; /* owned: packed as the kernel wants them */
    void **pointers; /* owned: into `arguments` */
    size_t size;
} Launch;

typedef struct { /* cuStreamWriteValue, cuStreamWaitValue */
    void *address;
    uint64_t value;
    unsigned bytes, flags;
    bool wait;
} ValueOp;

typedef struct {
    TaskKind kind;
    union {
        Launch launch;
        Copy3D copy;
        Fill fill;
        HostCall host;
        struct {
            StreamCallback *function;
            Stream *stream;
            void *data;
        } callback;
        Event *event;
        Graph *graph;    /* TASK_GRAPH: owned, a child's copy */
        GraphExec *exec; /* TASK_LAUNCH: held until it has run */
        AllocParams alloc;
        CUdeviceptr freed;
        ValueOp value;
    };
} Task;

CUresult task_copy(Task *to, const Task *from);
void task_end(Task *task);
CUresult task_run(const Task *task, const Context *context);

bool task_in_host_function(void); /* where no driver call is allowed */
CUresult event_record_now(Event *event);
CUresult event_wait_now(Event *event);

/* Copies: checked when they are asked for, done later. */
CUresult copy_check(const Copy3D *copy);
void copy_run(const Copy3D *copy);
Copy3D copy_plain(uintptr_t to, unsigned to_type, uintptr_t from, unsigned from_type, size_t size);
bool copy_is_pageable(const Copy3D *copy); /* one side is host memory that the driver does not know */
CUresult fill_check(const Fill *fill);
void fill_run(const Fill *fill);

/* Kernels */
CUresult launch_make(Launch *launch, const KernelParams *params);
CUresult launch_attributes(Launch *launch, const LaunchAttribute *attributes, unsigned count);
CUresult launch_check(const Launch *launch);
CUresult launch_run(const Launch *launch);

/* Graphs, in the order in which their nodes may run */
CUresult graph_run(const Graph *graph, const Context *context);
Graph *graph_copy(const Graph *graph);
void graph_end(Graph *graph);
CUresult exec_run(GraphExec *exec, const Context *context);
void exec_release(GraphExec *exec);

#endif
