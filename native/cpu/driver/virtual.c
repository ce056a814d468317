/* Virtual memory: addresses and memory apart. On Linux only: Windows cannot put one piece of memory at two addresses
 * of the program's choice without functions that older versions lack. */
#ifndef _WIN32
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
#endif
#include "allocations.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>

enum { GRANULARITY = 2 << 20 };

typedef struct { /* CUmemAllocationProp */
    int type, handles;
    Location location;
    void *security;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
} MemoryProps;

typedef struct {
    MemoryProps props;
    size_t size;
    int file;
    unsigned references; /* the handle's and every mapping's */
} Memory;

typedef struct Mapping {
    uintptr_t base;
    size_t size;
    Memory *memory;
    struct Mapping *next;
} Mapping;

typedef struct Range {
    uintptr_t base;
    size_t size;
    struct Range *next;
} Range;

static Mapping *mappings; /* both under the lock */
static Range *ranges;

static bool whole(size_t number) { return number && number % GRANULARITY == 0; }

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const MemoryProps *props, int option) {
    NEED(need_init());
    NEED_VALUE(granularity && props && (option == 0 || option == 1) && props->location.type == 1 && props->location.id == 0);
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

#ifdef _WIN32

static CUresult make_file(Memory *memory) { (void)memory; return CUDA_ERROR_NOT_SUPPORTED; }
static void close_file(Memory *memory) { (void)memory; }
static void *reserve(size_t size, size_t alignment, uintptr_t wish) { (void)size, (void)alignment, (void)wish; return NULL; }
static void unreserve(uintptr_t base, size_t size) { (void)base, (void)size; }
static bool map_file(uintptr_t base, size_t size, const Memory *memory, size_t offset) {
    (void)base, (void)size, (void)memory, (void)offset;
    return false;
}
static bool unmap(uintptr_t base, size_t size) { (void)base, (void)size; return false; }
static const CUresult NOTHING_RESERVED = CUDA_ERROR_NOT_SUPPORTED;

#else

static const CUresult NOTHING_RESERVED = CUDA_ERROR_OUT_OF_MEMORY;

static CUresult make_file(Memory *memory) {
    memory->file = memfd_create("cpu-reference", MFD_CLOEXEC);
    if (memory->file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    if (ftruncate(memory->file, (off_t)memory->size) == 0) return CUDA_SUCCESS;
    close(memory->file);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static void close_file(Memory *memory) { close(memory->file); }

static void *reserve(size_t size, size_t alignment, uintptr_t wish) {
    size_t whole = size + alignment;
    char *start = mmap((void *)wish, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    char *base = (char *)(((uintptr_t)start + alignment - 1) / alignment * alignment);
    if (base > start) munmap(start, (size_t)(base - start));
    if (base + size < start + whole) munmap(base + size, (size_t)(start + whole - base) - size);
    return base;
}

static void unreserve(uintptr_t base, size_t size) { munmap((void *)base, size); }

/* Access is the block's matter: a program's own code may always look. */
static bool map_file(uintptr_t base, size_t size, const Memory *memory, size_t offset) {
    return mmap((void *)base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->file, (off_t)offset) != MAP_FAILED;
}

static bool unmap(uintptr_t base, size_t size) {
    return mmap((void *)base, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

#endif

/* ---- memory ---- */

EXPORT CUresult cuMemCreate(Memory **memory, size_t size, const MemoryProps *props, unsigned long long flags) {
    NEED(need_init());
    NEED_VALUE(memory && props && !flags && whole(size) && props->type == 1 && props->location.type == 1 && props->location.id == 0);
    if (props->handles) return CUDA_ERROR_NOT_SUPPORTED;
    if (size > host_memory_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
    Memory *made = calloc(1, sizeof *made);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (Memory){.props = *props, .size = size, .references = 1};
    CUresult result = make_file(made);
    if (!result && !registry_add(made, HANDLE_MEMORY)) {
        close_file(made);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result) free(made);
    else *memory = made;
    return result;
}

static NEED_HANDLE(need_memory, Memory, HANDLE_MEMORY, need_init(), CUDA_ERROR_INVALID_VALUE)

static void memory_release(Memory *memory) {
    if (lock_count(&memory->references, -1)) return;
    registry_remove(memory, HANDLE_MEMORY);
    close_file(memory);
    free(memory);
}

EXPORT CUresult cuMemRelease(Memory *memory) {
    NEED(need_memory(memory));
    memory_release(memory);
    return CUDA_SUCCESS;
}

ANSWER(cuMemGetAllocationPropertiesFromHandle, (MemoryProps *props, Memory *memory), need_memory(memory), props, memory->props)

/* ---- addresses ---- */

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr wish, unsigned long long flags) {
    NEED(need_init());
    NEED_VALUE(pointer && !flags && whole(size) && (alignment & (alignment - 1)) == 0);
    Range *made = calloc(1, sizeof *made);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    void *base = reserve(size, alignment > GRANULARITY ? alignment : GRANULARITY, (uintptr_t)wish);
    if (!base) {
        free(made);
        return NOTHING_RESERVED;
    }
    lock_take();
    *made = (Range){(uintptr_t)base, size, ranges};
    ranges = made;
    lock_release();
    *pointer = (uintptr_t)base;
    return CUDA_SUCCESS;
}

static bool any_mapped(uintptr_t base, size_t size) {
    bool any = false;
    for (Mapping *mapping = mappings; mapping; mapping = mapping->next)
        any = any || (mapping->base < base + size && base < mapping->base + mapping->size);
    return any;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size) {
    NEED(need_init());
    lock_take();
    Range **place = &ranges;
    while (*place && ((*place)->base != pointer || (*place)->size != size)) place = &(*place)->next;
    Range *found = any_mapped((uintptr_t)pointer, size) ? NULL : *place;
    if (found) *place = found->next;
    lock_release();
    NEED_VALUE(found);
    unreserve(found->base, found->size);
    free(found);
    return CUDA_SUCCESS;
}

static bool reserved(uintptr_t base, size_t size) {
    bool inside = false;
    for (Range *range = ranges; range; range = range->next)
        inside = inside || (base >= range->base && size <= range->size && base - range->base <= range->size - size);
    return inside;
}

EXPORT CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, Memory *memory, unsigned long long flags) {
    NEED(need_memory(memory));
    uintptr_t base = (uintptr_t)pointer;
    NEED_VALUE(!flags && whole(size) && base % GRANULARITY == 0 && offset % GRANULARITY == 0);
    NEED_VALUE(size <= memory->size && offset <= memory->size - size);
    Mapping *made = calloc(1, sizeof *made);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    lock_take();
    bool free_place = reserved(base, size) && !any_mapped(base, size);
    if (free_place) {
        *made = (Mapping){base, size, memory, mappings};
        mappings = made;
        memory->references++;
    }
    lock_release();
    if (free_place && map_file(base, size, memory, offset)) return block_adopt(base, size, BLOCK_MAPPED, 0);
    if (!free_place) free(made);
    return free_place ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE;
}

/* The mapping that starts at `base`, taken out of the list. */
static Mapping *take_mapping(uintptr_t base) {
    lock_take();
    Mapping **place = &mappings;
    while (*place && (*place)->base != base) place = &(*place)->next;
    Mapping *found = *place;
    if (found) *place = found->next;
    lock_release();
    return found;
}

/* Whether whole mappings make up the range. */
static bool made_of_mappings(uintptr_t base, size_t size) {
    size_t covered = 0;
    lock_take();
    for (Mapping *mapping = mappings; mapping; mapping = mapping->next)
        if (mapping->base >= base && mapping->size <= size && mapping->base - base <= size - mapping->size) covered += mapping->size;
    lock_release();
    return covered == size;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr pointer, size_t size) {
    NEED(need_init());
    NEED_VALUE(whole(size) && made_of_mappings((uintptr_t)pointer, size));
    if (context_current()) context_wait(context_current());
    for (uintptr_t base = (uintptr_t)pointer, end = base + size; base < end;) {
        Mapping *mapping = take_mapping(base);
        if (!mapping) return CUDA_ERROR_INVALID_VALUE;
        block_end(base, BLOCK_MAPPED, BLOCK_MAPPED);
        bool gone = unmap(base, mapping->size);
        base += mapping->size;
        memory_release(mapping->memory);
        free(mapping);
        if (!gone) return CUDA_ERROR_OPERATING_SYSTEM;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const AccessDesc *access, size_t count) {
    NEED(need_init());
    NEED_VALUE(whole(size) && access && count && made_of_mappings((uintptr_t)pointer, size));
    for (size_t i = 0; i < count; i++) {
        unsigned flags = access[i].flags;
        NEED_VALUE(access[i].location.type == 1 && access[i].location.id == 0 && (flags == 0 || flags == 1 || flags == 3));
        Block block;
        for (uintptr_t base = (uintptr_t)pointer, end = base + size; base < end && block_at(base, &block); base += block.size)
            block_set_flags(base, flags);
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const Location *where, CUdeviceptr pointer) {
    NEED(need_init());
    Block block;
    NEED_VALUE(flags && where && where->type == 1 && where->id == 0 && block_at((uintptr_t)pointer, &block));
    *flags = block.kind == BLOCK_MAPPED ? block.flags : 3;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRetainAllocationHandle(Memory **memory, void *address) {
    NEED(need_init());
    NEED_VALUE(memory);
    lock_take();
    Mapping *mapping = mappings;
    while (mapping && !((uintptr_t)address >= mapping->base && (uintptr_t)address - mapping->base < mapping->size)) mapping = mapping->next;
    *memory = mapping ? mapping->memory : NULL;
    if (mapping) mapping->memory->references++;
    lock_release();
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
