"""One SQL statement through SQLAlchemy Core, its compiled form in SQLAlchemy's cache or not: the same file for every arm.

Output: configuration lines, one line per repeat, and last one line with allocations per operation. Only the operations are
timed; fixture, warm-up and checks are not. README.md describes the parameters.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import logging
import logging.handlers
import os
import platform
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg2
import psycopg2.extensions
import psycopg2.extras
import sqlalchemy
from common import (
    FLAG,
    SLOPE,
    Operation,
    Parameters,
    Row,
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
    time_reads,
    whole,
)
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, Table, Text, create_engine, select

ISOLATION = "READ COMMITTED"
BUYER_COUNT = 16
WINDOW = 16  # orders in the range of prices that one operation asks for
LEAST, LIMITS = 4, 3  # how many bounds of the quantity and how many limits take turns
KEPT_OPERATIONS = 100  # the results of the last ones are kept for the check
AUDITED_OPERATIONS = LEAST * LIMITS  # in which each bound meets each limit once

CASES = {"PlanCacheHit": "hit", "PlanCacheMiss": "miss"}
MARKS = {"[cached since ": "hit", "[generated in ": "miss"}  # of SQLAlchemy's log, in all versions
PARAMETERS = {
    "payload_seed": whole(0),
    "rows": whole(WINDOW),
    "duration_s": seconds(0.001),
    "warmup_s": seconds(0),
    "allocation_operations": SLOPE,
    "corrupt": FLAG,
}

METADATA = MetaData()
BUYERS = Table("buyers", METADATA, Column("id", Integer, primary_key=True), Column("name", Text, nullable=False))
PURCHASES = Table(
    "purchases",
    METADATA,
    Column("id", BigInteger, primary_key=True),
    Column("buyer_id", Integer, ForeignKey("buyers.id"), nullable=False),
    Column("price", BigInteger, nullable=False, index=True),
    Column("quantity", Integer, nullable=False),
)


# ---- what is timed


def build_statement(low: int, high: int, least: int, limit: int) -> Any:
    """The statement of one operation: always of one structure, with four bound values. Prices make its order total."""
    order, buyer = PURCHASES.c, BUYERS.c
    return (
        select(order.id, buyer.name, order.price, order.quantity, (order.price * order.quantity).label("total"))
        .select_from(PURCHASES.join(BUYERS, order.buyer_id == buyer.id))
        .where(order.price >= low, order.price <= high, order.quantity >= least)
        .order_by(order.price)
        .limit(limit)
    )


# ---- one case


class Bench:
    """One case in this process: what is stored, what an operation asks for, and what it has to return."""

    def __init__(self, case: str, parameters: Parameters, cursor: Any) -> None:
        self.case, self.parameters, self.cursor = case, parameters, cursor
        self.cache: dict[Any, Any] = {}  # of the compiled statement, for the misses
        seed = parameters["payload_seed"]
        self.buyers: list[Row] = [(number, stream(seed, "buyer", number, 8).hex()) for number in range(BUYER_COUNT)]
        heads = (stream(seed, "head", number, 2) for number in range(parameters["rows"]))
        self.purchases: list[Row] = [
            (number, head[0] % BUYER_COUNT, price, 1 + head[1] % 10)
            for number, (head, price) in enumerate(zip(heads, prices(seed, parameters["rows"]), strict=True))
        ]
        self.walk: list[Row] = [
            (number, self.buyers[buyer][1], price, quantity, price * quantity)
            for number, buyer, price, quantity in sorted(self.purchases, key=lambda row: row[2])
        ]

    def first(self, n: int) -> int:
        """Where the window of operation n begins in the order of prices; every window is full."""
        return n * WINDOW % (len(self.walk) - WINDOW + 1)

    def values(self, n: int) -> tuple[int, int, int, int]:
        """What operation n binds: lowest and highest price, least quantity, limit."""
        first = self.first(n)
        return self.walk[first][2], self.walk[first + WINDOW - 1][2], 1 + n % LEAST, 8 + n % LIMITS

    def expected(self, n: int) -> list[Row]:
        """The rows of operation n as the payload seed says, without the server."""
        first, (_, _, least, limit) = self.first(n), self.values(n)
        return [row for row in self.walk[first : first + WINDOW] if row[3] >= least][:limit]

    def connect(self, engine: Any) -> Any:
        """A connection of the case: with the engine's own cache, or with one that the operations empty."""
        connection = engine.connect()
        return connection if self.case == "PlanCacheHit" else connection.execution_options(compiled_cache=self.cache)

    def operation(self, connection: Any) -> Operation:
        """Build the statement, execute it and fetch all its rows as tuples."""
        misses = self.case == "PlanCacheMiss"

        def operation(n: int) -> Sequence[Row]:
            if misses:
                self.cache.clear()
            return list(map(tuple, connection.execute(build_statement(*self.values(n))).all()))

        return operation

    def fill(self) -> None:
        """Make the tables and store the rows without SQLAlchemy, with statistics as after a while of use."""
        engine = make_engine()  # of its own, so that nothing else is in the cache of the one that is timed
        METADATA.create_all(engine)
        engine.dispose()
        for table, rows in ((BUYERS, self.buyers), (PURCHASES, self.purchases)):
            psycopg2.extras.execute_values(self.cursor, f"INSERT INTO {table.name} VALUES %s", rows)
            self.cursor.execute(f"VACUUM (ANALYZE) {table.name}")

    def corrupt(self) -> None:
        """For drills: change one stored buyer, so that a check has to fire."""
        if self.parameters["corrupt"]:
            self.cursor.execute("UPDATE buyers SET name = 'x' || name WHERE id = 0")


