"""Counterbalanced orders: which arm runs at which place of which block. Pure functions.

A design is a tuple of blocks, each a permutation of arm numbers. The tables below have no linear drift bias
between any pair of arms and little or no quadratic bias; other sizes are searched for by the same criterion, with
positions spread as evenly as they can be. The seed decides only which arm plays which number, case by case: of all the
orders of the six permutations of three arms only a few are free of quadratic bias, so the blocks of a design are
not shuffled.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner.plan import Phase, Plan

Design = tuple[tuple[int, ...], ...]
LONGEST_SEARCHED = 16  # blocks; longer designs are put together


@dataclass(frozen=True)
class Labels:
    """What a run is: one value, taken from the plan's expansion and passed on whole, never rebuilt from parts."""

    phase: str
    case: str
    arm: str
    block: int  # from 1; replacement blocks continue after the planned ones
    position: int  # of the run inside its block, from 0
    sequence: int  # of the run inside the campaign, from 0

    def __str__(self) -> str:
        return f"phase {self.phase}, case {self.case}, block {self.block}, arm {self.arm}"


def _blocks(text: str) -> Design:
    return tuple(tuple("ABCD".index(letter) for letter in word) for word in text.split())


TABLES: dict[tuple[int, int], Design] = {
    (2, 6): _blocks("AB BA BA AB AB BA"),
    (2, 8): _blocks("AB BA BA AB BA AB AB BA"),
    (3, 6): _blocks("ABC BCA CAB CBA ACB BAC"),
    (4, 6): _blocks("DCBA BADC ACBD CDAB ABCD DBCA"),
    (4, 8): _blocks("ACBD CDAB DBCA BADC BADC DBCA CDAB ACBD"),
}


def linear(x: float) -> float:
    """A drift of 1 over the campaign."""
    return x


def quadratic(x: float) -> float:
    """A drift that goes from 1 to 0 and back."""
    return 4 * (x - 0.5) ** 2


def drift_bias(places: Sequence[Sequence[float]], drift: Callable[[float], float]) -> float:
    """Largest difference between two arms' mean drift, for the times (0 to 1) at which each arm ran."""
    means = [sum(map(drift, times)) / len(times) for times in places]
    return max(means) - min(means)


def design_bias(design: Design, drift: Callable[[float], float]) -> float:
    """Bias of the worst pair of arms of a design; time is 0 at the first run and 1 at the last."""
    arms = len(design[0])
    places: list[list[float]] = [[] for _ in range(arms)]
    for number, block in enumerate(design):
        for position, arm in enumerate(block):
            places[arm].append((number * arms + position) / (len(design) * arms - 1))
    return drift_bias(places, drift)


