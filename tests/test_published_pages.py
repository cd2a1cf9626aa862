"""Pages of published figures: said to be so, complete, beside another stack's answer, and rewritten only when they change."""

from __future__ import annotations

import re
import shutil
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
        *("Limits", "Arms, environment, design", "Reproduce"),
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
        "range100 mean latency 0.663 [0.440, 0.858] ≈ [0.409, 1.076]narrowest [0.411, 1.068]widest [0.390, 1.126] interval below 1 "
        "yes: includes 1"
    )
    assert "covers about 86% at six blocks" in text
    assert "5 still would; 3 would include 1 and be unresolved: final/cgo mean latency on range100" in text
    assert "no: excludes 1" in text and "not assessable" in text and "not resolved as published" in text


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
