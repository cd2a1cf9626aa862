"""adopt at work: files taken in as they are, verified to the byte, refused where they do not fit, whole or not at all."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner import adoptfolder, seal
from runner.adopt import adopt, asked, summary
from runner.adoption import UNKNOWNS
from runner.adoptmaps import LABELS, parse
from runner.errors import BenchbookError, DataError, Refused, WrongUse
from runner.store import Store
from runner.verify import verify
from tests import gomodule
from tests.campaigns import PROJECT, Campaign
from tests.small import TEXT
from tests.test_adoption import GOOD

MAPS = ("old.txt:arm=old", "new.txt:arm=new")


def logs(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name, text in (files or {"old": GOOD * 3, "new": GOOD.replace("12.5", "9.5") * 3}).items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def take(source: Path, into: Path, *maps: str, ignore: tuple[str, ...] = (), contrasts: tuple[str, ...] = ()) -> Store:
    adopt(into, asked(source, maps or MAPS, ignore, contrasts))
    return Store.open(into)


def command(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runner", *argv], cwd=PROJECT, capture_output=True, text=True, check=False
    )


def everything(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_of_logs_becomes_a_campaign(tmp_path: Path) -> None:
    source, into = logs(tmp_path), tmp_path / "mine"
    done = command("adopt", str(source), "--into", str(into), "--map", MAPS[0], "--map", MAPS[1])
    assert (done.returncode, done.stderr) == (0, "")
    assert "phase A, arm old: 6 runs of 2 case(s) from 1 file(s), blocks unknown\n" in done.stdout
    assert "unknown: blocks, order, host, environment, engine, trees, preregistration\n" in done.stdout
    store = Store.open(into)
    assert done.stdout.splitlines()[-1] == seal.read(store).digest
    assert sorted(everything(into)) == [
        *(
            "MANIFEST.sha256",
            "adopted/new.txt",
            "adopted/old.txt",
            "adoption.json",
            "journal.jsonl",
            "metrics.csv",
            "plan.toml",
        )
    ]
    assert everything(into / "adopted") == everything(source)
    assert [event["event"] for event in store.journal().events] == ["adopted", "close"]
    assert command("verify", str(into)).stdout.startswith("adopted, 7 files, adoption ")
    checked = subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST.sha256"], cwd=into, check=False)
    assert checked.returncode == 0


def test_what_analysis_reads(tmp_path: Path) -> None:
    store = take(logs(tmp_path), tmp_path / "mine")
    adoption = store.adoption()
    assert (store.state(), store.brought, seal.read(store).adopted) == ("adopted", True, True)
    assert adoption.content == json.loads(store.adoption_path.read_text())
    assert (adoption.phases, adoption.paired("A"), len(adoption.runs)) == (("A",), False, 12)
    ledger = store.ledger()
    assert (ledger.counts()["ok"], ledger.outstanding(), ledger.closed is not None) == (12, [], True)
    assert list(ledger.ends) == [run.labels for run in adoption.runs]
    assert {"files", "trees", "engine", "analysis", "adopted"} <= seal.read(store).content.keys()
    rows = list(csv.DictReader(store.metrics_path.open()))
    assert [float(row["value"]) for row in rows] == [value.value for run in adoption.runs for value in run.values]
    assert {row["block"] for row in rows} == {"unknown"}


def test_an_executed_campaign_comes_back_the_same(closed: Campaign, tmp_path: Path) -> None:
    """Its raw logs, by their paths, and its own table: the same values under the same labels."""
    sent = tmp_path / "sent"
    shutil.copytree(closed.folder / "runs", sent / "runs")
    shutil.copyfile(closed.folder / "host.json", sent / "host.json")
    logs_only = tmp_path / "1" / "tiny"
    logs_only.mkdir(parents=True)
    shutil.copytree(closed.folder / "trees", logs_only / "trees")
    shutil.copyfile(closed.folder / "plan.toml", logs_only / "plan.toml")
    shutil.copytree(logs_only, tmp_path / "2" / "tiny")
    maps = ("runs/{phase}/{case}/{block}-{arm}/stdout.txt", "host.json:as=host")
    first = take(sent, logs_only, *maps, ignore=("stderr.txt", "run.json"))
    table = tmp_path / "table"
    table.mkdir()
    shutil.copyfile(closed.folder / "metrics.csv", table / "results.csv")
    second = take(table, tmp_path / "2" / "tiny", "results.csv")
    fields = ("phase", "case", "arm", "block", "repeat", "metric", "value")
    rows = [
        sorted(tuple(row[field] for field in fields) for row in csv.DictReader((folder / "metrics.csv").open()))
        for folder in (closed.folder, first.folder, second.folder)
    ]
    assert rows[0] == rows[1] == rows[2]
    assert first.adoption().paired("T") and not first.adoption().ordered("T")
    assert second.adoption().ordered("T")
    executed = Store.open(closed.folder).ledger()
    assert set(second.ledger().ends) == set(executed.ends)
    assert first.adoption().unknown == {"order", "environment", "preregistration"}
    assert second.adoption().unknown == {"host", "environment", "preregistration"}
    assert everything(first.folder)["host.json"] == everything(closed.folder)["host.json"]
    assert {entry["glob"] for entry in first.adoption().content["ignored"]} == {"stderr.txt", "run.json"}
    for store in (first, second):
        assert verify(store).problems == []


def test_whether_blocks_are_known_is_said_of_each_phase(tmp_path: Path) -> None:
    source = logs(tmp_path, **{f"{arm}-{n}": GOOD for arm in ("old", "new") for n in "12"}, old=GOOD, new=GOOD)
    maps = ("{arm}-{block}.txt:phase=P", *(f"{one},phase=U" for one in MAPS))
    adoption = adopt(tmp_path / "mine", asked(source, maps, (), ()))
    assert [line.rpartition(", ")[2] for line in summary(adoption) if line.startswith("phase P, arm")] == [
        "blocks known"
    ] * 2
    assert [line.rpartition(", ")[2] for line in summary(adoption) if line.startswith("phase U, arm")] == [
        "blocks unknown"
    ] * 2
    assert "blocks" in adoption.unknown


def test_a_tree_is_known_by_its_commit_or_a_lock_file_that_is_there(tmp_path: Path) -> None:
    """The name of a program tells nobody which program it was, and a lock file that did not come along tells nothing."""
    plan = take(logs(tmp_path), tmp_path / "first" / "mine").plan_path.read_text()
    start, end = plan.index("[trees.old]"), plan.index("[phases.A]")
    git = '[trees.{0}]\nkind = "git"\nwhat = "x"\nrepository = "https://example.org/r"\ncommit = "{1}"\n' + (
        'toolchain = ["go"]\nbuild = ["go"]\nbinaries = ["b"]\n'
    )
    programs = '[trees.{0}]\nkind = "programs"\nwhat = "x"\nprograms = ["gzip"]\n'
    packages = '[trees.{0}]\nkind = "packages"\nwhat = "x"\npython = "3.11"\nlock = "trees/lock.txt"\n'
    for number, (tree, lock, known) in enumerate(
        [
            (git.format("new", "0" * 40), False, True),
            (git.format("new", "undefined"), False, False),
            (programs.format("new"), False, False),
            (packages.format("new"), False, False),
            (packages.format("new"), True, True),
        ]
    ):
        folder = tmp_path / str(number) / "mine"
        (folder / "trees").mkdir(parents=True)
        if lock:
            (folder / "trees" / "lock.txt").write_text("")
        (folder / "plan.toml").write_text(plan[:start] + git.format("old", "1" * 40) + tree + plan[end:])
        assert ("trees" not in take(tmp_path / "logs", folder).adoption().unknown) == known, tree


def test_a_link_in_the_campaigns_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    made = take(logs(tmp_path), tmp_path / "first" / "small")
    shutil.copyfile(made.plan_path, folder / "plan.toml")
    (folder / "notes.txt").symlink_to("/etc/hostname")
    with pytest.raises(Refused, match=r"a link in the campaign's folder\n  found: notes.txt"):
        take(tmp_path / "logs", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", "plan.toml"]


def test_a_record_of_the_host_must_be_one(tmp_path: Path, closed: Campaign) -> None:
    source = logs(tmp_path)
    (source / "host.json").write_text("{}")
    with pytest.raises(DataError, match="not a record as=host"):
        take(source, tmp_path / "mine", *MAPS, "host.json:as=host")
    shutil.copyfile(closed.folder / "host.json", source / "host.json")
    shutil.copyfile(closed.folder / "host.json", source / "host2.json")
    with pytest.raises(WrongUse, match="more than one record as=host"):
        take(source, tmp_path / "mine", *MAPS, "host*.json:as=host")
    assert not (tmp_path / "mine").exists()


# Verifying


@pytest.fixture
def mine(tmp_path: Path) -> Store:
    return take(logs(tmp_path), tmp_path / "mine")


def test_one_changed_byte_of_any_file_is_found(mine: Store) -> None:
    assert verify(mine).problems == []
    generator = random.Random(5)
    for name, data in everything(mine.folder).items():
        for place in {0, len(data) - 1, *generator.choices(range(len(data)), k=25)}:
            changed = bytearray(data)
            changed[place] ^= generator.choice([1, 2, 4, 8, 16, 32, 64, 128])
            (mine.folder / name).write_bytes(bytes(changed))
            found = verify(mine).problems
            assert any(name in text for text in found), (name, place, found)
        (mine.folder / name).write_bytes(data)
    assert verify(mine).problems == []


def test_a_file_that_is_gone_new_or_a_link_is_found(mine: Store) -> None:
    for name, data in everything(mine.folder).items():
        if name == "plan.toml":
            continue  # without one it is no campaign
        (mine.folder / name).unlink()
        assert verify(mine).problems, name
        (mine.folder / name).write_bytes(data)
    for name in ("adopted/more.txt", "more.txt", ".adopting/placing", "runs/A/x/1-old/stdout.txt"):
        (mine.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (mine.folder / name).write_text(GOOD)
        assert verify(mine).problems == [f"{name}: not in the adoption"]
        (mine.folder / name).unlink()
        for folder in list((mine.folder / name).parents)[: name.count("/")]:
            if not any(folder.iterdir()):
                assert any("an empty folder" in problem for problem in verify(mine).problems)
                folder.rmdir()
    (mine.folder / "adopted" / "link.txt").symlink_to("old.txt")
    assert verify(mine).problems == ["adopted/link.txt: a link"]


def rewrite(store: Store, **changes: object) -> None:
    """A record that was changed, with journal and manifest made to agree with it, as far as anyone would."""
    content = json.loads(store.adoption_path.read_text()) | changes
    store.adoption_path.write_text(json.dumps(content))
    from runner.journal import Journal

    store.journal_path.unlink()
    with Journal(store.journal_path) as journal:
        journal.append("adopted", adoption=seal.file_sha256(store.adoption_path))
        journal.append("close", counts={}, content_sha256="0")


def test_a_record_that_the_files_do_not_bear_out_is_found(mine: Store) -> None:
    runs = json.loads(mine.adoption_path.read_text())["runs"]
    wrong = [runs[0] | {"labels": runs[0]["labels"] | {"arm": "old"}}, *runs[1:]]
    for changes, words in (
        ({"runs": wrong}, "adoption.json: run 0: the adopted files hold another run than the record"),
        ({"runs": runs[:-1]}, "adoption.json: run 11: the adopted files hold another run than the record"),
        ({"runs": runs, "maps": 1}, "adoption.json: not in the form that the runner writes"),
        ({"maps": list(MAPS), "format": 2}, "adoption.json: another format"),
        ({"format": 1, "files": {"adopted/../../x.txt": "0"}}, "adoption.json: a file that is not below the campaign"),
    ):
        rewrite(mine, **changes)
        assert verify(mine).problems
        with pytest.raises(DataError, match=re.escape(words)):
            mine.adoption()
    rewrite(mine, format=1, campaign="other")
    assert "adoption.json: of campaign 'other', not 'mine'" in verify(mine).problems


def test_samples_are_not_read_from_a_file_that_changed(mine: Store) -> None:
    (mine.adopted_folder / "old.txt").write_text(GOOD)
    with pytest.raises(DataError, match=r"old.txt: not the file that the journal recorded"):
        mine.adoption()
    with pytest.raises(DataError, match=r"old.txt: not the file that the journal recorded"):
        mine.ledger()


def test_a_runner_or_an_analysis_that_changed_is_a_deviation(mine: Store) -> None:
    content = json.loads(mine.adoption_path.read_text())
    found = seal.deviations(seal.Seal(content | {"analysis": {}}, ""), mine.plan())
    assert (found.keys(), "analysis/samples.py" in found["analysis"]) == ({"analysis"}, True)
    assert verify(mine).deviations == {}


def test_a_path_of_the_host_in_a_log_is_noted(tmp_path: Path) -> None:
    store = take(logs(tmp_path, old=GOOD + "exec /home/someone/x.test\n", new=GOOD), tmp_path / "mine")
    assert "adopted/old.txt: holds a path of the host: /home/someone/x.test" in verify(store).notes


# Other commands


def test_status_and_what_is_not_for_adopted_logs(mine: Store) -> None:
    done = command("status", str(mine.folder))
    assert re.search(
        r"^adopted \S+ from logs, not executed here\nok +12\nfailed +0\nphase A: blocks unknown", done.stdout
    )
    assert json.loads(command("status", str(mine.folder), "--json").stdout)["runs"] == {"ok": 12, "failed": 0}
    before = everything(mine.folder)
    for name in ("run", "seal", "close", "plan", "check"):
        done = command(name, str(mine.folder))
        assert done.returncode == 1
        assert f"this campaign is adopted: its runs were made elsewhere, and `{name}` is of campaigns" in done.stderr
    assert everything(mine.folder) == before


def test_published_figures_and_then_their_logs(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "plan.toml").write_text(re.sub(r'(?m)^id = ".*"', 'id = "small"', TEXT, count=1))
    (folder / "published.toml").write_text("format = 1\n")
    store = Store.open(folder)
    assert store.state() == "figures-only"
    with pytest.raises(DataError, match="no logs were taken into this campaign"):
        store.adoption()
    assert command("status", str(folder)).stdout == "figures-only: published figures, no runs here\n"
    assert json.loads(command("status", str(folder), "--json").stdout) == {"state": "figures-only"}
    done = command("verify", str(folder))
    assert (done.returncode, "note: published figures without raw logs" in done.stdout) == (0, True)
    assert done.stdout.splitlines()[-1].startswith("figures-only, 2 files, ")
    for name in ("run", "seal", "close"):
        assert "this campaign is figures-only: its runs were made elsewhere" in command(name, str(folder)).stderr
    phase = store.plan().phases["B"]
    case, unit = phase.cases[0].name, phase.metrics[0].unit
    text = f"Benchmark{case}-16 10 5 {unit}\n" * phase.repeats
    source = logs(tmp_path, **{arm.name: text for arm in phase.arms})
    with pytest.raises(WrongUse, match="this campaign has a plan"):
        take(source, folder, "{arm}.txt:phase=B", contrasts=("a/b",))
    take(source, folder, "{arm}.txt:phase=B,block=1")
    assert store.state() == "adopted"
    assert store.adoption().phases == ("B",)
    assert store.adoption().content["files"].keys() >= {"plan.toml", "published.toml"}
    assert verify(store).problems == []
    (folder / "published.toml").write_text("format = 2\n")
    assert "published.toml: changed since the adoption" in verify(store).problems[0]
    (folder / "published.toml").write_text("format = 1\n")
    store.adoption_path.unlink()  # not figures-only again: the logs are still here
    assert [text.partition(":")[0] for text in verify(store).problems] == [
        "adopted", "journal.jsonl", "metrics.csv", "MANIFEST.sha256",
    ]  # fmt: skip


def test_published_figures_that_are_no_toml_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "plan.toml").write_text(TEXT)
    (folder / "published.toml").write_text("format = \n")
    assert "published.toml: not valid TOML" in verify(Store.open(folder)).problems[0]


def test_everything_rewritten_but_one_digest_is_found(mine: Store) -> None:
    """Record, journal, aggregate and manifest are made to agree with a changed log; each digest in turn is left as it was."""
    from runner import close
    from runner.files import canonical_json, digest_of, manifest_text
    from runner.journal import Journal

    old = {name: seal.file_sha256(mine.folder / name) for name in everything(mine.folder)}
    before = everything(mine.folder)
    content_before = mine.journal().events[-1]["content_sha256"]

    def rewritten(left: str) -> list[str]:
        for name, data in before.items():
            (mine.folder / name).write_bytes(data)
        log = mine.adopted_folder / "old.txt"
        log.write_text(log.read_text().replace("12.5", "11.5"))
        content = json.loads(before["adoption.json"])
        if left != "file":
            content["files"]["adopted/old.txt"] = seal.file_sha256(log)
        mine.adoption_path.write_text(canonical_json(content))
        if left != "aggregate":
            mine.metrics_path.write_text(before["metrics.csv"].decode().replace("12.5", "11.5"))
        mine.journal_path.unlink()
        with Journal(mine.journal_path) as journal:
            named = old["adoption.json"] if left == "record" else seal.file_sha256(mine.adoption_path)
            journal.append("adopted", adoption=named, source="logs")
            digest = content_before if left == "content" else digest_of(close.content_digests(mine))
            journal.append("close", counts={}, content_sha256=digest)
        digests = {name: seal.file_sha256(mine.folder / name) for name in old if name != "MANIFEST.sha256"}
        if left in digests:
            digests[left] = old[left]
        mine.manifest_path.write_text(manifest_text(digests))
        return verify(mine).problems

    assert rewritten("") == []  # against this there is the digest that was published
    for left in (
        "file",
        "aggregate",
        "record",
        "content",
        *(name for name in old if name not in ("MANIFEST.sha256", "plan.toml", "adopted/new.txt")),
    ):
        assert rewritten(left), left


def test_two_logs_that_change_places_are_found(mine: Store) -> None:
    old, new = (mine.adopted_folder / name for name in ("old.txt", "new.txt"))
    texts = old.read_text(), new.read_text()
    new.write_text(texts[0])
    old.write_text(texts[1])
    assert [text.partition(":")[0] for text in verify(mine).problems] == ["adopted/new.txt", "adopted/old.txt"]


# Refusals: each leaves everything as it was


def test_a_campaign_that_is_sealed_or_has_adopted_takes_nothing_in(
    sealed: Campaign, closed: Campaign, mine: Store, tmp_path: Path
) -> None:
    source = tmp_path / "logs"
    for folder, state in ((sealed.copy(tmp_path / "s").folder, "sealed"), (closed.copy(tmp_path / "c").folder, "closed"),
                          (mine.folder, "adopted")):  # fmt: skip
        before = everything(folder)
        with pytest.raises(Refused, match=f"this campaign is {state}: it takes in no logs"):
            take(source, folder)
        assert everything(folder) == before
        assert not (folder / ".adopting").exists()


def test_a_folder_that_is_in_the_way(tmp_path: Path) -> None:
    source = logs(tmp_path)
    for name, words in (
        ("notes.txt", "without a plan.toml"),
        ("runs/x", "what adopting would write"),
        ("adopted/x", "adopted"),
    ):
        folder = tmp_path / name.replace("/", "-")
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("mine")
        with pytest.raises(Refused, match=words):
            take(source, folder)
        assert everything(folder) == {name: b"mine"}
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongUse, match="not a folder"):
        take(source, tmp_path / "file")


def test_a_copy_of_a_plan_under_another_name_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "plan.toml").write_text(TEXT)
    with pytest.raises(Refused, match="the campaign's id is not its folder's name"):
        take(logs(tmp_path), folder)
    assert everything(folder).keys() == {"plan.toml"}


def test_campaign_and_logs_lie_apart(tmp_path: Path) -> None:
    source = logs(tmp_path)
    for folder in (source, source / "mine", tmp_path):
        with pytest.raises(WrongUse, match="the logs lie inside of the campaign, or the campaign inside of the logs"):
            take(source, folder)
    assert everything(source).keys() == {"old.txt", "new.txt"}


def test_a_folder_that_no_campaign_can_be_called_after(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="a folder that no campaign can be called after"):
        take(logs(tmp_path), tmp_path / "my logs")
    assert not (tmp_path / "my logs").exists()


def make_link(folder: Path) -> None:
    (folder / "link.txt").symlink_to("/etc/passwd")


def make_folder_link(folder: Path) -> None:
    (folder / "below").symlink_to("/etc")


def make_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")


def make_large(folder: Path) -> None:
    with (folder / "large.txt").open("wb") as file:
        file.truncate(adoptfolder.LARGEST_FILE + 1)  # no block of the disk is taken


def make_newline(folder: Path) -> None:
    (folder / "a\nb.txt").write_text(GOOD)


def make_backslash(folder: Path) -> None:
    (folder / "a\\b.txt").write_text(GOOD)


def make_no_utf8(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text(GOOD)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (make_link, "a link, not a file"),
        (make_folder_link, "a link, not a file"),
        (make_pipe, "a device, pipe or socket, not a file"),
        (make_large, "a file that is too large"),
        (make_newline, "a name that cannot be recorded"),
        (make_backslash, "a name that cannot be recorded"),
        (make_no_utf8, "a name that cannot be recorded"),
    ],
)
def test_what_is_no_plain_file_is_refused(tmp_path: Path, make: object, words: str) -> None:
    source = logs(tmp_path)
    assert callable(make)
    make(source)
    with pytest.raises(WrongUse, match=words):
        take(source, tmp_path / "mine", *MAPS, ignore=("*",))  # not even to leave it out: nobody looks behind a link
    assert not (tmp_path / "mine").exists()


def test_a_link_to_a_folder_of_logs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(logs(tmp_path))
    with pytest.raises(WrongUse, match="not a folder, or a link to one"):
        take(tmp_path / "link", tmp_path / "mine")


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "logs"
    source.mkdir()
    for number in range(adoptfolder.MOST_FILES + 1):
        (source / f"{number}.txt").touch()
    with pytest.raises(WrongUse, match="too much for one adoption"):
        take(source, tmp_path / "mine", "{arm}.txt")


def test_a_link_that_came_in_a_files_place_is_not_followed(tmp_path: Path) -> None:
    source = logs(tmp_path)
    (source / "link.txt").symlink_to("old.txt")
    with pytest.raises(OSError, match="symbolic links"):
        adoptfolder.copy(source / "link.txt", tmp_path / "copy.txt")
    assert not (tmp_path / "copy.txt").exists()


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.txt").write_text("four")
    monkeypatch.setattr(adoptfolder, "_assert_plain_file", lambda where, status: None)  # as if it had been small then
    monkeypatch.setattr(adoptfolder, "LARGEST_FILE", 3)
    with pytest.raises(WrongUse, match="a file that grows while it is read"):
        adoptfolder.copy(tmp_path / "log.txt", tmp_path / "copy.txt")


def test_an_error_leaves_no_folder_and_an_old_one_as_it_was(tmp_path: Path) -> None:
    source = logs(tmp_path, old="nothing\n", new="nothing\n")
    with pytest.raises(DataError, match="no result in any file"):
        take(source, tmp_path / "a" / "mine")
    assert not (tmp_path / "a" / "mine").exists()
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "plan.toml").write_text(re.sub(r'(?m)^id = ".*"', 'id = "small"', TEXT, count=1))
    with pytest.raises(BenchbookError, match="no result of a case of the plan"):
        take(source, folder, "{arm}.txt:phase=B")
    assert [path.name for path in folder.iterdir()] == ["plan.toml"]


def test_names_that_no_plan_can_have_are_an_error_of_the_logs(tmp_path: Path) -> None:
    text = f"BenchmarkA/{'x' * 130} 10 5 ns/op\n"
    with pytest.raises(
        DataError, match=r"logs: what these logs hold cannot be written as a plan\n  expected: .*120"
    ) as error:
        take(logs(tmp_path, old=text, new=text), tmp_path / "mine")
    assert str(tmp_path) not in str(error.value)
    assert not (tmp_path / "mine").exists()


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    source = logs(tmp_path)
    staging = tmp_path / "mine" / ".adopting"
    staging.mkdir(parents=True)
    lock = os.open(staging, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(Refused, match="logs are being taken into this campaign at this moment"):
        take(source, tmp_path / "mine")
    os.close(lock)
    take(source, tmp_path / "mine")


KILLED = """
import os, signal, sys
from pathlib import Path
from runner import adopt

