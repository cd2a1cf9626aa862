"""Change a sealed plan in the open: `amend`.

The person edits plan.toml in place and says why. What runs rest on that were made stays as it was sealed, so that the runs before
and after can be compared; the earlier version is kept below protocol/ (`runner.protocol`, which also says how a killed
amendment is brought to its end).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runner import amended_orders, engines, execute, ledger, plandiff, planfile, protocol, seal, treekinds
from runner.amended_files import Files, old_bytes, read_new, tree_logs
from runner.errors import Refused, WrongUse
from runner.files import canonical_json, sha256
from runner.journal import Journal, utc_now
from runner.ledger import Ledger
from runner.orders import Labels
from runner.plan import Plan
from runner.protocol import Change
from runner.store import Store, orders_document

LONGEST_REASON = 2000  # characters
Say = Callable[[str], None]


@dataclass(frozen=True)
class Version:
    """A version of a campaign: its plan, and what its seal says or is to say."""

    plan: Plan
    content: dict[str, Any]


def amend(store: Store, why: str, say: Say) -> str:
    """Amend a sealed campaign. Returns the digest of the seal that is in force then.

    Raises WrongUse without a reason; Refused for a campaign that is not sealed, closed or of other makers, where nothing changed,
    where another runner is at work, and for a change that runs which were made do not allow; DataError where the earlier version
    is not there as it was sealed.
    """
    reason = checked_reason(why)
    seal.assert_executed_here(store, "amend")
    if not store.seal_path.is_file():
        raise Refused(
            str(store.folder),
            "this campaign is a draft: its plan is not sealed",
            remedy=f"edit plan.toml, then python -m runner seal {store.shown()}",
        )
    with Journal(store.journal_path) as journal:
        finished = protocol.finish(store, journal.events)
        if finished:
            say(f"amendment {finished['amendment']}, recorded at {finished['time']}, was brought to its end")
        state = ledger.fold(store.orders(), journal.events)
        old = _sealed(store, journal, state)
        new, files = _wanted(store, old, state, say)
        number = len(protocol.amended(journal.events)) + 1
        record = _record(number, reason, old, new, state)
        if not _anything(old, new):
            if finished:
                return str(finished["seal"])
            raise Refused(
                str(store.plan_path),
                "nothing changed since the seal, so that there is nothing to amend",
                remedy=f"edit plan.toml first; status says how far the campaign is: python -m runner status {store.shown()}",
            )
        for text in warnings(record):
            say(f"warning: {text}")
        digest = _commit(store, journal, record, new, files, old)
        for line in summary(record):
            say(line)
    return digest


def checked_reason(why: str) -> str:
    """A reason in one line. Raises WrongUse where there is none."""
    reason = " ".join(why.split())
    if not reason or len(reason) > LONGEST_REASON or not reason.isprintable():
        raise WrongUse(
            "--why",
            "no reason that can be shown",
            expected=f"1 to {LONGEST_REASON} printable characters",
            found=f"{len(reason)} characters" if reason else "nothing",
            remedy="say what was changed for what cause: the pages show it",
        )
    return reason


# ---- the earlier version ------------------------------------------------------------------------------


def _sealed(store: Store, journal: Journal, state: Ledger) -> Version:
    if state.closed:
        raise Refused(
            str(store.folder),
            "this campaign is closed: nothing of it can be amended any more",
            found=f"closed at {state.closed['time']}",
            remedy="start another campaign",
        )
    sealed = seal.read(store)
    named = protocol.in_force(journal.events)
    if named != sealed.digest:
        raise Refused(
            str(store.seal_path),
            "this is not the seal that the journal names",
            expected=named or "a sealed event",
            found=sealed.digest,
            remedy="restore seal.json",
        )
    data = old_bytes(store, sealed.content, len(protocol.amended(journal.events)) + 1, store.plan_path.name)
    return Version(planfile.parse(data.decode(), f"{store.plan_path} as it was sealed"), sealed.content)


# ---- the wanted version -------------------------------------------------------------------------------


def _wanted(store: Store, old: Version, state: Ledger, say: Say) -> tuple[Version, Files]:
    """The plan as it is now, everything that its seal is to say, and the bytes of its files. Raises Refused, DataError."""
    planfile.load(store.plan_path)  # says what is wrong with it, if it is not even text
    data = store.plan_path.read_bytes()
    plan = planfile.parse(data.decode(), str(store.plan_path))
    if plan.campaign.id != old.content["campaign"]:
        raise Refused(
            str(store.plan_path),
            "campaign.id was changed",
            expected=old.content["campaign"],
            found=plan.campaign.id,
            remedy="put it back; another campaign has a folder of its own",
        )
    begun = _begun(state)
    amended_orders.assert_kept(amended_orders.begun(state), plan)
    _assert_fixed(old.plan, plan, begun)
    labels = amended_orders.amended(state, old.plan, plan)
    execute.assert_same_host(store, plan)
    built = {name: treekinds.materialise(store, plan, name) for name in plan.trees}
    identities = {name: tree.identity() for name, tree in built.items()}
    _assert_trees(plan, begun, old.content["trees"], identities)
    treekinds.assert_one_harness(plan, identities)
    engine = engines.identity(plan)
    if begun and engine != old.content["engine"]:
        raise Refused(
            "engine",
            "this is not the engine that runs were made with",
            expected=str(old.content["engine"]),
            found=str(engine),
        )
    orders = canonical_json(orders_document(plan.campaign.id, labels)).encode()
    logs = tree_logs(built, old.content, identities)
    files = read_new(store, old.plan, old.content, plan, data, orders, logs, bool(begun))
    _assert_locks(store, plan, begun, old.content["files"], files.digests)
    content = {
        "format": 1,
        "campaign": plan.campaign.id,
        "sealed": utc_now(),
        "files": files.digests,
        "kept": protocol.editable(store, plan),
        "trees": identities,
        "engine": engine,
        "analysis": seal.analysis_digests(),
    }
    warnings = treekinds.warnings(plan, identities)
    for text in warnings:
        say(f"warning: {text}")
    return Version(plan, content | ({"warnings": warnings} if warnings else {})), files


def _begun(state: Ledger) -> dict[str, dict[str, Labels]]:
    """The first run of every case that has begun, by phase and case."""
    found: dict[str, dict[str, Labels]] = {}
    for block in amended_orders.begun(state):
        found.setdefault(block.phase, {}).setdefault(block.case, block.labels[0])
    return found


def _assert_fixed(old: Plan, new: Plan, begun: Mapping[str, Mapping[str, Labels]]) -> None:
    refused = plandiff.fixed(old, new, begun)
    for phase, changes in refused.items():
        first = next(iter(begun[phase].values()))
        raise Refused(
            "plan: " + ", ".join(change.path for change in changes),
            f"runs of phase {phase} rest on this, so that runs before and after could not be compared",
            expected="; ".join(f"{change.path} = {change.old or 'nothing'}" for change in changes),
            found="; ".join(f"{change.path} = {change.new or 'nothing'}" for change in changes)
            + f"; begun: {first}, sequence {first.sequence}",
            remedy="put it back, or give the change a phase of its own",
        )


def _assert_trees(
    plan: Plan, begun: Mapping[str, Mapping[str, Labels]], sealed: Mapping[str, Any], found: Mapping[str, Any]
) -> None:
    for phase, cases in begun.items():
        for tree in trees_of(plan, phase):
            difference = treekinds.difference(sealed[tree], found[tree])
            if difference:
                raise Refused(
                    f"tree {tree}",
                    f"runs of phase {phase} were made with another one",
                    found=f"{difference}; begun: {next(iter(cases.values()))}",
                    remedy="install what was sealed",
                )


def _assert_locks(
    store: Store,
    plan: Plan,
    begun: Mapping[str, Mapping[str, Labels]],
    sealed: Mapping[str, str],
    found: Mapping[str, str],
) -> None:
    """Package locks of trees, and harness files: what runs rest on, and a person may edit in place."""
    harness = [name for name in {**sealed, **found} if name.startswith("harness/")]
    for phase, cases in begun.items():
        locks = [lock for tree in trees_of(plan, phase) if (lock := getattr(plan.trees[tree], "lock", None))]
        changed = [name for name in (*locks, *harness) if sealed.get(name) != found.get(name)]
        if changed:
            raise Refused(
                store.shown(store.folder / changed[0]),
                f"runs of phase {phase} rest on this file, so that runs before and after could not be compared",
                expected=str(sealed.get(changed[0], "no such file")),
                found=f"{found.get(changed[0], 'no such file')}; begun: {next(iter(cases.values()))}",
                remedy="restore it: what was sealed lies below protocol/",
            )


def trees_of(plan: Plan, phase: str) -> list[str]:
    """The trees of a phase's arms, and of its fixture."""
    trees = [arm.tree for arm in plan.phases[phase].arms]
    fixture = plan.phases[phase].fixture
    return list(dict.fromkeys([*trees, plan.fixtures[fixture].tree] if fixture else trees))


