"""Probes of memory: copies, fills, pinned memory, pools, what is free."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import numpy as np
from kit import HANDLE, INVALID_VALUE, SIZE, U64, Cuda, ProbeSession

HOST, DEVICE = 1, 2


class Copy2D(ctypes.Structure):
    """``CUDA_MEMCPY2D``."""

    _fields_: ClassVar[Any] = (
        ("src_x", ctypes.c_size_t), ("src_y", ctypes.c_size_t), ("src_type", ctypes.c_uint),
        ("src_host", ctypes.c_void_p), ("src_device", ctypes.c_uint64), ("src_array", ctypes.c_void_p),
        ("src_pitch", ctypes.c_size_t),
        ("dst_x", ctypes.c_size_t), ("dst_y", ctypes.c_size_t), ("dst_type", ctypes.c_uint),
        ("dst_host", ctypes.c_void_p), ("dst_device", ctypes.c_uint64), ("dst_array", ctypes.c_void_p),
        ("dst_pitch", ctypes.c_size_t),
        ("width", ctypes.c_size_t), ("height", ctypes.c_size_t),
    )  # fmt: skip


def drawn(s: ProbeSession, size: int) -> Any:
    """Random bytes."""
    return s.rng.integers(0, 256, size, dtype=np.uint8)


def copies(s: ProbeSession) -> None:
    """Bytes come back as they were, at odd sizes and offsets, and nothing beside them changes."""
    cuda = s.cuda
    for size in (1, 3, 255, 4096, 65537, 3 * (1 << 20) + 5):
        data = drawn(s, size)
        first, second = cuda.given(data), cuda.buffer(size)
        cuda.call("cuMemcpyDtoD_v2", second.at, first.at, SIZE(size))
        s.equal("%d bytes through the device" % size, second.get(np.uint8), data)
        first.free()
    part = cuda.given(drawn(s, 1000))
    before = part.get(np.uint8).copy()
    cuda.call("cuMemcpyDtoD_v2", part.past(701), part.past(13), SIZE(99))
    before[701:800] = before[13:112]
    s.equal("a part copied inside a buffer", part.get(np.uint8), before)
    stream = cuda.stream()
    data, back = drawn(s, 1 << 20), np.zeros(1 << 20, np.uint8)
    buffer = cuda.buffer(data.nbytes)
    cuda.call("cuMemcpyHtoDAsync_v2", buffer.at, HANDLE(data.ctypes.data), SIZE(data.nbytes), stream)
    cuda.call("cuMemcpyDtoHAsync_v2", HANDLE(back.ctypes.data), buffer.at, SIZE(data.nbytes), stream)
    cuda.call("cuStreamSynchronize", stream)
    s.equal("there and back in one stream", back, data)
    cuda.call("cuMemcpy", buffer.at, buffer.at, SIZE(0))
    s.equal("a copy of no bytes changes none", buffer.get(np.uint8), data)


def copies_2d(s: ProbeSession) -> None:
    """A rectangle is copied between rows of different length, and the gaps keep their values."""
    cuda = s.cuda
    pitch = SIZE()
    pointer = U64()
    cuda.call("cuMemAllocPitch_v2", ctypes.byref(pointer), ctypes.byref(pitch), SIZE(333), SIZE(20), 4)
    s.need("a pitch that holds the row", pitch.value >= 333, pitch.value)
    cuda.call("cuMemFree_v2", pointer)
    source, target = drawn(s, 20 * 512).reshape(20, 512), drawn(s, 40 * 700).reshape(40, 700)
    device = cuda.given(target)
    values = {"src_x": 7, "src_y": 2, "src_type": HOST, "src_host": source.ctypes.data, "src_pitch": 512}
    there = {"dst_x": 31, "dst_y": 5, "dst_type": DEVICE, "dst_device": device.at.value, "dst_pitch": 700}
    cuda.call("cuMemcpy2D_v2", ctypes.byref(Copy2D(width=333, height=11, **values, **there)))
    want = target.copy()
    want[5:16, 31:364] = source[2:13, 7:340]
    s.equal("host to device", device.get(np.uint8, 40, 700), want)
    back = np.zeros((11, 333), np.uint8)
    values = {"src_x": 31, "src_y": 5, "src_type": DEVICE, "src_device": device.at.value, "src_pitch": 700}
    there = {"dst_type": HOST, "dst_host": back.ctypes.data, "dst_pitch": 333}
    cuda.call("cuMemcpy2D_v2", ctypes.byref(Copy2D(width=333, height=11, **values, **there)))
    s.equal("device to host", back, source[2:13, 7:340])
    wrong = Copy2D(width=333, height=11, **{**values, "src_pitch": 100}, **there)
    s.refuses("rows wider than their pitch", cuda.code("cuMemcpy2D_v2", ctypes.byref(wrong)), INVALID_VALUE)


def fills(s: ProbeSession) -> None:
    """Bytes, half words and words are set, also on another stream, and nothing beside them."""
    cuda, stream = s.cuda, s.cuda.stream()
    cases = (
        ("D8", np.uint8, ctypes.c_ubyte),
        ("D16", np.uint16, ctypes.c_ushort),
        ("D32", np.uint32, ctypes.c_uint),
    )
    for name, kind, c_type in cases:
        value = int(s.rng.integers(1, np.iinfo(kind).max))
        for count in (1, 257, 100003):
            buffer = cuda.empty(kind, count + 2)
            want = buffer.get(kind).copy()
            want[1 : 1 + count] = value
            inside = buffer.past(np.dtype(kind).itemsize)
            cuda.call("cuMemset%s_v2" % name, inside, c_type(value), SIZE(count))
            s.equal("%d of %s" % (count, name), buffer.get(kind), want)
            want[1 : 1 + count] = value ^ 1
            cuda.call("cuMemset%sAsync" % name, inside, c_type(value ^ 1), SIZE(count), stream)
            cuda.call("cuStreamSynchronize", stream)
            s.equal("%d of %s in a stream" % (count, name), buffer.get(kind), want)
    grid = cuda.empty(np.uint32, 30, 64)
    want = grid.get(np.uint32, 30, 64).copy()
    want[:17, :40] = 0xDECAF
    cuda.call("cuMemsetD2D32_v2", grid.at, SIZE(256), 0xDECAF, SIZE(40), SIZE(17))
    s.equal("a rectangle", grid.get(np.uint32, 30, 64), want)


def clears(s: ProbeSession) -> None:
    """A buffer that is cleared in a stream is cleared before the copy behind it in that stream, every time."""
    cuda, stream = s.cuda, s.cuda.stream()
    data = s.rng.integers(1, 1 << 32, 1 << 18, dtype=np.uint32)
    buffer, back = cuda.given(data), np.empty_like(data)
    for turn in range(20):
        cuda.call("cuMemcpyHtoDAsync_v2", buffer.at, HANDLE(data.ctypes.data), SIZE(data.nbytes), stream)
        cuda.call("cuMemsetD8Async", buffer.past(4096), ctypes.c_ubyte(0), SIZE(data.nbytes - 8192), stream)
        cuda.call("cuMemcpyDtoHAsync_v2", HANDLE(back.ctypes.data), buffer.at, SIZE(data.nbytes), stream)
        cuda.call("cuStreamSynchronize", stream)
        want = data.copy()
        want[1024:-1024] = 0
        if not s.equal("turn %d" % (turn + 1), back, want):
            return


def pinned(s: ProbeSession) -> None:
    """Pinned memory is the host's and the device's, and what is not pinned has no device address."""
    cuda, size = s.cuda, 1 << 20
    host = HANDLE()
    cuda.call("cuMemHostAlloc", ctypes.byref(host), SIZE(size), 2)
    view = np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(host.value))
    view[:] = data = drawn(s, size)
    buffer, stream = cuda.buffer(size), cuda.stream()
    cuda.call("cuMemcpyHtoDAsync_v2", buffer.at, host, SIZE(size), stream)
    cuda.call("cuStreamSynchronize", stream)
    s.equal("from pinned memory", buffer.get(np.uint8), data)
    view[:] = 0
    cuda.call("cuMemcpyDtoHAsync_v2", host, buffer.at, SIZE(size), stream)
    cuda.call("cuStreamSynchronize", stream)
    s.equal("to pinned memory", view, data)
    address = cuda.ask("cuMemHostGetDevicePointer_v2", host, 0, kind=U64)
    there = cuda.buffer(size)
    cuda.call("cuMemcpyDtoD_v2", there.at, U64(address), SIZE(size))
    s.equal("by its device address", there.get(np.uint8), data)
    kind = ctypes.c_uint()
    cuda.call("cuPointerGetAttribute", ctypes.byref(kind), 2, U64(host.value))
    s.equal("it is the host's", kind.value, HOST)
    cuda.call("cuMemFreeHost", host)
    pointer = HANDLE()
    cuda.call("cuMemAllocHost_v2", ctypes.byref(pointer), SIZE(4096))
    cuda.call("cuMemFreeHost", pointer)
    s.refuses("freeing it twice", cuda.code("cuMemFreeHost", pointer))


def registered(s: ProbeSession) -> None:
    """Memory of the program's own is pinned and unpinned again."""
    cuda, size = s.cuda, 1 << 16
    data = drawn(s, size + 4096)
    start = data.ctypes.data + (-data.ctypes.data) % 4096
    cuda.call("cuMemHostRegister_v2", HANDLE(start), SIZE(size), 2)
    address = cuda.ask("cuMemHostGetDevicePointer_v2", HANDLE(start), 0, kind=U64)
    buffer = cuda.buffer(size)
    cuda.call("cuMemcpyDtoD_v2", buffer.at, U64(address), SIZE(size))
    offset = start - data.ctypes.data
    s.equal("read by its device address", buffer.get(np.uint8), data[offset : offset + size])
    s.refuses("registering it twice", cuda.code("cuMemHostRegister_v2", HANDLE(start), SIZE(size), 0), 712)
    cuda.call("cuMemHostUnregister", HANDLE(start))
    s.refuses("unregistering it twice", cuda.code("cuMemHostUnregister", HANDLE(start)))


