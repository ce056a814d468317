"""Simulated trials whose truth is known: what a comparison must not be fooled by.

Every trial has luck of its own that all its iterations share, iterations scatter on top, the machine
drifts, the first iterations are slow. Vectorised: one array a call, (runs, pairs, side, iterations).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scripts.bench.judgement import CompareVerdict, Interval, interval_of, verdict_of
from scripts.bench.trials import HIGHER

#: First iterations that are slow, and declared as warm-up.
WARMUP = 1
#: The order of one block, as positions in time: A B B A, or A B A B without the mirror.
ABBA = ((0, 1), (3, 2))
ABAB = ((0, 1), (2, 3))


@dataclass(frozen=True)
class World:
    """How a machine misbehaves. Sizes are fractions of the figure; ``drift`` is over the whole run.

    ``wander`` is the size of a random step from each trial to the next in time.
    """

    trial: float = 0.015
    iteration: float = 0.02
    tails: str = "normal"
    drift: float = 0.0
    wander: float = 0.0
    order: tuple[tuple[int, int], ...] = ABBA
    iterations: int = 6
    warmup_slow: float = 0.15

    def figures(self, rng: np.random.Generator, runs: int, pairs: int, effect: float) -> np.ndarray:
        """Return logarithms of what iterations measure; ``effect`` is the true log ratio."""
        trial = self.luck(rng, (runs, pairs, 2, 1)) * self.trial
        noise = self.luck(rng, (runs, pairs, 2, self.iterations)) * self.iteration
        block = len(self.order)
        times = np.array([[4 * (p // block) + t for t in self.order[p % block]] for p in range(pairs)], float)
        drift = (times / max(times.max(), 1) * self.drift)[None, :, :, None]
        steps = rng.standard_normal((runs, int(times.max()) + 1)).cumsum(axis=1) * self.wander
        drift = drift + steps[:, times.astype(int)][..., None]
        slow = np.zeros(self.iterations)
        slow[:WARMUP] = -self.warmup_slow
        return trial + noise + drift + slow + np.array([0.0, effect])[None, None, :, None]

    def luck(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draw noise of about unit size."""
        if self.tails == "heavy":
            return rng.standard_t(3, shape) / np.sqrt(3)
        if self.tails == "slow-outliers":
            # Something else runs now and then: one draw in twenty is eight times as far off, always slower.
            return rng.standard_normal(shape) - 8 * (rng.random(shape) < 0.05) * rng.random(shape)
        return rng.standard_normal(shape)


def ratios(figures: np.ndarray) -> np.ndarray:
    """Sum trials up as the product does (median after the warm-up) and return (runs, pairs) log ratios."""
    summary = np.median(figures[..., WARMUP:], axis=-1)
    return summary[..., 1] - summary[..., 0]


@dataclass(frozen=True)
class Score:
    """How often a procedure was right, over many runs."""

    claims: float
    wrong_way: float
    coverage: float
    same: float
    pairs: float
    spread_of_estimates: float


def score(found: list[tuple[Interval, CompareVerdict]], effect: float) -> Score:
    """Count. A claim is any verdict that the two differ."""
    verdicts = [verdict for _interval, verdict in found]
    wrong = CompareVerdict.WORSE if effect >= 0 else CompareVerdict.BETTER
    means = np.array([interval.mean for interval, _verdict in found])
    return Score(
        claims=float(np.mean([v in {CompareVerdict.BETTER, CompareVerdict.WORSE} for v in verdicts])),
        wrong_way=float(np.mean([v is wrong for v in verdicts])),
        coverage=float(np.mean([i.low <= effect <= i.high for i, _verdict in found])),
        same=float(np.mean([v is CompareVerdict.SAME for v in verdicts])),
        pairs=float(np.mean([i.pairs for i, _verdict in found])),
        spread_of_estimates=float(means.std()),
    )


def judge_all(rows: np.ndarray, margin: float) -> list[tuple[Interval, CompareVerdict]]:
    """Judge every run by the product's own functions."""
    intervals = [interval_of(row) for row in rows.tolist()]
    return [(i, verdict_of(i, margin=margin, better=HIGHER)) for i in intervals]


def judge_until_narrow(
    rows: np.ndarray, margin: float, width: float, fewest: int
) -> list[tuple[Interval, CompareVerdict]]:
    """Judge every run as ``ab`` does: after each block of two pairs, stop once the interval is narrow."""
    found = []
    for row in rows.tolist():
        for pairs in range(2, len(row) + 1, 2):
            interval = interval_of(row[:pairs])
            if pairs >= fewest and np.expm1(interval.half_width) <= width:
                break
        found.append((interval, verdict_of(interval, margin=margin, better=HIGHER)))
    return found
