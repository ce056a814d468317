/* The PTX engine: modules of PTX text, looked up by name and launched on the processor. Knows nothing of CUDA's calls. */
#ifndef PTX_H
#define PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_result {
    PTX_OK,
    PTX_INVALID_PTX,
    PTX_UNSUPPORTED,
    PTX_NOT_FOUND,
    PTX_OUT_OF_MEMORY,
    PTX_INVALID_VALUE,
    PTX_TOO_LARGE, /* more shared memory, threads or co-resident blocks than there are */
    PTX_ILLEGAL_ADDRESS,
    PTX_MISALIGNED,
    PTX_ASSERT,
    PTX_TRAP,
    PTX_ILLEGAL_INSTRUCTION,
    PTX_TIMEOUT /* every thread waits and none can go on */
};

struct ptx_module;
struct ptx_function;

/* What went wrong, and where: `line` counts in the PTX text; `text` is one sentence. */
struct ptx_error {
    enum ptx_result result;
    char kernel[128];
    unsigned line;
    uint64_t address;
    unsigned block[3], thread[3];
    char text[512];
};

/* Index PTX texts as one module; what one declares extern is found in the others. Copies the texts, decodes nothing. */
enum ptx_result ptx_module_load(const char *const *texts, const size_t *sizes, size_t count, struct ptx_module **out,
                                struct ptx_error *error);
void ptx_module_unload(struct ptx_module *module);

/* Kernels (.entry) only. */
struct ptx_function *ptx_function_find(struct ptx_module *module, const char *name);
size_t ptx_function_count(const struct ptx_module *module);
struct ptx_function *ptx_function_at(struct ptx_module *module, size_t index);
const char *ptx_function_name(const struct ptx_function *function);

/* .global and .const variables, initialised. */
bool ptx_global_find(struct ptx_module *module, const char *name, void **address, size_t *size);

struct ptx_attributes {
    unsigned max_threads, required_block[3], shared_bytes, const_bytes, local_bytes, registers;
    unsigned ptx_version, target; /* 88 for 8.8, 75 for sm_75 */
    size_t parameters;
};

/* `shared_bytes`, `local_bytes` and `registers` are known once a kernel is decoded, which this asks for. */
void ptx_function_attributes(struct ptx_function *function, struct ptx_attributes *out);
bool ptx_parameter(struct ptx_function *function, size_t index, size_t *offset, size_t *size);
/* Decodes a kernel, once, and says whether it can run. */
enum ptx_result ptx_function_check(struct ptx_function *function, struct ptx_error *error);

struct ptx_launch {
    unsigned grid[3], block[3], cluster[3]; /* a cluster of zeros is one block */
    size_t shared_bytes;                    /* dynamic */
    void *const *arguments;                 /* one pointer a parameter, or: */
    const void *buffer;                     /* the packed parameters */
    size_t buffer_size;
    bool cooperative; /* all blocks are resident together */
};

/* Runs to the end. Blocks are spread over threads inside. */
enum ptx_result ptx_launch(struct ptx_function *function, const struct ptx_launch *launch, struct ptx_error *error);

enum ptx_attribute { PTX_SM_COUNT, PTX_CAPABILITY /* 121 for 12.1 */, PTX_CLOCK_KHZ, PTX_SHARED_BYTES /* most of a block */ };

/* What the engine asks of its host. Device memory is host memory: a pointer is its address. A member may be NULL:
 * then every address is taken, an attribute has its default, and printed text goes to stdout. */
struct ptx_host {
    bool (*readable)(uint64_t address, size_t size);
    bool (*writable)(uint64_t address, size_t size);
    void (*bounds)(uint64_t address, uint64_t *begin, uint64_t *end); /* of the allocation around it; equal: none */
    unsigned (*attribute)(int which);                                 /* enum ptx_attribute; 0 means unknown */
    void (*print)(const char *bytes, size_t size);
};
void ptx_set_host(const struct ptx_host *host);

#endif
