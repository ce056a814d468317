"""Status codes of CUDA, HIP, their libraries, Windows and POSIX: by name, number in any spelling, or text.

The tables are ``data/status/*.toml``; each names its public source. Every code has a class
(``out-of-memory``, ``no-binary`` …), which is what the doctor decides by.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

TABLES: Final = Path(__file__).resolve().parent / "data" / "status"
#: Classes that say that nothing failed.
HARMLESS: Final = frozenset({"ok", "not-ready"})
_ROW: Final = re.compile(r"(\S+)\s+(\S+)\s+(\S+)\s+(.+)")
_BITS32: Final = 1 << 32
_BITS64: Final = 1 << 64
#: Numbers of 64 bits that came through a floating point number are this far off at most.
_ROUNDED: Final = 1024
#: HRESULTs of this facility hold a Windows error code.
_FACILITY_WIN32: Final = 0x8007
#: A shell adds this to the signal that ended a program; Windows' own codes begin far above.
_SIGNALLED: Final = 128
_LARGEST_SIGNAL: Final = 64
_LARGEST_EXIT: Final = 0xFFFF
#: Of codes that cannot be distinguished, the ones that programs really end with.
_USUAL: Final = (0xC0000005, 0xC0000409, 0xC0000135, 0xC0000374, 0xC000001D, 0xE06D7363)
#: Of those that cannot be distinguished, so many are worth naming.
_MOST: Final = 4
#: A bare number is looked up in these, in this order.
_BARE: Final = ("cuda-driver", "cuda-runtime", "hip", "win32", "exit", "errno", "signal", "bugcheck")
#: Other ways to write the names of an enumeration.
_ALIASES: Final = (
    (re.compile(r"hip_error_?(.+)"), "hiperror"),
    (re.compile(r"cuda_error_?(.+)"), "cudaerror"),
    (re.compile(r"exception_(.+)"), "status_"),
    (re.compile(r"(?:vk::result::e)?errordevice(lost)"), "vk_error_device_"),
)
_FLAT: Final = re.compile(r"[^a-z0-9]")


class StatusCode(msgspec.Struct, frozen=True, kw_only=True):
    """One code.

    Attributes:
        enumeration: the table's id (``cuda-driver``, ``ntstatus`` …).
        title: the enumeration as people know it.
        component: who answers with it.
        value: its number, unsigned.
        kind: its class, which the doctor decides by.
        meaning: what it says, in our words.
        texts: what the API itself prints for it, in lower case.
    """

    enumeration: str
    title: str
    component: str
    value: int
    name: str
    kind: str
    meaning: str
    texts: tuple[str, ...] = ()

    @property
    def harmless(self) -> bool:
        """Whether it says that nothing failed."""
        return self.kind in HARMLESS

    @property
    def number(self) -> str:
        """Its number as people look it up: hexadecimal for Windows' own and HSA's."""
        wide = self.enumeration in {"ntstatus", "hresult", "dxgi", "bugcheck", "hsa"}
        return f"0x{self.value:X}" if wide else str(self.value)


class StatusTables(msgspec.Struct, frozen=True, kw_only=True):
    """All codes, by enumeration and number, by name in lower case, and by the API's text."""

    values: Mapping[str, Mapping[int, StatusCode]]
    names: Mapping[str, StatusCode]
    texts: Mapping[str, Mapping[str, StatusCode]]


@cache
def tables() -> StatusTables:
    """Read every table once.

    Raises:
        ValueError: a line has no four columns, or two codes of an enumeration share a number or name.
    """
    values: dict[str, dict[int, StatusCode]] = {}
    texts: dict[str, dict[str, StatusCode]] = defaultdict(dict)
    names: dict[str, StatusCode] = {}
    for path in sorted(TABLES.glob("*.toml")):
        for table in tomllib.loads(path.read_text(encoding="utf-8"))["enumeration"]:
            for code in _codes(table):
                numbers = values.setdefault(code.enumeration, {})
                lower = code.name.lower()
                if code.value in numbers or lower in names:
                    msg = f"{path.name}: {code.name} or its number stands there twice"
                    raise ValueError(msg)
                numbers[code.value] = names[lower] = code
                texts[code.enumeration] |= dict.fromkeys(code.texts, code)
    return StatusTables(values=values, names=names, texts=texts)


def _codes(table: Mapping[str, Any]) -> Iterator[StatusCode]:
    for line in table["codes"].strip().splitlines():
        row = _ROW.fullmatch(line.strip())
        if row is None:
            msg = f"{table['id']}: {line!r} is no line of four columns"
            raise ValueError(msg)
        meaning, *texts = (part.strip() for part in row[4].split(" | "))
        yield StatusCode(
            enumeration=table["id"],
            title=table["title"],
            component=table["component"],
            value=int(row[1], 0),
            name=row[2],
            kind=row[3],
            meaning=meaning,
            texts=tuple(texts),
        )


