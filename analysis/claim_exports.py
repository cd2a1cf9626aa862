"""Claims as text, JSON and Markdown: each with its status, why, and the estimates that it rests on. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from analysis import exports
from analysis.formats import ratio_text
from analysis.model import ClaimResult, Estimate
from analysis.report import PhaseReport
from analysis.tables import STATUS_WORDS
from runner.errors import WrongUse

SUPPORTED = "supported"


def as_text(reports: Sequence[PhaseReport]) -> str:
    """Three lines for each claim: status, sentence, reason."""
    return "".join(
        f"{report.identifier} {claim.id}: {status_words(claim)}\n  claim: {claim.text}\n  why: {claim.reason}\n"
        for report, claim in _claims(reports)
    )


def as_json(reports: Sequence[PhaseReport]) -> str:
    """One object: campaign, what deviates since the seal, and every claim with its evidence."""
    first = reports[0] if reports else None
    document: dict[str, Any] = {
        "campaign": first.plan.campaign.id if first else None,
        "preregistered": bool(first and first.adoption is None)
        and not any(claim.declared for _, claim in _claims(reports)),
        "deviations": dict(first.deviations) if first else {},
        "claims": [_claim(report, claim) for report, claim in _claims(reports)],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def as_markdown(reports: Sequence[PhaseReport]) -> str:
    """A table with a row for each claim; the evidence is its primary ratios."""
    head = ("claim", "status", "text", "evidence", "why")
    rows = [
        (
            f"{report.identifier} {claim.id}",
            status_words(claim),
            claim.text,
            _evidence(report, claim),
            claim.reason,
        )
        for report, claim in _claims(reports)
    ]
    return exports.table(head, rows)


FORMATS = {"text": as_text, "json": as_json, "md": as_markdown}


def unmet(reports: Sequence[PhaseReport], required: Iterable[str]) -> list[str]:
    """A line for each required claim that is not supported. Raises WrongUse for one that is not in the plan."""
    found = {claim.id: claim for _, claim in _claims(reports)}
    lines = []
    for name in required:
        if name not in found:
            raise WrongUse(
                f"--require {name}",
                "no such claim",
                expected=", ".join(found) or "a claim of the plan, which has none",
                remedy="name one of these, and its phase where --phase is given",
            )
        claim = found[name]
        if claim.status != SUPPORTED:
            lines.append(f"required claim {name} is {STATUS_WORDS[claim.status]}: {claim.reason}")
    return lines


def status_words(claim: ClaimResult) -> str:
    """A claim's status, and that it was not preregistered where an amendment made it so."""
    return STATUS_WORDS[claim.status] + (f", {claim.declared}" if claim.declared else "")


def _claims(reports: Sequence[PhaseReport]) -> list[tuple[PhaseReport, ClaimResult]]:
    return [(report, claim) for report in reports for claim in report.claims]


def _claim(report: PhaseReport, claim: ClaimResult) -> dict[str, Any]:
    return {
        "phase": report.identifier,
        "id": claim.id,
        "text": claim.text,
        "status": claim.status,
        "preregistered": report.adoption is None and not claim.declared,
        "declared": claim.declared or None,
        "reason": claim.reason,
        "evidence": [_estimate(estimate) for estimate in claim.evidence],
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    """What of an estimate a claim can rest on; the rest is in `estimates --format json`."""
    return {
        "case": estimate.case,
        "metric": estimate.metric,
        "contrast": estimate.contrast,
        "point": estimate.point,
        "t": estimate.t,
        "percentile": estimate.percentile,
        "blocks": list(estimate.blocks),
        "warnings": [warning.kind for warning in estimate.warnings],
    }


def _evidence(report: PhaseReport, claim: ClaimResult) -> str:
    told = (f"{e.case} {ratio_text(e.point, e.interval(report.primary) if e.paired else e.t)}" for e in claim.evidence)
    return "; ".join(told)
