"""The small plan of tests/golden, as it is and with one thing changed."""

from __future__ import annotations

from pathlib import Path

from runner.plan import Phase, Plan
from runner.planfile import parse

GOLDEN = Path(__file__).parent / "golden"
TEXT = (GOLDEN / "small.toml").read_text(encoding="utf-8")


def plan() -> Plan:
    """The small plan, validated."""
    return parse(TEXT)


def phase(name: str = "B") -> Phase:
    """One of its phases."""
    return plan().phases[name]


def changed(old: str, new: str, after: str = "") -> str:
    """The plan's text with one place changed: the first `old` behind `after`."""
    start = TEXT.index(after)
    place = TEXT.index(old, start)
    return TEXT[:place] + new + TEXT[place + len(old) :]


def golden(name: str, found: str) -> None:
    """Compare with a golden file. To accept a change that is meant, write `found` into the file by hand."""
    assert found == (GOLDEN / name).read_text(encoding="utf-8")
