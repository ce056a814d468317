/* What nvcc's programs register when they start: fat binaries, kernels, variables. Loaded when they are first needed. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

typedef struct Binary {
    const void *wrapper;
    Module *library;
    int error;
    bool loaded;
    struct Binary *next;
} Binary;

typedef struct Symbol { /* a kernel or a variable */
    const void *host;
    const char *name;
    Binary *binary;
    Function *function;
    void **managed; /* where the program keeps the address of a managed variable */
    bool variable;
    size_t size;
    struct Symbol *next; /* in the same bucket */
} Symbol;

enum { BUCKETS = 4096 };

static Binary *binaries;
static Symbol *symbols[BUCKETS];

static size_t bucket(const void *host) { return (size_t)(((Word)host >> 3) * 0x9E3779B97F4A7C15u >> 40) % BUCKETS; }

static int load(Binary *binary) {
    TRY(ready());
    lock_take();
    bool mine = !binary->loaded;
    lock_release();
    if (!mine) return keep(binary->error);
    Module *library = NULL;
    int error = DRIVER("cuLibraryLoadData", &library, binary->wrapper, 0, 0, 0, 0, 0, 0);
    lock_take();
    bool first = !binary->loaded;
    if (first) {
        binary->library = library;
        binary->error = error;
        binary->loaded = true;
    }
    lock_release();
    if (!first && !error) DRIVER("cuLibraryUnload", library);
    return keep(binary->error);
}

EXPORT void **__cudaRegisterFatBinary(void *wrapper) {
    Binary *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->wrapper = wrapper;
    lock_take();
    made->next = binaries;
    binaries = made;
    lock_release();
    return (void **)made;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **binary) { (void)binary; }

static bool known(const Binary *binary) {
    Binary *at = binaries;
    while (at && at != binary) at = at->next;
    return at;
}

EXPORT void __cudaUnregisterFatBinary(void **handle) {
    Binary *binary = (Binary *)handle;
    lock_take();
    bool found = known(binary);
    for (size_t i = 0; i < BUCKETS && found; i++)
        for (Symbol **place = &symbols[i]; *place;) {
            Symbol *symbol = *place;
            if (symbol->binary != binary) {
                place = &symbol->next;
                continue;
            }
            *place = symbol->next;
            free(symbol);
        }
    if (found) {
        Binary **place = &binaries;
        while (*place != binary) place = &(*place)->next;
        *place = binary->next;
    }
    lock_release();
    if (!found) return;
    if (binary->library) DRIVER("cuLibraryUnload", binary->library);
    free(binary);
}

static void add(Symbol symbol) {
    Symbol *made = malloc(sizeof *made);
    if (!made) return;
    *made = symbol;
    size_t i = bucket(symbol.host);
    lock_take();
    made->next = symbols[i];
    symbols[i] = made;
    lock_release();
}

EXPORT void __cudaRegisterFunction(void **binary, const char *host, char *device, const char *name, int threads, void *tid, void *bid,
                                   void *block, void *grid, int *warp) {
    (void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    add((Symbol){.host = host, .name = name, .binary = (Binary *)binary});
}

EXPORT void __cudaRegisterVar(void **binary, char *host, char *device, const char *name, int external, size_t size, int constant, int global) {
    (void)device, (void)external, (void)constant, (void)global;
    add((Symbol){.host = host, .name = name, .binary = (Binary *)binary, .variable = true, .size = size});
}

EXPORT void __cudaRegisterManagedVar(void **binary, void **host, char *device, const char *name, int external, size_t size, int constant,
                                     int global) {
    (void)device, (void)external, (void)constant, (void)global;
    add((Symbol){.host = host, .name = name, .binary = (Binary *)binary, .variable = true, .size = size, .managed = host});
}

EXPORT void __cudaRegisterHostVar(void **binary, const char *name, char *host, size_t size) { (void)binary, (void)name, (void)host, (void)size; }
EXPORT int __cudaRegisterUnifiedTable(void **binary, void *table) { (void)binary, (void)table; return 0; }

/* Managed variables get their addresses here, before the program's first look at them. */
EXPORT char __cudaInitModule(void **handle) {
    Binary *binary = (Binary *)handle;
    if (load(binary)) return 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (Symbol *symbol = symbols[i]; symbol; symbol = symbol->next) {
            CUdeviceptr address;
            if (symbol->binary != binary || !symbol->managed) continue;
            if (!DRIVER("cuLibraryGetManaged", &address, 0, binary->library, symbol->name)) *symbol->managed = (void *)(Word)address;
        }
    return 1;
}

static Symbol *find(const void *host, bool variable) {
    lock_take();
    Symbol *symbol = symbols[bucket(host)];
    while (symbol && (symbol->host != host || symbol->variable != variable)) symbol = symbol->next;
    lock_release();
    return symbol;
}

int find_function(const void *host, Function **function) {
    Symbol *symbol = find(host, false);
    if (!symbol) {
        TRY(ready());
        *function = (Function *)(Word)host; /* a handle of a kernel, perhaps */
        return DRIVER("cuKernelGetFunction", function, host) ? CUDART_INVALID_FUNCTION : 0;
    }
    if (!symbol->function) {
        Function *found;
        TRY(load(symbol->binary));
        int error = DRIVER("cuLibraryGetKernel", &found, symbol->binary->library, symbol->name);
        if (error) return error == CUDA_ERROR_NOT_FOUND ? CUDART_INVALID_FUNCTION : error;
        symbol->function = found;
    }
    *function = symbol->function;
    return 0;
}

int find_variable(const void *host, CUdeviceptr *address, size_t *size) {
    Symbol *symbol = find(host, true);
    if (!symbol) return CUDART_INVALID_SYMBOL;
    int error = load(symbol->binary);
    if (!error) error = DRIVER("cuLibraryGetGlobal", address, size, symbol->binary->library, symbol->name);
    return error == CUDA_ERROR_NOT_FOUND ? CUDART_INVALID_SYMBOL : error;
}

EXPORT int cudaGetSymbolAddress(void **pointer, const void *symbol) {
    CUdeviceptr address;
    size_t size;
    TRY_VALUE(pointer);
    TRY(find_variable(symbol, &address, &size));
    *pointer = (void *)(Word)address;
    return 0;
}

EXPORT int cudaGetSymbolSize(size_t *size, const void *symbol) {
    CUdeviceptr address;
    TRY_VALUE(size);
    TRY(find_variable(symbol, &address, size));
    return 0;
}

EXPORT int cudaGetFuncBySymbol(Function **function, const void *symbol) {
    TRY_VALUE(function);
    TRY(find_function(symbol, function));
    return 0;
}

EXPORT int cudaGetKernel(Function **kernel, const void *symbol) { return cudaGetFuncBySymbol(kernel, symbol); }
EXPORT int __cudaGetKernel(Function **kernel, const void *symbol) { return cudaGetFuncBySymbol(kernel, symbol); }
