"""Trees in a plan: the code under test, as an exact set of packages, a commit that is built, or programs of the host."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from runner.plantypes import (
    Argv,
    Commit,
    Environment,
    FileName,
    LaidPath,
    OfPackages,
    PlanPart,
    Program,
    RelativePath,
    Repository,
    Seconds,
    Text,
)


class PackagesTree(PlanPart):
    """A pinned version of the code under test: an exact set of package versions."""

    kind: OfPackages
    what: Text
    python: Annotated[str, StringConstraints(pattern=r"^3\.[0-9]{1,2}$")]
    lock: RelativePath
    compiled: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,199}$")], ...] = ()


class Overlay(PlanPart):
    """Files that are laid over a checkout: the same benchmark for every commit."""

    files: Annotated[tuple[LaidPath, ...], Field(min_length=1)]
    commit: Commit | None = None  # of the same repository; None: the plan's harness has the files
    into: LaidPath | None = None  # folder of the checkout


class GitTree(PlanPart):
    """A pinned version of the code under test: a commit of a repository, and how it is built."""

    kind: Literal["git"]
    what: Text
    repository: Repository
    commit: Commit
    overlay: Overlay | None = None
    toolchain: Argv  # prints the version of what builds
    build: Argv
    environment: Environment = Field(default_factory=dict)
    binaries: Annotated[tuple[FileName, ...], Field(min_length=1)]
    build_limit_s: Seconds = 1800


class ProgramsTree(PlanPart):
    """Programs of the host, as they are when the campaign is sealed: identified by their bytes, not made."""

    kind: Literal["programs"]
    what: Text
    programs: Annotated[tuple[Program, ...], Field(min_length=1, max_length=50)]
    version: tuple[Argv, ...] = ()  # commands that print what a program says of itself


def _tree_form(value: object) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return {"git": "a commit", "programs": "programs"}.get(str(kind), "packages")


Tree = Annotated[
    Annotated[PackagesTree, Tag("packages")]
    | Annotated[GitTree, Tag("a commit")]
    | Annotated[ProgramsTree, Tag("programs")],
    Discriminator(_tree_form),
]
