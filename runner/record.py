"""One run: check, reset, calibrate, execute, observe, and write its record, whole or not at all.

A run's files are written into a folder whose name ends in .partial, which is renamed when everything in it is on disk; only
then does the journal get the run's end, with the digests of the files.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runner import benchfmt, host, process, rawlog, treekinds
from runner.errors import Refused, unwritable
from runner.files import canonical_json, file_sha256, fsync_folder, make_folder, write_whole, writing
from runner.journal import utc_now
from runner.ledger import End
from runner.orders import Labels
from runner.plan import Arm, Phase, Plan
from runner.plantypes import FILE_NAME, RUN_FILES
from runner.stage import INHERITED, Stage, places_of
from runner.store import PARTIAL, Store
from runner.templates import each, fill, go_bench
from runner.treekinds import AnyBuilt


@dataclass
class Context:
    """What every run of a phase shares."""

    store: Store
    plan: Plan
    seal_digest: str
    trees: dict[str, AnyBuilt]
    stage: Stage
    baseline_ns: float


@dataclass
class Stopwatch:
    """Where the time of one run goes, in ns by category."""

    spent: dict[str, int] = field(default_factory=dict)
    _last: int = field(default_factory=time.monotonic_ns)

    def lap(self, category: str) -> None:
        """Add the time since the last lap to a category."""
        now = time.monotonic_ns()
        self.spent[category] = self.spent.get(category, 0) + now - self._last
        self._last = now


def expand(plan: Plan, phase: Phase, labels: Labels, places: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a run, from the plan's templates; `places` gives harness, output and the tree's own."""
    arm = next(arm for arm in phase.arms if arm.name == labels.arm)
    parameters = plan.parameters_of(labels.phase, labels.case)
    fields = {
        **places,
        "case": labels.case,
        "go_bench": go_bench(labels.case),
        "arm": labels.arm,
        "block": str(labels.block),
        "repeats": str(phase.repeats),
        "client_cpus_count": str(len(host.parse_cpus(plan.host.cpus.client))),
        "switches": json.dumps(arm.switches, sort_keys=True),
        **each("switches", arm.switches),
        "parameters": json.dumps(parameters, sort_keys=True),
        **each("parameters", parameters),
    }
    return (
        [fill(part, fields) for part in phase.argv_of(labels.case)],
        {key: fill(value, fields) for key, value in phase.environment.items()},
    )


WRONG_ANSWER = "wrong answer"  # how the reason of such a run begins; a rule of the plan looks at it
ROOM = 1 << 20  # bytes that the campaign's disk must have free, before and after every run's process
MB = 1_000_000
PLACES = {name: f"{{{name}}}" for name in ("python", "tree", "checkout", "bin", "binary", "harness", "output")}


