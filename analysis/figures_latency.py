"""Latency percentile curves: how long all but the slowest operations took, on an axis that spreads the tail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from analysis.arms import arm_places
from analysis.delays import time_text
from analysis.drawing import LINE, SOFT, Picture, Sheet, arm_style, bare, elided, picture
from analysis.hdr import Counts
from analysis.latency import by_arm
from analysis.report import PhaseReport
from analysis.scales import value_axis

BEYOND = 10  # samples; where fewer lie beyond a point of a curve, single operations decide it
TICKS = (50.0, 90.0, 99.0, 99.9, 99.99)
TOLD = (50.0, 90.0, 99.0, 99.9)  # percentiles in the text alternative

_START = 0.3  # nines; the 50th percentile is at log10(2)

Runs = Mapping[str, Mapping[str, tuple[Counts, tuple[Counts, ...]]]]


def curves(report: PhaseReport) -> Picture:
    """One panel per case: latency over percentile, one line per arm from all its good runs, faint ones for single runs.

    Both axes are logarithmic; that of percentiles in the share beyond. A line is dashed where fewer than ten samples lie
    beyond. Raises DataError where no case of the phase writes a latency log.
    """
    return drawn(by_arm(report), arm_places(report.plan, report.identifier))


def drawn(cases: Runs, arms: Sequence[str]) -> Picture:
    """`curves` of histograms by case and arm; ``arms`` are those of `arm_places`."""

    def draw(narrow: bool) -> Figure:
        return _draw(narrow, cases, arms)

    return picture(draw, _alt(cases))


def _alt(cases: Runs) -> str:
    lines = ["Latency percentile curves, merged over each arm's good runs."]
    for case, by_name in cases.items():
        told = []
        for arm, (whole, _) in by_name.items():
            shares = [share for share in TOLD if whole.total * (100 - share) / 100 >= BEYOND] or [50.0]
            values = zip(shares, whole.percentiles(shares).tolist(), strict=True)
            told.append(f"{arm} " + ", ".join(f"p{share:g} {time_text(value)}" for share, value in values))
        lines.append(f"{case}: {'; '.join(told) or 'no good run'}.")
    return " ".join(lines)


def nines(share: float) -> float:
    """Where a percentile lies on the axis: 1 for 90, 2 for 99, 3 for 99.9."""
    return -math.log10(1 - share / 100)


def points(counts: Counts, last: float) -> tuple[list[float], list[float]]:
    """A curve from the 50th percentile on: places in nines up to ``last``, and values in ns."""
    if not counts.total:
        return [], []
    places = np.linspace(_START, last, max(2, round((last - _START) * 60)))
    return places.tolist(), counts.percentiles((100 * (1 - 10.0**-places)).tolist()).tolist()


def solid_until(counts: Counts) -> float:
    """The place in nines beyond which fewer than `BEYOND` samples lie; at least the start of the axis."""
    return max(_START, math.log10(counts.total / BEYOND)) if counts.total else _START


def _draw(narrow: bool, cases: Runs, arms: Sequence[str]) -> Figure:
    columns = 1 if narrow else 2
    lines = -(-len(cases) // columns) or 1
    head, label, plot, below = (0.5 if narrow else 0.34), 0.24, 1.75, 0.36
    used = [arm for arm in arms if any(arm in by_name for by_name in cases.values())]
    rows = -(-len(used) // 2) if narrow else 1
    sheet = Sheet(narrow, head + lines * (label + plot + below) + 0.1 + 0.2 * rows)
    parts = (
        "latency by percentile: all good runs, faint: single runs;",
        f"dashed (single runs: cut): fewer than {BEYOND} samples beyond",
    )
    sheet.text(0.04, 0.06, ("\n" if narrow else " ").join(parts), color=SOFT, fontsize=8 if narrow else 8.5)
    room, gap = 0.6, 0.2  # left of each panel for its labels, and between panels
    width = (sheet.width - columns * (room + gap)) / columns
    for place, (case, by_name) in enumerate(cases.items()):
        line, column = divmod(place, columns)
        left, top = room + column * (width + room + gap), head + line * (label + plot + below)
        sheet.text(left, top + 0.03, elided(case, 40), fontsize=8.5 if narrow else 9)
        _panel(sheet.axes(left, top + label, width, plot), by_name, arms)
    handles = [
        Line2D([], [], color=arm_style(arm, arms).colour, marker=arm_style(arm, arms).marker, markersize=5, label=arm)
        for arm in used
    ]
    sheet.figure.legend(handles=handles, loc="lower left", ncols=2 if narrow else max(1, len(used)), frameon=False,
                        fontsize=8.5, borderaxespad=0.1, columnspacing=1.2)  # fmt: skip
    return sheet.figure


def _panel(axes: Axes, by_name: Mapping[str, tuple[Counts, tuple[Counts, ...]]], arms: Sequence[str]) -> None:
    bare(axes, "left", "bottom")
    last = nines(TICKS[-1])
    ends = [value for whole, _ in by_name.values() for value in points(whole, last)[1] if value > 0]
    value_axis(axes, min(ends, default=1.0), max(ends, default=10.0), "ns", which="y", most=6)
    axes.set_xlim(_START - 0.02, last + 0.06)
    axes.xaxis.set_major_locator(FixedLocator([nines(share) for share in TICKS]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{share:g}" for share in TICKS])
    axes.tick_params(axis="both", length=2, pad=2)
    for share in TICKS:
        axes.axvline(nines(share), color=LINE, linewidth=0.5, zorder=0)
    for arm, (whole, single) in by_name.items():
        style = arm_style(arm, arms)
        for counts in single:
            axes.plot(
                *points(counts, min(last, solid_until(counts))), color=style.colour, linewidth=0.6, alpha=0.3, zorder=2
            )
        until = min(last, solid_until(whole))
        axes.plot(*points(whole, until), color=style.colour, linewidth=1.6, zorder=4)
        places, values = points(whole, last)
        rest = [(place, value) for place, value in zip(places, values, strict=True) if place >= until]
        axes.plot(*zip(*rest, strict=True) if rest else ((), ()), color=style.colour, linewidth=1.2,
                  linestyle=(0, (3, 2)), zorder=3)  # fmt: skip
        marks = [share for share in TICKS if nines(share) <= until]
        at = whole.percentiles(marks).tolist() if marks else []
        axes.plot([nines(share) for share in marks], at, style.marker, color=style.colour, markersize=4.5,
                  markeredgecolor="white", markeredgewidth=0.6, zorder=5)  # fmt: skip
