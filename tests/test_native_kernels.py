"""Kernels through the driver of the CPU reference: images, launches, attributes, linking, faults."""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from tests import fatbins
from tests.native_cpu import library, pointer
from tests.native_kernels import CALLEE, CALLER, PTX, WHICH, WILD, function, launch, load, pack

INVALID, NO_BINARY, INVALID_IMAGE, INVALID_PTX, FILE_NOT_FOUND = 1, 209, 200, 218, 301
INVALID_HANDLE, NOT_FOUND, ILLEGAL_ADDRESS, TOO_MANY_RESOURCES = 400, 500, 700, 701
FAILED, TOO_LARGE, NOT_SUPPORTED, INVALID_CLUSTER = 719, 720, 801, 912
u32, u64, f32 = ctypes.c_uint, ctypes.c_uint64, ctypes.c_float


@pytest.fixture
def cuda() -> Iterator[Any]:
    """The driver with a context of its own, which takes everything along when it ends."""
    driver, context = library("nvcuda"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    yield driver
    assert driver.cuCtxDestroy_v2(context) == 0


def allocate(cuda: Any, data: np.ndarray) -> ctypes.c_uint64:
    address = u64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(data.nbytes)) == 0
    assert cuda.cuMemcpyHtoD_v2(address, pointer(data), ctypes.c_size_t(data.nbytes)) == 0
    return address


def fetch(cuda: Any, address: Any, like: np.ndarray) -> np.ndarray:
    back = np.zeros_like(like)
    assert cuda.cuMemcpyDtoH_v2(pointer(back), address, ctypes.c_size_t(back.nbytes)) == 0
    return back


def attribute(cuda: Any, kernel: Any, number: int) -> int:
    value = ctypes.c_int(-7)
    assert cuda.cuFuncGetAttribute(ctypes.byref(value), number, kernel) == 0
    return value.value


def test_a_kernel_of_a_module_computes(cuda: Any) -> None:
    data = np.arange(1000, dtype=np.float32)
    module = load(cuda, PTX)
    source, target = allocate(cuda, data), allocate(cuda, np.zeros_like(data))
    arguments = pack(target, source, f32(2.5), u32(1000))
    assert launch(cuda, function(cuda, module, b"scale"), arguments, grid=8, block=128) == 0
    assert np.array_equal(fetch(cuda, target, data), data * np.float32(2.5))
    assert cuda.cuModuleUnload(module) == 0
    assert cuda.cuModuleUnload(module) == INVALID_HANDLE


def test_arguments_may_come_packed(cuda: Any) -> None:
    data = np.arange(32, dtype=np.float32)
    kernel = function(cuda, load(cuda, PTX), b"scale")
    source, target = allocate(cuda, data), allocate(cuda, np.zeros_like(data))
    buffer = np.zeros(24, np.uint8)
    buffer.view(np.uint64)[:2] = (target.value, source.value)
    buffer[16:].view(np.float32)[0] = 3
    buffer[16:].view(np.uint32)[1] = 32
    size = ctypes.c_size_t(24)
    extra = (ctypes.c_void_p * 5)(1, buffer.ctypes.data, 2, ctypes.addressof(size), None)
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, extra) == 0
    assert np.array_equal(fetch(cuda, target, data), data * 3)
    size.value = 20
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, extra) == INVALID
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None) == INVALID


def prepare(cuda: Any, kernel: Any, target: Any, source: Any, count: int) -> None:
    """Set block and arguments of ``scale`` as programs did before CUDA 4, the last two by values."""
    addresses = np.array([target.value, source.value], np.uint64)
    assert cuda.cuFuncSetBlockShape(kernel, 32, 2, 1) == 0
    assert cuda.cuFuncSetSharedSize(kernel, 64) == 0
    assert cuda.cuParamSetv(kernel, 0, pointer(addresses), 16) == 0
    assert cuda.cuParamSetf(kernel, 16, f32(3)) == 0
    assert cuda.cuParamSeti(kernel, 20, count) == 0
    assert cuda.cuParamSetSize(kernel, 24) == 0