def execute_run(context: Context, labels: Labels) -> tuple[End, str]:
    """Execute one run and write its record. Returns its end, and why the engine must be restarted ("" if not).

    An engine that died before the run is started again: nothing was timed yet, so that no run fails.
    """
    store, plan = context.store, context.plan
    phase = plan.phases[labels.phase]
    arm = next(arm for arm in phase.arms if arm.name == labels.arm)
    watch = Stopwatch()
    digests = _identity(context, arm)
    watch.lap("identity")
    engine_before = _ready(context.stage)
    watch.lap("reset")
    client = host.parse_cpus(plan.host.cpus.client)
    loop_before = host.calibrate(client)
    watch.lap("calibration")
    folder = store.partial_folder(labels)
    make_folder(folder.parent)
    folder.mkdir()
    (folder / OUTPUT).mkdir()
    argv, environment = _command(context, phase, labels, arm, folder / OUTPUT)
    kept_free = _keep_free(folder)
    counters_before = host.counters()
    started = utc_now()
    watch.lap("record")
    ended = process.execute(
        [*context.stage.ends.client, *process.pinned(plan.host.cpus.client), *argv],
        environment,
        folder / "stdout.txt",
        folder / "stderr.txt",
        plan.rules.run_limit_s,
        plan.rules.output_limit_mb * MB,
    )
    watch.lap("process")
    if ended.status == 0:  # one that failed has failed, whatever became of its output
        assert_room(
            store, f"what the process of {labels} wrote may be cut off, so that the run is not recorded as ended"
        )
    kept_free.unlink()
    counters_after = host.counters()
    loop_after = host.calibrate(client)
    watch.lap("calibration")
    engine_after, engine_problem = _health(context)
    watch.lap("reset")
    flooded = _at_limit(folder, plan.rules.output_limit_mb * MB)
    log = benchfmt.parse((folder / "stdout.txt").read_bytes()) if not flooded else benchfmt.parse(b"")
    why = why_failed(ended, log, plan, labels, counters_before, counters_after)
    refused = _take_outputs(folder)
    if flooded:
        why = f"output limit: {flooded} reached {plan.rules.output_limit_mb} MB (rules.output_limit_mb)"
    why = why or wrong_outputs(phase.outputs_of(labels.case), _files(folder), refused)
    reason = "; ".join(filter(None, (why, engine_problem))) or None
    if reason and ended.status:
        reason += _last_words(folder / "stderr.txt")
    checks = host.checks_of(
        plan.rules.checks, counters_before, counters_after, (loop_before, loop_after), context.baseline_ns
    )
    checks += [_restart_check(engine_before, engine_after), _pinning_check(plan, ended)]
    tree = plan.trees[arm.tree]
    shown_argv, shown_environment = expand(plan, phase, labels, treekinds.places(tree, "{tree}") | PLACES)
    record = {
        "format": 1,
        "campaign": plan.campaign.id,
        "seal": context.seal_digest,
        "labels": asdict(labels),
        "outcome": "failed" if reason else "ok",
        "reason": reason,
        "started": started,
        "ended": utc_now(),
        "argv": shown_argv,
        "environment": _shown(context, shown_environment),
        "cpus": {"planned": plan.host.cpus.client, "allowed": ended.cpus_allowed, "last": ended.cpu_last},
        "network": context.stage.ends.kind,
        "digests": digests,
        "process": {
            "exit_status": ended.status,
            "signal": ended.signal,
            "timed_out": ended.timed_out,
            "wall_ns": ended.wall_ns,
        },
        "rusage": ended.rusage,
        "schedstat": ended.schedstat,
        "calibration": {"baseline_ns": context.baseline_ns, "before_ns": loop_before, "after_ns": loop_after},
        "counters": {"before": counters_before, "after": counters_after},
        "engine": {"before": engine_before, "after": engine_after},
        "covariates": covariates(log, phase, engine_before),
        "configuration": log.configuration,
        "checks": checks,
    }
    watch.lap("record")
    record["durations_ns"] = watch.spent
    return _finish(store, labels, record), engine_problem


