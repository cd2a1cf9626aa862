"""Starting processes: never through a shell, always with an explicit environment, never left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import containment
from runner.errors import Missing, Refused
from runner.files import writing
from runner.interrupts import held, released

PACKAGES = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "taskset": "util-linux",
    "mount": "mount",
    "cat": "coreutils",
    "git": "git",
}
PR_SET_CHILD_SUBREAPER = 36
OOM_SCORE = 500  # of a run's process and its children: half of the memory there is counts as theirs
END_LIMIT_S = 10  # for a process that was killed
RUN_PATH = "/usr/local/bin:/usr/bin:/bin"  # of a run's process
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def tool(name: str) -> str:
    """Full path of a system program. Raises Missing with the package that holds it."""
    path = shutil.which(name, path=SYSTEM_PATH)
    if path is None:
        raise Missing(name, "this program is not installed", remedy=f"install the package {PACKAGES.get(name, name)}")
    return path


def pinned(cpus: str) -> list[str]:
    """Prefix that binds a command to CPUs and ends it with the runner, even after kill -9."""
    return [tool("taskset"), "-c", cpus, tool("setpriv"), "--pdeathsig", "KILL"]


def call(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
    limit_s: float = 60,
    where: str = "",
) -> str:
    """Run a helper command to its end and return its standard output. Raises Refused when it fails."""
    base = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "TZ": "UTC"}
    try:
        done = subprocess.run(
            list(argv),
            env=base | dict(environment or {}),
            input=stdin,
            text=True,
            capture_output=True,
            timeout=limit_s,
            check=False,
            start_new_session=True,  # an interruption from the keyboard is for the runner alone, which may hold it back
        )
    except FileNotFoundError:
        raise Missing(argv[0], "this program is not installed") from None
    except subprocess.TimeoutExpired:
        raise Refused(where or argv[0], f"no answer within {limit_s:g} s", found=" ".join(argv)) from None
    if done.returncode:
        raise Refused(
            where or argv[0],
            f"exit status {done.returncode}",
            found=f"{' '.join(argv)}\n{(done.stderr or done.stdout).strip()[-2000:]}",
        )
    return done.stdout


def call_logged(argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path, limit_s: float) -> str:
    """Run a command in a folder, all its output into a file. Returns how it failed, and "" when it did not.

    Raises Missing when there is no such program.
    """
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                list(argv),
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError):
            raise Missing(argv[0], "this program is not installed") from None
        ended = False
        try:
            ended = _ends_within(process.pid, limit_s)
        finally:
            _end_group(process.pid)
            status = process.wait()
    if not ended:
        return f"no end within {limit_s:g} s"
    return f"exit status {status}" if status else ""


@dataclass(frozen=True)
class Ended:
    """How a run's process ended, and what the kernel counted for it."""

    status: int | None  # exit status, None when a signal ended it
    signal: str | None
    timed_out: bool
    wall_ns: int
    rusage: dict[str, Any]
    schedstat: dict[str, int]
    cpu_last: int | None
    cpus_allowed: str


