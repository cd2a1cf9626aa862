"""Pages of published figures: said to be so, complete, beside another stack's answer, and rewritten only when they change."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from analysis import (
    figures_published,
    overview,
    published,
    published_check,
    published_overview,
    rendering,
    same_question,
)
from analysis import published_page as pages
from analysis.drawing import Picture
from analysis.figures_published import Row, forest
from analysis.model import EstimateWarning
from analysis.page_parts import section
from analysis.published_sentences import ratio_words
from analysis.report import PhaseReport, open_report
from analysis.same_question import Match, Peer, matches
from analysis.tables import text_only
from runner.errors import DataError
from runner.plan import Plan
from runner.store import Store
from tests.bundled import CAMPAIGN as EXECUTED
from tests.bundled import ROOT

CAMPAIGN = ROOT / "data" / "hcloud-rebench-20261014"
PLAN = Store(CAMPAIGN).plan()
PUBLISHED = published.read(Store(CAMPAIGN), PLAN)


def bare(folder: Path) -> Store:
    """The campaign's plan and figures alone, whatever logs may have been brought into its folder since."""
    (folder / CAMPAIGN.name).mkdir(parents=True)
    for name in ("plan.toml", "published.toml"):
        shutil.copy(CAMPAIGN / name, folder / CAMPAIGN.name)
    return Store(folder / CAMPAIGN.name)


@pytest.fixture(scope="module")
def peer() -> Peer:
    plan = Store(EXECUTED).plan()
    reports = {name: open_report(EXECUTED, name) for name in ("B", "C1")}
    return Peer(EXECUTED.name, plan, reports, matches(PLAN, plan))


def subject(name: str, peer: Peer | None = None, plan: Plan = PLAN) -> pages.Subject:
    return pages.Subject(f"data/{CAMPAIGN.name}", plan, PUBLISHED, name, peer)


def text_of(name: str, peer: Peer | None = None) -> str:
    return pages.page(subject(name, peer), f"phase_{name.lower()}")[0]


def without_figures(text: str) -> str:
    return re.sub(r'src(set)?="[^"]*"', "", text)


# ---- the page of a phase ------------------------------------------------------------------------------


def test_sections_stand_in_order_and_say_that_their_numbers_are_published(peer: Peer) -> None:
    found = re.findall(r"^##+ (.*)$", text_of("B", peer), re.MULTILINE)
    said = pages.PUBLISHED
    assert found == [
        f"Findings: {said}",
        f"Results: {said}",
        f"Absolute values: {said}",
        f"The same question, another stack: beside what was {said}",
        f"Interpretation: {said}",
        *("Preregistered claims", "Also published", "Not explained by what was published"),
        *("Limits", "Arms, environment, design: as far as published", "Reproduce"),
    ]


@pytest.mark.parametrize("name", PLAN.phases)
def test_every_published_figure_stands_on_its_page_with_its_digits(name: str) -> None:
    text = text_only(without_figures(text_of(name)))
    for estimate in PUBLISHED.estimates_of(name):
        assert ratio_words(estimate) in text
        for pair in (estimate.range, estimate.leave_one_out):
            assert not pair or f"{pair[0]} to {pair[1]}" in text
        assert estimate.text in text
        assert estimate.note[1:] in text
    for remark in PUBLISHED.remarks_of(name):
        assert remark in text or (pages.unexplained(remark) and PLAN.phases[name].open_questions)
    for limit in (*PLAN.phases[name].limits, *PLAN.phases[name].open_questions):
        assert limit in text
    assert pages.NOTICE in text
    assert not re.search(r"\bnan\b|\bNone\b", text)


def test_the_page_of_six_blocks_has_the_implied_interval_and_what_becomes_of_each_statement() -> None:
    text = text_only(without_figures(text_of("A2")))
    line = next(line for line in text.splitlines() if line.startswith("range100\tmean latency"))
    assert re.sub(r"\s+", " ", line) == (
        "range100 mean latency 0.663 [0.440, 0.858] ≈ [0.409, 1.076]band from [0.411, 1.068]to [0.390, 1.126] interval below 1 "
        "yes: would include 1"
    )
    assert "covers about 86% at six blocks" in text
    assert "5 still would; 3 would include 1 and be unresolved: final/cgo mean latency on range100" in text
    assert "no: would exclude 1" in text and "not assessable" in text and "not resolved as published" in text


