"""The Go benchmark text format: read with file and line for every record, and written.

A result line is `Benchmark<Name>[-P] <iterations> <value> <unit> [<value> <unit> ...]`; a configuration line is
`key: value` with a key that starts in lower case and holds no upper case and no space; `Unit <unit> better=lower`
says which direction of a unit is better. Lines end at a newline alone: no form feed, and no line separator of another
alphabet, ends one. Whatever looks like a result and is none is a fault with its line, never dropped and never a number.
Format: the Go project's proposal 14313, benchmark data format, and golang.org/x/perf/benchfmt.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

_CONFIGURATION = re.compile(r"^([^\s:]+):(?:[ \t]+(.*))?$")
_ITERATIONS = re.compile(r"^[1-9][0-9]{0,17}$")
_NUMBER = re.compile(r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$")
_ENDED = re.compile(
    r"^\s*--- FAIL\b|^\s*(panic|fatal error): |^(runtime error|runtime): |^FAIL\b|^exit status [1-9]|^signal: |^SIG[A-Z]+: "
    r"|^\*\*\* Test killed|^Traceback \(most recent call last\):|^unexpected fault address"
    # As a shell says of its child, by itself or behind the name of the script.
    r"|^(Killed|Terminated|Aborted|Abort trap|Segmentation fault|Bus error)(: [0-9]+)?( +\(core dumped\))?$"
    r"|^\S+: line [0-9]+: +[0-9]+ (Killed|Terminated|Aborted|Segmentation fault|Bus error)\b"
    # As Rust, C++ and Go's race detector say it, the latter also where the process goes on.
    r"|^thread '[^']*' panicked at |^terminate called |^WARNING: DATA RACE$|\brace detected during execution of "
)
_ENDED_INSIDE = re.compile(
    r"\s--- FAIL\b|\s(panic|fatal error|signal|SIG[A-Z]+): |\s(exit status [1-9]|\*\*\* Test killed)"
)
_SKIPPED = re.compile(r"(^|\s)--- SKIP\b")
# No part of these can match for long what the part behind it matches: a long line is searched in linear time.
_RESULT_INSIDE = re.compile(r"Benchmark[\S\x1c-\x1f]{0,300}\s+[0-9]+\s+(?:[+-]?(?:[0-9.]|Inf|inf|nan)|NaN)\S*\s+\S")
_NAMELESS = re.compile(r"^\s*[0-9]+\s+(?:[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?|[+-]?Inf|NaN)\s+\S*/\S")
EVENT = re.compile(r'^[ \t]*\{(?:"(?:Time|ImportPath)": ?"[^"\\n]*", ?)*"Action": ?"[a-z-]+"')
_SUFFIX = re.compile(r"-[1-9][0-9]*$")
_DEEPEST = 50  # parts of a benchmark inside each other that a result is looked for among
_UNIT_KEYS = {"better": ("lower", "higher"), "assume": ("exact", "nothing")}
BOM = "\ufeff"

NO_RESULT = "was begun and has no result"
EVENTS = "events of go test -json, {} in all: expected the text that go test writes without -json"


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

    kind: str  # "malformed", "failure", "skipped"; among a log's warnings "overwritten", "unit"
    text: str
    line: int


@dataclass(frozen=True)
class Log:
    """What one raw log holds."""

    records: tuple[Record, ...] = ()
    configuration: dict[str, str] = field(default_factory=dict)  # the last value of each key
    faults: tuple[Fault, ...] = ()
    text: tuple[int, ...] = ()  # lines that are none of the format's own
    better: dict[str, str] = field(default_factory=dict)  # unit -> "lower" or "higher", where the log says so
    warnings: tuple[Fault, ...] = ()  # keys that were given a second value; Unit lines with a key that is not known
    assume: dict[str, str] = field(default_factory=dict)  # unit -> "exact" or "nothing": no estimate here uses it

    @property
    def text_lines(self) -> int:
        """How many lines are none of the format's own."""
        return len(self.text)