def test_a_launch_takes_what_was_set_on_the_kernel_before(cuda: Any) -> None:
    data = np.arange(128, dtype=np.float32)
    kernel = function(cuda, load(cuda, PTX), b"scale")
    source, target = allocate(cuda, data), allocate(cuda, data)
    stream = ctypes.c_void_p()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 0) == 0
    prepare(cuda, kernel, target, source, 100)
    right = data * np.where(np.arange(128) < 100, np.float32(3), np.float32(1))
    by_ntid = 32  # the kernel counts threads along x only
    assert cuda.cuLaunch(kernel) == 0
    assert np.array_equal(fetch(cuda, target, data)[:by_ntid], right[:by_ntid])
    assert np.array_equal(fetch(cuda, target, data)[by_ntid:], data[by_ntid:])
    assert cuda.cuLaunchGrid(kernel, 2, 1) == 0
    assert np.array_equal(fetch(cuda, target, data)[:64], right[:64])
    assert np.array_equal(fetch(cuda, target, data)[64:], data[64:])
    assert cuda.cuLaunchGridAsync(kernel, 4, 3, stream) == 0
    assert cuda.cuStreamSynchronize(stream) == 0
    assert np.array_equal(fetch(cuda, target, data), right)


def test_a_block_of_one_thread_is_what_nothing_was_set_for(cuda: Any) -> None:
    data = np.ones(32, dtype=np.float32)
    kernel = function(cuda, load(cuda, PTX), b"scale")
    target = allocate(cuda, data)
    addresses = np.array([target.value, target.value], np.uint64)
    assert cuda.cuParamSetv(kernel, 0, pointer(addresses), 16) == 0
    assert cuda.cuParamSetf(kernel, 16, f32(3)) == 0
    assert cuda.cuParamSeti(kernel, 20, 32) == 0
    assert cuda.cuLaunch(kernel) == 0
    assert fetch(cuda, target, data).tolist() == [3.0] + [1.0] * 31


def test_what_is_set_before_a_launch_has_limits(cuda: Any) -> None:
    data = np.zeros(32, np.float32)
    kernel = function(cuda, load(cuda, PTX), b"scale")
    address = allocate(cuda, data)
    assert cuda.cuFuncSetSharedSize(kernel, 1 << 20) == INVALID
    prepare(cuda, kernel, address, address, 32)
    for shape in ((0, 1, 1), (-1, 1, 1), (1024, 2, 1), (1, 1, 65)):
        assert cuda.cuFuncSetBlockShape(kernel, *shape) == INVALID
    assert cuda.cuParamSeti(kernel, -4, 1) == INVALID
    assert cuda.cuParamSeti(kernel, 32764 - 3, 1) == INVALID
    assert cuda.cuParamSetv(kernel, 0, pointer(np.zeros(9)), 2**32 - 4) == INVALID
    assert cuda.cuParamSetv(kernel, 0, None, 4) == INVALID
    assert cuda.cuParamSetSize(kernel, 32765) == INVALID
    assert cuda.cuLaunchGrid(kernel, 0, 1) == INVALID
    assert cuda.cuLaunchGrid(kernel, 1, 1) == 0  # what was refused changed nothing
    assert cuda.cuParamSetSize(kernel, 20) == 0
    assert cuda.cuLaunch(kernel) == 0  # the last argument stays what it was
    assert cuda.cuParamSetSize(kernel, 28) == 0
    assert cuda.cuLaunch(kernel) == TOO_MANY_RESOURCES
    assert cuda.cuLaunch(None) == INVALID_HANDLE
    assert cuda.cuFuncSetSharedSize(ctypes.c_void_p(64), 0) == INVALID_HANDLE


