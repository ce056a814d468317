/* Addresses: the checked, slow ways, and the instructions that turn one space's address into another's. */
#include "rare.h"

#include <stdarg.h>
#include <stdio.h>

bool raise_error(struct warp *w, const struct ins *n, enum ptx_result result, uint64_t address, int lane, const char *format, ...) {
    struct launch *l = w->block->launch;
    engine_lock();
    if (!l->stop) {
        struct ptx_error *e = l->error;
        memset(e, 0, sizeof *e);
        e->result = result;
        e->line = n->line;
        e->address = address;
        snprintf(e->kernel, sizeof e->kernel, "%s", l->function->text_name);
        for (int k = 0; k < 3; k++) e->block[k] = w->block->id[k], e->thread[k] = w->special[S_TID_X + k][lane & 31];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(e->text, sizeof e->text, format, arguments);
        va_end(arguments);
    }
    __atomic_store_n(&l->stop, 1, __ATOMIC_RELEASE);
    engine_unlock();
    return false;
}

static bool within(uint64_t address, uint64_t bytes, uint64_t begin, uint64_t size) {
    return address >= begin && address - begin <= size && size - (address - begin) >= bytes;
}

static void remember_range(struct worker *k, uint64_t begin, uint64_t end) {
    k->known[k->next_range].begin = begin;
    k->known[k->next_range].end = end;
    k->next_range = (k->next_range + 1) % RANGES;
}

/* Ask who owns the memory. */
static bool range_asked(struct warp *w, uint64_t address, unsigned bytes, bool write) {
    uint64_t begin = 0, end = 0;
    if (address < 4096) return false;
    if (heap_contains(address, &begin, &end)) return address + bytes <= end; /* not remembered: kernels free it */
    if (modules_contain(address, &begin, &end)) {
        if (address + bytes > end) return false;
        remember_range(w->block->worker, begin, end);
        return true;
    }
    bool (*allowed)(uint64_t, size_t) = write ? the_host.writable : the_host.readable;
    if (!allowed) return address < (uint64_t)1 << 56;
    if (!allowed(address, bytes)) return false;
    if (the_host.bounds) the_host.bounds(address, &begin, &end);
    bool whole = begin < end && the_host.readable && the_host.readable(begin, end - begin) && the_host.writable && the_host.writable(begin, end - begin);
    if (whole) remember_range(w->block->worker, begin, end);
    return true;
}

static bool allowed(struct warp *w, uint64_t address, unsigned bytes, bool write) {
    const struct block *b = w->block;
    const struct launch *l = b->launch;
    return range_known(w, address, address + bytes) || within(address, bytes, (uint64_t)(uintptr_t)b->shared, b->shared_bytes) ||
           within(address, bytes, (uint64_t)(uintptr_t)w->local, LANES * w->local_bytes) ||
           (!write && within(address, bytes, (uint64_t)(uintptr_t)l->parameters, l->parameter_bytes)) ||
           within(address, bytes, (uint64_t)(uintptr_t)l->grid_memory, GRID_BYTES) || range_asked(w, address, bytes, write);
}

bool addresses_check(struct warp *w, const struct ins *n, uint32_t mask, const uint64_t *addresses, unsigned bytes, bool write) {
    const char *verb = write ? "writes" : "reads";
    EACH_LANE(i, mask) {
        unsigned step = bytes & (bytes - 1) ? n->bytes : bytes;
        if (addresses[i] & (step - 1))
            return raise_error(w, n, PTX_MISALIGNED, addresses[i], (int)i, "the kernel %s %u bytes at 0x%llx, which is no multiple of %u", verb,
                               bytes, (unsigned long long)addresses[i], step);
        if (!allowed(w, addresses[i], bytes, write))
            return raise_error(w, n, PTX_ILLEGAL_ADDRESS, addresses[i], (int)i, "the kernel %s %u bytes at 0x%llx, outside of every allocation", verb,
                               bytes, (unsigned long long)addresses[i]);
    }
    return !w->block->checker || check_access(w, n, mask, addresses, bytes, write);
}

