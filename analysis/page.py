"""The sections of a phase page. A notebook cell calls one of these and shows what it returns; nothing is computed there."""

from __future__ import annotations

import ast
import importlib.metadata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from analysis import figures, headlines, page_design, tables
from analysis import limits as bounds
from analysis.arms import arm_places
from analysis.checks import marked_blocks
from analysis.drawing import Picture
from analysis.intervals import coverage_words, index_digest
from analysis.page_parts import Section, bullets, folded, heading, paragraphs, section
from analysis.report import PROJECT, PhaseReport, open_report
from analysis.sentences import listed
from analysis.tables import Markup, escaped
from runner.errors import DataError

PARAMETERS = {"campaign": str, "phase": str, "seed": int, "resamples": int}
NOTEBOOKS = PROJECT / "notebooks"
OPEN = 3  # contrasts whose tables are shown unfolded


def begin(namespace: Mapping[str, Any]) -> PhaseReport:
    """Check the notebook's parameters, and open the report. The first call of every phase notebook.

    papermill only warns about a parameter that a notebook does not have; here it is an error, as is one of another type.
    Parameters are what the cells before this one assign, as IPython keeps their source in ``In``; the last entry of ``In``
    is the cell that makes this call.
    """
    given = [name for source in namespace["In"][:-1] for name in assigned(source)]
    unknown = sorted(set(given) - set(PARAMETERS))
    if unknown:
        raise DataError(
            "notebook parameters",
            f"unknown: {', '.join(unknown)}",
            expected=", ".join(PARAMETERS),
            remedy="mend the name after -p",
        )
    for name, kind in PARAMETERS.items():
        value = namespace.get(name)
        optional = name in ("seed", "resamples")
        if not (value is None and optional) and (not isinstance(value, kind) or isinstance(value, bool)):
            raise DataError(f"notebook parameter {name}", f"expected {kind.__name__}", found=repr(value))
    return open_report(namespace["campaign"], namespace["phase"], namespace.get("seed"), namespace.get("resamples"))


def assigned(source: str) -> list[str]:
    """Every name that a cell's source assigns, at any depth."""
    nodes = ast.walk(ast.parse(source))
    return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def notebook_of(phase: str) -> Path:
    """A phase's own notebook; the one for any phase where it has none."""
    own = NOTEBOOKS / f"phase_{phase.lower()}.ipynb"
    return own if own.is_file() else NOTEBOOKS / "phase.ipynb"


# ---- answer -------------------------------------------------------------------------------------------


def claims_by_status(report: PhaseReport) -> dict[str, list[str]]:
    """The ids of the claims of each status that occurs, by its word."""
    found = {
        word: [claim.id for claim in report.claims if claim.status == status]
        for status, word in tables.STATUS_WORDS.items()
    }
    return {word: ids for word, ids in found.items() if ids}


def claim_counts(report: PhaseReport) -> str:
    """How many claims have which status, each named."""
    told = [f"{len(ids)} {word} ({', '.join(ids)})" for word, ids in claims_by_status(report).items()]
    many = f"{len(report.claims)} preregistered claims" if len(report.claims) > 1 else "1 preregistered claim"
    return f"Of {many}: {listed(told)}." if told else "No claim was preregistered."


def answer(report: PhaseReport) -> Section:
    """Question and answer: what happened to the claims, a sentence for each contrast's primary metric, the forest plot."""
    stopped = bounds.stopped(report)
    return section(
        Markup(f'<p class="bb-question">{escaped(report.phase.question)}</p>\n'),
        Markup(f'<p class="bb-notice">{escaped(stopped)}</p>\n') if stopped else Markup(),
        paragraphs([claim_counts(report)]),
        bullets(headlines.contrast_sentence(report, contrast) for contrast in report.contrasts),
        forest(report),
    )


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


# ---- results ------------------------------------------------------------------------------------------


def results(report: PhaseReport) -> Section:
    """Tables of ratios for each contrast, absolute values for each arm, and blocks in run order."""
    return section(
        paragraphs(
            [
                "Each ratio is the geometric mean over blocks of the block's ratio numerator / denominator; below 1 the "
                "numerator takes less. The primary interval is bold."
            ]
        ),
        *_ratios(report),
        heading("Absolute values"),
        paragraphs(
            ["Per arm, for orientation. A ratio of these medians is not a paired estimate, and is not shown as one."]
        ),
        tables.absolutes(
            report.absolutes,
            cases=report.cases,
            metrics=report.metrics,
            arms=report.arms,
            measured=report.measured,
        ),
        heading("Blocks in run order"),
        paragraphs(
            [
                "Each block's ratio in the order in which the blocks ran. A block drawn hollow carries a check that did "
                "not hold."
            ]
        ),
        *_blocks(report),
    )


def _ratios(report: PhaseReport) -> list[Markup]:
    """A table for each contrast; of many, those after the first are folded."""
    shown: list[Markup] = []
    for place, (contrast, what) in enumerate(report.contrasts.items()):
        caption = f"Ratio {contrast}: {what}"
        table = tables.results(
            report.estimates,
            contrast,
            primary=report.primary,
            cases=report.cases,
            metrics=report.metrics,
            measured=report.measured,
            caption=caption,
            coverage=coverage_words("percentile", report.phase.blocks, report.statistics.level),
        )
        fold = place > 0 and len(report.contrasts) > OPEN
        shown.append(folded(caption, table) if fold else table)
    return shown


def _blocks(report: PhaseReport) -> list[Markup | Picture]:
    """The blocks of each contrast; those after the first are folded."""
    first, *others = report.contrasts
    return [blocks(report, first), *(folded(f"Blocks of {name}", blocks(report, name)) for name in others)]


