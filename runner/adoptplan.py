"""The plan of a new campaign of adopted logs: what the logs show, and "undefined" for everything that they do not. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from runner.adoptgo import SUFFIX, Piece
from runner.adoptmaps import case_forms
from runner.adoptruns import Pieces, name_forms
from runner.errors import DataError, WrongUse

PHASE = "A"
LEVEL, RESAMPLES, SEED = 0.95, 20_000, 641_004
LIMITS = (
    "The logs were made elsewhere, before this plan was written: nothing here was chosen before the results were known.",
    "Which code each arm is, on which host, in which environment and with which toolchain nobody recorded for us.",
)
_HEAD = """\
# Written by `python -m runner adopt` from logs that were made elsewhere. What the logs show is here; what they
# do not show is "undefined", and stays so: this file is under the digest of adoption.json.
format = 1

[campaign]
id = {id}
title = {title}
question = {question}
payload_seed = "undefined"

[statistics]  # chosen at adoption, with the results at hand
primary = "t"
level = {level}
resamples = {resamples}
seed = {seed}

[host]
cpus = {{ housekeeping = "undefined", server = "undefined", client = "undefined" }}

[network]  # none that the logs tell of; this format has no other word for it
kind = "none"

[engine]  # none that the logs tell of; adoption.json says that it is unknown
kind = "none"

[harness]
source = "undefined"
files = ["undefined"]

[rules]
interruptions = ["undefined"]
wrong_answer = "undefined"
wrong_answer_exit = "undefined"
run_limit_s = "undefined"
quiet_wait_s = "undefined"
busy_block = "undefined"
replacement_blocks = "undefined"

[rules.checks]
calibration_ratio = "undefined"
idle_load = "undefined"
steal_share = "undefined"
swap_pages = "undefined"
oom_kills = "undefined"
throttled_periods = "undefined"
"""
_TREE = """
[trees.{name}]
kind = "git"
what = {what}
repository = "undefined"
commit = "undefined"
toolchain = ["undefined"]
build = ["undefined"]
binaries = ["undefined"]
build_limit_s = "undefined"
"""
_PHASE = """
[phases.{name}]
title = {title}
question = {question}
argv = ["undefined"]
blocks = {blocks}
repeats = {repeats}
order_seed = "undefined"
primary_metric = {primary}
limits = [
{limits}
]
arms = [
{arms}
]
metrics = [
{metrics}
]
contrasts = [
{contrasts}
]
holm = {{ metrics = [{primary}], contrasts = [{names}] }}
cases = [
{cases}
]
"""


@dataclass(frozen=True)
class _Seen:
    """What the pieces of one phase show."""

    arms: tuple[str, ...]
    cases: tuple[str, ...]
    units: dict[str, tuple[str, ...]]  # unit -> the cases that have values of it
    counts: dict[str, frozenset[int]]  # unit -> how many values its runs have
    blocks: int | None  # None: unknown
    named: dict[str, tuple[str, ...]]  # case -> what the logs call it
    limits: tuple[str, ...] = ()


def better(unit: str, said: Mapping[str, str]) -> str:
    """Which direction of a unit is better: as the logs say, as it is with Go's usual units, or "undefined"."""
    if unit in said:
        return said[unit]
    if unit.endswith("/op") or re.search(r"(^|-)ns$", unit):
        return "lower"
    return "higher" if re.fullmatch(r"([KMG]i?)?B/s|[a-z]+/s(ec)?", unit) else "undefined"


def named(read: Pieces) -> Pieces:
    """The pieces with the case of each, as the new plan will have it. Raises DataError where a name has two readings.

    When every result of a process ends in the same number, such as -8, it is taken for GOMAXPROCS; the plan says what the
    logs call the case.
    """
    if not read.pieces:
        raise DataError("adopt", "no result in any file", found="; ".join(read.notes))
    endings: dict[tuple[str, int], set[str]] = {}
    for piece in sorted(read.pieces, key=lambda piece: not piece.values):
        own = endings.setdefault(_process(piece), set())
        if piece.values or not own:
            own.add(_ending(piece))
    cases = [_new_case(piece, endings[_process(piece)]) for piece in read.pieces]
    _assert_one_reading(read.pieces, cases)
    undecided = _undecided(read.pieces)
    pieces = tuple(
        replace(
            piece,
            fields={
                "phase": PHASE,
                **piece.fields,
                "case": case,
                "reading": "open" if piece.name in undecided else "one",
            },
        )
        for piece, case in zip(read.pieces, cases, strict=True)
    )
    return replace(read, pieces=pieces)


def _process(piece: Piece) -> tuple[str, int]:
    return piece.file, 0 if piece.file.lower().endswith(".csv") else piece.process


