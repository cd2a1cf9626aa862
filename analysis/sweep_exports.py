"""A sweep over seeds as text and JSON. Pure."""

from __future__ import annotations

import json
from typing import Any

from analysis import exports
from analysis.formats import interval_text
from analysis.report import PhaseReport
from analysis.sweep import ClaimSweep, Ends, Sweep, sweep
from analysis.tables import STATUS_WORDS


def of_report(report: PhaseReport, seeds: tuple[int, ...]) -> Sweep:
    """The sweep of a phase: its estimates and the claims of its plan."""
    return sweep(
        report.estimates,
        report.phase.claims,
        primary=report.primary,
        level=report.statistics.level,
        resamples=report.resamples,
        seed=report.seed,
        seeds=seeds,
    )


def as_markdown(report: PhaseReport, found: Sweep) -> str:
    """Two tables: the ends of every percentile interval, and every claim."""
    head = ("contrast", "case", "metric", "exact", "lower end", "upper end", "moves by", "seeds that exclude 1")
    ends = exports.table(head, [_row(one) for one in found.ends])
    claims = [(f"{report.identifier} {c.id}", STATUS_WORDS[c.own], statuses(c)) for c in found.claims]
    columns = ("claim", f"with seed {report.seed}", f"under {len(found.seeds)} seeds")
    return f"{ends}\n{exports.table(columns, claims)}"


def as_json(report: PhaseReport, found: Sweep) -> str:
    """One object with every number."""
    document: dict[str, Any] = {
        "campaign": report.plan.campaign.id,
        "phase": report.identifier,
        "seed": report.seed,
        "resamples": report.resamples,
        "seeds": list(found.seeds),
        "intervals": [
            {
                "case": e.case, "metric": e.metric, "contrast": e.contrast, "exact": e.exact, "low": e.low, "high": e.high,
                "moves": e.moves if e.moves == e.moves else None, "excludes": e.excludes,
            }
            for e in found.ends
        ],
        "claims": [{"id": c.id, "own": c.own, "counts": dict(c.counts)} for c in found.claims],
    }  # fmt: skip
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


FORMATS = {"md": as_markdown, "json": as_json}


def statuses(claim: ClaimSweep) -> str:
    """``supported under 180, unresolved under 20``; a single status stands alone."""
    told = [f"{STATUS_WORDS[status]} under {count}" for status, count in sorted(claim.counts.items())]
    return ", ".join(told) if len(told) > 1 else f"{STATUS_WORDS[next(iter(claim.counts))]} under all"


def _row(ends: Ends) -> tuple[str, ...]:
    return (
        ends.contrast,
        ends.case,
        ends.metric,
        interval_text(ends.exact),
        _span(ends.low),
        _span(ends.high),
        f"{ends.moves:.1%} of its width" if ends.moves == ends.moves else "",
        f"{ends.excludes} of {ends.seeds}",
    )


def _span(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.4f} to {ends[1]:.4f}"
