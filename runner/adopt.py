"""Take logs that were made elsewhere into a campaign: copy them byte for byte, and record what each run of them is.

The folder that they come from is foreign: links and special files are refused, names and sizes bounded, nothing in it is
executed. Everything is written into a folder of its own inside the campaign and then put in its place, the record last;
whatever an earlier attempt that was killed has left is taken away first, so that a campaign is adopted or it is not.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner import adoptplan, close, seal
from runner.adoptfolder import copy, regular_files
from runner.adoption import FORMAT, UNKNOWNS, Adoption, entry
from runner.adoptmaps import NAME, Known, Map, assign, ignored, parse
from runner.adoptruns import ADOPTED, Pieces, Runs, read_files, runs
from runner.errors import DataError, PlanError, Refused, WrongUse
from runner.files import canonical_json, digest_of, file_sha256, fsync_folder, manifest_text, sha256, write_whole
from runner.journal import Journal, utc_now
from runner.plan import Plan
from runner.planfile import load_open, parse_open
from runner.plantrees import GitTree, PackagesTree, Tree
from runner.plantypes import UNDEFINED, defined
from runner.store import Store

STAGING = ".adopting"  # folder inside the campaign while logs are taken in
Assigned = Mapping[str, tuple[Map, dict[str, str]]]


@dataclass(frozen=True)
class Asked:
    """What the command was asked for."""

    source: Path
    maps: tuple[Map, ...]
    ignore: tuple[str, ...] = ()
    contrasts: tuple[str, ...] = ()


def asked(source: Path, maps: Sequence[str], ignore: Sequence[str], contrasts: Sequence[str]) -> Asked:
    """Read the command's words. Raises WrongUse."""
    return Asked(source, tuple(map(parse, maps)), tuple(ignore), tuple(contrasts))


def adopt(folder: Path, wanted: Asked) -> Adoption:
    """Take a folder of logs into a campaign, which is made when there is none.

    Raises Refused for a campaign that is sealed or has adopted already, WrongUse and DataError for files, maps and logs
    that do not fit; then the campaign is as it was.
    """
    folder = folder.resolve()
    _assert_apart(folder, wanted.source)
    _assert_not_sealed(Store(folder))
    with _staging(folder) as staging:
        store = Store(folder)
        _assert_free(store)
        sizes = dict(regular_files(wanted.source))
        plan = _own_plan(store, wanted)
        assigned = _take_records(
            store, wanted, assign(sorted(sizes), wanted.maps, wanted.ignore, Known.of(plan)), staging
        )
        for path in assigned:
            copy(wanted.source / path, staging / ADOPTED / path)

        def load(path: str) -> bytes:
            return (staging / ADOPTED / path).read_bytes()

        read = read_files(assigned, load, plan)
        if plan is None:
            plan = _new_plan(store, staging, read, wanted, assigned)
            own = [one for one in wanted.maps if one.record is None]
            assigned = assign(list(assigned), own, (), Known.of(plan))  # as it will be read again
            read = read_files(assigned, load, plan)
        found = runs(read, plan)
        written = _write(
            store, staging, plan, wanted, found, sorted(path for path in sizes if ignored(path, wanted.ignore))
        )
        _put_in_place(store, staging)
    return written


def _assert_apart(folder: Path, source: Path) -> None:
    outside = source.resolve()
    if folder == outside or folder in outside.parents or outside in folder.parents:
        raise WrongUse(
            str(source), "the logs lie inside of the campaign, or the campaign inside of the logs",
            expected="two folders apart", remedy="move one of them",
        )  # fmt: skip


def _assert_not_sealed(store: Store) -> None:
    """Before anything is written into a campaign that may be under way."""
    if store.seal_path.exists():
        raise _not_free(store, store.state())


def _not_free(store: Store, state: str) -> Refused:
    return Refused(
        str(store.folder),
        f"this campaign is {state}: it takes in no logs",
        expected="a draft, a campaign of published figures, or a new folder",
        found=state,
        remedy="name a new folder",
    )


