"""Points, intervals, p-values and shares from paired blocks. Pure functions of arrays; no files, no clocks.

Shapes: one series is the log ratios ``l`` of one case x metric x contrast, shape ``(B,)``, in ascending block
number; many series are the rows of a ``(K, B)`` array. Ratios have no unit. ``level`` is a share, 0.95.

What cannot be computed is None (NaN in the ``_many`` forms), never 0: every interval and p-value needs two
blocks, finite logs and a spread. Logs that agree to `RESOLUTION` have no spread: what is left is rounding.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.enumeration import ENUMERATED, RESOLUTION, exact_quantiles
from analysis.model import Interval

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LARGEST = 1e300  # a ratio beyond it, or below its inverse, is no ratio of measurements
_CHUNK_BYTES = 4 << 20  # of resample means held at once: they stay in the cache, and memory stays flat

# Measured coverage of the nominal 95% intervals in percent, by blocks (method page): normal block noise,
# t with 3 degrees of freedom, one block in twelve shifted by +30%.
COVERAGE: dict[str, dict[int, tuple[int, int, int]]] = {
    "percentile": {4: (80, 80, 79), 6: (86, 86, 83), 8: (89, 88, 84), 12: (91, 90, 83), 24: (93, 93, 70)},
    "t": {4: (95, 96, 96), 6: (95, 96, 97), 8: (95, 96, 97), 12: (95, 96, 96), 24: (95, 96, 86)},
}
_WORDS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def ratios_of(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Floats:
    """Ratios by block; NaN where a value is not finite, zero or negative, or the ratio is beyond 1e300.

    Parameters
    ----------
    numerator, denominator : array_like, shape (..., B)
        Run-level values in the metric's unit, aligned by block.

    Raises
    ------
    ValueError
        The shapes differ: the blocks are not aligned.
    """
    x, y = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    if x.shape != y.shape:
        raise ValueError(f"numerator and denominator must have the same blocks: shapes {x.shape} and {y.shape}")
    usable = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        ratios = np.divide(x, y, out=np.full(x.shape, np.nan), where=usable)
        inside = (ratios > 1 / LARGEST) & (ratios < LARGEST)
    return np.where(inside, ratios, np.nan)


def log_ratios(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Floats:
    """Natural logs of `ratios_of`, with its shapes and errors."""
    return np.asarray(np.log(ratios_of(numerator, denominator)), dtype=np.float64)


def has_spread(logs: npt.ArrayLike) -> bool:
    """Whether ``l`` has at least two blocks, all finite, that differ by more than rounding."""
    series = _series(logs)
    return bool(series.size >= 2 and np.isfinite(series).all() and np.ptp(series) > RESOLUTION)


def geometric_mean(logs: npt.ArrayLike) -> float | None:
    """exp(mean l): the point estimate. None without blocks or with a log that is not finite."""
    series = _series(logs)
    if series.size == 0 or not np.isfinite(series).all():
        return None
    return math.exp(math.fsum(series) / series.size)


def leave_one_out(logs: npt.ArrayLike) -> tuple[float | None, ...]:
    """The point without each block in turn, aligned with ``l``; None where no block is left."""
    series = _series(logs)
    return tuple(geometric_mean(np.delete(series, i)) for i in range(series.size))


def half_width(logs: npt.ArrayLike, level: float) -> float | None:
    """Half width of the t interval on the log scale: t((1 + level)/2, B-1) s / sqrt(B)."""
    upper = float(_tails(level)[1])
    if not has_spread(logs):
        return None
    _, error, freedom = _moments(logs)
    return float(special.stdtrit(freedom, upper)) * error


def t_interval(logs: npt.ArrayLike, level: float) -> Interval | None:
    """exp(m -+ HW): Student's interval for the mean log ratio, as a ratio; None also beyond 1e300.

    Raises
    ------
    ValueError
        ``level`` is not between 0 and 1.

    Notes
    -----
    Student (1908), The probable error of a mean, Biometrika 6; exact for normal log ratios.
    """
    half = half_width(logs, level)
    if half is None:
        return None
    mean = _moments(logs)[0]
    if abs(mean) + half > math.log(LARGEST):
        return None
    return math.exp(mean - half), math.exp(mean + half)


def t_pvalue(logs: npt.ArrayLike) -> float | None:
    """Two-sided p-value of mean log ratio = 0, Student's t with B-1 degrees of freedom."""
    if not has_spread(logs):
        return None
    mean, error, freedom = _moments(logs)
    return float(2 * special.stdtr(freedom, -abs(mean / error)))


