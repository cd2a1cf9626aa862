"""The Go benchmark text format: read with file and line for every record, and written.

A result line is `Benchmark<Name>[-P] <iterations> <value> <unit> [<value> <unit> ...]`; a configuration line is
`key: value` with a key that starts in lower case and holds no upper case and no space; `Unit <unit> better=lower`
says which direction of a unit is better. Whatever looks like a result and is none is a fault with its line, never dropped
and never a number. Format: the Go project's proposal 14313, benchmark data format, and golang.org/x/perf/benchfmt.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

_CONFIGURATION = re.compile(r"^([^\s:]+):(?:[ \t]+(.*))?$")
_ITERATIONS = re.compile(r"^[1-9][0-9]{0,17}$")
_NUMBER = re.compile(r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$")
_ENDED = re.compile(
    r"^\s*--- FAIL\b|^(panic|fatal error|runtime error|runtime): |^FAIL\b|^exit status [1-9]|^signal: |^SIG[A-Z]+: "
    r"|^\*\*\* Test killed|^Traceback \(most recent call last\):|^unexpected fault address"
)
_ENDED_INSIDE = re.compile(r"\s--- FAIL\b|\s(panic|fatal error): ")
_SKIPPED = re.compile(r"(^|\s)--- SKIP\b")
_RESULT_INSIDE = re.compile(r"Benchmark\S{0,300}\s+[0-9]+\s+[+-]?[0-9.]+\S*\s+\S")
_NAMELESS = re.compile(r"^\s*[0-9]+\s+([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?|[+-]?Inf|NaN)\s+\S*/\S")

NO_RESULT = "was begun and has no result"


@dataclass(frozen=True)
class Record:
    """One result line."""

    name: str  # as written, without the leading "Benchmark"; a -P suffix is part of it
    iterations: int
    values: tuple[tuple[float, str], ...]  # (value, unit) in the order of the line
    line: int
    package: str = ""  # the value of `pkg` that was in force; logs of several Go packages have several


@dataclass(frozen=True)
class Fault:
    """A line that is no result although it looks like one, or that says that a benchmark failed or was skipped."""

    kind: str  # "malformed", "failure", "skipped"; among a log's warnings "overwritten"
    text: str
    line: int


@dataclass(frozen=True)
class Log:
    """What one raw log holds."""

    records: tuple[Record, ...] = ()
    configuration: dict[str, str] = field(default_factory=dict)  # the last value of each key
    faults: tuple[Fault, ...] = ()
    text_lines: int = 0
    better: dict[str, str] = field(default_factory=dict)  # unit -> "lower" or "higher", where the log says so
    warnings: tuple[Fault, ...] = ()  # configuration keys that were given a second, different value


def parse(data: bytes) -> Log:
    """Read one raw log. Never raises: what cannot be read is a fault with its line."""
    reader = _Reader()
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    unfinished = lines.pop()
    for number, raw in enumerate(lines, start=1):
        reader.read(raw.removesuffix(b"\r"), number)
    if unfinished:
        reader.read_unfinished(unfinished, len(lines) + 1)
    return reader.log()


class _Reader:
    """The state of reading one log, line after line."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._configuration: dict[str, str] = {}
        self._faults: list[Fault] = []
        self._warnings: list[Fault] = []
        self._better: dict[str, str] = {}
        self._lone: dict[str, int] = {}  # names that stand alone on a line, as `go test -v` prints them before a result
        self._text_lines = 0

    def log(self) -> Log:
        """What was read."""
        for name, line in self._lone.items():
            if not any(_belongs(record.name, name) for record in self._records):
                self._fault("malformed", f"Benchmark{name} {NO_RESULT}", line)
        return Log(
            tuple(self._records),
            self._configuration,
            tuple(sorted(self._faults, key=lambda fault: fault.line)),
            self._text_lines,
            self._better,
            tuple(self._warnings),
        )

    def read(self, raw: bytes, number: int) -> None:
        """Take one whole line for what it is."""
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            self._fault("malformed", f"not UTF-8: {error.reason}", number)
            return
        if "\0" in line:
            self._fault("malformed", "a NUL byte: is this UTF-16, or a file with a hole?", number)
        elif _ENDED.search(line):
            self._fault("failure", line.strip()[:200], number)
        elif _SKIPPED.search(line):
            self._fault("skipped", line.strip()[:200], number)
        elif _starts_a_result(line):
            self._result_or_failure(line, number)
        elif line.startswith("Unit ") and "=" in line:
            self._unit(line, number)
        elif _RESULT_INSIDE.search(line):
            self._fault("malformed", f"a result that does not begin its line: {line.strip()[:200]!r}", number)
        elif _NAMELESS.match(line):
            self._fault("malformed", f"a result without its name: {line.strip()[:200]!r}", number)
        elif not self._configure(line, number) and line.strip():
            self._text_lines += 1

    def read_unfinished(self, raw: bytes, number: int) -> None:
        """Take the last line of a log, when no newline ends it: whatever could have gone on is a fault."""
        line = raw.decode("utf-8", errors="replace")
        if _ENDED.search(line):
            self._fault("failure", line.strip()[:200], number)
        elif line.startswith("Benchmark"[: len(line)]) or _configuration_of(line) or line.startswith("Unit "):
            self._fault("malformed", f"the log ends in the middle of a line: {line[:120]!r}", number)
        else:
            self.read(raw, number)

    def _fault(self, kind: str, text: str, line: int) -> None:
        self._faults.append(Fault(kind, text, line))

    def _configure(self, line: str, number: int) -> bool:
        found = _configuration_of(line)
        if not found:
            return False
        key, value = found
        before = self._configuration.get(key, value)
        if before != value:
            self._warnings.append(Fault("overwritten", f"{key}: {before!r} before, {value!r} here", number))
        self._configuration[key] = value
        return True

    def _unit(self, line: str, number: int) -> None:
        _, unit, *pairs = line.split()
        for pair in pairs:
            key, _, value = pair.partition("=")
            if not value:
                self._fault("malformed", f"expected key=value after Unit {unit}, found {pair!r}", number)
            elif key == "better" and (
                value not in ("lower", "higher") or self._better.setdefault(unit, value) != value
            ):
                self._fault("malformed", f"unit {unit} cannot be better {value!r} here", number)

    def _result_or_failure(self, line: str, number: int) -> None:
        name, *rest = line.split()
        if not rest:
            self._lone.setdefault(name.removeprefix("Benchmark"), number)
            return
        if _ENDED_INSIDE.search(line):
            self._fault("failure", line.strip()[:200], number)
            return
        parsed = _result(name, rest)
        if isinstance(parsed, str):
            self._fault("malformed", parsed, number)
        else:
            bare = name.removeprefix("Benchmark")
            self._records.append(Record(bare, int(rest[0]), parsed, number, self._configuration.get("pkg", "")))


