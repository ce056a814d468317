"""Probes of the driver's own words: device, PCI id, entry points, limits, and what it must refuse."""

from __future__ import annotations

import ctypes
import re
from typing import Any

from kit import (
    HANDLE,
    INVALID_VALUE,
    NOT_FOUND,
    SIZE,
    U64,
    WINDOWS,
    Cuda,
    ProbeSession,
)

INVALID_DEVICE = 101
WARP_SIZE, MAX_THREADS, SM_COUNT, MAJOR, MINOR, SHARED_BLOCK = 10, 1, 16, 75, 76, 8
PCI_BUS, PCI_DEVICE, PCI_DOMAIN = 33, 34, 50


def device_info(s: ProbeSession) -> None:
    """The device has a name, memory and attributes that agree with each other."""
    cuda = s.cuda
    count = cuda.ask("cuDeviceGetCount")
    s.need("at least one device", count >= 1, count)
    s.need("it has a name", cuda.device.strip(), repr(cuda.device))
    memory = cuda.ask("cuDeviceTotalMem_v2", cuda.number, kind=SIZE)
    s.need("memory between 64 MiB and 16 TiB", 1 << 26 <= memory <= 1 << 44, memory)
    values = {n: cuda.attribute(n) for n in (WARP_SIZE, MAX_THREADS, SM_COUNT, MAJOR, MINOR, SHARED_BLOCK)}
    s.need("a warp of 32 or 64", values[WARP_SIZE] in (32, 64), values)
    s.need("blocks of 256 threads or more", values[MAX_THREADS] >= 256, values)
    s.need("multiprocessors", values[SM_COUNT] >= 1, values)
    s.need("16 KiB of shared memory or more", values[SHARED_BLOCK] >= 16384, values)
    major, minor = ctypes.c_int(), ctypes.c_int()
    cuda.call("cuDeviceComputeCapability", ctypes.byref(major), ctypes.byref(minor), cuda.number)
    s.equal("both ways to ask for the capability", (major.value, minor.value), (values[MAJOR], values[MINOR]))
    uuid = (ctypes.c_ubyte * 16)()
    cuda.call("cuDeviceGetUuid_v2", uuid, cuda.number)
    s.need("an id that is not all zero", any(uuid), bytes(uuid).hex())


def pci_bus_id(s: ProbeSession) -> None:
    """The PCI id has its form, agrees with the attributes, and leads back to the device."""
    cuda = s.cuda
    text = ctypes.create_string_buffer(b"\xff" * 63)
    cuda.call("cuDeviceGetPCIBusId", text, 32, cuda.number)
    found = text.value.decode("ascii", "replace")
    form = re.fullmatch(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])", found)
    if s.need("domain:bus:device.function", form, repr(found)) and form:
        parts = [int(form.group(n), 16) for n in (1, 2, 3)]
        s.equal(
            "as the attributes say", parts, [cuda.attribute(n) for n in (PCI_DOMAIN, PCI_BUS, PCI_DEVICE)]
        )
    back = ctypes.c_int(-1)
    cuda.call("cuDeviceGetByPCIBusId", ctypes.byref(back), text)
    s.equal("back to the device", back.value, cuda.number.value)
    other = cuda.code("cuDeviceGetByPCIBusId", ctypes.byref(back), b"not a pci id")
    s.refuses("nonsense is no device", other)


def driver_api(s: ProbeSession) -> None:
    """Version, names of errors and numbers of devices are right, and wrong ones are refused."""
    cuda = s.cuda
    s.need("a version from 10.0 on", 10000 <= cuda.driver_version < 30000, cuda.driver_version)
    text = ctypes.c_char_p()
    cuda.call("cuGetErrorName", INVALID_VALUE, ctypes.byref(text))
    s.equal("the name of error 1", text.value, b"CUDA_ERROR_INVALID_VALUE")
    cuda.call("cuGetErrorString", 0, ctypes.byref(text))
    s.need("a text for success", text.value, text.value)
    s.refuses("the name of no error", cuda.code("cuGetErrorName", 123456, ctypes.byref(text)), INVALID_VALUE)
    device = ctypes.c_int()
    for number in (cuda.ask("cuDeviceGetCount"), -1):
        code = cuda.code("cuDeviceGet", ctypes.byref(device), number)
        s.refuses("device %d" % number, code, INVALID_DEVICE)
    value = ctypes.c_int()
    s.refuses(
        "attribute 99999", cuda.code("cuDeviceGetAttribute", ctypes.byref(value), 99999, cuda.number), 1
    )
    s.refuses("flags for cuInit", cuda.code("cuInit", 7), INVALID_VALUE)
    current = HANDLE()
    cuda.call("cuCtxGetCurrent", ctypes.byref(current))
    s.equal("the current context", current.value, cuda.context.value)
    s.equal("its device", cuda.ask("cuCtxGetDevice"), cuda.number.value)


#: Calls with the release that brought them, and the name by which the library exports what is asked for.
ENTRIES = (
    ("cuDriverGetVersion", 2020, "cuDriverGetVersion"),
    ("cuMemAlloc", 3020, "cuMemAlloc_v2"),
    ("cuMemcpyDtoH", 3020, "cuMemcpyDtoH_v2"),
    ("cuLaunchKernel", 4000, "cuLaunchKernel"),
    ("cuStreamDestroy", 4000, "cuStreamDestroy_v2"),
    ("cuMemAllocAsync", 11020, "cuMemAllocAsync"),
    ("cuModuleLoadData", 2010, "cuModuleLoadData"),
    ("cuEventElapsedTime", 2000, "cuEventElapsedTime"),
)


