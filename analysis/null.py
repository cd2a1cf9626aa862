"""What a null contrast shows: an arm against itself under another name, so that every difference is noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis import tables
from analysis.drawing import SOFT, Picture, Sheet, bare, elided, picture, ratio_axis, ratio_limits
from analysis.formats import interval_text, ratio_text, three_digits
from analysis.model import Estimate, Interval
from analysis.report import PhaseReport
from analysis.sentences import listed, metric_word, side
from analysis.tables import Markup
from runner.errors import DataError

_EXCLUDES, _INCLUDES = "#D55E00", "#0072B2"


@dataclass(frozen=True)
class Widest:
    """The widest null interval of a metric."""

    case: str
    contrast: str
    interval: Interval


@dataclass(frozen=True)
class MetricSummary:
    """The null intervals of one metric. Half widths are on the log scale: 0.02 is about 2%."""

    metric: str
    intervals: int
    excluding: tuple[str, ...]  # "contrast case" of those that exclude 1
    median_half_width: float | None
    widest: Widest | None
    without: tuple[str, ...]  # "contrast case" of estimates that have no interval

    @property
    def detectable(self) -> float | None:
        """The half width of the widest interval: a difference beyond it is resolved in every case."""
        return half_width(self.widest.interval) if self.widest else None


@dataclass(frozen=True)
class Summary:
    """All null intervals of a phase, of the kind that leads."""

    primary: str  # "t" or "percentile"
    level: float
    metrics: tuple[MetricSummary, ...]

    @property
    def intervals(self) -> int:
        """How many there are."""
        return sum(metric.intervals for metric in self.metrics)

    @property
    def excluding(self) -> int:
        """How many exclude 1."""
        return sum(len(metric.excluding) for metric in self.metrics)

    @property
    def share(self) -> float | None:
        """The share that excludes 1; None without intervals."""
        return self.excluding / self.intervals if self.intervals else None

    @property
    def expected_share(self) -> float:
        """The share that would by the level, if the intervals covered as much as they say."""
        return 1 - self.level


def half_width(interval: Interval) -> float:
    """Half of an interval's width on the log scale."""
    return math.log(interval[1] / interval[0]) / 2


def summary(report: PhaseReport) -> Summary:
    """The null intervals of a phase. Raises DataError where it has no null contrast."""
    return summarise(_estimates(report), report.primary, report.statistics.level)


def _estimates(report: PhaseReport) -> list[Estimate]:
    if not report.null_contrasts:
        raise DataError(
            f"phase {report.identifier}",
            "no contrast of this phase compares an arm with itself",
            expected="a contrast between two arms with the same tree and switches",
        )
    return [estimate for estimate in report.estimates if estimate.contrast in report.null_contrasts]


def summarise(estimates: Iterable[Estimate], primary: str, level: float) -> Summary:
    """The summary of estimates, all of null contrasts, by metric in their order."""
    found = list(estimates)
    metrics = dict.fromkeys(estimate.metric for estimate in found)
    return Summary(primary, level, tuple(_metric(m, [e for e in found if e.metric == m], primary) for m in metrics))


def _metric(metric: str, estimates: Sequence[Estimate], primary: str) -> MetricSummary:
    intervals = {(e.case, e.contrast): found for e in estimates if (found := e.interval(primary)) is not None}
    widest = max(intervals.items(), key=lambda item: half_width(item[1]), default=None)
    return MetricSummary(
        metric,
        len(intervals),
        tuple(f"{contrast} {case}" for (case, contrast), found in intervals.items() if side(found) != "includes"),
        median(map(half_width, intervals.values())) if intervals else None,
        Widest(*widest[0], widest[1]) if widest else None,
        tuple(f"{e.contrast} {e.case}" for e in estimates if e.interval(primary) is None),
    )


def percent(half: float | None) -> str:
    """A half width on the log scale in percent, three significant digits; a dash where there is none."""
    return three_digits(None) if half is None else f"{three_digits(100 * math.expm1(half))}%"


def sentences(found: Summary) -> list[str]:
    """What the null intervals show, in words: how many exclude 1, how far they reach, what has no interval."""
    texts = [_excluding(found)]
    for metric in found.metrics:
        if metric.widest is not None:
            texts.append(
                f"{metric.metric}: the widest of {metric.intervals} null intervals is "
                f"{interval_text(metric.widest.interval)}, {metric.widest.case}; the median half width is "
                f"{percent(metric.median_half_width)}. With noise as here, a measured difference in "
                f"{metric_word(metric.metric)} smaller than {percent(metric.detectable)} is not resolved in every case."
            )
        if metric.without:
            texts.append(
                f"{metric.metric}: {len(metric.without)} of {metric.intervals + len(metric.without)} null estimates have "
                f"no interval (no spread between blocks, or no data), and are not counted above: {listed(metric.without)}."
            )
    return texts


def leading(found: Summary, metric: str) -> list[str]:
    """Of `sentences` how many exclude 1, the widest interval of all, and what is said of one metric."""
    own = Summary(found.primary, found.level, tuple(m for m in found.metrics if m.metric == metric))
    widest = [(half_width(m.widest.interval), m.metric, m.widest) for m in found.metrics if m.widest]
    texts = [_excluding(found)]
    if len(widest) > 1:
        _, name, most = max(widest, key=lambda item: item[0])
        texts.append(f"The widest of all is {interval_text(most.interval)}, {most.case}, {metric_word(name)}.")
    return texts + sentences(own)[1:]


