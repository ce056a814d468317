/* The variants of calls whose default stream is the thread's own. Arguments are handed on as machine words, at most eleven of them;
 * words that a caller did not pass are handed on unread, and never written: their places may be the caller's. */
#include "queue.h"

typedef uintptr_t Word;
#define WORDS Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k

_Static_assert(sizeof(Location) <= sizeof(Word), "the one structure that is handed over by value");

#define SINCE(version, name, symbol)
#define THREAD(version, name, symbol, variant)                                 \
    CUresult symbol(WORDS);                                                    \
    EXPORT CUresult symbol##variant(WORDS) {                                   \
        stream_default(true);                                                  \
        CUresult result = symbol(a, b, c, d, e, f, g, h, i, j, k);             \
        stream_default(false);                                                 \
        return result;                                                         \
    }
#include "entries.h"
