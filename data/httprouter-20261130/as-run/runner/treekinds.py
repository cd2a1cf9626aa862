"""Trees of every kind, for everything that makes, compares or uses them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner import gittrees, programs, repositories, trees
from runner.errors import Refused
from runner.files import PROJECT
from runner.gittrees import GitBuilt
from runner.plan import Plan
from runner.plantrees import GitTree, PackagesTree, ProgramsTree, Tree
from runner.programs import ProgramsBuilt
from runner.store import Store
from runner.templates import fill
from runner.trees import Built

AnyBuilt = Built | GitBuilt | ProgramsBuilt


def materialise(store: Store, plan: Plan, name: str) -> AnyBuilt:
    """A tree of a plan: made if it is not in the cache, and checked. Raises as `materialise` of its kind does."""
    tree = plan.trees[name]
    if isinstance(tree, ProgramsTree):
        return programs.materialise(name, tree)
    if isinstance(tree, GitTree):
        sealed, source = store.harness_folder, plan.harness.source
        harness = sealed if source is None or sealed.is_dir() else PROJECT / source
        return gittrees.materialise(name, tree, store.folder, harness)
    return trees.materialise(name, tree, store.folder / tree.lock)


def recheck(built: AnyBuilt, tree: Tree) -> None:
    """The cheap check before every run. Raises DataError when a file was altered."""
    if isinstance(built, GitBuilt):
        gittrees.recheck(built)
    elif isinstance(built, ProgramsBuilt):
        programs.recheck(built)
    else:
        assert isinstance(tree, PackagesTree)
        trees.recheck(built, tree)


def difference(sealed: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """What differs between a sealed tree and the present one, in words; empty when nothing does."""
    kinds = (sealed.get("kind"), found.get("kind"))
    if "programs" in kinds:
        return programs.difference(sealed, found)
    if "git" in kinds:
        return gittrees.difference(sealed, found)
    return trees.difference(sealed, found)


def words(tree: Tree) -> str:
    """What a tree is made from, in short."""
    if isinstance(tree, GitTree):
        return f"commit {tree.commit[:12]} of {tree.repository}"
    if isinstance(tree, ProgramsTree):
        return f"programs {', '.join(tree.programs)}"
    return f"Python {tree.python}, {tree.lock}"


def places(tree: Tree, folder: Path | str) -> dict[str, str]:
    """What the fields of commands stand for that depend on the tree, for a tree below a folder."""
    if isinstance(tree, GitTree):
        return gittrees.places(tree, folder)
    if isinstance(tree, ProgramsTree):
        return programs.places(tree)
    return {"python": f"{folder}/bin/python", "tree": str(folder), "compiled": ",".join(tree.compiled)}


def commands(tree: Tree, name: str, missing: Mapping[str, str] | None = None) -> list[list[str]]:
    """Every command that makes a tree; what is only known then stands in braces, and what nobody knows, as `missing`."""
    if isinstance(tree, PackagesTree):
        return trees.install_commands(tree, f"{{campaign}}/{tree.lock}", f"{{tree:{name}}}", "{wheels}")
    if isinstance(tree, ProgramsTree):
        return [list(argv) for argv in tree.version]
    fields = gittrees.places(tree, f"{{tree:{name}}}") | dict(missing or {})
    told = [repositories.fetch_command(tree.repository, tree.commit)]
    if tree.overlay and tree.overlay.commit:
        told.append(repositories.fetch_command(tree.repository, tree.overlay.commit))
    told.append(repositories.git_command("read-tree", tree.commit))
    told.append(repositories.git_command("checkout-index", "--all"))
    settings = gittrees.build_environment(tree, fields, "{home}", "{PATH}")
    build = [fill(part, fields) for part in tree.build]
    told.append(["env", "-i", "-C", fields["checkout"], *(f"{key}={value}" for key, value in settings.items()), *build])
    return told


def assert_one_harness(plan: Plan, identities: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise Refused when the trees of a phase's arms were not built with the same harness files."""
    for identifier, phase in plan.phases.items():
        laid = {
            arm.tree: identities[arm.tree]["overlay"]
            for arm in phase.arms
            if identities.get(arm.tree, {}).get("kind") == "git"
        }
        for tree, overlay in laid.items():
            first, expected = next(iter(laid.items()))
            differing = sorted(
                path for path in overlay.keys() | expected.keys() if overlay.get(path) != expected.get(path)
            )
            if differing:
                raise Refused(
                    f"phase {identifier}: tree {tree}",
                    "not built with the same harness files as the other arms",
                    expected=f"the overlay of tree {first}",
                    found=f"differs in {', '.join(differing)}",
                    remedy="give every tree of the phase the same overlay",
                )


def warnings(plan: Plan, identities: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Arms of a phase that have different trees and yet the same binaries: a contrast between them shows noise."""
    told = []
    for identifier, phase in plan.phases.items():
        seen: dict[tuple[tuple[str, str], ...], str] = {}
        for tree in dict.fromkeys(arm.tree for arm in phase.arms):
            binaries = identities.get(tree, {}).get("binaries")
            if not binaries:
                continue
            other = seen.setdefault(tuple(sorted(binaries.items())), tree)
            if other != tree:
                told.append(
                    f"phase {identifier}: trees {other} and {tree} were built to the same binaries, byte for byte: "
                    "between their arms only switches can differ"
                )
    return told
