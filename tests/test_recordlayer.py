"""The benchmark harness, executed for real: every case under every tree against a server of its own."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.database import TREES as ALL_TREES
from tests.database import WORKLOADS, Outcome, Server, Starter, no_results

HARNESS = WORKLOADS / "recordlayer.py"
VERSIONS = {"legacy": "1.4.54", "before": "2.0.58", "final": "2.1.9"}
TREES = {name: ALL_TREES[name] for name in VERSIONS}

SEED = 7
WRITE = {"payload_seed": SEED, "operations": 12, "warmup_operations": 3, "allocation_operations": [2, 5]}
READ = {"payload_seed": SEED, "duration_s": 0.02, "warmup_s": 0.01, "allocation_operations": [1, 2]}
ORDER = {"record_bytes": 90}
SMALL: dict[str, dict[str, Any]] = {
    "SaveRecord": {**WRITE, **ORDER},
    "SaveRecordWithIndex": {**WRITE, **ORDER},
    "SaveSplitRecord": {**WRITE, "record_bytes": 2500, "chunk_bytes": 1000},
    "LoadRecord": {**READ, **ORDER, "rows": 20},
    "ScanRecords": {**READ, **ORDER, "rows": 20, "records": 10},
    "ScanRecordsSplitVersioned": {**READ, "rows": 20, "records": 10, "record_bytes": 2500, "chunk_bytes": 1000},
    "ScanIndexRecords/serial": {**READ, **ORDER, "rows": 80, "records": 40},
    "ScanIndexRecords/pipelined": {**READ, **ORDER, "rows": 80, "records": 40, "batch": 16},
}
STATEMENTS = {
    "SaveRecord": "1",
    "SaveRecordWithIndex": "1",
    "SaveSplitRecord": "2",  # the record, and its chunks together
    "LoadRecord": "1",
    "ScanRecords": "1",
    "ScanRecordsSplitVersioned": "2",  # the records, and the chunks of all of them
    "ScanIndexRecords/serial": "41",  # the entries, and each of 40 records
    "ScanIndexRecords/pipelined": "4",  # the entries, and batches of 16, 16 and 8
}


Start = Callable[..., Outcome]


@pytest.fixture(scope="session")
def start(starter: Starter) -> Start:
    """Starts this harness under a tree, with small parameters and the tree's compiled modules unless told otherwise."""

    def start(tree: str, case: str, parameters: Any = None, **changes: Any) -> Outcome:
        changes.setdefault("compiled", ",".join(TREES[tree]["compiled"]))
        return starter(HARNESS.name, tree, case, SMALL[case] if parameters is None else parameters, **changes)

    return start


@pytest.fixture(scope="session")
def outcomes(start: Start) -> dict[tuple[str, str], Outcome]:
    """Every case under every tree, once; nothing here looks at how long anything took."""
    pairs = [(tree, case) for case in SMALL for tree in TREES]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(pairs, pool.map(lambda pair: start(*pair), pairs), strict=True))


# ---- what every case prints


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("case", SMALL)
def test_output_is_configuration_then_repeats_then_allocations(
    outcomes: dict[tuple[str, str], Outcome], case: str, tree: str
) -> None:
    outcome = outcomes[tree, case]
    assert outcome.status == 0, outcome.stderr
    name, number = re.escape(f"Benchmark{case}"), r"\d+\.\d"
    kinds = [r"[a-z][a-z0-9-]*: \S.*", rf"{name} \d+ {number} ns/op", rf"{name} \d+ {number} B/op {number} allocs/op"]
    matched = [[bool(re.fullmatch(kind, line)) for kind in kinds].index(True) for line in outcome.lines]
    assert matched == [0] * (len(matched) - 3) + [1, 1, 2]
    counts = [int(line.split()[1]) for line in outcome.lines[-3:-1]]
    assert counts == [12, 12] if "operations" in SMALL[case] else min(counts) >= 1
    assert all(float(line.split()[2]) > 0 for line in outcome.lines[-3:])


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("case", SMALL)
def test_configuration_says_what_was_measured(outcomes: dict[tuple[str, str], Outcome], case: str, tree: str) -> None:
    found, parameters = outcomes[tree, case].configuration, SMALL[case]
    assert found["statements-per-op"] == STATEMENTS[case]
    assert found["sqlalchemy"] == VERSIONS[tree]
    assert found["python"].startswith(TREES[tree]["python"] + ".")
    assert found["compiled"].split(",") == TREES[tree]["compiled"]
    assert found["server"].startswith("18.")
    assert (found["isolation"], found["gc"], found["hash-seed"]) == ("read committed", "enabled", "1")
    assert found["rows"] == str(parameters.get("rows", 0))  # tables that are written begin empty
    assert found["records-per-op"] == str(parameters.get("records", 1))
    assert found["record-bytes"] == str(parameters["record_bytes"])


