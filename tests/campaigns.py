"""Tiny but real campaigns for tests: a real plan, the real command line, real processes; only their numbers are made up."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

PROJECT = Path(__file__).resolve().parent.parent
CASES = ("Load", "Scan/serial")
ARMS = ("one", "two", "three")

PLAN = """format = 1

[campaign]
id = "{id}"
title = "A tiny campaign"
question = "Does the runner do what the plan says?"
payload_seed = 7

[statistics]
primary = "t"
level = 0.95
resamples = 200
seed = 11

[host]
cpus = {{ housekeeping = "{first}", server = "{first}", client = "{last}" }}

[network]
kind = "{network}"

[engine]
{engine}

[harness]
source = "tests/harness"
files = ["tiny.py"]

[rules]
interruptions = {interruptions}
wrong_answer = "{wrong_answer}"
wrong_answer_exit = 3
run_limit_s = {run_limit_s}
quiet_wait_s = {quiet_wait_s}
busy_block = "{busy_block}"
replacement_blocks = {replacement_blocks}
output_limit_mb = {output_limit_mb}

[rules.checks]
calibration_ratio = {calibration_ratio}
idle_load = {idle_load}
steal_share = 1.0
swap_pages = 1000000
oom_kills = 1000
throttled_periods = 1000

[trees.plain]
kind = "packages"
what = "no packages at all"
python = "{python}"
lock = "trees/plain.txt"

[phases.T]
title = "Tiny"
question = "Which made-up number is larger?"
argv = ["{{python}}", "-B", "{{harness}}/tiny.py", "--case", "{{case}}", "--arm", "{{arm}}", "--block", "{{block}}",
  "--repeats", "{{repeats}}", "--switches", "{{switches}}", "--parameters", "{{parameters}}"]
environment = {{ {environment} }}
blocks = {blocks}
repeats = 2
order_seed = 3
primary_metric = "ns/op"
{arms}
[[phases.T.metrics]]
unit = "ns/op"
better = "lower"
per = "repeat"
scope = "made up"

[[phases.T.metrics]]
unit = "B/op"
better = "lower"
per = "run"
scope = "made up"

[[phases.T.contrasts]]
numerator = "two"
denominator = "one"
what = "the second arm against the first"

[phases.T.holm]
metrics = ["ns/op"]
contrasts = ["two/one"]

[[phases.T.covariates]]
name = "rows"
expected = "constant"
what = "rows, as the harness says"
{cases}"""

POSTGRES = """kind = "postgres"
version = "18"
storage = "{storage}"
authentication = "scram-sha-256"

