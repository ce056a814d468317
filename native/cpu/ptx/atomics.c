/* Atomic operations, asynchronous copies, barriers in memory. */
#include "rare.h"
#include "floats.h"

enum { ADD, AND, OR, XOR, MIN, MAX, INC, DEC, EXCH, CAS };

static uint64_t combine_integer(const struct ins *n, uint64_t old, uint64_t b) {
    unsigned shift = 64 - 8 * n->bytes;
    bool is_signed = TYPES[n->type].kind == 's';
    int64_t x = (int64_t)(old << shift), y = (int64_t)(b << shift);
    bool less = is_signed ? x < y : (uint64_t)x < (uint64_t)y;
    switch (n->rounding) {
    case ADD: return old + b;
    case AND: return old & b;
    case OR: return old | b;
    case XOR: return old ^ b;
    case MIN: return less ? old : b;
    case MAX: return less ? b : old;
    case INC: return (uint32_t)old >= (uint32_t)b ? 0 : old + 1;
    case DEC: return (uint32_t)old == 0 || (uint32_t)old > (uint32_t)b ? b : old - 1;
    default: return b;
    }
}

static uint16_t combine_small(const struct ins *n, bool brain, uint16_t old, uint16_t b) {
    float x = brain ? bfloat_float(old) : half_float(old), y = brain ? bfloat_float(b) : half_float(b);
    float z = n->rounding == ADD ? x + y : n->rounding == MIN ? min32(x, y) : max32(x, y);
    return brain ? float_bfloat(z) : float_half(z);
}

static uint64_t combine(const struct ins *n, uint64_t old, uint64_t b, uint64_t c) {
    if (n->rounding == CAS) return old == b ? c : old;
    if (n->rounding == EXCH) return b;
    bool brain = type_is_brain(n->type);
    switch (n->type) {
    case T_F32: {
        float x = float32((uint32_t)old), y = float32((uint32_t)b);
        return bits32(nan32(n->rounding == ADD ? x + y : n->rounding == MIN ? min32(x, y) : max32(x, y)));
    }
    case T_F64: return bits64(float64(old) + float64(b));
    case T_F16: case T_BF16: return combine_small(n, brain, (uint16_t)old, (uint16_t)b);
    case T_F16X2: case T_BF16X2:
        return combine_small(n, brain, (uint16_t)old, (uint16_t)b) | (uint32_t)combine_small(n, brain, (uint16_t)(old >> 16), (uint16_t)(b >> 16)) << 16;
    default: return combine_integer(n, old, b);
    }
}

#define EXCHANGE(T)                                                                                             \
    {                                                                                                           \
        T *p = (T *)(uintptr_t)address, old = __atomic_load_n(p, __ATOMIC_RELAXED), next;                       \
        do next = (T)combine(n, old, b, c);                                                                     \
        while (!__atomic_compare_exchange_n(p, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));         \
        return old;                                                                                             \
    }

static uint64_t atomic_step(const struct ins *n, uint64_t address, uint64_t b, uint64_t c) {
    if (n->bytes == 2) EXCHANGE(uint16_t)
    if (n->bytes == 8) EXCHANGE(uint64_t)
    if (n->rounding == ADD && TYPES[n->type].kind != 'f' && TYPES[n->type].kind != 'h') return __atomic_fetch_add((uint32_t *)(uintptr_t)address, (uint32_t)b, __ATOMIC_SEQ_CST);
    EXCHANGE(uint32_t)
}

/* 128 bits: no processor that we must serve has it as one instruction, so one lock guards all of them. */
static void atomic_wide(const struct warp *w, const struct ins *n, uint64_t address, uint32_t i) {
    uint8_t *p = (uint8_t *)(uintptr_t)address, old[16];
    const uint8_t *b = at(w, n->b) + 16 * i, *c = at(w, n->c) + 16 * i;
    engine_lock();
    memcpy(old, p, 16);
    if (n->rounding == EXCH) memcpy(p, b, 16);
    else if (memcmp(old, b, 16) == 0) memcpy(p, c, 16);
    engine_unlock();
    if (n->flags & F_RETURNS) memcpy(at(w, n->d) + 16 * i, old, 16);
}

static bool atomic_known(const struct ins *n) {
    char kind = TYPES[n->type].kind;
    bool real = kind == 'f' || kind == 'h', bits = kind == 'b';
    if (n->bytes == 1) return false;
    if (n->bytes == 16 || n->bytes == 2) return n->rounding == EXCH || n->rounding == CAS || (n->bytes == 2 && real);
    if (n->rounding == EXCH || n->rounding == CAS) return true;
    if (real) return n->rounding == ADD || (n->type != T_F64 && (n->rounding == MIN || n->rounding == MAX));
    return !bits || (n->rounding >= AND && n->rounding <= XOR);
}

