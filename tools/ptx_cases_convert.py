"""The forms of ``cvt``, the approximations, and forms with carries or several destinations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Final

from tools import ptx_reference as ref
from tools.ptx_cases import M32, bits_of, form

INT_KINDS: Final = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
FLOAT_KINDS: Final = ("f16", "f32", "f64")
MODES: Final = {"n": "rn", "z": "rz", "m": "rm", "p": "rp"}


def int_to_int(a: int, source: str, kind: str, *, sat: bool) -> int:
    value = ref.integer(a, source)
    return ref.unsigned(ref.limit(value, kind) if sat else value, ref.width(kind))


def to_float(number: ref.Number, kind: str, mode: str, *, sat: bool = False, ftz: bool = False) -> int:
    if sat:
        number = ref.clamp01(number)
    return ref.encode(number, kind, mode, ftz=ftz and kind == "f32")


def saturates(source: str, kind: str) -> bool:
    """Whether .sat is allowed between integers: only where some value does not fit."""
    top = 1 << ref.width(source)
    return any(
        ref.limit(x, kind) != x for x in (ref.integer(v, source) for v in (top // 2 - 1, top // 2, top - 1))
    )


def plain() -> None:
    for source, kind in itertools.product(INT_KINDS, repeat=2):
        for sat in ("", ".sat") if saturates(source, kind) else ("",):
            form(
                f"cvt{sat}.{kind}.{source}",
                kind,
                source,
                lambda a, s=source, k=kind, t=bool(sat): int_to_int(a, s, k, sat=t),
            )
    for source, kind, (mode, word) in itertools.product(INT_KINDS, FLOAT_KINDS, MODES.items()):
        for sat in ("", ".sat") if kind != "f64" else ("",):
            form(f"cvt.{word}{sat}.{kind}.{source}", kind, source,
                 lambda a, s=source, k=kind, m=mode, t=bool(sat): to_float(ref.exact(ref.Fraction(ref.integer(a, s))), k, m, sat=t))  # fmt: skip
    for source, kind, (mode, word) in itertools.product(FLOAT_KINDS, INT_KINDS, MODES.items()):
        for ftz in ("", ".ftz") if source == "f32" else ("",):
            form(f"cvt.{word}i{ftz}.{kind}.{source}", kind, source,
                 lambda a, s=source, k=kind, m=mode, z=bool(ftz): ref.unsigned(
                     ref.float_to_int(ref.decode(a, s, ftz=z), s, k, m), ref.width(k)))  # fmt: skip


def between_floats() -> None:
    for source, kind in itertools.permutations(FLOAT_KINDS, 2):
        narrow = ref.width(kind) < ref.width(source)
        for mode, word in MODES.items() if narrow else [("n", "")]:
            for ftz, sat in itertools.product(
                ("", ".ftz") if "f32" in (source, kind) else ("",), ("", ".sat")
            ):
                if ftz and "f64" in (source, kind) and source != "f32" and kind != "f32":
                    continue
                f = lambda a, s=source, k=kind, m=mode, z=bool(ftz), t=bool(sat): between(a, s, k, m, z, t)
                form(f"cvt{'.' + word if word else ''}{ftz}{sat}.{kind}.{source}", kind, source, f)
    for kind in ("f32", "f64", "f16"):
        for mode, word in MODES.items():
            f = lambda a, k=kind, m=mode: integral(a, k, m)
            form(f"cvt.{word}i.{kind}.{kind}", kind, kind, f)
    form("cvt.sat.f32.f32", "f32", "f32", lambda a: ref.encode(ref.clamp01(ref.decode(a, "f32")), "f32"))
    form("cvt.rn.bf16.f32", "bf16", "f32", lambda a: ref.encode(ref.decode(a, "f32"), "bf16"), least=80)
    form("cvt.rz.bf16.f32", "bf16", "f32", lambda a: ref.encode(ref.decode(a, "f32"), "bf16", "z"), least=80)
    form(
        "cvt.f32.bf16",
        "f32",
        "bf16",
        lambda a: kept_nan(a, "bf16", "f32"),
        least=90,
        version=78,
    )
    form("cvt.rna.tf32.f32", "b32", "f32", lambda a: kept_nan(a, "f32", "tf32", "a"), least=80)
    form(
        "cvt.rn.tf32.f32",
        "b32",
        "f32",
        lambda a: kept_nan(a, "f32", "tf32", "n"),
        least=90,
        version=78,
    )
    form(
        "cvt.rz.tf32.f32",
        "b32",
        "f32",
        lambda a: kept_nan(a, "f32", "tf32", "z"),
        least=90,
        version=78,
    )
    for pair, one in (("f16x2", "f16"), ("bf16x2", "bf16")):
        for (mode, word), positive in itertools.product((("n", "rn"), ("z", "rz")), ("", ".relu")):
            f = lambda a, b, k=one, m=mode, r=bool(positive): packed(a, b, k, m, r)
            form(f"cvt.{word}{positive}.{pair}.f32", "b32", "f32 f32", f, least=80)


def kept_nan(a: int, source: str, kind: str, mode: str = "n") -> int:
    x = ref.decode(a, source)
    return ref.converted_nan(a, source, kind, mode=mode) if x.nan else ref.encode(x, kind, mode)


def between(a: int, source: str, kind: str, mode: str, ftz: bool, sat: bool) -> int:
    """To f16 an H200 rounds subnormal sources in spite of .ftz, which shows in the directed modes."""
    x = ref.decode(a, source, ftz=ftz and source == "f32" and kind != "f16")
    if x.nan and not sat:
        return ref.converted_nan(a, source, kind, ftz=ftz)
    return to_float(x, kind, mode, sat=sat, ftz=ftz)


def integral(a: int, kind: str, mode: str) -> int:
    x = ref.decode(a, kind)
    if x.nan:
        return ref.converted_nan(a, kind, kind)
    return (
        a
        if x.infinite
        else ref.encode(ref.exact(ref.Fraction(ref.to_integer(x.value, mode)), negative=x.negative), kind)
    )


def packed(a: int, b: int, kind: str, mode: str, positive: bool) -> int:
    def one(x: int) -> int:
        number = ref.decode(x, "f32")
        if positive and number.negative and not number.nan:
            number = ref.Number(negative=False)
        return ref.encode(number, kind, mode)

    return one(b) | one(a) << 16


def bytes_of_float() -> None:
    """The 8-bit formats, two at a time."""
    for kind in ("e4m3", "e5m2"):
        for positive in ("", ".relu"):

            def f(a: int, b: int, k: str = kind, r: bool = bool(positive), s: str = "f32") -> int:
                return byte(b, s, k, r) | byte(a, s, k, r) << 8

            form(f"cvt.rn.satfinite{positive}.{kind}x2.f32", "b16", "f32 f32", f, least=89, version=81)
            g = lambda a, k=kind, r=bool(positive): (
                byte(a & 0xFFFF, "f16", k, r) | byte(a >> 16, "f16", k, r) << 8
            )
            form(f"cvt.rn.satfinite{positive}.{kind}x2.f16x2", "b16", "f16x2", g, least=89, version=81)
            h = lambda a, k=kind, r=bool(positive): half(a & 255, k, r) | half(a >> 8, k, r) << 16
            form(f"cvt.rn{positive}.f16x2.{kind}x2", "f16x2", "b16", h, least=89, version=81)


def byte(a: int, source: str, kind: str, positive: bool) -> int:
    x = ref.decode(a, source)
    if positive and x.negative and not x.nan:
        x = ref.Number(negative=False)
    return ref.encode(x, kind, finite=True)


def half(a: int, kind: str, positive: bool) -> int:
    x = ref.decode(a, kind)
    if positive and x.negative and not x.nan:
        x = ref.Number(negative=False)
    return ref.encode(x, "f16")


def real(bits: int, kind: str) -> float:
    x = ref.decode(bits, kind)
    if x.nan:
        return math.nan
    if x.infinite:
        return -math.inf if x.negative else math.inf
    return math.copysign(float(x.value), -1.0 if x.negative else 1.0)


def number(value: float) -> ref.Number:
    if math.isnan(value):
        return ref.NAN
    if math.isinf(value):
        return ref.infinity(negative=value < 0)
    return ref.exact(ref.Fraction(value), negative=math.copysign(1, value) < 0)


def lenient(f: Callable[[float], float], x: float) -> float:
    """Apply a function of ``math`` with IEEE's answers where Python raises."""
    try:
        return f(x)
    except OverflowError:
        return math.inf
    except (ValueError, ZeroDivisionError):
        return math.nan