def entry_point(cuda: Cuda, name: bytes, version: int) -> Any:
    """Ask for a function; returns the code, its address and the status."""
    address, status = HANDLE(), ctypes.c_int(-1)
    number = U64(0)
    code = cuda.code(
        "cuGetProcAddress_v2", name, ctypes.byref(address), version, number, ctypes.byref(status)
    )
    return code, address.value, status.value


def entry_points(s: ProbeSession) -> None:
    """``cuGetProcAddress`` gives functions that work, and nothing for what is not there."""
    cuda = s.cuda
    for name, release, exported in ENTRIES:
        code, address, status = entry_point(cuda, name.encode(), cuda.driver_version)
        if not s.need(name, code == 0 and status == 0 and address, (code, status, address)):
            continue
        there = hasattr(cuda.driver.library, exported)
        s.need("%s is exported as %s" % (name, exported), there, "it is not")
        code, address, status = entry_point(cuda, name.encode(), release)
        s.need(
            "%s as of %d" % (name, release), code == 0 and status == 0 and address, (code, status, address)
        )
    prototype = getattr(ctypes, "WINFUNCTYPE" if WINDOWS else "CFUNCTYPE")
    address = entry_point(cuda, b"cuDriverGetVersion", cuda.driver_version)[1]
    version = ctypes.c_int()
    asked = prototype(ctypes.c_int, ctypes.c_void_p)(address)(ctypes.addressof(version))
    s.equal("what was found can be called", (asked, version.value), (0, cuda.driver_version))
    refused_entries(s, cuda)


def refused_entries(s: ProbeSession, cuda: Cuda) -> None:
    """Names that do not exist, and names newer than the version asked for, give no address."""
    code, address, status = entry_point(cuda, b"cuThisCallDoesNotExist", cuda.driver_version)
    s.need("a name that does not exist", not address and status != 0, (code, status, address))
    s.need("its code says so", code in (0, NOT_FOUND, INVALID_VALUE), code)
    code, address, status = entry_point(cuda, b"cuMemAllocAsync", 10000)
    s.need("a name newer than what was asked for", not address and status == 2, (code, status, address))


def contexts(s: ProbeSession) -> None:
    """Contexts are a stack; the primary one is counted; without one there is no memory."""
    cuda = s.cuda
    again = HANDLE()
    cuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(again), cuda.number)
    s.equal("retained twice it is the same", again.value, cuda.context.value)
    cuda.call("cuDevicePrimaryCtxRelease_v2", cuda.number)
    flags, active = ctypes.c_uint(), ctypes.c_int()
    cuda.call("cuDevicePrimaryCtxGetState", cuda.number, ctypes.byref(flags), ctypes.byref(active))
    s.equal("it is still active", active.value, 1)
    popped = HANDLE()
    cuda.call("cuCtxPushCurrent_v2", cuda.context)
    cuda.call("cuCtxPopCurrent_v2", ctypes.byref(popped))
    s.equal("popped what was pushed", popped.value, cuda.context.value)
    cuda.call("cuCtxSetCurrent", None)
    address = U64()
    code = cuda.code("cuMemAlloc_v2", ctypes.byref(address), SIZE(256))
    s.refuses("memory without a context", code, 201)
    cuda.call("cuCtxSetCurrent", cuda.context)
    low, high = ctypes.c_int(), ctypes.c_int()
    cuda.call("cuCtxGetStreamPriorityRange", ctypes.byref(low), ctypes.byref(high))
    s.need("priorities from low to high", low.value >= high.value, (low.value, high.value))
    version = ctypes.c_uint()
    cuda.call("cuCtxGetApiVersion", cuda.context, ctypes.byref(version))
    s.need("a context's version", version.value >= 3010, version.value)


def bad_handles(s: ProbeSession) -> None:
    """Null pointers and sizes that cannot be are refused, and the context goes on working."""
    cuda = s.cuda
    s.refuses("memory of no size", cuda.code("cuMemAlloc_v2", ctypes.byref(U64()), SIZE(0)), INVALID_VALUE)
    s.refuses("nowhere to store an address", cuda.code("cuMemAlloc_v2", None, SIZE(16)), INVALID_VALUE)
    huge = cuda.code("cuMemAlloc_v2", ctypes.byref(U64()), SIZE(1 << 60))
    s.refuses("an exbibyte", huge, 2)
    s.refuses("freeing what was never given", cuda.code("cuMemFree_v2", U64(0x1234)), INVALID_VALUE)
    s.refuses("a copy from no device memory", cuda.code(
        "cuMemcpyDtoH_v2", ctypes.create_string_buffer(8), U64(0x10), SIZE(8)
    ), INVALID_VALUE)  # fmt: skip
    s.refuses("no event to record", cuda.code("cuEventRecord", None, None))
    s.refuses("no kernel to launch", cuda.launch_code(HANDLE(), 1, 1))
    buffer = cuda.given(s.floats(64))
    s.equal("the context still works", len(buffer.bytes()), 256)


PROBES = {
    "driver-device-info": device_info,
    "driver-pci-bus-id": pci_bus_id,
    "driver-api": driver_api,
    "driver-entry-points": entry_points,
    "driver-contexts": contexts,
    "driver-bad-arguments": bad_handles,
}
