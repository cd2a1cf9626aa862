"""What one run's raw log must hold by the plan, and what it does hold: values, or the reason why it has none. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.benchfmt import Log
from runner.plan import Phase

_SUFFIX = re.compile(r"-[1-9][0-9]*$")


@dataclass(frozen=True)
class Value:
    """One measured value, with the line of the raw log that holds it."""

    repeat: int  # from 0; 0 for a metric that is measured once per run
    metric: str
    value: float
    iterations: int
    line: int


@dataclass(frozen=True)
class Content:
    """The values of a whole log, or what is wrong with it; never both."""

    values: tuple[Value, ...]
    problem: str | None


def content(log: Log, phase: Phase, case: str) -> Content:
    """Read a log against the plan: the case's own name, every metric as often as planned, no failure, no odd line."""
    problem = _problem(log, case)
    if problem:
        return Content((), problem)
    values: list[Value] = []
    counts: dict[str, int] = {metric.unit: 0 for metric in phase.metrics}
    for record in log.records:
        for value, unit in record.values:
            if unit not in counts:
                return Content((), f"stdout.txt:{record.line}: unit {unit!r} is not in the plan")
            values.append(Value(counts[unit], unit, value, record.iterations, record.line))
            counts[unit] += 1
    for metric in phase.metrics:
        expected = phase.repeats if metric.per == "repeat" else 1
        if counts[metric.unit] != expected:
            return Content((), f"stdout.txt: expected {expected} values of {metric.unit}, found {counts[metric.unit]}")
    not_positive = next((value for value in values if value.value < 0), None)
    if not_positive:
        return Content((), f"stdout.txt:{not_positive.line}: a negative {not_positive.metric}: {not_positive.value}")
    return Content(tuple(values), None)


def _problem(log: Log, case: str) -> str | None:
    if log.faults:
        fault = log.faults[0]
        return f"stdout.txt:{fault.line}: {fault.kind}: {fault.text}"
    for record in log.records:
        if record.name != case and _SUFFIX.sub("", record.name) != case:
            return f"stdout.txt:{record.line}: a result of {record.name!r} in a run of case {case!r}"
    return None if log.records else "stdout.txt: no result"
