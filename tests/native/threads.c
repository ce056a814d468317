/* Kernels on several worker threads, launched by several threads at once, in one program: built with ThreadSanitizer, which
 * reports every access of two threads that nothing orders. Prints how many launches were right. */
#include "../../native/cpu/ptx/ptx.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char TEXT[] =
    ".version 8.8\n.target sm_90\n.address_size 64\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    ".global .align 1 .b8 words[4] = {111, 107, 10, 0};\n"
    ".global .u32 total;\n"
    ".func (.reg .u32 r) next(.reg .u32 a) { add.u32 r, a, 1; ret; }\n"
    /* Every block sums its threads in shared memory; the first thread adds the sum to out[0]. */
    ".visible .entry sum(.param .u64 out) {\n"
    " .reg .u64 %out; .reg .u32 %t, %s, %b; .reg .pred %p; .shared .u32 box;\n"
    " ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [box], 0; bar.sync 0;\n"
    " call (%s), next, (%t); atom.shared.add.u32 %b, [box], %s; bar.sync 0;\n"
    " @!%p exit; ld.shared.u32 %s, [box]; red.global.add.u32 [%out], %s; red.global.add.u32 [total], 1; ret; }\n"
    /* All blocks meet, then the first reads what the last wrote. */
    ".visible .entry meet(.param .u64 out) {\n"
    " .reg .u64 %out, %w; .reg .u32 %b, %n, %v; .reg .pred %p; ld.param.u64 %out, [out]; mov.u32 %b, %ctaid.x; mov.u32 %n, %nctaid.x;\n"
    " mul.wide.u32 %w, %b, 4; add.u64 %w, %w, %out; st.global.u32 [%w+64], %b; fence.acq_rel.gpu; atom.global.add.u32 %v, [%out], 1;\n"
    "L: ld.acquire.gpu.global.u32 %v, [%out]; setp.lt.u32 %p, %v, %n; @%p bra L;\n"
    " sub.u32 %b, %n, %b; sub.u32 %b, %b, 1; mul.wide.u32 %w, %b, 4; add.u64 %w, %w, %out; ld.global.u32 %v, [%w+64]; red.global.add.u32 [%out+4], %v; ret; }\n"
    ".visible .entry say() { .reg .u64 %a; .reg .u32 %r; mov.u64 %a, words; cvta.global.u64 %a, %a;\n"
    " { .param .b64 f; .param .b64 g; .param .b32 r; st.param.b64 [f], %a; st.param.b64 [g], 0; call (r), vprintf, (f, g); } ret; }\n"
    ".visible .entry wild(.param .u64 out) { .reg .u64 %out; .reg .u32 %b; .reg .pred %p; ld.param.u64 %out, [out]; mov.u32 %b, %ctaid.x;\n"
    " setp.eq.u32 %p, %b, 3; @%p st.global.u32 [%out+100000000], 1; ret; }\n";

enum { BLOCKS = 16, THREADS = 64, ROUNDS = 10, CALLERS = 3 };
static struct ptx_module *module;
static unsigned memory[CALLERS][64];
static int right;
static size_t printed;

static bool allowed(uint64_t address, size_t size) {
    uint64_t begin = (uint64_t)(uintptr_t)memory;
    return address >= begin && address - begin <= sizeof memory && size <= sizeof memory - (address - begin);
}
static void print(const char *bytes, size_t size) { (void)bytes, printed += size; } /* the engine calls it in turns */

static enum ptx_result launch(const char *name, unsigned threads, bool cooperative, void *out) {
    void *arguments[] = {&out};
    struct ptx_error error;
    struct ptx_launch l = {.grid = {BLOCKS, 1, 1}, .block = {threads, 1, 1}, .arguments = arguments, .cooperative = cooperative};
    return ptx_launch(ptx_function_find(module, name), &l, &error);
}

static void *caller(void *place) {
    unsigned *out = place;
    for (int i = 0; i < ROUNDS; i++) {
        memset(out, 0, sizeof *memory);
        int good = launch("sum", THREADS, false, out) == PTX_OK && out[0] == BLOCKS * THREADS * (THREADS + 1) / 2;
        memset(out, 0, sizeof *memory);
        good += launch("meet", 1, true, out) == PTX_OK && out[1] == BLOCKS * (BLOCKS - 1) / 2;
        good += launch("wild", THREADS, false, out) == PTX_ILLEGAL_ADDRESS;
        good += launch("say", 1, false, out) == PTX_OK;
        __atomic_fetch_add(&right, good, __ATOMIC_RELAXED);
    }
    return NULL;
}

static int load(void) {
    const char *text = TEXT;
    size_t size = sizeof TEXT - 1;
    struct ptx_error error;
    return ptx_module_load(&text, &size, 1, &module, &error);
}

int main(void) {
    static const struct ptx_host host = {.readable = allowed, .writable = allowed, .print = print};
    pthread_t threads[CALLERS];
    ptx_set_host(&host);
    if (load() != PTX_OK) return 1;
    for (int i = 0; i < CALLERS; i++)
        if (pthread_create(&threads[i], NULL, caller, memory[i])) return 2;
    for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
    void *total;
    size_t bytes;
    if (!ptx_global_find(module, "total", &total, &bytes)) return 3;
    printf("%d launches right, %u blocks summed, %zu bytes printed\n", right, *(unsigned *)total, printed);
    ptx_module_unload(module);
    return 0;
}
