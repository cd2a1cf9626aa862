"""Trees from commits: real Go commits built, sealed, executed and estimated from start to end."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from analysis import overview, page
from analysis.report import PhaseReport, open_report
from runner.templates import each, go_bench
from tests import gomodule
from tests.campaigns import PROJECT, Campaign

CLAIMS = """
  { id = "G1", text = "Less.", metric = "B/op", contrast = "lean/same", cases = "all", holds = { point_within = [0.1, 0.7] } },
  { id = "G2", text = "Is slower.", metric = "ns/op", contrast = "slow/lean", cases = "all", holds = "above-1" },
"""
HARNESS = PROJECT / "tests" / "harness" / "codec_test.go"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("module") / "repository"


@pytest.fixture(scope="module")
def commits(repository: Path) -> dict[str, str]:
    return gomodule.make(repository)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, repository: Path, commits: dict[str, str]) -> Campaign:
    """Four commits compared from start to end. Its cache is its own: a Go build cache is no part of the shared one."""
    folder = tmp_path_factory.mktemp("go")
    campaign = gomodule.campaign(
        folder, folder / "cache", repository, commits, blocks=4, few="2000x", time="0.02s", claims=CLAIMS
    )
    said = campaign.does("seal", environment=gomodule.with_go())
    assert "warning: phase G: trees base and same were built to the same binaries, byte for byte" in said.stderr
    campaign.does("run", environment=gomodule.with_go())
    return campaign


@pytest.fixture(scope="module")
def report(done: Campaign) -> PhaseReport:
    return open_report(done.folder, "G")


def sealed(campaign: Campaign) -> dict[str, dict[str, object]]:
    trees: dict[str, dict[str, object]] = json.loads((campaign.folder / "seal.json").read_text())["trees"]
    return trees


def test_every_process_measured_its_case_alone(done: Campaign) -> None:
    records = [done.record(labels) for labels in done.orders()]
    assert [record["outcome"] for record in records] == ["ok"] * 4 * 2 * 4
    for record in records:
        part = record["labels"]["case"].partition("/")[2]
        assert record["argv"][:3] == ["{binary}", "-test.run=^$", f"-test.bench=^BenchmarkEncode$/^{part}$"]
        assert record["argv"][3:] == [
            "-test.count=3", f"-test.benchtime={'2000x' if part == 'size=512' else '0.02s'}", "-test.benchmem"
        ]  # fmt: skip
        assert record["environment"]["GOMAXPROCS"] == "1"
        assert record["covariates"]["pkg"] == "example.org/codec/codec"


def test_both_differences_are_found_in_what_go_printed(report: PhaseReport) -> None:
    found = {(e.contrast, e.case, e.metric): e for e in report.estimates}
    for case in report.cases:
        lean = found["lean/same", case, "B/op"]
        assert lean.point < 0.7
        assert found["lean/same", case, "allocs/op"].point < 0.3
        assert found["same/base", case, "B/op"].point == 1
        assert found["slow/lean", case, "B/op"].point == 1
        slow = found["slow/lean", case, "ns/op"]
        assert slow.t is not None and slow.t[0] > 1.5
    assert {claim.id: claim.status for claim in report.claims} == {"G1": "supported", "G2": "supported"}


def test_the_seal_says_what_was_built_from_what(done: Campaign, commits: dict[str, str]) -> None:
    trees = sealed(done)
    go = hashlib.sha256((gomodule.go_folder() / "go").read_bytes()).hexdigest()
    harness = hashlib.sha256(HARNESS.read_bytes()).hexdigest()
    for name, identity in trees.items():
        assert identity["commit"] == commits[name]
        assert identity["overlay"] == {"codec/codec_test.go": harness}
        assert identity["toolchain"]["sha256"] == go  # type: ignore[index]
        assert identity["toolchain"]["version"].startswith("go version go1.")  # type: ignore[index]
        record = next(done.record(labels) for labels in done.orders() if labels["arm"] == name)
        assert record["digests"]["tree"] == identity["files_sha256"]
    binaries = {name: identity["binaries"]["codec.test"] for name, identity in trees.items()}  # type: ignore[index]
    assert binaries["base"] == binaries["same"]
    assert len(set(binaries.values())) == 3
    assert len({identity["files_sha256"] for identity in trees.values()}) == 4


def test_build_logs_lie_with_the_runner_as_run(done: Campaign) -> None:
    assert sorted(p.parent.name for p in done.folder.glob("as-run/trees/*/build.log")) == sorted(gomodule.ENTRIES)
    assert "as-run/trees/lean/build.log" in json.loads((done.folder / "seal.json").read_text())["files"]


def test_the_same_binary_is_a_warning(done: Campaign, report: PhaseReport) -> None:
    warning = "phase G: trees base and same were built to the same binaries, byte for byte"
    assert f"note: seal.json: warning: {warning}" in done.does("verify").stdout
    assert f"warning: {warning}" in done.does("check", environment=gomodule.with_go()).stdout
    assert warning in str(page.limits(report))


def test_pages_show_commit_toolchain_and_binary(report: PhaseReport, commits: dict[str, str]) -> None:
    trees = report.seal.content["trees"]
    for text in (str(page.evidence(report)), str(overview.tree_table(report.plan, report))):
        for name, commit in commits.items():
            assert commit in text
            assert trees[name]["binaries"]["codec.test"][:12] in text
        assert trees["base"]["toolchain"]["version"] in text
        assert "codec.test" in text and "Python" not in text.partition("How trees were built")[0]
    digest = hashlib.sha256(HARNESS.read_bytes()).hexdigest()
    assert "codec/codec_test.go in every checkout" in str(page.evidence(report))
    assert str(page.evidence(report)).count(digest) == 2  # as sealed, and as it lies in the checkouts


def test_a_build_that_is_gone_is_made_again_with_the_same_bytes(done: Campaign) -> None:
    shutil.rmtree(done.cache / "trees")
    lines = done.does("check", environment=gomodule.with_go()).stdout.splitlines()
    assert [line for line in lines if line.startswith("tree ")] == [f"tree {name}: ready" for name in gomodule.ENTRIES]
    made = {path.name.rpartition("-")[0]: path for path in (done.cache / "trees").iterdir() if path.is_dir()}
    for name, identity in sealed(done).items():
        binary = (made[name] / "bin" / "codec.test").read_bytes()
        assert {"codec.test": hashlib.sha256(binary).hexdigest()} == identity["binaries"]


@pytest.mark.parametrize(
    ("case", "pattern"),
    [
        ("Encode", "^BenchmarkEncode$"),
        ("Encode/size=512", "^BenchmarkEncode$/^size=512$"),
        ("A/b.c(d)/[e]|f", r"^BenchmarkA$/^b\.c\(d\)$/^\[e\]\|f$"),
        ("A/x-y+z*?{2}^$\\", r"^BenchmarkA$/^x-y\+z\*\?\{2\}\^\$\\$"),
    ],
)  # fmt: skip
def test_patterns_for_go(case: str, pattern: str) -> None:
    assert go_bench(case) == pattern


def test_each_value_is_a_field() -> None:
    table = {"rows": 3, "share": 0.5, "quick": True, "sizes": (1, 2), "time": "20x"}
    assert each("p", table) == {"p.rows": "3", "p.share": "0.5", "p.quick": "true", "p.sizes": "1,2", "p.time": "20x"}


def test_go_is_the_one_of_the_requirements() -> None:
    assert os.access(gomodule.go_folder() / "go", os.X_OK)
