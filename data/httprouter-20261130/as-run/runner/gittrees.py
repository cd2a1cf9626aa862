"""Trees from commits: a clean checkout, the harness laid over it, built, and identified by what came out.

Every tree is built in the same folder and then moved, so that a compiler that writes paths into what it makes writes
the same ones for every commit.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.errors import DataError, Missing, Refused
from runner.files import canonical_json, digest_of, file_sha256, sha256, write_whole
from runner.plantrees import GitTree, Overlay
from runner.process import SYSTEM_PATH, call, call_logged
from runner.repositories import Mirror, address_of
from runner.templates import fill
from runner.trees import cache_folder, file_marks

FORMAT = 1  # of identity.json; part of a tree's key
CHECKOUT, BIN, LOG = "checkout", "bin", "build.log"
_TAIL = 12  # lines of a failed build's log that its error shows


@dataclass(frozen=True)
class GitBuilt:
    """A built tree."""

    name: str
    folder: Path
    content: dict[str, Any]  # of the seal, but for what `files` says
    files: dict[str, str]  # checkout, overlay, binaries: relative path -> sha256
    others: dict[str, str]  # what else the build left; differs by machine, must not change between runs
    marks: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """What the build said, places of this machine left out."""
        return self.folder / LOG

    def identity(self) -> dict[str, Any]:
        """What the seal keeps: commit, overlay, toolchain, binaries, and one digest over every file."""
        return {"kind": "git", **self.content, "files": len(self.files), "files_sha256": digest_of(self.files)}


def places(tree: GitTree, folder: Path | str) -> dict[str, str]:
    """What the fields of commands stand for, for a tree below a folder."""
    return {
        "tree": str(folder),
        "checkout": f"{folder}/{CHECKOUT}",
        "bin": f"{folder}/{BIN}",
        "binary": f"{folder}/{BIN}/{tree.binaries[0]}",
    }


def materialise(name: str, tree: GitTree, campaign: Path, harness: Path) -> GitBuilt:
    """The built tree: made if it is not there, and checked against what was built. `harness` has the overlay's files.

    Raises Missing (git, toolchain), Refused (commit, overlay or build) or DataError (a file of it was altered).
    """
    toolchain = toolchain_of(name, tree)
    overlay = tree.overlay
    key = sha256(
        canonical_json(
            [
                FORMAT,
                sys.platform,
                tree.model_dump(mode="json", exclude={"what", "repository", "build_limit_s"}),
                {} if overlay is None or overlay.commit else _harness_digests(name, overlay, harness),
                toolchain,
            ]
        ).encode()
    )[:16]
    folder = cache_folder() / f"{name}-{key}"
    if not (folder / "identity.json").is_file():
        _make(name, tree, address_of(tree.repository, campaign), harness, toolchain, folder)
    return check(load(name, tree, folder))


def load(name: str, tree: GitTree, folder: Path) -> GitBuilt:
    """A tree as it was when it was built. Raises DataError when its record cannot be read."""
    try:
        document = json.loads((folder / "identity.json").read_text())
        content = {"repository": tree.repository, **document["content"]}
        return GitBuilt(name, folder, content, document["files"], document["others"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DataError(
            str(folder),
            "this tree's record cannot be read",
            found=repr(error),
            remedy="remove the folder; it is made again",
        ) from None


def check(built: GitBuilt) -> GitBuilt:
    """Compare every file of a tree with what was built. Raises DataError naming the first files that differ."""
    marks = _marks(built)
    now, then = _scan(built.folder), built.files | built.others
    changed = sorted(path for path in then.keys() | now.keys() if then.get(path) != now.get(path))
    if changed:
        raise DataError(
            f"tree {built.name}",
            f"{len(changed)} file(s) altered since it was built",
            found=", ".join(changed[:5]),
            remedy=f"remove {built.folder}; it is made again",
        )
    return replace(built, marks=marks)


def recheck(built: GitBuilt) -> None:
    """The cheap check before every run: hash a tree again only if a file was added, removed or touched since."""
    if _marks(built) != built.marks:
        check(built)


def difference(sealed: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """What differs between a sealed tree and the present one, in words; empty when nothing does."""
    parts = [
        f"{key}: sealed {sealed.get(key)}, found {found.get(key)}"
        for key in ("kind", "commit", "toolchain", "overlay", "binaries")
        if sealed.get(key) != found.get(key)
    ]
    if not parts and sealed.get("files_sha256") != found.get("files_sha256"):
        parts.append(f"files of the checkout: sealed {sealed.get('files_sha256')}, found {found.get('files_sha256')}")
    return "; ".join(parts)


def build_environment(tree: GitTree, fields: Mapping[str, str], home: str, path: str) -> dict[str, str]:
    """The environment of a build: nothing of the user's but where programs are found."""
    own = {name: fill(value, fields) for name, value in tree.environment.items()}
    return {"PATH": path, "HOME": home, "LANG": "C.UTF-8", "TZ": "UTC"} | own


