"""How times, sizes, counts and patterns of names are read, and how foreign text and names are shown. Pure."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import string
import sys
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final

#: What a terminal obeys instead of showing: colours, cursor movements, titles.
ANSI: Final = re.compile(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[()][0-9A-Z]|[=>78])"
)
#: Digits that a count from outside may have: more than any size, fewer than what is slow to convert.
MOST_DIGITS: Final = 19
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_THOUSAND: Final = 1000
#: Where the part of a pattern ends that is meant as it stands.
_WILD: Final = re.compile(r"[*?\[]")


def utc_now() -> datetime:
    """Return the time now, UTC, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


def time_stamp(moment: datetime | None = None) -> str:
    """Write a time (now, if none is given) as ``2026-01-31T12:00:00Z``."""
    return (moment or utc_now()).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def file_stamp(moment: datetime | None = None) -> str:
    """Write a time as it may stand in a file's name: ``20260131T120000Z``."""
    return (moment or utc_now()).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def size_text(size: float) -> str:
    """Write a number of bytes in decimal units, as disks and downloads are labelled.

    >>> size_text(32944552)
    '32.9 MB'
    """
    amount, unit = float(size), 0
    while amount >= _THOUSAND and unit < len(_UNITS) - 1:
        amount, unit = amount / _THOUSAND, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{size:.0f} {_UNITS[0]}"


def count(text: str) -> int | None:
    """Read a count from outside: ASCII digits, not too many; ``None`` for anything else."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdigit() else None


def count_of(number: int, noun: str) -> str:
    """Say a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """Name a few, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def without_ansi(text: str) -> str:
    """Take out what a terminal would obey."""
    return ANSI.sub("", text)


def one_line(text: str) -> str:
    """Return foreign text as one line that can be shown, with single blanks."""
    return " ".join(printable(without_ansi(text)).split())


def names_like(names: Collection[str], pattern: str) -> list[str]:
    """Return the names that a pattern (``llama-*``) means, both in lower case.

    How it begins rules out nearly all names at once, so that few patterns have to be compiled.
    """
    head = _WILD.split(pattern, maxsplit=1)[0]
    if head == pattern:
        return [pattern] if pattern in names else []
    if pattern[0] == "*" and not _WILD.search(pattern, 1):
        return [name for name in names if name.endswith(pattern[1:])]
    begun = [name for name in names if name.startswith(head)]
    return fnmatch.filter(begun, pattern) if begun else []


def printable(text: str, *, instead: str = " ") -> str:
    """Return text for one line: what cannot be shown becomes ``instead``, one character for one."""
    return "".join(character if character.isprintable() else instead for character in text)


def visible(text: str) -> str:
    r"""Return text for one line: what cannot be shown is escaped as in a Python string.

    >>> visible("a" + chr(10) + "b")
    'a\\nb'
    """
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


#: What a shell reads inside double quotes; PowerShell ends a text at typographic quotes as well.
_READ_BY_SH: Final = frozenset('"$`\\!')
_READ_BY_WINDOWS: Final = frozenset('"$`%!\u201c\u201d\u201e')
#: What stays as it is in a name that is written byte by byte.
_BARE: Final = frozenset((string.ascii_letters + string.digits + "/.-_").encode())


def option(name: str, value: str | os.PathLike[str], *, windows: bool = sys.platform == "win32") -> str:
    """Write ``--NAME="VALUE"`` for a line to paste, so that no shell reads anything else than the value.

    cmd and PowerShell share no way to write what either of them expands, so there such a value is left to
    the person: ``--target=FOLDER``.
    """
    text = os.fspath(value)
    if text.isprintable() and (_READ_BY_WINDOWS if windows else _READ_BY_SH).isdisjoint(text):
        closing = text[len(text.rstrip("\\")) :]  # before a quote a backslash has to be doubled
        return f'--{name}="{text}{closing}"'
    if windows:
        return f"--{name}={'PROGRAM' if name == 'exe' else 'FOLDER'}"
    return f"--{name}={shlex.quote(text) if text.isprintable() else _by_bytes(text)}"


def _by_bytes(text: str) -> str:
    """Write bytes as numbers: a shell without ``$''`` sees a wrong name and still performs nothing."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # no name of a file here
        data = text.encode("utf-8", "replace")
    octets = (chr(byte) if byte in _BARE else f"\\{byte:03o}" for byte in data)
    return f"$'{''.join(octets)}'"


#: So much of a text tells how wide its characters are, and which share of the places must be zero.
_SAMPLE: Final = 4096
_SHARE: Final = 0.4
#: By encoding, which of every four bytes are zero in plain English text.
_PLACES: Final = {
    "utf-32-le": (1, 2, 3),
    "utf-32-be": (0, 1, 2),
    "utf-16-le": (1, 3),
    "utf-16-be": (0, 2),
}
_MARKS: Final = {
    b"\xff\xfe\0\0": "utf-32-le",
    b"\0\0\xfe\xff": "utf-32-be",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
WIDE: Final = tuple(_PLACES)


def wide_encoding(data: bytes) -> str:
    """Name the wide encoding of a text, by its mark or its zero bytes; empty where there is none."""
    return next((name for mark, name in _MARKS.items() if data.startswith(mark)), "") or _by_zeros(data)


def decoded(data: bytes) -> str:
    """Read a text as a program, a console or an editor wrote it: UTF-16 or UTF-32, UTF-8, else cp1252."""
    if wide := wide_encoding(data):
        return data.decode(wide, "replace").removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _by_zeros(data: bytes) -> str:
    """Recognise wide characters without a mark."""
    sample = data[:_SAMPLE]
    least = len(sample) // 4 * _SHARE
    zeros = {at for at in range(4) if sample[at::4].count(0) > least}
    return next((name for name, places in _PLACES.items() if zeros == set(places)), "")
