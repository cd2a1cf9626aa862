"""Sentences computed from estimates that no plan asked for: "also seen, not preregistered". Pure functions.

The vocabulary is fixed. An interval lies entirely below 1, entirely above 1, or includes 1 and is "not
resolved by this data"; nothing here says that two arms are equal or that one is better. Where only a
percentile interval excludes 1, the sentence says so. An estimate with failed or missing runs is named and
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.formats import fixed, interval_text, ratio_decimals
from analysis.model import Estimate, Interval, Missing

METRIC_WORDS = {
    "ns/op": "time",
    "B/op": "bytes allocated",
    "allocs/op": "allocations",
    "p50-ns": "median latency",
    "p90-ns": "90th percentile of latency",
    "p99-ns": "99th percentile of latency",
    "p99.9-ns": "99.9th percentile of latency",
    "max-ns": "largest latency",
}
UNPAIRED_INTERVAL = "Welch's t, unpaired"
_MOST_DECIMALS = 6


@dataclass(frozen=True)
class Sentence:
    """What was seen in one contrast and metric over all cases."""

    contrast: str
    metric: str
    text: str


def metric_word(metric: str) -> str:
    """The noun for a metric; its unit where there is none."""
    return METRIC_WORDS.get(metric, metric)


def listed(items: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    words = list(items)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def ratio_words(point: float | None, interval: Interval | None, limits: Sequence[float] = (1.0,)) -> str:
    """``0.972 [0.951, 0.994]``, or the point alone where there is no interval.

    Three decimals, four when the interval is narrower than 0.01, and as many more (up to six) as it takes for
    an end not to read as one of ``limits`` when it is not: "[0.951, 1.000]" must not stand beside "entirely
    below 1".
    """
    numbers = [value for value in (point, *(interval or ())) if value is not None]
    places = ratio_decimals(interval)
    while places < _MOST_DECIMALS and any(_reads_as(n, limit, places) for n in numbers for limit in limits):
        places += 1
    if interval is None:
        return fixed(point, places)
    return f"{fixed(point, places)} {interval_text(interval, places)}"


def _reads_as(number: float, limit: float, places: int) -> bool:
    return number != limit and f"{number:.{places}f}" == f"{limit:.{places}f}"


def takes(estimate: Estimate, amount: str) -> str:
    """``final takes 0.972 [0.951, 0.994] of before's time``: the one form of a ratio in words."""
    verb = "takes" if estimate.metric == "ns/op" else "has"
    return f"{estimate.numerator} {verb} {amount} of {estimate.denominator}'s {metric_word(estimate.metric)}"


def side(interval: Interval | None) -> str:
    """Where an interval lies: "below", "above", "includes" or "none"."""
    if interval is None:
        return "none"
    low, high = interval
    return "below" if high < 1 else "above" if low > 1 else "includes"


def gaps(estimate: Estimate) -> tuple[Missing, ...]:
    """The failed or missing runs of an estimate that no replacement block stands in for."""
    return tuple(item for item in estimate.missing if item.replaced_by is None)


def gap_words(items: Sequence[Missing]) -> str:
    """``final in block 3 (exit status 3)``, and the others; blocks of one arm with one reason stand together."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for item in items:
        groups.setdefault((item.arm, item.unit, item.reason), []).append(item.block)
    return listed(f"{arm} in {place_words(unit, places)} ({reason})" for (arm, unit, reason), places in groups.items())


def block_words(blocks: Iterable[int]) -> str:
    """``block 3``, or ``blocks 1, 2 and 4``."""
    return place_words("block", blocks)


def place_words(unit: str, places: Iterable[int]) -> str:
    """As `block_words`, of blocks or of processes."""
    numbers = sorted(set(places))
    plural = {"process": "processes"}.get(unit, f"{unit}s")
    return f"{plural if len(numbers) > 1 else unit} {listed(map(str, numbers))}"


def interval_name(kind: str, paired: bool) -> str:
    """What a page calls an interval: by its kind, or Welch's t where nothing was paired."""
    return kind if paired else UNPAIRED_INTERVAL


