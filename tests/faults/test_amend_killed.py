"""kill -9 of `amend` at every boundary of its writing: the campaign is the earlier one or the amended one, never a third."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.journal import Journal
from runner.protocol import finish
from runner.store import Store
from runner.verify import verify
from tests import amending
from tests.amending import CLAIM, WHY, amend, append, content, edit, problems
from tests.campaigns import Campaign
from tests.faults.killer import at_event

CALLS = ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "open")  # what leaves a trace on the disk


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    """A campaign that was begun, and whose plan was then edited. Take a copy."""
    campaign = amending.two_phases(tmp_path_factory.mktemp("edited"), cache, name="killed", cases=("Load",), blocks=2)
    amending.begin(campaign, "event:run-end:2:after")
    edit(campaign, "blocks = 2", "blocks = 3", "[phases.T]")
    append(campaign, CLAIM.replace("phases.T", "phases.U"))
    return campaign


@pytest.fixture
def copy(edited: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    monkeypatch.setenv("BENCHBOOK_CACHE", str(edited.cache))
    return edited.copy(tmp_path)


def at_call(number: int) -> None:
    """kill -9 before or after the call, by turns, counted from the moment at which an amendment begins to be written."""
    calls = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            for turn in ("before", "after"):
                calls += 1
                if calls == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                if turn == "before":
                    result = function(*args, **kwargs)
            return result

        return wrapper

    def begin(*args: Any, **kwargs: Any) -> Any:
        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
        return stage(*args, **kwargs)

    from runner import protocol

    stage = protocol.stage
    protocol.stage = begin


def killed(campaign: Campaign, arm: Callable[[], object]) -> bool:
    """Amend in a child process that ends itself where `arm` says. False where it came to its end before."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            arm()
            amend(campaign)
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def either_or(campaign: Campaign, before: dict[str, bytes]) -> str:
    """What a killed `amend` left, in one word, after having checked that it is nothing else."""
    report = verify(Store.open(campaign.folder))
    recorded = bool(campaign.events("amended"))
    half = list((campaign.folder / "protocol").glob("*.partial"))
    if not recorded:
        now = content(campaign)
        assert {name: data for name, data in now.items() if ".partial/" not in name} | {
            "journal.jsonl": before["journal.jsonl"]
        } == before
        assert any("plan.toml: changed since the seal" in text for text in report.problems)
        assert bool(half) == any("left by an amendment that was not recorded" in text for text in report.notes)
        return "earlier"
    if half:
        assert any("not all of its files are in their places: python -m runner amend" in t for t in report.problems)
        return "half"
    assert report.problems == []
    return "amended"


def brought_to_its_end(campaign: Campaign, was: str) -> None:
    """The next `amend` ends what was begun, once, and the campaign is as if nothing had been killed."""
    if was != "amended":
        said = amend(campaign, "another reason" if was == "half" else WHY)
        assert (said[0].endswith("was brought to its end")) == (was == "half")
    assert problems(campaign) == []
    (event,) = campaign.events("amended")
    assert event["why"] == WHY
    assert not list(campaign.folder.rglob("*.partial"))
    names = content(campaign).keys()
    assert {name for name in names if name.startswith("protocol/")} == {
        *(
            f"protocol/1/{name}"
            for name in ("plan.toml", "trees/plain.txt", "orders.json", "seal.json", "amendment.json")
        ),
        *(f"protocol/2/{name}" for name in ("plan.toml", "trees/plain.txt")),
    }


def every_moment(edited: Campaign, tmp_path: Path, step: int) -> dict[str, int]:
    """Kill at each `step`-th boundary, and look at what is left. Returns how often it was what."""
    found: dict[str, int] = {}
    before = content(edited)
    number = 1
    while True:
        copy = edited.copy(tmp_path / str(number))
        if not killed(copy, lambda number=number: at_call(number)):  # type: ignore[misc]
            break
        was = either_or(copy, before)
        found[was] = found.get(was, 0) + 1
        brought_to_its_end(copy, was)
        number += step
    assert number > 60
    return found


