/* Rounding modes, carries, predicates, packing: what the loop calls for the less frequent values. */
#include "rare.h"
#include "bits.h"
#include "floats.h"

#if defined(__x86_64__)
/* Only the rounding bits of MXCSR: C's fesetround would also have to set the old floating-point unit. */
int rounding_set(int rounding) {
    static const uint32_t BITS[] = {0, 3u << 13, 1u << 13, 2u << 13, 0};
    uint32_t before, now;
    __asm__ __volatile__("stmxcsr %0" : "=m"(before) : : "memory");
    now = (before & ~(3u << 13)) | BITS[rounding];
    __asm__ __volatile__("ldmxcsr %0" : : "m"(now) : "memory");
    return (int)before;
}
void rounding_restore(int before) { __asm__ __volatile__("ldmxcsr %0" : : "m"(before) : "memory"); }
#else
#include <fenv.h>
int rounding_set(int rounding) {
    static const int MODES[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    int before = fegetround();
    fesetround(MODES[rounding]);
    return before;
}
void rounding_restore(int before) { fesetround(before); }
#endif

static uint16_t clamp_small(uint16_t h, bool brain, uint32_t flags) {
    float x = brain ? bfloat_float(h) : half_float(h);
    if (flags & F_RELU && x == x) return x > 0 ? h : 0;
    if (flags & F_RELU) return 0x7fff;
    x = saturate_float(x);
    return brain ? float_bfloat(x) : float_half(x);
}

static void clamp_value(uint8_t *at, enum type type, uint32_t flags) {
    uint64_t bits = value_read(at, TYPES[type].bytes);
    switch (type) {
    case T_F32: bits = bits32(saturate_float(float32((uint32_t)bits))); break;
    case T_F64: bits = bits64(saturate_double(float64(bits))); break;
    default: bits = clamp_small((uint16_t)bits, type_is_brain(type), flags);
    }
    value_write(at, TYPES[type].bytes, bits);
}

void result_clamp(void *d, int type, uint32_t flags, uint32_t mask) {
    enum type one = type == T_F32X2 ? T_F32 : TYPES[type].element ? (enum type)TYPES[type].element : (enum type)type;
    unsigned count = TYPES[type].bytes / TYPES[one].bytes;
    if (flags & (F_SAT | F_RELU))
        EACH_LANE(i, mask) for (unsigned k = 0; k < count; k++) clamp_value((uint8_t *)d + TYPES[one].bytes * (count * i + k), one, flags);
}

bool run_insert_field(struct warp *w, const struct ins *n, uint32_t mask) {
    EACH_LANE(i, mask) {
        uint64_t a = lane_get(w, n->a, n->bytes, (int)i), b = lane_get(w, n->b, n->bytes, (int)i);
        uint32_t position = (uint32_t)lane_get(w, n->c, 4, (int)i), length = (uint32_t)lane_get(w, n->e, 4, (int)i);
        lane_set(w, n->d, n->bytes, (int)i, insert_field(a, b, position, length, 8u * n->bytes));
    }
    return true;
}

static uint64_t product(uint64_t a, uint64_t b, unsigned bytes, bool high, bool is_signed) {
    if (bytes == 4) {
        uint64_t p = is_signed ? (uint64_t)((int64_t)(int32_t)a * (int32_t)b) : (uint64_t)(uint32_t)a * (uint32_t)b;
        return high ? p >> 32 : (uint32_t)p;
    }
    unsigned __int128 p = is_signed ? (unsigned __int128)((__int128)(int64_t)a * (int64_t)b) : (unsigned __int128)a * b;
    return high ? (uint64_t)(p >> 64) : (uint64_t)p;
}

/* add.cc, addc, sub.cc, subc, mad.cc, madc; ins.e holds the carry of each lane. A subtraction adds the complement, as
 * an H200 does: its carry says that there was no borrow. This shows where subc follows add.cc, or addc sub.cc. */
bool run_carry(struct warp *w, const struct ins *n, uint32_t mask) {
    uint64_t all = n->bytes == 4 ? 0xffffffffu : ~0ull;
    uint32_t before = predicate(w, n->e), after = before;
    EACH_LANE(i, mask) {
        uint64_t a = lane_get(w, n->a, n->bytes, (int)i), b = lane_get(w, n->b, n->bytes, (int)i);
        bool subtract = n->mode == 1;
        uint64_t in = n->flags & F_CARRY_IN ? before >> i & 1 : subtract;
        if (n->mode >= 2) {
            a = product(a, b, n->bytes, n->mode == 3, n->from) & all;
            b = lane_get(w, n->c, n->bytes, (int)i);
        }
        if (subtract) b = ~b & all;
        unsigned __int128 sum = (unsigned __int128)a + b + in;
        bool out = (sum & ~(unsigned __int128)all) != 0;
        lane_set(w, n->d, n->bytes, (int)i, (uint64_t)sum & all);
        after = (after & ~(1u << i)) | (uint32_t)out << i;
    }
    if (n->flags & F_CARRY_OUT) predicate_set(w, n->e, mask, after);
    return true;
}

bool run_predicate_logic(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t a = predicate(w, n->a), b = n->mode < 3 ? predicate(w, n->b) : 0, r = 0;
    switch (n->mode) {
    case 0: r = a & b; break;
    case 1: r = a | b; break;
    case 2: r = a ^ b; break;
    case 3: r = ~a; break;
    default: r = a; break;
    }
    predicate_set(w, n->d, mask, r);
    return true;
}

static uint32_t with_boolean(const struct warp *w, const struct ins *n, uint32_t yes) {
    uint32_t c = n->mode ? predicate(w, n->c) : 0;
    return n->mode == 0 ? yes : n->mode == 1 ? yes & c : n->mode == 2 ? yes | c : yes ^ c;
}

/* The halves of 32 pairs, as 32 values each. */
static void halves(const struct warp *w, ref r, uint16_t *low, uint16_t *high) {
    for (int i = 0; i < LANES; i++) {
        uint64_t both = lane_get(w, r, 4, i);
        low[i] = (uint16_t)both;
        high[i] = (uint16_t)(both >> 16);
    }
}

static void compare_halves(struct warp *w, const struct ins *n, enum type type, uint32_t out[2]) {
    uint16_t a[2][LANES] __attribute__((aligned(64))), b[2][LANES] __attribute__((aligned(64)));
    compare_fn compare = compare_of(type, n);
    halves(w, n->a, a[0], a[1]);
    halves(w, n->b, b[0], b[1]);
    for (int k = 0; k < 2; k++) out[k] = compare(a[k], b[k], n);
}

/* setp on f16x2: one predicate for each half. */
bool run_compare_pair(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t yes[2];
    compare_halves(w, n, n->type, yes);
    uint32_t low = with_boolean(w, n, yes[0]), high = with_boolean(w, n, yes[1]);
    predicate_set(w, n->e, mask, high);
    predicate_set(w, n->d, mask, low);
    return true;
}

static uint64_t truth(int type) {
    switch (type) {
    case T_F32: return 0x3f800000;
    case T_F16: return 0x3c00;
    case T_BF16: return 0x3f80;
    default: return ~0ull;
    }
}

bool run_set(struct warp *w, const struct ins *n, uint32_t mask) {
    unsigned bytes = TYPES[n->type].bytes;
    if (n->from == T_F16X2 || n->from == T_BF16X2) {
        uint32_t yes[2];
        uint64_t one = n->type == T_F16X2 ? 0x3c00 : n->type == T_BF16X2 ? 0x3f80 : 0xffff;
        compare_halves(w, n, n->from, yes);
        for (int k = 0; k < 2; k++) yes[k] = with_boolean(w, n, yes[k]);
        EACH_LANE(i, mask) lane_set(w, n->d, 4, (int)i, (yes[0] >> i & 1 ? one : 0) | (yes[1] >> i & 1 ? one << 16 : 0));
        return true;
    }
    uint32_t yes = with_boolean(w, n, compare_of(n->from, n)(at(w, n->a), at(w, n->b), n));
    EACH_LANE(i, mask) lane_set(w, n->d, bytes, (int)i, yes >> i & 1 ? truth(n->type) : 0);
    return true;
}

/* mov between a register of `from` bytes and `count` parts of `bytes`; mode 1 takes it apart. */
bool run_pack(struct warp *w, const struct ins *n, uint32_t mask) {
    const uint32_t *list = w->block->launch->program->refs + n->list;
    EACH_LANE(i, mask) {
        uint8_t value[16] = {0};
        if (n->mode) memcpy(value, at(w, n->d) + (size_t)n->from * i, n->from);
        for (unsigned k = 0; k < n->count; k++) {
            uint8_t *part = at(w, list[k]) + (size_t)n->bytes * i;
            if (n->mode) memcpy(part, value + k * n->bytes, n->bytes);
            else memcpy(value + k * n->bytes, part, n->bytes);
        }
        if (!n->mode) memcpy(at(w, n->d) + (size_t)n->from * i, value, n->from);
    }
    return true;
}

bool run_lop3_predicate(struct warp *w, const struct ins *n, uint32_t mask) {
    uint32_t some = 0, q = predicate(w, n->c);
    EACH_LANE(i, mask) some |= lane_get(w, n->a, 4, (int)i) ? 1u << i : 0;
    predicate_set(w, n->d, mask, n->mode ? some | q : some & q);
    return true;
}

/* ---- the tables ---- */

#if defined(PTX_HAS_AVX2)
#include <cpuid.h>
#include <stdlib.h>

static bool has_avx2(void) {
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28, F16C = 1 << 29, AVX2 = 1 << 5, BMI = 1 << 3, BMI2 = 1 << 8, LZCNT = 1 << 5, YMM = 6 };
    unsigned a, b, c, d, low, high, want = FMA | OSXSAVE | AVX | F16C;
    if (getenv("CUDA_AMD_CPU_BASELINE") || !__get_cpuid(1, &a, &b, &c, &d) || (c & want) != want) return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & YMM) != YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if (!(b & AVX2) || !(b & BMI) || !(b & BMI2)) return false;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & LZCNT);
}
#endif

