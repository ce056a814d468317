"""What a verdict is made of: words, reasons, and how people read many that are alike. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from scripts.serialize import JsonRecord

#: How much lighter a reason is whose file is shipped, but named by nothing.
UNREACHED: Final = 30


class Verdict(StrEnum):
    """The four words, best first."""

    RUNS = "runs"
    PARTIAL = "partial"
    UNKNOWN = "unknown"
    REFUSES = "refuses"


class Reason(JsonRecord, frozen=True, kw_only=True):
    """One reason: what it leads to, how heavy it is, the file and the functions it is about.

    ``then`` says what to do about it; empty where nothing can be done here.
    """

    effect: Verdict
    weight: int
    text: str
    file: str = ""
    functions: tuple[str, ...] = ()
    count: int = 0
    then: str = ""

    JSON = "effect text file? functions count then?"


class GroupedReason(Struct, frozen=True, kw_only=True):
    """One reason, and how many other files have one like it."""

    reason: Reason
    others: int = 0

    @property
    def text(self) -> str:
        """The sentence, with the number of the others."""
        return (
            f"{self.reason.text} (and {count_of(self.others, 'file')} alike)"
            if self.others
            else self.reason.text
        )


def grouped(reasons: Sequence[Reason]) -> tuple[GroupedReason, ...]:
    """Put together reasons that differ in file, functions and numbers alone, for people; order is kept."""
    groups: dict[tuple[Verdict, str], list[Reason]] = {}
    for reason in reasons:
        words = reason.text.replace(reason.file, "*") if reason.file else reason.text
        shape = re.sub(r"(?:sm_\d+[af]?|\d+)\s?(?:(?:kernel|module)s?)?|: .*", "#", words)
        groups.setdefault((reason.effect, re.sub("#+", "#", shape)), []).append(reason)
    return tuple(
        GroupedReason(reason=group[0], others=len({r.file for r in group}) - 1) for group in groups.values()
    )


def count_of(number: int, noun: str) -> str:
    """Say a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
