"""What types cannot say of a plan: names that must exist, must be unique, must not collide as folders. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import quote, unquote

from runner.plan import AllBut, Claim, Phase, Plan, Short
from runner.planfields import templates, trees
from runner.plantypes import RUN_FILES, UNDEFINED, Place, Problem, defined
from runner.templates import parts

LONGEST_FOLDER = 240  # bytes; file systems end at 255, and a run under way has a suffix
MOST_RUNS = 100_000


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
    problems += _unique([(("fixtures", name), name) for name in plan.fixtures])
    problems += _unique([(("rules", "interruptions", i), name) for i, name in enumerate(plan.rules.interruptions)])
    problems += _unique([(("harness", "files", i), name) for i, name in enumerate(plan.harness.files)])
    problems += _claim_ids(plan)
    problems += trees(plan)
    if plan.short:
        problems += _short_references(plan, plan.short)
    problems += _fixtures(plan)
    problems += _foundationdb(plan)
    if plan.engine.kind == "none" and plan.network.kind != "none":
        problems.append((("network", "kind"), 'without an engine there is no network: expected "none"'))
    if plan.network.kind == "none" and plan.network.delay_us:
        problems.append((("network", "delay_us"), "without a network there is no delay: expected 0"))
    return problems


def _unique(names: Sequence[tuple[Place, str]]) -> list[Problem]:
    seen: dict[str, str] = {}
    problems: list[Problem] = []
    for path, name in names:
        if name == UNDEFINED:  # in an open plan several may be
            continue
        key = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", unquote(name)).casefold())
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
        if name not in names and defined(name):
            problems.append((here + path, f"unknown {kind} {name!r}; expected one of {', '.join(sorted(names))}"))

    for i, arm in enumerate(phase.arms):
        known(("arms", i, "tree"), "tree", arm.tree, set(plan.trees))
    for i, contrast in enumerate(phase.contrasts):
        known(("contrasts", i, "numerator"), "arm", contrast.numerator, arms)
        known(("contrasts", i, "denominator"), "arm", contrast.denominator, arms)
        if contrast.numerator == contrast.denominator:
            problems.append((here + ("contrasts", i), f"an arm against itself: {contrast.name}"))
    for i, metric in enumerate(phase.metrics):
        problems += _known_cases(metric.cases, cases, here + ("metrics", i, "cases"), "the metric is measured by none")
    known(("primary_metric",), "metric", phase.primary_metric, metrics)
    if phase.primary_metric in metrics and set(phase.cases_of(phase.primary_metric)) != cases:
        problems.append((here + ("primary_metric",), "every case must measure the primary metric"))
    for i, name in enumerate(phase.holm.metrics):
        known(("holm", "metrics", i), "metric", name, metrics)
    for i, name in enumerate(phase.holm.contrasts):
        known(("holm", "contrasts", i), "contrast", name, contrasts)
    problems += _unique([(here + ("holm", "metrics", i), name) for i, name in enumerate(phase.holm.metrics)])
    problems += _unique([(here + ("holm", "contrasts", i), name) for i, name in enumerate(phase.holm.contrasts)])
    for i, claim in enumerate(phase.claims):
        known(("claims", i, "metric"), "metric", claim.metric, metrics)
        known(("claims", i, "contrast"), "contrast", claim.contrast, contrasts)
        measuring = set(phase.cases_of(claim.metric)) if claim.metric in metrics else cases
        problems += _claim_cases(claim, measuring, here + ("claims", i, "cases"))
    problems += templates(plan, phase, here)
    problems += _outputs(phase, here)
    return problems


def _outputs(phase: Phase, here: Place) -> list[Problem]:
    """Names of files that would be the runner's own, or one file; files of a process that is not told where to write."""
    problems: list[Problem] = []
    places = [(here, phase.outputs)]
    places += [(here + ("cases", i), case.outputs or ()) for i, case in enumerate(phase.cases)]
    for place, names in places:
        problems += [
            (place + ("outputs", j), f"{name!r} is a file of the runner's own")
            for j, name in enumerate(names)
            if name.casefold() in RUN_FILES
        ]
        problems += _unique([(place + ("outputs", j), name) for j, name in enumerate(names)])
    for i, case in enumerate(phase.cases):
        texts = (*phase.argv_of(case.name), *phase.environment.values())
        told = any(name == "output" for text in texts for _, name in parts(text))
        if phase.outputs_of(case.name) and not told:
            where = here + (("cases", i, "outputs") if case.outputs is not None else ("outputs",))
            problems.append((where, f"the command of case {case.name!r} does not say where: expected {{output}} in it"))
    return problems


def _claim_cases(claim: Claim, cases: set[str], path: Place) -> list[Problem]:
    if claim.holds in ("largest", "smallest") and (isinstance(claim.cases, str | AllBut) or len(claim.cases) != 1):
        return [(path, f'"{claim.holds}" is said of one case: cases must list exactly one')]
    return _known_cases(claim.cases, cases, path, "the claim is about nothing")


