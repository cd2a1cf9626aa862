"""Closed-loop workers whose every operation is timed, stamps of a process's stages, and the log of latencies.

hdrhistogram is imported only when a log is written: that is harness work and belongs into no measured part.
"""

from __future__ import annotations

import gc
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from common import Operation

LOWEST_NS, HIGHEST_NS, DIGITS = 1, 60_000_000_000, 3  # what a histogram can hold, and its significant digits
PERCENTILES = (50, 90, 99, 99.9)

Count = Callable[[Any], int]  # how many rows a result holds


# ---- stages


class Stages:
    """Stamps: wall ns since the first one, CPU ns of the process (user and system, all threads) since it began."""

    def __init__(self) -> None:
        self.stamps: dict[str, tuple[int, int]] = {}
        self.origin = 0  # the clock's reading at the first stamp

    def stamp(self, name: str) -> None:
        """A stage ends here."""
        now = time.perf_counter_ns()
        self.origin = self.origin or now
        self.stamps[name] = (now - self.origin, time.process_time_ns())


# ---- workers


@dataclass(frozen=True)
class Lap:
    """What one worker did from the start to its own end: times in ns, rows returned, the last results with their n."""

    worker: int
    times: array[int]
    rows: int
    kept: deque[tuple[int, Any]]


@dataclass(frozen=True)
class Pass:
    """What all workers did from their common start to the last one's end; clock readings and CPU in ns."""

    laps: list[Lap]
    start: int
    end: int
    cpu: int


def time_lap(operation: Operation, worker: int, first: int, times: array[int], count: Count, keep: int) -> Lap:
    """Closed loop: each operation begins when the one before has ended.

    Timed, as in common.time_reads: the operation and keeping its result, which frees an older one. Not timed:
    counting the rows of the result, and storing the time.
    """
    clock, rows = time.perf_counter_ns, 0
    kept: deque[tuple[int, Any]] = deque(maxlen=keep)
    append = kept.append
    for i in range(len(times)):
        start = clock()
        result = operation(first + i)
        append((first + i, result))
        times[i] = clock() - start
        rows += count(result)
    return Lap(worker, times, rows, kept)


def run_pass(operations: Sequence[Operation], first: int, number: int, count: Count, keep: int) -> Pass:
    """Operations `first` to `first + number - 1` of every worker, each in a thread of its own, from a common start.

    What a worker raises is raised here at once; its threads end with the process, so that none can hold it up.
    """
    started: list[int] = []
    outcomes: SimpleQueue[Lap | BaseException] = SimpleQueue()
    barrier = threading.Barrier(
        len(operations) + 1, lambda: started.extend((time.process_time_ns(), time.perf_counter_ns()))
    )

    def body(worker: int) -> None:
        try:
            times = array("q", bytes(8 * number))
            barrier.wait()
            outcomes.put(time_lap(operations[worker], worker, first, times, count, keep))
        except BaseException as error:
            outcomes.put(error)
            barrier.abort()

    gc.collect()
    threads = [threading.Thread(target=body, args=(worker,), daemon=True) for worker in range(len(operations))]
    for thread in threads:
        thread.start()
    barrier.wait()
    laps = []
    for _ in threads:
        outcome = outcomes.get()
        if isinstance(outcome, BaseException):
            raise outcome
        laps.append(outcome)
    end, cpu = time.perf_counter_ns(), time.process_time_ns()
    for thread in threads:
        thread.join()
    return Pass(sorted(laps, key=lambda lap: lap.worker), started[1], end, cpu - started[0])


# ---- the log


@dataclass(frozen=True)
class Interval:
    """What one worker measured in one repeat; `start_ns` and `end_ns` since the process's stamp A."""

    tag: str
    start_ns: int
    end_ns: int
    times_ns: Sequence[int]


def empty() -> Any:
    """A histogram without values."""
    from hdrh.histogram import HdrHistogram

    return HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)


def write_log(path: str, intervals: Iterable[Interval]) -> Any:
    """Write one line for each interval; return the histogram of all values. Raises OverflowError beyond 60 s."""
    from hdrh.log import HistogramLogWriter

    merged = empty()
    with open(path, "w", encoding="ascii") as file:
        writer = HistogramLogWriter(file)
        writer.output_comment("[Histogram log format version 1.3]")  # the writer's own line says 1.2, which has no tags
        writer.output_comment("[values in nanoseconds; times in seconds since stamp A]")
        writer.output_legend()
        for interval in intervals:
            histogram = empty()
            for value in interval.times_ns:
                if not histogram.record_value(value):
                    raise OverflowError(f"{interval.tag}: {value} ns is more than the histogram holds, {HIGHEST_NS} ns")
            histogram.set_start_time_stamp(interval.start_ns / 1e6)
            histogram.set_end_time_stamp(interval.end_ns / 1e6)
            file.write(f"Tag={interval.tag},")  # the writer has no tags, its reader has
            writer.output_interval_histogram(histogram, max_value_unit_ratio=1.0)
            merged.add(histogram)
    return merged


def summary(histogram: Any) -> dict[str, int]:
    """Percentiles and maximum in ns by unit: the upper end of the bucket that holds the value."""
    values = histogram.get_percentile_to_value_dict(list(PERCENTILES))
    return {f"p{p:g}-ns": values[p] for p in PERCENTILES} | {"max-ns": histogram.get_max_value()}
