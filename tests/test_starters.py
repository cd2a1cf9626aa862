"""Plans to start from: each validates, seals, is executed, verified and estimated as it is written; every refusal fires."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from analysis import page, page_trees
from analysis.report import open_report
from runner import seal, starters
from runner.plan import Plan
from runner.planfile import load
from runner.starters import options
from tests import gomodule
from tests.campaigns import PROJECT, Campaign

ENCODE_TEST = (PROJECT / "tests" / "harness" / "codec_test.go").read_text()
TOP_TEST = """package codec

import "testing"

func BenchmarkTop(b *testing.B) {
	data := make([]byte, 512)
	for range b.N {
		Encode(data)
	}
}
"""


def new(folder: Path, cache: Path, *options: str, **where: object) -> tuple[Campaign, subprocess.CompletedProcess[str]]:
    """`runner new`, in the folder of whoever calls it."""
    campaign = Campaign(folder, cache, folder / "no trace")
    environment = campaign.environment() | {"PYTHONPATH": str(PROJECT)}
    argv = [sys.executable, "-m", "runner", "new", str(folder), *options]
    done = subprocess.run(
        argv, cwd=str(where.get("cwd", PROJECT)), env=environment, capture_output=True, text=True, check=False
    )
    return campaign, done


def made(folder: Path, cache: Path, *options: str, **where: object) -> Campaign:
    campaign, done = new(folder, cache, *options, **where)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{folder}/plan.toml\n"
    return campaign


def plan_of(campaign: Campaign) -> Plan:
    return load(campaign.folder / "plan.toml")


def quick(campaign: Campaign, **changes: str) -> Campaign:
    """The plan with fewer blocks, and what else is given as parameter = value."""
    path = campaign.folder / "plan.toml"
    text = re.sub(r"^blocks = 8 ", "blocks = 2 ", path.read_text(), flags=re.M)
    text = re.sub(r"^quiet_wait_s = 4 ", "quiet_wait_s = 0 ", text, flags=re.M)
    for name, value in changes.items():
        text, count = re.subn(rf"\b{name} = [^,\s}}]+", f"{name} = {value}", text)
        assert count
    path.write_text(text)
    return campaign


def executed(campaign: Campaign, environment: Mapping[str, str] | None = None) -> dict[str, float]:
    """Seal, execute, verify, estimate. Returns ratios by case and metric."""
    campaign.does("plan")
    assert campaign.call("check", environment=environment).returncode == 0
    campaign.does("seal", environment=environment)
    campaign.does("run", environment=environment)
    done = campaign.does("verify")
    assert done.stdout.startswith("closed, "), done.stdout
    assert str(campaign.folder.parent) not in (campaign.folder / "seal.json").read_text()
    [phase] = plan_of(campaign).phases
    argv = ("-m", "analysis", "estimates", str(campaign.folder), "--phase", phase, "--format", "json")
    found = json.loads(campaign.python(*argv).stdout)["estimates"]
    assert all(estimate["t"] for estimate in found if estimate["metric"] in ("ns/op", "cpu-ns/op"))
    return {f"{estimate['case']} {estimate['metric']}": estimate["point"] for estimate in found}


# ---- what every template writes


@pytest.mark.parametrize("template", ["python", "client", "command"])
def test_a_plan_to_start_from(tmp_path: Path, cache: Path, template: str) -> None:
    campaign, done = new(tmp_path / "mine", cache, "--template", template)
    assert done.returncode == 0, done.stderr
    assert "next: read the plan, then python -m runner seal" in done.stderr
    plan = plan_of(campaign)
    assert (plan.campaign.id, plan.harness.source, plan.engine.kind) == ("mine", None, "none")
    text = (campaign.folder / "plan.toml").read_text()
    assert str(tmp_path) not in text
    assert "# To do before `python -m runner seal`" in text
    [(identifier, phase)] = plan.phases.items()
    assert (phase.blocks, phase.claims, len(phase.arms)) == (8, (), 2)
    assert sorted(p.name for p in (campaign.folder / "harness").iterdir()) == sorted(plan.harness.files)
    with_claim = re.sub(
        r"^# (\[\[phases\.\w+\.claims\]\]|\w+ = .*)$", r"\1", text[text.index("# What do you") :], flags=re.M
    )
    (campaign.folder / "plan.toml").write_text(text[: text.index("# What do you")] + with_claim)
    assert [claim.id for claim in plan_of(campaign).phases[identifier].claims] == [f"{identifier}-1"]


def test_two_campaigns_have_different_seeds(tmp_path: Path, cache: Path) -> None:
    seeds = [
        plan_of(made(tmp_path / name, cache, "--template", "command")).phases["T"].order_seed for name in ("a", "b")
    ]
    assert seeds[0] != seeds[1]


def test_an_empty_folder_is_filled_and_no_other(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    made(folder, cache, "--template", "python")
    _, done = new(folder, cache, "--template", "python")
    assert done.returncode == 1
    assert "this folder exists already, and is not empty" in done.stderr


def test_a_folder_that_is_no_name_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    _, done = new(tmp_path / "bad name", cache, "--template", "command")
    assert done.returncode == 1
    assert "campaign.id" in done.stderr
    assert not (tmp_path / "bad name").exists()


def test_the_current_folder_gives_its_name(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "mine").mkdir()
    _, done = new(Path(), cache, "--template", "python", cwd=tmp_path / "mine")
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "mine" / "plan.toml").campaign.id == "mine"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "one of --from and --template says where the plan comes from"),
        (("--from", "x", "--template", "python"), "found: both"),
        (("--from", "x", "--bench", "A"), "--bench is an option of --template go-test"),
        (("--template", "python", "--command", "true"), "--command is an option of --template command"),
        (("--template", "command", "--package", "."), "--package is an option of --template go-test"),
        (("--template", "command", "--command", "true"), "--command 1 times, --name 0 times"),
        (("--template", "command", *("--command", "true") * 3), "--command 3 times"),
        (("--template", "command", *("--command", "true") * 2, "--name", "a"), "--name 1 times"),
        (("--template", "command", "--name", "a", "--name", "b"), "--command 0 times"),
        (("--template", "command", *("--command", "true") * 2, "--name", "a", "--name", "A"), "two different names"),
        (("--template", "command", *("--command", "true") * 2, "--name", "a", "--name", "b c"), "two different names"),
        (("--template", "command", "--command", "true", "--command", "echo 'x"), "cannot be split into words"),
        (("--template", "command", "--command", "true", "--command", " "), "an empty command"),
        (("--template", "go-test"), "found: no --repository, --before, --after"),
        (("--template", "go-test", "--repository", "x", "--before", "y"), "found: no --after"),
    ],
)
def test_wrong_use(tmp_path: Path, cache: Path, given: tuple[str, ...], message: str) -> None:
    _, done = new(tmp_path / "mine", cache, *given)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "mine").exists()


def test_every_template_is_known() -> None:
    assert set(options.OPTIONS) == {"go-test", "python", "client", "command"}
    written = {path.name for path in starters.FILES.iterdir() if path.suffix == ".toml"}
    assert written == {"common.toml", *(f"{name}.toml" for name in options.OPTIONS)}


# ---- command


def test_the_example_of_commands_from_start_to_end(tmp_path: Path, cache: Path) -> None:
    campaign = quick(made(tmp_path / "mine", cache, "--template", "command"))
    found = executed(campaign)
    assert set(found) == {"Command ns/op", "Command cpu-ns/op"}
    question = "Which takes less time, gzip -1 -c {harness}/sample.txt or gzip -9 -c {harness}/sample.txt?"
    assert plan_of(campaign).campaign.question == plan_of(campaign).phases["T"].question == question
    assert found["Command ns/op"] > 1.2
    record = campaign.record(campaign.orders()[0])
    switches = json.loads(record["argv"][record["argv"].index("--switches") + 1])
    level = {"fast": "-1", "small": "-9"}[record["labels"]["arm"]]
    assert switches == {"command": ["gzip", level, "-c", "{harness}/sample.txt"]}
    report = open_report(campaign.folder, "T")
    text = str(page.evidence(report))
    digest = json.loads((campaign.folder / "seal.json").read_text())["trees"]["gzip"]["programs"]["gzip"]["sha256"]
    assert f'gzip <code class="bb-whole">{digest[:12]}</code>' in text
    assert "program, SHA-256" in text and "gzip 1." in text
    assert "No server takes part." in str(page.limits(report))
    assert page.notebook_of(report.plan, "T").name == "phase.ipynb"


def test_a_command_against_itself_is_a_null_contrast(tmp_path: Path, cache: Path) -> None:
    command = f"{sys.executable} -S -c 'sum(range(200000))'"
    given = ("--template", "command", *("--command", command) * 2, "--name", "one", "--name", "two")
    campaign = made(tmp_path / "mine", cache, *given)
    phase = plan_of(campaign).phases["T"]
    assert phase.is_null(phase.contrasts[0])
    found = executed(quick(campaign))
    assert 0.5 < found["Command ns/op"] < 2


def test_a_failing_command_is_a_failed_run_with_its_reason(tmp_path: Path, cache: Path) -> None:
    given = ("--command", "sh -c 'echo no such luck >&2; exit 9'", "--command", "true")
    campaign = quick(made(tmp_path / "mine", cache, "--template", "command", *given))
    campaign.does("seal")
    assert campaign.call("run").returncode == 1
    reasons = {campaign.record(labels)["reason"] for labels in campaign.orders() if labels["arm"] == "sh"}
    assert reasons == {
        "exit status 1; stderr ends: execution 1 of 6: exit status 9, expected 0 (parameter ok_exit); "
        "its standard error ends: no such luck"
    }


def test_files_that_a_command_reads_are_taken_in(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "in put.txt").write_text("some text\n" * 1000)
    (tmp_path / "folder").mkdir()
    given = ("--command", "gzip -c 'in put.txt'", "--command", "ls folder -l missing")
    campaign, done = new(tmp_path / "mine", cache, "--template", "command", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "note: in put.txt is copied to harness/in_put.txt, where the seal covers it" in done.stderr
    assert f"note: folder is written as {tmp_path / 'folder'}: a command starts in an empty folder" in done.stderr
    plan = plan_of(campaign)
    first, second = plan.phases["T"].arms
    assert (first.name, first.tree, first.switches["command"]) == (
        "gzip",
        "gzip",
        ("gzip", "-c", "{harness}/in_put.txt"),
    )
    assert second.switches["command"] == ("ls", str(tmp_path / "folder"), "-l", "missing")
    assert plan.harness.files == ("timecommand.py", "in_put.txt")
    assert (campaign.folder / "harness" / "in_put.txt").read_text() == "some text\n" * 1000


def test_a_program_that_sees_where_its_output_goes_is_noted(tmp_path: Path, cache: Path) -> None:
    """GNU grep stops at the first match then, and GNU tar reads no file: the time of something else."""
    given = ("--template", "command", "--command", "grep -c x README.md", "--command", "cat README.md")
    _, done = new(tmp_path / "mine", cache, *given)
    assert done.returncode == 0
    assert "note: grep may notice that its output goes to /dev/null" in done.stderr
    assert "cat may notice" not in done.stderr


def test_files_of_one_name_are_refused(tmp_path: Path, cache: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text(name)
    given = ("--template", "command", "--command", "cat one/x.txt", "--command", "cat two/x.txt")
    _, done = new(tmp_path / "mine", cache, *given, cwd=tmp_path)
    assert done.returncode == 2
    assert "another file of this name is taken in already" in done.stderr
    (tmp_path / "timecommand.py").write_text("")
    given = ("--template", "command", "--command", "cat timecommand.py", "--command", "true")
    assert "another file of this name" in new(tmp_path / "mine", cache, *given, cwd=tmp_path)[1].stderr


def test_a_large_file_stays_where_it_is(tmp_path: Path, cache: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate((16 << 20) + 1)
    given = ("--template", "command", "--command", "cat large", "--command", "true")
    campaign, done = new(tmp_path / "mine", cache, *given, cwd=tmp_path)
    assert f"large is written as {tmp_path / 'large'}, and its bytes are not sealed" in done.stderr
    assert plan_of(campaign).harness.files == ("timecommand.py",)


def test_a_program_that_a_run_would_not_find_is_named_with_its_path(tmp_path: Path, cache: Path) -> None:
    tool = tmp_path / "my,tool"
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    given = ("--template", "command", "--command", "'./my,tool'", "--command", "true")
    _, done = new(tmp_path / "mine", cache, *given, cwd=tmp_path)
    assert "trees.my-tool.programs.0" in done.stderr  # a comma is what separates programs
    tool.rename(tmp_path / "tool")
    given = ("--template", "command", "--command", "./tool", "--command", f"{tmp_path}/mine2/../tool")
    (tmp_path / "mine2").mkdir()
    campaign, done = new(tmp_path / "mine", cache, *given, cwd=tmp_path)
    assert f"note: ./tool is written as {tmp_path}/tool" in done.stderr
    plan = plan_of(campaign)
    assert [arm.name for arm in plan.phases["T"].arms] == ["first", "second"]
    assert plan.trees["tool"].model_dump()["programs"] == (f"{tmp_path}/tool",)


def test_a_program_that_is_nowhere(tmp_path: Path, cache: Path) -> None:
    for command, remedy in (("no-such-tool x", "install it"), ("| wc", "needs a shell")):
        _, done = new(tmp_path / "mine", cache, "--template", "command", "--command", "true", "--command", command)
        assert done.returncode == 1
        assert "no such program" in done.stderr and remedy in done.stderr


# ---- python and client


def test_two_sets_of_packages_from_start_to_end(tmp_path: Path, cache: Path) -> None:
    campaign = quick(made(tmp_path / "mine", cache, "--template", "python"), operations="20", warmup="1")
    found = executed(campaign)
    assert set(found) == {"Text/words=100 ns/op", "Text/words=10000 ns/op"}
    wrong = [
        sys.executable,
        "harness/measure.py",
        "--case",
        "x",
        "--repeats",
        "1",
        "--switches",
        "{}",
        "--parameters",
        "{}",
    ]
    done = subprocess.run(wrong, cwd=campaign.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "expected the switch function, one of growing, joined" in done.stderr


def test_a_function_that_returns_something_else_is_a_wrong_answer(tmp_path: Path, cache: Path) -> None:
    campaign = quick(made(tmp_path / "mine", cache, "--template", "python"), operations="2", warmup="1")
    harness = campaign.folder / "harness" / "measure.py"
    harness.write_text(harness.read_text().replace('" ".join(words)', '"-".join(words)'))
    campaign.does("seal")
    assert campaign.call("run").returncode == 1
    reasons = {campaign.record(labels)["reason"] for labels in campaign.orders() if labels["arm"] == "after"}
    assert {reason.partition(":")[0] for reason in reasons} == {"wrong answer"}


def test_a_client_from_start_to_end(tmp_path: Path, cache: Path) -> None:
    campaign = made(tmp_path / "mine", cache, "--template", "client")
    argv = ("conform", "--case", "lookup", "--", sys.executable, f"{campaign.folder}/harness/client.py")
    done = campaign.python("-m", "runner", *argv)
    assert done.returncode == 0, done.stdout
    found = executed(quick(campaign, warmup_operations="100", measured_operations="500"))
    assert set(found) >= {"lookup ns/op", "lookup p99-ns", "lookup cpu-E-A-ns/op"}
    labels = campaign.orders()[0]
    assert (campaign.run_folder(labels) / "latency.hlog").is_file()
    assert "stage-e" in campaign.record(labels)["configuration"]
    assert open_report(campaign.folder, "L").latency_cases


# ---- go-test


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test's Go module, with its benchmarks in a last commit, and tags."""
    folder = tmp_path_factory.mktemp("module") / "repository"
    commits = gomodule.make(folder)
    files = {"codec/codec_test.go": ENCODE_TEST, "codec/top_test.go": TOP_TEST}
    gomodule.commit(folder, files, "benchmarks")
    for name, commit in commits.items():
        gomodule.git(folder, "tag", "-a", "-m", name, name, commit)
    return folder


