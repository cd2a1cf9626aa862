"""The sections of a phase page. A notebook cell calls one of these and shows what it returns; nothing is computed there."""

from __future__ import annotations

import ast
import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any

from analysis import adopted, amendments, headlines, page_design, tables
from analysis import limits as bounds
from analysis.escaping import escaped
from analysis.intervals import index_digest
from analysis.page_parts import Section, bullets, heading, paragraphs, section
from analysis.page_shared import (
    ABSOLUTE_VALUES,
    NOTEBOOKS,
    PAIRED_RATIOS,
    PUBLISHED,
    also_seen,
    block_figures,
    blocks,
    changed_files,
    claims_by_status,
    commands,
    forest,
    has_published,
    notebook_of,
    published,
    ratio_tables,
)
from analysis.report import PhaseReport, open_report
from analysis.sentences import listed
from analysis.tables import Markup
from runner.errors import DataError

__all__ = [
    "NOTEBOOKS",
    "PARAMETERS",
    "SPECIFIC",
    "answer",
    "begin",
    "blocks",
    "claim_counts",
    "claims_by_status",
    "counts",
    "delay",
    "evidence",
    "forest",
    "has_counts",
    "has_delay",
    "has_latency",
    "has_null",
    "interpretation",
    "latency",
    "limits",
    "notebook_of",
    "null",
    "reproduce",
    "results",
    "specific",
]

PARAMETERS = {"campaign": str, "phase": str, "seed": int, "resamples": int}
BOUNDS = {"seed": (0, 2**63 - 1), "resamples": (100, 10_000_000)}  # of a plan too, and of the command line


def begin(namespace: Mapping[str, Any]) -> PhaseReport:
    """Check the notebook's parameters, and open the report. The first call of every phase notebook.

    papermill only warns about a parameter that a notebook does not have; here it is an error, as is one of another type or
    out of bounds.
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
        least, most = BOUNDS.get(name, (0, 0))
        if isinstance(value, int) and not least <= value <= most:
            raise DataError(f"notebook parameter {name}", f"expected {least} to {most}", found=repr(value))
    return open_report(namespace["campaign"], namespace["phase"], namespace.get("seed"), namespace.get("resamples"))


def assigned(source: str) -> list[str]:
    """Every name that a cell's source assigns, at any depth."""
    nodes = ast.walk(ast.parse(source))
    return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


# ---- answer -------------------------------------------------------------------------------------------


def claim_counts(report: PhaseReport) -> str:
    """How many claims have which status, each named."""
    first = amendments.preregistered(report.claims)
    late = [claim for claim in report.claims if claim.declared]
    told = [f"{len(ids)} {word} ({', '.join(ids)})" for word, ids in claims_by_status(report, first).items()]
    many = f"{len(first)} preregistered claims" if len(first) > 1 else "1 preregistered claim"
    text = f"Of {many}: {listed(told)}." if told else "No claim was preregistered."
    return " ".join([text, *(f"{c.id}, {c.declared}: {tables.STATUS_WORDS[c.status]}." for c in late)])


def answer(report: PhaseReport) -> Section:
    """Question and answer: what happened to the claims, a sentence for each contrast's primary metric, the forest plot."""
    if report.adoption:
        return adopted.answer(report)
    stopped = bounds.stopped(report)
    return section(
        Markup(f'<p class="bb-question">{escaped(report.phase.question)}</p>\n'),
        Markup(f'<p class="bb-notice">{escaped(stopped)}</p>\n') if stopped else Markup(),
        paragraphs([claim_counts(report)]),
        bullets(headlines.contrast_sentence(report, contrast) for contrast in report.contrasts),
        forest(report),
    )


# ---- results ------------------------------------------------------------------------------------------


def results(report: PhaseReport) -> Section:
    """Tables of ratios for each contrast, absolute values for each arm, and blocks in run order."""
    if report.adoption:
        return adopted.results(report)
    return section(
        paragraphs([PAIRED_RATIOS]),
        *ratio_tables(report),
        heading("Absolute values"),
        paragraphs([ABSOLUTE_VALUES]),
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
        *block_figures(report),
    )


# ---- what only some phases have -----------------------------------------------------------------------


def latency(report: PhaseReport) -> Section:
    """Latency by percentile from the runs' histograms, and what comparing them with the printed percentiles gave."""
    if report.adoption:
        return adopted.absent("Latency histograms are")
    from analysis import figures_latency
    from analysis import latency as histograms

    return section(figures_latency.curves(report), paragraphs([histograms.check(report)]))


def counts(report: PhaseReport) -> Section:
    """Statements, bytes and whatever else the plan has counted for each operation."""
    if report.adoption:
        return adopted.absent("Counts for each operation are")
    from analysis import counts as counted

    return section(paragraphs(counted.sentences(report)), counted.figure(report), counted.table(report))


def delay(report: PhaseReport) -> Section:
    """The round trip as it was measured, with the added delay and without."""
    if report.adoption:
        return adopted.absent("Round trips are")
    from analysis import delays

    return section(paragraphs(delays.sentences(report)), delays.figure(report))


