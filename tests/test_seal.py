"""The seal: what it holds, who may write it, and all that is said of what does not agree with it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from runner import engines, orders, seal
from runner.errors import BenchbookError, DataError, Refused
from runner.files import canonical_json, file_sha256, sha256
from runner.host import observe
from runner.journal import Journal
from runner.plan import Plan
from runner.seal import Seal
from runner.store import Store, orders_document
from tests import campaigns
from tests.campaigns import PROJECT, Campaign, rechained


@pytest.fixture
def copy(closed: Campaign, tmp_path: Path) -> Campaign:
    return closed.copy(tmp_path)


@pytest.fixture
def draft(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A campaign that is not sealed, and the cache of these tests for sealing it in this process."""
    monkeypatch.setenv("BENCHBOOK_CACHE", str(cache))
    return Store.open(campaigns.write(tmp_path, cache).folder)


def parts(error: BenchbookError) -> tuple[str, str, str, str, str]:
    return error.where, error.problem, error.expected, error.found, error.remedy


def refusal(store: Store) -> tuple[str, str, str, str, str]:
    """What stands in the way of the next run."""
    with pytest.raises(BenchbookError) as raised:
        seal.assert_unchanged(store, store.plan(), list(store.journal().events))
    return parts(raised.value)


# -- writing


def test_a_seal_holds_what_was_chosen_before_the_first_run(draft: Store) -> None:
    said: list[str] = []
    written = seal.write(draft, said.append)
    data = draft.seal_path.read_bytes()
    content = json.loads(data)
    assert (written, seal.read(draft)) == (Seal(content, sha256(data)), written)
    assert not written.adopted
    assert data.decode() == canonical_json(content)
    keys = ["format", "campaign", "sealed", "files", "kept", "trees", "engine", "analysis"]
    assert list(content) == keys
    assert (content["format"], content["campaign"]) == (1, "tiny")
    assert content["sealed"].endswith("+00:00")
    assert content["kept"] == ["plan.toml", "trees/plain.txt"]
    assert list(content["trees"]) == ["plain"]
    assert content["engine"] == engines.identity(draft.plan())
    assert content["analysis"] == seal.analysis_digests()
    files = content["files"]
    assert {name for name in files if not name.startswith("as-run/")} == {
        "plan.toml",
        "orders.json",
        "host.json",
        "trees/plain.txt",
        "harness/tiny.py",
    }
    assert files == {name: file_sha256(draft.folder / name) for name in files}
    runner = {f"as-run/{path.relative_to(PROJECT).as_posix()}" for path in (PROJECT / "runner").rglob("*.py")}
    assert {name for name in files if name.startswith("as-run/")} == runner
    assert (draft.folder / "as-run/runner/seal.py").read_bytes() == (PROJECT / "runner/seal.py").read_bytes()
    expected = canonical_json(orders_document("tiny", orders.expand(draft.plan())))
    assert draft.orders_path.read_text() == expected
    host = json.loads(draft.host_path.read_text())
    assert draft.host_path.read_text() == canonical_json(host)
    assert host["identity"] == observe("tiny")["identity"]  # the machine's name is a digest with the campaign's
    assert [(event["event"], event["seal"]) for event in draft.journal().events] == [("sealed", written.digest)]
    for name in content["kept"]:
        assert (draft.folder / "protocol" / "1" / name).read_bytes() == (draft.folder / name).read_bytes()
    assert said[0].startswith("tree plain: Python 3.")


def test_what_lay_there_from_an_earlier_seal_is_gone(draft: Store) -> None:
    first = seal.write(draft)
    for name in ("harness/old.py", "as-run/runner/old.py", "protocol/1/old.txt"):
        (draft.folder / name).write_text("old")
    second = seal.write(draft)
    assert not list(draft.folder.rglob("old.*"))
    assert second.content["files"].keys() == first.content["files"].keys()
    assert [event["seal"] for event in draft.journal().events] == [first.digest, second.digest]
    assert seal.assert_unchanged(draft, draft.plan(), list(draft.journal().events)) == second


