"""What a benchmark starts ends with it, however it hides, and nothing of a session outlives the runner, not even kill -9."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner import containment, host, keeper
from tests import campaigns
from tests.campaigns import Campaign, alive, kill, wait_for
from tests.faults.left import nothing_left

PROJECT = Path(__file__).resolve().parents[2]
GROUP = containment.available() == containment.GROUP
needs_group = pytest.mark.skipif(
    not GROUP, reason="no control group (cgroup v2) can be made here: no root, or no cgroup v2"
)


def beside(campaign: Campaign, name: str) -> Path:
    return campaign.trace_path.with_name(f"{campaign.trace_path.name}.{name}")


def one_case(tmp_path: Path, cache: Path, **settings: object) -> Campaign:
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, **settings)  # type: ignore[arg-type]
    campaign.does("seal")
    return campaign


def paused(campaign: Campaign, runner: subprocess.Popen[str]) -> list[int]:
    """Wait until the first process has hidden a child and waits: the numbers of the hidden one, and of one in its group."""
    wait_for(lambda: beside(campaign, "paused").exists() or runner.poll() is not None)
    assert runner.poll() is None
    return [int(path.read_text()) for path in campaign.trace_path.parent.glob("*.child-*")]


@pytest.mark.parametrize("how", ["runner", pytest.param("runner and keeper", marks=needs_group)])
def test_kill_of_the_runner_ends_also_what_hid_from_it(tmp_path: Path, cache: Path, how: str) -> None:
    """kill -9 of the runner (and its keeper) while a process has a double-forked child: ended at once, or by the next session."""
    campaign = one_case(tmp_path, cache, faults="daemon-pause:*:1")
    with nothing_left(campaign):
        runner = campaign.start(*campaign.run_command())
        hidden = paused(campaign, runner)
        assert len(hidden) == 2
        try:
            if how == "runner and keeper":
                [pid] = [pid for pid in children(runner.pid) if "keeper.py" in Path(f"/proc/{pid}/cmdline").read_text()]
                os.kill(pid, 9)
        finally:
            kill(runner)
        beside(campaign, "go").touch()
        if not GROUP:  # what left the process group stays, as the limits say; what did not ends
            group = int(beside(campaign, "child-group").read_text())
            for pid in set(hidden) - {group}:
                os.kill(pid, 9)
        if how == "runner":
            wait_for(lambda: not any(alive(pid) for pid in hidden), 5)
        done = campaign.call("run")
        assert done.returncode == 0, done.stderr
        assert not any(alive(pid) for pid in hidden)
        assert [event["containment"] for event in campaign.events("session-start")] == [containment.available()] * 2
        assert campaign.record(campaign.orders()[0])["outcome"] == "interrupted"
        campaign.does("verify")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_without_a_control_group_the_process_group_is_ended(tmp_path: Path, cache: Path) -> None:
    """kill -9 of a runner that can make no control group: what stayed in the process's group ends; the record says so."""
    campaign = one_case(tmp_path, cache, faults="daemon-pause:*:1")
    code = f"""
from runner import __main__ as command, containment
containment.own_group = lambda: None
command.main(["run", {str(campaign.folder)!r}])
"""
    runner = campaign.start("-c", code)
    hidden = paused(campaign, runner)
    group = int(beside(campaign, "child-group").read_text())
    assert children(runner.pid)
    kill(runner)
    wait_for(lambda: not alive(group), 5)
    for pid in hidden:
        if alive(pid):
            os.kill(pid, 9)  # this is what the limits page says: what left the group stays
    assert campaign.events("session-start")[0]["containment"] == "process group"


@pytest.mark.parametrize("fault", ["daemon-hang", "stop", "hang-child"])
def test_a_hung_process_ends_at_its_limit_with_all_it_started(tmp_path: Path, cache: Path, fault: str) -> None:
    """A process that ignores SIGTERM and hides a child, one that is stopped, one with a child: failed by its time limit."""
    campaign = one_case(tmp_path, cache, faults=f"{fault}:one:1", run_limit_s=1.0)
    with nothing_left(campaign):
        begun = time.monotonic()
        done = campaign.call("run")
        assert time.monotonic() - begun < 30
        assert done.returncode == 1, done.stderr
        [failed] = [labels for labels in campaign.orders() if (labels["arm"], labels["block"]) == ("one", 1)]
        record = campaign.record(failed)
        assert (record["outcome"], record["reason"]) == ("failed", "time limit: still at work after 1 s")
        assert len(campaign.trace()) == 4
        for path in campaign.trace_path.parent.glob("*.child-*"):
            assert not alive(int(path.read_text()))
        campaign.does("verify")


