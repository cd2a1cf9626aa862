"""Does a closed-loop client keep to the contract? Executes it several times and looks at what it leaves behind."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import contract, contract_log, process
from runner.contract import REQUIRED, UNKNOWN, Asked, Evidence, NotDeclaredError, Ran, Rule
from runner.errors import WrongUse

RULES: tuple[Rule, ...] = (*contract.RULES, *contract_log.RULES)
DEFAULTS = {"payload_seed": 1, "workers": 1, "warmup_operations": 10, "measured_operations": 100}
HOLDS, BROKEN, UNCHECKED = "holds", "does not hold", "not checked"
LARGEST = 64 << 20  # bytes of an output file that are read


@dataclass(frozen=True)
class Verdict:
    """Whether a rule holds, or why it could not be checked."""

    rule: Rule
    state: str
    expected: str = ""
    found: str = ""  # where it was not checked: why

    def lines(self) -> list[str]:
        """As shown to a reader."""
        shown = [f"{self.state:<13}  {self.rule.identifier}: {self.rule.what}"]
        if self.state == UNCHECKED:
            return [*shown, f"    because: {self.found}"]
        if self.state == BROKEN:
            shown += [f"    expected: {self.expected}", f"    found: {self.found}"]
            shown += [f"    what to do: {self.rule.remedy}"]
        return shown

    def plain(self) -> dict[str, str]:
        """As JSON has it."""
        fields = {"rule": self.rule.identifier, "what": self.rule.what, "state": self.state}
        fields |= {"expected": self.expected, "found": self.found}
        return fields | ({"remedy": self.rule.remedy} if self.state == BROKEN else {})


def asked(case: str, parameters: str, switches: str, repeats: int) -> Asked:
    """What the client is to be called with; parameters that are not given have the defaults. Raises WrongUse."""
    given = DEFAULTS | _object("--parameters", parameters)
    if not all(type(given[name]) is int and given[name] >= (name != "payload_seed") for name in REQUIRED):
        raise WrongUse(
            "--parameters", f"expected whole numbers above 0: {', '.join(REQUIRED)}", found=json.dumps(given)
        )
    return Asked(case, repeats, given, _object("--switches", switches))


def words(command: str) -> list[str]:
    """A command's words, split as a shell would, without one. Raises WrongUse."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise WrongUse("--before", str(error), found=command) from None


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise WrongUse(option, f"not JSON: {error}", found=text[:200]) from None
    if not isinstance(given, dict):
        raise WrongUse(option, "expected a JSON object", found=text[:200])
    return given


def gather(
    command: Sequence[str], wanted: Asked, limit_s: float, before: Sequence[str], tell: Callable[[str], None]
) -> Evidence:
    """Execute the client once for each thing that it has to show.

    `before` is executed before each of its processes. Raises WrongUse when there is no such program.
    """
    for argv in filter(None, (command, before)):
        if shutil.which(argv[0]) is None:
            raise WrongUse(argv[0], "no such program", remedy="name a file that can be executed")
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        runs: dict[str, Ran] = {}
        for name, variant in probes(wanted).items():
            if name in ("again", "other-payload") and runs["done"].status != 0:
                continue  # their rules need the first one
            tell(f"executing: {name}")
            if before:
                process.call(before, environment=os.environ, limit_s=limit_s, where="--before")
            runs[name] = _execute([*command, *arguments(variant)], Path(folder) / name.replace(" ", "-"), limit_s)
    return Evidence(wanted, runs)


def probes(wanted: Asked) -> dict[str, Asked]:
    """What each process is called with, by what it has to show."""

    def changed(**changes: Any) -> Asked:
        return Asked(**{**vars(wanted), **changes})

    given = dict(wanted.parameters)
    return {
        "done": wanted,
        "again": wanted,
        "other-payload": changed(parameters=given | {"payload_seed": given["payload_seed"] + 1}),
        "unknown-parameter": changed(parameters=given | {UNKNOWN: 1}),
        **{
            f"without {name}": changed(parameters={key: value for key, value in given.items() if key != name})
            for name in REQUIRED
        },
        "unknown-case": changed(case="no-such-case"),
        "unknown-switch": changed(switches={**wanted.switches, "no_such_switch": "1"}),
        "corrupt": changed(parameters=given | {"corrupt": True}),
    }


def arguments(wanted: Asked) -> list[str]:
    """The arguments of a client, but for the output folder."""
    return [
        *("--case", wanted.case, "--repeats", str(wanted.repeats)),
        *("--switches", json.dumps(wanted.switches, sort_keys=True)),
        *("--parameters", json.dumps(wanted.parameters, sort_keys=True)),
    ]


def _execute(argv: Sequence[str], folder: Path, limit_s: float) -> Ran:
    output = folder / "output"
    output.mkdir(parents=True)
    stdout, stderr = folder / "stdout.txt", folder / "stderr.txt"
    try:
        ended = process.execute([*argv, "--output", str(output)], os.environ, stdout, stderr, limit_s)
    except OSError as error:
        raise WrongUse(argv[0], f"cannot be executed: {error.strerror}") from None
    how = "the time limit" if ended.timed_out else ended.signal or f"exit status {ended.status}"
    files = {path.name: _bytes(path) if path.is_file() else b"" for path in output.iterdir()}
    cpu_ns = round((ended.rusage["utime"] + ended.rusage["stime"]) * 1e9)
    text = _bytes(stderr).decode("utf-8", errors="replace")
    return Ran(how, ended.status, ended.wall_ns, cpu_ns, _bytes(stdout), text, files)


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST)


def judge(evidence: Evidence) -> list[Verdict]:
    """Every rule in the contract's order; one that needs a rule that does not hold is not checked."""
    verdicts: dict[str, Verdict] = {}
    for rule in RULES:
        verdicts[rule.identifier] = _verdict(rule, evidence, verdicts)
    return list(verdicts.values())


def _verdict(rule: Rule, evidence: Evidence, before: Mapping[str, Verdict]) -> Verdict:
    missing = [name for name in rule.needs if before[name].state != HOLDS]
    if missing:
        return Verdict(rule, UNCHECKED, found=f"it needs {', '.join(missing)}")
    try:
        difference = rule.check(evidence)
    except NotDeclaredError as reason:
        return Verdict(rule, UNCHECKED, found=str(reason))
    return Verdict(rule, BROKEN, *difference) if difference else Verdict(rule, HOLDS)


def summary(verdicts: Sequence[Verdict]) -> str:
    """One line with how many rules are in each state."""
    states = [verdict.state for verdict in verdicts]
    return f"{len(verdicts)} rules: " + ", ".join(
        f"{states.count(state)} {words}"
        for state, words in ((HOLDS, "hold"), (BROKEN, "do not hold"), (UNCHECKED, "not checked"))
    )
