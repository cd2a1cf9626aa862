"""The ledger: orders and events folded into states, tried on made-up stories of a campaign."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import DataError
from runner.ledger import (
    Block,
    Ledger,
    blocks_of,
    broken_blocks,
    fold,
    interrupted_runs,
    interruption_cause,
    replacement,
    replacement_event,
    why_not_replaced,
)
from runner.orders import Labels, expand
from runner.plan import Plan
from tests.small import plan

PLAN = plan()
ORDERS = expand(PLAN)
STATES = ("ok", "failed", "interrupted", "void", "stopped", "running", "planned")


def unreplaced(ledger: Ledger) -> list[Block]:
    """Void blocks of which the journal says neither what replaces them nor why nothing does."""
    settled = {(block.phase, block.case, block.replaces) for block in ledger.blocks} | ledger.irreplaceable.keys()
    return [block for block in ledger.blocks if block.key in ledger.void and block.key not in settled]


class Story:
    """Events as a runner would write them."""

    def __init__(self, of: Plan = PLAN) -> None:
        self.plan = of
        self.events: list[dict[str, Any]] = []

    def add(self, event: str, **fields: Any) -> None:
        self.events.append({"number": len(self.events) + 1, "event": event, **fields})

    def ledger(self) -> Ledger:
        return fold(ORDERS, self.events)

    def begin(self, block: Block) -> None:
        self.add("block-start", phase=block.phase, case=block.case, block=block.number)

    def finish(self, block: Block) -> None:
        self.add("block-end", phase=block.phase, case=block.case, block=block.number)

    def start(self, labels: Labels) -> None:
        self.add("run-start", labels=asdict(labels))

    def end(self, labels: Labels, outcome: str = "ok") -> None:
        reason = None if outcome == "ok" else "a reason"
        self.add("run-end", labels=asdict(labels), outcome=outcome, reason=reason, files={"stdout.txt": "0" * 64})

    def run(self, labels: Labels, outcome: str = "ok") -> None:
        self.start(labels)
        self.end(labels, outcome)

    def whole(self, block: Block, outcome: str = "ok") -> None:
        self.begin(block)
        for labels in block.labels:
            self.run(labels, outcome)
        self.finish(block)

    def void(self, block: Block, reason: str = "a reason") -> None:
        self.add("block-void", phase=block.phase, case=block.case, block=block.number, reason=reason)

    def recover(self) -> None:
        """What a session does first, as runner.execute does it."""
        for labels in interrupted_runs(self.ledger()):
            self.end(labels, "interrupted")
        for block, reason in broken_blocks(self.ledger()):
            self.void(block, reason)
        for block in unreplaced(self.ledger()):
            reason = why_not_replaced(self.ledger(), block, self.plan)
            if reason:
                fields = {"phase": block.phase, "case": block.case, "block": block.number}
                self.add("no-replacement", **fields, reason=reason)
            else:
                self.add("replacement", **replacement_event(replacement(self.ledger(), block)))


def test_before_anything_happened() -> None:
    ledger = fold(ORDERS, [])
    assert ledger.labels() == list(ORDERS)
    assert ledger.counts() == dict.fromkeys(STATES, 0) | {"planned": len(ORDERS)}
    assert [block.labels[0].sequence for block in ledger.outstanding()] == sorted(
        {block.labels[0].sequence for block in blocks_of(ORDERS)}
    )
    assert {ledger.state(labels) for labels in ORDERS} == {"planned"}
    assert ledger.reason(ORDERS[0]) == "not executed yet"
    assert interrupted_runs(ledger) == broken_blocks(ledger) == unreplaced(ledger) == []


def test_blocks_are_runs_of_one_case_and_number() -> None:
    blocks = blocks_of(ORDERS)
    assert len(blocks) == 2 * 6 + 3 * 6
    assert [labels for block in blocks for labels in block.labels] == list(ORDERS)
    assert all({x.block for x in block.labels} == {block.number} for block in blocks)
    assert len({block.key for block in blocks}) == len(blocks)


def test_states_and_reasons() -> None:
    story = Story()
    first, second, third, *_ = blocks_of(ORDERS)
    story.whole(first)
    story.begin(second)
    story.run(second.labels[0], "failed")
    story.start(second.labels[1])
    ledger = story.ledger()
    assert [ledger.state(labels) for labels in first.labels + second.labels] == ["ok", "ok", "failed", "running"]
    assert ledger.reason(first.labels[0]) == ""
    assert ledger.reason(second.labels[0]) == "failed: a reason"
    story.recover()
    ledger = story.ledger()
    assert ledger.state(second.labels[1]) == "interrupted"
    assert ledger.reason(second.labels[1]) == f"void block: the run of arm {second.labels[1].arm} was interrupted"
    assert ledger.reason(second.labels[0]) == "failed: a reason"  # a failure stays one, also in a void block
    story.add("phase-stopped", phase="A", reason="a wrong answer")
    ledger = story.ledger()
    assert ledger.state(third.labels[0]) == "stopped"
    assert ledger.reason(third.labels[0]) == "the phase stopped early: a wrong answer"
    assert {block.phase for block in ledger.outstanding()} == {"B"}
    assert ledger.closed is None
    story.add("close", counts=ledger.counts())
    assert story.ledger().closed == story.events[-1]


def test_an_interrupted_run_outside_a_void_block_says_why() -> None:
    story = Story()
    story.begin(blocks_of(ORDERS)[0])
    story.run(ORDERS[0], "interrupted")
    assert story.ledger().reason(ORDERS[0]) == "interrupted: a reason"


def test_a_run_is_executed_once() -> None:
    story = Story()
    story.run(ORDERS[0])
    story.start(ORDERS[1])
    assert story.ledger().state(ORDERS[1]) == "running"
    story.start(ORDERS[0])
    with pytest.raises(DataError, match=r"journal\.jsonl:4: a run was started twice\n.*every planned run"):
        story.ledger()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.end(ORDERS[0]), "1: a run ended that was not under way"),
        (lambda s: (s.run(ORDERS[0]), s.end(ORDERS[0])), "3: a run ended that was not under way"),
        (lambda s: (s.start(ORDERS[0]), s.end(ORDERS[1])), "2: a run ended that was not under way"),
        (lambda s: (s.start(ORDERS[0]), s.end(ORDERS[0], "fine")), "2: a run with an unknown outcome"),
        (lambda s: s.start(Labels("A", "Get", "other", 1, 0, 0)), "1: run-start of a run that nobody planned"),
        (lambda s: s.start(Labels("A", "Get", "old", 1, 0, 99)), "1: run-start of a run that nobody planned"),
        (lambda s: (s.begin(b0()), s.void(b0()), s.start(ORDERS[0])), "3: a run was started after its block was decl"),
        (lambda s: (s.add("close"), s.start(ORDERS[0])), "2: a run was started after the campaign's close"),
        (lambda s: s.add("block-start", phase="A", case="Get", block=77), "1: block-start of a block that nobody"),
        (lambda s: s.add("block-void", phase="C", case="Get", block=1, reason=""), "1: block-void of a block that"),
        (lambda s: s.add("run-start"), "1: an event 'run-start' that is not complete"),
        (lambda s: s.add("run-start", labels={"phase": "A"}), "1: an event 'run-start' that is not complete"),
        (lambda s: s.add("run-start", labels=[]), "1: an event 'run-start' that is not complete"),
        (lambda s: s.add("block-end", phase=["A"], case="Get", block=1), "1: an event 'block-end' that is not complete"),
        (lambda s: s.add("replacement", runs=[], replaces=1), "1: an event 'replacement' that is not complete"),
        (lambda s: s.add("replacement", **new(1)), "1: a replacement that cannot be"),
        (lambda s: (s.void(b0()), s.add("replacement", **new(1, block=2))), "2: a replacement that cannot be"),
        (lambda s: (s.void(b0()), s.add("replacement", **new(2))), "2: a replacement that cannot be"),
        (lambda s: (s.void(b0()), s.add("replacement", **new(1)), s.add("replacement", **new(1, block=8))), "3: a repl"),
        (lambda s: (s.void(b0()), s.add("replacement", **mixed())), "2: a replacement that cannot be"),
    ],
)  # fmt: skip
def test_events_that_cannot_follow(change: Any, message: str) -> None:
    story = Story()
    change(story)
    with pytest.raises(DataError, match=f"^journal.jsonl:{message}"):
        story.ledger()


def b0() -> Block:
    return blocks_of(ORDERS)[0]


def new(replaces: int, block: int = 7) -> dict[str, Any]:
    runs = [asdict(labels) | {"block": block, "sequence": 900 + i} for i, labels in enumerate(b0().labels)]
    return {"runs": runs, "replaces": replaces}


def mixed() -> dict[str, Any]:
    fields = new(1)
    fields["runs"][1]["block"] = 8
    return fields


def test_events_that_a_ledger_does_not_know_change_nothing() -> None:
    story = Story()
    story.add("session-start", pid=1)
    story.add("engine-restart", reason="x")
    assert story.ledger() == fold(ORDERS, [])


def test_replacements_get_numbers_of_their_own_and_the_same_order() -> None:
    story = Story()
    first, second = b0(), blocks_of(ORDERS)[2]
    assert (first.case, second.case) == ("Get", "Get")
    story.begin(first)
    story.run(first.labels[0])
    story.recover()
    ledger = story.ledger()
    new = ledger.blocks[-1]
    assert (new.phase, new.case, new.number, new.replaces) == ("A", "Get", 7, 1)
    assert [(x.arm, x.position) for x in new.labels] == [(x.arm, x.position) for x in first.labels]
    assert [x.sequence for x in new.labels] == [len(ORDERS), len(ORDERS) + 1]
    assert ledger.state(first.labels[0]) == "ok"
    assert ledger.state(first.labels[1]) == "void"
    assert ledger.void[first.key] == "the session ended between its runs"
    # The replacement is interrupted too, and is replaced; the limit is two for each case.
    story.begin(new)
    story.start(new.labels[0])
    story.recover()
    again = story.ledger().blocks[-1]
    assert (again.number, again.replaces) == (8, 7)
    assert [x.sequence for x in again.labels] == [len(ORDERS) + 2, len(ORDERS) + 3]
    story.begin(second)
    story.recover()
    ledger = story.ledger()
    assert ledger.blocks[-1] == again
    assert ledger.irreplaceable == {second.key: "the plan allows 2 for each case"}
    # Another case has its own two.
    other = blocks_of(ORDERS)[1]
    assert other.case == "Set"
    story.begin(other)
    story.recover()
    assert story.ledger().blocks[-1].key == ("A", "Set", 7)


def test_no_replacement_where_the_plan_allows_none() -> None:
    none = PLAN.model_copy(update={"rules": PLAN.rules.model_copy(update={"replacement_blocks": 0})})
    assert why_not_replaced(fold(ORDERS, []), b0(), none) == "the plan allows 0 for each case"
    assert why_not_replaced(fold(ORDERS, []), b0(), PLAN) == ""


def test_a_failed_run_is_never_repeated() -> None:
    story = Story()
    first, second = b0().labels
    story.begin(b0())
    story.run(first, "failed")
    story.recover()
    ledger = story.ledger()
    assert len(ledger.blocks) == len(blocks_of(ORDERS))
    why = f"it holds a failed run, which is never repeated: arm {first.arm}"
    assert ledger.irreplaceable == {b0().key: why}
    assert ledger.reason(first) == "failed: a reason"
    assert ledger.reason(second) == "void block: the session ended between its runs"
    assert (ledger.state(first), ledger.state(second)) == ("failed", "void")
    story.events.pop()
    story.add("replacement", **new(1))
    with pytest.raises(DataError, match=r"a replacement that cannot be\n.*holds no failed run"):
        story.ledger()


def test_runs_that_need_not_be_executed_any_more() -> None:
    story = Story()
    story.whole(b0(), "failed")
    story.begin(blocks_of(ORDERS)[1])
    story.run(blocks_of(ORDERS)[1].labels[0])
    assert story.ledger().done() == 3
    story.recover()
    assert story.ledger().done() == 2  # the void block's run is executed again, in its replacement
    assert sum(len(block.labels) for block in story.ledger().outstanding()) == len(ORDERS) - 2


@pytest.mark.parametrize(
    ("then", "now", "cause"),
    [("a", "a", "runner-killed"), ("a", "b", "host-down"), ("", "b", "runner-killed"), ("a", "", "runner-killed")],
)
def test_the_cause_of_an_interruption(then: str, now: str, cause: str) -> None:
    """By the session that started the run, not by the one before it or the present one."""
    story = Story()
    story.add("session-start", boot_id="earlier")
    story.run(ORDERS[0])
    story.add("session-start", boot_id=then)
    story.start(ORDERS[1])
    story.add("session-start", boot_id=now)
    assert interruption_cause(ORDERS[1], story.events, now) == cause


def test_a_replacement_survives_the_journal() -> None:
    story = Story()
    story.begin(b0())
    story.recover()
    found = fold(ORDERS, json.loads(json.dumps(story.events)))
    assert found == story.ledger()
    assert found.blocks[-1].labels[0] == Labels("A", "Get", "old", 7, 0, len(ORDERS))


def test_a_runner_killed_between_void_and_replacement() -> None:
    story = Story()
    story.begin(b0())
    story.void(b0())
    assert broken_blocks(story.ledger()) == []
    assert unreplaced(story.ledger()) == [b0()]
    story.recover()
    assert story.ledger().blocks[-1].replaces == 1
    assert unreplaced(story.ledger()) == []


def test_which_blocks_are_broken() -> None:
    story = Story()
    blocks = blocks_of(ORDERS)
    story.whole(blocks[0], "failed")  # failures break nothing
    story.begin(blocks[1])
    for labels in blocks[1].labels:
        story.run(labels)  # all runs ended, the block's end was not written any more
    assert broken_blocks(story.ledger()) == []
    story.begin(blocks[2])  # began, and no run started
    assert [block for block, _ in broken_blocks(story.ledger())] == [blocks[2]]
    story.add("phase-stopped", phase="A", reason="x")
    assert broken_blocks(story.ledger()) == []


def test_planned_blocks_first_then_replacements_phase_by_phase() -> None:
    story = Story()
    blocks = blocks_of(ORDERS)
    for block in (blocks[3], blocks[0], blocks[12]):
        story.begin(block)
        story.recover()
    keys = [(block.phase, block.replaces) for block in story.ledger().outstanding()]
    assert keys == [("A", None)] * 10 + [("A", 2), ("A", 1)] + [("B", None)] * 17 + [("B", 1)]


def test_fold_changes_nothing_that_it_is_given() -> None:
    story = Story()
    story.begin(b0())
    story.recover()
    before = copy.deepcopy(story.events)
    orders = list(ORDERS)
    assert fold(orders, story.events) == fold(tuple(orders), iter(story.events))
    assert story.events == before
    assert orders == list(ORDERS)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_story_comes_to_its_end_by_the_rules(data: st.DataObject) -> None:
    """Killed anywhere, again and again: in the end every planned run was executed at most once, whatever was broken is
    void, and every block is complete, void or in a stopped phase."""
    limit = data.draw(st.integers(0, 3))
    story = Story(PLAN.model_copy(update={"rules": PLAN.rules.model_copy(update={"replacement_blocks": limit})}))
    kills = data.draw(st.integers(0, 6))
    while True:
        story.recover()
        story.recover()  # a second time changes nothing
        outstanding = story.ledger().outstanding()
        if not outstanding:
            break
        life = data.draw(st.integers(0, 60)) if kills else 10**6
        kills -= kills > 0
        for block in outstanding:
            steps = [lambda block=block: story.begin(block)]
            for labels in block.labels:
                outcome = data.draw(st.sampled_from(["ok", "ok", "ok", "failed"])) if kills else "ok"
                steps += [
                    lambda labels=labels: story.start(labels),
                    lambda labels=labels, outcome=outcome: story.end(labels, outcome),
                ]
            steps.append(lambda block=block: story.finish(block))
            for step in steps[:life]:
                step()
            life -= len(steps)
            if life < 0:
                break
    ledger = story.ledger()
    counts = ledger.counts()
    assert sum(counts.values()) == len(ledger.labels()) >= len(ORDERS)
    assert list(counts) == list(STATES)
    assert counts["planned"] == counts["running"] == counts["stopped"] == 0
    started = [tuple(event["labels"].values()) for event in story.events if event["event"] == "run-start"]
    assert len(started) == len(set(started))
    for block in ledger.blocks:
        states = [ledger.state(labels) for labels in block.labels]
        assert (block.key in ledger.void) == bool({"void", "interrupted"} & set(states))
        assert (block.key in ledger.void) or set(states) <= {"ok", "failed"}
    sequences = [labels.sequence for labels in ledger.labels()]
    assert sequences == list(range(len(sequences)))
    for phase, case in {(block.phase, block.case) for block in ledger.blocks}:
        mine = [block for block in ledger.blocks if (block.phase, block.case) == (phase, case)]
        assert sorted(block.number for block in mine) == list(range(1, len(mine) + 1))
        assert sum(block.replaces is not None for block in mine) <= limit
        lost = [block for block in mine if block.key in ledger.irreplaceable]
        whole = [block for block in mine if block.key not in ledger.void]
        assert len(whole) + len(lost) == 6
