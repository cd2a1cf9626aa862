"""Fixtures that several tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import campaigns
from tests.amending import ended
from tests.campaigns import Campaign
from tests.database import pythons, server, starter

__all__ = ["ended", "pythons", "server", "starter"]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runner keeps trees, for all tests of a session."""
    return tmp_path_factory.mktemp("cache")


SECRET = "a-secret-of-the-runner's-user-5b1f"


@pytest.fixture(scope="session")
def sealed(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """A tiny campaign that is sealed, and of which nothing ever runs. Not to be changed: take a copy."""
    campaign = campaigns.write(tmp_path_factory.mktemp("sealed"), cache)
    campaign.does("seal")
    return campaign


@pytest.fixture(scope="session")
def closed(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """A tiny campaign of three arms, sealed, executed and closed. Not to be changed: take a copy."""
    campaign = campaigns.write(tmp_path_factory.mktemp("closed"), cache, arms=campaigns.ARMS)
    campaign.does("seal")
    campaign.does("run", environment={"USER_SECRET": SECRET})
    return campaign
