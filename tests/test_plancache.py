"""The harness of the compiled cache, executed for real: both cases under every tree against a server of its own."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.bundled import CAMPAIGN
from tests.database import TREES, WORKLOADS, Outcome, Server, Starter, no_results

VERSIONS = {"legacy": "1.4.54", "before": "2.0.58", "final": "2.1.9"}
PHASES = tomllib.loads((CAMPAIGN / "plan.toml").read_text())["phases"]
CASES = {"PlanCacheHit": ("hit", "0"), "PlanCacheMiss": ("miss", "1")}
SEED = 7
SMALL = {"payload_seed": SEED, "rows": 100, "duration_s": 0.02, "warmup_s": 0.01, "allocation_operations": [1, 2]}

Start = Callable[..., Outcome]


@pytest.fixture(scope="session")
def start_plancache(starter: Starter) -> Start:
    """Starts this harness under a tree, with small parameters unless told otherwise."""

    def start(tree: str, case: str, parameters: Any = None, **changes: Any) -> Outcome:
        changes.setdefault("compiled", ",".join(TREES[tree]["compiled"]))
        return starter("plancache.py", tree, case, SMALL if parameters is None else parameters, **changes)

    return start


@pytest.fixture(scope="session")
def plancache(start_plancache: Start) -> dict[tuple[str, str], Outcome]:
    """Both cases under every tree, once."""
    pairs = [(tree, case) for case in CASES for tree in VERSIONS]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(pairs, pool.map(lambda pair: start_plancache(*pair), pairs), strict=True))


@pytest.mark.parametrize("tree", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_output(plancache: dict[tuple[str, str], Outcome], case: str, tree: str) -> None:
    outcome = plancache[tree, case]
    assert outcome.status == 0, outcome.stderr
    repeat = rf"Benchmark{case} [1-9]\d* \d+\.\d ns/op\n"
    allocations = rf"Benchmark{case} 2 \d+\.\d B/op \d+\.\d allocs/op\n"
    assert re.fullmatch(rf"([a-z][a-z0-9-]*: \S.*\n)+({repeat}){{2}}{allocations}", outcome.stdout)
    found = outcome.configuration
    assert (found["cache"], found["compilations-per-op"]) == CASES[case]
    assert (found["statements-per-op"], found["rows-per-op"], found["rows"]) == ("1", "8.91667", "100")
    assert (found["sqlalchemy"], found["isolation"]) == (VERSIONS[tree], "read committed")
    assert (found["gc"], found["hash-seed"]) == ("enabled", "1")
    assert found["compiled"].split(",") == TREES[tree]["compiled"]
    assert {"python", "psycopg2", "libpq", "server"} < found.keys()


def test_every_arm_has_the_same_payload_and_both_cases_the_same_statement(
    plancache: dict[tuple[str, str], Outcome],
) -> None:
    assert len({outcome.configuration["payload-sha256"] for outcome in plancache.values()}) == 1
    for tree in VERSIONS:
        statements = {plancache[tree, case].configuration["statement-sha256"] for case in CASES}
        assert len(statements) == 1
        assert re.fullmatch("[0-9a-f]{64}", statements.pop())


@pytest.mark.parametrize("case", CASES)
def test_what_the_plan_calls_constant_is(plancache: dict[tuple[str, str], Outcome], case: str) -> None:
    for covariate in PHASES["D1"]["covariates"]:
        found = {plancache[tree, case].configuration[covariate["name"]] for tree in VERSIONS}
        assert covariate["expected"] == "varying" or len(found) == 1, covariate["name"]


# ---- what an operation has to return, computed here by other means

ONE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import plancache as p

bench = p.Bench("PlanCacheHit", json.loads(sys.argv[2]), None)
print(json.dumps([bench.values(5), bench.expected(5)]))
"""


def shake(label: str, number: int, size: int) -> bytes:
    return hashlib.shake_256(f"{SEED}/{label}/{number}".encode()).digest(size)


