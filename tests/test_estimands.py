"""From samples to estimates: which blocks count, what is null and why, what the JSON holds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from analysis import estimands, intervals
from analysis.model import Estimate, EstimateWarning, Sample

V1 = (1.021, 0.987, 1.034, 1.008, 1.017, 0.998)
V2 = (1.02, 1.01, 1.30, 1.03, 0.99, 1.015)
PLANNED = (1, 2, 3, 4, 5, 6)


def run(case: str, arm: str, block: int, *values: float, metric: str = "ns/op", phase: str = "B") -> list[Sample]:
    """The samples of one run."""
    file = f"runs/{phase}/{case}/{block}-{arm}/stdout.txt"
    return [
        Sample(phase, case, arm, block, 0, 10 * block, repeat, metric, value, file, repeat + 1)
        for repeat, value in enumerate(values)
    ]


def pair(ratios: Sequence[float], case: str = "Load", blocks: Iterable[int] = PLANNED) -> list[Sample]:
    """Two arms whose block ratios are these; three repeats whose median counts."""
    samples = []
    for block, ratio in zip(blocks, ratios, strict=False):
        base = 1_000.0 + block
        samples += run(case, "before", block, base, base * 1.002, base * 0.999)
        samples += run(case, "final", block, ratio * base * 0.998, ratio * base, ratio * base * 1.001)
    return samples


def estimate_all(samples: Iterable[Sample], **changes) -> tuple[Estimate, ...]:
    settings = {
        "phase": "B",
        "contrasts": ["final/before"],
        "metrics": ["ns/op"],
        "cases": ["Load"],
        "planned_blocks": {"Load": PLANNED, "Save": PLANNED},
        "missing": {},
        "level": 0.95,
        "seed": 391706,
        "resamples": 20_000,
        "holm_family": (["ns/op"], ["final/before"]),
    }
    return estimands.estimates(samples, **(settings | changes))


def estimate(samples: Iterable[Sample], **changes) -> Estimate:
    (found,) = estimate_all(samples, **changes)
    return found


def kinds(found: Estimate) -> list[str]:
    return [warning.kind for warning in found.warnings]


def text(found: Estimate, kind: str) -> str:
    return next(warning.text for warning in found.warnings if warning.kind == kind)


def test_run_level_is_the_median_of_the_repeats():
    samples = [*run("Load", "final", 1, 3.0, 1.0, 2.0), *run("Load", "final", 2, 4.0, 2.0)]
    assert estimands.run_levels(samples) == {
        ("Load", "ns/op", "final", 1): 2.0,
        ("Load", "ns/op", "final", 2): 3.0,
    }


def test_a_repeat_that_is_not_finite_is_not_hidden_by_the_median():
    (level,) = estimands.run_levels(run("Load", "final", 1, 1.0, 2.0, math.inf)).values()
    assert level == math.inf


def test_one_repeat_twice_is_refused_with_both_places():
    samples = run("Load", "final", 1, 1.0)
    with pytest.raises(ValueError, match=r"one repeat twice: .*stdout.txt:1 .* and .*stdout.txt:9"):
        estimands.run_levels([*samples, replace(samples[0], line=9)])


def test_two_phases_are_refused_by_run_levels_and_told_apart_by_estimates():
    other = run("Load", "final", 1, 5.0, phase="A")
    with pytest.raises(ValueError, match="samples of two phases"):
        estimands.run_levels([*pair(V1), *other])
    assert estimate([*pair(V1), *other]) == estimate(pair(V1))


def test_estimate_of_v1():
    found = estimate(pair(V1))
    logs = np.log(V1)
    assert (found.phase, found.case, found.metric, found.contrast) == ("B", "Load", "ns/op", "final/before")
    assert f"{found.point:.10g}" == "1.010716239"
    assert found.t == pytest.approx(intervals.t_interval(logs, 0.95), rel=1e-12)
    assert found.percentile == pytest.approx(intervals.percentile_sampled(logs, 391706, 20_000, 0.95), rel=1e-12)
    assert found.percentile_exact == intervals.percentile_exact(V1, 0.95)
    assert found.range == pytest.approx((0.987, 1.034))
    assert found.leave_one_out == pytest.approx(intervals.leave_one_out(logs))
    assert found.ratios == pytest.approx(V1)
    assert found.p == found.holm_p == pytest.approx(intervals.t_pvalue(logs))
    assert (found.blocks, found.missing, found.warnings) == (PLANNED, (), ())


def test_plan_order_is_contrast_then_case_then_metric():
    found = estimate_all(
        [], contrasts=["final/before", "before/final"], cases=["Save", "Load"], metrics=["ns/op", "B/op"]
    )
    assert [(e.contrast, e.case, e.metric) for e in found] == [
        (contrast, case, metric)
        for contrast in ("final/before", "before/final")
        for case in ("Save", "Load")
        for metric in ("ns/op", "B/op")
    ]


def test_a_swapped_contrast_is_the_inverse():
    straight, swapped = estimate_all(pair(V1), contrasts=["final/before", "before/final"])
    assert swapped.point == pytest.approx(1 / straight.point, rel=1e-14)
    for kind in ("t", "percentile", "percentile_exact", "range"):
        low, high = getattr(swapped, kind)
        assert (1 / high, 1 / low) == pytest.approx(getattr(straight, kind), rel=1e-9)


def test_many_series_at_once_are_each_as_if_alone():
    samples = [*pair(V1), *pair(V2, case="Save")]
    both = estimate_all(samples, cases=["Load", "Save"], holm_family=([], []))
    alone = [estimate_all(samples, cases=[case], holm_family=([], []))[0] for case in ("Load", "Save")]
    for together, single in zip(both, alone, strict=True):
        assert together.percentile == pytest.approx(single.percentile, rel=1e-14)
        assert replace(together, percentile=None) == replace(single, percentile=None)


def test_a_failed_run_takes_its_block_and_is_named():
    found = estimate(pair(V1), missing={("Load", 3, "final"): "exit status 3"})
    assert found.blocks == (1, 2, 4, 5, 6)
    assert [(m.block, m.arm, m.reason, m.replaced_by) for m in found.missing] == [(3, "final", "exit status 3", None)]
    assert found.point == pytest.approx(intervals.geometric_mean(np.log(V1[:2] + V1[3:])))
    assert found.percentile_exact == intervals.percentile_exact(found.ratios, 0.95)
    assert kinds(found) == ["failed-runs", "few-blocks"]


def test_the_samples_of_a_failed_run_are_not_used_even_where_there_are_some():
    assert estimate(pair(V1), missing={("Load", 1, "before"): "killed"}).blocks == (2, 3, 4, 5, 6)


def test_a_failed_run_of_a_third_arm_takes_nothing_from_this_contrast():
    missing = {("Load", 3, "legacy"): "exit status 1"}
    assert estimate(pair(V1), missing=missing) == estimate(pair(V1))


def test_a_run_without_the_metric_is_a_missing_run():
    samples = [s for s in pair(V1) if (s.arm, s.block) != ("before", 2)]
    found = estimate(samples)
    assert [(m.block, m.arm) for m in found.missing] == [(2, "before")]
    assert found.missing[0].reason == "the record has no ns/op of this run"


def test_a_void_block_is_void_for_every_arm_and_its_replacement_counts():
    samples = pair((*V1, 1.5), blocks=range(1, 8))
    found = estimate(
        samples,
        planned_blocks={"Load": range(1, 8)},
        missing={("Load", 2, "legacy"): "host went down"},
        replaced={("Load", 2): 7},
    )
    assert found.blocks == (1, 3, 4, 5, 6, 7)
    assert [(m.block, m.reason, m.replaced_by) for m in found.missing] == [(2, "host went down", 7)]
    assert "failed-runs" not in kinds(found)
    assert "few-blocks" not in kinds(found)
    assert text(found, "replaced-blocks") == "Void and replaced: block 2 (host went down) by block 7."


def test_a_replacement_that_failed_is_a_failed_run():
    found = estimate(
        pair(V1, blocks=PLANNED),
        planned_blocks={"Load": range(1, 8)},
        missing={("Load", 2, "final"): "host went down", ("Load", 7, "final"): "exit status 1"},
        replaced={("Load", 2): 7},
    )
    assert found.blocks == (1, 3, 4, 5, 6)
    assert "block 7" in text(found, "failed-runs")
    assert text(found, "few-blocks").startswith("Used: 5 of 6 planned blocks; missing: block 7")


def test_a_void_block_without_replacement_is_missing():
    found = estimate(pair(V1), missing={("Load", 2, arm): "host went down" for arm in ("before", "final")})
    assert "failed-runs" in kinds(found)


def test_unplanned_blocks_are_named_and_not_used():
    found = estimate(pair((*V1, 9.0), blocks=range(1, 8)))
    assert found.blocks == PLANNED
    assert text(found, "unplanned-runs").endswith("not used: 7.")


@pytest.mark.parametrize(
    ("value", "reason"),
    [(0.0, "ns/op is 0"), (-5.0, "ns/op is -5"), (math.nan, "ns/op is nan"), (math.inf, "ns/op is inf")],
)
def test_a_value_without_a_log_voids_the_estimate_and_is_named(value, reason):
    samples = [s for s in pair(V1) if (s.arm, s.block) != ("final", 4)]
    found = estimate([*samples, *run("Load", "final", 4, value)])
    assert _nulls(found) == {"point", "t", "percentile", "percentile_exact", "range", "p", "holm_p"}
    assert (found.blocks, found.ratios, found.leave_one_out) == ((), (), ())
    assert [(m.block, m.arm, m.reason) for m in found.missing] == [(4, "final", reason)]
    assert kinds(found) == ["failed-runs", "few-blocks", "no-log-ratio", "holm-skips"]


def test_zero_in_both_arms_names_both():
    samples = [s for s in pair(V1) if s.block != 4]
    found = estimate([*samples, *run("Load", "final", 4, 0.0), *run("Load", "before", 4, 0.0)])
    assert [(m.block, m.arm) for m in found.missing] == [(4, "final"), (4, "before")]


def test_no_spread_has_a_point_and_no_interval():
    found = estimate(pair([0.8] * 6))
    assert found.point == pytest.approx(0.8)
    assert found.range == pytest.approx((0.8, 0.8))
    assert found.leave_one_out == pytest.approx([0.8] * 6)
    assert _nulls(found) == {"t", "percentile", "percentile_exact", "p", "holm_p"}
    assert kinds(found) == ["no-spread", "holm-skips"]


def test_one_block_has_a_point_and_no_interval():
    found = estimate(pair(V1[:1]), planned_blocks={"Load": [1]})
    assert found.point == pytest.approx(1.021)
    assert found.leave_one_out == (None,)
    assert _nulls(found) == {"t", "percentile", "percentile_exact", "p", "holm_p"}
    assert kinds(found) == ["few-blocks", "one-block", "holm-skips"]


@pytest.mark.parametrize("planned", [{"Load": PLANNED}, {"Load": ()}, {}])
def test_no_block_has_nothing_and_says_so(planned):
    found = estimate([], planned_blocks=planned)
    assert _nulls(found) == {"point", "t", "percentile", "percentile_exact", "range", "p", "holm_p"}
    assert "no-blocks" in kinds(found)


def test_nine_blocks_have_no_exact_interval_and_say_so():
    found = estimate(pair((*V1, *V1[:3]), blocks=range(1, 10)), planned_blocks={"Load": range(1, 10)})
    assert _nulls(found) == {"percentile_exact"}
    assert "no-exact-interval" in kinds(found)


def _nulls(found: Estimate) -> set[str]:
    names = ("point", "t", "percentile", "percentile_exact", "range", "p", "holm_p")
    return {name for name in names if getattr(found, name) is None}


def test_every_null_has_a_warning():
    for samples in (pair(V1), pair([0.8] * 6), pair(V1[:1]), [], run("Load", "final", 1, 0.0)):
        found = estimate(samples)
        assert not _nulls(found) or found.warnings


def test_holm_over_the_family_only():
    ratios = {"A": (0.91, 0.9, 0.92, 0.9, 0.91, 0.93), "C": V1, "D": [0.8] * 6}
    samples = [sample for case, values in ratios.items() for sample in pair(values, case=case)]
    planned = dict.fromkeys(ratios, PLANNED)
    a, c, d = estimate_all(samples, cases=list(ratios), planned_blocks=planned)
    assert (a.holm_p, c.holm_p) == intervals.holm([a.p, c.p])
    assert d.holm_p is None
    assert text(d, "holm-skips") == "Holm's family of 3 skips D, ns/op, final/before: no p-value."
    outside = estimate_all(
        samples, cases=list(ratios), planned_blocks=planned, holm_family=(["B/op"], ["final/before"])
    )
    assert [e.holm_p for e in outside] == [None] * 3
    assert all("holm-skips" not in kinds(e) for e in outside)


def test_extra_warnings_come_last():
    marked = EstimateWarning("checks", "Block 3 is marked.")
    found = estimate(pair([0.8] * 6), extra={("Load", "ns/op", "final/before"): [marked]})
    assert kinds(found) == ["no-spread", "holm-skips", "checks"]
    assert estimate(pair(V1), extra={("Save", "ns/op", "final/before"): [marked]}).warnings == ()


def test_a_wild_ratio_is_no_exception():
    wild = [1e-200, 1e200, 1.0, 1e-200, 1e200, 1.0]
    found = estimate(pair(wild))
    assert found.point is not None
    assert json.dumps(estimands._estimate_json(found), allow_nan=False)


def absolutes(samples, **changes):
    settings = {
        "phase": "B",
        "arms": ["before", "final"],
        "metrics": ["ns/op"],
        "cases": ["Load"],
        "planned_blocks": {"Load": PLANNED},
        "missing": {},
    }
    return estimands.absolutes(samples, **(settings | changes))


def test_absolutes_are_medians_of_each_arms_own_runs():
    before, final = absolutes(pair(V1), missing={("Load", 6, "final"): "exit status 1"})
    assert (before.arm, before.value, before.blocks) == ("before", 1003.5, 6)
    assert (final.arm, final.blocks) == ("final", 5)
    assert final.value == pytest.approx(np.median([r * (1001 + i) for i, r in enumerate(V1[:5])]))


def test_absolutes_leave_out_void_and_unplanned_blocks():
    before, _ = absolutes(pair((*V1, 9.0), blocks=range(1, 8)), replaced={("Load", 1): 8})
    assert (before.value, before.blocks) == (1004.0, 5)


def test_absolutes_without_a_usable_run_are_null():
    none, zero = absolutes(run("Load", "final", 1, 0.0))
    assert (none.value, none.blocks) == (None, 0)
    assert (zero.value, zero.blocks) == (0.0, 1)
    assert absolutes(run("Load", "before", 1, math.nan))[0].value is None


def as_json(found, levels):
    return estimands.as_json(found, levels, campaign="c", phase="B", seed=391706, resamples=20_000, primary="t")


def test_json_has_exactly_the_designed_keys():
    samples = pair(V1)
    document = as_json(estimate_all(samples), absolutes(samples))
    assert list(document) == ["campaign", "phase", "seed", "resamples", "primary", "estimates", "absolutes"]
    (found,) = document["estimates"]
    assert list(found) == [
        "case",
        "metric",
        "contrast",
        "point",
        "t",
        "percentile",
        "percentile_exact",
        "range",
        "leave_one_out",
        "holm_p",
        "blocks",
        "missing",
        "warnings",
    ]
    assert [list(a) for a in document["absolutes"]] == [["case", "metric", "arm", "value"]] * 2
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_json_of_what_could_not_be_computed_is_null():
    samples = run("Load", "final", 1, math.nan)
    document = as_json(estimate_all(samples), absolutes(samples))
    (found,) = document["estimates"]
    assert {key for key, value in found.items() if value is None} == {
        "point",
        "t",
        "percentile",
        "percentile_exact",
        "range",
        "holm_p",
    }
    assert [a["value"] for a in document["absolutes"]] == [None, None]
    json.dumps(document, allow_nan=False)


def test_only_measured_pairs_have_estimates_and_absolute_values():
    samples = [*pair(V1), *pair(V2, case="Save"), *run("Load", "final", 1, 3.0, metric="B/op")]
    measured = {"Load": ["ns/op", "B/op"], "Save": ["ns/op"]}
    found = estimate_all(
        samples,
        cases=["Load", "Save"],
        metrics=["ns/op", "B/op"],
        measured=measured,
        holm_family=(["ns/op", "B/op"], ["final/before"]),
    )
    assert [(e.case, e.metric) for e in found] == [("Load", "ns/op"), ("Load", "B/op"), ("Save", "ns/op")]
    assert "family of 3 skips Load, B/op" in text(found[1], "holm-skips")
    levels = estimands.absolutes(
        samples,
        phase="B",
        arms=["before", "final"],
        metrics=["ns/op", "B/op"],
        cases=["Load", "Save"],
        planned_blocks={"Load": PLANNED, "Save": PLANNED},
        missing={},
        measured=measured,
    )
    assert ("Save", "B/op") not in {(level.case, level.metric) for level in levels}
    assert len(levels) == 6


COUNTS = (1.0, 1.0, 1.0, 1.0, 1.0, 1.000008)  # the sixth digit of a count in one block


def test_a_steady_count_is_not_said_to_drift_or_to_hang_on_one_block():
    assert "one-block-decides" in kinds(estimate(pair(COUNTS)))
    counted = kinds(estimate(pair(COUNTS), counted=["ns/op"]))
    assert not {"one-block-decides", "drift"} & set(counted)
    growing = [1 + n * 1e-6 for n in range(6)]
    assert "drift" in kinds(estimate(pair(growing)))
    assert "drift" not in kinds(estimate(pair(growing), counted=["ns/op"]))


def test_a_count_that_moves_keeps_its_warnings():
    assert "one-block-decides" in kinds(estimate(pair(V2), counted=["ns/op"]))
    assert "drift" in kinds(estimate(pair([1 + n * 1e-3 for n in range(6)]), counted=["ns/op"]))


def test_run_values_keep_level_spread_and_sequence_of_each_run():
    found = estimands.run_values(
        [
            *run("Load", "final", 1, 2.0, 8.0),
            *run("Load", "final", 2, 0.5, 2.0, 2.0),
            *run("Load", "final", 3, 4.0),
            *run("Load", "final", 4, 0.0, 1.0),
            *run("Load", "final", 5, 1.0, math.inf),
        ]
    )
    assert {block: (value.level, value.sequence) for (*_, block), value in found.items()} == {
        1: (5.0, 10),
        2: (2.0, 20),
        3: (4.0, 30),
        4: (0.5, 40),
        5: (math.inf, 50),
    }
    spreads = [value.spread for value in found.values()]
    # The standard deviation of two values is their distance over the root of 2; of (-a, a, a) it is 2a over the root of 3.
    assert spreads[:2] == pytest.approx([math.log(4) / math.sqrt(2), 2 * math.log(2) / math.sqrt(3)])
    assert spreads[2:] == [None, None, None]


def test_spread_inside_the_runs_of_either_arm_is_told():
    def samples(scatter: dict[str, float]) -> list[Sample]:
        return [
            sample
            for block, ratio in zip(PLANNED, V1, strict=True)
            for arm, level in (("before", 1_000.0), ("final", 1_000.0 * ratio))
            for sample in run("Load", arm, block, level / scatter[arm], level, level * scatter[arm])
        ]

    assert "repeats-disagree" not in kinds(estimate(samples({"before": 1.001, "final": 1.001})))
    for arms in ({"before": 1.2, "final": 1.001}, {"before": 1.001, "final": 1.2}):
        # Half of the runs scatter by ln 1.2, the others by ln 1.001: the median is their mean, 9.6%.
        assert "median sd 9.6%" in text(estimate(samples(arms)), "repeats-disagree")


def test_places_of_either_arm_are_looked_at_for_a_drift():
    """One block lost unbalances the order; levels that grow by 2% a run then bias the ratio."""

    def samples(first: str) -> list[Sample]:
        second = {"final": "before", "before": "final"}[first]
        found = []
        for block, ratio in zip(PLANNED, V1, strict=True):
            for place, arm in enumerate((first, second)):
                sequence = 2 * (block - 1) + place
                value = 1_000.0 * 1.02**sequence * (ratio if arm == "final" else 1.0)
                found.append(Sample("B", "Load", arm, block, place, sequence, 0, "ns/op", value, "f", 1))
        return found

    for first in ("final", "before"):
        told = text(estimate(samples(first)), "drift")
        assert "mean places in the campaign are 1 runs apart" in told
        assert "drift" not in kinds(estimate(samples(first), ordered=False))


def test_what_the_blocks_are_is_said_in_the_words_that_are_given():
    found = estimate(pair(V1[:5]), known="blocks in the logs")
    assert text(found, "few-blocks").startswith("Used: 5 of 6 blocks in the logs; missing: block 6")


def test_the_primary_interval_without_a_block_is_the_one_that_is_looked_at():
    """The percentile interval is below 1, and is not without block 1; the t interval includes 1 from the start."""
    ratios = (0.9, 0.95, 0.93, 0.99, 1.04, 0.97)
    found = estimate(pair(ratios), primary="percentile")
    assert found.percentile[1] < 1 < found.t[1]
    assert "The percentile interval excludes 1, but not without block 1" in text(found, "one-block-decides")
    assert "one-block-decides" not in kinds(estimate(pair(ratios), primary="t"))
    # Here it is the t interval that needs block 4; every percentile interval stays below 1.
    found = estimate(pair((0.96, 1.0, 0.99, 0.95, 0.94, 0.94)))
    assert "The t interval excludes 1, but not without block 4" in text(found, "one-block-decides")
    assert "one-block-decides" not in kinds(estimate(pair(found.ratios), primary="percentile"))


def test_more_blocks_than_are_enumerated_are_resampled_without_each_block():
    """Eleven blocks: without one of them ten are left, whose percentile interval is the sampled one of the same seed."""
    ratios = (0.9, 0.95, 0.93, 0.99, 1.04, 0.97, 1.02, 0.94, 1.03, 0.98, 0.98)
    blocks = range(1, 12)
    found = estimate(pair(ratios, blocks=blocks), planned_blocks={"Load": blocks}, primary="percentile", resamples=200)
    low, high = intervals.percentile_sampled(np.log(ratios[1:]), 391706, 200, 0.95)
    assert found.percentile == pytest.approx(intervals.percentile_sampled(np.log(ratios), 391706, 200, 0.95), rel=1e-12)
    assert found.percentile[1] < 1 < high
    assert f"without block 1 ({found.leave_one_out[0]:.3f} [{low:.3f}, {high:.3f}])" in text(found, "one-block-decides")


def test_a_failed_run_is_named_beside_a_value_without_a_log():
    samples = [s for s in pair(V1) if (s.arm, s.block) not in {("final", 4), ("before", 5)}]
    samples += [*run("Load", "final", 4, 0.0), *run("Load", "before", 5, -1.0)]
    found = estimate(samples, missing={("Load", 6, "final"): "exit status 3"})
    assert [(m.block, m.arm, m.reason) for m in found.missing] == [
        (4, "final", "ns/op is 0"),
        (5, "before", "ns/op is -1"),
        (6, "final", "exit status 3"),
    ]
    assert text(found, "few-blocks").startswith("Used: 0 of 6 planned blocks; missing: block 4, block 5 and block 6")


def test_only_the_side_without_a_log_is_named():
    samples = [s for s in pair(V1) if s.block != 4]
    found = estimate([*samples, *run("Load", "final", 4, 0.0), *run("Load", "before", 4, 0.5)])
    assert [(m.block, m.arm) for m in found.missing] == [(4, "final")]


def test_a_ratio_that_no_double_can_hold_is_the_numerators():
    samples = [s for s in pair(V1) if s.block not in {3, 4}]
    for block in (3, 4):
        samples += [*run("Load", "final", block, 1e200), *run("Load", "before", block, 1e-200)]
    found = estimate(samples)
    assert [(m.block, m.arm, m.reason) for m in found.missing] == [
        (3, "final", "the ratio is beyond 1e300"),
        (4, "final", "the ratio is beyond 1e300"),
    ]


def test_the_interruption_of_an_arm_of_the_contrast_is_named_before_a_third_arms():
    found = estimate(
        pair((*V1, 1.5), blocks=range(1, 8)),
        planned_blocks={"Load": range(1, 8)},
        missing={("Load", 2, "also"): "killed with the block", ("Load", 2, "final"): "host went down"},
        replaced={("Load", 2): 7},
    )
    assert [(m.block, m.arm, m.reason) for m in found.missing] == [(2, "final", "host went down")]
    third = estimate(
        pair((*V1, 1.5), blocks=range(1, 8)),
        planned_blocks={"Load": range(1, 8)},
        missing={("Load", 2, "also"): "killed with the block"},
        replaced={("Load", 2): 7},
    )
    assert [(m.block, m.arm, m.reason) for m in third.missing] == [(2, "also", "killed with the block")]


def test_a_void_block_without_a_reason_says_that_there_is_none():
    found = estimate(
        pair((*V1, 1.5), blocks=range(1, 8)), planned_blocks={"Load": range(1, 8)}, replaced={("Load", 2): 7}
    )
    assert [(m.block, m.arm, m.reason, m.replaced_by) for m in found.missing] == [
        (2, "final", "void, no reason recorded", 7)
    ]


def test_unplanned_blocks_of_another_case_are_that_cases():
    samples = [*pair((*V1, 9.0, 9.0), blocks=range(1, 9)), *pair(V2, case="Save")]
    load, save = estimate_all(samples, cases=["Load", "Save"])
    assert text(load, "unplanned-runs") == "Runs of unplanned blocks are in the record and not used: 7, 8."
    assert "unplanned-runs" not in kinds(save)
    third = estimate([*pair(V1), *run("Load", "legacy", 9, 1.0), *run("Load", "final", 9, 1.0, metric="B/op")])
    assert "unplanned-runs" not in kinds(third)


def test_a_case_that_no_plan_knows_has_no_level_and_measures_nothing():
    (before, final) = absolutes(pair(V1), planned_blocks={})
    assert [(a.case, a.metric, a.arm, a.value, a.blocks) for a in (before, final)] == [
        ("Load", "ns/op", "before", None, 0),
        ("Load", "ns/op", "final", None, 0),
    ]
    assert estimate_all(pair(V1), measured={}) == ()


def test_json_holds_the_values_of_the_estimate():
    found = estimate(
        pair((*V1, 1.5), blocks=range(1, 8)),
        planned_blocks={"Load": range(1, 8)},
        missing={("Load", 2, "final"): "host went down"},
        replaced={("Load", 2): 7},
    )
    document = estimands._estimate_json(found)
    for name in ("point", "holm_p"):
        assert document[name] == getattr(found, name) is not None
    for name in ("t", "percentile", "percentile_exact", "range", "leave_one_out", "blocks"):
        assert document[name] == list(getattr(found, name))
    assert document["missing"] == [{"block": 2, "arm": "final", "reason": "host went down", "replaced_by": 7}]
    assert document["warnings"] == [
        {"kind": "replaced-blocks", "text": "Void and replaced: block 2 (host went down) by block 7."},
        *({"kind": w.kind, "text": w.text} for w in found.warnings[1:]),
    ]
    assert not {"paired", "processes"} & set(document)
    unpaired = estimands._estimate_json(replace(found, paired=False, processes=(6, 5)))
    assert (unpaired["paired"], unpaired["processes"]) == (False, [6, 5])


def test_json_of_a_value_that_is_not_finite_is_null():
    wild = replace(estimate(pair(V1)), point=math.inf, leave_one_out=(1.0, math.nan, None))
    document = estimands._estimate_json(wild)
    assert (document["point"], document["leave_one_out"]) == (None, [1.0, None, None])
    (level, _) = as_json([], absolutes(run("Load", "before", 1, 3.0)))["absolutes"]
    assert level == {"case": "Load", "metric": "ns/op", "arm": "before", "value": 3.0}