def test_the_page_says_that_the_band_is_no_bound_and_how_lopsided_an_interval_is() -> None:
    text = text_only(without_figures(text_of("A2")))
    assert (
        "0.70 gives the narrower end of the band, 0.63 the wider one" in text
        and "about 93 in 100 lie in the band" in text
    )
    assert (
        "or beyond it. Here: final/cgo mean latency on range100 (0.663 [0.440, 0.858]), 1.6 times, final/cgo mean latency on "
        "batchset50 (0.817 [0.768, 0.851]), 1.5 times, final/cgo p99 latency on range100 (0.881 [0.696, 1.033]), 1.5 times and "
        "final/cgo p99 latency on batchset50 (0.914 [0.816, 0.985]), 1.5 times."
    ) in text
    assert "where one block decides the width is down to 0.58, and t is wider" in text
    straight = [e for e in PUBLISHED.estimates_of("A2") if e.word == "shutdown CPU per transaction"]
    only = published.Published({}, {}, tuple(straight), (), ())
    assert "Here no published interval does." in pages.page(pages.Subject("data/x", PLAN, only, "A2"), "p")[0]


def test_at_another_level_nothing_is_implied() -> None:
    plan = PLAN.model_copy(update={"statistics": PLAN.statistics.model_copy(update={"level": 0.9})})
    text = text_only(without_figures(pages.page(subject("A2", plan=plan), "p")[0]))
    assert "implied" not in text and "then unresolved?" not in text and "simulated, under" not in text
    assert (
        "was simulated at the level 0.95 alone" in text and "nominal 90%, coverage not measured at six blocks" in text
    )


def test_at_another_number_of_blocks_it_is_not_called_undefined(tmp_path: Path) -> None:
    phase = PLAN.phases["D1"].model_copy(update={"blocks": 3})
    plan = PLAN.model_copy(update={"phases": PLAN.phases | {"D1": phase}})
    text = text_only(without_figures(pages.page(subject("D1", plan=plan), "p")[0]))
    assert "implies was not simulated at 3 blocks." in text and "not defined" not in text
    assert "coverage not measured at three blocks." in text and "simulated, under" not in text
    told = published_overview.how_sure([subject("D1", plan=plan), subject("D2")])
    assert "not simulated at 3 blocks" in told[0] and told[1].startswith("Phase D2: 2 ratios")
    assert "The number of blocks is not defined" in told[1]


def test_operations_of_a_worker_and_of_a_run_are_told_apart() -> None:
    text = text_only(without_figures(text_of("A2")))
    assert "Cases; operations are those of each worker" in text and "measured_operations = 3000" in text
    assert "measured operations of a run, as published\t24,000" in text
    assert "Cases; operations" not in text_of("B")


def test_what_was_published_as_a_change_in_percent_says_so() -> None:
    text = text_only(without_figures(text_of("A2")))
    line = next(line for line in text.splitlines() if line.startswith("batchset50") and "0.973" in line)
    assert "given as -2.7%" in line
    assert text.count("given as") == 6 and "the ratio is 1 plus that change" in text
    assert "given as -5.1%" in text_only(text_of("D1"))


def test_the_confound_of_a_phase_stands_at_every_ratio_it_may_be_in() -> None:
    assert [("of which case is not said" in e.note) for e in PUBLISHED.estimates_of("D2")] == [True, True]


def test_a_phase_without_defined_blocks_has_no_implied_interval_and_prints_undefined() -> None:
    text = text_only(without_figures(text_of("C3")))
    assert "implied" not in text and "then unresolved?" not in text
    assert "what it covers depends on the number of blocks, which is undefined" in text
    for row in ("blocks\tundefined", "repeats\tundefined", "order seed\tundefined", "payload seed\tundefined"):
        assert row in text
    assert "ordinary\tundefined" in text  # the tree of an arm
    assert "Order of the runs: undefined" in text


def test_an_order_from_their_seed_is_called_ours() -> None:
    text = text_only(text_of("B"))
    assert (
        "expands from their seed 641101 is ours; python -m runner check data/hcloud-rebench-20261014 --dry-run" in text
    )


def test_a_phase_of_words_alone_has_no_figure() -> None:
    words = [e for e in PUBLISHED.estimates_of("C1") if e.ratio is None]
    only = published.Published({}, {}, tuple(words), (), ())
    text, files = pages.page(pages.Subject("data/x", PLAN, only, "C1"), "phase_c1")
    assert "<figure" not in text and list(files) == ["phase_c1-published.csv"]
    assert "faster in five of six cases" in text and "No ratio was published." in text
    nothing = pages.page(pages.Subject("data/x", PLAN, published.Published({}, {}, (), (), ()), "D2"), "p")[0]
    assert "Nothing was published of this phase." in nothing and "no figure was published" in nothing


