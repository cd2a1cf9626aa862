"""How numbers are written on a page and in a sentence. Pure functions; nothing here is measured.

Thousands are separated by U+202F, a thin space that does not break a line; a value that does not exist
is a dash, never "NaN" and never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.model import Interval

THIN = "\u202f"
DASH = "\u2014"
NARROW = 0.01  # an interval narrower than this is written with four decimals

_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "\u00b5s"), (1.0, "ns")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
}


def usable(value: float | None) -> bool:
    """Whether there is a finite number to write."""
    return value is not None and math.isfinite(value)


def fixed(value: float | None, decimals: int) -> str:
    """A number with a fixed number of decimals and thin spaces in thousands, or a dash."""
    if value is None or not math.isfinite(value):
        return DASH
    text = f"{value:,.{decimals}f}".replace(",", THIN)
    return text.lstrip("-") if float(f"{value:.{decimals}f}") == 0 else text.replace("-", "\u2212")


def ratio_decimals(interval: Interval | None) -> int:
    """Three decimals, four when the interval is narrower than 0.01."""
    if interval is None or not all(map(math.isfinite, interval)):
        return 3
    return 4 if interval[1] - interval[0] < NARROW else 3


def ratio_places(
    point: float | None, interval: Interval | None, limits: Sequence[float] = (1.0,), most: int = 6
) -> int:
    """`ratio_decimals`, and as many more as it takes for no number to read as a limit that it is not.

    "[0.951, 1.000]" must not stand for an interval that lies entirely below 1.
    """
    numbers = [value for value in (point, *(interval or ())) if value is not None and math.isfinite(value)]
    places = ratio_decimals(interval)
    while places < most and any(
        number != limit and f"{number:.{places}f}" == f"{limit:.{places}f}" for number in numbers for limit in limits
    ):
        places += 1
    return places


def interval_text(interval: Interval | None, decimals: int | None = None) -> str:
    """``[0.951, 0.994]``, both ends with the same decimals, or a dash."""
    if interval is None or not all(map(math.isfinite, interval)):
        return DASH
    places = ratio_places(None, interval) if decimals is None else decimals
    return f"[{fixed(interval[0], places)}, {fixed(interval[1], places)}]"


def ratio_text(point: float | None, interval: Interval | None) -> str:
    """``0.972 [0.951, 0.994]``: the point with the decimals of its interval; a dash for what is missing."""
    places = ratio_places(point, interval)
    if not usable(point):
        return DASH
    return f"{fixed(point, places)} {interval_text(interval, places)}"


def range_text(values: Sequence[float | None], decimals: int) -> str:
    """``0.961 to 0.980``: the smallest and largest of the values that exist, or a dash."""
    numbers = [value for value in values if value is not None and math.isfinite(value)]
    if not numbers:
        return DASH
    return f"{fixed(min(numbers), decimals)} to {fixed(max(numbers), decimals)}"


def three_digits(value: float | None) -> str:
    """At least three significant digits without an exponent: 0.123, 12.3, 1 234."""
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    rounded = abs(float(f"{value:.2e}"))
    return fixed(value, max(0, 2 - math.floor(math.log10(rounded))))


def unit_parts(metric: str) -> tuple[str, str]:
    """``ns/op`` gives ("ns", "/op"); ``p99-ns`` gives ("ns", " p99"); else the whole metric and nothing."""
    head, slash, tail = metric.partition("/")
    before, _, base = head.rpartition("-")
    rest = (slash + tail) + (f" {before}" if before else "")
    return (base, rest) if base in _SCALES else (metric, "")


def common_scale(values: Sequence[float | None], metric: str) -> tuple[float, str]:
    """Divisor and unit under which the smallest of ``values`` keeps three significant digits.

    Values of one row share the unit, so that they can be compared by eye.
    """
    base, rest = unit_parts(metric)
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value) and value != 0]
    if base not in _SCALES:
        return 1.0, metric
    smallest = float(f"{min(sizes):.2e}") if sizes else 1.0
    for divisor, unit in _SCALES[base]:
        if smallest >= divisor:
            return divisor, unit + rest
    divisor, unit = _SCALES[base][-1]
    return divisor, unit + rest


def absolute_texts(values: Sequence[float | None], metric: str) -> tuple[list[str], str]:
    """The values of one row in one unit, and that unit: (["767", "1 020"], "\u00b5s/op")."""
    divisor, unit = common_scale(values, metric)
    return [three_digits(None if value is None else value / divisor) for value in values], unit


def duration_text(seconds: float) -> str:
    """``8.2 s``, ``11 min 40 s``, ``2 h 05 min``."""
    if seconds < 60:
        return f"{fixed(seconds, 1)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{fixed(hours, 0)} h {minutes:02d} min"
