"""Checks that did not hold: before a block, or during one of its runs. Marks, and the warnings that follow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.model import EstimateWarning
from analysis.sentences import block_words, listed
from runner.plan import Checks, Phase
from runner.store import Labels

Record = Mapping[str, Any]
Key = tuple[str, str, str]  # case, metric, contrast

BUSY, SLOW = "load before the block", "calibration ratio before the block"


@dataclass(frozen=True)
class Mark:
    """One check that did not hold."""

    case: str
    block: int
    arm: str | None  # None: before the block, so that it concerns every arm
    check: str
    value: float | None  # None: it could not be known
    limit: float


def marks_of(
    runs: Mapping[Labels, Record], begun: Mapping[tuple[str, str, int], Record], limits: Checks
) -> tuple[Mark, ...]:
    """Every mark of a phase: from the block-start events of the journal, then from its runs' records."""
    found = [
        mark
        for (_, case, block), event in begun.items()
        if event["marked"]
        for mark in (
            Mark(case, block, None, BUSY, event["idle_load"], limits.idle_load),
            Mark(case, block, None, SLOW, event["calibration_ratio"], limits.calibration_ratio),
        )
        if mark.value is None or mark.value > mark.limit
    ]
    for labels, record in runs.items():
        found += [
            Mark(
                labels.case, labels.block, labels.arm, check["check"].replace("_", " "), check["value"], check["limit"]
            )
            for check in record.get("checks", ())
            if check["holds"] is False
        ]
    return tuple(found)


def marked_blocks(marks: Iterable[Mark]) -> set[tuple[str, int]]:
    """The (case, block) pairs that carry a mark."""
    return {(mark.case, mark.block) for mark in marks}


def mark_words(marks: Sequence[Mark]) -> str:
    """By check: in which blocks, how far, in whose runs."""
    told = []
    for check in dict.fromkeys(mark.check for mark in marks):
        group = [mark for mark in marks if mark.check == check]
        arms = listed(dict.fromkeys(mark.arm for mark in group if mark.arm))
        runs = f", in runs of {arms}" if arms else ""
        values = [mark.value for mark in group if mark.value is not None]
        worst = f"up to {max(values):.3g}" if values else "unknown"
        told.append(f"{check} {worst} (limit {group[0].limit:g}) in {block_words(mark.block for mark in group)}{runs}")
    return "; ".join(told)


def check_warnings(phase: Phase, marks: Sequence[Mark]) -> dict[Key, list[EstimateWarning]]:
    """The warning of every estimate whose blocks carry a mark that concerns one of its arms.

    Metrics that are counted outside of all timing are not concerned: no load moves them.
    """
    found: dict[Key, list[EstimateWarning]] = {}
    for case in phase.cases:
        for contrast in phase.contrasts:
            concerned = [
                mark
                for mark in marks
                if mark.case == case.name and mark.arm in (None, contrast.numerator, contrast.denominator)
            ]
            if not concerned:
                continue
            text = f"Checks did not hold: {mark_words(concerned)}. The load can be the arm's own doing; nothing was dropped."
            for metric in phase.metrics_of(case.name):
                if not metric.counted:
                    found[case.name, metric.unit, contrast.name] = [EstimateWarning("checks", text)]
    return found
