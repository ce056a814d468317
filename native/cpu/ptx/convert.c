/* cvt: any number to any other, every rounding mode. The frequent ones are vector operations in ops_convert.h. */
#include "rare.h"
#include "floats.h"

static uint64_t canonical_nan(int type) {
    uint64_t ones = (1ull << (TYPES[type].exponent + TYPES[type].fraction)) - 1;
    return type == T_F64 ? 0x7ff8000000000000u : type == T_TF32 ? ones << 13 : ones;
}

static bool round_up(int rounding, bool negative, bool odd, bool half, bool rest) {
    switch (rounding) {
    case ROUND_ZERO: return false;
    case ROUND_DOWN: return negative && (half || rest);
    case ROUND_UP: return !negative && (half || rest);
    case ROUND_AWAY: return half;
    default: return half && (rest || odd);
    }
}

/* mantissa * 2^exponent (and a little more, when `sticky`) in a format; the sign bit is that of the format. */
uint64_t round_float(int type, bool negative, int exponent, uint64_t mantissa, bool sticky, int rounding, uint32_t flags) {
    const struct type_info f = TYPES[type];
    int p = f.fraction, bias = (1 << (f.exponent - 1)) - 1, least = 1 - bias;
    unsigned width = type == T_TF32 ? 32 : 1u + f.exponent + f.fraction;
    uint64_t sign = (uint64_t)negative << (width - 1), bits = 0;
    if (mantissa) {
        int zeros = __builtin_clzll(mantissa), e = exponent - zeros + 63;
        uint64_t m = mantissa << zeros;
        int shift = 63 - p + (e < least ? least - e : 0);
        uint64_t kept = shift > 63 ? 0 : m >> shift;
        bool half = shift <= 64 && (shift == 64 ? m >> 63 : m >> (shift - 1) & 1);
        bool rest = sticky || (shift > 64 ? true : shift == 64 ? m << 1 != 0 : shift == 1 ? false : (m & ((1ull << (shift - 1)) - 1)) != 0);
        int64_t field = e < least ? 0 : e + bias;
        if (field > (1 << f.exponent)) field = 1 << f.exponent; /* far beyond the largest */
        bits = (field ? ((uint64_t)field << p) + (kept - (1ull << p)) : kept) + round_up(rounding, negative, kept & 1, half, rest);
    }
    uint64_t infinite = type == T_E4M3 ? 0x7f : ((1ull << f.exponent) - 1) << p;
    if (bits >= infinite) {
        bool stay = rounding == ROUND_ZERO || rounding == (negative ? ROUND_UP : ROUND_DOWN) || flags & F_SATFINITE;
        bits = stay ? infinite - 1 : infinite;
    }
    if (type == T_F32 && flags & F_FTZ && bits < 1ull << p) bits = 0;
    return sign | (type == T_TF32 ? bits << 13 : bits);
}

double value_of(int type, uint64_t bits) {
    switch (type) {
    case T_F64: return float64(bits);
    case T_F32: case T_TF32: return float32((uint32_t)bits);
    case T_F16: return half_float((uint16_t)bits);
    case T_BF16: return bfloat_float((uint16_t)bits);
    case T_E5M2: return half_float((uint16_t)(bits << 8));
    default: { /* e4m3 */
        int exponent = bits >> 3 & 15, fraction = bits & 7;
        if ((bits & 0x7f) == 0x7f) return NAN;
        double size = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
        return bits & 0x80 ? -size : size;
    }
    }
}

uint64_t bits_of(int type, double x, int rounding, uint32_t flags) {
    uint64_t b = bits64(x), fraction = b & 0xfffffffffffffu;
    int exponent = b >> 52 & 0x7ff;
    bool negative = b >> 63;
    if (x != x) return flags & F_SAT ? 0 : canonical_nan(type);
    if (flags & F_RELU && negative) return 0;
    if (flags & F_SAT) return bits_of(type, x > 0 ? (x < 1 ? x : 1) : 0, rounding, flags & ~(uint32_t)F_SAT);
    if (exponent == 0x7ff) /* an infinity is not rounded */
        return round_float(type, negative, 2000, 1, false, ROUND_NEAREST, flags);
    return round_float(type, negative, exponent ? exponent - 1075 : -1074, exponent ? fraction | 1ull << 52 : fraction, false, rounding, flags);
}

static double to_integral(double x, int rounding) {
    switch (rounding) {
    case ROUND_ZERO: return trunc(x);
    case ROUND_DOWN: return floor(x);
    case ROUND_UP: return ceil(x);
    default: return rint(x);
    }
}

static uint64_t float_to_integer(int type, int from, double x, int rounding) {
    unsigned bits = 8u * TYPES[type].bytes;
    bool is_signed = TYPES[type].kind == 's';
    if (x != x) return from == T_F64 || bits == 64 ? 1ull << (bits - 1) : 0;
    x = to_integral(x, rounding);
    if (is_signed) {
        double most = ldexp(1, (int)bits - 1);
        if (x >= most) return (1ull << (bits - 1)) - 1;
        return x < -most ? ~0ull << (bits - 1) : (uint64_t)(int64_t)x;
    }
    if (x < 0) return 0;
    return x >= ldexp(1, (int)bits) ? ~0ull >> (64 - bits) : (uint64_t)x;
}

static uint64_t extend(int type, uint64_t value) {
    unsigned shift = 64u - 8u * TYPES[type].bytes;
    return TYPES[type].kind == 's' ? (uint64_t)((int64_t)(value << shift) >> shift) : value << shift >> shift;
}

