"""Maps: how the paths of brought files, and the columns of brought tables, say which run a value belongs to. Pure.

A map is `PATTERN[:key=value,...]`. PATTERN is a path below the folder with fields in braces; a field, and a `*`, stay
inside one element of the path. What the path does not say a constant does: `old.txt:arm=before`. For a CSV file
`key=@column` names a column.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from runner.errors import WrongUse
from runner.files import escape
from runner.plan import Plan

LABELS = ("phase", "case", "arm", "block", "position", "sequence")
NUMBERS = ("block", "position", "sequence")
TABLE = ("repeat", "metric", "value", "run")  # what a CSV file has beside the labels
SUFFIX = ("drop", "keep")  # of a benchmark's name, where no plan says whether -8 is a part of it
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_FIELDS = {"phase": NAME, "arm": NAME, "case": r"[^/]+"} | dict.fromkeys(NUMBERS, r"[0-9]{1,9}")
_PART = re.compile(r"\{([^{}]*)\}|\*")
_SYNTAX = "PATTERN or PATTERN:key=value,...; fields of a pattern: " + ", ".join(f"{{{name}}}" for name in LABELS)


@dataclass(frozen=True)
class Map:
    """One map: a pattern of paths, constants, and columns of a table by what they hold (a label or a unit)."""

    text: str
    pattern: str
    constants: dict[str, str]
    columns: dict[str, str]
    units: dict[str, str]

    @property
    def record(self) -> str | None:
        """What a file is that holds no results: the record of a host, or of restored labels; None for results."""
        return self.constants.get("as")

    @property
    def is_table(self) -> bool:
        """Whether this map can only be meant for a CSV file."""
        return bool(self.columns or self.units or {"run", "metric"} & self.constants.keys())

    def fields(self, path: str, known: Known) -> dict[str, str] | None:
        """What path and constants say of a file; None when the pattern does not match. Raises WrongUse if it does twice."""
        found = self._match(path, known.choices) or self._match(path, {})
        return None if found is None else found | self.constants

    def _match(self, path: str, choices: dict[str, tuple[str, ...]]) -> dict[str, str] | None:
        """The fields of a path, which must be the same whether each takes as little or as much as it can."""
        few, many = (re.fullmatch(_regex(self.pattern, choices, lazy), path) for lazy in (True, False))
        if few is None or many is None:
            return None
        if few.groupdict() != many.groupdict():
            raise WrongUse(
                f"--map {self.text}",
                f"{path} can be read in two ways",
                found=f"{_words(few.groupdict())}; or {_words(many.groupdict())}",
                remedy="write a map for each file with constants: PATTERN:arm=...",
            )
        return few.groupdict()


@dataclass(frozen=True)
class Known:
    """The names that a plan has, so that a path is read as what is there; nothing without a plan."""

    choices: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, plan: Plan | None) -> Known:
        """The phases, arms and cases of a plan, cases in the form of a folder's name too."""
        if plan is None:
            return cls({})
        phases = plan.phases.values()
        cases = {case.name for phase in phases for case in phase.cases}
        return cls(
            {
                "phase": tuple(sorted(plan.phases)),
                "arm": tuple(sorted({arm.name for phase in phases for arm in phase.arms})),
                "case": tuple(sorted({form for name in cases if "/" not in name for form in (name, escape(name))}
                                     | {escape(name) for name in cases})),
            }
        )  # fmt: skip


def case_forms(text: str) -> tuple[str, ...]:
    """What a path's element may mean as a case: itself, or the name that it is the folder form of.

    A case holds no white space: Go writes an underscore for each.
    """
    forms = dict.fromkeys((text, unquote(text)))
    return tuple(dict.fromkeys(re.sub(r"\s", "_", form) for form in forms))


def _regex(pattern: str, choices: dict[str, tuple[str, ...]], lazy: bool) -> str:
    out, end, seen = "", 0, set()
    for part in _PART.finditer(pattern):
        out += re.escape(pattern[end : part.start()])
        name, end = part[1], part.end()
        if name is None:
            out += "[^/]*"
        elif name in seen:
            out += f"(?P={name})"
        else:
            seen.add(name)
            out += f"(?P<{name}>{_choice(name, choices, lazy)})"
    return out + re.escape(pattern[end:])


def _choice(name: str, choices: dict[str, tuple[str, ...]], lazy: bool) -> str:
    known = choices.get(name)
    if known:
        return "|".join(re.escape(text) for text in sorted(known, key=len, reverse=not lazy))
    text = _FIELDS[name]
    # Numbers are as long as they are; names take as little or as much as the rest of the path lets them.
    return re.sub(r"(\{0,63\}|\+)$", r"\1?", text) if lazy and name not in NUMBERS else text


def _words(fields: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in fields.items())


