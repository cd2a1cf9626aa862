"""The hand-written pages agree with the code: keys of a plan, commands, claim rules and statuses."""

from __future__ import annotations

import re
import subprocess
import sys
import types
import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

from analysis.tables import STATUS_WORDS
from runner import orders
from runner.plan import Claim, Plan

BOOK = Path(__file__).resolve().parents[1] / "book"
PAGES = sorted(BOOK.glob("*.md"))


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


@pytest.mark.parametrize("package", ["runner", "analysis"])
def test_every_command_on_a_page_exists(package: str) -> None:
    told = {c for page in PAGES for c in re.findall(rf"python -m {package} ([a-z]+)", page.read_text())}
    assert told
    done = subprocess.run(
        [sys.executable, "-m", package, "--help"], cwd=BOOK.parent, capture_output=True, text=True, check=True
    )
    assert {command for command in told if not re.search(rf"\b{command}\b", done.stdout)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_name_existing_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:notebooks|workloads|runner|analysis)/[\w./]+\.\w+)`", page.read_text()):
        assert (BOOK.parent / path).exists(), path
