/* The variants of calls whose default stream is the thread's own. Arguments are handed on as machine words, at most eleven of them;
 * words that a caller did not pass are handed on unread. */
#include "queue.h"

#define WORDS uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f, uintptr_t g, uintptr_t h, uintptr_t i, uintptr_t j, uintptr_t k

#define SINCE(version, name, symbol)
#define THREAD(symbol, variant)                                                \
    CUresult symbol(WORDS);                                                    \
    EXPORT CUresult symbol##variant(WORDS) {                                   \
        stream_default(true);                                                  \
        CUresult result = symbol(a, b, c, d, e, f, g, h, i, j, k);             \
        stream_default(false);                                                 \
        return result;                                                         \
    }
#include "entries.h"
