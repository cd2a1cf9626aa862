"""The orders of amended plans, whatever was begun; and what differs between two plans."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner import amended_orders, plandiff
from runner.errors import Refused
from runner.ledger import Block, Ledger, blocks_of, broken_blocks, fold, replacement, replacement_event
from runner.orders import Labels, expand
from runner.plan import PhaseEngine, PhaseNetwork, Plan
from runner.protocol import ranges
from tests import small

# ---- orders, whatever was begun -----------------------------------------------------------------------

PLAN = small.plan()
ORDERS = expand(PLAN)


def changed_plan(plan: Plan, blocks: Mapping[str, int], dropped: Mapping[str, set[str]]) -> Plan:
    phases = {
        name: phase.model_copy(
            update={
                "blocks": blocks.get(name, phase.blocks),
                "cases": tuple(case for case in phase.cases if case.name not in dropped.get(name, set()))
                or phase.cases[:1],
            }
        )
        for name, phase in plan.phases.items()
    }
    return plan.model_copy(update={"phases": phases})


class Story:
    """Events of a campaign that is executed, interrupted and replaced at random."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, event: str, **fields: Any) -> None:
        self.events.append({"number": len(self.events) + 1, "event": event, **fields})

    def go_on(self, orders: tuple[Labels, ...], data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(0, 4))):
            outstanding = fold(orders, self.events).outstanding()
            if outstanding:
                self.block(orders, outstanding[0], data.draw(st.integers(0, len(outstanding[0].labels))))

    def block(self, orders: tuple[Labels, ...], block: Block, executed: int) -> None:
        key = {"phase": block.phase, "case": block.case, "block": block.number}
        self.add("block-start", **key)
        for labels in block.labels[:executed]:
            self.add("run-start", labels=asdict(labels))
            self.add("run-end", labels=asdict(labels), outcome="ok", reason=None, files={})
        if executed == len(block.labels):
            self.add("block-end", **key)
            return
        state = fold(orders, self.events)
        for broken, reason in broken_blocks(state):
            self.add("block-void", phase=broken.phase, case=broken.case, block=broken.number, reason=reason)
            state = fold(orders, self.events)
            self.add("replacement", **replacement_event(replacement(state, broken)))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_was_begun_keeps_its_place_and_every_case_gets_its_blocks(data: st.DataObject) -> None:
    story, plan, orders = Story(), PLAN, ORDERS
    for _ in range(data.draw(st.integers(1, 3))):
        story.go_on(orders, data)
        before = fold(orders, story.events)
        wanted = {name: data.draw(st.integers(2, 9)) for name in PLAN.phases}
        names = [case.name for case in PLAN.phases["B"].cases]
        other = changed_plan(PLAN, wanted, {"B": data.draw(st.sets(st.sampled_from(names), max_size=3))})
        refused, after = _refused_or_orders(before, plan, other)
        if refused:
            assert re.search(r"have begun|it has runs", refused)
            continue
        hold(before, after, other, story)
        plan, orders = other, after


def _refused_or_orders(before: Ledger, plan: Plan, other: Plan) -> tuple[str, tuple[Labels, ...]]:
    try:
        return "", amended_orders.amended(before, plan, other)
    except Refused as error:
        return str(error), ()


def hold(before: Ledger, after: tuple[Labels, ...], plan: Plan, story: Story) -> None:
    """What must be so after any amendment."""
    state = fold(after, story.events)  # raises where something that was begun is not in the orders
    begun = amended_orders.begun(before)
    assert [block for block in begun if block not in state.blocks] == []
    keys = [block.key for block in state.blocks]
    assert len(set(keys)) == len(keys)
    sequences = [labels.sequence for labels in state.labels()]
    assert len(set(sequences)) == len(sequences)
    greatest = max(labels.sequence for labels in before.labels())
    known = set(before.labels())
    assert all(labels.sequence > greatest for labels in after if labels not in known)
    for name, phase in plan.phases.items():
        for case in phase.cases:
            own = [block for block in blocks_of(after) if (block.phase, block.case) == (name, case.name)]
            assert len(own) == phase.blocks
            for block in own:
                assert sorted(labels.arm for labels in block.labels) == sorted(arm.name for arm in phase.arms)
                assert [labels.position for labels in block.labels] == list(range(len(phase.arms)))
    assert {labels.phase for labels in after} == set(plan.phases)
    assert set(before.void) <= set(keys)


