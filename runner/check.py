"""Is everything ready for a campaign here? And which commands would be executed?"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby, takewhile
from typing import Any

from runner import (
    containment,
    delay,
    engines,
    execute,
    host,
    journal,
    ledger,
    network,
    openplans,
    process,
    seal,
    treekinds,
)
from runner.errors import BenchbookError
from runner.network import Ends
from runner.openplans import Missing
from runner.orders import Labels, expand
from runner.plan import Plan
from runner.plantrees import GitTree
from runner.record import expand as expand_run
from runner.stage import INHERITED, fixture_command
from runner.store import Store


def problems(store: Store, plan: Plan, warn: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """What was looked at, and what is wrong with it ("" when nothing is); `warn` gets what only deserves attention."""
    looks: list[tuple[str, Callable[[], object]]] = [
        ("CPUs of the plan", lambda: execute.assert_cpus(plan)),
        ("programs", lambda: process.pinned("0")),
        ("engine", lambda: engines.identity(plan)),
    ]
    for identifier in plan.phases:
        # One look for all phases with the same network.
        if plan.network_of(identifier) not in [plan.network_of(other) for other in earlier(plan, identifier)]:
            looks.append((f"network of phase {identifier}", partial(network.check, plan.network_of(identifier))))
    if not store.seal_path.exists():
        looks.append(("harness", partial(seal.assert_harness, store, plan)))
    else:
        looks += [
            ("seal", lambda: seal.assert_unchanged(store, plan, list(journal.read(store.journal_path).events))),
            ("host", lambda: execute.assert_same_host(store, plan)),
        ]
    identities: dict[str, dict[str, Any]] = {}

    def make(name: str) -> None:
        identities[name] = treekinds.materialise(store, plan, name).identity()

    looks += [(f"tree {name}", partial(make, name)) for name in plan.trees]
    if any(isinstance(tree, GitTree) for tree in plan.trees.values()):
        looks.append(("one harness for all arms", lambda: treekinds.assert_one_harness(plan, identities)))
    for what, look in looks:
        try:
            look()
            yield what, ""
        except BenchbookError as error:
            yield what, str(error)
    for text in [*treekinds.warnings(plan, identities), *containment.warnings()]:
        warn(text)


def earlier(plan: Plan, phase: str) -> list[str]:
    """The phases before this one."""
    return list(takewhile(lambda name: name != phase, plan.phases))


def commands(store: Store, plan: Plan) -> Iterator[str]:
    """Every command of a whole campaign in order; what is only known then stands in braces."""
    yield from _tree_commands(plan, {})
    for identifier, runs in groupby(outstanding(store, plan), key=lambda labels: labels.phase):
        yield f"# phase {identifier}"
        yield from _stage_commands(plan, identifier, list(runs), {})


def open_commands(plan: Plan) -> Iterator[str]:
    """`commands` for a plan that leaves values open: what is not defined is named in its place."""
    missing, described = openplans.missing(plan), openplans.named(plan)
    known = openplans.runs(plan)
    yield f"# {len(missing)} values of this plan are undefined; each is named where it would stand"
    yield from _tree_commands(described, missing)
    for identifier in plan.phases:
        yield f"# phase {identifier}"
        runs = [labels for labels in known if labels.phase == identifier]
        if runs:
            yield "# the order of its runs is expanded from the plan's seed by this runner: ours, not that of who executed it"
        yield from _stage_commands(described, identifier, runs, missing)
        lacking = openplans.without_order(plan, identifier)
        if lacking:
            yield f"# not known, since they follow from {', '.join(f'{{undefined: {path}}}' for path in lacking)}"


def _tree_commands(plan: Plan, missing: Missing) -> Iterator[str]:
    for name, tree in plan.trees.items():
        yield f"# tree {name}"
        yield from map(shlex.join, treekinds.commands(tree, name, missing))


def _stage_commands(plan: Plan, phase: str, runs: list[Labels], missing: Missing) -> Iterator[str]:
    planned = plan.network_of(phase)
    net = planned.kind == "veth"
    mounts = net or (planned.kind == "loopback" and host.observe("")["details"]["root"])
    if mounts:
        yield "# network"
        yield shlex.join(network.holder_command(net=net, mounts=True))
    if net:
        yield shlex.join(network.holder_command(net=True, mounts=False))
        yield from map(shlex.join, network.setup_commands("{server}", "{client}"))
    at_server, at_client = network.prefixes("{server}", "{client}", net=net, mounts=mounts)
    address, groups = network.SERVER_ADDRESS if net else "127.0.0.1", plan.host.cpus
    ends = Ends(planned.kind, address, at_server, at_client, mounts, groups)
    if planned.delay_us:
        choice = delay.available(planned, host.observe("")["details"]["root"])
        yield f"# {delay.words(choice)}"
        yield from map(shlex.join, delay.commands(choice.method, ends, planned.delay_us, "{server}", "{client}"))
        ends = replace(ends, address=delay.server_address(choice.method, address))
    name = plan.phases[phase].fixture
    yield "# engine: start, then before every run the last two"
    commands = engines.commands(plan.engine_of(phase), ends, plan.host.cpus.server, fixture=name is not None)
    yield from map(shlex.join, commands)
    if name is not None:
        yield "# fixture, once after every start of the engine"
        places = _places(plan, plan.fixtures[name].tree)
        argv, environment = fixture_command(plan, plan.fixtures[name], places)
        yield shlex.join(_at_client(plan, ends, environment, argv))
    yield "# runs"
    for labels in runs:
        yield shlex.join(run_command(plan, labels, ends, missing))


def _places(plan: Plan, tree: str) -> dict[str, str]:
    own = treekinds.places(plan.trees[tree], f"{{tree:{tree}}}")
    return {**own, "harness": "{harness}", "output": "{output}"}


def _at_client(plan: Plan, ends: Ends, environment: dict[str, str], argv: list[str]) -> list[str]:
    settings = [f"{key}={value}" for key, value in (INHERITED | environment).items()]
    return [*ends.client, *process.pinned(plan.host.cpus.client), "env", "-i", *settings, *argv]


def run_command(plan: Plan, labels: Labels, ends: Ends, missing: Missing | None = None) -> list[str]:
    """The command of one run, with the places that the runner fills in as {python}, {harness} and {tree}."""
    tree = next(arm.tree for arm in plan.phases[labels.phase].arms if arm.name == labels.arm)
    places = _places(plan, tree) | (missing or {})
    argv, environment = expand_run(plan, plan.phases[labels.phase], labels, places)
    return _at_client(plan, ends, environment, argv)


def outstanding(store: Store, plan: Plan) -> list[Labels]:
    """Runs that are still to be executed, in order."""
    if not store.orders_path.exists():
        return list(expand(plan))
    state = ledger.fold(store.orders(), journal.read(store.journal_path).events)
    return [labels for block in state.outstanding() for labels in block.labels if labels not in state.ends]


def left_open(store: Store) -> Iterator[str]:
    """What the plan of a campaign that was executed elsewhere does not define, each with its line and key path."""
    found = store.open_plan()
    name = store.shown(store.plan_path)
    yield from (f"{name}:{line}: {path}: undefined" for line, path in found.undefined)
    phases = [phase for phase in found.plan.phases if not openplans.without_order(found.plan, phase)]
    yield f"the plan is valid; {len(found.undefined)} values are undefined, so that this campaign cannot be executed here"
    yield f"phases whose runs and order are defined: {', '.join(phases) or 'none'}"
