/* The loop that runs a warp, and its loads and stores. Included by variant.h. */

static void blend(void *d_, const void *s_, uint32_t mask, unsigned bytes) {
#define BLEND(T)                                              \
    {                                                         \
        T *d = d_;                                            \
        const T *s = s_;                                      \
        FOR_LANES d[i] = mask >> i & 1 ? s[i] : d[i];         \
    }
    if (bytes == 16) EACH_LANE(i, mask) memcpy((u8 *)d_ + 16 * i, (const u8 *)s_ + 16 * i, 16);
    else BY_SIZE(bytes, BLEND)
#undef BLEND
}

static void select_lanes(void *d_, const void *a_, const void *b_, uint32_t chosen, unsigned bytes) {
#define SELECT(T)                                             \
    {                                                         \
        T *d = d_;                                            \
        const T *a = a_, *b = b_;                             \
        FOR_LANES d[i] = chosen >> i & 1 ? a[i] : b[i];       \
    }
    BY_SIZE(bytes, SELECT)
#undef SELECT
}

static void run_vec(struct warp *w, const struct ins *n, uint32_t mask) {
    u8 *d = at(w, n->d);
    void *to = mask == ALL_LANES ? d : w->scratch;
    n->vec(to, at(w, n->a), at(w, n->b), at(w, n->c), n);
    if (mask != ALL_LANES) blend(d, w->scratch, mask, n->bytes);
}

static void run_compare(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t yes = n->compare(at(w, n->a), at(w, n->b), n), no = ~yes;
    if (n->mode) {
        uint32_t c = predicate(w, n->c);
        yes = n->mode == 1 ? yes & c : n->mode == 2 ? yes | c : yes ^ c;
        no = n->mode == 1 ? no & c : n->mode == 2 ? no | c : no ^ c;
    }
    predicate_set(w, n->e, mask, no);
    predicate_set(w, n->d, mask, yes);
}

static void run_select(struct warp *w, const struct ins *n, uint32_t mask) {
    void *to = mask == ALL_LANES ? at(w, n->d) : w->scratch;
    select_lanes(to, at(w, n->a), at(w, n->b), predicate(w, n->c), n->bytes);
    if (mask != ALL_LANES) blend(at(w, n->d), w->scratch, mask, n->bytes);
}

static void read_special(struct warp *w, const struct ins *n, uint32_t mask) {
    u32 *d = __builtin_assume_aligned(at(w, n->d), 32);
    const u32 *s = __builtin_assume_aligned(w->special[n->mode], 64);
    if (mask == ALL_LANES) FOR_LANES d[i] = s[i];
    else blend(d, s, mask, 4);
}

/* ---- memory ---- */

/* Addresses of all lanes; those of idle lanes are copies of a running one's, so that reading them does no harm. */
static bool locate(struct warp *w, const struct ins *n, uint32_t mask, uint64_t *restrict out, bool write) {
    unsigned total = (unsigned)n->bytes * n->count;
    if (n->mode == SHARED_REG32) {
        const u32 *base = (const u32 *)(const void *)at(w, n->a);
        uint32_t offset[LANES], plus = (uint32_t)n->imm, most = 0, bits = 0, first = base[__builtin_ctz(mask)];
        FOR_LANES offset[i] = (mask >> i & 1 ? base[i] : first) + plus;
        FOR_LANES most = offset[i] > most ? offset[i] : most;
        FOR_LANES bits |= offset[i];
        uint64_t start = (uint64_t)(uintptr_t)w->block->shared;
        if (!(bits & (total - 1)) && most + (uint64_t)total <= w->block->shared_bytes && !w->block->checker) {
            FOR_LANES out[i] = start + offset[i];
            return true;
        }
        return addresses_of(w, n, mask, total, write, out);
    }
    if (n->space == SPACE_SHARED || w->block->checker) return addresses_of(w, n, mask, total, write, out);
    uint64_t plus = (uint64_t)n->imm;
    if (n->mode == FROM_REG64) {
        const u64 *base = (const u64 *)(const void *)at(w, n->a);
        FOR_LANES out[i] = base[i] + plus;
    } else if (n->mode == FROM_FRAME) {
        FOR_LANES out[i] = w->current->local[i] + plus;
    } else if (n->mode == ABSOLUTE) {
        if (n->space == SPACE_PARAM) plus += (uint64_t)(uintptr_t)w->block->launch->parameters;
        FOR_LANES out[i] = plus;
        if (n->space == SPACE_PARAM) return parameter_check(w, n, mask, total, write);
        if (range_known(w, plus, plus + total)) return true;
        return addresses_check(w, n, mask, out, total, write);
    } else {
        const u32 *base = (const u32 *)(const void *)at(w, n->a);
        FOR_LANES out[i] = base[i] + plus;
    }
    uint64_t first = out[__builtin_ctz(mask)], low = first, high = first, bits = 0;
    if (mask != ALL_LANES) FOR_LANES out[i] = mask >> i & 1 ? out[i] : first;
    FOR_LANES low = (int64_t)out[i] < (int64_t)low ? out[i] : low;
    FOR_LANES high = (int64_t)out[i] > (int64_t)high ? out[i] : high;
    FOR_LANES bits |= out[i];
    if (!(bits & (total - 1)) && range_known(w, low, high + total)) return true;
    return addresses_check(w, n, mask, out, total, write);
}