def null(report: PhaseReport) -> Section:
    """What this host cannot resolve, from one arm under two names."""
    if report.adoption and not report.null_contrasts:
        return adopted.absent("A contrast of one arm with itself is")
    from analysis import null as nulls

    summary = nulls.summary(report)
    told = nulls.leading(summary, report.phase.primary_metric)
    return section(bullets(told), nulls.figure(report), nulls.table(summary))


def has_latency(report: PhaseReport) -> bool:
    """Whether the phase's processes write latency histograms."""
    return bool(report.latency_cases)


def has_counts(report: PhaseReport) -> bool:
    """Whether the plan has a number of its covariates shown for each case and arm."""
    return not report.adoption and any(covariate.unit for covariate in report.phase.covariates)


def has_delay(report: PhaseReport) -> bool:
    """Whether a delay is added to the path between client and server."""
    return not report.adoption and report.network.delay_us > 0


def has_null(report: PhaseReport) -> bool:
    """Whether an arm is compared with itself under another name."""
    return bool(report.null_contrasts)


Part = tuple[str, Callable[[PhaseReport], bool], Callable[[PhaseReport], Section]]
SPECIFIC: tuple[Part, ...] = (
    ("What this host cannot resolve", has_null, null),
    ("Latency by percentile", has_latency, latency),
    ("Counted for each operation", has_counts, counts),
    ("Added delay", has_delay, delay),
    (PUBLISHED, has_published, published),
)


def specific(report: PhaseReport) -> Section:
    """Each of the parts above that the phase has, under its heading."""
    shown = [(title, part) for title, has, part in SPECIFIC if has(report)]
    titled = adopted.named if report.adoption else heading
    return section(*(piece for title, part in shown for piece in (titled(title), part(report))))


LATE = "An amendment added or changed these when some runs of this phase had been made; what it changed is listed under Amendments."


# ---- interpretation, limits, evidence -----------------------------------------------------------------


def interpretation(report: PhaseReport) -> Section:
    """Claims that were preregistered; what else was seen; what this data does not explain."""
    if report.adoption:
        return adopted.interpretation(report)
    late = [claim for claim in report.claims if claim.declared]
    first = amendments.preregistered(report.claims)
    of = " of this phase" if report.history.amendments else ""
    return section(
        heading("Preregistered claims"),
        paragraphs([f"Written and sealed before the first run{of}; each status is computed from the estimates above."]),
        tables.claims(first, "Preregistered claims, in the order of the plan")
        if first or not late
        else paragraphs(["None."]),
        *(
            [
                heading("Claims that were not preregistered"),
                paragraphs([LATE]),
                tables.claims(late, "Declared or changed later"),
            ]
            if late
            else []
        ),
        heading("Also seen, not preregistered"),
        paragraphs(["Computed from the same estimates, without a claim in the plan."]),
        *also_seen(report),
        heading("Not explained by this data"),
        bullets(report.phase.open_questions, "The plan names no open question."),
    )


def limits(report: PhaseReport) -> Section:
    """Computed limits first, then those that the plan wrote down before the first run."""
    if report.adoption:
        return adopted.limits(report)
    written = report.phase.limits
    late = amendments.written_late(report.history, report.identifier)
    when = " ".join(["Written into the plan:", *late]) if late else "Written into the plan before the first run:"
    after = [paragraphs([when]), bullets(written)] if written else []
    return section(bullets(bounds.computed_limits(report)), *after, *changed_files(report))


def evidence(report: PhaseReport) -> Section:
    """Arms, environment, design, the order of the runs, and where the time went."""
    if report.adoption:
        return adopted.evidence(report)
    return section(
        page_design.arms(report),
        page_design.environment(report),
        page_design.design(report),
        page_design.recorded(report),
        *(
            [heading("Amendments"), amendments.table(report.history, [report.identifier])]
            if report.history.amendments
            else []
        ),
        heading("Order of the runs"),
        page_design.order_map(report),
        heading("Where the time went"),
        page_design.times(report),
    )


def reproduce(report: PhaseReport) -> Markup:
    """The commands, seeds and digests that this page was made with."""
    if report.adoption:
        return adopted.reproduce(report)
    counts = sorted({len(estimate.blocks) for estimate in report.estimates})
    rows: list[tuple[str, object]] = [
        *commands(report),
        ("seed", report.seed),
        ("resamples", report.resamples),
        (
            "resample indices, SHA-256",
            [tables.code(f"B = {n}: {index_digest(report.seed, report.resamples, n)}") for n in counts if n],
        ),
        ("computed with", ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy"))),
        ("seal, SHA-256", tables.code(report.seal.digest)),
        ("sealed", report.seal.content["sealed"]),
        *((f"seal before amendment {a.number}", tables.code(a.earlier)) for a in report.history.amendments),
    ]
    return tables.key_values(rows)
