/* Ends, calls, returns, barriers. */
#include "rare.h"
#include "host.h"

enum { DEPTH_MOST = 4096 };

bool run_exit(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t stay = w->active & ~mask;
    warp_place(w, stay, (uint32_t)(n - w->code) + 1);
    warp_end_lanes(w, mask);
    return false;
}

bool run_trap(struct warp *w, const struct ins *n, uint32_t mask) {
    return raise_error(w, n, PTX_TRAP, 0, __builtin_ctz(mask), "the kernel executes trap");
}

bool run_nothing(struct warp *w, const struct ins *n, uint32_t mask) {
    (void)w, (void)n, (void)mask;
    return true;
}

bool run_fence(struct warp *w, const struct ins *n, uint32_t mask) {
    (void)w, (void)n, (void)mask;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return true;
}

/* nanosleep: a warp that waits for another lets it run. */
bool run_yield(struct warp *w, const struct ins *n, uint32_t mask) {
    (void)mask;
    warp_place(w, w->active, (uint32_t)(n - w->code) + 1);
    w->turn = 0;
    w->slice = 0;
    return false;
}

bool run_branch_index(struct warp *w, const struct ins *n, uint32_t mask) {
    const uint32_t *list = w->block->launch->program->refs + n->list;
    warp_place(w, w->active & ~mask, (uint32_t)(n - w->code) + 1);
    spend_turn(w);
    w->together = false;
    EACH_LANE(i, mask) {
        uint64_t index = lane_get(w, n->a, 4, (int)i);
        if (index >= n->target) return raise_error(w, n, PTX_ILLEGAL_INSTRUCTION, 0, (int)i, "brx.idx takes branch %llu of %u", (unsigned long long)index, n->target);
        w->pcs[i] = list[index];
    }
    return false;
}

/* ---- calls ---- */

static uint8_t *register_at(const struct warp *w, const struct frame *f, ref r) {
    return (r & REF_CONST ? w->base[1] : f->registers) + (r & ~(uint32_t)REF_BITS);
}

/* One lane's bytes of a value on one side of a call. */
static uint8_t *place_at(struct warp *w, const struct frame *f, const struct place *p, uint32_t lane, unsigned *bytes) {
    if (p->space == SPACE_LOCAL) return (uint8_t *)(uintptr_t)(f->local[lane] + p->at);
    *bytes = p->bytes < *bytes ? p->bytes : *bytes;
    return register_at(w, f, p->at) + (size_t)p->bytes * lane;
}

static void pass(struct warp *w, struct frame *to, const struct place *t, const struct frame *from, const struct place *f, uint32_t lanes) {
    if (t->space == SPACE_REG && f->space == SPACE_REG && !t->bytes) {
        uint32_t bits = (uint32_t)value_read(register_at(w, from, f->at), 4);
        mix_bits(register_at(w, to, t->at), lanes, f->at & REF_NOT ? ~bits : bits);
        return;
    }
    EACH_LANE(i, lanes) {
        unsigned bytes = t->bytes && f->bytes ? (t->bytes < f->bytes ? t->bytes : f->bytes) : t->bytes | f->bytes;
        uint8_t *b = place_at(w, from, f, i, &bytes), *a = place_at(w, to, t, i, &bytes);
        memcpy(a, b, bytes);
    }
}

