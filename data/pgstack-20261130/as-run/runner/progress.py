"""What the runner shows while it works: where it is, how far, how long still. Never a measured value."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from runner.ledger import Block
from runner.orders import Labels


class Progress:
    """Live on a terminal, one line a block elsewhere; always on standard error.

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
        self._total = self._done = self._failed = 0
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(text, markup=False)

    def begin(self, blocks: Sequence[Block], done: int) -> None:
        """What is ahead, after `done` runs of earlier sessions."""
        self._total = sum(len(block.labels) for block in blocks)
        self._begun = time.monotonic()
        self.say(f"{self._total} runs outstanding" + (f", {done} done in earlier sessions" if done else ""))

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
        if not self._console.is_terminal and labels.position == 0:
            self.say(f"{text.rpartition('  ')[0]}  {self._done}/{self._total}  {self._left()}")

    def ended(self, labels: Labels, outcome: str, reason: str | None) -> None:
        """A run ended; why it failed is said, what it measured is not."""
        self._done += 1
        if outcome != "ok":
            self._failed += 1
            self.say(f"{outcome}: {labels}: {reason}")

    def _draw(self, text: str) -> None:
        if self._console.is_terminal:
            self._bar.update(
                self._task, description=text, total=self._total, completed=self._done, left=self._left(), refresh=True
            )

    def _left(self) -> str:
        if not self._done:
            return ""
        left = (time.monotonic() - self._begun) / self._done * (self._total - self._done)
        return f"about {timedelta(seconds=round(left))} left"
