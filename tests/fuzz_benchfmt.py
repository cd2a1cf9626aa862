"""Fuzzing of the reader of raw logs: mutations of real logs, and what must hold of whatever is read from them.

python -m tests.fuzz_benchfmt --minutes 10 [--seed N]     by mutations that know the format
python -m tests.fuzz_benchfmt --minutes 10 --atheris      by coverage, where atheris is installed
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from runner import adoptgo
from runner.benchfmt import Log, encoding, parse
from runner.errors import DataError
from runner.rawlog import content
from tests.small import phase

LOGS = sorted((Path(__file__).parent / "logs").rglob("*.txt"))
CORPUS = [path.read_bytes() for path in LOGS] + [
    b"rows: 100\nUnit tx/s better=higher assume=exact\nBenchmarkSave 10 5.5 ns/op\nBenchmarkSave 20 6.5 ns/op 160 B/op\n",
    b"BenchmarkSave-8 10 5.5 ns/op\nBenchmarkSave-8 20 6.5 ns/op\nBenchmarkSave-8 3 160 B/op\n",
    b"pkg: a\nBenchmarkA 1 5 ns/op\npkg: b\nBenchmarkA 1 6 ns/op\npanic: boom\nBenchmarkB 1 5 ns/op\nKilled\n",
]
NUMBERS = [
    b"0",
    b"NaN",
    b"+Inf",
    b"-1",
    b"0x1p-2",
    b"1_000",
    b"1e309",
    b"1e-400",
    b"9" * 400,
    b"1,5",
    b"\xd9\xa1",
    b"5.",
    b".",
]
LINES = [
    b"--- FAIL: BenchmarkA-8",
    b"panic: boom",
    b"FAIL",
    b"PASS",
    b"exit status 2",
    b"--- SKIP: BenchmarkA",
    b"pkg: b",
]
LINES += [
    b"ok  \ta\t1s",
    b"BenchmarkA",
    b"BenchmarkA-8   \t",
    b"     100\t 5 ns/op",
    b"Unit ns/op better=higher",
    b"goos: x",
]
LINES += [
    b'{"Time":"x","Action":"output","Output":"BenchmarkA 1 5 ns/op"}',
    b"SIGQUIT: quit",
    b"*** Test killed: ran too long",
]
BYTES = [
    b"\0",
    b"\r",
    b"\x0b",
    b"\x0c",
    b"\x1c",
    b"\x85",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\t",
    b" ",
]
BYTES += [
    b"\n",
    b"\xc2\xa0",
    b"=",
    b":",
    b"/",
    b"-8",
    b"%",
    b",",
    b"{",
    b'"',
    b"Benchmark",
    b"\xf0\x9f\x98\x80",
    b"e\xcc\x81",
]


def mutate(data: bytes, choose: random.Random) -> bytes:
    """One to eight changes: of lines, of words, of bytes, or of the whole encoding."""
    for _ in range(choose.randint(1, 8)):
        data = choose.choice(MUTATIONS)(data, choose)
    return data


def _lines(data: bytes, choose: random.Random) -> bytes:
    lines = data.split(b"\n")
    place, other = choose.randrange(len(lines)), choose.randrange(len(lines))
    kind = choose.randrange(5)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(other, lines[place])
    elif kind == 2:
        lines[place], lines[other] = lines[other], lines[place]
    elif kind == 3:
        lines.insert(place, choose.choice(LINES))
    else:
        lines[place] += lines[other]
    return b"\n".join(lines)


def _words(data: bytes, choose: random.Random) -> bytes:
    found = list(re.finditer(rb"\S+", data[:20_000]))
    if not found:
        return data
    word = choose.choice(found)
    new = choose.choice([b"", *NUMBERS, choose.choice(found)[0]])
    return data[: word.start()] + new + data[word.end() :]


def _bytes(data: bytes, choose: random.Random) -> bytes:
    place = choose.randint(0, len(data))
    length = choose.choice([0, 0, 1, 1, 2, 40])
    return data[:place] + choose.choice([*BYTES, bytes([choose.randrange(256)])]) + data[place + length :]


def _cut(data: bytes, choose: random.Random) -> bytes:
    return data[: choose.randint(0, len(data))]


def _joined(data: bytes, choose: random.Random) -> bytes:
    return (data + choose.choice(CORPUS))[:30_000]


def _encoded(data: bytes, choose: random.Random) -> bytes:
    if choose.random() < 0.7:
        return data.replace(b"\n", choose.choice([b"\r\n", b"\r\r\n", b"\n\n"]))
    text = data.decode("utf-8", errors="replace")
    return text.encode(choose.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"]))


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    _lines,
    _lines,
    _words,
    _words,
    _bytes,
    _cut,
    _joined,
    _encoded,
]


# Written anew, and less exact than the reader: a line that anybody would take for a result.
LOOKS_LIKE = re.compile(
    r"^Benchmark(?![a-z])\S*[ \t]+\S|Benchmark\S{0,99}[ \t]+[0-9]+[ \t]+[-+]?[0-9.]+[ \t]+[^\s0-9]\S*[ \t]*$"
)
DEATH = re.compile(rb"^(panic: |fatal error: |signal: |exit status [1-9]|SIGQUIT: |\*\*\* Test killed|Killed$)")
PLANNED = phase("B")


def check(data: bytes) -> None:
    """What must hold of any bytes. Raises AssertionError where it does not."""
    log = parse(data)
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    _check_lines(log, lines, data)
    for record in log.records:
        words = lines[record.line - 1].decode().split()
        assert words[0] == "Benchmark" + record.name
        assert int(words[1]) == record.iterations
        assert [(float(value), unit) for value, unit in zip(words[2::2], words[3::2], strict=True)] == list(
            record.values
        )
    planned = content(log, PLANNED, "Save")
    assert bool(planned.values) != bool(planned.problem)
    assert not (planned.values and log.faults)
    _check_adopted(data)


def _check_lines(log: Log, lines: list[bytes], data: bytes) -> None:
    named = {entry.line for entry in (*log.records, *log.faults)}
    assert all(1 <= line <= len(lines) for line in named)
    assert len({record.line for record in log.records}) == len(log.records)
    assert not {record.line for record in log.records} & {fault.line for fault in log.faults}
    if encoding(data):
        assert [fault.line for fault in log.faults] == [1] and not log.records
        return
    for number, line in enumerate(lines, start=1):
        if LOOKS_LIKE.search(line.decode("utf-8", errors="replace")) and not line.lstrip().startswith(b"{"):
            assert number in named, (number, line[:200])
    if any(DEATH.match(line) for line in lines):
        assert log.faults


def _check_adopted(data: bytes) -> None:
    try:
        read = adoptgo.read(data, "a.txt")
    except DataError as error:
        if error.where.startswith("a.txt:") and error.remedy:
            return
        raise
    lines = data.split(b"\n")
    good: set[int] = set()
    for piece in read.pieces:
        assert bool(piece.values) != bool(piece.problem)
        assert not piece.problem or re.match(r"a\.txt:[0-9]+: ", piece.problem)
        good |= {value.line for value in piece.values}
        for value in piece.values:
            words = lines[value.line - 1].decode().removeprefix("\ufeff").split()
            assert (value.metric, value.value) in zip(words[3::2], map(float, words[2::2]), strict=True)
    for first, part in adoptgo.processes(data.removeprefix(b"\xef\xbb\xbf")):
        dead = False
        for number, line in enumerate(part.removesuffix(b"\n").split(b"\n"), start=first):
            dead = dead or bool(DEATH.match(line))
            assert not (dead and number in good), (number, line[:200])


def campaign(minutes: float, seed: int) -> int:
    """Mutate and check until the time is over. Returns how many logs were checked; stops at the first that fails."""
    choose, done, end = random.Random(seed), 0, time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        data = mutate(choose.choice(CORPUS), choose)
        try:
            check(data)
        except Exception:
            sys.stderr.write(f"after {done} logs: {data!r}\n")
            raise
        done += 1
    return done


def by_coverage(minutes: float) -> None:
    """Hand over to atheris, which ends the process itself."""
    import atheris

    atheris.instrument_all()
    folder = Path("/tmp/fuzz-corpus")
    folder.mkdir(exist_ok=True)
    for number, data in enumerate(CORPUS):
        (folder / f"seed-{number}").write_bytes(data)
    atheris.Setup(
        [sys.argv[0], f"-max_total_time={round(60 * minutes)}", "-timeout=20", "-max_len=4096", str(folder)], check
    )
    atheris.Fuzz()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--atheris", action="store_true", help="fuzz by coverage; needs the package atheris")
    chosen = parser.parse_args()
    if chosen.atheris:
        by_coverage(chosen.minutes)
    else:
        print(f"{campaign(chosen.minutes, chosen.seed)} logs, no failure")
