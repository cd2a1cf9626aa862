"""The command line: what each command prints, its exit status, and that a user without rights can work."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import campaigns
from tests.campaigns import PROJECT, Campaign

GOLDEN = Path(__file__).parent / "golden"
COMMANDS = ("adopt", "amend", "check", "close", "conform", "new", "plan", "run", "seal", "status", "verify")


@pytest.fixture
def campaign(sealed: Campaign, tmp_path: Path) -> Campaign:
    return sealed.copy(tmp_path)


def test_help_lists_every_command(campaign: Campaign) -> None:
    done = campaign.python("-m", "runner", "--help")
    assert done.returncode == 0
    assert done.stdout == (GOLDEN / "runner-help.txt").read_text()
    listed = re.findall(r"^  (\w+)  ", done.stdout.partition("Commands:")[2], re.M)
    from runner.__main__ import main

    assert tuple(listed) == COMMANDS == tuple(sorted(main.commands))


@pytest.mark.parametrize(
    "argv",
    [
        ["nonsense"],
        ["run"],
        ["run", "{campaign}", "--phases", "T"],
        ["run", "no/such/folder"],
        ["verify", "{campaign}/plan.toml"],
    ],
)
def test_wrong_use_is_status_2(campaign: Campaign, argv: list[str]) -> None:
    done = campaign.python("-m", "runner", *(part.format(campaign=campaign.folder) for part in argv))
    assert done.returncode == 2
    assert "Usage: python -m runner" in done.stderr
    assert done.stdout == ""


def test_a_folder_that_is_no_campaign(tmp_path: Path, campaign: Campaign) -> None:
    for command in ("seal", "run", "verify"):
        done = campaign.python("-m", "runner", command, str(tmp_path / "tiny" / "trees"))
        assert done.returncode == 2
        assert "not a campaign folder" in done.stderr


def test_plan_shows_the_schedule(campaign: Campaign) -> None:
    text = campaign.does("plan").stdout
    assert "campaign tiny: A tiny campaign\n12 runs in 1 phase(s)" in text
    for case in campaigns.CASES:
        orders: dict[int, list[str]] = {}
        for entry in campaign.orders():
            if entry["case"] == case:
                orders.setdefault(entry["block"], []).append(entry["arm"])
        shown = next(line for line in text.splitlines() if line.startswith(f"    {case} ") and "|" in line)
        assert shown.split(maxsplit=1)[1] == " | ".join(" ".join(arms) for arms in orders.values())


def test_status_of_a_draft_a_sealed_and_a_closed_campaign(
    campaign: Campaign, closed: Campaign, tmp_path: Path, cache: Path
) -> None:
    draft = campaigns.write(tmp_path / "draft", cache)
    assert draft.does("status").stdout == "draft: not sealed yet\n"
    assert json.loads(draft.does("status", "--json").stdout) == {"state": "draft"}
    assert draft.does("verify").stdout.startswith("note: not sealed yet")
    text = campaign.does("status").stdout
    assert text.startswith("sealed\n")
    assert re.search(r"^planned +12$", text, re.M)
    assert "outstanding       6 blocks" in text
    found = json.loads(closed.does("status", "--json").stdout)
    assert found["closed"] is True
    assert found["runs"] == {
        "ok": 18,
        "failed": 0,
        "interrupted": 0,
        "void": 0,
        "stopped": 0,
        "running": 0,
        "planned": 0,
    }
    assert not re.search(r"\d{4}\.\d", closed.does("status").stdout)  # never a value


def test_check_is_ready_or_says_why_not(campaign: Campaign, tmp_path: Path, cache: Path) -> None:
    text = campaign.does("check").stdout
    for what in ("CPUs of the plan", "network of phase T", "programs", "engine", "seal", "host", "tree plain"):
        assert f"{what}: ready\n" in text
    other = campaigns.write(tmp_path / "other", cache, python="3.99")
    plan = other.folder / "plan.toml"
    plan.write_text(re.sub(r'client = "\d+"', 'client = "4000"', plan.read_text()))
    done = other.call("check")
    assert done.returncode == 1
    assert "CPUs of the plan: plan: host.cpus.client" in done.stdout
    assert "what to do: install Python 3.99" in done.stdout
    assert "network of phase T: ready" in done.stdout
    with (campaign.folder / "harness" / "tiny.py").open("a") as file:
        file.write("#\n")
    done = campaign.call("check")
    assert (done.returncode, "harness/tiny.py: changed since the seal" in done.stdout) == (1, True)


def test_dry_run_prints_a_command_for_each_outstanding_run_and_executes_none(campaign: Campaign) -> None:
    before = {path: path.stat().st_mtime_ns for path in campaign.folder.rglob("*")}
    text = campaign.does("check", "--dry-run").stdout
    runs = [line for line in text.splitlines() if "{harness}/tiny.py" in line]
    shown = [tuple(re.search(rf"--{key} (\S+)", line)[1] for key in ("case", "block", "arm")) for line in runs]  # type: ignore[index]
    assert shown == [(e["case"], str(e["block"]), e["arm"]) for e in campaign.orders()]
    assert all(line.split("env -i ")[1].startswith("PATH=") for line in runs)
    assert "{tree:plain}/bin/python" in runs[0]
    assert "# tree plain" in text
    assert str(campaign.folder) not in text.replace(str(campaign.trace_path), "")
    assert not campaign.trace()
    assert {path: path.stat().st_mtime_ns for path in campaign.folder.rglob("*")} == before


def test_dry_run_leaves_out_what_is_done(closed: Campaign) -> None:
    assert "tiny.py" not in closed.does("check", "--dry-run").stdout


def test_close_refuses_while_something_is_outstanding(campaign: Campaign) -> None:
    done = campaign.call("close")
    assert done.returncode == 1
    assert "6 blocks are outstanding" in done.stderr
    assert "first: phase T, case Load, block 1" in done.stderr
    assert not (campaign.folder / "MANIFEST.sha256").exists()


def test_an_unknown_phase_is_refused(campaign: Campaign) -> None:
    done = campaign.call("run", "--phase", "Z")
    assert done.returncode == 2
    assert "no phase 'Z' in the plan\n  expected: T\n" in done.stderr
    assert f"what to do: python -m runner run {campaign.folder} --phase T\n" in done.stderr
    assert [event["event"] for event in campaign.events()] == ["sealed"]


def test_a_draft_stays_a_draft(tmp_path: Path, cache: Path) -> None:
    draft = campaigns.write(tmp_path, cache)
    for command in ("run", "close"):
        done = draft.call(command)
        assert done.returncode == 1
        assert "this campaign is not sealed" in done.stderr
    assert sorted(path.name for path in draft.folder.iterdir()) == ["plan.toml", "trees"]
    assert draft.does("verify").stdout.startswith("note: not sealed yet")


def test_what_to_do_is_a_command_that_works(campaign: Campaign, tmp_path: Path, cache: Path) -> None:
    """The folder as one types it: below the current directory, or its full path; quoted where it must be."""

    def below(folder: Path, command: str, here: Path) -> str:
        environment = campaign.environment({"PYTHONPATH": str(PROJECT)})
        argv = [sys.executable, "-m", "runner", command, str(folder)]
        done = subprocess.run(argv, cwd=here, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr.rpartition("what to do: ")[2].strip()

    draft = campaigns.write(tmp_path / "a folder", cache)
    assert below(draft.folder, "run", tmp_path) == "python -m runner seal 'a folder/tiny'"
    assert below(draft.folder, "close", draft.folder) == "python -m runner seal ."
    assert below(draft.folder, "close", PROJECT) == f"python -m runner seal '{draft.folder}'"
    assert below(campaign.folder, "close", tmp_path) == "python -m runner run tiny"


def test_new_refuses_a_plan_that_cannot_be_shortened(campaign: Campaign, tmp_path: Path) -> None:
    done = campaign.python("-m", "runner", "new", str(tmp_path / "short"), "--from", str(campaign.folder))
    assert done.returncode == 1
    assert "no [short] table" in done.stderr
    assert not (tmp_path / "short").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_folder_that_cannot_be_written_to_is_a_message(campaign: Campaign) -> None:
    """Read-only by a mount of the command's own, which goes with it."""
    mount = ["unshare", "--mount", "sh", "-c", 'mount --bind -o ro "$1" "$1" && shift && exec "$@"', "sh"]
    done = subprocess.run(
        [*mount, str(campaign.folder), sys.executable, "-m", "runner", "run", str(campaign.folder)],
        cwd=PROJECT,
        env=campaign.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert re.search(r"error: .*journal\.jsonl: Read-only file system", done.stderr)
    assert "Traceback" not in done.stderr


# -- without root


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may work in."""
    folder = Path(tempfile.mkdtemp(prefix="benchbook-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="no Python that another user may execute")
def test_a_user_without_rights_over_loopback(open_folder: Path) -> None:
    """As `nobody`, with the system's Python and this environment's packages, a real PostgreSQL campaign."""
    command = ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if version != f"{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip(f"the system's Python is {version}, the packages here are for another")
    from runner.engines.postgres import binaries

    campaign = campaigns.write(
        open_folder,
        open_folder / "cache",
        blocks=2,
        cases=campaigns.CASES[:1],
        engine=campaigns.POSTGRES.format(storage="memory", settings=""),
        network="loopback",
        environment={"PSQL": str(binaries("18") / "psql")},
    )
    scripts = open_folder / "venv" / "bin"
    user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]
    for path in (campaign.folder, campaign.folder / "trees"):
        path.chmod(0o777)
    environment = {"PATH": os.environ["PATH"], "HOME": str(open_folder), "BENCHBOOK_CACHE": str(open_folder / "cache")}

    def call(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*user, *argv], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)

    def does(*argv: str) -> None:
        done = call(*argv)
        assert done.returncode == 0, done.stdout + done.stderr

    does("/usr/bin/python3", "-m", "venv", "--without-pip", str(open_folder / "venv"))
    shutil.copy(Path(sysconfig.get_path("scripts")) / "uv", scripts / "uv")
    packages = open_folder / "venv" / "lib" / f"python{version}" / "site-packages"
    (packages / "all.pth").write_text(sysconfig.get_path("purelib") + "\n")
    left = set(Path("/dev/shm").glob("benchbook-*"))
    for command in ("check", "seal", "run", "verify"):
        does(str(scripts / "python"), "-B", "-m", "runner", command, str(campaign.folder))
    assert len(campaign.trace()) == 4
    record = campaign.record(campaign.orders()[0])
    assert record["network"] == "loopback"
    assert json.loads((campaign.folder / "host.json").read_text())["details"]["root"] is False
    assert set(Path("/dev/shm").glob("benchbook-*")) == left
    engine = campaigns.POSTGRES.format(storage="memory", settings="")
    veth = campaigns.write(open_folder / "other", open_folder / "cache", engine=engine, network="veth")
    done = call(str(scripts / "python"), "-B", "-m", "runner", "check", str(veth.folder))
    assert done.returncode == 1
    assert "network namespaces need root" in done.stdout
