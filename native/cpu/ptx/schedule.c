/* Who runs next: lanes within a warp, warps within a block, blocks on the machine's threads. */
#include "host.h"
#include "rare.h"

#include <stdlib.h>

enum { TURN = 4096, SLICE = 8192, PATIENCE = 64 /* rounds before another block is begun beside spinning ones */, RESIDENT = 2048, REGISTERS_NEAR = 64 << 10 };

/* ---- frames ---- */

struct frame *frame_new(struct warp *w, uint32_t code) {
    const struct program *p = w->block->launch->program;
    struct frame **at = &w->block->worker->free_frames, *f;
    while (*at && (*at)->code != code) at = &(*at)->next_free;
    if ((f = *at)) {
        *at = f->next_free;
    } else {
        size_t head = (sizeof *f + 63) & ~(size_t)63;
        f = host_aligned_alloc(head + p->codes[code].register_bytes);
        if (!f) return NULL;
        f->registers = (uint8_t *)f + head;
        memset(f->registers, 0, p->codes[code].register_bytes);
        memset(f->parent, 0, sizeof f->parent);
    }
    f->code = code;
    f->live = f->depth = 0;
    return f;
}

void frame_leave(struct warp *w, struct frame *f, uint32_t lanes) {
    f->live &= ~lanes;
    if (f->live) return;
    struct worker *k = w->block->worker;
    f->next_free = k->free_frames;
    k->free_frames = f;
}

/* Take lanes of another frame of the same function into this one. */
static void frame_merge(struct warp *w, struct frame *to, struct frame *from, uint32_t lanes) {
    const struct program *p = w->block->launch->program;
    const struct code *c = &p->codes[to->code];
    EACH_LANE(i, lanes) {
        to->parent[i] = from->parent[i];
        to->return_pc[i] = from->return_pc[i];
        to->local[i] = from->local[i];
        to->top[i] = from->top[i];
        w->frames[i] = to;
    }
    for (uint32_t k = 0; k < c->register_count; k++) {
        uint8_t *a = to->registers + c->registers[k].at, *b = from->registers + c->registers[k].at;
        size_t bytes = c->registers[k].bytes;
        if (bytes) EACH_LANE(i, lanes) memcpy(a + bytes * i, b + bytes * i, bytes);
        else mix_bits(a, lanes, (uint32_t)value_read(b, 4));
    }
    to->live |= lanes;
    frame_leave(w, from, lanes);
}

/* Take all these lanes into one frame. */
static void frames_join(struct warp *w, struct frame *to, uint32_t lanes) {
    EACH_LANE(i, lanes)
        if (w->frames[i] != to) {
            uint32_t same = 0;
            EACH_LANE(k, lanes) same |= w->frames[k] == w->frames[i] ? 1u << k : 0;
            frame_merge(w, to, w->frames[i], same);
        }
}

/* ---- lanes ---- */

/* Those of the lanes that are at an instruction in a call of that depth. */
static uint32_t lanes_at(const struct warp *w, uint32_t lanes, uint32_t pc, uint32_t depth) {
    uint32_t out = 0;
    EACH_LANE(i, lanes) out |= w->pcs[i] == pc && w->frames[i]->depth == depth ? 1u << i : 0;
    return out;
}

void warp_place(struct warp *w, uint32_t lanes, uint32_t pc) {
    if (lanes == ALL_LANES) for (int i = 0; i < LANES; i++) w->pcs[i] = pc;
    else EACH_LANE(i, lanes) w->pcs[i] = pc;
    if (lanes) w->together = lanes == ALL_LANES;
}

/* The deepest call first, in it the lowest instruction: lanes that left a loop or a branch wait for the others. */
static uint32_t lowest(const struct warp *w, uint32_t lanes) {
    uint32_t best = (uint32_t)__builtin_ctz(lanes);
    EACH_LANE(i, lanes) {
        uint32_t depth = w->frames[i]->depth, most = w->frames[best]->depth;
        if (depth > most || (depth == most && w->pcs[i] < w->pcs[best])) best = i;
    }
    return best;
}

static void run_next(struct warp *w, struct frame *f, uint32_t pc, uint32_t group, uint32_t others, uint32_t horizon) {
    if (!others || w->turn <= 0 || w->turn > TURN) w->turn = TURN; /* lanes that run meanwhile do not renew it */
    w->divergent = others != 0;
    w->horizon = horizon;
    w->active = group;
    w->pc = pc;
    w->current = f;
    w->base[0] = f->registers;
}