[engine.settings]
fsync = "off"
shared_buffers = "16MB"
max_connections = "10"
io_method = "sync"
{settings}"""


@dataclass
class Campaign:
    """A campaign folder, and the real command line on it."""

    folder: Path
    cache: Path
    trace_path: Path
    project: Path = PROJECT

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """What the runner is started with: this process's own, and a cache of the tests' own."""
        return {**os.environ, "BENCHBOOK_CACHE": str(self.cache), "COLUMNS": "80", **(extra or {})}

    def call(self, *command: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the runner to its end: `call("run", "--phase", "T")`."""
        return self.python("-m", "runner", command[0], str(self.folder), *command[1:], environment=environment)

    def python(self, *argv: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python in the project's folder."""
        return subprocess.run(
            [sys.executable, *argv],
            cwd=self.project,
            env=self.environment(environment),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def does(self, *command: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """`call`, and it must have ended well."""
        done = self.call(*command, environment=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def start(self, *argv: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command of Python without waiting for it; the caller ends it."""
        return subprocess.Popen(
            [sys.executable, *argv],
            cwd=self.project,
            env=self.environment(environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_command(self) -> tuple[str, ...]:
        """What `start` needs to execute this campaign."""
        return ("-m", "runner", "run", str(self.folder))

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The journal's events, read without the runner's own code; a torn last line is left out."""
        data = (self.folder / "journal.jsonl").read_bytes()
        events = [json.loads(line) for line in data.split(b"\n")[:-1]]
        return [event for event in events if kind in (None, event["event"])]

    def trace(self) -> list[dict[str, Any]]:
        """What the harness processes wrote down about themselves, in their order."""
        if not self.trace_path.exists():
            return []
        return [json.loads(line) for line in self.trace_path.read_text().splitlines()]

    def orders(self) -> list[dict[str, Any]]:
        """The sealed orders."""
        runs: list[dict[str, Any]] = json.loads((self.folder / "orders.json").read_text())["runs"]
        return runs

    def run_folder(self, labels: Mapping[str, Any]) -> Path:
        """Where the design says that a run lies."""
        case = quote(str(labels["case"]), safe="")
        return self.folder / "runs" / labels["phase"] / case / f"{labels['block']}-{labels['arm']}"

    def record(self, labels: Mapping[str, Any]) -> dict[str, Any]:
        """A run's record."""
        record: dict[str, Any] = json.loads((self.run_folder(labels) / "run.json").read_text())
        return record

    def copy(self, parent: Path) -> Campaign:
        """The same campaign below another folder, under its own name."""
        shutil.copytree(self.folder, parent / self.folder.name)
        return Campaign(parent / self.folder.name, self.cache, self.trace_path, self.project)


def write(
    parent: Path,
    cache: Path,
    *,
    name: str = "tiny",
    blocks: int = 3,
    arms: Iterable[str] = ARMS[:2],
    cases: Iterable[str] = CASES,
    faults: str = "",
    engine: str = 'kind = "none"',
    network: str = "none",
    environment: Mapping[str, str] | None = None,
    lock: str = "",
    project: Path = PROJECT,
    **rules: object,
) -> Campaign:
    """Write the plan of a tiny campaign into a new folder below `parent`."""
    folder = parent / name
    (folder / "trees").mkdir(parents=True)
    (folder / "trees" / "plain.txt").write_text(lock)
    cpus = sorted(os.sched_getaffinity(0))
    settings: dict[str, object] = {
        "interruptions": '["runner-killed", "host-down"]',
        "wrong_answer": "go-on",
        "run_limit_s": 60,
        "quiet_wait_s": 0.0,
        "busy_block": "mark",
        "replacement_blocks": 2,
        "output_limit_mb": 256,
        "calibration_ratio": 1000.0,
        "idle_load": 1.0,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    } | rules
    trace = parent / f"{name}.trace"
    variables = {"TRACE": str(trace)} | dict(environment or {})
    text = PLAN.format(
        id=name,
        first=cpus[0],
        last=cpus[-1],
        network=network,
        engine=engine,
        blocks=blocks,
        environment=", ".join(f"{key} = {json.dumps(value)}" for key, value in variables.items()),
        arms="".join(
            f'\n[[phases.T.arms]]\nname = "{arm}"\ntree = "plain"\nswitches = {{ number = {number} }}\n'
            for number, arm in enumerate(arms)
        ),
        cases="".join(
            f'\n[[phases.T.cases]]\nname = "{case}"\nwhat = "nothing"\nexpected_s = 0.1\n'
            f"parameters = {{ rows = 10, faults = {json.dumps(faults if case == CASES[0] else '')} }}\n"
            for case in cases
        ),
        **settings,
    )
    (folder / "plan.toml").write_text(text)
    return Campaign(folder, cache, trace, project)


def rechained(events: Iterable[Mapping[str, Any]]) -> bytes:
    """A journal whose chain holds, as someone would write who changes it consistently."""
    lines, previous = [], "0" * 64
    for number, event in enumerate(events, start=1):
        line = json.dumps(
            dict(event) | {"number": number, "previous": previous}, ensure_ascii=False, separators=(",", ":")
        ).encode()
        previous = hashlib.sha256(line).hexdigest()
        lines.append(line + b"\n")
    return b"".join(lines)


def wait_for(what: Callable[[], Any], limit_s: float = 30) -> Any:
    """Ask again and again until there is an answer."""
    deadline = time.monotonic() + limit_s
    while not (found := what()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return found


def alive(pid: int) -> bool:
    """Whether a process is still there, and not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(process: subprocess.Popen[str]) -> None:
    """kill -9, and wait until it is gone."""
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stderr is not None
    process.stderr.close()
