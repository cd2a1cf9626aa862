"""The phase notebook by itself: re-executed with a new seed, and refused with a parameter it does not have."""

from __future__ import annotations

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
from tests.bundled import CAMPAIGN, ROOT

NOTEBOOK = "notebooks/phase_b.ipynb"


def papermill(out: Path, *parameters: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "papermill", NOTEBOOK, str(out), "--no-progress-bar", *parameters]
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


def test_the_committed_notebook_holds_no_output_and_no_logic() -> None:
    cells = json.loads((ROOT / NOTEBOOK).read_text())["cells"]
    for cell in cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        code = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert len(code.splitlines()) <= 4
            assert not re.search(r"^\s*(def|for|if|while|class|try)\b", code, re.M)


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
