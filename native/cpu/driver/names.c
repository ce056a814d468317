/* Names of errors, and calls by name. */
#include "driver.h"
#include "entry.h"

#include <string.h>

static const struct {
    CUresult code;
    const char *name, *text;
} ERRORS[] = {
#define ERROR(code, name, text) {code, #name, text},
#include "errors.h"
#undef ERROR
};

enum { ERROR_COUNT = sizeof ERRORS / sizeof *ERRORS };

static int error_index(CUresult error) {
    for (int i = 0; i < ERROR_COUNT; i++)
        if (ERRORS[i].code == error) return i;
    return -1;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    int i = error_index(error);
    *name = i < 0 ? NULL : ERRORS[i].name;
    return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    int i = error_index(error);
    *text = i < 0 ? NULL : ERRORS[i].text;
    return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

enum { FOUND, SYMBOL_NOT_FOUND, VERSION_NOT_SUFFICIENT }; /* CUdriverProcAddressQueryResult */
enum { PER_THREAD = 2, FLAGS_ALL = 3 };

/* As documented: a name without a call is no error of version 2, only of version 1. */
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **call, int version, uint64_t flags, int *status) {
    if (!name || !*name || !call || flags > FLAGS_ALL) return CUDA_ERROR_INVALID_VALUE;
    *call = NULL;
    if (status) *status = SYMBOL_NOT_FOUND;
    if (version / 1000 > reported_cuda() / 1000) return CUDA_ERROR_INVALID_VALUE;
    bool too_new;
    Call found = entry_find(name, version, flags & PER_THREAD, &too_new);
    memcpy(call, &found, sizeof found);
    if (status) *status = found ? FOUND : too_new ? VERSION_NOT_SUFFICIENT : SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetProcAddress(const char *name, void **call, int version, uint64_t flags) {
    CUresult result = cuGetProcAddress_v2(name, call, version, flags, NULL);
    return result || *call ? result : CUDA_ERROR_NOT_FOUND;
}

/* The vendor's private tables: NVIDIA's runtime library asks for them and does not run without, and one holds a check of who
 * made the driver, which is not ours to answer. */
EXPORT CUresult cuGetExportTable(const void **table, const void *id) {
    (void)id;
    if (table) *table = NULL;
    return CUDA_ERROR_NOT_SUPPORTED;
}
