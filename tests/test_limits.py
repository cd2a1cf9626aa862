"""Computed limits and the front page's words: the right sentence for the bundled campaign and for others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis import limits, overview
from analysis.intervals import coverage_words
from analysis.report import PhaseReport, open_report
from runner.errors import WrongUse
from runner.store import Store
from tests.bundled import CAMPAIGN


@pytest.fixture(scope="module")
def report() -> PhaseReport:
    return open_report(CAMPAIGN, "B")


def test_missing_runs_are_counted_by_reason(report: PhaseReport) -> None:
    assert limits.missing_runs(report) == ["All 144 planned runs have a result; none failed, none was repeated."]
    missing = {("LoadRecord", 3, "final"): "failed: time limit", ("LoadRecord", 4, "final"): "failed: time limit"}
    (text,) = limits.missing_runs(replace(report, data=replace(report.data, missing=missing)))
    assert text == "2 of 144 runs have no result: 2 x failed: time limit. Estimates use complete blocks only."


def test_a_check_that_was_not_made_is_named(report: PhaseReport) -> None:
    runs = {
        labels: record | {"checks": [{"check": "swap_pages", "holds": None}]} for labels, record in report.runs.items()
    }
    text = limits.checks(replace(report, marks=(), data=replace(report.data, runs=runs)))
    assert text == (
        "Every check that was made held, before every block and during every run. "
        "Not made, since this host does not expose them: swap pages."
    )


def test_every_limit_is_a_sentence_and_holms_members_are_named(report: PhaseReport) -> None:
    found = limits.computed_limits(report)
    assert all(text[0].isupper() or text[0].isdigit() or "/op" in text for text in found)
    assert all(text.endswith(".") for text in found)
    below = [e for e in report.estimates if e.holm_p is not None and e.holm_p < 0.05]
    text = limits.multiplicity(report)
    assert all(f"{e.contrast} {e.case}" in text for e in below)
    assert ("none below .05" in text) == (not below)


def test_the_front_page_counts_runs_with_a_result(report: PhaseReport) -> None:
    (text,) = overview.how_sure({"B": report})
    assert "144 of 144 executed runs with a result" in text
    failed = {labels: record | {"outcome": "failed"} for labels, record in list(report.runs.items())[:2]}
    (text,) = overview.how_sure({"B": replace(report, data=replace(report.data, runs={**report.runs, **failed}))})
    assert "142 of 144 executed runs with a result" in text


def test_another_level_is_not_given_the_coverage_of_95_percent() -> None:
    assert coverage_words("percentile", 6) == "nominal 95%, covers about 86% at six blocks"
    assert coverage_words("percentile", 6, 0.9) == "nominal 90%, coverage not measured at six blocks"


def test_states(tmp_path: Path) -> None:
    assert overview.state(Store(CAMPAIGN)) == "closed"
    assert overview.state(Store(tmp_path)) == "draft"


def test_an_unknown_phase_is_wrong_use() -> None:
    with pytest.raises(WrongUse, match="no phase 'Q' in the plan") as caught:
        open_report(CAMPAIGN, "Q")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["*a* _b_ `c`", "# x", "[a](b)", "<script>", "{raw} html", "a\n\n# b", "| a |", "$x$"])
def test_text_never_becomes_markup(text: str) -> None:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt().parse(f"Before {overview.markdown(text)} after")
    (inline,) = [token for token in tokens if token.type == "inline"]
    assert {child.type for child in inline.children or ()} <= {"text", "text_special"}
    assert "".join(child.content for child in inline.children or ()) == f"Before {' '.join(text.split())} after"
