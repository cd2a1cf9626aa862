"""Made-up estimates for tests of figures, tables and pages. No campaign has these numbers."""

from __future__ import annotations

from analysis.model import Absolute, ClaimResult, Estimate, EstimateWarning, Missing

ARMS = ["legacy", "before", "final"]
CONTRASTS = {"final/before": "the newer step", "final/legacy": "both steps"}
CASES = {"write": ["SaveRecord"], "read": ["LoadRecord", "ScanIndexRecords/pipelined"]}
ALL_CASES = [case for names in CASES.values() for case in names]
HOSTILE = "<script>alert('x')</script>&\"$\\frac{1}{0}$\x1b[31m"


def estimate(case: str, contrast: str, metric: str = "ns/op", point: float = 0.97, half: float = 0.02) -> Estimate:
    """Six blocks around ``point``; t wider than percentile."""
    steps = (-0.02, 0.01, 0.03, -0.01, 0.0, -0.01)
    return Estimate(
        phase="B",
        case=case,
        metric=metric,
        contrast=contrast,
        point=point,
        t=(point - half, point + half),
        percentile=(point - 0.7 * half, point + 0.7 * half),
        range=(point - 0.02, point + 0.03),
        leave_one_out=tuple(point + step / 5 for step in steps),
        p=0.04,
        blocks=(1, 2, 3, 4, 5, 6),
        ratios=tuple(point + step for step in steps),
    )


def failed(case: str, contrast: str, metric: str = "ns/op") -> Estimate:
    """Nothing could be computed, and the warnings say why."""
    return Estimate(
        phase="B",
        case=case,
        metric=metric,
        contrast=contrast,
        blocks=(1,),
        ratios=(1.1,),
        missing=(Missing(2, "final", "exit status 3"), Missing(3, "final", "time limit", replaced_by=7)),
        warnings=(EstimateWarning("few-blocks", "One block is too few for an interval."),),
    )


def estimates() -> list[Estimate]:
    """Two contrasts, three cases, two metrics; one estimate is missing its numbers."""
    found = [
        estimate("SaveRecord", "final/before"),
        failed("LoadRecord", "final/before"),
        estimate("ScanIndexRecords/pipelined", "final/before", point=1.02, half=0.03),
        estimate("SaveRecord", "final/legacy", point=1.4, half=0.05),
        estimate("LoadRecord", "final/legacy", point=1.1, half=0.003),
        estimate("ScanIndexRecords/pipelined", "final/legacy", point=0.65),
    ]
    return found + [estimate(e.case, e.contrast, "B/op", 0.9, 0.002) for e in found]


def absolutes() -> list[Absolute]:
    """One value per case and arm; one is missing."""
    values = {"legacy": 661_234.0, "before": 766_812.0, "final": 750_000.0}
    found = [Absolute(case, "ns/op", arm, value, 6) for case in ALL_CASES for arm, value in values.items()]
    return [
        Absolute("LoadRecord", "ns/op", a.arm, None, 0) if a.case == "LoadRecord" and a.arm == "final" else a
        for a in found
    ]


def claims() -> list[ClaimResult]:
    """One claim of every status."""
    states = ("supported", "contradicted", "unresolved", "nominal-only", "not-evaluable")
    return [ClaimResult(f"B{n}", f"Claim {n} <b>", state, f"Reason {n} & more.") for n, state in enumerate(states, 1)]


def orders() -> dict[str, dict[int, tuple[str, ...]]]:
    """The same six orders for every case."""
    words = ("lbf", "bfl", "flb", "fbl", "lfb", "blf")
    arms = {arm[0]: arm for arm in ARMS}
    return {case: {n: tuple(arms[c] for c in word) for n, word in enumerate(words, 1)} for case in ALL_CASES}
