"""What changed between two sessions, or during one: host, trees, interpreter, harness; and two runners at once. All refused."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import campaigns
from tests.campaigns import Campaign, kill, wait_for
from tests.faults.left import nothing_left
from tests.test_trees import build_wheel


def with_package(parent: Path, **settings: object) -> Campaign:
    """A sealed campaign whose tree holds one package, from a wheel made here, in a cache of its own."""
    folder = parent / "wheels"
    folder.mkdir(parents=True)
    wheel = build_wheel(folder, "1.0")
    lock = f"tinypackage==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
    campaign = campaigns.write(parent, parent / "cache", cases=campaigns.CASES[:1], lock=lock, **settings)  # type: ignore[arg-type]
    campaign.does("seal", environment={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)})
    return campaign


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """A campaign whose first session ended after its first block. Not to be changed: take a copy."""
    campaign = with_package(tmp_path_factory.mktemp("begun"), blocks=3)
    runner = campaign.start("-m", "tests.faults.killer", "event:block-end:1:after", str(campaign.folder))
    _, errors = runner.communicate(timeout=60)
    assert runner.returncode == -9, errors
    assert len(campaign.trace()) == 2
    return campaign


def refused(campaign: Campaign, *texts: str, prefix: tuple[str, ...] = ()) -> None:
    """A session must be refused before anything starts, with exit status 1, a message that names these texts, no traceback."""
    trace, runs = campaign.trace(), campaign.events("run-start")
    with nothing_left(campaign):
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "runner", "run", str(campaign.folder)],
            cwd=campaign.project, env=campaign.environment(), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    for text in texts:
        assert text in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert "what to do:" in done.stderr
    assert (campaign.trace(), campaign.events("run-start")) == (trace, runs)


def has(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program} here")


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        pytest.param(("setarch", "--uname-2.6"), "kernel: sealed", marks=has("setarch")),
        pytest.param(
            ("taskset", "-c", str(min(os.sched_getaffinity(0)))),
            "siblings: sealed",
            marks=pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU"),
        ),
    ],
)
def test_another_host_between_sessions(begun: Campaign, tmp_path: Path, prefix: tuple[str, ...], text: str) -> None:
    """The second session finds another kernel, or fewer CPUs, than were sealed: refused, the difference named."""
    refused(begun.copy(tmp_path), "this is not the host that was sealed", text, prefix=prefix)


def swap_interpreter(tree: Path) -> None:
    (tree / "bin" / "python").unlink()
    (tree / "bin" / "python").symlink_to(shutil.which("true") or "")


def packages(tree: Path) -> Path:
    return next(tree.glob("lib/python*/site-packages"))


def add_package(tree: Path) -> None:
    (packages(tree) / "extra").mkdir()
    (packages(tree) / "extra" / "__init__.py").write_text("")


def change_first(pattern: str) -> Callable[[Path], None]:
    def change(tree: Path) -> None:
        path = sorted(packages(tree).rglob(pattern))[0]
        path.write_bytes(path.read_bytes() + b"#")

    return change


ALTERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "one file": (change_first("tinypackage.py"), "tinypackage.py"),
    "a package more": (add_package, "extra/__init__.py"),
    "a package less": (lambda tree: (packages(tree) / "tinypackage.py").unlink(), "tinypackage.py"),
    "compiled code": (change_first("tinypackage*.pyc"), "tinypackage"),
    "a .pth more": (lambda tree: (packages(tree) / "added.pth").write_text("import os\n"), "added.pth"),
    "a .pyc more": (lambda tree: (packages(tree) / "early.pyc").write_bytes(b"code"), "early.pyc"),
    "the interpreter": (swap_interpreter, "bin/python"),
}


@pytest.mark.parametrize("what", ALTERED)
def test_a_tree_altered_between_sessions(begun: Campaign, tmp_path: Path, what: str) -> None:
    """The tree's environment is altered after the first session: refused, the file named, nothing started."""
    copy = begun.copy(tmp_path)
    copy.cache = tmp_path / "cache"
    shutil.copytree(begun.cache, copy.cache, symlinks=True)
    alter, name = ALTERED[what]
    alter(next((copy.cache / "trees").iterdir()))
    refused(copy, "altered since it was installed", name)


@pytest.mark.parametrize("what", ["tree", "harness"])
def test_what_is_altered_during_a_session(tmp_path: Path, what: str) -> None:
    """A file of the tree, or of the harness, is altered while a run is at work: the next run is refused before it starts."""
    campaign = with_package(tmp_path, blocks=2, faults="pause:*:1")
    with nothing_left(campaign):
        runner = campaign.start(*campaign.run_command())
        wait_for(lambda: campaign.trace_path.with_name("tiny.trace.paused").exists())
        if what == "tree":
            change_first("tinypackage.py")(next((campaign.cache / "trees").iterdir()))
        else:
            with (campaign.folder / "harness" / "tiny.py").open("a") as file:
                file.write("# \n")
        campaign.trace_path.with_name("tiny.trace.go").touch()
        _, errors = runner.communicate(timeout=60)
    assert runner.returncode == 1
    expected = {"tree": ("altered since", "tinypackage.py"), "harness": ("not the harness bytes", "harness/tiny.py")}
    assert all(text in errors for text in (*expected[what], "what to do:")), errors
    assert "Traceback" not in errors
    assert len(campaign.trace()) == 1
    assert [event["outcome"] for event in campaign.events("run-end")] == ["ok"]
    assert campaign.events()[-1]["event"] == "session-end"


# -- two runners


def test_a_second_runner_is_told_the_first(tmp_path: Path, cache: Path) -> None:
    """A second runner on the same campaign: refused, with process, host and since when; the first one is not disturbed."""
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, faults="pause:*:1")
    campaign.does("seal")
    first = campaign.start(*campaign.run_command())
    try:
        wait_for(lambda: campaign.trace_path.with_name("tiny.trace.paused").exists())
        since = campaign.events("session-start")[0]["time"]
        done = campaign.call("run")
        assert done.returncode == 1
        assert f"found: process {first.pid}, of this host, at work since {since}\n" in done.stderr
        assert "what to do: wait until it ends, or end it" in done.stderr
        campaign.trace_path.with_name("tiny.trace.go").touch()
        _, errors = first.communicate(timeout=60)
    finally:
        kill(first)
    assert first.returncode == 0, errors
    assert len(campaign.trace()) == 4


def test_a_stale_lock_blocks_nobody(tmp_path: Path, cache: Path) -> None:
    """A runner that is stopped blocks the next; killed, it does not, though nobody took its lock away."""
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, faults="pause:*:1")
    campaign.does("seal")
    with nothing_left(campaign):
        first = campaign.start(*campaign.run_command())
        wait_for(lambda: campaign.trace_path.with_name("tiny.trace.paused").exists())
        first.send_signal(signal.SIGSTOP)
        assert f"process {first.pid}, of this host" in campaign.call("run").stderr
        kill(first)
        campaign.trace_path.with_name("tiny.trace.go").touch()
        campaign.does("run")
        campaign.does("verify")