# ---- what changed -------------------------------------------------------------------------------------


def _anything(old: Version, new: Version) -> bool:
    return any(old.content[key] != new.content[key] for key in ("files", "trees", "engine", "analysis"))


def _record(number: int, why: str, old: Version, new: Version, state: Ledger) -> dict[str, Any]:
    """An amendment's own record, its seals aside."""
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
    files = {
        "harness": below("harness/"),
        "runner": below("as-run/runner/"),
        "trees": trees,
        "engine": _changed(*({k: str(v) for k, v in version.content["engine"].items()} for version in (old, new))),
        "analysis": _changed(old.content["analysis"], new.content["analysis"]),
        "host": below("host.json"),
    }
    runs: dict[str, list[int]] = {}
    for labels in state.started:
        runs.setdefault(labels.phase, []).append(labels.sequence)
    return {
        "format": 1,
        "campaign": new.plan.campaign.id,
        "amendment": number,
        "why": why,
        "when": utc_now(),
        "changes": [asdict(change) for change in plandiff.changes(old.plan, new.plan)],
        "files": {what: [asdict(change) for change in changes] for what, changes in files.items() if changes},
        "runs_before": {
            phase: {"runs": len(numbers), "sequences": protocol.ranges(numbers)} for phase, numbers in runs.items()
        },
    }


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    return [
        Change(name, before.get(name), after.get(name))
        for name in sorted({**before, **after})
        if before.get(name) != after.get(name)
    ]


