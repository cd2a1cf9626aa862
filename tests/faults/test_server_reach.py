"""Who reaches a campaign's server: over veth nobody outside of its namespaces, over loopback nobody without its password."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from runner import network
from runner.engines import postgres
from tests.test_postgres import KINDS, ROOT, ask, server

PSQL = str(postgres.binaries("18") / "psql")


def from_here(environment: dict[str, str], host: str) -> subprocess.CompletedProcess[str]:
    """Ask from the host itself, whatever the plan's network is."""
    given = environment | {"PGHOST": host, "PGCONNECT_TIMEOUT": "2"}
    argv = [PSQL, "-X", "-A", "-t", "-w", "-c", "SELECT 1"]
    return subprocess.run(argv, env=given, capture_output=True, text=True, check=False, timeout=30)


def own_addresses() -> list[str]:
    """Addresses of this host other than 127.0.0.1."""
    shown = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=False).stdout
    found = [line.split()[3].partition("/")[0] for line in shown.splitlines() if " inet" in line and "fe80" not in line]
    return ["127.0.0.2", *(address for address in found if address != "127.0.0.1")]


@pytest.mark.skipif(not ROOT, reason="namespaces need root")
def test_over_veth_the_right_password_does_not_help_from_outside() -> None:
    """A connection from the host, with the right password: no address of the server is reached from outside of its namespaces."""
    with server("veth") as (started, ends):
        started.reset()
        assert ask(ends, started.environment, "SELECT 1").stdout.strip() == "1"
        for host in (network.SERVER_ADDRESS, "127.0.0.1", *own_addresses()):
            done = from_here(started.environment, host)
            assert done.returncode == 2, (host, done.stdout)
            assert "password" not in done.stderr  # not refused by the server: there is none
        port = f":{int(started.environment['PGPORT']):04X} "
        assert port not in "".join(Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6"))


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_generated_password_opens_the_server(kind: str) -> None:
    """No password, a wrong one, one of another server, other users: each is refused by scram, from the client's own end."""
    with server(kind) as (other, _):
        of_another = other.environment["PGPASSWORD"]
    with server(kind) as (started, ends):
        started.reset()
        right = started.environment
        assert len(right["PGPASSWORD"]) >= 32 and right["PGPASSWORD"] != of_another
        for changed in ({"PGPASSWORD": ""}, {"PGPASSWORD": "postgres"}, {"PGPASSWORD": of_another}, {"PGUSER": "root"},
                        {"PGUSER": "nobody"}, {"PGDATABASE": "template1", "PGPASSWORD": "x"}):  # fmt: skip
            done = ask(ends, right | changed, "SELECT 1")
            assert done.returncode == 2, changed
            assert "password" in done.stderr, done.stderr
        assert ask(ends, right, "SHOW password_encryption").stdout.strip() == "scram-sha-256"
        rules = ask(ends, right, "SELECT type, address, auth_method FROM pg_hba_file_rules").stdout.split()
        assert [rule.split("|")[::2] for rule in rules] == [["host", "scram-sha-256"]]
        assert ask(ends, right, "SHOW unix_socket_directories").stdout.strip() == ""
        assert ask(ends, right, "SHOW listen_addresses").stdout.strip() == ends.address


def test_over_loopback_no_other_address_of_the_host_reaches_the_server() -> None:
    """The server listens on 127.0.0.1 alone: at every other address of the host the connection is refused."""
    with server("loopback") as (started, _):
        started.reset()
        assert from_here(started.environment, "127.0.0.1").stdout.strip() == "1"
        for host in own_addresses():
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, int(started.environment["PGPORT"])), timeout=2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_data_of_the_server_is_its_own(kind: str) -> None:
    """The folder of the data lets no other user in, and the file with the password is gone before the server answers."""
    with server(kind) as (started, ends):
        started.reset()
        where = ask(ends, started.environment, "SHOW data_directory").stdout.strip()
        pid = ask(ends, started.environment, "SELECT pg_read_file('postmaster.pid')").stdout.split()[0]
        folder = Path(f"/proc/{pid}/root{where}") if os.geteuid() == 0 else Path(where)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not (folder.parent / "password").exists()
        command = Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/environ").read_text()
        assert started.environment["PGPASSWORD"] not in command
