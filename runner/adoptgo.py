"""Go benchmark output that was made elsewhere: one file may hold several processes, and a process several cases. Pure.

A process ends with the lines that Go writes at its end, `PASS`, `ok` or `FAIL`; the next begins with its header or its first
result. What failed, panicked or was cut off is a piece with a reason and without values; what is read as nothing is named.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from runner import benchfmt
from runner.adoption import AdoptedValue
from runner.benchfmt import NO_RESULT
from runner.errors import DataError

# As Go writes them, and not as a benchmark may: one that prints "ok, loaded" has not ended its process.
_OVER = re.compile(rb"^ok\s+\S+\s+([0-9.]+s|\(cached\))")
_ENDS = re.compile(rb"^(PASS|FAIL)\s*$|^FAIL\s+\S|" + _OVER.pattern)
_FAILS = re.compile(rb"^(FAIL\b|panic: |fatal error: |exit status [1-9]|signal: )")
_HEADER = re.compile(rb"^(goos|goarch|pkg|cpu|toolchain):[ \t]")
_CONFIGURATION = re.compile(rb"^[a-z][^\s:A-Z]*:[ \t]")
_RESULT = re.compile(rb"^Benchmark([^a-z\s]\S*(\s|$)|\S+\s+[0-9]+\s)")  # a name in lower case where a count follows
_NAMED = re.compile(r"--- [A-Z]+: Benchmark(\S+)|Benchmark([^a-z\s]\S*|\S+(?=\s+[0-9]+\s))")
_EVENTS = re.compile(benchfmt.EVENT.pattern.encode(), re.MULTILINE)
_DEEPEST = 50  # parts of a benchmark inside each other that a failure is told of
HOST = ("goos", "goarch", "cpu", "toolchain")
_VERDICT = re.compile(r"^(FAIL\b|exit status )")  # of a whole process, whatever failed in it
_USUAL = re.compile(
    r"^(PASS$|ok\s|\?\s|coverage: |testing: warning: |=== (RUN|NAME|CONT|PAUSE)\s|--- (BENCH|PASS): |\s+\S+_test\.go:\d+:)"
)
_GOES_ON = re.compile(r"--- FAIL\b|^FAIL\b")  # failures behind which Go goes on with another benchmark or package
SUFFIX = re.compile(r"-[1-9][0-9]*$")


@dataclass(frozen=True)
class Piece:
    """What one process, or one group of rows, says of one case: values, or why there are none; never both."""

    file: str  # below the folder that was brought
    process: int  # number in its file, from 1
    name: str  # of the case, as it is written there, without "Benchmark"
    lines: tuple[int, int]
    values: tuple[AdoptedValue, ...] = ()
    problem: str = ""
    package: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    go: bool = True  # whether the name may end in a GOMAXPROCS suffix
    host: tuple[tuple[str, str], ...] = ()  # what the output says of where it was made


@dataclass(frozen=True)
class Read:
    """The pieces of one file, and what in it is no result, named."""

    pieces: tuple[Piece, ...]
    notes: tuple[str, ...] = ()
    better: dict[str, str] = field(default_factory=dict)  # unit -> "lower" or "higher", where the output says so


def processes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The first line's number and the bytes of every process of a file, in order; together they are the file."""
    first, start, offset = 1, 0, 0
    ended, over, seen = False, False, set[bytes]()
    for number, line in enumerate(_lines(data), start=1):
        header = _HEADER.match(line)
        begins = (ended and _begins(line)) or (header is not None and (header[1] in seen or b"result" in seen))
        # Behind `ok` a failure is of another package, or of all that `go test ./...` was asked for.
        if (begins or (over and _FAILS.match(line))) and offset > start:
            yield first, data[start:offset]
            first, start, ended, over, seen = number, offset, False, False, set()
        if header:
            seen.add(header[1])
        elif _RESULT.match(line):
            seen.add(b"result")
        ended = ended or _ENDS.match(line) is not None
        over = over or _OVER.match(line) is not None
        offset += len(line)
    if offset > start:
        yield first, data[start:offset]


