"""Probes of failure: what a kernel does wrong is reported, and what comes after a refusal works."""

from __future__ import annotations

import ctypes

import numpy as np
from assembly import entry
from images import refused
from kernels import number
from kit import SIZE, U64, ProbeSession

FILL = "mad.wide.u32 %d0, %i, 4, %out; st.global.u32 [%d0], %n;"
STICKY = (700, 715, 716, 717, 718, 719)


def wild_write(s: ProbeSession) -> None:
    """A kernel that writes to address 16 is reported when the host waits, and no call after it succeeds silently."""
    cuda = s.cuda
    kernel = cuda.kernel(entry("run", "u64 out, u32 n", FILL), "run")
    good = cuda.empty(np.uint32, 64)
    cuda.launch(kernel, 1, 64, good, number(64))
    s.equal("a right launch first", good.get(np.uint32), np.full(64, 64))
    cuda.lost = True  # the guards cannot be read any more
    cuda.launch_code(kernel, 1, 32, U64(16), number(32))
    s.refuses("waiting says so", cuda.code("cuCtxSynchronize"), *STICKY)
    s.refuses("memory is not given out", cuda.code("cuMemAlloc_v2", ctypes.byref(U64()), SIZE(256)), *STICKY)
    s.refuses("kernels are not launched", cuda.launch_code(kernel, 1, 1, good, number(1)), *STICKY)


def trap(s: ProbeSession) -> None:
    """A kernel that traps is reported."""
    cuda = s.cuda
    body = "setp.eq.u32 %p1, %i, 3; @%p1 trap; " + FILL
    kernel = cuda.kernel(entry("run", "u64 out, u32 n", body), "run")
    out = cuda.empty(np.uint32, 64)
    cuda.lost = True
    cuda.launch_code(kernel, 1, 64, out, number(64))
    s.refuses("waiting says so", cuda.code("cuCtxSynchronize"), *STICKY)


def recovery(s: ProbeSession) -> None:
    """After launches, loads and allocations that were refused, memory and kernels are as before."""
    cuda, count = s.cuda, 5000
    data = s.floats(count)
    kept = cuda.given(data)
    kernel = cuda.kernel(entry("run", "u64 out, u32 n", FILL), "run")
    for turn in range(20):
        out = cuda.empty(np.uint32, count)
        s.refuses("a block too large", cuda.launch_code(kernel, 1, 5000, out, number(count)))
        s.refuses("too much memory", cuda.code("cuMemAlloc_v2", ctypes.byref(U64()), SIZE(1 << 55)), 2)
        s.need(
            "no PTX",
            refused(s, b".version 7.0\n.target sm_75\n.address_size 64\nnothing\n\0"),
            "it was accepted",
        )
        cuda.launch(kernel, (count + 127) // 128, 128, out, number(count))
        if not s.equal("turn %d" % turn, out.get(np.uint32), np.full(count, count)):
            return
        out.free()
    s.equal("what was there before", kept.get(np.float32), data)


PROBES = {
    "fault-wild-write": wild_write,
    "fault-trap": trap,
    "fault-recovery": recovery,
}
