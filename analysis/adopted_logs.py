"""What adopted logs say of themselves: their runs of one phase, and the configuration lines beside the results."""

from __future__ import annotations

from analysis.report import PhaseReport
from runner.benchfmt import parse
from runner.store import AdoptedRun


def runs_of(report: PhaseReport) -> list[AdoptedRun]:
    """The adopted runs of this phase, in the order of the record."""
    assert report.adoption
    return [run for run in report.adoption.runs if run.labels.phase == report.identifier]


def said_by_logs(report: PhaseReport) -> dict[str, dict[str, tuple[str, ...]]]:
    """The configuration lines of the adopted logs of this phase: each key's different values, by arm."""
    arms_of: dict[str, dict[str, None]] = {}
    for run in runs_of(report):
        arms_of.setdefault(run.file, {})[run.labels.arm] = None
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    known = report.store.files()
    for name, arms in arms_of.items():
        said = [] if name.lower().endswith(".csv") else configuration(known[name].read_bytes())
        for key, value in said:
            for arm in arms:
                before = found.setdefault(key, {}).get(arm, ())
                found[key][arm] = before if value in before else (*before, value)
    return found


def configuration(data: bytes) -> list[tuple[str, str]]:
    """Every different configuration line of a log, in order. A file of several processes may give a key several values."""
    lines = dict.fromkeys(line for line in data.split(b"\n") if line[:1].islower() and b":" in line)
    return [pair for line in lines for pair in parse(line + b"\n").configuration.items()]
