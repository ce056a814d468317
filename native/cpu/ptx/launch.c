/* Launches: parameters, blocks, threads, and what the host is asked. */
#include "rare.h"
#include "host.h"

#include <stdio.h>
#include <stdlib.h>

enum { STACK_BYTES = 64 << 10 /* of a thread whose calls cannot be counted */, LOCAL_LEAST = 128, SHARED_MOST = 227 << 10, THREADS_OF_BLOCK = 1024 };

struct ptx_host the_host;
static uint64_t launches;

void ptx_set_host(const struct ptx_host *host) { the_host = *host; }

uint64_t host_attribute(int which, uint64_t otherwise) {
    unsigned value = the_host.attribute ? the_host.attribute(which) : 0;
    return value ? value : otherwise;
}

void host_print(const char *bytes, size_t size) {
    engine_lock();
    if (the_host.print) the_host.print(bytes, size);
    else fwrite(bytes, 1, size, stdout);
    engine_unlock();
}

/* ---- memory that kernels allocate ---- */

static struct heap_block {
    void *memory;
    size_t bytes;
} *heap;
static uint32_t heap_count, heap_room;

bool heap_add(void *memory, size_t bytes) {
    engine_lock();
    bool right = grow(&heap, &heap_room, heap_count + 1, sizeof *heap);
    if (right) heap[heap_count++] = (struct heap_block){memory, bytes};
    engine_unlock();
    return right;
}

void heap_remove(void *memory) {
    engine_lock();
    for (uint32_t i = 0; i < heap_count; i++)
        if (heap[i].memory == memory) {
            host_aligned_free(memory);
            heap[i] = heap[--heap_count];
            break;
        }
    engine_unlock();
}

bool heap_contains(uint64_t address, uint64_t *begin, uint64_t *end) {
    bool found = false;
    engine_lock();
    for (uint32_t i = 0; i < heap_count && !found; i++) {
        *begin = (uint64_t)(uintptr_t)heap[i].memory;
        *end = *begin + heap[i].bytes;
        found = address >= *begin && address < *end;
    }
    engine_unlock();
    return found;
}

/* ---- blocks ---- */

static struct warp *warp_new(struct block *b, uint32_t index) {
    struct launch *l = b->launch;
    struct warp *w = host_aligned_alloc(sizeof *w);
    if (!w) return NULL;
    memset(w, 0, sizeof *w);
    w->block = b;
    w->index = index;
    w->code = l->program->ins;
    w->base[1] = l->program->constants;
    w->local_bytes = l->program->recursive ? STACK_BYTES : (l->program->local_bytes + 127) & ~127u;
    if (w->local_bytes < LOCAL_LEAST) w->local_bytes = LOCAL_LEAST;
    w->local = host_aligned_alloc(LANES * w->local_bytes);
    if (!w->local) return host_aligned_free(w), NULL;
    uint32_t threads = l->threads - index * LANES;
    w->started = threads < LANES ? (1u << threads) - 1 : ALL_LANES;
    specials_prepare(w);
    return w;
}

static void warp_free(struct warp *w) {
    for (uint32_t i = 0; i < LANES && w->begun; i++) /* frames of lanes that did not end */
        for (struct frame *f = w->alive >> i & 1 ? w->frames[i] : NULL, *parent; f; f = parent) parent = f->parent[i], frame_leave(w, f, 1u << i);
    host_aligned_free(w->local);
    host_aligned_free(w);
}

/* What a warp needs to wait for its turn; warp_begin does the rest. */
static void warp_reset(struct warp *w) {
    w->alive = w->started;
    w->collective = w->barrier = w->forced = w->active = 0;
    w->turn = INT32_MAX;
    w->slice = 0;
    w->begun = w->divergent = w->polled = false;
}

bool warp_begin(struct warp *w) {
    const struct program *p = w->block->launch->program;
    uint32_t entry = p->codes[0].entry;
    struct frame *f = frame_new(w, 0);
    if (!f) return false;
    w->begun = true;
    w->together = w->started == ALL_LANES;
    f->live = w->started;
    specials_renew(w);
    for (uint32_t i = 0; i < LANES; i++) w->pcs[i] = entry;
    for (uint32_t i = 0; i < LANES; i++) w->frames[i] = f;
    for (uint32_t i = 0; i < LANES && program_has_stack(p); i++) {
        f->local[i] = (uint64_t)(uintptr_t)w->local + i * w->local_bytes;
        f->top[i] = f->local[i] + w->local_bytes;
    }
    return true;
}

