"""PostgreSQL clients against each other: three cases of statements and one in memory, 1 or more closed-loop workers.

Output: configuration lines, one line per repeat with the mean latency, and last one line with percentiles and CPU time;
the latencies themselves go into an HdrHistogram log. README.md describes parameters, stages and what is compared.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from common import (
    FLAG,
    SLOPE,
    Kind,
    Operation,
    Parameters,
    Row,
    UsageError,
    WrongAnswerError,
    check_compiled,
    digest,
    measure_allocations,
    options_parser,
    read_object,
    require_environment,
    require_equal,
    run,
    say,
    stream,
    whole,
    word,
)
from drivers import CLIENTS, Client, connect, nodelay, prepared, show
from latency import Interval, Pass, Stages, run_pass, summary, write_log

OWN_FILES = ("clients.py", "common.py", "drivers.py", "latency.py")
FIRST_KEY = 1_000_000  # psycopg names a parameter's type after its value: from here on, always integer
KEPT_RECORDS = (
    100  # as many of a worker's last results as hold this many rows, and at least one, are kept for the check
)
FILL_ROWS = 1000  # rows in one INSERT of the fixture

GET = "SELECT value FROM items WHERE id = {id}"
RANGE = "SELECT id, value FROM items WHERE id >= {id} ORDER BY id LIMIT %d"
UPSERT = "INSERT INTO items (id, value) VALUES ({id}, {value}) ON CONFLICT (id) DO UPDATE SET value = EXCLUDED.value"


# ---- what an operation does; operation n of worker w does the same in every arm


class Items:
    """What the three cases of statements share: a table of `rows` values, one of which belongs to each key."""

    per_operation = 0  # rows that one operation returns

    def __init__(self, parameters: Parameters) -> None:
        self.parameters, self.rows, self.workers = parameters, parameters["rows"], parameters["workers"]
        seed, size = parameters["payload_seed"], parameters["value_bytes"]
        self.keys = range(FIRST_KEY, FIRST_KEY + self.rows)
        self.values = [stream(seed, "value", number, size) for number in range(self.rows)]
        self.table: list[Row] = list(zip(self.keys, self.values, strict=True))

    def fill(self, client: Client) -> None:
        """Make the table, with statistics and hint bits as after a while of use."""
        client.query("CREATE TABLE items (id integer PRIMARY KEY, value bytea NOT NULL)")
        for first in range(0, self.rows, FILL_ROWS):
            rows = ", ".join(f"({key}, '\\x{value.hex()}')" for key, value in self.table[first : first + FILL_ROWS])
            client.query(f"INSERT INTO items VALUES {rows}")
        client.query("VACUUM (ANALYZE) items")

    def damage(self, client: Client, key: int) -> None:
        """For drills: flip one stored bit, so that a check has to fire."""
        client.query(f"UPDATE items SET value = set_byte(value, 0, get_byte(value, 0) # 1) WHERE id = {key}")

    def count(self, result: Any) -> int:
        """How many rows an operation returned."""
        return len(result)

    def found(self, result: Any) -> list[Row]:
        """The rows that an operation returned."""
        return [tuple(row) for row in result]


class Reading(Items):
    """Single statements that read `per_operation` rows; operation n reads the n-th window after the worker's first."""

    sql = GET
    columns = slice(1, 2)
    per_operation = 1

    def first(self, worker: int, n: int) -> int:
        """Where operation n begins in the table."""
        windows = self.rows // self.per_operation
        return (worker * windows // self.workers + n) % windows * self.per_operation

    def operation(self, client: Client, worker: int) -> Operation:
        """The timed call."""
        read = client.reader(self.sql)
        return lambda n: read(FIRST_KEY + self.first(worker, n))

    def expected(self, worker: int, n: int) -> list[Row]:
        """The rows that operation n must return."""
        first = self.first(worker, n)
        return [row[self.columns] for row in self.table[first : first + self.per_operation]]

    def corrupt(self, client: Client, operations: int, measured: bool) -> None:
        """Damage, before anything is measured, the row that worker 0 reads last."""
        if not measured:
            self.damage(client, FIRST_KEY + self.first(0, operations - 1))

    def stored(self, client: Client, operations: int) -> list[Row]:  # noqa: ARG002
        """Nothing was written."""
        return []


class Ranging(Reading):
    """`range_rows` rows in key order."""

    columns = slice(0, 2)

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self.per_operation = parameters["range_rows"]
        self.sql = RANGE % self.per_operation


class Writing(Items):
    """`batch` upserts in one transaction. A worker has keys of its own, so that none waits for another's rows.

    It walks over them again and again, and each time every key gets the value after the one it has.
    """

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self.batch, self.part = parameters["batch"], self.rows // self.workers

    def operation(self, client: Client, worker: int) -> Operation:
        """The timed call."""
        write, size, part, twice = client.writer(UPSERT), self.batch, self.part, self.values * 2

        def operation(n: int) -> Sequence[Any]:
            turn, at = divmod(n * size, part)
            key = worker * part + at
            shifted = (key + turn + 1) % self.rows
            write(zip(self.keys[key : key + size], twice[shifted : shifted + size], strict=True))
            return ()

        return operation

    def expected(self, worker: int, n: int) -> list[Row]:  # noqa: ARG002
        """Nothing is returned: the table is looked at instead."""
        return []

    def corrupt(self, client: Client, operations: int, measured: bool) -> None:  # noqa: ARG002
        """Damage, after everything was measured, a stored row."""
        if measured:
            self.damage(client, FIRST_KEY)

    def stored(self, client: Client, operations: int) -> list[Row]:
        """The table, compared with what so many operations of each worker must have left."""
        written = operations * self.batch
        turns = [(written - key % self.part + self.part - 1) // self.part for key in range(self.rows)]
        expected = [(FIRST_KEY + key, self.values[(key + turn) % self.rows]) for key, turn in enumerate(turns)]
        stored = client.query("SELECT id, value FROM items ORDER BY id")
        require_equal("stored", expected, stored)
        return stored


class Codec(Items):
    """In memory: parameters of `batch` rows to the wire's text, the wire's text of `rows` rows to Python values."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self.batch = parameters["batch"]
        self.per_operation = self.rows + self.batch
        self.table = [codec_row(parameters["payload_seed"], *pair) for pair in enumerate(self.values)]
        self.wire = [[wire_text(value).encode() for value in row] for row in self.table]

    def fill(self, client: Client) -> None:
        """Nothing lies in the database."""

    def operation(self, client: Client, worker: int) -> Operation:  # noqa: ARG002
        """The timed call."""
        encode, decode = client.codec()

        def operation(n: int) -> Any:
            first = n * self.batch % self.rows
            return encode(self.table[first : first + self.batch]), decode(self.wire)

        return operation

    def count(self, result: Any) -> int:
        """How many rows were encoded and decoded."""
        return len(result[0]) + len(result[1])

    def found(self, result: Any) -> list[Row]:
        """Both kinds of rows; what was encoded is decoded without the client."""
        encoded = [
            tuple(plain(bytes(data).decode()) for plain, data in zip(PLAIN, row, strict=True)) for row in result[0]
        ]
        return encoded + [tuple(row) for row in result[1]]

    def expected(self, worker: int, n: int) -> list[Row]:  # noqa: ARG002
        """The rows of operation n's batch, and all rows."""
        first = n * self.batch % self.rows
        return self.table[first : first + self.batch] + self.table

    def corrupt(self, client: Client, operations: int, measured: bool) -> None:  # noqa: ARG002
        """Damage a byte of the wire's text."""
        data = self.wire[0][2]
        self.wire[0][2] = data[:-1] + (b"1" if data[-1:] == b"0" else b"0")

    def stored(self, client: Client, operations: int) -> list[Row]:  # noqa: ARG002
        """Nothing was written."""
        return []


def codec_row(seed: int, number: int, value: bytes) -> Row:
    """One value of each of the types in drivers.CODEC_OIDS."""
    noise = int.from_bytes(stream(seed, "head", number, 8))
    when = datetime(2026, 1, 1) + timedelta(microseconds=noise % 10**13)  # noqa: DTZ001
    return 2**40 + number, f"n\u00e4me-{noise:016x}", value, Decimal(noise % 10**9) / 100, noise % 2 == 1, when


def wire_text(value: Any) -> str:
    """A value as PostgreSQL's text format has it."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, datetime):
        text = value.isoformat(" ")
        return text.rstrip("0") if value.microsecond else text
    return str(value)


PLAIN: tuple[Callable[[str], Any], ...] = (
    int,
    str,
    lambda text: bytes.fromhex(text.removeprefix("\\x")),
    Decimal,
    {"t": True, "true": True, "f": False, "false": False}.__getitem__,
    datetime.fromisoformat,
)

Work = Reading | Writing | Codec
COMMON = {name: whole(least) for name, least in (("payload_seed", 0), ("value_bytes", 1), ("rows", 2), ("workers", 1))}
COMMON |= {
    "warmup_operations": whole(1),
    "measured_operations": whole(1),
    "allocation_operations": SLOPE,
    "corrupt": FLAG,
}
SIZES = {"range100": {"range_rows": whole(1)}, "batchset50": {"batch": whole(1)}, "codec": {"batch": whole(1)}}
CASES: dict[str, type[Work]] = {"get100": Reading, "range100": Ranging, "batchset50": Writing, "codec": Codec}


def read_parameters(case: str, text: str) -> dict[str, Any]:
    """The parameters of the case; everything missing, unknown or impossible is named at once."""
    wanted: dict[str, Kind] = {**COMMON, **SIZES.get(case, {})}
    given = read_object(f"case {case}", "--parameters", text, wanted, {"corrupt": False, "allocation_operations": None})
    multiple = given.get("range_rows", given.get("batch", 1)) * (given["workers"] if case == "batchset50" else 1)
    if given["rows"] % multiple:
        raise UsageError(f"case {case}: parameter rows: expected a multiple of {multiple}, found {given['rows']}")
    if given["allocation_operations"] and given["workers"] > 1:
        raise UsageError(f"case {case}: parameter allocation_operations: only with 1 worker, found {given['workers']}")
    return given


# ---- measuring


def check(work: Work, passes: Sequence[Pass], client: Client, operations: int) -> str:
    """Compare what was returned and what is stored with what the seed says; a digest of what was compared."""
    checked: list[Row] = []
    for lap in (lap for done in passes for lap in done.laps):
        if lap.rows != len(lap.times) * work.per_operation:
            wanted = f"expected {len(lap.times) * work.per_operation} rows, found {lap.rows}"
            raise WrongAnswerError(f"returned by {len(lap.times)} operations of worker {lap.worker}: {wanted}")
        for n, result in lap.kept:
            found = work.found(result)
            require_equal(f"returned by operation {n} of worker {lap.worker}", work.expected(lap.worker, n), found)
            checked += found
    return digest(checked + work.stored(client, operations))


# ---- the process


def own_digest(packages: Iterable[str]) -> str:
    """SHA-256 over the harness's own files and every file of the client's packages, none of them imported."""
    here = os.path.dirname(os.path.abspath(__file__))
    paths = [(name, os.path.join(here, name)) for name in OWN_FILES]
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise UsageError(f"switch client: {package} is not installed here")
        root = os.path.dirname(spec.origin)
        for folder in (root, f"{root}.libs"):
            for place, _, names in os.walk(folder):
                full = [os.path.join(place, name) for name in names if not place.endswith("__pycache__")]
                paths += [(os.path.relpath(path, os.path.dirname(root)), path) for path in full]
    sha = hashlib.sha256()
    for name, path in sorted(paths):
        with open(path, "rb") as file:
            sha.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return sha.hexdigest()


def configuration(work: Work, client: Client) -> dict[str, Any]:
    """What the numbers depend on, as the keys and values of configuration lines; after the warm-up."""
    return {
        **client.configuration(),
        "python": platform.python_version(),
        "server": show(client, "server_version").split()[0],
        "tcp-nodelay": nodelay(client),
        "ssl": "off",
        "result-format": client.result_format,
        "parameter-format": client.parameter_format,
        "autocommit": "on",
        "prepared": prepared(client),
        "isolation": show(client, "transaction_isolation"),
        "durable": ", ".join(f"{name} {show(client, name)}" for name in ("fsync", "synchronous_commit")),
        "workers": work.workers,
        "rows": work.rows if isinstance(work, Codec) else client.query("SELECT count(*) FROM items")[0][0],
        "value-bytes": work.parameters["value_bytes"],
        "payload-sha256": digest(work.table),
        "gc": "enabled" if gc.isenabled() else "disabled",
        "switch-interval": sys.getswitchinterval(),
        "hash-seed": os.environ.get("PYTHONHASHSEED", "random"),
    }


def measure(work: Work, make: type[Client], stages: Stages, repeats: int, compiled: Sequence[str]) -> list[Pass]:
    """Everything between stamps A and E; the measured passes."""
    warmup, count = (work.parameters[f"{what}_operations"] for what in ("warmup", "measured"))
    clients = connect(make, work.workers)
    check_compiled(compiled)
    stages.stamp("b")
    work.fill(clients[0])
    operations = [work.operation(client, worker) for worker, client in enumerate(clients)]
    if work.parameters["corrupt"]:
        work.corrupt(clients[0], warmup + repeats * count, measured=False)
    keep = max(1, KEPT_RECORDS // max(1, work.per_operation))
    warm = run_pass(operations, 0, warmup, work.count, keep)
    for key, value in configuration(work, clients[0]).items():
        say(key, value)
    stages.stamp("c")
    passes = [run_pass(operations, warmup + repeat * count, count, work.count, keep) for repeat in range(repeats)]
    stages.stamp("d")
    if work.parameters["corrupt"]:
        work.corrupt(clients[0], warmup + repeats * count, measured=True)
    say("checked-sha256", check(work, [warm, *passes], clients[0], warmup + repeats * count))
    for client in clients:
        client.close()
    stages.stamp("e")
    return passes


def count_allocated(work: Work, make: type[Client], few: int, many: int) -> dict[str, float]:
    """Bytes and allocations per operation by unit, on a new connection."""
    client = make()
    operation = work.operation(client, 0)
    size, number = measure_allocations(operation, few, many, lambda: None, lambda _: None)
    client.close()
    return {"B/op": size, "allocs/op": number}


def result_line(case: str, operations: int, values: Parameters) -> str:
    """One line of results."""
    pairs = (f"{value:.1f} {unit}" if isinstance(value, float) else f"{value} {unit}" for unit, value in values.items())
    return f"Benchmark{case} {operations} {' '.join(pairs)}"


def report(case: str, passes: Sequence[Pass], stages: Stages, path: str) -> tuple[list[str], int, dict[str, Any]]:
    """Write the latency log; one line for each repeat, the number of all operations, and the values of the whole run."""
    lines, intervals = [], []
    for repeat, done in enumerate(passes):
        count = sum(len(lap.times) for lap in done.laps)
        mean = sum(sum(lap.times) for lap in done.laps) / count
        lines.append(result_line(case, count, {"ns/op": mean}))
        start, end = done.start - stages.origin, done.end - stages.origin
        intervals += [Interval(f"repeat-{repeat}-worker-{lap.worker}", start, end, lap.times) for lap in done.laps]
    operations = sum(len(interval.times_ns) for interval in intervals)
    values: dict[str, Any] = summary(write_log(path, intervals))
    values["cpu-E-A-ns/op"] = (stages.stamps["e"][1] - stages.stamps["a"][1]) / operations
    values["cpu-measured-ns/op"] = sum(done.cpu for done in passes) / operations
    say("operations-per-s", f"{operations * 1e9 / sum(done.end - done.start for done in passes):.1f}")
    return lines, operations, values


def measure_case(options: argparse.Namespace) -> None:
    """Check what was asked for, measure, and report."""
    case, compiled = options.case, [name for name in options.compiled.split(",") if name]
    parameters = read_parameters(case, options.parameters)
    switches = read_object(f"case {case}", "--switches", options.switches, {"client": word(*CLIENTS)}, {})
    require_environment()
    make = CLIENTS[switches["client"]]
    own, stages = own_digest(make.packages), Stages()
    stages.stamp("a")
    say("client", switches["client"])
    say("own-files-sha256", own)
    work = CASES[case](parameters)
    passes = measure(work, make, stages, options.repeats, compiled)
    for name, (wall, cpu) in stages.stamps.items():
        say(f"stage-{name}", f"{wall} {cpu}")
    os.makedirs(options.output, exist_ok=True)
    lines, operations, values = report(case, passes, stages, os.path.join(options.output, "latency.hlog"))
    if parameters["allocation_operations"]:
        values |= count_allocated(work, make, *parameters["allocation_operations"])
    print(*lines, result_line(case, operations, values), sep="\n", flush=True)


def main(argv: Sequence[str]) -> int:
    """The exit status of a whole process."""
    parser = options_parser("clients.py", CASES)
    parser.add_argument("--output", required=True, help="folder for latency.hlog")
    return run(parser, argv, measure_case)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
