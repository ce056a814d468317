/* cuBLASLt: handles and versions; its products are not here yet and say so. */
#include "common/common.h"

#include <stdlib.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7 };
enum { HANDLE_LT, VERSION_NUMBER = 120800 };

EXPORT int cublasLtCreate(void **handle) {
    if (fault_missing("cublaslt")) return NOT_INITIALIZED;
    if (!handle) return INVALID_VALUE;
    void *made = registry_new(1, HANDLE_LT);
    if (!made) return ALLOC_FAILED;
    *handle = made;
    return SUCCESS;
}

EXPORT int cublasLtDestroy(void *handle) {
    if (!registry_remove(handle, HANDLE_LT)) return NOT_INITIALIZED;
    free(handle);
    return SUCCESS;
}

EXPORT size_t cublasLtGetVersion(void) { return VERSION_NUMBER; }
EXPORT size_t cublasLtGetCudartVersion(void) { return CPU_LIBRARY_VERSION; }

EXPORT int cublasLtGetProperty(int property, int *value) {
    bool known = version_part(property, VERSION_NUMBER / 10000, VERSION_NUMBER / 100 % 100, VERSION_NUMBER % 100, value);
    return known ? SUCCESS : INVALID_VALUE;
}

EXPORT const char *cublasLtGetStatusName(int status) {
    switch (status) {
    case SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case 15: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "unknown cuBLAS status";
    }
}

EXPORT const char *cublasLtGetStatusString(int status) { return cublasLtGetStatusName(status); }
