"""From what brought files hold to runs with labels: read against the plan, numbered, and judged. Pure.

Each time the samples are read this happens anew, from the same bytes, and must come to the runs of the record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from runner import adoptcsv, adoptgo
from runner.adoptgo import SUFFIX, Piece
from runner.adoption import FORMAT, AdoptedRun, AdoptedValue, Adoption, entry
from runner.adoptmaps import Known, Map, assign, case_forms, parse
from runner.errors import DataError, WrongUse
from runner.orders import Labels
from runner.plan import Metric, Phase, Plan
from runner.plantypes import defined

ADOPTED = "adopted"  # folder below the campaign
RunKey = tuple[str, str, str]  # phase, case, arm


@dataclass(frozen=True)
class Pieces:
    """What all files hold, in the order of their names."""

    pieces: tuple[Piece, ...]
    notes: tuple[str, ...]
    better: dict[str, str]


@dataclass(frozen=True)
class Runs:
    """The runs of an adoption, and what is to be said about how they were read."""

    runs: tuple[AdoptedRun, ...]
    notes: tuple[str, ...]


def natural(path: str) -> list[tuple[int, int, str]]:
    """A key that sorts r2 before r10."""
    return [
        (0, int(part), "") if re.match("[0-9]", part) else (1, 0, part) for part in re.split(r"([0-9]+)", path) if part
    ]


def read_files(
    assigned: Mapping[str, tuple[Map, dict[str, str]]], load: Callable[[str], bytes], plan: Plan | None
) -> Pieces:
    """Read every file by its map; `load` gives a file's bytes."""
    phases = plan.phases.values() if plan else ()
    units = frozenset(metric.unit for phase in phases for metric in phase.metrics)
    pieces: list[Piece] = []
    notes: list[str] = []
    better: dict[str, str] = {}
    for path in sorted(assigned, key=natural):
        one, given = assigned[path]
        if path.lower().endswith(".csv"):
            found = adoptcsv.read(load(path), path, one, given, units)
        elif one.is_table:
            raise WrongUse(f"--map {one.text}", f"{path} is no .csv file, and this map names columns or rows")
        else:
            case = given.get("case")
            found = adoptgo.read(load(path), path, case and case_forms(case)[-1])
            found = _of_package(found, path, given)
        pieces += found.pieces
        notes += found.notes
        for unit, direction in found.better.items():
            if better.setdefault(unit, direction) != direction:
                raise DataError(path, f"{unit} is better {direction} here, and {better[unit]} in another file")
    return Pieces(tuple(pieces), tuple(notes), better)


def _of_package(found: adoptgo.Read, path: str, given: dict[str, str]) -> adoptgo.Read:
    """The pieces with what path and map say of them; where the map names a package, of this one alone."""
    wanted = given.get("package")
    kept = tuple(replace(piece, fields=given) for piece in found.pieces if wanted in (None, piece.package))
    others = sorted({piece.package for piece in found.pieces if wanted not in (None, piece.package)})
    notes = (f"{path}: results of other packages, left out: {', '.join(others)}",) if others else ()
    return replace(found, pieces=kept, notes=(*found.notes, *notes))


def runs(read: Pieces, plan: Plan) -> Runs:
    """The runs that these pieces are, by the plan. Raises DataError and WrongUse where they cannot be told apart."""
    left_out: dict[str, list[str]] = {}
    placed: list[tuple[RunKey, Piece]] = []
    for piece in read.pieces:
        phase = _phase(piece, plan)
        arm = _arm(piece, plan.phases[phase], phase)
        case = _case(piece, plan.phases[phase], phase)
        if case is None:
            left_out.setdefault(f"{piece.file}: not a case of phase {phase}, and left out", []).append(piece.name)
        else:
            placed.append(((phase, case, arm), piece))
    if not placed:
        raise DataError("adopt", "no result of a case of the plan", found="; ".join(_listed(left_out)) or "no result")
    placed = _sorted(placed, plan)
    _assert_apart(placed)
    units: dict[str, list[str]] = {}
    found = [
        _run(key, piece, plan, number, place, units) for place, (number, (key, piece)) in enumerate(_numbered(placed))
    ]
    _directions(read.better, plan)
    notes = (*read.notes, *_listed(left_out), *_listed(units), *_uneven(placed), *_differing(placed))
    return Runs(tuple(found), tuple(dict.fromkeys(notes)))


