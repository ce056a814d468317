"""Options as a person types them, read into values."""

from __future__ import annotations

from scripts.errors import UsageError


def read_count(text: str, *, option: str, most: int, least: int = 1) -> int:
    """Read a number of things.

    Raises:
        UsageError: ``bad-number`` (``bad-size`` for ``--size``): it is no whole number in its range.
    """
    digits = text.lstrip("0") or "0"
    if not text.isdecimal() or len(digits) > len(str(most)) or not least <= int(digits) <= most:
        reference = "bad-size" if option == "size" else "bad-number"
        raise UsageError(reference, f"--{option}={text[:40]}: must be a whole number from {least} to {most}")
    return int(digits)