def parse(text: str) -> Map:
    """Read one map. Raises WrongUse with what is wrong with it."""
    pattern, constants = _halves(text)
    names = [part[1] for part in _PART.finditer(pattern) if part[1] is not None]
    unknown = [name for name in names if name not in LABELS]
    bare = _PART.sub("", pattern)
    if unknown or not pattern or "{" in bare or "}" in bare:
        raise _wrong(
            text, f"unknown field {{{unknown[0]}}}" if unknown else "no pattern, or a brace that is not closed"
        )
    if any(part in ("", ".", "..") for part in pattern.split("/")):
        raise _wrong(text, "the pattern is no path below the folder")
    found = Map(text, pattern, {}, {}, {})
    for key, value in constants:
        _take(found, key, value)
    twice = [name for name in names if name in found.constants or name in found.columns]
    if twice:
        raise _wrong(text, f"{twice[0]} is in the pattern, and given again")
    return found


def _halves(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The pattern, and what is given behind the first colon that a key and an equals sign follow."""
    split = re.match(r"^(.*?)(?::(?=[^:=,]+=)(.*))?$", text, re.DOTALL)
    assert split is not None  # it matches every text
    pattern, rest = split[1], split[2]
    if not rest:
        return pattern, []
    parts = re.split(r",(?=[^,=]+=@?[^,=]*(?:,|$)|(?:" + "|".join((*LABELS, *TABLE, "suffix", "package")) + ")=)", rest)
    return pattern, [(part.partition("=")[0], part.partition("=")[2]) for part in parts]


def _take(found: Map, key: str, value: str) -> None:
    places = {**found.constants, **found.columns, **found.units}
    if key in places or not value or value == "@":
        raise _wrong(found.text, f"{key} is given twice" if key in places else f"{key} has no value")
    if value.startswith("@"):
        if key == "suffix":
            raise _wrong(found.text, "suffix is no column: expected drop or keep")
        (found.columns if key in LABELS or key in TABLE else found.units)[key] = value[1:]
        return
    allowed = (*LABELS, "run", "suffix", "metric", "package", "as")
    if key not in allowed:
        raise _wrong(found.text, f"unknown key {key!r}; expected one of {', '.join(allowed)}, or UNIT=@column")
    rule = {
        "run": r"row|file",
        "suffix": "|".join(SUFFIX),
        "metric": r"\S+",
        "package": r"\S+",
        "as": "host|restored",
    } | _FIELDS
    if not re.fullmatch(rule[key] if key != "case" else r".+", value):
        raise _wrong(found.text, f"{key}={value} is not of the form {rule[key]}")
    found.constants[key] = value


def _wrong(text: str, problem: str) -> WrongUse:
    return WrongUse(
        f"--map {text}", problem, expected=_SYNTAX, remedy="mend the map; book/adopt.md has the whole syntax"
    )


def ignored(path: str, globs: Iterable[str]) -> str | None:
    """The glob that leaves a file out: one without a slash is of the name alone, one with a slash of the whole path."""
    name = path.rpartition("/")[2]
    return next((glob for glob in globs if fnmatch.fnmatchcase(path if "/" in glob else name, glob)), None)


def assign(
    paths: Sequence[str], maps: Sequence[Map], globs: Sequence[str], known: Known
) -> dict[str, tuple[Map, dict[str, str]]]:
    """The map and the fields of every file that is not ignored.

    Raises WrongUse, with the names, for a file that no map matches or several do, and for a map or glob that is of no use.
    """
    found: dict[str, tuple[Map, dict[str, str]]] = {}
    nobody, several = [], []
    left_out = {path: glob for path in paths if (glob := ignored(path, globs)) is not None}
    for path in paths:
        if path in left_out:
            continue
        hits = [(one, fields) for one in maps if (fields := one.fields(path, known)) is not None]
        if len(hits) == 1:
            found[path] = hits[0]
        elif hits:
            several.append(f"{path} ({', '.join(one.text for one, _ in hits)})")
        else:
            nobody.append(path)
    idle = [one.text for one in maps if not any(one is hit for hit, _ in found.values())]
    idle_globs = [glob for glob in globs if glob not in left_out.values()]
    for names, problem, remedy in (
        (nobody, "no map matches", "add a --map for them, or leave them out by name with --ignore GLOB"),
        (several, "more than one map matches", "make the patterns narrower: every file has exactly one"),
        ([f"--map {text}" for text in idle], "of no use: no file is left for it", "mend or drop it"),
        ([f"--ignore {glob}" for glob in idle_globs], "of no use: there is no such file", "mend or drop it"),
    ):
        if names:
            raise WrongUse(
                "adopt", f"{problem}: {len(names)} in all", found=", ".join(names[:20]) + " ..." * (len(names) > 20),
                remedy=remedy,
            )  # fmt: skip
    return found
