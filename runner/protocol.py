"""Versions of a sealed campaign: what was sealed is kept below protocol/, and every amendment with it.

    protocol/1/plan.toml, ...   what a person may edit in place, as it was first sealed: the plan, locks, a harness of its own
    protocol/1/amendment.json   once it was amended: number, reason, time, what changed
    protocol/1/seal.json, ...   then also the earlier seal, and every sealed file that the amendment changed or dropped
    protocol/2/plan.toml, ...   the same of the next version; the last one is in force

An amendment is written whole into protocol/<number>.partial, each file under the name that it will have in the campaign.
The journal's line "amended", with the digest of each, is the moment from which it holds; then the files are moved
to their places. A runner that is killed before that line leaves the earlier campaign, and one that is killed after it leaves
moves that the next one makes: `settled`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.errors import DataError
from runner.files import file_sha256, fsync_folder
from runner.journal import Event, Journal
from runner.orders import Labels
from runner.plan import Plan
from runner.planfile import load as load_plan
from runner.plantrees import PackagesTree
from runner.store import PARTIAL, Store

RECORD = "amendment.json"


@dataclass(frozen=True)
class Change:
    """One thing that an amendment changed: its key path or file name, and what it was and became; None where it was not."""

    path: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class Amendment:
    """An amendment as the journal and its own record tell of it."""

    number: int
    why: str
    when: str
    line: int  # of the journal
    earlier: str  # digest of the seal before
    later: str  # and of the one that it made
    changes: tuple[Change, ...]  # of the plan, by key path
    files: Mapping[str, tuple[Change, ...]]  # harness, runner, trees, analysis -> digests by name
    before: frozenset[Labels]  # runs that had been started

    def words(self) -> str:
        """What changed, as key paths and files, in one line."""
        told = [change.path for change in self.changes]
        told += [f"{what} ({', '.join(c.path for c in files)})" for what, files in self.files.items() if files]
        return ", ".join(told) or "plan.toml (comments or layout)"


def editable(store: Store, plan: Plan) -> list[str]:
    """Names of the sealed files that a person writes, and so may edit in place."""
    own = [f"harness/{name}" for name in plan.harness.files] if plan.harness.source is None else []
    locks = [tree.lock for tree in plan.trees.values() if isinstance(tree, PackagesTree)]
    return list(dict.fromkeys((store.relative(store.plan_path), *locks, *own)))


# ---- what the journal says ----------------------------------------------------------------------------


def amended(events: Iterable[Event]) -> list[Event]:
    """The amendments among a journal's events."""
    return [event for event in events if event["event"] == "amended"]


def in_force(events: Iterable[Event]) -> str:
    """The digest of the seal that holds after these events; "" before the first."""
    named = [str(event["seal"]) for event in events if event["event"] in ("sealed", "amended")]
    return named[-1] if named else ""


def seals_of_runs(events: Iterable[Event]) -> dict[Labels, str]:
    """For every run that was started, the digest of the seal that was in force then."""
    seals, now = {}, ""
    for event in events:
        if event["event"] in ("sealed", "amended"):
            now = str(event["seal"])
        elif event["event"] == "run-start":
            seals[Labels(**event["labels"])] = now
    return seals


def amendments(store: Store) -> tuple[Amendment, ...]:
    """Every amendment of a campaign, in order. Raises DataError for a record that is not there or not complete."""
    found, started = [], set[Labels]()
    for event in store.journal().events:
        if event["event"] == "run-start":
            started.add(Labels(**event["labels"]))
        elif event["event"] == "amended":
            found.append(_amendment(store, event, frozenset(started)))
    return tuple(found)


def _amendment(store: Store, event: Event, before: frozenset[Labels]) -> Amendment:
    path = kept_at(store, int(event["amendment"]), RECORD)
    record = store.read_json(path)
    try:
        return Amendment(
            int(event["amendment"]),
            str(event["why"]),
            str(event["time"]),
            int(event["number"]),
            str(event["earlier"]),
            str(event["seal"]),
            tuple(Change(**entry) for entry in record["changes"]),
            {what: tuple(Change(**entry) for entry in entries) for what, entries in record["files"].items()},
            before,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(str(path), "not the record of an amendment", found=f"{type(error).__name__}: {error}") from None


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as ranges: "0 to 7, 12"."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{first} to {last}" if last > first else str(first) for first, last in found)


# ---- where versions lie -------------------------------------------------------------------------------


def kept_at(store: Store, number: int, name: str) -> Path:
    """Where version `number` of a campaign's file is kept, if it is."""
    return store.protocol_folder / str(number) / name


def file_of(store: Store, number: int, last: int, name: str) -> Path:
    """A sealed file as version `number` had it: kept there or in the next version that changed it, or in its place."""
    kept = (kept_at(store, version, name) for version in range(number, last + 1))
    return next((path for path in kept if path.is_file()), store.folder / name)


def plans(store: Store) -> list[Plan]:
    """The plan of every version, the one in force last."""
    last = len(amended(store.journal().events)) + 1
    earlier = [load_plan(file_of(store, number, last, store.plan_path.name)) for number in range(1, last)]
    return [*earlier, store.plan()]


