"""Intervals against closed forms, outside references (scipy, numpy, brute force) and their own coverage."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis import enumeration, intervals

V1 = (1.021, 0.987, 1.034, 1.008, 1.017, 0.998)
V2 = (1.02, 1.01, 1.30, 1.03, 0.99, 1.015)
V3 = (1.05, 0.98, 1.02, 1.10, 1.03, 1.07, 0.995, 1.015)
V4 = (0.987, 1.034, 1.017, 0.998)  # V1 without blocks 1 and 4
VECTORS = (V1, V2, V3, V4)
RESAMPLES = 20_000

# Ratios near 1, as in benchmarks, and wild ones.
RATIOS = st.floats(0.5, 2.0, allow_nan=False) | st.floats(1e-6, 1e6, allow_nan=False)


def series(smallest: int = 2, largest: int = 8) -> st.SearchStrategy[list[float]]:
    return st.lists(RATIOS, min_size=smallest, max_size=largest)


def ten(value: float | None) -> str:
    """Ten significant digits, trailing zeros dropped."""
    assert value is not None
    return f"{value:.10g}"


def ten_all(values: tuple[float | None, ...] | None) -> list[str]:
    assert values is not None
    return [ten(value) for value in values]


@pytest.mark.parametrize(
    ("ratios", "point", "t", "p"),
    [
        (V1, "1.010716239", ["0.9931789089", "1.028563238"], "0.1782618775"),
        (V2, "1.055926996", ["0.9480235966", "1.176111887"], "0.2510213682"),
        (V3, "1.031845785", ["0.9995917881", "1.065140528"], "0.05228776382"),
        (V4, "1.008840007", ["0.9763781717", "1.042381107"], None),
    ],
)
def test_vectors_point_and_t(ratios, point, t, p):
    logs = np.log(ratios)
    assert ten(intervals.geometric_mean(logs)) == point
    assert ten_all(intervals.t_interval(logs, 0.95)) == t
    assert p is None or ten(intervals.t_pvalue(logs)) == p


@pytest.mark.parametrize(
    ("ratios", "exact"),
    [
        (V1, ["0.9982056318", "1.022915616"]),
        (V2, ["1.004876019", "1.149636081"]),
        (V3, ["1.007701255", "1.058249938"]),
    ],
)
def test_vectors_exact(ratios, exact):
    assert ten_all(intervals.percentile_exact(ratios, 0.95)) == exact


def test_vector_exact_is_the_mean_of_the_published_counts():
    logs = np.log(V1)
    published = [math.exp(np.dot(c, logs) / 6) for c in ((2, 4, 0, 0, 0, 0), (1, 0, 3, 0, 1, 1))]
    assert intervals.percentile_exact(V1, 0.95) == pytest.approx(published, rel=1e-9)


@pytest.mark.parametrize(
    ("ratios", "seed", "sampled"),
    [
        (V1, 20240607, ["0.9981028106", "1.022915616"]),
        (V1, 391706, ["0.9981786586", "1.022915616"]),
        (V2, 391706, ["1.004871955", "1.149636081"]),
        (V3, 391706, ["1.007347928", "1.058121219"]),
    ],
)
def test_vectors_sampled(ratios, seed, sampled):
    assert ten_all(intervals.percentile_sampled(np.log(ratios), seed, RESAMPLES, 0.95)) == sampled


def test_vectors_leave_one_out():
    expected = ["1.008671949", "1.015527437", "1.006122785", "1.011260364", "1.009464153", "1.013278864"]
    assert ten_all(intervals.leave_one_out(np.log(V1))) == expected
    assert ten(intervals.leave_one_out(np.log(V2))[2]) == "1.012912665"


def test_first_row_of_the_index_matrix():
    indices = intervals.resample_indices(20240607, RESAMPLES, 6)
    assert indices.dtype == np.int64
    assert indices[0].tolist() == [3, 0, 4, 2, 5, 2]


def test_index_digest_is_of_the_bytes_and_depends_on_everything():
    digests = {
        intervals.index_digest(*key)
        for key in ((391706, 20_000, 6), (391707, 20_000, 6), (391706, 19_999, 6), (391706, 20_000, 7))
    }
    assert len(digests) == 4
    # The bytes of default_rng(391706).integers(0, 6, (20000, 6)) of numpy 2.4.6, as little-endian int64.
    assert intervals.index_digest(391706, 20_000, 6).startswith("3e7ff42f6f5a6907")


@pytest.mark.parametrize("blocks", [2, 3, 4, 5])
@pytest.mark.parametrize("level", [0.95, 0.9, 0.5])
def test_exact_equals_brute_force(blocks, level):
    rng = np.random.default_rng([blocks, int(level * 100)])
    ratios = np.exp(rng.normal(0, 0.03, (20, blocks)))
    every = np.array(list(itertools.product(range(blocks), repeat=blocks)))
    for row in ratios:
        means = np.log(row)[every].mean(axis=1)
        # Rounded, so that equal means computed in another order do not count as different.
        tails = ((1 - level) / 2, (1 + level) / 2)
        expected = np.exp([_inverted(np.sort(means.round(13)), p) for p in tails])
        assert intervals.percentile_exact(row, level) == pytest.approx(expected.tolist(), rel=6e-10)


def _inverted(ordered: np.ndarray, share: float) -> float:
    """The smallest value with at least ceil(p n) values up to it, p as a decimal."""
    target = math.ceil(Fraction(str(round(share, 10))) * len(ordered))
    return float(ordered[max(target, 1) - 1])


def test_exact_equals_numpys_inverted_cdf_at_six_blocks():
    every = np.array(list(itertools.product(range(6), repeat=6)))
    means = np.log(V1)[every].mean(axis=1)
    expected = np.exp(np.quantile(means, [0.025, 0.975], method="inverted_cdf"))
    assert intervals.percentile_exact(V1, 0.95) == pytest.approx(expected.tolist(), rel=6e-10)


@pytest.mark.parametrize("blocks", range(2, 9))
@pytest.mark.parametrize("spread", [2, 1000])  # 2: nearly every sum is tied with others
def test_only_candidates_matter(blocks, spread):
    """The pruned selection against a plain sort of all count vectors, ties included."""
    rng = np.random.default_rng([blocks, spread])
    counts, weights = enumeration.count_vectors(blocks)
    assert int(weights.sum()) == blocks**blocks
    units = np.sort(rng.integers(-spread, spread, (40, blocks)), axis=1)
    for share in (Fraction(1, 40), Fraction(39, 40), Fraction(1, 4), Fraction(1, 2)):
        target = math.ceil(share * blocks**blocks)
        found = enumeration.weighted_quantile(units, enumeration.candidates(blocks, share))
        for row, value in zip(units, found, strict=True):
            sums = counts @ row
            order = np.argsort(sums, kind="stable")
            assert value == sums[order][np.searchsorted(np.cumsum(weights[order]), target)]


def test_targets_at_six_blocks():
    """1,167 and 45,490 of 46,656, less what is counted without being looked at."""
    counts, weights, _, before = enumeration._dominance(6)
    assert len(counts) == 462
    for share, target in ((Fraction(1, 40), 1_167), (Fraction(39, 40), 45_490)):
        counted = int(weights[before < target].sum())
        assert enumeration.candidates(6, share).target + counted == target


@settings(max_examples=200)
@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=8))
def test_log_units_are_those_of_decimal(ratios):
    from decimal import Context, Decimal

    context = Context(prec=60)
    expected = [int((Decimal(r).ln(context) * 10**12).to_integral_value()) for r in ratios]
    found = enumeration.log_units(np.array([ratios]), np.log([ratios]))
    assert found.tolist() == [expected]


def test_a_log_next_to_a_rounding_boundary_is_left_to_decimal():
    """A wrong last place of numpy's log must not change a digit."""
    rng = np.random.default_rng(5)
    ratios = np.exp(rng.normal(0, 0.5, (2_000, 6)))
    logs = np.log(ratios)
    off = np.nextafter(np.nextafter(logs, np.inf), np.inf)
    assert (enumeration.log_units(ratios, logs) == enumeration.log_units(ratios, off)).all()


