"""A tiny campaign of two phases that was begun, and what tests of amendments do to its plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runner import amend as amending
from runner.store import Store
from runner.verify import verify
from tests import campaigns
from tests.campaigns import Campaign

CLAIM = """
[[phases.T.claims]]
id = "late"
text = "two is slower"
metric = "ns/op"
contrast = "two/one"
cases = "all"
holds = "above-1"
"""
WHY = "three blocks were too few"


def two_phases(parent: Path, cache: Path, **options: object) -> Campaign:
    """The plan of a tiny campaign with a second phase, U, that is like T."""
    campaign = campaigns.write(parent, cache, **options)  # type: ignore[arg-type]
    path = campaign.folder / "plan.toml"
    text = path.read_text()
    phase = text[text.index("[phases.T]") :]
    path.write_text(f"{text}\n{phase.replace('phases.T', 'phases.U')}")
    return campaign


def begin(campaign: Campaign, moment: str) -> Campaign:
    """Seal it and execute it until the runner is killed at a moment of `tests.faults.killer`."""
    campaign.does("seal")
    runner = campaign.start("-m", "tests.faults.killer", moment, str(campaign.folder))
    _, errors = runner.communicate(timeout=60)
    assert runner.returncode == -9, errors
    return campaign


def edit(campaign: Campaign, old: str, new: str, after: str = "") -> None:
    """Change one place of the plan: the first `old` behind `after`."""
    path = campaign.folder / "plan.toml"
    text = path.read_text()
    place = text.index(old, text.index(after))
    path.write_text(text[:place] + new + text[place + len(old) :])


def with_tree(campaign: Campaign, lock: str) -> Callable[[], None]:
    """Give the plan a tree that no arm uses, with this lock. Returns what takes it out of the plan again."""
    python = (campaign.folder / "plan.toml").read_text().split('python = "', 1)[1].split('"', 1)[0]
    tree = f'\n[trees.other]\nkind = "packages"\nwhat = "nothing"\npython = "{python}"\nlock = "{lock}"\n'
    (campaign.folder / lock).parent.mkdir(parents=True, exist_ok=True)
    (campaign.folder / lock).write_text("# one\n")
    edit(campaign, "\n[phases.T]", f"{tree}\n[phases.T]")
    return lambda: edit(campaign, tree, "")


def append(campaign: Campaign, text: str) -> None:
    """Write something at the end of the plan."""
    with (campaign.folder / "plan.toml").open("a") as file:
        file.write(text)


def amend(campaign: Campaign, why: str = WHY) -> list[str]:
    """Amend in this process. Returns what was said."""
    said: list[str] = []
    said.append(amending.amend(Store.open(campaign.folder), why, said.append))
    return said


def problems(campaign: Campaign) -> list[str]:
    """What verifying finds."""
    return verify(Store.open(campaign.folder)).problems


def content(campaign: Campaign) -> dict[str, bytes]:
    """Every file of the campaign."""
    paths = sorted(path for path in campaign.folder.rglob("*") if path.is_file())
    return {path.relative_to(campaign.folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """Killed in the middle of a run, amended, killed in another, amended again, and brought to its end. Take a copy."""
    campaign = two_phases(tmp_path_factory.mktemp("ended"), cache, name="ended", cases=("Load",))
    begin(campaign, "event:run-start:4:after")
    edit(campaign, "blocks = 3", "blocks = 4", "[phases.T]")
    edit(campaign, "\n[phases.U]", f"{CLAIM}\n[phases.U]")
    campaign.does("amend", "--why", WHY)
    runner = campaign.start("-m", "tests.faults.killer", "event:run-start:6:after", str(campaign.folder))
    runner.communicate(timeout=60)
    edit(campaign, 'primary = "t"', 'primary = "percentile"')
    edit(campaign, 'holds = "above-1"', "holds = { within = [0.5, 2.0] }")
    append(campaign, CLAIM.replace("phases.T", "phases.U").replace('"late"', '"early"'))
    append(
        campaign,
        '\n[[phases.U.claims]]\nid = "x"\ntext = "x"\nmetric = "B/op"\ncontrast = "two/one"\ncases = "all"\nholds = "below-1"\n',
    )
    campaign.does("amend", "--why", "the percentile interval leads; <b>early</b> & x are asked of U")
    assert campaign.call("run").returncode == 0
    return campaign
