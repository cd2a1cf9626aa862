"""Trees of programs: files of the host that are measured as they are, identified by their bytes.

A name is looked for where a run's process looks for it, on the runner's fixed PATH and not on the user's. What a
program loads beside its own file, such as libraries, is no part of its identity.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.errors import Missing, Refused
from runner.files import digest_of, file_sha256
from runner.plantrees import ProgramsTree
from runner.process import RUN_PATH, call_logged
from runner.trees import file_mark

VERSION_LIMIT_S = 30
_LONGEST = 500  # characters of what a program says of itself
_FOLDERS = re.compile(r"(/[^\s/'\"]+)+/")

Mark = tuple[int, ...]


@dataclass(frozen=True)
class ProgramsBuilt:
    """A tree's programs as they were found."""

    name: str
    found: dict[str, dict[str, Any]]  # program as the plan writes it -> file, sha256, size
    version: tuple[str, ...]
    interpreter: dict[str, str]  # the runner's own: what {python} stands for
    paths: dict[str, Path]  # program, and "" for the interpreter -> the file itself; of this machine, in no record
    marks: dict[str, Mark]

    @property
    def folder(self) -> Path:
        """Where the tree is: nowhere, its programs are the host's; the interpreter's folder stands for it."""
        return self.paths[""].parent

    def identity(self) -> dict[str, Any]:
        """What the seal keeps: digest and size of each program, what it says of itself, and one digest over all."""
        files = {name: facts["sha256"] for name, facts in self.found.items()}
        return {
            "kind": "programs",
            "programs": self.found,
            "version": list(self.version),
            "interpreter": self.interpreter,
            "files": len(files),
            "files_sha256": digest_of(files),
        }


def places(tree: ProgramsTree) -> dict[str, str]:
    """What the fields of commands stand for."""
    return {"python": sys.executable, "programs": ",".join(tree.programs)}


def materialise(name: str, tree: ProgramsTree) -> ProgramsBuilt:
    """Find and identify a tree's programs. Raises Missing, or Refused when one does not say its version."""
    paths = {program: find(name, program) for program in tree.programs}
    paths[""] = Path(os.path.realpath(sys.executable))
    marks = {program: file_mark(path) for program, path in paths.items()}  # before hashing: a later change is seen
    found = {
        program: {"file": paths[program].name, "sha256": file_sha256(paths[program]), "size": marks[program][1]}
        for program in tree.programs
    }
    interpreter = {"version": platform.python_version(), "sha256": file_sha256(paths[""])}
    version = tuple(_version(name, argv, _located(name, argv[0])) for argv in tree.version)
    return ProgramsBuilt(name, found, version, interpreter, paths, marks)


def find(tree: str, program: str) -> Path:
    """The file of a program, through symbolic links. Raises Missing."""
    return Path(os.path.realpath(_located(tree, program)))


def _located(tree: str, program: str) -> Path:
    """A program under the name that a run calls it by: one file may be several programs. Raises Missing."""
    path = shutil.which(program, path=RUN_PATH)
    if path is None:
        raise Missing(
            f"tree {tree}: {program}",
            "this program is not found, or may not be executed",
            expected=f"{program} in a folder of {RUN_PATH}" if "/" not in program else "an executable file",
            found="none",
            remedy="install it, or give its whole path in the plan",
        )
    return Path(path)


def recheck(built: ProgramsBuilt) -> None:
    """The cheap check before every run: hash a program again only if it is another file now, or was touched.

    Raises Missing for one that is gone and Refused, with both digests, for one that is not the same any more.
    """
    for program, before in built.paths.items():
        path = find(built.name, program) if program else Path(os.path.realpath(sys.executable))
        if path == before and path.is_file() and file_mark(path) == built.marks[program]:
            continue
        expected = str(built.found[program]["sha256"] if program else built.interpreter["sha256"])
        digest = file_sha256(path) if path.is_file() else "gone"
        if digest != expected:
            raise Refused(
                f"tree {built.name}: {program or 'the interpreter of the runner'}",
                "another file is found under this name now" if path != before else "changed since the session began",
                expected=f"SHA-256 {expected}",
                found=f"SHA-256 {digest}",
                remedy="restore the program that was sealed, or start another campaign for this one",
            )


def difference(sealed: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """What differs between sealed programs and the present ones, in words; empty when nothing does."""
    if sealed.get("kind") != found.get("kind"):
        return f"kind: sealed {sealed.get('kind')}, found {found.get('kind')}"
    parts = []
    for name in sorted(sealed["programs"].keys() | found["programs"].keys()):
        then, now = (side["programs"].get(name, {}) for side in (sealed, found))
        if then != now:
            parts.append(f"{name}: sealed SHA-256 {then.get('sha256')}, found {now.get('sha256')}")
    for key in ("interpreter", "version"):
        if sealed[key] != found[key]:
            parts.append(f"{key}: sealed {sealed[key]}, found {found[key]}")
    return "; ".join(parts)


def _version(name: str, argv: tuple[str, ...], path: Path) -> str:
    """What a program says of itself, on either output; folders of this machine are cut off."""
    where = f"tree {name}: version of {argv[0]}"
    settings = {"PATH": RUN_PATH, "LANG": "C.UTF-8", "TZ": "UTC"}
    with tempfile.TemporaryDirectory(prefix="benchbook-version-") as folder:
        log = Path(folder) / "said"
        problem = call_logged([str(path), *argv[1:]], settings, Path(folder), log, VERSION_LIMIT_S)
        said = log.read_bytes()[:65536].decode(errors="replace").strip()
    if problem or not said:
        raise Refused(
            where,
            problem or "it said nothing",
            expected="its version, and exit status 0",
            found=_FOLDERS.sub("", said)[-_LONGEST:] or "no output",
            remedy=f"mend trees.{name}.version, or leave it out: the digest identifies the program",
        )
    return _FOLDERS.sub("", said.splitlines()[0].strip())[:_LONGEST]
