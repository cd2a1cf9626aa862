"""Every status for every kind of claim, the rules' order, and the sentence that gives the reason."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import claims
from analysis.model import Estimate, EstimateWarning, Interval, Missing

BELOW, ABOVE, OPEN = (0.950, 0.994), (1.010, 1.100), (0.980, 1.020)
FAILED = (Missing(3, "final", "exit status 3"),)


@dataclass(frozen=True)
class Claim:
    holds: Any
    cases: Any = "all"
    interval: str | None = None
    id: str = "b1"
    text: str = "The text of the plan."
    metric: str = "ns/op"
    contrast: str = "final/before"


def estimate(case: str, t: Interval | None, percentile: Interval | None = None, **changes: Any) -> Estimate:
    """An estimate whose point is the middle of t; the percentile interval is t's unless given."""
    point = None if t is None else (t[0] + t[1]) / 2
    found = Estimate(
        "B",
        case,
        "ns/op",
        "final/before",
        point,
        t,
        percentile or t,
        blocks=(1, 2, 3, 4, 5, 6),
        ratios=(1.0,) * 6,
    )
    return replace(found, **changes)


def evaluate(holds: Any, *estimates: Estimate, primary: str = "t", **claim: Any):
    return claims.evaluate(Claim(holds, **claim), estimates, primary=primary)


def status(holds: Any, *estimates: Estimate, **claim: Any) -> str:
    result = evaluate(holds, *estimates, **claim)
    assert result.status in claims.STATUSES
    assert result.reason[0].isupper() or result.reason.startswith("final")
    assert result.reason.endswith(".")
    return result.status


WITHIN = {"within": [0.9, 1.1]}
POINT = {"point_within": [0.96, 1.04]}


@pytest.mark.parametrize(
    ("holds", "t", "expected"),
    [
        ("below-1", BELOW, "supported"),
        ("below-1", ABOVE, "contradicted"),
        ("below-1", OPEN, "unresolved"),
        ("above-1", ABOVE, "supported"),
        ("above-1", BELOW, "contradicted"),
        ("above-1", OPEN, "unresolved"),
        (WITHIN, BELOW, "supported"),
        (WITHIN, (1.2, 1.3), "contradicted"),
        (WITHIN, (0.7, 0.8), "contradicted"),
        (WITHIN, (1.0, 1.2), "unresolved"),
        (WITHIN, (0.8, 1.2), "unresolved"),
        (POINT, (0.5, 1.5), "supported"),
        (POINT, ABOVE, "contradicted"),
    ],
)
def test_one_case_by_t(holds, t, expected):
    assert status(holds, estimate("Load", t)) == expected


@pytest.mark.parametrize(
    ("holds", "t", "percentile", "expected"),
    [
        ("below-1", OPEN, BELOW, "nominal-only"),
        ("above-1", OPEN, ABOVE, "nominal-only"),
        (WITHIN, (0.89, 1.0), (0.91, 0.99), "nominal-only"),
        ("below-1", OPEN, ABOVE, "unresolved"),  # what supports nothing contradicts nothing
        (WITHIN, (1.05, 1.3), (1.12, 1.25), "unresolved"),
        ("below-1", BELOW, BELOW, "supported"),
        ("below-1", ABOVE, ABOVE, "contradicted"),
        ("below-1", BELOW, OPEN, "unresolved"),
        (POINT, OPEN, OPEN, "supported"),
        (POINT, ABOVE, ABOVE, "contradicted"),
    ],
)
def test_one_case_by_percentile(holds, t, percentile, expected):
    assert status(holds, estimate("Load", t, percentile), interval="percentile") == expected
    assert status(holds, estimate("Load", t, percentile), primary="percentile") == expected


def test_a_claims_own_interval_goes_before_the_plans():
    case = estimate("Load", OPEN, BELOW)
    assert status("below-1", case, interval="t", primary="percentile") == "unresolved"
    assert status("below-1", case, interval="percentile", primary="t") == "nominal-only"


@pytest.mark.parametrize("end", [1.0])
def test_an_interval_that_ends_at_1_is_on_no_side(end):
    assert status("below-1", estimate("Load", (0.9, end))) == "unresolved"
    assert status("above-1", estimate("Load", (end, 1.1))) == "unresolved"


def test_bounds_belong_to_within():
    assert status(WITHIN, estimate("Load", (0.9, 1.1))) == "supported"
    assert status(WITHIN, estimate("Load", (1.1, 1.2))) == "unresolved"
    assert status({"point_within": [1.0, 1.04]}, estimate("Load", (0.9, 1.1))) == "supported"


