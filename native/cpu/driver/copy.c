/* Copies and fills: one, two and three dimensions; now, or in a stream. */
#include "allocations.h"
#include "queue.h"

#include <string.h>

/* ---- a copy as a task ---- */

Copy3D copy_plain(uintptr_t to, unsigned to_type, uintptr_t from, unsigned from_type, size_t size) {
    return (Copy3D){
        .from = {.type = from_type, .device = from, .host = (void *)from},
        .to = {.type = to_type, .device = to, .host = (void *)to},
        .width = size, .height = 1, .depth = 1,
    };
}

typedef struct {
    uintptr_t start;
    size_t pitch, slice, extent; /* bytes; extent = from the first to the last that is touched */
} Span;

static bool times(size_t one, size_t other, size_t *product) {
    *product = one * other;
    return !one || *product / one == other;
}

static bool span(const Side3D *side, const Copy3D *copy, Span *out) {
    size_t pitch = side->pitch ? side->pitch : side->x + copy->width;
    size_t rows = side->height ? side->height : side->y + copy->height, slice, skip, deep, down;
    if (copy->height > 1 && pitch < side->x + copy->width) return false;
    if (copy->depth > 1 && rows < side->y + copy->height) return false;
    if (!times(pitch, rows, &slice) || !times(slice, side->z, &skip) || !times(slice, copy->depth - 1, &deep) ||
        !times(pitch, copy->height - 1, &down))
        return false;
    uintptr_t base = side->type == MEMORY_HOST ? (uintptr_t)side->host : (uintptr_t)side->device;
    *out = (Span){base + skip + side->y * pitch + side->x, pitch, slice, deep + down + copy->width};
    return base && out->extent >= copy->width;
}

/* A device address lies in device memory; a host one in memory we do not know, or inside what we know. */
static bool allowed(const Side3D *side, const Span *span, bool written) {
    Block block;
    if (side->type != MEMORY_DEVICE && !block_at(span->start, &block)) return true;
    return written ? memory_writable(span->start, span->extent) : memory_reachable(span->start, span->extent);
}

CUresult copy_check(const Copy3D *copy) {
    if (!copy->width || !copy->height || !copy->depth) return CUDA_SUCCESS;
    if (copy->from.type == MEMORY_ARRAY || copy->to.type == MEMORY_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
    NEED_VALUE(copy->from.type - 1u < MEMORY_UNIFIED && copy->to.type - 1u < MEMORY_UNIFIED);
    Span from, to;
    NEED_VALUE(span(&copy->from, copy, &from) && span(&copy->to, copy, &to));
    NEED_VALUE(allowed(&copy->from, &from, false) && allowed(&copy->to, &to, true));
    return CUDA_SUCCESS;
}

void copy_run(const Copy3D *copy) {
    Span from, to;
    if (!copy->width || !copy->height || !copy->depth) return;
    if (!span(&copy->from, copy, &from) || !span(&copy->to, copy, &to)) return;
    for (size_t z = 0; z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++)
            memmove((void *)(to.start + z * to.slice + y * to.pitch),
                    (const void *)(from.start + z * from.slice + y * from.pitch), copy->width);
}

bool copy_is_pageable(const Copy3D *copy) {
    Block block;
    Span from, to;
    if (!span(&copy->from, copy, &from) || !span(&copy->to, copy, &to)) return false;
    return !block_at(from.start, &block) || !block_at(to.start, &block);
}

/* Memory that is not pinned may be changed or freed as soon as the call returns: such copies are done before. */
static CUresult copy(Stream *stream, const Copy3D *shape, bool now) {
    NEED(need_stream(&stream));
    NEED(copy_check(shape));
    if (now || (!stream->capture && copy_is_pageable(shape))) {
        NEED(capture_forbids(stream));
        NEED(stream_wait(stream));
        copy_run(shape);
        return CUDA_SUCCESS;
    }
    Task task = {.kind = TASK_COPY, .copy = *shape};
    return stream_submit(stream, &task);
}

#define COPY(symbol, later, ToType, to_type, FromType, from_type)                            \
    EXPORT CUresult symbol(ToType to, FromType from, size_t size) {                          \
        Copy3D shape = copy_plain((uintptr_t)to, to_type, (uintptr_t)from, from_type, size); \
        return copy(NULL, &shape, true);                                                     \
    }                                                                                        \
    EXPORT CUresult later(ToType to, FromType from, size_t size, Stream *stream) {           \
        Copy3D shape = copy_plain((uintptr_t)to, to_type, (uintptr_t)from, from_type, size); \
        return copy(stream, &shape, false);                                                  \
    }

COPY(cuMemcpy, cuMemcpyAsync, CUdeviceptr, MEMORY_UNIFIED, CUdeviceptr, MEMORY_UNIFIED)
COPY(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, CUdeviceptr, MEMORY_DEVICE, const void *, MEMORY_HOST)
COPY(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, void *, MEMORY_HOST, CUdeviceptr, MEMORY_DEVICE)
COPY(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, CUdeviceptr, MEMORY_DEVICE, CUdeviceptr, MEMORY_DEVICE)

static Side3D deepen(const Side2D *side) {
    return (Side3D){.x = side->x, .y = side->y, .type = side->type, .host = side->host, .device = side->device,
                    .array = side->array, .pitch = side->pitch};
}

static CUresult copy_2d(Stream *stream, const Copy2D *flat, bool now) {
    NEED_VALUE(flat);
    Copy3D shape = {.from = deepen(&flat->from), .to = deepen(&flat->to), .width = flat->width, .height = flat->height, .depth = 1};
    return copy(stream, &shape, now);
}

static CUresult copy_3d(Stream *stream, const Copy3D *shape, bool now) {
    NEED_VALUE(shape);
    return copy(stream, shape, now);
}

EXPORT CUresult cuMemcpy2D_v2(const Copy2D *shape) { return copy_2d(NULL, shape, true); }
EXPORT CUresult cuMemcpy2DUnaligned_v2(const Copy2D *shape) { return copy_2d(NULL, shape, true); }
EXPORT CUresult cuMemcpy2DAsync_v2(const Copy2D *shape, Stream *stream) { return copy_2d(stream, shape, false); }
EXPORT CUresult cuMemcpy3D_v2(const Copy3D *shape) { return copy_3d(NULL, shape, true); }
EXPORT CUresult cuMemcpy3DAsync_v2(const Copy3D *shape, Stream *stream) { return copy_3d(stream, shape, false); }

/* There is one device, so a copy between two is a copy on it. */
EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, Context *to_context, CUdeviceptr from, Context *from_context, size_t size) {
    if (!context_alive(to_context) || !context_alive(from_context)) return CUDA_ERROR_INVALID_CONTEXT;
    return cuMemcpyDtoD_v2(to, from, size);
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, Context *to_context, CUdeviceptr from, Context *from_context, size_t size,
                                  Stream *stream) {
    if (!context_alive(to_context) || !context_alive(from_context)) return CUDA_ERROR_INVALID_CONTEXT;
    return cuMemcpyDtoDAsync_v2(to, from, size, stream);
}

