"""Probes of kernels: arithmetic, reductions, barriers, atomics, warps; PTX that the driver compiles."""

from __future__ import annotations

import ctypes
from typing import Any, Tuple

import numpy as np
from assembly import at, entry, inputs, several
from kit import ProbeSession, growth, u

COUNT = 20011


def number(value: int) -> ctypes.c_uint32:
    """A 32-bit argument."""
    return ctypes.c_uint32(value)


def three_to_many(s: ProbeSession, text: str, arrays: Tuple[Any, Any, Any], results: int) -> Any:
    """Run a kernel of ``several``: results as rows."""
    cuda, count = s.cuda, arrays[0].size
    kind = arrays[0].dtype
    given = [cuda.given(array) for array in arrays]
    out = cuda.empty(kind, results, count)
    cuda.launch(cuda.kernel(text, "run"), (count + 127) // 128, 128, *given, out, number(count))
    return out.get(kind, results, count)


def elementwise(s: ProbeSession) -> None:
    """Add, multiply, fused multiply-add, divide, root, minimum: each correctly rounded."""
    a, b, c = (s.floats(COUNT) for _ in range(3))
    text = several(inputs("f32", 4), """
        add.rn.f32 %f10, %f1, %f2; mul.rn.f32 %f11, %f1, %f2; fma.rn.f32 %f12, %f1, %f2, %f3;
        div.rn.f32 %f13, %f1, %f2; abs.f32 %f20, %f1; sqrt.rn.f32 %f14, %f20; min.f32 %f15, %f1, %f2;
        max.f32 %f16, %f1, %f3; neg.f32 %f17, %f2; sub.rz.f32 %f18, %f1, %f2;
    """, 9)  # fmt: skip
    got = three_to_many(s, text, (a, b, c), 9)
    wide = a.astype(np.float64) * b + c
    exact = {
        "add": a + b, "mul": a * b, "div": a / b, "sqrt": np.sqrt(np.abs(a)), "min": np.minimum(a, b),
        "max": np.maximum(a, c), "neg": -b,
    }  # fmt: skip
    for name, row in (("add", 0), ("mul", 1), ("div", 3), ("sqrt", 4), ("min", 5), ("max", 6), ("neg", 7)):
        s.equal(name, got[row], exact[name])
    s.near("fma", got[2], wide, 1.01 * u(np.float32) * np.abs(wide) + 1e-45)
    toward = a.astype(np.float64) - b
    s.near("sub toward zero", got[8], toward, 2.01 * u(np.float32) * np.abs(toward) + 1e-45)
    s.need(
        "toward zero, never away", (np.abs(got[8].astype(np.float64)) <= np.abs(toward)).all(), "too large"
    )


def integers(s: ProbeSession) -> None:
    """Multiplying to the high half, bits, fields, permuting, shifting, dividing: to the last bit."""
    a, b, c = (s.rng.integers(0, 1 << 32, COUNT, dtype=np.uint32) for _ in range(3))
    b[b == 0] = 1
    text = several(inputs("u32", 4), """
        mul.hi.u32 %r10, %r1, %r2; mad.lo.u32 %r11, %r1, %r2, %r3; popc.b32 %r12, %r1; clz.b32 %r13, %r1;
        brev.b32 %r14, %r1; bfe.u32 %r15, %r1, 5, 11; bfi.b32 %r16, %r1, %r2, 7, 9;
        prmt.b32 %r17, %r1, %r2, 0x6240; shf.l.wrap.b32 %r18, %r1, %r2, %r3; div.u32 %r19, %r1, %r2;
        rem.s32 %r20, %r1, %r2; lop3.b32 %r21, %r1, %r2, %r3, 0x96; sad.u32 %r22, %r1, %r2, %r3;
        mul.hi.s32 %r23, %r1, %r2; max.s32 %r24, %r1, %r2; add.cc.u32 %r25, %r1, %r2; addc.u32 %r26, %r3, 0;
    """, 17, "u32")  # fmt: skip
    got = three_to_many(s, text, (a, b, c), 17)
    wide, signed = a.astype(np.uint64), a.astype(np.int32).astype(np.int64)
    other = b.astype(np.int32).astype(np.int64)
    bits = np.unpackbits(a.view(np.uint8).reshape(-1, 4)[:, ::-1], axis=1)
    shift = c & 31
    field = np.uint32(((1 << 9) - 1) << 7)
    octets = np.concatenate([a.view(np.uint8).reshape(-1, 4), b.view(np.uint8).reshape(-1, 4)], axis=1)
    want = [
        (wide * b) >> np.uint64(32), a * b + c, bits.sum(1), np.where(a == 0, 32, bits.argmax(1)),
        np.packbits(bits[:, ::-1], axis=1).reshape(-1, 4) @ np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64),
        (a >> 5) & 0x7FF, (b & ~field) | ((a << 7) & field),
        octets[:, [0, 4, 2, 6]].astype(np.int64) @ np.array([1, 1 << 8, 1 << 16, 1 << 24]),
        (((b.astype(np.uint64) << np.uint64(32)) | wide) << shift.astype(np.uint64)) >> np.uint64(32),
        a // b, np.fmod(signed, other), a ^ b ^ c, np.abs(wide.astype(np.int64) - b) + c,
        (signed * other) >> 32, np.maximum(signed, other), wide + b, c + ((wide + b) >> np.uint64(32)),
    ]  # fmt: skip
    names = [
        "mul.hi",
        "mad",
        "popc",
        "clz",
        "brev",
        "bfe",
        "bfi",
        "prmt",
        "shf",
        "div",
        "rem",
        "lop3",
        "sad",
        "mul.hi.s",
        "max.s",
        "add.cc",
        "addc",
    ]
    for name, row, right in zip(names, got, want):
        s.equal(name, row, np.asarray(right).astype(np.int64).astype(np.uint32))