def test_supported_needs_every_case():
    assert status("below-1", estimate("A", BELOW), estimate("C", BELOW)) == "supported"
    assert status("below-1", estimate("A", BELOW), estimate("C", OPEN)) == "unresolved"


def test_contradicted_needs_one_case():
    result = evaluate("below-1", estimate("A", BELOW), estimate("C", ABOVE), estimate("D", OPEN))
    assert result.status == "contradicted"
    assert "on C: the t interval lies entirely above 1" in result.reason


def test_nominal_only_needs_every_case_by_percentile():
    nominal = estimate("A", OPEN, BELOW)
    assert status("below-1", nominal, estimate("C", BELOW), interval="percentile") == "nominal-only"
    assert status("below-1", nominal, estimate("C", OPEN), interval="percentile") == "unresolved"


def test_a_failed_run_supports_nothing_and_contradicts_nothing():
    for t in (BELOW, ABOVE, OPEN):
        result = evaluate("below-1", estimate("Load", t, missing=FAILED))
        assert result.status == "not-evaluable"
        assert result.reason == "Not evaluable: Load lacks final in block 3 (exit status 3)."
    assert status(POINT, estimate("Load", OPEN, missing=FAILED)) == "not-evaluable"


def test_a_failed_run_elsewhere_shields_no_claim_from_contradiction():
    assert status("below-1", estimate("A", BELOW, missing=FAILED), estimate("C", ABOVE)) == "contradicted"
    assert status("below-1", estimate("A", BELOW, missing=FAILED), estimate("C", BELOW)) == "not-evaluable"
    assert status("below-1", estimate("A", BELOW, missing=FAILED), estimate("C", OPEN)) == "not-evaluable"


def test_a_failed_run_of_a_case_that_is_not_named_matters_to_no_other_claim():
    cases = (estimate("A", BELOW), estimate("C", ABOVE, missing=FAILED))
    assert status("below-1", *cases, cases=["A"]) == "supported"
    assert status("below-1", *cases, cases={"all_but": ["C"]}) == "supported"


def test_a_replaced_void_block_is_no_failed_run():
    void = (Missing(3, "final", "host down", replaced_by=7),)
    assert status("below-1", estimate("Load", BELOW, missing=void)) == "supported"


def test_a_null_interval_is_not_evaluable_and_says_why():
    same = estimate("Load", None, point=0.8, warnings=(EstimateWarning("no-spread", "All blocks are the same."),))
    result = evaluate("below-1", same)
    assert result.status == "not-evaluable"
    assert result.reason == "Not evaluable: Load has no t interval (All blocks are the same)."
    assert status({"point_within": [0.7, 0.9]}, same) == "supported"


def test_no_estimate_is_not_evaluable():
    none = estimate("Load", None, blocks=(), ratios=())
    for holds in ("below-1", WITHIN, POINT):
        assert status(holds, none) == "not-evaluable"
    result = evaluate("below-1", estimate("A", BELOW), cases=["A", "Nowhere"])
    assert result.status == "not-evaluable"
    assert result.reason == "Not evaluable: there is no estimate of Nowhere, ns/op, final/before."
    assert status("below-1") == "not-evaluable"


@pytest.mark.parametrize(
    ("holds", "intervals", "expected"),
    [
        ("largest", [(1.3, 1.4), (1.0, 1.1), (0.8, 1.2)], "supported"),
        ("largest", [(1.1, 1.4), (1.0, 1.2), (0.8, 0.9)], "unresolved"),
        ("largest", [(1.0, 1.1), (1.2, 1.3), (0.8, 0.9)], "contradicted"),
        ("largest", [(1.2, 1.4), (1.0, 1.2), (0.8, 0.9)], "unresolved"),  # they touch: not disjoint
        ("smallest", [(0.6, 0.7), (0.8, 0.9), (0.9, 1.2)], "supported"),
        ("smallest", [(0.6, 0.85), (0.8, 0.9), (0.9, 1.2)], "unresolved"),
        ("smallest", [(0.95, 1.0), (0.8, 0.9), (0.9, 1.2)], "contradicted"),
    ],
)
def test_extremes(holds, intervals, expected):
    found = [estimate(case, t) for case, t in zip("ACD", intervals, strict=True)]
    assert status(holds, *found, cases=["A"]) == expected


