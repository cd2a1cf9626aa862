"""The table of `make coverage`: lines and branches by module, of the runner and of what decides about labels and numbers.

    python -m tests.coverage_table

Reads the combined data of coverage. Exit 1 where the runner, or one of the four modules of the analysis, has less than
95% of its lines or of its branches taken.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
ANALYSIS = tuple(f"analysis/{name}.py" for name in ("labels", "estimands", "intervals", "claims"))
ENOUGH = 95.0  # percent, of lines and of branches
Counts = tuple[int, int, int, int]  # lines taken, lines, branches taken, branches


def main() -> int:
    """Print the table; exit 0 when there is enough of everything."""
    argv = [sys.executable, "-m", "coverage", "json", "-q", "-o", "-"]
    done = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, check=True)
    modules = counts(json.loads(done.stdout)["files"])
    runner = [name for name in modules if name.startswith("runner/")]
    rows = [(name, modules[name]) for name in (*runner, *ANALYSIS)]
    groups = [("runner/", total(modules[name] for name in runner)), *((name, modules[name]) for name in ANALYSIS)]
    print(f"{'':32}{'lines':>14}{'':>8}{'branches':>14}")
    for name, found in [*rows, groups[0]]:
        print(line(name, found))
    short = [name for name, found in groups if min(percent(*found[:2]), percent(*found[2:])) < ENOUGH]
    print(f"less than {ENOUGH:g}%: {', '.join(short) or 'none'}")
    return 1 if short else 0


def counts(files: Mapping[str, Any]) -> dict[str, Counts]:
    """What coverage counted, by module."""
    keys = ("covered_lines", "num_statements", "covered_branches", "num_branches")
    return {name: tuple(file["summary"][key] for key in keys) for name, file in sorted(files.items())}  # type: ignore[misc]


def total(found: Iterable[Counts]) -> Counts:
    """The sums."""
    return tuple(map(sum, zip(*found, strict=True)))  # type: ignore[return-value]


def percent(taken: int, there: int) -> float:
    """The share taken; a module without branches has all of them."""
    return 100 * taken / there if there else 100.0


def line(name: str, found: Counts) -> str:
    """One row."""
    lines, branches = found[:2], found[2:]
    return "".join(
        [f"{name:32}"]
        + [f"{f'{taken} of {there}':>14}{percent(taken, there):7.1f}%" for taken, there in (lines, branches)]
    )


if __name__ == "__main__":
    sys.exit(main())
