"""The kernels that a policy needs besides matrix products, as PTX of ours.

``entry`` (``probes/assembly.py``) writes a kernel's head: parameters are in registers of their names, ``%i`` is the
thread's number in the grid, ``%t`` in its block, and threads from ``n`` on end at once.
"""

from __future__ import annotations

import re
import struct
import sys
from math import e, log, log2, pi
from pathlib import Path
from typing import Dict

sys.path.append(str(Path(__file__).resolve().parents[1] / "probes"))

from assembly import entry
from environment import MASSES, OBSERVED

#: A gathered row: what was seen, forces, log probability, advantage, value target.
ROW = OBSERVED + MASSES + 3
#: What ``act`` writes for a chain: forces, log probability, value.
ACTED = MASSES + 2
#: Blocks of the first half of the norm's sum; its second half is one block of as many threads.
PARTS = 256
THREADS = 256


def single(value: float) -> str:
    """Write a number as PTX writes floats."""
    return "0f%08X" % struct.unpack("<I", struct.pack("<f", value))[0]


#: Words that stand for numbers below.
WORDS: Dict[str, str] = {
    "ZERO": single(0), "ONE": single(1), "TWO": single(2), "HALF": single(0.5), "MINUS_HALF": single(-0.5),
    "TINY": single(1e-6), "LOG2_E": single(log2(e)), "HALF_LOG_TWO_PI": single(0.5 * log(2 * pi)),
    "MASSES": str(MASSES), "ACTED": str(ACTED), "ROW": str(ROW), "SEEN_BYTES": str(4 * OBSERVED),
    "STRIDE": str(PARTS * THREADS),
}  # fmt: skip

