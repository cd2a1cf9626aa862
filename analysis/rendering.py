"""Raw logs to pages: verifies each campaign, executes the stale phase notebooks, writes book/phases/.

Only this module writes there. A page is stale when anything it was made from has changed: the campaign's
seal, journal or manifest, the analysis, the notebook, its parameters, or the versions of what computes and draws.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import papermill

from analysis import exports, overview, page
from analysis.report import PROJECT, PhaseReport, assert_phase, open_report
from runner import seal
from runner.errors import DataError
from runner.plan import Plan
from runner.store import Store

PAGES = PROJECT / "book" / "phases"
DATA = PROJECT / "data"
NOTEBOOKS = PROJECT / "notebooks"
VERSIONS = ("numpy", "scipy", "matplotlib", "pandas", "papermill", "ipykernel")
Say = Callable[[str], None]


def campaigns() -> list[Store]:
    """Every campaign below data/, by name."""
    return [Store(path.parent) for path in sorted(DATA.glob("*/plan.toml"))]


def render(stores: list[Store], say: Say, *, phase: str | None = None, seed: int | None = None) -> None:
    """Verify and render campaigns. Raises DataError naming what does not hold; pages that hold stay as they are."""
    for store in stores:
        verified(store)
        render_campaign(store, say, phase=phase, seed=seed)
    write_front(say)


def verified(store: Store) -> None:
    """Verify with the runner's own command, as a reader would. Raises DataError with every problem."""
    done = subprocess.run(
        [sys.executable, "-m", "runner", "verify", "--json", str(store.folder)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        problems = json.loads(done.stdout)["problems"]
    except (ValueError, KeyError):
        problems = [done.stderr.strip() or done.stdout.strip()]
    if done.returncode or problems:
        raise DataError(
            str(store.folder),
            "this campaign does not verify",
            found="\n    ".join(problems),
            remedy="restore the files that are named, from where the campaign was published",
        )


def render_campaign(store: Store, say: Say, *, phase: str | None = None, seed: int | None = None) -> None:
    """Write the overview of a campaign, and the pages of its phases when it is closed."""
    plan = store.plan()
    folder = PAGES / store.folder.name
    folder.mkdir(parents=True, exist_ok=True)
    closed = store.journal_path.exists() and bool(store.ledger().closed)
    if phase is not None:
        assert_phase(plan, phase)
    wanted = [phase] if phase else list(plan.phases)
    if closed:
        for name in wanted:
            render_phase(store, plan, name, folder / page_name(name), say, seed)
    _write_if_changed(folder / "index.md", overview.campaign_page(store, plan, _reports(store, plan) if closed else {}))
    expected = {page_name(name) for name in plan.phases} if closed else set()
    for stray in folder.glob("phase_*"):
        if not any(stray.name.startswith(Path(name).stem) for name in expected):
            stray.unlink()


def page_name(phase: str) -> str:
    """File name of a phase's notebook, source and page."""
    return f"phase_{phase.lower()}.ipynb"


_CACHE: dict[Path, dict[str, PhaseReport]] = {}


def _reports(store: Store, plan: Plan) -> dict[str, PhaseReport]:
    """The reports of a closed campaign's phases, with the plan's own seed; opened once."""
    if store.folder not in _CACHE:
        _CACHE[store.folder] = {name: open_report(store.folder, name) for name in plan.phases}
    return _CACHE[store.folder]


def render_phase(store: Store, plan: Plan, phase: str, target: Path, say: Say, seed: int | None) -> None:
    """Execute a phase's notebook with papermill unless its page is up to date."""
    source = NOTEBOOKS / page_name(phase)
    if not source.is_file():
        raise DataError(
            str(source), f"no notebook for phase {phase} of {store.folder.name}", expected="one notebook for each phase"
        )
    key = staleness_key(store, source, seed)
    if up_to_date(target, key):
        return
    say(f"rendering {store.folder.name}, phase {phase}")
    parameters: dict[str, Any] = {"campaign": _campaign_parameter(store), "phase": phase}
    if seed is not None:
        parameters["seed"] = seed
    with tempfile.TemporaryDirectory(prefix="benchbook-render-") as work:
        output = Path(work) / source.name
        try:
            papermill.execute_notebook(
                str(source),
                str(output),
                parameters,
                cwd=str(PROJECT),
                kernel_name="python3",
                progress_bar=False,
                log_output=False,
                extra_arguments=["--log-level=ERROR"],
            )
        except papermill.PapermillExecutionError as error:
            raise DataError(
                f"{source.name}, cell {error.exec_count}", f"raised {error.ename}", found=str(error.evalue)
            ) from None
        notebook = nbformat.read(output, as_version=4)
    check_executed(notebook, source.name)
    notebook.cells[0].source = f"# Phase {phase}: {overview.markdown(plan.phases[phase].title)}"
    notebook.cells.append(nbformat.v4.new_markdown_cell(downloads(store, phase, target, seed)))
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.metadata.tags.append("remove-input")
    notebook.metadata["benchbook"] = {"key": key, "cells": _cells_digest(notebook), "files": _digests_beside(target)}
    target.write_text(nbformat.writes(notebook), encoding="utf-8")


def downloads(store: Store, phase: str, target: Path, seed: int | None) -> str:
    """Write what a page offers for download beside it; returns the line of links, in MyST."""
    report = open_report(store.folder, phase, seed)
    stem = target.stem
    files = {f"{stem}-estimates.{form}": exports.FORMATS[form](report) for form in ("json", "csv")}
    files[f"{stem}-metrics.csv"] = store.metrics_path.read_text(encoding="utf-8") if store.metrics_path.exists() else ""
    for name, text in files.items():
        (target.parent / name).write_text(text, encoding="utf-8")
    figures = page.forest(report).save(target.parent, f"{stem}-forest")
    names = [*files, *(path.name for path in figures), target.name]
    return "Download: " + ", ".join(f"{{download}}`{name} <{name}>`" for name in names) + "."


def _campaign_parameter(store: Store) -> str:
    inside = store.folder.is_relative_to(PROJECT)
    return store.folder.relative_to(PROJECT).as_posix() if inside else str(store.folder)


def check_executed(notebook: Any, name: str) -> None:
    """Raise DataError for a code cell that was not executed, or that holds an error."""
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        if cell.execution_count is None and cell.source.strip():
            raise DataError(f"{name}, cell {number}", "was not executed")
        if any(output.output_type == "error" for output in cell.outputs):
            raise DataError(f"{name}, cell {number}", "holds an error")


def staleness_key(store: Store, source: Path, seed: int | None) -> dict[str, Any]:
    """Everything a page was made from, as digests and versions."""
    files = (store.seal_path, store.journal_path, store.manifest_path, source)
    return {
        "files": {path.name: seal.file_sha256(path) for path in files if path.is_file()},
        "analysis": seal.analysis_digests(),
        "runner": seal.source_digests("runner"),
        "seed": seed,
        "versions": {name: importlib.metadata.version(name) for name in VERSIONS},
        "python": sys.version.split()[0],
    }


def up_to_date(target: Path, key: dict[str, Any]) -> bool:
    """Whether a page was made from just this, and neither it nor a file beside it was touched since."""
    try:
        notebook = nbformat.read(target, as_version=4)
        stamp = notebook.metadata["benchbook"]
        return bool(
            stamp["key"] == key
            and stamp["cells"] == _cells_digest(notebook)
            and stamp["files"] == _digests_beside(target)
        )
    except (OSError, ValueError, KeyError, nbformat.ValidationError):
        return False


def _cells_digest(notebook: Any) -> str:
    return hashlib.sha256(json.dumps(notebook.cells, sort_keys=True).encode()).hexdigest()


def _digests_beside(target: Path) -> dict[str, str]:
    """The files that a page offers for download, the page itself aside."""
    return {path.name: seal.file_sha256(path) for path in sorted(target.parent.glob(f"{target.stem}-*"))}


def write_front(say: Say) -> None:
    """The front page's computed part, over every campaign below data/; pages of campaigns that are gone go too."""
    stores = campaigns()
    names = {store.folder.name for store in stores}
    for folder in PAGES.iterdir() if PAGES.is_dir() else ():
        if folder.is_dir() and folder.name not in names:
            say(f"removing the pages of {folder.name}: its folder is gone")
            shutil.rmtree(folder)
    PAGES.mkdir(parents=True, exist_ok=True)
    entries = []
    for store in stores:
        plan = store.plan()
        closed = store.journal_path.exists() and bool(store.ledger().closed)
        entries.append(overview.Entry(store, plan, _reports(store, plan) if closed else {}))
    _write_if_changed(PAGES / "front.md", overview.front_page(entries))


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
