"""Labels lost on purpose: what the checks say of a damaged copy of the aggregate, and what the raw logs give back.

Every damage is a pure function from the bytes of metrics.csv to other bytes. `drill` writes each into a temporary folder, asks
the checks, and has the labels restored as the command does; the campaign's own folder is read and never written.
"""

from __future__ import annotations

import csv
import io
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.labels import LabelReport, asserted, compare_rows, expected_rows
from analysis.restore import LABELS, VALUES, Row, evidence, read, restore_into, value_digest
from runner.errors import DataError
from runner.plan import Plan
from runner.store import Ledger, Store

Table = list[list[str]]
Make = Callable[[Table], bytes | None]  # None where a campaign has no rows of the kind
CASE, ARM, VALUE = LABELS.index("case"), LABELS.index("arm"), len(LABELS) + VALUES.index("value")
CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
SEED = 1  # of the damages that shuffle


def table(data: bytes) -> Table:
    """The cells of an aggregate, heading first; bytes of any encoding."""
    return list(csv.reader(io.StringIO(data.decode("utf-8", errors="replace"), newline="")))


def written(rows: Table) -> bytes:
    """Cells as the runner writes them."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


# ---- damages ------------------------------------------------------------------------------------------


def shadowed(rows: Table) -> bytes:
    """The slip itself: a loop over CPU fields takes the name that holds the case."""
    lines, looked_at = [rows[0]], Counter[str]()
    for phase, case, *others in rows[1:]:
        for case in CPU_FIELDS:
            looked_at[case] += 1
        lines.append([phase, case, *others])
    return written(lines)


def of_case(change: Callable[[int, list[str]], str]) -> Callable[[Table], bytes]:
    """A damage of the case column: row number and whole column give the new case."""

    def damage(rows: Table) -> bytes:
        column = [row[CASE] for row in rows[1:]]
        return written([rows[0], *([r[0], change(i, column), *r[CASE + 1 :]] for i, r in enumerate(rows[1:]))])

    return damage


constant = of_case(lambda _, column: column[0])


def shuffled(rows: Table) -> bytes:
    """The case column in another order."""
    column = [row[CASE] for row in rows[1:]]
    random.Random(SEED).shuffle(column)  # noqa: S311  (nothing secret)
    return written([rows[0], *([row[0], case, *row[CASE + 1 :]] for row, case in zip(rows[1:], column, strict=True))])


def mixed_encodings(rows: Table) -> bytes:
    """A byte order mark, and cases in UTF-8, Latin-1 and UTF-16 by turns."""
    place, lines = "@", [written(rows[:1])]  # no phase is called so
    for i, row in enumerate(rows[1:], 1):
        case = "Läsen".encode(("utf-8", "latin-1", "utf-16-le")[i % 3])
        lines.append(written([[row[0], place, *row[CASE + 1 :]]]).replace(place.encode(), case, 1))
    return b"\xef\xbb\xbf" + b"".join(lines)


def reordered(rows: Table) -> Table:
    """The rows sorted by value, so that none stands in the order of the runs."""
    return [rows[0], *sorted(rows[1:], key=lambda row: row[VALUE])]


def without_row(alike: bool) -> Make:
    """A damage that loses the cases, and the first row whose values other runs have too, or have not."""

    def damage(rows: Table) -> bytes | None:
        counts = Counter(tuple(row[len(LABELS) :]) for row in rows[1:])
        found = [i for i, row in enumerate(rows[1:], 1) if (counts[tuple(row[len(LABELS) :])] > 1) == alike]
        return constant([*rows[: found[0]], *rows[found[0] + 1 :]]) if found else None

    return damage


def changed_value(rows: Table) -> bytes:
    """One measured value with another number in it."""
    row = rows[-1]
    return written([*rows[:-1], [*row[:VALUE], f"1{row[VALUE]}", *row[VALUE + 1 :]]])


@dataclass(frozen=True)
class Damage:
    """One way in which labels are lost."""

    name: str
    what: str
    make: Make


DAMAGES = (
    Damage("shadowed", f"a loop variable took the name of the case: {CPU_FIELDS[-1]} in every row", shadowed),
    Damage("constant", "the first case's name in every row", constant),
    Damage("shuffled", "the case column in a random order", shuffled),
    Damage("shifted by one", "each row has the case of the row above it", of_case(lambda i, column: column[i - 1])),
    Damage(
        "one case renamed",
        "the first case has another name",
        of_case(lambda i, column: "renamed" if column[i] == column[0] else column[i]),
    ),
    Damage(
        "arm and case swapped",
        "each stands in the other's column",
        lambda rows: written([rows[0], *([r[0], r[ARM], r[CASE], *r[ARM + 1 :]] for r in rows[1:])]),
    ),
    Damage("missing", "no case column", lambda rows: written([[*row[:CASE], *row[CASE + 1 :]] for row in rows])),
    Damage("duplicated", "two case columns", lambda rows: written([[*row[: CASE + 1], *row[CASE:]] for row in rows])),
    Damage("empty", "no case in any row", of_case(lambda *_: "")),
    Damage("mixed encodings", "cases in UTF-8, Latin-1 and UTF-16 by turns", mixed_encodings),
    Damage(
        "every label",
        "x in all six label columns",
        lambda rows: written([rows[0], *(["x"] * len(LABELS) + row[len(LABELS) :] for row in rows[1:])]),
    ),
    Damage("out of order", "no case, and rows sorted by value", lambda rows: constant(reordered(rows))),
    Damage("a row lost", "and every case; no other run has its values", without_row(alike=False)),
    Damage("a row lost, of several alike", "and every case; other runs have its values", without_row(alike=True)),
    Damage("a row twice", "the last one", lambda rows: written([*rows, rows[-1]])),
    Damage("a value changed", "a digit more in front of the last value", changed_value),
    Damage("UTF-16", "the whole file in another encoding", lambda rows: written(rows).decode().encode("utf-16")),
)  # fmt: skip


# ---- the drill ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of one damaged copy."""

    damage: Damage
    damaged: int  # rows that are not as the runner wrote them, are missing or are there too often
    report: LabelReport  # what the checks said of the damaged copy
    before: str | None  # digest of its value columns; None where they cannot be read
    after: str | None  # the same of the restored file; None where nothing was written
    restored: int | None  # rows with a label of the plan; None where it was refused
    same: bool  # whether the restored rows are rows of the campaign, whatever their order
    refused: str  # why; empty where it was not


