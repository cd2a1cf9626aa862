"""Text of plans, logs and records on its way into a page: one function for each place, and nothing goes in without.

A plan, a log, a host or an adopted file may say anything. `escaped` is for HTML, inside elements and attributes; `markdown` for
MyST, as in a title; `raw` for HTML of our own inside a page of MyST, which may hold escaped text; `printable` for figures,
and for all the others. tests/test_escaping.py lists every place where text enters a page.
"""

from __future__ import annotations

import html
import re

REPLACEMENT = "\ufffd"  # what a character is shown as that cannot be seen
_SPACES = "\u202f\u2009\u00a0"  # of our own numbers: narrow, thin, not to be broken
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")  # of ASCII, all of it: each may be escaped in Markdown
_FENCES = re.compile(r"`+")
_SHORTEST = 6  # backticks of a fence


def printable(text: str, keep: str = "\n\t") -> str:
    """Text whose every character can be seen: control and direction characters become replacement characters."""
    return "".join(c if c.isprintable() or c in keep or c in _SPACES else REPLACEMENT for c in text)


def escaped(text: object) -> str:
    """Text as text inside HTML, in an element or an attribute in quotes."""
    return html.escape(printable(str(text)), quote=True)


def markdown(text: str) -> str:
    """Text as text inside MyST, on one line: every character that could be markup is escaped."""
    return _PUNCTUATION.sub(r"\\\1", printable(" ".join(text.split())))


def raw(markup: str) -> str:
    """Our own HTML inside a page of MyST; nothing where there is none, since an empty directive is an error.

    The fence is longer than any row of backticks in it, so that no text ends the directive and goes on as MyST. Raises
    ValueError for what does not begin with a tag: a directive would take its first lines for options.
    """
    if not markup.strip():
        return ""
    if not markup.lstrip().startswith("<"):
        raise ValueError(f"not HTML: {markup[:40]!r}")
    fence = "`" * max(_SHORTEST, 1 + max(map(len, _FENCES.findall(markup)), default=0))
    return f"{fence}{{raw}} html\n{markup}\n{fence}\n"
