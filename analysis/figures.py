"""The figures of a page. Every function takes estimates or plain mappings and returns a `Picture`.

Shapes in, pictures out: nothing is read from disk and nothing is computed but where a mark goes. What
does not exist is written as a dash, and what does not fit on an axis is an arrow at its edge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

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
from analysis.figures_blocks import blocks_in_order, order_map
from analysis.figures_strip import strip
from analysis.formats import duration_text, fixed, ratio_text
from analysis.model import Estimate, Interval
from analysis.sentences import UNPAIRED_INTERVAL

__all__ = ["arm_style", "blocks_in_order", "forest", "order_map", "side_words", "strip", "where_time_goes"]

Groups = Mapping[str, Sequence[str]]


def side_words(metric: str, numerator: str) -> tuple[str, str]:
    """What a ratio below and above 1 means: time is faster or slower, all else lower or higher."""
    timed = metric.split("/")[0].rsplit("-")[-1] in {"ns", "us", "ms", "s"} and "cpu" not in metric
    below, above = ("faster", "slower") if timed else ("lower", "higher")
    return f"{numerator} {below}", f"{numerator} {above}"


def _grouped(cases: Groups | Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    return list(cases.items()) if isinstance(cases, Mapping) else [("", cases)]


def _values(estimates: Iterable[Estimate]) -> tuple[list[float], list[float]]:
    """Points and interval ends, and the single blocks, of what there is to draw."""
    ends: list[float] = []
    blocks: list[float] = []
    for estimate in estimates:
        ends += [estimate.point] if estimate.point is not None else []
        ends += [end for interval in (estimate.t, estimate.percentile) if interval for end in interval]
        blocks += estimate.ratios
    return ends, blocks


# ---- forest plot --------------------------------------------------------------------------------------


def forest(
    estimates: Sequence[Estimate],
    contrasts: Mapping[str, str] | Sequence[str],
    cases: Groups | Sequence[str],
    *,
    metric: str,
    primary: str,
    arms: Sequence[str],
) -> Picture:
    """One panel per contrast, cases as rows in plan order, one log axis for all panels.

    Parameters
    ----------
    estimates : any order; those of other metrics are ignored.
    contrasts : "final/before" names, or a mapping from them to a short text.
    cases : case names in plan order, or a mapping from a group's heading to its cases.
    metric : the metric to draw, such as "ns/op".
    primary : "t" or "percentile"; its interval is the thick bar, the other one the thin one below it. Of unpaired
        estimates there is one interval, and no block.
    arms : all arms of the campaign in plan order (for `arm_style`).
    """
    texts = dict(contrasts) if isinstance(contrasts, Mapping) else dict.fromkeys(contrasts, "")
    found = {(e.contrast, e.case): e for e in estimates if e.metric == metric}
    groups = _grouped(cases)
    order = [case for _, names in groups for case in names]
    panels = {name: {case: found.get((name, case)) for case in order} for name in texts}
    drawn = [estimate for panel in panels.values() for estimate in panel.values() if estimate]
    limits = ratio_limits(*_values(drawn))

    def draw(narrow: bool) -> Figure:
        return _forest(narrow, panels, texts, groups, metric, primary, arms, limits)

    return picture(draw, _forest_alt(panels, metric, primary))


def _forest_alt(panels: Mapping[str, Mapping[str, Estimate | None]], metric: str, primary: str) -> str:
    beside = f"with {primary} intervals" if _paired(panels) else f"with intervals by {UNPAIRED_INTERVAL}"
    lines = [f"Forest plot of {metric} ratios {beside}."]
    for contrast, rows in panels.items():
        told = [f"{case} {_numbers(estimate, primary)}" for case, estimate in rows.items()]
        lines.append(f"{contrast}: " + "; ".join(told) + ".")
    return " ".join(lines)


def _paired(panels: Mapping[str, Mapping[str, Estimate | None]]) -> bool:
    return all(e.paired for rows in panels.values() for e in rows.values() if e)


def _numbers(estimate: Estimate | None, primary: str) -> str:
    if estimate is None or estimate.point is None:
        return "no estimate"
    return ratio_text(estimate.point, estimate.interval(primary))


def _forest(
    narrow: bool,
    panels: Mapping[str, Mapping[str, Estimate | None]],
    texts: Mapping[str, str],
    groups: Sequence[tuple[str, Sequence[str]]],
    metric: str,
    primary: str,
    arms: Sequence[str],
    limits: tuple[float, float],
) -> Figure:
    row, heading = (0.54, 0.30) if narrow else (0.36, 0.28)
    title, sides, ticks = (0.44 if any(texts.values()) else 0.26), 0.24, 0.36
    rows = sum(len(names) for _, names in groups) * row + sum(heading for group, _ in groups if group)
    key = 0.62 if narrow else 0.34
    sheet = Sheet(narrow, key + len(panels) * (title + sides + rows + ticks + 0.08))
    left, right = (0.14, 0.14) if narrow else (2.15, 1.75)
    _forest_key(sheet, primary, paired=_paired(panels))
    top = key
    for contrast, estimates in panels.items():
        numerator = contrast.split("/")[0]
        sheet.text(0.04, top, contrast.replace("/", " / "), fontsize=10.5, fontweight="bold")
        sheet.text(0.04, top + 0.21, elided(texts[contrast], 52 if narrow else 100), color=SOFT, fontsize=8.5)
        below, above = side_words(metric, numerator)
        sheet.text(left, top + title, f"\u25c2 {below}", color=SOFT, fontsize=8.5)
        sheet.text(sheet.width - right, top + title, f"{above} \u25b8", color=SOFT, fontsize=8.5, ha="right")
        axes = sheet.axes(left, top + title + sides, sheet.width - left - right, rows)
        axes.set_ylim(rows, 0)
        axes.set_yticks([])
        bare(axes, "bottom")
        ratio_axis(axes, *limits, most=6 if narrow else 7)
        y = 0.0
        for group, names in groups:
            if group:
                label_x = left if narrow else 0.04
                words = elided(group, 40)
                sheet.text(label_x, top + title + sides + y + 0.08, words, color=SOFT, fontsize=8.5)
                y += heading
            for case in names:
                place = y + (0.36 if narrow else 0.16)
                _forest_row(axes, place, estimates[case], primary, arm_style(numerator, arms))
                _forest_words(sheet, top + title + sides + y, case, _numbers(estimates[case], primary))
                y += row
        top += title + sides + rows + ticks + 0.08
    return sheet.figure


def _forest_key(sheet: Sheet, primary: str, paired: bool) -> None:
    other = "percentile" if primary == "t" else "t"
    leading = f"{primary} interval (primary)" if paired else f"{UNPAIRED_INTERVAL}; no blocks are known"
    handles = [
        Line2D([], [], color=SOFT, linewidth=5, solid_capstyle="butt", label=leading),
        Line2D([], [], color=INK, linewidth=1.2, marker="|", markersize=5, label=f"{other} interval"),
        Line2D([], [], color=SOFT, linewidth=0, marker="|", markersize=7, label="single blocks"),
    ]
    handles = handles if paired else handles[:1]
    sheet.figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0, 1),
        ncols=2 if sheet.narrow else 3,
        frameon=False,
        fontsize=8,
        borderaxespad=0.2,
        handlelength=2,
        columnspacing=1.0,
        labelspacing=0.35,
    )


def _forest_row(axes: Axes, y: float, estimate: Estimate | None, primary: str, style: ArmStyle) -> None:
    if estimate is None or estimate.point is None:
        return
    other = "percentile" if primary == "t" else "t"
    low, high = axes.get_xlim()
    for ratio in estimate.ratios:
        _mark_block(axes, ratio, y - 0.085, low, high)
    _bar(axes, estimate.interval(primary), y, style.colour, 5.0, 0.55)
    _bar(axes, estimate.interval(other), y + 0.085, INK, 1.2, 1.0)
    ends = estimate.interval(other)
    inside = [end for end in ends if low <= end <= high] if ends else []
    axes.plot(inside, [y + 0.085] * len(inside), "|", color=INK, markersize=5, markeredgewidth=1.2)
    if low <= estimate.point <= high:
        axes.plot(
            [estimate.point], [y], style.marker, color=style.colour, markersize=6.5,
            markeredgecolor="white", markeredgewidth=0.9, zorder=5,
        )  # fmt: skip


def _mark_block(axes: Axes, ratio: float, y: float, low: float, high: float) -> None:
    if low <= ratio <= high:
        axes.plot([ratio], [y], "|", color=SOFT, markersize=5.5, markeredgewidth=0.9, alpha=0.75)
        return
    edge, marker = (low, 4) if ratio < low else (high, 5)  # 4 and 5 are matplotlib's carets to left and right
    axes.plot([edge], [y], marker=marker, color=SOFT, markersize=5, clip_on=False)


def _bar(axes: Axes, interval: Interval | None, y: float, colour: str, width: float, alpha: float) -> None:
    if interval is None:
        return
    low, high = axes.get_xlim()
    start, end = max(interval[0], low), min(interval[1], high)
    axes.plot([start, end], [y, y], color=colour, linewidth=width, alpha=alpha, solid_capstyle="butt", zorder=3)
    for outside, edge, marker in ((interval[0] < low, low, "<"), (interval[1] > high, high, ">")):
        if outside:
            axes.plot([edge], [y], marker=marker, color=colour, markersize=5, clip_on=False, zorder=4)


def _forest_words(sheet: Sheet, top: float, case: str, numbers: str) -> None:
    if sheet.narrow:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # keeps the grid out of the words
        sheet.text(0.14, top + 0.05, elided(case, 48 - len(numbers)), fontsize=8.5, bbox=box)
        sheet.text(sheet.width - 0.04, top + 0.05, numbers, fontsize=8.2, ha="right", bbox=box)
    else:
        sheet.text(0.04, top + 0.16, elided(case, 30), fontsize=9, va="center")
        sheet.text(sheet.width - 0.04, top + 0.16, numbers, fontsize=9, ha="right", va="center")


# ---- where the time goes ------------------------------------------------------------------------------

_PARTS = (
    ("#0072B2", ""),
    ("#9db9d3", "//"),
    ("#E69F00", "||"),
    ("#d9d9d9", "xx"),
    ("#5b636d", ""),
    ("#ffffff", "--"),
)


def where_time_goes(parts: Mapping[str, float]) -> Picture:
    """One stacked bar of seconds by category, in the order given, with each category's seconds and share."""
    total = math.fsum(parts.values())
    shares = {name: seconds / total if total > 0 else 0.0 for name, seconds in parts.items()}

    def draw(narrow: bool) -> Figure:
        return _where_time_goes(narrow, parts, shares, total)

    told = [f"{name} {duration_text(parts[name])} ({fixed(100 * shares[name], 1)}%)" for name in parts]
    return picture(draw, f"Where {duration_text(total)} of wall time went: " + ", ".join(told) + ".")


