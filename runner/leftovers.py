"""Processes that outlived the runner that started them, ended before a later session goes on.

A process asks the kernel to be ended with the runner as soon as it is there. Where the runner was killed in the thousandths of
a second before that, nobody ends it: it would go on writing into a record that is closed, and keep CPUs busy. It is known
by the files that it has open.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from runner.errors import Refused

LIMIT_S = 10


def holders(folder: Path) -> list[int]:
    """Other processes that have a file below a folder open for writing, as far as this user may look; readers do no harm."""
    found, inside = [], f"{folder}/"
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if pid != os.getpid() and any(name.startswith(inside) for name in _open_files(pid)):
            found.append(pid)
    return found


def _open_files(pid: int) -> Iterable[str]:
    names = []
    with suppress(OSError):  # it has ended, or is another user's
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                link = f"/proc/{pid}/fd/{descriptor}"
                if os.lstat(link).st_mode & stat.S_IWUSR:  # the link's mode is that of the open file
                    names.append(os.readlink(link))
    return names


def end(folder: Path) -> list[int]:
    """End what still writes into a run's folder, with its process group. Returns the numbers of those processes.

    Raises Refused when one of them cannot be ended.
    """
    ended: list[int] = []
    deadline = time.monotonic() + LIMIT_S
    while found := holders(folder):
        if time.monotonic() > deadline:
            raise Refused(
                str(folder),
                "processes of an earlier session still write here, and could not be ended",
                found=", ".join(map(str, found)),
                remedy="end them, and run again",
            )
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                _end(pid)
        ended += [pid for pid in found if pid not in ended]
        time.sleep(0.01)
    return ended


def _end(pid: int) -> None:
    """A benchmark process leads a group of its own; before it does, it is in that of the runner's parent."""
    if os.getpgid(pid) == pid:
        os.killpg(pid, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGKILL)
