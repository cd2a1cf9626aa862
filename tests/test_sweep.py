"""The sweep over seeds: what a seed can move, and what it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from analysis import claims, estimands, intervals, sweep
from analysis.model import Estimate
from runner.plan import Claim

V1 = (1.021, 0.987, 1.034, 1.008, 1.017, 0.998)
V2 = (1.02, 1.01, 1.30, 1.03, 0.99, 1.015)


def estimate(case: str, ratios: tuple[float, ...], seed: int = 391706) -> Estimate:
    logs = np.log(ratios)
    return Estimate(
        "P", case, "ns/op", "new/old",
        point=intervals.geometric_mean(logs), t=intervals.t_interval(logs, 0.95),
        percentile=intervals.percentile_sampled(logs, seed, 20000, 0.95),
        percentile_exact=intervals.percentile_exact(ratios, 0.95),
        blocks=tuple(range(1, 7)), ratios=ratios,
    )  # fmt: skip


def claim(interval: str) -> Claim:
    return Claim(
        id=f"by-{interval}", text="Two is above.", metric="ns/op", contrast="new/old", cases=("two",),
        holds="above-1", interval=interval,
    )  # fmt: skip


def swept(seeds: tuple[int, ...] = tuple(range(200))) -> sweep.Sweep:
    found = [estimate("one", V1), estimate("two", V2), Estimate("P", "none", "ns/op", "new/old")]
    planned = [claim("percentile"), claim("t")]
    return sweep.sweep(found, planned, primary="t", level=0.95, resamples=20000, seed=391706, seeds=seeds)


def test_ends_lie_around_the_exact_ones_and_move_a_little() -> None:
    for ends in swept().ends:
        assert ends.exact is not None
        assert ends.low[0] <= ends.exact[0] <= ends.low[1]
        assert ends.high[0] <= ends.exact[1] <= ends.high[1]
        assert 0.001 < ends.moves < 0.06  # two per cent of the width is typical of the worst of 400 seeds
        assert ends.seeds == 200


def test_every_interval_is_the_one_of_its_seed() -> None:
    one = swept((20240607,)).ends[0]
    assert (one.low[0], one.high[0]) == pytest.approx((0.9981028106, 1.022915616), abs=5e-10)
    assert one.low[0] == one.low[1] and one.moves == 0


def test_without_a_percentile_interval_there_is_no_seed() -> None:
    assert [ends.case for ends in swept((1, 2)).ends] == ["one", "two"]


def test_no_seed_turns_what_only_the_percentile_interval_carries_into_support() -> None:
    by_percentile, by_t = swept().claims
    assert (by_percentile.own, by_percentile.counts, by_percentile.flips) == (
        "nominal-only",
        {"nominal-only": 200},
        False,
    )
    assert (by_t.own, by_t.counts) == (by_t.own, {by_t.own: 200})


def test_a_claim_that_hangs_on_the_seed_flips() -> None:
    ratios = (1.0122, 0.9895, 1.021, 1.009, 0.9978, 1.0021)
    logs = np.log(ratios)
    shift = np.log(intervals.percentile_exact(ratios, 0.95)[0])  # type: ignore[index]
    near = tuple(np.exp(logs - shift))  # now the exact lower end is 1
    found = [estimate("two", near)]
    result = sweep.sweep(found, [claim("percentile")], primary="t", level=0.95, resamples=2000, seed=1)
    (ends,), (told,) = result.ends, result.claims
    assert ends.flips and 0 < ends.excludes < 200
    assert told.flips and set(told.counts) == {"nominal-only", "unresolved"}
    assert told.counts["nominal-only"] == ends.excludes


def test_a_claim_that_hangs_on_the_plans_own_seed_alone_flips() -> None:
    assert sweep.ClaimSweep("A", "text", "supported", {"unresolved": 200}).flips
    assert not sweep.ClaimSweep("A", "text", "unresolved", {"unresolved": 200}).flips


def test_status_under_the_plans_seed_is_the_phases_own() -> None:
    found = [estimate("one", V1), estimate("two", V2)]
    own = claims.evaluate(claim("percentile"), found, primary="t").status
    assert swept((5,)).claims[0].own == own
    assert estimands.with_holm(found, ["ns/op"], ["new/old"])[0].percentile == found[0].percentile


@pytest.mark.parametrize(("text", "seeds"), [("0-3", (0, 1, 2, 3)), ("7", (7,)), ("1, 5,20-22", (1, 5, 20, 21, 22))])
def test_seeds_as_text(text: str, seeds: tuple[int, ...]) -> None:
    assert sweep.parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "1-", "-3", "5-2", "1,1", "0-9,4", "0-999999", "1.5", "\u0663"])
def test_what_are_no_seeds(text: str) -> None:
    with pytest.raises(ValueError, match=r"seed|expected"):
        sweep.parse_seeds(text)


def test_no_seeds() -> None:
    with pytest.raises(ValueError, match="each once"):
        swept((1, 1))
