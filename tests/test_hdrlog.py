"""The runner's own reader of latency logs against the reference implementation."""

from __future__ import annotations

import base64
import contextlib
import struct
import zlib

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analysis import hdr
from runner import hdrlog

HIGHEST = 60_000_000_000
VALUES = st.lists(
    st.tuples(st.one_of(st.integers(0, 5000), st.integers(0, HIGHEST)), st.integers(1, 1 << 40)), max_size=30
)
SHARES = (0.001, 1, 25, 50, 90, 99, 99.9, 100)


def encoded(values: list[tuple[int, int]], digits: int = 3, lowest: int = 1) -> tuple[HdrHistogram, str]:
    histogram = HdrHistogram(lowest, HIGHEST, digits)
    for value, count in values:
        assert histogram.record_value(value, count)
    return histogram, histogram.encode().decode()


def packed(counts: bytes, cookie: int = 0x1C849313, digits: int = 3, length: int | None = None) -> str:
    header = struct.pack(">IIIIQQd", cookie, len(counts) if length is None else length, 0, digits, 1, HIGHEST, 1.0)
    data = zlib.compress(header + counts)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(data)) + data).decode()


def deflated(inner: bytes) -> str:
    data = zlib.compress(inner)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(data)) + data).decode()


@settings(max_examples=60, deadline=None)
@given(VALUES, st.integers(1, 3), st.sampled_from([1, 2, 1000, 1024]))
@example([(0, 1)], 3, 1)
@example([(HIGHEST, 1), (0, 1 << 40)], 3, 1)
def test_counts_and_percentiles_are_those_of_the_reference(
    values: list[tuple[int, int]], digits: int, lowest: int
) -> None:
    histogram, payload = encoded(values, digits, lowest)
    found = hdrlog.decode(payload)
    assert found.layout == hdrlog.Layout(lowest, HIGHEST, digits)
    reference = {cell: int(count) for cell, count in enumerate(histogram.counts) if count}
    assert found.counts == reference
    assert list(found.counts) == sorted(reference)
    assert found.total == histogram.get_total_count()
    assert {found.layout.cell(value) for value, _ in values} == set(reference)
    if values:
        expected = histogram.get_percentile_to_value_dict(list(SHARES))
        assert [found.percentile(share) for share in SHARES] == [expected[share] for share in SHARES]
        assert found.maximum == histogram.get_highest_equivalent_value(max(value for value, _ in values))
        assert found.least_sum <= sum(value * count for value, count in values)
        assert found.mean == pytest.approx(histogram.get_mean_value())


@settings(max_examples=50, deadline=None)
@given(st.lists(VALUES.filter(bool), min_size=1, max_size=4))
def test_sums_are_those_of_the_analysis(groups: list[list[tuple[int, int]]]) -> None:
    payloads = [encoded(values)[1] for values in groups]
    lines = "".join(f"Tag=t{n},0.0,1.0,1,{payload}\n" for n, payload in enumerate(payloads)).encode()
    whole = hdr.merged(hdr.read(lines, "log").values())
    log = hdrlog.read(lines)
    assert ([interval.tag for interval in log.intervals], log.faults) == ([f"t{n}" for n in range(len(groups))], ())
    found = hdrlog.merged(hdrlog.decode(interval.payload) for interval in log.intervals)
    assert [found.percentile(share) for share in SHARES] == whole.percentiles(SHARES).tolist()
    assert (found.total, found.maximum) == (whole.total, whole.maximum)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_whatever_the_bytes_it_decodes_or_says_why(data: bytes) -> None:
    for payload in (base64.b64encode(data).decode(), packed(data), data.decode("latin-1")):
        with contextlib.suppress(ValueError):
            found = hdrlog.decode(payload)
            assert all(count > 0 for count in found.counts.values())
            assert found.total == sum(found.counts.values())
    read = hdrlog.read(data)
    assert len(read.intervals) + len(read.faults) <= len(data.decode("utf-8", errors="replace").splitlines())


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("HIST*", "not base64"),
        ("SElT", "too few for a header"),
        (base64.b64encode(struct.pack(">II", 0x1C849304 - 2, 0)).decode(), "cookie of the compressed"),
        (base64.b64encode(struct.pack(">II", 0x1C849314, 3)).decode(), "says 3 compressed bytes, there are 0"),
        (base64.b64encode(struct.pack(">II", 0x1C849314, 3) + b"abc").decode(), "does not inflate"),
        (packed(b"", cookie=0x1C849301), "cookie of the histogram"),
        (deflated(b"abc"), "3 inflated bytes, too few for a header"),
        (packed(b"\x02", length=5), "says 5 bytes of counts, there are 1"),
        (packed(b"\x02", digits=9), "impossible header"),
        (packed(b"\x82"), "in the middle of a number"),
        (packed(b"\xff\xff\xff\x0f\x02"), "beyond that of the highest value"),
    ],
)
def test_what_is_wrong_is_named(payload: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        hdrlog.decode(payload)


def test_of_nothing_every_percentile_is_the_lowest_value() -> None:
    nothing = hdrlog.decode(packed(b""))
    assert (nothing.total, nothing.percentile(50), nothing.percentile(100)) == (0, 0, 0)


def test_a_payload_that_would_fill_memory_is_refused() -> None:
    data = zlib.compress(bytes(64 << 20))
    payload = base64.b64encode(struct.pack(">II", 0x1C849314, len(data)) + data).decode()
    with pytest.raises(ValueError, match="at most"):
        hdrlog.decode(payload)


def test_lines_of_a_log() -> None:
    text = f"#[Histogram log format version 1.3]\n{hdrlog.LEGEND}\n\n0.5,1.0,7.0,HISTx\nwhat\nTag=a b,1,1,1,HISTx\n"
    log = hdrlog.read(text.encode())
    assert (log.version, log.legend) == ("1.3", True)
    assert log.intervals == (hdrlog.Interval(4, "", 0.5, 1.0, 7.0, "HISTx"),)
    assert [fault.partition(":")[0] for fault in log.faults] == ["line 5", "line 6"]
    with pytest.raises(ValueError, match="found 0"):
        hdrlog.merged([])
