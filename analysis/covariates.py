"""What varied without being planned: covariates declared constant that differ between the arms of a block. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from analysis.model import EstimateWarning
from runner.plan import Phase
from runner.store import Labels

Record = Mapping[str, Any]
Key = tuple[str, str, str]  # case, metric, contrast
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


def covariate_warnings(phase: Phase, differences: Differences) -> dict[Key, list[EstimateWarning]]:
    """The warning of every estimate between whose two arms such a covariate differs: covariate, blocks, values."""
    warnings: dict[Key, list[EstimateWarning]] = {}
    for case in phase.cases:
        for contrast in phase.contrasts:
            found = _warnings(case.name, contrast.numerator, contrast.denominator, differences)
            if found:
                for metric in phase.metrics_of(case.name):
                    warnings[case.name, metric.unit, contrast.name] = found
    return warnings


def _warnings(case: str, numerator: str, denominator: str, differences: Differences) -> list[EstimateWarning]:
    places: dict[str, list[str]] = defaultdict(list)
    for (name, block), covariates in sorted(differences.items()):
        for covariate, values in covariates.items():
            pair = values.get(numerator), values.get(denominator)
            if name == case and None not in pair and pair[0] != pair[1]:
                places[covariate].append(f"block {block} ({numerator} {pair[0]}, {denominator} {pair[1]})")
    return [
        EstimateWarning("covariate", f"Covariate {covariate}, declared constant, differs in {', '.join(told)}.")
        for covariate, told in places.items()
    ]


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