def test_variables_are_device_memory_with_their_first_value(cuda: Any) -> None:
    module, address, size = load(cuda, PTX), u64(), ctypes.c_size_t()
    assert cuda.cuModuleGetGlobal_v2(ctypes.byref(address), ctypes.byref(size), module, b"counter") == 0
    assert size.value == 4
    assert fetch(cuda, address, np.zeros(1, np.uint32)) == [5]
    assert cuda.cuModuleGetGlobal_v2(ctypes.byref(address), ctypes.byref(size), module, b"level") == 0
    assert cuda.cuMemcpyHtoD_v2(address, pointer(np.array([7], np.float32)), ctypes.c_size_t(4)) == 0
    target = allocate(cuda, np.zeros(4, np.float32))
    assert launch(cuda, function(cuda, module, b"fill"), pack(target, u32(4))) == 0
    assert list(fetch(cuda, target, np.zeros(4, np.float32))) == [7] * 4
    assert cuda.cuModuleGetGlobal_v2(ctypes.byref(address), None, module, b"nothing") == NOT_FOUND


def test_a_module_lists_its_kernels(cuda: Any) -> None:
    module, count, name = load(cuda, PTX), u32(), ctypes.c_char_p()
    assert cuda.cuModuleGetFunctionCount(ctypes.byref(count), module) == 0
    kernels = (ctypes.c_void_p * count.value)()
    assert cuda.cuModuleEnumerateFunctions(kernels, count, module) == 0
    names = set()
    for kernel in kernels:
        assert cuda.cuFuncGetName(ctypes.byref(name), ctypes.c_void_p(kernel)) == 0
        names.add(name.value)
    assert names == {b"scale", b"fill"}
    other = ctypes.c_void_p()
    assert cuda.cuModuleGetFunction(ctypes.byref(other), module, b"none") == NOT_FOUND


# ---- images ----


def which(cuda: Any, image: bytes) -> tuple[int, int]:
    """Return what the kernel stores and which PTX the driver says it is from."""
    kernel = function(cuda, load(cuda, image), b"which")
    target = allocate(cuda, np.zeros(1, np.uint32))
    assert launch(cuda, kernel, pack(target), block=1) == 0
    return int(fetch(cuda, target, np.zeros(1, np.uint32))[0]), attribute(cuda, kernel, 5)


def text(sm: int, letter: str = "", number: int = 0) -> bytes:
    return WHICH.format(target=f"sm_{sm}{letter}", number=number or sm).encode()


@pytest.mark.parametrize("way", ["", "lz4", "zstd"])
def test_ptx_is_taken_out_of_a_fat_binary(cuda: Any, way: str) -> None:
    entry = fatbins.entry(fatbins.PTX, 75, text(75) + b"//" + b"x" * 5000 + b"\n", way=way)
    assert which(cuda, fatbins.container(entry)) == (75, 75)


@pytest.mark.parametrize(
    ("images", "taken"),
    [
        ([(75, ""), (90, ""), (80, "")], 90),
        ([(90, ""), (121, ""), (130, "")], 121),
        ([(90, "a"), (80, "")], 80),
        ([(120, "a"), (120, "f"), (75, "")], 120),
        ([(121, "a"), (75, "")], 121),
        ([(100, "f"), (86, "")], 86),
    ],
)
def test_the_best_image_that_this_device_can_use_is_taken(
    cuda: Any, images: list[tuple[int, str]], taken: int
) -> None:
    entries = [fatbins.entry(fatbins.PTX, sm, text(sm, letter)) for sm, letter in images]
    assert (
        which(cuda, fatbins.container(fatbins.entry(fatbins.SASS, 121, fatbins.cubin(121)), *entries))[0]
        == taken
    )


