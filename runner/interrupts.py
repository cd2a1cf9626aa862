"""SIGINT and SIGTERM wait while something is half done, and come right after it.

A record that is being written is finished, a process that is being ended is ended; while a benchmark process is at work
both signals come at once. Handlers belong to the main thread: in others nothing is held, since nothing comes there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
Handler = Callable[[int, FrameType | None], object] | int | None


@dataclass(eq=False)  # each is itself, whatever it holds
class Hold:
    """What the signals did before they were held, and which came meanwhile."""

    before: dict[signal.Signals, Handler]
    came: list[int] = field(default_factory=list)


_HOLDS: list[Hold] = []  # signal handlers are the whole process's, and so is this


@contextmanager
def held() -> Iterator[None]:
    """Let both signals wait until the end of this block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hold = Hold({number: signal.getsignal(number) for number in SIGNALS})
    _HOLDS.append(hold)
    try:
        for number in SIGNALS:
            signal.signal(number, lambda number, _frame: hold.came.append(number))
        yield
    finally:
        _HOLDS.remove(hold)
        _install(hold.before)
        _deliver(hold)


@contextmanager
def released() -> Iterator[None]:
    """Inside `held`: both signals come at once here, those that waited first."""
    if not _HOLDS or threading.current_thread() is not threading.main_thread():
        yield
        return
    inner = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        _install(_HOLDS[0].before)
        for hold in _HOLDS:
            _deliver(hold)
        yield
    finally:
        _install(inner)


def _install(handlers: dict[signal.Signals, Handler]) -> None:
    for number, handler in handlers.items():
        if handler is not None:  # None: installed by something else than Python, and not to be put back from here
            signal.signal(number, handler)


def _deliver(hold: Hold) -> None:
    while hold.came:
        signal.raise_signal(hold.came.pop(0))