def test_what_left_session_and_parent_ends_with_its_run(tmp_path: Path, cache: Path) -> None:
    """A process ends well and leaves a double-forked child in a session of its own: ended before the next run begins."""
    campaign = one_case(tmp_path, cache, faults="daemon:one:1")
    with nothing_left(campaign):
        campaign.does("run")
        [path] = campaign.trace_path.parent.glob("*.child-*")
        assert not alive(int(path.read_text()))


@needs_group
def test_a_control_group_disturbs_no_accounting(tmp_path: Path, cache: Path) -> None:
    """Numbers of processes, CPUs, schedstat and rusage inside a control group are those of the process that was started."""
    campaign = one_case(tmp_path, cache)
    campaign.does("run")
    for entry in campaign.trace():
        record = campaign.record(
            next(o for o in campaign.orders() if (o["arm"], o["block"]) == (entry["arm"], entry["block"]))
        )
        assert record["cpus"]["allowed"] == record["cpus"]["planned"]
        used_ns = (record["rusage"]["utime"] + record["rusage"]["stime"]) * 1e9
        assert 0 < record["schedstat"]["run_ns"] <= record["process"]["wall_ns"]
        assert used_ns == pytest.approx(record["schedstat"]["run_ns"], rel=0.3, abs=2e7)
        assert record["counters"]["before"]["group_oom_kills"] in (0, None) or isinstance(
            record["counters"]["before"]["group_oom_kills"], int
        )


@needs_group
def test_a_group_of_another_runner_at_work_is_not_swept(tmp_path: Path) -> None:
    """A session begins while another campaign's runner is at work: its control group and processes are left alone."""
    code = "from runner import containment\nwith containment.session():\n    print('in', flush=True)\n    input()"
    other = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=campaigns.PROJECT
    )
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == "in\n"
        assert containment.sweep() == []
        assert other.poll() is None
        _, _ = other.communicate("\n", timeout=20)
        assert other.returncode == 0
    finally:
        other.kill()
        other.wait()


@needs_group
def test_each_process_of_a_group_is_ended_where_the_kernel_cannot_end_it_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel before 5.14 has no cgroup.kill: one process after the other is ended, and the group goes."""
    group = containment.own_group()
    assert group is not None
    folder = group / f"{containment.PREFIX}0-test"
    (folder / "below").mkdir(parents=True)
    sleeper = subprocess.Popen(["sleep", "600"])
    (folder / "below" / "cgroup.procs").write_text(str(sleeper.pid))
    keeper._kill_each(folder)
    assert sleeper.wait(timeout=5) == -9
    assert keeper.end_all(folder)
    assert not folder.exists()


def test_the_host_says_what_holds_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No control group can be made: the record of the host says so, and `check` warns before a campaign begins."""
    assert (containment.warnings() == []) == GROUP
    monkeypatch.setattr(containment, "own_group", lambda: None)
    assert host.observe("x")["details"]["containment"] == containment.NO_GROUP
    assert "can outlive a runner that is killed" in containment.warnings()[0]
    monkeypatch.undo()
    assert host.observe("x")["details"]["containment"] in (containment.GROUP, containment.NO_GROUP)


@needs_group
def test_a_runner_that_cannot_leave_its_group_is_not_ended_with_it() -> None:
    """The control group cannot be left at the end of a session: what is in it is ended, and the runner goes on."""
    script = """
import os, subprocess
from runner import containment
join = containment._join
parents = [containment.own_group()]

def refused(folder):
    if folder in parents and len(parents) > 1:
        raise OSError(16, "busy")
    join(folder)

with containment.session():
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    parents.append(None)
    containment._join = refused
print(child.wait(), os.getpid())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    status, pid = done.stdout.split()
    assert status == "-9"
    containment.sweep()
    group = containment.own_group()
    assert group and not list(group.glob(f"{containment.PREFIX}{pid}-*"))
