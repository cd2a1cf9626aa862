"""The spread between blocks that a plan reckons with: given, or taken from the estimates of an earlier campaign.

A pilot's file is what `python -m analysis estimates PILOT --phase P --format json` prints. The block log ratios follow
from its point and its leave-one-block-out points, so that neither its level nor its interval matters.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.errors import DataError
from runner.power import upper_sd


@dataclass(frozen=True)
class Spread:
    """Standard deviation of a case's block log ratios; `planned` is what the plan reckons with."""

    sd: float
    planned: float
    source: str


@dataclass(frozen=True)
class Spreads:
    """What is known of the spread by case and metric; a given one holds for all."""

    known: Mapping[tuple[str, str], Spread]
    every: Spread | None = None

    def of(self, case: str, metric: str) -> Spread | None:
        """The spread to plan a case with; None where nothing is known."""
        return self.every or self.known.get((case, metric))


def given(sd: float) -> Spreads:
    """One spread for all, as a log: 0.03 is three per cent."""
    return Spreads({}, Spread(sd, sd, "given"))


def read(path: Path) -> Spreads:
    """The spreads of a pilot's cases and metrics, of each the largest of its contrasts.

    A standard deviation from few blocks is vague: the plan reckons with its 80% upper bound. Raises DataError for a
    file that is not such an export, or that has no estimate with at least two blocks.
    """
    found: dict[tuple[str, str], Spread] = {}
    for entry in _estimates(path):
        try:
            logs = block_logs(entry)
        except (ValueError, TypeError) as error:
            raise _no_export(path, f"case {entry['case']}, metric {entry['metric']}: {error}") from None
        if len(logs) > 1:
            sd = statistics.stdev(logs)
            spread = Spread(sd, upper_sd(sd, len(logs)) if sd else 0.0, f"pilot, {len(logs)} blocks")
            key = (entry["case"], entry["metric"])
            found[key] = max(found.get(key, spread), spread, key=lambda one: one.planned)
    if not found:
        raise DataError(
            str(path),
            "no estimate with at least two blocks",
            expected="the export of a phase with paired estimates",
            remedy="python -m analysis estimates PILOT --phase P --format json > FILE",
        )
    return Spreads(found)


def block_logs(entry: Mapping[str, Any]) -> tuple[float, ...]:
    """The block log ratios of one exported estimate; empty where it has no point, or the points without a block.

    Raises ValueError or TypeError for what is no ratio.
    """
    point, without = entry.get("point"), entry.get("leave_one_out") or []
    if point is None or not without or None in without:
        return ()
    if not all(type(one) in (int, float) and math.isfinite(one) and one > 0 for one in (point, *without)):
        raise ValueError(f"expected points above 0, found {point!r} and {without!r}")
    count = len(without)
    return tuple(count * math.log(point) - (count - 1) * math.log(one) for one in without)


def _estimates(path: Path) -> Sequence[Mapping[str, Any]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        entries = document["estimates"]
        if not all(isinstance(entry["case"], str) and isinstance(entry["metric"], str) for entry in entries):
            raise TypeError("an estimate without case and metric")
    except FileNotFoundError:
        raise DataError(str(path), "no such file", remedy="give the export of a pilot's estimates") from None
    except (ValueError, KeyError, TypeError) as error:
        raise _no_export(path, repr(error)) from None
    return list(entries)


def _no_export(path: Path, found: str) -> DataError:
    return DataError(
        str(path),
        "not the export of a phase's estimates",
        expected="what `python -m analysis estimates PILOT --phase P --format json` prints",
        found=found[:200],
    )
