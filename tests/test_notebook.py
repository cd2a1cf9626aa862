"""The phase notebook by itself: re-executed with a new seed, and refused with a parameter it does not have."""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis import page
from analysis.rendering import check_executed
from runner.errors import DataError
from runner.planfile import load
from tests.bundled import CAMPAIGN, ROOT

NOTEBOOK = "notebooks/phase_b.ipynb"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("phase*.ipynb"))
SHARED_LINES = 12  # of code, that two notebooks may have in common
PHASES = ("A", "A2", "B", "C1", "C2", "C3", "D1", "D2", "N")


def papermill(out: Path, *parameters: str, notebook: str = NOTEBOOK) -> subprocess.CompletedProcess[str]:
    named = () if "campaign" in parameters else ("-p", "campaign", f"data/{CAMPAIGN.name}")
    argv = [sys.executable, "-m", "papermill", notebook, str(out), "--no-progress-bar", *named, *parameters]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def shown(path: Path) -> str:
    """All text of a notebook's outputs."""
    cells = json.loads(path.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "\n".join("".join(output.get("data", {}).get("text/plain", "")) for output in outputs)


def rows(text: str) -> list[tuple[str, str, str]]:
    """(metric, ratio with t interval, percentile interval) of every row of the results tables."""
    found = re.findall(r"(ns/op)\t(\S+ \[[^\]]+\])\t(\[[^\]]+\])", text)
    return [(metric, ratio, percentile) for metric, ratio, percentile in found]


def test_a_new_seed_changes_the_percentile_interval_only(tmp_path: Path) -> None:
    plans, other = tmp_path / "plans.ipynb", tmp_path / "other.ipynb"
    assert papermill(plans).returncode == 0
    assert papermill(other, "-p", "seed", "12345").returncode == 0
    first, second = shown(plans), shown(other)
    assert "seed\t12345" in second
    assert "seed\t391706" in first
    before, after = rows(first), rows(second)
    assert len(before) == len(after) == 24
    assert [ratio for _, ratio, _ in before] == [ratio for _, ratio, _ in after]
    changed = [pair for pair in zip(before, after, strict=True) if pair[0][2] != pair[1][2]]
    assert changed


def test_a_new_seed_moves_the_percentile_interval_by_little(tmp_path: Path) -> None:
    found = {}
    for seed in ("391706", "12345"):
        argv = [
            sys.executable,
            "-m",
            "analysis",
            "estimates",
            str(CAMPAIGN),
            "--phase",
            "B",
            "--seed",
            seed,
            "--format",
            "json",
        ]
        output = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        found[seed] = json.loads(output)["estimates"]
    moved = 0
    for a, b in zip(found["391706"], found["12345"], strict=True):
        assert (a["point"], a["t"], a["percentile_exact"]) == (b["point"], b["t"], b["percentile_exact"])
        if a["percentile"]:
            width = a["percentile"][1] - a["percentile"][0]
            assert b["percentile"] == pytest.approx(a["percentile"], abs=0.1 * width)
            moved += a["percentile"] != b["percentile"]
    assert moved > 20


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (("-p", "sede", "1"), "unknown: sede"),
        (("-p", "_seed", "1"), "unknown: _seed"),
        (("-p", "page", "1"), "unknown: page"),
        (("-p", "open", "1"), "unknown: open"),
        (("-p", "seed", "abc"), "notebook parameter seed: expected int"),
        (("-r", "resamples", "500"), "notebook parameter resamples: expected int"),
        (("-y", "{seed: 1, sede: 2}"), "unknown: sede"),
        (("-p", "resamples", "1000000000000"), "notebook parameter resamples: expected 100 to 10000000"),
        (("-p", "campaign", "data/none"), "not a campaign folder"),
        (("-p", "phase", "Q"), "no phase 'Q' in the plan"),
    ],
)
def test_a_wrong_parameter_is_an_error(tmp_path: Path, parameters: tuple[str, ...], message: str) -> None:
    done = papermill(tmp_path / "out.ipynb", *parameters)
    assert done.returncode != 0
    assert message in done.stderr


