/* Bits of a zstd stream: forwards in table descriptions, backwards in everything else. */
#ifndef CPU_DRIVER_BITS_H
#define CPU_DRIVER_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Forwards: `at` counts bits from the start. Backwards: `at` counts the bits that are left; it may fall below
 * zero, where the stream reads as zeros. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    int64_t at;
} Bits;

static inline int highest_bit(uint64_t value) { return 63 - __builtin_clzll(value); }

static inline uint32_t bits_at(const Bits *bits, int64_t at, unsigned count) {
    uint64_t value = 0;
    if (at < 0) {
        unsigned below = (unsigned)-at;
        return below >= count ? 0 : bits_at(bits, 0, count - below) << below;
    }
    size_t byte = (size_t)(at >> 3);
    for (unsigned i = 0; i < 5 && byte + i < bits->size; i++) value |= (uint64_t)bits->bytes[byte + i] << (8 * i);
    return (uint32_t)(value >> (at & 7) & ((1ull << count) - 1));
}

static inline uint32_t bits_forward(Bits *bits, unsigned count) {
    uint32_t value = bits_at(bits, bits->at, count);
    bits->at += count;
    return value;
}

static inline uint32_t bits_back(Bits *bits, unsigned count) {
    bits->at -= count;
    return bits_at(bits, bits->at, count);
}

/* The highest bit of the last byte only marks the end. */
static inline bool bits_from_end(Bits *bits, const uint8_t *bytes, size_t size) {
    if (!size || !bytes[size - 1]) return false;
    *bits = (Bits){bytes, size, (int64_t)size * 8 - 8 + highest_bit(bytes[size - 1])};
    return true;
}

#endif
