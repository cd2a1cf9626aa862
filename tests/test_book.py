"""The hand-written pages agree with the code: keys of a plan, commands, claim rules and statuses."""

from __future__ import annotations

import re
import subprocess
import sys
import types
import typing
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

from analysis.__main__ import main as analysis_main
from analysis.tables import STATUS_WORDS
from runner import orders
from runner.__main__ import main as runner_main
from runner.plan import Claim, Plan

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
PAGES = sorted(BOOK.glob("*.md"))
DOCUMENTS = "\n".join(page.read_text() for page in (*PAGES, ROOT / "README.md"))
GROUPS: dict[str, click.Group] = {"runner": runner_main, "analysis": analysis_main}
COMMANDS = [(package, name) for package, group in GROUPS.items() for name in group.commands]


def models(kind: object) -> set[type[BaseModel]]:
    """All parts of a plan below a type."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias) and issubclass(kind, BaseModel):
        below = (models(field.annotation) for field in kind.model_fields.values())
        return {kind}.union(*below)
    none: set[type[BaseModel]] = set()
    return none.union(*map(models, typing.get_args(kind)))


PARTS = sorted(models(Plan), key=lambda part: part.__name__)


@pytest.mark.parametrize("part", PARTS, ids=[part.__name__ for part in PARTS])
def test_every_key_of_a_plan_is_explained(part: type[BaseModel]) -> None:
    told = " ".join(re.findall(r"`[^`]+`", (BOOK / "harness.md").read_text()))
    for key in part.model_fields:
        assert re.search(rf"\b{key}\b", told), f"{part.__name__}.{key} is not in book/harness.md"


def test_every_rule_and_status_of_a_claim_is_explained() -> None:
    text = (BOOK / "method.md").read_text()
    for rule in re.findall(r"'([a-z0-9-]+)'", str(Claim.model_fields["holds"].annotation)):
        assert f"`{rule}`" in text
    for status in STATUS_WORDS.values():
        assert f"| {status} |" in text


def test_designs_are_those_of_the_runner() -> None:
    rows = re.findall(r"^\| (\d) \| (\d) \| ([A-D ]+) \|$", (BOOK / "method.md").read_text(), re.MULTILINE)
    told = {(int(arms), int(blocks)): words for arms, blocks, words in rows}
    made = {
        key: " ".join("".join("ABCD"[arm] for arm in block) for block in design)
        for key, design in orders.TABLES.items()
    }
    assert told == made


def told(text: str, package: str, command: str) -> set[str]:
    """Options that a text shows with a command, written in full or in short as `command --option`."""
    written = re.findall(rf"(?:python -m {package} |`){command}\b([^\n`|]*)", text)
    return {option for rest in written for option in re.findall(r"--[a-z-]+", rest)}


@pytest.mark.parametrize(("package", "command"), COMMANDS)
def test_every_command_and_option_is_explained(package: str, command: str) -> None:
    assert f"python -m {package} {command} " in DOCUMENTS
    options = {o for p in GROUPS[package].commands[command].params if isinstance(p, click.Option) for o in p.opts}
    assert options <= told(DOCUMENTS, package, command)


@pytest.mark.parametrize(("package", "command"), COMMANDS)
def test_every_option_on_a_page_exists(package: str, command: str) -> None:
    options = {o for p in GROUPS[package].commands[command].params for o in p.opts}
    full = "\n".join(re.findall(r"python -m [^\n`|]+", DOCUMENTS))
    assert told(full, package, command) <= options


def test_an_option_that_nobody_explains_is_found() -> None:
    text = "`status --json`\npython -m runner plan data/x and --seed\n`verify`, --json"
    assert told(text, "runner", "status") == {"--json"}
    assert told(text, "runner", "plan") == {"--seed"}
    assert told(text, "runner", "verify") == set()


def test_make_and_environment_are_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    targets = {target for target in phony[1].split() if not target.startswith("check-")}  # those are parts of others
    assert {target for target in targets if not re.search(rf"\bmake {target}\b", DOCUMENTS)} == set()
    variables = re.findall(r"^([A-Z]+) \?=", makefile, re.MULTILINE)
    assert variables
    assert {name for name in variables if f"`{name}=" not in DOCUMENTS} == set()
    read = {n for path in (ROOT / "runner").rglob("*.py") for n in re.findall(r'"(BENCHBOOK_\w+)"', path.read_text())}
    assert read
    assert {name for name in read if name not in DOCUMENTS} == set()


def test_what_the_runner_fixes_for_the_server_is_explained() -> None:
    source = (ROOT / "runner" / "engines" / "postgres.py").read_text()
    server = (BOOK / "harness.md").read_text().split("## The server")[1].split("\n## ")[0]
    fixed = re.findall(r'^        "(log_\w+|ssl)": ', source, re.MULTILINE)
    assert len(fixed) >= 3
    for word in (*fixed, "dynamic_shared_memory_type", "UTF8", "locale C", "checksums", "scram-sha-256"):
        assert word in server, word


@pytest.mark.parametrize("package", ["runner", "analysis"])
def test_every_command_on_a_page_exists(package: str) -> None:
    named = set(re.findall(rf"python -m {package} ([a-z]+)", DOCUMENTS))
    assert named
    done = subprocess.run(
        [sys.executable, "-m", package, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {command for command in named if not re.search(rf"\b{command}\b", done.stdout)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_name_existing_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:notebooks|workloads|runner|analysis)/[\w./]+\.\w+)`", page.read_text()):
        assert (BOOK.parent / path).exists(), path
