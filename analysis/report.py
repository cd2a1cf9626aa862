"""One phase of one campaign, read, asserted and estimated: what the command line and the pages are made from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from analysis import amendments, claims, estimands, hdr, sensitivity, sentences, unpaired
from analysis.checks import Mark, check_warnings, marks_of
from analysis.covariates import unplanned_differences
from analysis.diagnostics import add_warnings
from analysis.labels import LabelReport, assert_labels, asserted, check_adopted, restored_warnings
from analysis.model import Absolute, ClaimResult, Estimate
from analysis.samples import PhaseData, read_adopted, read_phase
from analysis.times import Times, where_time_goes
from runner import seal
from runner.errors import DataError, WrongUse
from runner.plan import Engine, Network, Phase, Plan, Statistics
from runner.plantypes import defined
from runner.store import Adoption, Labels, Ledger, Store

PROJECT = Path(__file__).resolve().parent.parent

OURS: dict[str, Any] = {"primary": "t", "level": 0.95, "resamples": 20_000, "seed": 1}  # where a plan says "undefined"


def find_campaign(campaign: str | Path) -> Store:
    """The store of a campaign's folder, given as it is or relative to the project. Raises WrongUse when there is none."""
    path = Path(campaign)
    return Store.open(path if path.is_dir() or path.is_absolute() else PROJECT / path)


@dataclass(frozen=True)
class PhaseReport:
    """A phase with everything that was computed for it."""

    store: Store
    plan: Plan
    identifier: str
    seed: int
    resamples: int
    ledger: Ledger
    labels: LabelReport
    data: PhaseData
    marks: tuple[Mark, ...]  # checks that did not hold
    estimates: tuple[Estimate, ...]
    absolutes: tuple[Absolute, ...]
    claims: tuple[ClaimResult, ...]
    adoption: Adoption | None = None  # where the runs were not executed here

    @property
    def phase(self) -> Phase:
        """The phase as planned."""
        return self.plan.phases[self.identifier]

    @property
    def primary(self) -> str:
        """The interval that leads; Welch's where nothing is paired, whatever the plan says."""
        return self.statistics.primary if self.paired else "t"

    @property
    def statistics(self) -> Statistics:
        """The plan's statistics, with `OURS` where it leaves one undefined."""
        return statistics_of(self.plan)

    @property
    def paired(self) -> bool:
        """Whether arms are paired within blocks."""
        return self.adoption is None or self.adoption.paired(self.identifier)

    @property
    def blocks(self) -> int | None:
        """Blocks of each case by plan; of adopted runs as many as were used, where it is one number."""
        if not self.adoption:
            return self.phase.blocks
        used = {len(estimate.blocks) for estimate in self.estimates if estimate.blocks}
        return used.pop() if len(used) == 1 else None

    @property
    def ordered(self) -> bool:
        """Whether the order of the runs is known."""
        return self.adoption is None or self.adoption.ordered(self.identifier)

    @property
    def arms(self) -> list[str]:
        """Names of the arms, in plan order."""
        return [arm.name for arm in self.phase.arms]

    @property
    def cases(self) -> list[str]:
        """Names of the cases, in plan order."""
        return [case.name for case in self.phase.cases]

    @property
    def metrics(self) -> list[str]:
        """Units of the metrics, in plan order."""
        return [metric.unit for metric in self.phase.metrics]

    @property
    def measured(self) -> dict[str, list[str]]:
        """The metrics that each case measures, both in plan order."""
        return {case: [metric.unit for metric in self.phase.metrics_of(case)] for case in self.cases}

    @property
    def engine(self) -> Engine:
        """The engine as this phase has it."""
        return self.plan.engine_of(self.identifier)

    @property
    def network(self) -> Network:
        """The network as this phase has it."""
        return self.plan.network_of(self.identifier)

    @property
    def null_contrasts(self) -> list[str]:
        """Contrasts that compare an arm with itself under another name."""
        return [contrast.name for contrast in self.phase.contrasts if self.phase.is_null(contrast)]

    @property
    def latency_cases(self) -> list[str]:
        """Cases whose processes write a latency log; none of adopted runs, whose logs are not taken in."""
        if self.adoption:
            return []
        return [case for case in self.cases if hdr.LOG in self.phase.outputs_of(case)]

    @cached_property
    def latencies(self) -> dict[Labels, dict[str, hdr.Counts]]:
        """Every good run's latency histograms by tag. Raises DataError for a log that cannot be read."""
        return {
            labels: self._histograms(labels)
            for labels in self.ledger.labels()
            if labels.phase == self.identifier and labels.case in self.latency_cases and not self.ledger.reason(labels)
        }

    def _histograms(self, labels: Labels) -> dict[str, hdr.Counts]:
        where = self.store.relative(self.store.run_folder(labels) / hdr.LOG)
        return hdr.read(self.store.read_output(labels, self.ledger, hdr.LOG), where)

    @property
    def contrasts(self) -> dict[str, str]:
        """Contrasts, in plan order, with what each one compares."""
        return {contrast.name: contrast.what for contrast in self.phase.contrasts}

    @property
    def groups(self) -> dict[str, list[str]]:
        """Cases by kind, kept in plan order."""
        groups: dict[str, list[str]] = {}
        for case in self.phase.cases:
            groups.setdefault(case.group, []).append(case.name)
        return groups

    @cached_property
    def seal(self) -> seal.Seal:
        """The campaign's seal."""
        return seal.read(self.store)

    @cached_property
    def history(self) -> amendments.History:
        """The versions of the campaign's plan; of adopted runs there is one."""
        return (
            amendments.History((), (self.plan,), ()) if self.adoption else amendments.history(self.store, self.ledger)
        )

    @cached_property
    def deviations(self) -> dict[str, list[str]]:
        """Files of harness, runner and analysis that differ today from what was sealed, or recorded at the adoption."""
        return seal.deviations(self.seal, self.plan)

    @property
    def runs(self) -> dict[Labels, dict[str, Any]]:
        """The records of the phase's runs."""
        return self.data.runs

    @property
    def sentences(self) -> tuple[sentences.Sentence, ...]:
        """Computed sentences that nobody preregistered, in plan order."""
        return sentences.sentences(
            self.estimates, primary=self.primary, contrasts=list(self.contrasts), metrics=self.metrics
        )

    @property
    def times(self) -> Times:
        """Where the phase's wall time went. Raises DataError for adopted runs, of which nobody knows."""
        if self.adoption:
            raise DataError(
                f"phase {self.identifier}",
                "where the time of adopted runs went is unknown",
                expected="a campaign that was executed here",
            )
        ends = {key: event for key, event in self.ledger.ended.items() if key[0] == self.identifier}
        runs = [run for labels, run in self.runs.items() if (labels.phase, labels.case, labels.block) in ends]
        return where_time_goes(runs, ends.values())