GATHER = """
    div.u32 %r0, %i, %width; rem.u32 %r1, %i, %width;
    mad.wide.u32 %d0, %r0, 4, %rows; ld.global.u32 %r2, [%d0];
    mad.lo.u32 %r3, %r2, %width, %r1; mad.wide.u32 %d1, %r3, 4, %a; ld.global.f32 %f0, [%d1];
    mad.wide.u32 %d2, %i, 4, %out; st.global.f32 [%d2], %f0;
"""
#: tanh(x) = 1 - 2 / (exp(2 x) + 1): right at both ends, where the exponential is infinite or zero.
ACTIVATE = """
    rem.u32 %r0, %i, %width; mad.wide.u32 %d0, %r0, 4, %bias; ld.global.f32 %f0, [%d0];
    mad.wide.u32 %d1, %i, 4, %a; ld.global.f32 %f1, [%d1]; add.f32 %f2, %f0, %f1;
    add.f32 %f2, %f2, %f2; mul.f32 %f2, %f2, LOG2_E; ex2.approx.f32 %f3, %f2; add.f32 %f3, %f3, ONE;
    div.rn.f32 %f4, TWO, %f3; sub.f32 %f5, ONE, %f4; st.global.f32 [%d1], %f5;
"""
BACK = """
    mad.wide.u32 %d0, %i, 4, %a; mad.wide.u32 %d1, %i, 4, %here; ld.global.f32 %f0, [%d0];
    ld.global.f32 %f1, [%d1]; mul.f32 %f2, %f1, %f1; sub.f32 %f2, ONE, %f2; mul.f32 %f0, %f0, %f2;
    st.global.f32 [%d0], %f0;
"""
#: One thread a chain, force by force.
ACT = """
    mul.lo.u32 %r0, %i, MASSES; mad.wide.u32 %d0, %r0, 4, %mean; mad.wide.u32 %d1, %r0, 4, %noise;
    mul.lo.u32 %r1, %i, ACTED; mad.wide.u32 %d2, %r1, 4, %out;
    mov.u64 %d3, %bias; mov.u64 %d4, %spread; mov.u32 %r2, 0; mov.f32 %f0, ZERO;
force:
    ld.global.f32 %f1, [%d0]; ld.global.f32 %f2, [%d3]; add.f32 %f1, %f1, %f2;
    ld.global.f32 %f3, [%d1]; ld.global.f32 %f4, [%d4]; mul.f32 %f5, %f4, LOG2_E; ex2.approx.f32 %f5, %f5;
    fma.rn.f32 %f1, %f5, %f3, %f1; st.global.f32 [%d2], %f1;
    mul.f32 %f6, %f3, %f3; mul.f32 %f6, %f6, MINUS_HALF; sub.f32 %f6, %f6, %f4;
    sub.f32 %f6, %f6, HALF_LOG_TWO_PI; add.f32 %f0, %f0, %f6;
    add.u64 %d0, %d0, 4; add.u64 %d1, %d1, 4; add.u64 %d2, %d2, 4; add.u64 %d3, %d3, 4; add.u64 %d4, %d4, 4;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, MASSES; @%p1 bra force;
    st.global.f32 [%d2], %f0;
    mad.wide.u32 %d5, %i, 4, %value; ld.global.f32 %f7, [%d5]; ld.global.f32 %f8, [%last];
    add.f32 %f7, %f7, %f8; st.global.f32 [%d2+4], %f7;
"""
#: One thread a row: log ratio and surrogate first, then the gradient of every mean and spread.
LOSS = """
    mul.lo.u32 %r0, %i, MASSES; mul.lo.u32 %r1, %i, ROW; mad.wide.u32 %d0, %r1, 4, %batch;
    add.u64 %d1, %d0, SEEN_BYTES; mad.wide.u32 %d2, %r0, 4, %mean; mov.u64 %d3, %bias; mov.u64 %d4, %spread;
    mov.u32 %r2, 0; mov.f32 %f0, ZERO; mov.u64 %d6, %d1; mov.u64 %d7, %d2;
force:
    ld.global.f32 %f1, [%d7]; ld.global.f32 %f2, [%d3]; add.f32 %f1, %f1, %f2; ld.global.f32 %f3, [%d6];
    sub.f32 %f3, %f3, %f1; ld.global.f32 %f4, [%d4]; mul.f32 %f5, %f4, LOG2_E; ex2.approx.f32 %f5, %f5;
    div.rn.f32 %f3, %f3, %f5; st.global.f32 [%d7], %f3;
    mul.f32 %f6, %f3, %f3; mul.f32 %f6, %f6, MINUS_HALF; sub.f32 %f6, %f6, %f4;
    sub.f32 %f6, %f6, HALF_LOG_TWO_PI; add.f32 %f0, %f0, %f6;
    add.u64 %d3, %d3, 4; add.u64 %d4, %d4, 4; add.u64 %d6, %d6, 4; add.u64 %d7, %d7, 4;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, MASSES; @%p1 bra force;
    ld.global.f32 %f10, [%d6]; ld.global.f32 %f11, [%d6+4]; ld.global.f32 %f12, [%d6+8];
    sub.f32 %f13, %f0, %f10; mul.f32 %f14, %f13, LOG2_E; ex2.approx.f32 %f14, %f14;
    sub.f32 %f15, ONE, %clip; add.f32 %f16, ONE, %clip;
    setp.ge.f32 %p2, %f11, ZERO; setp.le.f32 %p3, %f14, %f16; setp.ge.f32 %p4, %f14, %f15;
    mul.f32 %f17, %f11, %f14; mul.f32 %f17, %f17, %share; neg.f32 %f17, %f17;
    and.pred %p5, %p2, %p3; not.pred %p2, %p2; and.pred %p6, %p2, %p4; or.pred %p5, %p5, %p6;
    selp.f32 %f17, %f17, ZERO, %p5; selp.f32 %f18, ZERO, ONE, %p5;
    mad.wide.u32 %d8, %i, 4, %value; ld.global.f32 %f19, [%d8]; ld.global.f32 %f20, [%last];
    add.f32 %f19, %f19, %f20; sub.f32 %f19, %f19, %f12; mul.f32 %f20, %f19, %value_share;
    st.global.f32 [%d8], %f20;
    mad.wide.u32 %d9, %i, 16, %sums; sub.f32 %f21, %f14, ONE; sub.f32 %f21, %f21, %f13;
    mul.f32 %f22, %f19, %f19; mul.f32 %f22, %f22, HALF;
    st.global.f32 [%d9], %f21; st.global.f32 [%d9+4], %f22; st.global.f32 [%d9+8], %f18;
    mov.f32 %f9, ONE; st.global.f32 [%d9+12], %f9;
    mad.wide.u32 %d10, %r0, 4, %widths; mov.u64 %d4, %spread; mov.u32 %r2, 0;
slope:
    ld.global.f32 %f3, [%d2]; ld.global.f32 %f4, [%d4]; mul.f32 %f5, %f4, LOG2_E; ex2.approx.f32 %f5, %f5;
    mul.f32 %f6, %f17, %f3; div.rn.f32 %f7, %f6, %f5; st.global.f32 [%d2], %f7;
    mul.f32 %f8, %f3, %f3; sub.f32 %f8, %f8, ONE; mul.f32 %f8, %f8, %f17; sub.f32 %f8, %f8, %entropy_share;
    st.global.f32 [%d10], %f8; add.u64 %d2, %d2, 4; add.u64 %d4, %d4, 4; add.u64 %d10, %d10, 4;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, MASSES; @%p1 bra slope;
"""
#: Halves what is in shared memory until one sum is left; in %f3 of every thread.
HALVE = """
    mov.u32 %r1, part; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2; st.shared.f32 [%r1], %f0; mov.u32 %r3, 128;
again:
    bar.sync 0; setp.ge.u32 %p1, %t, %r3; @%p1 bra skip;
    shl.b32 %r4, %r3, 2; add.u32 %r5, %r1, %r4; ld.shared.f32 %f1, [%r5]; ld.shared.f32 %f2, [%r1];
    add.f32 %f2, %f2, %f1; st.shared.f32 [%r1], %f2;
skip:
    shr.u32 %r3, %r3, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra again;
    bar.sync 0; ld.shared.f32 %f3, [part]; setp.ne.u32 %p3, %t, 0; @%p3 ret;
"""
SQUARES = """
    .shared .align 4 .f32 part[256];
    mov.f32 %f0, ZERO; mov.u32 %r6, %i;
more:
    setp.ge.u32 %p0, %r6, %n; @%p0 bra enough;
    mad.wide.u32 %d0, %r6, 4, %a; ld.global.f32 %f4, [%d0]; fma.rn.f32 %f0, %f4, %f4, %f0;
    add.u32 %r6, %r6, STRIDE; bra more;
enough:
""" + HALVE + """
    mad.wide.u32 %d1, %block, 4, %out; st.global.f32 [%d1], %f3;
"""  # fmt: skip
NORM = """
    .shared .align 4 .f32 part[256];
    mad.wide.u32 %d0, %t, 4, %a; ld.global.f32 %f0, [%d0];
""" + HALVE + """
    sqrt.rn.f32 %f4, %f3; add.f32 %f4, %f4, TINY; div.rn.f32 %f5, %largest, %f4; min.f32 %f5, %f5, ONE;
    st.global.f32 [%out], %f5;
"""  # fmt: skip
ADAM_STEP = """
    mad.wide.u32 %d0, %i, 4, %row; mad.wide.u32 %d1, %i, 4, %slope; mad.wide.u32 %d2, %i, 4, %first;
    mad.wide.u32 %d3, %i, 4, %second; ld.global.f32 %f0, [%scale]; ld.global.f32 %f1, [%d1];
    mul.f32 %f1, %f1, %f0; ld.global.f32 %f2, [%d2]; mul.f32 %f2, %f2, %one; fma.rn.f32 %f2, %f1, %one_rest, %f2;
    st.global.f32 [%d2], %f2; ld.global.f32 %f3, [%d3]; mul.f32 %f3, %f3, %two; mul.f32 %f4, %f1, %f1;
    fma.rn.f32 %f3, %f4, %two_rest, %f3; st.global.f32 [%d3], %f3; mul.f32 %f5, %f3, %correction;
    sqrt.rn.f32 %f5, %f5; add.f32 %f5, %f5, %epsilon; mul.f32 %f6, %f2, %rate; div.rn.f32 %f6, %f6, %f5;
    ld.global.f32 %f7, [%d0]; sub.f32 %f7, %f7, %f6; st.global.f32 [%d0], %f7;
"""
PARAMETERS = {
    "gather": "u64 a, u64 rows, u64 out, u32 n, u32 width",
    "activate": "u64 a, u64 bias, u32 n, u32 width",
    "back": "u64 a, u64 here, u32 n",
    "act": "u64 mean, u64 value, u64 noise, u64 bias, u64 last, u64 spread, u64 out, u32 n",
    "loss": "u64 mean, u64 value, u64 batch, u64 bias, u64 last, u64 spread, u64 widths, u64 sums, u32 n, "
    "f32 clip, f32 share, f32 value_share, f32 entropy_share",
    "squares": "u64 a, u64 out, u32 n",
    "norm": "u64 a, u64 out, f32 largest",
    "adam": "u64 row, u64 slope, u64 first, u64 second, u64 scale, u32 n, f32 rate, f32 correction, f32 one, "
    "f32 one_rest, f32 two, f32 two_rest, f32 epsilon",
}
BODIES = {
    "gather": GATHER, "activate": ACTIVATE, "back": BACK, "act": ACT, "loss": LOSS, "squares": SQUARES,
    "norm": NORM, "adam": ADAM_STEP,
}  # fmt: skip
#: Kernels whose threads all take part to the end, whatever ``n`` says.
WHOLE = ("squares", "norm")


def module() -> str:
    """Return all kernels as one module for the oldest GPUs that current drivers serve."""
    texts = []
    for name, parameters in PARAMETERS.items():
        body = re.sub(r"\b[A-Z][A-Z_0-9]+\b", lambda word: WORDS[word.group()], BODIES[name])
        texts.append(entry(name, parameters, body, guard=name not in WHOLE))
    return ".version 6.3\n.target sm_75\n.address_size 64\n" + "\n".join(texts)
