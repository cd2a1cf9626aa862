"""What was changed after the seal, and after how many runs: amendments for pages, limits and claims.

A claim is preregistered for the runs that were started after it was last changed, and for no others. Whatever it rests on
counts: its own fields, the cases that it stands for, its interval and the level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from analysis import tables
from analysis.model import ClaimResult
from analysis.tables import Markup
from runner import seal
from runner.plan import Claim, Phase, Plan, named_cases
from runner.seal import Amendment, Change
from runner.store import Labels, Ledger, Store

ESTIMANDS = ("primary_metric", "contrasts", "holm", "blocks", "cases", "metrics", "covariates")  # of a phase
TEXTS = (".what", ".scope", ".group", ".expected_s")  # that decide nothing
WRITTEN = ("limits", "open_questions")  # of a phase


@dataclass(frozen=True)
class History:
    """The versions of one campaign: its amendments, the plan before and after each, every run."""

    amendments: tuple[Amendment, ...]
    plans: tuple[Plan, ...]  # one more than amendments
    runs: tuple[Labels, ...]  # planned and appended, in execution order

    @cached_property
    def phases(self) -> list[str]:
        """The phases that have runs, in order."""
        return list(dict.fromkeys(labels.phase for labels in self.runs))

    def before(self, amendment: Amendment, phase: str) -> list[Labels]:
        """The runs of a phase that had been started before an amendment."""
        return [labels for labels in self.runs if labels.phase == phase and labels in amendment.before]

    def after(self, amendment: Amendment, phase: str) -> list[Labels]:
        """The runs of a phase that were started after it, or never."""
        return [labels for labels in self.runs if labels.phase == phase and labels not in amendment.before]

    def share(self, amendment: Amendment, phase: str) -> str:
        """``8 of 12 runs``: how many of a phase had been started before an amendment."""
        before, after = len(self.before(amendment, phase)), len(self.after(amendment, phase))
        return f"{before} of {before + after} runs"


def history(store: Store, ledger: Ledger) -> History:
    """Read the versions of a campaign that was executed here. Raises DataError for a record that is not whole."""
    amendments = seal.amendments(store)
    plans = tuple(seal.plans(store)) if amendments else (store.plan(),)
    return History(amendments, plans, tuple(ledger.labels()))


# ---- claims -------------------------------------------------------------------------------------------


def mark(results: Iterable[ClaimResult], found: History, phase: str) -> tuple[ClaimResult, ...]:
    """Claims, each with how many runs of its phase had been started when it was last added or changed."""
    late = declared_late(found, phase)
    return tuple(replace(claim, declared=late.get(claim.id, "")) for claim in results)


def declared_late(found: History, phase: str) -> dict[str, str]:
    """``declared after 8 of 12 runs`` for every claim that was added or changed when its phase had runs."""
    late = {}
    for place, amendment in enumerate(found.amendments):
        if not found.before(amendment, phase):
            continue
        before, after = (_claims(plan, phase) for plan in found.plans[place : place + 2])
        for name, meaning in after.items():
            if before.get(name) != meaning:
                word = "changed" if name in before else "declared"
                late[name] = f"{word} after {found.share(amendment, phase)} (not preregistered)"
    return late


def _claims(plan: Plan, phase: str) -> dict[str, Any]:
    """What each claim of a phase comes to, by its id."""
    if phase not in plan.phases:
        return {}
    described = plan.phases[phase]
    return {claim.id: _meaning(plan, described, claim) for claim in described.claims}


def _meaning(plan: Plan, phase: Phase, claim: Claim) -> tuple[object, ...]:
    interval = claim.interval or plan.statistics.primary
    return claim, named_cases(claim.cases, phase.cases_of(claim.metric)), interval, plan.statistics.level


def preregistered(results: Sequence[ClaimResult]) -> list[ClaimResult]:
    """The claims that no amendment touched once their phase had runs."""
    return [claim for claim in results if not claim.declared]


# ---- limits -------------------------------------------------------------------------------------------


def sentences(found: History, phase: str) -> list[str]:
    """A limit for every amendment that changed what is estimated, or how, once the phase had runs."""
    told = []
    for amendment in found.amendments:
        changed = [change.path for change in amendment.changes if _estimates(change.path, phase)]
        if changed and found.before(amendment, phase):
            told.append(
                f"Amendment {amendment.number}, made after {found.share(amendment, phase)} of this phase, changed "
                f"{', '.join(changed)}: for the runs before it this was not preregistered. Reason given: "
                f"{amendment.why.rstrip('.')}."
            )
    return told


def _estimates(path: str, phase: str) -> bool:
    """Whether a key path is of the statistics, or of a phase's estimands or rules."""
    own = tuple(f"phases.{phase}.{key}" for key in ESTIMANDS)
    return path.startswith(("statistics.", "rules.", *own)) and not path.endswith(TEXTS)


def primary_words(found: History) -> str:
    """Whether the primary interval was chosen before every run."""
    changed = [
        amendment.number
        for amendment in found.amendments
        if amendment.before and any(change.path == "statistics.primary" for change in amendment.changes)
    ]
    return f"as amendment {changed[-1]} has it, not as preregistered" if changed else "as preregistered"


def written_late(found: History, phase: str) -> list[str]:
    """The amendments that changed a phase's written limits or open questions once it had runs, each in a sentence."""
    return [
        f"Amendment {amendment.number} changed {', '.join(changed)} after {found.share(amendment, phase)} of this phase."
        for amendment in found.amendments
        if (
            changed := [
                change.path
                for change in amendment.changes
                if change.path.startswith(tuple(f"phases.{phase}.{key}" for key in WRITTEN))
            ]
        )
        and found.before(amendment, phase)
    ]


# ---- tables -------------------------------------------------------------------------------------------


def table(found: History, phases: Sequence[str]) -> Markup:
    """Every amendment: number, time, reason, what changed, and the runs of these phases before and after it."""
    rows = [
        (
            amendment.number,
            f"{amendment.when[:10]} {amendment.when[11:16]} UTC",
            amendment.why,
            changes(amendment) or "plan.toml: comments or layout alone",
            [_runs(name, found.before(amendment, name), len(phases) > 1) for name in phases],
            [_runs(name, found.after(amendment, name), len(phases) > 1) for name in phases],
        )
        for amendment in found.amendments
    ]
    head = ("number", "when", "why", "what changed", "runs before", "runs after")
    return tables.plain(head, rows, "Amendments: changes of the sealed plan, made in the open") if rows else Markup()


def changes(amendment: Amendment) -> list[str]:
    """Each thing that changed, with what it was and became; files by name alone."""
    told = [_change(change) for change in amendment.changes]
    return told + [f"{what}: {', '.join(c.path for c in files)}" for what, files in amendment.files.items() if files]


def _change(change: Change) -> str:
    return f"{change.path}: {change.old or 'nothing'} \u2192 {change.new or 'nothing'}"


def _runs(phase: str, runs: Sequence[Labels], named: bool) -> str:
    numbers = seal.ranges(labels.sequence for labels in runs)
    text = f"{len(runs)} (sequence {numbers})" if runs else "0"
    return f"phase {phase}: {text}" if named else text


def sealed_words(store: Store, found: History, when: str) -> str:
    """When the campaign was sealed, and what the seal in force is where it was amended."""
    if not found.amendments:
        return f"Sealed at {when}, before the first run"
    first = seal.first_sealed(store)
    many = f"{len(found.amendments)} times" if len(found.amendments) > 1 else "once"
    return f"First sealed at {first[:10]} {first[11:16]} UTC, before the first run, and amended {many} since"
