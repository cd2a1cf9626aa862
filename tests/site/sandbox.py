"""A copy of the book's skeleton with made-up pages, to build and look at without any campaign.

The copy has an `analysis` package of its own whose `render` does what the test says, so that the extension is
tried as it is. Its pages are made with the real tables and figures, from made-up estimates.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from analysis import figures, tables
from analysis.drawing import Picture
from tests import made_up

PROJECT = Path(__file__).resolve().parents[2]
FOLDERS = ("made-up-1", "made-up-2")

_MAIN = """
import pathlib, shutil, sys
assert sys.argv[1:] == ["render"], sys.argv
said = pathlib.Path("say.txt")
if said.exists():
    print(said.read_text(), file=sys.stderr)
    sys.exit(1)
shutil.copytree("pages", "book/phases", dirs_exist_ok=True)
print("rendered", file=sys.stderr)
"""


class Sandbox:
    """A folder that looks like the project to `jupyter-book build book/`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        book = folder / "book"
        shutil.copytree(
            PROJECT / "book", book, symlinks=True, ignore=shutil.ignore_patterns("phases", "_build", "__pycache__")
        )
        for name in ("_config.yml", "_toc.yml"):
            shutil.copy(PROJECT / name, folder / name)
        (folder / "analysis").mkdir()
        (folder / "analysis" / "__init__.py").touch()
        (folder / "analysis" / "__main__.py").write_text(_MAIN)
        pages = folder / "pages"
        for name in FOLDERS:
            (pages / name).mkdir(parents=True)
            (pages / name / "index.md").write_text(f"# Campaign {name}\n\n[Phase B](phase_b.ipynb)\n\n{_claims()}\n")
            nbformat.write(_phase(), pages / name / "phase_b.ipynb")
        strip = figures.strip({"B": made_up.estimates()[:6]}, arms=made_up.ARMS, primary="t")
        (pages / "front.md").write_text(f"See [phase B](phases/{FOLDERS[0]}/phase_b.ipynb).\n\n{strip._repr_html_()}\n")

    @property
    def html(self) -> Path:
        """Where the built pages are."""
        return self.folder / "book" / "_build" / "html"

    def fail_rendering(self, message: str) -> None:
        """From now on `analysis render` says this and ends with status 1."""
        (self.folder / "say.txt").write_text(message)

    def build(self) -> subprocess.CompletedProcess[str]:
        """The command that a user types, with the environment's own jupyter-book."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        command = [str(Path(sys.executable).with_name("jupyter-book")), "build", "book/"]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)


def _claims() -> str:
    return str(tables.claims(made_up.claims()))


def _phase() -> nbformat.NotebookNode:
    """An executed phase notebook with every table and figure."""
    found = made_up.estimates()
    order = [
        (c, b, p, arm)
        for c, blocks in made_up.orders().items()
        for b, arms in blocks.items()
        for p, arm in enumerate(arms)
    ]
    shown: list[tables.Markup | Picture] = [
        tables.claims(made_up.claims()),
        figures.forest(found, made_up.CONTRASTS, made_up.CASES, metric="ns/op", primary="t", arms=made_up.ARMS),
        tables.results(found, "final/before", primary="t", cases=made_up.ALL_CASES, metrics=["ns/op", "B/op"]),
        tables.absolutes(made_up.absolutes(), cases=made_up.ALL_CASES, metrics=["ns/op"], arms=made_up.ARMS),
        figures.blocks_in_order(found, "final/legacy", metric="ns/op", cases=made_up.ALL_CASES, arms=made_up.ARMS,
                                marked={"LoadRecord": [2]}, orders=made_up.orders()),
        figures.order_map(order, made_up.ARMS, "order seed 1"),
        tables.key_values({"lock": tables.code("sha256:" + "0123456789abcdef" * 8), made_up.HOSTILE: made_up.HOSTILE}),
        figures.where_time_goes({"processes": 400.0, "waiting": 3.0}),
    ]  # fmt: skip
    cells = [new_markdown_cell("# Phase B: Record Layer\n\n## Results")]
    for number, value in enumerate(shown, 1):
        data = {"text/html": value._repr_html_(), "text/plain": repr(value)}
        output = new_output("execute_result", data=data, execution_count=number)
        cell = new_code_cell("shown()", outputs=[output], execution_count=number, metadata={"tags": ["remove-input"]})
        cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})
