"""What a session shows: a bar on a terminal, one line a run elsewhere, and never a measured value."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from runner.ledger import Block, End, Ledger
from runner.orders import Labels
from runner.progress import Progress

RUNS = [Labels("T", "Load", arm, 1, position, position) for position, arm in enumerate(("one", "two"))]
BLOCK = Block("T", "Load", 1, tuple(RUNS))


@contextmanager
def terminal() -> Iterator[tuple[io.TextIOWrapper, list[str]]]:
    """A real terminal's writing end, and what was written once it is closed."""
    reader, writer = os.openpty()
    shown: list[str] = []
    stream = os.fdopen(writer, "w", encoding="utf-8")
    try:
        yield stream, shown
    finally:
        stream.close()
        data = b""
        with suppress(OSError):  # the end of what was written: the other end is closed
            while more := os.read(reader, 1 << 16):
                data += more
        os.close(reader)
        shown.append(data.decode())


def session(stream: io.TextIOBase) -> None:
    """One run that ends well and one that fails, of a block that had to wait."""
    progress = Progress(stream)  # type: ignore[arg-type]
    progress.begin([BLOCK], Ledger([BLOCK]))
    with progress:
        progress.waiting(BLOCK, "idle load 0.7 is above 0.5")
        for run, end in zip(
            RUNS, (End("ok", None, {}), End("failed", "stdout.txt:3: 17 ns/op is no number", {})), strict=True
        ):
            progress.started(run)
            progress.ended(run, end, f"runs/T/Load/1-{run.arm}")


def test_a_terminal_shows_where_it_is_and_how_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with terminal() as (stream, shown):
        session(stream)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown[0])
    assert "2 runs outstanding" in text
    assert re.search(r"phase T  block 1  Load: waiting, idle load 0.7 is above 0.5 .*0/2", text)
    assert re.search(r"phase T  block 1  Load  one .*0/2", text)
    assert re.search(r"phase T  block 1  Load  two .*1/2 about 0:00:0", text)
    assert "failed: phase T, case Load, block 1, arm two: its stdout.txt cannot be used; see runs/T/Load/1-two" in text
    assert re.search(r"2 of 2 runs in 0:00:0\d; 1 failed", text)
    assert "17 ns/op" not in text


def test_elsewhere_each_run_is_a_line() -> None:
    stream = io.StringIO()
    session(stream)
    first, one, two, failed, last = stream.getvalue().splitlines()
    assert first == "2 runs outstanding"
    assert one == "phase T  block 1  Load  one  0/2"
    assert re.fullmatch(r"phase T  block 1  Load  two  1/2  about 0:00:0\d left", two)
    assert failed.startswith("failed: phase T, case Load, block 1, arm two: its stdout.txt cannot be used; see ")
    assert re.fullmatch(r"2 of 2 runs in 0:00:0\d; 1 failed", last)


def test_runs_of_earlier_sessions_count_for_the_campaign_alone() -> None:
    state = Ledger([BLOCK, Block("T", "Scan", 1, (Labels("T", "Scan", "one", 1, 0, 2),))])
    state.ends |= dict.fromkeys(RUNS, End("ok", None, {}))
    stream = io.StringIO()
    progress = Progress(stream)
    progress.begin(state.blocks[1:], state)
    progress.started(state.blocks[1].labels[0])
    first, second = stream.getvalue().splitlines()
    assert first == "1 runs outstanding, 2 done in earlier sessions"
    assert second == "phase T  block 1  Scan  one  2/3"