def test_extremes_by_percentile_need_t_beside():
    others = (estimate("C", (1.0, 1.25), (1.02, 1.2)),)
    assert status("largest", estimate("A", (1.2, 1.5), (1.3, 1.4)), *others, cases=["A"], interval="percentile") == (
        "nominal-only"
    )
    assert status("largest", estimate("A", (1.3, 1.5), (1.35, 1.4)), *others, cases=["A"], interval="percentile") == (
        "supported"
    )
    assert status("smallest", estimate("A", (1.2, 1.5), (1.3, 1.4)), *others, cases=["A"], interval="percentile") == (
        "unresolved"
    )


def test_extremes_rest_on_the_other_cases_too():
    largest = estimate("A", (1.3, 1.4))
    result = evaluate("largest", largest, estimate("C", (1.0, 1.1), missing=FAILED), cases=["A"])
    assert result.status == "not-evaluable"
    assert result.reason == "Not evaluable: C lacks final in block 3 (exit status 3)."
    beyond = (estimate("C", (1.0, 1.1), missing=FAILED), estimate("D", (1.6, 1.7)))
    assert status("largest", largest, *beyond, cases=["A"]) == "contradicted"
    assert [e.case for e in evaluate("largest", largest, *beyond, cases=["A"]).evidence] == ["A", "C", "D"]


def test_extremes_need_something_to_compare_with():
    result = evaluate("largest", estimate("A", (1.3, 1.4)), cases=["A"])
    assert result.status == "not-evaluable"
    assert "no other case to compare with" in result.reason


def test_an_empty_selection_supports_nothing():
    assert status("below-1", estimate("A", BELOW), cases={"all_but": ["A"]}) == "not-evaluable"


def test_other_metrics_and_contrasts_are_not_evidence():
    others = (
        estimate("A", ABOVE, metric="B/op"),
        estimate("A", ABOVE, contrast="final/legacy"),
    )
    result = evaluate("below-1", estimate("A", BELOW), *others)
    assert result.status == "supported"
    assert [(e.metric, e.contrast) for e in result.evidence] == [("ns/op", "final/before")]


def test_result_carries_id_text_and_evidence():
    case = estimate("Load", BELOW)
    result = evaluate("below-1", case)
    assert (result.id, result.text, result.evidence) == ("b1", "The text of the plan.", (case,))


@pytest.mark.parametrize(
    ("holds", "cases", "reason"),
    [
        (
            "below-1",
            [estimate("Load", BELOW)],
            ("final takes 0.972 [0.950, 0.994] of before's time on Load: the t interval lies entirely below 1."),
        ),
        (
            "below-1",
            [estimate("Load", BELOW), estimate("Save", (0.90, 0.9997))],
            (
                "In all 2 cases the t interval lies entirely below 1; the nearest to the limit is Save, "
                "0.9499 [0.9000, 0.9997]."
            ),
        ),
        (
            "above-1",
            [estimate("Load", BELOW), estimate("Save", BELOW)],
            (
                "final takes 0.972 [0.950, 0.994] of before's time on Load (and in 1 more of 2 cases): the "
                "t interval lies entirely below 1."
            ),
        ),
        (
            "below-1",
            [estimate("Load", (0.9952, 1.0012))],
            (
                "final takes 0.9982 [0.9952, 1.0012] of before's time on Load: the t interval includes 1; "
                "not resolved by this data."
            ),
        ),
        (
            WITHIN,
            [estimate("Load", (1.0, 1.2))],
            (
                "final takes 1.100 [1.000, 1.200] of before's time on Load: the t interval reaches across an "
                "end of [0.9, 1.1]; not resolved by this data."
            ),
        ),
        (
            POINT,
            [estimate("Load", (0.9, 1.2))],
            (
                "final takes 1.050 of before's time on Load: the point estimate lies outside [0.96, 1.04], "
                "no interval being used."
            ),
        ),
    ],
)
def test_reasons(holds, cases, reason):
    assert evaluate(holds, *cases).reason == reason


def test_reason_of_nominal_only_shows_both_intervals():
    assert evaluate("below-1", estimate("Load", (0.94, 1.004), BELOW), interval="percentile").reason == (
        "final takes 0.972 [0.950, 0.994] of before's time on Load: the percentile interval lies entirely "
        "below 1, but the t interval, [0.940, 1.004], includes 1."
    )


def test_reason_of_a_nominal_contradiction_says_so():
    assert evaluate("below-1", estimate("Load", OPEN, ABOVE), interval="percentile").reason.endswith(
        "the percentile interval lies entirely above 1, t does not; not resolved by this data."
    )


