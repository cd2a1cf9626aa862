"""The sealed files of a campaign before and after an amendment, as bytes: each is read once, and only then sealed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import protocol, seal
from runner.errors import DataError, Refused
from runner.files import PROJECT, file_sha256, sha256
from runner.gittrees import GitBuilt
from runner.plan import Plan
from runner.store import Store
from runner.treekinds import AnyBuilt


@dataclass(frozen=True)
class Files:
    """The files that a new seal covers: the digest of each, and the bytes of those that are not as they were sealed."""

    digests: dict[str, str]
    changed: dict[str, bytes]

    def earlier(self, store: Store, sealed: Mapping[str, Any], number: int) -> dict[str, bytes]:
        """What is kept of the earlier version: files that changed or went, and those that a person may edit."""
        names = [name for name, digest in sealed["files"].items() if self.digests.get(name) != digest]
        kept = sealed.get("kept", ())
        return {name: old_bytes(store, sealed, number, name) for name in dict.fromkeys((*names, *kept))}

    def bytes_of(self, store: Store, name: str) -> bytes:
        """The bytes of a file of the new version."""
        return self.changed[name] if name in self.changed else (store.folder / name).read_bytes()

    def moved(self, kept: list[str]) -> dict[str, bytes]:
        """What has to be put in its place: what changed, but for what a person edited there."""
        return {name: data for name, data in self.changed.items() if name not in kept}


def old_bytes(store: Store, sealed: Mapping[str, Any], number: int, name: str) -> bytes:
    """A file as version `number` was sealed with it: from protocol/, else from its place.

    Raises Refused where what was sealed is not there any more.
    """
    expected = sealed["files"][name]
    for path in (protocol.kept_at(store, number, name), store.folder / name):
        if path.is_file():
            data = path.read_bytes()
            if sha256(data) == expected:
                return data
    raise Refused(
        store.shown(store.folder / name),
        "what was sealed is not kept: this campaign was sealed before earlier versions were, or the copy was changed",
        expected=expected,
        found="another file, and no such copy below protocol/",
        remedy=f"put the file as it was sealed at {store.shown(protocol.kept_at(store, number, name))}, then amend again",
    )


def tree_logs(
    built: Mapping[str, AnyBuilt], sealed: Mapping[str, Any], identities: Mapping[str, Any]
) -> dict[str, bytes | None]:
    """What the build of each tree printed, by name below the campaign; None for one that stays as it was sealed."""
    found: dict[str, bytes | None] = {}
    for name, tree in built.items():
        own = [log for log in sealed["files"] if log.startswith(f"as-run/trees/{name}/")]
        if identities[name] == sealed["trees"].get(name):
            found |= dict.fromkeys(own)
        elif isinstance(tree, GitBuilt):
            found[f"as-run/trees/{name}/{tree.log.name}"] = tree.log.read_bytes()
    return found


def read_new(
    store: Store,
    earlier: Plan,
    sealed: Mapping[str, Any],
    plan: Plan,
    text: bytes,
    orders: bytes,
    logs: Mapping[str, bytes | None],
    begun: bool,
) -> Files:
    """The files of the new version. Raises DataError where one that nobody may edit is not as it was sealed."""
    before: Mapping[str, str] = sealed["files"]
    _assert_untouched(store, earlier, plan, before)
    wanted: dict[str, bytes | None] = {
        store.plan_path.name: text,
        store.orders_path.name: orders,
        store.host_path.name: None,
        **_locks(store, plan),
        **_harness(store, plan, before, begun),
        **{f"as-run/{name}": (PROJECT / name).read_bytes() for name in seal.source_digests("runner")},
        **logs,
    }
    digests = {name: before[name] if data is None else sha256(data) for name, data in wanted.items()}
    changed = {name: data for name, data in wanted.items() if data is not None and before.get(name) != digests[name]}
    return Files(dict(sorted(digests.items())), changed)


def _locks(store: Store, plan: Plan) -> dict[str, bytes]:
    names = [name for name in protocol.editable(store, plan) if name.startswith("harness/") is False]
    return {name: (store.folder / name).read_bytes() for name in names if name != store.plan_path.name}


def _harness(store: Store, plan: Plan, before: Mapping[str, str], begun: bool) -> dict[str, bytes | None]:
    """The harness: once there are runs the sealed one, which the product's own folder may have left behind."""
    names = [f"harness/{name}" for name in plan.harness.files]
    if begun and plan.harness.source is not None:
        return dict.fromkeys(name for name in before if name.startswith("harness/"))
    source = seal.assert_harness(store, plan)
    return {name: (source / name.removeprefix("harness/")).read_bytes() for name in names}


def _assert_untouched(store: Store, earlier: Plan, plan: Plan, before: Mapping[str, str]) -> None:
    """Only what a person writes may differ from the seal: plan, locks, a harness of the campaign's own."""
    editable = {*protocol.editable(store, earlier), *protocol.editable(store, plan)}
    problems = [
        f"{name}: sealed {digest[:12]}, found {_found(store.folder / name)}"
        for name, digest in before.items()
        if name not in editable and _found(store.folder / name) != digest
    ]
    there = seal.sealed_files(store, earlier).keys() - before.keys() - editable
    own = "harness/" if plan.harness.source is None else "\0"  # that of the campaign is looked at with the plan in hand
    problems += [f"{name}: not in the seal" for name in sorted(there) if not name.startswith(own)]
    if problems:
        raise DataError(
            str(store.folder),
            "changed since the seal, and nothing that a person edits",
            found="; ".join(problems),
            remedy="restore these files; an amendment is of plan.toml, package locks and a harness of the campaign's own",
        )


def _found(path: Path) -> str:
    return file_sha256(path) if path.is_file() else "no file"
