"""Campaigns that say what an attacker would, really sealed, executed, adopted and built: nothing of it becomes more than text."""

from __future__ import annotations

import html
import importlib.util
import json
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sphinx.errors import ExtensionError

from analysis.escaping import printable
from tests.site import hostile
from tests.site.browser import Browser, chromium, served
from tests.site.hostile import CANARY, MARK, Hostile

RECORDER = "window.bbxed = []; window.bbx = n => window.bbxed.push(n)"
FOREIGN = """
(() => {
  const bad = [], shown = (e, what) => bad.push(e.tagName + ' ' + what);
  const comments = document.createTreeWalker(document, NodeFilter.SHOW_COMMENT);
  for (let c; (c = comments.nextNode());)  // matplotlib names what it draws
    if (/bbx/.test(c.data) && document.contentType === 'text/html') bad.push('comment ' + c.data);
  for (const e of document.querySelectorAll('*')) {
    if (/^(IFRAME|OBJECT|EMBED|BASE)$/i.test(e.tagName)) shown(e, '');
    if (/^(SCRIPT|STYLE)$/i.test(e.tagName) && /bbx/.test(e.textContent)) shown(e, e.textContent);
    if (/^(STRONG|EM|B|H[1-6])$/.test(e.tagName) && /^(bold-|Heading bbx)/.test(e.textContent)) shown(e, e.textContent);
    for (const a of e.attributes) {
      const text = ['alt', 'aria-label', 'title', 'content', 'value'].includes(a.name);
      const slug = /^#?[a-z0-9-]+$/.test(a.value) && ['id', 'href'].includes(a.name) && !/^bbx/.test(a.value);
      const own = a.name === 'onclick' && a.value === 'toggleFullScreen()' || /^window.print|^printPdf/.test(a.value);
      if (/^on/.test(a.name) && !own) shown(e, a.name);
      if (/bbx/.test(a.value) && !text && !slug) shown(e, a.name + '=' + a.value);
      if (/^\\s*javascript:/i.test(a.value) && !text) shown(e, a.name + '=' + a.value);
    }
  }
  return bad;
})()
"""
SEARCHES = ("script", "bbx", "heading", "%3Cscript%3E")
# What is drawn alone, or not shown: groups of cases stand in figures; these parts of a plan are not known of such runs.
NOT_ON_A_PAGE = re.compile(
    r".*: group \d|adopted: (environment|what covariate \d)"
    r"|figures: (what covariate \d|claim \d|network|source|harness|method|metrics|open remark)"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    made = Hostile(tmp_path_factory.mktemp("hostile"))
    hostile.executed(made)
    hostile.adopted(made)
    hostile.figures(made)
    made.build()
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = chromium()
    if found is None:
        pytest.skip("chromium is missing: install the package chromium")
    with Browser(found) as opened:
        opened.inject(RECORDER)
        yield opened


def pages(project: Hostile) -> list[str]:
    """Every page of a campaign, two others for what surrounds them, the search page as it answers, figures for download."""
    found = [project.html / "index.html", project.html / "method.html", *project.html.glob("phases/**/*.html")]
    found += project.html.glob("_downloads/**/*.svg")
    names = sorted(path.relative_to(project.html).as_posix() for path in found)
    # The search page shows the title of a section to whoever asks for half of it.
    titles = [html.unescape(title) for title in search_index(project)["alltitles"] if MARK in title]
    halves = [urllib.parse.quote(title[: len(title) // 2 + 9]) for title in titles[:3]]
    return [*names, *(f"search.html?q={words}" for words in (*SEARCHES, *halves))]


def test_a_hostile_campaign_executes_nothing_in_a_browser(project: Hostile, browser: Browser) -> None:
    """Every text of a plan, log, host record or adopted file is script, markup or a directive: each page shows it as text."""
    shown = ""
    with served(project.html) as address:
        opened = pages(project)
        assert len([page for page in opened if page.startswith("phases/")]) == 12
        assert any(page.endswith(".svg") for page in opened)
        for page in opened:
            look = browser.open(f"{address}/{page}", 1280)
            assert browser.evaluate("window.bbxed") == [], page
            assert [url for url in look.requests if not url.startswith((f"{address}/", "data:"))] == [], page
            failed = [text for text in look.failed if not text.endswith("/favicon.ico")]  # a figure alone has none
            assert (failed, look.errors, look.dialogs) == ([], [], []), page
            assert not [text for text in look.console if MARK in text], page
            assert browser.evaluate(FOREIGN) == [], page
            shown += browser.evaluate("document.documentElement.textContent") + "\n"
    assert CANARY not in shown
    found = re.sub(r"\s+", " ", shown)
    missing = [where for where, text in project.texts.items() if beginning(text) not in found]
    assert [where for where in missing if not NOT_ON_A_PAGE.fullmatch(where)] == []


def beginning(text: str) -> str:
    """How a payload begins on a page."""
    return re.sub(r"\s+", " ", printable(text.split("\n")[0]))[:55].strip()


def test_the_look_at_a_page_finds_what_it_looks_for(browser: Browser, tmp_path: Path) -> None:
    """The guard fires: payloads in a page that escapes nothing are executed, and each is noticed."""
    page = tmp_path / "open.html"
    page.write_text(f"<!doctype html><title>x</title>{hostile.LINES}<script>alert(1)</script>")
    look = browser.open(page.as_uri(), 1280)
    assert look.dialogs == ["1"]
    assert browser.evaluate("window.bbxed.length") > 3
    found = browser.evaluate(FOREIGN)
    for what in (
        "SCRIPT",
        "IMG onerror",
        "IMG src=x-bbx",
        "svg onload",
        "IFRAME",
        "B id=bbx0",
        "A href=javascript:bbx(0)",
    ):
        assert any(text.lower().startswith(what.lower()) for text in found), (what, found)


def search_index(project: Hostile) -> dict[str, Any]:
    text = (project.html / "searchindex.js").read_text()
    content: dict[str, Any] = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    return content


def test_titles_in_the_search_index_are_escaped_however_often_it_is_built(project: Hostile) -> None:
    content = search_index(project)
    titles = [title for title in content["alltitles"] if MARK in title]
    assert len(titles) == 7  # of three campaigns and four phases
    assert not [title for title in [*content["titles"], *titles] if re.search(r"[<>\"']", title) and MARK in title]
    extension = load_extension(project)
    app = SimpleNamespace(outdir=project.html, builder=SimpleNamespace(format="html"))
    extension.escape_titles_in_search(app, None)
    assert search_index(project) == content
    kept = (project.html / "searchindex.js").read_text()
    (project.html / "searchindex.js").write_text("Search.other(1)")
    with pytest.raises(ExtensionError, match="titles cannot be escaped"):
        extension.escape_titles_in_search(app, None)
    (project.html / "searchindex.js").write_text(kept)


def load_extension(project: Hostile) -> Any:
    spec = importlib.util.spec_from_file_location("book_rendering", project.folder / "book" / "_ext" / "rendering.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_secret_file_is_brought_in_and_downloads_are_what_they_say(project: Hostile) -> None:
    for path in project.html.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path
    for path in project.html.glob("_downloads/**/*.json"):
        json.loads(path.read_text())


def test_no_secret_of_the_user_or_the_server_is_in_the_campaign_or_the_site(project: Hostile) -> None:
    """Secrets in the runner's environment, home folder and command line, and its server's password: in no published byte."""
    passwords = project.passwords
    assert len(set(passwords)) == 1 and len(passwords) == 16 and len(passwords[0]) > 20
    hidden = [text.encode() for text in (project.secret, passwords[0])]
    published = [path for top in (project.data, project.folder / "book") for path in top.rglob("*") if path.is_file()]
    assert {"run.json", "journal.jsonl", "phase_p.ipynb", "searchindex.js", "phase_p.html"} <= {
        p.name for p in published
    }
    assert [
        path for path in published for text in hidden if text in path.read_bytes() or text in str(path).encode()
    ] == []


def test_what_is_recorded_of_the_environment_is_an_allow_list(project: Hostile) -> None:
    """run.json has the variables of the plan, the engine and four of the runner's own, and no other; the password is a mark."""
    planned = {"TEXT", "PASSWORDS"}
    for path in project.data.glob("executed/runs/**/run.json"):
        recorded = json.loads(path.read_text())["environment"]
        assert recorded.keys() - planned == {"PATH", "LANG", "TZ", "PYTHONDONTWRITEBYTECODE", "PGUSER", "PGDATABASE",
                                             "PGPASSWORD", "PGSSLMODE", "PGHOST", "PGPORT"}  # fmt: skip
        assert recorded["PGPASSWORD"] == "{secret}"


def test_a_page_of_the_built_site_names_no_payload_in_its_head(project: Hostile) -> None:
    for path in (project.html / "phases").rglob("*.html"):
        head = path.read_text().partition("</head>")[0]
        title = re.search(r"<title>(.*?)</title>", head, re.DOTALL)
        assert title and "<" not in title[1], path
        assert html.unescape(title[1]).strip()
