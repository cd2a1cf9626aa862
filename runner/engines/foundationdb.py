"""FoundationDB from its own packages: one fdbserver, single redundancy, started afresh for each session of the runner.

As root the server runs as `nobody`, in a mount namespace of its own that holds its data. The cluster file is there twice: the
server has one that it may rewrite, and clients one in a folder of the host, where they can read it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import plan as plans
from runner.engines import fdbstatus
from runner.engines.postgres import MOUNT, free_port, sweep
from runner.errors import Missing, Refused
from runner.files import file_sha256
from runner.journal import utc_now
from runner.network import Ends
from runner.process import SYSTEM_PATH, call, pinned, tool

WHERE = fdbstatus.WHERE
PACKAGES = {"fdbserver": "foundationdb-server", "fdbcli": "foundationdb-clients"}
USUAL = {"fdbserver": "/usr/sbin/fdbserver", "fdbcli": "/usr/bin/fdbcli"}  # where the packages put them
PORT = 4500
START_LIMIT_S = 90
STOP_LIMIT_S = 5
ASK_LIMIT_S = 20
FOLDER_PREFIX = "benchbook-foundationdb-"

RESET = r'writemode on; clearrange "" \xff; getrangekeys "" \xff 1'  # the last shows a key that is left
STATUS = "status json"


def binaries(version: str) -> dict[str, str]:
    """Full paths of server and command line. Raises Missing, with the packages, when they or that version are not there."""
    remedy = f"install {' and '.join(PACKAGES.values())} {version}, from FoundationDB's releases on GitHub"
    found = {name: shutil.which(name, path=f"{SYSTEM_PATH}:/usr/lib/foundationdb") for name in PACKAGES}
    absent = [name for name, path in found.items() if path is None]
    if absent:
        packages = ", ".join(PACKAGES[name] for name in absent)
        raise Missing(
            packages,
            f"FoundationDB {version} is not installed",
            expected=" and ".join(PACKAGES),
            found=f"no {' and no '.join(absent)}",
            remedy=f"{remedy}; then disable the service that the package starts: systemctl disable --now foundationdb",
        )
    paths = {name: path for name, path in found.items() if path is not None}
    for name, path in paths.items():
        said = call([path, "--version"], where=WHERE).strip()
        if f"(v{version})" not in said.partition("\n")[0]:
            raise Missing(
                PACKAGES[name],
                "this is not the planned version",
                expected=f"{name} {version}",
                found=said.partition("\n")[0] or "no answer to --version",
                remedy=f"{remedy}, or plan the version that is there",
            )
    return paths


def identity(engine: plans.Engine) -> dict[str, str]:
    """Packages, version and digests of the programs that the plan names."""
    paths = binaries(engine.version)
    return {
        "package": ", ".join(PACKAGES.values()),
        "version": call([paths["fdbserver"], "--version"], where=WHERE).partition("\n")[0].strip(),
        "fdbserver_sha256": file_sha256(Path(paths["fdbserver"])),
        "fdbcli_sha256": file_sha256(Path(paths["fdbcli"])),
    }


@dataclass(frozen=True)
class Places:
    """Where the programs and the files of one server lie, and how it is started."""

    programs: dict[str, str]
    base: str  # as the server's own end sees it
    client_file: str  # the cluster file for clients, as the host sees it
    address: str
    as_user: tuple[str, ...]  # prefix that gives up root
    at_server: tuple[str, ...]

    @property
    def server_file(self) -> str:
        """The server's own cluster file, which it may rewrite."""
        return f"{self.base}/server.cluster"


def _places(programs: dict[str, str], ends: Ends, folder: str, port: int) -> Places:
    drop = (tool("setpriv"), "--reuid=nobody", "--regid=nogroup", "--clear-groups") if ends.private_mounts else ()
    base = MOUNT if ends.private_mounts else folder
    return Places(programs, base, f"{folder}/fdb.cluster", f"{ends.address}:{port}", drop, ends.server)


def cluster_file(identifier: str, places: Places) -> str:
    """A cluster file with this server as its only coordinator."""
    return f"benchbook:{identifier}@{places.address}\n"


def prepare_commands(engine: plans.Engine, places: Places, folder: str, cluster: str) -> list[tuple[list[str], str]]:
    """Mounts (as root), the clients' cluster file and an empty data folder, with what each gets on standard input."""
    memory = ["-t", "tmpfs", "-o", "size=75%,mode=0755", "benchbook"]
    what = memory if engine.storage == "memory" else ["--bind", folder]
    mounts = [
        [*places.at_server, tool("mount"), *what, places.base],
        [*places.at_server, tool("chown"), "nobody:nogroup", places.base],
    ]
    return [
        *((command, "") for command in mounts if places.as_user),
        ([tool("tee"), places.client_file], cluster),
        *initialise_commands(places, cluster),
    ]