@pytest.mark.parametrize("case", SMALL)
def test_every_arm_has_the_same_payload(outcomes: dict[tuple[str, str], Outcome], case: str) -> None:
    digests = {outcomes[tree, case].configuration["payload-sha256"] for tree in TREES}
    assert len(digests) == 1
    assert re.fullmatch("[0-9a-f]{64}", digests.pop())


def test_another_seed_is_another_payload(start: Start, outcomes: dict[tuple[str, str], Outcome]) -> None:
    other = start("final", "SaveRecord", SMALL["SaveRecord"] | {"payload_seed": SEED + 1}, repeats="1")
    assert other.status == 0, other.stderr
    assert other.configuration["payload-sha256"] != outcomes["final", "SaveRecord"].configuration["payload-sha256"]


@pytest.mark.parametrize("tree", TREES)
def test_the_database_holds_what_was_saved(server: Server, outcomes: dict[tuple[str, str], Outcome], tree: str) -> None:
    database = outcomes[tree, "SaveSplitRecord"].database
    query = "SELECT count(*), count(DISTINCT record_id), sum(length(data)), max(length(data)) FROM split_records_chunks"
    assert server.sql(query, database) == f"15|5|{5 * 2500}|1000"  # as the larger allocation count left it
    stored = server.sql(
        "SELECT sha256(string_agg(data, '' ORDER BY position)) FROM split_records_chunks WHERE record_id = 3", database
    )
    payload = hashlib.shake_256(f"{SEED}/payload/3".encode()).digest(2500)
    assert stored == "\\x" + hashlib.sha256(payload).hexdigest()


# ---- each way of ending, with its status


@pytest.mark.parametrize("case", ["SaveRecord", "SaveSplitRecord", "LoadRecord", "ScanIndexRecords/pipelined"])
def test_a_damaged_record_is_a_wrong_answer(start: Start, case: str) -> None:
    one_window = {"rows": SMALL[case]["records"]} if "records" in SMALL[case] else {}
    outcome = start("before", case, SMALL[case] | one_window | {"corrupt": True})
    assert outcome.status == 3, outcome.stderr
    assert no_results(outcome)
    failure, detail = outcome.lines[-2:]
    assert failure == f"--- FAIL: Benchmark{case}"
    where = "stored" if "operations" in SMALL[case] else r"returned by operation \d+"
    sums = r"(\d+) records sha256 ([0-9a-f]{64})"
    match = re.fullmatch(rf"    {where}: expected {sums}, found {sums}", detail)
    assert match
    assert match[1] == match[3]
    assert match[2] != match[4]
    assert "first difference at record" in outcome.stderr


FAULTY = """
import sys
sys.path.insert(0, sys.argv[1])
import recordlayer as r

def lose(fault):
    if fault == "not found":  # record 0, by whichever way it is asked for
        get, entries = r.Session.get, r.index_entries
        r.Session.get = lambda session, model, number: get(session, model, number or -1)
        r.index_entries = lambda bench, session, n: [number or -1 for number in entries(bench, session, n)]
    elif fault == "not saved":
        r.Session.commit = lambda session: session.rollback()
    elif fault == "not stored":
        insert = r.Layout.insert
        r.Layout.insert = lambda layout, cursor, rows: insert(layout, cursor, rows[:-1])

lose(sys.argv[2])
r.KEPT_RECORDS = 1  # so that what only the count can see is not compared record by record
sys.exit(r.main(sys.argv[3:]))
"""


