"""Changes of an executed campaign, made by chance: `verify` finds each, names a file, and the book is not built from it."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from analysis import rendering
from runner.errors import DataError
from runner.files import manifest_text
from runner.store import Store
from tests import campaigns
from tests.campaigns import Campaign, rechained
from tests.faults import damage, sessions
from tests.faults.boundaries import at_call
from tests.faults.damage import ANY, BEFORE_THE_CLOSE, JOURNAL, MANIFEST, Copy, problems

SETTINGS = {
    "deadline": None,
    "database": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}
TALLY: Counter[str] = Counter()


def executed(parent: Path, cache: Path) -> Campaign:
    """A closed campaign of eight runs, one of which failed."""
    campaign = campaigns.write(parent, cache, blocks=2, faults="exit:two:1")
    for what in ("seal", "run"):
        session = sessions.ends(campaign, what=what)
        assert session.status == (what == "run"), session.said
    return campaign


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Campaign:
    return executed(tmp_path_factory.mktemp("executed"), cache)


@pytest.fixture(scope="module")
def copy(campaign: Campaign, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """A copy to be damaged again and again."""
    copy = Copy(campaign.copy(tmp_path_factory.mktemp("damaged")).folder)
    assert problems(copy.folder) == []
    yield copy
    assert problems(copy.folder) == []  # all was taken back


def found(copy: Copy, kind: str, data: st.DataObject) -> list[str]:
    """Damage the copy, look, and take the damage back; the problems."""
    try:
        names = ANY[kind](copy, data)
        told = problems(copy.folder)
    finally:
        copy.restore()
    note(f"{kind} of {names}: {told}")
    assert told, f"{kind} of {names} was not found"
    assert any(name in text for name in names for text in told), f"{kind}: none of {names} in {told}"
    TALLY[kind] += 1
    return told


@pytest.mark.parametrize("kind", ANY)
@settings(max_examples=6, **SETTINGS)
@given(data=st.data())
def test_any_change_of_a_closed_campaign_is_found(copy: Copy, kind: str, data: st.DataObject) -> None:
    """A change of this kind anywhere in the folder: `verify` fails and names a file that was touched."""
    found(copy, kind, data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ANY)
@settings(max_examples=300, **SETTINGS)
@given(data=st.data())
def test_any_change_of_a_closed_campaign_is_found_many_times(copy: Copy, kind: str, data: st.DataObject) -> None:
    """300 changes of this kind anywhere in the folder: `verify` fails each time and names a file that was touched."""
    found(copy, kind, data)


def files_of_another(campaign: Campaign, parent: Path) -> dict[str, bytes]:
    """The same plan sealed and executed once more: another campaign with the same names and labels."""
    shutil.copytree(campaign.folder / "trees", parent / "tiny" / "trees")
    shutil.copyfile(campaign.folder / "plan.toml", parent / "tiny" / "plan.toml")
    campaign.trace_path.unlink()
    other = Campaign(parent / "tiny", campaign.cache, campaign.trace_path)
    for what in ("seal", "run"):
        assert sessions.ends(other, what=what).status == (what == "run")
    return Copy(other.folder).files


def test_any_file_of_another_campaign_of_the_same_plan(campaign: Campaign, copy: Copy, tmp_path: Path) -> None:
    """Each file in turn replaced by that of another campaign with the same plan and labels: found, where its bytes differ."""
    others, tried = files_of_another(campaign, tmp_path), 0
    for name, content in others.items():
        if copy.files.get(name) == content:
            continue
        copy.write(name, content)
        told = problems(copy.folder)
        copy.write(name, copy.files[name])
        assert any(name in text for text in told), (name, told)
        tried += 1
    assert tried > 10  # seal, journal, manifest, host, aggregate and every record


def test_a_run_of_another_campaign_of_the_same_plan(campaign: Campaign, copy: Copy, tmp_path: Path) -> None:
    """The whole folder of each run replaced by that of another campaign with the same labels: found."""
    others = files_of_another(campaign, tmp_path)
    for run in damage.runs(copy):
        folder = run.parent.relative_to(copy.folder).as_posix()
        names = [name for name in copy.files if name.startswith(folder + "/")]
        for name in names:
            copy.write(name, others[name])
        told = problems(copy.folder)
        copy.restore()
        assert any(folder in text for text in told), (folder, told)


# -- a campaign that is not closed


@pytest.fixture(scope="module")
def under_way(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Copy]:
    """Killed in its second block, before the journal has the end of the sixth run; one run failed."""
    campaign = campaigns.write(tmp_path_factory.mktemp("under-way"), cache, blocks=2, faults="exit:two:1")
    assert sessions.ends(campaign, what="seal").status == 0
    session = sessions.ends(campaign, before=at_call("rename", 6))
    assert session.status == -9, session.said
    copy = Copy(campaign.folder)
    assert problems(copy.folder) == []
    yield copy
    assert problems(copy.folder) == []


def may_be_a_crash(copy: Copy, kind: str, names: tuple[str, ...]) -> bool:
    """Whether a crash could have left the same: then the next session goes on from there, and nobody can tell."""
    in_partial = any(".partial" in name for name in names)  # what an unfinished run has written so far
    metrics = names == ("metrics.csv",)
    shorter = metrics and copy.files["metrics.csv"].startswith(_bytes(copy, "metrics.csv"))
    folder = kind == "an_empty_folder"
    if in_partial or shorter or folder:
        return True
    if names[0] != JOURNAL:
        return False
    whole, now = copy.files[JOURNAL], _bytes(copy, JOURNAL)
    if whole.startswith(now):  # the tail is gone
        return _tail_may_be_gone(whole, now)
    last = whole.rindex(b"\n", 0, -1) + 1
    return now.startswith(whole[:last])  # the last line alone was changed, or something was put in behind it


def _bytes(copy: Copy, name: str) -> bytes:
    path = copy.folder / name
    return path.read_bytes() if path.is_file() else b""


def _tail_may_be_gone(whole: bytes, now: bytes) -> bool:
    """No run's end is missing, or only that of a run whose start is there, and that has no rows in the aggregate."""
    lines = whole.splitlines()
    kept = [json.loads(line) for line in lines[: now.count(b"\n")]]
    gone = [json.loads(line) for line in lines[now.count(b"\n") :]]
    ends = [event for event in gone if event["event"] == "run-end"]
    if not kept or not any(event["event"] == "sealed" for event in kept):
        return False
    starts = [event for event in gone if event["event"] == "run-start"]
    recorded = [event["labels"] for event in starts]
    return not recorded and all(event["outcome"] != "ok" for event in ends)


