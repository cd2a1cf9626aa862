"""What differs between two versions of a plan, by key path, and which of it runs rest on that were made. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runner.plan import Phase, Plan
from runner.protocol import Change

SHOWN = 160  # characters of a value; of a longer one its beginning and its digest are shown
_ABSENT = object()
_NAMES = ("name", "id", "unit")  # by one of these the entries of a list are told apart


def changes(old: Plan, new: Plan) -> list[Change]:
    """Every key whose value differs, with both values as JSON; entries of lists go by their names."""
    return list(_differences(_plain(old), _plain(new), ""))


def fixed(old: Plan, new: Plan, executed: Mapping[str, Iterable[str]]) -> dict[str, list[Change]]:
    """Changes of what runs rest on, by phase; `executed` names the cases that have runs, by phase.

    Phase and cases must be in both plans.
    """
    found = {}
    for phase, cases in executed.items():
        names = tuple(cases)
        differences = list(_differences(rests_on(old, phase, names), rests_on(new, phase, names), ""))
        if differences:
            found[phase] = differences
    return found


def rests_on(plan: Plan, phase: str, cases: Iterable[str]) -> dict[str, Any]:
    """Everything in a plan that decides what a run of these cases is, under its key path.

    What is another way in one phase than in the whole plan stands as the phase has it.
    """
    described, fixture = plan.phases[phase], plan.phases[phase].fixture
    trees = dict.fromkeys(arm.tree for arm in described.arms)
    if fixture:
        trees[plan.fixtures[fixture].tree] = None
    # The limits too: which runs fail by them would otherwise depend on results that were seen.
    rules = ("interruptions", "wrong_answer", "wrong_answer_exit", "run_limit_s", "output_limit_mb", "checks")
    return {
        "campaign": {"payload_seed": plan.campaign.payload_seed},
        "host": _plain(plan.host),
        "network": _plain(plan.network_of(phase)),
        "engine": _plain(plan.engine_of(phase)),
        "harness": _plain(plan.harness),
        "rules": {rule: _plain(plan.rules)[rule] for rule in rules},
        "trees": {name: _without(_plain(plan.trees[name]), "what") for name in trees},
        "fixtures": {fixture: _without(_plain(plan.fixtures[fixture]), "what")} if fixture else {},
        "phases": {phase: _of_phase(plan, phase, described, tuple(cases))},
    }


def _of_phase(plan: Plan, name: str, phase: Phase, cases: tuple[str, ...]) -> dict[str, Any]:
    whole = _plain(phase)
    return {
        **{key: whole[key] for key in ("environment", "repeats", "order_seed", "arms")},
        "fixture": phase.fixture,
        "metrics": [
            {
                **_without(_plain(metric), "scope"),
                "cases": [case for case in phase.cases_of(metric.unit) if case in cases],
            }
            for metric in phase.metrics
            if set(phase.cases_of(metric.unit)) & set(cases)
        ],
        "covariates": [{"name": covariate.name, "expected": covariate.expected} for covariate in phase.covariates],
        "cases": [
            {
                "name": case,
                "argv": phase.argv_of(case),
                "outputs": phase.outputs_of(case),
                "parameters": plan.parameters_of(name, case),
            }
            for case in cases
        ],
    }


def _plain(part: Any) -> dict[str, Any]:
    found: dict[str, Any] = part.model_dump(mode="json", exclude_none=True)
    return found


def _without(part: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in keys}


def _differences(old: Any, new: Any, path: str) -> Iterator[Change]:
    before, after = _entries(old), _entries(new)
    if before is None or after is None:
        if _text(old) != _text(new):
            yield Change(path, _short(old), _short(new))
        return
    bracket = isinstance(old, list | tuple)
    for key in dict.fromkeys((*before, *after)):
        here = f"{path}[{key}]" if bracket else f"{path}.{key}" if path else key
        yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), here)
    orders = [[key for key in keys if key in before and key in after] for keys in (before, after)]
    if orders[0] != orders[1] and (bracket or path == "phases"):  # what the order of other keys is means nothing
        yield Change(f"{path} (order)", _short(orders[0]), _short(orders[1]))


def _entries(value: Any) -> dict[str, Any] | None:
    """The parts of a table, or of a list whose entries have names; None for a value without parts."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list | tuple) or not all(isinstance(entry, dict) for entry in value):
        return None
    named = {_name(entry): entry for entry in value}
    return named if len(named) == len(value) and None not in named else None


def _name(entry: Mapping[str, Any]) -> Any:
    if "numerator" in entry and "denominator" in entry:
        return f"{entry['numerator']}/{entry['denominator']}"
    return next((entry[key] for key in _NAMES if key in entry), None)


def _text(value: Any) -> str | None:
    return None if value is _ABSENT else json.dumps(value, ensure_ascii=False)


def _short(value: Any) -> str | None:
    text = _text(value)
    if text is None or len(text) <= SHOWN:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[:SHOWN]}… ({len(text)} characters, SHA-256 {digest})"