static bool enter(struct warp *w, const struct ins *n, const struct call *c, uint32_t code, uint32_t lanes) {
    const struct program *p = w->block->launch->program;
    const struct code *callee = &p->codes[code];
    struct frame *from = w->current, *f;
    uint32_t pc = (uint32_t)(n - w->code);
    if (c->arguments != callee->arguments || c->results > callee->results)
        return raise_error(w, n, PTX_ILLEGAL_INSTRUCTION, 0, __builtin_ctz(lanes), "the function %s is called with %u arguments", callee->function->text_name, c->arguments);
    if (from->depth >= DEPTH_MOST || !(f = frame_new(w, code)))
        return raise_error(w, n, PTX_ILLEGAL_ADDRESS, 0, __builtin_ctz(lanes), "calls are nested too deeply");
    f->depth = from->depth + 1;
    w->together = false;
    f->live = lanes;
    EACH_LANE(i, lanes) {
        uint64_t end = f->top[i] = from->top[i];
        f->parent[i] = from;
        f->return_pc[i] = pc;
        f->local[i] = from->local[i] + ((p->codes[from->code].local_bytes + 127) & ~127u);
        w->frames[i] = f;
        w->pcs[i] = callee->entry;
        if (f->local[i] + callee->local_bytes > end) return raise_error(w, n, PTX_ILLEGAL_ADDRESS, f->local[i], (int)i, "the thread's stack of %llu bytes is full", (unsigned long long)w->local_bytes);
    }
    for (uint32_t k = 0; k < c->arguments; k++) pass(w, f, &callee->formals[callee->results + k], from, &c->actuals[c->results + k], lanes);
    return true;
}

bool run_call(struct warp *w, const struct ins *n, uint32_t mask) {
    const struct program *p = w->block->launch->program;
    const struct call *c = &p->calls[n->target];
    uint32_t pc = (uint32_t)(n - w->code);
    if (c->builtin) return run_builtin(w, n, mask, c);
    warp_place(w, w->active & ~mask, pc + 1);
    spend_turn(w);
    if (!c->indirect) return enter(w, n, c, c->code, mask), false;
    for (uint32_t left = mask; left;) {
        int first = __builtin_ctz(left);
        uint64_t address = lane_get(w, c->indirect, 8, first);
        uint32_t same = 0, code = 1;
        EACH_LANE(i, left) same |= lane_get(w, c->indirect, 8, (int)i) == address ? 1u << i : 0;
        while (code < p->code_count && (uint64_t)(uintptr_t)p->codes[code].function != address) code++;
        if (code == p->code_count) return raise_error(w, n, PTX_ILLEGAL_INSTRUCTION, address, first, "the kernel calls 0x%llx, which is no function", (unsigned long long)address);
        if (!enter(w, n, c, code, same)) return false;
        left &= ~same;
    }
    return false;
}

bool run_return(struct warp *w, const struct ins *n, uint32_t mask) {
    const struct program *p = w->block->launch->program;
    struct frame *f = w->current;
    const struct code *callee = &p->codes[f->code];
    warp_place(w, w->active & ~mask, (uint32_t)(n - w->code) + 1);
    w->together = false;
    for (uint32_t left = mask; left;) {
        uint32_t first = (uint32_t)__builtin_ctz(left), same = 0;
        struct frame *to = f->parent[first];
        uint32_t pc = f->return_pc[first];
        EACH_LANE(i, left) same |= f->parent[i] == to && f->return_pc[i] == pc ? 1u << i : 0;
        const struct call *c = &p->calls[p->ins[pc].target];
        for (uint32_t k = 0; k < c->results; k++) pass(w, to, &c->actuals[k], f, &callee->formals[k], same);
        EACH_LANE(i, same) {
            w->frames[i] = to;
            w->pcs[i] = pc + 1;
        }
        left &= ~same;
    }
    frame_leave(w, f, mask);
    return false;
}

/* alloca (mode 0), stacksave (1), stackrestore (2) */
bool run_stack(struct warp *w, const struct ins *n, uint32_t mask) {
    const struct code *c = &w->block->launch->program->codes[w->current->code];
    EACH_LANE(i, mask) {
        uint64_t *top = &w->current->top[i], least = w->current->local[i] + c->local_bytes, value = lane_get(w, n->a, n->bytes, (int)i);
        if (n->mode == 0 && value > *top - least) return raise_error(w, n, PTX_ILLEGAL_ADDRESS, *top, (int)i, "the thread's stack of %llu bytes is full", (unsigned long long)w->local_bytes);
        if (n->mode == 0) *top = (*top - value) & ~(uint64_t)(n->imm - 1);
        if (n->mode == 2 && value >= least && value <= (uint64_t)(uintptr_t)w->local + (i + 1) * w->local_bytes) *top = value;
        if (n->mode < 2) lane_set(w, n->d, n->bytes, (int)i, *top);
        if (*top < least) return raise_error(w, n, PTX_ILLEGAL_ADDRESS, *top, (int)i, "the thread's stack of %llu bytes is full", (unsigned long long)w->local_bytes);
    }
    return true;
}

