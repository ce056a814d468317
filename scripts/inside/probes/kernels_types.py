"""Probes of kernels: half and double precision, conversions, control flow, local and constant memory."""

from __future__ import annotations

import ctypes

import numpy as np
from assembly import at, entry, inputs, several
from kernels import number, three_to_many
from kit import SIZE, U64, ProbeSession, Refused, from_bf16, ptx, to_bf16, u

COUNT = 20011
MAJOR, MINOR = 75, 76


def capability(s: ProbeSession) -> int:
    """The device's compute capability, as 75 or 90."""
    return int(s.cuda.attribute(MAJOR) * 10 + s.cuda.attribute(MINOR))


def needs(s: ProbeSession, least: int) -> None:
    """End the probe where the device says that it lacks the instructions.

    Raises:
        Refused: the capability is too low.
    """
    if capability(s) < least:
        msg = "the device reports compute capability %d, the instructions need %d" % (capability(s), least)
        raise Refused(msg)


HALVES = """
    mad.wide.u32 %d0, %i, 2, %a; ld.global.b16 %h1, [%d0]; mad.wide.u32 %d1, %i, 2, %b; ld.global.b16 %h2, [%d1];
    add.rn.f16 %h3, %h1, %h2; mul.rn.f16 %h4, %h1, %h2; fma.rn.f16 %h5, %h1, %h2, %h2;
    cvt.f32.f16 %f1, %h1; mul.f32 %f1, %f1, 0f3EAAAAAB; cvt.rn.f16.f32 %h6, %f1; setp.lt.f16 %p1, %h1, %h2;
    selp.b16 %h7, %h1, %h2, %p1; mov.b32 %r1, {%h1, %h2}; mov.b32 %r2, {%h2, %h1};
    add.rn.f16x2 %r3, %r1, %r2; mov.b32 {%h8, %h9}, %r3;
"""


