"""What a closed-loop client must do, as rules, each with its check: its arguments, exit statuses and standard output. Pure.

runner/contract_log.py has those of the stages and the latency log, book/client.md all of them for readers. A check looks
at what the client's processes left behind, `Evidence`, and returns None where its rule holds, else what it expected and
what it found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from runner import benchfmt, hdrlog

LOG = "latency.hlog"
REQUIRED = ("payload_seed", "workers", "warmup_operations", "measured_operations")  # parameters of every client
UNKNOWN = "no_such_parameter"
PERCENTILES = {"p50-ns": 50.0, "p90-ns": 90.0, "p99-ns": 99.0, "p99.9-ns": 99.9}
CPU_TOTAL, CPU_MEASURED = "cpu-E-A-ns/op", "cpu-measured-ns/op"
RUN_UNITS = (*PERCENTILES, "max-ns", CPU_TOTAL, CPU_MEASURED)
DIGESTS = ("own-files-sha256", "payload-sha256", "checked-sha256")
LINES = ("client", "client-version", "workers", *DIGESTS)
STAGES = tuple(f"stage-{name}" for name in "abcde")
WRONG_USE, WRONG_ANSWER = 2, 3


@dataclass(frozen=True)
class Asked:
    """What the client is called with."""

    case: str
    repeats: int
    parameters: Mapping[str, Any]
    switches: Mapping[str, Any]

    @property
    def workers(self) -> int:
        """Workers of a repeat."""
        return int(self.parameters["workers"])

    @property
    def each(self) -> int:
        """Operations of all workers in one repeat."""
        return self.workers * int(self.parameters["measured_operations"])


@dataclass(frozen=True)
class Ran:
    """What one process left behind."""

    ended: str  # "exit status 0", a signal, or the time limit
    status: int | None
    wall_ns: int
    cpu_ns: int  # as the kernel has it
    stdout: bytes
    stderr: str
    files: Mapping[str, bytes]  # by name, in the output folder

    @cached_property
    def log(self) -> benchfmt.Log:
        """Its standard output."""
        return benchfmt.parse(self.stdout)

    @cached_property
    def latencies(self) -> hdrlog.Log:
        """Its latency log."""
        return hdrlog.read(self.files.get(LOG, b""))

    @cached_property
    def histograms(self) -> list[hdrlog.Histogram]:
        """Those of the log's intervals; only where rule `log-decodes` holds."""
        return [hdrlog.decode(interval.payload) for interval in self.latencies.intervals]

    @cached_property
    def stages(self) -> list[tuple[int, int]]:
        """Wall and CPU ns of the stamps A to E; only where rule `stages` holds."""
        pairs = (self.log.configuration[name].split() for name in STAGES)
        return [(int(wall), int(cpu)) for wall, cpu in pairs]

    @property
    def repeats(self) -> list[benchfmt.Record]:
        """Results with ns/op."""
        return [record for record in self.log.records if any(unit == "ns/op" for _, unit in record.values)]

    @property
    def whole(self) -> list[benchfmt.Record]:
        """Results with anything else."""
        return [record for record in self.log.records if record not in self.repeats]

    @property
    def run_values(self) -> dict[str, float]:
        """Values of the whole run, by unit; only where rule `run-line` holds."""
        return {unit: value for value, unit in self.whole[-1].values}


@dataclass(frozen=True)
class Evidence:
    """Everything that the checks look at: what was asked for, and every process by what it was to show."""

    asked: Asked
    runs: Mapping[str, Ran]

    @property
    def done(self) -> Ran:
        """The process that was asked for nothing out of the ordinary."""
        return self.runs["done"]


class NotDeclaredError(Exception):
    """The client does not offer what a rule is about, and need not."""


Difference = tuple[str, str]  # expected, found
Check = Callable[[Evidence], Difference | None]


@dataclass(frozen=True)
class Rule:
    """One part of the contract."""

    identifier: str
    what: str
    remedy: str
    needs: tuple[str, ...]  # rules without which this one cannot be looked at
    check: Check


