/* The variants of calls whose default stream is the thread's own: those that take a stream. Copies and fills have
 * theirs beside them. */
#include "queue.h"

#define OWN(stream) ((stream) ? (stream) : STREAM_PER_THREAD)

#define VARIANT(name, parameters, arguments)       \
    CUresult name parameters;                      \
    EXPORT CUresult name##_ptsz parameters { return name arguments; }

/* Calls whose stream comes first, with up to five other arguments of a machine word each. */
#define FIRST_1(name) VARIANT(name, (Stream * s), (OWN(s)))
#define FIRST_2(name, A) VARIANT(name, (Stream * s, A a), (OWN(s), a))
#define FIRST_3(name, A, B) VARIANT(name, (Stream * s, A a, B b), (OWN(s), a, b))
#define FIRST_4(name, A, B, C) VARIANT(name, (Stream * s, A a, B b, C c), (OWN(s), a, b, c))

typedef Node *const *Nodes;

FIRST_1(cuStreamSynchronize)
FIRST_1(cuStreamQuery)
FIRST_2(cuStreamGetFlags, unsigned *)
FIRST_2(cuStreamGetPriority, int *)
FIRST_2(cuStreamGetCtx, Context **)
FIRST_3(cuStreamGetCtx_v2, Context **, void **)
FIRST_2(cuStreamGetId, uint64_t *)
FIRST_2(cuStreamGetDevice, CUdevice *)
FIRST_3(cuStreamGetAttribute, int, int *)
FIRST_3(cuStreamSetAttribute, int, const void *)
FIRST_4(cuStreamAttachMemAsync, CUdeviceptr, size_t, unsigned)
FIRST_3(cuStreamWaitEvent, Event *, unsigned)
FIRST_3(cuLaunchHostFunc, HostFunction *, void *)
FIRST_4(cuStreamAddCallback, StreamCallback *, void *, unsigned)
FIRST_2(cuStreamIsCapturing, int *)
FIRST_2(cuStreamBeginCapture_v2, int)
FIRST_2(cuStreamEndCapture, Graph **)
FIRST_3(cuStreamGetCaptureInfo, int *, uint64_t *)
FIRST_4(cuStreamUpdateCaptureDependencies, Nodes, size_t, unsigned)
VARIANT(cuStreamCopyAttributes, (Stream * to, Stream *from), (OWN(to), OWN(from)))
VARIANT(cuStreamBeginCaptureToGraph, (Stream * s, Graph *graph, Nodes needs, const void *edges, size_t count, int mode),
        (OWN(s), graph, needs, edges, count, mode))
VARIANT(cuStreamGetCaptureInfo_v2, (Stream * s, int *status, uint64_t *id, Graph **graph, Nodes *needs, size_t *count),
        (OWN(s), status, id, graph, needs, count))
VARIANT(cuStreamGetCaptureInfo_v3,
        (Stream * s, int *status, uint64_t *id, Graph **graph, Nodes *needs, const void **edges, size_t *count),
        (OWN(s), status, id, graph, needs, edges, count))
VARIANT(cuStreamUpdateCaptureDependencies_v2, (Stream * s, Nodes needs, const void *edges, size_t count, unsigned flags),
        (OWN(s), needs, edges, count, flags))
VARIANT(cuEventRecord, (Event * event, Stream *s), (event, OWN(s)))
VARIANT(cuEventRecordWithFlags, (Event * event, Stream *s, unsigned flags), (event, OWN(s), flags))
VARIANT(cuLaunchKernel,
        (Function * function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
         Stream *s, void **arguments, void **extra),
        (function, gx, gy, gz, bx, by, bz, shared, OWN(s), arguments, extra))
VARIANT(cuLaunchCooperativeKernel,
        (Function * function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
         Stream *s, void **arguments),
        (function, gx, gy, gz, bx, by, bz, shared, OWN(s), arguments))
VARIANT(cuGraphLaunch, (GraphExec * exec, Stream *s), (exec, OWN(s)))
VARIANT(cuGraphUpload, (GraphExec * exec, Stream *s), (exec, OWN(s)))
VARIANT(cuMemAllocAsync, (CUdeviceptr * pointer, size_t size, Stream *s), (pointer, size, OWN(s)))
VARIANT(cuMemAllocFromPoolAsync, (CUdeviceptr * pointer, size_t size, Pool *pool, Stream *s), (pointer, size, pool, OWN(s)))
VARIANT(cuMemFreeAsync, (CUdeviceptr pointer, Stream *s), (pointer, OWN(s)))
VARIANT(cuMemPrefetchAsync, (CUdeviceptr pointer, size_t size, CUdevice to, Stream *s), (pointer, size, to, OWN(s)))
VARIANT(cuMemPrefetchAsync_v2, (CUdeviceptr pointer, size_t size, Location to, unsigned flags, Stream *s),
        (pointer, size, to, flags, OWN(s)))

CUresult cuLaunchKernelEx(const LaunchConfig *config, Function *function, void **arguments, void **extra);

EXPORT CUresult cuLaunchKernelEx_ptsz(const LaunchConfig *config, Function *function, void **arguments, void **extra) {
    NEED_VALUE(config);
    LaunchConfig own = *config;
    own.stream = OWN(config->stream);
    return cuLaunchKernelEx(&own, function, arguments, extra);
}

typedef struct {
    uint64_t flags;
    Stream *stream;
    Node *error;
    int result;
} InstantiateParams;

CUresult cuGraphInstantiateWithParams(GraphExec **exec, Graph *graph, InstantiateParams *params);

/* The stream in it is for the upload, which there is none of. */
EXPORT CUresult cuGraphInstantiateWithParams_ptsz(GraphExec **exec, Graph *graph, InstantiateParams *params) {
    return cuGraphInstantiateWithParams(exec, graph, params);
}
