/* Memory: the device's is the host's, but bounds are kept as a real driver keeps them. */
#include "allocations.h"

#include <string.h>

/* ---- allocation ---- */

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size) {
    CUresult result = need_context();
    if (result) return result;
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t base = 0;
    result = block_new(&base, size, BLOCK_DEVICE, 0);
    if (!result) *pointer = base;
    return result;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned flags) {
    CUresult result = need_context();
    if (result) return result;
    if (!pointer || (flags != 1 && flags != 2)) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t base = 0;
    result = block_new(&base, size, BLOCK_MANAGED, flags);
    if (!result) *pointer = base;
    return result;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) {
    CUresult result = need_context();
    if (result || !pointer) return result;
    return block_end((uintptr_t)pointer, BLOCK_DEVICE, BLOCK_MANAGED);
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, Stream *stream) {
    CUresult result = need_stream(stream);
    return result ? result : cuMemAlloc_v2(pointer, size);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, Stream *stream) {
    CUresult result = need_stream(stream);
    return result ? result : cuMemFree_v2(pointer);
}

EXPORT CUresult cuMemHostAlloc(void **pointer, size_t size, unsigned flags) {
    CUresult result = need_context();
    if (result) return result;
    if (!pointer || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t base = 0;
    result = block_new(&base, size, BLOCK_PINNED, flags);
    if (!result) *pointer = (void *)base;
    return result;
}

EXPORT CUresult cuMemAllocHost_v2(void **pointer, size_t size) { return cuMemHostAlloc(pointer, size, 0); }

EXPORT CUresult cuMemFreeHost(void *pointer) {
    CUresult result = need_context();
    return result ? result : block_end((uintptr_t)pointer, BLOCK_PINNED, BLOCK_PINNED);
}

EXPORT CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags) {
    CUresult result = need_context();
    return result ? result : block_register((uintptr_t)pointer, size, flags);
}

EXPORT CUresult cuMemHostUnregister(void *pointer) {
    CUresult result = need_context();
    if (result) return result;
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    result = block_end((uintptr_t)pointer, BLOCK_REGISTERED, BLOCK_REGISTERED);
    return result ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_SUCCESS;
}

/* ---- questions ---- */

static bool is_host(BlockKind kind) { return kind == BLOCK_PINNED || kind == BLOCK_REGISTERED; }

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
    CUresult result = need_context();
    if (result) return result;
    Block block;
    if (!device || flags || !block_at((uintptr_t)host, &block) || !is_host(block.kind))
        return CUDA_ERROR_INVALID_VALUE;
    *device = (uintptr_t)host;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *host) {
    CUresult result = need_context();
    if (result) return result;
    Block block;
    if (!flags || !block_at((uintptr_t)host, &block) || !is_host(block.kind)) return CUDA_ERROR_INVALID_VALUE;
    *flags = block.flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
    CUresult result = need_context();
    if (result) return result;
    size_t all = (size_t)host_memory_bytes(), taken = block_bytes();
    if (unused) *unused = taken < all ? all - taken : 0;
    if (total) *total = all;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer) {
    CUresult result = need_context();
    if (result) return result;
    Block block;
    if (!block_at((uintptr_t)pointer, &block)) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = block.base;
    if (size) *size = block.size;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer) {
    CUresult result = need_context();
    if (result) return result;
    Block block;
    if (!data || !block_at((uintptr_t)pointer, &block)) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case 1: memcpy(data, &block.owner, sizeof block.owner); break;    /* CONTEXT */
    case 2: *(unsigned *)data = is_host(block.kind) ? 1 : 2; break;   /* MEMORY_TYPE: host, device */
    case 3: *(CUdeviceptr *)data = pointer; break;                    /* DEVICE_POINTER */
    case 4:                                                           /* HOST_POINTER */
        if (block.kind == BLOCK_DEVICE) return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)pointer;
        break;
    case 8: *(unsigned char *)data = block.kind == BLOCK_MANAGED; break; /* IS_MANAGED */
    case 9: *(int *)data = 0; break;                                  /* DEVICE_ORDINAL */
    case 11: *(CUdeviceptr *)data = block.base; break;                /* RANGE_START_ADDR */
    case 12: *(size_t *)data = block.size; break;                     /* RANGE_SIZE */
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

/* ---- copies ---- */

typedef enum { ANYWHERE, ON_DEVICE } Side;

static bool reachable(uintptr_t address, size_t size, Side side) {
    Block block;
    if (!address) return false;
    if (!block_at(address, &block)) return side == ANYWHERE;
    return size <= block.size - (address - block.base);
}

static CUresult copy(uintptr_t to, Side to_side, uintptr_t from, Side from_side, size_t size) {
    CUresult result = need_context();
    if (result || size == 0) return result;
    if (!reachable(to, size, to_side) || !reachable(from, size, from_side)) return CUDA_ERROR_INVALID_VALUE;
    memmove((void *)to, (const void *)from, size);
    return CUDA_SUCCESS;
}

#define COPY(name, async_name, ToType, to_side, FromType, from_side)                                   \
    EXPORT CUresult name(ToType to, FromType from, size_t size) {                                      \
        return copy((uintptr_t)to, to_side, (uintptr_t)from, from_side, size);                         \
    }                                                                                                  \
    EXPORT CUresult async_name(ToType to, FromType from, size_t size, Stream *stream) {                \
        CUresult result = need_stream(stream);                                                         \
        return result ? result : copy((uintptr_t)to, to_side, (uintptr_t)from, from_side, size);       \
    }

COPY(cuMemcpy, cuMemcpyAsync, CUdeviceptr, ANYWHERE, CUdeviceptr, ANYWHERE)
COPY(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, CUdeviceptr, ON_DEVICE, const void *, ANYWHERE)
COPY(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, void *, ANYWHERE, CUdeviceptr, ON_DEVICE)
COPY(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, CUdeviceptr, ON_DEVICE, CUdeviceptr, ON_DEVICE)

/* ---- filling ---- */

#define FILL(name, async_name, Type)                                                                   \
    EXPORT CUresult name(CUdeviceptr to, Type value, size_t count) {                                   \
        CUresult result = need_context();                                                              \
        if (result || count == 0) return result;                                                       \
        if (to % sizeof(Type) || count > SIZE_MAX / sizeof(Type)) return CUDA_ERROR_INVALID_VALUE;     \
        if (!reachable((uintptr_t)to, count * sizeof(Type), ON_DEVICE)) return CUDA_ERROR_INVALID_VALUE; \
        Type *cells = (Type *)(uintptr_t)to;                                                           \
        for (size_t i = 0; i < count; i++) cells[i] = value;                                           \
        return CUDA_SUCCESS;                                                                           \
    }                                                                                                  \
    EXPORT CUresult async_name(CUdeviceptr to, Type value, size_t count, Stream *stream) {             \
        CUresult result = need_stream(stream);                                                         \
        return result ? result : name(to, value, count);                                               \
    }

FILL(cuMemsetD8_v2, cuMemsetD8Async, unsigned char)
FILL(cuMemsetD16_v2, cuMemsetD16Async, unsigned short)
FILL(cuMemsetD32_v2, cuMemsetD32Async, unsigned)
