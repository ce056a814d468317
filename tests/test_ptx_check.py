"""Which kernels of a PTX text each release compiles, and what costs the whole of it."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.preflight.kernels import TABLES
from scripts.preflight.ptx_check import PtxChecker, TextVerdict
from scripts.preflight.ptx_scan import form_of, scan_ptx
from scripts.preflight.ptx_table import PtxTable, ptx_table, ptx_tables, releases
from tests.bounds import in_proportion
from tests.ptx_texts import HEAD, function, kernel, text

pytestmark = pytest.mark.proof

OLD, MIDDLE, NEW = ptx_tables()


def verdict(data: bytes, table: PtxTable = NEW) -> TextVerdict:
    return PtxChecker(scan_ptx(data)).verdict(table)


def refusal(instruction: str, table: PtxTable = NEW) -> str:
    """Why one instruction drops its kernel; empty where it does not."""
    found = verdict(text(kernel("k", f"{instruction};")), table)
    assert not found.unusable
    return found.dropped["k"].text if "k" in found.dropped else ""


def test_there_is_a_table_for_each_release_that_the_rules_know() -> None:
    assert [table.release for table in ptx_tables()] == list(releases())
    assert all("vosen/ZLUDA@" in table.source for table in ptx_tables())
    assert {path.suffix for path in TABLES.iterdir()} == {".json", ".toml"}
    assert ptx_table("zluda-v99") is None


@pytest.mark.parametrize(
    "instruction",
    [
        "add.s32 %r1, %r2, %r3",
        "add.s32 %r1,%r2,-5",
        "mov.b64 {%r1, %r2}, %rd1",
        "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16]",
        "ld.global.nc.u32 %r1, [%rd1]",
        "st.shared.u32 [%r1], %r2",
        "setp.lt.s32 %p1, %r1, %r2",
        "setp.lt.and.s32 %p1, %r1, %r2, !%p2",
        "cvt.rn.f32.s32 %f1, %r1",
        "cvt.rn.ftz.f16.f32 %h1, %f1",
        "fma.rn.f32 %f1, %f2, %f3, %f4",
        "shfl.sync.down.b32 %r1|%p1, %r2, 16, 31, -1",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}]",
        "@%p1 bra $L__BB0_2",
        "@!%p1 bra.uni $L__BB0_2",
        "bar.sync 0",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2}, {%r1,%r2}, {%r5,%r6}, {%f1,%f2}",
        "cp.async.ca.shared.global [%r1], [%rd1], 16",
        "$L1: add.s32 %r1, %r2, %r3",
        "{ .reg .pred p; setp.eq.s32 p, %r1, 0",
    ],
    ids=str,
)
def test_instructions_that_every_release_compiles(instruction: str) -> None:
    assert [refusal(instruction, table) for table in ptx_tables()] == ["", "", ""]


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("lop3.b32 %r1, %r2, %r3, %r4, 0x96", "lop3.b32: unknown opcode"),
        ("red.global.add.u32 [%rd1], %r1", "red.global.add.u32: unknown opcode"),
        ("ld.global.L2::128B.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1]", ".level::prefetch_size not implemented"),
        ("bfind.u32 %r1, %r2", "bfind.u32: unknown"),
        ("fma.rn.bf16 %h1, %h2, %h3, %h4", "unknown modifiers"),
        ("set.eq.f16.f16 %h1, %h2, %h3", "unknown modifiers"),
        ("cvt.f32.s32 %f1, %r1", "no rounding mode"),
        ("cvt.rn.f64.f32 %fd1, %f1", "a rounding mode where none is needed"),
        ("cvt.ftz.s32.s64 %r1, %rd1", ".ftz without .f32"),
        ("setp.equ.s32 %p1, %r1, %r2", "an unordered comparison on .s32"),
        ("add.s32 %r1, %r2", "2 operands"),
        ("ld.global.u32 %r1, [%rd1], %rd2", "a cache policy"),
        ("mov.u32 %r1, %envreg3", "%envreg3: special register"),
        ("ld.global.u32 %r1, [%rd1].unified", ".unified not implemented"),
        (".branchtargets L1, L2", ".branchtargets: a directive that is not read"),
        ("call %rd1, ()", "call: through a register"),
        ("call nowhere, ()", "call: nowhere is not known before"),
    ],
    ids=str,
)
def test_instructions_that_no_release_compiles(instruction: str, why: str) -> None:
    assert [why in refusal(instruction, table) for table in ptx_tables()] == [True, True, True]


@pytest.mark.parametrize(
    ("instruction", "first"),
    [
        ("exit", "v6"),
        ("bfind.shiftamt.u32 %r1, %r2", "v6"),
        ("match.any.sync.b32 %r1, %r2, -1", "v6"),
        ("shfl.down.b32 %r1, %r2, 16, 31", "v7-preview.9"),
        ("cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16", "v7-preview.9"),
    ],
    ids=str,
)
def test_instructions_that_a_later_release_brought(instruction: str, first: str) -> None:
    taken = [table.release for table in ptx_tables() if not refusal(instruction, table)]
    assert taken == list(releases())[releases().index(first) :]


def test_only_the_function_around_an_instruction_is_dropped_and_its_place_is_named() -> None:
    data = text(kernel("good"), kernel("bad", "add.s32 %r1, %r2, %r3;", "lop3.b32 %r1, %r2, %r3, %r4, 1;"))
    found = verdict(data)
    assert set(found.dropped) == {"bad"}
    lines = data.decode().splitlines()
    assert "lop3.b32" in lines[found.dropped["bad"].line - 1]
    assert (found.refused, found.fails, found.lost) == (1, {}, 1)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (text(kernel("k", "mov.b64 {_, %r1}, %rd1;")), "a bare _"),
        (text(kernel("k", "add.s32 %r1, %r2, ~5;")), "the character ~"),
        (text(kernel("k", "add.s32 %r1, %r2, %;")), "the character %"),
        (text(kernel(), head=".version 8.2\n.target sm_80, texmode_independent\n"), ".target"),
        (text(kernel(), head=".target sm_80\n"), "its head is not"),
        (b"", "its head is not"),
    ],
    ids=["bare", "tilde", "percent", "list", "no-version", "empty"],
)
def test_a_text_that_cannot_be_read_at_all(data: bytes, why: str) -> None:
    assert [why in verdict(data, table).unusable for table in ptx_tables()] == [True, True, True]


@pytest.mark.parametrize(
    "head",
    [".version 8.2\n.target sm_80, debug\n", ".version 8.2\n.target sm_80\n.address_size 32\n"],
    ids=str,
)
def test_heads_that_v6_brought(head: str) -> None:
    assert [bool(verdict(text(kernel(), head=head), table).unusable) for table in ptx_tables()] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "data",
    [
        text("// it's a _ comment # & ?\n", kernel()),
        text("/* a _ ' \n * */", kernel()),
        text('.file 1 "it\'s_ _.cu"\n', kernel("k", ".loc 1 2 3", "add.s32 %r1, %r2, %r3;")),
        text(kernel("k", '.pragma "no_ _unroll";')),
        text(kernel("_Z1kPf_param_", "ld.param.u64 %rd1, [_Z1kPf_param_0];")),
        text(kernel()) + b"\0\0\0",
    ],
    ids=["line-comment", "block-comment", "file", "string", "names", "padding"],
)
def test_what_the_lexer_skips_costs_nothing(data: bytes) -> None:
    found = verdict(data)
    assert (found.unusable, found.dropped) == ("", {})


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("setp.lt.s32 %p1|%p2, %r1, %r2", "two predicates"),
        ("st.shared::cluster.u32 [%r1], %r2", ".shared::cta or .shared::cluster"),
        ("dp4a.u32.s32 %r1, %r2, %r3, %r4", "signs that differ"),
        ("mov.u64 %rd1, %clock64", "%clock64"),
        ("mov.u32 %r1, %lanemask_gt", "%lanemask_gt"),
        ("mov.u32 %r1, %nsmid", "%nsmid"),
        ("bar.red.popc.u32 %r1, 0, 64, %p1", ""),
        ("bar.red.and.pred %p1, 0, 64, %p2", "a thread count"),
        ("ex2.approx.f16x2 %r1, %r2", "this type"),
        ("call malloc, ()", "malloc, which has no body here"),
    ],
    ids=str,
)
def test_what_makes_the_whole_module_fail(instruction: str, why: str) -> None:
    declared = ".extern .func malloc()\n;\n"
    found = verdict(text(declared, kernel("other"), kernel("k", f"{instruction};")))
    assert any(why in reason for reason in found.fails) if why else not found.fails
    assert "other" not in found.dropped


@pytest.mark.parametrize("name", ["tid.x", "ntid.y", "ctaid.z", "laneid", "lanemask_lt", "nctaid.x"], ids=str)
def test_special_registers_that_are_known_cost_nothing(name: str) -> None:
    found = verdict(text(kernel("k", f"mov.u32 %r1, %{name};")))
    assert (found.dropped, found.fails) == ({}, {})


def test_what_a_dropped_function_would_have_cost_counts_no_more() -> None:
    found = verdict(
        text(kernel("other"), kernel("k", "mov.u64 %rd1, %clock64;", "lop3.b32 %r1, %r2, %r3, %r4, 1;"))
    )
    assert (set(found.dropped), found.fails) == ({"k"}, {})


def test_a_kernel_that_calls_a_dropped_function_takes_the_module_with_it() -> None:
    helper = function("helper", "lop3.b32 %r1, %r2, %r3, %r4, 1;")
    found = verdict(text(helper, kernel("k", "call helper, ();"), kernel("other")))
    assert set(found.dropped) == {"helper"}
    assert any("helper, which was dropped (lop3.b32" in reason for reason in found.fails)


def test_a_function_whose_head_is_not_read_drops_its_callers() -> None:
    broken = ".func helper\n{\n\tret;\n}\n"
    found = verdict(text(broken, kernel("k", "call helper, ();"), kernel("other")))
    assert set(found.dropped) == {"helper", "k"}
    assert found.fails == {}


@pytest.mark.parametrize(
    "tail", [" .explicitcluster", " .maxclusterrank 8", " .abi_preserve 3", " .maxnctapersm 2"], ids=str
)
def test_directives_of_a_function_that_are_not_read(tail: str) -> None:
    assert set(verdict(text(kernel("other"), kernel("k", tail=tail))).dropped) == {"k"}


def test_directives_of_a_function_that_are_read() -> None:
    data = text(
        kernel(
            "k", tail=" .maxntid 128, 1, 1\n.minnctapersm 2", parameters=".param .u64 .ptr .global .align 8 a"
        )
    )
    assert verdict(data).dropped == {}
    assert set(verdict(text(kernel(parameters=".param .u64 .ptr .shared .align 8 a"))).dropped) == {"k"}


@pytest.mark.parametrize(
    ("variable", "used", "fails"),
    [
        (".global .align 4 .b8 table[4] = {1, 2, 3, 4};", True, False),
        (".global .u64 p = generic(table);", False, False),
        (".global .u64 p = generic(table);", True, True),
        (".samplerref p;", True, True),
        (".common .global .b32 p;", True, True),
    ],
    ids=["plain", "unused", "generic", "sampler", "common"],
)
def test_variables_that_are_not_read(variable: str, used: bool, fails: bool) -> None:
    use = ["ld.global.u64 %rd1, [p];"] if used else []
    assert bool(verdict(text(variable, kernel("k", *use))).fails) is fails


def test_a_vector_variable_ends_the_process() -> None:
    assert verdict(text(".global .align 16 .v4 .f32 v;", kernel())).ends
    assert verdict(text(".const .b8 v[2][3];", kernel())).ends
    assert not verdict(text(".global .align 4 .b8 v[64];", kernel())).ends


def test_code_for_linking_is_told_apart() -> None:
    declared = ".extern .func (.param .b32 r) _Z6add_opff(.param .b32 a)\n;\n"
    found = verdict(text(declared, kernel("k", "call (%r1), _Z6add_opff, (%r2);")))
    assert found.linking == "_Z6add_opff"
    system = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b)\n;\n"
    found = verdict(text(system, kernel("k", "call.uni (%r1), vprintf, (%rd1, %rd2);")))
    assert (found.linking, found.fails, found.dropped) == ("", {}, {})


@pytest.mark.parametrize(
    ("instruction", "rule", "ids"),
    [
        ("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2", "copy-size", [1, 1, 1]),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16, 0", "copy-size", [0, 0, 0]),
        ("bar.sync 1, 128", "barrier-number", [1, 1, 1]),
        ("bar.sync 0", "barrier-number", [0, 0, 0]),
        ("bar.red.popc.u32 %r1, 0, %p1", "barrier-number", [0, 0, 0]),
        ("barrier.cta.red.and.pred %p1, 2, %p2", "barrier-number", [0, 0, 0]),
        ("bar.red.and.pred %p1, 2, %p2", "barrier-number", [1, 1, 1]),
        ("shfl.sync.down.b32 %r1, %r2, 16, 31, 0x0000ffff", "member-mask", [1, 1, 1]),
        ("shfl.sync.down.b32 %r1, %r2, 16, 31, -1", "member-mask", [0, 0, 0]),
        ("vote.sync.ballot.b32 %r1, %p1, %r2", "member-mask", [1, 1, 1]),
        ("clz.b64 %r1, %rd1", "count-64", [1, 0, 0]),
        ("popc.b64 %r1, %rd1", "count-64", [1, 0, 0]),
        ("popc.b32 %r1, %r2", "count-64", [0, 0, 0]),
    ],
    ids=str,
)
def test_what_differs_without_a_word(instruction: str, rule: str, ids: list[int]) -> None:
    data = text(function("helper", f"{instruction};"), kernel("k", "call helper, ();"), kernel("other"))
    found = [verdict(data, table).differs for table in ptx_tables()]
    assert [int(rule in one.get("k", ())) for one in found] == ids
    assert not any(one.get("other") for one in found)


def test_bodies_end_where_their_braces_do() -> None:
    inner = kernel("a", "{", ".reg .b32 t;", "mov.b32 {%r1, %r2}, %rd1;", "}", "add.s32 %r1, %r2, %r3;")
    one_line = ".visible .entry b() { ret; }\n.global .align 4 .b8 t[4] = {1,\n2,\n3};\n"
    scan = scan_ptx(text(inner, one_line, kernel("c", "lop3.b32 %r1, %r2, %r3, %r4, 1;")))
    assert scan.kernels == ("a", "b", "c")
    assert any(".global .align 4 .b8 t[4]" in one for one in scan.outside)
    assert not any("lop3" in one for one in scan.outside)
    assert scan.instructions == 6


def test_equal_instructions_have_one_form() -> None:
    data = text(
        kernel("k", "mov.b64 {%r1,%r2}, %rd1;", "@%p1 mov.b64  {%r3, %r4},%rd2;", "L: mov.b64 %rd1, %rd2;")
    )
    (one,) = scan_ptx(data).functions
    assert one.forms[form_of("mov", ".b64", ",")] == 3


def test_a_long_body_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["add.s32 %r1, %r2, %r3;"] * 500 + ["lop3.b32 %r1, %r2, %r3, %r4, 1;"]
    whole = scan_ptx(text(kernel("k", *lines)))
    monkeypatch.setattr("scripts.preflight.ptx_scan.PIECE", 100)
    assert scan_ptx(text(kernel("k", *lines))).functions == whole.functions


SEED = text(
    ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b)\n;\n",
    ".global .align 4 .b8 t[4] = {1, 2, 3, 4};",
    function("helper", "clz.b64 %r1, %rd1;"),
    kernel(
        "k",
        "ld.param.u64 %rd1, [k_param_0];",
        "{ .reg .pred p; setp.eq.s32 p|%p2, %r1, 0; }",
        "@!%p1 bra $L1;",
        "call.uni (%r1), vprintf, (%rd1, %rd2);",
        "$L1: cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;",
        "mov.u32 %r1, %clock;",
    ),
)
PIECES = st.sampled_from(
    [
        *b'; { } ( ) [ | : :: % @ _ " /* // = .entry .func .section call generic( \xff'.split(),
        *(b"\n}", b"\0", b".loc ", b"mov.b64 ", b".a" * 50),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SEED)), PIECES, st.integers(0, 40)), max_size=8))
def test_damaged_texts_get_an_answer(changes: list[tuple[int, bytes, int]]) -> None:
    data = bytearray(SEED)
    for place, piece, cut in changes:
        data[place : place + cut] = piece
    for table in ptx_tables():
        verdict(bytes(data), table)


@pytest.mark.parametrize(
    "data",
    [
        b"{" * (1 << 17),
        HEAD.encode() + b".entry k()\n{\n" + b"}\n{" * (1 << 15),
        HEAD.encode() + b".entry k(){" + b"a" * (1 << 17),
        HEAD.encode() + b".entry k(){" + b"a:" * (1 << 16) + b";}",
        HEAD.encode() + b".entry k(){ " + b"add" + b".a" * (1 << 16) + b";}",
        HEAD.encode() + b".entry " * (1 << 14),
        HEAD.encode() + b".func f(" * (1 << 13),
        HEAD.encode() + b"/* " * (1 << 15),
        HEAD.encode() + b".entry k(){" + b"mov.b64 " * (1 << 14) + b";}.func",
        HEAD.encode() + b".entry k(){shfl.sync" + b",sync" * (1 << 14) + b";}",
        HEAD.encode() + b".entry k(){shfl.sync.bfly.b32 " + b"a," * 2000 + b"-1;}",
        HEAD.encode() + b"/*" * (1 << 16),
        HEAD.encode() + b".section a {" * (1 << 13),
        HEAD.encode() + b".global .b32 a = " * (1 << 12) + b"generic(",
        HEAD.encode() + b".attribute(" * (1 << 12),
        HEAD.encode() + b".common " * (1 << 13),
        HEAD.encode() + b".entry k(){" + b"call (" * (1 << 13) + b";}",
        HEAD.encode() + b".entry k(){" + b"mov.b64 a," * (1 << 13) + b";}.func",
        HEAD.encode() + b".entry k(){" + b"cp.async.ca.x [" * (1 << 12) + b";}",
        b"".join(HEAD.encode() + b".func f%d(){ call f%d, (); ret; }\n" % (n, n - 1) for n in range(4_000)),
        HEAD.encode() + b".entry f(){" + b"".join(b"foo.%d a;" % n for n in range(10_000)) + b"}",
        HEAD.encode() + b"\n.visible" * (1 << 14),
        b" " * (1 << 17) + b".version",
    ],
    ids=lambda data: repr(data[45:75]),
)
def test_hostile_texts_cost_time_in_proportion_to_their_size(data: bytes) -> None:
    tracemalloc.start()
    try:
        with in_proportion():
            for table in ptx_tables():
                verdict(data, table)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
