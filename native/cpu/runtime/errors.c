/* Names and texts of errors. */
#include "runtime.h"

typedef struct {
    int code;
    const char *name, *text;
} Error;

static const Error ERRORS[] = {
#define ERROR(code, name) {code, #name, NULL},
#define RUNTIME_ERROR(code, name, text) {code, #name, text},
#include "errors.h"
#undef ERROR
};

static const Error DRIVER_ERRORS[] = {
#define ERROR(code, name, text) {code, #name, text},
#include "../driver/errors.h"
};

static const Error *find(const Error *errors, size_t count, int code) {
    for (size_t i = 0; i < count; i++)
        if (errors[i].code == code) return errors + i;
    return NULL;
}

EXPORT const char *cudaGetErrorName(int error) {
    const Error *known = find(ERRORS, sizeof ERRORS / sizeof *ERRORS, error);
    return known ? known->name : "unrecognized error code";
}

EXPORT const char *cudaGetErrorString(int error) {
    const Error *known = find(ERRORS, sizeof ERRORS / sizeof *ERRORS, error);
    if (!known || !known->text) known = find(DRIVER_ERRORS, sizeof DRIVER_ERRORS / sizeof *DRIVER_ERRORS, error);
    return known ? known->text : "unrecognized error code";
}
