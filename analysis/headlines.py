"""The headline of a phase: one computed sentence by a rule that does not look at the result.

The rule: the primary metric of the phase's first contrast, as the plan lists them, over all cases that measure it; the
smallest and the largest ratio with their intervals, and how many intervals exclude 1 on which side. Nothing is chosen for
being large.
"""

from __future__ import annotations

from analysis.model import Estimate
from analysis.report import PhaseReport
from analysis.sentences import gaps, listed, metric_word, ratio_words, standing, takes

RULE = (
    "One rule for every phase: the primary metric of the first contrast in the plan, over all cases; the smallest and the "
    "largest ratio, each with its {primary} interval."
)


def headline(report: PhaseReport) -> str:
    """The sentence of the phase's first contrast."""
    return contrast_sentence(report, next(iter(report.contrasts)))


def leading(report: PhaseReport, contrast: str) -> list[Estimate]:
    """The estimates of a contrast's primary metric, in plan order."""
    metric = report.phase.primary_metric
    return [e for e in report.estimates if (e.contrast, e.metric) == (contrast, metric)]


def complete(report: PhaseReport, contrast: str) -> list[Estimate]:
    """Those of `leading` of which no run is missing: what a headline tells of."""
    return [e for e in leading(report, contrast) if e.point is not None and not gaps(e)]


def contrast_sentence(report: PhaseReport, contrast: str) -> str:
    """The range of a contrast's primary metric over its cases, with intervals, and how many of them exclude 1."""
    found, whole = leading(report, contrast), complete(report, contrast)
    primary = report.primary
    left_out = [e.case for e in found if e not in whole]
    what = f"{contrast}, {metric_word(report.phase.primary_metric)}"
    if not whole:
        return f"{what}: nothing to report, since every case has failed or missing runs."
    ordered = sorted(whole, key=lambda e: e.point or 0.0)
    amounts = [f"{ratio_words(e.point, e.interval(primary))} ({e.case})" for e in (ordered[0], ordered[-1])]
    text = takes(whole[0], " to ".join(amounts[: len(whole)]))
    if len(whole) > 1:
        text += f" over {len(whole)} cases"
    text += f"; {_standings(whole, primary)}."
    if left_out:
        text += f" Left out for failed or missing runs: {listed(left_out)}."
    if contrast in report.null_contrasts:
        text = f"One arm under two names: {text}"
    return text


def _standings(whole: list[Estimate], kind: str) -> str:
    """``3 of 8 t intervals exclude 1 (3 below), 5 include it: not resolved by this data``."""
    standings = [standing(e, kind) for e in whole]
    paired = all(e.paired for e in whole)
    primary, every = (kind, "block") if paired else ("unpaired Welch's t", "process")
    if len(whole) == 1:
        return {
            "below": f"the {primary} interval excludes 1 (below)",
            "above": f"the {primary} interval excludes 1 (above)",
            "nominal": "only the percentile interval excludes 1",
            "includes": f"the {primary} interval includes 1: not resolved by this data",
            "constant": f"the same in every {every}, so without an interval",
        }.get(standings[0], "without an interval")
    below, above, nominal = (standings.count(name) for name in ("below", "above", "nominal"))
    includes, constant, none = (standings.count(name) for name in ("includes", "constant", "none"))
    excludes = below + above + nominal
    sides = listed(f"{count} {name}" for count, name in ((below, "below"), (above, "above")) if count)
    told = []
    if excludes:
        of = f"{excludes} of {len(whole)} {primary} intervals exclude{'s' * (excludes == 1)} 1"
        told.append(of + (f" ({sides})" if sides else ""))
    if nominal:
        told.append(f"{nominal} by the percentile interval only")
    if includes:
        it = "it" if excludes else "1"
        told.append(f"{includes} include{'s' * (includes == 1)} {it}: not resolved by this data")
    if constant:
        told.append(f"{constant} the same in every {every}, so without an interval")
    if none:
        told.append(f"{none} without an interval")
    return ", ".join(told)
