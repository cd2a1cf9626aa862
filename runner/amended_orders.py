"""The orders of an amended plan: what was begun keeps its place, what is new is appended. Pure.

- Every block that was begun stays as it is: numbers, arms, positions, sequence. So does every other block of a phase that has
  begun, as long as the plan still has it.
- More blocks in such a phase: those that a case lacks get numbers after its greatest one, replacements too, and a design of
  their own, with the arms in the same roles. Fewer blocks: the last ones that have not begun go.
- A phase that has not begun keeps its orders when arms, cases, blocks and order seed are the same, and is expanded anew otherwise.
- Whatever is new has sequence numbers after the greatest one that was given, as replacements do; phases go in the order of the
  plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runner.errors import Refused
from runner.ledger import Block, Ledger, blocks_of
from runner.orders import Labels, cast, design, expand_phase
from runner.plan import Phase, Plan


def amended(ledger: Ledger, earlier: Plan, plan: Plan) -> tuple[Labels, ...]:
    """Every planned run of an amended campaign; `ledger` is its state under the earlier plan.

    Raises Refused where a block that was begun would not be in them.
    """
    known = begun(ledger)
    assert_kept(known, plan)
    labels: list[Labels] = []
    following = max(entry.sequence for entry in ledger.labels()) + 1
    for name, phase in plan.phases.items():
        planned = [block for block in ledger.blocks if block.phase == name and block.replaces is None]
        if any(block.phase == name for block in known):
            kept, new = _begun_phase(name, phase, ledger, planned, known)
        elif planned and _inputs(earlier.phases[name]) == _inputs(phase):
            kept, new = [entry for block in planned for entry in block.labels], []
        else:
            kept, new = [], expand_phase(name, phase, 0)
        labels += kept
        labels += [replace(entry, sequence=following + place) for place, entry in enumerate(new)]
        following += len(new)
    return tuple(labels)


def begun(ledger: Ledger) -> list[Block]:
    """Every block of which a run was started, or was about to be; replacements too, begun or not."""
    started = {(run.phase, run.case, run.block) for run in ledger.started}
    return [
        block
        for block in ledger.blocks
        if block.key in started or block.key in ledger.begun or block.replaces is not None
    ]


def assert_kept(known: Sequence[Block], plan: Plan) -> None:
    """Raise Refused when a case that has begun is not in the plan any more."""
    for block in known:
        phase = plan.phases.get(block.phase)
        if phase is None or block.case not in [case.name for case in phase.cases]:
            what = f"phases.{block.phase}" + (f".cases[{block.case}]" if phase else "")
            raise Refused(
                f"plan: {what}",
                "it has runs, and is not in the plan any more",
                expected="every phase and case that has begun",
                found=f"begun: {block.labels[0]}",
                remedy="put it back; what has no runs may go",
            )


def _inputs(phase: Phase) -> tuple[object, ...]:
    """What a phase's orders follow from."""
    return [arm.name for arm in phase.arms], [case.name for case in phase.cases], phase.blocks, phase.order_seed


def _begun_phase(
    name: str, phase: Phase, ledger: Ledger, planned: Sequence[Block], known: Sequence[Block]
) -> tuple[list[Labels], list[Labels]]:
    """The orders of a phase that has begun: what stays, and what is added, its sequence still to be given."""
    stay: set[Block] = set()
    added: list[list[Block]] = []
    for case in phase.cases:
        own = [block for block in planned if block.case == case.name]
        staying = _staying(own, known, phase.blocks)
        stay.update(staying)
        numbers = [block.number for block in ledger.blocks if (block.phase, block.case) == (name, case.name)]
        added.append(_added(name, phase, case.name, max(numbers, default=0), phase.blocks - len(staying)))
    kept = [entry for block in planned if block in stay for entry in block.labels]
    rounds = max(map(len, added))
    new = [entry for turn in range(rounds) for blocks in added if turn < len(blocks) for entry in blocks[turn].labels]
    return kept, new


def _staying(own: list[Block], known: Sequence[Block], wanted: int) -> list[Block]:
    """The planned blocks of a case that stay when it is to have `wanted` ones."""
    staying = list(own)
    while len(staying) > wanted:
        last = next((block for block in reversed(staying) if block not in known), None)
        if last is None:
            first = staying[-1]
            raise Refused(
                f"plan: phases.{first.phase}.blocks",
                f"more blocks of case {first.case} have begun",
                expected=f"at least {len(staying)}",
                found=str(wanted),
                remedy="give as many; what has begun stays in the record",
            )
        staying.remove(last)
    return staying


def _added(name: str, phase: Phase, case: str, last: int, missing: int) -> list[Block]:
    """Blocks after the `last` number of a case, in a design of their own."""
    arms = [arm.name for arm in phase.arms]
    roles = cast(phase.order_seed, name, case, arms)
    orders = design(len(arms), max(2, missing))[:missing] if missing > 0 else ()
    labels = [
        Labels(name, case, roles[role], last + 1 + turn, position, 0)
        for turn, order in enumerate(orders)
        for position, role in enumerate(order)
    ]
    return blocks_of(labels)
