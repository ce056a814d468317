/* Modules and libraries: load, look up, unload. */
#include "module.h"
#include "allocations.h"
#include "image.h"
#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Module *modules; /* all, under the lock */

NEED_HANDLE(need_module, Module, HANDLE_MODULE, need_init(), CUDA_ERROR_INVALID_HANDLE)
NEED_HANDLE(need_function, Function, HANDLE_FUNCTION, need_init(), CUDA_ERROR_INVALID_HANDLE)

CUresult result_of(enum ptx_result result) {
    static const CUresult ANSWERS[] = {
        [PTX_OK] = CUDA_SUCCESS, [PTX_INVALID_PTX] = CUDA_ERROR_INVALID_PTX, [PTX_UNSUPPORTED] = CUDA_ERROR_NOT_SUPPORTED,
        [PTX_NOT_FOUND] = CUDA_ERROR_NOT_FOUND, [PTX_OUT_OF_MEMORY] = CUDA_ERROR_OUT_OF_MEMORY,
        [PTX_INVALID_VALUE] = CUDA_ERROR_INVALID_VALUE, [PTX_TOO_LARGE] = CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        [PTX_ILLEGAL_ADDRESS] = CUDA_ERROR_ILLEGAL_ADDRESS, [PTX_MISALIGNED] = CUDA_ERROR_MISALIGNED_ADDRESS,
        [PTX_ASSERT] = CUDA_ERROR_ASSERT, [PTX_TRAP] = CUDA_ERROR_LAUNCH_FAILED,
        [PTX_ILLEGAL_INSTRUCTION] = CUDA_ERROR_ILLEGAL_INSTRUCTION, [PTX_TIMEOUT] = CUDA_ERROR_LAUNCH_TIMEOUT,
    };
    return (size_t)result < sizeof ANSWERS / sizeof *ANSWERS ? ANSWERS[result] : CUDA_ERROR_UNKNOWN;
}

/* On stderr when CUDA_AMD_CPU_LOG is set: a program sees a number only. */
void report_fault(const struct ptx_error *error) {
    if (!getenv("CUDA_AMD_CPU_LOG")) return;
    fprintf(stderr, "CPU reference: %s (kernel %s, line %u, block %u,%u,%u, thread %u,%u,%u, address 0x%llx)\n",
            error->text, error->kernel, error->line, error->block[0], error->block[1], error->block[2], error->thread[0],
            error->thread[1], error->thread[2], (unsigned long long)error->address);
}

static void host_bounds(uint64_t address, uint64_t *begin, uint64_t *end) {
    Block block;
    *begin = *end = 0;
    if (!block_at((uintptr_t)address, &block)) return;
    if (block.kind == BLOCK_MAPPED && block.flags != 3) return;
    *begin = block.base;
    *end = block.base + block.size;
}

static bool host_readable(uint64_t address, size_t size) { return memory_reachable((uintptr_t)address, size); }
static bool host_writable(uint64_t address, size_t size) { return memory_writable((uintptr_t)address, size); }

static unsigned host_attribute(int which) {
    switch (which) {
    case PTX_SM_COUNT: return (unsigned)host_processors();
    case PTX_CAPABILITY: return (unsigned)reported_capability();
    case PTX_CLOCK_KHZ: return (unsigned)device_number(13);
    case PTX_SHARED_BYTES: return (unsigned)device_number(97);
    default: return 0;
    }
}

void engine_start(void) {
    static const struct ptx_host HOST = {host_readable, host_writable, host_bounds, host_attribute, NULL};
    ptx_set_host(&HOST);
}

/* ---- loading ---- */

CUresult ptx_loaded(const char *const *texts, const size_t *sizes, size_t count, const Jit *jit, struct ptx_module **module) {
    struct ptx_error error = {0};
    enum ptx_result result = ptx_module_load(texts, sizes, count, module, &error);
    if (result) report_fault(&error);
    jit_report(jit, result ? error.text : "");
    return result_of(result);
}