def test_no_seal_once_a_run_was_started(copy: Campaign) -> None:
    store = Store.open(copy.folder)
    before = store.seal_path.read_bytes()
    with pytest.raises(Refused) as raised:
        seal.write(store)
    assert parts(raised.value) == (
        str(store.folder),
        "a run has already started; what is chosen now is not preregistered",
        "",
        "",
        f'change it in the open: python -m runner amend {store.shown()} --why "..."; or start another campaign',
    )
    assert store.seal_path.read_bytes() == before


def test_no_seal_over_an_amendment_and_orders_are_those_of_all_versions(draft: Store) -> None:
    assert seal.amended_orders(draft) == ()
    written = seal.write(draft)
    assert seal.amended_orders(draft) == ()
    with Journal(draft.journal_path) as journal:
        journal.append("amended", seal=written.digest)
    assert seal.amended_orders(draft) == draft.orders() != ()
    with pytest.raises(Refused) as raised:
        seal.write(draft)
    assert parts(raised.value) == (
        str(draft.folder),
        "this campaign was amended, and its first seal is part of its record",
        "",
        "",
        f'change it in the open again: python -m runner amend {draft.shown()} --why "..."',
    )
    with draft.plan_path.open("a") as plan:  # the next amendment is being written
        plan.write("# \n")
    assert seal.amended_orders(draft) == ()


def test_a_campaign_without_a_seal_says_so(draft: Store) -> None:
    with pytest.raises(DataError) as raised:
        seal.read(draft)
    assert parts(raised.value) == (
        str(draft.seal_path),
        "this campaign is not sealed",
        "",
        "",
        f"python -m runner seal {draft.shown()}",
    )


@pytest.mark.parametrize(("state", "record"), [("figures-only", "published.toml"), ("adopted", "adoption.json")])
def test_campaigns_that_were_executed_elsewhere_are_not_sealed(draft: Store, state: str, record: str) -> None:
    (draft.folder / record).write_text("{}")
    for refuse in (lambda: seal.assert_executed_here(draft, "close"), lambda: seal.write(draft)):
        with pytest.raises(Refused) as raised:
            refuse()
        command = "close" if raised.value.problem.count("`close`") else "seal"
        assert parts(raised.value) == (
            str(draft.folder),
            f"this campaign is {state}: its runs were made elsewhere, and `{command}` is of campaigns that are executed here",
            "",
            record,
            "start a campaign of your own with python -m runner new",
        )
    assert command == "seal"


def test_the_record_of_adopted_logs_stands_in_for_a_seal(draft: Store) -> None:
    draft.published_path.write_text("")
    with pytest.raises(DataError, match="not sealed"):
        seal.read(draft)
    draft.adoption_path.write_text('{"adopted": "2026-11-30"}')
    record = seal.read(draft)
    assert record.adopted
    assert record.digest == file_sha256(draft.adoption_path)
    assert record.content == {"adopted": "2026-11-30"}


def test_a_copy_under_another_name_is_not_that_campaign(copy: Campaign, tmp_path: Path) -> None:
    other = copy.folder.rename(tmp_path / "other")
    store = Store.open(other)
    words = (str(store.plan_path), "the campaign's id is not its folder's name", "other", "tiny", "rename the folder")
    assert refusal(store) == words
    with pytest.raises(Refused) as raised:
        seal.write(store)
    assert parts(raised.value) == words


# -- the harness


def own_harness(store: Store) -> Path:
    """A plan whose harness is the campaign's own, of two files."""
    text = store.plan_path.read_text().replace(
        'source = "tests/harness"\nfiles = ["tiny.py"]', 'files = ["tiny.py", "sub/more.py"]'
    )
    store.plan_path.write_text(text)
    for name in ("tiny.py", "sub/more.py"):
        (store.harness_folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PROJECT / "tests/harness/tiny.py", store.harness_folder / name)
    return store.harness_folder


