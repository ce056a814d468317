/* Graph nodes whose parameters differ from the driver's: kernels by the host's address, copies by direction. */
#include "runtime.h"

#include <string.h>

typedef struct CopyParams CopyParams;

int copy_from_params(const CopyParams *params, Copy3D *copy);
int variable_part(const void *symbol, size_t size, size_t offset, void **place);

#define NODE Node **node, Graph *graph, Node *const *needs, size_t count

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

EXPORT int cudaGraphAddKernelNode(NODE, const KernelNode *params) {
    KernelParams wish;
    TRY(ready());
    TRY(kernel_params(params, &wish));
    return keep(DRIVER("cuGraphAddKernelNode_v2", node, graph, needs, count, &wish));
}

EXPORT int cudaGraphKernelNodeSetParams(Node *node, const KernelNode *params) {
    KernelParams wish;
    TRY(ready());
    TRY(kernel_params(params, &wish));
    return keep(DRIVER("cuGraphKernelNodeSetParams_v2", node, &wish));
}

EXPORT int cudaGraphExecKernelNodeSetParams(GraphExec *exec, Node *node, const KernelNode *params) {
    KernelParams wish;
    TRY(ready());
    TRY(kernel_params(params, &wish));
    return keep(DRIVER("cuGraphExecKernelNodeSetParams_v2", exec, node, &wish));
}

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

static int flat(void *to, const void *from, size_t size, int kind, Copy3D *copy) {
    if (kind < 0 || kind > 4) return CUDART_INVALID_DIRECTION;
    *copy = (Copy3D){.from = {.host = (void *)(Word)from, .device = (Word)from, .type = kind == 1 ? MEMORY_HOST : kind == 2 || kind == 3 ? MEMORY_DEVICE : MEMORY_UNIFIED},
                     .to = {.host = to, .device = (Word)to, .type = kind == 2 ? MEMORY_HOST : kind == 1 || kind == 3 ? MEMORY_DEVICE : MEMORY_UNIFIED},
                     .width = size, .height = 1, .depth = 1};
    return 0;
}

static int to_symbol(const void *symbol, const void *from, size_t size, size_t offset, int kind, Copy3D *copy) {
    void *place;
    int error = variable_part(symbol, size, offset, &place);
    return error ? error : flat(place, from, size, kind, copy);
}

static int from_symbol(void *to, const void *symbol, size_t size, size_t offset, int kind, Copy3D *copy) {
    void *place;
    int error = variable_part(symbol, size, offset, &place);
    return error ? error : flat(to, place, size, kind, copy);
}

/* A kind of copy node: how it is added, changed, and changed in an instantiated graph. */
#define COPY_NODE(ending, parameters, make)                                          \
    EXPORT int cudaGraphAddMemcpyNode##ending(NODE, parameters) {                    \
        Copy3D copy;                                                                 \
        TRY(ready());                                                                \
        TRY(make);                                                                   \
        return keep(DRIVER("cuGraphAddMemcpyNode", node, graph, needs, count, &copy)); \
    }                                                                                \
    EXPORT int cudaGraphMemcpyNodeSetParams##ending(Node *node, parameters) {        \
        Copy3D copy;                                                                 \
        TRY(ready());                                                                \
        TRY(make);                                                                   \
        return keep(DRIVER("cuGraphMemcpyNodeSetParams", node, &copy));              \
    }                                                                                \
    EXPORT int cudaGraphExecMemcpyNodeSetParams##ending(GraphExec *exec, Node *node, parameters) { \
        Copy3D copy;                                                                 \
        TRY(ready());                                                                \
        TRY(make);                                                                   \
        return keep(DRIVER("cuGraphExecMemcpyNodeSetParams", exec, node, &copy));    \
    }
#define LIST(...) __VA_ARGS__

COPY_NODE(, const CopyParams *params, copy_from_params(params, &copy))
COPY_NODE(1D, LIST(void *to, const void *from, size_t size, int kind), flat(to, from, size, kind, &copy))
COPY_NODE(ToSymbol, LIST(const void *symbol, const void *from, size_t size, size_t offset, int kind),
          to_symbol(symbol, from, size, offset, kind, &copy))
COPY_NODE(FromSymbol, LIST(void *to, const void *symbol, size_t size, size_t offset, int kind),
          from_symbol(to, symbol, size, offset, kind, &copy))

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

EXPORT int cudaGraphNodeSetParams(Node *node, RuntimeNodeParams *params) {
    NodeParams wish;
    TRY(ready());
    TRY(node_params(params, &wish));
    return keep(DRIVER("cuGraphNodeSetParams", node, &wish));
}

EXPORT int cudaGraphExecNodeSetParams(GraphExec *exec, Node *node, RuntimeNodeParams *params) {
    NodeParams wish;
    TRY(ready());
    TRY(node_params(params, &wish));
    return keep(DRIVER("cuGraphExecNodeSetParams", exec, node, &wish));
}
