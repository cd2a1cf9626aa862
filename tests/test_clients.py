"""The harness of the client phases, executed for real: every case with every arm's tree and client."""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from tests.bundled import CAMPAIGN
from tests.database import TREES, WORKLOADS, Outcome, Server, Starter, no_results

HARNESS = WORKLOADS / "clients.py"
PHASES = tomllib.loads((CAMPAIGN / "plan.toml").read_text())["phases"]


@dataclass(frozen=True)
class Arm:
    """What an arm must say about itself."""

    client: str
    version: str
    implementation: str
    libpq: str
    nodelay: str
    statement: str  # how the server's log names its first prepared statement
    compiled: str = ""


PURE = ("pure-python", "none", "not set by the client", "pg8000_statement_0")
ARMS = {
    "final": Arm("pg8000", "1.31.6", *PURE),
    "before": Arm("pg8000", "1.29.8", *PURE),
    "c-bound": Arm("psycopg", "3.3.9", "binary", "180006", "set by the client", "_pg3_0", "psycopg_binary._psycopg"),
}

SEED = 7
COMMON = {"payload_seed": SEED, "value_bytes": 100, "rows": 200, "workers": 1}
COUNTS = {"warmup_operations": 3, "measured_operations": 5}
GET = COMMON | COUNTS | {"measured_operations": 250}
SMALL: dict[str, dict[str, Any]] = {
    "get100": GET | {"allocation_operations": [1, 3]},
    "range100": COMMON | COUNTS | {"range_rows": 100},
    "batchset50": COMMON | COUNTS | {"batch": 50},
    "codec": COMMON | COUNTS | {"batch": 50},
}
EIGHT: dict[str, dict[str, Any]] = {
    "get100": GET | {"workers": 8, "measured_operations": 30},
    "range100": SMALL["range100"] | {"workers": 8},
    "batchset50": SMALL["batchset50"] | {"workers": 8, "rows": 800},
}
SETS = {1: SMALL, 8: EIGHT}
RUNS = [(arm, case, workers) for workers, cases in SETS.items() for case in cases for arm in ARMS]
LATENCIES = ["p50-ns", "p90-ns", "p99-ns", "p99.9-ns", "max-ns"]
CPU = ["cpu-E-A-ns/op", "cpu-measured-ns/op"]


@dataclass(frozen=True)
class Start:
    """Starts this harness under an arm's tree, with its client; a folder below `base` for each process."""

    starter: Starter
    base: Path

    def __call__(self, arm: str, case: str, parameters: Any = None, **changes: Any) -> Outcome:
        database = changes.pop("database", None) or self.starter.new_database()
        changes.setdefault("switches", json.dumps({"client": ARMS[arm].client}))
        options = {"compiled": ARMS[arm].compiled, "output": str(self.base / database), "database": database}
        parameters = SMALL[case] if parameters is None else parameters
        return self.starter(HARNESS.name, arm, case, parameters, **options, **changes)

    def log(self, outcome: Outcome) -> Path:
        return self.base / outcome.database / "latency.hlog"


@pytest.fixture(scope="session")
def start(starter: Starter, tmp_path_factory: pytest.TempPathFactory) -> Start:
    return Start(starter, tmp_path_factory.mktemp("clients"))


Outcomes = dict[tuple[str, str, int], Outcome]


@pytest.fixture(scope="session")
def outcomes(start: Start) -> Outcomes:
    """Every case with every arm and number of workers, once; nothing here looks at how long anything took."""
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda run: start(*run[:2], SETS[run[2]][run[1]]), RUNS)
        return dict(zip(RUNS, done, strict=True))


def results(outcome: Outcome) -> list[tuple[int, dict[str, float]]]:
    """Operations and values by unit of each line of results."""
    lines = [line.split() for line in outcome.lines if line.startswith("Benchmark")]
    return [(int(line[1]), dict(zip(line[3::2], map(float, line[2::2]), strict=True))) for line in lines]


def stages(outcome: Outcome) -> list[tuple[int, ...]]:
    return [tuple(map(int, outcome.configuration[f"stage-{name}"].split())) for name in "abcde"]