def _ending(piece: Piece) -> str:
    match = SUFFIX.search(piece.name) if piece.go else None
    return match[0] if match else ""


def _new_case(piece: Piece, endings: set[str]) -> str:
    given = piece.fields.get("case")
    if given is not None:
        return case_forms(given)[-1]
    whole, bare = name_forms(piece)[0], name_forms(piece)[-1]
    return bare if len(endings) == 1 and piece.go else whole


def _assert_one_reading(pieces: Sequence[Piece], cases: Sequence[str]) -> None:
    """A case may not come from names with different numbers behind, nor be another case's name with a number behind."""
    first: dict[str, Piece] = {}
    for piece, case in zip(pieces, cases, strict=True):
        other = first.setdefault(case, piece)
        said = {"suffix", "case"} & piece.fields.keys() and {"suffix", "case"} & other.fields.keys()
        if _ending(other) != _ending(piece) and piece.values and other.values and not said:
            raise _two_readings(other, piece)
    for case, piece in first.items():
        shorter = SUFFIX.sub("", case)
        if shorter != case and shorter in first:
            raise _two_readings(first[shorter], piece)


def _undecided(pieces: Sequence[Piece]) -> frozenset[str]:
    """Names of two readings that nothing decides: no map, and no other name of a process that they are in.

    Go puts the number of GOMAXPROCS behind every name of a process, so that a second name with the same number tells.
    """
    names: dict[tuple[str, int], set[str]] = {}
    for piece in pieces:
        names.setdefault(_process(piece), set()).add(piece.name)
    told = {
        piece.name for piece in pieces if len(names[_process(piece)]) > 1 or {"suffix", "case"} & piece.fields.keys()
    }
    return frozenset(piece.name for piece in pieces if _ending(piece)) - told


def _open_names(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """A sentence on the names of which both readings are possible."""
    found = {piece.name: piece.fields["case"] for piece in pieces if piece.fields.get("reading") == "open"}
    if not found:
        return ()
    name, case = next(iter(found.items()))
    more = f", as {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"The logs' {name}{more} was read as {case} with GOMAXPROCS {name[len(case) + 1 :]}; it may also be a benchmark of that "
        "whole name with GOMAXPROCS 1. No other name of its process tells: suffix=drop or suffix=keep in the map does.",
    )


def _two_readings(one: Piece, other: Piece) -> DataError:
    return DataError(
        f"{other.file}:{other.lines[0]}",
        "a number at the end of a benchmark's name may be GOMAXPROCS or a part of the name",
        found=f"{one.name!r} at {one.file}:{one.lines[0]}, {other.name!r} here",
        remedy="say which in the maps: suffix=drop where it is GOMAXPROCS, suffix=keep where it is a part of the name; or "
        "adopt into a folder with a plan.toml that has the cases",
    )


def text(campaign: str, source: str, read: Pieces, arms: Sequence[str], contrasts: Sequence[str]) -> str:
    """The text of the plan. `read` is named; `arms` are all arms in the order of the maps."""
    phases = list(dict.fromkeys(piece.fields["phase"] for piece in read.pieces))
    seen = {
        phase: _seen([p for p in read.pieces if p.fields["phase"] == phase], arms, phase, read.notes)
        for phase in phases
    }
    all_arms = [arm for arm in arms if any(arm in one.arms for one in seen.values())]
    parts = [
        _HEAD.format(
            id=_q(campaign),
            title=_q(f"Adopted logs: {source}"),
            question=_q(f"How do {_and(all_arms)} compare in these logs?"),
            level=LEVEL,
            resamples=RESAMPLES,
            seed=SEED,
        )
    ]
    parts += [
        _TREE.format(name=_key(arm), what=_q(f"The code of arm {arm}: the logs do not tell it")) for arm in all_arms
    ]
    parts += [_phase(phase, one, read.better, contrasts) for phase, one in seen.items()]
    return "".join(parts)