def _known_cases(cases: str | AllBut | Sequence[str], known: set[str], path: Place, nothing: str) -> list[Problem]:
    """What is wrong with a choice of cases: unknown ones, one twice, none left."""
    if isinstance(cases, str):
        return []
    named, path = (cases.all_but, path + ("all_but",)) if isinstance(cases, AllBut) else (cases, path)
    problems: list[Problem] = [
        (path + (i,), f"unknown case {name!r}; expected one of {', '.join(sorted(known))}")
        for i, name in enumerate(named)
        if name not in known
    ]
    problems += [(path + (i,), f"{name!r} is there twice") for i, name in enumerate(named) if name in named[:i]]
    if isinstance(cases, AllBut) and known <= set(named):
        problems.append((path, f"every case is left out: {nothing}"))
    return problems


def _fixtures(plan: Plan) -> list[Problem]:
    problems: list[Problem] = [
        (("fixtures", name, "tree"), f"unknown tree {fixture.tree!r}; expected one of {', '.join(sorted(plan.trees))}")
        for name, fixture in plan.fixtures.items()
        if fixture.tree not in plan.trees
    ]
    for name, fixture in plan.fixtures.items():
        problems += templates(plan, fixture, ("fixtures", name))
        if name not in [phase.fixture for phase in plan.phases.values()]:
            problems.append((("fixtures", name), "no phase has this fixture"))
    for identifier, phase in plan.phases.items():
        here: Place = ("phases", identifier)
        if phase.fixture is not None and phase.fixture not in plan.fixtures:
            expected = ", ".join(sorted(plan.fixtures)) or "none is planned"
            problems.append((here + ("fixture",), f"unknown fixture {phase.fixture!r}; expected one of {expected}"))
        if plan.engine.kind == "none" and (phase.fixture or phase.engine):
            what = "fixture" if phase.fixture else "engine"
            problems.append((here + (what,), "the plan has no engine"))
        if plan.network.kind == "none" and phase.network and phase.network.delay_us:
            problems.append((here + ("network", "delay_us"), "without a network there is no delay: expected 0"))
        known = plan.fixtures[phase.fixture].parameters if phase.fixture in plan.fixtures else {}
        problems += [
            (here + ("cases", i, "parameters", name), f"is a parameter of fixture {phase.fixture!r} already")
            for i, case in enumerate(phase.cases)
            for name in case.parameters
            if name in known
        ]
    return problems


FOUNDATIONDB = {  # its settings beside the knobs, and which values each may have
    "storage_engine": "memory|ssd-2",
    # What a transaction writes in the mode "required_experimental" only a tenant's own transaction clears.
    "tenant_mode": "disabled|optional_experimental",
    **dict.fromkeys(("commit_proxies", "grv_proxies", "logs", "resolvers"), "[1-9][0-9]*"),
    **dict.fromkeys(("memory", "storage_memory", "cache_memory"), "[1-9][0-9]*(B|[KMGT]i?B)"),
}


def _foundationdb(plan: Plan) -> list[Problem]:
    """Settings that FoundationDB would not get in any form, and fixtures, which it has no way to copy."""
    if plan.engine.kind != "foundationdb":
        return []
    places: list[tuple[Place, dict[str, str]]] = [(("engine", "settings"), plan.engine.settings)]
    for identifier, phase in plan.phases.items():
        places += [(("phases", identifier, "engine", "settings"), phase.engine.settings)] if phase.engine else []
    problems: list[Problem] = []
    if defined(plan.engine.version) and not re.fullmatch("[0-9]+[.][0-9]+[.][0-9]+", plan.engine.version):
        problems.append(
            (("engine", "version"), f"expected a whole version such as 7.3.77, found {plan.engine.version!r}")
        )
    for place, settings in places:
        for name, value in settings.items():
            if not defined(value):
                continue
            values = "[^\\s;]+" if re.fullmatch("knob_[a-z0-9_]+", name) else FOUNDATIONDB.get(name)
            if values is None:
                known = ", ".join(("knob_<name>", *FOUNDATIONDB))
                problems.append(((*place, name), f"no setting of foundationdb; expected one of {known}"))
            elif not re.fullmatch(values, value):
                problems.append(((*place, name), f"expected {values}, found {value!r}"))
    for identifier, phase in plan.phases.items():
        if plan.network.kind == "loopback" and plan.network_of(identifier).delay_us:
            here: Place = ("phases", identifier) if phase.network else ()
            text = (
                'clients of foundationdb would go past a relay, which is all that "loopback" has: expected 0, or "veth"'
            )
            problems += [((*here, "network", "delay_us"), text)]
    return list(dict.fromkeys(problems)) + [
        (("phases", identifier, "fixture"), "engine foundationdb cannot copy a fixture: let each process load its data")
        for identifier, phase in plan.phases.items()
        if phase.fixture
    ]


def _sizes(plan: Plan, phase: Phase, here: Place) -> list[Problem]:
    problems: list[Problem] = []
    runs = len(phase.arms) * len(phase.cases) * phase.blocks if defined(phase.blocks) else 0
    if runs > MOST_RUNS:
        problems.append((here + ("blocks",), f"{runs} runs; expected at most {MOST_RUNS} in a phase"))
    for i, case in enumerate(phase.cases):
        known = defined(case.expected_s) and defined(plan.rules.run_limit_s)
        if known and case.expected_s > plan.rules.run_limit_s:
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
