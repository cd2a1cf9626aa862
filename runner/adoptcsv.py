"""Benchmark tables that were made elsewhere: rows of a CSV file, long (metric, value) or wide (a column for each unit). Pure."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, field

from runner.adoptgo import Piece, Read
from runner.adoption import AdoptedValue
from runner.adoptmaps import LABELS, NUMBERS, TABLE, Map
from runner.benchfmt import number
from runner.errors import DataError, WrongUse

UNIT = re.compile(r"^[^\s/@]+/[^\s/]+$")  # a column is headed like this where no plan and no map names units
IGNORED = ("iterations",)  # of our own metrics.csv


@dataclass
class _Group:
    """The rows of one run, as they are read."""

    fields: dict[str, str]
    lines: list[int] = field(default_factory=list)
    values: list[AdoptedValue] = field(default_factory=list)
    problem: str = ""
    empty: list[str] = field(default_factory=list)  # units of cells in which nothing is: nothing was measured
    taken: dict[str, set[int]] = field(default_factory=dict)  # repeats by unit

    def add(self, unit: str, text: str, repeat: str | None, line: int, where: str) -> None:
        """Take one value; one that is no finite number makes the run a failed one."""
        taken = self.taken.setdefault(unit, set())
        place = len(taken) if repeat is None else int(repeat)
        value = number(text)
        if value is None:
            self.problem = self.problem or f"{where}: expected a finite number for {unit}, found {text[:40]!r}"
        elif place in taken:
            raise DataError(
                where,
                f"repeat {place} of {unit} is there twice in one run",
                found=", ".join(f"{key}={value}" for key, value in self.fields.items()),
                remedy="say what sets the runs apart: block=@column or run=@column",
            )
        else:
            taken.add(place)
            self.values.append(AdoptedValue(unit, value, place, line))


@dataclass(frozen=True)
class _Table:
    """What each column of a file holds."""

    labels: dict[str, int]  # a label, or one of TABLE, by its column
    units: dict[str, int]
    unread: tuple[str, ...]


def read(data: bytes, file: str, one: Map, given: dict[str, str], units: frozenset[str]) -> Read:
    """The runs of a table; `units` are those of the plan. Raises DataError and WrongUse with file and line."""
    if "package" in given:
        raise WrongUse(f"--map {one.text}", f"{file} is a table: packages are of Go output")
    suffix = {key: value for key, value in given.items() if key == "suffix"}
    rows = _rows(data, file)
    if not rows:
        raise DataError(file, "an empty table", expected="a line of column names, and rows")
    (_, header), *body = rows
    table = _table(header, file, one, given, units)
    groups: dict[tuple[str, ...], _Group] = {}
    for line, row in body:
        if len(row) != len(header):
            raise DataError(
                f"{file}:{line}", "a row that is not whole", expected=f"{len(header)} fields", found=f"{len(row)}",
                remedy="mend the table where it was made, or leave the file out with --ignore",
            )  # fmt: skip
        _take_row(table, row, line, file, given, groups)
    pieces = tuple(
        Piece(
            file,
            count,
            _case(group.fields.get("case", ""), f"{file}:{group.lines[0]}"),
            (min(group.lines), max(group.lines)),
            () if group.problem else tuple(group.values),
            group.problem or ("" if group.values else f"{file}:{group.lines[0]}: no value"),
            fields={key: value for key, value in group.fields.items() if key != "case"} | suffix,
            go=group.fields.get("case", "").startswith("Benchmark"),
        )
        for count, group in enumerate(groups.values(), start=1)
    )
    notes = [f"{file}: columns that were not read: {', '.join(table.unread)}"] if table.unread else []
    empty = Counter(unit for group in groups.values() for unit in group.empty)
    notes += [f"{file}: empty cells, taken for nothing measured: {count} of {unit}" for unit, count in empty.items()]
    return Read(pieces, (*notes, *([] if pieces else [f"{file}: no result in it"])))


def _case(text: str, where: str) -> str:
    if not text:
        raise DataError(where, "no case", expected="a name", remedy="give case=NAME or case=@column in the map")
    return text.removeprefix("Benchmark") if re.match(r"Benchmark[^a-z]", text) else text


def _rows(data: bytes, file: str) -> list[tuple[int, list[str]]]:
    """The line on which each row ends, and its fields. Raises DataError for what is no UTF-8 or no CSV."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{file}:{line}", "not UTF-8", found=error.reason, remedy="save the table as UTF-8, or leave it out"
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows = []
    try:
        for row in reader:
            if row:
                rows.append((reader.line_num, row))
    except csv.Error as error:
        raise DataError(f"{file}:{reader.line_num}", "not a CSV file", found=str(error)) from None
    return rows