def pools(s: ProbeSession) -> None:
    """Memory taken and given back in a stream's order holds what is written between."""
    cuda, stream = s.cuda, s.cuda.stream()
    data = drawn(s, 1 << 20)
    back = np.zeros_like(data)
    for turn in range(8):
        pointer = U64()
        cuda.call("cuMemAllocAsync", ctypes.byref(pointer), SIZE(data.nbytes), stream)
        data[:8] = turn
        cuda.call("cuMemcpyHtoDAsync_v2", pointer, HANDLE(data.ctypes.data), SIZE(data.nbytes), stream)
        cuda.call("cuMemcpyDtoHAsync_v2", HANDLE(back.ctypes.data), pointer, SIZE(data.nbytes), stream)
        cuda.call("cuMemFreeAsync", pointer, stream)
        cuda.call("cuStreamSynchronize", stream)
        if not s.equal("turn %d" % (turn + 1), back, data):
            return
    pool = HANDLE()
    cuda.call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), cuda.number)
    s.need("the device has a pool", pool.value, pool.value)
    threshold = U64(1 << 24)
    cuda.call("cuMemPoolSetAttribute", pool, 4, ctypes.byref(threshold))
    read = U64()
    cuda.call("cuMemPoolGetAttribute", pool, 4, ctypes.byref(read))
    s.equal("its threshold is kept", read.value, threshold.value)
    cuda.call("cuMemPoolTrimTo", pool, SIZE(0))


