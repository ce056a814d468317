/* Memory: the device's is the host's, but bounds are kept as a real driver keeps them. */
#include "allocations.h"
#include "queue.h"

#include <string.h>

/* ---- allocation ---- */

static CUresult allocate(CUdeviceptr *pointer, size_t size, BlockKind kind, unsigned flags, Pool *pool) {
    NEED_VALUE(pointer);
    uintptr_t base = 0;
    NEED(block_new(&base, size, kind, flags, pool, context_current()));
    *pointer = base;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size) {
    NEED(need_context());
    return allocate(pointer, size, BLOCK_DEVICE, 0, NULL);
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
    NEED(need_context());
    NEED_VALUE(pitch && width && height && width <= SIZE_MAX - 511 && (element == 4 || element == 8 || element == 16));
    size_t row = (width + 511) / 512 * 512;
    NEED_VALUE(height <= SIZE_MAX / row);
    NEED(allocate(pointer, row * height, BLOCK_DEVICE, 0, NULL));
    *pitch = row;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned flags) {
    NEED(need_context());
    NEED_VALUE(flags == 1 || flags == 2);
    return allocate(pointer, size, BLOCK_MANAGED, flags, NULL);
}

/* As on CUDA, freeing waits for the work that may still use the memory, and its context need not be current. */
static CUresult release(uintptr_t base, BlockKind one, BlockKind other) {
    Block block;
    bool known = block_at(base, &block);
    NEED(need_owner(known ? block.owner : NULL));
    if (known && block.owner) context_wait(block.owner);
    return block_end(base, one, other);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) {
    Block block;
    if (!pointer) return need_owner(NULL);
    if (block_at((uintptr_t)pointer, &block) && block.kind == BLOCK_GRAPH) return need_owner(block.owner); /* its graph holds it */
    return release((uintptr_t)pointer, BLOCK_DEVICE, BLOCK_MANAGED);
}

EXPORT CUresult cuMemHostAlloc(void **pointer, size_t size, unsigned flags) {
    NEED(need_context());
    NEED_VALUE(pointer && flags <= 7);
    CUdeviceptr base;
    NEED(allocate(&base, size, BLOCK_PINNED, flags, NULL));
    *pointer = (void *)(uintptr_t)base;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocHost_v2(void **pointer, size_t size) { return cuMemHostAlloc(pointer, size, 0); }

EXPORT CUresult cuMemFreeHost(void *pointer) { return release((uintptr_t)pointer, BLOCK_PINNED, BLOCK_PINNED); }

EXPORT CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags) {
    NEED(need_context());
    NEED_VALUE(flags <= 15);
    return block_adopt((uintptr_t)pointer, size, BLOCK_REGISTERED, flags);
}

EXPORT CUresult cuMemHostUnregister(void *pointer) {
    NEED(need_context());
    NEED_VALUE(pointer);
    CUresult result = release((uintptr_t)pointer, BLOCK_REGISTERED, BLOCK_REGISTERED);
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_SUCCESS;
}

/* ---- questions ---- */

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
    NEED(need_context());
    Block block;
    NEED_VALUE(device && !flags && block_at((uintptr_t)host, &block) && block_is_host(block.kind));
    *device = (uintptr_t)host;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *host) {
    NEED(need_context());
    Block block;
    NEED_VALUE(flags && block_at((uintptr_t)host, &block) && block_is_host(block.kind));
    *flags = block.flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
    NEED(need_context());
    size_t all = (size_t)host_memory_bytes(), taken = block_bytes();
    if (unused) *unused = taken < all ? all - taken : 0;
    if (total) *total = all;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer) {
    NEED(need_context());
    Block block;
    if (!block_at((uintptr_t)pointer, &block)) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = block.base;
    if (size) *size = block.size;
    return CUDA_SUCCESS;
}

