/* The driver: found once, called by name. And the last error of each thread. */
#include "runtime.h"

#include <string.h>

static void *library;
static bool started;
static int start_error;

static _Thread_local int last_error;

int keep(int error) {
    if (error) last_error = error;
    return error;
}

EXPORT int cudaGetLastError(void) {
    int error = last_error;
    last_error = 0;
    return error;
}

EXPORT int cudaPeekAtLastError(void) { return last_error; }

Call *driver_call(const char *name) {
    if (!library) return NULL;
    void *found = host_symbol(library, name);
    Call *call;
    memcpy(&call, &found, sizeof call);
    return call;
}

int driver(const char *name, Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k) {
    Call *call = driver_call(name);
    return call ? call(a, b, c, d, e, f, g, h, i, j, k) : CUDA_ERROR_NOT_SUPPORTED;
}

static int start(void) {
    if (!library) library = host_library(DRIVER_FILE);
    if (!library) return CUDART_INSUFFICIENT_DRIVER;
    int version = 0;
    DRIVER("cuDriverGetVersion", &version);
    if (version / 1000 < RUNTIME_VERSION / 1000) return CUDART_INSUFFICIENT_DRIVER;
    return DRIVER("cuInit", 0);
}

/* The driver without a context, for questions that need none. */
int driver_ready(void) {
    lock_take();
    if (!started) start_error = start();
    started = true;
    lock_release();
    return start_error;
}

/* A context that the program made current by driver calls is used as it is. */
int ready(void) {
    void *context = NULL;
    int error = driver_ready();
    if (!error) error = DRIVER("cuCtxGetCurrent", &context);
    if (error || context) return error;
    error = DRIVER("cuDevicePrimaryCtxRetain", &context, 0);
    return error ? error : DRIVER("cuCtxSetCurrent", context);
}
