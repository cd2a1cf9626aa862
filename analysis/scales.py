"""Log and linear axes of measured values, labelled with numbers and units: "200 µs", "1 ms"."""

from __future__ import annotations

import itertools
import math

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from analysis.drawing import LINE, ratio_ticks
from analysis.formats import common_scale, fixed


def value_ticks(low: float, high: float, most: int) -> list[float]:
    """Round values inside [low, high] for a log axis: some that can be read, else every n-th power of ten, else none."""
    found = ratio_ticks(low, high, most)
    if found:
        return found
    powers = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    return powers[:: max(1, -(-len(powers) // most))]


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """At most ``most`` multiples of 1, 2 or 5 times a power of ten inside [low, high]."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    for step in (power, 2 * power, 5 * power, 10 * power, 20 * power):
        ticks = [round(n * step, 12) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
        if len(ticks) <= most:
            return ticks
    return [low, high]


def tick_text(value: float, metric: str) -> str:
    """A tick's value with its unit, short: "50 µs", "1.5 ms", "2000"."""
    divisor, unit = common_scale([value], metric)
    number = value / divisor
    places = next((places for places in range(4) if math.isclose(number, round(number, places), rel_tol=1e-6)), 3)
    return fixed(number, places) + (f" {unit}" if divisor != 1.0 or unit != metric or metric in ("ns", "B") else "")


LETTER = 0.075  # inches: of a label, with some room


def _fit(ticks: list[float], low: float, high: float, metric: str, width: float) -> bool:
    """Whether the labels of these ticks stand apart on a log axis from low to high of so many inches."""
    places = [math.log(tick / low) / math.log(high / low) * width for tick in ticks]
    halves = [len(tick_text(tick, metric)) * LETTER / 2 for tick in ticks]
    labels = list(zip(places, halves, strict=True))
    return all(b - a > half + other for (a, half), (b, other) in itertools.pairwise(labels))


def value_axis(axes: Axes, low: float, high: float, metric: str, *, which: str, most: int) -> None:
    """Make an axis of positive values logarithmic, with a margin around [low, high] and labelled ticks.

    Parameters
    ----------
    low, high : float
        What is to be inside, in the metric's unit, above 0.
    metric : str
        "ns" or "B" for ticks with their units; any other unit for bare numbers.
    which : str
        "x" or "y".
    most : int
        Ticks, at most.
    """
    margin = max(0.06 * math.log(high / low), 0.02)
    low, high = low * math.exp(-margin), high * math.exp(margin)
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    ticks = value_ticks(low, high, most)
    if which == "x":
        width = axes.get_position().width * axes.figure.bbox.width / axes.figure.dpi
        ticks = next(
            (few for n in range(most, 1, -1) if _fit(few := value_ticks(low, high, n), low, high, metric, width)),
            ticks[:1],
        )
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_ticklabels([tick_text(tick, metric) for tick in ticks])
    line = axes.axvline if which == "x" else axes.axhline
    for tick in ticks:
        line(tick, color=LINE, linewidth=0.5, zorder=0)
