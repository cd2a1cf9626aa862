"""Two answers to one question, side by side: published figures of one stack and the estimates of another.

Which contrasts and cases belong together says same_question.toml; those of one name belong together without an entry. The
figures stand beside each other and are never combined.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis import tables
from analysis.formats import fixed, range_text, ratio_text
from analysis.model import Estimate
from analysis.page_parts import Section, paragraphs, section
from analysis.published import PublishedEstimate, published_outside
from analysis.published_sentences import SEVERAL, noun, number, ratio_words
from analysis.report import PhaseReport
from analysis.sentences import listed, standing
from analysis.tables import Markup
from runner.errors import DataError
from runner.plan import Phase, Plan
from runner.plantypes import defined

MANY = 4  # cases that are counted, not named
TABLE = Path(__file__).with_name("same_question.toml")


@dataclass(frozen=True)
class Match:
    """What belongs together in one phase beside what has the same name."""

    contrasts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Peer:
    """The campaign that was executed here, and which of its phases asked the same question."""

    name: str
    plan: Plan
    reports: Mapping[str, PhaseReport]
    matches: Mapping[str, Match]

    def asks(self, phase: str) -> bool:
        """Whether it has a phase of this name that asked the same question."""
        return phase in self.reports and phase in self.matches


def pairs(path: Path = TABLE) -> list[tuple[str, str, dict[str, Match]]]:
    """Every pair of campaigns: the published id, how the executed one's begins, and matches by phase. Raises DataError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return [
            (
                str(pair.pop("published")),
                str(pair.pop("executed")),
                {phase: Match(**entry) for phase, entry in pair.pop("phases").items()},
            )
            for pair in document.pop("pairs")
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(str(path), "not a table of pairs of campaigns", found=repr(error)) from None


def matches(published: Plan, executed: Plan, path: Path = TABLE) -> dict[str, Match]:
    """Phases of the same name of a pair, with what belongs together; empty for campaigns that are no pair.

    Raises DataError for an entry that names what a plan does not have.
    """
    found: dict[str, Match] = {}
    for left, right, given in pairs(path):
        if left == published.campaign.id and executed.campaign.id.startswith(right):
            shared = [name for name in published.phases if name in executed.phases]
            _known(given, shared, str(path), "phases")
            for name in shared:
                found[name] = given.get(name, Match())
                _assert_known(found[name], published.phases[name], executed.phases[name], f"{path}: phase {name}")
    return found


def _assert_known(match: Match, left: Phase, right: Phase, where: str) -> None:
    _known(match.contrasts, _contrasts(left), where, "contrasts")
    _known([name for names in match.contrasts.values() for name in names], _contrasts(right), where, "contrasts")
    _known(match.cases, [case.name for case in left.cases], where, "cases")
    _known(match.cases.values(), [case.name for case in right.cases], where, "cases")


def _contrasts(phase: Phase) -> list[str]:
    return [contrast.name for contrast in phase.contrasts]


def _known(names: Any, known: Sequence[str], where: str, what: str) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DataError(where, f"unknown {what}: {', '.join(unknown)}", expected=", ".join(known))


# ---- the section --------------------------------------------------------------------------------------


def side_by_side(peer: Peer, phase: Phase, name: str, published: Sequence[PublishedEstimate]) -> Section:
    """Question, arms and blocks of both, then every published figure that has a counterpart."""
    other = peer.reports[name]
    about = [
        ("question", phase.question, other.phase.question),
        ("arms", ", ".join(arm.name for arm in phase.arms), ", ".join(other.arms)),
        ("blocks", phase.blocks, other.phase.blocks),
        ("interval that leads", "percentile", other.primary),
    ]
    pairs_of, alone = _rows(peer.matches[name], phase, other, published)
    head = (
        *("case", "metric", "published ratio [percentile], not recomputed", f"case in {peer.name}"),
        *(f"its ratio [{other.primary}]", f"{other.primary} interval"),
    )
    shown = [
        tables.plain(head, rows, f"{mine} as published, beside {theirs} of {peer.name}", numbers=[2, 4])
        for (mine, theirs), rows in pairs_of.items()
    ]
    return section(
        paragraphs(
            [
                "The same question, another stack: other code, another language, another server, another host. Below, what was "
                "published stands beside what this book computes for the other stack. The numbers are not estimates of one "
                "quantity, and nothing is computed from both."
            ]
        ),
        tables.plain(("", "published", peer.name), about, "Two answers to one question"),
        *(shown or [paragraphs(["No published figure has a counterpart there."])]),
        paragraphs([f"Published without a counterpart there: {listed(alone)}."] if alone else []),
    )


