"""The real book from real raw logs, in a copy of the project: what it shows, and what stops it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.planfile import load
from tests.bundled import CAMPAIGN, ROOT

PLAN = load(CAMPAIGN / "plan.toml")
PARTS = ("analysis", "book", "data", "notebooks", "runner", "workloads", "_config.yml", "_toc.yml")


class Copy:
    """A copy of the project with the bundled campaign alone, without pages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in PARTS:
            source = ROOT / name
            if source.is_dir():
                ignore = shutil.ignore_patterns("local-*", "phases", "_build", "__pycache__")
                shutil.copytree(source, folder / name, symlinks=True, ignore=ignore)
            else:
                shutil.copy(source, folder / name)
        self.campaign = folder / "data" / CAMPAIGN.name
        self.html = folder / "book" / "_build" / "html"

    def build(self) -> subprocess.CompletedProcess[str]:
        """`jupyter-book build book/`, bare."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        argv = [str(Path(sys.executable).with_name("jupyter-book")), "build", "book/"]
        return subprocess.run(argv, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("project"))
    done = copy.build()
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rendering" in done.stderr
    return copy


def page_of(built: Copy, phase: str) -> str:
    return (built.html / "phases" / CAMPAIGN.name / f"phase_{phase.lower()}.html").read_text()


@pytest.fixture
def page(built: Copy) -> str:
    return page_of(built, "B")


def ratios(built: Copy, phase: str) -> list[str]:
    """Ratio and primary interval of every estimate, as the command line prints them."""
    argv = [sys.executable, "-m", "analysis", "estimates", str(built.campaign), "--phase", phase, "--format", "md"]
    table = subprocess.run(argv, cwd=built.folder, capture_output=True, text=True, check=True).stdout
    return [line.split(" | ")[3] for line in table.splitlines()[2:]]


def test_the_page_has_every_section_in_order(page: str) -> None:
    found = re.findall(r"<h([123])[^>]*>(.*?)<(?:a|/h)", page)
    wanted = [("1", "Phase B: Record Layer"), ("2", "Results"), ("3", "Absolute values"), ("3", "Blocks in run order"),
              ("2", "Interpretation"), ("3", "Preregistered claims"), ("3", "Also seen, not preregistered"),
              ("3", "Not explained by this data"), ("2", "Limits"), ("2", "Arms, environment, design"),
              ("3", "Order of the runs"), ("3", "Where the time went"), ("2", "Reproduce")]  # fmt: skip
    assert found[2:] == wanted  # behind the title and the contents for print


@pytest.mark.parametrize("phase", PLAN.phases)
def test_every_estimate_stands_in_the_page_as_the_command_line_gives_it(built: Copy, phase: str) -> None:
    described, page = PLAN.phases[phase], page_of(built, phase)
    found = ratios(built, phase)
    measured = sum(len(described.metrics_of(case.name)) for case in described.cases)
    assert len(found) == len(described.contrasts) * measured
    for ratio in found:
        assert ratio.split("—")[0].strip() in page


SPECIFIC = {
    "A": "Latency by percentile",
    "A2": "Latency by percentile",
    "C1": "Statements and bytes",
    "C2": "Statements and bytes",
    "C3": "Added delay",
    "D1": "Compilations and statements",
    "D2": "Statements and bytes",
    "N": "What this host cannot resolve",
}


@pytest.mark.parametrize(("phase", "heading"), SPECIFIC.items())
def test_a_page_has_what_is_its_phases_own(built: Copy, phase: str, heading: str) -> None:
    page = page_of(built, phase)
    section = page.partition(f"<h2>{heading}")[2].partition("</section>")[0]
    assert "<svg" in section or "<img" in section
    assert "Traceback" not in page


def test_the_overview_links_every_phase_with_its_headline(built: Copy) -> None:
    page = (built.html / "phases" / CAMPAIGN.name / "index.html").read_text()
    for phase in PLAN.phases:
        assert f'href="phase_{phase.lower()}.html"' in page
    for words in ("What was found", "Method", "Environment", "Trees", "Shared limits", "No contrast across phases"):
        assert words in page
    runs = sum(len(p.arms) * len(p.cases) * p.blocks for p in PLAN.phases.values())
    assert f"Of {runs} runs" in page


def test_a_second_build_renders_nothing_again(built: Copy) -> None:
    done = built.build()
    assert done.returncode == 0
    assert "rendering" not in done.stderr


def test_an_edited_page_is_not_published(built: Copy) -> None:
    target = built.folder / "book" / "phases" / CAMPAIGN.name / "phase_b.ipynb"
    kept = target.read_text()
    shown = next(ratio for ratio in ratios(built, "B") if "[" in ratio)
    target.write_text(kept.replace(shown, "0.497 [0.446, 0.551]"))
    assert target.read_text() != kept
    done = built.build()
    assert done.returncode == 0
    assert "rendering" in done.stderr
    assert "0.497 [0.446, 0.551]" not in (built.html / "phases" / CAMPAIGN.name / "phase_b.html").read_text()


def test_a_download_that_is_gone_is_made_again(built: Copy) -> None:
    path = built.folder / "book" / "phases" / CAMPAIGN.name / "phase_b-estimates.json"
    kept = path.read_text()
    path.unlink()
    assert built.build().returncode == 0
    assert path.read_text() == kept


def test_pages_of_a_campaign_that_is_gone_are_not_published(built: Copy) -> None:
    draft = built.folder / "data" / "draft"
    draft.mkdir()
    plan = (built.campaign / "plan.toml").read_text().replace(f'id = "{CAMPAIGN.name}"', 'id = "draft"')
    (draft / "plan.toml").write_text(plan)
    assert built.build().returncode == 0
    assert "State: draft" in (built.html / "phases" / "draft" / "index.html").read_text()
    shutil.rmtree(draft)
    assert built.build().returncode == 0
    assert not (built.html / "phases" / "draft").exists()
    assert "phases/draft" not in (built.html / "index.html").read_text()


def test_a_new_analysis_renders_again(built: Copy) -> None:
    path = built.folder / "analysis" / "limits.py"
    path.write_text(path.read_text() + "\n# changed\n")
    done = built.build()
    assert done.returncode == 0
    assert "rendering" in done.stderr
    page = (built.html / "phases" / CAMPAIGN.name / "phase_b.html").read_text()
    assert "Deviation since the seal" in page
    assert re.search(r"the analysis differs in \d+ files? from what was sealed", page)


def test_a_cell_that_raises_stops_the_build_and_is_named(built: Copy) -> None:
    path = built.folder / "notebooks" / "phase_b.ipynb"
    kept = path.read_text()
    notebook = json.loads(kept)
    notebook["cells"][3]["source"] = "page.answer(None)"
    path.write_text(json.dumps(notebook))
    done = built.build()
    path.write_text(kept)
    assert done.returncode != 0
    assert "phase_b.ipynb, cell" in done.stderr
    assert "raised AttributeError" in done.stderr


def damage(path: Path) -> str:
    """Change one byte in the middle of a file; returns what it was."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle] ^= 0x01
    path.write_bytes(data)
    return path.name


