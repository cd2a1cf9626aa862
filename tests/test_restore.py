"""Lost labels: the label columns of a copy of the real aggregate, damaged in every way, are found again or refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from analysis import drill, limits, restore
from analysis.drill import CASE, DAMAGES, Table, reordered, written
from analysis.report import open_report
from analysis.restore import Row
from runner.errors import DataError, WrongUse
from runner.store import Store
from tests.bundled import CAMPAIGN, ROOT

ORIGINAL = Store(CAMPAIGN).metrics_path.read_bytes()


@cache
def expected() -> list[Row]:
    store = Store(CAMPAIGN)
    return restore.evidence(store, store.plan(), store.ledger())


def table() -> Table:
    return drill.table(ORIGINAL)


LABELS_ALONE = {damage.name: damage.make for damage in DAMAGES[: [d.name for d in DAMAGES].index("a row lost")]}
UNDONE: dict[str, Callable[[Table], bytes | None]] = {
    **LABELS_ALONE,
    "rows in another order": lambda rows: written(reordered(rows)),
    "CRLF": lambda rows: ORIGINAL.replace(b"\n", b"\r\n"),
    "nothing": lambda rows: ORIGINAL,
}


def damaged_by(kind: str) -> bytes:
    data = UNDONE[kind](table())
    assert data is not None
    return data


@pytest.mark.parametrize("kind", UNDONE)
def test_every_damage_of_labels_is_undone_and_no_value_changes(kind: str) -> None:
    damaged = restore.read(damaged_by(kind), "metrics.csv")
    done = restore.restore(damaged, expected(), "metrics.csv")
    assert (done.rows, done.expected) == (len(table()) - 1, len(table()) - 1)
    assert done.value_sha256 == restore.value_digest(damaged.texts)
    if kind in (
        "rows in another order",
        "out of order",
    ):  # the rows stay where they were found, with labels of their own values
        assert sorted(done.text.splitlines()) == sorted(ORIGINAL.decode().splitlines())
    else:
        assert done.text.encode() == ORIGINAL
    expected_columns = {"nothing": set(), "CRLF": set(), "arm and case swapped": {"case", "arm"}}
    if kind in expected_columns:
        assert set(done.changed) == expected_columns[kind]


def test_what_was_changed_is_counted_by_column_and_case() -> None:
    rows = table()
    damaged = restore.read(damaged_by("one case renamed"), "metrics.csv")
    done = restore.restore(damaged, expected(), "metrics.csv")
    renamed = [row for row in rows[1:] if row[CASE] == rows[1][CASE]]
    assert done.changed == {"case": len(renamed)}
    assert set(done.cases) == {(row[0], row[1]) for row in renamed}
    assert (
        f"{len(rows) - 1} rows of {len(rows) - 1} have the labels of the sealed plan; changed: case in {len(renamed)}."
        in done.sentence()
    )


def refused(data: bytes) -> DataError:
    with pytest.raises(DataError) as raised:
        restore.restore(restore.read(data, "metrics.csv"), expected(), "metrics.csv")
    return raised.value


def test_a_changed_value_is_no_label_and_refused() -> None:
    rows = table()
    rows[5][8] = "1.5"
    error = refused(written(rows))
    assert error.problem == "no raw log holds these values"
    assert "line 6: " in error.found


def test_a_row_that_is_there_twice_is_refused() -> None:
    rows = table()
    error = refused(written([*rows, rows[7]]))
    assert error.problem == "more rows with these values than the raw logs hold"


def test_rows_that_are_missing_are_refused_where_the_others_are_not_decided() -> None:
    rows = table()
    counts: dict[tuple[str, ...], int] = {}
    for row in rows[1:]:
        counts[tuple(row[6:])] = counts.get(tuple(row[6:]), 0) + 1
    twice = next(i for i, row in enumerate(rows[1:], 1) if counts[tuple(row[6:])] > 1)
    error = refused(written([*rows[:twice], *rows[twice + 1 :]]))
    assert error.problem == "the values do not decide between several runs, some of whose rows are missing"
    once = next(i for i, row in enumerate(rows[1:], 1) if counts[tuple(row[6:])] == 1)
    done = restore.restore(restore.read(written([*rows[:once], *rows[once + 1 :]]), "x"), expected(), "x")
    assert (done.rows, done.expected) == (len(rows) - 2, len(rows) - 1)


@pytest.mark.parametrize(
    ("data", "where", "problem"),
    [
        (b"", "metrics.csv:1", "not the heading"),
        (b"case,repeat,metric,value\n", "metrics.csv:1", "not the heading"),
        (b"case,repeat,metric,value,value,iterations\n", "metrics.csv:1", "not the heading"),
        (b"case,repeat,metric,value,iterations\na,0,ns/op,1.5\n", "metrics.csv:2", "not a row"),
        (b"case,repeat,metric,value,iterations\na,0,ns/op,fast,10\n", "metrics.csv:2", "value column that is damaged"),
    ],
)
def test_what_is_no_aggregate_is_refused_with_its_line(data: bytes, where: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as raised:
        restore.read(data, "metrics.csv")
    assert raised.value.where == where


def analysis(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "analysis", "labels", str(CAMPAIGN), *arguments]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_writes_a_working_copy_and_leaves_the_campaign(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.csv"
    damaged.write_bytes(damaged_by("shadowed"))
    target = tmp_path / "restored"
    done = analysis("--aggregate", str(damaged), "--restore", str(target))
    assert (done.returncode, done.stderr) == (0, "")
    count = len(table()) - 1
    assert done.stdout.startswith(
        f"{count} rows of {count} have the labels of the sealed plan; changed: case in {count}."
    )
    assert (target / "metrics.csv").read_bytes() == ORIGINAL
    record = json.loads((target / "restored.json").read_text())
    assert (record["campaign"], record["rows"], record["changed"]) == (CAMPAIGN.name, count, {"case": count})
    assert {"phase": "B", "case": "LoadRecord"} in record["cases"]
    assert Store(CAMPAIGN).metrics_path.read_bytes() == ORIGINAL
    again = analysis("--aggregate", str(damaged), "--restore", str(target))
    assert again.returncode == 2 and "is there already" in again.stderr


def test_adopted_logs_whose_labels_were_restored_say_so(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.csv"
    renamed = drill.of_case(lambda i, column: column[i].replace("LoadRecord", "Load"))
    damaged.write_bytes(renamed(table()))
    restore.restore_into(Store(CAMPAIGN), damaged, tmp_path / "restored")
    campaign = tmp_path / CAMPAIGN.name
    campaign.mkdir()
    shutil.copyfile(CAMPAIGN / "plan.toml", campaign / "plan.toml")
    maps = ("--map", "metrics.csv", "--map", "restored.json:as=restored")
    argv = [sys.executable, "-m", "runner", "adopt", str(tmp_path / "restored"), "--into", str(campaign), *maps]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    verified = subprocess.run(
        [*argv[:3], "verify", str(campaign)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout
    found, own = open_report(campaign, "B"), open_report(CAMPAIGN, "B")
    for estimate, original in zip(found.estimates, own.estimates, strict=True):
        kinds = [warning.kind for warning in estimate.warnings]
        assert (estimate.point, estimate.t) == (original.point, original.t)
        assert ("labels-restored" in kinds) == (estimate.case == "LoadRecord")
    assert [
        text for text in limits.computed_limits(found) if text.startswith("Labels of LoadRecord were lost and restored")
    ]
    assert not any("lost and restored" in text for text in limits.computed_limits(own))


@pytest.mark.parametrize("text", ["[]", '{"cases": [{"phase": "B"}]}', "{}"])
def test_what_is_no_record_of_restored_labels_is_refused(text: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "metrics.csv").write_bytes(ORIGINAL)
    (logs / "restored.json").write_text(text)
    campaign = tmp_path / CAMPAIGN.name
    campaign.mkdir()
    shutil.copyfile(CAMPAIGN / "plan.toml", campaign / "plan.toml")
    maps = ("--map", "metrics.csv", "--map", "restored.json:as=restored")
    argv = [sys.executable, "-m", "runner", "adopt", str(logs), "--into", str(campaign), *maps]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "restored.json: not a record as=restored" in done.stderr
    assert sorted(path.name for path in campaign.iterdir()) == ["plan.toml"]


def test_wrong_use(tmp_path: Path) -> None:
    inside = analysis("--restore", str(CAMPAIGN / "restored"))
    assert inside.returncode == 2 and "lies in the campaign" in inside.stderr
    alone = analysis("--aggregate", "x.csv")
    assert alone.returncode == 2 and "--restore DIR" in alone.stderr
    with pytest.raises(WrongUse, match="no such file"):
        restore.restore_into(Store(CAMPAIGN), tmp_path / "none.csv", tmp_path / "out")
    published = Store(ROOT / "data" / "hcloud-rebench-20261014")
    (tmp_path / "metrics.csv").write_bytes(ORIGINAL)
    with pytest.raises(WrongUse, match="not executed here"):
        restore.restore_into(published, tmp_path / "metrics.csv", tmp_path / "out")