def design(arms: int, blocks: int) -> Design:
    """The design for this many arms and blocks: from the table, else the best that a fixed search finds.

    Long designs are put together from shorter ones: parts without linear bias have none together either.
    """
    if (arms, blocks) in TABLES:
        return TABLES[arms, blocks]
    permutations = tuple(itertools.permutations(range(arms))) if arms <= 5 else _rotations(arms)
    if arms <= 5 and len(permutations) ** blocks <= 50_000:
        candidates = itertools.product(permutations, repeat=blocks)
        return min(candidates, key=_badness)
    parts = [size for count, size in TABLES if count == arms and blocks - size >= 2]
    part = max(parts, default=2 * arms)
    if blocks >= LONGEST_SEARCHED and blocks - part >= 2:
        times = max(1, (blocks - 6) // part)
        return design(arms, part) * times + design(arms, blocks - part * times)
    joined = [TABLES[arms, size] + design(arms, blocks - size) for size in parts]
    return min([_search(permutations, blocks), *joined], key=_badness)


def _rotations(arms: int) -> tuple[tuple[int, ...], ...]:
    ring = tuple(range(arms))
    turns = [ring[i:] + ring[:i] for i in range(arms)]
    return tuple(turns + [turn[::-1] for turn in turns])


def _badness(candidate: Design) -> tuple[float, float, Design]:
    """Linear bias first, then quadratic bias plus a tenth for each place an arm is favoured; ties by the design."""
    arms = len(candidate[0])
    straight, curved, counts = [0.0] * arms, [0.0] * arms, [0] * (arms * arms)
    last, time = len(candidate) * arms - 1, 0
    for block in candidate:
        for position, arm in enumerate(block):
            x = time / last
            straight[arm] += x
            curved[arm] += 4 * (x - 0.5) ** 2
            counts[arm * arms + position] += 1
            time += 1
    bend = (max(curved) - min(curved)) / len(candidate) + 0.1 * (max(counts) - min(counts))
    return round((max(straight) - min(straight)) / len(candidate), 9), round(bend, 9), candidate


def _search(permutations: tuple[tuple[int, ...], ...], blocks: int) -> Design:
    """Improve one block at a time from a few fixed starts; the same result on every machine."""
    generator = random.Random(blocks)  # noqa: S311 - a search that must find the same everywhere
    best: Design | None = None
    for start in range(8):
        current = [permutations[generator.randrange(len(permutations))] for _ in range(blocks)]
        if start == 0:
            current = _level(len(permutations[0]), blocks)
        score = _badness(tuple(current))
        improved = True
        while improved:
            improved = False
            for place in range(blocks):
                for permutation in permutations:
                    trial = (*current[:place], permutation, *current[place + 1 :])
                    if _badness(trial) < score:
                        current, score, improved = list(trial), _badness(trial), True
        if best is None or score < _badness(best):
            best = tuple(current)
    assert best is not None
    return best


def _level(arms: int, blocks: int) -> list[tuple[int, ...]]:
    """A start of the search with the same sum of positions for every arm, wherever there is one.

    Each pair of blocks is a ring and its reverse; an odd block more needs a triple, which only an odd number of arms
    has: with half = (arms - 1) / 2, arm a is at place a, at half - a/2 or 2 half - (a - 1)/2, and at what is
    missing to 3 half.
    """
    rings = _rotations(arms)
    pairs = [rings[turn % arms + half * arms] for turn in range(blocks // 2) for half in (0, 1)]
    if blocks % 2 == 0:
        return pairs
    half = (arms - 1) // 2
    second = [half - arm // 2 if arm % 2 == 0 else 2 * half - (arm - 1) // 2 for arm in range(arms)]
    third = [3 * half - arm - second[arm] for arm in range(arms)]
    if arms % 2 == 0:
        return [*pairs, rings[0]]
    return [*pairs[2:], *(tuple(sorted(range(arms), key=places.__getitem__)) for places in (rings[0], second, third))]


def cast(seed: int, phase: str, case: str, arms: Sequence[str]) -> tuple[str, ...]:
    """Which arm plays A, B, C, ...: sorted by a digest of seed, phase, case and arm; the same on every platform."""
    return tuple(
        sorted(arms, key=lambda arm: hashlib.sha256("\0".join((str(seed), phase, case, arm)).encode()).digest())
    )


def expand_phase(identifier: str, phase: Phase, first_sequence: int) -> list[Labels]:
    """Every run of a phase in order: block k of every case in plan order, then block k + 1."""
    plan_of_blocks = design(len(phase.arms), phase.blocks)
    roles = {
        case.name: cast(phase.order_seed, identifier, case.name, [arm.name for arm in phase.arms])
        for case in phase.cases
    }
    labels: list[Labels] = []
    for block, permutation in enumerate(plan_of_blocks, start=1):
        for case in phase.cases:
            for position, number in enumerate(permutation):
                labels.append(
                    Labels(
                        identifier, case.name, roles[case.name][number], block, position, first_sequence + len(labels)
                    )
                )
    return labels


def expand(plan: Plan) -> tuple[Labels, ...]:
    """Every run of a campaign in order, phase after phase."""
    labels: list[Labels] = []
    for identifier, phase in plan.phases.items():
        labels += expand_phase(identifier, phase, len(labels))
    return tuple(labels)


def residual_bias(labels: Sequence[Labels], drift: Callable[[float], float]) -> dict[str, float]:
    """Per case: the worst pair's bias under a drift of 1 over the phase, as the runs are really scheduled."""
    first, last = labels[0].sequence, labels[-1].sequence
    bias: dict[str, float] = {}
    for case in dict.fromkeys(label.case for label in labels):
        places: dict[str, list[float]] = {}
        for label in labels:
            if label.case == case:
                places.setdefault(label.arm, []).append((label.sequence - first) / (last - first))
        bias[case] = drift_bias(list(places.values()), drift)
    return bias