def _assert_free(store: Store) -> None:
    if store.plan_path.is_file() and store.state() == "adopted":
        raise _not_free(store, "adopted")
    taken = [
        path.name
        for path in (store.adoption_path, store.adopted_folder, store.journal_path, store.runs_folder, store.orders_path,
                     store.metrics_path, store.manifest_path)
        if path.exists() or path.is_symlink()
    ]  # fmt: skip
    if taken:
        raise Refused(
            str(store.folder), "this folder holds what adopting would write", found=", ".join(taken),
            remedy="name a new folder",
        )  # fmt: skip
    foreign = (
        [] if store.plan_path.is_file() else [path.name for path in store.folder.iterdir() if path.name != STAGING]
    )
    if foreign:
        raise Refused(
            str(store.folder), "a folder with files and without a plan.toml", found=", ".join(sorted(foreign)[:10]),
            remedy="name a new folder, or one with a plan.toml",
        )  # fmt: skip


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """The folder in which an adoption is put together; locked, and gone afterwards, with all of it if it fails."""
    new = not folder.exists()
    if not new and not folder.is_dir():
        raise WrongUse(str(folder), "not a folder")
    staging = folder / STAGING
    if staging.is_symlink():
        raise Refused(str(staging), "a link in the campaign's folder", remedy="take it away, and look who made it")
    staging.mkdir(parents=True, exist_ok=True)
    lock = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                str(folder), "logs are being taken into this campaign at this moment", remedy="wait until that ends"
            ) from None
        try:
            _clear(folder, staging)
            yield staging
        except BaseException:
            _undo(folder, staging)
            raise
        shutil.rmtree(staging)
    finally:
        os.close(lock)


def _placed(folder: Path) -> tuple[Path, ...]:
    """What an adoption puts into a campaign, in this order: what makes it an adopted campaign comes last."""
    store = Store(folder)
    made = (
        store.adopted_folder,
        store.host_path,
        store.restored_path,
        store.metrics_path,
        store.manifest_path,
        store.journal_path,
        store.adoption_path,
    )
    return (*made, store.plan_path)


def _clear(folder: Path, staging: Path) -> None:
    """Take away what a killed attempt has left: its list of what it was about to place says what is its own."""
    placing = staging / "placing"
    if placing.is_file():
        names = placing.read_text(encoding="utf-8").split()
        whole = all((folder / name).exists() for name in names)
        for path in _placed(folder):
            if path.name in names and not whole:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for path in staging.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _undo(folder: Path, staging: Path) -> None:
    _clear(folder, staging)
    shutil.rmtree(staging)
    if not any(folder.iterdir()):
        folder.rmdir()


def _put_in_place(store: Store, staging: Path) -> None:
    """Move everything from the staging folder to its place; a list of it is on disk before the first is moved."""
    paths = [path for path in _placed(store.folder) if (staging / path.name).exists()]
    write_whole(staging / "placing", "".join(f"{path.name}\n" for path in paths).encode())
    for path in paths:
        os.rename(staging / path.name, path)
    fsync_folder(store.folder)


def _own_plan(store: Store, wanted: Asked) -> Plan | None:
    """The campaign's own plan; None where one is to be written."""
    if not store.plan_path.is_file():
        if not re.fullmatch(NAME, store.folder.name):
            raise WrongUse(
                f"--into {store.folder.name}", "a folder that no campaign can be called after",
                expected="up to 64 letters, digits, dots, underscores and dashes", remedy="name another folder",
            )  # fmt: skip
        return None
    plan = load_open(store.plan_path).plan
    seal.assert_own_folder(store, plan)
    if wanted.contrasts:
        raise WrongUse("--contrast", "this campaign has a plan, and its contrasts are there", remedy="leave it out")
    return plan


