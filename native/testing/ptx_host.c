/* A host for the PTX engine alone: allocations it knows, and what kernels print. Built into a library for tests. */
#include "../cpu/ptx/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

enum { ALLOCATIONS = 4096, PRINTED = 1 << 20 };
static struct {
    uint64_t begin, end;
} allocations[ALLOCATIONS];
static char printed[PRINTED];
static size_t printed_size;

static void bounds(uint64_t address, uint64_t *begin, uint64_t *end) {
    *begin = *end = 0;
    for (int i = 0; i < ALLOCATIONS; i++)
        if (address >= allocations[i].begin && address < allocations[i].end) *begin = allocations[i].begin, *end = allocations[i].end;
}

static bool allowed(uint64_t address, size_t size) {
    uint64_t begin, end;
    bounds(address, &begin, &end);
    return begin < end && size <= end - address;
}

static void print(const char *bytes, size_t size) {
    if (size > PRINTED - printed_size) size = PRINTED - printed_size;
    memcpy(printed + printed_size, bytes, size);
    printed_size += size;
}

static unsigned attribute(int which) { return which == PTX_SM_COUNT ? 16 : 0; }

/* The memory is the caller's; it is only made known. */
EXPORTED bool test_allow(uint64_t address, uint64_t size) {
    static const struct ptx_host host = {allowed, allowed, bounds, attribute, print};
    ptx_set_host(&host);
    for (int i = 0; i < ALLOCATIONS; i++)
        if (!allocations[i].end) {
            allocations[i].begin = address;
            allocations[i].end = address + size;
            return true;
        }
    return false;
}

EXPORTED void test_forbid(uint64_t address) {
    for (int i = 0; i < ALLOCATIONS; i++)
        if (allocations[i].begin == address) allocations[i].begin = allocations[i].end = 0;
}

EXPORTED size_t test_printed(char *to, size_t room) {
    size_t size = printed_size < room ? printed_size : room;
    memcpy(to, printed, size);
    printed_size = 0;
    return size;
}

EXPORTED int test_load(const char *const *texts, const size_t *sizes, size_t count, struct ptx_module **out, struct ptx_error *error) {
    return ptx_module_load(texts, sizes, count, out, error);
}
EXPORTED void test_unload(struct ptx_module *module) { ptx_module_unload(module); }
EXPORTED struct ptx_function *test_function(struct ptx_module *module, const char *name) { return ptx_function_find(module, name); }
EXPORTED bool test_global(struct ptx_module *module, const char *name, void **address, size_t *size) { return ptx_global_find(module, name, address, size); }
EXPORTED bool test_parameter(struct ptx_function *function, size_t index, size_t *offset, size_t *size) { return ptx_parameter(function, index, offset, size); }
EXPORTED void test_attributes(struct ptx_function *function, struct ptx_attributes *out) { ptx_function_attributes(function, out); }
EXPORTED int test_launch(struct ptx_function *function, const struct ptx_launch *launch, struct ptx_error *error) { return ptx_launch(function, launch, error); }
