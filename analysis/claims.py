"""A plan's claims, evaluated against estimates by fixed rules. Pure functions; nothing here reads a sentence.

A claim holds, or its opposite holds, or neither, case by case:

| holds | holds for a case when | its opposite |
|---|---|---|
| below-1 | the interval lies entirely below 1 | entirely above 1 |
| above-1 | the interval lies entirely above 1 | entirely below 1 |
| within [a, b] | the interval lies inside [a, b] | wholly outside of it |
| point_within [a, b] | the point lies in [a, b]; no interval is used | the point lies outside |
| largest | the interval lies wholly above that of every other case | wholly below that of some other |
| smallest | the interval lies wholly below that of every other case | wholly above that of some other |

The other cases of largest and smallest are those of the same metric and contrast in the phase that the claim
does not name; it is the ratio that is largest or smallest. Bounds a and b belong to [a, b]; 1 belongs to
neither side.

Over several cases, in this order:

1. contradicted: the opposite holds for at least one case, which is named. One failed run elsewhere does not
   shield a claim from that.
2. not-evaluable: a case that the claim rests on has a failed or missing run that no block replaces, a null
   where the rule needs a number, or no estimate. For largest and smallest it rests on the other cases too.
3. supported: it holds for every case.
4. nominal-only: it holds for every case by the percentile interval, and not for every case by t.
5. unresolved: neither.

An unpaired estimate has Welch's t interval alone: a claim that asks for a percentile interval is not evaluable on it.

A percentile interval counts for 1 and 3 only together with t, on the same side: what is not enough to support
a claim is not enough to contradict it. An estimate with a failed or missing run supports nothing and
contradicts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from analysis.model import ClaimResult, Estimate, Interval
from analysis.sentences import gap_words, gaps, ratio_words, takes

STATUSES = ("supported", "contradicted", "unresolved", "nominal-only", "not-evaluable")


class Claim(Protocol):
    """What `evaluate` needs of a plan's claim."""

    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def metric(self) -> str: ...
    @property
    def contrast(self) -> str: ...
    @property
    def cases(self) -> Any: ...  # "all", names, or {"all_but": names}
    @property
    def holds(self) -> Any: ...  # a word, {"within": [a, b]} or {"point_within": [a, b]}
    @property
    def interval(self) -> str | None: ...


@dataclass(frozen=True)
class Rule:
    """A claim's ``holds`` in one form."""

    kind: str  # "below-1", "above-1", "within", "point_within", "largest", "smallest"
    low: float = 1.0
    high: float = 1.0


@dataclass(frozen=True)
class Verdict:
    """One case under one interval: "holds", "opposite" or "open"; and the other case that decides."""

    outcome: str
    other: Estimate | None = None


def rule_of(holds: Any) -> Rule:
    """Normalise ``holds``: a word, or a mapping or an object with ``within`` or ``point_within``.

    Raises
    ------
    ValueError
        It is none of these, or the bounds are not 0 < low < high.
    """
    if isinstance(holds, str):
        if holds in ("below-1", "above-1", "largest", "smallest"):
            return Rule(holds)
        raise ValueError(f"a claim cannot hold {holds!r}")
    for kind in ("within", "point_within"):
        bounds = _part(holds, kind)
        if bounds is not None:
            low, high = map(float, bounds)
            if not 0 < low < high:
                raise ValueError(f"bounds of {kind} must be 0 < low < high: [{low}, {high}]")
            return Rule(kind, low, high)
    raise ValueError(f"a claim cannot hold {holds!r}")


