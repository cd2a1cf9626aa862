"""The rules of a closed-loop client's stages and of its latency log. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from runner import hdrlog
from runner.contract import (
    CPU_MEASURED,
    CPU_TOTAL,
    LOG,
    PERCENTILES,
    STAGES,
    Difference,
    Evidence,
    Rule,
    collector,
)

ROUNDING = 0.06  # of a value printed with one decimal
MEAN_PRECISION = 1e-3  # a cell is at most this share of its values wide
TICK_NS = 20_000_000  # the kernel may account CPU time in ticks
SLOW, SLOW_NS = 10, 1_000_000_000  # a loop may take this much longer than its operations, and this much for each repeat
LOG_TICK_S = 2e-6  # a log has times with six decimals

RULES: list[Rule] = []
rule = collector(RULES)


# ---- stages


@rule(
    "stages",
    "lines stage-a to stage-e: two whole numbers each, wall ns since A and CPU ns since the process began",
    "print all five, stage-a with 0 first",
    "done",
)
def _stages(evidence: Evidence) -> Difference | None:
    for name in STAGES:
        found = evidence.done.log.configuration.get(name, "missing")
        if not re.fullmatch("0 [0-9]{1,18}" if name == STAGES[0] else "[0-9]{1,18} [0-9]{1,18}", found):
            return f"{name}: <wall ns> <CPU ns>, the wall of A being 0", f"{name}: {found}"
    return None


@rule("stage-order", "from A to E wall grows and CPU does not fall", "stamp each stage when it ends", "stages")
def _stage_order(evidence: Evidence) -> Difference | None:
    for (first, second), (one, other) in zip(
        itertools.pairwise(STAGES), itertools.pairwise(evidence.done.stages), strict=True
    ):
        if one[0] >= other[0] or one[1] > other[1]:
            return f"{second} after {first}", f"{first}: {one[0]} {one[1]}, {second}: {other[0]} {other[1]}"
    return None


@rule(
    "stage-clock",
    "stamp E is within the time and the CPU time that the process took",
    "look at the units: both are ns",
    "stages",
)
def _stage_clock(evidence: Evidence) -> Difference | None:
    ran, (wall, cpu) = evidence.done, evidence.done.stages[-1]
    fits = wall <= ran.wall_ns and cpu <= ran.cpu_ns + TICK_NS
    return None if fits else (f"at most {ran.wall_ns} wall ns and {ran.cpu_ns} CPU ns", f"{wall} and {cpu}")


@rule(
    "stage-length",
    "D minus C is at least operations x ns/op / workers, and not far above it",
    "stamp C after the warm-up and D after the last repeat, before anything is compared",
    "stage-order",
    "operations",
    "values",
)
def _stage_length(evidence: Evidence) -> Difference | None:
    asked, ran = evidence.asked, evidence.done
    busy = sum(record.values[0][0] for record in ran.repeats) * asked.each / asked.workers
    found, most = ran.stages[3][0] - ran.stages[2][0], SLOW * busy + SLOW_NS * asked.repeats
    return None if 0.99 * busy <= found <= most else (f"{busy:.0f} to {most:.0f} ns", f"{found} ns")


@rule(
    "cpu-total",
    f"{CPU_TOTAL} is the CPU time from A to E over all operations",
    "divide by the operations of all repeats",
    "stages",
    "run-line",
)
def _cpu_total(evidence: Evidence) -> Difference | None:
    stages, operations = evidence.done.stages, evidence.asked.each * evidence.asked.repeats
    expected, found = (stages[4][1] - stages[0][1]) / operations, evidence.done.run_values[CPU_TOTAL]
    return None if abs(expected - found) <= ROUNDING else (f"{expected:.1f}", f"{found:g}")


@rule(
    "cpu-measured",
    f"{CPU_MEASURED} is at most the CPU time from C to D over all operations",
    "take CPU time at the start and the end of each repeat, of all threads",
    "stages",
    "run-line",
)
def _cpu_measured(evidence: Evidence) -> Difference | None:
    stages, operations = evidence.done.stages, evidence.asked.each * evidence.asked.repeats
    most, found = (stages[3][1] - stages[2][1]) / operations, evidence.done.run_values[CPU_MEASURED]
    return None if found <= most + ROUNDING else (f"at most {most:.1f}", f"{found:g}")


# ---- the latency log


@rule("log-there", f"{LOG} is in the output folder", f"write it to {LOG} in the folder that --output names", "done")
def _log_there(evidence: Evidence) -> Difference | None:
    found = sorted(evidence.done.files)
    return None if LOG in found else (LOG, ", ".join(found) or "no file")


@rule("log-alone", "no other file is in the output folder", "write other files elsewhere, or remove them", "done")
def _log_alone(evidence: Evidence) -> Difference | None:
    others = sorted(set(evidence.done.files) - {LOG})
    return (f"{LOG} alone", ", ".join(others)) if others else None


@rule("log-header", "the log names its format version, 1.3, and has the legend", "write both lines", "log-there")
def _log_header(evidence: Evidence) -> Difference | None:
    log = evidence.done.latencies
    found = f"version {log.version or 'missing'}, {'a' if log.legend else 'no'} legend"
    return None if log.version == "1.3" and log.legend else ("version 1.3, a legend", found)


@rule(
    "log-lines",
    "every line is a comment, the legend, or Tag=<tag>,<start s>,<length s>,<max ns>,<histogram>",
    "mend the line",
    "log-there",
)
def _log_lines(evidence: Evidence) -> Difference | None:
    log = evidence.done.latencies
    return ("no other line", log.faults[0]) if log.faults else None


@rule(
    "log-tags",
    "one interval for each repeat and worker, tagged repeat-N-worker-M, both from 0",
    "write one each",
    "log-lines",
)
def _log_tags(evidence: Evidence) -> Difference | None:
    asked = evidence.asked
    expected = [f"repeat-{n}-worker-{m}" for n in range(asked.repeats) for m in range(asked.workers)]
    found = [interval.tag or "no tag" for interval in evidence.done.latencies.intervals]
    return None if sorted(found) == sorted(expected) else (", ".join(expected)[:300], ", ".join(found)[:300] or "none")


@rule(
    "log-decodes",
    "every histogram decodes: base64, zlib, V2, counts as ZigZag LEB128",
    "use an HdrHistogram library's V2 compressed encoding",
    "log-lines",
)
def _log_decodes(evidence: Evidence) -> Difference | None:
    for interval in evidence.done.latencies.intervals:
        try:
            hdrlog.decode(interval.payload)
        except ValueError as error:
            return "a histogram", f"line {interval.line}: {error}"
    return None


@rule(
    "log-layout",
    "every histogram has the same layout: 3 significant digits, values from 1 ns",
    "make all of them with the same three arguments",
    "log-decodes",
)
def _log_layout(evidence: Evidence) -> Difference | None:
    layouts = sorted({(h.layout.lowest, h.layout.highest, h.layout.digits) for h in evidence.done.histograms})
    holds = len(layouts) == 1 and (layouts[0][0], layouts[0][2]) == (1, 3)
    found = "; ".join(f"{low} to {high} ns, {digits} digits" for low, high, digits in layouts)
    return None if holds else ("one layout from 1 ns with 3 digits", found or "no histogram")


def _each(evidence: Evidence) -> Iterator[tuple[hdrlog.Interval, hdrlog.Histogram]]:
    yield from zip(evidence.done.latencies.intervals, evidence.done.histograms, strict=True)


@rule(
    "log-counts",
    "every histogram holds measured_operations values",
    "record every measured operation, and none of the warm-up",
    "log-decodes",
)
def _log_counts(evidence: Evidence) -> Difference | None:
    expected = evidence.asked.parameters["measured_operations"]
    for interval, histogram in _each(evidence):
        if histogram.total != expected:
            return f"{expected} values", f"line {interval.line}: {histogram.total}"
    return None


@rule(
    "log-max",
    "the maximum in a line is its histogram's, in ns",
    "write it with a unit ratio of 1",
    "log-decodes",
)
def _log_max(evidence: Evidence) -> Difference | None:
    for interval, histogram in _each(evidence):
        low = histogram.layout.low(max(histogram.counts, default=0))
        if not low <= interval.maximum <= histogram.maximum:
            return f"{low} to {histogram.maximum}", f"line {interval.line}: {interval.maximum:g}"
    return None


@rule(
    "log-times",
    "an interval lies between the stamps C and D; its start is in seconds since A",
    "write seconds, not ms, and count them from stamp A",
    "log-lines",
    "stage-length",
)
def _log_times(evidence: Evidence) -> Difference | None:
    first, last = (evidence.done.stages[number][0] / 1e9 for number in (2, 3))
    for interval in evidence.done.latencies.intervals:
        end = interval.start + interval.length
        if not first - LOG_TICK_S <= interval.start <= end <= last + LOG_TICK_S:
            return f"{first:.6f} to {last:.6f} s", f"line {interval.line}: {interval.start:.6f} to {end:.6f} s"
    return None


@rule(
    "closed-loop",
    "a worker's latencies add up to no more than its interval: one operation at a time",
    "begin an operation when the one before has ended; have a worker for each that is under way",
    "log-decodes",
)
def _closed_loop(evidence: Evidence) -> Difference | None:
    for interval, histogram in _each(evidence):
        if histogram.least_sum > (interval.length + LOG_TICK_S) * 1e9:
            found = f"line {interval.line}: at least {histogram.least_sum} ns"
            return f"at most {interval.length * 1e9:.0f} ns", found
    return None


@rule(
    "percentiles",
    "every printed percentile and the maximum follow exactly from the log",
    "take them from the sum of all histograms, as the highest value of the cell",
    "run-line",
    "log-layout",
    "log-counts",
    "log-tags",
)
def _percentiles(evidence: Evidence) -> Difference | None:
    merged = hdrlog.merged(evidence.done.histograms)
    expected = {unit: merged.percentile(share) for unit, share in PERCENTILES.items()} | {"max-ns": merged.maximum}
    wrong = [unit for unit, value in expected.items() if evidence.done.run_values[unit] != value]
    shown = [", ".join(f"{values[unit]:g} {unit}" for unit in wrong) for values in (expected, evidence.done.run_values)]
    return (shown[0], shown[1]) if wrong else None


@rule(
    "mean",
    "ns/op of a repeat is the mean of its histograms, within a thousandth",
    "take the mean over all operations of all workers of the repeat",
    "repeat-lines",
    "log-layout",
    "log-counts",
    "log-tags",
)
def _mean(evidence: Evidence) -> Difference | None:
    for repeat, record in enumerate(evidence.done.repeats):
        group = [h for interval, h in _each(evidence) if interval.tag.startswith(f"repeat-{repeat}-")]
        expected, found = hdrlog.merged(group).mean, record.values[0][0]
        if abs(expected - found) > MEAN_PRECISION * expected + ROUNDING:
            return f"{expected:.1f} within a thousandth", f"line {record.line}: {found:g}"
    return None
