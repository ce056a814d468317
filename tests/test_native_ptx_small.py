"""Small PTX programs, one for each thing that programs write: what the PTX manual says each must give."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.native_cpu import no_compiler
from tests.native_ptx import PtxError, module, run, u32

pytestmark = [pytest.mark.proof, pytest.mark.skipif(bool(no_compiler()), reason=no_compiler() or "-")]
MASK = 0xFFFFFFFF
#: What needs another GPU than sm_90.
TARGETS = {
    "min of three": "sm_100",
    "nothing to compute": "sm_90a",
    "eight at once": "sm_100",
    "four doublewords": "sm_100",
}
NAN, INF, MIN = 0x7FC00000, 0x7F800000, 1 << 31


def f(value: float) -> int:
    """Return the bits of a single."""
    return int.from_bytes(struct.pack("<f", value), "little")


def h(low: float, high: float = 0.0) -> int:
    """Return the bits of two halves."""
    return int.from_bytes(struct.pack("<ee", low, high), "little")


def q(value: float) -> tuple[int, int]:
    """Return the two words of an integer or a double."""
    raw = (
        struct.pack("<d", value)
        if isinstance(value, float)
        else (value & (1 << 64) - 1).to_bytes(8, "little")
    )
    return int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:], "little")


#: name: (body, input words, output words). %a to %d hold the words, %x and %y two of them each; %o to %s go out.
VALUES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "mov of a negative literal": ("mov.s32 %o, -7; mov.u32 %q, 0b101; mov.u32 %r, 017; mov.u32 %s, 0xFFU;", (), (-7, 5, 15, 255)),
    "mov of floats": ("mov.f32 %o, 0F3fC00000; mov.f32 %q, 2.5; mov.f64 %x, 0d3FF0000000000000; mov.b64 {%r, %s}, %x;", (), (f(1.5), f(2.5), *q(1.0))),
    "mov packs and unpacks": ("mov.b64 %x, {%b, %a}; mov.b64 {%o, %q}, %x; mov.b32 {%h, %i}, %a; mov.b32 %r, {%i, %h};", (0x00010002, 3), (3, 0x00010002, 0x00020001)),
    "bits between kinds": ("mov.b32 %f, %a; add.f32 %f, %f, %f; mov.b32 %o, %f;", (f(1.25),), (f(2.5),)),
    "add carries": ("add.cc.u32 %o, %a, %c; addc.u32 %q, %b, %d;", (MASK, 1, 1, 2), (0, 4)),
    "a chain of carries": ("add.cc.u32 %o, %a, %a; addc.cc.u32 %q, %b, %b; addc.cc.u32 %r, %c, 0; addc.u32 %s, 0, 0;", (MASK, MASK, MASK), (MASK - 1, MASK, 0, 1)),
    "sub borrows": ("sub.cc.u32 %o, %a, %c; subc.u32 %q, %b, %d;", (0, 5, 1, 2), (MASK, 2)),
    "64-bit carries": ("add.cc.u64 %x, %x, %y; addc.u64 %y, 0, 0; mov.b64 {%o, %q}, %x; cvt.u32.u64 %r, %y;", (MASK, MASK, 2, 0), (1, 0, 1)),
    "mad with carries": ("mad.lo.cc.u32 %o, %a, %b, %c; madc.hi.u32 %q, %a, %b, %d;", (MASK, 2, 2, 10), (0, 12)),
    "mad.hi with carries": ("mad.hi.cc.u32 %o, %a, %b, %c; addc.u32 %q, 0, 0;", (MASK, MASK, 2), (0, 1)),
    "add saturates": ("add.sat.s32 %o, %a, %b; sub.sat.s32 %q, %c, %d;", (MIN, -1, 0x7FFFFFFF, -1), (MIN, 0x7FFFFFFF)),
    "16-bit addition wraps": ("add.u16 %h, %h, %i; cvt.u32.u16 %o, %h;", (0xFFFF, 2), (1,)),
    "pairs of 16 bits add": ("add.u16x2 %o, %a, %b;", (0xFFFF0001, 0x00020003), (0x00010004,)),
    "mul.lo": ("mul.lo.u32 %o, %a, %b; mul.lo.s32 %q, %c, %d;", (0x10001, 0x10001, -3, 7), (0x20001, -21)),
    "mul.hi": ("mul.hi.u32 %o, %a, %b; mul.hi.s32 %q, %a, %b;", (MASK, MASK), (MASK - 1, 0)),
    "mul.hi of 64 bits": ("mul.hi.u64 %x, %x, %y; mov.b64 {%o, %q}, %x;", (MASK, MASK, MASK, MASK), (MASK - 1, MASK)),
    "mul.wide": ("mul.wide.s32 %x, %a, %b; mov.b64 {%o, %q}, %x; mul.wide.u16 %r, %h, %i;", (-2, 3), (-6, MASK, 0xFFFE * 3)),
    "mad.wide": ("mad.wide.u32 %x, %a, %b, %y; mov.b64 {%o, %q}, %x;", (MASK, 2, 5, 0), (3, 2)),
    "mad.hi with saturation": ("mad.hi.sat.s32 %o, %a, %b, %c;", (0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF), (0x7FFFFFFF,)),
    "mul24": ("mul24.lo.u32 %o, %a, %b; mul24.hi.u32 %q, %a, %b; mul24.lo.s32 %r, %a, %b;", (0xFF800000, 0x2), (0x1000000, 0x100, 0xFF000000)),
    "mad24": ("mad24.lo.s32 %o, %a, %b, %c;", (0x01000003, 5, 1), (16,)),
    "sad": ("sad.u32 %o, %a, %b, %c; sad.s32 %q, %a, %b, %c;", (-1, 1, 10), (MASK - 1 + 10, 12)),
    "division truncates": ("div.s32 %o, %a, %b; div.u32 %q, %a, %b; rem.s32 %r, %a, %b;", (-7, 2), (-3, 0x7FFFFFFC, -1)),
    "rem takes the dividend's sign": ("rem.s32 %o, %a, %b; rem.s32 %q, %c, %d;", (7, -3, -7, 3), (1, -1)),
    "division of 64 bits": ("div.s64 %x, %x, %y; mov.b64 {%o, %q}, %x;", (*q(-9_000_000_000), *q(4)), q(-2_250_000_000)),
    "abs of the least integer": ("abs.s32 %o, %a; neg.s32 %q, %a; abs.s32 %r, %b;", (MIN, -5), (MIN, MIN, 5)),
    "min and max by sign": ("min.s32 %o, %a, %b; min.u32 %q, %a, %b; max.s32 %r, %a, %b; max.u32 %s, %a, %b;", (-1, 1), (-1, 1, 1, -1)),
    "min.relu": ("min.relu.s32 %o, %a, %b; max.relu.s32 %q, %a, %a;", (-4, 9), (0, 0)),
    "popc and clz": ("popc.b32 %o, %a; clz.b32 %q, %a; popc.b64 %r, %y; clz.b64 %s, %y;", (0xF0, 0, 1, 1), (4, 24, 2, 31)),
    "clz of zero": ("clz.b32 %o, %a; clz.b64 %q, %y;", (0, 0, 0, 0), (32, 64)),
    "bfind": ("bfind.u32 %o, %a; bfind.s32 %q, %b; bfind.u32 %r, %c; bfind.shiftamt.u32 %s, %a;", (0x100, -2, 0), (8, 0, -1, 23)),
    "brev": ("brev.b32 %o, %a; brev.b64 %x, %x; mov.b64 {%q, %r}, %x;", (1, 2), (MIN, 0x40000000, MIN)),
    "bfe": ("bfe.u32 %o, %a, 8, 8; bfe.s32 %q, %a, 8, 8; bfe.s32 %r, %a, 28, 8; bfe.u32 %s, %a, 3, 0;", (0x8000F100,), (0xF1, -15, -8, 0)),
    "bfe beyond the end": ("bfe.s32 %o, %a, 32, 4; bfe.u32 %q, %a, 32, 4;", (MIN,), (-1, 0)),
    "bfi": ("bfi.b32 %o, %a, %b, 8, 4; bfi.b32 %q, %a, %b, 30, 8; bfi.b32 %r, %a, %b, 32, 8;", (0xF5, 0), (0x500, 0x40000000, 0)),
    "bmsk": ("bmsk.clamp.b32 %o, %a, %b; bmsk.wrap.b32 %q, %c, %d;", (28, 20, 33, 2), (0xF0000000, 6)),
    "szext": ("szext.clamp.s32 %o, %a, 4; szext.wrap.u32 %q, %a, 36;", (0xFA,), (-6, 10)),
    "fns": ("fns.b32 %o, %a, 0, 2; fns.b32 %q, %a, 31, -1; fns.b32 %r, %a, 0, 9;", (0x1010,), (12, 12, MASK)),
    "shl and shr beyond the width": ("shl.b32 %o, %a, 32; shr.u32 %q, %a, 40; shr.s32 %r, %a, 99; shr.b32 %s, %a, 31;", (MIN,), (0, 0, -1, 1)),
    "shr of 16 bits": ("shr.s16 %h, %h, 20; cvt.s32.s16 %o, %h;", (0x8000,), (-1,)),
    "shf.l": ("shf.l.wrap.b32 %o, %a, %b, 8; shf.l.clamp.b32 %q, %a, %b, 40; shf.l.wrap.b32 %r, %a, %b, 40;", (0x11223344, 0xAABBCCDD), (0xBBCCDD11, 0x11223344, 0xBBCCDD11)),
    "shf.r": ("shf.r.wrap.b32 %o, %a, %b, 8; shf.r.clamp.b32 %q, %a, %b, 40; shf.r.wrap.b32 %r, %a, %b, 0;", (0x11223344, 0xAABBCCDD), (0xDD112233, 0xAABBCCDD, 0x11223344)),
    "lop3": ("lop3.b32 %o, %a, %b, %c, 0x96; lop3.b32 %q, %a, %b, %c, 0xE8; lop3.b32 %r, %a, %b, %c, 0xCA;", (0xF0, 0xCC, 0xAA), (0x96, 0xE8, 0xCA)),
    "logic": ("and.b32 %o, %a, %b; or.b32 %q, %a, %b; xor.b32 %r, %a, %b; not.b32 %s, %a;", (12, 10), (8, 14, 6, -13)),
    "cnot": ("cnot.b32 %o, %a; cnot.b32 %q, %b;", (0, 3), (1, 0)),
    "predicates as values": ("setp.eq.u32 %p, %a, 1; not.pred %u, %p; and.pred %v, %p, %u; xor.pred %w, %p, %u; selp.u32 %o, 1, 0, %v; selp.u32 %q, 1, 0, %w;", (1,), (0, 1)),
    "prmt": ("prmt.b32 %o, %a, %b, 0x7350; prmt.b32 %q, %a, %b, 0x8;", (0x80112233, 0x44556677), (0x44806633, 0x33333300)),
    "prmt copies signs": ("prmt.b32 %o, %a, %b, 0xBA98; prmt.b32 %q, %a, 0, 0xBBBB;", (0x80FF0100, 0), (0xFFFF0000, MASK)),
    "prmt by modes": ("prmt.b32.f4e %o, %a, %b, 1; prmt.b32.b4e %q, %a, %b, 1; prmt.b32.rc8 %r, %a, %b, 2; prmt.b32.rc16 %s, %a, %b, 1;", (0x03020100, 0x07060504),
                      (0x04030201, 0x06070001, 0x02020202, 0x03020302)),
    "slct": ("slct.b32.s32 %o, %a, %b, %c; slct.u32.s32 %q, %a, %b, %d; mov.b32 %f, 0f80000000; slct.b32.f32 %r, %a, %b, %f;", (1, 2, 0, -1), (1, 2, 1)),
    "selp": ("setp.ne.b32 %p, %a, %b; selp.b32 %o, %a, %b, %p; selp.b32 %q, %a, %b, !%p; selp.f32 %r, 0f3F800000, 0f40000000, %p;", (3, 4), (3, 4, f(1))),
    "setp of unsigned": ("setp.lo.u32 %p, %a, %b; setp.hs.u32 %u, %a, %b; selp.u32 %o, 1, 0, %p; selp.u32 %q, 1, 0, %u;", (1, -1), (1, 0)),
    "setp with two results": ("setp.lt.s32 %p|%u, %a, %b; selp.u32 %o, 1, 0, %p; selp.u32 %q, 1, 0, %u;", (-1, 1), (1, 0)),
    "setp with and, or, xor": ("setp.eq.u32 %u, 0, 0; setp.lt.and.u32 %p, %a, %b, !%u; setp.lt.or.u32 %v, %a, %b, !%u; setp.lt.xor.u32 %w, %a, %b, %u;"
                               "selp.u32 %o, 1, 0, %p; selp.u32 %q, 1, 0, %v; selp.u32 %r, 1, 0, %w;", (1, 2), (0, 1, 0)),
    "setp.and with two results": ("setp.eq.u32 %u, 0, 0; setp.gt.and.s32 %p|%v, %a, %b, %u; selp.u32 %o, 1, 0, %p; selp.u32 %q, 1, 0, %v;", (1, 2), (0, 1)),
    "setp without a first result": ("setp.ge.s32 _|%p, %a, %b; selp.u32 %o, 1, 0, %p;", (1, 2), (1,)),
    "NaN is unordered": ("setp.lt.f32 %p, %fa, %fb; setp.ltu.f32 %u, %fa, %fb; setp.nan.f32 %v, %fa, %fb; setp.num.f32 %w, %fa, %fb;"
                         "selp.u32 %o, 1, 0, %p; selp.u32 %q, 1, 0, %u; selp.u32 %r, 1, 0, %v; selp.u32 %s, 1, 0, %w;", (NAN, f(1)), (0, 1, 1, 0)),
    "NaN is not equal": ("setp.eq.f32 %p, %fa, %fa; setp.ne.f32 %u, %fa, %fa; setp.equ.f32 %v, %fa, %fa; setp.neu.f32 %w, %fa, %fa;"
                         "selp.u32 %o, 1, 0, %p; selp.u32 %q, 1, 0, %u; selp.u32 %r, 1, 0, %v; selp.u32 %s, 1, 0, %w;", (NAN,), (0, 0, 1, 1)),
    "setp.ftz": ("setp.eq.ftz.f32 %p, %fa, %fb; setp.eq.f32 %u, %fa, %fb; selp.u32 %o, 1, 0, %p; selp.u32 %q, 1, 0, %u;", (1, 0), (1, 0)),
    "set": ("set.lt.u32.s32 %o, %a, %b; set.lt.f32.s32 %q, %a, %b; setp.eq.u32 %p, 0, 1; set.gt.or.s32.u32 %r, %a, %b, %p;", (-1, 1), (MASK, f(1), MASK)),
    "set of halves": ("set.gt.f16x2.f16x2 %o, %a, %b; set.leu.u32.f16 %q, %h, %i;", (h(2, 1), h(1, 2)), (h(1, 0), 0)),
    "testp": ("testp.infinite.f32 %p, %fa; testp.notanumber.f32 %u, %fb; testp.subnormal.f32 %v, %fc; testp.normal.f32 %w, %fd; selp.u32 %o, 1, 0, %p; selp.u32 %q, 1, 0, %u;"
              "selp.u32 %r, 1, 0, %v; selp.u32 %s, 1, 0, %w;", (INF, NAN, 1, 0), (1, 1, 1, 1)),
    "copysign": ("copysign.f32 %o, %fa, %fb;", (f(-1), f(3)), (f(-3),)),
    "float rounding modes": ("add.rn.f32 %o, %fa, %fb; add.rz.f32 %q, %fa, %fb; add.rp.f32 %r, %fa, %fb; add.rm.f32 %s, %fa, %fb;", (f(1), 0x33C00000), (0x3F800001, f(1), 0x3F800001, f(1))),
    "denormals and ftz": ("mul.f32 %o, %fa, %fb; mul.ftz.f32 %q, %fa, %fb; add.ftz.f32 %r, %fc, %fc;", (0x800000, f(0.5), 0x80000001), (0x400000, 0, MIN)),
    "saturation": ("add.sat.f32 %o, %fa, %fb; mul.sat.f32 %q, %fa, %fc; fma.rn.sat.f32 %r, %fd, %fd, %fd;", (f(0.75), f(0.5), f(-1), NAN), (f(1), 0, 0)),
    "fma rounds once": ("fma.rn.f32 %o, %fa, %fa, %fb; mul.rn.f32 %f, %fa, %fa; add.rn.f32 %q, %f, %fb;", (f(1 + 2.0**-12), f(-1)), (f(2.0**-11 + 2.0**-24), f(2.0**-11))),
    "fma.relu": ("fma.rn.relu.f16x2 %o, %a, %b, %c;", (h(2, -2), h(3, 3), h(1, 1)), (h(7, 0),)),
    "mad of floats": ("mad.rn.f32 %o, %fa, %fb, %fc; mad.rz.f32 %q, %fa, %fb, %fc;", (f(2), f(3), f(4)), (f(10), f(10))),
    "min and max of NaN": ("min.f32 %o, %fa, %fb; max.NaN.f32 %q, %fa, %fb; mov.b32 %f, %a; add.f32 %f, %f, %fb; max.f32 %r, %fa, %f; min.f32 %s, %fc, %fd;", (NAN, f(1), f(0.0), MIN), (f(1), 0x7FFFFFFF, 0x7FFFFFFF, MIN)),
    "min of three": ("min.f32 %o, %fa, %fb, %fc; max.f32 %q, %fa, %fb, %fc;", (f(3), f(-1), f(2)), (f(-1), f(3))),
    "max.xorsign.abs": ("max.xorsign.abs.f32 %o, %fa, %fb; min.xorsign.abs.f32 %q, %fa, %fb;", (f(-3), f(2)), (f(-3), f(-2))),
    "abs and neg of floats": ("abs.f32 %o, %fa; neg.f32 %q, %fb; abs.ftz.f32 %r, %fc;", (f(-2), f(2), 0x80000001), (f(2), f(-2), 0)),
    "division of floats": ("div.rn.f32 %o, %fa, %fb; div.approx.f32 %q, %fc, %fa; div.full.f32 %r, %fc, %fa; div.rn.f32 %s, %fa, 0f80000000;", (f(1), f(3), f(4)), (0x3EAAAAAB, f(4), f(4), 0xFF800000)),
    "rcp and sqrt": ("rcp.rn.f32 %o, %fa; sqrt.rn.f32 %q, %fb; rcp.approx.ftz.f32 %r, %fa; sqrt.approx.f32 %s, %fb;", (f(4), f(2)), (f(0.25), 0x3FB504F3, f(0.25), 0x3FB504F3)),
    "sqrt of a negative number": ("sqrt.rn.f32 %o, %fa; sqrt.rn.f32 %q, %fb; rsqrt.approx.f32 %r, %fc; lg2.approx.f32 %s, %fc;", (f(-1), MIN, 0), (0x7FFFFFFF, MIN, INF, 0xFF800000)),
    "ex2 and lg2": ("ex2.approx.f32 %o, %fa; lg2.approx.f32 %q, %fb; ex2.approx.ftz.f32 %r, %fc; rsqrt.approx.f32 %s, %fd;", (f(10), f(8), 0xFF800000, f(4)), (f(1024), f(3), 0, f(0.5))),
    "sin, cos and tanh": ("sin.approx.f32 %o, %fa; cos.approx.f32 %q, %fa; tanh.approx.f32 %r, %fb; sin.approx.f32 %s, %fb;", (0, INF), (0, f(1), f(1), 0x7FFFFFFF)),
    "doubles": ("add.f64 %dx, %dx, %dy; mov.b64 {%o, %q}, %dx; mul.rn.f64 %dx, %dx, %dy; mov.b64 {%r, %s}, %dx;", (*q(1.5), *q(2.0)), (*q(3.5), *q(7.0))),
    "fma of doubles": ("fma.rn.f64 %dx, %dx, %dy, %dx; mov.b64 {%o, %q}, %dx; neg.f64 %dx, %dx; max.f64 %dx, %dx, %dy; mov.b64 {%r, %s}, %dx;", (*q(1.5), *q(2.0)), (*q(4.5), *q(2.0))),
    "rsqrt and sqrt of doubles": ("rsqrt.approx.f64 %dx, %dx; mov.b64 {%o, %q}, %dx; sqrt.rn.f64 %dy, %dy; mov.b64 {%r, %s}, %dy;", (*q(4.0), *q(2.25)), (*q(0.5), *q(1.5))),
    "halves": ("add.f16 %h, %h, %i; mov.b32 %o, {%h, 0}; fma.rn.f16x2 %q, %a, %b, %c; mul.f16x2 %r, %a, %b; sub.f16x2 %s, %a, %b;", (h(1.5, 2), h(2, 4), h(1, 1)),
               (h(3.5), h(4, 9), h(3, 8), h(-0.5, -2))),
    "min of halves": ("min.f16 %h, %h, %i; mov.b32 %o, {%h, 0}; max.NaN.f16x2 %q, %a, %b;", (0x00007E00, h(3, 1)), (h(3), 0x3C007FFF)),
    "bf16": ("fma.rn.bf16x2 %o, %a, %b, %c; min.bf16x2 %q, %a, %b; neg.bf16x2 %r, %a; abs.bf16x2 %s, %d;", (0x40003F80, 0x40404000, 0x3F803F80, 0xBF80BF80), (0x40E04040, 0x40003F80, 0xC000BF80, 0x3F803F80)),
    "dp4a": ("dp4a.s32.s32 %o, %a, %b, %c; dp4a.u32.u32 %q, %a, %b, %c; dp4a.s32.u32 %r, %a, %b, %c;", (0xFF020304, 0x01010102, 10), (10 - 1 + 2 + 3 + 8, 10 + 255 + 2 + 3 + 8, 22)),
    "dp2a": ("dp2a.lo.s32.s32 %o, %a, %b, %c; dp2a.hi.u32.u32 %q, %a, %b, %c;", (0xFFFF0002, 0x04030201, 100), (100 + 2 - 2, 100 + 2 * 3 + 0xFFFF * 4)),
    "SIMD video": ("vadd4.u32.u32.u32.sat %o, %a, %b, %c; vabsdiff4.u32.u32.u32.add %q, %a, %b, %c; vmax2.s32.s32.s32 %r, %a, %b, %c;", (0xFF010203, 0x02030405, 0), (0xFF040608, 0xFD + 2 + 2 + 2, 0x02030405)),
    "scalar video": ("vadd.s32.u32.s32.sat %o, %a.b0, %b.h1; vshr.u32.u32.u32.clamp %q, %a, %b; vmad.s32.s32.u32 %r, %a.b1, %b.b0, %c;", (0xFF80, 0xFFFE0004, 1), (0x80 - 2, 0, 1 - 4)),
    "cvt widens": ("cvt.s32.s8 %o, %a; cvt.u32.u8 %q, %a; cvt.s64.s32 %x, %a; mov.b64 {%r, %s}, %x;", (0xFFFFFF80,), (-128, 128, -128, -1)),
    "cvt narrows": ("cvt.u16.u32 %h, %a; cvt.u32.u16 %o, %h; cvt.s8.s32 %q, %a; cvt.u32.u64 %r, %x;", (0x1289AB, 7), (0x89AB, 0xFFFFFFAB, 0x1289AB)),
    "cvt saturates": ("cvt.sat.u8.s32 %o, %a; cvt.sat.s8.s32 %q, %b; cvt.sat.u32.s32 %r, %a; cvt.sat.s32.u32 %s, %a;", (-300, 300), (0, 127, 0, 0x7FFFFFFF)),
    "cvt of floats to integers": ("cvt.rni.s32.f32 %o, %fa; cvt.rzi.s32.f32 %q, %fb; cvt.rmi.s32.f32 %r, %fb; cvt.rpi.s32.f32 %s, %fa;", (f(2.5), f(-2.5)), (2, -2, -3, 3)),
    "cvt of what does not fit": ("cvt.rzi.s32.f32 %o, %fa; cvt.rzi.u32.f32 %q, %fb; cvt.rzi.s32.f32 %r, %fc; cvt.rzi.u8.f32 %s, %fa;", (f(1e20), f(-5), NAN), (0x7FFFFFFF, 0, 0, 255)),
    "cvt to whole floats": ("cvt.rni.f32.f32 %o, %fa; cvt.rzi.f32.f32 %q, %fb; cvt.rmi.f32.f32 %r, %fb; cvt.sat.f32.f32 %s, %fb;", (f(3.5), f(-1.5)), (f(4), f(-1), f(-2), 0)),
    "cvt of integers to floats": ("cvt.rn.f32.u32 %o, %a; cvt.rz.f32.u32 %q, %a; cvt.rn.f32.s32 %r, %a; cvt.rn.f64.s32 %dx, %a; mov.b64 {_, %s}, %dx;", (-1,), (f(2.0**32), 0x4F7FFFFF, f(-1), q(-1.0)[1])),
    "cvt between floats": ("cvt.f64.f32 %dx, %fa; mov.b64 {%o, %q}, %dx; cvt.rn.f32.f64 %r, %dy; cvt.rp.f32.f64 %s, %dy;", (f(0.5), 0, *q(1.0 + 2.0**-40)), (*q(0.5), f(1), 0x3F800001)),
    "cvt of halves": ("cvt.rn.f16.f32 %h, %fa; cvt.f32.f16 %o, %h; cvt.rn.f16x2.f32 %q, %fa, %fb; cvt.rn.f16.s32 %h, %c; mov.b32 %r, {%h, 0};", (f(1.5), f(-2), -7), (f(1.5), h(-2, 1.5), h(-7))),
    "cvt.relu": ("cvt.rn.relu.f16x2.f32 %o, %fa, %fb; cvt.rz.bf16x2.f32 %q, %fb, %fa; cvt.rn.relu.bf16x2.f32 %r, %fa, %fb;", (f(-1), f(2)), (h(2, 0), 0x4000BF80, 0x4000)),
    "cvt of bf16": ("cvt.rn.bf16.f32 %h, %fa; cvt.f32.bf16 %o, %h; cvt.rn.bf16.u32 %h, %b; cvt.u32.u16 %q, %h;", (0x3F808001, 3), (0x3F810000, 0x4040)),
    "cvt of eight bits": ("cvt.rn.satfinite.e4m3x2.f32 %h, %fa, %fb; cvt.rn.f16x2.e4m3x2 %o, %h; cvt.rn.satfinite.e5m2x2.f32 %h, %fa, %fb; cvt.rn.f16x2.e5m2x2 %q, %h;", (f(1000), f(-1.5)),
                          (h(-1.5, 448), h(-1.5, 1024))),
    "cvt.rna.tf32": ("cvt.rna.tf32.f32 %o, %fa;", (0x3F801000,), (0x3F802000,)),
    "cvt.pack": ("cvt.pack.sat.s16.s32 %o, %a, %b; cvt.pack.sat.u8.s32.b32 %q, %a, %b, %c;", (40000, -5, 0x1234), (0x7FFFFFFB, 0x1234FF00)),
    "sub-word registers": (".reg .u8 %small; .reg .s8 %sign; cvt.u8.u32 %small, %a; cvt.u32.u8 %o, %small; cvt.s8.s32 %sign, %a; cvt.s32.s8 %q, %sign;", (0x1FF,), (255, -1)),
    "vector elements": (".reg .v4 .u32 %z; mov.v4.u32 %z, {%a, %b, %c, %d}; mov.u32 %o, %z.w; add.u32 %q, %z.x, %z.y; mov.b32 %r, %z.r; mov.b32 %s, %z.a;", (1, 2, 3, 4), (4, 3, 1, 4)),
    "unpacking without a part": ("mov.b64 {_, %o}, %x; mov.b64 {%q, _}, %y;", (1, 2, 3, 4), (2, 3)),
    "constant expressions": ("mov.u32 %o, 3 * (4 + 5) % 7; mov.u32 %q, 1 << 4 | 3; mov.s32 %r, -9 / 2; mov.u32 %s, (5 > 3) ? 10 : 20;", (), (6, 19, -4, 10)),
    "WARP_SZ": ("mov.u32 %o, WARP_SZ; add.u32 %q, %a, WARP_SZ;", (3,), (32, 35)),
    "special registers of one thread": ("mov.u32 %o, %tid.x; mov.u32 %q, %ntid.y; mov.u32 %r, %nctaid.z; mov.u32 %s, %ntid.z;", (), (0, 1, 1, 1)),
    "old special registers": ("mov.u16 %h, %tid.x; cvt.u32.u16 %o, %h; mov.u16 %h, %ntid.x; cvt.u32.u16 %q, %h; cvt.u32.u16 %r, %ctaid.x;", (), (0, 1, 0)),
    "clusters of one block": ("mov.u32 %o, %clusterid.x; mov.u32 %q, %cluster_nctaid.x; mov.u32 %r, %cluster_ctarank; mov.u32 %s, %cluster_nctarank;", (), (0, 1, 0, 1)),
    "sizes of shared memory": ("mov.u32 %o, %dynamic_smem_size; mov.u32 %q, %nwarpid; setp.ge.u32 %p, %q, 1; selp.u32 %q, 1, 0, %p;", (), (0, 1)),
    "nothing to compute": ("nanosleep.u32 1; nanosleep.u32 %a; membar.cta; membar.gl; membar.sys; fence.sc.cta; fence.acq_rel.sys; fence.proxy.alias; pmevent 3; bar.warp.sync 1;"
                           "griddepcontrol.wait; griddepcontrol.launch_dependents; setmaxnreg.inc.sync.aligned.u32 64; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", (9,), ()),
    "pragmas and lines": ('.pragma "nounroll";\n.loc 1 7 3\nmov.u32 %o, %a;', (9,), (9,)),
    "labels that are not used": ("$L__BB0_1: _x: mov.u32 %o, 4; %L2: mov.u32 %q, 5;", (), (4, 5)),
    "a guard with a literal": ("setp.eq.u32 %p, %a, 1; mov.u32 %o, 7; @%p mov.u32 %o, 8; @!%p mov.u32 %q, 9;", (1,), (8, 0)),
    "a label before a brace": ("bra.uni L1; mov.u32 %o, 1; L1: { mov.u32 %q, 2; bra L2; } mov.u32 %r, 3; L2: mov.u32 %s, 4;", (), (0, 2, 0, 4)),
    "exit ends a thread": ("setp.eq.u32 %p, %a, 1; mov.u32 %o, 3; st.global.u32 [%out], %o; @%p exit; mov.u32 %o, 4;", (1,), (3,)),
    "a register named as an opcode": (".reg .u32 add, mul, x1; mov.u32 add, %a; mul.lo.u32 mul, add, add; mov.u32 %o, mul;", (5,), (25,)),
    "registers in ranges": (".reg .b32 %z<101>, $y<3>, _w; mov.b32 %z100, %a; mov.b32 $y2, %z100; mov.b32 _w, $y2; mov.b32 %o, _w;", (5,), (5,)),
}  # fmt: skip

VALUE_REGISTERS = """.reg .b32 %a, %b, %c, %d, %o, %q, %r, %s; .reg .b64 %x, %y; .reg .b16 %h, %i; .reg .pred %p, %u, %v, %w;
  .reg .f32 %f, %fa, %fb, %fc, %fd; .reg .f64 %dx, %dy; mov.b32 %o, 0; mov.b32 %q, 0; mov.b32 %r, 0; mov.b32 %s, 0;
  ld.global.v4.b32 {%a, %b, %c, %d}, [%in]; ld.global.v2.b64 {%x, %y}, [%in]; ld.global.v4.f32 {%fa, %fb, %fc, %fd}, [%in];
  ld.global.v2.f64 {%dx, %dy}, [%in]; ld.global.b16 %h, [%in]; ld.global.b16 %i, [%in+4];