def _seen(pieces: Sequence[Piece], order: Sequence[str], phase: str, notes: Sequence[str]) -> _Seen:
    own = {piece.fields.get("arm", "") for piece in pieces}
    arms = tuple(arm for arm in order if arm in own)
    if len(arms) < 2:
        raise WrongUse(
            "--map", f"phase {phase} has one arm only: {', '.join(own) or 'none'}", expected="two arms or more",
            found="; ".join(notes),
            remedy="say it in the maps: old.txt:arm=before and new.txt:arm=after, or {arm} in a pattern",
        )  # fmt: skip
    cases = tuple(dict.fromkeys(piece.fields["case"] for piece in pieces))
    units: dict[str, dict[str, None]] = {}
    counts: dict[str, set[int]] = {}
    for piece in pieces:
        for unit in dict.fromkeys(value.metric for value in piece.values):
            units.setdefault(unit, {})[piece.fields["case"]] = None
            counts.setdefault(unit, set()).add(sum(value.metric == unit for value in piece.values))
    numbers = {int(piece.fields["block"]) if "block" in piece.fields else None for piece in pieces}  # 01 is 1
    uneven = [f"{unit}: {', '.join(map(str, sorted(found)))}" for unit, found in counts.items() if len(found) > 1]
    return _Seen(
        arms,
        cases,
        {unit: tuple(found) for unit, found in units.items()},
        {unit: frozenset(found) for unit, found in counts.items()},
        None if None in numbers else len(numbers),
        {case: tuple(dict.fromkeys(p.name for p in pieces if p.fields["case"] == case)) for case in cases},
        ((f"Runs do not have the same number of repeats ({'; '.join(uneven)}).",) if uneven else ())
        + _open_names(pieces),
    )


def _phase(name: str, seen: _Seen, said: Mapping[str, str], contrasts: Sequence[str]) -> str:
    primary = _primary(seen, name)
    even = [max(found) for found in seen.counts.values() if len(found) == 1]
    repeats = max(even) if even else None
    pairs = [_pair(contrast, seen, name) for contrast in contrasts] or [(seen.arms[-1], seen.arms[0])]
    return _PHASE.format(
        name=_key(name),
        title=_q("What the adopted logs hold"),
        question=_q(f"How do {_and(seen.arms)} compare?"),
        blocks=seen.blocks if seen.blocks and 2 <= seen.blocks <= 1000 else '"undefined"',
        repeats=repeats if repeats and repeats <= 1000 else '"undefined"',
        primary=_q(primary),
        limits=_rows(_q(limit) for limit in (*LIMITS, *seen.limits)),
        arms=_rows(f"{{ name = {_q(arm)}, tree = {_q(arm)} }}" for arm in seen.arms),
        metrics=_rows(_metric(unit, seen, said, repeats) for unit in seen.units),
        contrasts=_rows(
            f"{{ numerator = {_q(top)}, denominator = {_q(bottom)}, what = {_q(f'{top} against {bottom}')} }}"
            for top, bottom in pairs
        ),
        names=", ".join(_q(f"{top}/{bottom}") for top, bottom in pairs),
        cases=_rows(
            f'{{ name = {_q(case)}, what = {_q(_what(case, seen.named[case]))}, expected_s = "undefined" }}'
            for case in seen.cases
        ),
    )


def _what(case: str, names: Sequence[str]) -> str:
    """What a case is: what the logs call it, where that is more than its name."""
    other = [name for name in names if name != case]
    return f"{case}; the logs call it {_and(names[:3])}"[:2000] if other else f"{case}, as the logs call it"


def _primary(seen: _Seen, phase: str) -> str:
    """The metric that every case with values has: ns/op where it can be, else the first."""
    measured = {case for found in seen.units.values() for case in found}
    shared = [unit for unit, found in seen.units.items() if set(found) == measured]
    if not shared:
        raise DataError(
            f"phase {phase}", "no metric is in the results of every case",
            found="; ".join(f"{unit}: {', '.join(found)}" for unit, found in seen.units.items()) or "no good result",
            remedy="adopt cases of different metrics as phases of their own: phase=NAME in the map",
        )  # fmt: skip
    return "ns/op" if "ns/op" in shared else shared[0]


def _pair(contrast: str, seen: _Seen, phase: str) -> tuple[str, str]:
    top, _, bottom = contrast.partition("/")
    if top not in seen.arms or bottom not in seen.arms or top == bottom:
        raise WrongUse(
            f"--contrast {contrast}", f"not two arms of phase {phase}", expected=f"ARM/ARM of {', '.join(seen.arms)}"
        )
    return top, bottom


def _metric(unit: str, seen: _Seen, said: Mapping[str, str], repeats: int | None) -> str:
    counts, cases = seen.counts[unit], seen.units[unit]
    per = (
        "undefined" if len(counts) > 1 else "repeat" if counts == {repeats} else "run" if counts == {1} else "undefined"
    )
    measured = {case for found in seen.units.values() for case in found}
    # A case without a single good result may have measured anything.
    only = "" if set(cases) == measured else f", cases = [{', '.join(map(_q, cases))}]"
    scope = _q(f"{unit}, as the harness of the logs defines it")
    return f"{{ unit = {_q(unit)}, better = {_q(better(unit, said))}, per = {_q(per)}, scope = {scope}{only} }}"


def _rows(rows: Iterable[str]) -> str:
    return "\n".join(f"  {row}," for row in rows)


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _q(value: str) -> str:
    """A TOML string; JSON's form of one is a TOML one too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _q(name)
