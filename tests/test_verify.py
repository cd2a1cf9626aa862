"""Tampering: every change of a closed campaign is found, and the file named. Damage is done to copies."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.store import Store
from runner.verify import Report, verify
from tests.campaigns import PROJECT, Campaign, rechained

BUNDLED = sorted(path.parent for path in (PROJECT / "data").glob("pgstack-*/MANIFEST.sha256"))


def problems(folder: Path) -> list[str]:
    return verify(Store.open(folder)).problems


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flip(path: Path, generator: random.Random) -> tuple[int, int]:
    """Change one byte of a file, at a place and by a bit pattern of the generator's."""
    data = bytearray(path.read_bytes())
    place, change = generator.randrange(len(data)), generator.randrange(1, 256)
    data[place] ^= change
    path.write_bytes(bytes(data))
    return place, change


def flip_everywhere(folder: Path, seed: int, runs: int | None = None) -> int:
    """Change one byte of each file in turn, of so many of the runs' files where there are more; each change must be found
    and the file named."""
    generator = random.Random(seed)
    paths = files_of(folder)
    if runs is not None:
        of_runs = [path for path in paths if folder / "runs" in path.parents]
        paths = [path for path in paths if path not in of_runs] + generator.sample(of_runs, runs)
    for path in paths:
        before = path.read_bytes()
        name = path.relative_to(folder).as_posix()
        if not before:
            path.write_bytes(b"x")  # an empty file has no byte to change
            place: object = "a byte more"
        else:
            place = flip(path, generator)
        found = _found(folder, name)
        path.write_bytes(before)
        assert any(name in text for text in found), f"{name} at {place}, seed {seed}: {found}"
    return len(paths)


def _found(folder: Path, name: str) -> list[str]:
    try:
        return problems(folder)
    except Exception as error:
        return pytest.fail(f"{name}: verify raised {error!r}")


@pytest.fixture
def copy(closed: Campaign, tmp_path: Path) -> Campaign:
    return closed.copy(tmp_path)


def test_holds_before_anything_is_changed(copy: Campaign) -> None:
    report = verify(Store.open(copy.folder))
    assert (report.problems, report.state, report.files) == ([], "closed", len(files_of(copy.folder)))
    assert report.deviations == {}


def test_one_byte_of_any_file(copy: Campaign) -> None:
    assert flip_everywhere(copy.folder, seed=1) > 80
    assert problems(copy.folder) == []


@pytest.mark.slow
def test_one_byte_of_any_file_many_times(copy: Campaign) -> None:
    for seed in range(10, 40):
        flip_everywhere(copy.folder, seed)


@pytest.mark.parametrize("name", ["journal.jsonl", "seal.json", "MANIFEST.sha256", "metrics.csv", "plan.toml"])
def test_any_byte_of_the_files_that_hold_the_others(copy: Campaign, name: str) -> None:
    """These are parsed before they are compared, so that a change can break more than a digest."""
    generator, path = random.Random(name), copy.folder / name
    before = path.read_bytes()
    # The last line of the journal has no line after it to vouch for it.
    last = before.rstrip(b"\n").rfind(b"\n") + 1
    places = generator.choices(range(len(before)), k=25) + generator.choices(range(last, len(before)), k=15)
    for place in places:
        data = bytearray(before)
        data[place] ^= generator.choice([1, 2, 4, 8, 16, 32, 64, 128, 0x20, 0x07])
        path.write_bytes(bytes(data))
        found = _found(copy.folder, name)
        assert any(name in text for text in found), (place, bytes(data[place - 5 : place + 5]), found)


def test_the_command_names_the_file_and_fails(copy: Campaign) -> None:
    raw = copy.run_folder(copy.orders()[3]) / "stdout.txt"
    raw.write_bytes(raw.read_bytes().replace(b"ns/op", b"ns/oq", 1))
    done = copy.call("verify")
    assert done.returncode == 1
    assert f"problem: {raw.relative_to(copy.folder).as_posix()}: changed" in done.stdout
    done = copy.call("verify", "--json")
    assert done.returncode == 1
    assert raw.relative_to(copy.folder).as_posix() in json.loads(done.stdout)["problems"][0]


