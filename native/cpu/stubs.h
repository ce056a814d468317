/* Calls that a library exports but does not implement: each returns the API's own NOT_SUPPORTED, whatever
 * it is called with (x86-64 and AArch64 callers clean up their own arguments). */
#include "common/common.h"

#define STUB(name) \
    EXPORT int name(void) { return NOT_SUPPORTED_CODE; }
