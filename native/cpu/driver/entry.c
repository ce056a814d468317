/* Every call this library answers, by name. Only addresses are taken here, so signatures do not matter. */
#include "entry.h"

#include <string.h>

#define SINCE(version, name, symbol) extern void symbol(void);
#define THREAD(version, name, symbol, variant) extern void symbol(void), symbol##variant(void);
#define STUB(symbol) extern void symbol(void);
#include "entries.h"
#include "../exports/nvcuda.h"
#undef SINCE
#undef THREAD
#undef STUB

typedef struct {
    const char *name, *symbol;
    int since;
    Call call, own; /* with the legacy default stream, with the thread's */
} Entry;

#define SINCE(version, name, symbol) {#name, #symbol, version, symbol, symbol},
#define THREAD(version, name, symbol, variant) {#name, #symbol, version, symbol, symbol##variant},
static const Entry ENTRIES[] = {
#include "entries.h"
};

#define STUB(symbol) {#symbol, symbol},
static const struct {
    const char *symbol;
    Call call;
} STUBS[] = {
#include "../exports/nvcuda.h"
};

/* The newest of our calls of that name which a program of `version` knows. */
static const Entry *versioned(const char *name, int version, bool *too_new) {
    const Entry *best = NULL;
    for (size_t i = 0; i < sizeof ENTRIES / sizeof *ENTRIES; i++) {
        const Entry *entry = &ENTRIES[i];
        if (strcmp(entry->name, name) != 0) continue;
        if (entry->since > version) *too_new = true;
        else if (!best || entry->since >= best->since) best = entry;
    }
    return best;
}

/* `name` itself or with the suffix of a later version: all of them give the same answer. */
static Call stub(const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof STUBS / sizeof *STUBS; i++) {
        const char *symbol = STUBS[i].symbol;
        if (strncmp(symbol, name, length) != 0) continue;
        const char *rest = symbol + length;
        if (*rest == '\0' || (rest[0] == '_' && rest[1] == 'v' && rest[2] && !rest[3])) return STUBS[i].call;
    }
    return NULL;
}

static const Entry *exact(const char *name) {
    for (size_t i = 0; i < sizeof ENTRIES / sizeof *ENTRIES; i++)
        if (strcmp(ENTRIES[i].symbol, name) == 0) return ENTRIES + i;
    return NULL;
}

Call entry_find(const char *name, int version, bool per_thread, bool *too_new) {
    *too_new = false;
    const Entry *entry = versioned(name, version, too_new);
    if (!entry && !*too_new) entry = exact(name);
    if (!entry) return *too_new ? NULL : stub(name);
    *too_new = false;
    return per_thread ? entry->own : entry->call;
}