@dataclass(frozen=True)
class Drill:
    """All damages, and the rows of the aggregate that they were done to."""

    outcomes: tuple[Outcome, ...]
    rows: int


def drill(store: Store, plan: Plan, ledger: Ledger, damages: Sequence[Damage] = DAMAGES) -> Drill:
    """Damage copies of the aggregate, have each checked and restored below a temporary folder.

    Raises DataError where the campaign's own labels do not hold, so that there is nothing to compare with, and where the
    campaign's aggregate is not afterwards what it was.
    """
    original = store.metrics_path.read_bytes()
    rows = table(original)
    expected, own = expected_rows(store, plan, ledger)
    compare_rows(store.metrics_path, expected, own)
    asserted(store, own)
    logs = evidence(store, plan, ledger)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="benchbook-drill-") as work:
        for number, damage in enumerate(damages):
            data = damage.make(rows)
            if data not in (None, original, written(rows)):  # where all cases are one, a constant one is no damage
                report = LabelReport(rows_expected=own.rows_expected)
                copy = Path(work) / f"{number}.csv"
                copy.write_bytes(data)
                compare_rows(copy, expected, report)
                outcomes.append(_outcome(store, damage, rows, report, logs, copy))
    if store.metrics_path.read_bytes() != original:
        raise DataError(str(store.metrics_path), "changed while copies of it were damaged")
    return Drill(tuple(outcomes), len(rows) - 1)


def _outcome(
    store: Store, damage: Damage, rows: Table, report: LabelReport, logs: Sequence[Row], copy: Path
) -> Outcome:
    folder, data = copy.with_suffix(""), copy.read_bytes()
    damaged = _differing(rows, table(data))
    before = _value_digest(data)
    try:
        done = restore_into(store, copy, folder, logs)
    except DataError as error:
        if folder.exists():
            raise DataError(str(copy), "refused, and yet something was written") from error
        return Outcome(damage, damaged, report, before, None, None, False, str(error.problem))
    restored = (folder / "metrics.csv").read_bytes()
    same = not Counter(map(tuple, table(restored))) - Counter(map(tuple, rows))
    return Outcome(damage, damaged, report, before, _value_digest(restored), done.rows, same, "")


def _differing(rows: Table, others: Table) -> int:
    """Rows of one table that the other has not, or those the other has beyond them, whichever are more."""
    one, other = Counter(map(tuple, rows[1:])), Counter(map(tuple, others[1:]))
    return max((one - other).total(), (other - one).total())


def _value_digest(data: bytes) -> str | None:
    try:
        return value_digest(read(data, "copy").texts)
    except DataError:
        return None