def _excluding(found: Summary) -> str:
    if found.share is None:
        return f"No null estimate has a {found.primary} interval."
    named = [f"{name} ({metric.metric})" for metric in found.metrics for name in metric.excluding]
    nominal = (
        ""
        if found.primary == "t"
        else "; a percentile interval covers less than its level at few blocks, so more are due"
    )
    return (
        f"{found.excluding} of {found.intervals} null {found.primary} intervals {_exclude(found.excluding)} 1 ({found.share:.1%}; "
        f"{found.expected_share:.1%} are expected at level {found.level:g}{nominal})"
        + (f": {listed(named)}." if named else ".")
    )


def _exclude(count: int) -> str:
    return "excludes" if count == 1 else "exclude"


def table(found: Summary) -> Markup:
    """A row for each metric: intervals, how many exclude 1, the widest one, half widths, and what has no interval."""
    rows = [
        (
            metric.metric,
            metric.intervals,
            len(metric.excluding),
            f"{interval_text(metric.widest.interval)} {metric.widest.case}" if metric.widest else None,
            percent(metric.median_half_width),
            percent(metric.detectable),
            len(metric.without),
        )
        for metric in found.metrics
    ]
    head = (
        "metric",
        f"{found.primary} intervals",
        "exclude 1",
        "widest",
        "median half width",
        "detectable in every case",
        "without an interval",
    )
    return tables.plain(
        head, rows, "Null contrasts: the same tree and switches under two names", numbers=(1, 2, 4, 5, 6)
    )


def figure(report: PhaseReport) -> Picture:
    """Every null interval on one log axis, widest last, with whether it excludes 1. Raises as `summary`."""
    return drawn(_estimates(report), report.primary)


def drawn(estimates: Iterable[Estimate], primary: str) -> Picture:
    """`figure` of estimates, all of null contrasts."""
    rows = [(e, found) for e in estimates if (found := e.interval(primary)) is not None]
    rows.sort(key=lambda row: half_width(row[1]))
    excluding = [f"{e.case} {e.metric} {ratio_text(e.point, i)}" for e, i in rows if side(i) != "includes"]
    alt = (
        f"{len(rows)} null {primary} intervals around 1, sorted by width; {len(excluding)} {_exclude(len(excluding))} 1"
    )
    alt += f": {'; '.join(excluding)}." if excluding else "."
    if rows:
        last, interval = rows[-1]
        alt += f" Narrowest {interval_text(rows[0][1])}, widest {interval_text(interval)} ({last.case} {last.metric})."

    def draw(narrow: bool) -> Figure:
        return _draw(narrow, rows, primary)

    return picture(draw, alt)


def _name_beside(axes: Axes, interval: Interval, y: float, words: str, width: float) -> None:
    """The name of an interval on that side of it that has more room, cut to fit; ``width`` of the axes in inches."""
    low, high = axes.get_xlim()
    before, after = math.log(interval[0] / low), math.log(high / interval[1])
    room = max(before, after) / math.log(high / low) * width
    at, shift, align = (interval[0], -4, "right") if before > after else (interval[1], 4, "left")
    fitting = elided(words, max(4, int(room / 0.066)))
    axes.annotate(fitting, (at, y), (shift, 0), textcoords="offset points", fontsize=7.5, va="center", ha=align)


def _draw(narrow: bool, rows: Sequence[tuple[Estimate, Interval]], primary: str) -> Figure:
    row = min(0.19, 6.0 / max(len(rows), 1))
    named = row >= 0.15 and not narrow  # names of more rows could not be read; those that exclude 1 always have theirs
    height = max(0.3, row * len(rows))
    head = 0.62 if narrow else 0.4
    sheet = Sheet(narrow, head + height + 0.34)
    left, right = (0.14, 0.14) if narrow else (2.9, 0.2)
    axes = sheet.axes(left, head, sheet.width - left - right, height)
    axes.set_ylim(height, 0)
    axes.set_yticks([])
    bare(axes, "bottom")
    ratio_axis(axes, *ratio_limits([end for _, interval in rows for end in interval]), most=5 if narrow else 7)
    for place, (estimate, interval) in enumerate(rows):
        y, excludes = (place + 0.5) * row, side(interval) != "includes"
        colour = _EXCLUDES if excludes else _INCLUDES
        axes.plot(interval, [y, y], color=colour, linewidth=max(1.0, min(3.0, 14 * row)), alpha=0.7,
                  solid_capstyle="butt", zorder=3)  # fmt: skip
        if estimate.point is not None:
            axes.plot([estimate.point], [y], "D" if excludes else "o", color=colour, markersize=3.5, zorder=4)
        words = f"{elided(estimate.case, 24)} {estimate.metric}" + (" excludes 1" if excludes else "")
        if named:
            sheet.text(0.04, head + y, words, fontsize=7.8, va="center", color=colour if excludes else SOFT)
        elif excludes:
            _name_beside(axes, interval, y, f"{estimate.case} {estimate.metric}", sheet.width - left - right)
    handles = [
        Line2D([], [], color=_INCLUDES, marker="o", markersize=4, label="includes 1"),
        Line2D([], [], color=_EXCLUDES, marker="D", markersize=4, label="excludes 1"),
    ]
    title = f"null {primary} intervals, sorted by width"
    sheet.text(0.04, 0.06, title, color=SOFT, fontsize=8.5)
    sheet.figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, 1 - 0.24 / sheet.height) if narrow
                        else (0.5, 1), ncols=2, frameon=False, fontsize=8, borderaxespad=0.2)  # fmt: skip
    return sheet.figure
