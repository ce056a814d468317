/* cuBLAS: its numbers, as the public headers define them, and what our files share. */
#ifndef CPU_BLAS_H
#define CPU_BLAS_H

#include "../common/common.h"

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
} Status;

typedef struct Handle Handle;

/* CUBLAS_STATUS_SUCCESS, or what a call with this handle must return. */
Status need_handle(const Handle *handle);

/* Wait until a stream (NULL: every one) has done all that it was given; not CUBLAS_STATUS_SUCCESS: do no work. */
Status wait_for(void *stream);

/* The same for a handle's stream. */
Status wait_for_handle(const Handle *handle);

#endif
