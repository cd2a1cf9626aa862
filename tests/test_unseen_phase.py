"""A phase that the product has never seen, from a plan file and a harness alone: nothing of it is in the runner.

It also has what the bundled phases have each in part: a fixture, settings of the engine and a delay of its own, files that its
processes write, a case with another command, a metric that not every case measures.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from analysis.report import open_report
from runner.engines.postgres import binaries
from runner.store import Store
from runner.verify import verify
from tests import campaigns
from tests.campaigns import Campaign, alive, kill, wait_for

PHASE = """
[fixtures.entries]
what = "ten rows"
tree = "plain"
argv = ["{{python}}", "-B", "{{harness}}/unseen.py", "--case", "fixture", "--block", "0", "--parameters", "{{parameters}}"]
environment = {{ PSQL = "{psql}" }}
parameters = {{ rows = {rows}, fail = {fail} }}

[phases.Q7]
title = "Widgets"
question = "Does it take widgets?"
argv = ["{{python}}", "-B", "{{harness}}/unseen.py", "--case", "{{case}}", "--block", "{{block}}",
  "--parameters", "{{parameters}}", "--output", "{{output}}"]
environment = {{ PSQL = "{psql}" }}
outputs = ["notes.txt"]
fixture = "entries"
engine = {{ storage = "disk", settings = {{ fsync = "on" }} }}
network = {{ delay_us = 2000 }}
blocks = 2
repeats = 1
order_seed = 5
primary_metric = "widgets/op"
arms = [{{ name = "left", tree = "plain" }}, {{ name = "right", tree = "plain" }}]
metrics = [
  {{ unit = "widgets/op", better = "higher", per = "repeat", scope = "made up" }},
  {{ unit = "grams", better = "lower", per = "run", scope = "made up", cases = {{ all_but = ["Bare"] }} }},
]
contrasts = [{{ numerator = "right", denominator = "left", what = "the same under another name" }}]
holm = {{ metrics = ["widgets/op"], contrasts = ["right/left"] }}
covariates = [
  {{ name = "rows", expected = "constant", what = "rows that a process finds" }},
  {{ name = "fsync", expected = "constant", what = "whether commits are durable" }},
]
cases = [
  {{ name = "Whole", what = "everything", expected_s = 0.1, parameters = {{ file = "{file}" }} }},
  {{ name = "Bare", what = "no file, no grams", expected_s = 0.1, outputs = [], argv = ["{{python}}", "-B",
    "{{harness}}/unseen.py", "--case", "{{case}}", "--block", "{{block}}", "--parameters", "{{parameters}}"] }},
]
"""


def write(
    tmp_path: Path, cache: Path, *, file: str = "notes.txt", rows: int = 10, fail: int = 0, plain: bool = False
) -> Campaign:
    """`plain`: with the engine and network of the other phase, which take less time."""
    engine = campaigns.POSTGRES.format(storage="memory", settings="")
    psql = str(binaries("18") / "psql")
    campaign = campaigns.write(
        tmp_path, cache, blocks=2, cases=["Load"], engine=engine, network="loopback", environment={"PSQL": psql}
    )
    path = campaign.folder / "plan.toml"
    text = path.read_text().replace('files = ["tiny.py"]', 'files = ["tiny.py", "unseen.py"]')
    phase = PHASE.format(psql=psql, rows=rows, fail=fail, file=file)
    if plain:
        phase = "".join(line for line in phase.splitlines(True) if not line.startswith(("engine =", "network =")))
    path.write_text(text + phase)
    return campaign


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    campaign = write(tmp_path_factory.mktemp("unseen"), cache)
    campaign.does("seal")
    campaign.does("run")
    return campaign


def records(campaign: Campaign, phase: str) -> list[dict[str, Any]]:
    return [campaign.record(labels) for labels in campaign.orders() if labels["phase"] == phase]


def test_it_is_executed_and_verifies(done: Campaign) -> None:
    done.does("verify")
    found = records(done, "Q7")
    assert [record["outcome"] for record in found] == ["ok"] * 8


def test_every_process_finds_the_fixture_as_it_was(done: Campaign) -> None:
    assert [record["covariates"]["rows"] for record in records(done, "Q7")] == ["10"] * 8
    (made,) = done.events("fixture")
    assert (made["phase"], made["name"], made["configuration"]) == (
        "Q7",
        "entries",
        {"note": "simulated", "rows": "10"},
    )


def test_settings_of_its_own_are_its_own(done: Campaign) -> None:
    assert {record["covariates"]["fsync"] for record in records(done, "Q7")} == {"on"}
    plan = (done.folder / "plan.toml").read_text()
    assert 'fsync = "off"' in plan.partition("[phases.Q7]")[0]
    assert [event["phase"] for event in done.events("engine-start")] == ["T", "Q7"]


def test_its_delay_is_measured_around_every_block(done: Campaign) -> None:
    tiny, own = done.events("engine-start")
    assert "delay" not in tiny
    facts = own["delay"]
    assert (facts["method"], facts["delay_us"]) == ("relay", 2000)  # over loopback: no other method
    added = statistics.median(facts["delayed_ns"]) - statistics.median(facts["undelayed_ns"])
    assert added == pytest.approx(4_000_000, rel=0.2)
    for event in done.events("block-start") + done.events("block-end"):
        if event["phase"] == "T":
            assert "rtt_ns" not in event
        else:
            assert len(event["rtt_ns"]) == 200
            assert min(event["rtt_ns"]) > 3_000_000
    ends = [event for event in done.events("block-end") if event["phase"] == "Q7"]
    assert all(0 < event["measuring_ns"] < event["wall_ns"] for event in ends)


def test_files_that_a_process_wrote_are_in_the_record(done: Campaign) -> None:
    whole, bare = (next(r for r in records(done, "Q7") if r["labels"]["case"] == case) for case in ("Whole", "Bare"))
    folder = done.run_folder(whole["labels"])
    assert (folder / "notes.txt").read_text() == f"Whole {whole['labels']['block']}\n"
    assert not (done.run_folder(bare["labels"]) / "notes.txt").exists()
    ends = {json.dumps(event["labels"]): set(event["files"]) for event in done.events("run-end")}
    assert ends[json.dumps(whole["labels"])] == {"stdout.txt", "stderr.txt", "run.json", "notes.txt"}
    assert whole["argv"][-2:] == ["--output", "{output}"]
    assert "--output" not in bare["argv"]


def test_a_changed_output_file_is_found(done: Campaign, tmp_path: Path) -> None:
    copy = done.copy(tmp_path)
    path = next(copy.folder.rglob("notes.txt"))
    path.write_text("Whole 3\n")
    found = copy.call("verify")
    assert found.returncode == 1
    assert "notes.txt: changed" in found.stdout
    path.unlink()
    assert "notes.txt: missing" in copy.call("verify").stdout


def test_estimates_are_of_measured_pairs_alone(done: Campaign) -> None:
    report = open_report(done.folder, "Q7")
    found = {(estimate.case, estimate.metric): estimate.point for estimate in report.estimates}
    assert found == {("Whole", "widgets/op"): 1.0, ("Whole", "grams"): 1.0, ("Bare", "widgets/op"): 1.0}
    assert {(a.case, a.metric, a.value) for a in report.absolutes} == {
        ("Whole", "widgets/op", 1001.5),
        ("Whole", "grams", 7.0),
        ("Bare", "widgets/op", 1001.5),
    }


def test_the_schedule_and_the_commands_show_it(done: Campaign, tmp_path: Path) -> None:
    assert "phase Q7: Does it take widgets?" in done.does("plan").stdout
    draft = write(tmp_path, done.cache)
    dry = draft.does("check", "--dry-run").stdout
    assert "# fixture, once after every start of the engine" in dry
    assert "ALTER DATABASE bench RENAME TO fixture" in dry
    assert "--output '{output}'" in dry or "--output {output}" in dry


def test_a_file_that_is_missing_fails_the_run(tmp_path: Path, cache: Path) -> None:
    campaign = write(tmp_path, cache, file="", plain=True)
    campaign.does("seal")
    assert campaign.call("run").returncode == 1
    failed = [record for record in records(campaign, "Q7") if record["outcome"] == "failed"]
    assert [record["reason"] for record in failed] == ["it did not write notes.txt"] * 4
    assert {record["labels"]["case"] for record in failed} == {"Whole"}
    campaign.does("verify")


def test_a_file_that_is_not_planned_fails_the_run(tmp_path: Path, cache: Path) -> None:
    campaign = write(tmp_path, cache, file="other.txt", plain=True)
    path = campaign.folder / "plan.toml"
    path.write_text(path.read_text().replace('outputs = ["notes.txt"]', "outputs = []"))
    campaign.does("seal")
    assert campaign.call("run").returncode == 1
    reasons = {record["reason"] for record in records(campaign, "Q7") if record["outcome"] == "failed"}
    assert reasons == {"it wrote other.txt, which the plan does not name"}
    campaign.does("verify")


def test_a_fixture_that_cannot_be_made_stops_the_runner(tmp_path: Path, cache: Path) -> None:
    campaign = write(tmp_path, cache, fail=4)
    campaign.does("seal")
    done = campaign.call("run", "--phase", "Q7")
    assert done.returncode == 1
    assert "phase Q7: fixture entries" in done.stderr
    assert "status 4" in done.stderr
    assert campaign.events("run-start") == []


def test_what_is_no_plain_file_is_not_kept_and_fails_the_run(tmp_path: Path, cache: Path) -> None:
    """Links, pipes, folders, and names of the runner's own: the record stays whole, and the raw output what was printed."""
    campaign = write(tmp_path, cache, plain=True)
    path = campaign.folder / "plan.toml"
    path.write_text(path.read_text().replace('{ file = "notes.txt" }', '{ file = "notes.txt", odd = true }'))
    campaign.does("seal")
    assert campaign.call("run", "--phase", "Q7").returncode == 1
    failed = [record for record in records(campaign, "Q7") if record["outcome"] == "failed"]
    names = ".hidden, a\\nb, folder, gone.txt, link.txt, pipe.txt, run.json, stdout.txt"
    reason = f"it wrote {names}: not a plain file, or not with a name that it may have; not kept"
    assert [record["reason"] for record in failed] == [reason] * 4
    for record in failed:
        folder = campaign.run_folder(record["labels"])
        assert {p.name for p in folder.iterdir()} == {"stdout.txt", "stderr.txt", "run.json", "notes.txt"}
        assert "BenchmarkWhole" in (folder / "stdout.txt").read_text()
    campaign.does("verify")


