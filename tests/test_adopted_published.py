"""The published campaign when raw logs come: its own phase notebook recomputes them and checks the published figures.

The logs are made up by this test, from the published ratios, and never leave its temporary folder: whoever has the real ones
would bring them in the same form.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import nbformat
import pytest

from analysis import page, published_check, rendering
from analysis.published import read
from analysis.report import PhaseReport, open_report
from runner.store import Store
from tests.bundled import ROOT
from tests.test_adopted_pages import adopt
from tests.test_notebook import papermill, shown

PUBLISHED = ROOT / "data" / "hcloud-rebench-20261014"
LOGS = "{phase}/{case}/{block}-{arm}/stdout.txt"
NS = {  # before's ns/op, final/before, final/legacy
    "SaveRecord": (1e6, 1.0, 1.03), "SaveRecordWithIndex": (1.2e6, 1.01, 1.02), "SaveSplitRecord": (9e6, 0.99, 1.0),
    "LoadRecord": (767e3, 0.978, 1.138), "ScanRecords": (2e6, 0.985, 1.0),
    "ScanRecordsSplitVersioned": (3e6, 0.976, 1.01), "ScanIndexRecords/serial": (249e6, 252.567 / 249, 1.477),
    "ScanIndexRecords/pipelined": (44e6, 0.972, 0.647),
}  # fmt: skip
BYTES = dict.fromkeys(NS, 0.8) | {"SaveSplitRecord": 0.998}
ALLOCS = dict.fromkeys(NS, 0.85) | {
    "LoadRecord": 0.793, "ScanIndexRecords/serial": 48917 / 75140, "ScanIndexRecords/pipelined": 0.627
}  # fmt: skip
NOISE = (1.001, 1 / 1.001, 1.002, 1 / 1.002, 1.0005, 1 / 1.0005)  # of final's blocks: the mean of their logs is 0
DIFFERING = [  # what the made-up values cannot have at the same time as the ratios
    "final/legacy ns/op, SaveRecord: smallest with one block left out",
    "final/legacy ns/op, SaveRecord: largest with one block left out",
    "final/legacy ns/op, SaveRecord: largest ratio of a block",
    "LoadRecord, legacy: us/op",
]


def values(case: str) -> Iterator[tuple[str, float, float, float]]:
    """Each arm's ns/op, B/op and allocs/op."""
    before, allocs = NS[case][0], 75140 if case == "ScanIndexRecords/serial" else 1000
    final = before * NS[case][1]
    yield "before", before, 1e6, allocs
    yield "final", final, 1e6 * BYTES[case], allocs * ALLOCS[case]
    yield "legacy", final / NS[case][2], 1e6, 41250 if case == "ScanIndexRecords/serial" else 900


