"""The session ended just before each call by which it can change something: run, recovery, close and seal, one by one."""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.store import Store
from runner.verify import verify
from tests import campaigns
from tests.campaigns import Campaign
from tests.faults import oracle, sessions
from tests.faults.boundaries import Disk, at_boundary, at_call
from tests.faults.sessions import Session

FEW = 2  # boundaries that the short tests try; all of them in the slow ones
MOST = 2000
BEFORE_THE_NAME = ("rename", 2)  # the failed run's record is whole, and its folder has not its name yet


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """One case, two arms, two blocks; the second arm fails in the first block. Not sealed."""
    parent = tmp_path_factory.mktemp("draft")
    return campaigns.write(
        parent, cache, cases=campaigns.CASES[:1], blocks=2, faults="exit:two:1", replacement_blocks=100
    )


@pytest.fixture(scope="module")
def template(draft: Campaign) -> Campaign:
    """The same, sealed."""
    campaign = draft.copy(draft.folder.parent / "sealed")
    session = sessions.ends(campaign, what="seal")
    assert session.status == 0, session.said
    return campaign


def fresh(template: Campaign, name: str = "copy") -> Campaign:
    parent = template.trace_path.parent / name
    shutil.rmtree(parent, ignore_errors=True)
    template.trace_path.unlink(missing_ok=True)
    return template.copy(parent)


def numbers(few: bool, seed: int, highest: int) -> Iterator[int]:
    """Every number from 1, or a few that a seed chooses."""
    yield from sorted(random.Random(seed).sample(range(1, highest), FEW)) if few else range(1, MOST)


def reached(session: Session, number: int) -> bool:
    """Whether the session was ended at its boundary; else it came to its own end."""
    assert session.status in (-signal.SIGKILL, 0, 1), f"boundary {number}: {session.said}"
    assert "Traceback" not in session.said, f"boundary {number}: {session.said}"
    return session.status == -signal.SIGKILL


def brought_to_its_end(campaign: Campaign, witness: oracle.Witness, where: str) -> dict[str, int]:
    """Look, resume, judge."""
    session = None
    try:
        witness.look(campaign)
        session = sessions.ends(campaign)
        assert session.status is not None
        outcomes = oracle.judge(campaign, witness, session.status)
        assert verify(Store.open(campaign.folder)).problems == []
    except AssertionError as error:
        pytest.fail(f"{where}: {error}\n{session.said if session else ''}")
    return outcomes


def unharmed(campaign: Campaign) -> list[str]:
    """What is wrong with what lies there: between a campaign's close and its manifest, which the next `run` writes, that one."""
    problems = verify(Store.open(campaign.folder)).problems
    return [text for text in problems if not (campaign.events("close") and text == "MANIFEST.sha256: missing")]


def killed_in_a_session(template: Campaign, few: bool) -> int:
    tries = 0
    for number in numbers(few, 1, 150):
        campaign = fresh(template)
        if not reached(sessions.ends(campaign, before=at_boundary(number)), number):
            break
        tries += 1
        brought_to_its_end(campaign, oracle.Witness(), f"boundary {number}")
    return tries


def test_a_session_killed_at_a_few_boundaries(template: Campaign) -> None:
    """kill -9 just before a change, anywhere from the session's start to the manifest: no run is lost or repeated."""
    assert killed_in_a_session(template, few=True) == FEW


@pytest.mark.slow
@pytest.mark.timeout(3600)  # as many sessions as there are boundaries
def test_a_session_killed_at_every_boundary(template: Campaign) -> None:
    """kill -9 just before each change of a whole session, recording and close included: no run is lost or repeated."""
    tries = killed_in_a_session(template, few=False)
    print(f"{tries} tries, {tries} survived, 0 lost")
    assert tries > 120


def killed_in_recovery(template: Campaign, few: bool) -> int:
    """A session is killed while its second process is at work or recorded; the recovery is killed at each boundary, and the
    recovery of that at one more."""
    tries = 0
    first = fresh(template, "first")
    assert reached(sessions.ends(first, before=at_call(*BEFORE_THE_NAME)), 0)
    [record] = first.folder.rglob("*.partial/run.json")
    assert json.loads(record.read_bytes())["outcome"] == "failed"
    trace = template.trace_path.read_bytes()
    for number in numbers(few, 2, 40):
        campaign, witness = fresh(first, "copy"), oracle.Witness()
        template.trace_path.write_bytes(trace)
        witness.look(campaign)
        if not reached(sessions.ends(campaign, before=at_boundary(number)), number):
            break
        witness.look(campaign)
        again = random.Random(number).randrange(1, 40)
        reached(sessions.ends(campaign, before=at_boundary(again)), again)
        tries += 1
        brought_to_its_end(campaign, witness, f"boundary {number}, then {again}")
    return tries


def test_recovery_killed_at_a_few_boundaries(template: Campaign) -> None:
    """kill -9 of the session that recovers, and of the one that recovers from that: a failed run stays failed."""
    assert killed_in_recovery(template, few=True) == FEW


@pytest.mark.slow
@pytest.mark.timeout(3600)  # as many sessions as there are boundaries
def test_recovery_killed_at_every_boundary(template: Campaign) -> None:
    """kill -9 just before each change of the session that recovers, and once more after it: nothing is lost."""
    tries = killed_in_recovery(template, few=False)
    print(f"{tries} tries, {tries} survived, 0 lost")
    assert tries > 60


