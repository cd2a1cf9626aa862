"""What should make a reader careful with one estimate, computed from the evidence behind it. Pure functions.

Each rule is a function that returns its warning or None; `warnings_for` asks them all. Warnings that need
more than samples (checks, covariates, restored labels) are computed elsewhere and joined with `add_warnings`.

Scales: ``logs`` are log ratios, so that a difference of 0.01 is about 1%; ``sequences`` count runs of the
campaign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis import intervals
from analysis.enumeration import ENUMERATED, RESOLUTION
from analysis.model import Estimate, EstimateWarning, Interval
from analysis.sentences import gap_words, gaps, listed, ratio_words, side

Floats = npt.NDArray[np.float64]
Key = tuple[str, str, str]  # case, metric, contrast

FEW_BLOCKS = 6  # below it, the percentile interval covers 80% or less and a t interval is wide
DRIFT_SHARE = 0.1  # of the half width, from which a bias by drift is worth a warning
STEADY = 1e-4  # range of log ratios; a count's digits below it are the counter's own noise


def _none() -> Floats:
    return np.empty(0)


def _none_twice() -> tuple[Floats, Floats]:
    return _none(), _none()


@dataclass(frozen=True, eq=False)
class Evidence:
    """What an estimate was computed from, aligned by used block; of pairs, the numerator comes first."""

    blocks: tuple[int, ...] = ()
    planned: int = 0  # blocks planned, replacements not counted
    logs: Floats = field(default_factory=_none)  # log ratios, shape (B,)
    levels: tuple[Floats, Floats] = field(default_factory=_none_twice)  # of the runs, in the metric's unit
    sequences: tuple[Floats, Floats] = field(default_factory=_none_twice)  # of the runs in the campaign
    spreads: tuple[float, ...] = ()  # sd of the logs of a run's repeats, for every run with two or more
    no_log: bool = False  # a run's value is zero, negative or not finite: nothing else is filled in


@dataclass(frozen=True, eq=False)
class Without:
    """The primary interval without one block: computed only when a rule asks.

    A percentile interval is enumerated where it can be: a warning should not depend on a seed.
    """

    ratios: Floats
    primary: str
    level: float
    seed: int
    resamples: int

    def __call__(self, i: int) -> Interval | None:
        rest = np.delete(self.ratios, i)
        if self.primary == "t":
            return intervals.t_interval(np.log(rest), self.level)
        if len(rest) <= ENUMERATED:
            return intervals.percentile_exact(rest, self.level)
        return intervals.percentile_sampled(np.log(rest), self.seed, self.resamples, self.level)


def warnings_for(
    estimate: Estimate,
    evidence: Evidence,
    *,
    primary: str,
    level: float,
    without: Callable[[int], Interval | None],
    steady: bool = False,
    ordered: bool = True,
    known: str = "planned blocks",
) -> tuple[EstimateWarning, ...]:
    """Every warning that the evidence calls for, in a fixed order: missing runs, causes of nulls, doubts.

    Parameters
    ----------
    primary : str
        The interval that leads, "t" or "percentile".
    without : callable
        ``without(i)`` is the primary interval without the i-th used block.
    steady : bool
        A count that is the same in every block but for its last digits (`is_steady`): neither a block that
        decides nor a drift is looked for, since what is left to find them in is rounding.
    ordered : bool
        Whether the order of the runs is known: without it nothing can be said of a drift.
    known : str
        What the blocks are that the estimate could have used.
    """
    half = intervals.half_width(evidence.logs, level)
    found = (
        failed_runs(estimate),
        replaced_blocks(estimate),
        few_blocks(estimate, evidence.planned, known),
        not_computable(estimate, evidence),
        no_exact_interval(estimate),
        None if steady else one_block_decides(estimate, evidence.logs, primary, without),
        intervals_disagree(estimate),
        sampling_decides(estimate),
        None if steady or not ordered else drift(estimate, evidence, level, half),
        repeats_disagree(evidence.spreads, half),
    )
    return tuple(warning for warning in found if warning is not None)


def is_steady(logs: Floats) -> bool:
    """Whether log ratios, shape (B,), lie within `STEADY` of each other."""
    return bool(logs.size and np.ptp(logs) < STEADY)


def add_warnings(estimates: Iterable[Estimate], extra: Mapping[Key, Sequence[EstimateWarning]]) -> tuple[Estimate, ...]:
    """The estimates with the warnings that others computed, by (case, metric, contrast), after their own."""
    return tuple(replace(e, warnings=(*e.warnings, *extra.get((e.case, e.metric, e.contrast), ()))) for e in estimates)


def failed_runs(estimate: Estimate) -> EstimateWarning | None:
    """A run of one of the two arms failed, is missing, or gave no usable value, and nothing replaces it."""
    missing = gaps(estimate)
    if not missing:
        return None
    use = "the estimate uses complete blocks only" if estimate.blocks else "there is no estimate"
    return EstimateWarning(
        "failed-runs",
        f"No usable run of {gap_words(missing)}: {use}, and no claim that rests on it is supported.",
    )


def replaced_blocks(estimate: Estimate) -> EstimateWarning | None:
    """A block was void for a cause on the runner's side, and an appended block stands in for it."""
    void = [item for item in estimate.missing if item.replaced_by is not None]
    if not void:
        return None
    words = listed(f"block {item.block} ({item.reason}) by block {item.replaced_by}" for item in void)
    return EstimateWarning("replaced-blocks", f"Void and replaced: {words}.")


