"""From samples to estimates: run levels, blocks, ratios, intervals, warnings. Pure functions.

The estimand of a case x metric x contrast is the geometric mean over blocks of numerator / denominator, each
side the median of one run's repeats. A block counts when both arms of that contrast have a usable run in it:
a failed run of a third arm takes nothing away. A void block (a cause on the runner's side) counts for no
contrast.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis import intervals
from analysis.diagnostics import Evidence, Key, Without, add_warnings, is_steady, warnings_for
from analysis.model import Absolute, Estimate, EstimateWarning, Interval, Missing, Sample

Floats = npt.NDArray[np.float64]
Level = tuple[str, str, str, int]  # case, metric, arm, block
RunKey = tuple[str, int, str]  # case, block, arm
BlockKey = tuple[str, int]  # case, block


@dataclass(frozen=True)
class RunValue:
    """One run's value of one metric."""

    level: float  # median of the repeats; a repeat that is not finite stands for all
    spread: float | None  # sd of the logs of the repeats; None with fewer than two or one that has no log
    sequence: int


@dataclass(frozen=True)
class Design:
    """What was planned and what of it is unusable."""

    planned: Mapping[str, Sequence[int]]
    missing: Mapping[RunKey, str]
    replaced: Mapping[BlockKey, int]

    def usable(self, case: str, block: int, arm: str) -> bool:
        """Whether this run was planned, did not fail, and its block is not void."""
        planned = block in self.planned.get(case, ())
        return planned and (case, block, arm) not in self.missing and (case, block) not in self.replaced


def run_levels(samples: Iterable[Sample]) -> dict[Level, float]:
    """Median of the repeats of each run, in the metric's unit, by (case, metric, arm, block).

    Raises
    ------
    ValueError
        Samples of two phases, or two samples for one repeat; both places are named.
    """
    return {key: value.level for key, value in run_values(samples).items()}


def run_values(samples: Iterable[Sample]) -> dict[Level, RunValue]:
    """`run_levels` with what the diagnostics need beside the level."""
    repeats: dict[Level, dict[int, Sample]] = defaultdict(dict)
    first: Sample | None = None
    for sample in samples:
        first = first or sample
        if sample.phase != first.phase:
            raise ValueError(f"samples of two phases: {_place(first)} and {_place(sample)}")
        run = repeats[sample.case, sample.metric, sample.arm, sample.block]
        if sample.repeat in run:
            raise ValueError(f"one repeat twice: {_place(run[sample.repeat])} and {_place(sample)}")
        run[sample.repeat] = sample
    return {key: _run_value(tuple(run.values())) for key, run in repeats.items()}


def _place(sample: Sample) -> str:
    return (
        f"{sample.file}:{sample.line} (phase {sample.phase}, {sample.case}, block {sample.block}, "
        f"{sample.arm}, {sample.metric}, repeat {sample.repeat})"
    )


def _run_value(repeats: Sequence[Sample]) -> RunValue:
    values = sorted(sample.value for sample in repeats)
    for value in values:
        if not math.isfinite(value):
            return RunValue(value, None, repeats[0].sequence)
    spread = float(np.std(np.log(values), ddof=1)) if len(values) > 1 and values[0] > 0 else None
    return RunValue(float(np.median(values)), spread, repeats[0].sequence)


