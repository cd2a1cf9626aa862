"""What the writer writes, by the published rules of the format, by this reader, and by benchstat where it is installed."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.benchfmt import Record, format_record, parse
from tests.bundled import CAMPAIGN
from tests.test_benchfmt import NAME, VALUES

BENCHSTAT = shutil.which("benchstat", path=f"{os.environ['PATH']}:{Path.home() / 'go' / 'bin'}")
SPACES = "\t\n\v\f\r \x85\xa0" + "\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def broken_rule(line: str) -> str:
    """The first of the published rules that a result line breaks; empty when it breaks none.

    Proposal 14313 of the Go project: UTF-8; fields set apart by white space as unicode.IsSpace has it; an even number of them,
    at least four; the first begins with Benchmark and goes on in upper case, or ends; the second counts iterations; then
    pairs of a number that strconv.ParseFloat reads, and a unit.
    """
    try:
        line.encode()
    except UnicodeEncodeError:
        return "UTF-8"
    for space in SPACES[1:]:
        line = line.replace(space, "\t") if space != "\n" else line
    if "\n" in line:
        return "one line"
    fields = [field for field in line.split("\t") if field]
    if len(fields) % 2 or len(fields) < 4:
        return "an even number of fields, at least four"
    name = fields[0].removeprefix("Benchmark")
    if name == fields[0] or unicodedata.category(name[:1] or "A") == "Ll":
        return "Benchmark and no lower case"
    if not (fields[1].isascii() and fields[1].isdigit() and int(fields[1]) < 2**63):
        return "iterations"
    for text in fields[2::2]:
        digits = text.lstrip("+-").replace("e+", "").replace("e-", "").replace("e", "").replace(".", "", 1)
        if not (digits.isascii() and digits.isdigit()):
            return "a number"
    return ""


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("BenchmarkA 1 5 ns/op", ""),
        ("Benchmark 1 5 ns/op", ""),
        ("Benchmarka 1 5 ns/op", "Benchmark and no lower case"),
        ("Bench 1 5 ns/op", "Benchmark and no lower case"),
        ("BenchmarkA 1 5", "an even number of fields, at least four"),
        ("BenchmarkA\u20281 5 ns/op 6", "an even number of fields, at least four"),
        ("BenchmarkA x 5 ns/op", "iterations"),
        ("BenchmarkA 1 nan ns/op", "a number"),
        ("BenchmarkA 1 5 ns/op\n", "one line"),
        ("Benchmark\ud800 1 5 ns/op", "UTF-8"),
    ],
)
def test_the_rules_themselves(line: str, rule: str) -> None:
    assert broken_rule(line) == rule


@settings(max_examples=300)
@given(NAME, st.integers(1, 10**18 - 1), VALUES)
def test_every_line_that_is_written_follows_the_published_rules(
    name: str, iterations: int, values: list[tuple[float, str]]
) -> None:
    """Over all names, counts and values that the format can hold, a written line breaks no rule and is read back whole."""
    line = format_record(Record(name, iterations, tuple(values), 1))
    assert broken_rule(line) == ""
    (read,) = parse(line.encode() + b"\n").records
    assert (read.name, read.iterations, list(read.values)) == (name, iterations, values)


def benchstat(folder: Path, text: bytes) -> list[list[str]]:
    """The rows of benchstat's table, as it writes them for programs; without a word on stderr but of too few samples."""
    assert BENCHSTAT
    (folder / "log.txt").write_bytes(text)
    argv = [BENCHSTAT, "-format", "csv", "-row", ".fullname", "-table", "", "log.txt"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    odd = [line for line in done.stderr.splitlines() if line and "samples" not in line]
    assert odd == []
    return list(csv.reader(io.StringIO(done.stdout)))


needs_benchstat = pytest.mark.skipif(BENCHSTAT is None, reason="benchstat is neither on PATH nor in ~/go/bin")


@needs_benchstat
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.from_regex(r"[A-Z][\w%=,/#+.-]{0,20}", fullmatch=True), min_size=1, max_size=5, unique=True),
    st.floats(1e-3, 1e9),
)
def test_benchstat_reads_what_is_written(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], value: float
) -> None:
    """Every name and value that the writer writes is in benchstat's table."""
    lines = [format_record(Record(name, 100, ((value, "x/op"),), 1)) for name in names]
    rows = benchstat(tmp_path_factory.mktemp("benchstat"), "\n".join([*lines, ""]).encode())
    found = {row[0]: float(row[1]) for row in rows if len(row) > 1 and row[0] in names}
    assert found == {name: pytest.approx(value, rel=1e-6) for name in names}


@needs_benchstat
def test_benchstat_reads_the_raw_logs_of_the_bundled_campaign(tmp_path: Path) -> None:
    """One raw log of each case, as its harness wrote it: benchstat finds the results that this reader finds."""
    cases = sorted(path for path in CAMPAIGN.glob("runs/*/*") if path.is_dir())
    for case in cases:
        text = sorted(case.glob("*/stdout.txt"))[0].read_bytes()
        names = {record.name for record in parse(text).records}
        assert names
        assert names <= {row[0] for row in benchstat(tmp_path, text) if row}