"""


def value_text(name: str) -> str:
    """Return a module whose kernel reads four words and writes four."""
    body = f"{VALUE_REGISTERS}{VALUES[name][0]}\nst.global.v4.b32 [%out], {{%o, %q, %r, %s}};"
    return module(body, target=TARGETS.get(name, "sm_90"))


@pytest.mark.parametrize("name", VALUES)
def test_a_value(name: str) -> None:
    _, given, want = VALUES[name]
    got = run(value_text(name), u32(*given, *(0,) * (4 - len(given))), np.zeros(4, np.uint32))
    assert [hex(x) for x in got[: len(want)]] == [hex(x & MASK) for x in want]


ONE = "ld.global.u32 %r0, [%in]; "
FUNCTIONS = """.func (.reg .u32 q) half(.reg .u32 a) { div.u32 q, a, 2; ret; }
.func (.param .b32 out) count(.param .b32 n)
{ .reg .b32 %n, %m; .reg .pred %p; ld.param.b32 %n, [n]; setp.eq.u32 %p, %n, 0; mov.u32 %m, 0; @%p bra END; sub.u32 %n, %n, 1;
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %n; call.uni (y), count, (x); ld.param.b32 %m, [y]; } add.u32 %m, %m, 1;
END: st.param.b32 [out], %m; ret; }
.func (.param .align 8 .b8 out[16]) pair(.param .align 8 .b8 in[16])
{ .reg .b64 %x, %y; ld.param.v2.b64 {%x, %y}, [in]; st.param.b64 [out], %y; st.param.b64 [out+8], %x; ret; }
.func write(.param .b64 where, .param .b32 what) { .reg .b64 %w; .reg .b32 %v; ld.param.b64 %w, [where]; ld.param.b32 %v, [what]; st.b32 [%w], %v; ret; }
.func none() .noreturn { trap; }
.func early(.reg .b64 where) { .reg .pred %p; .reg .b32 %v; ld.b32 %v, [where]; setp.eq.u32 %p, %v, 1; @%p ret; st.b32 [where], 1; ret.uni; }
"""

#: name: (kernel body, what stands before it, input words, output words)
PROGRAMS: dict[str, tuple[str, str, tuple[int, ...], tuple[int, ...]]] = {
    "bytes and halves": ("ld.global.u8 %r0, [%in]; ld.global.s16 %r1, [%in+2]; ld.global.b8 %r2, [%in+1]; st.global.b16 [%out], %r1; st.global.v2.u8 [%out+2], {%r0, %r2};", "",
                         (0x80FF1234,), (0x123480FF,)),
    "a float in a register of bits": ("ld.global.f32 %r0, [%in]; add.f32 %r0, %r0, 0f3F800000; st.global.f32 [%out], %r0;", "", (f(2),), (f(3),)),
    "without a space": ("ld.f32 %f0, [%in+4]; st.f32 [%out], %f0; ld.b64 %rd0, [%in]; st.b64 [%out+8], %rd0;", "", (1, 2), (2, 0, 1, 2)),
    "eight at once": ("ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%in]; st.global.v8.b32 [%out], {%r7, %r6, %r5, %r4, %r3, %r2, %r1, %r0};", "",
                      tuple(range(8)), tuple(range(7, -1, -1))),
    "four doublewords": ("ld.global.v4.b64 {%rd0, %rd1, %rd2, %rd3}, [%in]; st.global.v4.b64 [%out], {%rd3, %rd2, %rd1, %rd0};", "", tuple(range(8)), (6, 7, 4, 5, 2, 3, 0, 1)),
    "cache operators": ("ld.global.ca.u32 %r0, [%in]; ld.global.cg.u32 %r1, [%in]; ld.global.lu.u32 %r2, [%in]; ld.global.cv.u32 %r3, [%in]; ldu.global.u32 %r4, [%in]; ld.weak.global.u32 %r5, [%in];"
                        "st.global.wb.u32 [%out], %r0; st.global.wt.u32 [%out+4], %r4; st.weak.global.cg.u32 [%out+8], %r5;", "", (6,), (6, 6, 6)),
    "atomic loads and stores": ("ld.relaxed.gpu.global.v2.b32 {%r0, %r1}, [%in]; fence.sc.gpu; st.release.gpu.global.v2.b32 [%out], {%r1, %r0}; ld.acquire.sys.u64 %rd0, [%in]; st.relaxed.sys.u64 [%out+8], %rd0;",
                                "", (1, 2), (2, 1, 1, 2)),
    "non-coherent loads": ("ld.global.nc.v4.f32 {%f0, %f1, %f2, %f3}, [%in]; st.global.f32 [%out], %f3; ld.global.nc.L1::evict_last.u64 %rd0, [%in];", "", (1, 2, 3, 4), (4,)),
    "a policy of caches": ("createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %rd0, 0.5; createpolicy.range.L2::evict_last.b64 %rd1, [%in], 64, 128;"
                           "ld.global.L2::cache_hint.v2.u32 {%r0, %r1}, [%in], %rd0; st.global.L2::cache_hint.u32 [%out], %r1, %rd1; prefetchu.L1 [%in];", "", (1, 2), (2,)),
    "global variables": ("ld.global.u32 %r0, [g]; ld.global.u32 %r1, [g+8]; mov.u64 %rd0, g; ld.global.u32 %r2, [%rd0+4]; st.global.v2.u32 [%out], {%r0, %r1}; st.global.u32 [%out+8], %r2;",
                         ".visible .global .align 16 .u32 g[4] = {1, 2, 0x3};\n", (), (1, 3, 2)),
    "floats in globals": ("ld.global.v2.f32 {%f0, %f1}, [g]; ld.global.f64 %d0, [e]; cvt.rn.f32.f64 %f2, %d0; ld.global.b16 %h0, [n]; cvt.u32.u16 %r0, %h0; st.global.v2.f32 [%out], {%f0, %f1}; st.global.f32 [%out+8], %f2; st.global.u32 [%out+12], %r0;",
                          ".global .align 8 .f32 g[2] = {1.5, 0f40000000};\n.global .f64 e = -0.25;\n.global .align 4 .u16 n[2] = {65535, 1};\n", (), (f(1.5), f(2), f(-0.25), 65535)),
    "writes to globals stay": ("st.global.u32 [g], 5; red.global.add.u32 [g], 2; ld.global.u32 %r0, [g]; st.global.u32 [%out], %r0;", ".global .u32 g;\n", (), (7,)),
    "addresses of constants": ("ld.const.u64 %rd0, [p]; mov.u64 %rd1, c; sub.u64 %rd2, %rd0, %rd1; ld.const.u32 %r0, [%rd0]; cvt.u32.u64 %r1, %rd2; st.global.v2.u32 [%out], {%r0, %r1};",
                               ".const .u32 c[3] = {7, 8, 9};\n.const .u64 p[1] = {c+8};\n", (), (9, 8)),
    "addresses in generic space": ("ld.global.u64 %rd0, [p+8]; ld.u32 %r0, [%rd0]; cvta.to.global.u64 %rd1, %rd0; ld.global.u32 %r1, [%rd1+4]; st.global.v2.u32 [%out], {%r0, %r1};",
                                   ".global .u32 c[3] = {7, 8, 9};\n.global .u64 p[2] = {0, generic(c)+4};\n", (), (8, 9)),
    "constants of bytes": ("ld.const.v4.u8 {%r0, %r1, %r2, %r3}, [t]; st.global.v4.u32 [%out], {%r3, %r2, %r1, %r0};", ".const .align 4 .b8 t[4] = {1, 2, 0xFF, 97};\n", (), (97, 255, 2, 1)),
    "an address and its difference": ("mov.u64 %rd0, g; mov.u64 %rd1, g+8; sub.s64 %rd2, %rd1, %rd0; st.global.u64 [%out], %rd2;", ".global .align 8 .b8 g[32];\n", (), (8, 0)),
    "static shared memory": (ONE + "st.shared.u32 [s], %r0; st.shared.v2.u32 [s+8], {%r0, 5}; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s]; st.global.v2.u32 [%out], {%r1, %r4};", ".shared .align 16 .b8 s[16];\n", (9,), (9, 5)),
    "shared memory of a launch": (ONE + "mov.u32 %r1, e; st.shared.u32 [%r1+8], %r0; ld.shared.u32 %r2, [e+8]; st.global.u32 [%out], %r2;", ".extern .shared .align 16 .b8 e[];\n", (9,), (9,)),
    "shared memory of both kinds": (ONE + "st.shared.u32 [s], %r0; st.shared.u32 [e], 4; ld.shared.u32 %r1, [s]; ld.shared.u32 %r2, [e]; st.global.v2.u32 [%out], {%r1, %r2};",
                                    ".shared .b32 s[3];\n.extern .shared .b32 e[];\n", (9,), (9, 4)),
    "shared memory in a function": ("call put, (); ld.shared.u32 %r0, [e+4]; ld.shared.u32 %r1, [s]; st.global.v2.u32 [%out], {%r0, %r1};",
                                    ".shared .u32 s;\n.extern .shared .align 4 .b8 e[];\n.func put() { st.shared.u32 [e+4], 11; st.shared.u32 [s], 12; ret; }\n", (), (11, 12)),
    "a shared pointer of 64 bits": (".shared .align 8 .b8 s[16]; mov.u64 %rd0, s; add.u64 %rd0, %rd0, 8; st.shared.u64 [%rd0], 3; cvta.shared.u64 %rd1, %rd0; ld.u64 %rd2, [%rd1]; cvta.to.shared.u64 %rd3, %rd1;"
                                    "sub.u64 %rd3, %rd3, %rd0; st.global.v2.u64 [%out], {%rd2, %rd3};", "", (), (3, 0, 0, 0)),
    "shared::cta": (".shared .b32 s; st.shared::cta.u32 [s], 3; ld.shared::cta.u32 %r0, [s]; mapa.shared::cluster.u32 %r1, s, 0; ld.shared::cluster.u32 %r2, [%r1]; st.global.v2.u32 [%out], {%r0, %r2};", "", (), (3, 3)),
    "local variables": (".local .align 16 .b8 l[32]; mov.u64 %rd0, l; st.local.v4.u32 [%rd0+16], {1, 2, 3, 4}; ld.local.u64 %rd1, [l+24]; cvta.local.u64 %rd2, %rd0; ld.u32 %r0, [%rd2+20]; st.global.u64 [%out], %rd1; st.global.u32 [%out+8], %r0;",
                        "", (), (3, 4, 2)),
    "locals of the same name": ("{ .local .b32 l; st.local.u32 [l], 1; { .local .b32 l; st.local.u32 [l], 2; } ld.local.u32 %r0, [l]; } st.global.u32 [%out], %r0;", "", (), (1,)),
    "alloca": ("alloca.u64 %rd0, 16; alloca.u64 %rd1, 32, 16; st.local.u32 [%rd0], 3; st.local.u32 [%rd1], 4; ld.local.u32 %r0, [%rd0]; and.b64 %rd2, %rd1, 15; stacksave.u64 %rd3; stackrestore.u64 %rd3; st.global.u32 [%out], %r0; st.global.u32 [%out+4], %rd2;",
               "", (), (3, 0)),
    "a range beside a register": (".reg .u32 %z<3>, %z; mov.u32 %z, 4; mov.u32 %z1, 5; add.u32 %z2, %z, %z1; st.global.u32 [%out], %z2;", "", (), (9,)),
    "a range hides part of another": ("mov.u32 %r7, 3; { .reg .u32 %r<2>; mov.u32 %r1, 4; add.u32 %r7, %r7, %r1; } st.global.u32 [%out], %r7;", "", (), (7,)),
    "a register hides another": ("mov.u32 %r1, 3; { .reg .u64 %r1; mov.u64 %r1, 4; } st.global.u32 [%out], %r1;", "", (), (3,)),
    "code without a label": ("bra END; ld.u64 %rd0, [%out]; add.u64 %rd0, %rd0, 1; END: st.u32 [%out], 2;", "", (), (2,)),
    "a jump back": ("mov.u32 %r0, 5; mov.u32 %r1, 1; L: mul.lo.u32 %r1, %r1, %r0; sub.u32 %r0, %r0, 1; setp.gt.u32 %p0, %r0, 0; @%p0 bra.uni L; st.global.u32 [%out], %r1;", "", (), (120,)),
    "a table of jumps": (ONE + "T: .branchtargets A, B, A; brx.idx.uni %r0, T; A: mov.u32 %r1, 1; bra E; B: mov.u32 %r1, 2; E: st.global.u32 [%out], %r1;", "", (2,), (1,)),
    "a call with a register": (ONE + "call (%r1), half, (%r0); call.uni (%r2), half, (%r1); st.global.v2.u32 [%out], {%r1, %r2};", FUNCTIONS, (20,), (10, 5)),
    "a call with literals": ("call (%r1), half, (42); st.global.u32 [%out], %r1;", FUNCTIONS, (), (21,)),
    "recursion": (ONE + "{ .param .b32 a; .param .b32 b; st.param.b32 [a+0], %r0; call.uni (b), count, (a); ld.param.b32 %r1, [b+0]; } st.global.u32 [%out], %r1;", FUNCTIONS, (40,), (40,)),
    "structures by value": ("{ .param .align 8 .b8 a[16]; .param .align 8 .b8 b[16]; st.param.b64 [a], 3; st.param.b64 [a+8], 4; call (b), pair, (a); ld.param.v2.b64 {%rd0, %rd1}, [b]; } st.global.v2.u64 [%out], {%rd0, %rd1};",
                            FUNCTIONS, (), (4, 0, 3, 0)),
    "a call without a result": ("{ .param .b64 a; .param .b32 b; st.param.b64 [a], %out; st.param.b32 [b], 6; call write, (a, b); }", FUNCTIONS, (), (6,)),
    "an early return": ("call early, (%out); add.u64 %rd0, %out, 4; st.global.u32 [%rd0], 1; call early, (%rd0);", FUNCTIONS, (), (1, 1)),
    "a function that does not return": (ONE + "setp.eq.u32 %p0, %r0, 1; @%p0 call none; st.global.u32 [%out], 8;", FUNCTIONS, (0,), (8,)),
    "a pointer to a function": ("mov.u64 %rd0, half; P: .callprototype (.reg .u32 _) _ (.reg .u32 _); call (%r1), %rd0, (12), P; st.global.u32 [%out], %r1;", FUNCTIONS, (), (6,)),
    "a list of call targets": ("mov.u64 %rd0, half; T: .calltargets half; call (%r1), %rd0, (12), T; st.global.u32 [%out], %r1;", FUNCTIONS, (), (6,)),
    "a pointer kept in shared memory": (".shared .b64 s; mov.u64 %rd0, write; st.shared.u64 [s], %rd0; ld.shared.u64 %rd1, [s]; { .param .b64 a; .param .b32 b; st.param.b64 [a], %out; st.param.b32 [b], 2; P: .callprototype _ (.param .b64 _, .param .b32 _); call %rd1, (a, b), P; }",
                                        FUNCTIONS, (), (2,)),
    "a function of another name space": ("call (%r0), _ZN3foo3barEi, (3); st.global.u32 [%out], %r0;", ".weak .func (.reg .b32 r) _ZN3foo3barEi(.reg .b32 a) { add.u32 r, a, 1; ret; }\n", (), (4,)),
    "a prototype before its function": ("call (%r0), later, (3); st.global.u32 [%out], %r0;", ".func (.reg .b32 r) later(.reg .b32 a);\n.func (.reg .b32 r) later(.reg .b32 a) { add.u32 r, a, 2; ret; }\n", (), (5,)),
    "an unused extern function": ("st.global.u32 [%out], 5;", ".extern .func (.param .b32 r) elsewhere(.param .b64 x);\n", (), (5,)),
    "a parameter's address": ("mov.b64 %rd0, input; ld.param.b64 %rd1, [%rd0]; sub.u64 %rd1, %rd1, %in; st.global.u64 [%out], %rd1; ld.param.u32 %r0, [input+4]; ld.param.v2.u32 {%r1, %r2}, [input]; sub.u32 %r0, %r0, %r2; st.global.u32 [%out+8], %r0;", "", (), (0, 0, 0)),
    "parameter spaces": ("ld.param::entry.u64 %rd0, [output]; st.global.u32 [%rd0], 4;", "", (), (4,)),
    "compare and swap": ("st.global.u32 [%out], 4; atom.global.cas.b32 %r0, [%out], 4, 9; atom.cas.b32 %r1, [%out], 4, 10; st.global.v2.u32 [%out+8], {%r0, %r1};", "", (), (9, 0, 4, 9)),
    "swap of 64 bits": ("st.global.u64 [%out], 4; atom.acq_rel.gpu.global.cas.b64 %rd0, [%out], 4, 9; atom.exch.b64 %rd1, [%out], 7; st.global.u64 [%out+8], %rd1;", "", (), (7, 0, 9, 0)),
    "128 bits swapped": (".reg .b128 %x, %y, %z; ld.global.b128 %x, [%in]; mov.b128 %y, {%in, %in}; atom.global.exch.b128 %z, [%in], %y; atom.cas.b128 %z, [%in], %y, %x; ld.global.b128 %x, [%in]; st.global.b128 [%out], %x;", "", (1, 2, 3, 4), (1, 2, 3, 4)),
    "16 bits swapped": ("st.global.u32 [%out], 0x10002; mov.u16 %h0, 2; mov.u16 %h1, 7; atom.global.cas.b16 %h2, [%out], %h0, %h1; cvt.u32.u16 %r0, %h2; st.global.u32 [%out+4], %r0;", "", (), (0x10007, 2)),
    "inc and dec": ("st.global.u32 [%out], 4; atom.global.inc.u32 %r0, [%out], 4; atom.global.inc.u32 %r1, [%out], 4; atom.global.dec.u32 %r2, [%out], 9; atom.global.dec.u32 %r3, [%out], 9; st.global.v2.u32 [%out+8], {%r1, %r3};", "", (), (9, 0, 0, 0)),
    "atomic minimum and maximum": ("st.global.u32 [%out], -5; red.global.max.s32 [%out], 3; red.global.min.u32 [%out], 2; atom.max.u32 %r0, [%out], 8; ld.global.u32 %r1, [%out]; st.global.v2.u32 [%out+8], {%r0, %r1};", "", (), (8, 0, 2, 8)),
    "atomic sums of floats": ("red.global.add.f32 [%out], 0f3F800000; atom.global.add.f32 %f0, [%out], 0f40000000; atom.relaxed.gpu.global.add.f64 %d0, [%out+8], 0d3FF0000000000000; st.global.f32 [%out+4], %f0;", "", (), (f(3), f(1), *q(1.0))),
    "atomic sums of halves": ("mov.b32 %r0, 0x3C003C00; red.global.add.noftz.f16x2 [%out], %r0; atom.global.add.noftz.f16x2 %r1, [%out], %r0; mov.b16 %h0, 0x3F80; atom.global.add.noftz.bf16 %h1, [%out+4], %h0; st.global.u32 [%out+8], %r1;", "", (), (h(2, 2), 0x3F80, h(1, 1))),
    "atomic sums of vectors": ("mov.f32 %f0, 0f3F800000; red.global.add.v2.f32 [%out], {%f0, %f0}; atom.global.v2.f32.add {%f1, %f2}, [%out], {%f0, %f0}; st.global.v2.f32 [%out+8], {%f1, %f2};", "", (), (f(2), f(2), f(1), f(1))),
    "atomics in shared memory": (".shared .u32 s; st.shared.u32 [s], 1; atom.shared.add.u32 %r0, [s], 4; atom.shared.or.b32 %r1, [s], 8; red.shared.xor.b32 [s], 1; atom.shared::cta.and.b32 %r2, [s], 15; st.global.v4.u32 [%out], {%r0, %r1, %r2, 0};", "", (), (1, 5, 12)),
    "bar.red in a block of one": ("setp.eq.u32 %p0, 1, 1; bar.red.and.pred %p1, 0, %p0; barrier.red.popc.u32 %r0, 0, %p0; bar.red.or.pred %p2, 1, 32, !%p0; selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 1, 0, %p2; st.global.v4.u32 [%out], {%r0, %r1, %r2, 0};", "", (), (1, 1, 0)),
    "barriers of one thread": ("bar.sync 0; barrier.sync 1; barrier.sync.aligned 2; bar.arrive 3, 64; barrier.cta.sync 0; st.global.u32 [%out], 1;", "", (), (1,)),
    "asynchronous copies": (".shared .align 16 .b8 s[16]; mov.u32 %r0, s; cp.async.ca.shared.global [%r0], [%in], 4; cp.async.ca.shared::cta.global.L2::128B [%r0+8], [%in+8], 8, 4; cp.async.wait_all; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s];"
                            "st.global.v2.u32 [%out], {%r3, %r4}; st.global.u32 [%out+8], %r1;", "", (1, 2, 3), (3, 0, 1)),
    "a guard on each instruction": (ONE + "setp.gt.s32 %p0|%p1, %r0, 3; @%p0 ld.global.u32 %r1, [%in+4]; @%p1 mov.u32 %r1, 0; @%p0 add.u32 %r1, %r1, 1; @!%p1 st.global.u32 [%out], %r1;", "", (4, 8), (9,)),
    "comments": ("/* one; { */ mov.u32 %r0, 3; // two }\n st.global.u32 [%out], %r0; /* three */", "// head\n/* .global .u32 x; */\n", (), (3,)),
    "debug sections": (".loc 1 4 5\n.loc 1 2 3, function_name $L__info0, inlined_at 1 4 5\n st.global.u32 [%out], 3;", '.file 1 "a.cu", 123, 456\n.section .debug_str { $L__info0: .b8 102,0 }\n', (), (3,)),
    "directives for tuning": ("st.global.u32 [%out], 3;", ".weak .global .u32 w = 1;\n.common .global .u32 c;\n.visible .entry other() .maxntid 128, 1, 1 .minnctapersm 2 .maxnreg 32 { ret; }\n.entry third() .reqntid 32 { exit; }\n", (), (3,)),
}  # fmt: skip


def program_text(name: str) -> str:
    """Return a module whose kernel reads eight words and writes eight."""
    body, before, _, _ = PROGRAMS[name]
    return module(body, before, TARGETS.get(name, "sm_90"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name: str) -> None:
    _, _, given, want = PROGRAMS[name]
    got = run(program_text(name), u32(*given, *(0,) * (8 - len(given))), np.zeros(8, np.uint32), shared=64)
    assert [hex(x) for x in got[: len(want)]] == [hex(x & MASK) for x in want]


TWO = range(64)
#: name: (body, what 64 threads give). %r0 is the thread's number, %r2 its lane, %r3 its warp; %r1 goes out.
WARPS: dict[str, tuple[str, list[int]]] = {
    "thread numbers": ("mov.u32 %r1, %tid.x;", [*TWO]),
    "lanes and warps": ("mad.lo.u32 %r1, %r3, 100, %r2;", [t // 32 * 100 + t % 32 for t in TWO]),
    "masks of lanes": ("mov.u32 %r4, %lanemask_eq; mov.u32 %r5, %lanemask_le; mov.u32 %r6, %lanemask_gt; xor.b32 %r1, %r5, %r6; sub.u32 %r1, %r1, %r4;", [MASK - (1 << t % 32) for t in TWO]),
    "activemask of all": ("activemask.b32 %r1;", [MASK] * 64),
    "activemask of odd lanes": ("and.b32 %r4, %r0, 1; setp.eq.u32 %p0, %r4, 1; @!%p0 bra E; activemask.b32 %r1; bra E; E:", [0xAAAAAAAA if t % 2 else 0 for t in TWO]),
    "shuffle up beyond the first": ("shfl.sync.up.b32 %r1|%p0, %r0, 2, 0, -1; @!%p0 mov.u32 %r1, 500;", [500 if t % 32 < 2 else t - 2 for t in TWO]),
    "shuffle down beyond the last": ("shfl.sync.down.b32 %r1|%p0, %r0, 4, 31, -1; @!%p0 add.u32 %r1, %r1, 500;", [t + 500 if t % 32 > 27 else t + 4 for t in TWO]),
    "shuffle within parts": ("shfl.sync.down.b32 %r1, %r0, 1, 0x1C03, -1;", [t if t % 4 == 3 else t + 1 for t in TWO]),
    "shuffle by exchange": ("shfl.sync.bfly.b32 %r1|%p0, %r0, 16, 31, -1; @!%p0 mov.u32 %r1, 0;", [t ^ 16 for t in TWO]),
    "shuffle from a computed lane": ("sub.u32 %r4, 31, %r2; shfl.sync.idx.b32 %r1, %r0, %r4, 31, -1;", [t // 32 * 32 + 31 - t % 32 for t in TWO]),
    "shuffle from a lane out of range": ("shfl.sync.idx.b32 %r1|%p0, %r0, 9, 7, -1; @%p0 bra E; mov.u32 %r1, %r0; E:", [*TWO]),
    "shuffle by part of a warp": ("setp.lt.u32 %p0, %r2, 8; mov.u32 %r1, 0; @%p0 shfl.sync.idx.b32 %r1, %r0, 7, 31, 0xFF;", [t // 32 * 32 + 7 if t % 32 < 8 else 0 for t in TWO]),
    "vote.all": ("setp.ne.u32 %p0, %r0, 5; vote.sync.all.pred %p1, %p0, -1; selp.u32 %r1, 1, 0, %p1;", [t // 32 for t in TWO]),
    "vote.any": ("setp.eq.u32 %p0, %r0, 5; vote.sync.any.pred %p1, %p0, -1; selp.u32 %r1, 1, 0, %p1;", [1 - t // 32 for t in TWO]),
    "vote.uni": ("setp.lt.u32 %p0, %r0, 40; vote.sync.uni.pred %p1, %p0, -1; selp.u32 %r1, 1, 0, %p1;", [1 - t // 32 for t in TWO]),
    "vote.ballot": ("setp.ge.u32 %p0, %r0, 36; vote.sync.ballot.b32 %r1, %p0, -1;", [0xFFFFFFF0 if t > 31 else 0 for t in TWO]),
    "votes of a branch": ("mov.u32 %r1, 9; setp.lt.u32 %p0, %r2, 4; @!%p0 bra E; setp.eq.u32 %p1, %r2, 1; vote.sync.ballot.b32 %r1, %p1, 0xF; E:", [2 if t % 32 < 4 else 9 for t in TWO]),
    "match.any": ("and.b32 %r4, %r2, 1; match.any.sync.b32 %r1, %r4, -1;", [0xAAAAAAAA if t % 2 else 0x55555555 for t in TWO]),
    "match.any of 64 bits": ("mul.wide.u32 %rd0, %r3, 7; match.any.sync.b64 %r1, %rd0, -1;", [MASK] * 64),
    "match.all that differ": ("match.all.sync.b32 %r1|%p0, %r0, -1; selp.u32 %r4, 8, 4, %p0; add.u32 %r1, %r1, %r4;", [4] * 64),
    "redux of signed": ("sub.s32 %r4, %r0, 40; redux.sync.min.s32 %r5, %r4, -1; redux.sync.max.s32 %r6, %r4, -1; sub.s32 %r1, %r6, %r5;", [31] * 64),
    "redux of bits": ("redux.sync.or.b32 %r4, %r0, -1; redux.sync.and.b32 %r5, %r0, -1; redux.sync.xor.b32 %r6, %r0, -1; shl.b32 %r4, %r4, 8; or.b32 %r1, %r4, %r5; add.u32 %r1, %r1, %r6;", [31 << 8] * 32 + [63 << 8 | 32] * 32),
    "redux of a part": ("mov.u32 %r1, 0; and.b32 %r4, %r0, 1; setp.eq.u32 %p0, %r4, 0; @%p0 redux.sync.add.u32 %r1, %r0, 0x55555555;", [0 if t % 2 else 240 + t // 32 * 512 for t in TWO]),
    "elect": ("elect.sync _|%p0, -1; selp.u32 %r1, 1, 0, %p0;", [int(t % 32 == 0) for t in TWO]),
    "bar.sync": ("mul.lo.u32 %r4, %r0, 4; mov.u32 %r5, box; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r0; bar.sync 0; sub.u32 %r6, 63, %r0; mad.lo.u32 %r6, %r6, 4, %r5; ld.shared.u32 %r1, [%r6];", [63 - t for t in TWO]),
    "bar.red": ("setp.ne.u32 %p0, %r0, 63; barrier.cta.red.and.pred %p1, 0, %p0; barrier.cta.red.or.pred %p2, 0, %p0; barrier.cta.red.popc.u32 %r1, 0, %p0; @%p1 mov.u32 %r1, 0; @!%p2 mov.u32 %r1, 0;", [63] * 64),
    "arrive and sync": ("setp.eq.u32 %p0, %r3, 0; @%p0 st.shared.u32 [box], 5; @%p0 bar.arrive 1, 64; @!%p0 bar.sync 1, 64; mov.u32 %r1, 5; @!%p0 ld.shared.u32 %r1, [box];", [5] * 64),
    "a barrier of one warp": ("setp.eq.u32 %p0, %r3, 1; @%p0 barrier.sync 2, 32; mov.u32 %r1, 1;", [1] * 64),
    "bar.warp.sync": ("mul.lo.u32 %r4, %r2, 4; mov.u32 %r5, box; add.u32 %r4, %r4, %r5; setp.eq.u32 %p0, %r3, 0; @%p0 st.shared.u32 [%r4], %r2; bar.warp.sync -1; bar.sync 0; xor.b32 %r6, %r2, 1; mad.lo.u32 %r6, %r6, 4, %r5; ld.shared.u32 %r1, [%r6];", [(t ^ 1) % 32 for t in TWO]),
    "atomics of all lanes": ("st.shared.u32 [count], 0; bar.sync 0; atom.shared.add.u32 %r4, [count], 1; bar.sync 0; ld.shared.u32 %r1, [count];", [64] * 64),
    "a lock of lanes": ("st.shared.u32 [count], 0; st.shared.u32 [box], 0; bar.sync 0; L: atom.shared.cas.b32 %r4, [count], 0, 1; setp.ne.u32 %p0, %r4, 0; @%p0 bra L; ld.shared.u32 %r5, [box]; add.u32 %r5, %r5, 1; st.shared.u32 [box], %r5; membar.cta; atom.shared.exch.b32 %r4, [count], 0; bar.sync 0; ld.volatile.shared.u32 %r1, [box];", [64] * 64),
    "branches within branches": ("mov.u32 %r1, 0; setp.lt.u32 %p0, %r2, 16; and.b32 %r4, %r2, 1; setp.eq.u32 %p1, %r4, 0; @%p0 bra A; add.u32 %r1, %r1, 1; bra C; A: @%p1 bra B; add.u32 %r1, %r1, 2; bra C; B: add.u32 %r1, %r1, 4; C: add.u32 %r1, %r1, 10;",
                                 [10 + (1 if t % 32 > 15 else 4 if t % 2 == 0 else 2) for t in TWO]),
    "loops of different length": ("mov.u32 %r1, 0; mov.u32 %r4, %r0; L: setp.eq.u32 %p0, %r4, 0; @%p0 bra E; add.u32 %r1, %r1, %r4; sub.u32 %r4, %r4, 1; bra L; E:", [t * (t + 1) // 2 for t in TWO]),
    "calls of different functions": ("mov.u64 %rd0, one; mov.u64 %rd1, two; setp.lt.u32 %p0, %r2, 9; selp.b64 %rd2, %rd0, %rd1, %p0; P: .callprototype (.reg .u32 _) _ (.reg .u32 _); call (%r1), %rd2, (%r0), P;", [t + 1 if t % 32 < 9 else t + 2 for t in TWO]),
    "an exit of some": ("setp.ge.u32 %p0, %r2, 2; mov.u32 %r1, 3; @%p0 exit; bar.warp.sync 3; vote.sync.ballot.b32 %r1, 1, 3;", [3 if t % 32 < 2 else 0 for t in TWO]),
    "a matrix of eight by eight": ("mul.lo.u32 %r4, %r2, 4; mov.u32 %r5, box; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r2; bar.sync 0; and.b32 %r6, %r2, 7; mad.lo.u32 %r6, %r6, 16, %r5; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r6];", [t % 32 for t in TWO]),
}  # fmt: skip
BOX = """.shared .align 16 .b8 box[256];
.shared .align 4 .u32 count;
.func (.reg .u32 r) one(.reg .u32 a) { add.u32 r, a, 1; ret; }
.func (.reg .u32 r) two(.reg .u32 a) { add.u32 r, a, 2; ret; }
"""
NUMBERS = "mov.u32 %r0, %tid.x; mov.u32 %r2, %laneid; shr.u32 %r3, %r0, 5; mov.u32 %r1, 0; "


def warp_text(name: str) -> str:
    """Return a module in whose kernel each lane of two warps writes one word."""
    return module(f"{NUMBERS}{WARPS[name][0]} st.global.u32 [%out4], %r1;", BOX)


@pytest.mark.parametrize("name", WARPS)
def test_two_warps(name: str) -> None:
    _, want = WARPS[name]
    assert run(warp_text(name), u32(0), np.zeros(64, np.uint32), 64).tolist() == want


#: name: (kernel body, what stands before it, the kind of the error, what it says)
FAILURES: dict[str, tuple[str, str, str, str]] = {
    "trap": ("trap;", "", "trap", ""),
    "a guarded trap": ("setp.eq.u32 %p0, %t, 0; @%p0 trap;", "", "trap", ""),
    "brkpt without a debugger": ("brkpt;", "", "trap", ""),
    "an assertion": ("mov.u64 %rd0, words; cvta.global.u64 %rd0, %rd0; { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], %rd0; st.param.b64 [b], %rd0; st.param.b32 [c], 7;"
                     "st.param.b64 [d], %rd0; st.param.b64 [e], 1; call.uni __assertfail, (a, b, c, d, e); }",
                     ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n.global .align 1 .b8 words[4] = {120, 62, 48, 0};\n", "assert", "x>0"),
    "a function that is nowhere": ("call elsewhere, ();", ".extern .func elsewhere();\n", "unsupported", "elsewhere"),
    "an address of nothing": ("mov.u64 %rd0, 0; ld.global.u32 %r0, [%rd0];", "", "illegal-address", ""),
    "beyond the end": ("st.global.u32 [%out+4096], 1;", "", "illegal-address", ""),
    "beyond shared memory": ("mov.u32 %r0, 1000000; st.shared.u32 [%r0], 1;", "", "illegal-address", ""),
    "an address between": ("ld.global.u32 %r0, [%in+2];", "", "misaligned", ""),
    "a texture": ("tex.1d.v4.s32.s32 {%r0, %r1, %r2, %r3}, [t, {%r4}];", ".global .texref t;\n.global .samplerref s = { addr_mode_0 = clamp_to_border, filter_mode = nearest };\n", "unsupported", "tex.1d"),
    "an unknown instruction": ("frobnicate.u32 %r0, 1;", "", "unsupported", "frobnicate"),
    "an unknown register": ("mov.u32 %nothing, 1;", "", "unsupported", "%nothing"),
    "an unknown label": ("bra NOWHERE;", "", "invalid-ptx", "NOWHERE"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure(name: str) -> None:
    body, before, kind, words = FAILURES[name]
    with pytest.raises(PtxError) as caught:
        run(module(body, before), u32(0), np.zeros(4, np.uint32))
    assert caught.value.kind == kind, str(caught.value)
    assert words in caught.value.text


def test_eight_bytes_at_once() -> None:
    """NVIDIA's assembler refuses vectors of eight bytes; the engine takes what a tool may write."""
    body = (
        "ld.global.v8.u8 {%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}, [%in];"
        "st.global.v8.u8 [%out], {%h7, %h0, %h1, %h2, %h3, %h4, %h5, %h6};"
    )
    got = run(module(body), u32(0x04030201, 0x08070605), np.zeros(2, np.uint32))
    assert got.tolist() == [0x03020108, 0x07060504]


def test_a_matrix_load_without_a_count_is_refused() -> None:
    body = ".shared .align 16 .b8 s[16]; mov.u32 %r0, s; ldmatrix.sync.aligned.m8n8.shared.b16 {%r1}, [%r0];"
    with pytest.raises(PtxError) as caught:
        run(module(body), u32(0), np.zeros(1, np.uint32))
    assert caught.value.kind == "unsupported"


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas, NVIDIA's assembler, is not in PATH")
def test_nvidias_assembler_takes_each_text(tmp_path: Path) -> None:
    texts = [
        *((name, value_text(name)) for name in VALUES),
        *((name, program_text(name)) for name in PROGRAMS),
        *((name, warp_text(name)) for name in WARPS),
    ]
    refused = {}
    for name, text in texts:
        line = ["ptxas", f"-arch={TARGETS.get(name, 'sm_90')}", "-o", str(tmp_path / "out"), "-"]
        done = subprocess.run(line, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            refused[name] = done.stderr
    assert not refused
