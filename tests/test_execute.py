"""The runner on tiny but real campaigns: order, records, refusals, failures. Everything through the command line."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner import execute, planfile
from tests import campaigns
from tests.campaigns import Campaign, alive
from tests.conftest import SECRET
from tests.harness.tiny import made_up

RESULT = re.compile(r"^Benchmark(\S+) (\d+) (\S+) (\S+)$", re.M)


def place(entry: dict[str, Any]) -> tuple[str, int, str]:
    return entry["case"], entry["block"], entry["arm"]


# -- a campaign that nothing disturbs


def test_processes_run_in_the_sealed_order_each_a_fresh_one(closed: Campaign) -> None:
    trace, orders = closed.trace(), closed.orders()
    assert [place(entry) for entry in trace] == [place(entry) for entry in orders]
    assert len({entry["pid"] for entry in trace}) == len(orders) == 18
    blocks = Counter((entry["case"], entry["block"]) for entry in trace)
    assert set(blocks.values()) == {3}
    for key in blocks:
        assert sorted(e["arm"] for e in trace if (e["case"], e["block"]) == key) == sorted(campaigns.ARMS)
    assert {tuple(entry["cpus"]) for entry in trace} == {(max(os.sched_getaffinity(0)),)}


def test_a_process_gets_the_environment_of_the_plan_and_nothing_else(closed: Campaign) -> None:
    names = {tuple(entry["environment"]) for entry in closed.trace()}
    assert names == {("LANG", "PATH", "PYTHONDONTWRITEBYTECODE", "TRACE", "TZ")}


def test_every_run_records_what_it_must(closed: Campaign) -> None:
    seal = hashlib.sha256((closed.folder / "seal.json").read_bytes()).hexdigest()
    cpus = {str(cpu) for cpu in range(os.cpu_count() or 1)}
    for labels in closed.orders():
        record = closed.record(labels)
        assert record["labels"] == labels
        assert record["seal"] == seal
        assert (record["outcome"], record["reason"]) == ("ok", None)
        assert record["argv"][:3] == ["{python}", "-B", "{harness}/tiny.py"]
        assert record["argv"][record["argv"].index("--case") + 1] == labels["case"]
        assert set(record["environment"]) == {"LANG", "PATH", "PYTHONDONTWRITEBYTECODE", "TRACE", "TZ"}
        last = max(os.sched_getaffinity(0))
        assert record["cpus"] == {"planned": str(last), "allowed": str(last), "last": last}
        harness = hashlib.sha256((closed.folder / "harness" / "tiny.py").read_bytes()).hexdigest()
        assert record["digests"]["harness/tiny.py"] == harness
        assert re.fullmatch("[0-9a-f]{64}", record["digests"]["tree"])
        assert record["process"]["exit_status"] == 0
        assert 0 < record["rusage"]["utime"] + record["rusage"]["stime"] < 60
        assert record["rusage"]["maxrss"] > 1000
        assert 0 < record["schedstat"]["run_ns"] <= record["process"]["wall_ns"] * 1.1
        assert all(len(record["calibration"][key]) == 5 for key in ("before_ns", "after_ns"))
        for counters in record["counters"].values():
            assert set(counters["cpu_ticks"]) == cpus
            assert all(len(ticks) == 8 for ticks in counters["cpu_ticks"].values())  # the eighth is steal
            assert {"swap_pages", "oom_kills", "throttled_periods", "load_average"} <= set(counters)
        assert record["engine"] == {"before": {}, "after": {}}
        assert record["covariates"] == {"rows": "10"}
        assert record["started"] < record["ended"]
        checks = {check["check"]: check for check in record["checks"]}
        assert set(checks) >= {"calibration_ratio", "steal_share", "oom_kills"}
        pinning = {"check": "cpus_beyond_plan", "value": 0, "limit": 0, "holds": True}
        assert checks["cpus_beyond_plan"] == pinning
    assert not re.search(
        rb'"(argv|python|tree)": "?/', (closed.run_folder(closed.orders()[0]) / "run.json").read_bytes()
    )


def test_metrics_are_the_raw_logs(closed: Campaign) -> None:
    with (closed.folder / "metrics.csv").open(newline="") as file:
        found = [tuple(row.values()) for row in csv.DictReader(file)]
    expected = []
    for labels in closed.orders():
        seen: Counter[str] = Counter()
        for name, iterations, value, unit in RESULT.findall((closed.run_folder(labels) / "stdout.txt").read_text()):
            assert name == labels["case"]
            keys = ("phase", "case", "arm", "block", "position", "sequence")
            expected.append((*(str(labels[key]) for key in keys), str(seen[unit]), unit, value, iterations))
            seen[unit] += 1
        assert seen == {"ns/op": 2, "B/op": 1}
    assert found == expected
    one = next(row for row in found if row[:4] == ("T", "Scan/serial", "two", "2") and row[6:8] == ("1", "ns/op"))
    assert float(one[8]) == made_up("Scan/serial", "two", 2, 1)


def test_the_journal_closes_and_its_chain_holds(closed: Campaign) -> None:
    data = (closed.folder / "journal.jsonl").read_bytes()
    assert data.endswith(b"\n")
    previous = "0" * 64
    for number, line in enumerate(data.splitlines(), start=1):
        event = json.loads(line)
        assert (event["number"], event["previous"]) == (number, previous)
        previous = hashlib.sha256(line).hexdigest()
    assert closed.events()[-1]["event"] == "close"
    assert closed.events()[-1]["counts"]["ok"] == 18


def test_sha256sum_accepts_the_manifest(closed: Campaign) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "MANIFEST.sha256"],
        cwd=closed.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    listed = {line.split("  ", 1)[1] for line in (closed.folder / "MANIFEST.sha256").read_text().splitlines()}
    there = {path.relative_to(closed.folder).as_posix() for path in closed.folder.rglob("*") if path.is_file()}
    assert there - listed == {"MANIFEST.sha256"}


def test_no_secret_of_the_runners_environment_is_in_the_folder(closed: Campaign) -> None:
    for path in closed.folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert SECRET.encode() not in data, path
            assert b"USER_SECRET" not in data, path


def test_the_parts_of_the_time_add_up_to_the_wall_time(closed: Campaign) -> None:
    wall = sum(event["wall_ns"] for event in closed.events("block-end"))
    waited = sum(event["waited_ns"] for event in closed.events("block-end"))
    parts: Counter[str] = Counter()
    for labels in closed.orders():
        parts.update(closed.record(labels)["durations_ns"])
    accounted = waited + parts.total()
    # What no record can hold is its own writing and the journal's; it is part of the runner's remainder.
    assert 0.6 * wall < accounted < wall
    done = closed.python("-m", "analysis", "times", str(closed.folder), "--phase", "T")
    assert done.returncode == 0, done.stderr
    shown = {line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines()[:5]}
    assert sum(shown.values()) == pytest.approx(wall / 1e9, abs=0.05)
    assert shown["processes"] == pytest.approx(parts["process"] / 1e9, abs=0.01)
    assert shown["runner"] == pytest.approx((wall - accounted + parts["identity"] + parts["record"]) / 1e9, abs=0.02)


def test_a_closed_campaign_stays_as_it_is(closed: Campaign, tmp_path: Path) -> None:
    copy = closed.copy(tmp_path)
    before = {path: path.read_bytes() for path in copy.folder.rglob("*") if path.is_file()}
    done = copy.does("run")
    assert "nothing is outstanding" in done.stderr
    assert {path: path.read_bytes() for path in copy.folder.rglob("*") if path.is_file()} == before
    done = copy.call("close")
    assert (done.returncode, "closed already" in done.stderr) == (1, True)


def test_every_start_of_a_run_is_one_line(tmp_path: Path, cache: Path) -> None:
    """Where standard error is no terminal; how far the whole campaign is."""
    campaign = campaigns.write(tmp_path, cache, blocks=2)
    campaign.does("seal")
    errors = campaign.does("run").stderr
    shown = re.findall(r"^phase (\S+)  block (\d+)  (\S+)  (\S+)  (\d+/8)(  about 0:00:\d\d left)?$", errors, re.M)
    assert [(case, int(block), arm) for _, block, case, arm, _, _ in shown] == [
        place(entry) for entry in campaign.orders()
    ]
    assert [done for *_, done, _ in shown] == [f"{number}/8" for number in range(8)]
    assert [bool(left) for *_, left in shown] == [False] + [True] * 7


class Host:
    """A host whose ticks are made up, one reading after the other."""

    def __init__(self, *readings: int) -> None:
        self.readings = list(readings)  # busy ticks so far; as many are idle

    def ticks(self) -> dict[str, list[int]]:
        busy = self.readings.pop(0)
        cpus = range((max(os.sched_getaffinity(0))) + 1)
        return {str(cpu): [busy, 0, 0, busy, 0, 0, 0, 0] for cpu in cpus}


@pytest.mark.parametrize(
    ("readings", "load", "holds", "left"),
    [
        ((0, 5), 0.5, True, 0),
        ((0, 0, 0, 5, 9), 0.5, True, 1),  # asked again until a tick passed
        ((3, 3, 3, 3, 3, 9), None, False, 1),  # and not for ever: a load that is not known does not hold
    ],
)
def test_the_load_before_a_block(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    readings: tuple[int, ...],
    load: float | None,
    holds: bool,
    left: int,
) -> None:
    made_up_host = Host(*readings)
    monkeypatch.setattr(execute.host, "cpu_ticks", made_up_host.ticks)
    monkeypatch.setattr(execute, "QUIET_SAMPLE_S", 0)
    plan = planfile.load(campaigns.write(tmp_path, tmp_path).folder / "plan.toml")
    context: Any = SimpleNamespace(plan=plan, baseline_ns=10.0**12)
    quiet = execute.look(context)
    assert (quiet.idle_load, quiet.holds, len(made_up_host.readings)) == (load, holds, left)
    assert quiet.load_words(".0%") == ("unknown" if load is None else "50%")


# -- runs that fail


FAILURES = {
    ("one", 1): ("exit", r"exit status 1; stderr ends: the last words of module\.py"),
    ("two", 1): ("wrong", r"wrong answer: by exit status alone; stderr ends: read 9 rows, expected 10"),
    ("three", 1): ("hang", r"time limit: still at work after 1.5 s"),
    ("one", 2): ("malformed", r"stdout\.txt:\d+: malformed: expected a finite number for ns/op, found 'fast'"),
    ("two", 2): ("silent", r"stdout\.txt: no result"),
    ("three", 2): ("kill", r"ended by SIGKILL"),
    ("one", 3): ("allocate", r"exit status 1; stderr ends: MemoryError"),
    ("two", 3): ("cut", r"stdout\.txt:\d+: malformed: the log ends in the middle of a line"),
    ("three", 3): ("hang-child", r"time limit: still at work after 1.5 s"),
    ("one", 4): ("foreign", r"stdout\.txt:\d+: a result of 'LoadOther' in a run of case 'Load'"),
    ("three", 4): ("realtime", r"ended by signal 35"),
}


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> tuple[Campaign, str]:
    faults = " ".join(f"{kind}:{arm}:{block}" for (arm, block), (kind, _) in FAILURES.items())
    campaign = campaigns.write(
        tmp_path_factory.mktemp("failures"),
        cache,
        blocks=5,
        arms=campaigns.ARMS,
        cases=campaigns.CASES[:1],
        faults=f"{faults} child:two:4 escape:two:5",
        run_limit_s=1.5,
    )
    campaign.does("seal")
    done = campaign.call("run")
    assert done.returncode == 1, done.stderr
    return campaign, done.stderr


def test_each_failure_is_recorded_with_its_reason_and_the_others_go_on(failures: tuple[Campaign, str]) -> None:
    campaign, errors = failures
    assert [place(entry) for entry in campaign.trace()] == [place(entry) for entry in campaign.orders()]
    for labels in campaign.orders():
        record = campaign.record(labels)
        kind, reason = FAILURES.get((labels["arm"], labels["block"]), ("", ""))
        if kind:
            assert record["outcome"] == "failed"
            assert re.match(reason, record["reason"]), (kind, record["reason"])
            where = f"failed: phase T, case Load, block {labels['block']}, arm {labels['arm']}: "
            shown = re.split("[:;]", record["reason"])[0].replace("stdout.txt", "its stdout.txt cannot be used")
            assert f"{where}{shown}; see {campaign.run_folder(labels) / 'run.json'}\n" in errors
        else:
            assert (record["outcome"], record["reason"]) == ("ok", None), labels
    assert not re.search("9 rows|fast|last words|MemoryError|1\\.5 s", errors)  # nothing that a run measured or printed
    assert f"15 of 15 runs in 0:00:{errors.rpartition('in 0:00:')[2][:2]}; 11 failed" in errors


def test_no_value_of_a_failed_run_is_in_the_aggregate(failures: tuple[Campaign, str]) -> None:
    campaign, _ = failures
    with (campaign.folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == (15 - 11) * 3
    there = {(row["arm"], int(row["block"])) for row in rows if row["case"] == "Load"}
    assert not there & set(FAILURES)


def test_a_campaign_with_failures_closes_and_verifies(failures: tuple[Campaign, str]) -> None:
    campaign, _ = failures
    assert campaign.events()[-1]["counts"] | {"failed": 11, "ok": 4} == campaign.events()[-1]["counts"]
    assert campaign.does("verify").stdout.rstrip().endswith("no problems")
    assert campaign.call("run").returncode == 1  # the failures stay
    assert len(campaign.trace()) == 15
    labels = campaign.python("-m", "analysis", "labels", str(campaign.folder))
    assert labels.returncode == 0, labels.stdout


def test_nothing_outlives_a_run(failures: tuple[Campaign, str]) -> None:
    campaign, _ = failures
    children = sorted(campaign.trace_path.parent.glob("*.child-*"))
    assert [path.name.rpartition(".child-")[2] for path in children] == ["three-3", "two-4", "two-5"]
    for pid in [int(path.read_text()) for path in children] + [entry["pid"] for entry in campaign.trace()]:
        assert not alive(pid)


def test_a_wrong_answer_stops_the_phase_where_the_plan_says_so(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.write(tmp_path, cache, blocks=2, faults="wrong:one:1", wrong_answer="stop-phase")
    campaign.does("seal")
    done = campaign.call("run")
    assert done.returncode == 1
    assert "phase T stopped, by the plan's rule" in done.stderr
    trace = campaign.trace()
    assert trace[-1]["arm"] == "one"
    assert len(trace) == campaign.orders().index(next(e for e in campaign.orders() if e["arm"] == "one")) + 1
    status = campaign.does("status").stdout
    assert "phase T stopped: phase T, case Load, block 1, arm one: wrong answer\n" in status
    assert f"stopped      {8 - len(trace):>6}" in status
    assert campaign.events()[-1]["event"] == "close"
    campaign.does("verify")
    assert campaign.call("run").returncode == 1
    assert campaign.trace() == trace