def assert_room(store: Store, consequence: str, runs: int = 0) -> None:
    """Raise Unwritable when the campaign's disk is full: a process whose output has no room may end as if all were well.

    Before so many runs, each of which keeps some room free for its record.
    """
    found = os.statvfs(store.folder)
    free = (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize  # some blocks are for root alone
    need = ROOM * (1 + runs)
    if free < need:
        raise unwritable(
            str(store.folder),
            OSError(errno.ENOSPC, f"{free // 1024} KiB left on this disk, at least {need // 1024} KiB are needed"),
            f"make room on the disk and run again ({consequence})",
        )


def _keep_free(folder: Path) -> Path:
    """A file that takes up room while the process is at work, so that a failure can be recorded on a disk that it filled."""
    path = folder / f".room{PARTIAL}"
    with writing(path), path.open("xb") as file:
        os.posix_fallocate(file.fileno(), 0, ROOM)
    return path


def _at_limit(folder: Path, limit: int) -> str:
    """The name of an output file that the kernel let grow no further; "" for none."""
    paths = [path for path in (*folder.iterdir(), *(folder / OUTPUT).iterdir()) if path.is_file()]
    return next((path.name for path in sorted(paths) if path.lstat().st_size >= limit), "")


def _identity(context: Context, arm: Arm) -> dict[str, str]:
    """Digests of harness and tree, checked against the seal just before the run."""
    plan, store = context.plan, context.store
    sealed = store.read_json(store.seal_path)["files"]
    harness = {}
    for name in plan.harness.files:
        found = file_sha256(store.harness_folder / name)
        if found != sealed[f"harness/{name}"]:
            raise Refused(
                f"arm {arm.name}: harness/{name}",
                "not the harness bytes that were sealed",
                expected=sealed[f"harness/{name}"],
                found=found,
                remedy="restore the file",
            )
        harness[f"harness/{name}"] = found
    built = context.trees[arm.tree]
    treekinds.recheck(built, plan.trees[arm.tree])
    return harness | {"tree": built.identity()["files_sha256"]}


def _command(
    context: Context, phase: Phase, labels: Labels, arm: Arm, output: Path
) -> tuple[list[str], dict[str, str]]:
    places = places_of(context.store, context.plan.trees[arm.tree], context.trees[arm.tree]) | {"output": str(output)}
    argv, environment = expand(context.plan, phase, labels, places)
    return argv, INHERITED | context.stage.engine.environment | environment


def _shown(context: Context, environment: dict[str, str]) -> dict[str, str]:
    """The environment as it is recorded: every name, and the values of all but secrets."""
    full = INHERITED | context.stage.engine.environment | environment
    return {name: "{secret}" if name in context.stage.engine.secrets else value for name, value in sorted(full.items())}


def _ready(stage: Stage) -> dict[str, Any]:
    """Clear all user data, and what the engine says of itself then."""
    try:
        stage.engine.reset()
        return stage.engine.health()
    except Refused as error:
        stage.restart(f"the engine did not answer before the run: {error.problem}")
        stage.engine.reset()
        return stage.engine.health()


def _health(context: Context) -> tuple[dict[str, Any], str]:
    try:
        return context.stage.engine.health(), ""
    except Refused as error:
        return {}, f"the engine did not answer after the run: {error.problem}"


def _restart_check(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    restarted = before.get("started") != after.get("started")
    return {"check": "engine_restarts", "value": int(restarted), "limit": 0, "holds": not restarted}


def _pinning_check(plan: Plan, ended: process.Ended) -> dict[str, Any]:
    beyond = host.cpus_beyond(plan.host.cpus.client, ended.cpus_allowed)
    return {"check": "cpus_beyond_plan", "value": beyond, "limit": 0, "holds": None if beyond is None else beyond == 0}


def why_failed(
    ended: process.Ended,
    log: benchfmt.Log,
    plan: Plan,
    labels: Labels,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> str:
    """Why a run failed, the nearest cause first; empty when it did not."""
    if ended.timed_out:
        return f"time limit: still at work after {plan.rules.run_limit_s:g} s"
    memory = "out of memory: " * (ended.status != 0 and killed_for_memory(before, after))
    if ended.signal:
        return f"{memory}ended by {ended.signal}" + " while the kernel killed for memory" * bool(memory)
    content = rawlog.content(log, plan.phases[labels.phase], labels.case)
    if ended.status == plan.rules.wrong_answer_exit:
        return f"{WRONG_ANSWER}: {content.problem or 'by exit status alone'}"
    if ended.status:
        return f"{memory}exit status {ended.status}" + (f"; {content.problem}" if log.faults else "")
    return content.problem or ""


def killed_for_memory(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the kernel killed for memory between two readings: in the runner's own memory cgroup where that counts, which
    everything of a run is in, else anywhere on the host."""
    for name in ("group_oom_kills", "oom_kills"):
        if before.get(name) is not None and after.get(name) is not None:
            return bool(after[name] > before[name])
    return False


OUTPUT = ".output"  # in a run's folder while it is under way: what {output} stands for


def _take_outputs(folder: Path) -> list[str]:
    """Move the files that a process wrote to the runner's own, which it could not reach. Returns what was not taken.

    Only plain files with plain names are: a link, a pipe or a folder is not what the process measured, and goes.
    """
    output, refused = folder / OUTPUT, []
    for path in sorted(output.iterdir()) if output.is_dir() else []:
        plain = FILE_NAME.fullmatch(path.name) and path.name not in RUN_FILES
        if plain and path.is_file() and not path.is_symlink():
            os.rename(path, folder / path.name)
        else:
            refused.append(ascii(path.name)[1:-1])
    shutil.rmtree(output, ignore_errors=True)
    return refused


def wrong_outputs(planned: Sequence[str], found: Sequence[str], refused: Sequence[str] = ()) -> str:
    """What is wrong with the files that a process wrote beside its output; empty when nothing is."""
    missing = [name for name in planned if name not in found]
    beyond = [name for name in found if name not in (*planned, *RUN_FILES)]
    if refused:
        return f"it wrote {', '.join(refused)}: not a plain file, or not with a name that it may have; not kept"
    if missing:
        return f"it did not write {', '.join(missing)}"
    return f"it wrote {', '.join(beyond)}, which the plan does not name" if beyond else ""


def _last_words(stderr: Path) -> str:
    """The last line of a failed run's stderr, which most often names the cause; paths of the host are cut to their last part."""
    lines = [line for line in stderr.read_bytes()[-4096:].decode(errors="replace").splitlines() if line.strip()]
    return "; stderr ends: " + re.sub(r"(/[^\s/'\"]+)+/", "", lines[-1].strip())[:200] if lines else ""


def covariates(log: benchfmt.Log, phase: Phase, engine: Mapping[str, Any]) -> dict[str, Any]:
    """Every covariate of the plan, from the run's configuration lines; None where the run did not say. The
    engine's uptime is always there."""
    declared = {covariate.name: log.configuration.get(covariate.name) for covariate in phase.covariates}
    return declared | ({"engine_uptime_s": engine["uptime_s"]} if "uptime_s" in engine else {})


def _finish(store: Store, labels: Labels, record: dict[str, Any]) -> End:
    partial, folder = store.partial_folder(labels), store.run_folder(labels)
    for name in _files(partial):
        with writing(partial / name), (partial / name).open("rb") as file:
            os.fsync(file.fileno())  # what the process wrote beside its output is not on disk yet
    write_whole(partial / "run.json", canonical_json(record).encode())
    return _in_place(partial, folder, record)


def _in_place(partial: Path, folder: Path, record: Mapping[str, Any]) -> End:
    with writing(folder):
        os.rename(partial, folder)
    fsync_folder(folder.parent)
    return _end(record, folder)


def _end(record: Mapping[str, Any], folder: Path) -> End:
    return End(record["outcome"], record["reason"], {name: file_sha256(folder / name) for name in _files(folder)})


def _files(folder: Path) -> list[str]:
    """Every file in a run's folder."""
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def recovered_end(store: Store, labels: Labels) -> End | None:
    """The end of a run whose record is whole although the journal lacks its end; None if the record is not whole.

    The record is the last file that is written: where it is, all others are on disk, although the folder may not have its
    name yet. A failed run stays one.
    """
    partial, folder = store.partial_folder(labels), store.run_folder(labels)
    written = _written(partial, labels)
    if written is not None:
        return _in_place(partial, folder, written)
    if not all((folder / name).is_file() for name in RUN_FILES):
        return None
    record = store.read_run(labels)
    return _end(record, folder)


def _written(partial: Path, labels: Labels) -> dict[str, Any] | None:
    """The record of just this run in a folder that was not renamed any more; None when there is none."""
    try:
        record = json.loads((partial / "run.json").read_bytes())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("labels") == asdict(labels) else None


def record_interrupted(store: Store, plan: Plan, seal_digest: str, labels: Labels, cause: str) -> End:
    """Bring what an interrupted run left into the record: its raw output as it is, and that it has no result.

    A cause that the plan does not count as an interruption makes it a failed run.
    """
    partial = store.partial_folder(labels)
    make_folder(partial)
    for leftover in partial.glob(".*.partial"):
        leftover.unlink()
    _take_outputs(partial)
    for name in ("stdout.txt", "stderr.txt"):
        (partial / name).touch()
    counts = cause in plan.rules.interruptions
    reason = f"{cause}: the runner ended before this run's record was written"
    if not counts:
        reason += ", which the plan does not count as an interruption"
    return _finish(
        store,
        labels,
        {
            "format": 1,
            "campaign": plan.campaign.id,
            "seal": seal_digest,
            "labels": asdict(labels),
            "outcome": "interrupted" if counts else "failed",
            "reason": reason,
            "recorded": utc_now(),
            "python": sys.version.split()[0],
        },
    )