def test_exact_ends_have_ten_significant_digits():
    rng = np.random.default_rng(6)
    scale = np.exp(rng.uniform(-60, 60, (300, 1)))
    ends = intervals.percentile_exact_many(scale * np.exp(rng.normal(0, 0.1, (300, 6))), 0.95)
    assert all(float(f"{end:.9e}") == end for end in ends.ravel().tolist())


@pytest.mark.parametrize("blocks", [2, 5, 6, 8, 12])
@pytest.mark.parametrize("resamples", [1, 2, 39, 1_000, 20_000])
@pytest.mark.parametrize("level", [0.95, 0.5, 0.999])
def test_sampled_equals_numpy_percentile(blocks, resamples, level):
    logs = np.random.default_rng(blocks).normal(0, 0.03, blocks)
    indices = np.random.default_rng(7).integers(0, blocks, (resamples, blocks), dtype=np.int64)
    means = logs[indices].mean(axis=1)
    expected = np.exp(np.percentile(means, [50 * (1 - level), 50 * (1 + level)]))
    assert intervals.percentile_sampled(logs, 7, resamples, level) == pytest.approx(expected.tolist(), rel=1e-13)


def test_sampled_does_not_depend_on_how_many_series_there_are():
    """Chunks must not show: each series alone, and all of them."""
    logs = np.random.default_rng(8).normal(0, 0.03, (150, 6))
    many = intervals.percentile_sampled_many(logs, 391706, RESAMPLES, 0.95)
    for i in (0, 49, 149):
        assert intervals.percentile_sampled(logs[i], 391706, RESAMPLES, 0.95) == pytest.approx(many[i], rel=1e-14)


