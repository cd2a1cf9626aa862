"""What verifying an executed and an adopted campaign have in common, and the whole of it for one that was brought."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner import close, seal
from runner.files import digest_of, file_sha256, manifest_text
from runner.journal import read as read_journal
from runner.store import Store

_HOST_PATH = re.compile(rb"(?<![\w.{}/-])/(?:home|root|tmp|usr|opt|var|srv|Users|mnt)/[^\s'\":,)]+")


@dataclass
class Report:
    """What verifying found: problems make it fail, notes do not."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    state: str = "draft"
    seal_digest: str = ""  # of the record of adoption, for adopted logs
    files: int = 0
    deviations: dict[str, list[str]] = field(default_factory=dict)  # what differs today from what was sealed


def shown(text: str) -> str:
    """A problem as it is printed: the name of a file may hold bytes that are no text, or end the line."""
    lines = text.split("\n  ")  # of a message of our own: expected, found, what to do
    return "\n  ".join(line if line.isprintable() else ascii(line)[1:-1] for line in lines)


def verify_brought(store: Store, report: Report) -> None:
    """Check a campaign whose runs were made elsewhere: its plan, and of adopted logs every file and every run."""
    plan = store.plan()
    report.state = store.state()
    if report.state == "figures-only":
        try:
            tomllib.loads(store.published_path.read_text(encoding="utf-8"))
        except ValueError as error:
            report.problems.append(f"published.toml: not valid TOML: {error}")
        report.problems += [f"{name}: of adopted or executed runs, but their record is gone" for name in _left(store)]
        report.notes.append("published figures without raw logs: there is nothing to recompute")
        return
    record = seal.read(store)
    report.seal_digest = record.digest
    if record.content["campaign"] != plan.campaign.id:
        report.problems.append(f"adoption.json: of campaign {record.content['campaign']!r}, not {plan.campaign.id!r}")
    reading = read_journal(store.journal_path)
    kinds = [event["event"] for event in reading.events]
    if reading.torn or kinds != ["adopted", "close"]:
        report.problems.append(
            f"journal.jsonl:{len(kinds)}: expected the events adopted and close, found {', '.join(kinds) or 'none'}"
            + (" and a torn line" if reading.torn else "")
        )
        return
    _files(store, record, report)
    if report.problems:
        return
    adoption = store.adoption()
    expected = close.adopted_metrics_text(adoption.runs).encode()
    if not store.metrics_path.is_file():
        report.problems.append("metrics.csv: missing")
    elif store.metrics_path.read_bytes() != expected:
        report.problems.append("metrics.csv: not what the adopted files hold")
    closed(store, reading.events[-1], list(reading.events), report)
    report.deviations = seal.deviations(record, plan)
    report.notes += host_paths(store, [store.folder / name for name in record.content["files"]])


def _left(store: Store) -> list[str]:
    """What is here of runs in a folder of published figures alone: adoption.json or seal.json was taken away."""
    paths = (store.adopted_folder, store.runs_folder, store.orders_path, store.journal_path, store.metrics_path,
             store.manifest_path)  # fmt: skip
    return [path.name for path in paths if path.exists() or path.is_symlink()]


def _files(store: Store, record: seal.Seal, report: Report) -> None:
    """Every file is in the record, or one of the four that are written after it."""
    after = (store.adoption_path, store.journal_path, store.metrics_path)
    found = {}
    for name, path in store.files().items():
        if path not in after:
            found[name] = file_sha256(path)
    report.problems += seal.file_differences(record, found)


def host_paths(store: Store, paths: Iterable[Path]) -> list[str]:
    """Paths of a host that raw files carry; they are kept byte for byte, so that these are only noted."""
    notes = []
    for path in paths:
        match = _HOST_PATH.search(path.read_bytes()) if path.is_file() else None
        if match:
            notes.append(f"{store.relative(path)}: holds a path of the host: {match[0].decode(errors='replace')}")
    return notes


def closed(store: Store, close_event: dict[str, Any], events: list[dict[str, Any]], report: Report) -> None:
    """Check the end of a closed campaign: the journal's last line, the manifest, the digest over everything."""
    if events[-1]["event"] != "close":
        report.problems.append(f"journal.jsonl:{len(events)}: lines after the close")
    if not store.manifest_path.is_file():
        report.problems.append("MANIFEST.sha256: missing")
    if report.problems:
        return
    digests = close.manifest_digests(store)
    _manifest(store, digests, report)
    if not report.problems and digest_of(close.without_journal(store, digests)) != close_event["content_sha256"]:
        report.problems.append("journal.jsonl: the close names another content than the folder has")


def _manifest(store: Store, digests: dict[str, str], report: Report) -> None:
    expected = manifest_text(digests).splitlines(keepends=True)
    found = store.manifest_path.read_bytes().decode(errors="replace").splitlines(keepends=True)
    for number in range(max(len(expected), len(found))):
        line = found[number] if number < len(found) else "nothing"
        want = expected[number] if number < len(expected) else "nothing"
        if line == want:
            continue
        name = want.partition("  ")[2].strip()
        # Every file but the journal has been compared with seal and journal above, so that the manifest is what changed.
        other = ", or journal.jsonl was changed" if name == store.journal_path.name else ""
        report.problems.append(
            f"MANIFEST.sha256:{number + 1}: expected {want.strip()!r}, found {line.strip()!r}{other}"
        )
        return
