"""A disk that fills up while a campaign is under way, on a small file system of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import campaigns

SCRIPT = """
parent=$1 size=$2 python=$3
mkdir "$parent/small" && mount -t tmpfs -o "size=$size" small "$parent/small" && cp -r "$parent/tiny" "$parent/small/"
"$python" -m runner run "$parent/small/tiny" ; echo "first $?"
mount -o remount,size=100m "$parent/small"
"$python" -m runner run "$parent/small/tiny" ; echo "second $?"
"$python" -m runner verify "$parent/small/tiny" ; echo "verify $?"
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_full_disk_is_an_interruption_that_the_next_session_mends(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.write(tmp_path, cache, blocks=4)
    campaign.does("seal")
    pages = sum(-(-path.stat().st_size // 4096) * 4 if path.is_file() else 0 for path in campaign.folder.rglob("*"))
    # The mount is in a namespace of the command's own, and goes with it.
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", str(tmp_path), f"{pages + 100}k", sys.executable],
        cwd=campaigns.PROJECT,
        env=campaign.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "first 1\n" in done.stdout, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "second 0\n" in done.stdout, done.stderr
    assert "no problems\nverify 0\n" in done.stdout
