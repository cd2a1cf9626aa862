"""Damaged labels of the aggregate, and runs that are nobody's: `python -m analysis labels` names each."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.labels import check_labels
from runner.store import Store
from tests.campaigns import Campaign


@pytest.fixture
def copy(closed: Campaign, tmp_path: Path) -> Campaign:
    return closed.copy(tmp_path)


def rewritten(campaign: Campaign, change: Callable[[list[list[str]]], None]) -> str:
    """Change the rows of metrics.csv (header first) and ask for the labels; returns what is found."""
    path = campaign.folder / "metrics.csv"
    rows = list(csv.reader(io.StringIO(path.read_text())))
    change(rows)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    path.write_text(out.getvalue())
    store = Store.open(campaign.folder)
    found = check_labels(store, store.plan()).problems
    assert found
    return "\n".join(found)


def _set(row: int, column: int, value: str) -> Callable[[list[list[str]]], None]:
    return lambda rows: rows[row].__setitem__(column, value)


LABEL_DAMAGE: dict[str, tuple[Callable[[list[list[str]]], None], str]] = {
    "case": (_set(5, 1, "Scan/serial"), "foreign: metrics.csv:6: phase T, case Scan/serial"),
    "arm": (_set(5, 2, "nobody"), "foreign: metrics.csv:6: phase T, case Load, block 1, arm nobody"),
    "block": (_set(5, 3, "3"), "foreign: metrics.csv:6: phase T, case Load, block 3"),
    "value": (_set(5, 8, "1.5"), "foreign: metrics.csv:6: "),
    "missing": (lambda rows: rows.__delitem__(5), "missing: metrics.csv has no row for phase T, case Load, block 1"),
    "duplicate": (lambda rows: rows.insert(5, rows[5]), "duplicate: metrics.csv:7: phase T, case Load, block 1"),
}


@pytest.mark.parametrize("kind", LABEL_DAMAGE)
def test_labels_names_damaged_rows(copy: Campaign, kind: str) -> None:
    change, expected = LABEL_DAMAGE[kind]
    assert expected in rewritten(copy, change)


def test_labels_names_a_foreign_run_folder(copy: Campaign) -> None:
    assert copy.python("-m", "analysis", "labels", str(copy.folder)).returncode == 0
    runs = copy.folder / "runs" / "T" / "Load"
    shutil.copytree(runs / "1-one", runs / "9-one")
    done = copy.python("-m", "analysis", "labels", str(copy.folder))
    assert done.returncode == 1
    assert "problem: foreign: runs/T/Load/9-one is no run of this plan" in done.stdout
