"""What the runner shows while it works: where it is, how far, how long still. Never a measured value."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from runner.ledger import Block, End, Ledger
from runner.orders import Labels


def kind_of(reason: str | None) -> str:
    """What kind of failure a reason tells of: what stands before the first colon or semicolon, without what was measured."""
    kind = re.split("[:;]", reason or "")[0]
    return "its stdout.txt cannot be used" if kind == "stdout.txt" else kind


class Progress:
    """Live on a terminal, one line a run elsewhere; always on standard error.

    Drawn only between processes: a display with a clock of its own would wake up on the server's CPU
    while something is timed.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            auto_refresh=False,
            transient=True,
        )
        self._task = self._bar.add_task("", left="")
        self._total = self._done = self._failed = 0  # of this session
        self._before = self._campaign = 0  # runs of the whole campaign: done before this session, and in the end
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(text, markup=False)

    def begin(self, blocks: Sequence[Block], state: Ledger) -> None:
        """What is ahead in this session, and how far the whole campaign is."""
        self._total = sum(len(block.labels) for block in blocks)
        self._before = state.done()
        self._campaign = self._before + sum(len(block.labels) for block in state.outstanding())
        self._begun = time.monotonic()
        earlier = f", {self._before} done in earlier sessions" if self._before else ""
        self.say(f"{self._total} runs outstanding{earlier}")

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()
        elapsed = timedelta(seconds=round(time.monotonic() - self._begun))
        self.say(f"{self._done} of {self._total} runs in {elapsed}; {self._failed} failed")

    def waiting(self, block: Block, why: str) -> None:
        """The host is busy before a block."""
        self._draw(f"phase {block.phase}  block {block.number}  {block.case}: waiting, {why}")

    def started(self, labels: Labels) -> None:
        """A run begins."""
        text = f"phase {labels.phase}  block {labels.block}  {labels.case}  {labels.arm}"
        self._draw(text)
        if not self._console.is_terminal:
            self.say(f"{text}  {self._before + self._done}/{self._campaign}  {self._left()}".rstrip())

    def ended(self, labels: Labels, end: End, see: str) -> None:
        """A run ended; the kind of its failure is said and where the rest is, what it measured is not."""
        self._done += 1
        if end.outcome != "ok":
            self._failed += 1
            self.say(f"{end.outcome}: {labels}: {kind_of(end.reason)}; see {see}")

    def _draw(self, text: str) -> None:
        if self._console.is_terminal:
            done = self._before + self._done
            self._bar.update(
                self._task, description=text, total=self._campaign, completed=done, left=self._left(), refresh=True
            )

    def _left(self) -> str:
        """Time left of this session, at its own pace."""
        if not self._done:
            return ""
        left = (time.monotonic() - self._begun) / self._done * (self._total - self._done)
        return f"about {timedelta(seconds=round(left))} left"
