"""book/start.md from its first command to the last: executed as it stands, in a copy of the project without any campaign."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.planfile import load
from runner.starters.options import OPTIONS
from tests import gomodule
from tests.campaigns import PROJECT
from tests.test_starters import ENCODE_TEST

PAGE = (PROJECT / "book" / "start.md").read_text()
BLOCKS = [re.sub(r"\\\n *", "", text) for text in re.findall(r"^```console\n(.*?)^```$", PAGE, re.M | re.S)]
COPIED = ("runner", "analysis", "notebooks", "workloads", "book", "_config.yml", "_toc.yml", "README.md")


@dataclass
class Walk:
    """The page's commands as they were executed."""

    project: Path
    done: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)

    def execute(self, command: str, environment: dict[str, str]) -> None:
        self.done[command] = subprocess.run(
            shlex.split(command), cwd=self.project, env=environment, capture_output=True, text=True, check=False
        )
        assert self.done[command].returncode == 0, f"{command}\n{self.done[command].stderr[-3000:]}"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Walk:
    parent = tmp_path_factory.mktemp("start")
    project = parent / "project"
    project.mkdir()
    without = shutil.ignore_patterns("phases", "_build", "__pycache__")
    for name in COPIED:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, project / name, symlinks=True, ignore=without)
        else:
            shutil.copy(PROJECT / name, project / name)
    commits = gomodule.make(parent / "codec")
    gomodule.git(parent / "codec", "tag", "v1", commits["base"])
    gomodule.commit(parent / "codec", {"codec/codec_test.go": ENCODE_TEST}, "benchmarks")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{gomodule.go_folder()}:{environment['PATH']}"
    walk = Walk(project)
    for block in BLOCKS:
        for command in block.splitlines():
            walk.execute(command, environment | {"BENCHBOOK_CACHE": str(cache)})
    return walk


def test_from_an_empty_folder_to_a_page_in_four_commands(walk: Walk) -> None:
    first = BLOCKS[0].splitlines()
    assert [command.split()[-1] for command in first if "new" in command] == ["command"]
    assert len(first) == 4
    html = walk.project / "book" / "_build" / "html"
    page = (html / "phases" / "local-first" / "phase_t.html").read_text()
    assert re.search(r"small takes [0-9.]+ \[[0-9., ]+\]", re.sub(r"[\u2009\u202f]", "", page))
    assert "phases/local-first/index.html" in (html / "index.html").read_text()
    assert (walk.project / "book" / "phases" / "local-first" / "phase_t.ipynb").is_file()


def test_every_template_is_walked_through(walk: Walk) -> None:
    used = {match for command in walk.done for match in re.findall(r"--template ([a-z-]+)", command)}
    assert used == set(OPTIONS)
    assert any("0 do not hold" in done.stdout for done in walk.done.values())


def test_commands_of_the_users_own_take_their_files_along(walk: Walk) -> None:
    plan = load(walk.project / "data" / "local-mine" / "plan.toml")
    assert [arm.name for arm in plan.phases["T"].arms] == ["fast", "small"]
    assert plan.harness.files == ("timecommand.py", "README.md")
    [checked] = [done.stdout for command, done in walk.done.items() if " check " in command]
    assert "tree gzip: ready" in checked


def test_the_claim_on_the_page_is_one_of_that_plan(walk: Walk) -> None:
    [claim] = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
    path = walk.project / "data" / "local-mine" / "plan.toml"
    copy = path.with_name("with-claim.toml")
    copy.write_text(path.read_text() + "\n" + claim)
    assert [claim.id for claim in load(copy).phases["T"].claims] == ["T-1"]


def test_the_plan_of_go_commits_names_whole_commits(walk: Walk) -> None:
    plan = load(walk.project / "data" / "local-go" / "plan.toml")
    found = {name: tree.model_dump() for name, tree in plan.trees.items()}
    assert found["before"]["commit"] == gomodule.git(walk.project.parent / "codec", "rev-parse", "v1")
    assert found["after"]["repository"] == "../../../codec"
    assert [case.name for case in plan.phases["G"].cases] == ["Encode", "EncodeOther"]


def test_what_the_page_says_of_a_plan_is_in_it(walk: Walk) -> None:
    text = (walk.project / "data" / "local-first" / "plan.toml").read_text()
    for row in re.findall(
        r"^\| (`[^|]+) \| [^|]+ \|$", PAGE[PAGE.index("## Before the seal") :].partition("\n## ")[0], re.M
    ):
        for key in re.findall(r"`([^`]+)`", row):
            assert key.rpartition(".")[2] in text, key
