/* What CUDA 12's runtime has under its own names or with other arguments than CUDA 13's. */
#include "runtime.h"

const int RUNTIME_VERSION = 12080;

FORWARD(cudaEventElapsedTime_v2, cuEventElapsedTime)
FORWARD(cudaMemAdvise, cuMemAdvise)
FORWARD(cudaMemAdvise_v2, cuMemAdvise_v2)
STREAM(cudaMemPrefetchAsync, cuMemPrefetchAsync)
STREAM(cudaMemPrefetchAsync_v2, cuMemPrefetchAsync_v2)
STREAM(cudaStreamGetCaptureInfo, cuStreamGetCaptureInfo)
STREAM(cudaStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2)
STREAM(cudaStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3)
STREAM(cudaStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies)
STREAM(cudaStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2)
FORWARD(cudaGraphGetEdges, cuGraphGetEdges)
FORWARD(cudaGraphGetEdges_v2, cuGraphGetEdges_v2)
FORWARD(cudaGraphNodeGetDependencies, cuGraphNodeGetDependencies)
FORWARD(cudaGraphNodeGetDependencies_v2, cuGraphNodeGetDependencies_v2)
FORWARD(cudaGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes)
FORWARD(cudaGraphNodeGetDependentNodes_v2, cuGraphNodeGetDependentNodes_v2)
FORWARD(cudaGraphAddDependencies, cuGraphAddDependencies)
FORWARD(cudaGraphAddDependencies_v2, cuGraphAddDependencies_v2)
FORWARD(cudaGraphRemoveDependencies, cuGraphRemoveDependencies)
FORWARD(cudaGraphRemoveDependencies_v2, cuGraphRemoveDependencies_v2)
FORWARD(cudaThreadExit, cuCtxSynchronize)
FORWARD(cudaThreadSynchronize, cuCtxSynchronize)
FORWARD(cudaThreadGetLimit, cuCtxGetLimit)
FORWARD(cudaThreadSetLimit, cuCtxSetLimit)
FORWARD(cudaThreadGetCacheConfig, cuCtxGetCacheConfig)
FORWARD(cudaThreadSetCacheConfig, cuCtxSetCacheConfig)

int cudaGetDeviceProperties(void *properties, int device);

EXPORT int cudaGetDeviceProperties_v2(void *properties, int device) { return cudaGetDeviceProperties(properties, device); }

EXPORT int cudaGraphAddNode(Node **node, Graph *graph, Node *const *needs, size_t count, void *params) {
    return add_any_node(node, graph, needs, count, params);
}

EXPORT int cudaGraphAddNode_v2(Node **node, Graph *graph, Node *const *needs, const void *edges, size_t count, void *params) {
    (void)edges;
    return add_any_node(node, graph, needs, count, params);
}
