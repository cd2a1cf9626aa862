"""The journal: the chain finds every change, a torn line is tolerated and said, one runner at a time, all on disk in order."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner import journal
from runner.errors import DataError, Refused
from runner.files import sha256
from runner.journal import START, Journal, read

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")


def write(path: Path, lines: int = 6) -> bytes:
    """A journal of some lines; its bytes."""
    with Journal(path, now=lambda: "2026-11-30T00:00:00.000+00:00") as opened:
        for i in range(lines):
            opened.append(("session-start", "run-start", "run-end")[i % 3], text=f"Zeile {i}: \u00e4\n", pid=i)
    return path.read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write(tmp_path_factory.mktemp("journal") / "journal.jsonl")


def read_bytes(folder: Path, data: bytes) -> journal.Reading:
    path = folder / "changed.jsonl"
    path.write_bytes(data)
    return read(path)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    data = write(tmp_path / "j", 3)
    reading = read(tmp_path / "j")
    assert [event["event"] for event in reading.events] == ["session-start", "run-start", "run-end"]
    assert [event["number"] for event in reading.events] == [1, 2, 3]
    assert reading.events[1]["text"] == "Zeile 1: \u00e4\n"
    assert (reading.torn, reading.whole_bytes) == (b"", len(data))
    # The chain, without the module's own code.
    previous = START
    for line in data.split(b"\n")[:-1]:
        assert json.loads(line)["previous"] == previous
        previous = sha256(line)
    assert reading.last_digest == previous


def test_a_second_session_goes_on_with_the_chain(tmp_path: Path) -> None:
    write(tmp_path / "j", 2)
    write(tmp_path / "j", 2)
    assert [event["number"] for event in read(tmp_path / "j").events] == [1, 2, 3, 4]


def test_no_journal_and_an_empty_one(tmp_path: Path) -> None:
    assert read(tmp_path / "j").events == ()
    (tmp_path / "j").touch()
    assert read(tmp_path / "j") == journal.Reading((), START, b"", 0)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_of_any_line_but_the_last_is_found(whole: bytes, tmp_path: Path, data: st.DataObject) -> None:
    last = whole.rindex(b"\n", 0, -1) + 1
    place = data.draw(st.integers(0, last - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda b: b != whole[place]))
    with pytest.raises(DataError) as raised:
        read_bytes(tmp_path, whole[:place] + bytes([byte]) + whole[place + 1 :])
    line = whole.count(b"\n", 0, place) + 1
    named = int(re.match(r".*changed\.jsonl:(\d+): ", str(raised.value))[1])  # type: ignore[index]
    assert named in (line, line + 1)  # its own line, or the one that no longer follows it


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_dropped_swapped_repeated_and_inserted_lines(whole: bytes, tmp_path: Path, data: st.DataObject) -> None:
    lines = whole.splitlines(keepends=True)
    a, b = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1]))
    swapped = list(lines)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    forged = json.dumps({**json.loads(lines[a]), "event": "forged"}).encode() + b"\n"
    for changed in (
        swapped,
        lines[:a] + lines[a + 1 :] if a < 5 else lines[1:],
        [*lines[: a + 1], lines[b], *lines[a + 1 :]],
        [*lines[: a + 1], forged, *lines[a + 1 :]],
        [*lines[:a], b"\n", *lines[a:]],
    ):
        with pytest.raises(DataError, match=r"changed\.jsonl:\d+: "):
            read_bytes(tmp_path, b"".join(changed))


def test_where_the_chain_breaks(whole: bytes, tmp_path: Path) -> None:
    lines = whole.splitlines(keepends=True)
    with pytest.raises(DataError, match=r"changed\.jsonl:3: the chain is broken(.|\n)*expected: [0-9a-f]{64}"):
        read_bytes(tmp_path, b"".join(lines[:2] + lines[3:]))
    one = json.loads(lines[1]) | {"number": 7}
    with pytest.raises(DataError, match=r"changed\.jsonl:2: wrong line number\n  expected: 2\n  found: 7"):
        read_bytes(tmp_path, lines[0] + json.dumps(one).encode() + b"\n")


@pytest.mark.parametrize(
    "line", [b"", b"nothing", b"[]", b"3", b"{}", b'{"event": 3}', b"\xff", b"[" * 100_000, b'{"event": "x"}{}', b"\0"]
)
def test_lines_that_are_no_events(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(DataError, match=r"changed\.jsonl:1: (not a journal line|the chain is broken)"):
        read_bytes(tmp_path, line + b"\n")


@pytest.mark.parametrize("cut", [1, 2, 40, 100])
def test_a_torn_last_line_is_tolerated_and_said(whole: bytes, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j"
    path.write_bytes(whole[:-cut])
    kept = whole.rindex(b"\n", 0, -1) + 1
    reading = read(path)
    assert len(reading.events) == 5
    assert reading.torn == whole[kept:-cut]
    assert path.read_bytes() == whole[:-cut]  # reading changes nothing
    with Journal(path) as opened:
        assert len(opened.events) == 6
        assert opened.events[-1]["event"] == "torn-line"
        assert opened.events[-1]["bytes"] == len(reading.torn)
        assert opened.events[-1]["text"] == reading.torn.decode(errors="replace")[:200]
    assert path.read_bytes().startswith(whole[:kept])
    assert read(path).torn == b""


@pytest.mark.parametrize("most", [1, 7, 100])
def test_a_torn_line_is_replaced_also_where_little_is_written_at_once(
    whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(whole[:-5])
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: pwrite(file, data[:most], place))
    with Journal(path) as opened:
        assert opened.events[-1]["event"] == "torn-line"
        opened.append("next")
    assert [event["event"] for event in read(path).events][-2:] == ["torn-line", "next"]


def test_a_torn_line_that_cannot_be_replaced_is_said(
    whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(whole[:-5])
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(DataError, match="nothing more could be written"):
        Journal(path).__enter__()
    monkeypatch.undo()
    with Journal(path) as opened:
        assert opened.events[-1]["event"] == "torn-line"


def test_a_broken_journal_is_not_written_to_and_not_kept_locked(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(whole.replace(b"run-start", b"run-stArt", 1))
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(DataError, match="the chain is broken"):
            Journal(path)
    assert path.read_bytes() == before


HOLD = """
import sys
from pathlib import Path
from runner.journal import Journal
with Journal(Path(sys.argv[1])) as opened:
    if sys.argv[2] == "said":
        import os
        opened.append("session-start", pid=os.getpid())
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["said", "not yet said"])
def test_a_second_runner_is_refused_and_the_first_is_named(tmp_path: Path, how: str) -> None:
    path = tmp_path / "j"
    with Journal(path) as earlier:
        earlier.append("session-start", pid=1)
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdin is not None
    assert first.stdout is not None
    try:
        assert first.stdout.readline() == "open\n"
        before = path.read_bytes()
        with pytest.raises(
            Refused, match=rf"another runner is at work on this campaign\n  found: process {first.pid}\b"
        ):
            Journal(path)
        assert path.read_bytes() == before
        assert len(read(path).events) == 2 if how == "said" else 1  # reading needs no lock
    finally:
        first.stdin.close()
        first.wait(timeout=10)
        first.stdout.close()
    with Journal(path) as opened:
        opened.append("session-start", pid=os.getpid())


