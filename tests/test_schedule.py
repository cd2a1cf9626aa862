"""What a plan comes to, as text; and the detectable effects by the noncentral t distribution."""

from __future__ import annotations

import math

import pytest
from scipy import optimize, stats

from runner.planfile import parse
from runner.schedule import DETECTABLE, describe
from tests.small import changed, golden, plan


@pytest.mark.parametrize(("blocks", "digits"), [(4, 3), (6, 4), (8, 3), (10, 3), (12, 3), (18, 3), (24, 3)])
def test_detectable_effects(blocks: int, digits: int) -> None:
    """delta = c sigma has power .8 in a two-sided 5% t test of log ratios: from scipy's noncentral t."""
    freedom = blocks - 1
    critical = stats.t.ppf(0.975, freedom)

    def power(c: float) -> float:
        shift = c * math.sqrt(blocks)
        other_side = stats.nct.cdf(-critical, freedom, shift)  # scipy gives NaN where it is next to nothing
        return float(stats.nct.sf(critical, freedom, shift) + (other_side if other_side > 0 else 0))

    found = optimize.brentq(lambda c: power(c) - 0.8, 0.1, 5, xtol=1e-12)
    assert round(found, digits) == DETECTABLE[blocks]


def test_every_tabulated_number_is_computed_again() -> None:
    assert set(DETECTABLE) == {4, 6, 8, 10, 12, 18, 24}


def test_the_schedule_of_the_small_plan() -> None:
    golden("small_schedule.txt", describe(plan()))


def test_what_is_not_tabulated_says_so() -> None:
    text = describe(parse(changed("blocks = 6", "blocks = 7")))
    assert "detectable effect: not tabulated for 7 blocks" in text
    assert "linear 0.0053" in text  # one place in 7 blocks, of 27 between first and last: no order has less
