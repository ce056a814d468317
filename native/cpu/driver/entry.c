/* Every call this library answers, by name. Only addresses are taken here, so signatures do not matter. */
#include "entry.h"

#include <string.h>

#define SINCE(version, name, symbol) extern void symbol(void);
#define THREAD(symbol, variant) extern void symbol##variant(void);
#define STUB(symbol) extern void symbol(void);
#include "entries.h"
#include "../exports/nvcuda.h"
#undef SINCE
#undef THREAD
#undef STUB

typedef struct {
    const char *name, *symbol;
    int since;
    Call call;
} Entry;

#define SINCE(version, name, symbol) {#name, #symbol, version, symbol},
#define THREAD(symbol, variant)
static const Entry ENTRIES[] = {
#include "entries.h"
};
#undef SINCE
#undef THREAD

#define SINCE(version, name, symbol)
#define THREAD(symbol, variant) {symbol, symbol##variant},
static const struct {
    Call call, own;
} THREADS[] = {
#include "entries.h"
};

/* The same call with the thread's own default stream. */
static Call own_variant(Call call) {
    for (size_t i = 0; i < sizeof THREADS / sizeof *THREADS; i++)
        if (THREADS[i].call == call) return THREADS[i].own;
    return call;
}

#define STUB(symbol) {#symbol, symbol},
static const struct {
    const char *symbol;
    Call call;
} STUBS[] = {
#include "../exports/nvcuda.h"
};

/* The newest of our calls of that name which a program of `version` knows. */
static Call versioned(const char *name, int version, bool *too_new) {
    const Entry *best = NULL;
    for (size_t i = 0; i < sizeof ENTRIES / sizeof *ENTRIES; i++) {
        const Entry *entry = &ENTRIES[i];
        if (strcmp(entry->name, name) != 0) continue;
        if (entry->since > version) *too_new = true;
        else if (!best || entry->since >= best->since) best = entry;
    }
    return best ? best->call : NULL;
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

static Call exact(const char *name) {
    for (size_t i = 0; i < sizeof ENTRIES / sizeof *ENTRIES; i++)
        if (strcmp(ENTRIES[i].symbol, name) == 0) return ENTRIES[i].call;
    return NULL;
}

Call entry_find(const char *name, int version, bool per_thread, bool *too_new) {
    *too_new = false;
    Call call = versioned(name, version, too_new);
    if (!call && !*too_new) call = exact(name);
    if (!call && !*too_new) call = stub(name);
    if (call) *too_new = false;
    return per_thread ? own_variant(call) : call;
}
