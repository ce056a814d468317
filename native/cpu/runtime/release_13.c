/* What CUDA 13's runtime calls by names that had other arguments before. */
#include "runtime.h"

const int RUNTIME_VERSION = 13000;

FORWARD(cudaMemGetDefaultMemPool, cuMemGetDefaultMemPool)
FORWARD(cudaMemGetMemPool, cuMemGetMemPool)
FORWARD(cudaMemSetMemPool, cuMemSetMemPool)
FORWARD(cudaMemAdvise, cuMemAdvise_v2)
STREAM(cudaMemPrefetchAsync, cuMemPrefetchAsync_v2)
STREAM(cudaStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3)
STREAM(cudaStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2)
FORWARD(cudaGraphGetEdges, cuGraphGetEdges_v2)
FORWARD(cudaGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2)
FORWARD(cudaGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes_v2)
FORWARD(cudaGraphAddDependencies, cuGraphAddDependencies_v2)
FORWARD(cudaGraphRemoveDependencies, cuGraphRemoveDependencies_v2)

EXPORT int cudaGraphAddNode(Node **node, Graph *graph, Node *const *needs, const void *edges, size_t count, void *params) {
    (void)edges;
    return add_any_node(node, graph, needs, count, params);
}
