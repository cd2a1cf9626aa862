"""The harness of index fetches, executed for real: every case in both arms, on copies of a small fixture."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.bundled import CAMPAIGN
from tests.database import TREES, WORKLOADS, Outcome, Server, Starter, no_results

HARNESS = WORKLOADS / "indexfetch.py"
PHASES = tomllib.loads((CAMPAIGN / "plan.toml").read_text())["phases"]
VERSIONS = {"before": "2.0.58", "final": "2.1.9"}
ARMS = ("ordinary", "remote")

LARGE, MEDIUM, RECORD = 5001, 300, 60  # bytes of a record
FIXTURE = {
    "payload_seed": 7,
    "rows": 3000,
    "record_bytes": RECORD,
    "large_records": 120,
    "large_bytes": LARGE,
    "medium_records": 1000,
    "medium_bytes": MEDIUM,
}
TINY = FIXTURE | {"rows": 40, "large_records": 10, "medium_records": 5}
PARAMETERS = {
    **FIXTURE,
    "batch": 100,
    "windows": 1,
    "duration_s": 0.02,
    "warmup_s": 0.01,
    "allocation_operations": [1, 2],
}
CASES = {  # records of one operation, bytes of each
    "Small10": (10, RECORD),
    "Small100": (100, RECORD),
    "Small1000": (1000, RECORD),
    "Split10": (10, LARGE),
    "Split100": (100, LARGE),
    "Split1000": (1000, MEDIUM),
    "ReverseSmall1000": (1000, RECORD),
    "ReverseSplit1000": (1000, MEDIUM),
    "SkipAll": (997, RECORD),
    "Skip10": (10, RECORD),
    "SQL10": (10, RECORD),
    "SQL1000": (1000, RECORD),
}
IN_BOTH_TREES = ("Small100", "Split1000")
RUNS = [("final", case, arm) for case in CASES for arm in ARMS]
RUNS += [("before", case, arm) for case in IN_BOTH_TREES for arm in ARMS]

Start = Callable[..., Outcome]
Key = tuple[str, str, str]


def make(starter: Starter, parameters: Any = None, **changes: Any) -> Outcome:
    """What making a fixture leaves behind."""
    changes.setdefault("compiled", ",".join(TREES["final"]["compiled"]))
    return starter(HARNESS.name, "final", "fixture", FIXTURE if parameters is None else parameters, **changes)


@pytest.fixture(scope="session")
def fixture(starter: Starter) -> Outcome:
    """The fixture of nearly all tests; they work on copies of its database."""
    made = make(starter)
    assert made.status == 0, made.stderr
    return made


@pytest.fixture(scope="session")
def start(starter: Starter, fixture: Outcome) -> Start:
    """Measures a case in an arm, in a copy of the fixture unless told otherwise."""

    def start(tree: str, case: str, arm: str, parameters: Any = None, **changes: Any) -> Outcome:
        if "database" not in changes:
            changes["database"] = starter.new_database(fixture.database)
        changes.setdefault("switches", json.dumps({"fetch": arm}))
        changes.setdefault("compiled", ",".join(TREES[tree]["compiled"]))
        return starter(HARNESS.name, tree, case, PARAMETERS | (parameters or {}), **changes)

    return start


@pytest.fixture(scope="session")
def outcomes(start: Start) -> dict[Key, Outcome]:
    """Every case in every arm, once; nothing here looks at how long anything took."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(RUNS, pool.map(lambda key: start(*key), RUNS), strict=True))


# ---- what a run prints


@pytest.mark.parametrize("key", RUNS, ids="-".join)
def test_output_is_configuration_then_repeats_then_memory_then_allocations(
    outcomes: dict[Key, Outcome], key: Key
) -> None:
    outcome = outcomes[key]
    assert outcome.status == 0, outcome.stderr
    name, number = f"Benchmark{key[1]}", r"\d+\.\d"
    kinds = [
        r"(?!rss)[a-z][a-z0-9-]*: \S.*",
        rf"{name} \d+ {number} ns/op",
        r"rss-max-kb: \d+",
        rf"{name} \d+ {number} B/op {number} allocs/op",
    ]
    lines = [line for line in outcome.lines if "emray" not in line]  # what memray says of greenlet
    matched = [[bool(re.fullmatch(kind, line)) for kind in kinds].index(True) for line in lines]
    assert matched == [0] * (len(matched) - 4) + [1, 1, 2, 3]
    assert all(float(line.split()[2]) > 0 for line in lines if line.startswith(name))


