"""What a fault of a raw log says, word by word, and the edges at which a line is one thing or another."""

from __future__ import annotations

import pytest

from runner.benchfmt import EVENTS, Fault, Record, format_record, number, parse

GOOD = "BenchmarkGet 100 5.5 ns/op\n"
LONG = "x" * 1000


def only(text: str) -> Fault:
    """The one fault of a line between two good results, which must have line 2."""
    log = parse(f"{GOOD}{text}\n{GOOD}".encode())
    assert [record.line for record in log.records] == [1, 3]
    (fault,) = log.faults
    assert fault.line == 2
    return fault


HIGH = "\U0001d538\U0001f600" * 20  # no byte of these is zero in UTF-16, and one of four in UTF-32


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\xff\xfe" + HIGH.encode("utf-16-le"), "UTF-16"),
        (b"\xfe\xff" + HIGH.encode("utf-16-be"), "UTF-16"),
        (b"\xff\xfe\0\0" + HIGH.encode("utf-32-le"), "UTF-32"),
        (b"\0\0\xfe\xff" + HIGH.encode("utf-32-be"), "UTF-32"),
        (GOOD.encode("utf-16-le"), "UTF-16"),
        (GOOD.encode("utf-16-be"), "UTF-16"),
        (GOOD.encode("utf-32-le"), "UTF-32"),
        (GOOD.encode("utf-32-be"), "UTF-32"),
        ((GOOD * 1000).encode("utf-16-le"), "UTF-16"),
    ],
)
def test_another_encoding_is_the_one_fault_of_its_log(data: bytes, name: str) -> None:
    log = parse(data)
    assert (log.records, log.faults) == ((), (Fault("malformed", f"{name}: expected UTF-8", 1),))


def test_a_few_nul_bytes_are_no_encoding() -> None:
    lines = [GOOD.encode()] * 20
    lines[3] = b"a\0b\0c\n"  # at odd places, as in UTF-16
    log = parse(b"".join(lines))
    assert log.faults == (Fault("malformed", "a NUL byte: is this UTF-16, or a file with a hole?", 4),)
    assert len(log.records) == 19


def test_line_ends_are_taken_off_and_nothing_else() -> None:
    log = parse(b"BenchmarkA\r\nBenchmarkA 1 5 X\r\nBenchmarkB 1 6 X\n")
    assert log.faults == ()
    assert [record.values for record in log.records] == [((5, "X"),), ((6, "X"),)]
    log = parse(b"BenchmarkA \t\r\nBenchmarkA 1 5 ns/op\n")
    assert log.faults == (Fault("malformed", "BenchmarkA was begun and has no result", 1),)
    assert only("\rBenchmarkA 1 5 ns/op").text.startswith("a result that does not begin its line: ")


def test_events_are_one_fault_at_the_first_of_them() -> None:
    event = '{"Time":"2026-01-01T00:00:00Z","Action":"output","Output":"BenchmarkA 1 5 ns/op"}\n'
    log = parse(f"words\n{event}words\n{event}{event}".encode())
    assert log.faults == (Fault("malformed", EVENTS.format(3), 2),)
    assert (log.records, log.text) == ((), (1, 3))


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        ("BenchmarkA", "malformed", "BenchmarkA was begun and has no result"),
        ("--- SKIP: BenchmarkA", "skipped", "--- SKIP: BenchmarkA"),
        (f"--- SKIP: {LONG}", "skipped", f"--- SKIP: {LONG}"[:200]),
        (f"panic: {LONG}", "failure", f"panic: {LONG}"[:200]),
        (f"BenchmarkA-8 \tpanic: {LONG}", "failure", f"BenchmarkA-8 \tpanic: {LONG}"[:200]),
        (
            f"note {LONG[:250]} BenchmarkA 1 5 ns/op",
            "malformed",
            f"a result that does not begin its line: {f'note {LONG}'[:200]!r}",
        ),
        (f"  100\t 5 {LONG}/op", "malformed", f"a result without its name: {f'100{chr(9)} 5 {LONG}'[:200]!r}"),
        (
            f"\ufeffBenchmarkA {LONG}",
            "malformed",
            f"a byte order mark inside of the log, before {f'BenchmarkA {LONG}'[:200]!r}",
        ),
        (
            "\ufeffUnit ns/op better=lower",
            "malformed",
            "a byte order mark inside of the log, before 'Unit ns/op better=lower'",
        ),
        ("\ufeffrows: 10", "malformed", "a byte order mark inside of the log, before 'rows: 10'"),
        ("\ufeff 100 5 ns/op", "malformed", "a byte order mark inside of the log, before '100 5 ns/op'"),
        (
            f"BenchmarkA {LONG} 1 x",
            "malformed",
            f"expected a count of iterations above 0 after 'BenchmarkA', found {LONG[:40]!r}",
        ),
        (
            f"BenchmarkA 1 5 x {LONG}",
            "malformed",
            f"expected pairs of value and unit after BenchmarkA 1, found {f'5 x {LONG}'[:120]!r}",
        ),
        (
            f"BenchmarkA 1 {LONG} {LONG}/op",
            "malformed",
            f"expected a finite number for {LONG[:40]}, found {LONG[:40]!r}",
        ),
        (
            f"BenchmarkA 1 {'1' * 100} {'2' * 100}",
            "malformed",
            f"expected a unit after {'1' * 40}, found the number {'2' * 40!r}",
        ),
        ("BenchmarkA 1 5 x 6 x", "malformed", "unit x is there twice"),
        ("Unit x lower better=", "malformed", None),
        ("Unit x better=sideways", "malformed", "unit x cannot be better 'sideways' here"),
        ("Unit x better=lower=x", "malformed", "unit x cannot be better 'lower=x' here"),
        ("Unit x assume=much", "malformed", "unit x cannot be assumed 'much' here"),
        ("Unit x better=", "malformed", "expected key=value after Unit x, found 'better='"),
    ],
)
def test_the_words_of_a_fault(line: str, kind: str, text: str | None) -> None:
    if text is None:  # two pairs, each of which is wrong
        log = parse(f"{line}\n".encode())
        assert log.faults == tuple(
            Fault("malformed", f"expected key=value after Unit x, found {pair!r}", 1) for pair in ("lower", "better=")
        )
    else:
        assert only(line) == Fault(kind, text, 2)


