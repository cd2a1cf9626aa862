"""The Go benchmark text format: read with file and line for every record, and written.

A result line is `Benchmark<Name>[-P] <iterations> <value> <unit> [<value> <unit> ...]`; a configuration line is
`key: value` with a key that starts in lower case and holds no upper case and no space. What a
line was taken for is always said: a result, configuration, a failure, or text. A line that starts like a
result and does not end like one is a fault of its own, never dropped and never a number. Format: the Go project's
proposal 14313, benchmark data format.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

_CONFIGURATION = re.compile(r"^([a-z][^\sA-Z:]*):(?:\s+(.*))?$")
_NAME = re.compile(r"^Benchmark\S+$")
_ITERATIONS = re.compile(r"^[1-9][0-9]*$")
_NUMBER = re.compile(r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$")
_FAILURE = re.compile(r"^\s*--- (FAIL|SKIP): (\S+)|^(panic): |^(FAIL)\b|^(fatal error): ")


@dataclass(frozen=True)
class Record:
    """One result line."""

    name: str  # as written, without the leading "Benchmark"; a -P suffix is part of it
    iterations: int
    values: tuple[tuple[float, str], ...]  # (value, unit) in the order of the line
    line: int


@dataclass(frozen=True)
class Fault:
    """A line that is no result although it looks like one, or that says that a benchmark failed."""

    kind: str  # "malformed" or "failure"
    text: str
    line: int


@dataclass(frozen=True)
class Log:
    """What one raw log holds."""

    records: tuple[Record, ...] = ()
    configuration: dict[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    text_lines: int = 0


def parse(data: bytes) -> Log:
    """Read one raw log. Never raises: what cannot be read is a fault with its line."""
    records: list[Record] = []
    configuration: dict[str, str] = {}
    faults: list[Fault] = []
    text_lines = 0
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        faults.append(Fault("malformed", f"not UTF-8: {error.reason}", data[: error.start].count(b"\n") + 1))
        text = data.decode("utf-8", errors="replace")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    elif lines[-1].startswith("Benchmark"):
        faults.append(
            Fault("malformed", f"the log ends in the middle of a line: {lines.pop()[:120]!r}", len(lines) + 1)
        )
    for number, raw in enumerate(lines, start=1):
        line = raw.removesuffix("\r")
        parsed = _line(line, number)
        if isinstance(parsed, Record):
            records.append(parsed)
        elif isinstance(parsed, Fault):
            faults.append(parsed)
        elif parsed is not None:
            configuration[parsed[0]] = parsed[1]
        elif line.strip():
            text_lines += 1
    return Log(tuple(records), configuration, tuple(faults), text_lines)


def _line(line: str, number: int) -> Record | Fault | tuple[str, str] | None:
    if _FAILURE.match(line):
        return Fault("failure", line.strip()[:200], number)
    if line.startswith("Benchmark") and len(line.split()) > 1:
        return _result(line, number)
    configuration = _CONFIGURATION.match(line)
    if configuration:
        return configuration[1], (configuration[2] or "").strip()
    return None


def _result(line: str, number: int) -> Record | Fault:
    name, iterations, *rest = line.split()
    if not _NAME.match(name) or not _ITERATIONS.match(iterations):
        return Fault(
            "malformed", f"expected a count of iterations above 0 after {name!r}, found {iterations!r}", number
        )
    if not rest or len(rest) % 2:
        return Fault(
            "malformed", f"expected pairs of value and unit after {name} {iterations}, found {' '.join(rest)!r}", number
        )
    values: list[tuple[float, str]] = []
    for value, unit in zip(rest[::2], rest[1::2], strict=True):
        if not _NUMBER.match(value) or not math.isfinite(float(value)):
            return Fault("malformed", f"expected a finite number for {unit}, found {value!r}", number)
        if unit in (known for _, known in values):
            return Fault("malformed", f"unit {unit} is there twice", number)
        values.append((float(value), unit))
    return Record(name.removeprefix("Benchmark"), int(iterations), tuple(values), number)


def format_record(record: Record) -> str:
    """The line that `parse` reads back as this record."""
    pairs = " ".join(f"{value!r} {unit}" for value, unit in record.values)
    return f"Benchmark{record.name} {record.iterations} {pairs}"