def faulty(fault: str) -> list[str]:
    return ["-c", FAULTY, str(HARNESS.parent), fault]


@pytest.mark.parametrize(
    ("tree", "case", "records"),  # of three operations one loads record 0, or two have it in their window
    [
        *((tree, "LoadRecord", "0.666667") for tree in TREES),
        *((tree, f"ScanIndexRecords/{way}", "39.3333") for tree in TREES for way in ("serial", "pipelined")),
    ],
)
def test_none_is_not_a_record(start: Start, tree: str, case: str, records: str) -> None:
    outcome = start(tree, case, SMALL[case] | {"warmup_s": 0, "duration_s": 0.1}, argv=faulty("not found"))
    assert outcome.status == 3, outcome.stderr
    assert no_results(outcome)
    assert outcome.lines[-2] == f"--- FAIL: Benchmark{case}"
    match = re.fullmatch(r"    returned by \d+ operations: expected (\d+) records, found (\d+)", outcome.lines[-1])
    assert match
    assert int(match[1]) > int(match[2]) > 0
    assert outcome.configuration["records-per-op"] == records


def test_warming_up_is_checked_too(start: Start) -> None:
    parameters = SMALL["LoadRecord"] | {"warmup_s": 0.05}
    outcome = start("final", "LoadRecord", parameters, argv=faulty("not found"))
    assert outcome.status == 3, outcome.stderr
    assert "rows" not in outcome.configuration  # printed when warming up is over


@pytest.mark.parametrize(
    ("fault", "case", "key", "value"),
    [
        ("not saved", "SaveRecord", "records-per-op", "0"),
        ("not saved", "SaveSplitRecord", "records-per-op", "0"),
        ("not stored", "LoadRecord", "rows", "19"),
        ("not stored", "ScanRecordsSplitVersioned", "rows", "19"),
    ],
)
def test_counts_are_of_what_is_there(start: Start, fault: str, case: str, key: str, value: str) -> None:
    parameters = SMALL[case] | ({} if "operations" in SMALL[case] else {"warmup_s": 0})
    outcome = start("final", case, parameters, argv=faulty(fault))
    assert outcome.status == 3, outcome.stderr
    assert outcome.configuration[key] == value


LOAD = SMALL["LoadRecord"]


@pytest.mark.parametrize(
    ("case", "parameters", "named"),
    [
        ("LoadRecord", LOAD | {"opertions": 3, "batch": 1}, ["unknown parameter opertions", "unknown parameter batch"]),
        ("SaveRecord", {"payload_seed": 1}, ["missing parameter operations", "missing parameter record_bytes"]),
        ("LoadRecord", LOAD | {"rows": 0}, ["parameter rows: expected a whole number, at least 1, found 0"]),
        ("LoadRecord", LOAD | {"rows": True, "duration_s": "3"}, ["found true", 'found "3"']),
        ("LoadRecord", LOAD | {"allocation_operations": [3, 3]}, ["parameter allocation_operations"]),
        ("ScanRecords", SMALL["ScanRecords"] | {"rows": 15}, ["a multiple of records = 10, found 15"]),
        ("LoadRecord", [], ["not a JSON object"]),
    ],
)
def test_wrong_parameters_are_named(start: Start, case: str, parameters: Any, named: list[str]) -> None:
    outcome = start("final", case, parameters)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert all(text in outcome.stderr for text in named), outcome.stderr


def test_wrong_use_of_the_command_line(start: Start) -> None:
    unknown = start("final", "LoadRecords", LOAD)
    assert unknown.status == 2
    assert "LoadRecords" in unknown.stderr
    none = start("final", "LoadRecord", repeats="0")
    assert (none.status, none.stderr) == (2, "--repeats: expected at least 1, found 0\n")


@pytest.mark.parametrize(("module", "found"), [("sqlalchemy.engine.base", "base.py"), ("no.such", "not loaded")])
def test_a_module_that_is_not_compiled_is_an_error(start: Start, module: str, found: str) -> None:
    outcome = start("legacy", "LoadRecord", compiled=f"psycopg2._psycopg,{module}")
    assert (outcome.status, outcome.stdout) == (1, "")
    assert f"module {module}: expected an extension file, found {found}" in outcome.stderr


