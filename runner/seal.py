"""The seal: digests of plan, orders, harness, trees, runner and analysis, written before the first run.

Its own digest is the one value to commit or publish before timing: whoever rewrites a campaign afterwards would
have to change it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import engines, host, orders, protocol, treekinds
from runner.errors import DataError, Refused
from runner.files import PROJECT, canonical_json, file_sha256, sha256, tree_digests, write_whole
from runner.gittrees import GitBuilt
from runner.journal import Journal, utc_now
from runner.plan import Plan
from runner.plantrees import PackagesTree
from runner.protocol import Amendment, Change, amendments, first_sealed, in_force, plans, ranges
from runner.store import Labels, Store, orders_document

__all__ = [
    "Amendment",
    "Change",
    "Seal",
    "amendments",
    "analysis_digests",
    "assert_unchanged",
    "deviations",
    "file_differences",
    "file_sha256",
    "first_sealed",
    "in_force",
    "plans",
    "ranges",
    "read",
    "sealed_files",
    "source_digests",
    "write",
]

ANALYSIS = (("analysis", ("*.py",)), ("notebooks", ("*.ipynb",)))


def source_digests(folder: str, patterns: tuple[str, ...] = ("*.py",)) -> dict[str, str]:
    """Digests of the files of one of the product's own folders, by path below the project."""
    return tree_digests(PROJECT / folder, patterns, PROJECT)


def analysis_digests() -> dict[str, str]:
    """Digests of everything that turns raw logs into pages."""
    return {name: digest for folder, patterns in ANALYSIS for name, digest in source_digests(folder, patterns).items()}


@dataclass(frozen=True)
class Seal:
    """A seal as read: its content and the digest of its bytes."""

    content: dict[str, Any]
    digest: str

    @property
    def adopted(self) -> bool:
        """Whether this is the record of adopted logs, written after they were made, and no seal."""
        return "adopted" in self.content


def read(store: Store) -> Seal:
    """The campaign's seal, or the record of adopted logs in its place. Raises DataError when there is neither."""
    if store.brought and store.adoption_path.is_file():
        return Seal(store.read_json(store.adoption_path), file_sha256(store.adoption_path))
    if not store.seal_path.is_file():
        raise DataError(
            str(store.seal_path), "this campaign is not sealed", remedy=f"python -m runner seal {store.shown()}"
        )
    return Seal(store.read_json(store.seal_path), file_sha256(store.seal_path))


def sealed_files(store: Store, plan: Plan) -> dict[str, str]:
    """Digests of the campaign's own files that a seal covers and that are there, by path below the campaign."""
    paths: list[Path] = [
        store.plan_path,
        store.orders_path,
        store.host_path,
        *(store.folder / tree.lock for tree in plan.trees.values() if isinstance(tree, PackagesTree)),
    ]
    for folder in (store.harness_folder, store.as_run_folder):
        # Every file, compiled ones too: a harness would import them instead of what was sealed.
        paths += folder.rglob("*")
    return {store.relative(path): file_sha256(path) for path in sorted(paths) if path.is_file()}


