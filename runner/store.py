"""Where things lie in a campaign folder. The only module that knows folders and file names.

Readers reach runs through `Store`, never by globbing, so that a packed store can stand in for folders.
"""

from __future__ import annotations

import json
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from runner.adoption import AdoptedRun, AdoptedValue, Adoption
from runner.adoptruns import reread
from runner.errors import DataError, WrongUse
from runner.files import escape, file_sha256, sha256
from runner.journal import Reading
from runner.journal import read as read_journal
from runner.ledger import Ledger, fold
from runner.orders import Labels
from runner.plan import Plan
from runner.planfile import OpenPlan, load_open
from runner.planfile import load as load_plan
from runner.plantypes import RUN_FILES

__all__ = [
    "EMPTY",
    "PARTIAL",
    "RUN_FILES",
    "AdoptedRun",
    "AdoptedValue",
    "Adoption",
    "Labels",
    "Ledger",
    "Store",
    "escape",
    "labels_from",
    "orders_document",
]

PARTIAL = ".partial"
EMPTY = "an empty folder"


def labels_from(document: Any, where: str) -> Labels:
    """Labels from their JSON form. Raises DataError where a field is missing, foreign or of another type."""
    types = {"phase": str, "case": str, "arm": str, "block": int, "position": int, "sequence": int}
    found = {key: type(value).__name__ for key, value in document.items()} if isinstance(document, dict) else document
    expected = {key: kind.__name__ for key, kind in types.items()}
    if found != expected:
        raise DataError(
            where,
            "labels are not complete",
            expected=str(expected),
            found=str(found),
            remedy="restore the file from where the campaign was published",
        )
    return Labels(**document)


