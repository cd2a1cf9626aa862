"""What a plan comes to: runs, orders, residual drift bias, length, detectable effect. Pure text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner import openplans, power
from runner.errors import WrongUse
from runner.orders import Labels, expand, linear, quadratic, residual_bias
from runner.pilot import Spread, Spreads, given, read
from runner.plan import Phase, Plan
from runner.plantypes import defined


@dataclass(frozen=True)
class Wanted:
    """What the schedule is asked beside: the spread between blocks, and a ratio that is to be found."""

    spreads: Spreads | None = None
    ratio: float | None = None


NOTHING = Wanted()


def asked(sd: float | None, file: Path | None, ratio: float | None) -> Wanted:
    """What the options of `plan` ask for. Raises WrongUse for options that do not go together, DataError for the pilot's file."""
    if sd is not None and file is not None:
        raise WrongUse("plan", "--sd and --pilot are both given", remedy="give one of them")
    if ratio is not None:
        if not (math.isfinite(ratio) and ratio > 0 and ratio != 1):
            raise WrongUse(
                "plan --power", "not a ratio that can be found", expected="above 0, not 1", found=f"{ratio:g}"
            )
        if sd is None and file is None:
            raise WrongUse("plan --power", "the spread between blocks is not known", remedy="give --sd or --pilot too")
    spreads = read(file) if file is not None else given(sd) if sd is not None else None
    return Wanted(spreads, ratio)


def describe(plan: Plan, wanted: Wanted = NOTHING, labels: Sequence[Labels] = ()) -> str:
    """The schedule as text; `labels` are the orders of an amended campaign, which no plan alone comes to."""
    labels = labels or expand(plan)
    minutes = sum(map(_seconds, plan.phases.values())) / 60
    lines = [
        _title(plan),
        f"{len(labels)} runs in {len(plan.phases)} phase(s), about {minutes:.1f} min of processes",
        "",
    ]
    for identifier, phase in plan.phases.items():
        lines += _phase(identifier, phase, [entry for entry in labels if entry.phase == identifier], wanted)
    return "\n".join(lines) + "\n"


def describe_open(plan: Plan, wanted: Wanted = NOTHING) -> str:
    """The schedule of a plan that leaves values open: of the phases whose order is defined, expanded by this runner."""
    labels = openplans.runs(plan)
    lines = [_title(plan), f"{len(labels)} runs in the phases whose order is defined; that order is ours", ""]
    for identifier, phase in plan.phases.items():
        lacking = openplans.without_order(plan, identifier)
        if lacking:
            lines += [f"phase {identifier}: {phase.question}", f"  undefined: {', '.join(lacking)}", ""]
        else:
            lines += _phase(identifier, phase, [entry for entry in labels if entry.phase == identifier], wanted)
    return "\n".join(lines) + "\n"


def _title(plan: Plan) -> str:
    return f"campaign {plan.campaign.id}: {plan.campaign.title}"


def _phase(identifier: str, phase: Phase, labels: Sequence[Labels], wanted: Wanted) -> list[str]:
    straight, curved = residual_bias(labels, linear), residual_bias(labels, quadratic)
    repeats = f"{phase.repeats} repeat{'s' * (phase.repeats != 1)} each"
    size = f"{len(phase.arms)} arms x {len(phase.cases)} cases x {phase.blocks} blocks = {len(labels)} runs"
    lines = [
        f"phase {identifier}: {phase.question}",
        f"  {size}, {repeats}; order seed {phase.order_seed}",
        f"  length: {_length(phase)}",
        f"  detectable effect: {_detectable(phase.blocks)}",
        *_effects(phase, wanted),
        "  residual bias of the worst pair of arms, for a drift of 1 over the phase:",
        *(f"    {case:<40} linear {straight[case]:.4f}   quadratic {curved[case]:.4f}" for case in straight),
        "  orders:",
    ]
    for case in phase.cases:
        blocks: dict[int, list[str]] = {}
        for entry in labels:
            if entry.case == case.name:
                blocks.setdefault(entry.block, []).append(entry.arm)
        lines.append(f"    {case.name:<40} " + " | ".join(" ".join(arms) for arms in blocks.values()))
    return [*lines, ""]


def _seconds(phase: Phase) -> float:
    return sum(case.expected_s for case in phase.cases) * len(phase.arms) * phase.blocks


def _length(phase: Phase) -> str:
    if not all(defined(case.expected_s) for case in phase.cases):
        return "undefined, since the plan has no estimate for each case"
    return f"about {_seconds(phase) / 60:.1f} min of processes, by the plan's own estimate for each case"


def _detectable(blocks: int) -> str:
    factor = power.detectable(blocks)
    return f"a log ratio of {factor:.4f} block standard deviations (power .8, two-sided 5%, t interval)"


def _effects(phase: Phase, wanted: Wanted) -> list[str]:
    """What the spread comes to for each case, and how many blocks the wanted ratio needs."""
    if wanted.spreads is None:
        return []
    lines = [f"  for the primary metric, {phase.primary_metric}:"]
    for case in phase.cases:
        spread = wanted.spreads.of(case.name, phase.primary_metric)
        told = _effect(phase.blocks, spread, wanted.ratio) if spread else "no spread is known"
        lines.append(f"    {case.name:<40} {told}")
    return lines


def _effect(blocks: int, spread: Spread, ratio: float | None) -> str:
    if spread.planned == 0:
        return f"block sd 0 ({spread.source}): every difference would be found"
    factor = math.exp(power.detectable(blocks) * spread.planned)
    sd = f"block sd {spread.sd:.4f} ({spread.source})"
    if spread.planned != spread.sd:
        sd += f", planned with {spread.planned:.4f}, its 80% upper bound"
    text = f"{sd}: {blocks} blocks find a ratio of {1 / factor:.4f} or {factor:.4f}"
    if ratio is None:
        return text
    needed = power.blocks_needed(ratio, spread.planned)
    many = f"{needed} blocks" if needed else f"more than {power.MOST_BLOCKS} blocks"
    return f"{text}; {ratio:g} needs {many}"
