"""What a journal's lines hold to the byte, and what its errors say word by word."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from runner import journal
from runner.errors import BenchbookError, DataError, Refused
from runner.files import sha256
from runner.journal import START, Journal, Reading, read

NOON = "2026-11-30T12:00:00.000+00:00"


def opened(path: Path) -> Journal:
    return Journal(path, now=lambda: NOON)


def parts(error: BenchbookError) -> tuple[str, str, str, str, str]:
    return error.where, error.problem, error.expected, error.found, error.remedy


def of_read(path: Path, data: bytes) -> tuple[str, str, str, str, str]:
    path.write_bytes(data)
    with pytest.raises(DataError) as raised:
        read(path)
    return parts(raised.value)


def test_a_line_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with opened(path) as log:
        entry = log.append("baseline", text="\u00e4 b", load=[0.5, 1])
        assert log.events == [entry]
    line, rest = path.read_bytes().split(b"\n")
    assert rest == b""
    assert list(entry) == ["number", "time", "monotonic_ns", "event", "text", "load", "previous"]
    assert json.loads(line) == entry
    assert (
        line
        == (
            f'{{"number":1,"time":"{NOON}","monotonic_ns":{entry["monotonic_ns"]},"event":"baseline",'
            f'"text":"\u00e4 b","load":[0.5,1],"previous":"{START}"}}'
        ).encode()
    )


def test_the_clock_is_universal_time_to_the_millisecond() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", journal.utc_now())


def test_without_a_file_there_is_nothing_not_even_a_torn_line(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == Reading((), START, b"", 0)


# -- what is wrong with a journal


def test_the_words_of_a_broken_chain(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with opened(path) as log:
        for number in range(3):
            log.append("baseline", n=number)
    first, second, third, _ = path.read_bytes().split(b"\n")
    assert of_read(tmp_path / "k", first + b"\n" + third + b"\n") == (
        f"{tmp_path / 'k'}:2",
        "the chain is broken: this line does not follow the line before",
        sha256(first),
        sha256(second),
        "a line was changed, dropped, moved or put in; restore the published journal",
    )


def test_the_words_for_what_is_no_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    where = f"{path}:1"
    assert of_read(path, b"{]\n") == (
        where,
        "not a journal line",
        "one JSON object",
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "",
    )
    text = '["\u00e4' + "x" * 200 + '"]'
    assert of_read(path, text.encode() + b"\n") == (
        where,
        "not a journal line",
        "a JSON object with an event",
        text.encode()[:80].decode(),
        "",
    )
    cut = '["' + "x" * 77 + '\u00e4"]'  # the 80th byte is in the middle of a letter
    assert of_read(path, cut.encode() + b"\n")[3] == cut[:79] + "\N{REPLACEMENT CHARACTER}"


# -- who holds it


def test_a_lock_of_another_file_is_no_holder(tmp_path: Path) -> None:
    with opened(tmp_path / "other"), opened(tmp_path / "j"):
        (tmp_path / "free").touch()
        assert journal._lock_holder(tmp_path / "free") is None
        assert journal._lock_holder(tmp_path / "j") == os.getpid()


def test_the_words_of_a_second_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"

    def refused() -> tuple[str, str, str, str, str]:
        with pytest.raises(Refused) as raised:
            opened(path)
        return parts(raised.value)

    words = ("another runner is at work on this campaign", "")
    remedy = "wait until it ends, or end it; nothing of its work is lost"
    with opened(path) as log:
        assert refused() == (str(path), *words, f"process {os.getpid()}, of this host", remedy)
        with monkeypatch.context() as without:
            without.setattr(journal, "_lock_holder", lambda _: None)
            assert refused()[3] == (
                "process unknown, of another host, or of another PID namespace of this one, at work since unknown"
            )
        log.append("session-start", pid=os.getpid())
        log.append("baseline", pid=1)
        assert refused() == (str(path), *words, f"process {os.getpid()}, of this host, at work since {NOON}", remedy)


# -- a torn line


@pytest.mark.parametrize(
    ("torn", "text"),
    [
        (b'{"number":2,"text":"\xc3', '{"number":2,"text":"\N{REPLACEMENT CHARACTER}'),
        (b"x" * 1000, "x" * 200),
    ],
)
def test_a_torn_line_is_replaced_and_the_chain_goes_on(tmp_path: Path, torn: bytes, text: str) -> None:
    path = tmp_path / "j"
    with opened(path) as log:
        log.append("session-start", pid=1)
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    with opened(path) as log:
        assert (log.events[1]["event"], log.events[1]["bytes"], log.events[1]["text"]) == ("torn-line", len(torn), text)
        log.append("session-start", pid=2)
    data = path.read_bytes()
    assert data.startswith(whole + b'{"number":2,')
    said = data[len(whole) :].split(b"\n")[0]
    assert said.rstrip(b" ").endswith(b"}")
    assert len(said) >= len(torn)
    assert [event["number"] for event in read(path).events] == [1, 2, 3]


def test_a_torn_line_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    path.write_bytes(b'{"number"')

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DataError) as raised:
        opened(path)
    assert parts(raised.value) == (
        str(path),
        "the journal could not be written",
        "",
        "[Errno 28] No space left on device",
        "make room on the disk, or make the folder writable, and run again: it goes on where it stopped",
    )
    assert path.read_bytes() == b'{"number"'


# -- a file that is not as this session left it


@pytest.mark.parametrize(("how", "found"), [("removed", "no file"), ("replaced", "another file")])
def test_the_words_for_a_journal_that_is_gone(tmp_path: Path, how: str, found: str) -> None:
    path = tmp_path / "j"
    with opened(path) as log:
        for number in range(2):
            log.append("baseline", n=number)
        path.unlink()
        if how == "replaced":
            path.touch()
        with pytest.raises(DataError) as raised:
            log.append("baseline")
    assert parts(raised.value) == (
        str(path),
        "the journal was removed or replaced under the runner",
        "the file that this session opened, with 2 lines",
        found,
        "put that file back, and run again",
    )


def test_the_words_for_a_journal_that_grew(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with opened(path) as log:
        log.append("baseline")
        size = path.stat().st_size
        with path.open("ab") as other:
            other.write(b"mine")
        with pytest.raises(DataError) as raised:
            log.append("baseline")
    assert parts(raised.value) == (
        str(path),
        "the journal changed under the runner",
        f"{size} bytes",
        f"{size + 4}",
        "",
    )


class Balky:
    """The journal's file, whose first write takes nothing, or which cannot be cut back."""

    def __init__(self, file: Any, *, nothing: bool) -> None:
        self._file, self._nothing = file, nothing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int | None:
        if not self._nothing:
            raise OSError(errno.EIO, "Input/output error")
        self._nothing = False
        self.write = self._file.write  # type: ignore[method-assign]
        return None

    def truncate(self, size: int) -> int:
        raise OSError(errno.EROFS, "Read-only file system")


def test_a_write_that_took_nothing_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with opened(path) as log:
        log._file = Balky(log._file, nothing=True)  # type: ignore[assignment]
        log.append("baseline")
    assert len(read(path).events) == 1


def test_a_line_that_cannot_even_be_taken_back_is_told_as_unwritten(tmp_path: Path) -> None:
    with opened(tmp_path / "j") as log:
        log._file = Balky(log._file, nothing=False)  # type: ignore[assignment]
        with pytest.raises(DataError) as raised:
            log.append("baseline")
    assert raised.value.found == "[Errno 5] Input/output error"
