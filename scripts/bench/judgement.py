"""Is one stack faster than another? A judgement that noise alone does not sway.

* The unit is the *trial*, one process run: iterations of one process share its luck (clocks, memory
  layout, neighbours), so they are one observation, however many they are.
* A trial is summed up by the median of its iterations after the warm-up.
* Trials with the same number make a *pair*, measured side by side; its figure is the logarithm of
  candidate over baseline. A t interval with n - 1 degrees of freedom says what n pairs leave open.
* Fewer than four pairs are ``inconclusive``, whatever they say: with two, the interval is wider than
  anything one would want to know, and it rests on a spread guessed from one difference.
* The whole interval inside the margin: ``same``, also where it excludes zero, since the margin says what
  is too small to matter. The whole interval on one side of zero: ``better`` or ``worse`` (``different``
  where the good direction is unknown). Otherwise ``inconclusive``.
* One primary metric decides. Looking at ten would find a difference in something nearly half the time.

Pure: no files, no clock, no randomness.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from scripts.bench.trials import LOWER, SIMULATED, UNKNOWN, Runs, Trial
from scripts.errors import UsageError

#: 97.5 % quantiles of the normal distribution, and of t with 1 to 9 degrees of freedom: for a two-sided
#: interval at 95 %.
_Z: Final = 1.959963984540054
_T: Final = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157)
FEWEST_PAIRS: Final = 4
MOST_PAIRS: Final = 10_000
MARGIN: Final = 0.02
ESTIMATOR: Final = (
    "geometric mean over pairs of candidate / baseline; a trial counts as the median of its iterations after "
    "the warm-up; two-sided 95 % t interval of the log ratios with pairs - 1 degrees of freedom"
)
PUBLISHED: Final = "medians and means of all iterations after the warm-up, pooled over trials"


class CompareVerdict(StrEnum):
    """What a comparison says about the candidate."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    DIFFERENT = "different"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not-comparable"


class Interval(Struct, frozen=True, kw_only=True):
    """What pairs of trials say: logarithms of candidate over baseline. Without pairs all is ``nan``."""

    pairs: int
    mean: float
    low: float
    high: float
    spread: float

    @property
    def half_width(self) -> float:
        """Half of the interval, as a logarithm; infinite for fewer than two pairs."""
        return (self.high - self.low) / 2


class Pooled(Struct, frozen=True, kw_only=True):
    """The definition that published comparisons use, beside ours: it knows nothing of trials."""

    baseline_median: float
    candidate_median: float
    baseline_mean: float
    candidate_mean: float


class PairFinding(Struct, frozen=True, kw_only=True):
    """What is known about one metric."""

    metric: str
    better: str
    unit: str
    interval: Interval
    ratios: tuple[float, ...]
    pooled: Pooled
    verdict: CompareVerdict
    needed_pairs: int | None


class Comparison(Struct, frozen=True, kw_only=True):
    """A whole comparison: the primary metric's verdict is its own.

    ``unpaired`` counts trials without a partner; ``trials_apart`` says how far the trials of one runtime lie
    apart in the primary metric, in percent; ``simulated`` names the sides that ran on the CPU reference.
    """

    baseline: str
    candidate: str
    workload: str
    warmup: int
    margin: float
    primary: str
    findings: Mapping[str, PairFinding]
    conditions: Mapping[str, object]
    unpaired: int
    trials_apart: Mapping[str, float]
    answers_known: bool
    simulated: tuple[str, ...] = ()

    @property
    def verdict(self) -> CompareVerdict:
        """The primary metric decides alone."""
        return self.findings[self.primary].verdict


def interval_of(ratios: Sequence[float]) -> Interval:
    """Return the t interval of log ratios; for fewer than two of them it is unbounded."""
    n = len(ratios)
    mean = statistics.fmean(ratios) if ratios else math.nan
    if n < 2:  # noqa: PLR2004 - one observation has no spread
        return Interval(pairs=n, mean=mean, low=-math.inf, high=math.inf, spread=math.nan)
    spread = math.sqrt(math.fsum((r - mean) ** 2 for r in ratios) / (n - 1))
    half = _half(spread, n)
    return Interval(pairs=n, mean=mean, low=mean - half, high=mean + half, spread=spread)


