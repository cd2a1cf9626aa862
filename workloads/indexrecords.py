"""What lies in the database of indexfetch.py: mapped tables, contents by the payload seed, and the fixture that is filled once.

One table of records with an index on (price, id). By their place in the order of prices, the first records are the
large ones, then come the medium ones, both split into chunk rows, and then the small ones.
"""

from __future__ import annotations

import io
import platform
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg2
import psycopg2.extensions
import sqlalchemy as sa
from common import Parameters, Row, UsageError, WrongAnswerError, digest, prices, say, stream, whole
from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, Text
from sqlalchemy.orm import declarative_base, relationship
from sqlalchemy.orm.collections import attribute_mapped_collection  # the name that all three versions have

ISOLATION = "READ COMMITTED"
DISABLED = ("enable_seqscan", "enable_sort", "enable_bitmapscan")  # in every session, for every arm
OPTIONS = " ".join(f"-c {name}=off" for name in DISABLED)
CHUNKS = 2  # of a split record
BLOCK = 5000  # records stored or read back at once


# ---- tables, mapped in the style that all three versions share

BASE: Any = declarative_base()


class Chunk(BASE):
    __tablename__ = "chunks"
    record_id = Column(BigInteger, ForeignKey("records.id"), primary_key=True, autoincrement=False)
    position = Column(Integer, primary_key=True, autoincrement=False)
    data = Column(LargeBinary, nullable=False)


class Record(BASE):
    __tablename__ = "records"
    id = Column(BigInteger, primary_key=True, autoincrement=False)
    price = Column(Integer, nullable=False)
    customer = Column(Text, nullable=False)
    quantity = Column(Integer, nullable=False)
    size = Column(Integer, nullable=False)
    payload = Column(LargeBinary)  # NULL in a split record
    # by position and not in order of position: neither arm's statement needs a sort then, and the order that the rows
    # come in decides nothing
    chunks = relationship(Chunk, collection_class=attribute_mapped_collection("position"), lazy="raise")


COLUMNS = ("id", "price", "customer", "quantity", "size", "payload")
PRICE_INDEX = Index("records_price_id", Record.price, Record.id)
TABLES = {"records": COLUMNS, "chunks": ("record_id", "position", "data")}


# ---- what a fixture holds

FIXTURE = {
    "payload_seed": whole(0),
    "rows": whole(1),
    "record_bytes": whole(1),
    **{
        f"{part}_{what}": whole(least)
        for part in ("large", "medium")
        for what, least in (("records", 0), ("bytes", CHUNKS))
    },
}


