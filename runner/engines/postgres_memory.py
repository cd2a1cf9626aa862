"""The shared memory that a killed PostgreSQL leaves where it has no IPC namespace of its own."""

from __future__ import annotations

import ctypes
from pathlib import Path

IPC_RMID = 0


def remove_segment(folder: Path) -> bool:
    """Remove the segment that a cluster below `folder` names, if nobody uses it any more. Returns whether there was one.

    The seventh line of postmaster.pid has its key and number; a server that ended by itself leaves neither.
    """
    try:
        key, number = (folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except (OSError, IndexError, ValueError):
        return False
    for line in lines:
        fields = line.split()
        if fields[:2] == [key, number] and fields[6] == "0":
            return bool(ctypes.CDLL(None).shmctl(int(number), IPC_RMID, None) == 0)
    return False
