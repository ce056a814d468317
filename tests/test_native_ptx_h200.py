"""Bits that an NVIDIA H200 with CUDA 13 gave where the PTX manual leaves them open or says otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native_cpu import no_compiler
from tests.native_ptx import HEAD, Module, PtxError
from tests.native_ptx import module as module_of
from tools.ptx_cases import Form, bits_of, every_form, module_text

pytestmark = [pytest.mark.proof, pytest.mark.skipif(bool(no_compiler()), reason=no_compiler() or "-")]

MEASURED = (
    ("bfe.u64", (0x786144D04E423D72, 3, 0x80000001), 0x0F0C289A09C847AE),
    ("bfe.s64", (0xFFFFFFFFFFFFFFFB, 0x80000001, 2), 0xFFFFFFFFFFFFFFFF),
    ("bfi.b64", (0x20, 0x7FFFFFFFFFFFFFFF, 0x1F, 0x7FFF8000), 0x107FFFFFFF),
    ("bfi.b64", (0xFFFFFFFFFFFFFFFF, 0, 0x8001, 0xFFFFFFFE), 0),
    ("fns.b32", (0x55, 0x1F, 0x80000000), 0),
    ("sub.cc.u32", (0x55, 0x55, 2), 3),
    ("add.cc.u32", (0x9EE48E1E, 0x55, 0xFFFFFFFB), 0xFFFFFFFA),
    ("vadd.u32.u32.u32.sat", (0xB153AE36, 0x7A3E0A9D), 0x2B91B8D3),
    ("vsub.u32.u32.s32.sat", (0xFFFFFFFE, 0xFFFFFFFB), 3),
    ("vabsdiff.u32.s32.u32.sat", (0xC632D8F3, 0xFFFFFFFF), 0x39CD270C),
    ("testp.normal.f32", (0,), 1),
    ("neg.f32", (0x7F800001,), 0x7FFFFFFF),
    ("abs.bf16", (0xFF81,), 0x7FFF),
    ("neg.f64", (0x7FF0000000000001,), 0x7FF8000000000001),
    ("add.f64", (0x7FF0000000000001, 0xFFF8000000000000), 0xFFF8000000000000),
    ("div.rn.f64", (0x7FF0000000000001, 0x7FF8000000000000), 0x7FF8000000000001),
    ("fma.rn.f64", (0x4008000000000000, 0xFFF0000000000001, 0xFFF8000000000000), 0xFFF8000000000001),
    ("cvt.rn.f32.f64", (0xFFF0123456789ABC,), 0xFFC091A2),
    ("cvt.rn.f16.f64", (0xFFF0123456789ABC,), 0xFE04),
    ("cvt.f64.f32", (0xFF812345,), 0xFFF82468A0000000),
    ("cvt.ftz.f64.f32", (0xFF800001,), 0x7FFFFFFFE0000000),
    ("cvt.f64.f16", (0xFD23,), 0xFFFC8C0000000000),
    ("cvt.f32.bf16", (0xFF81,), 0xFF810000),
    ("cvt.rna.tf32.f32", (0x7F801FFF,), 0x7F800000),
    ("cvt.rn.tf32.f32", (0xFF800001,), 0x7FFFE000),
    ("cvt.rp.ftz.f16.f32", (1,), 1),
    ("neg.ftz.f16", (0x8003,), 0),
)


def form_of(name: str, sources: int) -> Form:
    """Return the form with this name; where two start alike, the one that mixes carries."""
    forms = [form for form in every_form() if form.name == name and len(form.sources) == sources]
    if ".cc" in name:
        other = "addc" if name.startswith("sub") else "subc"
        forms = [form for form in forms if other in form.text]
    return forms[0]


@pytest.mark.parametrize(
    ("name", "inputs", "bits"), MEASURED, ids=[f"{k} {row[0]}" for k, row in enumerate(MEASURED)]
)
def test_the_engine_gives_the_bits_of_a_gpu(name: str, inputs: tuple[int, ...], bits: int) -> None:
    form = form_of(name, len(inputs))
    sizes = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
    columns = [np.array([x], sizes[bits_of(kind)]) for x, kind in zip(inputs, form.sources, strict=True)]
    out = np.zeros(1, sizes[bits_of(form.out)])
    with Module(module_text([form], 120, 88)) as module:
        module.launch("k0", [out, *columns, np.uint32(1)], grid=(1, 1, 1), block=(32, 1, 1))
    assert int(out[0]) == bits
    assert form.compute(*inputs) == bits


#: Moves of vectors and what thread (1, 2, 1) of block (2, 1, 1) then has in %a to %d.
MOVES: dict[str, tuple[int, int, int, int]] = {
    "mov.v4.u32 {%a, %b, %c, %d}, %tid;": (1, 2, 1, 0),
    "mov.v4.b32 {%a, %b, %c, %d}, %ntid;": (2, 3, 2, 0),
    "mov.v4.s32 %v, %ctaid; mov.v4.u32 {%a, %b, %c, %d}, %v;": (2, 1, 1, 0),
    "mov.v4.u32 %v, %nctaid; mov.u32 %a, %v.r; mov.u32 %b, %v.g; mov.u32 %c, %v.b; mov.u32 %d, %v.a;": (3, 2, 2, 0),
    "mov.v4.u32 {%a, %b, %c, %d}, %clusterid;": (2, 1, 1, 0),
    "mov.v4.u32 {%a, %b, %c, %d}, %nclusterid;": (3, 2, 2, 0),
    "mov.v4.u32 {%a, %b, %c, %d}, %cluster_ctaid;": (0, 0, 0, 0),
    "mov.v4.u32 {%a, %b, %c, %d}, %cluster_nctaid;": (1, 1, 1, 0),
    "mov.u32 %a, %tid.w; mov.u32 %b, %ntid.w; mov.u32 %c, %ctaid.w; mov.u32 %d, %nctaid.w;": (0, 0, 0, 0),
    "mov.u32 %a, %tid.r; mov.u32 %b, %tid.g; mov.u32 %c, %tid.b; mov.u32 %d, %tid.a;": (1, 2, 1, 0),
    "mov.v4.u16 {%h0, %h1, %h2, %h3}, %tid; cvt.u32.u16 %a, %h0; cvt.u32.u16 %b, %h1; cvt.u32.u16 %c, %h2; cvt.u32.u16 %d, %h3;": (1, 2, 1, 0),
    "mov.u16 %h0, %ctaid.x; cvt.u32.u16 %a, %h0; mov.v2.u32 {%b, _}, {%a, %a}; mov.u32 %c, 5; mov.v2.u32 {_, %d}, %nwarpid;": (2, 2, 5, 0),
    "mov.v4.u32 {%a, %b, %c, %d}, 7;": (7, 0, 0, 0),
    "mov.u32 %a, 9; mov.v4.u32 {%d, %c, %b, %a}, %a;": (0, 0, 0, 9),
    "mov.v4.u32 {%a, %b, %c, _}, {%tid.x, %tid.y, %tid.z, %laneid}; mov.u32 %d, 1;": (1, 2, 1, 1),
    "mov.v4.u32 {%a, %b, %c, %d}, {4, 3, 2, 1}; mov.v4.u32 {%a, %b, %c, %d}, {%d, %c, %b, %a};": (1, 2, 3, 4),
}  # fmt: skip


def test_vectors_move_as_on_a_gpu() -> None:
    sums = "".join(
        f"mov.u32 %a, %{name}.{k}; add.u32 %s, %s, %a; " for name in ("tid", "ctaid") for k in "xyz"
    )
    moves = "\n".join(
        f"{move} st.global.v4.u32 [%out+{16 * k}], {{%a, %b, %c, %d}};" for k, move in enumerate(MOVES)
    )
    text = f"""{HEAD}.visible .entry k(.param .u64 out) {{
      .reg .pred %p; .reg .b16 %h<4>; .reg .b32 %a, %b, %c, %d, %s; .reg .v4 .u32 %v; .reg .b64 %out;
      ld.param.u64 %out, [out]; mov.u32 %s, 0; {sums} setp.ne.u32 %p, %s, 8; @%p ret;
      {moves} ret; }}"""
    out = np.zeros((len(MOVES) + 1, 4), np.uint32)
    out = out.ravel()[-out.ctypes.data % 16 // 4 :][: 4 * len(MOVES)].reshape(-1, 4)  # vectors are aligned
    with Module(text) as loaded:
        loaded.launch("k", [out], grid=(3, 2, 2), block=(2, 3, 2))
    assert {move: tuple(map(int, row)) for move, row in zip(MOVES, out, strict=True)} == MOVES


@pytest.mark.parametrize(
    "move",
    [
        "mov.v2.u32 {%r0, %r1}, %tid;",
        "mov.u32 %r0, %tid;",
        "mov.u32 {%r0, %r1, %r2, %r3}, %tid;",
        "mov.u32 %r0, %tid.q;",
        "mov.v4.u32 %r0, %tid;",
    ],
)
def test_moves_that_no_assembler_takes_are_refused(move: str) -> None:
    with Module(module_of(move)) as loaded, pytest.raises(PtxError, match=r"mov|the wrong|%tid"):
        loaded.launch("k", [np.zeros(4, np.uint32), np.zeros(4, np.uint32)])
