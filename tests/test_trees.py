"""Trees: exact package sets from wheels that the tests build themselves, so that no registry is asked."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from runner import trees
from runner.errors import DataError, Missing, Refused
from runner.plantrees import PackagesTree

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def tree_of(python: str = HERE) -> PackagesTree:
    return PackagesTree(kind="packages", what="a tiny package", python=python, lock="trees/tiny.txt")


def build_wheel(folder: Path, version: str, *, lie: bool = False) -> Path:
    """A wheel of one module; with `lie` its RECORD gives another digest than the module has."""
    files = {
        "tinypackage.py": f'VERSION = "{version}"\n',
        f"tinypackage-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: tinypackage\nVersion: {version}\n",
        f"tinypackage-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"tinypackage-{version}.dist-info/RECORD"
    lines = []
    for name, text in files.items():
        data = b"something else" if lie and name == "tinypackage.py" else text.encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(text)}\n")
    files[record] = "".join(lines) + f"{record},,\n"
    path = folder / f"tinypackage-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def lock_of(folder: Path, wheel: Path, digest: str = "") -> Path:
    version = wheel.name.split("-")[1]
    path = folder / f"{version}.txt"
    digest = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
    path.write_text(f"tinypackage=={version} \\\n    --hash=sha256:{digest}\n")
    return path


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that the installers look into, and a cache of the test's own."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "BENCHBOOK_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    return folder


def test_two_trees_side_by_side(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (
        trees.materialise(name, tree_of(), lock_of(tmp_path, build_wheel(wheels, version)))
        for name, version in (("one", "1.0"), ("two", "2.0"))
    )
    for built, version in ((one, "1.0"), (two, "2.0")):
        shown = subprocess.run(
            [built.python, "-c", "import tinypackage as t; print(t.VERSION, t.__file__)"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout.split() == [version, str(built.packages / "tinypackage.py")]
        assert os.stat(built.packages / "tinypackage.py").st_nlink == 1  # copied, not shared with a cache
        assert any(name.startswith("__pycache__/tinypackage.") for name in built.bytecode)
        wheel = wheels / f"tinypackage-{version}-py3-none-any.whl"
        assert built.wheels == {wheel.name: hashlib.sha256(wheel.read_bytes()).hexdigest()}
    first, second = one.identity(), two.identity()
    assert first["interpreter"] == second["interpreter"]
    assert first["files_sha256"] != second["files_sha256"]
    assert "path" not in first["interpreter"]
    text = trees.difference(first, second)
    assert text.startswith("wheels tinypackage-1.0-py3-none-any.whl: sealed ")
    assert trees.difference(first, first) == ""
    assert trees.difference(first, first | {"files_sha256": "0"}).startswith("installed files: sealed")
    # made once
    monkeypatch.setattr(trees, "_make", lambda *_: pytest.fail("made again"))
    again = trees.materialise("one", tree_of(), tmp_path / "1.0.txt")
    assert again.identity() == first
    assert sorted(path.name.split("-")[0] for path in trees.cache_folder().iterdir()) == ["one", "two"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with one tree in it, and its lock file, to be copied."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder))
        patch.setenv("BENCHBOOK_CACHE", str(folder / "cache"))
        trees.materialise("tiny", tree_of(), lock_of(folder, build_wheel(folder, "1.0")))
    return folder


@pytest.fixture
def built(made: Path, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trees.Built:
    shutil.copytree(made / "cache", tmp_path / "cache", symlinks=True)
    shutil.copy(made / "1.0.txt", tmp_path)
    shutil.copy(made / "tinypackage-1.0-py3-none-any.whl", wheels)
    with monkeypatch.context() as patch:
        patch.setattr(trees, "_make", lambda *_: pytest.fail("made again"))
        return trees.materialise("tiny", tree_of(), tmp_path / "1.0.txt")


def test_an_altered_added_or_removed_file(built: trees.Built, tmp_path: Path) -> None:
    trees.recheck(built, tree_of())
    module = built.packages / "tinypackage.py"
    compiled = next(built.packages.glob("__pycache__/tinypackage*.pyc"))
    added = built.packages / "sitecustomize.py"
    for path, kind in ((module, "file"), (compiled, "compiled file"), (added, "file")):
        before = path.read_bytes() if path.exists() else None
        path.write_bytes((before or b"") + b" ")
        for look in (trees.recheck, trees.check):
            with pytest.raises(DataError, match=rf"1 {kind}\(s\) altered[\s\S]*{path.name}"):
                look(built, tree_of())
        with pytest.raises(DataError, match=path.name):
            trees.materialise("tiny", tree_of(), tmp_path / "1.0.txt")
        path.unlink() if before is None else path.write_bytes(before)
    trees.recheck(built, tree_of())
    module.unlink()
    with pytest.raises(DataError, match=r"tinypackage\.py"):
        trees.recheck(built, tree_of())


@pytest.mark.parametrize("name", ["pyvenv.cfg", "bin/python"])
def test_what_starts_the_interpreter_is_checked(built: trees.Built, tmp_path: Path, name: str) -> None:
    path = built.folder / name
    if name == "bin/python":
        assert path.is_symlink()
        path.unlink()
        path.symlink_to(shutil.which("true") or "")
    else:
        path.write_text(path.read_text() + "include-system-site-packages = true\n")
    for look in (trees.recheck, trees.check):
        with pytest.raises(DataError, match=rf"1 file\(s\) altered[\s\S]*found: {name}"):
            look(built, tree_of())
    path.unlink()
    with pytest.raises(DataError, match=name):
        trees.materialise("tiny", tree_of(), tmp_path / "1.0.txt")
    assert trees.starts(built.folder)[name] == "gone"


def test_an_interpreter_that_is_a_file_of_the_tree(built: trees.Built) -> None:
    path = built.folder / "bin" / "python"
    path.unlink()
    path.write_bytes(b"a copy")
    assert trees.starts(built.folder)["bin/python"] == hashlib.sha256(b"a copy").hexdigest()


def test_the_interpreters_library_is_checked(built: trees.Built, tmp_path: Path) -> None:
    library = tmp_path / "libpython.so"
    library.write_bytes(b"one")
    known = built.interpreter | {"library_path": str(library), "library_sha256": hashlib.sha256(b"one").hexdigest()}
    other = trees.check(replace(built, interpreter=known), tree_of())
    assert "library_path" not in other.identity()["interpreter"]
    assert other.identity()["interpreter"]["library_sha256"] == known["library_sha256"]
    trees.recheck(other, tree_of())
    library.write_bytes(b"two")
    with pytest.raises(DataError, match="was replaced or removed since the tree was made"):
        trees.recheck(other, tree_of())


def test_an_environment_of_an_earlier_format_is_made_again(
    built: trees.Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "FORMAT", trees.FORMAT + 1)
    again = trees.materialise("tiny", tree_of(), tmp_path / "1.0.txt")
    assert again.folder != built.folder
    assert again.identity() == built.identity()


def test_same_size_and_time_do_not_hide_a_change(built: trees.Built) -> None:
    module = built.packages / "tinypackage.py"
    before = module.stat()
    module.write_text('VERSION = "9.9"\n')
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert module.stat().st_size == before.st_size
    with pytest.raises(DataError, match=r"tinypackage\.py"):
        trees.recheck(built, tree_of())


def test_nothing_is_hashed_again_while_nothing_is_touched(built: trees.Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "scan", lambda _: pytest.fail("hashed again"))
    trees.recheck(built, tree_of())


def test_a_wheel_whose_record_disagrees(wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tree tiny: tinypackage\.py: not the file that its wheel holds"):
        trees.materialise("tiny", tree_of(), lock_of(tmp_path, build_wheel(wheels, "1.0", lie=True)))
    assert list(trees.cache_folder().iterdir()) == []


def test_a_hash_that_the_lock_does_not_list(wheels: Path, tmp_path: Path) -> None:
    lock = lock_of(tmp_path, build_wheel(wheels, "1.0"), digest="0" * 64)
    with pytest.raises(Refused, match=r"tree tiny: exit status 1[\s\S]*(?i:hash)"):
        trees.materialise("tiny", tree_of(), lock)
    assert list(trees.cache_folder().iterdir()) == []


def test_a_lock_without_hashes_or_without_a_file(wheels: Path, tmp_path: Path) -> None:
    build_wheel(wheels, "1.0")
    (tmp_path / "bare.txt").write_text("tinypackage==1.0\n")
    with pytest.raises(Refused, match=r"(?i)hash"):
        trees.materialise("tiny", tree_of(), tmp_path / "bare.txt")
    with pytest.raises(DataError, match="the lock file of this tree is missing"):
        trees.materialise("tiny", tree_of(), tmp_path / "none.txt")


def test_an_interpreter_that_is_not_there(wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(Missing, match=r"no Python 3\.99 [\s\S]*what to do: install Python 3\.99"):
        trees.materialise("tiny", tree_of("3.99"), lock_of(tmp_path, build_wheel(wheels, "1.0")))


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_an_interpreter_that_changed(built: trees.Built, tmp_path: Path, how: str) -> None:
    stand_in = tmp_path / "python"
    stand_in.write_bytes(b"another interpreter")
    if how == "removed":
        stand_in.unlink()
    path = built.folder / "identity.json"
    document = json.loads(path.read_text())
    document["interpreter"]["path"] = str(stand_in)
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match="was replaced or removed since the tree was made"):
        trees.materialise("tiny", tree_of(), tmp_path / "1.0.txt")


def test_a_record_that_cannot_be_read_or_is_gone(built: trees.Built, tmp_path: Path) -> None:
    path = built.folder / "identity.json"
    path.write_text("{}")
    with pytest.raises(DataError, match="this tree's record cannot be read"):
        trees.materialise("tiny", tree_of(), tmp_path / "1.0.txt")
    path.unlink()
    shutil.rmtree(built.packages)
    assert trees.materialise("tiny", tree_of(), tmp_path / "1.0.txt").identity() == built.identity()


@pytest.mark.slow
def test_a_package_of_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the registry's own wheel, as a campaign does it; needs the network or a package cache."""
    monkeypatch.setenv("BENCHBOOK_CACHE", str(tmp_path / "cache"))
    lock = Path(__file__).parent / "golden" / "six.txt"
    built = trees.materialise("six", tree_of(), lock)
    [(name, digest)] = built.wheels.items()
    assert name == "six-1.17.0-py2.py3-none-any.whl"
    assert digest in lock.read_text()
    assert "six.py" in built.files


def test_the_runners_own_interpreter_is_taken_when_it_has_the_version() -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = trees.interpreter(own)
    said = subprocess.run(
        [found, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == own
    assert trees.interpreter("3.99") == "3.99"