def test_sampled_converges_on_exact():
    """Within 4% of the width at 20,000 resamples: twice the worst of 400 seeds of the method page."""
    for ratios in (V1, V2, V3):
        low, high = intervals.percentile_exact(ratios, 0.95)
        for seed in range(10):
            sampled = intervals.percentile_sampled(np.log(ratios), seed, RESAMPLES, 0.95)
            assert np.abs(np.subtract(sampled, (low, high))).max() < 0.04 * (high - low)


@settings(max_examples=100)
@given(series(2, 12))
def test_t_equals_scipy(ratios):
    logs = np.log(ratios)
    found = intervals.t_interval(logs, 0.95)
    if found is None:
        return
    reference = stats.ttest_1samp(logs, 0)
    ends = reference.confidence_interval(0.95)
    scale = np.abs(logs).max()
    assert np.log(found) == pytest.approx([ends.low, ends.high], rel=1e-10, abs=1e-12 * max(1, scale))


@pytest.mark.parametrize("ratios", VECTORS)
def test_t_equals_scipy_to_1e12(ratios):
    reference = stats.ttest_1samp(np.log(ratios), 0)
    ends = reference.confidence_interval(0.95)
    assert np.log(intervals.t_interval(np.log(ratios), 0.95)) == pytest.approx([ends.low, ends.high], abs=1e-12)
    assert intervals.t_pvalue(np.log(ratios)) == pytest.approx(reference.pvalue, abs=1e-12)


@settings(max_examples=100)
@given(series(2, 8), st.floats(1e-3, 1e3))
def test_scaling_both_arms_changes_nothing(ratios, factor):
    denominator = np.linspace(50.0, 60.0, len(ratios))
    numerator = np.array(ratios) * denominator
    plain = intervals.log_ratios(numerator, denominator)
    scaled = intervals.log_ratios(factor * numerator, factor * denominator)
    assert plain == pytest.approx(scaled, abs=1e-15 + 4 * np.finfo(float).eps)


@settings(max_examples=100)
@given(series(2, 8))
def test_swapping_the_contrast_inverts_point_and_ends(ratios):
    logs = np.log(ratios)
    pairs = [
        (intervals.t_interval(logs, 0.95), intervals.t_interval(-logs, 0.95), 1e-12),
        (
            intervals.percentile_sampled(logs, 1, 999, 0.95),
            intervals.percentile_sampled(-logs, 1, 999, 0.95),
            1e-9,
        ),
        (
            intervals.percentile_exact(ratios, 0.95),
            intervals.percentile_exact(1 / np.array(ratios), 0.95),
            1e-8,
        ),
    ]
    assert intervals.geometric_mean(-logs) == pytest.approx(1 / intervals.geometric_mean(logs), rel=1e-12)
    for straight, swapped, precision in pairs:
        assert (straight is None) == (swapped is None)
        if straight is not None:
            assert (1 / swapped[1], 1 / swapped[0]) == pytest.approx(straight, rel=precision)


@settings(max_examples=100)
@given(series(2, 8), st.randoms(use_true_random=False))
def test_order_of_blocks_is_irrelevant_to_all_but_the_sampled(ratios, random):
    shuffled = list(ratios)
    random.shuffle(shuffled)
    logs, other = np.log(ratios), np.log(shuffled)
    assert intervals.geometric_mean(logs) == intervals.geometric_mean(other)
    assert intervals.t_interval(logs, 0.95) == intervals.t_interval(other, 0.95)
    assert intervals.t_pvalue(logs) == intervals.t_pvalue(other)
    assert intervals.percentile_exact(ratios, 0.95) == intervals.percentile_exact(shuffled, 0.95)


