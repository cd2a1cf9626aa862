"""Published figures: read strictly, put into words, turned into t intervals, compared with recomputed estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from analysis import intervals, published, published_check, published_sentences
from analysis.calibration import t_ends
from analysis.implied import IN_BAND, LOPSIDED, OF_ONE_BLOCK, ONE_BLOCK, WIDTHS, implied_t, lean, then
from analysis.model import Absolute, Estimate, EstimateWarning
from analysis.published import Published, rounds_to
from analysis.published_check import AGREES, DIFFERS, UNKNOWN, Row, compare
from runner.errors import DataError
from runner.store import Store
from tests import small
from tests.bundled import ROOT

CAMPAIGN = ROOT / "data" / "hcloud-rebench-20261014"

TEXT = """
[units]
"mean time" = "ns/op"

[campaign]
host = "one host"
bootstrap = { resamples = 20000, seed = 391706, level = 0.95, method = "percentile over blocks" }
order_seeds = { A = 641101 }

[phases]
B = { question = "What does it cost?", arms = ["on", "off"] }

[designs.A]
cases = ["Get", "Set"]
blocks = 6
repeats = 3
runs = 24
samples_total = 72

[[estimates]]
phase = "A"
contrast = "new/old"
case = "Get"
metric = "mean time"
ratio = 0.950
ci = [0.931, 0.970]
new_us = 4080.2
old_us = 4295

[[estimates]]
phase = "A"
contrast = "new/old"
case = "Set"
metric = "ns/op"
ratio = 0.98
below_one = true

[[estimates]]
phase = "A"
contrast = "new/old"
metric = "ns/op"
range = [0.95, 0.98]
text = "down 2-5%"

[[estimates]]
phase = "B"
contrast = "on/off"
case = "Save"
metric = "ns/op"
leave_one_block_out = [1.005, 1.073]
largest_block_ratio = 1.36

[[estimates]]
phase = "B"
contrast = "on/off"
metric = "B/op"
text = "fewer in every case"

[[absolutes]]
phase = "A"
case = "Set"
metric = "ms/op"
old = 171
new = 249

