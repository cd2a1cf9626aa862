"""The journal's last line cut off at each of its bytes, as a crash in the middle of a write can leave it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.journal import Journal, read
from runner.store import Store
from runner.verify import verify
from tests import campaigns
from tests.campaigns import Campaign
from tests.faults import killer, oracle, sessions

KINDS = ("run-start", "run-end", "block-end", "close")


def journal_of(path: Path) -> bytes:
    with Journal(path) as opened:
        for number in range(3):
            opened.append("run-start", text=f"Zeile {number}: ä", started=number)
    return path.read_bytes()


def test_a_line_cut_off_at_each_byte_is_replaced_by_one_that_says_so(tmp_path: Path) -> None:
    """The last line cut off at each of its bytes: the earlier lines stay, and the next line tells what was cut off."""
    whole = journal_of(tmp_path / "whole")
    last = whole.rindex(b"\n", 0, -1) + 1
    path = tmp_path / "j"
    for cut in range(last + 1, len(whole)):
        path.write_bytes(whole[:cut])
        assert read(path).torn == whole[last:cut]
        with Journal(path) as opened:
            assert [event["event"] for event in opened.events] == ["run-start", "run-start", "torn-line"]
            assert opened.events[-1]["bytes"] == cut - last
            opened.append("run-start", again=True)
        after = read(path)
        assert path.read_bytes().startswith(whole[:last])
        assert ([event["event"] for event in after.events][2:], after.torn) == (["torn-line", "run-start"], b"")


def test_the_line_that_says_so_cut_off_in_turn(tmp_path: Path) -> None:
    """A crash while the torn line is replaced, at each byte of that write: there is a torn line still, and it is told of."""
    whole = journal_of(tmp_path / "whole")
    last = whole.rindex(b"\n", 0, -1) + 1
    path = tmp_path / "j"
    for cut in (last + 1, (last + len(whole)) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        Journal(path).close()
        mended = path.read_bytes()
        for place in range(last + 1, len(mended)):
            path.write_bytes(mended[:place] + whole[place:cut])
            assert read(path).torn
            with Journal(path) as opened:
                assert [event["event"] for event in opened.events] == ["run-start", "run-start", "torn-line"]
            assert read(path).torn == b""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    campaign = campaigns.write(
        tmp_path_factory.mktemp("torn"), cache, cases=campaigns.CASES[:1], blocks=2, faults="exit:two:1"
    )
    assert sessions.ends(campaign, what="seal").status == 0
    return campaign


def ended_after(kind: str, number: int) -> Callable[[], None]:
    def install() -> None:
        sessions.hurry()
        killer.at_event(kind, number, "after")

    return install


def copied(campaign: Campaign, name: str) -> Campaign:
    parent = campaign.trace_path.parent / name
    shutil.rmtree(parent, ignore_errors=True)
    return campaign.copy(parent)


def torn(template: Campaign, kind: str, step: int) -> int:
    """End a session right after an event, cut its line off at every so many bytes, resume and judge; how often."""
    template.trace_path.unlink(missing_ok=True)
    campaign = copied(template, "ended")
    assert sessions.ends(campaign, before=ended_after(kind, 2 if kind.startswith("run") else 1)).status == -9
    journal, trace = (campaign.folder / "journal.jsonl").read_bytes(), template.trace_path.read_bytes()
    last = journal.rindex(b"\n", 0, -1) + 1
    tries = 0
    for cut in range(last + 1, len(journal), step):
        copy, witness = copied(campaign, "copy"), oracle.Witness()
        template.trace_path.write_bytes(trace)
        (copy.folder / "journal.jsonl").write_bytes(journal[:cut])
        witness.look(copy)
        session = sessions.ends(copy)
        where = f"{kind}, cut off after {cut - last} bytes: {session.said}"
        assert f"the last line was torn, as a crash leaves it; its {cut - last} bytes are cut off" in session.said, (
            where
        )
        assert session.status is not None
        oracle.judge(copy, witness, session.status)
        assert [event["bytes"] for event in copy.events("torn-line")] == [cut - last], where
        assert verify(Store.open(copy.folder)).problems == [], where
        tries += 1
    return tries


@pytest.mark.parametrize("kind", ["run-end", "close"])
def test_a_campaign_goes_on_after_a_torn_line(template: Campaign, kind: str) -> None:
    """The last line of a killed session is torn: the next one says so, in its output too, and nothing is lost."""
    assert torn(template, kind, step=300) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_campaign_goes_on_after_a_line_torn_at_many_bytes(template: Campaign, kind: str) -> None:
    """Torn at every 29th byte, and the campaign brought to its end each time: nothing is lost or executed twice."""
    tries = torn(template, kind, step=29)
    print(f"{kind}: {tries} tries, {tries} survived, 0 lost")
    assert tries > 5