# ---- what every case prints


@pytest.mark.parametrize(("arm", "case", "workers"), RUNS)
def test_output_is_configuration_then_repeats_then_the_run(
    outcomes: Outcomes, arm: str, case: str, workers: int
) -> None:
    outcome, parameters = outcomes[arm, case, workers], SETS[workers][case]
    assert outcome.status == 0, outcome.stderr
    kinds = [r"[a-z][a-z0-9-]*: \S.*", rf"Benchmark{case} \d+ \d+\.\d ns/op", rf"Benchmark{case} \d+( [0-9.]+ \S+)+"]
    matched = [[bool(re.fullmatch(kind, line)) for kind in kinds].index(True) for line in outcome.lines]
    assert matched == [0] * (len(matched) - 3) + [1, 1, 2]
    each = workers * parameters["measured_operations"]
    assert [operations for operations, _ in results(outcome)] == [each, each, 2 * each]
    allocations = ["B/op", "allocs/op"] if "allocation_operations" in parameters else []
    values = results(outcome)[-1][1]
    assert list(values) == LATENCIES + CPU + allocations
    assert all(value > 0 for value in values.values())


@pytest.mark.parametrize(("arm", "case", "workers"), RUNS)
def test_the_log_recomputes_every_percentile(
    start: Start, outcomes: Outcomes, arm: str, case: str, workers: int
) -> None:
    outcome, count = outcomes[arm, case, workers], SETS[workers][case]["measured_operations"]
    reader = HistogramLogReader(str(start.log(outcome)), HdrHistogram(1, 60_000_000_000, 3))
    histograms = list(iter(reader.get_next_interval_histogram, None))
    reader.close()
    tags = [f"repeat-{repeat}-worker-{worker}" for repeat in range(2) for worker in range(workers)]
    assert [histogram.get_tag() for histogram in histograms] == tags
    assert [histogram.get_total_count() for histogram in histograms] == [count] * len(tags)
    *repeats, (_, values) = results(outcome)
    for repeat, (_, mean) in enumerate(repeats):
        means = [histogram.get_mean_value() for histogram in histograms[repeat * workers : (repeat + 1) * workers]]
        assert mean["ns/op"] == pytest.approx(sum(means) / workers, rel=1e-3)
    merged = HdrHistogram(1, 60_000_000_000, 3)
    for histogram in histograms:
        merged.add(histogram)
    found = {f"p{p:g}-ns": merged.get_value_at_percentile(p) for p in (50, 90, 99, 99.9)}
    assert {name: values[name] for name in LATENCIES} == found | {"max-ns": merged.get_max_value()}


@pytest.mark.parametrize(("arm", "case", "workers"), RUNS)
def test_stages_come_in_order_and_give_the_cpu_time(outcomes: Outcomes, arm: str, case: str, workers: int) -> None:
    stamps = stages(outcomes[arm, case, workers])
    assert stamps[0][0] == 0
    for before, after in itertools.pairwise(stamps):
        assert before[0] < after[0]
        assert before[1] < after[1]
    operations, values = results(outcomes[arm, case, workers])[-1]
    assert values["cpu-E-A-ns/op"] == pytest.approx((stamps[4][1] - stamps[0][1]) / operations, abs=0.06)
    assert values["cpu-measured-ns/op"] * operations <= stamps[3][1] - stamps[2][1]


