"""Folders of logs that others made: whatever is in them, nothing is written outside of the campaign that takes them in."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.errors import BenchbookError, DataError, WrongUse
from runner.verify import verify
from tests.test_adopt import GOOD, MAPS, everything, logs, rewrite, take


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder beside the campaign whose bytes and names must not change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious.txt").write_text("as it was\n")
    before = everything(folder)
    yield folder
    assert everything(folder) == before
    assert sorted(path.name for path in folder.iterdir()) == ["precious.txt"]


def make_device(folder: Path) -> None:
    os.mknod(folder / "null.txt", stat.S_IFCHR | 0o600, os.makedev(1, 3))


def make_socket(folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket.txt")
    os.chdir(here)


def make_case_collision(folder: Path) -> None:
    (folder / "OLD.txt").write_text(GOOD)


def make_folder_collision(folder: Path) -> None:
    for name in ("logs", "Logs"):
        (folder / name).mkdir()
        (folder / name / f"{name}.txt").write_text(GOOD)


def make_accent_collision(folder: Path) -> None:
    (folder / "caf\u00e9.txt").write_text(GOOD)
    (folder / "cafe\u0301.txt").write_text(GOOD)


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="making a device needs root")
ONE_NAME = "differs from another only in case"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(make_device, "a device, pipe or socket", marks=ROOT),
        (make_socket, "a device, pipe or socket"),
        (make_case_collision, ONE_NAME),
        (make_folder_collision, ONE_NAME),
        (make_accent_collision, ONE_NAME),
    ],
)
def test_what_is_no_file_of_its_own_is_refused(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    """A device, a socket, or two names that are one file on some hosts: refused, named, and nothing is written."""
    source = logs(tmp_path)
    make(source)
    with pytest.raises(WrongUse, match=words):
        take(source, tmp_path / "mine", *MAPS, ignore=("*",))
    assert not (tmp_path / "mine").exists()


def test_hard_links_are_copied_and_never_written_through(tmp_path: Path, outside: Path) -> None:
    """Hard links in the folder and in the campaign: each becomes a file of its own, no other name's bytes change."""
    source = logs(tmp_path)
    os.link(source / "old.txt", tmp_path / "same.txt")
    plan = take(source, tmp_path / "first" / "mine").plan_path.read_text()
    target = tmp_path / "mine"
    target.mkdir()
    (outside / "precious.txt").write_text(plan)
    os.link(outside / "precious.txt", target / "plan.toml")
    store = take(source, target)
    assert verify(store).problems == []
    assert all(path.stat().st_nlink == 1 for path in (target / "adopted").iterdir())
    (target / "plan.toml").unlink()
    (outside / "precious.txt").write_text("as it was\n")


@pytest.mark.parametrize(
    "place", [".adopting", "adopted", "journal.jsonl", "metrics.csv", "adoption.json", "host.json"]
)
def test_links_at_the_places_that_adopting_writes_are_not_followed(tmp_path: Path, outside: Path, place: str) -> None:
    """The campaign's folder has a link where adopting would write: refused, and what the link names is as it was."""
    source = logs(tmp_path)
    plan = take(source, tmp_path / "first" / "mine").plan_path.read_text()
    target = tmp_path / "mine"
    target.mkdir()
    (target / "plan.toml").write_text(plan)
    named = outside if place in (".adopting", "adopted") else outside / "precious.txt"
    (target / place).symlink_to(named)
    with pytest.raises(BenchbookError):
        take(source, target)
    assert (target / place).is_symlink()
    assert sorted(path.name for path in target.iterdir()) == sorted({"plan.toml", place})


@pytest.mark.parametrize(
    "name", ["adopted/../../x.txt", "/etc/hostname", "adopted/./x", "adopted//x", "..", "adopted/.."]
)
def test_a_record_that_names_a_file_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """An adoption.json that was written by hand names a path outside of the campaign: nothing is read there, verify says so."""
    mine = take(logs(tmp_path), tmp_path / "mine")
    content = json.loads(mine.adoption_path.read_text())
    runs = [run | {"file": name} for run in content["runs"]]
    rewrite(mine, files=content["files"] | {name: "0" * 64}, runs=runs)
    assert verify(mine).problems
    with pytest.raises(DataError):
        mine.adoption()


def test_maps_cannot_name_a_path_outside(tmp_path: Path) -> None:
    """A map with .. or an absolute path: refused before anything is read."""
    for pattern in ("../{arm}.txt", "/etc/{arm}", "a/../../{arm}.txt"):
        with pytest.raises(WrongUse):
            take(logs(tmp_path) if not (tmp_path / "logs").exists() else tmp_path / "logs", tmp_path / "mine", pattern)
    assert not (tmp_path / "mine").exists()
