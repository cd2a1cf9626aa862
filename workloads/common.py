"""What the harnesses share: payloads, digests, parameters, timed loops, allocations, and how a process begins and ends.

A harness is one file beside this one. It measures one case in one process and writes the Go benchmark text format to
stdout. PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE name the server. Exit status: 0 done, 1 error, 2 wrong use, 3 wrong
answer.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib.machinery
import json
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]  # one record with all that belongs to it: what is compared
Parameters = Mapping[str, Any]
Operation = Callable[[int], Sequence[Any]]  # operation n returns the records that it read

CONNECTION = ("PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE")
WRONG_USE, WRONG_ANSWER = 2, 3  # exit statuses


class UsageError(Exception):
    """The command line, the parameters or the environment are not what the case needs."""


class WrongAnswerError(Exception):
    """The database holds, or the code under test returned, something else than the payload seed says."""


# ---- payloads and digests


def stream(seed: int, label: str, number: int, size: int) -> bytes:
    """Incompressible bytes that depend on nothing but the arguments, whatever the Python version."""
    return hashlib.shake_256(f"{seed}/{label}/{number}".encode()).digest(size)


def prices(seed: int, count: int) -> list[int]:
    """One price per id: all different, so that index order is total, and unrelated to the id."""
    by_id = [0] * count
    for rank, number in enumerate(sorted(range(count), key=lambda n: stream(seed, "price", n, 8))):
        by_id[number] = 1000 + 3 * rank
    return by_id


def digest(rows: Iterable[Row]) -> str:
    """SHA-256 over rows in their order; types and lengths are part of it, so no two lists look alike."""
    sha = hashlib.sha256()
    for row in rows:
        sha.update(b"row %d\n" % len(row))
        for field in row:
            data = field if isinstance(field, bytes) else repr(field).encode()
            sha.update(b"%s %d:" % (type(field).__name__.encode(), len(data)))
            sha.update(data)
    return sha.hexdigest()


def require_equal(what: str, expected: Sequence[Row], found: Sequence[Row]) -> None:
    """Compare by count and by digest in order; details of the first difference go to stderr."""
    summaries = [f"{len(rows)} records sha256 {digest(rows)}" for rows in (expected, found)]
    if summaries[0] == summaries[1]:
        return
    pairs = enumerate(zip(expected, found, strict=False))
    n = next((n for n, (left, right) in pairs if left != right), min(len(expected), len(found)))
    for side, rows in (("expected", expected), ("found", found)):
        print(f"{what}: first difference at record {n}: {side} {str(rows[n : n + 1])[:1000]}", file=sys.stderr)
    raise WrongAnswerError(f"{what}: expected {summaries[0]}, found {summaries[1]}")


# ---- parameters


@dataclass(frozen=True)
class Kind:
    """What a parameter's value must be."""

    expected: str
    holds: Callable[[Any], bool]


def whole(least: int) -> Kind:
    """A whole number."""
    return Kind(f"a whole number, at least {least}", lambda value: type(value) is int and value >= least)


def seconds(least: float) -> Kind:
    """Seconds, whole or not."""
    return Kind(f"seconds, at least {least}", lambda value: type(value) in (int, float) and value >= least)


def word(*known: str) -> Kind:
    """One of some words."""
    return Kind(f"one of {', '.join(known)}", lambda value: value in known)


FLAG = Kind("true or false", lambda value: isinstance(value, bool))
SLOPE = Kind(
    "two whole numbers [a, b] with 0 < a < b",
    lambda value: isinstance(value, list) and [type(item) for item in value] == [int, int] and 0 < value[0] < value[1],
)


def read_object(where: str, option: str, text: str, wanted: Mapping[str, Kind], optional: Parameters) -> dict[str, Any]:
    """A JSON object from the command line; everything missing, unknown or impossible is named at once.

    `optional` gives the values of those of `wanted` that may be left out. Raises UsageError.
    """
    kind = {"--switches": "switch", "--parameters": "parameter"}[option]
    try:
        given = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{option} is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise UsageError(f"{option} is not a JSON object")
    problems = [f"missing {kind} {name}" for name in wanted if name not in given and name not in optional]
    for name, value in given.items():
        if name not in wanted:
            problems.append(f"unknown {kind} {name}")
        elif not wanted[name].holds(value):
            problems.append(f"{kind} {name}: expected {wanted[name].expected}, found {json.dumps(value)}")
    if problems:
        raise UsageError("\n".join(f"{where}: {problem}" for problem in problems))
    return {**optional, **given}


# ---- timed loops


