/* A call works at once, in its caller's thread: whatever the stream still has to do must be done before.
 * The driver is asked for that only where the program has loaded it; without it nothing can be under way. */
#ifndef _WIN32
#define _GNU_SOURCE
#include <dlfcn.h>
#else
#define WIN32_LEAN_AND_MEAN
#define NOGDI
#include <windows.h>
#endif
#include "blas.h"

#include <string.h>

#ifdef _WIN32
static void *symbol_of(const char *name) {
    HMODULE driver = GetModuleHandleA("nvcuda.dll");
    FARPROC found = driver ? GetProcAddress(driver, name) : NULL;
    void *address;
    memcpy(&address, &found, sizeof address);
    return address;
}
#else
static void *symbol_of(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver) return NULL;
    void *address = dlsym(driver, name);
    dlclose(driver); /* the program holds it */
    return address;
}
#endif

enum { NOT_INITIALIZED = 3, INVALID_CONTEXT = 201 }; /* the driver's: nothing has been started */

Status wait_for(void *stream) {
    void *addresses[] = {symbol_of("cuStreamIsCapturing"), symbol_of("cuStreamSynchronize"), symbol_of("cuCtxSynchronize")};
    if (!addresses[0] || !addresses[1] || !addresses[2]) return CUBLAS_STATUS_SUCCESS;
    int (*is_capturing)(void *, int *), (*wait_for_stream)(void *), (*wait_for_all)(void);
    memcpy(&is_capturing, &addresses[0], sizeof is_capturing);
    memcpy(&wait_for_stream, &addresses[1], sizeof wait_for_stream);
    memcpy(&wait_for_all, &addresses[2], sizeof wait_for_all);
    int capturing = 0;
    if (!is_capturing(stream, &capturing) && capturing == 1) return CUBLAS_STATUS_NOT_SUPPORTED; /* it cannot be recorded */
    int error = stream ? wait_for_stream(stream) : wait_for_all();
    return error && error != NOT_INITIALIZED && error != INVALID_CONTEXT ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
