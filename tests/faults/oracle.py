"""What must hold of an executed campaign by the plan's rules, written without the runner's own ledger, journal or verify.

`Witness` looks at a campaign after each kill and remembers what was recorded then; `judge` holds the closed campaign against
the sealed orders, against what the benchmark processes wrote down about themselves, and against all that was remembered.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.campaigns import Campaign

RUN = ("phase", "case", "block", "arm")
Key = tuple[Any, ...]


def key_of(labels: dict[str, Any]) -> Key:
    return tuple(labels[name] for name in RUN)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def processes(word: str) -> list[int]:
    """Processes whose command line holds a word, zombies aside; this process and its parents do not count."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@dataclass
class Witness:
    """What was on disk after each kill: none of it may change any more."""

    journal: bytes = b""
    records: dict[Key, bytes] = field(default_factory=dict)

    def look(self, campaign: Campaign) -> None:
        """Compare with what was seen before, and remember what is new."""
        path = campaign.folder / "journal.jsonl"
        found = path.read_bytes() if path.exists() else b""
        whole = found[: found.rfind(b"\n") + 1]
        assert whole.startswith(self.journal), "the journal lost or changed a line that was on disk"
        self.journal = whole
        for path in (campaign.folder / "runs").rglob("run.json"):
            record = json.loads(path.read_bytes())
            key = key_of(record["labels"])
            if key in self.records:
                assert path.read_bytes() == self.records[key], f"a record was rewritten: {key}"
            self.records[key] = path.read_bytes()

    def gone(self, campaign: Campaign) -> list[Key]:
        """Records that were seen and are not there any more."""
        there = {key_of(json.loads(path.read_bytes())["labels"]) for path in campaign.folder.rglob("run.json")}
        return [key for key in self.records if key not in there]


def chain(campaign: Campaign) -> list[dict[str, Any]]:
    """The journal's events, its chain checked."""
    data = (campaign.folder / "journal.jsonl").read_bytes()
    assert data.endswith(b"\n")
    events, previous = [], "0" * 64
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        event = json.loads(line)
        assert (event["previous"], event["number"]) == (previous, number)
        previous = digest(line)
        events.append(event)
    return events


@dataclass
class Told:
    """The journal, sorted by what it tells of."""

    blocks: dict[Key, list[str]] = field(default_factory=dict)  # (phase, case, block) -> arms in their order
    replaced: dict[Key, Key] = field(default_factory=dict)
    void: set[Key] = field(default_factory=set)
    given_up: set[Key] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    started: list[Key] = field(default_factory=list)
    ended: dict[Key, dict[str, Any]] = field(default_factory=dict)


def told(campaign: Campaign, events: list[dict[str, Any]]) -> Told:
    found = Told()
    for run in campaign.orders():
        found.blocks.setdefault((run["phase"], run["case"], run["block"]), []).append(run["arm"])
    planned = set(found.blocks)
    for event in events:
        kind = event["event"]
        place = (event.get("phase"), event.get("case"), event.get("block"))
        if kind == "run-start":
            found.started.append(key_of(event["labels"]))
        elif kind == "run-end":
            key = key_of(event["labels"])
            assert key not in found.ended, f"two ends of {key}"
            assert key in found.started
            found.ended[key] = event
        elif kind == "block-void":
            assert place not in found.void, f"void twice: {place}"
            found.void.add(place)
        elif kind == "no-replacement":
            found.given_up.add(place)
        elif kind == "phase-stopped":
            found.stopped.add(event["phase"])
        elif kind == "replacement":
            old = (*place[:2], event["replaces"])
            assert place not in found.blocks, f"a replacement took a number that was taken: {place}"
            assert all(place[2] > key[2] for key in planned if key[:2] == place[:2])
            assert old in found.void
            assert old not in found.replaced, f"replaced twice: {old}"
            found.blocks[place] = [run["arm"] for run in event["runs"]]
            assert found.blocks[place] == found.blocks[old], "a replacement has another order"
            found.replaced[old] = place
    return found


def judge(campaign: Campaign, witness: Witness, status: int) -> dict[str, int]:
    """Raise AssertionError for the first rule that was broken; how many runs ended how."""
    witness.look(campaign)
    assert witness.gone(campaign) == []
    events = chain(campaign)
    assert events[-1]["event"] == "close"
    assert sum(event["event"] == "close" for event in events) == 1
    found = told(campaign, events)
    outcomes = {key: event["outcome"] for key, event in found.ended.items()}
    assert len(set(found.started)) == len(found.started), "a run was started twice"
    assert set(found.started) == set(outcomes), "a run has no end"
    _blocks(found, outcomes)
    _executions(campaign, found, outcomes)
    _folders(campaign, found)
    _aggregate(campaign, outcomes)
    _manifest(campaign)
    for key, data in witness.records.items():  # recorded before a kill: that is how it stays
        assert outcomes[key] == json.loads(data)["outcome"]
    failed = sum(outcome == "failed" for outcome in outcomes.values())
    assert status == (1 if failed or found.given_up else 0), f"exit status {status} with {failed} failed runs"
    return dict(Counter(outcomes.values()))


