/* Modules (and libraries, which are the same here) and their kernels. */
#ifndef CPU_DRIVER_MODULE_H
#define CPU_DRIVER_MODULE_H

#include "driver.h"
#include "../ptx/ptx.h"

struct Module {
    struct ptx_module *ptx; /* NULL: nothing in the image that this device can use */
    Context *owner;         /* NULL: a library, for every context */
    Function *functions;
    Module *next;
    uintptr_t *variables; /* addresses that were given out */
    size_t variable_count;
};

struct Function {
    Module *module;
    struct ptx_function *ptx;
    Function *next;
    bool measured;                    /* `attributes` are there: asking for them decodes the kernel */
    struct ptx_attributes attributes;
    int dynamic_most; /* bytes of dynamic shared memory that a launch may ask for; -1 = the usual */
    int carveout;
    unsigned cluster[3];
    int non_portable, scheduling;
    struct Prepared *prepared; /* for launches by what was set before; NULL = nothing was */
};

typedef struct { /* a compiler's options as programs hand them over: where its messages go */
    unsigned count;
    int *options;
    void **values;
} Jit;

void jit_report(const Jit *jit, const char *error); /* "" = all went well */
CUresult module_load(const void *image, size_t size, bool library, const Jit *jit, Module **module);
CUresult ptx_loaded(const char *const *texts, const size_t *sizes, size_t count, const Jit *jit, struct ptx_module **module);
CUresult module_function(Module *module, const char *name, Function **function);
CUresult need_module(const Module *module);
CUresult need_function(const Function *function);
size_t packed_size(Function *function, size_t *count); /* bytes of all arguments, and how many there are */

const struct ptx_attributes *function_attributes(Function *function);
unsigned function_dynamic_most(Function *function);

/* What a program is told when the engine says `result`. */
CUresult result_of(enum ptx_result result);
void report_fault(const struct ptx_error *error);

CUresult blocks_per_processor(Function *function, unsigned threads, size_t shared, int *blocks);

void engine_start(void);

#endif
