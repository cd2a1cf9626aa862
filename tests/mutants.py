"""Mutation runs: one small change of the code at a time, and whether a test notices.

    python -m tests.mutants [MODULE ...] [--work FOLDER]

mutmut makes the mutants of each module of `mutants.toml` and asks first the tests that call it in their own process, each
mutant in a process of its own; a mutant that these let live then meets the `commands` tests, which start
`python -m runner` and `python -m analysis`: those inherit the mutant. What lives after both is compared with the reasons of
`mutants.toml`. The result goes to `mutants.json`; exit 1 where a survivor has no reason, or a reason no survivor.

A mutant is known by its function and the lines that it changes, not by mutmut's number, which moves with every edit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
SETTINGS = PROJECT / "tests" / "mutants.toml"
RESULT = PROJECT / "tests" / "mutants.json"
LEFT_OUT = (
    ".git",
    ".venv",
    ".scratch",
    "_build",
    "phases",
    "local-*",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    "mutants",
)
SOURCES = ("analysis", "runner")
LIMIT_S = 300  # of the tests that start commands, for one mutant


@dataclass(frozen=True)
class Mutant:
    """One change, and what became of it."""

    module: str
    function: str
    change: str  # the lines that differ, "-old" and "+new"
    outcome: str  # killed, timeout, or survived

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells mutants apart. The same change at two places of a function is one key."""
        return self.module, self.function, self.change


def main(argv: list[str] | None = None) -> int:
    """Exit 0 when each survivor has a reason and each reason a survivor."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as analysis/labels.py; all of mutants.toml")
    parser.add_argument("--work", type=Path, help="where the copies lie; without it a temporary folder")
    options = parser.parse_args(argv)
    settings = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    modules: list[str] = options.modules or list(settings["modules"])
    known = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        work: Path = options.work or Path(folder)
        for module in modules:
            found = list(mutants_of(module, settings["modules"][module], work / module.replace("/", "-")))
            known[module] = summary(found, settings.get("reasons", []))
            write(known, settings)
    for module in modules:
        print(sentence(module, known[module]))
    unexplained = sum(not item["reason"] for module in modules for item in known[module]["survivors"])
    stale = [r for m in modules for r in known[m].get("reasons without a survivor", [])]
    for reason in stale:
        print(f"no such survivor any more: {reason}")
    return 1 if unexplained or stale else 0


def mutants_of(module: str, tests: Mapping[str, list[str]], folder: Path) -> Iterable[Mutant]:
    """Make the mutants of one module in a copy of the project, and try each."""
    prepare(module, tests["own"], tests.get("without", []), folder)
    ready = folder.with_name(f"{folder.name}-closed")  # one campaign for all mutants; see `closed` in conftest.py
    shutil.rmtree(ready, ignore_errors=True)
    argv = [Path(sys.executable).parent / "mutmut", "run", "--max-children", "1"]
    environment = os.environ | {"BENCHBOOK_TEST_CLOSED": str(ready)}
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{module}: mutmut ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
        )
    meta = json.loads((folder / "mutants" / f"{module}.meta").read_text(encoding="utf-8"))
    for name, code in meta["exit_code_by_key"].items():
        outcome = {1: "killed", 3: "killed", 0: "survived", 33: "survived"}.get(code, "timeout")
        if outcome == "survived" and tests.get("commands"):
            outcome = by_commands(name, tests["commands"], folder / "mutants")
        function, change = described(name, module, folder)
        yield Mutant(module, function, change, outcome)


def prepare(module: str, tests: list[str], without: list[str], folder: Path) -> None:
    """A copy of the project with mutmut's settings for one module."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    copied = sorted(path.name for path in folder.iterdir() if path.name not in (*SOURCES, "setup.cfg"))
    settings: dict[str, Iterable[str]] = {
        "source_paths": SOURCES,
        "only_mutate": [module],
        "also_copy": copied,
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": ["-p", "no:cacheprovider", *(f"--deselect={test}" for test in without)],
        "timeout_multiplier": ["8"],
        "timeout_constant": ["3"],
        "use_git_change_detection": ["false"],
    }
    lines = [line for key, values in settings.items() for line in (f"{key} =", *(f"    {value}" for value in values))]
    for key in (
        "timeout_multiplier",
        "timeout_constant",
        "use_git_change_detection",
    ):  # one value each, on the same line
        at = lines.index(f"{key} =")
        lines[at : at + 2] = [f"{key} = {lines[at + 1].strip()}"]
    (folder / "setup.cfg").write_text("[mutmut]\n" + "\n".join(lines) + "\n", encoding="utf-8")


def by_commands(name: str, tests: list[str], folder: Path) -> str:
    """What the tests that start commands say of one mutant."""
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"MUTANT_UNDER_TEST": name, "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{name}: pytest ended with {done.returncode}: {done.stdout.decode()[-2000:]}")
    return "killed" if done.returncode else "survived"


def described(name: str, module: str, folder: Path) -> tuple[str, str]:
    """The function and the changed lines of a mutant, from mutmut's own difference."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    here = Path.cwd()
    os.chdir(folder)
    try:
        difference = get_diff_for_mutant(name, path=module)
    finally:
        os.chdir(here)
    lines = [line for line in difference.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    function = (
        name.rpartition(".")[2].rpartition("__mutmut_")[0].removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    )
    return function, "\n".join(line[0] + line[1:].strip() for line in lines)


def summary(found: list[Mutant], reasons: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts, and each survivor with its reason."""
    (module,) = {mutant.module for mutant in found}
    counts = Counter(mutant.outcome for mutant in found)
    given = {
        (module, reason["function"], change.strip()): reason
        for reason in reasons
        if reason["module"] == module
        for change in reason["changes"]
    }
    survivors = [mutant for mutant in found if mutant.outcome == "survived"]
    stale = [f"{m} {f}: {c}" for m, f, c in given.keys() - {mutant.key for mutant in survivors}]
    return {
        "mutants": len(found),
        "killed": counts["killed"] + counts["timeout"],
        "of these by a time limit": counts["timeout"],
        "survived": counts["survived"],
        "survivors": [
            {
                "function": mutant.function,
                "change": mutant.change,
                "kind": given.get(mutant.key, {}).get("kind", ""),
                "reason": given.get(mutant.key, {}).get("reason", ""),
            }
            for mutant in survivors
        ],
        **({"reasons without a survivor": sorted(stale)} if stale else {}),
    }


def write(known: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """The result file, modules in the order of the settings."""
    ordered = {module: known[module] for module in settings["modules"] if module in known}
    RESULT.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def sentence(module: str, result: Mapping[str, Any]) -> str:
    """One line of the table."""
    kinds = Counter(item["kind"] or "without a reason" for item in result["survivors"])
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    share = 100 * result["killed"] / result["mutants"]
    return (
        f"{module}: {result['mutants']} mutants, {result['killed']} killed ({share:.1f}%); survivors: {told or 'none'}"
    )


if __name__ == "__main__":
    sys.exit(main())