[[remarks]]
phase = "A"
text = "not explained: why Set takes 249 ms"
"""


def parsed(text: str = TEXT) -> Published:
    return published.parse(text, small.plan())


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, 1)


# ---- reading ------------------------------------------------------------------------------------------


def test_every_figure_keeps_its_digits_and_its_place_in_the_plan() -> None:
    found = parsed()
    first, second, group, blocks, words = found.estimates
    assert (first.case, first.metric, first.word, str(first.ratio)) == ("Get", "ns/op", "mean time", "0.950")
    assert [str(end) for end in first.interval or ()] == ["0.931", "0.970"]
    assert second.below_one and second.interval is None
    assert group.case is None and group.range == (Decimal("0.95"), Decimal("0.98"))
    assert blocks.ratio is None and blocks.largest_block == Decimal("1.36")
    assert words.text == "fewer in every case"
    assert [(a.word, a.unit, a.metric) for a in found.absolutes] == [
        ("mean time", "us", "ns/op"),
        ("ms/op", "", "ns/op"),
    ]
    assert {level.arm: (level.value, level.factor) for level in found.absolutes[1].levels} == {
        "old": (Decimal(171), Decimal(10**6)),
        "new": (Decimal(249), Decimal(10**6)),
    }
    assert found.remarks_of("A") == ["not explained: why Set takes 249 ms"]
    assert found.estimates_of("B") == [blocks, words]


def test_a_case_with_spaces_is_the_plans_case_with_underscores() -> None:
    assert published.case_name("reverse scan, 1,000 small records") == "reverse_scan,_1,000_small_records"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"mean time" = "ns/op"', '"mean time" = "ns"', "units.mean time: unknown 'ns'; expected one of ns/op, B/op"),
        ('host = "one host"', 'hots = "one host"', "campaign.hots: unknown key"),
        ('host = "one host"', "host = 3", "campaign.host: expected text, found 3"),
        ("seed = 391706", "seed = 7", "campaign.bootstrap.seed: published 7, but plan.toml has 391706"),
        ("level = 0.95", "level = 0.9", "campaign.bootstrap.level: published 0.9, but plan.toml has 0.95"),
        ("A = 641101", "A = 3", "campaign.order_seeds.A: published 3, but plan.toml has 641101"),
        ("A = 641101", "Z = 3", "campaign.order_seeds.Z: unknown key"),
        ('arms = ["on", "off"]', 'arms = ["on", "of"]', "phases.B.arms: unknown arm 'of'; expected one of base, on, off"),
        ("B = { question", "Z = { question", "phases.Z: unknown phase; expected one of A, B"),
        ("[designs.A]", "[designs.Z]", "designs.Z: unknown phase"),
        ("blocks = 6", "blocks = 8", "designs.A.blocks: published 8, but plan.toml has 6"),
        ("runs = 24", "runs = 23", "designs.A.runs: published 23, but plan.toml has 24"),
        ("samples_total = 72", "samples_total = 71", "designs.A.samples_total: published 71, but plan.toml has 72"),
        ('cases = ["Get", "Set"]', 'cases = ["Gte"]', "designs.A.cases: unknown case 'Gte'"),
        ("samples_total = 72", "samples = 72", "designs.A.samples: unknown key"),
        ('phase = "A"', 'phase = "Z"', "estimates.0.phase: unknown 'Z'; expected one of A, B"),
        ('phase = "A"', "", "estimates.0.phase: this key is required"),
        ('contrast = "new/old"', 'contrast = "old/new"', "estimates.0.contrast: unknown 'old/new'; expected one of new/old"),
        ('case = "Get"', 'case = "G et"', "estimates.0.case: unknown 'G et'; expected one of Get, Set"),
        ('metric = "mean time"', 'metric = "median"', "estimates.0.metric: unknown 'median'"),
        ("ratio = 0.950", "ratio = 0.980", "estimates.0.ci: [0.931, 0.970] does not hold its ratio 0.980"),
        ("ratio = 0.950", "", "estimates.0.ci: an interval without its ratio"),
        ("ratio = 0.950", "ratio = 0", "estimates.0.ratio: expected a number above 0, found 0"),
        ("ratio = 0.950", "ratio = -0.95", "estimates.0.ratio: expected a number above 0, found -0.95"),
        ("ratio = 0.950", "ratio = nan", "estimates.0.ratio: expected a number above 0, found NaN"),
        ("ratio = 0.950", "ratio = true", "estimates.0.ratio: expected a number, found True"),
        ("ci = [0.931, 0.970]", "ci = [0.970, 0.931]", "estimates.0.ci: expected the lower end first"),
        ("ci = [0.931, 0.970]", "ci = [0.931]", "estimates.0.ci: expected two numbers, found"),
        ("ci = [0.931, 0.970]", "ci = [0, 0.970]", "estimates.0.ci: expected a number above 0, found 0"),
        ("new_us = 4080.2", "new_km = 4080.2", "estimates.0.new_km: unknown key"),
        ("new_us = 4080.2", "newer_us = 4080.2", "estimates.0.newer_us: unknown key"),
        ("ratio = 0.98\n", "ratio = 1.02\n", "estimates.1.below_one: expected a ratio below 1, found 1.02"),
        ("ratio = 0.98\n", "ratio = 0.98\nci = [0.97, 0.99]\n", "estimates.1.below_one: is said where no interval"),
        ('case = "Set"\nmetric = "ns', 'case = "Get"\nmetric = "ns', "estimates.1.ratio: new/old, ns/op, Get: is there twice"),
        ("ratio = 0.98\n", 'ratio = 0.98\nchange = "-3%"\n', "estimates.1.change: expected the ratio less 1 in percent"),
        ("ratio = 0.98\n", 'ratio = 0.98\nchange = "2% less"\n', "estimates.1.change: expected the ratio less 1 in percent"),
        ("range = [0.95, 0.98]", 'range = [0.95, 0.98]\ncase = "Get"', "estimates.2.range: is of a group of cases"),
        ('text = "fewer in every case"', "", "estimates.4: nothing was published"),
        ('metric = "ms/op"', 'metric = "km/op"', "absolutes.0.metric: unknown 'km/op'"),
        ("old = 171\nnew = 249", "", "absolutes.0: no value of an arm: expected one of old, new"),
        ('case = "Set"\nmetric = "ms/op"', 'metric = "ms/op"', "absolutes.0.case: this key is required"),
        ('text = "not explained', 'words = "not explained', "remarks.0.words: unknown key"),
        ("[[remarks]]", "[remark]", "remark: unknown key"),
        ('[campaign]', 'absolute = 1\n[campaign]', "units.absolute"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_key_path(old: str, new: str, message: str) -> None:
    with pytest.raises(DataError, match=r"problems? in the published figures") as caught:
        parsed(changed(old, new))
    assert str(caught.value).startswith("published.toml: ")
    assert message in str(caught.value)


def test_all_problems_are_named_at_once_and_broken_toml_too() -> None:
    with pytest.raises(DataError, match="2 problems in the published figures"):
        parsed(changed("blocks = 6", "blocks = 5").replace("runs = 24", "runs = 1"))
    with pytest.raises(DataError, match="not valid TOML"):
        parsed("[units")
    with pytest.raises(DataError, match="estimates: expected an array of tables"):
        parsed("estimates = [1]")


def test_a_file_that_cannot_be_read_is_named(tmp_path: object) -> None:
    from pathlib import Path

    with pytest.raises(DataError, match="published figures cannot be read"):
        published.read(Store(Path(str(tmp_path))), small.plan())


def test_the_figures_of_the_bundled_file_fit_its_plan() -> None:
    store = Store(CAMPAIGN)
    found = published.read(store, store.plan())
    assert {e.phase for e in found.estimates} == set(store.plan().phases)
    assert sum(e.ratio is not None for e in found.estimates) == 40
    assert sum(e.interval is not None for e in found.estimates) == 14


# ---- the t interval that is implied --------------------------------------------------------------------


def test_the_implied_interval_is_the_published_width_over_the_simulated_one() -> None:
    found = implied_t(0.663, (0.440, 0.858), 6)
    assert found is not None
    half = math.log(0.858 / 0.440) / 2
    for interval, width in ((found.narrowest, 0.70), (found.likely, 0.69), (found.widest, 0.63)):
        assert math.log(interval[1] / 0.663) == pytest.approx(half / width)
        assert interval[0] * interval[1] == pytest.approx(0.663**2)
    assert WIDTHS == {6: (0.63, 0.69, 0.70)}


def test_a_t_interval_computed_elsewhere_lies_in_the_band() -> None:
    """Six ratios whose t and percentile intervals were computed by other means than this project's."""
    found = implied_t(1.010716239, (0.9981786586, 1.022915616), 6)
    assert found is not None
    for end, narrow, wide in zip((0.9931789089, 1.028563238), found.narrowest, found.widest, strict=True):
        assert min(narrow, wide) - 5e-5 <= end <= max(narrow, wide) + 5e-5


