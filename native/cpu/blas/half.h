/* 16-bit floats to and from float, rounding to nearest even; written out because not every C11
 * compiler has the types. */
#ifndef CPU_HALF_H
#define CPU_HALF_H

#include <stdint.h>
#include <string.h>

static inline float bits_to_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t float_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bf16_to_float(uint16_t value) { return bits_to_float((uint32_t)value << 16); }

static inline uint16_t float_to_bf16(float value) {
    uint32_t bits = float_to_bits(value);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40); /* a NaN stays one, quiet */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float half_to_float(uint16_t value) {
    uint32_t sign = (uint32_t)(value & 0x8000) << 16, exponent = value >> 10 & 31, fraction = value & 0x3ff;
    if (exponent == 31) return bits_to_float(sign | 0x7f800000 | fraction << 13);
    if (exponent) return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f; /* subnormal or zero */
    return sign ? -tiny : tiny;
}

static inline uint16_t float_to_half(float value) {
    uint32_t bits = float_to_bits(value), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000) return sign | 0x7e00;  /* NaN */
    if (magnitude >= 0x477ff000) return sign | 0x7c00; /* rounds beyond the largest, or infinite */
    if (magnitude < 0x38800000) {
        /* Below the smallest normal half the addition of 0.5 leaves units of 2^-24, rounded, in the low bits. */
        return sign | (uint16_t)(float_to_bits(bits_to_float(magnitude) + 0.5f) - 0x3f000000);
    }
    return sign | (uint16_t)((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

#endif
