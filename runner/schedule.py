"""What a plan comes to: runs, orders, residual drift bias, length, detectable effect. Pure text."""

from __future__ import annotations

from collections.abc import Sequence

from runner import openplans
from runner.orders import Labels, expand, linear, quadratic, residual_bias
from runner.plan import Phase, Plan
from runner.plantypes import defined

# Log effect that a two-sided 5% t test finds with power .8, in units of the block sd: from the noncentral t
# distribution; tests/test_schedule.py computes them again.
DETECTABLE = {4: 2.128, 6: 1.4345, 8: 1.156, 10: 0.996, 12: 0.889, 18: 0.701, 24: 0.597}


def describe(plan: Plan) -> str:
    """The schedule as text."""
    labels = expand(plan)
    minutes = sum(map(_seconds, plan.phases.values())) / 60
    lines = [
        _title(plan),
        f"{len(labels)} runs in {len(plan.phases)} phase(s), about {minutes:.1f} min of processes",
        "",
    ]
    for identifier, phase in plan.phases.items():
        lines += _phase(identifier, phase, [entry for entry in labels if entry.phase == identifier])
    return "\n".join(lines) + "\n"


def describe_open(plan: Plan) -> str:
    """The schedule of a plan that leaves values open: of the phases whose order is defined, expanded by this runner."""
    labels = openplans.runs(plan)
    lines = [_title(plan), f"{len(labels)} runs in the phases whose order is defined; that order is ours", ""]
    for identifier, phase in plan.phases.items():
        lacking = openplans.without_order(plan, identifier)
        if lacking:
            lines += [f"phase {identifier}: {phase.question}", f"  undefined: {', '.join(lacking)}", ""]
        else:
            lines += _phase(identifier, phase, [entry for entry in labels if entry.phase == identifier])
    return "\n".join(lines) + "\n"


def _title(plan: Plan) -> str:
    return f"campaign {plan.campaign.id}: {plan.campaign.title}"


def _phase(identifier: str, phase: Phase, labels: Sequence[Labels]) -> list[str]:
    straight, curved = residual_bias(labels, linear), residual_bias(labels, quadratic)
    repeats = f"{phase.repeats} repeat{'s' * (phase.repeats != 1)} each"
    size = f"{len(phase.arms)} arms x {len(phase.cases)} cases x {phase.blocks} blocks = {len(labels)} runs"
    lines = [
        f"phase {identifier}: {phase.question}",
        f"  {size}, {repeats}; order seed {phase.order_seed}",
        f"  length: {_length(phase)}",
        f"  detectable effect: {_detectable(phase.blocks)}",
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
    factor = DETECTABLE.get(blocks)
    if factor is None:
        return f"not tabulated for {blocks} blocks"
    return f"a log ratio of {factor} block standard deviations (power .8, two-sided 5%, t interval)"
