"""Records found through an index on PostgreSQL: keys first and then batches, or one statement; the same file for every arm.

Output: configuration lines, one line per repeat, and last one line with allocations per operation. Only the operations are
timed; fixture, plans, counts, warm-up and checks are not. README.md describes the parameters.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import (
    FLAG,
    SLOPE,
    Operation,
    Parameters,
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
    seconds,
    time_reads,
    whole,
    word,
)
from indexrecords import (
    CHUNKS,
    COLUMNS,
    DISABLED,
    FIXTURE,
    PRICE_INDEX,
    Contents,
    Record,
    connect,
    count_rows,
    make_engine,
    make_fixture,
    stored,
    versions,
)
from sqlalchemy import BigInteger, any_, event, literal, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.engine import Row
from sqlalchemy.orm import Session, joinedload, selectinload

SKIP = 3
KEPT_RECORDS = 100  # at least this many of the records read last are kept for the check
PLAIN_NODES = {"Limit", "Nested Loop", "Subquery Scan"}  # beside scans, all that a plan may hold
TCP_ACKED, TCP_RECEIVED = 120, 128  # where Linux's struct tcp_info has these two 64-bit counters


# ---- cases and their parameters


@dataclass(frozen=True)
class Case:
    """What one operation reads: a window of `skip` and then `records` index entries, from one part of the price range."""

    name: str
    part: str  # "small", "large" or "medium" records; the last two are split
    records: int
    reverse: bool = False
    skip: int = 0
    bounded: bool = False  # the window ends by a price instead of a LIMIT
    core: bool = False  # rows through SQLAlchemy Core, no objects

    @property
    def split(self) -> bool:
        """Whether the payload lies in chunk rows."""
        return self.part != "small"

    @property
    def entries(self) -> int:
        """Index entries of a window."""
        return self.skip + self.records


CASES = {
    case.name: case
    for case in (
        *(Case(f"Small{count}", "small", count) for count in (10, 100, 1000)),
        *(Case(f"Split{count}", "large", count) for count in (10, 100)),
        Case("Split1000", "medium", 1000),
        Case("ReverseSmall1000", "small", 1000, reverse=True),
        Case("ReverseSplit1000", "medium", 1000, reverse=True),
        Case("SkipAll", "small", 1000 - SKIP, skip=SKIP, bounded=True),
        Case("Skip10", "small", 10, skip=SKIP),
        *(Case(f"SQL{count}", "small", count, core=True) for count in (10, 1000)),
    )
}
MEASURE = {
    **FIXTURE,
    "batch": whole(1),
    "windows": whole(1),
    "duration_s": seconds(0.001),
    "warmup_s": seconds(0),
    "allocation_operations": SLOPE,
    "corrupt": FLAG,
}


# ---- operations


class Bench:
    """One case and arm in this process: a plain cursor beside the engine, and what must be read."""

    def __init__(self, case: Case, fetch: str, parameters: Parameters, cursor: Any) -> None:
        self.case, self.fetch, self.parameters, self.cursor = case, fetch, parameters, cursor
        self.contents = Contents(parameters)
        windows = [self.window(n) for n in range(parameters["windows"])]
        self.bounds = [(self.contents.price(ranks[0]), self.contents.price(ranks[-1])) for ranks in windows]
        in_order = [ranks[::-1] if case.reverse else ranks for ranks in windows]
        self.ids = [[self.contents.ids[rank] for rank in ranks[case.skip :]] for ranks in in_order]
        self.rows = [[self.contents.row(number) for number in ids] for ids in self.ids]
        self.source = Record.__table__.c if case.core else Record
        self.kind = Row if case.core else Record

    def window(self, n: int) -> range:
        """The ranks of the n-th window's index entries, in the order of prices."""
        part, entries = self.contents.parts[self.case.part], self.case.entries
        ranks = part[n * entries :][:entries]
        if len(ranks) < entries:
            found = f"{len(part)} {self.case.part} records"
            raise UsageError(f"case {self.case.name}: window {n}: expected {(n + 1) * entries} records, found {found}")
        return ranks

    def operation(self, engine: Any) -> Operation:
        """The fetch of the arm, in a session of its own (a connection of the pool, in a case without objects)."""
        fetch = FETCH[self.fetch]

        def with_session(n: int) -> Sequence[Any]:
            with Session(engine, future=True) as session:
                return fetch(self, session, n)

        def with_connection(n: int) -> Sequence[Any]:
            with engine.connect() as connection:
                return fetch(self, connection, n)

        return with_connection if self.case.core else with_session

    def results(self, result: Any) -> Any:
        """The records of an executed statement: objects, or rows in a case without objects."""
        return result if self.case.core else result.scalars()

    def flatten(self, record: Any) -> tuple[Any, ...]:
        """The row that a returned record stands for."""
        if record is None:
            return ("missing",)
        row = [getattr(record, column) for column in COLUMNS]
        for _, chunk in sorted(record.chunks.items()) if self.case.split else ():
            row += [chunk.position, chunk.data]
        return tuple(row)

    def count_real(self, result: Sequence[Any]) -> int:
        """How many of the returned are records: the case's own class, neither None nor anything else."""
        return list(map(type, result)).count(self.kind)

    def check_returned(self, operations: int, records: int, kept: Iterable[tuple[int, Sequence[Any]]]) -> None:
        """Compare how many records all operations returned, and exactly which ones the last did."""
        if records != operations * self.case.records:
            expected = operations * self.case.records
            raise WrongAnswerError(f"returned by {operations} operations: expected {expected} records, found {records}")
        for n, result in kept:
            rows = self.rows[n % len(self.rows)]
            require_equal(f"returned by operation {n}", rows, [self.flatten(record) for record in result])

    def check_stored(self) -> None:
        """Compare the records of all windows, as they are stored, with what the payload seed says."""
        for n, (ids, rows) in enumerate(zip(self.ids, self.rows, strict=True)):
            require_equal(f"stored in window {n}", rows, stored(self.cursor, ids))

    def corrupt(self) -> None:
        """For drills: flip one stored bit in the first record of every window, so that a check has to fire."""
        if self.parameters["corrupt"]:
            table, column = ("chunks", "data") if self.case.split else ("records", "payload")
            key = f"position = {CHUNKS - 1} AND record_id" if self.case.split else "id"
            change = f"{column} = set_byte({column}, 0, get_byte({column}, 0) # 1)"
            self.cursor.execute(f"UPDATE {table} SET {change} WHERE {key} = ANY(%s)", ([ids[0] for ids in self.ids],))