def write(store: Store, progress: Any = None) -> Seal:
    """Seal a campaign: expand the orders, copy harness and runner, identify trees, engine and host.

    Raises Refused once a run has started; sealing again before that is allowed and leaves its trace in the journal.
    """
    assert_executed_here(store, "seal")
    plan = store.plan()
    assert_own_folder(store, plan)
    with Journal(store.journal_path) as journal:
        if any(event["event"] == "run-start" for event in journal.events):
            raise Refused(
                str(store.folder),
                "a run has already started; what is chosen now is not preregistered",
                remedy=f"change it in the open: {amend_command(store)}; or start another campaign",
            )
        if protocol.amended(journal.events):
            raise Refused(
                str(store.folder),
                "this campaign was amended, and its first seal is part of its record",
                remedy=f"change it in the open again: {amend_command(store)}",
            )
        say = progress or (lambda _text: None)
        _copy_sources(store, plan)
        write_whole(store.orders_path, canonical_json(orders_document(plan.campaign.id, orders.expand(plan))).encode())
        write_whole(store.host_path, canonical_json(host.observe(plan.campaign.id)).encode())
        identities = {}
        for name, tree in plan.trees.items():
            say(f"tree {name}: {treekinds.words(tree)}")
            built = treekinds.materialise(store, plan, name)
            identities[name] = built.identity()
            if isinstance(built, GitBuilt):
                _replace(store.as_run_folder / "trees" / name, {built.log.name: built.log})
        treekinds.assert_one_harness(plan, identities)
        warnings = treekinds.warnings(plan, identities)
        for text in warnings:
            say(f"warning: {text}")
        kept = protocol.editable(store, plan)
        content = {
            "format": 1,
            "campaign": plan.campaign.id,
            "sealed": utc_now(),
            "files": sealed_files(store, plan),
            "kept": kept,
            "trees": identities,
            "engine": engines.identity(plan),
            "analysis": analysis_digests(),
        }
        if warnings:
            content["warnings"] = warnings
        protocol.keep(store, 1, kept)
        data = canonical_json(content).encode()
        write_whole(store.seal_path, data)
        journal.append("sealed", seal=sha256(data))
    return Seal(content, sha256(data))


def amended_orders(store: Store) -> tuple[Labels, ...]:
    """The orders of an amended campaign, which follow from all versions of its plan; none for any other.

    None either while the plan is being edited for the next amendment.
    """
    if not store.seal_path.is_file() or not protocol.amended(store.journal().events):
        return ()
    sealed = read(store).content["files"]
    return store.orders() if sealed[store.plan_path.name] == file_sha256(store.plan_path) else ()


def amend_command(store: Store) -> str:
    """What to type to change a sealed plan."""
    return f'python -m runner amend {store.shown()} --why "..."'


def assert_executed_here(store: Store, command: str) -> None:
    """Raise Refused for a campaign whose runs were made elsewhere: there is nothing of it that this runner may add to."""
    if store.brought:
        state = store.state()
        raise Refused(
            str(store.folder),
            f"this campaign is {state}: its runs were made elsewhere, and `{command}` is of campaigns that are executed here",
            found=store.relative(store.adoption_path if state == "adopted" else store.published_path),
            remedy="start a campaign of your own with python -m runner new",
        )


def assert_own_folder(store: Store, plan: Plan) -> None:
    """Raise Refused when the folder does not bear the campaign's id: a copy of a campaign is not that campaign."""
    if plan.campaign.id != store.folder.name:
        raise Refused(
            str(store.plan_path),
            "the campaign's id is not its folder's name",
            expected=store.folder.name,
            found=plan.campaign.id,
            remedy="rename the folder",
        )


def assert_harness(store: Store, plan: Plan) -> Path:
    """Where the harness files are to be sealed from: the product's own folder, or the campaign's. Raises DataError.

    In a campaign's own folder every file must be in the plan: what is not would be sealed without being meant.
    """
    own = plan.harness.source is None
    source = store.harness_folder if plan.harness.source is None else PROJECT / plan.harness.source
    missing = [name for name in plan.harness.files if not (source / name).is_file()]
    if missing:
        raise DataError(
            store.shown(source) if own else str(source),
            "harness files are missing",
            expected=", ".join(plan.harness.files),
            found=f"no {', '.join(missing)}",
            remedy="mend harness.source or harness.files in the plan",
        )
    lying = {path.relative_to(source).as_posix(): path for path in sorted(source.rglob("*"))} if own else {}
    odd = [
        name
        for name, path in lying.items()
        if path.is_symlink() or (name not in plan.harness.files and not path.is_dir())
    ]
    if odd:
        raise DataError(
            store.shown(source),
            "files that the plan does not name, or that are links",
            expected=", ".join(plan.harness.files),
            found=", ".join(odd[:10]),
            remedy="remove them, or list them in harness.files",
        )
    return source


