/* Which memory belongs to the device: blocks sorted by address. */
#ifndef CPU_ALLOCATIONS_H
#define CPU_ALLOCATIONS_H

#include "driver.h"

typedef enum { BLOCK_DEVICE, BLOCK_MANAGED, BLOCK_PINNED, BLOCK_REGISTERED } BlockKind;

typedef struct {
    uintptr_t base;
    size_t size;
    const Context *owner;
    BlockKind kind;
    unsigned flags;
} Block;

CUresult block_new(uintptr_t *base, size_t size, BlockKind kind, unsigned flags);
CUresult block_register(uintptr_t base, size_t size, unsigned flags);

/* Forget (and, if ours, free) the block that starts at `base` and is of one of the two kinds. */
CUresult block_end(uintptr_t base, BlockKind one, BlockKind other);

bool block_at(uintptr_t address, Block *found);
size_t block_bytes(void); /* all that is handed out */

#endif
