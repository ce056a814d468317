/* Names and texts of errors. */
#include "runtime.h"

static const struct {
    int code;
    const char *name;
} NAMES[] = {
#define ERROR(code, name) {code, #name},
#include "errors.h"
#undef ERROR
};

static const struct {
    int code;
    const char *text;
} OWN_TEXTS[] = {
    {9, "invalid configuration argument"},
    {12, "invalid pitch argument"},
    {13, "invalid device symbol"},
    {16, "invalid host pointer"},
    {17, "invalid device pointer"},
    {18, "invalid texture reference"},
    {19, "texture is not bound to a pointer"},
    {20, "invalid channel descriptor"},
    {21, "invalid copy direction for memcpy"},
    {26, "invalid filter setting"},
    {27, "invalid norm setting"},
    {35, "the CUDA driver is older than the CUDA runtime"},
    {37, "invalid surface reference"},
    {43, "duplicate global variable name"},
    {44, "duplicate texture name"},
    {45, "duplicate surface name"},
    {49, "an incompatible driver context is current"},
    {52, "a launch configuration is missing"},
    {53, "an earlier launch failed"},
    {65, "the depth of launches is too large"},
    {66, "file scoped textures are not supported"},
    {67, "file scoped surfaces are not supported"},
    {68, "the depth of synchronisations was exceeded"},
    {69, "too many launches are pending"},
    {98, "invalid device function"},
    {103, "invalid software"},
    {127, "startup failed"},
    {10000, "a failure of the runtime itself"},
};

EXPORT const char *cudaGetErrorName(int error) {
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (NAMES[i].code == error) return NAMES[i].name;
    return "unrecognized error code";
}

EXPORT const char *cudaGetErrorString(int error) {
    for (size_t i = 0; i < sizeof OWN_TEXTS / sizeof *OWN_TEXTS; i++)
        if (OWN_TEXTS[i].code == error) return OWN_TEXTS[i].text;
    static const struct {
        int code;
        const char *text;
    } DRIVER_TEXTS[] = {
#define ERROR(code, name, text) {code, text},
#include "../driver/errors.h"
#undef ERROR
    };
    for (size_t i = 0; i < sizeof DRIVER_TEXTS / sizeof *DRIVER_TEXTS; i++)
        if (DRIVER_TEXTS[i].code == error) return DRIVER_TEXTS[i].text;
    return "unrecognized error code";
}
