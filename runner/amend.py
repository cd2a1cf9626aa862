"""Change a sealed plan in the open: `amend`.

The person edits plan.toml in place and says why. What runs rest on that were made stays as it was sealed, so that the runs before
and after can be compared; the earlier version is kept below protocol/ (`runner.protocol`, which also says how a killed
amendment is brought to its end).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runner import amended_orders, amended_rules, engines, execute, ledger, planfile, protocol, seal, treekinds
from runner.amended_files import Files, old_bytes, read_new, tree_logs
from runner.amended_rules import Version
from runner.errors import Refused, WrongUse
from runner.files import canonical_json, sha256
from runner.journal import Journal, utc_now
from runner.ledger import Ledger
from runner.store import Store, orders_document

LONGEST_REASON = 2000  # characters
Say = Callable[[str], None]


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
    begun = amended_rules.begun(state)
    _refuse(amended_rules.plan_violations(old, plan, state))
    labels = amended_orders.amended(state, old.plan, plan)
    execute.assert_same_host(store, plan)
    built = {name: treekinds.materialise(store, plan, name) for name in plan.trees}
    identities = {name: tree.identity() for name, tree in built.items()}
    _refuse(amended_rules.tree_violations(plan, begun, old.content["trees"], identities))
    treekinds.assert_one_harness(plan, identities)
    engine = engines.identity(plan)
    _refuse(amended_rules.engine_violations(begun, old.content["engine"], engine))
    orders = canonical_json(orders_document(plan.campaign.id, labels)).encode()
    logs = tree_logs(built, old.content, identities)
    files = read_new(store, old.plan, old.content, plan, data, orders, logs, bool(begun))
    _refuse(amended_rules.file_violations(plan, begun, old.content["files"], files.digests))
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


def _refuse(violations: Iterable[Refused]) -> None:
    """Raise the first of them, if there is one."""
    for violation in violations:
        raise violation


# ---- what changed -------------------------------------------------------------------------------------


def _anything(old: Version, new: Version) -> bool:
    return any(old.content[key] != new.content[key] for key in ("files", "trees", "engine", "analysis"))


def _record(number: int, why: str, old: Version, new: Version, state: Ledger) -> dict[str, Any]:
    """An amendment's own record, its seals aside."""
    return {
        "format": 1,
        "campaign": new.plan.campaign.id,
        "amendment": number,
        "why": why,
        "when": utc_now(),
        **amended_rules.record(old, new, state),
    }


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
