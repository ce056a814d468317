/* Memory: allocation, copies by direction, fills, variables. */
#include "runtime.h"

#include <string.h>

enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS };

/* ---- allocation ---- */

EXPORT int cudaMalloc(void **pointer, size_t size) {
    TRY(ready());
    TRY_VALUE(pointer);
    *pointer = NULL;
    return size ? keep(DRIVER("cuMemAlloc_v2", pointer, size)) : 0;
}

EXPORT int cudaMallocManaged(void **pointer, size_t size, unsigned flags) {
    TRY(ready());
    TRY_VALUE(pointer && size);
    return keep(DRIVER("cuMemAllocManaged", pointer, size, flags));
}

EXPORT int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    TRY(ready());
    TRY_VALUE(pointer && pitch);
    if (width && height) return keep(DRIVER("cuMemAllocPitch_v2", pointer, pitch, width, height, 4));
    *pointer = NULL;
    *pitch = 0;
    return 0;
}

typedef struct { /* cudaPitchedPtr */
    void *pointer;
    size_t pitch, width, height;
} Pitched;

typedef struct { /* cudaExtent, cudaPos */
    size_t width, height, depth;
} Extent;

EXPORT int cudaMalloc3D(Pitched *out, Extent extent) {
    void *pointer;
    size_t pitch;
    TRY_VALUE(out);
    TRY(cudaMallocPitch(&pointer, &pitch, extent.width, extent.height * extent.depth));
    *out = (Pitched){pointer, pitch, extent.width, extent.height};
    return 0;
}

typedef struct { /* cudaPointerAttributes; CUDA 13 has reserved words after it */
    int type, device;
    void *device_pointer, *host_pointer;
    long reserved[8];
} PointerAttributes;

/* cudaMemoryType: 0 unregistered, 1 host, 2 device, 3 managed */
EXPORT int cudaPointerGetAttributes(PointerAttributes *out, const void *pointer) {
    TRY(ready());
    TRY_VALUE(out);
    unsigned type = 0;
    int device = -2;
    unsigned char managed = 0;
    void *device_pointer = NULL, *host_pointer = NULL;
    int wanted[] = {2, 9, 8, 3, 4};
    void *places[] = {&type, &device, &managed, &device_pointer, &host_pointer};
    TRY(DRIVER("cuPointerGetAttributes", 5, wanted, places, pointer));
    PointerAttributes found = {managed ? 3 : (int)type, type ? device : -2, device_pointer, type ? host_pointer : (void *)(Word)pointer, {0}};
    memcpy(out, &found, RUNTIME_VERSION >= 13000 ? sizeof found : offsetof(PointerAttributes, reserved));
    return 0;
}

/* ---- copies ---- */

static int direction(Copy3D *copy, int kind) {
    if (kind < HOST_TO_HOST || kind > BY_ADDRESS) return CUDART_INVALID_DIRECTION;
    bool from_host = kind == HOST_TO_DEVICE, to_host = kind == DEVICE_TO_HOST, anywhere = kind == HOST_TO_HOST || kind == BY_ADDRESS;
    copy->from.type = anywhere ? MEMORY_UNIFIED : from_host ? MEMORY_HOST : MEMORY_DEVICE;
    copy->to.type = anywhere ? MEMORY_UNIFIED : to_host ? MEMORY_HOST : MEMORY_DEVICE;
    return 0;
}

static int copy_in(Stream *stream, Copy3D *copy, int kind, bool now) {
    TRY(ready());
    TRY(direction(copy, kind));
    TRY(DRIVER("cuMemcpy3DAsync_v2", copy, stream));
    return now ? keep(DRIVER("cuStreamSynchronize", stream)) : 0;
}

static Side3D side(const void *pointer, size_t pitch) {
    return (Side3D){.host = (void *)(Word)pointer, .device = (Word)pointer, .pitch = pitch};
}

int copy_of(void *to, const void *from, size_t size, int kind, Copy3D *copy) {
    *copy = (Copy3D){side(from, 0), side(to, 0), size, 1, 1};
    return direction(copy, kind);
}

static int copy_flat(void *to, const void *from, size_t size, int kind, Stream *stream, bool now) {
    Copy3D copy = {side(from, 0), side(to, 0), size, 1, 1};
    return copy_in(stream, &copy, kind, now);
}

static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, Stream *stream,
                     bool now) {
    if (width > to_pitch || width > from_pitch) return keep(12); /* cudaErrorInvalidPitchValue */
    Copy3D copy = {side(from, from_pitch), side(to, to_pitch), width, height, 1};
    return copy_in(stream, &copy, kind, now);
}

typedef struct { /* cudaMemcpy3DParms */
    void *from_array;
    Extent from_place;
    Pitched from;
    void *to_array;
    Extent to_place;
    Pitched to;
    Extent extent;
    int kind;
} CopyParams;

static Side3D deep_side(const Pitched *place, const Extent *at) {
    Side3D made = side(place->pointer, place->pitch);
    made.x = at->width;
    made.y = at->height;
    made.z = at->depth;
    made.height = place->height;
    return made;
}

int copy_from_params(const CopyParams *params, Copy3D *copy) {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    if (params->from_array || params->to_array) return CUDA_ERROR_NOT_SUPPORTED;
    *copy = (Copy3D){deep_side(&params->from, &params->from_place), deep_side(&params->to, &params->to_place), params->extent.width,
                     params->extent.height, params->extent.depth};
    return direction(copy, params->kind);
}