def test_an_amended_plan_without_a_change_keeps_its_orders() -> None:
    assert amended_orders.amended(fold(ORDERS, []), PLAN, PLAN) == ORDERS


@pytest.mark.parametrize("arms", range(2, 9))
@pytest.mark.parametrize("missing", [1, 2, 3])
def test_single_blocks_are_added_for_any_number_of_arms(arms: int, missing: int) -> None:
    phase = PLAN.phases["B"]
    more = tuple(phase.arms[0].model_copy(update={"name": f"arm{number}"}) for number in range(arms))
    wide = phase.model_copy(update={"arms": more})
    added = amended_orders._added("B", wide, phase.cases[0].name, 6, missing)
    assert [block.number for block in added] == list(range(7, 7 + missing))
    assert all(len({labels.arm for labels in block.labels}) == arms for block in added)


# ---- differences between plans ------------------------------------------------------------------------


def test_long_values_are_shown_with_their_digest_and_order_counts() -> None:
    phase = PLAN.phases["B"]
    swapped = phase.model_copy(update={"cases": (*phase.cases[1:], phase.cases[0]), "question": "x" * 400})
    plan = PLAN.model_copy(update={"phases": {**PLAN.phases, "B": swapped}})
    found = {change.path: change for change in plandiff.changes(PLAN, plan)}
    assert list(found) == ["phases.B.question", "phases.B.cases (order)"]
    text = json.dumps("x" * 400)
    assert found["phases.B.question"].new == (
        f"{text[:160]}… (402 characters, SHA-256 {hashlib.sha256(text.encode()).hexdigest()})"
    )
    turned = PLAN.model_copy(update={"phases": dict(reversed(PLAN.phases.items()))})
    assert [change.path for change in plandiff.changes(PLAN, turned)] == ["phases (order)"]
    assert plandiff.changes(PLAN, PLAN) == []


def test_true_is_not_one_and_an_engine_of_the_phase_stands_for_itself() -> None:
    plan = PLAN.model_copy(update={"campaign": PLAN.campaign.model_copy(update={"payload_seed": True})})
    assert [change.path for change in plandiff.changes(PLAN, plan)] == ["campaign.payload_seed"]
    cases = {"B": [PLAN.phases["B"].cases[0].name]}
    assert plandiff.fixed(PLAN, PLAN, cases) == {}
    assert [c.path for c in plandiff.fixed(PLAN, plan, cases)["B"]][:1] == ["campaign.payload_seed"]


def test_what_a_phase_has_of_its_own_is_compared() -> None:
    """Network, engine, outputs, fixture and metrics as the phase has them, which the command line's campaign has none of."""
    phase = PLAN.phases["B"]
    cases = {"B": [phase.cases[0].name]}

    def fixed(**update: object) -> list[str]:
        changed = phase.model_copy(update=update)
        plan = PLAN.model_copy(update={"phases": {**PLAN.phases, "B": changed}})
        return [change.path for change in plandiff.fixed(PLAN, plan, cases).get("B", [])]

    first = phase.cases[0]
    assert fixed(network=PhaseNetwork(delay_us=70)) == ["network.delay_us"]
    assert fixed(engine=PhaseEngine(settings={"more": "1"})) == ["engine.settings.more"]
    assert fixed(outputs=("x.bin",)) == [f"phases.B.cases[{first.name}].outputs"]
    other = first.model_copy(update={"outputs": ("y.bin",)})
    assert fixed(cases=(other, *phase.cases[1:])) == [f"phases.B.cases[{first.name}].outputs"]
    later = phase.cases[1].model_copy(update={"outputs": ("y.bin",), "parameters": {}})
    assert fixed(cases=(first, later, *phase.cases[2:])) == []  # that case has no runs


def test_ranges() -> None:
    assert [ranges(numbers) for numbers in ([], [3], [2, 1, 0], [0, 1, 5, 7, 8])] == [
        "",
        "3",
        "0 to 2",
        "0 to 1, 5, 7 to 8",
    ]
