"""Pages of a tiny campaign whose phase has no notebook of its own: rendered together, the same bytes each time."""

from __future__ import annotations

import csv
from pathlib import Path

import nbformat
import pytest

from analysis import exports, page, page_shared, rendering
from runner.errors import DataError
from runner.store import Store
from tests.campaigns import Campaign


@pytest.fixture(scope="module")
def pages(closed: Campaign, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rendered(closed, tmp_path_factory.mktemp("pages"))


def rendered(closed: Campaign, folder: Path, said: list[str] | None = None) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering, "PAGES", folder)
        rendering.render_campaign(Store(closed.folder), (said if said is not None else []).append)
    return folder / closed.folder.name


def test_a_phase_without_a_notebook_has_a_page_with_its_title_and_downloads(closed: Campaign, pages: Path) -> None:
    notebook = nbformat.read(pages / "phase_t.ipynb", as_version=4)
    assert notebook.cells[0].source == "# Phase T: Tiny"
    links = notebook.cells[-1].source
    for name in ("estimates.json", "estimates.csv", "metrics.csv", "forest.svg", "forest-narrow.svg", "forest.png"):
        assert f"<phase_t-{name}>" in links
        assert (pages / f"phase_t-{name}").stat().st_size
    assert "[Phase" not in (pages / "index.md").read_text()
    assert 'href="phase_t.html"' in (pages / "index.md").read_text()
    shown = "".join(o["data"]["text/plain"] for c in notebook.cells for o in c.get("outputs", []) if "data" in o)
    assert f"papermill notebooks/phase.ipynb out.ipynb -p campaign data/{closed.folder.name} -p phase T" in shown
    assert "No server takes part." in shown


def test_the_same_logs_give_the_same_bytes(closed: Campaign, pages: Path, tmp_path: Path) -> None:
    again = rendered(closed, tmp_path)
    names = sorted(path.name for path in pages.iterdir())
    assert names == sorted(path.name for path in again.iterdir())
    assert [name for name in names if (pages / name).read_bytes() != (again / name).read_bytes()] == []


def test_what_is_up_to_date_is_left_alone_and_strays_go(closed: Campaign, pages: Path) -> None:
    strays = [pages / name for name in ("phase_t2.ipynb", "phase_t2-metrics.csv", "phase_t-other.csv")]
    for path in strays:
        path.write_text("x")
    said: list[str] = []
    rendered(closed, pages.parent, said)
    assert said == []
    assert [path for path in strays if path.exists()] == []


def test_a_page_offers_the_rows_of_its_own_phase(closed: Campaign, tmp_path: Path) -> None:
    store = Store(closed.copy(tmp_path).folder)
    text = store.metrics_path.read_text()
    assert exports.metrics_of(store, "T") == text
    store.metrics_path.write_text(text + "T2,Load,one,1,0,0,0,ns/op,1.0,10\n")
    (row,) = csv.DictReader(exports.metrics_of(store, "T2").splitlines())
    assert row["phase"] == "T2"
    assert exports.metrics_of(store, "T") == text
    store.metrics_path.unlink()
    assert exports.metrics_of(store, "T") == ""


def test_an_error_names_the_notebook_the_cell_and_the_phase(
    closed: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = nbformat.read(page.NOTEBOOKS / "phase.ipynb", as_version=4)
    notebook.cells[3].source = "page.answer(None)"
    nbformat.write(notebook, tmp_path / "phase.ipynb")
    monkeypatch.setattr(page_shared, "NOTEBOOKS", tmp_path)
    with pytest.raises(DataError, match=r"phase\.ipynb, cell \d+, for phase T: raised AttributeError"):
        rendered(closed, tmp_path / "pages")
    assert not (tmp_path / "pages" / closed.folder.name / "phase_t.ipynb").exists()