def test_a_failed_run_whose_folder_has_not_its_name_yet_stays_failed(template: Campaign) -> None:
    """kill -9 between a failed run's record and the rename of its folder: it is failed, not interrupted, and never repeated."""
    campaign = fresh(template)
    assert reached(sessions.ends(campaign, before=at_call(*BEFORE_THE_NAME)), 0)
    outcomes = brought_to_its_end(campaign, oracle.Witness(), "before the name")
    assert outcomes["failed"] == 1
    assert "interrupted" not in outcomes


def power_cut(template: Campaign, few: bool) -> int:
    """As a kill, and all that was not fsynced is lost."""
    tries = 0
    for number in numbers(few, 3, 150):
        campaign = fresh(template)
        disk, left = Disk(campaign.folder), campaign.folder.parent / "left"
        hook = at_boundary(number, then=lambda disk=disk, left=left: disk.write(left), watch=disk.fsynced)  # type: ignore[misc]
        if not reached(sessions.ends(campaign, before=hook), number):
            break
        shutil.rmtree(campaign.folder)
        left.rename(campaign.folder)
        assert unharmed(campaign) == [], f"boundary {number}"
        tries += 1
        brought_to_its_end(campaign, oracle.Witness(), f"power cut at boundary {number}")
    return tries


def test_a_power_cut_at_a_few_boundaries(template: Campaign) -> None:
    """All that was not fsynced is lost, simulated: what the journal tells of is there, and the campaign comes to its end."""
    assert power_cut(template, few=True) == FEW


@pytest.mark.slow
@pytest.mark.timeout(3600)  # as many sessions as there are boundaries
def test_a_power_cut_at_every_boundary(template: Campaign) -> None:
    """All that was not fsynced before each change is lost, simulated: what the journal tells of is there."""
    tries = power_cut(template, few=False)
    print(f"{tries} tries, {tries} survived, 0 lost")
    assert tries > 120


def interrupted(template: Campaign, few: bool) -> int:
    """Ctrl-C and SIGTERM by turns; the runner ends by itself, and says so in the journal once it has begun a session."""
    tries = 0
    for number in numbers(few, 5, 150):
        campaign, witness = fresh(template), oracle.Witness()
        by = (signal.SIGINT, signal.SIGTERM)[number % 2]
        came = campaign.folder.parent / "came"
        hook = at_boundary(number, then=came.touch, by=by)
        session = sessions.ends(campaign, before=hook)
        assert session.status in (0, 1, -by), f"boundary {number}: {session.said}"
        assert "Traceback" not in session.said, f"boundary {number}: {session.said}"
        if not came.exists():
            break
        tries += 1
        if campaign.events("session-start") and campaign.events()[-1]["event"] != "session-start":
            assert len(campaign.events("session-end")) == 1, f"boundary {number}: {session.said}"
        assert unharmed(campaign) == [], f"boundary {number}"
        left = [path for path in campaign.folder.iterdir() if path.name.startswith(".")]
        assert left == [], f"boundary {number}: {left}"
        brought_to_its_end(campaign, witness, f"{by.name} at boundary {number}")
    return tries


def test_a_session_interrupted_at_a_few_boundaries(template: Campaign) -> None:
    """Ctrl-C or SIGTERM anywhere in a session: it ends by itself, its records are whole, and the next one goes on."""
    assert interrupted(template, few=True) == FEW


@pytest.mark.slow
@pytest.mark.timeout(3600)  # as many sessions as there are boundaries
def test_a_session_interrupted_at_every_boundary(template: Campaign) -> None:
    """Ctrl-C or SIGTERM just before each change of a session: it ends by itself, and nothing is lost or left behind."""
    tries = interrupted(template, few=False)
    print(f"{tries} tries, {tries} survived, 0 lost")
    assert tries > 120


def killed_while_sealing(draft: Campaign, few: bool) -> int:
    tries = 0
    for number in numbers(few, 4, 250):
        campaign = fresh(draft)
        if not reached(sessions.ends(campaign, before=at_boundary(number), what="seal"), number):
            break
        tries += 1
        session = sessions.ends(campaign, what="seal")
        assert session.status == 0, f"boundary {number}: {session.said}"
        report = verify(Store.open(campaign.folder))
        assert (report.problems, report.state) == ([], "sealed"), f"boundary {number}"
        if few or number % 25 == 0:
            brought_to_its_end(campaign, oracle.Witness(), f"boundary {number}")
    return tries


def test_a_seal_killed_at_a_few_boundaries(draft: Campaign) -> None:
    """kill -9 while the seal is written: sealing again gives a seal that holds."""
    assert killed_while_sealing(draft, few=True) == FEW


@pytest.mark.slow
@pytest.mark.timeout(3600)  # as many sessions as there are boundaries
def test_a_seal_killed_at_every_boundary(draft: Campaign) -> None:
    """kill -9 just before each change that sealing makes: sealing again gives a seal that holds."""
    tries = killed_while_sealing(draft, few=False)
    print(f"{tries} tries, {tries} survived, 0 lost")
    assert tries > 200


@pytest.mark.parametrize("number", range(1, 30, 7))
def test_a_campaign_that_was_not_sealed_to_the_end_is_not_executed(draft: Campaign, number: int) -> None:
    """kill -9 while the seal is written, then `run`: refused, with the remedy, and nothing is executed."""
    campaign = fresh(draft)
    assert reached(sessions.ends(campaign, before=at_boundary(number * 8), what="seal"), number)
    session = sessions.ends(campaign)
    assert session.status == 1
    assert f"python -m runner seal {campaign.folder}" in session.said
    assert campaign.trace() == []
