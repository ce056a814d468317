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

/* ---- memory ---- */

static void copy_lanes(void *d_, const void *s_, unsigned bytes) {
#define COPY(T)                                               \
    {                                                         \
        T *d = d_;                                            \
        const T *s = s_;                                      \
        FOR_LANES d[i] = s[i];                                \
    }
    BY_SIZE(bytes, COPY)
#undef COPY
}

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
        if (n->space == SPACE_PARAM || range_known(w, plus, plus + total)) return true;
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
static inline bool some_bit(const words8 *x) {
    const words4 y = (words4)*x;
    return (y[0] | y[1] | y[2] | y[3]) != 0;
}

/* Words from shared memory, the inner loop of many kernels: false when anything about them is unusual. Sixteen lanes
 * often read neighbours, or all the same word. Vectors by hand: compilers unroll such short loops into single words. */
static bool load_shared_words(struct warp *w, const struct ins *n) {
    static const words8 RAMP = {0, 4, 8, 12, 16, 20, 24, 28};
    const words8 *base = (const words8 *)(const void *)at(w, n->a);
    words8 *d = (words8 *)(void *)at(w, n->d), offset[4];
    const uint8_t *from = w->block->shared;
    uint64_t end = w->block->shared_bytes;
    if (w->block->checker) return false;
    for (int k = 0; k < 4; k++) offset[k] = base[k] + (u32)n->imm;
    for (int k = 0; k < 4; k += 2) {
        words8 a = offset[k], b = offset[k + 1], first = (words8){0} + a[0];
        u32 at = a[0];
        words8 apart = (a ^ (first + RAMP)) | (b ^ (first + RAMP + 32)), unlike = (a ^ first) | (b ^ first);
        bool neighbours = !some_bit(&apart), same = !some_bit(&unlike);
        if (neighbours || same) {
            if (at & 3 || at + (same ? 4ull : 64ull) > end) return false;
            const words8 *words = (const words8 *)(const void *)(from + at);
            if (neighbours) d[k] = words[0], d[k + 1] = words[1];
            else d[k] = d[k + 1] = (words8){0} + *(const u32 *)(const void *)(from + at);
            continue;
        }
        const u32 *o = (const u32 *)&offset[k];
        u32 *to = (u32 *)&d[k], most = 0, bits = 0;
        for (int i = 0; i < 16; i++) most = o[i] > most ? o[i] : most, bits |= o[i];
        if (bits & 3 || most + 4ull > end) return false;
        for (int i = 0; i < 16; i++) to[i] = *(const u32 *)(const void *)(from + o[i]);
    }
    return true;
}

/* One value for all lanes: parameters and constants. */
static bool load_uniform(struct warp *w, const struct ins *n) {
    uint64_t from = (uint64_t)n->imm + (n->space == SPACE_PARAM ? (uint64_t)(uintptr_t)w->block->launch->parameters : 0);
    if (n->space != SPACE_PARAM && (!range_known(w, from, from + n->bytes) || from & (n->bytes - 1u) || w->block->checker)) return false;
    if (n->bytes == 4) {
        u32 *d = (u32 *)(void *)at(w, n->d), value = MEMORY(u32, from);
        FOR_LANES d[i] = value;
    } else {
        u64 *d = (u64 *)(void *)at(w, n->d), value = MEMORY(u64, from);
        FOR_LANES d[i] = value;
    }
    return true;
}

/* Do the lanes access neighbours in memory that they may access? The usual case: it is one copy then. */
static bool neighbours_located(struct warp *w, const struct ins *n, uint64_t *first) {
    const words4 *base = (const words4 *)(const void *)at(w, n->a);
    uint64_t low = base[0][0] + (uint64_t)n->imm, bytes = n->bytes;
    words4 expected = base[0][0] + (words4){0, bytes, 2 * bytes, 3 * bytes}, apart = {0};
    for (int k = 0; k < LANES / 4; k++) apart |= base[k] ^ expected, expected += 4 * bytes;
    *first = low;
    return !(apart[0] | apart[1] | apart[2] | apart[3]) && !(low & (bytes - 1)) && range_known(w, low, low + LANES * bytes) &&
           n->space != SPACE_SHARED && !w->block->checker;
}

/* False when anything about the load is unusual. */
static bool load_plainly(struct warp *w, const struct ins *n) {
    uint64_t first;
    switch (n->mode) {
    case SHARED_REG32: return n->bytes == 4 && load_shared_words(w, n);
    case FROM_REG64: return neighbours_located(w, n, &first) && (copy_lanes(at(w, n->d), (const void *)(uintptr_t)first, n->bytes), true);
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
    uint64_t first;
    if (n->mode != FROM_REG64 || !neighbours_located(w, n, &first)) return false;
    copy_lanes((void *)(uintptr_t)first, at(w, n->d), n->bytes);
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

static uint32_t shuffle(void *d_, const void *a_, const void *b_, const void *c_, int mode) {
    const u32 *b = b_, *c = c_;
    u32 *d = d_, a[LANES] __attribute__((aligned(32))), from[LANES] __attribute__((aligned(32)));
    uint8_t inside[LANES] __attribute__((aligned(32)));
    memcpy(a, a_, sizeof a);
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

/* Jumps back cost time: that of the lanes that wait for others, and that of other warps. True: look again which lanes run. */
static bool jump_back(struct warp *w) {
    int32_t cost = w->polled ? 64 : 1;
    w->polled = false;
    w->slice -= cost;
    if (w->divergent) w->turn -= cost;
    return w->slice <= 0 || w->turn <= 0;
}

/* The lanes with the lower instruction go on, the others wait. True: look again which lanes run. */
static bool branch(struct warp *w, const struct ins *n, uint32_t mask, uint32_t *pc) {
    uint32_t stay = w->active & ~mask, next = *pc + 1, target = n->target;
    if (!mask) return *pc = next, false;
    bool back = target <= *pc;
    if (stay) {
        uint32_t wait = back ? stay : mask, wait_at = back ? next : target;
        EACH_LANE(i, wait) w->pcs[i] = wait_at;
        w->active &= ~wait;
        w->horizon = wait_at < w->horizon ? wait_at : w->horizon;
        w->divergent = true;
        *pc = back ? target : next;
    } else {
        *pc = target;
    }
    return back && jump_back(w);
}

static void with_rounding(struct warp *w, const struct ins *n, uint32_t mask) {
    int before = rounding_set(n->rounding);
    run_vec(w, n, mask);
    rounding_restore(before);
}

/* Run the chosen lanes until they end, wait, or others have to be looked at. */
static void run_group(struct warp *w) {
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
            with_rounding(w, n, mask);
            result_clamp(at(w, n->d), n->type, n->flags, mask);
            break;
        case K_COMPARE:
            run_compare(w, n, mask);
            break;
        case K_SELECT: {
            void *to = mask == ALL_LANES ? at(w, n->d) : w->scratch;
            select_lanes(to, at(w, n->a), at(w, n->b), predicate(w, n->c), n->bytes);
            if (mask != ALL_LANES) blend(at(w, n->d), w->scratch, mask, n->bytes);
            break;
        }
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

static void interpret(struct warp *w) {
    while (warp_select(w)) run_group(w);
}