def toolchain_of(name: str, tree: GitTree) -> dict[str, str]:
    """What builds: what it says of itself, and the digest of its program. Raises Missing or Refused."""
    home = _home()
    environment = build_environment(tree, places(tree, home), str(home), os.environ.get("PATH", SYSTEM_PATH))
    program = shutil.which(tree.toolchain[0], path=environment["PATH"])
    if program is None:
        raise Missing(
            f"tree {name}: {tree.toolchain[0]}",
            "the program that builds this tree is not found",
            expected=f"{tree.toolchain[0]} in a folder of PATH",
            found="none",
            remedy="install it, or put its folder into PATH",
        )
    said = call([program, *tree.toolchain[1:]], environment=environment, where=f"tree {name}: toolchain")
    version = "\n".join(line.rstrip() for line in said.strip().splitlines())[:500]
    return {"version": version, "sha256": file_sha256(Path(os.path.realpath(program)))}


def lay_over(name: str, overlay: Overlay, source: Path, files: list[str], checkout: Path) -> dict[str, str]:
    """Copy files over a checkout, byte for byte. Returns digests by path in the checkout.

    Raises Refused where something else than a plain file stands in the way, so that nothing lands outside the checkout.
    """
    laid = {}
    for file in files:
        target = f"{overlay.into}/{file}" if overlay.into else file
        problem = _in_the_way(checkout, target)
        if (source / file).is_symlink() or not (source / file).is_file():
            problem = "the overlay's own file is no plain file"
        if problem:
            raise Refused(
                f"tree {name}: overlay {target}",
                problem,
                expected="a new file, or a plain file to replace",
                found=target,
                remedy="mend overlay.files or overlay.into",
            )
        (checkout / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, checkout / target)
        laid[target] = file_sha256(source / file)
    return dict(sorted(laid.items()))


def _in_the_way(checkout: Path, target: str) -> str:
    *parents, last = target.split("/")
    place = checkout
    for part in parents:
        place /= part
        if place.is_symlink():
            return f"{place.relative_to(checkout)} is a symbolic link in the commit"
        if place.exists() and not place.is_dir():
            return f"{place.relative_to(checkout)} is a file in the commit, and would have to be a folder"
    place /= last
    if place.is_symlink():
        return "a symbolic link in the commit has this name"
    return "a folder in the commit has this name" if place.is_dir() else ""


def _harness_digests(name: str, overlay: Overlay, harness: Path) -> dict[str, str]:
    missing = [file for file in overlay.files if not (harness / file).is_file()]
    if missing:
        raise DataError(
            f"tree {name}: overlay",
            "files of the harness are missing",
            expected=", ".join(overlay.files),
            found=f"no {', '.join(missing)} in {harness}",
            remedy="mend overlay.files or harness.files in the plan",
        )
    return {file: file_sha256(harness / file) for file in overlay.files}