/* All lanes of a full warp at one place: the usual case. */
static bool in_step(const struct warp *w) {
    uint32_t other = 0;
    uintptr_t elsewhere = 0;
    for (int i = 0; i < LANES; i++) other |= w->pcs[i] ^ w->pcs[0];
    for (int i = 0; i < LANES; i++) elsewhere |= (uintptr_t)w->frames[i] ^ (uintptr_t)w->frames[0];
    return !other && !elsewhere;
}

/* The lanes that neither ended nor wait. */
static uint32_t warp_can(const struct warp *w) { return w->alive & ~w->collective & ~w->barrier; }

bool warp_whole(const struct warp *w) {
    return warp_can(w) == ALL_LANES && (w->together || in_step(w));
}

void warp_take(struct warp *w) { run_next(w, w->frames[0], w->pcs[0], ALL_LANES, 0, UINT32_MAX); }

bool warp_select(struct warp *w) {
    uint32_t can = warp_can(w);
    if (!can || w->slice <= 0 || launch_stopped(w->block->launch)) return false;
    if (warp_whole(w)) return warp_take(w), true;
    bool turn = w->turn <= 0 && (can & ~w->active);
    if (turn) { /* all others have one before these have the next */
        w->waited |= w->active;
        if (!(can & ~w->waited)) w->waited = w->active;
    }
    uint32_t best = lowest(w, turn ? can & ~w->waited : can), pc = w->pcs[best], horizon = UINT32_MAX;
    struct frame *f = w->frames[best];
    uint32_t group = lanes_at(w, can, pc, f->depth);
    EACH_LANE(i, can & ~group)
        if (w->frames[i]->depth == f->depth && w->pcs[i] > pc && w->pcs[i] < horizon) horizon = w->pcs[i];
    frames_join(w, f, group);
    run_next(w, f, pc, group, can & ~group, turn ? UINT32_MAX : horizon);
    return true;
}

void warp_end_lanes(struct warp *w, uint32_t lanes) {
    bool together = !w->current->depth && w->current->live == lanes;
    if (together) frame_leave(w, w->current, lanes);
    else EACH_LANE(i, lanes) {
        for (struct frame *f = w->frames[i], *parent; f; f = parent) {
            parent = f->parent[i];
            frame_leave(w, f, 1u << i);
        }
    }
    w->alive &= ~lanes;
    w->block->live_threads -= lane_count(lanes);
    barrier_recheck(w->block);
}

bool warp_gather(struct warp *w, const struct ins *n, uint32_t mask, uint32_t wanted, uint32_t *lanes) {
    uint32_t here = mask, pc = (uint32_t)(n - w->code);
    wanted &= w->alive;
    uint32_t forced = w->forced & mask;
    w->forced &= ~mask;
    if (wanted & ~here) here |= lanes_at(w, w->collective & wanted, pc, w->current->depth);
    if ((wanted & ~here) && !forced) {
        warp_place(w, w->active & ~mask, pc + 1);
        warp_place(w, mask, pc);
        w->collective |= mask;
        return false;
    }
    uint32_t joined = here & ~mask;
    frames_join(w, w->current, joined);
    if (joined) { /* they go on behind this instruction, where they meet the others */
        w->collective &= ~joined;
        warp_place(w, joined, pc + 1);
        if (w->horizon > pc + 1) w->horizon = pc + 1;
        w->divergent = true;
    }
    *lanes = here;
    return true;
}

/* Nothing in the block can run: the collectives that wait go on with the lanes they have. */
static bool force_collectives(struct block *b) {
    bool any = false;
    for (uint32_t k = 0; k < b->warp_count; k++) {
        struct warp *w = b->warps[k];
        if (!w->collective) continue;
        uint32_t best = lowest(w, w->collective), same = lanes_at(w, w->collective, w->pcs[best], w->frames[best]->depth);
        w->forced |= same;
        w->collective &= ~same;
        any = true;
    }
    return any;
}

/* ---- blocks ---- */

enum round { ROUND_DONE, ROUND_RAN, ROUND_SPUN /* a warp used up its turn: it may wait for another block */, ROUND_STUCK };

static void without_memory(struct launch *l) {
    engine_lock();
    if (!l->stop) fail(l->error, PTX_OUT_OF_MEMORY, 0, "there is no memory for the kernel's threads");
    __atomic_store_n(&l->stop, 1, __ATOMIC_RELAXED);
    engine_unlock();
}

/* How many warps from this one on are at the same place? As many as have their registers in the cache together, and only
 * those that have run before: of new ones each finds the registers of the one before it in the cache, where it ended. */
