"""Welch's t on the logs of run medians: closed vectors, scipy as the reference, properties, coverage, every warning."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis import claims, estimands, figures, sentences, tables, unpaired
from analysis.model import Estimate, Sample
from runner.plan import Claim

NEW = (1.021, 0.987, 1.034, 1.008, 1.017, 0.998)
OLD = (1.052, 1.033, 1.071, 1.029)
POSITIVE = st.floats(1e-3, 1e9, allow_nan=False)
PROCESSES = st.lists(POSITIVE, min_size=2, max_size=9)


def logs(values: Sequence[float]) -> list[float]:
    return [math.log(value) for value in values]


def samples(arms: Mapping[str, Sequence[float]], case: str = "Encode", metric: str = "ns/op") -> list[Sample]:
    """One repeat of one process for each value."""
    return [
        Sample("A", case, arm, process, -1, process, 0, metric, value, f"adopted/{arm}.txt", process)
        for arm, values in arms.items()
        for process, value in enumerate(values, 1)
    ]


def estimate(
    arms: Mapping[str, Sequence[float]], missing: Mapping[tuple[str, int, str], str] | None = None, **more: Any
) -> Estimate:
    options: dict[str, Any] = {
        "phase": "A",
        "contrasts": ["new/old"],
        "metrics": ["ns/op"],
        "cases": ["Encode"],
        "missing": missing or {},
        "level": 0.95,
        "holm_family": (["ns/op"], ["new/old"]),
    }
    (found,) = unpaired.estimates(samples(arms), **(options | more))
    return found


def kinds(found: Estimate) -> list[str]:
    return [warning.kind for warning in found.warnings]


# ---- numbers


def test_a_vector_with_ten_digits() -> None:
    """The point by hand; interval and p by the script that is quoted here.

    >>> from scipy import stats; import numpy as np
    >>> r = stats.ttest_ind(np.log(NEW), np.log(OLD), equal_var=False)
    >>> r.pvalue, r.df, np.exp(r.confidence_interval(0.95))
    """
    found = estimate({"new": NEW, "old": OLD})
    assert found.point == pytest.approx(math.prod(NEW) ** (1 / 6) / math.prod(OLD) ** (1 / 4), rel=1e-12)
    assert found.point == pytest.approx(0.9661599183, rel=1e-9)
    assert found.t == pytest.approx((0.9395732652, 0.9934988812), rel=1e-9)
    assert found.p == pytest.approx(0.02332780081, rel=1e-9)
    assert found.holm_p == found.p
    assert (found.processes, found.paired) == ((6, 4), False)


@given(PROCESSES, PROCESSES, st.sampled_from((0.9, 0.95, 0.99)))
@settings(max_examples=200, deadline=None)
def test_scipy_finds_the_same(new: list[float], old: list[float], level: float) -> None:
    x, y = np.log(new), np.log(old)
    found = unpaired.difference(x.tolist(), y.tolist())
    if min(np.ptp(x), np.ptp(y)) < 1e-3:  # scipy itself warns of lost digits
        return
    reference = stats.ttest_ind(x, y, equal_var=False)
    assert found is not None
    assert found.freedom == pytest.approx(reference.df, rel=1e-10)
    p = unpaired.pvalue(x.tolist(), y.tolist())
    assert p == pytest.approx(reference.pvalue, rel=1e-10, abs=1e-10)
    ends = unpaired.interval(x.tolist(), y.tolist(), level)
    expected = reference.confidence_interval(level)
    if max(abs(expected.low), abs(expected.high)) < 600:
        assert ends is not None
        assert np.log(ends) == pytest.approx([expected.low, expected.high], rel=1e-10, abs=1e-10)


@given(PROCESSES, PROCESSES, st.floats(1e-3, 1e3))
@settings(max_examples=100, deadline=None)
def test_a_unit_takes_nothing_from_the_ratio(new: list[float], old: list[float], unit: float) -> None:
    one = estimate({"new": new, "old": old})
    other = estimate({"new": [v * unit for v in new], "old": [v * unit for v in old]})
    assert other.point == pytest.approx(one.point, rel=1e-9)
    if one.t and other.t and max(np.ptp(logs(new)), np.ptp(logs(old))) > 1e-6:
        assert np.log(other.t) == pytest.approx(np.log(one.t), rel=1e-6, abs=1e-9)


@given(PROCESSES, PROCESSES)
@settings(max_examples=100, deadline=None)
def test_the_inverse_contrast_has_the_inverse_point_and_ends(new: list[float], old: list[float]) -> None:
    one, other = (estimate({"new": new, "old": old}, contrasts=[c]) for c in ("new/old", "old/new"))
    assert one.point and other.point
    assert math.log(one.point) == pytest.approx(-math.log(other.point), abs=1e-12)
    assert (one.t is None) == (other.t is None)
    if one.t and other.t:
        assert np.log(one.t) == pytest.approx([-math.log(other.t[1]), -math.log(other.t[0])], rel=1e-9, abs=1e-12)
        assert one.p == pytest.approx(other.p, rel=1e-9)


@given(st.permutations(NEW), st.permutations(OLD))
@settings(max_examples=50, deadline=None)
def test_the_order_of_processes_does_not_matter(new: list[float], old: list[float]) -> None:
    assert estimate({"new": new, "old": old}) == estimate({"new": NEW, "old": OLD})


@pytest.mark.parametrize("sd", [(0.03, 0.03), (0.01, 0.05)])
def test_coverage_at_six_processes(sd: tuple[float, float]) -> None:
    """Of 4,000 intervals about 95% hold the truth, with equal and with unequal spreads; binomial noise is 0.35%."""
    draw = np.random.default_rng(20240607)
    held = 0
    for _ in range(4000):
        x, y = draw.normal(0.02, sd[0], 6).tolist(), draw.normal(0, sd[1], 6).tolist()
        ends = unpaired.interval(x, y, 0.95)
        assert ends
        held += ends[0] <= math.exp(0.02) <= ends[1]
    assert held / 4000 == pytest.approx(0.95, abs=0.012)


def test_repeats_are_taken_as_one_median() -> None:
    many = [
        Sample("A", "Encode", arm, process, -1, 0, repeat, "ns/op", value * factor, "f", 1)
        for arm, values in (("new", NEW), ("old", OLD))
        for process, value in enumerate(values, 1)
        for repeat, factor in enumerate((0.999, 1.0, 7.0))
    ]
    options: dict[str, Any] = {"contrasts": ["new/old"], "metrics": ["ns/op"], "cases": ["Encode"]}
    (found,) = unpaired.estimates(
        many, phase="A", missing={}, level=0.95, holm_family=(["ns/op"], ["new/old"]), **options
    )
    assert found.t == estimate({"new": NEW, "old": OLD}).t
    assert kinds(found) == ["unpaired", "repeats-disagree"]


# ---- warnings


def test_an_unpaired_estimate_says_so_and_has_nothing_of_blocks() -> None:
    found = estimate({"new": NEW, "old": OLD})
    assert [warning.text for warning in found.warnings] == [
        "No blocks are known, so arms were not paired: anything that changed between the processes of one arm and the "
        "other is in this ratio. The interval is Welch's t on 6 and 4 processes."
    ]
    nothing = (found.percentile, found.percentile_exact, found.range, found.leave_one_out, found.blocks, found.ratios)
    assert nothing == (None, None, None, (), (), ())


def test_one_process_gives_a_point_without_an_interval() -> None:
    found = estimate({"new": NEW, "old": OLD[:1]})
    assert found.point == pytest.approx(math.prod(NEW) ** (1 / 6) / OLD[0], rel=1e-12)
    assert (found.t, found.p, found.holm_p) == (None, None, None)
    assert kinds(found) == ["unpaired", "one-process", "holm-skips"]
    assert found.warnings[1].text.startswith("old has a single process: how far processes of it differ is not known")
    both = estimate({"new": NEW[:1], "old": OLD[:1]})
    assert both.warnings[1].text.startswith("new and old have a single process each")


def test_few_processes_are_a_warning() -> None:
    few = estimate({"new": NEW, "old": OLD[:3]})
    assert kinds(few) == ["unpaired", "few-processes"]
    assert few.warnings[1].text.startswith(
        "Few processes: 3 of old. Welch's interval then can cover less than its level"
    )
    assert (
        estimate({"new": NEW[:2], "old": OLD[:3]}).warnings[1].text.startswith("Few processes: 2 of new and 3 of old.")
    )
    assert kinds(estimate({"new": NEW[:4], "old": OLD})) == ["unpaired"]


@pytest.mark.parametrize(("processes", "share"), [(2, 0.90), (3, 0.94)])
def test_coverage_with_few_processes_beside_ten(processes: int, share: float) -> None:
    """What the warning says; of 4,000 intervals binomial noise is 0.5%."""
    draw = np.random.default_rng(20240607)
    held = 0
    for _ in range(4000):
        ends = unpaired.interval(draw.normal(0, 0.03, processes).tolist(), draw.normal(0, 0.03, 10).tolist(), 0.95)
        assert ends
        held += ends[0] <= 1 <= ends[1]
    assert held / 4000 == pytest.approx(share, abs=0.015)


def test_an_arm_without_a_process_gives_nothing() -> None:
    found = estimate({"new": NEW})
    assert (found.point, found.t) == (None, None)
    assert kinds(found) == ["unpaired", "no-processes", "holm-skips"]
    assert "no usable process of old" in found.warnings[1].text


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_value_without_a_logarithm_voids_the_estimate(bad: float) -> None:
    found = estimate({"new": [*NEW, bad], "old": OLD})
    assert (found.point, found.t, found.p, found.processes) == (None, None, None, (0, 0))
    assert kinds(found) == ["unpaired", "failed-runs", "no-log-ratio", "holm-skips"]
    assert f"new in process 7 (ns/op is {bad:g}): there is no estimate" in found.warnings[1].text


def test_equal_values_in_each_arm_have_no_spread() -> None:
    found = estimate({"new": [2.0] * 3, "old": [4.0] * 3})
    assert (found.point, found.t, found.p) == (0.5, None, None)
    assert kinds(found) == ["unpaired", "no-spread", "holm-skips"]
    assert "the same in every process" in sentences.sentences([found], primary="t")[0].text


def test_a_spread_in_one_arm_is_enough() -> None:
    found = estimate({"new": [2.0] * 3, "old": OLD})
    assert found.t is not None
    assert kinds(found) == ["unpaired", "few-processes"]


@pytest.mark.parametrize(("new", "kind"), [([1e200, 3e200], "no-ratio"), ([1e-150, 1e150], "no-interval")])
def test_what_a_double_cannot_hold_is_not_shown(new: list[float], kind: str) -> None:
    found = estimate({"new": new, "old": [1e-200, 1e-200] if kind == "no-ratio" else [1.0, 2.0]})
    assert found.t is None
    assert (found.point is None) == (kind == "no-ratio")
    assert kind in kinds(found)


def test_a_failed_process_is_named_and_nothing_is_claimed_of_the_rest() -> None:
    found = estimate({"new": NEW, "old": OLD}, {("Encode", 5, "old"): "failed: exit status 2"})
    assert found.t == estimate({"new": NEW, "old": OLD}).t
    assert kinds(found) == ["unpaired", "failed-runs"]
    assert "old in process 5 (failed: exit status 2): the estimate uses the other processes" in found.warnings[1].text
    assert tables.processes_text(found) == "6 and 4 of 5"


def test_a_metric_that_a_process_lacks_is_named() -> None:
    found = unpaired.estimates(
        samples({"new": NEW, "old": OLD}) + samples({"new": NEW, "old": OLD[:3]}, metric="B/op"),
        phase="A",
        contrasts=["new/old"],
        metrics=["B/op"],
        cases=["Encode"],
        missing={},
        level=0.95,
        holm_family=([], []),
    )
    assert "old in process 4 (the record has no B/op of this run)" in found[0].warnings[1].text


def test_samples_of_two_processes_under_one_number_are_refused() -> None:
    with pytest.raises(ValueError, match="one repeat twice"):
        unpaired.estimates(
            samples({"new": NEW}) * 2, phase="A", contrasts=["new/old"], metrics=["ns/op"], cases=["Encode"],
            missing={}, level=0.95, holm_family=([], []),
        )  # fmt: skip


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        unpaired.interval(logs(NEW), logs(OLD), 1.0)


# ---- what travels on


def claim(**more: Any) -> Claim:
    fields = {"id": "A1", "text": "Less.", "metric": "ns/op", "contrast": "new/old", "cases": "all", "holds": "below-1"}
    return Claim.model_validate(fields | more)


def test_a_claim_rests_on_welchs_interval() -> None:
    found = claims.evaluate(claim(), [estimate({"new": NEW, "old": OLD})], primary="t")
    assert found.status == "supported"
    assert found.reason.endswith("Arms were not paired; the interval is Welch's t.")


def test_a_claim_on_points_names_no_interval_that_it_does_not_use() -> None:
    found = claims.evaluate(
        claim(holds={"point_within": (0.9, 1.0)}), [estimate({"new": NEW, "old": OLD})], primary="t"
    )
    assert found.status == "supported"
    assert found.reason.endswith("no interval being used. Arms were not paired.")


@pytest.mark.parametrize(("own", "primary"), [("percentile", "t"), (None, "percentile")])
def test_a_claim_on_a_percentile_interval_cannot_be_evaluated(own: str | None, primary: str) -> None:
    found = claims.evaluate(claim(interval=own), [estimate({"new": NEW, "old": OLD})], primary=primary)
    assert found.status == "not-evaluable"
    assert "Encode has no percentile interval, since no blocks are known that it could be over" in found.reason


def test_a_claim_with_one_process_says_why_not() -> None:
    found = claims.evaluate(claim(), [estimate({"new": NEW, "old": OLD[:1]})], primary="t")
    assert found.status == "not-evaluable"
    assert "old has a single process" in found.reason


def test_as_data_it_is_marked_unpaired() -> None:
    found = estimate({"new": NEW, "old": OLD}, {("Encode", 5, "old"): "failed: exit status 2"})
    document = estimands.as_json([found], [], campaign="c", phase="A", seed=1, resamples=100, primary="t")
    (written,) = json.loads(json.dumps(document, allow_nan=False))["estimates"]
    assert (written["paired"], written["processes"]) == (False, [6, 4])
    assert (written["percentile"], written["range"], written["leave_one_out"], written["blocks"]) == (
        None,
        None,
        [],
        [],
    )
    assert written["missing"][0]["process"] == 5


def test_the_table_and_the_figure_name_the_interval() -> None:
    found = [estimate({"new": NEW, "old": OLD})]
    table = str(tables.results(found, "new/old", primary="t", cases=["Encode"], metrics=["ns/op"]))
    assert "ratio [Welch&#x27;s t, unpaired]" in table
    assert "leave one out" not in table
    assert "percentile" not in table
    assert "6 and 4" in table
    picture = figures.forest(found, ["new/old"], ["Encode"], metric="ns/op", primary="t", arms=["old", "new"])
    assert picture.alt.startswith("Forest plot of ns/op ratios with intervals by Welch's t, unpaired.")
    (legend,) = picture.wide.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Welch's t, unpaired; no blocks are known"]
