"""The page "What can go wrong" names tests that exist, and every test that breaks a promise on purpose."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "book" / "faults.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| Fault |", "|---"))]
NAMED = re.findall(r"`(\w[\w/]*\.py)::(\w+)`", PAGE)
BREAKING = sorted((ROOT / "tests" / "faults").glob("test_*.py"))


def functions(path: Path) -> set[str]:
    """Names of the tests of a file."""
    found = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    return {node.name for node in found if node.name.startswith("test_")}


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_every_row_has_a_fault_an_outcome_and_a_test(row: str) -> None:
    fault, outcome, tests = (cell.strip() for cell in row.strip("|").split(" | "))
    assert fault and outcome
    assert re.fullmatch(r"`\w[\w/]*\.py::\w+`( `\w[\w/]*\.py::\w+`)*", tests)


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[f"{path}::{name}" for path, name in NAMED])
def test_every_test_that_is_named_exists(path: str, name: str) -> None:
    assert name in functions(ROOT / "tests" / path)


@pytest.mark.parametrize("path", BREAKING, ids=[path.stem for path in BREAKING])
def test_every_test_that_breaks_something_is_named(path: Path) -> None:
    named = {name for file, name in NAMED if file == f"faults/{path.name}"}
    assert functions(path) == named