Rows = list[tuple[object, ...]]


def _rows(
    match: Match, phase: Phase, other: PhaseReport, published: Sequence[PublishedEstimate]
) -> tuple[dict[tuple[str, str], Rows], list[str]]:
    """Rows of published figures and counterparts for each pair of contrasts; and the figures that have none."""
    shared = cases_of_both(match, phase, other.phase)
    found: dict[tuple[str, str], Rows] = {}
    alone: list[str] = []
    for estimate in published:
        if not (estimate.ratio or estimate.range or estimate.leave_one_out):
            continue  # words alone, which stand with the results
        apart = published_outside(estimate, published)
        own = _counterparts(
            match, {mine: theirs for mine, theirs in shared.items() if mine not in apart}, other, estimate
        )
        shown, what = estimate.shown or SEVERAL, noun(estimate.word)
        if not own:
            alone.append(f"{what} of {estimate.contrast} ({shown})")
        for contrast in dict.fromkeys(e.contrast for e in own):
            group = [e for e in own if e.contrast == contrast]
            answer = _answer(group[0], other) if estimate.case else _range(group, [n for n in apart if n in shared])
            row = (Markup(tables.breakable(shown)), what, _figure(estimate), *answer)
            found.setdefault((estimate.contrast, contrast), []).append(row)
    return found, alone


def _answer(found: Estimate, other: PhaseReport) -> tuple[object, ...]:
    return Markup(tables.breakable(found.case)), _ratio(found, other), _standing(found, other)


def _range(group: Sequence[Estimate], apart: Sequence[str]) -> tuple[object, ...]:
    """What stands beside a range of cases: the smallest and the largest point, of the cases that it is of."""
    cases = listed(e.case for e in group) if len(group) < MANY else f"{len(group)} matching cases"
    cases += f", without {listed(sorted(apart))}" if apart else ""
    return cases, f"{range_text([e.point for e in group], 3)} (points)", "a range of points"


def _figure(estimate: PublishedEstimate) -> str:
    """What was published, in a few words."""
    if estimate.ratio is not None:
        return ratio_words(estimate)
    for pair, what in ((estimate.range, "a range"), (estimate.leave_one_out, "one block left out")):
        if pair:
            return f"{number(pair[0])} to {number(pair[1])} ({what})"
    return ""


def cases_of_both(match: Match, phase: Phase, other: Phase) -> dict[str, str]:
    """Cases that belong together, by the published name: as the table says, or of equal names."""
    known = [case.name for case in other.cases]
    found = {case.name: match.cases.get(case.name, case.name) for case in phase.cases if defined(case.name)}
    return {mine: theirs for mine, theirs in found.items() if theirs in known}


def _counterparts(
    match: Match, shared: Mapping[str, str], other: PhaseReport, estimate: PublishedEstimate
) -> list[Estimate]:
    """The other stack's estimates of the same contrast, metric and case; of every shared case where none is named."""
    cases = list(shared.values()) if estimate.case is None else [shared.get(estimate.case, "")]
    return [
        found
        for contrast in match.contrasts.get(estimate.contrast, [estimate.contrast])
        for found in other.estimates
        if (found.contrast, found.metric) == (contrast, estimate.metric) and found.case in cases
    ]


def _ratio(estimate: Estimate, other: PhaseReport) -> str:
    interval = estimate.interval(other.primary)
    return ratio_text(estimate.point, interval) if interval else fixed(estimate.point, 3)


def _standing(estimate: Estimate, other: PhaseReport) -> str:
    words = {
        "below": "excludes 1 (below)",
        "above": "excludes 1 (above)",
        "nominal": "excluded by the percentile interval only",
        "includes": "includes 1: not resolved",
        "constant": "the same in every block",
    }.get(standing(estimate, other.primary), "without an interval")
    return f"{words}; with notes on its page" if estimate.warnings else words
