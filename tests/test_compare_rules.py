"""The rules of a comparison, one by one."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.bench.judgement import (
    CompareVerdict,
    Comparison,
    compare,
    compare_conditions,
    conditions_of,
    interval_of,
    pairs_for,
    verdict_of,
)
from scripts.bench.trials import HIGHER, LOWER, Metric, Runs
from scripts.errors import UsageError
from tests.trial_records import pairs, runs_of


def judged(runs: Runs, **change: Any) -> Comparison:
    settings: dict[str, Any] = {"baseline": "old", "candidate": "new", "warmup": 0, "primary": "sps"}
    return compare(runs, **(settings | change))


QUIET = (0.001, -0.001, 0.002, -0.002)
CLEAR = (0.05, 0.06, 0.05, 0.06)
VAGUE = (0.09, -0.03, 0.07, -0.02)


@pytest.mark.parametrize(
    ("changes", "better", "verdict"),
    [
        pytest.param(CLEAR, HIGHER, CompareVerdict.BETTER, id="more-is-better-and-it-is-more"),
        pytest.param(CLEAR, LOWER, CompareVerdict.WORSE, id="less-is-better-and-it-is-more"),
        pytest.param([-c for c in CLEAR], HIGHER, CompareVerdict.WORSE, id="more-is-better-and-it-is-less"),
        pytest.param([-c for c in CLEAR], LOWER, CompareVerdict.BETTER, id="less-is-better-and-it-is-less"),
        pytest.param(QUIET, HIGHER, CompareVerdict.SAME, id="inside-the-margin"),
        pytest.param(
            (0.010, 0.011, 0.010, 0.011), HIGHER, CompareVerdict.SAME, id="surely-more-but-too-little"
        ),
        pytest.param(VAGUE, HIGHER, CompareVerdict.INCONCLUSIVE, id="wide"),
        pytest.param(
            (0.019, 0.021, 0.020, 0.020), HIGHER, CompareVerdict.BETTER, id="across-the-margin-not-zero"
        ),
        pytest.param(CLEAR[:3], HIGHER, CompareVerdict.INCONCLUSIVE, id="three-pairs-however-clear"),
        pytest.param(QUIET[:3], HIGHER, CompareVerdict.INCONCLUSIVE, id="three-pairs-however-close"),
        pytest.param((0.05,) * 4, HIGHER, CompareVerdict.BETTER, id="no-spread-at-all"),
    ],
)
def test_verdict(changes: Any, better: str, verdict: CompareVerdict) -> None:
    assert judged(runs_of(pairs(changes), better=better)).verdict is verdict


@pytest.mark.parametrize(
    ("margin", "verdict"),
    [(0.0001, CompareVerdict.INCONCLUSIVE), (0.02, CompareVerdict.SAME)],
    ids=["narrow", "wide"],
)
def test_same_is_a_matter_of_the_margin(margin: float, verdict: CompareVerdict) -> None:
    assert judged(runs_of(pairs(QUIET)), margin=margin).verdict is verdict


def test_the_estimate_is_the_geometric_mean_of_pair_ratios() -> None:
    found = judged(runs_of(pairs((0.10, 0.20, 0.10, 0.20)))).findings["sps"]
    assert math.exp(found.interval.mean) == pytest.approx(math.sqrt(1.1 * 1.2))


def test_a_trial_is_the_median_of_its_iterations_after_the_warm_up() -> None:
    sides = {"old": [[1, 100, 100, 500]] * 4, "new": [[999, 110, 110, 110]] * 4}
    found = judged(runs_of(sides), warmup=1).findings["sps"]
    assert found.interval.mean == pytest.approx(math.log(1.1))


def test_iterations_do_not_count_as_observations() -> None:
    few = judged(runs_of({k: [row * 2 for row in v] for k, v in pairs(VAGUE).items()}))
    many = judged(runs_of({k: [row * 200 for row in v] for k, v in pairs(VAGUE).items()}))
    assert few.findings["sps"].interval == many.findings["sps"].interval
    assert many.findings["sps"].interval.pairs == 4


def test_pairs_are_trials_of_the_same_number_and_the_others_are_told() -> None:
    runs = runs_of({"old": [[100]] * 6, "new": [[105], [106], [105], [106]]})
    found = judged(runs)
    assert found.findings["sps"].interval.pairs == 4
    assert found.unpaired == 2


def test_only_the_primary_metric_decides() -> None:
    runs = runs_of(pairs(QUIET))
    trials = tuple(
        replace(
            t, iterations=({**t.iterations[0], "ms": 1.0 if t.runtime == "old" else 2.0 + t.number / 100},)
        )
        for t in runs.trials
    )
    metrics = {**runs.metrics, "ms": Metric(name="ms", better=LOWER)}
    found = judged(replace(runs, trials=trials, metrics=metrics))
    assert found.findings["ms"].verdict is CompareVerdict.WORSE
    assert found.verdict is CompareVerdict.SAME


def test_a_metric_without_a_direction_is_different_and_cannot_decide() -> None:
    runs = runs_of(pairs(CLEAR), better="")
    assert (
        verdict_of(interval_of([0.05, 0.06, 0.05, 0.06]), margin=0.02, better="") is CompareVerdict.DIFFERENT
    )
    with pytest.raises(UsageError) as caught:
        judged(runs)
    assert caught.value.reference == "no-direction"


def test_a_wrong_answer_cannot_be_compared() -> None:
    runs = runs_of(pairs(CLEAR))
    spoilt = replace(runs.trials[5], right=False, answer="incorrect: error 3 times the tolerance")
    with pytest.raises(UsageError) as caught:
        judged(replace(runs, trials=(*runs.trials[:5], spoilt, *runs.trials[6:])))
    assert caught.value.reference == "answer-wrong"
    assert "1 of 4 trials of new" in caught.value.message
    assert "error 3 times" in caught.value.context[0]


@pytest.mark.parametrize(
    ("change", "reference"),
    [
        ({"baseline": "nobody"}, "no-such-runtime"),
        ({"primary": "watts"}, "no-primary"),
        ({"primary": ""}, "no-primary"),
        ({"warmup": 1}, "nothing-left"),
    ],
    ids=["runtime", "metric", "no-metric", "warm-up"],
)
def test_what_cannot_be_compared_is_refused(change: dict[str, Any], reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        judged(runs_of(pairs(CLEAR)), **change)
    assert caught.value.reference == reference


@pytest.mark.parametrize("value", [0.0, -1.0], ids=["zero", "negative"])
def test_figures_without_a_logarithm_cannot_decide(value: float) -> None:
    with pytest.raises(UsageError) as caught:
        judged(runs_of({"old": [[value]] * 4, "new": [[1.0]] * 4}))
    assert caught.value.reference == "not-comparable"


def test_one_pair_leaves_everything_open() -> None:
    interval = interval_of([0.05])
    assert (interval.low, interval.high) == (-math.inf, math.inf)
    assert interval_of([]).pairs == 0


@pytest.mark.parametrize(
    ("spread", "width", "pairs_needed"),
    [(0.001, 0.02, 4), (0.02, 0.02, 7), (0.1, 0.02, 99), (math.nan, 0.02, None), (5.0, 0.0001, None)],
)
def test_how_many_pairs_would_be_needed(spread: float, width: float, pairs_needed: int | None) -> None:
    assert pairs_for(spread, width) == pairs_needed


@given(st.floats(0.001, 0.2), st.floats(0.01, 0.1))
def test_needed_pairs_are_enough_and_one_less_is_not(spread: float, width: float) -> None:
    need = pairs_for(spread, width)
    assert need is not None
    half = [interval_half(spread, n) for n in (need, need - 1)]
    assert half[0] <= width
    assert need == 4 or half[1] > width


def interval_half(spread: float, n: int) -> float:
    from scripts.bench.judgement import t_quantile  # noqa: PLC0415 - the only user

    return t_quantile(n - 1) * spread / math.sqrt(n)


@given(st.lists(st.floats(-0.2, 0.2), min_size=4, max_size=12))
def test_exchanging_the_sides_mirrors_everything(ratios: list[float]) -> None:
    one, other = interval_of(ratios), interval_of([-r for r in ratios])
    assert (other.low, other.mean) == pytest.approx((-one.high, -one.mean), abs=1e-12)
    mirror = {CompareVerdict.BETTER: CompareVerdict.WORSE, CompareVerdict.WORSE: CompareVerdict.BETTER}
    verdict = verdict_of(one, margin=1e-9, better=HIGHER)
    assert verdict_of(other, margin=1e-9, better=HIGHER) is mirror.get(verdict, verdict)


def test_unknown_conditions_equal_nothing_not_even_each_other() -> None:
    found = compare_conditions(
        {"driver": "unknown", "gpu": "A", "seed": "1", "os": "unknown"},
        {"driver": "unknown", "gpu": "A", "seed": "2", "os": "linux"},
    )
    assert found == {
        "same": {"gpu": "A"},
        "different": {"seed": {"baseline": "1", "candidate": "2"}},
        "unknown": ["driver", "os"],
    }


def test_conditions_that_vary_between_trials_are_told_as_a_range() -> None:
    runs = runs_of(pairs(QUIET))
    trials = tuple(
        replace(t, state={"clocks": f"{900 + 100 * t.number} MHz"} if t.runtime == "old" else {})
        for t in runs.trials
    )
    runs = replace(runs, trials=trials)
    assert conditions_of(runs, "old")["clocks"] == "varied: 1000 MHz … 1300 MHz"
    assert conditions_of(runs, "new")["clocks"] == "unknown"
    assert conditions_of(runs, "old")["size"] == "1024"
