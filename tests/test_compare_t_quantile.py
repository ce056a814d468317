"""The t quantile agrees with published tables, and with the density that it is the quantile of."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.bench.judgement import t_quantile

#: Upper 97.5 % quantiles from the NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2.
TABLE = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    7: 2.365,
    9: 2.262,
    10: 2.228,
    20: 2.086,
    30: 2.042,
    100: 1.984,
}


def below(t: float, freedom: int, *, steps: int = 4000) -> float:
    """P(T <= t) by Simpson's rule over the angle, where the density is bounded: T = sqrt(freedom) tan(x)."""
    norm = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    end = math.atan(t / math.sqrt(freedom))
    width = end / steps
    weights = (1 if i in {0, steps} else 4 if i % 2 else 2 for i in range(steps + 1))
    return 0.5 + norm * width / 3 * math.fsum(
        weight * math.cos(i * width) ** (freedom - 1) for i, weight in enumerate(weights)
    )


@pytest.mark.parametrize("freedom", TABLE)
def test_quantiles_are_the_tables(freedom: int) -> None:
    assert t_quantile(freedom) == pytest.approx(TABLE[freedom], abs=0.0005)


@pytest.mark.slow
@given(st.integers(1, 3000))
@settings(max_examples=60, deadline=None)
def test_so_much_lies_below_the_quantile(freedom: int) -> None:
    t = t_quantile(freedom)
    assert below(t * (1 - 5e-6), freedom) < 0.975 < below(t * (1 + 5e-6), freedom)


def test_many_degrees_come_close_to_the_normal_distribution() -> None:
    assert t_quantile(10_000_000) == pytest.approx(1.959963984540054, abs=1e-6)
    assert all(t_quantile(n) > t_quantile(n + 1) for n in range(1, 200))