def sentences(
    estimates: Iterable[Estimate],
    *,
    primary: str,
    contrasts: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
) -> tuple[Sentence, ...]:
    """One sentence for each contrast and metric, in plan order: what lies below 1, above it, or includes it.

    Parameters
    ----------
    estimates : iterable of Estimate
        Of one phase, in plan order.
    primary : str
        The interval that leads, "t" or "percentile". A "percentile" that excludes 1 where t does not is named
        apart.
    contrasts, metrics : sequence of str, optional
        Their order; by default that in which they first occur.
    """
    found = list(estimates)
    orders = (
        contrasts if contrasts is not None else _first_seen(e.contrast for e in found),
        metrics if metrics is not None else _first_seen(e.metric for e in found),
    )
    written = []
    for contrast in orders[0]:
        for metric in orders[1]:
            group = [e for e in found if e.contrast == contrast and e.metric == metric]
            if group:
                written.append(Sentence(contrast, metric, _group_sentence(group, primary)))
    return tuple(written)


def _first_seen(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def standing(estimate: Estimate, primary: str) -> str:
    """As `side`; or "nominal": the percentile interval excludes 1, t does not; or "constant": no spread."""
    found = side(estimate.interval(primary))
    if found == "none" and any(warning.kind == "no-spread" for warning in estimate.warnings):
        return "constant"
    return found if found in ("includes", "none") or side(estimate.t) == found else "nominal"


_STANDINGS = {
    "below": "entirely below 1",
    "above": "entirely above 1",
    "nominal": "excluding 1 by the percentile interval only (t includes it)",
    "includes": "including 1 (not resolved by this data)",
    "constant": "the same in every block, so without an interval",
    "none": "without an interval",
}


def _group_sentence(group: Sequence[Estimate], primary: str) -> str:
    """The sentence of one contrast and metric."""
    whole = [e for e in group if not gaps(e) and e.point is not None]
    left_out = [_why_left_out(e) for e in group if e not in whole]
    if not whole:
        return f"{group[0].contrast}, {metric_word(group[0].metric)}: nothing to report on {listed(left_out)}."
    if len(whole) == 1:
        amount = ratio_words(whole[0].point, whole[0].interval(primary))
        standing_words = _STANDINGS[standing(whole[0], primary)]
        parts = [f"{takes(whole[0], amount)} on {whole[0].case}: {_of(whole[0], standing_words)}"]
    else:
        parts = [
            f"{takes(whole[0], _points(whole))} over {len(whole)} cases (point estimates): "
            + "; ".join(_parts(whole, primary))
        ]
    return "; left out: ".join(parts + ([listed(left_out)] if left_out else [])) + "."


def _points(whole: Sequence[Estimate]) -> str:
    """``0.647 to 1.477``: the smallest and the largest point."""
    points = sorted(e.point for e in whole if e.point is not None)
    low, high = ratio_words(points[0], None), ratio_words(points[-1], None)
    return low if low == high else f"{low} to {high}"


def _parts(whole: Sequence[Estimate], primary: str) -> list[str]:
    """The standings that occur, in fixed order, each with its cases and their numbers in plan order."""
    parts = []
    for name, words in _STANDINGS.items():
        members = [e for e in whole if standing(e, primary) == name]
        if members:
            numbers = (f"{e.case} ({ratio_words(e.point, e.interval(primary))})" for e in members)
            parts.append(f"{_of(members[0], words)} on {listed(numbers)}")
    return parts


def _of(estimate: Estimate, words: str) -> str:
    """A standing in the words of blocks or, where none is known, of processes."""
    return words if estimate.paired else words.replace("block", "process")


def _why_left_out(estimate: Estimate) -> str:
    missing = gaps(estimate)
    return f"{estimate.case} ({gap_words(missing) if missing else 'no estimate'})"
