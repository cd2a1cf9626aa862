"""Sentences computed from published figures: what was published of each contrast and metric. Pure.

No digit is typed: every number is one of the file's, with the decimals it was published with. An interval that includes 1 is
"not resolved by their data"; a figure without an interval says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from analysis.formats import THIN
from analysis.implied import implied_t, then
from analysis.model import Interval
from analysis.published import PublishedEstimate
from analysis.published_fields import Pair
from analysis.sentences import METRIC_WORDS, listed, side

SEVERAL = "several cases together"
STANDINGS = {
    "below": "interval below 1",
    "above": "interval above 1",
    "includes": "interval includes 1: not resolved",
    "below-one": "stated as below 1, no interval published",
    "none": "no interval published",
}
IN_SENTENCES = {  # of one figure, and of several
    "below": ("the published interval lies below 1", "the published intervals lie below 1"),
    "above": ("the published interval lies above 1", "the published intervals lie above 1"),
    "includes": (
        "the published interval includes 1, so that their data did not resolve it",
        "the published intervals include 1, so that their data did not resolve it",
    ),
    "below-one": ("published as below 1 without an interval",) * 2,
    "none": ("no interval published",) * 2,
}


def number(value: Decimal) -> str:
    """A number as it was published, thousands apart."""
    return f"{value:,f}".replace(",", THIN)


def pair_words(pair: Pair) -> str:
    """``[0.440, 0.858]`` as published."""
    return f"[{number(pair[0])}, {number(pair[1])}]"


def ratio_words(estimate: PublishedEstimate) -> str:
    """``0.663 [0.440, 0.858]``, or the ratio alone; "" without a ratio."""
    if estimate.ratio is None:
        return ""
    return number(estimate.ratio) + (f" {pair_words(estimate.interval)}" if estimate.interval else "")


def floats(pair: Pair) -> Interval:
    """Both ends as floats, for what is computed with them."""
    return float(pair[0]), float(pair[1])


def noun(word: str) -> str:
    """The noun for a published metric."""
    return METRIC_WORDS.get(word, word)


def standing(estimate: PublishedEstimate) -> str:
    """Where the published interval lies, or that there is none: a key of `STANDINGS`."""
    if estimate.interval is None:
        return "below-one" if estimate.below_one else "none"
    return side(floats(estimate.interval))


def range_words(estimate: PublishedEstimate) -> str:
    """``0.63 to 0.89, a range``, or "" without one."""
    return f"{number(estimate.range[0])} to {number(estimate.range[1])}, a range" if estimate.range else ""


def beside_ratio(estimate: PublishedEstimate) -> list[str]:
    """What was published beside a ratio, or in place of one: single blocks, and words beside a number."""
    told = []
    if estimate.leave_one_out:
        told.append(f"one block left out: {number(estimate.leave_one_out[0])} to {number(estimate.leave_one_out[1])}")
    if estimate.largest_block:
        told.append(f"largest ratio of a block: {number(estimate.largest_block)}")
    if estimate.change:
        told.append(f"given as {estimate.change}")
    return [*told, f"in words: {estimate.text}"] if estimate.text and estimate.ratio is not None else told


def statement(estimate: PublishedEstimate) -> str:
    """What was published about one estimate, for a table."""
    if estimate.ratio is not None:
        return STANDINGS[standing(estimate)]
    return "in words: " + estimate.text if estimate.text else "no ratio published"


def sentences(estimates: Sequence[PublishedEstimate], contrasts: Iterable[str], metrics: Iterable[str]) -> list[str]:
    """One sentence for each contrast and metric of which something was published, in plan order."""
    units = list(metrics)
    told = []
    for contrast in contrasts:
        for metric in units:
            group = [e for e in estimates if (e.contrast, e.metric) == (contrast, metric)]
            if group:
                told.append(_sentence(group))
    return told


def _sentence(group: Sequence[PublishedEstimate]) -> str:
    first = group[0]
    verb = "takes" if first.metric == "ns/op" else "has"
    what = noun(first.word)
    parts: list[str] = []
    for name in STANDINGS:
        members = [e for e in group if e.ratio is not None and standing(e) == name]
        if members:
            amounts = listed(f"{ratio_words(e)} ({e.shown})" for e in members)
            words = IN_SENTENCES[name][len(members) > 1]
            of = f" of {first.denominator}'s {what}" if not parts else ""
            parts.append(f"{amounts}{of}: {words}")
    told = f"{first.numerator} {verb} {'; '.join(parts)}" if parts else f"{first.contrast}, {what}"
    others = [words for e in group if (words := _without_ratio(e))]
    return f"{told}{'; ' if parts else ': '}{'; '.join(others)}." if others else f"{told}."


def _without_ratio(estimate: PublishedEstimate) -> str:
    """What was published beside a ratio or in place of one."""
    told = []
    if estimate.range:
        low, high = estimate.range
        bounds, words = f"{number(low)} to {number(high)}", estimate.text
        if bounds not in words:
            words = f"{bounds} ({words})" if words else bounds
        told.append(f"over several cases together {words}")
    elif estimate.ratio is None and estimate.text:
        told.append(f"in words: {estimate.text}")
    where = f" ({estimate.shown})" if estimate.shown else ""
    if estimate.leave_one_out:
        low, high = estimate.leave_one_out
        told.append(f"{number(low)} to {number(high)} when one block is left out{where}")
    if estimate.largest_block:
        told.append(f"{number(estimate.largest_block)} in the block with the largest ratio{where}")
    if told and estimate.ratio is None and not estimate.range and not estimate.text:
        told.append("the ratio itself is not among the figures here")
    return ", ".join(told)


# ---- what a t interval would leave ----------------------------------------------------------------------

FATES = {
    "excludes": "no: would exclude 1",
    "includes": "yes: would include 1",
    "depends": "depends on the width",
    "open": "not resolved as published",
    "unknown": "not assessable",
}


def fate(estimate: PublishedEstimate, blocks: object) -> str:
    """What would become of an estimate by the t interval that it implies: a key of `FATES`."""
    if estimate.interval is None or estimate.ratio is None:
        return "unknown"
    interval = floats(estimate.interval)
    return then(interval, implied_t(float(estimate.ratio), interval, blocks))


def assessment(estimates: Sequence[PublishedEstimate], blocks: object) -> list[str]:
    """Which published statements the t interval would leave unresolved, which not, and which nobody can assess."""
    with_ratio = [e for e in estimates if e.ratio is not None]
    given = [e for e in with_ratio if e.interval is not None]
    told = [counted(estimates)]
    by_fate = {name: [e for e in given if fate(e, blocks) == name] for name in FATES}
    if given and by_fate["unknown"]:
        told.append(why_unknown(blocks))
    elif given:
        stated = len(given) - len(by_fate["open"])
        told.append(
            f"{stated} of these exclude{'s' * (stated == 1)} 1. By the t interval that each implies (approximate), "
            f"{_kept(by_fate['excludes'])}; {_lost(by_fate['includes'], by_fate['depends'])}."
        )
    claimed = [e for e in with_ratio if e.below_one]
    if claimed:
        told.append(
            f"Published as below 1 without an interval, so that it cannot be assessed: {listed(map(named, claimed))}."
        )
    return told


def why_unknown(blocks: object) -> str:
    """Why nothing is implied: no number of blocks is defined, or no widths were simulated at it (None: at the level)."""
    if blocks is None:
        return "Which t interval a percentile interval implies was simulated at the level 0.95 alone."
    if not isinstance(blocks, int):
        return (
            "The number of blocks is not defined, so that neither what these intervals cover nor the t interval that they "
            "imply can be said."
        )
    return f"Which t interval a percentile interval implies was not simulated at {blocks} blocks."


def counted(estimates: Sequence[PublishedEstimate]) -> str:
    """How many ratios were published, and of how many an interval."""
    ratios = [e for e in estimates if e.ratio is not None]
    given = sum(e.interval is not None for e in ratios)
    if not ratios:
        return "No ratio was published."
    if len(ratios) == 1:
        return f"One ratio was published, {'with' if given else 'without'} an interval."
    many = "all" if given == len(ratios) else given or "none"
    return f"{len(ratios)} ratios were published, {many} of them with an interval."


def named(estimate: PublishedEstimate) -> str:
    """An estimate in a list: ``final/cgo mean latency on range100 (0.663 [0.440, 0.858])``."""
    return f"{estimate.contrast} {noun(estimate.word)} on {estimate.shown} ({ratio_words(estimate)})"


def _kept(kept: Sequence[PublishedEstimate]) -> str:
    return f"{len(kept)} still would" if kept else "none still would"


def _lost(lost: Sequence[PublishedEstimate], unclear: Sequence[PublishedEstimate]) -> str:
    told = [f"{len(lost)} would include 1 and be unresolved: {listed(map(named, lost))}"] if lost else []
    if unclear:
        told.append(f"{len(unclear)} would depend on the width in the band: {listed(map(named, unclear))}")
    return "; ".join(told) or "none would be unresolved"