def verdict_of(interval: Interval, *, margin: float, better: str) -> CompareVerdict:
    """Judge one interval by the rules above; ``margin`` is a fraction (0.02 for 2 %)."""
    if interval.pairs < FEWEST_PAIRS:
        return CompareVerdict.INCONCLUSIVE
    if math.log1p(-margin) <= interval.low and interval.high <= math.log1p(margin):
        return CompareVerdict.SAME
    if interval.low <= 0 <= interval.high:
        return CompareVerdict.INCONCLUSIVE
    if not better:
        return CompareVerdict.DIFFERENT
    return CompareVerdict.BETTER if (interval.low > 0) != (better == LOWER) else CompareVerdict.WORSE


def pairs_for(spread: float, width: float) -> int | None:
    """Return how many pairs narrow the interval to plus or minus ``width``, if the spread stays as it is.

    At least four; ``None`` where the spread is unknown or ten thousand pairs would not do.
    """
    if not math.isfinite(spread):
        return None
    low, high = FEWEST_PAIRS, MOST_PAIRS
    if _half(spread, high) > width:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _half(spread, middle) <= width else (middle + 1, high)
    return low


def _half(spread: float, pairs: int) -> float:
    return t_quantile(pairs - 1) * spread / math.sqrt(pairs)


def t_quantile(freedom: int) -> float:
    """Return the t that 97.5 % lie below, within 5e-6 of itself: figures are shown with three digits.

    From ten degrees of freedom on by its expansion (Abramowitz and Stegun, 26.7.5).
    """
    if freedom <= len(_T):
        return _T[freedom - 1]
    z, n = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )


def compare(
    runs: Runs, *, baseline: str, candidate: str, warmup: int, primary: str, margin: float = MARGIN
) -> Comparison:
    """Compare two runtimes of a record.

    Raises:
        UsageError: a runtime or metric is not there, an answer was wrong, the warm-up leaves nothing, or
            the primary metric cannot be judged (values that are not positive, or no good direction).
    """
    sides = [_usable(runs, label, warmup) for label in (baseline, candidate)]
    findings = {name: _finding(runs, name, sides, warmup, margin) for name in runs.metrics}
    chosen = _primary(findings, primary)
    numbers = [{t.number for t in side} for side in sides]
    return Comparison(
        baseline=baseline,
        candidate=candidate,
        workload=runs.workload,
        warmup=warmup,
        margin=margin,
        primary=chosen,
        findings=findings,
        conditions=compare_conditions(conditions_of(runs, baseline), conditions_of(runs, candidate)),
        unpaired=len(numbers[0] ^ numbers[1]),
        trials_apart={side[0].runtime: _apart(side, chosen, warmup) for side in sides},
        answers_known=all(t.right is True for side in sides for t in side),
        simulated=tuple(s for s in (baseline, candidate) if conditions_of(runs, s)["gpu"] == SIMULATED),
    )


def summary(trial: Trial, metric: str, warmup: int) -> float:
    """Return one trial's figure: the median after the warm-up, ``nan`` where it has no such metric."""
    values = [row[metric] for row in trial.iterations[warmup:] if metric in row]
    return statistics.median(values) if values else math.nan


def _usable(runs: Runs, label: str, warmup: int) -> tuple[Trial, ...]:
    """Return the trials of a runtime, or say why they cannot be compared."""
    trials = runs.of(label)
    if not trials:
        known = ", ".join(runs.conditions)
        raise UsageError(
            "no-such-runtime", f"the record has no trials of {label!r}", context=(f"has: {known}",)
        )
    wrong = [t for t in trials if t.right is False]
    if wrong:
        msg = f"{len(wrong)} of {len(trials)} trials of {label} gave a wrong answer: how fast does not matter"
        facts = tuple(f"trial {t.number}: {t.answer}" for t in wrong[:5])
        hint = "find out why it is wrong first: invoke check, invoke doctor"
        raise UsageError("answer-wrong", msg, context=facts, hint=hint)
    if any(len(t.iterations) <= warmup for t in trials):
        fewest = min(len(t.iterations) for t in trials)
        msg = f"a warm-up of {warmup} leaves nothing of a trial with {fewest} iterations"
        raise UsageError("nothing-left", msg, hint="choose a smaller --warmup")
    return trials