def _listed(groups: Mapping[str, list[str]]) -> list[str]:
    return [f"{text}: {', '.join(dict.fromkeys(names))}" for text, names in groups.items()]


def _phase(piece: Piece, plan: Plan) -> str:
    phase = piece.fields.get("phase") or (next(iter(plan.phases)) if len(plan.phases) == 1 else "")
    if phase not in plan.phases:
        raise WrongUse(
            piece.file,
            f"no phase {phase!r} in the plan" if phase else "no phase",
            expected=", ".join(plan.phases),
            remedy="say it in the map: {phase} in the pattern, or phase=NAME",
        )
    return phase


def _arm(piece: Piece, phase: Phase, name: str) -> str:
    arm, arms = piece.fields.get("arm", ""), [arm.name for arm in phase.arms]
    if arm not in arms:
        raise WrongUse(
            f"{piece.file}:{piece.lines[0]}",
            f"no arm {arm!r} in phase {name}" if arm else "no arm",
            expected=", ".join(arms),
            remedy="say it in the map: {arm} in the pattern, arm=NAME, or arm=@column",
        )
    return arm


def name_forms(piece: Piece) -> tuple[str, ...]:
    """What the name of a result may mean as a case: itself, or without its GOMAXPROCS suffix."""
    whole = re.sub(r"\s", "_", piece.name)
    forms = {"keep": (whole,), "drop": (SUFFIX.sub("", whole),)}
    return tuple(dict.fromkeys(forms.get(piece.fields.get("suffix", ""), (whole, SUFFIX.sub("", whole)))))


def _case(piece: Piece, phase: Phase, name: str) -> str | None:
    """The plan's case; None for a benchmark that the plan does not have. Where the map says the case it must be there."""
    cases = [case.name for case in phase.cases]
    given = piece.fields.get("case")
    if given is None:
        forms = name_forms(piece) if piece.go else (name_forms(piece)[0],)
        return next((form for form in forms if form in cases), None)
    case = next((form for form in case_forms(given) if form in cases), None)
    if case is None:
        raise WrongUse(
            piece.file,
            f"no case {given!r} in phase {name}",
            expected=", ".join(cases),
            remedy="mend the map or the plan",
        )
    if case not in name_forms(piece):
        raise DataError(
            f"{piece.file}:{piece.lines[0]}",
            f"a result of {piece.name!r} in a file of case {case!r}",
            remedy="leave the case out of the map: it is then read from the results",
        )
    return case


def _sorted(placed: list[tuple[RunKey, Piece]], plan: Plan) -> list[tuple[RunKey, Piece]]:
    """By phase; inside of a phase by sequence where every run has one, else in the order of the files."""
    out: list[tuple[RunKey, Piece]] = []
    for phase in plan.phases:
        own = [entry for entry in placed if entry[0][0] == phase]
        if all("sequence" in piece.fields for _, piece in own):
            own.sort(key=lambda entry: int(entry[1].fields["sequence"]))
        out += own
    return out


def _numbered(placed: Sequence[tuple[RunKey, Piece]]) -> Iterable[tuple[int, tuple[RunKey, Piece]]]:
    counts: dict[RunKey, int] = {}
    for key, piece in placed:
        counts[key] = counts.get(key, 0) + 1
        yield counts[key], (key, piece)


