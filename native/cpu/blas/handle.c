/* Handles, their settings, versions and names. */
#include "blas.h"

#include <stdlib.h>

struct Handle {
    void *stream;
    int pointer_mode, math_mode, atomics_mode, sm_count_target;
};

enum { HANDLE_BLAS };
enum { CUBLAS_VERSION_NUMBER = 120800 };

Status need_handle(const Handle *handle) {
    return registry_has(handle, HANDLE_BLAS) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

Status wait_for_handle(const Handle *handle) { return wait_for(handle->stream); }

EXPORT Status cublasCreate_v2(Handle **handle) {
    if (fault_missing("cublas")) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (fault_active() == FAULT_HANG_CREATE) fault_hang();
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    Handle *made = registry_new(sizeof *made, HANDLE_BLAS);
    if (!made) return CUBLAS_STATUS_ALLOC_FAILED;
    *handle = made;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT Status cublasDestroy_v2(Handle *handle) {
    if (!registry_remove(handle, HANDLE_BLAS)) return CUBLAS_STATUS_NOT_INITIALIZED;
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

/* One setting of a handle: what it accepts, how it is set and read. */
#define SETTING(setter, getter, Type, field, accepted)                    \
    EXPORT Status setter(Handle *handle, Type value) {                    \
        if (need_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;    \
        if (!(accepted)) return CUBLAS_STATUS_INVALID_VALUE;              \
        handle->field = value;                                            \
        return CUBLAS_STATUS_SUCCESS;                                     \
    }                                                                     \
    EXPORT Status getter(Handle *handle, Type *value) {                   \
        if (need_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;    \
        if (!value) return CUBLAS_STATUS_INVALID_VALUE;                   \
        *value = handle->field;                                           \
        return CUBLAS_STATUS_SUCCESS;                                     \
    }

SETTING(cublasSetStream_v2, cublasGetStream_v2, void *, stream, true)
SETTING(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode, value == 0 || value == 1)
SETTING(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode, value == 0 || value == 1)
SETTING(cublasSetSmCountTarget, cublasGetSmCountTarget, int, sm_count_target, value >= 0)
/* Low nibble: the mode; bit 4: no reduced-precision reduction. Every mode computes in full precision here. */
SETTING(cublasSetMathMode, cublasGetMathMode, int, math_mode, value >= 0 && (value & ~0x1f) == 0)

/* We need no workspace of the program's. */
EXPORT Status cublasSetWorkspace_v2(Handle *handle, void *workspace, size_t bytes) {
    (void)workspace;
    (void)bytes;
    return need_handle(handle);
}

EXPORT Status cublasGetVersion_v2(Handle *handle, int *version) {
    (void)handle; /* NULL is allowed by real cuBLAS as well */
    if (!version) return CUBLAS_STATUS_INVALID_VALUE;
    *version = CUBLAS_VERSION_NUMBER;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT Status cublasGetProperty(int property, int *value) {
    bool known = version_part(property, CUBLAS_VERSION_NUMBER / 10000, CUBLAS_VERSION_NUMBER / 100 % 100, CUBLAS_VERSION_NUMBER % 100, value);
    return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

EXPORT size_t cublasGetCudartVersion(void) { return CPU_LIBRARY_VERSION; }

/* CASE(code, name, text) */
#define STATUSES(CASE)                                                                  \
    CASE(0, CUBLAS_STATUS_SUCCESS, "success")                                           \
    CASE(1, CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized")           \
    CASE(3, CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed")               \
    CASE(7, CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter was passed") \
    CASE(8, CUBLAS_STATUS_ARCH_MISMATCH, "the device lacks a feature")                  \
    CASE(11, CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory failed")             \
    CASE(13, CUBLAS_STATUS_EXECUTION_FAILED, "the program failed to execute")           \
    CASE(14, CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed")              \
    CASE(15, CUBLAS_STATUS_NOT_SUPPORTED, "not supported by the CPU reference")         \
    CASE(16, CUBLAS_STATUS_LICENSE_ERROR, "a licence could not be checked")

EXPORT const char *cublasGetStatusName(int status) {
    switch (status) {
#define NAME(code, name, text) \
    case code: return #name;
        STATUSES(NAME)
    default: return "unknown cuBLAS status";
    }
}

EXPORT const char *cublasGetStatusString(int status) {
    switch (status) {
#define TEXT(code, name, text) \
    case code: return text;
        STATUSES(TEXT)
    default: return "unknown cuBLAS status";
    }
}
