"""Probes of launches: attributes, limits, shared memory, cooperation, order of dependent kernels."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar, List, Optional, Tuple

import numpy as np
from assembly import entry
from kernels import number
from kernels_types import needs
from kit import HANDLE, INVALID_VALUE, NOT_SUPPORTED, SIZE, Cuda, ProbeSession, packed, ptx, three

COOPERATIVE, SERIALIZATION = 2, 6
TOO_MANY, TOO_LARGE = 701, 720
SHARED_OPTIN, COOPERATIVE_LAUNCH, SM_COUNT, MAX_THREADS = 97, 95, 16, 1

FILL = "mad.wide.u32 %d0, %i, 4, %out; st.global.u32 [%d0], %value;"


class Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: a number, padding to 8, a value of 64 bytes."""

    _fields_: ClassVar[Any] = (
        ("id", ctypes.c_uint),
        ("pad", ctypes.c_uint),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_byte * 60),
    )


class Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_: ClassVar[Any] = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


def launch_ex(
    cuda: Cuda,
    function: HANDLE,
    grid: Any,
    block: Any,
    arguments: List[Any],
    *,
    attributes: Tuple[Tuple[int, int], ...] = (),
    stream: Optional[HANDLE] = None,
) -> int:
    """Launch with attributes; returns the code."""
    array, _keep = packed(arguments)
    given = (Attribute * max(len(attributes), 1))(*(Attribute(id=i, value=v) for i, v in attributes))
    config = Config(
        (ctypes.c_uint * 3)(*three(grid)), (ctypes.c_uint * 3)(*three(block)), 0,
        stream, given if attributes else None, len(attributes),
    )  # fmt: skip
    return cuda.code("cuLaunchKernelEx", ctypes.byref(config), function, array, None)


def attributes(s: ProbeSession) -> None:
    """Launches with attributes do what a plain one does; one that is not supported is refused, not ignored."""
    cuda, count = s.cuda, 500
    kernel = cuda.kernel(entry("run", "u64 out, u32 value, u32 n", FILL), "run")
    s.equal("the size of an attribute", ctypes.sizeof(Attribute), 72)
    s.equal("the size of a configuration", ctypes.sizeof(Config), 56)
    cooperative = cuda.attribute(COOPERATIVE_LAUNCH)
    for value, (case, given) in enumerate((
        ("no attributes", ()), ("not cooperative", ((COOPERATIVE, 0),)), ("cooperative", ((COOPERATIVE, 1),)),
        ("not serialised by the program", ((SERIALIZATION, 0),)),
    )):  # fmt: skip
        out = cuda.empty(np.uint32, count)
        code = launch_ex(cuda, kernel, 2, 256, [out, number(value), number(count)], attributes=given)
        if case == "cooperative" and not cooperative:
            s.refuses(case + " where the device cannot", code)
            continue
        if s.equal(case, code, 0):
            s.equal(case + ": what it wrote", out.get(np.uint32), np.full(count, value))


def bad_launches(s: ProbeSession) -> None:
    """Grids and blocks that cannot be are refused, nothing is written, and the next launch works."""
    cuda, count = s.cuda, 1000
    kernel = cuda.kernel(entry("run", "u64 out, u32 value, u32 n", FILL), "run")
    out = cuda.given(np.zeros(count, np.uint32))
    given = [out, number(5), number(count)]
    cases = (
        ("no blocks", 0, 32, 0), ("no threads", 1, 0, 0), ("4096 threads", 1, 4096, 0), ("a block 65 deep", 1, (1, 1, 65), 0),
        ("a grid 70000 high", (1, 70000), 1, 0), ("a gigabyte of shared memory", 1, 1, 1 << 30),
    )  # fmt: skip
    for case, grid, block, shared in cases:
        code = cuda.launch_code(kernel, grid, block, *given, shared=shared)
        s.refuses(case, code, INVALID_VALUE, TOO_MANY)
    cuda.call("cuCtxSynchronize")
    s.equal("nothing was written", out.get(np.uint32), np.zeros(count))
    small = cuda.kernel(
        entry("run", "u64 out, u32 value, u32 n", FILL, directives=".maxntid 64, 1, 1"), "run"
    )
    s.refuses(
        "more threads than the kernel allows", cuda.launch_code(small, 1, 65, *given), INVALID_VALUE, TOO_MANY
    )
    cuda.launch(small, 16, 64, *given)
    s.equal("the next launch works", out.get(np.uint32), np.full(count, 5))


