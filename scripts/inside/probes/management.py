"""Probes of NVML: what it says of the device agrees with the driver."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

from kit import HANDLE, SIZE, WINDOWS, Api, CallFailed, ProbeSession, Refused, load_first, path_of

NOT_SUPPORTED = 3


class Memory(ctypes.Structure):
    """``nvmlMemory_t``."""

    _fields_: ClassVar[Any] = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def nvml(s: ProbeSession) -> None:
    """Count, name, memory and id agree with the driver's; a device that is not there is refused."""
    cuda = s.cuda
    library, name = load_first(["nvml.dll"] if WINDOWS else ["libnvidia-ml.so.1"])
    s.files["nvml"] = path_of(library, name)
    api = Api(library)
    api.call("nvmlInit_v2")
    count, handle, memory = ctypes.c_uint(), HANDLE(), Memory()
    api.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
    s.need("as many devices or more", count.value >= cuda.ask("cuDeviceGetCount"), count.value)
    pci = ctypes.create_string_buffer(64)
    cuda.call("cuDeviceGetPCIBusId", pci, 64, cuda.number)
    found = code(api, "nvmlDeviceGetHandleByPciBusId_v2", pci, ctypes.byref(handle))
    if found == NOT_SUPPORTED:
        msg = "nvmlDeviceGetHandleByPciBusId_v2 returned %d: not supported" % found
        raise Refused(msg)
    s.equal("the device by its PCI id", found, 0)
    text = ctypes.create_string_buffer(96)
    api.call("nvmlDeviceGetName", handle, text, 96)
    s.equal("the name", text.value.decode(), cuda.device)
    api.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    total = cuda.ask("cuDeviceTotalMem_v2", cuda.number, kind=SIZE)
    s.need("the memory, within a tenth", abs(memory.total - total) <= total / 10, (memory.total, total))
    s.need("used and free", memory.free + memory.used <= memory.total * 1.01, (memory.free, memory.used))
    api.call("nvmlDeviceGetUUID", handle, text, 96)
    uuid = (ctypes.c_ubyte * 16)()
    cuda.call("cuDeviceGetUuid_v2", uuid, cuda.number)
    s.equal("the id", text.value.decode().replace("GPU-", "").replace("-", ""), bytes(uuid).hex())
    s.refuses("device 9999", code(api, "nvmlDeviceGetHandleByIndex_v2", 9999, ctypes.byref(HANDLE())), 2)
    api.call("nvmlShutdown")


def code(api: Any, name: str, *arguments: Any) -> int:
    """Call a function and return its code."""
    try:
        api.call(name, *arguments)
    except CallFailed as error:
        return int(str(error).rsplit(" ", 1)[1])
    return 0


PROBES = {"nvml": nvml}
