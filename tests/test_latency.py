"""Latency logs: decoded as hdrh does, compared exactly with what a run printed, and drawn. One real campaign of them."""

from __future__ import annotations

import importlib
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text

from analysis import counts, drawing, figures_latency, hdr, latency, limits, null, tables
from analysis.model import Sample
from analysis.report import PhaseReport, open_report
from runner.errors import DataError
from tests import recorded
from tests.recorded import histogram, latencies, log

GROUPS = {"repeat-0-worker-0": [1000, 2000, 3_000_000], "repeat-1-worker-0": [1500, 2500, 900_000]}


def sample(metric: str, value: float, repeat: int = 0) -> Sample:
    return Sample("L", "get", "left", 1, 0, 0, repeat, metric, value, "runs/L/get/1-left/stdout.txt", 7)


def printed(groups: dict[str, list[int]]) -> list[Sample]:
    """What a harness would print of these latencies."""
    _, whole = log(groups)
    values = {f"p{p:g}-ns": float(whole.get_value_at_percentile(p)) for p in recorded.PERCENTILES}
    found = [sample(unit, value) for unit, value in values.items()] + [sample("max-ns", float(whole.get_max_value()))]
    means = [sum(values) / len(values) for values in groups.values()]
    return found + [sample("ns/op", mean, repeat) for repeat, mean in enumerate(means)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 60_000_000_000), min_size=1, max_size=40), st.floats(0.001, 100))
def test_percentiles_maximum_and_mean_are_those_of_hdrh(values: list[int], share: float) -> None:
    (decoded,) = hdr.read(log({"": values})[0], "log").values()
    made = histogram(values)
    shares = [share, 50, 90, 99, 99.9, 100]
    assert decoded.percentiles(shares).tolist() == [made.get_value_at_percentile(p) for p in shares]
    assert (decoded.total, decoded.maximum) == (len(values), made.get_max_value())
    assert decoded.mean == pytest.approx(made.get_mean_value(), rel=1e-12)


def test_intervals_of_several_repeats_and_workers_are_added() -> None:
    groups = {f"repeat-{r}-worker-{w}": latencies(10 * r + w) for r in range(3) for w in range(4)}
    data, whole = log(groups)
    found = hdr.read(data, "log")
    assert list(found) == list(groups)
    merged = hdr.merged(found.values())
    assert merged.total == 3600
    assert merged.percentiles([50, 99.9]).tolist() == [whole.get_value_at_percentile(p) for p in (50, 99.9)]
    repeats = latency.by_repeat(found)
    assert {repeat: one.total for repeat, one in repeats.items()} == {0: 1200, 1: 1200, 2: 1200}
    again = hdr.read(data + data, "log")  # the same tags twice: their intervals are added
    assert again["repeat-0-worker-0"].total == 600


def test_hdrhs_own_reader_reads_the_same(tmp_path: Path) -> None:
    from hdrh.log import HistogramLogReader

    data, whole = log({"repeat-0-worker-0": latencies(1), "repeat-0-worker-1": latencies(2)})
    (tmp_path / "latency.hlog").write_bytes(data)
    reader = HistogramLogReader(str(tmp_path / "latency.hlog"), histogram([]))
    found = hdr.read(data, "log")
    for tag, counts_of_tag in found.items():
        interval = reader.get_next_interval_histogram()
        assert (interval.get_tag(), interval.get_total_count()) == (tag, counts_of_tag.total)
        assert interval.get_value_at_percentile(90) == counts_of_tag.percentiles([90])[0]
    assert reader.get_next_interval_histogram() is None
    assert hdr.merged(found.values()).total == whole.get_total_count()


