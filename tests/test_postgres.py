"""The PostgreSQL engine for real: over veth (as root) and over loopback, its settings, its resets, its crashes, its end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runner import network, plan, process
from runner.engines import postgres
from runner.errors import Refused
from tests import campaigns
from tests.campaigns import Campaign, alive, kill, wait_for

ROOT = os.geteuid() == 0
KINDS = [pytest.param("veth", marks=pytest.mark.skipif(not ROOT, reason="namespaces need root")), "loopback"]
SETTINGS = {"fsync": "off", "shared_buffers": "16MB", "max_connections": "10", "io_method": "sync"}
CPU = str(min(os.sched_getaffinity(0)))


def engine_of(**settings: str) -> plan.Engine:
    return plan.Engine(
        kind="postgres", version="18", storage="memory", authentication="scram-sha-256", settings=SETTINGS | settings
    )


@contextmanager
def server(kind: str, **settings: str) -> Iterator[tuple[postgres.Postgres, network.Ends]]:
    with (
        network.open_ends(plan.Network(kind=kind)) as ends,
        postgres.running(engine_of(**settings), ends, CPU) as started,
    ):
        yield started, ends


def ask(ends: network.Ends, environment: dict[str, str], text: str) -> subprocess.CompletedProcess[str]:
    """As a benchmark process would, from the client's end."""
    psql = str(postgres.binaries("18") / "psql")
    return subprocess.run(
        [*ends.client, psql, "-X", "-A", "-t", "-w", "-c", text],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def left_behind() -> dict[str, Any]:
    """What a server could leave on the host, besides processes."""
    folders = [*Path("/dev/shm").iterdir(), *Path("/tmp").glob("benchbook-*")]
    return {
        "folders": {path.name for path in folders},
        "mounts": set(Path("/proc/self/mountinfo").read_text().splitlines()),
        "shared memory": {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]},
        "links": {path.name for path in Path("/sys/class/net").iterdir()},
    }


def nothing_new(before: dict[str, Any]) -> bool:
    after = left_behind()
    return all(not after[what] - before[what] for what in before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_and_what_it_promises(kind: str) -> None:
    before = left_behind()
    with server(kind) as (started, ends):
        started.reset()
        environment = started.environment
        assert environment["PGHOST"] == ("10.203.0.1" if kind == "veth" else "127.0.0.1")
        for name, value in SETTINGS.items():
            assert ask(ends, environment, f"SHOW {name}").stdout.strip() == value
        # a password is needed, and a wrong one is not enough
        without = {key: value for key, value in environment.items() if key != "PGPASSWORD"}
        for wrong in (without, environment | {"PGPASSWORD": "guess"}):
            done = ask(ends, wrong, "SELECT 1")
            assert done.returncode == 2
            assert "password" in done.stderr
        # reset clears every trace of a user
        assert ask(ends, environment, "CREATE TABLE mine AS SELECT 1").returncode == 0
        assert ask(ends, environment, "SELECT count(*) FROM mine").stdout.strip() == "1"
        started.reset()
        assert 'relation "mine" does not exist' in ask(ends, environment, "SELECT * FROM mine").stderr
        health = started.health()
        assert health["server_version"].startswith("18.")
        assert 0 < health["uptime_s"] < 60
        assert health["client_backends"] == 0
        # bound to its CPU, and not as root
        pid = int(ask(ends, environment, "SELECT pg_read_file('postmaster.pid')").stdout.split()[0])
        status = Path(f"/proc/{pid}/status").read_text()
        assert re.search(rf"^Cpus_allowed_list:\t{CPU}$", status, re.M)
        assert not re.search(r"^Uid:\t0\t", status, re.M)
        assert environment["PGPASSWORD"] not in Path(f"/proc/{pid}/cmdline").read_text()
        if kind == "veth":  # outside the namespaces there is no such address
            outside = [str(postgres.binaries("18") / "pg_isready"), "-q", "-t", "2", "-h", "10.203.0.1"]
            assert subprocess.run(outside, check=False).returncode == 2
        # a crash is seen, and a restart gives a new, empty server at the same place
        os.kill(pid, 9)
        wait_for(lambda: not alive(pid))
        with pytest.raises(Refused, match="engine postgres"):
            started.health()
        started.restart()
        started.reset()
        assert started.health()["started"] > health["started"]
        assert started.environment == environment
    assert not alive(int(pid))
    assert wait_for(lambda: nothing_new(before))


@pytest.mark.parametrize("kind", KINDS[-1:])
def test_a_setting_that_the_server_does_not_show_as_planned(kind: str) -> None:
    before = left_behind()
    with (
        pytest.raises(Refused, match="shared_buffers: planned 16384kB, is 16MB"),
        server(kind, shared_buffers="16384kB"),
    ):
        pytest.fail("started")
    with pytest.raises(Refused, match=r"did not start[\s\S]*no_such_setting"), server(kind, no_such_setting="on"):
        pytest.fail("started")
    assert wait_for(lambda: nothing_new(before))


def test_the_folder_of_a_killed_runner_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres.tempfile, "gettempdir", lambda: str(tmp_path))
    gone = tmp_path / f"{postgres.FOLDER_PREFIX}4194999-x"  # above the largest process number
    there = tmp_path / f"{postgres.FOLDER_PREFIX}{os.getpid()}-x"
    for folder in (gone, there):
        (folder / "data").mkdir(parents=True)
    if ROOT:
        os.chown(gone, 65534, 65534)  # as the bind mount of a server on disk leaves it
    postgres.sweep()
    assert (gone.exists(), there.exists()) == (False, True)


