"""Numbers that runs record beside their metrics, such as statements per operation: shown for each case and arm.

They are counted, not timed: the value is expected to be the same in all good runs of a case and arm. Where it is not, the
range is shown and said; there is no average.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import tables
from analysis.arms import arm_places
from analysis.drawing import LINE, SOFT, Picture, Sheet, arm_style, bare, elided, picture
from analysis.escaping import escaped
from analysis.formats import DASH, fixed, three_digits
from analysis.report import PhaseReport
from analysis.scales import linear_ticks, value_axis
from analysis.tables import Markup
from runner.errors import DataError
from runner.plan import Covariate, Phase
from runner.store import Labels

WIDE_SPAN = 20.0  # largest over smallest value, from which an axis is logarithmic


@dataclass(frozen=True)
class Count:
    """What the good runs of one case and arm recorded of one covariate; without values, none recorded it."""

    covariate: str
    unit: str
    case: str
    arm: str
    values: tuple[float, ...]  # different ones, ascending
    runs: int  # good runs that recorded it

    @property
    def text(self) -> str:
        """The value, the range where there is more than one, or a dash."""
        if not self.values:
            return DASH
        if len(self.values) == 1:
            return number_text(self.values[0])
        return f"{number_text(self.values[0])} to {number_text(self.values[-1])}"


def shown(phase: Phase) -> list[Covariate]:
    """The covariates that are numbers to be shown, in plan order."""
    return [covariate for covariate in phase.covariates if covariate.unit]


def counts_of(phase: Phase, runs: Mapping[Labels, Mapping[str, Any]]) -> tuple[Count, ...]:
    """Every covariate with a unit, by case and arm, in plan order; cases of which no run recorded it are left out.

    Raises DataError, with the run, for a value that is not a finite number.
    """
    found: dict[tuple[str, str, str], list[float]] = {}
    for labels, record in runs.items():
        if record["outcome"] != "ok":
            continue
        for covariate in shown(phase):
            text = record["covariates"].get(covariate.name)
            if text is not None:
                key = covariate.name, labels.case, labels.arm
                found.setdefault(key, []).append(_number(text, covariate.name, labels))
    return tuple(
        Count(covariate.name, covariate.unit, case.name, arm.name, tuple(sorted(set(values))), len(values))
        for covariate in shown(phase)
        for case in phase.cases
        if any((covariate.name, case.name, arm.name) in found for arm in phase.arms)
        for arm in phase.arms
        for values in [found.get((covariate.name, case.name, arm.name), [])]
    )


def _number(text: Any, name: str, labels: Labels) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise DataError(str(labels), f"covariate {name} is not a number", expected="a finite number", found=repr(text))
    return value


def number_text(value: float) -> str:
    """A count as it was recorded, up to four decimals; beyond them three significant digits."""
    places = next((p for p in range(5) if math.isclose(value, round(value, p), rel_tol=1e-9, abs_tol=1e-12)), None)
    return three_digits(value) if places is None else fixed(value, places)


def table(report: PhaseReport) -> Markup:
    """One table for each covariate with a unit: cases as rows, arms as columns, the range where a value varies."""
    found = counts_of(report.phase, report.runs)
    return Markup("".join(_table(covariate, found, report.arms) for covariate in shown(report.phase)))


def _table(covariate: Covariate, found: Sequence[Count], arms: Sequence[str]) -> Markup:
    own = [count for count in found if count.covariate == covariate.name]
    if not own:
        return Markup(f"<p>{escaped(f'No good run recorded {covariate.name}.')}</p>")
    rows = []
    for case in dict.fromkeys(count.case for count in own):
        by_arm = {count.arm: count for count in own if count.case == case}
        notes = [note for count in by_arm.values() if (note := _note(count))]
        rows.append((case, *(by_arm[arm].text for arm in arms), "; ".join(notes) or "the same in all good runs"))
    caption = f"{covariate.name}: {covariate.what}"
    head = ("case", *(f"{arm} ({covariate.unit})" for arm in arms), "between runs")
    return tables.plain(head, rows, caption, numbers=range(1, len(arms) + 1))


def _note(count: Count) -> str:
    if not count.values:
        return f"{count.arm}: not recorded by any good run"
    if len(count.values) > 1:
        return f"{count.arm}: {len(count.values)} different values in {count.runs} good runs"
    return ""


def sentences(report: PhaseReport) -> list[str]:
    """That every such number is the same in all good runs of a case and arm, or where it is not."""
    found = counts_of(report.phase, report.runs)
    varying = [f"{c.covariate} of {c.arm} on {c.case} ({c.text} {c.unit})" for c in found if len(c.values) > 1]
    if not found:
        return []
    if not varying:
        return [
            f"All {sum(bool(c.values) for c in found)} counts are the same in every good run of their case and arm."
        ]
    return [f"Not the same in all good runs, so shown as a range: {'; '.join(varying)}."]


def figure(report: PhaseReport) -> Picture:
    """A panel for each covariate with a unit: a row for each case and arm, a dot at its value, a bar over its range."""
    return drawn(counts_of(report.phase, report.runs), arm_places(report.plan, report.identifier))


def drawn(found: Sequence[Count], arms: Sequence[str]) -> Picture:
    """`figure` of counts; ``arms`` are those of `arm_places`."""
    panels: dict[tuple[str, str], list[Count]] = {}
    for count in found:
        panels.setdefault((count.covariate, count.unit), []).append(count)

    def draw(narrow: bool) -> Figure:
        return _draw(narrow, panels, arms)

    told = []
    for (name, unit), counts in panels.items():
        cases = dict.fromkeys(count.case for count in counts)
        rows = (f"{case} " + ", ".join(f"{c.arm} {c.text}" for c in counts if c.case == case) for case in cases)
        told.append(f"{name} in {unit}: {'; '.join(rows)}.")
    return picture(draw, " ".join(["Counts for each case and arm.", *told]))


def _draw(narrow: bool, panels: Mapping[tuple[str, str], Sequence[Count]], arms: Sequence[str]) -> Figure:
    row, gap, heading, ticks = 0.17, 0.1, 0.28, 0.3
    case_line = 0.2 if narrow else 0.0
    heights = [_height(counts, row, gap, case_line) for counts in panels.values()]
    sheet = Sheet(narrow, 0.1 + sum(heights) + len(panels) * (heading + ticks))
    longest = max((len(count.text) for counts in panels.values() for count in counts), default=0)
    left, right = 0.95 if narrow else 3.0, 0.2 + 0.063 * longest
    top = 0.06
    for ((name, unit), counts), height in zip(panels.items(), heights, strict=True):
        sheet.text(0.04, top, elided(f"{name} ({unit})", 38 if narrow else 80), fontsize=9, fontweight="bold")
        axes = sheet.axes(left, top + heading, sheet.width - left - right, height)
        axes.set_ylim(height, 0)
        axes.set_yticks([])
        bare(axes, "bottom")
        _axis(axes, [value for count in counts for value in count.values], 2 if narrow else 5, unit)
        y = 0.0
        for case in dict.fromkeys(count.case for count in counts):
            rows = [count for count in counts if count.case == case]
            place = top + heading + y
            if narrow:
                sheet.text(0.04, place + 0.03, elided(case, 44), fontsize=8)
            else:
                middle = place + len(rows) * row / 2
                sheet.text(0.04, middle, elided(case, 28), fontsize=8.5, va="center")
            for at, count in enumerate(rows):
                middle = y + case_line + (at + 0.5) * row
                _dot(axes, count, middle, arms)
                words = {"fontsize": 7.8, "va": "center"}
                arm = elided(count.arm, 12)
                sheet.text(left - 0.08, top + heading + middle, arm, ha="right", color=SOFT, **words)
                sheet.text(sheet.width - 0.04, top + heading + middle, count.text, ha="right", **words)
            y += case_line + len(rows) * row + gap
        top += heading + height + ticks
    return sheet.figure


def _height(counts: Sequence[Count], row: float, gap: float, case_line: float) -> float:
    return len({count.case for count in counts}) * (case_line + gap) + len(counts) * row


def _axis(axes: Axes, values: Iterable[float], most: int, unit: str) -> None:
    """Logarithmic where the values' span is wide and all are above 0; else linear from 0.

    Ticks of bytes on a log axis have kB and MB, so that they fit beside each other.
    """
    known = list(values)
    low, high = min(known, default=0.0), max(known, default=1.0)
    if low > 0 and high / low > WIDE_SPAN:
        value_axis(axes, low, high, "B" if unit.startswith("B ") else "", which="x", most=most)
    else:
        low, high = min(low, 0.0), max(high, 0.0) or 1.0
        axes.set_xlim(low * 1.05, high * 1.05)
        ticks = linear_ticks(low, high, most + 1)
        axes.set_xticks(ticks, [number_text(tick) for tick in ticks])
        for tick in ticks:
            axes.axvline(tick, color=LINE, linewidth=0.5, zorder=0)
    axes.tick_params(axis="x", length=2, pad=2)


def _dot(axes: Axes, count: Count, y: float, arms: Sequence[str]) -> None:
    if not count.values:
        return
    style = arm_style(count.arm, arms)
    start, end = count.values[0], count.values[-1]
    axes.axhline(y, color=LINE, linewidth=0.4, zorder=0)
    axes.plot([start, end], [y, y], color=style.colour, linewidth=2.5, alpha=0.6, zorder=3, solid_capstyle="butt")
    ends = [start] if start == end else [start, end]
    axes.plot(ends, [y] * len(ends), style.marker, color=style.colour, markersize=5, linewidth=0, zorder=4)