def test_a_wrapper_leads_to_its_container(cuda: Any) -> None:
    container = fatbins.container(fatbins.entry(fatbins.PTX, 75, text(75)))
    held = ctypes.create_string_buffer(container, len(container))
    wrapper = np.zeros(3, np.uint64)
    wrapper[0] = 0x1_466243B1
    wrapper[1] = ctypes.addressof(held)
    module = ctypes.c_void_p()
    assert cuda.cuModuleLoadFatBinary(ctypes.byref(module), pointer(wrapper)) == 0
    assert function(cuda, module, b"which").value


@pytest.mark.parametrize(
    "image",
    [
        fatbins.cubin(90),
        fatbins.cubin(75, ptx=text(75)),
        fatbins.cubin(123, ptx=text(123)),
        fatbins.container(),
        fatbins.container(fatbins.entry(fatbins.SASS, 90, fatbins.cubin(90))),
        fatbins.container(fatbins.entry(fatbins.PTX, 130, text(130))),
        bytes.fromhex("ed434e7f014302830302170018000100") + bytes(64),
    ],
    ids=["cubin", "another-cubin", "newer-cubin", "empty", "machine-code", "too-new", "lto"],
)
def test_an_image_without_usable_ptx_loads_and_fails_for_each_kernel(cuda: Any, image: bytes) -> None:
    module, kernel = load(cuda, image), ctypes.c_void_p()
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"which") == NO_BINARY
    loaded = ctypes.c_void_p()
    assert cuda.cuLibraryLoadData(ctypes.byref(loaded), image, None, None, 0, None, None, 0) == 0
    assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), loaded, b"which") == NO_BINARY
    assert cuda.cuLibraryUnload(loaded) == 0


@pytest.mark.parametrize("sm", [121, 120])
def test_machine_code_with_line_information_runs_by_the_ptx_in_it(cuda: Any, sm: int) -> None:
    image = fatbins.cubin(sm, ptx=b"\n\n" + text(sm))
    assert which(cuda, image)[0] == sm
    link, out, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    assert cuda.cuLinkCreate_v2(0, None, None, ctypes.byref(link)) == 0
    assert cuda.cuLinkAddData_v2(link, 0, image, ctypes.c_size_t(len(image)), None, 0, None, None) == 0
    assert cuda.cuLinkComplete(link, ctypes.byref(out), ctypes.byref(size)) == 0
    assert which(cuda, ctypes.string_at(out, size.value))[0] == sm
    assert cuda.cuLinkDestroy(link) == 0


def test_machine_code_is_for_its_own_number_whatever_its_ptx_is_for(cuda: Any) -> None:
    assert which(cuda, fatbins.cubin(121, ptx=text(75)))[0] == 75
    module, kernel = load(cuda, fatbins.cubin(90, ptx=text(75))), ctypes.c_void_p()
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"which") == NO_BINARY
    newer = bytearray(fatbins.cubin(0, ptx=text(75)))
    newer[8], newer[49] = 8, 121  # as CUDA 13 writes it
    assert which(cuda, bytes(newer))[0] == 75


def test_the_text_of_code_that_was_linked_is_found_when_it_is_one(cuda: Any) -> None:
    assert which(cuda, fatbins.cubin(121, ptx=text(121), suffixes=(".2081436885",)))[0] == 121
    for suffixes in ((".1", ".2"), ("s",)):
        module, kernel = load(cuda, fatbins.cubin(121, ptx=text(121), suffixes=suffixes)), ctypes.c_void_p()
        assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"which") == NO_BINARY


GUARDED = 1 << 16


@functools.cache
def guard() -> tuple[Any, int]:
    """Return memory with a page behind it that nothing may read, and where that page begins."""
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32")
        kernel.VirtualAlloc.restype = ctypes.c_void_p
        kernel.VirtualAlloc.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_uint32)
        start = kernel.VirtualAlloc(None, 2 * GUARDED, 0x2000, 1)
        assert kernel.VirtualAlloc(start, GUARDED, 0x1000, 4)
        return None, start + GUARDED
    memory = mmap.mmap(-1, 2 * GUARDED)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(start + GUARDED), ctypes.c_size_t(GUARDED), 0) == 0
    return memory, start + GUARDED


