"""Labels: each row's case, arm and block, rebuilt from the sealed plan and the per-run logs, and asserted.

Three witnesses must agree on every run: the sealed orders (with the journal's replacements), the run's own record in
its own folder, and the benchmark name in its raw output. The aggregate, metrics.csv, is then compared row by row.

Labels of adopted logs have one witness, the record that `adopt` made from names and paths; the aggregate is compared with it.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from analysis.model import Estimate, EstimateWarning
from analysis.samples import run_samples
from runner.errors import DataError
from runner.plan import Plan
from runner.store import AdoptedRun, Adoption, Labels, Ledger, Store, labels_from

UNKNOWN = "unknown"  # in the aggregate of adopted logs: a block or place that no log tells
Place = int | str
Row = tuple[str, str, str, Place, Place, Place, int, str, float]


@dataclass
class LabelReport:
    """What was compared, and everything that does not hold, each by name."""

    planned_runs: int = 0
    recorded_runs: int = 0
    rows: int = 0
    rows_expected: int = 0
    adopted: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def hold(self) -> bool:
        """Whether every label holds."""
        return not self.problems

    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.hold and self.adopted:
            return (
                f"All {self.rows} rows of metrics.csv carry the case and arm of the record that was made at the adoption, "
                f"from the names of {self.recorded_runs} runs in the adopted files; nothing else witnesses them."
            )
        if self.hold:
            text = (
                f"All {self.rows} rows of metrics.csv carry the case, arm and block of the sealed plan; each of the "
                f"{self.recorded_runs} runs that were executed has exactly one record."
            )
            never = self.planned_runs - self.recorded_runs
            return text + (f" {never} more were planned and, by the plan's rules, not executed." if never else "")
        return f"{len(self.problems)} labels do not hold: {self.problems[0]}"


def check_labels(store: Store, plan: Plan, ledger: Ledger | None = None) -> LabelReport:
    """Compare the witnesses. Problems are collected, not raised, so that all of them are named."""
    if store.state() == "adopted":
        return check_adopted(store, store.adoption())
    ledger = ledger or store.ledger()
    expected, report = expected_rows(store, plan, ledger)
    _foreign_folders(store, ledger, report)
    compare_rows(store.metrics_path, expected, report)
    return report


def check_adopted(store: Store, adoption: Adoption) -> LabelReport:
    """Compare the aggregate of adopted logs with their record, and look for a run that is there twice."""
    runs = Counter((*_adopted_places(run), run.run) for run in adoption.runs)
    report = LabelReport(len(adoption.runs), len(adoption.runs), adopted=True)
    report.problems += [f"duplicate: {count} runs with the labels {key}" for key, count in runs.items() if count > 1]
    rows = Counter(
        (*_adopted_places(run), value.repeat, value.metric, value.value)
        for run in adoption.runs
        for value in run.values
    )
    report.rows_expected = rows.total()
    compare_rows(store.metrics_path, rows, report)
    return report


def _adopted_places(run: AdoptedRun) -> tuple[str, str, str, Place, Place, Place]:
    labels = run.labels
    return (
        labels.phase,
        labels.case,
        labels.arm,
        labels.block if run.paired else UNKNOWN,
        labels.position if labels.position >= 0 else UNKNOWN,
        labels.sequence if run.ordered else UNKNOWN,
    )


def assert_labels(store: Store, plan: Plan, ledger: Ledger | None = None) -> LabelReport:
    """The report when every label holds. Raises DataError naming each one that does not."""
    return asserted(store, check_labels(store, plan, ledger))


def asserted(store: Store, report: LabelReport) -> LabelReport:
    """The report itself, when every label in it holds. Raises DataError as `assert_labels`."""
    if not report.hold:
        raise DataError(
            str(store.folder),
            f"{len(report.problems)} labels do not hold",
            found="\n    ".join(report.problems[:20]),
            remedy="the raw logs are the evidence; restore the file that is named from the published campaign",
        )
    return report


def expected_rows(store: Store, plan: Plan, ledger: Ledger) -> tuple[Counter[Row], LabelReport]:
    """Every row that the aggregate must have, by the raw logs, and what does not hold of the runs themselves."""
    rows: Counter[Row] = Counter()
    report = LabelReport(planned_runs=len(ledger.labels()))
    for labels in ledger.labels():
        if labels not in ledger.ends:
            # A run that a rule kept from being executed (void block, stopped phase) has a reason; another one is missing.
            if ledger.state(labels) == "planned" and ledger.closed:
                report.problems.append(f"missing: no record of {labels}")
            continue
        try:
            record = store.read_record(labels, ledger)
            found = labels_from(record.get("labels"), store.relative(store.run_folder(labels) / "run.json"))
            if found != labels:
                report.problems.append(
                    f"foreign: {store.relative(store.run_folder(labels))} holds the record of {found}"
                )
                continue
            report.recorded_runs += 1
            if ledger.ends[labels].outcome == "ok":
                rows.update(
                    _row(sample_labels, repeat, metric, value)
                    for sample_labels, repeat, metric, value in (
                        (labels, s.repeat, s.metric, s.value) for s in run_samples(store, plan, labels, ledger)
                    )
                )
        except DataError as error:
            report.problems.append(str(error))
    report.rows_expected = rows.total()
    return rows, report


def _row(labels: Labels, repeat: int, metric: str, value: float) -> Row:
    return labels.phase, labels.case, labels.arm, labels.block, labels.position, labels.sequence, repeat, metric, value


def _foreign_folders(store: Store, ledger: Ledger, report: LabelReport) -> None:
    known = {store.run_folder(labels) for labels in ledger.started} | {
        store.partial_folder(labels) for labels in ledger.started
    }
    report.problems += [
        f"foreign: {store.relative(folder)} is no run of this plan"
        for folder in store.run_folders()
        if folder not in known
    ]


def compare_rows(aggregate: Path, expected: Counter[Row], report: LabelReport) -> None:
    """Compare an aggregate, row by row, with the rows that it must have. What does not hold goes into the report."""
    name = aggregate.name
    if not aggregate.is_file():
        if expected:
            report.problems.append(f"missing: {name}")
        return
    remaining = expected.copy()
    lines: dict[int, Row] = {}
    with aggregate.open(newline="", encoding="utf-8", errors="replace") as file:
        reader = csv.DictReader(file)
        twice = [column for column, count in Counter(reader.fieldnames or ()).items() if count > 1]
        if twice:  # a reader of names would take one of them
            report.problems.append(f"{name}:1: the heading has {', '.join(twice)} twice")
        for entry in reader:
            report.rows += 1
            row = _read_row(entry) if None not in entry else None  # more cells than columns
            if row is None:
                report.problems.append(f"{name}:{reader.line_num}: not a row of the aggregate: {list(entry.values())}")
            elif remaining[row] > 0:
                remaining[row] -= 1
            else:
                lines[reader.line_num] = row
    for line, row in lines.items():
        kind = "duplicate" if expected[row] else "foreign"
        report.problems.append(f"{kind}: {name}:{line}: {_show(row)}")
    report.problems += [f"missing: {name} has no row for {_show(row)}" for row, count in remaining.items() if count > 0]


def _read_row(entry: dict[str, str]) -> Row | None:
    try:
        return (
            entry["phase"],
            entry["case"],
            entry["arm"],
            _place(entry["block"]),
            _place(entry["position"]),
            _place(entry["sequence"]),
            int(entry["repeat"]),
            entry["metric"],
            float(entry["value"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _place(text: str) -> Place:
    return UNKNOWN if text == UNKNOWN else int(text)


def _show(row: Row) -> str:
    phase, case, arm, block, _, sequence, repeat, metric, value = row
    return f"phase {phase}, case {case}, block {block}, arm {arm}, sequence {sequence}, repeat {repeat}: {value!r} {metric}"


def restored_warnings(
    estimates: Iterable[Estimate], cases: Collection[str]
) -> dict[tuple[str, str, str], list[EstimateWarning]]:
    """The warning of every estimate of a case whose labels were restored, by (case, metric, contrast)."""
    return {
        (e.case, e.metric, e.contrast): [
            EstimateWarning(
                "labels-restored",
                f"Labels of {e.case} were lost and restored from the plan and the raw logs; no value was changed.",
            )
        ]
        for e in estimates
        if e.case in cases
    }
