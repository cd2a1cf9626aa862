"""What the seed of the bootstrap decides: every percentile interval and every claim under many seeds, beside the exact one.

Pure functions of estimates. Only the sampled percentile interval has a seed; the enumerated one has none, and the t interval
neither. So a claim can flip under another seed only where a percentile interval carries it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analysis import claims, intervals
from analysis.model import Estimate, Interval

Floats = npt.NDArray[np.float64]
Key = tuple[str, str, str]  # case, metric, contrast
SEEDS = range(200)


@dataclass(frozen=True)
class Ends:
    """One percentile interval under every seed, as ratios."""

    case: str
    metric: str
    contrast: str
    exact: Interval | None  # enumerated; None above eight blocks
    low: Interval  # smallest and largest lower end
    high: Interval
    width: float  # median over seeds of the log width
    moves: float  # by how much an end moves at most, as a share of that width
    excludes: int  # seeds under which the interval excludes 1
    seeds: int

    @property
    def flips(self) -> bool:
        """Whether some seeds exclude 1 and some do not."""
        return 0 < self.excludes < self.seeds


@dataclass(frozen=True)
class ClaimSweep:
    """A claim's status under every seed, and with the plan's own."""

    id: str
    text: str
    own: str
    counts: Mapping[str, int]

    @property
    def flips(self) -> bool:
        """Whether the status depends on the seed, the plan's own among them."""
        return len({self.own, *self.counts}) > 1


@dataclass(frozen=True)
class Sweep:
    """All of a phase."""

    seeds: tuple[int, ...]
    ends: tuple[Ends, ...]
    claims: tuple[ClaimSweep, ...]


def sweep(
    estimates: Sequence[Estimate],
    planned: Iterable[claims.Claim],
    *,
    primary: str,
    level: float,
    resamples: int,
    seed: int,
    seeds: Sequence[int] = SEEDS,
) -> Sweep:
    """Every percentile interval and claim of a phase under each seed.

    Parameters
    ----------
    estimates : sequence of Estimate
        Those without a percentile interval have no seed and are left as they are.
    seed : int
        The plan's own, for ``ClaimSweep.own``.
    seeds : sequence of int
        Distinct; 0 to 199 by default.

    Raises
    ------
    ValueError
        No seeds, or one twice.
    """
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError("expected seeds, each once")
    swept = {number: _under(estimates, number, resamples, level) for number in dict.fromkeys((*seeds, seed))}
    ends = [_ends(e, [swept[n][_key(e)] for n in seeds]) for e in estimates if e.percentile is not None]
    told = []
    for claim in planned:
        status = {n: claims.evaluate(claim, _with(estimates, swept[n]), primary=primary).status for n in swept}
        told.append(ClaimSweep(claim.id, claim.text, status[seed], dict(Counter(status[n] for n in seeds))))
    return Sweep(tuple(seeds), tuple(ends), tuple(told))


def _key(estimate: Estimate) -> Key:
    return estimate.case, estimate.metric, estimate.contrast


def _under(estimates: Sequence[Estimate], seed: int, resamples: int, level: float) -> dict[Key, Interval]:
    """The sampled percentile interval of every estimate that has one, under one seed."""
    by_size: dict[int, list[Estimate]] = {}
    for estimate in estimates:
        if estimate.percentile is not None:
            by_size.setdefault(len(estimate.ratios), []).append(estimate)
    found: dict[Key, Interval] = {}
    for members in by_size.values():
        logs = np.log([member.ratios for member in members])
        rows = intervals.percentile_sampled_many(logs, seed, resamples, level).tolist()
        found |= {_key(member): (low, high) for member, (low, high) in zip(members, rows, strict=True)}
    return found


def _with(estimates: Sequence[Estimate], found: Mapping[Key, Interval]) -> list[Estimate]:
    return [replace(e, percentile=found[_key(e)]) if _key(e) in found else e for e in estimates]


def _ends(estimate: Estimate, found: Sequence[Interval]) -> Ends:
    low, high = np.log(np.array(found)).T
    width = float(np.median(high - low))
    moves = max(float(np.ptp(low)), float(np.ptp(high))) / width if width > 0 else math.nan
    excludes = int(np.count_nonzero((low > 0) | (high < 0)))
    return Ends(*_key(estimate), estimate.percentile_exact, _span(low), _span(high), width, moves, excludes, len(found))


def _span(ends: Floats) -> Interval:
    return math.exp(float(ends.min())), math.exp(float(ends.max()))


def parse_seeds(text: str) -> tuple[int, ...]:
    """``0-199`` or ``1,5,20-29`` as distinct seeds. Raises ValueError that says what is wrong."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise ValueError(f"expected numbers and ranges such as 0-199, found {part.strip()!r}")
        ends = int(first), int(last) if dash else int(first)
        if ends[1] < ends[0] or ends[1] - ends[0] >= 100_000:
            raise ValueError(f"expected an ascending range of at most 100,000 seeds, found {part.strip()!r}")
        seeds += range(ends[0], ends[1] + 1)
    if len(set(seeds)) != len(seeds):
        raise ValueError(f"a seed is there twice in {text!r}")
    return tuple(seeds)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19
