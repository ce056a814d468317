"""A matrix: what every probe showed on one stack, what it is worth in one figure, and how two compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, convert
from msgspec.structs import replace

from scripts.model import CapabilityResult, Outcome
from scripts.probing.catalogue import Probe
from scripts.serialize import plain

FORMAT: Final = 1
#: A second attempt gets so many times the first one's time: a first use may compile for minutes.
LONGER: Final = 3.0
#: What says nothing about a probe because the stack does not have what it asks.
ABSENT: Final = frozenset({Outcome.UNAVAILABLE, Outcome.NOT_REACHED})


class ProbeAttempt(Struct, frozen=True, kw_only=True):
    """One process of one probe.

    Attributes:
        number: 1, or 2 for the longer one.
        result: how it was judged.
        seconds: how long it ran, ``limit`` how long it might.
        compiled: how many bytes the layer's compile cache grew meanwhile.
        error: the largest error as a part of the tolerance; ``None`` where nothing was measured.
        libraries: the files it used.
        device: what the driver calls the device.
    """

    probe: str
    number: int
    result: CapabilityResult
    seconds: float
    limit: float
    compiled: int = 0
    error: float | None = None
    libraries: Mapping[str, str] = {}
    device: str = ""


class MatrixKey(Struct, frozen=True, kw_only=True):
    """What a matrix was asked of: an interrupted one goes on only where all of it is the same."""

    stack: str
    digest: str
    program: str
    questions: str = ""
    gpu: str = ""


class ProbeMatrix(Struct, frozen=True, kw_only=True):
    """The attempts so far, in the order they were made."""

    key: MatrixKey
    attempts: tuple[ProbeAttempt, ...] = ()
    simulated: bool = False

    @property
    def finals(self) -> dict[str, ProbeAttempt]:
        """The attempt that counts of each probe: the last one."""
        return {attempt.probe: attempt for attempt in self.attempts}

    @property
    def results(self) -> tuple[CapabilityResult, ...]:
        """What each probe showed."""
        return tuple(attempt.result for attempt in self.finals.values())

    def with_attempts(self, attempts: Iterable[ProbeAttempt]) -> ProbeMatrix:
        """Return it with more attempts."""
        return replace(self, attempts=(*self.attempts, *attempts))


class Score(Struct, frozen=True, kw_only=True):
    """How many passed, of those that say something.

    Attributes:
        passed: right, and ended well.
        failed: wrong, crashed, hung or ended by an error.
        refused: reported that they cannot; safe, and no pass.
        absent: this stack or machine does not have it; left out of ``percent``.
    """

    passed: int
    failed: int
    refused: int
    absent: int

    @property
    def percent(self) -> float | None:
        """Passes as a share of all that was exercised, refusals included; ``None`` if nothing was."""
        exercised = self.passed + self.failed + self.refused
        return round(100 * self.passed / exercised, 1) if exercised else None


def score(results: Iterable[CapabilityResult]) -> Score:
    """Count results."""
    outcomes = [result.outcome for result in results]
    passed, refused = outcomes.count(Outcome.PASS), outcomes.count(Outcome.REFUSED)
    absent = sum(1 for outcome in outcomes if outcome in ABSENT)
    return Score(
        passed=passed, refused=refused, absent=absent, failed=len(outcomes) - passed - refused - absent
    )


#: What ``rows_of`` holds in each column.
COLUMNS: Final = ("probes", "passed", "failed", "refused", "not here", "open")


def rows_of(chosen: Iterable[Probe], results: Iterable[CapabilityResult]) -> tuple[tuple[str, ...], ...]:
    """Return the table of a matrix that grows: a row for each group, and one for all of them."""
    done = {result.capability: result for result in results}
    groups: dict[str, list[Probe]] = {}
    for probe in chosen:
        groups.setdefault(probe.group, []).append(probe)
    everything = [probe for members in groups.values() for probe in members]
    return tuple(_row(name, members, done) for name, members in {**groups, "all": everything}.items())


def _row(name: str, members: list[Probe], done: Mapping[str, CapabilityResult]) -> tuple[str, ...]:
    ended = [done[probe.name] for probe in members if probe.name in done]
    counted = score(ended)
    left = len(members) - len(ended)
    return (name, *map(str, (counted.passed, counted.failed, counted.refused, counted.absent, left)))


def again(attempt: ProbeAttempt) -> bool:
    """Whether a probe gets its second, longer attempt: time ran out before an answer."""
    return attempt.number == 1 and attempt.result.outcome is Outcome.TIMEOUT


def compiling(attempt: ProbeAttempt) -> ProbeAttempt:
    """Say of an attempt without time that it was compiling, where the cache shows that."""
    if attempt.result.outcome is not Outcome.TIMEOUT or not attempt.compiled:
        return attempt
    detail = f"{attempt.result.detail}; it was compiling: the cache grew by {attempt.compiled:,} bytes"
    return replace(attempt, result=replace(attempt.result, detail=detail))


def to_json(matrix: ProbeMatrix) -> dict[str, object]:
    """Return a matrix as plain data."""
    return {"format": FORMAT, **plain(matrix)}


def from_json(data: Any) -> ProbeMatrix:  # noqa: ANN401 - JSON of any shape
    """Read a matrix.

    Raises:
        ValueError: it is none, or of another format.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        msg = f"it is no matrix of format {FORMAT}"
        raise ValueError(msg)
    return convert(data, ProbeMatrix)


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
