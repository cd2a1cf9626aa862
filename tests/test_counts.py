"""Counts beside the metrics: one value, or a range that is said; never an average."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from matplotlib.text import Text

from analysis import counts, scales
from analysis.counts import Count
from runner.errors import DataError
from runner.plan import Covariate, Phase
from runner.store import Labels
from tests import small

COVARIATE = Covariate(name="statements-per-op", expected="varying", what="statements", unit="statements")
HIDDEN = Covariate(name="rows", expected="constant", what="rows")
PHASE: Phase = small.phase("A").model_copy(update={"covariates": (HIDDEN, COVARIATE)})


def labels(case: str, arm: str, block: int) -> Labels:
    return Labels("A", case, arm, block, 0, 0)


def record(value: str | None, outcome: str = "ok") -> dict[str, Any]:
    covariates = {"rows": "10"} | ({} if value is None else {"statements-per-op": value})
    return {"outcome": outcome, "covariates": covariates}


def test_the_value_of_all_good_runs_or_the_range() -> None:
    runs = {
        labels("Get", "old", 1): record("2"),
        labels("Get", "old", 2): record("2.0"),
        labels("Get", "old", 3): record("9", outcome="failed"),
        labels("Get", "new", 1): record("1.25"),
        labels("Get", "new", 2): record("3"),
    }
    assert counts.counts_of(PHASE, runs) == (
        Count("statements-per-op", "statements", "Get", "old", (2.0,), 2),
        Count("statements-per-op", "statements", "Get", "new", (1.25, 3.0), 2),
    )
    assert [count.text for count in counts.counts_of(PHASE, runs)] == ["2", "1.25 to 3"]


def test_an_arm_that_recorded_nothing_has_a_dash() -> None:
    runs = {labels("Get", "old", 1): record("2"), labels("Get", "new", 1): record(None)}
    assert [count.text for count in counts.counts_of(PHASE, runs)] == ["2", "\u2014"]


@pytest.mark.parametrize("value", ["two", "nan", "inf", ""])
def test_what_is_no_number_is_an_error_with_its_run(value: str) -> None:
    with pytest.raises(DataError, match="statements-per-op is not a number") as caught:
        counts.counts_of(PHASE, {labels("Get", "old", 2): record(value)})
    assert "phase A, case Get, block 2, arm old" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (2, "2"), (1234567, "1\u202f234\u202f567"), (12.5, "12.5"), (1.0025, "1.0025"), (1 / 3, "0.333")],
)
def test_numbers_are_written_as_recorded(value: float, text: str) -> None:
    assert counts.number_text(value) == text


def test_a_wide_span_gets_a_log_axis_and_a_zero_does_not() -> None:
    wide = [Count("a", "u", case, "old", (value,), 1) for case, value in (("x", 1.0), ("y", 1000.0))]
    zero = [Count("b", "u", case, "old", (value,), 1) for case, value in (("x", 0.0), ("y", 1000.0))]
    axes = counts.drawn(wide + zero, ["old", "new"]).wide.axes
    assert [a.get_xscale() for a in axes] == ["log", "linear"]


@pytest.mark.parametrize("unit", ["B received/op", "statements/op"])
def test_labels_of_a_log_axis_stand_apart(unit: str) -> None:
    values = (252.9, 7682.6, 282140.1, 16165100.0)
    found = [Count("a", unit, f"case {value}", "old", (value,), 1) for value in values]
    for figure in (counts.drawn(found, ["old"]).wide, counts.drawn(found, ["old"]).narrow):
        figure.canvas.draw()
        (axes,) = figure.axes
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert boxes
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes)), unit


def test_nothing_is_drawn_outside_the_sheet_and_hostile_names_are_text() -> None:
    bad = "<script>$\\frac{1}{0}$" * 5
    found = [Count(bad, bad, bad, arm, (300_000.0, 361_200.5), 6) for arm in ("old", "new")]
    picture = counts.drawn(found, ["old", "new"])
    for figure in (picture.wide, picture.narrow):
        figure.draw_without_rendering()
        for text in figure.findobj(Text):
            if text.get_text().strip() and text.get_visible():
                box = text.get_window_extent()
                assert max(-box.x0, box.x1 - figure.bbox.x1, -box.y0, box.y1 - figure.bbox.y1) <= 1, text.get_text()
    assert "<script" not in picture._repr_html_()


@pytest.mark.parametrize(("low", "high"), [(0.0, 3.6), (0.0, 1.0), (0.0, 999.0), (-5.0, 7.0), (0.0, 0.02)])
def test_linear_ticks_are_few_and_inside(low: float, high: float) -> None:
    ticks = scales.linear_ticks(low, high, 4)
    assert 2 <= len(ticks) <= 4
    assert all(low <= tick <= high for tick in ticks)
    assert 0.0 in ticks


def test_ticks_of_times_have_their_units() -> None:
    assert [scales.tick_text(value, "ns") for value in (50.0, 2e3, 1.5e6, 1e9)] == [
        "50 ns",
        "2 \u00b5s",
        "1.5 ms",
        "1 s",
    ]
    assert scales.tick_text(1000.0, "") == "1\u202f000"
    assert scales.value_ticks(0.7, 1800.0, 2) == [1.0, 100.0]
