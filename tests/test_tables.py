"""Tables: what they say, that text never becomes markup, and one whole table against a golden file."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analysis import tables
from analysis.formats import DASH
from analysis.model import Absolute, ClaimResult, Estimate, EstimateWarning
from tests import made_up

GOLDEN = Path(__file__).parent / "golden" / "results_table.html"
VOID = {"br", "wbr", "img", "source"}


class Tags(HTMLParser):
    """Collects tags and requires that every one is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(markup: str) -> set[str]:
    parser = Tags()
    parser.feed(markup)
    assert parser.open == []
    return parser.seen


def results(found: list[Estimate], metrics: tuple[str, ...] = ("ns/op",), primary: str = "t") -> tables.Markup:
    return tables.results(found, "final/before", primary=primary, cases=made_up.ALL_CASES, metrics=metrics)


def test_results_table_is_the_golden_one() -> None:
    # To renew it after a wanted change: write str(table) to the file and read the difference.
    table = results(made_up.estimates(), ("ns/op", "B/op"))
    assert str(table) + "\n" == GOLDEN.read_text(encoding="utf-8")


def test_results_table_as_text() -> None:
    lines = repr(results(made_up.estimates())).splitlines()
    assert lines[0] == "Ratio final/before"
    assert lines[1].split("\t") == [
        "case", "metric", "ratio [t interval, primary]", "percentile interval", "leave one out", "blocks", "notes",
    ]  # fmt: skip
    assert lines[2].split("\t")[:6] == [
        "SaveRecord", "ns/op", "0.970 [0.950, 0.990]", "[0.956, 0.984]", "0.966 to 0.976", "6",
    ]  # fmt: skip


def test_primary_percentile_leads() -> None:
    table = results(made_up.estimates(), primary="percentile")
    assert "0.970 [0.956, 0.984]" in table
    assert "ratio [percentile interval, primary]" in table


def test_a_dash_always_has_a_footnote() -> None:
    table = results(made_up.estimates())
    row = next(line for line in table.splitlines() if "Load<wbr>Record" in line)
    assert f"{DASH}<sup>" in row
    assert ">1 of 2<" in row
    assert "One block is too few for an interval." in table
    assert "Block 2 is missing: arm final, exit status 3." in table
    assert "Block 3 is missing: arm final, time limit; block 7 replaces it." in table


def test_a_gap_without_a_reason_is_named() -> None:
    bare = replace(made_up.estimate("SaveRecord", "final/before"), t=None)
    assert "Not computed: t interval. The analysis gave no reason." in results([bare])


def test_a_planned_case_without_estimate_has_a_row() -> None:
    table = results([])
    assert table.count("<tr>") == 1 + len(made_up.ALL_CASES)
    assert "No estimate was computed for this case and metric." in table


def test_equal_footnotes_are_written_once() -> None:
    warning = EstimateWarning("intervals-disagree", "percentile excludes 1, t does not")
    found = [replace(made_up.estimate(case, "final/before"), warnings=(warning,)) for case in made_up.ALL_CASES]
    table = results(found)
    assert table.count(warning.text) == 1
    assert table.count('#n-final-before-b-a"') == len(found)


def test_never_nan_or_none() -> None:
    odd = replace(made_up.estimate("SaveRecord", "final/before"), point=float("nan"), t=(float("nan"), 1.0))
    everything = (
        results([odd, made_up.failed("LoadRecord", "final/before")])
        + tables.absolutes([Absolute("SaveRecord", "ns/op", "final", float("nan"), 0)], cases=["SaveRecord"],
                           metrics=["ns/op"], arms=["final"])
        + tables.key_values({"a": None, "b": float("nan"), "c": ""})
    )  # fmt: skip
    assert not re.search(r"\b(nan|none|inf)\b", tables.text_only(everything), re.IGNORECASE)


def test_text_never_becomes_markup() -> None:
    bad = made_up.HOSTILE
    hostile = replace(made_up.failed(bad, f"{bad}/{bad}", bad), phase=bad, warnings=(EstimateWarning(bad, bad),))
    whole = [
        tables.results([hostile], hostile.contrast, primary="t", cases=[bad], metrics=[bad], caption=bad),
        tables.absolutes([Absolute(bad, bad, bad, None, 0)], cases=[bad], metrics=[bad], arms=[bad]),
        tables.claims([ClaimResult(bad, bad, "unresolved", bad)], bad),
        tables.key_values({bad: [bad, bad]}, bad),
        tables.plain([bad, bad], [[bad, bad]], bad, numbers=[1]),
        tables.code(bad),
    ]
    for markup in whole:
        assert "script" not in tags(markup)
        assert "\x1b" not in markup
        assert "&lt;script&gt;" in markup


def test_attributes_are_escaped() -> None:
    table = tables.key_values({"a": "b"}, '" onmouseover="alert(1)')
    assert ' onmouseover="' not in table


def test_absolutes_share_a_unit_in_a_row() -> None:
    table = tables.absolutes(made_up.absolutes(), cases=made_up.ALL_CASES, metrics=["ns/op"], arms=made_up.ARMS)
    assert ">\u00b5s/op<" in table
    assert all(f">{text}<" in table for text in ("661", "767", "750"))
    assert "final: no value, 0 blocks with a finished run." in table


def test_no_claim_is_said_in_words() -> None:
    assert tables.text_only(tables.claims([])) == "The plan declares no claim."


def test_long_texts_may_be_broken() -> None:
    table = tables.plain(["a", "b"], [["x", ["short", "long-" * 20]], ["y", tables.code("z" * 20)]])
    assert table.count('class="bb-long"') == 1


def test_claims_have_their_status_as_words() -> None:
    table = tables.claims(made_up.claims())
    for words in tables.STATUS_WORDS.values():
        assert f">{words}</span>" in table


def test_unknown_status_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown claim status 'maybe'"):
        tables.status("maybe")


def test_footnote_marks_go_on_after_z() -> None:
    notes = tables.Notes("n")
    marks = [re.sub("<[^>]*>", "", notes.mark(f"text {n}")) for n in range(54)]
    assert [marks[0], marks[25], marks[26], marks[51], marks[52]] == ["a", "z", "aa", "az", "ba"]


def test_all_tables_are_well_formed_and_scroll() -> None:
    for table in (
        results(made_up.estimates(), ("ns/op", "B/op")),
        tables.absolutes(made_up.absolutes(), cases=made_up.ALL_CASES, metrics=["ns/op"], arms=made_up.ARMS),
        tables.claims(made_up.claims()),
        tables.key_values({"a": ["b", "c"]}),
        tables.plain(["a"], [["b"]]),
    ):
        tags(table)
        assert 'class="bb-scroll"' in table
        assert table._repr_html_() == str(table)


def test_a_pair_that_is_not_measured_has_no_row() -> None:
    measured = {"SaveRecord": ["ns/op"], "LoadRecord": ["ns/op", "B/op"]}
    settings = {"cases": ["SaveRecord", "LoadRecord", "Bare"], "metrics": ["ns/op", "B/op"], "measured": measured}
    table = tables.results(made_up.estimates(), "final/before", primary="t", **settings)
    assert table.count("<tr>") == 1 + 3
    assert "Bare" not in table
    assert 'rowspan="1"' in table and 'rowspan="2"' in table
    assert "No estimate was computed" not in table
    levels = tables.absolutes(made_up.absolutes(), arms=made_up.ARMS, **settings)
    assert levels.count("<tr>") == 1 + 3
    tags(table), tags(levels)