def few_blocks(estimate: Estimate, planned: int, known: str = "planned blocks") -> EstimateWarning | None:
    """Fewer blocks than six, or than planned; the missing ones are named."""
    used = len(estimate.blocks)
    if used >= FEW_BLOCKS and used >= planned:
        return None
    lost = sorted({item.block for item in gaps(estimate)})
    named = f"; missing: {listed(f'block {block}' for block in lost)}" if lost else ""
    covers = intervals.covers("percentile", used)
    share = f"; a percentile interval covers about {covers.percent}% at that number" if covers else ""
    return EstimateWarning("few-blocks", f"Used: {used} of {planned} {known}{named}{share}.")


def not_computable(estimate: Estimate, evidence: Evidence) -> EstimateWarning | None:
    """Why the t interval and all that needs a spread is null; without blocks, everything is."""
    used = len(estimate.blocks)
    if estimate.t is not None:
        return None
    if evidence.no_log:
        return EstimateWarning(
            "no-log-ratio",
            "A value has no logarithm, so nothing is computed: leaving its block out would select by result.",
        )
    if not used:
        return EstimateWarning("no-blocks", "No block has a usable run of both arms: nothing is computed.")
    if used == 1:
        return EstimateWarning("one-block", "A single block has no spread: no interval and no p-value.")
    if intervals.has_spread(evidence.logs):
        return EstimateWarning("no-interval", "The t interval reaches beyond what a double can hold.")
    return EstimateWarning(
        "no-spread",
        f"All {used} blocks give the same ratio to 12 decimals of its logarithm: no interval and no p-value.",
    )


def no_exact_interval(estimate: Estimate) -> EstimateWarning | None:
    """The sampled interval exists and the enumerated one does not."""
    if estimate.percentile is None or estimate.percentile_exact is not None:
        return None
    cause = (
        f"{len(estimate.blocks)} blocks are more"
        if len(estimate.blocks) > ENUMERATED
        else "the ratios are too far apart"
    )
    return EstimateWarning(
        "no-exact-interval", f"The percentile interval is enumerated up to {ENUMERATED} blocks; {cause}."
    )


def one_block_decides(
    estimate: Estimate, logs: Floats, primary: str, without: Callable[[int], Interval | None]
) -> EstimateWarning | None:
    """The primary interval excludes 1 only with some block, or one block holds most of the squares."""
    if len(estimate.blocks) < 3:
        return None
    found = [_needed_block(estimate, primary, without), _dominant_block(estimate.blocks, logs)]
    text = " ".join(part for part in found if part)
    return EstimateWarning("one-block-decides", text) if text else None


def _needed_block(estimate: Estimate, primary: str, without: Callable[[int], Interval | None]) -> str:
    if side(estimate.interval(primary)) not in ("below", "above"):
        return ""
    lost = []
    for i, block in enumerate(estimate.blocks):
        interval = without(i)
        # Without an interval the other blocks agree to the last digit: that block decides nothing.
        if side(interval) == "includes":
            lost.append(f"without block {block} ({ratio_words(estimate.leave_one_out[i], interval)})")
    return f"The {primary} interval excludes 1, but not {listed(lost)}." if lost else ""


def _dominant_block(blocks: Sequence[int], logs: Floats) -> str:
    shares, threshold = intervals.share_of_squares(logs), intervals.share_threshold(len(blocks))
    if shares is None or threshold is None or shares.max() <= threshold:
        return ""
    return (
        f"Block {blocks[int(shares.argmax())]} holds {shares.max():.2f} of the squared deviations from the "
        f"mean log ratio; normal noise gives one of {len(blocks)} blocks more than {threshold:.2f} in 5% of "
        "campaigns."
    )


