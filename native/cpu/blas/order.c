/* A call works at once, in its caller's thread: whatever the stream still has to do must be done before.
 * The driver is asked for that only where the program has loaded it; without it nothing can be under way. */
#include "blas.h"

#include <string.h>

enum { NOT_INITIALIZED = 3, INVALID_CONTEXT = 201 }; /* the driver's: nothing has been started */

Status wait_for(void *stream) {
    static const char *const NAMES[] = {"cuStreamIsCapturing", "cuStreamSynchronize", "cuCtxSynchronize"};
    void *driver = host_loaded(DRIVER_FILE), *addresses[3];
    for (int i = 0; i < 3; i++)
        if (!driver || !(addresses[i] = host_symbol(driver, NAMES[i]))) return CUBLAS_STATUS_SUCCESS;
    int (*is_capturing)(void *, int *), (*wait_for_stream)(void *), (*wait_for_all)(void);
    memcpy(&is_capturing, &addresses[0], sizeof is_capturing);
    memcpy(&wait_for_stream, &addresses[1], sizeof wait_for_stream);
    memcpy(&wait_for_all, &addresses[2], sizeof wait_for_all);
    int capturing = 0;
    if (!is_capturing(stream, &capturing) && capturing == 1) return CUBLAS_STATUS_NOT_SUPPORTED; /* it cannot be recorded */
    int error = stream ? wait_for_stream(stream) : wait_for_all();
    return error && error != NOT_INITIALIZED && error != INVALID_CONTEXT ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