def test_the_page_offers_its_figures_for_download() -> None:
    text, files = pages.page(subject("D2"), "phase_d2")
    assert all(f"<{name}>" in text for name in files)
    head = files["phase_d2-published.csv"].decode().splitlines()[0]
    assert head.startswith("case,metric,contrast,published_ratio,published_low,published_high,published_range_low")
    assert files["phase_d2-published.csv"].decode().splitlines()[1].startswith("10_rows,ns/op,remote/ordinary,0.885,,,")
    assert files["phase_d2-forest.svg"].startswith(b"<?xml") and files["phase_d2-forest.png"].startswith(b"\x89PNG")


# ---- the forest plot ----------------------------------------------------------------------------------


def test_points_without_an_interval_are_hollow_and_ranges_are_bars() -> None:
    rows = figures_published.rows(subject("B").estimates[:4], ["ns/op"], 6)
    assert [row.numbers for row in rows] == [
        *("0.978, no interval published", "0.976, no interval published", "0.972, no interval published"),
        "0.96 to 1.04, a range",
    ]
    picture = forest({"final/before": rows}, ["final", "before"])
    assert "several cases together, time 0.96 to 1.04, a range" in picture.alt
    for figure in (picture.wide, picture.narrow):
        faces = [line.get_markerfacecolor() for line in figure.axes[0].get_lines() if line.get_marker() in "oD"]
        assert faces == ["white"] * 4
        texts = {text.get_text() for text in figure.texts}
        assert {"0.978, no interval published", "0.96 to 1.04, a range"} <= texts


def test_an_interval_has_its_implied_one_below_and_what_is_far_off_is_at_the_edge() -> None:
    rows = figures_published.rows(subject("A2").estimates, ["ns/op"], 6)
    assert all(row.implied and row.interval and row.implied[0] < row.interval[0] for row in rows)
    assert all(row.implied is None for row in figures_published.rows(subject("A2").estimates, ["ns/op"], "undefined"))
    far = [
        Row("time", "Far", "0.001", 0.001),
        Row("time", "Near", "1.1", 1.1),
        Row("time", "Wide", "x", 1, (0.001, 50.0)),
    ]
    picture = forest({"a/b": far, "c/b": []}, ["a", "b"])
    assert isinstance(picture, Picture) and "c/b" not in picture.alt
    axes = picture.wide.axes[0]
    low = axes.get_xlim()[0]
    dots = [line.get_xdata()[0] for line in axes.get_lines() if line.get_marker() == "<"]
    assert dots == [pytest.approx(low)]
    assert {"<", "o"} <= {line.get_marker() for line in axes.get_lines()}


# ---- another stack ------------------------------------------------------------------------------------


def test_two_answers_stand_side_by_side_and_nothing_is_computed_from_both(peer: Peer) -> None:
    text = text_only(without_figures(text_of("B", peer)))
    other = peer.reports["B"]
    assert PLAN.phases["B"].question in text and other.phase.question in text
    estimate = next(
        e for e in other.estimates if (e.case, e.metric, e.contrast) == ("LoadRecord", "ns/op", "final/before")
    )
    line = next(line for line in text.splitlines() if line.startswith("LoadRecord\ttime\t0.978\tLoadRecord"))
    assert f"{estimate.point:.3f} [" in line
    assert "nothing is computed from both" in text
    assert f'href="../{EXECUTED.name}/phase_b.html"' in text_of("B", peer)


def test_cases_of_other_names_belong_together_by_the_table_alone(peer: Peer) -> None:
    text = text_only(without_figures(text_of("C1", peer)))
    assert "remote/ordinary as published, beside final-remote/final-ordinary" in text
    assert "remote/ordinary as published, beside before-remote/before-ordinary" in text
    assert re.search(r"1,000 small records\ttime\t0.34\tSmall1000\t", text)
    unmatched = Peer(peer.name, peer.plan, peer.reports, {"C1": Match()})
    shown = text_only(str(same_question.side_by_side(unmatched, PLAN.phases["C1"], "C1", PUBLISHED.estimates_of("C1"))))
    assert "No published figure has a counterpart there." in shown
    assert "Published without a counterpart there: time of remote/ordinary (1,000 small records) and time of" in shown


