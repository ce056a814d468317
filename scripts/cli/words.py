"""Numbers and names as people read them."""

from __future__ import annotations

from typing import Final

UNITS: Final = ("B", "kB", "MB", "GB", "TB")
STEP: Final = 1000
MINUTE: Final = 60


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
    >>> seconds(119.7)
    '2 min 0 s'
    """
    if value < MINUTE:
        return f"{value:.2f} s"
    minutes, rest = divmod(round(value), MINUTE)
    return f"{minutes} min {rest} s"


def short(digest: str) -> str:
    """Cut a hash to what people compare by eye."""
    return digest[:12]
