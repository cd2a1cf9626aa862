"""The added delay of a phase, as it was measured: round trips before and after every block, and without the delay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.drawing import INK, SOFT, Picture, Sheet, bare, picture
from analysis.formats import absolute_texts, fixed, three_digits
from analysis.report import PhaseReport
from analysis.scales import value_axis
from analysis.sentences import listed
from runner.errors import DataError

METHOD_WORDS = {
    "netem": "the kernel's netem on both ends of the veth pair",
    "tun": "a user-space TUN pair",
    "relay": "a TCP relay at the server's end, which delays what connections carry and not their making",
}


@dataclass(frozen=True)
class Spread:
    """A set of round trips in ns: 1st, 50th and 99th percentile."""

    low: float
    median: float
    high: float
    count: int


@dataclass(frozen=True)
class Measurement:
    """The round trips beside one block."""

    case: str
    block: int
    when: str  # "before" or "after"
    samples: tuple[int, ...]  # ns


def spread(samples: Sequence[int]) -> Spread:
    """Percentiles of round trips, linear between ranks. Raises ValueError without any."""
    if not samples:
        raise ValueError("no round trip")
    low, median, high = np.percentile(np.asarray(samples, dtype=np.float64), (1, 50, 99)).tolist()
    return Spread(low, median, high, len(samples))


def measurements(report: PhaseReport) -> list[Measurement]:
    """The round trips of a phase in the order of the journal.

    Raises DataError where the phase has no added delay, or the journal has none of its round trips.
    """
    _assert_delayed(report)
    events: list[tuple[int, Measurement]] = []
    for when, found in (("before", report.ledger.begun), ("after", report.ledger.ended)):
        for (phase, case, block), event in found.items():
            if phase == report.identifier and event.get("rtt_ns"):
                events.append((event["number"], Measurement(case, block, when, tuple(event["rtt_ns"]))))
    if not events:
        raise DataError(
            "journal.jsonl",
            f"no round trips of phase {report.identifier}, whose network has an added delay",
            expected="rtt_ns in its block-start and block-end events",
        )
    return [measurement for _, measurement in sorted(events, key=lambda event: event[0])]


def starts(report: PhaseReport) -> list[Mapping[str, Any]]:
    """What was measured of the delay at each start of the phase's engine, in order. Raises DataError without any."""
    _assert_delayed(report)
    found = [
        event["delay"]
        for event in report.store.journal().events
        if event["event"] == "engine-start" and event.get("phase") == report.identifier and event.get("delay")
    ]
    if not found:
        raise DataError(
            "journal.jsonl",
            f"no measurement of the delay of phase {report.identifier}",
            expected="delay in its engine-start event",
        )
    return found


def _assert_delayed(report: PhaseReport) -> None:
    if not report.network.delay_us:
        raise DataError(
            f"phase {report.identifier}", "no delay is added in this phase", expected="network.delay_us > 0"
        )


def sentences(report: PhaseReport) -> list[str]:
    """How the delay is made, and what it measured: the nominal value never stands alone."""
    return told(measurements(report), starts(report))


def told(measured: Sequence[Measurement], begun: Sequence[Mapping[str, Any]]) -> list[str]:
    """`sentences` of round trips and of the starts of the engine."""
    all_of = spread([sample for one in measured for sample in one.samples])
    without = spread(_pooled(begun, "undelayed_ns"))
    methods = listed(dict.fromkeys(METHOD_WORDS.get(start["method"], start["method"]) for start in begun))
    nominal = listed(_each_way(value) for value in dict.fromkeys(start["delay_us"] for start in begun))
    blocks = len({(one.case, one.block) for one in measured})
    medians = [spread(one.samples).median for one in measured]
    texts = [
        f"The added delay is made by {methods}, nominal {nominal}; the measured round trip was "
        f"{time_text(all_of.median)} at the median over {blocks} block{'s' * (blocks != 1)} (p99 {time_text(all_of.high)}; "
        f"without the delay {time_text(without.median)}). Medians beside single blocks: {time_text(min(medians))} to "
        f"{time_text(max(medians))}."
    ]
    unavailable = {name: why for start in begun for name, why in start.get("unavailable", {}).items()}
    if unavailable:
        texts.append(
            "Not to be had on this host: "
            + "; ".join(f"{n}: {why.rstrip('.')}" for n, why in unavailable.items())
            + "."
        )
    return texts


