"""Trees of programs: found where a run finds them, identified by their bytes, refused when they are others."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from runner import programs, treekinds
from runner.errors import Missing, PlanError, Refused
from runner.files import digest_of
from runner.planfile import parse
from runner.plantrees import ProgramsTree
from runner.store import Store
from tests import campaigns, small
from tests.campaigns import Campaign

TREE = """
[trees.{name}]
kind = "programs"
what = "a script"
programs = [{programs}]
"""


def script(path: Path, text: str = "exit 0") -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def tree(*names: str | Path, version: tuple[tuple[str, ...], ...] = ()) -> ProgramsTree:
    return ProgramsTree(kind="programs", what="x", programs=tuple(map(str, names)), version=version)


def sha256(path: Path | str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_a_name_is_looked_for_where_a_run_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "gzip")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = programs.materialise("t", tree("gzip", version=(("gzip", "--version"),)))
    real = os.path.realpath("/usr/bin/gzip")
    assert found.found == {"gzip": {"file": Path(real).name, "sha256": sha256(real), "size": os.stat(real).st_size}}
    assert found.version[0].startswith("gzip ")
    identity = found.identity()
    assert identity["kind"] == "programs"
    assert identity["files_sha256"] == digest_of({"gzip": sha256(real)})
    assert identity["interpreter"] == {
        "version": sys.version.split()[0],
        "sha256": sha256(os.path.realpath(sys.executable)),
    }
    for place in ("/usr/bin", str(tmp_path), os.path.dirname(os.path.realpath(sys.executable))):
        assert place not in json.dumps(identity)


def test_links_are_followed_to_the_file(tmp_path: Path) -> None:
    real = script(tmp_path / "tool-1.2", "echo tool 1.2")
    (tmp_path / "tool").symlink_to(real)
    found = programs.materialise("t", tree(tmp_path / "tool", version=((f"{tmp_path}/tool", "--version"),)))
    assert found.found[f"{tmp_path}/tool"]["file"] == "tool-1.2"
    assert found.found[f"{tmp_path}/tool"]["sha256"] == sha256(real)
    assert found.version == ("tool 1.2",)


def test_a_program_says_its_version_under_its_own_name(tmp_path: Path) -> None:
    """One file may be several programs, told apart by the name that they are called by."""
    real = script(tmp_path / "all-in-one", 'echo "${0##*/} 2"')
    (tmp_path / "sort").symlink_to(real)
    found = programs.materialise("t", tree(tmp_path / "sort", version=((f"{tmp_path}/sort", "--version"),)))
    assert found.version == ("sort 2",)
    assert found.found[f"{tmp_path}/sort"]["file"] == "all-in-one"


def test_what_a_program_says_of_itself_holds_no_folder_of_the_host(tmp_path: Path) -> None:
    tool = script(tmp_path / "tool", "echo tool 3 from /opt/some/place/lib >&2")
    found = programs.materialise("t", tree(tool, version=((str(tool),),)))
    assert found.version == ("tool 3 from lib",)


@pytest.mark.parametrize(("text", "problem"), [("exit 3", "exit status 3"), ("exit 0", "it said nothing")])
def test_a_program_that_does_not_say_its_version(tmp_path: Path, text: str, problem: str) -> None:
    tool = script(tmp_path / "tool", text)
    with pytest.raises(Refused, match=rf"tree t: version of .*: {problem}"):
        programs.materialise("t", tree(tool, version=((str(tool), "-V"),)))


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="tree t: no-such-tool: this program is not found"):
        programs.materialise("t", tree("no-such-tool"))
    plain = tmp_path / "plain"
    plain.write_text("no program")
    with pytest.raises(Missing, match="may not be executed"):
        programs.materialise("t", tree(plain))


def test_before_every_run_a_program_is_looked_at_again(tmp_path: Path) -> None:
    tool = script(tmp_path / "tool")
    built = programs.materialise("t", tree(tool))
    before = sha256(tool)
    treekinds.recheck(built, tree(tool))
    os.utime(tool)  # touched, and the same bytes
    treekinds.recheck(built, tree(tool))
    script(tool, "exit 1")
    with pytest.raises(Refused, match="changed since the session began") as error:
        treekinds.recheck(built, tree(tool))
    assert (error.value.expected, error.value.found) == (f"SHA-256 {before}", f"SHA-256 {sha256(tool)}")
    tool.unlink()
    with pytest.raises(Missing):
        treekinds.recheck(built, tree(tool))


def test_a_program_in_front_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    tool = script(second / "tool")
    monkeypatch.setattr(programs, "RUN_PATH", f"{first}:{second}")
    built = programs.materialise("t", tree("tool"))
    shutil.copy(tool, first / "tool")
    programs.recheck(built)  # the same bytes elsewhere are the same program
    script(first / "tool", "exit 1")
    with pytest.raises(Refused, match="another file is found under this name now") as error:
        programs.recheck(built)
    assert (error.value.expected, error.value.found) == (
        f"SHA-256 {sha256(tool)}",
        f"SHA-256 {sha256(first / 'tool')}",
    )


def test_another_interpreter_of_the_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = programs.materialise("t", tree("gzip"))
    monkeypatch.setattr(sys, "executable", str(script(tmp_path / "python")))
    with pytest.raises(Refused, match="tree t: the interpreter of the runner"):
        programs.recheck(built)


def test_what_differs_is_said_with_both_digests(tmp_path: Path) -> None:
    tool = script(tmp_path / "tool")
    sealed = programs.materialise("t", tree(tool)).identity()
    assert treekinds.difference(sealed, sealed) == ""
    before = sha256(tool)
    script(tool, "exit 1")
    now = programs.materialise("t", tree(tool)).identity()
    assert treekinds.difference(sealed, now) == f"{tool}: sealed SHA-256 {before}, found {sha256(tool)}"
    assert "interpreter: sealed" in treekinds.difference(sealed, sealed | {"interpreter": {"version": "2"}})
    assert "version: sealed" in treekinds.difference(sealed, sealed | {"version": ["2"]})
    assert treekinds.difference({}, sealed) == "kind: sealed None, found programs"


# ---- in a plan


def planned(text: str, **changes: str) -> str:
    return small.changed("[trees.old]", TREE.format(name="tools", programs=text) + "\n[trees.old]").replace(
        changes.get("old", "\0"), changes.get("new", ""), 1
    )


def test_a_plan_with_programs() -> None:
    found = parse(planned('"gzip", "/opt/x/bin/tool"')).trees["tools"]
    assert isinstance(found, ProgramsTree)
    assert found.programs == ("gzip", "/opt/x/bin/tool")
    assert treekinds.places(found, "")["programs"] == "gzip,/opt/x/bin/tool"
    assert treekinds.words(found) == "programs gzip, /opt/x/bin/tool"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "trees.tools.programs"),
        ('"gzip", "gzip"', "'gzip' is there twice"),
        ('"bin/tool"', "trees.tools.programs.0"),
        ('"-x"', "trees.tools.programs.0"),
        ('"/a,b"', "trees.tools.programs.0"),
        ('"gzip"]\nversion = [["cat", "-V"]', "expected one of this tree's programs, gzip, found 'cat'"),
        ('"gzip"]\npython = ["3"', "trees.tools.python: unknown key"),
    ],
)
def test_a_wrong_tree_of_programs(text: str, message: str) -> None:
    with pytest.raises(PlanError) as error:
        parse(planned(text))
    assert message in str(error.value)


def test_a_kind_that_is_none() -> None:
    with pytest.raises(PlanError, match='expected "packages", "git" or "programs", found \'wheels\''):
        parse(small.changed('kind = "packages"', 'kind = "wheels"'))


def write(parent: Path, cache: Path, tool: Path) -> Campaign:
    """A tiny campaign whose one arm has a tree of programs, and whose harness is its own."""
    campaign = campaigns.write(parent, cache, blocks=2, cases=campaigns.CASES[:1])
    path = campaign.folder / "plan.toml"
    text = path.read_text().replace('source = "tests/harness"\n', "")
    text = (
        text[: text.index("[trees.plain]")]
        + TREE.format(name="plain", programs=f'"{tool}"')
        + text[text.index("\n[phases.T]") :]
    )
    path.write_text(text)
    shutil.rmtree(campaign.folder / "trees")
    (campaign.folder / "harness").mkdir()
    shutil.copy(campaigns.PROJECT / "tests" / "harness" / "tiny.py", campaign.folder / "harness")
    return campaign


def test_a_path_of_its_own_would_find_other_programs(tmp_path: Path, cache: Path) -> None:
    campaign = write(tmp_path, cache, script(tmp_path / "tool"))
    path = campaign.folder / "plan.toml"
    path.write_text(path.read_text().replace("environment = { ", 'environment = { PATH = "/opt", '))
    done = campaign.call("plan")
    assert (
        "phases.T.environment.PATH: the programs of tree 'plain' are looked for in every run's own PATH" in done.stderr
    )


def test_a_campaign_of_programs_from_start_to_end(tmp_path: Path, cache: Path) -> None:
    tool = script(tmp_path / "tool")
    campaign = write(tmp_path, cache, tool)
    assert "harness: ready" in campaign.does("check").stdout
    campaign.does("seal")
    sealed = sha256(tool)
    script(tool, "exit 1")
    done = campaign.call("run")
    assert done.returncode == 1
    assert f"{tool}: sealed SHA-256 {sealed}, found {sha256(tool)}" in done.stderr
    assert campaign.events("run-start") == []
    script(tool)
    campaign.does("run")
    for labels in campaign.orders():
        record = campaign.record(labels)
        assert record["outcome"] == "ok"
        assert record["argv"][0] == "{python}"
        assert record["digests"]["tree"] == digest_of({str(tool): sealed})
    campaign.does("verify")


def test_a_program_that_changes_between_runs_stops_the_runner(tmp_path: Path, cache: Path) -> None:
    tool = script(tmp_path / "tool")
    campaign = write(tmp_path, cache, tool)
    harness = campaign.folder / "harness" / "tiny.py"
    text = harness.read_text()
    harness.write_text(text.replace("\nif __name__", f"\nopen({str(tool)!r}, 'a').write('#')\nif __name__", 1))
    campaign.does("seal")
    done = campaign.call("run")
    assert done.returncode == 1
    assert "tree plain" in done.stderr and "changed since the session began" in done.stderr
    assert len(campaign.events("run-start")) == 2
    assert len(campaign.events("run-end")) == 1


# ---- a harness of the campaign's own


@pytest.mark.parametrize(
    ("stray", "message"),
    [
        ("stray.py", "stray.py"),
        ("deep/stray.txt", "deep/stray.txt"),
        ("__pycache__/tiny.cpython-311.pyc", "tiny.cpython-311.pyc"),
    ],
)
def test_a_stray_file_of_the_harness_is_refused(tmp_path: Path, cache: Path, stray: str, message: str) -> None:
    campaign = write(tmp_path, cache, script(tmp_path / "tool"))
    path = campaign.folder / "harness" / stray
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    for command in ("seal", "check"):
        done = campaign.call(command)
        assert done.returncode == 1
        assert "files that the plan does not name" in done.stdout + done.stderr
        assert message in done.stdout + done.stderr
    assert not (campaign.folder / "seal.json").exists()


def test_a_link_or_a_missing_file_of_the_harness_is_refused(tmp_path: Path, cache: Path) -> None:
    campaign = write(tmp_path, cache, script(tmp_path / "tool"))
    path = campaign.folder / "harness" / "tiny.py"
    path.rename(tmp_path / "tiny.py")
    assert "harness files are missing" in campaign.call("seal").stderr
    path.symlink_to(tmp_path / "tiny.py")
    assert (
        "harness.files.0: expected a path below tiny, found the link 'harness/tiny.py'" in campaign.call("seal").stderr
    )


def test_a_harness_of_the_campaigns_own_is_sealed_where_it_lies(tmp_path: Path, cache: Path) -> None:
    campaign = write(tmp_path, cache, script(tmp_path / "tool"))
    before = (campaign.folder / "harness" / "tiny.py").stat()
    campaign.does("seal")
    campaign.does("seal")
    assert (campaign.folder / "harness" / "tiny.py").stat().st_ino == before.st_ino
    sealed = json.loads((campaign.folder / "seal.json").read_text())["files"]
    assert sealed["harness/tiny.py"] == sha256(campaign.folder / "harness" / "tiny.py")
    assert "deviation" not in campaign.does("verify").stdout
    (campaign.folder / "harness" / "tiny.py").write_text("")
    assert "harness/tiny.py: changed since the seal" in campaign.call("run").stderr


def test_a_source_needs_files() -> None:
    text = small.TEXT
    start = text.index("files = [", text.index("[harness]"))
    with pytest.raises(PlanError, match="a source without files"):
        parse(text[:start] + "files = []" + text[text.index("]", start) + 1 :])


def test_a_shortened_copy_takes_a_harness_of_the_campaigns_own_along(tmp_path: Path) -> None:
    from runner.new import new_from

    folder = tmp_path / "small"
    (folder / "trees").mkdir(parents=True)
    (folder / "harness").mkdir()
    (folder / "plan.toml").write_text(small.TEXT.replace('source = "workloads"', "", 1))
    for name in ("old", "new"):
        (folder / "trees" / f"{name}.txt").write_text("")
    files = Store(folder).plan().harness.files
    for name in files:
        (folder / "harness" / name).write_text(name)
    made = new_from(Store(folder), tmp_path / "quick")
    assert {path.name: path.read_text() for path in (made.folder / "harness").iterdir()} == {
        name: name for name in files
    }


# ---- switches that are lists of words


def test_a_switch_may_be_a_list_of_words() -> None:
    text = small.TEXT
    at = text.index('tree = "new"', text.index("[phases.B]"))
    plan = parse(text[:at] + 'switches = { command = ["a b", "-c", ""] }\n' + text[at:])
    assert any(arm.switches.get("command") == ("a b", "-c", "") for arm in plan.phases["B"].arms)


@pytest.mark.parametrize("value", ["[]", '["a", 1]', '[["a"]]', "{ a = 1 }"])
def test_other_lists_are_no_switches(value: str) -> None:
    text = small.TEXT
    at = text.index('tree = "new"', text.index("[phases.B]"))
    with pytest.raises(PlanError, match=r"phases\.B\.arms\.\d\.switches\.command"):
        parse(text[:at] + f"switches = {{ command = {value} }}\n" + text[at:])


def test_a_list_of_words_is_no_single_value(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.write(tmp_path, cache)
    path = campaign.folder / "plan.toml"
    text = path.read_text().replace("switches = { number = ", 'switches = { words = ["a", "b"], number = ')
    path.write_text(text.replace('"--arm", "{arm}"', '"--arm", "{switches.words}"'))
    assert "is a list of words, no single value: give {switches}" in campaign.call("plan").stderr
