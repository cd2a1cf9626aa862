"""Find the line of a key path in the text of a TOML file, for error messages.

The standard library's parser keeps no positions. This scanner walks a text that the parser has accepted and notes
where each table, key and array element begins, also inside inline tables, arrays and dotted keys.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence

Path = tuple[str | int, ...]

_BLANK = re.compile(r"[ \t\r]*(?:#[^\n]*)?")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*"{3,5}|'
    + r"'''(?:[^']|'{1,2}(?!'))*'{3,5}|"
    + r'"(?:[^"\\\n]|\\.)*"|'
    + r"'[^'\n]*'"
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Line (from 1) of the deepest part of `path` that the text spells out; 1 if there is none."""
    return Lines(text).of(path)


class Lines:
    """The lines of every key path of a text, which is scanned once."""

    def __init__(self, text: str) -> None:
        self._scanner = _Scanner(text)
        self._scanner.document()

    def of(self, path: Sequence[str | int]) -> int:
        """As `line_of`."""
        target = tuple(path)
        for depth in range(len(target), 0, -1):
            line = self._scanner.spelt.get(target[:depth]) or self._scanner.implied.get(target[:depth])
            if line:
                return line
        return 1


class _Scanner:
    """A walk over valid TOML. `spelt` has the line of what is written out, `implied` of what that brings into being."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.spelt: dict[Path, int] = {}
        self.implied: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}
        self._line, self._counted = 1, 0

    def document(self) -> None:
        prefix: Path = ()
        while self._skip_blank_lines():
            if self.text.startswith("[", self.place):
                prefix = self._header()
            else:
                self._pair(prefix)

    def _line_here(self) -> int:
        self._line += self.text.count("\n", self._counted, self.place)
        self._counted = self.place
        return self._line

    def _skip_blank_lines(self) -> bool:
        while True:
            self._skip(_BLANK)
            if not self.text.startswith("\n", self.place):
                return self.place < len(self.text)
            self.place += 1

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.place)
        assert match is not None, f"not TOML at line {self._line_here()}"
        self.place = match.end()
        return match[0]

    def _header(self) -> Path:
        line = self._line_here()
        array = self.text.startswith("[[", self.place)
        self.place += 1 + array
        path = self._resolve(self._keys())
        self.place += 1 + array
        if array:
            self.implied.setdefault(path, line)
            index = self._counts[path] = self._counts.get(path, -1) + 1
            path = (*path, index)
        self._note(path, line)
        return path

    def _pair(self, prefix: Path) -> None:
        line = self._line_here()
        path = (*prefix, *self._keys())
        self._note(path, line)
        self.place += 1  # the equals sign
        self._skip(_BLANK)
        self._value(path)

    def _note(self, path: Path, line: int) -> None:
        self.spelt.setdefault(path, line)
        for depth in range(1, len(path)):
            self.implied.setdefault(path[:depth], line)

    def _keys(self) -> tuple[str, ...]:
        """A dotted key, up to the sign behind it."""
        keys: list[str] = []
        while True:
            self._skip(_BLANK)
            quoted = self.text[self.place] in "\"'"
            word = self._skip(_STRING if quoted else _BARE_KEY)
            keys.append(str(tomllib.loads(f"key = {word}")["key"]) if quoted else word)
            self._skip(_BLANK)
            if not self.text.startswith(".", self.place):
                return tuple(keys)
            self.place += 1

    def _value(self, path: Path) -> None:
        first = self.text[self.place]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            self._skip(_STRING if first in "\"'" else _SCALAR)

    def _array(self, path: Path) -> None:
        self.place += 1
        index = 0
        while self._skip_blank_lines() and self.text[self.place] != "]":
            if self.text[self.place] == ",":
                self.place += 1
                continue
            self.spelt.setdefault((*path, index), self._line_here())
            self._value((*path, index))
            index += 1
        self.place += 1

    def _inline_table(self, path: Path) -> None:
        self.place += 1
        while self._skip_blank_lines() and self.text[self.place] != "}":
            if self.text[self.place] == ",":
                self.place += 1
            else:
                self._pair(path)
        self.place += 1

    def _resolve(self, parts: tuple[str, ...]) -> Path:
        """Insert the current index behind every enclosing array of tables."""
        path: Path = ()
        for position, part in enumerate(parts):
            path = (*path, part)
            if path in self._counts and position < len(parts) - 1:
                path = (*path, self._counts[path])
        return path
