"""The harness of the template `command`: what it times, and every way in which a command can fail."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runner import benchfmt
from tests.campaigns import PROJECT, alive, wait_for

HARNESS = PROJECT / "runner" / "starters" / "files" / "timecommand.py"
PYTHON = sys.executable


def timed(
    *command: str, repeats: int = 2, programs: str | None = None, switches: Any = None, **changes: Any
) -> subprocess.CompletedProcess[str]:
    given = {"payload_seed": 1, "warmup": 1, "limit_s": 20} | changes
    argv = [PYTHON, "-B", "-I", "-S", str(HARNESS), "--case", "Command", "--repeats", str(repeats)]
    argv += ["--programs", programs or command[0], "--parameters", json.dumps(given)]
    argv += ["--switches", json.dumps(switches or {"command": list(command)})]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def does(*command: str, **options: Any) -> benchfmt.Log:
    done = timed(*command, **options)
    assert done.returncode == 0, done.stderr
    log = benchfmt.parse(done.stdout.encode())
    assert (log.faults, log.warnings, log.text_lines) == ((), (), 0)
    return log


def test_what_is_printed_is_read_back(tmp_path: Path) -> None:
    count = tmp_path / "count"
    log = does(PYTHON, "-c", f"open({str(count)!r}, 'a').write('x')", repeats=3, warmup=2)
    assert len(count.read_text()) == 5
    assert [(record.name, record.iterations) for record in log.records] == [("Command", 1)] * 3
    for record in log.records:
        values = {unit: value for value, unit in record.values}
        assert set(values) == {"ns/op", "cpu-ns/op"}
        assert 0 < values["cpu-ns/op"] < 1.5 * values["ns/op"]
    assert log.configuration == {"exit-status": "0"}


def test_the_time_is_that_of_the_command() -> None:
    [record] = does("sleep", "0.2", repeats=1, warmup=0).records
    values = {unit: value for value, unit in record.values}
    assert 0.2e9 <= values["ns/op"] < 0.4e9
    assert values["cpu-ns/op"] < 0.05e9


def test_cpu_time_is_also_that_of_children_that_were_waited_for() -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass"
    [record] = does("sh", "-c", f"{shlex.quote(PYTHON)} -S -c {shlex.quote(busy)}; true", repeats=1, warmup=0).records
    assert record.values[1][0] > 0.19e9


def test_user_and_system_time_and_memory_are_printed_when_asked_for() -> None:
    big = "import time\nx = b'x' * 100_000_000\nwhile time.process_time() < 0.1: pass"
    held = b"x" * 250_000_000  # whoever starts the harness may be larger than the command
    *_, split, memory = does(PYTHON, "-S", "-c", big, split=True, maxrss=True).records
    del held
    assert [unit for _, unit in split.values] == ["user-ns/op", "sys-ns/op"]
    assert sum(value for value, _ in split.values) > 0.05e9
    assert split.iterations == 2
    assert [unit for _, unit in memory.values] == ["maxrss-B"]
    assert 100_000_000 < memory.values[0][0] < 200_000_000


def test_memory_below_the_harness_own_is_refused() -> None:
    done = timed("true", maxrss=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not above this harness's own" in done.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; print('no such thing', file=sys.stderr); sys.exit(7)",
         r"execution 1 of 3: exit status 7, expected 0 \(parameter ok_exit\); its standard error ends: no such thing$"),
        ("import os; os.kill(os.getpid(), 11)", "ended by SIGSEGV; nothing on its standard error$"),
        ("import os; os.kill(os.getpid(), 40)", "ended by signal 40"),
    ],
)  # fmt: skip
def test_a_command_that_fails(code: str, message: str) -> None:
    done = timed(PYTHON, "-c", code)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(message, done.stderr.rstrip().splitlines()[-1])


def test_a_failure_after_good_executions_gives_no_result(tmp_path: Path) -> None:
    code = f"import os, sys; p = {str(tmp_path / 'x')!r}; sys.exit(os.path.exists(p)) if os.path.exists(p) else open(p, 'w')"
    done = timed(PYTHON, "-c", code)
    assert (done.returncode, done.stdout) == (1, "")
    assert "execution 2 of 3: exit status 1" in done.stderr


def test_other_exit_statuses_can_be_right() -> None:
    log = does("sh", "-c", "exit 3", ok_exit=[0, 3])
    assert log.configuration == {"exit-status": "3"}
    assert "expected 3 or 4" in timed("true", ok_exit=[3, 4]).stderr


def test_a_command_that_does_not_end_is_ended_with_its_group(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    started = time.monotonic()
    done = timed("sh", "-c", f"sleep 50 & echo $! > {shlex.quote(str(pid))}; sleep 50", limit_s=0.5)
    assert time.monotonic() - started < 10
    assert (done.returncode, done.stdout) == (1, "")
    assert "execution 1 of 3: still at work after 0.5 s (parameter limit_s)" in done.stderr
    wait_for(lambda: not alive(int(pid.read_text())))


def test_what_a_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    does("sh", "-c", f"sleep 50 & echo $! > {shlex.quote(str(pid))}")
    wait_for(lambda: not alive(int(pid.read_text())))


def test_a_harness_that_is_killed_leaves_nothing_at_work(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {shlex.quote(str(pid))}; sleep 50"]
    argv = [PYTHON, "-I", "-S", str(HARNESS), "--case", "C", "--repeats", "1", "--programs", "sh"]
    argv += ["--switches", json.dumps({"command": command})]
    argv += ["--parameters", json.dumps({"payload_seed": 1, "warmup": 0, "limit_s": 60})]
    harness = subprocess.Popen(argv, env={**os.environ, "TMPDIR": str(tmp_path)})
    wait_for(lambda: pid.exists() and pid.read_text().strip())
    harness.kill()
    harness.wait()
    wait_for(lambda: not alive(int(pid.read_text())))
    wait_for(lambda: list(tmp_path.glob("timecommand-*")) == [])


def test_without_its_guard_nothing_is_timed(tmp_path: Path) -> None:
    """A guard that ends at once stands for one that cannot start."""
    changed = tmp_path / "timecommand.py"
    text = HARNESS.read_text()
    assert 'os.write(1, b"ready")' in text
    changed.write_text(text.replace('os.write(1, b"ready")', "sys.exit(1)"))
    argv = [PYTHON, "-I", "-S", str(changed), "--case", "C", "--repeats", "1", "--programs", "true"]
    argv += ["--switches", '{"command": ["true"]}', "--parameters", '{"payload_seed": 1, "warmup": 0, "limit_s": 9}']
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "the process that would end the command with this one did not start\n"


def test_each_execution_starts_in_an_empty_folder_without_input() -> None:
    code = "import os, sys; assert os.listdir() == []; assert sys.stdin.read() == ''; open('left', 'w'); print('x')"
    does(PYTHON, "-c", code, repeats=3)


def test_a_broken_pipe_ends_a_program_as_in_a_shell() -> None:
    """Python ignores SIGPIPE, and would pass that on: `yes` would then complain and end with status 1."""
    log = does("sh", "-c", 'yes | head -n 1 > /dev/null; trap "" EXIT; yes 2> err | true; test ! -s err')
    assert len(log.records) == 2


def test_the_harness_folder_is_named_in_a_word() -> None:
    does("test", "-f", "{harness}/timecommand.py")


def test_a_short_command_is_warned_of() -> None:
    done = timed("true")
    assert done.returncode == 0
    assert re.search(r"warning: the command takes \d+\.\d\d ms; below 5 ms", done.stderr)
    assert timed("sleep", "0.02").stderr == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"programs": "gzip,cat"}, "command: 'true' is no program of the arm's tree, which has gzip,cat"),
        ({"switches": {"command": "true"}}, "switches: expected one, command, a list of words"),
        ({"switches": {"command": ["true"], "more": 1}}, "switches: expected one"),
        ({"warmup": -1}, "parameter warmup: expected a whole number, at least 0, found -1"),
        ({"limit_s": 0}, "parameter limit_s: expected seconds above 0"),
        ({"ok_exit": []}, "parameter ok_exit: expected a list"),
        ({"ok_exit": 1}, "parameter ok_exit: expected a list"),
        ({"maxrss": 1}, "parameter maxrss: expected true or false"),
        ({"no_such": 1}, "unknown parameter no_such"),
        ({"repeats": 0}, "--repeats: expected at least 1"),
    ],
)
def test_wrong_use(changes: dict[str, Any], message: str) -> None:
    done = timed("true", **changes)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_missing_parameter_and_no_json() -> None:
    argv = [PYTHON, str(HARNESS), "--case", "C", "--repeats", "1", "--programs", "true"]
    for parameters, switches, message in (
        ("{}", '{"command": ["true"]}', "missing parameter payload_seed\nmissing parameter warmup\nmissing parameter limit_s"),
        ("{", "{}", "--parameters is not JSON"),
    ):  # fmt: skip
        command = [*argv, "--parameters", parameters, "--switches", switches]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert message in done.stderr


def test_a_program_that_is_gone_or_cannot_be_executed(tmp_path: Path) -> None:
    done = timed("no-such-program-here")
    assert (done.returncode, done.stderr) == (1, "no-such-program-here is not found on PATH\n")
    odd = tmp_path / "odd"
    odd.write_bytes(b"\0\1\2")
    os.chmod(odd, 0o755)
    done = timed(str(odd))
    assert (done.returncode, done.stdout) == (1, "")
    assert "Exec format error" in done.stderr