#define MEMORY(T, address) (*(T *)(uintptr_t)(address))

static void load_plain(u8 *d_, const uint64_t *from, uint32_t mask, unsigned bytes, unsigned offset) {
#define LOAD(T)                                               \
    {                                                         \
        T *d = (T *)(void *)d_;                               \
        if (mask == ALL_LANES)                                \
            for (int i = 0; i < LANES; i++) d[i] = MEMORY(T, from[i] + offset); \
        else EACH_LANE(i, mask) d[i] = MEMORY(T, from[i] + offset); \
    }
    if (bytes == 16) EACH_LANE(i, mask) memcpy(d_ + 16 * i, (const void *)(uintptr_t)(from[i] + offset), 16);
    else BY_SIZE(bytes, LOAD)
#undef LOAD
}

/* One value that other threads may change meanwhile: never torn, and what is read or written after it comes after it. */
static uint64_t load_ordered(uint64_t from, unsigned bytes) {
#define LOAD(T) return __atomic_load_n(&MEMORY(T, from), __ATOMIC_ACQUIRE)
    BY_SIZE(bytes, LOAD)
#undef LOAD
}

static void load_extended(u8 *d, const uint64_t *from, uint32_t mask, const struct ins *n, unsigned offset) {
    EACH_LANE(i, mask) {
        uint64_t value = n->flags & F_ORDERED ? load_ordered(from[i] + offset, n->bytes) : value_read((const void *)(uintptr_t)(from[i] + offset), n->bytes);
        unsigned shift = 64 - 8 * n->bytes;
        if (TYPES[n->type].kind == 's') value = (uint64_t)((int64_t)(value << shift) >> shift);
        value_write(d + (size_t)n->from * i, n->from, value);
        if (n->from == 16) memset(d + 16 * i + 8, 0, 8);
    }
}

typedef u32 words8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef u64 words4 __attribute__((vector_size(32), aligned(4), may_alias));
static inline bool no_bit(const words8 *x) {
#if defined(__AVX__)
    typedef long long whole __attribute__((vector_size(32)));
    return __builtin_ia32_ptestz256((whole)*x, (whole)*x);
#else
    const words4 y = (words4)*x;
    return !(y[0] | y[1] | y[2] | y[3]);
#endif
}

/* Words of shared memory, the inner loop of many kernels: false when anything about them is unusual. Sixteen lanes
 * often access neighbours, or all read the same word. Vectors by hand: compilers unroll such short loops into single words. */
