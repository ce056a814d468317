/* The video instructions: on one value with byte or half selectors, or on two halves or four bytes at once. */
#include "rare.h"

enum { V_ADD, V_SUB, V_ABSDIFF, V_MIN, V_MAX, V_SHL, V_SHR, V_MAD, V_SET, V_AVRG };
enum { THEN_NOTHING, THEN_ADD, THEN_MIN, THEN_MAX };

static int64_t pick(uint64_t bits, unsigned selector, bool is_signed) {
    if (!selector) return is_signed ? (int64_t)(int32_t)bits : (int64_t)(uint32_t)bits;
    unsigned width = selector < 8 ? 8 : 16, at = selector < 8 ? 8 * (selector - 1) : 16 * (selector - 8);
    uint64_t value = bits >> at & ((1u << width) - 1);
    return is_signed && value >> (width - 1) ? (int64_t)(value | ~0ull << width) : (int64_t)value;
}

static bool compare(int how, int64_t a, int64_t b) {
    switch (how) {
    case 0: return a == b;
    case 1: return a != b;
    case 2: return a < b;
    case 3: return a <= b;
    case 4: return a > b;
    default: return a >= b;
    }
}

/* ins.rounding: what follows; ins.e: 1 for .wrap of shifts, the comparison of vset */
static int64_t compute(const struct ins *n, int64_t a, int64_t b) {
    switch (n->mode) {
    case V_ADD: return a + b;
    case V_SUB: return a - b;
    case V_ABSDIFF: return a > b ? a - b : b - a;
    case V_MIN: return a < b ? a : b;
    case V_MAX: return a > b ? a : b;
    case V_SHL: case V_SHR: {
        int64_t by = n->e ? b & 31 : (b & 0xffffffff) > 32 ? 32 : b & 0xffffffff;
        return n->mode == V_SHL ? (int64_t)((uint64_t)a << by) : a >> by;
    }
    case V_SET: return compare((int)n->e, a, b);
    default: return (a + b + 1) >> 1;
    }
}

static int64_t limit(int64_t x, unsigned width, bool is_signed) {
    int64_t low = is_signed ? -(1ll << (width - 1)) : 0, high = is_signed ? (1ll << (width - 1)) - 1 : (1ll << width) - 1;
    return x < low ? low : x > high ? high : x;
}

static uint64_t follow(const struct ins *n, uint64_t value, uint64_t c, bool is_signed) {
    bool less = is_signed ? (int32_t)value < (int32_t)c : (uint32_t)value < (uint32_t)c;
    switch (n->rounding) {
    case THEN_ADD: return (uint32_t)(value + c);
    case THEN_MIN: return less ? value : c;
    case THEN_MAX: return less ? c : value;
    default: return value;
    }
}

/* ins.imm: selectors of a, b and d, a byte each; then the shift of vmad, and bits: negate the product, negate c, plus one */
static uint64_t scalar(const struct ins *n, uint64_t a, uint64_t b, uint64_t c) {
    bool to_signed = TYPES[n->type].kind == 's', a_signed = TYPES[n->from].kind == 's', b_signed = TYPES[n->space].kind == 's';
    int64_t x = pick(a, n->imm & 255, a_signed), y = pick(b, n->imm >> 8 & 255, b_signed), value;
    unsigned d = n->imm >> 16 & 255;
    if (n->mode == V_MAD) {
        int64_t z = a_signed || b_signed || n->imm >> 32 & 7 ? (int64_t)(int32_t)c : (int64_t)(uint32_t)c;
        __int128 wide = (__int128)x * y; /* of two 32-bit numbers without a sign it has 64 bits */
        if (n->imm >> 32 & 1) wide = -wide;
        wide = (wide + (n->imm >> 32 & 2 ? -z : z) + (n->imm >> 32 & 4 ? 1 : 0)) >> (n->imm >> 24 & 255);
        if (n->flags & F_SAT) wide = limit(wide > INT64_MAX ? INT64_MAX : (int64_t)wide, 32, to_signed);
        return (uint32_t)wide;
    }
    value = compute(n, x, y);
    /* An H200 limits sums and differences without a sign only from below; the manual says on both sides. */
    bool wraps = n->mode <= V_ABSDIFF && !to_signed && !d;
    if (n->flags & F_SAT) value = wraps ? (value < 0 ? 0 : value) : limit(value, 32, to_signed);
    if (!d) return follow(n, (uint32_t)value, c, to_signed);
    unsigned width = d < 8 ? 8 : 16, at = d < 8 ? 8 * (d - 1) : 16 * (d - 8); /* put into c */
    if (n->flags & F_SAT) value = limit(value, width, to_signed);
    uint64_t cut = (1u << width) - 1;
    return (uint32_t)((c & ~(cut << at)) | ((uint64_t)value & cut) << at);
}

static uint64_t lanes_of(const struct ins *n, uint64_t a, uint64_t b, uint64_t c) {
    unsigned width = n->count == 4 ? 8 : 16;
    bool to_signed = TYPES[n->type].kind == 's', a_signed = TYPES[n->from].kind == 's', b_signed = TYPES[n->space].kind == 's';
    uint64_t out = n->rounding == THEN_ADD ? c : 0, cut = (1u << width) - 1;
    for (unsigned k = 0; k < n->count; k++) {
        unsigned selector = width == 8 ? 1 + k : 8 + k;
        int64_t value = compute(n, pick(a, selector, a_signed), pick(b, selector, b_signed));
        if (n->flags & F_SAT) value = limit(value, width, to_signed);
        if (n->rounding == THEN_ADD) out += (uint64_t)(to_signed ? (int64_t)((uint64_t)value << (64 - width)) >> (64 - width) : (int64_t)((uint64_t)value & cut));
        else out |= ((uint64_t)value & cut) << (width * k);
    }
    return (uint32_t)out;
}

bool run_video(struct warp *w, const struct ins *n, uint32_t mask) {
    EACH_LANE(i, mask) {
        uint64_t a = lane_get(w, n->a, 4, (int)i), b = lane_get(w, n->b, 4, (int)i), c = lane_get(w, n->c, 4, (int)i);
        lane_set(w, n->d, 4, (int)i, n->count > 1 ? lanes_of(n, a, b, c) : scalar(n, a, b, c));
    }
    return true;
}