FORCED = """
    .shared .align 4 .b32 part[300]; mov.u32 %r0, part; shl.b32 %r1, %t, 2; add.u32 %r0, %r0, %r1;
    st.shared.u32 [%r0], %t; mad.wide.u32 %d0, %i, 4, %out; ld.shared.u32 %r2, [%r0]; st.global.u32 [%d0], %r2;
"""


def function_attributes(s: ProbeSession) -> None:
    """A kernel's attributes are those that its code states."""
    cuda = s.cuda
    text = entry("run", "u64 out, u32 n", FORCED, directives=".maxntid 192, 1, 1")
    kernel = cuda.kernel(text, "run")
    names = {
        0: "threads",
        1: "static shared memory",
        2: "constants",
        3: "local",
        4: "registers",
        5: "ptx",
        6: "binary",
    }
    found = {n: cuda.ask("cuFuncGetAttribute", n, kernel) for n in names}
    s.equal("static shared memory", found[1], 1200)
    s.equal("most threads a block", found[0], 192)
    s.need("registers", 1 <= found[4] <= 255, found)
    s.need("no negative sizes", min(found.values()) >= 0, found)
    s.equal("the PTX it was made from", found[5], 75)
    value = ctypes.c_int()
    s.refuses(
        "an attribute that does not exist", cuda.code("cuFuncGetAttribute", ctypes.byref(value), 999, kernel)
    )


DYNAMIC = """
    shl.b32 %r1, %t, 2; mov.u32 %r0, heap; add.u32 %r0, %r0, %r1; mul.lo.u32 %r2, %t, 3;
again:
    setp.ge.u32 %p1, %r1, %n; @%p1 bra ready; st.shared.u32 [%r0], %r1; add.u32 %r0, %r0, 512; add.u32 %r1, %r1, 512; bra.uni again;
ready:
    bar.sync 0; setp.ne.u32 %p2, %t, 0; @%p2 ret; mov.u32 %r3, 0; mov.u32 %r5, heap; mov.u32 %r6, 0;
sum:
    ld.shared.u32 %r4, [%r5]; add.u32 %r3, %r3, %r4; add.u32 %r5, %r5, 4; add.u32 %r6, %r6, 4;
    setp.lt.u32 %p3, %r6, %n; @%p3 bra sum; st.global.u32 [%out], %r3;
"""


def shared_limits(s: ProbeSession) -> None:
    """As much shared memory as the device states, after it was asked for; a byte more is refused."""
    cuda = s.cuda
    text = ".extern .shared .align 16 .b8 heap[];\n" + entry("run", "u64 out, u32 n", DYNAMIC, guard=False)
    kernel = cuda.kernel(text, "run")
    most = max(cuda.attribute(SHARED_OPTIN), 49152)
    out = cuda.empty(np.uint32, 1)
    for size in (48 * 1024, most):
        if size > 49152:
            s.refuses(
                "%d bytes before they are allowed" % size,
                cuda.launch_code(kernel, 1, 128, out, number(size), shared=size),
            )
            cuda.call("cuFuncSetAttribute", kernel, 8, size)
            s.equal("the limit is kept", cuda.ask("cuFuncGetAttribute", 8, kernel), size)
        cuda.launch(kernel, 1, 128, out, number(size), shared=size)
        s.equal("%d bytes" % size, out.get(np.uint32)[0], sum(range(0, size, 4)) & 0xFFFFFFFF)
    s.refuses("more than there is", cuda.code("cuFuncSetAttribute", kernel, 8, most + 4096), INVALID_VALUE)