static CUresult load(const void *bytes, size_t size, const Jit *jit, Module *module) {
    Image image;
    NEED(image_read(bytes, size, &image));
    CUresult result = CUDA_SUCCESS;
    if (image.count) result = ptx_loaded(image.texts, image.sizes, image.count, jit, &module->ptx);
    image_end(&image);
    return result;
}

CUresult module_load(const void *bytes, size_t size, bool library, const Jit *jit, Module **module) {
    NEED_VALUE(module && (!jit->count || (jit->options && jit->values)));
    Module *made = calloc(1, sizeof *made);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = load(bytes, size, jit, made);
    if (!result && !registry_add(made, HANDLE_MODULE)) {
        if (made->ptx) ptx_module_unload(made->ptx);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result) {
        free(made);
        return result;
    }
    made->owner = library ? NULL : context_current();
    lock_take();
    made->next = modules;
    modules = made;
    lock_release();
    *module = made;
    return CUDA_SUCCESS;
}

static void module_end(Module *module) {
    lock_take();
    Module **place = &modules;
    while (*place && *place != module) place = &(*place)->next;
    if (*place) *place = module->next;
    lock_release();
    for (Function *function = module->functions, *next; function; function = next) {
        next = function->next;
        registry_remove(function, HANDLE_FUNCTION);
        free(function->prepared);
        free(function);
    }
    for (size_t i = 0; i < module->variable_count; i++) block_end(module->variables[i], BLOCK_VARIABLE, BLOCK_VARIABLE);
    if (module->ptx) ptx_module_unload(module->ptx);
    free(module->variables);
    free(module);
}

