"""Small PTX programs: memory, control flow, calls, barriers, what lanes do together, errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.native_cpu import no_compiler
from tests.native_ptx import HEAD, Module, PtxError, checking, module, printed, run, u32
from tools import ptx_reference as ref

pytestmark = [pytest.mark.proof, pytest.mark.skipif(bool(no_compiler()), reason=no_compiler() or "-")]
U32, U64, F32, F16 = np.uint32, np.uint64, np.float32, np.float16
S32 = np.int32

LANES = np.arange(32, dtype=U32)
ADD = """.func (.param .b32 result) plus(.param .b32 a, .param .b32 b)
{ .reg .b32 %x, %y; ld.param.u32 %x, [a]; ld.param.u32 %y, [b]; add.u32 %x, %x, %y; st.param.b32 [result], %x; ret; }
"""

#: name: (kernel body, before it, input, expected output)
SINGLE: dict[str, tuple[str, str, np.ndarray, np.ndarray]] = {
    "load and store": ("ld.global.u32 %r0, [%in]; st.global.u32 [%out], %r0;", "", u32(7), u32(7)),
    "load with an offset": ("ld.u32 %r0, [%in+4]; ld.u32 %r1, [%in+-0]; st.u32 [%out], %r0; st.u32 [%out+4], %r1;", "", u32(1, 2), u32(2, 1)),
    "a negative offset": ("add.s64 %in, %in, 8; ld.u32 %r0, [%in+-4]; st.u32 [%out], %r0;", "", u32(1, 2, 3), u32(2)),
    "a wider register": ("ld.global.s8 %r0, [%in]; st.global.u32 [%out], %r0;", "", np.array([-3, 0, 0, 0], np.int8), u32(-3)),
    "a narrower store": ("ld.global.u32 %r0, [%in]; st.global.u8 [%out], %r0;", "", u32(0x1234), np.array([0x34, 0], np.uint8)),
    "vectors": ("ld.global.v2.u32 {%r0, %r1}, [%in]; st.global.v2.u32 [%out], {%r1, %r0};", "", u32(1, 2), u32(2, 1)),
    "vectors of four": ("ld.global.v4.u32 {%r0, %r1, %r2, _}, [%in]; st.global.v4.u32 [%out], {%r2, %r1, %r0, 9};", "",
                        u32(1, 2, 3, 4), u32(3, 2, 1, 9)),
    "vectors of bytes": ("ld.global.v4.u8 {%h0, %h1, %h2, %h3}, [%in]; st.global.v4.u8 [%out], {%h3, %h2, %h1, %h0};", "",
                         np.array([1, 2, 3, 4], np.uint8), np.array([4, 3, 2, 1], np.uint8)),
    "vector registers": (".reg .v2 .u32 %v; ld.global.v2.u32 %v, [%in]; add.u32 %r0, %v.x, 10; mov.u32 %v.x, %v.y; mov.u32 %v.y, %r0;"
                         "st.global.v2.u32 [%out], %v;", "", u32(1, 2), u32(2, 11)),
    "vector moves": (".reg .v4 .u16 %v; ld.global.v4.u8 {%h0, %h1, %h2, %h3}, [%in]; mov.v4.u16 %v, {%h1, %h2, %h3, %h0};"
                     "mov.v4.u16 {%h0, %h1, %h2, %h3}, %v; mov.v4.u16 {%h0, %h1, %h2, %h3}, {%h1, %h0, %h3, %h2};"
                     "st.global.v4.u8 [%out], {%h0, %h1, %h2, %h3};", "", np.array([1, 2, 3, 4], np.uint8), np.array([3, 2, 1, 4], np.uint8)),
    "a vector packed": (".reg .v2 .u32 %v; ld.global.v2.u32 %v, [%in]; mov.b64 %rd0, %v; st.global.b64 [%out], %rd0;", "", u32(1, 2), u32(1, 2)),
    "128 bits": (".reg .b128 %q, %s; ld.global.b128 %q, [%in]; mov.b128 {%rd0, %rd1}, %q; mov.b128 %s, {%rd1, %rd0}; st.global.b128 [%out], %s;", "",
                 np.array([1, 2], U64), np.array([2, 1], U64)),
    "local memory": (".local .align 8 .b8 box[16]; ld.global.u32 %r0, [%in]; st.local.u32 [box+4], %r0; ld.local.u32 %r1, [box+4]; st.global.u32 [%out], %r1;",
                     "", u32(5), u32(5)),
    "a generic local address": (".local .align 8 .b8 box[16]; mov.u64 %rd0, box; cvta.local.u64 %rd1, %rd0; st.u32 [%rd1+8], 6; ld.local.u32 %r0, [%rd0+8];"
                                "st.global.u32 [%out], %r0;", "", u32(0), u32(6)),
    "shared memory": (".shared .align 4 .b8 box[16]; st.shared.u32 [box+4], 3; mov.u32 %r1, box; ld.shared.u32 %r0, [%r1+4]; mov.u64 %rd0, box;"
                      "cvta.shared.u64 %rd0, %rd0; ld.u32 %r2, [%rd0+4]; add.u32 %r0, %r0, %r2; st.global.u32 [%out], %r0;", "", u32(0), u32(6)),
    "constants": ("ld.const.u32 %r0, [table+4]; mov.u64 %rd0, table; cvta.const.u64 %rd0, %rd0; ld.u32 %r1, [%rd0]; st.global.v2.u32 [%out], {%r0, %r1};",
                  ".const .align 4 .u32 table[3] = {10, 20, 30};\n", u32(0), u32(20, 10)),
    "negative and float constants": ("ld.const.s32 %r0, [a]; ld.const.f32 %f0, [b]; st.global.u32 [%out], %r0; st.global.f32 [%out+4], %f0;",
                                     ".const .s32 a = -5;\n.const .f32 b = 0f3F800000;\n", u32(0), u32(-5, 0x3F800000)),
    "addresses in globals": ("ld.global.u64 %rd0, [pointer]; ld.u32 %r0, [%rd0]; st.global.u32 [%out], %r0;",
                             ".global .align 4 .u32 cells[4] = {1, 2, 3};\n.global .align 8 .u64 pointer = generic(cells)+8;\n", u32(0), u32(3)),
    "masks in globals": ("ld.global.u64 %rd0, [pointer]; ld.u32 %r0, [%rd0]; st.global.u32 [%out], %r0;",
                         ".global .align 4 .u32 cell = 77;\n.global .align 8 .u8 pointer[8] = {0xFF(cell), 0xFF00(cell), 0xFF0000(cell), 0xFF000000(cell), "
                         "0xFF00000000(cell), 0xFF0000000000(cell), 0xFF000000000000(cell), 0xFF00000000000000(cell)};\n", u32(0), u32(77)),
    "arrays of rows": ("ld.global.v2.s32 {%r0, %r1}, [rows+8]; ld.global.u32 %r2, [rows+4]; st.global.v2.s32 [%out], {%r0, %r1}; st.global.s32 [%out+8], %r2;",
                       ".global .align 8 .s32 rows[2][2] = {{-1}, {-3, -4}};\n", u32(0), u32(-3, -4, 0)),
    "branches": ("ld.global.u32 %r0, [%in]; setp.lt.u32 %p0, %r0, 5; @%p0 bra SMALL; mov.u32 %r1, 1; bra.uni END; SMALL: mov.u32 %r1, 2; END:"
                 "st.global.u32 [%out], %r1;", "", u32(3), u32(2)),
    "loops": ("mov.u32 %r0, 0; mov.u32 %r1, 0; LOOP: add.u32 %r0, %r0, %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 100; @%p0 bra LOOP;"
              "st.global.u32 [%out], %r0;", "", u32(0), u32(4950)),
    "indexed branches": ("ld.global.u32 %r0, [%in]; TABLE: .branchtargets A, B, C; brx.idx %r0, TABLE; A: mov.u32 %r1, 1; bra END; B: mov.u32 %r1, 2; bra END;"
                         "C: mov.u32 %r1, 3; END: st.global.u32 [%out], %r1;", "", u32(1), u32(2)),
    "nested scopes": ("mov.u32 %r0, 1; { .reg .b32 %r0; mov.u32 %r0, 2; bra L; L: } { bra L; mov.u32 %r0, 9; L: } st.global.u32 [%out], %r0;", "", u32(0), u32(1)),
    "a call": ("{ .param .b32 a; .param .b32 b; .param .b32 c; ld.global.u32 %r0, [%in]; st.param.b32 [a], %r0; st.param.b32 [b], 4;"
               "call.uni (c), plus, (a, b); ld.param.b32 %r1, [c]; } st.global.u32 [%out], %r1;", ADD, u32(3), u32(7)),
    "a call with registers": ("ld.global.u32 %r0, [%in]; call (%r1), twice, (%r0); st.global.u32 [%out], %r1;",
                              ".func (.reg .u32 r) twice(.reg .u32 a) { add.u32 r, a, a; ret; }\n", u32(3), u32(6)),
    "several results": ("ld.global.u32 %r0, [%in]; call (%r1, %r2), both, (%r0, 100); st.global.v2.u32 [%out], {%r1, %r2};",
                        ".func (.reg .u32 r, .reg .u32 s) both(.reg .u32 a, .reg .u32 b) { add.u32 r, a, b; sub.u32 s, b, a; ret; }\n", u32(3), u32(103, 97)),
    "a vector passed": (".reg .v2 .u32 %v; ld.global.v2.u32 %v, [%in]; call (%v), swap, (%v); st.global.v2.u32 [%out], %v;",
                        ".func (.reg .v2 .u32 r) swap(.reg .v2 .u32 a) { mov.u32 r.x, a.y; mov.u32 r.y, a.x; ret; }\n", u32(1, 2), u32(2, 1)),
    "an indirect call": ("{ .param .b32 a; .param .b32 b; .param .b32 c; mov.u64 %rd0, plus; st.param.b32 [a], 1; st.param.b32 [b], 2;"
                         "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _); call (c), %rd0, (a, b), P; ld.param.b32 %r0, [c]; }"
                         "st.global.u32 [%out], %r0;", ADD, u32(0), u32(3)),
    "a call through a table": ("{ .param .b32 a; .param .b32 b; .param .b32 c; ld.global.u64 %rd0, [functions+8]; st.param.b32 [a], 1; st.param.b32 [b], 2;"
                               "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _); call (c), %rd0, (a, b), P; ld.param.b32 %r0, [c]; }"
                               "st.global.u32 [%out], %r0;", ADD + ".global .align 8 .u64 functions[2] = {0, plus};\n", u32(0), u32(3)),
    "parameters of a kernel's body": ("{ .param .b32 x; st.param.b32 [x], 12; ld.param.b32 %r0, [x]; } st.global.u32 [%out], %r0;", "", u32(0), u32(12)),
    "a parameter's address": ("mov.b64 %rd0, input; ld.param.u64 %rd1, [%rd0]; ld.u32 %r0, [%rd1]; cvta.param.u64 %rd0, %rd0; ld.u64 %rd1, [%rd0+8];"
                              "st.u32 [%rd1], %r0;", "", u32(8), u32(8)),
    "alloca": ("alloca.u64 %rd0, 64, 16; st.local.u32 [%rd0+8], 5; cvta.local.u64 %rd1, %rd0; ld.u32 %r0, [%rd1+8]; st.global.u32 [%out], %r0;", "", u32(0), u32(5)),
    "spaces": (".shared .b32 box; .local .b32 cell; mov.u64 %rd0, box; cvta.shared.u64 %rd0, %rd0; mov.u64 %rd1, cell; cvta.local.u64 %rd1, %rd1;"
               "isspacep.shared %p0, %rd0; isspacep.global %p1, %rd0; isspacep.local %p2, %rd1; isspacep.global %p3, %in; isspacep.shared %p4, %in;"
               "selp.u32 %r0, 1, 0, %p0; selp.u32 %r1, 2, 0, %p1; selp.u32 %r2, 4, 0, %p2; selp.u32 %r3, 8, 0, %p3; selp.u32 %r4, 16, 0, %p4;"
               "add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2; add.u32 %r0, %r0, %r3; add.u32 %r0, %r0, %r4; st.global.u32 [%out], %r0;", "", u32(0), u32(13)),
    "cache hints": ("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%r0, %r1}, [%in]; createpolicy.fractional.L2::evict_last.b64 %rd0, 1.0;"
                    "ld.global.L2::cache_hint.u32 %r2, [%in], %rd0; st.global.cs.u32 [%out], %r1; st.volatile.global.u32 [%out+4], %r2;"
                    "prefetch.global.L2 [%in]; discard.global.L2 [%in], 128; applypriority.global.L2::evict_normal [%in], 128;", "", u32(1, 2), u32(2, 1)),
    "ordered accesses": ("ld.acquire.gpu.global.u32 %r0, [%in]; st.release.sys.global.u32 [%out], %r0; fence.acq_rel.gpu; membar.gl; ld.relaxed.cta.u32 %r1, [%out];"
                         "fence.proxy.async; ld.mmio.relaxed.sys.global.u32 %r1, [%in]; nanosleep.u32 20;", "", u32(4), u32(4)),
    "expressions": ("mov.u32 %r0, (1 + 2) * 4 - 0x3; mov.u32 %r1, !0; st.global.v2.u32 [%out], {%r0, %r1};", "", u32(0), u32(9, 1)),
    "special registers": ("mov.u32 %r0, %ntid.x; mov.u32 %r1, %nctaid.x; add.u32 %r0, %r0, WARP_SZ; mov.u32 %r2, %laneid; add.u32 %r0, %r0, %r2; mov.u64 %rd0, %globaltimer;"
                          "mov.u32 %r3, %clock; mov.u64 %rd1, %clock64; mov.u32 %r4, %warpid; mov.u32 %r5, %smid; st.global.v2.u32 [%out], {%r0, %r1};", "", u32(0), u32(33, 1)),
    "asynchronous copies": (".shared .align 16 .b8 box[64]; mov.u32 %r0, box; cp.async.ca.shared.global [%r0], [%in], 16; cp.async.cg.shared.global [%r0+16], [%in], 16, 4;"
                            "cp.async.commit_group; cp.async.wait_group 0; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r0]; ld.shared.v2.u32 {%r5, %r6}, [%r0+16];"
                            "st.global.v2.u32 [%out], {%r2, %r4}; st.global.v2.u32 [%out+8], {%r5, %r6};", "", u32(1, 2, 3, 4), u32(2, 4, 1, 0)),
    "barriers in memory": (".shared .align 8 .b64 bar; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.shared.b64 %rd0, [bar]; mbarrier.test_wait.shared.b64 %p0, [bar], %rd0;"
                           "selp.u32 %r0, 1, 0, %p0; st.global.u32 [%out], %r0;", "", u32(0), u32(1)),
    "a guard": ("ld.global.u32 %r0, [%in]; setp.eq.u32 %p0, %r0, 3; @!%p0 st.global.u32 [%out], 1; @%p0 st.global.u32 [%out], 2;", "", u32(3), u32(2)),
    "sad, and prmt": ("ld.global.u32 %r0, [%in]; prmt.b32 %r1, %r0, 0, 0x0123; st.global.u32 [%out], %r1;", "", u32(0x01020304), u32(0x04030201)),
    "old addresses": ("ld.global.u32 %r0, cells[4]; st.global.u32 [%out], %r0;", ".global .u32 cells[2] = {5, 6};\n", u32(0), u32(6)),
}  # fmt: skip


@pytest.mark.parametrize("name", SINGLE)
def test_one_thread(name: str) -> None:
    body, before, data, want = SINGLE[name]
    got = run(module(body, before), data, np.zeros_like(want))
    assert got.tolist() == want.tolist()


#: name: (body, expected of 32 threads that each read their own word)
WARP: dict[str, tuple[str, Sequence[int]]] = {
    "lane masks": ("mov.u32 %r1, %lanemask_lt; mov.u32 %r2, %lanemask_ge; xor.b32 %r1, %r1, %r2;", [0xFFFFFFFF] * 32),
    "shuffle up": ("shfl.sync.up.b32 %r1|%p0, %r0, 1, 0, -1; @!%p0 add.u32 %r1, %r1, 100;", [100, *range(31)]),
    "shuffle down": ("shfl.sync.down.b32 %r1|%p0, %r0, 2, 31, -1;", [*range(2, 32), 30, 31]),
    "shuffle by bits": ("shfl.sync.bfly.b32 %r1, %r0, 5, 31, -1;", [i ^ 5 for i in range(32)]),
    "shuffle to a lane": ("shfl.sync.idx.b32 %r1, %r0, 3, 0x181f, -1;", [i // 8 * 8 + 3 for i in range(32)]),
    "shuffle without members": ("shfl.idx.b32 %r1, %r0, 7, 31;", [7] * 32),
    "ballot": ("and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 1; vote.sync.ballot.b32 %r1, %p0, -1;", [0xAAAAAAAA] * 32),
    "votes": ("setp.lt.u32 %p0, %r0, 32; vote.sync.all.pred %p1, %p0, -1; vote.sync.any.pred %p2, !%p0, -1; vote.sync.uni.pred %p3, %p0, -1;"
              "selp.u32 %r1, 1, 0, %p1; @%p2 add.u32 %r1, %r1, 2; @%p3 add.u32 %r1, %r1, 4;", [5] * 32),
    "active lanes": ("setp.lt.u32 %p0, %r0, 4; mov.u32 %r1, 0; @!%p0 bra END; activemask.b32 %r1; END:", [15] * 4 + [0] * 28),
    "match any": ("and.b32 %r2, %r0, 3; match.any.sync.b32 %r1, %r2, -1;", [0x11111111 << i % 4 for i in range(32)]),
    "match all": ("mov.u32 %r2, 5; match.all.sync.b32 %r1|%p0, %r2, -1; @!%p0 mov.u32 %r1, 1;", [0xFFFFFFFF] * 32),
    "reductions": ("redux.sync.add.u32 %r1, %r0, -1; redux.sync.max.s32 %r2, %r0, -1; add.u32 %r1, %r1, %r2;", [496 + 31] * 32),
    "an elected lane": ("elect.sync %r1|%p0, -1; @%p0 add.u32 %r1, %r1, 50;", [50] + [0] * 31),
    "halves of a warp": ("setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW; shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0xffff0000; bra END;"
                         "LOW: shfl.sync.bfly.b32 %r1, %r0, 2, 31, 0xffff; END: bar.warp.sync -1;", [i ^ 2 for i in range(16)] + [i ^ 1 for i in range(16, 32)]),
    "meeting after a branch": ("setp.lt.u32 %p0, %r0, 16; @%p0 bra NEXT; add.u32 %r0, %r0, 1; NEXT: shfl.sync.idx.b32 %r1, %r0, 31, 31, -1;", [32] * 32),
    "loops of different length": ("mov.u32 %r1, 0; mov.u32 %r2, 0; LOOP: setp.ge.u32 %p0, %r2, %r0; @%p0 bra DONE; add.u32 %r1, %r1, %r2; add.u32 %r2, %r2, 1; bra LOOP;"
                                  "DONE: shfl.sync.idx.b32 %r3, %r1, 5, 31, -1; add.u32 %r1, %r1, %r3;", [i * (i - 1) // 2 + 10 for i in range(32)]),
    "calls that diverge": ("{ .param .b32 a; .param .b32 b; .param .b32 c; and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 1; st.param.b32 [a], %r0; st.param.b32 [b], 5;"
                           "@%p0 call (c), plus, (a, b); @!%p0 st.param.b32 [c], 1; ld.param.b32 %r1, [c]; }", [i + 5 if i % 2 else 1 for i in range(32)]),
    "atomics return what was": ("atom.global.add.u32 %r1, [%out+128], 1;", list(range(32))),
    "atomic increments wrap": ("atom.global.inc.u32 %r1, [%out+128], 3;", [i % 4 for i in range(32)]),
    "exits leave the others": ("setp.gt.u32 %p0, %r0, 3; @%p0 exit; vote.sync.ballot.b32 %r1, 1, -1;", [15] * 4 + [0] * 28),
    "a transposed matrix": ("movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;",
                            [(i % 4 * 2 * 4 + i // 4 // 2 if i // 4 % 2 == 0 else 0) | ((i % 4 * 2 + 1) * 4 + i // 4 // 2 if i // 4 % 2 == 0 else 0) << 16 for i in range(32)]),
}  # fmt: skip


@pytest.mark.parametrize("name", WARP)
def test_one_warp(name: str) -> None:
    body, want = WARP[name]
    text = module(f"ld.global.u32 %r0, [%in4]; {body} st.global.u32 [%out4], %r1;", ADD)
    got = run(text, LANES, np.zeros(64, U32), 32)
    assert got[:32].tolist() == [x & 0xFFFFFFFF for x in want]


ATOMS = {
    "add.u32": (U32, [5], [3], 8), "add.u64": (U64, [5], [1 << 40], 5 + (1 << 40)), "add.f32": (F32, [1.5], [2.25], 3.75),
    "add.f64": (np.float64, [1.5], [2.25], 3.75), "and.b32": (U32, [12], [10], 8), "or.b64": (U64, [12], [3], 15), "xor.b32": (U32, [12], [10], 6),
    "min.s32": (S32, [-5], [3], -5), "max.s32": (S32, [-5], [3], 3), "min.u64": (U64, [7], [3], 3), "max.s64": (np.int64, [-7], [-3], -3),
    "exch.b32": (U32, [1], [9], 9), "exch.b64": (U64, [1], [9], 9), "inc.u32": (U32, [3], [3], 0), "dec.u32": (U32, [0], [3], 3),
    "add.noftz.f16": (F16, [1.5], [2.25], 3.75),
}  # fmt: skip


@pytest.mark.parametrize("form", ATOMS)
@pytest.mark.parametrize("kind", ["atom", "red"])
def test_atomics(form: str, kind: str) -> None:
    dtype, old, value, want = ATOMS[form]
    if kind == "red" and form.startswith("exch"):
        pytest.skip("red has no exch")
    bits = np.dtype(dtype).itemsize * 8
    register = {16: "%h", 32: "%r", 64: "%rd"}[bits]
    result = f"{register}1, " if kind == "atom" else ""
    store = f"st.global.b{bits} [%in+{bits // 8}], {register}1;" if kind == "atom" else ""
    cells = np.array([old[0], 0], dtype)
    text = module(
        f"ld.global.b{bits} {register}0, [%out]; {kind}.global.{form} {result}[%in], {register}0; {store}"
    )
    with Module(text) as loaded:
        loaded.launch("k", [cells, np.array(value, dtype)])
    assert cells[0] == want
    assert kind == "red" or cells[1] == old[0]


def test_compare_and_swap_in_all_sizes() -> None:
    text = module(
        "atom.global.cas.b32 %r0, [%in], 5, 6; atom.global.cas.b64 %rd0, [%in+8], 7, 8; atom.global.cas.b16 %h0, [%in+4], 1, 2;"
        ".reg .b128 %x, %y, %z; mov.u64 %rd1, 1; mov.u64 %rd2, 2; mov.b128 %x, {%rd1, %rd2}; mov.b128 %y, {%rd2, %rd1}; atom.global.cas.b128 %z, [%in+16], %x, %y;"
    )
    cells = np.array([5, 1, 7, 0, 1, 0, 2, 0], U32)
    with Module(text) as loaded:
        loaded.launch("k", [cells, cells.copy()])
    assert cells.tolist() == [6, 2, 8, 0, 2, 0, 1, 0]


BARRIERS = {
    "all": ("bar.sync 0;", 128), "counted": ("bar.sync 1, 128;", 128), "barrier": ("barrier.sync 2;", 100), "aligned": ("barrier.cta.sync.aligned 3;", 96),
    "arrive": ("setp.lt.u32 %p0, %t, 64; @%p0 bra A; bar.sync 4, 128; bra B; A: bar.arrive 4, 128; B: bar.sync 0;", 128),
}  # fmt: skip


@pytest.mark.parametrize("name", BARRIERS)
def test_barriers_order_shared_memory(name: str) -> None:
    barrier, threads = BARRIERS[name]
    body = f"""mov.u32 %r1, box; shl.b32 %r2, %t, 2; add.u32 %r2, %r1, %r2; mul.lo.u32 %r3, %t, 3; st.shared.u32 [%r2], %r3;
    {barrier} xor.b32 %r4, %t, 1; shl.b32 %r4, %r4, 2; add.u32 %r4, %r1, %r4; ld.shared.u32 %r5, [%r4];
    mov.u32 %r6, %ntid.x; sub.u32 %r6, %r6, 1; sub.u32 %r6, %r6, %t; shl.b32 %r6, %r6, 2; add.u32 %r6, %r1, %r6; ld.shared.u32 %r7, [%r6];
    add.u32 %r5, %r5, %r7; st.global.u32 [%out4], %r5;"""
    got = run(module(body, ".shared .align 4 .b8 box[1024];\n"), u32(0), np.zeros(threads, U32), threads)
    assert got.tolist() == [3 * (i ^ 1) + 3 * (threads - 1 - i) for i in range(threads)]


def test_barrier_reductions() -> None:
    body = """setp.lt.u32 %p0, %t, 40; bar.red.popc.u32 %r0, 0, %p0; bar.red.and.pred %p1, 0, %p0; bar.red.or.pred %p2, 0, !%p0;
    barrier.cta.red.popc.u32 %r3, 1, 96, !%p0; selp.u32 %r1, 100, 0, %p1; selp.u32 %r2, 1000, 0, %p2; add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2; mad.lo.u32 %r0, %r3, 10000, %r0;
    st.global.u32 [%out4], %r0;"""
    got = run(module(body), u32(0), np.zeros(96, U32), 96)
    assert set(got.tolist()) == {1040 + 560000}


#: Behind a barrier, where the four warps of a block run together until they part; what thread t gets.
TOGETHER: dict[str, tuple[str, Callable[[int], int]]] = {
    "ways by warp": ("setp.lt.u32 %p0, %t, 64; @%p0 bra A; mov.u32 %r0, 1; bra B; A: mov.u32 %r0, 2; B: bar.sync 0;", lambda t: 2 if t < 64 else 1),
    "ways in a warp": ("and.b32 %r1, %t, 1; setp.eq.u32 %p0, %r1, 0; @%p0 bra A; mov.u32 %r0, 1; bra B; A: mov.u32 %r0, 2; B: bar.sync 0;", lambda t: 2 - t % 2),
    "guards": ("mov.u32 %r0, 0; setp.gt.u32 %p0, %t, 70; @%p0 add.u32 %r0, %t, 5; selp.u32 %r1, 100, 0, %p0; @!%p0 add.u32 %r0, %r0, %r1;", lambda t: t + 5 if t > 70 else 0),
    "a loop": ("mov.u32 %r0, 0; L: add.u32 %r0, %r0, 1; bar.sync 0; setp.lt.u32 %p0, %r0, 9; @%p0 bra L;", lambda t: 9),
    "loops of their own lengths": ("mov.u32 %r0, 0; L: add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, %t; @%p0 bra L; bar.sync 0;", lambda t: max(t, 1)),
    "a loop of many turns": ("mov.u32 %r0, 0; L: add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 20000; @%p0 bra L;", lambda t: 20000),
    "warps that end": ("mov.u32 %r0, 3; st.global.u32 [%out4], %r0; setp.lt.u32 %p0, %t, 32; @%p0 exit; bar.sync 0; add.u32 %r0, %r0, %t;", lambda t: 3 + t * (t >= 32)),
    "lanes that end": ("mov.u32 %r0, 3; st.global.u32 [%out4], %r0; and.b32 %r1, %t, 3; setp.eq.u32 %p0, %r1, 0; @%p0 exit; bar.sync 0; add.u32 %r0, %r0, %t;", lambda t: 3 + t * (t % 4 > 0)),
    "shuffles": ("shfl.sync.idx.b32 %r0, %t, 7, 31, -1; shfl.sync.up.b32 %r1, %t, 3, 0, -1; add.u32 %r0, %r0, %r1; shfl.sync.down.b32 %r1, %t, 30, 31, -1; add.u32 %r0, %r0, %r1;",
                 lambda t: (t // 32 * 32 + 7) + (t - 3 if t % 32 > 2 else t) + (t + 30 if t % 32 < 2 else t)),
    "shuffles in segments": ("and.b32 %r2, %t, 1; shfl.sync.down.b32 %r0, %t, %r2, 0x181f, -1; shfl.sync.bfly.b32 %r1, %t, 5, 31, -1; mad.lo.u32 %r0, %r1, 1000, %r0;",
                             lambda t: (t ^ 5) * 1000 + (t + 1 if t % 2 and t % 8 < 7 else t)),
    "atomics": ("atom.global.add.u32 %r1, [%in], 1; bar.sync 0; ld.global.u32 %r0, [%in];", lambda t: 128),
    "a warp that waits for another": ("setp.ge.u32 %p0, %t, 32; @%p0 bra W; st.volatile.global.u32 [%in+4], 6; bra E; W: ld.volatile.global.u32 %r0, [%in+4]; setp.ne.u32 %p1, %r0, 6; @%p1 bra W; E: mov.u32 %r0, 6;", lambda t: 6),
    "calls": ("{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %t; st.param.b32 [b], 4; call.uni (c), plus, (a, b); ld.param.b32 %r0, [c]; }", lambda t: t + 4),
    "words of two rows": ("shr.u32 %r1, %t, 4; and.b32 %r2, %t, 15; mad.lo.u32 %r1, %r1, 64, %r2; mad.wide.u32 %rd0, %r1, 4, %in; st.global.u32 [%rd0+64], %t; ld.global.u32 %r0, [%rd0+64];", lambda t: t),
    "addresses that a load replaces": ("mov.u32 %r1, box; shl.b32 %r0, %t, 2; add.u32 %r0, %r0, %r1; st.shared.u32 [%r0], %t; ld.shared.u32 %r0, [%r0];", lambda t: t),
    "words in any order": ("mov.u32 %r1, box; xor.b32 %r0, %t, 5; shl.b32 %r0, %r0, 2; add.u32 %r0, %r0, %r1; st.shared.u32 [%r0], %t; bar.sync 0; ld.shared.u32 %r2, [%r0]; mov.u32 %r0, %r2;", lambda t: t),
    "one word": ("mov.u32 %r1, box; st.shared.u32 [%r1+4], 8; bar.sync 0; ld.shared.u32 %r0, [%r1+4];", lambda t: 8),
    "directed rounding": ("cvt.rn.f32.u32 %f0, %t; add.rp.f32 %f0, %f0, 0f00000001; mov.b32 %r0, %f0;", lambda t: int(np.nextafter(np.float32(t), np.float32(200)).view(np.uint32))),
}  # fmt: skip


@pytest.mark.parametrize("name", TOGETHER)
def test_warps_that_run_together_part_where_they_must(name: str) -> None:
    body, want = TOGETHER[name]
    text = module(
        f"bar.sync 0; {body} st.global.u32 [%out4], %r0;", ADD + ".shared .align 4 .b8 box[1024];\n"
    )
    assert run(text, np.zeros(1024, U32), np.zeros(128, U32), 128).tolist() == [want(t) for t in range(128)]


WAITS = {
    "one lane, behind a barrier": """W: setp.ne.u32 %p3, %t, 0; @%p3 bra S; ld.volatile.global.u32 %r0, [%in]; st.shared.u32 [box], %r0; S: bar.sync 0; ld.shared.u32 %r0, [box];
        bar.sync 0; setp.eq.u32 %p2, %r0, 0; @%p2 bra W;""",
    "some lanes, by a vote": "setp.gt.u32 %p3, %t, 15; @%p3 bra X; W: ld.volatile.global.u32 %r0, [%in]; setp.eq.u32 %p2, %r0, 0; vote.sync.all.pred %p2, %p2, 0xffff; @%p2 bra W; X: bar.sync 0;",
    "asleep": "bar.sync 0; W: ld.volatile.global.u32 %r0, [%in]; setp.eq.u32 %p2, %r0, 0; nanosleep.u32 100; @%p2 bra W;",
    "after a call": "{ .param .b32 a; .param .b32 b; .param .b32 c; W: st.param.b32 [a], %t; st.param.b32 [b], 4; call.uni (c), plus, (a, b); ld.volatile.global.u32 %r0, [%in]; setp.eq.u32 %p2, %r0, 0; @%p2 bra W; }",
}


@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize("name", WAITS)
def test_blocks_may_wait_for_one_that_has_not_begun(name: str, threads: int) -> None:
    blocks = (os.cpu_count() or 1) + 2
    body = f".reg .b32 %b; mov.u32 %b, %ctaid.x; setp.ne.u32 %p0, %b, {blocks - 1}; @%p0 bra WAIT; st.volatile.global.u32 [%in], 1; bra E; WAIT: {WAITS[name]} E: atom.global.add.u32 %r3, [%out], 1;"
    text = module(body, ADD + ".shared .align 4 .b8 box[64];\n")
    assert run(text, np.zeros(4, U32), np.zeros(4, U32), threads, grid=(blocks, 1, 1))[0] == blocks * threads


@pytest.mark.parametrize("threads", [64, 96])
def test_a_warp_that_has_a_barrier_of_its_own_lets_others_go_on(threads: int) -> None:
    body = """setp.lt.u32 %p0, %t, 32; bar.sync 0; bra L; B: bar.sync 1, 32; L: @!%p0 bra OTHER; ld.volatile.global.u32 %r0, [%in]; setp.eq.u32 %p1, %r0, 0;
    @%p1 bra B; bra E; OTHER: st.volatile.global.u32 [%in], 1; E: st.global.u32 [%out4], 1;"""
    assert run(module(body), np.zeros(4, U32), np.zeros(threads, U32), threads).sum() == threads


@pytest.mark.parametrize("space", ["global", "shared"])
def test_the_thread_that_failed_among_warps_together_is_named(space: str) -> None:
    place = {"global": "[%in4]", "shared": "[%r1]"}[space]
    body = f"bar.sync 0; mov.u32 %r1, box; setp.eq.u32 %p0, %t, 37; @%p0 mov.u64 %in4, 12; @%p0 mov.u32 %r1, 4000000; ld.{space}.u32 %r1, {place};"
    with (
        Module(module(body, ".shared .align 4 .b8 box[64];\n")) as loaded,
        pytest.raises(PtxError) as caught,
    ):
        loaded.launch("k", [np.zeros(128, U32), np.zeros(128, U32)], block=(128, 1, 1))
    assert (caught.value.kind, caught.value.thread) == ("illegal-address", (37, 0, 0))
    assert caught.value.address in (12, 4000000)


def test_ended_threads_are_not_waited_for() -> None:
    body = "setp.gt.u32 %p0, %t, 40; @%p0 exit; bar.sync 0; st.global.u32 [%out4], 1;"
    assert run(module(body), u32(0), np.zeros(96, U32), 96).sum() == 41


def test_a_lock_inside_a_warp_does_not_starve() -> None:
    body = """AGAIN: atom.global.cas.b32 %r0, [%in], 0, 1; setp.ne.u32 %p0, %r0, 0; @%p0 bra AGAIN;
    ld.volatile.global.u32 %r1, [%out]; add.u32 %r1, %r1, 1; st.volatile.global.u32 [%out], %r1; membar.gl; atom.global.exch.b32 %r2, [%in], 0;"""
    assert run(module(body), u32(0), u32(0), 128, grid=(4, 1, 1)).tolist() == [512]


def test_locks_inside_locks_do_not_starve() -> None:
    """Some lanes wait for the outer lock, some for the inner one: the lane that holds both has its turn, too."""
    body = """mov.u32 %r3, %tid.x; and.b32 %r3, %r3, 7; mul.wide.u32 %rd0, %r3, 4; add.s64 %rd0, %in, %rd0;
    OUTER: atom.global.exch.b32 %r0, [%rd0], 1; setp.eq.u32 %p0, %r0, 1; @%p0 bra OUTER;
    INNER: atom.global.exch.b32 %r0, [%in+32], 1; setp.eq.u32 %p0, %r0, 1; @%p0 bra INNER;
    ld.volatile.global.u32 %r1, [%out]; add.u32 %r1, %r1, 1; st.volatile.global.u32 [%out], %r1;
    membar.gl; atom.global.exch.b32 %r2, [%in+32], 0; atom.global.exch.b32 %r2, [%rd0], 0;"""
    assert run(module(body), np.zeros(9, U32), u32(0), 128, grid=(4, 1, 1)).tolist() == [512]


GRID_BARRIER = """mov.u32 %r9, %tid.x; mov.u32 %r8, %ctaid.x; mov.u32 %r7, %nctaid.x; setp.ne.u32 %p0, %r9, 0; @%p0 bra WAIT;
    atom.global.add.u32 %r1, [%in], 1; LOOP: ld.acquire.gpu.global.u32 %r2, [%in]; setp.lt.u32 %p1, %r2, %r7; @%p1 bra LOOP;
    WAIT: bar.sync 0; mul.wide.u32 %rd0, %r8, 4; add.s64 %rd0, %out, %rd0; ld.global.u32 %r3, [%in]; st.global.u32 [%rd0], %r3;"""


@pytest.mark.parametrize("cooperative", [True, False])
def test_all_blocks_can_wait_for_each_other(cooperative: bool) -> None:
    """Cooperative blocks are resident together; others join when those that run only wait."""
    got = run(module(GRID_BARRIER), u32(0), np.zeros(40, U32), 64, grid=(40, 1, 1), cooperative=cooperative)
    assert got.tolist() == [40] * 40


def test_blocks_of_three_dimensions() -> None:
    body = """mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.z; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y; mad.lo.u32 %r5, %r2, %r4, %r1;
    mad.lo.u32 %r5, %r5, %r3, %r0; mul.wide.u32 %rd0, %r5, 4; add.s64 %rd0, %out, %rd0; shl.b32 %r1, %r1, 8; shl.b32 %r2, %r2, 16; or.b32 %r0, %r0, %r1; or.b32 %r0, %r0, %r2;
    st.global.u32 [%rd0], %r0;"""
    got = run(module(body), u32(0), np.zeros(24, U32), grid=(2, 3, 4))
    assert got.tolist() == [x | y << 8 | z << 16 for z in range(4) for y in range(3) for x in range(2)]


def test_dynamic_shared_memory_follows_the_static_one() -> None:
    body = "st.shared.u32 [own], 1; st.shared.u32 [more+16], 2; mov.u32 %r1, more; ld.shared.u32 %r2, [%r1+16]; ld.shared.u32 %r3, [own]; st.global.v2.u32 [%out], {%r2, %r3};"
    before = ".extern .shared .align 16 .b8 more[];\n.shared .align 4 .b32 own;\n"
    assert run(module(body, before), u32(0), u32(0, 0), shared=32).tolist() == [2, 1]


def test_matrix_loads_and_stores() -> None:
    body = """mov.u32 %r1, box; mad.lo.u32 %r2, %t, 16, %r1; mad.lo.u32 %r4, %t, 4, %r1;
    ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%in]; st.shared.v4.u32 [%r2], {%r10, %r11, %r12, %r13}; bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r2]; stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r2], {%r5}; bar.sync 0; ld.shared.u32 %r6, [%r4]; st.global.u32 [%out4], %r6;"""
    text = module(body.replace("[%in];", "[%rd5];").replace("mov.u32 %r1, box;", "mov.u32 %r1, box; mul.wide.u32 %rd4, %t, 16; add.s64 %rd5, %in, %rd4;"),
                  ".shared .align 16 .b8 box[512];\n")  # fmt: skip
    values = np.arange(256, dtype=np.uint16)
    got = run(text, values, np.zeros(32, U32), 32).view(np.uint16)
    assert got.reshape(8, 8).tolist() == values[:64].reshape(8, 8).T.tolist()


MMA: dict[str, tuple[str, int, int, int, str, int]] = {
    # shape: types, m, k, bits of a factor, kind of the result, registers of the result
    **{f"m16n8k{k}.row.col.f32.{t}.{t}.f32": (t, 16, k, 16, "f32", 4) for k in (8, 16) for t in ("f16", "bf16")},
    **{f"m16n8k{k}.row.col.f16.f16.f16.f16": ("f16", 16, k, 16, "f16", 2) for k in (8, 16)},
    **{f"m16n8k{k}.row.col.f32.tf32.tf32.f32": ("tf32", 16, k, 32, "f32", 4) for k in (4, 8)},
    "m8n8k4.row.col.f64.f64.f64.f64": ("f64", 8, 4, 64, "f64", 2),
    **{f"m16n8k{k}.row.col.f64.f64.f64.f64": ("f64", 16, k, 64, "f64", 4) for k in (4, 8, 16)},
    **{f"m{m}n8k{k}.row.col{s}.s32.{t}.{t}.s32": (t, m, k, 8, "s32", m // 4) for m, k in ((8, 16), (16, 16), (16, 32)) for t in ("s8", "u8") for s in ("", ".satfinite")},
    **{f"m{m}n8k{k}.row.col.s32.{t}.{t}.s32": (t, m, k, 4, "s32", m // 4) for m, k in ((8, 32), (16, 32), (16, 64)) for t in ("s4", "u4")},
    **{f"m{m}n8k{k}.row.col.s32.b1.b1.s32.{op}.popc": (op, m, k, 1, "s32", m // 4) for m, k in ((8, 128), (16, 128), (16, 256)) for op in ("xor", "and")},
    **{f"m16n8k32.row.col.f32.{t}.{t}.f32": (t, 16, 32, 8, "f32", 4) for t in ("e4m3", "e5m2")},
}  # fmt: skip


def factor(
    rng: np.random.Generator, kind: str, bits: int, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return small values as numbers, and the bits of each."""
    if kind in ("f16", "bf16", "tf32", "f64", "e4m3", "e5m2"):
        numbers = rng.integers(-8, 9, shape).astype(np.float64)
        if kind == "f16":
            return numbers, numbers.astype(np.float16).view(np.uint16).astype(np.uint64)
        if kind == "f64":
            return numbers, numbers.view(np.uint64)
        words = numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
        if kind == "bf16":
            return numbers, words >> 16
        if kind == "tf32":
            return numbers, words
        return numbers, np.array(
            [[ref.encode(ref.exact(ref.Fraction(x)), kind) for x in row] for row in numbers], np.uint64
        )
    low, high = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16)}.get(kind, (0, 2))
    numbers = rng.integers(low, high, shape)
    return numbers.astype(np.float64), numbers.astype(np.int64).astype(np.uint64) & np.uint64((1 << bits) - 1)


