"""No number in a result sentence is typed by hand: notebooks hold none, and those of sentences are those of estimates."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from analysis import headlines
from analysis.formats import ratio_text
from analysis.report import PhaseReport, open_report
from tests.bundled import CAMPAIGN, ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("phase*.ipynb"))
PHASES = ("A", "A2", "B", "C1", "C2", "C3", "D1", "D2", "N")
DECIMAL = re.compile(r"(?<![\w.-])\d+\.\d+(?![\w.])")


@cache
def report(phase: str) -> PhaseReport:
    return open_report(CAMPAIGN, phase)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebooks_words_hold_no_number(path: Path) -> None:
    """The title aside, and the ratio 1, which is no result."""
    cells = json.loads(path.read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    found = [number.rstrip(".,") for text in texts[1:] for number in re.findall(r"\d[\d.,%]*", text)]
    assert set(found) <= {"1"}


def allowed(found: PhaseReport) -> set[str]:
    """Every number that an estimate is shown with, whichever interval stands beside it."""
    texts = [ratio_text(e.point, interval) for e in found.estimates for interval in (e.t, e.percentile, None)]
    bounds = [json.dumps(claim.model_dump(mode="json")["holds"]) for claim in found.phase.claims]
    words = [*(case.name for case in found.phase.cases), *found.metrics]
    return set(DECIMAL.findall(" ".join([*texts, *bounds, *words])))


@pytest.mark.parametrize("phase", PHASES)
def test_the_numbers_of_sentences_are_those_of_estimates(phase: str) -> None:
    found = report(phase)
    texts = [sentence.text for sentence in found.sentences]
    texts += [headlines.contrast_sentence(found, contrast) for contrast in found.contrasts]
    texts += [headlines.headline(found)]
    numbers = [number for text in texts for number in DECIMAL.findall(text)]
    assert len(numbers) > 3
    assert set(numbers) <= allowed(found)


@pytest.mark.parametrize("phase", PHASES)
def test_the_numbers_of_claims_reasons_are_those_of_estimates(phase: str) -> None:
    found = report(phase)
    numbers = {number for claim in found.claims for number in DECIMAL.findall(claim.reason)}
    strange = numbers - allowed(found)
    assert strange == set()