def _take_records(store: Store, wanted: Asked, assigned: Assigned, staging: Path) -> Assigned:
    """Copy the records that maps name, of the host and of restored labels, to their places; returns what is left to be read."""
    left = dict(assigned)
    for kind, place, rule, holds in (
        ("host", store.host_path, "an object with identity and details", _of_host),
        ("restored", store.restored_path, "an object with cases, each with phase and case", _of_restored),
    ):
        records = [path for path, (one, _) in assigned.items() if one.record == kind]
        if len(records) > 1 or (records and place.exists()):
            raise WrongUse(
                "--map", f"more than one record as={kind}", found=", ".join([*records, *_there(place)]),
                expected="one: what was measured on another host, or restored elsewhere, is a campaign of its own",
            )  # fmt: skip
        for path in records:
            copy(wanted.source / path, staging / place.name)
            if not holds(store.read_json(staging / place.name)):
                raise DataError(path, f"not a record as={kind}", expected=rule, remedy="leave it out with --ignore")
            left.pop(path)
    return left


def _of_host(found: object) -> bool:
    return isinstance(found, dict) and all(isinstance(found.get(key), dict) for key in ("identity", "details"))


def _of_restored(found: object) -> bool:
    """What `python -m analysis labels --restore` writes."""
    cases = found.get("cases") if isinstance(found, dict) else None
    return isinstance(cases, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("phase"), str) and isinstance(entry.get("case"), str)
        for entry in cases
    )


def _there(path: Path) -> list[str]:
    return [path.name] if path.exists() else []


def _new_plan(store: Store, staging: Path, read: Pieces, wanted: Asked, assigned: Assigned) -> Plan:
    """Write a plan of what the logs show."""
    named = adoptplan.named(read)
    places = {one.text: place for place, one in enumerate(wanted.maps)}
    by_map = sorted(named.pieces, key=lambda piece: places[assigned[piece.file][0].text])
    arms = list(dict.fromkeys(piece.fields["arm"] for piece in by_map if "arm" in piece.fields))
    text = adoptplan.text(store.folder.name, wanted.source.resolve().name, named, arms, wanted.contrasts)
    try:
        plan = parse_open(text, store.plan_path.name).plan
    except PlanError as error:
        raise DataError(
            wanted.source.name, "what these logs hold cannot be written as a plan", found=str(error),
            expected="names of cases and units of at most 120 characters, and what else a plan allows",
            remedy="shorten the names where the logs were made, or leave those files out with --ignore",
        ) from None  # fmt: skip
    write_whole(staging / store.plan_path.name, text.encode())
    return plan


def _write(store: Store, staging: Path, plan: Plan, wanted: Asked, found: Runs, left_out: Sequence[str]) -> Adoption:
    """Write record, aggregate, journal and manifest into the staging folder."""
    mirrored = _files_after(store, staging)
    content = {
        "format": FORMAT,
        "campaign": plan.campaign.id,
        "adopted": utc_now(),
        "source": wanted.source.resolve().name,
        "maps": [one.text for one in wanted.maps],
        "ignored": [{"file": path, "glob": ignored(path, wanted.ignore)} for path in left_out],
        "unknown": _unknown(plan, found, (staging / store.plan_path.name).exists(), mirrored),
        "notes": list(found.notes),
        "files": {name: file_sha256(path) for name, path in sorted(mirrored.items())},
        "runs": [entry(run) for run in found.runs],
        "restored": _restored(store, staging),
        "trees": {
            name: tree.model_dump(mode="json", exclude_none=True, warnings=False) for name, tree in plan.trees.items()
        },
        "engine": {"version": plan.engine.version or UNDEFINED},
        "analysis": seal.analysis_digests(),
        "runner": seal.source_digests("runner"),
    }
    data = canonical_json(content).encode()
    write_whole(staging / store.adoption_path.name, data)
    write_whole(staging / store.metrics_path.name, close.adopted_metrics_text(found.runs).encode())
    adoption = Adoption(content, sha256(data), found.runs)
    with Journal(staging / store.journal_path.name) as journal:
        journal.append("adopted", adoption=adoption.digest, source=content["source"])
        digests = {name: file_sha256(path) for name, path in _files_after(store, staging).items()}
        digests.pop(store.journal_path.name)
        counts = adoption.ledger().counts()
        closed = journal.append("close", counts=counts, content_sha256=digest_of(digests))
    digests[store.journal_path.name] = file_sha256(staging / store.journal_path.name)
    write_whole(staging / store.manifest_path.name, manifest_text(digests).encode())
    return replace(adoption, closed=closed)


