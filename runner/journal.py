"""The append-only, hash-chained log of what the runner did.

Each line is a JSON object with its number, the time, an event and the SHA-256 of the line before (its bytes without
the newline). A line is on disk before the runner goes on. A torn last line, as a crash can leave it, is replaced by the
next session, in one write, by a line that says so; anything else that breaks the chain is an error.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner.errors import DataError, Refused
from runner.files import fsync_folder, sha256
from runner.interrupts import held

START = "0" * 64
Event = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """What a journal holds: whole, chained events, and the bytes of a torn last line, if there is one."""

    events: tuple[Event, ...]
    last_digest: str
    torn: bytes
    whole_bytes: int


def read(path: Path) -> Reading:
    """Read and check a journal. Raises DataError with file and line where the chain breaks."""
    data = path.read_bytes() if path.exists() else b""
    events: list[Event] = []
    previous = START
    whole = 0
    *lines, torn = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        event = _parse(line, f"{path}:{number}")
        if event.get("previous") != previous:
            raise DataError(
                f"{path}:{number}",
                "the chain is broken: this line does not follow the line before",
                expected=previous,
                found=str(event.get("previous")),
                remedy="a line was changed, dropped, moved or put in; restore the published journal",
            )
        if event.get("number") != number:
            raise DataError(
                f"{path}:{number}", "wrong line number", expected=str(number), found=str(event.get("number"))
            )
        events.append(event)
        previous = sha256(line)
        whole += len(line) + 1
    return Reading(tuple(events), previous, torn, whole)


def _parse(line: bytes, where: str) -> Event:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(where, "not a journal line", expected="one JSON object", found=str(error)) from None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise DataError(
            where,
            "not a journal line",
            expected="a JSON object with an event",
            found=line[:80].decode(errors="replace"),
        )
    return event


def utc_now() -> str:
    """The wall clock, in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _lock_holder(path: Path) -> int | None:
    """The process that holds the lock of a file, as the kernel lists it."""
    inode = str(path.stat().st_ino)
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        match = re.match(r"^\d+: FLOCK\s+\S+\s+\S+\s+(\d+) \S+:(\d+) ", line)
        if match and match[2] == inode:
            return int(match[1]) or None  # 0: a process of another namespace
    return None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


class Journal:
    """The journal open for writing; holds the campaign's lock while it is open."""

    def __init__(self, path: Path, now: Callable[[], str] = utc_now) -> None:
        self.path, self._now = path, now
        existed = path.exists()
        self._file = path.open("ab", buffering=0)  # nothing waits in a buffer: what could not be written is not there
        try:
            self._lock()
            if not existed:
                fsync_folder(path.parent)
            reading = read(path)
            self.events: list[Event] = list(reading.events)
            self._previous, self._size = reading.last_digest, reading.whole_bytes
            if reading.torn:
                self._mend(reading.torn)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = next(
                (event for event in reversed(read(self.path).events) if event["event"] == "session-start"), {}
            )
            pid = _lock_holder(self.path)
            where = "of this host" if pid else "of another host, or of another PID namespace of this one"
            if pid is None or pid == holder.get("pid"):
                found = (
                    f"process {holder.get('pid', 'unknown')}, {where}, at work since {holder.get('time', 'unknown')}"
                )
            else:
                found = f"process {pid}, {where}"  # it has not yet written the start of its session
            raise Refused(
                str(self.path),
                "another runner is at work on this campaign",
                found=found,
                remedy="wait until it ends, or end it; nothing of its work is lost",
            ) from None

    def append(self, event: str, **fields: Any) -> Event:
        """Write one event and wait until it is on disk."""
        entry, line = self._line(event, fields)
        with held():  # interrupted after the write, this object would no longer know what the file holds
            self._write(line + b"\n")
            self._take(entry, line)
        return entry

    def _line(self, event: str, fields: dict[str, Any]) -> tuple[Event, bytes]:
        entry: Event = {
            "number": len(self.events) + 1,
            "time": self._now(),
            "monotonic_ns": time.monotonic_ns(),
            "event": event,
            **fields,
            "previous": self._previous,
        }
        return entry, json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    def _take(self, entry: Event, line: bytes) -> None:
        self._previous = sha256(line)
        self.events.append(entry)

    def _mend(self, torn: bytes) -> None:
        """Write a line that says so over a torn one, blanks at its end where that was longer.

        In one write: whenever this is cut off too, there is a torn line still, and it is not forgotten.
        """
        entry, line = self._line("torn-line", {"bytes": len(torn), "text": torn.decode(errors="replace")[:200]})
        line = line.ljust(len(torn))
        place = os.open(self.path, os.O_WRONLY)  # the journal's own is for appending alone
        try:
            with held():
                data, written = line + b"\n", 0
                while written < len(data):
                    step = os.pwrite(place, data[written:], self._size + written)
                    if step == 0:
                        raise OSError(errno.ENOSPC, "nothing more could be written")
                    written += step
                os.fsync(place)
                self._take(entry, line)
                self._size += len(line) + 1
        except OSError as error:
            raise self._unwritten(error) from None
        finally:
            os.close(place)

    def _write(self, line: bytes) -> None:
        """Put a whole line on disk, or leave the journal as it was."""
        own, there = os.fstat(self._file.fileno()), _stat(self.path)
        if there is None or not os.path.samestat(own, there):
            raise DataError(
                str(self.path),
                "the journal was removed or replaced under the runner",
                expected=f"the file that this session opened, with {len(self.events)} lines",
                found="no file" if there is None else "another file",
                remedy="put that file back, and run again",
            )
        size = own.st_size
        if size != self._size:
            raise DataError(
                str(self.path), "the journal changed under the runner", expected=f"{self._size} bytes", found=f"{size}"
            )
        try:
            rest = line
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(size)
            raise self._unwritten(error) from None
        self._size += len(line)

    def _unwritten(self, error: OSError) -> DataError:
        return DataError(
            str(self.path),
            "the journal could not be written",
            found=str(error),
            remedy="make room on the disk, or make the folder writable, and run again: it goes on where it stopped",
        )

    def close(self) -> None:
        """Give up the lock."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