def test_a_version_that_the_package_does_not_have() -> None:
    with pytest.raises(postgres.Missing, match="PostgreSQL 9 is not in this package"):
        postgres.binaries("9")


def test_a_network_without_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="there is no network to delay"):
        network.check(plan.Network(kind="none", delay_us=250))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Refused, match="network namespaces need root"):
        network.check(plan.Network(kind="veth", delay_us=250))
    network.check(plan.Network(kind="loopback", delay_us=250))


# -- campaigns


def served(parent: Path, cache: Path, faults: str = "", kind: str = "", **rules: object) -> Campaign:
    return campaigns.write(
        parent,
        cache,
        blocks=2,
        cases=campaigns.CASES[:1],
        faults=faults,
        engine=campaigns.POSTGRES.format(storage="memory", settings=""),
        network=kind or ("veth" if ROOT else "loopback"),
        environment={"PSQL": str(postgres.binaries("18") / "psql")},
        **rules,
    )


def password_of(campaign: Campaign) -> str:
    """The password that a benchmark process really got; the harness writes names alone, so it is read from /proc."""
    data = Path(f"/proc/{campaign.trace()[-1]['pid']}/environ").read_bytes()
    return dict(entry.partition("=")[::2] for entry in data.decode().split("\0") if entry)["PGPASSWORD"]


def test_a_server_crash_is_a_failed_run_and_the_campaign_goes_on(tmp_path: Path, cache: Path) -> None:
    before = left_behind()
    campaign = served(tmp_path, cache, "crash-server:one:1 pause:one:2")
    campaign.does("seal")
    secret = "another-secret-77c1"
    runner = campaign.start(*campaign.run_command(), environment={"USER_SECRET": secret, "PGPASSWORD": secret})
    try:
        wait_for(lambda: campaign.trace_path.with_name("tiny.trace.paused").exists())
        password = password_of(campaign)
        campaign.trace_path.with_name("tiny.trace.go").touch()
        _, errors = runner.communicate(timeout=60)
    finally:
        kill(runner)
    assert runner.returncode == 1, errors
    outcomes = {
        (labels["case"], labels["arm"], labels["block"]): campaign.record(labels) for labels in campaign.orders()
    }
    crashed = outcomes.pop(("Load", "one", 1))
    assert crashed["outcome"] == "failed"
    assert "the engine did not answer after the run" in crashed["reason"]
    assert crashed["engine"]["after"] == {}
    assert {record["outcome"] for record in outcomes.values()} == {"ok"}
    [restart] = campaign.events("engine-restart")
    assert restart["health"]["server_version"].startswith("18.")
    for record in outcomes.values():
        for health in record["engine"].values():
            assert health["server_version"].startswith("18.")
            assert health["uptime_s"] > 0
        assert record["covariates"]["engine_uptime_s"] == record["engine"]["before"]["uptime_s"]
        assert record["environment"]["PGPASSWORD"] == "{secret}"
    campaign.does("verify")
    assert len(password) > 20
    for path in campaign.folder.rglob("*"):
        for hidden in (password, secret):
            assert not path.is_file() or hidden.encode() not in path.read_bytes(), path
    assert wait_for(lambda: nothing_new(before))


