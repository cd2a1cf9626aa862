"""The drill on lost labels: what is counted is what was done, and the page says just that."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis import drill, labels_page, overview, restore
from analysis.drill import DAMAGES, Drill
from analysis.tables import text_only
from runner.errors import DataError
from runner.store import Store
from tests.bundled import CAMPAIGN
from tests.campaigns import Campaign

REFUSED = ("a row lost, of several alike", "a row twice", "a value changed", "UTF-16")


def of(folder: Path) -> Drill:
    store = Store(folder)
    return drill.drill(store, store.plan(), store.ledger())


@pytest.fixture(scope="module")
def found() -> Drill:
    return of(CAMPAIGN)


def test_every_damage_is_seen_and_undone_or_refused(found: Drill) -> None:
    """Labels of a copy of the bundled aggregate, damaged in 17 ways: each is named by the checks, and undone or refused."""
    assert [outcome.damage for outcome in found.outcomes] == list(DAMAGES)
    assert found.rows == len(Store(CAMPAIGN).metrics_path.read_text().splitlines()) - 1
    for outcome in found.outcomes:
        assert outcome.report.problems and outcome.damaged, outcome.damage.name
        if outcome.damage.name in REFUSED:
            assert (outcome.restored, outcome.after) == (None, None) and outcome.refused
        else:
            assert outcome.before == outcome.after and outcome.same and not outcome.refused
            assert outcome.restored == found.rows - (outcome.damage.name == "a row lost")


def test_damaged_rows_are_counted(found: Drill) -> None:
    by_name = {outcome.damage.name: outcome.damaged for outcome in found.outcomes}
    assert [by_name[name] for name in ("shadowed", "empty", "every label", "missing")] == [found.rows] * 4
    assert by_name["a row twice"] == by_name["a value changed"] == 1
    cases = [row[1] for row in drill.table(Store(CAMPAIGN).metrics_path.read_bytes())[1:]]
    assert by_name["one case renamed"] == cases.count(cases[0])
    assert by_name["constant"] == len(cases) - cases.count(cases[0])
    assert by_name["shifted by one"] == sum(a != b for a, b in zip(cases, cases[-1:] + cases, strict=False))


def test_the_slip_is_the_one_that_happened() -> None:
    rows = drill.table(
        drill.shadowed([list(restore.LABELS + restore.VALUES), ["B", "Load", "one"], ["B", "Scan", "two"]])
    )
    assert [row[1] for row in rows[1:]] == [drill.CPU_FIELDS[-1]] * 2


def test_the_page_has_every_damage_with_its_numbers(found: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drill, "drill", lambda *_: found)
    store = Store(CAMPAIGN)
    page = text_only(labels_page.page(store, store.plan(), store.ledger()))
    assert "Everything on this page was done to copies, on purpose" in page
    for outcome in found.outcomes:
        line = next(line for line in page.splitlines() if line.startswith(outcome.damage.name + outcome.damage.what))
        assert f"\t{outcome.damaged}\t" in line
        if outcome.restored:
            assert outcome.before is not None
            assert line.endswith(f"\t{outcome.restored} of {found.rows}\t{2 * outcome.before[:12]}")
        else:
            assert f"\trefused: {outcome.refused}\t" in line and line.endswith("nothing written")
    assert f"The checks named what does not hold in {len(DAMAGES)} of {len(DAMAGES)} damaged copies." in page
    done = len(DAMAGES) - len(REFUSED)
    assert f"Restored: {done} of {len(DAMAGES)}. In {done} of these {done} every row" in page


def test_what_the_checks_do_not_see_or_a_changed_value_would_be_told(found: Drill) -> None:
    first, *others = found.outcomes
    blind = replace(first, report=type(first.report)(), after="0" * 64, same=False)
    told = labels_page.sentences(Drill((blind, *others), found.rows))
    many, done = len(DAMAGES), len(DAMAGES) - len(REFUSED)
    assert told[0] == f"The checks named what does not hold in {many - 1} of {many} damaged copies."
    assert f"In {done - 1} of these {done} every row" in told[1] and f"in {done - 1} the value columns" in told[1]
    assert labels_page.said([]) == ["every label holds"]


def test_a_campaign_whose_own_labels_do_not_hold_has_no_drill(closed: Campaign, tmp_path: Path) -> None:
    copy = closed.copy(tmp_path)
    path = copy.folder / "metrics.csv"
    path.write_text(path.read_text().replace(",Load,", ",Loud,", 1))
    with pytest.raises(DataError, match="labels do not hold"):
        of(copy.folder)


def test_damages_that_a_campaign_cannot_have_are_left_out(closed: Campaign) -> None:
    found = of(closed.folder)  # its made-up values are all different
    names = [outcome.damage.name for outcome in found.outcomes]
    alike = "a row lost, of several alike"
    assert names == [damage.name for damage in DAMAGES if damage.name != alike or alike in names]
    rows = drill.table((closed.folder / "metrics.csv").read_bytes())
    assert drill.without_row(alike=True)([rows[0], *{tuple(r[6:]): r for r in rows[1:]}.values()]) is None


def test_an_aggregate_that_changes_meanwhile_is_noticed(closed: Campaign, tmp_path: Path) -> None:
    copy = closed.copy(tmp_path)
    path = copy.folder / "metrics.csv"

    def meddle(rows: drill.Table) -> bytes:
        path.write_bytes(path.read_bytes() + b"x")
        return drill.written(rows)

    store = Store(copy.folder)
    with pytest.raises(DataError, match="changed while copies of it were damaged"):
        drill.drill(store, store.plan(), store.ledger(), [drill.Damage("meddled", "x", meddle)])


def test_campaigns_from_elsewhere_and_shortened_ones_have_no_page() -> None:
    store = Store(CAMPAIGN)
    plan, reports = store.plan(), {"B": object()}
    assert overview.has_drill(store, plan, reports)  # type: ignore[arg-type]
    short = plan.model_copy(update={"campaign": plan.campaign.model_copy(update={"short": "x"})})
    assert not overview.has_drill(store, short, reports)  # type: ignore[arg-type]
    assert not overview.has_drill(store, plan, {})
    brought = Store(CAMPAIGN.parent / "hcloud-rebench-20261014")
    assert not overview.has_drill(brought, plan, reports)  # type: ignore[arg-type]
    assert not re.search("labels", str(overview.beyond(drilled=False)))
    assert 'href="labels.html"' in "".join(overview.beyond(drilled=True))
