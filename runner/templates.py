"""Commands and environments as the plan writes them: {fields} that the runner fills in. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.errors import DataError

RUN_FIELDS = frozenset(
    ("python", "tree", "harness", "output", "case", "arm", "block", "repeats", "compiled", "switches", "parameters")
)
FIXTURE_FIELDS = frozenset(("python", "tree", "harness", "compiled", "parameters"))


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