def found_under_way(copy: Copy, kind: str, data: st.DataObject) -> bool:
    """Damage, look, take back; whether it was found. Fails where it was not, and could not be what a crash leaves."""
    try:
        names = ANY[kind](copy, data)
        told = problems(copy.folder)
        excused = may_be_a_crash(copy, kind, names)
    finally:
        copy.restore()
    note(f"{kind} of {names}: {told}")
    assert told or excused, f"{kind} of {names} was not found"
    return bool(told)


@pytest.mark.parametrize("kind", BEFORE_THE_CLOSE)
@settings(max_examples=4, **SETTINGS)
@given(data=st.data())
def test_any_change_of_a_campaign_under_way_is_found_or_what_a_crash_leaves(
    under_way: Copy, kind: str, data: st.DataObject
) -> None:
    """A change of this kind before the close: found, unless a crash could have left the very same."""
    found_under_way(under_way, kind, data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BEFORE_THE_CLOSE)
@settings(max_examples=200, **SETTINGS)
@given(data=st.data())
def test_any_change_of_a_campaign_under_way_many_times(under_way: Copy, kind: str, data: st.DataObject) -> None:
    """200 changes of this kind before the close: found, unless a crash could have left the very same."""
    found_under_way(under_way, kind, data)


# -- what does not count, and what cannot be found


@pytest.mark.parametrize("name", ["journal.jsonl", "harness/tiny.py", "runs/T/Load/1-one/stdout.txt"])
def test_modes_and_hard_links_do_not_count(copy: Copy, tmp_path: Path, name: str) -> None:
    """Another mode or a second name for the same bytes is no change: git and archives do not keep them."""
    path = copy.folder / name
    path.chmod(0o755)
    os.link(path, tmp_path / "second")
    assert problems(copy.folder) == []
    path.chmod(0o644)
    (tmp_path / "second").unlink()


def remade_manifest(copy: Copy) -> None:
    store = Store(copy.folder)
    from runner.close import manifest_digests

    store.manifest_path.write_text(manifest_text(manifest_digests(store)))


def test_who_rewrites_journal_and_manifest_consistently_is_not_found(copy: Copy) -> None:
    """Load before a block rewritten with chain and manifest: verify cannot find it, and its page says so."""
    events = [json.loads(line) for line in copy.lines]
    next(event for event in events if event["event"] == "block-start")["idle_load"] = (
        0.0123  # never what was found: the host may well have been idle
    )
    copy.write(JOURNAL, rechained(events))
    assert any(MANIFEST in text for text in problems(copy.folder))
    remade_manifest(copy)
    told = problems(copy.folder)
    copy.restore()
    assert told == []


# -- the book


def refused(folder: Path) -> str:
    with pytest.raises(DataError) as raised:
        rendering.verified(Store(folder))
    return str(raised.value)


@pytest.mark.parametrize("kind", ["one_bit", "a_file_more", "lines_cut_off"])
@settings(max_examples=2, **SETTINGS)
@given(data=st.data())
def test_the_book_is_not_built_from_a_changed_campaign(copy: Copy, kind: str, data: st.DataObject) -> None:
    """What renders a campaign's pages verifies it first, and refuses with the name of the file."""
    try:
        names = ANY[kind](copy, data)
        told = refused(copy.folder)
    finally:
        copy.restore()
    assert any(name in told for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ANY)
@settings(max_examples=10, **SETTINGS)
@given(data=st.data())
def test_the_book_is_not_built_from_any_changed_campaign(copy: Copy, kind: str, data: st.DataObject) -> None:
    """Ten changes of this kind: what renders a campaign's pages refuses each with the name of a file that was touched."""
    try:
        names = ANY[kind](copy, data)
        told = refused(copy.folder)
    finally:
        copy.restore()
    assert any(name in told for name in names)


def test_render_refuses_and_writes_no_page(copy: Copy) -> None:
    """`python -m analysis render` of a campaign with one changed bit: exit status 1, the file named, no page written."""
    name = "runs/T/Load/2-one/stderr.txt"
    copy.write(name, b"x")
    campaign = Campaign(copy.folder, copy.folder, copy.folder)
    done = campaign.python("-m", "analysis", "render", str(copy.folder))
    copy.restore()
    assert done.returncode == 1
    assert name in done.stderr
    assert not (rendering.PAGES / copy.folder.name).exists()


def test_a_campaign_without_its_plan_does_not_leave_the_book_unseen(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """plan.toml removed from a campaign below data/: the build stops and names it, instead of building without it."""
    copied = campaign.copy(tmp_path)
    monkeypatch.setattr(rendering, "DATA", tmp_path)
    assert [store.folder for store in rendering.campaigns()] == [copied.folder]
    (copied.folder / "plan.toml").unlink()
    with pytest.raises(DataError, match=r"plan\.toml: missing"):
        rendering.campaigns()
