"""The clients that clients.py compares, each behind the same few methods: one connection, autocommit, text, no SSL.

A client is imported when it connects, so that a process holds one of them only. PGHOST, PGPORT, PGUSER, PGPASSWORD and
PGDATABASE name the server.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from common import Row

CODEC_OIDS = (20, 25, 17, 1700, 16, 1114)  # bigint, text, bytea, numeric, boolean, timestamp without time zone

Read = Callable[[int], Sequence[Any]]
Batch = Callable[[Iterable[tuple[int, bytes]]], None]
Encode = Callable[[Sequence[Row]], Sequence[Sequence[Any]]]
Decode = Callable[[Sequence[Sequence[bytes]]], Sequence[Any]]


class Pg8000:
    """pg8000's native interface."""

    packages = ("pg8000",)
    prepared = "by Connection.prepare, before the warm-up"
    parameter_format = result_format = "text"  # it has no other

    def __init__(self) -> None:
        import pg8000.native

        given = os.environ
        version = tuple(int(part) for part in pg8000.native.__version__.split(".")[:2])
        self.connection = pg8000.native.Connection(
            given["PGUSER"],
            host=given["PGHOST"],
            port=int(given["PGPORT"]),
            database=given["PGDATABASE"],
            password=given["PGPASSWORD"],
            ssl_context=False if version >= (1, 31) else None,  # None means "if the server has it" since 1.31.0
        )

    def query(self, sql: str) -> list[Row]:
        """Execute without parameters; untimed."""
        return [tuple(row) for row in self.connection.run(sql) or ()]

    def reader(self, sql: str) -> Read:
        """A prepared statement that takes an id."""
        execute = self.connection.prepare(sql.format(id=":id")).run
        return lambda number: execute(id=number)

    def writer(self, sql: str) -> Batch:
        """A prepared statement that takes an id and a value, executed many times in one transaction."""
        control, execute = self.connection.run, self.connection.prepare(sql.format(id=":id", value=":value")).run

        def batch(pairs: Iterable[tuple[int, bytes]]) -> None:
            control("BEGIN")
            for number, value in pairs:
                execute(id=number, value=value)
            control("COMMIT")

        return batch

    def codec(self) -> tuple[Encode, Decode]:
        """Converters, with the steps between them and the wire that the connection makes in its own code."""
        from pg8000.converters import PG_TYPES, PY_TYPES, make_params

        functions = [PG_TYPES[oid] for oid in CODEC_OIDS]
        return (
            lambda rows: [[text.encode("utf8") for text in make_params(PY_TYPES, row)] for row in rows],
            lambda wire: [[f(str(data, "utf8")) for f, data in zip(functions, row, strict=True)] for row in wire],
        )

    def configuration(self) -> dict[str, Any]:
        """What this client is."""
        import pg8000

        return {"client-version": pg8000.__version__, "implementation": "pure-python", "libpq": "none"}

    def descriptor(self) -> int:
        """The file descriptor of its socket, for which it has no public name."""
        return int(self.connection._usock.fileno())

    def close(self) -> None:
        """End the session."""
        self.connection.close()


class Psycopg:
    """psycopg 3 with its C implementation: with another it would not be the C-bound client."""

    packages = ("psycopg", "psycopg_binary")
    prepared = "by execute(prepare=True), in the warm-up"
    parameter_format = "text"  # by %t: by itself it sends integers and bytes as binary

    def __init__(self) -> None:
        import psycopg

        if psycopg.pq.__impl__ not in ("binary", "c"):
            raise ImportError(f"psycopg: expected its C implementation, found {psycopg.pq.__impl__}")
        self.connection = psycopg.connect(autocommit=True, sslmode="disable", gssencmode="disable")
        self.cursor = self.connection.cursor()
        self.result_format = self.cursor.format.name.lower()

    def query(self, sql: str) -> list[Row]:
        """Execute without parameters; untimed."""
        self.cursor.execute(sql, prepare=False)
        return self.cursor.fetchall() if self.cursor.description else []

    def reader(self, sql: str) -> Read:
        """A prepared statement that takes an id."""
        execute, sql = self.cursor.execute, sql.format(id="%t")
        return lambda number: execute(sql, (number,), prepare=True).fetchall()

    def writer(self, sql: str) -> Batch:
        """A prepared statement that takes an id and a value, executed many times in one transaction."""
        execute, sql = self.cursor.execute, sql.format(id="%t", value="%t")

        def batch(pairs: Iterable[tuple[int, bytes]]) -> None:
            execute("BEGIN", prepare=False)
            for pair in pairs:
                execute(sql, pair, prepare=True)
            execute("COMMIT", prepare=False)

        return batch

    def codec(self) -> tuple[Encode, Decode]:
        """A Transformer; without a connection it would write bytes in the server's old escape format."""
        from psycopg.adapt import PyFormat, Transformer
        from psycopg.pq import Format

        transformer, formats = Transformer(self.connection), [PyFormat.TEXT] * len(CODEC_OIDS)
        transformer.set_loader_types(CODEC_OIDS, Format.TEXT)
        dump, load = transformer.dump_sequence, transformer.load_sequence
        return lambda rows: [dump(row, formats) for row in rows], lambda wire: [load(row) for row in wire]

    def configuration(self) -> dict[str, Any]:
        """What this client is."""
        import psycopg

        pq = psycopg.pq
        return {"client-version": psycopg.__version__, "implementation": pq.__impl__, "libpq": pq.version()}

    def descriptor(self) -> int:
        """The file descriptor of its socket."""
        return int(self.connection.fileno())

    def close(self) -> None:
        """End the session."""
        self.connection.close()


Client = Pg8000 | Psycopg
CLIENTS: dict[str, type[Client]] = {"pg8000": Pg8000, "psycopg": Psycopg}


def connect(make: type[Client], workers: int) -> list[Client]:
    """One connection for each worker. Raises RuntimeError where one is encrypted."""
    clients = [make() for _ in range(workers)]
    for client in clients:
        if client.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") != [(False,)]:
            raise RuntimeError("ssl: expected off, found on")
    return clients


def nodelay(client: Client) -> str:
    """Whether the client's socket has TCP_NODELAY; nothing here sets it."""
    with socket.socket(fileno=os.dup(client.descriptor())) as copy:
        found = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    return "set by the client" if found else "not set by the client"


def prepared(client: Client) -> str:
    """The prepared statements of this connection, and the types of their parameters."""
    ((count, types),) = client.query(
        "SELECT count(*), string_agg(array_to_string(parameter_types, ','), ' ') FROM pg_prepared_statements"
    )
    return f"{count} ({types}), {client.prepared}" if count else "none"


def show(client: Client, setting: str) -> str:
    """A setting of the server, as the client's connection sees it."""
    return str(client.query(f"SHOW {setting}")[0][0])