static uint64_t clamp_integer(int type, int from, uint64_t value) {
    unsigned bits = 8u * TYPES[type].bytes;
    bool negative = TYPES[from].kind == 's' && (int64_t)value < 0;
    if (TYPES[type].kind == 's') {
        int64_t most = (int64_t)(~0ull >> (65 - bits));
        if (negative) return (int64_t)value < -most - 1 ? (uint64_t)(-most - 1) : value;
        return value > (uint64_t)most ? (uint64_t)most : value;
    }
    uint64_t most = ~0ull >> (64 - bits);
    return negative ? 0 : value > most ? most : value;
}

/* A NaN from one type to another, as an H200 does it: to and from double precision its sign and first bits stay. */
static uint64_t convert_nan(int type, int from, uint64_t bits, int rounding, uint32_t flags) {
    if (flags & F_SAT) return 0;
    if (from == T_F64) {
        uint64_t sign = bits >> 63, fraction = (bits & 0xfffffffffffffu) | 1ull << 51;
        if (type == T_F64) return bits | 1ull << 51;
        if (type == T_F32) return sign << 31 | 0x7f800000u | fraction >> 29;
        if (type == T_F16) return sign << 15 | 0x7c00u | fraction >> 42;
    }
    if (type == T_F64) {
        uint64_t wide = from == T_F16 ? (bits & 0x8000) << 16 | 0x7f800000u | (bits & 0x3ff) << 13 : from == T_BF16 ? bits << 16 : bits;
        if (from == T_F32 && flags & F_FTZ) wide = 0x7fffffffu;
        return wide >> 31 << 63 | 0x7ff8000000000000u | (wide & 0x7fffff) << 29;
    }
    if (type == T_F32 && from == T_BF16) return bits << 16;
    if (type == T_TF32 && rounding == ROUND_AWAY) return bits & 0xffffe000u;
    return canonical_nan(type);
}

static uint64_t convert_one(int type, int from, uint64_t bits, int rounding, uint32_t flags) {
    if (!type_is_float((enum type)from)) {
        uint64_t value = extend(from, bits);
        if (!type_is_float((enum type)type)) return flags & F_SAT ? clamp_integer(type, from, value) : value;
        bool negative = TYPES[from].kind == 's' && (int64_t)value < 0;
        if (flags & F_SAT) value = negative ? 0 : value > 1 ? 1 : value, negative = false;
        return round_float(type, negative, 0, negative ? 0 - value : value, false, rounding, flags);
    }
    if (from == T_F32 && flags & F_FTZ && type != T_F16) bits = bits32(flush32(float32((uint32_t)bits)));
    double x = value_of(from, bits);
    if (!type_is_float((enum type)type)) return float_to_integer(type, from, x, rounding);
    if (x != x) return convert_nan(type, from, bits, rounding, flags);
    if (flags & F_INTEGRAL) x = copysign(to_integral(x, rounding), x);
    if (type == from && !(flags & (F_SAT | F_RELU | F_FTZ | F_INTEGRAL))) return bits;
    return bits_of(type, x, rounding, flags);
}

static uint64_t convert_pair(struct warp *w, const struct ins *n, uint32_t i) {
    int to = TYPES[n->type].element, from = TYPES[n->from].element;
    unsigned step = 8u * TYPES[to].bytes;
    uint64_t a = lane_get(w, n->a, n->count, (int)i), out = 0;
    uint64_t low = a, high = a >> (from ? 8u * TYPES[from].bytes : 0);
    if (n->mode == 2) high = a, low = lane_get(w, n->b, TYPES[n->from].bytes, (int)i);
    int element = from ? from : n->from;
    uint64_t cut = ~0ull >> (64 - 8u * TYPES[element].bytes);
    out = convert_one(to, element, low & cut, n->rounding, n->flags);
    return out | convert_one(to, element, high & cut, n->rounding, n->flags) << step;
}

/* cvt.pack: two saturated integers, and with a third operand what was packed before. */
static uint64_t convert_pack(struct warp *w, const struct ins *n, uint32_t i) {
    unsigned bits = 8u * TYPES[n->type].bytes;
    uint64_t a = clamp_integer(n->type, n->from, extend(n->from, lane_get(w, n->a, 4, (int)i)));
    uint64_t b = clamp_integer(n->type, n->from, extend(n->from, lane_get(w, n->b, 4, (int)i)));
    uint64_t cut = (1ull << bits) - 1, out = (a & cut) << bits | (b & cut);
    return n->e ? out | lane_get(w, n->c, 4, (int)i) << (2 * bits) : out;
}

bool run_convert(struct warp *w, const struct ins *n, uint32_t mask) {
    bool pair = TYPES[n->type].element != T_NONE;
    EACH_LANE(i, mask) {
        uint64_t value;
        if (n->mode == 3) value = convert_pack(w, n, i);
        else if (pair) value = convert_pair(w, n, i);
        else value = convert_one(n->type, n->from, lane_get(w, n->a, n->count, (int)i) & (TYPES[n->from].bytes == 8 ? ~0ull : (1ull << 8 * TYPES[n->from].bytes) - 1), n->rounding, n->flags);
        if (!type_is_float(n->type) && n->mode != 3) value = extend(n->type, value); /* into a wider register */
        lane_set(w, n->d, n->bytes, (int)i, value);
    }
    return true;
}
