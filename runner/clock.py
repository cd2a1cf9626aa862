"""What the journal says of the host's clock: where its wall clock was set back. Pure.

Nothing is computed from wall times: order is that of the journal's lines, durations are differences of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

TOLERANCE_S = 1.0  # less is what a time service does, or what lies between the two readings
BEGIN = (
    "sealed",
    "session-start",
    "torn-line",
    "close",
    "amended",
    "amendment",
)  # what may be the first line of a process


def steps_back(events: Sequence[dict[str, Any]]) -> list[tuple[int, int, float]]:
    """Lines between which the wall clock went back: (line, next line, seconds).

    Inside a session the monotonic clock says how much later the next line was written, so that a step is found also when
    enough time passed to hide it; between sessions, which may be of two boots, only a time before the last one is.
    """
    found = []
    for first, second in pairwise(events):
        try:
            wall_s = (datetime.fromisoformat(second["time"]) - datetime.fromisoformat(first["time"])).total_seconds()
            passed_s = (second["monotonic_ns"] - first["monotonic_ns"]) / 1e9
        except (KeyError, TypeError, ValueError):
            continue  # what is wrong with such a line, others say
        if second["event"] in BEGIN:
            passed_s = 0.0
        if passed_s - wall_s > TOLERANCE_S:
            found.append((first["number"], second["number"], passed_s - wall_s))
    return found


def notes(events: Sequence[dict[str, Any]]) -> list[str]:
    """The same in words, for `verify`."""
    return [
        f"journal.jsonl:{second}: warning: the wall clock went back by {step_s:.1f} s between line {first} and line {second}; "
        "durations are those of the monotonic clock"
        for first, second, step_s in steps_back(events)
    ]
