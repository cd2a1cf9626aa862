"""Amendments that somebody alters: kept versions, their records, the journal's lines. Damage is done to copies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import amended_rules
from runner.store import Store
from tests import amending
from tests.amending import WHY, amend, edit, problems
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


# ---- made by a runner without the rules: seals, records, journal and kept versions agree with each other ----


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """Two phases, of which T has a block; its runner was killed then. Take a copy."""
    campaign = amending.two_phases(tmp_path_factory.mktemp("forged"), cache, name="forged", cases=("Load",))
    return amending.begin(campaign, "event:block-end:1:after")


@pytest.fixture
def forged(begun: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    monkeypatch.setenv("BENCHBOOK_CACHE", str(begun.cache))
    return begun.copy(tmp_path)


def nothing(*_: object) -> tuple[()]:
    return ()


FIXED = [("repeats = 2", "repeats = 3", "phases.T.repeats"), ("limit_s = 60", "limit_s = 61", "rules.run_limit_s")]


@pytest.mark.parametrize(("old", "new", "path"), FIXED)
def test_a_plan_that_amend_would_refuse(
    forged: Campaign, monkeypatch: pytest.MonkeyPatch, old: str, new: str, path: str
) -> None:
    """A plan changed in what runs rest on, sealed and recorded as an amendment is, is found by `verify` with path and run."""
    edit(forged, old, new, "[phases.T]" if path.startswith("phases") else "")
    with monkeypatch.context() as patch:
        patch.setattr(amended_rules, "plan_violations", nothing)
        amend(forged)
    (found,) = problems(forged)
    assert found.startswith(f"protocol/1: an amendment that is refused: plan: {path}: runs of phase T rest on this")
    assert "begun: phase T, case Load, block 1" in found


def test_a_lock_and_a_tree_that_amend_would_refuse(forged: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock changed under runs, sealed and recorded as an amendment is, is found by `verify`, as is the tree made from it."""
    (forged.folder / "trees" / "plain.txt").write_text("# nothing\n")
    with monkeypatch.context() as patch:
        patch.setattr(amended_rules, "tree_violations", nothing)
        patch.setattr(amended_rules, "file_violations", nothing)
        amend(forged)
    found = problems(forged)
    assert any("refused: trees/plain.txt: runs of phase T rest on this file" in text for text in found), found


def test_an_engine_and_trees_that_amend_would_refuse(forged: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine and a tree that are others in the later seal, under runs, are found by `verify`."""
    edit(forged, "resamples = 200", "resamples = 300")
    with monkeypatch.context() as patch:
        patch.setattr(amended_rules, "engine_violations", nothing)
        patch.setattr("runner.amend.engines.identity", lambda _: {"version": "other"})
        amend(forged)
    (found,) = problems(forged)
    assert "refused: engine: this is not the engine that runs were made with" in found
    monkeypatch.setattr("runner.treekinds.difference", lambda *_: "python differs")
    found = "".join(problems(forged))
    assert "refused: tree plain: runs of phase T were made with another one" in found


def test_a_case_with_runs_that_is_not_in_the_plan_any_more(forged: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan without a phase that has runs, with orders that still have them, is found by `verify`."""
    path = forged.folder / "plan.toml"
    text = path.read_text()
    path.write_text(text[: text.index("[phases.T]")] + text[text.index("[phases.U]") :])
    with monkeypatch.context() as patch:
        patch.setattr("runner.amended_orders.assert_kept", nothing)
        patch.setattr("runner.amended_orders.amended", lambda state, *_: tuple(state.labels()))
        patch.setattr(amended_rules, "begun", lambda _: {})
        amend(forged)
    (found,) = problems(forged)
    assert "refused: plan: phases.T: it has runs, and is not in the plan any more" in found


@pytest.mark.parametrize(
    "change", [{"changes": []}, {"runs_before": {}}, {"files": {"runner": []}}], ids=lambda change: next(iter(change))
)
def test_a_record_that_does_not_tell_what_changed(
    forged: Campaign, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    """A record that leaves out what changed, or the runs before, is found though seal and journal agree with it."""
    edit(forged, "level = 0.95", "level = 0.9")
    record = amended_rules.record
    with monkeypatch.context() as patch:
        patch.setattr(amended_rules, "record", lambda *versions: record(*versions) | change)
        amend(forged, WHY)
    (name,) = change
    assert problems(forged) == [
        f"protocol/1/amendment.json: {name}: not what plans, seals and journal say of amendment 1"
    ]


def test_fewer_blocks_than_have_begun(forged: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of fewer blocks than have begun, with orders that still have them, is found by `verify`."""
    forged.does("run", "--phase", "T")
    edit(forged, "blocks = 3", "blocks = 2", "[phases.T]")
    with monkeypatch.context() as patch:
        patch.setattr("runner.amended_orders.amended", lambda state, *_: tuple(state.labels()))
        amend(forged)
    (found,) = problems(forged)
    assert "refused: plan: phases.T.blocks: more blocks of case Load have begun" in found


def test_another_host_and_a_tree_of_another_name(forged: Campaign) -> None:
    """A later seal with another host.json, or without a tree that runs were made with, is told as a violation."""
    plan = Store.open(forged.folder).plan()
    known = amended_rules.begun(Store.open(forged.folder).ledger())
    (host,) = amended_rules.file_violations(plan, {}, {"host.json": "0" * 64}, {"host.json": "1" * 64})
    assert (host.where, host.expected, host.found) == ("host.json", "0" * 64, "1" * 64)
    (tree,) = amended_rules.tree_violations(plan, known, {"plain": {}}, {})
    assert tree.where == "tree plain"
    assert "none of this name in one of the seals" in tree.found
