"""Plans that leave values open: what of them can be expanded, and how what is missing is shown. Pure.

The plan of a campaign that others executed says "undefined" for what nobody here can know. Nothing stands in for it:
a phase whose order would follow from it has no order, and in a command it is named by its place in the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from runner.orders import Labels, expand
from runner.plan import Plan
from runner.plantypes import UNDEFINED, Place, defined

Missing = dict[str, str]  # name of a field in braces -> how it is shown


def shown(place: Place) -> str:
    """How a value that is not defined is shown in a command."""
    return f"{{{UNDEFINED}: {'.'.join(map(str, place))}}}"


def places(part: Any, here: Place = ()) -> Iterator[Place]:
    """Every place of a plan, or of a part of it, that is not defined."""
    if not defined(part):
        yield here
    for key, value in _inner(part):
        yield from places(value, (*here, key))


def _inner(part: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(part, BaseModel):
        yield from ((name, getattr(part, name)) for name in type(part).model_fields)
    elif isinstance(part, dict):
        yield from part.items()
    elif isinstance(part, tuple):
        yield from enumerate(part)


def named(part: Any, here: Place = ()) -> Any:
    """A plan, or a part of it, in which every value that is not defined is text that names its place."""
    if not defined(part):
        return shown(here)
    inner = {key: named(value, (*here, key)) for key, value in _inner(part)}
    if isinstance(part, BaseModel):
        return part.model_copy(update={str(key): value for key, value in inner.items()})
    if isinstance(part, dict):
        return inner
    return tuple(inner.values()) if isinstance(part, tuple) else part


def missing(plan: Plan) -> Missing:
    """Fields of templates that only name what is not defined; each stands for itself."""
    return {shown(place)[1:-1]: shown(place) for place in places(plan)}


def without_order(plan: Plan, phase: str) -> list[str]:
    """What a phase's runs and their order follow from and is not defined, by key path; empty where they can be expanded."""
    described = plan.phases[phase]
    needed: list[tuple[Place, object]] = [(("blocks",), described.blocks), (("order_seed",), described.order_seed)]
    for i, arm in enumerate(described.arms):
        needed += [(("arms", i, "name"), arm.name), (("arms", i, "tree"), arm.tree)]
    needed += [(("cases", i, "name"), case.name) for i, case in enumerate(described.cases)]
    return [".".join(map(str, ("phases", phase, *place))) for place, value in needed if not defined(value)]


def expandable(plan: Plan) -> Plan:
    """The plan with those phases alone whose runs and order are defined."""
    kept = {name: phase for name, phase in plan.phases.items() if not without_order(plan, name)}
    return plan.model_copy(update={"phases": kept})


def runs(plan: Plan) -> tuple[Labels, ...]:
    """The runs of every phase whose order is defined, in the order in which this runner would execute them."""
    return expand(expandable(plan))
