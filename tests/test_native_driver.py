"""The driver of the CPU reference: contexts, memory, streams, events and names keep CUDA's rules."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.native_cpu import WINDOWS, library, pointer

INVALID, OUT_OF_MEMORY, NOT_INITIALIZED = 1, 2, 3
INVALID_DEVICE, INVALID_CONTEXT, INVALID_HANDLE, DESTROYED = 101, 201, 400, 709
NOT_FOUND, NOT_SUPPORTED = 500, 801


@pytest.fixture
def cuda() -> Iterator[Any]:
    """The driver with the primary context current; nothing of it is left behind."""
    driver = library("nvcuda")
    context = ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    yield driver
    driver.cuCtxSetCurrent(None)
    assert driver.cuDevicePrimaryCtxRelease_v2(0) == 0


def ask(function: Any, *before: Any, kind: Any = ctypes.c_int) -> Any:
    """Call a function that stores its answer in the last argument given here by us."""
    value = kind()
    assert function(ctypes.byref(value), *before) == 0
    return value.value


def allocate(cuda: Any, size: int) -> ctypes.c_uint64:
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return address


def at(address: ctypes.c_uint64, offset: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(address.value + offset)


def size(number: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(number)


@pytest.mark.slow
def test_there_is_one_device_and_it_says_what_it_is(cuda: Any) -> None:
    assert ask(cuda.cuDeviceGetCount) == 1
    assert ask(cuda.cuDeviceGet, 0) == 0
    assert ask(cuda.cuDriverGetVersion) == 13000
    name = ctypes.create_string_buffer(99)
    assert cuda.cuDeviceGetName(name, 99, 0) == 0
    assert name.value == b"CPU reference (simulated, not a GPU)"
    assert cuda.cuDeviceGetName(name, 4, 0) == 0
    assert name.value == b"CPU"
    total = ctypes.c_size_t()
    assert cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0) == 0
    assert total.value > 2**26


@pytest.mark.parametrize(
    ("attribute", "value"),
    [(10, 32), (41, 1), (75, 12), (76, 1), (88, 0), (115, 1), (128, 0), (0, None), (151, None)],
)
def test_attributes_have_values_and_unknown_ones_are_refused(
    cuda: Any, attribute: int, value: int | None
) -> None:
    got = ctypes.c_int(-7)
    status = cuda.cuDeviceGetAttribute(ctypes.byref(got), attribute, 0)
    assert (status, got.value) == ((0, value) if value is not None else (INVALID, -7))


def test_another_device_is_no_device(cuda: Any) -> None:
    number, name = ctypes.c_int(), ctypes.create_string_buffer(9)
    assert cuda.cuDeviceGet(ctypes.byref(number), 1) == INVALID_DEVICE
    assert cuda.cuDeviceGetName(name, 9, 1) == INVALID_DEVICE
    assert cuda.cuDeviceGetAttribute(ctypes.byref(number), 10, -1) == INVALID_DEVICE
    assert cuda.cuInit(1) == INVALID


def test_contexts_stack_up_and_come_off_in_order(cuda: Any) -> None:
    first, second, now = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuCtxCreate_v2(ctypes.byref(first), 0, 0) == 0
    assert cuda.cuCtxCreate_v2(ctypes.byref(second), 4, 0) == 0
    assert cuda.cuCtxGetCurrent(ctypes.byref(now)) == 0
    assert now.value == second.value
    assert ask(cuda.cuCtxGetFlags) == 4
    assert cuda.cuCtxPopCurrent_v2(ctypes.byref(now)) == 0
    assert now.value == second.value
    assert cuda.cuCtxPushCurrent_v2(second) == 0
    assert cuda.cuCtxDestroy_v2(second) == 0
    assert cuda.cuCtxGetCurrent(ctypes.byref(now)) == 0
    assert now.value == first.value
    assert cuda.cuCtxDestroy_v2(second) == DESTROYED
    assert cuda.cuCtxSetCurrent(second) == INVALID_CONTEXT
    assert cuda.cuCtxDestroy_v2(first) == 0


def test_a_context_ends_when_the_last_one_detaches(cuda: Any) -> None:
    made, same, now = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuCtxCreate_v2(ctypes.byref(made), 0, 0) == 0
    assert cuda.cuCtxAttach(ctypes.byref(same), 1) == INVALID
    assert cuda.cuCtxAttach(ctypes.byref(same), 0) == 0
    assert same.value == made.value
    assert cuda.cuCtxDetach(made) == 0
    assert cuda.cuCtxGetCurrent(ctypes.byref(now)) == 0
    assert now.value == made.value
    assert cuda.cuCtxDetach(made) == 0
    assert cuda.cuCtxGetCurrent(ctypes.byref(now)) == 0
    assert now.value != made.value
    assert cuda.cuCtxDetach(made) == INVALID_CONTEXT  # it is not current
    assert cuda.cuCtxSetCurrent(made) == INVALID_CONTEXT
    assert cuda.cuCtxAttach(ctypes.byref(same), 0) == 0  # the primary one: counted with those who retained it
    assert cuda.cuCtxDetach(same) == 0
    assert allocate(cuda, 16).value


def test_another_thread_starts_without_a_context(cuda: Any) -> None:
    seen = []

    def look() -> None:
        address = ctypes.c_uint64()
        seen.append(cuda.cuMemAlloc_v2(ctypes.byref(address), size(16)))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [INVALID_CONTEXT]


def test_a_context_that_ended_under_a_thread_is_reported(cuda: Any) -> None:
    made = ctypes.c_void_p()
    assert cuda.cuCtxCreate_v2(ctypes.byref(made), 0, 0) == 0
    statuses = []

    def end() -> None:
        statuses.append(cuda.cuCtxDestroy_v2(made))

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert statuses == [0]
    assert cuda.cuCtxSynchronize() == DESTROYED
    assert cuda.cuCtxPopCurrent_v2(None) == 0


def test_memory_goes_with_its_context(cuda: Any) -> None:
    made = ctypes.c_void_p()
    assert cuda.cuCtxCreate_v2(ctypes.byref(made), 0, 0) == 0
    address = allocate(cuda, 64)
    assert cuda.cuCtxDestroy_v2(made) == 0
    assert cuda.cuMemFree_v2(address) == INVALID


def test_the_primary_context_lives_while_it_is_retained(cuda: Any) -> None:
    flags, active, again = ctypes.c_uint(), ctypes.c_int(), ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(again), 0) == 0
    assert cuda.cuDevicePrimaryCtxRelease_v2(0) == 0
    assert cuda.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0
    assert active.value == 1
    assert cuda.cuCtxDestroy_v2(again) == INVALID_CONTEXT


def test_copies_arrive_every_way(cuda: Any) -> None:
    data, back = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
    one, two = allocate(cuda, 400), allocate(cuda, 400)
    stream = ctypes.c_void_p()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
    assert cuda.cuMemcpyHtoDAsync_v2(one, pointer(data), size(400), stream) == 0
    assert cuda.cuMemcpyDtoD_v2(two, one, size(400)) == 0
    assert cuda.cuMemcpyDtoH_v2(pointer(back), at(two, 40), size(360)) == 0
    assert list(back[:90]) == list(range(10, 100))
    assert cuda.cuMemcpy(ctypes.c_uint64(back.ctypes.data), one, size(400)) == 0
    assert list(back) == list(data)
    assert cuda.cuStreamDestroy_v2(stream) == 0
    for address in (one, two):
        assert cuda.cuMemFree_v2(address) == 0


def test_overlapping_device_copies_are_right(cuda: Any) -> None:
    data, back = np.arange(200, dtype=np.uint8), np.zeros(200, np.uint8)
    address = allocate(cuda, 200)
    assert cuda.cuMemcpyHtoD_v2(address, pointer(data), size(200)) == 0
    assert cuda.cuMemcpyDtoD_v2(at(address, 7), address, size(150)) == 0
    assert cuda.cuMemcpyDtoH_v2(pointer(back), address, size(200)) == 0
    assert bytes(back) == bytes(data[:7]) + bytes(data[:150]) + bytes(data[157:])
    assert cuda.cuMemFree_v2(address) == 0


@pytest.mark.parametrize(
    ("offset", "length", "status"),
    [
        (0, 64, 0),
        (0, 65, INVALID),
        (60, 4, 0),
        (60, 5, INVALID),
        (64, 1, INVALID),
        (-1, 2, INVALID),
        (64, 0, 0),
    ],
)
def test_no_copy_leaves_its_allocation(cuda: Any, offset: int, length: int, status: int) -> None:
    host = np.zeros(99, np.uint8)
    address = allocate(cuda, 64)
    assert cuda.cuMemcpyHtoD_v2(at(address, offset), pointer(host), size(length)) == status
    assert cuda.cuMemcpyDtoH_v2(pointer(host), at(address, offset), size(length)) == status
    assert cuda.cuMemsetD8_v2(at(address, offset), ctypes.c_ubyte(1), size(length)) == status
    assert cuda.cuMemFree_v2(address) == 0


def test_a_host_address_is_no_device_address(cuda: Any) -> None:
    host = np.zeros(64, np.uint8)
    assert cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(host.ctypes.data), pointer(host), size(8)) == INVALID
    assert cuda.cuMemFree_v2(ctypes.c_uint64(host.ctypes.data)) == INVALID
    assert cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(0), pointer(host), size(8)) == INVALID


def test_memory_is_freed_once_and_counted(cuda: Any) -> None:
    before, after, total = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
    assert cuda.cuMemGetInfo_v2(ctypes.byref(before), ctypes.byref(total)) == 0
    address = allocate(cuda, 4096)
    assert address.value % 256 == 0
    assert cuda.cuMemGetInfo_v2(ctypes.byref(after), ctypes.byref(total)) == 0
    assert before.value - after.value == 4096
    assert cuda.cuMemFree_v2(address) == 0
    assert cuda.cuMemFree_v2(address) == INVALID
    assert cuda.cuMemFree_v2(ctypes.c_uint64(0)) == 0
    huge = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(huge), size(total.value + 1)) == OUT_OF_MEMORY
    assert cuda.cuMemAlloc_v2(ctypes.byref(huge), size(2**63)) == OUT_OF_MEMORY
    assert cuda.cuMemAlloc_v2(ctypes.byref(huge), size(0)) == INVALID


@pytest.mark.parametrize(
    ("name", "kind", "dtype", "value"),
    [
        ("cuMemsetD8_v2", ctypes.c_ubyte, np.uint8, 0xAB),
        ("cuMemsetD16_v2", ctypes.c_ushort, np.uint16, 0xABCD),
        ("cuMemsetD32_v2", ctypes.c_uint, np.uint32, 0xDEADBEEF),
    ],
)
def test_fills_set_whole_elements(cuda: Any, name: str, kind: Any, dtype: Any, value: int) -> None:
    back = np.zeros(16, dtype)
    address = allocate(cuda, back.nbytes)
    assert getattr(cuda, name)(address, kind(0), size(16)) == 0
    assert getattr(cuda, name)(at(address, back.itemsize), kind(value), size(14)) == 0
    assert cuda.cuMemcpyDtoH_v2(pointer(back), address, size(back.nbytes)) == 0
    assert list(back) == [0, *[value] * 14, 0]
    if back.itemsize > 1:
        assert getattr(cuda, name)(at(address, 1), kind(value), size(2)) == INVALID
    assert cuda.cuMemFree_v2(address) == 0


def test_pinned_and_registered_memory_is_known(cuda: Any) -> None:
    memory, device, flags, kind = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint(), ctypes.c_uint()
    assert cuda.cuMemHostAlloc(ctypes.byref(memory), size(64), 2) == 0
    assert cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(device), memory, 0) == 0
    assert device.value == memory.value
    assert cuda.cuMemHostGetFlags(ctypes.byref(flags), memory) == 0
    assert flags.value == 2
    assert cuda.cuPointerGetAttribute(ctypes.byref(kind), 2, device) == 0
    assert kind.value == 1
    assert cuda.cuMemFree_v2(device) == INVALID
    assert cuda.cuMemFreeHost(memory) == 0
    mine = np.zeros(64, np.uint8)
    assert cuda.cuMemHostRegister_v2(pointer(mine), size(64), 0) == 0
    assert cuda.cuMemHostRegister_v2(ctypes.c_void_p(mine.ctypes.data + 8), size(8), 0) == 712
    assert cuda.cuMemHostUnregister(pointer(mine)) == 0
    assert cuda.cuMemHostUnregister(pointer(mine)) == 713


def test_an_address_inside_an_allocation_leads_to_it(cuda: Any) -> None:
    base, length, kind = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_uint()
    several = [allocate(cuda, 512) for _ in range(9)]
    for address in several:
        inside = at(address, 511)
        assert cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), inside) == 0
        assert (base.value, length.value) == (address.value, 512)
        assert cuda.cuPointerGetAttribute(ctypes.byref(kind), 2, inside) == 0
        assert kind.value == 2
    for address in several:
        assert cuda.cuMemFree_v2(address) == 0
    assert cuda.cuMemGetAddressRange_v2(ctypes.byref(base), None, several[0]) == NOT_FOUND


def test_events_measure_and_refuse_what_was_not_recorded(cuda: Any) -> None:
    start, end, untimed = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    for event, flags in ((start, 0), (end, 0), (untimed, 2)):
        assert cuda.cuEventCreate(ctypes.byref(event), flags) == 0
    elapsed = ctypes.c_float(-1)
    assert cuda.cuEventRecord(start, None) == 0
    assert cuda.cuEventElapsedTime(ctypes.byref(elapsed), start, end) == INVALID_HANDLE
    assert cuda.cuEventRecord(end, None) == 0
    assert cuda.cuEventRecord(untimed, None) == 0
    assert cuda.cuStreamSynchronize(None) == 0
    assert cuda.cuEventElapsedTime(ctypes.byref(elapsed), start, end) == 0
    assert elapsed.value >= 0
    assert cuda.cuEventElapsedTime(ctypes.byref(elapsed), start, untimed) == INVALID_HANDLE
    assert cuda.cuStreamWaitEvent(None, end, 0) == 0
    for event in (start, end, untimed):
        assert cuda.cuEventDestroy_v2(event) == 0
        assert cuda.cuEventQuery(event) == INVALID_HANDLE


def test_streams_are_known_by_handle(cuda: Any) -> None:
    stream, flags = ctypes.c_void_p(), ctypes.c_uint()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 2) == INVALID
    assert cuda.cuStreamCreateWithPriority(ctypes.byref(stream), 1, -5) == 0
    assert cuda.cuStreamGetFlags(stream, ctypes.byref(flags)) == 0
    assert flags.value == 1
    assert cuda.cuStreamQuery(stream) == 0
    called: list[int] = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _data: called.append(1))
    assert cuda.cuLaunchHostFunc(stream, callback, None) == 0
    assert cuda.cuStreamSynchronize(stream) == 0
    assert called == [1]
    assert cuda.cuStreamDestroy_v2(stream) == 0
    assert cuda.cuStreamSynchronize(stream) == INVALID_HANDLE
    assert cuda.cuStreamSynchronize(ctypes.c_void_p(2)) == 0


def test_errors_have_names(cuda: Any) -> None:
    text = ctypes.c_char_p()
    for code, name in (
        (0, b"CUDA_SUCCESS"),
        (801, b"CUDA_ERROR_NOT_SUPPORTED"),
        (700, b"CUDA_ERROR_ILLEGAL_ADDRESS"),
    ):
        assert cuda.cuGetErrorName(code, ctypes.byref(text)) == 0
        assert text.value == name
        assert cuda.cuGetErrorString(code, ctypes.byref(text)) == 0
        assert text.value
    assert cuda.cuGetErrorName(12345, ctypes.byref(text)) == INVALID
    assert text.value is None


def resolve(cuda: Any, name: bytes, version: int) -> tuple[int, int | None, int]:
    found, status = ctypes.c_void_p(), ctypes.c_int(-1)
    code = cuda.cuGetProcAddress_v2(
        name, ctypes.byref(found), version, ctypes.c_uint64(0), ctypes.byref(status)
    )
    return code, found.value, status.value


def address_of(cuda: Any, symbol: str) -> int | None:
    return ctypes.cast(getattr(cuda, symbol), ctypes.c_void_p).value


@pytest.mark.parametrize(
    ("name", "version", "symbol"),
    [
        ("cuMemAlloc", 12080, "cuMemAlloc_v2"),
        ("cuInit", 2000, "cuInit"),
        ("cuCtxCreate", 4000, "cuCtxCreate_v2"),
        ("cuCtxCreate", 12040, "cuCtxCreate_v3"),
        ("cuGetProcAddress", 11030, "cuGetProcAddress"),
        ("cuGetProcAddress", 12000, "cuGetProcAddress_v2"),
        ("cuLaunchKernel", 12080, "cuLaunchKernel"),
        ("cuMemcpy2D", 12080, "cuMemcpy2D_v2"),
        ("cuCtxGetDevice", 12080, "cuCtxGetDevice"),
        ("cuCtxGetDevice", 13050, "cuCtxGetDevice_v2"),
        ("cuMemAdvise", 13000, "cuMemAdvise_v2"),
    ],
)
def test_calls_are_found_by_name_and_version(cuda: Any, name: str, version: int, symbol: str) -> None:
    code, found, status = resolve(cuda, name.encode(), version)
    assert (code, status) == (0, 0)
    assert WINDOWS or found == address_of(cuda, symbol)


def test_a_name_without_a_call_is_none_and_says_why(cuda: Any) -> None:
    assert resolve(cuda, b"cuNoSuchThing", 12080) == (0, None, 1)
    assert resolve(cuda, b"cuMemAlloc", 3000) == (0, None, 2)
    assert resolve(cuda, b"cuInit", 99000)[0] == INVALID
    found = ctypes.c_void_p()
    assert (
        cuda.cuGetProcAddress(b"cuNoSuchThing", ctypes.byref(found), 12080, ctypes.c_uint64(0)) == NOT_FOUND
    )


def test_calls_without_code_say_not_supported(cuda: Any) -> None:
    assert cuda.cuTexObjectCreate(None, None, None, None) == NOT_SUPPORTED


def test_the_vendors_private_tables_are_refused(cuda: Any) -> None:
    table = ctypes.c_void_p(7)
    assert cuda.cuGetExportTable(ctypes.byref(table), bytes(16)) == NOT_SUPPORTED
    assert table.value is None
