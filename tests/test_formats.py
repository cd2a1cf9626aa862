"""How numbers are written."""

from __future__ import annotations

import math

import pytest

from analysis import formats
from analysis.formats import DASH, THIN


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.97249, 3, "0.972"),
        (1234.5678, 1, f"1{THIN}234.6"),
        (1234567.0, 0, f"1{THIN}234{THIN}567"),
        (-0.0004, 3, "0.000"),
        (-1.5, 1, "\u22121.5"),
        (None, 3, DASH),
        (math.nan, 3, DASH),
        (math.inf, 3, DASH),
    ],
)
def test_fixed(value: float | None, decimals: int, text: str) -> None:
    assert formats.fixed(value, decimals) == text


@pytest.mark.parametrize(
    ("point", "interval", "text"),
    [
        (0.9723, (0.9509, 0.9941), "0.972 [0.951, 0.994]"),
        (0.9723, (0.9712, 0.9731), "0.9723 [0.9712, 0.9731]"),
        (0.5, (0.495, 0.50499), "0.5000 [0.4950, 0.5050]"),
        (0.5, (0.495, 0.50501), "0.500 [0.495, 0.505]"),
        (0.97, (0.94, 0.99996), "0.97000 [0.94000, 0.99996]"),
        (1.0, (0.98, 1.02), "1.000 [0.980, 1.020]"),
        (1.0, (1.0, 1.0), "1.0000 [1.0000, 1.0000]"),
        (1500.0, (1400.0, 1600.0), f"1{THIN}500.000 [1{THIN}400.000, 1{THIN}600.000]"),
        (0.97, None, f"0.970 {DASH}"),
        (None, (0.9, 1.1), DASH),
        (math.nan, None, DASH),
    ],
)
def test_ratio(point: float | None, interval: tuple[float, float] | None, text: str) -> None:
    assert formats.ratio_text(point, interval) == text


def test_an_end_that_is_not_1_never_reads_as_1() -> None:
    assert formats.interval_text((0.9, 0.9999996)) == "[0.900000, 1.000000]"  # six decimals are the most
    assert formats.interval_text((0.9, 0.99996)) == "[0.90000, 0.99996]"
    assert formats.interval_text((0.9, 1.0)) == "[0.900, 1.000]"


def test_range() -> None:
    assert formats.range_text([1.01, None, 0.99], 3) == "0.990 to 1.010"
    assert formats.range_text([None], 3) == DASH
    assert formats.range_text([], 3) == DASH


@pytest.mark.parametrize(
    ("value", "text"),
    [(766.8, "767"), (0.12345, "0.123"), (12.345, "12.3"), (999.96, f"1{THIN}000"), (9.996, "10.0"), (0, "0"),
     (75140.0, f"75{THIN}140"), (0.0012345, "0.00123"), (None, DASH), (math.nan, DASH)],
)  # fmt: skip
def test_three_digits(value: float | None, text: str) -> None:
    assert formats.three_digits(value) == text


@pytest.mark.parametrize(
    ("values", "metric", "texts", "unit"),
    [
        ([766812.0, 661_000.0], "ns/op", ["767", "661"], "\u00b5s/op"),
        ([900_000.0, 1_100_000.0], "ns/op", ["900", f"1{THIN}100"], "\u00b5s/op"),
        ([999.7, 2000.0], "ns/op", ["1.00", "2.00"], "\u00b5s/op"),
        ([4_080_200.0], "ns/op", ["4.08"], "ms/op"),
        ([2.5e9], "ns/op", ["2.50"], "s/op"),
        ([1_610_000.0, None], "B/op", ["1.61", DASH], "MB/op"),
        ([75140.0], "allocs/op", [f"75{THIN}140"], "allocs/op"),
        ([12_000.0], "p99-ns", ["12.0"], "\u00b5s p99"),
        ([12_000.0], "cpu-ns/tx", ["12.0"], "\u00b5s/tx cpu"),
        ([0.0, 5.0], "ns/op", ["0", "5.00"], "ns/op"),
        ([None, math.nan], "ns/op", [DASH, DASH], "ns/op"),
        ([0.25], "ns/op", ["0.250"], "ns/op"),
    ],
)
def test_absolute_values(values: list[float | None], metric: str, texts: list[str], unit: str) -> None:
    assert formats.absolute_texts(values, metric) == (texts, unit)


@pytest.mark.parametrize(
    ("seconds", "text"), [(8.24, "8.2 s"), (59.99, "60.0 s"), (700.4, "11 min 40 s"), (7500, "2 h 05 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert formats.duration_text(seconds) == text
