/* NVML: initialisation, versions, the one device's name and memory; everything else says that it is not here. */
#include "common/common.h"

#include <stdio.h>
#include <string.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9
};

static int users; /* nvmlInit calls that nvmlShutdown has not answered yet */
static char device; /* its address is the device's handle */

static int need_init(void) {
    lock_take();
    int result = users > 0 ? SUCCESS : UNINITIALIZED;
    lock_release();
    return result;
}

static int need_device(const void *handle) {
    int result = need_init();
    if (result) return result;
    return handle == &device ? SUCCESS : INVALID_ARGUMENT;
}

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (fault_missing("nvml")) return DRIVER_NOT_LOADED;
    lock_take();
    users++;
    lock_release();
    return SUCCESS;
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
EXPORT int nvmlInit(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void) {
    lock_take();
    int result = users > 0 ? SUCCESS : UNINITIALIZED;
    if (!result) users--;
    lock_release();
    return result;
}

static int give_text(char *to, unsigned room, const char *text, int status) {
    if (status) return status;
    if (!to) return INVALID_ARGUMENT;
    if (room <= strlen(text)) return INSUFFICIENT_SIZE;
    snprintf(to, room, "%s", text);
    return SUCCESS;
}

static int give_number(unsigned *to, unsigned value, int status) {
    if (status) return status;
    if (!to) return INVALID_ARGUMENT;
    *to = value;
    return SUCCESS;
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned room) {
    return give_text(text, room, CPU_DRIVER_TEXT, need_init());
}

EXPORT int nvmlSystemGetNVMLVersion(char *text, unsigned room) {
    return give_text(text, room, CPU_DRIVER_TEXT, SUCCESS); /* real NVML needs no initialisation here */
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    if (!version) return INVALID_ARGUMENT;
    *version = reported_cuda();
    return SUCCESS;
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }
EXPORT int nvmlDeviceGetCount_v2(unsigned *count) { return give_number(count, 1, need_init()); }
EXPORT int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    int result = need_init();
    if (result) return result;
    if (index != 0 || !handle) return INVALID_ARGUMENT;
    *handle = &device;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, void **handle) {
    return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

EXPORT int nvmlDeviceGetIndex(void *handle, unsigned *index) { return give_number(index, 0, need_device(handle)); }

EXPORT int nvmlDeviceGetName(void *handle, char *name, unsigned room) {
    return give_text(name, room, CPU_DEVICE_NAME, need_device(handle));
}

EXPORT int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned room) {
    char text[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"; /* the bytes that cuDeviceGetUuid gives */
    const char *byte = CPU_UUID;
    for (char *at = text; *at; at++) {
        if (*at != 'x') continue;
        unsigned value = (unsigned char)*byte++;
        *at++ = "0123456789abcdef"[value >> 4];
        *at = "0123456789abcdef"[value & 15];
    }
    return give_text(uuid, room, text, need_device(handle));
}

EXPORT int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    int result = need_device(handle);
    if (result) return result;
    if (!major || !minor) return INVALID_ARGUMENT;
    *major = reported_capability() / 10;
    *minor = reported_capability() % 10;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int status) {
    switch (status) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized: call nvmlInit first";
    case INVALID_ARGUMENT: return "Invalid argument";
    case 3: return "Not supported by the CPU reference";
    case NOT_FOUND: return "Not found";
    case INSUFFICIENT_SIZE: return "The buffer is too small";
    case DRIVER_NOT_LOADED: return "The driver is not loaded";
    default: return "Unknown error";
    }
}