static inline bool shared_words(struct warp *w, const struct ins *n, bool write) {
    static const words8 RAMP = {0, 4, 8, 12, 16, 20, 24, 28};
    const words8 *base = (const words8 *)(const void *)at(w, n->a);
    words8 *d = (words8 *)(void *)at(w, n->d);
    uint8_t *shared = w->block->shared;
    uint64_t end = w->block->shared_bytes;
    u32 plus = (u32)n->imm;
    if (w->block->checker || (!write && n->d == n->a)) return false; /* a load must not change addresses before all are known to be good */
    for (int k = 0; k < 4; k += 2) {
        const words8 a = base[k], b = base[k + 1], first = (words8){0} + a[0];
        u32 start = a[0] + plus;
        bool same = !write && a[0] == a[1];
        const words8 apart = same ? (a ^ first) | (b ^ first) : (a ^ (first + RAMP)) | (b ^ (first + RAMP + 32));
        if (no_bit(&apart)) {
            words8 *words = (words8 *)(void *)(shared + start);
            if (start & 3 || start + (same ? 4ull : 64ull) > end) return false;
            if (same) d[k] = d[k + 1] = (words8){0} + *(const u32 *)(const void *)words;
            else if (write) words[0] = d[k], words[1] = d[k + 1];
            else d[k] = words[0], d[k + 1] = words[1];
            continue;
        }
        const u32 *o = (const u32 *)&base[k];
        u32 *value = (u32 *)&d[k], most = 0, bits = 0;
        for (int i = 0; i < 16; i++) most = o[i] + plus > most ? o[i] + plus : most, bits |= o[i] + plus;
        if (bits & 3 || most + 4ull > end) return false;
        for (int i = 0; i < 16; i++) {
            u32 *word = (u32 *)(void *)(shared + (u32)(o[i] + plus));
            if (write) *word = value[i];
            else value[i] = *word;
        }
    }
    return true;
}

/* One value for all lanes: parameters and constants. */
static bool load_uniform(struct warp *w, const struct ins *n) {
    uint64_t from = (uint64_t)n->imm + (n->space == SPACE_PARAM ? (uint64_t)(uintptr_t)w->block->launch->parameters : 0);
    bool right = n->space == SPACE_PARAM ? parameter_known(w, n, n->bytes) : range_known(w, from, from + n->bytes) && !(from & (n->bytes - 1u)) && !w->block->checker;
    if (!right) return false;
    if (n->bytes == 4) {
        u32 *d = (u32 *)(void *)at(w, n->d), value = MEMORY(u32, from);
        FOR_LANES d[i] = value;
    } else {
        u64 *d = (u64 *)(void *)at(w, n->d), value = MEMORY(u64, from);
        FOR_LANES d[i] = value;
    }
    return true;
}

/* Does each half of the warp access neighbours in memory that it may access? The usual case: two copies then. */
static bool halves_located(struct warp *w, const struct ins *n, uint64_t first[2]) {
    const words4 *base = (const words4 *)(const void *)at(w, n->a);
    uint64_t bytes = n->bytes;
    const words4 step = {4 * bytes, 4 * bytes, 4 * bytes, 4 * bytes}, ramp = {0, bytes, 2 * bytes, 3 * bytes};
    if (n->space == SPACE_SHARED || w->block->checker) return false;
    for (int k = 0; k < 2; k++, base += 4) {
        words4 expected = base[0][0] + ramp, apart = base[0] ^ expected;
        for (int i = 1; i < 4; i++) apart |= base[i] ^ (expected += step);
        first[k] = base[0][0] + (uint64_t)n->imm;
        if (!no_bit((const words8 *)&apart) || first[k] & (bytes - 1)) return false;
    }
    uint64_t low = first[0] < first[1] ? first[0] : first[1], high = first[0] < first[1] ? first[1] : first[0];
    return range_known(w, low, high + 16 * bytes);
}

static void copy_half(void *to, const void *from, unsigned bytes) {
    switch (bytes) { /* each size by itself: they are a few instructions then */
    case 1: memcpy(to, from, 16); break;
    case 2: memcpy(to, from, 32); break;
    case 4: memcpy(to, from, 64); break;
    case 8: memcpy(to, from, 128); break;
    default: memcpy(to, from, 256);
    }
}

static void load_halves(uint8_t *d, const uint64_t first[2], unsigned bytes) {
    /* Warps that follow read what follows. */
    for (unsigned k = 0; k < 4; k++) __builtin_prefetch((const uint8_t *)(uintptr_t)first[0] + 1024 + 64 * k);
    for (int k = 0; k < 2; k++) copy_half(d + 16 * bytes * (unsigned)k, (const void *)(uintptr_t)first[k], bytes);
}

