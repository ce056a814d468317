"""The t distribution agrees with published tables and with itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scripts.bench.t_distribution import probability, quantile

#: Upper quantiles from the NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2.
LEVELS = (0.90, 0.95, 0.975, 0.99, 0.995, 0.999)
TABLE = {
    1: (3.078, 6.314, 12.706, 31.821, 63.657, 318.309),
    2: (1.886, 2.920, 4.303, 6.965, 9.925, 22.327),
    3: (1.638, 2.353, 3.182, 4.541, 5.841, 10.215),
    4: (1.533, 2.132, 2.776, 3.747, 4.604, 7.173),
    5: (1.476, 2.015, 2.571, 3.365, 4.032, 5.894),
    7: (1.415, 1.895, 2.365, 2.998, 3.499, 4.785),
    10: (1.372, 1.812, 2.228, 2.764, 3.169, 4.144),
    20: (1.325, 1.725, 2.086, 2.528, 2.845, 3.552),
    30: (1.310, 1.697, 2.042, 2.457, 2.750, 3.385),
    100: (1.290, 1.660, 1.984, 2.364, 2.626, 3.174),
}


@pytest.mark.parametrize("freedom", TABLE)
def test_quantiles_are_the_tables(freedom: int) -> None:
    assert [round(quantile(level, freedom), 3) for level in LEVELS] == pytest.approx(
        TABLE[freedom], abs=0.00101
    )


@pytest.mark.parametrize("level", LEVELS)
def test_one_and_two_degrees_have_closed_forms(level: float) -> None:
    assert quantile(level, 1) == pytest.approx(math.tan(math.pi * (level - 0.5)), rel=1e-10)
    centred = 2 * level - 1
    assert quantile(level, 2) == pytest.approx(centred * math.sqrt(2 / (1 - centred**2)), rel=1e-10)


def test_many_degrees_come_close_to_the_normal_distribution() -> None:
    assert quantile(0.975, 1e7) == pytest.approx(1.959963984540054, abs=1e-6)


@given(level=st.floats(0.001, 0.999), freedom=st.integers(1, 2000))
@example(level=0.5012994690359505, freedom=1136)
@settings(max_examples=200)
def test_quantile_undoes_probability(level: float, freedom: int) -> None:
    t = quantile(level, freedom)
    # Close to the middle the beta function's argument is almost 1, and its last digits are lost.
    assert probability(t, freedom) == pytest.approx(level, abs=1e-10)
    assert quantile(1 - level, freedom) == pytest.approx(-t, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("level", "freedom"), [(0.0, 3), (1.0, 3), (0.5, 0), (math.nan, 3), (0.9, -1)])
def test_what_has_no_quantile_is_refused(level: float, freedom: float) -> None:
    with pytest.raises(ValueError, match="no t quantile"):
        quantile(level, freedom)
