"""How many blocks an effect needs, and which effect a number of blocks can find: for the two-sided t interval. Pure.

The block log ratios are taken as normal with one standard deviation; the t interval over B of them excludes 1 when the
noncentral t statistic is beyond its quantile. Its distribution is integrated over the chi distribution of the sd, so that
the pinned host needs no numerical library; tests/test_power.py compares with scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

LEVEL = 0.95
POWER = 0.8
MOST_BLOCKS = 1000  # as many as a plan may have
_STEPS = 800  # of Simpson's rule


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _over_sd(df: int, function: Callable[[float], float]) -> float:
    """The mean of a function of s / sigma, where s is a standard deviation with df degrees of freedom."""
    constant = math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2)
    reach = 9 / math.sqrt(2 * df)
    low, high = max(1 - reach, 0.0), 1 + reach
    width = (high - low) / _STEPS

    def weighted(i: int) -> float:
        s = low + i * width
        if s <= 0:
            return math.exp(constant) * function(0.0) if df == 1 else 0.0
        density = math.exp(constant + (df - 1) * math.log(s) - df / 2 * s * s)
        return density * function(s)

    inside = sum((4 if i % 2 else 2) * weighted(i) for i in range(1, _STEPS))
    return (weighted(0) + inside + weighted(_STEPS)) * width / 3


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that grows becomes 0."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2


@cache
def t_quantile(p: float, df: int) -> float:
    """Quantile of Student's t, for p of at least one half."""
    return _root(lambda t: _over_sd(df, lambda s: _normal(t * s)) - p, 0.0, 1000.0)


def power(effect: float, blocks: int, level: float = LEVEL) -> float:
    """The chance that the t interval over this many blocks excludes 1; `effect` in block standard deviations, as a log."""
    limit = t_quantile((1 + level) / 2, blocks - 1)
    shift = abs(effect) * math.sqrt(blocks)
    return _over_sd(blocks - 1, lambda s: _normal(shift - limit * s) + _normal(-shift - limit * s))


@cache
def detectable(blocks: int, wanted: float = POWER, level: float = LEVEL) -> float:
    """The effect, in block standard deviations, that is found with this power."""
    return _root(lambda effect: power(effect, blocks, level) - wanted, 0.0, 200.0)


def blocks_needed(ratio: float, sd: float, wanted: float = POWER, level: float = LEVEL) -> int | None:
    """The fewest blocks with which a ratio is found; None where a plan's most are too few.

    Raises ValueError for a ratio that is no effect or has no logarithm, and for a standard deviation that is not positive.
    """
    if not (ratio > 0 and math.isfinite(ratio) and ratio != 1 and sd > 0):
        raise ValueError(f"expected a ratio above 0 that is not 1 and a positive sd, found {ratio:g} and {sd:g}")
    effect = abs(math.log(ratio)) / sd
    low, high = 1, MOST_BLOCKS
    if detectable(high, wanted, level) > effect:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if detectable(middle, wanted, level) <= effect else (middle, high)
    return high


def upper_sd(sd: float, blocks: int, share: float = 0.8) -> float:
    """An upper bound of the true standard deviation, from that of a pilot's blocks; too low in 1 - share of all pilots."""
    return sd / _root(lambda s: _below(s, blocks - 1) - (1 - share), 0.0, 10.0)


def _below(limit: float, df: int) -> float:
    """The chance that s / sigma is below a limit: the regularised lower incomplete gamma function."""
    a, x = df / 2, df / 2 * limit * limit
    if x == 0:
        return 0.0
    term = total = 1 / a
    n = a
    while term > total * 1e-16:
        n += 1
        term *= x / n
        total += term
    return min(total * math.exp(-x + a * math.log(x) - math.lgamma(a)), 1.0)
