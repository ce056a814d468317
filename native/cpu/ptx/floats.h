/* Floating-point formats and the operations on one value that C has no operator for. Branches are short so that
 * compilers turn loops over these functions into vector code. */
#ifndef PTX_FLOATS_H
#define PTX_FLOATS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bits32(float f) {
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}
static inline float float32(uint32_t b) {
    float f;
    memcpy(&f, &b, 4);
    return f;
}
static inline uint64_t bits64(double d) {
    uint64_t b;
    memcpy(&b, &d, 8);
    return b;
}
static inline double float64(uint64_t b) {
    double d;
    memcpy(&d, &b, 8);
    return d;
}

/* The GPU's one NaN of this type. */
static inline float nan32(float x) { return x != x ? float32(0x7fffffff) : x; }
/* In double precision a GPU keeps the bits of a NaN and makes it quiet, as processors do. */
static inline double quiet64(double x) { return x != x ? float64(bits64(x) | 0x0008000000000000) : x; }
/* A result, or the first NaN among what it was made of; a new one is negative. */
static inline double nan64(double result, double x, double y, double z) {
    double made = float64(0xfff8000000000000), kept = x != x ? quiet64(x) : y != y ? quiet64(y) : z != z ? quiet64(z) : made;
    return result != result ? kept : result;
}
static inline uint16_t half_nan(uint16_t h) { return (h & 0x7fff) > 0x7c00 ? 0x7fff : h; }
static inline uint16_t bfloat_nan(uint16_t h) { return (h & 0x7fff) > 0x7f80 ? 0x7fff : h; }
/* A subnormal becomes a zero of the same sign: .ftz */
static inline float flush32(float x) {
    uint32_t b = bits32(x);
    return float32(b & 0x7f800000 ? b : b & 0x80000000);
}
static inline float saturate_float(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
static inline double saturate_double(double x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

static inline float half_float(uint16_t h) {
    uint32_t x = (uint32_t)(h & 0x7fff) << 13, exponent = x & 0x0f800000;
    uint32_t normal = x + (112u << 23) + (exponent == 0x0f800000 ? 112u << 23 : 0);
    float tiny = float32(x + (113u << 23)) - float32(113u << 23);
    return float32((exponent ? normal : bits32(tiny)) | (uint32_t)(h & 0x8000) << 16);
}
static inline uint16_t float_half(float f) { /* to nearest even */
    uint32_t x = bits32(f) & 0x7fffffff, sign = bits32(f) >> 16 & 0x8000;
    uint32_t normal = (x - (112u << 23) + 0xfff + (x >> 13 & 1)) >> 13;
    uint32_t tiny = bits32(float32(x) + 0.5f) - 0x3f000000;
    uint32_t large = x > 0x7f800000 ? 0x7fff : 0x7c00;
    uint32_t out = x >= 0x47800000 ? large : x < 0x38800000 ? tiny : normal;
    return (uint16_t)(x > 0x7f800000 ? out : out | sign);
}
static inline float bfloat_float(uint16_t h) { return float32((uint32_t)h << 16); }
static inline uint16_t float_bfloat(float f) {
    uint32_t x = bits32(f);
    uint32_t rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
    return (uint16_t)((x & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded);
}
static inline uint16_t flush_half(uint16_t h) { return h & 0x7c00 ? h : h & 0x8000; }

/* a + b, the last bit odd when it is not exact: rounding once more to fewer bits is then right. */
static inline double add_odd(double a, double b) {
    double sum = a + b, part = sum - a, rest = (a - (sum - part)) + (b - part);
    uint64_t x = bits64(sum);
    int adjust = rest != 0 && rest == rest && !(x & 1) && (x & 0x7ff0000000000000) != 0x7ff0000000000000;
    int away = (rest > 0) == (sum > 0);
    return float64(x + (uint64_t)(adjust ? (away ? 1 : -1) : 0));
}
static inline float float_odd(double d) {
    float f = (float)d;
    uint32_t x = bits32(f);
    double back = f, size = d < 0 ? -d : d, got = back < 0 ? -back : back;
    int adjust = back != d && d == d && !(x & 1);
    return float32(x + (uint32_t)(adjust ? (size > got ? 1 : -1) : 0));
}
static inline float fma_odd(float a, float b, float c) { return float_odd(add_odd((double)a * b, c)); }

#define MINIMUM(suffix, F, BITS, FROM)                                                                           \
    static inline F min##suffix(F a, F b) {                                                                      \
        F least = a < b ? a : b < a ? b : FROM(BITS(a) | BITS(b));                                               \
        return a != a ? b : b != b ? a : least;                                                                  \
    }                                                                                                            \
    static inline F max##suffix(F a, F b) {                                                                      \
        F most = a > b ? a : b > a ? b : FROM(BITS(a) & BITS(b));                                                \
        return a != a ? b : b != b ? a : most;                                                                   \
    }
MINIMUM(32, float, bits32, float32)
MINIMUM(64, double, bits64, float64)

static inline float with_sign(float size, uint32_t sign) { return float32((bits32(size) & 0x7fffffff) | (sign & 0x80000000)); }
static inline float absolute(float x) { return float32(bits32(x) & 0x7fffffff); }
/* minimum, NaN when one of them is */
static inline float min32_nan(float a, float b) { return a != a || b != b ? float32(0x7fffffff) : min32(a, b); }
static inline float max32_nan(float a, float b) { return a != a || b != b ? float32(0x7fffffff) : max32(a, b); }

/* Division of the approximate kind: a very large divisor gives zero, as documented. */
static inline float div_approx(float a, float b) {
    float size = absolute(b), quotient = a / b;
    int huge = size > 0x1p126f && size < INFINITY;
    float zero = with_sign(0, bits32(a) ^ bits32(b)), infinite = float32(0x7fffffff);
    return !huge || a != a ? quotient : absolute(a) == INFINITY ? infinite : zero;
}

/* rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 read and write the upper half only. */
static inline double upper_half(double x) {
    uint64_t b = bits64(x);
    return float64(b & 0x7ff0000000000000 ? b & 0xffffffff00000000 : b & 0x8000000000000000);
}

#endif