def logarithm(x: float) -> float:
    return -math.inf if x == 0 else lenient(math.log2, x)


def reciprocal_root(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else lenient(lambda v: 1 / math.sqrt(v), x)


def approximations() -> None:
    functions: dict[str, tuple[Callable[[float], float], float]] = {
        "ex2": (lambda x: lenient(lambda v: 2.0**v, x), 2.0**-21),
        "lg2": (logarithm, 2.0**-20),
        "sin": (lambda x: lenient(math.sin, x), 2.0**-14.7),
        "cos": (lambda x: lenient(math.cos, x), 2.0**-14.7),
        "tanh": (math.tanh, 2.0**-10),
        "rsqrt": (reciprocal_root, 2.0**-21),
        "sqrt": (lambda x: lenient(math.sqrt, x), 2.0**-21),
        "rcp": (lambda x: math.copysign(math.inf, x) if x == 0 else 1 / x, 2.0**-22),
    }
    for name, (f, error) in functions.items():
        for ftz in ("", ".ftz") if name != "tanh" else ("",):
            most = 100 * math.pi if name in ("sin", "cos") else math.inf
            g = lambda a, f=f, z=bool(ftz), m=most: moderate(
                ref.encode(number(f(real(flush(a, z), "f32"))), "f32", ftz=z), a, m
            )
            form(f"{name}.approx{ftz}.f32", "f32", "f32", g, error=error)
    for kind in ("f16", "bf16"):
        more = {"least": 90, "version": 78} if kind == "bf16" else {}
        form(
            f"tanh.approx.{kind}",
            kind,
            kind,
            lambda a, k=kind: ref.encode(number(math.tanh(real(a, k))), k),
            error=2.0**-7,
            **more,
        )
        z = ".ftz" if kind == "bf16" else ""
        form(f"ex2.approx{z}.{kind}", kind, kind,
             lambda a, k=kind: ref.encode(number(functions["ex2"][0](real(a, k))), k), error=2.0**-7, **more)  # fmt: skip
    for ftz, how in itertools.product(("", ".ftz"), ("approx", "full")):
        form(
            f"div.{how}{ftz}.f32",
            "f32",
            "f32 f32",
            lambda a, b, z=bool(ftz): quotient(a, b, z),
            error=2.0**-21,
        )
    form("rcp.approx.ftz.f64", "f64", "f64", lambda a: roughly(a, lambda x: 1 / x), error=2.0**-19)
    form("rsqrt.approx.ftz.f64", "f64", "f64", lambda a: roughly(a, reciprocal_root), error=2.0**-19)
    form("rsqrt.approx.f64", "f64", "f64", lambda a: roughly(a, reciprocal_root), error=2.0**-19)


def flush(bits: int, ftz: bool) -> int:
    return bits if not ftz or bits & 0x7F800000 else bits & 1 << 31


def moderate(bits: int, a: int, most: float = math.inf) -> int | None:
    """Leave open subnormal results, whose error is not relative, and finite angles beyond ``most``.

    The manual promises an absolute error of 2**-14.7 for sines and cosines up to 100 pi, and nothing beyond.
    """
    if 0 < bits & 0x7FFFFFFF < 0x00800000 or 0 < a & 0x7F800000 < 0x01000000:
        return None
    return None if most < abs(real(a, "f32")) < math.inf else bits


def quotient(a: int, b: int, ftz: bool) -> int | None:
    x, y = ref.decode(flush(a, ftz), "f32"), ref.decode(flush(b, ftz), "f32")
    if y.finite and not 2.0**-126 <= abs(y.value) <= 2.0**126:
        return None
    return moderate(ref.encode(ref.divide(x, y), "f32", ftz=ftz), a)


def roughly(a: int, f: Callable[[float], float]) -> int | None:
    x = real(a, "f64")
    if x == 0 or math.isinf(x) or not 1e-300 < abs(x) < 1e300 or x != x or x < 0:
        return None
    return ref.encode(number(f(x)), "f64")


def several() -> None:
    """Forms of more than one instruction or destination: what the first leaves is seen in the last."""
    for kind in ("u32", "s32", "u64", "s64"):
        bits = ref.width(kind)
        mask = (1 << bits) - 1
        cc = lambda a, b, c, m=mask, w=bits: (c + (a + b >> w)) & m
        version = {"version": 43}
        form(
            f"add.cc.{kind} {{d}}, {{a}}, {{b}}; addc.{kind} {{d}}, {{c}}, 0",
            kind,
            f"{kind} " * 3,
            cc,
            **version,
        )
        borrow = lambda a, b, c, m=mask: (c - (a < b)) & m
        form(
            f"sub.cc.{kind} {{d}}, {{a}}, {{b}}; subc.{kind} {{d}}, {{c}}, 0",
            kind,
            f"{kind} " * 3,
            borrow,
            **version,
        )
        form(f"add.cc.{kind} {{d}}, {{a}}, {{b}}; addc.cc.{kind} {{d}}, {{c}}, {{c}}; addc.{kind} {{d}}, 0, 0", kind, f"{kind} " * 3,
             lambda a, b, c, w=bits: (2 * c + (a + b >> w)) >> w, **version)  # fmt: skip
        mixed = lambda a, b, c, m=mask: (c + (a >= b)) & m  # the carry of a subtraction: no borrow
        form(
            f"sub.cc.{kind} {{d}}, {{a}}, {{b}}; addc.{kind} {{d}}, {{c}}, 0",
            kind,
            f"{kind} " * 3,
            mixed,
            **version,
        )
        mixed = lambda a, b, c, m=mask, w=bits: (c - 1 + (a + b >> w)) & m
        form(
            f"add.cc.{kind} {{d}}, {{a}}, {{b}}; subc.{kind} {{d}}, {{c}}, 0",
            kind,
            f"{kind} " * 3,
            mixed,
            **version,
        )
        n = lambda x, k=kind: ref.integer(x, k)
        product = lambda a, b, c, n=n, m=mask, w=bits: ((n(a) * n(b) >> w) + (((a * b & m) + c) >> w)) & m
        form(
            f"mad.lo.cc.{kind} {{d}}, {{a}}, {{b}}, {{c}}; madc.hi.{kind} {{d}}, {{a}}, {{b}}, 0",
            kind,
            f"{kind} " * 3,
            product,
            **version,
        )
    for word, join in (("or", lambda x, y: x or y), ("and", lambda x, y: x and y)):
        form(f".reg .b32 %t; lop3.{word}.b32 %t|{{d}}, {{a}}, {{b}}, {{a}}, 0xC0, {{c}}", "p", "b32 b32 p",
             lambda a, b, c, j=join: int(bool(j(a & b, c))), version=82)  # fmt: skip
    form(
        ".reg .pred %t; setp.lt.s32 %t|{d}, {a}, {b}",
        "p",
        "s32 s32",
        lambda a, b: int(ref.signed(a, 32) >= ref.signed(b, 32)),
    )
    form(
        "mov.b64 {d}, {{{{{a}, {b}}}}}".replace("{{{{", "{{").replace("}}}}}", "}}}"),
        "b64",
        "b32 b32",
        lambda a, b: a | b << 32,
    )
    form(".reg .b32 %t; mov.b64 {{%t, {d}}}, {a}", "b32", "b64", lambda a: a >> 32)
    form(
        ".reg .b16 %t, %u; mov.b32 {{%t, %u}}, {a}; mov.b32 {d}, {{%u, %t}}",
        "b32",
        "b32",
        lambda a: (a >> 16 | a << 16) & M32,
    )


def video_limit(value: int, kind: str) -> int:
    """Without a sign an H200 limits from below only; the manual says on both sides."""
    return ref.limit(value, kind) if kind == "s32" else max(value, 0)


def carries_of_video() -> None:
    """A few of the video instructions; the GPU runs them as several others."""
    for x, y in itertools.product(("u32", "s32"), repeat=2):
        n = lambda v, k: ref.integer(v, k)
        for op, f in (("vadd", lambda a, b: a + b), ("vsub", lambda a, b: a - b), ("vabsdiff", lambda a, b: abs(a - b)),
                      ("vmin", min), ("vmax", max)):  # fmt: skip
            for kind, sat in itertools.product(("u32", "s32"), ("", ".sat")):
                g = lambda a, b, f=f, k=kind, t=sat, i=x, j=y: (
                    (video_limit(f(n(a, i), n(b, j)), k) if t else f(n(a, i), n(b, j))) & M32
                )
                form(f"{op}.{kind}.{x}.{y}{sat}", kind, f"{x} {y}", g)
    form("vshr.u32.u32.u32.clamp", "u32", "u32 u32", lambda a, b: a >> min(b, 32))
    form("vshl.u32.u32.u32.wrap", "u32", "u32 u32", lambda a, b: a << (b & 31) & M32)
    form(
        "vshr.u32.u32.u32.clamp.add {d}, {a}, {b}, {c}",
        "u32",
        "u32 u32 u32",
        lambda a, b, c: (a >> min(b, 32)) + c & M32,
    )
    form("vmad.u32.u32.u32 {d}, {a}, {b}, {c}", "u32", "u32 u32 u32", lambda a, b, c: a * b + c & M32)
    form(
        "vadd.u32.u32.u32 {d}, {a}.b1, {b}.h1",
        "u32",
        "u32 u32",
        lambda a, b: (a >> 8 & 255) + (b >> 16) & M32,
    )
    for name, best in (("vmin4", min), ("vmax4", max)):
        form(f"{name}.u32.u32.u32 {{d}}, {{a}}, {{b}}, {{c}}", "u32", "u32 u32 u32",
             lambda a, b, c, f=best: sum(f(a >> k & 255, b >> k & 255) << k for k in (0, 8, 16, 24)))  # fmt: skip
    form("vabsdiff4.u32.u32.u32.add {d}, {a}, {b}, {c}", "u32", "u32 u32 u32",
         lambda a, b, c: c + sum(abs((a >> k & 255) - (b >> k & 255)) for k in (0, 8, 16, 24)) & M32)  # fmt: skip
    form("vavrg4.u32.u32.u32 {d}, {a}, {b}, {c}", "u32", "u32 u32 u32",
         lambda a, b, c: sum(((a >> k & 255) + (b >> k & 255) + 1 >> 1) << k for k in (0, 8, 16, 24)))  # fmt: skip


FILLERS: Final = (plain, between_floats, bytes_of_float, approximations, several, carries_of_video)
__all__ = ["FILLERS", "bits_of"]