def test_killed_at_some_boundaries(edited: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`amend` ended by kill -9 at every ninth boundary of its writing leaves the earlier or the amended campaign."""
    monkeypatch.setenv("BENCHBOOK_CACHE", str(edited.cache))
    found = every_moment(edited, tmp_path, 9)
    assert set(found) == {"earlier", "half"} or set(found) == {"earlier", "half", "amended"}


@pytest.mark.slow
def test_killed_at_every_boundary(edited: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`amend` ended by kill -9 at every boundary of its writing leaves the earlier or the amended campaign."""
    monkeypatch.setenv("BENCHBOOK_CACHE", str(edited.cache))
    found = every_moment(edited, tmp_path, 1)
    print(found)
    assert set(found) == {"earlier", "half", "amended"}


@pytest.mark.parametrize("when", ["before", "torn", "after"])
def test_killed_around_the_line_that_commits(copy: Campaign, when: str) -> None:
    """A kill before the journal's line, or in the middle of it, leaves the earlier campaign; one after it the amended one."""
    before = content(copy)
    assert killed(copy, lambda: at_event("amended", 1, when))
    was = either_or(copy, before)
    assert was == ("half" if when == "after" else "earlier")
    status = copy.does("status").stdout
    assert ("is recorded and half done; the next `run` or `amend` brings it to its end" in status) == (was == "half")
    brought_to_its_end(copy, was)


@pytest.mark.parametrize("call", ["unlink", "rmdir"])
@pytest.mark.parametrize("turn", ["before", "after"])
def test_killed_while_a_dropped_tree_is_removed(copy: Campaign, call: str, turn: str) -> None:
    """A kill while a dropped lock and its emptied folders are removed leaves none of them once the amendment is ended."""
    drop = amending.with_tree(copy, "locks/of/other.txt")
    amend(copy)
    drop()
    done = getattr(os, call)

    def ending(*args: Any, **kwargs: Any) -> None:
        if "locks" in str(args[0]) and "protocol" not in str(args[0]):
            if turn == "after":
                done(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGKILL)
        done(*args, **kwargs)

    assert killed(copy, lambda: setattr(os, call, ending))
    assert (copy.folder / "locks").is_dir()
    amend(copy, "the next one")
    assert not (copy.folder / "locks").exists()
    assert problems(copy) == []


def test_an_amendment_that_never_was_leaves_no_empty_folder(copy: Campaign) -> None:
    """Where nothing was kept before, the leftovers of a killed `amend` go together with the folder that held them."""
    shutil.rmtree(copy.folder / "protocol")
    (copy.folder / "protocol" / "1.partial" / "trees").mkdir(parents=True)
    assert finish(Store.open(copy.folder), copy.events()) is None
    assert not (copy.folder / "protocol").exists()


def test_run_brings_a_half_amendment_to_its_end_and_goes_on(copy: Campaign) -> None:
    """After a kill that left an amendment half done, `run` ends it and executes what is outstanding under the new seal."""
    assert killed(copy, lambda: at_event("amended", 1, "after"))
    assert copy.call("run").returncode == 0
    assert copy.does("verify").stdout.rstrip().endswith("no problems")
    assert len(copy.events("run-end")) == 2 * 3 + 2 * 2


def test_run_refuses_the_edited_plan_and_sweeps_what_was_never_recorded(copy: Campaign) -> None:
    """After a kill before the commit, `run` removes the leftovers and says that the edited plan is to be amended."""
    assert killed(copy, lambda: at_event("amended", 1, "before"))
    assert (copy.folder / "protocol" / "1.partial").is_dir()
    done = copy.call("run")
    assert (done.returncode, "python -m runner amend" in done.stderr) == (1, True)
    assert not (copy.folder / "protocol" / "1.partial").exists()
    (copy.folder / "plan.toml").write_bytes((copy.folder / "protocol" / "1" / "plan.toml").read_bytes())
    assert copy.call("run").returncode == 0
    assert copy.does("verify").stdout.rstrip().endswith("no problems")


def test_the_plan_edited_again_while_an_amendment_was_half_done(copy: Campaign) -> None:
    """An edit after the kill is no part of the half amendment: it becomes the next one, with its own reason."""
    assert killed(copy, lambda: at_event("amended", 1, "after"))
    edit(copy, "resamples = 200", "resamples = 300")
    amend(copy, "more resamples")
    assert [event["why"] for event in copy.events("amended")] == [WHY, "more resamples"]
    assert problems(copy) == []


def test_a_half_amendment_whose_staged_file_is_gone(copy: Campaign) -> None:
    """Where a file of a recorded amendment is neither staged nor in its place, it is named and nothing goes on."""
    assert killed(copy, lambda: at_event("amended", 1, "after"))
    (copy.folder / "protocol" / "1.partial" / "orders.json").write_bytes(b"{}")
    done = copy.call("run")
    assert done.returncode == 1
    assert "orders.json: amendment 1 was recorded, and this file of it is neither here nor in 1.partial" in done.stderr
    assert len(copy.events("run-end")) == 2


def test_a_disk_that_is_full_leaves_the_earlier_campaign(copy: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write error before the commit is reported, and the earlier campaign is untouched."""
    before = content(copy)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            amend(copy)
    assert either_or(copy, before) == "earlier"
    brought_to_its_end(copy, "earlier")


def test_two_amendments_at_once(copy: Campaign) -> None:
    """A second `amend` while one holds the campaign is refused, and names the process."""
    with Journal(copy.folder / "journal.jsonl"):
        done = copy.call("amend", "--why", WHY)
    assert done.returncode == 1
    assert "another runner is at work on this campaign" in done.stderr
    assert str(os.getpid()) in done.stderr