static int copy_deep(const CopyParams *params, Stream *stream, bool now) {
    Copy3D copy;
    TRY(copy_from_params(params, &copy));
    return copy_in(stream, &copy, params->kind, now);
}

/* Each call in two: its default stream is the legacy one or the thread's own. */
#define NOW(name, parameters, call)                                                                                     \
    EXPORT int name parameters { Stream *stream = NULL; const bool now = true; return call; }                             \
    EXPORT int name##_ptds parameters { Stream *stream = (Stream *)2; const bool now = true; return call; }

#define PLAIN_PARAMETERS void *to, const void *from, size_t size, int kind
#define ROW_PARAMETERS void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind

NOW(cudaMemcpy, (PLAIN_PARAMETERS), copy_flat(to, from, size, kind, stream, now))
NOW(cudaMemcpy2D, (ROW_PARAMETERS), copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream, now))
NOW(cudaMemcpy3D, (const CopyParams *params), copy_deep(params, stream, now))

#define LATER(name, parameters, call)                                                                                    \
    EXPORT int name parameters { const bool now = false; return call; }                                                   \
    EXPORT int name##_ptsz parameters { const bool now = false; stream = OWN(stream); return call; }

LATER(cudaMemcpyAsync, (PLAIN_PARAMETERS, Stream *stream), copy_flat(to, from, size, kind, stream, now))
LATER(cudaMemcpy2DAsync, (ROW_PARAMETERS, Stream *stream), copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream, now))
LATER(cudaMemcpy3DAsync, (const CopyParams *params, Stream *stream), copy_deep(params, stream, now))

EXPORT int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t size) {
    TRY(to_device || from_device ? CUDA_ERROR_INVALID_DEVICE : 0);
    return copy_flat(to, from, size, DEVICE_TO_DEVICE, NULL, true);
}

EXPORT int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size, Stream *stream) {
    TRY(to_device || from_device ? CUDA_ERROR_INVALID_DEVICE : 0);
    return copy_flat(to, from, size, DEVICE_TO_DEVICE, stream, false);
}

/* ---- variables ---- */

int variable_part(const void *symbol, size_t size, size_t offset, void **place) {
    CUdeviceptr address;
    size_t whole;
    int error = find_variable(symbol, &address, &whole);
    if (error) return error;
    if (offset > whole || size > whole - offset) return CUDA_ERROR_INVALID_VALUE;
    *place = (void *)(Word)(address + offset);
    return 0;
}

static int copy_to_symbol(const void *symbol, const void *from, size_t size, size_t offset, int kind, Stream *stream, bool now) {
    void *place;
    TRY(kind == DEVICE_TO_HOST ? CUDART_INVALID_DIRECTION : 0);
    TRY(variable_part(symbol, size, offset, &place));
    return copy_flat(place, from, size, kind, stream, now);
}

static int copy_from_symbol(void *to, const void *symbol, size_t size, size_t offset, int kind, Stream *stream, bool now) {
    void *place;
    TRY(kind == HOST_TO_DEVICE ? CUDART_INVALID_DIRECTION : 0);
    TRY(variable_part(symbol, size, offset, &place));
    return copy_flat(to, place, size, kind, stream, now);
}

#define TO_SYMBOL const void *symbol, const void *from, size_t size, size_t offset, int kind
#define FROM_SYMBOL void *to, const void *symbol, size_t size, size_t offset, int kind

NOW(cudaMemcpyToSymbol, (TO_SYMBOL), copy_to_symbol(symbol, from, size, offset, kind, stream, now))
NOW(cudaMemcpyFromSymbol, (FROM_SYMBOL), copy_from_symbol(to, symbol, size, offset, kind, stream, now))
LATER(cudaMemcpyToSymbolAsync, (TO_SYMBOL, Stream *stream), copy_to_symbol(symbol, from, size, offset, kind, stream, now))
LATER(cudaMemcpyFromSymbolAsync, (FROM_SYMBOL, Stream *stream), copy_from_symbol(to, symbol, size, offset, kind, stream, now))

/* ---- fills ---- */

static int fill_rows(void *to, size_t pitch, int value, size_t width, size_t height, Stream *stream, bool now) {
    TRY(ready());
    if (width && height) TRY(DRIVER("cuMemsetD2D8Async", to, pitch, (unsigned char)value, width, height, stream));
    return now ? keep(DRIVER("cuStreamSynchronize", stream)) : 0;
}

static int fill_deep(const Pitched *to, int value, const Extent *extent, Stream *stream, bool now) {
    for (size_t z = 0; z < extent->depth; z++)
        TRY(fill_rows((char *)to->pointer + z * to->pitch * to->height, to->pitch, value, extent->width, extent->height, stream, now));
    return 0;
}

NOW(cudaMemset, (void *to, int value, size_t size), fill_rows(to, size, value, size, 1, stream, now))
NOW(cudaMemset2D, (void *to, size_t pitch, int value, size_t width, size_t height), fill_rows(to, pitch, value, width, height, stream, now))
NOW(cudaMemset3D, (Pitched to, int value, Extent extent), fill_deep(&to, value, &extent, stream, now))
LATER(cudaMemsetAsync, (void *to, int value, size_t size, Stream *stream), fill_rows(to, size, value, size, 1, stream, now))
LATER(cudaMemset2DAsync, (void *to, size_t pitch, int value, size_t width, size_t height, Stream *stream),
      fill_rows(to, pitch, value, width, height, stream, now))
LATER(cudaMemset3DAsync, (Pitched to, int value, Extent extent, Stream *stream), fill_deep(&to, value, &extent, stream, now))
