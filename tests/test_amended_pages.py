"""A campaign that was amended twice and brought to its end: its runs, `verify`, `status`, its pages, its claims."""

from __future__ import annotations

import json
import re
from collections import Counter

from analysis import amendments as told
from analysis import claim_exports, overview, page
from analysis.report import open_report
from runner.store import Store
from runner.verify import verify
from tests.amending import WHY
from tests.campaigns import Campaign

# ---- a campaign that goes on under its amendments ------------------------------------------------------


def test_runs_carry_the_seal_that_was_in_force_when_they_started(ended: Campaign) -> None:
    now, seen = "", Counter[str]()
    for event in ended.events():
        if event["event"] in ("sealed", "amended"):
            now = event["seal"]
        elif event["event"] == "run-start":
            assert ended.record(event["labels"])["seal"] == now
            seen[now] += 1
    assert list(seen.values())[:2] == [4, 6]
    assert len(seen) == 3
    interrupted = [event for event in ended.events("run-end") if event["outcome"] == "interrupted"]
    assert len(interrupted) == 2  # each was recovered under a later seal than it had started under


def test_added_blocks_and_replacements_never_share_a_number(ended: Campaign) -> None:
    planned = {(e["phase"], e["block"]) for e in ended.orders()}
    assert planned == {("T", 1), ("T", 2), ("T", 3), ("T", 4), ("U", 1), ("U", 2), ("U", 3)}
    replaced = [(e["phase"], e["replaces"], e["block"]) for e in ended.events("replacement")]
    assert [entry[:2] for entry in replaced] == [("T", 2), ("T", 5)]
    assert all((phase, number) not in planned for phase, _, number in replaced)
    started = [event["labels"] for event in ended.events("run-start")]
    assert len({labels["sequence"] for labels in started}) == len(started)


def test_it_verifies_and_both_commands_list_the_amendments(ended: Campaign) -> None:
    report = verify(Store.open(ended.folder))
    assert (report.problems, report.state) == ([], "closed")
    notes = [note for note in report.notes if note.startswith("amendment")]
    assert re.fullmatch(
        rf"amendment 1, .* UTC, after 4 runs: {WHY}; changed phases\.T\.blocks, phases\.T\.claims\[late\]", notes[0]
    )
    assert "after 10 runs: the percentile interval leads" in notes[1]
    shown = ended.does("status").stdout
    assert all(note in shown for note in notes)
    found = json.loads(ended.does("status", "--json").stdout)["amendments"]
    assert [(entry["number"], entry["runs_before"]) for entry in found] == [(1, 4), (2, 10)]


def test_pages_tell_what_was_changed_and_after_which_runs(ended: Campaign) -> None:
    reports = {name: open_report(ended.folder, name) for name in ("T", "U")}
    first = reports["T"]
    claims = {claim.id: claim.declared for report in reports.values() for claim in report.claims}
    assert claims == {
        "late": "changed after 10 of 12 runs (not preregistered)",
        "early": "",
        "x": "",
    }
    answer, meaning = repr(page.answer(first)), repr(page.interpretation(first))
    assert "No claim was preregistered. late, changed after" in answer
    assert "Claims that were not preregistered" in meaning
    assert re.search(r"late\ttwo is slower\t\w+, changed after \d+ of \d+ runs \(not preregistered\)", meaning)
    limits = repr(page.limits(first))
    assert re.search(
        r"Amendment 1, made after 4 of \d+ runs of this phase, changed phases\.T\.blocks: for the runs", limits
    )
    assert re.search(r"Amendment 2, made after \d+ of \d+ runs of this phase, changed statistics\.primary:", limits)
    assert "The percentile interval leads, as amendment 2 has it, not as preregistered" in limits
    table = told.table(first.history, ["T"])
    assert "phases.T.blocks: 3 → 4" in repr(table)
    assert re.search(r"4 \(sequence 0 to 3\)", repr(table))
    assert "&lt;b&gt;early&lt;/b&gt; &amp; x" in str(table)
    assert "<b>" not in str(table)
    assert "seal before amendment 1" in repr(page.reproduce(first))
    assert "Amendments" in repr(page.evidence(first))
    text = overview.campaign_page(first.store, first.plan, reports)
    assert "## Amendments" in text
    assert "and amended 2 times since" in text
    assert "as amendment 2 has it, not as preregistered" in text
    assert re.search(r"phase T: 4 \(sequence 0 to 3\)<br>phase U: 0", text)


def test_claim_commands_say_which_claims_were_not_preregistered(ended: Campaign) -> None:
    done = ended.python("-m", "analysis", "claims", str(ended.folder))
    assert re.search(r"^T late: \w+, changed after \d+ of \d+ runs \(not preregistered\)$", done.stdout, re.M)
    reports = [open_report(ended.folder, name) for name in ("T", "U")]
    document = json.loads(claim_exports.as_json(reports))
    assert document["preregistered"] is False
    found = {claim["id"]: (claim["preregistered"], claim["declared"]) for claim in document["claims"]}
    assert found["late"][0] is False
    assert "(not preregistered)" in found["late"][1]
    assert re.search(
        r"\| T late \| [a-z-]+, changed after .* \(not preregistered\) \|", claim_exports.as_markdown(reports)
    )