def free_memory(cuda: Cuda) -> Any:
    """Return free and total memory."""
    free, total = SIZE(), SIZE()
    cuda.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def accounting(s: ProbeSession) -> None:
    """What is free shrinks and grows; an address knows its allocation."""
    cuda, size = s.cuda, 64 << 20
    free, total = free_memory(cuda)
    s.need("free is no more than all", 0 < free <= total, (free, total))
    pointer = U64()
    cuda.call("cuMemAlloc_v2", ctypes.byref(pointer), SIZE(size))
    fewer = free_memory(cuda)[0]
    s.need("64 MiB taken are at least 32 MiB less", free - fewer >= size // 2, (free, fewer))
    base, length = U64(), SIZE()
    inside = U64(pointer.value + 12345)
    cuda.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(length), inside)
    s.equal("an address inside leads to all of it", (base.value, length.value), (pointer.value, size))
    kind = ctypes.c_uint()
    cuda.call("cuPointerGetAttribute", ctypes.byref(kind), 2, pointer)
    s.equal("it is the device's", kind.value, DEVICE)
    s.need("it is aligned to 256 bytes", pointer.value % 256 == 0, hex(pointer.value))
    cuda.call("cuMemFree_v2", pointer)
    s.refuses("freeing it twice", cuda.code("cuMemFree_v2", pointer), INVALID_VALUE)


PROBES = {
    "memory-copy": copies,
    "memory-copy-2d": copies_2d,
    "memory-set": fills,
    "memory-clear-in-stream": clears,
    "memory-pinned": pinned,
    "memory-registered": registered,
    "memory-pool": pools,
    "memory-accounting": accounting,
}
