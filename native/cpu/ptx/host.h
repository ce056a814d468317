/* Threads of the operating system, for the blocks of a launch. */
#ifndef PTX_HOST_H
#define PTX_HOST_H

#include "runtime.h"
#include "../common/common.h"

enum { THREADS_MOST = 64 };
void workers_run(struct worker *workers, unsigned count); /* the first one in this thread; returns when all have ended */

#endif
