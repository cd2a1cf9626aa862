"""Every point and t interval of the bundled campaign, recomputed without the analysis."""

import json
import subprocess
import sys

import pytest
from scipy import stats

from tests import independent
from tests.bundled import CAMPAIGN, ROOT


def analysis_estimates() -> list[dict]:
    argv = [sys.executable, "-m", "analysis", "estimates", str(CAMPAIGN), "--phase", "B", "--format", "json"]
    return json.loads(subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout)["estimates"]


def test_every_point_and_t_interval_agrees_to_twelve_digits() -> None:
    mine = independent.main(CAMPAIGN, "B")
    theirs = analysis_estimates()
    assert len(theirs) == 72  # 8 cases x 3 metrics x 3 contrasts
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
            with_interval += 1
    assert with_interval >= 24  # every ns/op estimate has one


@pytest.mark.parametrize("df", [1, 3, 5, 11, 23])
def test_its_quantile_is_students(df: int) -> None:
    assert independent.t_quantile(0.975, df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-13)
