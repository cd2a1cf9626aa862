"""The build: what makes it fail, with which words, and what the table of contents looks like."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.site.sandbox import FOLDERS, PROJECT, Sandbox

ADDRESS = re.compile(r"""(?:src|href|srcset|content)=["']?(https?:)?//[^"'> ]+""")


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def test_config_and_contents_are_links() -> None:
    for name in ("_config.yml", "_toc.yml"):
        link = PROJECT / "book" / name
        assert link.is_symlink()
        assert link.resolve() == PROJECT / name


def test_a_failed_rendering_fails_the_build_with_its_message(sandbox: Sandbox) -> None:
    sandbox.fail_rendering("phase B, case LoadRecord: label does not hold: expected 'final', found 'before'")
    done = sandbox.build()
    assert done.returncode == 1
    assert "rendering the phase pages failed: python -m analysis render ended with exit status 1" in done.stderr
    assert "expected 'final', found 'before'" in done.stderr
    assert not (sandbox.html / "index.html").exists()


@pytest.mark.parametrize(
    ("page", "text", "message"),
    [
        ("front.md", "[gone](gone.md)\n", "cross-reference target not found: 'gone.md'"),
        (f"{FOLDERS[0]}/index.md", "# One\n\n### Three\n", "Non-consecutive header level increase"),
    ],
)
def test_a_warning_fails_the_build_again_and_again(sandbox: Sandbox, page: str, text: str, message: str) -> None:
    kept = (sandbox.folder / "pages" / page).read_text()
    (sandbox.folder / "pages" / page).write_text(text)
    for _ in range(2):
        done = sandbox.build()
        assert done.returncode == 1
        assert message in done.stderr
    (sandbox.folder / "pages" / page).write_text(kept)
    assert sandbox.build().returncode == 0


def test_a_new_campaign_appears_by_itself(sandbox: Sandbox) -> None:
    hidden = sandbox.folder / "pages" / FOLDERS[1]
    hidden.rename(sandbox.folder / "later")
    assert sandbox.build().returncode == 0
    assert f"Campaign {FOLDERS[1]}" not in (sandbox.html / "index.html").read_text()
    (sandbox.folder / "later").rename(hidden)
    assert sandbox.build().returncode == 0
    assert f"Campaign {FOLDERS[1]}" in (sandbox.html / "index.html").read_text()


def test_a_campaign_under_way_has_an_overview_alone(sandbox: Sandbox) -> None:
    (sandbox.folder / "pages" / FOLDERS[1] / "phase_b.ipynb").unlink()
    (sandbox.folder / "pages" / FOLDERS[1] / "index.md").write_text("# Campaign under way\n")
    done = sandbox.build()
    assert done.returncode == 0, done.stderr
    assert "Campaign under way" in (sandbox.html / "index.html").read_text()


def test_campaigns_of_this_machine_come_last(sandbox: Sandbox) -> None:
    (sandbox.folder / "pages" / FOLDERS[0]).rename(sandbox.folder / "pages" / "local-1")
    (sandbox.folder / "pages" / "front.md").write_text("Nothing yet.\n")
    done = sandbox.build()
    assert done.returncode == 0, done.stderr
    page = (sandbox.html / "index.html").read_text()
    assert page.index(f"phases/{FOLDERS[1]}/index.html") < page.index("phases/local-1/index.html")


def test_a_phase_page_may_be_text(sandbox: Sandbox) -> None:
    pages = sandbox.folder / "pages" / FOLDERS[1]
    (pages / "phase_b.ipynb").unlink()
    (pages / "phase_b.md").write_text("# Phase B: as published\n")
    (pages / "index.md").write_text("# Campaign of figures\n")
    done = sandbox.build()
    assert done.returncode == 0, done.stderr
    assert f'href="phases/{FOLDERS[1]}/phase_b.html"' in (sandbox.html / "index.html").read_text()
    assert "Phase B: as published" in (sandbox.html / "phases" / FOLDERS[1] / "phase_b.html").read_text()


@pytest.mark.parametrize("name", ["published.toml", "adoption.json"])
def test_campaigns_from_elsewhere_come_behind_those_executed_here(sandbox: Sandbox, name: str) -> None:
    campaign = sandbox.folder / "data" / FOLDERS[0]
    campaign.mkdir(parents=True)
    (campaign / name).touch()
    done = sandbox.build()
    assert done.returncode == 0, done.stderr
    page = (sandbox.html / "index.html").read_text()
    assert page.index(f"phases/{FOLDERS[1]}/index.html") < page.index(f"phases/{FOLDERS[0]}/index.html")


def test_contents_name_each_campaign_with_its_phases_below(sandbox: Sandbox) -> None:
    done = sandbox.build()
    assert done.returncode == 0, done.stderr
    page = (sandbox.html / "index.html").read_text()
    sidebar = page[page.index('class="bd-links') : page.index("</nav>", page.index('class="bd-links'))]
    titles = [re.sub(r"\s+", " ", t).strip() for t in re.findall(r">([^<>]*\w[^<>]*)</(?:a|span)>", sidebar)]
    assert titles == [
        *("benchbook", "Campaigns"),
        *("Campaign made-up-1", "Phase B: Record Layer", "Campaign made-up-2", "Phase B: Record Layer"),
        *(
            "Method",
            "Method",
            "Harness and plan",
            "A closed-loop client of your own",
            "Limits",
            "What can go wrong",
            "Glossary",
        ),
        *("Use", "Start your own campaign", "Reproduce", "Adopt logs", "Publish"),
    ]


def test_pages_name_no_other_host(sandbox: Sandbox) -> None:
    assert sandbox.build().returncode == 0
    for page in sandbox.html.rglob("*.html"):
        text = page.read_text()
        assert not ADDRESS.search(text), page
        assert not re.search(r"unpkg|cdn\.|jsdelivr|cloudflare|googleapis", text), page


def test_executed_notebook_can_be_downloaded(sandbox: Sandbox) -> None:
    assert sandbox.build().returncode == 0
    page = (sandbox.html / "phases" / FOLDERS[0] / "phase_b.html").read_text()
    assert f'href="../../_sources/phases/{FOLDERS[0]}/phase_b.ipynb"' in page
    assert (sandbox.html / "_sources" / "phases" / FOLDERS[0] / "phase_b.ipynb").exists()
