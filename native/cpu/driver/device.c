/* Initialisation and the one device. */
#include "driver.h"

#include <stdio.h>
#include <string.h>

static volatile bool initialised;

CUresult need_init(void) { return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

CUresult need_device(CUdevice device) {
    CUresult result = need_init();
    if (result) return result;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuInit(unsigned flags) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (fault_missing("nvcuda")) return CUDA_ERROR_NO_DEVICE;
    fault_arm_exit();
    initialised = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = CPU_CUDA_VERSION;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
    CUresult result = need_init();
    if (result) return result;
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    CUresult result = need_init();
    if (result) return result;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

static CUresult copy_text(char *to, int room, const char *text, CUdevice device) {
    CUresult result = need_device(device);
    if (result) return result;
    if (!to || room <= 0) return CUDA_ERROR_INVALID_VALUE;
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
    CUresult result = need_init();
    if (result) return result;
    if (!device || !id) return CUDA_ERROR_INVALID_VALUE;
    if (strcmp(id, "0000:00:00.0") != 0) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(unsigned char *uuid, CUdevice device) {
    CUresult result = need_device(device);
    if (result) return result;
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid, CPU_UUID, 16);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) {
    return cuDeviceGetUuid(uuid, device);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CUresult result = need_device(device);
    if (result) return result;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *bytes = (size_t)host_memory_bytes();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    CUresult result = need_device(device);
    if (result) return result;
    if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
    *major = CPU_CC_MAJOR;
    *minor = CPU_CC_MINOR;
    return CUDA_SUCCESS;
}

enum { ATTRIBUTE_LAST = 150 };

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    CUresult result = need_device(device);
    if (result) return result;
    if (!value || attribute < 1 || attribute > ATTRIBUTE_LAST) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
#define ATTRIBUTE(number, amount) \
    case number: *value = amount; break;
#include "attributes.h"
#undef ATTRIBUTE
    default: *value = 0;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    CUresult result = need_device(device);
    if (!result) result = need_device(peer);
    if (result) return result;
    if (!can) return CUDA_ERROR_INVALID_VALUE;
    *can = 0;
    return CUDA_SUCCESS;
}