def execute(
    argv: Sequence[str],
    environment: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    limit_s: float,
    file_limit: int | None = None,
) -> Ended:
    """Run one process in a session of its own, its output straight into files; end its group at the limit.

    Whatever it started ends with it, also what left its group: this process adopts its orphans. With `file_limit` (bytes)
    the kernel lets no file that it writes grow beyond. When memory runs out it goes before the runner and the server.
    Raises Unwritable when its output cannot be put on disk.
    """
    already_there = children()
    adopt_orphans()
    with held(), stdout.open("xb") as out, stderr.open("xb") as err:
        start = time.perf_counter_ns()
        process = subprocess.Popen(
            list(argv), env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        timed_out = False
        containment.leads(process.pid)
        try:
            _limits(process.pid, file_limit)
            timed_out = not _ends_within(process.pid, limit_s)
        finally:
            # Also on the way out of an exception, and also when the leader is gone: its children may not be.
            wall_ns = time.perf_counter_ns() - start
            observed = _observe(process.pid)
            _end_group(process.pid)
        _assert_ends(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        end_orphans(already_there)
        containment.leads(0)
        for path, file in ((stdout, out), (stderr, err)):
            with writing(path):
                os.fsync(file.fileno())
    signalled = os.WIFSIGNALED(status)
    return Ended(
        None if signalled else os.waitstatus_to_exitcode(status),
        _signal_name(os.WTERMSIG(status)) if signalled else None,
        timed_out,
        wall_ns,
        {name.removeprefix("ru_"): getattr(usage, name) for name in dir(usage) if name.startswith("ru_")},
        **observed,
    )


def _limits(pid: int, file_limit: int | None) -> None:
    """Set by the kernel's means from outside, so that nothing more is executed in front of what is timed."""
    with contextlib.suppress(OSError):  # it has ended already
        if file_limit is not None:
            hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
            limit = file_limit if hard == resource.RLIM_INFINITY else min(file_limit, hard)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, hard))
        adjustment = Path(f"/proc/{pid}/oom_score_adj")
        adjustment.write_text(str(max(OOM_SCORE, int(adjustment.read_text()))))


def _ends_within(pid: int, limit_s: float) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        with released():
            readable, _, _ = select.select([descriptor], [], [], limit_s)
        return bool(readable)
    finally:
        os.close(descriptor)


def _assert_ends(pid: int) -> None:
    """Raise Refused when a killed process does not end, as one that waits for a disk or network may: nothing can go on."""
    descriptor = os.pidfd_open(pid)
    try:
        if not select.select([descriptor], [], [], END_LIMIT_S)[0]:
            raise _immortal(pid)
    finally:
        os.close(descriptor)


def _immortal(pid: int) -> Refused:
    return Refused(
        f"process {pid}",
        f"it was killed and did not end within {END_LIMIT_S} s",
        found=_name(pid),
        remedy="see what it waits for (a disk, a network), end it, and run again",
    )


def _observe(pid: int) -> dict[str, Any]:
    """What /proc says of a process that has ended and was not yet waited for."""

    def read(name: str) -> str:
        try:
            return Path(f"/proc/{pid}/{name}").read_text()
        except OSError:
            return ""

    run_ns, wait_ns, slices = ([int(field) for field in read("schedstat").split()] + [0, 0, 0])[:3]
    fields = read("stat").rpartition(")")[2].split()
    status = dict(line.partition(":\t")[::2] for line in read("status").splitlines())
    return {
        "schedstat": {"run_ns": run_ns, "wait_ns": wait_ns, "slices": slices},
        "cpu_last": int(fields[36]) if len(fields) > 36 else None,
        "cpus_allowed": status.get("Cpus_allowed_list", "unknown"),
    }


def _signal_name(number: int) -> str:
    """SIGKILL and the like; a real-time signal has no name of its own."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def adopt_orphans() -> None:
    """Have the kernel make this process the parent of its descendants whose own parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """The children of this process, those that wait to be reaped among them."""
    own, found = str(os.getpid()), set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[1] == own:
                found.add(int(pid))
    return found


def end_orphans(known: set[int], name: str = "") -> None:
    """Kill and reap children that this process did not have before; theirs become its own, until none is left.

    With a name only those of this name. Raises Refused for one that does not end.
    """
    deadline = time.monotonic() + END_LIMIT_S
    while strays := {pid for pid in children() - known if not name or _name(pid) == name}:
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                while os.waitpid(pid, os.WNOHANG)[0] == 0:
                    if time.monotonic() > deadline:
                        raise _immortal(pid)
                    time.sleep(0.001)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _end_group(leader: int) -> None:
    """Kill what is left of a process group. The leader itself is not yet waited for, so its number is still its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
