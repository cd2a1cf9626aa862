"""Which look an arm has: the same on every page of a campaign. Pure."""

from __future__ import annotations

from runner.plan import Plan


def places(plan: Plan) -> dict[str, int]:
    """The place of every arm of a campaign among the looks of `analysis.drawing`.

    Two arms of one phase never share a place. A campaign has more arms than there are looks, so arms that never meet may.
    """
    meets: dict[str, set[str]] = {}
    for phase in plan.phases.values():
        names = [arm.name for arm in phase.arms]
        for name in names:
            meets.setdefault(name, set()).update(names)
    found: dict[str, int] = {}
    for name, others in meets.items():
        taken = {found[other] for other in others if other in found}
        found[name] = next(place for place in range(len(meets)) if place not in taken)
    return found


def arm_places(plan: Plan, phase: str) -> list[str]:
    """A phase's arms at their places, for figures that take a list of arms; "" where the phase has none."""
    at = {places(plan)[arm.name]: arm.name for arm in plan.phases[phase].arms}
    return [at.get(place, "") for place in range(max(at) + 1)]
