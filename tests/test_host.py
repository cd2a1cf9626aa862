"""The host: lists of CPUs, groups on made-up machines, shares of time, checks that hold and that do not."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import host
from runner.host import (
    busy_share,
    checks_of,
    cpu_groups,
    cpus_beyond,
    differences,
    format_cpus,
    parse_cpus,
    steal_share,
)
from runner.plan import CpuGroups
from tests.small import plan

LIMITS = plan().rules.checks


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0", (0,)), ("0-1,4", (0, 1, 4)), ("4,0-1", (0, 1, 4)), ("7-7", (7,)), ("0-3,2-5", (0, 1, 2, 3, 4, 5))],
)
def test_lists_of_cpus(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize(
    ("cpus", "text"), [([], ""), ([3], "3"), ([1, 0, 4], "0-1,4"), ([2, 2, 1], "1-2"), ([0, 2, 4, 5, 6], "0,2,4-6")]
)
def test_the_shortest_list(cpus: list[int], text: str) -> None:
    assert format_cpus(cpus) == text


@given(st.sets(st.integers(0, 300), min_size=1))
def test_lists_round_trip(cpus: set[int]) -> None:
    assert parse_cpus(format_cpus(cpus)) == tuple(sorted(cpus))


def machine(cores: int, threads: int = 1, stride: int | None = None) -> list[tuple[int, ...]]:
    """Sibling sets as `siblings` gives them, one for each CPU: neighbours, or CPUs `stride` apart."""
    if stride:
        sets = [tuple(core + stride * thread for thread in range(threads)) for core in range(cores)]
    else:
        sets = [tuple(range(core * threads, (core + 1) * threads)) for core in range(cores)]
    return [siblings for siblings in sets for _ in siblings]


@pytest.mark.parametrize(
    ("siblings", "housekeeping", "server", "client"),
    [
        (machine(1), "0", "0", "0"),
        (machine(2), "0", "0", "1"),
        (machine(1, 2), "0", "0", "1"),  # two threads of one core: apart, though they share it
        (machine(3), "0", "1", "2"),
        (machine(4), "0", "1", "2-3"),
        (machine(2, 2), "0-1", "0-1", "2-3"),
        (machine(4, 2), "0-1", "2-3", "4-7"),
        (machine(4, 2, stride=4), "0,4", "1,5", "2-3,6-7"),
        (machine(8), "0", "1-3", "4-7"),
        (machine(16), "0-1", "2-7", "8-15"),  # the 16-vCPU host of the user's campaign, whether its
        (machine(8, 2), "0-1", "2-7", "8-15"),  # CPUs are cores or threads
        (machine(8, 2, stride=8), "0,8", "1-3,9-11", "4-7,12-15"),
        (machine(64, 2), "0-15", "16-63", "64-127"),
        ([(5,), (9,)], "5", "5", "9"),  # what a container gives
    ],
)
def test_cpu_groups(siblings: list[tuple[int, ...]], housekeeping: str, server: str, client: str) -> None:
    assert cpu_groups(siblings) == CpuGroups(housekeeping=housekeeping, server=server, client=client)


@given(st.integers(2, 40), st.integers(1, 4), st.booleans())
def test_no_core_is_split_and_none_is_left_out(cores: int, threads: int, far: bool) -> None:
    siblings = machine(cores, threads, stride=cores if far else None)
    groups = [set(parse_cpus(cpus)) for cpus in cpu_groups(siblings).model_dump().values()]
    assert set().union(*groups) == {cpu for core in siblings for cpu in core}
    assert all(not core & group or core <= group for core in map(set, siblings) for group in groups)
    assert not groups[2] & (groups[0] | groups[1])
    assert groups[0] == groups[1] if cores == 2 else not groups[0] & groups[1]
    assert len(groups[2]) == cores // 2 * threads


def ticks(user: int = 0, idle: int = 0, iowait: int = 0, steal: int = 0) -> list[int]:
    return [1000 + user, 2000, 3000, 4000 + idle, 5000 + iowait, 6000, 7000, 8000 + steal]


def test_busy_share() -> None:
    before = {"0": ticks(), "1": ticks(), "2": ticks()}
    after = {"0": ticks(user=25, idle=75), "1": ticks(idle=50, iowait=50), "2": ticks(user=100)}
    assert busy_share(before, after, [0]) == 0.25
    assert busy_share(before, after, [1]) == 0
    assert busy_share(before, after, [2]) == 1
    assert busy_share(before, after, [0, 1]) == pytest.approx(0.125)
    assert busy_share(before, after, (0, 1, 2)) == pytest.approx(125 / 300)
    assert busy_share({"0": ticks()}, {"0": ticks(steal=10, idle=30)}, [0]) == 0.25  # stolen time is not idle


def test_steal_share() -> None:
    before = {"0": ticks(), "1": ticks()}
    after = {"0": ticks(user=90, steal=10), "1": ticks(idle=100)}
    assert steal_share(before, after) == 0.05
    assert steal_share(before, {"0": ticks(user=50)}) == 0
    assert steal_share({"0": ticks()}, {"0": ticks(steal=5)}) == 1


def test_a_share_of_no_time_is_unknown_and_not_zero() -> None:
    still = {"0": ticks(), "1": ticks()}
    assert busy_share(still, still, [0, 1]) is None
    assert busy_share(still, still | {"1": ticks(idle=1)}, [0]) is None
    assert steal_share(still, still) is None
    assert steal_share({}, {}) is None
    assert found(later(cpu_ticks=COUNTERS["cpu_ticks"]))["steal_share"] == (None, None)


@pytest.mark.parametrize(
    ("planned", "allowed", "beyond"),
    [("1", "1", 0), ("2-3", "3", 0), ("1", "0-1", 1), ("1", "0-7", 7), ("0-1", "2", 1), ("1", "unknown", None)],
)
def test_cpus_beyond_the_plan(planned: str, allowed: str, beyond: int | None) -> None:
    assert cpus_beyond(planned, allowed) == beyond


COUNTERS: dict[str, Any] = {
    "cpu_ticks": {"0": ticks()},
    "swap_pages": 5,
    "oom_kills": 1,
    "throttled_periods": 3,
}


def later(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(COUNTERS) | {"cpu_ticks": {"0": ticks(user=98, steal=2)}} | changes


def found(after: dict[str, Any], loops: tuple[list[int], list[int]] = ([100], [100]), **before: Any) -> dict[str, Any]:
    checks = checks_of(LIMITS, COUNTERS | before, after, loops, 100.0)
    assert [set(entry) for entry in checks] == [{"check", "value", "limit", "holds"}] * 5
    assert [entry["limit"] for entry in checks] == [1.25, 0.02, 0, 0, 0]
    return {entry["check"]: (entry["value"], entry["holds"]) for entry in checks}


def test_checks_at_their_limits_hold() -> None:
    assert found(later(), ([90, 125, 900], [100])) == {
        "calibration_ratio": (1.25, True),
        "steal_share": (0.02, True),
        "swap_pages": (0, True),
        "oom_kills": (0, True),
        "throttled_periods": (0, True),
    }


@pytest.mark.parametrize(
    ("check", "value", "after", "loops"),
    [
        ("calibration_ratio", 1.26, later(), ([100], [126])),
        ("calibration_ratio", 1.26, later(), ([126], [100])),
        ("calibration_ratio", 1.5, later(), ([100, 150, 160], [100])),
        ("steal_share", 0.03, later(cpu_ticks={"0": ticks(user=97, steal=3)}), ([100], [100])),
        ("swap_pages", 2, later(swap_pages=7), ([100], [100])),
        ("oom_kills", 1, later(oom_kills=2), ([100], [100])),
        ("throttled_periods", 4, later(throttled_periods=7), ([100], [100])),
    ],
)
def test_each_check_that_does_not_hold(check: str, value: float, after: dict[str, Any], loops: Any) -> None:
    checks = found(after, loops)
    assert checks.pop(check) == (value, False)
    assert all(holds is True for _, holds in checks.values())


def test_a_check_just_over_its_limit_does_not_hold_though_it_is_shown_rounded() -> None:
    assert found(later(), ([100], [125.001]))["calibration_ratio"] == (1.25, False)  # type: ignore[arg-type, list-item]


@pytest.mark.parametrize("key", ["oom_kills", "throttled_periods"])
def test_what_the_host_does_not_expose_is_unknown_and_not_zero(key: str) -> None:
    assert found(later(**{key: None}))[key] == (None, None)
    assert found(later(), **{key: None})[key] == (None, None)


def test_differences_name_the_key() -> None:
    sealed = {"kernel": "6.1", "cpus": "0-1", "gone": 1}
    assert differences(sealed, dict(sealed)) == []
    assert differences(sealed, {"kernel": "6.2", "cpus": "0-1", "more": None, "gone": 1}) == [
        "kernel: sealed '6.1', found '6.2'"
    ]
    assert differences(sealed, {"kernel": "6.1", "cpus": "0-1"}) == ["gone: sealed 1, found None"]
    assert differences(sealed, sealed | {"more": 2}) == ["more: sealed None, found 2"]


def test_what_is_observed_here() -> None:
    """The host's identity is the same twice, and one campaign's does not name the machine to another."""
    one, again, other = host.observe("one"), host.observe("one"), host.observe("other")
    assert differences(one["identity"], again["identity"]) == []
    assert differences(one["identity"], other["identity"]) in (
        [],
        [f"machine: sealed {one['identity']['machine']!r}, found {other['identity']['machine']!r}"],
    )
    counters = host.counters()
    assert all(len(fields) == 8 for fields in counters["cpu_ticks"].values())
    time.sleep(0.1)
    share = busy_share(counters["cpu_ticks"], host.counters()["cpu_ticks"], [min(map(int, counters["cpu_ticks"]))])
    assert share is not None
    assert 0 <= share <= 1
    loops = host.calibrate([min(host.os.sched_getaffinity(0))])
    assert len(loops) == host.CALIBRATION_ROUNDS
    assert min(loops) > 0
