"""Verifying the committed campaigns beside `sha256sum --check` of their manifests, in the same minute: `ratio NAME NUMBER`.

    python benchmarks/verify.py [--repeats N] [CAMPAIGN ...]

Each ratio is the time of `python -m runner verify` over sha256sum's: below 1, verify is faster. sha256sum only compares digests
with a manifest; verify also checks the seal, the journal's chain, orders, labels and the aggregate, and starts Python, whose share
is printed. Ends with exit status 1 when a campaign takes longer than the limit, or does not verify.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
LIMIT_S = 2.0
VERIFY = (sys.executable, "-m", "runner", "verify")
START_UP = (sys.executable, "-m", "runner", "--help")
PEER = ("sha256sum", "--check", "--quiet", "MANIFEST.sha256")


def seconds(command: tuple[str, ...], folder: Path, repeats: int) -> float:
    """Median wall time of some processes, after one that is not counted. Exits when one fails."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        times.append(time.perf_counter() - start)
        if done.returncode:
            sys.exit(f"{' '.join(command)} in {folder}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return statistics.median(times[1:])


def main() -> int:
    """Time, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5, help="processes of each command, of which the median counts")
    parser.add_argument(
        "campaigns", nargs="*", type=Path, metavar="CAMPAIGN", help="all with a manifest, when left out"
    )
    options = parser.parse_args()
    folders = options.campaigns or sorted(path.parent for path in (PROJECT / "data").glob("*/MANIFEST.sha256"))
    start_up, slowest = seconds(START_UP, PROJECT, options.repeats), 0.0
    print(f"seconds start-up {start_up:.2f}")
    for folder in folders:
        ours = seconds((*VERIFY, str(folder.resolve())), PROJECT, options.repeats)
        peer = seconds(PEER, folder, options.repeats)
        slowest = max(slowest, ours)
        print(f"seconds {folder.name} {ours:.2f}, of which start-up {start_up / ours:.0%}")
        print(f"ratio {folder.name} {ours / peer:.1f}")
    if slowest > LIMIT_S:
        print(f"a campaign took longer than {LIMIT_S:g} s", file=sys.stderr)
    return int(slowest > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