def warnings(record: Mapping[str, Any]) -> list[str]:
    """What an amendment may change and a reader has to weigh: a runner that was changed between runs."""
    runs = sum(part["runs"] for part in record["runs_before"].values())
    names = [change["path"] for change in record["files"].get("runner", ())]
    if not runs or not names:
        return []
    return [f"the runner was changed after {runs} run{'s' * (runs != 1)}, in {', '.join(names)}: the pages say so"]


def summary(record: Mapping[str, Any]) -> list[str]:
    """What an amendment changed, for the person who makes it."""
    runs = sum(part["runs"] for part in record["runs_before"].values())
    lines = [f"amendment {record['amendment']}, after {runs} runs"]
    lines += [f"  {c['path']}: {c['old'] or 'nothing'} -> {c['new'] or 'nothing'}" for c in record["changes"]]
    lines += [f"  {what}: {', '.join(c['path'] for c in changes)}" for what, changes in record["files"].items()]
    return lines if len(lines) > 1 else [*lines, "  plan.toml: comments or layout alone"]


# ---- the commit ---------------------------------------------------------------------------------------


def _commit(store: Store, journal: Journal, record: dict[str, Any], new: Version, files: Files, old: Version) -> str:
    number = record["amendment"]
    earlier = store.seal_path.read_bytes()
    content = new.content | {"amends": {"amendment": number, "seal": sha256(earlier)}}
    later = canonical_json(content).encode()
    record |= {"earlier": sha256(earlier), "later": sha256(later)}
    staged = {f"protocol/{number}/{name}": data for name, data in files.earlier(store, old.content, number).items()}
    staged[f"protocol/{number}/seal.json"] = earlier
    staged[f"protocol/{number}/{protocol.RECORD}"] = canonical_json(record).encode()
    staged |= {f"protocol/{number + 1}/{name}": files.bytes_of(store, name) for name in content["kept"]}
    staged |= files.moved(content["kept"]) | {store.seal_path.name: later}
    protocol.stage(store, number, staged)
    journal.append(
        "amended",
        amendment=number,
        why=record["why"],
        earlier=record["earlier"],
        seal=record["later"],
        files={name: sha256(data) for name, data in staged.items()},
        removed=sorted(old.content["files"].keys() - files.digests.keys()),
    )
    protocol.finish(store, journal.events)
    return str(record["later"])
