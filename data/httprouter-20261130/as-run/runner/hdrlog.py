"""HdrHistogram logs (log format 1.3, histograms V2), read with the standard library alone. Pure.

A histogram counts whole values in cells whose width is a fixed share of the value. A percentile is the highest value of
the cell in which the wanted rank lies, so it can be recomputed exactly. `analysis/hdr.py` reads the same logs with numpy
and the reference implementation; this module is for the runner, which has neither.

The format: https://github.com/HdrHistogram/HdrHistogram, `HistogramLogWriter` and `EncodableHistogram`.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'

_INTERVAL = re.compile(r"(?:Tag=([^,\s]+),)?([0-9]+(?:\.[0-9]+)?),([0-9]+(?:\.[0-9]+)?),([0-9]+(?:\.[0-9]+)?),(\S+)")
_VERSION = re.compile(r"#\[Histogram log format version ([0-9]+\.[0-9]+)\]")
_OUTER, _INNER = struct.Struct(">II"), struct.Struct(">IIIIQQd")
_COOKIE, _COMPRESSED_COOKIE, _WORD_SIZE = 0x1C849303, 0x1C849304, 0xF0
_LARGEST = 8 << 20  # bytes of an inflated histogram; with 5 significant digits and 64 bits none has more counts


@dataclass(frozen=True)
class Layout:
    """Which values a cell stands for."""

    lowest: int
    highest: int
    digits: int

    @property
    def _unit(self) -> int:
        """Log2 of the smallest difference that is told apart."""
        return self.lowest.bit_length() - 1

    @property
    def _magnitude(self) -> int:
        """Log2 of the number of cells in each doubling of the value."""
        return (2 * int(10**self.digits) - 1).bit_length() - 1

    def cell(self, value: int) -> int:
        """The cell that a value belongs into."""
        bucket = max((value >> self._unit).bit_length() - self._magnitude - 1, 0)
        return (bucket << self._magnitude) + (value >> (bucket + self._unit))

    def high(self, cell: int) -> int:
        """The highest value of a cell."""
        bucket = max((cell >> self._magnitude) - 1, 0)
        inside = cell - (bucket << self._magnitude)
        return ((inside + 1) << (bucket + self._unit)) - 1

    def low(self, cell: int) -> int:
        """The lowest value of a cell."""
        return self.high(cell - 1) + 1 if cell else 0


@dataclass(frozen=True)
class Histogram:
    """Counts above 0 by cell, ascending."""

    layout: Layout
    counts: Mapping[int, int]

    @property
    def total(self) -> int:
        """How many values were recorded."""
        return sum(self.counts.values())

    @property
    def maximum(self) -> int:
        """The highest value of the last cell that holds something; 0 without values."""
        return self.layout.high(max(self.counts)) if self.counts else 0

    @property
    def least_sum(self) -> int:
        """The least that all values can add up to."""
        return sum(self.layout.low(cell) * count for cell, count in self.counts.items())

    @property
    def mean(self) -> float:
        """The mean of the cells' middles; 0 without values."""
        layout, total = self.layout, self.total
        middles = sum(
            (layout.low(cell) + ((layout.high(cell) + 1 - layout.low(cell)) >> 1)) * count
            for cell, count in self.counts.items()
        )
        return middles / total if total else 0.0

    def percentile(self, share: float) -> int:
        """The value at a percentile (0 to 100); the rank is rounded to the nearest and at least 1."""
        rank, seen = max(int(min(share, 100.0) * self.total / 100 + 0.5), 1), 0
        for cell in sorted(self.counts):
            seen += self.counts[cell]
            if seen >= rank:
                return self.layout.high(cell)
        return 0


@dataclass(frozen=True)
class Interval:
    """One line of a log; times in seconds, `maximum` in the unit recorded."""

    line: int
    tag: str
    start: float
    length: float
    maximum: float
    payload: str


@dataclass(frozen=True)
class Log:
    """The lines of a log."""

    version: str = ""
    legend: bool = False
    intervals: tuple[Interval, ...] = ()
    faults: tuple[str, ...] = ()  # lines that are neither a comment nor the legend nor an interval


