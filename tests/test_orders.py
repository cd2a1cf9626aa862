"""Orders: the designs of the tables, the searched ones, their expansion, and the drift that they leave in."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.orders import (
    TABLES,
    Design,
    cast,
    design,
    design_bias,
    drift_bias,
    expand,
    expand_phase,
    linear,
    quadratic,
    residual_bias,
)
from tests.small import golden, phase, plan


def words(found: Design) -> str:
    return " ".join("".join("ABCDEFGHIJK"[arm] for arm in block) for block in found)


@pytest.mark.parametrize(
    ("arms", "blocks", "text", "curved"),
    [
        (3, 6, "ABC BCA CAB CBA ACB BAC", 0.0),
        (2, 6, "AB BA BA AB AB BA", 0.022),
        (2, 8, "AB BA BA AB BA AB AB BA", 0.0),
        (4, 8, "ACBD CDAB DBCA BADC BADC DBCA CDAB ACBD", 0.0),
        (4, 6, "DCBA BADC ACBD CDAB ABCD DBCA", 0.015),
    ],
)
def test_tabled_designs_and_their_bias(arms: int, blocks: int, text: str, curved: float) -> None:
    found = design(arms, blocks)
    assert words(found) == text
    assert design_bias(found, linear) == pytest.approx(0, abs=1e-12)
    assert round(design_bias(found, quadratic), 3) == curved
    # By hand: the mean of 4(x - 1/2)^2 over the places of each arm.
    order = text.replace(" ", "")
    means = [
        sum(4 * (i / (len(order) - 1) - 0.5) ** 2 for i, one in enumerate(order) if one == arm) / blocks
        for arm in sorted(set(order))
    ]
    assert design_bias(found, quadratic) == pytest.approx(max(means) - min(means), abs=1e-12)


def test_of_720_orders_of_the_six_permutations_24_have_no_quadratic_bias() -> None:
    """statistics.md's reason why blocks are not shuffled."""
    orders = itertools.permutations(itertools.permutations(range(3)))
    assert sum(design_bias(order, quadratic) < 1e-12 for order in orders) == 24


def test_bias_by_closed_form() -> None:
    assert drift_bias([[0, 1], [0.5, 0.5]], linear) == 0
    assert drift_bias([[0, 1], [0.5, 0.5]], quadratic) == 1
    assert drift_bias([[0.25], [0.5], [0.75]], linear) == 0.5
    assert design_bias(((0, 1), (0, 1)), linear) == pytest.approx(1 / 3)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 7), st.integers(2, 40))
def test_every_arm_once_in_every_block(arms: int, blocks: int) -> None:
    found = design(arms, blocks)
    assert len(found) == blocks
    assert all(sorted(block) == list(range(arms)) for block in found)
    possible = arms % 2 == 1 or blocks % 2 == 0
    if possible:
        assert design_bias(found, linear) == pytest.approx(0, abs=1e-9)
    else:  # sums of positions are whole numbers, and their mean is not: they differ by 1 at least
        assert design_bias(found, linear) >= 1 / blocks / (arms * blocks - 1) - 1e-9


@pytest.mark.parametrize(("arms", "blocks"), [(2, 1000), (3, 12), (3, 999), (4, 24), (5, 100), (11, 500)])
def test_long_designs_have_little_bias(arms: int, blocks: int) -> None:
    found = design(arms, blocks)
    assert design_bias(found, linear) == pytest.approx(0, abs=1e-9)
    assert design_bias(found, quadratic) < 0.005
    counts = Counter((arm, position) for block in found for position, arm in enumerate(block))
    assert max(counts.values()) <= 1.2 * min(counts.values()) + 4


def test_searched_designs_stay_what_they_are() -> None:
    """A changed search would change sealed campaigns' orders when they are expanded again."""
    sizes = [(2, 4), (2, 5), (2, 12), (3, 2), (3, 3), (3, 4), (3, 8), (3, 12), (4, 4), (4, 5), (5, 5), (6, 6), (7, 3)]
    golden("designs.txt", "".join(f"{arms} {blocks}: {words(design(arms, blocks))}\n" for arms, blocks in sizes))


def test_the_expansion_of_the_small_plan() -> None:
    lines = [f"{x.sequence} {x.phase} {x.case} block {x.block} place {x.position}: {x.arm}" for x in expand(plan())]
    golden("small_orders.txt", "\n".join(lines) + "\n")


def test_the_same_in_every_process() -> None:
    code = (
        "import json; from dataclasses import asdict; from runner.orders import expand; from tests.small import plan;"
        "print(json.dumps([asdict(labels) for labels in expand(plan())]))"
    )
    expected = json.loads(json.dumps([asdict(labels) for labels in expand(plan())]))
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        assert json.loads(done.stdout) == expected


def test_block_major_and_consecutive() -> None:
    found = expand(plan())
    assert [labels.sequence for labels in found] == list(range(len(found)))
    phases = plan().phases
    at = 0
    for identifier, part in phases.items():
        for block in range(1, part.blocks + 1):
            for case in part.cases:
                runs = found[at : at + len(part.arms)]
                assert {(x.phase, x.case, x.block) for x in runs} == {(identifier, case.name, block)}
                assert [x.position for x in runs] == list(range(len(part.arms)))
                assert sorted(x.arm for x in runs) == sorted(arm.name for arm in part.arms)
                at += len(part.arms)
    assert at == len(found)


def test_the_seed_decides_who_plays_which_part() -> None:
    arms = ["base", "on", "off"]
    assert sorted(cast(1, "B", "Save", arms)) == sorted(arms)
    assert cast(1, "B", "Save", arms) == cast(1, "B", "Save", arms[::-1])
    casts = {cast(seed, "B", "Save", arms) for seed in range(60)}
    assert len(casts) == 6
    assert len({cast(1, "B", case, arms) for case in map(str, range(60))}) == 6
    assert len({cast(1, name, "Save", arms) for name in map(str, range(60))}) == 6
    many = Counter(cast(seed, "B", "Save", arms)[0] for seed in range(3000))
    assert all(900 < count < 1100 for count in many.values())
    # Parts are not run together: (1, "B", "xy") and (1, "Bx", "y") are different questions.
    assert any(cast(s, "B", "xy", arms) != cast(s, "Bx", "y", arms) for s in range(10))


def test_a_changed_seed_changes_the_orders() -> None:
    before = phase("B")
    after = before.model_copy(update={"order_seed": before.order_seed + 1})
    assert expand_phase("B", before, 0) != expand_phase("B", after, 0)


@pytest.mark.parametrize(("arms", "blocks"), sorted(TABLES))
def test_residual_bias_as_scheduled(arms: int, blocks: int) -> None:
    """Linear drift cancels for every case, although its runs are spread among those of other cases."""
    base = phase("B")
    made = [base.arms[0].model_copy(update={"name": f"arm{i}"}) for i in range(arms)]
    labels = expand_phase("B", base.model_copy(update={"arms": tuple(made), "blocks": blocks}), 17)
    straight = residual_bias(labels, linear)
    assert list(straight) == [case.name for case in base.cases]
    assert straight == pytest.approx(dict.fromkeys(straight, 0), abs=1e-12)
    curved = residual_bias(labels, quadratic)
    assert max(curved.values()) < 0.06
    # By hand, for one case.
    places: dict[str, list[float]] = {}
    for i, label in enumerate(labels):
        if label.case == "Save":
            places.setdefault(label.arm, []).append(4 * (i / (len(labels) - 1) - 0.5) ** 2)
    means = [sum(values) / len(values) for values in places.values()]
    assert curved["Save"] == pytest.approx(max(means) - min(means), abs=1e-12)
