"""Latency logs in the HdrHistogram format, decoded to counts, and what follows from counts. Pure.

A histogram counts integer values (here ns) in cells whose width is a fixed share of the value: with three significant
digits at most a thousandth. A percentile is the highest value of the cell in which the wanted rank lies, as every
implementation of the format has it; so it can be recomputed exactly, not only closely.

The format: https://github.com/HdrHistogram/HdrHistogram, interval lines of `HistogramLogWriter`, payloads V2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from hdrh.histogram import HdrHistogram

from runner.errors import DataError

LOG = "latency.hlog"
Ints = npt.NDArray[np.int64]

_LINE = re.compile(r"(?:Tag=([^,\s]+),)?[0-9.]+,[0-9.]+,[0-9.]+,(HIST[A-Za-z0-9+/=]+)")
_LEGEND = '"StartTimestamp"'


@dataclass(frozen=True)
class Layout:
    """Which values a cell stands for."""

    lowest: int  # trackable value, ns
    highest: int
    digits: int  # significant

    @property
    def unit_magnitude(self) -> int:
        """Log2 of the smallest difference that is told apart."""
        return self.lowest.bit_length() - 1

    @property
    def half_magnitude(self) -> int:
        """Log2 of the number of cells in each doubling of the value."""
        return (2 * int(10**self.digits) - 1).bit_length() - 1

    def lows(self, cells: Ints) -> Ints:
        """The smallest value of each cell."""
        half = 1 << self.half_magnitude
        bucket = np.maximum((cells >> self.half_magnitude) - 1, 0)
        inside = np.where(cells < half, cells, (cells & (half - 1)) + half)
        return np.asarray(inside << (bucket + self.unit_magnitude), dtype=np.int64)

    def widths(self, cells: Ints) -> Ints:
        """How many values each cell holds."""
        bucket = np.maximum((cells >> self.half_magnitude) - 1, 0)
        return np.asarray(np.left_shift(1, bucket + self.unit_magnitude), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Counts:
    """A histogram: the cells that hold something, ascending, and how many values each holds."""

    layout: Layout
    cells: Ints
    counts: Ints

    @cached_property
    def total(self) -> int:
        """How many values were recorded."""
        return int(self.counts.sum())

    @cached_property
    def _highs(self) -> Ints:
        return self.layout.lows(self.cells) + self.layout.widths(self.cells) - 1

    def percentiles(self, shares: Iterable[float]) -> Ints:
        """The values at these percentiles (0 to 100), in the unit recorded; 0 for a histogram without values.

        The rank is the percentile's share of the total, rounded to the nearest, and at least 1.
        """
        wanted = np.asarray(list(shares), dtype=np.float64)
        if not self.total:
            return np.zeros(len(wanted), dtype=np.int64)
        ranks = np.maximum((np.minimum(wanted, 100.0) * self.total / 100 + 0.5).astype(np.int64), 1)
        places = np.searchsorted(np.cumsum(self.counts), ranks, side="left")
        return np.asarray(self._highs[places], dtype=np.int64)

    @property
    def maximum(self) -> int:
        """The highest value of the last cell that holds something."""
        return int(self._highs[-1]) if self.total else 0

    @property
    def mean(self) -> float:
        """The mean of the cells' middles; 0 without values."""
        if not self.total:
            return 0.0
        middles = self.layout.lows(self.cells) + (self.layout.widths(self.cells) >> 1)
        return float((middles.astype(np.float64) * self.counts).sum() / self.total)


def read(data: bytes, where: str) -> dict[str, Counts]:
    """The histograms of a log by their tags ("" for none); intervals of one tag are added.

    Raises DataError, with file and line, for a line that is neither a comment, the legend nor an interval, for a payload
    that does not decode, for histograms of different layouts, and for a log without any.
    """
    found: dict[str, list[Counts]] = {}
    for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), start=1):
        if not line.strip() or line.startswith(("#", _LEGEND)):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise DataError(f"{where}:{number}", "not a line of a histogram log", found=repr(line[:80]))
        counts = _decoded(match[2], f"{where}:{number}")
        found.setdefault(match[1] or "", []).append(counts)
    layouts = {counts.layout for group in found.values() for counts in group}
    if len(layouts) != 1:
        raise DataError(
            where, "expected histograms of one layout", found=", ".join(sorted(map(str, layouts))) or "no histogram"
        )
    return {tag: merged(group) for tag, group in found.items()}


def _decoded(payload: str, where: str) -> Counts:
    try:
        histogram = HdrHistogram.decode(payload)
    except Exception as error:  # the package names no common base of what a broken payload raises
        raise DataError(
            where, "a histogram that does not decode", found=f"{type(error).__name__}: {error}"[:200]
        ) from None
    layout = Layout(histogram.lowest_trackable_value, histogram.highest_trackable_value, histogram.significant_figures)
    return _counts(layout, np.array(histogram.counts, dtype=np.int64))


def _counts(layout: Layout, everything: Ints) -> Counts:
    cells = np.flatnonzero(everything).astype(np.int64)
    return Counts(layout, cells, everything[cells])


def merged(histograms: Iterable[Counts]) -> Counts:
    """The sum of histograms.

    Raises
    ------
    ValueError
        There are none, or their layouts differ.
    """
    group = list(histograms)
    layouts = {counts.layout for counts in group}
    if len(layouts) != 1:
        raise ValueError(f"histograms of one layout can be added: {sorted(map(str, layouts))}")
    size = 1 + max((int(counts.cells[-1]) for counts in group if counts.total), default=-1)
    everything = np.zeros(size, dtype=np.int64)
    for counts in group:
        everything[counts.cells] += counts.counts
    return _counts(layouts.pop(), everything)
