/* Memory pools: memory in the order of a stream, with the books that a pool keeps. */
#include "allocations.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>

enum { REUSE_EVENTS = 1, REUSE_OPPORTUNISTIC, REUSE_INTERNAL, THRESHOLD, RESERVED_NOW, RESERVED_HIGH, USED_NOW, USED_HIGH };

struct Pool {
    uint64_t used, high, threshold;
    int reuse[4];
    bool destroyed;
};

static Pool device_pool = {.reuse = {0, 1, 1, 1}}; /* there from the start, never destroyed */
static Pool *current_pool = &device_pool;

static CUresult need_pool(const Pool *pool) {
    NEED(need_init());
    return pool == &device_pool || registry_has(pool, HANDLE_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void pool_count(Pool *pool, size_t more, size_t less) {
    pool->used += more;
    pool->used -= less;
    if (pool->used > pool->high) pool->high = pool->used;
    if (pool->destroyed && !pool->used) free(pool);
}

/* ---- allocation ---- */

static CUresult allocate(CUdeviceptr *pointer, size_t size, Pool *pool, Stream *handle) {
    Stream *stream;
    NEED(stream_find(handle, &stream));
    NEED_VALUE(pointer && size);
    uintptr_t base = 0;
    if (!stream->capture) NEED(capture_forbids(stream));
    NEED(block_new(&base, size, stream->capture ? BLOCK_GRAPH : BLOCK_DEVICE, 1, stream->capture ? NULL : pool));
    *pointer = base;
    if (!stream->capture) return CUDA_SUCCESS;
    Task task = {.kind = TASK_ALLOC, .alloc = {.size = size, .pointer = base}};
    return stream_submit(stream, &task);
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, Stream *stream) {
    return allocate(pointer, size, current_pool, stream);
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, Pool *pool, Stream *stream) {
    NEED(need_pool(pool));
    return allocate(pointer, size, pool, stream);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, Stream *handle) {
    Stream *stream;
    NEED(stream_find(handle, &stream));
    if (!pointer) return CUDA_SUCCESS;
    Block block;
    NEED_VALUE(block_at((uintptr_t)pointer, &block) && block.base == pointer);
    NEED_VALUE(block.kind == BLOCK_DEVICE || block.kind == BLOCK_GRAPH || block.kind == BLOCK_MANAGED);
    if (!stream->capture && stream_idle(stream)) return cuMemFree_v2(pointer);
    Task task = {.kind = TASK_FREE, .freed = pointer};
    return stream_submit(stream, &task);
}

/* ---- pools ---- */

EXPORT CUresult cuMemPoolCreate(Pool **pool, const PoolProps *props) {
    NEED(need_init());
    NEED_VALUE(pool && props && props->type == 1 && props->location.type == 1 && props->location.id == 0);
    if (props->handles) return CUDA_ERROR_NOT_SUPPORTED; /* nothing is shared with other processes */
    Pool *made = calloc(1, sizeof *made);
    if (!made || !registry_add(made, HANDLE_POOL)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(made->reuse, device_pool.reuse, sizeof made->reuse);
    *pool = made;
    return CUDA_SUCCESS;
}

/* What is still allocated from it stays until it is freed. */
EXPORT CUresult cuMemPoolDestroy(Pool *pool) {
    NEED(need_init());
    NEED_VALUE(pool != &device_pool && registry_remove(pool, HANDLE_POOL));
    lock_take();
    if (current_pool == pool) current_pool = &device_pool;
    bool unused = !pool->used;
    pool->destroyed = true;
    lock_release();
    if (unused) free(pool);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolGetAttribute(Pool *pool, int attribute, void *value) {
    NEED(need_pool(pool));
    NEED_VALUE(value);
    switch (attribute) {
    case REUSE_EVENTS: case REUSE_OPPORTUNISTIC: case REUSE_INTERNAL: *(int *)value = pool->reuse[attribute]; break;
    case THRESHOLD: *(uint64_t *)value = pool->threshold; break;
    case RESERVED_NOW: case USED_NOW: *(uint64_t *)value = pool->used; break;
    case RESERVED_HIGH: case USED_HIGH: *(uint64_t *)value = pool->high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolSetAttribute(Pool *pool, int attribute, const void *value) {
    NEED(need_pool(pool));
    NEED_VALUE(value);
    switch (attribute) {
    case REUSE_EVENTS: case REUSE_OPPORTUNISTIC: case REUSE_INTERNAL: pool->reuse[attribute] = *(const int *)value; break;
    case THRESHOLD: pool->threshold = *(const uint64_t *)value; break;
    case RESERVED_HIGH: case USED_HIGH: /* can only be set back */
        NEED_VALUE(*(const uint64_t *)value == 0);
        pool->high = pool->used;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* Freed memory is never kept, so there is nothing to trim. */
EXPORT CUresult cuMemPoolTrimTo(Pool *pool, size_t keep) {
    (void)keep;
    return need_pool(pool);
}

EXPORT CUresult cuMemPoolSetAccess(Pool *pool, const AccessDesc *access, size_t count) {
    NEED(need_pool(pool));
    NEED_VALUE(!count || access);
    for (size_t i = 0; i < count; i++) NEED_VALUE(access[i].location.type == 1 && access[i].location.id == 0 && access[i].flags == 3);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolGetAccess(unsigned *flags, Pool *pool, const Location *where) {
    NEED(need_pool(pool));
    NEED_VALUE(flags && where && where->type == 1 && where->id == 0);
    *flags = 3;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(Pool **pool, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(pool);
    *pool = &device_pool;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetMemPool(Pool **pool, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(pool);
    *pool = current_pool;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice device, Pool *pool) {
    NEED(need_device(device));
    NEED(need_pool(pool));
    current_pool = pool;
    return CUDA_SUCCESS;
}

/* Newer names for the same, by place and kind of memory; only the device's own memory has pools here. */
static CUresult on_device(const Location *where, int type) {
    NEED_VALUE(where);
    return where->type == 1 && where->id == 0 && type == 1 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

EXPORT CUresult cuMemGetDefaultMemPool(Pool **pool, const Location *where, int type) {
    NEED(on_device(where, type));
    return cuDeviceGetDefaultMemPool(pool, 0);
}

EXPORT CUresult cuMemGetMemPool(Pool **pool, const Location *where, int type) {
    NEED(on_device(where, type));
    return cuDeviceGetMemPool(pool, 0);
}

EXPORT CUresult cuMemSetMemPool(const Location *where, int type, Pool *pool) {
    NEED(on_device(where, type));
    return cuDeviceSetMemPool(0, pool);
}

/* Memory of graphs is theirs as long as they live: there is nothing to trim and little to tell. */
EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) { return need_device(device); }

EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value) {
    NEED(need_device(device));
    NEED_VALUE(value && attribute >= 0 && attribute <= 3);
    *(uint64_t *)value = block_graph_bytes();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, const void *value) {
    NEED(need_device(device));
    NEED_VALUE(value && (attribute == 1 || attribute == 3));
    return CUDA_SUCCESS;
}
