"""Plans that leave values open: what may, what may not, and that nothing stands in for what is not defined."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner import check, openplans, orders, schedule
from runner.errors import PlanError
from runner.planfile import load, load_open, parse, parse_open
from runner.plantypes import UNDEFINED
from runner.store import Store
from tests.small import TEXT, golden

PROJECT = Path(__file__).resolve().parent.parent
PUBLISHED = Store(PROJECT / "data" / "hcloud-rebench-20261014")


def test_a_plan_that_is_to_be_sealed_defines_everything() -> None:
    text = TEXT.replace("payload_seed = 7", 'payload_seed = "undefined"')
    with pytest.raises(PlanError, match=r'plan\.toml:\d+: campaign\.payload_seed: .*found "undefined"') as raised:
        parse(text)
    assert str(raised.value).count("\n") == 1
    assert parse_open(text).plan.campaign.payload_seed == UNDEFINED
    (place,) = parse_open(text).undefined
    line = text.splitlines()[place[0] - 1]
    assert (line, place[1]) == ('payload_seed = "undefined"', "campaign.payload_seed")


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ('kind = "veth"', 'kind = "undefined"', "network.kind"),  # what is done with a plan depends on it
        ("level = 0.95", 'level = "unknown"', "statistics.level"),  # another word is a slip
        ("blocks = 6", "blocks = 1", r"phases\.[AB]\.blocks"),  # a bad value is one in an open plan too
        ('contrast = "new/old"', 'contrast = "old/older"', r"phases\.A\.claims\.0\.contrast"),
    ],
)
def test_an_open_plan_is_still_a_plan(before: str, after: str, place: str) -> None:
    assert before in TEXT
    with pytest.raises(PlanError, match=rf"plan\.toml:\d+: {place}: "):
        parse_open(TEXT.replace(before, after, 1))


def test_a_plan_without_an_open_value_reads_the_same_both_ways() -> None:
    found = parse_open(TEXT)
    assert (found.plan, found.undefined) == (parse(TEXT), ())
    assert openplans.runs(found.plan) == orders.expand(found.plan)
    assert openplans.named(found.plan) == found.plan


def test_what_the_published_campaign_does_not_define_is_listed() -> None:
    found = load_open(PUBLISHED.plan_path)
    lines = PUBLISHED.plan_path.read_text(encoding="utf-8").splitlines()
    assert len(found.undefined) == sum(line.partition("#")[0].count('"undefined"') for line in lines)
    assert all('"undefined"' in lines[line - 1] for line, _ in found.undefined)
    assert {path for _, path in found.undefined} == {".".join(map(str, p)) for p in openplans.places(found.plan)}
    with pytest.raises(PlanError, match=f"{len(found.undefined)} problems in the plan"):
        load(PUBLISHED.plan_path)


def test_what_the_published_pages_define() -> None:
    plan = PUBLISHED.plan()
    assert list(plan.phases) == ["A", "A2", "B", "C1", "D1", "C2", "D2", "C3"]
    assert (plan.phases["B"].order_seed, plan.phases["A2"].order_seed, plan.statistics.seed) == (641101, 641601, 391706)
    assert (plan.statistics.primary, plan.statistics.resamples, plan.engine.version) == ("percentile", 20000, "7.3.77")
    assert plan.host.cpus.model_dump() == {"housekeeping": "0-1", "server": "2-7", "client": "8-15"}
    assert {name: tree.commit[:12] for name, tree in plan.trees.items() if tree.kind == "git"} == {
        "legacy": "9a9a448670a7", "before": "3824f14654ed", "pr2": "5052212f520d", "final": "267a41434a81",
        "cgo": "undefined",
    }  # fmt: skip
    assert [plan.engine_of(phase).storage_engine for phase in ("A", "A2", "B", "D1")] == [
        "ssd-2",
        "ssd-2",
        "memory",
        "memory",
    ]
    assert [plan.network_of(phase).delay_us for phase in plan.phases] == [0, 0, 0, 0, 0, 0, 0, 250]
    assert not any(phase.claims for phase in plan.phases.values())


def test_the_commands_of_the_published_phase_b() -> None:
    lines = list(check.open_commands(PUBLISHED.plan()))
    start, end = lines.index("# phase B"), lines.index("# phase C1")
    commands = [line for line in lines[start:end] if "-test.bench=" in line]
    assert len(commands) == 8 * 3 * 6
    assert sum("-test.benchtime=1000x" in line for line in commands) == 3 * 3 * 6
    assert all("'{undefined: phases.B.argv.4}'" in line and "-test.count=3" in line for line in commands)
    for tree in ("legacy", "before", "final"):
        assert sum(f"{{undefined: trees.{tree}.binaries.0}}" in line for line in commands) == 8 * 6
    assert any("ours, not that of who executed it" in line for line in lines[start:end])
    assert any("{undefined: phases.C2.blocks}" in line for line in lines[end:])
    named = set(re.findall(r"\{undefined: ([A-Za-z0-9_.-]+)\}", "\n".join(lines)))
    assert named <= {path for _, path in load_open(PUBLISHED.plan_path).undefined}


def test_what_depends_on_an_open_value_has_no_order() -> None:
    plan = PUBLISHED.plan()
    assert openplans.without_order(plan, "B") == []
    assert openplans.without_order(plan, "C2") == ["phases.C2.blocks", "phases.C2.order_seed"]
    assert {labels.phase for labels in openplans.runs(plan)} == {"A2", "B"}
    golden("published_schedule.txt", schedule.describe_open(plan))


def runner(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runner", *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


def test_check_lists_what_is_open() -> None:
    done = runner("check", str(PUBLISHED.folder))
    count = len(load_open(PUBLISHED.plan_path).undefined)
    *places, summary, phases = done.stdout.splitlines()
    assert (done.returncode, done.stderr, len(places)) == (0, "", count)
    assert summary == f"the plan is valid; {count} values are undefined, so that this campaign cannot be executed here"
    assert phases == "phases whose runs and order are defined: A2, B"
    assert runner("check", "--dry-run", str(PUBLISHED.folder)).stdout.count("-test.bench=") == 144


@pytest.mark.parametrize("command", ["seal", "check", "plan"])
def test_without_published_figures_an_open_plan_is_refused(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "hcloud-rebench-20261014"
    folder.mkdir()
    shutil.copyfile(PUBLISHED.plan_path, folder / "plan.toml")
    done = runner(command, str(folder))
    assert done.returncode == 1
    assert 'plan.toml:15: campaign.payload_seed: expected a value, found "undefined"' in done.stderr
