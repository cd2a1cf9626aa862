"""Amendments: what may be changed after the seal and what not, what is kept, and that `verify` and the pages tell of it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis import amendments as told
from runner import seal
from runner.amend import amend as amend_campaign
from runner.errors import BenchbookError, DataError, Refused, WrongUse
from runner.journal import Journal
from runner.store import Store
from runner.verify import verify
from tests import amending, campaigns
from tests.amending import CLAIM, WHY, amend, append, content, edit, problems
from tests.campaigns import PROJECT, Campaign, rechained

RUN = "phase T, case Load, block 1"


@pytest.fixture(scope="module")
def two_blocks(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """Two phases, of which T has two whole blocks, one of each case; its runner was killed then. Take a copy."""
    campaign = amending.two_phases(tmp_path_factory.mktemp("begun"), cache, name="amended")
    return amending.begin(campaign, "event:block-end:2:after")


@pytest.fixture
def begun(two_blocks: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    monkeypatch.setenv("BENCHBOOK_CACHE", str(two_blocks.cache))
    return two_blocks.copy(tmp_path)


@pytest.fixture(scope="module")
def unchanged(two_blocks: Campaign, tmp_path_factory: pytest.TempPathFactory) -> tuple[Campaign, dict[str, bytes]]:
    """A copy for amendments that are refused, so that nothing of it changes; and what it holds."""
    copy = two_blocks.copy(tmp_path_factory.mktemp("unchanged"))
    return copy, content(copy)


# ---- what runs rest on --------------------------------------------------------------------------------

ARM = '\n[[phases.T.arms]]\nname = "more"\ntree = "plain"\n'
METRIC = '\n[[phases.T.metrics]]\nunit = "x/op"\nbetter = "lower"\nper = "repeat"\nscope = "made up"\n'
COVARIATE = '\n[[phases.T.covariates]]\nname = "more"\nexpected = "constant"\nwhat = "more"\n'
REFUSED: list[tuple[str, str, str, str]] = [  # key path; after; old; new
    ("campaign.payload_seed", "", "payload_seed = 7", "payload_seed = 8"),
    ("host.cpus.client", "", 'client = "', 'client = "0,'),
    ("engine.kind", "[engine]", 'kind = "none"', 'kind = "foundationdb"\nversion = "7.3.0"\nstorage = "memory"'),
    ("harness.files", "", '["tiny.py"]', '["tiny.py", "killed.py"]'),
    ("harness.source", "", 'source = "tests/harness"', 'source = "tests"'),
    ("rules.interruptions", "", '["runner-killed", "host-down"]', '["host-down"]'),
    ("rules.wrong_answer", "", 'wrong_answer = "go-on"', 'wrong_answer = "stop-phase"'),
    ("rules.wrong_answer_exit", "", "wrong_answer_exit = 3", "wrong_answer_exit = 4"),
    ("rules.run_limit_s", "", "run_limit_s = 60", "run_limit_s = 61"),
    ("rules.output_limit_mb", "", "output_limit_mb = 256", "output_limit_mb = 255"),
    ("rules.checks.idle_load", "", "idle_load = 1.0", "idle_load = 0.5"),
    ("trees.plain.compiled", "", 'python = "3', 'compiled = ["x"]\npython = "3'),
    ("phases.T.cases[Load].argv", "[phases.T]", '"-B", ', '"-B", "-X", "utf8", '),
    ("phases.T.environment.MORE", "[phases.T]", "environment = {", 'environment = { MORE = "1",'),
    ("phases.T.repeats", "[phases.T]", "repeats = 2", "repeats = 3"),
    ("phases.T.order_seed", "[phases.T]", "order_seed = 3", "order_seed = 4"),
    ("phases.T.arms[two].switches.number", "[phases.T]", "number = 1", "number = 2"),
    ("phases.T.arms[more]", "[phases.T]", "\n[[phases.T.metrics]]", f"{ARM}\n[[phases.T.metrics]]"),
    ("phases.T.metrics[ns/op].better", "[phases.T]", 'better = "lower"', 'better = "higher"'),
    ("phases.T.metrics[B/op].per", "B/op", 'per = "run"', 'per = "repeat"'),
    ("phases.T.metrics[x/op]", "[phases.T]", "\n[[phases.T.contrasts]]", f"{METRIC}\n[[phases.T.contrasts]]"),
    ("phases.T.covariates[more]", "[phases.T]", "\n[[phases.T.cases]]", f"{COVARIATE}\n[[phases.T.cases]]"),
    ("phases.T.covariates[rows].expected", "[phases.T]", '"constant"', '"varying"'),
    ("phases.T.cases[Load].parameters.rows", "[phases.T]", "rows = 10", "rows = 11"),
    ("phases.T.cases[Load].argv", "[phases.T]", "expected_s = 0.1", 'expected_s = 0.1\nargv = ["x"]'),
]


@pytest.mark.parametrize(
    ("path", "after", "old", "new"), REFUSED, ids=[f"{entry[0]}-{i}" for i, entry in enumerate(REFUSED)]
)
def test_what_runs_rest_on_cannot_be_amended(
    unchanged: tuple[Campaign, dict[str, bytes]], path: str, after: str, old: str, new: str
) -> None:
    campaign, before = unchanged
    edit(campaign, old, new, after)
    with pytest.raises(Refused) as caught:
        amend(campaign)
    assert path in caught.value.where, caught.value
    assert RUN in caught.value.found
    assert "runs of phase T rest on this" in caught.value.problem
    (campaign.folder / "plan.toml").write_bytes(before["plan.toml"])
    assert content(campaign) == before


def test_a_phase_or_case_that_has_begun_cannot_go_nor_its_blocks(begun: Campaign) -> None:
    path = begun.folder / "plan.toml"
    text = path.read_text()
    path.write_text(text[: text.index("[phases.T]")] + text[text.index("[phases.U]") :])
    with pytest.raises(Refused, match=rf"phases\.T: it has runs, and is not in the plan any more(.|\n)*{RUN}"):
        amend(begun)
    path.write_text(text.replace('[[phases.T.cases]]\nname = "Load"', '[[phases.T.cases]]\nname = "Other"'))
    with pytest.raises(Refused, match=r"phases\.T\.cases\[Load\]: it has runs"):
        amend(begun)
    path.write_text(text)
    begun.does("run", "--phase", "T")
    edit(begun, "blocks = 3", "blocks = 2", "[phases.T]")
    with pytest.raises(Refused, match=r"phases\.T\.blocks: more blocks of case Load have begun"):
        amend(begun)


def test_a_lock_and_a_harness_of_the_campaigns_own_cannot_change_under_runs(begun: Campaign) -> None:
    lock = begun.folder / "trees" / "plain.txt"
    lock.write_text("# nothing\n")
    with pytest.raises(Refused, match=rf"plain\.txt: runs of phase T rest on this file(.|\n)*{RUN}"):
        amend(begun)
    lock.write_text("")
    with (begun.folder / "harness" / "tiny.py").open("a") as file:
        file.write("#\n")
    edit(begun, "resamples = 200", "resamples = 300")
    with pytest.raises(DataError, match=r"harness/tiny\.py: sealed"):
        amend(begun)


def test_the_harness_that_lies_in_the_campaign_is_guarded_too(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = campaigns.write(tmp_path, cache, name="own", blocks=2, cases=("Load",))
    edit(campaign, 'source = "tests/harness"\n', "")
    (campaign.folder / "harness").mkdir()
    shutil.copy(PROJECT / "tests" / "harness" / "tiny.py", campaign.folder / "harness")
    amending.begin(campaign, "event:run-end:1:after")
    monkeypatch.setenv("BENCHBOOK_CACHE", str(cache))
    assert (campaign.folder / "protocol" / "1" / "harness" / "tiny.py").is_file()
    harness = campaign.folder / "harness" / "tiny.py"
    whole = harness.read_bytes()
    harness.write_bytes(whole + b"#\n")
    with pytest.raises(Refused, match=r"harness/tiny\.py: runs of phase T rest on this file"):
        amend(campaign)
    (campaign.folder / "harness" / "more.py").write_text("")
    with pytest.raises(DataError, match=r"more\.py"):
        amend(campaign)
    harness.write_bytes(whole)
    (campaign.folder / "harness" / "more.py").unlink()
    append(campaign, CLAIM)
    amend(campaign)
    assert problems(campaign) == []


# ---- what may be changed ------------------------------------------------------------------------------

CONTRAST = '\n[[phases.T.contrasts]]\nnumerator = "one"\ndenominator = "two"\nwhat = "the other way round"\n'
CASE = (
    '\n[[phases.{0}.cases]]\nname = "More"\nwhat = "x"\nexpected_s = 0.1\nparameters = {{ rows = 10, faults = "" }}\n'
)
ALLOWED: list[tuple[str, str, str, str]] = [
    ("campaign.title", "", "A tiny campaign", "A small campaign"),
    ("statistics.primary", "", 'primary = "t"', 'primary = "percentile"'),
    ("statistics.resamples", "", "resamples = 200", "resamples = 300"),
    ("statistics.level", "", "level = 0.95", "level = 0.9"),
    ("rules.quiet_wait_s", "", "quiet_wait_s = 0.0", "quiet_wait_s = 0.5"),
    ("rules.busy_block", "", 'busy_block = "mark"', 'busy_block = "refuse"'),
    ("rules.replacement_blocks", "", "replacement_blocks = 2", "replacement_blocks = 3"),
    ("trees.plain.what", "", "no packages at all", "nothing at all"),
    ("phases.T.question", "[phases.T]", "Which made-up", "Which invented"),
    ("phases.T.primary_metric", "[phases.T]", 'primary_metric = "ns/op"', 'primary_metric = "B/op"'),
    ("phases.T.contrasts[one/two]", "[phases.T]", "\n[phases.T.holm]", f"{CONTRAST}\n[phases.T.holm]"),
    ("phases.T.holm.metrics", "[phases.T.holm]", 'metrics = ["ns/op"]', 'metrics = ["B/op"]'),
    ("phases.T.metrics[ns/op].scope", "[phases.T]", "made up", "invented"),
    ("phases.T.covariates[rows].what", "[phases.T]", "rows, as", "how many rows, as"),
    ("phases.T.claims[late]", "", "\n[phases.U]", f"{CLAIM}\n[phases.U]"),
    ("phases.T.blocks", "[phases.T]", "blocks = 3", "blocks = 7"),
    ("phases.T.blocks", "[phases.T]", "blocks = 3", "blocks = 4"),
    ("phases.T.blocks", "[phases.T]", "blocks = 3", "blocks = 2"),
    ("phases.T.cases[More]", "", "\n[phases.U]", f"{CASE.format('T')}\n[phases.U]"),
    ("phases.U.repeats", "[phases.U]", "repeats = 2", "repeats = 3"),
    ("phases.U.arms[two].switches.number", "[phases.U]", "number = 1", "number = 2"),
    ("phases.U.order_seed", "[phases.U]", "order_seed = 3", "order_seed = 4"),
    ("phases.U.cases[Load].parameters.rows", "[phases.U]", "rows = 10", "rows = 11"),
    ("phases.U.metrics[ns/op].better", "[phases.U]", 'better = "lower"', 'better = "higher"'),
    ("plan.toml (comments or layout)", "", "[campaign]", "# a comment\n[campaign]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "after", "old", "new"), ALLOWED, ids=[f"{entry[0]}-{i}" for i, entry in enumerate(ALLOWED)]
)
def test_what_may_be_amended_is_recorded_and_the_earlier_version_kept(
    begun: Campaign, path: str, after: str, old: str, new: str
) -> None:
    before, orders = content(begun), begun.orders()
    edit(begun, old, new, after)
    digest = amend(begun)[-1]
    assert problems(begun) == []
    event = begun.events()[-1]
    assert (event["event"], event["why"], event["seal"]) == ("amended", WHY, digest)
    assert digest == hashlib.sha256((begun.folder / "seal.json").read_bytes()).hexdigest()
    for name in ("plan.toml", "seal.json"):
        assert (begun.folder / "protocol" / "1" / name).read_bytes() == before[name]
    (amendment,) = seal.amendments(Store.open(begun.folder))
    assert amendment.words() == path
    assert (amendment.earlier, amendment.later) == (event["earlier"], digest)
    assert {labels.phase for labels in amendment.before} == {"T"}
    record = json.loads((begun.folder / "protocol" / "1" / "amendment.json").read_bytes())
    assert record["runs_before"] == {"T": {"runs": 4, "sequences": "0 to 3"}}
    now = begun.orders()
    assert now[:4] == orders[:4]
    kept = [entry for entry in orders if entry in now]
    assert [entry for entry in now if entry in kept] == kept
    added = [entry for entry in now if entry not in orders]
    assert all(entry["sequence"] >= len(orders) for entry in added)
    if "blocks" not in path and "cases[More]" not in path and "order_seed" not in path:
        assert now == orders
    assert not list(begun.folder.rglob("*.partial"))


def test_phases_and_cases_without_runs_may_go_and_new_ones_come(begun: Campaign) -> None:
    path = begun.folder / "plan.toml"
    text = path.read_text()
    last = text.index('[[phases.U.cases]]\nname = "Scan')
    path.write_text(text[:last] + text[text.index("[phases.U]") : last].replace("phases.U", "phases.V"))
    amend(begun, "V is asked too, and one case of U is left out")
    assert [entry["phase"] for entry in begun.orders() if entry["case"] == "Scan/serial"] == ["T"] * 6
    added = [entry for entry in begun.orders() if entry["phase"] in "UV"]
    assert [entry["sequence"] for entry in added] == list(range(24, 36))
    path.write_text(path.read_text()[: text.index("[phases.U]")])
    amend(begun, "U and V are left out")
    assert {entry["phase"] for entry in begun.orders()} == {"T"}
    notes = verify(Store.open(begun.folder)).notes
    assert [note.startswith(f"amendment {number}") for number, note in enumerate(notes, start=1)] == [True] * 2


def test_a_tree_of_a_phase_without_runs_may_change_and_its_lock_is_kept(begun: Campaign) -> None:
    tree = '\n[trees.other]\nkind = "packages"\nwhat = "nothing"\npython = "{0}"\nlock = "trees/other.txt"\n'
    (begun.folder / "trees" / "other.txt").write_text("# one\n")
    version = re.search(r'python = "([0-9.]+)"', (begun.folder / "plan.toml").read_text())
    assert version
    edit(begun, "\n[phases.T]", tree.format(version[1]) + "\n[phases.T]")
    edit(begun, 'tree = "plain"', 'tree = "other"', "[phases.U]")
    amend(begun, "an arm of U has a tree of its own")
    (begun.folder / "trees" / "other.txt").write_text("# another\n")
    amend(begun, "the lock of that tree")
    assert problems(begun) == []
    second = seal.amendments(Store.open(begun.folder))[1]
    assert second.words() == "trees (trees/other.txt)"
    assert (begun.folder / "protocol" / "2" / "trees" / "other.txt").read_text() == "# one\n"
    edit(begun, tree.format(version[1]), "")
    edit(begun, 'tree = "other"', 'tree = "plain"', "[phases.U]")
    amend(begun, "and no tree of its own after all")
    assert not (begun.folder / "trees" / "other.txt").exists()
    assert (begun.folder / "protocol" / "3" / "trees" / "other.txt").read_text() == "# another\n"
    assert problems(begun) == []


def test_a_tree_that_is_dropped_takes_its_folders_with_it(begun: Campaign) -> None:
    """An empty folder that stayed would keep the campaign from being closed, for good."""
    drop = amending.with_tree(begun, "locks/of/other.txt")
    amend(begun, "a tree that may be needed")
    drop()
    amend(begun, "it was not")
    assert not (begun.folder / "locks").exists()
    assert (begun.folder / "protocol" / "2" / "locks" / "of" / "other.txt").read_text() == "# one\n"
    assert begun.call("run").returncode == 0
    assert len(begun.events("close")) == 1
    assert problems(begun) == []


def test_a_sealed_campaign_without_runs_may_be_amended_and_is_then_not_sealed_again(
    sealed: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHBOOK_CACHE", str(sealed.cache))
    copy = sealed.copy(tmp_path)
    edit(copy, "repeats = 2", "repeats = 3")
    edit(copy, "number = 1", "number = 5")
    amend(copy)
    assert problems(copy) == []
    assert copy.orders() == sealed.orders()
    with pytest.raises(Refused, match="this campaign was amended"):
        seal.write(Store.open(copy.folder))
    plan = copy.does("plan").stdout
    assert "12 runs" in plan


# ---- who may amend, and why ---------------------------------------------------------------------------


def test_a_draft_is_edited_and_a_closed_campaign_stays(closed: Campaign, tmp_path: Path, cache: Path) -> None:
    draft = amending.two_phases(tmp_path, cache, name="draft")
    done = draft.call("amend", "--why", WHY)
    assert done.returncode == 1
    assert "this campaign is a draft" in done.stderr
    assert f"edit plan.toml, then python -m runner seal {draft.folder}" in done.stderr
    assert not (draft.folder / "journal.jsonl").exists()
    copy = closed.copy(tmp_path)
    append(copy, CLAIM)
    before = content(copy)
    done = copy.call("amend", "--why", WHY)
    assert (done.returncode, "this campaign is closed" in done.stderr) == (1, True)
    assert content(copy) == before


@pytest.mark.parametrize("adopted", [True, False])
def test_what_was_not_executed_here_is_not_amended(tmp_path: Path, adopted: bool) -> None:
    folder = tmp_path / "hcloud-rebench-20261014"
    shutil.copytree(PROJECT / "data" / folder.name, folder)
    if adopted:
        (folder / "adoption.json").write_text("{}")
    with pytest.raises(Refused, match=f"this campaign is {'adopted' if adopted else 'figures-only'}"):
        amend_campaign(Store.open(folder), WHY, print)


def test_nothing_changed(begun: Campaign) -> None:
    before = content(begun)
    done = begun.call("amend", "--why", WHY)
    assert (done.returncode, "nothing changed since the seal" in done.stderr) == (1, True)
    assert content(begun) == before


@pytest.mark.parametrize("why", ["", "  \n", "a\x1b[2Jb", "x" * 2001])
def test_a_reason_is_asked_for(begun: Campaign, why: str) -> None:
    append(begun, CLAIM.replace("phases.T", "phases.U"))
    before = content(begun)
    with pytest.raises(WrongUse, match="--why: no reason that can be shown"):
        amend(begun, why)
    assert content(begun) == before
    done = begun.call("amend")
    assert (done.returncode, "--why" in done.stderr) == (2, True)


def test_another_runner_at_work(begun: Campaign) -> None:
    append(begun, CLAIM.replace("phases.T", "phases.U"))
    with Journal(begun.folder / "journal.jsonl"), pytest.raises(Refused, match="another runner is at work"):
        amend(begun)


def test_another_id_and_a_plan_that_is_none(begun: Campaign) -> None:
    edit(begun, 'id = "amended"', 'id = "other"')
    with pytest.raises(Refused, match=r"campaign\.id was changed"):
        amend(begun)
    edit(begun, 'id = "other"', 'id = "amended"\nunknown = 1')
    with pytest.raises(BenchbookError, match="unknown key"):
        amend(begun)


@pytest.mark.parametrize("name", ["orders.json", "host.json", "as-run/runner/plan.py", "harness/tiny.py"])
def test_only_what_a_person_writes_is_taken_as_an_amendment(begun: Campaign, name: str) -> None:
    append(begun, CLAIM.replace("phases.T", "phases.U"))
    path = begun.folder / name
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(DataError, match=rf"(?s)changed since the seal.*{name}"):
        amend(begun)


def test_files_that_nobody_sealed(begun: Campaign) -> None:
    append(begun, CLAIM.replace("phases.T", "phases.U"))
    (begun.folder / "harness" / "json.py").write_text("")
    with pytest.raises(DataError, match=r"harness/json\.py: not in the seal"):
        amend(begun)


def test_a_seal_or_a_kept_plan_that_was_changed(begun: Campaign) -> None:
    append(begun, CLAIM.replace("phases.T", "phases.U"))
    kept = begun.folder / "protocol" / "1" / "plan.toml"
    whole = kept.read_bytes()
    kept.write_bytes(whole + b"#")
    with pytest.raises(Refused, match=r"(?s)what was sealed is not kept.*protocol/1/plan\.toml, then amend again"):
        amend(begun)
    kept.write_bytes(whole)
    path = begun.folder / "seal.json"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(Refused, match="not the seal that the journal names"):
        amend(begun)


def test_another_host(begun: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    append(begun, CLAIM.replace("phases.T", "phases.U"))
    monkeypatch.setattr("runner.execute.host.differences", lambda *_: ["kernel: sealed 'a', found 'b'"])
    with pytest.raises(Refused, match="not the host that was sealed"):
        amend(begun)


def test_a_tree_or_an_engine_that_is_not_what_runs_were_made_with(
    begun: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(begun, CLAIM.replace("phases.T", "phases.U"))
    with monkeypatch.context() as patch:
        patch.setattr("runner.amend.engines.identity", lambda _: {"version": "other"})
        with pytest.raises(Refused, match="not the engine that runs were made with"):
            amend(begun)
    monkeypatch.setattr("runner.amend.treekinds.difference", lambda *_: "python differs")
    with pytest.raises(Refused, match=rf"(?s)tree plain: runs of phase T were made with another one.*{RUN}"):
        amend(begun)


def test_run_refuses_a_copy_that_was_changed(begun: Campaign) -> None:
    (begun.folder / "protocol" / "1" / "plan.toml").unlink()
    done = begun.call("run")
    assert (done.returncode, "protocol/1/plan.toml: missing" in done.stderr) == (1, True)


def test_run_says_how_a_changed_plan_is_amended(begun: Campaign) -> None:
    append(begun, CLAIM.replace("phases.T", "phases.U"))
    done = begun.call("run")
    assert done.returncode == 1
    assert f'in the open: python -m runner amend {begun.folder} --why "..."' in done.stderr


# ---- campaigns that were sealed before earlier versions were kept --------------------------------------


def resealed(campaign: Campaign, change: Callable[[dict[str, Any]], object]) -> None:
    """Change seal.json, and a journal and records that agree with it."""
    path = campaign.folder / "seal.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))
    old, new = campaign.events("sealed")[0]["seal"], hashlib.sha256(path.read_bytes()).hexdigest()
    digests = {}
    for record in campaign.folder.glob("runs/*/*/*/run.json"):
        before = hashlib.sha256(record.read_bytes()).hexdigest()
        record.write_text(record.read_text().replace(old, new))
        digests[before] = hashlib.sha256(record.read_bytes()).hexdigest()
    journal = campaign.folder / "journal.jsonl"
    text = journal.read_text().replace(old, new)
    for before, after in digests.items():
        text = text.replace(before, after)
    journal.write_text(text)
    journal.write_bytes(rechained(campaign.events()))


def test_a_campaign_whose_plan_was_not_kept(begun: Campaign) -> None:
    shutil.rmtree(begun.folder / "protocol")
    resealed(begun, lambda document: document.pop("kept"))
    assert problems(begun) == []
    whole = (begun.folder / "plan.toml").read_bytes()
    append(begun, CLAIM.replace("phases.T", "phases.U"))
    done = begun.call("amend", "--why", WHY)
    assert done.returncode == 1
    kept = begun.folder / "protocol" / "1" / "plan.toml"
    assert f"put the file as it was sealed at {kept}, then amend again" in done.stderr
    kept.parent.mkdir(parents=True)
    kept.write_bytes(whole)
    amend(begun)
    assert problems(begun) == []
    append(begun, CLAIM.replace("phases.T", "phases.U").replace('"late"', '"later"'))
    amend(begun)
    assert problems(begun) == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The product's own source, to be changed."""
    folder = tmp_path / "project"
    for name in ("runner", "analysis", "notebooks", "tests/harness"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_a_mended_runner_is_listed_and_the_sealed_one_kept(tmp_path: Path, cache: Path, project: Path) -> None:
    """Also of a campaign whose plan was not kept: the plan does not change."""
    campaign = campaigns.write(tmp_path, cache, name="mended", blocks=2, cases=("Load",))
    amending.begin(campaign, "event:block-end:1:after")
    shutil.rmtree(campaign.folder / "protocol")
    resealed(campaign, lambda document: document.pop("kept"))
    campaign.project = project
    for name in ("runner/progress.py", "analysis/model.py", "tests/harness/tiny.py"):
        with (project / name).open("a") as file:
            file.write("# mended\n")
    (project / "runner" / "new_module.py").write_text('"""New."""\n')
    before = content(campaign)
    done = campaign.call("run")
    assert (done.returncode, "this is not the runner that was sealed" in done.stderr) == (1, True)
    done = campaign.does("amend", "--why", "the runner was mended")
    listed = "  runner: as-run/runner/new_module.py, as-run/runner/progress.py\n  analysis: analysis/model.py"
    assert listed in done.stderr
    names = "as-run/runner/new_module.py, as-run/runner/progress.py"
    assert f"warning: the runner was changed after 2 runs, in {names}: the pages say so\n" in done.stderr
    assert f"runner: {names}" in told.changes(seal.amendments(Store.open(campaign.folder))[0])
    after = content(campaign)
    name = "as-run/runner/progress.py"
    assert after[f"protocol/1/{name}"] == before[name] != after[name]
    assert "protocol/1/as-run/runner/plan.py" not in after
    assert after["harness/tiny.py"] == before["harness/tiny.py"]
    assert after["orders.json"] == before["orders.json"]
    campaign.does("run")
    verified = campaign.does("verify").stdout
    assert "deviation: harness" in verified
    assert "deviation: runner" not in verified
    assert re.search(r"note: amendment 1, .* after 2 runs: the runner was mended; changed runner \(as-run/", verified)
    assert len(campaign.events("run-end")) == 4


def test_a_claim_is_preregistered_for_a_phase_that_had_no_runs_then(begun: Campaign) -> None:
    append(begun, CLAIM.replace("phases.T", "phases.U").replace('"late"', '"early"'))
    edit(begun, "\n[phases.U]", f"{CLAIM}\n[phases.U]")
    amend(begun)
    edit(begun, "level = 0.95", "level = 0.9")
    amend(begun, "another level")
    store = Store.open(begun.folder)
    history = told.history(store, store.ledger())
    assert told.declared_late(history, "U") == {}
    assert told.declared_late(history, "T") == {"late": "changed after 4 of 12 runs (not preregistered)"}
    assert told.sentences(history, "U") == []
    assert ["statistics.level" in text for text in told.sentences(history, "T")] == [True]


def test_orders_that_an_amendment_does_not_come_to(begun: Campaign) -> None:
    """Orders altered together with seal, record and journal are found: the kept plans do not come to them."""
    edit(begun, "blocks = 3", "blocks = 4")
    amend(begun)
    path = begun.folder / "orders.json"
    document = json.loads(path.read_bytes())
    runs = [entry for entry in document["runs"] if entry["block"] == 4 and entry["case"] == "Load"]
    runs[0]["arm"], runs[1]["arm"] = runs[1]["arm"], runs[0]["arm"]
    path.write_text(json.dumps(document))
    sealed = begun.folder / "seal.json"
    content_ = json.loads(sealed.read_bytes())
    content_["files"]["orders.json"] = hashlib.sha256(path.read_bytes()).hexdigest()
    sealed.write_text(json.dumps(content_))
    digest = hashlib.sha256(sealed.read_bytes()).hexdigest()
    record = begun.folder / "protocol" / "1" / "amendment.json"
    record.write_text(json.dumps(json.loads(record.read_bytes()) | {"later": digest}))
    events = begun.events()
    events[-1]["seal"] = digest
    events[-1]["files"]["protocol/1/amendment.json"] = hashlib.sha256(record.read_bytes()).hexdigest()
    (begun.folder / "journal.jsonl").write_bytes(rechained(events))
    assert problems(begun) == ["orders.json: not what plan.toml and its seeds expand to"]