/* ---- fills ---- */

static bool fill_extent(const Fill *fill, size_t *row, size_t *extent) {
    if (!times(fill->width, fill->element, row)) return false;
    size_t down;
    if (!times(fill->height > 1 ? fill->pitch : 0, fill->height - 1, &down)) return false;
    *extent = down + *row;
    return *extent >= *row && (fill->height == 1 || fill->pitch >= *row);
}

CUresult fill_check(const Fill *fill) {
    NEED_VALUE(fill->element == 1 || fill->element == 2 || fill->element == 4);
    if (!fill->width || !fill->height) return CUDA_SUCCESS;
    size_t row, extent;
    NEED_VALUE(fill->to % fill->element == 0 && fill->pitch % fill->element == 0 && fill_extent(fill, &row, &extent));
    NEED_VALUE(memory_writable((uintptr_t)fill->to, extent));
    return CUDA_SUCCESS;
}

void fill_run(const Fill *fill) {
    for (size_t y = 0; y < fill->height; y++) {
        void *row = (void *)((uintptr_t)fill->to + y * fill->pitch);
        if (fill->element == 1) memset(row, (int)fill->value, fill->width);
        if (fill->element == 2)
            for (size_t i = 0; i < fill->width; i++) ((uint16_t *)row)[i] = (uint16_t)fill->value;
        if (fill->element == 4)
            for (size_t i = 0; i < fill->width; i++) ((uint32_t *)row)[i] = fill->value;
    }
}

static CUresult fill(Stream *stream, Fill shape, bool now) {
    NEED(need_stream(&stream));
    NEED(fill_check(&shape));
    if (now) NEED(capture_forbids(stream));
    Task task = {.kind = TASK_FILL, .fill = shape};
    NEED(stream_submit(stream, &task));
    return now ? stream_wait(stream) : CUDA_SUCCESS;
}

#define FILL(symbol, later, Type)                                                     \
    EXPORT CUresult symbol(CUdeviceptr to, Type value, size_t count) {                \
        return fill(NULL, (Fill){to, 0, value, sizeof value, count, 1}, true);        \
    }                                                                                 \
    EXPORT CUresult later(CUdeviceptr to, Type value, size_t count, Stream *stream) { \
        return fill(stream, (Fill){to, 0, value, sizeof value, count, 1}, false);     \
    }

FILL(cuMemsetD8_v2, cuMemsetD8Async, unsigned char)
FILL(cuMemsetD16_v2, cuMemsetD16Async, unsigned short)
FILL(cuMemsetD32_v2, cuMemsetD32Async, unsigned)

#define FILL_2D(symbol, later, Type)                                                                                \
    EXPORT CUresult symbol(CUdeviceptr to, size_t pitch, Type value, size_t width, size_t height) {                 \
        return fill(NULL, (Fill){to, pitch, value, sizeof value, width, height}, true);                             \
    }                                                                                                               \
    EXPORT CUresult later(CUdeviceptr to, size_t pitch, Type value, size_t width, size_t height, Stream *stream) {  \
        return fill(stream, (Fill){to, pitch, value, sizeof value, width, height}, false);                          \
    }

FILL_2D(cuMemsetD2D8_v2, cuMemsetD2D8Async, unsigned char)
FILL_2D(cuMemsetD2D16_v2, cuMemsetD2D16Async, unsigned short)
FILL_2D(cuMemsetD2D32_v2, cuMemsetD2D32Async, unsigned)