def made_up(folder: Path, cut: str = "") -> Path:
    """Logs of phase B in Go's own form: six blocks, three arms, three repeats; one run may be cut off."""
    for case in NS:
        for arm, ns, size, allocs in values(case):
            for block, noise in enumerate(NOISE, start=1):
                own = f"{ns * noise if arm == 'final' else ns:.3f} ns/op"
                line = f"Benchmark{case}-8 \t 1000\t {own}\t {size:.0f} B/op\t {allocs:.0f} allocs/op\n"
                name = LOGS.format(phase="B", case=quote(case, safe=""), block=block, arm=arm)
                text = f"goos: linux\n{3 * line}PASS\n"
                path = folder / name
                path.parent.mkdir(parents=True)
                path.write_text(f"goos: linux\n{line}panic: boom\n" if name == cut else text)
    return folder


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published campaign with made-up logs of one phase."""
    folder = tmp_path_factory.mktemp("published")
    copied = folder / PUBLISHED.name
    copied.mkdir()
    for name in ("plan.toml", "published.toml"):
        shutil.copyfile(PUBLISHED / name, copied / name)
    return adopt(made_up(folder / "logs"), copied, LOGS)


@pytest.fixture(scope="module")
def report(campaign: Path) -> PhaseReport:
    return open_report(campaign, "B")


def test_the_phase_is_recomputed_with_its_blocks(report: PhaseReport) -> None:
    assert report.store.state() == "adopted"
    assert (report.paired, report.ordered, report.primary) == (True, False, "percentile")
    found = {(e.contrast, e.case): e for e in report.estimates if e.metric == "ns/op"}
    assert len(found) == 16
    for case, (_, to_before, to_legacy) in NS.items():
        assert found["final/before", case].point == pytest.approx(to_before, rel=1e-6)
        assert found["final/legacy", case].point == pytest.approx(to_legacy, rel=1e-6)
        assert len(found["final/before", case].blocks) == 6


def test_each_figure_that_differs_is_named_and_no_other(report: PhaseReport) -> None:
    published = read(report.store, report.plan)
    rows = published_check.compare(published, "B", report.estimates, report.absolutes)
    differing = [row.what for row in rows if row.status == published_check.DIFFERS]
    assert sorted(differing) == sorted(DIFFERING)
    assert [row.what for row in rows if row.status == published_check.UNKNOWN] == []
    legacy = next(row for row in rows if row.what == "LoadRecord, legacy: us/op")
    assert legacy.published == "661"
    assert legacy.recomputed == pytest.approx(767 * 0.978 / 1.138, rel=1e-4)
    text = repr(published_check.section(report))
    assert f"{len(DIFFERING)} differ by more than rounding" in text


def test_the_phases_own_notebook_shows_it(campaign: Path, report: PhaseReport, tmp_path: Path) -> None:
    notebook = page.notebook_of(report.plan, "B")
    assert notebook.name == "phase_b.ipynb"
    out = tmp_path / "out.ipynb"
    done = papermill(out, "-p", "campaign", str(campaign), notebook=str(notebook))
    assert done.returncode == 0, done.stderr[-2000:]
    rendering.check_executed(nbformat.read(out, as_version=4), "phase_b.ipynb")
    text = shown(out)
    assert "Checked against the published figures (adopted, not executed here)" in text
    assert "LoadRecord, legacy: us/op" in text


def test_a_phase_without_a_notebook_of_its_own_shows_it_too(report: PhaseReport) -> None:
    """Its notebook calls `page.specific`; the phase's own one has it under the results. It stands there once."""
    heading = "Checked against the published figures (adopted, not executed here)"
    assert heading in repr(page.results(report))
    assert heading in repr(page.specific(report))
    generic = replace(report, identifier="new", plan=report.plan.model_copy(update={"phases": {"new": report.phase}}))
    assert page.notebook_of(generic.plan, "new").name == "phase.ipynb"
    assert heading not in repr(page.results(generic))


def test_phases_without_logs_stay_published(
    campaign: Path, report: PhaseReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "PAGES", tmp_path)
    monkeypatch.setattr(rendering, "peer_of", lambda plan: None)
    store = Store(campaign)
    assert rendering.measured(store, report.plan) == ["B"]
    rendering.render_campaign(store, lambda text: None)
    names = {path.name for path in (tmp_path / PUBLISHED.name).iterdir()}
    assert {"phase_b.ipynb", "phase_a2.md", "index.md"} <= names
    assert "phase_b.md" not in names
    index = (tmp_path / PUBLISHED.name / "index.md").read_text(encoding="utf-8")
    assert "The raw logs of phase B were adopted: brought here, not executed here." in index


def test_a_run_that_was_cut_off_is_a_failed_one(tmp_path: Path) -> None:
    copied = tmp_path / PUBLISHED.name
    copied.mkdir()
    for name in ("plan.toml", "published.toml"):
        shutil.copyfile(PUBLISHED / name, copied / name)
    adopt(made_up(tmp_path / "logs", cut="B/LoadRecord/3-final/stdout.txt"), copied, LOGS)
    report = open_report(copied, "B")
    (lost,) = report.data.missing.items()
    assert lost[0] == ("LoadRecord", 3, "final") and "panic" in lost[1]
    estimate = next(e for e in report.estimates if (e.case, e.metric) == ("LoadRecord", "ns/op"))
    assert estimate.blocks == (1, 2, 4, 5, 6)
    assert estimate.point is not None and math.isfinite(estimate.point)


def test_the_published_campaign_here_has_no_logs() -> None:
    assert Store(PUBLISHED).state() == "figures-only"
    assert sorted(path.name for path in PUBLISHED.iterdir()) == ["plan.toml", "published.toml"]