def test_order_of_blocks_matters_to_the_sampled():
    found = {intervals.percentile_sampled(np.log(V1)[::step], 391706, RESAMPLES, 0.95) for step in (1, -1)}
    assert len(found) == 2


@settings(max_examples=100)
@given(series(2, 8))
def test_percentile_intervals_lie_within_the_data(ratios):
    low, high = min(ratios) * (1 - 1e-9), max(ratios) * (1 + 1e-9)
    for found in (
        intervals.percentile_exact(ratios, 0.95),
        intervals.percentile_sampled(np.log(ratios), 3, 500, 0.95),
    ):
        assert found is None or low <= found[0] <= found[1] <= high


def test_t_covers_its_level_at_six_blocks():
    """4,000 campaigns with normal noise: 95% within 4 standard errors of the simulation, 4 x .0034."""
    logs = np.random.default_rng(2026).normal(0, 0.03, (4_000, 6))
    covered = np.mean([low <= 1 <= high for low, high in (intervals.t_interval(row, 0.95) for row in logs)])
    assert covered == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4_000))


def test_percentile_covers_what_its_table_says_at_six_blocks():
    """10,000 campaigns: 86% to the table's rounding and 4 standard errors of the simulation."""
    ends = intervals.percentile_exact_many(np.exp(np.random.default_rng(2027).normal(0, 0.03, (10_000, 6))), 0.95)
    covered = float(np.mean((ends[:, 0] <= 1) & (ends[:, 1] >= 1)))
    assert 100 * covered == pytest.approx(intervals.covers("percentile", 6).percent, abs=0.5 + 1.4)


def test_holm_of_the_method_page():
    pvalues = [0.0019, 0.0004, 0.0031, *np.linspace(0.2, 0.9, 21)]
    assert [round(p, 10) for p in intervals.holm(pvalues)[:3]] == [0.0437, 0.0096, 0.0682]


def test_holm_skips_by_position_and_never_decreases():
    assert intervals.holm([0.01, None, 0.04, math.nan]) == (0.02, None, 0.04, None)
    assert intervals.holm([0.03, 0.01, 0.03]) == (0.06, 0.03, 0.06)
    assert intervals.holm([0.9, 0.8]) == (1.0, 1.0)
    assert intervals.holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_by_its_definition(pvalues):
    """Adjusted p <= alpha exactly where the step-down procedure rejects."""
    adjusted = intervals.holm(pvalues)
    for alpha in (0.01, 0.05, 0.2):
        ordered = sorted(range(len(pvalues)), key=lambda i: pvalues[i])
        rejected = set()
        for rank, i in enumerate(ordered):
            if (len(pvalues) - rank) * pvalues[i] > alpha:
                break
            rejected.add(i)
        assert {i for i, p in enumerate(adjusted) if p <= alpha} == rejected


def test_share_of_squares_of_v2():
    shares = intervals.share_of_squares(np.log(V2))
    assert shares.argmax() == 2
    assert round(float(shares[2]), 2) == 0.82
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(("blocks", "share"), [(4, 0.73), (6, 0.71), (8, 0.65), (12, 0.53)])
def test_share_threshold_is_that_of_the_method_page(blocks, share):
    assert round(intervals.share_threshold(blocks), 2) == share


@pytest.mark.parametrize("blocks", [3, 4, 6, 12])
def test_share_threshold_is_exceeded_in_five_percent(blocks):
    """20,000 campaigns, within 4 standard errors (.0062): the union bound is an equality here."""
    logs = np.random.default_rng(blocks).normal(0, 1, (20_000, blocks))
    squares = (logs - logs.mean(axis=1, keepdims=True)) ** 2
    shares = squares.max(axis=1) / squares.sum(axis=1)
    assert np.mean(shares > intervals.share_threshold(blocks)) == pytest.approx(0.05, abs=0.0062)


def test_share_threshold_needs_three_blocks():
    assert intervals.share_threshold(2) is None