def test_bytes_that_are_no_text_say_why() -> None:
    log = parse(b"Benchmark\xff 1 5 ns/op\n")
    assert log.faults == (Fault("malformed", "not UTF-8: invalid start byte", 1),)


@pytest.mark.parametrize(
    ("cut", "kind", "text"),
    [
        ("Unit x better=lower", "malformed", "the log ends in the middle of a line: 'Unit x better=lower'"),
        ("rows: 10", "malformed", "the log ends in the middle of a line: 'rows: 10'"),
        (f"Benchmark{LONG}", "malformed", f"the log ends in the middle of a line: {f'Benchmark{LONG}'[:120]!r}"),
        (f"panic: {LONG}", "failure", f"panic: {LONG}"[:200]),
    ],
)
def test_the_words_of_a_log_that_is_cut_off(cut: str, kind: str, text: str) -> None:
    assert parse(f"{GOOD}{cut}".encode()).faults == (Fault(kind, text, 2),)


def test_what_is_text_is_known_by_its_lines() -> None:
    log = parse("words\n\n\ufeffwords\nUnit a=b\nBenchmarkaB words\nBenchmarking 1x\n".encode())
    assert (log.faults, log.text) == ((), (1, 3, 4, 5, 6))


def test_units_and_what_is_assumed_of_them() -> None:
    log = parse(b"Unit p99-ns better=lower assume=nothing sd=1\nUnit tx/s assume=exact\n")
    assert (log.better, log.assume) == ({"p99-ns": "lower"}, {"p99-ns": "nothing", "tx/s": "exact"})
    assert log.warnings == (Fault("unit", "sd=1 of unit p99-ns: nothing here knows this key", 1),)


# -- names alone on a line, as `go test -v` prints them


@pytest.mark.parametrize(
    "text",
    [
        "BenchmarkA-8\nBenchmarkA-8 1 5 ns/op\n",
        "BenchmarkA\nBenchmarkA-8 1 5 ns/op\n",
        "BenchmarkA\nBenchmarkA/b\nBenchmarkA/b/c\nBenchmarkA/b/c-8 1 5 ns/op\n",
        "Benchmark\nBenchmark/x 1 5 ns/op\n",
        "rows: 1\nBenchmarkA\nrows: 2\nBenchmarkA 1 5 ns/op\n",
    ],
)
def test_a_result_follows_its_name(text: str) -> None:
    assert parse(text.encode()).faults == ()


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("BenchmarkA\nBenchmarkA\nBenchmarkA 1 5 ns/op\n", "A", 1),
        ("pkg: a\nBenchmarkA\npkg: b\nBenchmarkA 1 5 ns/op\n", "A", 2),
        ("BenchmarkA/b\nBenchmarkA/c-8 1 5 ns/op\n", "A/b", 1),
    ],
)
def test_a_name_that_no_result_follows_is_named(text: str, name: str, line: int) -> None:
    assert parse(text.encode()).faults == (Fault("malformed", f"Benchmark{name} was begun and has no result", line),)


# -- numbers


def test_numbers_at_the_edges() -> None:
    assert (number("0E5"), number("0e5"), number("1E-999"), number("1e-999")) == (0, 0, None, None)
    assert number("0" * 399 + "1") == 1
    assert number("0" * 400 + "1") is None


def test_a_record_that_the_format_cannot_hold_is_shown_in_part() -> None:
    name = "A b" + LONG
    with pytest.raises(ValueError, match="not a record of the benchmark format") as raised:
        format_record(Record(name, 1, ((5.0, "x"),), 1))
    assert str(raised.value) == f"not a record of the benchmark format: {f'Benchmark{name}'[:200]!r}"
    with pytest.raises(ValueError, match="begins in lower case") as raised:
        format_record(Record(LONG, 1, ((5.0, "x"),), 1))
    assert str(raised.value) == f"not a record of the benchmark format: {LONG[:80]!r} begins in lower case"
