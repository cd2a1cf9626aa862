"""Matched estimates and those without marked blocks: the right numbers, and a difference planted in a real short campaign."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import intervals, page, sensitivity
from analysis.checks import Mark
from analysis.model import Estimate, EstimateWarning
from analysis.report import PhaseReport, open_report
from tests import campaigns

V1 = (1.021, 0.987, 1.034, 1.008, 1.017, 0.998)  # the first vector of the statistics
V4 = (1.008840007, (0.9763781717, 1.042381107))  # the same without blocks 1 and 4


def estimate(ratios: tuple[float, ...] = V1) -> Estimate:
    logs = np.log(ratios)
    return Estimate(
        "P", "Get", "ns/op", "new/old", point=intervals.geometric_mean(logs), t=intervals.t_interval(logs, 0.95),
        blocks=tuple(range(1, len(ratios) + 1)), ratios=ratios,
    )  # fmt: skip


def differing(*blocks: int) -> dict[tuple[str, int], dict[str, dict[str, str]]]:
    return {("Get", block): {"prefix": {"new": "12", "old": "11"}} for block in blocks}


def matched(ratios: tuple[float, ...], *blocks: int) -> str:
    (warned,) = sensitivity.with_covariates([estimate(ratios)], differing(*blocks), 0.95)
    (warning,) = warned.warnings
    assert warning.kind == "covariate"
    return warning.text


def test_the_fourth_vector_is_the_first_without_two_blocks() -> None:
    found = sensitivity.over(estimate(), {2, 3, 5, 6}, 0.95)
    assert found.blocks == (2, 3, 5, 6)
    assert found.point == pytest.approx(V4[0], rel=1e-9)
    assert found.t == pytest.approx(V4[1], rel=1e-9)


def test_covariate_blocks_values_and_the_matched_estimate_are_named() -> None:
    assert matched(V1, 1, 4) == (
        "Covariate prefix, declared constant, differs in block 1 (new 12, old 11), block 4 (new 12, old 11). Matched, over "
        "blocks 2, 3, 5 and 6, the ratio is 1.009 [0.976, 1.042]: not sensitive by this measure."
    )


def test_what_moves_far_is_sensitive() -> None:
    ratios = (1.30, 1.01, 1.31, 1.0, 0.99, 1.005)
    text = matched(ratios, 1, 3)
    assert "sensitive, since it moves by more than half of the interval's half width" in text
    text = matched((0.93, 0.94, 0.935, 0.96, 0.99, 0.985), 1, 2, 3)
    assert "whether the interval excludes 1 changes" in text


def test_few_blocks_have_no_interval_and_none_no_estimate() -> None:
    assert "(no interval, since fewer than 3 blocks are left)" in matched(V1, 1, 2, 3, 4)
    assert matched(V1, 1, 2, 3, 4, 5, 6).endswith("so that the ratio cannot be told from this difference.")


def test_a_covariate_that_differs_elsewhere_is_silent() -> None:
    other = {("Get", 1): {"prefix": {"new": "12", "third": "11"}}, ("Set", 2): {"prefix": {"new": "12", "old": "11"}}}
    (warned,) = sensitivity.with_covariates([estimate()], other, 0.95)
    assert warned.warnings == ()


def test_without_marked_blocks_is_a_description() -> None:
    warned = estimate()
    warned = Estimate(**{**vars(warned), "warnings": (EstimateWarning("checks", "Checks did not hold."),)})
    marks = [
        Mark("Get", 1, "new", "load", 0.5, 0.25),
        Mark("Get", 4, None, "load", 0.5, 0.25),
        Mark("Set", 2, None, "load", 1, 0.2),
    ]
    (told,) = sensitivity.without_marked([warned], marks, 0.95)
    assert told.warnings[0].text == (
        "Checks did not hold. Descriptive only, without them: 1.009 [0.976, 1.042] over blocks 2, 3, 5 and 6."
    )
    every = [Mark("Get", block, "old", "load", 1.0, 0.2) for block in range(1, 7)]
    (told,) = sensitivity.without_marked([warned], every, 0.95)
    assert told.warnings[0].text == "Checks did not hold. No block is without one."
    (same,) = sensitivity.without_marked([estimate()], marks, 0.95)
    assert same == estimate()


@given(st.lists(st.floats(0.5, 2), min_size=4, max_size=8), st.integers(0, 255))
def test_a_subset_is_the_estimate_of_its_blocks_alone(ratios: list[float], bits: int) -> None:
    whole = estimate(tuple(ratios))
    kept = {block for block in whole.blocks if bits >> block & 1}
    found = sensitivity.over(whole, kept, 0.95)
    logs = [math.log(ratio) for block, ratio in zip(whole.blocks, ratios, strict=True) if block in kept]
    assert found.blocks == tuple(sorted(kept))
    assert found.point == (pytest.approx(math.exp(sum(logs) / len(logs)), rel=1e-12) if logs else None)
    if len(logs) < 3:
        assert found.t is None


# ---- planted in a campaign


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> PhaseReport:
    faults = "fewer:one:2 fewer:one:4 fewer:one:5"
    campaign = campaigns.write(tmp_path_factory.mktemp("planted"), cache, blocks=6, faults=faults)
    campaign.does("seal")
    campaign.does("run")
    return open_report(campaign.folder, "T")


def test_a_difference_planted_in_three_runs_is_on_the_page(report: PhaseReport) -> None:
    (found,) = [e for e in report.estimates if (e.case, e.metric) == ("Load", "ns/op")]
    (warning,) = [w for w in found.warnings if w.kind == "covariate"]
    rows = report.plan.parameters_of("T", "Load")["rows"]
    assert isinstance(rows, int)
    places = ", ".join(f"block {block} (two {rows}, one {rows - 1})" for block in (2, 4, 5))
    assert warning.text.startswith(
        f"Covariate rows, declared constant, differs in {places}. Matched, over blocks 1, 3 and 6,"
    )
    logs = np.log([ratio for block, ratio in zip(found.blocks, found.ratios, strict=True) if block in (1, 3, 6)])
    point, t = intervals.geometric_mean(logs), intervals.t_interval(logs, 0.95)
    assert point is not None and t is not None
    assert f"the ratio is {point:.3f} [{t[0]:.3f}, {t[1]:.3f}]" in warning.text
    assert warning.text in " ".join(repr(page.results(report)).split("\n"))


def test_no_estimate_loses_a_block_by_it(report: PhaseReport) -> None:
    assert all(e.blocks == (1, 2, 3, 4, 5, 6) for e in report.estimates)
