"""Walk a sealed plan: every outstanding run in its order, one fresh process each, everything recorded."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from runner import close, containment, engines, host, ledger, leftovers, protocol, seal, treekinds, verify
from runner.errors import DataError, Refused, WrongUse
from runner.files import fsync_folder
from runner.interrupts import held
from runner.journal import Event, Journal, utc_now
from runner.ledger import Block, Ledger
from runner.orders import Labels
from runner.plan import Plan
from runner.progress import Progress, kind_of
from runner.record import WRONG_ANSWER, Context, assert_room, execute_run, record_interrupted, recovered_end
from runner.stage import open_stage
from runner.store import Store
from runner.treekinds import AnyBuilt

QUIET_SAMPLE_S = 0.25
BASELINE_LOOPS = 10
QUIET_SAMPLES = 4  # at most, where no tick passes during one


@dataclass(frozen=True)
class Quiet:
    """What the host did just before a block."""

    idle_load: float | None  # None: no tick of these CPUs passed
    calibration_ratio: float
    holds: bool

    def load_words(self, form: str) -> str:
        """The load as it is shown."""
        return "unknown" if self.idle_load is None else format(self.idle_load, form)


def execute(store: Store, progress: Progress, phase: str | None = None) -> int:
    """Execute what is outstanding. Returns how many runs have failed, and blocks stay void, in the campaign so far.

    Raises WrongUse for a phase that is not in the plan, and Refused when seal, host, trees or harness are not as sealed, or
    when the plan says to refuse a busy host.
    """
    seal.assert_executed_here(store, "run")
    plan = store.plan()
    if phase is not None and phase not in plan.phases:
        raise WrongUse(
            "--phase",
            f"no phase {phase!r} in the plan",
            expected=", ".join(plan.phases),
            remedy=f"python -m runner run {store.shown()} --phase {next(iter(plan.phases))}",
        )
    seal.read(store)  # before the journal is opened, which a draft has none of
    with Journal(store.journal_path) as journal:
        _tell_torn(journal, progress)
        plan = protocol.settled(store, journal)
        sealed = seal.assert_unchanged(store, plan, journal.events)
        assert_same_host(store, plan)
        state = ledger.fold(store.orders(), journal.events)
        if state.closed:
            if not store.manifest_path.is_file():
                close.close(store, plan, journal, state)
            progress.say("This campaign is closed; nothing is outstanding.")
            return _without_result(state)
        _session(store, plan, sealed, journal, progress, phase)
        state = ledger.fold(store.orders(), journal.events)
        if not state.outstanding() and not ledger.interrupted_runs(state):
            close.sweep(store)
            verify.assert_as_recorded(store, plan, state, journal.events)
            close.close(store, plan, journal, state)
    return _without_result(state)


def _tell_torn(journal: Journal, progress: Progress) -> None:
    """Say that a torn last line was cut off; the journal has just said so itself."""
    last = journal.events[-1] if journal.events else {"event": None}
    if last["event"] == "torn-line":
        progress.say(
            f"journal.jsonl:{last['number']}: the last line was torn, as a crash leaves it; its {last['bytes']} bytes are "
            "cut off, and what they told of is found again in the runs' folders"
        )


def _without_result(state: Ledger) -> int:
    """How many runs failed, and how many blocks were void and may not be replaced any more."""
    return state.counts()["failed"] + len(state.irreplaceable)


def assert_same_host(store: Store, plan: Plan) -> None:
    """Raise Refused when this is not the host that was sealed, or does not have the plan's CPUs."""
    sealed = store.read_json(store.host_path)["identity"]
    changed = host.differences(sealed, host.observe(plan.campaign.id)["identity"])
    if changed:
        raise Refused(
            "host",
            "this is not the host that was sealed",
            found="; ".join(changed),
            remedy="run on the sealed host, or start a campaign of this host",
        )
    assert_cpus(plan)


def assert_cpus(plan: Plan) -> None:
    """Raise Refused when the plan names CPUs that this process may not use."""
    allowed = os.sched_getaffinity(0)
    for group, cpus in plan.host.cpus.model_dump().items():
        beyond = [cpu for cpu in host.parse_cpus(cpus) if cpu not in allowed]
        if beyond:
            raise Refused(
                f"plan: host.cpus.{group}",
                "the plan names CPUs that this host does not give",
                expected=f"some of {host.format_cpus(allowed)}",
                found=host.format_cpus(beyond),
            )


def _session(
    store: Store, plan: Plan, sealed: seal.Seal, journal: Journal, progress: Progress, phase: str | None
) -> None:
    built = _trees(store, plan, sealed, progress)
    engine_found = engines.identity(plan)
    if engine_found != sealed.content["engine"]:
        raise Refused(
            "engine",
            "this is not the engine that was sealed",
            expected=str(sealed.content["engine"]),
            found=str(engine_found),
        )
    os.sched_setaffinity(0, host.parse_cpus(plan.host.cpus.housekeeping))
    boot_id = host.observe(plan.campaign.id)["details"]["boot_id"]
    with containment.session() as container:
        session = journal.append(
            "session-start", pid=os.getpid(), boot_id=boot_id, phase=phase, seal=sealed.digest, containment=container
        )
        with _session_end(journal):
            _recover(store, plan, journal, progress, session)
            baseline = _baseline(plan)
            journal.append("baseline", calibration_ns=baseline)
            _walk(store, plan, sealed, built, statistics.median(baseline), journal, progress, phase)


