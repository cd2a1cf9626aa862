"""Latency logs against what the runs printed: every percentile recomputed from the histograms."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from analysis.formats import fixed
from analysis.hdr import LOG, Counts, merged
from analysis.model import Sample
from analysis.report import PhaseReport
from analysis.sentences import listed
from runner.errors import DataError
from runner.plan import Phase
from runner.store import Labels

PERCENTILES = {"p50-ns": 50.0, "p90-ns": 90.0, "p99-ns": 99.0, "p99.9-ns": 99.9}
MAXIMUM, MEAN = "max-ns", "ns/op"
PRECISION = 1e-3  # of a mean: a value lies within half a cell of its cell's middle, and a cell is at most this wide

_REPEAT = re.compile(r"repeat-([0-9]+)(?:-|$)")


def check(report: PhaseReport) -> str:
    """One sentence on what was recomputed from the latency logs of a phase's good runs.

    Raises DataError with file, metric, expected and found where a printed value does not follow from its log, where
    a log cannot be read, and where no case of the phase writes one.
    """
    assert_logs(report)
    samples: dict[Labels, list[Sample]] = defaultdict(list)
    by_place = {(labels.case, labels.arm, labels.block): labels for labels in report.latencies}
    for sample in report.data.samples:
        labels = by_place.get((sample.case, sample.arm, sample.block))
        if labels is not None:
            samples[labels].append(sample)
    values = 0
    for labels, histograms in report.latencies.items():
        where = report.store.relative(report.store.run_folder(labels) / LOG)
        compare(histograms, samples[labels], where)
        values += sum(counts.total for counts in histograms.values())
    return sentence(len(report.latencies), values, *checked_metrics(report.phase, report.latency_cases))


def sentence(runs: int, values: int, exact: Sequence[str], means: bool) -> str:
    """What was recomputed from so many runs' logs with so many latencies in all."""
    if not runs:
        return f"No good run of this phase has a {LOG}: nothing was recomputed."
    if not (exact or means):
        return f"The plan names no metric that follows from the {LOG} of its runs: nothing was recomputed."
    parts = [f"{listed(exact)} {'is' if len(exact) == 1 else 'are'} exactly as printed"] if exact else []
    parts += [f"the mean {MEAN} agrees within the histogram's precision of {PRECISION:.1%}"] if means else []
    done = (
        f"Every percentile of {runs} run{'s' * (runs != 1)} was recomputed from its {LOG}, {fixed(values, 0)} latencies "
        "in all"
    )
    return f"{done}: {'; '.join(parts)}."


def assert_logs(report: PhaseReport) -> None:
    """Raise DataError where no case of the phase writes a latency log."""
    if not report.latency_cases:
        raise DataError(
            f"phase {report.identifier}", "no case of this phase writes a latency log", expected=f'outputs = ["{LOG}"]'
        )


def checked_metrics(phase: Phase, cases: Iterable[str]) -> tuple[list[str], bool]:
    """The metrics of these cases that follow exactly from a log, in plan order, and whether a mean does."""
    units = {metric.unit for case in cases for metric in phase.metrics_of(case)}
    ordered = [metric.unit for metric in phase.metrics if metric.unit in units]
    return [unit for unit in ordered if unit in PERCENTILES or unit == MAXIMUM], MEAN in units


def compare(histograms: Mapping[str, Counts], samples: Iterable[Sample], where: str) -> None:
    """Compare one run's printed values with its histograms by tag.

    Percentiles and maximum, printed once per run, are those of all histograms together and must be equal. A mean per
    repeat is that of the histograms whose tag names the repeat, and may differ by the histogram's precision; where no tag
    names one, the median of the repeats may differ from the mean of all by as much. Raises DataError.
    """
    whole = merged(histograms.values())
    means: list[Sample] = []
    for sample in samples:
        if sample.metric == MEAN:
            means.append(sample)
        elif sample.metric in PERCENTILES or sample.metric == MAXIMUM:
            found = _of(whole, sample.metric)
            if sample.value != found:
                raise _differs(where, sample, f"{found} ns, from the log", f"{sample.value:.10g}")
    repeats = by_repeat(histograms)
    if means and not repeats:
        _assert_near(where, means[0], median(sample.value for sample in means), whole.mean)
    for sample in means if repeats else ():
        if sample.repeat not in repeats:
            raise DataError(where, f"no histogram of repeat {sample.repeat}", found=", ".join(histograms))
        _assert_near(where, sample, sample.value, repeats[sample.repeat].mean)


def by_repeat(histograms: Mapping[str, Counts]) -> dict[int, Counts]:
    """The histograms of each repeat, its workers together; nothing when some tag names no repeat."""
    groups: dict[int, list[Counts]] = defaultdict(list)
    for tag, counts in histograms.items():
        match = _REPEAT.match(tag)
        if match is None:
            return {}
        groups[int(match[1])].append(counts)
    return {repeat: merged(group) for repeat, group in groups.items()}


def _of(counts: Counts, metric: str) -> int:
    return counts.maximum if metric == MAXIMUM else int(counts.percentiles([PERCENTILES[metric]])[0])


def _assert_near(where: str, sample: Sample, value: float, mean: float) -> None:
    if not abs(value - mean) <= PRECISION * mean:
        raise _differs(where, sample, f"{mean:.10g} within {PRECISION:.1%}, from the log", f"{value:.10g}")


def _differs(where: str, sample: Sample, expected: str, found: str) -> DataError:
    return DataError(
        where,
        f"{sample.metric} does not follow from this log",
        expected=expected,
        found=f"{found} at {sample.file}:{sample.line}",
        remedy="restore both files from where the campaign was published",
    )


def by_arm(report: PhaseReport) -> dict[str, dict[str, tuple[Counts, tuple[Counts, ...]]]]:
    """For each case and arm, in plan order: the histogram of all its good runs, and each run's own.

    Raises DataError where no case writes a latency log. An arm without a good run is left out.
    """
    assert_logs(report)
    runs: dict[str, dict[str, list[Counts]]] = {case: {arm: [] for arm in report.arms} for case in report.latency_cases}
    for labels, histograms in report.latencies.items():
        runs[labels.case][labels.arm].append(merged(histograms.values()))
    return {
        case: {arm: (merged(group), tuple(group)) for arm, group in arms.items() if group}
        for case, arms in runs.items()
    }