/* False when anything about the load is unusual. */
static bool load_plainly(struct warp *w, const struct ins *n) {
    uint64_t first[2];
    switch (n->mode) {
    case SHARED_REG32: return n->bytes == 4 && shared_words(w, n, false);
    case FROM_REG64: return halves_located(w, n, first) && (load_halves(at(w, n->d), first, n->bytes), true);
    case ABSOLUTE: return n->space != SPACE_SHARED && n->bytes >= 4 && load_uniform(w, n);
    default: return false;
    }
}

/* ins.from: bytes of the registers */
static bool load(struct warp *w, const struct ins *n, uint32_t mask) {
    uint64_t from[LANES] __attribute__((aligned(32)));
    if (!locate(w, n, mask, from, false)) return false;
    if (n->flags & F_POLL) w->polled = true;
    const uint32_t *list = w->block->launch->program->refs + n->list;
    bool ordered = n->flags & F_ORDERED && n->bytes < 16;
    for (unsigned k = 0; k < n->count; k++) {
        u8 *d = at(w, n->count == 1 ? n->d : list[k]);
        if (n->bytes == n->from && !ordered) load_plain(d, from, mask, n->bytes, k * n->bytes);
        else load_extended(d, from, mask, n, k * n->bytes);
    }
    if (n->flags & F_FENCE && !ordered) __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return true;
}

static void store_plain(const u8 *s, const uint64_t *to, uint32_t mask, unsigned bytes, unsigned step, unsigned offset) {
#define STORE(T)                                              \
    {                                                         \
        if (mask == ALL_LANES && step == bytes)               \
            for (int i = 0; i < LANES; i++) MEMORY(T, to[i] + offset) = ((const T *)(const void *)s)[i]; \
        else EACH_LANE(i, mask) MEMORY(T, to[i] + offset) = *(const T *)(const void *)(s + (size_t)step * i); \
    }
    if (bytes == 16) EACH_LANE(i, mask) memcpy((void *)(uintptr_t)(to[i] + offset), s + 16 * i, 16);
    else BY_SIZE(bytes, STORE)
#undef STORE
}

static bool store_plainly(struct warp *w, const struct ins *n) {
    uint64_t first[2];
    if (n->mode == SHARED_REG32) return n->bytes == 4 && shared_words(w, n, true);
    if (n->mode != FROM_REG64 || !halves_located(w, n, first)) return false;
    for (unsigned k = 0; k < 2; k++) copy_half((void *)(uintptr_t)first[k], at(w, n->d) + 16u * n->bytes * k, n->bytes);
    return true;
}

static void store_ordered(const u8 *s, const uint64_t *to, uint32_t mask, unsigned bytes, unsigned step, unsigned offset) {
#define STORE(T) __atomic_store_n(&MEMORY(T, to[i] + offset), (T)value_read(s + (size_t)step * i, bytes), __ATOMIC_RELEASE)
    EACH_LANE(i, mask) BY_SIZE(bytes, STORE)
#undef STORE
}

static bool store(struct warp *w, const struct ins *n, uint32_t mask) {
    uint64_t to[LANES] __attribute__((aligned(32)));
    if (!locate(w, n, mask, to, true)) return false;
    bool ordered = n->flags & F_ORDERED && n->bytes < 16;
    if (n->flags & F_FENCE && !ordered) __atomic_thread_fence(__ATOMIC_RELEASE);
    const uint32_t *list = w->block->launch->program->refs + n->list;
    for (unsigned k = 0; k < n->count; k++)
        (ordered ? store_ordered : store_plain)(at(w, n->count == 1 ? n->d : list[k]), to, mask, n->bytes, n->from, k * n->bytes);
    return true;
}

/* ---- shuffles of whole warps ---- */

/* All lanes by the same distance in one segment, as most programs do: up, down, or all from one. `a` has room for twice the lanes. */
static uint32_t shuffle_whole(u32 *d, const u32 *a, int by, int mode) {
    if (mode == 0) FOR_LANES d[i] = i < by ? a[LANES + i] : a[LANES + i - by];
    else if (mode == 1) FOR_LANES d[i] = i + by < LANES ? a[i + by] : a[i];
    else FOR_LANES d[i] = a[by];
    return mode == 0 ? ALL_LANES << by : mode == 1 ? ALL_LANES >> by : ALL_LANES;
}