def estimates(
    samples: Iterable[Sample],
    *,
    phase: str,
    contrasts: Sequence[str],
    metrics: Sequence[str],
    cases: Sequence[str],
    planned_blocks: Mapping[str, Sequence[int]],
    missing: Mapping[RunKey, str],
    level: float,
    seed: int,
    resamples: int,
    holm_family: tuple[Sequence[str], Sequence[str]],
    primary: str = "t",
    replaced: Mapping[BlockKey, int] | None = None,
    extra: Mapping[Key, Sequence[EstimateWarning]] | None = None,
    measured: Mapping[str, Collection[str]] | None = None,
    counted: Collection[str] = (),
    ordered: bool = True,
    known: str = "planned blocks",
) -> tuple[Estimate, ...]:
    """Every estimate of a phase, in plan order: contrast, then case, then metric.

    Parameters
    ----------
    samples : iterable of Sample
        Those of other phases are not used. Of a run in ``missing`` they are not used either: a run that
        failed after two of three repeats is a failed run.
    planned_blocks : mapping of case to block numbers
        All blocks in the record, void ones and their replacements included.
    missing : mapping of (case, block, arm) to reason
        Runs that failed, are outstanding, or belong to a void block.
    replaced : mapping of (case, block) to block, optional
        Void blocks that were replaced, and the block appended for each. A void block without a replacement is
        only in ``missing``, and is a missing block like any other.
    holm_family : (metrics, contrasts)
        The family that the plan names, over all cases.
    primary : str
        The interval that leads, "t" or "percentile": the one that one-block-decides looks at.
    extra : mapping of (case, metric, contrast) to warnings, optional
        What others computed: checks, covariates, restored labels.
    measured : mapping of case to metrics, optional
        The metrics that each case measures by plan; without it every case measures all. A pair that is not
        planned has no estimate, and so is no member of a family either.
    counted : metrics
        Those that are counted outside of timing; see `diagnostics.warnings_for`, as for ``ordered`` and ``known``.

    Returns
    -------
    tuple of Estimate
        A field that cannot be computed is None, and a warning says why. ``holm_p`` is None outside of the
        family. A value that is zero, negative or not finite voids its whole estimate: leaving out its block
        would select blocks by their result.

    Raises
    ------
    ValueError
        Mixed evidence, as `run_levels` has it, or a level, seed or number of resamples that makes no sense.
        Never for a value.
    """
    values = run_values(sample for sample in samples if sample.phase == phase)
    design = Design(planned_blocks, missing, replaced or {})
    pairs = measured_pairs(cases, metrics, measured)
    keys = [(case, metric, contrast) for contrast in contrasts for case, metric in pairs]
    gathered = [_gather(Estimate(phase, *key), values, design) for key in keys]
    found = _with_percentiles([_with_points(e, evidence, level) for e, evidence in gathered], seed, resamples, level)
    warned = []
    for estimate, (_, evidence) in zip(found, gathered, strict=True):
        without = Without(_floats(estimate.ratios), primary, level, seed, resamples)
        steady = estimate.metric in counted and is_steady(evidence.logs)
        warnings = warnings_for(
            estimate,
            evidence,
            primary=primary,
            level=level,
            without=without,
            steady=steady,
            ordered=ordered,
            known=known,
        )
        foreign = _unplanned(estimate, values, design)
        warned.append(replace(estimate, warnings=warnings + foreign))
    return add_warnings(with_holm(warned, *holm_family), extra or {})


def measured_pairs(
    cases: Sequence[str], metrics: Sequence[str], measured: Mapping[str, Collection[str]] | None
) -> list[tuple[str, str]]:
    """The (case, metric) pairs that the plan measures, in plan order; all of them where it does not say."""
    return [(c, m) for c in cases for m in metrics if measured is None or m in measured.get(c, ())]


def _gather(estimate: Estimate, values: Mapping[Level, RunValue], design: Design) -> tuple[Estimate, Evidence]:
    """Blocks, ratios and missing runs of one estimate, with its evidence."""
    arms = (estimate.numerator, estimate.denominator)
    blocks: list[int] = []
    missing: list[Missing] = []
    for block in sorted(design.planned.get(estimate.case, ())):
        lost = _lost(estimate, block, values, design)
        missing += lost
        if not lost:
            blocks.append(block)
    planned = len(blocks) + len({item.block for item in missing if item.replaced_by is None})
    runs = [[values[estimate.case, estimate.metric, arm, block] for block in blocks] for arm in arms]
    levels = (_floats(run.level for run in runs[0]), _floats(run.level for run in runs[1]))
    ratios = intervals.ratios_of(*levels)
    if np.isnan(ratios).any():
        missing += _without_log(estimate, blocks, levels, ratios)
        ordered = tuple(sorted(missing, key=lambda item: item.block))
        return replace(estimate, missing=ordered), Evidence(planned=planned, no_log=True)
    evidence = Evidence(
        blocks=tuple(blocks),
        planned=planned,
        logs=np.log(ratios),
        levels=levels,
        sequences=(_floats(run.sequence for run in runs[0]), _floats(run.sequence for run in runs[1])),
        spreads=tuple(run.spread for run in (*runs[0], *runs[1]) if run.spread is not None),
    )
    return replace(estimate, blocks=tuple(blocks), ratios=tuple(ratios.tolist()), missing=tuple(missing)), evidence


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=np.float64)