def ending_at_a_guard(data: bytes) -> ctypes.c_void_p:
    """Put data right before memory that cannot be read."""
    _memory, end = guard()
    ctypes.memmove(end - len(data), data, len(data))
    return ctypes.c_void_p(end - len(data))


def test_machine_code_that_claims_too_much_has_no_ptx(cuda: Any) -> None:
    """Every number of its headers is damaged in turn, and it ends at every byte, before a guard page."""
    image = fatbins.cubin(121, ptx=text(121))
    link = ctypes.c_void_p()
    assert cuda.cuLinkCreate_v2(0, None, None, ctypes.byref(link)) == 0
    rows = len(image) - 4 * 64
    for at in (*range(18, 64, 2), *range(rows, len(image), 4)):
        for junk in (b"\xff\xff", b"\xff\xff\xff\x7f"):
            damaged = image[:at] + junk + image[at + len(junk) :]
            exact = (ctypes.c_char * len(image)).from_buffer_copy(damaged[: len(image)])
            status = cuda.cuLinkAddData_v2(link, 0, exact, ctypes.c_size_t(len(image)), None, 0, None, None)
            assert status in {0, NO_BINARY}, (at, junk)
    for size in range(64, len(image)):
        short, length = ending_at_a_guard(image[:size]), ctypes.c_size_t(size)
        assert cuda.cuLinkAddData_v2(link, 0, short, length, None, 0, None, None) == NO_BINARY, size
    assert cuda.cuLinkDestroy(link) == 0


@pytest.mark.parametrize("way", ["lz4", "zstd"])
def test_a_damaged_image_is_refused(cuda: Any, way: str) -> None:
    entry = bytearray(fatbins.container(fatbins.entry(fatbins.PTX, 75, text(75) * 40, way=way)))
    entry[16 + 64 + 12 :] = b"\xff" * (len(entry) - 16 - 64 - 12)
    module = ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), bytes(entry)) == INVALID_IMAGE
    assert (
        cuda.cuModuleLoadData(ctypes.byref(module), b"\x01\x02\x03garbage that is no image") == INVALID_IMAGE
    )
    assert cuda.cuModuleLoad(ctypes.byref(module), b"/there/is/no/such.ptx") == FILE_NOT_FOUND


def test_a_library_and_its_kernels_serve_every_context(cuda: Any, tmp_path: Any) -> None:
    file = tmp_path / "kernels.ptx"
    file.write_bytes(PTX)
    loaded, kernel, module = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    path = str(file).encode()
    assert cuda.cuLibraryLoadFromFile(ctypes.byref(loaded), path, None, None, 0, None, None, 0) == 0
    assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), loaded, b"fill") == 0
    assert cuda.cuLibraryGetModule(ctypes.byref(module), loaded) == 0
    target = allocate(cuda, np.zeros(4, np.float32))
    as_function = ctypes.c_void_p()
    assert cuda.cuKernelGetFunction(ctypes.byref(as_function), kernel) == 0
    for handle in (kernel, as_function, function(cuda, module, b"fill")):
        assert cuda.cuMemsetD32_v2(target, 0, ctypes.c_size_t(4)) == 0
        assert launch(cuda, handle, pack(target, u32(4))) == 0
        assert list(fetch(cuda, target, np.zeros(4, np.float32))) == [3] * 4
    assert cuda.cuLibraryUnload(loaded) == 0
    assert launch(cuda, kernel, pack(target, u32(4))) == INVALID_HANDLE


# ---- what a kernel is ----