bool run_atomic(struct warp *w, const struct ins *n, uint32_t mask) {
    uint64_t addresses[LANES];
    const uint32_t *refs = w->block->launch->program->refs;
    if (!atomic_known(n)) return raise_error(w, n, PTX_ILLEGAL_INSTRUCTION, 0, __builtin_ctz(mask), "this atomic operation does not exist for .%s", TYPES[n->type].name);
    if (!addresses_of(w, n, mask, (unsigned)n->bytes * n->count, true, addresses)) return false;
    w->polled = true;
    EACH_LANE(i, mask) {
        if (n->bytes == 16) {
            atomic_wide(w, n, addresses[i], i);
            continue;
        }
        for (uint32_t k = 0; k < n->count; k++) {
            ref b = n->count > 1 ? refs[n->list + k] : n->b, d = n->count > 1 ? refs[n->target + k] : n->d;
            uint64_t old = atomic_step(n, addresses[i] + k * n->bytes, lane_get(w, b, n->bytes, (int)i), lane_get(w, n->c, n->bytes, (int)i));
            if (n->flags & F_RETURNS) lane_set(w, d, n->bytes, (int)i, old);
        }
    }
    return true;
}

/* Copies `bytes` from the address that the next instruction holds; what the source lacks is zero. */
bool run_async_copy(struct warp *w, const struct ins *n, uint32_t mask) {
    uint64_t to[LANES], from[LANES];
    uint32_t ignored = n->c ? predicate(w, n->c) & mask : 0;
    if (!addresses_of(w, n, mask, n->bytes, true, to)) return false;
    EACH_LANE(i, mask) {
        uint8_t value[16] = {0};
        uint64_t size = lane_get(w, n->b, 4, (int)i);
        if (size > n->bytes) size = n->bytes;
        if (ignored >> i & 1) size = 0;
        if (size && !addresses_of(w, n + 1, 1u << i, n->bytes, false, from)) return false;
        if (size) memcpy(value, (const void *)(uintptr_t)from[i], size);
        memcpy((void *)(uintptr_t)to[i], value, n->bytes);
    }
    return true;
}

/* A barrier in memory: bit 63 the phase, then 20 bits each of threads expected and of arrivals that are missing. */
enum { BARRIER_BITS = 20 };
static uint64_t barrier_word(uint64_t phase, uint64_t expected, uint64_t missing) { return phase << 63 | expected << BARRIER_BITS | missing; }

bool run_mbarrier(struct warp *w, const struct ins *n, uint32_t mask) {
    uint64_t addresses[LANES], field = (1u << BARRIER_BITS) - 1;
    if (n->rounding == 9) { /* pending_count of a state */
        EACH_LANE(i, mask) lane_set(w, n->d, 4, (int)i, lane_get(w, n->b, 8, (int)i) & field);
        return true;
    }
    if (!addresses_of(w, n, mask, 8, true, addresses)) return false;
    w->polled = true;
    uint32_t passed = 0;
    EACH_LANE(i, mask) {
        uint64_t *p = (uint64_t *)(uintptr_t)addresses[i], old = *p, phase = old >> 63, expected = old >> BARRIER_BITS & field, missing = old & field;
        bool waits = n->rounding == 4 || n->rounding == 5;
        uint64_t b = lane_get(w, n->b, waits && !(n->flags & F_CARRY_IN) ? 8 : 4, (int)i);
        if (waits) {
            uint64_t asked = n->flags & F_CARRY_IN ? b & 1 : b >> 63;
            passed |= phase != asked ? 1u << i : 0;
            continue;
        }
        if (n->rounding == 0) expected = missing = b & field, phase = 0;
        if (n->rounding == 1) expected = missing = phase = 0;
        if (n->rounding == 6) expected -= b;
        if (n->rounding == 2 || n->rounding == 3 || n->rounding == 6) missing = missing > b ? missing - b : 0;
        if (n->rounding >= 2 && !missing) missing = expected, phase ^= 1;
        *p = barrier_word(phase, expected, missing);
        if (n->rounding == 2 || n->rounding == 6) lane_set(w, n->d, 8, (int)i, old);
    }
    if (n->rounding == 4 || n->rounding == 5) predicate_set(w, n->d, mask, passed);
    return true;
}