def go(repository: Path | str, *more: str, before: str = "base", after: str = "HEAD") -> tuple[str, ...]:
    given = ("--template", "go-test", "--repository", str(repository), "--before", before, "--after", after)
    return (*given, *more) if "--package" in more else (*given, "--package", "./codec", *more)


def test_two_go_commits_from_start_to_end(tmp_path: Path, cache: Path, repository: Path) -> None:
    given = go(repository, "--bench", "Encode/size=512", "--bench", "BenchmarkTop")
    campaign, done = new(tmp_path / "mine", cache, *given)
    assert done.returncode == 0, done.stderr
    assert "both trees get those of the later one" in done.stderr
    plan = plan_of(campaign)
    assert [case.name for case in plan.phases["G"].cases] == ["Encode/size=512", "Top"]
    assert plan.harness.files == ()
    quick(campaign, benchtime='"200x"')
    path = campaign.folder / "plan.toml"
    path.write_text(path.read_text().replace(str(repository), os.path.relpath(repository, campaign.folder)))
    found = executed(campaign, gomodule.with_go())
    assert found["Encode/size=512 B/op"] < 0.7
    assert found["Top allocs/op"] < 0.5
    sealed = json.loads((campaign.folder / "seal.json").read_text())["trees"]
    assert set(sealed["before"]["overlay"]) == {"codec/codec_test.go", "codec/top_test.go"}
    assert "Harness" in str(page.evidence(open_report(campaign.folder, "G")))


