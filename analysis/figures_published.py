"""The forest plot of published figures: what has an interval, what has none, and ranges of several cases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.drawing import (
    INK,
    SOFT,
    ArmStyle,
    Picture,
    Sheet,
    arm_style,
    bare,
    elided,
    picture,
    ratio_axis,
    ratio_limits,
)
from analysis.implied import Implied, implied_t
from analysis.model import Interval
from analysis.published import PublishedEstimate
from analysis.published_sentences import SEVERAL, floats, noun, range_words, ratio_words

DASHES = (0, (3, 1.5))
NO_INTERVAL = "no interval published"


@dataclass(frozen=True)
class Row:
    """One line of the plot. A ratio with or without an interval, or the range of several cases."""

    metric: str
    case: str
    numbers: str
    ratio: float | None = None
    interval: Interval | None = None
    implied: Interval | None = None
    range: Interval | None = None

    def ends(self) -> list[float]:
        """Everything that has a place on the axis."""
        pairs = [pair for pair in (self.interval, self.implied, self.range) if pair]
        return [*([self.ratio] if self.ratio else []), *(end for pair in pairs for end in pair)]


def rows(estimates: Iterable[PublishedEstimate], metrics: Sequence[str], blocks: object) -> list[Row]:
    """What of some estimates can be drawn, by metric in plan order; what was said in words alone cannot."""
    found = []
    for metric in metrics:
        found += [_row(e, blocks) for e in estimates if e.metric == metric and (e.ratio is not None or e.range)]
    return found


def _row(estimate: PublishedEstimate, blocks: object) -> Row:
    what, case = noun(estimate.word), estimate.shown or SEVERAL
    if estimate.ratio is None:
        assert estimate.range is not None
        return Row(what, case, range_words(estimate), range=floats(estimate.range))
    ratio = float(estimate.ratio)
    if estimate.interval is None:
        return Row(what, case, f"{ratio_words(estimate)}, {NO_INTERVAL}", ratio)
    interval = floats(estimate.interval)
    found: Implied | None = implied_t(ratio, interval, blocks)
    return Row(what, case, ratio_words(estimate), ratio, interval, found.likely if found else None)


def forest(panels: Mapping[str, Sequence[Row]], arms: Sequence[str]) -> Picture:
    """One panel per contrast with its rows grouped by metric, one log axis for all.

    Parameters
    ----------
    panels : contrasts and what to draw of each; a contrast without a row is left out.
    arms : arms of the phase at their places (for `arm_style`).
    """
    drawn = {contrast: found for contrast, found in panels.items() if found}
    limits = ratio_limits([end for found in drawn.values() for row in found for end in row.ends()])
    told = [
        f"{contrast}: " + "; ".join(f"{row.case}, {row.metric} {row.numbers}" for row in found)
        for contrast, found in drawn.items()
    ]
    return picture(
        lambda narrow: _forest(narrow, drawn, arms, limits),
        f"Forest plot of ratios as published, not recomputed. {'. '.join(told)}.",
    )


def _grouped(found: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    return [(metric, list(members)) for metric, members in itertools.groupby(found, key=lambda row: row.metric)]


def _forest(
    narrow: bool, panels: Mapping[str, Sequence[Row]], arms: Sequence[str], limits: tuple[float, float]
) -> Figure:
    row, heading = (0.54, 0.30) if narrow else (0.34, 0.28)
    title, sides, ticks = 0.26, 0.24, 0.36
    handles, columns = _handles(panels), 1 if narrow else 2
    key = 0.18 + 0.16 * math.ceil(len(handles) / columns)
    heights = {contrast: len(found) * row + len(_grouped(found)) * heading + 0.1 for contrast, found in panels.items()}
    sheet = Sheet(narrow, key + sum(heights.values()) + len(panels) * (title + sides + ticks + 0.08))
    left, right = (0.14, 0.14) if narrow else (2.3, 2.15)
    sheet.figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, fontsize=8,
                        borderaxespad=0.2, handlelength=2, columnspacing=1.0, labelspacing=0.35)  # fmt: skip
    top = key
    for contrast, found in panels.items():
        numerator = contrast.split("/")[0]
        sheet.text(0.04, top, contrast.replace("/", " / "), fontsize=10.5, fontweight="bold")
        sheet.text(left, top + title, f"\u25c2 {numerator} takes less", color=SOFT, fontsize=8.5)
        sheet.text(sheet.width - right, top + title, "more \u25b8", color=SOFT, fontsize=8.5, ha="right")
        axes = sheet.axes(left, top + title + sides, sheet.width - left - right, heights[contrast])
        axes.set_ylim(heights[contrast], 0)
        axes.set_yticks([])
        bare(axes, "bottom")
        ratio_axis(axes, *limits, most=6)
        y = 0.0
        for metric, members in _grouped(found):
            sheet.text(left if narrow else 0.04, top + title + sides + y + 0.08, elided(metric, 40), color=SOFT,
                       fontsize=8.5, bbox=_box())  # fmt: skip
            y += heading
            for member in members:
                _draw(axes, y + (0.36 if narrow else 0.16), member, arm_style(numerator, arms))
                _words(sheet, top + title + sides + y, member)
                y += row
        top += title + sides + heights[contrast] + ticks + 0.08
    return sheet.figure


def _box() -> dict[str, object]:
    return {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # keeps the grid out of the words


def _handles(panels: Mapping[str, Sequence[Row]]) -> list[Line2D]:
    """A key for every mark that occurs."""
    every = [row for found in panels.values() for row in found]
    handles = []
    if any(row.interval for row in every):
        handles.append(Line2D([], [], color=SOFT, linewidth=5, label="published percentile interval"))
    if any(row.implied for row in every):
        handles.append(Line2D([], [], color=INK, linewidth=1.2, linestyle=DASHES, marker="|", markersize=5,
                              label="t interval it implies, approximate"))  # fmt: skip
    if any(row.ratio and not row.interval for row in every):
        handles.append(Line2D([], [], linewidth=0, marker="o", color=SOFT, markerfacecolor="white", markersize=6.5,
                              label=NO_INTERVAL))  # fmt: skip
    if any(row.range for row in every):
        handles.append(Line2D([], [], color=SOFT, linewidth=1.2, marker="D", markersize=5, markerfacecolor="white",
                              label="range of several cases"))  # fmt: skip
    return handles


def _draw(axes: Axes, y: float, row: Row, style: ArmStyle) -> None:
    low, high = axes.get_xlim()

    def line(pair: Interval, at: float, **look: Any) -> None:
        ends = [min(max(end, low), high) for end in pair]
        axes.plot(ends, [at, at], zorder=3, **look)

    if row.range:
        line(row.range, y, color=style.colour, linewidth=1.2, marker="D", markersize=5, markerfacecolor="white")
    if row.interval:
        line(row.interval, y, color=style.colour, linewidth=5.0, alpha=0.55, solid_capstyle="butt")
    if row.implied:
        line(row.implied, y + 0.085, color=INK, linewidth=1.2, linestyle=DASHES, marker="|", markersize=5)
    if row.ratio:
        outside = "<" if row.ratio < low else ">" if row.ratio > high else ""
        edge, face = ("white", style.colour) if row.interval else (style.colour, "white")
        axes.plot([min(max(row.ratio, low), high)], [y], outside or style.marker, color=style.colour, markersize=6.0,
                  markeredgecolor=edge, markerfacecolor=face, markeredgewidth=0.9, zorder=5, clip_on=False)  # fmt: skip


def _words(sheet: Sheet, top: float, row: Row) -> None:
    if sheet.narrow:
        sheet.text(0.14, top + 0.05, elided(row.case, 52 - len(row.numbers)), fontsize=8.2, bbox=_box())
        sheet.text(sheet.width - 0.04, top + 0.05, row.numbers, fontsize=7.8, ha="right", bbox=_box())
    else:
        sheet.text(0.04, top + 0.16, elided(row.case, 33), fontsize=8.6, va="center")
        sheet.text(sheet.width - 0.04, top + 0.16, row.numbers, fontsize=8.6, ha="right", va="center")
