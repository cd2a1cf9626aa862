"""What has happened to every run: the plan's orders and the journal, folded into states. Pure.

Progress is read from the journal; the plan and its orders are never edited. Replacement blocks live in the journal alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from runner.errors import DataError
from runner.orders import Labels
from runner.plan import Plan

BlockKey = tuple[str, str, int]  # phase, case, number
OUTCOMES = ("ok", "failed", "interrupted")


@dataclass(frozen=True)
class End:
    """How a run ended, and the digests of its files."""

    outcome: str  # "ok", "failed" or "interrupted"
    reason: str | None
    files: dict[str, str]


@dataclass(frozen=True)
class Block:
    """The runs of one case and block, in their order."""

    phase: str
    case: str
    number: int
    labels: tuple[Labels, ...]
    replaces: int | None = None

    @property
    def key(self) -> BlockKey:
        """What names the block inside the campaign."""
        return self.phase, self.case, self.number


@dataclass
class Ledger:
    """The state of a campaign."""

    blocks: list[Block]
    started: dict[Labels, None] = field(default_factory=dict)
    ends: dict[Labels, End] = field(default_factory=dict)
    void: dict[BlockKey, str] = field(default_factory=dict)
    begun: dict[BlockKey, dict[str, Any]] = field(default_factory=dict)  # block -> its block-start event
    ended: dict[BlockKey, dict[str, Any]] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)  # phase -> why it stopped early
    irreplaceable: dict[BlockKey, str] = field(default_factory=dict)
    closed: dict[str, Any] | None = None

    def labels(self) -> list[Labels]:
        """Every run that was planned or appended, in execution order."""
        return [labels for block in self.blocks for labels in block.labels]

    def outstanding(self) -> list[Block]:
        """Blocks that still have to be executed, in order: planned ones of a phase first, then its replacements."""
        open_blocks = [
            block
            for block in self.blocks
            if block.key not in self.void
            and block.phase not in self.stopped
            and any(run not in self.ends for run in block.labels)
        ]
        order = {phase: i for i, phase in enumerate(dict.fromkeys(block.phase for block in self.blocks))}
        return sorted(
            open_blocks, key=lambda block: (order[block.phase], block.replaces is not None, block.labels[0].sequence)
        )

    def state(self, labels: Labels) -> str:
        """planned, running, ok, failed, interrupted, void (never executed in a void block) or stopped."""
        if labels in self.ends:
            return self.ends[labels].outcome
        if (labels.phase, labels.case, labels.block) in self.void:
            return "void"
        if labels.phase in self.stopped:
            return "stopped"
        return "running" if labels in self.started else "planned"

    def reason(self, labels: Labels) -> str:
        """Why this run has no result, in words; empty when it has one."""
        end = self.ends.get(labels)
        void = self.void.get((labels.phase, labels.case, labels.block))
        if end is not None and end.outcome == "failed":
            return f"failed: {end.reason}"
        if void is not None:
            return f"void block: {void}"
        if end is not None:
            return "" if end.outcome == "ok" else f"interrupted: {end.reason}"
        if labels.phase in self.stopped:
            return f"the phase stopped early: {self.stopped[labels.phase]}"
        return "not executed yet"

    def done(self) -> int:
        """How many runs need not be executed any more: those that ended well or failed, void blocks aside."""
        return sum((run.phase, run.case, run.block) not in self.void for run in self.ends)

    def counts(self) -> dict[str, int]:
        """How many runs are in which state."""
        states = [self.state(labels) for labels in self.labels()]
        return {
            state: states.count(state)
            for state in ("ok", "failed", "interrupted", "void", "stopped", "running", "planned")
        }


def blocks_of(labels: Sequence[Labels], replaces: int | None = None) -> list[Block]:
    """Group runs into blocks, in order."""
    grouped: dict[BlockKey, list[Labels]] = {}
    for entry in labels:
        grouped.setdefault((entry.phase, entry.case, entry.block), []).append(entry)
    return [Block(*key, tuple(entries), replaces) for key, entries in grouped.items()]


def fold(orders: Sequence[Labels], events: Iterable[dict[str, Any]]) -> Ledger:
    """The ledger after these events. Raises DataError, with the journal's line, for an event that cannot follow."""
    ledger = Ledger(blocks_of(orders))
    known, keys = set(ledger.labels()), {block.key for block in ledger.blocks}
    for event in events:
        where = f"journal.jsonl:{event.get('number', '?')}"
        try:
            _apply(ledger, known, keys, event, where)
        except (KeyError, TypeError, IndexError) as error:
            raise DataError(
                where, f"an event {event.get('event')!r} that is not complete", found=f"{type(error).__name__}: {error}"
            ) from None
    return ledger


def _apply(ledger: Ledger, known: set[Labels], keys: set[BlockKey], event: dict[str, Any], where: str) -> None:
    kind = event["event"]
    if kind in ("run-start", "run-end"):
        _run_event(ledger, known, event, where)
    elif kind == "replacement":
        _replacement_event(ledger, known, keys, event, where)
    elif kind in ("block-start", "block-end", "block-void", "no-replacement"):
        key = (event["phase"], event["case"], event["block"])
        if key not in keys:
            raise DataError(where, f"{kind} of a block that nobody planned", found=f"block {key[2]} of {key[1]}")
        if kind == "block-start":
            ledger.begun[key] = event
        elif kind == "block-end":
            ledger.ended[key] = event
        elif kind == "block-void":
            ledger.void[key] = event["reason"]
        else:
            ledger.irreplaceable[key] = event["reason"]
    elif kind == "phase-stopped":
        ledger.stopped[event["phase"]] = event["reason"]
    elif kind == "close":
        ledger.closed = event