def initialise_commands(places: Places, cluster: str) -> list[tuple[list[str], str]]:
    """No data at all, and the server's own cluster file as it was."""
    user, folders = [*places.at_server, *places.as_user], [f"{places.base}/{name}" for name in ("data", "log")]
    return [
        ([*user, tool("rm"), "-rf", *folders], ""),
        ([*user, tool("mkdir"), *folders], ""),
        ([*user, tool("tee"), places.server_file], cluster),
    ]


def server_command(engine: plans.Engine, places: Places, cpus: str) -> list[str]:
    """The server itself, bound to its CPUs, with the plan's knobs and sizes."""
    settings = {
        # Kernel AIO opens files with O_DIRECT, which a tmpfs may refuse.
        **({"knob_disable_posix_kernel_aio": "1"} if engine.storage == "memory" else {}),
        **{key: value for key, value in engine.settings.items() if key.startswith("knob_") or key.endswith("memory")},
    }
    options = [
        f"--{key if key.startswith('knob_') else key.replace('_', '-')}={value}" for key, value in settings.items()
    ]
    files = ["-C", places.server_file, "-d", f"{places.base}/data", "-L", f"{places.base}/log"]
    # The uid is given up first: a change of uid would clear the death signal.
    start = [*places.at_server, *places.as_user, *pinned(cpus), places.programs["fdbserver"]]
    return [*start, "-p", places.address, "-l", "public", *files, *options]


def cli_command(places: Places, cpus: str, statements: str, limit_s: int = ASK_LIMIT_S) -> list[str]:
    """fdbcli at the server's end, on the server's CPUs, which ends by itself at its limit."""
    start = [*places.at_server, *pinned(cpus), places.programs["fdbcli"]]
    return [*start, "-C", places.server_file, "--timeout", str(limit_s), "--exec", statements]


def configure_statement(engine: plans.Engine) -> str:
    """What makes the database: redundancy, storage engine, and what else the plan says of it."""
    more = [f"{key}={engine.settings[key]}" for key in (*fdbstatus.COUNTS, "tenant_mode") if key in engine.settings]
    return " ".join(["configure new", fdbstatus.REDUNDANCY, engine.storage_engine, *more])


def _tenants(engine: plans.Engine) -> bool:
    return engine.settings.get("tenant_mode", "disabled") != "disabled"


def reset_statement(engine: plans.Engine) -> str:
    """Clear every user key, and ask what is left; where there can be tenants, ask for them too."""
    return f"{RESET}; tenant list" if _tenants(engine) else RESET