def first_sealed(store: Store) -> str:
    """When the first version was sealed: the last time before any amendment."""
    path = kept_at(store, 1, store.seal_path.name)
    return str(store.read_json(path if path.is_file() else store.seal_path)["sealed"])


def keep(store: Store, number: int, names: Iterable[str]) -> None:
    """Copy the sealed files that a person may edit into protocol/<number>/, in the place of what was there."""
    folder = store.protocol_folder / str(number)
    if folder.exists():
        shutil.rmtree(folder)
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(store.folder / name, target)


def expected_files(sealed: Mapping[str, Any], events: Iterable[Event]) -> dict[str, str]:
    """Digest of every file that must lie below protocol/, by path below the campaign; `sealed` is the seal in force.

    A campaign that was sealed before its plan was kept has none until it is amended.
    """
    changes = amended(events)
    names = {f"protocol/1/{name}": sealed["files"][name] for name in sealed.get("kept", ()) if not changes}
    for event in changes:
        names |= {name: digest for name, digest in event["files"].items() if name.startswith("protocol/")}
    return names


def differences(store: Store, sealed: Mapping[str, Any], events: Iterable[Event]) -> list[str]:
    """Kept files that are not there, or not as they were kept, each named."""
    told = []
    for name, digest in expected_files(sealed, events).items():
        path = store.folder / name
        if not path.is_file():
            told.append(f"{name}: missing")
        elif file_sha256(path) != digest:
            told.append(f"{name}: changed (kept {digest[:12]}, found {file_sha256(path)[:12]})")
    return told


# ---- staging, commit, and what a killed runner left ---------------------------------------------------


def staging(store: Store, number: int) -> Path:
    """The folder in which an amendment is written."""
    return store.protocol_folder / f"{number}{PARTIAL}"


def stage(store: Store, number: int, files: Mapping[str, bytes]) -> None:
    """Write an amendment's files, each under the name that it will have, and wait until all are on disk."""
    folder = staging(store, number)
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    for path in {folder, *(path for path in folder.rglob("*") if path.is_dir())}:
        fsync_folder(path)
    fsync_folder(store.protocol_folder)
    fsync_folder(store.folder)


def pending(store: Store, events: Sequence[Event]) -> Event | None:
    """The amendment that the journal has, and whose files are still on their way to their places."""
    changes = amended(events)
    return changes[-1] if changes and staging(store, int(changes[-1]["amendment"])).is_dir() else None


def leftovers(store: Store, events: Sequence[Event]) -> list[Path]:
    """What amendments left that never came to be: the journal does not have them."""
    recorded = pending(store, events)
    own = staging(store, int(recorded["amendment"])) if recorded else None
    return [path for path in sorted(store.protocol_folder.glob(f"*{PARTIAL}")) if path != own]


def finish(store: Store, events: Sequence[Event]) -> Event | None:
    """Bring to its end what a killed `amend` began; only under the campaign's lock. Returns the amendment, if there is one.

    Raises DataError for a file that is neither in its place nor on its way.
    """
    for path in leftovers(store, events):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    event = pending(store, events)
    if event is not None:
        _move(store, event)
    if store.protocol_folder.is_dir() and not any(store.protocol_folder.iterdir()):
        fsync_folder(_pruned(store, store.protocol_folder))  # of a campaign that was sealed before plans were kept
    return event


def settled(store: Store, journal: Journal) -> Plan:
    """`finish`, and the plan as it is then: read under the lock, so that no other runner changes it meanwhile."""
    finish(store, journal.events)
    return store.plan()


def _move(store: Store, event: Event) -> None:
    folder = staging(store, int(event["amendment"]))
    touched = {store.folder}
    for name, digest in event["files"].items():
        target, staged = store.folder / name, folder / name
        if _holds(staged, digest):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(staged, target)
        elif not _holds(target, digest):
            raise DataError(
                str(target),
                f"amendment {event['amendment']} was recorded, and this file of it is neither here nor in {folder.name}",
                expected=digest,
                remedy="restore the campaign from where it is kept; the journal has every digest",
            )
        touched.update(parent for parent in target.parents if parent.is_relative_to(store.folder))
    for name in event["removed"]:
        (store.folder / name).unlink(missing_ok=True)
        touched.add(_pruned(store, (store.folder / name).parent))
    for path in touched:
        if path.is_dir():  # else it was emptied, and what held it is among these
            fsync_folder(path)
    shutil.rmtree(folder)
    fsync_folder(store.protocol_folder)


def _pruned(store: Store, folder: Path) -> Path:
    """Remove a folder of the campaign, and those above it, as far as they are empty. Returns the first that stays.

    Also where it is gone already: a killed runner may have removed it and not the one above.
    """
    while folder != store.folder:
        if folder.is_dir():
            if any(folder.iterdir()):
                break
            folder.rmdir()
        folder = folder.parent
    return folder


def _holds(path: Path, digest: str) -> bool:
    return path.is_file() and not path.is_symlink() and file_sha256(path) == digest
