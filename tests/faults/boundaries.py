"""Every call by which the runner's process can change something, counted, to end the session just before the n-th.

Nothing lists these calls: all functions of the operating system's module, all of open files, of locks and of starting processes
count but those that only read, so that a call which is added to the product tomorrow is among them.

`power_cut` goes further than kill -9: what was not fsynced is lost. A file has the content of its last fsync, or none; a
folder has the names of its last fsync.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults import sessions

MODULES = {"posix", "_io", "fcntl", "_posixsubprocess"}
FILES = {"FileIO", "BufferedWriter", "BufferedRandom", "TextIOWrapper"}
READING = {
    "access", "close", "cpu_count", "fileno", "fspath", "fstat", "fsdecode", "get_terminal_size", "getcwd", "geteuid", "getpid",
    "getuid", "isatty", "listdir", "lstat", "pidfd_open", "read", "readable", "readall", "readinto", "readline", "readlines",
    "readlink", "sched_getaffinity", "scandir", "seek", "seekable", "stat", "tell", "uname", "writable", "getvalue", "sysconf",
    "waitpid", "wait4", "urandom", "text_encoding", "WIFSIGNALED", "WIFEXITED", "waitstatus_to_exitcode", "__enter__", "detach",
    "_path_normpath", "confstr", "WIFSTOPPED", "sched_setaffinity", "getloadavg", "WTERMSIG", "WEXITSTATUS", "getppid", "__exit__",
}  # fmt: skip

Rest = Callable[[], None]


def changes(function: Any) -> bool:
    """Whether a C function may change what others see of this process."""
    name = getattr(function, "__name__", "")
    owner = type(getattr(function, "__self__", None)).__name__
    of_module = getattr(function, "__module__", None) in MODULES or owner in FILES
    return of_module and name not in READING


def nothing() -> None:
    """What else happens: nothing."""


def at_boundary(
    number: int,
    then: Rest = nothing,
    watch: Callable[[str, Any, Any], None] | None = None,
    by: signal.Signals = signal.SIGKILL,
) -> Rest:
    """What installs the counter in a session: before the n-th such call `then` is done, and a signal sent to itself."""

    def install() -> None:
        sessions.hurry()
        left = number

        def count(frame: Any, event: str, function: Any) -> None:
            nonlocal left
            if event in ("c_call", "c_return") and changes(function):
                if watch:
                    watch(event, function, frame)
                if event == "c_call":
                    left -= 1
                    if not left:
                        then()
                        os.kill(os.getpid(), by)

        sys.setprofile(count)

    return install


def at_call(name: str, number: int) -> Rest:
    """The same, before the n-th call of one of the operating system's functions."""

    def install() -> None:
        sessions.hurry()
        left = number

        def count(_frame: Any, event: str, function: Any) -> None:
            nonlocal left
            if event == "c_call" and changes(function) and function.__name__ == name:
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)

    return install


class Disk:
    """What a power cut would leave of one folder. In this model, all that lies there at the beginning is durable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.contents: dict[int, bytes] = {}
        self.names: dict[int, dict[str, tuple[int, bool]]] = {}
        for path in [folder, *folder.rglob("*")]:
            self.keep(path)

    def keep(self, path: Path) -> None:
        """An fsync of this file or folder."""
        inode = path.stat().st_ino
        if path.is_dir():
            self.names[inode] = {
                entry.name: (entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in os.scandir(path)
            }
        else:
            self.contents[inode] = path.read_bytes()

    def fsynced(self, event: str, function: Any, frame: Any) -> None:
        """Take note of an fsync that has just come back."""
        if event == "c_return" and function is os.fsync:
            descriptor = next(
                value
                for name in ("descriptor", "place", "file", "self")
                if (value := _descriptor(frame.f_locals.get(name))) is not None
            )
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.is_relative_to(self.folder):
                self.keep(path)

    def write(self, target: Path) -> None:
        """Write what is left to another folder."""
        self._folder(self.folder.stat().st_ino, target)

    def _folder(self, inode: int, target: Path) -> None:
        target.mkdir(parents=True)
        for name, (child, is_folder) in self.names.get(inode, {}).items():
            if is_folder:
                self._folder(child, target / name)
            else:
                (target / name).write_bytes(self.contents.get(child, b""))


def _descriptor(value: Any) -> int | None:
    if isinstance(value, int):
        return value
    value = getattr(value, "_file", value)
    try:
        number: int = value.fileno()
    except (AttributeError, ValueError):
        return None
    return number