@pytest.mark.parametrize(("arm", "case", "workers"), RUNS)
def test_configuration_says_what_was_measured(outcomes: Outcomes, arm: str, case: str, workers: int) -> None:
    found, wanted, parameters = outcomes[arm, case, workers].configuration, ARMS[arm], SETS[workers][case]
    assert (found["client"], found["client-version"]) == (wanted.client, wanted.version)
    assert (found["implementation"], found["libpq"]) == (wanted.implementation, wanted.libpq)
    assert found["tcp-nodelay"] == wanted.nodelay
    assert found["python"].startswith(TREES[arm]["python"] + ".")
    assert found["server"].startswith("18.")
    assert found["result-format"] == "text"
    assert found["parameter-format"] == "text"
    assert (found["autocommit"], found["ssl"], found["isolation"]) == ("on", "off", "read committed")
    assert found["durable"] == "fsync off, synchronous_commit off"
    assert (found["gc"], found["hash-seed"], found["switch-interval"]) == ("enabled", "1", "0.005")
    assert [found["workers"], found["rows"], found["value-bytes"]] == [
        str(parameters[name]) for name in ("workers", "rows", "value_bytes")
    ]
    types = {"get100": "1 (integer),", "range100": "1 (integer),", "batchset50": "1 (integer,bytea),", "codec": "none"}
    assert found["prepared"].startswith(types[case])
    assert float(found["operations-per-s"]) > 0


@pytest.mark.parametrize(("case", "workers"), [(case, workers) for workers, cases in SETS.items() for case in cases])
def test_every_arm_got_the_same_and_returned_the_same(outcomes: Outcomes, case: str, workers: int) -> None:
    configurations = [outcomes[arm, case, workers].configuration for arm in ARMS]
    for covariate in PHASES["A" if workers == 1 else "A2"]["covariates"]:
        found = {configuration[covariate["name"]] for configuration in configurations}
        assert covariate["expected"] == "varying" or len(found) == 1, covariate["name"]
    for key in ("value-bytes", "autocommit"):
        assert len({configuration[key] for configuration in configurations}) == 1, key
    assert re.fullmatch("[0-9a-f]{64}", configurations[0]["checked-sha256"])
    assert len({configuration["own-files-sha256"] for configuration in configurations}) == len(ARMS)


def test_another_seed_is_another_payload(start: Start, outcomes: Outcomes) -> None:
    other = start("final", "get100", GET | {"payload_seed": SEED + 1}, repeats="1").configuration
    first = outcomes["final", "get100", 1].configuration
    assert other["own-files-sha256"] == first["own-files-sha256"]
    assert other["payload-sha256"] != first["payload-sha256"]
    assert other["checked-sha256"] != first["checked-sha256"]


# ---- the statements, as the server's log has them


def logged(server: Server, database: str, act: Callable[[], Outcome]) -> tuple[Outcome, list[str]]:
    """What the server logs of the statements in one database; every session but the first began with its log on."""
    server.sql(f"ALTER DATABASE {database} SET log_statement = 'all'")
    log = "current_setting('data_directory') || '/../log'"
    size = server.sql(f"SELECT size FROM pg_stat_file({log})")
    outcome = act()
    text = server.sql(f"SELECT pg_read_file({log}, {size}, 10000000)")
    return outcome, re.findall(r"LOG:  (statement: .*|execute .*)", text)


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("case", ["get100", "range100", "batchset50"])
def test_statements_are_the_same_and_prepared(server: Server, start: Start, arm: str, case: str) -> None:
    parameters = {key: value for key, value in SMALL[case].items() if key != "allocation_operations"} | COUNTS
    database = start.starter.new_database()
    outcome, statements = logged(server, database, lambda: start(arm, case, parameters, database=database))
    assert outcome.status == 0, outcome.stderr
    executed = {
        "get100": "SELECT value FROM items WHERE id = $1",
        "range100": "SELECT id, value FROM items WHERE id >= $1 ORDER BY id LIMIT 100",
        "batchset50": "INSERT INTO items (id, value) VALUES ($1, $2) "
        "ON CONFLICT (id) DO UPDATE SET value = EXCLUDED.value",
    }
    one = [f"execute {ARMS[arm].statement}: {executed[case]}"]
    if case == "batchset50":
        one = ["statement: BEGIN", *one * 50, "statement: COMMIT"]
    timed = [text for text in statements if text.startswith("execute") or re.search(": (BEGIN|COMMIT|ROLLBACK)", text)]
    assert timed == one * 13  # 3 while warming up, twice 5 measured


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("workers", [1, 8])
def test_a_batch_is_one_transaction(server: Server, outcomes: Outcomes, arm: str, workers: int) -> None:
    sizes = "SELECT count(*) AS size FROM items GROUP BY xmin"
    found = server.sql(
        f"SELECT min(size), max(size), count(*) FROM ({sizes}) AS sizes", outcomes[arm, "batchset50", workers].database
    )
    assert found == f"50|50|{SETS[workers]['batchset50']['rows'] // 50}"


