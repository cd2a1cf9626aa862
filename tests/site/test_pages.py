"""Built pages in a browser: nothing from another host, nothing wider than a phone, every figure in view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.site.browser import Browser, chromium, served
from tests.site.sandbox import FOLDERS, PROJECT, Sandbox

PHASE = f"phases/{FOLDERS[0]}/phase_b.html"
PAGES = ("index.html", "method.html", "harness.html", "limits.html", "glossary.html", "reproduce.html", "publish.html",
         f"phases/{FOLDERS[0]}/index.html", PHASE)  # fmt: skip
PHONE, DESK = 360, 1280

WIDER = """
[document.documentElement.scrollWidth > innerWidth ? document.documentElement.scrollWidth : 0].concat(
  [...document.querySelectorAll('.bd-article *')].filter(e => {
    if (e.closest('.bb-scroll, pre, .highlight, .pst-scrollable-table-container')) return false;
    return e.getBoundingClientRect().right > innerWidth + 1;
  }).map(e => e.tagName + '.' + e.className)).filter(Boolean)
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = chromium()
    if found is None:
        pytest.skip("chromium is missing: install the package chromium")
    with Browser(found) as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    sandbox = Sandbox(tmp_path_factory.mktemp("site"))
    done = sandbox.build()
    assert done.returncode == 0, done.stderr
    with served(sandbox.html) as address:
        yield address


@pytest.mark.parametrize("page", PAGES)
def test_no_page_asks_another_host_and_none_is_wider_than_a_phone(browser: Browser, site: str, page: str) -> None:
    look = browser.open(f"{site}/{page}", PHONE)
    others = [url for url in look.requests if not url.startswith((site + "/", "data:"))]
    assert others == []
    assert look.failed == []
    assert look.errors == []
    assert browser.evaluate(WIDER) == []


def test_every_request_is_counted(browser: Browser, site: str, tmp_path: Path) -> None:
    # The guard fires: a page that does ask another host is noticed, although nothing answers.
    page = tmp_path / "other.html"
    page.write_text('<!doctype html><img src="http://127.0.0.1:9/elsewhere.png"><div style="width:900px">x</div>')
    look = browser.open(page.as_uri(), PHONE)
    assert "http://127.0.0.1:9/elsewhere.png" in look.requests
    assert look.failed
    assert browser.evaluate("document.documentElement.scrollWidth") > PHONE


@pytest.mark.parametrize(("width", "shown"), [(PHONE, "narrow"), (DESK, "wide")])
def test_the_width_chooses_the_rendition(browser: Browser, site: str, width: int, shown: str) -> None:
    browser.open(f"{site}/{PHASE}", width)
    measure = "i => [i.naturalWidth, i.getBoundingClientRect().width, i.alt.length]"
    sizes = browser.evaluate(f"[...document.querySelectorAll('.bb-figure img')].map({measure})")
    assert len(sizes) == 4
    for natural, drawn, alt in sizes:
        assert (natural < 400) == (shown == "narrow")
        assert 0.85 * natural <= drawn <= width
        assert alt > 40


def test_tables_scroll_inside_themselves(browser: Browser, site: str) -> None:
    browser.open(f"{site}/{PHASE}", PHONE)
    widths = browser.evaluate("[...document.querySelectorAll('.bb-scroll')].map(e => [e.scrollWidth, e.clientWidth])")
    assert any(inside > box for inside, box in widths)
    assert all(box <= PHONE for _, box in widths)


def test_hostile_text_stays_text(browser: Browser, site: str) -> None:
    browser.open(f"{site}/{PHASE}", DESK)
    assert browser.evaluate("[...document.querySelectorAll('.bb-table script')].length") == 0
    assert "<script>alert('x')</script>" in browser.evaluate("document.querySelector('.bd-article').textContent")


CONTRAST = """
(() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const line = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => line(v / 255));
    return .2126 * r + .7152 * g + .0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0.99) return c; } return [255, 255, 255]; };
  const parts = '.bb-table td, .bb-table th, .bb-caption, .bb-notes li, .bb-status';
  return Math.min(...[...document.querySelectorAll(parts)].map(e => {
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    return (a + .05) / (b + .05); }));
})()
"""


@pytest.mark.parametrize("dark", [False, True])
def test_tables_can_be_read_in_both_modes(browser: Browser, site: str, dark: bool) -> None:
    browser.open(f"{site}/{PHASE}", DESK, dark=dark)
    assert browser.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    assert browser.evaluate(CONTRAST) >= 4.5
    grounds = browser.evaluate(
        "[...document.querySelectorAll('.bb-figure img')].map(i => getComputedStyle(i).backgroundColor)"
    )
    assert set(grounds) == {"rgb(255, 255, 255)"}


def test_screenshot_is_a_picture_of_the_whole_page(browser: Browser, site: str, tmp_path: Path) -> None:
    from matplotlib.image import imread

    browser.open(f"{site}/{PHASE}", 390)
    browser.screenshot(tmp_path / "page.png")
    height, width = imread(tmp_path / "page.png").shape[:2]
    assert width == 390
    assert height > 1500


@pytest.mark.slow
def test_the_real_pages(browser: Browser) -> None:
    """The pages that are built in this tree, if any: the same promises as for the made-up ones."""
    html = PROJECT / "book" / "_build" / "html"
    pages = [page for page in html.rglob("*.html") if "_static" not in page.parts]
    if not pages:
        pytest.skip("book/_build/html is missing: run `jupyter-book build book/` first")
    with served(html) as address:
        for page in pages:
            look = browser.open(f"{address}/{page.relative_to(html).as_posix()}", PHONE)
            assert [url for url in look.requests if not url.startswith((address + "/", "data:"))] == [], page
            assert (look.failed, look.errors) == ([], []), page
            assert browser.evaluate(WIDER) == [], page