def test_every_benchmark_of_the_package_is_a_case(tmp_path: Path, cache: Path, repository: Path) -> None:
    plan = plan_of(made(tmp_path / "mine", cache, *go(repository)))
    assert [case.name for case in plan.phases["G"].cases] == ["Encode", "EncodeOther", "Top"]


def test_revisions_become_commits(tmp_path: Path, cache: Path, repository: Path) -> None:
    wanted = {"before": gomodule.git(repository, "rev-parse", "base^{commit}")}
    wanted["after"] = gomodule.git(repository, "rev-parse", "HEAD")
    address = f"file://{repository}"
    for number, given in enumerate(
        (
            go(repository),
            go(repository, after="main"),
            go(address),
            go(address, after="main"),
            go(address, after=wanted["after"]),
        )
    ):
        plan = plan_of(made(tmp_path / f"mine{number}", cache, *given))
        assert {name: tree.model_dump()["commit"] for name, tree in plan.trees.items()} == wanted


def test_a_path_from_here_is_planned_from_the_campaign(tmp_path: Path, cache: Path, repository: Path) -> None:
    campaign = made(tmp_path / "mine", cache, *go("."), cwd=repository)
    tree = tomllib.loads((campaign.folder / "plan.toml").read_text())["trees"]["after"]
    assert tree["repository"] == os.path.relpath(repository, campaign.folder)