def _lost(estimate: Estimate, block: int, values: Mapping[Level, RunValue], design: Design) -> list[Missing]:
    """Why a block cannot be used, arm by arm; nothing where it can."""
    case, metric, arms = estimate.case, estimate.metric, (estimate.numerator, estimate.denominator)
    if (case, block) in design.replaced:
        interrupted = [(arm, why) for (c, b, arm), why in design.missing.items() if (c, b) == (case, block)]
        interrupted.sort(key=lambda item: item[0] not in arms)  # an arm of this contrast first
        arm, why = interrupted[0] if interrupted else (arms[0], "void, no reason recorded")
        return [Missing(block, arm, why, design.replaced[case, block])]
    lost = []
    for arm in arms:
        if (case, block, arm) in design.missing:
            lost.append(Missing(block, arm, design.missing[case, block, arm]))
        elif (case, metric, arm, block) not in values:
            lost.append(Missing(block, arm, f"the record has no {metric} of this run"))
    return lost


def _without_log(
    estimate: Estimate, blocks: Sequence[int], levels: tuple[Floats, Floats], ratios: Floats
) -> list[Missing]:
    """The runs whose values have no log ratio, by name."""
    found = []
    for i in np.flatnonzero(np.isnan(ratios)).tolist():
        bad = [
            Missing(blocks[i], arm, f"{estimate.metric} is {side[i]:g}")
            for arm, side in zip((estimate.numerator, estimate.denominator), levels, strict=True)
            if not (math.isfinite(side[i]) and side[i] > 0)
        ]
        found += bad or [Missing(blocks[i], estimate.numerator, "the ratio is beyond 1e300")]
    return found


def _unplanned(estimate: Estimate, values: Mapping[Level, RunValue], design: Design) -> tuple[EstimateWarning, ...]:
    """Blocks in the samples that no plan knows are named, not used."""
    planned = design.planned.get(estimate.case, ())
    arms = (estimate.numerator, estimate.denominator)
    blocks = {b for c, m, arm, b in values if (c, m) == (estimate.case, estimate.metric) and arm in arms}
    foreign = sorted(blocks.difference(planned))
    if not foreign:
        return ()
    named = ", ".join(map(str, foreign))
    return (EstimateWarning("unplanned-runs", f"Runs of unplanned blocks are in the record and not used: {named}."),)


def _with_points(estimate: Estimate, evidence: Evidence, level: float) -> Estimate:
    """Point, range, leave-one-out, t interval and p-value."""
    if not estimate.blocks:
        return estimate
    return replace(
        estimate,
        point=intervals.geometric_mean(evidence.logs),
        range=(min(estimate.ratios), max(estimate.ratios)),
        leave_one_out=intervals.leave_one_out(evidence.logs),
        t=intervals.t_interval(evidence.logs, level),
        p=intervals.t_pvalue(evidence.logs),
    )


def _with_percentiles(found: Sequence[Estimate], seed: int, resamples: int, level: float) -> list[Estimate]:
    """Both percentile intervals, all series with the same number of blocks at once."""
    done = list(found)
    by_size: dict[int, list[int]] = defaultdict(list)
    for i, estimate in enumerate(found):
        by_size[len(estimate.blocks)].append(i)
    for size, members in by_size.items():
        ratios = _floats(r for i in members for r in found[i].ratios).reshape(len(members), size)
        sampled = intervals.percentile_sampled_many(np.log(ratios), seed, resamples, level)
        exact = intervals.percentile_exact_many(ratios, level)
        for i, ends, exact_ends in zip(members, sampled, exact, strict=True):
            done[i] = replace(done[i], percentile=_interval(ends), percentile_exact=_interval(exact_ends))
    return done


