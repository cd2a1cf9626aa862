"""The intervals' speed beside scipy.stats.bootstrap, in the same process: ratios of medians, printed as `ratio NAME NUMBER`.

    python benchmarks/intervals.py [--repeats N] [--quick | --readme]

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

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from analysis import intervals  # noqa: E402 - started by its path, from any folder

BLOCKS, RESAMPLES, SEED, LEVEL = 6, 20_000, 391706, 0.95
START, END = "<!-- benchmarks/intervals.py --readme writes this table -->", "<!-- end of the table -->"


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
    intervals.distinct_resamples.cache_clear()
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


WHAT = {
    "exact-72": "72 series, enumerated",
    "sampled-72": "72 series, sampled",
    "exact-10000": "10,000 series, enumerated",
    "sampled-10000": "10,000 series, sampled",
}


def ratios(repeats: int, quick: bool) -> dict[str, float]:
    """scipy's time over ours, by name."""
    few = logs_of(72)
    peer = seconds(lambda: by_scipy(few), repeats)
    found = {"exact-72": peer / seconds(lambda: exact(few), 20 * repeats)}
    found["sampled-72"] = peer / seconds(lambda: sampled(few), 5 * repeats)
    if not quick:
        many = logs_of(10_000)
        peer = 10 * seconds(lambda: by_scipy(many[:1000]), 1)  # a thousand at a time, as its memory grows with them
        found["exact-10000"] = peer / seconds(lambda: exact(many), repeats)
        found["sampled-10000"] = peer / seconds(lambda: sampled(many), repeats)
    return found


def million() -> tuple[float, float]:
    """Seconds for the exact intervals of a million series, and the megabytes that this process had at most."""
    logs = logs_of(1_000_000)
    taken = seconds(lambda: exact(logs), 1)
    return taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def table(found: dict[str, float], taken: float, megabytes: float) -> str:
    """The README's table."""
    rows = [f"| {WHAT[name]} | {ratio:.0f} times as fast as `scipy.stats.bootstrap` |" for name, ratio in found.items()]
    rows.append(f"| 1,000,000 series, enumerated | {taken:.1f} s, {megabytes:.0f} MB in all |")
    head = f"| percentile intervals over {BLOCKS} blocks, {RESAMPLES} resamples | |"
    return "\n".join([head, "|---|---|", *rows]) + "\n"


def into_readme(text: str) -> None:
    """Put the table between its marks in the README."""
    path = PROJECT / "README.md"
    before, start, rest = path.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"{path}: no {START!r} and {END!r} in it")
    path.write_text(f"{before}{start}\n{text}{end}{after}", encoding="utf-8")


def main() -> None:
    """Time, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--repeats", type=int, default=5, help="repeats of each measurement, of which the median counts"
    )
    parser.add_argument("--quick", action="store_true", help="72 series alone")
    parser.add_argument("--readme", action="store_true", help="write the README's table")
    options = parser.parse_args()
    if options.quick and options.readme:
        parser.error("the README's table has the long series too: leave out --quick")
    assert_agreement()
    taken, megabytes = (0.0, 0.0) if options.quick else million()  # first: its memory is then not scipy's
    found = ratios(options.repeats, options.quick)
    for name, ratio in found.items():
        print(f"ratio {name} {ratio:.1f}")
    if not options.quick:
        print(f"seconds exact-1000000 {taken:.2f}")
        print(f"megabytes exact-1000000 {megabytes:.0f}")
    if options.readme:
        into_readme(table(found, taken, megabytes))


if __name__ == "__main__":
    main()
