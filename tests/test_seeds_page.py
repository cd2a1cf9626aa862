"""The pages on seeds and calibration: their sentences follow from what was computed, and stale ones are made again."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis import calibration_page, labels_page, rendering, seeds_page
from analysis.calibration import NOISES, Cell
from analysis.report import PhaseReport, open_report
from analysis.sweep import ClaimSweep, Ends, Sweep
from analysis.tables import text_only
from runner.store import Store
from tests.bundled import CAMPAIGN


@pytest.fixture(scope="module")
def reports() -> dict[str, PhaseReport]:
    return {name: open_report(CAMPAIGN, name) for name in ("B", "N")}


def ends(case: str, moves: float, excludes: int) -> Ends:
    return Ends(case, "ns/op", "new/old", (0.9, 1.0), (0.89, 0.91), (0.99, 1.01), 0.1, moves, excludes, 200)


def test_what_moves_is_told_with_its_place() -> None:
    found = {
        "P": Sweep((0,), (ends("one", 0.01, 0), ends("two", 0.03, 200)), ()),
        "Q": Sweep((0,), (ends("x", 0.02, 7),), ()),
    }
    first, second = seeds_page.moved(found)
    assert first == (
        "Of 3 intervals an end moves by 2.0% of the interval's width in the median, and by 3.0% at most "
        "(phase P, new/old two, ns/op)."
    )
    assert (
        second
        == "Whether 1 is excluded depends on the seed in one interval: phase Q, new/old x, ns/op (7 of 200 exclude it)."
    )
    assert "No interval excludes 1 under one seed" in seeds_page.moved({"P": found["P"]})[1]
    assert seeds_page.moved({"P": Sweep((0,), (), ())}) == ["No estimate has a percentile interval."]


def test_claims_that_flip_are_named() -> None:
    steady = ClaimSweep("P1", "x", "supported", {"supported": 200})
    flipping = ClaimSweep("P2", "y", "nominal-only", {"nominal-only": 180, "unresolved": 20})
    (told,) = seeds_page.flips({"P": Sweep((0,), (), (steady, flipping))})
    assert told == "1 of 2 claims change their status with the seed: P2 (nominal only under 180, unresolved under 20)."
    (told,) = seeds_page.flips({"P": Sweep((0,), (), (steady,))})
    assert told == "None of 1 claims changes its status under any of the 200 seeds."


def test_the_page_on_seeds_has_every_interval_and_claim(reports: dict[str, PhaseReport]) -> None:
    text = text_only(seeds_page.page(reports))
    for report in reports.values():
        with_interval = [e for e in report.estimates if e.percentile is not None]
        assert f"{report.phase.title}: {len(with_interval)} intervals" in text
        assert all(claim.text in text for claim in report.claims)
    assert "The plan's is 391706; here it is each of 200 others, 0 to 199" in text


def test_a_campaign_without_claims_has_a_page_that_can_be_built(reports: dict[str, PhaseReport]) -> None:
    bare = reports["N"].phase.model_copy(update={"claims": ()})
    plan = reports["N"].plan.model_copy(update={"phases": {"N": bare}})
    page = seeds_page.page({"N": replace(reports["N"], plan=plan)})
    assert "The plan has no claim." in page
    assert re.search(r"``````\{raw\} html\n\s*``````", page) is None


def test_the_page_on_calibration_says_that_it_is_simulated(reports: dict[str, PhaseReport]) -> None:
    page = calibration_page.page(reports)
    assert page.startswith("# Calibration, simulated\n")
    headings = re.findall(r"^## .*", page, re.M)
    assert headings == ["## 6 blocks (simulated): phases B and N"]
    text = text_only(page)
    assert calibration_page.MEASURED in text
    assert re.search(r"rejects a true 1 in 1[345]\.\d% of campaigns", text)
    assert re.search(r"finds four of five true effects of 1\.4\d block standard deviations", text)


def test_without_null_contrasts_the_own_noise_is_not_there(reports: dict[str, PhaseReport]) -> None:
    noises, series = calibration_page.noises_of({"B": reports["B"]})
    assert (list(noises), series) == (list(NOISES), 0)
    noises, series = calibration_page.noises_of(reports)
    assert list(noises) == [*NOISES, calibration_page.MEASURED, calibration_page.ALIKE]
    null = reports["N"]
    assert series == sum(e.metric == null.phase.primary_metric for e in null.estimates)


def test_coverage_is_told_from_least_to_most() -> None:
    cells = [
        Cell(noise, kind, 6, share, 1.0, 100)
        for kind in calibration_page.KINDS
        for noise, share in (("a", 0.9), ("b", 0.8))
    ]
    assert calibration_page.sentences(cells, 0.95)[0] == "The t interval (nominal 95%) covers 80.0% (b) to 90.0% (a)."


def test_pages_are_made_again_when_stale_or_touched_and_only_then(
    reports: dict[str, PhaseReport], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, made = Store(CAMPAIGN), []
    plan = store.plan()
    monkeypatch.setattr(rendering, "_reports", lambda store, plan: reports)
    monkeypatch.setattr(seeds_page, "page", lambda found: made.append(found) or "# Seeds\n")
    monkeypatch.setattr(calibration_page, "page", lambda found: "# Calibration\n")
    monkeypatch.setattr(labels_page, "page", lambda *found: made.append(found) or "# Labels\n")
    for expected in (2, 2):
        rendering.write_beyond(store, plan, tmp_path, lambda text: None)
        assert len(made) == expected
    page = tmp_path / "seeds.md"
    page.write_text(page.read_text().replace("Seeds", "Weeds"))
    rendering.write_beyond(store, plan, tmp_path, lambda text: None)
    assert len(made) == 3 and "Weeds" not in page.read_text()
    assert (tmp_path / "labels.md").read_text().startswith("# Labels\n")
    monkeypatch.setattr(rendering, "_reports", lambda store, plan: {})  # a campaign without a phase that has blocks
    rendering.write_beyond(store, plan, tmp_path, lambda text: None)
    assert not list(tmp_path.iterdir())