def percentile_sampled(logs: npt.ArrayLike, seed: int, resamples: int, level: float) -> Interval | None:
    """Percentile bootstrap over blocks with sampled resamples, as a ratio. See `percentile_sampled_many`."""
    low, high = percentile_sampled_many(_series(logs)[np.newaxis, :], seed, resamples, level)[0].tolist()
    return None if math.isnan(low) else (low, high)


def percentile_sampled_many(logs: npt.ArrayLike, seed: int, resamples: int, level: float) -> Floats:
    """Percentile bootstrap intervals of many series, all over the same resamples.

    Parameters
    ----------
    logs : array_like, shape (K, B)
        Log ratios in ascending block number.
    seed, resamples : int
        ``default_rng(seed).integers(0, B, (resamples, B))`` is the index matrix: a fresh generator per B.
    level : float
        The central share of the resample means; ends by linear interpolation, as `numpy.percentile` has it.

    Returns
    -------
    ndarray, shape (K, 2)
        Ends as ratios; NaN where there is nothing to resample. Equal to `numpy.percentile` to rounding.

    Raises
    ------
    ValueError
        ``resamples`` < 1 or ``level`` not between 0 and 1.

    Notes
    ----- Efron (1979), Bootstrap methods, Ann. Statist. 7. A resample's mean depends only on how often it
    holds each block, so the index matrix is turned into counts once. Few blocks have few count vectors (462 at
    B=6), so that most of 20,000 resamples are repetitions: each distinct one is computed once, and the ranks
    of the quantiles count it as often as it was drawn.
    """
    series = _many(logs)
    tails = _tails(level)
    ends = np.full((series.shape[0], 2), np.nan)
    rows = np.flatnonzero(_spread_rows(series))
    if rows.size == 0:
        return ends
    blocks = series.shape[1]
    counts, times = distinct_resamples(seed, resamples, blocks)
    step = max(1, _CHUNK_BYTES // (8 * len(counts)))
    for start in range(0, rows.size, step):
        chunk = rows[start : start + step]
        ends[chunk] = _weighted_quantiles(series[chunk] @ counts.T, times, tails) / blocks
    return np.asarray(np.exp(ends), dtype=np.float64)


def resample_indices(seed: int, resamples: int, blocks: int) -> Ints:
    """The index matrix of the sampled interval, shape (resamples, B), int64.

    Notes
    ----- numpy keeps a Generator's stream within one version only (NEP 19): publish numpy's version and
    `index_digest`.
    """
    if resamples < 1 or blocks < 1:
        raise ValueError(f"resamples and blocks must be at least 1: {resamples} and {blocks}")
    return np.random.default_rng(seed).integers(0, blocks, (resamples, blocks), dtype=np.int64)


@lru_cache(maxsize=8)  # a campaign has few B; a sweep over seeds must not pile up matrices
def resample_counts(seed: int, resamples: int, blocks: int) -> Floats:
    """How often each resample holds each block: float, shape (resamples, B), read-only, rows sum to B."""
    places = resample_indices(seed, resamples, blocks) + np.arange(resamples)[:, np.newaxis] * blocks
    counts = np.bincount(places.ravel(), minlength=resamples * blocks).astype(np.float64)
    counts.setflags(write=False)
    return counts.reshape(resamples, blocks)


@lru_cache(maxsize=8)
def distinct_resamples(seed: int, resamples: int, blocks: int) -> tuple[Floats, Ints]:
    """The distinct rows of `resample_counts`, shape (D, B), and how often each was drawn, shape (D,); both read-only."""
    counts = resample_counts(seed, resamples, blocks)
    if (blocks + 1) ** blocks < 2**63:  # each row as one number, which sorts much faster than rows do
        codes = counts.astype(np.int64) @ (blocks + 1) ** np.arange(blocks, dtype=np.int64)
        _, first, found = np.unique(codes, return_index=True, return_counts=True)
        rows = counts[first]
    else:
        rows, found = np.unique(counts, axis=0, return_counts=True)
    times = found.astype(np.int64)
    rows.setflags(write=False)
    times.setflags(write=False)
    return rows, times


def index_digest(seed: int, resamples: int, blocks: int) -> str:
    """SHA-256 of the index matrix, row by row, little-endian int64: what a reader's numpy must reproduce."""
    return hashlib.sha256(resample_indices(seed, resamples, blocks).astype("<i8").tobytes()).hexdigest()


def percentile_exact(ratios: npt.ArrayLike, level: float) -> Interval | None:
    """The percentile bootstrap without sampling, by enumeration, to ten significant digits. B <= 8.

    Takes ratios, not logs: a quotient of two doubles is the same on every platform, a log is not. See
    `analysis.enumeration`.
    """
    low, high = percentile_exact_many(_series(ratios)[np.newaxis, :], level)[0].tolist()
    return None if math.isnan(low) else (low, high)


def percentile_exact_many(ratios: npt.ArrayLike, level: float) -> Floats:
    """Exact percentile intervals of many series.

    Parameters
    ----------
    ratios : array_like, shape (K, B)
        Ratios, positive; rows with others yield NaN.

    Returns
    -------
    ndarray, shape (K, 2)
        Ends as ratios to ten significant digits; NaN where B is 0, 1 or above `ENUMERATED`, without spread,
        or where a ratio is beyond exp(+-100).
    """
    values = _many(ratios)
    tails = _tails(level)
    ends = np.full((values.shape[0], 2), np.nan)
    if not 2 <= values.shape[1] <= ENUMERATED:
        return ends
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(values)
    rows = np.flatnonzero(_spread_rows(logs) & (np.abs(logs) < 100).all(axis=1))
    ends[rows] = exact_quantiles(values[rows], logs[rows], tails)
    return ends


def holm(pvalues: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm-adjusted p-values, aligned with the input; a member without one is skipped and not counted.

    Notes
    ----- Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6: the i-th
    smallest (from 0) of n is multiplied by n - i, made non-decreasing and cut at 1.
    """
    members = sorted((p, i) for i, p in enumerate(pvalues) if p is not None and not math.isnan(p))
    adjusted: list[float | None] = [None] * len(pvalues)
    largest = 0.0
    for rank, (p, i) in enumerate(members):
        largest = max(largest, min(1.0, (len(members) - rank) * p))
        adjusted[i] = largest
    return tuple(adjusted)


def share_of_squares(logs: npt.ArrayLike) -> Floats | None:
    """Each block's share of sum (l - m)^2, shape (B,); None without spread."""
    series = _series(logs)
    if not has_spread(logs):
        return None
    squares = (series - math.fsum(series) / series.size) ** 2
    return np.asarray(squares / squares.sum(), dtype=np.float64)


def share_threshold(blocks: int, alpha: float = 0.05) -> float | None:
    """The share that no block exceeds in all but ``alpha`` of campaigns of normal noise; None below B=3.

    Notes
    ----- The largest share is G^2/(B-1) with G of Grubbs (1950), Sample criteria for testing outlying
    observations, Ann. Math. Statist. 21; its two-sided critical value gives (B-1)/B t^2/(B-2+t^2), t = t(1 -
    alpha/(2B), B-2). No two blocks can hold more than half each, so that where the value is above 1/2 (at
    alpha = .05: B <= 13) the union bound behind it is an equality and the value exact; beyond, it errs
    towards silence.
    """
    if blocks < 3:
        return None
    t2 = float(special.stdtrit(blocks - 2, 1 - alpha / (2 * blocks))) ** 2
    return (blocks - 1) / blocks * t2 / (blocks - 2 + t2)


@dataclass(frozen=True)
class Coverage:
    """What a nominal 95% interval covers, in percent, under normal block noise."""

    percent: int
    measured: bool  # False: interpolated between two measured B


def covers(kind: str, blocks: int) -> Coverage | None:
    """Coverage of the nominal 95% interval "percentile" or "t" at B blocks; None outside of B = 4 to 24.

    Between the measured B of `COVERAGE` it is interpolated linearly in 1/B, which is how a percentile
    interval approaches its level, and says so.

    Raises
    ------
    KeyError
        ``kind`` is not in `COVERAGE`.
    """
    table = COVERAGE[kind]
    if blocks in table:
        return Coverage(table[blocks][0], measured=True)
    if not min(table) < blocks < max(table):
        return None
    known = sorted(table, reverse=True)
    percent = np.interp(1 / blocks, [1 / b for b in known], [table[b][0] for b in known])
    return Coverage(round(float(percent)), measured=False)


def coverage_words(kind: str, blocks: int, level: float = 0.95) -> str:
    """For example "nominal 95%, covers about 86% at six blocks"; what was not measured says so, as any other level."""
    count = _WORDS[blocks] if 0 <= blocks < len(_WORDS) else str(blocks)
    found = covers(kind, blocks) if level == 0.95 else None
    nominal = f"nominal {100 * level:g}%"
    at = f"at {count} block{'s' * (blocks != 1)}"
    if found is None:
        return f"{nominal}, coverage not measured {at}"
    return f"{nominal}, covers about {found.percent}% {at}" + ("" if found.measured else " (interpolated)")


def _series(values: npt.ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"expected one series of shape (B,), found shape {array.shape}")
    return array


def _moments(logs: npt.ArrayLike) -> tuple[float, float, int]:
    """Mean, s / sqrt(B) and B-1. Sums are rounded once, so that block order does not matter."""
    series = _series(logs).tolist()
    mean = math.fsum(series) / len(series)
    square = math.fsum((value - mean) ** 2 for value in series) / (len(series) - 1)
    return mean, math.sqrt(square / len(series)), len(series) - 1


def _many(values: npt.ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"expected series as rows, shape (K, B), found shape {array.shape}")
    return array


def _spread_rows(logs: Floats) -> npt.NDArray[np.bool_]:
    """`has_spread` for each row."""
    if logs.shape[1] < 2:
        return np.zeros(logs.shape[0], dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        wide = np.ptp(logs, axis=1) > RESOLUTION
    return np.asarray(np.isfinite(logs).all(axis=1) & wide, dtype=np.bool_)


def _tails(level: float) -> tuple[Fraction, Fraction]:
    """Lower and upper share, exact: 0.95 means 19/20, not the double next to it."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1: {level}")
    lower = (1 - Fraction(str(level))) / 2
    return lower, 1 - lower


def _weighted_quantiles(values: Floats, times: Ints, tails: tuple[Fraction, Fraction]) -> Floats:
    """Linear quantiles of each row, whose values count ``times``; shape (K, 2).

    Interpolation is written as numpy writes it, so that equal means give equal ends.
    """
    order = values.argsort(axis=1)
    reached = times[order].cumsum(axis=1)
    last = int(times.sum()) - 1
    every = np.arange(len(values))
    found = []
    for share in tails:
        rank, part = _rank(share, last)
        low, high = (
            values[every, order[every, (reached > place).argmax(axis=1)]] for place in (rank, min(rank + 1, last))
        )
        found.append(_between(low, high, part))
    return np.stack(found, axis=1)


def _rank(share: Fraction, last: int) -> tuple[int, float]:
    place = share * last
    return int(place), float(place - int(place))


def _between(low: Floats, high: Floats, part: float) -> Floats:
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part
