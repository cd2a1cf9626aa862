"""A disk that fills up, and one that may not be written to, on real file systems of the test's own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import campaigns
from tests.campaigns import Campaign
from tests.faults.filler import fill
from tests.faults.left import nothing_left

MB = 1 << 20
Mount = Callable[..., Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mount a file system on a new folder; gone at the end."""
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    mounted: list[Path] = []

    def at(name: str, *options: str) -> Path:
        place = tmp_path / name
        place.mkdir()
        done = subprocess.run(["mount", *options, str(place)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield at
    for place in reversed(mounted):
        subprocess.run(["umount", str(place)], check=True)


def small(mount: Mount, cache: Path, *, faults: str = "", blocks: int = 2, size: int = 8 * MB) -> Campaign:
    """A sealed campaign on a disk of its own; what its processes write down about themselves is elsewhere."""
    disk = mount("disk", "-t", "tmpfs", "-o", f"size={size}", "small")
    campaign = campaigns.write(
        disk, cache, cases=campaigns.CASES[:1], blocks=blocks, faults=faults, replacement_blocks=100,
        environment={"TRACE": str(disk.parent / "tiny.trace")},
    )  # fmt: skip
    campaign.trace_path = disk.parent / "tiny.trace"
    campaign.does("seal")
    return campaign


def says_so(done: subprocess.CompletedProcess[str], campaign: Campaign) -> None:
    """A clear message: which file, what happened, what to do; exit status 1."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"^error: {re.escape(str(campaign.folder))}[^\n]*: \S", done.stderr, re.M), done.stderr
    assert re.search("No space left on device|KiB left on this disk", done.stderr), done.stderr
    assert "what to do: make room on the disk" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def goes_on(campaign: Campaign, blocks: int) -> None:
    """With room again the campaign comes to its end, whole."""
    done = campaign.call("run")
    assert done.returncode == 0, done.stderr
    good = [e for e in campaign.events("run-end") if e["outcome"] == "ok"]
    assert len(good) >= 2 * blocks
    assert campaign.events()[-1]["event"] == "close"
    assert not list(campaign.folder.rglob("*.partial"))
    assert campaign.does("verify").stdout.rstrip().endswith("no problems")


def test_a_full_disk_is_seen_before_a_block(mount: Mount, cache: Path) -> None:
    """The disk is full when a block is about to begin: refused before it, nothing started; with room again it ends well."""
    campaign = small(mount, cache)
    filler = campaign.folder.parent / "filler"
    with nothing_left(campaign):
        with filler.open("wb") as file:
            free = os.statvfs(filler).f_bavail * os.statvfs(filler).f_frsize
            file.write(b"\1" * (free - MB // 2))
        says_so(campaign.call("run"), campaign)
        assert campaign.trace() == [] and campaign.events("block-start") == []
        filler.unlink()
        goes_on(campaign, 2)
        assert campaign.events("block-void") == []


def test_a_truncated_output_never_counts(mount: Mount, cache: Path) -> None:
    """A process that ignores write errors fills its own disk, and ends with 0: no result, interrupted; the block is replaced."""
    campaign = small(mount, cache, faults="heedless:one:1")
    with nothing_left(campaign):
        done = campaign.call("run")
        says_so(done, campaign)
        assert "may be cut off" in done.stderr
        assert [event["outcome"] for event in campaign.events("run-end") if event["labels"]["arm"] == "one"] == []
        subprocess.run(["mount", "-o", f"remount,size={64 * MB}", str(campaign.folder.parent)], check=True)
        goes_on(campaign, 2)
        [cut] = [e for e in campaign.orders() if (e["arm"], e["block"]) == ("one", 1)]
        assert campaign.record(cut)["outcome"] == "interrupted"
        [replacement] = campaign.events("replacement")
        assert replacement["replaces"] == 1


def test_a_failure_on_a_disk_that_it_filled_is_a_failure(mount: Mount, cache: Path) -> None:
    """A process fills its own disk and ends with a failure: recorded as failed in room kept free for it, and never repeated."""
    campaign = small(mount, cache, faults="heedless-exit:one:1")
    with nothing_left(campaign):
        says_so(campaign.call("run"), campaign)
        [filled] = [e for e in campaign.orders() if (e["arm"], e["block"]) == ("one", 1)]
        assert campaign.record(filled)["outcome"] == "failed"
        assert campaign.record(filled)["reason"].startswith("exit status 1")
        subprocess.run(["mount", "-o", f"remount,size={64 * MB}", str(campaign.folder.parent)], check=True)
        assert campaign.call("run").returncode == 1
        assert campaign.record(filled)["outcome"] == "failed"
        assert [e["labels"]["block"] for e in campaign.events("run-start") if e["labels"]["arm"] == "one"] == [1, 2]
        assert campaign.does("verify").stdout.rstrip().endswith("no problems")


def filled_at(campaign: Campaign, number: int) -> subprocess.CompletedProcess[str]:
    filler = campaign.folder.parent / "filler"
    done = campaign.python("-m", "tests.faults.filler", str(number), str(filler), str(campaign.folder))
    filler.unlink(missing_ok=True)
    return done


def full_at(campaign: Campaign, numbers: Iterator[int], blocks: int) -> int:
    """Fill the disk at these steps, a session each, until one comes to its end; how many times it was full."""
    full = 0
    for number in numbers:
        done = filled_at(campaign, number)
        if done.returncode == 0:
            break
        says_so(done, campaign)
        full += 1
    goes_on(campaign, blocks)
    return full


def test_a_disk_that_fills_up_at_chosen_writes(mount: Mount, cache: Path) -> None:
    """The disk is full after the 1st, 4th, 9th ... durable step of a session: a clear message each time, nothing half written."""
    campaign = small(mount, cache)
    with nothing_left(campaign):
        assert full_at(campaign, iter((1, 3, 6, 9, 11, 13, 15)), 2) == 7


@pytest.mark.slow
def test_a_disk_that_fills_up_at_every_write(mount: Mount, cache: Path) -> None:
    """The same after every durable step of a session, one after the other."""
    campaign = small(mount, cache)
    with nothing_left(campaign):
        assert full_at(campaign, iter(range(1, 200)), 2) > 30


def test_a_disk_that_fills_up_while_sealing(mount: Mount, cache: Path) -> None:
    """The disk is full when the seal is written: a clear message, no seal; with room again it is sealed."""
    campaign = small(mount, cache)
    copy = campaigns.write(campaign.folder.parent, cache, name="other")
    filler = campaign.folder.parent / "filler"
    fill(filler)
    done = copy.call("seal")
    says_so(done, copy)
    assert not (copy.folder / "seal.json").exists()
    filler.unlink()
    copy.does("seal")


@pytest.mark.parametrize("command", ["run", "seal", "close"])
def test_a_read_only_folder(tmp_path: Path, mount: Mount, cache: Path, command: str) -> None:
    """The campaign's folder is on a read-only file system: what writes is refused with the remedy, what reads still works."""
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2)
    if command != "seal":
        campaign.does("seal")
    before = {path: path.read_bytes() for path in campaign.folder.rglob("*") if path.is_file()}
    place = mount("readonly", "--bind", "-o", "ro", str(tmp_path))
    frozen = Campaign(place / "tiny", cache, campaign.trace_path)
    with nothing_left(frozen):
        done = frozen.call(command)
        assert done.returncode == 1, done.stderr
        assert re.search(rf"^error: {re.escape(str(place))}/tiny[^\n]*", done.stderr, re.M), done.stderr
        assert "Read-only file system" in done.stderr
        assert "what to do: the file system is mounted read-only: mount it for writing" in done.stderr
        assert "Traceback" not in done.stderr
        assert campaign.trace() == []
        assert {path: path.read_bytes() for path in campaign.folder.rglob("*") if path.is_file()} == before
        if command == "run":
            assert frozen.call("status").returncode == frozen.call("verify").returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere: the read-only mount is tested instead")
def test_a_folder_without_the_right_to_write(tmp_path: Path, cache: Path) -> None:
    """The campaign's folder may not be written by this user: refused with the remedy."""
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2)
    campaign.does("seal")
    for path in (campaign.folder, *campaign.folder.iterdir()):
        path.chmod(0o555)
    try:
        done = campaign.call("run")
    finally:
        campaign.folder.chmod(0o755)
    assert done.returncode == 1
    assert "Permission denied" in done.stderr and "what to do: give this user the right" in done.stderr