def test_where_one_block_decides_t_is_wider_than_the_band() -> None:
    """V2 of the method: its third block is 1.30, and both intervals were computed elsewhere."""
    found = implied_t(1.055926996, (1.004876019, 1.149636081), 6)
    assert found is not None
    assert found.widest[0] > 0.9480235966 and found.widest[1] < 1.176111887


def test_the_narrowest_percentile_interval_beside_t_is_that_of_one_block() -> None:
    """Of one block alone: t has half width 2.5706 x 0.16667; three of six draws of it are the exact upper quantile."""
    logs = [0.0, 0.0, 0.0, 0.0, 0.0, 0.1]
    exact = intervals.percentile_exact([math.exp(log) for log in logs], 0.95)
    t = intervals.t_interval(logs, 0.95)
    assert exact and t
    share = math.log(exact[1] / exact[0]) / math.log(t[1] / t[0])
    assert share == pytest.approx(0.5 / (2 * 2.570581836 / 6), rel=1e-6)
    assert round(share, 2) == ONE_BLOCK < WIDTHS[6][0]


def test_how_many_widths_lie_in_the_band_and_what_lopsided_ones_come_from() -> None:
    """Simulated with normal noise: binomial noise of the first share is 0.5%."""
    logs = np.random.default_rng(391706).normal(0, 0.03, (3000, 6))
    ends = np.log(intervals.percentile_exact_many(np.exp(logs), 0.95))
    mean = logs.mean(axis=1)
    width = np.diff(ends)[:, 0] / np.diff(t_ends(logs, 0.95))[:, 0]
    low, median, high = WIDTHS[6]
    assert np.median(width) == pytest.approx(median, abs=0.005)
    assert np.mean((width >= low) & (width <= high)) == pytest.approx(IN_BAND, abs=0.02)
    assert np.mean(width < low) < 0.01
    leaning = np.array([lean(math.exp(m), (math.exp(a), math.exp(b))) for m, (a, b) in zip(mean, ends, strict=True)])
    squares = (logs - mean[:, np.newaxis]) ** 2
    largest = (squares / squares.sum(axis=1, keepdims=True)).max(axis=1)
    assert np.mean(largest[leaning > LOPSIDED] > 0.71) > 0.95
    assert np.median(width[leaning > LOPSIDED]) < median - 0.02


