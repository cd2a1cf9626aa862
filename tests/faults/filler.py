"""The runner's command line, with its disk filled up at a chosen moment: for tests alone.

    python -m tests.faults.filler N FILE CAMPAIGN

Right after the N-th time that this session makes something durable (fsync, rename, replace), or before or after a process
of a run, FILE is made to take all the room that its file system has left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner import __main__ as command
from runner import process


def fill(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        for size in (1 << 16, 4096, 1):
            try:
                while file.write(b"\1" * size) == size:
                    pass
            except OSError:
                continue


def main() -> None:
    number, path, campaign = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    calls = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            result = function(*args, **kwargs)
            calls += 1
            if calls == number:
                fill(path)
            return result

        return wrapper

    for name in ("fsync", "rename", "replace"):
        setattr(os, name, counted(getattr(os, name)))
    process.execute = counted(process.execute)
    command.main(["run", campaign], prog_name="python -m runner")


if __name__ == "__main__":
    main()
