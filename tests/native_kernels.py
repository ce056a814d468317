"""Kernels for tests of the driver: PTX, its launch and images that hold it, without a toolkit."""

from __future__ import annotations

import ctypes
from typing import Any

#: out[i] = in[i] * factor, for the first n; a second kernel fills with a constant of the module.
PTX = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .const .align 4 .f32 level = 0f40400000;
.visible .entry scale(.param .u64 out, .param .u64 in, .param .f32 factor, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .b64 %a<6>;
    ld.param.u64 %a0, [out]; ld.param.u64 %a1, [in]; ld.param.f32 %f0, [factor]; ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra DONE;
    mul.wide.u32 %a2, %r4, 4; add.s64 %a3, %a0, %a2; add.s64 %a4, %a1, %a2;
    ld.global.f32 %f1, [%a4]; mul.f32 %f2, %f1, %f0; st.global.f32 [%a3], %f2;
DONE: ret;
}
.visible .entry fill(.param .u64 out, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<2>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [out]; ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra DONE;
    ld.const.f32 %f0, [level]; mul.wide.u32 %a1, %r4, 4; add.s64 %a2, %a0, %a1; st.global.f32 [%a2], %f0;
DONE: ret;
}
"""

#: Stores the number of its target, so that a test sees which image was taken.
WHICH = """.version 7.5
.target {target}
.address_size 64
.visible .entry which(.param .u64 out)
{{
    .reg .b64 %a; .reg .b32 %r;
    ld.param.u64 %a, [out]; mov.u32 %r, {number}; st.global.u32 [%a], %r; ret;
}}
"""

#: Calls a function of another text.
CALLER = b"""
.version 7.5
.target sm_75
.address_size 64
.extern .func (.param .b32 r) twice(.param .b32 v);
.visible .entry main(.param .u64 out)
{
    .reg .b64 %a; .reg .b32 %r<3>;
    ld.param.u64 %a, [out]; mov.u32 %r0, 21;
    { .param .b32 v; .param .b32 r; st.param.b32 [v], %r0; call (r), twice, (v); ld.param.b32 %r1, [r]; }
    st.global.u32 [%a], %r1; ret;
}
"""
CALLEE = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .func (.param .b32 r) twice(.param .b32 v)
{ .reg .b32 %r<2>; ld.param.b32 %r0, [v]; add.s32 %r1, %r0, %r0; st.param.b32 [r], %r1; ret; }
"""

#: Writes where it must not.
WILD = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .entry wild(.param .u64 out)
{ .reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [out]; mov.u32 %r, 1; st.global.u32 [%a], %r; ret; }
.visible .entry stop() { trap; }
"""


def load(cuda: Any, image: bytes) -> ctypes.c_void_p:
    module = ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), image) == 0
    return module


def function(cuda: Any, module: ctypes.c_void_p, name: bytes) -> ctypes.c_void_p:
    found = ctypes.c_void_p()
    assert cuda.cuModuleGetFunction(ctypes.byref(found), module, name) == 0
    return found


def pack(*values: Any) -> Any:
    """Return the list of pointers to arguments that a launch takes; it keeps them alive."""
    made: Any = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(value) for value in values))
    made.kept = values
    return made


def launch(
    cuda: Any,
    kernel: ctypes.c_void_p,
    arguments: Any,
    *,
    grid: int = 1,
    block: int = 32,
    stream: Any = None,
    shared: int = 0,
) -> int:
    status: int = cuda.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, shared, stream, arguments, None)
    return status
