"""What a run's raw log must hold by the plan: each way in which it does not."""

from __future__ import annotations

import pytest

from runner.benchfmt import parse
from runner.plan import Phase
from runner.rawlog import Content, Value, content
from tests.small import phase

GOOD = """rows: 100
BenchmarkSave 10 5.5 ns/op
BenchmarkSave 20 6.5 ns/op
BenchmarkSave 3 160 B/op
"""


def found(text: str, case: str = "Save", of: Phase | None = None) -> Content:
    return content(parse(text.encode()), of or phase("B"), case)


def test_a_good_log() -> None:
    assert found(GOOD) == Content(
        (
            Value(0, "ns/op", 5.5, 10, 2),
            Value(1, "ns/op", 6.5, 20, 3),
            Value(0, "B/op", 160.0, 3, 4),
        ),
        None,
    )
    together = "BenchmarkSave 10 5.5 ns/op\nBenchmarkSave 20 6.5 ns/op 160 B/op\n"
    assert [(value.metric, value.repeat) for value in found(together).values] == [
        ("ns/op", 0),
        ("ns/op", 1),
        ("B/op", 0),
    ]
    assert found(GOOD.replace("5.5", "0")).values[0].value == 0


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("BenchmarkSave 20", "BenchmarkLoad 20", "stdout.txt:3: a result of 'Load' in a run of case 'Save'"),
        ("BenchmarkSave 20", "BenchmarkSaves 20", "stdout.txt:3: a result of 'Saves' in a run of case 'Save'"),
        ("BenchmarkSave 20", "BenchmarkSave-x 20", "stdout.txt:3: a result of 'Save-x' in a run of case 'Save'"),
        ("BenchmarkSave 20", "BenchmarkSave-0 20", "stdout.txt:3: a result of 'Save-0' in a run of case 'Save'"),
        ("BenchmarkSave 20", "BenchmarkSave-2-2 20", "stdout.txt:3: a result of 'Save-2-2' in a run of case 'Save'"),
        ("BenchmarkSave 20", "Benchmarksave 20", "stdout.txt:3: a result of 'save' in a run of case 'Save'"),
        (
            "BenchmarkSave 20",
            "BenchmarkScan/serial 20",
            "stdout.txt:3: a result of 'Scan/serial' in a run of case 'Save'",
        ),
        ("BenchmarkSave 20", "BenchmarkSave-8 20", "stdout.txt:3: results of different names or packages in one run"),
        ("BenchmarkSave 20", "pkg: other\nBenchmarkSave 20", "stdout.txt:4: results of different names or packages"),
        ("BenchmarkSave 20 6.5 ns/op\n", "", "stdout.txt: expected 2 values of ns/op, found 1"),
        ("rows: 100\n", "BenchmarkSave 20 6.5 ns/op\n", "stdout.txt: expected 2 values of ns/op, found 3"),
        ("BenchmarkSave 3 160 B/op\n", "", "stdout.txt: expected 1 values of B/op, found 0"),
        ("6.5 ns/op", "6.5 ns/op 160 B/op", "stdout.txt: expected 1 values of B/op, found 2"),
        ("160 B/op", "160 B/op 3 allocs/op", "stdout.txt:4: unit 'allocs/op' is not in the plan"),
        ("5.5 ns/op", "5.5 us/op", "stdout.txt:2: unit 'us/op' is not in the plan"),
        ("6.5 ns/op", "-6.5 ns/op", "stdout.txt:3: a negative ns/op: -6.5"),
        ("160 B/op", "-160 B/op", "stdout.txt:4: a negative B/op: -160.0"),
        ("6.5 ns/op", "NaN ns/op", "stdout.txt:3: malformed: expected a finite number for ns/op, found 'NaN'"),
        ("20 6.5", "0 6.5", "stdout.txt:3: malformed: expected a count of iterations above 0"),
        ("rows: 100", "--- FAIL: BenchmarkSave", "stdout.txt:1: failure: --- FAIL: BenchmarkSave"),
        ("rows: 100", "--- SKIP: BenchmarkSave", "stdout.txt:1: skipped: --- SKIP: BenchmarkSave"),
        ("160 B/op\n", "160 B/op\npanic: too late\n", "stdout.txt:5: failure: panic: too late"),
        ("160 B/op\n", "160 B/o", "stdout.txt:4: malformed: the log ends in the middle of a line"),
        ("rows: 100", "rows: 100\nrows: 101", "stdout.txt:2: a covariate with two values: rows: '100' before, '101'"),
        ("rows: 100", "Unit ns/op better=higher", "stdout.txt: ns/op is better higher here, and lower in the plan"),
        (GOOD, "rows: 100\nPASS\n", "stdout.txt: no result"),
        (GOOD, "", "stdout.txt: no result"),
    ],
)
def test_bad_logs_have_a_reason_and_no_value(old: str, new: str, problem: str) -> None:
    assert old in GOOD
    log = found(GOOD.replace(old, new, 1))
    assert log.values == ()
    assert log.problem is not None
    assert log.problem.startswith(problem)


def test_what_is_no_problem() -> None:
    assert found(GOOD.replace("rows: 100", "loops: 1\nloops: 2\nUnit ns/op better=lower")).problem is None
    assert found(GOOD.replace("Save ", "Save-8 ")).problem is None
    assert [value.value for value in found(GOOD.replace("Save ", "Save-8 ")).values] == [5.5, 6.5, 160]


def with_cases(*names: str) -> Phase:
    before = phase("B")
    return before.model_copy(
        update={"cases": tuple(before.cases[0].model_copy(update={"name": name}) for name in names)}
    )


def test_a_case_whose_own_name_ends_like_a_suffix() -> None:
    """With GOMAXPROCS=8 Go writes Get-8 for Get, and Get-8-8 for Get-8."""
    alone = with_cases("Get-8", "Set")
    for name in ("Get-8", "Get-8-2"):
        assert found(GOOD.replace("Save", name), "Get-8", alone).problem is None
    for name in ("Get", "Get-2"):
        assert found(GOOD.replace("Save", name), "Get-8", alone).problem is not None


@pytest.mark.parametrize("case", ["Get", "Get-8"])
def test_a_name_that_two_cases_could_have_written_is_not_guessed(case: str) -> None:
    both = with_cases("Get", "Get-8")
    problem = found(GOOD.replace("Save", "Get-8"), case, both).problem
    assert problem == "stdout.txt:2: 'Get-8' may be a case, or case 'Get' with a GOMAXPROCS suffix"
    assert found(GOOD.replace("Save", f"{case}-2"), case, both).problem is None
