"""Comparisons are calibrated: over thousands of simulated runs they are wrong as rarely as they say."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from scripts.app.ab import FEWEST_TO_STOP, ROUNDS, WIDTH
from scripts.bench.judgement import MARGIN, compare, interval_of
from scripts.bench.trials import HIGHER, Metric, Runs, Trial
from tests.simulated_trials import (
    ABAB,
    WARMUP,
    Score,
    World,
    judge_all,
    judge_until_narrow,
    ratios,
    score,
)

pytestmark = pytest.mark.proof

Note = Callable[[str, object], None]
RUNS = 2000
MOST_CLAIMS = 0.07
LEAST_COVERAGE = 0.93
EFFECT = math.log(1.05)
WORLDS = {
    "normal": World(),
    "heavy tails": World(tails="heavy"),
    "slow outliers": World(tails="slow-outliers"),
    "drift": World(drift=0.10),
    "heavy tails and drift": World(tails="heavy", drift=0.05),
    "wandering": World(wander=0.01),
    "quiet with drift": World(trial=0.003, iteration=0.004, drift=0.03),
}


def note(record_property: Note, kind: str, world: str, pairs: int, got: Score) -> None:
    figures = {"runs": RUNS, "world": world, "pairs": pairs, "claims": got.claims, "coverage": got.coverage}
    record_property(f"calibration: {kind}", json.dumps(figures))


@pytest.mark.parametrize("pairs", [4, 8, 20])
@pytest.mark.parametrize("name", WORLDS)
def test_a_stack_against_itself_is_rarely_called_different(
    name: str, pairs: int, record_property: Note
) -> None:
    rng = np.random.default_rng([1, pairs, len(name)])
    got = score(judge_all(ratios(WORLDS[name].figures(rng, RUNS, pairs, 0.0)), MARGIN), 0.0)
    note(record_property, "a-a", name, pairs, got)
    assert got.claims <= MOST_CLAIMS, got
    assert got.coverage >= LEAST_COVERAGE, got


@pytest.mark.parametrize("pairs", [8, 20])
@pytest.mark.parametrize("name", WORLDS)
def test_a_true_difference_is_covered_found_and_never_turned_around(
    name: str, pairs: int, record_property: Note
) -> None:
    rng = np.random.default_rng([2, pairs, len(name)])
    got = score(judge_all(ratios(WORLDS[name].figures(rng, RUNS, pairs, EFFECT)), MARGIN), EFFECT)
    note(record_property, "a-b", name, pairs, got)
    assert got.coverage >= LEAST_COVERAGE, got
    assert got.wrong_way <= 0.001, got
    assert got.same <= 0.001, got
    assert got.claims >= (0.75 if pairs == 8 else 0.97), got


@pytest.mark.parametrize("name", WORLDS)
def test_stopping_on_width_keeps_the_promise(name: str, record_property: Note) -> None:
    rng = np.random.default_rng([3, len(name)])
    rows = ratios(WORLDS[name].figures(rng, RUNS, 2 * ROUNDS, 0.0))
    got = score(judge_until_narrow(rows, MARGIN, WIDTH / 100, FEWEST_TO_STOP), 0.0)
    note(record_property, "a-a", f"{name}, stopped on width", 2 * ROUNDS, got)
    assert got.claims <= MOST_CLAIMS, got
    assert got.coverage >= LEAST_COVERAGE, got


def test_stopping_when_it_looks_significant_would_break_it() -> None:
    """The reason why ``ab`` never does: this procedure is no part of the product."""
    rows = ratios(World().figures(np.random.default_rng(4), RUNS, 2 * ROUNDS, 0.0)).tolist()
    claims = 0
    for row in rows:
        intervals = [interval_of(row[:pairs]) for pairs in range(4, len(row) + 1, 2)]
        claims += any(i.low > 0 or i.high < 0 for i in intervals)
    assert claims / RUNS > 2 * MOST_CLAIMS


def test_abba_removes_linear_drift_and_abab_does_not() -> None:
    silent = {"trial": 0.0, "iteration": 0.0, "drift": 0.10}
    rng = np.random.default_rng(5)
    mirrored = ratios(World(**silent).figures(rng, 1, 8, 0.0))[0]
    plain = ratios(World(**silent, order=ABAB).figures(rng, 1, 8, 0.0))[0]
    assert abs(interval_of(mirrored.tolist()).mean) < 1e-15
    assert interval_of(plain.tolist()).mean > 0.003  # a tenth of a step in every pair, always the same way
    noisy = World(trial=0.001, iteration=0.001, drift=0.10, order=ABAB)
    got = score(judge_all(ratios(noisy.figures(rng, RUNS, 8, 0.0)), 0.0001), 0.0)
    assert got.coverage < 0.1, "without the mirror, drift passes for a difference"


@pytest.mark.parametrize("effect", [0.02, 0.025, 0.03], ids="{:.1%}".format)
def test_a_difference_as_large_as_the_margin_is_not_called_same(effect: float) -> None:
    rng = np.random.default_rng(6)
    rows = ratios(World(trial=0.006, iteration=0.006).figures(rng, RUNS, 8, math.log1p(effect)))
    assert score(judge_all(rows, MARGIN), effect).same <= MOST_CLAIMS


def test_same_needs_the_margin_however_close_the_estimate() -> None:
    rows = ratios(World().figures(np.random.default_rng(7), RUNS, 4, 0.0))
    got = score(judge_all(rows, MARGIN), 0.0)
    assert got.same < 0.2, "four noisy pairs cannot show that nothing differs"
    quiet = ratios(World(trial=0.003, iteration=0.003).figures(np.random.default_rng(8), RUNS, 8, 0.0))
    assert score(judge_all(quiet, MARGIN), 0.0).same > 0.99


def test_pooled_iterations_of_two_trials_would_claim_a_difference_in_noise() -> None:
    """The reason for the whole room: iterations taken for observations, as published comparisons do."""
    figures = World(trial=0.03).figures(np.random.default_rng(9), RUNS, 2, 0.0)[..., WARMUP:]
    sides = [figures[:, :, side, :].reshape(RUNS, -1) for side in (0, 1)]
    n = sides[0].shape[1]
    error = np.sqrt(sum(side.var(axis=1, ddof=1) for side in sides) / n)
    claims = np.abs(sides[0].mean(axis=1) - sides[1].mean(axis=1)) > 2.1 * error
    assert claims.mean() > 0.3
    judged = score(
        judge_all(ratios(World(trial=0.03).figures(np.random.default_rng(9), RUNS, 2, 0.0)), MARGIN), 0
    )
    assert judged.claims == 0, "two pairs are inconclusive, always"


def test_the_simulation_sums_trials_up_as_the_product_does() -> None:
    figures = World(tails="heavy", drift=0.05).figures(np.random.default_rng(10), 1, 6, EFFECT)
    trials = tuple(
        Trial(
            runtime=label,
            number=pair + 1,
            right=True,
            iterations=tuple({"sps": math.exp(value)} for value in figures[0, pair, side]),
        )
        for side, label in enumerate(("old", "new"))
        for pair in range(6)
    )
    metrics = {"sps": Metric(name="sps", better=HIGHER)}
    runs = Runs(workload="w", size="1", metrics=metrics, conditions={"old": {}, "new": {}}, trials=trials)
    got = compare(runs, baseline="old", candidate="new", warmup=WARMUP, primary="sps").findings["sps"]
    assert got.ratios == pytest.approx(ratios(figures)[0].tolist(), abs=1e-12)
