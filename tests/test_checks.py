"""Marks, covariates and times: what fires, what stays silent, and the right words."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import checks, covariates, sensitivity, times
from analysis.model import Estimate
from runner.plan import Phase
from runner.store import Labels, Store
from tests.bundled import CAMPAIGN

PHASE: Phase = Store(CAMPAIGN).plan().phases["B"]
LIMITS = Store(CAMPAIGN).plan().rules.checks


def labels(case: str, arm: str, block: int) -> Labels:
    return Labels("B", case, arm, block, 0, 0)


def record(holds: bool | None = True, **covariate: str) -> dict[str, Any]:
    check = {"check": "calibration_ratio", "value": 1.5, "limit": 1.25, "holds": holds}
    return {"outcome": "ok", "checks": [check], "covariates": covariate}


def test_a_check_that_holds_or_is_not_exposed_makes_no_mark() -> None:
    runs = {labels("LoadRecord", "final", 1): record(True), labels("LoadRecord", "before", 1): record(None)}
    quiet = {("B", "LoadRecord", 1): {"marked": False, "idle_load": 0.9}}
    assert checks.marks_of(runs, quiet, LIMITS) == ()


def test_marks_name_block_arm_value_and_limit() -> None:
    runs = {labels("LoadRecord", "final", 2): record(False)}
    busy = {
        ("B", "LoadRecord", 3): {"marked": True, "idle_load": 0.9, "calibration_ratio": 1.1},
        ("B", "LoadRecord", 4): {"marked": True, "idle_load": 0.01, "calibration_ratio": 1.6},
        ("B", "LoadRecord", 5): {"marked": True, "idle_load": None, "calibration_ratio": 1.1},
    }
    found = checks.marks_of(runs, busy, LIMITS)
    assert found == (
        checks.Mark("LoadRecord", 3, None, checks.BUSY, 0.9, LIMITS.idle_load),
        checks.Mark("LoadRecord", 4, None, checks.SLOW, 1.6, LIMITS.calibration_ratio),
        checks.Mark("LoadRecord", 5, None, checks.BUSY, None, LIMITS.idle_load),
        checks.Mark("LoadRecord", 2, "final", "calibration ratio", 1.5, 1.25),
    )
    assert checks.marked_blocks(found) == {("LoadRecord", block) for block in (2, 3, 4, 5)}
    assert checks.mark_words(found) == (
        "load before the block up to 0.9 (limit 0.25) in blocks 3 and 5; "
        "calibration ratio before the block up to 1.6 (limit 1.25) in block 4; "
        "calibration ratio up to 1.5 (limit 1.25) in block 2, in runs of final"
    )


def metrics(**changes: Any) -> Phase:
    """The phase with its second metric, per run, changed."""
    first, second, *rest = PHASE.metrics
    return PHASE.model_copy(update={"metrics": (first, second.model_copy(update=changes), *rest)})


def test_a_mark_concerns_the_contrasts_of_its_arm_and_what_is_not_counted() -> None:
    marks = checks.marks_of({labels("LoadRecord", "final", 2): record(False)}, {}, LIMITS)
    counted = PHASE.model_copy(
        update={"metrics": tuple(m.model_copy(update={"counted": m.unit != "ns/op"}) for m in PHASE.metrics)}
    )
    found = checks.check_warnings(counted, marks)
    assert set(found) == {("LoadRecord", "ns/op", "final/before"), ("LoadRecord", "ns/op", "final/legacy")}
    (warning,) = found["LoadRecord", "ns/op", "final/before"]
    assert warning.kind == "checks"
    assert "block 2, in runs of final" in warning.text
    assert checks.check_warnings(counted, ()) == {}


def test_a_mark_concerns_a_metric_that_is_printed_once_and_timed() -> None:
    marks = checks.marks_of({labels("LoadRecord", "final", 2): record(False)}, {}, LIMITS)
    timed = metrics(unit="p99-ns", counted=False)
    assert ("LoadRecord", "p99-ns", "final/before") in checks.check_warnings(timed, marks)
    elsewhere = metrics(unit="p99-ns", counted=False, cases=("SaveRecord",))
    assert ("LoadRecord", "p99-ns", "final/before") not in checks.check_warnings(elsewhere, marks)


def test_a_covariate_concerns_the_estimates_of_its_case() -> None:
    runs = {
        labels("LoadRecord", "final", 2): record(psycopg2="2.9.13"),
        labels("LoadRecord", "before", 2): record(psycopg2="2.9.12"),
    }
    phase = metrics(unit="p99-ns", cases=("SaveRecord",))
    differences = covariates.unplanned_differences(phase, runs)
    for case, contrast, expected in (("LoadRecord", "final/before", 1), ("SaveRecord", "final/before", 0)):
        estimate = Estimate("B", case, "ns/op", contrast)
        (warned,) = sensitivity.with_covariates([estimate], differences, 0.95)
        assert [warning.kind for warning in warned.warnings] == ["covariate"] * expected


def test_a_constant_covariate_that_differs_is_named_with_block_and_values() -> None:
    runs = {
        labels("LoadRecord", "final", 2): record(psycopg2="2.9.13"),
        labels("LoadRecord", "before", 2): record(psycopg2="2.9.12"),
        labels("LoadRecord", "legacy", 2): record(psycopg2="2.9.13"),
        labels("LoadRecord", "final", 3): record(psycopg2="2.9.13"),
        labels("LoadRecord", "before", 3): record(psycopg2="2.9.13"),
    }
    differences = covariates.unplanned_differences(PHASE, runs)
    found = {
        contrast: covariates.between("LoadRecord", *contrast.split("/"), differences)
        for contrast in ("final/before", "before/legacy", "final/legacy")
    }
    assert found == {
        "final/before": {"psycopg2": {2: ("2.9.13", "2.9.12")}},
        "before/legacy": {"psycopg2": {2: ("2.9.12", "2.9.13")}},
        "final/legacy": {},
    }
    estimate = Estimate("B", "LoadRecord", "allocs/op", "final/before")
    assert covariates.difference_words("psycopg2", estimate, found["final/before"]["psycopg2"]) == (
        "Covariate psycopg2, declared constant, differs in block 2 (final 2.9.13, before 2.9.12)."
    )


def test_a_varying_covariate_and_a_failed_run_are_silent() -> None:
    runs = {
        labels("LoadRecord", "final", 2): record(sqlalchemy="2.1"),
        labels("LoadRecord", "before", 2): record(sqlalchemy="2.0"),
        labels("LoadRecord", "legacy", 2): record(psycopg2="1") | {"outcome": "failed"},
    }
    assert covariates.unplanned_differences(PHASE, runs) == {}


def test_times_add_up_to_the_wall_time() -> None:
    runs = [{"durations_ns": {"process": 4e9, "reset": 1e9, "calibration": 5e8, "identity": 1e8, "record": 2e8}}] * 3
    blocks = [{"wall_ns": 18e9, "waited_ns": 5e8}]
    found = times.where_time_goes(runs, blocks)
    assert sum(found.parts().values()) == pytest.approx(18)
    assert found.processes == pytest.approx(12)
    assert found.remainder == pytest.approx(1.0)
    assert found.share == pytest.approx(1 / 12)
    assert times.where_time_goes([], []).share == 0
    assert "round trips" not in found.parts()
    delayed = times.where_time_goes(runs, [{"wall_ns": 18e9, "waited_ns": 5e8, "measuring_ns": 4e8}])
    assert sum(delayed.parts().values()) == pytest.approx(18)
    assert (delayed.parts()["round trips"], delayed.remainder) == (pytest.approx(0.4), pytest.approx(0.6))


def test_what_runs_recorded_is_told_by_arm() -> None:
    runs = {
        labels("LoadRecord", "final", 1): record(psycopg2="2.9.13", sqlalchemy="2.1"),
        labels("LoadRecord", "before", 1): record(psycopg2="2.9.13", sqlalchemy="2.0"),
        labels("LoadRecord", "final", 2): record(psycopg2="2.9.12", sqlalchemy="2.1"),
        labels("LoadRecord", "before", 2): record(psycopg2="2.9.11") | {"outcome": "failed"},
    }
    found = covariates.recorded(PHASE, runs)
    assert list(found) == [covariate.name for covariate in PHASE.covariates]
    assert found["psycopg2"] == {"final": ("2.9.13", "2.9.12"), "before": ("2.9.13",)}
    assert found["sqlalchemy"] == {"final": ("2.1",), "before": ("2.0",)}
    assert found["libpq"] == {}
