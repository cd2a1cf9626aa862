"""kill -9 of the runner at chosen and at random moments: the next `run` brings the campaign to its end by the plan's rules."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from runner import leftovers
from runner.errors import Refused
from runner.orders import Labels
from runner.store import Store
from runner.verify import verify
from tests import campaigns
from tests.campaigns import Campaign, alive, kill, rechained, wait_for

MOMENTS = [
    "event:block-start:1:after",
    "event:block-void:1:after",  # its replacement is not in the journal yet
    "event:run-start:1:torn",
    "event:run-start:1:after",
    "event:replacement:1:torn",
    "event:run-end:1:before",  # the record is whole, the journal does not know
    "event:run-end:1:after",  # the aggregate lacks its rows
    "event:run-start:2:before",  # between the runs of a block
    "event:run-end:2:torn",
    "event:block-end:1:before",
]
AT_THE_CLOSE = ["event:close:1:before", "event:close:1:torn", "event:close:1:after"]


def killed_at(campaign: Campaign, moment: str) -> None:
    runner = campaign.start("-m", "tests.faults.killer", moment, str(campaign.folder))
    _, errors = runner.communicate(timeout=60)
    assert runner.returncode == -9, f"{moment} never came: {errors}"


def unharmed(campaign: Campaign) -> None:
    """Whatever the moment: nothing is wrong with what lies there but a torn last line."""
    problems = verify(Store.open(campaign.folder)).problems
    assert [text for text in problems if "torn last line" not in text and "cut off" not in text] == []


def brought_to_its_end(campaign: Campaign, blocks: int, status: int = 0) -> None:
    """Run what is outstanding, and hold the whole record against the plan's rules."""
    done = campaign.call("run")
    assert done.returncode == status, done.stderr
    trace = Counter((entry["case"], entry["block"], entry["arm"]) for entry in campaign.trace())
    assert set(trace.values()) == {1}, "a run was executed twice"
    planned = {(e["case"], e["block"]): [] for e in campaign.orders()}
    for entry in campaign.orders():
        planned[entry["case"], entry["block"]].append(entry["arm"])
    void = {(e["case"], e["block"]): e for e in campaign.events("block-void")}
    assert len(void) == len(campaign.events("block-void"))
    replacements = {(e["case"], e["block"]): e for e in campaign.events("replacement")}
    started = [e["labels"] for e in campaign.events("run-start")]
    ended = [e["labels"] for e in campaign.events("run-end")]
    assert len({tuple(labels.items()) for labels in started}) == len(started)
    assert sorted(map(str, started)) == sorted(map(str, ended))
    for (case, number), event in replacements.items():
        assert number > blocks
        replaced = planned.get((case, event["replaces"]))
        planned[case, number] = [run["arm"] for run in event["runs"]]
        assert planned[case, number] == replaced, "a replacement has another order"
        assert (case, event["replaces"]) in void
    assert len({(e["case"], e["replaces"]) for e in replacements.values()}) == len(replacements)
    for case in {key[0] for key in planned}:
        whole = [key for key in planned if key[0] == case and key not in void]
        lost = [e for e in campaign.events("no-replacement") if e["case"] == case]
        assert len(whole) == blocks - len(lost)
        for key in whole:
            executed = [labels["arm"] for labels in started if (labels["case"], labels["block"]) == key]
            assert executed == planned[key]
            assert set(executed) == set(campaigns.ARMS[:2])
    for labels in started:
        assert campaign.run_folder(labels).is_dir(), "a void block's run is not kept"
    assert not list(campaign.folder.rglob("*.partial"))
    assert campaign.events()[-1]["event"] == "close"
    assert campaign.does("verify").stdout.rstrip().endswith("no problems")


def labels_hold(campaign: Campaign) -> None:
    done = campaign.python("-m", "analysis", "labels", str(campaign.folder))
    assert done.returncode == 0, done.stdout


