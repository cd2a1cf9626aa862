"""Recomputes every point and t interval of a phase from stdout.txt and orders.json alone.

Shares no code with analysis/ or runner/: its own reading of the files, its own arithmetic (fractions of floats, a
plain sum), and Student's quantile by bisection on the regularised incomplete beta function.

    python tests/independent.py data/pgstack-20261130b B
"""

import functools
import json
import math
import sys
import urllib.parse
from pathlib import Path


def beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (modified Lentz)."""
    tiny, c, d = 1e-300, 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    h = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 + numerator * d
            c = 1.0 + numerator / c
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            h *= d * c
    return h


def t_tail(t: float, df: int) -> float:
    """P(T > t) for t > 0."""
    x, a, b = df / (df + t * t), df / 2.0, 0.5
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - (math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)))
    if x < (a + 1.0) / (a + b + 2.0):
        return 0.5 * front * beta_fraction(a, b, x) / a
    return 0.5 * (1.0 - front * beta_fraction(b, a, 1.0 - x) / b)


@functools.cache
def t_quantile(p: float, df: int) -> float:
    """Student's quantile for p > 1/2."""
    low, high = 1e-9, 1e4
    for _ in range(300):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, df) > 1 - p else (low, middle)
    return (low + high) / 2


def median(values: list[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def levels(folder: Path, phase: str) -> dict[tuple[str, str, int, str], float]:
    """(case, metric, block, arm) -> median of the run's values."""
    found: dict[tuple[str, str, int, str], float] = {}
    for run in json.loads((folder / "orders.json").read_text())["runs"]:
        if run["phase"] != phase:
            continue
        name = f"{run['block']}-{run['arm']}"
        log = folder / "runs" / phase / urllib.parse.quote(run["case"], safe="") / name / "stdout.txt"
        values: dict[str, list[float]] = {}
        for line in log.read_text().splitlines():
            if line.startswith(f"Benchmark{run['case']} "):
                words = line.split()[2:]
                for value, unit in zip(words[::2], words[1::2], strict=True):
                    values.setdefault(unit, []).append(float(value))
        for unit, numbers in values.items():
            found[run["case"], unit, run["block"], run["arm"]] = median(numbers)
    return found


def estimate(ratios: list[float]) -> tuple[float, tuple[float, float]]:
    logs = [math.log(ratio) for ratio in ratios]
    count = len(logs)
    mean = math.fsum(logs) / count
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (count - 1))
    half = t_quantile(0.975, count - 1) * spread / math.sqrt(count)
    return math.exp(mean), (math.exp(mean - half), math.exp(mean + half))


def main(folder: Path, phase: str) -> dict[tuple[str, str, str], tuple[float, tuple[float, float]]]:
    """(contrast, case, metric) -> point and t interval, for every ordered pair of arms."""
    found = levels(folder, phase)
    cases = sorted({(case, metric) for case, metric, _, _ in found})
    arms = sorted({arm for *_, arm in found})
    results = {}
    for case, metric in cases:
        for numerator in arms:
            for denominator in arms:
                pairs = [
                    (found.get((case, metric, block, numerator)), found.get((case, metric, block, denominator)))
                    for block in sorted({key[2] for key in found if key[:2] == (case, metric)})
                ]
                ratios = [x / y for x, y in pairs if x is not None and y is not None]
                if numerator != denominator and len(ratios) > 1:
                    results[f"{numerator}/{denominator}", case, metric] = estimate(ratios)
    return results


if __name__ == "__main__":
    for key, (point, (low, high)) in main(Path(sys.argv[1]), sys.argv[2]).items():
        print(*key, f"{point:.12f} [{low:.12f}, {high:.12f}]")
