"""The intervals' speed beside scipy.stats.bootstrap, in the same process: ratios of medians, printed as `ratio NAME NUMBER`.

    python benchmarks/intervals.py [--repeats N] [--quick]

Each ratio is scipy's time over ours: above 1, ours is faster. What has no peer is printed as `seconds` or `megabytes`, of this
machine and this moment. The same intervals are compared first: a fast wrong answer ends the benchmark.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from analysis import intervals

BLOCKS, RESAMPLES, SEED, LEVEL = 6, 20_000, 391706, 0.95


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median wall time of some repeats, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def logs_of(series: int) -> np.ndarray:
    """Block log ratios of that many series, with 3% of noise."""
    return np.random.default_rng(1).normal(0.01, 0.03, (series, BLOCKS))


def by_scipy(logs: np.ndarray) -> np.ndarray:
    """scipy's percentile bootstrap of the same means, all series in one call."""
    found = stats.bootstrap(
        (logs,), np.mean, axis=1, vectorized=True, n_resamples=RESAMPLES, method="percentile",
        confidence_level=LEVEL, random_state=np.random.default_rng(SEED), batch=200,
    )  # fmt: skip
    interval = found.confidence_interval
    return np.stack([interval.low, interval.high], axis=1)


def sampled(logs: np.ndarray) -> np.ndarray:
    """Our sampled interval, its matrix of resamples made anew."""
    intervals.resample_counts.cache_clear()
    return intervals.percentile_sampled_many(logs, SEED, RESAMPLES, LEVEL)


def exact(logs: np.ndarray) -> np.ndarray:
    """Our enumerated interval."""
    return intervals.percentile_exact_many(np.exp(logs), LEVEL)


def assert_agreement() -> None:
    """Ends of all three within a twentieth of the interval's width of each other."""
    logs = logs_of(72)
    theirs, width = by_scipy(logs), np.ptp(np.log(exact(logs)), axis=1)
    for ours in (np.log(exact(logs)), np.log(sampled(logs))):
        worst = float(np.max(np.abs(ours - theirs) / width[:, None]))
        if worst > 0.05:
            sys.exit(f"the intervals differ by {worst:.3f} of their width: nothing is timed")


def main() -> None:
    """Time, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each measurement, of which the median counts")
    parser.add_argument("--quick", action="store_true", help="without the long series")
    options = parser.parse_args()
    assert_agreement()
    few = logs_of(72)
    peer = seconds(lambda: by_scipy(few), options.repeats)
    print(f"ratio exact-72 {peer / seconds(lambda: exact(few), 20 * options.repeats):.1f}")
    print(f"ratio sampled-72 {peer / seconds(lambda: sampled(few), options.repeats):.1f}", flush=True)
    if options.quick:
        return
    many = logs_of(10_000)
    peer = seconds(lambda: by_scipy(many[:1000]), 1) * 10  # a thousand at a time, as its memory grows with them
    print(f"ratio sampled-10000 {peer / seconds(lambda: sampled(many), 1):.1f}")
    print(f"ratio exact-10000 {peer / seconds(lambda: exact(many), options.repeats):.1f}", flush=True)
    million = logs_of(1_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"seconds exact-1000000 {seconds(lambda: exact(million), 1):.2f}")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"megabytes exact-1000000 {after / 1024:.0f} in all, {(after - before) / 1024:.0f} more than before")


if __name__ == "__main__":
    main()
