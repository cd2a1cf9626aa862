"""What the runner refuses to execute: each guard is made to fire, and nothing may have been started."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import campaigns
from tests.campaigns import Campaign, kill, rechained, wait_for


def refused(campaign: Campaign, *texts: str) -> None:
    """`run` must refuse, name these texts, and start nothing."""
    done = campaign.call("run")
    assert done.returncode == 1, done.stdout + done.stderr
    for text in texts:
        assert text in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert campaign.trace() == []


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_refuses_an_unsealed_plan(tmp_path: Path, cache: Path) -> None:
    refused(campaigns.write(tmp_path, cache), "not sealed", "python -m runner seal")


def test_refuses_a_plan_changed_after_the_seal(sealed: Campaign, tmp_path: Path) -> None:
    copy = sealed.copy(tmp_path)
    edit(copy.folder / "plan.toml", "resamples = 200", "resamples = 201")
    refused(copy, "plan.toml: changed since the seal")


def test_refuses_changed_orders_and_seal(sealed: Campaign, tmp_path: Path) -> None:
    copy = sealed.copy(tmp_path)
    edit(copy.folder / "orders.json", '"arm": "one"', '"arm": "two"')
    refused(copy, "orders.json: changed since the seal")
    other = sealed.copy(tmp_path / "other")
    edit(other.folder / "seal.json", '"format": 1', '"format": 2')
    refused(other, "not the seal that the journal names")


def test_refuses_changed_harness_bytes(sealed: Campaign, tmp_path: Path) -> None:
    copy = sealed.copy(tmp_path)
    with (copy.folder / "harness" / "tiny.py").open("a") as file:
        file.write("# \n")
    refused(copy, "harness/tiny.py: changed since the seal")


def test_refuses_compiled_code_beside_the_harness(sealed: Campaign, tmp_path: Path) -> None:
    copy = sealed.copy(tmp_path)
    (copy.folder / "harness" / "__pycache__").mkdir()
    (copy.folder / "harness" / "__pycache__" / "tiny.cpython-311.pyc").write_bytes(b"other code")
    refused(copy, "harness/__pycache__/tiny.cpython-311.pyc: not in the seal")


def test_refuses_another_host(sealed: Campaign, tmp_path: Path) -> None:
    copy = sealed.copy(tmp_path)
    host = copy.folder / "host.json"
    edit(host, '"kernel": "', '"kernel": "0')
    seal = json.loads((copy.folder / "seal.json").read_bytes())
    seal["files"]["host.json"] = hashlib.sha256(host.read_bytes()).hexdigest()
    (copy.folder / "seal.json").write_text(json.dumps(seal))
    events = copy.events()
    events[0]["seal"] = hashlib.sha256((copy.folder / "seal.json").read_bytes()).hexdigest()
    (copy.folder / "journal.jsonl").write_bytes(rechained(events))
    refused(copy, "this is not the host that was sealed", "kernel: sealed '0")


def test_refuses_a_renamed_folder(sealed: Campaign, tmp_path: Path) -> None:
    copy = sealed.copy(tmp_path)
    copy.folder = copy.folder.rename(tmp_path / "renamed")
    refused(copy, "not its folder's name", "expected: renamed", "found: tiny")


def test_refuses_to_seal_after_the_first_run(closed: Campaign, tmp_path: Path) -> None:
    copy = closed.copy(tmp_path)
    before = (copy.folder / "seal.json").read_bytes()
    done = copy.call("seal")
    assert done.returncode == 1
    assert "a run has already started" in done.stderr
    assert (copy.folder / "seal.json").read_bytes() == before


@pytest.mark.parametrize("how", ["changed", "added", "removed"])
def test_refuses_a_runner_other_than_the_sealed_one(sealed: Campaign, tmp_path: Path, how: str) -> None:
    project = tmp_path / "project"
    for name in ("runner", "analysis"):
        shutil.copytree(campaigns.PROJECT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    target = project / "runner" / ("progress.py" if how == "changed" else "extra.py")
    if how == "removed":
        copy = sealed.copy(tmp_path)
        (project / "runner" / "new.py").rename(project / "runner" / "renewed.py")
        edit(project / "runner" / "__main__.py", "schedule, seal", "schedule, seal\nfrom runner import renewed as new")
        edit(project / "runner" / "__main__.py", "ledger, new, ", "ledger, ")
        target = project / "runner" / "new.py"
    else:
        copy = sealed.copy(tmp_path)
        with target.open("a") as file:
            file.write("# \n")
    copy.project = project
    refused(copy, "this is not the runner that was sealed", f"runner/{target.name}")


TREE_DAMAGE = {
    "changed": lambda packages: (packages / "_virtualenv.py").write_text("# other\n"),
    "added": lambda packages: (packages / "added.pth").write_text("import os\n"),
    "compiled": lambda packages: (packages / "_virtualenv.cpython-311.pyc").write_bytes(b"other code"),
}


@pytest.mark.parametrize("how", TREE_DAMAGE)
def test_refuses_an_altered_tree(sealed: Campaign, cache: Path, tmp_path: Path, how: str) -> None:
    copy = sealed.copy(tmp_path)
    copy.cache = tmp_path / "cache"
    shutil.copytree(cache, copy.cache, symlinks=True)
    for packages in (copy.cache / "trees").glob("*/lib/python*/site-packages"):  # other tests have trees there too
        TREE_DAMAGE[how](packages)
    refused(copy, "altered since it was installed")


def test_a_second_runner_is_refused_and_told_the_first(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, faults="pause:one:1")
    campaign.does("seal")
    first = campaign.start(*campaign.run_command())
    try:
        paused = wait_for(lambda: campaign.trace_path.with_name("tiny.trace.paused").exists() and campaign.trace())
        for command in ("run", "seal", "close"):
            done = campaign.call(command)
            assert done.returncode == 1
            assert "another runner is at work" in done.stderr
            assert f"process {first.pid}," in done.stderr
        assert campaign.call("status").returncode == 0
        campaign.trace_path.with_name("tiny.trace.go").touch()
        _, errors = first.communicate(timeout=60)
    finally:
        kill(first)
    assert first.returncode == 0, errors
    assert len(campaign.trace()) == 4
    assert campaign.trace()[0] == paused[0]


@pytest.mark.parametrize("rule", ["refuse", "mark"])
def test_a_busy_host_is_refused_or_marked_as_the_plan_says(tmp_path: Path, cache: Path, rule: str) -> None:
    campaign = campaigns.write(
        tmp_path,
        cache,
        cases=campaigns.CASES[:1],
        blocks=2,
        busy_block=rule,
        quiet_wait_s=0.3,
        idle_load=0.01,
        calibration_ratio=1000.0,
    )
    campaign.does("seal")
    client = max(os.sched_getaffinity(0))
    spin = f"import os\nos.sched_setaffinity(0, [{client}])\nwhile True: pass"
    spinner = subprocess.Popen([sys.executable, "-c", spin], stderr=subprocess.PIPE, text=True)
    try:
        done = campaign.call("run")
    finally:
        kill(spinner)
    if rule == "refuse":
        assert done.returncode == 1
        assert "the host was busy for 0.3 s" in done.stderr
        assert "idle load at most 0.01" in done.stderr
        assert not campaign.trace()
        assert not campaign.events("block-start")
        assert campaign.events()[-1]["event"] == "session-end"
    else:
        assert done.returncode == 0, done.stderr
        starts = campaign.events("block-start")
        assert [event["marked"] for event in starts] == [True] * 2
        assert all(event["idle_load"] > 0.3 and event["waited_ns"] > 0.3e9 for event in starts)
        assert len(campaign.trace()) == 4