class Store:
    """A campaign folder: names of its files, and its runs by label."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.plan_path = self.folder / "plan.toml"
        self.orders_path = self.folder / "orders.json"
        self.seal_path = self.folder / "seal.json"
        self.host_path = self.folder / "host.json"
        self.journal_path = self.folder / "journal.jsonl"
        self.metrics_path = self.folder / "metrics.csv"
        self.manifest_path = self.folder / "MANIFEST.sha256"
        self.harness_folder = self.folder / "harness"
        self.as_run_folder = self.folder / "as-run"
        self.protocol_folder = self.folder / "protocol"
        self.runs_folder = self.folder / "runs"
        self.published_path = self.folder / "published.toml"
        self.adoption_path = self.folder / "adoption.json"
        self.adopted_folder = self.folder / "adopted"
        self.restored_path = self.folder / "restored.json"

    @classmethod
    def open(cls, folder: Path) -> Store:
        """The store of an existing campaign folder. Raises WrongUse when there is no plan in it, and DataError when it is gone."""
        if not (folder / "plan.toml").is_file() and cls(folder).recorded:
            raise DataError(
                "plan.toml",
                "missing, and what was made from it is here",
                found=str(folder),
                remedy="restore the file from where the campaign was published",
            )
        if not (folder / "plan.toml").is_file():
            raise WrongUse(
                str(folder),
                "not a campaign folder",
                expected="a folder with a plan.toml",
                found="none" if folder.is_dir() else "no such folder",
                remedy="give the folder of a campaign, for example one below data/",
            )
        return cls(folder)

    def plan(self) -> Plan:
        """The validated plan. Of published figures or adopted logs it may leave values "undefined"."""
        return self.open_plan().plan if self.brought else load_plan(self.plan_path)

    def open_plan(self) -> OpenPlan:
        """The validated plan with every place where it says "undefined"."""
        return load_open(self.plan_path)

    @property
    def brought(self) -> bool:
        """Whether this campaign was executed elsewhere: figures that others published, or logs that were adopted."""
        return not self.seal_path.exists() and (self.published_path.is_file() or self.adoption_path.is_file())

    @property
    def recorded(self) -> bool:
        """Whether anything here was written by the runner, or adopted: then a plan belongs to it."""
        paths = (self.seal_path, self.journal_path, self.runs_folder, self.manifest_path, self.adoption_path)
        return any(path.exists() for path in paths)

    def state(self) -> str:
        """draft, sealed, running, closed, adopted or figures-only. Raises DataError for a broken journal."""
        if self.brought:
            return "adopted" if self.adoption_path.is_file() else "figures-only"
        if not self.seal_path.exists():
            return "draft"
        kinds = {event["event"] for event in self.journal().events}
        return "closed" if "close" in kinds else "running" if "run-start" in kinds else "sealed"

    def adoption(self) -> Adoption:
        """The runs of adopted logs. Raises DataError when there are none, or a file is not as the journal recorded."""
        if not (self.brought and self.adoption_path.is_file()):
            raise DataError(
                str(self.adoption_path),
                "no logs were taken into this campaign",
                remedy=f"python -m runner adopt DIR --into {self.shown()} --map ...",
            )
        events = self.journal().events
        named = [str(event.get("adoption")) for event in events if event["event"] == "adopted"]
        digest = file_sha256(self.adoption_path)
        if named != [digest]:
            raise _not_recorded(self.adoption_path, ", ".join(named) or "no adopted event", digest)
        content = self.read_json(self.adoption_path)
        closed = next((event for event in events if event["event"] == "close"), None)
        return replace(reread(content, digest, self._read_adopted, self.plan), closed=closed)

    def _read_adopted(self, name: str, expected: str) -> bytes:
        path = self.folder / name
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found = "no file" if data is None else sha256(data)
        if data is None or found != expected:
            raise _not_recorded(path, expected, found)
        return data

    def orders(self) -> tuple[Labels, ...]:
        """The sealed orders: every planned run."""
        document = self.read_json(self.orders_path)
        entries = document.get("runs") if isinstance(document, dict) else None
        if not isinstance(entries, list):
            raise DataError(str(self.orders_path), "no list of runs", expected='{"runs": [...]}')
        return tuple(labels_from(entry, f"{self.orders_path}: run {i}") for i, entry in enumerate(entries))

    def read_json(self, path: Path) -> Any:
        """A JSON file of the campaign. Raises DataError with the file, and the line where it breaks off."""
        try:
            return json.loads(path.read_bytes())
        except FileNotFoundError:
            raise DataError(str(path), "this file is missing", remedy="was the campaign sealed and run?") from None
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            line = getattr(error, "lineno", 1)
            raise DataError(f"{path}:{line}", "not valid JSON", found=str(error)) from None

    def journal(self) -> Reading:
        """The journal, its chain checked."""
        return read_journal(self.journal_path)

    def ledger(self) -> Ledger:
        """The state of every run, from orders and journal; of adopted logs, from their record."""
        if self.brought and self.adoption_path.is_file():
            return self.adoption().ledger()
        return fold(self.orders(), self.journal().events)

    def run_folder(self, labels: Labels) -> Path:
        """Where a run's files lie once it ended."""
        return self.runs_folder / labels.phase / escape(labels.case) / f"{labels.block}-{labels.arm}"

    def partial_folder(self, labels: Labels) -> Path:
        """Where a run's files lie while it is under way."""
        folder = self.run_folder(labels)
        return folder.with_name(folder.name + PARTIAL)

    def read_run(self, labels: Labels) -> dict[str, Any]:
        """The record of one run."""
        document = self.read_json(self.run_folder(labels) / "run.json")
        if not isinstance(document, dict):
            raise DataError(str(self.run_folder(labels) / "run.json"), "not a run's record")
        return document

    def read_stdout(self, labels: Labels, ledger: Ledger) -> bytes:
        """The raw output of a run. Raises DataError when it is not what the journal recorded at the run's end."""
        return self._read_recorded(labels, ledger, "stdout.txt").read_bytes()

    def read_output(self, labels: Labels, ledger: Ledger, name: str) -> bytes:
        """A file that a run's process wrote beside its output. Raises DataError as `read_stdout`."""
        return self._read_recorded(labels, ledger, name).read_bytes()

    def read_record(self, labels: Labels, ledger: Ledger) -> dict[str, Any]:
        """The record of an ended run. Raises DataError when it is not what the journal recorded at the run's end."""
        self._read_recorded(labels, ledger, "run.json")
        return self.read_run(labels)

    def _read_recorded(self, labels: Labels, ledger: Ledger, name: str) -> Path:
        path = self.run_folder(labels) / name
        expected = ledger.ends[labels].files.get(name, "no digest in the journal")
        found = file_sha256(path) if path.is_file() else "no file"
        if found != expected:
            raise _not_recorded(path, expected, found)
        return path

    def run_folders(self) -> Iterator[Path]:
        """Every folder that holds or should hold a run, planned or foreign, in sorted order."""
        for phase in _folders(self.runs_folder):
            for case in _folders(phase):
                yield from _folders(case)

    def files(self) -> dict[str, Path]:
        """Every file of the campaign by its relative path, the manifest aside; also links, pipes and the like."""
        return {
            path.relative_to(self.folder).as_posix(): path
            for path in sorted(self.folder.rglob("*"))
            if (path.is_symlink() or not path.is_dir()) and path != self.manifest_path
        }

    def odd(self) -> dict[str, str]:
        """What is neither a plain file nor a folder with something in it, by relative path, in words.

        Nothing of it may be in a campaign: a link's content lies elsewhere, a pipe's is gone once it was read, and neither git
        nor a manifest knows an empty folder.
        """
        found = {}
        for path in sorted(self.folder.rglob("*")):
            with suppress(FileNotFoundError):  # a runner at work has renamed it meanwhile
                what = _odd(path)
                if what:
                    found[self.relative(path)] = what
        return found

    def relative(self, path: Path) -> str:
        """A path as it is shown and recorded: relative to the campaign folder."""
        return path.relative_to(self.folder).as_posix()

    def shown(self, path: Path | None = None) -> str:
        """The campaign, or a path of it, as the user can type it: below the current directory where it is there."""
        path = path or self.folder
        here = Path.cwd()
        return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _not_recorded(path: Path, expected: str, found: str) -> DataError:
    return DataError(
        str(path),
        "not the file that the journal recorded",
        expected=expected,
        found=found,
        remedy="restore the file from where the campaign was published",
    )


def _odd(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return "a link"
    if stat.S_ISDIR(mode):
        return "" if any(path.iterdir()) else EMPTY
    return "" if stat.S_ISREG(mode) else "not a plain file"


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def orders_document(campaign: str, labels: tuple[Labels, ...]) -> dict[str, Any]:
    """The content of orders.json."""
    return {"format": 1, "campaign": campaign, "runs": [asdict(entry) for entry in labels]}
