"""Two matrices side by side: what became better, what became worse, what only one of them has."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from scripts.model import CapabilityResult, Outcome
from scripts.probing.matrix import ABSENT

#: Best first; a wrong number is the worst, because it goes unnoticed.
ORDER: Final = (
    Outcome.PASS,
    Outcome.HANG_AFTER_RESULT,
    Outcome.CRASH_AFTER_RESULT,
    Outcome.REFUSED,
    Outcome.TIMEOUT,
    Outcome.DIALOG,
    Outcome.ERROR,
    Outcome.INCORRECT,
)


class ProbeChange(StrEnum):
    """How a probe fared in the second matrix, seen from the first."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    ONLY_FIRST = "only-first"
    ONLY_SECOND = "only-second"


class ProbeDifference(Struct, frozen=True, kw_only=True):
    """One probe in both; an outcome is ``None`` where that matrix does not have it."""

    probe: str
    change: ProbeChange
    first: Outcome | None
    second: Outcome | None
    detail: str = ""


def differences(
    first: Iterable[CapabilityResult], second: Iterable[CapabilityResult]
) -> tuple[ProbeDifference, ...]:
    """Compare probe by probe, in the order of the first; what is absent counts as not there."""
    left, right = ({r.capability: r for r in results} for results in (first, second))
    names = dict.fromkeys((*left, *right))
    return tuple(_difference(name, left.get(name), right.get(name)) for name in names)


def _difference(
    name: str, first: CapabilityResult | None, second: CapabilityResult | None
) -> ProbeDifference:
    a, b = (None if r is None or r.outcome in ABSENT else r.outcome for r in (first, second))
    return ProbeDifference(
        probe=name, change=_change(a, b), first=a, second=b, detail=second.detail if second else ""
    )


def _change(first: Outcome | None, second: Outcome | None) -> ProbeChange:
    if first is None or second is None:
        if first is second:
            return ProbeChange.SAME
        return ProbeChange.ONLY_FIRST if second is None else ProbeChange.ONLY_SECOND
    step = ORDER.index(first) - ORDER.index(second)
    if step == 0:
        return ProbeChange.SAME
    return ProbeChange.BETTER if step > 0 else ProbeChange.WORSE