/* `block` is NULL for an unknown address: then every answer is zero. */
static CUresult pointer_answer(void *data, int attribute, CUdeviceptr pointer, const Block *block) {
    static const Block none;
    const Block *at = block ? block : &none;
    bool host = block && block_is_host(at->kind);
    bool visible = block && (host || at->kind == BLOCK_MANAGED); /* to the program's own code */
    switch (attribute) {
    case 1: memcpy(data, &at->owner, sizeof at->owner); break;                                  /* CONTEXT */
    case 2: *(unsigned *)data = !block ? 0 : host ? MEMORY_HOST : MEMORY_DEVICE; break;        /* MEMORY_TYPE */
    case 3: *(CUdeviceptr *)data = block ? pointer : 0; break;                                  /* DEVICE_POINTER */
    case 4: *(uintptr_t *)data = visible ? (uintptr_t)pointer : 0;                              /* HOST_POINTER */
        return !block || visible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 6: *(unsigned *)data = 1; break;                                                       /* SYNC_MEMOPS */
    case 7: *(uint64_t *)data = at->id; break;                                                  /* BUFFER_ID */
    case 8: *(unsigned char *)data = block && at->kind == BLOCK_MANAGED; break;                 /* IS_MANAGED */
    case 9: *(int *)data = block ? 0 : -2; break;                                               /* DEVICE_ORDINAL */
    case 10: case 15: case 21: *(unsigned char *)data = 0; break; /* IPC, GPUDirect, hardware decompression */
    case 11: case 19: *(uintptr_t *)data = at->base; break;                                     /* RANGE_START, MAPPING_BASE */
    case 12: case 18: *(size_t *)data = at->size; break;                                        /* RANGE_SIZE, MAPPING_SIZE */
    case 13: *(unsigned char *)data = block != NULL; break;                                     /* MAPPED */
    case 14: *(uint64_t *)data = 0; break;                                                      /* ALLOWED_HANDLE_TYPES */
    case 16: *(unsigned *)data = !block ? 0 : at->kind == BLOCK_MAPPED ? at->flags : 3; break;  /* ACCESS_FLAGS */
    case 17: *(Pool **)data = at->pool; break;                                                  /* MEMPOOL_HANDLE */
    case 20: *(uint64_t *)data = at->id; break;                                                 /* MEMORY_BLOCK_ID */
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer) {
    NEED(need_owner(NULL));
    Block block;
    NEED_VALUE(data && block_at((uintptr_t)pointer, &block));
    return pointer_answer(data, attribute, pointer, &block);
}

EXPORT CUresult cuPointerGetAttributes(unsigned count, const int *attributes, void **data, CUdeviceptr pointer) {
    NEED(need_owner(NULL));
    NEED_VALUE(count && attributes && data);
    Block block;
    bool known = block_at((uintptr_t)pointer, &block);
    for (unsigned i = 0; i < count; i++) {
        NEED_VALUE(data[i]);
        CUresult result = pointer_answer(data[i], attributes[i], pointer, known ? &block : NULL);
        if (result && !(known && attributes[i] == 4)) return result;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr pointer) {
    NEED(need_context());
    Block block;
    NEED_VALUE(value && attribute == 6 && block_at((uintptr_t)pointer, &block)); /* copies are always synchronous enough */
    return CUDA_SUCCESS;
}

/* ---- managed memory: it is always where it is needed ---- */

static CUresult advise(CUdeviceptr pointer, size_t size) {
    NEED(need_context());
    NEED_VALUE(size && memory_reachable((uintptr_t)pointer, size));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAdvise(CUdeviceptr pointer, size_t size, int advice, CUdevice device) {
    (void)device;
    NEED_VALUE(advice >= 1 && advice <= 6);
    return advise(pointer, size);
}

EXPORT CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t size, int advice, Location where) {
    return cuMemAdvise(pointer, size, advice, where.id);
}

EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t size, CUdevice to, Stream *stream) {
    (void)to;
    NEED(need_stream(&stream));
    return advise(pointer, size);
}

EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t size, Location to, unsigned flags, Stream *stream) {
    NEED_VALUE(!flags);
    return cuMemPrefetchAsync(pointer, size, to.id, stream);
}

EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t size, int attribute, CUdeviceptr pointer, size_t count) {
    NEED(advise(pointer, count));
    NEED_VALUE(data && size >= 4 && attribute >= 1 && attribute <= 8);
    memset(data, 0, size);
    if (attribute == 2 || attribute == 3 || attribute == 4) *(int *)data = -2; /* no device was ever named */
    return CUDA_SUCCESS;
}
