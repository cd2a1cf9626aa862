"""Estimates where no blocks are known: Welch's t on the logs of run medians. Pure functions.

The estimand of a case x metric x contrast is the ratio of the arms' geometric means over processes: exp(mean log
numerator - mean log denominator), each value the median of one process's repeats. Nothing pairs a process of one arm
with one of the other, so that whatever changed between them is in the ratio, and its width counts both arms' spreads.

Shapes: the logs of one arm, shape ``(n,)``, in any order. ``level`` is a share, 0.95. What cannot be computed is None:
an interval and a p-value need two processes of each arm, finite logs, and a spread in at least one arm.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scipy import special

from analysis import intervals
from analysis.diagnostics import Key, add_warnings, repeats_disagree
from analysis.estimands import Level, RunKey, RunValue, measured_pairs, run_values, with_holm
from analysis.model import Estimate, EstimateWarning, Interval, Missing, Sample
from analysis.sentences import gap_words, gaps, listed

Logs = Sequence[float]


@dataclass(frozen=True)
class Difference:
    """Mean log numerator minus mean log denominator."""

    mean: float
    error: float  # its standard error
    freedom: float  # degrees of freedom by Welch and Satterthwaite


def difference(numerator: Logs, denominator: Logs) -> Difference | None:
    """The difference of the arms' mean logs; None without a spread, or with fewer than two processes in an arm.

    Notes
    -----
    Welch (1947), The generalization of "Student's" problem when several different population variances are involved,
    Biometrika 34; Satterthwaite (1946), Biometrics Bulletin 2. Sums are rounded once, so that order does not matter.
    """
    sides = (numerator, denominator)
    if any(len(side) < 2 or not all(map(math.isfinite, side)) for side in sides):
        return None
    if not any(intervals.has_spread(side) for side in sides):
        return None
    (first, a, n), (second, b, m) = (_mean_and_square(side) for side in sides)
    share = a / (a + b)  # of the first arm in the squared error
    freedom = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / (m - 1))
    return Difference(first - second, math.sqrt(a + b), freedom)


def _mean_and_square(logs: Logs) -> tuple[float, float, int]:
    """Mean, its squared standard error, and the number of processes."""
    count = len(logs)
    mean = math.fsum(logs) / count
    return mean, math.fsum((value - mean) ** 2 for value in logs) / (count - 1) / count, count


def point(numerator: Logs, denominator: Logs) -> float | None:
    """exp(mean log numerator - mean log denominator). None without a process in each arm, and beyond 1e300."""
    if not numerator or not denominator:
        return None
    log = math.fsum(numerator) / len(numerator) - math.fsum(denominator) / len(denominator)
    return math.exp(log) if abs(log) < math.log(intervals.LARGEST) else None  # not a number is not below


def half_width(numerator: Logs, denominator: Logs, level: float) -> float | None:
    """Half width of Welch's interval on the log scale. Raises ValueError for a level that is not between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1: {level}")
    found = difference(numerator, denominator)
    return None if found is None else float(special.stdtrit(found.freedom, (1 + level) / 2)) * found.error


def interval(numerator: Logs, denominator: Logs, level: float) -> Interval | None:
    """Welch's interval for the ratio; None also beyond 1e300. Raises as `half_width`."""
    half, found = half_width(numerator, denominator, level), difference(numerator, denominator)
    if half is None or found is None or abs(found.mean) + half > math.log(intervals.LARGEST):
        return None
    return math.exp(found.mean - half), math.exp(found.mean + half)


def pvalue(numerator: Logs, denominator: Logs) -> float | None:
    """Two-sided p-value of a ratio of 1."""
    found = difference(numerator, denominator)
    return None if found is None else float(2 * special.stdtr(found.freedom, -abs(found.mean / found.error)))


# ---- estimates ----------------------------------------------------------------------------------------


def estimates(
    samples: Iterable[Sample],
    *,
    phase: str,
    contrasts: Sequence[str],
    metrics: Sequence[str],
    cases: Sequence[str],
    missing: Mapping[RunKey, str],
    level: float,
    holm_family: tuple[Sequence[str], Sequence[str]],
    extra: Mapping[Key, Sequence[EstimateWarning]] | None = None,
    measured: Mapping[str, Collection[str]] | None = None,
) -> tuple[Estimate, ...]:
    """Every estimate of a phase without known blocks, in plan order: contrast, then case, then metric.

    Parameters
    ----------
    samples : iterable of Sample
        ``block`` is the number of the process in its case and arm. Of a process in ``missing`` they are not used.
    missing : mapping of (case, process, arm) to reason
        Processes that failed.

    The others are those of `estimands.estimates`, and so is what is raised. A value that is zero, negative or not
    finite voids its whole estimate, as it does there.
    """
    values = run_values(sample for sample in samples if sample.phase == phase)
    known = {(case, process, arm) for case, _, arm, process in values} | set(missing)
    pairs = measured_pairs(cases, metrics, measured)
    keys = [(case, metric, contrast) for contrast in contrasts for case, metric in pairs]
    found = [_estimate(Estimate(phase, *key, paired=False), values, known, missing, level) for key in keys]
    return add_warnings(with_holm(found, *holm_family), extra or {})


