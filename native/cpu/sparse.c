/* cuSPARSE: handles, settings and versions; its mathematics is not here yet and says so. */
#include "common/common.h"

#include <stdlib.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 2, INVALID_VALUE = 3, NOT_SUPPORTED = 10 };
enum { HANDLE_SPARSE, VERSION_NUMBER = 12507 };

typedef struct {
    void *stream;
    int pointer_mode;
} Handle;

EXPORT int cusparseCreate(Handle **handle) {
    if (fault_missing("cusparse")) return NOT_INITIALIZED;
    if (!handle) return INVALID_VALUE;
    Handle *made = registry_new(sizeof *made, HANDLE_SPARSE);
    if (!made) return ALLOC_FAILED;
    *handle = made;
    return SUCCESS;
}

EXPORT int cusparseDestroy(Handle *handle) {
    if (!registry_remove(handle, HANDLE_SPARSE)) return NOT_INITIALIZED;
    free(handle);
    return SUCCESS;
}

static bool alive(const Handle *handle) { return registry_has(handle, HANDLE_SPARSE); }

#define ANSWER(name, Type, answer)                    \
    EXPORT int name(Handle *handle, Type *value) {    \
        if (!alive(handle)) return NOT_INITIALIZED;   \
        if (!value) return INVALID_VALUE;             \
        *value = answer;                              \
        return SUCCESS;                               \
    }

ANSWER(cusparseGetStream, void *, handle->stream)
ANSWER(cusparseGetPointerMode, int, handle->pointer_mode)
ANSWER(cusparseGetVersion, int, VERSION_NUMBER)

EXPORT int cusparseSetStream(Handle *handle, void *stream) {
    if (!alive(handle)) return NOT_INITIALIZED;
    handle->stream = stream;
    return SUCCESS;
}

EXPORT int cusparseSetPointerMode(Handle *handle, int mode) {
    if (!alive(handle)) return NOT_INITIALIZED;
    if (mode != 0 && mode != 1) return INVALID_VALUE;
    handle->pointer_mode = mode;
    return SUCCESS;
}

EXPORT int cusparseGetProperty(int property, int *value) {
    bool known = version_part(property, VERSION_NUMBER / 1000, VERSION_NUMBER / 100 % 10, VERSION_NUMBER % 100, value);
    return known ? SUCCESS : INVALID_VALUE;
}

EXPORT const char *cusparseGetErrorName(int status) {
    switch (status) {
    case SUCCESS: return "CUSPARSE_STATUS_SUCCESS";
    case NOT_INITIALIZED: return "CUSPARSE_STATUS_NOT_INITIALIZED";
    case ALLOC_FAILED: return "CUSPARSE_STATUS_ALLOC_FAILED";
    case INVALID_VALUE: return "CUSPARSE_STATUS_INVALID_VALUE";
    case NOT_SUPPORTED: return "CUSPARSE_STATUS_NOT_SUPPORTED";
    default: return "unknown cuSPARSE status";
    }
}

EXPORT const char *cusparseGetErrorString(int status) { return cusparseGetErrorName(status); }
