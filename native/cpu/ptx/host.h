/* Threads of the operating system, for the blocks of a launch. */
#ifndef PTX_HOST_H
#define PTX_HOST_H

#include "../common/common.h"

enum { THREADS_MOST = 64 };
/* Run `work` once for each argument, the first one in this thread; returns when all have ended. */
void host_run(void (*work)(void *), void *const *arguments, unsigned count);

#endif