def test_what_the_clients_workload_writes_is_what_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "workloads"))
    writer = importlib.import_module("latency")  # the workload's own module: a file beside the harness
    intervals = [
        writer.Interval(f"repeat-{r}-worker-{w}", r * 10**9, (r + 1) * 10**9, latencies(10 * r + w, 500))
        for r in range(3)
        for w in range(8)
    ]
    path = tmp_path / hdr.LOG
    told = writer.summary(writer.write_log(str(path), intervals))
    found = [sample(unit, float(value)) for unit, value in told.items()]
    for repeat in range(3):
        group = [v for i in intervals if i.tag.startswith(f"repeat-{repeat}-") for v in i.times_ns]
        found.append(sample("ns/op", float(f"{sum(group) / len(group):.1f}"), repeat))
    assert {s.metric for s in found} == {*latency.PERCENTILES, latency.MAXIMUM, latency.MEAN}
    latency.compare(hdr.read(path.read_bytes(), "log"), found, "log")
    for name in ("latency", "common"):  # other tests may import files of these names from elsewhere
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("data", "where", "problem"),
    [
        (b"", "log", "no histogram"),
        (b"#a comment\nnonsense\n", "log:2", "not a line of a histogram log"),
        (b"0.0,1.0,2.0,HISTFAAAABxxxx\n", "log:1", "does not decode"),
        (log({"": [1]})[0][:-20] + b"\n", "log:3", "does not decode"),
    ],
)
def test_a_broken_log_is_named_with_its_line(data: bytes, where: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        hdr.read(data, "log")
    assert str(caught.value).startswith(where)


def test_what_follows_from_the_log_is_accepted() -> None:
    latency.compare(hdr.read(log(GROUPS)[0], "log"), printed(GROUPS), "log")


@pytest.mark.parametrize("metric", ["p50-ns", "p90-ns", "p99-ns", "p99.9-ns", "max-ns"])
def test_a_percentile_that_is_one_off_is_an_error_with_both_values(metric: str) -> None:
    values = [replace(s, value=s.value + 1) if s.metric == metric else s for s in printed(GROUPS)]
    expected = next(s.value for s in printed(GROUPS) if s.metric == metric)
    with pytest.raises(DataError, match=f"{metric} does not follow from this log") as caught:
        latency.compare(hdr.read(log(GROUPS)[0], "runs/latency.hlog"), values, "runs/latency.hlog")
    text = str(caught.value)
    assert "runs/latency.hlog" in text
    assert f"{expected:.0f} ns" in text
    assert f"{expected + 1:.0f} at runs/L/get/1-left/stdout.txt:7" in text


def test_a_mean_may_differ_by_the_precision_and_no_more() -> None:
    histograms = hdr.read(log(GROUPS)[0], "log")
    means = [s for s in printed(GROUPS) if s.metric == "ns/op"]
    latency.compare(histograms, [replace(s, value=s.value * 1.0004) for s in means], "log")
    with pytest.raises(DataError, match="ns/op does not follow from this log"):
        latency.compare(histograms, [means[0], replace(means[1], value=means[1].value * 1.002)], "log")
    with pytest.raises(DataError, match="no histogram of repeat 2"):
        latency.compare(histograms, [replace(means[0], repeat=2)], "log")
    untagged = hdr.read(log({"": GROUPS["repeat-0-worker-0"]})[0], "log")
    latency.compare(untagged, [means[0]], "log")


def test_a_curve_is_solid_while_ten_samples_lie_beyond() -> None:
    whole = hdr.merged(hdr.read(log({"": latencies(1, 2000)})[0], "log").values())
    assert figures_latency.solid_until(whole) == pytest.approx(figures_latency.nines(99.5))
    places, values = figures_latency.points(whole, 4.0)
    assert values == sorted(values)
    assert places[0] == pytest.approx(0.3)


# ---- a real campaign


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> PhaseReport:
    campaign = recorded.write(tmp_path_factory.mktemp("recorded"), cache)
    campaign.does("seal")
    campaign.does("run")
    return open_report(campaign.folder, "L")


def test_the_percentiles_of_every_run_are_recomputed(report: PhaseReport) -> None:
    assert latency.check(report) == (
        "Every percentile of 6 runs was recomputed from its latency.hlog, 7\u202f200 latencies in all: p50-ns, p99.9-ns "
        "and max-ns are exactly as printed; the mean ns/op agrees within the histogram's precision of 0.1%."
    )


def test_a_run_that_printed_another_percentile_is_found(report: PhaseReport) -> None:
    changed = tuple(
        replace(s, value=s.value + 1) if (s.metric, s.arm, s.block) == ("max-ns", "right", 2) else s
        for s in report.data.samples
    )
    with pytest.raises(DataError, match="max-ns does not follow") as caught:
        latency.check(replace(report, data=replace(report.data, samples=changed)))
    assert "runs/L/get/2-right/latency.hlog" in str(caught.value)


def test_a_changed_log_is_found_by_its_digest(report: PhaseReport, tmp_path: Path) -> None:
    shutil.copytree(report.store.folder, tmp_path / "recorded")
    path = tmp_path / "recorded" / "runs" / "L" / "get" / "1-left" / "latency.hlog"
    path.write_bytes(path.read_bytes() + b"#\n")
    with pytest.raises(DataError, match="not the file that the journal recorded"):
        latency.check(open_report(tmp_path / "recorded", "L"))


def test_a_phase_without_logs_says_so(report: PhaseReport) -> None:
    other = open_report(report.store.folder, "T")
    for call in (latency.check, figures_latency.curves):
        with pytest.raises(DataError, match="no case of this phase writes a latency log"):
            call(other)
    with pytest.raises(DataError, match="no contrast of this phase compares an arm with itself"):
        null.summary(other)


def words(picture: drawing.Picture) -> list[str]:
    return [text.get_text() for text in picture.narrow.findobj(Text) if text.get_text()]


def pictures(report: PhaseReport) -> dict[str, drawing.Picture]:
    return {
        "curves": figures_latency.curves(report),
        "counts": counts.figure(report),
        "null": null.figure(report),
    }


def test_pictures_fit_a_phone_and_are_the_same_again(report: PhaseReport) -> None:
    again = pictures(report)
    for name, picture in pictures(report).items():
        assert picture.narrow.get_figwidth() * 96 <= 328, name
        for figure in (picture.wide, picture.narrow):
            figure.draw_without_rendering()
            for text in figure.findobj(Text):
                if text.get_text().strip() and text.get_visible():
                    box = text.get_window_extent()
                    beyond = max(-box.x0, box.x1 - figure.bbox.x1, -box.y0, box.y1 - figure.bbox.y1)
                    assert beyond <= 1, f"{name}: {text.get_text()!r} at {box}"
        shown = [text for text in picture.narrow.findobj(Text) if text.get_text()]
        assert min(float(text.get_fontsize()) for text in shown) * 96 / 72 >= 10, name
        assert drawing.svg(picture.wide) == drawing.svg(again[name].wide), name


def test_curves_have_a_panel_for_each_case_with_a_log(report: PhaseReport) -> None:
    picture = figures_latency.curves(report)
    assert len(picture.wide.axes) == 1
    assert {"50", "90", "99", "99.9", "99.99", "get", "left", "right"} <= set(words(picture))
    assert "get: left p50 " in picture.alt
    assert "p99 " in picture.alt
    dashed = [line for line in picture.wide.axes[0].lines if line.get_linestyle() == "--"]
    assert len(dashed) == 2  # each arm's tail


def test_only_measured_pairs_have_estimates_rows_and_claims(report: PhaseReport) -> None:
    pairs = {(e.case, e.metric) for e in report.estimates}
    assert pairs == {(case, metric) for case, metrics in report.measured.items() for metric in metrics}
    assert ("codec", "p50-ns") not in pairs
    assert len([e for e in report.estimates if e.holm_p is not None]) == 3
    (claim,) = report.claims
    assert (claim.status, len(claim.evidence)) == ("supported", 1)
    assert not [w for e in report.estimates for w in e.warnings if w.kind in ("failed-runs", "covariate")]
    assert "Measured by get only." in next(t for t in limits.metric_scopes(report) if t.startswith("p50-ns"))


def test_counts_show_a_value_or_a_range(report: PhaseReport) -> None:
    found = {(c.covariate, c.case, c.arm): c.text for c in counts.counts_of(report.phase, report.runs)}
    assert found["statements-per-op", "get", "left"] == "2"
    assert found["statements-per-op", "codec", "right"] == "3 to 4"
    assert found["bytes-per-op", "get", "left"] == "1\u202f234\u202f567"
    text = repr(counts.table(report))
    assert "left: 2 different values in 3 good runs; right: 2 different values in 3 good runs" in text
    assert "the same in all good runs" in text
    assert counts.sentences(report) == [
        "Not the same in all good runs, so shown as a range: statements-per-op of left on codec (3 to 4 statements); "
        "statements-per-op of right on codec (3 to 4 statements)."
    ]
    alt = counts.figure(report).alt
    assert "statements-per-op in statements: get left 2, right 2; codec left 3 to 4, right 3 to 4." in alt
    first, second = counts.figure(report).wide.axes
    assert (first.get_xscale(), second.get_xscale()) == ("linear", "log")


def test_null_contrasts_are_summed_up(report: PhaseReport) -> None:
    found = null.summary(report)
    assert report.null_contrasts == ["right/left"]
    assert [metric.metric for metric in found.metrics] == report.metrics
    assert found.intervals == 5  # ns/op of two cases, three metrics of the log; counts are the same in both arms
    assert found.metrics[-1].without == ("right/left codec",)


def test_limits_of_clients_name_the_closed_loop_and_the_lock(report: PhaseReport) -> None:
    first, second = limits.clients(report)
    assert "closed loop" in first and "coordinated omission" in first
    assert second.startswith("4 workers are threads of one CPython process in get: they share its interpreter lock")
    told = limits.computed_limits(report)
    assert {first, second} <= set(told)
    assert limits.clients(open_report(report.store.folder, "T")) == []


def test_the_page_has_no_row_for_a_pair_that_is_not_planned(report: PhaseReport) -> None:
    settings: dict[str, Any] = {"cases": report.cases, "metrics": report.metrics, "measured": report.measured}
    table = repr(tables.results(report.estimates, "right/left", primary="t", **settings))
    levels = repr(tables.absolutes(report.absolutes, arms=report.arms, **settings))
    for text in (table, levels):
        assert len(text.splitlines()) >= 2 + 6
        assert "No estimate was computed" not in text
        assert "no value" not in text
