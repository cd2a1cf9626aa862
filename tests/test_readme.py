"""The README's commands: each that only reads is executed, each other one has its --help."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bundled import CAMPAIGN, ROOT

README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"`((?:python -m|papermill|jupyter-book|make) [^`]+)`", README)
READING = ("verify", "estimates", "claims", "times", "plan", "check")


def argv(command: str) -> list[str]:
    program, *words = command.split()
    if program == "python":
        return [sys.executable, *words]
    return [str(Path(sys.executable).with_name(program)), *words]


def test_the_two_commands_come_first() -> None:
    first = re.findall(r"^    (make \S+)", README, re.M)
    assert first == ["make campaign", "make test"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert {"campaign", "test", "test-slow", "lint"} <= set(targets)


def test_the_campaign_that_is_named_is_the_bundled_one() -> None:
    assert set(re.findall(r"data/(pgstack-\w+)", README)) == {CAMPAIGN.name}
    for page in (ROOT / "book").glob("*.md"):
        assert set(re.findall(r"data/(pgstack-\w+)", page.read_text())) <= {CAMPAIGN.name}
    assert f'campaign = "data/{CAMPAIGN.name}"' in (ROOT / "notebooks/phase_b.ipynb").read_text().replace('\\"', '"')


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python") and c.split()[3] in READING])
def test_commands_that_read(command: str) -> None:
    done = subprocess.run(argv(command), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 1


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python")])
def test_commands_have_help(command: str) -> None:
    words = argv(command)[:4]
    done = subprocess.run([*words, "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    options = set(re.findall(r" (--[a-z-]+)", command))
    assert options <= set(re.findall(r"(--[a-z-]+)", done.stdout))
