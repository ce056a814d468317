"""The runtime library of the CPU reference, called as nvcc's programs call it; our nvJitLink and NVRTC."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from tests import fatbins
from tests.native_cpu import WINDOWS, environment, folder, library, pointer
from tests.native_kernels import CALLEE, CALLER, PTX, WILD, function, launch, load, pack

INVALID_VALUE, INVALID_CONFIGURATION, INVALID_SYMBOL, INVALID_DIRECTION = 1, 9, 13, 21
INVALID_FUNCTION, ILLEGAL_ADDRESS, NO_IMAGE = 98, 700, 209
TO_DEVICE, TO_HOST, DEFAULT = 1, 2, 4
size, f32, u32 = ctypes.c_size_t, ctypes.c_float, ctypes.c_uint


class Dim3(ctypes.Structure):
    _fields_: ClassVar[Any] = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class Program:
    """What nvcc makes of a source file with these kernels and variables, as far as the runtime sees it."""

    def __init__(
        self, runtime: Any, image: bytes, kernels: tuple[bytes, ...], variables: tuple[bytes, ...]
    ) -> None:
        self.runtime = runtime
        self.image = ctypes.create_string_buffer(image, len(image))
        self.wrapper = np.zeros(3, np.uint64)
        self.wrapper[:2] = (0x1_466243B1, ctypes.addressof(self.image))
        register = runtime["__cudaRegisterFatBinary"]  # a class would change the name after a dot
        register.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p(register(pointer(self.wrapper)))
        self.places = {name: ctypes.create_string_buffer(8) for name in (*kernels, *variables)}
        for name in kernels:
            runtime["__cudaRegisterFunction"](self.handle, self.places[name], None, name, -1, *[None] * 5)
        for name in variables:
            runtime["__cudaRegisterVar"](self.handle, self.places[name], None, name, 0, size(4), 0, 0)
        runtime["__cudaRegisterFatBinaryEnd"](self.handle)

    def launch(
        self, kernel: bytes, arguments: Any, *, grid: int = 1, block: int = 32, shared: int = 0
    ) -> int:
        call = self.runtime.cudaLaunchKernel
        call.argtypes = (ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, size, ctypes.c_void_p)
        at = ctypes.addressof(self.places[kernel])
        return int(call(at, Dim3(grid, 1, 1), Dim3(block, 1, 1), arguments, shared, None))


@pytest.fixture(params=["cudart12", "cudart13"])
def runtime(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A runtime library whose driver is the one beside it."""
    library("nvcuda")  # it is found by name once it is loaded
    loaded = library(request.param)
    loaded.cudaGetLastError()
    yield loaded
    loaded.cudaDeviceReset()
    loaded.cudaGetLastError()


@pytest.fixture
def program(runtime: Any) -> Iterator[Program]:
    image = fatbins.container(fatbins.entry(fatbins.PTX, 75, PTX, way="zstd"))
    made = Program(runtime, image, (b"scale", b"fill", b"gone"), (b"counter", b"level", b"nothing"))
    yield made
    runtime.__cudaUnregisterFatBinary(made.handle)


def allocate(runtime: Any, data: np.ndarray) -> ctypes.c_void_p:
    address = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(address), size(data.nbytes)) == 0
    assert runtime.cudaMemcpy(address, pointer(data), size(data.nbytes), TO_DEVICE) == 0
    return address


def fetch(runtime: Any, address: Any, like: np.ndarray) -> np.ndarray:
    back = np.zeros_like(like)
    assert runtime.cudaMemcpy(pointer(back), address, size(back.nbytes), TO_HOST) == 0
    return back


def test_a_registered_kernel_computes(runtime: Any, program: Program) -> None:
    data = np.arange(100, dtype=np.float32)
    source, target = allocate(runtime, data), allocate(runtime, np.zeros_like(data))
    assert program.launch(b"scale", pack(target, source, f32(3), u32(100)), grid=4) == 0
    assert runtime.cudaDeviceSynchronize() == 0
    assert np.array_equal(fetch(runtime, target, data), data * 3)
    assert runtime.cudaFree(target) == 0
    assert runtime.cudaFree(target) == INVALID_VALUE
    assert runtime.cudaFree(None) == 0