static uint32_t shuffle(void *d_, const void *a_, const void *b_, const void *c_, int mode) {
    const u32 *b = b_, *c = c_;
    u32 *d = d_, a[2 * LANES] __attribute__((aligned(32))), from[LANES] __attribute__((aligned(32))), unlike = 0;
    memcpy(a, a_, sizeof a / 2);
    memcpy(a + LANES, a_, sizeof a / 2);
    FOR_LANES unlike |= (b[i] ^ b[0]) | (c[i] ^ c[0]);
    if (!unlike && mode != 2 && (c[0] & 0x1f1f) == (mode ? 31u : 0u)) return shuffle_whole(d, a, b[0] & 31, mode);
    uint8_t inside[LANES] __attribute__((aligned(32)));
    for (int i = 0; i < LANES; i++) {
        u32 lane = (u32)i, segment = c[i] >> 8 & 31, by = b[i] & 31, last = (lane & segment) | (c[i] & 31 & ~segment);
        s32 j = mode == 0 ? (s32)(lane - by) : mode == 1 ? (s32)(lane + by) : mode == 2 ? (s32)(lane ^ by) : (s32)((lane & segment) | (by & ~segment));
        u32 right = mode == 0 ? j >= (s32)last : j <= (s32)last;
        inside[i] = (uint8_t)right;
        from[i] = right ? (u32)j & 31 : lane;
    }
    for (int i = 0; i < LANES; i++) d[i] = a[from[i]];
    return pack_bits(inside);
}

/* ---- control ---- */

/* The lanes with the lower instruction go on, the others wait. True: look again which lanes run. */
static bool branch(struct warp *w, const struct ins *n, uint32_t mask, uint32_t *pc) {
    uint32_t stay = w->active & ~mask, next = *pc + 1, target = n->target;
    if (!mask) return *pc = next, false;
    bool back = target <= *pc;
    if (stay) {
        uint32_t wait = back ? stay : mask, wait_at = back ? next : target;
        warp_place(w, wait, wait_at);
        w->active &= ~wait;
        w->horizon = wait_at < w->horizon ? wait_at : w->horizon;
        w->divergent = true;
        *pc = back ? target : next;
    } else {
        *pc = target;
    }
    return back && spend_turn(w);
}

static void run_rounded(struct warp *w, const struct ins *n, uint32_t mask) {
    int before = rounding_set(n->rounding);
    run_vec(w, n, mask);
    rounding_restore(before);
    result_clamp(at(w, n->d), n->type, n->flags, mask);
}

/* Run the chosen lanes until they end, wait, or others have to be looked at. */
static __attribute__((hot)) void run_group(struct warp *w) {
    const struct ins *code = w->code;
    uint32_t pc = w->pc;
    while (pc < w->horizon) {
        const struct ins *n = code + pc;
        uint32_t mask = w->active;
        if (n->guard) mask &= predicate(w, n->guard);
        if (!mask) {
            pc++;
            continue;
        }
        switch (n->kind) {
        case K_VEC:
            run_vec(w, n, mask);
            break;
        case K_VEC_ROUNDED:
            run_rounded(w, n, mask);
            break;
        case K_COMPARE:
            run_compare(w, n, mask);
            break;
        case K_SELECT:
            run_select(w, n, mask);
            break;
        case K_LOAD_PLAIN:
            if (mask == ALL_LANES && load_plainly(w, n)) break; /* fall through */
        case K_LOAD:
            if (load(w, n, mask)) break;
            return;
        case K_STORE_PLAIN:
            if (mask == ALL_LANES && store_plainly(w, n)) break; /* fall through */
        case K_STORE:
            if (store(w, n, mask)) break;
            return;
        case K_SPECIAL:
            read_special(w, n, mask);
            break;
        case K_BRANCH:
            if (!branch(w, n, mask, &pc)) continue;
            warp_place(w, w->active, pc);
            return;
        default:
            w->pc = pc;
            if (n->run(w, n, mask)) break;
            return;
        }
        pc++;
    }
    warp_place(w, w->active, pc);
}

