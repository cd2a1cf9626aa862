"""Find the line of a key path in the text of a TOML file, for error messages.

The standard library's parser keeps no positions. This scanner only knows what a message needs: table headers,
arrays of tables, and the first line of each key; anything deeper is reported at the nearest line above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Line (from 1) of the deepest part of `path` that the text spells out; 1 if there is none."""
    target = tuple(path)
    best_line, best_depth = 1, 0
    for line, key in _keys(text):
        depth = len(key)
        if depth > best_depth and key == target[:depth]:
            best_line, best_depth = line, depth
    return best_line


def _keys(text: str) -> Iterator[tuple[int, tuple[str | int, ...]]]:
    prefix: tuple[str | int, ...] = ()
    counts: dict[tuple[str | int, ...], int] = {}
    open_string = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if open_string:
            open_string = "" if open_string in line else open_string
            continue
        header = _HEADER.match(line)
        if header:
            prefix = _resolve(_parts(header[2]), counts)
            if header[1] == "[[":
                index = counts[prefix] = counts.get(prefix, -1) + 1
                prefix = (*prefix, index)
            yield number, prefix
            continue
        key = _KEY.match(line)
        if key:
            yield number, (*prefix, *_parts(key[1]))
        for quotes in ('"""', "'''"):
            if line.count(quotes) % 2:
                open_string = quotes


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _resolve(parts: tuple[str, ...], counts: dict[tuple[str | int, ...], int]) -> tuple[str | int, ...]:
    """Insert the current index behind every enclosing array of tables."""
    path: tuple[str | int, ...] = ()
    for position, part in enumerate(parts):
        path = (*path, part)
        if path in counts and position < len(parts) - 1:
            path = (*path, counts[path])
    return path
