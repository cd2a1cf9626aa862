"""The Go benchmark format: what is a result, what is not, and that nothing that looks like one goes by in silence."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runner.benchfmt import Fault, Log, Record, format_record, number, parse

GOOD = b"BenchmarkGet 100 5.5 ns/op\n"


def records(text: str) -> list[tuple[str, int, tuple[tuple[float, str], ...], int]]:
    """What a text without any fault holds."""
    log = parse(text.encode())
    assert log.faults == ()
    return [(record.name, record.iterations, record.values, record.line) for record in log.records]


def faults(data: bytes) -> list[tuple[str, int]]:
    return [(fault.kind, fault.line) for fault in parse(data).faults]


@pytest.mark.parametrize(
    ("line", "name", "iterations", "values"),
    [
        ("BenchmarkGet 100 5.5 ns/op", "Get", 100, ((5.5, "ns/op"),)),
        ("BenchmarkGet-8   \t     100\t         5.500 ns/op\t      16 B/op", "Get-8", 100, ((5.5, "ns/op"), (16, "B/op"))),
        ("Benchmark 1 1 ns/op", "", 1, ((1, "ns/op"),)),
        ("BenchmarkScan/rows=1,000/100%-16 1 1 ns/op", "Scan/rows=1,000/100%-16", 1, ((1, "ns/op"),)),
        ("BenchmarkÜberß/键-2 1 1 µs/op", "Überß/键-2", 1, ((1, "µs/op"),)),
        ("BenchmarkA#01 1 0 ns/op", "A#01", 1, ((0, "ns/op"),)),
        ("BenchmarkA 1 -1 x", "A", 1, ((-1, "x"),)),
        ("BenchmarkA 1 +1.5E+3 x", "A", 1, ((1500, "x"),)),
        ("BenchmarkA 1 .5 x", "A", 1, ((0.5, "x"),)),
        ("BenchmarkA 1 5. x", "A", 1, ((5, "x"),)),
        ("BenchmarkA 1 1e308 x", "A", 1, ((1e308, "x"),)),
        ("BenchmarkA 1 5e-324 x", "A", 1, ((5e-324, "x"),)),
        ("BenchmarkA 1 0e99 x", "A", 1, ((0, "x"),)),
        ("BenchmarkA 999999999999999999 1 x", "A", 999999999999999999, ((1, "x"),)),
        ("Benchmarklower 10 1 x", "lower", 10, ((1, "x"),)),
        ("BenchmarkA 1 " + " ".join(f"{i} u{i}" for i in range(30_000)), "A", 1, tuple((i, f"u{i}") for i in range(30_000))),
    ],
)  # fmt: skip
def test_results(line: str, name: str, iterations: int, values: tuple[tuple[float, str], ...]) -> None:
    assert records(line + "\n") == [(name, iterations, values, 1)]
    assert records("text\n\n" + line + "\r\n") == [(name, iterations, values, 3)]


@pytest.mark.parametrize(
    "line",
    [
        "BenchmarkA 0 1 ns/op",
        "BenchmarkA -1 1 ns/op",
        "BenchmarkA 1.5 1 ns/op",
        "BenchmarkA 007 1 ns/op",
        "BenchmarkA 1e3 1 ns/op",
        "BenchmarkA 1000000000000000000 1 ns/op",
        "BenchmarkA " + "9" * 5000 + " 1 ns/op",
        "BenchmarkA \u0661 1 ns/op",
        "BenchmarkA 1 \u0661 ns/op",
        "BenchmarkA 1",
        "BenchmarkA 1 5",
        "BenchmarkA 1 5 ns/op 6",
        "BenchmarkA 1 NaN ns/op",
        "BenchmarkA 1 nan ns/op",
        "BenchmarkA 1 +Inf ns/op",
        "BenchmarkA 1 inf ns/op",
        "BenchmarkA 1 1e309 ns/op",
        "BenchmarkA 1 1e-999 ns/op",
        "BenchmarkA 1 0x10 ns/op",
        "BenchmarkA 1 1_000 ns/op",
        "BenchmarkA 1 1,5 ns/op",
        "BenchmarkA 1 - ns/op",
        "BenchmarkA 1 " + "1" * 500 + " ns/op",
        "BenchmarkA 1 5 ns/op 6 ns/op",
        "BenchmarkA 1 ns/op 5",
        "BenchmarkA-8   \tsome words of the benchmark",
        "Benchmarklower 10",
        "Benchmarklower 10 1",
        # a result that is not where one belongs
        "  BenchmarkA 1 5 ns/op",
        "ok BenchmarkA 1 5 ns/op",
        "50%\rBenchmarkA 1 5 ns/op",
        "note: BenchmarkA 1 5 ns/op",
        "\ufeffBenchmarkA 1 5 ns/op",
        "     100\t     123.4 ns/op",
        "10000000\t     123.4 ns/op\t 5 B/op",
        "     100\t     NaN ns/op",
        "Bench\0markA 1 5 ns/op",
        "Unit ns/op better=sideways",
        "Unit ns/op better=",
    ],
)
def test_malformed_lines_are_named_and_give_no_number(line: str) -> None:
    data = GOOD + line.encode() + b"\n" + GOOD
    assert faults(data) == [("malformed", 2)]
    assert [record.line for record in parse(data).records] == [1, 3]


@pytest.mark.parametrize(
    "line",
    [
        "--- FAIL: BenchmarkA",
        "    --- FAIL: BenchmarkA/sub-8",
        "BenchmarkA-8   \t--- FAIL: BenchmarkA-8",
        "BenchmarkA-8   \t     100\t     5.5 ns/op\t--- FAIL: BenchmarkA-8",
        "BenchmarkA-8   \tpanic: runtime error: index out of range",
        "FAIL",
        "FAIL\tpkg\t0.1s",
        "panic: test timed out after 10m0s",
        "fatal error: all goroutines are asleep - deadlock!",
        "exit status 2",
        "*** Test killed with quit: ran too long (11m0s).",
        "SIGQUIT: quit",
        "signal: killed",
        "Traceback (most recent call last):",
        "unexpected fault address 0x0",
    ],
)
def test_failures_after_valid_results(line: str) -> None:
    data = GOOD + line.encode() + b"\n" + GOOD
    assert faults(data) == [("failure", 2)]
    assert line.strip() in parse(data).faults[0].text
    assert [record.line for record in parse(data).records] == [1, 3]


@pytest.mark.parametrize("line", ["--- SKIP: BenchmarkA", "BenchmarkA-8 \t--- SKIP: BenchmarkA-8"])
def test_skipped_benchmarks(line: str) -> None:
    assert faults(GOOD + line.encode() + b"\n") == [("skipped", 2)]


@pytest.mark.parametrize(
    "line",
    [
        "", "PASS", "ok  \tpkg\t1.234s", "=== RUN   BenchmarkA", "    a_test.go:12: some words", "Benchmarking three things",
        "10 of 20 and/or more", "goos", "Key: value", "a b: c", ": x", "12: 5 ns", "--- BENCH: BenchmarkA-8", "FAILED to",
    ],
)  # fmt: skip
def test_text_is_text(line: str) -> None:
    log = parse(line.encode() + b"\n")
    assert (log.records, log.faults, log.configuration) == ((), (), {})
    assert log.text_lines == bool(line)


def test_configuration() -> None:
    log = parse(
        b"goos: linux\nkey:\nempty: \t \nurl: http://x/y: z\nclose:no space\nk\xc3\xa9y: v\r\n\xc3\x89: no\nkEy: no\n"
    )
    assert log.configuration == {"goos": "linux", "key": "", "empty": "", "url": "http://x/y: z", "kéy": "v"}
    assert log.text_lines == 3
    assert log.faults == log.warnings == ()


def test_a_second_value_of_a_key_is_said() -> None:
    log = parse(b"rows: 10\nrows: 10\nrows: 20\n")
    assert log.configuration == {"rows": "20"}
    assert log.warnings == (Fault("overwritten", "rows: '10' before, '20' here", 3),)


def test_several_packages() -> None:
    log = parse(b"pkg: a/b\nBenchmarkA 1 5 ns/op\nPASS\npkg: a/c\nBenchmarkA 1 6 ns/op\n")
    assert [(record.package, record.values[0][0]) for record in log.records] == [("a/b", 5), ("a/c", 6)]


def test_units_and_their_direction() -> None:
    log = parse(b"Unit tx/s better=higher\nUnit p99-ns better=lower assume=nothing\nUnit of work\n")
    assert log.better == {"tx/s": "higher", "p99-ns": "lower"}
    assert (log.faults, log.text_lines) == ((), 1)
    assert faults(b"Unit tx/s better=higher\nUnit tx/s better=lower\n") == [("malformed", 2)]


def test_verbose_output() -> None:
    text = "=== RUN   BenchmarkA\nBenchmarkA\nBenchmarkA/one\nBenchmarkA/one-8 \t 100\t 5 ns/op\nPASS\n"
    assert records(text) == [("A/one-8", 100, ((5, "ns/op"),), 4)]


def test_a_benchmark_that_was_begun_and_has_no_result() -> None:
    assert faults(b"BenchmarkA\nBenchmarkAb 1 5 ns/op\n") == [("malformed", 1)]
    assert faults(b"BenchmarkA-8   \t\nwords in between\n     100\t 5 ns/op\n") == [("malformed", 1), ("malformed", 3)]


def test_repeated_names_are_repeats() -> None:
    assert [line for *_, line in records("BenchmarkA 1 5 ns/op\n" * 3)] == [1, 2, 3]


@pytest.mark.parametrize("cut", range(1, len(GOOD)))
def test_a_result_that_is_cut_off_anywhere(cut: int) -> None:
    data = GOOD + GOOD[:-1][:cut]
    assert faults(data) == [("malformed", 2)]
    assert len(parse(data).records) == 1


def test_other_lines_that_are_cut_off() -> None:
    assert faults(b"rows: 10") == [("malformed", 1)]
    assert faults(b"Unit x better=low") == [("malformed", 1)]
    assert faults(b"panic: at once") == [("failure", 1)]
    assert faults(b"PASS") == []


def test_encodings() -> None:
    assert records("\ufeffBenchmarkA 1 5 ns/op\r\n") == [("A", 1, ((5, "ns/op"),), 1)]
    for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        log = parse(GOOD.decode().encode(name))
        assert log.records == ()
        assert log.faults[0].kind == "malformed"
        assert log.faults[0].line == 1
    log = parse(GOOD + b"Benchmark\xff 1 5 ns/op\n" + GOOD + b"\x80\n")
    assert [(fault.text.partition(":")[0], fault.line) for fault in log.faults] == [("not UTF-8", 2), ("not UTF-8", 4)]
    assert [record.line for record in log.records] == [1, 3]


def test_very_long_lines() -> None:
    name = "x" * 1_000_000
    assert records(f"BenchmarkA/{name} 1 5 ns/op\n")[0][0] == f"A/{name}"
    assert faults(b"Benchmark" * 200_000 + b"\n") == [("malformed", 1)]
    assert faults((" " + "Benchmark" * 20_000 + "\n").encode()) == []
    assert faults(b"x" * 1_000_000 + b" BenchmarkA 1 5 ns/op\n") == [("malformed", 1)]


def test_an_empty_log() -> None:
    assert parse(b"") == parse(b"\n\n") == Log()


WORD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: text.split() == [text] and "\0" not in text
)
VALUES = st.lists(
    st.tuples(st.floats(allow_nan=False, allow_infinity=False), WORD.filter(lambda unit: number(unit) is None)),
    min_size=1,
    unique_by=lambda v: v[1],
)
NAME = WORD.filter(lambda text: "--- " not in text and not text[0].islower())


@given(
    st.lists(st.tuples(NAME, st.integers(1, 10**18 - 1), VALUES), min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n"]),
)
def test_round_trip(found: list[tuple[str, int, list[tuple[float, str]]]], end: str) -> None:
    """What the writer writes, the parser reads back: every digit of every value."""
    made = [Record(name, count, tuple(values), line) for line, (name, count, values) in enumerate(found, start=1)]
    log = parse("".join(format_record(record) + end for record in made).encode())
    assert log.records == tuple(made)
    assert log.faults == ()
    assert [math.copysign(1, v) for r in log.records for v, _ in r.values] == [
        math.copysign(1, v) for r in made for v, _ in r.values
    ]


@pytest.mark.parametrize(
    "record",
    [
        Record("two words", 1, ((1.0, "x"),), 1),
        Record("lower", 1, ((1.0, "x"),), 1),
        Record("A", 1, ((1.0, "2"),), 1),
        Record("A", 0, ((1.0, "x"),), 1),
        Record("A", 1, (), 1),
        Record("A", 1, ((math.nan, "x"),), 1),
        Record("A", 1, ((math.inf, "x"),), 1),
        Record("A", 1, ((1.0, ""),), 1),
        Record("A", 1, ((1.0, "a b"),), 1),
        Record("A", 1, ((1.0, "x"), (2.0, "x")), 1),
        Record("A\nBenchmarkB", 1, ((1.0, "x"),), 1),
        Record("A", 1, ((1.0, "x\n"),), 1),
        Record("\ud800", 1, ((1.0, "x"),), 1),
    ],
)
def test_what_the_format_cannot_hold_is_not_written(record: Record) -> None:
    with pytest.raises(ValueError, match=r"not a record|surrogates"):
        format_record(record)


PIECES = st.sampled_from(
    [
        b"Benchmark",
        b"BenchmarkA",
        b" ",
        b"\t",
        b"\n",
        b"\r",
        b"1",
        b"100",
        b"5.5",
        b"NaN",
        b"ns/op",
        b"--- FAIL: ",
        b"\0",
    ]
    + [b"Unit ", b"better=", b"key: ", b"panic: ", b"pkg: a", b"\xef\xbb\xbf", b"\xff", b"-8", b"/", b"\xc2\x85"]
)


@given(st.binary(max_size=200) | st.lists(PIECES, max_size=40).map(b"".join))
@example(b"Benchmark")
@example(b"\xef\xbb\xbf")
def test_any_bytes_at_all(data: bytes) -> None:
    """Never an exception; every record and fault on a line that there is, and no line is both."""
    log = parse(data)
    lines = data.split(b"\n")
    taken = [record.line for record in log.records]
    assert taken == sorted(set(taken))
    assert all(1 <= entry.line <= len(lines) for entry in (*log.records, *log.faults, *log.warnings))
    assert not set(taken) & {fault.line for fault in log.faults}
    for record in log.records:
        assert record.iterations > 0
        assert record.values
        assert all(math.isfinite(value) for value, _ in record.values)
        assert lines[record.line - 1].removeprefix(b"\xef\xbb\xbf").startswith(b"Benchmark" + record.name.encode())


@given(st.lists(PIECES, max_size=8).map(b"".join), st.lists(PIECES, max_size=8).map(b"".join))
def test_no_result_goes_by_in_silence(before: bytes, after: bytes) -> None:
    """Whatever stands before and behind a good result on its line: it is read, or the line is a fault."""
    before, after = before.replace(b"\n", b""), after.replace(b"\n", b"")
    log = parse(before + b"BenchmarkA 100 5.5 ns/op" + after + b"\n")
    assert len(log.records) <= 1
    assert bool(log.records) != bool(log.faults)
