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
    if (blocks[i].kind != BLOCK_REGISTERED) {
        bytes -= blocks[i].size;
        host_aligned_free((void *)blocks[i].base);
    }
    used--;
    memmove(blocks + i, blocks + i + 1, (used - i) * sizeof *blocks);
}

/* We promise no more than the machine has, although the system might overcommit. */
CUresult block_new(uintptr_t *base, size_t size, BlockKind kind, unsigned flags) {
    if (!base || size == 0) return CUDA_ERROR_INVALID_VALUE;
    lock_take();
    uint64_t total = host_memory_bytes();
    void *memory = size <= total && bytes <= total - size ? host_aligned_alloc(size) : NULL;
    bool kept = memory && insert((Block){(uintptr_t)memory, size, context_current(), kind, flags});
    if (kept) bytes += size;
    lock_release();
    if (!kept) {
        host_aligned_free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *base = (uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUresult block_register(uintptr_t base, size_t size, unsigned flags) {
    if (!base || size == 0 || size > UINTPTR_MAX - base) return CUDA_ERROR_INVALID_VALUE;
    lock_take();
    CUresult result = CUDA_SUCCESS;
    if (overlaps(base, size)) result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (!insert((Block){base, size, context_current(), BLOCK_REGISTERED, flags}))
        result = CUDA_ERROR_OUT_OF_MEMORY;
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

bool block_at(uintptr_t address, Block *found) {
    lock_take();
    size_t i = after(address);
    bool inside = i > 0 && address - blocks[i - 1].base < blocks[i - 1].size;
    if (inside) *found = blocks[i - 1];
    lock_release();
    return inside;
}

size_t block_bytes(void) {
    lock_take();
    size_t sum = bytes;
    lock_release();
    return sum;
}

void memory_drop_context(const Context *context) {
    lock_take();
    for (size_t i = used; i-- > 0;)
        if (blocks[i].owner == context) erase(i);
    lock_release();
}
