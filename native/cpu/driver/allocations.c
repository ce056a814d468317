/* The blocks of device memory, sorted by address. */
#include "allocations.h"

#include <stdlib.h>
#include <string.h>

static Block *blocks;
static size_t used, room, bytes;

/* Index of the first block that starts after `address`. Call with the lock held. */
static size_t after(uintptr_t address) {
    size_t low = 0, high = used;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (blocks[middle].base <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool overlaps(uintptr_t base, size_t size) {
    size_t i = after(base);
    if (i < used && blocks[i].base - base < size) return true;
    return i > 0 && base - blocks[i - 1].base < blocks[i - 1].size;
}

static bool insert(Block block) {
    if (used == room) {
        size_t more = room ? 2 * room : 64;
        Block *grown = realloc(blocks, more * sizeof *grown);
        if (!grown) return false;
        blocks = grown;
        room = more;
    }
    size_t i = after(block.base);
    memmove(blocks + i + 1, blocks + i, (used - i) * sizeof *blocks);
    blocks[i] = block;
    used++;
    return true;
}

static void erase(size_t i) {
    if (blocks[i].kind < BLOCK_REGISTERED) {
        bytes -= blocks[i].size;
        host_aligned_free((void *)blocks[i].base);
    }
    if (blocks[i].pool) pool_count(blocks[i].pool, 0, blocks[i].size);
    used--;
    memmove(blocks + i, blocks + i + 1, (used - i) * sizeof *blocks);
}

/* We promise no more than the machine has, although the system might overcommit. */
CUresult block_new(uintptr_t *base, size_t size, BlockKind kind, unsigned flags, Pool *pool, Context *owner) {
    if (!base || size == 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t id = next_id();
    lock_take();
    uint64_t total = host_memory_bytes();
    void *memory = size <= total && bytes <= total - size ? host_aligned_alloc(size) : NULL;
    bool kept = memory && insert((Block){(uintptr_t)memory, size, owner, kind, flags, id, pool});
    if (kept) bytes += size;
    if (kept && pool) pool_count(pool, size, 0);
    lock_release();
    if (!kept) {
        host_aligned_free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *base = (uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUresult block_adopt(uintptr_t base, size_t size, BlockKind kind, unsigned flags) {
    if (!base || size == 0 || size > UINTPTR_MAX - base) return CUDA_ERROR_INVALID_VALUE;
    uint64_t id = next_id();
    lock_take();
    CUresult result = CUDA_SUCCESS;
    if (overlaps(base, size)) result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (!insert((Block){base, size, context_current(), kind, flags, id, NULL})) result = CUDA_ERROR_OUT_OF_MEMORY;
    lock_release();
    return result;
}

CUresult block_end(uintptr_t base, BlockKind one, BlockKind other) {
    lock_take();
    size_t i = after(base);
    bool found = i > 0 && blocks[i - 1].base == base && (blocks[i - 1].kind == one || blocks[i - 1].kind == other);
    if (found) erase(i - 1);
    lock_release();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult block_release(uintptr_t base) {
    Block block;
    if (!block_at(base, &block) || block.kind > BLOCK_GRAPH) return CUDA_ERROR_INVALID_VALUE;
    return block.kind == BLOCK_GRAPH ? CUDA_SUCCESS : block_end(base, block.kind, block.kind);
}

static void share(uintptr_t base, bool more) {
    lock_take();
    size_t i = after(base);
    bool found = i > 0 && blocks[i - 1].base == base && blocks[i - 1].kind == BLOCK_GRAPH;
    if (found && more) blocks[i - 1].flags++;
    if (found && !more && --blocks[i - 1].flags == 0) erase(i - 1);
    lock_release();
}

void block_share(uintptr_t base) { share(base, true); }
void block_unshare(uintptr_t base) { share(base, false); }

bool block_at(uintptr_t address, Block *found) {
    lock_take();
    size_t i = after(address);
    bool inside = i > 0 && address - blocks[i - 1].base < blocks[i - 1].size;
    if (inside) *found = blocks[i - 1];
    lock_release();
    return inside;
}

bool block_set_flags(uintptr_t base, unsigned flags) {
    lock_take();
    size_t i = after(base);
    bool found = i > 0 && blocks[i - 1].base == base;
    if (found) blocks[i - 1].flags = flags;
    lock_release();
    return found;
}

enum { MAPPED_READ = 1, MAPPED_WRITE = 2 };

static bool usable(uintptr_t address, size_t size, unsigned access) {
    Block block;
    while (size) {
        if (!block_at(address, &block)) return false;
        if (block.kind == BLOCK_MAPPED && (block.flags & access) != access) return false;
        size_t here = block.size - (address - block.base);
        if (here >= size) return true;
        address += here;
        size -= here;
    }
    return true;
}

bool memory_reachable(uintptr_t address, size_t size) { return usable(address, size, MAPPED_READ); }
bool memory_writable(uintptr_t address, size_t size) { return usable(address, size, MAPPED_READ | MAPPED_WRITE); }
bool block_is_host(BlockKind kind) { return kind == BLOCK_PINNED || kind == BLOCK_REGISTERED; }

size_t block_bytes(void) {
    lock_take();
    size_t sum = bytes;
    lock_release();
    return sum;
}

size_t block_graph_bytes(void) {
    size_t sum = 0;
    lock_take();
    for (size_t i = 0; i < used; i++) sum += blocks[i].kind == BLOCK_GRAPH ? blocks[i].size : 0;
    lock_release();
    return sum;
}

void memory_drop_context(const Context *context) {
    lock_take();
    for (size_t i = used; i-- > 0;)
        if (blocks[i].owner == context) erase(i);
    lock_release();
}
