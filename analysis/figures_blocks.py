"""Figures of blocks in run order: each block's ratio, and which arm ran where."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from analysis.drawing import (
    LINE,
    NARROW,
    SOFT,
    WIDE,
    ArmStyle,
    Picture,
    Sheet,
    arm_style,
    bare,
    common_spans,
    elided,
    picture,
    ratio_axis,
)
from analysis.formats import fixed
from analysis.model import Estimate

LETTER = 0.062  # inches: of a letter in a figure, about

# ---- blocks in run order ------------------------------------------------------------------------------


def blocks_in_order(
    estimates: Sequence[Estimate],
    contrast: str,
    *,
    metric: str,
    cases: Sequence[str],
    arms: Sequence[str],
    marked: Mapping[str, Iterable[int]] | None = None,
    orders: Mapping[str, Mapping[int, Sequence[str]]] | None = None,
) -> Picture:
    """Each block's ratio in run order, one small panel per case.

    Each panel's log axis has a centre of its own and the same span, so that spreads compare by eye. The
    dashed line is the estimate.

    Parameters
    ----------
    marked : for each case the blocks with a failed check; drawn hollow with an exclamation mark.
    orders : for each case and block the arms as they ran; written below the block number by first letter.
    """
    found = {e.case: e for e in estimates if e.metric == metric and e.contrast == contrast}
    rows = [found[case] for case in cases if case in found]
    limits = common_spans([e.ratios for e in rows])
    marks = {case: set(blocks) for case, blocks in (marked or {}).items()}

    def draw(narrow: bool) -> Figure:
        return _blocks(narrow, rows, contrast, arms, marks, orders or {}, limits)

    told = []
    for estimate in rows:
        pairs = zip(estimate.blocks, estimate.ratios, strict=True)
        told.append(f"{estimate.case}: " + ", ".join(f"block {b} {fixed(r, 3)}" for b, r in pairs))
    return picture(draw, f"{metric} ratio {contrast} of each block in run order. " + "; ".join(told) + ".")


def _blocks(
    narrow: bool,
    rows: Sequence[Estimate],
    contrast: str,
    arms: Sequence[str],
    marks: Mapping[str, set[int]],
    orders: Mapping[str, Mapping[int, Sequence[str]]],
    limits: Sequence[tuple[float, float]],
) -> Figure:
    columns = 2
    depth = 1 + max((len(order) for case in orders.values() for order in case.values()), default=0)
    label, plot = 0.26, 0.95 if narrow else 1.15
    axis_room, gap = (0.42, 0.1) if narrow else (0.5, 0.15)
    width = ((NARROW if narrow else WIDE) - columns * axis_room - gap - 0.04) / columns
    short = short_names(arm for arm in arms if any(arm in o for case in orders.values() for o in case.values()))
    beside = sum(len(name) + 1 for name in short.values()) * LETTER * max(map(len, orders.values()), default=0)
    stacked = narrow or beside > width
    below = 0.14 + 0.135 * (depth if stacked else min(depth, 2))
    lines = -(-len(rows) // columns) or 1
    key = [f"ratio {contrast} by block", "dashed: the estimate; every axis has the same span"]
    key = key if narrow else ["; ".join(key)]
    told = "arms as they ran: " + ", ".join(f"{name} = {arm}" for arm, name in short.items())
    key += textwrap.wrap(told, 58 if narrow else 110) if short else []
    head = 0.2 + 0.155 * len(key)
    sheet = Sheet(narrow, head + lines * (label + plot + below))
    sheet.text(0.04, 0.06, "\n".join(key), color=SOFT, fontsize=8 if narrow else 8.5, linespacing=1.3)
    style = arm_style(contrast.split("/")[0], arms)
    for place, estimate in enumerate(rows):
        line, column = divmod(place, columns)
        left, top = axis_room + column * (width + axis_room + gap), head + line * (label + plot + below)
        sheet.text(left, top + 0.04, elided(estimate.case, 20 if narrow else 40), fontsize=7.8 if narrow else 9)
        axes = sheet.axes(left, top + label, width, plot)
        ratio_axis(axes, *limits[place], most=5, which="y")
        bare(axes, "left", "bottom")
        between = "\n" if stacked else " "
        order = {n: between.join(short[arm] for arm in arms) for n, arms in orders.get(estimate.case, {}).items()}
        _block_panel(axes, estimate, style, marks.get(estimate.case, set()), order, narrow)
    return sheet.figure


def short_names(arms: Iterable[str]) -> dict[str, str]:
    """A name of few letters for each arm: its first letter, else the first letters of its parts, else A, B, C by place."""
    names = list(arms)
    initials = [arm[0] for arm in names]
    parts = ["".join(part[0] for part in re.split(r"[^A-Za-z0-9]+", arm) if part) for arm in names]
    places = [chr(ord("A") + place) for place in range(len(names))]
    found = next(short for short in (initials, parts, places) if len(set(short)) == len(names) and all(short))
    return dict(zip(names, found, strict=True))


def _block_panel(
    axes: Axes,
    estimate: Estimate,
    style: ArmStyle,
    marked: set[int],
    order: Mapping[int, str],
    narrow: bool,
) -> None:
    low, high = axes.get_ylim()
    missing = sorted({gone.block for gone in estimate.missing} - set(estimate.blocks))
    numbers = sorted({*estimate.blocks, *missing})
    shown = dict(zip(estimate.blocks, (min(max(r, low), high) for r in estimate.ratios), strict=True))
    axes.plot(list(shown), list(shown.values()), color=LINE, linewidth=1, zorder=2)
    if estimate.point is not None and low < estimate.point < high:
        axes.axhline(estimate.point, color=style.colour, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for block, ratio in shown.items():
        face = "white" if block in marked else style.colour
        axes.plot([block], [ratio], style.marker, color=style.colour, markerfacecolor=face, markersize=5, zorder=4)
        if block in marked:
            axes.annotate("!", (block, ratio), (0, 4), textcoords="offset points", ha="center", fontsize=9)
    for block in missing:
        axes.plot([block], [math.sqrt(low * high)], "x", color=SOFT, markersize=6, zorder=4)
    ticks = [f"{n}\n{order[n]}" if n in order else f"{n}" for n in numbers]
    axes.set_xticks(numbers, ticks, fontsize=7.5 if narrow else 8)
    axes.tick_params(axis="both", length=2, pad=2)
    if numbers:
        axes.set_xlim(numbers[0] - 0.5, numbers[-1] + 0.5)


# ---- order map ----------------------------------------------------------------------------------------


def order_map(rows: Iterable[tuple[str, int, int, str]], arms: Sequence[str], title: str = "") -> Picture:
    """Which arm ran at which position: a line per case, its blocks in run order, in each block the arms as they ran.

    ``rows`` are (case, block, position, arm), cases in plan order. Two arms in one place are an error.
    """
    orders: dict[str, dict[int, dict[int, str]]] = {}
    for case, block, position, arm in rows:
        places = orders.setdefault(case, {}).setdefault(block, {})
        if places.setdefault(position, arm) != arm:
            raise ValueError(f"{case}, block {block}, position {position}: both {places[position]!r} and {arm!r}")
    maps = {
        case: {block: [places[p] for p in sorted(places)] for block, places in sorted(blocks.items())}
        for case, blocks in orders.items()
    }

    def draw(narrow: bool) -> Figure:
        return _order_map(narrow, maps, arms, title)

    told = [
        f"{case}: " + ", ".join(f"block {block} {' '.join(order)}" for block, order in blocks.items())
        for case, blocks in maps.items()
    ]
    return picture(draw, "Arms in the order in which they ran. " + "; ".join(told) + ".")


def _order_map(
    narrow: bool, maps: Mapping[str, Mapping[int, Sequence[str]]], arms: Sequence[str], title: str
) -> Figure:
    used = [arm for arm in arms if any(arm in order for blocks in maps.values() for order in blocks.values())]
    depth = max((len(order) for blocks in maps.values() for order in blocks.values()), default=1)
    numbers = sorted({block for blocks in maps.values() for block in blocks})
    left, side = (0.04 if narrow else 2.15), 0.19
    cell = min(0.27, ((NARROW if narrow else WIDE) - left - 0.06) / max(len(numbers), 1) / (depth + 0.4))
    cell = max(cell, 0.14)
    fit = max(1, int(((NARROW if narrow else WIDE) - left - 0.06) / (cell * (depth + 0.4))))
    lines = [numbers[start : start + fit] for start in range(0, len(numbers), fit)]
    head = 0.3 if title else 0.08
    row = (0.2 if narrow else 0.06) + len(lines) * (side + 0.03)
    short = short_names(used)
    fitting = int((NARROW if narrow else WIDE) / (0.45 + LETTER * max((len(arm) + 5 for arm in used), default=1)))
    legend_columns = max(1, min(len(used), fitting))
    legend = 0.16 + 0.16 * -(-len(used) // legend_columns)
    sheet = Sheet(narrow, head + (0.24 if len(lines) == 1 else 0.05) + row * len(maps) + legend)
    sheet.text(0.04, 0.06, elided(title, 56 if narrow else 110), color=SOFT, fontsize=8.5)
    axes = sheet.axes(0, 0, sheet.width, sheet.height)
    axes.set_xlim(0, sheet.width)
    axes.set_ylim(sheet.height, 0)
    axes.axis("off")
    top = head
    if len(lines) == 1:
        for place, number in enumerate(numbers):
            middle = left + (place * (depth + 0.4) + depth / 2) * cell
            sheet.text(
                middle, top + 0.04, f"{number}" if place else f"block {number}", fontsize=8, color=SOFT, ha="center"
            )
        top += 0.24
    for case, blocks in maps.items():
        y = top + (0.2 if narrow else 0.0)
        sheet.text(
            0.04, top + (0.03 if narrow else 0.02), elided(case, 44 if narrow else 30), fontsize=8 if narrow else 8.5
        )
        for line in lines:
            for place, number in enumerate(line):
                x = left + place * (depth + 0.4) * cell
                _order_cells(axes, x, y, cell, side, blocks.get(number, ()), arms, short)
            y += side + 0.03
        top += row
    handles = [
        Patch(facecolor=arm_style(arm, arms).colour, alpha=0.3, label=f"{name} = {arm}") for arm, name in short.items()
    ]
    sheet.figure.legend(handles=handles, loc="lower left", ncols=legend_columns, frameon=False, fontsize=8,
                        borderaxespad=0.1, handlelength=1.2, columnspacing=1.2)  # fmt: skip
    return sheet.figure


def _order_cells(
    axes: Axes,
    x: float,
    y: float,
    cell: float,
    side: float,
    order: Sequence[str],
    arms: Sequence[str],
    short: Mapping[str, str],
) -> None:
    """One block: a box for each position with the arm's short name."""
    for place, arm in enumerate(order):
        at = x + place * cell
        axes.add_patch(Rectangle((at, y), cell, side, facecolor=arm_style(arm, arms).colour, alpha=0.3, linewidth=0))
        axes.add_patch(Rectangle((at, y), cell, side, fill=False, edgecolor="white", linewidth=1))
        axes.text(
            at + cell / 2, y + side / 2, short[arm], ha="center", va="center_baseline", fontsize=8, parse_math=False
        )