def test_the_text_that_the_codec_decodes_is_the_servers(server: Server, pythons: dict[str, Path]) -> None:
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import clients; p = json.loads(sys.argv[2]);"
        "print(json.dumps([[text.decode() for text in column] for column in zip(*clients.Codec(p).wire)]))"
    )
    argv = [str(pythons["final"]), "-B", "-s", "-c", code, str(HARNESS.parent), json.dumps(SMALL["codec"])]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    types = ["bigint", "text", "bytea", "numeric", "boolean", "timestamp"]
    for kind, column in zip(types, json.loads(done.stdout), strict=True):
        values = ", ".join(f"('{value}'::{kind})" for value in column)
        assert server.sql(f"SELECT * FROM (VALUES {values}) AS given").splitlines() == column


# ---- each way of ending, with its status


@pytest.mark.parametrize("arm", ["final", "c-bound"])
@pytest.mark.parametrize("case", SMALL)
def test_a_damaged_value_is_a_wrong_answer(start: Start, arm: str, case: str) -> None:
    outcome = start(arm, case, SMALL[case] | {"corrupt": True})
    assert outcome.status == 3, outcome.stderr
    assert no_results(outcome)
    assert not start.log(outcome).exists()
    failure, detail = outcome.lines[-2:]
    assert failure == f"--- FAIL: Benchmark{case}"
    where = "stored" if case == "batchset50" else r"returned by operation \d+ of worker 0"
    match = re.fullmatch(rf"    {where}: expected (\d+) records sha256 (\w+), found (\d+) records sha256 (\w+)", detail)
    assert match
    assert match[1] == match[3]
    assert match[2] != match[4]


FAULTY = """
import sys, time
sys.path.insert(0, sys.argv[1])
import clients, drivers

fault, client, calls = sys.argv[2], drivers.CLIENTS[sys.argv[3]], [0]
reader, writer, codec = client.reader, client.writer, client.codec

def faulty_reader(self, sql):
    read = reader(self, sql)
    def wrapped(number):
        calls[0] += 1
        if fault == "raises" and calls[0] == 30:
            raise LookupError("the thirtieth call")
        if fault == "hangs" and calls[0] > 30:
            if calls[0] == 60:
                raise LookupError("beside a call that never returns")
            time.sleep(1000 if calls[0] == 40 else 0)
        rows = read(number)
        if fault == "row lost" and calls[0] == 5:
            return rows[:-1]
        return [[value.decode("latin1") for value in row] for row in rows] if fault == "other type" else rows
    return wrapped

def faulty_writer(self, sql):
    write = writer(self, sql)
    return lambda pairs: write(list(pairs)[1:]) if fault == "row lost" else write(pairs)

def faulty_codec(self):
    encode, decode = codec(self)
    if fault == "row lost":
        return lambda rows: encode(rows[1:]), decode
    return lambda rows: encode(rows[::-1]), decode

client.reader, client.writer, client.codec = faulty_reader, faulty_writer, faulty_codec
sys.exit(clients.main(sys.argv[4:]))
"""


def faulty(arm: str, fault: str) -> list[str]:
    return ["-c", FAULTY, str(HARNESS.parent), fault, ARMS[arm].client]