@pytest.mark.parametrize("key", RUNS, ids="-".join)
def test_configuration_says_what_was_measured(outcomes: dict[Key, Outcome], key: Key) -> None:
    (tree, case, arm), found = key, outcomes[key].configuration
    records, size = CASES[case]
    assert found["sqlalchemy"] == VERSIONS[tree]
    assert found["compiled"].split(",") == TREES[tree]["compiled"]
    assert (found["isolation"], found["gc"], found["hash-seed"]) == ("read committed", "enabled", "1")
    assert found["settings"] == "enable_seqscan=off,enable_sort=off,enable_bitmapscan=off"
    assert (found["fetch"], found["rows"], found["batch"], found["windows"]) == (arm, "3000", "100", "1")
    assert (found["records-per-op"], found["record-bytes"]) == (str(records), str(size))
    assert found.get("chunks") == ("2" if "Split" in case else None)


@pytest.mark.parametrize("key", RUNS, ids="-".join)
def test_statements_and_bytes_of_an_operation(outcomes: dict[Key, Outcome], key: Key) -> None:
    (_, case, arm), found = key, outcomes[key].configuration
    records, size = CASES[case]
    batches = -(-records // 100) * (2 if "Split" in case else 1)
    assert found["statements-per-op"] == ("1" if arm == "remote" else str(1 + batches))
    received, sent = float(found["received-bytes-per-op"]), float(found["sent-bytes-per-op"])
    assert 2 * records * size < received < 2 * records * size + 400 * records + 3000  # two hexadecimal digits a byte
    assert 100 < sent < (1500 if arm == "remote" else 1500 * (1 + batches))


@pytest.mark.parametrize("key", RUNS, ids="-".join)
def test_plans_are_the_ones_that_the_case_is_about(outcomes: dict[Key, Outcome], key: Key) -> None:
    (_, case, arm), found = key, outcomes[key].configuration["scan-plan"]
    split, index = "Split" in case, f"{'Backward ' if 'Reverse' in case else ''}on records_price_id"
    if arm == "remote":
        chunks = " > Index Scan on chunks_pkey"
        assert found == ("Nested Loop > " if split else "") + f"Limit > Index Scan {index}" + (chunks if split else "")
    else:
        chunks = "; Index Scan on chunks_pkey"
        assert found == f"Limit > Index Only Scan {index}; Index Scan on records_pkey" + (chunks if split else "")


@pytest.mark.parametrize("case", CASES)
def test_every_arm_reads_the_same(outcomes: dict[Key, Outcome], case: str) -> None:
    configurations = [outcomes[key].configuration for key in RUNS if key[1] == case]
    (phase,) = [PHASES[name] for name in ("C1", "C2", "D2") if case in [c["name"] for c in PHASES[name]["cases"]]]
    for covariate in phase["covariates"]:
        found = {configuration[covariate["name"]] for configuration in configurations}
        assert covariate["expected"] == "varying" or len(found) == 1, covariate["name"]
    assert re.fullmatch("[0-9a-f]{64}", configurations[0]["payload-sha256"])


# ---- which records an operation returns, and which it loads

PROBE = """
import json, sys
from contextlib import closing
sys.path.insert(0, sys.argv[1])
import indexfetch as f
from sqlalchemy import event

def probe(case, fetch, parameters):
    with closing(f.connect()) as server:
        bench = f.Bench(f.CASES[case], fetch, parameters, server.cursor())
        engine, loaded = f.make_engine(), []
        event.listen(f.Record, "load", lambda record, context: loaded.append(record.id))
        result = bench.operation(engine)(1)
        engine.dispose()
        return {
            "ids": [record.id for record in result],
            "loaded": sorted(loaded) == sorted(record.id for record in result),
            "bytes": [len(field) for field in bench.flatten(result[0]) if isinstance(field, bytes)],
            "times": [result[0] is not None, bench.count_real([*result, None, 1, f.Record.__table__])],
        }

print(json.dumps({fetch: probe(sys.argv[2], fetch, json.loads(sys.argv[3])) for fetch in f.FETCH}))
"""
LARGE_FROM, MEDIUM_FROM, SMALL_FROM = 0, FIXTURE["large_records"], FIXTURE["large_records"] + FIXTURE["medium_records"]


@pytest.mark.parametrize("tree", VERSIONS)
@pytest.mark.parametrize(
    ("case", "place", "count", "reverse"),  # of the second window
    [
        ("Small100", SMALL_FROM + 100, 100, False),
        ("Split10", LARGE_FROM + 10, 10, False),
        ("Skip10", SMALL_FROM + 13 + 3, 10, False),
        ("SkipAll", SMALL_FROM + 3, 997, False),
        ("ReverseSmall1000", SMALL_FROM, 1000, True),
        ("ReverseSplit1000", MEDIUM_FROM, 1000, True),
    ],
)
def test_exactly_these_records_in_this_order_and_no_others_loaded(
    server: Server, starter: Starter, fixture: Outcome, tree: str, case: str, place: int, count: int, reverse: bool
) -> None:
    windows = 2 if count <= 100 else 1
    argv = ["-c", PROBE, str(HARNESS.parent), case, json.dumps(PARAMETERS | {"windows": windows, "corrupt": False})]
    outcome = starter("", tree, case, {}, argv=argv, database=fixture.database)
    assert outcome.status == 0, outcome.stderr
    window = f"SELECT id FROM records ORDER BY price OFFSET {place} LIMIT {count}"
    expected = [int(line) for line in server.sql(window, fixture.database).split()][:: -1 if reverse else 1]
    pieces = {"Split10": [2501, 2500], "ReverseSplit1000": [150, 150]}.get(case, [RECORD])
    for arm in ARMS:
        found = json.loads(outcome.stdout)[arm]
        assert found["ids"] == expected
        assert found["loaded"]  # of a skipped record no object is ever made
        assert found["bytes"] == pieces
        assert found["times"] == [True, count]


# ---- the fixture


def test_a_fixture_says_what_it_holds(server: Server, fixture: Outcome) -> None:
    found = fixture.configuration
    counts = ("rows", "chunk-rows", "large-records", "medium-records", "small-records")
    assert [found[name] for name in counts] == ["3000", "2240", "120", "1000", "1880"]
    assert [found[f"{part}-bytes"] for part in ("large", "medium", "small")] == [str(LARGE), str(MEDIUM), str(RECORD)]
    assert int(found["database-bytes"]) > 120 * LARGE + 1000 * MEDIUM + 1880 * RECORD
    assert no_results(fixture)
    sizes = "SELECT sum(length(data)), max(length(data)), count(DISTINCT record_id) FROM chunks"
    assert server.sql(sizes, fixture.database) == f"{120 * LARGE + 1000 * MEDIUM}|2501|1120"
    small = "SELECT min(price), count(*), sum(length(payload)) FROM records WHERE payload IS NOT NULL"
    assert server.sql(small, fixture.database) == f"{1000 + 3 * 1120}|1880|{1880 * RECORD}"


def test_a_fixture_depends_on_its_seed_alone(starter: Starter) -> None:
    found = [make(starter, TINY | {"payload_seed": seed}).configuration["fixture-sha256"] for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


def test_a_fixture_wants_an_empty_database(starter: Starter, fixture: Outcome) -> None:
    outcome = make(starter, database=starter.new_database(fixture.database))
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr == "case fixture: expected an empty database, found public.chunks, public.records\n"


FAULTY = """
import sys
sys.path.insert(0, sys.argv[1])
import indexfetch as f, indexrecords as r

def change(records):
    if sys.argv[2] == "swapped":
        return [records[1], records[0], *records[2:]]
    if sys.argv[2] == "none":
        return [None, *records[1:]]
    return records

if sys.argv[2] == "not stored":
    copy = r.copy_text
    r.copy_text = lambda rows: copy(list(rows)[1:])
if sys.argv[2] == "no settings":
    r.OPTIONS = ""
reads = f.time_reads
f.time_reads = lambda operation, *rest: reads(lambda n: change(operation(n)), *rest)
sys.exit(f.main(sys.argv[3:]))
"""


def faulty(fault: str) -> list[str]:
    return ["-c", FAULTY, str(HARNESS.parent), fault]


def test_a_fixture_is_read_back(starter: Starter) -> None:
    outcome = make(starter, TINY | {"large_records": 0, "medium_records": 0}, argv=faulty("not stored"))
    assert outcome.status == 3, outcome.stderr
    assert re.fullmatch(r"    fixture: expected sha256 [0-9a-f]{64}, found [0-9a-f]{64}", outcome.lines[-1])


# ---- each way of ending, with its status


@pytest.mark.parametrize(
    ("case", "arm"), [("Small10", "ordinary"), ("Split10", "ordinary"), ("Split10", "remote"), ("SQL10", "remote")]
)
def test_a_damaged_record_is_a_wrong_answer(start: Start, case: str, arm: str) -> None:
    outcome = start("final", case, arm, {"windows": 2, "corrupt": True})
    assert outcome.status == 3, outcome.stderr
    assert no_results(outcome)
    assert outcome.configuration["records-per-op"] == "10"  # what was counted before the damage is still told
    failure, detail = outcome.lines[-2:]
    assert failure == f"--- FAIL: Benchmark{case}"
    assert re.fullmatch(
        r"    returned by operation \d+: expected 10 records sha256 \w{64}, found 10 records sha256 \w{64}", detail
    )
    assert "first difference at record 0" in outcome.stderr


@pytest.mark.parametrize(
    ("fault", "detail"),
    [
        ("swapped", r"    returned by operation \d+: expected 10 records sha256 \w+, found 10 records sha256 \w+"),
        ("none", r"    returned by \d+ operations: expected \d+0 records, found \d+"),
    ],
)
def test_a_repeat_is_checked(start: Start, fault: str, detail: str) -> None:
    outcome = start("final", "Split10", "ordinary", argv=faulty(fault))
    assert outcome.status == 3, outcome.stderr
    assert no_results(outcome)
    assert re.fullmatch(detail, outcome.lines[-1])


def test_another_fixture_is_a_wrong_answer(start: Start) -> None:
    outcome = start("final", "Small10", "remote", {"payload_seed": 8})
    assert outcome.status == 3, outcome.stderr
    assert outcome.lines[-1].startswith("    stored in window 0: expected 10 records")


@pytest.mark.parametrize(
    ("change", "arm", "expected"),
    [
        ("DROP INDEX records_price_id", "ordinary", "Index Only Scan on records_price_id, found"),
        ("DROP INDEX records_price_id", "remote", "Index Scan on records_price_id, found"),
        (
            "DROP INDEX records_price_id; CREATE INDEX records_price_id ON records (price)",
            "ordinary",
            "Index Only Scan",
        ),
        ("UPDATE records SET quantity = quantity", "ordinary", "expected an index-only scan that visits no table page"),
    ],
)
def test_another_plan_is_an_error(
    server: Server, starter: Starter, fixture: Outcome, start: Start, change: str, arm: str, expected: str
) -> None:
    database = starter.new_database(fixture.database)
    server.sql(change, database)
    outcome = start("final", "Small10", arm, database=database)
    assert outcome.status == 1
    assert no_results(outcome)
    assert "PlanError: SELECT records.id" in outcome.stderr
    assert expected in outcome.stderr


def test_the_settings_make_the_plan(start: Start) -> None:
    outcome = start("final", "Split1000", "remote", argv=faulty("no settings"))
    assert outcome.status == 1
    assert re.search(
        r"expected Index Scan on records_price_id, Index Scan on chunks_pkey, found .*Seq Scan", outcome.stderr
    )


@pytest.mark.parametrize(
    ("case", "parameters", "switches", "named"),
    [
        ("Small10", {}, {}, "missing switch"),
        ("Small10", {}, {"fetch": "remote", "fast": True}, "unknown switch"),
        ("Small10", {}, {"fetch": "both"}, 'expected one of ordinary, remote, found "both"'),
        ("Split100", {"windows": 2}, {"fetch": "remote"}, "window 1: expected 200 records, found 120 large records"),
        ("Small10", {"rows": 1000, "records": 1}, {"fetch": "remote"}, "unknown parameter records"),
        ("Small10", {"rows": 1000}, {"fetch": "remote"}, "rows: expected at least 1120, the split records, found 1000"),
        ("fixture", {}, {}, "unknown parameter batch"),
    ],
)
def test_wrong_use_is_named(
    start: Start, fixture: Outcome, case: str, parameters: Any, switches: dict[str, Any], named: str
) -> None:
    outcome = start("final", case, "", parameters, switches=json.dumps(switches), database=fixture.database)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert named in outcome.stderr


# ---- bytes and memory

SOCKETS = """
import json, socket, sys
sys.path.insert(0, sys.argv[1])
import indexfetch as f

with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
    other, _ = server.accept()
    before = f.tcp_bytes(client.fileno())
    client.sendall(b"x" * 1234)
    other.recv(1234, socket.MSG_WAITALL)
    other.sendall(b"y" * 56789)
    client.recv(56789, socket.MSG_WAITALL)
    after = f.tcp_bytes(client.fileno())
    other.close()
f.TCP_RECEIVED = 4096  # as on a kernel whose tcp_info ends before it
try:
    with socket.create_server(("127.0.0.1", 0)) as server:
        f.tcp_bytes(server.fileno())
except OSError as error:
    print(json.dumps([[now - then for then, now in zip(before, after)], str(error)]))
"""


def test_bytes_are_counted_exactly(starter: Starter, fixture: Outcome) -> None:
    outcome = starter("", "final", "", {}, argv=["-c", SOCKETS, str(HARNESS.parent)], database=fixture.database)
    assert outcome.status == 0, outcome.stderr
    counted, error = json.loads(outcome.stdout)
    assert counted == [1234, 56789]
    assert re.fullmatch(r"TCP_INFO: \d+ bytes, without tcpi_bytes_acked and tcpi_bytes_received", error)


def test_a_thousand_split_records_stay_below_one_gibibyte(starter: Starter, start: Start) -> None:
    whole = FIXTURE | {"rows": 1000, "large_records": 0, "medium_records": 1000, "medium_bytes": 16000}
    made = make(starter, whole)
    assert made.status == 0, made.stderr
    outcome = start("final", "Split1000", "remote", whole, database=made.database, repeats="1")
    assert outcome.status == 0, outcome.stderr
    assert 1000 * 16000 < 1024 * int(outcome.configuration["rss-max-kb"]) < 2**30