def assert_sealed(store: Store, plan: Plan) -> None:
    """Raise DataError unless plan, orders, harness and host are as sealed, and the seal is the one in the journal.

    Whatever the notebooks and the command line show rests on the plan: one that was changed after the runs must not
    be shown as the sealed one.
    """
    sealed = seal.read(store)
    named = seal.in_force(store.journal().events)
    problems = seal.file_differences(sealed, seal.sealed_files(store, plan))
    if named != sealed.digest:
        problems.insert(0, f"seal.json: its digest is {sealed.digest}, the journal names {named or 'none'}")
    if problems:
        raise DataError(
            str(store.folder),
            "not as it was sealed",
            expected="the files that the seal names",
            found="; ".join(problems),
            remedy="restore the files from where the campaign was published",
        )


def assert_raw_logs(store: Store) -> None:
    """Raise DataError for a campaign of which only published figures are here."""
    if store.state() == "figures-only":
        raise DataError(
            str(store.folder),
            "this campaign has published figures and no raw logs, so that nothing can be computed",
            remedy=f"bring its logs: python -m runner adopt DIR --into {store.shown()} --map ...",
        )


def assert_phase(plan: Plan, phase: str) -> None:
    """Raise WrongUse for a phase that the plan does not have."""
    if phase not in plan.phases:
        raise WrongUse(
            f"campaign {plan.campaign.id}",
            f"no phase {phase!r} in the plan",
            expected=", ".join(plan.phases),
            remedy="name one of these",
        )


def statistics_of(plan: Plan) -> Statistics:
    """The plan's statistics, with `OURS` where it leaves one undefined."""
    return plan.statistics.model_copy(update={name: OURS[name] for name in undefined_statistics(plan)})


def undefined_statistics(plan: Plan) -> list[str]:
    """The names of statistics that the plan leaves undefined."""
    return [name for name in OURS if not defined(getattr(plan.statistics, name))]