def test_benchmarks_that_are_the_same_need_no_overlay(tmp_path: Path, cache: Path, repository: Path) -> None:
    head = gomodule.git(repository, "rev-parse", "HEAD")
    campaign, done = new(tmp_path / "mine", cache, *go(repository, before=head))
    assert "both trees" not in done.stderr
    assert not re.search(r"^overlay", (campaign.folder / "plan.toml").read_text(), re.M)
    sealed = seal.Seal({"files": {"orders.json": ""}, "trees": {"before": {}, "after": {"overlay": {}}}}, "")
    assert page_trees.overlays(sealed, ["before", "after"]) == [
        ("none", "each tree brings what measures it, under its own digests")
    ]


@pytest.mark.parametrize(
    ("more", "changes", "message"),
    [
        ((), {"before": "no-such"}, "--before: 'no-such' is no commit of"),
        ((), {"after": "--all"}, "--after: '--all' is no commit of"),
        (("--bench", "Nope"), {}, "expected: Encode, EncodeOther, Top"),
        (("--bench", "Nope/x"), {}, "found: Nope/x"),
        (("--bench", "Top/a b"), {}, "found: Top/a b"),
        (("--package", "./..."), {}, "no single package"),
        (("--package", "codec"), {}, "no single package"),
        (("--package", "./../x"), {}, "no single package"),
        (("--package", "."), {}, "no such benchmark in . at"),
        ((), {"after": "slow"}, "found: no benchmark"),
    ],
)  # fmt: skip
def test_wrong_use_of_go_test(
    tmp_path: Path, cache: Path, repository: Path, more: tuple[str, ...], changes: dict[str, str], message: str
) -> None:
    for address in (str(repository), f"file://{repository}"):
        _, done = new(tmp_path / "mine", cache, *go(address, *more, **changes))
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
        assert not (tmp_path / "mine").exists()


def test_a_repository_that_is_none(tmp_path: Path, cache: Path) -> None:
    for address in (str(tmp_path), f"file://{tmp_path}"):
        _, done = new(tmp_path / "mine", cache, *go(address))
        assert done.returncode == 2
        assert "is no commit of" in done.stderr
