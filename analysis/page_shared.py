"""Parts of a phase page that are the same whether its runs were executed here or adopted: tables, figures, commands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from analysis import figures, hdr, tables
from analysis.arms import arm_places
from analysis.checks import marked_blocks
from analysis.drawing import Picture
from analysis.intervals import coverage_words
from analysis.model import ClaimResult
from analysis.page_parts import Section, bullets, folded
from analysis.report import PROJECT, PhaseReport
from analysis.sentences import listed
from analysis.tables import Markup
from runner.plan import Plan

NOTEBOOKS = PROJECT / "notebooks"
OPEN = 3  # contrasts whose tables are shown unfolded


_CALLS = re.compile(r"page\.(latency|counts|delay|null)\(report\)")


def notebook_of(plan: Plan, phase: str) -> Path:
    """A phase's own notebook; the one for any phase where it has none.

    Notebooks go by the name of the phase, and other campaigns give the same names to other questions: one that shows
    what the phase does not have, such as latencies, is not the phase's own.
    """
    own = NOTEBOOKS / f"phase_{phase.lower()}.ipynb"
    if phase in plan.phases and own.is_file():
        shown = set(_CALLS.findall(own.read_text(encoding="utf-8")))
        if shown <= parts_of(plan, phase):
            return own
    return NOTEBOOKS / "phase.ipynb"


def parts_of(plan: Plan, phase: str) -> set[str]:
    """Which of the parts that only some phases have the plan has for this phase."""
    described = plan.phases[phase]
    has = {
        "latency": any(hdr.LOG in described.outputs_of(case.name) for case in described.cases),
        "counts": any(covariate.unit for covariate in described.covariates),
        "delay": bool(plan.network_of(phase).delay_us),
        "null": any(described.is_null(contrast) for contrast in described.contrasts),
    }
    return {name for name, there in has.items() if there}


def changed_files(report: PhaseReport) -> list[Section]:
    """What differs today from what was sealed or recorded, by name, folded; nothing where nothing does."""
    names = [f"{what}: {name}" for what, files in report.deviations.items() for name in files]
    return [folded(f"The {len(names)} files that differ", bullets(names))] if names else []


def claims_by_status(report: PhaseReport, claims: Iterable[ClaimResult] | None = None) -> dict[str, list[str]]:
    """The ids of the claims of each status that occurs, by its word; of some claims, or of all of a phase."""
    chosen = report.claims if claims is None else tuple(claims)
    found = {
        word: [claim.id for claim in chosen if claim.status == status] for status, word in tables.STATUS_WORDS.items()
    }
    return {word: ids for word, ids in found.items() if ids}


def forest(report: PhaseReport) -> Picture:
    """The forest plot of the primary metric: a panel for each contrast."""
    metric = report.phase.primary_metric
    measured = report.phase.cases_of(metric)
    groups = {name: [case for case in cases if case in measured] for name, cases in report.groups.items()}
    return figures.forest(
        report.estimates,
        report.contrasts,
        {name: cases for name, cases in groups.items() if cases},
        metric=metric,
        primary=report.primary,
        arms=arm_places(report.plan, report.identifier),
    )


PAIRED_RATIOS = (
    "Each ratio is the geometric mean over blocks of the block's ratio numerator / denominator; below 1 the numerator takes "
    "less. The primary interval is bold."
)
ABSOLUTE_VALUES = (
    "Per arm, for orientation. A ratio of these medians is not a paired estimate, and is not shown as one."
)


def ratio_tables(report: PhaseReport) -> list[Markup]:
    """A table for each contrast; of many, those after the first are folded."""
    shown: list[Markup] = []
    for place, (contrast, what) in enumerate(report.contrasts.items()):
        caption = f"Ratio {contrast}{'' if report.paired else ', unpaired'}: {what}"
        table = tables.results(
            report.estimates,
            contrast,
            primary=report.primary,
            cases=report.cases,
            metrics=report.metrics,
            measured=report.measured,
            caption=caption,
            coverage=coverage_words("percentile", report.blocks, report.statistics.level) if report.blocks else "",
        )
        fold = place > 0 and len(report.contrasts) > OPEN
        shown.append(folded(caption, table) if fold else table)
    return shown


def block_figures(report: PhaseReport) -> list[Markup | Picture]:
    """The blocks of each contrast; those after the first are folded."""
    first, *others = report.contrasts
    return [blocks(report, first), *(folded(f"Blocks of {name}", blocks(report, name)) for name in others)]


def blocks(report: PhaseReport, contrast: str) -> Picture:
    """The primary metric's ratio of each block in run order, for one contrast."""
    marked: dict[str, list[int]] = {}
    for case, block in sorted(marked_blocks(report.marks)):
        marked.setdefault(case, []).append(block)
    orders: dict[str, dict[int, list[str]]] = {}
    for labels in sorted(report.ledger.labels(), key=lambda labels: labels.sequence):
        if labels.phase == report.identifier:
            orders.setdefault(labels.case, {}).setdefault(labels.block, []).append(labels.arm)
    return figures.blocks_in_order(
        report.estimates,
        contrast,
        metric=report.phase.primary_metric,
        cases=report.cases,
        arms=arm_places(report.plan, report.identifier),
        marked=marked,
        orders=orders,
    )


def also_seen(report: PhaseReport) -> list[Markup]:
    """Every computed sentence; those of other metrics than the primary one are folded."""
    primary = report.phase.primary_metric
    first = [sentence.text for sentence in report.sentences if sentence.metric == primary]
    others = [sentence for sentence in report.sentences if sentence.metric != primary]
    if not others:
        return [bullets(first)]
    metrics = listed(dict.fromkeys(sentence.metric for sentence in others))
    return [bullets(first), folded(f"The same for {metrics}", bullets(sentence.text for sentence in others))]


PUBLISHED = "Checked against the published figures"


def published(report: PhaseReport) -> Section:
    """Each published figure of the phase beside the one that was computed here."""
    from analysis import published_check

    return published_check.section(report)


def has_published(report: PhaseReport) -> bool:
    """Whether the campaign's folder has published figures to check the estimates against."""
    from analysis import published_check

    return published_check.has_published(report)


def commands(report: PhaseReport) -> list[tuple[str, object]]:
    """What to type for this page, for one with another seed where something is resampled, and for its numbers as data."""
    folder = f"data/{report.store.folder.name}"
    source = notebook_of(report.plan, report.identifier)
    notebook = f"papermill notebooks/{source.name} out.ipynb -p campaign {folder}"
    if source.stem == "phase":
        notebook += f" -p phase {report.identifier}"
    return [
        ("this page again", tables.code("jupyter-book build book/")),
        ("with another seed", tables.code(f"{notebook} -p seed 12345"))
        if report.paired
        else ("its notebook alone", tables.code(notebook)),
        ("check the folder", tables.code(f"python -m runner verify {folder}")),
        (
            "estimates as data",
            tables.code(f"python -m analysis estimates {folder} --phase {report.identifier} --format json"),
        ),
    ]
