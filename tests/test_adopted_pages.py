"""Adopted logs from files to pages: real Go output without blocks, and a bundled phase's own logs with them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from scipy import stats

from analysis import adopted_limits, exports, limits, page, page_design
from analysis.drawing import Picture
from analysis.labels import check_labels
from analysis.page_parts import Section
from analysis.report import PhaseReport, open_report
from runner.errors import DataError
from runner.store import Labels, Store
from tests.bundled import CAMPAIGN, ROOT

LOGS = ROOT / "tests" / "logs" / "codec"  # of two commits of the module in tests/gomodule.py, six processes each
CASES = ("LoadRecord", "ScanIndexRecords/serial")
SECTIONS = ("answer", "results", "specific", "interpretation", "limits", "evidence", "reproduce")
ADOPTED = "adopted, not executed here"


def adopt(logs: Path, campaign: Path, *maps: str, more: tuple[str, ...] = ()) -> Path:
    """Take logs into a campaign with the real command."""
    named = [word for one in maps for word in ("--map", one)]
    argv = [sys.executable, "-m", "runner", "adopt", str(logs), "--into", str(campaign), *named, *more]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return campaign


def bundled_logs(folder: Path, name: Callable[[Labels], str], phase: str = "B", cases: tuple[str, ...] = CASES) -> Path:
    """The raw outputs of some cases of a bundled phase, under other names."""
    store = Store(CAMPAIGN)
    for labels in store.orders():
        if labels.phase == phase and labels.case in cases:
            target = folder / name(labels)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(store.run_folder(labels) / "stdout.txt", target)
    return folder


def by_block(labels: Labels) -> str:
    return f"{labels.phase}/{labels.case.replace('/', '%2F')}/{labels.block}-{labels.arm}/stdout.txt"


def by_place(labels: Labels) -> str:
    case = labels.case.replace("/", "%2F")
    return f"{labels.phase}/{case}/{labels.block}/{labels.arm}/{labels.position}/{labels.sequence}.txt"


BLOCKS = "{phase}/{case}/{block}-{arm}/stdout.txt"
PLACES = "{phase}/{case}/{block}/{arm}/{position}/{sequence}.txt"


@pytest.fixture(scope="module")
def unpaired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adopt(LOGS, tmp_path_factory.mktemp("u") / "codec-logs", "before.txt:arm=before", "after.txt:arm=after")


@pytest.fixture(scope="module")
def paired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("p")
    logs = bundled_logs(folder / "logs", by_block)
    return adopt(logs, folder / "b-logs", BLOCKS, more=("--contrast", "final/before"))


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("o")
    logs = bundled_logs(folder / "logs", by_place)
    return adopt(logs, folder / "o-logs", PLACES, more=("--contrast", "final/before"))


@pytest.fixture(scope="module")
def open_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled plan with much of it undefined, into which logs of two cases of its phase B were taken."""
    folder = tmp_path_factory.mktemp("q")
    campaign = folder / "open-plan"
    campaign.mkdir()
    text = (CAMPAIGN / "plan.toml").read_text().replace(f'id = "{CAMPAIGN.name}"', 'id = "open-plan"')
    text = text[: text.index("[short]")]
    keys = ("primary", "level", "resamples", "seed", "payload_seed", "order_seed", "blocks", "repeats", "busy_block",
            "wrong_answer", "calibration_ratio", "quiet_wait_s")  # fmt: skip
    text = re.sub(rf"(?m)^({'|'.join(keys)}) = [^\n#]*", r'\1 = "undefined"', text)
    text = re.sub(r"(expected_s|delay_us) = [0-9.]+", r'\1 = "undefined"', text)
    text = re.sub(r'better = "[a-z]+"', 'better = "undefined"', text)
    (campaign / "plan.toml").write_text(text)
    shutil.copytree(CAMPAIGN / "trees", campaign / "trees")  # without its lock files nobody would know what a tree is
    return adopt(bundled_logs(folder / "logs", by_block), campaign, BLOCKS)


@pytest.fixture(scope="module")
def without_blocks(unpaired: Path) -> PhaseReport:
    return open_report(unpaired, "A")


@pytest.fixture(scope="module")
def with_blocks(paired: Path) -> PhaseReport:
    return open_report(paired, "B")


def shown(report: PhaseReport) -> str:
    return "\n".join(repr(getattr(page, name)(report)) for name in SECTIONS)


