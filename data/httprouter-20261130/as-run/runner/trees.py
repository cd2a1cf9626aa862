"""Trees: exact package sets, each in an environment of its own, identified by what is really in it.

An environment is made once per lock file and Python, from wheels whose hashes the lock file lists, with copied files
and compiled bytecode: linked environments would share files, and bytecode would be compiled inside the first run.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.errors import DataError, Missing, Refused
from runner.files import digest_of, file_sha256, sha256, write_whole
from runner.plantrees import PackagesTree
from runner.process import call

FORMAT = 2  # of identity.json; part of an environment's key, so that one of an earlier format is made again

# Differ between installations of the same wheels: who installed, from where, and scripts that name their interpreter.
_NOT_IDENTITY = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"}

_PATHS = ("path", "library_path")  # of the interpreter on this machine; no part of a tree's identity
_STARTS = ("bin/python", "pyvenv.cfg")

_DESCRIBE_PYTHON = """import json, os, platform, sys, sysconfig
print(json.dumps({"version": platform.python_version(), "build": " ".join(platform.python_build()),
 "compiler": platform.python_compiler(), "executable": os.path.realpath(sys.executable),
 "library": os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("LDLIBRARY") or ""),
 "packages": sysconfig.get_path("purelib")}))"""


@dataclass(frozen=True)
class Built:
    """A materialised tree."""

    name: str
    folder: Path
    packages: Path  # site-packages
    wheels: dict[str, str]  # file name -> sha256
    interpreter: dict[str, str]
    files: dict[str, str]  # what identifies the tree: relative path -> sha256
    bytecode: dict[str, str]  # compiled files; differ by machine, must not change between runs
    links: dict[str, str]  # what starts the interpreter, outside the packages; differs by machine like bytecode
    marks: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of every file when it was last hashed

    @property
    def python(self) -> Path:
        """The tree's interpreter."""
        return self.folder / "bin" / "python"

    def identity(self) -> dict[str, Any]:
        """What the seal keeps: interpreter, wheels, and one digest over every installed file."""
        return {
            "interpreter": {key: value for key, value in self.interpreter.items() if key not in _PATHS},
            "wheels": self.wheels,
            "files": len(self.files),
            "files_sha256": digest_of(self.files),
        }


def cache_folder() -> Path:
    """Where environments are kept between campaigns."""
    root = os.environ.get("BENCHBOOK_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "benchbook"
    )
    return Path(root) / "trees"


def materialise(name: str, tree: PackagesTree, lock: Path) -> Built:
    """The tree's environment: made if it is not there, and checked against what was installed.

    Raises Missing (interpreter, uv), Refused (the installer failed) or DataError (a file of it was altered).
    """
    if not lock.is_file():
        raise DataError(str(lock), "the lock file of this tree is missing", expected="a requirements file with hashes")
    key = sha256(f"{FORMAT}\0{tree.python}\0{sys.platform}\0".encode() + lock.read_bytes())[:16]
    folder = cache_folder() / f"{name}-{key}"
    if not (folder / "identity.json").is_file():
        _make(name, tree, lock, folder)
    return check(load(name, folder), tree)


def load(name: str, folder: Path) -> Built:
    """A tree as it was when it was made."""
    try:
        document = json.loads((folder / "identity.json").read_text())
        return Built(
            name,
            folder,
            folder / document["packages"],
            document["wheels"],
            document["interpreter"],
            document["files"],
            document["bytecode"],
            document["links"],
        )
    except (ValueError, KeyError, OSError) as error:
        raise DataError(
            str(folder),
            "this tree's record cannot be read",
            found=repr(error),
            remedy="remove the folder; it is made again",
        ) from None


def check(built: Built, tree: PackagesTree) -> Built:
    """Compare every file of a tree with what was installed. Raises DataError naming the first files that differ."""
    marks = _marks(built)
    files, bytecode = scan(built.packages)
    for kind, then, now in (
        ("file", built.files, files),
        ("compiled file", built.bytecode, bytecode),
        ("file", built.links, starts(built.folder)),
    ):
        changed = sorted(path for path in then.keys() | now.keys() if then.get(path) != now.get(path))
        if changed:
            raise DataError(
                f"tree {built.name}",
                f"{len(changed)} {kind}(s) altered since it was installed",
                found=", ".join(changed[:5]),
                remedy=f"remove {built.folder}; it is made again",
            )
    if any(_digest(path) != expected for path, expected in _interpreter(built).items()):
        raise DataError(
            f"tree {built.name}",
            f"Python {tree.python} was replaced or removed since the tree was made",
            remedy=f"remove {built.folder} and seal again",
        )
    return replace(built, marks=marks)


def recheck(built: Built, tree: PackagesTree) -> None:
    """The cheap check before every run: hash a tree again only if a file was added, removed or touched since.

    A file's change time cannot be set back without setting the clock, so that unchanged marks mean unchanged bytes.
    """
    if _marks(built) != built.marks:
        check(built, tree)


def starts(folder: Path) -> dict[str, str]:
    """What starts a tree's interpreter: the target of a link, else the digest of the file."""
    found = {name: folder / name for name in _STARTS}
    return {
        name: f"link to {os.readlink(path)}" if path.is_symlink() else _digest(path) for name, path in found.items()
    }


def _interpreter(built: Built) -> dict[Path, str]:
    """The interpreter's executable, and its library where it has one, with their digests when the tree was made."""
    known = built.interpreter
    found = {Path(known["path"]): known["sha256"]}
    return found | ({Path(known["library_path"]): known["library_sha256"]} if "library_path" in known else {})


def _digest(path: Path) -> str:
    return file_sha256(path) if path.is_file() else "gone"