def in_window(bench: Bench, statement: Any, n: int) -> Any:
    """The statement over the n-th window, in index order."""
    case, price, number = bench.case, bench.source.price, bench.source.id
    low, high = bench.bounds[n % len(bench.bounds)]
    if case.bounded:
        statement = statement.where(price >= low, price <= high)
    else:
        statement = statement.where(price <= high if case.reverse else price >= low).limit(case.records)
    if case.skip:
        statement = statement.offset(case.skip)
    return statement.order_by(*((price.desc(), number.desc()) if case.reverse else (price, number)))


def every_column(bench: Bench) -> Any:
    """A statement for whole records."""
    return select(*Record.__table__.c) if bench.case.core else select(Record)


def fetch_ordinary(bench: Bench, session: Any, n: int) -> Sequence[Any]:
    """The keys of the window by one statement; the records in batches of keys, put back in order."""
    batch, found = bench.parameters["batch"], list[Any]()
    numbers = session.execute(in_window(bench, select(bench.source.id), n)).scalars().all()
    for start in range(0, len(numbers), batch):
        wanted = numbers[start : start + batch]
        statement = every_column(bench).where(bench.source.id == any_(literal(wanted, ARRAY(BigInteger))))
        if bench.case.split:
            statement = statement.options(selectinload(Record.chunks))
        by_id = {record.id: record for record in bench.results(session.execute(statement))}
        found.extend(by_id.get(number) for number in wanted)
    return found


