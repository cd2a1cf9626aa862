"""How often does a comparison of two identical commands claim a difference: hyperfine's, and ours?

    python benchmarks/against_hyperfine.py --repetitions 40 --budget-s 15

In each repetition both tools compare one command with itself, one after the other, each within the same wall time, and
take turns in going first. Ours is a whole campaign: `new --template command`, `seal`, `run` and `estimates`, as a user calls
them. Both budgets follow from a pilot that times the command and the campaign's own share; actual times are reported.

A difference is claimed
  hyperfine-printed   when the printed "R ± S times faster" has R - S above 1: its own words, with a standard deviation
  hyperfine-welch     when Welch's t test on its exported times has p below 0.05
  product-t           when the t interval (95%, over blocks) excludes 1: what a page calls a difference
  product-percentile  when the percentile interval excludes 1: what stands beside it

Each should claim one in twenty of the times at most. hyperfine is called as its users call it, without a shell (-N) and not
bound to CPUs; the campaign binds its processes to the client's CPUs, as it always does.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
BLOCKS, ARMS, WARMUP = 8, 2, 1  # of the template
PILOT = 20  # executions that the command's own time is taken from
LEAST_RUNS = 10  # of hyperfine, as its own default has it
STEP_LIMIT_S = 600  # of any one process of this script
RULES = ("hyperfine-printed", "hyperfine-welch", "product-t", "product-percentile")
_PRINTED = re.compile(r"([0-9.]+) ± ([0-9.]+) times faster than")


@dataclass(frozen=True)
class Budget:
    """How much each tool is asked for, so that both take the same wall time."""

    command_s: float  # one execution
    campaign_s: float  # a campaign's own share: everything but the executions
    runs: int  # hyperfine's, for each of the two commands
    repeats: int  # the campaign's, in each process


def budget(command_s: float, campaign_s: float, budget_s: float) -> Budget:
    """Divide a wall time. Raises ValueError when it does not hold one repeat of the campaign."""
    processes = BLOCKS * ARMS
    repeats = math.floor((budget_s - campaign_s) / (processes * command_s)) - WARMUP
    if repeats < 1:
        least = campaign_s + processes * (WARMUP + 1) * command_s
        raise ValueError(f"--budget-s: expected at least {least:.1f}, found {budget_s:g}")
    runs = math.floor(budget_s / (ARMS * command_s)) - WARMUP
    return Budget(command_s, campaign_s, max(runs, LEAST_RUNS), repeats)


def printed_difference(text: str) -> tuple[float, float]:
    """Ratio and what stands behind its ±, from hyperfine's summary. Raises ValueError."""
    found = _PRINTED.search(text)
    if not found:
        raise ValueError(f"no 'times faster than' in what hyperfine printed: {text[-400:]!r}")
    return float(found[1]), float(found[2])


def excludes_1(interval: Sequence[float]) -> bool:
    """Whether an interval of a ratio lies on one side of 1."""
    return interval[0] > 1 or interval[1] < 1


def clopper_pearson(count: int, total: int) -> tuple[float, float]:
    """The exact 95% interval of a share."""
    from scipy.stats import binomtest

    found = binomtest(count, total).proportion_ci(0.95, "exact")
    return float(found.low), float(found.high)


