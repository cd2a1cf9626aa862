"""What an estimate is without some of its blocks: those where a covariate differed, and those that carry a mark. Pure.

Leaving out blocks by what was recorded beside the metrics is not leaving them out by their result. A matched estimate shows
whether an unplanned difference could have made the finding; one without marked blocks is a description, since load can be the
arm's own doing, and no claim uses either.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis import intervals
from analysis.checks import Mark
from analysis.covariates import Differences, between, difference_words
from analysis.formats import ratio_text
from analysis.model import Estimate, EstimateWarning, Interval
from analysis.sentences import block_words, listed

LEAST = 3  # blocks that an interval needs to be shown


@dataclass(frozen=True)
class Subset:
    """An estimate over some of its blocks."""

    blocks: tuple[int, ...]
    point: float | None
    t: Interval | None  # None below `LEAST` blocks


def over(estimate: Estimate, kept: Collection[int], level: float) -> Subset:
    """The estimate over those of its blocks that are kept."""
    pairs = [(b, r) for b, r in zip(estimate.blocks, estimate.ratios, strict=True) if b in kept]
    logs = np.log([ratio for _, ratio in pairs])
    t = intervals.t_interval(logs, level) if len(pairs) >= LEAST else None
    return Subset(tuple(b for b, _ in pairs), intervals.geometric_mean(logs), t)


def why_sensitive(estimate: Estimate, subset: Subset, level: float) -> list[str]:
    """Why the finding depends on the blocks that were left out; empty where it does not, or nobody can say."""
    half = intervals.half_width(np.log(estimate.ratios), level) if estimate.ratios else None
    told = []
    if estimate.point and subset.point and half and abs(math.log(subset.point / estimate.point)) > half / 2:
        told.append("it moves by more than half of the interval's half width")
    if estimate.t and subset.t and _excludes(estimate.t) != _excludes(subset.t):
        told.append("whether the interval excludes 1 changes")
    return told


def _excludes(interval: Interval) -> bool:
    return not interval[0] <= 1 <= interval[1]


def with_covariates(estimates: Iterable[Estimate], differences: Differences, level: float) -> tuple[Estimate, ...]:
    """The estimates with a warning for each covariate that was declared constant and differs between their two arms."""
    done = []
    for estimate in estimates:
        found = between(estimate.case, estimate.numerator, estimate.denominator, differences)
        warnings = tuple(
            EstimateWarning(
                "covariate", f"{difference_words(name, estimate, places)} {_matched(estimate, places, level)}"
            )
            for name, places in found.items()
        )
        done.append(replace(estimate, warnings=(*estimate.warnings, *warnings)))
    return tuple(done)


def _matched(estimate: Estimate, places: Collection[int], level: float) -> str:
    """The estimate over the blocks in which the covariate agrees, as a sentence."""
    subset = over(estimate, set(estimate.blocks) - set(places), level)
    if not subset.blocks:
        return "No block is left in which it agrees, so that the ratio cannot be told from this difference."
    why = why_sensitive(estimate, subset, level)
    told = f"sensitive, since {listed(why)}" if why else "not sensitive by this measure"
    return f"Matched, over {block_words(subset.blocks)}, the ratio is {_shown(subset)}: {told}."


def _shown(subset: Subset) -> str:
    if subset.t is None:
        few = f"no interval, since fewer than {LEAST} blocks are left" if len(subset.blocks) < LEAST else "no interval"
        return f"{ratio_text(subset.point, None).removesuffix(' —')} ({few})"
    return ratio_text(subset.point, subset.t)


def without_marked(estimates: Iterable[Estimate], marks: Sequence[Mark], level: float) -> tuple[Estimate, ...]:
    """The estimates, their warnings about checks with what the unmarked blocks alone would give."""
    done = []
    for estimate in estimates:
        arms = (None, estimate.numerator, estimate.denominator)
        marked = {mark.block for mark in marks if mark.case == estimate.case and mark.arm in arms}
        subset = over(estimate, set(estimate.blocks) - marked, level)
        told = (
            f"Descriptive only, without them: {_shown(subset)} over {block_words(subset.blocks)}."
            if subset.blocks
            else "No block is without one."
        )
        warnings = tuple(replace(w, text=f"{w.text} {told}") if w.kind == "checks" else w for w in estimate.warnings)
        done.append(replace(estimate, warnings=warnings))
    return tuple(done)