def _interval(ends: Floats) -> Interval | None:
    low, high = float(ends[0]), float(ends[1])
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def with_holm(found: Sequence[Estimate], metrics: Sequence[str], contrasts: Sequence[str]) -> tuple[Estimate, ...]:
    """``holm_p`` over the family of these metrics and contrasts; a member without a p-value says so."""
    family = [i for i, e in enumerate(found) if e.metric in metrics and e.contrast in contrasts]
    adjusted = intervals.holm([found[i].p for i in family])
    done = list(found)
    for i, p in zip(family, adjusted, strict=True):
        done[i] = replace(done[i], holm_p=p)
        if p is None:
            name = f"{done[i].case}, {done[i].metric}, {done[i].contrast}"
            text = f"Holm's family of {len(family)} skips {name}: no p-value."
            done[i] = replace(done[i], warnings=(*done[i].warnings, EstimateWarning("holm-skips", text)))
    return tuple(done)


def absolutes(
    samples: Iterable[Sample],
    *,
    phase: str,
    arms: Sequence[str],
    metrics: Sequence[str],
    cases: Sequence[str],
    planned_blocks: Mapping[str, Sequence[int]],
    missing: Mapping[RunKey, str],
    replaced: Mapping[BlockKey, int] | None = None,
    measured: Mapping[str, Collection[str]] | None = None,
) -> tuple[Absolute, ...]:
    """Median over blocks of the runs' medians, in the metric's unit: case, then metric, then arm.

    Each arm's own usable runs count, also where another arm's run failed: absolute values describe an arm,
    and are never divided by each other. None without a usable run, or where a level is not finite. ``measured``
    is as in `estimates`, and so is what it raises.
    """
    values = run_values(sample for sample in samples if sample.phase == phase)
    design = Design(planned_blocks, missing, replaced or {})
    levels: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for (case, metric, arm, block), value in values.items():
        if design.usable(case, block, arm):
            levels[case, metric, arm].append(value.level)
    return tuple(
        _absolute(case, metric, arm, levels.get((case, metric, arm), []))
        for case, metric in measured_pairs(cases, metrics, measured)
        for arm in arms
    )


def _absolute(case: str, metric: str, arm: str, levels: Sequence[float]) -> Absolute:
    usable = bool(levels) and all(map(math.isfinite, levels))
    return Absolute(case, metric, arm, float(np.median(levels)) if usable else None, len(levels))


def as_json(
    found: Iterable[Estimate],
    levels: Iterable[Absolute],
    *,
    campaign: str,
    phase: str,
    seed: int,
    resamples: int,
    primary: str,
) -> dict[str, Any]:
    """The object of ``estimates --format json``: strict JSON, null for what could not be computed."""
    return {
        "campaign": campaign,
        "phase": phase,
        "seed": seed,
        "resamples": resamples,
        "primary": primary,
        "estimates": [_estimate_json(estimate) for estimate in found],
        "absolutes": [_absolute_json(level) for level in levels],
    }


def _estimate_json(estimate: Estimate) -> dict[str, Any]:
    ends = {name: getattr(estimate, name) for name in ("t", "percentile", "percentile_exact", "range")}
    return {
        "case": estimate.case,
        "metric": estimate.metric,
        "contrast": estimate.contrast,
        "point": _number(estimate.point),
        **{name: None if pair is None else [_number(end) for end in pair] for name, pair in ends.items()},
        "leave_one_out": [_number(point) for point in estimate.leave_one_out],
        "holm_p": _number(estimate.holm_p),
        "blocks": list(estimate.blocks),
        "missing": [
            {m.unit: m.block, "arm": m.arm, "reason": m.reason, "replaced_by": m.replaced_by} for m in estimate.missing
        ],
        "warnings": [{"kind": w.kind, "text": w.text} for w in estimate.warnings],
        **({} if estimate.paired else {"paired": False, "processes": list(estimate.processes)}),
    }


def _absolute_json(level: Absolute) -> dict[str, Any]:
    return {"case": level.case, "metric": level.metric, "arm": level.arm, "value": _number(level.value)}


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