def metadata(s: ProbeSession) -> None:
    """A kernel knows its name, its module and where its parameters lie."""
    cuda = s.cuda
    module = cuda.module(
        entry("run", "u64 out, u32 value, u32 n", FILL) + entry("other", "u64 out, u32 n", "")
    )
    kernel = cuda.function(module, "run")
    back, name = HANDLE(), ctypes.c_char_p()
    cuda.call("cuFuncGetModule", ctypes.byref(back), kernel)
    s.equal("its module", back.value, module.value)
    cuda.call("cuFuncGetName", ctypes.byref(name), kernel)
    s.equal("its name", name.value, b"run")
    for index, right in enumerate(((0, 8), (8, 4), (12, 4))):
        offset, size = SIZE(), SIZE()
        cuda.call("cuFuncGetParamInfo", kernel, SIZE(index), ctypes.byref(offset), ctypes.byref(size))
        s.equal("parameter %d" % index, (offset.value, size.value), right)
    code = cuda.code("cuFuncGetParamInfo", kernel, SIZE(3), ctypes.byref(SIZE()), None)
    s.refuses("a fourth parameter", code, INVALID_VALUE)
    s.equal("two kernels", cuda.ask("cuModuleGetFunctionCount", module, kind=ctypes.c_uint), 2)
    code = cuda.code("cuModuleGetFunction", ctypes.byref(HANDLE()), module, b"nothing")
    s.refuses("a kernel that does not exist", code, 500)


def occupancy(s: ProbeSession) -> None:
    """How many blocks fit: at least one, fewer with more shared memory, none beyond the limits."""
    cuda = s.cuda
    kernel = cuda.kernel(entry("run", "u64 out, u32 value, u32 n", FILL), "run")
    name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    plain = cuda.ask(name, kernel, 128, SIZE(0))
    heavy = cuda.ask(name, kernel, 128, SIZE(40000))
    s.need("one or more", 1 <= heavy <= plain <= 64, (plain, heavy))
    least, block = ctypes.c_int(), ctypes.c_int()
    cuda.call(
        "cuOccupancyMaxPotentialBlockSize", ctypes.byref(least), ctypes.byref(block), kernel, None, SIZE(0), 0
    )
    s.need("a block that can be launched", 1 <= block.value <= cuda.attribute(MAX_THREADS), block.value)
    s.need("a grid that fills the device", least.value >= cuda.attribute(SM_COUNT), least.value)


GRID_SYNC = """
    setp.ne.u32 %p1, %t, 0; mov.u32 %r9, 0;
round:
    mad.wide.u32 %d0, %block, 4, %out; @%p1 bra wait;
    ld.volatile.global.u32 %r1, [%d0]; add.u32 %r2, %block, 1; setp.eq.u32 %p2, %r2, %n; selp.u32 %r2, 0, %r2, %p2;
    membar.gl; atom.global.add.u32 %r4, [%flag], 1; mad.lo.u32 %r5, %r9, 2, 1; mul.lo.u32 %r5, %r5, %n;
arrive:
    ld.volatile.global.u32 %r6, [%flag]; setp.lt.u32 %p3, %r6, %r5; @%p3 bra arrive;
    membar.gl; mad.wide.u32 %d1, %r2, 4, %out; ld.volatile.global.u32 %r3, [%d1]; add.u32 %r1, %r1, %r3;
    membar.gl; atom.global.add.u32 %r4, [%flag], 1; add.u32 %r5, %r5, %n;
leave:
    ld.volatile.global.u32 %r6, [%flag]; setp.lt.u32 %p3, %r6, %r5; @%p3 bra leave;
    st.volatile.global.u32 [%d0], %r1; membar.gl;
wait:
    bar.sync 0; add.u32 %r9, %r9, 1; setp.lt.u32 %p4, %r9, 5; @%p4 bra round;
"""


