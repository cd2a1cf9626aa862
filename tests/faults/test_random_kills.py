"""kill -9 at random moments of runner, benchmark process and server; the oracle judges what came of the campaign.

Each campaign has a number, and its moments come from that number alone: a failure names it, and
`pytest tests/faults/test_random_kills.py -k TEST -m "slow or not slow" --kills NUMBER` tries just that campaign again.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.store import Store
from runner.verify import verify
from tests import campaigns
from tests.campaigns import Campaign, wait_for
from tests.faults import oracle, sessions
from tests.faults.left import nothing_left
from tests.faults.sessions import Session
from tests.test_postgres import descendants, served

FAULTS = "exit:two:2 wrong:one:3"
KILLS_OF_ONE = 10  # in one campaign, before it may come to its end
POLL_S = 0.0005


@dataclass
class Tally:
    """What a test tried, and what came of it."""

    tries: int = 0
    survived: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.tries} tries, {self.survived} survived, {self.tries - self.survived} lost; runs: {self.outcomes}"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """A sealed campaign of two cases with two arms in three blocks; two of its runs fail."""
    campaign = campaigns.write(
        tmp_path_factory.mktemp("template"), cache, blocks=3, faults=FAULTS, replacement_blocks=100
    )
    session = sessions.ends(campaign, what="seal")
    assert session.status == 0, session.said
    return campaign


def fresh(template: Campaign) -> Campaign:
    """A copy of a sealed campaign below a new folder; its trace starts anew, at the place that the plan names."""
    parent = template.folder.parent / "copy"
    shutil.rmtree(parent, ignore_errors=True)
    template.trace_path.unlink(missing_ok=True)
    return template.copy(parent)


# -- moments: each is a function that waits for its moment in a session, and what it did


def after_calls(number: int) -> Callable[[], None]:
    """kill -9 of itself when the runner calls or leaves a function for the n-th time."""

    def install() -> None:
        sessions.hurry()
        left = number

        def count(*_: Any) -> None:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)

    return install


def runner_killed(campaign: Campaign, generator: random.Random) -> tuple[Session, bool, str]:
    """kill -9 of the runner: after so many calls of functions, or after a time."""
    if generator.random() < 0.5:
        number = int(10 ** generator.uniform(3.5, 5.2))
        session = sessions.start(campaign, before=after_calls(number))
        return session, session.wait() == -signal.SIGKILL, f"call {number}"
    delay = generator.uniform(0, 0.9)
    return *signalled(campaign, delay, signal.SIGKILL), f"kill -9 after {delay:.4f} s"


def signalled(campaign: Campaign, delay: float, number: int) -> tuple[Session, bool]:
    session = sessions.start(campaign)
    time.sleep(delay)
    sent = session.send(number)
    session.wait()
    return session, sent


def runner_ended(campaign: Campaign, generator: random.Random) -> tuple[Session, bool, str]:
    """SIGTERM or Ctrl-C of the runner, after a time."""
    delay, number = generator.uniform(0, 0.9), generator.choice([signal.SIGTERM, signal.SIGINT])
    session, sent = signalled(campaign, delay, number)
    assert session.status in (0, 1, -signal.SIGTERM, -signal.SIGINT), session.said
    return session, sent, f"{number.name} after {delay:.4f} s"


def process_killed(campaign: Campaign, generator: random.Random) -> tuple[Session, bool, str]:
    """kill -9 of the benchmark process that is at work after a time; the runner goes on."""
    delay = generator.uniform(0, 0.9)
    session = sessions.start(campaign)
    time.sleep(delay)
    killed = False
    while not killed and session.poll() is None:
        for pid in oracle.processes(f"{campaign.folder}/harness/tiny.py"):
            if pid != session.pid:
                os.kill(pid, signal.SIGKILL)
                killed = True
        time.sleep(POLL_S)
    session.wait()
    assert session.status in (0, 1), session.said
    return session, killed, f"the process at work after {delay:.4f} s"


def server_killed(campaign: Campaign, generator: random.Random) -> tuple[Session, bool, str]:
    """kill -9 of the server, or of one of its processes, after a time; the runner goes on, or says why it cannot."""
    delay, whole = generator.uniform(0, 3.5), generator.random() < 0.7
    session = sessions.start(campaign)
    time.sleep(delay)
    hit = False
    while not hit and session.poll() is None:
        servers = [pid for pid in descendants(session.pid) if "postgres" in name_of(pid)]
        if servers:
            os.kill(min(servers) if whole else generator.choice(sorted(servers)), signal.SIGKILL)
            hit = True
        time.sleep(POLL_S)
    session.wait()
    assert session.status in (0, 1), session.said
    return session, hit, f"the server after {delay:.4f} s"


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def one_campaign(
    template: Campaign, number: int, kinds: list[Callable[..., tuple[Session, bool, str]]], most: int
) -> tuple[int, dict[str, int]]:
    """Kill at most so often, then bring the campaign to its end and judge it. How often it was hit, and its runs."""
    generator = random.Random(number)
    campaign, witness, did = fresh(template), oracle.Witness(), []
    hits = 0
    try:
        while hits < most and not (campaign.folder / "MANIFEST.sha256").exists():
            session, hit, what = generator.choice(kinds)(campaign, generator)
            did.append(what)
            hits += hit
            witness.look(campaign)
            assert "Traceback" not in session.said, session.said
            unharmed(campaign)
        session = sessions.ends(campaign)
        assert session.status is not None
        outcomes = oracle.judge(campaign, witness, session.status)
        assert verify(Store.open(campaign.folder)).problems == []
    except AssertionError as error:
        pytest.fail(f"campaign {number}, after {did}: {error}\n{session.said}")
    return hits, outcomes


def unharmed(campaign: Campaign) -> None:
    """Whatever the moment: nothing is wrong with what lies there; a campaign that has its close may lack the manifest."""
    problems = verify(Store.open(campaign.folder)).problems
    if any(event["event"] == "close" for event in campaign.events()):
        problems = [text for text in problems if "MANIFEST.sha256" not in text]
    assert problems == []


def tried(
    config: pytest.Config, template: Campaign, first: int, tries: int, kinds: list[Any], most: int = KILLS_OF_ONE
) -> Tally:
    """Campaigns from this number on, until so many kills have hit; with --kills just that one."""
    alone = config.getoption("--kills")
    if alone is not None:
        pytest.skip(f"campaign {alone} alone: {one_campaign(template, alone, kinds, most)}")
    tally, number = Tally(), first
    while tally.tries < tries:
        hits, outcomes = one_campaign(template, number, kinds, min(most, tries - tally.tries))
        tally.tries += hits
        tally.survived += hits
        for outcome, count in outcomes.items():
            tally.outcomes[outcome] = tally.outcomes.get(outcome, 0) + count
        number += 1
    print(tally)
    return tally


def test_killed_at_a_few_random_moments(pytestconfig: pytest.Config, template: Campaign) -> None:
    """kill -9, SIGTERM or Ctrl-C of the runner, or kill -9 of its benchmark process: the campaign comes to its end by its rules."""
    tally = tried(pytestconfig, template, 1, 8, [runner_killed, runner_ended, process_killed])
    assert (tally.tries, tally.survived) == (8, 8)


@pytest.mark.slow
def test_the_runner_killed_at_120_random_moments(pytestconfig: pytest.Config, template: Campaign) -> None:
    """kill -9 of the runner: the next session brings the campaign to its end, each planned run executed once."""
    tally = tried(pytestconfig, template, 1000, 120, [runner_killed])
    assert (tally.tries, tally.survived) == (120, 120)


@pytest.mark.slow
def test_the_benchmark_process_killed_at_40_random_moments(pytestconfig: pytest.Config, template: Campaign) -> None:
    """kill -9 of the process at work: a failed run, kept, and never repeated whatever happens to the runner after it."""
    tally = tried(pytestconfig, template, 2000, 40, [process_killed, process_killed, runner_killed])
    assert (tally.tries, tally.survived) == (40, 40)


@pytest.mark.slow
def test_the_runner_ended_at_20_random_moments(pytestconfig: pytest.Config, template: Campaign) -> None:
    """Ctrl-C or SIGTERM of the runner, among kills: it ends by itself, and the next session goes on."""
    tally = tried(pytestconfig, template, 4000, 20, [runner_ended, runner_ended, runner_killed])
    assert (tally.tries, tally.survived) == (20, 20)


@pytest.mark.slow
def test_a_phase_that_stops_at_a_wrong_answer_killed_at_20_random_moments(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> None:
    """kill -9 of the runner where a wrong answer stops the phase: it stays stopped, whenever the kill came."""
    campaign = campaigns.write(
        tmp_path_factory.mktemp("stops"), cache, blocks=3, faults="wrong:one:2 wrong:two:4 wrong:one:5", wrong_answer="stop-phase",
        replacement_blocks=100,
    )  # fmt: skip
    assert sessions.ends(campaign, what="seal").status == 0
    tally = tried(pytestconfig, campaign, 5000, 20, [runner_killed], most=3)
    assert (tally.tries, tally.survived) == (20, 20)
    assert tally.outcomes["failed"] > 0


@pytest.fixture(scope="module")
def with_server(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """A sealed campaign with a real PostgreSQL: one case, two arms, two blocks."""
    campaign = served(tmp_path_factory.mktemp("served"), cache, replacement_blocks=100)
    assert sessions.ends(campaign, what="seal").status == 0
    return campaign


@pytest.mark.slow
def test_the_server_killed_at_20_random_moments(pytestconfig: pytest.Config, with_server: Campaign) -> None:
    """kill -9 of PostgreSQL or one of its processes, among kills of the runner: recorded as it was, nothing left behind."""
    segments = shared_memory()
    with nothing_left(with_server):
        tally = tried(pytestconfig, with_server, 3000, 20, [server_killed, server_killed, runner_killed], most=4)
    assert (tally.tries, tally.survived) == (20, 20)
    wait_for(lambda: shared_memory() <= segments)


def shared_memory() -> set[str]:
    """Segments that PostgreSQL made below /dev/shm, where they stay when its processes are killed."""
    return {path.name for path in Path("/dev/shm").glob("PostgreSQL.*")}
