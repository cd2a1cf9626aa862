"""Labels are compared witness by witness: what holds is counted, what does not is named, nothing is raised on the way."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from analysis import labels as checked
from analysis.labels import LabelReport, assert_labels, check_adopted, check_labels
from analysis.model import Estimate, EstimateWarning
from runner.errors import DataError
from runner.files import file_sha256
from runner.ledger import Ledger
from runner.store import AdoptedRun, AdoptedValue, Adoption, Labels, Store
from tests.campaigns import Campaign

RUNS, ROWS = 18, 54  # of the tiny campaign: two cases, three blocks, three arms; three values of each run


@pytest.fixture
def copy(closed: Campaign, tmp_path: Path) -> Campaign:
    return closed.copy(tmp_path)


def found(campaign: Campaign, ledger: Ledger | None = None) -> LabelReport:
    store = Store.open(campaign.folder)
    return check_labels(store, store.plan(), ledger)


def ledger_of(campaign: Campaign) -> tuple[Ledger, Labels]:
    """The ledger, to be changed, and the first run of case Load, block 1, arm one."""
    ledger = Store.open(campaign.folder).ledger()
    run = next(entry for entry in ledger.labels() if (entry.case, entry.block, entry.arm) == ("Load", 1, "one"))
    return ledger, run


def rows_of(campaign: Campaign) -> list[str]:
    return (campaign.folder / "metrics.csv").read_text().splitlines(keepends=True)


def without_rows(campaign: Campaign, *starts: str) -> int:
    """Take the rows that start so out of the aggregate; how many there were."""
    rows = rows_of(campaign)
    kept = [row for row in rows if not row.startswith(starts)]
    (campaign.folder / "metrics.csv").write_text("".join(kept))
    return len(rows) - len(kept)


# -- what holds


def test_everything_holds_and_is_counted(closed: Campaign) -> None:
    report = found(closed)
    assert report == LabelReport(RUNS, RUNS, ROWS, ROWS, adopted=False, problems=[])
    assert report.sentence() == (
        f"All {ROWS} rows of metrics.csv carry the case, arm and block of the sealed plan; each of the "
        f"{RUNS} runs that were executed has exactly one record."
    )
    store = Store.open(closed.folder)
    assert assert_labels(store, store.plan()) == report


def test_runs_that_a_rule_kept_from_being_executed_are_counted_and_no_problem(copy: Campaign) -> None:
    ledger, run = ledger_of(copy)
    del ledger.ends[run], ledger.started[run]
    ledger.void[run.phase, run.case, run.block] = "the runner was killed"
    lost = without_rows(copy, "T,Load,one,1,")
    shutil.rmtree(Store.open(copy.folder).run_folder(run))
    report = found(copy, ledger)
    assert report == LabelReport(RUNS, RUNS - 1, ROWS - lost, ROWS - lost)
    assert report.sentence().endswith(
        f"the {RUNS - 1} runs that were executed has exactly one record. 1 more were planned and, by the plan's rules, "
        "not executed."
    )


def test_a_failed_run_has_a_record_and_no_rows(copy: Campaign) -> None:
    ledger, run = ledger_of(copy)
    ledger.ends[run] = replace(ledger.ends[run], outcome="failed")
    lost = without_rows(copy, "T,Load,one,1,")
    assert found(copy, ledger) == LabelReport(RUNS, RUNS, ROWS - lost, ROWS - lost)


def test_rows_of_a_failed_run_are_nobodys(copy: Campaign) -> None:
    ledger, run = ledger_of(copy)
    ledger.ends[run] = replace(ledger.ends[run], outcome="failed")
    report = found(copy, ledger)
    store = Store.open(copy.folder)
    with pytest.raises(DataError, match="3 labels do not hold"):
        assert_labels(store, store.plan(), ledger)
    mine = [i for i, row in enumerate(rows_of(copy), 1) if row.startswith("T,Load,one,1,")]
    assert [text.partition(": phase")[0] for text in report.problems] == [f"foreign: metrics.csv:{i}" for i in mine]
    assert report.rows_expected == ROWS - len(mine) < report.rows == ROWS


# -- what does not


@pytest.mark.parametrize("closed_by", [None, {"event": "close"}])
def test_a_run_without_a_record_is_missing_once_the_campaign_is_closed(
    copy: Campaign, closed_by: dict[str, str] | None
) -> None:
    ledger, run = ledger_of(copy)
    ledger.closed = closed_by
    del ledger.ends[run], ledger.started[run]
    without_rows(copy, "T,Load,one,1,")
    shutil.rmtree(Store.open(copy.folder).run_folder(run))
    expected = ["missing: no record of phase T, case Load, block 1, arm one"] if closed_by else []
    report = found(copy, ledger)
    assert report.problems == expected
    assert report.recorded_runs == RUNS - 1


def test_a_record_of_another_run_is_named_and_the_others_are_still_compared(copy: Campaign) -> None:
    store = Store.open(copy.folder)
    ledger, run = ledger_of(copy)
    other = next(entry for entry in ledger.labels() if (entry.case, entry.block, entry.arm) == ("Load", 1, "two"))
    record = store.run_folder(run) / "run.json"
    shutil.copyfile(store.run_folder(other) / "run.json", record)
    ledger.ends[run] = replace(
        ledger.ends[run], files=ledger.ends[run].files | {"run.json": file_sha256(record)}
    )  # even the journal agrees
    lost = without_rows(copy, "T,Load,one,1,")
    report = found(copy, ledger)
    assert report.problems == [
        "foreign: runs/T/Load/1-one holds the record of phase T, case Load, block 1, arm two",
    ]
    assert (report.recorded_runs, report.rows_expected) == (RUNS - 1, ROWS - lost)


def test_labels_that_are_not_complete_are_named_with_their_file(copy: Campaign) -> None:
    store = Store.open(copy.folder)
    ledger, run = ledger_of(copy)
    record = store.run_folder(run) / "run.json"
    record.write_text('{"labels": {}}')
    ledger.ends[run] = replace(ledger.ends[run], files=ledger.ends[run].files | {"run.json": file_sha256(record)})
    without_rows(copy, "T,Load,one,1,")
    (problem,) = found(copy, ledger).problems
    assert problem.startswith("runs/T/Load/1-one/run.json: labels are not complete")


def test_raw_logs_that_changed_are_named_and_their_rows_have_no_witness(copy: Campaign) -> None:
    _, run = ledger_of(copy)
    path = Store.open(copy.folder).run_folder(run) / "stdout.txt"
    path.write_bytes(path.read_bytes() + b"\n")
    report = found(copy)
    assert report.problems[0].startswith(f"{path}: not the file that the journal recorded")
    assert report.recorded_runs == RUNS
    assert report.rows - report.rows_expected == len(report.problems) - 1 == 3
    store = Store.open(copy.folder)
    with pytest.raises(DataError) as raised:
        assert_labels(store, store.plan())
    error = raised.value
    assert (error.where, error.problem) == (str(store.folder), "4 labels do not hold")
    assert error.found == "\n    ".join(report.problems)
    assert error.remedy == ("the raw logs are the evidence; restore the file that is named from the published campaign")
    assert report.sentence() == f"4 labels do not hold: {report.problems[0]}"


def test_at_most_twenty_problems_are_shown() -> None:
    report = LabelReport(problems=[f"problem {n}" for n in range(1, 31)])
    with pytest.raises(DataError, match="30 labels do not hold") as raised:
        checked.asserted(Store(Path("nowhere")), report)
    assert raised.value.found.splitlines()[-1].strip() == "problem 20"


def test_an_aggregate_that_is_gone(copy: Campaign) -> None:
    (copy.folder / "metrics.csv").unlink()
    assert found(copy).problems == ["missing: metrics.csv"]
    ledger, _ = ledger_of(copy)
    nothing = Ledger(ledger.blocks, started=ledger.started)
    report = found(copy, nothing)
    assert (report.problems, report.rows, report.rows_expected) == ([], 0, 0)


def test_rows_that_are_none_are_named_with_their_line(copy: Campaign) -> None:
    rows = rows_of(copy)
    assert rows[3].startswith("T,Load,")
    cells = rows[3].split(",")
    rows[3] = ",".join([*cells[:3], "first", *cells[4:]])
    rows.insert(1, "T,Load\n")
    (copy.folder / "metrics.csv").write_text("".join(rows))
    problems = found(copy).problems
    assert problems[0].startswith("metrics.csv:2: not a row of the aggregate: ['T', 'Load', None")
    assert problems[1].startswith(f"metrics.csv:5: not a row of the aggregate: ['T', 'Load', '{cells[2]}', 'first'")
    assert problems[2].startswith(f"missing: metrics.csv has no row for phase T, case Load, block 1, arm {cells[2]}")
    assert len(problems) == 3


def test_columns_that_are_there_twice_are_named(copy: Campaign) -> None:
    head, *rows = rows_of(copy)
    names = head.rstrip("\n").split(",")
    (copy.folder / "metrics.csv").write_text(
        ",".join([*names, "arm", "case"]) + "\n" + "".join(row.rstrip("\n") + ",x,y\n" for row in rows)
    )
    # The last column of a name is the one that is read: all rows are foreign, and which columns they are is named first.
    assert found(copy).problems[0] == "metrics.csv:1: the heading has case, arm twice"


def test_bytes_that_are_no_text_are_a_foreign_row(copy: Campaign) -> None:
    path = copy.folder / "metrics.csv"
    path.write_bytes(path.read_bytes().replace(b"T,Load", b"T,L\xffad", 1))
    one, other = found(copy).problems
    assert one.startswith("foreign: metrics.csv:2: phase T, case L\N{REPLACEMENT CHARACTER}ad, block 1")
    assert other.startswith("missing: metrics.csv has no row for phase T, case Load, block 1")


def test_every_field_of_a_row_is_compared_and_shown(copy: Campaign) -> None:
    for place, change in enumerate(("U", "Save", "nobody", "9", "9", "99", "9", "B/op", "0.5")):
        rows = rows_of(copy)
        before = rows[1]
        cells = before.split(",")
        assert cells[place] != change
        cells[place] = change
        rows[1] = ",".join(cells)
        (copy.folder / "metrics.csv").write_text("".join(rows))
        foreign, missing = found(copy).problems
        phase, case, arm, block, _, sequence, repeat, metric, value, _ = cells
        assert foreign == (
            f"foreign: metrics.csv:2: phase {phase}, case {case}, block {block}, arm {arm}, sequence {sequence}, "
            f"repeat {repeat}: {float(value)!r} {metric}"
        )
        assert missing.startswith("missing: metrics.csv has no row for phase T, case Load, block 1, arm ")
        rows[1] = before
        (copy.folder / "metrics.csv").write_text("".join(rows))


def test_a_row_that_is_there_three_times_is_named_twice(copy: Campaign) -> None:
    rows = rows_of(copy)
    (copy.folder / "metrics.csv").write_text("".join([*rows, rows[4], rows[4]]))
    problems = found(copy).problems
    assert [text.partition(": phase")[0] for text in problems] == [
        f"duplicate: metrics.csv:{ROWS + 2}",
        f"duplicate: metrics.csv:{ROWS + 3}",
    ]


def test_folders_of_runs_that_were_started_are_no_strangers(copy: Campaign) -> None:
    runs = copy.folder / "runs" / "T" / "Load"
    shutil.copytree(runs / "1-one", runs / "1-one.partial")
    assert found(copy).hold
    shutil.copytree(runs / "1-one", runs / "7-one.partial")
    assert found(copy).problems == ["foreign: runs/T/Load/7-one.partial is no run of this plan"]


# -- adopted logs


def adopted(runs: Iterable[AdoptedRun]) -> Adoption:
    return Adoption({"unknown": [], "files": {}}, "", tuple(runs))


def adopted_run(number: int, *, position: int = -1, paired: bool = False, ordered: bool = False) -> AdoptedRun:
    labels = Labels("A", "Encode", "after", number, position, 5 * number)
    values = tuple(AdoptedValue("ns/op", 10.0 * number + repeat, repeat, 1) for repeat in (0, 1))
    return AdoptedRun(labels, number, "after.txt", (1, 2), "ok", "", values, paired, ordered)


HEADING = "phase,case,arm,block,position,sequence,repeat,metric,value,iterations\n"


def test_rows_of_adopted_logs_hold_what_is_known_and_say_what_is_not(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(
        HEADING
        + "A,Encode,after,unknown,unknown,unknown,0,ns/op,10.0,1\n"
        + "A,Encode,after,unknown,unknown,unknown,1,ns/op,11.0,1\n"
        + "A,Encode,after,2,0,10,0,ns/op,20.0,1\n"
        + "A,Encode,after,2,0,10,1,ns/op,21.0,1\n"
    )
    runs = [adopted_run(1), adopted_run(2, position=0, paired=True, ordered=True)]
    report = check_adopted(Store(tmp_path), adopted(runs))
    assert report == LabelReport(2, 2, 4, 4, adopted=True)
    assert report.sentence() == (
        "All 4 rows of metrics.csv carry the case and arm of the record that was made at the adoption, "
        "from the names of 2 runs in the adopted files; nothing else witnesses them."
    )


def test_a_line_end_inside_of_a_name_is_kept_as_it_is(tmp_path: Path) -> None:
    run = adopted_run(1)
    (tmp_path / "metrics.csv").write_bytes(
        HEADING.encode()
        + b'A,"En\r\ncode",after,unknown,unknown,unknown,0,ns/op,10.0,1\n'
        + b'A,"En\r\ncode",after,unknown,unknown,unknown,1,ns/op,11.0,1\n'
    )
    named = replace(run, labels=replace(run.labels, case="En\r\ncode"))
    assert check_adopted(Store(tmp_path), adopted([named])).hold


def test_a_run_of_adopted_logs_that_is_there_twice_is_named(tmp_path: Path) -> None:
    run = adopted_run(2, position=1, paired=True, ordered=True)
    row = "A,Encode,after,2,1,10,{0},ns/op,2{0}.0,1\n"
    (tmp_path / "metrics.csv").write_text(HEADING + 2 * (row.format(0) + row.format(1)))
    report = check_adopted(Store(tmp_path), adopted([run, run, adopted_run(3)]))
    assert report.problems[0] == ("duplicate: 2 runs with the labels ('A', 'Encode', 'after', 2, 1, 10, 2)")
    assert report.problems[1:] == [
        "missing: metrics.csv has no row for phase A, case Encode, block unknown, arm after, sequence unknown, "
        f"repeat {repeat}: {30.0 + repeat} ns/op"
        for repeat in (0, 1)
    ]


# -- restored labels


def test_the_warning_of_restored_labels_belongs_to_the_estimates_of_their_cases() -> None:
    estimates = [Estimate("B", case, metric, "a/b") for case in ("Load", "Save") for metric in ("ns/op", "B/op")]
    warning = EstimateWarning(
        "labels-restored", "Labels of Load were lost and restored from the plan and the raw logs; no value was changed."
    )
    assert checked.restored_warnings(estimates, ["Load"]) == {
        ("Load", metric, "a/b"): [warning] for metric in ("ns/op", "B/op")
    }
