"""The computed sentences: fixed vocabulary, numbers that agree with their words, nothing too strong."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import sentences
from analysis.model import Estimate, EstimateWarning, Interval, Missing

BELOW, ABOVE, OPEN = (0.950, 0.994), (1.010, 1.100), (0.980, 1.020)
FAILED = (Missing(3, "final", "exit status 3"),)


def estimate(case: str, t: Interval | None, percentile: Interval | None = None, **changes: Any) -> Estimate:
    point = None if t is None else round((t[0] + t[1]) / 2, 6)
    found = Estimate(
        "B",
        case,
        "ns/op",
        "final/before",
        point,
        t,
        percentile or t,
        blocks=(1, 2, 3, 4, 5, 6),
        ratios=(1.0,) * 6,
    )
    return replace(found, **changes)


def sentence(*estimates: Estimate, primary: str = "t") -> str:
    (found,) = sentences.sentences(estimates, primary=primary)
    return found.text


@pytest.mark.parametrize(
    ("t", "words"),
    [
        (BELOW, "final takes 0.972 [0.950, 0.994] of before's time on Load: entirely below 1."),
        (ABOVE, "final takes 1.055 [1.010, 1.100] of before's time on Load: entirely above 1."),
        (
            OPEN,
            ("final takes 1.000 [0.980, 1.020] of before's time on Load: including 1 (not resolved by this data)."),
        ),
    ],
)
def test_one_case(t, words):
    assert sentence(estimate("Load", t)) == words


def test_several_cases_are_grouped_in_plan_order_with_the_range_of_points():
    found = sentence(estimate("A", (0.64, 0.66)), estimate("C", OPEN), estimate("D", (1.4, 1.5)), estimate("E", BELOW))
    assert found == (
        "final takes 0.650 to 1.450 of before's time over 4 cases (point estimates): entirely below 1 on A "
        "(0.650 [0.640, 0.660]) and E (0.972 [0.950, 0.994]); entirely above 1 on D (1.450 [1.400, 1.500]); "
        "including 1 (not resolved by this data) on C (1.000 [0.980, 1.020])."
    )


def test_a_percentile_interval_alone_is_named_apart():
    found = sentence(estimate("A", OPEN, BELOW), estimate("C", BELOW), primary="percentile")
    assert "entirely below 1 on C (" in found
    assert "excluding 1 by the percentile interval only (t includes it) on A (1.000 [0.950, 0.994])" in found
    assert sentences.standing(estimate("A", OPEN, BELOW), "t") == "includes"


def test_no_spread_is_said_and_not_taken_for_an_interval():
    constant = estimate("A", None, point=0.8, warnings=(EstimateWarning("no-spread", "All are the same."),))
    assert sentence(constant) == (
        "final takes 0.800 of before's time on A: the same in every block, so without an interval."
    )
    found = sentence(constant, estimate("C", BELOW), estimate("D", None, point=0.7))
    assert "the same in every block, so without an interval on A (0.800); without an interval on D (0.700)" in found


def test_failed_runs_are_named_and_left_out():
    found = sentence(estimate("A", (0.5, 0.6), missing=FAILED), estimate("C", BELOW))
    assert found.startswith("final takes 0.972 [0.950, 0.994] of before's time on C")
    assert found.endswith("; left out: A (final in block 3 (exit status 3)).")
    assert sentence(estimate("A", None, blocks=())) == "final/before, time: nothing to report on A (no estimate)."


def test_a_replaced_block_is_not_left_out():
    void = (Missing(3, "final", "host down", replaced_by=7),)
    assert "left out" not in sentence(estimate("A", BELOW, missing=void))


def test_one_sentence_for_each_contrast_and_metric():
    found = sentences.sentences(
        [
            estimate(case, BELOW, metric=metric, contrast=contrast)
            for contrast in ("final/before", "final/legacy")
            for case in ("A", "C")
            for metric in ("ns/op", "B/op", "allocs/op")
        ],
        primary="t",
        contrasts=["final/legacy", "final/before"],
        metrics=["ns/op", "allocs/op", "B/op", "p99-ns"],
    )
    assert [(s.contrast, s.metric) for s in found] == [
        (contrast, metric) for contrast in ("final/legacy", "final/before") for metric in ("ns/op", "allocs/op", "B/op")
    ]
    assert found[1].text.startswith("final has 0.972 of legacy's allocations over 2 cases")
    assert found[2].text.startswith("final has 0.972 of legacy's bytes allocated over 2 cases")
    assert sentences.sentences([], primary="t") == ()


def test_metric_words():
    assert [sentences.metric_word(m) for m in ("ns/op", "B/op", "allocs/op", "tx/s")] == [
        "time",
        "bytes allocated",
        "allocations",
        "tx/s",
    ]


def test_listed():
    assert [sentences.listed(items) for items in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


@pytest.mark.parametrize(
    ("point", "interval", "limits", "words"),
    [
        (0.972, (0.951, 0.994), (1.0,), "0.972 [0.951, 0.994]"),
        (0.99821, (0.9952, 1.0012), (1.0,), "0.9982 [0.9952, 1.0012]"),
        (0.95, (0.9, 0.99971), (1.0,), "0.9500 [0.9000, 0.9997]"),
        (0.95, (0.9, 0.9999999), (1.0,), "0.950000 [0.900000, 1.000000]"),
        (1.0, (0.9, 1.1), (1.0,), "1.000 [0.900, 1.100]"),
        (1.2, (1.1002, 1.3), (1.1,), "1.2000 [1.1002, 1.3000]"),
        (0.8, None, (1.0,), "0.800"),
    ],
)
def test_ratio_words(point, interval, limits, words):
    assert sentences.ratio_words(point, interval, limits) == words


ENDS = st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(st.tuples(ENDS, ENDS), min_size=1, max_size=6), st.sampled_from(["t", "percentile"]))
def test_nothing_is_claimed_that_t_does_not_carry(ends, primary):
    found = [estimate(f"C{i}", t, percentile) for i, (t, percentile) in enumerate(ends)]
    text = sentence(*found, primary=primary)
    assert not re.search(r"no difference|equal|equivalent|faster|slower|better|worse|same", text)
    for e in found:
        standing = sentences.standing(e, primary)
        assert standing not in ("below", "above") or sentences.side(e.t) == standing
        assert e.case in text
