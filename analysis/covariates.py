"""What varied without being planned: covariates that differ between the arms of a block, and checks that did not hold.

Both become warnings of the estimates that rest on the blocks concerned. Pure functions over runs' records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.model import EstimateWarning
from runner.plan import Phase
from runner.store import Labels

Record = Mapping[str, Any]
Key = tuple[str, str, str]  # case, metric, contrast


def failed_checks(
    runs: Mapping[Labels, Record], begun: Mapping[tuple[str, str, int], Record]
) -> dict[tuple[str, int], list[str]]:
    """For each (case, block): every check that did not hold, before the block or during one of its runs."""
    marks: dict[tuple[str, int], list[str]] = defaultdict(list)
    for (_, case, block), event in begun.items():
        if event["marked"]:
            marks[case, block].append(
                f"busy host before it (load {event['idle_load']:.2f}, "
                f"calibration {event['calibration_ratio']:.2f} of baseline)"
            )
    for labels, record in runs.items():
        for check in record.get("checks", ()):
            if check["holds"] is False:
                name = check["check"].replace("_", " ")
                marks[labels.case, labels.block].append(
                    f"{name} {check['value']:g} over {check['limit']:g} ({labels.arm})"
                )
    return dict(marks)


def unplanned_differences(
    phase: Phase, runs: Mapping[Labels, Record]
) -> dict[tuple[str, int], dict[str, dict[str, str]]]:
    """For each (case, block): covariates declared constant that differ between its runs, with the value of each arm."""
    blocks: dict[tuple[str, int], dict[str, Record]] = defaultdict(dict)
    for labels, record in runs.items():
        if record["outcome"] == "ok":
            blocks[labels.case, labels.block][labels.arm] = record
    found: dict[tuple[str, int], dict[str, dict[str, str]]] = {}
    for key, arms in blocks.items():
        for covariate in phase.covariates:
            values = {arm: str(record["covariates"].get(covariate.name)) for arm, record in arms.items()}
            if covariate.expected == "constant" and len(set(values.values())) > 1:
                found.setdefault(key, {})[covariate.name] = values
    return found


def extra_warnings(
    phase: Phase, runs: Mapping[Labels, Record], marks: Mapping[tuple[str, int], Sequence[str]], cases: Sequence[str]
) -> dict[Key, list[EstimateWarning]]:
    """Warnings about covariates and checks for every estimate of the phase that they concern."""
    differences = unplanned_differences(phase, runs)
    warnings: dict[Key, list[EstimateWarning]] = {}
    for case in cases:
        for contrast in phase.contrasts:
            arms = (contrast.numerator, contrast.denominator)
            found = _covariate_warnings(case, arms, differences) + _check_warnings(case, arms, marks)
            for metric in phase.metrics:
                if found:
                    warnings[case, metric.unit, contrast.name] = found
    return warnings


def _covariate_warnings(
    case: str, arms: tuple[str, str], differences: Mapping[tuple[str, int], Mapping[str, Mapping[str, str]]]
) -> list[EstimateWarning]:
    blocks: dict[str, list[str]] = defaultdict(list)
    for (name, block), covariates in differences.items():
        for covariate, values in covariates.items():
            if name == case and values.get(arms[0]) != values.get(arms[1]):
                blocks[covariate].append(
                    f"block {block} ({arms[0]} {values.get(arms[0])}, {arms[1]} {values.get(arms[1])})"
                )
    return [
        EstimateWarning(
            "covariate", f"Covariate {covariate}, declared constant, differs between the arms in {', '.join(places)}."
        )
        for covariate, places in blocks.items()
    ]


def _check_warnings(
    case: str, arms: tuple[str, str], marks: Mapping[tuple[str, int], Sequence[str]]
) -> list[EstimateWarning]:
    told = []
    for (name, block), texts in sorted(marks.items()):
        concerned = [
            text
            for text in texts
            if not text.endswith(")") or text.startswith("busy") or text.rpartition("(")[2][:-1] in arms
        ]
        if name == case and concerned:
            told.append(f"block {block}: {', '.join(concerned)}")
    return (
        [EstimateWarning("checks", f"Checks did not hold in {'; '.join(told)}. The load may be the arm's own.")]
        if told
        else []
    )
