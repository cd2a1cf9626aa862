"""`analysis claims` and the sweep over seeds, on the bundled campaign: what they print, and what a gate says."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest

from analysis import claim_exports, sweep_exports
from analysis.report import PhaseReport, open_report
from runner.errors import WrongUse
from tests.bundled import CAMPAIGN, ROOT


@cache
def report() -> PhaseReport:
    return open_report(CAMPAIGN, "B")


def analysis(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "analysis", *arguments]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def of_status(status: str) -> str:
    return next(claim.id for claim in report().claims if claim.status == status)


def test_claims_as_json_hold_their_evidence() -> None:
    done = analysis("claims", str(CAMPAIGN), "--phase", "B", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["campaign"] == CAMPAIGN.name
    assert document["preregistered"] is True
    assert document["deviations"] == report().deviations
    assert [claim["id"] for claim in document["claims"]] == [claim.id for claim in report().phase.claims]
    by_key = {(e.case, e.metric, e.contrast): e for e in report().estimates}
    for claim in document["claims"]:
        assert claim["status"] in ("supported", "contradicted", "unresolved", "nominal-only", "not-evaluable")
        assert claim["evidence"]
        for found in claim["evidence"]:
            estimate = by_key[found["case"], found["metric"], found["contrast"]]
            assert (found["point"], found["t"] and tuple(found["t"])) == (estimate.point, estimate.t)
            assert found["blocks"] == list(estimate.blocks)


def test_claims_as_a_table_and_as_text_name_each() -> None:
    table, text = claim_exports.as_markdown([report()]), claim_exports.as_text([report()])
    for claim in report().claims:
        assert f"| B {claim.id} |" in table
        assert f"B {claim.id}: " in text and claim.reason in text


def test_a_gate_on_a_supported_claim_passes_and_on_any_other_fails() -> None:
    supported, contradicted = of_status("supported"), of_status("contradicted")
    assert claim_exports.unmet([report()], [supported]) == []
    (line,) = claim_exports.unmet([report()], [supported, contradicted])
    assert line.startswith(f"required claim {contradicted} is contradicted: ")
    done = analysis("claims", str(CAMPAIGN), "--phase", "B", "--require", supported)
    assert (done.returncode, done.stderr) == (0, "")
    done = analysis("claims", str(CAMPAIGN), "--phase", "B", "--require", contradicted)
    assert (done.returncode, done.stderr) == (1, line + "\n")
    assert f"B {contradicted}: contradicted" in done.stdout


@pytest.mark.parametrize("status", ["contradicted", "unresolved", "nominal-only", "not-evaluable"])
def test_only_support_is_enough(status: str) -> None:
    first = replace(report().claims[0], status=status)
    changed = replace(report(), claims=(first,))
    assert len(claim_exports.unmet([changed], [first.id])) == 1


def test_a_claim_that_is_not_in_the_plan_is_wrong_use() -> None:
    with pytest.raises(WrongUse, match="no such claim"):
        claim_exports.unmet([report()], ["B-99"])
    assert analysis("claims", str(CAMPAIGN), "--phase", "B", "--require", "A-1").returncode == 2


def test_a_sweep_from_the_command_line() -> None:
    done = analysis("estimates", str(CAMPAIGN), "--phase", "B", "--seeds", "0-4", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["seeds"] == [0, 1, 2, 3, 4]
    assert len(document["intervals"]) == sum(e.percentile is not None for e in report().estimates)
    assert all(one["low"][0] <= one["low"][1] <= one["high"][1] for one in document["intervals"])
    assert {claim["id"]: claim["own"] for claim in document["claims"]} == {c.id: c.status for c in report().claims}
    assert all(sum(claim["counts"].values()) == 5 for claim in document["claims"])
    text = sweep_exports.as_markdown(report(), sweep_exports.of_report(report(), (0, 1)))
    assert text.count("| seeds that exclude 1 |") == 1
    assert "under 2 seeds" in text


@pytest.mark.parametrize(
    ("options", "word"),
    [(("--seeds", "5-1"), "ascending range"), (("--seeds", "0-3", "--format", "csv"), "no format csv of a sweep")],
)
def test_seeds_that_are_wrong_use(options: tuple[str, ...], word: str) -> None:
    done = analysis("estimates", str(CAMPAIGN), "--phase", "B", *options)
    assert done.returncode == 2
    assert word in done.stderr
