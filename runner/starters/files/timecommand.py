"""Times one command, from its start to its end, and prints Go benchmark text. Python's standard library alone.

Each execution gets a new empty folder as its current one, nothing on its input, and its output goes to /dev/null. Timed
are starting it (posix_spawn), its work, and waiting for its end; CPU time is its own and that of the children it waited for.

Exit status: 0 done, 1 the command failed, 2 wrong use.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).resolve().parent
SHORT_NS = 5_000_000  # below this, starting a process is a large part of what is timed
LAST_LINES = 10
DEFAULTS = {"ok_exit": [0], "split": False, "maxrss": False}
EXPECTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "payload_seed": ("a whole number", lambda value: type(value) is int),
    "warmup": ("a whole number, at least 0", lambda value: type(value) is int and value >= 0),
    "limit_s": ("seconds above 0", lambda value: type(value) in (int, float) and value > 0),
    "ok_exit": (
        "a list of exit statuses",
        lambda value: type(value) is list and bool(value) and all(type(n) is int for n in value),
    ),
    "split": ("true or false", lambda value: type(value) is bool),
    "maxrss": ("true or false", lambda value: type(value) is bool),
}


# Waits until its input ends, as it does with the harness, however that ends; then nothing of the command is left at work.
_WATCH = """import os, shutil, signal, sys
os.write(1, b"ready")
sys.stdin.buffer.read()
try:
    with open(os.path.join(sys.argv[1], "pid")) as file:
        pid = int(file.read() or 0)
    if pid:
        os.killpg(pid, signal.SIGKILL)
except OSError:
    pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


class WrongUseError(Exception):
    """The command line, the parameters or the switches are not what this harness needs."""


class FailedError(Exception):
    """The command did not end as it should."""


@dataclass(frozen=True)
class Execution:
    """What one execution took: ns, and bytes at its largest."""

    wall: int
    user: int
    system: int
    maxrss: int
    status: int  # exit status; minus the signal's number


