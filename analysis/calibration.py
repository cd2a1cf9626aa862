"""What the offered intervals cover, how wide they are and what they find, simulated at a campaign's own number of blocks.

Everything here is simulated and must say so where it is shown. Block log ratios are drawn around a known centre, and each
interval is computed by the functions that the estimates use. Pure: a seed and a number of simulations go in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis import intervals
from analysis.enumeration import ENUMERATED

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Floats]  # generator, simulations, blocks -> noise, shape (N, B)

SD = 0.03  # of the block log ratios; coverage does not depend on it
SHIFT = 0.30  # of one block in twelve, in the contaminated noise
SIMULATIONS = 20_000
RESAMPLES = 2_000  # of the sampled interval, which stands in above eight blocks


@dataclass(frozen=True)
class Cell:
    """One interval under one noise at one number of blocks; simulated."""

    noise: str
    interval: str  # "t", "percentile", "range"
    blocks: int
    coverage: float  # share of simulations whose interval holds the centre
    width: float  # median log width
    simulations: int

    @property
    def error(self) -> float:
        """Standard error of the coverage."""
        return float(np.sqrt(self.coverage * (1 - self.coverage) / self.simulations))

    @property
    def size(self) -> float:
        """How often the interval, used as a test, rejects a ratio of 1 that is true."""
        return 1 - self.coverage


def normal(generator: np.random.Generator, simulations: int, blocks: int) -> Floats:
    """Normal noise, sd 3%."""
    return generator.normal(0.0, SD, (simulations, blocks))


def heavy(generator: np.random.Generator, simulations: int, blocks: int) -> Floats:
    """Student's t with 3 degrees of freedom, scaled to the same sd."""
    return np.asarray(generator.standard_t(3, (simulations, blocks)) * SD / np.sqrt(3), dtype=np.float64)


def contaminated(generator: np.random.Generator, simulations: int, blocks: int) -> Floats:
    """Normal noise, and one block in twelve shifted by +30%; the centre is that of the clean noise."""
    noise = normal(generator, simulations, blocks)
    shifted = generator.random((simulations, blocks)) < 1 / 12
    return np.asarray(noise + shifted * np.log1p(SHIFT), dtype=np.float64)


def resampled(series: Sequence[npt.ArrayLike]) -> Draw:
    """Noise drawn from measured block log ratios of null contrasts: each simulation from one series, with replacement.

    A series is centred at its own mean, and widened by sqrt(B / (B - 1)) for the spread that centring takes away.
    """
    pools = [np.asarray(one, dtype=np.float64) for one in series]
    pools = [(one - one.mean()) * np.sqrt(one.size / (one.size - 1)) for one in pools if one.size > 1]
    if not pools:
        raise ValueError("expected at least one series of two blocks")

    def draw(generator: np.random.Generator, simulations: int, blocks: int) -> Floats:
        chosen = generator.integers(0, len(pools), simulations)
        noise = np.empty((simulations, blocks))
        for number, pool in enumerate(pools):
            rows = np.flatnonzero(chosen == number)
            noise[rows] = pool[generator.integers(0, pool.size, (rows.size, blocks))]
        return noise

    return draw


NOISES: Mapping[str, Draw] = {"normal": normal, "heavy-tailed": heavy, "contaminated": contaminated}


def calibrate(
    blocks: int, noises: Mapping[str, Draw], *, level: float, seed: int, simulations: int = SIMULATIONS
) -> tuple[Cell, ...]:
    """Coverage and width of each interval under each noise, with a true ratio of 1; the noises in their order.

    Each noise has a generator of its own from ``seed``, so that leaving one out changes no other.
    """
    cells = []
    for number, (name, draw) in enumerate(noises.items()):
        logs = draw(np.random.default_rng([seed, blocks, number]), simulations, blocks)
        for kind, ends in _intervals(logs, level, seed).items():
            cells.append(_cell(name, kind, blocks, ends))
    return tuple(cells)


def _cell(noise: str, kind: str, blocks: int, ends: Floats) -> Cell:
    """NaN ends, which a series without spread has, cover nothing and have no width."""
    holds = (ends[:, 0] <= 0) & (ends[:, 1] >= 0)
    return Cell(noise, kind, blocks, float(holds.mean()), float(np.nanmedian(ends[:, 1] - ends[:, 0])), len(ends))


def _intervals(logs: Floats, level: float, seed: int) -> dict[str, Floats]:
    """Log ends of each interval, shape (N, 2)."""
    blocks = logs.shape[1]
    exact = blocks <= ENUMERATED
    ends = (
        intervals.percentile_exact_many(np.exp(logs), level)
        if exact
        else intervals.percentile_sampled_many(logs, seed, RESAMPLES, level)
    )
    return {
        "t": t_ends(logs, level),
        "percentile": np.log(ends),
        "range": np.stack([logs.min(axis=1), logs.max(axis=1)], axis=1),
    }


def t_ends(logs: Floats, level: float) -> Floats:
    """Log ends of the t interval of many series, shape (K, 2): `intervals.half_width` for whole rows."""
    blocks = logs.shape[1]
    half = special.stdtrit(blocks - 1, (1 + level) / 2) * logs.std(axis=1, ddof=1) / np.sqrt(blocks)
    mean = logs.mean(axis=1)
    return np.asarray(np.stack([mean - half, mean + half], axis=1), dtype=np.float64)


def power_curve(
    blocks: int, effects: Sequence[float], *, level: float, seed: int, simulations: int = SIMULATIONS
) -> dict[str, tuple[float, ...]]:
    """How often each interval excludes 1 on the effect's side, under normal noise; ``effects`` in block sds, as logs.

    The percentile interval's curve starts above the nominal size: what it finds more often it also finds where nothing is.
    """
    noise = normal(np.random.default_rng([seed, blocks, len(NOISES)]), simulations, blocks)
    found: dict[str, list[float]] = {}
    for effect in effects:
        for kind, ends in _intervals(noise + effect * SD, level, seed).items():
            excluded = (ends[:, 0] > 0) | ((ends[:, 1] < 0) if effect == 0 else False)
            found.setdefault(kind, []).append(float(np.mean(excluded)))
    return {kind: tuple(shares) for kind, shares in found.items()}
