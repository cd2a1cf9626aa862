"""Memory that runs out, in a real memory cgroup (v1 or v2): a failed run with its cause, never an interruption."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner import containment, host
from tests import campaigns
from tests.faults.left import nothing_left

LIMIT = 160_000_000


def memory_group() -> Path | None:
    """The folder of this process's own memory cgroup, where a limited one can be made."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        folder = containment.folder_of("memory", path) if "memory" in kinds.split(",") else None
        if folder and os.access(folder, os.W_OK):
            return folder
    group = containment.own_group()
    if group and "memory" in (group / "cgroup.subtree_control").read_text().split() and os.access(group, os.W_OK):
        return group
    return None


@pytest.fixture
def limited() -> Iterator[Path]:
    """A memory cgroup with little in it, empty at the end."""
    parent = memory_group()
    if parent is None:
        pytest.skip("no memory cgroup can be made here: no root, or no memory controller")
    group = parent / f"tests-{os.getpid()}"
    group.mkdir()
    try:
        limits = ["memory.max"] if (group / "memory.max").exists() else ["memory.limit_in_bytes"]
        for name in [*limits, "memory.memsw.limit_in_bytes", "memory.swap.max"]:
            with contextlib.suppress(OSError):
                (group / name).write_text(str(0 if name == "memory.swap.max" else LIMIT))
        yield group
        assert (group / "cgroup.procs").read_text() == "", "a process is left in the cgroup"
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            os.kill(int(pid), 9)
        group.rmdir()


JOIN = """
import sys
from pathlib import Path
from runner import __main__ as command
Path(sys.argv[1]).write_text("0")
command.main(["run", sys.argv[2]], prog_name="python -m runner")
"""


@pytest.mark.parametrize(("fault", "how"), [("eat", "ended by SIGKILL"), ("child-eats", "exit status 1")])
def test_out_of_memory_is_a_failed_run(tmp_path: Path, cache: Path, limited: Path, fault: str, how: str) -> None:
    """A process, or its child, eats up the memory of the runner's cgroup: failed, out of memory; the others go on."""
    campaign = campaigns.write(tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, faults=f"{fault}:one:1")
    campaign.does("seal")
    with nothing_left(campaign):
        done = campaign.python("-c", JOIN, str(limited / "cgroup.procs"), str(campaign.folder))
        assert done.returncode == 1, done.stderr
        assert "failed: phase T, case Load, block 1, arm one: out of memory; see" in done.stderr
        outcomes = {(e["arm"], e["block"]): campaign.record(e) for e in campaign.orders()}
        eaten = outcomes.pop(("one", 1))
        assert eaten["outcome"] == "failed"
        assert eaten["reason"].startswith(f"out of memory: {how}")
        before, after = (eaten["counters"][when] for when in ("before", "after"))
        assert after["group_oom_kills"] > before["group_oom_kills"]
        assert after["oom_kills"] is None or after["oom_kills"] > before["oom_kills"]
        assert {record["outcome"] for record in outcomes.values()} == {"ok"}
        assert campaign.events("block-void") == []
        assert campaign.events()[-1]["event"] == "close"
        campaign.does("verify")


def test_the_counter_of_a_process_in_a_limited_group(limited: Path) -> None:
    """A process is killed for memory: the counter of its own cgroup rises, and that of this process's cgroup does not."""

    def killed(folder: Path) -> str:
        text = "".join(
            (folder / name).read_text() for name in ("memory.oom_control", "memory.events") if (folder / name).exists()
        )
        return next(line for line in text.splitlines() if line.startswith("oom_kill "))

    own, before = host.group_oom_kills(), killed(limited)
    eat = "import sys, os\nopen(sys.argv[1], 'w').write('0')\neaten = []\nwhile True: eaten.append(os.urandom(1 << 20))"
    done = subprocess.run([sys.executable, "-c", eat, str(limited / "cgroup.procs")], check=False, timeout=60)
    assert done.returncode == -9
    assert (before, killed(limited)) == ("oom_kill 0", "oom_kill 1")
    assert host.group_oom_kills() == own
