"""Computed limits and the front page's words: the right sentence for the bundled campaign and for others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis import limits, overview, page
from analysis.intervals import coverage_words
from analysis.report import PhaseReport, open_report
from runner.errors import WrongUse
from runner.plan import Plan
from runner.planfile import parse
from runner.store import Store
from tests import campaigns, small
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


# ---- what a plan alone says


def plan(*, storage: str = "memory", settings: str = "{}", delay: int = 0) -> Plan:
    """The small plan, with an engine and a delay of its own in phase B."""
    own = (
        f'[phases.B]\nengine = {{ storage = "{storage}", settings = {settings} }}\nnetwork = {{ delay_us = {delay} }}\n'
    )
    return parse(small.TEXT.replace("[phases.B]\n", own, 1))


def test_no_contrast_across_phases_names_what_differs() -> None:
    (text,) = limits.across(plan(storage="disk", settings='{ fsync = "on", jit = "off" }', delay=250))
    assert text == (
        "No contrast across phases: each has a server of its own, at another time. Beyond that they differ: phase A: data "
        "in memory, no durable commits, no added delay; phase B: data on disk, durable commits, nominal 250 \u00b5s added "
        "each way, jit = off."
    )
    (same,) = limits.across(plan())
    assert same.endswith(
        "Storage, durability and delay are the same in all: data in memory, no durable commits, no added delay."
    )


def test_commits_to_memory_are_not_durable_whatever_the_settings_say() -> None:
    found = plan(settings='{ fsync = "on" }')
    assert (
        limits.commit_words(found.engine_of("B")) == "commits that wait for storage which is memory and so not durable"
    )
    assert limits.commit_words(found.engine_of("A")) == "no durable commits"
    asynchronous = plan(storage="disk", settings='{ fsync = "on", synchronous_commit = "off" }')
    assert limits.commit_words(asynchronous.engine_of("B")) == "no durable commits"


def test_the_rule_for_wrong_answers_is_said() -> None:
    assert limits.wrong_answers(small.plan()) == (
        "Rule for wrong answers, chosen before the first run: a run that gives one is a failed run, kept and never "
        "repeated; its phase goes on."
    )
    other = parse(small.changed('"go-on"', '"stop-phase"'))
    assert "stops its phase" in limits.wrong_answers(other)


# ---- drill: a check of answers that fires falsely, late in a phase


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> campaigns.Campaign:
    """A phase that its plan's rule stops in block 3 of 4, because a run says that it got a wrong answer."""
    campaign = campaigns.write(
        tmp_path_factory.mktemp("stopped"), cache, blocks=4, faults="wrong:two:3", wrong_answer="stop-phase"
    )
    path = campaign.folder / "plan.toml"
    claims = "".join(
        f'\n[[phases.T.claims]]\nid = "{name}"\ntext = "Made up."\nmetric = "ns/op"\ncontrast = "two/one"\n'
        f"cases = {cases}\nholds = {{ point_within = [{low}, {high}] }}\n"
        for name, cases, low, high in (
            ("T1", '["Load"]', 0.1, 10.0),
            ("T2", '["Scan/serial"]', 0.1, 10.0),
            ("T3", '"all"', 0.1, 10.0),
        )
    )
    path.write_text(path.read_text() + claims)
    campaign.does("seal")
    assert campaign.call("run").returncode == 1
    return campaign


def test_a_stopped_phase_is_closed_and_verifies(stopped: campaigns.Campaign) -> None:
    assert [event["event"] for event in stopped.events()].count("phase-stopped") == 1
    assert stopped.events()[-1]["event"] == "close"
    stopped.does("verify")
    assert stopped.call("run").returncode == 1
    assert [event["event"] for event in stopped.events()].count("phase-stopped") == 1


def test_a_stopped_phase_says_so_first(stopped: campaigns.Campaign) -> None:
    report = open_report(stopped.folder, "T")
    text = limits.stopped(report)
    assert text == (
        "This phase stopped early: phase T, case Load, block 3, arm two: wrong answer. Analysed, as complete blocks: Load "
        "blocks 1 and 2 of 4; Scan/serial blocks 1 and 2 of 4."
    )
    found = limits.computed_limits(report)
    assert found[0] == text
    assert "of 16 runs have no result" in found[1]
    assert "wrong answer" in found[1]
    assert any("stops its phase" in limit for limit in found)


def test_estimates_of_a_stopped_phase_use_complete_blocks(stopped: campaigns.Campaign) -> None:
    report = open_report(stopped.folder, "T")
    for estimate in report.estimates:
        assert estimate.blocks == (1, 2)
        assert {gone.block for gone in estimate.missing} == {3, 4}
        assert "failed-runs" in [warning.kind for warning in estimate.warnings]
    reasons = {gone.reason for estimate in report.estimates for gone in estimate.missing}
    assert any(reason.startswith("failed: wrong answer") for reason in reasons)
    assert any(reason.startswith("the phase stopped early: phase T, case Load") for reason in reasons)


def test_claims_on_a_stopped_phase_are_not_evaluable_and_name_the_runs(stopped: campaigns.Campaign) -> None:
    report = open_report(stopped.folder, "T")
    assert [claim.status for claim in report.claims] == ["not-evaluable"] * 3
    assert "Load lacks two in block 3 (failed: wrong answer" in report.claims[0].reason
    assert "the phase stopped early" in report.claims[1].reason
    assert "without a result" not in limits.labels(report)


def test_a_phase_that_ran_to_its_end_is_not_said_to_be_stopped(stopped: campaigns.Campaign, tmp_path: Path) -> None:
    report = open_report(stopped.folder, "T")
    assert limits.stopped(replace(report, ledger=replace(report.ledger, stopped={}))) is None
    first = limits.stopped(
        replace(report, data=replace(report.data, missing={("Load", n, "one"): "x" for n in range(9)}))
    )
    assert first is not None
    assert first.endswith("Scan/serial blocks 1, 2, 3 and 4 of 4. Without a complete block: Load.")


def test_files_that_changed_since_the_seal_are_named_on_the_page() -> None:
    report = open_report(CAMPAIGN, "B")
    names = [f"{what}: {name}" for what, files in report.deviations.items() for name in files]
    changed = replace(report)
    changed.__dict__["deviations"] = {"analysis": ["analysis/claims.py", "analysis/page.py"]}
    text = repr(page.limits(changed))
    assert "The 2 files that differ\nanalysis: analysis/claims.py\nanalysis: analysis/page.py" in text
    shown = repr(page.limits(report))
    assert all(name in shown for name in names)
    changed.__dict__["deviations"] = {}
    assert "files that differ" not in repr(page.limits(changed))