def grid_barrier(s: ProbeSession) -> None:
    """Blocks of a cooperative launch run at once: they wait for each other and add their neighbour's value."""
    cuda, blocks = s.cuda, max(2, min(s.cuda.attribute(SM_COUNT), 16))
    s.need("the device can", cuda.attribute(COOPERATIVE_LAUNCH) == 1, "it says that it cannot")
    body = GRID_SYNC.replace("st.volatile.global.u32 [%d0], %r1; membar.gl;", """
        st.volatile.global.u32 [%d0], %r1; membar.gl; atom.global.add.u32 %r4, [%flag2], 1; add.u32 %r7, %r9, 1; mul.lo.u32 %r7, %r7, %n;
        last:
        ld.volatile.global.u32 %r6, [%flag2]; setp.lt.u32 %p3, %r6, %r7; @%p3 bra last;
    """)  # fmt: skip
    kernel = cuda.kernel(entry("run", "u64 out, u64 flag, u64 flag2, u32 n", body, guard=False), "run")
    start = s.rng.integers(0, 1000, blocks, dtype=np.uint32)
    out, flags = cuda.given(start), cuda.given(np.zeros(2, np.uint32))
    array, keep = packed([out, flags, flags.past(4), number(blocks)])
    cuda.call("cuLaunchCooperativeKernel", kernel, blocks, 1, 1, 32, 1, 1, 0, None, array)
    want = start.astype(np.int64)
    for _ in range(5):
        want = want + np.roll(want, -1)
    s.equal("five rounds of %d blocks" % blocks, out.get(np.uint32), want)
    del keep
    too_many = cuda.code("cuLaunchCooperativeKernel", kernel, 1 << 20, 1, 1, 32, 1, 1, 0, None, array)
    s.refuses("more blocks than fit at once", too_many, TOO_LARGE)


PRODUCER = """
    mov.u32 %r1, 0; mov.u32 %r2, %value;
spin:
    mad.lo.u32 %r2, %r2, 1664525, 1013904223; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3000; @%p1 bra spin;
    mad.wide.u32 %d0, %i, 4, %out; st.global.u32 [%d0], %r2; griddepcontrol.launch_dependents;
"""
CONSUMER = """
    griddepcontrol.wait; sub.u32 %r1, %n, 1; sub.u32 %r1, %r1, %i; mad.wide.u32 %d0, %r1, 4, %a;
    ld.global.u32 %r2, [%d0]; mad.wide.u32 %d1, %i, 4, %out; st.global.u32 [%d1], %r2;
"""


def dependent_launch(s: ProbeSession) -> None:
    """A kernel that may start early sees all that the kernel before it wrote, or the launch is refused."""
    needs(s, 90)
    cuda, count = s.cuda, 4096
    text = entry("produce", "u64 out, u32 value, u32 n", PRODUCER) + entry(
        "consume", "u64 a, u64 out, u32 n", CONSUMER
    )
    module = cuda.module(ptx(text, version="7.8", target="sm_90").decode()[:-1])
    produce, consume = cuda.function(module, "produce"), cuda.function(module, "consume")
    stream, middle, out = cuda.stream(), cuda.empty(np.uint32, count), cuda.empty(np.uint32, count)
    for turn in range(20):
        cuda.launch(produce, 16, 256, middle, number(turn), number(count), stream=stream)
        given = [middle, out, number(count)]
        code = launch_ex(cuda, consume, 16, 256, given, attributes=((SERIALIZATION, 1),), stream=stream)
        if code == NOT_SUPPORTED:
            cuda.call("cuStreamSynchronize", stream)
            s.say("early start", "refused", "the launch returned 801, which is safe")
            return
        s.equal("launch %d" % turn, code, 0)
        cuda.call("cuStreamSynchronize", stream)
        value = turn
        for _ in range(3000):
            value = (value * 1664525 + 1013904223) & 0xFFFFFFFF
        if not s.equal("turn %d" % turn, out.get(np.uint32), np.full(count, value)):
            return


PROBES = {
    "launch-attributes": attributes,
    "launch-refusals": bad_launches,
    "launch-function-attributes": function_attributes,
    "launch-shared-memory-limits": shared_limits,
    "launch-function-metadata": metadata,
    "launch-occupancy": occupancy,
    "launch-grid-barrier": grid_barrier,
    "launch-dependent-kernels": dependent_launch,
}