def test_an_exception_ends_with_its_traceback(start: Start) -> None:
    outcome = start("final", "LoadRecord", environment={"PGPASSWORD": "wrong"})
    assert outcome.status == 1
    assert no_results(outcome)
    assert "Traceback" in outcome.stderr
    assert "password authentication failed" in outcome.stderr


# ---- helpers, inside a tree's environment because the harness imports SQLAlchemy and psycopg2

HELPERS = """
import json, sys, zlib
sys.path.insert(0, sys.argv[1])
import recordlayer as r

case = r.CASES["ScanIndexRecords/serial"]
bench = r.Bench(case, {"payload_seed": 1, "record_bytes": 40, "rows": 6, "records": 2, "allocation_operations": [1, 2]}, None)
objects = [case.layout.build(row) for row in bench.walk]

def answer(operations, records, kept):
    try:
        bench.check_returned(operations, records, kept)
    except r.WrongAnswerError as error:
        return str(error).split(":")[0]
    return "right"

operations, elapsed, records, kept = r.time_reads(lambda n: (n, n), len, 0.005, 3)
noise = r.stream(1, "payload", 0, 100_000)
print(json.dumps({
    "right": answer(2, 4, [(0, objects[:2]), (4, objects[2:4])]),
    "swapped": answer(1, 2, [(0, objects[1::-1])]),
    "other window": answer(1, 2, [(1, objects[:2])]),
    "missing": answer(1, 2, [(0, [objects[0], None])]),
    "too few": answer(2, 3, []),
    "real": bench.count_real([objects[0], None, "record", (1,), r.ORDERS.record(), objects[1]]),
    "prices": sorted(r.prices(1, 50)) == [1000 + 3 * n for n in range(50)] and r.prices(1, 50) != sorted(r.prices(1, 50)),
    "digests": len({r.digest(rows) for rows in ([("a",), ("b",)], [("a", "b")], [("ab",)], [(1,)], [("1",)], [(b"1",)], [])}),
    "compressed": len(zlib.compress(noise, 9)) / len(noise),
    "reads": [records == 2 * operations, len(kept), kept[-1][0] == operations - 1, elapsed >= 5_000_000],
    "memray": "memray" in sys.modules,
}))
"""


def test_helpers(pythons: dict[str, Path]) -> None:
    argv = [str(pythons["final"]), "-B", "-s", "-c", HELPERS, str(HARNESS.parent)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("compressed") > 0.99
    assert found == {
        "right": "right",
        "swapped": "returned by operation 0",
        "other window": "returned by operation 1",
        "missing": "returned by operation 0",
        "too few": "returned by 2 operations",
        "real": 2,
        "prices": True,
        "digests": 7,
        "reads": [True, 3, True, True],
        "memray": False,
    }


def test_memray_is_imported_in_one_function_only() -> None:
    trees = {path.stem: ast.parse(path.read_text()) for path in WORKLOADS.glob("*.py")}
    places = [
        (name, place.name)
        for name, tree in trees.items()
        for place in ast.walk(tree)
        if isinstance(place, ast.FunctionDef)
        for node in ast.walk(place)
        if isinstance(node, ast.Import) and "memray" in {item.name.split(".")[0] for item in node.names}
    ]
    assert places == [("common", "count_allocations")]
    imported = {name: top_imports(tree) - set(sys.stdlib_module_names) for name, tree in trees.items()}
    assert not imported["common"]  # the harnesses that need no SQLAlchemy share it too
    assert imported["recordlayer"] == {"common", "sqlalchemy", "psycopg2"}
    assert not any("memray" in names for names in imported.values())


def top_imports(tree: ast.Module) -> set[str]:
    """The modules that are imported as soon as the file is loaded, by the first part of their names."""
    top = {item.name.split(".")[0] for node in tree.body if isinstance(node, ast.Import) for item in node.names}
    return top | {str(node.module).split(".")[0] for node in tree.body if isinstance(node, ast.ImportFrom)}