def parse(data: bytes) -> Log:
    """Read one raw log. Never raises: what cannot be read is a fault with its line."""
    other = encoding(data)
    if other:
        return Log(faults=(Fault("malformed", f"{other}: expected UTF-8", 1),))
    reader = _Reader()
    lines = data.removeprefix(BOM.encode()).split(b"\n")
    unfinished = lines.pop()
    for number, raw in enumerate(lines, start=1):
        reader.read(raw.rstrip(b"\r"), number)
    if unfinished:
        reader.read_unfinished(unfinished, len(lines) + 1)
    return reader.log()


def encoding(data: bytes) -> str:
    """The name of the encoding, by its mark or by where its NUL bytes are, when it is one of those that are not read."""
    for mark, name in (
        (b"\xff\xfe\0\0", "UTF-32"),
        (b"\0\0\xfe\xff", "UTF-32"),
        (b"\xff\xfe", "UTF-16"),
        (b"\xfe\xff", "UTF-16"),
    ):
        if data.startswith(mark):
            return name
    head = data[:4096]
    lanes = [head[lane::4].count(0) / len(head[lane::4]) for lane in range(4) if head[lane::4]]
    empty = [share > 0.7 for share in lanes]
    if empty in ([False, True, True, True], [True, True, True, False]):
        return "UTF-32"
    return "UTF-16" if empty in ([False, True, False, True], [True, False, True, False]) else ""