def _home() -> Path:
    """The home folder of builds, shared by all, so that what compilers and module loaders keep is kept."""
    folder = cache_folder().parent / "build-home"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _make(name: str, tree: GitTree, address: str, harness: Path, toolchain: dict[str, str], folder: Path) -> None:
    where = f"tree {name}"
    mirror = Mirror(cache_folder().parent, address, where)
    with _workshop() as work:
        mirror.require(tree.commit)
        checkout = work / CHECKOUT
        mirror.write_out(tree.commit, checkout)
        (work / BIN).mkdir()
        laid: dict[str, str] = {}
        if tree.overlay:
            source, files = harness, list(tree.overlay.files)
            if tree.overlay.commit:
                mirror.require(tree.overlay.commit)
                source = work / "overlay"
                files = mirror.write_out(tree.overlay.commit, source, tree.overlay.files)
            laid = lay_over(name, tree.overlay, source, files, checkout)
            if source != harness:
                shutil.rmtree(source)
        before = _scan(work)
        _build(name, tree, work, folder)
        after = _scan(work)
        altered = [path for path, digest in laid.items() if after.get(f"{CHECKOUT}/{path}") != digest]
        if altered:
            raise Refused(
                where,
                "the build altered files of the harness",
                expected="the bytes that were laid over the checkout",
                found=", ".join(altered),
                remedy="mend trees.<name>.build",
            )
        wanted = {f"{BIN}/{binary}" for binary in tree.binaries}
        document = {
            "content": {
                "commit": tree.commit,
                "overlay": laid,
                "toolchain": toolchain,
                "binaries": {binary: after[f"{BIN}/{binary}"] for binary in tree.binaries},
            },
            "files": {path: digest for path, digest in after.items() if path in before or path in wanted},
            "others": {path: digest for path, digest in after.items() if path not in before and path not in wanted},
        }
        write_whole(work / "identity.json", json.dumps(document, indent=1).encode())
        shutil.rmtree(folder, ignore_errors=True)  # what is left of one that somebody removed in part
        os.rename(work, folder)


@contextmanager
def _workshop() -> Iterator[Path]:
    """The one folder in which trees are built, for one builder at a time."""
    parent = cache_folder()
    parent.mkdir(parents=True, exist_ok=True)
    work = parent / ".building"
    with (parent / ".building.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _build(name: str, tree: GitTree, work: Path, folder: Path) -> None:
    fields = places(tree, work)
    environment = build_environment(tree, fields, str(_home()), os.environ.get("PATH", SYSTEM_PATH))
    argv = [fill(part, fields) for part in tree.build]
    argv[0] = shutil.which(argv[0], path=environment["PATH"]) or argv[0]
    log = work / LOG
    problem = call_logged(argv, environment, work / CHECKOUT, log, tree.build_limit_s)
    log.write_bytes(_without_places(log.read_bytes(), {"{tree}": work, "{home}": _home()}))
    missing = [binary for binary in tree.binaries if not (work / BIN / binary).is_file()]
    if not problem and not missing:
        return
    kept = folder.with_name(f"{folder.name}.failed.log")
    shutil.copyfile(log, kept)
    last = log.read_text(errors="replace").rstrip().splitlines()[-_TAIL:]
    if problem:
        raise Refused(
            f"tree {name}: build",
            f"it failed: {problem}",
            expected="exit status 0",
            found="\n".join(["the log ends:", *(f"    {line[:300]}" for line in last)]) if last else "no output",
            remedy=f"the whole log is {kept}; mend trees.{name}.build, or the commit",
        )
    raise Refused(
        f"tree {name}: build",
        "it ended well and did not make every binary",
        expected=", ".join(f"{{bin}}/{binary}" for binary in tree.binaries),
        found=f"no {', '.join(missing)}",
        remedy=f"make trees.{name}.build write it to {{bin}}; the whole log is {kept}",
    )


def _without_places(log: bytes, known: Mapping[str, Path]) -> bytes:
    """A log without paths of this machine: it is published with the campaign."""
    for word, path in known.items():
        log = log.replace(str(path).encode(), word.encode())
    return log


def _scan(folder: Path) -> dict[str, str]:
    """Digests of every file below checkout and bin; of a symbolic link its target."""
    found = {}
    for below in (CHECKOUT, BIN):
        for parent, folders, names in os.walk(folder / below):
            for name in (*names, *(name for name in folders if Path(parent, name).is_symlink())):
                path = Path(parent, name)
                relative = path.relative_to(folder).as_posix()
                found[relative] = f"link to {os.readlink(path)}" if path.is_symlink() else _digest(path)
    return dict(sorted(found.items()))


def _digest(path: Path) -> str:
    """Of a pipe or a socket, that it is one: reading it would not end."""
    return file_sha256(path) if path.is_file() else "no plain file"


def _marks(built: GitBuilt) -> dict[str, tuple[int, ...]]:
    return file_marks(built.folder / CHECKOUT) | file_marks(built.folder / BIN)