def test_attributes_and_parameters_are_told(cuda: Any) -> None:
    kernel = function(cuda, load(cuda, PTX), b"scale")
    assert [attribute(cuda, kernel, n) for n in (0, 1, 5, 6, 8)] == [1024, 0, 75, 121, 49152]
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    found: list[tuple[int, int]] = []
    while (
        cuda.cuFuncGetParamInfo(kernel, ctypes.c_size_t(len(found)), ctypes.byref(offset), ctypes.byref(size))
        == 0
    ):
        found.append((offset.value, size.value))
    assert found == [(0, 8), (8, 8), (16, 4), (20, 4)]
    value = ctypes.c_int()
    assert cuda.cuFuncGetAttribute(ctypes.byref(value), 99, kernel) == INVALID
    assert cuda.cuFuncSetAttribute(kernel, 8, 101376) == 0
    assert attribute(cuda, kernel, 8) == 101376
    assert cuda.cuFuncSetAttribute(kernel, 8, 101377) == INVALID


def test_occupancy_follows_the_device(cuda: Any) -> None:
    kernel, blocks, grid, block = function(cuda, load(cuda, PTX), b"scale"), u32(), u32(), u32()
    call = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor
    expected = {32: 24, 256: 6, 1024: 1}
    for threads, most in expected.items():
        assert call(ctypes.byref(blocks), kernel, threads, ctypes.c_size_t(0)) == 0
        assert blocks.value == most
    assert call(ctypes.byref(blocks), kernel, 256, ctypes.c_size_t(40000)) == 0
    assert blocks.value == 2
    assert (
        cuda.cuOccupancyMaxPotentialBlockSize(
            ctypes.byref(grid), ctypes.byref(block), kernel, None, ctypes.c_size_t(0), 0
        )
        == 0
    )
    assert block.value in (256, 512, 768)
    assert grid.value % (1536 // block.value) == 0


@pytest.mark.parametrize(
    ("grid", "block", "shared", "status"),
    [
        ((0, 1, 1), (1, 1, 1), 0, INVALID),
        ((1, 65536, 1), (1, 1, 1), 0, INVALID),
        ((1, 1, 1), (1025, 1, 1), 0, INVALID),
        ((1, 1, 1), (64, 32, 1), 0, INVALID),
        ((1, 1, 1), (1, 1, 65), 0, INVALID),
        ((1, 1, 1), (32, 1, 1), 49153, INVALID),
        ((1, 1, 1), (32, 1, 1), 49152, 0),
    ],
)
def test_a_launch_that_no_device_could_do_is_refused(
    cuda: Any, grid: tuple[int, ...], block: tuple[int, ...], shared: int, status: int
) -> None:
    kernel = function(cuda, load(cuda, PTX), b"fill")
    target = allocate(cuda, np.zeros(4, np.float32))
    assert cuda.cuLaunchKernel(kernel, *grid, *block, shared, None, pack(target, u32(4)), None) == status


class Attribute(ctypes.Structure):
    _fields_: ClassVar[Any] = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16))


class Config(ctypes.Structure):
    _fields_: ClassVar[Any] = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


@pytest.mark.parametrize(
    ("attribute", "value", "grid", "status"),
    [
        (2, (1,), 1, 0),
        (2, (1,), 100_000, TOO_LARGE),
        (4, (1, 1, 1), 1, 0),
        (4, (2, 1, 1), 2, INVALID_CLUSTER),
        (6, (1,), 1, 0),
        (8, (3,), 1, 0),
        (7, (0,), 1, NOT_SUPPORTED),
        (99, (0,), 1, INVALID),
    ],
)
def test_launch_attributes_are_taken_or_refused(
    cuda: Any, attribute: int, value: tuple[int, ...], grid: int, status: int
) -> None:
    kernel = function(cuda, load(cuda, PTX), b"fill")
    target = allocate(cuda, np.zeros(4, np.float32))
    wish = Attribute(id=attribute)
    wish.value[: len(value)] = value
    config = Config(grid=(grid, 1, 1), block=(32, 1, 1), attributes=ctypes.pointer(wish), count=1)
    assert cuda.cuLaunchKernelEx(ctypes.byref(config), kernel, pack(target, u32(4)), None) == status
    if status == 0:
        assert list(fetch(cuda, target, np.zeros(4, np.float32))) == [3] * 4


