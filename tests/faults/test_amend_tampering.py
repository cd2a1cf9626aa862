"""Amendments that somebody alters: kept versions, their records, the journal's lines. Damage is done to copies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.amending import problems
from tests.campaigns import Campaign, rechained

# ---- tampering ----------------------------------------------------------------------------------------


def protocol_files(campaign: Campaign) -> list[Path]:
    return sorted(path for path in (campaign.folder / "protocol").rglob("*") if path.is_file())


@pytest.fixture
def copy(ended: Campaign, tmp_path: Path) -> Campaign:
    return ended.copy(tmp_path)


def test_every_change_of_a_kept_file_is_found_and_named(copy: Campaign) -> None:
    """A byte changed, cut off or added, a removal or a rename of any file below protocol/ is found by `verify`, which names it."""
    paths = protocol_files(copy)
    assert len(paths) == 11
    for path in paths:
        name, whole = path.relative_to(copy.folder).as_posix(), path.read_bytes()
        for damaged in {whole[:-1], whole + b"\n", whole[:5] + bytes([whole[5] ^ 1]) + whole[6:] if whole else b"x"}:
            if damaged != whole:
                path.write_bytes(damaged)
                assert any(name in text for text in problems(copy)), name
        path.unlink()
        assert any(f"{name}: missing" in text for text in problems(copy)), name
        renamed = path.with_name("renamed")
        renamed.write_bytes(whole)
        assert any("protocol" in text and "renamed" in text for text in problems(copy)), name
        renamed.unlink()
        path.write_bytes(whole)
    assert problems(copy) == []


@pytest.mark.parametrize(
    "name", ["protocol/3/seal.json", "protocol/4/plan.toml", "protocol/note.txt", "protocol/9.partial/x"]
)
def test_an_added_file_is_found(copy: Campaign, name: str) -> None:
    """A file that nobody kept below protocol/ is found by `verify`."""
    path = copy.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    found = "protocol/9.partial" if "partial" in name else name
    assert any(found in text for text in problems(copy))


def test_versions_that_change_places(copy: Campaign) -> None:
    """Two kept versions that were swapped are found by `verify`."""
    one, two = (copy.folder / "protocol" / number for number in "12")
    one.rename(two.with_name("aside"))
    two.rename(one)
    two.with_name("aside").rename(two)
    found = problems(copy)
    assert any("protocol/1/plan.toml" in text for text in found)
    assert any("protocol/2/plan.toml" in text for text in found)


def rewritten(campaign: Campaign, change: Callable[[list[dict[str, Any]]], object]) -> list[str]:
    """What verifying finds when the journal was changed, with a chain that holds."""
    path = campaign.folder / "journal.jsonl"
    whole = path.read_bytes()
    events = campaign.events()
    change(events)
    path.write_bytes(rechained(events))
    found = problems(campaign)
    path.write_bytes(whole)
    return found


def test_a_journal_whose_chain_holds_and_whose_amendments_do_not(copy: Campaign) -> None:
    """A reason, seal or number changed, an amendment dropped or moved, and a late seal are found though the chain holds."""
    first, second = (event["number"] - 1 for event in copy.events("amended"))

    def field(place: int, **fields: object) -> Callable[[list[dict[str, Any]]], object]:
        return lambda events: events[place].update(fields)

    def moved(place: int, to: int) -> Callable[[list[dict[str, Any]]], object]:
        return lambda events: events.insert(to, events.pop(place))

    assert any("amendment.json: not what the journal says" in t for t in rewritten(copy, field(first, why="another")))
    assert any("amends the seal" in t for t in rewritten(copy, field(first, earlier="0" * 64)))
    assert any("in force was" in t for t in rewritten(copy, field(first, seal="0" * 64)))
    assert any("expected number 1" in t for t in rewritten(copy, field(first, amendment=2)))
    assert any("journal.jsonl names" in t for t in rewritten(copy, lambda events: events.pop(second)))
    assert any("amends the seal" in t for t in rewritten(copy, lambda events: events.pop(first)))
    assert any("a seal made after an amendment" in t for t in rewritten(copy, moved(0, first + 1)))
    assert any("a record of another seal" in t for t in rewritten(copy, moved(first, 5)))
    assert any("a record of another seal" in t for t in rewritten(copy, moved(second, len(copy.events()) - 4)))
    late = {"event": "sealed", "time": "", "seal": copy.events()[0]["seal"]}
    assert any("a seal made after the first run" in t for t in rewritten(copy, lambda events: events.insert(9, late)))
    assert problems(copy) == []


def test_a_record_that_names_the_seal_of_another_version(copy: Campaign) -> None:
    """A run's record with the seal of another version is found, even with a journal that agrees with the record."""
    labels = copy.events("run-start")[0]["labels"]
    path = copy.run_folder(labels) / "run.json"
    record = json.loads(path.read_bytes())
    record["seal"] = copy.events("amended")[0]["seal"]
    path.write_text(json.dumps(record))

    def change(events: list[dict[str, Any]]) -> None:
        end = next(e for e in events if e["event"] == "run-end" and e["labels"] == labels)
        end["files"]["run.json"] = hashlib.sha256(path.read_bytes()).hexdigest()

    assert any("a record of another seal or campaign" in text for text in rewritten(copy, change))
