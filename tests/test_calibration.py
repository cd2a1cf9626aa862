"""Simulated coverage, width and power: the tables that the pages show are found again."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis import calibration, intervals
from analysis.calibration import NOISES, Cell, calibrate, power_curve, resampled
from runner import power

SEED = 7


def cells(blocks: int, simulations: int = 20_000) -> dict[tuple[str, str], Cell]:
    found = calibrate(blocks, NOISES, level=0.95, seed=SEED, simulations=simulations)
    return {(cell.noise, cell.interval): cell for cell in found}


@pytest.mark.parametrize("blocks", [4, 6, 8])
def test_coverage_is_the_measured_table(blocks: int) -> None:
    found = cells(blocks)
    for kind in ("percentile", "t"):
        for noise, percent in zip(NOISES, intervals.COVERAGE[kind][blocks], strict=True):
            cell = found[noise, kind]
            assert 100 * cell.coverage == pytest.approx(percent, abs=0.5 + 400 * cell.error)


def test_above_eight_blocks_the_interval_is_sampled() -> None:
    found = cells(12, 4_000)
    assert 100 * found["normal", "percentile"].coverage == pytest.approx(91, abs=2.2)
    assert 100 * found["normal", "t"].coverage == pytest.approx(95, abs=1.6)


def test_widths_relate_as_known() -> None:
    """The percentile interval at six blocks is 0.69 of t's width; the range of six covers 96.9% of symmetric noise."""
    found = cells(6)
    percentile, t, whole = (found["normal", kind] for kind in ("percentile", "t", "range"))
    assert percentile.width / t.width == pytest.approx(0.69, abs=0.01)
    assert whole.coverage == pytest.approx(1 - 2 / 2**6, abs=4 * whole.error)
    assert percentile.size == pytest.approx(0.14, abs=0.01)


def test_t_of_many_series_is_that_of_each() -> None:
    logs = np.random.default_rng(1).normal(0, 0.05, (20, 6))
    for row, (low, high) in zip(logs, np.exp(calibration.t_ends(logs, 0.95)), strict=True):
        assert intervals.t_interval(row, 0.95) == pytest.approx((low, high), rel=1e-12)


def test_noise_from_measured_blocks_keeps_its_spread_and_has_no_centre() -> None:
    series = [[0.01, 0.05, -0.02, 0.03], [1.0, 1.2, 0.9]]
    noise = resampled(series)(np.random.default_rng(3), 200_000, 5)
    expected = np.mean([np.var(one, ddof=1) for one in series])
    assert noise.mean() == pytest.approx(0, abs=0.001)
    assert noise.var() == pytest.approx(expected, rel=0.02)
    with pytest.raises(ValueError, match="two blocks"):
        resampled([[0.1]])


def test_the_same_seed_gives_the_same_cells_and_a_noise_its_own() -> None:
    assert cells(6, 500) == cells(6, 500)
    alone = calibrate(6, {"normal": NOISES["normal"]}, level=0.95, seed=SEED, simulations=500)
    assert alone == tuple(cell for key, cell in cells(6, 500).items() if key[0] == "normal")


def test_power_of_t_is_the_noncentral_one_and_the_percentile_interval_has_the_wrong_size() -> None:
    effects = (0.0, 0.7, 1.4345)
    found = power_curve(6, effects, level=0.95, seed=SEED)
    for effect, share in zip(effects, found["t"], strict=True):
        assert share == pytest.approx(power.power(effect, 6), abs=0.012)
    assert found["percentile"][0] == pytest.approx(0.14, abs=0.01)
    assert all(p > t for p, t in zip(found["percentile"], found["t"], strict=True))
    assert found["range"][0] == pytest.approx(2 / 2**6, abs=0.005)


def test_a_cells_error_is_the_binomial_one() -> None:
    assert Cell("x", "t", 6, 0.95, 1.0, 400).error == pytest.approx(math.sqrt(0.95 * 0.05 / 400))
