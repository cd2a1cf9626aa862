"""Record-style work on PostgreSQL through SQLAlchemy's ORM: eight cases, the same file for every arm.

Output: configuration lines, one line per repeat, and last one line with allocations per operation. Only the operations are
timed; fixtures, clearing, warm-up and checks are not. README.md describes the parameters.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg2
import psycopg2.extensions
import psycopg2.extras
import sqlalchemy
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
    prices,
    read_object,
    require_environment,
    require_equal,
    run,
    say,
    seconds,
    stream,
    time_operations,
    time_reads,
    whole,
)
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, LargeBinary, Text, create_engine, event, select
from sqlalchemy.orm import Session, declarative_base, relationship, selectinload

ISOLATION = "READ COMMITTED"
KEPT_RECORDS = 100  # at least this many of the records read last are kept for the check of a read case
COUNTED_OPERATIONS = 3  # operations in the untimed pass that counts statements


# ---- layouts: how records lie in tables, mapped in the style that all three versions share


@dataclass(frozen=True)
class Layout:
    """Mapped classes of a record; a row is the columns named here, then each chunk's position and data."""

    metadata: Any
    record: Any
    columns: tuple[str, ...]
    chunk: Any = None

    @property
    def tables(self) -> list[str]:
        """The names of the tables: the record's, then the chunks'."""
        return [model.__tablename__ for model in (self.record, self.chunk) if model]

    def generate(self, parameters: Parameters, count: int) -> list[Row]:
        """Records 0 to count-1 as the payload seed says."""
        seed, size, rows = parameters["payload_seed"], parameters["record_bytes"], []
        for number, price in enumerate(prices(seed, count)):
            head, payload = stream(seed, "head", number, 8), stream(seed, "payload", number, size)
            fields = {"id": number, "customer": head.hex(), "price": price, "quantity": 1 + head[0], "size": size}
            fields |= {"version": 1 + int.from_bytes(head[:4], "big"), "payload": payload}
            row = [fields[column] for column in self.columns]
            if self.chunk:
                step = parameters["chunk_bytes"]
                for start in range(0, size, step):
                    row += [start // step, payload[start : start + step]]
            rows.append(tuple(row))
        return rows

    def build(self, row: Row) -> Any:
        """The mapped objects that save a record; part of the timed operation."""
        record = self.record(**dict(zip(self.columns, row, strict=False)))
        if self.chunk:
            record.chunks = [self.chunk(position=position, data=data) for position, data in self.pieces(row)]
        return record

    def pieces(self, row: Row) -> Iterable[tuple[int, bytes]]:
        """The position and the data of each chunk in a row."""
        width = len(self.columns)
        return zip(row[width::2], row[width + 1 :: 2], strict=True)

    def flatten(self, record: Any) -> Row:
        """The row that a loaded object stands for."""
        row = [getattr(record, column) for column in self.columns]
        for chunk in record.chunks if self.chunk else ():
            row += [chunk.position, chunk.data]
        return tuple(row)

    def insert(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Store records without the ORM."""
        heads = [row[: len(self.columns)] for row in rows]
        chunks = [(row[0], *piece) for row in rows for piece in self.pieces(row)]
        for table, values in zip(self.tables, (heads, chunks), strict=False):
            psycopg2.extras.execute_values(cursor, f"INSERT INTO {table} VALUES %s", values)

    def stored(self, cursor: Any) -> list[Row]:
        """All stored records in key order, read without the ORM."""
        cursor.execute(f"SELECT {', '.join(self.columns)} FROM {self.tables[0]} ORDER BY id")
        records = {row[0]: [bytes(f) if isinstance(f, memoryview) else f for f in row] for row in cursor}
        if self.chunk:
            cursor.execute(f"SELECT record_id, position, data FROM {self.tables[1]} ORDER BY record_id, position")
            for number, position, data in cursor:
                records[number] += [position, bytes(data)]
        return [tuple(record) for record in records.values()]


def order_layout(table: str, indexed: bool) -> Layout:
    """A small record that is one row, with or without a secondary index on price."""
    base: Any = declarative_base()

    class Order(base):
        __tablename__ = table
        id = Column(BigInteger, primary_key=True, autoincrement=False)
        customer = Column(Text, nullable=False)
        price = Column(Integer, nullable=False, index=indexed)
        quantity = Column(Integer, nullable=False)
        payload = Column(LargeBinary, nullable=False)

    return Layout(base.metadata, Order, ("id", "customer", "price", "quantity", "payload"))


def split_layout(table: str, versioned: bool) -> Layout:
    """A record whose payload lies in chunk rows, with or without the ORM's own version column."""
    base: Any = declarative_base()

    class Chunk(base):
        __tablename__ = f"{table}_chunks"
        record_id = Column(BigInteger, ForeignKey(f"{table}.id"), primary_key=True, autoincrement=False)
        position = Column(Integer, primary_key=True, autoincrement=False)
        data = Column(LargeBinary, nullable=False)

    class Record(base):
        __tablename__ = table
        id = Column(BigInteger, primary_key=True, autoincrement=False)
        size = Column(Integer, nullable=False)
        if versioned:
            version = Column(BigInteger, nullable=False)
            __mapper_args__ = {"version_id_col": version}
        chunks = relationship(Chunk, order_by=Chunk.position)

    return Layout(base.metadata, Record, ("id", "size", "version") if versioned else ("id", "size"), Chunk)


# ---- what is timed: one action in a new Session; action n does the same in every arm


def save(bench: Bench, session: Session, n: int) -> Sequence[Any]:
    """Insert record n in one transaction."""
    session.add(bench.layout.build(bench.walk[n]))
    session.commit()
    return ()


def load(bench: Bench, session: Session, n: int) -> Sequence[Any]:
    """Load one record by primary key, walking over the ids."""
    return (session.get(bench.layout.record, n % bench.size),)


def scan(bench: Bench, session: Session, n: int) -> Sequence[Any]:
    """Read the n-th window of records in key order; the ORM loads the chunks of all of them at once."""
    record = bench.layout.record
    statement = select(record).where(record.id >= bench.first(n)).order_by(record.id).limit(bench.records)
    if bench.layout.chunk:
        statement = statement.options(selectinload(record.chunks))
    records: Sequence[Any] = session.execute(statement).scalars().all()
    return records


def scan_index_serial(bench: Bench, session: Session, n: int) -> Sequence[Any]:
    """Read the n-th window of the price index, and each record by a statement of its own."""
    model = bench.layout.record
    return [session.get(model, number) for number in index_entries(bench, session, n)]


def scan_index_pipelined(bench: Bench, session: Session, n: int) -> Sequence[Any]:
    """The same window, records loaded with `id IN (...)` in batches and put back in index order."""
    model, batch, numbers = bench.layout.record, bench.parameters["batch"], index_entries(bench, session, n)
    found: list[Any] = []
    for start in range(0, len(numbers), batch):
        wanted = numbers[start : start + batch]
        by_id = {record.id: record for record in session.execute(select(model).where(model.id.in_(wanted))).scalars()}
        found.extend(by_id.get(number) for number in wanted)
    return found


def index_entries(bench: Bench, session: Session, n: int) -> list[int]:
    """The ids of the n-th window of the price index, in index order."""
    model, lowest = bench.layout.record, bench.walk[bench.first(n)][2]
    entries: Any = select(model.price, model.id).where(model.price >= lowest)
    return [number for _, number in session.execute(entries.order_by(model.price).limit(bench.records))]


# ---- cases and their parameters


@dataclass(frozen=True)
class Case:
    """One benchmark: how its records lie, what an operation does, which parameters it takes."""

    name: str
    layout: Layout
    action: Callable[[Bench, Session, int], Sequence[Any]]
    parameters: dict[str, Kind]
    by_price: bool = False  # whether operations walk over the records in the order of the price index


COMMON = {"payload_seed": whole(0), "record_bytes": whole(1), "allocation_operations": SLOPE, "corrupt": FLAG}
WRITE = {**COMMON, "operations": whole(1), "warmup_operations": whole(0)}
READ = {**COMMON, "rows": whole(1), "duration_s": seconds(0.001), "warmup_s": seconds(0)}
RECORDS, CHUNK, BATCH = ({name: whole(1)} for name in ("records", "chunk_bytes", "batch"))
ORDERS, PRICED = order_layout("orders", indexed=False), order_layout("priced_orders", indexed=True)
SPLIT, VERSIONED = split_layout("split_records", versioned=False), split_layout("versioned_records", versioned=True)
CASES = {
    case.name: case
    for case in (
        Case("SaveRecord", ORDERS, save, WRITE),
        Case("SaveRecordWithIndex", PRICED, save, WRITE),
        Case("SaveSplitRecord", SPLIT, save, {**WRITE, **CHUNK}),
        Case("LoadRecord", ORDERS, load, READ),
        Case("ScanRecords", ORDERS, scan, {**READ, **RECORDS}),
        Case("ScanRecordsSplitVersioned", VERSIONED, scan, {**READ, **RECORDS, **CHUNK}),
        Case("ScanIndexRecords/serial", PRICED, scan_index_serial, {**READ, **RECORDS}, by_price=True),
        Case("ScanIndexRecords/pipelined", PRICED, scan_index_pipelined, {**READ, **RECORDS, **BATCH}, by_price=True),
    )
}


def read_parameters(case: Case, text: str) -> dict[str, Any]:
    """The parameters of the case; everything missing, unknown or impossible is named at once."""
    given = read_object(f"case {case.name}", "--parameters", text, case.parameters, {"corrupt": False})
    if given.get("rows", 0) % given.get("records", 1):
        raise UsageError(
            f"case {case.name}: parameter rows: expected a multiple of records = {given['records']}, found {given['rows']}"
        )
    return given


# ---- checks


class Bench:
    """One case in this process: a plain cursor beside the ORM, and what must be stored."""

    def __init__(self, case: Case, parameters: Parameters, cursor: Any) -> None:
        self.case, self.layout, self.parameters, self.cursor = case, case.layout, parameters, cursor
        self.writes = "operations" in parameters
        self.size: int = parameters["operations" if self.writes else "rows"]
        self.records: int = parameters.get("records", 1)
        most = max(self.size, parameters["allocation_operations"][1], parameters.get("warmup_operations", 0))
        self.rows = self.layout.generate(parameters, most if self.writes else self.size)
        self.walk = sorted(self.rows, key=lambda row: row[2]) if case.by_price else self.rows

    def first(self, n: int) -> int:
        """Where operation n begins in the walk over the records."""
        return n * self.records % self.size

    def operation(self, engine: Any) -> Operation:
        """The case's action in a Session of its own."""
        action = self.case.action

        def operation(n: int) -> Sequence[Any]:
            with Session(engine, future=True) as session:
                return action(self, session, n)

        return operation

    def clear(self) -> None:
        """Empty the tables of a write case."""
        if self.writes:
            self.cursor.execute("TRUNCATE " + ", ".join(self.layout.tables))

    def fill(self) -> None:
        """Store the records of a read case, with statistics and hint bits as after a while of use."""
        if not self.writes:
            self.layout.insert(self.cursor, self.rows)
            for table in self.layout.tables:
                self.cursor.execute(f"VACUUM (ANALYZE) {table}")

    def corrupt(self) -> None:
        """For drills: flip one stored bit of the first record, so that a check has to fire."""
        if self.parameters["corrupt"]:
            column, key = ("data", "position = 0 AND record_id") if self.layout.chunk else ("payload", "id")
            change = f"{column} = set_byte({column}, 0, get_byte({column}, 0) # 1)"
            self.cursor.execute(f"UPDATE {self.layout.tables[-1]} SET {change} WHERE {key} = 0")

    def check_stored(self, count: int) -> None:
        """Compare what is stored with what the payload seed says."""
        require_equal("stored", self.rows[:count], self.layout.stored(self.cursor))

    def count_stored(self) -> int:
        """How many records are stored."""
        self.cursor.execute(f"SELECT count(*) FROM {self.layout.tables[0]}")
        return int(self.cursor.fetchone()[0])

    def count_real(self, result: Sequence[Any]) -> int:
        """How many of the returned are records: the case's own mapped class, neither None nor anything else."""
        return list(map(type, result)).count(self.layout.record)

    def check_returned(self, operations: int, records: int, kept: Iterable[tuple[int, Sequence[Any]]]) -> None:
        """Compare how many records all operations returned, and exactly which ones the last did."""
        if records != operations * self.records:
            expected = operations * self.records
            raise WrongAnswerError(f"returned by {operations} operations: expected {expected} records, found {records}")
        for n, result in kept:
            first = self.first(n)
            found = [("missing",) if record is None else self.layout.flatten(record) for record in result]
            require_equal(f"returned by operation {n}", self.walk[first : first + self.records], found)


# ---- measuring


def read(bench: Bench, operation: Operation, duration_s: float) -> tuple[int, int]:
    """Read for a set duration, checked: operations and nanoseconds."""
    keep = max(1, KEPT_RECORDS // bench.records)
    operations, elapsed, records, kept = time_reads(operation, bench.count_real, duration_s, keep)
    bench.check_returned(operations, records, kept)
    return operations, elapsed


def measure_repeat(bench: Bench, operation: Operation) -> tuple[int, int]:
    """One repeat from a cleared state, checked: operations and nanoseconds."""
    bench.clear()
    gc.collect()
    if bench.writes:
        operations, elapsed = bench.size, time_operations(operation, bench.size)
        bench.corrupt()
    else:
        operations, elapsed = read(bench, operation, bench.parameters["duration_s"])
    bench.check_stored(bench.size)
    return operations, elapsed


# ---- the process


def make_engine() -> Any:
    """One connection, kept, without pings; everything else is each version's own default."""
    return create_engine("postgresql+psycopg2://", future=True, isolation_level=ISOLATION, pool_size=1, max_overflow=0)


def prepare(bench: Bench) -> dict[str, str]:
    """Make tables and fixture; count the statements of an operation, and the records that it saved or returned.

    With an engine of its own: an engine that ever had a listener goes on asking for listeners at
    every statement.
    """
    engine = make_engine()
    statements: list[str] = []
    bench.layout.metadata.create_all(engine)
    bench.fill()
    operation, operations = bench.operation(engine), min(COUNTED_OPERATIONS, len(bench.rows))
    event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    records = sum(bench.count_real(operation(n)) for n in range(operations))
    engine.dispose()
    counts = {"statements": len(statements), "records": bench.count_stored() if bench.writes else records}
    return {f"{what}-per-op": f"{count / operations:g}" for what, count in counts.items()}


def scan_plan(bench: Bench) -> str:
    """How the server reads the price index's entries: without the index it would be another case."""
    condition = f"price >= {bench.walk[0][2]} ORDER BY price LIMIT {bench.records}"
    bench.cursor.execute(f"EXPLAIN (FORMAT JSON) SELECT price, id FROM {bench.layout.tables[0]} WHERE {condition}")
    return str(bench.cursor.fetchone()[0][0]["Plan"]["Plans"][0]["Node Type"])


def configuration(bench: Bench, engine: Any, compiled: Sequence[str]) -> dict[str, Any]:
    """What the numbers depend on, as the keys and values of configuration lines."""
    with engine.connect() as connection:
        isolation = connection.exec_driver_sql("SHOW transaction_isolation").scalar()
    return {
        "python": platform.python_version(),
        "sqlalchemy": sqlalchemy.__version__,
        "psycopg2": psycopg2.__version__.split()[0],
        "libpq": psycopg2.extensions.libpq_version(),
        "server": bench.cursor.connection.get_parameter_status("server_version"),
        "compiled": ",".join(compiled),
        "isolation": isolation,
        "payload-sha256": digest(bench.rows[: bench.size]),
        "record-bytes": bench.parameters["record_bytes"],
        **({"chunk-bytes": bench.parameters["chunk_bytes"]} if bench.layout.chunk else {}),
        **({"scan-plan": scan_plan(bench)} if bench.case.by_price else {}),
        "gc": "enabled" if gc.isenabled() else "disabled",
        "hash-seed": os.environ.get("PYTHONHASHSEED", "random"),
    }


def measure(bench: Bench, repeats: int, compiled: Sequence[str]) -> None:
    """The whole process: fixture, configuration lines, repeats, and last the allocations."""
    counted, engine = prepare(bench), make_engine()
    for key, value in {**configuration(bench, engine, compiled), **counted}.items():
        say(key, value)
    operation, name = bench.operation(engine), f"Benchmark{bench.case.name}"
    if not bench.writes:
        bench.corrupt()
        read(bench, operation, bench.parameters["warmup_s"])
    else:
        bench.clear()
        time_operations(operation, bench.parameters["warmup_operations"])
        bench.clear()
    say("rows", bench.count_stored())  # only here is it known what there is when timing starts
    for _ in range(repeats):
        operations, elapsed = measure_repeat(bench, operation)
        print(f"{name} {operations} {elapsed / operations:.1f} ns/op", flush=True)
    few, many = bench.parameters["allocation_operations"]
    size, number = measure_allocations(
        operation, few, many, bench.clear, lambda count: bench.check_stored(count if bench.writes else bench.size)
    )
    print(f"{name} {many} {size:.1f} B/op {number:.1f} allocs/op", flush=True)
    engine.dispose()


def measure_case(options: argparse.Namespace) -> None:
    """Check what was asked for, connect, and measure."""
    case, compiled = CASES[options.case], [name for name in options.compiled.split(",") if name]
    parameters = read_parameters(case, options.parameters)
    read_object(f"case {case.name}", "--switches", options.switches, {}, {})
    require_environment()
    check_compiled(compiled)
    with closing(psycopg2.connect("")) as server:
        server.autocommit = True
        measure(Bench(case, parameters, server.cursor()), options.repeats, compiled)


def main(argv: Sequence[str]) -> int:
    """The exit status of a whole process."""
    return run(options_parser("recordlayer.py", CASES), argv, measure_case)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