def open_report(campaign: str | Path, phase: str, seed: int | None = None, resamples: int | None = None) -> PhaseReport:
    """Read a phase's raw logs, assert its labels and compute everything.

    Raises DataError where a label does not hold or a raw log is not what the journal recorded.
    """
    store = find_campaign(campaign)
    plan = store.plan()
    assert_phase(plan, phase)
    assert_raw_logs(store)
    statistics = statistics_of(plan)
    seed = statistics.seed if seed is None else seed
    resamples = statistics.resamples if resamples is None else resamples
    if store.state() == "adopted":
        return _open_adopted(store, plan, phase, seed, resamples)
    described = plan.phases[phase]
    ledger = store.ledger()
    assert_sealed(store, plan)
    if not ledger.closed:
        raise DataError(
            str(store.folder),
            "this campaign is not closed; its results are not looked at before",
            remedy=f"python -m runner run {store.shown()}",
        )
    labels = assert_labels(store, plan, ledger)
    data = read_phase(store, plan, phase, ledger)
    begun = {key: event for key, event in ledger.begun.items() if key[0] == phase}
    marks = marks_of(data.runs, begun, plan.rules.checks)
    replaced = {
        (block.case, block.replaces): block.number
        for block in ledger.blocks
        if block.phase == phase and block.replaces is not None
    }
    found = estimands.estimates(
        data.samples,
        **_asked(plan, phase),
        planned_blocks=data.blocks,
        missing=data.missing,
        replaced=replaced,
        seed=seed,
        resamples=resamples,
        primary=statistics.primary,
        extra=check_warnings(described, marks),
        counted=[metric.unit for metric in described.metrics if metric.counted],
    )
    found = sensitivity.without_marked(found, marks, statistics.level)
    found = sensitivity.with_covariates(found, unplanned_differences(described, data.runs), statistics.level)
    levels = _absolutes(plan, phase, data, replaced)
    results = tuple(claims.evaluate(claim, found, primary=statistics.primary) for claim in described.claims)
    results = amendments.mark(results, amendments.history(store, ledger), phase)
    return PhaseReport(store, plan, phase, seed, resamples, ledger, labels, data, marks, found, levels, results)


def _asked(plan: Plan, phase: str) -> dict[str, Any]:
    """What the plan asks to be estimated, as keywords of `estimands.estimates` and `unpaired.estimates`."""
    described = plan.phases[phase]
    return {
        "phase": phase,
        "contrasts": [contrast.name for contrast in described.contrasts],
        "metrics": [metric.unit for metric in described.metrics],
        "cases": [case.name for case in described.cases],
        "measured": {
            case.name: [metric.unit for metric in described.metrics_of(case.name)] for case in described.cases
        },
        "level": statistics_of(plan).level,
        "holm_family": (described.holm.metrics, described.holm.contrasts),
    }


def _absolutes(
    plan: Plan, phase: str, data: PhaseData, replaced: dict[tuple[str, int], int] | None = None
) -> tuple[Absolute, ...]:
    asked = _asked(plan, phase)
    return estimands.absolutes(
        data.samples,
        phase=phase,
        arms=[arm.name for arm in plan.phases[phase].arms],
        metrics=asked["metrics"],
        cases=asked["cases"],
        measured=asked["measured"],
        planned_blocks=data.blocks,
        missing=data.missing,
        replaced=replaced,
    )


# ---- adopted logs -------------------------------------------------------------------------------------


def _open_adopted(store: Store, plan: Plan, phase: str, seed: int, resamples: int) -> PhaseReport:
    """`open_report` of a campaign whose logs were brought from elsewhere: paired where every block is known."""
    adoption = store.adoption()
    labels = asserted(store, check_adopted(store, adoption))
    data = read_adopted(adoption, phase)
    if adoption.paired(phase):
        found = _paired(plan, phase, adoption, data, seed, resamples)
    else:
        found = unpaired.estimates(data.samples, **_asked(plan, phase), missing=data.missing)
    found = add_warnings(found, restored_warnings(found, adoption.restored(phase)))
    primary = statistics_of(plan).primary
    open_ones = (
        claim if claim.interval is None or defined(claim.interval) else claim.model_copy(update={"interval": None})
        for claim in plan.phases[phase].claims
    )
    results = tuple(claims.evaluate(claim, found, primary=primary) for claim in open_ones)
    levels = _absolutes(plan, phase, data)
    return PhaseReport(
        store, plan, phase, seed, resamples, adoption.ledger(), labels, data, (), found, levels, results, adoption
    )


def _paired(
    plan: Plan, phase: str, adoption: Adoption, data: PhaseData, seed: int, resamples: int
) -> tuple[Estimate, ...]:
    """The usual estimates. Blocks that the plan has and the record lacks are missing ones, where the numbers fit."""
    described = plan.phases[phase]
    numbers = {number for found in data.blocks.values() for number in found}
    planned = set(range(1, described.blocks + 1)) if defined(described.blocks) else set()
    fits = numbers <= planned
    return estimands.estimates(
        data.samples,
        **_asked(plan, phase),
        planned_blocks=dict.fromkeys((case.name for case in described.cases), sorted(planned)) if fits else data.blocks,
        missing=data.missing,
        seed=seed,
        resamples=resamples,
        primary=statistics_of(plan).primary,
        counted=[metric.unit for metric in described.metrics if metric.counted],
        ordered=adoption.ordered(phase),
        known="planned blocks" if fits else "blocks in the record",
    )