class FoundationDB:
    """A running server."""

    secrets: tuple[str, ...] = ()

    def __init__(self, engine: plans.Engine, places: Places, cpus: str, cluster: str) -> None:
        self._engine, self._places, self._cpus, self._cluster = engine, places, cpus, cluster
        self._server: subprocess.Popen[str] | None = None
        self._log: deque[str] = deque(maxlen=100)
        self._started, self._generation = "", None
        self.environment = {"FDB_CLUSTER_FILE": places.client_file}

    def start(self) -> None:
        """Start the server, make the database, wait until it is at rest; assert version and configuration.

        Raises Refused when it does not come to rest in time, or is not as planned.
        """
        self._log.clear()
        self._server = subprocess.Popen(
            server_command(self._engine, self._places, self._cpus),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            env={"PATH": SYSTEM_PATH, "LANG": "C", "TZ": "UTC"},
        )
        self._started = utc_now()
        threading.Thread(target=self._collect, args=(self._server,), daemon=True).start()
        deadline = time.monotonic() + START_LIMIT_S
        # The first try may reach its limit after the database was made.
        self._until(deadline, configure_statement(self._engine), lambda status, said: not status or "exists" in said)
        said = self._until(
            deadline, STATUS, lambda status, said: not status and fdbstatus.settled(fdbstatus.parse(said))
        )
        status = fdbstatus.parse(said)
        fdbstatus.assert_planned(self._engine, status)
        self._assert_knobs()
        self._generation = fdbstatus.look(status, "cluster", "generation")

    def _collect(self, server: subprocess.Popen[str]) -> None:
        assert server.stdout is not None
        for line in server.stdout:
            self._log.append(line.rstrip())

    def _until(self, deadline: float, statement: str, done: Callable[[int, str], bool]) -> str:
        """Ask again until the answer will do. Raises Refused when the server ends, or the deadline is reached."""
        said = ""
        while True:
            self._assert_alive("the server did not start")
            argv = cli_command(self._places, self._cpus, statement, limit_s=5)
            try:
                found = subprocess.run(
                    argv,
                    env={"PATH": SYSTEM_PATH},
                    capture_output=True,
                    text=True,
                    timeout=15,
                    check=False,
                    start_new_session=True,
                )
                said = found.stdout
                if done(found.returncode, said):
                    return said
            except (Refused, subprocess.TimeoutExpired):
                pass  # no status yet: it is asked again
            if time.monotonic() > deadline:
                raise Refused(
                    WHERE,
                    f"no database at rest after {statement!r}",
                    expected=f"one within {START_LIMIT_S} s",
                    found="; ".join([_condition(said), *list(self._log)[-5:]]),
                    remedy="is there memory and space for it? Start it by hand with the commands of check --dry-run",
                )
            time.sleep(0.1)

    def _assert_alive(self, problem: str) -> None:
        if self._server is None or self._server.poll() is None:
            return
        raise Refused(
            WHERE,
            problem,
            expected="a running fdbserver",
            found="; ".join([f"it ended with status {self._server.returncode}", *list(self._log)[-5:]]),
            remedy="see its last words; it is started again, with no data, before the next run",
        )

    def _assert_knobs(self) -> None:
        """A knob that the server does not know is a warning to it, and the plan's default would be measured."""
        wrong = [line for line in self._log if "knob option" in line.lower()]
        if wrong:
            raise Refused(
                WHERE,
                "the server does not take a setting of the plan",
                expected="every knob known",
                found="; ".join(wrong),
                remedy="mend engine.settings in the plan",
            )

    def _ask(self, statement: str) -> str:
        self._assert_alive("the server ended")
        argv = cli_command(self._places, self._cpus, statement)
        return call(argv, limit_s=ASK_LIMIT_S + 10, where=WHERE)

    def reset(self) -> None:
        """Clear every user key, and see that none is left. Raises Refused when one is."""
        fdbstatus.assert_empty(self._ask(reset_statement(self._engine)), tenants=_tenants(self._engine))

    def keep_fixture(self) -> None:
        """Raises Refused: there is no copy of a database within a server."""
        raise Refused(
            WHERE,
            "there are no fixtures with this engine",
            expected="phases without fixture",
            found="a fixture",
            remedy="let each process load its data before it measures",
        )

    def health(self) -> dict[str, Any]:
        """Version, uptime, configuration and counters. Raises Refused when the server ended or is not available.

        A server that recovered in between counts as started again: its generation is then part of `started`.
        """
        found = fdbstatus.health(fdbstatus.parse(self._ask(STATUS)))
        recovered = found["generation"] != self._generation
        since = f", recovered to generation {found['generation']}" if recovered else ""
        return {"started": self._started + since, **found}

    def restart(self) -> None:
        """Stop what is left of the server, and start one with no data at the same place."""
        self.stop()
        for argv, stdin in initialise_commands(self._places, self._cluster):
            call(argv, stdin=stdin, where=WHERE)
        self.start()

    def stop(self) -> None:
        """Ask the server to end, and end it when it does not within the limit; the data is thrown away."""
        if self._server is None:
            return
        self._server.terminate()
        try:
            self._server.wait(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    @property
    def log(self) -> list[str]:
        """The last lines that the server wrote to its standard output and error."""
        return list(self._log)


def _condition(said: str) -> str:
    try:
        return fdbstatus.condition(fdbstatus.parse(said))
    except Refused:
        return said.strip()[-500:] or "no answer"


@contextmanager
def running(engine: plans.Engine, ends: Ends, cpus: str) -> Iterator[FoundationDB]:
    """A server at its end of the network, from an empty folder to its stop. Raises Missing or Refused."""
    programs = binaries(engine.version)
    port = PORT if ends.kind == "veth" else free_port()
    assert_reached_directly(ends, port)
    sweep(FOLDER_PREFIX)
    with ExitStack() as stack:
        folder = _folder(engine, ends)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        places = _places(programs, ends, folder, port)
        cluster = cluster_file(secrets.token_hex(8), places)
        server = FoundationDB(engine, places, cpus, cluster)
        stack.callback(server.stop)
        for argv, stdin in prepare_commands(engine, places, folder, cluster):
            call(argv, stdin=stdin, where=WHERE)
        server.start()
        yield server


def assert_reached_directly(ends: Ends, port: int) -> None:
    """Raise Refused for a delay by relay: clients go on to the address that the server announces, past the relay."""
    if ends.reach(port) != (ends.address, port):
        raise Refused(
            "plan: network.delay_us",
            "a relay cannot delay the way to FoundationDB",
            expected="a delay by netem or tun, or none",
            found="a relay; clients would go past it to the server's own address",
            remedy='run as root with network.kind = "veth", or plan no delay',
        )


def _folder(engine: plans.Engine, ends: Ends) -> str:
    """The folder of the clients' cluster file, and of the data where the server has no mounts of its own."""
    memory = engine.storage == "memory" and not ends.private_mounts and os.access("/dev/shm", os.W_OK)
    return tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-", dir="/dev/shm" if memory else None)


def commands(engine: plans.Engine, ends: Ends, cpus: str) -> list[list[str]]:
    """Every command of a session with this engine, in order; what is not installed where its package would put it."""
    try:
        programs = binaries(engine.version)
    except Missing:
        programs = USUAL
    places = _places(programs, ends, "{folder}", PORT)
    prepare = [argv for argv, _ in prepare_commands(engine, places, "{folder}", "")]
    statements = (configure_statement(engine), STATUS, reset_statement(engine), STATUS)
    asked = [cli_command(places, cpus, statement) for statement in statements]
    return [*prepare, server_command(engine, places, cpus), *asked]