def headings(report: PhaseReport) -> list[str]:
    whole = "".join(str(getattr(page, name)(report)) for name in SECTIONS)
    return re.findall(r"<h3[^>]*>(.*?)</h3>", whole)


def pictures(part: Section) -> list[Picture]:
    found: list[Picture] = []
    for piece in part.parts:
        if isinstance(piece, Picture):
            found.append(piece)
        elif isinstance(piece, Section):
            found += pictures(piece)
    return found


def orders_of(figure: Picture) -> set[str]:
    """What the alt text of an order map says of each case."""
    return set(figure.alt.partition(". ")[2].removesuffix(".").split("; "))


def copy(campaign: Path, parent: Path) -> Path:
    return shutil.copytree(campaign, parent / campaign.name)


# ---- numbers


def medians(arm: str) -> dict[tuple[str, str], list[float]]:
    """Medians of each process's repeats by case and metric, from the file without any code of ours."""
    processes = (LOGS / f"{arm}.txt").read_text().split("PASS\n")[:-1]
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for text in processes:
        values: dict[tuple[str, str], list[float]] = defaultdict(list)
        for name, ns, size, count in re.findall(
            r"^Benchmark(\S+)-2\s+\d+\s+(\S+) ns/op\s+(\d+) B/op\s+(\d+) allocs/op", text, re.M
        ):
            for unit, value in (("ns/op", ns), ("B/op", size), ("allocs/op", count)):
                values[name, unit].append(float(value))
        for key, repeats in values.items():
            found[key].append(median(repeats))
    return found


@pytest.mark.filterwarnings("ignore:Precision loss occurred:RuntimeWarning")  # scipy's, on counts without a spread
def test_unpaired_estimates_are_scipys_from_the_raw_text(without_blocks: PhaseReport) -> None:
    before, after = medians("before"), medians("after")
    assert len(before) == len(without_blocks.estimates) == 6
    for e in without_blocks.estimates:
        x, y = np.log(after[e.case, e.metric]), np.log(before[e.case, e.metric])
        assert (e.contrast, e.processes, len(x), len(y)) == ("after/before", (6, 6), 6, 6)
        assert e.point == pytest.approx(np.exp(x.mean() - y.mean()), rel=1e-12)
        if e.t:
            ends = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
            assert np.log(e.t) == pytest.approx([ends.low, ends.high], rel=1e-10)
        else:
            assert max(np.ptp(x), np.ptp(y)) < 1e-12
            assert "no-spread" in [warning.kind for warning in e.warnings]
    values = {(a.case, a.metric, a.arm): a.value for a in without_blocks.absolutes}
    assert values["Encode/size=512", "ns/op", "after"] == median(after["Encode/size=512", "ns/op"])


def test_paired_estimates_are_those_of_the_campaign_that_executed_them(with_blocks: PhaseReport) -> None:
    own = {(e.case, e.metric, e.contrast): e for e in open_report(CAMPAIGN, "B").estimates}
    assert len(with_blocks.estimates) == 6
    for e in with_blocks.estimates:
        same = own[e.case, e.metric, e.contrast]
        assert (e.point, e.t, e.p, e.range, e.percentile_exact) == (
            same.point,
            same.t,
            same.p,
            same.range,
            same.percentile_exact,
        )
        assert (e.leave_one_out, e.blocks, e.ratios, e.paired) == (same.leave_one_out, same.blocks, same.ratios, True)


def test_drift_is_looked_for_only_where_the_order_is_known(tmp_path: Path) -> None:
    contrast = "before-remote/before-ordinary"
    texts = {}
    for name, order, pattern in (("known", by_place, PLACES), ("unknown", by_block, BLOCKS)):
        logs = bundled_logs(tmp_path / f"{name}-logs", order, "C1", ("Small10",))
        campaign = adopt(logs, tmp_path / name, pattern, more=("--contrast", contrast))
        report = open_report(campaign, "C1")
        texts[name] = [w.text for e in report.estimates for w in e.warnings if w.kind == "drift"]
    own = [e for e in open_report(CAMPAIGN, "C1").estimates if (e.case, e.contrast) == ("Small10", contrast)]
    expected = [w.text for e in own for w in e.warnings if w.kind == "drift"]
    assert expected
    assert texts == {"known": expected, "unknown": []}


