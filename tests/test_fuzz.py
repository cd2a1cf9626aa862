"""The reader of raw logs under damage: mutations of real logs, and inputs that a careless reader would take hours for."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner import adoptgo
from runner.benchfmt import parse
from tests.fuzz_benchfmt import CORPUS, MUTATIONS, campaign, check, mutate


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(CORPUS), st.randoms(use_true_random=False))
def test_a_damaged_log_is_read_right_or_named(data: bytes, choose: random.Random) -> None:
    """Lines, words, bytes and encodings of real logs are damaged: no number that is not in the text, no result in silence."""
    check(mutate(data, choose))


@pytest.mark.parametrize("data", CORPUS, ids=range(len(CORPUS)))
def test_the_logs_themselves(data: bytes) -> None:
    check(data)


def test_every_kind_of_damage_changes_something() -> None:
    choose = random.Random(1)
    for kind in MUTATIONS:
        assert any(kind(data, choose) != data for data in CORPUS for _ in range(20))


@pytest.mark.slow
def test_a_minute_of_damaged_logs() -> None:
    """As long as `python -m tests.fuzz_benchfmt --minutes 1`, with a seed of its own."""
    assert campaign(minutes=1, seed=641) > 1_000


LONG: dict[str, Callable[[int], bytes]] = {
    "digits": lambda n: b" Benchmark 1 " + b"1" * n + b"\n",
    "spaces": lambda n: b" Benchmark" + b" " * n + b"\n",
    "spaces behind a count": lambda n: b" Benchmark 1" + b" " * n + b"\n",
    "benchmarks": lambda n: b" " + b"Benchmark" * (n // 9) + b"\n",
    "slashes": lambda n: b" 1 1 " + b"/" * n + b" \n",
    "a deep name": lambda n: (
        b"BenchmarkA" + b"/b" * (n // 2) + b" 1 5 ns/op\n--- FAIL: BenchmarkA" + b"/b" * (n // 2) + b"\n"
    ),
    "lone names": lambda n: b"".join(b"BenchmarkA%d\nBenchmarkB%d 1 5 ns/op\n" % (i, i) for i in range(n // 40)),
    "failures": lambda n: b"".join(b"--- FAIL: BenchmarkA%d\n" % i for i in range(n // 24)),
    "failures of parts": lambda n: b"BenchmarkA/b 1 5 ns/op\n" * (n // 46) + b"--- FAIL: BenchmarkA\n" * (n // 42),
    "results and failures": lambda n: b"".join(
        b"BenchmarkA/%d 1 5 ns/op\n--- FAIL: BenchmarkA\n" % i for i in range(n // 46)
    ),
    "panics": lambda n: b"".join(
        b"--- FAIL: BenchmarkA\nBenchmarkB%d 1 5 ns/op\npanic: x\n" % i for i in range(n // 60)
    ),
    "units": lambda n: b"BenchmarkA 1 " + b" ".join(b"1 u%d" % i for i in range(n // 9)) + b"\n",
    "keys": lambda n: b"".join(b"k%d: v\n" % i for i in range(n // 9)),
    "events": lambda n: b'{"Time":"' * (n // 9) + b'"Action":\n' + b'{"Action":"output"}\n' * (n // 20),
    "processes": lambda n: b"goos: x\nBenchmarkA 1 5 ns/op\nPASS\n" * (n // 34),
}


@pytest.mark.parametrize("kind", LONG)
def test_no_log_takes_quadratic_time(kind: str) -> None:
    """Ten times the log costs about ten times the calls of Python, and half a megabyte of it ends at all."""

    def calls(size: int) -> int:
        count = 0

        def counted(_frame: object, event: str, _argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        data = LONG[kind](size)
        sys.setprofile(counted)
        try:
            read(data)
        finally:
            sys.setprofile(None)
        return count

    assert calls(20_000) < 15 * calls(2_000) + 2_000
    read(LONG[kind](500_000))  # what a pattern's own search costs no call tells: it would not end in the time of a test


def read(data: bytes) -> None:
    parse(data)
    if not data.startswith(b"{"):
        adoptgo.read(data, "a.txt")