def _starts_a_result(line: str) -> bool:
    """By the format the name goes on in upper case; one that does not counts if a count of iterations follows."""
    if not line.startswith("Benchmark"):
        return False
    name, *rest = line.split()
    return not name[len("Benchmark") :][:1].islower() or bool(rest and re.match(r"^[0-9]+$", rest[0]))


def _belongs(record: str, name: str) -> bool:
    """Whether a result is the one that a lone name announced: itself, with a -P suffix, or a part of it."""
    rest = record.removeprefix(name)
    return record.startswith(name) and (
        rest == "" or rest.startswith("/") or re.match(r"^-[1-9][0-9]*$", rest) is not None
    )


def _configuration_of(line: str) -> tuple[str, str] | None:
    match = _CONFIGURATION.match(line)
    if not match or not match[1][0].islower() or any(letter.isupper() for letter in match[1]):
        return None
    return match[1], (match[2] or "").strip()


def _result(name: str, fields: list[str]) -> tuple[tuple[float, str], ...] | str:
    """The values of a result line, or what is wrong with it."""
    iterations, *pairs = fields
    if not _ITERATIONS.match(iterations):
        return f"expected a count of iterations above 0 after {name!r}, found {iterations[:40]!r}"
    if not pairs or len(pairs) % 2:
        return f"expected pairs of value and unit after {name} {iterations}, found {' '.join(pairs)[:120]!r}"
    values: dict[str, float] = {}
    for text, unit in zip(pairs[::2], pairs[1::2], strict=True):
        value = number(text)
        if value is None:
            return f"expected a finite number for {unit}, found {text[:40]!r}"
        if unit in values:
            return f"unit {unit} is there twice"
        values[unit] = value
    return tuple((value, unit) for unit, value in values.items())


def number(text: str) -> float | None:
    """A finite number; None for anything else, and for one that is too small and would be read as 0."""
    if len(text) > 400 or not _NUMBER.match(text):
        return None
    value = float(text)
    vanished = value == 0 and re.search(r"[1-9]", re.split("[eE]", text)[0])
    return value if math.isfinite(value) and not vanished else None


def format_record(record: Record) -> str:
    """The line that `parse` reads back as this record. Raises ValueError for a record that the format cannot hold."""
    pairs = [field for value, unit in record.values for field in (repr(float(value)), unit)]
    line = " ".join([f"Benchmark{record.name}", str(record.iterations), *pairs])
    read = parse(line.encode() + b"\n")
    if [(found.name, found.iterations, found.values) for found in read.records] != [
        (record.name, record.iterations, record.values)
    ]:
        raise ValueError(f"not a record of the benchmark format: {line[:200]!r}")
    return line