@pytest.mark.parametrize("name", ["plan.toml", "metrics.csv", "runs/B/LoadRecord/1-final/stdout.txt", "seal.json"])
def test_a_changed_byte_stops_the_build_and_the_file_is_named(built: Copy, name: str) -> None:
    path = built.campaign / name
    kept = path.read_bytes()
    damage(path)
    done = built.build()
    path.write_bytes(kept)
    assert done.returncode != 0
    assert name in done.stderr


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("plan.toml", "[0.98, 1.02]", "[0.98, 1.04]", "plan.toml: changed since the seal"),
        (
            "runs/B/LoadRecord/1-final/run.json",
            '"holds": true',
            '"holds": null',
            "not the file that the journal recorded",
        ),
        ("seal.json", '"format": 1', '"format": 2', "seal.json: its digest is"),
    ],
)
def test_nothing_is_shown_from_files_that_are_not_as_sealed(
    built: Copy, name: str, old: str, new: str, message: str
) -> None:
    path = built.campaign / name
    kept = path.read_text()
    assert old in kept
    path.write_text(kept.replace(old, new, 1))
    argv = [sys.executable, "-m", "analysis", "claims", str(built.campaign)]
    done = subprocess.run(argv, cwd=built.folder, capture_output=True, text=True, check=False)
    path.write_text(kept)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stdout == ""


def test_a_label_that_does_not_hold_stops_the_notebook_and_is_named(built: Copy) -> None:
    path = built.campaign / "metrics.csv"
    kept = path.read_text()
    path.write_text(kept.replace(",LoadRecord,final,", ",SaveRecord,final,", 1))
    argv = [sys.executable, "-m", "papermill", "notebooks/phase_b.ipynb", "out.ipynb", "--no-progress-bar"]
    argv += ["-p", "campaign", f"data/{CAMPAIGN.name}"]
    done = subprocess.run(argv, cwd=built.folder, capture_output=True, text=True, check=False)
    path.write_text(kept)
    assert done.returncode != 0
    assert "labels do not hold" in done.stderr
    assert "case SaveRecord" in done.stderr


def test_every_page_of_the_book_is_there(built: Copy) -> None:
    names = {path.relative_to(built.html).as_posix() for path in built.html.rglob("*.html")}
    campaign = f"phases/{CAMPAIGN.name}"
    assert {"index.html", "method.html", "harness.html", "reproduce.html", "publish.html", "limits.html", "glossary.html",
            f"{campaign}/index.html", f"{campaign}/phase_b.html"} <= names  # fmt: skip
    index = (built.html / "index.html").read_text()
    assert f"{campaign}/phase_b.html" in index


def test_published_figures_have_pages_that_say_so_and_the_executed_campaign_leads(built: Copy) -> None:
    folder = built.html / "phases" / "hcloud-rebench-20261014"
    page = (folder / "phase_a2.html").read_text()
    assert "Findings: published, not recomputed (no raw logs here)" in page
    assert "0.663 [0.440, 0.858]" in page and "yes: would include 1" in page
    assert f'href="../{CAMPAIGN.name}/phase_a2.html"' in page
    front = (built.html / "index.html").read_text()
    assert f'href="phases/{CAMPAIGN.name}/phase_a.html"' in front[front.index("What was found") :]
    assert (
        "figures-only" in front
        and 'href="phases/hcloud-rebench-20261014/phase_a2.html"'
        not in front.partition("What was found")[2].partition("</section>")[0]
    )
