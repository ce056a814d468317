/* The tables that zstd decodes symbols with. */
#ifndef CPU_DRIVER_ENTROPY_H
#define CPU_DRIVER_ENTROPY_H

#include "bits.h"

enum { FSE_LOG_MOST = 9, HUFFMAN_BITS_MOST = 11 };

typedef struct {
    unsigned log;
    struct {
        uint8_t symbol, bits;
        uint16_t base;
    } cell[1 << FSE_LOG_MOST];
} Fse;

typedef struct {
    unsigned bits; /* 0 = there is none yet */
    uint8_t symbol[1 << HUFFMAN_BITS_MOST], length[1 << HUFFMAN_BITS_MOST];
} Huffman;

bool fse_from_counts(Fse *table, const int16_t *counts, unsigned symbols, unsigned log);
void fse_of_one(Fse *table, uint8_t symbol);
/* These return the bytes used, 0 if the description is damaged. */
size_t fse_read(Fse *table, const uint8_t *from, size_t size, unsigned symbols, unsigned log_most);
size_t huffman_read(Huffman *table, const uint8_t *from, size_t size);
bool huffman_decode(const Huffman *table, const uint8_t *from, size_t size, uint8_t *to, size_t count);

#endif