def test_a_range_stands_beside_the_cases_that_it_is_of(peer: Peer) -> None:
    """Published for every case but SaveSplitRecord: the other stack's range is then without it too."""
    text = text_only(without_figures(text_of("B", peer)))
    own = [e for e in peer.reports["B"].estimates if (e.contrast, e.metric) == ("final/before", "B/op")]
    points = [e.point for e in own if e.case != "SaveSplitRecord" and e.point is not None]
    line = next(line for line in text.splitlines() if "0.75 to 0.91 (a range)" in line)
    assert "7 matching cases, without SaveSplitRecord" in line
    assert f"{min(points):.3f} to {max(points):.3f} (points)" in line
    (all_of,) = (line for line in text.splitlines() if "0.63 to 0.89 (a range)" in line)
    assert "8 matching cases\t" in all_of


def test_an_answer_with_warnings_says_that_it_has_some(peer: Peer) -> None:
    name = "A warning."
    report = peer.reports["B"]
    warned = tuple(replace(e, warnings=(EstimateWarning("x", name),)) for e in report.estimates)
    bare_ones = tuple(replace(e, warnings=()) for e in report.estimates)
    for estimates, there in ((warned, True), (bare_ones, False)):
        other = Peer(peer.name, peer.plan, {"B": replace(report, estimates=estimates)}, peer.matches)
        shown = same_question.side_by_side(other, PLAN.phases["B"], "B", PUBLISHED.estimates_of("B"))
        assert ("; with notes on its page" in str(shown)) is there


def test_a_phase_that_nobody_else_asked_has_no_such_section(peer: Peer) -> None:
    assert "another stack" not in text_of("A2", peer)  # this peer has reports of B and C1 alone
    assert "another stack" not in text_of("B")


def test_the_table_of_pairs_names_only_what_the_plans_have(tmp_path: Path) -> None:
    other = Store(EXECUTED).plan()
    assert set(matches(PLAN, other)) == {"A", "A2", "B", "C1", "D1", "C2", "D2", "C3"}
    assert matches(other, PLAN) == {}
    text = same_question.TABLE.read_text()
    for old, new, message in (
        ('"FDB_PlanCacheHit"', '"PlanCacheHot"', "phase D1: unknown cases: PlanCacheHot"),
        ('= "SQL1000"', '= "SQL9"', "phase D2: unknown cases: SQL9"),
        ('["final/c-bound"]', '["final/d-bound"]', "phase A: unknown contrasts: final/d-bound"),
        ('"final/cgo" =', '"final/cg" =', "phase A: unknown contrasts: final/cg"),
        ("pairs.phases.D1.cases", "pairs.phases.D9.cases", "unknown phases: D9"),
        ("pairs.phases.D1.cases", "pairs.phases.D1.casis", "not a table of pairs of campaigns"),
        ("published =", "publish =", "not a table of pairs of campaigns"),
    ):
        path = tmp_path / "pairs.toml"
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(DataError, match=message):
            matches(PLAN, other, path)


# ---- the overview and the front page ------------------------------------------------------------------


def test_the_overview_links_every_phase_and_says_its_state(peer: Peer, tmp_path: Path) -> None:
    store = bare(tmp_path)
    text = published_overview.campaign_page(store, PLAN, PUBLISHED, {}, peer)
    sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert sections == [
        f"What was found: {pages.PUBLISHED}",
        "Phases",
        f"How sure: {pages.PUBLISHED}",
        *("The same questions, another stack", "Method", "Environment", "Trees", "Shared limits"),
    ]
    assert "State: figures-only. Published figures, not recomputed" in text
    for name in PLAN.phases:
        assert f'href="phase_{name.lower()}.html"' in text
    assert f'href="../{EXECUTED.name}/phase_b.html"' in text
    assert "A2: Client, 8 workers (final/cgo, mean latency): get100 0.991" in text
    assert "Ratios of each phase around 1, as published, not recomputed. A: Client" in text
    assert f"{len(store.open_plan().undefined)} times" in text


def test_the_front_page_leads_with_what_was_executed_here(peer: Peer, tmp_path: Path) -> None:
    report = peer.reports["B"]
    executed = overview.Entry(Store(EXECUTED), report.plan, {"B": report})
    elsewhere = overview.Entry(bare(tmp_path), PLAN, {})
    for entries in ([executed, elsewhere], [elsewhere, executed]):
        text = overview.front_page(entries)
        assert text.startswith(overview.markdown(overview.opening(executed)))
        assert (
            text.rindex("closed") < text.rindex("figures-only") and f'href="phases/{CAMPAIGN.name}/index.html"' in text
        )
    alone = overview.front_page([elsewhere])
    assert alone.startswith("## Campaigns in this book")


