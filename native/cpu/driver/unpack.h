/* The two ways in which fat binaries pack their PTX. */
#ifndef CPU_DRIVER_UNPACK_H
#define CPU_DRIVER_UNPACK_H

#include <stddef.h>
#include <stdint.h>

/* The number of bytes written, or SIZE_MAX if the input is damaged or does not fit. */
size_t unpack_lz4(const uint8_t *from, size_t size, uint8_t *to, size_t room);
size_t unpack_zstd(const uint8_t *from, size_t size, uint8_t *to, size_t room);

/* How many bytes a zstd frame says it holds; 0 if it does not say. */
uint64_t zstd_content_size(const uint8_t *from, size_t size);

#endif
