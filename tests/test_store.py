"""Where things lie: folders that no two cases share, labels that are whole, files that are what the journal says."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runner import files
from runner.errors import DataError, WrongUse
from runner.files import canonical_json, digest_of, manifest_text, sha256, tree_digests, write_whole
from runner.ledger import End, fold
from runner.orders import Labels, expand
from runner.store import Store, escape, labels_from, orders_document
from tests.small import TEXT, plan

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
TRICKY = st.text("./%2EFef~-_\\ \0\u00e9", min_size=1, max_size=8)
LABELS = Labels("B", "Scan/serial", "on", 1, 0, 24)


@given(NAMES | TRICKY)
@example(".")
@example("..")
@example("../../etc")
@example("\u2025/\uff0e")
def test_an_escaped_name_is_one_safe_folder(name: str) -> None:
    folder = escape(name)
    assert folder
    assert folder not in (".", "..")
    assert not folder.startswith(".")
    assert not set(folder) & set("/\\\0 \n\t")
    assert folder.isascii()
    assert unquote(folder) == name  # so no two names share one


@given(TRICKY, TRICKY)
def test_two_names_never_share_a_folder(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


def test_escaped_names() -> None:
    assert escape("Scan/serial") == "Scan%2Fserial"
    assert escape("Scan%2Fserial") == "Scan%252Fserial"
    assert escape("a=b,c d") == "a%3Db%2Cc%20d"
    assert escape("..") == "%2E."
    with pytest.raises(ValueError, match="without a name"):
        escape("")


def test_labels_from_their_json() -> None:
    assert labels_from(json.loads(json.dumps(asdict(LABELS))), "here") == LABELS


GOOD = asdict(LABELS)


@pytest.mark.parametrize(
    "document",
    [
        None, [], "labels", 3, {}, [GOOD],
        GOOD | {"block": "1"}, GOOD | {"block": 1.0}, GOOD | {"block": True}, GOOD | {"block": None},
        GOOD | {"arm": 3}, GOOD | {"case": ["Scan"]}, GOOD | {"more": 1},
        {key: value for key, value in GOOD.items() if key != "sequence"},
    ],
)  # fmt: skip
def test_labels_that_are_not_whole(document: Any) -> None:
    with pytest.raises(DataError, match=r"^here: labels are not complete\n  expected: (.|\n)*found: "):
        labels_from(document, "here")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "plan.toml").write_text(TEXT)
    (folder / "orders.json").write_text(json.dumps(orders_document("small", expand(plan()))))
    return Store.open(folder)


def test_names_of_files(store: Store) -> None:
    assert store.relative(store.run_folder(LABELS)) == "runs/B/Scan%2Fserial/1-on"
    assert store.relative(store.partial_folder(LABELS)) == "runs/B/Scan%2Fserial/1-on.partial"
    assert store.plan() == plan()
    assert store.orders() == expand(plan())
    assert store.ledger() == fold(expand(plan()), [])
    assert list(store.files()) == ["orders.json", "plan.toml"]
    (store.folder / "MANIFEST.sha256").touch()
    (store.folder / "link").symlink_to("nowhere")
    assert list(store.files()) == ["link", "orders.json", "plan.toml"]


def test_no_two_runs_share_a_folder(store: Store) -> None:
    folders = [store.run_folder(labels) for labels in store.orders()]
    assert len({str(folder).casefold() for folder in folders}) == len(folders)


def test_not_a_campaign(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"not a campaign folder\n.*\n  found: none"):
        Store.open(tmp_path)
    with pytest.raises(WrongUse, match="no such folder"):
        Store.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"runs": [\n{}\n', r"orders\.json:3: not valid JSON"),
        (b"\xff", r"orders\.json:1: not valid JSON"),
        (b"[" * 100_000, r"orders\.json:1: not valid JSON"),
        (b"[]", r"orders\.json: no list of runs"),
        (b"{}", r"orders\.json: no list of runs"),
        (b'{"runs": 3}', r"orders\.json: no list of runs"),
        (b'{"runs": {"a": 1}}', r"orders\.json: no list of runs"),
        (b'{"runs": [3]}', r"orders\.json: run 0: labels are not complete"),
    ],
)
def test_damaged_orders(store: Store, text: bytes, message: str) -> None:
    store.orders_path.write_bytes(text)
    with pytest.raises(DataError, match=message):
        store.orders()


def test_missing_files(store: Store) -> None:
    store.orders_path.unlink()
    with pytest.raises(DataError, match=r"orders\.json: this file is missing"):
        store.orders()
    with pytest.raises(DataError, match=r"run\.json: this file is missing"):
        store.read_run(LABELS)


def test_raw_output_is_what_the_journal_recorded(store: Store) -> None:
    folder = store.run_folder(LABELS)
    folder.mkdir(parents=True)
    (folder / "stdout.txt").write_bytes(b"words\r\n\xff")
    (folder / "run.json").write_text("[]")
    ledger = fold(store.orders(), [])
    ledger.ends[LABELS] = End("ok", None, {"stdout.txt": sha256(b"words\r\n\xff")})
    assert store.read_stdout(LABELS, ledger) == b"words\r\n\xff"
    (folder / "stdout.txt").write_bytes(b"words\n\xff")
    with pytest.raises(DataError, match=r"1-on/stdout\.txt: not the file that the journal recorded"):
        store.read_stdout(LABELS, ledger)
    (folder / "stdout.txt").unlink()
    with pytest.raises(DataError, match=r"found: no file"):
        store.read_stdout(LABELS, ledger)
    ledger.ends[LABELS] = End("ok", None, {})
    with pytest.raises(DataError, match=r"no digest in the journal"):
        store.read_stdout(LABELS, ledger)
    with pytest.raises(DataError, match=r"run\.json: not a run's record"):
        store.read_run(LABELS)
    (folder / "run.json").write_text('{"labels": 3}')
    assert store.read_run(LABELS) == {"labels": 3}
    assert list(store.run_folders()) == [folder]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    done: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    monkeypatch.setattr(os, "replace", lambda a, b: done.append(f"{a.name} becomes {b.name}"))
    write_whole(path, b"newer")
    temporary = f".file.{os.getpid()}.partial"
    assert done == [str(tmp_path / temporary), f"{temporary} becomes file", str(tmp_path)]
    assert path.read_bytes() == b"new"


def test_digests_in_the_form_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"abc")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.py").touch()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").touch()
    found = tree_digests(tmp_path, ("*.py", "b", "x*"), tmp_path)
    assert found == {
        "a/x.py": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "b": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
    assert manifest_text({"z": "1", "a": "2"}) == "2  a\n1  z\n"
    assert digest_of({"z": "1", "a": "2"}) == digest_of({"a": "2", "z": "1"}) == sha256(b"2  a\n1  z\n")
    (tmp_path / "MANIFEST").write_text(manifest_text(found))
    done = subprocess.run(["sha256sum", "-c", "MANIFEST"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0
    assert files.file_sha256(tmp_path / "b") == found["b"]


def test_json_has_no_nan() -> None:
    assert canonical_json({"b": "\u00e4", "a": [1]}) == '{\n "b": "\u00e4",\n "a": [\n  1\n ]\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(float("inf"))
