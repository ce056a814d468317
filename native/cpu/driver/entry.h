/* Looking calls up by name. */
#ifndef CPU_DRIVER_ENTRY_H
#define CPU_DRIVER_ENTRY_H

#include <stdbool.h>

typedef void (*Call)(void);

/* NULL if there is no such call; `too_new` says that only a later CUDA version has it. `per_thread`: the variant
 * whose default stream is the thread's own, where there is one. */
Call entry_find(const char *name, int version, bool per_thread, bool *too_new);

#endif