def call(argv: Sequence[str], **more: Any) -> tuple[str, float]:
    """Run a command to its end: its standard output, and how long it took in s."""
    start = time.perf_counter()
    done = subprocess.run(
        list(argv), capture_output=True, text=True, cwd=PROJECT, timeout=STEP_LIMIT_S, check=False, **more
    )
    if done.returncode:
        raise SystemExit(f"{shlex.join(argv)}\nended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout, time.perf_counter() - start


def with_hyperfine(command: str, runs: int, folder: Path) -> dict[str, Any]:
    """One comparison by hyperfine."""
    from scipy.stats import ttest_ind

    exported = folder / "hyperfine.json"
    argv = ["hyperfine", "-N", "--style", "basic", "--warmup", str(WARMUP), "--runs", str(runs)]
    text, wall = call([*argv, "--export-json", str(exported), command, command])
    first, second = (result["times"] for result in json.loads(exported.read_text())["results"])
    ratio, spread = printed_difference(text)
    p = float(ttest_ind(first, second, equal_var=False).pvalue)
    return {
        "wall_s": wall,
        "ratio": statistics.fmean(second) / statistics.fmean(first),
        "printed": [ratio, spread],
        "welch_p": p,
        "claims": {"hyperfine-printed": ratio - spread > 1, "hyperfine-welch": p < 0.05},
    }


def with_product(command: str, repeats: int, folder: Path, name: str) -> dict[str, Any]:
    """One comparison by a campaign, from an empty folder to its estimates."""
    campaign = folder / name
    runner = [sys.executable, "-m", "runner"]
    arms = ["--command", command, "--command", command, "--name", "one", "--name", "two"]
    walls = [call([*runner, "new", str(campaign), "--template", "command", *arms])[1]]
    path = campaign / "plan.toml"
    text = path.read_text()
    # No waiting for a quiet host: the budget could not be kept. A busy block is marked, and counts like any other.
    for key, value in (("repeats", repeats), ("quiet_wait_s", 0)):
        text, count = re.subn(rf"^{key} = \d+", f"{key} = {value}", text, count=1, flags=re.M)
        assert count == 1, key
    path.write_text(text)
    walls += [call([*runner, "seal", str(campaign)])[1], call([*runner, "run", str(campaign)])[1]]
    estimates = [sys.executable, "-m", "analysis", "estimates", str(campaign), "--phase", "T", "--format", "json"]
    found, wall = call(estimates)
    [estimate] = [one for one in json.loads(found)["estimates"] if one["metric"] == "ns/op"]
    return {
        "wall_s": sum(walls) + wall,
        "ratio": estimate["point"],
        "t": estimate["t"],
        "percentile": estimate["percentile"],
        "warnings": sorted({warning["kind"] for warning in estimate["warnings"]}),
        "claims": {
            "product-t": excludes_1(estimate["t"]),
            "product-percentile": excludes_1(estimate["percentile"]),
        },
    }


def pilot(command: str, folder: Path) -> tuple[float, float]:
    """How long one execution takes, and a campaign without its executions, in s."""
    times = []
    for _ in range(PILOT):
        start = time.perf_counter()
        subprocess.run(shlex.split(command), stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    typical = statistics.median(times)
    whole = with_product(command, 1, folder, "pilot")["wall_s"]
    return typical, max(0.0, whole - BLOCKS * ARMS * (WARMUP + 1) * typical)


def repetition(number: int, command: str, asked: Budget, folder: Path) -> dict[str, Any]:
    """Both tools once; which goes first alternates."""
    order = ("hyperfine", "product") if number % 2 == 0 else ("product", "hyperfine")
    found: dict[str, Any] = {"first": order[0]}
    for tool in order:
        if tool == "hyperfine":
            found[tool] = with_hyperfine(command, asked.runs, folder)
        else:
            found[tool] = with_product(command, asked.repeats, folder, f"repetition-{number}")
            shutil.rmtree(folder / f"repetition-{number}")
    return found


def summary(repetitions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Shares of repetitions that claim a difference, by rule, and what both took."""
    claims = [{**one["hyperfine"]["claims"], **one["product"]["claims"]} for one in repetitions]
    counts = {rule: sum(claim[rule] for claim in claims) for rule in RULES}
    total = len(repetitions)
    walls = {tool: statistics.median(one[tool]["wall_s"] for one in repetitions) for tool in ("hyperfine", "product")}
    return {
        "repetitions": total,
        "claims": counts,
        "shares": {rule: count / total for rule, count in counts.items()},
        "intervals": {rule: clopper_pearson(count, total) for rule, count in counts.items()},
        "median_wall_s": walls,
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """The summary as `ratio <name> <number>`, each with a line that says more."""
    told = []
    for rule in RULES:
        low, high = found["intervals"][rule]
        told.append(
            f"# {rule}: {found['claims'][rule]} of {found['repetitions']}, exact 95% interval [{low:.3f}, {high:.3f}]"
        )
        told.append(f"ratio false-differences/{rule} {found['shares'][rule]:.4f}")
    walls = found["median_wall_s"]
    told.append(f"# median wall time: hyperfine {walls['hyperfine']:.1f} s, product {walls['product']:.1f} s")
    told.append(f"ratio wall/product-over-hyperfine {walls['product'] / walls['hyperfine']:.4f}")
    return told


def default_command() -> str:
    """About 30 ms of arithmetic in an interpreter that loads next to nothing."""
    return shlex.join([os.path.realpath(sys.executable), "-I", "-S", "-c", "sum(range(10**6))"])


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 done, 1 something failed or is missing, 2 wrong use."""
    parser = argparse.ArgumentParser(description="A command against itself, by hyperfine and by this product.")
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--budget-s", type=float, default=15.0, help="wall time of each tool in each repetition")
    parser.add_argument("--command", default=default_command(), help="what is compared with itself")
    parser.add_argument("--json", type=Path, default=Path("against_hyperfine.json"), help="where the result goes")
    options = parser.parse_args(argv)
    if not 1 <= options.repetitions <= 1000 or not 0 < options.budget_s <= STEP_LIMIT_S:
        parser.error(f"expected 1 to 1000 repetitions and a budget of at most {STEP_LIMIT_S} s")
    if shutil.which("hyperfine") is None:
        print("hyperfine is missing: install the package hyperfine", file=sys.stderr)
        return 1
    version = call(["hyperfine", "--version"])[0].strip()
    with tempfile.TemporaryDirectory(prefix="against-hyperfine-") as name:
        try:
            asked = budget(*pilot(options.command, Path(name)), options.budget_s)
        except ValueError as error:
            parser.error(str(error))
        minutes = options.repetitions * 2 * options.budget_s / 60
        print(f"{version}; {asked}; about {minutes:.0f} minutes", file=sys.stderr)
        repetitions = []
        for number in range(options.repetitions):
            repetitions.append(repetition(number, options.command, asked, Path(name)))
            print(f"repetition {number + 1} of {options.repetitions}", file=sys.stderr)
    found = summary(repetitions)
    document = {
        "hyperfine": version,
        "command": [os.path.basename(word) for word in shlex.split(options.command)],
        "budget_s": options.budget_s,
        "asked": vars(asked),
        "rules": dict(zip(RULES, ("R - S > 1 as printed", "Welch's t, p < 0.05", "t interval excludes 1",
                                  "percentile interval excludes 1"), strict=True)),
        **found,
        "each": repetitions,
    }  # fmt: skip
    options.json.write_text(json.dumps(document, indent=1) + "\n")
    print(*lines(found), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
