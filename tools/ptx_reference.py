"""What single PTX instructions compute, plainly: exact integers and fractions, one value at a time, slow.

The second opinion for the engine in ``native/cpu/ptx``; after the PTX ISA manual, shares no code with it. Where the
manual leaves bits open, or an NVIDIA H200 with CUDA 13 departs from it, this follows the GPU and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import msgspec

Bits = int


class Format(msgspec.Struct, frozen=True):
    """A binary floating-point format."""

    bits: int
    fraction: int
    exponent: int
    nan: int
    has_infinity: bool = True
    shift: int = 0  # tf32: the value stands in the upper bits of 32

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinite(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction if self.has_infinity else (1 << self.bits - 1) - 1


FORMATS: Final = {
    "f16": Format(16, 10, 5, 0x7FFF),
    "bf16": Format(16, 7, 8, 0x7FFF),
    "f32": Format(32, 23, 8, 0x7FFFFFFF),
    "f64": Format(64, 52, 11, 0x7FF8000000000000),
    "tf32": Format(19, 10, 8, 0x7FFFE000, shift=13),
    "e4m3": Format(8, 3, 4, 0x7F, has_infinity=False),
    "e5m2": Format(8, 2, 5, 0x7F),
}


class Number(msgspec.Struct, frozen=True):
    """A decoded float: a NaN, an infinity or an exact value; zeros have a sign too."""

    negative: bool
    value: Fraction = Fraction(0)
    infinite: bool = False
    nan: bool = False

    @property
    def zero(self) -> bool:
        return not self.nan and not self.infinite and self.value == 0

    @property
    def finite(self) -> bool:
        return not self.nan and not self.infinite


NAN: Final = Number(negative=False, nan=True)


def exact(value: Fraction, *, negative: bool | None = None) -> Number:
    return Number(value < 0 if negative is None else negative, value)


def infinity(*, negative: bool) -> Number:
    return Number(negative, infinite=True)


def decode(bits: Bits, kind: str, *, ftz: bool = False) -> Number:
    """Read the bits of a float; ``ftz`` reads subnormal ones as zeros."""
    form = FORMATS[kind]
    bits >>= form.shift
    negative = bool(bits >> (form.bits - 1))
    bits &= (1 << (form.bits - 1)) - 1
    if form.has_infinity and bits >= form.infinite:
        return NAN if bits > form.infinite else infinity(negative=negative)
    if not form.has_infinity and bits == form.infinite:
        return NAN
    exponent, fraction = bits >> form.fraction, bits & ((1 << form.fraction) - 1)
    if exponent == 0:
        if ftz:
            return Number(negative)
        size = Fraction(fraction, 1 << form.fraction) * pow2(1 - form.bias)
    else:
        size = (1 + Fraction(fraction, 1 << form.fraction)) * pow2(exponent - form.bias)
    return Number(negative, -size if negative else size)


def double_nan(*operands: Bits) -> Bits:
    """Return what an H200 makes of NaNs in double precision: the first one, quiet; a new one is negative."""
    kept = (bits | 1 << 51 for bits in operands if decode(bits, "f64").nan)
    return next(kept, 0xFFF8 << 48)


def converted_nan(bits: Bits, source: str, kind: str, *, ftz: bool = False, mode: str = "n") -> Bits:
    """Return the NaN that an H200 makes of another one: to and from f64 the sign and the first bits stay."""
    if source == "bf16" and kind == "f32":
        return bits << 16
    if kind == "tf32":
        return bits >> 13 << 13 if mode == "a" else FORMATS[kind].nan
    if "f64" not in (source, kind):
        return FORMATS[kind].nan
    if source == "f32" and ftz:
        bits = FORMATS["f32"].nan
    old, new = FORMATS[source], FORMATS[kind]
    fraction = bits & (1 << old.fraction) - 1 | 1 << old.fraction - 1
    shift = new.fraction - old.fraction
    fraction = fraction << shift if shift > 0 else fraction >> -shift
    return bits >> old.bits - 1 << new.bits - 1 | new.infinite | fraction


def pow2(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if pow2(guess) <= value else guess - 1


def to_integer(value: Fraction, mode: str) -> int:
    """Round to an integer: n(earest even), z(ero), m(inus), p(lus), a(way from zero in ties)."""
    down = math.floor(value)
    rest = value - down
    if mode == "m" or rest == 0:
        return down
    if mode == "p":
        return down + 1
    if mode == "z":
        return down if value > 0 else down + 1
    if rest == Fraction(1, 2):
        if mode == "a":
            return down + 1 if value > 0 else down
        return down + (down & 1)
    return down + (rest > Fraction(1, 2))


def encode(number: Number, kind: str, mode: str = "n", *, ftz: bool = False, finite: bool = False) -> Bits:
    """Round to a format. ``finite``: the largest finite value stands for what is larger."""
    form = FORMATS[kind]
    sign = number.negative << (form.bits - 1 + form.shift)
    if number.nan:
        return form.nan
    bits = form.infinite
    if not number.infinite:
        size = abs(number.value)
        if size == 0:
            return sign
        place = max(floor_log2(size), 1 - form.bias) - form.fraction
        side = {"m": "p", "p": "m"}.get(mode, mode) if number.negative else mode
        units = to_integer(size / pow2(place), side)
        if units == 0:
            return sign
        exponent = place + form.fraction + form.bias
        bits = min(((exponent - 1) << form.fraction) + units, form.infinite)
    if bits >= form.infinite:
        toward_zero = mode == "z" or mode == ("p" if number.negative else "m")
        if finite or (toward_zero and not number.infinite):
            bits = form.infinite - 1
    if ftz and bits < 1 << form.fraction:
        bits = 0
    return sign | bits << form.shift


# ---- arithmetic on numbers, exact ----


def zero_sign(a: bool, b: bool, mode: str) -> bool:
    return a if a == b else mode == "m"


def add(a: Number, b: Number, mode: str = "n") -> Number:
    if a.nan or b.nan or (a.infinite and b.infinite and a.negative != b.negative):
        return NAN
    if a.infinite or b.infinite:
        return a if a.infinite else b
    total = a.value + b.value
    if total == 0:
        sign = zero_sign(a.negative, b.negative, mode) if a.zero and b.zero else mode == "m"
        return Number(sign)
    return exact(total)


def negate(a: Number) -> Number:
    return Number(not a.negative, -a.value, a.infinite, a.nan)


def multiply(a: Number, b: Number) -> Number:
    if a.nan or b.nan or (a.infinite and b.zero) or (b.infinite and a.zero):
        return NAN
    sign = a.negative != b.negative
    if a.infinite or b.infinite:
        return infinity(negative=sign)
    return Number(sign, a.value * b.value)


def divide(a: Number, b: Number) -> Number:
    if a.nan or b.nan or (a.infinite and b.infinite) or (a.zero and b.zero):
        return NAN
    sign = a.negative != b.negative
    if a.infinite or b.zero:
        return infinity(negative=sign)
    return Number(sign) if b.infinite else Number(sign, a.value / b.value)


def square_root(a: Number, digits: int = 120) -> Number:
    """To 120 bits and one more that says whether it is exact: enough for every format to round once."""
    if a.nan or a.zero:
        return a
    if a.negative:
        return NAN
    if a.infinite:
        return a
    scale = 2 * digits - 2 * (floor_log2(a.value) // 2)
    scaled = a.value * pow2(scale)
    whole = math.isqrt(math.floor(scaled))
    inexact = Fraction(whole * whole) != scaled
    return exact((Fraction(whole) + (Fraction(1, 2) if inexact else 0)) / pow2(scale // 2))


def less(a: Number, b: Number) -> bool:
    """Whether a < b; both are no NaN."""

    def key(x: Number) -> tuple[int, Fraction]:
        return (-1 if x.negative else 1, Fraction(0)) if x.infinite else (0, x.value)

    return key(a) < key(b)


def extreme(a: Number, b: Number, *, largest: bool, nan: bool = False) -> Number:
    if a.nan or b.nan:
        return NAN if nan or (a.nan and b.nan) else b if a.nan else a
    if less(a, b):
        return b if largest else a
    if less(b, a):
        return a if largest else b
    return Number(a.negative and b.negative if largest else a.negative or b.negative, a.value, a.infinite)


def clamp01(a: Number) -> Number:
    if a.nan or (a.negative and not a.nan):
        return Number(negative=False)
    return exact(Fraction(1)) if a.infinite or a.value > 1 else a


COMPARISONS: Final[dict[str, Callable[[Number, Number], bool]]] = {
    "eq": lambda a, b: not less(a, b) and not less(b, a),
    "ne": lambda a, b: less(a, b) or less(b, a),
    "lt": less,
    "le": lambda a, b: not less(b, a),
    "gt": lambda a, b: less(b, a),
    "ge": lambda a, b: not less(a, b),
}


def compare_floats(how: str, a: Number, b: Number) -> bool:
    unordered = a.nan or b.nan
    if how in ("num", "nan"):
        return unordered == (how == "nan")
    if how in COMPARISONS:
        return not unordered and COMPARISONS[how](a, b)
    return unordered or COMPARISONS[how[:2]](a, b)


# ---- integers ----


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def width(kind: str) -> int:
    """Return the bits of a type such as ``s32``."""
    return int("".join(c for c in kind if c.isdigit()) or 0)


def integer(bits: Bits, kind: str) -> int:
    return signed(bits, width(kind)) if kind[0] == "s" else unsigned(bits, width(kind))


def limit(value: int, kind: str) -> int:
    bits = width(kind)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def truncated(a: int, b: int) -> tuple[int, int]:
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        quotient = -quotient
    return quotient, a - quotient * b


def float_to_int(number: Number, source: str, kind: str, mode: str) -> int:
    if number.nan:
        return 1 << (width(kind) - 1) if source == "f64" or width(kind) == 64 else 0
    if number.infinite:
        return limit(-(1 << 70) if number.negative else 1 << 70, kind)
    return limit(to_integer(number.value, mode), kind)


def permute(a: int, b: int, selector: int, mode: str = "") -> int:
    table = {
        "f4e": ("3210", "4321", "5432", "6543"),
        "b4e": ("5670", "6701", "7012", "0123"),
        "rc8": ("0000", "1111", "2222", "3333"),
        "ecl": ("3210", "3211", "3222", "3333"),
        "ecr": ("0000", "1110", "2210", "3210"),
        "rc16": ("1010", "3232", "1010", "3232"),
    }
    both = (a | b << 32).to_bytes(8, "little")
    picks = [selector >> 4 * k & 15 for k in range(4)]
    if mode:
        picks = [int(c) for c in reversed(table[mode][selector & 3])]
    out = [both[p & 7] if not p & 8 else (255 if both[p & 7] & 128 else 0) for p in picks]
    return int.from_bytes(bytes(out), "little")


def field(a: int, position: int, length: int, kind: str) -> int:
    """bfe: bit by bit, as the manual describes it; on an H200 64-bit fields take all bits of position and length."""
    bits, msb = width(kind), width(kind) - 1
    if bits == 32:
        position, length = position & 255, length & 255
    sign = 0
    if kind[0] == "s" and length:
        sign = a >> min(position + length - 1, msb) & 1
    out = 0
    for i in range(bits):
        inside = i < length and position + i <= msb
        out |= (a >> (position + i) & 1 if inside else sign) << i
    return out


def insert(a: int, b: int, position: int, length: int, bits: int) -> int:
    if bits == 32:
        position, length = position & 255, length & 255
    for i in range(min(length, bits)):
        if position + i < bits:
            b = b & ~(1 << position + i) | (a >> i & 1) << position + i
    return b
