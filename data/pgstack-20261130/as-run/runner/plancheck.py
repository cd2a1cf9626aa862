"""What types cannot say of a plan: names that must exist, must be unique, must not collide as folders. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import quote, unquote

from runner.plan import AllBut, Claim, Phase, Plan, Short

Place = tuple[str | int, ...]
Problem = tuple[Place, str]

LONGEST_FOLDER = 240  # bytes; file systems end at 255, and a run under way has a suffix
MOST_RUNS = 100_000
OWN_NAMES = frozenset(
    ("plan.toml", "orders.json", "seal.json", "host.json", "journal.jsonl", "metrics.csv", "MANIFEST.sha256")
    + ("runs", "harness", "as-run", "protocol")
)


def cross_checks(plan: Plan) -> list[Problem]:
    """Everything that is wrong between the parts of a plan, each with its key path."""
    problems: list[Problem] = []
    for identifier, phase in plan.phases.items():
        here: Place = ("phases", identifier)
        problems += _names(phase, here)
        problems += _references(plan, phase, here)
        problems += _sizes(plan, phase, here)
    problems += _unique([(("phases", name), name) for name in plan.phases])
    problems += _unique([(("trees", name), name) for name in plan.trees])
    problems += _unique([(("harness", "files", i), name) for i, name in enumerate(plan.harness.files)])
    problems += _claim_ids(plan)
    problems += _lock_paths(plan)
    if plan.short:
        problems += _short_references(plan, plan.short)
    if plan.engine.kind == "none" and plan.network.kind != "none":
        problems.append((("network", "kind"), 'without an engine there is no network: expected "none"'))
    return problems


def _unique(names: Sequence[tuple[Place, str]]) -> list[Problem]:
    seen: dict[str, str] = {}
    problems: list[Problem] = []
    for path, name in names:
        key = unicodedata.normalize("NFKC", unquote(name)).casefold()
        if key in seen:
            other = seen[key]
            same = "is there twice"
            if other != name:
                same = f"differs from {other!r} only in case, or in how a character is written"
            problems.append((path, f"{name!r} {same}"))
        seen.setdefault(key, name)
    return problems


def _names(phase: Phase, here: Place) -> list[Problem]:
    problems: list[Problem] = []
    problems += _unique([(here + ("arms", i, "name"), arm.name) for i, arm in enumerate(phase.arms)])
    problems += _unique([(here + ("cases", i, "name"), case.name) for i, case in enumerate(phase.cases)])
    problems += _unique([(here + ("metrics", i, "unit"), metric.unit) for i, metric in enumerate(phase.metrics)])
    problems += _unique([(here + ("contrasts", i), contrast.name) for i, contrast in enumerate(phase.contrasts)])
    problems += _unique([(here + ("covariates", i, "name"), entry.name) for i, entry in enumerate(phase.covariates)])
    names = {case.name for case in phase.cases}
    for i, case in enumerate(phase.cases):
        path = here + ("cases", i, "name")
        if len(quote(case.name, safe="")) > LONGEST_FOLDER:
            problems.append((path, f"{case.name[:40]!r}... is too long for the name of a folder"))
        shorter = re.sub(r"-[1-9][0-9]*$", "", case.name)
        if shorter != case.name and shorter in names:
            problems.append(
                (path, f"results of {case.name!r} could be results of {shorter!r} with a GOMAXPROCS suffix")
            )
    for i, arm in enumerate(phase.arms):
        if arm.name.endswith(".partial"):
            problems.append((here + ("arms", i, "name"), f"{arm.name!r} ends like the folder of a run under way"))
    return problems


def _references(plan: Plan, phase: Phase, here: Place) -> list[Problem]:
    arms = {arm.name for arm in phase.arms}
    cases = {case.name for case in phase.cases}
    metrics = {metric.unit for metric in phase.metrics}
    contrasts = {contrast.name for contrast in phase.contrasts}
    problems: list[Problem] = []

    def known(path: Place, kind: str, name: str, names: set[str]) -> None:
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
    for i, name in enumerate(phase.holm.metrics):
        known(("holm", "metrics", i), "metric", name, metrics)
    for i, name in enumerate(phase.holm.contrasts):
        known(("holm", "contrasts", i), "contrast", name, contrasts)
    problems += _unique([(here + ("holm", "metrics", i), name) for i, name in enumerate(phase.holm.metrics)])
    problems += _unique([(here + ("holm", "contrasts", i), name) for i, name in enumerate(phase.holm.contrasts)])
    for i, claim in enumerate(phase.claims):
        known(("claims", i, "metric"), "metric", claim.metric, metrics)
        known(("claims", i, "contrast"), "contrast", claim.contrast, contrasts)
        problems += _claim_cases(claim, cases, here + ("claims", i, "cases"))
    return problems


def _claim_cases(claim: Claim, cases: set[str], path: Place) -> list[Problem]:
    if claim.holds in ("largest", "smallest") and (isinstance(claim.cases, str | AllBut) or len(claim.cases) != 1):
        return [(path, f'"{claim.holds}" is said of one case: cases must list exactly one')]
    if isinstance(claim.cases, str):
        return []
    named, path = (claim.cases.all_but, path + ("all_but",)) if isinstance(claim.cases, AllBut) else (claim.cases, path)
    problems: list[Problem] = [
        (path + (i,), f"unknown case {name!r}; expected one of {', '.join(sorted(cases))}")
        for i, name in enumerate(named)
        if name not in cases
    ]
    problems += [(path + (i,), f"{name!r} is there twice") for i, name in enumerate(named) if name in named[:i]]
    if isinstance(claim.cases, AllBut) and cases <= set(named):
        problems.append((path, "every case is left out: the claim is about nothing"))
    return problems


def _sizes(plan: Plan, phase: Phase, here: Place) -> list[Problem]:
    problems: list[Problem] = []
    runs = len(phase.arms) * len(phase.cases) * phase.blocks
    if runs > MOST_RUNS:
        problems.append((here + ("blocks",), f"{runs} runs; expected at most {MOST_RUNS} in a phase"))
    for i, case in enumerate(phase.cases):
        if case.expected_s > plan.rules.run_limit_s:
            problems.append(
                (
                    here + ("cases", i, "expected_s"),
                    f"expected at most the limit of a run, rules.run_limit_s = {plan.rules.run_limit_s:g}, "
                    f"found {case.expected_s:g}",
                )
            )
    return problems


def _claim_ids(plan: Plan) -> list[Problem]:
    return [
        (path, f"claim id {message}; ids are campaign-wide")
        for path, message in _unique(
            [
                (("phases", name, "claims", i, "id"), claim.id)
                for name, phase in plan.phases.items()
                for i, claim in enumerate(phase.claims)
            ]
        )
    ]


def _lock_paths(plan: Plan) -> list[Problem]:
    return [
        (("trees", name, "lock"), f"{tree.lock!r} is a place of the runner's own")
        for name, tree in plan.trees.items()
        if tree.lock.split("/")[0] in OWN_NAMES
    ]


def _short_references(plan: Plan, short: Short) -> list[Problem]:
    problems: list[Problem] = []
    for identifier, names in short.cases.items():
        here: Place = ("short", "cases", identifier)
        phase = plan.phases.get(identifier)
        if phase is None:
            problems.append((here, f"unknown phase {identifier!r}; expected one of {', '.join(plan.phases)}"))
            continue
        cases = [case.name for case in phase.cases]
        problems += [
            (here + (i,), f"unknown case {name!r} of phase {identifier}; expected one of {', '.join(cases)}")
            for i, name in enumerate(names)
            if name not in cases
        ]
        problems += _unique([(here + (i,), name) for i, name in enumerate(names)])
    if not short.cases:
        problems.append((("short", "cases"), "no phase is left"))
    return problems