def test_reasons_of_extremes_name_the_other_case():
    found = (estimate("A", (1.3, 1.4)), estimate("C", (1.0, 1.1)), estimate("D", (0.8, 1.2)))
    assert evaluate("largest", *found, cases=["A"]).reason == (
        "final takes 1.350 [1.300, 1.400] of before's time on A: the t interval lies wholly above that of "
        "every other case; the nearest is D, 1.000 [0.800, 1.200]."
    )
    assert evaluate("smallest", *found, cases=["C"]).reason == (
        "final takes 1.050 [1.000, 1.100] of before's time on C: the t interval overlaps that of D, 1.000 "
        "[0.800, 1.200]; not resolved by this data."
    )
    assert evaluate("smallest", *found, cases=["A"]).reason == (
        "final takes 1.350 [1.300, 1.400] of before's time on A: the t interval lies wholly above that of C, "
        "1.050 [1.000, 1.100]."
    )


def test_supported_by_percentile_says_that_t_agrees():
    assert evaluate("below-1", estimate("Load", BELOW), interval="percentile").reason.endswith(
        "the percentile interval lies entirely below 1, and so does the t interval."
    )


ENDS = st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(st.tuples(ENDS, ENDS), min_size=2, max_size=4), st.sampled_from(["t", "percentile"]))
def test_a_claim_and_its_opposite_are_never_both_supported(ends, kind):
    found = [estimate(f"C{i}", t, percentile) for i, (t, percentile) in enumerate(ends)]
    for one, other in (("below-1", "above-1"), ("largest", "smallest")):
        cases = "all" if one == "below-1" else ["C0"]
        both = [status(holds, *found, cases=cases, interval=kind) for holds in (one, other)]
        assert both != ["supported", "supported"]
        assert "supported" not in both or "contradicted" in both
        assert "nominal-only" not in both or kind == "percentile"


@given(ENDS, ENDS)
def test_t_alone_is_at_least_as_strict(t, percentile):
    """Supported by percentile means supported by t: nothing rests on a percentile interval alone."""
    found = estimate("Load", t, percentile)
    for holds in ("below-1", "above-1", WITHIN):
        if status(holds, found, interval="percentile") == "supported":
            assert status(holds, found, interval="t") == "supported"


@given(ENDS)
def test_numbers_in_a_reason_agree_with_its_words(t):
    reason = evaluate("below-1", estimate("Load", t)).reason
    low, high = map(float, re.search(r"\[([\d.]+), ([\d.]+)\]", reason).groups())
    if "entirely below 1" in reason:
        assert high < 1 or t[1] > 0.9999995
    elif "entirely above 1" in reason:
        assert low > 1 or t[0] < 1.0000005
    else:
        assert low <= 1 <= high


def test_holds_in_every_form():
    rule = claims.Rule("within", 0.9, 1.1)
    assert claims.rule_of({"within": [0.9, 1.1]}) == rule
    assert claims.rule_of(SimpleNamespace(within=(0.9, 1.1), point_within=None)) == rule
    assert claims.rule_of(SimpleNamespace(within=(0.9, 1.1))) == rule
    assert claims.rule_of(SimpleNamespace(point_within=(0.9, 1.1))) == claims.Rule("point_within", 0.9, 1.1)
    assert claims.rule_of("largest") == claims.Rule("largest")


@pytest.mark.parametrize("holds", ["below", None, {}, {"outside": [1, 2]}, {"within": [1.1, 0.9]}, {"within": [0, 1]}])
def test_holds_in_no_known_form_is_refused(holds):
    with pytest.raises(ValueError, match=r"cannot hold|0 < low < high"):
        claims.rule_of(holds)


def test_cases_in_every_form():
    known = ("A", "C", "D")
    assert claims.case_names("all", known) == known
    assert claims.case_names(["D", "A"], known) == ("D", "A")
    assert claims.case_names(("C",), known) == ("C",)
    assert claims.case_names({"all_but": ["C"]}, known) == ("A", "D")
    assert claims.case_names(SimpleNamespace(all_but=("C",)), known) == ("A", "D")
    for wrong in ("A", None, 3):
        with pytest.raises(ValueError, match="a claim's cases"):
            claims.case_names(wrong, known)


def test_mixed_evidence_is_refused():
    case = estimate("Load", BELOW)
    with pytest.raises(ValueError, match="several phases: A, B"):
        evaluate("below-1", case, replace(case, phase="A"))
    with pytest.raises(ValueError, match="two estimates of Load"):
        evaluate("below-1", case, case)
    with pytest.raises(ValueError, match="no interval is called 'bca'"):
        evaluate("below-1", case, interval="bca")
