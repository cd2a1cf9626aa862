"""What an amendment may not change, and what its record says. Pure: `amend` raises the first violation, `verify` lists all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runner import amended_orders, plandiff, protocol, treekinds
from runner.errors import Refused
from runner.files import canonical_json, sha256
from runner.ledger import Ledger
from runner.orders import Labels
from runner.plan import Plan
from runner.protocol import Change

Begun = Mapping[str, Mapping[str, Labels]]  # the first run of every case that has begun, by phase and case


@dataclass(frozen=True)
class Version:
    """A version of a campaign: its plan, and what its seal says or is to say."""

    plan: Plan
    content: dict[str, Any]


def violations(old: Version, new: Version, state: Ledger) -> Iterator[Refused]:
    """Everything for which an amendment is refused; `state` is the campaign's under the old version."""
    yield from plan_violations(old, new.plan, state)
    # A phase that is gone was told of; what follows is of phases that are in both plans.
    known = {phase: cases for phase, cases in begun(state).items() if phase in new.plan.phases}
    yield from tree_violations(new.plan, known, old.content["trees"], new.content["trees"])
    yield from engine_violations(known, old.content["engine"], new.content["engine"])
    yield from file_violations(new.plan, known, old.content["files"], new.content["files"])


def begun(state: Ledger) -> dict[str, dict[str, Labels]]:
    """The first run of every case that has begun, by phase and case."""
    found: dict[str, dict[str, Labels]] = {}
    for block in amended_orders.begun(state):
        found.setdefault(block.phase, {}).setdefault(block.case, block.labels[0])
    return found


def plan_violations(old: Version, plan: Plan, state: Ledger) -> Iterator[Refused]:
    """Another campaign, a case with runs that is gone, a change of what its runs rest on."""
    if plan.campaign.id != old.content["campaign"]:
        yield Refused(
            "plan.toml",
            "campaign.id was changed",
            expected=old.content["campaign"],
            found=plan.campaign.id,
            remedy="put it back; another campaign has a folder of its own",
        )
    try:
        amended_orders.assert_kept(amended_orders.begun(state), plan)
    except Refused as error:
        yield error
        return
    known = begun(state)
    for phase, changes in plandiff.fixed(old.plan, plan, known).items():
        first = next(iter(known[phase].values()))
        yield Refused(
            "plan: " + ", ".join(change.path for change in changes),
            f"runs of phase {phase} rest on this, so that runs before and after could not be compared",
            expected="; ".join(f"{change.path} = {change.old or 'nothing'}" for change in changes),
            found="; ".join(f"{change.path} = {change.new or 'nothing'}" for change in changes)
            + f"; begun: {first}, sequence {first.sequence}",
            remedy="put it back, or give the change a phase of its own",
        )


def tree_violations(plan: Plan, known: Begun, sealed: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Refused]:
    """Trees that runs were made with, and that are others now."""
    for phase, cases in known.items():
        for tree in trees_of(plan, phase):
            if tree in sealed and tree in found:
                difference = treekinds.difference(sealed[tree], found[tree])
            else:
                difference = "there is none of this name in one of the seals"
            if difference:
                yield Refused(
                    f"tree {tree}",
                    f"runs of phase {phase} were made with another one",
                    found=f"{difference}; begun: {next(iter(cases.values()))}",
                    remedy="install what was sealed",
                )


def engine_violations(known: Begun, sealed: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Refused]:
    """Another engine than that of the runs that were made."""
    if known and found != sealed:
        yield Refused(
            "engine", "this is not the engine that runs were made with", expected=str(sealed), found=str(found)
        )


def file_violations(plan: Plan, known: Begun, sealed: Mapping[str, str], found: Mapping[str, str]) -> Iterator[Refused]:
    """Package locks of trees and harness files, which runs rest on and a person may edit in place; and the host."""
    fixed = [name for name in {**sealed, **found} if name.startswith("harness/")]
    for phase, cases in known.items():
        locks = [lock for tree in trees_of(plan, phase) if (lock := getattr(plan.trees[tree], "lock", None))]
        changed = [name for name in (*locks, *fixed) if sealed.get(name) != found.get(name)]
        if changed:
            yield Refused(
                changed[0],
                f"runs of phase {phase} rest on this file, so that runs before and after could not be compared",
                expected=str(sealed.get(changed[0], "no such file")),
                found=f"{found.get(changed[0], 'no such file')}; begun: {next(iter(cases.values()))}",
                remedy="restore it: what was sealed lies below protocol/",
            )
    if sealed.get("host.json") != found.get("host.json"):
        yield Refused(
            "host.json",
            "an amendment is of the host that was sealed",
            expected=str(sealed.get("host.json", "no such file")),
            found=str(found.get("host.json", "no such file")),
        )


def trees_of(plan: Plan, phase: str) -> list[str]:
    """The trees of a phase's arms, and of its fixture."""
    trees = [arm.tree for arm in plan.phases[phase].arms]
    fixture = plan.phases[phase].fixture
    return list(dict.fromkeys([*trees, plan.fixtures[fixture].tree] if fixture else trees))


# ---- what changed -------------------------------------------------------------------------------------


def record(old: Version, new: Version, state: Ledger) -> dict[str, Any]:
    """What an amendment's own record says of its changes: ``changes``, ``files`` and ``runs_before``."""
    runs: dict[str, list[int]] = {}
    for labels in state.started:
        runs.setdefault(labels.phase, []).append(labels.sequence)
    return {
        "changes": [asdict(change) for change in plandiff.changes(old.plan, new.plan)],
        "files": {
            what: [asdict(change) for change in changes] for what, changes in _files(old, new).items() if changes
        },
        "runs_before": {
            phase: {"runs": len(numbers), "sequences": protocol.ranges(numbers)} for phase, numbers in runs.items()
        },
    }


def _files(old: Version, new: Version) -> dict[str, list[Change]]:
    before, after = old.content["files"], new.content["files"]

    def below(*folders: str) -> list[Change]:
        return _changed(
            *({name: d for name, d in files.items() if name.startswith(folders)} for files in (before, after))
        )

    locks = [name for name in {**before, **after} if name not in ("plan.toml", "orders.json", "host.json")]
    locks = [name for name in locks if not name.startswith(("harness/", "as-run/runner/"))]
    trees = _changed(
        *({n: sha256(canonical_json(i).encode()) for n, i in v.content["trees"].items()} for v in (old, new))
    )
    trees += _changed({n: before[n] for n in locks if n in before}, {n: after[n] for n in locks if n in after})
    return {
        "harness": below("harness/"),
        "runner": below("as-run/runner/"),
        "trees": trees,
        "engine": _changed(*({k: str(v) for k, v in version.content["engine"].items()} for version in (old, new))),
        "analysis": _changed(old.content["analysis"], new.content["analysis"]),
        "host": below("host.json"),
    }


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    return [
        Change(name, before.get(name), after.get(name))
        for name in sorted({**before, **after})
        if before.get(name) != after.get(name)
    ]