def time_operations(operation: Operation, operations: int) -> int:
    """Nanoseconds that operations 0 to operations-1 took."""
    start = time.perf_counter_ns()
    for n in range(operations):
        operation(n)
    return time.perf_counter_ns() - start


def time_reads(
    operation: Operation, count: Callable[[Sequence[Any]], int], duration_s: float, keep: int
) -> tuple[int, int, int, deque[Any]]:
    """Read for a set duration: operations, nanoseconds, records, and the last results with their n.

    Timed, for every arm alike: the operation, keeping its result (which frees an older one) and one reading
    of the clock. Not timed: counting the records of the result, longer the more there are. An operation that
    has begun is finished and counted with all its time.
    """
    kept: deque[Any] = deque(maxlen=keep)
    n = records = elapsed = 0
    limit = round(duration_s * 1e9)
    while elapsed < limit:
        start = time.perf_counter_ns()
        result = operation(n)
        kept.append((n, result))
        elapsed += time.perf_counter_ns() - start
        records += count(result)
        n += 1
    return n, elapsed, records, kept


# ---- allocations


def count_allocations(operation: Operation, operations: int, folder: str) -> tuple[int, int]:
    """Bytes and number of allocations, by Python's and C's allocators, of operations 0 to operations-1."""
    import memray  # only now: it must not be in the process while anything is timed

    kinds, path = memray.AllocatorType, os.path.join(folder, f"{operations}.bin")
    frees = {kinds.FREE, kinds.PYMALLOC_FREE, kinds.MUNMAP}
    gc.collect()
    gc.disable()  # a collection would fall into one of the two passes and not into the other
    try:
        with memray.Tracker(path, trace_python_allocators=True):
            time_operations(operation, operations)
    finally:
        gc.enable()
    size = number = 0
    with memray.FileReader(path) as reader:
        for record in reader.get_allocation_records():
            if record.allocator not in frees:
                size += record.size
                number += record.n_allocations
    return size, number


def measure_allocations(
    operation: Operation, few: int, many: int, clear: Callable[[], None], check: Callable[[int], None]
) -> tuple[float, float]:
    """Bytes and allocations per operation: the slope between two counts, in which constants cancel.

    One of the constants is that a collection empties Python's free lists and the first operation
    after it fills them again: hence at least one operation in the smaller count. `clear` restores the state
    before each pass; `check` looks at it after so many operations.
    """
    clear()
    time_operations(operation, many)  # lazy imports and caches must not count
    totals = []
    with tempfile.TemporaryDirectory() as folder:
        for operations in (few, many):
            clear()
            totals.append(count_allocations(operation, operations, folder))
            check(operations)
    size, number = (high - low for low, high in zip(*totals, strict=True))
    return size / (many - few), number / (many - few)


# ---- the process


def say(name: str, value: object) -> None:
    """Write one configuration line."""
    print(f"{name}: {value}", flush=True)


def check_compiled(names: Iterable[str]) -> None:
    """Require that each module is loaded and comes from an extension file, not from Python source."""
    for name in names:
        module = sys.modules.get(name)
        found = "not loaded" if module is None else os.path.basename(getattr(module, "__file__", None) or "no file")
        if not found.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            raise ImportError(f"module {name}: expected an extension file, found {found}")


def options_parser(program: str, cases: Iterable[str]) -> argparse.ArgumentParser:
    """The options that every harness has."""
    parser = argparse.ArgumentParser(prog=program, description="One case, one process, Go benchmark format.")
    parser.add_argument("--case", required=True, choices=list(cases))
    parser.add_argument("--repeats", required=True, type=int)
    parser.add_argument("--compiled", default="", help="modules that must come from extension files, comma-separated")
    parser.add_argument("--switches", default="{}", help="what this arm does differently: a JSON object")
    parser.add_argument("--parameters", required=True, help="a JSON object")
    return parser


def require_environment(names: Iterable[str] = CONNECTION) -> None:
    """Raise UsageError when the environment does not name the server."""
    if missing := [name for name in names if name not in os.environ]:
        raise UsageError(f"missing in the environment: {', '.join(missing)}")


def run(parser: argparse.ArgumentParser, argv: Sequence[str], measure: Callable[[argparse.Namespace], None]) -> int:
    """Measure one case; wrong use (argparse's too) and wrong answers become exit statuses, anything else a traceback."""
    options = parser.parse_args(argv)
    try:
        if options.repeats < 1:
            raise UsageError(f"--repeats: expected at least 1, found {options.repeats}")
        measure(options)
    except UsageError as error:
        print(error, file=sys.stderr)
        return WRONG_USE
    except WrongAnswerError as error:
        print(f"--- FAIL: Benchmark{options.case}\n    {error}", flush=True)
        return WRONG_ANSWER
    return 0