def harness_problem(store: Store, plan: Plan | None = None) -> tuple[str, str, str, str, str]:
    with pytest.raises(DataError) as raised:
        seal.assert_harness(store, plan or store.plan())
    return parts(raised.value)


def test_a_harness_of_the_campaigns_own_holds_what_the_plan_names_and_no_more(
    draft: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own_harness(draft)
    monkeypatch.chdir(draft.folder)  # a path is shown as it can be typed there
    assert draft.shown(folder) == "harness"
    plan = draft.plan()  # read before there are links: a plan is refused for one in a path that it names
    assert seal.assert_harness(draft, plan) == folder
    for number in range(12):
        (folder / f"x{number:02}.py").touch()
    (folder / "sub" / "link.py").symlink_to("more.py")
    assert harness_problem(draft, plan) == (
        draft.shown(folder),
        "files that the plan does not name, or that are links",
        "tiny.py, sub/more.py",
        "sub/link.py, " + ", ".join(f"x{number:02}.py" for number in range(9)),
        "remove them, or list them in harness.files",
    )
    for path in folder.glob("x*.py"):
        path.unlink()
    (folder / "sub" / "link.py").unlink()
    (folder / "sub" / "more.py").unlink()
    (folder / "sub" / "more.py").symlink_to("../tiny.py")
    assert harness_problem(draft, plan)[3] == "sub/more.py"
    (folder / "sub" / "more.py").unlink()
    assert harness_problem(draft, plan) == (
        draft.shown(folder),
        "harness files are missing",
        "tiny.py, sub/more.py",
        "no sub/more.py",
        "mend harness.source or harness.files in the plan",
    )
    (folder / "tiny.py").unlink()
    assert harness_problem(draft, plan)[3] == "no tiny.py, sub/more.py"


def test_a_harness_of_the_campaigns_own_is_sealed_where_it_lies(draft: Store) -> None:
    folder = own_harness(draft)
    text = (folder / "sub" / "more.py").read_bytes()
    written = seal.write(draft)
    assert (folder / "sub" / "more.py").read_bytes() == text
    assert {"harness/tiny.py", "harness/sub/more.py"} <= written.content["files"].keys()
    assert seal.deviations(written, draft.plan()) == {}


def test_a_harness_of_the_product_that_is_not_there(draft: Store) -> None:
    text = draft.plan_path.read_text()
    draft.plan_path.write_text(text.replace('files = ["tiny.py"]', 'files = ["tiny.py", "none.py"]'))
    source = PROJECT / "tests" / "harness"
    assert harness_problem(draft)[0] == str(source)
    assert harness_problem(draft)[3] == "no none.py"
    draft.plan_path.write_text(text)
    assert seal.assert_harness(draft, draft.plan()) == source  # other files may lie there


# -- what must hold before anything is timed


def test_nothing_is_changed(copy: Campaign) -> None:
    store = Store.open(copy.folder)
    found = seal.assert_unchanged(store, store.plan(), list(store.journal().events))
    assert found == seal.read(store)
    assert seal.deviations(found, store.plan()) == {}


def test_another_seal_than_the_journals(copy: Campaign) -> None:
    store = Store.open(copy.folder)
    before = file_sha256(store.seal_path)
    store.seal_path.write_bytes(store.seal_path.read_bytes() + b"\n")
    words = "this is not the seal that the journal names"
    remedy = f"restore seal.json; before the first run: python -m runner seal {store.shown()}"
    assert refusal(store) == (str(store.seal_path), words, before, file_sha256(store.seal_path), remedy)
    store.journal_path.write_bytes(rechained([event for event in copy.events() if event["event"] != "sealed"]))
    assert refusal(store)[2] == "a sealed event"


def test_changed_files_are_all_named(copy: Campaign) -> None:
    store = Store.open(copy.folder)
    sealed = seal.read(store).content["files"]
    with store.plan_path.open("a") as plan:
        plan.write("# \n")
    (store.folder / "harness" / "more.py").touch()
    (store.folder / "as-run" / "runner" / "seal.py").unlink()
    (store.folder / "protocol" / "1" / "plan.toml").unlink()
    after = (
        f"before the first run: python -m runner seal {store.shown()}; later, in the open: "
        f'python -m runner amend {store.shown()} --why "..."'
    )
    assert refusal(store) == (
        str(store.folder),
        "changed since the seal",
        "",
        "; ".join(
            (
                "as-run/runner/seal.py: sealed, and gone",
                "harness/more.py: not in the seal",
                f"plan.toml: changed since the seal (sealed {sealed['plan.toml'][:12]}, found "
                f"{file_sha256(store.plan_path)[:12]})",
                "protocol/1/plan.toml: missing",
            )
        ),
        f"restore the files; {after}",
    )


def test_another_runner_than_the_sealed_one(copy: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(copy.folder)
    now = seal.source_digests

    def other(folder: str, *rest: tuple[str, ...]) -> dict[str, str]:
        found = now(folder, *rest)
        if folder == "runner":
            del found["runner/power.py"]
            found |= {"runner/seal.py": "0" * 64, "runner/new_one.py": "1" * 64}
        return found

    monkeypatch.setattr(seal, "source_digests", other)
    where, problem, expected, found, remedy = refusal(store)
    assert (where, problem, expected) == ("runner", "this is not the runner that was sealed", "")
    assert found == "differs in runner/new_one.py, runner/power.py, runner/seal.py"
    assert remedy == (
        f"check out the runner that was sealed; before the first run: python -m runner seal {store.shown()}; later, in "
        f'the open: python -m runner amend {store.shown()} --why "..."'
    )
    names = ["runner/new_one.py", "runner/power.py", "runner/seal.py"]
    assert seal.deviations(seal.read(store), store.plan()) == {"runner": names}


def test_what_differs_today_is_told_by_its_kind(copy: Campaign) -> None:
    store = Store.open(copy.folder)
    sealed = seal.read(store)
    content = json.loads(json.dumps(sealed.content))
    content["files"]["harness/tiny.py"] = "0" * 64
    content["files"]["harness/elsewhere.py"] = "0" * 64  # the product has none of this name to compare with
    content["files"]["as-run/trees/plain/build.log"] = "0" * 64  # no source of the runner
    content["analysis"]["analysis/model.py"] = "0" * 64
    del content["analysis"]["analysis/labels.py"]
    assert seal.deviations(replace(sealed, content=content), store.plan()) == {
        "harness": ["tests/harness/tiny.py"],
        "analysis": ["analysis/labels.py", "analysis/model.py"],
    }


def test_adopted_logs_have_deviations_and_differences_in_words_of_their_own(closed: Campaign) -> None:
    digests = {"runner": seal.source_digests("runner"), "analysis": seal.analysis_digests()}
    record = Seal({"adopted": "", "files": {"a": "1" * 64, "b": "2" * 64}} | digests, "")
    plan = Store(closed.folder).plan()
    assert seal.deviations(record, plan) == {}
    record.content["runner"] = digests["runner"] | {"runner/seal.py": "0" * 64}
    assert seal.deviations(record, plan) == {"runner": ["runner/seal.py"]}
    assert seal.file_differences(record, {"b": "3" * 64, "c": "4" * 64}) == [
        "a: adopted, and gone",
        f"b: changed since the adoption (adopted {'2' * 12}, found {'3' * 12})",
        "c: not in the adoption",
    ]


def test_the_analysis_is_code_and_notebooks() -> None:
    found = seal.analysis_digests()
    assert {Path(name).suffix for name in found} == {".py", ".ipynb"}
    assert {name.split("/")[0] for name in found} == {"analysis", "notebooks"}
    assert found["analysis/labels.py"] == file_sha256(PROJECT / "analysis/labels.py")
    assert not any("__pycache__" in name for name in found)