bool block_init(struct block *b) {
    struct launch *l = b->launch;
    const unsigned *grid = l->asked->grid;
    b->id[0] = (uint32_t)(b->index % grid[0]);
    b->id[1] = (uint32_t)(b->index / grid[0] % grid[1]);
    b->id[2] = (uint32_t)(b->index / grid[0] / grid[1]);
    b->live_threads = l->threads;
    if (b->barriers_used) memset(b->barriers, 0, sizeof b->barriers);
    b->barriers_used = 0;
    if (!b->warps) {
        b->shared_bytes = l->shared_bytes;
        b->shared = host_aligned_alloc(l->shared_bytes + 256);
        b->warps = calloc(l->warps, sizeof *b->warps);
        if (!b->shared || !b->warps) return false;
        memset(b->shared, 0, l->shared_bytes + 256);
        if (l->checks && !(b->checker = checker_new(b))) return false;
    }
    for (uint32_t k = 0; k < l->warps; k++) {
        if (!b->warps[k] && !(b->warps[k] = warp_new(b, k))) return false;
        b->warp_count = k + 1;
        warp_reset(b->warps[k]);
    }
    if (b->checker) checker_begin(b);
    return true;
}

void block_free(struct block *b) {
    for (uint32_t k = 0; b->warps && k < b->launch->warps; k++)
        if (b->warps[k]) warp_free(b->warps[k]);
    checker_free(b->checker);
    host_aligned_free(b->shared);
    free(b->warps);
    free(b);
}

/* ---- functions ---- */

static enum ptx_result decoded(struct function *f, struct ptx_error *error) {
    engine_lock();
    if (!f->decoded) {
        f->decoded = true;
        program_decode(f, &f->program, &f->failure);
    }
    engine_unlock();
    if (f->failure.result && error) *error = f->failure;
    return f->failure.result;
}

static bool with_formals(struct function *f) {
    engine_lock();
    if (!f->formals_known) f->formals_known = function_formals(f, &f->parameters, &f->formals, &f->formal_count, &f->formal_bytes);
    bool right = f->formals_known;
    engine_unlock();
    return right;
}

struct ptx_function *ptx_function_find(struct ptx_module *m, const char *name) {
    struct function *f = names_get(&m->functions, (struct word){name, (uint32_t)strlen(name)});
    return f && f->entry && f->has_body ? (struct ptx_function *)f : NULL;
}
size_t ptx_function_count(const struct ptx_module *m) { return m->entry_count; }
struct ptx_function *ptx_function_at(struct ptx_module *m, size_t i) { return i < m->entry_count ? (struct ptx_function *)m->entries[i] : NULL; }
const char *ptx_function_name(const struct ptx_function *f) { return ((const struct function *)f)->text_name; }

bool ptx_global_find(struct ptx_module *m, const char *name, void **address, size_t *size) {
    struct word w = {name, (uint32_t)strlen(name)};
    struct variable *v = names_get(&m->variables, w);
    for (size_t i = 0; i < m->unit_count && !v; i++) v = names_get(&m->units[i].variables, w);
    if (!v || !v->memory) return false;
    if (address) *address = v->memory;
    if (size) *size = (size_t)v->bytes;
    return true;
}

bool ptx_parameter(struct ptx_function *pf, size_t index, size_t *offset, size_t *size) {
    struct function *f = (struct function *)pf;
    if (!with_formals(f) || index >= f->formal_count) return false;
    *offset = (size_t)f->formals[index].offset;
    *size = (size_t)f->formals[index].bytes;
    return true;
}

enum ptx_result ptx_function_check(struct ptx_function *f, struct ptx_error *error) { return decoded((struct function *)f, error); }

void ptx_function_attributes(struct ptx_function *pf, struct ptx_attributes *out) {
    struct function *f = (struct function *)pf;
    *out = (struct ptx_attributes){.ptx_version = f->unit->version, .target = f->unit->target, .const_bytes = (unsigned)f->unit->module->const_bytes};
    uint64_t most = (uint64_t)f->max_block[0] * f->max_block[1] * f->max_block[2];
    uint64_t exact = (uint64_t)f->required_block[0] * f->required_block[1] * f->required_block[2];
    if (exact) most = exact;
    out->max_threads = most && most < THREADS_OF_BLOCK ? (unsigned)most : THREADS_OF_BLOCK;
    memcpy(out->required_block, f->required_block, sizeof out->required_block);
    out->parameters = with_formals(f) ? f->formal_count : 0;
    if (decoded(f, NULL)) return;
    out->shared_bytes = f->program->shared_bytes;
    out->local_bytes = f->program->local_bytes;
    uint32_t words = f->program->codes[0].register_bytes / (4 * LANES);
    out->registers = words < 255 ? words : 255;
}

/* ---- launches ---- */