def _assert_apart(placed: Sequence[tuple[RunKey, Piece]]) -> None:
    """No two runs may have the same labels, and no run's samples may come from two packages."""
    blocks: dict[tuple[object, ...], Piece] = {}
    packages: dict[RunKey, Piece] = {}
    blocked: dict[str, Piece] = {}
    processes: dict[tuple[object, ...], Piece] = {}
    for key, piece in placed:
        words = f"phase {key[0]}, case {key[1]}, arm {key[2]}"
        other = blocked.setdefault(key[0], piece)
        if ("block" in other.fields) != ("block" in piece.fields):
            raise DataError(f"{piece.file}:{piece.lines[0]}", "some runs of this phase have a block, and some have none",
                            found=f"{other.file} and {piece.file}", remedy="give all of them a block, or none")  # fmt: skip
        other = packages.setdefault(key, piece) if piece.values and piece.package else piece
        if other.package != piece.package:
            raise DataError(
                f"{piece.file}:{piece.lines[0]}", f"two packages have this benchmark: {words}",
                found=f"{other.package!r} at {other.file}:{other.lines[0]}, {piece.package!r} here",
                remedy="take one with package=PATH in the map; another one is another campaign or, from a file of its own, a phase",
            )  # fmt: skip
        other = processes.setdefault((*key, piece.file, piece.process), piece)
        if other is not piece:
            raise DataError(
                f"{piece.file}:{piece.lines[0]}", f"one process has two results for the same run: {words}",
                found=f"{other.name!r} at {other.file}:{other.lines[0]}, {piece.name!r} here",
                remedy="give the plan a case for each of them, or take suffix=drop out of the map: "
                "a benchmark with several GOMAXPROCS is as many cases",
            )  # fmt: skip
        for name in ("block", "sequence"):
            if name not in piece.fields:
                continue
            number = int(piece.fields[name])
            other = blocks.setdefault((name, number, *(key if name == "block" else key[:1])), piece)
            if other is not piece and (name == "block" or piece.file != other.file or piece.process != other.process):
                raise DataError(
                    f"{piece.file}:{piece.lines[0]}", f"two runs with {name} {number}: {words}",
                    found=f"{other.file}:{other.lines[0]} and {piece.file}:{piece.lines[0]}",
                    remedy="a file of several processes has no one block: leave it out of the map",
                )  # fmt: skip


def _run(key: RunKey, piece: Piece, plan: Plan, number: int, place: int, units: dict[str, list[str]]) -> AdoptedRun:
    phase, case, arm = key
    fields = piece.fields
    problem = piece.problem
    values: tuple[AdoptedValue, ...] = ()
    if not problem:
        metrics = {metric.unit: metric for metric in plan.phases[phase].metrics_of(case)}
        values = tuple(value for value in piece.values if value.metric in metrics)
        for value in piece.values:
            if value.metric not in metrics:
                units.setdefault(
                    f"phase {phase}: units that the plan does not have for these cases, left out", []
                ).append(f"{value.metric} of {case}")
        problem = _judge(piece, values, metrics, plan.phases[phase])
    ordered = "position" in fields and "sequence" in fields
    labels = Labels(
        phase,
        case,
        arm,
        int(fields.get("block", number)),
        int(fields.get("position", -1)),
        int(fields["sequence"]) if ordered else place,
    )
    return AdoptedRun(
        labels,
        number,
        f"{ADOPTED}/{piece.file}",
        piece.lines,
        "failed" if problem else "ok",
        problem,
        () if problem else values,
        paired="block" in fields,
        ordered=ordered,
    )


def _judge(piece: Piece, values: Sequence[AdoptedValue], metrics: Mapping[str, Metric], phase: Phase) -> str:
    """Why these values are none of a good run; empty when they are."""
    where = f"{piece.file}:{piece.lines[0]}"
    if not values:
        return f"{where}: no value of a metric of the plan"
    negative = next((value for value in values if value.value < 0), None)
    if negative:
        return f"{piece.file}:{negative.line}: a negative {negative.metric}: {negative.value}"
    for unit in dict.fromkeys(value.metric for value in values):
        found = sum(value.metric == unit for value in values)
        expected = {"repeat": phase.repeats, "run": 1}.get(metrics[unit].per, "undefined")
        if defined(expected) and found != expected:
            return f"{where}: expected {expected} values of {unit}, found {found}"
    return ""


def _directions(better: Mapping[str, str], plan: Plan) -> None:
    for name, phase in plan.phases.items():
        for metric in phase.metrics:
            said = better.get(metric.unit, metric.better)
            if defined(metric.better) and said != metric.better:
                raise DataError(
                    f"phase {name}", f"{metric.unit} is better {said} in the logs, and {metric.better} in the plan"
                )