def below(pid: int) -> set[int]:
    """Every process that this one started, and what those started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found, new = set(), {pid}
    while new:
        found |= new
        new = {child for child, parent in pairs if parent in found} - found
    return found - {pid}


def killed_while_paused(campaign: Campaign, header: str) -> int:
    """Kill -9 the runner while a process of this part of the plan waits; returns the runner's process id."""
    pause = campaign.folder.parent / "pause"
    pause.touch()
    before, at, after = (campaign.folder / "plan.toml").read_text().partition(header)
    after = after.replace("environment = { ", f'environment = {{ PAUSE = "{pause}", ', 1)
    (campaign.folder / "plan.toml").write_text(before + at + after)
    campaign.does("seal")
    runner = campaign.start(*campaign.run_command(), "--phase", "Q7")
    wait_for(pause.with_name("paused").exists)
    started = below(runner.pid)
    assert len(started) > 5  # the server's, the process itself, and what adds the delay
    kill(runner)
    wait_for(lambda: not any(map(alive, started)))
    assert verify(Store.open(campaign.folder)).problems == []
    pause.unlink()
    return runner.pid


def left_by(pid: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"benchbook-*-{pid}-*"))


def test_killed_while_a_fixture_is_made(tmp_path: Path, cache: Path) -> None:
    campaign = write(tmp_path, cache)
    path = campaign.folder / "plan.toml"
    path.write_text(path.read_text().replace('fsync = "on"', 'fsync = "off"'))  # takes less time
    pid = killed_while_paused(campaign, "[fixtures.entries]")
    assert left_by(pid)  # the data folder of the phase: it is on disk
    assert len(list(campaign.folder.glob(".fixture-*"))) == 2
    campaign.does("run", "--phase", "Q7")
    assert left_by(pid) == []
    assert list(campaign.folder.glob(".*")) == []
    assert [record["outcome"] for record in records(campaign, "Q7")] == ["ok"] * 8
    assert len(campaign.events("fixture")) == 1
    assert campaign.events("block-void") == []
    campaign.does("verify")


