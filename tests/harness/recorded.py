"""A harness that measures nothing: it prints a file that a test wrote beforehand, and copies another into its output folder.

RECORDED names the folder; the files are called <case>-<arm>-<block>.txt and .hlog. A case without a log has no second file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("case", "arm", "block"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    stem = Path(os.environ["RECORDED"]) / f"{options.case}-{options.arm}-{options.block}"
    print(stem.with_name(stem.name + ".txt").read_text(), end="")
    log = stem.with_name(stem.name + ".hlog")
    if log.exists():
        shutil.copy(log, options.output / "latency.hlog")
    return 0


if __name__ == "__main__":
    sys.exit(main())
