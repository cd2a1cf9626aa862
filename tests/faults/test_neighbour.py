"""A busy neighbour: a real process that spins on the CPU of the benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import campaigns
from tests.campaigns import wait_for
from tests.faults.left import nothing_left


@contextmanager
def neighbours() -> Iterator[None]:
    """Three spinning processes on the client's CPU and one on each of the others, until the end."""
    spin = "import os, sys\nos.sched_setaffinity(0, [int(sys.argv[1])])\nprint(flush=True)\nwhile True: pass"
    cpus = sorted(os.sched_getaffinity(0))
    argv = [sys.executable, "-c", spin]
    started = [subprocess.Popen([*argv, str(cpu)], stdout=subprocess.PIPE) for cpu in [*cpus, cpus[-1], cpus[-1]]]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("rule", ["mark", "refuse"])
def test_a_neighbour_that_comes_during_a_session(tmp_path: Path, cache: Path, rule: str) -> None:
    """A neighbour comes while block 1 is at work: block 2 is marked, or refused, by the plan's rule; the runs record their wait."""
    campaign = campaigns.write(
        tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, busy_block=rule, quiet_wait_s=3, idle_load=0.95,
        faults="pause:*:1",
    )  # fmt: skip
    campaign.does("seal")
    with nothing_left(campaign):
        runner = campaign.start(*campaign.run_command())
        wait_for(lambda: campaign.trace_path.with_name("tiny.trace.paused").exists() or runner.poll() is not None)
        if runner.poll() is not None:
            assert "the host was busy" in runner.communicate()[1]
            pytest.skip("this machine is too busy for a first block without a neighbour")
        with neighbours():
            campaign.trace_path.with_name("tiny.trace.go").touch()
            _, errors = runner.communicate(timeout=120)
    starts = campaign.events("block-start")
    if rule == "mark":
        assert runner.returncode == 0, errors
        assert starts[1]["marked"] is True
        assert starts[1]["idle_load"] > 0.95
        for labels in campaign.orders():
            record = campaign.record(labels)
            assert record["outcome"] == "ok"
            if labels["block"] == 2:
                assert record["schedstat"]["wait_ns"] > 0.5 * record["schedstat"]["run_ns"]
                assert any(check["check"] == "calibration_ratio" for check in record["checks"])
    else:
        assert runner.returncode == 1
        assert "block 2: the host was busy for 3 s" in errors
        assert "what to do: quiet the host" in errors
        assert (len(starts), len(campaign.trace())) == (1, 2)
        assert campaign.events()[-1]["reason"].startswith("Refused: ")
        campaign.does("run")  # the neighbour is gone
    campaign.does("verify")
