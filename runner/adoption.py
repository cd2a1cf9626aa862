"""The record of logs that were made elsewhere and taken in: what each run is, where its values lie, what nobody knows.

An adoption is to a campaign of adopted logs what the seal and the orders are to an executed one. The samples are
read from the adopted files each time; the record says which lines they come from. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runner.ledger import Block, BlockKey, End, Ledger
from runner.orders import Labels

FORMAT = 1
UNKNOWN = "unknown"  # of a block, a position or a place in the order that no log tells
UNKNOWNS = ("blocks", "order", "host", "environment", "engine", "trees", "preregistration")


@dataclass(frozen=True)
class AdoptedValue:
    """One value of an adopted file, with its line."""

    metric: str
    value: float
    repeat: int  # from 0, of this metric inside its run
    line: int  # of the run's file, from 1
    iterations: int | None = None  # of Go's result line; None where the file is no Go output


@dataclass(frozen=True)
class AdoptedRun:
    """One run as an adopted file shows it: one process, one case.

    Where the block is unknown, `labels.block` is the run's number and `paired` is False; where the order is,
    `labels.position` is -1, `labels.sequence` the place in the record and `ordered` is False.
    """

    labels: Labels
    run: int  # number in its phase, case and arm, from 1
    file: str  # below the campaign's folder
    lines: tuple[int, int]  # first and last, from 1
    outcome: str  # "ok" or "failed"
    reason: str  # why it failed; empty when it did not
    values: tuple[AdoptedValue, ...]  # none of a failed run
    paired: bool
    ordered: bool


@dataclass(frozen=True)
class Adoption:
    """An adoption as read: the content of adoption.json, the digest of its bytes, and the runs with their values."""

    content: dict[str, Any]
    digest: str
    runs: tuple[AdoptedRun, ...]
    closed: dict[str, Any] | None = None  # the journal's close

    @property
    def unknown(self) -> frozenset[str]:
        """What nobody can know of these runs."""
        return frozenset(self.content["unknown"])

    def restored(self, phase: str) -> tuple[str, ...]:
        """The cases of a phase whose labels were restored before the logs came here."""
        return tuple(entry["case"] for entry in self.content.get("restored", ()) if entry["phase"] == phase)

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that have runs, in the order of the record."""
        return tuple(dict.fromkeys(run.labels.phase for run in self.runs))

    def paired(self, phase: str) -> bool:
        """Whether every run of a phase has a known block. False for a phase without runs."""
        runs = [run for run in self.runs if run.labels.phase == phase]
        return bool(runs) and all(run.paired for run in runs)

    def ordered(self, phase: str) -> bool:
        """Whether the place of every run of a phase in the order is known. False for a phase without runs."""
        runs = [run for run in self.runs if run.labels.phase == phase]
        return bool(runs) and all(run.ordered for run in runs)

    def ledger(self) -> Ledger:
        """These runs as a ledger: each ended, well or failed, and the campaign closed."""
        blocks: dict[BlockKey, list[Labels]] = {}
        for run in self.runs:
            blocks.setdefault((run.labels.phase, run.labels.case, run.labels.block), []).append(run.labels)
        files = self.content["files"]
        return Ledger(
            [Block(*key, tuple(labels)) for key, labels in blocks.items()],
            started={run.labels: None for run in self.runs},
            ends={run.labels: End(run.outcome, run.reason or None, {run.file: files[run.file]}) for run in self.runs},
            closed=self.closed,
        )


def entry(run: AdoptedRun) -> dict[str, Any]:
    """A run as adoption.json holds it."""
    labels = run.labels
    return {
        "labels": {
            "phase": labels.phase,
            "case": labels.case,
            "arm": labels.arm,
            "block": labels.block if run.paired else UNKNOWN,
            "position": labels.position if labels.position >= 0 else UNKNOWN,
            "sequence": labels.sequence if run.ordered else UNKNOWN,
        },
        "run": run.run,
        "file": run.file,
        "lines": list(run.lines),
        "outcome": run.outcome,
        "reason": run.reason,
    }
