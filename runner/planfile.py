"""Reading a plan file: every problem at once, each with file, line and key path, so that a plan is mended in one go."""

from __future__ import annotations

import difflib
import itertools
import json
import re
import stat
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from runner.errors import PlanError
from runner.files import PROJECT
from runner.plan import FORMAT, Plan
from runner.plancheck import cross_checks
from runner.plantrees import PackagesTree
from runner.plantypes import OPEN, UNDEFINED, Place, Problem
from runner.toml_lines import Lines

LARGEST_PLAN = 4_000_000  # bytes: a plan is written by a person
DEEPEST = 30  # tables and arrays inside each other; a plan has nine
MOST_PROBLEMS = 200  # that are shown
LONGEST_LINE = 20_000  # characters
_DOTTED = re.compile(r"""(?:\.[ \t]{0,9}["']?[A-Za-z0-9_-]{0,64}["']?[ \t]{0,9}){31}""")
_DIGITS = re.compile("[0-9_]{4001}")  # of a number that nobody can have meant


@dataclass(frozen=True)
class OpenPlan:
    """A plan in which values may be "undefined", and where: what nobody can know any more is not invented."""

    plan: Plan
    undefined: tuple[tuple[int, str], ...]  # line and key path of each


def load(path: Path) -> Plan:
    """Read and validate a plan file. Raises PlanError with file, line, key path, expected and found."""
    text = _text(path)
    return _below(parse(text, str(path)), path, text)


def load_open(path: Path) -> OpenPlan:
    """`load` for a plan that may leave values open."""
    text = _text(path)
    found = parse_open(text, str(path))
    _below(found.plan, path, text)
    return found


def _below(plan: Plan, path: Path, text: str) -> Plan:
    """The plan itself, when no link leads from a path in it to a place outside. Raises PlanError."""
    problems = []
    for place, root, names in _paths(plan, path.parent):
        links = [
            part
            for part in itertools.accumulate(names.split("/"), lambda above, name: f"{above}/{name}")
            if (root / part).is_symlink()
        ]
        if links:
            problems.append((place, f"expected a path below {root.name}, found the link {links[0]!r}"))
    if problems:
        raise _wrong(problems, text, str(path))
    return plan


def _paths(plan: Plan, campaign: Path) -> Iterator[tuple[Place, Path, str]]:
    """Every path of a plan that must lie below a folder, with that folder."""
    for name, tree in plan.trees.items():
        if isinstance(tree, PackagesTree):
            yield ("trees", name, "lock"), campaign, tree.lock
    if plan.harness.source is not None:
        yield ("harness", "source"), PROJECT, plan.harness.source
    root = campaign if plan.harness.source is None else PROJECT
    for i, name in enumerate(plan.harness.files):
        yield ("harness", "files", i), root, f"{plan.harness.source or 'harness'}/{name}"


def _text(path: Path) -> str:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise PlanError(str(path), "not a file", expected="a plan.toml that is a plain file")
        with path.open("rb") as file:
            data = file.read(LARGEST_PLAN + 1)
        if len(data) > LARGEST_PLAN:
            raise PlanError(str(path), "too large for a plan", expected=f"at most {LARGEST_PLAN} bytes", found="more")
        return data.decode("utf-8")
    except FileNotFoundError:
        raise PlanError(
            str(path),
            "there is no plan here",
            expected="a plan.toml in the campaign folder",
            remedy="give the campaign's folder; `python -m runner new` makes one",
        ) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PlanError(f"{path}:{line}", "not UTF-8", found=str(error), remedy="save the plan as UTF-8") from None


def parse(text: str, name: str = "plan.toml") -> Plan:
    """Validate the text of a plan; `name` is shown in errors."""
    return _validated(_document(text, name), text, name, None)


def parse_open(text: str, name: str = "plan.toml") -> OpenPlan:
    """`parse` for a plan that may leave values open."""
    document = _document(text, name)
    plan = _validated(document, text, name, OPEN)
    at = Lines(text)
    return OpenPlan(plan, tuple((at.of(place), _shown(place)) for place in _undefined(document, ())))


NOT_DEFINED = (
    'expected a value, found "undefined": only the plan of published figures or adopted logs may leave one open'
)