def test_a_server_that_died_between_runs_is_started_again(tmp_path: Path, cache: Path) -> None:
    """Nothing is timed then, so that no run fails for it; the journal says what happened."""
    campaign = served(tmp_path, cache)
    campaign.does("seal")
    code = f"""
import os, subprocess
from runner import __main__ as command, record
from runner.engines.postgres import Postgres
ready, calls = record._ready, []
def dying(stage):
    calls.append(1)
    if len(calls) == 3:
        stage.engine._server.kill()
        stage.engine._server.wait()
    return ready(stage)
record._ready = dying
command.main(["run", {str(campaign.folder)!r}])
"""
    done = campaign.python("-c", code)
    assert done.returncode == 0, done.stderr
    assert {campaign.record(labels)["outcome"] for labels in campaign.orders()} == {"ok"}
    [restart] = campaign.events("engine-restart")
    assert restart["reason"].startswith("the engine did not answer before the run")
    campaign.does("verify")


def descendants(pid: int) -> set[int]:
    """Every process below one, from /proc."""
    parents: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents.setdefault(parent, []).append(int(entry))
    found, todo = set(), [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found.update(below)
        todo += below
    return found


def test_kill_of_a_runner_with_a_server_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    before = left_behind()
    campaign = served(tmp_path, cache, "pause:*:1")
    campaign.does("seal")
    runner = campaign.start(*campaign.run_command())
    try:
        wait_for(lambda: campaign.trace_path.with_name("tiny.trace.paused").exists())
        below = descendants(runner.pid)
    finally:
        kill(runner)
    assert len(below) > 5  # holders of namespaces, the server and its children, the benchmark process
    wait_for(lambda: not any(alive(pid) for pid in below))
    assert wait_for(lambda: nothing_new(before))
    campaign.trace_path.with_name("tiny.trace.go").touch()
    done = campaign.call("run")
    assert done.returncode == 0, done.stderr
    assert [event["reason"] for event in campaign.events("block-void")] == [
        "the run of arm " + campaign.trace()[0]["arm"] + " was interrupted"
    ]
    assert len(campaign.trace()) == 5
    assert wait_for(lambda: nothing_new(before))


@pytest.mark.parametrize("kind", ["veth", "loopback"])
def test_check_prints_every_command_of_a_served_campaign(tmp_path: Path, cache: Path, kind: str) -> None:
    campaign = served(tmp_path, cache, kind=kind)
    done = campaign.does("check", "--dry-run")
    text = done.stdout
    assert ("unshare --net --ipc --mount" in text) == (kind == "veth")
    assert ("ip link add bb-server" in text) == (kind == "veth")
    assert ("unshare --ipc --mount" in text) == (kind == "loopback" and ROOT)
    for part in ("initdb", "shared_buffers=16MB", "DROP DATABASE IF EXISTS bench", "pg_hba.conf"):
        assert part in text
    assert len([line for line in text.splitlines() if "tiny.py" in line]) == 4
    assert "PGPASSWORD" not in text
    assert not campaign.trace()


def test_every_helper_command_fails_with_its_words() -> None:
    with pytest.raises(Refused, match=r"exit status 3[\s\S]*went wrong"):
        process.call([sys.executable, "-c", "import sys; sys.stderr.write('went wrong'); sys.exit(3)"])
    with pytest.raises(Refused, match=r"no answer within 0\.1 s"):
        process.call([sys.executable, "-c", "import time; time.sleep(9)"], limit_s=0.1)
    with pytest.raises(postgres.Missing, match="not installed"):
        process.call(["/nowhere/at/all"])
    with pytest.raises(postgres.Missing, match="install the package"):
        process.tool("no-such-program")
    assert (
        json.loads(process.call([sys.executable, "-c", "import json,os; print(json.dumps(dict(os.environ)))"]))["TZ"]
        == "UTC"
    )