class Contents:
    """All that the database must hold, as the payload seed says, by rank: the place of a record in the order of prices."""

    def __init__(self, parameters: Parameters) -> None:
        self.seed, self.rows = parameters["payload_seed"], parameters["rows"]
        large, split = parameters["large_records"], parameters["large_records"] + parameters["medium_records"]
        if split > self.rows:
            raise UsageError(f"parameter rows: expected at least {split}, the split records, found {self.rows}")
        self.parts = {"large": range(large), "medium": range(large, split), "small": range(split, self.rows)}
        self.bytes = {"small": parameters["record_bytes"], **{p: parameters[f"{p}_bytes"] for p in ("large", "medium")}}
        self.prices = prices(self.seed, self.rows)
        self.ids = sorted(range(self.rows), key=self.prices.__getitem__)
        self.split = {self.ids[rank]: part for part in ("large", "medium") for rank in self.parts[part]}

    def price(self, rank: int) -> int:
        """The price of the record at a rank."""
        return self.prices[self.ids[rank]]

    def row(self, number: int) -> Row:
        """The record with this id: its columns, then each chunk's position and data."""
        part = self.split.get(number, "small")
        head, size = stream(self.seed, "head", number, 8), self.bytes[part]
        payload = stream(self.seed, "payload", number, size)
        fields = (number, self.prices[number], head.hex(), 1 + head[0], size)
        if part == "small":
            return (*fields, payload)
        step = -(-size // CHUNKS)
        pieces = ((start // step, payload[start : start + step]) for start in range(0, size, step))
        return (*fields, None, *(field for piece in pieces for field in piece))


# ---- the database


def connect() -> Any:
    """A plain connection with the settings of both arms."""
    server = psycopg2.connect("", options=OPTIONS)
    server.autocommit = True
    return server


def make_engine() -> Any:
    """One connection, kept, without pings, with the settings of both arms; all else is each version's own default."""
    pool, session = {"pool_size": 1, "max_overflow": 0}, {"options": OPTIONS}
    return sa.create_engine(
        "postgresql+psycopg2://", future=True, isolation_level=ISOLATION, connect_args=session, **pool
    )


def versions(cursor: Any) -> dict[str, Any]:
    """What is at work, by name and version."""
    return {
        "python": platform.python_version(),
        "sqlalchemy": sa.__version__,
        "psycopg2": psycopg2.__version__.split()[0],
        "libpq": psycopg2.extensions.libpq_version(),
        "server": cursor.connection.get_parameter_status("server_version"),
    }


def stored(cursor: Any, numbers: Sequence[int]) -> list[Row]:
    """The records with these ids, in this order, as they are stored."""
    cursor.execute(f"SELECT {', '.join(COLUMNS)} FROM records WHERE id = ANY(%s)", (list(numbers),))
    found = {row[0]: [bytes(field) if isinstance(field, memoryview) else field for field in row] for row in cursor}
    cursor.execute("SELECT * FROM chunks WHERE record_id = ANY(%s) ORDER BY record_id, position", (list(numbers),))
    for number, position, data in cursor:
        found[number] += [position, bytes(data)]
    return [tuple(found.get(number, ("missing",))) for number in numbers]


def count_rows(cursor: Any, table: str) -> int:
    """How many rows a table holds."""
    cursor.execute(f"SELECT count(*) FROM {table}")
    return int(cursor.fetchone()[0])


# ---- making it


def copy_text(rows: Iterable[Row]) -> io.StringIO:
    """Rows in the text format of COPY; no text of the fixture needs an escape."""

    def text(field: Any) -> str:
        if isinstance(field, bytes):
            return "\\\\x" + field.hex()
        return "\\N" if field is None else str(field)

    return io.StringIO("".join("\t".join(map(text, row)) + "\n" for row in rows))


def make_fixture(cursor: Any, parameters: Parameters) -> None:
    """Fill an empty database, and compare what it then holds with what the payload seed says."""
    cursor.execute(
        "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information_schema)'"
    )
    if tables := sorted(name for (name,) in cursor):
        raise UsageError(f"case fixture: expected an empty database, found {', '.join(tables)}")
    contents = Contents(parameters)
    engine = make_engine()
    BASE.metadata.create_all(engine)
    engine.dispose()
    blocks = [range(first, min(first + BLOCK, contents.rows)) for first in range(0, contents.rows, BLOCK)]
    for block in blocks:
        rows = [contents.row(number) for number in block]
        width = len(COLUMNS)
        pieces = ((row[0], *row[at : at + 2]) for row in rows for at in range(width, len(row), 2))
        for (table, columns), values in zip(TABLES.items(), ((row[:width] for row in rows), pieces), strict=True):
            cursor.copy_expert(f"COPY {table} ({', '.join(columns)}) FROM STDIN", copy_text(values))
    for table in TABLES:
        cursor.execute(f"REINDEX TABLE {table}")  # as dense as if made after the rows
    cursor.execute("VACUUM (FREEZE, ANALYZE) records, chunks")  # an index-only scan has nothing to look up then
    expected = digest(contents.row(number) for block in blocks for number in block)
    found = digest(row for block in blocks for row in stored(cursor, block))
    if expected != found:
        raise WrongAnswerError(f"fixture: expected sha256 {expected}, found {found}")
    cursor.execute("SELECT pg_database_size(current_database())")
    size = cursor.fetchone()[0]
    for name, value in {
        **versions(cursor),
        "fixture-sha256": found,
        "rows": count_rows(cursor, "records"),
        "chunk-rows": count_rows(cursor, "chunks"),
        **{f"{part}-records": len(ranks) for part, ranks in contents.parts.items()},
        **{f"{part}-bytes": size for part, size in contents.bytes.items()},
        "database-bytes": size,
    }.items():
        say(name, value)