#: Largest errors allowed: what the PTX reference states for the approximations, doubled; other hardware
#: approximates otherwise. sin and cos: absolute, in [-pi, pi].
APPROXIMATE: Tuple[Tuple[str, Any, float, float], ...] = (
    ("ex2.approx.f32 $, %f1", np.exp2, 2.0**-21, 0.0),
    ("lg2.approx.f32 $, %f2", np.log2, 2.0**-21, 2.0**-21),
    ("sin.approx.f32 $, %f1", np.sin, 0.0, 2.0**-19.5),
    ("cos.approx.f32 $, %f1", np.cos, 0.0, 2.0**-19.5),
    ("rcp.approx.f32 $, %f2", np.reciprocal, 2.0**-22, 0.0),
    ("rsqrt.approx.f32 $, %f2", lambda x: 1 / np.sqrt(x), 2.0**-21.9, 0.0),
    ("sqrt.approx.f32 $, %f2", np.sqrt, 2.0**-22, 0.0),
    ("tanh.approx.f32 $, %f1", np.tanh, 2.0**-10, 2.0**-10),
)


def special(s: ProbeSession) -> None:
    """Powers, logarithms, sines, reciprocals and roots, as exact as PTX states for its approximations."""
    a = (s.floats(COUNT) * 3.1).astype(np.float32)
    b = (np.abs(s.floats(COUNT)) * 50 + 0.01).astype(np.float32)
    lines = " ".join(text.replace("$", "%%f%d" % (10 + n)) + ";" for n, (text, *_) in enumerate(APPROXIMATE))
    got = three_to_many(s, several(inputs("f32", 4), lines, len(APPROXIMATE)), (a, b, a), len(APPROXIMATE))
    for (text, function, relative, absolute), row in zip(APPROXIMATE, got):
        exact = function((a if "%f1" in text else b).astype(np.float64))
        s.near(text.split()[0], row, exact, relative * np.abs(exact) + absolute)


REDUCE = """
    .shared .align 4 .f32 part[256];
    mov.f32 %f0, 0f00000000; setp.ge.u32 %p0, %i, %n; @%p0 bra empty;
    mad.wide.u32 %d0, %i, 4, %a; ld.global.f32 %f0, [%d0];
empty:
    mov.u32 %r1, part; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2; st.shared.f32 [%r1], %f0;
    mov.u32 %r3, 128;
again:
    bar.sync 0; setp.ge.u32 %p1, %t, %r3; @%p1 bra skip;
    shl.b32 %r4, %r3, 2; add.u32 %r5, %r1, %r4; ld.shared.f32 %f1, [%r5]; ld.shared.f32 %f2, [%r1];
    add.f32 %f2, %f2, %f1; st.shared.f32 [%r1], %f2;
skip:
    shr.u32 %r3, %r3, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra again;
    setp.ne.u32 %p3, %t, 0; @%p3 ret;
    ld.shared.f32 %f3, [part]; mad.wide.u32 %d1, %block, 4, %out; st.global.f32 [%d1], %f3;
"""


