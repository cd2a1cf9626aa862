"""Check the versions of a campaign: the chain from the first seal over its amendments to the one in force, and protocol/."""

from __future__ import annotations

from runner import amended_orders, amended_rules, ledger, orders, protocol, seal
from runner.amended_rules import Version
from runner.errors import Refused
from runner.files import canonical_json, file_sha256, sha256
from runner.journal import Event
from runner.orders import Labels
from runner.planfile import load as load_plan
from runner.protocol import Amendment
from runner.store import PARTIAL, Store, orders_document
from runner.verify_brought import Report


def under_way(store: Store, events: list[Event], report: Report) -> bool:
    """Whether an amendment is recorded whose files are not in their places; what a killed one left is told too."""
    closed = any(event["event"] == "close" for event in events)
    for path in protocol.leftovers(store, events):
        text = (
            f"{store.relative(path)}: left by an amendment that was not recorded; the next `amend` or `run` removes it"
        )
        (report.problems if closed else report.notes).append(text)
    event = protocol.pending(store, events)
    if event is None:
        return False
    report.problems.append(
        f"{store.relative(protocol.staging(store, int(event['amendment'])))}: amendment {event['amendment']} is in the "
        f"journal and not all of its files are in their places: python -m runner amend {store.shown()} --why ... or "
        f"python -m runner run {store.shown()} moves them"
    )
    return True


def chain(store: Store, sealed: seal.Seal, events: list[Event], report: Report) -> None:
    """Every seal follows the one before, every sealed file of every version is here, nothing else is below protocol/."""
    previous, first_run = "", 0
    count = 0
    for event in events:
        where = f"journal.jsonl:{event['number']}"
        if event["event"] == "run-start":
            first_run = first_run or event["number"]
        elif event["event"] == "sealed":
            if first_run:
                report.problems.append(f"{where}: a seal made after the first run")
            if count:
                report.problems.append(f"{where}: a seal made after an amendment")
            previous = str(event["seal"])
        elif event["event"] == "amended":
            count += 1
            if event["amendment"] != count:
                report.problems.append(f"{where}: amendment {event['amendment']}, expected number {count}")
            if event["earlier"] != previous or not previous:
                report.problems.append(
                    f"{where}: amends the seal {event['earlier']}, in force was {previous or 'none'}"
                )
            previous = str(event["seal"])
    if previous != sealed.digest:
        report.problems.append(f"seal.json: its digest is {sealed.digest}, journal.jsonl names {previous or 'none'}")
    report.problems += protocol.differences(store, sealed.content, events)
    expected = protocol.expected_files(sealed.content, events)
    for name in sorted(names(store) - expected.keys()):
        if not name.split("/")[1].endswith(PARTIAL):  # of an amendment that was not recorded: `under_way` told of it
            report.problems.append(f"{name}: a file that belongs to nothing here")
    if not report.problems:
        _versions(store, sealed, events, report)
        report.notes += [words(amendment, len(amendment.before)) for amendment in protocol.amendments(store)]


def _versions(store: Store, sealed: seal.Seal, events: list[Event], report: Report) -> None:
    """Earlier seals are those that the journal names, and the files that they sealed are kept; records agree."""
    changes = protocol.amended(events)
    last = len(changes) + 1
    for number, event in enumerate(changes, start=1):
        where = f"protocol/{number}"
        path = protocol.kept_at(store, number, store.seal_path.name)
        if not path.is_file() or file_sha256(path) != event["earlier"]:
            report.problems.append(f"{where}/seal.json: not the seal that amendment {number} changed")
            continue
        earlier = store.read_json(path)
        for name, digest in earlier["files"].items():
            found = protocol.file_of(store, number, last, name)
            if not found.is_file() or file_sha256(found) != digest:
                report.problems.append(f"{where}/{name}: what was sealed is not kept")
        record = store.read_json(protocol.kept_at(store, number, protocol.RECORD))
        told = {key: record.get(key) for key in ("campaign", "amendment", "why", "earlier", "later")}
        if told != {
            "campaign": sealed.content["campaign"],
            "amendment": number,
            "why": event["why"],
            "earlier": event["earlier"],
            "later": event["seal"],
        }:
            report.problems.append(f"{where}/{protocol.RECORD}: not what the journal says of amendment {number}")
        after = store.read_json(
            store.seal_path if number + 1 == last else protocol.kept_at(store, number + 1, store.seal_path.name)
        )
        if after.get("amends") != {"amendment": number, "seal": event["earlier"]}:
            report.problems.append(f"{where}: the seal after it does not say what it amends")


def planned(store: Store, events: list[Event], report: Report) -> None:
    """Every version is one that `amend` allows, its record says what changed, and its orders are what it comes to."""
    changes = protocol.amended(events)
    if changes and report.problems:
        return  # versions that are not as recorded say nothing about the orders
    last = len(changes) + 1
    versions = [_version(store, number, last) for number in range(1, last + 1)]
    expected: tuple[Labels, ...] = orders.expand(versions[0].plan)
    for number, event in enumerate(changes, start=1):
        _compare(store, number, last, expected, report)
        state = ledger.fold(expected, events[: event["number"] - 1])
        old, new = versions[number - 1 : number + 1]
        refused = list(amended_rules.violations(old, new, state))
        report.problems += [f"protocol/{number}: an amendment that is refused: {error}" for error in refused]
        _recorded(store, number, amended_rules.record(old, new, state), report)
        try:
            expected = amended_orders.amended(state, old.plan, new.plan)
        except Refused as error:  # orders that nothing comes to
            if not refused:
                report.problems.append(f"protocol/{number}: an amendment that is refused: {error}")
            return
    _compare(store, last, last, expected, report)


def _version(store: Store, number: int, last: int) -> Version:
    if number == last:
        return Version(store.plan(), seal.read(store).content)
    plan, content = (protocol.file_of(store, number, last, path.name) for path in (store.plan_path, store.seal_path))
    return Version(load_plan(plan), store.read_json(content))


def _recorded(store: Store, number: int, expected: dict[str, object], report: Report) -> None:
    """An amendment's record says what the two versions and the journal come to."""
    path = protocol.kept_at(store, number, protocol.RECORD)
    found = store.read_json(path)
    wrong = [key for key, value in expected.items() if found.get(key) != value]
    if wrong:
        report.problems.append(
            f"{store.relative(path)}: {', '.join(wrong)}: not what plans, seals and journal say of amendment {number}"
        )


def _compare(store: Store, number: int, last: int, expected: tuple[Labels, ...], report: Report) -> None:
    path = protocol.file_of(store, number, last, store.orders_path.name)
    if number == last and store.orders() == expected:
        return
    campaign = store.folder.name
    if number < last and sha256(canonical_json(orders_document(campaign, expected)).encode()) == file_sha256(path):
        return
    report.problems.append(f"{store.relative(path)}: not what plan.toml and its seeds expand to")


def names(store: Store) -> set[str]:
    """The files below protocol/: `chain` has looked at each of them."""
    paths = store.protocol_folder.rglob("*")
    return {store.relative(path) for path in paths if path.is_file() or path.is_symlink()}


def words(amendment: Amendment, runs: int) -> str:
    """An amendment in one line, as `verify` and `status` show it."""
    return (
        f"amendment {amendment.number}, {amendment.when[:16].replace('T', ' ')} UTC, after {runs} "
        f"run{'s' * (runs != 1)}: {amendment.why}; changed {amendment.words()}"
    )
