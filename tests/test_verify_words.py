"""All that `verify` says of a change, word by word and nothing more; what it says of what is no change."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.errors import Refused
from runner.files import file_sha256
from runner.ledger import fold
from runner.store import Store
from runner.verify import Report, assert_as_recorded, verify
from tests.campaigns import Campaign, rechained

RUN = "runs/T/Load/1-one"
Change = Callable[[Campaign], None]


@pytest.fixture
def copy(closed: Campaign, tmp_path: Path) -> Campaign:
    return closed.copy(tmp_path)


def report_of(campaign: Campaign) -> Report:
    return verify(Store.open(campaign.folder))


def resigned(campaign: Campaign, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the journal's events and chain them anew."""
    events = campaign.events()
    change(events)
    (campaign.folder / "journal.jsonl").write_bytes(rechained(events))


def reopened(campaign: Campaign) -> None:
    """As it was before its close."""
    resigned(campaign, lambda events: events.pop())
    (campaign.folder / "MANIFEST.sha256").unlink()


def added(campaign: Campaign, name: str, data: bytes = b"") -> None:
    path = campaign.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(path.read_bytes() + data if path.exists() else data)


def ends_of(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The end of the run in RUN."""
    return next(
        event
        for event in events
        if event["event"] == "run-end"
        and (event["labels"]["case"], event["labels"]["block"], event["labels"]["arm"]) == ("Load", 1, "one")
    )


def rewritten(campaign: Campaign, name: str, data: bytes) -> None:
    """A file of the run, which the journal is made to agree with."""
    path = campaign.folder / RUN / name
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    resigned(campaign, lambda events: ends_of(events)["files"].update({name: digest}))


def recorded(campaign: Campaign, /, **fields: Any) -> None:
    record = json.loads((campaign.folder / RUN / "run.json").read_bytes())
    if "labels" in fields:
        fields["labels"] = record["labels"] | fields["labels"]
    rewritten(campaign, "run.json", json.dumps(record | fields).encode())


def test_a_whole_campaign(closed: Campaign) -> None:
    files = sum(path.is_file() for path in closed.folder.rglob("*"))
    assert report_of(closed) == Report([], [], "closed", file_sha256(closed.folder / "seal.json"), files, {})


NOTHING = "a file that belongs to nothing here"
FOREIGN = [f"{{0}}/{name}: {NOTHING}" for name in ("run.json", "stderr.txt", "stdout.txt")]
CHANGES: dict[str, tuple[Change, list[str]]] = {
    "a file of a run is gone": (lambda c: (c.folder / RUN / "stderr.txt").unlink(), [f"{RUN}/stderr.txt: missing"]),
    "a run is gone": (lambda c: shutil.rmtree(c.folder / RUN), [f"{RUN}: the folder of this run is missing"]),
    "a file more": (lambda c: added(c, "added.txt"), [f"added.txt: {NOTHING}"]),
    "a file more in a run": (lambda c: added(c, f"{RUN}/notes.txt"), [f"{RUN}/notes.txt: {NOTHING}"]),
    "a hidden one that ends as what is under way": (
        lambda c: added(c, ".fixture-x.partial"),
        [f".fixture-x.partial: {NOTHING}"],
    ),
    "a run more": (
        lambda c: shutil.copytree(c.folder / RUN, c.folder / "runs/T/Load/9-one"),  # type: ignore[arg-type, return-value]
        [
            "runs/T/Load/9-one: a run that the journal does not know",
            *(text.format("runs/T/Load/9-one") for text in FOREIGN),
        ],
    ),
    "a run that looks as if it were under way": (
        lambda c: shutil.copytree(c.folder / RUN, c.folder / f"{RUN}.partial"),  # type: ignore[arg-type, return-value]
        [f"{RUN}.partial: a run that is under way", *(text.format(f"{RUN}.partial") for text in FOREIGN)],
    ),
    "an empty folder": (
        lambda c: (c.folder / "runs/T/Load/empty").mkdir(),
        ["runs/T/Load/empty: a run that the journal does not know", "runs/T/Load/empty: an empty folder"],
    ),
    "a link": (lambda c: (c.folder / "link").symlink_to("plan.toml"), ["link: a link"]),
    "no aggregate": (lambda c: (c.folder / "metrics.csv").unlink(), ["metrics.csv: missing"]),
    "another aggregate": (lambda c: added(c, "metrics.csv", b"x"), ["metrics.csv: not what the raw logs hold"]),
    "no manifest": (lambda c: (c.folder / "MANIFEST.sha256").unlink(), ["MANIFEST.sha256: missing"]),
    "a torn line after the close": (
        lambda c: added(c, "journal.jsonl", b'{"nu'),
        ["journal.jsonl:55: torn last line"],
    ),
    "no close": (
        lambda c: resigned(c, lambda events: events.pop()),
        ["journal.jsonl:54: no close, and MANIFEST.sha256 is there: its end was cut off"],
    ),
    "a record with other labels": (
        lambda c: recorded(c, labels={"arm": "two"}),
        [
            f"{RUN}/run.json: labels {{'phase': 'T', 'case': 'Load', 'arm': 'two', 'block': 1, 'position': 0, "
            "'sequence': 0} in the folder of phase T, case Load, block 1, arm one"
        ],
    ),
    "a record with another outcome": (
        lambda c: recorded(c, outcome="failed"),
        [f"{RUN}/run.json: outcome 'failed', the journal says 'ok'"],
    ),
    "a record of another seal": (
        lambda c: recorded(c, seal="0" * 64),
        [f"{RUN}/run.json: a record of another seal or campaign"],
    ),
    "a record of another campaign": (
        lambda c: recorded(c, campaign="other"),
        [f"{RUN}/run.json: a record of another seal or campaign"],
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_is_said_of_a_change(copy: Campaign, kind: str) -> None:
    change, expected = CHANGES[kind]
    change(copy)
    report = report_of(copy)
    assert report.problems == expected
    assert report.notes == []
    assert report.files == sum(path.is_file() or path.is_symlink() for path in copy.folder.rglob("*"))


@pytest.mark.parametrize("name", [f"{RUN}/stdout.txt", f"{RUN}/run.json"])
def test_what_is_said_of_changed_bytes(copy: Campaign, name: str) -> None:
    path = copy.folder / name
    before = file_sha256(path)
    path.write_bytes(path.read_bytes() + b"\n")
    assert report_of(copy).problems == [f"{name}: changed (journal {before[:12]}, found {file_sha256(path)[:12]})"]


def test_what_is_said_of_a_file_without_a_digest(copy: Campaign) -> None:
    resigned(copy, lambda events: ends_of(events)["files"].pop("stderr.txt"))
    found = file_sha256(copy.folder / RUN / "stderr.txt")[:12]
    assert report_of(copy).problems == [
        f"{RUN}/stderr.txt: changed (journal , found {found})",
        f"{RUN}/stderr.txt: {NOTHING}",
    ]


def test_what_is_said_of_a_changed_plan(copy: Campaign) -> None:
    before = file_sha256(copy.folder / "plan.toml")
    added(copy, "plan.toml", b"# \n")
    after = file_sha256(copy.folder / "plan.toml")
    assert report_of(copy).problems == [f"plan.toml: changed since the seal (sealed {before[:12]}, found {after[:12]})"]


def test_what_is_said_of_records_that_are_gone(copy: Campaign) -> None:
    (copy.folder / "journal.jsonl").unlink()
    problems = report_of(copy).problems
    digest = file_sha256(copy.folder / "seal.json")
    assert problems[:2] == ["journal.jsonl: missing", f"seal.json: its digest is {digest}, journal.jsonl names none"]
    assert sum("a run that the journal does not know" in text for text in problems) == 18
    (copy.folder / "seal.json").unlink()
    report = report_of(copy)
    assert report.problems == [
        f"{name}: recorded, but seal.json and journal.jsonl are gone"
        for name in ("runs", "metrics.csv", "MANIFEST.sha256")
    ]
    assert (report.state, report.notes) == ("draft", [])
    for name in ("runs", "metrics.csv", "MANIFEST.sha256"):
        path = copy.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    report = report_of(copy)
    assert (report.problems, report.notes) == ([], ["not sealed yet: there is nothing to verify"])


def test_what_is_said_of_a_seal_in_another_form(copy: Campaign) -> None:
    (copy.folder / "seal.json").write_text("{}")
    assert report_of(copy).problems[-1] == (
        "seal.json or journal.jsonl: not in the form that the runner writes: KeyError('files')"
    )


def test_what_is_said_of_a_seal_that_is_gone(copy: Campaign) -> None:
    (copy.folder / "seal.json").unlink()
    store = Store.open(copy.folder)
    assert report_of(copy).problems == [
        f"{store.seal_path}: this campaign is not sealed\n  what to do: python -m runner seal {store.shown()}"
    ]


def test_what_is_said_of_labels_that_are_not_complete(copy: Campaign) -> None:
    rewritten(copy, "run.json", b'{"labels": {}}')
    (problem,) = report_of(copy).problems
    assert problem.startswith(f"{RUN}/run.json: labels are not complete\n")


def test_what_is_said_of_orders_that_are_another_plans(copy: Campaign) -> None:
    path = copy.folder / "orders.json"
    document = json.loads(path.read_bytes())
    document["runs"][0]["arm"], document["runs"][1]["arm"] = document["runs"][1]["arm"], document["runs"][0]["arm"]
    path.write_text(json.dumps(document))
    seal = copy.folder / "seal.json"
    content = json.loads(seal.read_bytes())
    content["files"]["orders.json"] = file_sha256(path)
    seal.write_text(json.dumps(content))
    resigned(copy, lambda events: events.__setitem__(slice(None), [events[0] | {"seal": file_sha256(seal)}]))
    shutil.rmtree(copy.folder / "runs")
    for name in ("metrics.csv", "MANIFEST.sha256"):
        (copy.folder / name).unlink()
    report = report_of(copy)
    assert (report.state, report.problems) == ("sealed", ["orders.json: not what plan.toml and its seeds expand to"])


def test_what_is_said_of_an_amendment_that_is_on_its_way(copy: Campaign) -> None:
    reopened(copy)
    resigned(copy, lambda events: events.append({"event": "amended", "amendment": 1, "seal": "", "files": {}}))
    (copy.folder / "protocol" / "1.partial").mkdir()
    added(copy, "protocol/1.partial/plan.toml")
    (problem,) = report_of(copy).problems
    assert problem.startswith(
        "protocol/1.partial: amendment 1 is in the journal and not all of its files are in their "
    )


# -- what others executed


def test_what_is_said_of_published_figures(copy: Campaign) -> None:
    for path in copy.folder.iterdir():
        if path.name not in ("plan.toml", "trees"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    added(copy, "published.toml", b"[")
    (copy.folder / "empty").mkdir()
    report = report_of(copy)
    first, second = report.problems
    assert first == "empty: an empty folder"
    assert second.startswith("published.toml: not valid TOML: ")
    assert (report.state, report.files) == ("figures-only", 3)
    assert report.notes == ["published figures without raw logs: there is nothing to recompute"]


def test_what_is_said_of_a_record_of_adoption_in_another_form(copy: Campaign) -> None:
    (copy.folder / "seal.json").unlink()
    added(copy, "adoption.json", b"{}")
    assert report_of(copy).problems == [
        "adoption.json or journal.jsonl: not in the form that the runner writes: KeyError('campaign')"
    ]


# -- before the close


def test_what_is_said_while_a_campaign_is_under_way(copy: Campaign) -> None:
    reopened(copy)
    sealed = file_sha256(copy.folder / "seal.json")
    files = sum(path.is_file() for path in copy.folder.rglob("*"))
    assert report_of(copy) == Report([], [], "running", sealed, files, {})
    added(copy, "journal.jsonl", b'{"nu')
    added(copy, ".fixture-x.partial")
    report = report_of(copy)
    assert report.problems == []
    assert report.notes == ["journal.jsonl:54: torn last line; the next session cuts it off"]
    added(copy, "x.partial")
    assert report_of(copy).problems == [f"x.partial: {NOTHING}"]


def test_what_a_run_under_way_has_written_is_its_own(copy: Campaign) -> None:
    reopened(copy)
    events = copy.events()
    end = next(i for i in range(len(events) - 1, 0, -1) if events[i]["event"] == "run-end")
    labels = events[end]["labels"]
    folder = copy.run_folder(labels)
    resigned(copy, lambda found: found.__delitem__(slice(end, None)))
    (copy.folder / "metrics.csv").unlink()
    assert report_of(copy).problems == []  # whole, and not in the journal yet
    folder.rename(folder.with_name(folder.name + ".partial"))
    assert report_of(copy).problems == []
    shutil.copytree(folder.with_name(folder.name + ".partial"), folder)
    assert report_of(copy).problems == []


def test_rows_that_are_not_there_yet(copy: Campaign) -> None:
    reopened(copy)
    path = copy.folder / "metrics.csv"
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(rows[:-2]))
    assert report_of(copy).problems == []
    path.write_bytes(b"".join([*rows[:-3], rows[-1]]))
    assert report_of(copy).problems == ["metrics.csv: not what the raw logs hold"]


def test_sealed_again_before_the_first_run_is_noted(copy: Campaign) -> None:
    reopened(copy)
    resigned(copy, lambda events: events.insert(1, dict(events[0])))
    report = report_of(copy)
    assert (report.problems, report.notes) == ([], ["sealed 2 times before the first run"])


@pytest.mark.parametrize("name", ["stdout.txt", "stderr.txt"])
def test_paths_of_the_host_in_raw_logs_are_noted(copy: Campaign, name: str) -> None:
    reopened(copy)
    data = (copy.folder / RUN / name).read_bytes()
    rewritten(copy, name, data + b"loaded /home/user/module.py\n")
    report = report_of(copy)
    assert report.problems == []
    (text,) = report.notes
    assert text.startswith(f"{RUN}/{name}") and "/home/user/module.py" in text


def test_warnings_of_the_seal_are_noted(copy: Campaign) -> None:
    reopened(copy)
    path = copy.folder / "seal.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"warnings": ["a tree without a lock"]}))
    digest = file_sha256(path)

    def change(events: list[dict[str, Any]]) -> None:
        for event in events:
            event |= {"seal": digest} if event["event"] == "sealed" else {}

    resigned(copy, change)
    report = report_of(copy)
    assert report.notes[0] == "seal.json: warning: a tree without a lock"


# -- before it is closed


def test_a_folder_that_is_not_as_recorded_is_not_closed(copy: Campaign) -> None:
    reopened(copy)
    store = Store.open(copy.folder)
    events = store.journal().events
    state = fold(store.orders(), events)
    assert_as_recorded(store, store.plan(), state, events)
    for number in range(25):
        added(copy, f"x{number:02}")
    with pytest.raises(Refused) as raised:
        assert_as_recorded(store, store.plan(), state, events)
    error = raised.value
    assert (error.where, error.problem) == (str(store.folder), "not closed: something here is not as it was recorded")
    assert error.found == "\n    ".join(f"x{number:02}: {NOTHING}" for number in range(20))
    assert error.remedy == (
        "restore the files that were changed, move what does not belong here to another place, and run again"
    )
    for number in range(25):
        (copy.folder / f"x{number:02}").unlink()
    (copy.folder / "link").symlink_to("plan.toml")
    with pytest.raises(Refused, match="found: link: a link\n"):
        assert_as_recorded(store, store.plan(), state, events)
    (copy.folder / "link").unlink()
    (copy.folder / RUN / "stderr.txt").unlink()
    with pytest.raises(Refused, match=f"found: {RUN}/stderr.txt: missing\n"):
        assert_as_recorded(store, store.plan(), state, events)
