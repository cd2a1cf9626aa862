"""Recomputed estimates against published figures: which agree, which differ by more than rounding, which cannot be compared.

A published number stands for every value that rounds to it: one that is recomputed agrees when it lies within half a unit
of the last digit that was published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from analysis import page_parts, tables
from analysis.formats import DASH, fixed, usable
from analysis.model import Absolute, Estimate
from analysis.published import (
    Published,
    PublishedAbsolute,
    PublishedEstimate,
    inside,
    published_outside,
    read,
    rounds_to,
)
from analysis.published_fields import Pair
from analysis.published_sentences import number
from analysis.report import PhaseReport
from analysis.sentences import listed

DIFFERS, UNKNOWN, AGREES = "differs", "cannot be compared", "agrees"
MONTE_CARLO = 0.021  # of its width: how far an end of a percentile interval may move by its random numbers alone


@dataclass(frozen=True)
class Row:
    """One published figure beside what was recomputed."""

    what: str  # "final/before ns/op, LoadRecord: ratio"
    published: str
    recomputed: float | None
    status: str  # DIFFERS, UNKNOWN or AGREES
    why: str = ""


def has_published(report: PhaseReport) -> bool:
    """Whether a campaign has published figures to compare its estimates with."""
    return report.store.brought and report.store.published_path.is_file()


def section(report: PhaseReport) -> page_parts.Section:
    """The comparison of a phase of an adopted campaign; empty where nothing was published."""
    if not has_published(report):
        return page_parts.section()
    published = read(report.store, report.plan)
    rows = compare(published, report.identifier, report.estimates, report.absolutes)
    words = [text for text in published.remarks_of(report.identifier) if any(c.isdigit() for c in text)]
    return page_parts.section(page_parts.paragraphs(sentences(rows, len(words))), table(rows))


def sentences(rows: Sequence[Row], remarks: int = 0) -> list[str]:
    """How many figures agree, which differ, and which cannot be compared; ``remarks`` hold figures in words alone."""
    if not rows:
        return ["No figure of this phase was published."]
    differing = [row.what for row in rows if row.status == DIFFERS]
    unknown = [row.what for row in rows if row.status == UNKNOWN]
    agreeing = len(rows) - len(differing) - len(unknown)
    told = [
        f"{len(rows)} published figure{'s' * (len(rows) != 1)}: {agreeing} agree{'s' * (agreeing == 1)} with what the adopted "
        "logs give, to rounding."
    ]
    if differing:
        told.append(f"{len(differing)} differ{'s' * (len(differing) == 1)} by more than rounding: {listed(differing)}.")
    else:
        told.append("None differs by more than rounding.")
    if unknown:
        told.append(f"{len(unknown)} cannot be compared: {listed(unknown)}.")
    if remarks:
        told.append(
            f"{remarks} remark{'s' * (remarks != 1)} with figures in running words {_are(remarks)} not compared."
        )
    return told


def _are(count: int) -> str:
    return "was" if count == 1 else "were"


def table(rows: Sequence[Row]) -> tables.Markup:
    """Every figure, the differing ones first, then those that cannot be compared."""
    order = (DIFFERS, UNKNOWN, AGREES)
    ordered = sorted(rows, key=lambda row: order.index(row.status))
    cells = [(row.what, row.published, _shown(row), row.status, row.why or None) for row in ordered]
    head = ("figure", "published", "recomputed", "", "why")
    return tables.plain(head, cells, "Published figures against recomputed ones", numbers=[1, 2])


def _shown(row: Row) -> str:
    """Two digits more than were published; four decimals beside words."""
    if row.recomputed is None:
        return DASH
    number_published = row.published.replace("\u202f", "")
    digits = number_published.replace(".", "").isdigit()
    return fixed(row.recomputed, len(number_published.partition(".")[2]) + 2 if digits else 4)


# ---- the comparison -----------------------------------------------------------------------------------


def compare(
    published: Published, phase: str, estimates: Sequence[Estimate], absolutes: Sequence[Absolute]
) -> list[Row]:
    """Each published figure of a phase against the recomputed estimates, in the order of the file. Pure."""
    rows: list[Row] = []
    found = {(e.contrast, e.metric, e.case): e for e in estimates}
    for entry in published.estimates_of(phase):
        if entry.case is not None:
            rows += _of_case(entry, found.get((entry.contrast, entry.metric, entry.case)))
        else:
            rows += _of_group(entry, published, estimates)
    values = {(a.case, a.metric, a.arm): a.value for a in absolutes}
    for absolute in published.absolutes_of(phase):
        rows += _levels(absolute, values)
    return rows


def _row(what: str, published: Decimal, value: float | None, why: str, more: str = "") -> Row:
    if value is None or not usable(value):
        return Row(what, number(published), None, UNKNOWN, why)
    agrees = rounds_to(value, published)
    return Row(what, number(published), value, AGREES if agrees else DIFFERS, "" if agrees else more)


def _of_case(entry: PublishedEstimate, found: Estimate | None) -> Iterator[Row]:
    """The figures of one case. Where no estimate was recomputed, each says so."""
    name = f"{entry.contrast} {entry.metric}, {entry.case}"
    why = _why(found)
    if entry.ratio is not None:
        yield _row(f"{name}: ratio", entry.ratio, found.point if found else None, why, _unpaired(found))
    if entry.interval is not None:
        yield from _interval(name, entry.interval, found, why)
    if entry.below_one:
        yield _below_one(name, found, why)
    if entry.leave_one_out is not None:
        values = [value for value in (found.leave_one_out if found else ()) if value is not None]
        for end, planned, value in zip(("smallest", "largest"), entry.leave_one_out, _ends(values), strict=True):
            yield _row(f"{name}: {end} with one block left out", planned, value, why)
    if entry.largest_block is not None:
        ratios = found.ratios if found else ()
        yield _row(f"{name}: largest ratio of a block", entry.largest_block, max(ratios, default=None), why)
    if entry.text:
        yield Row(f"{name}: words", entry.text, None, UNKNOWN, "published in words")


def _unpaired(found: Estimate | None) -> str:
    """What else a difference of ratios may come from: the published one is over blocks."""
    return (
        "recomputed without blocks: a ratio of the arms' means over all processes" if found and not found.paired else ""
    )


def _why(found: Estimate | None) -> str:
    """Why a figure of an estimate was not recomputed, where it was not."""
    if found is None:
        return "no estimate of this case and metric was recomputed"
    texts = [warning.text for warning in found.warnings] or [
        f"block {gone.block}: {gone.reason}" for gone in found.missing
    ]
    return " ".join(texts) or "not recomputed"


def _ends(values: Sequence[float]) -> tuple[float | None, float | None]:
    return (min(values), max(values)) if values else (None, None)


def _interval(name: str, published: Pair, found: Estimate | None, why: str) -> Iterator[Row]:
    """Both ends of a percentile interval. Another random stream moves an end by itself, which is said where it may be all."""
    ends = found.percentile if found else None
    for place, end in enumerate(("lower", "upper")):
        value = ends[place] if ends else None
        more = ""
        if ends and value is not None:
            off = abs(value - float(published[place])) / (ends[1] - ends[0]) if ends[1] > ends[0] else 1.0
            if off <= MONTE_CARLO:
                more = f"by {off:.1%} of the interval's width, which other random numbers can do by themselves"
        yield _row(f"{name}: {end} end of the percentile interval", published[place], value, why, more)


def _below_one(name: str, found: Estimate | None, why: str) -> Row:
    what = f"{name}: interval below 1"
    if found is None or found.percentile is None:
        return Row(what, "below 1", None, UNKNOWN, why)
    upper = found.percentile[1]
    return Row(
        what, "below 1", upper, AGREES if upper < 1 else DIFFERS, "" if upper < 1 else "the upper end is not below 1"
    )


def _of_group(entry: PublishedEstimate, published: Published, estimates: Iterable[Estimate]) -> Iterator[Row]:
    """A range of several cases: every case must lie in it, but those that were published by themselves outside of it."""
    name = f"{entry.contrast} {entry.metric}, several cases"
    if entry.range is None:
        yield Row(f"{name}: words", entry.text, None, UNKNOWN, "published in words")
        return
    own = [e for e in estimates if (e.contrast, e.metric) == (entry.contrast, entry.metric)]
    apart = published_outside(entry, published.estimates_of(entry.phase))
    points = {e.case: e.point for e in own if usable(e.point) and e.point is not None and e.case not in apart}
    shown = f"{number(entry.range[0])} to {number(entry.range[1])}"
    if not points:
        yield Row(f"{name}: range", shown, None, UNKNOWN, "no estimate of this metric was recomputed")
        return
    outside = {case: point for case, point in points.items() if not inside(point, entry.range)}
    told = f"outside: {listed(f'{case} {fixed(point, 4)}' for case, point in outside.items())}" if outside else ""
    lost = [e.case for e in own if not usable(e.point)]
    left = f"without an estimate: {listed(lost)}" if lost else ""
    why = "; ".join(filter(None, (told, left, f"of {len(points)} cases")))
    yield Row(f"{name}: range", shown, None, DIFFERS if outside else AGREES, why)


def _levels(absolute: PublishedAbsolute, values: dict[tuple[str, str, str], float | None]) -> Iterator[Row]:
    """Absolute values, in the unit that they were published in."""
    for level in absolute.levels:
        value = values.get((absolute.case, absolute.metric, level.arm))
        scaled = None if value is None else float(Decimal(repr(float(value))) / level.factor)
        unit = absolute.unit or absolute.word
        yield _row(f"{absolute.case}, {level.arm}: {unit}", level.value, scaled, "no value of this arm was recomputed")
