"""Every form of PTX's value instructions, with edge values and what the reference says of them.

Each form becomes a kernel of its own that runs once for each row of inputs; see ``ptx_control.py``.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

import msgspec

from tools import ptx_reference as ref

#: Rows for a form whose edge values have more combinations than this.
ROWS: Final = 320


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """One instruction: its text with ``{d}``, ``{a}`` … for operands, their types, and the reference."""

    name: str
    text: str
    out: str
    sources: tuple[str, ...]
    compute: Callable[..., int | None]  # bits of the result; None: the manual leaves it open
    error: float = 0.0  # greatest relative error of an approximation
    least: int = 75  # the first sm_ that has it
    version: int = 70


INTS: Final = (0, 1, 2, 3, 7, 31, 32, 33, 0x55, 0x80, 0xFF, -1, -2, -5)
FLOATS: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3.0, -7.25, 1e-3, 100.5, 1 / 3)


@cache
def edges(kind: str) -> tuple[int, ...]:
    """Bits of a type that are worth trying."""
    if kind == "p":
        return (0, 1)
    if kind in ("f16x2", "bf16x2"):
        small = edges(kind[:-2])
        rng = random.Random(kind)
        return tuple(rng.choice(small) | rng.choice(small) << 16 for _ in range(40))
    bits = ref.width(kind)
    top = 1 << (bits - 1)
    if kind in ref.FORMATS:
        form = ref.FORMATS[kind]
        one = 1 << form.fraction
        shift = form.shift
        raw = [0, 1, one - 1, one, one + 1, form.infinite - 1, form.infinite, form.infinite + 1, form.nan]
        raw = [value for value in raw if value < 1 << form.bits - 1]
        values = [ref.encode(ref.exact(ref.Fraction(x), negative=str(x)[0] == "-"), kind) for x in FLOATS]
        more = [x << shift | sign << (form.bits - 1 + shift) for x in raw for sign in (0, 1)]
        return tuple(dict.fromkeys([*values, *more]))
    values = [*INTS, top, top - 1, top + 1, 0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x7FFF8000, 0x8001]
    return tuple(dict.fromkeys(ref.unsigned(v, bits) for v in values))


def rows(form: Form) -> list[tuple[int, ...]]:
    """Inputs for a form: all combinations, or as many at random; the same ones each time."""
    pools = [edges(kind) for kind in form.sources]
    total = 1
    for pool in pools:
        total *= len(pool)
    if total <= ROWS:
        return list(itertools.product(*pools))
    rng = random.Random(form.name)

    def one(kind: str, pool: Sequence[int]) -> int:
        return rng.choice(pool) if kind == "p" or rng.random() < 0.7 else rng.getrandbits(bits_of(kind))

    return [tuple(one(k, p) for k, p in zip(form.sources, pools, strict=True)) for _ in range(ROWS)]


def bits_of(kind: str) -> int:
    return {"p": 32, "f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32, "tf32": 32, "e4m3x2": 16}.get(
        kind, 16 if kind == "e5m2x2" else ref.width(kind)
    )


FORMS: Final[list[Form]] = []


def form(text: str, out: str, sources: str, compute: Callable[..., int | None], **more: object) -> None:
    """Add a form; its operands are d, a, b, c, e in this order unless the text names them."""
    kinds = tuple(sources.split())
    if "{" not in text:
        text = text + " " + ", ".join(["{d}", *("{" + x + "}" for x in "abce"[: len(kinds)])])
    FORMS.append(
        Form(name=text.split(" ")[0] if "|" not in text else text.split("{")[0].strip() + "|", text=text,
             out=out, sources=kinds, compute=compute, **more)
    )  # fmt: skip


# ---- integers ----


def integers() -> None:
    for bits in (16, 32, 64):
        u, s, b = f"u{bits}", f"s{bits}", f"b{bits}"
        mask = (1 << bits) - 1
        for kind in (u, s):
            num = lambda x, kind=kind: ref.integer(x, kind)
            cut = lambda x, mask=mask: x & mask
            form(f"add.{kind}", kind, f"{kind} {kind}", lambda a, b, cut=cut: cut(a + b))
            form(f"sub.{kind}", kind, f"{kind} {kind}", lambda a, b, cut=cut: cut(a - b))
            form(f"mul.lo.{kind}", kind, f"{kind} {kind}", lambda a, b, cut=cut: cut(a * b))
            form(
                f"mul.hi.{kind}",
                kind,
                f"{kind} {kind}",
                lambda a, b, n=num, c=cut, w=bits: c(n(a) * n(b) >> w),
            )
            form(f"mad.lo.{kind}", kind, f"{kind} " * 3, lambda a, b, c, cut=cut: cut(a * b + c))
            form(f"mad.hi.{kind}", kind, f"{kind} " * 3,
                 lambda a, b, c, n=num, cut=cut, w=bits: cut((n(a) * n(b) >> w) + c))  # fmt: skip
            form(
                f"sad.{kind}", kind, f"{kind} " * 3, lambda a, b, c, n=num, cut=cut: cut(c + abs(n(a) - n(b)))
            )
            form(f"min.{kind}", kind, f"{kind} {kind}", lambda a, b, n=num, cut=cut: cut(min(n(a), n(b))))
            form(f"max.{kind}", kind, f"{kind} {kind}", lambda a, b, n=num, cut=cut: cut(max(n(a), n(b))))
            form(f"div.{kind}", kind, f"{kind} {kind}",
                 lambda a, b, n=num, cut=cut: cut(ref.truncated(n(a), n(b))[0]) if b else None)  # fmt: skip
            form(f"rem.{kind}", kind, f"{kind} {kind}",
                 lambda a, b, n=num, cut=cut: cut(ref.truncated(n(a), n(b))[1]) if b else None)  # fmt: skip
            form(f"shr.{kind}", kind, f"{kind} u32", lambda a, b, n=num, cut=cut: cut(n(a) >> min(b, 70)))
            for how, test in INTEGER_TESTS.items():
                form(
                    f"setp.{how}.{kind}",
                    "p",
                    f"{kind} {kind}",
                    lambda a, b, t=test, n=num: int(t(n(a), n(b))),
                )
            if bits < 64:
                wide = f"{kind[0]}{2 * bits}"
                full = lambda x, w=2 * bits: x & ((1 << w) - 1)
                form(f"mul.wide.{kind}", wide, f"{kind} {kind}", lambda a, b, n=num, f=full: f(n(a) * n(b)))
                form(f"mad.wide.{kind}", wide, f"{kind} {kind} {wide}",
                     lambda a, b, c, n=num, f=full: f(n(a) * n(b) + c))  # fmt: skip
        for how in ("lo", "ls", "hi", "hs"):
            test = INTEGER_TESTS[{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}[how]]
            form(f"setp.{how}.{u}", "p", f"{u} {u}", lambda a, b, t=test: int(t(a, b)))
        form(f"setp.eq.{b}", "p", f"{b} {b}", lambda a, b: int(a == b))
        form(f"setp.ne.{b}", "p", f"{b} {b}", lambda a, b: int(a != b))
        form(f"abs.{s}", s, s, lambda a, w=bits, m=mask: abs(ref.signed(a, w)) & m)
        form(f"neg.{s}", s, s, lambda a, m=mask: -a & m)
        form(f"and.{b}", b, f"{b} {b}", lambda a, b: a & b)
        form(f"or.{b}", b, f"{b} {b}", lambda a, b: a | b)
        form(f"xor.{b}", b, f"{b} {b}", lambda a, b: a ^ b)
        form(f"not.{b}", b, b, lambda a, m=mask: ~a & m)
        form(f"cnot.{b}", b, b, lambda a: int(a == 0))
        form(f"shl.{b}", b, f"{b} u32", lambda a, b, m=mask: a << min(b, 70) & m)
        form(f"shr.{b}", b, f"{b} u32", lambda a, b: a >> min(b, 70))
        form(f"selp.{b}", b, f"{b} {b} p", lambda a, b, c: a if c else b)
        form(f"slct.{b}.s32", b, f"{b} {b} s32", lambda a, b, c: a if ref.signed(c, 32) >= 0 else b)
        form(f"mov.{b}", b, b, lambda a: a)
        if bits > 16:
            integer_bits(bits)


INTEGER_TESTS: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def find(a: int, kind: str) -> int:
    value = ref.integer(a, kind)
    value = ~value if value < 0 else value
    return value.bit_length() - 1 if value else 0xFFFFFFFF


def integer_bits(bits: int) -> None:
    b = f"b{bits}"
    form(f"popc.{b}", "u32", b, lambda a: a.bit_count())
    form(f"clz.{b}", "u32", b, lambda a, w=bits: w - a.bit_length())
    form(f"brev.{b}", b, b, lambda a, w=bits: int(f"{a:0{w}b}"[::-1], 2))
    form(f"bfi.{b} {{d}}, {{a}}, {{b}}, {{c}}, {{e}}", b, f"{b} {b} u32 u32",
         lambda a, b, c, e, w=bits: ref.insert(a, b, c, e, w))  # fmt: skip
    for kind in (f"u{bits}", f"s{bits}"):
        form(f"bfe.{kind}", kind, f"{kind} u32 u32", lambda a, b, c, k=kind: ref.field(a, b, c, k))
        form(f"bfind.{kind}", "u32", kind, lambda a, k=kind: find(a, k))
        form(f"bfind.shiftamt.{kind}", "u32", kind,
             lambda a, k=kind, w=bits: w - 1 - find(a, k) if find(a, k) < 64 else 0xFFFFFFFF)  # fmt: skip


M32: Final = 0xFFFFFFFF


def nth(mask: int, base: int, offset: int) -> int | None:
    offset = ref.signed(offset, 32)
    if offset == -(1 << 31):
        return 0  # on an H200, whatever the base
    if base > 31:
        return None
    if offset == 0:
        return base if mask >> base & 1 else M32
    order = range(base, 32) if offset > 0 else range(base, -1, -1)
    hits = [i for i in order if mask >> i & 1]
    return hits[abs(offset) - 1] if len(hits) >= abs(offset) else M32


def low(x: int, *, is_signed: bool) -> int:
    return ref.signed(x, 24) if is_signed else x & 0xFFFFFF


def dot(a: int, b: int, c: int, signs: tuple[bool, bool], parts: Sequence[tuple[int, int, int]]) -> int:
    for shift_a, bits_a, shift_b in parts:
        x, y = ref.unsigned(a >> shift_a, bits_a), b >> shift_b & 255
        c += (ref.signed(x, bits_a) if signs[0] else x) * (ref.signed(y, 8) if signs[1] else y)
    return c & M32


def words() -> None:
    """32-bit forms without relatives of other sizes."""
    s = lambda x: ref.signed(x, 32)
    sat = lambda x: ref.limit(x, "s32") & M32
    form("add.sat.s32", "s32", "s32 s32", lambda a, b: sat(s(a) + s(b)))
    form("sub.sat.s32", "s32", "s32 s32", lambda a, b: sat(s(a) - s(b)))
    form("mad.hi.sat.s32", "s32", "s32 s32 s32", lambda a, b, c: sat((s(a) * s(b) >> 32) + s(c)))
    form("min.relu.s32", "s32", "s32 s32", lambda a, b: max(0, min(s(a), s(b))), least=90, version=80)
    form("max.relu.s32", "s32", "s32 s32", lambda a, b: max(0, max(s(a), s(b))), least=90, version=80)
    for kind in ("u32", "s32"):
        sign = kind == "s32"
        product = lambda a, b, g=sign: low(a, is_signed=g) * low(b, is_signed=g)
        form(f"mul24.lo.{kind}", kind, f"{kind} {kind}", lambda a, b, p=product: p(a, b) & M32)
        form(f"mul24.hi.{kind}", kind, f"{kind} {kind}", lambda a, b, p=product: p(a, b) >> 16 & M32)
        form(f"mad24.lo.{kind}", kind, f"{kind} " * 3, lambda a, b, c, p=product: p(a, b) + c & M32)
        form(f"mad24.hi.{kind}", kind, f"{kind} " * 3, lambda a, b, c, p=product: (p(a, b) >> 16) + c & M32)
        for mode in ("clamp", "wrap"):
            form(
                f"szext.{mode}.{kind}",
                kind,
                f"{kind} u32",
                lambda a, b, m=mode, g=sign: extend(a, b, m, g),
                version=76,
            )
    form("mad24.hi.sat.s32", "s32", "s32 s32 s32",
         lambda a, b, c: sat((low(a, is_signed=True) * low(b, is_signed=True) >> 16) + s(c)))  # fmt: skip
    form("fns.b32", "b32", "b32 u32 s32", nth)
    for mode in ("clamp", "wrap"):
        form(f"bmsk.{mode}.b32", "b32", "u32 u32", lambda a, b, m=mode: ones(a, b, m), version=76)
        for side in "lr":
            form(f"shf.{side}.{mode}.b32", "b32", "b32 b32 u32",
                 lambda a, b, c, m=mode, d=side: funnel(a, b, min(c, 32) if m == "clamp" else c & 31, d))  # fmt: skip
    for x, y in itertools.product(("u32", "s32"), repeat=2):
        signs = (x == "s32", y == "s32")
        out = "s32" if any(signs) else "u32"
        four = [(8 * k, 8, 8 * k) for k in range(4)]
        form(f"dp4a.{x}.{y}", out, f"{x} {y} {out}", lambda a, b, c, g=signs, p=four: dot(a, b, c, g, p))
        for mode, at in (("lo", 0), ("hi", 16)):
            two = [(0, 16, at), (16, 16, at + 8)]
            form(
                f"dp2a.{mode}.{x}.{y}",
                out,
                f"{x} {y} {out}",
                lambda a, b, c, g=signs, p=two: dot(a, b, c, g, p),
            )
    for table in (0x00, 0x1E, 0x2D, 0x80, 0x96, 0xCA, 0xE8, 0xF8, 0xFF):
        form(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table}", "b32", "b32 b32 b32",
             lambda a, b, c, t=table: lop3(a, b, c, t))  # fmt: skip
    form("prmt.b32", "b32", "b32 b32 u32", ref.permute)
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        form(f"prmt.b32.{mode}", "b32", "b32 b32 u32", lambda a, b, c, m=mode: ref.permute(a, b, c, m))
    for kind in ("u16x2", "s16x2"):
        one = kind[:3]
        for name, best in (("min", min), ("max", max)):
            form(
                f"{name}.{kind}",
                "b32",
                "b32 b32",
                lambda a, b, k=one, f=best: halves(a, b, k, f),
                least=90,
                version=80,
            )
        form(
            f"add.{kind}",
            "b32",
            "b32 b32",
            lambda a, b, k=one: halves(a, b, k, lambda x, y: x + y),
            least=90,
            version=80,
        )


def halves(a: int, b: int, kind: str, f: Callable[[int, int], int]) -> int:
    parts = [f(ref.integer(a >> k, kind), ref.integer(b >> k, kind)) & 0xFFFF for k in (0, 16)]
    return parts[0] | parts[1] << 16


def extend(a: int, length: int, mode: str, sign: bool) -> int:
    length = length & 31 if mode == "wrap" else length
    if length >= 32 or length == 0:
        return a if length else 0
    return (ref.signed(a, length) if sign else ref.unsigned(a, length)) & M32


def ones(position: int, length: int, mode: str) -> int:
    if mode == "wrap":
        position, length = position & 31, length & 31
    return sum(1 << i for i in range(32) if position <= i < position + length)


def funnel(a: int, b: int, by: int, side: str) -> int:
    both = b << 32 | a
    return (both << by >> 32 if side == "l" else both >> by) & M32


def lop3(a: int, b: int, c: int, table: int) -> int:
    return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))


# ---- floats ----


def arithmetic() -> None:
    modes = {"": "n", ".rn": "n", ".rz": "z", ".rm": "m", ".rp": "p"}
    for kind in ("f32", "f64"):
        for (mode, r), ftz in itertools.product(modes.items(), ("", ".ftz") if kind == "f32" else ("",)):
            z = bool(ftz)
            read = lambda x, k=kind, z=z: ref.decode(x, k, ftz=z)
            write = lambda x, *order, k=kind, r=r, z=z: (
                ref.double_nan(*order) if x.nan and k == "f64" else ref.encode(x, k, r, ftz=z)
            )
            tail = f"{mode}{ftz}.{kind}"
            two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
            form("add" + tail, kind, two, lambda a, b, i=read, o=write, r=r: o(ref.add(i(a), i(b), r), b, a))
            form(
                "sub" + tail,
                kind,
                two,
                lambda a, b, i=read, o=write, r=r: o(ref.add(i(a), ref.negate(i(b)), r), b, a),
            )
            form("mul" + tail, kind, two, lambda a, b, i=read, o=write: o(ref.multiply(i(a), i(b)), b, a))
            if not mode:
                continue
            fused = lambda a, b, c, i=read, o=write, r=r: o(
                ref.add(ref.multiply(i(a), i(b)), i(c), r), b, c, a
            )
            form("fma" + tail, kind, three, fused)
            form("mad" + tail, kind, three, fused)
            form("div" + tail, kind, two, lambda a, b, i=read, o=write: o(ref.divide(i(a), i(b)), a, b))
            one = ref.exact(ref.Fraction(1))
            form("rcp" + tail, kind, kind, lambda a, i=read, o=write, n=one: o(ref.divide(n, i(a)), a))
            form("sqrt" + tail, kind, kind, lambda a, i=read, o=write: o(ref.square_root(i(a)), a))
    for op in ("add", "sub", "mul"):
        f = {"add": ref.add, "sub": lambda a, b: ref.add(a, ref.negate(b)), "mul": ref.multiply}[op]
        form(
            f"{op}.sat.f32",
            "f32",
            "f32 f32",
            lambda a, b, f=f: saturated(f(ref.decode(a, "f32"), ref.decode(b, "f32"))),
        )
    form("fma.rn.sat.f32", "f32", "f32 f32 f32", lambda a, b, c: saturated(
        ref.add(ref.multiply(ref.decode(a, "f32"), ref.decode(b, "f32")), ref.decode(c, "f32"))))  # fmt: skip
    for kind, top in (("f32", 1 << 31), ("f64", 1 << 63)):
        form(f"neg.{kind}", kind, kind, lambda a, t=top, k=kind: one_nan(a, k, a ^ t))
        form(f"abs.{kind}", kind, kind, lambda a, t=top, k=kind: one_nan(a, k, a & t - 1))
        form(f"copysign.{kind}", kind, f"{kind} {kind}", lambda a, b, t=top: b & t - 1 | a & t)
    form("abs.ftz.f32", "f32", "f32", lambda a: one_nan(a, "f32", flushed(a & 0x7FFFFFFF)))
    form("neg.ftz.f32", "f32", "f32", lambda a: one_nan(a, "f32", flushed(a ^ 1 << 31)))
    form("mov.f32", "f32", "f32", lambda a: a)
    form("mov.f64", "f64", "f64", lambda a: a)
    form("slct.b32.f32", "b32", "b32 b32 f32", lambda a, b, c: a if at_least_zero(c) else b)
    form("slct.ftz.b32.f32", "b32", "b32 b32 f32", lambda a, b, c: a if at_least_zero(c, ftz=True) else b)


def one_nan(a: int, kind: str, otherwise: int) -> int:
    """Return the result of neg or abs: the manual leaves a NaN open, an H200 makes it its usual one."""
    if not ref.decode(a, kind).nan:
        return otherwise
    return ref.double_nan(a) if kind == "f64" else ref.FORMATS[kind].nan


def at_least_zero(bits: int, *, ftz: bool = False) -> bool:
    x = ref.decode(bits, "f32", ftz=ftz)
    return not x.nan and (x.zero or not x.negative)


def flushed(bits: int) -> int:
    return bits if bits & 0x7F800000 else bits & 1 << 31


def saturated(x: ref.Number) -> int:
    return ref.encode(ref.clamp01(ref.decode(ref.encode(x, "f32"), "f32")), "f32")


def extremes() -> None:
    for op, ftz, nan, sign in itertools.product(
        ("min", "max"), ("", ".ftz"), ("", ".NaN"), ("", ".xorsign.abs")
    ):
        f = lambda a, b, o=op, n=bool(nan): ref.extreme(a, b, largest=o == "max", nan=n)
        more = {"least": 86, "version": 72} if sign else {"least": 80} if nan else {}
        form(f"{op}{ftz}{nan}{sign}.f32", "f32", "f32 f32",
             lambda a, b, f=f, z=bool(ftz), s=bool(sign): signless(a, b, f, "f32", z, s), **more)  # fmt: skip
        if not sign:
            form(f"{op}{ftz}{nan}.f32 {{d}}, {{a}}, {{b}}, {{c}}", "f32", "f32 f32 f32",
                 lambda a, b, c, f=f, z=bool(ftz): ref.encode(f(f(ref.decode(a, "f32", ftz=z), ref.decode(b, "f32", ftz=z)),
                                                                ref.decode(c, "f32", ftz=z)), "f32"),
                 least=100, version=88)  # fmt: skip
    for op in ("min", "max"):
        form(f"{op}.f64", "f64", "f64 f64", lambda a, b, o=op: double_extreme(a, b, o))
        for kind in ("f16", "bf16"):
            for nan, sign in itertools.product(("", ".NaN"), ("", ".xorsign.abs")):
                f = lambda a, b, o=op, n=bool(nan): ref.extreme(a, b, largest=o == "max", nan=n)
                one = lambda a, b, f=f, k=kind, s=bool(sign): signless(a, b, f, k, False, s)
                more = {"least": 86 if sign else 80, "version": 72 if sign else 70}
                form(f"{op}{nan}{sign}.{kind}", kind, f"{kind} {kind}", one, **more)
                form(f"{op}{nan}{sign}.{kind}x2", f"{kind}x2", f"{kind}x2 {kind}x2",
                     lambda a, b, f=one: paired(f, a, b), **more)  # fmt: skip


def double_extreme(a: int, b: int, op: str) -> int:
    x, y = ref.decode(a, "f64"), ref.decode(b, "f64")
    if x.nan and y.nan:
        return ref.double_nan(b)
    return ref.encode(ref.extreme(x, y, largest=op == "max"), "f64")


def signless(a: int, b: int, f: Callable[..., ref.Number], kind: str, ftz: bool, signs: bool) -> int:
    x, y = ref.decode(a, kind, ftz=ftz), ref.decode(b, kind, ftz=ftz)
    if not signs:
        return ref.encode(f(x, y), kind)
    top = 1 << ref.FORMATS[kind].bits - 1
    size = lambda n: ref.negate(n) if n.negative and not n.nan else n
    out = f(size(x), size(y))
    return ref.encode(out, kind) & top - 1 | (a ^ b) & top if not out.nan else None


def paired(f: Callable[..., int | None], *pairs: int) -> int | None:
    parts = [f(*(x >> k & 0xFFFF for x in pairs)) for k in (0, 16)]
    return None if None in parts else parts[0] | parts[1] << 16


SIGNS_OF_HALVES: Final[tuple[tuple[str, Callable[[int], int]], ...]] = (
    ("neg", lambda a: a ^ 0x8000),
    ("abs", lambda a: a & 0x7FFF),
)


def small() -> None:
    """f16 and bf16: one and two at a time."""
    for kind in ("f16", "bf16"):
        for ftz in ("", ".ftz") if kind == "f16" else ("",):
            z = bool(ftz)
            read = lambda x, k=kind, z=z: ref.decode(x, k, ftz=z)
            for tail, clip in (("", None), (".sat", ref.clamp01)) if kind == "f16" else (("", None),):
                write = lambda x, k=kind, z=z, c=clip: ref.encode(
                    c(ref.decode(ref.encode(x, k, ftz=z), k)) if c else x, k, ftz=z)  # fmt: skip
                more = {"least": 90, "version": 78} if kind == "bf16" else {}
                for name, f in {
                    "add": lambda a, b, i=read, o=write: o(ref.add(i(a), i(b))),
                    "sub": lambda a, b, i=read, o=write: o(ref.add(i(a), ref.negate(i(b)))),
                    "mul": lambda a, b, i=read, o=write: o(ref.multiply(i(a), i(b))),
                }.items():
                    form(f"{name}{ftz}{tail}.{kind}", kind, f"{kind} {kind}", f, **more)
                    form(f"{name}{ftz}{tail}.{kind}x2", f"{kind}x2", f"{kind}x2 {kind}x2",
                         lambda a, b, f=f: paired(f, a, b), **more)  # fmt: skip
                f = lambda a, b, c, i=read, o=write: o(ref.add(ref.multiply(i(a), i(b)), i(c)))
                fmas = {"least": 80} if kind == "bf16" else {}
                form(f"fma.rn{ftz}{tail}.{kind}", kind, f"{kind} {kind} {kind}", f, **fmas)
                form(
                    f"fma.rn{ftz}{tail}.{kind}x2",
                    f"{kind}x2",
                    f"{kind}x2 " * 3,
                    lambda a, b, c, f=f: paired(f, a, b, c),
                    **fmas,
                )
            if not ftz:
                f = lambda a, b, c, i=read, k=kind: ref.encode(
                    relu(ref.add(ref.multiply(i(a), i(b)), i(c))), k
                )
                form(f"fma.rn.relu.{kind}", kind, f"{kind} {kind} {kind}", f, least=80)
                form(
                    f"fma.rn.relu.{kind}x2",
                    f"{kind}x2",
                    f"{kind}x2 " * 3,
                    lambda a, b, c, f=f: paired(f, a, b, c),
                    least=80,
                )
        for (name, f), ftz in itertools.product(SIGNS_OF_HALVES, ("", ".ftz") if kind == "f16" else ("",)):
            z = bool(ftz)
            g = lambda a, f=f, k=kind, z=z: one_nan(a, k, f(a & 0x8000 if z and not a & 0x7C00 else a))
            form(f"{name}{ftz}.{kind}", kind, kind, g, **({"least": 80} if kind == "bf16" else {}))
            form(
                f"{name}{ftz}.{kind}x2",
                f"{kind}x2",
                f"{kind}x2",
                lambda a, f=g: paired(f, a),
                **({"least": 80} if kind == "bf16" else {}),
            )


def relu(x: ref.Number) -> ref.Number:
    return ref.Number(negative=False) if x.negative and not x.nan else x


FLOAT_TESTS: Final = [
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "equ",
    "neu",
    "ltu",
    "leu",
    "gtu",
    "geu",
    "num",
    "nan",
]


def tests() -> None:
    for how in FLOAT_TESTS:
        for kind, ftz in (
            ("f32", ""),
            ("f32", ".ftz"),
            ("f64", ""),
            ("f16", ""),
            ("f16", ".ftz"),
            ("bf16", ""),
        ):
            f = lambda a, b, h=how, k=kind, z=bool(ftz): int(
                ref.compare_floats(h, ref.decode(a, k, ftz=z), ref.decode(b, k, ftz=z))
            )
            more = {"least": 90, "version": 78} if kind == "bf16" else {}
            form(f"setp.{how}{ftz}.{kind}", "p", f"{kind} {kind}", f, **more)
        f32 = lambda a, b, h=how: ref.compare_floats(h, ref.decode(a, "f32"), ref.decode(b, "f32"))
        form(f"set.{how}.u32.f32", "u32", "f32 f32", lambda a, b, f=f32: M32 if f(a, b) else 0)
        form(f"set.{how}.f32.f32", "f32", "f32 f32", lambda a, b, f=f32: 0x3F800000 if f(a, b) else 0)
        f16 = lambda a, b, h=how: ref.compare_floats(h, ref.decode(a, "f16"), ref.decode(b, "f16"))
        form(f"set.{how}.f16.f16", "f16", "f16 f16", lambda a, b, f=f16: 0x3C00 if f(a, b) else 0)
        form(f"set.{how}.f16x2.f16x2", "f16x2", "f16x2 f16x2",
             lambda a, b, f=f16: paired(lambda x, y: 0x3C00 if f(x, y) else 0, a, b))  # fmt: skip
    for how, test in INTEGER_TESTS.items():
        form(
            f"set.{how}.u32.s32",
            "u32",
            "s32 s32",
            lambda a, b, t=test: M32 if t(ref.signed(a, 32), ref.signed(b, 32)) else 0,
        )
        form(f"set.{how}.f32.u32", "f32", "u32 u32", lambda a, b, t=test: 0x3F800000 if t(a, b) else 0)
    for word, join in (
        ("and", lambda x, y: x and y),
        ("or", lambda x, y: x or y),
        ("xor", lambda x, y: x != y),
    ):
        for bang in ("", "!"):
            g = lambda a, b, c, j=join, n=bang: int(bool(j(a < b, bool(c) != bool(n))))
            form(f"setp.lt.{word}.u32 {{d}}, {{a}}, {{b}}, {bang}{{c}}", "p", "u32 u32 p", g)
            form(
                f"set.lt.{word}.u32.u32 {{d}}, {{a}}, {{b}}, {bang}{{c}}",
                "u32",
                "u32 u32 p",
                lambda a, b, c, g=g: M32 if g(a, b, c) else 0,
            )
        form(f"{word}.pred", "p", "p p", lambda a, b, j=join: int(bool(j(a, b))))
    form("not.pred", "p", "p", lambda a: 1 - a)
    for kind in ("f32", "f64"):
        for name, f in TESTP.items():
            form(
                f"testp.{name}.{kind}",
                "p",
                kind,
                lambda a, f=f, k=kind: int(f(ref.decode(a, k), ref.pow2(1 - ref.FORMATS[k].bias))),
            )


TESTP: Final[dict[str, Callable[[ref.Number, ref.Fraction], bool]]] = {
    "finite": lambda x, least: x.finite,
    "infinite": lambda x, least: x.infinite,
    "number": lambda x, least: not x.nan,
    "notanumber": lambda x, least: x.nan,
    "normal": lambda x, least: x.zero or (x.finite and abs(x.value) >= least),
    "subnormal": lambda x, least: x.finite and 0 < abs(x.value) < least,
}


def every_form() -> list[Form]:
    """Return all forms, each name once."""
    from tools import ptx_cases_convert  # fills FORMS too

    if not FORMS:
        for fill in (integers, words, arithmetic, extremes, small, tests, *ptx_cases_convert.FILLERS):
            fill()
    return list({f.text: f for f in FORMS}.values())


def module_text(forms: Sequence[Form], target: int = 75, version: int = 70) -> str:
    """Return a module with one kernel a form, ``k0``, ``k1`` …"""
    head = f".version {version // 10}.{version % 10}\n.target sm_{target}\n.address_size 64\n"
    return head + "".join(kernel_text(f"k{i}", f) for i, f in enumerate(forms))


def kernel_text(name: str, one: Form) -> str:
    kinds = (one.out, *one.sources)
    sizes = [bits_of(kind) for kind in kinds]
    lines = list(_declarations(name, kinds, sizes))
    for k, kind in enumerate(kinds[1:], 1):
        lines.append(f"ld.global.b{sizes[k]} %v{k}, [%p{k}];")
        if kind == "p":
            lines.append(f"setp.ne.u32 %q{k}, %v{k}, 0;")
    names = dict(
        zip("dabce", (f"%q{k}" if kind == "p" else f"%v{k}" for k, kind in enumerate(kinds)), strict=False)
    )
    lines.append(one.text.format(**names) + ";")
    if one.out == "p":
        lines.append("selp.u32 %v0, 1, 0, %q0;")
    lines += [f"st.global.b{sizes[0]} [%p0], %v0;", "DONE: ret;", "}", ""]
    return "\n".join(lines)


def _declarations(name: str, kinds: Sequence[str], sizes: Sequence[int]) -> Iterator[str]:
    parameters = ", ".join(f".param .u64 a{k}" for k in range(len(kinds)))
    yield f".visible .entry {name}({parameters}, .param .u32 n) {{"
    yield ".reg .pred %out, %q<8>; .reg .b32 %i, %x, %y, %n; .reg .b64 %o, %p<8>;"
    yield from (f".reg .b{size} %v{k};" for k, size in enumerate(sizes))
    yield "mov.u32 %i, %tid.x; mov.u32 %x, %ctaid.x; mov.u32 %y, %ntid.x; mad.lo.u32 %i, %x, %y, %i;"
    yield "ld.param.u32 %n, [n]; setp.ge.u32 %out, %i, %n; @%out bra DONE;"
    for k, size in enumerate(sizes):
        yield f"ld.param.u64 %p{k}, [a{k}]; mul.wide.u32 %o, %i, {size // 8}; add.u64 %p{k}, %p{k}, %o;"
