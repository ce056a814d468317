"""The published A/B of two stacks, two trials each: its table comes out, and its claim does not hold.

Source of the trials: Speedstu/CUDA-for-AMD-Windows, measured on a Radeon RX 9060 XT on 2026-09-13.
"""

from __future__ import annotations

import math

import pytest

from scripts.bench.judgement import CompareVerdict, Comparison, compare
from scripts.bench.picture import as_svg, draw
from scripts.bench.trials import read_table
from tests.checkout import ROOT

FILE = ROOT / "evidence" / "records" / "ppo-ab-2026-09-13.csv"


@pytest.fixture(scope="module")
def compared() -> Comparison:
    runs = read_table(FILE)
    return compare(runs, baseline="upstream", candidate="custom", warmup=1, primary="overall_sps")


def percent(old: float, new: float) -> float:
    return round((new / old - 1) * 100, 2)


@pytest.mark.parametrize(
    ("metric", "change"),
    [
        ("overall_sps", -3.03),
        ("collection_sps", -6.23),
        ("consumption_sps", -2.15),
        ("inference_s", 7.32),
        ("ppo_learn_s", 2.75),
    ],
)
def test_the_published_medians_come_out(compared: Comparison, metric: str, change: float) -> None:
    pooled = compared.findings[metric].pooled
    assert percent(pooled.baseline_median, pooled.candidate_median) == change


def test_the_published_figures_come_out(compared: Comparison) -> None:
    pooled = compared.findings["overall_sps"].pooled
    assert round(pooled.baseline_median, 3) == 13278.458
    assert round(pooled.candidate_median, 3) == 12875.798
    assert percent(pooled.baseline_mean, pooled.candidate_mean) == -3.97


def test_two_pairs_do_not_carry_it(compared: Comparison) -> None:
    finding = compared.findings["overall_sps"]
    assert compared.verdict is CompareVerdict.INCONCLUSIVE
    assert {f.verdict for f in compared.findings.values()} == {CompareVerdict.INCONCLUSIVE}
    assert finding.interval.pairs == 2
    assert finding.needed_pairs == 9
    low, high = (math.expm1(end) * 100 for end in (finding.interval.low, finding.interval.high))
    assert (round(low, 1), round(high, 1)) == (-22.0, 22.0)
    assert round(compared.trials_apart["upstream"], 1) == 5.7, (
        "one stack's own trials differ by more than the claim"
    )


def test_directions_are_read_from_the_names(compared: Comparison) -> None:
    good = {name: finding.better for name, finding in compared.findings.items()}
    assert good == {
        "overall_sps": "higher", "collection_sps": "higher", "consumption_sps": "higher",
        "inference_s": "lower", "ppo_learn_s": "lower", "collection_s": "lower", "consumption_s": "lower",
    }  # fmt: skip


def test_nothing_is_known_about_the_conditions_and_the_answers(compared: Comparison) -> None:
    assert compared.conditions["same"] == {}
    assert compared.answers_known is False


def test_the_picture_in_the_docs_is_of_these_figures(compared: Comparison) -> None:
    assert (ROOT / "docs" / "ppo-ab.svg").read_text(encoding="utf-8") == as_svg(draw(compared))
