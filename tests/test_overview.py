"""Front page, campaign page and headlines: chosen by a rule, computed, and complete about what went wrong."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from analysis import arms, figures, headlines, overview, page, page_design
from analysis.model import Missing
from analysis.page_parts import bullets, folded, heading, paragraphs, section
from analysis.report import PhaseReport, open_report
from analysis.tables import Markup
from runner.plan import Engine, Fixture, PhaseEngine, PhaseNetwork, Plan
from runner.store import Ledger, Store
from tests import made_up, small
from tests.bundled import CAMPAIGN


@pytest.fixture(scope="module")
def report() -> PhaseReport:
    return open_report(CAMPAIGN, "B")


def with_phase(plan: Plan, name: str, **changes: object) -> Plan:
    """A plan in which one phase is another way."""
    phases = plan.phases | {name: plan.phases[name].model_copy(update=changes)}
    return plan.model_copy(update={"phases": phases})


# ---- headlines ----------------------------------------------------------------------------------------


def test_a_headline_is_of_the_first_contrast_with_smallest_and_largest(report: PhaseReport) -> None:
    first = next(iter(report.contrasts))
    found = [e for e in report.estimates if (e.contrast, e.metric) == (first, report.phase.primary_metric)]
    points = sorted(found, key=lambda e: e.point or 0)
    text = headlines.headline(report)
    assert f"{points[0].point:.3f} [" in text and f"({points[0].case})" in text
    assert f"{points[-1].point:.3f} [" in text and f"({points[-1].case})" in text
    assert f"over {len(found)} cases" in text
    excludes = sum(not e.t[0] <= 1 <= e.t[1] for e in found if e.t)
    assert f"{excludes} of {len(found)} t intervals exclude" in text
    if excludes < len(found):
        assert f"{len(found) - excludes} include" in text and text.endswith(": not resolved by this data.")


def test_the_rule_does_not_look_at_the_result(report: PhaseReport) -> None:
    turned = tuple(
        replace(e, point=e.point and 1 / e.point, t=e.t and (1 / e.t[1], 1 / e.t[0])) for e in report.estimates
    )
    other = replace(report, estimates=turned)
    assert [e.case for e in headlines.leading(other, "final/before")] == report.cases
    assert headlines.headline(other) == headlines.contrast_sentence(other, next(iter(report.contrasts)))


def test_an_estimate_with_failed_runs_is_left_out_by_name(report: PhaseReport) -> None:
    gone = (Missing(2, "final", "failed: time limit"),)
    changed = tuple(replace(e, missing=gone) if e.case == "LoadRecord" else e for e in report.estimates)
    text = headlines.headline(replace(report, estimates=changed))
    assert text.endswith("Left out for failed or missing runs: LoadRecord.")
    assert "over 7 cases" in text
    nothing = tuple(replace(e, missing=gone) for e in report.estimates)
    assert "nothing to report" in headlines.headline(replace(report, estimates=nothing))


def test_a_null_contrast_is_called_so(report: PhaseReport) -> None:
    twice = tuple(arm.model_copy(update={"tree": "final"}) for arm in report.phase.arms)
    other = replace(report, plan=with_phase(report.plan, "B", arms=twice))
    assert headlines.headline(other).startswith("One arm under two names: ")
    assert page.has_null(other) and not page.has_null(report)


# ---- looks of arms ------------------------------------------------------------------------------------


def test_an_arm_has_one_place_in_all_phases_and_shares_it_with_none_it_meets() -> None:
    plan = small.plan()
    b = plan.phases["B"]
    other = b.model_copy(update={"arms": (b.arms[0].model_copy(update={"name": "new"}), *b.arms[1:])})
    both = plan.model_copy(update={"phases": {"B": b, "C": other}})
    places = arms.places(both)
    for phase in both.phases:
        names = [arm.name for arm in both.phases[phase].arms]
        listed = arms.arm_places(both, phase)
        assert [name for name in listed if name] == sorted(names, key=places.__getitem__)
        assert len({places[name] for name in names}) == len(names)
        assert all(listed[places[name]] == name for name in names)


# ---- how sure -----------------------------------------------------------------------------------------


def test_runs_are_counted_by_how_they_ended(report: PhaseReport, monkeypatch: pytest.MonkeyPatch) -> None:
    text = overview.how_sure({"B": report})[0]
    total = sum(labels.phase == "B" for labels in report.ledger.labels())
    assert f"Of {total} runs {total} have a result; none failed, none is void." in text
    first, second, *_ = [labels for labels in report.ledger.labels() if labels.phase == "B"]
    state = Ledger.state
    ended = {first: "failed", second: "void"}
    monkeypatch.setattr(Ledger, "state", lambda self, labels: ended.get(labels) or state(self, labels))
    text = overview.how_sure({"B": report})[0]
    assert f"Of {total} runs {total - 2} have a result; 1 failed and 1 void." in text
    assert overview.run_counts(report.ledger, "B") == f"{total - 2} done, 1 failed, 1 void"


def test_the_commonest_warning_is_named_with_its_number(report: PhaseReport) -> None:
    text = overview.how_sure({"B": report})[-1]
    assert re.search(r"^\d+ of 24 estimates of a primary metric carry a warning, most often: [a-z ]+ \(\d+\)\.", text)
    calm = replace(report, estimates=tuple(replace(e, warnings=()) for e in report.estimates))
    assert overview.how_sure({"B": calm})[-1] == "None of the 24 estimates of a primary metric carries a warning."


def test_without_a_null_phase_the_page_says_so(report: PhaseReport) -> None:
    assert overview.null_sentences({"B": report}) == [
        "No phase compares an arm with itself, so what this host cannot resolve was not measured."
    ]


# ---- pages --------------------------------------------------------------------------------------------


def test_the_campaign_page_has_its_sections_and_links(report: PhaseReport) -> None:
    text = overview.campaign_page(report.store, report.plan, {"B": report})
    sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert sections == ["What was found", "Phases", "How sure", "Method", "Environment", "Trees", "Shared limits"]
    assert 'href="phase_b.html"' in text
    assert report.seal.digest in text
    for tree in report.plan.trees.values():
        assert tree.what in text
    assert re.search(r"The runs took .*\d s in (one session|\d+ sessions), from \d{4}-\d\d-\d\d ", text)


def test_the_front_page_leads_with_the_published_campaign(report: PhaseReport) -> None:
    entry = overview.Entry(report.store, report.plan, {"B": report})
    draft = overview.Entry(Store(CAMPAIGN.with_name("draft")), report.plan, {})
    text = overview.front_page([draft, entry])
    name = CAMPAIGN.name
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        *("What was found", "How sure", "Reproduce", "Campaigns in this book"),
    ]
    assert f'href="phases/{name}/phase_b.html"' in text
    assert f"python -m runner verify data/{name}" in text
    assert text.count("\n## ") + text.startswith("## ") == 4
    assert not text.split("\n")[0].startswith("#")


def test_a_campaign_that_is_not_closed_shows_its_state_alone(report: PhaseReport) -> None:
    text = overview.campaign_page(Store(CAMPAIGN.with_name("draft")), report.plan, {})
    assert "State: draft. Nothing is shown before it is closed." in text
    assert "##" not in text


# ---- what a phase has another way ---------------------------------------------------------------------


def test_settings_and_delay_of_one_phase_are_marked(report: PhaseReport) -> None:
    own = PhaseEngine(storage="disk", settings={"fsync": "on", "work_mem": "1MB"})
    plan = with_phase(report.plan, "B", engine=own, network=PhaseNetwork(delay_us=500))
    text = page_design.environment(replace(report, plan=plan))
    assert "fsync = on (this phase alone; the plan&#x27;s engine has off)" in text
    assert "work_mem = 1MB (this phase alone; the plan&#x27;s engine has the default)" in text
    assert "disk (this phase alone; the plan&#x27;s engine has memory)" in text
    assert "500 us added each way" in text
    assert "jit = off<br>" in text
    shown = overview.environment(report.store, plan, replace(report, plan=plan))
    assert "phase B: 500 us added each way" in shown
    assert "phase B: data folder on disk, fsync = on, work_mem = 1MB" in shown
    plain = replace(report, plan=with_phase(report.plan, "B", engine=None, network=None))
    assert "this phase alone" not in page_design.environment(plain)


def test_a_phase_without_an_engine_has_no_settings(report: PhaseReport) -> None:
    plan = report.plan.model_copy(update={"engine": Engine(kind="none")})
    assert page_design.engine_rows(plan, report.seal, "B") == [("engine", "none")]


def test_parameters_of_the_fixture_and_of_every_case_stand_once(report: PhaseReport) -> None:
    fixture = Fixture(what="rows with an index", tree="final", argv=("make",), parameters={"rows": 1000})
    cases = tuple(
        case.model_copy(
            update={"parameters": {"threads": 1, "records": number}, "argv": ("other",) if number else None}
        )
        for number, case in enumerate(report.phase.cases[:2])
    )
    plan = with_phase(report.plan, "B", fixture="rows", cases=cases).model_copy(update={"fixtures": {"rows": fixture}})
    other = replace(report, plan=plan)
    assert page_design.own_parameters(plan, "B")[cases[0].name] == {"threads": 1, "records": 0}
    text = page_design.design(other)
    assert text.count("threads = 1") == 1
    assert "records = 0" in text and "records = 1" in text
    assert "rows = 1000" not in text
    assert f"command of {cases[1].name}" in text
    shown = page_design.environment(other)
    assert "Fixture rows" in shown and "rows = 1000" in shown and "0 times" in shown


# ---- parts --------------------------------------------------------------------------------------------


def test_parts_escape_and_say_themselves_as_text() -> None:
    text = made_up.HOSTILE
    for part in (heading(text), paragraphs([text]), bullets([text]), folded(text, paragraphs([text]))):
        assert "<script" not in part
    whole = section(heading("Head"), paragraphs(["one", "two"]), folded("more", paragraphs(["three"])))
    assert repr(whole).splitlines() == ["Head", "one", "two", "more", "three"]
    assert bullets([Markup("<b>x</b>"), "<b>"]) == "<ul><li><b>x</b></li>\n<li>&lt;b&gt;</li>\n</ul>\n"
    assert bullets([]) == ""


# ---- the strip ----------------------------------------------------------------------------------------


def test_the_strip_has_a_lane_for_each_phase_with_its_own_arms(report: PhaseReport) -> None:
    far = [made_up.estimate("Far", "a/b", point=0.001, half=0.0001), made_up.estimate("Near", "a/b", point=1.01)]
    picture = figures.strip(
        {"B: one": made_up.estimates()[:3], "C: two": far, "D: none": []},
        arms={"B: one": made_up.ARMS, "C: two": ["a", "b"], "D: none": []},
        primary="t",
    )
    assert "C: two (a/b, ns/op): Far 0.001, Near 1.010; 1 of 2 exclude 1" in picture.alt
    assert "LoadRecord without an estimate" in picture.alt
    for figure in (picture.wide, picture.narrow):
        markers = {line.get_marker() for axes in figure.axes for line in axes.get_lines()}
        assert "<" in markers  # what lies beyond the axis is an arrow at its edge
        low, high = figure.axes[0].get_xlim()
        dots = [line.get_xdata()[0] for line in figure.axes[0].get_lines() if line.get_marker() != "None"]
        assert dots and all(low <= x <= high for x in dots)
        assert {"B: one", "C: two"} <= {text.get_text() for text in figure.texts}