def read(bench: Bench, operation: Operation, duration_s: float) -> tuple[int, int]:
    """Read for a set duration, checked: operations and nanoseconds. Raises WrongAnswerError."""
    gc.collect()
    operations, elapsed, rows, kept = time_reads(operation, len, duration_s, KEPT_OPERATIONS)
    for n, result in kept:
        require_equal(f"returned by operation {n}", bench.expected(n), result)
    expected = sum(len(bench.expected(n)) for n in range(operations))
    if rows != expected:
        raise WrongAnswerError(f"returned by {operations} operations: expected {expected} rows, found {rows}")
    return operations, elapsed


# ---- what the cache did


def log_operations(bench: Bench, engine: Any) -> tuple[list[str], int]:
    """What the timed engine's log says of some operations, untimed, and how many rows they returned.

    The log is turned on for a connection of its own: no listener stays behind, as one on the engine would.
    """
    logger, handler = logging.getLogger("sqlalchemy.engine.Engine"), logging.handlers.BufferingHandler(sys.maxsize)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        with bench.connect(engine) as connection:
            operation = bench.operation(connection)
            operation(0)  # compiles the statement of the hits
            handler.buffer.clear()
            rows = sum(len(operation(n)) for n in range(AUDITED_OPERATIONS))
            messages = [record.getMessage() for record in handler.buffer]
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
    return messages, rows


def audit(bench: Bench, engine: Any) -> dict[str, Any]:
    """Configuration lines of what SQLAlchemy did in an operation; RuntimeError when the cache did not do as the case says."""
    messages, rows = log_operations(bench, engine)
    marks = [n for n, text in enumerate(messages) if text.startswith("[")]  # each follows its statement
    texts = {" ".join(messages[n - 1].split()) for n in marks}
    found = [
        next((word for mark, word in MARKS.items() if messages[n].startswith(mark)), messages[n][:17]) for n in marks
    ]
    wanted = CASES[bench.case]
    if found != [wanted] * AUDITED_OPERATIONS or len(texts) != 1:
        raise RuntimeError(
            f"case {bench.case}: expected one statement, {AUDITED_OPERATIONS} times a {wanted} of the cache, "
            f"found {len(texts)} statements and {found}"
        )
    return {
        "statements-per-op": f"{len(found) / AUDITED_OPERATIONS:g}",
        "rows-per-op": f"{rows / AUDITED_OPERATIONS:g}",
        "cache": found[0],
        "compilations-per-op": f"{found.count('miss') / AUDITED_OPERATIONS:g}",
        "statement-sha256": hashlib.sha256(texts.pop().encode()).hexdigest(),
    }


# ---- the process


def make_engine() -> Any:
    """One connection, kept, without pings; everything else, the cache too, is each version's own default."""
    return create_engine("postgresql+psycopg2://", future=True, isolation_level=ISOLATION, pool_size=1, max_overflow=0)


def configuration(bench: Bench, engine: Any, compiled: Sequence[str]) -> dict[str, Any]:
    """What the numbers depend on, as the keys and values of configuration lines."""
    with engine.connect() as connection:
        isolation = connection.exec_driver_sql("SHOW transaction_isolation").scalar()
        stored = connection.exec_driver_sql("SELECT count(*) FROM purchases").scalar()
    return {
        "python": platform.python_version(),
        "sqlalchemy": sqlalchemy.__version__,
        "psycopg2": psycopg2.__version__.split()[0],
        "libpq": psycopg2.extensions.libpq_version(),
        "server": bench.cursor.connection.get_parameter_status("server_version"),
        "compiled": ",".join(compiled),
        "isolation": isolation,
        "payload-sha256": digest([*bench.buyers, *bench.purchases]),
        "rows": stored,
        "gc": "enabled" if gc.isenabled() else "disabled",
        "hash-seed": os.environ.get("PYTHONHASHSEED", "random"),
        **audit(bench, engine),
    }


def measure(bench: Bench, repeats: int, compiled: Sequence[str]) -> None:
    """The whole process: fixture, configuration lines, repeats, and last the allocations."""
    bench.fill()
    engine = make_engine()
    for key, value in configuration(bench, engine, compiled).items():
        say(key, value)
    name = f"Benchmark{bench.case}"
    with bench.connect(engine) as connection:
        operation = bench.operation(connection)
        bench.corrupt()
        read(bench, operation, bench.parameters["warmup_s"])
        for _ in range(repeats):
            operations, elapsed = read(bench, operation, bench.parameters["duration_s"])
            print(f"{name} {operations} {elapsed / operations:.1f} ns/op", flush=True)
        few, many = bench.parameters["allocation_operations"]
        size, number = measure_allocations(operation, few, many, lambda: None, lambda _: None)
        print(f"{name} {many} {size:.1f} B/op {number:.1f} allocs/op", flush=True)
    engine.dispose()


def measure_case(options: argparse.Namespace) -> None:
    """Check what was asked for, connect, and measure."""
    where, compiled = f"case {options.case}", [name for name in options.compiled.split(",") if name]
    parameters = read_object(where, "--parameters", options.parameters, PARAMETERS, {"corrupt": False})
    read_object(where, "--switches", options.switches, {}, {})
    require_environment()
    check_compiled(compiled)
    with closing(psycopg2.connect("")) as server:
        server.autocommit = True
        measure(Bench(options.case, parameters, server.cursor()), options.repeats, compiled)


def main(argv: Sequence[str]) -> int:
    """The exit status of a whole process."""
    return run(options_parser("plancache.py", CASES), argv, measure_case)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