/* Do all these warps take the branch (1), none of them (0), or does it part lanes (-1)? */
static int branch_of_all(struct warp **warps, unsigned count, const struct ins *n) {
    uint32_t any = 0, all = ALL_LANES;
    for (unsigned k = 0; k < count; k++) {
        uint32_t mask = n->guard ? predicate(warps[k], n->guard) : ALL_LANES;
        any |= mask, all &= mask;
    }
    return all == ALL_LANES ? 1 : any ? -1 : 0;
}

static bool spend_turns(struct warp **warps, unsigned count) {
    bool part = false;
    for (unsigned k = 0; k < count; k++) part |= spend_turn(warps[k]);
    return part;
}

/* One instruction of its own for each warp: are they still, or again, at one place? Those that did not end or wait go on. */
static bool run_each(struct warp **warps, unsigned count, const struct ins *n, uint32_t pc) {
    bool together = true;
    for (unsigned k = 0; k < count; k++) {
        struct warp *w = warps[k];
        uint32_t mask = n->guard ? predicate(w, n->guard) : ALL_LANES;
        w->pc = pc;
        if (!mask || n->run(w, n, mask)) warp_place(w, ALL_LANES, pc + 1);
        if (launch_stopped(w->block->launch)) return false;
    }
    for (unsigned k = 0; k < count; k++) together &= warp_whole(warps[k]) && warps[k]->pcs[0] == pc + 1 && warps[k]->slice > 0;
    return together;
}

/* Warps at one place, all lanes of each, run together from there: an instruction is read once for all of them. They part
 * where lanes take different ways or wait; each warp knows its place then. */
static __attribute__((noinline, hot)) void run_together(struct warp **warps, unsigned count) {
    const struct ins *code = warps[0]->code;
    uint32_t pc = warps[0]->pcs[0];
    bool part = false;
    for (unsigned k = 0; k < count; k++) warp_take(warps[k]);
#define EACH_WARP(DO)                                                               \
    for (unsigned k = 0; k < count; k++) {                                          \
        struct warp *w = warps[k];                                                  \
        uint32_t mask = n->guard ? predicate(w, n->guard) : ALL_LANES;              \
        if (mask) DO;                                                               \
    }                                                                               \
    break
    while (!part) {
        const struct ins *n = code + pc++;
        switch (n->kind) {
        case K_VEC: EACH_WARP(run_vec(w, n, mask));
        case K_COMPARE: EACH_WARP(run_compare(w, n, mask));
        case K_SELECT: EACH_WARP(run_select(w, n, mask));
        case K_SPECIAL: EACH_WARP(read_special(w, n, mask));
        case K_VEC_ROUNDED: EACH_WARP(run_rounded(w, n, mask));
        case K_LOAD_PLAIN: EACH_WARP(part |= !((mask == ALL_LANES && load_plainly(w, n)) || load(w, n, mask)));
        case K_LOAD: EACH_WARP(part |= !load(w, n, mask));
        case K_STORE_PLAIN: EACH_WARP(part |= !((mask == ALL_LANES && store_plainly(w, n)) || store(w, n, mask)));
        case K_STORE: EACH_WARP(part |= !store(w, n, mask));
        case K_BRANCH: {
            int taken = branch_of_all(warps, count, n);
            if (taken < 0) pc--, part = true;
            else if (taken) part = n->target < pc && spend_turns(warps, count), pc = n->target;
            break;
        }
        default:
            if (!run_each(warps, count, n, pc - 1)) return;
        }
    }
#undef EACH_WARP
    for (unsigned k = 0; k < count; k++) warp_place(warps[k], ALL_LANES, pc);
}

/* Run a warp, or several that are at one place, until each waits or ends. */
static void interpret(struct warp **warps, unsigned count) {
    if (count > 1) run_together(warps, count);
    for (unsigned k = 0; k < count; k++) {
        warps[k]->block->released = false;
        while (!warps[k]->block->released && warp_select(warps[k])) run_group(warps[k]);
    }
}