def test_symbols_are_copied_to_and_from(runtime: Any, program: Program) -> None:
    value, address, bytes_ = ctypes.c_uint(0), ctypes.c_void_p(), size()
    counter = program.places[b"counter"]
    assert runtime.cudaMemcpyFromSymbol(ctypes.byref(value), counter, size(4), size(0), TO_HOST) == 0
    assert value.value == 5
    value.value = 8
    assert runtime.cudaMemcpyToSymbol(counter, ctypes.byref(value), size(4), size(0), TO_DEVICE) == 0
    assert runtime.cudaGetSymbolSize(ctypes.byref(bytes_), counter) == 0
    assert runtime.cudaGetSymbolAddress(ctypes.byref(address), counter) == 0
    assert (bytes_.value, list(fetch(runtime, address, np.zeros(1, np.uint32)))) == (4, [8])
    assert (
        runtime.cudaMemcpyToSymbol(counter, ctypes.byref(value), size(4), size(1), TO_DEVICE) == INVALID_VALUE
    )
    assert (
        runtime.cudaMemcpyToSymbol(counter, ctypes.byref(value), size(4), size(0), TO_HOST)
        == INVALID_DIRECTION
    )
    assert runtime.cudaGetSymbolAddress(ctypes.byref(address), program.places[b"nothing"]) == INVALID_SYMBOL
    assert runtime.cudaGetSymbolAddress(ctypes.byref(address), program.places[b"fill"]) == INVALID_SYMBOL


def test_errors_are_kept_until_they_are_fetched(runtime: Any, program: Program) -> None:
    target = allocate(runtime, np.zeros(4, np.float32))
    arguments = pack(target, u32(4))
    assert runtime.cudaPeekAtLastError() == 0
    assert program.launch(b"fill", arguments, block=2000) == INVALID_CONFIGURATION
    assert program.launch(b"fill", arguments) == 0
    assert runtime.cudaPeekAtLastError() == INVALID_CONFIGURATION
    assert runtime.cudaGetLastError() == INVALID_CONFIGURATION
    assert runtime.cudaGetLastError() == 0
    assert program.launch(b"gone", arguments) == INVALID_FUNCTION
    assert runtime.cudaGetLastError() == INVALID_FUNCTION
    runtime.cudaGetErrorName.restype = runtime.cudaGetErrorString.restype = ctypes.c_char_p
    assert runtime.cudaGetErrorName(INVALID_FUNCTION) == b"cudaErrorInvalidDeviceFunction"
    assert runtime.cudaGetErrorString(0) == b"no error"
    assert runtime.cudaGetErrorString(INVALID_CONFIGURATION) == b"invalid configuration argument"
    assert runtime.cudaGetErrorString(123456) == b"unrecognized error code"


def test_a_fault_stays_until_the_device_is_reset(runtime: Any) -> None:
    wild = Program(runtime, fatbins.container(fatbins.entry(fatbins.PTX, 75, WILD)), (b"wild",), ())
    address = ctypes.c_void_p()
    assert wild.launch(b"wild", pack(ctypes.c_uint64(64)), block=1) == 0
    assert runtime.cudaDeviceSynchronize() == ILLEGAL_ADDRESS
    assert runtime.cudaGetLastError() == ILLEGAL_ADDRESS
    assert runtime.cudaMalloc(ctypes.byref(address), size(4)) == ILLEGAL_ADDRESS
    assert runtime.cudaDeviceReset() == 0
    assert runtime.cudaMalloc(ctypes.byref(address), size(4)) == 0
    runtime.__cudaUnregisterFatBinary(wild.handle)


def test_a_program_of_machine_code_alone_says_so_for_each_kernel(runtime: Any) -> None:
    image = fatbins.container(fatbins.entry(fatbins.SASS, 90, fatbins.cubin(90)))
    made = Program(runtime, image, (b"k",), ())
    assert made.launch(b"k", pack(), block=1) == NO_IMAGE
    runtime.__cudaUnregisterFatBinary(made.handle)


