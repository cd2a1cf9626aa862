"""A harness that the product has never seen, for a phase that it has never heard of. Its numbers are made up.

With a server it also proves what surrounds it: rows come from the fixture, and every process finds them as they were.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path


def ask(text: str) -> str:
    command = [os.environ["PSQL"], "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def pause() -> None:
    """Wait while the file that PAUSE names is there, having said so."""
    path = Path(os.environ.get("PAUSE", "/none"))
    if path.exists():
        path.with_name("paused").write_text(str(os.getpid()))
    while path.exists():
        time.sleep(0.01)


def odd(folder: Path) -> None:
    """What no record can hold, and what would take the place of the runner's own files."""
    (folder / "link.txt").symlink_to("/etc/hostname")
    (folder / "gone.txt").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.txt")
    (folder / "folder").mkdir()
    for name in ("folder/x.txt", "stdout.txt", "run.json", ".hidden", "a\nb"):
        (folder / name).write_text("{}")


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("case", "block", "parameters"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    parameters = json.loads(options.parameters)
    print("note: simulated")
    if options.case == "fixture":
        ask(f"CREATE TABLE entry AS SELECT n AS id FROM generate_series(1, {parameters['rows']}) n")
        print(f"rows: {ask('SELECT count(*) FROM entry')}")
        pause()
        return int(parameters.get("fail", 0))
    if "PSQL" in os.environ:
        print(f"rows: {ask('SELECT count(*) FROM entry')}")
        print(f"fsync: {ask('SHOW fsync')}")
        ask("DELETE FROM entry")  # the next process must find them again
    if options.output and parameters.get("file", ""):
        (options.output / parameters["file"]).write_text(f"{options.case} {options.block}\n")
        pause()
        if parameters.get("odd"):
            odd(options.output)
    print(f"Benchmark{options.case} 1 {1000 + int(options.block)} widgets/op")
    if options.case != "Bare":
        print(f"Benchmark{options.case} 1 7 grams")
    return 0


if __name__ == "__main__":
    sys.exit(main())
