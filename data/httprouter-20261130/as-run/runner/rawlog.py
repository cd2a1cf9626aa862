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
    problem = _problem(log, phase, case)
    if problem:
        return Content((), problem)
    values: list[Value] = []
    metrics = phase.metrics_of(case)
    counts: dict[str, int] = {metric.unit: 0 for metric in metrics}
    for record in log.records:
        for value, unit in record.values:
            if unit not in counts:
                return Content((), f"stdout.txt:{record.line}: unit {unit!r} is not in the plan for {case!r}")
            values.append(Value(counts[unit], unit, value, record.iterations, record.line))
            counts[unit] += 1
    for metric in metrics:
        expected = phase.repeats if metric.per == "repeat" else 1
        if counts[metric.unit] != expected:
            return Content((), f"stdout.txt: expected {expected} values of {metric.unit}, found {counts[metric.unit]}")
    negative = next((value for value in values if value.value < 0), None)
    if negative:
        return Content((), f"stdout.txt:{negative.line}: a negative {negative.metric}: {negative.value}")
    return Content(tuple(values), None)


def _problem(log: Log, phase: Phase, case: str) -> str | None:
    if log.faults:
        fault = log.faults[0]
        return f"stdout.txt:{fault.line}: {fault.kind}: {fault.text}"
    for metric in phase.metrics:
        if log.better.get(metric.unit, metric.better) != metric.better:
            return (
                f"stdout.txt: {metric.unit} is better {log.better[metric.unit]} here, and {metric.better} in the plan"
            )
    covariates = {covariate.name for covariate in phase.covariates}
    for warning in log.warnings:
        if warning.text.partition(":")[0] in covariates:
            return f"stdout.txt:{warning.line}: a covariate with two values: {warning.text}"
    return _names(log, phase, case) if log.records else "stdout.txt: no result"


def _names(log: Log, phase: Phase, case: str) -> str | None:
    """A result must be of this case alone: one name, with or without one -P suffix, and no other case's name."""
    cases = {entry.name for entry in phase.cases}
    first = log.records[0]
    for record in log.records:
        where = f"stdout.txt:{record.line}"
        bare = _SUFFIX.sub("", record.name)
        if case not in (record.name, bare):
            return f"{where}: a result of {record.name!r} in a run of case {case!r}"
        if bare != record.name and {bare, record.name} <= cases:
            return f"{where}: {record.name!r} may be a case, or case {bare!r} with a GOMAXPROCS suffix"
        if (record.name, record.package) != (first.name, first.package):
            return (
                f"{where}: results of different names or packages in one run: "
                f"{first.package} {first.name!r} at line {first.line}, {record.package} {record.name!r} here"
            )
    return None
