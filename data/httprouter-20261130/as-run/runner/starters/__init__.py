"""Plans to start from: `new --template` writes a commented plan that can be sealed as it is, and its harness.

The texts lie beside this module in files/; a plan is the common part and that of its template, filled in.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from runner import host
from runner.errors import Refused
from runner.files import sha256, write_whole
from runner.planfile import parse
from runner.store import Store

FILES = Path(__file__).resolve().parent / "files"


@dataclass(frozen=True)
class Starter:
    """What a template writes: the second part of a plan, the harness files, lock files, and what to tell the user."""

    plan: str
    harness: Mapping[str, bytes] = field(default_factory=dict)
    locks: Mapping[str, str] = field(default_factory=dict)
    title: str = "A new campaign"
    question: str = "What is the question?"
    limit_s: int = 600  # of one process
    notes: tuple[str, ...] = ()


def text_of(name: str) -> bytes:
    """One of the files beside this module."""
    return (FILES / name).read_bytes()


def filled(name: str, fields: Mapping[str, object]) -> str:
    """The text of a template with its $fields filled in."""
    return Template(text_of(name).decode()).substitute(fields)


def quoted(value: str | list[str] | tuple[str, ...]) -> str:
    """A text or a list of texts as TOML: its basic strings are those of JSON, but for one character."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"[{', '.join(map(quoted, value))}]"


def seed_of(campaign: str) -> int:
    """A seed that follows from the campaign's name, so that two campaigns have different orders."""
    return int(sha256(campaign.encode())[:8], 16) % 1_000_000


def python_version() -> str:
    """The runner's own Python, which is there for trees too."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def write(folder: Path, starter: Starter) -> Store:
    """Write a starter into a new or empty folder. Raises Refused, and PlanError for a folder name that is no id."""
    assert_new(folder)
    names = [*starter.harness]
    source = '# No source: the files lie in harness/ of this campaign, written by "new" or by you; the seal has their digests.\n'
    text = filled(
        "common.toml",
        {
            "id": folder.name,
            "title": quoted(starter.title),
            "question": quoted(starter.question),
            "seed": seed_of(folder.name),
            "limit_s": starter.limit_s,
            "harness": f"\n{source}[harness]\nfiles = {quoted(names)}\n",
            **host.cpu_groups(host.siblings()).model_dump(),
        },
    )
    text = f"{text.rstrip()}\n\n{starter.plan.strip()}\n"
    parse(text, str(folder / "plan.toml"))  # before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"harness/{name}": data for name, data in starter.harness.items()}
    files |= {name: lock.encode() for name, lock in starter.locks.items()}
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, data)
    write_whole(folder / "plan.toml", text.encode())
    return Store(folder)


def assert_new(folder: Path) -> None:
    """Raise Refused when something is in the folder already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(str(folder), "this folder exists already, and is not empty", remedy="name a new one")
