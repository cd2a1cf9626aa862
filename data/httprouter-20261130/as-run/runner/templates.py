"""Commands and environments as the plan writes them: {fields} that the runner fills in. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runner.errors import DataError

_GIT = ("tree", "checkout", "bin", "binary")
TREE_FIELDS = {  # by kind of tree
    "packages": frozenset(("tree", "python", "compiled")),
    "git": frozenset(_GIT),
    "programs": frozenset(("python", "programs")),
}
BUILD_FIELDS = TREE_FIELDS["git"]
RUN_FIELDS = frozenset(
    ("harness", "output", "case", "go_bench", "arm", "block", "repeats", "switches", "parameters", "client_cpus_count")
)
FIXTURE_FIELDS = frozenset(("harness", "parameters", "client_cpus_count"))
_MEANING = re.compile(r"([\\.+*?()|\[\]{}^$])")  # what Go's regexp.QuoteMeta puts a backslash before


def parts(template: str) -> Iterator[tuple[str, str | None]]:
    """The text before each field, and the field's name; None after the last, and for a brace that is never closed."""
    rest = template
    while "{" in rest:
        before, _, after = rest.partition("{")
        name, closing, after = after.partition("}")
        if not closing:
            break
        yield before, name
        rest = after
    yield rest, None


def unknown_fields(template: str, known: frozenset[str]) -> list[str]:
    """Names of fields that the runner does not fill in."""
    return [name for _, name in parts(template) if name is not None and name not in known]


def go_bench(case: str) -> str:
    """The pattern for `-test.bench` that this case alone matches: each element of its name quoted and anchored."""
    quoted = _MEANING.sub(r"\\\1", f"Benchmark{case}")
    return "/".join(f"^{part}$" for part in quoted.split("/"))


def each(table: str, values: Mapping[str, Any]) -> dict[str, str]:
    """A field for each value of a table: {parameters.rows}. Truth as Go and JSON write it, lists with commas."""
    return {f"{table}.{name}": _plain(value) for name, value in values.items()}


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def fill(template: str, fields: Mapping[str, str]) -> str:
    """Replace {name} by its value; one pass, so that a value with braces stays as it is. Raises DataError."""
    out = ""
    for before, name in parts(template):
        if name is not None and name not in fields:
            raise DataError(
                "plan: argv or environment", f"unknown field {{{name}}}", expected=", ".join(sorted(fields))
            )
        out += before + ("" if name is None else fields[name])
    return out