def blocks(report: PhaseReport, contrast: str) -> Picture:
    """The primary metric's ratio of each block in run order, for one contrast."""
    marked: dict[str, list[int]] = {}
    for case, block in sorted(marked_blocks(report.marks)):
        marked.setdefault(case, []).append(block)
    orders: dict[str, dict[int, list[str]]] = {}
    for labels in report.ledger.labels():
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


# ---- what only some phases have -----------------------------------------------------------------------


def latency(report: PhaseReport) -> Section:
    """Latency by percentile from the runs' histograms, and what comparing them with the printed percentiles gave."""
    from analysis import figures_latency
    from analysis import latency as histograms

    return section(figures_latency.curves(report), paragraphs([histograms.check(report)]))


def counts(report: PhaseReport) -> Section:
    """Statements, bytes and whatever else the plan has counted for each operation."""
    from analysis import counts as counted

    return section(paragraphs(counted.sentences(report)), counted.figure(report), counted.table(report))


def delay(report: PhaseReport) -> Section:
    """The round trip as it was measured, with the added delay and without."""
    from analysis import delays

    return section(paragraphs(delays.sentences(report)), delays.figure(report))


def null(report: PhaseReport) -> Section:
    """What this host cannot resolve, from one arm under two names."""
    from analysis import null as nulls

    summary = nulls.summary(report)
    told = nulls.leading(summary, report.phase.primary_metric)
    return section(bullets(told), nulls.figure(report), nulls.table(summary))


def has_latency(report: PhaseReport) -> bool:
    """Whether the phase's processes write latency histograms."""
    return bool(report.latency_cases)


def has_counts(report: PhaseReport) -> bool:
    """Whether the plan has a number of its covariates shown for each case and arm."""
    return any(covariate.unit for covariate in report.phase.covariates)


def has_delay(report: PhaseReport) -> bool:
    """Whether a delay is added to the path between client and server."""
    return report.network.delay_us > 0


def has_null(report: PhaseReport) -> bool:
    """Whether an arm is compared with itself under another name."""
    return bool(report.null_contrasts)


Part = tuple[str, Callable[[PhaseReport], bool], Callable[[PhaseReport], Section]]
SPECIFIC: tuple[Part, ...] = (
    ("What this host cannot resolve", has_null, null),
    ("Latency by percentile", has_latency, latency),
    ("Counted for each operation", has_counts, counts),
    ("Added delay", has_delay, delay),
)


def specific(report: PhaseReport) -> Section:
    """Each of the parts above that the phase has, under its heading."""
    shown = [(title, part) for title, has, part in SPECIFIC if has(report)]
    return section(*(piece for title, part in shown for piece in (heading(title), part(report))))


# ---- interpretation, limits, evidence -----------------------------------------------------------------


def interpretation(report: PhaseReport) -> Section:
    """Claims that were preregistered; what else was seen; what this data does not explain."""
    return section(
        heading("Preregistered claims"),
        paragraphs(["Written and sealed before the first run; each status is computed from the estimates above."]),
        tables.claims(report.claims, "Preregistered claims, in the order of the plan"),
        heading("Also seen, not preregistered"),
        paragraphs(["Computed from the same estimates, without a claim in the plan."]),
        *_also_seen(report),
        heading("Not explained by this data"),
        bullets(report.phase.open_questions, "The plan names no open question."),
    )


def _also_seen(report: PhaseReport) -> list[Markup]:
    """Every computed sentence; those of other metrics than the primary one are folded."""
    primary = report.phase.primary_metric
    first = [sentence.text for sentence in report.sentences if sentence.metric == primary]
    others = [sentence for sentence in report.sentences if sentence.metric != primary]
    if not others:
        return [bullets(first)]
    metrics = listed(dict.fromkeys(sentence.metric for sentence in others))
    return [bullets(first), folded(f"The same for {metrics}", bullets(sentence.text for sentence in others))]


def limits(report: PhaseReport) -> Section:
    """Computed limits first, then those that the plan wrote down before the first run."""
    written = report.phase.limits
    after = [paragraphs(["Written into the plan before the first run:"]), bullets(written)] if written else []
    return section(bullets(bounds.computed_limits(report)), *after)


def evidence(report: PhaseReport) -> Section:
    """Arms, environment, design, the order of the runs, and where the time went."""
    return section(
        page_design.arms(report),
        page_design.environment(report),
        page_design.design(report),
        page_design.recorded(report),
        heading("Order of the runs"),
        page_design.order_map(report),
        heading("Where the time went"),
        page_design.times(report),
    )


def reproduce(report: PhaseReport) -> Markup:
    """The commands, seeds and digests that this page was made with."""
    folder = f"data/{report.store.folder.name}"
    source = notebook_of(report.identifier)
    notebook = f"papermill notebooks/{source.name} out.ipynb -p campaign {folder}"
    if source.stem == "phase":
        notebook += f" -p phase {report.identifier}"
    counts = sorted({len(estimate.blocks) for estimate in report.estimates})
    rows: list[tuple[str, object]] = [
        ("this page again", tables.code("jupyter-book build book/")),
        ("with another seed", tables.code(f"{notebook} -p seed 12345")),
        ("check the folder", tables.code(f"python -m runner verify {folder}")),
        (
            "estimates as data",
            tables.code(f"python -m analysis estimates {folder} --phase {report.identifier} --format json"),
        ),
        ("seed", report.seed),
        ("resamples", report.resamples),
        (
            "resample indices, SHA-256",
            [tables.code(f"B = {n}: {index_digest(report.seed, report.resamples, n)}") for n in counts if n],
        ),
        ("computed with", ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy"))),
        ("seal, SHA-256", tables.code(report.seal.digest)),
        ("sealed", report.seal.content["sealed"]),
    ]
    return tables.key_values(rows)
