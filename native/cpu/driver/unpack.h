/* The ways in which fat binaries and machine code keep their PTX. */
#ifndef CPU_DRIVER_UNPACK_H
#define CPU_DRIVER_UNPACK_H

#include <stddef.h>
#include <stdint.h>

/* A number of up to eight bytes, lowest first. */
static inline uint64_t little(const uint8_t *from, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* The number of bytes written, or SIZE_MAX if the input is damaged or does not fit. */
size_t unpack_lz4(const uint8_t *from, size_t size, uint8_t *to, size_t room);
size_t unpack_zstd(const uint8_t *from, size_t size, uint8_t *to, size_t room);

/* How many bytes a zstd frame says it holds; 0 if it does not say. */
uint64_t zstd_content_size(const uint8_t *from, size_t size);

/* The PTX that machine code was made of, allocated, with a NUL behind it; 0 and NULL if it has none, or several. */
size_t cubin_ptx(const uint8_t *bytes, size_t size, char **text);
unsigned cubin_capability(const uint8_t *bytes, size_t size); /* what machine code is for, as 86 for 8.6 */

#endif
