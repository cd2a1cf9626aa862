"""Fixtures that several tests share."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from runner import delay
from runner.delays import carrier
from tests import campaigns
from tests.amending import ended
from tests.campaigns import Campaign
from tests.database import pythons, server, starter

__all__ = ["ended", "pythons", "server", "starter"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the tests' own."""
    parser.addoption(
        "--kills", type=int, help="number of the one campaign that tests/faults/test_random_kills.py tries"
    )


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runner keeps trees, for all tests of a session."""
    shared = os.environ.get("BENCHBOOK_TEST_CLOSED")
    return Path(shared) / "cache" if shared else tmp_path_factory.mktemp("cache")


COUNTED = """import os, runpy, sys
os.environ["COVERAGE_PROCESS_CONFIG"] = {config!r}
sys.path.append({packages!r})
import coverage
coverage.process_startup()
runpy.run_path({script!r}, run_name="__main__")
"""


@pytest.fixture(scope="session", autouse=True)
def counted_scripts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Under `make coverage`, count what the two scripts take that the product starts with nothing of its environment."""
    config = os.environ.get("COVERAGE_PROCESS_CONFIG")
    if not config:
        return
    for module, name in ((carrier, "SCRIPT"), (delay, "ECHO")):
        script: Path = getattr(module, name)
        counted = tmp_path_factory.mktemp("counted") / script.name
        packages = sysconfig.get_path("purelib")
        counted.write_text(COUNTED.format(config=config, packages=packages, script=str(script)))
        setattr(module, name, counted)


SECRET = "a-secret-of-the-runner's-user-5b1f"


@pytest.fixture(scope="session")
def sealed(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """A tiny campaign that is sealed, and of which nothing ever runs. Not to be changed: take a copy."""
    campaign = campaigns.write(tmp_path_factory.mktemp("sealed"), cache)
    campaign.does("seal")
    return campaign


@pytest.fixture(scope="session")
def closed(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """A tiny campaign of three arms, sealed, executed and closed. Not to be changed: take a copy.

    BENCHBOOK_TEST_CLOSED is a folder in which it lies ready for other processes, and is made by the first: see mutants.py.
    """
    shared = os.environ.get("BENCHBOOK_TEST_CLOSED")
    parent = Path(shared) if shared else tmp_path_factory.mktemp("closed")
    if (parent / "tiny" / "MANIFEST.sha256").exists():
        return Campaign(parent / "tiny", cache, parent / "tiny.trace")
    campaign = campaigns.write(parent, cache, arms=campaigns.ARMS)
    campaign.does("seal")
    campaign.does("run", environment={"USER_SECRET": SECRET})
    return campaign