def test_how_many_lopsided_intervals_have_a_block_that_decides() -> None:
    """Simulated: about 660 of 20,000 lean so far, so that binomial noise of their share is 0.6%."""
    logs = np.random.default_rng(391706).normal(0, 0.03, (20_000, 6))
    ends = np.log(intervals.percentile_exact_many(np.exp(logs), 0.95))
    sides = np.abs(ends - logs.mean(axis=1, keepdims=True))
    squares = (logs - logs.mean(axis=1, keepdims=True)) ** 2
    largest = (squares / squares.sum(axis=1, keepdims=True)).max(axis=1)
    leaning = sides.max(axis=1) / sides.min(axis=1) > LOPSIDED
    assert np.mean(largest[leaning] > 0.71) == pytest.approx(OF_ONE_BLOCK, abs=0.012)


def test_how_lopsided_an_interval_is() -> None:
    assert lean(1.0, (0.5, 2.0)) == pytest.approx(1)
    assert lean(0.663, (0.440, 0.858)) == pytest.approx(math.log(0.663 / 0.440) / math.log(0.858 / 0.663))
    assert lean(1.0, (1.0, 1.1)) == math.inf


@pytest.mark.parametrize("blocks", [4, 8, "undefined"])
def test_other_numbers_of_blocks_imply_nothing(blocks: object) -> None:
    assert implied_t(0.9, (0.8, 0.95), blocks) is None


@pytest.mark.parametrize(
    ("ratio", "interval", "fate"),
    [
        (0.817, (0.768, 0.851), "excludes"),
        (0.663, (0.440, 0.858), "includes"),
        (0.991, (0.928, 1.084), "open"),
        (math.exp(-1.5), (math.exp(-2.5), math.exp(-0.5)), "depends"),
        (1.638, (1.603, 1.676), "excludes"),
    ],
)
def test_what_becomes_of_a_statement(ratio: float, interval: tuple[float, float], fate: str) -> None:
    assert then(interval, implied_t(ratio, interval, 6)) == fate


def test_without_an_interval_or_a_width_nothing_can_be_said() -> None:
    assert then(None, None) == "unknown"
    assert then((0.8, 0.9), None) == "unknown"


# ---- sentences ----------------------------------------------------------------------------------------


def told(phase: str, text: str = TEXT) -> list[str]:
    found = parsed(text)
    contrasts = [contrast.name for contrast in small.phase(phase).contrasts]
    metrics = [metric.unit for metric in small.phase(phase).metrics]
    return published_sentences.sentences(found.estimates_of(phase), contrasts, metrics)


def test_sentences_hold_the_published_digits_and_say_what_has_no_interval() -> None:
    assert told("A") == [
        "new takes 0.950 [0.931, 0.970] (Get) of old's mean time: the published interval lies below 1; 0.98 (Set): published as "
        "below 1 without an interval; over several cases together 0.95 to 0.98 (down 2-5%)."
    ]
    assert told("B") == [
        "on/off, time: 1.005 to 1.073 when one block is left out (Save), 1.36 in the block with the largest ratio (Save), the "
        "ratio itself is not among the figures here.",
        "on/off, bytes allocated: in words: fewer in every case.",
    ]