def test_truncated_files(copy: Campaign) -> None:
    for path in files_of(copy.folder):
        before = path.read_bytes()
        name = path.relative_to(copy.folder).as_posix()
        for size in {0, len(before) // 2, max(0, len(before) - 1)} - {len(before)}:
            path.write_bytes(before[:size])
            found = _found(copy.folder, name)
            assert any(name in text for text in found), (name, size, found)
        path.write_bytes(before)
    assert problems(copy.folder) == []


def test_removed_files(copy: Campaign) -> None:
    for path in files_of(copy.folder):
        name = path.relative_to(copy.folder).as_posix()
        before = path.read_bytes()
        path.unlink()
        if name == "plan.toml":
            done = copy.call("verify")
            assert (done.returncode, "error: plan.toml: missing" in done.stderr) == (1, True)
        else:
            found = _found(copy.folder, name)
            assert any(name in text for text in found), (name, found)
        path.write_bytes(before)
    assert problems(copy.folder) == []


@pytest.mark.parametrize(
    "name",
    [
        "added.txt",
        ".hidden",
        "harness/other.py",
        "harness/__pycache__/tiny.cpython-311.pyc",
        "as-run/runner/more.py",
        "trees/other.txt",
        "protocol/plan-0.toml",
        "runs/T/Load/1-one/latency.hlog",
        "runs/T/Load/notes.txt",
        "runs/T/Load/4-one/stdout.txt",
        "runs/T/Load/1-one.partial/stdout.txt",
    ],
)
def test_added_files(copy: Campaign, name: str) -> None:
    path = copy.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    assert any(name in text for text in problems(copy.folder))


def test_a_link_in_a_files_place(copy: Campaign, tmp_path: Path) -> None:
    path = copy.run_folder(copy.orders()[0]) / "stdout.txt"
    elsewhere = path.rename(tmp_path / "stdout.txt")
    path.symlink_to(elsewhere)
    name = path.relative_to(copy.folder).as_posix()
    assert any(f"{name}: a link" in text for text in problems(copy.folder))


@pytest.mark.parametrize(
    "name", ["metrics.csv", "orders.json", "harness/tiny.py", "runs/T/Load/1-one", "runs/T/Load/1-one/run.json"]
)
def test_renamed_files(copy: Campaign, name: str) -> None:
    path = copy.folder / name
    path.rename(path.with_name("renamed"))
    found = problems(copy.folder)
    assert any(name in text for text in found)
    assert any("renamed" in text for text in found)


SWAPS = [
    ("runs/T/Load/1-one/stdout.txt", "runs/T/Load/1-two/stdout.txt"),
    ("runs/T/Load/1-one/run.json", "runs/T/Load/2-one/run.json"),
    ("runs/T/Load/1-one", "runs/T/Load/1-two"),
    ("runs/T/Load", "runs/T/Scan%2Fserial"),
    ("orders.json", "host.json"),
    ("harness/tiny.py", "as-run/runner/plan.py"),
]


@pytest.mark.parametrize(("one", "other"), SWAPS)
def test_swapped_files(copy: Campaign, one: str, other: str) -> None:
    (copy.folder / one).rename(copy.folder / "aside")
    (copy.folder / other).rename(copy.folder / one)
    (copy.folder / "aside").rename(copy.folder / other)
    found = problems(copy.folder)
    assert any(one in text for text in found), found
    assert any(other in text for text in found), found


def test_a_run_copied_from_another_block(copy: Campaign) -> None:
    runs = copy.folder / "runs" / "T" / "Load"
    shutil.rmtree(runs / "1-one")
    shutil.copytree(runs / "2-one", runs / "1-one")
    assert any("runs/T/Load/1-one/" in text for text in problems(copy.folder))


def resigned(campaign: Campaign, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the journal's events and write it anew with a chain that holds."""
    events = campaign.events()
    change(events)
    (campaign.folder / "journal.jsonl").write_bytes(rechained(events))


def test_a_copied_run_with_a_journal_that_agrees(copy: Campaign) -> None:
    """The folder holds another run's record, and even the journal was written to match: the labels tell."""
    runs = copy.folder / "runs" / "T" / "Load"
    shutil.rmtree(runs / "1-one")
    shutil.copytree(runs / "2-one", runs / "1-one")

    def change(events: list[dict[str, Any]]) -> None:
        ends = {
            (e["labels"]["case"], e["labels"]["block"], e["labels"]["arm"]): e
            for e in events
            if e["event"] == "run-end"
        }
        ends["Load", 1, "one"]["files"] = ends["Load", 2, "one"]["files"]

    resigned(copy, change)
    assert any("runs/T/Load/1-one/run.json: labels" in text for text in problems(copy.folder))


def test_a_run_of_another_campaign_with_a_journal_that_agrees(copy: Campaign) -> None:
    path = copy.folder / "runs" / "T" / "Load" / "1-one" / "run.json"
    record = json.loads(path.read_bytes())
    record["campaign"], record["seal"] = "other", "0" * 64
    path.write_text(json.dumps(record))

    def change(events: list[dict[str, Any]]) -> None:
        end = next(e for e in events if e["event"] == "run-end" and e["labels"] == record["labels"])
        end["files"]["run.json"] = hashlib.sha256(path.read_bytes()).hexdigest()

    resigned(copy, change)
    assert any("a record of another seal or campaign" in text for text in problems(copy.folder))


# -- the journal


def lines(campaign: Campaign) -> list[bytes]:
    return (campaign.folder / "journal.jsonl").read_bytes().splitlines(keepends=True)


def damages(found: list[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    for number in range(len(found)):
        yield f"dropped {number}", found[:number] + found[number + 1 :]
        yield f"cut off after {number}", found[:number]
        yield f"torn at {number}", [*found[:number], found[number][: len(found[number]) // 2]]
        yield f"repeated {number}", [*found[: number + 1], *found[number:]]
        if number:
            yield f"swapped {number}", [*found[: number - 1], found[number], found[number - 1], *found[number + 1 :]]


def test_dropped_repeated_swapped_and_cut_off_journal_lines(copy: Campaign) -> None:
    tried = 0
    for what, damaged in damages(lines(copy)):
        (copy.folder / "journal.jsonl").write_bytes(b"".join(damaged))
        found = _found(copy.folder, what)
        assert any("journal.jsonl" in text for text in found), (what, found)
        tried += 1
    assert tried > 200


def test_a_journal_whose_end_and_manifest_are_gone_is_no_closed_campaign(copy: Campaign) -> None:
    (copy.folder / "journal.jsonl").write_bytes(b"".join(lines(copy)[:-1]))
    (copy.folder / "MANIFEST.sha256").unlink()
    assert verify(Store.open(copy.folder)).state == "running"


def test_a_torn_last_line_is_a_note_until_the_close(copy: Campaign) -> None:
    whole = lines(copy)
    journal = copy.folder / "journal.jsonl"
    journal.write_bytes(b"".join(whole) + b'{"number":')
    assert f"journal.jsonl:{len(whole) + 1}: torn last line" in problems(copy.folder)
    (copy.folder / "MANIFEST.sha256").unlink()
    journal.write_bytes(b"".join(whole[:-1]) + whole[-1][:40])
    report = verify(Store.open(copy.folder))
    assert (report.state, report.problems) == ("running", [])
    assert f"journal.jsonl:{len(whole)}: torn last line; the next session cuts it off" in report.notes


def test_journal_and_seal_gone(copy: Campaign) -> None:
    for name in ("journal.jsonl", "seal.json"):
        (copy.folder / name).unlink()
    assert any("seal.json and journal.jsonl are gone" in text for text in problems(copy.folder))


def test_a_dropped_run_in_a_journal_whose_chain_holds(copy: Campaign) -> None:
    resigned(copy, lambda events: events.remove(next(e for e in events if e["event"] == "run-end")))
    assert any("runs/T/Load/1-" in text and "the journal does not know" in text for text in problems(copy.folder))


def test_a_seal_made_later(copy: Campaign) -> None:
    seal = copy.folder / "seal.json"
    content = json.loads(seal.read_bytes())
    content["sealed"] = "2030-01-01T00:00:00.000+00:00"
    seal.write_text(json.dumps(content))
    digest = hashlib.sha256(seal.read_bytes()).hexdigest()
    resigned(copy, lambda events: events.insert(9, events[0] | {"seal": digest}))
    assert any("journal.jsonl:10: a seal made after the first run" in text for text in problems(copy.folder))


def test_lines_after_the_close(copy: Campaign) -> None:
    resigned(copy, lambda events: events.append({"time": "", "event": "session-start"}))
    assert any("lines after the close" in text for text in problems(copy.folder))


def test_rows_of_the_aggregate_while_a_campaign_is_under_way(copy: Campaign) -> None:
    """Its last rows may be missing then; a changed one is found all the same."""
    resigned(copy, lambda events: events.pop())
    (copy.folder / "MANIFEST.sha256").unlink()
    path = copy.folder / "metrics.csv"
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(rows[:-4]))
    assert problems(copy.folder) == []
    path.write_bytes(b"".join(rows[:3] + rows[4:]))
    assert any("metrics.csv" in text for text in problems(copy.folder))


def test_orders_that_the_plan_does_not_expand_to(copy: Campaign) -> None:
    """Consistently resealed orders still are not what plan and seeds give."""
    path = copy.folder / "orders.json"
    document = json.loads(path.read_bytes())
    runs = document["runs"]
    runs[0]["arm"], runs[1]["arm"] = runs[1]["arm"], runs[0]["arm"]
    path.write_text(json.dumps(document))
    seal = copy.folder / "seal.json"
    content = json.loads(seal.read_bytes())
    content["files"]["orders.json"] = hashlib.sha256(path.read_bytes()).hexdigest()
    seal.write_text(json.dumps(content))
    digest = hashlib.sha256(seal.read_bytes()).hexdigest()

    def change(events: list[dict[str, Any]]) -> None:
        events[:] = [events[0] | {"seal": digest}]

    resigned(copy, change)
    shutil.rmtree(copy.folder / "runs")
    for name in ("metrics.csv", "MANIFEST.sha256"):
        (copy.folder / name).unlink()
    assert problems(copy.folder) == ["orders.json: not what plan.toml and its seeds expand to"]


def test_what_the_product_is_today_is_told_and_no_problem(closed: Campaign, copy: Campaign, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in ("runner", "analysis", "tests/harness", "notebooks"):
        shutil.copytree(PROJECT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("runner/progress.py", "analysis/model.py", "tests/harness/tiny.py"):
        with (project / name).open("a") as file:
            file.write("# \n")
    copy.project = project
    done = copy.does("verify")
    for what, name in (
        ("runner", "runner/progress.py"),
        ("analysis", "analysis/model.py"),
        ("harness", "tests/harness/tiny.py"),
    ):
        assert f"deviation: {what} differs today from what was sealed: {name}\n" in done.stdout


# -- the bundled campaign


@pytest.mark.slow
@pytest.mark.skipif(not BUNDLED, reason="no closed bundled campaign below data/")
def test_one_byte_of_any_file_of_the_bundled_campaign(tmp_path: Path) -> None:
    folder = tmp_path / BUNDLED[-1].name
    shutil.copytree(BUNDLED[-1], folder)
    report: Report = verify(Store.open(folder))
    assert report.problems == []
    assert flip_everywhere(folder, seed=5, runs=120) > 150  # each takes a verification of the whole campaign


# -- its speed


def speed(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "benchmarks/verify.py", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False
    )


def test_the_benchmark_compares_with_sha256sum_and_fails_where_a_campaign_does_not_verify(copy: Campaign) -> None:
    done = speed("--repeats", "1", str(copy.folder))
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"seconds start-up \d+\.\d\d\nseconds tiny \d+\.\d\d, of which start-up \d+%\nratio tiny \d+\.\d\n", done.stdout
    )
    (copy.folder / "metrics.csv").write_bytes(b"")
    done = speed("--repeats", "1", str(copy.folder))
    assert done.returncode == 1
    assert "problem: metrics.csv" in done.stderr
