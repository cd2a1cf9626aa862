"""A plan that is damaged at one place, written with one key a line so that the line of every place is known."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]
GONE = object()
WRONG: dict[str, Any] = {
    "gone": GONE,
    "text": "an odd word",
    "empty": "",
    "long": "x" * 5_000,
    "nul": "a\0b",
    "number": 10**9,
    "beyond": 2**64,
    "absurd": 10**300,
    "negative": -1,
    "fraction": 0.5,
    "nan": math.nan,
    "inf": math.inf,
    "true": True,
    "list": [],
    "lists": [[1, "x"], []],
    "table": {},
    "other": {"no_such_key": 1},
    "outside": "../outside.txt",
    "absolute": "/etc/passwd",
    "line": "a\nb",
    "open": "undefined",
}


def written(document: dict[str, Any]) -> tuple[str, dict[Place, int]]:
    """The document as TOML, and the line (from 1) on which each place begins."""
    lines: list[str] = []
    places: dict[Place, int] = {}
    _table(document, (), lines, places)
    return "\n".join(lines) + "\n", places


def _table(table: dict[str, Any], path: Place, lines: list[str], places: dict[Place, int]) -> None:
    later = []
    for key, value in table.items():
        here = (*path, key)
        if (isinstance(value, dict) and value) or (
            isinstance(value, list) and value and all(isinstance(v, dict) for v in value)
        ):
            later.append((here, value))
        else:
            lines.append(f"{_key(key)} = {_inline(value)}")
            places[here] = len(lines)
            places |= dict.fromkeys(_inner(value, here), len(lines))
    for here, value in later:
        name = ".".join(_key(str(part)) for part in here if not isinstance(part, int))
        if isinstance(value, dict):
            lines.append(f"[{name}]")
            places[here] = len(lines)
            _table(value, here, lines, places)
            continue
        places[here] = len(lines) + 1
        for index, part in enumerate(value):
            lines.append(f"[[{name}]]")
            places[*here, index] = len(lines)
            _table(part, (*here, index), lines, places)


def _inner(value: Any, path: Place) -> Iterator[Place]:
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from _inner(part, (*path, key))


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else json.dumps(key)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_inline(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def damages(document: dict[str, Any]) -> list[tuple[Place, str]]:
    """Every place of the document with every way to damage it; places that differ in numbers alone are one."""
    places: dict[Place, Place] = {}
    for place in _inner(document, ()):
        kind = tuple(0 if isinstance(part, int) else part for part in place)
        if place[0] in ("phases", "trees", "fixtures") and len(place) > 1:
            kind = (place[0], "*", *kind[2:])
        places.setdefault(kind, place)
    return [(place, how) for place in places.values() for how in ("renamed", "twice", *WRONG)]


def damaged(document: dict[str, Any], place: Place, how: str) -> dict[str, Any]:
    """A copy with one place damaged."""
    made = copy.deepcopy(document)
    *above, last = place
    part: Any = made
    for step in above:
        part = part[step]
    if how == "twice":
        if isinstance(last, int):
            part.insert(last, copy.deepcopy(part[last]))
        else:
            part[last.upper() if last.upper() != last else last.lower()] = copy.deepcopy(part[last])
    elif how == "renamed":
        if isinstance(last, int):
            part[last] = {"renamed": part[last]}
        else:
            part[last[:-1] + "q"] = part.pop(last)
    elif WRONG[how] is GONE:
        del part[last]
    else:
        part[last] = copy.deepcopy(WRONG[how])
    return made
