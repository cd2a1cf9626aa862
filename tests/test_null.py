"""Null contrasts: what is counted, what is named apart, and the figure of every interval."""

from __future__ import annotations

import math

import pytest
from matplotlib.text import Text

from analysis import drawing, null
from analysis.model import Estimate, EstimateWarning, Interval


def estimate(case: str, t: Interval | None, metric: str = "ns/op") -> Estimate:
    point = None if t is None else math.sqrt(t[0] * t[1])
    warnings = () if t else (EstimateWarning("no-spread", "All the same."),)
    return Estimate("N", case, metric, "same/other", point, t, t, blocks=(1, 2, 3), warnings=warnings)


FOUND = [
    estimate("get", (0.98, 1.02)),
    estimate("scan", (1.01, 1.05)),
    estimate("save", (0.9, 1.2)),
    estimate("get", (0.99, 1.01), "p99-ns"),
    estimate("get", None, "allocs/op"),
]


def test_intervals_are_counted_by_metric_and_those_without_are_named() -> None:
    found = null.summarise(FOUND, "t", 0.95)
    assert (found.intervals, found.excluding, found.share) == (4, 1, 0.25)
    assert found.expected_share == pytest.approx(0.05)
    times, tail, allocations = found.metrics
    assert (times.intervals, times.excluding) == (3, ("same/other scan",))
    assert times.widest == null.Widest("save", "same/other", (0.9, 1.2))
    assert times.detectable == pytest.approx(math.log(1.2 / 0.9) / 2)
    assert times.median_half_width == pytest.approx(math.log(1.02 / 0.98) / 2)
    assert (tail.intervals, tail.without) == (1, ())
    assert (allocations.intervals, allocations.widest, allocations.without) == (0, None, ("same/other get",))


def test_sentences_have_the_numbers_and_claim_nothing() -> None:
    first, times, *_, last = null.sentences(null.summarise(FOUND, "t", 0.95))
    assert first == (
        "1 of 4 null t intervals excludes 1 (25.0%; 5.0% are expected at level 0.95): same/other scan (ns/op)."
    )
    assert times == (
        "ns/op: the widest of 3 null intervals is [0.900, 1.200], save; the median half width is 2.02%. With noise as "
        "here, a measured difference in time smaller than 15.5% is not resolved in every case."
    )
    assert last == (
        "allocs/op: 1 of 1 null estimates have no interval (no spread between blocks, or no data), and are not counted "
        "above: same/other get."
    )
    assert "no difference" not in " ".join((first, times, last))


def test_the_leading_sentences_are_of_one_metric_and_the_widest_interval_of_all() -> None:
    wide = [*FOUND, estimate("get", (0.5, 1.2), "max-ns")]
    found = null.summarise(wide, "t", 0.95)
    first, widest, times = null.leading(found, "ns/op")
    assert first == null.sentences(found)[0]
    assert widest == "The widest of all is [0.500, 1.200], get, largest latency."
    assert times.startswith("ns/op: the widest of 3 null intervals is [0.900, 1.200], save;")
    alone = null.summarise(FOUND[:3], "t", 0.95)
    assert null.leading(alone, "ns/op") == null.sentences(alone)  # of one metric the widest is named once


def test_a_percentile_interval_is_said_to_be_nominal() -> None:
    assert "a percentile interval covers less" in null.sentences(null.summarise(FOUND, "percentile", 0.95))[0]


def test_nothing_to_count() -> None:
    found = null.summarise(FOUND[-1:], "t", 0.95)
    assert found.share is None
    assert null.sentences(found)[0] == "No null estimate has a t interval."
    assert "allocs/op" in repr(null.table(found))
    null.drawn(FOUND[-1:], "t").wide.draw_without_rendering()


def test_the_figure_is_sorted_by_width_and_says_what_excludes_1() -> None:
    picture = null.drawn(FOUND, "t")
    assert picture.alt == (
        "4 null t intervals around 1, sorted by width; 1 excludes 1: scan ns/op 1.030 [1.010, 1.050]. Narrowest "
        "[0.990, 1.010], widest [0.900, 1.200] (save ns/op)."
    )
    shown = [text.get_text() for text in picture.wide.findobj(Text)]
    assert "scan ns/op excludes 1" in shown
    assert "scan ns/op" in [text.get_text() for text in picture.narrow.findobj(Text)]
    assert drawing.svg(picture.wide) == drawing.svg(null.drawn(FOUND, "t").wide)


def test_many_intervals_with_long_names_stay_inside() -> None:
    many = [estimate("A" * 60 + str(n), (1 + n / 1e4, 1.2 + n / 1e3), "allocations/operation") for n in range(90)]
    picture = null.drawn(many, "t")
    for figure in (picture.wide, picture.narrow):
        figure.draw_without_rendering()
        for text in figure.findobj(Text):
            if text.get_text().strip() and text.get_visible():
                box = text.get_window_extent()
                assert max(-box.x0, box.x1 - figure.bbox.x1) <= 1, text.get_text()
