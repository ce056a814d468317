/* Initialisation and the one device. */
#include "module.h"

#include <stdio.h>
#include <string.h>

static volatile bool initialised;

CUresult need_init(void) { return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

CUresult need_device(CUdevice device) {
    NEED(need_init());
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuInit(unsigned flags) {
    NEED_VALUE(flags == 0);
    if (fault_missing("nvcuda")) return CUDA_ERROR_NO_DEVICE;
    fault_arm_exit();
    engine_start();
    companions_load();
    initialised = true;
    return CUDA_SUCCESS;
}

ANSWER(cuDriverGetVersion, (int *version), CUDA_SUCCESS, version, reported_cuda())
ANSWER(cuDeviceGetCount, (int *count), need_init(), count, 1)
ANSWER(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device), need_device(device), bytes, (size_t)host_memory_bytes())

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    NEED(need_init());
    NEED_VALUE(device);
    if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

static CUresult copy_text(char *to, int room, const char *text, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(to && room > 0);
    snprintf(to, (size_t)room, "%s", text);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int room, CUdevice device) {
    return copy_text(name, room, CPU_DEVICE_NAME, device);
}

EXPORT CUresult cuDeviceGetPCIBusId(char *id, int room, CUdevice device) {
    return copy_text(id, room, "0000:00:00.0", device);
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
    NEED(need_init());
    NEED_VALUE(device && id);
    if (strcmp(id, "0000:00:00.0") != 0) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(unsigned char *uuid, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(uuid);
    memcpy(uuid, CPU_UUID, 16);
    return CUDA_SUCCESS;
}

SAME(cuDeviceGetUuid_v2, cuDeviceGetUuid)

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(major && minor);
    *major = reported_capability() / 10;
    *minor = reported_capability() % 10;
    return CUDA_SUCCESS;
}

enum { ATTRIBUTE_LAST = 150 };

int device_number(int attribute) {
    switch (attribute) {
#define ATTRIBUTE(number, amount) \
    case number: return amount;
#include "attributes.h"
#undef ATTRIBUTE
    default: return 0;
    }
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(value && attribute >= 1 && attribute <= ATTRIBUTE_LAST);
    *value = device_number(attribute);
    return CUDA_SUCCESS;
}

typedef struct { /* CUdevprop */
    int threads, block[3], grid[3], shared, constant, warp, pitch, registers, clock, texture_alignment;
} Properties;

EXPORT CUresult cuDeviceGetProperties(Properties *properties, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(properties);
    int *values = (int *)properties;
    for (int i = 0; i < 14; i++) values[i] = device_number(i + 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned *mask, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(luid && mask);
    memset(luid, 0, 8);
    *mask = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetExecAffinitySupport(int *supported, int kind, CUdevice device) {
    NEED(need_device(device));
    NEED_VALUE(supported && kind == 0);
    *supported = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice device, CUdevice peer) {
    NEED(need_device(device));
    NEED(need_device(peer));
    (void)value, (void)attribute;
    return CUDA_ERROR_INVALID_DEVICE; /* a device is not its own peer */
}

EXPORT CUresult cuProfilerStart(void) { return need_context(); }
EXPORT CUresult cuProfilerStop(void) { return need_context(); }

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    NEED(need_device(device));
    NEED(need_device(peer));
    NEED_VALUE(can);
    *can = 0;
    return CUDA_SUCCESS;
}