def _undefined(value: Any, path: Place) -> Iterator[Place]:
    """Every place where the document says "undefined"."""
    if value == UNDEFINED:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from _undefined(part, (*path, key))


def _not_open(document: dict[str, Any]) -> Iterator[Problem]:
    yield from ((place, NOT_DEFINED) for place in _undefined(document, ()))


def _shown(path: Place) -> str:
    return ".".join(map(str, path)) or "plan"


def _validated(document: dict[str, Any], text: str, name: str, context: dict[str, bool] | None) -> Plan:
    problems = _format_problem(document) or [*_dates(document, ()), *(_not_open(document) if context is None else ())]
    plan = None
    if not problems:
        try:
            # Validated from JSON: strict types, while TOML's arrays may still fill tuples.
            plan = Plan.model_validate_json(json.dumps(document), context=context)
        except ValidationError as error:
            problems = _merge_unions(error)
        else:
            problems = cross_checks(plan)
    if problems:
        raise _wrong(problems, text, name)
    assert plan is not None
    return plan


def _wrong(problems: Sequence[Problem], text: str, name: str) -> PlanError:
    at = Lines(text)
    lines = [f"{name}:{at.of(path)}: {_shown(path)}: {message}" for path, message in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        lines.append(f"{name}:{at.of(())}: plan: {len(problems) - MOST_PROBLEMS} more")
    many = f"{len(problems)} problem{'s' * (len(problems) > 1)} in the plan"
    return PlanError(name, many + "\n  " + "\n  ".join(lines))


def _document(text: str, name: str) -> dict[str, Any]:
    try:
        if text.startswith("\ufeff"):
            raise tomllib.TOMLDecodeError("a byte order mark before the text (at line 1, column 1)")
        _assert_possible(text, name)
        document = tomllib.loads(text)
    except ValueError as error:
        place = re.search(r"\(at line (\d+)", str(error))
        where = place[1] if place else text.count("\n") + 1 if "end of document" in str(error) else None
        raise PlanError(
            f"{name}:{where}" if where else name,
            "not valid TOML",
            found=f"{error}{_line_text(text, where)}",
            remedy="mend the line that is named",
        ) from None
    except RecursionError:
        raise _too_deep(name, 1) from None
    deep = next((path for path in _deepest(document)), None)
    if deep is not None:
        raise _too_deep(name, Lines(text).of(deep[:2]), _shown(deep[:2]))
    return document


def _assert_possible(text: str, name: str) -> None:
    """Refuse, before anything is parsed, what would keep a parser busy for hours. Raises PlanError with the line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > LONGEST_LINE:
            raise PlanError(
                f"{name}:{number}", "not a plan", expected=f"lines of at most {LONGEST_LINE} characters",
                found=f"{len(line)} characters: {line[:60]!r}...", remedy="mend the line that is named",
            )  # fmt: skip
        if _DOTTED.search(line):
            raise _too_deep(name, number, line[:60])
        if _DIGITS.search(line):
            raise PlanError(
                f"{name}:{number}", "not a plan", expected="numbers of at most 4000 digits", found=f"{line[:60]}...",
                remedy="mend the line that is named",
            )  # fmt: skip


def _line_text(text: str, line: str | int | None) -> str:
    """The line that an error is about, so that a key that is there twice is named."""
    lines = text.split("\n")
    number = int(line or 0)
    return f": {lines[number - 1].strip()[:120]!r}" if 1 <= number <= len(lines) else ""


def _deepest(document: dict[str, Any]) -> Iterator[Place]:
    """Places that lie deeper than any of a plan. Without recursion: what is looked for would end it."""
    waiting: list[tuple[Place, Any]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if len(path) > DEEPEST:
            yield path
            return
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += [((*path, key), part) for key, part in inner]


def _too_deep(name: str, line: int, path: str = "plan") -> PlanError:
    return PlanError(
        f"{name}:{line}", "not a plan", expected=f"at most {DEEPEST} arrays and tables inside each other",
        found=f"more, in {path}", remedy="mend the line that is named",
    )  # fmt: skip


def _format_problem(document: dict[str, Any]) -> list[Problem]:
    found = document.get("format")
    if found == FORMAT and type(found) is int:
        return []
    return [(("format",), f"expected format = {FORMAT}, found {found!r}; this runner reads format {FORMAT} only")]


def _dates(value: Any, path: Place) -> Iterator[Problem]:
    """TOML has dates and times, plans have none."""
    if isinstance(value, date | time):
        yield path, f"expected text in quotes, found the date or time {value}"
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from _dates(part, (*path, key))


def _merge_unions(error: ValidationError) -> list[Problem]:
    """One message per place: pydantic reports each branch of a union on its own, with the branch in the path."""
    merged: dict[Place, list[str]] = {}
    found: dict[Place, str] = {}
    inside: set[Place] = set()  # unions of which a branch was taken and is wrong further in
    for item in error.errors(include_url=False):
        path, unions = _place(item["loc"])
        inside.update(union for union in unions if union != path)
        message = {"missing": "this key is required", "extra_forbidden": _unknown(path)}.get(item["type"], item["msg"])
        texts = merged.setdefault(path, [])
        if message not in texts:
            texts.append(message.removeprefix("Value error, "))
        if item["type"] not in ("missing", "extra_forbidden", "value_error"):
            found[path] = f", found {_short(item['input'])}"
    return [(path, "; or ".join(texts) + found.get(path, "")) for path, texts in merged.items() if path not in inside]


def _unknown(path: Place) -> str:
    """What to say of a key that the format does not have: which one is near, or which there are."""
    kind = _kind(path[:-1])
    tables = [_plain(branch)[0] for branch in _branches(kind)] or [kind]
    known = list(dict.fromkeys(name for table in tables for name in getattr(table, "model_fields", ())))
    near = difflib.get_close_matches(str(path[-1])[:100], known, n=1)
    if near:
        return f"unknown key; expected {near[0]!r}?"
    return f"unknown key; expected one of {', '.join(known)}" if known else "unknown key"


def _kind(path: Place) -> Any:
    """The type that a plan has at a key path; of a union the branch that has fields; None where that is not one."""
    kind: Any = Plan
    for part in (*path, None):
        kind, _ = _plain(kind)
        tables = [one for branch in _branches(kind) if hasattr(one := _plain(branch)[0], "model_fields")]
        kind = tables[0] if len(tables) == 1 else kind
        if part is None:
            return kind
        if get_origin(kind) is dict:
            kind = get_args(kind)[1]
        elif get_origin(kind) is tuple:
            kind = get_args(kind)[0]
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            known = kind.model_fields.get(str(part))
            kind = known and known.rebuild_annotation()
    return None


def _place(location: tuple[str | int, ...]) -> tuple[Place, list[Place]]:
    """The key path of pydantic's location, and the paths of the unions that it leads through.

    A location also holds a word for each union's branch and "[key]" for the name of a table. They are told from keys
    by following the plan's own types, for a key may be called like anything.
    """
    path: Place = ()
    unions: list[Place] = []
    kind: Any = Plan
    for part in location:
        kind, _ = _plain(kind)
        branches = _branches(kind)
        if branches:
            unions.append(path)
            kind = next((branch for branch in branches if _is_called(branch, str(part))), None)
        elif get_origin(kind) is dict:
            path, kind = (*path, part), get_args(kind)[1]
        elif get_origin(kind) is tuple:
            members = [member for member in get_args(kind) if member is not ...]
            path, kind = (*path, part), members[min(int(part), len(members) - 1)]
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            known = kind.model_fields.get(str(part))
            path, kind = (*path, part), known and known.rebuild_annotation()
    return path, unions


def _plain(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without what is annotated, and without None when one other type remains."""
    metadata: tuple[Any, ...] = ()
    while True:
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            metadata = (*metadata, *more)
        elif len(others := [branch for branch in _branches(kind) if branch is not type(None)]) == 1:
            kind = others[0]
        else:
            return kind, metadata


def _branches(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else ()


def _is_called(branch: Any, word: str) -> bool:
    """Whether pydantic's word for a branch means this type: its tag, or that it is a tuple."""
    plain, metadata = _plain(branch)
    tags = [entry.tag for entry in metadata if isinstance(entry, Tag)]
    return word in tags if tags else get_origin(plain) is tuple and word.startswith("tuple[")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
