"""One run: how a process is started, ended and observed, and what its record says of a failure."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner import benchfmt, planfile, process, record, templates
from runner.errors import DataError
from runner.orders import Labels
from runner.plan import Plan
from tests import campaigns
from tests.campaigns import alive

NO_CHANGE = {"oom_kills": 0}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("plan")
    return planfile.load(campaigns.write(folder, folder).folder / "plan.toml")


LABELS = Labels("T", "Scan/serial", "two", 2, 1, 7)
GOOD = "BenchmarkScan/serial 10 1.5 ns/op\nBenchmarkScan/serial 10 2.5 ns/op\nBenchmarkScan/serial 10 3 B/op\n"


def ended(status: int | None = 0, signal: str | None = None, timed_out: bool = False) -> process.Ended:
    return process.Ended(status, signal, timed_out, 1, {}, {}, 0, "0")


@pytest.mark.parametrize(
    ("allowed", "value", "holds"), [("{client}", 0, True), ("{client},8000-8002", 3, False), ("unknown", None, None)]
)
def test_the_check_of_pinning(plan: Plan, allowed: str, value: int | None, holds: bool | None) -> None:
    found = dataclasses.replace(ended(), cpus_allowed=allowed.format(client=plan.host.cpus.client))
    expected = {"check": "cpus_beyond_plan", "value": value, "limit": 0, "holds": holds}
    assert record._pinning_check(plan, found) == expected


def why(plan: Plan, how: process.Ended, text: str = GOOD, after: dict[str, int | None] | None = None) -> str:
    log = benchfmt.parse(text.encode())
    before: dict[str, int | None] = {"oom_kills": None} if after == {"oom_kills": None} else dict(NO_CHANGE)
    return record.why_failed(how, log, plan, LABELS, before, after or NO_CHANGE)


def test_the_nearest_cause_of_a_failure_comes_first(plan: Plan) -> None:
    assert why(plan, ended()) == ""
    assert why(plan, ended(None, "SIGKILL", timed_out=True)) == "time limit: still at work after 60 s"
    assert why(plan, ended(None, "SIGSEGV")) == "ended by SIGSEGV"
    killed = "out of memory: ended by SIGKILL while the kernel killed for memory"
    assert why(plan, ended(None, "SIGKILL"), after={"oom_kills": 1}) == killed
    assert why(plan, ended(None, "SIGKILL"), after={"oom_kills": None}) == "ended by SIGKILL"
    assert why(plan, ended(3)) == "wrong answer: by exit status alone"
    assert why(plan, ended(3), "") == "wrong answer: stdout.txt: no result"
    assert why(plan, ended(1)) == "exit status 1"
    assert why(plan, ended(2), "panic: gone\n") == "exit status 2; stdout.txt:1: failure: panic: gone"
    assert why(plan, ended(), "") == "stdout.txt: no result"
    assert why(plan, ended(), GOOD * 2) == "stdout.txt: expected 2 values of ns/op, found 4"


def test_command_and_environment_come_from_the_plan(plan: Plan) -> None:
    places = {"python": "/t/bin/python", "tree": "/t", "harness": "/h"}
    argv, environment = record.expand(plan, plan.phases["T"], LABELS, places)
    assert argv[:3] == ["/t/bin/python", "-B", "/h/tiny.py"]
    assert dict(zip(argv[3::2], argv[4::2], strict=True)) == {
        "--case": "Scan/serial",
        "--arm": "two",
        "--block": "2",
        "--repeats": "2",
        "--switches": '{"number": 1}',
        "--parameters": '{"faults": "", "payload_seed": 7, "rows": 10}',
    }
    assert set(environment) == {"TRACE"}


def test_values_with_braces_stay_as_they_are_and_unknown_fields_are_errors() -> None:
    assert templates.fill("{a}-{a}}{b}", {"a": "{b}", "b": "x"}) == "{b}-{b}}x"
    assert templates.fill("{ x{a", {"a": "1"}) == "{ x{a"
    with pytest.raises(DataError, match="unknown field"):
        templates.fill("{c}", {"a": "1"})


def test_last_words_lose_their_folders(tmp_path: Path) -> None:
    path = tmp_path / "stderr.txt"
    path.write_text("first\nNo such file: '/some/where/deep/name.py', line 3\n\n  \n")
    assert record._last_words(path) == "; stderr ends: No such file: 'name.py', line 3"
    path.write_text("")
    assert record._last_words(path) == ""
    path.write_bytes(b"\xff\xfe" + b"x" * 9000)
    assert len(record._last_words(path)) < 230


def test_covariates_are_those_of_the_plan_and_the_engines_uptime(plan: Plan) -> None:
    log = benchfmt.parse(b"rows: 10\nother: 1\n")
    assert record.covariates(log, plan.phases["T"], {"uptime_s": 2.5}) == {"rows": "10", "engine_uptime_s": 2.5}
    assert record.covariates(benchfmt.parse(b""), plan.phases["T"], {}) == {"rows": None}


# -- processes


def execute(folder: Path, code: str, limit_s: float = 30) -> process.Ended:
    argv = [*process.pinned(str(min(os.sched_getaffinity(0)))), sys.executable, "-c", code]
    return process.execute(argv, {"PATH": "/usr/bin:/bin"}, folder / "out", folder / "err", limit_s)


def test_output_is_byte_for_byte_and_the_kernels_counts_are_kept(tmp_path: Path) -> None:
    code = "import os, sys\nsum(range(10**6))\nos.write(1, b'\\xff\\r\\n\\0x')\nos.write(2, b'err')\nsys.exit(7)"
    found = execute(tmp_path, code)
    assert (found.status, found.signal, found.timed_out) == (7, None, False)
    assert (tmp_path / "out").read_bytes() == b"\xff\r\n\0x"
    assert (tmp_path / "err").read_bytes() == b"err"
    assert found.cpus_allowed == str(min(os.sched_getaffinity(0)))
    assert 0 < found.schedstat["run_ns"] < found.wall_ns
    assert found.rusage["minflt"] > 0
    with pytest.raises(FileExistsError):  # written once, never over
        execute(tmp_path, code)


@pytest.mark.parametrize("how", ["", "start_new_session=True"])
def test_whatever_a_process_started_ends_with_it(tmp_path: Path, how: str) -> None:
    code = f"import subprocess, sys\nprint(subprocess.Popen(['sleep', '600'], {how}).pid)"
    assert execute(tmp_path, code).status == 0
    assert not alive(int((tmp_path / "out").read_text()))


def test_the_time_limit_ends_everything_also_what_left_the_group(tmp_path: Path) -> None:
    code = (
        "import subprocess, time\n"
        "for apart in (False, True):\n"
        "    middle = ['sh', '-c', 'sleep 600 & echo $!; wait']\n"
        "    print(subprocess.Popen(middle, start_new_session=apart).pid, flush=True)\n"
        "time.sleep(600)"
    )
    begun = time.monotonic()
    found = execute(tmp_path, code, limit_s=1)
    assert 1 <= time.monotonic() - begun < 5
    assert (found.timed_out, found.signal, found.status) == (True, "SIGKILL", None)
    pids = [int(word) for word in (tmp_path / "out").read_text().split()]
    assert len(pids) == 4
    assert not any(alive(pid) for pid in pids)


def test_a_child_of_the_runners_own_is_not_touched(tmp_path: Path) -> None:
    own = subprocess.Popen(["sleep", "600"])
    try:
        execute(tmp_path, "pass")
        assert alive(own.pid)
    finally:
        own.kill()
        own.wait()