def _lines(data: bytes) -> Iterator[bytes]:
    """Lines as the format has them: a lone carriage return ends none."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end


def _begins(line: bytes) -> bool:
    """Whether a line after the end of a process is of the next one."""
    configuration = _CONFIGURATION.match(line) is not None and not line.startswith((b"coverage:", b"testing:"))
    return configuration or _RESULT.match(line) is not None


def read(data: bytes, file: str, case: str | None = None) -> Read:
    """Every process of a file of Go output, case by case.

    Where the file is known to be of one case, a process without any result is a failed run of it, and so is an empty file;
    else it is noted. Raises DataError for the events of `go test -json` and for UTF-16, which are no text of this format.
    """
    other = benchfmt.encoding(data)
    if other:
        raise DataError(f"{file}:1", f"{other}, as some shells write it", expected="UTF-8", remedy="save it as UTF-8")
    events = _EVENTS.search(data) if b'"Action"' in data else None
    if events:
        line = data.count(b"\n", 0, events.start()) + 1
        raise DataError(
            f"{file}:{line}", "events of go test -json",
            expected="the text that go test writes without -json",
            remedy="put the Output fields of the events together, or leave the file out with --ignore",
        )  # fmt: skip
    pieces: list[Piece] = []
    notes: list[str] = []
    better: dict[str, str] = {}
    data = data.removeprefix(b"\xef\xbb\xbf")
    for number, (first, part) in enumerate(processes(data), start=1):
        found = _process(part, file, number, first - 1, case)
        pieces += found.pieces
        notes += found.notes
        better |= found.better
    if not data and case:
        pieces.append(Piece(file, 1, case, (1, 1), (), f"{file}:1: an empty file"))
    if not pieces:
        notes.append(f"{file}: no result in it")
    return Read(tuple(pieces), tuple(notes), better)


def _process(part: bytes, file: str, number: int, before: int, case: str | None) -> Read:
    log = benchfmt.parse(part)
    lines = list(_lines(part))
    records: dict[str, list[benchfmt.Record]] = {}
    for record in log.records:
        records.setdefault(record.name, []).append(record)
    faults = _by_name(log, lines, list(records))
    pieces = []
    for name in dict.fromkeys((*records, *(name for name in faults if name))):
        fault = faults.get(name) or faults.get("")
        own = records.get(name, [])
        numbers = [record.line for record in own] + ([fault.line] if fault else [])
        pieces.append(
            Piece(
                file,
                number,
                name,
                (min(numbers) + before, max(numbers) + before),
                () if fault else _values(own, before),
                f"{file}:{fault.line + before}: {fault.kind}: {fault.text}" if fault else _packages(own, file, before),
                own[0].package if own else log.configuration.get("pkg", ""),
                host=tuple((key, log.configuration[key]) for key in HOST if key in log.configuration),
            )
        )
    pieces = [replace(piece, values=()) if piece.problem else piece for piece in pieces]
    notes = [_odd(lines, log, file, before), _unknown(log, file, before), _no_end(lines, log, file, before)]
    if not pieces and not (before and _is_rest(lines)):
        line, why = next(((fault.line, f": {fault.kind}: {fault.text}") for fault in log.faults), (1, ""))
        text = f"{file}:{line + before}: a process without a result{why}"
        if case:
            pieces.append(Piece(file, number, case, (1 + before, len(lines) + before), (), text))
        elif why or any(map(_HEADER.match, lines)):
            notes.append(text)
    return Read(tuple(pieces), tuple(filter(None, notes)), log.better)


def _is_rest(lines: list[bytes]) -> bool:
    """Whether lines behind the end of a process are no process: what a script adds, or the `FAIL` of all packages together."""
    said = [line for line in lines if line.strip()]
    return all(line.strip() == b"FAIL" for line in said) or not any(
        _HEADER.match(line) or _ENDS.match(line) or _FAILS.match(line) for line in said
    )


def _packages(own: list[benchfmt.Record], file: str, before: int) -> str:
    other = next((record for record in own if record.package != own[0].package), None)
    if other is None:
        return ""
    return f"{file}:{other.line + before}: results of two packages: {own[0].package!r}, and {other.package!r} here"


def _values(own: list[benchfmt.Record], before: int) -> tuple[AdoptedValue, ...]:
    counts: dict[str, int] = {}
    values = []
    for record in own:
        for value, unit in record.values:
            repeat = counts.setdefault(unit, 0)
            counts[unit] += 1
            values.append(AdoptedValue(unit, value, repeat, record.line + before, record.iterations))
    return tuple(values)


def _by_name(log: benchfmt.Log, lines: list[bytes], names: list[str]) -> dict[str, benchfmt.Fault]:
    """The fault of each benchmark, by its name as written; under "" one that fails every case of the process.

    A line that names nobody is a consequence of the named fault before it, such as the `FAIL` at the end of a process in
    which a benchmark failed; and where a part failed, Go says so of the whole too, which says nothing of the other parts.
    """
    said = [(fault, _told_name(lines[fault.line - 1])) for fault in log.faults]
    known, results = _Names(names), [record.line for record in log.records]
    skipped = {SUFFIX.sub("", name) for fault, name in said if name and fault.kind == "skipped"}
    parts: dict[str, set[bool]] = {}  # a benchmark -> whether a part of it was skipped, or failed
    for fault, name in said:
        for whole in _wholes(name or ""):
            parts.setdefault(whole, set()).add(fault.kind == "skipped")
    cause = 0  # line of the last fault that names a benchmark and may have ended the process: to skip one ends none
    found: dict[str, benchfmt.Fault] = {}
    told: set[tuple[str | None, bool]] = set()
    for fault, name in said:
        begun = fault.text.endswith(NO_RESULT)
        bare = SUFFIX.sub("", name or "")
        if name is None:
            between = bisect_left(results, fault.line) - bisect_right(results, cause)
            targets = [] if cause and (_VERDICT.match(fault.text) or not between) else [""]
        elif (name, fault.kind == "malformed") in told or False in parts.get(bare, ()) or (begun and bare in parts):
            targets = []
        else:
            targets = known.meant(name) if name else names[-1:] or [""]
            told.add((name, fault.kind == "malformed"))
        if name is not None and fault.kind != "skipped" and not (begun and bare in skipped):
            cause = fault.line
        for target in targets:
            if target not in found or (found[target].text.endswith(NO_RESULT) and fault.kind != "malformed"):
                found[target] = fault  # why a benchmark has no result says more than that it has none
    # A process that died measured nothing afterwards: what stands behind is of another one, that nothing sets apart.
    died = next((fault for fault, _ in said if fault.kind == "failure" and not _GOES_ON.search(fault.text)), None)
    for record in log.records if died else ():
        if died and record.line > died.line:
            found.setdefault(record.name, died)
    # Go writes a failed benchmark's name in both forms: one that was told with its suffix was told.
    suffixed = {SUFFIX.sub("", name) for name in found if SUFFIX.search(name)}
    return {name: fault for name, fault in found.items() if name in known.all or not name or name not in suffixed}


class _Names:
    """The benchmarks with results of a process."""

    def __init__(self, names: list[str]) -> None:
        self.all = frozenset(names)
        self._sorted = sorted(names)
        self._bare: dict[str, list[str]] = {}
        for name in names:
            self._bare.setdefault(SUFFIX.sub("", name), []).append(name)

    def meant(self, name: str) -> list[str]:
        """Those that a fault's name means: itself, with a suffix, or its parts; else itself alone."""
        same = [name] if name in self.all else []
        same += [other for other in self._bare.get(name, ()) if other != name]
        if same:
            return same
        start = f"{SUFFIX.sub('', name)}/"
        first = bisect_left(self._sorted, start)
        last = bisect_left(self._sorted, start + "\U0010ffff", first)
        return self._sorted[first:last] or [name]