def test_a_range_that_stands_in_the_words_stands_once() -> None:
    assert "together 0.95 to 0.98 in all." in told("A", changed("down 2-5%", "0.95 to 0.98 in all"))[0]


def test_an_interval_that_includes_1_is_not_resolved() -> None:
    text = told("A", changed("ci = [0.931, 0.970]", "ci = [0.931, 1.020]"))[0]
    assert (
        "0.950 [0.931, 1.020] (Get) of old's mean time: the published interval includes 1, so that their data did not"
        in text
    )


def test_the_assessment_names_what_would_be_unresolved() -> None:
    found = parsed(changed("ci = [0.931, 0.970]", "ci = [0.905, 0.999]"))
    assert published_sentences.assessment(found.estimates_of("A"), 6) == [
        "2 ratios were published, 1 of them with an interval.",
        "1 of these excludes 1. By the t interval that each implies (approximate), none still would; 1 would include 1 and be "
        "unresolved: new/old mean time on Get (0.950 [0.905, 0.999]).",
        "Published as below 1 without an interval, so that it cannot be assessed: new/old time on Set (0.98).",
    ]
    assert (
        "The number of blocks is not defined" in published_sentences.assessment(found.estimates_of("A"), "undefined")[1]
    )
    assert "not simulated at 8 blocks" in published_sentences.assessment(found.estimates_of("A"), 8)[1]
    assert published_sentences.assessment(found.estimates_of("B"), 6) == ["No ratio was published."]


def test_thousands_are_apart_and_digits_stay() -> None:
    assert published_sentences.number(Decimal("4080.20")) == "4\u202f080.20"


# ---- recomputed against published ----------------------------------------------------------------------


def estimate(case: str, point: float | None, **fields: object) -> Estimate:
    return replace(Estimate("A", case, "ns/op", "new/old", point), **fields)  # type: ignore[arg-type]


GET = estimate("Get", 0.9503, percentile=(0.9309, 0.97049))
SET = estimate("Set", 0.9759, percentile=(0.96, 0.99))
LEVELS = [
    Absolute("Get", "ns/op", "new", 4_080_249.0, 6),
    Absolute("Get", "ns/op", "old", 4_295_500.0, 6),
    Absolute("Set", "ns/op", "old", 171.6e6, 6),
]


def rows(estimates: Sequence[Estimate] = (GET, SET), phase: str = "A", text: str = TEXT) -> dict[str, Row]:
    return {row.what: row for row in compare(parsed(text), phase, estimates, LEVELS)}


@pytest.mark.parametrize(
    ("value", "text", "agrees"),
    [
        (0.9785, "0.978", True),  # half a unit itself
        (0.97850001, "0.978", False),
        (0.9775, "0.978", True),
        (0.97749999, "0.978", False),
        (0.4404, "0.440", True),
        (0.4404, "0.44", True),
        (0.4406, "0.440", False),
        (171.5, "171", True),
        (171.51, "171", False),
        (41250.6, "41250", False),
    ],
)
def test_half_a_unit_of_the_last_published_digit_is_rounding(value: float, text: str, agrees: bool) -> None:
    assert rounds_to(value, Decimal(text)) is agrees


def test_every_figure_is_compared_by_its_own_digits() -> None:
    found = rows()
    assert found["new/old ns/op, Get: ratio"].status == AGREES
    assert found["new/old ns/op, Get: lower end of the percentile interval"].status == AGREES
    assert found["new/old ns/op, Get: upper end of the percentile interval"].status == AGREES
    assert found["new/old ns/op, Set: ratio"].status == AGREES
    assert found["new/old ns/op, Set: interval below 1"].status == AGREES
    assert found["Get, new: us"].status == AGREES  # 4080.249 against 4080.2
    assert found["Get, old: us"].status == AGREES  # 4295.5 against 4295
    assert found["Set, old: ms/op"].status == DIFFERS  # 171.6 against 171
    assert found["Set, old: ms/op"].recomputed == pytest.approx(171.6)
    assert found["Set, new: ms/op"].status == UNKNOWN