static uint32_t warps_in_step(const struct block *b, uint32_t first) {
    const struct warp *w = b->warps[first];
    uint32_t most = REGISTERS_NEAR / (b->launch->program->codes[0].register_bytes + 1), k = first + 1;
    if (b->checker || !w->begun || !warp_whole(w)) return 1;
    for (; k < b->warp_count && k - first < most; k++) {
        const struct warp *next = b->warps[k];
        if (!next->begun || !warp_whole(next) || next->pcs[0] != w->pcs[0] || next->frames[0]->code != w->frames[0]->code) break;
    }
    return k - first;
}

static enum round block_round(struct block *b) {
    void (*interpret)(struct warp **warps, unsigned count) = operations()->interpret;
    bool ran = false, alive = false, spun = false;
    for (uint32_t k = 0, count; k < b->warp_count; k += count) {
        struct warp *w = b->warps[k];
        count = 1;
        if (!warp_can(w)) continue;
        count = warps_in_step(b, k);
        for (uint32_t i = 0; i < count; i++)
            if (b->warps[k + i]->slice <= 0) b->warps[k + i]->slice = SLICE;
        if (!w->begun && !warp_begin(w)) return without_memory(b->launch), ROUND_DONE;
        b->released = false;
        interpret(b->warps + k, count);
        ran = true;
        if (launch_stopped(b->launch)) return ROUND_DONE;
    }
    for (uint32_t k = 0; k < b->warp_count; k++) alive |= b->warps[k]->alive != 0, spun |= warp_can(b->warps[k]) && b->warps[k]->slice <= 0;
    return !alive ? ROUND_DONE : spun ? ROUND_SPUN : ran ? ROUND_RAN : ROUND_STUCK;
}

static bool block_stuck(struct block *b) {
    if (force_collectives(b)) return true;
    struct warp *w = b->warps[0];
    for (uint32_t k = 0; k < b->warp_count && !w->alive; k++) w = b->warps[k];
    int lane = __builtin_ctz(w->alive | 1u << 31);
    raise_error(w, w->barrier_at[lane] ? w->barrier_at[lane] : w->code, PTX_TIMEOUT, 0, lane, "every thread of the block waits at a barrier for more threads than there are");
    return false;
}

/* The next block of the grid, in order; NULL: none is left, or an error was met. */
static struct block *begin_block(struct worker *k) {
    struct launch *l = k->launch;
    if (launch_stopped(l)) return NULL;
    uint64_t index = __atomic_fetch_add(&l->next_block, 1, __ATOMIC_RELAXED);
    if (index >= l->blocks) return NULL;
    struct block *b = k->spare;
    if (b) k->spare = b->next;
    else if ((b = calloc(1, sizeof *b))) b->launch = l, b->worker = k;
    if (b) b->index = index;
    if (b && block_init(b)) return b;
    if (b) block_free(b);
    without_memory(l);
    return NULL;
}

static uint32_t add_resident(struct worker *k, uint32_t count, uint32_t wanted) {
    while (count < wanted) {
        struct block *b = begin_block(k);
        if (!b) break;
        struct block **last = &k->resident;
        while (*last) last = &(*last)->next;
        b->next = NULL;
        *last = b;
        count++;
    }
    return count;
}

void blocks_run(struct worker *k) {
    struct launch *l = k->launch;
    uint64_t share = l->asked->cooperative ? (l->blocks + l->workers - 1) / l->workers : 1;
    uint32_t wanted = share > UINT32_MAX ? UINT32_MAX : (uint32_t)share, spun = 0;
    uint32_t count = add_resident(k, 0, wanted);
    while (count && !launch_stopped(l)) {
        bool ended = false, spins = false;
        for (struct block **at = &k->resident, *b; (b = *at);) {
            enum round round = block_round(b);
            if (launch_stopped(l)) break;
            if (round == ROUND_STUCK && !block_stuck(b)) break;
            if (round == ROUND_DONE) {
                *at = b->next;
                b->next = k->spare;
                k->spare = b;
                count--;
                ended = true;
                continue;
            }
            spins |= round == ROUND_SPUN;
            at = &b->next;
        }
        spun = ended ? 0 : spun + spins;
        if (spins && spun > PATIENCE) host_pause();
        /* Blocks that spin may wait for one that has not begun. */
        if (spins && spun % PATIENCE == 0 && !l->asked->cooperative && wanted < RESIDENT) wanted += 1 + wanted / 2;
        if (ended && !l->asked->cooperative) wanted = count ? count : 1;
        if (!l->asked->cooperative) count = add_resident(k, count, wanted);
    }
    for (struct block *b = k->resident, *next; b; b = next) next = b->next, block_free(b);
    for (struct block *b = k->spare, *next; b; b = next) next = b->next, block_free(b);
    for (struct frame *f = k->free_frames, *next; f; f = next) next = f->next_free, host_aligned_free(f);
}
