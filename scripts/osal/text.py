"""How times, sizes and counts are written and read, and how foreign text is made fit for one line. Pure."""

from __future__ import annotations

import re
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
    """Write a number of bytes in decimal units, as disks and downloads are labelled: ``32.9 MB``."""
    amount, unit = float(size), 0
    while amount >= _THOUSAND and unit < len(_UNITS) - 1:
        amount, unit = amount / _THOUSAND, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{size:.0f} {_UNITS[0]}"


def count(text: str) -> int | None:
    """Read a count from outside: ASCII digits, not too many; ``None`` for anything else."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdigit() else None


def without_ansi(text: str) -> str:
    """Take out what a terminal would obey."""
    return ANSI.sub("", text)


def printable(text: str, *, instead: str = " ") -> str:
    """Return text for one line: what cannot be shown becomes ``instead``, one character for one."""
    return "".join(character if character.isprintable() else instead for character in text)
