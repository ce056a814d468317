/* The set of handles that are alive: open addressing, at most half full, so a program with thousands of kernels
 * pays no more for a launch than one with a single one. */
#include "common.h"

#include <stdlib.h>

typedef struct {
    const void *handle; /* NULL = free */
    int kind;
} Entry;

static Entry *entries;
static size_t used, room; /* room is a power of two */

static size_t home(const void *handle) { return (size_t)(((uintptr_t)handle >> 4) * 0x9E3779B97F4A7C15u >> 20) & (room - 1); }

/* Where the handle is, or the free entry where it would be put. */
static size_t find(const void *handle, int kind) {
    size_t i = home(handle);
    while (entries[i].handle && !(entries[i].handle == handle && entries[i].kind == kind)) i = (i + 1) & (room - 1);
    return i;
}

static bool grow(void) {
    Entry *old = entries;
    size_t count = room;
    Entry *grown = calloc(room ? 2 * room : 64, sizeof *grown);
    if (!grown) return false;
    entries = grown;
    room = room ? 2 * room : 64;
    for (size_t i = 0; i < count; i++)
        if (old[i].handle) entries[find(old[i].handle, old[i].kind)] = old[i];
    free(old);
    return true;
}

bool registry_add(void *handle, int kind) {
    lock_take();
    bool fits = 2 * (used + 1) <= room || grow();
    if (fits) {
        size_t i = find(handle, kind);
        used += !entries[i].handle;
        entries[i] = (Entry){handle, kind};
    }
    lock_release();
    return fits;
}

void *registry_new(size_t size, int kind) {
    void *made = calloc(1, size);
    if (made && registry_add(made, kind)) return made;
    free(made);
    return NULL;
}

bool registry_has(const void *handle, int kind) {
    lock_take();
    bool found = handle && room && entries[find(handle, kind)].handle;
    lock_release();
    return found;
}

/* What stood behind a removed entry moves up, so that no search ends early. */
static void close_gap(size_t gap) {
    for (size_t i = (gap + 1) & (room - 1); entries[i].handle; i = (i + 1) & (room - 1)) {
        size_t distance = (i - home(entries[i].handle)) & (room - 1);
        if (distance < ((i - gap) & (room - 1))) continue;
        entries[gap] = entries[i];
        gap = i;
    }
    entries[gap].handle = NULL;
}

bool registry_remove(const void *handle, int kind) {
    lock_take();
    size_t i = handle && room ? find(handle, kind) : 0;
    bool found = handle && room && entries[i].handle;
    if (found) {
        close_gap(i);
        used--;
    }
    lock_release();
    return found;
}