class Guard:
    """A process that ends the command when this one is killed; it sleeps until then, and is told of pids without being woken.

    Raises FailedError when it does not start.
    """

    def __init__(self, folder: str) -> None:
        self._pid = os.open(os.path.join(folder, "pid"), os.O_CREAT | os.O_WRONLY)
        reading, self._open = os.pipe()  # closed in the command, as all of this process's files are
        ready, writing = os.pipe()
        argv = [sys.executable, "-I", "-S", "-c", _WATCH, folder]
        actions = [
            (os.POSIX_SPAWN_DUP2, reading, 0),
            (os.POSIX_SPAWN_DUP2, writing, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        os.posix_spawn(sys.executable, argv, os.environ, file_actions=actions, setpgroup=0)
        os.close(reading)
        os.close(writing)
        told = os.read(ready, 5)  # nothing is timed while it starts
        os.close(ready)
        if not told:
            raise FailedError("the process that would end the command with this one did not start")

    def keeps(self, pid: int) -> None:
        """From now on end this process and its group; 0 for none."""
        os.pwrite(self._pid, b"%-20d" % pid, 0)


def execute(path: str, words: list[str], folder: str, errors: int, limit_s: float, guard: Guard) -> Execution:
    """Execute a command once in a folder. Raises FailedError when it does not end within the limit."""
    late, pid = False, 0

    def stop(*_: object) -> None:
        nonlocal late
        late = True
        if pid:
            os.killpg(pid, signal.SIGKILL)

    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, errors, 2),
    ]
    os.chdir(folder)
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit_s, 0.05)  # again and again: the first may come before pid is known
    start = time.perf_counter_ns()
    # Python ignores SIGPIPE, and what is ignored would stay so in the command.
    pid = os.posix_spawn(
        path, words, os.environ, file_actions=actions, setpgroup=0, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
    )
    guard.keeps(pid)
    _, ended, usage = os.wait4(pid, 0)
    wall = time.perf_counter_ns() - start
    guard.keeps(0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # what it left behind must not work while the next one is timed
    if late:
        raise FailedError(f"still at work after {limit_s:g} s (parameter limit_s)")
    status = os.waitstatus_to_exitcode(ended)
    return Execution(wall, _ns(usage.ru_utime), _ns(usage.ru_stime), usage.ru_maxrss * 1024, status)


def _ns(seconds: float) -> int:
    return round(seconds * 1e6) * 1000  # the kernel gives whole microseconds


def measure(command: Sequence[str], repeats: int, given: dict[str, Any]) -> list[Execution]:
    """Execute a command `warmup` times and then `repeats` times. Raises FailedError."""
    words = [word.replace("{harness}", str(HARNESS)) for word in command]
    path = shutil.which(words[0])
    if path is None:
        raise FailedError(f"{words[0]} is not found on PATH")
    done = []
    with tempfile.TemporaryDirectory(prefix="timecommand-") as folder, open(f"{folder}/errors", "w+b") as errors:
        guard = Guard(folder)
        for number in range(given["warmup"] + repeats):
            work = os.path.join(folder, "work")
            os.mkdir(work)
            errors.truncate(0)
            errors.seek(0)
            try:
                found = execute(path, words, work, errors.fileno(), given["limit_s"], guard)
                if found.status not in given["ok_exit"]:
                    raise FailedError(_how(found.status, given["ok_exit"]))
            except FailedError as error:
                which = f"execution {number + 1} of {given['warmup'] + repeats}"
                raise FailedError(f"{which}: {error}{_last_words(errors.fileno())}") from None
            finally:
                os.chdir(folder)
                shutil.rmtree(work, ignore_errors=True)
            if number >= given["warmup"]:
                done.append(found)
        os.chdir("/")
    return done


def _how(status: int, expected: Sequence[int]) -> str:
    if status < 0:
        number = -status
        return f"ended by {signal.Signals(number).name if number in set(signal.Signals) else f'signal {number}'}"
    return f"exit status {status}, expected {' or '.join(map(str, expected))} (parameter ok_exit)"


def _last_words(errors: int) -> str:
    """The end of the command's standard error: its last lines go on to ours, the very last is given back."""
    size = os.fstat(errors).st_size
    text = os.pread(errors, 4096, max(0, size - 4096)).decode(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()][-LAST_LINES:]
    print(*lines, sep="\n", file=sys.stderr)
    return f"; its standard error ends: {lines[-1].strip()}" if lines else "; nothing on its standard error"


def lines(case: str, done: Sequence[Execution], given: dict[str, Any]) -> list[str]:
    """The results as Go benchmark text. Raises FailedError for a maxrss that cannot be seen."""
    told = [f"exit-status: {','.join(map(str, sorted({one.status for one in done})))}"]
    for one in done:
        told.append(f"Benchmark{case} 1 {one.wall} ns/op {one.user + one.system} cpu-ns/op")
    if given["split"]:  # the kernel knows their sum exactly, and divides it by what it saw at its ticks
        user, system = (sum(times) / len(done) for times in zip(*((one.user, one.system) for one in done), strict=True))
        told.append(f"Benchmark{case} {len(done)} {user:.1f} user-ns/op {system:.1f} sys-ns/op")
    if given["maxrss"]:
        own = _own_largest()
        least = min(one.maxrss for one in done)
        if least <= own:
            raise FailedError(
                f"maxrss {least} is not above this harness's own {own}, which the kernel counts in: "
                "leave out the parameter maxrss and the metric maxrss-B"
            )
        told.append(f"Benchmark{case} {len(done)} {max(one.maxrss for one in done)} maxrss-B")
    return told


def _own_largest() -> int:
    """Bytes of this process at its largest, without those of the runner that started it, which getrusage counts in."""
    with open("/proc/self/status", encoding="utf-8") as file:
        said = dict(line.split(":", 1) for line in file)
    return (
        int(said["VmHWM"].split()[0]) * 1024
        if "VmHWM" in said
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    )


def asked(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """The command and the parameters. Raises WrongUseError that names everything that is wrong."""
    problems, found = [], []
    for option in ("switches", "parameters"):
        try:
            found.append(json.loads(getattr(options, option)))
        except ValueError as error:
            raise WrongUseError(f"--{option} is not JSON: {error}") from None
    switches, given = found
    command = switches.get("command")
    if set(switches) != {"command"} or not isinstance(command, list) or not command:
        problems.append(f"switches: expected one, command, a list of words; found {json.dumps(switches)}")
    elif command[0] not in options.programs.split(","):
        problems.append(f"command: {command[0]!r} is no program of the arm's tree, which has {options.programs}")
    given = {**DEFAULTS, **given}
    problems += [f"missing parameter {name}" for name in EXPECTED if name not in given]
    for name, value in given.items():
        if name not in EXPECTED:
            problems.append(f"unknown parameter {name}")
        elif not EXPECTED[name][1](value):
            problems.append(f"parameter {name}: expected {EXPECTED[name][0]}, found {json.dumps(value)}")
    if options.repeats < 1:
        problems.append(f"--repeats: expected at least 1, found {options.repeats}")
    if problems:
        raise WrongUseError("\n".join(problems))
    return command, given


def main(argv: Sequence[str]) -> int:
    """Measure one command in this process."""
    parser = argparse.ArgumentParser(description="Times one command; prints Go benchmark text.")
    parser.add_argument("--case", required=True)
    parser.add_argument("--repeats", required=True, type=int)
    parser.add_argument("--programs", required=True, help="that the command may be, comma-separated")
    parser.add_argument("--switches", required=True, help="a JSON object: command")
    parser.add_argument("--parameters", required=True, help="a JSON object")
    options = parser.parse_args(argv)
    try:
        command, given = asked(options)
        done = measure(command, options.repeats, given)
        told = lines(options.case, done, given)
    except (WrongUseError, FailedError, OSError) as error:
        print(f"{error}", file=sys.stderr)
        return 2 if isinstance(error, WrongUseError) else 1
    print(*told, sep="\n")
    typical = statistics.median(one.wall for one in done)
    if typical < SHORT_NS:
        print(
            f"warning: the command takes {typical / 1e6:.2f} ms; below 5 ms most of that is starting a process: "
            "give it more work",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