def test_killed_while_a_file_is_half_written(tmp_path: Path, cache: Path) -> None:
    campaign = write(tmp_path, cache, plain=True)
    killed_while_paused(campaign, "[phases.Q7]")
    [half] = campaign.folder.rglob("notes.txt")
    assert half.parent.parent.name.endswith(".partial")
    campaign.does("run", "--phase", "Q7")
    [end] = [event for event in campaign.events("run-end") if event["outcome"] == "interrupted"]
    assert set(end["files"]) == {"stdout.txt", "stderr.txt", "run.json", "notes.txt"}
    assert (campaign.run_folder(end["labels"]) / "notes.txt").read_text() == f"Whole {end['labels']['block']}\n"
    assert list(campaign.folder.rglob("*.partial")) == []
    assert len(campaign.events("replacement")) == 1
    campaign.does("verify")


def test_a_dead_server_gets_its_fixture_again(tmp_path: Path, cache: Path) -> None:
    from runner import engines, stage
    from runner.store import Store

    campaign = write(tmp_path, cache)
    campaign.does("seal")
    store = Store(campaign.folder)
    plan = store.plan()
    recorded: list[str] = []

    class Journal:
        def append(self, event: str, **fields: Any) -> dict[str, Any]:
            recorded.append(event)
            return fields

    from runner import treekinds

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHBOOK_CACHE", str(cache))
        built = {"plain": treekinds.materialise(store, plan, "plain")}
    with stage.open_stage(store, plan, "Q7", built, Journal()) as opened:  # type: ignore[arg-type]
        assert isinstance(opened.engine, engines.postgres.Postgres)
        for _ in range(2):
            opened.engine.reset()
            assert opened.engine._ask("SELECT count(*) FROM entry", database="bench").strip() == "10"
            opened.restart("a drill")
    assert recorded == ["engine-start", "fixture"] + ["engine-restart", "fixture"] * 2
