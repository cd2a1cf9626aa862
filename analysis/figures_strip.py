"""The small multiples of the front page: one lane per phase, ratios as dots around 1 on one log axis for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.drawing import (
    LINE,
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
from analysis.formats import fixed
from analysis.model import Estimate

Lane = tuple[str, str, Sequence[Estimate]]  # phase, contrast and metric, estimates


def strip(
    phases: Mapping[str, Sequence[Estimate]],
    *,
    arms: Sequence[str] | Mapping[str, Sequence[str]],
    primary: str,
    lead: str = "Ratios of each phase around 1",
) -> Picture:
    """One lane per phase and contrast: ratios as dots, filled where the primary interval excludes 1, hollow otherwise.

    Parameters
    ----------
    phases : a phase's name and the estimates to show of it, of one metric; an estimate without a point is left out.
    arms : arms at their places (for `arm_style`): for all phases, or for each by its name.
    primary : "t" or "percentile".
    lead : what the description of the figure begins with.
    """
    lanes: list[Lane] = []
    styles: dict[Lane, ArmStyle] = {}
    for phase, estimates in phases.items():
        for contrast, metric in dict.fromkeys((e.contrast, e.metric) for e in estimates):
            row = tuple(e for e in estimates if (e.contrast, e.metric) == (contrast, metric))
            lane = (phase, f"{contrast}, {metric}", row)
            lanes.append(lane)
            styles[lane] = arm_style(contrast.split("/")[0], arms[phase] if isinstance(arms, Mapping) else arms)
    limits = ratio_limits([e.point for _, _, row in lanes for e in row if e.point is not None])

    def draw(narrow: bool) -> Figure:
        return _strip(narrow, lanes, [styles[lane] for lane in lanes], primary, limits)

    told = [
        f"{phase} ({what}): " + ", ".join(_told(e) for e in row) + f"; {_count(row, primary)}"
        for phase, what, row in lanes
    ]
    return picture(draw, f"{lead}. {'. '.join(told)}.")


def _told(estimate: Estimate) -> str:
    if estimate.point is None:
        return f"{estimate.case} without an estimate"
    return f"{estimate.case} {fixed(estimate.point, 3)}"


def _excludes(estimate: Estimate, primary: str) -> bool:
    interval = estimate.interval(primary)
    return interval is not None and not interval[0] <= 1 <= interval[1]


def _count(row: Sequence[Estimate], primary: str) -> str:
    """``3 of 8 exclude 1``: of the estimates with an interval; "no interval" where none has one."""
    with_interval = [e for e in row if e.interval(primary)]
    if not with_interval:
        return "no interval"
    return f"{sum(_excludes(e, primary) for e in with_interval)} of {len(with_interval)} exclude 1"


def _strip(
    narrow: bool, lanes: Sequence[Lane], styles: Sequence[ArmStyle], primary: str, limits: tuple[float, float]
) -> Figure:
    lane, words = (0.24, 0.36) if narrow else (0.36, 0.0)
    height = max((lane + words) * len(lanes), lane)
    top, key = 0.26, 0.62 if narrow else 0.56
    sheet = Sheet(narrow, top + height + key)
    left, right = (0.16, 0.16) if narrow else (2.6, 1.3)
    axes = sheet.axes(left, top, sheet.width - left - right, height)
    axes.set_ylim(height, 0)
    axes.set_yticks([])
    bare(axes, "bottom")
    ratio_axis(axes, *limits, most=5 if narrow else 7)
    sheet.text(left, 0.05, "\u25c2 numerator takes less", color=SOFT, fontsize=8)
    sheet.text(sheet.width - right, 0.05, "more \u25b8", color=SOFT, fontsize=8, ha="right")
    before = None
    for place, ((phase, what, row), style) in enumerate(zip(lanes, styles, strict=True)):
        y = place * (lane + words)
        _lane_words(sheet, top + y, phase if phase != before else "", what, _count(row, primary))
        middle = y + words + lane / 2
        axes.axhline(middle, color=LINE, linewidth=0.5, zorder=0)
        for estimate in row:
            _dot(axes, middle, estimate, primary, style)
        before = phase
    _key(sheet, primary)
    return sheet.figure


def _lane_words(sheet: Sheet, top: float, phase: str, what: str, count: str) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # keeps the grid out of the words
    if sheet.narrow:
        sheet.text(0.04, top + 0.04, elided(phase, 46), fontsize=8.5, fontweight="bold", bbox=box)
        sheet.text(0.04, top + 0.2, elided(what, 38), fontsize=8, color=SOFT, bbox=box)
        sheet.text(sheet.width - 0.04, top + 0.2, count, fontsize=8, color=SOFT, ha="right", bbox=box)
    else:
        sheet.text(0.04, top + 0.03, elided(phase, 34), fontsize=8.8, fontweight="bold")
        sheet.text(0.04, top + 0.185, elided(what, 42), fontsize=8, color=SOFT)
        sheet.text(sheet.width - 0.04, top + 0.18, count, fontsize=8.5, ha="right", va="center")


def _dot(axes: Axes, y: float, estimate: Estimate, primary: str, style: ArmStyle) -> None:
    """A ratio as the numerator's marker; one beyond the axis is an arrow at its edge."""
    if estimate.point is None:
        return
    low, high = axes.get_xlim()
    outside = "<" if estimate.point < low else ">" if estimate.point > high else ""
    face = style.colour if _excludes(estimate, primary) else "white"
    axes.plot(
        [min(max(estimate.point, low), high)], [y], outside or style.marker, color=style.colour, markersize=6, alpha=0.85,
        markerfacecolor=face, zorder=4, clip_on=False,
    )  # fmt: skip


def _key(sheet: Sheet, primary: str) -> None:
    handles = [
        Line2D([], [], linewidth=0, marker="o", color=SOFT, label=f"{primary} interval excludes 1"),
        Line2D([], [], linewidth=0, marker="o", color=SOFT, markerfacecolor="white", label="includes 1, or has none"),
    ]
    columns = 1 if sheet.narrow and primary == "percentile" else 2  # its words take the whole width of a phone
    sheet.figure.legend(handles=handles, loc="lower right", ncols=columns, frameon=False, fontsize=8, borderaxespad=0.1,
                        handletextpad=0.2, columnspacing=0.8)  # fmt: skip