Decorator = Callable[[Check], Check]


def collector(rules: list[Rule]) -> Callable[..., Decorator]:
    """A decorator that adds a rule to a list, with the function below it as its check."""

    def rule(identifier: str, what: str, remedy: str, *needs: str) -> Decorator:
        def add(check: Check) -> Check:
            rules.append(Rule(identifier, what, remedy, needs, check))
            return check

        return add

    return rule


RULES: list[Rule] = []
rule = collector(RULES)


# ---- arguments and exit statuses


@rule("done", "it measures the case and ends with exit status 0 within the limit", "see its standard error")
def _done(evidence: Evidence) -> Difference | None:
    ran = evidence.done
    last = ran.stderr.strip().splitlines()[-1:]
    return None if ran.status == 0 else ("exit status 0", ": ".join([ran.ended, *last])[:300])


def _refused(evidence: Evidence, name: str, word: str = "") -> Difference | None:
    ran, expected = evidence.runs[name], f"exit status {WRONG_USE}, no result, no {LOG}"
    if ran.status != WRONG_USE or ran.log.records or LOG in ran.files:
        return expected, f"{ran.ended}, {_left(ran)}"
    return (f"{word!r} on standard error", repr(ran.stderr[-200:])) if word not in ran.stderr else None


def _left(ran: Ran) -> str:
    return f"{len(ran.log.records) or 'no'} results, {'a' if LOG in ran.files else 'no'} {LOG}"


@rule(
    "unknown-parameter",
    "a parameter that it does not know: named on standard error, exit status 2",
    "refuse it: a misspelt parameter would otherwise measure something else",
    "done",
)
def _unknown_parameter(evidence: Evidence) -> Difference | None:
    return _refused(evidence, "unknown-parameter", UNKNOWN)


@rule(
    "missing-parameter",
    "a required parameter that is missing: named on standard error, exit status 2",
    "have no default for it: the plan says what is measured",
    "done",
)
def _missing_parameter(evidence: Evidence) -> Difference | None:
    for name in REQUIRED:
        difference = _refused(evidence, f"without {name}", name)
        if difference:
            return difference[0], f"without {name}: {difference[1]}"
    return None


@rule("unknown-case", "a case that it does not have: exit status 2", "refuse it", "done")
def _unknown_case(evidence: Evidence) -> Difference | None:
    return _refused(evidence, "unknown-case")


@rule(
    "unknown-switch",
    "a switch that it does not know: exit status 2",
    "refuse it: two arms would be the same one",
    "done",
)
def _unknown_switch(evidence: Evidence) -> Difference | None:
    return _refused(evidence, "unknown-switch")


@rule(
    "wrong-answer",
    "with the parameter corrupt, where it has one: exit status 3, no result, no log",
    "compare every answer after stamp D, before anything is printed or written",
    "done",
)
def _wrong_answer(evidence: Evidence) -> Difference | None:
    ran = evidence.runs["corrupt"]
    if ran.status == WRONG_USE and "corrupt" in ran.stderr:
        raise NotDeclaredError("the client has no parameter corrupt, so nothing shows that its check fires")
    if ran.status != WRONG_ANSWER or ran.log.records or LOG in ran.files:
        return f"exit status {WRONG_ANSWER}, no result, no {LOG}", f"{ran.ended}, {_left(ran)}"
    return None


# ---- standard output


@rule(
    "text-format",
    "standard output is Go benchmark text, no key with two values",
    "mend the line; text of other kinds belongs on standard error",
    "done",
)
def _text_format(evidence: Evidence) -> Difference | None:
    wrong = [*evidence.done.log.faults, *evidence.done.log.warnings]
    return ("no such line", f"line {wrong[0].line}: {wrong[0].kind}: {wrong[0].text}") if wrong else None


