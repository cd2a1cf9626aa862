"""Every point and t interval of every phase of the bundled campaign, recomputed without the analysis."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from scipy import stats

from tests import independent
from tests.bundled import CAMPAIGN, ROOT

PHASES: dict[str, Any] = tomllib.loads((CAMPAIGN / "plan.toml").read_text())["phases"]


def analysis_estimates(phase: str) -> list[dict[str, Any]]:
    argv = [sys.executable, "-m", "analysis", "estimates", str(CAMPAIGN), "--phase", phase, "--format", "json"]
    found: list[dict[str, Any]] = json.loads(
        subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    )["estimates"]
    return found


def planned_pairs(phase: dict[str, Any]) -> set[tuple[str, str]]:
    """(case, metric) of everything that the plan says is measured."""
    cases = [case["name"] for case in phase["cases"]]
    return {
        (case, metric["unit"]) for metric in phase["metrics"] for case in cases if case in metric.get("cases", cases)
    }


@pytest.mark.parametrize("phase", PHASES)
def test_every_point_and_t_interval_agrees_to_twelve_digits(phase: str) -> None:
    mine = independent.main(CAMPAIGN, phase)
    theirs = analysis_estimates(phase)
    contrasts = {f"{c['numerator']}/{c['denominator']}" for c in PHASES[phase]["contrasts"]}
    expected = {(contrast, *pair) for contrast in contrasts for pair in planned_pairs(PHASES[phase])}
    assert {(found["contrast"], found["case"], found["metric"]) for found in theirs} == expected
    assert len(theirs) == len(expected)
    with_interval = 0
    for found in theirs:
        point, interval = mine[found["contrast"], found["case"], found["metric"]]
        assert found["point"] == pytest.approx(point, rel=1e-12)
        if found["t"] is None:
            # Only where every block has the same ratio is there no interval, and the estimate says so.
            assert "no-spread" in {warning["kind"] for warning in found["warnings"]}
            assert interval[1] - interval[0] < 1e-9
        else:
            assert found["t"] == pytest.approx(interval, rel=1e-12)
            with_interval += found["metric"] == "ns/op"
    assert with_interval == len(contrasts) * len(PHASES[phase]["cases"])  # every ns/op estimate has one


@pytest.mark.parametrize("df", [1, 3, 5, 7, 11, 23])
def test_its_quantile_is_students(df: int) -> None:
    assert independent.t_quantile(0.975, df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-13)
