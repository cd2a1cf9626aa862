"""Nothing of a session outlives it, not even after kill -9 of the runner: where it can, a session has a control group.

While a session lasts, the runner is in a control group (cgroup v2, without controllers, so that nothing is scheduled or
counted otherwise) that it made for itself; all that it starts is in it too, also what leaves its session or its parent. A
process outside, the keeper, waits for the runner's end and then has the kernel kill what is left. Both hold a lock on the
control group's folder: a group that nobody locks is swept by the next session. Process numbers, CPU accounting and /proc
are as they would be without; a PID namespace would change what a process calls itself, and what a client finds in /proc.

Where no control group can be made (no root, cgroup v1 alone, a container with a read-only /sys), the keeper ends the
process group of what was started last; a process that left it stays.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from runner import keeper
from runner.errors import Refused
from runner.interrupts import held

PREFIX = "benchbook-"
GROUP, NO_GROUP = "control group", "process group"
SCRIPT = Path(keeper.__file__)
TRIES = 3
_keeper: subprocess.Popen[bytes] | None = None  # of this process, which has one session at a time; only without a group


def own_group() -> Path | None:
    """The folder of the control group (v2) that this process is in; None where there is none to be seen."""
    path = re.search(r"^0::(/.*)$", _read("/proc/self/cgroup"), re.M)
    folder = folder_of("", path[1]) if path else None
    return folder if folder and (folder / "cgroup.procs").is_file() else None


def folder_of(kinds: str, path: str) -> Path | None:
    """Where a line of /proc/self/cgroup is mounted; `kinds` are the controllers of a v1 hierarchy, "" for v2."""
    for line in _read("/proc/self/mountinfo").splitlines():
        fields, _, rest = line.partition(" - ")
        root, mount = fields.split()[3:5]
        kind, _, options = rest.split(" ", 2)
        same = kind == "cgroup2" if not kinds else kind == "cgroup" and set(kinds.split(",")) <= set(options.split(","))
        if same:
            inside = path if root == "/" else path.removeprefix(root)
            folder = Path(mount + inside)
            return None if ".." in folder.parts else folder
    return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def available() -> str:
    """What holds the processes of a session on this host, as it is recorded: a control group, or the process group."""
    folder = own_group()
    writable = folder and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)
    return GROUP if writable else NO_GROUP


def warnings() -> list[str]:
    """What deserves attention before a campaign begins."""
    if available() == GROUP:
        return []
    return ["no control group can be made here: a process that leaves its group can outlive a runner that is killed"]


def sweep() -> list[str]:
    """End what is left in control groups of runners that are gone, keeper and all. Returns the names of the groups."""
    top, swept = folder_of("", "/"), []  # also those of another login's session
    for folder in _below(top) if top else []:
        with suppress(OSError):  # another user's, another runner's at work, or gone meanwhile
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _lock(descriptor, folder.name.removeprefix(PREFIX).partition("-")[0])
                if folder.is_dir() and keeper.end_all(folder):
                    swept.append(folder.name)
            finally:
                os.close(descriptor)
    return swept


def _below(top: Path) -> list[Path]:
    """Control groups of sessions, as far as this user may look."""
    return [Path(path) for path, _, _ in os.walk(top) if Path(path).name.startswith(PREFIX)]


def _lock(descriptor: int, pid: str) -> None:
    """Lock a group's folder. Raises BlockingIOError when its runner is alive, or its keeper needs more than 10 s."""
    deadline = time.monotonic() + keeper.LIMIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if Path(f"/proc/{pid}").exists() or time.monotonic() > deadline:
                raise
        time.sleep(0.005)


@contextmanager
def session() -> Iterator[str]:
    """Hold this process and all that it starts, as far as this host can. Yields by what: GROUP or NO_GROUP.

    At the end this process is where it was before, and everything else in the group is killed. Raises Refused when the
    keeper does not start.
    """
    global _keeper
    sweep()
    with ExitStack() as stack:
        folder, descriptor = _entered(stack)
        started = _start_keeper(folder, descriptor)
        try:
            if folder:
                _join(folder)
            else:
                _keeper = started
            yield GROUP if folder else NO_GROUP
        finally:
            _keeper = None
            assert started.stdin is not None
            with held():
                if folder:
                    _leave(folder, started)
                started.stdin.close()
                started.wait()


def _leave(folder: Path, started: subprocess.Popen[bytes]) -> None:
    """Go back to where this process was, and end all else in the group; where that is not possible, all but this process."""
    try:
        _join(folder.parent)
    except OSError:
        _tell(started, keeper.NOTHING)  # it would end this process too
        keeper.end_each(folder, but=os.getpid())
        return
    keeper.end_all(folder)


def leads(pid: int) -> None:
    """Where there is no control group, tell the keeper which process leads what was started last; 0 when it is gone."""
    if _keeper:
        _tell(_keeper, pid)


def _tell(started: subprocess.Popen[bytes], number: int) -> None:
    if started.stdin:
        with suppress(BrokenPipeError):
            started.stdin.write(b"%d\n" % number)


def _entered(stack: ExitStack) -> tuple[Path | None, int]:
    """A new, locked control group that this process can enter and leave again; None where there can be none."""
    parent = own_group() if available() == GROUP else None
    for _ in range(TRIES if parent else 0):  # another session's sweep may take one that is not locked yet
        assert parent is not None
        folder = parent / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        try:
            folder.mkdir()
            stack.callback(_remove, folder)  # where the session does not come to be
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _join(folder)
            _join(parent)
            return folder, descriptor
        except OSError:
            _remove(folder)
    return None, -1


def _remove(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _join(folder: Path) -> None:
    """Move this process into a control group; its children that are there already stay where they are."""
    (folder / "cgroup.procs").write_text("0")


def _start_keeper(folder: Path | None, descriptor: int) -> subprocess.Popen[bytes]:
    started = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SCRIPT), str(folder or "-")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        pass_fds=[descriptor] if folder else [],
        start_new_session=True,  # an interruption from the keyboard is for the runner alone
        env={"LANG": "C.UTF-8"},
    )
    assert started.stdout is not None
    with started.stdout as answer:
        if answer.readline() != b"ready\n":
            raise Refused("containment", "the process that ends what a killed runner leaves did not start")
    return started