@rule(
    "case-name",
    "every result has the name of the case, the same each time",
    "print Benchmark and the name of --case",
    "done",
)
def _case_name(evidence: Evidence) -> Difference | None:
    case, names = evidence.asked.case, sorted({record.name for record in evidence.done.log.records})
    holds = len(names) == 1 and case in (names[0], re.sub(r"-[1-9][0-9]*$", "", names[0]))
    return None if holds else (case, ", ".join(names) or "no result")


@rule("repeat-lines", "one result with ns/op, and nothing else in it, for each repeat", "print one each", "done")
def _repeat_lines(evidence: Evidence) -> Difference | None:
    alone = sum(len(record.values) == 1 for record in evidence.done.repeats)
    found = f"{len(evidence.done.repeats)}, {alone} with ns/op alone"
    repeats = evidence.asked.repeats
    return None if (len(evidence.done.repeats), alone) == (repeats, repeats) else (f"{repeats} results", found)


@rule(
    "run-line",
    f"one last result with {', '.join(RUN_UNITS)}; further units may follow",
    "print them once, over all repeats",
    "done",
)
def _run_line(evidence: Evidence) -> Difference | None:
    ran = evidence.done
    if len(ran.whole) != 1 or ran.log.records[-1] != ran.whole[0]:
        return "one result after those of the repeats", f"{len(ran.whole)} without ns/op among {len(ran.log.records)}"
    missing = [unit for unit in RUN_UNITS if unit not in ran.run_values]
    return ("all of these units", f"no {', '.join(missing)}") if missing else None


@rule(
    "operations",
    "the count in a result: workers x measured_operations; in the last one, that x repeats",
    "count the operations that were measured, not those of the warm-up",
    "repeat-lines",
    "run-line",
)
def _operations(evidence: Evidence) -> Difference | None:
    expected = [evidence.asked.each] * evidence.asked.repeats + [evidence.asked.each * evidence.asked.repeats]
    found = [record.iterations for record in evidence.done.log.records]
    return None if found == expected else (str(expected), str(found))


@rule(
    "values",
    "no value is negative; of those that are required none is 0",
    "look at units and clocks",
    "repeat-lines",
    "run-line",
)
def _values(evidence: Evidence) -> Difference | None:
    for record in evidence.done.log.records:
        for value, unit in record.values:
            if value < 0 or (value == 0 and unit in (*RUN_UNITS, "ns/op")):
                return f"{unit} above 0", f"line {record.line}: {value:g} {unit}"
    return None


@rule(
    "configuration",
    f"lines {', '.join(LINES)}: the digests as 64 hexadecimal digits, workers as asked for",
    "print them before the first result",
    "done",
)
def _configuration(evidence: Evidence) -> Difference | None:
    found = evidence.done.log.configuration
    wrong = [name for name in LINES if not found.get(name)]
    wrong += [name for name in DIGESTS if name not in wrong and not re.fullmatch("[0-9a-f]{64}", found[name])]
    wrong += ["workers"] if found.get("workers", "") not in ("", str(evidence.asked.workers)) else []
    return ("these lines", ", ".join(f"{name}: {found.get(name) or 'missing'}" for name in wrong)) if wrong else None


@rule(
    "same-answers",
    "two processes with the same arguments print the same digests",
    "let nothing that is compared depend on time, chance or the order of workers",
    "configuration",
)
def _same_answers(evidence: Evidence) -> Difference | None:
    both = [
        [evidence.runs[name].log.configuration.get(key, "missing") for key in DIGESTS] for name in ("done", "again")
    ]
    differing = [key for key, one, other in zip(DIGESTS, *both, strict=True) if one != other]
    return ("the same in both", f"{', '.join(differing)}: another one") if differing else None


@rule(
    "other-payload",
    "another payload_seed gives another payload-sha256",
    "make all contents from payload_seed",
    "configuration",
)
def _other_payload(evidence: Evidence) -> Difference | None:
    found = evidence.runs["other-payload"].log.configuration.get("payload-sha256", "missing")
    same = found in (evidence.done.log.configuration["payload-sha256"], "missing")
    return ("another digest", found) if same else None