def reduction(s: ProbeSession) -> None:
    """Sums of blocks through shared memory and barriers."""
    cuda = s.cuda
    kernel = cuda.kernel(entry("run", "u64 a, u64 out, u32 n", REDUCE, guard=False), "run")
    for count in (1, 255, 256, 257, 100003):
        data, blocks = s.floats(count), (count + 255) // 256
        out = cuda.empty(np.float32, blocks)
        cuda.launch(kernel, blocks, 256, cuda.given(data), out, number(count))
        padded = np.zeros(blocks * 256)
        padded[:count] = data
        rows = padded.reshape(blocks, 256)
        allowed = growth(8) * u(np.float32) * np.abs(rows).sum(1) + 1e-40
        s.near("sum of %d" % count, out.get(np.float32), rows.sum(1), allowed)


TILED = """
    .shared .align 4 .f32 left[256]; .shared .align 4 .f32 right[256];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y;
    shl.b32 %r4, %r3, 4; add.u32 %r4, %r4, %r1; shl.b32 %r5, %r2, 4; add.u32 %r5, %r5, %r0;
    shl.b32 %r6, %r1, 4; add.u32 %r6, %r6, %r0; shl.b32 %r6, %r6, 2;
    mov.u32 %r7, left; mov.u32 %r8, right; mov.f32 %f0, 0f00000000; mov.u32 %r9, 0;
tile:
    add.u32 %r10, %r9, %r0; mad.lo.u32 %r11, %r4, %n, %r10; mad.wide.u32 %d0, %r11, 4, %a;
    ld.global.f32 %f1, [%d0]; add.u32 %r12, %r7, %r6; st.shared.f32 [%r12], %f1;
    add.u32 %r10, %r9, %r1; mad.lo.u32 %r11, %r10, %n, %r5; mad.wide.u32 %d1, %r11, 4, %b;
    ld.global.f32 %f2, [%d1]; add.u32 %r12, %r8, %r6; st.shared.f32 [%r12], %f2;
    bar.sync 0; mov.u32 %r13, 0; shl.b32 %r14, %r1, 6; add.u32 %r14, %r14, %r7;
    shl.b32 %r15, %r0, 2; add.u32 %r15, %r15, %r8;
inner:
    ld.shared.f32 %f3, [%r14]; ld.shared.f32 %f4, [%r15]; fma.rn.f32 %f0, %f3, %f4, %f0;
    add.u32 %r14, %r14, 4; add.u32 %r15, %r15, 64; add.u32 %r13, %r13, 1;
    setp.lt.u32 %p0, %r13, 16; @%p0 bra inner;
    bar.sync 0; add.u32 %r9, %r9, 16; setp.lt.u32 %p1, %r9, %n; @%p1 bra tile;
    mad.lo.u32 %r11, %r4, %n, %r5; mad.wide.u32 %d2, %r11, 4, %out; st.global.f32 [%d2], %f0;
"""