static CUresult module_unload(Module *module) {
    Context *owner = registry_has(module, HANDLE_MODULE) && module->owner ? module->owner : context_current();
    if (owner) context_wait(owner);
    if (!registry_remove(module, HANDLE_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    module_end(module);
    return CUDA_SUCCESS;
}

void modules_drop_context(const Context *context) {
    for (;;) {
        lock_take();
        Module *module = modules;
        while (module && module->owner != context) module = module->next;
        lock_release();
        if (!module) return;
        registry_remove(module, HANDLE_MODULE);
        module_end(module);
    }
}

/* ---- looking up ---- */

static CUresult function_of(Module *module, struct ptx_function *ptx, Function **function) {
    lock_take();
    Function *known = module->functions;
    while (known && known->ptx != ptx) known = known->next;
    lock_release();
    *function = known;
    if (known) return CUDA_SUCCESS;
    Function *made = registry_new(sizeof *made, HANDLE_FUNCTION);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (Function){.module = module, .ptx = ptx, .dynamic_most = -1, .carveout = -1};
    lock_take();
    made->next = module->functions;
    module->functions = made;
    lock_release();
    *function = made;
    return CUDA_SUCCESS;
}

/* A module without usable PTX has no kernel that could run here, whatever its name. */
CUresult module_function(Module *module, const char *name, Function **function) {
    NEED_VALUE(function && name && *name);
    NEED(need_module(module));
    if (!module->ptx) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    struct ptx_function *ptx = ptx_function_find(module->ptx, name);
    return ptx ? function_of(module, ptx, function) : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleEnumerateFunctions(Function **functions, unsigned room, Module *module) {
    NEED_VALUE(functions);
    NEED(need_module(module));
    size_t count = module->ptx ? ptx_function_count(module->ptx) : 0;
    for (size_t i = 0; i < room && i < count; i++) NEED(function_of(module, ptx_function_at(module->ptx, i), functions + i));
    return CUDA_SUCCESS;
}

SAME(cuLibraryEnumerateKernels, cuModuleEnumerateFunctions)

EXPORT CUresult cuModuleGetFunctionCount(unsigned *count, Module *module) {
    NEED_VALUE(count);
    NEED(need_module(module));
    *count = module->ptx ? (unsigned)ptx_function_count(module->ptx) : 0;
    return CUDA_SUCCESS;
}

SAME(cuLibraryGetKernelCount, cuModuleGetFunctionCount)

static CUresult remember_variable(Module *module, uintptr_t address, size_t size) {
    Block block;
    if (!size || block_at(address, &block)) return CUDA_SUCCESS;
    uintptr_t *grown = realloc(module->variables, (module->variable_count + 1) * sizeof *grown);
    if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
    module->variables = grown;
    NEED(block_adopt(address, size, BLOCK_VARIABLE, 0));
    grown[module->variable_count++] = address;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *size, Module *module, const char *name) {
    NEED(need_context());
    NEED_VALUE(name && (pointer || size));
    NEED(need_module(module));
    void *address;
    size_t bytes;
    if (!module->ptx || !ptx_global_find(module->ptx, name, &address, &bytes)) return CUDA_ERROR_NOT_FOUND;
    NEED(remember_variable(module, (uintptr_t)address, bytes));
    if (pointer) *pointer = (uintptr_t)address;
    if (size) *size = bytes;
    return CUDA_SUCCESS;
}

SAME(cuLibraryGetGlobal, cuModuleGetGlobal_v2)
SAME(cuLibraryGetManaged, cuModuleGetGlobal_v2)

/* ---- the calls ---- */

EXPORT CUresult cuModuleLoadDataEx(Module **module, const void *image, unsigned count, int *options, void **values) {
    NEED(need_context());
    return module_load(image, SIZE_MAX, false, &(Jit){count, options, values}, module);
}

EXPORT CUresult cuModuleLoadData(Module **module, const void *image) { return cuModuleLoadDataEx(module, image, 0, NULL, NULL); }
EXPORT CUresult cuModuleLoadFatBinary(Module **module, const void *image) { return cuModuleLoadData(module, image); }

static CUresult load_file(const char *path, bool library, const Jit *jit, Module **module) {
    char *bytes;
    size_t size;
    NEED_VALUE(path && module);
    NEED(image_file(path, &bytes, &size));
    CUresult result = module_load(bytes, size, library, jit, module);
    free(bytes);
    return result;
}

EXPORT CUresult cuModuleLoad(Module **module, const char *path) {
    NEED(need_context());
    return load_file(path, false, &(Jit){0}, module);
}

EXPORT CUresult cuModuleUnload(Module *module) {
    NEED(need_owner(NULL));
    return module_unload(module);
}

ANSWER(cuModuleGetLoadingMode, (int *mode), need_init(), mode, 2) /* lazy: nothing is decoded before its first launch */

EXPORT CUresult cuModuleGetFunction(Function **function, Module *module, const char *name) {
    NEED(need_owner(NULL));
    return module_function(module, name, function);
}

/* The library's own options tell where the image may be kept: we copy what we need. */
EXPORT CUresult cuLibraryLoadData(Module **library, const void *image, int *jit, void **jit_values, unsigned jit_count,
                                  int *options, void **values, unsigned count) {
    NEED(need_init());
    NEED_VALUE(!count || options);
    (void)values;
    return module_load(image, SIZE_MAX, true, &(Jit){jit_count, jit, jit_values}, library);
}

EXPORT CUresult cuLibraryLoadFromFile(Module **library, const char *path, int *jit, void **jit_values, unsigned jit_count,
                                      int *options, void **values, unsigned count) {
    NEED(need_init());
    NEED_VALUE(!count || options);
    (void)values;
    return load_file(path, true, &(Jit){jit_count, jit, jit_values}, library);
}

EXPORT CUresult cuLibraryUnload(Module *library) {
    NEED(need_init());
    return module_unload(library);
}

EXPORT CUresult cuLibraryGetKernel(Function **kernel, Module *library, const char *name) {
    return module_function(library, name, kernel);
}

EXPORT CUresult cuLibraryGetModule(Module **module, Module *library) {
    NEED(need_context());
    NEED_VALUE(module);
    NEED(need_module(library));
    *module = library;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetUnifiedFunction(void **pointer, Module *library, const char *name) {
    (void)pointer, (void)name;
    NEED(need_module(library));
    return CUDA_ERROR_NOT_FOUND;
}
