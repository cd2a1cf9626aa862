"""Sphinx extension: renders stale phase pages from raw logs before any page is read.

Everything on a phase page is computed by ``python -m analysis render``. When that fails, so does the
build, with the last lines of what it said; and every Sphinx warning is an error.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError
from sphinx_external_toc.api import Document, FileItem, GlobItem, TocTree

RENDER = (sys.executable, "-m", "analysis", "render")
PAGES = "phases/*/*"  # the glob entry of _toc.yml
AFTER = ("seeds", "calibration", "labels")  # pages of a campaign that come after its phases
LAST_LINES = 20


def render(command: tuple[str, ...], root: Path) -> None:
    """Run the rendering command in ``root``; its stderr is passed on as it is written."""
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=root, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            sys.stderr.flush()
            said.append(line.rstrip("\n"))
    if process.returncode != 0:
        raise ExtensionError(
            f"rendering the phase pages failed: python {' '.join(command[1:])} "
            f"ended with exit status {process.returncode}\n" + "\n".join(said[-LAST_LINES:])
        )


def before_pages_are_read(app: Sphinx, config: Config) -> None:
    """Make warnings errors and render, before the table of contents looks for pages."""
    app.warningiserror = True
    render(RENDER, Path(app.srcdir).resolve().parent)


def nest_phases(app: Sphinx, config: Config) -> None:
    """Put each campaign's phases below its overview, instead of one flat list of all pages.

    Campaigns that were brought from elsewhere come behind those that were executed here, and campaigns of the reader's own
    machine last; one that is not closed yet has no phases to show.
    """
    site_map, source = config.external_site_map, Path(app.srcdir)
    folders = sorted((page.parent for page in source.glob("phases/*/index.md")), key=place_in_contents)
    names = {folder.relative_to(source).as_posix(): any(folder.glob("phase_*")) for folder in folders}
    for part in site_map.root.subtrees:
        if PAGES in part.globs() and names:
            part.items = [FileItem(f"{name}/index") for name in names]
    for name, shown in names.items():
        more = [FileItem(f"{name}/{page}") for page in AFTER if (source / name / f"{page}.md").is_file()]
        for item in more:
            site_map[str(item)] = Document(str(item))
        below = [TocTree(items=[GlobItem(f"{name}/phase_*"), *more], titlesonly=True)] if shown else []
        site_map[f"{name}/index"] = Document(f"{name}/index", subtrees=below)


def place_in_contents(pages: Path) -> tuple[bool, bool, int, str]:
    """Sorts the folders of campaigns' pages; the campaign that the front page tells of, which has most phases, comes first."""
    campaign = pages.parents[2] / "data" / pages.name
    brought = not (campaign / "seal.json").exists() and any(
        (campaign / name).exists() for name in ("published.toml", "adoption.json")
    )
    return pages.name.startswith("local-"), brought, -sum(1 for _ in pages.glob("phase_*.ipynb")), pages.name


def remove_pages_of_gone_campaigns(app: Sphinx, exception: Exception | None) -> None:
    """What was built for a campaign that is no longer there must not be published with the rest."""
    built, source = Path(app.outdir) / "phases", Path(app.srcdir) / "phases"
    for folder in built.glob("*/") if built.is_dir() else ():
        if not (source / folder.name).is_dir():
            shutil.rmtree(folder)


SEARCH_INDEX = re.compile(r"Search\.setIndex\((.*)\)", re.DOTALL)


def escape_titles_in_search(app: Sphinx, exception: Exception | None) -> None:
    """Escape the titles of sections in the search index: the script of the search page takes them for HTML.

    Titles of pages are escaped there already; those of sections are plain text, and one may come from a plan.
    """
    index = Path(app.outdir) / "searchindex.js"
    if app.builder.format != "html" or not index.is_file():
        return
    found = SEARCH_INDEX.fullmatch(index.read_text(encoding="utf-8").strip())
    if found is None:
        raise ExtensionError(f"{index.name}: not in the form that is known here; titles cannot be escaped")
    content, titles = json.loads(found[1]), {}
    for title, places in content["alltitles"].items():
        # Sphinx keeps what it read before: unescaping first makes a second time the same.
        titles.setdefault(html.escape(html.unescape(title)), []).extend(places)
    content["alltitles"] = titles
    index.write_text(f"Search.setIndex({json.dumps(content, separators=(',', ':'))})", encoding="utf-8")


def escape_titles_on_pages(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Escape the titles that the theme sets as plain text, and its templates take for HTML."""
    for name in ("pagetitle", "root_title"):
        if name in context:
            context[name] = html.escape(str(context[name]))


def without_thebe(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Drop the scripts of live code cells, which would come from another host."""
    scripts = context.get("script_files", [])
    context["script_files"] = [script for script in scripts if "thebe" not in str(script).lower()]


def setup(app: Sphinx) -> dict[str, Any]:
    # sphinx_external_toc reads _toc.yml at priority 900 of the same event.
    app.connect("config-inited", before_pages_are_read, priority=1)
    app.connect("config-inited", nest_phases, priority=950)
    app.connect("build-finished", remove_pages_of_gone_campaigns)
    app.connect("build-finished", escape_titles_in_search)
    # After the theme, which does its part at priority 500.
    app.connect("html-page-context", escape_titles_on_pages, priority=950)
    app.connect("html-page-context", without_thebe, priority=950)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