def test_each_event_is_on_disk_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written, then fsynced, one after the other; what was acknowledged is what the file holds."""
    path = tmp_path / "j"
    synced: list[tuple[int, int]] = []
    folders: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            synced.append((os.fstat(descriptor).st_size, len(path.read_bytes())))
        else:
            folders.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with Journal(path) as opened:
        sizes = []
        for i in range(4):
            opened.append("run-start", i=i)
            sizes.append(path.stat().st_size)
            assert len(read(path).events) == i + 1
    assert synced == [(size, size) for size in sizes]
    assert folders == [str(tmp_path)]  # once, when the journal was made
    Journal(path).close()
    assert folders == [str(tmp_path)]


def test_a_full_disk_leaves_the_chain_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that could be written in part only is taken back, and the next session goes on."""
    path = tmp_path / "j"
    opened = Journal(path)
    opened.append("session-start", pid=1)
    before = path.read_bytes()

    class Full:
        """A file with room for ten bytes more."""

        def __init__(self, file: Any) -> None:
            self.file, self.room = file, 10

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, data: bytes) -> int:
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            written: int = self.file.write(data[: self.room])
            self.room -= written
            return written

    opened._file = Full(opened._file)  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(DataError, match=r"could not be written\n  found: .*No space left(.|\n)*make room"):
            opened.append("run-start", text="x" * 100)
    assert path.read_bytes() == before
    opened._file.room = 10**6  # type: ignore[attr-defined]
    opened.append("run-start", text="again")
    opened.close()
    assert [event["event"] for event in read(path).events] == ["session-start", "run-start"]


def test_an_fsync_that_fails_is_not_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path / "j") as opened:
        opened.append("session-start", pid=1)

        def fsync(_: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(DataError, match="could not be written"):
            opened.append("run-start")
        assert len(opened.events) == 1
    assert len(read(tmp_path / "j").events) == 1


def test_a_journal_that_someone_else_writes_to(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path) as opened:
        opened.append("session-start", pid=1)
        with path.open("ab") as other:
            other.write(b"mine\n")
        with pytest.raises(DataError, match="the journal changed under the runner"):
            opened.append("run-start")


@pytest.mark.parametrize(("how", "found"), [("removed", "no file"), ("replaced", "another file")])
def test_a_journal_that_is_not_there_any_more(tmp_path: Path, how: str, found: str) -> None:
    """What would be appended would go with the removed file: the runner stops instead."""
    path = tmp_path / "j"
    with Journal(path) as opened:
        opened.append("session-start", pid=1)
        data = path.read_bytes()
        path.unlink()
        if how == "replaced":
            path.write_bytes(data)
        with pytest.raises(DataError, match=rf"removed or replaced under the runner(.|\n)*found: {found}"):
            opened.append("run-start")
        assert len(opened.events) == 1


def test_values_that_json_does_not_have_are_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as opened:
        with pytest.raises(ValueError, match="JSON"):
            opened.append("baseline", load=float("nan"))
        opened.append("baseline", load=0.5)
    assert len(read(tmp_path / "j").events) == 1


def test_without_the_kernels_list_of_locks_the_last_session_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    with Journal(path, now=lambda: "noon") as opened:
        opened.append("session-start", pid=4711)
        opened.append("baseline", pid=4712)
        monkeypatch.setattr(journal, "_lock_holder", lambda _: None)
        with pytest.raises(
            Refused,
            match="found: process 4711, of another host, or of another PID namespace of this one, at work since noon",
        ):
            Journal(path)
