"""The percentile bootstrap's distribution over all B^B resamples, enumerated instead of sampled.

A resample of B blocks is a count vector c with sum B and weight B!/prod(c_i!) out of B^B; its mean log ratio
is sum(c_i l_i)/B. The quantile q_p is the smallest mean such that the weight of all means up to it is at
least ceil(p B^B): `numpy.quantile(..., method="inverted_cdf")` of all B^B means.

The same digits on every platform: each log ratio is rounded, as computed in decimal, to an integer number of
1e-12; sums of integers are compared; the chosen sum is exponentiated in decimal to ten significant digits.
Doubles stand in for decimals only where their error bound proves that the rounded result is the same.

Few of the count vectors can be the quantile. With the logs sorted, c' never lies above c when each tail sum
of c' (the number of draws above a rank) is at most that of c, whatever the logs are. A vector that has at
least the target weight never above it, other than itself, need not be looked at; one that must leave the
target unreached is counted without being looked at. At B=6, 60 of 462 remain for each end.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ENUMERATED = 8  # the largest B: 6,435 count vectors
RESOLUTION = 1e-12  # of a log ratio
DIGITS = 10  # significant, published

_UNIT = 10**12
_DECIMAL = Context(prec=50)
_ULP = 2.0**-52
_CHUNK_KEYS = 1 << 17  # keys sorted at once: they stay in the cache, and memory stays flat


@dataclass(frozen=True)
class Candidates:
    """The count vectors that can be one quantile of B sorted values."""

    counts: Floats  # shape (N, B)
    weights: Ints  # shape (N,)
    target: int  # weight to be reached by the candidates


def count_vectors(blocks: int) -> tuple[Ints, Ints]:
    """All count vectors, shape (N, B), and their weights, shape (N,); N = C(2B-1, B), weights sum to B^B."""
    bars = np.array(list(itertools.combinations(range(2 * blocks - 1), blocks - 1)), dtype=np.int64)
    bars = bars.reshape(-1, blocks - 1)
    edges = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), 2 * blocks - 1)], axis=1)
    counts = np.diff(edges, axis=1) - 1
    factorials = np.array([math.factorial(n) for n in range(blocks + 1)], dtype=np.int64)
    return counts, math.factorial(blocks) // factorials[counts].prod(axis=1)


def exact_quantiles(ratios: Floats, logs: Floats, shares: tuple[Fraction, ...]) -> Floats:
    """Quantiles of the enumerated bootstrap of many series, as ratios to ten significant digits.

    Parameters
    ----------
    ratios, logs : ndarray, shape (K, B)
        Positive finite ratios, |log| < 100, 2 <= B <= 8, and their logs as computed by numpy (used where
        their error bound suffices).
    shares : tuple of Fraction
        The p of each quantile.

    Returns
    -------
    ndarray, shape (K, len(shares))
    """
    rows, blocks = ratios.shape
    ends = np.empty((rows, len(shares)))
    for column, share in enumerate(shares):
        chosen = candidates(blocks, share)
        step = max(1, _CHUNK_KEYS // len(chosen.weights))
        for start in range(0, rows, step):
            part = slice(start, start + step)
            units = np.sort(log_units(ratios[part], logs[part]), axis=1)
            ends[part, column] = _exp_digits(weighted_quantile(units, chosen), blocks)
    return ends


def log_units(ratios: Floats, logs: Floats) -> Ints:
    """ln ratios in units of 1e-12, rounded to the nearest integer as if computed in decimal.

    ``logs`` may be off by 8 units in its last place, twice what numpy's vector loops are tested for; where
    that could change the rounding, decimal decides.
    """
    scaled = logs * _UNIT
    units = np.rint(scaled)
    error = 9 * _ULP * np.abs(scaled)  # of the log, and of the product
    for place in zip(*np.nonzero(np.abs(scaled - units) > 0.5 - error), strict=True):
        exact = _DECIMAL.multiply(Decimal(float(ratios[place])).ln(_DECIMAL), _UNIT)
        units[place] = int(exact.to_integral_value())
    return units.astype(np.int64)


@lru_cache(maxsize=32)
def candidates(blocks: int, share: Fraction) -> Candidates:
    """The count vectors over ascending logs that can be the quantile, and the weight left to reach.

    Let A(c) be the weight of the other vectors that never lie above c, Z(c) that of c and of all that do not
    always lie above it. Where A >= target, the target is reached without c, at or before it: c is left out.
    Where Z < target, c lies before the quantile whatever the logs: its weight is taken off the target. Ties
    change neither.
    """
    counts, weights, below, before = _dominance(blocks)
    target = math.ceil(share * blocks**blocks)
    counted = before < target
    kept = (below < target) & ~counted
    return Candidates(counts[kept].astype(np.float64), weights[kept], target - int(weights[counted].sum()))


@lru_cache(maxsize=ENUMERATED)
def _dominance(blocks: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Count vectors, weights, A and Z of `candidates`, each for every count vector."""
    counts, weights = count_vectors(blocks)
    tails = np.cumsum(counts[:, ::-1], axis=1)[:, :-1].astype(np.int8)
    never_above, always_above = np.empty_like(weights), np.empty_like(weights)
    for start in range(0, len(counts), 256):
        rows = tails[start : start + 256, np.newaxis, :]
        below = np.ones((rows.shape[0], len(counts)), dtype=np.bool_)
        above = below.copy()
        for rank in range(blocks - 1):
            below &= tails[:, rank] <= rows[:, :, rank]
            above &= tails[:, rank] >= rows[:, :, rank]
        never_above[start : start + 256] = below @ weights
        always_above[start : start + 256] = above @ weights
    return counts, weights, never_above - weights, blocks**blocks - always_above + weights