def _uneven(placed: Sequence[tuple[RunKey, Piece]]) -> list[str]:
    """The arms of which some cases have fewer runs: a process that ended early never came to its later benchmarks."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for (phase, case, arm), _ in placed:
        own = counts.setdefault((phase, arm), {})
        own[case] = own.get(case, 0) + 1
    cases: dict[str, dict[str, None]] = {}
    for phase, case, _ in (key for key, _ in placed):
        cases.setdefault(phase, {})[case] = None
    absent = {key: [case for case in cases[key[0]] if case not in own] for key, own in counts.items()}
    notes = [
        f"phase {phase}, arm {arm}: no run of {', '.join(names)}" for (phase, arm), names in absent.items() if names
    ]
    return notes + [
        f"phase {phase}, arm {arm}: {max(own.values())} runs of some cases, fewer of "
        + ", ".join(f"{case} ({count})" for case, count in own.items() if count < max(own.values()))
        for (phase, arm), own in counts.items()
        if len(set(own.values())) > 1
    ]


def _differing(placed: Sequence[tuple[RunKey, Piece]]) -> list[str]:
    """What the outputs say of hosts, packages and GOMAXPROCS, where it is not the same for all runs of a phase."""
    found: dict[tuple[str, str], dict[str, set[str]]] = {}
    for (phase, case, arm), piece in placed:
        suffix = SUFFIX.search(piece.name) if piece.go and piece.name != case else None
        said = [*piece.host, ("GOMAXPROCS suffix", suffix[0] if suffix else "none")] if piece.go else []
        said += [(f"package of {case}", piece.package)] if piece.package else []
        for key, value in said:
            found.setdefault((phase, key), {}).setdefault(value, set()).add(arm)
    return [
        f"phase {phase}: {key} is not the same in all runs: "
        + "; ".join(f"{value} (arm {', '.join(sorted(arms))})" for value, arms in values.items())
        for (phase, key), values in found.items()
        if len(values) > 1
    ]


def reread(content: Any, digest: str, load: Callable[[str, str], bytes], plan: Callable[[], Plan]) -> Adoption:
    """The runs of a record, read anew from their files; `load` gives the bytes of a file that has a digest.

    Raises DataError when the files hold other runs than the record has.
    """
    shape = {"format": int, "maps": list, "unknown": list, "files": dict, "runs": list}
    if not isinstance(content, dict) or any(not isinstance(content.get(key), kind) for key, kind in shape.items()):
        raise DataError("adoption.json", "not in the form that the runner writes", expected=", ".join(shape))
    if content["format"] != FORMAT:
        raise DataError("adoption.json", "another format", expected=str(FORMAT), found=str(content["format"]))
    files: dict[str, str] = content["files"]
    outside = [name for name in files if {"", ".", ".."} & set(name.split("/"))]
    if outside:
        raise DataError("adoption.json", "a file that is not below the campaign", found=", ".join(outside))
    for name in files.keys() & {"plan.toml"}:
        load(name, files[name])
    own = plan()
    paths = sorted(name.removeprefix(f"{ADOPTED}/") for name in files if name.startswith(f"{ADOPTED}/"))
    assigned = assign(paths, [one for one in map(parse, content["maps"]) if one.record is None], (), Known.of(own))
    read = read_files(assigned, lambda path: load(f"{ADOPTED}/{path}", files[f"{ADOPTED}/{path}"]), own)
    found = runs(read, own)
    entries = [entry(run) for run in found.runs]
    if entries != content["runs"]:
        pairs = enumerate(zip_longest(content["runs"], entries))
        place, (then, now) = next((place, pair) for place, pair in pairs if pair[0] != pair[1])
        raise DataError(
            f"adoption.json: run {place}",
            "the adopted files hold another run than the record",
            expected=str(then),
            found=str(now),
            remedy="read them with the runner that adopted them: adoption.json has its digests; or adopt them anew",
        )
    return Adoption(content, digest, found.runs)
