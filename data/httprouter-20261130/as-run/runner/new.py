"""A plan from a plan: the shortened copy of a campaign for this host, comments kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import tomlkit

from runner import host
from runner.errors import Refused
from runner.files import write_whole
from runner.planfile import parse
from runner.plantrees import PackagesTree
from runner.store import Store

LIMIT = "A shortened copy of {source}, with fewer cases and blocks; its plan names the limits that were written there."


def shorten(text: str, campaign: str, source: str, *, root: bool, cpus: dict[str, str]) -> str:
    """The text of a plan, shortened as its [short] table says, for a host with these CPU groups."""
    document: Any = tomlkit.parse(text)
    short = document.pop("short")
    document["campaign"]["id"] = campaign
    document["campaign"]["title"] += f" (short, {campaign})"
    document["campaign"]["short"] = source
    document["host"]["cpus"].update(cpus)
    if document["network"]["kind"] == "veth" and not root:
        document["network"]["kind"] = "loopback"
    for identifier in list(document["phases"]):
        if identifier not in short["cases"]:
            del document["phases"][identifier]
            continue
        _shorten_phase(document["phases"][identifier], set(short["cases"][identifier]), short["blocks"])
        document["phases"][identifier]["limits"] = [LIMIT.format(source=source)]
    fixtures = {phase["fixture"] for phase in document["phases"].values() if "fixture" in phase}
    used = {arm["tree"] for phase in document["phases"].values() for arm in phase["arms"]}
    used |= {document["fixtures"][name]["tree"] for name in fixtures}
    for table, kept in (("fixtures", fixtures), ("trees", used)):
        for name in set(document.get(table, {})) - kept:
            del document[table][name]
    return tomlkit.dumps(document)


def _shorten_phase(phase: Any, kept: set[str], blocks: int) -> None:
    dropped = {case["name"] for case in phase["cases"]} - kept
    phase["blocks"] = blocks
    for index in reversed(range(len(phase["cases"]))):
        if phase["cases"][index]["name"] in dropped:
            del phase["cases"][index]
    gone = _shorten_metrics(phase, kept)
    for index in reversed(range(len(phase.get("claims", [])))):
        claim = phase["claims"][index]
        cases = claim["cases"]
        if claim["metric"] in gone:
            del phase["claims"][index]
        elif isinstance(cases, dict):
            remaining = [name for name in cases["all_but"] if name not in dropped]
            if kept <= set(remaining):
                del phase["claims"][index]  # every case that is left is one that the claim leaves out
            else:
                claim["cases"] = _all_but(remaining) if remaining else "all"
        elif (not isinstance(cases, str) and set(cases) & dropped) or claim["holds"] in ("largest", "smallest"):
            del phase["claims"][index]


def _shorten_metrics(phase: Any, kept: set[str]) -> set[str]:
    """Leave out the metrics that no case measures any more; returns their units."""
    gone: set[str] = set()
    for index in reversed(range(len(phase["metrics"]))):
        metric = phase["metrics"][index]
        cases = metric.get("cases", "all")
        measuring = [name for name in kept if name not in cases["all_but"]] if isinstance(cases, dict) else cases
        if isinstance(measuring, str):
            continue
        left = [case["name"] for case in phase["cases"] if case["name"] in kept and case["name"] in measuring]
        if left:
            metric["cases"] = left
        else:
            gone.add(metric["unit"])
            del phase["metrics"][index]
    for unit in gone & set(phase["holm"]["metrics"]):
        phase["holm"]["metrics"].remove(unit)
    if not phase["holm"]["metrics"]:
        phase["holm"]["metrics"].append(phase["primary_metric"])  # a family needs a member
    return gone


def _all_but(names: list[str]) -> Any:
    table = tomlkit.inline_table()
    table["all_but"] = names
    return table


def new_from(source: Store, folder: Path) -> Store:
    """Write a shortened copy of a campaign's plan, with its lock files, into a new folder."""
    if folder.exists():
        raise Refused(str(folder), "this folder exists already", remedy="name a new one")
    plan = source.plan()
    if plan.short is None:
        raise Refused(
            str(source.plan_path),
            "this plan has no [short] table",
            expected="[short] with blocks and cases",
            remedy="add one, or copy the plan by hand",
        )
    groups = host.cpu_groups(host.siblings()).model_dump()
    text = shorten(
        source.plan_path.read_text(encoding="utf-8"), folder.name, plan.campaign.id, root=os.geteuid() == 0, cpus=groups
    )
    shortened = parse(text, str(folder / "plan.toml"))
    folder.mkdir(parents=True)
    for tree in shortened.trees.values():
        if not isinstance(tree, PackagesTree):
            continue
        target = folder / tree.lock
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.folder / tree.lock, target)
    if shortened.harness.source is None:
        for name in shortened.harness.files:
            target = folder / "harness" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.harness_folder / name, target)
    write_whole(folder / "plan.toml", text.encode())
    return Store(folder)