def _where_time_goes(narrow: bool, parts: Mapping[str, float], shares: Mapping[str, float], total: float) -> Figure:
    sheet = Sheet(narrow, 0.34 + 0.42 + 0.158 * len(parts))
    sheet.text(0.04, 0.06, f"wall time: {duration_text(total)}", fontsize=9, fontweight="bold")
    axes = sheet.axes(0.04, 0.34, sheet.width - 0.08, 0.3)
    axes.set_xlim(0, total if total > 0 else 1)
    axes.set_ylim(0, 1)
    axes.axis("off")
    start, handles = 0.0, []
    for place, (name, seconds) in enumerate(parts.items()):
        colour, hatch = _PARTS[place % len(_PARTS)]
        axes.add_patch(Rectangle((start, 0), seconds, 1, facecolor=colour, hatch=hatch, edgecolor=INK, linewidth=0.6))
        words = f"{elided(name, 30)}: {duration_text(seconds)} ({fixed(100 * shares[name], 1)}%)"
        handles.append(Patch(facecolor=colour, hatch=hatch, edgecolor=INK, linewidth=0.6, label=words))
        start += seconds
    sheet.figure.legend(handles=handles, loc="lower left", ncols=1, frameon=False, fontsize=8.5, borderaxespad=0.2,
                        labelspacing=0.3)  # fmt: skip
    return sheet.figure