def _marks(built: Built) -> dict[str, tuple[int, ...]]:
    """Marks of everything that `check` hashes."""
    others = [*(built.folder / name for name in _STARTS), *_interpreter(built)]
    return file_marks(built.packages) | {str(path): file_mark(path) if os.path.lexists(path) else () for path in others}


def _make(name: str, tree: PackagesTree, lock: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        environment, wheels = work / "environment", work / "wheels"
        _install(name, tree, lock, environment, wheels)
        described = json.loads(call([str(environment / "bin" / "python"), "-c", _DESCRIBE_PYTHON]))
        packages = Path(described["packages"])
        assert_wheel_records(name, packages)
        files, bytecode = scan(packages)
        interpreter = {
            "version": described["version"],
            "build": described["build"],
            "compiler": described["compiler"],
            "path": described["executable"],
            "sha256": file_sha256(Path(described["executable"])),
        }
        library = Path(described["library"])
        if library.is_file() and ".so" in library.name:
            interpreter |= {"library_path": str(library), "library_sha256": file_sha256(library)}
        identity = {
            "packages": packages.relative_to(environment).as_posix(),
            "interpreter": interpreter,
            "files": files,
            "wheels": {path.name: file_sha256(path) for path in sorted(wheels.iterdir())},
            "bytecode": bytecode,
            "links": starts(environment),
        }
        write_whole(environment / "identity.json", json.dumps(identity, indent=1).encode())
        if not (folder / "identity.json").is_file():
            shutil.rmtree(folder, ignore_errors=True)  # what is left of one that somebody removed in part
        try:
            os.rename(environment, folder)
        except OSError:
            if not (folder / "identity.json").is_file():  # another runner may have made it meanwhile
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def interpreter(version: str) -> str:
    """What to ask uv for: the interpreter that this runner's own environment was made from, when it has the version."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    base: str = getattr(sys, "_base_executable", "")
    return base if own == version and base else version


def install_commands(tree: PackagesTree, lock: str, environment: str, wheels: str) -> list[list[str]]:
    """How an environment is made: wheels first, so that their hashes are known, then installed without any network."""
    uv = str(Path(sysconfig.get_path("scripts")) / "uv")
    python = f"{environment}/bin/python"
    return [
        [
            uv,
            "venv",
            "--quiet",
            "--no-project",
            "--no-python-downloads",
            "--python",
            interpreter(tree.python),
            environment,
        ],
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--python-version",
            tree.python,
            "-r",
            lock,
            "-d",
            wheels,
        ],
        [
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--no-index",
            "--find-links",
            wheels,
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--link-mode=copy",
            "--compile-bytecode",
            "-r",
            lock,
        ],
    ]


def _install(name: str, tree: PackagesTree, lock: Path, environment: Path, wheels: Path) -> None:
    wheels.mkdir()
    make, *install = install_commands(tree, str(lock), str(environment), str(wheels))
    # The installers need the user's own settings (index, proxy, certificates); a benchmark process never gets them.
    inherited = dict(os.environ)
    try:
        call(make, environment=inherited, where=f"tree {name}")
    except Refused as error:
        raise Missing(
            f"tree {name}",
            f"no Python {tree.python} to make its environment with",
            found=error.found,
            remedy=f"install Python {tree.python}, or plan another for every tree",
        ) from None
    if any(line.strip() and not line.startswith("#") for line in lock.read_text().splitlines()):
        for command in install:
            call(command, environment=inherited, limit_s=600, where=f"tree {name}")


def assert_wheel_records(name: str, packages: Path) -> None:
    """Every file that a wheel's RECORD lists with a hash must have it. Raises DataError naming the file."""
    for record in sorted(packages.glob("*.dist-info/RECORD")):
        with record.open(newline="") as file:
            for path, digest, *_ in csv.reader(file):
                if not digest or path.startswith(".."):
                    continue  # installer's own entries and scripts, whose first line names the interpreter
                kind, _, expected = digest.partition("=")
                data = (packages / path).read_bytes()
                found = base64.urlsafe_b64encode(hashlib.new(kind, data).digest()).rstrip(b"=").decode()
                if found != expected:
                    raise DataError(
                        f"tree {name}: {path}", "not the file that its wheel holds", expected=expected, found=found
                    )


def scan(packages: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Digests of every installed file, and of every compiled file, by path."""
    files: dict[str, str] = {}
    bytecode: dict[str, str] = {}
    for parent, folders, names in os.walk(packages):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            relative = path.relative_to(packages).as_posix()
            if name.endswith(".pyc"):
                bytecode[relative] = file_sha256(path)
            elif not (name in _NOT_IDENTITY and parent.endswith(".dist-info")):
                files[relative] = file_sha256(path)
    return files, bytecode


def file_marks(packages: Path) -> dict[str, tuple[int, ...]]:
    """Inode, size, modification and change time (ns) of every file below a folder."""
    marks: dict[str, tuple[int, ...]] = {}
    for parent, _, names in os.walk(packages):
        for name in names:
            path = Path(parent, name)
            marks[str(path)] = file_mark(path)
    return marks


def file_mark(path: Path) -> tuple[int, ...]:
    """Inode, size, modification and change time (ns) of a file, or of a link itself."""
    found = os.stat(path, follow_symlinks=False)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def difference(sealed: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """What differs between a sealed tree and the present one, in words; empty when nothing does."""
    parts = []
    for key in ("interpreter", "wheels"):
        for name in sorted(sealed[key].keys() | found[key].keys()):
            if sealed[key].get(name) != found[key].get(name):
                parts.append(f"{key} {name}: sealed {sealed[key].get(name)}, found {found[key].get(name)}")
    if not parts and sealed != found:
        parts.append(f"installed files: sealed {sealed['files_sha256']}, found {found['files_sha256']}")
    return "; ".join(parts)
