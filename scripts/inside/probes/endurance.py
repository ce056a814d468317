"""Probes that last: memory to its limit and back, and kernels for minutes with a checksum."""

from __future__ import annotations

import ctypes
import time
from typing import List

import numpy as np
from assembly import entry
from kernels import number
from kit import SIZE, U64, ProbeSession
from memory import free_memory

PAGE = 4096


def pressure(s: ProbeSession) -> None:
    """Memory is taken until it is refused; every piece keeps its own bytes; all of it comes back."""
    cuda = s.cuda
    free, _total = free_memory(cuda)
    piece = max(1 << 24, min(1 << 30, free // 24)) // PAGE * PAGE
    held: List[int] = []
    try:
        while len(held) * piece <= 4 * free:
            pointer = U64()
            code = cuda.code("cuMemAlloc_v2", ctypes.byref(pointer), SIZE(piece))
            if code:
                s.equal("the refusal says why", code, 2)
                break
            held.append(pointer.value)
            mark(s, pointer.value, piece, len(held))
        s.need(
            "half of what was free could be taken", len(held) * piece >= free // 2, (len(held), piece, free)
        )
        s.need(
            "it ended by a refusal", len(held) * piece <= 4 * free, "more than four times as much was given"
        )
        wrong = [i for i, place in enumerate(held) if not marked(s, place, piece, i + 1)]
        s.need("every piece kept its bytes", not wrong, wrong)
        s.need("no two pieces overlap", apart(held, piece), "they do")
    finally:
        for place in held:
            cuda.call("cuMemFree_v2", U64(place))
    s.need("it came back", free_memory(cuda)[0] >= free * 0.9, (free_memory(cuda)[0], free))
    data = s.floats(1 << 20)
    s.equal("memory works as before", cuda.given(data).get(np.float32), data)


def apart(places: List[int], piece: int) -> bool:
    """Whether the pieces are disjoint."""
    ordered = sorted(places)
    return all(ordered[i + 1] - ordered[i] >= piece for i in range(len(ordered) - 1))


def mark(s: ProbeSession, place: int, piece: int, value: int) -> None:
    """Write a piece's number into its first and last page."""
    for at in (place, place + piece - PAGE):
        s.cuda.call("cuMemsetD32_v2", U64(at), value, SIZE(PAGE // 4))


def marked(s: ProbeSession, place: int, piece: int, value: int) -> bool:
    """Whether the number is still there."""
    found = np.empty(PAGE // 4, np.uint32)
    right = True
    for at in (place, place + piece - PAGE):
        s.cuda.call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), U64(at), SIZE(PAGE))
        right = right and bool((found == value).all())
    return right


#: A linear congruence in each thread; ``turns`` steps from the value that is there.
STEPS = """
    mad.wide.u32 %d0, %i, 4, %out; ld.global.u32 %r1, [%d0]; mov.u32 %r2, 0;
again:
    mad.lo.u32 %r1, %r1, 1664525, 1013904223; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %turns; @%p1 bra again;
    st.global.u32 [%d0], %r1;
"""


def soak(s: ProbeSession) -> None:
    """Kernels run for the time given (ten minutes if nothing else is asked); their numbers are checked throughout."""
    cuda, count, turns = s.cuda, 1 << 14, 200
    kernel = cuda.kernel(entry("run", "u64 out, u32 turns, u32 n", STEPS), "run")
    value = s.rng.integers(0, 1 << 32, count, dtype=np.uint32)
    out, factor, step = cuda.given(value), 1, 0
    for _ in range(turns):
        factor, step = factor * 1664525 & 0xFFFFFFFF, (step * 1664525 + 1013904223) & 0xFFFFFFFF
    end, rounds = time.monotonic() + s.seconds, 0
    while time.monotonic() < end:
        for _ in range(16):
            cuda.launch(kernel, count // 256, 256, out, number(turns), number(count))
            value = (value * np.uint32(factor) + np.uint32(step)).astype(np.uint32)
        rounds += 1
        if rounds % 8 == 0 or time.monotonic() >= end:
            got = out.get(np.uint32)
            if not np.array_equal(got, value):
                s.equal("after %d rounds" % rounds, got, value)
                return
    s.equal("after %d rounds of 16 kernels" % rounds, out.get(np.uint32), value)


PROBES = {"endurance-memory-pressure": pressure, "endurance-soak": soak}
