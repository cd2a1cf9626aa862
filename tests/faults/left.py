"""What a campaign could leave behind, before and after: processes, namespaces, mounts, control groups, memory, folders."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from runner.containment import own_group
from tests.campaigns import Campaign, alive


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _processes() -> list[int]:
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if alive(pid)]


def elsewhere(pid: int, folder: str) -> bool:
    """Whether a process belongs to another test process, or to a runner at work on another campaign, of the same machine."""
    while pid > 1:
        command = _read(Path(f"/proc/{pid}/cmdline")).split("\0")
        if pid == os.getpid() or any(folder in word for word in command):
            return False
        if any(word.endswith("pytest") for word in command) or command[1:3] == ["-m", "runner"]:
            return True
        fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
        pid = int(fields[1]) if fields else 0
    return False


def of_a_campaign(pid: int, folder: str) -> bool:
    """Whether a process names the folder in its command or environment, or is in a control group of a runner."""
    about = Path(f"/proc/{pid}")
    named = any(folder in _read(about / name) for name in ("cmdline", "environ"))
    return named or "/benchbook-" in _read(about / "cgroup")


def left(folder: str) -> dict[str, set[str]]:
    """Everything that is there now, by kind, but for what other tests on this machine have."""
    memory, temporary = Path("/dev/shm"), Path(tempfile.gettempdir())
    here = [pid for pid in _processes() if not elsewhere(pid, folder)]
    namespaces = set()
    for pid in here:
        for kind in ("net", "mnt", "ipc"):
            with contextlib.suppress(OSError):
                namespaces.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    group = own_group()
    # Not of `render`, nor the folders that hold a test's own campaigns.
    engines = [path for place in (memory, temporary) for path in place.glob("benchbook-[!rt]*")]
    named = [*(group.rglob("benchbook-*/") if group else ()), *engines]
    return {
        "processes": {str(pid) for pid in here if pid != os.getpid() and of_a_campaign(pid, folder)},
        "namespaces": namespaces,
        "mounts": {line.split()[4] for line in _read(Path("/proc/self/mountinfo")).splitlines()},
        "groups and folders": {str(path) for path in named if not _of_another(path, folder)},
        "shared memory": {fields[1] for fields in _segments() if not elsewhere(int(fields[4]), folder)},
        "network links": set(os.listdir("/sys/class/net")),
    }


def _segments() -> list[list[str]]:
    """Shared memory of System V: key, number, mode, size, process that made it, and more."""
    return [line.split() for line in _read(Path("/proc/sysvipc/shm")).splitlines()[1:]]


def _of_another(path: Path, folder: str) -> bool:
    """Whether the process whose number a name carries is at work elsewhere."""
    numbers = re.findall(r"-(\d+)-", path.name)
    return bool(numbers) and elsewhere(int(numbers[0]), folder)


@contextlib.contextmanager
def nothing_left(campaign: Campaign, limit_s: float = 10) -> Iterator[None]:
    """Whatever happens inside: a moment later nothing is there that was not there before."""
    folder = str(campaign.folder.parent)
    before = left(folder)
    yield
    deadline = time.monotonic() + limit_s
    while True:
        after = left(folder)
        new = {kind: names - before[kind] for kind, names in after.items() if names - before[kind]}
        if not new:
            break
        assert time.monotonic() < deadline, f"left behind: {new}"
        time.sleep(0.05)
    assert not list(campaign.folder.rglob("*.partial")) or "close" not in {e["event"] for e in campaign.events()}
