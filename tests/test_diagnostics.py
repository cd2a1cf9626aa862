"""Each warning fires on evidence made for it, and stays silent on evidence that nearly is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from analysis import diagnostics, estimands, intervals
from analysis.model import Estimate, EstimateWarning, Missing, Sample

V1 = (1.021, 0.987, 1.034, 1.008, 1.017, 0.998)
V2 = (1.02, 1.01, 1.30, 1.03, 0.99, 1.015)
CALM = (0.97, 0.99, 0.98, 0.96, 0.985, 0.975)
# Balanced orders of two arms: the places of numerator and denominator in six blocks.
BALANCED = ((0, 1), (1, 0), (1, 0), (0, 1), (0, 1), (1, 0))


def samples_of(ratios, *, spread=0.0, drift=0.0, places=BALANCED, blocks=None) -> list[Sample]:
    """Two arms with these block ratios; three repeats a run; levels that drift by ``drift`` a run."""
    found = []
    for block, ratio, (first, second) in zip(blocks or range(1, 99), ratios, places * 4, strict=False):
        for arm, place, factor in (("final", first, ratio), ("before", second, 1.0)):
            sequence = 2 * (block - 1) + place
            level = 1_000.0 * factor * math.exp(drift * sequence)
            for repeat, shift in enumerate((-spread, 0.0, spread)):
                value = level * math.exp(shift)
                found.append(Sample("B", "Load", arm, block, place, sequence, repeat, "ns/op", value, "f", 1))
    return found


def estimate(ratios, *, planned=None, primary="t", missing=None, **how) -> Estimate:
    (found,) = estimands.estimates(
        samples_of(ratios, **how),
        phase="B",
        contrasts=["final/before"],
        metrics=["ns/op"],
        cases=["Load"],
        planned_blocks={"Load": planned or range(1, len(ratios) + 1)},
        missing=missing or {},
        level=0.95,
        seed=391706,
        resamples=2_000,
        holm_family=([], []),
        primary=primary,
    )
    return found


def text(found: Estimate, kind: str) -> str | None:
    """The text of the warning of this kind; None when it is silent."""
    texts = [warning.text for warning in found.warnings if warning.kind == kind]
    assert len(texts) <= 1
    return texts[0] if texts else None


def test_calm_evidence_has_no_warning():
    assert estimate(CALM).warnings == ()
    assert estimate(V1).warnings == ()


def test_failed_runs_fires_with_arm_block_and_reason():
    found = estimate(CALM, missing={("Load", 2, "final"): "exit status 3", ("Load", 5, "before"): "time-out"})
    assert text(found, "failed-runs") == (
        "No usable run of final in block 2 (exit status 3) and before in block 5 (time-out): the estimate "
        "uses complete blocks only, and no claim that rests on it is supported."
    )
    assert text(estimate(CALM), "failed-runs") is None


def test_few_blocks_fires_below_six_and_below_the_plan():
    four = text(estimate(CALM[:4]), "few-blocks")
    assert four == "Used: 4 of 4 planned blocks; a percentile interval covers about 80% at that number."
    seven = estimate((*CALM, 0.98, 0.97), missing={("Load", 3, "final"): "killed"})
    assert text(seven, "few-blocks").startswith("Used: 7 of 8 planned blocks; missing: block 3;")
    assert text(estimate(CALM), "few-blocks") is None
    assert text(estimate((*CALM, 0.98, 0.97)), "few-blocks") is None


def test_replaced_blocks_fires_and_is_silent():
    void = Estimate("B", "Load", "ns/op", "final/before", missing=(Missing(2, "final", "host down", 7),))
    assert diagnostics.replaced_blocks(void).text == "Void and replaced: block 2 (host down) by block 7."
    assert diagnostics.failed_runs(void) is None
    assert diagnostics.replaced_blocks(replace(void, missing=(Missing(2, "final", "exit 1"),))) is None


def test_one_block_decides_when_the_interval_needs_it():
    """t excludes 1 with all six blocks and not without some; no block holds too much of the squares."""
    ratios = (0.96, 0.995, 0.95, 0.99, 0.955, 0.996)
    found = estimate(ratios)
    assert found.t[1] < 1
    words = text(found, "one-block-decides")
    assert words.startswith("The t interval excludes 1, but not without block 1 (")
    for i, block in enumerate(found.blocks):
        rest = intervals.t_interval(np.log(np.delete(ratios, i)), 0.95)
        assert (f"without block {block} (" in words) == (rest[1] > 1)
    assert "squared deviations" not in words


def test_one_block_decides_asks_the_primary_interval():
    words = text(estimate(V2, primary="percentile"), "one-block-decides")
    assert words.startswith("The percentile interval excludes 1, but not without block 3 (1.0129 [0.9999, 1.0240]).")
    assert "without block 2 (" not in words
    assert "interval excludes" not in text(estimate(V2, primary="t"), "one-block-decides")


def test_sampling_decides_when_sampled_and_enumerated_disagree_about_1():
    """V2 without block 3: at five blocks the exact lower end is 0.99993, many seeds give 1.0009."""
    words = text(estimate((1.02, 1.01, 1.03, 0.99, 1.015)), "sampling-decides")
    assert words.startswith("Whether the percentile interval excludes 1 depends on the seed: sampled 1.013 [1.00")
    assert text(estimate(V2), "sampling-decides") is None
    assert text(estimate((*CALM, *CALM)), "sampling-decides") is None


def test_one_block_decides_when_it_holds_most_of_the_squares():
    assert text(estimate(V2), "one-block-decides") == (
        "Block 3 holds 0.82 of the squared deviations from the mean log ratio; normal noise gives one of 6 "
        "blocks more than 0.71 in 5% of campaigns."
    )
    assert text(estimate((1.0, 1.0, 1.05, 1.05, 1.0, 1.10)), "one-block-decides") is None


def test_one_block_decides_is_silent_when_every_block_can_be_spared():
    found = estimate(CALM)
    assert found.t[1] < 1
    assert text(found, "one-block-decides") is None


def test_one_block_decides_asks_nothing_of_two_blocks():
    assert text(estimate((0.9, 0.9001)), "one-block-decides") is None


def test_intervals_disagree_fires_on_v2_and_is_silent_on_v1():
    words = text(estimate(V2), "intervals-disagree")
    assert words.startswith("The percentile interval excludes 1, 1.056 [1.00")
    assert words.endswith("the t interval does not, 1.056 [0.948, 1.176].")
    assert text(estimate(V1), "intervals-disagree") is None
    assert text(estimate(CALM), "intervals-disagree") is None


def test_intervals_disagree_fires_in_the_other_direction_too():
    found = Estimate("B", "L", "ns/op", "a/b", 0.98, (0.96, 0.999), (0.955, 1.001), blocks=(1, 2))
    assert diagnostics.intervals_disagree(found).text.startswith("The t interval excludes 1, 0.980 [0.960, 0.999]")


def test_drift_fires_on_a_trend_and_is_silent_without():
    words = text(estimate((1.00, 1.011, 1.019, 1.032, 1.039, 1.051)), "drift")
    assert words.startswith("The ratio changes by +0.99% from block to block (t = ")
    assert text(estimate((1.00, 1.051, 1.011, 1.039, 1.019, 1.032)), "drift") is None


def test_drift_fires_on_a_perfect_line():
    assert "(t = inf, beyond 2.78)" in text(estimate([1.01**i for i in range(6)]), "drift")


def test_trend_fires_as_often_as_its_level_says():
    """3,000 series without drift: 5% within 4 standard errors, .016."""
    x = np.arange(6.0)
    rows = np.random.default_rng(3).normal(0, 0.03, (3_000, 6))
    critical = stats.t.ppf(0.975, 4)
    fired = np.mean([abs(diagnostics.slope_and_t(x, row)[1]) > critical for row in rows])
    assert fired == pytest.approx(0.05, abs=0.016)


def test_slope_and_t_are_those_of_scipy():
    x = np.array([1.0, 2.0, 4.0, 5.0, 7.0, 8.0])
    slope, t = diagnostics.slope_and_t(x, np.log(V1))
    reference = stats.linregress(x, np.log(V1))
    assert slope == pytest.approx(reference.slope, rel=1e-12)
    assert t == pytest.approx(reference.slope / reference.stderr, rel=1e-10)
    assert diagnostics.slope_and_t(np.ones(6), np.log(V1)) == (0.0, 0.0)
    assert diagnostics.slope_and_t(x, np.ones(6)) == (0.0, 0.0)


def test_drift_of_levels_is_harmless_under_a_balanced_order():
    assert text(estimate(CALM, drift=0.02), "drift") is None


def test_drift_of_levels_fires_when_a_lost_block_unbalances_the_order():
    """Without block 1 the numerator ran later on average: 2% a run times 0.2 runs; the half width is 1%."""
    words = text(estimate(CALM, drift=0.02, missing={("Load", 1, "final"): "killed"}), "drift")
    assert words.startswith("The arms' mean places in the campaign are 0.2 runs apart; final drifts by +")
    assert "before drifts by +2% a run, +0.4% in the ratio, more than a tenth of the half width" in words
    assert text(estimate(CALM, drift=0.001, missing={("Load", 1, "final"): "killed"}), "drift") is None


def test_repeats_disagree_fires_and_is_silent():
    half = intervals.half_width(np.log(CALM), 0.95)  # of three repeats at -s, 0, +s the sd is s
    assert text(estimate(CALM, spread=1.01 * half), "repeats-disagree").startswith("Repeats of one run scatter more")
    assert text(estimate(CALM, spread=0.99 * half), "repeats-disagree") is None
    assert diagnostics.repeats_disagree((), half) is None


def test_causes_of_nulls_fire_and_are_silent():
    assert text(estimate([0.8] * 6), "no-spread").startswith("All 6 blocks give the same ratio")
    assert text(estimate([0.8]), "one-block") == "A single block has no spread: no interval and no p-value."
    assert text(estimate([], planned=[1]), "no-blocks").startswith("No block has a usable run of both arms")
    assert text(estimate((0.0, *CALM[1:])), "no-log-ratio").startswith("A value has no logarithm")
    assert text(estimate((1e-140, 1e140)), "no-interval").startswith("The t interval reaches beyond")
    assert text(estimate((*CALM, *V1)), "no-exact-interval") == (
        "The percentile interval is enumerated up to 8 blocks; 12 blocks are more."
    )
    assert text(estimate((1e-60, 1e60, 1.0, 1.0)), "no-exact-interval").endswith("the ratios are too far apart.")
    causes = {"no-spread", "one-block", "no-blocks", "no-log-ratio", "no-interval", "no-exact-interval"}
    assert not causes & {warning.kind for warning in estimate(CALM).warnings}


def test_add_warnings_joins_by_case_metric_and_contrast():
    found = estimate(CALM)
    extra = EstimateWarning("covariate", "prefix-length differs.")
    (joined,) = diagnostics.add_warnings([found], {("Load", "ns/op", "final/before"): [extra]})
    assert joined == replace(found, warnings=(extra,))
    assert diagnostics.add_warnings([found], {("Save", "ns/op", "final/before"): [extra]}) == (found,)


def test_every_text_is_a_sentence():
    seen = [
        estimate(V2),
        estimate([0.8]),
        estimate([0.8] * 6),
        estimate((0.0, 1.0)),
        estimate(CALM[:4], spread=1),
    ]
    texts = [warning.text for found in seen for warning in found.warnings]
    assert len(texts) > 6
    assert all(words[0].isupper() and words.endswith(".") and "nan" not in words for words in texts)
