/* A library that leads to another one, whose symbols the loader takes where both have them: opened by the short name it gives the same
 * library (and the same state) as the versioned name, and programs linked with it ask for the versioned one. A copy would
 * be a second driver in one process. Linked without --filter it is empty and needs the other. */
#include "common/common.h"

#ifdef FILTER

enum { STUB_LIBRARY = 34 };

#define STUB(symbol) \
    EXPORT int symbol(void) { return STUB_LIBRARY; }
#define SINCE(version, name, symbol) STUB(symbol)
#define THREAD(version, name, symbol, variant) STUB(symbol) STUB(symbol##variant)
#include "driver/entries.h"
#include "exports/nvcuda.h"

#else
typedef int forward_only;
#endif