def test_killed_while_a_process_is_at_work(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, faults="pause:*:1")
    campaign.does("seal")
    runner = campaign.start(*campaign.run_command())
    pid = int(wait_for(lambda: _text(campaign.trace_path.with_name("tiny.trace.paused"))))
    kill(runner)
    wait_for(lambda: not alive(pid))  # ended with the runner
    unharmed(campaign)
    assert "running           1" in campaign.does("status").stdout
    campaign.trace_path.with_name("tiny.trace.go").touch()
    first = campaign.orders()[0]
    brought_to_its_end(campaign, 2)
    record = campaign.record(first)
    assert record["outcome"] == "interrupted"
    assert b"rows: 10" in (campaign.run_folder(first) / "stdout.txt").read_bytes()
    [void] = campaign.events("block-void")
    assert (void["executed"], void["not_executed"]) == ([first["arm"]], [campaign.orders()[1]["arm"]])
    [replacement] = campaign.events("replacement")
    assert (replacement["replaces"], replacement["block"]) == (1, 3)
    assert campaign.trace()[-1]["block"] == 3
    status = campaign.does("status").stdout
    assert "interrupted       1" in status
    assert "void              1" in status


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_killed_at_every_kind_of_moment(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.write(tmp_path, cache, blocks=2, replacement_blocks=50)
    campaign.does("seal")
    for moment in MOMENTS:
        killed_at(campaign, moment)
        unharmed(campaign)
    for moment in AT_THE_CLOSE:
        killed_at(campaign, moment)
    brought_to_its_end(campaign, 2)
    labels_hold(campaign)
    assert len(campaign.events("torn-line")) == 4


def test_no_more_replacements_than_the_plan_allows(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, replacement_blocks=1)
    campaign.does("seal")
    for _ in range(2):
        killed_at(campaign, "event:run-start:1:after")
    brought_to_its_end(campaign, 2, status=1)
    [event] = campaign.events("no-replacement")
    assert event["reason"] == "the plan allows 1 for each case"
    assert "void and not replaced" not in campaign.call("run").stderr  # said once
    labels_hold(campaign)


def test_a_failure_stays_a_failure(tmp_path: Path, cache: Path) -> None:
    """Killed when the record of a failed run is whole and the journal lacks its end: it failed, it was not interrupted."""
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, faults="exit:*:*")
    campaign.does("seal")
    killed_at(campaign, "event:run-end:1:before")
    killed_at(campaign, "event:block-end:1:before")
    unharmed(campaign)  # no row of a failed run in the aggregate, not even meanwhile
    brought_to_its_end(campaign, 2, status=1)
    assert campaign.record(campaign.orders()[0])["outcome"] == "failed"
    assert campaign.events("run-end")[0]["outcome"] == "failed"
    assert campaign.events("run-end")[0]["recovered"] is True


@pytest.mark.parametrize("when", ["event:run-end:1:before", "event:run-end:1:after"])
def test_a_failed_run_is_never_repeated(tmp_path: Path, cache: Path, when: str) -> None:
    """Its block is void when the runner is killed before the block's other runs, and nothing replaces it."""
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, faults="exit:*:1")
    campaign.does("seal")
    killed_at(campaign, when)
    done = campaign.call("run")
    assert done.returncode == 1
    first, second = campaign.orders()[:2]
    why = f"it holds a failed run, which is never repeated: arm {first['arm']}"
    assert f"void and not replaced: phase T, case Load, block 1: {why}\n" in done.stderr
    [event] = campaign.events("no-replacement")
    assert (event["block"], event["reason"]) == (1, why)
    assert campaign.events("replacement") == []
    assert [(entry["block"], entry["arm"]) for entry in campaign.trace()] == [
        (entry["block"], entry["arm"]) for entry in campaign.orders() if entry != second
    ]
    ledger = Store.open(campaign.folder).ledger()
    assert ledger.reason(Labels(**first)).startswith("failed: exit status 1")
    assert ledger.reason(Labels(**second)) == "void block: the session ended between its runs"
    brought_to_its_end(campaign, 2, status=1)
    labels_hold(campaign)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("cause", ["runner-killed", "host-down"])
def test_only_what_the_plan_names_is_an_interruption(tmp_path: Path, cache: Path, cause: str, counted: bool) -> None:
    other = "host-down" if cause == "runner-killed" else "runner-killed"
    campaign = campaigns.write(
        tmp_path,
        cache,
        cases=campaigns.CASES[:1],
        blocks=2,
        interruptions=json.dumps([cause] if counted else [other]),
    )
    campaign.does("seal")
    killed_at(campaign, "event:run-start:1:after")
    if cause == "host-down":
        events = campaign.events()
        for event in events:
            if event["event"] == "session-start":
                event["boot_id"] = "another-boot"
        (campaign.folder / "journal.jsonl").write_bytes(rechained(events))
    brought_to_its_end(campaign, 2, status=0 if counted else 1)
    first = campaign.orders()[0]
    record = campaign.record(first)
    reason = f"{cause}: the runner ended before this run's record was written"
    if counted:
        assert (record["outcome"], record["reason"]) == ("interrupted", reason)
        assert [event["replaces"] for event in campaign.events("replacement")] == [1]
    else:
        reason += ", which the plan does not count as an interruption"
        assert (record["outcome"], record["reason"]) == ("failed", reason)
        [event] = campaign.events("no-replacement")
        assert event["reason"] == f"it holds a failed run, which is never repeated: arm {first['arm']}"
        assert Store.open(campaign.folder).ledger().reason(Labels(**first)) == f"failed: {reason}"
    assert campaign.events("run-end")[0]["outcome"] == record["outcome"]
    labels_hold(campaign)


def test_progress_goes_on_where_the_campaign_was(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=3)
    campaign.does("seal")
    killed_at(campaign, "event:run-start:4:after")
    errors = campaign.does("run").stderr
    assert "4 runs outstanding, 2 done in earlier sessions\n" in errors  # block 2 is void, and is executed again
    assert re.findall(r"  (\d/\d)(?:  about|$)", errors, re.M) == ["2/6", "3/6", "4/6", "5/6"]
    first = next(line for line in errors.splitlines() if line.endswith("  2/6"))
    assert "left" not in first  # nothing is known yet of this session's pace
    assert re.search(r"^4 of 4 runs in 0:00:\d\d; 0 failed$", errors, re.M)


