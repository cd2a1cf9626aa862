"""Raw logs to pages: verifies each campaign, executes the stale phase notebooks, writes book/phases/.

Only this module writes there. A page is stale when anything it was made from has changed: the campaign's
seal, journal or manifest, the analysis, the notebook, its parameters, or the versions of what computes and draws.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import papermill

from analysis import (
    calibration_page,
    exports,
    labels_page,
    overview,
    page,
    published,
    published_overview,
    published_page,
    same_question,
    seeds_page,
)
from analysis.escaping import markdown
from analysis.report import PROJECT, PhaseReport, assert_phase, open_report
from runner import seal
from runner.errors import DataError
from runner.plan import Plan
from runner.store import Store

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"  # of a campaign
PAGES = PROJECT / "book" / "phases"
DATA = PROJECT / "data"
BESIDE = ("estimates", "metrics", "forest")  # what a page offers for download, by name
BESIDE_PUBLISHED = ("published", "forest")  # the same for a page of published figures
WORKERS = 2  # notebooks that are executed at the same time, each in a kernel of its own
VERSIONS = ("numpy", "scipy", "matplotlib", "pandas", "papermill", "ipykernel")
Say = Callable[[str], None]


def campaigns() -> list[Store]:
    """Every campaign below data/, by name.

    Raises DataError for one whose plan is gone, which must not leave the book unseen, and for a folder that no campaign can
    be called after.
    """
    folders = [path for path in sorted(DATA.glob("*")) if (path / "plan.toml").is_file() or Store(path).recorded]
    for folder in folders:
        _assert_name(folder)
    return [Store.open(folder) for folder in folders]


def _assert_name(folder: Path) -> None:
    # The name of the folder stands in commands, addresses and names of pages.
    if not re.fullmatch(NAME, folder.name):
        raise DataError(
            f"data/{folder.name!r}", "a folder that no campaign can be called after",
            expected="letters, digits, dot, hyphen and underscore, at most 64", remedy="rename the folder",
        )  # fmt: skip


def render(stores: list[Store], say: Say, *, phase: str | None = None, seed: int | None = None) -> None:
    """Verify and render campaigns. Raises DataError naming what does not hold; pages that hold stay as they are."""
    for store in stores:  # all of them first: the pages of one may show another's estimates
        _assert_name(store.folder)
        verified(store)
    for store in stores:
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
    """Write the overview of a campaign, and the pages of its phases that have results or published figures."""
    plan = store.plan()
    folder = PAGES / store.folder.name
    folder.mkdir(parents=True, exist_ok=True)
    if phase is not None:
        assert_phase(plan, phase)
    with_runs = measured(store, plan)
    render_phases(store, plan, [name for name in with_runs if phase in (None, name)], folder, say, seed)
    pages = [folder / page_name(name) for name in with_runs]
    if store.brought:
        figures = published.read(store, plan) if store.published_path.is_file() else None
        peer = peer_of(plan) if figures else None
        shown = [name for name in plan.phases if name not in with_runs] if figures else []
        for name in shown:
            if figures and phase in (None, name):
                subject = published_page.Subject(_campaign_parameter(store), plan, figures, name, peer)
                write_published(subject, folder / page_name(name, ".md"))
        pages += [folder / page_name(name, ".md") for name in shown]
        text = published_overview.campaign_page(store, plan, figures, _reports(store, plan), peer)
    else:
        text = overview.campaign_page(store, plan, _reports(store, plan))
    _write_if_changed(folder / "index.md", text)
    if phase is None and seed is None:
        write_beyond(store, plan, folder, say)
    expected = {path for target in pages for path in (target, *_beside(target))}
    for stray in folder.glob("phase_*"):
        if stray not in expected:
            stray.unlink()


STAMP = "% made from this, and its own text: "  # a comment at the end of such a page
BEYOND = ("seeds", "calibration", overview.LABELS)  # pages of a whole campaign, by name


def write_beyond(store: Store, plan: Plan, folder: Path, say: Say) -> None:
    """Write the pages on seeds, calibration and labels where they are stale, and take away those that the campaign has not.

    They take seconds, so that each bears the digest of what it was made from, and stays while that is the same.
    """
    makers = _beyond(store, plan)
    for name in BEYOND:
        target = folder / f"{name}.md"
        if name not in makers:
            target.unlink(missing_ok=True)
            continue
        made_from = _digest(json.dumps(staleness_key(store, store.plan_path, None), sort_keys=True))
        text, _, stamp = target.read_text(encoding="utf-8").rpartition(STAMP) if target.is_file() else ("", "", "")
        if stamp.split() != [made_from, _digest(text)]:
            say(f"rendering {store.folder.name}, {name}")
            text = makers[name]() + "\n"
            target.write_text(f"{text}{STAMP}{made_from} {_digest(text)}\n", encoding="utf-8")


def _beyond(store: Store, plan: Plan) -> dict[str, Callable[[], str]]:
    """What writes each page that a campaign has: on seeds and calibration with paired phases, on labels with runs of its own."""
    every = _reports(store, plan)
    reports = {name: report for name, report in every.items() if report.paired}
    found: dict[str, Callable[[], str]] = {}
    if reports:
        found |= {"seeds": lambda: seeds_page.page(reports), "calibration": lambda: calibration_page.page(reports)}
    if overview.has_drill(store, plan, every):
        found[overview.LABELS] = lambda: labels_page.page(store, plan, store.ledger())
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def page_name(phase: str, ending: str = ".ipynb") -> str:
    """File name of a phase's page, and of what lies beside it but for the ending."""
    return f"phase_{phase.lower()}{ending}"