def _replacement_event(
    ledger: Ledger, known: set[Labels], keys: set[BlockKey], event: dict[str, Any], where: str
) -> None:
    runs = [Labels(**entry) for entry in event["runs"]]
    block = blocks_of(runs, event["replaces"])[0]
    replaced = (block.phase, block.case, event["replaces"])
    void = next((other for other in ledger.blocks if other.key == replaced), None)
    if (
        len(block.labels) != len(runs)
        or block.key in keys
        or replaced not in ledger.void
        or replaced in _replaced(ledger)
        or (void is not None and _failed_arms(ledger, void))
    ):
        raise DataError(
            where,
            "a replacement that cannot be",
            expected="one new block, for a void block that has none yet and holds no failed run",
            found=f"block {block.number} for block {event['replaces']} of {block.case}",
        )
    ledger.blocks.append(block)
    known.update(block.labels)
    keys.add(block.key)


def _replaced(ledger: Ledger) -> set[BlockKey]:
    return {(block.phase, block.case, block.replaces) for block in ledger.blocks if block.replaces is not None}


def _run_event(ledger: Ledger, known: set[Labels], event: dict[str, Any], where: str) -> None:
    labels = Labels(**event["labels"])
    if labels not in known:
        raise DataError(where, f"{event['event']} of a run that nobody planned", found=str(labels))
    if event["event"] == "run-start":
        if labels in ledger.started:
            raise DataError(
                where, "a run was started twice", found=str(labels), expected="every planned run executed once"
            )
        if ledger.closed or (labels.phase, labels.case, labels.block) in ledger.void:
            after = "the campaign's close" if ledger.closed else "its block was declared void"
            raise DataError(where, f"a run was started after {after}", found=str(labels))
        ledger.started[labels] = None
    else:
        if labels not in ledger.started or labels in ledger.ends:
            raise DataError(where, "a run ended that was not under way", found=str(labels))
        if event["outcome"] not in OUTCOMES:
            raise DataError(
                where, "a run with an unknown outcome", expected=", ".join(OUTCOMES), found=event["outcome"]
            )
        ledger.ends[labels] = End(event["outcome"], event["reason"], event["files"])


def interruption_cause(labels: Labels, events: Iterable[dict[str, Any]], boot_id: str) -> str:
    """Why a run that has no end was interrupted: the host went down when it was started under another boot than this."""
    then = ""
    for event in events:
        if event["event"] == "session-start":
            then = event["boot_id"]
        elif event["event"] == "run-start" and event["labels"] == asdict(labels):
            return "host-down" if then and boot_id and then != boot_id else "runner-killed"
    return "runner-killed"


def interrupted_runs(ledger: Ledger) -> list[Labels]:
    """Runs that were started and have no end: the runner was killed, or the host went down."""
    return [labels for labels in ledger.started if labels not in ledger.ends]


def broken_blocks(ledger: Ledger) -> list[tuple[Block, str]]:
    """Blocks to be declared void at the start of a session, with the reason."""
    broken = []
    for block in ledger.blocks:
        if block.key in ledger.void or block.key not in ledger.begun or block.phase in ledger.stopped:
            continue
        interrupted = [run for run in block.labels if run in ledger.ends and ledger.ends[run].outcome == "interrupted"]
        if interrupted:
            broken.append((block, f"the run of arm {interrupted[0].arm} was interrupted"))
        elif block.key not in ledger.ended and any(run not in ledger.ends for run in block.labels):
            broken.append((block, "the session ended between its runs"))
    return broken


def why_not_replaced(ledger: Ledger, block: Block, plan: Plan) -> str:
    """Why a void block gets no replacement, by the rules; empty when it gets one."""
    failed = _failed_arms(ledger, block)
    if failed:
        return f"it holds a failed run, which is never repeated: arm {', '.join(failed)}"
    if sum(other.replaces is not None for other in _same_case(ledger, block)) >= plan.rules.replacement_blocks:
        return f"the plan allows {plan.rules.replacement_blocks} for each case"
    return ""


def _failed_arms(ledger: Ledger, block: Block) -> list[str]:
    return [run.arm for run in block.labels if run in ledger.ends and ledger.ends[run].outcome == "failed"]


def _same_case(ledger: Ledger, block: Block) -> list[Block]:
    return [other for other in ledger.blocks if (other.phase, other.case) == (block.phase, block.case)]


def replacement(ledger: Ledger, block: Block) -> Block:
    """The block to append for a void one: a number of its own, the same order."""
    same_case = _same_case(ledger, block)
    number = max(other.number for other in same_case) + 1
    first = max(labels.sequence for labels in ledger.labels()) + 1
    runs = tuple(replace(labels, block=number, sequence=first + i) for i, labels in enumerate(block.labels))
    return Block(block.phase, block.case, number, runs, block.number)


def replacement_event(block: Block) -> dict[str, Any]:
    """The fields of the journal's replacement event."""
    return {
        "phase": block.phase,
        "case": block.case,
        "block": block.number,
        "replaces": block.replaces,
        "runs": [asdict(labels) for labels in block.labels],
    }
