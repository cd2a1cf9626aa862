"""What a plan's commands may say, and what its trees may name: fields, places and files that must exist. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from runner.plan import Arm, Fixture, Phase, Plan
from runner.plantrees import GitTree, PackagesTree, ProgramsTree
from runner.plantypes import Place, Problem
from runner.templates import BUILD_FIELDS, FIXTURE_FIELDS, RUN_FIELDS, TREE_FIELDS, parts, unknown_fields

OWN_NAMES = frozenset(
    ("plan.toml", "orders.json", "seal.json", "host.json", "journal.jsonl", "metrics.csv", "MANIFEST.sha256")
    + ("runs", "harness", "as-run", "protocol", "published.toml", "adoption.json", "adopted")
)


def templates(plan: Plan, part: Phase | Fixture, here: Place) -> list[Problem]:
    """Fields that the runner does not fill in, or not for every arm and case that they are for."""
    return [
        (path, problem) for path, field, cases in _fields(part, here) if (problem := _wrong(plan, part, field, cases))
    ]


def _fields(part: Phase | Fixture, here: Place) -> Iterator[tuple[Place, str, list[str]]]:
    """Every field of a part's commands, where it is, and the cases that it is filled in for."""
    shared: list[str] = []
    texts: list[tuple[Place, str, list[str]]] = []
    if isinstance(part, Phase):
        shared = [case.name for case in part.cases if case.argv is None]
        for i, case in enumerate(part.cases):
            texts += [(here + ("cases", i, "argv", j), text, [case.name]) for j, text in enumerate(case.argv or ())]
    every = [case.name for case in part.cases] if isinstance(part, Phase) else []
    texts += [(here + ("argv", i), text, shared) for i, text in enumerate(part.argv)]
    texts += [(here + ("environment", name), text, every) for name, text in part.environment.items()]
    for path, text, cases in texts:
        for _, field in parts(text):
            if field is not None:
                yield path, field, cases


def _wrong(plan: Plan, part: Phase | Fixture, field: str, cases: Sequence[str]) -> str:
    """What is wrong with a field; empty when nothing is."""
    common = RUN_FIELDS if isinstance(part, Phase) else FIXTURE_FIELDS
    table, _, name = field.partition(".")
    named = {arm.name: arm.tree for arm in part.arms} if isinstance(part, Phase) else {"the fixture": part.tree}
    kinds = {who: plan.trees[tree].kind for who, tree in named.items() if tree in plan.trees}
    known = common.union(*(TREE_FIELDS[kind] for kind in kinds.values()))
    if field in common:
        return ""
    if any(field in fields for fields in TREE_FIELDS.values()):
        without = [(who, kind) for who, kind in kinds.items() if field not in TREE_FIELDS[kind]]
        return f"{without[0][0]!r} has a tree of kind {without[0][1]!r}, which has no {{{field}}}" if without else ""
    if table == "parameters" and name:
        return next((f"{who} has no parameter {name!r}" for who in _lacking(plan, part, name, cases)), "")
    if table == "switches" and name and isinstance(part, Phase):
        return next((problem for arm in part.arms if (problem := _switch(arm, name))), "")
    return f"unknown field {{{field}}}; expected one of {', '.join(sorted(known))}"


def _switch(arm: Arm, name: str) -> str:
    """What is wrong with a switch as a single value."""
    if name not in arm.switches:
        return f"arm {arm.name!r} has no switch {name!r}"
    words = isinstance(arm.switches[name], tuple)
    return (
        f"switch {name!r} of arm {arm.name!r} is a list of words, no single value: give {{switches}}" if words else ""
    )


def _lacking(plan: Plan, part: Phase | Fixture, name: str, cases: Sequence[str]) -> list[str]:
    """Who does not have a parameter."""
    if name == "payload_seed":
        return []
    if isinstance(part, Fixture):
        return [] if name in part.parameters else ["the fixture"]
    shared: Mapping[str, object] = plan.fixtures[part.fixture].parameters if part.fixture in plan.fixtures else {}
    return [
        f"case {case.name!r}"
        for case in part.cases
        if case.name in cases and name not in shared and name not in case.parameters
    ]


def trees(plan: Plan) -> list[Problem]:
    """Everything that is wrong with the trees of a plan."""
    problems: list[Problem] = []
    for name, tree in plan.trees.items():
        here: Place = ("trees", name)
        if isinstance(tree, PackagesTree):
            if tree.lock.split("/")[0] in OWN_NAMES:
                problems.append((here + ("lock",), f"{tree.lock!r} is a place of the runner's own"))
        elif isinstance(tree, ProgramsTree):
            problems += _programs_tree(plan, name, tree)
        else:
            problems += _git_tree(plan, tree, here)
    return problems


def _programs_tree(plan: Plan, name: str, tree: ProgramsTree) -> list[Problem]:
    here: Place = ("trees", name)
    problems: list[Problem] = [
        (here + ("programs", i), f"{program!r} is there twice")
        for i, program in enumerate(tree.programs)
        if program in tree.programs[:i]
    ]
    problems += [
        (
            here + ("version", i, 0),
            f"expected one of this tree's programs, {', '.join(tree.programs)}, found {argv[0]!r}",
        )
        for i, argv in enumerate(tree.version)
        if argv[0] not in tree.programs
    ]
    problems += [
        (
            ("phases", identifier, "environment", "PATH"),
            f"the programs of tree {name!r} are looked for in every run's own PATH; expected none here, "
            "and a program elsewhere by its whole path",
        )
        for identifier, phase in plan.phases.items()
        if "PATH" in phase.environment and name in [arm.tree for arm in phase.arms]
    ]
    return problems


def _git_tree(plan: Plan, tree: GitTree, here: Place) -> list[Problem]:
    problems: list[Problem] = []
    texts = [(here + ("build", i), text, BUILD_FIELDS) for i, text in enumerate(tree.build)]
    texts += [(here + ("environment", name), text, BUILD_FIELDS) for name, text in tree.environment.items()]
    texts += [(here + ("toolchain", i), text, frozenset[str]()) for i, text in enumerate(tree.toolchain)]
    for path, text, known in texts:
        expected = f"one of {', '.join(sorted(known))}" if known else "none here"
        problems += [(path, f"unknown field {{{field}}}; expected {expected}") for field in unknown_fields(text, known)]
    lists = [(here + ("binaries",), tree.binaries)]
    if tree.overlay:
        lists.append((here + ("overlay", "files"), tree.overlay.files))
    for path, names in lists:
        problems += [(path + (i,), f"{name!r} is there twice") for i, name in enumerate(names) if name in names[:i]]
    if tree.overlay and tree.overlay.commit is None:
        problems += [
            (
                here + ("overlay", "files", i),
                f"{name!r} is no file of the plan's harness; expected one of {', '.join(plan.harness.files)}",
            )
            for i, name in enumerate(tree.overlay.files)
            if name not in plan.harness.files
        ]
    return problems
