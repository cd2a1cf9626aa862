"""The FoundationDB engine as far as it can be tested without FoundationDB: its commands, its reading of answers, its refusals.

No test here starts FoundationDB. The status in golden/fdb_status.json is written by hand after the schema in the documentation of
7.3, "Machine-Readable Status", and so are the answers of fdbcli. Where processes start, stop and crash, two shell scripts stand
in for `fdbserver` and `fdbcli`: they know no protocol and store nothing, and show only what becomes of processes and files.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from analysis import limits, page_design
from analysis.report import open_report
from runner import network
from runner.engines import fdbstatus, foundationdb
from runner.errors import Missing, Refused
from runner.plan import Engine, PhaseEngine
from runner.planfile import parse
from tests import campaigns
from tests.bundled import CAMPAIGN
from tests.campaigns import alive, wait_for
from tests.small import TEXT, golden
from tests.test_overview import with_phase
from tests.test_plan_parts import problems
from tests.test_postgres import left_behind, nothing_new

ROOT = os.geteuid() == 0
INSTALLED = any(shutil.which(name, path=foundationdb.SYSTEM_PATH) for name in foundationdb.PACKAGES)
CPU = str(min(os.sched_getaffinity(0)))
HERE = network.Ends("loopback", "127.0.0.1", (), (), False)
GOLDEN = Path(__file__).parent / "golden"
STATUS = json.loads((GOLDEN / "fdb_status.json").read_text())
PLANNED = 'kind = "foundationdb"\nversion = "7.3.77"\nstorage = "memory"\n'


def engine_of(storage: Any = "memory", **settings: str) -> Engine:
    return Engine(kind="foundationdb", version="7.3.77", storage=storage, settings=settings)


def changed(*path: str, value: Any) -> dict[str, Any]:
    """The documented status with one field changed, or taken away by None."""
    status = copy.deepcopy(STATUS)
    *above, last = path
    part = status
    for name in above:
        part = next(iter(part.values())) if name == "*" else part[name]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return status


# -- commands


def test_every_command_as_it_would_be_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foundationdb, "binaries", lambda version: foundationdb.USUAL)
    at_server, at_client = network.prefixes("{server}", "{client}", net=True, mounts=True)
    ends = network.Ends("veth", network.SERVER_ADDRESS, at_server, at_client, True)
    text = ""
    for title, planned in (
        ("memory", engine_of(knob_max_metrics="10", storage_memory="2GiB")),
        ("ssd-2", engine_of("disk", logs="1", tenant_mode="optional_experimental")),
    ):
        text += f"# {title}\n"
        text += "".join(shlex.join(argv) + "\n" for argv in foundationdb.commands(planned, ends, "2-7"))
    golden("fdb_commands.txt", re.sub(r"(?<![\w/])/(usr/)?s?bin/(?!fdb)", "", text))


def test_check_prints_the_commands_of_a_campaign_without_the_programs(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.write(tmp_path, cache, engine=PLANNED, network="loopback")
    text = campaign.does("check", "--dry-run").stdout
    for part in ("fdbserver -p 127.0.0.1:4500", "'configure new single memory'", "clearrange", "'status json'"):
        assert part in text


# -- what answers say


def test_health_of_a_documented_status() -> None:
    assert fdbstatus.health(STATUS) == {
        "server_version": "7.3.77",
        "uptime_s": 41.25,
        "generation": 2,
        "available": True,
        "recovery_state": "fully_recovered",
        "data_state": "healthy",
        "redundancy": "single",
        "storage_engine": "memory-2",
        "tenant_mode": "disabled",
        "messages": ["io_timeout", "layer_status_incomplete"],
        "worst_durability_lag_s": 5.25,
        "moving_bytes": 5120,
        "memory_used_bytes": 203423744,
    }
    assert fdbstatus.settled(STATUS)
    fdbstatus.assert_planned(engine_of(logs="1"), STATUS)


def test_fields_that_only_inform_may_be_absent() -> None:
    status = changed("cluster", "data", value=None)
    for name in ("memory", "roles", "messages", "uptime_seconds"):
        del next(iter(status["cluster"]["processes"].values()))[name]
    found = fdbstatus.health(status)
    assert (found["worst_durability_lag_s"], found["memory_used_bytes"], found["uptime_s"]) == (None, None, None)
    assert not fdbstatus.settled(status)


def test_status_stands_between_other_lines() -> None:
    assert fdbstatus.parse(f"Using cluster file `x'.\n\n{json.dumps(STATUS)}\n") == STATUS
    for text in ("", "Specified timeout reached -- exiting...\n", "{ torn"):
        with pytest.raises(Refused, match=r"status json cannot be read[\s\S]*expected: a JSON object"):
            fdbstatus.parse(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("client", "database_status", "available"), False),
        (("cluster", "database_available"), False),
        (("cluster", "database_available"), None),
        (("client",), None),
    ],
)
def test_an_unavailable_database_is_refused(path: tuple[str, ...], value: bool | None) -> None:
    with pytest.raises(Refused, match=r"not available[\s\S]*found: available False; recovery fully_recovered"):
        fdbstatus.health(changed(*path, value=value))


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("cluster", "processes", "*", "version"), "7.3.76", "expected: version 7.3.77\n  found: version 7.3.76"),
        (("cluster", "processes", "*", "version"), None, "found: version None"),
        (("cluster", "configuration", "storage_engine"), "ssd-2", "expected: storage_engine memory or memory-2"),
        (("cluster", "configuration", "redundancy_mode"), "double", "expected: redundancy_mode single"),
        (("cluster", "configuration", "tenant_mode"), "required_experimental", "expected: tenant_mode disabled"),
        (("cluster", "configuration", "logs"), 2, "expected: logs 1\n  found: logs 2"),
        (("cluster", "processes"), {}, "expected: one process"),
    ],
)
def test_a_server_that_is_not_as_planned_is_refused(path: tuple[str, ...], value: Any, text: str) -> None:
    with pytest.raises(Refused, match=re.escape(text)):
        fdbstatus.assert_planned(engine_of(logs="1"), changed(*path, value=value))


def test_a_version_without_tenants_is_as_planned_unless_the_plan_names_a_mode() -> None:
    status = changed("cluster", "configuration", "tenant_mode", value=None)
    fdbstatus.assert_planned(engine_of(), status)
    with pytest.raises(Refused, match="expected: tenant_mode disabled"):
        fdbstatus.assert_planned(engine_of(tenant_mode="disabled"), status)


EMPTY = '>>> writemode on\n>>> clearrange "" \\xff\nCommitted (82719)\n>>> getrangekeys\n\nRange limited to 1 keys\n\n'


def test_what_a_reset_left() -> None:
    fdbstatus.assert_empty(EMPTY, tenants=False)
    fdbstatus.assert_empty(EMPTY + "The cluster has no tenants\n", tenants=True)
    with pytest.raises(Refused, match=r"a reset left something behind[\s\S]*found: key \\x15\\x01a"):
        fdbstatus.assert_empty(EMPTY.rstrip() + "\n`\\x15\\x01a'\n\n", tenants=False)
    with pytest.raises(Refused, match=r"a reset left something behind[\s\S]*1\. mine"):
        fdbstatus.assert_empty(EMPTY + "1. mine\n", tenants=True)
    with pytest.raises(Refused, match="cannot be read"):
        fdbstatus.assert_empty("", tenants=False)


# -- plans


def planned(extra: str = "", engine: str = PLANNED) -> str:
    start, end = TEXT.index("[engine]"), TEXT.index("[harness]")
    return f"{TEXT[:start]}[engine]\n{engine}{extra}\n{TEXT[end:]}"


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (planned('authentication = "scram-sha-256"'), "engine", "has no authentication"),
        (planned(engine='kind = "foundationdb"\nversion = "7.3.77"\n'), "engine", "needs version and storage"),
        (planned(engine=PLANNED.replace("7.3.77", "7.3")), "engine.version", "such as 7.3.77"),
        (planned('settings = { fsync = "off" }'), "engine.settings.fsync", "no setting of foundationdb"),
        (planned('settings = { storage_engine = "ssd-1" }'), "engine.settings.storage_engine", "found 'ssd-1'"),
        (planned('settings = { tenant_mode = "required_experimental" }'), "engine.settings.tenant_mode", "expected"),
        (planned('settings = { knob_x = "1; kill all" }'), "engine.settings.knob_x", "expected"),
    ],
)
def test_plans_that_are_refused(text: str, path: str, message: str) -> None:
    found = {where: said for _, where, said in problems(text)}
    assert message in found[path]


def test_plans_that_are_taken() -> None:
    settings = 'knob_max_metrics = "10", tenant_mode = "disabled", memory = "4GiB"'
    assert parse(planned(f"settings = {{ {settings} }}")).engine.version == "7.3.77"
    assert engine_of().storage_engine == "memory"
    assert engine_of("disk").storage_engine == "ssd-2"
    assert engine_of("disk", storage_engine="memory").storage_engine == "memory"
    assert Engine(kind="none").storage_engine == ""


def test_a_fixture_and_a_relay_are_refused_in_the_plan() -> None:
    text = re.sub(r"\[network\][^[]*", '[network]\nkind = "loopback"\ndelay_us = 250\n\n', planned())
    assert [path for _, path, _ in problems(text)] == ["network.delay_us"]
    with_fixture = planned() + '\n[fixtures.f]\nwhat = "rows"\ntree = "TREE"\nargv = ["make"]\n'
    tree = re.search(r"^\[trees\.([^]]+)\]", TEXT, re.M)
    assert tree
    with_fixture = with_fixture.replace("TREE", tree[1]).replace("[phases.B]\n", '[phases.B]\nfixture = "f"\n', 1)
    assert [path for _, path, _ in problems(with_fixture)] == ["phases.B.fixture"]


# -- without the programs


@pytest.mark.skipif(INSTALLED, reason="FoundationDB is installed")
def test_check_and_seal_say_what_to_install(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.write(tmp_path, cache, engine=PLANNED, network="loopback")
    for command in ("check", "seal"):
        done = campaign.call(command)
        assert done.returncode == 1
        said = done.stdout + done.stderr
        assert "foundationdb-server, foundationdb-clients: FoundationDB 7.3.77 is not installed" in said
        assert "install foundationdb-server and foundationdb-clients 7.3.77" in said
        assert "Traceback" not in said
    assert not (campaign.folder / "seal.json").exists()


# -- stand-ins for processes: this is no FoundationDB

FAKE_SERVER = """#!/bin/sh
[ "$1" = --version ] && { echo "FoundationDB 7.3 (v7.3.77)"; exit 0; }
here=$(dirname "$0"); all=$*
while [ $# -gt 0 ]; do [ "$1" = -d ] && data=$2; shift; done
[ -e "$here/dies" ] && { echo "ERROR: made up"; exit 1; }
case $all in *knob_made_up*) echo "WARNING: Unrecognized knob option 'made_up'";; esac
if [ -e "$here/deaf" ]; then trap '' TERM; else trap 'echo ended > "$data/../ended"; exit 0' TERM; fi
echo $$ > "$data/pid"
while :; do sleep 0.05; done
"""
FAKE_CLI = """#!/bin/sh
[ "$1" = --version ] && { echo "FoundationDB CLI 7.3 (v7.3.77)"; exit 0; }
here=$(dirname "$0")
while [ $# -gt 0 ]; do [ "$1" = -C ] && file=$2; [ "$1" = --exec ] && said=$2; shift; done
kill -0 "$(cat "$(dirname "$file")/data/pid")" || { echo "Specified timeout reached -- exiting..."; exit 1; }
case $said in
  configure*) echo "Database created";;
  status*) cat "$here/status.json";;
  writemode*) echo; echo "Range limited to 1 keys"; cat "$here/left"; echo;;