def test_coverage_words():
    assert intervals.coverage_words("percentile", 6) == "nominal 95%, covers about 86% at six blocks"
    assert intervals.coverage_words("t", 12) == "nominal 95%, covers about 95% at twelve blocks"
    assert intervals.coverage_words("percentile", 5).endswith("at five blocks (interpolated)")
    assert intervals.coverage_words("percentile", 3) == "nominal 95%, coverage not measured at three blocks"
    assert intervals.covers("percentile", 25) is None
    assert intervals.covers("percentile", 24) == intervals.Coverage(93, measured=True)


@pytest.mark.parametrize("blocks", [4, 5, 6, 7, 8, 10, 12, 18, 24])
def test_coverage_agrees_with_its_normal_approximation(blocks):
    """P(|t| < z sqrt((B-1)/B)): the percentile interval is about m -+ z s sqrt((B-1)/B) / sqrt(B)."""
    bound = stats.norm.ppf(0.975) * math.sqrt((blocks - 1) / blocks)
    expected = 100 * (1 - 2 * stats.t.sf(bound, blocks - 1))
    assert intervals.covers("percentile", blocks).percent == pytest.approx(expected, abs=1.5)


@pytest.mark.parametrize("logs", [[], [0.1], [0.1, 0.1, 0.1], [0.1, 0.1 + 1e-14], [0.1, math.nan], [0.1, math.inf]])
def test_degenerate_series_have_no_interval(logs):
    ratios = np.exp(logs)
    assert not intervals.has_spread(logs)
    assert intervals.t_interval(logs, 0.95) is None
    assert intervals.t_pvalue(logs) is None
    assert intervals.half_width(logs, 0.95) is None
    assert intervals.share_of_squares(logs) is None
    assert intervals.percentile_sampled(logs, 1, 100, 0.95) is None
    assert intervals.percentile_exact(ratios, 0.95) is None


def test_degenerate_points():
    assert intervals.geometric_mean([]) is None
    assert intervals.geometric_mean([math.nan, 0.1]) is None
    assert intervals.geometric_mean([0.0]) == 1.0
    assert intervals.leave_one_out([]) == ()
    assert intervals.leave_one_out([0.1]) == (None,)


def test_degenerate_rows_do_not_touch_their_neighbours():
    ratios = np.array([V1, (1.0,) * 6, (1.0, 1.0, math.nan, 1.0, 1.1, 1.2), (1.0, 0.0, 1.0, 1.0, 1.1, 1.2)])
    exact = intervals.percentile_exact_many(ratios, 0.95)
    assert tuple(exact[0]) == intervals.percentile_exact(V1, 0.95)
    assert np.isnan(exact[1:]).all()
    with np.errstate(divide="ignore"):
        sampled = intervals.percentile_sampled_many(np.log(ratios), 1, 100, 0.95)
    assert np.isfinite(sampled[0]).all()
    assert np.isnan(sampled[1:]).all()


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, -math.inf, 5e-324])
def test_values_without_a_log_ratio(value):
    assert np.isnan(intervals.log_ratios([value, 2.0], [1.0, 1.0])).tolist() == [True, False]
    assert np.isnan(intervals.log_ratios([1.0, 2.0], [value, 1.0])).tolist() == [True, False]


def test_extreme_logs_have_no_t_interval_rather_than_an_overflow():
    assert intervals.t_interval([-300.0, 300.0], 0.95) is None
    assert intervals.percentile_exact(np.exp([-300.0, 300.0]), 0.95) is None


def test_no_exact_interval_beyond_eight_blocks():
    ratios = np.exp(np.random.default_rng(9).normal(0, 0.03, 9))
    assert intervals.percentile_exact(ratios, 0.95) is None
    assert intervals.percentile_exact(ratios[:8], 0.95) is not None


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 95])
def test_a_level_that_is_no_share_is_refused(level):
    for call in (
        lambda: intervals.t_interval([0.1, 0.2], level),
        lambda: intervals.percentile_sampled([0.1, 0.2], 1, 100, level),
        lambda: intervals.percentile_exact([1.1, 1.2], level),
    ):
        with pytest.raises(ValueError, match="level must lie between 0 and 1"):
            call()


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="same blocks"):
        intervals.log_ratios([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match=r"one series of shape \(B,\)"):
        intervals.t_interval([[0.1, 0.2]], 0.95)
    with pytest.raises(ValueError, match="series as rows"):
        intervals.percentile_exact_many([1.0, 2.0], 0.95)
    with pytest.raises(ValueError, match="at least 1"):
        intervals.percentile_sampled([0.1, 0.2], 1, 0, 0.95)
