"""Numbers and names as people read them."""

from __future__ import annotations

from typing import Final

UNITS: Final = ("B", "kB", "MB", "GB", "TB")
STEP: Final = 1000


def size(count: int) -> str:
    """Write a number of bytes in decimal units, as download pages do.

    >>> size(32944552)
    '32.9 MB'
    """
    amount, unit = float(count), UNITS[0]
    for unit in UNITS:
        if amount < STEP or unit == UNITS[-1]:
            break
        amount /= STEP
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def seconds(value: float) -> str:
    """Write a duration.

    >>> seconds(0.0312)
    '0.03 s'
    """
    minute = 60
    return f"{value:.2f} s" if value < minute else f"{int(value // minute)} min {value % minute:.0f} s"


def short(digest: str) -> str:
    """Cut a hash to what people compare by eye."""
    return digest[:12]