/* ---- barriers ---- */

static bool complete(const struct block *b, const struct barrier *r) {
    return r->arrived && r->arrived >= (r->expected ? r->expected : b->live_threads);
}

static void deliver(struct warp *w, uint32_t lane, const struct barrier *r) {
    const struct ins *n = w->barrier_at[w->barrier_together ? 0 : lane];
    bool value = n->mode == 3 ? r->trues == r->voters : r->trues > 0;
    if (n->mode < 2) return;
    uint8_t *to = register_at(w, w->frames[lane], n->d);
    if (n->mode == 2) memcpy(to + 4 * lane, &r->trues, 4);
    else mix_bits(to, 1u << lane, value ? ALL_LANES : 0);
}

static void release(struct block *b, uint32_t id) {
    struct barrier *r = &b->barriers[id];
    for (uint32_t k = 0; k < b->warp_count; k++) {
        struct warp *w = b->warps[k];
        bool together = w->barrier == ALL_LANES && w->barrier_together && !r->voters;
        if (together) {
            if (w->barrier_id[0] == id) w->barrier = 0;
            continue;
        }
        EACH_LANE(i, w->barrier)
            if (w->barrier_id[w->barrier_together ? 0 : i] == id) {
                deliver(w, i, r);
                w->barrier &= ~(1u << i);
            }
    }
    *r = (struct barrier){0};
    b->released = true;
    if (b->checker) checker_reset(b);
}

/* Threads have ended: barriers of all threads may be complete now. */
void barrier_recheck(struct block *b) {
    EACH_LANE(id, b->barriers_used)
        if (b->barriers[id].arrived && !b->barriers[id].expected && complete(b, &b->barriers[id])) release(b, id);
}

bool run_barrier(struct warp *w, const struct ins *n, uint32_t mask) {
    struct block *b = w->block;
    uint32_t pc = (uint32_t)(n - w->code), first = (uint32_t)__builtin_ctz(mask);
    uint64_t id = lane_get(w, n->a, 4, (int)first), count = n->count ? lane_get(w, n->b, 4, (int)first) : 0;
    if (id > 15) return raise_error(w, n, PTX_ILLEGAL_INSTRUCTION, 0, (int)first, "there is no barrier %llu", (unsigned long long)id);
    if (b->launch->checks & CHECK_SYNC && !check_barrier(w, n, mask, count)) return false;
    struct barrier *r = &b->barriers[id];
    b->barriers_used |= 1u << id;
    uint32_t arriving = lane_count(mask), parked = mask;
    if (w->barrier) EACH_LANE(i, w->barrier) if (w->barrier_id[i] == id) parked |= 1u << i;
    /* A count is one of whole warps: the last lanes of a warp stand for those it does not have. */
    if (count && (parked & w->alive) == w->alive) arriving += LANES - lane_count(w->alive);
    r->arrived += arriving;
    r->expected = (uint32_t)count;
    if (n->mode >= 2) {
        r->trues += lane_count(predicate(w, n->c) & mask);
        r->voters += lane_count(mask);
    }
    if (n->mode != 1) {
        warp_place(w, w->active, pc + 1);
        w->barrier_together = mask == ALL_LANES;
        EACH_LANE(i, w->barrier_together ? 1 : mask) w->barrier_id[i] = (uint32_t)id, w->barrier_at[i] = n;
        w->barrier |= mask;
    }
    if (complete(b, r)) release(b, (uint32_t)id);
    return n->mode == 1;
}
