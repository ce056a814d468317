/* The device, and questions about versions. */
#include "runtime.h"

#include <string.h>

/* The fields of cudaDeviceProp, which lie as C lays them: each at a multiple of its elements' size. */
typedef struct {
    bool in_12, in_13;
    size_t size, count;
    int attribute;
} Field;

static const Field FIELDS[] = {
#define BOTH(type, name, count, attribute) {true, true, sizeof(type), count, attribute},
#define ONLY_12(type, name, count, attribute) {true, false, sizeof(type), count, attribute},
#define ONLY_13(type, name, count, attribute) {false, true, sizeof(type), count, attribute},
#include "properties.h"
};

static void fill(void *place, const Field *field) {
    for (size_t i = 0; field->attribute && i < field->count; i++) {
        int value = 0;
        DRIVER("cuDeviceGetAttribute", &value, field->attribute + (int)i, 0);
        if (field->size == sizeof(size_t)) ((size_t *)place)[i] = (size_t)value;
        else ((int *)place)[i] = value;
    }
}

typedef struct { /* what both begin with */
    char name[256], uuid[16], luid[8];
    unsigned luid_mask;
    size_t memory;
} Names;

EXPORT int cudaGetDeviceProperties(void *properties, int device) {
    TRY(driver_ready());
    TRY_VALUE(properties);
    TRY(device ? CUDA_ERROR_INVALID_DEVICE : 0);
    size_t end = 0;
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        const Field *field = FIELDS + i;
        if (!(RUNTIME_VERSION >= 13000 ? field->in_13 : field->in_12)) continue;
        size_t begin = (end + field->size - 1) / field->size * field->size, before = end;
        end = begin + field->size * field->count;
        memset((char *)properties + before, 0, end - before);
        fill((char *)properties + begin, field);
    }
    Names *out = properties;
    DRIVER("cuDeviceGetName", out->name, sizeof out->name, 0);
    DRIVER("cuDeviceGetUuid_v2", out->uuid, 0);
    DRIVER("cuDeviceGetLuid", out->luid, &out->luid_mask, 0);
    DRIVER("cuDeviceTotalMem_v2", &out->memory, 0);
    return 0;
}

EXPORT int cudaRuntimeGetVersion(int *version) {
    TRY_VALUE(version);
    *version = RUNTIME_VERSION;
    return 0;
}

EXPORT int cudaDriverGetVersion(int *version) {
    TRY_VALUE(version);
    *version = 0; /* as documented, when there is no driver */
    if (driver_ready()) return 0;
    return keep(DRIVER("cuDriverGetVersion", version));
}

EXPORT int cudaGetDeviceCount(int *count) {
    TRY_VALUE(count);
    *count = 0;
    TRY(driver_ready());
    return keep(DRIVER("cuDeviceGetCount", count));
}

EXPORT int cudaGetDevice(int *device) {
    TRY_VALUE(device);
    TRY(driver_ready());
    *device = 0;
    return 0;
}

EXPORT int cudaSetDevice(int device) {
    TRY(driver_ready());
    TRY(device ? CUDA_ERROR_INVALID_DEVICE : 0);
    return keep(ready());
}

EXPORT int cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
    (void)device_flags, (void)flags;
    return cudaSetDevice(device);
}

EXPORT int cudaChooseDevice(int *device, const void *properties) {
    TRY_VALUE(properties);
    return cudaGetDevice(device);
}

EXPORT int cudaSetValidDevices(int *devices, int count) {
    TRY_VALUE(!count || devices);
    for (int i = 0; i < count; i++) TRY(devices[i] ? CUDA_ERROR_INVALID_DEVICE : 0);
    return 0;
}

EXPORT int cudaDeviceGetAttribute(int *value, int attribute, int device) {
    TRY(driver_ready());
    return keep(DRIVER("cuDeviceGetAttribute", value, attribute, device));
}

EXPORT int cudaSetDeviceFlags(unsigned flags) {
    TRY(driver_ready());
    return keep(DRIVER("cuDevicePrimaryCtxSetFlags_v2", 0, flags));
}

EXPORT int cudaGetDeviceFlags(unsigned *flags) {
    int active;
    TRY(driver_ready());
    return keep(DRIVER("cuDevicePrimaryCtxGetState", 0, flags, &active));
}

EXPORT int cudaDeviceReset(void) {
    TRY(driver_ready());
    return keep(DRIVER("cuDevicePrimaryCtxReset_v2", 0));
}

EXPORT int cudaDeviceEnablePeerAccess(int device, unsigned flags) {
    (void)device, (void)flags;
    return keep(CUDA_ERROR_INVALID_DEVICE);
}

EXPORT int cudaDeviceDisablePeerAccess(int device) {
    (void)device;
    return keep(CUDA_ERROR_INVALID_DEVICE);
}

EXPORT int cudaGetDriverEntryPointByVersion(const char *name, void **call, unsigned version, uint64_t flags, int *status) {
    TRY(driver_ready());
    return keep(DRIVER("cuGetProcAddress_v2", name, call, version, flags, status));
}

EXPORT int cudaGetDriverEntryPoint(const char *name, void **call, uint64_t flags, int *status) {
    return cudaGetDriverEntryPointByVersion(name, call, (unsigned)RUNTIME_VERSION, flags, status);
}

EXPORT int cudaGetDriverEntryPointByVersion_ptsz(const char *name, void **call, unsigned version, uint64_t flags, int *status) {
    return cudaGetDriverEntryPointByVersion(name, call, version, flags ? flags : 2, status);
}

EXPORT int cudaGetDriverEntryPoint_ptsz(const char *name, void **call, uint64_t flags, int *status) {
    return cudaGetDriverEntryPoint(name, call, flags ? flags : 2, status);
}