static struct names vec_names, compare_names;
static const struct operations *chosen;

const struct operations *operations(void) {
    const struct operations *o = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
    if (o) return o;
    o = &OPERATIONS_BASE;
#if defined(PTX_HAS_AVX2)
    if (has_avx2()) o = &OPERATIONS_AVX2;
#endif
    __atomic_store_n(&chosen, o, __ATOMIC_RELEASE);
    return o;
}

/* Called under the engine's lock only: decoding is. */
const struct vec_op *vec_named(const char *name) {
    const struct operations *o = operations();
    if (!vec_names.used)
        for (size_t i = 0; i < o->vec_count; i++) names_put(&vec_names, word_of(o->vec[i].name), (void *)&o->vec[i]);
    return names_get(&vec_names, word_of(name));
}

const struct compare_op *compare_named(const char *name) {
    const struct operations *o = operations();
    if (!compare_names.used)
        for (size_t i = 0; i < o->compare_count; i++) names_put(&compare_names, word_of(o->compare[i].name), (void *)&o->compare[i]);
    return names_get(&compare_names, word_of(name));
}

enum singles singles_of(enum type type, uint32_t flags) {
    bool pair = type == T_F32X2, flushed = (pair || type == T_F32) && flags & F_FTZ;
    if (type == T_F16 || type == T_F16X2) return SINGLES_HALF;
    return type_is_brain(type) ? SINGLES_BRAIN : flushed ? SINGLES_FLUSHED : pair ? SINGLES_PLAIN : SINGLES_COUNT;
}

compare_fn compare_of(enum type type, const struct ins *n) {
    enum singles by = singles_of(type, n->flags);
    return by == SINGLES_COUNT ? operations()->compare[n->imm].run : operations()->compare_by_singles[by];
}
