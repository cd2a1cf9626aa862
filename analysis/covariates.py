"""What varied without being planned: covariates declared constant that differ between the arms of a block. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from analysis.model import Estimate
from runner.plan import Phase
from runner.store import Labels

Record = Mapping[str, Any]
Places = dict[int, tuple[str, str]]  # block -> what the numerator's run recorded, and the denominator's
Differences = dict[tuple[str, int], dict[str, dict[str, str]]]  # (case, block) -> covariate -> arm -> value


def unplanned_differences(phase: Phase, runs: Mapping[Labels, Record]) -> Differences:
    """For each (case, block): covariates declared constant that differ between its good runs, with each arm's value."""
    blocks: dict[tuple[str, int], dict[str, Record]] = defaultdict(dict)
    for labels, record in runs.items():
        if record["outcome"] == "ok":
            blocks[labels.case, labels.block][labels.arm] = record
    found: Differences = {}
    for key, arms in blocks.items():
        for covariate in phase.covariates:
            values = {arm: str(record["covariates"].get(covariate.name)) for arm, record in arms.items()}
            if covariate.expected == "constant" and len(set(values.values())) > 1:
                found.setdefault(key, {})[covariate.name] = values
    return found


def between(case: str, numerator: str, denominator: str, differences: Differences) -> dict[str, Places]:
    """The covariates that differ between two arms of a case, each with its blocks and both arms' values."""
    found: dict[str, Places] = defaultdict(dict)
    for (name, block), covariates in sorted(differences.items()):
        for covariate, values in covariates.items():
            one, other = values.get(numerator), values.get(denominator)
            if name == case and one is not None and other is not None and one != other:
                found[covariate][block] = (one, other)
    return dict(found)


def difference_words(covariate: str, estimate: Estimate, places: Places) -> str:
    """Covariate, blocks, and the value in each arm's run, as a sentence."""
    arms = estimate.numerator, estimate.denominator
    told = [f"block {block} ({arms[0]} {one}, {arms[1]} {other})" for block, (one, other) in places.items()]
    return f"Covariate {covariate}, declared constant, differs in {', '.join(told)}."


def recorded(phase: Phase, runs: Mapping[Labels, Record]) -> dict[str, dict[str, tuple[str, ...]]]:
    """For each covariate, in plan order, each arm's different values over all its good runs, in the order of `runs`.

    A covariate that no good run recorded has no arm.
    """
    found: dict[str, dict[str, tuple[str, ...]]] = {covariate.name: {} for covariate in phase.covariates}
    good = [(labels.arm, run) for labels, run in runs.items() if run["outcome"] == "ok"]
    for name, arms in found.items():
        for arm, record in good:
            value = record["covariates"].get(name)
            if value is not None and str(value) not in arms.get(arm, ()):
                arms[arm] = (*arms.get(arm, ()), str(value))
    return found