def named(name: str) -> StatusCode | None:
    """Find a code by its name, in any case and with other separators (``HIP_ERROR_NoDevice``)."""
    lower, names = name.lower(), tables().names
    for pattern, form in _ALIASES:
        if lower not in names and (match := pattern.match(lower)):
            lower = form + (_FLAT.sub("", match[1]) if "_" not in form else match[1])
    return names.get(lower)


def valued(enumeration: str, number: int) -> StatusCode | None:
    """Find a code by its number, signed or not."""
    numbers = tables().values[enumeration]
    return numbers.get(number) or numbers.get(number & 0xFFFFFFFF if number < 0 else number)


def windows_status(number: int) -> tuple[StatusCode, ...]:
    """Find what a Windows process ended with: 32 or 64 bits, signed or not, the likeliest first.

    A number of 64 bits that was printed through a floating point number lost its last digits: its low 32 bits
    are not the status. Then the codes are returned that would print so.
    """
    if number >= _BITS32 and _rounded(number):
        near = number - (_BITS64 - _BITS32)
        found = [
            code for value, code in tables().values["ntstatus"].items() if abs(value - near) <= 2 * _ROUNDED
            and float(value + _BITS64 - _BITS32) == float(number)
        ]  # fmt: skip
        return tuple(sorted(found, key=lambda code: (code.value not in _USUAL, code.value)))[:_MOST]
    if number >= _BITS64 - _BITS32 // 2:
        number -= _BITS64
    low = number & 0xFFFFFFFF
    code = tables().values["ntstatus"].get(low) or hresult(low)
    return (code,) if code else ()


def _rounded(number: int) -> bool:
    """Whether a number of 64 bits shows the digits of a floating point number and no more."""
    return number % 1000 == 0 or int(float(number)) == number


def hresult(number: int) -> StatusCode | None:
    """Find a HRESULT, a DirectX error, or the Windows error code that a HRESULT holds."""
    known = tables().values
    for table in ("hresult", "dxgi"):
        if number in known[table]:
            return known[table][number]
    return known["win32"].get(number & 0xFFFF) if number >> 16 == _FACILITY_WIN32 else None


def exit_status(number: int) -> tuple[StatusCode, ...]:
    """Find what a process ended with, on whatever system: a signal, a shell's code, or Windows' own."""
    if -_LARGEST_SIGNAL <= number < 0:
        code = valued("signal", -number)
    elif _SIGNALLED < number <= _SIGNALLED + _LARGEST_SIGNAL:
        code = valued("signal", number - _SIGNALLED)
    elif 0 <= number <= _LARGEST_EXIT:
        code = tables().values["exit"].get(number)
    else:
        return windows_status(number)
    return (code,) if code else ()


def explain(word: str) -> tuple[StatusCode, ...]:
    """Return every code that a word may mean: a name, a text, or a number in any spelling; empty: none.

    A bare number means something else to each enumeration, so that several codes are returned for it.
    """
    text = " ".join(word.strip().strip("'\"[]()").split())
    if (code := named(text)) is not None:
        return (code,)
    lower = text.lower()
    found = [codes[lower] for codes in tables().texts.values() if lower in codes]
    if found:
        return tuple(found)
    labelled = re.fullmatch(r"([a-z][a-z -]*?)[ :=#]*(0x[0-9a-f]+|-?\d{1,20})", lower)
    label, digits = (labelled[1].replace(" ", ""), labelled[2]) if labelled else ("", lower)
    if not re.fullmatch(r"0x[0-9a-f]{1,16}|-?\d{1,20}", digits):
        return ()
    number = int(digits, 0) if digits.startswith("0x") else int(digits)
    return tuple(_numbered(number, label))


def _numbered(number: int, label: str) -> list[StatusCode]:
    """Return the codes of a number, of one enumeration where it is named."""
    known = tables().values
    chosen = [name for name in known if label and _FLAT.sub("", label).removesuffix("error") == name]
    chosen = chosen or {"winerror": ["win32"], "cuda": ["cuda-driver"], "exitcode": ["exit"]}.get(label, [])
    found = [code for name in chosen or _BARE if (code := valued(name, number))]
    if not chosen or "exit" in chosen:
        found += [code for code in exit_status(number) if code not in found]
    if not chosen and number < 0 and (code := valued("opencl", number)):
        found.append(code)
    return found


def describe_exit(code: int | None) -> str:
    """Write an exit code the way people look it up: Windows' NTSTATUS in hex, signals by number."""
    if code is None:
        return "no exit code"
    unsigned = code & 0xFFFFFFFF
    if unsigned >= 0xC0000000 and (code < -255 or code > 255):  # noqa: PLR2004 - NTSTATUS errors
        return f"0x{unsigned:08X}"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
