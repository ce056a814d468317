/* Zstandard frames without a dictionary, after RFC 8878: what nvcc 13 packs PTX with. */
#include "entropy.h"
#include "unpack.h"

#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0xFD2FB528, BLOCK_MOST = 128 * 1024 };

typedef struct {
    Fse literals, offsets, matches;
    bool ready[3];
    Huffman huffman;
    uint32_t repeat[3];
    uint8_t text[BLOCK_MOST]; /* literals of this block */
    size_t text_size;
    uint8_t *to;
    size_t done, room;
} State;

static const int16_t LITERALS_DEFAULT[36] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2,
                                             2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
static const int16_t OFFSETS_DEFAULT[29] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1,
                                            1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
static const int16_t MATCHES_DEFAULT[53] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};

/* Lengths from code 16 (literals) and 32 (matches) on: where they begin and how many bits more follow. */
static const uint32_t LITERAL_BASE[20] = {16, 18, 20, 22, 24, 28, 32, 40, 48, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
static const uint8_t LITERAL_BITS[20] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint32_t MATCH_BASE[21] = {35, 37, 39, 41, 43, 47, 51, 59, 67, 83, 99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539};
static const uint8_t MATCH_BITS[21] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* ---- literals ---- */

static bool decode_streams(State *s, const uint8_t *from, size_t size, bool four) {
    if (!s->huffman.bits) return false;
    if (!four) return huffman_decode(&s->huffman, from, size, s->text, s->text_size);
    if (size < 6) return false;
    size_t part = (s->text_size + 3) / 4, at = 6, written = 0;
    for (unsigned i = 0; i < 4; i++) {
        size_t bytes = i < 3 ? (size_t)little(from + 2 * i, 2) : size - at;
        size_t count = i < 3 ? part : s->text_size - written;
        if (at + bytes > size || written + count > s->text_size) return false;
        if (!huffman_decode(&s->huffman, from + at, bytes, s->text + written, count)) return false;
        at += bytes;
        written += count;
    }
    return true;
}

static size_t packed_literals(State *s, const uint8_t *from, size_t size, bool new_table) {
    unsigned format = from[0] >> 2 & 3, header = format < 2 ? 3 : format + 2, width = format < 2 ? 10 : format == 2 ? 14 : 18;
    if (size < header) return 0;
    uint64_t word = little(from, header) >> 4;
    size_t packed = (size_t)(word >> width & ((1u << width) - 1)), at = header, end = header + packed;
    s->text_size = (size_t)(word & ((1u << width) - 1));
    if (s->text_size > BLOCK_MOST || end > size) return 0;
    if (new_table) {
        size_t used = huffman_read(&s->huffman, from + at, packed);
        if (!used) return 0;
        at += used;
    }
    return decode_streams(s, from + at, end - at, format != 0) ? end : 0;
}

/* Returns the bytes used, 0 if damaged. */
static size_t read_literals(State *s, const uint8_t *from, size_t size) {
    if (!size) return 0;
    unsigned type = from[0] & 3, format = from[0] >> 2 & 3;
    if (type >= 2) return packed_literals(s, from, size, type == 2);
    unsigned header = format == 1 ? 2 : format == 3 ? 3 : 1;
    if (size < header) return 0;
    s->text_size = (size_t)(little(from, header) >> (header == 1 ? 3 : 4));
    size_t stored = type == 0 ? s->text_size : 1;
    if (s->text_size > BLOCK_MOST || header + stored > size) return 0;
    if (type == 0) memcpy(s->text, from + header, stored);
    else memset(s->text, from[header], s->text_size);
    return header + stored;
}

/* ---- sequences ---- */

static const struct {
    const int16_t *counts;
    unsigned symbols, log, log_most;
} KINDS[3] = {{LITERALS_DEFAULT, 36, 6, 9}, {OFFSETS_DEFAULT, 29, 5, 8}, {MATCHES_DEFAULT, 53, 6, 9}};

static bool read_table(State *s, unsigned kind, unsigned mode, const uint8_t **at, const uint8_t *end) {
    Fse *table = kind == 0 ? &s->literals : kind == 1 ? &s->offsets : &s->matches;
    unsigned symbols = kind == 1 ? 32 : KINDS[kind].symbols;
    size_t used = 0;
    switch (mode) {
    case 0: fse_from_counts(table, KINDS[kind].counts, KINDS[kind].symbols, KINDS[kind].log); break;
    case 1:
        if (*at == end || **at >= symbols) return false;
        fse_of_one(table, **at);
        used = 1;
        break;
    case 2:
        used = fse_read(table, *at, (size_t)(end - *at), symbols, KINDS[kind].log_most);
        if (!used || used > (size_t)(end - *at)) return false;
        break;
    default: return s->ready[kind];
    }
    *at += used;
    return s->ready[kind] = true;
}

static bool copy_literals(State *s, size_t *used, size_t count) {
    if (count > s->text_size - *used || count > s->room - s->done) return false;
    memcpy(s->to + s->done, s->text + *used, count);
    *used += count;
    s->done += count;
    return true;
}

static bool copy_match(State *s, size_t offset, size_t count) {
    if (!offset || offset > s->done || count > s->room - s->done) return false;
    for (; count; count--, s->done++) s->to[s->done] = s->to[s->done - offset];
    return true;
}

/* Values up to three name one of the last three offsets, one further on when no literals came before. */
static uint32_t resolve_offset(State *s, uint32_t value, bool no_literals) {
    uint32_t *last = s->repeat, offset;
    uint32_t which = value - 1 + no_literals;
    if (value > 3) offset = value - 3;
    else if (which == 0) return last[0];
    else offset = which == 3 ? last[0] - 1 : last[which];
    if (value > 3 || which >= 2) last[2] = last[1];
    last[1] = last[0];
    return last[0] = offset;
}

static uint32_t next_state(const Fse *table, uint32_t state, Bits *bits) {
    return table->cell[state].base + bits_back(bits, table->cell[state].bits);
}

static bool run_sequences(State *s, Bits *bits, size_t count) {
    size_t used = 0;
    uint32_t l = bits_back(bits, s->literals.log), o = bits_back(bits, s->offsets.log), m = bits_back(bits, s->matches.log);
    for (size_t i = 0; i < count; i++) {
        unsigned lc = s->literals.cell[l].symbol, oc = s->offsets.cell[o].symbol, mc = s->matches.cell[m].symbol;
        if (oc > 31) return false;
        uint32_t value = (1u << oc) + bits_back(bits, oc);
        uint32_t match = mc < 32 ? mc + 3 : MATCH_BASE[mc - 32] + bits_back(bits, MATCH_BITS[mc - 32]);
        uint32_t literals = lc < 16 ? lc : LITERAL_BASE[lc - 16] + bits_back(bits, LITERAL_BITS[lc - 16]);
        if (!copy_literals(s, &used, literals) || !copy_match(s, resolve_offset(s, value, !literals), match)) return false;
        if (i + 1 == count) break;
        l = next_state(&s->literals, l, bits);
        m = next_state(&s->matches, m, bits);
        o = next_state(&s->offsets, o, bits);
        if (bits->at < 0) return false;
    }
    return bits->at == 0 && copy_literals(s, &used, s->text_size - used);
}

static bool packed_block(State *s, const uint8_t *from, size_t size) {
    const uint8_t *at = from, *end = from + size;
    size_t used = read_literals(s, from, size), nothing = 0;
    if (!used || used >= size) return false;
    at += used;
    size_t count = *at++;
    if (!count) return at == end && copy_literals(s, &nothing, s->text_size);
    if (count >= 128 && end - at < 2) return false;
    if (count == 255) {
        count = at[0] + ((size_t)at[1] << 8) + 0x7F00;
        at += 2;
    } else if (count >= 128) count = ((count - 128) << 8) + *at++;
    if (at == end) return false;
    uint8_t modes = *at++;
    for (unsigned kind = 0; kind < 3; kind++)
        if (!read_table(s, kind, modes >> (6 - 2 * kind) & 3, &at, end)) return false;
    Bits bits;
    return bits_from_end(&bits, at, (size_t)(end - at)) && run_sequences(s, &bits, count);
}

/* ---- frames ---- */

/* The header's size, 0 if this is no frame; `content` is 0 if the frame does not say. */
static size_t read_header(const uint8_t *from, size_t size, uint64_t *content) {
    static const uint8_t DICTIONARY[4] = {0, 1, 2, 4}, CONTENT[4] = {0, 2, 4, 8};
    if (size < 6 || little(from, 4) != MAGIC) return 0;
    unsigned single = from[4] >> 5 & 1, bytes = CONTENT[from[4] >> 6];
    if (single && !bytes) bytes = 1;
    size_t at = 5 + !single + DICTIONARY[from[4] & 3];
    if (at + bytes > size) return 0;
    *content = bytes ? little(from + at, bytes) + (bytes == 2 ? 256 : 0) : 0;
    return at + bytes;
}

uint64_t zstd_content_size(const uint8_t *from, size_t size) {
    uint64_t content = 0;
    return read_header(from, size, &content) ? content : 0;
}

static size_t read_frame(State *s, const uint8_t *from, size_t size) {
    uint64_t content;
    size_t at = read_header(from, size, &content);
    for (bool last = !at; !last;) {
        if (size - at < 3) return SIZE_MAX;
        uint32_t header = (uint32_t)little(from + at, 3), type = header >> 1 & 3, bytes = header >> 3;
        size_t stored = type == 1 ? 1 : bytes;
        at += 3;
        if (stored > size - at || type == 3) return SIZE_MAX;
        if (type < 2 && bytes > s->room - s->done) return SIZE_MAX;
        if (type == 0) memcpy(s->to + s->done, from + at, bytes);
        if (type == 1) memset(s->to + s->done, from[at], bytes);
        if (type < 2) s->done += bytes;
        else if (!packed_block(s, from + at, bytes)) return SIZE_MAX;
        at += stored;
        last = header & 1;
    }
    return at ? s->done : SIZE_MAX;
}

size_t unpack_zstd(const uint8_t *from, size_t size, uint8_t *to, size_t room) {
    State *s = calloc(1, sizeof *s);
    if (!s) return SIZE_MAX;
    s->repeat[0] = 1;
    s->repeat[1] = 4;
    s->repeat[2] = 8;
    s->to = to;
    s->room = room;
    size_t done = read_frame(s, from, size);
    free(s);
    return done;
}