def test_states_of_what_was_brought(tmp_path: Path) -> None:
    store = bare(tmp_path)
    assert overview.state(store) == "figures-only"
    store.adoption_path.write_text("{}")
    assert overview.state(store) == "adopted"


# ---- rendering ----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pages are written, in a project that has this campaign alone."""
    bare(tmp_path / "data")
    monkeypatch.setattr(rendering, "PAGES", tmp_path / "pages")
    monkeypatch.setattr(rendering, "DATA", tmp_path / "data")
    rendering.render(rendering.campaigns(), lambda text: pytest.fail(text))
    return tmp_path / "pages" / CAMPAIGN.name


def test_a_campaign_of_figures_appears_by_itself_and_without_a_peer(folder: Path) -> None:
    assert {path.name for path in folder.glob("*.md")} == {
        "index.md",
        *(f"phase_{name.lower()}.md" for name in PLAN.phases),
    }
    assert "another stack" not in (folder / "phase_b.md").read_text()
    assert "figures-only" in (folder.parent / "front.md").read_text()


def test_pages_are_written_only_when_they_change_and_stale_ones_of_either_form_go(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    strays = [folder / name for name in ("phase_b.ipynb", "phase_z.md", "phase_b-estimates.csv", "phase_b-metrics.csv")]
    for stray in strays:
        stray.write_text("x")
    (folder / "phase_b.md").write_text("changed by hand")
    rendering.render(rendering.campaigns(), lambda text: pytest.fail(text))
    assert [stray for stray in strays if stray.exists()] == []
    after = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert set(after) == set(before)
    assert {path.name for path in before if before[path] != after[path]} == {"phase_b.md"}
    assert (folder / "phase_b.md").read_text().startswith("# Phase B")


def test_one_phase_can_be_rendered_alone(folder: Path) -> None:
    for name in ("phase_a.md", "phase_b.md"):
        (folder / name).unlink()
    rendering.render(rendering.campaigns(), lambda text: pytest.fail(text), phase="B")
    assert (folder / "phase_b.md").exists() and not (folder / "phase_a.md").exists()
    assert (folder / "phase_c1.md").exists()


def test_a_wrong_figure_stops_the_rendering(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "data" / CAMPAIGN.name / "published.toml"
    path.write_text(path.read_text().replace("ratio = 0.817", "ratio = 0.917"))
    with pytest.raises(DataError, match=r"estimates\.\d+\.ci: .* does not hold its ratio 0\.917"):
        rendering.render(rendering.campaigns(), lambda text: pytest.fail(text))


def test_phases_with_raw_logs_are_those_of_the_executed_campaign(tmp_path: Path) -> None:
    plan = Store(EXECUTED).plan()
    assert rendering.measured(Store(EXECUTED), plan) == list(plan.phases)
    assert rendering.measured(bare(tmp_path), PLAN) == []


def test_the_newest_executed_campaign_is_the_peer_with_its_own_estimates() -> None:
    found = rendering.peer_of(PLAN)
    assert found and found.name == EXECUTED.name and set(found.reports) == set(found.plan.phases)
    assert found.asks("A2") and not found.asks("N")
    assert rendering.peer_of(found.plan) is None


# ---- recomputed against published ----------------------------------------------------------------------


def test_a_phase_is_compared_only_where_something_was_published(peer: Peer) -> None:
    report: PhaseReport = peer.reports["B"]
    assert not published_check.has_published(report)
    assert published_check.section(report) == section()


def test_the_other_stacks_numbers_do_not_pass_for_the_published_ones(peer: Peer) -> None:
    """The comparison on real estimates: those of another stack, which must not agree."""
    report = peer.reports["B"]
    rows = published_check.compare(PUBLISHED, "B", report.estimates, report.absolutes)
    by_name = {row.what: row for row in rows}
    assert by_name["final/before ns/op, LoadRecord: ratio"].status == published_check.DIFFERS
    assert by_name["final/legacy ns/op, SaveRecord: largest ratio of a block"].recomputed is not None
    differing = [row for row in rows if row.status == published_check.DIFFERS]
    assert len(differing) > 20
    text = published_check.sentences(rows)
    assert f"{len(differing)} differ by more than rounding: " in text[1]