def read(data: bytes) -> Log:
    """Split a log into its lines. Never raises; payloads are not looked at."""
    version, legend, intervals, faults = "", False, [], []
    for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), start=1):
        if line.startswith("#"):
            found = _VERSION.match(line)
            version = found[1] if found else version
        elif line == LEGEND:
            legend = True
        elif match := _INTERVAL.fullmatch(line):
            tag, start, length, maximum, payload = match.groups()
            intervals.append(Interval(number, tag or "", float(start), float(length), float(maximum), payload))
        elif line.strip():
            faults.append(f"line {number}: {line[:80]!r}")
    return Log(version, legend, tuple(intervals), tuple(faults))


def decode(payload: str) -> Histogram:
    """The histogram that a payload holds. Raises ValueError that says what is wrong with it."""
    try:
        data = base64.b64decode(payload, validate=True)
    except ValueError as error:
        raise ValueError(f"not base64: {error}") from None
    if len(data) < _OUTER.size:
        raise ValueError(f"{len(data)} bytes, too few for a header")
    cookie, length = _OUTER.unpack_from(data)
    _expect_cookie(cookie, _COMPRESSED_COOKIE, "of the compressed histogram")
    if length != len(data) - _OUTER.size:
        raise ValueError(f"the header says {length} compressed bytes, there are {len(data) - _OUTER.size}")
    inner = _inflated(data[_OUTER.size :])
    if len(inner) < _INNER.size:
        raise ValueError(f"{len(inner)} inflated bytes, too few for a header")
    cookie, length, offset, digits, lowest, highest, ratio = _INNER.unpack_from(inner)
    _expect_cookie(cookie, _COOKIE, "of the histogram")
    if length != len(inner) - _INNER.size:
        raise ValueError(f"the header says {length} bytes of counts, there are {len(inner) - _INNER.size}")
    if offset or ratio != 1 or not 1 <= digits <= 5 or not 1 <= lowest <= highest // 2:
        raise ValueError(
            f"impossible header: offset {offset}, ratio {ratio}, digits {digits}, from {lowest} to {highest}"
        )
    return Histogram(Layout(lowest, highest, digits), _counts(inner[_INNER.size :], Layout(lowest, highest, digits)))


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """The sum of histograms of one layout. Raises ValueError when there are none, or layouts differ."""
    group = list(histograms)
    layouts = {histogram.layout for histogram in group}
    if len(layouts) != 1:
        raise ValueError(f"histograms of one layout can be added, found {len(layouts)}")
    counts: dict[int, int] = {}
    for histogram in group:
        for cell, count in histogram.counts.items():
            counts[cell] = counts.get(cell, 0) + count
    return Histogram(layouts.pop(), dict(sorted(counts.items())))


def _expect_cookie(found: int, wanted: int, what: str) -> None:
    if found & ~_WORD_SIZE != wanted:
        raise ValueError(f"cookie {what}: expected {wanted:#x} (V2), found {found & ~_WORD_SIZE:#x}")


def _inflated(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data, _LARGEST)
    except zlib.error as error:
        raise ValueError(f"does not inflate: {error}") from None
    if not stream.eof or stream.unused_data:
        raise ValueError(f"does not inflate to one whole histogram of at most {_LARGEST} bytes")
    return inflated


def _counts(data: bytes, layout: Layout) -> dict[int, int]:
    """ZigZag LEB128 of at most 9 bytes: a count, or negative how many cells in a row hold nothing."""
    counts: dict[int, int] = {}
    cell, at, last = 0, 0, layout.cell(layout.highest)
    while at < len(data):
        value = shift = 0
        while True:
            if at == len(data):
                raise ValueError("the counts end in the middle of a number")
            byte, at = data[at], at + 1
            if shift == 56:  # the ninth byte holds 8 bits and none goes on from it
                value |= byte << shift
                break
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        number = (value >> 1) ^ -(value & 1)
        if number > 0:
            counts[cell] = number
            if cell > last:
                raise ValueError(f"a count in cell {cell}, beyond that of the highest value, {last}")
        cell += max(-number, 1)
    return counts
