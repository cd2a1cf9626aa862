"""Lost labels, found again: the rows of an aggregate get the labels of the sealed plan, by the raw logs. Pure but for two files.

What counts as evidence are the values alone: repeat, metric, value and iterations of a row, against those of every run's raw log,
whose labels the plan, the journal and the run's own record agree on. Nothing of a damaged label is believed. Where the values
stand in the order in which the runner wrote them, each row's run follows from its place; where they do not, from the values.
Rows with equal values are interchangeable. Where the values of one row do not decide between several runs, all is refused.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.report import assert_sealed
from runner.benchfmt import parse
from runner.errors import DataError, WrongUse
from runner.plan import Plan
from runner.rawlog import content
from runner.store import Labels, Ledger, Store, labels_from

LABELS = ("phase", "case", "arm", "block", "position", "sequence")
VALUES = ("repeat", "metric", "value", "iterations")
SHOWN = 5  # lines that an error names

LabelTexts = tuple[str, ...]
Values = tuple[int, str, float, int]


@dataclass(frozen=True)
class Row:
    """One row of the aggregate as the raw logs have it."""

    labels: LabelTexts
    values: Values


@dataclass(frozen=True)
class Damaged:
    """An aggregate as it was found."""

    lines: tuple[int, ...]
    labels: tuple[Mapping[str, str], ...]  # what stood there; a column may be missing
    texts: tuple[tuple[str, ...], ...]  # of the value columns, never changed
    values: tuple[Values, ...]


@dataclass(frozen=True)
class Restored:
    """An aggregate with the labels of the plan."""

    text: str
    rows: int
    expected: int
    changed: Mapping[str, int]  # column -> rows in which it was another
    cases: tuple[tuple[str, str], ...]  # phases and cases of rows that were changed
    value_sha256: str

    def sentence(self) -> str:
        """What was done, in one sentence."""
        told = ", ".join(f"{column} in {count}" for column, count in self.changed.items()) or "no label in any"
        return (
            f"{self.rows} rows of {self.expected} have the labels of the sealed plan; changed: {told}. "
            f"Values, SHA-256 before and after: {self.value_sha256}."
        )


# ---- evidence -----------------------------------------------------------------------------------------


def evidence(store: Store, plan: Plan, ledger: Ledger) -> list[Row]:
    """Every row that the raw logs of good runs hold, in the order in which the runner writes the aggregate.

    Raises DataError where a run's record, its log or its labels are not what journal and plan say.
    """
    rows: list[Row] = []
    for labels, end in ledger.ends.items():
        if end.outcome != "ok":
            continue
        where = store.relative(store.run_folder(labels))
        if labels_from(store.read_record(labels, ledger).get("labels"), where) != labels:
            raise DataError(where, "the run's own record has other labels than the journal", expected=str(labels))
        found = content(parse(store.read_stdout(labels, ledger)), plan.phases[labels.phase], labels.case)
        if found.problem:
            raise DataError(where, "recorded as a good run, and its raw log is not", found=found.problem)
        rows += [Row(_texts(labels), (v.repeat, v.metric, v.value, v.iterations)) for v in found.values]
    return rows


def _texts(labels: Labels) -> LabelTexts:
    return tuple(str(getattr(labels, name)) for name in LABELS)


def read(data: bytes, name: str) -> Damaged:
    """An aggregate whose labels may be anything, and whose values are not.

    Raises DataError, with the line, for a row that has another number of columns than the heading or whose values are
    none, and for a heading without a value column.
    """
    # Labels may be bytes of any encoding; they are compared and thrown away, so that none can stop the reading.
    lines = csv.reader(io.StringIO(data.decode("utf-8-sig", errors="replace"), newline=""))
    heading = [column.strip() for column in next(lines, [])]
    wrong = [column for column in VALUES if heading.count(column) != 1]
    if wrong:
        raise DataError(
            f"{name}:1",
            "not the heading of an aggregate",
            expected=", ".join(VALUES),
            found=f"not once: {', '.join(wrong)}",
        )
    places = [heading.index(column) for column in VALUES]
    numbers: list[int] = []
    labels: list[dict[str, str]] = []
    texts: list[tuple[str, ...]] = []
    values: list[Values] = []
    for row in lines:
        where = f"{name}:{lines.line_num}"
        if len(row) != len(heading):
            raise DataError(where, "not a row of this table", expected=f"{len(heading)} columns", found=f"{len(row)}")
        cells = tuple(row[place] for place in places)
        try:
            values.append((int(cells[0]), cells[1], float(cells[2]), int(cells[3])))
        except ValueError as error:
            raise DataError(where, "a value column that is damaged, not a label", found=str(error)) from None
        numbers.append(lines.line_num)
        texts.append(cells)
        labels.append({column: cell for column, cell in zip(heading, row, strict=True) if column in LABELS})
    return Damaged(tuple(numbers), tuple(labels), tuple(texts), tuple(values))


# ---- restoring ----------------------------------------------------------------------------------------


def restore(damaged: Damaged, expected: Sequence[Row], name: str) -> Restored:
    """The aggregate with the labels that the evidence decides. Raises DataError where it does not decide for a row."""
    decided = _by_place(damaged, expected) or _by_value(damaged, expected, name)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*LABELS, *VALUES))
    writer.writerows((*labels, *texts) for labels, texts in zip(decided, damaged.texts, strict=True))
    changed: Counter[str] = Counter()
    cases: dict[tuple[str, str], None] = {}
    for labels, before in zip(decided, damaged.labels, strict=True):
        differing = [column for column, text in zip(LABELS, labels, strict=True) if before.get(column) != text]
        changed.update(differing)
        if differing:
            cases[labels[0], labels[1]] = None
    digest, after = value_digest(damaged.texts), value_digest(read(out.getvalue().encode(), name).texts)
    if digest != after:
        raise DataError(name, "a measured value would change", expected=digest, found=after)
    ordered = {column: changed[column] for column in LABELS if changed[column]}
    return Restored(out.getvalue(), len(decided), len(expected), ordered, tuple(cases), after)


def value_digest(texts: Sequence[tuple[str, ...]]) -> str:
    """SHA-256 of the value columns, row by row, as they are written."""
    return hashlib.sha256(json.dumps(texts, ensure_ascii=True).encode()).hexdigest()


def _by_place(damaged: Damaged, expected: Sequence[Row]) -> list[LabelTexts]:
    """The labels in the order of the runs, where every row's values are those of its place; else nothing."""
    same = list(damaged.values) == [row.values for row in expected]
    return [row.labels for row in expected] if same else []