# ---- linking ----


def test_linked_texts_make_one_image(cuda: Any) -> None:
    link, image, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    assert cuda.cuLinkCreate_v2(0, None, None, ctypes.byref(link)) == 0
    for part in (CALLER, fatbins.container(fatbins.entry(fatbins.PTX, 75, CALLEE, way="zstd"))):
        kind = 1 if part is CALLER else 2
        add = cuda.cuLinkAddData_v2
        assert add(link, kind, part, ctypes.c_size_t(len(part)), b"part", 0, None, None) == 0
    assert cuda.cuLinkComplete(link, ctypes.byref(image), ctypes.byref(size)) == 0
    kept = ctypes.string_at(image.value or 0, size.value)
    assert cuda.cuLinkDestroy(link) == 0
    kernel = function(cuda, load(cuda, kept), b"main")
    target = allocate(cuda, np.zeros(1, np.uint32))
    assert launch(cuda, kernel, pack(target), block=1) == 0
    assert fetch(cuda, target, np.zeros(1, np.uint32)) == [42]


def test_the_linker_says_why_it_failed(cuda: Any) -> None:
    link, image, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    log = ctypes.create_string_buffer(500)
    options = (ctypes.c_int * 2)(5, 6)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), 500)
    assert cuda.cuLinkCreate_v2(2, options, values, ctypes.byref(link)) == 0
    machine = fatbins.cubin(90)
    assert (
        cuda.cuLinkAddData_v2(link, 0, machine, ctypes.c_size_t(len(machine)), b"", 0, None, None)
        == NO_BINARY
    )
    assert log.value == b"an input holds no PTX that this device can use"
    assert cuda.cuLinkAddData_v2(link, 5, machine, ctypes.c_size_t(9), b"", 0, None, None) == NOT_SUPPORTED
    assert cuda.cuLinkComplete(link, ctypes.byref(image), ctypes.byref(size)) == INVALID
    broken = b".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry k( { ret; }\n"
    assert cuda.cuLinkAddData_v2(link, 1, broken, ctypes.c_size_t(len(broken)), b"", 0, None, None) == 0
    assert cuda.cuLinkComplete(link, ctypes.byref(image), ctypes.byref(size)) == INVALID_PTX
    assert log.value
    assert cuda.cuLinkDestroy(link) == 0
    assert cuda.cuLinkDestroy(link) == INVALID_HANDLE


# ---- faults ----


@pytest.mark.parametrize(("kernel", "status"), [(b"wild", ILLEGAL_ADDRESS), (b"stop", FAILED)])
def test_a_fault_ends_the_context_and_only_it(cuda: Any, kernel: bytes, status: int) -> None:
    faulty = function(cuda, load(cuda, WILD), kernel)
    address, context = u64(), ctypes.c_void_p()
    host = np.zeros(4, np.uint8)
    arguments = pack(u64(host.ctypes.data)) if kernel == b"wild" else pack()
    assert launch(cuda, faulty, arguments, block=1) == 0
    assert cuda.cuCtxSynchronize() == status
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4)) == status
    assert launch(cuda, faulty, arguments, block=1) == status
    assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4)) == 0
    assert cuda.cuCtxDestroy_v2(context) == 0
    assert cuda.cuCtxSynchronize() == status


def test_one_element_too_many_is_seen(cuda: Any) -> None:
    data = np.zeros(10, np.float32)
    kernel, target = function(cuda, load(cuda, PTX), b"fill"), allocate(cuda, data)
    assert launch(cuda, kernel, pack(target, u32(10))) == 0
    assert cuda.cuCtxSynchronize() == 0
    assert launch(cuda, kernel, pack(target, u32(11))) == 0
    assert cuda.cuCtxSynchronize() == ILLEGAL_ADDRESS
