/* Memory pools: memory in the order of a stream, with the books that a pool keeps. */
#include "allocations.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>

enum { REUSE_EVENTS = 1, REUSE_OPPORTUNISTIC, REUSE_INTERNAL, THRESHOLD, RESERVED_NOW, RESERVED_HIGH, USED_NOW, USED_HIGH };

enum { DEVICE = 1, MANAGED = 2, HOST_FIRST = 2, HOST_LAST = 4 }; /* CUmemLocationType, CUmemAllocationType */

struct Pool {
    BlockKind kind;
    uint64_t used, high, threshold;
    int reuse[4];
    bool destroyed;
};

/* Of each kind one is there from the start and never destroyed. */
static Pool own_pools[] = {
    [BLOCK_DEVICE] = {BLOCK_DEVICE, .reuse = {0, 1, 1, 1}},
    [BLOCK_MANAGED] = {BLOCK_MANAGED, .reuse = {0, 1, 1, 1}},
    [BLOCK_PINNED] = {BLOCK_PINNED, .reuse = {0, 1, 1, 1}},
};
static Pool *const first_pools[] = {own_pools, own_pools + 1, own_pools + 2};
static Pool *current_pools[] = {own_pools, own_pools + 1, own_pools + 2};

static CUresult need_pool(const Pool *pool) {
    NEED(need_init());
    bool known = pool == first_pools[BLOCK_DEVICE] || pool == first_pools[BLOCK_MANAGED] || pool == first_pools[BLOCK_PINNED];
    return known || registry_has(pool, HANDLE_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Which kind of memory a type at a place is. */
static CUresult kind_of(const Location *where, int type, BlockKind *kind) {
    NEED_VALUE(where);
    bool on_host = where->type >= HOST_FIRST && where->type <= HOST_LAST;
    *kind = type == MANAGED ? BLOCK_MANAGED : on_host ? BLOCK_PINNED : BLOCK_DEVICE;
    if (type == MANAGED) return CUDA_SUCCESS;
    return type == 1 && (on_host || (where->type == DEVICE && where->id == 0)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

void pool_count(Pool *pool, size_t more, size_t less) {
    pool->used += more;
    pool->used -= less;
    if (pool->used > pool->high) pool->high = pool->used;
    if (pool->destroyed && !pool->used) free(pool);
}

/* ---- allocation ---- */

static CUresult allocate(CUdeviceptr *pointer, size_t size, Pool *pool, Stream *stream) {
    NEED(need_stream(&stream));
    NEED_VALUE(pointer && size);
    uintptr_t base = 0;
    if (!stream->capture) NEED(capture_forbids(stream));
    BlockKind kind = stream->capture ? BLOCK_GRAPH : pool->kind;
    NEED(block_new(&base, size, kind, 1, stream->capture ? NULL : pool, stream->owner));
    *pointer = base;
    if (!stream->capture) return CUDA_SUCCESS;
    Task task = {.kind = TASK_ALLOC, .alloc = {.size = size, .pointer = base}};
    return stream_submit(stream, &task);
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, Stream *stream) {
    return allocate(pointer, size, current_pools[BLOCK_DEVICE], stream);
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, Pool *pool, Stream *stream) {
    NEED(need_pool(pool));
    return allocate(pointer, size, pool, stream);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, Stream *stream) {
    NEED(need_stream(&stream));
    if (!pointer) return CUDA_SUCCESS;
    Block block;
    NEED_VALUE(block_at((uintptr_t)pointer, &block) && block.base == pointer);
    NEED_VALUE(block.kind == BLOCK_DEVICE || block.kind == BLOCK_GRAPH || block.kind == BLOCK_MANAGED || block.pool);
    if (!stream->capture && stream_idle(stream)) return block_release(block.base);
    Task task = {.kind = TASK_FREE, .freed = pointer};
    return stream_submit(stream, &task);
}

/* ---- pools ---- */

EXPORT CUresult cuMemPoolCreate(Pool **pool, const PoolProps *props) {
    NEED(need_init());
    BlockKind kind;
    NEED_VALUE(pool && props && !kind_of(&props->location, props->type, &kind));
    if (props->handles) return CUDA_ERROR_NOT_SUPPORTED; /* nothing is shared with other processes */
    Pool *made = registry_new(sizeof *made, HANDLE_POOL);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (Pool){.kind = kind, .reuse = {0, 1, 1, 1}};
    *pool = made;
    return CUDA_SUCCESS;
}

/* What is still allocated from it stays until it is freed. */
EXPORT CUresult cuMemPoolDestroy(Pool *pool) {
    NEED(need_init());
    NEED_VALUE(registry_remove(pool, HANDLE_POOL));
    lock_take();
    if (current_pools[pool->kind] == pool) current_pools[pool->kind] = first_pools[pool->kind];
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

static CUresult pool_of(Pool *const *pools, const Location *where, int type, Pool **pool) {
    BlockKind kind;
    NEED(need_init());
    NEED(kind_of(where, type, &kind));
    NEED_VALUE(pool);
    *pool = pools[kind];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetDefaultMemPool(Pool **pool, const Location *where, int type) { return pool_of(first_pools, where, type, pool); }
EXPORT CUresult cuMemGetMemPool(Pool **pool, const Location *where, int type) { return pool_of(current_pools, where, type, pool); }

EXPORT CUresult cuMemSetMemPool(const Location *where, int type, Pool *pool) {
    BlockKind kind;
    NEED(need_pool(pool));
    NEED(kind_of(where, type, &kind));
    NEED_VALUE(pool->kind == kind);
    current_pools[kind] = pool;
    return CUDA_SUCCESS;
}

static const Location ON_DEVICE = {DEVICE, 0};

EXPORT CUresult cuDeviceGetDefaultMemPool(Pool **pool, CUdevice device) {
    NEED(need_device(device));
    return cuMemGetDefaultMemPool(pool, &ON_DEVICE, 1);
}

EXPORT CUresult cuDeviceGetMemPool(Pool **pool, CUdevice device) {
    NEED(need_device(device));
    return cuMemGetMemPool(pool, &ON_DEVICE, 1);
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice device, Pool *pool) {
    NEED(need_device(device));
    return cuMemSetMemPool(&ON_DEVICE, 1, pool);
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
