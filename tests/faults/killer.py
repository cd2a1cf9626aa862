"""The runner's command line, ended by kill -9 at a chosen moment: for tests alone, the product has no such hook.

    python -m tests.faults.killer MOMENT CAMPAIGN

MOMENT is `event:KIND:N:before|after|torn`, around the journal's N-th event of a kind in this session, or
`call:N`, at the N-th time that this session makes something durable (fsync, rename, replace) or starts a run's process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from runner import __main__ as command
from runner import process
from runner.journal import Journal


def end_now() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_event(kind: str, number: int, when: str) -> None:
    seen: Counter[str] = Counter()
    append = Journal.append

    def killing(self: Journal, event: str, **fields: Any) -> Any:
        seen[event] += 1
        here = event == kind and seen[event] == number
        if here and when == "before":
            end_now()
        if here and when == "torn":
            line = json.dumps({"number": len(self.events) + 1, "event": event, **fields})
            os.write(os.open(self.path, os.O_WRONLY | os.O_APPEND), line[: len(line) // 2].encode())
            end_now()
        entry = append(self, event, **fields)
        if here:
            end_now()
        return entry

    Journal.append = killing  # type: ignore[method-assign]


def at_call(number: int) -> None:
    """Before the call, or right after it: every second number is after."""
    calls = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                end_now()
            result = function(*args, **kwargs)
            calls += 1
            if calls == number:
                end_now()
            return result

        return wrapper

    for name in ("fsync", "rename", "replace"):
        setattr(os, name, counted(getattr(os, name)))
    process.execute = counted(process.execute)


def main() -> None:
    moment, campaign = sys.argv[1:]
    kind, *rest = moment.split(":")
    if kind == "event":
        at_event(rest[0], int(rest[1]), rest[2])
    else:
        at_call(int(rest[0]))
    command.main(["run", campaign], prog_name="python -m runner")


if __name__ == "__main__":
    main()
