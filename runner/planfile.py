"""Reading a plan file: every problem at once, each with file, line and key path, so that a plan is mended in one go."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runner.errors import PlanError
from runner.plan import FORMAT, AllBut, Phase, Plan, Short
from runner.toml_lines import line_of

Problem = tuple[tuple[str | int, ...], str]


def load(path: Path) -> Plan:
    """Read and validate a plan file. Raises PlanError with file, line, key path, expected and found."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise PlanError(
            str(path),
            "there is no plan here",
            expected="a plan.toml in the campaign folder",
            remedy="give the campaign's folder; `python -m runner new` makes one",
        ) from None
    except UnicodeDecodeError as error:
        raise PlanError(str(path), "not UTF-8", found=str(error), remedy="save the plan as UTF-8") from None
    return parse(text, str(path))


def parse(text: str, name: str = "plan.toml") -> Plan:
    """Validate the text of a plan; `name` is shown in errors."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(name, "not valid TOML", found=str(error), remedy="mend the line that is named") from None
    problems = _format_problem(document)
    plan = None
    if not problems:
        try:
            # Validated from JSON: strict types, while TOML's arrays may still fill tuples.
            plan = Plan.model_validate_json(json.dumps(document, default=str))
        except ValidationError as error:
            problems = _merge_unions(error)
        else:
            problems = list(_cross_checks(plan))
    if problems:
        lines = [
            f"{name}:{line_of(text, path)}: {'.'.join(map(str, path)) or 'plan'}: {message}"
            for path, message in problems
        ]
        raise PlanError(name, f"{len(lines)} problem{'s' * (len(lines) > 1)} in the plan\n  " + "\n  ".join(lines))
    assert plan is not None
    return plan


def _format_problem(document: dict[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    found = document.get("format")
    if found == FORMAT:
        return []
    return [(("format",), f"expected format = {FORMAT}, found {found!r}; this runner reads format {FORMAT} only")]


def _merge_unions(error: ValidationError) -> list[tuple[tuple[str | int, ...], str]]:
    """One message per place: pydantic reports each branch of a union on its own, with the branch in the path."""
    merged: dict[tuple[str | int, ...], list[str]] = {}
    for item in error.errors(include_url=False):
        path = tuple(part for part in item["loc"] if not _is_branch(part))
        found = "" if item["type"] in ("missing", "extra_forbidden") else f", found {_short(item['input'])}"
        message = {"missing": "this key is required", "extra_forbidden": "unknown key"}.get(item["type"], item["msg"])
        texts = merged.setdefault(path, [])
        if message + found not in texts:
            texts.append(message + found)
    return [(path, "; or ".join(texts)) for path, texts in merged.items()]


def _is_branch(part: str | int) -> bool:
    return isinstance(part, str) and bool(
        re.match(
            r"^(literal\[|tuple\[|constrained|function-|[A-Z][A-Za-z]+$|bool$|int$|float$|str$|lax|nullable)", part
        )
        and part not in ("A", "B", "N")
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _cross_checks(plan: Plan) -> list[Problem]:
    """What types cannot say: names that must exist, must be unique, must not collide as folders."""
    problems: list[Problem] = []
    for identifier, phase in plan.phases.items():
        here: tuple[str | int, ...] = ("phases", identifier)
        problems += _unique(here + ("arms",), [arm.name for arm in phase.arms])
        problems += _unique(here + ("cases",), [case.name for case in phase.cases])
        problems += _unique(here + ("metrics",), [metric.unit for metric in phase.metrics])
        problems += _unique(here + ("claims",), [claim.id for claim in phase.claims])
        problems += _unique(here + ("contrasts",), [contrast.name for contrast in phase.contrasts])
        problems += _references(plan, phase, here)
    problems += _unique(("phases",), list(plan.phases))
    claims = [
        (("phases", key, "claims", i, "id"), claim.id)
        for key, phase in plan.phases.items()
        for i, claim in enumerate(phase.claims)
    ]
    seen: set[str] = set()
    for path, claim_id in claims:
        if claim_id in seen and not any(p[:4] == path[:4] for p, _ in problems):
            problems.append((path, f"claim id {claim_id!r} is used in another phase too; ids are campaign-wide"))
        seen.add(claim_id)
    if plan.short:
        problems += _short_references(plan, plan.short)
    if plan.engine.kind == "none" and plan.network.kind != "none":
        problems.append((("network", "kind"), 'without an engine there is no network: expected "none"'))
    return problems


def _unique(path: tuple[str | int, ...], names: list[str]) -> list[Problem]:
    seen: dict[str, str] = {}
    problems: list[Problem] = []
    for index, name in enumerate(names):
        other = seen.setdefault(name.casefold(), name)
        if other != name or names.index(name) != index:
            same = "is there twice" if other == name else f"differs from {other!r} only in case"
            problems.append((path + (index,) if path != ("phases",) else path + (name,), f"{name!r} {same}"))
    return problems


def _references(plan: Plan, phase: Phase, here: tuple[str | int, ...]) -> list[Problem]:
    arms = {arm.name for arm in phase.arms}
    cases = {case.name for case in phase.cases}
    metrics = {metric.unit for metric in phase.metrics}
    contrasts = {contrast.name for contrast in phase.contrasts}
    problems: list[Problem] = []

    def known(path: tuple[str | int, ...], kind: str, name: str, names: set[str]) -> None:
        if name not in names:
            problems.append((here + path, f"unknown {kind} {name!r}; expected one of {', '.join(sorted(names))}"))

    for i, arm in enumerate(phase.arms):
        known(("arms", i, "tree"), "tree", arm.tree, set(plan.trees))
    for i, contrast in enumerate(phase.contrasts):
        known(("contrasts", i, "numerator"), "arm", contrast.numerator, arms)
        known(("contrasts", i, "denominator"), "arm", contrast.denominator, arms)
        if contrast.numerator == contrast.denominator:
            problems.append((here + ("contrasts", i), f"an arm against itself: {contrast.name}"))
    known(("primary_metric",), "metric", phase.primary_metric, metrics)
    for name in phase.holm.metrics:
        known(("holm", "metrics"), "metric", name, metrics)
    for name in phase.holm.contrasts:
        known(("holm", "contrasts"), "contrast", name, contrasts)
    for i, claim in enumerate(phase.claims):
        known(("claims", i, "metric"), "metric", claim.metric, metrics)
        known(("claims", i, "contrast"), "contrast", claim.contrast, contrasts)
        named = claim.cases.all_but if isinstance(claim.cases, AllBut) else claim.cases
        for name in () if isinstance(named, str) else named:
            known(("claims", i, "cases"), "case", name, cases)
    return problems


def _short_references(plan: Plan, short: Short) -> list[Problem]:
    problems: list[Problem] = []
    for identifier, names in short.cases.items():
        phase = plan.phases.get(identifier)
        if phase is None:
            problems.append((("short", "cases", identifier), f"unknown phase {identifier!r}"))
            continue
        cases = {case.name for case in phase.cases}
        problems += [
            (("short", "cases", identifier), f"unknown case {name!r} of phase {identifier}")
            for name in names
            if name not in cases
        ]
    return problems