def test_parameters_are_checked_by_name_and_type() -> None:
    good: dict[str, Any] = {"campaign": "x", "phase": "B", "seed": None, "resamples": None}
    with pytest.raises(DataError, match="unknown: _resample, resample"):
        page.begin(good | {"In": ["", "seed = None", "resample = 3; _resample: int = 4", "report = begin()"]})
    with pytest.raises(DataError, match="resamples: expected int"):
        page.begin(good | {"In": ["", "report = begin()"], "resamples": True})
    for name, value, words in (
        ("seed", -1, "expected 0 to 9223372036854775807"),
        ("seed", 2**64, "expected 0 to"),
        ("seed", "5", "expected int"),
        ("seed", 1.0, "expected int"),
        ("resamples", 0, "expected 100 to 10000000"),
        ("resamples", 10**12, "expected 100 to"),
        ("resamples", [500], "expected int"),
        ("phase", 1, "expected str"),
        ("phase", None, "expected str"),
        ("campaign", None, "expected str"),
    ):
        with pytest.raises(DataError, match=f"notebook parameter {name}: {words}"):
            page.begin(good | {"In": ["", "report = begin()"], name: value})


def code_cells(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def is_call(node: ast.stmt, name: str) -> bool:
    """Whether a statement is `page.something(name)` and nothing else."""
    call = node.value if isinstance(node, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == "page"
        and [ast.unparse(argument) for argument in call.args] == [name]
        and not call.keywords
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_holds_no_output_and_no_logic(path: Path) -> None:
    for cell in json.loads(path.read_text())["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    parameters, begin, *calls = code_cells(path)
    assert [ast.unparse(node).split(" = ")[0] for node in ast.parse(parameters).body] == list(page.PARAMETERS)
    assert begin == "from analysis import page\n\nreport = page.begin(globals())"
    assert len(calls) <= 9
    for source in calls:
        (node,) = ast.parse(source).body
        assert is_call(node, "report"), source


@pytest.mark.parametrize("source", ["page.answer(1 if report else 2)", "x = page.answer(report)", "open(report)"])
def test_logic_in_a_cell_is_noticed(source: str) -> None:
    assert not is_call(ast.parse(source).body[0], "report")


def test_notebooks_share_a_few_lines_of_code() -> None:
    lines = {path: {line for code in code_cells(path) for line in code.splitlines() if line} for path in NOTEBOOKS}
    for one, other in itertools.combinations(NOTEBOOKS, 2):
        assert len(lines[one] & lines[other]) <= SHARED_LINES, (one.name, other.name)


def test_every_phase_of_the_plan_has_a_notebook_that_is_its_own() -> None:
    plan = load(CAMPAIGN / "plan.toml")
    for phase in PHASES:
        path = page.notebook_of(plan, phase)
        assert path.name == f"phase_{phase.lower()}.ipynb"
        assert f'phase = "{phase}"' in code_cells(path)[0]
    assert page.notebook_of(plan, "new").name == "phase.ipynb"


def test_a_notebook_that_shows_what_a_phase_does_not_have_is_not_its_own() -> None:
    plan = load(CAMPAIGN / "plan.toml")
    phases = {"A": plan.phases["B"], "B": plan.phases["A"], "N": plan.phases["B"], "C3": plan.phases["C1"]}
    other = plan.model_copy(update={"phases": phases})
    names = {phase: page.notebook_of(other, phase).name for phase in phases}
    assert names == {"A": "phase.ipynb", "B": "phase_b.ipynb", "N": "phase.ipynb", "C3": "phase.ipynb"}


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_every_notebook_runs_with_another_seed_and_fewer_resamples(tmp_path: Path, phase: str) -> None:
    if phase not in load(CAMPAIGN / "plan.toml").phases:
        pytest.skip(f"the bundled campaign has no phase {phase}")
    out = tmp_path / "out.ipynb"
    notebook = f"notebooks/phase_{phase.lower()}.ipynb"
    done = papermill(out, "-p", "seed", "12345", "-p", "resamples", "500", notebook=notebook)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "seed\t12345" in shown(out)
    assert "resamples\t500" in shown(out)


def test_a_phase_without_a_notebook_of_its_own_has_a_page(tmp_path: Path) -> None:
    own, common = tmp_path / "own.ipynb", tmp_path / "common.ipynb"
    assert papermill(own).returncode == 0
    assert papermill(common, "-p", "phase", "B", notebook="notebooks/phase.ipynb").returncode == 0
    assert set(shown(own).splitlines()) <= set(shown(common).splitlines())


def test_a_page_that_was_not_executed_is_refused() -> None:
    import nbformat

    notebook = nbformat.read(ROOT / NOTEBOOK, as_version=4)
    with pytest.raises(DataError, match="cell 1: was not executed"):
        check_executed(notebook, "phase_b.ipynb")
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = 1
    check_executed(notebook, "phase_b.ipynb")
    notebook.cells[3].outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="x", traceback=[])]
    with pytest.raises(DataError, match="cell 3: holds an error"):
        check_executed(notebook, "phase_b.ipynb")