left = int(sys.argv[3])
rename, copy = os.rename, adopt.copy

def dying(function):
    def call(*arguments):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return function(*arguments)
    return call

os.rename, adopt.copy = dying(rename), dying(copy)
adopt.shutil.rmtree = dying(adopt.shutil.rmtree)
adopt.adopt(Path(sys.argv[2]), adopt.asked(Path(sys.argv[1]), sys.argv[4:], (), ()))
"""


@pytest.mark.parametrize("existing", [False, True])
def test_killed_at_any_step_it_can_be_adopted_again(tmp_path: Path, existing: bool) -> None:
    """Two copies, the renames and the sweep: the process is killed before each of them in turn."""
    arms = ("old", "new")
    source, folder = logs(tmp_path), tmp_path / "mine"
    text = TEXT
    if existing:
        made = take(source, tmp_path / "first" / "mine")
        text = made.plan_path.read_text()
    for step in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if existing:
            folder.mkdir()
            (folder / "plan.toml").write_text(text)
        maps = [f"{arm}.txt:arm={arm}" for arm in arms]
        argv = [sys.executable, "-c", KILLED, str(source), str(folder), str(step), *maps]
        done = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        whole = (folder / "plan.toml").exists() and (folder / "adoption.json").exists()
        if whole:  # all is in place but for the sweep: it is adopted, and stays so
            with pytest.raises(Refused, match="this campaign is adopted"):
                take(source, folder, *maps)
        else:
            take(source, folder, *maps)
        assert not (folder / ".adopting").exists()
        assert verify(Store.open(folder)).problems == []
    assert step >= 7


# Real Go output

BENCHMARKS = """package index

