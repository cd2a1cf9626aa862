"""Sessions of the runner in forked children of the test, so that hundreds of them fit in minutes.

The child is the real command line with the real modules; what differs from `python -m runner run` is that Python and the
modules are loaded already, and that it looks at the host for a hundredth of a second where the product takes longer.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runner import __main__ as command
from runner import execute
from tests.campaigns import Campaign

LIMIT_S = 60


@dataclass
class Session:
    """One session: its process, and where its output goes."""

    pid: int
    output: Path
    status: int | None = None  # as `subprocess` gives it: below 0 for a signal

    def poll(self) -> int | None:
        """Its exit status, None while it is at work."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def wait(self) -> int:
        """Wait until it ends; its exit status."""
        deadline = time.monotonic() + LIMIT_S
        while self.poll() is None:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"no end within {LIMIT_S} s: {self.said}")
            time.sleep(0.001)
        assert self.status is not None
        return self.status

    def send(self, number: int) -> bool:
        """Send a signal; whether it was still at work."""
        if self.poll() is not None:
            return False
        os.kill(self.pid, number)
        return True

    @property
    def said(self) -> str:
        """What it wrote to standard output and error."""
        return self.output.read_text()


def hurry() -> None:
    """Look at the host for a short time only."""
    execute.QUIET_SAMPLE_S = 0.01
    execute.QUIET_SAMPLES = 1
    execute.BASELINE_LOOPS = 1


def start(campaign: Campaign, *arguments: str, before: Callable[[], None] = hurry, what: str = "run") -> Session:
    """Start `python -m runner run CAMPAIGN` (or another command) in a forked child; `before` is called in it."""
    output = campaign.folder.parent / "said.txt"
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Session(pid, output)
    status = 70
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(descriptor, number)
        sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115 - until the process ends
        sys.stderr = sys.__stderr__ = open(2, "w", closefd=False)  # noqa: SIM115
        os.chdir(campaign.project)
        os.environ.update(campaign.environment())
        signal.signal(signal.SIGINT, signal.default_int_handler)
        before()
        command.main([what, str(campaign.folder), *arguments], prog_name="python -m runner")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.setprofile(None)  # what follows is the test's own
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def ends(campaign: Campaign, *arguments: str, before: Callable[[], None] = hurry, what: str = "run") -> Session:
    """The same, to its end."""
    session = start(campaign, *arguments, before=before, what=what)
    session.wait()
    return session
