/* Graph nodes whose parameters differ from the driver's: kernels by the host's address, copies by direction. */
#include "runtime.h"

#include <string.h>

typedef struct CopyParams CopyParams;

int copy_from_params(const CopyParams *params, Copy3D *copy);

/* Nodes of one kind, made of what the runtime is given: added, changed, and changed in an instantiated graph. */
#define ADD_NODE(name, call, Wish, parameters, make)                                                         \
    EXPORT int name(Node **node, Graph *graph, Node *const *needs, size_t count, parameters) {               \
        Wish wish;                                                                                           \
        TRY(ready());                                                                                        \
        TRY(make);                                                                                           \
        return keep(DRIVER(call, node, graph, needs, count, &wish));                                         \
    }
#define SET_NODE(name, call, Wish, parameters, make)             \
    EXPORT int name(Node *node, parameters) {                    \
        Wish wish;                                               \
        TRY(ready());                                            \
        TRY(make);                                               \
        return keep(DRIVER(call, node, &wish));                  \
    }
#define SET_EXEC_NODE(name, call, Wish, parameters, make)        \
    EXPORT int name(GraphExec *exec, Node *node, parameters) {   \
        Wish wish;                                               \
        TRY(ready());                                            \
        TRY(make);                                               \
        return keep(DRIVER(call, exec, node, &wish));            \
    }
#define LIST(...) __VA_ARGS__

typedef struct { /* cudaKernelNodeParams */
    void *function;
    Dim3 grid, block;
    unsigned shared;
    void **arguments, **extra;
} KernelNode;

static int kernel_params(const KernelNode *params, KernelParams *out) {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    *out = (KernelParams){.grid = {params->grid.x, params->grid.y, params->grid.z}, .block = {params->block.x, params->block.y, params->block.z},
                          .shared = params->shared, .arguments = params->arguments, .extra = params->extra};
    return find_function(params->function, &out->function);
}

ADD_NODE(cudaGraphAddKernelNode, "cuGraphAddKernelNode_v2", KernelParams, const KernelNode *params, kernel_params(params, &wish))
SET_NODE(cudaGraphKernelNodeSetParams, "cuGraphKernelNodeSetParams_v2", KernelParams, const KernelNode *params,
         kernel_params(params, &wish))
SET_EXEC_NODE(cudaGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2", KernelParams, const KernelNode *params,
              kernel_params(params, &wish))

/* The kernel comes back as the driver's handle, which is taken wherever the host's address is. */
EXPORT int cudaGraphKernelNodeGetParams(Node *node, KernelNode *params) {
    KernelParams found;
    TRY(ready());
    TRY_VALUE(params);
    TRY(DRIVER("cuGraphKernelNodeGetParams_v2", node, &found));
    *params = (KernelNode){found.function, {found.grid[0], found.grid[1], found.grid[2]}, {found.block[0], found.block[1], found.block[2]},
                           found.shared, found.arguments, found.extra};
    return 0;
}

/* ---- copies ---- */

static int to_symbol(const void *symbol, const void *from, size_t size, size_t offset, int kind, Copy3D *copy) {
    void *place;
    int error = variable_part(symbol, size, offset, &place);
    return error ? error : copy_of(place, from, size, kind, copy);
}

static int from_symbol(void *to, const void *symbol, size_t size, size_t offset, int kind, Copy3D *copy) {
    void *place;
    int error = variable_part(symbol, size, offset, &place);
    return error ? error : copy_of(to, place, size, kind, copy);
}

#define COPY_NODE(ending, parameters, make)                                                                     \
    ADD_NODE(cudaGraphAddMemcpyNode##ending, "cuGraphAddMemcpyNode", Copy3D, LIST(parameters), make)             \
    SET_NODE(cudaGraphMemcpyNodeSetParams##ending, "cuGraphMemcpyNodeSetParams", Copy3D, LIST(parameters), make) \
    SET_EXEC_NODE(cudaGraphExecMemcpyNodeSetParams##ending, "cuGraphExecMemcpyNodeSetParams", Copy3D, LIST(parameters), make)

COPY_NODE(, const CopyParams *params, copy_from_params(params, &wish))
COPY_NODE(1D, LIST(void *to, const void *from, size_t size, int kind), copy_of(to, from, size, kind, &wish))
COPY_NODE(ToSymbol, LIST(const void *symbol, const void *from, size_t size, size_t offset, int kind),
          to_symbol(symbol, from, size, offset, kind, &wish))
COPY_NODE(FromSymbol, LIST(void *to, const void *symbol, size_t size, size_t offset, int kind),
          from_symbol(to, symbol, size, offset, kind, &wish))

/* ---- nodes of any kind ---- */

typedef struct { /* the beginning of cudaGraphNodeParams as far as it differs from the driver's */
    int type, unused[3];
    union {
        long long room[29];
        KernelNode kernel;
        struct {
            int flags, reserved[3];
            char params[160];
        } copy;
    };
    long long reserved;
} RuntimeNodeParams;

static int node_params(RuntimeNodeParams *params, NodeParams *out) {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    memcpy(out, params, sizeof *out);
    if (params->type == 0) return kernel_params(&params->kernel, &out->kernel);
    if (params->type != 1) return 0;
    memset(&out->copy, 0, sizeof out->copy);
    return copy_from_params((const CopyParams *)params->copy.params, &out->copy.copy);
}

int add_any_node(Node **node, Graph *graph, Node *const *needs, size_t count, void *params) {
    NodeParams wish;
    TRY(ready());
    TRY(node_params(params, &wish));
    TRY(DRIVER("cuGraphAddNode", node, graph, needs, count, &wish));
    if (wish.type == 10) ((NodeParams *)params)->alloc.pointer = wish.alloc.pointer;
    return 0;
}

SET_NODE(cudaGraphNodeSetParams, "cuGraphNodeSetParams", NodeParams, RuntimeNodeParams *params, node_params(params, &wish))
SET_EXEC_NODE(cudaGraphExecNodeSetParams, "cuGraphExecNodeSetParams", NodeParams, RuntimeNodeParams *params, node_params(params, &wish))