def test_what_differs_is_named_and_random_numbers_are_told_apart() -> None:
    off = replace(GET, point=0.9506, percentile=(0.9309, 0.9708))
    found = rows((off, replace(SET, percentile=(0.96, 1.001))))
    assert found["new/old ns/op, Get: ratio"].status == DIFFERS
    upper = found["new/old ns/op, Get: upper end of the percentile interval"]
    assert (upper.status, upper.why) == (
        DIFFERS,
        "by 2.0% of the interval's width, which other random numbers can do by themselves",
    )
    assert found["new/old ns/op, Set: interval below 1"].status == DIFFERS
    far = rows((replace(GET, percentile=(0.9309, 0.99)), SET))
    assert far["new/old ns/op, Get: upper end of the percentile interval"].why == ""


def test_what_was_not_recomputed_says_why_and_is_no_number() -> None:
    warning = EstimateWarning("failed-runs", "The run of new in block 3 failed.")
    found = rows((estimate("Get", None, warnings=(warning,)),))
    assert found["new/old ns/op, Get: ratio"].status == UNKNOWN
    assert found["new/old ns/op, Get: ratio"].why == "The run of new in block 3 failed."
    assert found["new/old ns/op, Set: ratio"].why == "no estimate of this case and metric was recomputed"
    assert rows((replace(GET, point=math.nan), SET))["new/old ns/op, Get: ratio"].status == UNKNOWN
    assert rows(())["new/old ns/op, several cases: range"].status == UNKNOWN


def test_a_ratio_that_was_recomputed_without_blocks_says_so_where_it_differs() -> None:
    found = rows((replace(GET, point=0.96, percentile=None, paired=False), SET))["new/old ns/op, Get: ratio"]
    assert (found.status, found.why) == (
        DIFFERS,
        "recomputed without blocks: a ratio of the arms' means over all processes",
    )


def test_a_range_holds_every_case_but_those_published_outside_of_it() -> None:
    name = "new/old ns/op, several cases: range"
    assert rows()[name].status == AGREES
    found = rows((GET, replace(SET, point=0.99)))[name]
    assert found.status == DIFFERS and found.why == "outside: Set 0.9900; of 2 cases"
    apart = rows((GET, replace(SET, point=1.2)), text=changed("ratio = 0.98\nbelow_one = true", "ratio = 1.20"))
    assert apart[name].status == AGREES and apart[name].why == "of 1 cases"
    lost = rows((GET, estimate("Set", None)))[name]
    assert lost.why == "without an estimate: Set; of 1 cases"


def test_blocks_and_words() -> None:
    own = replace(
        estimate("Save", 1.04), contrast="on/off", leave_one_out=(1.0049, 1.03, None, 1.0731), ratios=(1.0, 1.364)
    )
    found = rows((own,), "B")
    assert [row.status for row in found.values()] == [AGREES, AGREES, AGREES, UNKNOWN]
    assert found["on/off B/op, several cases: words"].why == "published in words"
    assert {row.status for row in rows((), "B").values()} == {UNKNOWN}


def test_the_table_has_what_differs_first_and_the_sentences_count() -> None:
    found = list(rows().values())
    text = repr(published_check.table(found))
    statuses = [line.split("\t")[3].strip() for line in text.splitlines()[2:]]
    assert statuses == sorted(statuses, key=(DIFFERS, UNKNOWN, AGREES).index)
    assert "171.60" in text and "4\u202f080.249" in text
    sentences = published_check.sentences(found, remarks=1)
    assert sentences[0] == "10 published figures: 8 agree with what the adopted logs give, to rounding."
    assert sentences[1] == "1 differs by more than rounding: Set, old: ms/op."
    assert sentences[2] == "1 cannot be compared: Set, new: ms/op."
    assert sentences[3] == "1 remark with figures in running words was not compared."
    assert published_check.sentences([]) == ["No figure of this phase was published."]
    good = [row for row in found if row.status == AGREES]
    assert published_check.sentences(good[:1])[0] == (
        "1 published figure: 1 agrees with what the adopted logs give, to rounding."
    )
    assert "None differs by more than rounding." in published_check.sentences(good)