def spread(bits: np.ndarray, width: int, *, rows: int) -> np.ndarray:
    """Lay a factor out over lanes and registers: lane // 4 is the row, a register holds neighbours of a row."""
    each = max(1, 32 // width)
    groups = [(c, r) for c in range(0, bits.shape[1], 4 * each) for r in range(0, rows, 8)]
    out = np.zeros((32, len(groups)), np.uint64)
    for lane in range(32):
        for k, (column, row) in enumerate(groups):
            values = bits[row + lane // 4, column + lane % 4 * each : column + lane % 4 * each + each]
            out[lane, k] = sum(int(v) << (width * i) for i, v in enumerate(values))
    return out


@pytest.mark.parametrize("form", MMA)
def test_matrix_products(form: str) -> None:
    kind, m, k, bits, result, count = MMA[form]
    rng = np.random.default_rng(3)
    a, a_bits = factor(rng, kind, bits, (m, k))
    b, b_bits = factor(rng, kind, bits, (8, k))
    c = rng.integers(-20, 20, (m, 8)).astype(np.float64)
    product = (
        np.array([[sum(int(x) ^ int(y) for x, y in zip(r, s, strict=True)) for s in b] for r in a])
        if kind == "xor"
        else a @ b.T
    )
    fa, fb = spread(a_bits, bits, rows=m), spread(b_bits, bits, rows=8)
    wide = result == "f64"
    dtype = {"f32": F32, "f16": F16, "f64": np.float64, "s32": S32}[result]
    per_lane = m // 4
    where = [
        [(lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2) for i in range(per_lane)] for lane in range(32)
    ]
    start = np.array([[c[at] for at in lane] for lane in where]).astype(dtype)
    size, register = (8, "%rd") if wide else (4, "%r")
    data = np.concatenate([np.ascontiguousarray(x.astype(np.uint64 if wide else U32)).view(np.uint8).reshape(32, -1) for x in (fa, fb)]
                          + [start.view(np.uint8).reshape(32, -1)], axis=1)  # fmt: skip
    total = data.shape[1] // size
    names = [f"{register}{i + 6}" for i in range(total)]
    na, nb = fa.shape[1], fb.shape[1]
    part = lambda low, high: "{" + ", ".join(names[low:high]) + "}"
    results = names[na + nb :]
    body = f"mul.lo.u32 %r0, %t, {data.shape[1]}; cvt.u64.u32 %rd0, %r0; add.s64 %rd0, %in, %rd0; mul.lo.u32 %r0, %t, {len(results) * size}; cvt.u64.u32 %rd1, %r0; add.s64 %rd1, %out, %rd1;"
    body += "".join(f"ld.global.b{8 * size} {name}, [%rd0+{size * i}];" for i, name in enumerate(names))
    body += f"mma.sync.aligned.{form} {part(na + nb, total)}, {part(0, na)}, {part(na, na + nb)}, {part(na + nb, total)};"
    body += "".join(f"st.global.b{8 * size} [%rd1+{size * i}], {name};" for i, name in enumerate(results))
    got = (
        run(module(body), data, np.zeros((32, len(results) * size), np.uint8), 32)
        .view(dtype)
        .reshape(32, per_lane)
    )
    want = np.array([[(product + c)[at] for at in lane] for lane in where])
    assert got.astype(np.float64).tolist() == want.tolist()
    assert count == len(results)


# ---- errors ----

ERRORS: dict[str, tuple[str, str, str]] = {
    "null": ("mov.u64 %rd0, 0; ld.global.u32 %r0, [%rd0];", "illegal-address", "reads 4 bytes at 0x0"),
    "outside": ("ld.global.u32 %r0, [%in+4096];", "illegal-address", "outside of every allocation"),
    "half outside": ("ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%in+16];", "illegal-address", "reads 16 bytes"),
    "misaligned": ("ld.global.u32 %r0, [%in+2];", "misaligned", "no multiple of 4"),
    "shared memory that is not there": ("mov.u32 %r1, 64; st.shared.u32 [%r1], 1;", "illegal-address", "shared memory"),
    "trap": ("trap;", "trap", "trap"),
    "a bad branch": ("mov.u32 %r0, 7; T: .branchtargets A; brx.idx %r0, T; A:", "illegal-instruction", "branch 7 of 1"),
    "a call to nowhere": ("P: .callprototype _ (); mov.u64 %rd0, 64; call %rd0, (), P;", "illegal-instruction", "no function"),
    "a barrier that nobody else reaches": ("bar.sync 0, 64;", "timeout", "waits at a barrier"),
    "endless recursion": ("call deep, ();", "illegal-address", "stack"),
    "textures": ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [x, {%f4, %f5}];", "unsupported", "tex.2d.v4.f32.f32"),
    "wmma": ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r0}, [%in];", "unsupported", "wmma.load"),
    "wgmma": ("wgmma.fence.sync.aligned;", "unsupported", "wgmma.fence"),
    "an unknown function": ("call (%r0), nothing, (%r1);", "invalid-ptx", "nothing"),
    "an unknown register": ("mov.u32 %r0, %nosuch;", "unsupported", "%nosuch"),
    "a wrong size": ("add.u32 %r0, %r0, %rd0;", "invalid-ptx", "wrong size"),
    "a missing label": ("bra NOWHERE;", "invalid-ptx", "NOWHERE"),
    "an open line": ("add.u32 %r0, %r0, 1", "invalid-ptx", ";"),
}  # fmt: skip
DEEP = ".func deep() { .local .b8 box[256]; st.local.u8 [box], 1; call deep, (); ret; }\n"


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_where_and_why(name: str) -> None:
    body, kind, words = ERRORS[name]
    with Module(module("\n" + body + "\n", DEEP)) as loaded, pytest.raises(PtxError) as caught:
        loaded.launch("k", [np.zeros(7, U32), np.zeros(7, U32)])
    assert caught.value.kind == kind
    assert words in caught.value.text
    assert caught.value.kernel == "k"
    assert 4 <= caught.value.line <= 17


MALLOC = ".extern .func (.param .b64 r) malloc (.param .b64 s);\n.extern .func free (.param .b64 p);\n"
FREED = """mov.u64 %rd1, SIZE; { .param .b64 a; .param .b64 b; st.param.b64 [a], %rd1; call.uni (b), malloc, (a); ld.param.b64 %rd2, [b]; }
    st.u32 [%rd2], %t; { .param .b64 a; st.param.b64 [a], %rd2; call.uni free, (a); } ld.u32 %r3, [%rd2+64];"""
#: Accesses that must not reach memory of the process: name: (body, threads).
OUTSIDE = {
    "behind the parameters": ("ld.param.u64 %rd1, [input+1000000000];", 1),
    "before the parameters": ("ld.param.u64 %rd1, [input-4096];", 1),
    "across the parameters' end": ("ld.param.v2.u64 {%rd1, %rd2}, [input+16];", 1),
    "no parameter's name": ("ld.param.u64 %rd1, [9223372036854775808];", 1),
    "writing a parameter": ("st.param.u64 [input], %in;", 1),
    "writing behind the parameters": ("st.param.u64 [input+1000], %in;", 1),
    "an atomic operation on a parameter": ("atom.param.add.u32 %r1, [input+1000], 1;", 1),
    "both ends of the address space": ("mul.wide.u32 %rd1, %t, 4; setp.lt.u32 %p1, %t, 16; @!%p1 sub.s64 %rd1, %rd1, 128; ld.global.u32 %r2, [%rd1];", 32),
    "writing at both ends": ("mul.wide.u32 %rd1, %t, 4; setp.lt.u32 %p1, %t, 16; @!%p1 sub.s64 %rd1, %rd1, 128; st.global.u32 [%rd1], %r2;", 32),
    "large memory that was freed": (FREED.replace("SIZE", "8388608"), 1),
    "small memory that was freed": (FREED.replace("SIZE", "8192"), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_address_reaches_memory_of_the_process(name: str) -> None:
    body, threads = OUTSIDE[name]
    with pytest.raises(PtxError) as caught:
        run(module(body, MALLOC), u32(0, 0), np.zeros(64, U32), threads)
    assert caught.value.kind in {"illegal-address", "unsupported", "invalid-ptx"}


def test_a_short_result_takes_no_more_than_its_bytes() -> None:
    body = """mov.u64 %rd1, 64; { .param .b64 a; .param .b32 b; .param .b32 c; st.param.b32 [c], 77; st.param.b64 [a], %rd1; call.uni (b), malloc, (a);
        ld.param.b32 %r1, [c]; } st.global.u32 [%out], %r1;"""
    assert run(module(body, ".extern .func (.param .b32 r) malloc (.param .b64 s);\n"), u32(0), u32(0)) == [
        77
    ]


#: What one lane does while others wait for it in a loop that is no plain branch back.
SPINS = {
    "a call": "SPIN: { .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], 0; st.param.b32 [b], 0; call.uni (c), plus, (a, b); } ld.volatile.global.u32 %r1, [%in]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN; bra END;",
    "an indexed branch": "SPIN: ld.volatile.global.u32 %r1, [%in]; TS: .branchtargets SPIN, END; brx.idx %r1, TS;",
}  # fmt: skip


@pytest.mark.parametrize("name", SPINS)
def test_lanes_that_wait_in_any_loop_let_the_others_go_on(name: str) -> None:
    body = f"setp.ne.u32 %p1, %t, 0; @%p1 bra REL; {SPINS[name]} REL: st.volatile.global.u32 [%in], 1; END: st.global.u32 [%out4], 1;"
    assert run(module(body, ADD), u32(0), np.zeros(32, U32), 32).sum() == 32


def test_many_blocks_may_wait_for_the_last_one() -> None:
    body = """mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 499; @%p1 bra REL; SPIN: ld.volatile.global.u32 %r2, [%in]; setp.eq.u32 %p2, %r2, 0; @%p2 bra SPIN; bra END;
        REL: st.volatile.global.u32 [%in], 1; END: atom.global.add.u32 %r3, [%out], 1;"""
    assert run(module(body), u32(0), u32(0), 1, grid=(500, 1, 1)) == [500]


def test_the_thread_that_failed_is_named() -> None:
    body = "setp.eq.u32 %p0, %t, 37; @%p0 mov.u64 %in4, 12; ld.global.u32 %r0, [%in4];"
    with Module(module(body)) as loaded, pytest.raises(PtxError) as caught:
        loaded.launch("k", [np.zeros(64, U32), np.zeros(64, U32)], block=(64, 1, 1))
    assert (caught.value.kind, caught.value.address, caught.value.thread) == (
        "illegal-address",
        12,
        (37, 0, 0),
    )


def test_a_kernel_that_is_not_supported_does_not_hinder_others() -> None:
    other = ".visible .entry other() { tex.1d.v4.s32.s32 {a, b, c, d}, [x, {y}]; ret; }\n"
    assert run(module("st.global.u32 [%out], 1;", other), u32(0), u32(0)).tolist() == [1]


def test_printing() -> None:
    text = module(
        """.local .align 8 .b8 args[32]; mov.u64 %rd0, args; cvta.local.u64 %rd1, %rd0; st.local.u32 [args], 42; st.local.f64 [args+8], 0d3FF8000000000000;
        mov.u64 %rd2, word; cvta.global.u64 %rd2, %rd2; st.local.u64 [args+16], %rd2; mov.u64 %rd3, format; cvta.global.u64 %rd3, %rd3;
        { .param .b64 f; .param .b64 a; .param .b32 n; st.param.b64 [f], %rd3; st.param.b64 [a], %rd1; call.uni (n), vprintf, (f, a); ld.param.b32 %r0, [n]; } st.global.u32 [%out], %r0;""",
        ".extern .func (.param .b32 n) vprintf(.param .b64 f, .param .b64 a);\n.global .align 1 .b8 word[4] = {97, 98, 99, 0};\n"
        f".global .align 1 .b8 format[20] = {{{', '.join(str(c) for c in b'%d|%5.2f|%s|100%%')}, 0}};\n",
    )
    printed()
    run(text, u32(0), u32(0))
    assert printed() == b"42| 1.50|abc|100%"


@pytest.mark.parametrize("text", ["%**.*d", "%**.*s", "%2000d", "%.2000f"])
def test_conversions_that_c_does_not_have_are_printed_as_they_are(text: str) -> None:
    name = ", ".join(str(byte) for byte in (*text.encode(), 0))
    body = """.local .align 8 .b8 box[32]; mov.u64 %rd1, box; cvta.local.u64 %rd1, %rd1; st.u64 [%rd1], 3; st.u64 [%rd1+8], 3; mov.u64 %rd0, text;
        { .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %rd0; st.param.b64 [b], %rd1; call.uni (c), vprintf, (a, b); }"""
    before = f".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.global .align 8 .b8 text[16] = {{{name}}};\n"
    run(module(body, before), u32(0), u32(0))
    assert printed() == text.encode()


def test_assertions() -> None:
    text = module(
        """mov.u64 %rd0, text; cvta.global.u64 %rd0, %rd0; { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 g; .param .b64 s;
        st.param.b64 [m], %rd0; st.param.b64 [f], %rd0; st.param.b32 [l], 12; st.param.b64 [g], %rd0; st.param.b64 [s], 1; call.uni __assertfail, (m, f, l, g, s); }""",
        ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 g, .param .b64 s);\n.global .align 1 .b8 text[3] = {97, 98, 0};\n",
    )
    with Module(text) as loaded, pytest.raises(PtxError) as caught:
        loaded.launch("k", [u32(0), u32(0)])
    assert (caught.value.kind, caught.value.text) == ("assert", "ab:12: ab: assertion `ab` failed")


def test_linking_finds_what_another_text_defines() -> None:
    first = module(
        "{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], 1; ld.global.u32 %r0, [seven]; st.param.b32 [b], %r0; call (c), plus, (a, b); ld.param.b32 %r1, [c]; } st.global.u32 [%out], %r1;",
        ".extern .func (.param .b32 result) plus(.param .b32 a, .param .b32 b);\n.extern .global .u32 seven;\n",
    )
    out = u32(0)
    with Module(first, HEAD + ".visible " + ADD + ".visible .global .u32 seven = 7;\n") as loaded:
        loaded.launch("k", [u32(0), out])
    assert out.tolist() == [8]


def test_attributes() -> None:
    text = HEAD + (
        ".const .b8 c[12];\n.visible .entry k(.param .u64 a, .param .align 4 .b8 b[12], .param .u8 c) .maxntid 64, 2, 1 { .shared .b8 s[100]; .local .b8 l[40]; "
        ".reg .b32 %r; mov.u32 %r, s; st.local.b32 [l], %r; ret; }\n.entry fixed() .reqntid 8 { ret; }\n"
    )
    with Module(text) as loaded:
        a = loaded.attributes("k")
        assert (a.max_threads, a.shared_bytes, a.const_bytes, a.parameters) == (128, 100, 12, 3)
        assert (a.local_bytes >= 40, a.ptx_version, a.target) == (True, 88, 90)
        with pytest.raises(PtxError, match="too-large"):
            loaded.launch("k", [u32(0), u32(0), u32(0)], block=(256, 1, 1))
        with pytest.raises(PtxError, match="8 x 1 x 1"):
            loaded.launch("fixed", [], block=(4, 1, 1))
        assert loaded.variable("c")[1] == 12


@pytest.mark.parametrize(
    ("text", "line"),
    [(".version 8.0\n.target sm_50\n.visible .entry k( {\n", 3), ("hello", 1), ("", 1), (".version 8.0\n.global .b8 a[99999999999999];", 2)],
    ids=["a broken head", "no PTX", "nothing", "too large"],
)  # fmt: skip
def test_texts_that_are_no_ptx_are_refused(text: str, line: int) -> None:
    with pytest.raises(PtxError) as caught:
        Module(text)
    assert caught.value.kind == "invalid-ptx"
    assert caught.value.line == line


# ---- CUDA_AMD_CPU_CHECK ----

CHECKED: dict[str, tuple[str, str, str]] = {
    "memory: shared memory read before it is written": ("memory", "ld.shared.u32 %r0, [box+4]; st.global.u32 [%out], %r0;", "never written"),
    "memory: local memory read before it is written": (
        "memory", ".local .b8 own[8]; st.local.u8 [own], 1; ld.local.u8 %r0, [own+1]; st.global.u32 [%out], %r0;", "never written"),
    "race: two warps write one word": ("race", "st.shared.u32 [box], %t;", "check race"),
    "race: one warp reads what another writes": (
        "race", "setp.lt.u32 %p0, %t, 32; @%p0 st.shared.u32 [box], 1; @!%p0 ld.shared.u32 %r0, [box];", "check race"),
    "sync: half a warp at a barrier": ("sync", "and.b32 %r0, %t, 1; setp.eq.u32 %p0, %r0, 1; @%p0 exit; bar.sync 0;", "check sync"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKED)
def test_the_checks_find_what_they_are_for(name: str) -> None:
    check, body, words = CHECKED[name]
    text = module(body, ".shared .align 4 .b8 box[64];\n")
    run(text, u32(0), np.zeros(64, U32), 64)  # without the check nothing is wrong
    with checking(check), pytest.raises(PtxError, match=words):
        run(text, u32(0), np.zeros(64, U32), 64)


def test_the_checks_accept_a_right_program() -> None:
    with checking("memory,race,sync"):
        for name in ("all", "barrier"):
            test_barriers_order_shared_memory(name)
        for name in ("shared memory", "local memory", "a generic local address"):
            test_one_thread(name)
