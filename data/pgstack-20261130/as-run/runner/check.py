"""Is everything ready for a campaign here? And which commands would be executed?"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from functools import partial

from runner import engines, execute, host, journal, ledger, network, process, seal, trees
from runner.errors import BenchbookError
from runner.network import Ends
from runner.orders import Labels, expand
from runner.plan import Plan
from runner.record import INHERITED
from runner.record import expand as expand_run
from runner.store import Store


def problems(store: Store, plan: Plan) -> Iterator[tuple[str, str]]:
    """What was looked at, and what is wrong with it ("" when nothing is)."""
    looks: list[tuple[str, Callable[[], object]]] = [
        ("CPUs of the plan", lambda: execute.assert_cpus(plan)),
        ("network", lambda: network.check(plan.network)),
        ("programs", lambda: process.pinned("0")),
        ("engine", lambda: engines.identity(plan)),
    ]
    if store.seal_path.exists():
        looks += [
            ("seal", lambda: seal.assert_unchanged(store, plan, list(journal.read(store.journal_path).events))),
            ("host", lambda: execute.assert_same_host(store, plan)),
        ]
    for name, tree in plan.trees.items():
        looks.append((f"tree {name}", partial(trees.materialise, name, tree, store.folder / tree.lock)))
    for what, look in looks:
        try:
            look()
            yield what, ""
        except BenchbookError as error:
            yield what, str(error)


def commands(store: Store, plan: Plan) -> Iterator[str]:
    """Every command of a whole campaign in order; what is only known then stands in braces."""
    for name, tree in plan.trees.items():
        yield f"# tree {name}"
        yield from map(
            shlex.join, trees.install_commands(tree, f"{{campaign}}/{tree.lock}", f"{{tree:{name}}}", "{wheels}")
        )
    net = plan.network.kind == "veth"
    mounts = net or (plan.network.kind == "loopback" and host.observe("")["details"]["root"])
    if mounts:
        yield "# network"
        yield shlex.join(network.holder_command(net=net, mounts=True))
    if net:
        yield shlex.join(network.holder_command(net=True, mounts=False))
        yield from map(shlex.join, network.setup_commands("{server}", "{client}"))
    at_server, at_client = network.prefixes("{server}", "{client}", net=net, mounts=mounts)
    ends = Ends(plan.network.kind, network.SERVER_ADDRESS if net else "127.0.0.1", at_server, at_client, mounts)
    yield "# engine: start, then before every run the last two"
    yield from map(shlex.join, engines.commands(plan, ends))
    yield "# runs"
    for labels in outstanding(store, plan):
        yield shlex.join(run_command(plan, labels, ends))


def run_command(plan: Plan, labels: Labels, ends: Ends) -> list[str]:
    """The command of one run, with the places that the runner fills in as {python}, {harness} and {tree}."""
    tree = next(arm.tree for arm in plan.phases[labels.phase].arms if arm.name == labels.arm)
    argv, environment = expand_run(
        plan,
        plan.phases[labels.phase],
        labels,
        {"python": f"{{tree:{tree}}}/bin/python", "tree": f"{{tree:{tree}}}", "harness": "{harness}"},
    )
    settings = [f"{key}={value}" for key, value in (INHERITED | environment).items()]
    return [*ends.client, *process.pinned(plan.host.cpus.client), "env", "-i", *settings, *argv]


def outstanding(store: Store, plan: Plan) -> list[Labels]:
    """Runs that are still to be executed, in order."""
    if not store.orders_path.exists():
        return list(expand(plan))
    state = ledger.fold(store.orders(), journal.read(store.journal_path).events)
    return [labels for block in state.outstanding() for labels in block.labels if labels not in state.ends]