def fetch_remote(bench: Bench, session: Any, n: int) -> Sequence[Any]:
    """The records of the window, and their chunks joined to them, by one statement."""
    statement = in_window(bench, every_column(bench), n)
    if bench.case.split:
        statement = statement.options(joinedload(Record.chunks, innerjoin=True))
    result = session.execute(statement)
    records: Sequence[Any] = bench.results(result.unique() if bench.case.split else result).all()
    return records


FETCH = {"ordinary": fetch_ordinary, "remote": fetch_remote}


# ---- what an operation does, in an untimed pass


class PlanError(Exception):
    """The server does not execute a statement by the plan that the case is about."""


def walk_plan(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan's nodes, each before those below it."""
    yield node
    for below in node.get("Plans", ()):
        yield from walk_plan(below)


def name_node(node: dict[str, Any]) -> str:
    """A node's type, direction and index."""
    backward = " Backward" if node.get("Scan Direction") == "Backward" else ""
    return f"{node['Node Type']}{backward}" + (f" on {node['Index Name']}" if "Index Name" in node else "")


def expected_scans(bench: Bench) -> list[list[str]]:
    """For each statement of an operation, the scans that its plan must hold."""
    direction = " Backward" if bench.case.reverse else ""
    chunks = ["Index Scan on chunks_pkey"] if bench.case.split else []
    if bench.fetch == "remote":
        return [[f"Index Scan{direction} on {PRICE_INDEX.name}", *chunks]]
    batches = -(-bench.case.records // bench.parameters["batch"])
    loads = [["Index Scan on records_pkey"], *([chunks] if chunks else [])]
    return [[f"Index Only Scan{direction} on {PRICE_INDEX.name}"], *loads * batches]


def explain(bench: Bench, statements: Sequence[tuple[str, Any]]) -> list[str]:
    """The plans of an operation's statements, in their order. Raises PlanError."""
    plans, expected = [], expected_scans(bench)
    if len(statements) != len(expected):
        raise PlanError(f"an operation: expected {len(expected)} statements, found {len(statements)}: {statements[:2]}")
    for (text, values), scans in zip(statements, expected, strict=True):
        bench.cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {text}", values)
        nodes = list(walk_plan(bench.cursor.fetchone()[0][0]["Plan"]))
        names = [name_node(node) for node in nodes]
        if [name for name in names if name not in PLAIN_NODES] != scans:
            raise PlanError(f"{text}\nexpected {', '.join(scans)}, found {', '.join(names)}")
        if visits := sum(node.get("Heap Fetches", 0) for node in nodes):
            raise PlanError(f"{text}\nexpected an index-only scan that visits no table page, found {visits} visits")
        plans.append(" > ".join(names))
    return plans


def tcp_bytes(descriptor: int) -> tuple[int, int]:
    """Payload bytes that the connection with this descriptor has sent and received since it was opened."""
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        found = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(found) < TCP_RECEIVED + 8:
        raise OSError(f"TCP_INFO: {len(found)} bytes, without tcpi_bytes_acked and tcpi_bytes_received")
    return struct.unpack_from("=Q", found, TCP_ACKED)[0], struct.unpack_from("=Q", found, TCP_RECEIVED)[0]


def audit(bench: Bench) -> dict[str, Any]:
    """Read every window once: check results and plans, count statements, records and bytes per operation.

    With an engine of its own: an engine that ever had a listener goes on asking for listeners at
    every statement.
    """
    engine, latest, plans = make_engine(), list[tuple[str, Any]](), dict[str, None]()
    operation, statements, records = bench.operation(engine), 0, 0
    with engine.connect() as connection:
        descriptor = connection.connection.fileno()  # the pool has this one connection
    event.listen(engine, "before_cursor_execute", lambda *arguments: latest.append(arguments[2:4]))
    before = tcp_bytes(descriptor)
    for n in range(len(bench.rows)):
        latest.clear()
        result = operation(n)
        found = bench.count_real(result)
        bench.check_returned(1, found, [(n, result)])
        plans.update(dict.fromkeys(explain(bench, latest)))  # over another connection
        statements, records = statements + len(latest), records + found
    sent, received = (now - then for then, now in zip(before, tcp_bytes(descriptor), strict=True))
    engine.dispose()
    counts = {"statements": statements, "records": records, "sent-bytes": sent, "received-bytes": received}
    return {
        "scan-plan": "; ".join(plans),
        **{f"{what}-per-op": f"{count / len(bench.rows):.12g}" for what, count in counts.items()},
    }


# ---- the process


def session_settings(engine: Any) -> dict[str, Any]:
    """What a session of the engine has, as the server says it."""
    with engine.connect() as connection:
        found = {n: connection.exec_driver_sql(f"SHOW {n}").scalar() for n in ("transaction_isolation", *DISABLED)}
    isolation = found.pop("transaction_isolation")
    return {"isolation": isolation, "settings": ",".join(f"{name}={value}" for name, value in found.items())}


def most_memory_kb() -> int:
    """The most memory that this process ever had resident, in kB.

    Not from getrusage: its figure begins with what the process that started this one had.
    """
    return int(re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[0])


def configuration(bench: Bench, engine: Any, compiled: Sequence[str]) -> dict[str, Any]:
    """What the numbers depend on, as the keys and values of configuration lines."""
    return {
        **versions(bench.cursor),
        "compiled": ",".join(compiled),
        **session_settings(engine),
        "fetch": bench.fetch,
        "payload-sha256": digest(row for rows in bench.rows for row in rows),
        "record-bytes": bench.contents.bytes[bench.case.part],
        **({"chunks": CHUNKS} if bench.case.split else {}),
        **{name: bench.parameters[name] for name in ("batch", "windows")},
        "gc": "enabled" if gc.isenabled() else "disabled",
        "hash-seed": os.environ.get("PYTHONHASHSEED", "random"),
    }


def read(bench: Bench, operation: Operation, duration_s: float) -> tuple[int, int]:
    """Read for a set duration, checked: operations and nanoseconds."""
    gc.collect()
    keep = max(1, KEPT_RECORDS // bench.case.records)
    operations, elapsed, records, kept = time_reads(operation, bench.count_real, duration_s, keep)
    bench.check_returned(operations, records, kept)
    return operations, elapsed


def measure(bench: Bench, repeats: int, compiled: Sequence[str]) -> None:
    """The whole process: configuration lines, repeats, and last the allocations."""
    bench.check_stored()
    engine = make_engine()
    for key, value in configuration(bench, engine, compiled).items():
        say(key, value)
    for key, value in audit(bench).items():
        say(key, value)
    bench.corrupt()
    operation, name = bench.operation(engine), f"Benchmark{bench.case.name}"
    read(bench, operation, bench.parameters["warmup_s"])
    say("rows", count_rows(bench.cursor, "records"))
    for _ in range(repeats):
        operations, elapsed = read(bench, operation, bench.parameters["duration_s"])
        print(f"{name} {operations} {elapsed / operations:.1f} ns/op", flush=True)
    few, many = bench.parameters["allocation_operations"]
    size, number = measure_allocations(operation, few, many, lambda: None, lambda _: None)
    say("rss-max-kb", most_memory_kb())
    print(f"{name} {many} {size:.1f} B/op {number:.1f} allocs/op", flush=True)
    engine.dispose()


def measure_case(options: argparse.Namespace) -> None:
    """Check what was asked for, connect, and measure or make the fixture."""
    where, compiled = f"case {options.case}", [name for name in options.compiled.split(",") if name]
    making = options.case == "fixture"
    wanted, switches = (FIXTURE, {}) if making else (MEASURE, {"fetch": word(*FETCH)})
    parameters = read_object(where, "--parameters", options.parameters, wanted, {} if making else {"corrupt": False})
    switched = read_object(where, "--switches", options.switches, switches, {})
    require_environment()
    check_compiled(compiled)
    with closing(connect()) as server:
        if making:
            make_fixture(server.cursor(), parameters)
        else:
            bench = Bench(CASES[options.case], switched["fetch"], parameters, server.cursor())
            measure(bench, options.repeats, compiled)


def main(argv: Sequence[str]) -> int:
    """The exit status of a whole process."""
    return run(options_parser("indexfetch.py", ("fixture", *CASES)), argv, measure_case)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