@contextmanager
def _session_end(journal: Journal) -> Iterator[None]:
    """Record why the session ends. What ended it is what is raised, also when the journal cannot be written any more."""
    try:
        yield
    except BaseException as error:
        with suppress(DataError):
            journal.append("session-end", reason=f"{type(error).__name__}: {error}".splitlines()[0])
        raise
    journal.append("session-end", reason="done")


def _trees(store: Store, plan: Plan, sealed: seal.Seal, progress: Progress) -> dict[str, AnyBuilt]:
    built = {}
    for name, tree in plan.trees.items():
        progress.say(f"tree {name}: {tree.what}")
        built[name] = treekinds.materialise(store, plan, name)
        found = treekinds.difference(sealed.content["trees"][name], built[name].identity())
        if found:
            raise Refused(
                f"tree {name}",
                "this is not the tree that was sealed",
                found=found,
                remedy="install the interpreter and packages, the toolchain or the programs that were sealed",
            )
    return built


def _baseline(plan: Plan) -> list[int]:
    """The calibration loop on the client's CPUs, several times over about a second: the median is the baseline."""
    times: list[int] = []
    for _ in range(BASELINE_LOOPS):
        times += host.calibrate(host.parse_cpus(plan.host.cpus.client))
        time.sleep(0.05)
    return times


def _recover(store: Store, plan: Plan, journal: Journal, progress: Progress, session: Event) -> None:
    """Bring the record of an earlier session to an end: interrupted runs, void blocks, their replacements.

    Each step looks at what the journal holds, so that a session that was killed in the middle of this is no exception.
    """
    orders = store.orders()
    close.sweep(store)
    for labels in ledger.interrupted_runs(ledger.fold(orders, journal.events)):
        _end_leftovers(store, labels, progress)
        end = recovered_end(store, labels)
        if end is None:
            cause = ledger.interruption_cause(labels, journal.events, session["boot_id"])
            end = record_interrupted(store, plan, protocol.seals_of_runs(journal.events)[labels], labels, cause)
        journal.append("run-end", labels=asdict(labels), **asdict(end), recovered=True)
    state = ledger.fold(orders, journal.events)
    for labels, end in state.ends.items():
        if stops_phase(plan, end) and labels.phase not in ledger.fold(orders, journal.events).stopped:
            _stop_phase(journal, progress, labels, end)
    state = ledger.fold(orders, journal.events)
    for block, reason in ledger.broken_blocks(state):
        journal.append(
            "block-void",
            phase=block.phase,
            case=block.case,
            block=block.number,
            reason=reason,
            executed=[run.arm for run in block.labels if run in state.ends],
            not_executed=[run.arm for run in block.labels if run not in state.ends],
        )
    state = ledger.fold(orders, journal.events)
    for block in state.blocks:
        if block.key in state.void and block.phase not in state.stopped:
            _replace(store, plan, journal, progress, block)
    close.write_metrics(store, plan, state)


def _end_leftovers(store: Store, labels: Labels, progress: Progress) -> None:
    """End a process of this run that outlived its runner, before what it wrote becomes a record."""
    for folder in (store.partial_folder(labels), store.run_folder(labels)):
        for pid in leftovers.end(folder):
            progress.say(f"process {pid} of an earlier session was still at work for {labels}: ended")


def _replace(store: Store, plan: Plan, journal: Journal, progress: Progress, block: Block) -> None:
    """Append the replacement of a void block, or say why there is none; once for each void block."""
    state = ledger.fold(store.orders(), journal.events)
    replaced = {(other.phase, other.case, other.replaces) for other in state.blocks}
    if block.key in replaced or block.key in state.irreplaceable:
        return
    reason = ledger.why_not_replaced(state, block, plan)
    if not reason:
        journal.append("replacement", **ledger.replacement_event(ledger.replacement(state, block)))
        return
    journal.append("no-replacement", phase=block.phase, case=block.case, block=block.number, reason=reason)
    progress.say(f"void and not replaced: phase {block.phase}, case {block.case}, block {block.number}: {reason}")


def stops_phase(plan: Plan, end: ledger.End) -> bool:
    """Whether, by the plan's rule, this end of a run ends its phase."""
    wrong = end.outcome == "failed" and (end.reason or "").startswith(WRONG_ANSWER)
    return wrong and plan.rules.wrong_answer == "stop-phase"


def _stop_phase(journal: Journal, progress: Progress, labels: Labels, end: ledger.End) -> None:
    reason = f"{labels}: {kind_of(end.reason)}"  # `status` shows it: no measured value; the run's record has the rest
    journal.append("phase-stopped", phase=labels.phase, reason=reason)
    progress.say(f"phase {labels.phase} stopped, by the plan's rule: {reason}")