def _restored(store: Store, staging: Path) -> list[dict[str, str]]:
    """The cases whose labels were restored before the logs came here, as their record says."""
    path = staging / store.restored_path.name
    cases = store.read_json(path)["cases"] if path.is_file() else []
    return [{"phase": entry["phase"], "case": entry["case"]} for entry in cases]


def _files_after(store: Store, staging: Path) -> dict[str, Path]:
    """Every file of the campaign as it will be, by its path there."""
    files = {name: path for name, path in store.files().items() if staging not in path.parents}
    links = [name for name, path in files.items() if path.is_symlink()]
    if links:
        raise Refused(str(store.folder), "a link in the campaign's folder", found=", ".join(links))
    return files | {path.relative_to(staging).as_posix(): path for path in sorted(staging.rglob("*")) if path.is_file()}


def _unknown(plan: Plan, found: Runs, new: bool, files: Container[str]) -> list[str]:
    """What nobody can know of these runs; what a plan of another's making says is not unknown, if not checked either."""
    known: dict[str, bool] = {
        "blocks": all(run.paired for run in found.runs),
        "order": all(run.ordered for run in found.runs),
        "host": "host.json" in files,
        "environment": False,
        "engine": not new
        and (plan.engine.kind == "none" or (bool(plan.engine.version) and defined(plan.engine.version))),
        "trees": all(_told(tree, files) for tree in plan.trees.values()),
        "preregistration": False,
    }
    return [name for name in UNKNOWNS if not known[name]]


def _told(tree: Tree, files: Container[str]) -> bool:
    """Whether a plan says which code a tree is: a commit, or a lock file that is there; the name of a program does not."""
    if isinstance(tree, GitTree):
        return defined(tree.repository) and defined(tree.commit)
    return isinstance(tree, PackagesTree) and tree.lock in files


def summary(adoption: Adoption) -> Iterator[str]:
    """What the command prints: how many runs of what, what is unknown, what is to be known about the reading."""
    failed = [run for run in adoption.runs if run.outcome == "failed"]
    for phase in adoption.phases:
        blocks = "blocks known" if adoption.paired(phase) else "blocks unknown"
        own = [run for run in adoption.runs if run.labels.phase == phase]
        for arm in dict.fromkeys(run.labels.arm for run in own):
            mine = [run for run in own if run.labels.arm == arm]
            cases = len({run.labels.case for run in mine})
            files = len({run.file for run in mine})
            yield f"phase {phase}, arm {arm}: {len(mine)} runs of {cases} case(s) from {files} file(s), {blocks}"
    yield f"unknown: {', '.join(adoption.content['unknown'])}"
    yield from (
        f"failed: phase {run.labels.phase}, case {run.labels.case}, arm {run.labels.arm}, run {run.run}: {run.reason}"
        for run in failed
    )
    yield from (f"note: {text}" for text in adoption.content["notes"])


def status(store: Store) -> dict[str, Any]:
    """What `status` shows of a campaign whose runs were made elsewhere: never a result."""
    if store.state() == "figures-only":
        return {"state": "figures-only"}
    adoption = store.adoption()
    counts = adoption.ledger().counts()
    return {
        "state": "adopted",
        "adopted": adoption.content["adopted"],
        "source": adoption.content["source"],
        "runs": {state: counts[state] for state in ("ok", "failed")},
        "phases": {
            phase: {"paired": adoption.paired(phase), "ordered": adoption.ordered(phase)} for phase in adoption.phases
        },
        "unknown": adoption.content["unknown"],
    }


def status_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The same in words."""
    if found["state"] == "figures-only":
        yield "figures-only: published figures, no runs here"
        return
    yield f"adopted {found['adopted']} from {found['source']}, not executed here"
    yield from (f"{name:<12} {count:>6}" for name, count in found["runs"].items())
    for name, known in found["phases"].items():
        words = [
            f"{what} {'known' if known[key] else 'unknown'}"
            for what, key in (("blocks", "paired"), ("order", "ordered"))
        ]
        yield f"phase {name}: {', '.join(words)}"
    yield f"unknown: {', '.join(found['unknown'])}"
