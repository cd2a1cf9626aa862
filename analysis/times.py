"""Where the wall time of a phase went, from the records of its runs and the journal's block events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

NANO = 1e-9


@dataclass(frozen=True)
class Times:
    """Seconds by category; together the wall time of the phase's blocks."""

    processes: float
    resets: float  # engine reset and health, before and after
    calibration: float
    waiting: float  # looking at the host and waiting for it to be quiet, before blocks
    remainder: float  # everything else: digests, records, journal
    measuring: float = 0.0  # round trips beside blocks, where the plan adds a delay

    def parts(self) -> dict[str, float]:
        """By the words of the page; round trips only where some were measured."""
        found = {
            "processes": self.processes,
            "resets": self.resets,
            "calibration": self.calibration,
            "waiting": self.waiting,
            "runner": self.remainder,
        }
        return found | ({"round trips": self.measuring} if self.measuring else {})

    @property
    def share(self) -> float:
        """The runner's own remainder over the time of the processes."""
        return self.remainder / self.processes if self.processes else 0.0


def where_time_goes(runs: Iterable[Mapping[str, Any]], blocks: Iterable[Mapping[str, Any]]) -> Times:
    """Split the wall time of whole blocks (the journal's block-end events) by the records of their runs."""
    sums: dict[str, float] = {}
    for record in runs:
        for category, spent in record.get("durations_ns", {}).items():
            sums[category] = sums.get(category, 0.0) + spent * NANO
    events = list(blocks)
    wall = sum(event["wall_ns"] for event in events) * NANO
    waiting = sum(event["waited_ns"] for event in events) * NANO
    known = {name: sums.get(name, 0.0) for name in ("process", "reset", "calibration")}
    measuring = sum(event.get("measuring_ns", 0) for event in events) * NANO
    rest = wall - waiting - measuring - sum(known.values())
    return Times(known["process"], known["reset"], known["calibration"], waiting, rest, measuring)