class _Reader:
    """The state of reading one log, line after line."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._configuration: dict[str, str] = {}
        self._faults: list[Fault] = []
        self._warnings: list[Fault] = []
        self._said: dict[str, dict[str, str]] = {"better": {}, "assume": {}}
        self._begun: dict[
            str, int
        ] = {}  # names alone on a line, as `go test -v` prints them, that no result has followed
        self._events: list[int] = []
        self._text: list[int] = []

    def log(self) -> Log:
        """What was read."""
        self._end_begun()
        if self._events:
            self._fault("malformed", EVENTS.format(len(self._events)), self._events[0])
        return Log(
            tuple(self._records),
            self._configuration,
            tuple(sorted(self._faults, key=lambda fault: fault.line)),
            tuple(self._text),
            self._said["better"],
            tuple(self._warnings),
            self._said["assume"],
        )

    def _end_begun(self) -> None:
        for name, line in self._begun.items():
            self._fault("malformed", f"Benchmark{name} {NO_RESULT}", line)
        self._begun.clear()

    def read(self, raw: bytes, number: int) -> None:
        """Take one whole line for what it is."""
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            text = raw.decode("utf-8", errors="replace")
            died = _ENDED.search(text)  # a process may say with any bytes why it ends
            self._fault(
                *(("failure", text.strip()[:200]) if died else ("malformed", f"not UTF-8: {error.reason}")), number
            )
            return
        marked, line = line.startswith(BOM), line.lstrip(BOM)
        if _ENDED.search(line):
            self._fault("failure", line.strip()[:200], number)
        elif "\0" in line:
            self._fault("malformed", "a NUL byte: is this UTF-16, or a file with a hole?", number)
        elif _SKIPPED.search(line):
            self._fault("skipped", line.strip()[:200], number)
        elif marked and _is_data(line):
            self._fault("malformed", f"a byte order mark inside of the log, before {line.strip()[:200]!r}", number)
        elif EVENT.match(line):
            self._events.append(number)
        elif _starts_a_result(line):
            self._result_or_failure(line, number)
        elif _is_unit_line(line):
            self._unit(line, number)
        elif _RESULT_INSIDE.search(line):
            self._fault("malformed", f"a result that does not begin its line: {line.strip()[:200]!r}", number)
        elif _NAMELESS.match(line):
            self._fault("malformed", f"a result without its name: {line.strip()[:200]!r}", number)
        elif not self._configure(line, number) and line.strip():
            self._text.append(number)

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
            if key == "pkg":
                self._end_begun()
        self._configuration[key] = value
        return True

    def _unit(self, line: str, number: int) -> None:
        _, unit, *pairs = line.split()
        for pair in pairs:
            key, _, value = pair.partition("=")
            if not (key and value):
                self._fault("malformed", f"expected key=value after Unit {unit}, found {pair!r}", number)
            elif key not in _UNIT_KEYS:
                self._warnings.append(Fault("unit", f"{pair} of unit {unit}: nothing here knows this key", number))
            elif value not in _UNIT_KEYS[key] or self._said[key].setdefault(unit, value) != value:
                words = "cannot be better" if key == "better" else "cannot be assumed"
                self._fault("malformed", f"unit {unit} {words} {value!r} here", number)

    def _result_or_failure(self, line: str, number: int) -> None:
        name, *rest = line.split()
        bare = name.removeprefix("Benchmark")
        if not rest:
            if line != name or bare in self._begun:  # Go writes a name with a tab behind it where a result is to follow
                place = number if line != name else self._begun.pop(bare)
                self._fault("malformed", f"Benchmark{bare} {NO_RESULT}", place)
            if line == name:
                self._begun[bare] = number
            return
        if _ENDED_INSIDE.search(line):
            self._fault("failure", line.strip()[:200], number)
            return
        parsed = _result(name, rest)
        if isinstance(parsed, str):
            self._fault("malformed", parsed, number)
        else:
            self._followed(bare)
            self._records.append(Record(bare, int(rest[0]), parsed, number, self._configuration.get("pkg", "")))

    def _followed(self, name: str) -> None:
        """A result is the one that a name alone on a line announced: its own, one with a -P suffix, or one of a part."""
        if not self._begun:
            return
        self._begun.pop(name, None)
        name = _SUFFIX.sub("", name)
        end = len(name)
        for _ in range(_DEEPEST):
            if end < 0:
                break
            self._begun.pop(name[:end], None)
            end = name.rfind("/", 0, end)


def _is_data(line: str) -> bool:
    """Whether a line would be more than text."""
    return (
        _starts_a_result(line)
        or _is_unit_line(line)
        or _configuration_of(line) is not None
        or _NAMELESS.match(line) is not None
    )


def _is_unit_line(line: str) -> bool:
    """By the format any line whose first word is Unit; one without any pair is taken for a sentence."""
    return line.startswith("Unit") and line.split(maxsplit=1)[0] == "Unit" and "=" in line and len(line.split()) > 2


def _starts_a_result(line: str) -> bool:
    """By the format the name goes on in upper case; one that does not counts if a count of iterations follows."""
    if not line.startswith("Benchmark"):
        return False
    name, *rest = line.split()
    return not name[len("Benchmark") :][:1].islower() or bool(rest and re.match(r"^[0-9]+$", rest[0]))


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
            return f"expected a finite number for {unit[:40]}, found {text[:40]!r}"
        if number(unit) is not None:
            return f"expected a unit after {text[:40]}, found the number {unit[:40]!r}"
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
    """The line that `parse` reads back as this record. Raises ValueError for a record that the format cannot hold.

    By the format a name goes on in upper case behind "Benchmark", or in what has no case; harnesses of other languages
    write their cases as they are called, and both readers, this one and Go's, take that too.
    """
    if record.name[:1].islower():
        raise ValueError(f"not a record of the benchmark format: {record.name[:80]!r} begins in lower case")
    pairs = [field for value, unit in record.values for field in (repr(float(value)), unit)]
    line = " ".join([f"Benchmark{record.name}", str(record.iterations), *pairs])
    read = parse(line.encode() + b"\n")
    if [(found.name, found.iterations, found.values) for found in read.records] != [
        (record.name, record.iterations, record.values)
    ]:
        raise ValueError(f"not a record of the benchmark format: {line[:200]!r}")
    return line