def weighted_quantile(units: Ints, chosen: Candidates) -> Ints:
    """The sum c.units at which each row's candidates reach the target; shape (K,).

    Parameters
    ----------
    units : ndarray of int, shape (K, B)
        Sorted ascending along the rows, below 1e14 in size.

    Notes
    ----- Sums of integers below 2^53 are exact in doubles in whatever order they are added, so that a fast
    matrix product may compute them. Each is packed with its candidate's number into one integer, and one sort
    does both.
    """
    lowest = units[:, :1]
    blocks = units.shape[1]
    sums = ((units - lowest).astype(np.float64) @ chosen.counts.T).astype(np.int64)
    bits = int(len(chosen.weights) - 1).bit_length()
    sums <<= bits
    sums |= np.arange(len(chosen.weights))
    sums.sort(axis=1)
    reached = np.cumsum(chosen.weights[sums & ((1 << bits) - 1)], axis=1) >= chosen.target
    first = sums[np.arange(len(sums)), reached.argmax(axis=1)]
    return np.asarray((first >> bits) + blocks * lowest[:, 0], dtype=np.int64)


def _exp_digits(sums: Ints, blocks: int) -> Floats:
    """exp(sum / B) of sums in units of 1e-12, rounded to ten significant digits as if computed in decimal."""
    values = np.exp(sums / (blocks * _UNIT))
    power = DIGITS - 1 - np.floor(np.log10(values)).astype(np.int64)
    up, down = 10.0 ** np.maximum(power, 0), 10.0 ** np.maximum(-power, 0)
    scaled = values * up / down
    digits = np.rint(scaled)
    rounded = digits * down / up
    error = np.abs(scaled) * _ULP * (12 + 2 * np.abs(sums / (blocks * _UNIT)))
    doubtful = (np.abs(scaled - digits) > 0.5 - error) | (np.abs(power) > 22) | (digits >= 10.0**DIGITS)
    for place in np.flatnonzero(doubtful):
        exact = (Decimal(int(sums[place])) / (blocks * _UNIT)).exp(_DECIMAL)
        rounded[place] = float(f"{exact:.{DIGITS - 1}e}")
    return np.asarray(rounded, dtype=np.float64)