static enum ptx_result gather_parameters(struct launch *l, struct ptx_error *error) {
    struct function *f = l->function;
    const struct ptx_launch *asked = l->asked;
    l->parameter_bytes = f->formal_bytes;
    size_t room = (f->formal_bytes + 63) & ~(size_t)63;
    l->parameters = host_aligned_alloc(room + GRID_BYTES);
    if (!l->parameters) return fail(error, PTX_OUT_OF_MEMORY, 0, "there is no memory for the kernel's parameters");
    memset(l->parameters, 0, room + GRID_BYTES);
    l->grid_memory = l->parameters + room;
    if (asked->arguments) {
        for (uint32_t i = 0; i < f->formal_count; i++) memcpy(l->parameters + f->formals[i].offset, asked->arguments[i], f->formals[i].bytes);
    } else if (asked->buffer) {
        memcpy(l->parameters, asked->buffer, asked->buffer_size < f->formal_bytes ? asked->buffer_size : f->formal_bytes);
    } else if (f->formal_bytes) {
        return fail(error, PTX_INVALID_VALUE, 0, "the kernel's parameters are missing");
    }
    return PTX_OK;
}

static enum ptx_result check_sizes(struct launch *l, struct ptx_error *error) {
    const struct ptx_launch *a = l->asked;
    struct ptx_attributes attributes;
    ptx_function_attributes((struct ptx_function *)l->function, &attributes);
    uint64_t threads = 1, blocks = 1;
    for (int i = 0; i < 3; i++) {
        if (!a->grid[i] || !a->block[i] || a->block[i] > THREADS_OF_BLOCK || a->grid[i] > 0x7fffffff) return fail(error, PTX_INVALID_VALUE, 0, "the size of the grid or the block is not possible");
        if (attributes.required_block[i] && a->block[i] != attributes.required_block[i]) return fail(error, PTX_INVALID_VALUE, 0, "the kernel needs blocks of %u x %u x %u threads", attributes.required_block[0], attributes.required_block[1], attributes.required_block[2]);
        if (a->cluster[i] > 1) return fail(error, PTX_UNSUPPORTED, 0, "clusters of more than one block are not supported");
        threads *= a->block[i];
        blocks *= a->grid[i];
    }
    if (threads > attributes.max_threads) return fail(error, PTX_TOO_LARGE, 0, "the block has %llu threads and the kernel takes %u", (unsigned long long)threads, attributes.max_threads);
    struct program *p = l->function->program;
    l->shared_bytes = p->has_dynamic_shared ? p->dynamic_at + a->shared_bytes : p->shared_bytes + a->shared_bytes;
    uint64_t most = host_attribute(PTX_SHARED_BYTES, SHARED_MOST);
    if (l->shared_bytes > most) return fail(error, PTX_TOO_LARGE, 0, "the block needs %llu bytes of shared memory and there are %llu", (unsigned long long)l->shared_bytes, (unsigned long long)most);
    if (a->cooperative && blocks > host_attribute(PTX_SM_COUNT, 64) * 32) return fail(error, PTX_TOO_LARGE, 0, "a cooperative launch of %llu blocks cannot be resident together", (unsigned long long)blocks);
    l->threads = (uint32_t)threads;
    l->warps = (uint32_t)((threads + LANES - 1) / LANES);
    l->blocks = blocks;
    return PTX_OK;
}

static void run(struct launch *l) {
    struct worker workers[THREADS_MOST];
    unsigned count = (unsigned)host_processors();
    const char *asked = getenv("CUDA_AMD_CPU_THREADS");
    if (asked && atoi(asked) > 0) count = (unsigned)atoi(asked);
    if (count > THREADS_MOST) count = THREADS_MOST;
    if (count > l->blocks) count = (unsigned)l->blocks;
    memset(workers, 0, sizeof workers);
    l->workers = count;
    for (unsigned i = 0; i < count; i++) {
        workers[i].launch = l;
        workers[i].index = i;
    }
    workers_run(workers, count);
}

enum ptx_result ptx_launch(struct ptx_function *pf, const struct ptx_launch *asked, struct ptx_error *error) {
    struct function *f = (struct function *)pf;
    struct ptx_error own;
    if (!error) error = &own;
    memset(error, 0, sizeof *error);
    enum ptx_result result = decoded(f, error);
    if (result) return result;
    struct launch l = {.asked = asked, .function = f, .program = f->program, .error = error, .checks = checks_asked()};
    l.id = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
    if (!with_formals(f)) result = fail(error, PTX_INVALID_PTX, f->line, "the kernel's parameters are not understood");
    if (!result) result = check_sizes(&l, error);
    if (!result) result = gather_parameters(&l, error);
    if (!result) run(&l);
    host_aligned_free(l.parameters);
    snprintf(error->kernel, sizeof error->kernel, "%s", f->text_name);
    return error->result;
}