def _copy_sources(store: Store, plan: Plan) -> None:
    source = assert_harness(store, plan)
    if plan.harness.source is not None:
        _replace(store.harness_folder, {name: source / name for name in plan.harness.files})
    _replace(store.as_run_folder, {name: PROJECT / name for name in source_digests("runner")})


def _replace(folder: Path, files: dict[str, Path]) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    for name, source in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def assert_unchanged(store: Store, plan: Plan, journal_events: list[dict[str, Any]]) -> Seal:
    """What must hold before anything is timed: the seal is the journal's, and every sealed file is as sealed."""
    assert_own_folder(store, plan)
    seal = read(store)
    named = in_force(journal_events)
    if named != seal.digest:
        raise Refused(
            str(store.seal_path),
            "this is not the seal that the journal names",
            expected=named or "a sealed event",
            found=seal.digest,
            remedy=f"restore seal.json; before the first run: python -m runner seal {store.shown()}",
        )
    after = f"before the first run: python -m runner seal {store.shown()}; later, in the open: {amend_command(store)}"
    problems = file_differences(seal, sealed_files(store, plan))
    problems += protocol.differences(store, seal.content, journal_events)
    if problems:
        raise Refused(
            str(store.folder),
            "changed since the seal",
            found="; ".join(problems),
            remedy=f"restore the files; {after}",
        )
    as_run = _runner_files(seal)
    now = source_digests("runner")
    changed = sorted(name for name in as_run.keys() | now.keys() if as_run.get(name) != now.get(name))
    if changed:
        raise Refused(
            "runner",
            "this is not the runner that was sealed",
            found="differs in " + ", ".join(changed),
            remedy=f"check out the runner that was sealed; {after}",
        )
    return seal


def _runner_files(seal: Seal) -> dict[str, str]:
    """The runner's own source as sealed; build logs of trees lie beside it."""
    files: dict[str, str] = seal.content["files"]
    return {name.removeprefix("as-run/"): digest for name, digest in files.items() if name.startswith("as-run/runner/")}


def file_differences(seal: Seal, found: dict[str, str]) -> list[str]:
    """Which sealed or adopted files are changed, gone or new, each named."""
    sealed = seal.content["files"]
    word, record = ("adopted", "adoption") if seal.adopted else ("sealed", "seal")
    problems = []
    for name in sorted(sealed.keys() | found.keys()):
        if name not in found:
            problems.append(f"{name}: {word}, and gone")
        elif name not in sealed:
            problems.append(f"{name}: not in the {record}")
        elif sealed[name] != found[name]:
            problems.append(
                f"{name}: changed since the {record} ({word} {sealed[name][:12]}, found {found[name][:12]})"
            )
    return problems


def deviations(sealed: Seal, plan: Plan) -> dict[str, list[str]]:
    """Which files of harness, runner and analysis differ today from what was sealed; nothing for what does not."""
    if sealed.adopted:
        now = {"runner": source_digests("runner"), "analysis": analysis_digests()}
        changed = {what: _changed(sealed.content[what], digests) for what, digests in now.items()}
        return {what: names for what, names in changed.items() if names}
    found = {
        "harness": _harness_deviation(sealed, plan),
        "runner": _changed(_runner_files(sealed), source_digests("runner")),
        "analysis": _changed(sealed.content["analysis"], analysis_digests()),
    }
    return {what: names for what, names in found.items() if names}


def _changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _harness_deviation(sealed: Seal, plan: Plan) -> list[str]:
    """Compared with the folder of the product that the harness came from; one from elsewhere cannot be compared."""
    folder = plan.harness.source
    if folder is None:  # the campaign's own, and as sealed: nothing elsewhere to compare it with
        return []
    then = {
        f"{folder}/{name.removeprefix('harness/')}": digest
        for name, digest in sealed.content["files"].items()
        if name.startswith("harness/")
    }
    return [name for name in sorted(then) if (PROJECT / name).is_file() and file_sha256(PROJECT / name) != then[name]]