def measured(store: Store, plan: Plan) -> list[str]:
    """The phases whose raw logs are here: all of a closed campaign, of an adopted one those with adopted runs."""
    if store.brought and not store.adoption_path.is_file():
        return []
    if not store.brought and not store.journal_path.exists():
        return []
    ledger = store.ledger()
    if not ledger.closed:
        return []
    with_runs = {labels.phase for labels in ledger.labels()}
    return [name for name in plan.phases if not store.brought or name in with_runs]


def peer_of(plan: Plan) -> same_question.Peer | None:
    """The newest closed campaign of this project that asked the same questions of another stack."""
    for store in reversed(campaigns()):
        if store.brought:
            continue
        other = store.plan()
        found = same_question.matches(plan, other)
        if found and measured(store, other):
            return same_question.Peer(store.folder.name, other, _reports(store, other), found)
    return None


def write_published(subject: published_page.Subject, target: Path) -> None:
    """Write the page of published figures and what it offers for download, where they changed."""
    text, files = published_page.page(subject, target.stem)
    for path in _beside(target):
        if path.name not in files:
            path.unlink()
    for name, content in files.items():
        _write_if_changed(target.with_name(name), content)
    _write_if_changed(target, text)


_CACHE: dict[Path, dict[str, PhaseReport]] = {}


def _reports(store: Store, plan: Plan) -> dict[str, PhaseReport]:
    """The reports of the phases whose raw logs are here, with the plan's own seed; opened once."""
    if store.folder not in _CACHE:
        _CACHE[store.folder] = {name: open_report(store.folder, name) for name in measured(store, plan)}
    return _CACHE[store.folder]


def render_phases(store: Store, plan: Plan, phases: list[str], folder: Path, say: Say, seed: int | None) -> None:
    """Execute the notebooks of stale pages, some at a time; the first phase that fails is the one that is named."""
    stale = {}
    for phase in phases:
        key = staleness_key(store, page.notebook_of(plan, phase), seed)
        if not up_to_date(folder / page_name(phase), key):
            stale[phase] = key
    with ThreadPoolExecutor(WORKERS) as pool:
        executed = {phase: pool.submit(execute, store, phase, seed, say) for phase in stale}
        try:
            for phase, key in stale.items():
                write_page(store, plan, phase, folder / page_name(phase), executed[phase].result(), key, seed)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def execute(store: Store, phase: str, seed: int | None, say: Say) -> Any:
    """A phase's notebook as papermill leaves it. Raises DataError that names the cell that raised."""
    say(f"rendering {store.folder.name}, phase {phase}")
    source = page.notebook_of(store.plan(), phase)
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
                extra_arguments=["--log-level=CRITICAL"],  # being shut down by an interrupt is no error
            )
        except papermill.PapermillExecutionError as error:
            raise DataError(
                f"{source.name}, cell {error.exec_count}, for phase {phase}",
                f"raised {error.ename}",
                found=str(error.evalue),
            ) from None
        notebook = nbformat.read(output, as_version=4)
    check_executed(notebook, source.name)
    return notebook


def write_page(
    store: Store, plan: Plan, phase: str, target: Path, notebook: Any, key: dict[str, Any], seed: int | None
) -> None:
    """Give an executed notebook its title, its downloads and its stamp, and write it into the book."""
    notebook.cells[0].source = f"# Phase {phase}: {markdown(plan.phases[phase].title)}"
    report = _reports(store, plan)[phase] if seed is None else open_report(store.folder, phase, seed)
    notebook.cells.append(nbformat.v4.new_markdown_cell(downloads(report, target)))
    notebook.metadata.pop("papermill", None)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"  # papermill's own and new cells get random ones
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.metadata.tags.append("remove-input")
    notebook.metadata["benchbook"] = {"key": key, "cells": _cells_digest(notebook), "files": _digests_beside(target)}
    target.write_text(nbformat.writes(notebook), encoding="utf-8")


def downloads(report: PhaseReport, target: Path) -> str:
    """Write what a page offers for download beside it; returns the line of links, in MyST."""
    stem = target.stem
    estimates, metrics, forest = BESIDE
    files = {f"{stem}-{estimates}.{form}": exports.FORMATS[form](report) for form in ("json", "csv")}
    files[f"{stem}-{metrics}.csv"] = exports.metrics_of(report.store, report.identifier)
    for name, text in files.items():
        (target.parent / name).write_text(text, encoding="utf-8")
    figures = page.forest(report).save(target.parent, f"{stem}-{forest}")
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
    brought = (store.adoption_path, store.published_path) if store.brought else ()
    files = (store.seal_path, store.journal_path, store.manifest_path, *brought, source)
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
    return _digest(json.dumps(notebook.cells, sort_keys=True))


def _beside(target: Path) -> list[Path]:
    """The files that a page offers for download, the page itself aside."""
    kinds = BESIDE_PUBLISHED if target.suffix == ".md" else BESIDE
    return sorted(path for kind in kinds for path in target.parent.glob(f"{target.stem}-{kind}*"))


def _digests_beside(target: Path) -> dict[str, str]:
    return {path.name: seal.file_sha256(path) for path in _beside(target)}


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
        entries.append(overview.Entry(store, plan, _reports(store, plan)))
    _write_if_changed(PAGES / "front.md", overview.front_page(entries))


def _write_if_changed(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    if not path.is_file() or path.read_bytes() != data:
        path.write_bytes(data)