def test_the_expected_rows_are_those_of_the_payload_and_of_the_server(
    server: Server, pythons: dict[str, Path], plancache: dict[tuple[str, str], Outcome]
) -> None:
    argv = [str(pythons["final"]), "-B", "-s", "-c", ONE, str(WORKLOADS), json.dumps(SMALL)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    values, rows = json.loads(done.stdout)
    by_price = sorted(range(100), key=lambda number: shake("price", number, 8))
    assert values == [
        1000 + 3 * 80,
        1000 + 3 * 95,
        2,
        10,
    ]  # the window of operation 5, its least quantity and its limit
    recomputed = []
    for rank in range(80, 96):
        number, price = by_price[rank], 1000 + 3 * rank
        head = shake("head", number, 2)
        name, quantity = shake("buyer", head[0] % 16, 8).hex(), 1 + head[1] % 10
        if quantity >= 2:
            recomputed.append([number, name, price, quantity, price * quantity])
    assert rows == recomputed[:10]
    low, high, least, limit = values
    text = server.sql(
        "SELECT p.id, b.name, p.price, p.quantity, p.price * p.quantity FROM purchases p JOIN buyers b ON b.id = buyer_id "
        f"WHERE price BETWEEN {low} AND {high} AND quantity >= {least} ORDER BY price LIMIT {limit}",
        plancache["before", "PlanCacheMiss"].database,
    )
    assert [line.split("|") for line in text.splitlines()] == [[str(field) for field in row] for row in rows]


# ---- each way of ending, with its status


@pytest.mark.parametrize("case", CASES)
def test_a_changed_row_is_a_wrong_answer(start_plancache: Start, case: str) -> None:
    outcome = start_plancache("before", case, SMALL | {"corrupt": True})
    assert outcome.status == 3, outcome.stderr
    assert no_results(outcome)
    assert outcome.lines[-2] == f"--- FAIL: Benchmark{case}"
    match = re.fullmatch(
        r"    returned by operation \d+: expected (.+) sha256 (\w{64}), found (.+) sha256 (\w{64})", outcome.lines[-1]
    )
    assert match
    assert match[1] == match[3] and match[2] != match[4]
    assert re.search(r"first difference at record \d+: expected \[\(\d+, ", outcome.stderr)


FAULTY = """
import sys
sys.path.insert(0, sys.argv[1])
import plancache as p

class Keeping(dict):
    def clear(self):
        pass

class Unforgetting(p.Bench):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.cache = Keeping()

fault, create, build, numbers = sys.argv[2], p.create_engine, p.build_statement, iter(range(10**9))
if fault == "no cache":
    p.create_engine = lambda *arguments, **options: create(*arguments, **options, query_cache_size=0)
elif fault == "kept":
    p.Bench = Unforgetting
elif fault == "varying":  # another structure each time
    p.build_statement = lambda *values: build(*values).add_columns(p.PURCHASES.c.id.label(f"id{next(numbers)}"))
elif fault == "text":  # the right value, of another type
    p.tuple = lambda row: (str(row[0]), *row[1:])
elif fault == "fewer":  # only the count of all operations can see it
    p.KEPT_OPERATIONS = 1
    p.build_statement = lambda low, *values: build(low, *values[:2], 0 if low == 1000 else values[2])
sys.exit(p.main(sys.argv[3:]))
"""


def faulty(fault: str) -> list[str]:
    return ["-c", FAULTY, str(WORKLOADS), fault]


@pytest.mark.parametrize(
    ("tree", "case", "fault", "found"),
    [
        *((tree, "PlanCacheHit", "no cache", "found 1 statements and ['[caching disabled'") for tree in VERSIONS),
        *((tree, "PlanCacheMiss", "kept", "found 1 statements and ['hit', 'hit'") for tree in VERSIONS),
        ("final", "PlanCacheHit", "varying", "found 12 statements and ['miss', 'miss'"),
    ],
)
def test_a_cache_that_does_not_do_as_the_case_says_is_an_error(
    start_plancache: Start, tree: str, case: str, fault: str, found: str
) -> None:
    outcome = start_plancache(tree, case, argv=faulty(fault))
    assert outcome.status == 1
    assert outcome.stdout == ""
    assert f"RuntimeError: case {case}: expected one statement, 12 times a" in outcome.stderr
    assert found in outcome.stderr


@pytest.mark.parametrize(
    ("fault", "where"),
    [("text", r"returned by operation \d+: "), ("fewer", r"returned by \d+ operations: expected \d+ rows, found \d+")],
)
def test_types_and_the_count_of_all_rows_are_compared(start_plancache: Start, fault: str, where: str) -> None:
    outcome = start_plancache("legacy", "PlanCacheHit", SMALL | {"warmup_s": 0.05}, argv=faulty(fault))
    assert outcome.status == 3, outcome.stderr
    assert no_results(outcome)
    assert re.match(rf"    {where}", outcome.lines[-1])


@pytest.mark.parametrize(
    ("parameters", "switches", "named"),
    [
        (SMALL | {"record_bytes": 3}, "{}", ["unknown parameter record_bytes"]),
        (SMALL | {"rows": 15}, "{}", ["parameter rows: expected a whole number, at least 16, found 15"]),
        ({"payload_seed": 1}, "{}", ["missing parameter rows", "missing parameter duration_s"]),
        (SMALL, '{"cache": false}', ["unknown switch cache"]),
    ],
)
def test_wrong_use_is_named(start_plancache: Start, parameters: Any, switches: str, named: list[str]) -> None:
    outcome = start_plancache("final", "PlanCacheHit", parameters, switches=switches)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert all(text in outcome.stderr for text in named), outcome.stderr
