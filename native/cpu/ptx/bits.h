/* Integer operations on one value that C has no operator for. */
#ifndef PTX_BITS_H
#define PTX_BITS_H

#include <stdint.h>

static inline uint64_t reverse_bits(uint64_t x) {
    x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
    x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
    return __builtin_bswap64(x);
}

static inline uint32_t leading_zeros(uint64_t x, unsigned width) {
    return x ? (uint32_t)__builtin_clzll(x) - (64 - width) : width;
}

/* Position of the highest bit that differs from the sign; all ones when there is none. */
static inline uint32_t find_bit(uint64_t x, unsigned width, int is_signed, int shift_amount) {
    if (is_signed && x >> (width - 1) & 1) x = ~x & (width == 64 ? ~0ull : 0xffffffffu);
    if (!x) return 0xffffffffu;
    uint32_t at = width - 1 - leading_zeros(x, width);
    return shift_amount ? width - 1 - at : at;
}

/* Fields of 32 bits take the low 8 bits of position and length, fields of 64 bits take all of them: as an H200 does. */
static inline uint64_t extract_field(uint64_t a, uint32_t position, uint32_t length, unsigned width, int is_signed) {
    if (width == 32) position &= 0xff, length &= 0xff;
    uint64_t top = width - 1, all = width == 64 ? ~0ull : 0xffffffffu;
    uint64_t last = (uint64_t)position + length - 1 < top ? (uint64_t)position + length - 1 : top;
    uint64_t sign = !is_signed || !length ? 0 : a >> last & 1;
    uint64_t field = position > top ? 0 : a >> position;
    uint64_t kept = length == 0 || position > top ? 0 : length >= 64 ? ~0ull : (1ull << length) - 1;
    if (position <= top && length && (uint64_t)position + length > width) kept = ~0ull >> (64 - (width - position));
    return ((field & kept) | (sign ? ~kept : 0)) & all;
}

static inline uint64_t insert_field(uint64_t a, uint64_t b, uint32_t position, uint32_t length, unsigned width) {
    if (width == 32) position &= 0xff, length &= 0xff;
    if (position >= width || !length) return b;
    if (length > width - position) length = width - position;
    uint64_t mask = (length >= 64 ? ~0ull : (1ull << length) - 1) << position;
    return (b & ~mask) | (a << position & mask);
}

static inline uint32_t bit_mask(uint32_t position, uint32_t length, int wrap) {
    if (wrap) position &= 31, length &= 31;
    if (position >= 32 || !length) return 0;
    uint64_t ones = length >= 32 ? 0xffffffffu : (1u << length) - 1;
    return (uint32_t)(ones << position);
}

static inline uint32_t extend_field(uint32_t a, uint32_t length, int wrap, int is_signed) {
    if (wrap) length &= 31;
    if (length >= 32) return a;
    if (!length) return 0;
    uint32_t mask = (1u << length) - 1;
    return (a & mask) | (is_signed && a >> (length - 1) & 1 ? ~mask : 0);
}

/* The position of the n-th set bit from `base`, upwards or downwards; fns. The least offset gives 0 on an H200. */
static inline uint32_t nth_bit(uint32_t mask, uint32_t base, int32_t offset) {
    if (offset == INT32_MIN) return 0;
    if (base > 31) return 0xffffffffu;
    if (offset == 0) return mask >> base & 1 ? base : 0xffffffffu;
    int step = offset > 0 ? 1 : -1;
    int32_t count = offset > 0 ? offset : -offset;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && --count == 0) return (uint32_t)at;
    return 0xffffffffu;
}

static inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector, int mode) {
    static const uint16_t MODES[7][4] = {
        {0}, {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123}, {0x0000, 0x1111, 0x2222, 0x3333},
        {0x3210, 0x3211, 0x3222, 0x3333}, {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232},
    };
    if (mode) selector = MODES[mode][selector & 3];
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int k = 0; k < 4; k++) {
        uint32_t pick = selector >> (4 * k), byte = (uint32_t)(both >> (8 * (pick & 7))) & 0xff;
        if (!mode && pick & 8) byte = byte & 0x80 ? 0xff : 0;
        out |= byte << (8 * k);
    }
    return out;
}

/* A field whose highest bit is a sign, or 0 when it has none. */
static inline uint32_t with_sign_bit(uint32_t field, uint32_t sign) { return (field ^ sign) - sign; }

static inline uint32_t dot_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t a_signed, uint32_t b_signed) {
    for (int k = 0; k < 32; k += 8) c += with_sign_bit(a >> k & 0xff, a_signed << 7) * with_sign_bit(b >> k & 0xff, b_signed << 7);
    return c;
}

static inline uint32_t dot_halves(uint32_t a, uint32_t b, uint32_t c, uint32_t a_signed, uint32_t b_signed, int high) {
    for (int k = 0; k < 2; k++)
        c += with_sign_bit(a >> 16 * k & 0xffff, a_signed << 15) * with_sign_bit(b >> (8 * k + 16 * high) & 0xff, b_signed << 7);
    return c;
}

static inline int64_t sign24(uint32_t x) { return (int32_t)(x << 8) >> 8; }

static inline int32_t saturate32(int64_t x) {
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

#endif
