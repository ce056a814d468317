/* The list of handles that are alive. Programs hold few of them, so a plain array serves. */
#include "common.h"

#include <stdlib.h>

typedef struct {
    const void *handle;
    int kind;
} Entry;

static Entry *entries;
static size_t used, room;

static size_t find(const void *handle, int kind) {
    size_t i = 0;
    while (i < used && !(entries[i].handle == handle && entries[i].kind == kind)) i++;
    return i;
}

bool registry_add(void *handle, int kind) {
    lock_take();
    if (used == room) {
        size_t more = room ? 2 * room : 16;
        Entry *grown = realloc(entries, more * sizeof *grown);
        if (!grown) {
            lock_release();
            return false;
        }
        entries = grown;
        room = more;
    }
    entries[used++] = (Entry){handle, kind};
    lock_release();
    return true;
}

bool registry_has(const void *handle, int kind) {
    lock_take();
    bool found = find(handle, kind) < used;
    lock_release();
    return found;
}

bool registry_remove(const void *handle, int kind) {
    lock_take();
    size_t i = find(handle, kind);
    bool found = i < used;
    if (found) entries[i] = entries[--used];
    lock_release();
    return found;
}
