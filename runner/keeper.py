"""Ends what a killed runner left at work: a process of its own that waits for the runner's end. Standard library alone.

    python keeper.py FOLDER|-

FOLDER is the control group that everything of a session is in; "-" where there is none. The runner holds the other end of
standard input and writes there, a line each, the number of the process that leads what it started last, or -1: nothing is to be
done. When the pipe closes, that process's group and everything in the control group are ended, and the control group goes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

LIMIT_S = 10.0
NOTHING = -1  # written by a runner that could not leave the group, when it has ended all else itself


def end_all(folder: Path, limit_s: float = LIMIT_S) -> bool:
    """Kill everything in a control group and below, and remove it. Returns whether it is gone.

    The kernel does it at once where it can (Linux 5.14); before that one process after the other, until none is left.
    """
    deadline = time.monotonic() + limit_s
    while folder.is_dir():
        try:
            (folder / "cgroup.kill").write_text("1")
        except OSError:
            _kill_each(folder)
        for path, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):  # it is not empty yet: its processes are on their way out
                os.rmdir(path)
        if not folder.is_dir():
            break
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def end_each(folder: Path, but: int) -> None:
    """Kill everything in a control group and below, one process left aside, for as long as something else is there."""
    deadline = time.monotonic() + LIMIT_S
    while _kill_each(folder, but) and time.monotonic() < deadline:
        time.sleep(0.002)


def _kill_each(folder: Path, but: int = 0) -> bool:
    """Returns whether there was anything to kill."""
    found = False
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            for pid in map(int, Path(path, "cgroup.procs").read_text().split()):
                if pid != but:
                    found = True
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
    return found


def main() -> None:
    """Wait for the end of standard input, then end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print("ready", flush=True)
    leader = 0
    for line in sys.stdin.buffer:
        leader = int(line)
    if leader > 0:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
    if sys.argv[1] != "-" and leader != NOTHING:
        end_all(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
