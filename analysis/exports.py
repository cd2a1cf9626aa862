"""Estimates as data: JSON with every field, CSV, and a Markdown table. Pure."""

from __future__ import annotations

import csv
import io
import json

from analysis import estimands, formats
from analysis.report import PhaseReport
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


def as_csv(report: PhaseReport) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        (
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
    )
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
            )
        )
    return out.getvalue()


def as_markdown(report: PhaseReport) -> str:
    other = "percentile" if report.primary == "t" else "t"
    lines = [
        f"| contrast | case | metric | ratio [{report.primary}] | {other} | blocks | warnings |",
        "|---|---|---|---|---|---|---|",
    ]
    for e in report.estimates:
        cells = (
            e.contrast,
            e.case,
            e.metric,
            formats.ratio_text(e.point, e.interval(report.primary)),
            formats.interval_text(e.interval(other)),
            str(len(e.blocks)),
            ", ".join(w.kind for w in e.warnings),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
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