bool parameter_check(struct warp *w, const struct ins *n, uint32_t mask, unsigned bytes, bool write) {
    const struct launch *l = w->block->launch;
    if (!write && parameter_known(w, n, bytes)) return true;
    return raise_error(w, n, PTX_ILLEGAL_ADDRESS, (uint64_t)(uintptr_t)l->parameters + (uint64_t)n->imm, __builtin_ctz(mask), "the kernel %s %u bytes at %lld of its %llu bytes of parameters, which can only be read, in aligned pieces",
                       write ? "writes" : "reads", bytes, (long long)n->imm, (unsigned long long)l->parameter_bytes);
}

static uint64_t address_base(const struct warp *w, const struct ins *n, uint32_t i) {
    switch (n->mode) {
    case ABSOLUTE: return n->space == SPACE_PARAM ? (uint64_t)(uintptr_t)w->block->launch->parameters : 0;
    case FROM_FRAME: return w->current->local[i];
    case FROM_REG64: return lane_get(w, n->a, 8, (int)i);
    default: return lane_get(w, n->a, 4, (int)i);
    }
}

bool addresses_of(struct warp *w, const struct ins *n, uint32_t mask, unsigned bytes, bool write, uint64_t *out) {
    uint64_t first = 0;
    EACH_LANE(i, mask) {
        out[i] = address_base(w, n, i) + (uint64_t)n->imm;
        if (n->space == SPACE_SHARED) {
            if (n->mode == SHARED_REG32) out[i] = (uint32_t)out[i];
            if (!within(out[i], bytes, 0, w->block->shared_bytes))
                return raise_error(w, n, PTX_ILLEGAL_ADDRESS, out[i], (int)i, "the kernel %s %u bytes at 0x%llx of the block's shared memory, which has %llu bytes",
                                   write ? "writes" : "reads", bytes, (unsigned long long)out[i], (unsigned long long)w->block->shared_bytes);
            out[i] += (uint64_t)(uintptr_t)w->block->shared;
        }
        first = out[i];
    }
    for (uint32_t i = 0; i < LANES; i++)
        if (!(mask >> i & 1)) out[i] = first;
    if (n->space == SPACE_PARAM && n->mode == ABSOLUTE) return parameter_check(w, n, mask, bytes, write);
    return addresses_check(w, n, mask, out, bytes, write);
}

/* The address of a variable in local memory, or of a function's parameter. */
bool run_local_address(struct warp *w, const struct ins *n, uint32_t mask) {
    EACH_LANE(i, mask) lane_set(w, n->d, n->bytes, (int)i, w->current->local[i] + (uint64_t)n->imm);
    return true;
}

/* The address of a kernel's parameter (mode 0); of dynamic shared memory (mode 1). */
bool run_parameter_address(struct warp *w, const struct ins *n, uint32_t mask) {
    uint64_t base = n->mode ? 0 : (uint64_t)(uintptr_t)w->block->launch->parameters;
    EACH_LANE(i, mask) lane_set(w, n->d, n->bytes, (int)i, base + (uint64_t)n->imm);
    return true;
}

/* cvta of a shared address (mode 0), and back (mode 1). */
bool run_shared_generic(struct warp *w, const struct ins *n, uint32_t mask) {
    uint64_t base = (uint64_t)(uintptr_t)w->block->shared;
    EACH_LANE(i, mask) {
        uint64_t value = lane_get(w, n->a, n->bytes, (int)i);
        lane_set(w, n->d, n->bytes, (int)i, n->mode ? value - base : value + base);
    }
    return true;
}

bool run_is_space(struct warp *w, const struct ins *n, uint32_t mask) {
    const struct block *b = w->block;
    uint32_t yes = 0;
    EACH_LANE(i, mask) {
        uint64_t address = lane_get(w, n->a, n->bytes, (int)i);
        bool shared = within(address, 1, (uint64_t)(uintptr_t)b->shared, b->shared_bytes);
        bool local = within(address, 1, (uint64_t)(uintptr_t)w->local, LANES * w->local_bytes);
        bool param = within(address, 1, (uint64_t)(uintptr_t)b->launch->parameters, b->launch->parameter_bytes);
        bool is = n->space == SPACE_SHARED ? shared : n->space == SPACE_LOCAL ? local : n->space == SPACE_PARAM ? param
                : n->space == SPACE_CONST  ? constant_contains(b->launch->function, address)
                                           : !shared && !local && !param && !constant_contains(b->launch->function, address);
        yes |= is ? 1u << i : 0;
    }
    predicate_set(w, n->d, mask, yes);
    return true;
}
