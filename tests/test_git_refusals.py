"""What is wrong with a commit, an overlay or a build: each refused, with where, what was found and what to do."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import gittrees, process, repositories, treekinds
from runner.errors import BenchbookError, DataError, Missing, Refused
from runner.gittrees import GitBuilt
from runner.new import new_from
from runner.planfile import parse
from runner.plantrees import GitTree
from runner.repositories import address_of
from runner.store import Store
from tests import gomodule
from tests.campaigns import Campaign
from tests.gomodule import commit, git
from tests.test_plan import problems

COPY = ("cp", "main.txt", "{binary}")  # a build that takes no time


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit, and a cache of the test's own."""
    monkeypatch.setenv("BENCHBOOK_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, {"main.txt": "one\n", "deep/file.txt": "deep\n", "bench.txt": "the commit's own\n"}, "one")
    return folder


@pytest.fixture
def harness(tmp_path: Path) -> Path:
    folder = tmp_path / "harness"
    folder.mkdir()
    (folder / "bench.txt").write_text("the harness\n")
    return folder


def head(repository: Path) -> str:
    return git(repository, "rev-parse", "HEAD")


def tree(place: Path, **changes: Any) -> GitTree:
    """A tree whose repository lies at a place, its newest commit, and a build that copies a file."""
    values: dict[str, Any] = {
        "kind": "git",
        "what": "x",
        "repository": str(place),
        "toolchain": ("cp", "--version"),
        "build": COPY,
        "binaries": ("made",),
    }
    if "commit" not in changes:
        values["commit"] = head(place)
    return GitTree.model_validate(values | changes)


def build(described: GitTree, harness: Path, name: str = "t") -> GitBuilt:
    return gittrees.materialise(name, described, harness.parent, harness)


def refusal(described: GitTree, harness: Path) -> BenchbookError:
    """The refusal, which says everything that one must say; and nothing half-made is left."""
    with pytest.raises(Refused) as raised:
        build(described, harness)
    error = raised.value
    assert error.where.startswith("tree t") and error.problem and error.expected and error.found and error.remedy
    folder = gittrees.cache_folder()
    assert [path.name for path in folder.iterdir() if path.is_dir()] == []
    return error


def test_a_clean_checkout_with_the_harness_laid_over_it(repository: Path, harness: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {harness}/ran\n")
    hook.chmod(0o755)
    (repository / "main.txt").write_text("not committed\n")
    (repository / "stray.txt").write_text("stray\n")
    built = build(tree(repository, overlay={"files": ("bench.txt",)}), harness)
    assert (built.folder / "bin" / "made").read_text() == "one\n"
    assert (built.folder / "checkout" / "bench.txt").read_text() == "the harness\n"
    assert sorted(built.files) == [
        "bin/made", "checkout/bench.txt", "checkout/deep/file.txt", "checkout/main.txt"
    ]  # fmt: skip
    assert not (harness / "ran").exists()
    stamp = (built.folder / "bin" / "made").stat().st_mtime_ns
    again = build(tree(repository, overlay={"files": ("bench.txt",)}), harness)
    assert (again.folder / "bin" / "made").stat().st_mtime_ns == stamp  # taken from the cache


def test_an_older_commit_that_only_history_leads_to_and_a_path_from_the_campaign(
    repository: Path, harness: Path
) -> None:
    first = head(repository)
    commit(repository, {"main.txt": "two\n"}, "two")
    for found, text in ((head(repository), "two\n"), (first, "one\n")):
        described = tree(repository, repository="../repository", commit=found)
        made = gittrees.materialise("t", described, harness.parent / "campaign", harness)
        assert (made.folder / "bin" / "made").read_text() == text
    for address in ("https://example.org/a/b", "git@example.org:a/b.git", "file:///a"):
        assert address_of(address, harness) == address


@pytest.fixture
def served(repository: Path) -> Iterator[str]:
    """The repository at a URL: git's own server, on loopback alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "--listen=127.0.0.1",
        f"--port={port}",
        "--export-all",
        "--reuseaddr",
        f"--base-path={repository.parent}",
    ]
    # The program itself: through `git daemon` there would be two processes to end.
    where = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    with subprocess.Popen(
        [f"{where}/git-daemon", *options, str(repository.parent)], stderr=subprocess.DEVNULL
    ) as server:
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.02)
            yield f"git://127.0.0.1:{port}/{repository.name}"
        finally:
            server.kill()


def test_a_repository_at_a_url(repository: Path, harness: Path, served: str) -> None:
    elsewhere = served.replace(f"/{repository.name}", "/nowhere")
    error = refusal(tree(repository, repository=elsewhere, commit="0123456789" * 4), harness)
    assert error.problem == "the repository cannot be fetched"
    first = head(repository)
    latest = commit(repository, {"main.txt": "two\n"}, "two")
    for found, text in ((latest, "two\n"), (first, "one\n")):  # the server names the first one nowhere
        built = build(tree(repository, repository=served, commit=found), harness)
        assert (built.folder / "bin" / "made").read_text() == text
        assert built.identity()["repository"] == served


def test_a_commit_as_the_overlay(repository: Path, harness: Path) -> None:
    first = head(repository)
    second = commit(repository, {"bench/a.txt": "a\n", "bench/b/c.txt": "c\n", "main.txt": "two\n"}, "harness")
    overlay = {"commit": second, "files": ("bench",), "into": "deep"}
    built = build(tree(repository, commit=first, overlay=overlay), harness)
    assert set(built.identity()["overlay"]) == {"deep/bench/a.txt", "deep/bench/b/c.txt"}
    assert (built.folder / "bin" / "made").read_text() == "one\n"
    error = refusal_of_other(repository, harness, overlay | {"files": ("nowhere",)})
    assert "does not have it" in error.problem


def refusal_of_other(repository: Path, harness: Path, overlay: dict[str, Any]) -> BenchbookError:
    with pytest.raises(Refused) as raised:
        build(tree(repository, overlay=overlay), harness)
    return raised.value


def test_a_commit_that_is_not_there(repository: Path, harness: Path) -> None:
    error = refusal(tree(repository, commit="0123456789" * 4), harness)
    assert error.problem == "the repository does not have this commit"
    assert error.expected == "0123456789" * 4
    blob = git(repository, "rev-parse", "HEAD:main.txt")
    assert refusal(tree(repository, commit=blob), harness).problem == "the repository does not have this commit"


def test_a_commit_that_the_server_gives_by_name_only(repository: Path, harness: Path) -> None:
    """Over the older protocol a server gives no commit that is not the end of a branch: the branches are fetched then."""
    first = head(repository)
    commit(repository, {"main.txt": "two\n"}, "two")
    build(tree(repository), harness, "newest")  # its history is cut off in the cache
    with pytest.MonkeyPatch.context() as patch:
        calls: list[list[str]] = []
        patch.setattr(repositories, "call", lambda argv, **more: refusing(calls, argv, **more))
        built = build(tree(repository, commit=first), harness)
    assert (built.folder / "bin" / "made").read_text() == "one\n"
    assert [argv for argv in calls if "--depth=1" in argv]


def refusing(calls: list[list[str]], argv: list[str], **more: Any) -> str:
    """A server that gives nothing that is asked for by its digest."""
    calls.append(argv)
    if "--depth=1" in argv:
        raise Refused("git", "Server does not allow request for unadvertised object")
    return process.call(argv, **more)


def test_a_repository_that_is_not_there(repository: Path, harness: Path) -> None:
    described = tree(repository)
    shutil.rmtree(repository)
    error = refusal(described, harness)
    assert error.problem == "the repository cannot be fetched"
    assert "does not appear to be a git repository" in error.found


@pytest.mark.parametrize(
    ("commits", "into", "problem"),
    [
        ({"link": "-> deep"}, "link", "link is a symbolic link in the commit"),
        ({"link": "-> /etc"}, "link/x", "link is a symbolic link in the commit"),
        ({"x/bench.txt": "-> /etc/hostname"}, "x", "a symbolic link in the commit has this name"),
        ({"x/bench.txt/y": "y"}, "x", "a folder in the commit has this name"),
        ({}, "main.txt", "main.txt is a file in the commit, and would have to be a folder"),
    ],
)
def test_an_overlay_that_something_stands_in_the_way_of(
    repository: Path, harness: Path, commits: dict[str, str], into: str, problem: str
) -> None:
    for name, text in commits.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            (repository / name).symlink_to(text[3:])
        else:
            (repository / name).write_text(text)
    if commits:
        commit(repository, {}, "in the way")
    assert refusal(tree(repository, overlay={"files": ("bench.txt",), "into": into}), harness).problem == problem


def test_an_overlay_that_is_no_plain_file(repository: Path, harness: Path) -> None:
    (harness / "link.txt").symlink_to("bench.txt")
    error = refusal(tree(repository, overlay={"files": ("link.txt",)}), harness)
    assert error.problem == "the overlay's own file is no plain file"
    (repository / "link.txt").symlink_to("main.txt")
    linked = commit(repository, {}, "a link")
    error = refusal(tree(repository, overlay={"files": ("link.txt",), "commit": linked}), harness)
    assert (error.problem, error.found) == ("not a plain file in the overlay's commit", "a symbolic link")
    with pytest.raises(DataError, match=r"no gone\.txt in"):
        build(tree(repository, overlay={"files": ("gone.txt",)}), harness)


def test_a_build_that_fails_shows_its_last_lines_and_where_the_log_is(repository: Path, harness: Path) -> None:
    script = "import os; [print('line', n) for n in range(40)]; print('at', os.getcwd()); raise SystemExit(7)"
    error = refusal(tree(repository, build=(sys.executable, "-c", script)), harness)
    assert error.problem == "it failed: exit status 7"
    assert "line 39" in error.found and "at {tree}/checkout" in error.found and "line 9\n" not in error.found
    (log,) = gittrees.cache_folder().glob("*.failed.log")
    assert str(log) in error.remedy
    assert log.read_text().startswith("line 0\n")


def test_a_build_that_does_not_end(repository: Path, harness: Path) -> None:
    error = refusal(tree(repository, build=("sleep", "60"), build_limit_s=0.2), harness)
    assert error.problem == "it failed: no end within 0.2 s"


def test_a_build_that_makes_something_else(repository: Path, harness: Path) -> None:
    error = refusal(tree(repository, build=("cp", "main.txt", "{bin}/other")), harness)
    assert (error.problem, error.found) == ("it ended well and did not make every binary", "no made")


def test_a_build_that_alters_the_harness(repository: Path, harness: Path) -> None:
    script = "cp main.txt $0; echo more >> bench.txt"
    described = tree(repository, overlay={"files": ("bench.txt",)}, build=("sh", "-c", script, "{binary}"))
    error = refusal(described, harness)
    assert (error.problem, error.found) == ("the build altered files of the harness", "bench.txt")


def test_a_build_sees_nothing_of_the_users_environment(
    repository: Path, harness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOFLAGS", "-race")
    described = tree(repository, build=("sh", "-c", "env > $0", "{binary}"), environment={"OWN": "{checkout}/x"})
    built = build(described, harness)
    found = dict(line.split("=", 1) for line in (built.folder / "bin" / "made").read_text().splitlines())
    assert set(found) - {"PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "HOME", "LANG", "TZ", "OWN"}
    assert found["OWN"].endswith("/checkout/x")


def test_no_toolchain(repository: Path, harness: Path) -> None:
    with pytest.raises(Missing, match="no-such-compiler in a folder of PATH"):
        build(tree(repository, toolchain=("no-such-compiler",)), harness)
    with pytest.raises(Missing, match="not installed"):
        build(tree(repository, build=("no-such-builder",)), harness)


@pytest.mark.parametrize("where", ["bin/made", "checkout/deep/file.txt"])
def test_a_file_that_was_altered(repository: Path, harness: Path, where: str) -> None:
    built = build(tree(repository), harness)
    gittrees.recheck(built)
    (built.folder / where).write_text("another\n")
    for look in (lambda: gittrees.recheck(built), lambda: build(tree(repository), harness)):
        with pytest.raises(DataError) as raised:
            look()
        assert (raised.value.found, raised.value.remedy) == (where, f"remove {built.folder}; it is made again")
    (built.folder / "identity.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be read"):
        build(tree(repository), harness)


def test_another_compiler_makes_another_tree(repository: Path, harness: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = build(tree(repository), harness).identity()
    fake = harness.parent / "programs" / "cp"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\ncase $1 in --version) echo another 1.0;; *) exec /bin/cp "$@";; esac\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    other = build(tree(repository), harness).identity()
    assert other["toolchain"]["version"] == "another 1.0"
    told = treekinds.difference(one, other)
    assert told.startswith("toolchain: sealed {") and "another 1.0" in told
    assert treekinds.difference(one, one) == ""
    assert "files of the checkout" in treekinds.difference(one, one | {"files_sha256": "x"})
    assert "kind: sealed None, found git" in treekinds.difference({"interpreter": {}, "wheels": {}}, one)


# ---- in a campaign


@pytest.fixture
def campaign(repository: Path, tmp_path: Path) -> Campaign:
    """Two commits whose builds take no time and whose processes are no benchmark: only what is before a run is looked at."""
    commits = {"one": head(repository), "two": commit(repository, {"main.txt": "two\n"}, "two")}
    made = gomodule.campaign(tmp_path, tmp_path / "cache", repository, commits)
    path = made.folder / "plan.toml"
    text = path.read_text().replace('toolchain = ["go", "version"]', 'toolchain = ["cp", "--version"]')
    text = text.replace('build = ["go", "test", "-c", "-o", "{binary}", "./codec"]', f"build = {json.dumps(COPY)}")
    path.write_text(text)
    return made


def edit(campaign: Campaign, old: str, new: str, count: int = -1) -> None:
    path = campaign.folder / "plan.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


def test_arms_with_another_harness_are_refused(campaign: Campaign) -> None:
    edit(campaign, 'into = "codec" }', 'into = "other" }', 1)
    done = campaign.call("seal")
    assert done.returncode == 1
    assert "phase G: tree two: not built with the same harness files as the other arms" in done.stderr
    assert "differs in codec/codec_test.go, other/codec_test.go" in done.stderr
    assert not (campaign.folder / "seal.json").exists()
    assert "one harness for all arms: phase G" in campaign.call("check").stdout


def test_a_harness_that_was_altered_after_the_seal_is_refused(campaign: Campaign) -> None:
    campaign.does("seal")
    (campaign.folder / "harness" / "codec_test.go").write_text("package codec\n")
    done = campaign.call("run")
    assert done.returncode == 1
    assert "harness/codec_test.go: changed since the seal" in done.stderr


def test_another_toolchain_than_the_sealed_one_is_refused(campaign: Campaign, tmp_path: Path) -> None:
    campaign.does("seal")
    fake = tmp_path / "programs" / "cp"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\ncase $1 in --version) echo another 1.0;; *) exec /bin/cp "$@";; esac\n')
    fake.chmod(0o755)
    done = campaign.call("run", environment={"PATH": f"{fake.parent}:{os.environ['PATH']}"})
    assert done.returncode == 1
    assert "tree one: this is not the tree that was sealed" in done.stderr and "another 1.0" in done.stderr


def test_commands_are_shown(campaign: Campaign) -> None:
    text = campaign.does("check", "--dry-run").stdout
    assert "fetch --quiet" in text and "checkout-index --all" in text
    assert "cp main.txt '{tree:one}/bin/codec.test'" in text
    assert "'{tree:two}/bin/codec.test' '-test.run=^$' '-test.bench=^BenchmarkEncode$/^size=512$'" in text


def test_a_shortened_copy_has_the_same_commits(campaign: Campaign, tmp_path: Path) -> None:
    path = campaign.folder / "plan.toml"
    path.write_text(path.read_text() + '\n[short]\nblocks = 2\ncases = { G = ["Encode/size=512"] }\n')
    copy = new_from(Store(campaign.folder), tmp_path / "copy")
    assert copy.plan().trees == Store(campaign.folder).plan().trees
    assert sorted(copy.files()) == ["plan.toml"]


BAD = [
    ('commit = "COMMIT"', 'commit = "abc"', "trees.one.commit", "should match pattern"),
    ('kind = "git"', 'kind = "hg"', "trees.one.kind", "expected \"packages\", \"git\" or \"programs\", found 'hg'"),
    ('what = "codec, one"', 'python = "3.11"', "trees.one.python", "unknown key"),
    ('what = "codec, one"', 'what = "x"\nrepositories = 1', "trees.one.repositories", "unknown key"),
    ('binaries = ["codec.test"]', "binaries = []", "trees.one.binaries", "at least 1 item"),
    ('binaries = ["codec.test"]', 'binaries = ["a", "a"]', "trees.one.binaries.1", "'a' is there twice"),
    ('binaries = ["codec.test"]', 'binaries = ["../a"]', "trees.one.binaries.0", "should match pattern"),
    ('files = ["codec_test.go"], into', 'files = ["x.go"], into', "trees.one.overlay.files.0", "no file of the plan's"),
    ('into = "codec"', 'into = "../codec"', "trees.one.overlay.into", "should match pattern"),
    ('into = "codec"', 'into = "a/../../codec"', "trees.one.overlay.into", "leaves its folder"),
    ('into = "codec"', 'into = "sub/.GIT/hooks"', "trees.one.overlay.into", "lies in git's own folder"),
    ('repository = "REPOSITORY"', 'repository = "--upload-pack=x"', "trees.one.repository", "should match pattern"),
    ('repository = "REPOSITORY"', 'repository = "https://a:b@c/d"', "trees.one.repository", "with a password in it"),
    ('repository = "REPOSITORY"', 'repository = "https://token@c/d"', "trees.one.repository", "with a password in it"),
    ('"-o", "{binary}"', '"-o", "{case}"', "trees.one.build.4", "unknown field {case}; expected one of bin, binary"),
    ('["go", "version"]', '["go", "{bin}"]', "trees.one.toolchain.1", "unknown field {bin}; expected none here"),
    ('["{binary}", "-test.run', '["{python}", "-test.run', "phases.G.argv.0", "tree of kind 'git', which has no {python}"),
    ("{parameters.benchtime}", "{parameters.time}", "phases.G.argv.4", "case 'Encode/size=512' has no parameter 'time'"),
    ("{client_cpus_count}", "{switches.procs}", "phases.G.environment.GOMAXPROCS", "arm 'one' has no switch 'procs'"),
    ("{client_cpus_count}", "{cpus}", "phases.G.environment.GOMAXPROCS", "unknown field {cpus}; expected one of arm, "),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "path", "message"), BAD, ids=[f"{new[:30]}" for _, new, *_ in BAD])
def test_bad_plans_are_told_with_their_place(tmp_path: Path, old: str, new: str, path: str, message: str) -> None:
    commits = {"one": "1" * 40, "two": "2" * 40}
    made = gomodule.campaign(tmp_path, tmp_path, Path("/somewhere"), commits)
    text = (made.folder / "plan.toml").read_text()
    parse(text)
    old = old.replace("COMMIT", "1" * 40).replace("REPOSITORY", "/somewhere")
    assert old in text
    found = {where: (line, told) for line, where, told in problems(text.replace(old, new, 1))}
    assert message in found[path][1]
    line, _ = found[path]
    assert new.splitlines()[-1] in text.replace(old, new, 1).splitlines()[line - 1]
