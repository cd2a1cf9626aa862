"""The wall clock is set back while a campaign is under way: order and durations do not hang on it, and `verify` says so."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runner.clock import notes, steps_back
from tests import campaigns

STEP = """
from datetime import datetime, timedelta
from runner import __main__ as command, journal
readings = 0
class Stepped(datetime):
    @classmethod
    def now(cls, zone=None):
        global readings
        readings += 1
        return datetime.now(zone) - timedelta(hours=1) * (readings > 12)
journal.datetime = Stepped
command.main(["run", {campaign!r}])
"""


def test_a_clock_that_steps_back_during_a_session(tmp_path: Path, cache: Path) -> None:
    """The wall clock goes back by an hour between two events: the campaign ends well, no duration is negative, verify notes it."""
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=3)
    campaign.does("seal")
    done = campaign.python("-c", STEP.format(campaign=str(campaign.folder)))
    assert done.returncode == 0, done.stderr
    events = campaign.events()
    times = [datetime.fromisoformat(event["time"]) for event in events]
    assert min(b - a for a, b in pairwise(times)) < -timedelta(minutes=59)
    assert [event["number"] for event in events] == list(range(1, len(events) + 1))
    monotonic = [event["monotonic_ns"] for event in events]
    assert monotonic == sorted(monotonic)
    for labels in campaign.orders():
        record = campaign.record(labels)
        assert record["outcome"] == "ok"
        assert min(record["durations_ns"].values()) >= 0 < record["process"]["wall_ns"]
    assert all(0 <= event["waited_ns"] <= event["wall_ns"] < 60e9 for event in campaign.events("block-end"))
    said = campaign.does("verify").stdout
    [note] = [line for line in said.splitlines() if "clock" in line]
    assert note.startswith("note: journal.jsonl:")
    assert "warning: the wall clock went back by 3600" in note
    times_shown = campaign.python("-m", "analysis", "times", str(campaign.folder), "--phase", "T")
    assert times_shown.returncode == 0 and "-" not in times_shown.stdout.split("processes")[-1].splitlines()[0]


def test_a_clock_that_steps_back_between_sessions(tmp_path: Path, cache: Path) -> None:
    """The second session's clock is behind the first one's: it goes on where the first one stopped, and verify notes it."""
    campaign = campaigns.write(
        tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, busy_block="refuse", calibration_ratio=0.001
    )
    campaign.does("seal")
    assert (
        campaign.call("run").returncode == 1
    )  # no host is a thousand times as fast as a moment ago: refused before the first block
    done = campaign.python("-c", STEP.format(campaign=str(campaign.folder)).replace("> 12", "> 0"))
    assert done.returncode == 1, done.stderr
    said = campaign.does("verify").stdout
    assert said.count("warning: the wall clock went back by") == 1


def event(number: int, time: str, monotonic_s: float, kind: str = "run-end") -> dict[str, Any]:
    return {
        "number": number,
        "time": f"2026-01-01T{time}+00:00",
        "monotonic_ns": round(monotonic_s * 1e9),
        "event": kind,
    }


@pytest.mark.parametrize(
    ("second", "step_s"),
    [
        (event(2, "10:00:09", 19), None),
        (event(2, "10:00:08.5", 19), None),  # within what a time service does
        (event(2, "10:00:05", 19), 4.0),  # later than the first, and yet the clock was set back
        (event(2, "11:00:00", 19), None),  # forward
        (event(2, "09:00:00", 19, "session-start"), 3600.0),
        (event(2, "10:00:01", 5000, "session-start"), None),  # another boot: its monotonic clock says nothing
        (event(2, "10:00:09", 1), None),
        ({"number": 2, "event": "run-end", "time": "yesterday", "monotonic_ns": 1}, None),
    ],
)
def test_what_counts_as_a_step(second: dict[str, Any], step_s: float | None) -> None:
    """Two lines of a journal, the second one by a clock that was set back or was not: found by both clocks together."""
    found = steps_back([event(1, "10:00:00", 10), second])
    assert [step for *_, step in found] == ([] if step_s is None else [pytest.approx(step_s)])
    assert len(notes([event(1, "10:00:00", 10), second])) == len(found)
