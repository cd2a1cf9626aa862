"""What a page shows of the trees: what each was made from, and the digests that tell it from any other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from analysis import tables
from analysis.escaping import escaped
from analysis.tables import Markup
from runner.plan import Plan
from runner.plantypes import UNDEFINED
from runner.seal import Seal

HEADS = {
    "packages": ("Python", "packages", "installed files, SHA-256"),
    "git": ("commit", "toolchain", "binary, SHA-256", "files, SHA-256"),
    "programs": ("program, SHA-256", "version", "started by"),
}


def tree_tables(
    head: Sequence[str], rows: Sequence[tuple[str, Sequence[object]]], seal: Seal, name: str
) -> list[Markup]:
    """One table for each kind of tree: rows of a tree's name and what stands before its own columns.

    Trees of adopted runs were never seen: one table of what the plan says of them.
    """
    if seal.adopted:
        said = [(*before, _as_planned(seal.content["trees"].get(tree, {}))) for tree, before in rows]
        return [tables.plain((*head, "as the plan has it, not verified"), said, name)]
    made = []
    for kind, columns in HEADS.items():
        own = [
            (*before, *_columns(kind, seal.content["trees"][tree]))
            for tree, before in rows
            if _kind(seal.content["trees"][tree]) == kind
        ]
        if own:
            made.append(tables.plain((*head, *columns), own, name))
    return made


def _as_planned(identity: Mapping[str, Any]) -> list[str]:
    """What a plan says of a tree, and what it leaves undefined."""
    told, unknown = [], []
    for key, value in identity.items():
        if value in (UNDEFINED, [UNDEFINED]):
            unknown.append(key)
        elif key != "what" and value:
            told.append(f"{key}: {value if isinstance(value, str) else json.dumps(value)}")
    return [*told, *([f"{UNDEFINED}: {', '.join(unknown)}"] if unknown else [])]


def _kind(identity: Mapping[str, Any]) -> str:
    return str(identity.get("kind", "packages"))


def _columns(kind: str, identity: Mapping[str, Any]) -> tuple[object, ...]:
    digest = short_digest(identity["files_sha256"])
    if kind == "packages":
        return identity["interpreter"]["version"], packages(list(identity["wheels"])), digest
    if kind == "programs":
        found = [Markup(f"{escaped(name)} {short_digest(of['sha256'])}") for name, of in identity["programs"].items()]
        said = [escaped(text) for text in identity["version"]] or ["not asked"]
        return Markup("<br>".join(found)), Markup("<br>".join(said)), f"Python {identity['interpreter']['version']}"
    toolchain = identity["toolchain"]
    binaries = [Markup(f"{escaped(name)} {short_digest(found)}") for name, found in identity["binaries"].items()]
    return (
        short_digest(identity["commit"]),
        Markup(f"{escaped(toolchain['version'])} {short_digest(toolchain['sha256'])}"),
        Markup("<br>".join(binaries)),
        digest,
    )


def origins(plan: Plan, used: Sequence[str]) -> Markup:
    """Where each tree of a commit comes from, whole, and how it was built; nothing where there is none."""
    rows = []
    for name in used:
        tree = plan.trees[name]
        if tree.kind == "git":
            settings = " ".join(f"{key}={value}" for key, value in tree.environment.items())
            rows.append(
                (
                    name,
                    tree.repository,
                    tables.code(tree.commit),
                    tables.code(" ".join(filter(None, (settings, *tree.build)))),
                )
            )
    return (
        tables.plain(("tree", "repository", "commit", "built by"), rows, "How trees were built") if rows else Markup()
    )


def overlays(seal: Seal, used: Sequence[str]) -> list[tuple[str, object]]:
    """Files that were laid over the checkouts of trees, with their digests: the same for every tree of a phase."""
    laid = {path: digest for name in used for path, digest in seal.content["trees"][name].get("overlay", {}).items()}
    if not laid and not any(name.startswith("harness/") for name in seal.content["files"]):
        return [("none", "each tree brings what measures it, under its own digests")]
    return [(f"{path} in every checkout", tables.code(digest)) for path, digest in sorted(laid.items())]


def same_binaries(seal: Seal, phase: str) -> list[str]:
    """The seal's warnings about a phase's trees."""
    return [text for text in seal.content.get("warnings", []) if text.startswith(f"phase {phase}:")]


def short_digest(digest: str) -> Markup:
    """The beginning of a digest, on one line."""
    return Markup(f'<code class="bb-whole">{escaped(digest[:12])}</code>')


def packages(wheels: list[str]) -> Markup:
    """Names and versions from the wheels' file names, folded away behind their count."""
    names = [" ".join(wheel.split("-")[:2]) for wheel in wheels]
    count = f"{len(names)} package{'s' * (len(names) != 1)}"
    return Markup(f"<details><summary>{count}</summary>{escaped(', '.join(names))}</details>")
