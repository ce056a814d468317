/* What the lanes of a warp do together: shuffles, votes, matches, reductions. */
#include "rare.h"
#include "floats.h"

/* The lanes that take part: those of the member mask where there is one, else the running ones. */
static bool gather(struct warp *w, const struct ins *n, uint32_t mask, uint32_t *lanes) {
    *lanes = mask;
    if (!n->e) return true;
    uint32_t wanted = (uint32_t)lane_get(w, n->e, 4, __builtin_ctz(mask));
    return warp_gather(w, n, mask, wanted, lanes);
}

bool run_warp_sync(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t lanes;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return gather(w, n, mask, &lanes);
}

bool run_shuffle(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t lanes, out[LANES] __attribute__((aligned(64))), *d = (uint32_t *)(void *)at(w, n->d);
    if (!gather(w, n, mask, &lanes)) return false;
    uint32_t inside = operations()->shuffle(lanes == ALL_LANES ? d : out, at(w, n->a), at(w, n->b), at(w, n->c), n->mode);
    if (lanes != ALL_LANES) EACH_LANE(i, lanes) d[i] = out[i];
    predicate_set(w, n->target, lanes, inside);
    return true;
}

bool run_vote(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t lanes;
    if (!gather(w, n, mask, &lanes)) return false;
    uint32_t yes = predicate(w, n->a) & lanes;
    if (n->mode == 3) {
        EACH_LANE(i, lanes) lane_set(w, n->d, 4, (int)i, yes);
        return true;
    }
    bool result = n->mode == 0 ? yes == lanes : n->mode == 1 ? yes != 0 : yes == 0 || yes == lanes;
    predicate_set(w, n->d, lanes, result ? ALL_LANES : 0);
    return true;
}

bool run_match(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t lanes, all = ALL_LANES;
    if (!gather(w, n, mask, &lanes)) return false;
    uint32_t same[LANES] = {0};
    EACH_LANE(i, lanes) {
        EACH_LANE(k, lanes) same[i] |= lane_get(w, n->a, n->bytes, (int)i) == lane_get(w, n->a, n->bytes, (int)k) ? 1u << k : 0;
        all = same[i] == lanes ? all : 0;
    }
    EACH_LANE(i, lanes) lane_set(w, n->d, 4, (int)i, n->mode ? (all ? lanes : 0) : same[i]);
    if (n->mode) predicate_set(w, n->target, lanes, all);
    return true;
}

static float reduce_float(float x, float y, int mode, uint32_t flags) {
    if (flags & F_ABS) x = absolute(x), y = absolute(y);
    if (flags & F_NAN) return mode == 4 ? min32_nan(x, y) : max32_nan(x, y);
    return nan32(mode == 4 ? min32(x, y) : max32(x, y));
}

static uint32_t reduce(uint32_t x, uint32_t y, const struct ins *n) {
    bool less = n->type == T_S32 ? (int32_t)x < (int32_t)y : x < y;
    if (n->type == T_F32) return bits32(reduce_float(float32(x), float32(y), n->mode, n->flags));
    switch (n->mode) {
    case 0: return x + y;
    case 1: return x & y;
    case 2: return x | y;
    case 3: return x ^ y;
    case 4: return less ? x : y;
    default: return less ? y : x;
    }
}

bool run_reduce(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t lanes;
    if (!gather(w, n, mask, &lanes)) return false;
    int first = __builtin_ctz(lanes);
    uint32_t total = (uint32_t)lane_get(w, n->a, 4, first);
    if (n->type == T_F32) total = reduce(total, total, n);
    EACH_LANE(i, lanes & (lanes - 1)) total = reduce(total, (uint32_t)lane_get(w, n->a, 4, (int)i), n);
    EACH_LANE(i, lanes) lane_set(w, n->d, 4, (int)i, total);
    return true;
}

bool run_active_mask(struct warp *w, const struct ins *n, uint32_t mask) {
    EACH_LANE(i, mask) lane_set(w, n->d, 4, (int)i, mask);
    return true;
}

bool run_elect(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t lanes;
    if (!gather(w, n, mask, &lanes)) return false;
    EACH_LANE(i, lanes) lane_set(w, n->d, 4, (int)i, (uint32_t)__builtin_ctz(lanes));
    predicate_set(w, n->target, lanes, lanes & (0 - lanes));
    return true;
}
