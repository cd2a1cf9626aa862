"""A table of a TOML file whose keys are taken one by one: each with its type, and what was not taken is not known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from runner.plantypes import defined

Pair = tuple[Decimal, Decimal]


@dataclass
class Fields:
    """One table: its key path, its content, and the list that takes every problem with it."""

    place: str
    table: dict[str, Any]
    problems: list[str]
    taken: set[str] = field(default_factory=set)

    def wrong(self, key: str, problem: str) -> None:
        """Note what is wrong with a key."""
        self.problems.append(f"{self._at(key)}: {problem}")

    def _at(self, key: str) -> str:
        return ".".join(filter(None, (self.place, key)))

    def take(self, key: str, kind: type | tuple[type, ...], expected: str) -> Any:
        """A key's value, or None where it is missing or of another type."""
        self.taken.add(key)
        value = self.table.get(key)
        if value is None or (isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)):
            return value
        self.wrong(key, f"expected {expected}, found {value!r}")
        return None

    def text(self, key: str, among: Iterable[str] | None = None, *, needed: bool = False) -> str:
        """A text, "" where there is none or it is not among those that are known."""
        value = str(self.take(key, str, "text") or "")
        if needed and key not in self.table:
            self.wrong(key, "this key is required")
        if value and among is not None and value not in (known := list(among)):
            self.wrong(key, f"unknown {value!r}; expected one of {', '.join(known)}")
            return ""
        return value

    def number(self, key: str) -> Decimal | None:
        """A number above 0, with its decimals."""
        value = self.take(key, (int, Decimal), "a number")
        return None if value is None else self._positive(key, value)

    def _positive(self, key: str, value: int | Decimal) -> Decimal | None:
        number = Decimal(value)
        if number.is_finite() and number > 0:
            return number
        self.wrong(key, f"expected a number above 0, found {value}")
        return None

    def pair(self, key: str) -> Pair | None:
        """Two numbers above 0, the lower one first."""
        value = self.take(key, list, "two numbers")
        if value is None:
            return None
        if len(value) != 2 or not all(type(part) in (int, Decimal) for part in value):
            self.wrong(key, f"expected two numbers, found {value}")
            return None
        low, high = (self._positive(key, part) for part in value)
        if low is None or high is None:
            return None
        if low > high:
            self.wrong(key, f"expected the lower end first, found {low} and {high}")
            return None
        return low, high

    def inner(self, key: str) -> Fields:
        """A table inside this one; an empty one where there is none."""
        return Fields(self._at(key), self.take(key, dict, "a table") or {}, self.problems)

    def items(self, key: str) -> list[Fields]:
        """The tables of an array."""
        rows = self.take(key, list, "an array of tables") or []
        if not all(isinstance(row, dict) for row in rows):
            self.wrong(key, f"expected an array of tables, found {rows!r}")
            return []
        return [Fields(f"{self._at(key)}.{n}", row, self.problems) for n, row in enumerate(rows)]

    def done(self) -> None:
        """Note every key that was not taken."""
        for key in self.table:
            if key not in self.taken:
                self.wrong(key, "unknown key")

    def same(self, key: str, planned: object) -> None:
        """What was published of the design must be what the plan has, where that is defined."""
        self.taken.add(key)
        found = self.table.get(key)
        if found is not None and defined(planned) and found != planned:
            self.wrong(key, f"published {found!r}, but plan.toml has {planned!r}")
