"""The added delay: the measured round trip in words and in a figure, never the nominal value alone."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.text import Text

from analysis import delays, drawing
from analysis.delays import Measurement
from runner.errors import DataError

START = {
    "method": "tun",
    "delay_us": 250,
    "applied_us": 231,
    "undelayed_ns": [18_000, 20_000, 22_000],
    "delayed_ns": [560_000],
    "unavailable": {"netem": "the kernel has no sch_netem"},
}


def measured(blocks: int = 6) -> list[Measurement]:
    return [
        Measurement("get", block, when, tuple(555_000 + 1000 * (block + n) for n in range(20)))
        for block in range(1, blocks + 1)
        for when in ("before", "after")
    ]


def report(delay_us: int, rtt: list[int] | None, delay: dict[str, Any] | None = None) -> Any:
    event = {"number": 5, **({"rtt_ns": rtt} if rtt else {})}
    events = [{"event": "engine-start", "phase": "A2", **({"delay": delay} if delay else {})}]
    return SimpleNamespace(
        identifier="A2",
        network=SimpleNamespace(delay_us=delay_us),
        ledger=SimpleNamespace(
            begun={("A2", "get", 1): event, ("B", "get", 1): event}, ended={("A2", "get", 1): event | {"number": 9}}
        ),
        store=SimpleNamespace(journal=lambda: SimpleNamespace(events=events)),
    )


def test_the_sentence_leads_with_what_was_measured() -> None:
    first, second = delays.told(measured(), [START])
    assert first == (
        "The added delay is made by a user-space TUN pair, nominal 250 \u00b5s each way; the measured round trip was "
        "568 \u00b5s at the median over 6 blocks (p99 579 \u00b5s; without the delay 20.0 \u00b5s). Medians beside single "
        "blocks: 566 \u00b5s to 570 \u00b5s."
    )
    assert second == "Not to be had on this host: netem: the kernel has no sch_netem."


def test_measurements_are_those_of_the_phase_in_journal_order() -> None:
    found = delays.measurements(report(250, [500_000], START))
    assert found == [Measurement("get", 1, "before", (500_000,)), Measurement("get", 1, "after", (500_000,))]
    assert delays.sentences(report(250, [500_000], START))


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (report(0, [1], START), "no delay is added in this phase"),
        (report(250, None, START), "no round trips of phase A2"),
        (report(250, [1], None), "no measurement of the delay of phase A2"),
    ],
)
def test_what_is_missing_is_named(made: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        delays.sentences(made)


def test_an_unknown_method_is_named_as_it_is() -> None:
    assert "made by tc-bpf" in delays.told(measured(), [START | {"method": "tc-bpf"}])[0]


def test_the_figure_fits_and_is_the_same_again() -> None:
    picture = delays.drawn(measured(40), [START])
    assert picture.narrow.get_figwidth() * 96 <= 328
    for figure in (picture.wide, picture.narrow):
        figure.draw_without_rendering()
        for text in figure.findobj(Text):
            if text.get_text().strip() and text.get_visible():
                box = text.get_window_extent()
                assert max(-box.x0, box.x1 - figure.bbox.x1, -box.y0, box.y1 - figure.bbox.y1) <= 1, text.get_text()
    assert "80 measurements" in picture.alt
    assert "Without the delay: median 20.0 \u00b5s" in picture.alt
    assert drawing.svg(picture.narrow) == drawing.svg(delays.drawn(measured(40), [START]).narrow)


def test_constant_round_trips_are_drawn() -> None:
    same = [Measurement("get", 1, "before", (500_000,) * 3)]
    figure = delays.drawn(same, [START | {"undelayed_ns": [20_000] * 3}]).wide
    figure.draw_without_rendering()
    for low, high in (limits for axes in figure.axes for limits in (axes.get_xlim(), axes.get_ylim())):
        assert math.isfinite(low) and math.isfinite(high) and low != high  # no spread, and yet axes with a length
