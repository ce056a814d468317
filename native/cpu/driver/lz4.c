/* LZ4 blocks, after the public description of the block format. */
#include "unpack.h"

#include <string.h>

enum { SHORTEST_MATCH = 4 };

/* A length of 15 goes on in further bytes, until one is not 255. */
static int more_length(const uint8_t **at, const uint8_t *end, size_t *length) {
    if (*length != 15) return 1;
    for (;;) {
        if (*at == end) return 0;
        uint8_t more = *(*at)++;
        *length += more;
        if (more != 255) return 1;
    }
}

size_t unpack_lz4(const uint8_t *from, size_t size, uint8_t *to, size_t room) {
    const uint8_t *at = from, *end = from + size;
    size_t done = 0;
    while (at < end) {
        uint8_t token = *at++;
        size_t literals = token >> 4, match = token & 15;
        if (!more_length(&at, end, &literals) || literals > (size_t)(end - at) || literals > room - done) return SIZE_MAX;
        memcpy(to + done, at, literals);
        at += literals;
        done += literals;
        if (at == end) break; /* the last sequence has no match */
        if (end - at < 2) return SIZE_MAX;
        size_t offset = at[0] | (size_t)at[1] << 8;
        at += 2;
        if (!more_length(&at, end, &match)) return SIZE_MAX;
        match += SHORTEST_MATCH;
        if (!offset || offset > done || match > room - done) return SIZE_MAX;
        for (; match; match--, done++) to[done] = to[done - offset];
    }
    return done;
}