def _blocks(found: Told, outcomes: dict[Key, str]) -> None:
    """Blocks count or are void; a void one is replaced as a whole, unless it holds a failed run or no more are allowed."""
    started: dict[Key, list[str]] = {}
    for key in found.started:
        started.setdefault(key[:3], []).append(key[3])
    for place, arms in found.blocks.items():
        ended = {arm: outcomes[(*place, arm)] for arm in started.get(place, [])}
        assert started.get(place, []) == arms[: len(ended)], f"another order than the plan's: {place}"
        if place in found.void:
            # Where its phase stopped, perhaps after the replacement was appended and before it was executed, both may be.
            fates = (place in found.replaced, place in found.given_up)
            assert sum(fates) == 1 or (place[0] in found.stopped and sum(fates) == 0), place
            assert not ("failed" in ended.values() and place in found.replaced), f"a failed run was repeated: {place}"
            assert "interrupted" in ended.values() or len(ended) < len(arms), f"void without a reason: {place}"
        elif place[0] not in found.stopped:
            assert list(ended) == arms, f"a run was not executed: {place}"
            assert "interrupted" not in ended.values(), f"an interrupted run counts: {place}"
    numbers = [found.started.index((*place, arms[0])) for place, arms in found.blocks.items() if place in started]
    assert len(set(numbers)) == len(numbers)
    flat = [key[:3] for key in found.started]
    assert len([place for i, place in enumerate(flat) if i == 0 or flat[i - 1] != place]) == len(started), (
        "mixed blocks"
    )


def _executions(campaign: Campaign, found: Told, outcomes: dict[Key, str]) -> None:
    """What the processes say: none ran twice, each that has a result ran, in the journal's order, and none is there still."""
    phase = found.started[0][0]
    said = [(phase, entry["case"], entry["block"], entry["arm"]) for entry in campaign.trace()]
    assert max(Counter(said).values()) == 1, "a run was executed twice"
    assert [key for key in found.started if key in said] == said
    for key, outcome in outcomes.items():
        assert key in said or outcome != "ok", f"a result of a run that was not executed: {key}"
    left = [pid for pid in processes(str(campaign.folder)) if pid != os.getpid()]
    assert left == [], f"processes were left behind: {left}"


def _folders(campaign: Campaign, found: Told) -> None:
    """One folder for each run that was started; its files are what the journal's digests say, and no other."""
    runs = campaign.folder / "runs"
    folders = {
        (phase.name, unquote(case.name), int(run.name.split("-", 1)[0]), run.name.split("-", 1)[1]): run
        for phase in runs.iterdir()
        for case in phase.iterdir()
        for run in case.iterdir()
    }
    assert folders.keys() == found.ended.keys()
    for key, folder in folders.items():
        end = found.ended[key]
        files = {path.name: digest(path.read_bytes()) for path in folder.iterdir()}
        assert files == end["files"]
        assert {"stdout.txt", "stderr.txt", "run.json"} <= files.keys()
        record = json.loads((folder / "run.json").read_bytes())
        assert record["labels"] == end["labels"]
        assert (record["outcome"], record["reason"]) == (end["outcome"], end["reason"])
    hidden = [path for path in campaign.folder.rglob("*") if "partial" in path.name or path.name.startswith(".")]
    assert hidden == []


def _aggregate(campaign: Campaign, outcomes: dict[Key, str]) -> None:
    """metrics.csv holds the values of every run that ended well, in the order in which they ended, and nothing else."""
    expected = []
    for event in campaign.events("run-end"):
        if outcomes[key_of(event["labels"])] == "ok":
            text = (campaign.run_folder(event["labels"]) / "stdout.txt").read_text()
            for value, unit in re.findall(r"^Benchmark\S+ 10 (\S+) (\S+)$", text, re.M):
                expected.append(",".join(map(str, (*key_of(event["labels"]), unit, value))))
    found = []
    for line in (campaign.folder / "metrics.csv").read_text().splitlines()[1:]:
        phase, case, arm, block, _, _, _, unit, value, _ = line.split(",")
        found.append(",".join((phase, case, block, arm, unit, value)))
    assert sorted(found) == sorted(expected)


def _manifest(campaign: Campaign) -> None:
    lines = (campaign.folder / "MANIFEST.sha256").read_text().splitlines()
    expected = {
        f"{digest(path.read_bytes())}  {path.relative_to(campaign.folder).as_posix()}"
        for path in campaign.folder.rglob("*")
        if path.is_file() and path.name != "MANIFEST.sha256"
    }
    assert set(lines) == expected