def half(s: ProbeSession) -> None:
    """FP16: add, multiply, fused multiply-add, pairs, comparing and rounding, each correctly rounded."""
    cuda = s.cuda
    stores = "mov.u32 %r0, %i;\n" + "\n".join(
        "%s st.global.b16 [%%d9], %%h%d; add.u32 %%r0, %%r0, %%n;" % (at("%d9", "%out", 2, "%r0"), 3 + n)
        for n in range(6)
    )
    kernel = cuda.kernel(entry("run", "u64 a, u64 b, u64 out, u32 n", HALVES + stores), "run")
    a, b = s.floats(COUNT, dtype=np.float16), s.floats(COUNT, dtype=np.float16)
    out = cuda.empty(np.float16, 6, COUNT)
    cuda.launch(kernel, (COUNT + 127) // 128, 128, cuda.given(a), cuda.given(b), out, number(COUNT))
    got, wide, other = out.get(np.float16, 6, COUNT), a.astype(np.float64), b.astype(np.float64)
    third = (a.astype(np.float32) * np.float32(1 / 3)).astype(np.float16)
    s.equal("add", got[0], (wide + other).astype(np.float16))
    s.equal("multiply", got[1], (wide * other).astype(np.float16))
    s.equal("fused multiply-add", got[2], (wide * other + other).astype(np.float16))
    s.equal("from float32", got[3], third)
    s.equal("the smaller one", got[4], np.minimum(a, b))
    s.equal("pairs", got[5], (wide + other).astype(np.float16))


BRAINS = """
    mad.wide.u32 %d0, %i, 4, %a; ld.global.f32 %f1, [%d0]; cvt.rn.bf16.f32 %h1, %f1;
    mad.wide.u32 %d1, %i, 2, %out; st.global.b16 [%d1], %h1;
"""


def bfloat16(s: ProbeSession) -> None:
    """BF16: rounding to nearest, ties to even."""
    needs(s, 80)
    cuda = s.cuda
    text = ptx(entry("run", "u64 a, u64 out, u32 n", BRAINS), version="7.8", target="sm_80").decode()
    a = (s.floats(COUNT) * 10).astype(np.float32)
    a[::7] = from_bf16(to_bf16(a[::7])) * np.float32(1 + 2**-8)  # halfway
    out = cuda.empty(np.uint16, COUNT)
    cuda.launch(cuda.kernel(text[:-1], "run"), (COUNT + 127) // 128, 128, cuda.given(a), out, number(COUNT))
    s.equal("from float32", out.get(np.uint16), to_bf16(a))


def double(s: ProbeSession) -> None:
    """FP64: add, multiply, fused multiply-add, divide and root, each correctly rounded."""
    a, b, c = (s.floats(COUNT, dtype=np.float64) for _ in range(3))
    text = several(inputs("f64", 8), """
        add.rn.f64 %g10, %g1, %g2; mul.rn.f64 %g11, %g1, %g2; div.rn.f64 %g12, %g1, %g2; abs.f64 %g5, %g3;
        sqrt.rn.f64 %g13, %g5; fma.rn.f64 %g14, %g1, %g2, %g3; cvt.rn.f32.f64 %f1, %g1; cvt.f64.f32 %g15, %f1;
    """, 6, "f64")  # fmt: skip
    got = three_to_many(s, text, (a, b, c), 6)
    s.equal("add", got[0], a + b)
    s.equal("multiply", got[1], a * b)
    s.equal("divide", got[2], a / b)
    s.equal("root", got[3], np.sqrt(np.abs(c)))
    exact = a.astype(np.longdouble) * b + c
    slack = 2.01 * u(np.float64) * np.abs(exact).astype(np.float64) + (
        2.0**-60 if exact.dtype.itemsize > 8 else 2.0**-52
    )
    s.near("fused multiply-add", got[4], exact.astype(np.float64), slack)
    s.equal("through float32", got[5], a.astype(np.float32).astype(np.float64))


CONVERT = """
    cvt.rni.s32.f32 %r1, %f1; mov.b32 %f10, %r1; cvt.rzi.s32.f32 %r2, %f1; mov.b32 %f11, %r2;
    cvt.rmi.s32.f32 %r3, %f1; mov.b32 %f12, %r3; cvt.rpi.s32.f32 %r4, %f1; mov.b32 %f13, %r4;
    cvt.rni.sat.u8.f32 %r5, %f1; mov.b32 %f14, %r5; cvt.rn.f32.s32 %f15, %r2; cvt.rni.f32.f32 %f16, %f1;
    cvt.sat.f32.f32 %f17, %f1; cvt.rzi.u32.f32 %r6, %f1; mov.b32 %f18, %r6;
"""


def conversions(s: ProbeSession) -> None:
    """Between floats and integers: every rounding, saturating at the ends, NaN to zero."""
    a = (s.floats(COUNT) * 400).astype(np.float32)
    a[:9] = [0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -3e9, 1e20, 254.5]
    text = several(inputs("f32", 4), CONVERT, 9)
    got = three_to_many(s, text, (a, a, a), 9)
    whole = [row.view(np.int32) for row in got]
    low, high = -(2**31), 2**31 - 1
    for row, (name, function) in enumerate(
        (("nearest", np.rint), ("zero", np.trunc), ("down", np.floor), ("up", np.ceil))
    ):
        s.equal(
            "to %s" % name, whole[row], np.clip(function(a.astype(np.float64)), low, high).astype(np.int64)
        )
    s.equal("to a byte, saturated", whole[4] & 255, np.clip(np.rint(a), 0, 255).astype(np.int64))
    s.equal("back", got[5], whole[1].astype(np.float32))
    s.equal("to a whole float", got[6], np.rint(a))
    s.equal("between 0 and 1", got[7], np.clip(a, 0, 1))
    unsigned = np.clip(np.trunc(a.astype(np.float64)), 0, 2.0**32 - 1)
    s.equal("to unsigned", got[8].view(np.uint32), unsigned.astype(np.uint64).astype(np.uint32))


COLLATZ = """
    mad.wide.u32 %d0, %i, 4, %a; ld.global.u32 %r1, [%d0]; mov.u32 %r2, 0;
turn:
    setp.le.u32 %p1, %r1, 1; @%p1 bra done; and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0;
    @%p2 bra even; mad.lo.u32 %r1, %r1, 3, 1; bra.uni next;
even:
    shr.u32 %r1, %r1, 1;
next:
    add.u32 %r2, %r2, 1; setp.gt.u32 %p3, %r2, 500; @%p3 bra done; bra.uni turn;
done:
    mad.wide.u32 %d1, %i, 4, %out; st.global.u32 [%d1], %r2;
"""


def divergence(s: ProbeSession) -> None:
    """Threads of one warp leave a loop at different turns, and take different branches in it."""
    cuda = s.cuda
    data = s.rng.integers(1, 5000, COUNT, dtype=np.uint32)
    out = cuda.empty(np.uint32, COUNT)
    kernel = cuda.kernel(entry("run", "u64 a, u64 out, u32 n", COLLATZ), "run")
    cuda.launch(kernel, (COUNT + 191) // 192, 192, cuda.given(data), out, number(COUNT))
    value, want = data.astype(np.int64), np.zeros(COUNT, np.int64)
    while (value > 1).any():
        want += value > 1
        value = np.where(value <= 1, value, np.where(value & 1, 3 * value + 1, value >> 1))
    s.equal("steps", out.get(np.uint32), want)


SORT = """
    .local .align 4 .b32 stack[16];
    mov.u32 %r1, 0; mov.u64 %d2, stack; mad.lo.u32 %r3, %i, 16, 0; mov.u32 %r9, 16;
load:
    add.u32 %r4, %r3, %r1; mad.wide.u32 %d0, %r4, 4, %a; ld.global.u32 %r5, [%d0]; mov.u32 %r6, %r1;
shift:
    setp.eq.u32 %p1, %r6, 0; @%p1 bra place; mad.wide.u32 %d3, %r6, 4, %d2;
    ld.local.u32 %r8, [%d3+-4]; setp.le.u32 %p2, %r8, %r5; @%p2 bra place;
    st.local.u32 [%d3], %r8; sub.u32 %r6, %r6, 1; bra.uni shift;
place:
    mad.wide.u32 %d3, %r6, 4, %d2; st.local.u32 [%d3], %r5;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, %r9; @%p3 bra load;
    mov.u32 %r1, 0;
store:
    mad.wide.u32 %d3, %r1, 4, %d2; ld.local.u32 %r8, [%d3]; add.u32 %r4, %r3, %r1;
    mad.wide.u32 %d1, %r4, 4, %out; st.global.u32 [%d1], %r8;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, %r9; @%p4 bra store;
"""


def local_arrays(s: ProbeSession) -> None:
    """Every thread sorts sixteen numbers in an array of its own, at places known only then."""
    cuda, count = s.cuda, 1500
    data = s.rng.integers(0, 1 << 32, (count, 16), dtype=np.uint32)
    out = cuda.empty(np.uint32, count, 16)
    kernel = cuda.kernel(entry("run", "u64 a, u64 out, u32 n", SORT), "run")
    cuda.launch(kernel, (count + 63) // 64, 64, cuda.given(data), out, number(count))
    s.equal("sorted", out.get(np.uint32, count, 16), np.sort(data, axis=1))


GLOBALS = """
.visible .const .align 4 .f32 factors[4] = {0f3F800000, 0f40000000, 0f40400000, 0f40800000};
.visible .global .align 4 .u32 counter = 41;
.visible .global .align 4 .b32 table[8] = {10, 20, 30};
"""
GLOBALS_BODY = """
    and.b32 %r1, %i, 3; mov.u64 %d0, factors; mad.wide.u32 %d0, %r1, 4, %d0; ld.const.f32 %f1, [%d0];
    and.b32 %r2, %i, 7; mov.u64 %d1, table; mad.wide.u32 %d1, %r2, 4, %d1; ld.global.u32 %r3, [%d1];
    cvt.rn.f32.u32 %f2, %r3; add.f32 %f1, %f1, %f2; mad.wide.u32 %d2, %i, 4, %out; st.global.f32 [%d2], %f1;
    mov.u64 %d3, counter; atom.global.add.u32 %r4, [%d3], 1;
"""


def globals_(s: ProbeSession) -> None:
    """Constants and variables of a module hold what they start with, and what the host writes."""
    cuda, count = s.cuda, 1000
    module = cuda.module(GLOBALS + entry("run", "u64 out, u32 n", GLOBALS_BODY))
    kernel, out = cuda.function(module, "run"), cuda.empty(np.float32, count)
    cuda.launch(kernel, 8, 128, out, number(count))
    index = np.arange(count)
    table = np.array([10, 20, 30, 0, 0, 0, 0, 0])
    s.equal("as they start", out.get(np.float32), 1 + index % 4 + table[index % 8])
    place, size = U64(), SIZE()
    cuda.call("cuModuleGetGlobal_v2", ctypes.byref(place), ctypes.byref(size), module, b"factors")
    s.equal("its size", size.value, 16)
    new = s.floats(4)
    cuda.call("cuMemcpyHtoD_v2", place, new.tobytes(), SIZE(16))
    cuda.launch(kernel, 8, 128, out, number(count))
    s.equal(
        "as the host wrote them", out.get(np.float32), (new[index % 4] + table[index % 8]).astype(np.float32)
    )
    cuda.call("cuModuleGetGlobal_v2", ctypes.byref(place), ctypes.byref(size), module, b"counter")
    value = ctypes.c_uint32()
    cuda.call("cuMemcpyDtoH_v2", ctypes.byref(value), place, SIZE(4))
    s.equal("the counter", value.value, 41 + 2 * count)
    s.refuses(
        "no such variable",
        cuda.code("cuModuleGetGlobal_v2", ctypes.byref(place), ctypes.byref(size), module, b"no"),
        500,
    )


CALLS = """
.visible .func (.param .u32 result) power(.param .u32 base, .param .u32 exponent)
{
    .reg .pred %p; .reg .u32 %b, %e, %r;
    ld.param.u32 %b, [base]; ld.param.u32 %e, [exponent]; mov.u32 %r, 1; setp.eq.u32 %p, %e, 0; @%p bra done;
    sub.u32 %e, %e, 1;
    {
        .param .u32 inner; .param .u32 one; .param .u32 two;
        st.param.u32 [one], %b; st.param.u32 [two], %e; call.uni (inner), power, (one, two);
        ld.param.u32 %r, [inner];
    }
    mul.lo.u32 %r, %r, %b;
done:
    st.param.u32 [result], %r; ret;
}
"""
CALLS_BODY = """
    and.b32 %r1, %i, 7; or.b32 %r2, %i, 1;
    {
    .param .u32 answer; .param .u32 base; .param .u32 exponent;
    st.param.u32 [base], %r2; st.param.u32 [exponent], %r1; call (answer), power, (base, exponent);
    ld.param.u32 %r3, [answer];
    }
    mad.wide.u32 %d0, %i, 4, %out; st.global.u32 [%d0], %r3;
"""


def calls(s: ProbeSession) -> None:
    """A function of the device calls itself."""
    cuda, count = s.cuda, 3000
    out = cuda.empty(np.uint32, count)
    kernel = cuda.kernel(CALLS + entry("run", "u64 out, u32 n", CALLS_BODY), "run")
    cuda.launch(kernel, (count + 127) // 128, 128, out, number(count))
    want = [pow(i | 1, i & 7, 1 << 32) for i in range(count)]
    s.equal("powers", out.get(np.uint32), np.array(want, np.uint64).astype(np.uint32))


PLACES = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y;
    mov.u32 %r5, %ctaid.z; mov.u32 %r6, %ntid.x; mov.u32 %r7, %ntid.y; mov.u32 %r8, %ntid.z;
    mov.u32 %r9, %nctaid.x; mov.u32 %r10, %nctaid.y;
    mad.lo.u32 %r11, %r5, %r10, %r4; mad.lo.u32 %r11, %r11, %r9, %r3; mad.lo.u32 %r11, %r11, %r8, %r2;
    mad.lo.u32 %r11, %r11, %r7, %r1; mad.lo.u32 %r11, %r11, %r6, %r0;
    mad.lo.u32 %r12, %r5, 1000, %r2; mad.lo.u32 %r13, %r4, 100, %r1; mad.lo.u32 %r14, %r3, 10, %r0;
    mad.wide.u32 %d0, %r11, 16, %out; st.global.v4.u32 [%d0], {%r14, %r13, %r12, %n};
"""


def places(s: ProbeSession) -> None:
    """Threads know where they are in three dimensions; four words are written at once."""
    cuda, grid, block = s.cuda, (3, 5, 4), (6, 4, 2)
    count = int(np.prod(grid) * np.prod(block))
    out = cuda.empty(np.uint32, count, 4)
    kernel = cuda.kernel(entry("run", "u64 out, u32 n", PLACES, guard=False), "run")
    cuda.launch(kernel, grid, block, out, number(77))
    index = np.arange(count)
    want = np.zeros((count, 4), np.int64)
    threads, blocks = index % 48, index // 48
    want[:, 0] = blocks % 3 * 10 + threads % 6
    want[:, 1] = blocks // 3 % 5 * 100 + threads // 6 % 4
    want[:, 2] = blocks // 15 * 1000 + threads // 24
    want[:, 3] = 77
    s.equal("every place once", out.get(np.uint32, count, 4), want)


TENSOR = """
    mad.wide.u32 %d0, %lane, 16, %a; ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d0];
    mad.wide.u32 %d1, %lane, 8, %b; ld.global.v2.b32 {%r5, %r6}, [%d1];
    mov.f32 %f0, 0f00000000;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f0, %f0, %f0, %f0};
    mad.wide.u32 %d2, %lane, 16, %out; st.global.v4.f32 [%d2], {%f1, %f2, %f3, %f4};
"""


def matrix_units(s: ProbeSession) -> None:
    """One product of 16 by 16 and 16 by 8 half-precision numbers by the matrix units."""
    needs(s, 80)
    cuda = s.cuda
    a, b = s.floats(16, 16, dtype=np.float16), s.floats(16, 8, dtype=np.float16)
    lane = np.arange(32)
    group, pair = lane // 4, lane % 4 * 2
    left = np.stack([a[group + 8 * (j // 2 % 2), pair + j % 2 + 8 * (j // 4)] for j in range(8)], 1)
    right = np.stack([b[pair + j % 2 + 8 * (j // 2), group] for j in range(4)], 1)
    out = cuda.empty(np.float32, 32, 4)
    text = ptx(entry("run", "u64 a, u64 b, u64 out, u32 n", TENSOR, guard=False), target="sm_80").decode()
    cuda.launch(cuda.kernel(text[:-1], "run"), 1, 32, cuda.given(left), cuda.given(right), out, number(32))
    wide, size = (
        a.astype(np.float64) @ b.astype(np.float64),
        np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)),
    )
    place = [(group + 8 * (j // 2), pair + j % 2) for j in range(4)]
    want, scale = (np.stack([m[rows, columns] for rows, columns in place], 1) for m in (wide, size))
    s.near("16 by 8", out.get(np.float32, 32, 4), want, 16 * 2 * u(np.float32) * scale)


REDUX = """
    mad.wide.u32 %d0, %i, 4, %a; ld.global.u32 %r1, [%d0]; redux.sync.add.s32 %r10, %r1, 0xffffffff;
    redux.sync.max.u32 %r11, %r1, 0xffffffff; redux.sync.xor.b32 %r12, %r1, 0xffffffff;
    .shared .align 16 .b32 line[128]; mov.u32 %r2, line; shl.b32 %r3, %t, 2; add.u32 %r2, %r2, %r3;
    cp.async.ca.shared.global [%r2], [%d0], 4; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
    xor.b32 %r4, %r3, 508; mov.u32 %r5, line; add.u32 %r5, %r5, %r4; ld.shared.u32 %r13, [%r5];
"""


def ampere(s: ProbeSession) -> None:
    """Reductions of a warp in one instruction, and copies to shared memory that nothing waits for."""
    needs(s, 80)
    cuda, count = s.cuda, 128 * 12
    stores = "mov.u32 %r0, %i;\n" + "\n".join(
        "%s st.global.u32 [%%d9], %%r%d; add.u32 %%r0, %%r0, %%n;" % (at("%d9", "%out", 4, "%r0"), 10 + n)
        for n in range(4)
    )
    text = ptx(entry("run", "u64 a, u64 out, u32 n", REDUX + stores, guard=False), target="sm_80").decode()
    data = s.rng.integers(0, 1 << 32, count, dtype=np.uint32)
    out = cuda.empty(np.uint32, 4, count)
    cuda.launch(cuda.kernel(text[:-1], "run"), 12, 128, cuda.given(data), out, number(count))
    got, rows = out.get(np.uint32, 4, count), data.reshape(-1, 32)
    for name, row, values in (
        ("add", 0, rows.astype(np.uint64).sum(1)), ("max", 1, rows.max(1)), ("xor", 2, np.bitwise_xor.reduce(rows, 1)),
    ):  # fmt: skip
        s.equal(name, got[row], np.repeat(values.astype(np.uint32), 32))
    s.equal("asynchronous copy", got[3], data.reshape(-1, 128)[:, ::-1].ravel())


PROBES = {
    "kernel-half": half,
    "kernel-bfloat16": bfloat16,
    "kernel-double": double,
    "kernel-conversions": conversions,
    "kernel-divergence": divergence,
    "kernel-local-arrays": local_arrays,
    "kernel-module-variables": globals_,
    "kernel-device-functions": calls,
    "kernel-grid-places": places,
    "kernel-matrix-units": matrix_units,
    "kernel-warp-reduce-and-async-copy": ampere,
}
