"""Detectable effects and numbers of blocks, compared with scipy's noncentral t and chi-squared distributions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from runner import power

TABLE = {4: 2.128, 6: 1.4345, 8: 1.156, 10: 0.996, 12: 0.889, 18: 0.701, 24: 0.597}  # four digits, computed elsewhere


@pytest.mark.parametrize(("blocks", "effect"), TABLE.items())
def test_the_known_table(blocks: int, effect: float) -> None:
    assert power.detectable(blocks) == pytest.approx(effect, abs=6e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 60), st.floats(0, 5), st.sampled_from([0.8, 0.95, 0.99]))
def test_power_is_scipys(blocks: int, effect: float, level: float) -> None:
    limit, shift = stats.t.ppf((1 + level) / 2, blocks - 1), effect * math.sqrt(blocks)
    other = stats.nct.sf(limit, blocks - 1, -shift)
    other = 0.0 if math.isnan(other) else other  # where scipy cannot compute the other tail there is nothing in it
    expected = stats.nct.sf(limit, blocks - 1, shift) + other
    assert power.power(effect, blocks, level) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 300), st.floats(0.5, 0.9995))
def test_quantiles_are_scipys(df: int, p: float) -> None:
    digits = 1e-6 if df > 2 else 1e-4  # with one or two degrees of freedom the integrand is steep near 0
    assert power.t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=digits, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 200), st.floats(0.5, 0.99))
def test_the_upper_bound_of_a_pilots_sd_is_scipys(blocks: int, share: float) -> None:
    df = blocks - 1
    expected = 0.03 * math.sqrt(df / stats.chi2.ppf(1 - share, df))
    assert power.upper_sd(0.03, blocks, share) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("limit", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("df", [1, 5, 23])
def test_the_chance_of_a_smaller_sd_is_scipys(limit: float, df: int) -> None:
    assert power._below(limit, df) == pytest.approx(stats.chi2.cdf(df * limit**2, df), abs=1e-12)


def test_six_blocks_of_a_pilot_say_little() -> None:
    assert power.upper_sd(1, 6) == pytest.approx(1.46, abs=0.005)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.001, 0.3), st.floats(0.005, 0.1))
def test_the_number_of_blocks_is_the_fewest(effect: float, sd: float) -> None:
    needed = power.blocks_needed(math.exp(effect), sd)
    assert needed == power.blocks_needed(math.exp(-effect), sd)
    if needed is None:
        assert power.detectable(power.MOST_BLOCKS) > effect / sd
    else:
        assert power.power(effect / sd, needed) >= 0.8 - 1e-9
        assert needed == 2 or power.power(effect / sd, needed - 1) < 0.8 + 1e-9


@pytest.mark.parametrize(
    ("ratio", "sd"), [(1, 0.03), (0, 0.03), (-2, 0.03), (math.inf, 0.03), (1.02, 0), (math.nan, 1)]
)
def test_what_is_no_effect_is_refused(ratio: float, sd: float) -> None:
    with pytest.raises(ValueError, match="expected a ratio above 0"):
        power.blocks_needed(ratio, sd)
