/* Finite state entropy and Huffman tables, after RFC 8878 sections 4.1 and 4.2. */
#include "entropy.h"

#include <string.h>

enum { SYMBOLS_MOST = 256, WEIGHTS_LOG_MOST = 6, WEIGHT_MOST = 11 };

bool fse_from_counts(Fse *table, const int16_t *counts, unsigned symbols, unsigned log) {
    uint16_t next[SYMBOLS_MOST];
    unsigned size = 1u << log, high = size, at = 0, step = (size >> 1) + (size >> 3) + 3;
    table->log = log;
    for (unsigned s = 0; s < symbols; s++) {
        next[s] = (uint16_t)(counts[s] < 0 ? 1 : counts[s]);
        if (counts[s] < 0) table->cell[--high].symbol = (uint8_t)s;
    }
    for (unsigned s = 0; s < symbols; s++)
        for (int i = 0; i < counts[s]; i++) {
            table->cell[at].symbol = (uint8_t)s;
            do at = (at + step) & (size - 1);
            while (at >= high);
        }
    for (unsigned i = 0; i < size; i++) {
        unsigned state = next[table->cell[i].symbol]++;
        table->cell[i].bits = (uint8_t)(log - (unsigned)highest_bit(state));
        table->cell[i].base = (uint16_t)((state << table->cell[i].bits) - size);
    }
    return at == 0;
}

void fse_of_one(Fse *table, uint8_t symbol) {
    memset(table, 0, sizeof *table);
    table->cell[0].symbol = symbol;
}

/* One count, in as few bits as what remains allows; stored one higher, so that -1 ("less than one") is 0. */
static int read_count(Bits *bits, int remaining) {
    unsigned width = (unsigned)highest_bit((uint64_t)remaining + 1) + 1;
    uint32_t value = bits_forward(bits, width), low = (1u << (width - 1)) - 1;
    uint32_t threshold = (1u << width) - 1 - (uint32_t)(remaining + 1);
    if ((value & low) < threshold) {
        bits->at--;
        value &= low;
    } else if (value > low) value -= threshold;
    return (int)value - 1;
}

size_t fse_read(Fse *table, const uint8_t *from, size_t size, unsigned symbols, unsigned log_most) {
    Bits bits = {from, size, 0};
    int16_t counts[SYMBOLS_MOST] = {0};
    unsigned log = bits_forward(&bits, 4) + 5, s = 0;
    if (log > log_most) return 0;
    int remaining = 1 << log;
    while (remaining > 0 && s < symbols) {
        int count = read_count(&bits, remaining);
        remaining -= count < 0 ? 1 : count;
        counts[s++] = (int16_t)count;
        for (unsigned more = count ? 0 : 3; more == 3; s += more) more = bits_forward(&bits, 2);
        if (bits.at > (int64_t)size * 8 || s > symbols) return 0;
    }
    if (remaining || !fse_from_counts(table, counts, symbols, log)) return 0;
    return (size_t)(bits.at + 7) / 8;
}

/* Two states take turns until the bits are used up. */
static unsigned read_weights(uint8_t *weights, const uint8_t *from, size_t size) {
    Fse table;
    Bits bits;
    size_t used = fse_read(&table, from, size, WEIGHT_MOST + 2, WEIGHTS_LOG_MOST);
    if (!used || used >= size || !bits_from_end(&bits, from + used, size - used)) return 0;
    uint32_t state[2] = {bits_back(&bits, table.log), 0};
    state[1] = bits_back(&bits, table.log);
    unsigned count = 0;
    for (unsigned turn = 0; count < SYMBOLS_MOST - 2; turn ^= 1) {
        weights[count++] = table.cell[state[turn]].symbol;
        state[turn] = table.cell[state[turn]].base + bits_back(&bits, table.cell[state[turn]].bits);
        if (bits.at >= 0) continue;
        weights[count++] = table.cell[state[turn ^ 1]].symbol;
        return count;
    }
    return 0;
}

/* The last weight is what completes the sum to a power of two. */
static bool complete(uint8_t *weights, unsigned *count, unsigned *bits) {
    uint32_t sum = 0;
    for (unsigned i = 0; i < *count; i++) {
        if (weights[i] > WEIGHT_MOST) return false;
        if (weights[i]) sum += 1u << (weights[i] - 1);
    }
    if (!sum) return false;
    *bits = (unsigned)highest_bit(sum) + 1;
    uint32_t left = (1u << *bits) - sum;
    if (*bits > HUFFMAN_BITS_MOST || left & (left - 1)) return false;
    weights[(*count)++] = (uint8_t)(highest_bit(left) + 1);
    return true;
}

static void huffman_fill(Huffman *table, const uint8_t *weights, unsigned count) {
    unsigned at = 0;
    for (unsigned weight = 1; weight <= table->bits; weight++)
        for (unsigned s = 0; s < count; s++) {
            if (weights[s] != weight) continue;
            unsigned cells = 1u << (weight - 1);
            memset(table->symbol + at, (int)s, cells);
            memset(table->length + at, (int)(table->bits + 1 - weight), cells);
            at += cells;
        }
}

size_t huffman_read(Huffman *table, const uint8_t *from, size_t size) {
    uint8_t weights[SYMBOLS_MOST] = {0};
    unsigned count;
    if (!size) return 0;
    size_t used = from[0] < 128 ? from[0] : ((size_t)from[0] - 127 + 1) / 2;
    if (used + 1 > size) return 0;
    if (from[0] < 128) {
        count = read_weights(weights, from + 1, used);
    } else {
        count = from[0] - 127u;
        for (unsigned i = 0; i < count; i++) weights[i] = i & 1 ? from[1 + i / 2] & 15 : from[1 + i / 2] >> 4;
    }
    table->bits = 0;
    unsigned bits;
    if (!count || !complete(weights, &count, &bits)) return 0;
    table->bits = bits;
    huffman_fill(table, weights, count);
    return used + 1;
}

bool huffman_decode(const Huffman *table, const uint8_t *from, size_t size, uint8_t *to, size_t count) {
    Bits bits;
    if (!bits_from_end(&bits, from, size)) return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t code = bits_at(&bits, bits.at - table->bits, table->bits);
        to[i] = table->symbol[code];
        bits.at -= table->length[code];
    }
    return bits.at == 0;
}