def _told_name(line: bytes) -> str | None:
    """The benchmark that a fault's line names; None for nobody, "" for the last one of the log.

    Go measures one benchmark after the other, so that a log whose last line is cut off before a name is whole leaves open
    only its last one.
    """
    text = line.decode("utf-8", errors="replace")
    named = _NAMED.search(text)
    whole = line.endswith(b"\n") or (named is not None and named.end() < len(text))
    if not whole and text.startswith("Bench"[: len(text)]):
        return ""
    return (named[1] or named[2]).rstrip(":") if named else None


def _wholes(name: str) -> Iterator[str]:
    """The benchmarks that a name is a part of."""
    end = len(name)
    for _ in range(_DEEPEST):
        end = name.rfind("/", 0, end)
        if end < 0:
            return
        yield name[:end]


def _unknown(log: benchfmt.Log, file: str, before: int) -> str:
    """A note on lines of units that say what nothing here knows, with the first of them."""
    found = [warning for warning in log.warnings if warning.kind == "unit"]
    return f"{file}:{found[0].line + before}: not read, {len(found)} in all: {found[0].text}" if found else ""


def _no_end(lines: list[bytes], log: benchfmt.Log, file: str, before: int) -> str:
    """A note on a process of Go, known by its header, that is not ended as Go ends one: nothing says that it came to its end."""
    if not log.records or log.faults or any(map(_ENDS.match, lines)) or not any(map(_HEADER.match, lines)):
        return ""
    return f"{file}:{len(lines) + before}: no PASS or FAIL ends this process: it was cut off, or its log was trimmed"


def _odd(lines: list[bytes], log: benchfmt.Log, file: str, before: int) -> str:
    """A note on lines that are neither result nor configuration nor what Go always prints, with the first of them."""
    odd = []
    for number in log.text:
        text = lines[number - 1].decode("utf-8", errors="replace").rstrip()
        if not _USUAL.match(text):
            odd.append((number + before, text))
    if not odd:
        return ""
    count = "1 line is" if len(odd) == 1 else f"{len(odd)} lines are"
    return f"{file}:{odd[0][0]}: {count} neither result nor configuration, the first: {odd[0][1][:80]!r}"