def _finding(
    runs: Runs, name: str, sides: Sequence[tuple[Trial, ...]], warmup: int, margin: float
) -> PairFinding:
    metric = runs.metrics[name]
    figures = [{t.number: summary(t, name, warmup) for t in side} for side in sides]
    pairs = [(figures[0][n], figures[1][n]) for n in sorted(figures[0].keys() & figures[1].keys())]
    positive = all(value > 0 for side in figures for value in side.values())  # False for nan
    ratios = tuple(math.log(new / old) for old, new in pairs) if positive else ()
    interval = interval_of(ratios)
    verdict = verdict_of(interval, margin=margin, better=metric.better)
    undecided = verdict is CompareVerdict.INCONCLUSIVE
    return PairFinding(
        metric=name,
        better=metric.better,
        unit=metric.unit,
        interval=interval,
        ratios=ratios,
        pooled=_pooled(name, sides, warmup),
        verdict=verdict if positive else CompareVerdict.NOT_COMPARABLE,
        needed_pairs=pairs_for(interval.spread, math.log1p(margin)) if undecided else None,
    )


def _pooled(name: str, sides: Sequence[tuple[Trial, ...]], warmup: int) -> Pooled:
    """Pool all iterations of each side, as if trials did not exist."""
    old, new = (
        [row[name] for t in side for row in t.iterations[warmup:] if name in row] or [math.nan]
        for side in sides
    )
    return Pooled(
        baseline_median=statistics.median(old),
        candidate_median=statistics.median(new),
        baseline_mean=statistics.fmean(old),
        candidate_mean=statistics.fmean(new),
    )


def _primary(findings: Mapping[str, PairFinding], primary: str) -> str:
    """Return the metric that decides, or say why it cannot."""
    if primary not in findings:
        msg = f"there is no metric {primary!r}" if primary else "the record does not say which metric decides"
        hint = f"choose one of: {', '.join(f'--primary={name}' for name in findings)}"
        raise UsageError("no-primary", msg, hint=hint)
    finding = findings[primary]
    if finding.verdict is CompareVerdict.NOT_COMPARABLE:
        msg = f"{primary} has values that are missing or not above zero, so there is no ratio to judge"
        raise UsageError("not-comparable", msg, hint="choose another --primary")
    if not finding.better:
        msg = f"whether more or less {primary} is better is unknown"
        raise UsageError("no-direction", msg, hint=f"say it: --primary={primary}:higher (or :lower)")
    return primary


def _apart(side: Sequence[Trial], metric: str, warmup: int) -> float:
    """Say how far the trials of one runtime lie apart: largest over smallest, in percent."""
    figures = [summary(t, metric, warmup) for t in side]
    return (max(figures) / min(figures) - 1) * 100


#: What a record should say about each runtime; a record that leaves one out does not know it.
EXPECTED: Final = (
    *("stack", "digest", "gpu", "driver", "clocks", "power", "seed", "size", "os", "machine"),
    *("python", "revision", "lock"),
)


def conditions_of(runs: Runs, label: str) -> dict[str, str]:
    """Return the conditions of one runtime: its fixed facts, and what its trials saw."""
    facts = dict(runs.conditions.get(label, {}))
    if runs.size != UNKNOWN:
        facts.setdefault("size", runs.size)
    seen: dict[str, list[str]] = {}
    for trial in runs.of(label):
        for name, value in trial.state.items():
            seen.setdefault(name, []).append(value)
    for name, values in seen.items():
        facts.setdefault(name, values[0] if len(set(values)) == 1 else f"varied: {_range(values)}")
    return {name: facts.get(name) or UNKNOWN for name in dict.fromkeys((*EXPECTED, *facts))}


def compare_conditions(baseline: Mapping[str, str], candidate: Mapping[str, str]) -> dict[str, object]:
    """Sort conditions into ``same``, ``different`` and ``unknown``; unknown equals nothing."""
    same: dict[str, str] = {}
    different: dict[str, object] = {}
    unknown: list[str] = []
    for name in dict.fromkeys((*baseline, *candidate)):
        old, new = baseline.get(name, UNKNOWN), candidate.get(name, UNKNOWN)
        if UNKNOWN in {old, new}:
            unknown.append(name)
        elif old == new:
            same[name] = old
        else:
            different[name] = {"baseline": old, "candidate": new}
    return {"same": same, "different": different, "unknown": unknown}


def _range(values: list[str]) -> str:
    """Name the first and the last of differing values in order; numbers are ordered as numbers."""

    def order(text: str) -> tuple[float, str]:
        number = text.split(maxsplit=1)[0] if text.split() else ""
        return (float(number), text) if number.replace(".", "", 1).isdecimal() else (0.0, text)

    ranked = sorted(set(values), key=order)
    return f"{ranked[0]} … {ranked[-1]}"