import (
	"os"
	"testing"
)

func when(b *testing.B, name string) bool { return os.Getenv(name) != "" && b.N > 1 }

func BenchmarkGood(b *testing.B) { for i := 0; i < b.N; i++ { } }
func BenchmarkFatal(b *testing.B) { if when(b, "BAD") { b.Fatal("wrong answer") }; for i := 0; i < b.N; i++ { } }
func BenchmarkParts(b *testing.B) {
	b.Run("n 10", func(b *testing.B) { for i := 0; i < b.N; i++ { } })
	b.Run("n 20", func(b *testing.B) { if when(b, "BAD") { b.Fatal("wrong answer") }; for i := 0; i < b.N; i++ { } })
}
func BenchmarkPanic(b *testing.B) { if when(b, "PANIC") { panic("boom") }; for i := 0; i < b.N; i++ { } }
func BenchmarkSkip(b *testing.B) { if when(b, "BAD") { b.Skip("not here") }; for i := 0; i < b.N; i++ { } }
"""


def test_what_go_itself_writes(tmp_path: Path) -> None:
    module, source = tmp_path / "module", tmp_path / "logs"
    module.mkdir()
    source.mkdir()
    (module / "go.mod").write_text("module example.org/index\n\ngo 1.21\n")
    (module / "index.go").write_text("package index\n")
    (module / "index_test.go").write_text(BENCHMARKS)
    base = os.environ | gomodule.with_go() | {"GOPROXY": "off", "GOTOOLCHAIN": "local", "HOME": str(tmp_path)}
    subprocess.run(["go", "test", "-c", "-o", "x.test"], cwd=module, env=base, check=True)

    def execute(name: str, *argv: str, **environment: str) -> None:
        """A process whose two outputs go into one file, as one keeps them."""
        binary = ["./x.test", "-test.run=^$", "-test.bench=.", "-test.benchtime=100x", "-test.count=2", *argv]
        with (source / name).open("ab") as file:
            subprocess.run(binary, cwd=module, env=base | environment, stdout=file, stderr=file, check=False)

    execute("old.txt")
    execute("old.txt", BAD="1")
    execute("old.txt", "-test.v", BAD="1")
    execute("new.txt", PANIC="1")
    execute("new.txt", "-test.v")
    store = take(source, tmp_path / "mine")
    phase = store.plan().phases["A"]
    assert {case.name for case in phase.cases} == {"Good", "Fatal", "Parts/n_10", "Parts/n_20", "Panic", "Skip"}
    failed = {(run.labels.arm, run.labels.case, run.run) for run in store.adoption().runs if run.outcome == "failed"}
    assert failed == {
        *(("old", case, run) for case in ("Fatal", "Parts/n_20", "Skip") for run in (2, 3)),
        ("new", "Panic", 1),
    }
    assert store.adoption().content["notes"][-1] == "phase A, arm new: 2 runs of some cases, fewer of Skip (1)"
    assert len([run for run in store.adoption().runs if run.outcome == "ok" and run.labels.case == "Good"]) == 5
    assert all(len(run.values) == 2 for run in store.adoption().runs if run.outcome == "ok")
    assert verify(store).problems == []


# The page

PAGE = (PROJECT / "book" / "adopt.md").read_text()


def here(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A command of the page, as it is written there, in a folder of its own."""
    package, *argv = shlex.split(line.removeprefix("python -m "))
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", package, *argv]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_example_of_the_page(tmp_path: Path) -> None:
    files = re.findall(r"```\{code-block\} text\n:caption: (\S+)\n(.*?)```", PAGE, re.DOTALL)
    assert [name for name, _ in files] == ["logs/old.txt", "logs/new.txt"]
    (tmp_path / "logs").mkdir()
    for name, text in files:
        (tmp_path / name).write_text(text)
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    shown = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert [line.split()[3] for line in lines] == ["adopt", "status", "verify", "estimates", "render"]
    done = [here(tmp_path, line) for line in lines[:-1]]  # a page is rendered into the project, see the tests of pages
    assert [one.returncode for one in done] == [0, 0, 0, 0], [one.stderr for one in done]
    assert shown
    assert done[0].stdout.splitlines()[:-1] == shown[1].splitlines()
    assert done[2].stdout.endswith(": no problems\n")
    assert "| new/old | Lookup | ns/op | 0.936 " in done[3].stdout
    phase = Store.open(tmp_path / "data" / "local-lookup").plan().phases["A"]
    assert ([arm.name for arm in phase.arms], phase.contrasts[0].name, phase.repeats) == (["old", "new"], "new/old", 2)


def test_every_map_and_key_of_the_page_is_one() -> None:
    maps = re.findall(r"`([^`\s]+\.(?:txt|csv|json)[^`\s]*:[^`\s]+)`", PAGE)
    assert len(maps) >= 4
    for text in maps:
        parse(text)
    for name in (
        *LABELS,
        "repeat",
        "metric",
        "value",
        "run=@column",
        "run=row",
        "run=file",
        "suffix=drop",
        "suffix=keep",
    ):
        assert re.search(rf"`\{{?{name}\}}?`", PAGE), name
    for name in UNKNOWNS:
        assert re.search(rf"^\| {name} \|", PAGE, re.MULTILINE), name
    assert f"{adoptfolder.LARGEST_FILE // 10**6} MB" in PAGE
    assert f"{adoptfolder.MOST_FILES:,}\nfiles" in PAGE or f"{adoptfolder.MOST_FILES:,} files" in PAGE.replace(
        "\n", " "
    )