def case_names(cases: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Normalise ``cases`` to names: "all", a sequence of names, or ``all_but`` of the ``known``.

    Raises
    ------
    ValueError
        It is none of these.
    """
    if cases == "all":
        return tuple(known)
    excluded = _part(cases, "all_but")
    if excluded is not None:
        return tuple(name for name in known if name not in excluded)
    if isinstance(cases, str) or not isinstance(cases, Sequence):
        raise ValueError(f'a claim\'s cases are "all", names, or all_but names, not {cases!r}')
    return tuple(cases)


def _part(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def evaluate(claim: Claim, estimates: Iterable[Estimate], *, primary: str) -> ClaimResult:
    """The status of a claim, the sentence that says why, and the estimates it rests on.

    Parameters
    ----------
    claim : Claim
        As the plan has it.
    estimates : iterable of Estimate
        All of its phase, in plan order; those of other metrics and contrasts are not used.
    primary : str
        The plan's primary interval, "t" or "percentile", for a claim that names none.

    Raises
    ------
    ValueError
        Estimates of several phases, two estimates of one case, or a claim in no known form.
    """
    pool = _pool(claim, estimates)
    rule = rule_of(claim.holds)
    kind = claim.interval or primary
    if kind not in ("t", "percentile"):
        raise ValueError(f"claim {claim.id}: no interval is called {kind!r}")
    names = case_names(claim.cases, tuple(pool))
    named = [pool[name] for name in names if name in pool]
    others = [e for name, e in pool.items() if name not in names] if rule.kind in ("largest", "smallest") else []
    status, reason = _status(claim, Asked(rule, kind, names, tuple(named), tuple(others)))
    if any(not e.paired and e.t for e in named):
        reason += " Arms were not paired" + ("." if rule.kind == "point_within" else "; the interval is Welch's t.")
    return ClaimResult(claim.id, claim.text, status, reason, tuple(named + others))


@dataclass(frozen=True)
class Asked:
    """A claim in normal form, with the estimates that it is about and those that it compares with."""

    rule: Rule
    kind: str  # of interval
    names: tuple[str, ...]  # of cases
    named: tuple[Estimate, ...]
    others: tuple[Estimate, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The intervals that have to agree."""
        return ("percentile", "t") if self.kind == "percentile" else ("t",)


def _pool(claim: Claim, estimates: Iterable[Estimate]) -> dict[str, Estimate]:
    """The estimates of the claim's metric and contrast, by case."""
    found = list(estimates)
    phases = sorted({e.phase for e in found})
    if len(phases) > 1:
        raise ValueError(f"claim {claim.id}: estimates of several phases: {', '.join(phases)}")
    pool: dict[str, Estimate] = {}
    for e in found:
        if (e.metric, e.contrast) == (claim.metric, claim.contrast):
            if e.case in pool:
                raise ValueError(f"claim {claim.id}: two estimates of {e.case}, {e.metric}, {e.contrast}")
            pool[e.case] = e
    return pool


@dataclass(frozen=True)
class Judged:
    """One complete case under the claim's interval and, where that is percentile, under t too."""

    estimate: Estimate
    verdicts: tuple[Verdict, ...]

    @property
    def outcome(self) -> str:
        """What all verdicts agree on; "nominal" where only the percentile interval holds; else "open"."""
        found = {verdict.outcome for verdict in self.verdicts}
        if len(found) == 1:
            return found.pop()
        return "nominal" if self.verdicts[0].outcome == "holds" else "open"


def _status(claim: Claim, asked: Asked) -> tuple[str, str]:
    """The rules of the module's docstring, in their order."""
    rule, kind, named = asked.rule, asked.kind, asked.named
    others = [e for e in asked.others if not _flaw(e, asked)]
    judged = [Judged(e, tuple(judge(rule, e, others, k) for k in asked.kinds)) for e in named if not _flaw(e, asked)]
    against = [case for case in judged if case.outcome == "opposite"]
    if against:
        return "contradicted", _contradiction(rule, kind, against, len(named))
    flaws = _flaws(claim, asked)
    if flaws:
        return "not-evaluable", f"Not evaluable: {'; '.join(flaws)}."
    undecided = [case for case in judged if case.outcome == "open"]
    if undecided:
        return "unresolved", _open(rule, kind, undecided, len(named))
    nominal = [case for case in judged if case.outcome == "nominal"]
    if nominal:
        return "nominal-only", _nominal(rule, nominal, len(named))
    return "supported", _support(rule, kind, named, others)


def judge(rule: Rule, estimate: Estimate, others: Sequence[Estimate], kind: str) -> Verdict:
    """One complete case under one interval; ``others`` are those that largest and smallest look at."""
    if rule.kind == "point_within":
        assert estimate.point is not None
        return Verdict("holds" if rule.low <= estimate.point <= rule.high else "opposite")
    interval = estimate.interval(kind)
    assert interval is not None
    if rule.kind in ("largest", "smallest"):
        return _judge_extreme(rule, interval, others, kind)
    if rule.kind == "within":
        inside = rule.low <= interval[0] and interval[1] <= rule.high
        outside = interval[1] < rule.low or interval[0] > rule.high
        return Verdict("holds" if inside else "opposite" if outside else "open")
    below, above = interval[1] < 1, interval[0] > 1
    holds, opposite = (below, above) if rule.kind == "below-1" else (above, below)
    return Verdict("holds" if holds else "opposite" if opposite else "open")


def _judge_extreme(rule: Rule, interval: Interval, others: Sequence[Estimate], kind: str) -> Verdict:
    """Largest or smallest; the deciding other is the first beyond it, or else the first that overlaps."""
    overlapping = None
    for other in others:
        theirs = other.interval(kind)
        assert theirs is not None
        first, second = (interval, theirs) if rule.kind == "largest" else (theirs, interval)
        if first[1] < second[0]:
            return Verdict("opposite", other)
        if not first[0] > second[1]:
            overlapping = overlapping or other
    return Verdict("open", overlapping) if overlapping else Verdict("holds")


_WITHOUT_INTERVAL = ("one-block", "one-process", "no-spread", "no-interval")


def _flaw(estimate: Estimate, asked: Asked) -> str:
    """Why a claim cannot rest on an estimate, or nothing."""
    missing = gaps(estimate)
    if missing:
        return f"{estimate.case} lacks {gap_words(missing)}"
    if (estimate.paired and not estimate.blocks) or estimate.point is None:
        return f"{estimate.case} has no estimate"
    absent = [kind for kind in asked.kinds if estimate.interval(kind) is None]
    if asked.rule.kind != "point_within" and absent:
        if not estimate.paired and asked.kind == "percentile":
            return f"{estimate.case} has no percentile interval, since no blocks are known that it could be over"
        causes = [w.text for w in estimate.warnings if w.kind in _WITHOUT_INTERVAL]
        why = f" ({causes[0].rstrip('.')})" if causes else ""
        return f"{estimate.case} has no {absent[-1]} interval{why}"
    return ""


def _flaws(claim: Claim, asked: Asked) -> list[str]:
    """Everything that keeps a claim from being evaluated, by name."""
    known = {e.case for e in asked.named}
    absent = [name for name in asked.names if name not in known]
    flaws = [f"there is no estimate of {name}, {claim.metric}, {claim.contrast}" for name in absent]
    flaws += [flaw for e in (*asked.named, *asked.others) if (flaw := _flaw(e, asked))]
    if not asked.names:
        flaws.append("the claim names no case")
    elif asked.rule.kind in ("largest", "smallest") and not asked.others:
        flaws.append("there is no other case to compare with")
    return flaws


_HOLDS = {
    "below-1": "entirely below 1",
    "above-1": "entirely above 1",
    "within": "inside {bounds}",
    "point_within": "in {bounds}, no interval being used",
    "largest": "wholly above that of every other case",
    "smallest": "wholly below that of every other case",
}
_OPPOSITE = {
    "below-1": "entirely above 1",
    "above-1": "entirely below 1",
    "within": "wholly outside {bounds}",
    "point_within": "outside {bounds}, no interval being used",
    "largest": "wholly below that of {other}",
    "smallest": "wholly above that of {other}",
}
_OPEN = {
    "below-1": "includes 1",
    "above-1": "includes 1",
    "within": "reaches across an end of {bounds}",
    "largest": "overlaps that of {other}",
    "smallest": "overlaps that of {other}",
}


def _words(table: Mapping[str, str], rule: Rule, kind: str, other: Estimate | None = None) -> str:
    named = "" if other is None else f"{other.case}, {ratio_words(other.point, other.interval(kind))}"
    return table[rule.kind].format(bounds=f"[{rule.low:g}, {rule.high:g}]", other=named)


def _subject(rule: Rule, kind: str) -> str:
    return "the point estimate" if rule.kind == "point_within" else f"the {kind} interval"


def _too(rule: Rule, kind: str) -> str:
    return ", and so does the t interval" if kind == "percentile" and rule.kind != "point_within" else ""


def _numbers(rule: Rule, kind: str, estimate: Estimate, other: Estimate | None = None) -> str:
    """The numbers of an estimate, with enough decimals to tell them from the rule's limits."""
    limits = (other.interval(kind) or ()) if other else (rule.low, rule.high)
    return ratio_words(estimate.point, None if rule.kind == "point_within" else estimate.interval(kind), limits)


def _first(rule: Rule, kind: str, cases: Sequence[Judged], total: int) -> str:
    """The first of some cases in words, and how many there are."""
    estimate, other = cases[0].estimate, cases[0].verdicts[0].other
    share = f" (and in {len(cases) - 1} more of {total} cases)" if len(cases) > 1 else ""
    return f"{takes(estimate, _numbers(rule, kind, estimate, other))} on {estimate.case}{share}"


def _margin(rule: Rule, kind: str, estimate: Estimate) -> float:
    """By how much, on the log scale, a case stays clear of the rule's limits."""
    point = estimate.point or math.nan
    low, high = (point, point) if rule.kind == "point_within" else estimate.interval(kind) or (point, point)
    below, above = math.log(rule.high / high), math.log(low / rule.low)
    return {"below-1": below, "above-1": above}.get(rule.kind, min(below, above))


def _support(rule: Rule, kind: str, named: Sequence[Estimate], others: Sequence[Estimate]) -> str:
    """The weakest case carries the sentence."""
    lies = f"{_subject(rule, kind)} lies {_words(_HOLDS, rule, kind)}{_too(rule, kind)}"
    if others:
        nearest = _nearest(rule, kind, others)
        numbers = _numbers(rule, kind, named[0], nearest)
        beside = f"{nearest.case}, {_numbers(rule, kind, nearest, named[0])}"
        return f"{takes(named[0], numbers)} on {named[0].case}: {lies}; the nearest is {beside}."
    weakest = min(named, key=lambda e: _margin(rule, kind, e))
    numbers = _numbers(rule, kind, weakest)
    if len(named) == 1:
        return f"{takes(weakest, numbers)} on {weakest.case}: {lies}."
    return f"In all {len(named)} cases {lies}; the nearest to the limit is {weakest.case}, {numbers}."


def _nearest(rule: Rule, kind: str, others: Sequence[Estimate]) -> Estimate:
    """The other case whose interval comes nearest to that of the largest or smallest."""
    ends = [(e.interval(kind) or (math.nan, math.nan), e) for e in others]
    if rule.kind == "largest":
        return max(ends, key=lambda item: item[0][1])[1]
    return min(ends, key=lambda item: item[0][0])[1]


def _contradiction(rule: Rule, kind: str, against: Sequence[Judged], total: int) -> str:
    lies = _words(_OPPOSITE, rule, kind, against[0].verdicts[0].other)
    return f"{_first(rule, kind, against, total)}: {_subject(rule, kind)} lies {lies}{_too(rule, kind)}."


def _nominal(rule: Rule, cases: Sequence[Judged], total: int) -> str:
    estimate, by_t = cases[0].estimate, cases[0].verdicts[-1]
    t = _numbers(rule, "t", estimate, by_t.other)
    lies = _words(_HOLDS, rule, "percentile")
    return (
        f"{_first(rule, 'percentile', cases, total)}: the percentile interval lies {lies}, but"
        f" the t interval, {t[t.index('[') :]}, {_words(_OPEN, rule, 't', by_t.other)}."
    )


def _open(rule: Rule, kind: str, cases: Sequence[Judged], total: int) -> str:
    """The first case that leaves the claim open; one that only a percentile interval contradicts says so."""
    verdict = cases[0].verdicts[0]
    first = _first(rule, kind, cases, total)
    if verdict.outcome == "opposite":
        lies = _words(_OPPOSITE, rule, kind, verdict.other)
        return f"{first}: the percentile interval lies {lies}, t does not; not resolved by this data."
    return f"{first}: the {kind} interval {_words(_OPEN, rule, kind, verdict.other)}; not resolved by this data."