def _walk(
    store: Store,
    plan: Plan,
    sealed: seal.Seal,
    built: dict[str, AnyBuilt],
    baseline_ns: float,
    journal: Journal,
    progress: Progress,
    phase: str | None,
) -> None:
    state = ledger.fold(store.orders(), journal.events)
    blocks = [block for block in state.outstanding() if phase in (None, block.phase)]
    progress.begin(blocks, state)
    with progress:
        for identifier, group in groupby(blocks, key=lambda block: block.phase):
            with open_stage(store, plan, identifier, built, journal) as stage:
                context = Context(store, plan, sealed.digest, built, stage, baseline_ns)
                for block in group:
                    if block.phase not in ledger.fold(store.orders(), journal.events).stopped:
                        _block(context, journal, progress, block)


def _block(context: Context, journal: Journal, progress: Progress, block: Block) -> None:
    started = time.monotonic_ns()
    key = {"phase": block.phase, "case": block.case, "block": block.number}
    quiet = wait_until_quiet(context, lambda text: progress.waiting(block, text))
    waited = time.monotonic_ns() - started
    if not quiet.holds and context.plan.rules.busy_block == "refuse":
        raise Refused(
            f"phase {block.phase}, case {block.case}, block {block.number}",
            f"the host was busy for {context.plan.rules.quiet_wait_s:g} s",
            expected=f"idle load at most {context.plan.rules.checks.idle_load}, calibration ratio at most "
            f"{context.plan.rules.checks.calibration_ratio}",
            found=f"{quiet.load_words('.2f')} and {quiet.calibration_ratio:.2f}",
            remedy="quiet the host and run again; the block has not begun",
        )
    not_begun = f"phase {block.phase}, case {block.case}, block {block.number} has not begun"
    assert_room(context.store, not_begun, runs=len(block.labels))
    before, measuring = _rtt(context)
    journal.append(
        "block-start",
        **key,
        idle_load=None if quiet.idle_load is None else round(quiet.idle_load, 4),
        calibration_ratio=round(quiet.calibration_ratio, 4),
        waited_ns=waited,
        marked=not quiet.holds,
        **before,
    )
    for labels in block.labels:
        progress.started(labels)
        end = _execute(context, journal, labels)
        progress.ended(labels, end, see=context.store.shown(context.store.run_folder(labels) / "run.json"))
        if stops_phase(context.plan, end):
            _stop_phase(journal, progress, labels, end)
            break
    after, again = _rtt(context)
    if after:
        after = {**after, "measuring_ns": measuring + again}
    journal.append("block-end", **key, wall_ns=time.monotonic_ns() - started, waited_ns=waited, **after)


def _rtt(context: Context) -> tuple[dict[str, Any], int]:
    """The round-trip times of a path with an added delay, and how long it took to measure them, in ns."""
    started = time.monotonic_ns()
    return context.stage.rtt(), time.monotonic_ns() - started


def _execute(context: Context, journal: Journal, labels: Labels) -> ledger.End:
    with held():  # but while its process is at work: what became of it is not to be lost
        journal.append("run-start", labels=asdict(labels), started=utc_now())
        end, problem = execute_run(context, labels)
        journal.append("run-end", labels=asdict(labels), **asdict(end))
        if end.outcome == "ok":
            close.append_metrics(context.store, context.plan, labels)
            fsync_folder(context.store.folder)
    if problem:
        context.stage.restart(problem)
    return end


def wait_until_quiet(context: Context, waiting: Callable[[str], None]) -> Quiet:
    """Look at the host before a block, again and again until it is quiet or the plan's patience is over."""
    rules = context.plan.rules
    deadline = time.monotonic() + rules.quiet_wait_s
    while True:
        with context.stage.ends.resting():
            quiet = look(context)
        if quiet.holds or time.monotonic() >= deadline:
            return quiet
        waiting(f"busy (load {quiet.load_words('.0%')}, calibration {quiet.calibration_ratio:.2f})")
        time.sleep(min(1.0, max(0.0, deadline - time.monotonic())))


def look(context: Context) -> Quiet:
    """Load of the campaign's CPUs while nothing of it runs, and the calibration loop against its baseline."""
    groups = context.plan.host.cpus
    cpus = {cpu for group in (groups.housekeeping, groups.server, groups.client) for cpu in host.parse_cpus(group)}
    before, load = host.cpu_ticks(), None
    for _ in range(QUIET_SAMPLES):
        time.sleep(QUIET_SAMPLE_S)
        load = host.busy_share(before, host.cpu_ticks(), cpus)
        if load is not None:
            break
    ratio = statistics.median(host.calibrate(host.parse_cpus(groups.client))) / context.baseline_ns
    checks = context.plan.rules.checks
    quiet = load is not None and load <= checks.idle_load
    return Quiet(load, ratio, quiet and ratio <= checks.calibration_ratio)


def summary(state: Ledger) -> dict[str, Any]:
    """What `status` shows: states of runs, never a result."""
    return {
        "runs": state.counts(),
        "void_blocks": len(state.void),
        "stopped_phases": state.stopped,
        "outstanding_blocks": len(state.outstanding()),
        "closed": state.closed is not None,
    }