esac
"""


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with both scripts, which any user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="stand-ins-"))
    folder.chmod(0o755)
    for name, text in (("fdbserver", FAKE_SERVER), ("fdbcli", FAKE_CLI)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "status.json").write_text(json.dumps(STATUS))
    (folder / "left").touch()
    monkeypatch.setattr(foundationdb, "SYSTEM_PATH", f"{folder}:{foundationdb.SYSTEM_PATH}")
    yield folder
    shutil.rmtree(folder)


@contextmanager
def started(ends: network.Ends = HERE, **settings: str) -> Iterator[tuple[foundationdb.FoundationDB, int]]:
    with foundationdb.running(engine_of(**settings), ends, CPU) as server:
        assert server._server is not None
        yield server, server._server.pid


def test_programs_of_another_version_are_refused(fakes: Path) -> None:
    assert foundationdb.identity(engine_of())["version"] == "FoundationDB 7.3 (v7.3.77)"
    with pytest.raises(Missing, match=r"not the planned version[\s\S]*found: FoundationDB 7.3 \(v7.3.77\)"):
        foundationdb.binaries("7.3.7")
    (fakes / "fdbcli").write_text(FAKE_CLI.replace("7.3.77", "7.1.61"))
    with pytest.raises(Missing, match="foundationdb-clients: this is not the planned version"):
        foundationdb.binaries("7.3.77")


@pytest.mark.parametrize(
    "kind",
    ["plain", *(pytest.param(k, marks=pytest.mark.skipif(not ROOT, reason="root")) for k in ("loopback", "veth"))],
)
def test_a_process_is_started_seen_to_crash_restarted_and_stopped(fakes: Path, kind: str) -> None:
    before = left_behind()
    with network.open_ends(plan_network(kind)) as opened, started(HERE if kind == "plain" else opened) as (server, pid):
        text = Path(server.environment["FDB_CLUSTER_FILE"]).read_text()
        address = "10.203.0.1:4500" if kind == "veth" else r"127.0.0.1:\d+"
        assert re.fullmatch(rf"benchbook:[0-9a-f]{{16}}@{address}\n", text)
        status = Path(f"/proc/{pid}/status").read_text()
        assert re.search(rf"^Cpus_allowed_list:\t{CPU}$", status, re.M)
        assert (re.search(r"^Uid:\t0\t", status, re.M) is None) == (kind != "plain" or not ROOT)
        server.reset()
        first = server.health()
        assert server.health() == first
        os.kill(pid, 9)
        wait_for(lambda: not alive(pid))
        for ask in (server.health, server.reset):
            with pytest.raises(Refused, match=r"the server ended[\s\S]*status -9"):
                ask()
        server.restart()
        server.reset()
        assert server.health()["started"] > first["started"]
        assert Path(server.environment["FDB_CLUSTER_FILE"]).read_text() == text
        assert server._server is not None
        last = server._server.pid
    assert not alive(last)
    assert server._server.returncode == 0  # it was asked, and not killed
    assert wait_for(lambda: nothing_new(before))


def plan_network(kind: str) -> network.Network:
    return network.Network(kind="none" if kind == "plain" else kind)  # type: ignore[arg-type]


def test_a_process_that_does_not_end_when_asked_is_killed(fakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foundationdb, "STOP_LIMIT_S", 0.2)
    (fakes / "deaf").touch()
    with started() as (server, pid):
        pass
    assert not alive(pid)
    assert server._server is not None
    assert server._server.returncode == -9


def test_starts_that_are_refused_leave_nothing(fakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = left_behind()
    with pytest.raises(Refused, match=r"does not take a setting[\s\S]*Unrecognized knob"), started(knob_made_up="1"):
        pytest.fail("started")
    with pytest.raises(Refused, match="storage_engine ssd-2"), started(storage_engine="ssd-2"):
        pytest.fail("started")
    monkeypatch.setattr(foundationdb, "START_LIMIT_S", 0.5)
    unavailable = changed("cluster", "recovery_state", "name", value="accepting_commits")
    (fakes / "status.json").write_text(json.dumps(unavailable))
    with pytest.raises(Refused, match=r"no database at rest[\s\S]*recovery accepting_commits"), started():
        pytest.fail("started")
    (fakes / "dies").touch()
    with pytest.raises(Refused, match=r"the server did not start[\s\S]*ended with status 1"), started():
        pytest.fail("started")
    assert wait_for(lambda: nothing_new(before))


def test_a_recovery_in_between_counts_as_a_restart_and_a_key_that_is_left_is_refused(fakes: Path) -> None:
    with started() as (server, _):
        before = server.health()
        (fakes / "status.json").write_text(json.dumps(changed("cluster", "generation", value=4)))
        assert server.health()["started"] == before["started"] + ", recovered to generation 4"
        (fakes / "left").write_text("`left'\n")
        with pytest.raises(Refused, match="found: key left"):
            server.reset()
        with pytest.raises(Refused, match="no fixtures"):
            server.keep_fixture()


def test_a_delay_that_clients_would_go_past_is_refused(fakes: Path) -> None:
    class Relayed(network.Ends):
        def reach(self, port: int) -> tuple[str, int]:
            return self.address, port + 1

    with pytest.raises(Refused, match="a relay cannot delay"), started(Relayed("loopback", "127.0.0.1", (), (), False)):
        pytest.fail("started")


# -- the page


def test_the_page_does_not_read_postgres_settings_into_it() -> None:
    assert limits.commit_words(engine_of("disk")) == "durable commits"
    memory = "commits that wait for storage which is memory and so not durable"
    assert limits.commit_words(engine_of()) == memory
    report = open_report(CAMPAIGN, "B")
    plan = with_phase(report.plan, "B", engine=PhaseEngine(storage="disk", settings={"knob_x": "1"}))
    rows = dict(page_design.engine_rows(plan.model_copy(update={"engine": engine_of()}), report.seal, "B"))
    assert rows["data folder"] == "disk (this phase alone; the plan's engine has memory)"
    assert rows["storage engine"] == "ssd-2 (this phase alone; the plan's engine has memory), single redundancy"
    assert rows["authentication"] == "none"
    assert rows["settings"] == ["knob_x = 1 (this phase alone; the plan's engine has the default)"]
