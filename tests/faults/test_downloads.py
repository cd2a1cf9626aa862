"""Packages are installed by the hashes of a lock file or not at all, with the real installers and wheels that the tests make."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from runner import trees
from runner.errors import Refused
from tests.test_trees import build_wheel, lock_of, tree_of, wheels

__all__ = ["wheels"]

PROJECT = Path(__file__).resolve().parents[2]


def refused(tmp_path: Path, lock: str) -> str:
    """Ask for a tree by a lock file; it must be refused, with nothing left in the cache. Returns the words."""
    path = tmp_path / "lock.txt"
    path.write_text(lock)
    with pytest.raises(Refused) as raised:
        trees.materialise("tiny", tree_of(), path)
    assert list(trees.cache_folder().glob("*")) == []
    return str(raised.value)


def test_a_wheel_that_changed_since_the_lock_was_made_is_refused(wheels: Path, tmp_path: Path) -> None:
    """The index gives other bytes under the same name and version: refused with both hashes, nothing installed."""
    lock = lock_of(tmp_path, build_wheel(wheels, "1.0")).read_text()
    wheel = wheels / "tinypackage-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    words = refused(tmp_path, lock)
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() in words
    assert re.search("hash", words, re.IGNORECASE)


@pytest.mark.parametrize("kind", ["none", "md5", "one of two"])
def test_a_lock_without_a_strong_hash_for_each_package_is_refused(wheels: Path, tmp_path: Path, kind: str) -> None:
    """No hash, one that can be forged, or a hash for one package of two: refused, nothing installed."""
    wheel = build_wheel(wheels, "1.0")
    lock = {
        "none": "tinypackage==1.0\n",
        "md5": f"tinypackage==1.0 --hash=md5:{hashlib.md5(wheel.read_bytes(), usedforsecurity=False).hexdigest()}\n",
        "one of two": lock_of(tmp_path, wheel).read_text() + "otherpackage==1.0\n",
    }[kind]
    assert re.search("hash", refused(tmp_path, lock), re.IGNORECASE)


def test_an_unpinned_package_is_refused_in_spite_of_its_hash(wheels: Path, tmp_path: Path) -> None:
    """A hash without an exact version: refused."""
    wheel = build_wheel(wheels, "1.0")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert re.search("pinned|==", refused(tmp_path, f"tinypackage>=1.0 --hash=sha256:{digest}\n"))


LOCKS = [*sorted(PROJECT.glob("requirements*.txt")), *sorted(PROJECT.glob("data/*/trees/*.txt"))]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.relative_to(PROJECT).as_posix())
def test_every_package_of_every_lock_file_here_has_a_version_and_hashes(lock: Path) -> None:
    """The product's own lock files, and those of bundled campaigns: an exact version and SHA-256 for each package, no option."""
    text = re.sub(r"\\\n", " ", lock.read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in lines:
        assert re.fullmatch(
            r"[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==[^\s;]+( *;[^#]*?)?(\s+--hash=sha256:[0-9a-f]{64})+", line
        ), line


def test_what_installs_the_product_asks_for_hashes() -> None:
    """Every installing line of the Makefile demands hashes."""
    lines = [line for line in (PROJECT / "Makefile").read_text().splitlines() if re.search(r"pip (install|sync)", line)]
    assert lines
    assert all("--require-hashes" in line for line in lines), lines