@pytest.mark.parametrize("arm", ["final", "c-bound"])
@pytest.mark.parametrize(
    ("case", "fault", "where"),
    [
        ("get100", "row lost", "returned by 250 operations of worker 0: expected 250 rows, found 249"),
        ("get100", "other type", "returned by operation 0 of worker 0: expected 1 records"),
        ("range100", "row lost", "returned by 5 operations of worker 0: expected 500 rows, found 499"),
        ("batchset50", "row lost", "stored: expected 200 records"),
        ("codec", "row lost", "returned by 3 operations of worker 0: expected 750 rows, found 747"),
        ("codec", "other order", "returned by operation 2 of worker 0: expected 250 records"),
    ],
)
def test_a_client_that_is_wrong_is_a_wrong_answer(start: Start, arm: str, case: str, fault: str, where: str) -> None:
    outcome = start(arm, case, argv=faulty(arm, fault))
    assert outcome.status == 3, outcome.stderr
    assert no_results(outcome)
    assert outcome.lines[-1].strip().startswith(where)


@pytest.mark.parametrize("arm", ["final", "c-bound"])
@pytest.mark.parametrize(("fault", "said"), [("raises", "the thirtieth call"), ("hangs", "never returns")])
def test_what_a_worker_raises_ends_the_process(start: Start, arm: str, fault: str, said: str) -> None:
    began = time.monotonic()
    outcome = start(arm, "get100", EIGHT["get100"], argv=faulty(arm, fault))
    assert time.monotonic() - began < 20
    assert outcome.status == 1, outcome.stderr
    assert no_results(outcome)
    assert "Traceback" in outcome.stderr
    assert said in outcome.stderr


BATCH = SMALL["batchset50"]


@pytest.mark.parametrize(
    ("case", "parameters", "named"),
    [
        ("get100", GET | {"batch": 1, "worker": 2}, ["unknown parameter batch", "unknown parameter worker"]),
        ("batchset50", {"payload_seed": 1}, ["missing parameter workers", "missing parameter batch"]),
        (
            "get100",
            GET | {"warmup_operations": 0},
            ["parameter warmup_operations: expected a whole number, at least 1"],
        ),
        ("range100", SMALL["range100"] | {"rows": 150}, ["parameter rows: expected a multiple of 100, found 150"]),
        ("batchset50", BATCH | {"workers": 8}, ["parameter rows: expected a multiple of 400, found 200"]),
        ("get100", SMALL["get100"] | {"workers": 2}, ["allocation_operations: only with 1 worker, found 2"]),
        ("codec", [], ["not a JSON object"]),
    ],
)
def test_wrong_parameters_are_named(start: Start, case: str, parameters: Any, named: list[str]) -> None:
    outcome = start("final", case, parameters)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert all(text in outcome.stderr for text in named), outcome.stderr


@pytest.mark.parametrize(
    ("switches", "said"),
    [
        ('{"client": "psycopg2"}', "client: expected one of pg8000, psycopg"),
        ('{"client": "psycopg"}', "switch client: psycopg is not installed here"),
        ('{"client": "pg8000", "pipeline": true}', "pipeline"),
        ("{}", "client"),
    ],
)
def test_wrong_switches_are_named(start: Start, switches: str, said: str) -> None:
    outcome = start("final", "get100", switches=switches)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said in outcome.stderr


def test_an_exception_ends_with_its_traceback(start: Start) -> None:
    outcome = start("before", "get100", environment={"PGPASSWORD": "wrong"})
    assert outcome.status == 1
    assert no_results(outcome)
    assert "password authentication failed" in outcome.stderr


@pytest.mark.parametrize("name", ["clients.py", "drivers.py", "latency.py"])
def test_client_and_histograms_are_imported_only_where_they_are_used(name: str) -> None:
    tree = ast.parse((WORKLOADS / name).read_text())
    top = {alias.name.split(".")[0] for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    top |= {str(node.module).split(".")[0] for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert top - set(sys.stdlib_module_names) <= {"common", "drivers", "latency"}


def test_another_implementation_is_not_the_c_bound_client(start: Start) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(HARNESS.parent)!r}); import psycopg, clients; "
        "psycopg.pq.__impl__ = 'python'; sys.exit(clients.main(sys.argv[1:]))"
    )
    outcome = start("c-bound", "get100", argv=["-c", code])
    assert outcome.status == 1
    assert "psycopg: expected its C implementation, found python" in outcome.stderr
    assert no_results(outcome)