def test_as_data_it_is_complete(unpaired: Path, without_blocks: PhaseReport) -> None:
    argv = [sys.executable, "-m", "analysis", "estimates", str(unpaired), "--phase", "A", "--format"]
    out = {
        form: subprocess.run([*argv, form], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for form in exports.FORMATS
    }
    found = json.loads(out["json"])["estimates"]
    assert [(e["paired"], e["processes"], e["percentile"]) for e in found] == [(False, [6, 6], None)] * 6
    assert out["csv"].splitlines()[0].endswith("warnings,paired,numerator_processes,denominator_processes")
    assert out["csv"].splitlines()[1].endswith("false,6,6")
    assert "| ratio [Welch's t, unpaired] | processes |" in out["md"]
    assert len(out["md"].splitlines()) == 2 + len(without_blocks.estimates)


# ---- pages


def test_every_heading_says_where_the_runs_come_from(without_blocks: PhaseReport, with_blocks: PhaseReport) -> None:
    for report in (without_blocks, with_blocks):
        found = headings(report)
        assert len(found) >= 12
        assert all(ADOPTED in text for text in found)


def test_a_page_without_blocks(without_blocks: PhaseReport) -> None:
    text = shown(without_blocks)
    assert "No blocks are known: arms were not paired, and the intervals are Welch's t." in text
    assert "2 of 2 unpaired Welch's t intervals exclude 1 (2 below)" in text
    assert "No blocks are known, so there is no ratio of a block to draw." in text
    assert "Median over processes of the runs' medians" in text
    assert "Unknown: the logs do not tell in which order the runs were made." in text
    assert "unknown: the runs were not executed here" in text
    assert "undefined: repository, commit" in text
    assert "covers about" not in text
    assert "leave one out" not in text
    assert "seed\tnone: nothing is resampled" in text
    assert "blocks, as planned\tundefined" in text
    assert len(pictures(page.answer(without_blocks))) == 1
    assert pictures(page.results(without_blocks)) == pictures(page.evidence(without_blocks)) == []


def test_limits_name_every_unknown(without_blocks: PhaseReport) -> None:
    found = limits.computed_limits(without_blocks)
    assert found[0].startswith("Adopted, not executed here: the logs were made elsewhere")
    assert all(text.endswith(".") for text in found)
    for start in (
        "The adopted logs show 24 runs of this phase, all with a result.",
        "Blocks are unknown: no run of one arm belongs to a run of the other.",
        "2 of 2 files hold several cases. Cases that one process measured share what happened to it",
        "The order of the runs is unknown",
        "The host is unknown",
        "What was around the processes is unknown",
        "Whether a server took part",
        "What code was executed is unknown",
        "Nothing was preregistered with us",
    ):
        assert [text for text in found if text.startswith(start)], start
    shared = limits.shared(without_blocks.plan, {"A": without_blocks})
    assert "Without known blocks, so without paired estimates: phase A." in shared


def test_a_page_with_blocks_and_without_an_order(with_blocks: PhaseReport) -> None:
    text = shown(with_blocks)
    assert "Arms are paired by the blocks that the names of the files tell." in text
    assert (
        "The order of the runs is unknown, so blocks are not drawn in run order and nothing is said of drift." in text
    )
    assert "percentile interval (nominal 95%, covers about 86% at six blocks)" in text
    assert "6 blocks give limited resolution" in text
    assert "That the runs of one block were made one after the other is not known" in text
    assert "hold several cases" not in text
    assert "whether the host drifted while they were made" in text
    assert "B = 6: " in text
    assert pictures(page.results(with_blocks)) == []


def test_a_page_with_blocks_and_order_has_their_figures(ordered: Path) -> None:
    report = open_report(ordered, "B")
    own = open_report(CAMPAIGN, "B")
    (blocks,) = pictures(page.results(report))
    assert blocks.alt.startswith("ns/op ratio final/before of each block in run order. LoadRecord: block 1")
    (order,) = pictures(page.evidence(report))
    assert orders_of(order) == {row for row in orders_of(page_design.order_map(own)) if row.startswith(CASES)}
    assert len(orders_of(order)) == len(CASES)
    told = limits.computed_limits(report)
    assert not [text for text in told if text.startswith("The order of the runs is unknown") or "one after the" in text]


def test_a_number_of_blocks_that_was_not_simulated_is_not_called_simulated(with_blocks: PhaseReport) -> None:
    few = tuple(replace(e, blocks=e.blocks[:3], ratios=e.ratios[:3]) for e in with_blocks.estimates)
    for blocks, there in ((few, False), (with_blocks.estimates, True)):
        told = adopted_limits.blocks(replace(with_blocks, estimates=blocks))
        assert ("(simulated, under normal block noise)" in told) is there
    assert "coverage not measured at three blocks." in adopted_limits.blocks(replace(with_blocks, estimates=few))


@pytest.mark.parametrize("phase", ["A", "B", "C3", "N"])
def test_a_plan_that_leaves_much_open_has_a_page(open_plan: Path, phase: str) -> None:
    report = open_report(open_plan, phase)
    text = shown(report) + "".join(repr(part(report)) for part in (page.latency, page.counts, page.delay, page.null))
    assert "The plan does not define primary, level, resamples and seed; chosen here" in text
    assert "Which code was executed is what the plan says; nobody verified here that it was" in text
    assert "Latency histograms are not known of these runs" in text
    assert "blocks, as planned\tundefined" in text
    assert all(ADOPTED in heading for heading in headings(report))
    assert all(form(report) for form in exports.FORMATS.values())
    if phase == "B":
        assert "B1 (" not in text
        statuses = {claim.id: claim.status for claim in report.claims}
        assert statuses["B1"] == "supported"
        assert statuses["B6"] == "not-evaluable"
        assert "claims of the plan, not preregistered with us" in text
    else:
        assert "none of this phase: nothing is computed" in text
        assert "No log of this phase was taken in." in text
        assert {e.point for e in report.estimates} == {None}


@pytest.mark.parametrize("notebook", ["phase.ipynb", "phase_b.ipynb"])
def test_the_notebooks_execute(paired: Path, tmp_path: Path, notebook: str) -> None:
    out = tmp_path / "out.ipynb"
    phase = ("-p", "phase", "B") if notebook == "phase.ipynb" else ()
    argv = [sys.executable, "-m", "papermill", f"notebooks/{notebook}", str(out), "--no-progress-bar"]
    done = subprocess.run(
        [*argv, "-p", "campaign", str(paired), *phase], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ADOPTED in out.read_text()


# ---- what is not as it was recorded


def test_labels_hold_and_say_what_witnesses_them(unpaired: Path) -> None:
    store = Store(unpaired)
    found = check_labels(store, store.plan())
    assert found.hold
    assert found.rows == found.rows_expected == 2 * 6 * 2 * 3 * 3
    assert "nothing else witnesses them" in found.sentence()


@pytest.mark.parametrize("name", ["plan.toml", "adoption.json", "adopted/before.txt"])
def test_a_changed_file_is_not_shown(unpaired: Path, tmp_path: Path, name: str) -> None:
    campaign = copy(unpaired, tmp_path)
    path = campaign / name
    path.write_bytes(path.read_bytes().replace(b"Encode", b"Encodf", 1))
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        open_report(campaign, "A")


def test_a_changed_row_of_the_aggregate_is_found(unpaired: Path, tmp_path: Path) -> None:
    campaign = copy(unpaired, tmp_path)
    path = campaign / "metrics.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], lines[1].replace("after", "before"), *lines[2:]]))
    with pytest.raises(DataError, match="2 labels do not hold"):
        open_report(campaign, "A")


def test_a_failed_process_and_another_host_are_named(tmp_path: Path) -> None:
    logs = shutil.copytree(LOGS, tmp_path / "logs")
    header = "goos: linux\ngoarch: amd64\npkg: example.org/codec/codec\ncpu: Another\n"
    result = "BenchmarkEncode/size=512-2\t2000\t1900 ns/op\t3319 B/op\t8 allocs/op\n"
    with (logs / "after.txt").open("a") as file:
        file.write(f"{header}{result}panic: out of memory\nexit status 2\nFAIL\n")
    campaign = adopt(logs, tmp_path / "failed-logs", "before.txt:arm=before", "after.txt:arm=after")
    report = open_report(campaign, "A")
    found = next(e for e in report.estimates if (e.case, e.metric) == ("Encode/size=512", "ns/op"))
    assert found.processes == (6, 6)
    texts = [warning.text for warning in found.warnings if warning.kind == "failed-runs"]
    assert texts
    assert "after in process 7 (failed: " in texts[0]
    assert "panic: out of memory" in texts[0]
    assert "after.txt:" not in texts[0]
    assert re.search(r"Runs without a result\n.*\nEncode/size=512\tafter\t7\tafter\.txt:\d+: ", shown(report))
    told = limits.computed_limits(report)
    assert [text for text in told if "1 of them without a result" in text]
    (hosts,) = adopted_limits.hosts_differ(report)
    assert "cpu (after: " in hosts
    assert "Another; before: " in hosts


# ---- figures that were published


def test_without_published_figures_nothing_is_checked(without_blocks: PhaseReport) -> None:
    title, has, _ = page.SPECIFIC[-1]
    assert not has(without_blocks)
    for part in (page.specific, page.results):
        assert title not in repr(part(without_blocks))


def test_where_the_time_went_is_not_zero_but_unknown(unpaired: Path) -> None:
    argv = [sys.executable, "-m", "analysis", "times", str(unpaired), "--phase", "A"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "where the time of adopted runs went is unknown" in done.stderr
    assert done.stdout == ""


def test_a_host_that_came_along_is_shown_and_said_to_be_unverified(tmp_path: Path) -> None:
    logs = shutil.copytree(LOGS, tmp_path / "logs")
    shutil.copyfile(CAMPAIGN / "host.json", logs / "host.json")
    maps = ("before.txt:arm=before", "after.txt:arm=after", "host.json:as=host")
    report = open_report(adopt(logs, tmp_path / "host-logs", *maps), "A")
    text = shown(report)
    assert "The host is the one of a record that came with the logs" in text
    assert "The host is unknown" not in text
    identity = json.loads((CAMPAIGN / "host.json").read_text())["identity"]
    assert f"CPU\t{identity['cpu_model']}, CPUs {identity['cpus']}" in text


def test_a_host_of_which_little_came_along_is_unknown_in_the_rest(tmp_path: Path) -> None:
    logs = shutil.copytree(LOGS, tmp_path / "logs")
    (logs / "host.json").write_text('{"identity": {"kernel": "6.1"}, "details": {}}')
    maps = ("before.txt:arm=before", "after.txt:arm=after", "host.json:as=host")
    text = shown(open_report(adopt(logs, tmp_path / "host-logs", *maps), "A"))
    assert "CPU\tunknown, CPUs unknown" in text
    assert "kernel 6.1" in text


def test_a_plan_with_the_percentile_interval_in_front_is_not_followed_without_blocks(tmp_path: Path) -> None:
    made = adopt(LOGS, tmp_path / "codec-logs", "before.txt:arm=before", "after.txt:arm=after")
    campaign = tmp_path / "again" / "codec-logs"
    campaign.mkdir(parents=True)
    text = (made / "plan.toml").read_text().replace('primary = "t"', 'primary = "percentile"')
    claim = (
        '[[phases.A.claims]]\nid = "A1"\ntext = "Less."\nmetric = "ns/op"\ncontrast = "after/before"\ncases = "all"\n'
    )
    (campaign / "plan.toml").write_text(f'{text}\n{claim}holds = "below-1"\n')
    report = open_report(adopt(LOGS, campaign, "before.txt:arm=before", "after.txt:arm=after"), "A")
    assert report.primary == "t"
    assert [claim.status for claim in report.claims] == ["not-evaluable"]
    assert "since no blocks are known that it could be over" in report.claims[0].reason
    assert "The plan has the percentile interval lead, which cannot be had." in adopted_limits.blocks(report)
    assert "Of 1 claim of the plan, not preregistered with us: 1 not evaluable (A1)." in repr(page.answer(report))


def test_the_method_of_each_phase_is_told(without_blocks: PhaseReport, with_blocks: PhaseReport) -> None:
    (both,) = adopted_limits.method(with_blocks.plan, {"A": without_blocks, "B": with_blocks})
    assert "In phase B the blocks are known" in both
    assert "In phase A no blocks are known" in both
    assert "Welch's t, unpaired, at level 0.95" in both


@pytest.mark.parametrize("command", [("estimates", "--phase", "A"), ("labels",), ("claims",)])
def test_published_figures_without_logs_are_no_estimates(
    unpaired: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    campaign = tmp_path / unpaired.name
    campaign.mkdir()
    shutil.copyfile(unpaired / "plan.toml", campaign / "plan.toml")
    (campaign / "published.toml").write_text("")
    name, *options = command
    argv = [sys.executable, "-m", "analysis", name, str(campaign), *options]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "published figures and no raw logs" in done.stderr
    assert done.stdout == ""