def test_the_launch_configuration_is_a_stack_of_each_thread(runtime: Any) -> None:
    push, pop = runtime.__cudaPushCallConfiguration, runtime.__cudaPopCallConfiguration
    push.argtypes = (Dim3, Dim3, size, ctypes.c_void_p)
    grid, block, shared, stream = Dim3(), Dim3(), size(), ctypes.c_void_p()
    places = [ctypes.byref(place) for place in (grid, block, shared, stream)]
    assert push(Dim3(1, 2, 3), Dim3(4, 5, 6), 7, 8) == 0
    assert push(Dim3(9, 1, 1), Dim3(1, 1, 1), 0, None) == 0
    assert pop(*places) == 0
    assert grid.x == 9
    assert pop(*places) == 0
    assert (grid.y, block.z, shared.value, stream.value) == (2, 6, 7, 8)
    assert pop(*places) == 52
    assert runtime.cudaGetLastError() == 52


def test_the_device_is_described_in_the_layout_of_each_release(runtime: Any) -> None:
    version = ctypes.c_int()
    assert runtime.cudaRuntimeGetVersion(ctypes.byref(version)) == 0
    thirteen = version.value >= 13000
    properties = np.zeros(1032, np.uint8)
    assert runtime.cudaGetDeviceProperties(pointer(properties), 0) == 0
    words = properties.view(np.int32)
    assert bytes(properties[:36]) == b"CPU reference (simulated, not a GPU)"
    assert list(words[304 // 4 : 308 // 4 + 1]) == [65536, 32]  # registers, warp
    assert list(words[360 // 4 : 364 // 4 + 1]) == [12, 1]  # capability
    assert words[(384 if thirteen else 388) // 4] == os.cpu_count()  # multiprocessors
    assert runtime.cudaGetDeviceProperties(pointer(properties), 1) == 101
    value = ctypes.c_int()
    assert runtime.cudaDeviceGetAttribute(ctypes.byref(value), 75, 0) == 0
    assert value.value == 12
    assert runtime.cudaDriverGetVersion(ctypes.byref(value)) == 0
    assert value.value == 13000


def test_rows_and_pointers(runtime: Any) -> None:
    address, pitch = ctypes.c_void_p(), size()
    data = np.arange(30, dtype=np.uint8).reshape(3, 10)
    assert runtime.cudaMallocPitch(ctypes.byref(address), ctypes.byref(pitch), size(10), size(3)) == 0
    row = size(10)
    assert runtime.cudaMemcpy2D(address, pitch, pointer(data), row, row, size(3), TO_DEVICE) == 0
    back = np.zeros_like(data)
    assert runtime.cudaMemcpy2D(pointer(back), row, address, pitch, row, size(3), DEFAULT) == 0
    assert np.array_equal(back, data)
    assert runtime.cudaMemset2D(address, pitch, 7, size(5), size(3)) == 0
    assert runtime.cudaMemcpy2D(pointer(back), row, address, pitch, row, size(3), TO_HOST) == 0
    assert (back[:, :5] == 7).all()
    assert np.array_equal(back[:, 5:], data[:, 5:])
    attributes = np.zeros(12, np.uint64)
    assert runtime.cudaPointerGetAttributes(pointer(attributes), address) == 0
    assert (int(attributes[0]) & 0xFFFFFFFF, int(attributes[1])) == (2, address.value)
    assert runtime.cudaPointerGetAttributes(pointer(attributes), pointer(back)) == 0
    assert int(attributes[0]) & 0xFFFFFFFF == 0


def test_attributes_and_occupancy_of_a_registered_kernel(runtime: Any, program: Program) -> None:
    attributes, blocks = np.zeros(40, np.int32), ctypes.c_int()
    kernel = program.places[b"scale"]
    assert runtime.cudaFuncGetAttributes(pointer(attributes), kernel) == 0
    assert list(attributes[[6, 8, 9]]) == [1024, 75, 121]
    call = runtime.cudaOccupancyMaxActiveBlocksPerMultiprocessor
    assert call(ctypes.byref(blocks), kernel, 256, size(0)) == 0
    assert blocks.value == 6


def test_a_graph_is_captured_from_launches(runtime: Any, program: Program) -> None:
    target = allocate(runtime, np.ones(4, np.float32))
    stream, graph, ready = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
    assert runtime.cudaStreamBeginCapture(stream, 0) == 0
    call = runtime.cudaLaunchKernel
    call.argtypes = (ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, size, ctypes.c_void_p)
    kernel, one, block = ctypes.addressof(program.places[b"scale"]), Dim3(1, 1, 1), Dim3(32, 1, 1)
    assert call(kernel, one, block, pack(target, target, f32(2), u32(4)), 0, stream.value) == 0
    assert runtime.cudaStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert runtime.cudaGraphInstantiate(ctypes.byref(ready), graph, ctypes.c_uint64(0)) == 0
    for _ in range(3):
        assert runtime.cudaGraphLaunch(ready, stream) == 0
    assert runtime.cudaStreamSynchronize(stream) == 0
    assert list(fetch(runtime, target, np.zeros(4, np.float32))) == [8] * 4
    assert runtime.cudaGraphExecDestroy(ready) == runtime.cudaGraphDestroy(graph) == 0
    assert runtime.cudaStreamDestroy(stream) == 0


# ---- what the driver brings along ----


def companion(kind: str) -> ctypes.CDLL:
    names = {"link": "nvJitLink_120_0.dll", "compile": "nvrtc64_120_0.dll"}
    others = {"link": "cpu-nvjitlink-12.so", "compile": "cpu-nvrtc-12.so"}
    return ctypes.CDLL(str(folder() / (names if WINDOWS else others)[kind]))


def test_nvjitlink_joins_ptx_for_our_driver() -> None:
    linker, handle, bytes_ = companion("link"), ctypes.c_void_p(), size()
    assert not hasattr(linker, "nvJitLinkVersion")
    assert linker.nvJitLinkCreate(ctypes.byref(handle), 0, None) == 0
    assert linker.nvJitLinkAddData(handle, 3, b"intermediate code", size(17), b"") == 8
    log = ctypes.create_string_buffer(200)
    assert linker.nvJitLinkGetErrorLog(handle, log) == 0
    assert log.value == b"only PTX can be linked on the CPU reference"
    for text in (CALLER, CALLEE):
        assert linker.__nvJitLinkAddData_12_4(handle, 2, text, size(len(text)), b"part") == 0
    assert linker.nvJitLinkComplete(handle) == 0
    assert linker.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(bytes_)) == 0
    image = ctypes.create_string_buffer(bytes_.value)
    assert linker.nvJitLinkGetLinkedCubin(handle, image) == 0
    assert linker.nvJitLinkDestroy(ctypes.byref(handle)) == 0
    driver, context, target = library("nvcuda"), ctypes.c_void_p(), ctypes.c_uint64()
    assert driver.cuInit(0) == driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(target), size(4)) == 0
    assert launch(driver, function(driver, load(driver, image.raw), b"main"), pack(target), block=1) == 0
    back = np.zeros(1, np.uint32)
    assert driver.cuMemcpyDtoH_v2(pointer(back), target, size(4)) == 0
    assert back == [42]
    assert driver.cuCtxDestroy_v2(context) == 0


LOADED = """
import ctypes, json, os, sys
ctypes.CDLL(sys.argv[1])
found = {}
for name in ("libnvJitLink.so.12", "libnvJitLink.so.13", "libnvrtc.so.12", "libnvrtc.so.13"):
    try:
        found[name] = bool(ctypes.CDLL(name, mode=os.RTLD_NOLOAD))
    except OSError:
        found[name] = False
print(json.dumps(found))
"""


@pytest.mark.posix_only
def test_who_looks_for_nvjitlink_or_nvrtc_after_the_driver_finds_ours() -> None:
    line = [sys.executable, "-c", LOADED, str(folder() / "libcuda.so.1")]
    done = subprocess.run(line, env=environment(), capture_output=True, check=True, timeout=60)
    assert set(json.loads(done.stdout).values()) == {True}


@pytest.mark.posix_only
def test_nvrtc_says_what_is_missing() -> None:
    code = (
        "import ctypes, sys; n = ctypes.CDLL(sys.argv[1]); n.nvrtcGetErrorString.restype = ctypes.c_char_p;"
        "print(n.nvrtcVersion(None, None), n.nvrtcGetErrorString(11).decode())"
    )
    env = {
        key: value for key, value in os.environ.items() if key not in {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"}
    }
    line = [sys.executable, "-I", "-S", "-c", code, str(folder() / "cpu-nvrtc-12.so")]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=True, timeout=60)
    if "11 " not in done.stdout:
        pytest.skip("a toolkit with NVRTC is installed here")
    assert done.stdout.strip() == "11 NVRTC was not found: install its package, or set CUDA_HOME"
