"""Raw logs to samples: every value with its labels, its file and its line, and every run without one with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from analysis.model import Sample
from runner.benchfmt import parse
from runner.errors import DataError
from runner.plan import Plan
from runner.rawlog import content
from runner.store import AdoptedRun, Adoption, Labels, Ledger, Store

_PLACE = re.compile(r"^\S+:[0-9]+: ")  # of a failure, in front of its cause


@dataclass(frozen=True)
class PhaseData:
    """All that the raw logs of one phase hold."""

    samples: tuple[Sample, ...]
    missing: dict[tuple[str, int, str], str]  # (case, block, arm) -> why this run has no samples
    blocks: dict[str, tuple[int, ...]]  # case -> block numbers, planned and appended
    runs: dict[Labels, dict[str, Any]]  # every recorded run's run.json


def read_phase(store: Store, plan: Plan, phase: str, ledger: Ledger | None = None) -> PhaseData:
    """Read one phase from its raw logs.

    Raises DataError where a file is not what the journal recorded, or where a run that is recorded as good does not
    hold what the plan says: nothing is skipped, and no failure becomes a number.
    """
    ledger = ledger or store.ledger()
    samples: list[Sample] = []
    missing: dict[tuple[str, int, str], str] = {}
    runs: dict[Labels, dict[str, Any]] = {}
    blocks: dict[str, list[int]] = {}
    for labels in ledger.labels():
        if labels.phase != phase:
            continue
        numbers = blocks.setdefault(labels.case, [])
        if labels.block not in numbers:
            numbers.append(labels.block)
        if labels in ledger.ends:
            runs[labels] = store.read_record(labels, ledger)
        reason = ledger.reason(labels)
        if reason:
            missing[labels.case, labels.block, labels.arm] = reason
        else:
            samples += run_samples(store, plan, labels, ledger)
    return PhaseData(tuple(samples), missing, {case: tuple(numbers) for case, numbers in blocks.items()}, runs)


def run_samples(store: Store, plan: Plan, labels: Labels, ledger: Ledger) -> list[Sample]:
    """The samples of one good run."""
    found = content(parse(store.read_stdout(labels, ledger)), plan.phases[labels.phase], labels.case)
    where = store.relative(store.run_folder(labels) / "stdout.txt")
    if found.problem:
        raise DataError(
            where, "recorded as a good run, and its raw log is not", found=found.problem, expected=str(labels)
        )
    return [
        Sample(
            labels.phase,
            labels.case,
            labels.arm,
            labels.block,
            labels.position,
            labels.sequence,
            value.repeat,
            value.metric,
            value.value,
            where,
            value.line,
        )
        for value in found.values
    ]


def read_adopted(adoption: Adoption, phase: str) -> PhaseData:
    """One phase of adopted logs.

    Where blocks are unknown, a block's number is that of the process in its case and arm. Of what an executed run's
    record holds beside its outcome, nothing is known. Equal causes of failures are one reason: places are left to the
    record. Raises DataError for two runs with one number.
    """
    paired = adoption.paired(phase)
    samples: list[Sample] = []
    missing: dict[tuple[str, int, str], str] = {}
    runs: dict[Labels, dict[str, Any]] = {}
    blocks: dict[str, set[int]] = {}
    seen: dict[tuple[str, int, str], AdoptedRun] = {}
    for run in adoption.runs:
        if run.labels.phase != phase:
            continue
        case, arm, number = run.labels.case, run.labels.arm, run.labels.block if paired else run.run
        other = seen.setdefault((case, number, arm), run)
        if other is not run:
            raise DataError(
                f"{run.file}:{run.lines[0]}",
                f"two runs of phase {phase}, case {case}, arm {arm} with number {number}",
                found=f"the other is {other.file}:{other.lines[0]}",
            )
        blocks.setdefault(case, set()).add(number)
        runs[run.labels] = {"outcome": run.outcome, "covariates": {}}
        if run.outcome != "ok":
            missing[case, number, arm] = f"failed: {_PLACE.sub('', run.reason)}"
            continue
        samples += [
            Sample(
                phase,
                case,
                arm,
                number,
                run.labels.position,
                run.labels.sequence,
                value.repeat,
                value.metric,
                value.value,
                run.file,
                value.line,
            )
            for value in run.values
        ]
    return PhaseData(tuple(samples), missing, {case: tuple(sorted(found)) for case, found in blocks.items()}, runs)