def tiled_product(s: ProbeSession) -> None:
    """A matrix product through tiles in shared memory."""
    cuda, edge = s.cuda, 96
    kernel = cuda.kernel(entry("run", "u64 a, u64 b, u64 out, u32 n", TILED, guard=False), "run")
    a, b = s.floats(edge, edge), s.floats(edge, edge)
    out = cuda.empty(np.float32, edge, edge)
    cuda.launch(kernel, (edge // 16,) * 2, (16, 16), cuda.given(a), cuda.given(b), out, number(edge))
    wide = a.astype(np.float64)
    allowed = growth(edge) * u(np.float32) * (np.abs(wide) @ np.abs(b.astype(np.float64)))
    s.near("96 by 96", out.get(np.float32, edge, edge), wide @ b, allowed)


#: One address for all threads, operation by operation; the last one only where the value that is there fits.
ATOMICS = """
    mad.wide.u32 %d0, %i, 4, %a; ld.global.u32 %r0, [%d0]; add.u64 %d1, %out, 0;
    atom.global.add.u32 %r1, [%d1], %r0; atom.global.min.s32 %r1, [%d1+4], %r0;
    atom.global.max.u32 %r1, [%d1+8], %r0; atom.global.and.b32 %r1, [%d1+12], %r0;
    atom.global.or.b32 %r1, [%d1+16], %r0; atom.global.xor.b32 %r1, [%d1+20], %r0;
    atom.global.inc.u32 %r1, [%d1+24], 1000; cvt.u64.u32 %d2, %r0; atom.global.add.u64 %d3, [%d1+32], %d2;
    cvt.rn.f32.u32 %f0, %lane; red.global.add.f32 [%d1+40], %f0; atom.global.exch.b32 %r2, [%d1+48], %i;
turn:
    ld.volatile.global.u32 %r3, [%d1+44]; mad.lo.u32 %r4, %r3, 3, 1;
    atom.global.cas.b32 %r5, [%d1+44], %r3, %r4; setp.ne.u32 %p1, %r5, %r3; @%p1 bra turn;
"""


def atomics(s: ProbeSession) -> None:
    """Many threads change one word: nothing is lost, whatever the operation."""
    cuda, count = s.cuda, 3001
    data = s.rng.integers(0, 1 << 31, count, dtype=np.uint32)
    start = np.array([0, 2**31 - 1, 0, 2**32 - 1, 0, 0, 0, 0, 0, 0, 0, 1, 2**32 - 1, 0], np.uint32)
    out = cuda.given(start)
    kernel = cuda.kernel(entry("run", "u64 a, u64 out, u32 n", ATOMICS), "run")
    cuda.launch(kernel, (count + 127) // 128, 128, cuda.given(data), out, number(count))
    got = out.get(np.uint32)
    wide = int(data.astype(np.uint64).sum())
    chain = 1
    for _ in range(count):
        chain = (chain * 3 + 1) & 0xFFFFFFFF
    want = {
        0: wide & 0xFFFFFFFF, 1: int(data.min()), 2: int(data.max()), 3: int(np.bitwise_and.reduce(data)),
        4: int(np.bitwise_or.reduce(data)), 5: int(np.bitwise_xor.reduce(data)), 6: count % 1001, 11: chain,
    }  # fmt: skip
    names = {0: "add", 1: "min", 2: "max", 3: "and", 4: "or", 5: "xor", 6: "inc", 11: "compare and swap"}
    for place, right in want.items():
        s.equal(names[place], got[place], right)
    s.equal("64 bits", int(got[8]) | int(got[9]) << 32, wide)
    lanes = (np.arange(count) % 128 % 32).sum()
    s.equal("float, whole numbers", got[10:11].view(np.float32)[0], lanes)
    s.need("exchange left one thread's value", got[12] < count, got[12])


HISTOGRAM = """
    .shared .align 4 .u32 bins[64];
    mov.u32 %r0, bins; setp.ge.u32 %p0, %t, 64; @%p0 bra cleared;
    shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %r0; mov.u32 %r9, 0; st.shared.u32 [%r1], %r9;
cleared:
    bar.sync 0; setp.ge.u32 %p1, %i, %n; @%p1 bra counted;
    mad.wide.u32 %d0, %i, 4, %a; ld.global.u32 %r2, [%d0]; shr.u32 %r2, %r2, 26; shl.b32 %r2, %r2, 2;
    add.u32 %r2, %r2, %r0; atom.shared.add.u32 %r3, [%r2], 1;
counted:
    bar.sync 0; setp.ge.u32 %p2, %t, 64; @%p2 ret;
    shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %r0; ld.shared.u32 %r4, [%r1];
    mad.wide.u32 %d1, %t, 4, %out; red.global.add.u32 [%d1], %r4;
"""


def histogram(s: ProbeSession) -> None:
    """Counts in shared memory, then summed over blocks."""
    cuda, count = s.cuda, 50021
    data = s.rng.integers(0, 1 << 32, count, dtype=np.uint32)
    out = cuda.given(np.zeros(64, np.uint32))
    kernel = cuda.kernel(entry("run", "u64 a, u64 out, u32 n", HISTOGRAM, guard=False), "run")
    cuda.launch(kernel, (count + 255) // 256, 256, cuda.given(data), out, number(count))
    s.equal("64 bins", out.get(np.uint32), np.bincount(data >> 26, minlength=64))


SHUFFLES = """
    mad.wide.u32 %d0, %i, 4, %a; ld.global.u32 %r1, [%d0];
    shfl.sync.idx.b32 %r10, %r1, 7, 31, 0xffffffff; shfl.sync.bfly.b32 %r11, %r1, 5, 31, 0xffffffff;
    shfl.sync.up.b32 %r12, %r1, 3, 0, 0xffffffff; shfl.sync.down.b32 %r13|%p1, %r1, 9, 31, 0xffffffff;
    selp.u32 %r14, 1, 0, %p1; shfl.sync.idx.b32 %r15, %r1, 2, 0x181f, 0xffffffff;
    vote.sync.ballot.b32 %r16, %p1, 0xffffffff; and.b32 %r2, %r1, 1; setp.eq.u32 %p2, %r2, 1;
    vote.sync.ballot.b32 %r17, %p2, 0xffffffff; vote.sync.any.pred %p3, %p2, 0xffffffff;
    selp.u32 %r18, 1, 0, %p3; vote.sync.all.pred %p4, %p2, 0xffffffff; selp.u32 %r19, 1, 0, %p4;
    and.b32 %r3, %r1, 3; match.any.sync.b32 %r20, %r3, 0xffffffff;
    setp.lt.u32 %p5, %lane, 12; mov.u32 %r21, 0; @!%p5 bra apart;
    shfl.sync.bfly.b32 %r21, %r1, 1, 31, 0xfff;
apart:
    bar.warp.sync 0xffffffff;
"""


def warps(s: ProbeSession) -> None:
    """Lanes read each other's values, and vote."""
    cuda, count = s.cuda, 32 * 96
    data = s.rng.integers(0, 1 << 32, count, dtype=np.uint32)
    stores = "mov.u32 %r0, %i;\n" + "\n".join(
        "%s st.global.u32 [%%d9], %%r%d; add.u32 %%r0, %%r0, %%n;" % (at("%d9", "%out", 4, "%r0"), 10 + n)
        for n in range(12)
    )
    kernel = cuda.kernel(entry("run", "u64 a, u64 out, u32 n", SHUFFLES + stores, guard=False), "run")
    out = cuda.empty(np.uint32, 12, count)
    cuda.launch(kernel, count // 96, 96, cuda.given(data), out, number(count))
    got, rows, lane = out.get(np.uint32, 12, count), data.reshape(-1, 32), np.arange(32)
    odd = (rows & 1).astype(bool)
    bits = np.uint64(1) << np.arange(32).astype(np.uint64)
    same = (rows & 3)[:, :, None] == (rows & 3)[:, None, :]
    within = np.where(lane + 9 <= 31, lane + 9, lane)
    want = {
        "index": rows[:, [7] * 32], "butterfly": rows[:, lane ^ 5], "up": rows[:, np.where(lane >= 3, lane - 3, lane)],
        "down": rows[:, within], "inside": np.broadcast_to(lane + 9 <= 31, rows.shape),
        "segments of eight": rows[:, (lane & 0x18) | 2],
        "ballot of lanes": np.full(rows.shape, (1 << 23) - 1),
        "ballot": np.repeat((odd * bits).sum(1)[:, None], 32, 1), "any": np.repeat(odd.any(1)[:, None], 32, 1),
        "all": np.repeat(odd.all(1)[:, None], 32, 1), "match": (same * bits).sum(2),
        "part of a warp": np.where(lane < 12, rows[:, lane ^ 1], 0),
    }  # fmt: skip
    for row, (name, right) in zip(got, want.items()):
        s.equal(name, row, right.astype(np.uint64).astype(np.uint32).ravel())


PROBES = {
    "kernel-elementwise": elementwise,
    "kernel-integers": integers,
    "kernel-special-functions": special,
    "kernel-reduction": reduction,
    "kernel-tiled-product": tiled_product,
    "kernel-atomics": atomics,
    "kernel-histogram": histogram,
    "kernel-warps": warps,
}
