"""A process whose output is too much, or has no room."""

from __future__ import annotations

from pathlib import Path

from tests import campaigns
from tests.faults.left import nothing_left


def test_a_flood_of_output_ends_at_the_plans_limit(tmp_path: Path, cache: Path) -> None:
    """A process writes without end: the kernel stops it at rules.output_limit_mb, and the run has failed for that."""
    campaign = campaigns.write(
        tmp_path, cache, cases=campaigns.CASES[:1], blocks=2, faults="flood:one:1", output_limit_mb=1
    )
    campaign.does("seal")
    with nothing_left(campaign):
        done = campaign.call("run")
        assert done.returncode == 1, done.stderr
        assert "block 1, arm one: output limit; see" in done.stderr
        [labels] = [e for e in campaign.orders() if (e["arm"], e["block"]) == ("one", 1)]
        record = campaign.record(labels)
        assert record["outcome"] == "failed"
        assert record["reason"].startswith(
            "output limit: stdout.txt reached 1 MB (rules.output_limit_mb); stderr ends: OSError"
        )
        assert (campaign.run_folder(labels) / "stdout.txt").stat().st_size == 1_000_000
        assert sum(campaign.record(e)["outcome"] == "ok" for e in campaign.orders()) == 3
        campaign.does("verify")