def _table(header: list[str], file: str, one: Map, given: dict[str, str], units: frozenset[str]) -> _Table:
    if len(header) == 1 and (mark := re.search("[;\t]", header[0])):
        raise DataError(
            f"{file}:1", f"one column, and {mark[0]!r} in its name", expected="columns separated by commas",
            found=header[0][:200], remedy="save the table with commas, or leave the file out with --ignore",
        )  # fmt: skip
    twice = sorted({name for name in header if header.count(name) > 1})
    missing = sorted({name for name in (*one.columns.values(), *one.units.values()) if name not in header})
    if twice or missing:
        raise WrongUse(
            f"--map {one.text}", f"{file} has no column {missing[0]!r}" if missing else f"{file} has a column twice",
            expected=", ".join(header), found=", ".join(twice), remedy="name a column of its first line",
        )  # fmt: skip
    own = {} if one.columns else {key: key for key in (*LABELS, *TABLE) if key in header and key not in given}
    labels = one.columns or own
    named = dict(one.units)
    if not named and "value" not in labels:
        left = [name for name in header if name not in labels.values()]
        named = {name: name for name in left if name in units or (not units and UNIT.match(name))}
    long = "value" in labels and ("metric" in labels or "metric" in given)
    if bool(named) == long:
        raise WrongUse(
            f"--map {one.text}",
            f"{file}: " + ("both a column of values and columns of units" if named else "nothing says which values are what"),
            expected="metric=@column,value=@column, or UNIT=@column, or columns headed with a unit of the plan",
            found=f"columns {', '.join(header)}",
        )  # fmt: skip
    read_columns = {*labels.values(), *named.values(), *IGNORED}
    return _Table(
        {key: header.index(name) for key, name in labels.items()},
        {unit: header.index(name) for unit, name in named.items()},
        tuple(name for name in header if name not in read_columns),
    )


def _take_row(
    table: _Table,
    row: list[str],
    line: int,
    file: str,
    given: dict[str, str],
    groups: dict[tuple[str, ...], _Group],
) -> None:
    where = f"{file}:{line}"
    cells = {key: row[column].strip() for key, column in table.labels.items()}
    fields = {key: value for key, value in {**given, **cells}.items() if key in LABELS}
    for key in (*NUMBERS, "repeat"):
        text = {**fields, **cells}.get(key, "0")
        if text == "unknown" and key in NUMBERS:
            fields.pop(key)
        elif not re.fullmatch(r"[0-9]{1,9}", text):
            raise DataError(where, f"{key} is no number", expected="0, 1, 2 and so on", found=repr(text[:40]))
    labels = (*(fields.get(name, "") for name in LABELS), _run(fields, cells, given, where, line))
    group = groups.setdefault(labels, _Group(fields))
    group.lines.append(line)
    if table.units:
        for unit, column in table.units.items():
            text = row[column].strip()
            if text:
                group.add(unit, text, cells.get("repeat"), line, where)
            else:
                group.empty.append(unit)
    else:
        unit = cells.get("metric") or given.get("metric", "")
        if not re.fullmatch(r"\S{1,120}", unit):
            raise DataError(where, "no metric", expected="a unit without white space", found=repr(unit[:40]))
        group.add(unit, cells["value"], cells.get("repeat"), line, where)


def _run(fields: dict[str, str], cells: dict[str, str], given: dict[str, str], where: str, line: int) -> str:
    """What sets the rows of one process apart from those of another, beside their labels."""
    rule = given.get("run", "")
    if "run" in cells:
        return cells["run"]
    if rule == "row":
        return str(line)
    if rule == "file" or "block" in fields or "sequence" in fields:
        return ""
    raise WrongUse(
        where,
        "nothing says which rows are of one process",
        expected="block=@column, run=@column, run=row (each row is a process of its own) or run=file (all rows are of one)",
        remedy="repeats of one process vary less than processes do: say which of the two these rows are",
    )