def _estimate(
    estimate: Estimate,
    values: Mapping[Level, RunValue],
    known: Collection[RunKey],
    missing: Mapping[RunKey, str],
    level: float,
) -> Estimate:
    """One estimate with its warnings."""
    lost: list[Missing] = []
    used: list[list[RunValue]] = []
    no_log = False
    for arm in (estimate.numerator, estimate.denominator):
        own = sorted(process for case, process, name in known if (case, name) == (estimate.case, arm))
        whole = []
        for process in own:
            value, why = _usable(estimate, arm, process, values, missing)
            no_log |= value is not None and bool(why)
            lost += [Missing(process, arm, why, unit="process")] if why else []
            whole += [value] if value is not None and not why else []
        used.append(whole)
    filled = replace(estimate, missing=tuple(lost))
    if no_log:
        return replace(filled, warnings=(_unpaired(filled), *_failed(filled), _VOID))
    filled = replace(filled, processes=(len(used[0]), len(used[1])))
    logs = [[math.log(run.level) for run in side] for side in used]
    ratio = point(*logs)
    if ratio is not None:
        filled = replace(filled, point=ratio, t=interval(logs[0], logs[1], level), p=pvalue(logs[0], logs[1]))
    spreads = [run.spread for side in used for run in side if run.spread is not None]
    noisy = repeats_disagree(spreads, half_width(logs[0], logs[1], level))
    found = (_unpaired(filled), *_failed(filled), _few(filled), _not_computable(filled, logs), noisy)
    return replace(filled, warnings=tuple(warning for warning in found if warning))


_VOID = EstimateWarning(
    "no-log-ratio",
    "A value has no logarithm, so nothing is computed: leaving its process out would select by result.",
)


def _usable(
    estimate: Estimate, arm: str, process: int, values: Mapping[Level, RunValue], missing: Mapping[RunKey, str]
) -> tuple[RunValue | None, str]:
    """A process's value, and why it cannot be used; one that is there and has no logarithm has both."""
    reason = missing.get((estimate.case, process, arm))
    if reason:
        return None, reason
    value = values.get((estimate.case, estimate.metric, arm, process))
    if value is None:
        return None, f"the record has no {estimate.metric} of this run"
    usable = math.isfinite(value.level) and value.level > 0
    return value, "" if usable else f"{estimate.metric} is {value.level:g}"


def _unpaired(estimate: Estimate) -> EstimateWarning:
    n, m = estimate.processes
    if not n and not m and not estimate.missing:
        return EstimateWarning("unpaired", "No blocks are known, and no process either.")
    return EstimateWarning(
        "unpaired",
        "No blocks are known, so arms were not paired: anything that changed between the processes of one arm and the "
        f"other is in this ratio. The interval {'is' if estimate.t else 'would be'} Welch's t on {n} and {m} processes.",
    )


def _failed(estimate: Estimate) -> tuple[EstimateWarning, ...]:
    """As `diagnostics.failed_runs`, of processes."""
    lost = gaps(estimate)
    if not lost:
        return ()
    use = "the estimate uses the other processes" if estimate.point is not None else "there is no estimate"
    text = f"No usable run of {gap_words(lost)}: {use}, and no claim that rests on it is supported."
    return (EstimateWarning("failed-runs", text),)


FEW = 4  # processes; with fewer in an arm, Welch's interval may miss its level


def _few(estimate: Estimate) -> EstimateWarning | None:
    """An interval of so few processes that the degrees of freedom are themselves a guess."""
    counts = dict(zip((estimate.numerator, estimate.denominator), estimate.processes, strict=True))
    few = [f"{count} of {arm}" for arm, count in counts.items() if count < FEW]
    if estimate.t is None or not few:
        return None
    return EstimateWarning(
        "few-processes",
        f"Few processes: {listed(few)}. Welch's interval then can cover less than its level, most where the other arm has many "
        "more (simulated with normal noise, beside ten processes: 90% at two and 94% at three, where it says 95%).",
    )


def _not_computable(estimate: Estimate, logs: Sequence[Logs]) -> EstimateWarning | None:
    """Why the interval, and where it is so the point too, is null."""
    if estimate.t is not None:
        return None
    counts = dict(zip((estimate.numerator, estimate.denominator), estimate.processes, strict=True))
    none, single = ([arm for arm, count in counts.items() if count == number] for number in (0, 1))
    if none:
        text = f"There is no usable process of {listed(none)}: nothing is computed."
        return EstimateWarning("no-processes", text)
    if estimate.point is None:
        return EstimateWarning("no-ratio", "The ratio reaches beyond what a double can hold: nothing is computed.")
    if single:
        has = "has a single process" if len(single) == 1 else "have a single process each"
        return EstimateWarning(
            "one-process",
            f"{listed(single)} {has}: how far processes of it differ is not known, so there is no interval and no "
            "p-value; repeats inside of a process do not tell.",
        )
    if any(intervals.has_spread(side) for side in logs):
        return EstimateWarning("no-interval", "Welch's interval reaches beyond what a double can hold.")
    return EstimateWarning(
        "no-spread",
        "All processes of each arm give the same value to 12 decimals of its logarithm: no interval and no p-value.",
    )
