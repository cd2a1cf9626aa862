"""A tiny but real campaign with a phase that has latency logs, counts and a null contrast; its numbers are made up."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from pathlib import Path

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogWriter

from tests import campaigns
from tests.campaigns import Campaign

PERCENTILES = (50, 90, 99, 99.9)
PHASE = """
[phases.L]
title = "Latencies"
question = "How long does it take?"
argv = ["{{python}}", "-B", "{{harness}}/recorded.py", "--case", "{{case}}", "--arm", "{{arm}}", "--block", "{{block}}",
  "--output", "{{output}}"]
environment = {{ RECORDED = "{folder}" }}
outputs = ["latency.hlog"]
blocks = 3
repeats = 2
order_seed = 5
primary_metric = "ns/op"
arms = [{{ name = "left", tree = "plain" }}, {{ name = "right", tree = "plain" }}]
metrics = [
  {{ unit = "ns/op", better = "lower", per = "repeat", scope = "mean latency" }},
  {{ unit = "p50-ns", better = "lower", per = "run", scope = "from the log", cases = ["get"] }},
  {{ unit = "p99.9-ns", better = "lower", per = "run", scope = "from the log", cases = ["get"] }},
  {{ unit = "max-ns", better = "lower", per = "run", scope = "from the log", cases = ["get"] }},
  {{ unit = "allocs/op", better = "lower", per = "run", scope = "counted apart", counted = true, cases = ["codec"] }},
]
contrasts = [{{ numerator = "right", denominator = "left", what = "the same under another name" }}]
holm = {{ metrics = ["ns/op", "p50-ns"], contrasts = ["right/left"] }}
covariates = [
  {{ name = "statements-per-op", expected = "varying", what = "statements", unit = "statements" }},
  {{ name = "bytes-per-op", expected = "varying", what = "bytes received", unit = "B" }},
]
cases = [
  {{ name = "get", what = "with a log", expected_s = 0.1, parameters = {{ workers = 4 }} }},
  {{ name = "codec", what = "without one", expected_s = 0.1, outputs = [] }},
]

[[phases.L.claims]]
id = "L1"
text = "All of them."
metric = "p50-ns"
contrast = "right/left"
cases = "all"
holds = {{ point_within = [0.5, 2.0] }}
"""


def histogram(values: Sequence[int]) -> HdrHistogram:
    """A histogram of values in ns, three significant digits."""
    made = HdrHistogram(1, 60_000_000_000, 3)
    for value in values:
        assert made.record_value(value)
    return made


def log(groups: dict[str, Sequence[int]]) -> tuple[bytes, HdrHistogram]:
    """A latency log with one interval for each tag, and the histogram of all values."""
    file, whole = io.StringIO(), histogram([])
    writer = HistogramLogWriter(file)
    writer.output_comment("[Histogram log format version 1.3]")
    writer.output_legend()
    for tag, values in groups.items():
        made = histogram(values)
        file.write(f"Tag={tag}," if tag else "")
        writer.output_interval_histogram(made, max_value_unit_ratio=1.0)
        whole.add(made)
    return file.getvalue().encode(), whole


def latencies(number: int, count: int = 300) -> list[int]:
    """Made-up latencies in ns, around half a millisecond and with a tail."""
    draw = random.Random(number)
    return [int(draw.lognormvariate(13.1, 0.4)) for _ in range(count)]


def write_run(folder: Path, case: str, arm: str, block: int) -> None:
    """What the process with these labels is to print and to write."""
    number = 100 * block + 10 * (arm == "right")
    statements = 2 if case == "get" else 3 + (block == 2)
    lines = [f"statements-per-op: {statements}", f"bytes-per-op: {1234567 if arm == 'left' else 12.5}"]
    groups = {f"repeat-{r}-worker-{w}": latencies(number + 2 * r + w) for r in range(2) for w in range(2)}
    for repeat in range(2):
        values = [v for tag, group in groups.items() if tag.startswith(f"repeat-{repeat}") for v in group]
        lines.append(f"Benchmark{case} 600 {sum(values) / len(values):.1f} ns/op")
    if case == "get":
        data, whole = log(groups)
        (folder / f"{case}-{arm}-{block}.hlog").write_bytes(data)
        told = f"{whole.get_value_at_percentile(50)} p50-ns {whole.get_value_at_percentile(99.9)} p99.9-ns"
        lines.append(f"Benchmark{case} 1200 {told} {whole.get_max_value()} max-ns")
    else:
        lines.append(f"Benchmark{case} 1200 {100 + block / 1000} allocs/op")
    (folder / f"{case}-{arm}-{block}.txt").write_text("\n".join(lines) + "\n")


def write(parent: Path, cache: Path) -> Campaign:
    """The campaign's plan, and the files that its processes will print."""
    folder = parent / "files"
    folder.mkdir()
    for case in ("get", "codec"):
        for arm in ("left", "right"):
            for block in (1, 2, 3):
                write_run(folder, case, arm, block)
    campaign = campaigns.write(parent, cache, name="recorded", blocks=2, cases=["Load"])
    path = campaign.folder / "plan.toml"
    text = path.read_text().replace('files = ["tiny.py"]', 'files = ["tiny.py", "recorded.py"]')
    path.write_text(text + PHASE.format(folder=folder))
    return campaign
