"""Check a campaign folder against its seal, its journal and its manifest; every problem names its file.

Any change that does not agree with seal and journal is found: of a byte, of a length, of a name, of an order, and any file,
link, pipe or empty folder that belongs to nothing. Modes, times and further names of a file do not count.

What it cannot promise:
- Against someone who rewrites everything consistently the seal's digest, committed or published before the first run, is the
  evidence; of what the seal does not hold (times, load before a block, results) the manifest's or the journal's, published at the
  close. Where nobody published one, a campaign that was made up or rewritten as a whole verifies.
- Before the close the journal's last line has none after it. A change of it that keeps its form, and a tail that was taken away
  together with what its lines tell of, look like a crash; so does a closed campaign whose last line and manifest are gone.
- The runner writes down what kernel and clocks say. A host that lies, a clock that was set, a runner that was changed before it was
  sealed, and what nobody recorded, such as campaigns that were begun and thrown away, are not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner import clock, close, ledger, protocol, seal, verify_amended
from runner.errors import BenchbookError, Refused
from runner.files import file_sha256
from runner.journal import Event
from runner.journal import read as read_journal
from runner.ledger import Ledger
from runner.orders import Labels
from runner.plan import Plan
from runner.store import EMPTY, PARTIAL, RUN_FILES, Store, labels_from
from runner.verify_brought import Report, closed, host_paths, shown, verify_brought


def verify(store: Store) -> Report:
    """Check everything that can be checked. Never raises for what is wrong with the campaign."""
    report = Report()
    try:
        _verify(store, report)
    except BenchbookError as error:
        report.problems.append(str(error))
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        record = store.adoption_path.name if store.brought else "seal.json"
        report.problems.append(f"{record} or journal.jsonl: not in the form that the runner writes: {error!r}")
    report.problems = [shown(text) for text in report.problems]
    report.files = len(store.files()) + store.manifest_path.is_file()
    return report


def assert_as_recorded(store: Store, plan: Plan, state: Ledger, events: Sequence[Event]) -> None:
    """Raise Refused when the folder holds anything else than seal and journal say: a close would be of that, for good."""
    report = Report(problems=[f"{name}: {what}" for name, what in store.odd().items()])
    if not report.problems:
        sealed = seal.read(store)
        report.problems += seal.file_differences(sealed, seal.sealed_files(store, plan))
        verify_amended.chain(store, sealed, list(events), report)
        _runs(store, state, sealed, protocol.seals_of_runs(events), report)
        _files(store, plan, state, verify_amended.names(store), report)
    if report.problems:
        raise Refused(
            str(store.folder),
            "not closed: something here is not as it was recorded",
            found="\n    ".join(report.problems[:20]),
            remedy="restore the files that were changed, move what does not belong here to another place, and run again",
        )


def _verify(store: Store, report: Report) -> None:
    odd = store.odd()
    report.problems += [f"{name}: {what}" for name, what in odd.items() if what != EMPTY]
    if report.problems:  # a pipe that nobody writes to would be read for ever, as would a link to such a place
        return
    empty = [f"{name}: {what}" for name, what in odd.items()]
    if store.brought:
        report.problems += empty
        verify_brought(store, report)
        return
    plan = store.plan()
    # Read before the journal: a runner at work writes these rows only once the journal has the run's end.
    metrics = store.metrics_path.read_bytes() if store.metrics_path.is_file() else b""
    reading = read_journal(store.journal_path)
    if not store.seal_path.exists() and not reading.events and not reading.torn:
        left = [path for path in (store.runs_folder, store.metrics_path, store.manifest_path) if path.exists()]
        if not left:
            report.notes.append("not sealed yet: there is nothing to verify")
        report.problems += [f"{path.name}: recorded, but seal.json and journal.jsonl are gone" for path in left]
        return
    if verify_amended.under_way(store, list(reading.events), report):
        return
    sealed = _seal(store, plan, list(reading.events), report)
    state = ledger.fold(store.orders(), reading.events)
    if reading.torn:  # a crash leaves one, and the next session cuts it off; nobody goes on after a close
        text = f"journal.jsonl:{len(reading.events) + 1}: torn last line"
        found = (report.problems, text) if state.closed else (report.notes, f"{text}; the next session cuts it off")
        found[0].append(found[1])
    verify_amended.planned(store, list(reading.events), report)
    _runs(store, state, sealed, protocol.seals_of_runs(reading.events), report)
    _files(store, plan, state, verify_amended.names(store), report)
    if state.closed:  # before that a runner at work, or a killed one, may just have made a folder
        report.problems += empty
    report.state = "closed" if state.closed else "running" if state.started else "sealed"
    _metrics(store, plan, state, metrics, report)
    if state.closed:
        closed(store, state.closed, list(reading.events), report)
    elif store.manifest_path.exists():
        report.problems.append(
            f"journal.jsonl:{len(reading.events) + 1}: no close, and MANIFEST.sha256 is there: its end was cut off"
        )
    report.deviations = seal.deviations(sealed, plan)
    report.notes += [f"seal.json: warning: {text}" for text in sealed.content.get("warnings", [])]
    report.notes += clock.notes(reading.events)
    report.notes += _host_paths(store, state)


def _seal(store: Store, plan: Plan, events: list[dict[str, Any]], report: Report) -> seal.Seal:
    sealed = seal.read(store)
    report.seal_digest = sealed.digest
    if not store.journal_path.is_file():
        report.problems.append("journal.jsonl: missing")
    verify_amended.chain(store, sealed, events, report)
    times = sum(event["event"] == "sealed" for event in events)
    if times > 1:
        report.notes.append(f"sealed {times} times before the first run")
    report.problems += seal.file_differences(sealed, seal.sealed_files(store, plan))
    return sealed


def _runs(store: Store, state: Ledger, sealed: seal.Seal, seals: dict[Labels, str], report: Report) -> None:
    expected = {store.run_folder(labels): labels for labels in state.ends}
    under_way = _under_way(store, state)
    for folder in store.run_folders():
        if folder not in expected and folder not in under_way:
            kind = (
                "a run that is under way" if folder.name.endswith(PARTIAL) else "a run that the journal does not know"
            )
            report.problems.append(f"{store.relative(folder)}: {kind}")
    for folder, labels in expected.items():
        if not folder.is_dir():
            report.problems.append(f"{store.relative(folder)}: the folder of this run is missing")
            continue
        _run(store, labels, state, sealed, seals[labels], report)


def _under_way(store: Store, state: Ledger) -> set[Path]:
    """Folders of runs that were started and have no end yet: half written, or whole and not in the journal yet."""
    runs = [] if state.closed else ledger.interrupted_runs(state)
    return {folder for labels in runs for folder in (store.run_folder(labels), store.partial_folder(labels))}


def _run(store: Store, labels: Labels, state: Ledger, sealed: seal.Seal, in_force: str, report: Report) -> None:
    folder, end = store.run_folder(labels), state.ends[labels]
    for name in dict.fromkeys((*RUN_FILES, *end.files)):
        path = folder / name
        if not path.is_file():
            report.problems.append(f"{store.relative(path)}: missing")
            return
        found = file_sha256(path)
        if found != end.files.get(name):
            report.problems.append(
                f"{store.relative(path)}: changed (journal {end.files.get(name, '')[:12]}, found {found[:12]})"
            )
            return
    record = store.read_run(labels)
    where = store.relative(folder / "run.json")
    if labels_from(record.get("labels"), where) != labels:
        report.problems.append(f"{where}: labels {record['labels']} in the folder of {labels}")
    if record["outcome"] != end.outcome:
        report.problems.append(f"{where}: outcome {record['outcome']!r}, the journal says {end.outcome!r}")
    if record["seal"] != in_force or record["campaign"] != sealed.content["campaign"]:
        report.problems.append(f"{where}: a record of another seal or campaign")


def _files(store: Store, plan: Plan, state: Ledger, kept: set[str], report: Report) -> None:
    """Files that belong to nothing: neither sealed, nor a run's, nor the campaign's own."""
    known = {store.relative(path) for path in (store.seal_path, store.journal_path, store.metrics_path)}
    known |= set(seal.sealed_files(store, plan)) | kept
    known |= {
        store.relative(store.run_folder(labels) / name) for labels, end in state.ends.items() for name in end.files
    }
    under_way = _under_way(store, state)
    for name, path in store.files().items():
        own = not under_way.isdisjoint(path.parents) or (not state.closed and path.match(f".*{PARTIAL}"))
        if name not in known and not own:
            report.problems.append(f"{name}: a file that belongs to nothing here")


def _metrics(store: Store, plan: Plan, state: Ledger, found: bytes, report: Report) -> None:
    """The aggregate; while a campaign is not closed its last rows may be missing."""
    name = store.metrics_path.name
    if state.closed and not store.metrics_path.is_file():
        report.problems.append(f"{name}: missing")
    elif report.problems:
        return  # raw logs that are not as recorded say nothing about the aggregate
    else:
        expected = close.metrics_text(store, plan, close.good_runs(state)).encode()
        if found != expected and (state.closed or not expected.startswith(found)):
            report.problems.append(f"{name}: not what the raw logs hold")


def _host_paths(store: Store, state: Ledger) -> list[str]:
    """Paths of the host that raw output carries; it is kept byte for byte, so they are only noted."""
    notes: list[str] = []
    for labels in state.ends:
        notes += host_paths(store, [store.run_folder(labels) / name for name in ("stdout.txt", "stderr.txt")])
    return notes