def _by_value(damaged: Damaged, expected: Sequence[Row], name: str) -> list[LabelTexts]:
    """The labels of the one run with these values, row by row; of rows with equal values each gets another one's."""
    runs: dict[Values, list[LabelTexts]] = defaultdict(list)
    for row in expected:
        runs[row.values].append(row.labels)
    counts = Counter(damaged.values)
    strange = [i for i, values in enumerate(damaged.values) if values not in runs]
    _refuse(damaged, strange, name, "no raw log holds these values", "values of one run of the campaign")
    twice = [i for i, values in enumerate(damaged.values) if counts[values] > len(runs[values])]
    _refuse(damaged, twice, name, "more rows with these values than the raw logs hold", "each row once")
    open_ones = [i for i, values in enumerate(damaged.values) if counts[values] < len(runs[values])]
    _refuse(
        damaged,
        open_ones,
        name,
        "the values do not decide between several runs, some of whose rows are missing",
        "every row",
    )
    return [runs[values].pop(0) for values in damaged.values]


def _refuse(damaged: Damaged, places: Sequence[int], name: str, problem: str, expected: str) -> None:
    if places:
        shown = "; ".join(f"line {damaged.lines[i]}: {', '.join(damaged.texts[i])}" for i in places[:SHOWN])
        more = f"; and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
        raise DataError(
            name, problem, expected=expected, found=shown + more, remedy="labels are not guessed: nothing was written"
        )


# ---- files --------------------------------------------------------------------------------------------


def restore_into(store: Store, aggregate: Path, folder: Path, logs: Sequence[Row] | None = None) -> Restored:
    """Write a restored copy of an aggregate, and what was done, into a new folder. The campaign is not touched.

    ``logs`` is what `evidence` found in the campaign's raw logs, where they were read already.

    Raises WrongUse for a folder that is there already or lies in the campaign, DataError where labels cannot be restored.
    """
    target = folder.resolve()
    if target.exists() or target.is_relative_to(store.folder):
        problem = (
            "lies in the campaign, which stays as it is" if target.is_relative_to(store.folder) else "is there already"
        )
        raise WrongUse(
            f"--restore {folder}", problem, expected="a new folder, for the working copy", remedy="name another one"
        )
    if not aggregate.is_file():
        raise WrongUse(
            f"--aggregate {aggregate}", "no such file", expected="a copy of metrics.csv whose labels were damaged"
        )
    if store.brought:
        raise WrongUse(
            f"--restore {folder}", "this campaign was not executed here", expected="a campaign with runs of its own"
        )
    plan, ledger = store.plan(), store.ledger()
    assert_sealed(store, plan)
    data = aggregate.read_bytes()
    logs = evidence(store, plan, ledger) if logs is None else logs
    done = restore(read(data, aggregate.name), logs, aggregate.name)
    record: dict[str, Any] = {
        "format": 1,
        "campaign": plan.campaign.id,
        "from": aggregate.name,
        "from_sha256": hashlib.sha256(data).hexdigest(),
        "restored_sha256": hashlib.sha256(done.text.encode()).hexdigest(),
        "value_sha256": done.value_sha256,
        "rows": done.rows,
        "expected_rows": done.expected,
        "changed": dict(done.changed),
        "cases": [{"phase": phase, "case": case} for phase, case in done.cases],
    }
    target.mkdir(parents=True)
    (target / "metrics.csv").write_text(done.text, encoding="utf-8", newline="")
    (target / "restored.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return done
