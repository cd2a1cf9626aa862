"""The aggregate, written as runs end, and the close: the journal's last line and the manifest."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable

from runner import benchfmt, rawlog
from runner.adoption import UNKNOWN, AdoptedRun, entry
from runner.errors import DataError, Refused
from runner.files import digest_of, file_sha256, manifest_text, write_whole, writing
from runner.journal import Event, Journal
from runner.ledger import Ledger
from runner.orders import Labels
from runner.plan import Plan
from runner.store import PARTIAL, Store

COLUMNS = ("phase", "case", "arm", "block", "position", "sequence", "repeat", "metric", "value", "iterations")


def metric_rows(store: Store, plan: Plan, labels: Labels) -> list[tuple[object, ...]]:
    """The rows of one run in metrics.csv. The labels come from the plan's entry, as one value."""
    log = benchfmt.parse((store.run_folder(labels) / "stdout.txt").read_bytes())
    values = rawlog.content(log, plan.phases[labels.phase], labels.case).values
    return [
        (
            labels.phase,
            labels.case,
            labels.arm,
            labels.block,
            labels.position,
            labels.sequence,
            value.repeat,
            value.metric,
            repr(value.value),
            value.iterations,
        )
        for value in values
    ]


def append_metrics(store: Store, plan: Plan, labels: Labels) -> None:
    """Append one run's rows."""
    new = not store.metrics_path.exists()
    with writing(store.metrics_path), store.metrics_path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        writer.writerows(metric_rows(store, plan, labels))
        file.flush()
        os.fsync(file.fileno())


def metrics_text(store: Store, plan: Plan, ends: Iterable[Labels]) -> str:
    """The whole aggregate, from the runs that ended well, in the order in which they ended."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for labels in ends:
        writer.writerows(metric_rows(store, plan, labels))
    return out.getvalue()


def adopted_metrics_text(runs: Iterable[AdoptedRun]) -> str:
    """The whole aggregate of adopted logs, in the order of the record; what is not known is written so."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in runs:
        labels = entry(run)["labels"].values()
        writer.writerows(
            (
                *labels,
                value.repeat,
                value.metric,
                repr(value.value),
                UNKNOWN if value.iterations is None else value.iterations,
            )
            for value in run.values
        )
    return out.getvalue()


def good_runs(state: Ledger) -> list[Labels]:
    """The runs that have a result, in the order in which they ended."""
    return [labels for labels, end in state.ends.items() if end.outcome == "ok"]


def write_metrics(store: Store, plan: Plan, state: Ledger) -> None:
    """Write the aggregate anew from the runs: after an interruption its last rows may be missing."""
    write_whole(store.metrics_path, metrics_text(store, plan, good_runs(state)).encode())


def close(store: Store, plan: Plan, journal: Journal, state: Ledger) -> None:
    """Close a campaign: the last journal line holds one digest over all other files, the manifest every digest.

    Raises Refused while something is outstanding.
    """
    if state.closed and store.manifest_path.is_file():
        raise Refused(str(store.folder), "this campaign is closed already")
    sweep(store)
    if state.closed:
        _finish(store, state.closed)
        return
    outstanding = state.outstanding()
    if outstanding:
        block = outstanding[0]
        raise Refused(
            str(store.folder),
            f"{len(outstanding)} blocks are outstanding",
            found=f"first: phase {block.phase}, case {block.case}, block {block.number}",
            remedy=f"python -m runner run {store.shown()}",
        )
    write_metrics(store, plan, state)
    _finish(store, journal.append("close", counts=state.counts(), content_sha256=digest_of(content_digests(store))))


def _finish(store: Store, event: Event) -> None:
    """Write the manifest after the journal's close; also when the runner was killed between the two."""
    found = digest_of(content_digests(store))
    if found != event["content_sha256"]:
        raise DataError(
            str(store.folder),
            "the files are not those that the journal's close names, and there is no manifest to say which changed",
            expected=event["content_sha256"],
            found=found,
            remedy="restore the campaign from where it was published",
        )
    write_whole(store.manifest_path, manifest_text(manifest_digests(store)).encode())


def sweep(store: Store) -> None:
    """Remove what a killed runner left of a file that it was about to put in its place."""
    for leftover in store.folder.glob(f".*{PARTIAL}"):
        leftover.unlink()


def manifest_digests(store: Store) -> dict[str, str]:
    """Digest of every file but the manifest."""
    return {name: file_sha256(path) for name, path in store.files().items()}


def content_digests(store: Store) -> dict[str, str]:
    """Digest of every file but the manifest and the journal, which cannot hold its own."""
    return without_journal(store, manifest_digests(store))


def without_journal(store: Store, digests: dict[str, str]) -> dict[str, str]:
    """What the journal's close is computed over, of all digests."""
    return {name: digest for name, digest in digests.items() if name != store.journal_path.name}
