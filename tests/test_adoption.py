"""Reading adopted files: processes, failures, names, maps, tables. Pure."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner import adoptcsv, adoptgo, adoptplan
from runner.adoption import AdoptedRun, AdoptedValue, Adoption, entry
from runner.adoptmaps import Known, assign, case_forms, parse
from runner.adoptruns import Pieces, natural, read_files, runs
from runner.errors import BenchbookError, DataError, WrongUse
from runner.files import escape
from runner.orders import Labels
from runner.plan import Plan
from runner.planfile import parse_open
from tests import small

HEADER = "goos: linux\ngoarch: amd64\npkg: example.org/a\ncpu: One\n"
GOOD = (
    HEADER
    + "BenchmarkLoad-8 \t 100\t 12.5 ns/op\nBenchmarkScan/rows=10-8 \t 50\t 20.0 ns/op\nPASS\nok  \texample.org/a\t1.0s\n"
)


def go(text: str, file: str = "old.txt") -> adoptgo.Read:
    return adoptgo.read(text.encode(), file)


def names(read: adoptgo.Read) -> list[tuple[int, str, str]]:
    return [(piece.process, piece.name, "failed" if piece.problem else "ok") for piece in read.pieces]


def plan_of(files: dict[str, str], *maps: str, contrasts: tuple[str, ...] = ()) -> Plan:
    return parse_open(plan_text(files, *maps, contrasts=contrasts)).plan


def plan_text(files: dict[str, str], *maps: str, contrasts: tuple[str, ...] = ()) -> str:
    read = adoptplan.named(pieces(files, None, *maps))
    arms = list(dict.fromkeys(piece.fields["arm"] for piece in read.pieces if "arm" in piece.fields))
    return adoptplan.text("mine", "logs", read, arms, contrasts)


def pieces(files: dict[str, str], plan: Plan | None, *maps: str) -> Pieces:
    assigned = assign(sorted(files), [parse(text) for text in maps], (), Known.of(plan))
    return read_files(assigned, lambda path: files[path].encode(), plan)


def adopted(files: dict[str, str], *maps: str, plan: Plan | None = None) -> list[AdoptedRun]:
    plan = plan or plan_of(files, *maps)
    return list(runs(pieces(files, plan, *maps), plan).runs)


def test_a_file_of_several_processes() -> None:
    read = go(GOOD * 3)
    assert names(read) == [(n, name, "ok") for n in (1, 2, 3) for name in ("Load-8", "Scan/rows=10-8")]
    assert [piece.lines for piece in read.pieces] == [(5, 5), (6, 6), (13, 13), (14, 14), (21, 21), (22, 22)]
    assert read.pieces[2].values == (AdoptedValue("ns/op", 12.5, 0, 13, 100),)
    assert read.notes == ()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (GOOD, 1),
        (GOOD.replace("PASS\nok  \texample.org/a\t1.0s\n", "") * 2, 2),  # killed between, a header says where
        ("BenchmarkLoad 1 2 ns/op\nPASS\n" * 3, 3),
        ("BenchmarkLoad 1 2 ns/op\n" * 3, 1),  # repeats of one process: nothing says otherwise
        (HEADER + "BenchmarkLoad 1 2 ns/op\nPASS\ncoverage: 5% of statements\nok  \ta\t1s\n" + GOOD, 2),
        (GOOD + "commit: abc\n" + GOOD, 2),
        (
            HEADER
            + "BenchmarkLoad 1 2 ns/op\nok, loaded\nBenchmarkLoad 1 2 ns/op\nPASSED 3\nBenchmarkLoad 1 2 ns/op\nPASS\n",
            1,
        ),
        (GOOD.replace("\n", "\r\n") * 2, 2),
        (GOOD + "elapsed: 3 s\n", 1),
        ("pkg: a\nBenchmarkLoad 1 2 ns/op\npkg: b\nBenchmarkLoad 1 2 ns/op\n", 2),
    ],
)
def test_where_a_process_begins(text: str, count: int) -> None:
    parts = list(adoptgo.processes(text.encode()))
    assert b"".join(part for _, part in parts) == text.encode()
    assert len({piece.process for piece in go(text).pieces}) == count


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(
            ["goos: x", "pkg: y", "PASS", "ok  a", "FAIL", "Benchmark", "BenchmarkA 1 2 ns/op", "", "\r", "x"]
        )
    )
)
def test_processes_are_the_whole_file_with_its_line_numbers(lines: list[str]) -> None:
    data = "\n".join(lines).encode()
    place = 1
    for first, part in adoptgo.processes(data):
        assert first == place
        place += part.count(b"\n")
    assert b"".join(part for _, part in adoptgo.processes(data)) == data


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_exception_of_ours_missing(data: bytes) -> None:
    for piece in adoptgo.read(GOOD.encode() + data, "a.txt").pieces:
        assert bool(piece.values) != bool(piece.problem)
        assert piece.lines[0] <= piece.lines[1] <= data.count(b"\n") + 9


FAILED = "--- FAIL: BenchmarkScan/rows=10-8\n    a_test.go:7: wrong answer\n"


@pytest.mark.parametrize(
    ("text", "failed", "reason"),
    [
        (GOOD.replace("PASS", FAILED + "FAIL"), {"Scan/rows=10-8"}, "old.txt:7: failure: --- FAIL: BenchmarkScan/rows=10-8"),
        (
            HEADER + "BenchmarkLoad-8 100 12 ns/op\nBenchmarkScan-8 \tpanic: boom\ngoroutine 1:\nexit status 2\nFAIL\ta\n",
            {"Scan-8"},
            "panic: boom",
        ),
        (GOOD.partition("\t 20.0")[0], {"Scan/rows=10-8"}, "the log ends in the middle of a line"),
        (HEADER + "BenchmarkLoad-8 100 12 ns/op\nBench", {"Load-8"}, "the log ends in the middle of a line"),
        (HEADER + "BenchmarkLoad-8 100 12 ns/op\nBenchmarkSc", {"Load-8"}, "the log ends in the middle of a line"),
        (GOOD.replace("PASS", "fatal error: out of memory"), {"Load-8", "Scan/rows=10-8"}, "fatal error: out of memory"),
        (GOOD.replace("20.0 ns", "NaN ns"), {"Scan/rows=10-8"}, "expected a finite number for ns/op"),
        (HEADER + "BenchmarkScan/a-8 1 2 ns/op\nBenchmarkLoad-8 1 2 ns/op\n--- FAIL: BenchmarkScan\nFAIL\n", {"Scan/a-8"}, "FAIL"),
        (HEADER + "BenchmarkSlow\n    a_test.go:1: not here\n--- SKIP: BenchmarkSlow\nPASS\n", {"Slow"}, "skipped"),
        (GOOD.replace("PASS", "--- SKIP: BenchmarkSlow-8\nPASS"), {"Slow-8"}, "skipped"),
        (HEADER + "BenchmarkLoad-8 100 12 ns/op\nBenchmarkLoad-8 \t--- FAIL: BenchmarkLoad-8\nFAIL\n", {"Load-8"}, "FAIL"),
        (
            HEADER + "BenchmarkScan/a-8 1 2 ns/op\n--- FAIL: BenchmarkScan\n    --- FAIL: BenchmarkScan/b\nFAIL\n",
            {"Scan/b"},  # that Scan failed too is said because of this part
            "FAIL",
        ),
        (  # a part that was skipped is no reason for the whole to fail
            HEADER + "BenchmarkScan/a-8 1 2 ns/op\n--- SKIP: BenchmarkScan/b\n--- FAIL: BenchmarkScan\nFAIL\n",
            {"Scan/a-8", "Scan/b"},
            "--- FAIL: BenchmarkScan",
        ),
        (HEADER + "BenchmarkScan\nBenchmarkScan/b\n--- SKIP: BenchmarkScan/b\nPASS\n", {"Scan/b"}, "skipped"),
        (  # nor is one for its process
            HEADER + "--- SKIP: BenchmarkSlow\nBenchmarkLoad-8 100 12 ns/op\npanic: boom\nexit status 2\nFAIL\ta\t1s\n",
            {"Slow", "Load-8"},
            "panic: boom",
        ),
        (HEADER + "BenchmarkSlow\n--- SKIP: BenchmarkSlow\nBenchmarkLoad-8 100 12 ns/op\nFAIL\n", {"Slow", "Load-8"}, "FAIL"),
        (  # a benchmark that failed does not end its process: what ends it later is something else
            HEADER + "--- FAIL: BenchmarkScan\nBenchmarkLoad-8 100 12 ns/op\nsignal: killed\nFAIL\ta\t1s\n",
            {"Scan", "Load-8"},
            "signal: killed",
        ),
    ],
)  # fmt: skip
def test_failures_have_a_reason_and_no_number(text: str, failed: set[str], reason: str) -> None:
    read = go(text)
    found = {piece.name: piece.problem for piece in read.pieces if piece.problem}
    assert found.keys() == failed
    assert any(reason in problem for problem in found.values())
    assert all(problem.startswith("old.txt:") for problem in found.values())
    assert all(not piece.values for piece in read.pieces if piece.problem)
    assert all(piece.values for piece in read.pieces if not piece.problem)


def test_a_failure_is_of_its_own_process() -> None:
    read = go(GOOD + GOOD.replace("PASS", "panic: boom\nFAIL") + GOOD)
    assert [state for _, _, state in names(read)] == ["ok", "ok", "failed", "failed", "ok", "ok"]
    assert read.pieces[2].problem == "old.txt:15: failure: panic: boom"


def test_a_failure_of_another_package_is_not_of_the_one_before() -> None:
    """As `go test ./...` writes them: behind a good package one that was not built, and the FAIL of all together."""
    read = go(GOOD + "FAIL\texample.org/b [build failed]\n" + GOOD + "FAIL\n")
    assert [state for _, _, state in names(read)] == ["ok"] * 4
    assert read.notes == ("old.txt:9: a process without a result: failure: FAIL\texample.org/b [build failed]",)
    known = adoptgo.read((suffixed("Load") + "ok  \ta\t1s\nFAIL\n").encode(), "old.txt", "Load")
    assert names(known) == [(1, "Load", "ok")]


def test_what_a_script_adds_behind_a_process_is_no_failed_run() -> None:
    read = adoptgo.read((suffixed("Load") + "elapsed: 3 s\n").encode(), "old.txt", "Load")
    assert names(read) == [(1, "Load", "ok")]


def test_a_process_that_ended_behind_its_header_is_named() -> None:
    assert go(GOOD + HEADER + HEADER + "PASS\n").notes == (
        "old.txt:9: a process without a result",
        "old.txt:13: a process without a result",
    )


def test_results_without_and_with_a_package_are_no_run() -> None:
    read = go("pkg: a\nBenchmarkA 1 2 ns/op\npkg:\nBenchmarkA 1 2 ns/op\n")
    assert [piece.problem for piece in read.pieces] == ["old.txt:4: results of two packages: 'a', and '' here"]


def test_lines_that_are_nothing_are_named() -> None:
    assert go(GOOD.replace("PASS", "warming up\nhalf way\nPASS")).notes == (
        "old.txt:7: 2 lines are neither result nor configuration, the first: 'warming up'",
    )
    assert go("nothing here\n").notes[-1] == "old.txt: no result in it"
    assert "a process without a result" in go(HEADER + "panic: no\nFAIL\n").notes[0]


def test_a_process_without_a_result_is_a_failed_run_where_the_case_is_known() -> None:
    crashed = HEADER + "panic: no\nexit status 2\nFAIL\ta\t0.1s\n"
    files = {
        "old-1.txt": "",
        "old-2.txt": crashed,
        "new-1.txt": suffixed("Load"),
        "new-2.txt": suffixed("Load") + HEADER,
    }
    found = adopted(files, "{arm}-{block}.txt:case=Load".replace("{block}", "*"))
    assert [(run.labels.arm, run.outcome, run.reason) for run in found] == [
        ("new", "ok", ""),
        ("new", "ok", ""),
        ("new", "failed", "new-2.txt:7: a process without a result"),
        ("old", "failed", "old-1.txt:1: an empty file"),
        ("old", "failed", "old-2.txt:5: a process without a result: failure: panic: no"),
    ]
    assert go(crashed).notes == (
        "old.txt:5: a process without a result: failure: panic: no",
        "old.txt: no result in it",
    )


def test_events_are_refused() -> None:
    with pytest.raises(DataError, match="events of go test -json"):
        go('{"Time":"2026-01-01T00:00:00Z","Action":"output","Output":"BenchmarkLoad-8 1 2 ns/op\\n"}\n')


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_refused(encoding: str) -> None:
    with pytest.raises(DataError, match=r"old.txt:1: UTF-16"):
        adoptgo.read(("\ufeff" + GOOD).encode(encoding), "old.txt")


def test_not_utf8_is_named() -> None:
    read = adoptgo.read(GOOD.encode().replace(b"PASS", b"\xff\xfe"), "a.txt")
    assert {piece.problem for piece in read.pieces} == {"a.txt:7: malformed: not UTF-8: invalid start byte"}


def test_results_of_two_packages_in_one_process_are_no_run() -> None:
    read = go("BenchmarkA 1 2 ns/op\npkg: b\nBenchmarkA 1 2 ns/op\n")
    assert [piece.process for piece in read.pieces] == [1, 2]
    files = {"old.txt": GOOD + GOOD.replace("example.org/a", "example.org/b"), "new.txt": GOOD}
    with pytest.raises(DataError, match="two packages have this benchmark: phase A, case Load, arm old"):
        adopted(files, "{arm}.txt")
    plan = plan_of(files, "{arm}.txt:package=example.org/a")
    found = runs(pieces(files, plan, "{arm}.txt:package=example.org/a"), plan)
    assert [run.run for run in found.runs if run.labels.case == "Load"] == [1, 1]
    assert found.notes == ("old.txt: results of other packages, left out: example.org/b",)


# Maps


@pytest.mark.parametrize(
    ("text", "path", "fields"),
    [
        ("old.txt:arm=before", "old.txt", {"arm": "before"}),
        ("{arm}.txt", "old.txt", {"arm": "old"}),
        ("{arm}.txt", "a/old.txt", None),
        ("{arm}/{block}.txt:phase=B", "old/07.txt", {"arm": "old", "block": "07", "phase": "B"}),
        ("{phase}/{case}/{block}-{arm}/stdout.txt", "A/Scan%2Frows/3-x.y/stdout.txt",
         {"phase": "A", "case": "Scan%2Frows", "block": "3", "arm": "x.y"}),
        ("*/{arm}-r{block}-*.log", "x/old-r2-host.log", {"arm": "old", "block": "2"}),
        ("{arm}/{arm}-{block}.txt", "old/old-1.txt", {"arm": "old", "block": "1"}),
        ("{arm}/{arm}-{block}.txt", "old/new-1.txt", None),
        ("a.txt:arm=x,case=Sort/n=10", "a.txt", {"arm": "x", "case": "Sort/n=10"}),
        ("a+b.txt:arm=x", "aab.txt", None),
        ("a:b.txt:arm=x", "a:b.txt", {"arm": "x"}),
    ],
)  # fmt: skip
def test_a_map_says_what_a_path_means(text: str, path: str, fields: dict[str, str] | None) -> None:
    assert parse(text).fields(path, Known({})) == fields


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no pattern"),
        (":arm=x", "no pattern"),
        ("{arn}.txt", "unknown field {arn}"),
        ("{arm.txt", "not closed"),
        ("../{arm}.txt", "no path below the folder"),
        ("/{arm}.txt", "no path below the folder"),
        ("{arm}.txt:arm=x", "arm is in the pattern, and given again"),
        ("a.txt:arm=x,arm=y", "arm is given twice"),
        ("a.txt:arm=", "arm has no value"),
        ("a.txt:arms=x", "unknown key 'arms'"),
        ("a.txt:block=one", "block=one is not of the form"),
        ("a.txt:arm=a/b", "arm=a/b is not of the form"),
        ("a.csv:run=each", "run=each is not of the form row|file"),
        ("a.csv:suffix=@x", "suffix is no column"),
        ("a.txt:as=guest", "as=guest is not of the form host"),
    ],
)
def test_a_map_that_is_wrong(text: str, words: str) -> None:
    with pytest.raises(WrongUse, match=re.escape(words)):
        parse(text)


def test_a_path_of_two_readings_is_named_unless_a_plan_tells() -> None:
    one = parse("{case}-{arm}.txt")
    with pytest.raises(WrongUse, match="can be read in two ways"):
        one.fields("a-b-c.txt", Known({}))
    assert one.fields("a-b-c.txt", Known({"arm": ("c", "b"), "case": ("a-b", "a")})) == {"case": "a-b", "arm": "c"}


@given(
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=30).filter(
        lambda s: s not in (".", "..")
    )
)
def test_a_case_is_found_by_its_folder(case: str) -> None:
    folder = escape(case)
    found = parse("{case}/*.txt").fields(f"{folder}/1.txt", Known({}))
    assert found is not None
    assert case in case_forms(found["case"])


def test_white_space_of_a_case_is_an_underscore() -> None:
    assert case_forms("get%20100 rows") == ("get%20100_rows", "get_100_rows")


def test_every_file_has_exactly_one_map_or_is_named() -> None:
    def find(paths: list[str], maps: list[str], ignore: list[str]) -> set[str]:
        return set(assign(paths, [parse(text) for text in maps], ignore, Known({})))

    paths = ["a/old.txt", "a/README.md", "new.txt"]
    with pytest.raises(WrongUse, match=r"no map matches: 2 in all\n  found: a/README.md, new.txt"):
        find(paths, ["a/{arm}.txt"], [])
    with pytest.raises(WrongUse, match=r"more than one map matches: 1 in all\n  found: new.txt"):
        find(paths, ["a/{arm}.txt", "{arm}.txt", "new.txt:arm=x"], ["*.md"])
    with pytest.raises(WrongUse, match=r"no file is left for it"):
        find(paths, ["a/{arm}.txt", "{arm}.txt", "b/{arm}.txt"], ["*.md"])
    with pytest.raises(WrongUse, match=r"there is no such file"):
        find(paths, ["a/{arm}.txt", "{arm}.txt"], ["*.md", "*.log"])
    assert find(paths, ["a/{arm}.txt", "{arm}.txt"], ["a/*.md"]) == {"a/old.txt", "new.txt"}
    assert natural("r2.txt") < natural("r10.txt")
    assert natural("r2²") < natural("r10²")  # a digit that is no number


# Tables


def table(text: str, *maps: str, plan: Plan | None = None) -> list[AdoptedRun]:
    return adopted({"r.csv": text}, *maps, plan=plan)


def test_a_long_table_as_our_own() -> None:
    text = "phase,case,arm,block,position,sequence,repeat,metric,value,iterations\n"
    for place, (block, arm) in enumerate([(1, "x"), (1, "y"), (2, "y"), (2, "x")]):
        for repeat in (0, 1):
            text += f"B,Load,{arm},{block},{place % 2},{place},{repeat},ns/op,{10 + place},100\n"
    found = table(text, "r.csv")
    assert [(r.labels, r.run, r.paired, r.ordered) for r in found] == [
        (Labels("B", "Load", "x", 1, 0, 0), 1, True, True),
        (Labels("B", "Load", "y", 1, 1, 1), 1, True, True),
        (Labels("B", "Load", "y", 2, 0, 2), 2, True, True),
        (Labels("B", "Load", "x", 2, 1, 3), 2, True, True),
    ]
    assert found[3].values == (AdoptedValue("ns/op", 13.0, 0, 8), AdoptedValue("ns/op", 13.0, 1, 9))
    assert Adoption({"files": {"adopted/r.csv": "0"}}, "", tuple(found)).paired("B")


def test_a_wide_table_with_columns_of_other_names() -> None:
    text = "name,variant,rep,time_ns,bytes\nLoad,x,1,10,64\nLoad,y,1,11,60\nLoad,x,2,12,64\nLoad,y,2,fail,60\n"
    one = "r.csv:case=@name,arm=@variant,block=@rep,ns/op=@time_ns,B/op=@bytes"
    found = table(text, one)
    assert [(r.labels.arm, r.labels.block, r.outcome, len(r.values)) for r in found] == [
        ("x", 1, "ok", 2),
        ("y", 1, "ok", 2),
        ("x", 2, "ok", 2),
        ("y", 2, "failed", 0),
    ]
    assert found[3].reason == "r.csv:5: expected a finite number for ns/op, found 'fail'"


@pytest.mark.parametrize("rule", ["run=row", "run=file", "run=@rep"])
def test_rows_of_one_process_are_said_to_be_so(rule: str) -> None:
    text = "rep,arm,ns/op\n" + "".join(f"{rep},{arm},{rep + 10}\n" for rep in (1, 2, 2, 3) for arm in "xy")
    if rule == "run=@rep":
        rule = "run=@rep,arm=@arm"
    found = table(text, f"r.csv:case=Load,{rule}")
    counts = [len(r.values) for r in found if r.labels.arm == "x"]
    assert counts == {"run=row": [1, 1, 1, 1], "run=file": [4], "run=@rep,arm=@arm": [1, 2, 1]}[rule]
    assert not any(r.paired for r in found)


@pytest.mark.parametrize(
    ("text", "one", "words"),
    [
        ("", "r.csv", "an empty table"),
        ("case,arm,ns/op\nLoad,x,1\n", "r.csv", "nothing says which rows are of one process"),
        ("case,arm,block,ns/op\nLoad,x,1\n", "r.csv", "r.csv:2: a row that is not whole"),
        ("case,arm,block,ns/op\nLoad,x,b,1\n", "r.csv", "block is no number"),
        ("case,arm,block,time\nLoad,x,1,1\n", "r.csv", "nothing says which values are what"),
        ("case,arm,block,metric,value,ns/op\nLoad,x,1,a,1,1\n", "r.csv:ns/op=@ns/op", "both a column of values and"),
        ("case,arm,arm\nLoad,x,1\n", "r.csv", "has a column twice"),
        ("case;arm;block;ns/op\nLoad;x;1;1\n", "r.csv", "r.csv:1: one column, and ';' in its name"),
        ("case\tarm\tns/op\nLoad\tx\t1\n", "r.csv:run=row", "r.csv:1: one column, and '\\t' in its name"),
        ("case,arm\nLoad,x\n", "r.csv:case=@name", "has no column 'name'"),
        ("arm,block,ns/op\nx,1,1\n", "r.csv", "no case"),
        ("case,arm,block,metric,value\nLoad,x,1,,1\n", "r.csv", "no metric"),
        ("case,arm,block,repeat,ns/op\nLoad,x,1,0,1\nLoad,x,1,0,1\n", "r.csv", "repeat 0 of ns/op is there twice"),
        ('case,arm,block,ns/op\n"Load,x,1,1\n', "r.csv", "not a CSV file"),
    ],
)
def test_a_table_that_is_wrong(text: str, one: str, words: str) -> None:
    with pytest.raises(BenchbookError, match=re.escape(words)):
        table(text, one)


def test_a_table_of_another_encoding_is_named() -> None:
    with pytest.raises(DataError, match=r"r.csv:2: not UTF-8"):
        adoptcsv.read(b"case,arm\nL\xe4,x\n", "r.csv", parse("r.csv"), {}, frozenset())


def test_columns_that_are_not_read_are_named() -> None:
    read = adoptcsv.read(b"case,arm,block,ns/op,host\nL,x,1,1,h\n", "r.csv", parse("r.csv"), {}, frozenset())
    assert read.notes == ("r.csv: columns that were not read: host",)


def test_an_empty_cell_is_nothing_measured() -> None:
    text = "case,arm,block,ns/op,B/op\n" + "".join(f"L,{arm},1,1,\nS,{arm},1,2,64\n" for arm in "xy")
    found = table(text, "r.csv")
    assert [[value.metric for value in run.values] for run in found] == [["ns/op"], ["ns/op", "B/op"]] * 2
    read = pieces({"r.csv": text}, None, "r.csv")
    assert read.notes == ("r.csv: empty cells, taken for nothing measured: 2 of B/op",)
    found = table("case,arm,block,ns/op\nL,x,1,\nL,x,2,1\nL,y,1,1\n", "r.csv")
    assert [run.reason for run in found] == ["r.csv:2: no value", "", ""]


def test_packages_of_a_table_are_refused() -> None:
    with pytest.raises(WrongUse, match="packages are of Go output"):
        table("case,arm,block,ns/op\nL,x,1,1\n", "r.csv:package=a")


def test_columns_of_a_file_that_is_no_table_are_refused() -> None:
    with pytest.raises(WrongUse, match=r"is no \.csv file"):
        adopted({"old.txt": GOOD}, "old.txt:arm=@variant")


# Names


def suffixed(*results: str) -> str:
    return HEADER + "".join(f"Benchmark{name} 10 5 ns/op\n" for name in results) + "PASS\n"


def cases(files: dict[str, str], *maps: str) -> list[str]:
    return [case.name for case in plan_of(files, *maps).phases["A"].cases]


def test_a_number_that_every_name_of_a_process_ends_in_is_gomaxprocs() -> None:
    files = {"old.txt": suffixed("Load-8", "Scan-8"), "new.txt": suffixed("Load-8", "Scan-8")}
    assert cases(files, "{arm}.txt") == ["Load", "Scan"]
    files = {"old.txt": suffixed("Sort/n-10", "Sort/n-100"), "new.txt": suffixed("Sort/n-10", "Sort/n-100")}
    assert cases(files, "{arm}.txt") == ["Sort/n-10", "Sort/n-100"]


def test_a_name_of_two_readings_is_named_until_the_map_tells() -> None:
    files = {"old.txt": suffixed("Load-8"), "new.txt": suffixed("Load-16")}
    with pytest.raises(
        DataError, match=r"may be GOMAXPROCS or a part of the name\n  found: 'Load-16' at new.txt:5, 'Load-8' here"
    ):
        cases(files, "{arm}.txt")
    assert cases(files, "{arm}.txt:suffix=drop") == ["Load"]
    assert cases(files, "{arm}.txt:suffix=keep") == ["Load-16", "Load-8"]
    plan = plan_of(files, "{arm}.txt:suffix=drop")
    found = runs(pieces(files, plan, "{arm}.txt"), plan)  # a plan with the case tells too
    assert [run.labels.case for run in found.runs] == ["Load", "Load"]
    assert "phase A: GOMAXPROCS suffix is not the same in all runs: -16 (arm new); -8 (arm old)" in found.notes


def test_benchmarks_of_several_gomaxprocs_in_one_process_are_named() -> None:
    files = {"old.txt": suffixed("Load", "Load-2"), "new.txt": suffixed("Load", "Load-2")}
    with pytest.raises(DataError, match="may be GOMAXPROCS or a part of the name"):
        cases(files, "{arm}.txt")


def test_results_of_one_process_are_not_two_runs_of_a_case() -> None:
    """With -cpu 4,8: two runs of `Load` would be one process, and a mixture."""
    files = {"old.txt": suffixed("Load-4", "Load-8"), "new.txt": suffixed("Load-4", "Load-8")}
    assert cases(files, "{arm}.txt") == ["Load-4", "Load-8"]
    words = r"new.txt:6: one process has two results for the same run: phase A, case Load, arm new\n  found: 'Load-4' at new.txt:5"
    with pytest.raises(DataError, match=words):
        adopted(files, "{arm}.txt:suffix=drop")
    with pytest.raises(DataError, match=words):
        adopted(files, "{arm}.txt", plan=plan_of({name: suffixed("Load") for name in files}, "{arm}.txt"))


def test_a_new_plan_says_what_the_logs_call_a_case() -> None:
    files = {"old.txt": suffixed("Load-8", "Scan-8"), "new.txt": suffixed("Load-8")}
    assert 'what = "Load; the logs call it Load-8"' in plan_text(files, "{arm}.txt")
    assert 'what = "Load-8, as the logs call it"' in plan_text(files, "{arm}.txt:suffix=keep")


def test_blocks_are_counted_as_numbers() -> None:
    files = {
        f"{arm}-{block}.txt": suffixed("Load")
        for arm, blocks in (("old", ("01", "02")), ("new", "12"))
        for block in blocks
    }
    plan = plan_of(files, "{arm}-{block}.txt")
    assert plan.phases["A"].blocks == 2
    assert sorted(run.labels.block for run in adopted(files, "{arm}-{block}.txt", plan=plan)) == [1, 1, 2, 2]


# Runs by a plan


def test_a_plan_decides_what_a_name_is() -> None:
    plan = small.plan()
    phase = plan.phases["B"]
    case, arm = phase.cases[0].name, phase.arms[0].name
    unit = phase.metrics[0].unit
    repeats = phase.repeats if phase.metrics[0].per == "repeat" else 1
    line = f"Benchmark{case}-4 10 5 {unit} 7 odd/op\n"
    read = pieces({"x.txt": line * repeats + "BenchmarkElse-4 1 1 ns/op\n"}, plan, f"x.txt:phase=B,arm={arm}")
    found = runs(read, plan)
    assert [(run.labels.case, run.outcome, len(run.values)) for run in found.runs] == [(case, "ok", repeats)]
    assert "x.txt: not a case of phase B, and left out: Else-4" in found.notes
    assert any("odd/op of" in note for note in found.notes)


def test_a_negative_value_is_a_failed_run() -> None:
    files = {"old.txt": suffixed("Load"), "new.txt": suffixed("Load").replace("5 ns", "-5 ns")}
    assert [run.reason for run in adopted(files, "{arm}.txt")] == ["new.txt:5: a negative ns/op: -5.0", ""]


def test_logs_that_call_another_direction_better_than_the_plan_are_refused() -> None:
    files = {"old.txt": suffixed("Load"), "new.txt": suffixed("Load")}
    plan = plan_of(files, "{arm}.txt")
    files["new.txt"] += "Unit ns/op better=higher\n"
    with pytest.raises(DataError, match="phase A: ns/op is better higher in the logs, and lower in the plan"):
        adopted(files, "{arm}.txt", plan=plan)


def test_too_few_repeats_are_a_failed_run() -> None:
    files = {"old.txt": suffixed("Load", "Load") * 2, "new.txt": suffixed("Load", "Load")}
    plan = plan_of(files, "{arm}.txt")
    files["new.txt"] = suffixed("Load")
    found = adopted(files, "{arm}.txt", plan=plan)
    assert found[0].reason == "new.txt:5: expected 2 values of ns/op, found 1"
    assert [(run.labels.arm, run.outcome, run.run) for run in found] == [
        ("new", "failed", 1),
        ("old", "ok", 1),
        ("old", "ok", 2),
    ]
    assert "Runs do not have the same number of repeats (ns/op: 1, 2)." in plan_text(files, "{arm}.txt")


@pytest.mark.parametrize(
    ("files", "maps", "words"),
    [
        ({"a.txt": GOOD}, ("a.txt:arm=x",), "has one arm only: x"),
        ({"a.txt": GOOD}, ("a.txt",), "has one arm only: none"),
        ({"a.txt": GOOD, "b.txt": "x\n"}, ("{arm}.txt",), "found: b.txt:1: 1 line is neither result nor configuration"),
        ({"1.txt": GOOD, "2.txt": GOOD * 2}, ("1.txt:arm=x,block=1", "2.txt:arm=y,block=1"), "two runs with block 1"),
        ({"1.txt": GOOD, "2.txt": GOOD}, ("{sequence}.txt:arm=x,block=1",), "has one arm only"),
        ({"1.txt": GOOD, "2.txt": GOOD}, ("1.txt:arm=x,block=1", "2.txt:arm=y"), "some runs of this phase have a block"),
        ({"1.txt": GOOD, "2.txt": GOOD}, ("{arm}.txt:sequence=3",), "two runs with sequence 3"),
        ({"1.txt": GOOD, "2.txt": GOOD}, ("{arm}.txt:case=Load",), "a result of 'Scan/rows=10-8' in a file of case 'Load'"),
        ({"1.txt": suffixed("A"), "2.txt": suffixed("B").replace("ns/op", "x/s")}, ("{arm}.txt",), "no metric is in the results"),
        ({"1.txt": "nothing\n", "2.txt": "\n"}, ("{arm}.txt",), "no result"),
        ({"1.txt": GOOD + "Unit ns/op better=higher\n", "2.txt": GOOD + "Unit ns/op better=lower\n"}, ("{arm}.txt",),
         "ns/op is better lower here, and higher in another file"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_apart_is_refused(files: dict[str, str], maps: tuple[str, ...], words: str) -> None:
    with pytest.raises(BenchbookError, match=re.escape(words)):
        adopted(files, *maps)


def test_labels_that_a_plan_does_not_have_are_refused() -> None:
    plan = small.plan()
    arm = plan.phases["B"].arms[0].name
    for one, words in (
        (f"x.txt:phase=Z,arm={arm}", "no phase 'Z' in the plan"),
        ("x.txt:phase=B,arm=Z", "no arm 'Z' in phase B"),
        ("x.txt:phase=B", "x.txt:5: no arm\n"),
        (f"x.txt:phase=B,arm={arm},case=Z", "no case 'Z' in phase B"),
        (f"x.txt:phase=B,arm={arm}", "no result of a case of the plan"),
    ):
        with pytest.raises(BenchbookError, match=words):
            adopted({"x.txt": GOOD}, one, plan=plan)


def test_what_differs_between_arms_is_named() -> None:
    files = {"old.txt": GOOD, "new.txt": GOOD.replace("cpu: One", "cpu: Two")}
    plan = plan_of(files, "{arm}.txt")
    notes = runs(pieces(files, plan, "{arm}.txt"), plan).notes
    assert notes == ("phase A: cpu is not the same in all runs: Two (arm new); One (arm old)",)


def test_arms_that_lack_a_case_or_some_runs_of_it_are_named() -> None:
    files = {"old.txt": suffixed("A", "B") * 2 + suffixed("A"), "new.txt": suffixed("A")}
    plan = plan_of(files, "{arm}.txt")
    assert runs(pieces(files, plan, "{arm}.txt"), plan).notes == (
        "phase A, arm new: no run of B",
        "phase A, arm old: 3 runs of some cases, fewer of B (2)",
    )


def test_runs_in_the_record_and_in_a_ledger() -> None:
    found = adopted({"old.txt": GOOD * 2, "new.txt": GOOD.replace("PASS", "panic: x")}, "{arm}.txt")
    adoption = Adoption(
        {"files": {"adopted/old.txt": "1", "adopted/new.txt": "2"}, "unknown": ["blocks"]}, "", tuple(found)
    )
    assert [(r.labels.arm, r.labels.block, r.labels.position, r.labels.sequence) for r in found] == [
        ("new", 1, -1, 0), ("new", 1, -1, 1), ("old", 1, -1, 2), ("old", 1, -1, 3), ("old", 2, -1, 4), ("old", 2, -1, 5),
    ]  # fmt: skip
    assert set(entry(found[2])["labels"].values()) == {"A", "Load", "old", "unknown"}
    assert (adoption.paired("A"), adoption.ordered("A"), adoption.paired("Z"), adoption.phases) == (
        False,
        False,
        False,
        ("A",),
    )
    ledger = adoption.ledger()
    assert (ledger.counts()["ok"], ledger.counts()["failed"], ledger.outstanding()) == (4, 2, [])
    assert ledger.reason(found[0].labels).startswith("failed: new.txt:7: failure: panic: x")
    assert ledger.ends[found[2].labels].files == {"adopted/old.txt": "1"}


@pytest.mark.parametrize(
    ("unit", "direction"),
    [
        *(("ns/op", "lower"), ("B/op", "lower"), ("rows/op", "lower"), ("p99-ns", "lower")),
        *(("MB/s", "higher"), ("B/s", "higher"), ("ops/s", "higher"), ("hits", "undefined"), ("%", "undefined")),
    ],
)
def test_which_direction_of_a_unit_is_better(unit: str, direction: str) -> None:
    assert adoptplan.better(unit, {}) == direction
    assert adoptplan.better(unit, {unit: "higher"}) == "higher"


def test_a_plan_of_what_the_logs_show() -> None:
    files = {"old.txt": GOOD + "Unit hits better=higher\n", "new.txt": GOOD.replace("20.0 ns/op", "20.0 ns/op 3 hits")}
    phase = plan_of(files, "{arm}.txt", contrasts=("new/old", "old/new")).phases["A"]
    assert (phase.blocks, phase.repeats, phase.order_seed, phase.primary_metric) == (
        "undefined",
        1,
        "undefined",
        "ns/op",
    )
    assert [(m.unit, m.better, m.per, phase.cases_of(m.unit)) for m in phase.metrics] == [
        ("ns/op", "lower", "repeat", ("Load", "Scan/rows=10")),
        ("hits", "higher", "repeat", ("Scan/rows=10",)),
    ]
    assert [contrast.name for contrast in phase.contrasts] == ["new/old", "old/new"]
    for wrong in ("new", "new/x", "new/new"):
        with pytest.raises(WrongUse, match="not two arms of phase A"):
            plan_of(files, "{arm}.txt", contrasts=(wrong,))


@settings(max_examples=100)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cs", "Z", "Cc")), min_size=1, max_size=12), min_size=1, max_size=4
    )
)
def test_any_names_make_a_plan_or_an_error(found: list[str]) -> None:
    text = "".join(f"BenchmarkX{name} 10 5 ns/op\n" for name in found)
    try:
        plan = plan_of({"old.txt": text, "new.txt": text}, "{arm}.txt")
    except BenchbookError:
        return
    assert all(run.outcome == "ok" for run in adopted({"old.txt": text, "new.txt": text}, "{arm}.txt", plan=plan))


# Readings, deaths and ends


def test_one_name_with_a_number_behind_it_is_told_with_both_readings() -> None:
    """Nothing decides whether Load-8 is Load with GOMAXPROCS 8: the plan says both readings, on its page too."""
    limit = "The logs' Load-8 was read as Load with GOMAXPROCS 8; it may also be a benchmark of that whole name"
    files = {"old.txt": suffixed("Load-8"), "new.txt": suffixed("Load-8")}
    assert any(text.startswith(limit) for text in plan_of(files, "{arm}.txt").phases["A"].limits)
    decided = {name: suffixed("Load-8", "Scan-8") for name in files}
    for found, maps in ((files, "{arm}.txt:suffix=drop"), (files, "{arm}.txt:case=Load"), (decided, "{arm}.txt")):
        assert not any("GOMAXPROCS" in text for text in plan_of(found, maps).phases["A"].limits)
    both = {"old.txt": suffixed("Load-8"), "new.txt": suffixed("Load-8", "Scan-8")}  # the other arm's name tells
    assert not any("GOMAXPROCS" in text for text in plan_of(both, "{arm}.txt").phases["A"].limits)


@pytest.mark.parametrize(
    "how", ["panic: boom", "signal: killed", "Killed", "exit status 2", "SIGQUIT: quit", "*** Test killed: x"]
)
def test_nothing_behind_a_death_is_a_good_run(how: str) -> None:
    """A result behind the end of its process is of another process that nothing sets apart: it is no good run."""
    read = go(f"--- FAIL: BenchmarkA\n{how}\nBenchmarkB 1 5 ns/op\n")
    assert {piece.name: bool(piece.problem) for piece in read.pieces} == {"A": True, "B": True}
    assert read.pieces[0].values == read.pieces[1].values == ()
    goes_on = go("--- FAIL: BenchmarkA\nBenchmarkB 1 5 ns/op\nFAIL\n")
    assert {piece.name: bool(piece.problem) for piece in goes_on.pieces} == {"A": True, "B": False}


def test_a_process_of_go_without_an_end_is_noted() -> None:
    """A log that was cut off between two lines looks whole: that no PASS ends it is said."""
    cut = HEADER + "BenchmarkLoad-8 \t 100\t 12.5 ns/op\n"
    note = "old.txt:5: no PASS or FAIL ends this process: it was cut off, or its log was trimmed"
    assert go(cut).notes == (note,)
    assert go(cut + "PASS\n").notes == ()
    assert go("BenchmarkLoad-8 \t 100\t 12.5 ns/op\n").notes == ()


def test_events_anywhere_in_a_file_are_refused() -> None:
    with pytest.raises(DataError, match=r"old.txt:10: events of go test -json"):
        go(GOOD + '\n{"Time":"2026-01-01T00:00:00Z","Action":"run","Package":"a"}\n')
    assert go(GOOD.replace("PASS", '{"Action": 3}\nPASS')).notes  # a word of the benchmark, and no event