def intervals_disagree(estimate: Estimate) -> EstimateWarning | None:
    """One of the two intervals excludes 1 and the other does not."""
    excludes = {kind: side(estimate.interval(kind)) in ("below", "above") for kind in ("percentile", "t")}
    if estimate.t is None or estimate.percentile is None or excludes["percentile"] == excludes["t"]:
        return None
    yes, no = sorted(excludes, key=lambda kind: not excludes[kind])
    shown, hidden = (ratio_words(estimate.point, estimate.interval(kind)) for kind in (yes, no))
    return EstimateWarning(
        "intervals-disagree",
        f"The {yes} interval excludes 1, {shown}; the {no} interval does not, {hidden}.",
    )


def sampling_decides(estimate: Estimate) -> EstimateWarning | None:
    """The sampled percentile interval lies on another side of 1 than the enumerated one."""
    if estimate.percentile is None or estimate.percentile_exact is None:
        return None
    if side(estimate.percentile) == side(estimate.percentile_exact):
        return None
    sampled = ratio_words(estimate.point, estimate.percentile)
    exact = ratio_words(estimate.point, estimate.percentile_exact)
    return EstimateWarning(
        "sampling-decides",
        f"Whether the percentile interval excludes 1 depends on the seed: sampled {sampled}, enumerated {exact}.",
    )


def drift(estimate: Estimate, evidence: Evidence, level: float, half: float | None) -> EstimateWarning | None:
    """The log ratio has a trend over block number, or levels drift while the arms' places are unbalanced."""
    if len(evidence.blocks) < 3 or half is None:
        return None
    text = " ".join(part for part in (_trend(evidence, level), _position_bias(estimate, evidence, half)) if part)
    return EstimateWarning("drift", text) if text else None


def _trend(evidence: Evidence, level: float) -> str:
    slope, t = slope_and_t(np.array(evidence.blocks, dtype=np.float64), evidence.logs)
    critical = float(special.stdtrit(len(evidence.blocks) - 2, (1 + level) / 2))
    if not abs(t) > critical:
        return ""
    return (
        f"The ratio changes by {_percent(slope)} from block to block (t = {t:.2f}, beyond {critical:.2f}): "
        "its mean over blocks may not be one steady value. Without drift, "
        f"{100 * (1 - level):.2g}% of series show as much."
    )


def slope_and_t(x: Floats, y: Floats) -> tuple[float, float]:
    """Least-squares slope of y on x and its t statistic with n-2 degrees of freedom, infinite on a line.

    Without a spread of x, or with y constant to rounding, both are 0.
    """
    dx, dy = x - x.mean(), y - y.mean()
    if not dx.any() or np.ptp(y) <= RESOLUTION:
        return 0.0, 0.0
    slope = float(dx @ dy / (dx @ dx))
    rest = dy - slope * dx
    error = math.sqrt(float(rest @ rest) / (len(x) - 2) / float(dx @ dx))
    scale = RESOLUTION * float(np.abs(dy).max())
    return slope, slope / error if error > scale else math.copysign(math.inf, slope)


def _position_bias(estimate: Estimate, evidence: Evidence, half: float) -> str:
    """Per arm, the slope of the log level over the campaign times the difference of the arms' mean places.

    Zero for a balanced order; a lost block unbalances it.
    """
    apart = float(evidence.sequences[0].mean() - evidence.sequences[1].mean())
    texts = []
    for arm, levels, sequence in zip(estimate.contrast.split("/"), evidence.levels, evidence.sequences, strict=True):
        slope = slope_and_t(sequence, np.log(levels))[0]
        if abs(slope * apart) > DRIFT_SHARE * half:
            texts.append(f"{arm} drifts by {_percent(slope)} a run, {_percent(slope * apart)} in the ratio")
    if not texts:
        return ""
    return (
        f"The arms' mean places in the campaign are {abs(apart):.2g} runs apart; {listed(texts)}, more "
        f"than a tenth of the half width of the t interval ({_percent(half, signed=False)})."
    )


def repeats_disagree(spreads: Sequence[float], half: float | None) -> EstimateWarning | None:
    """The median spread inside a run (sd of the logs of its repeats) is larger than the half width."""
    if half is None or not spreads:
        return None
    middle = float(np.median(spreads))
    if not middle > half:
        return None
    return EstimateWarning(
        "repeats-disagree",
        f"Repeats of one run scatter more than the estimate is said to be uncertain: median sd "
        f"{_percent(middle, signed=False)}, the half width of the t interval {_percent(half, signed=False)}.",
    )


def _percent(log: float, signed: bool = True) -> str:
    """A small log difference in percent, to two significant digits."""
    percent = 100 * math.expm1(log)
    return f"{percent:+.2g}%" if signed else f"{percent:.2g}%"
