"""HIP by ctypes: the device as its own runtime gives it, for the baselines that workloads are put beside."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Sequence

import numpy as np
from cuda_calls import (  # type: ignore[import-not-found]  # its sibling: workloads run as programs
    WINDOWS,
    Api,
    Array,
    load_first,
    path_of,
)

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


class Hip:
    """The first device that HIP shows; the calls of ``cuda_calls.Driver`` under the same names."""

    def __init__(self) -> None:
        """Load HIP and start it."""
        names = ["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"] if WINDOWS else hip_names("libamdhip64")
        library, name = load_first(names)
        self.hip, self.files = Api(library), {"hip": path_of(library, name)}
        self.hip.call("hipInit", 0)
        text = ctypes.create_string_buffer(256)
        self.hip.call("hipDeviceGetName", text, 256, 0)
        self.device = text.value.decode("utf-8", "replace")

    def library(self, stem: str) -> Api:
        """Load a library that works on the device."""
        library, name = load_first([stem + ".dll"] if WINDOWS else hip_names("lib" + stem))
        self.files[stem] = path_of(library, name)
        return Api(library)

    def upload(self, array: Array) -> ctypes.c_void_p:
        """Copy an array into new device memory and return its address."""
        pointer, size = ctypes.c_void_p(), ctypes.c_size_t(array.nbytes)
        self.hip.call("hipMalloc", ctypes.byref(pointer), size)
        self.hip.call("hipMemcpy", pointer, ctypes.c_void_p(array.ctypes.data), size, HOST_TO_DEVICE)
        return pointer

    def read(self, array: Array, pointer: ctypes.c_void_p) -> None:
        """Copy device memory into an array."""
        size = ctypes.c_size_t(array.nbytes)
        self.hip.call("hipMemcpy", ctypes.c_void_p(array.ctypes.data), pointer, size, DEVICE_TO_HOST)

    def free(self, pointers: Sequence[ctypes.c_void_p]) -> None:
        """Give device memory back."""
        for pointer in pointers:
            self.hip.call("hipFree", pointer)

    def wait(self) -> None:
        """Wait until the device has finished."""
        self.hip.call("hipDeviceSynchronize")

    def close(self) -> None:
        """End as a well-behaved program does: HIP asks for nothing."""


def hip_names(stem: str) -> List[str]:
    """Name a library of ROCm: the linker's name first, then the majors that its libraries have had."""
    return [stem + ".so", *(stem + ".so.%d" % major for major in range(7, -1, -1))]


class Cpu:
    """The processor: arrays stay where they are, and nothing has to be waited for."""

    def __init__(self) -> None:
        """Ask NumPy what it was built with."""
        self.device = "CPU"
        self.files: Dict[str, str] = {}
        show: Any = getattr(np, "show_config", None)
        try:
            blas = show(mode="dicts")["Build Dependencies"]["blas"]
            self.name = "%s %s" % (blas["name"], blas["version"])
        except (KeyError, TypeError):
            self.name = "NumPy %s" % np.__version__

    def wait(self) -> None:
        """Nothing runs on by itself here."""

    def close(self) -> None:
        """Nothing is held."""