@pytest.mark.parametrize("when", ["event:run-end:1:before", "event:run-end:1:after"])
def test_a_phase_that_must_stop_does_so_after_an_interruption(tmp_path: Path, cache: Path, when: str) -> None:
    campaign = campaigns.write(tmp_path, cache, blocks=2, faults="wrong:*:1", wrong_answer="stop-phase")
    campaign.does("seal")
    killed_at(campaign, when)
    done = campaign.call("run")
    assert done.returncode == 1
    assert "phase T stopped, by the plan's rule" in done.stderr
    assert len(campaign.trace()) == 1
    assert campaign.events("block-void") == []
    campaign.does("verify")


def random_moments(campaign: Campaign, generator: random.Random, tries: int, longest_s: float) -> int:
    killed = 0
    for _ in range(tries):
        runner = campaign.start(*campaign.run_command())
        time.sleep(generator.uniform(0, longest_s))
        killed += runner.poll() is None
        kill(runner)
        unharmed(campaign)
        assert not [entry for entry in campaign.trace() if alive(entry["pid"])]
        if any(event["event"] == "close" for event in campaign.events()):
            break
    return killed


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path, cache: Path) -> None:
    generator, killed, number = random.Random(20261130), 0, 0
    while killed < 25:
        number += 1
        campaign = campaigns.write(tmp_path, cache, name=f"tiny-{number}", blocks=6, replacement_blocks=100)
        campaign.does("seal")
        killed += random_moments(campaign, generator, 25 - killed, longest_s=3.0)
        brought_to_its_end(campaign, 6)
        labels_hold(campaign)


@pytest.mark.slow
def test_killed_at_every_durable_step(tmp_path: Path, cache: Path) -> None:
    """Around every fsync, rename and process of a session, until one comes to its end."""
    campaign = campaigns.write(tmp_path, cache, blocks=2, replacement_blocks=100)
    campaign.does("seal")
    number = 0
    while True:
        number += 1
        runner = campaign.start("-m", "tests.faults.killer", f"call:{number}", str(campaign.folder))
        _, errors = runner.communicate(timeout=60)
        if runner.returncode != -9:
            break
        if not campaign.events("close"):
            unharmed(campaign)
        assert number < 400
    assert runner.returncode in (0, 1), errors
    assert number > 60
    brought_to_its_end(campaign, 2, status=runner.returncode)


def test_a_process_that_outlived_its_runner_is_ended_before_its_run_is_recorded(tmp_path: Path, cache: Path) -> None:
    """Killed before its process has asked to be ended with it: the next session ends it, and records what it wrote."""
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2)
    campaign.does("seal")
    killed_at(campaign, "event:run-start:1:after")
    first = campaign.orders()[0]
    partial = campaign.run_folder(first).with_name(f"{campaign.run_folder(first).name}.partial")
    partial.mkdir(parents=True)
    with (partial / "stdout.txt").open(
        "xb"
    ) as out:  # as it would have been started, without the wish to end with the runner
        orphan = subprocess.Popen(
            [sys.executable, "-c", "import time\nwhile True: print('at work', flush=True); time.sleep(0.01)"],
            stdout=out,
            start_new_session=True,
        )
    try:
        wait_for(lambda: (partial / "stdout.txt").read_bytes())
        done = campaign.does("run")
        assert f"process {orphan.pid} of an earlier session was still at work" in done.stderr
        assert orphan.wait(timeout=10) == -9
    finally:
        orphan.kill()
        orphan.wait()
    assert campaign.record(first)["outcome"] == "interrupted"
    assert (campaign.run_folder(first) / "stdout.txt").read_bytes().startswith(b"at work\n")
    brought_to_its_end(campaign, 2)


@pytest.mark.parametrize(("mode", "harms"), [("rb", False), ("ab", True)])
def test_who_only_reads_a_record_is_let_be(tmp_path: Path, mode: str, harms: bool) -> None:
    """A process has a file of an interrupted run open: ended when it could write there, let be when it only reads."""
    path = tmp_path / "stdout.txt"
    path.touch()
    with path.open(mode) as file:
        process = subprocess.Popen(["sleep", "60"], stdin=file, start_new_session=True)
    try:
        assert leftovers.end(tmp_path) == [process.pid] * harms
        assert (process.poll() is None) is not harms
    finally:
        process.kill()
        process.wait()


def test_a_process_that_cannot_be_ended_stops_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of an earlier session that does not end: refused with its number, since it would write into the record."""
    monkeypatch.setattr(leftovers, "LIMIT_S", 0.05)
    monkeypatch.setattr(leftovers, "_end", lambda _: None)
    with (tmp_path / "stdout.txt").open("xb") as out:
        orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=out)
    try:
        with pytest.raises(Refused, match=rf"still write here[\s\S]*found: {orphan.pid}\n"):
            leftovers.end(tmp_path)
    finally:
        orphan.kill()
        orphan.wait()
    assert leftovers.end(tmp_path) == []
