/* The device, and questions about versions. */
#include "runtime.h"

#include <string.h>

int driver_ready(void);

#define BOTH(type, name, count, attribute) type name[count];

typedef struct { /* cudaDeviceProp of CUDA 12 */
#define ONLY_12(type, name, count, attribute) type name[count];
#define ONLY_13(type, name, count, attribute)
#include "properties.h"
#undef ONLY_12
#undef ONLY_13
} Properties12;

typedef struct { /* cudaDeviceProp of CUDA 13 */
#define ONLY_12(type, name, count, attribute)
#define ONLY_13(type, name, count, attribute) type name[count];
#include "properties.h"
#undef ONLY_12
#undef ONLY_13
} Properties13;

#undef BOTH

static void fill(void *field, size_t size, size_t count, int attribute) {
    for (size_t i = 0; attribute && i < count; i++) {
        int value = 0;
        DRIVER("cuDeviceGetAttribute", &value, attribute + (int)i, 0);
        if (size == sizeof(size_t)) ((size_t *)field)[i] = (size_t)value;
        else ((int *)field)[i] = value;
    }
}

/* Both layouts begin alike: name, UUID, LUID, its mask, the memory's size. */
static void fill_names(Properties12 *out) {
    DRIVER("cuDeviceGetName", out->name, sizeof out->name, 0);
    DRIVER("cuDeviceGetUuid_v2", out->uuid, 0);
    DRIVER("cuDeviceGetLuid", out->luid, out->luidDeviceNodeMask, 0);
    DRIVER("cuDeviceTotalMem_v2", out->totalGlobalMem, 0);
}

#define BOTH(type, name, count, attribute) fill(out->name, sizeof(type), count, attribute);

int fill_properties_12(void *place) {
    Properties12 *out = place;
    memset(out, 0, sizeof *out);
    fill_names(out);
#define ONLY_12(type, name, count, attribute) BOTH(type, name, count, attribute)
#define ONLY_13(type, name, count, attribute)
#include "properties.h"
#undef ONLY_12
#undef ONLY_13
    return 0;
}

int fill_properties_13(void *place) {
    Properties13 *out = place;
    memset(out, 0, sizeof *out);
    fill_names(place);
#define ONLY_12(type, name, count, attribute)
#define ONLY_13(type, name, count, attribute) BOTH(type, name, count, attribute)
#include "properties.h"
#undef ONLY_12
#undef ONLY_13
    return 0;
}

EXPORT int cudaGetDeviceProperties(void *properties, int device) {
    TRY(driver_ready());
    TRY_VALUE(properties);
    TRY(device ? CUDA_ERROR_INVALID_DEVICE : 0);
    return RUNTIME_VERSION >= 13000 ? fill_properties_13(properties) : fill_properties_12(properties);
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