def _each_way(delay_us: int) -> str:
    return f"{three_digits(float(delay_us)) if delay_us < 100 else fixed(delay_us, 0)} µs each way"


def _pooled(begun: Iterable[Mapping[str, Any]], key: str) -> list[int]:
    return [sample for start in begun for sample in start[key]]


def time_text(nanoseconds: float) -> str:
    """A time with three significant digits and its unit: 563 µs, 1.21 ms."""
    (text,), unit = absolute_texts([nanoseconds], "ns")
    return f"{text} {unit}"


def figure(report: PhaseReport) -> Picture:
    """Round trips before and after each block in run order: median, bar from p1 to p99; and those without the delay."""
    return drawn(measurements(report), starts(report))


def drawn(measured: Sequence[Measurement], begun: Sequence[Mapping[str, Any]]) -> Picture:
    """`figure` of round trips and of the starts of the engine."""
    spreads = [spread(one.samples) for one in measured]
    without = spread(_pooled(begun, "undelayed_ns"))

    def draw(narrow: bool) -> Figure:
        return _draw(narrow, measured, spreads, without)

    medians = [s.median for s in spreads]
    alt = (
        f"Measured round trips in run order, {len(spreads)} measurements before and after blocks: medians from "
        f"{time_text(min(medians))} to {time_text(max(medians))}, the 99th percentile up to "
        f"{time_text(max(s.high for s in spreads))}. Without the delay: median {time_text(without.median)}, "
        f"p1 {time_text(without.low)}, p99 {time_text(without.high)}."
    )
    return picture(draw, alt)


def _draw(narrow: bool, measured: Sequence[Measurement], spreads: Sequence[Spread], without: Spread) -> Figure:
    """Two axes, each over its own range: the spread of either would not be seen on one."""
    head, with_delay, label, bare_path = (0.46 if narrow else 0.3), 1.25, 0.62, 0.42
    sheet = Sheet(narrow, head + with_delay + label + bare_path + 0.36)
    parts = ("round trip of 64 bytes beside each block,", "in run order: median, bar from p1 to p99")
    sheet.text(0.04, 0.06, ("\n" if narrow else " ").join(parts), color=SOFT, fontsize=8 if narrow else 8.5)
    left = 0.66
    width = sheet.width - left - 0.1
    axes = sheet.axes(left, head, width, with_delay)
    bare(axes, "left", "bottom")
    value_axis(axes, min(s.low for s in spreads), max(s.high for s in spreads), "ns", which="y", most=4)
    for place, (one, found) in enumerate(zip(measured, spreads, strict=True)):
        face = INK if one.when == "before" else "white"
        axes.plot([place, place], [found.low, found.high], color=SOFT, linewidth=1.2, zorder=2)
        axes.plot([place], [found.median], "o", color=INK, markerfacecolor=face, markersize=3.5, zorder=3)
    _block_marks(axes, measured)
    sheet.text(left, head + with_delay + label - 0.22, "the same path without the delay", color=SOFT, fontsize=8.5)
    below = sheet.axes(left, head + with_delay + label, width, bare_path)
    bare(below, "left")
    below.set_xticks([])
    value_axis(below, without.low, without.high, "ns", which="y", most=2)
    below.axhspan(without.low, without.high, color=SOFT, alpha=0.2, linewidth=0, zorder=1)
    below.axhline(without.median, color=INK, linewidth=1, zorder=2)
    handles = [
        Line2D([], [], linewidth=0, marker="o", markersize=4, color=INK, label="before a block"),
        Line2D([], [], linewidth=0, marker="o", markersize=4, color=INK, markerfacecolor="white", label="after it"),
    ]
    sheet.figure.legend(handles=handles, loc="lower left", ncols=2, frameon=False, fontsize=8,
                        borderaxespad=0.2, handletextpad=0.4, columnspacing=1.0)  # fmt: skip
    return sheet.figure


def _block_marks(axes: Axes, measured: Sequence[Measurement]) -> None:
    """Block numbers below the axis, as many as can be read."""
    axes.set_xlim(-0.7, len(measured) - 0.3)
    places: dict[int, int] = {}
    for place, one in enumerate(measured):
        if place == 0 or one.block != measured[place - 1].block:
            places[place] = one.block
    step = -(-len(places) // 12)
    shown = list(places.items())[::step]
    axes.set_xticks([place for place, _ in shown], [f"{block}" for _, block in shown])
    axes.set_xlabel("block", fontsize=8.5, labelpad=1)
    axes.tick_params(axis="x", length=2, pad=2)
