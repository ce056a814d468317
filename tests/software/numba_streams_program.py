"""Numba: streams, events, pinned, mapped and managed memory, host threads, slices, checked against NumPy."""

import threading
import warnings

import numpy as np
from numba import cuda

warnings.simplefilter("ignore")
random = np.random.default_rng(14)
N = 1 << 16
BLOCKS = N // 256


@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= factor


def overlap() -> None:
    streams = [cuda.stream() for _ in range(4)]
    pinned = cuda.pinned_array((4, N), np.float64)
    pinned[:] = random.random((4, N))
    before, marks, kept = pinned.copy(), [], []
    for k, stream in enumerate(streams):
        begin, end = cuda.event(), cuda.event()
        begin.record(stream)
        there = cuda.to_device(pinned[k], stream=stream)
        scale[BLOCKS, 256, stream](there, k + 2.0)
        there.copy_to_host(pinned[k], stream=stream)
        end.record(stream)
        marks.append((begin, end))
        kept.append(there)
    for begin, end in marks:
        end.synchronize()
        assert end.query()
        assert cuda.event_elapsed_time(begin, end) >= 0
    assert np.array_equal(pinned, before * np.arange(2.0, 6.0)[:, None])


def order() -> None:
    first, second, there, done = cuda.stream(), cuda.stream(), cuda.to_device(np.ones(N)), cuda.event(timing=False)
    for _ in range(5):
        scale[BLOCKS, 256, first](there, 2.0)
    done.record(first)
    done.wait(second)
    scale[BLOCKS, 256, second](there, 3.0)
    second.synchronize()
    assert (there.copy_to_host() == 96).all()


def shared() -> None:
    for make in (cuda.mapped_array, cuda.managed_array):
        memory = make(1000, np.float32)
        memory[:] = 2
        scale[4, 256](memory, 7)
        cuda.synchronize()
        assert (memory == 14).all()
    host, stream = np.ones(5000), cuda.stream()
    with cuda.pinned(host):
        there = cuda.to_device(host, stream=stream)
        scale[20, 256, stream](there, 5)
        there.copy_to_host(host, stream=stream)
        stream.synchronize()
    assert (host == 5).all()


def threads() -> None:
    right = []

    def work(k: int) -> None:
        own, stream = np.random.default_rng(k), cuda.stream()
        for _ in range(10):
            x = own.random(3000)
            there = cuda.to_device(x, stream=stream)
            scale[12, 256, stream](there, k + 1.5)
            stream.synchronize()
            right.append(np.array_equal(there.copy_to_host(), x * (k + 1.5)))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(right) == 60
    assert all(right)


def slices() -> None:
    z = random.random((50, 70))
    there = cuda.to_device(z)
    assert np.array_equal(there[7].copy_to_host(), z[7])
    assert np.array_equal(there[10:20].copy_to_host(), z[10:20])
    there[3] = np.arange(70.0)
    there[4:6, 10] = 5
    z[3] = np.arange(70)
    z[4:6, 10] = 5
    assert np.array_equal(there.copy_to_host(), z)
    assert np.array_equal(there.reshape(70, 50).copy_to_host(), z.reshape(70, 50))
    assert np.array_equal(there.T.copy_to_host(), z.T)


for part in (overlap, order, shared, threads, slices):
    part()
print("right")
