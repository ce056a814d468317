/* Which memory belongs to the device: blocks sorted by address. */
#ifndef CPU_ALLOCATIONS_H
#define CPU_ALLOCATIONS_H

#include "driver.h"

typedef enum {
    BLOCK_DEVICE, BLOCK_MANAGED, BLOCK_PINNED, BLOCK_GRAPH, /* ours */
    BLOCK_REGISTERED, BLOCK_VARIABLE, BLOCK_MAPPED, /* freed elsewhere: by the program, a module, a mapping */
} BlockKind;

typedef struct {
    uintptr_t base;
    size_t size;
    Context *owner;
    BlockKind kind;
    unsigned flags; /* BLOCK_MAPPED: CUmemAccess_flags, 0 = no access; BLOCK_GRAPH: how many nodes hold it */
    uint64_t id;
    Pool *pool;
} Block;

CUresult block_new(uintptr_t *base, size_t size, BlockKind kind, unsigned flags, Pool *pool, Context *owner);

/* Memory that is not ours; ALREADY_REGISTERED if some of it is known. */
CUresult block_adopt(uintptr_t base, size_t size, BlockKind kind, unsigned flags);

/* Forget (and, if ours, free) the block that starts at `base` and is of one of the two kinds. */
CUresult block_end(uintptr_t base, BlockKind one, BlockKind other);

/* Free the device, managed or pinned block that starts at `base`, whichever it is; a graph's stays, its nodes hold it. */
CUresult block_release(uintptr_t base);

/* A graph's memory lives as long as a node that allocates it, in any copy of the graph. */
void block_share(uintptr_t base);
void block_unshare(uintptr_t base);

bool block_at(uintptr_t address, Block *found);
bool block_set_flags(uintptr_t base, unsigned flags);
size_t block_bytes(void); /* all that is handed out */
size_t block_graph_bytes(void); /* of it, what graphs hold */

/* Whether the device may use all of it; it may lie in several adjacent blocks. */
bool memory_reachable(uintptr_t address, size_t size);
bool memory_writable(uintptr_t address, size_t size);
bool block_is_host(BlockKind kind);

void pool_count(Pool *pool, size_t more, size_t less); /* with the lock held */

#endif
