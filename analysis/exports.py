"""Estimates as data: JSON with every field, CSV, and a Markdown table. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence

from analysis import estimands, formats
from analysis.model import Estimate
from analysis.report import PhaseReport
from analysis.sentences import interval_name
from analysis.tables import processes_text
from runner.store import Store


def as_json(report: PhaseReport) -> str:
    document = estimands.as_json(
        report.estimates,
        report.absolutes,
        campaign=report.plan.campaign.id,
        phase=report.identifier,
        seed=report.seed,
        resamples=report.resamples,
        primary=report.primary,
    )
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


COLUMNS = (
    "contrast",
    "case",
    "metric",
    "point",
    "t_low",
    "t_high",
    "percentile_low",
    "percentile_high",
    "holm_p",
    "blocks",
    "warnings",
)
UNPAIRED_COLUMNS = ("paired", "numerator_processes", "denominator_processes")


def as_csv(report: PhaseReport) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    unpaired = any(not e.paired for e in report.estimates)
    writer.writerow((*COLUMNS, *UNPAIRED_COLUMNS) if unpaired else COLUMNS)
    for e in report.estimates:
        writer.writerow(
            (
                e.contrast,
                e.case,
                e.metric,
                e.point,
                *(e.t or ("", "")),
                *(e.percentile or ("", "")),
                e.holm_p,
                len(e.blocks),
                "; ".join(warning.kind for warning in e.warnings),
                *((str(e.paired).lower(), *e.processes) if unpaired else ()),
            )
        )
    return out.getvalue()


def as_markdown(report: PhaseReport) -> str:
    if not report.paired:
        return table(
            ("contrast", "case", "metric", f"ratio [{interval_name('t', paired=False)}]", "processes", "warnings"),
            [(*_named(e), formats.ratio_text(e.point, e.t), processes_text(e), _kinds(e)) for e in report.estimates],
        )
    other = "percentile" if report.primary == "t" else "t"
    rows = [
        (
            *_named(e),
            formats.ratio_text(e.point, e.interval(report.primary)),
            formats.interval_text(e.interval(other)),
            str(len(e.blocks)),
            _kinds(e),
        )
        for e in report.estimates
    ]
    return table(("contrast", "case", "metric", f"ratio [{report.primary}]", other, "blocks", "warnings"), rows)


def _named(estimate: Estimate) -> tuple[str, str, str]:
    return estimate.contrast, estimate.case, estimate.metric


def _kinds(estimate: Estimate) -> str:
    return ", ".join(warning.kind for warning in estimate.warnings)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


FORMATS = {"json": as_json, "csv": as_csv, "md": as_markdown}


def metrics_of(store: Store, phase: str) -> str:
    """A phase's rows of the campaign's aggregate, with its header; "" where there is no aggregate."""
    if not store.metrics_path.exists():
        return ""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    with store.metrics_path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        writer.writerow(next(rows, []))
        writer.writerows(row for row in rows if row[:1] == [phase])
    return out.getvalue()
