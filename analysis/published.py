"""Figures that others published of a campaign whose raw logs are not here: published.toml beside its plan.

Read strictly and compared with the plan: a key that is not known, or a name that the plan does not have, is an error, as it
would otherwise be a figure that silently stands nowhere. Numbers keep the decimals they were published with.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from analysis.published_fields import Fields, Pair
from runner.errors import DataError
from runner.plan import Phase, Plan
from runner.plantypes import defined
from runner.store import Store

TIME_UNITS = {"ns": Decimal(1), "us": Decimal(1000), "ms": Decimal(10**6), "s": Decimal(10**9)}  # in ns


@dataclass(frozen=True)
class Level:
    """What was published for one arm, in the unit it was published in."""

    arm: str
    value: Decimal
    factor: Decimal  # from the published unit to the plan's


@dataclass(frozen=True)
class PublishedEstimate:
    """What was published of one contrast and metric: of one case, or of a group of cases that only words name."""

    place: str  # key path in the file
    phase: str
    contrast: str
    metric: str  # the plan's unit
    word: str  # the published word for it
    case: str | None = None  # the plan's name
    shown: str = ""  # the published name
    ratio: Decimal | None = None
    interval: Pair | None = None  # percentile
    below_one: bool = False  # said to lie below 1, without its interval
    range: Pair | None = None  # bounds of a group of cases
    leave_one_out: Pair | None = None
    largest_block: Decimal | None = None
    text: str = ""
    note: str = ""
    change: str = ""  # "-7.1%", where that was published and the ratio is 1 plus it

    @property
    def numerator(self) -> str:
        """The arm whose value is divided."""
        return self.contrast.split("/")[0]

    @property
    def denominator(self) -> str:
        """The arm it is divided by."""
        return self.contrast.split("/")[1]


@dataclass(frozen=True)
class PublishedAbsolute:
    """What was published for the arms of one case and metric, in one unit."""

    place: str
    phase: str
    case: str
    shown: str
    metric: str  # the plan's unit
    word: str  # the published word for it, or the unit of time per operation
    unit: str  # "us", where it is not in the word
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Published:
    """Everything that was published of a campaign."""

    campaign: Mapping[str, str]  # what is known of host, server, network, by a short name
    designs: Mapping[str, Mapping[str, object]]
    estimates: tuple[PublishedEstimate, ...]
    absolutes: tuple[PublishedAbsolute, ...]
    remarks: tuple[tuple[str, str], ...]  # phase, text

    def estimates_of(self, phase: str) -> list[PublishedEstimate]:
        """The estimates of a phase, in the order of the file."""
        return [estimate for estimate in self.estimates if estimate.phase == phase]

    def absolutes_of(self, phase: str) -> list[PublishedAbsolute]:
        """The absolute values of a phase, in the order of the file."""
        return [absolute for absolute in self.absolutes if absolute.phase == phase]

    def remarks_of(self, phase: str) -> list[str]:
        """What else was said of a phase."""
        return [text for name, text in self.remarks if name == phase]


def read(store: Store, plan: Plan) -> Published:
    """A campaign's published figures. Raises DataError with file and key path of everything that is wrong with them."""
    path = store.published_path
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(str(path), "published figures cannot be read", found=str(error)) from None
    return parse(text, plan, path)


def parse(text: str, plan: Plan, path: Path | str = "published.toml") -> Published:
    """`read` for the text of the file."""
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise DataError(str(path), "not valid TOML", found=str(error)) from None
    problems: list[str] = []
    found = _published(Fields("", document, problems), plan)
    if problems:
        raise DataError(
            str(path),
            f"{len(problems)} problem{'s' * (len(problems) > 1)} in the published figures",
            found="\n    ".join(problems),
            remedy="mend the keys that are named, or plan.toml where it is wrong",
        )
    return found


def rounds_to(value: float, published: Decimal) -> bool:
    """Whether a value lies within half a unit of the last published digit."""
    exponent = published.as_tuple().exponent
    assert isinstance(exponent, int)
    return abs(Decimal(repr(float(value))) - published) <= Decimal(1).scaleb(exponent) / 2


def inside(value: float, bounds: Pair) -> bool:
    """Whether a value lies in a published range, or rounds to one of its ends."""
    low, high = bounds
    return float(low) <= value <= float(high) or rounds_to(value, low) or rounds_to(value, high)


def published_outside(entry: PublishedEstimate, every: Iterable[PublishedEstimate]) -> set[str]:
    """Cases whose own published ratio is outside of a range: its words except them. Empty without a range."""
    if entry.range is None:
        return set()
    return {
        other.case
        for other in every
        if (other.phase, other.contrast, other.metric) == (entry.phase, entry.contrast, entry.metric)
        and other.case is not None
        and other.ratio is not None
        and not inside(float(other.ratio), entry.range)
    }


# ---- the parts ----------------------------------------------------------------------------------------


def _published(top: Fields, plan: Plan) -> Published:
    units = _units(top.inner("units"), plan)
    campaign = _campaign(top.inner("campaign"), plan)
    _trees(top.inner("trees"), plan)
    _phases(top.inner("phases"), plan)
    designs = _designs(top.inner("designs"), plan)
    estimates: list[PublishedEstimate] = []
    absolutes: list[PublishedAbsolute] = []
    for table in top.items("estimates"):
        phase = _phase(table, plan)
        if phase is not None:
            found, levels = _estimate(table, phase, units)
            if found.ratio and any(_same_ratio(found, other) for other in estimates):
                table.wrong("ratio", f"{found.contrast}, {found.word}, {found.shown or 'every case'}: is there twice")
            estimates.append(found)
            absolutes += levels
    for table in top.items("absolutes"):
        phase = _phase(table, plan)
        if phase is not None:
            absolutes.append(_absolute(table, phase, units))
    remarks = []
    for table in top.items("remarks"):
        remarks.append((table.text("phase", plan.phases, needed=True), table.text("text", needed=True)))
        table.done()
    top.done()
    return Published(campaign, designs, tuple(estimates), tuple(absolutes), tuple(remarks))


def _same_ratio(one: PublishedEstimate, other: PublishedEstimate) -> bool:
    key = (one.phase, one.contrast, one.metric, one.case)
    return other.ratio is not None and key == (other.phase, other.contrast, other.metric, other.case)


def _units(table: Fields, plan: Plan) -> dict[str, str]:
    """The plan's unit of each published word; a unit of the plan is a word of its own."""
    known = list(dict.fromkeys(metric.unit for phase in plan.phases.values() for metric in phase.metrics))
    return {unit: unit for unit in known} | {word: table.text(word, known) for word in table.table}


def _campaign(table: Fields, plan: Plan) -> dict[str, str]:
    table.same("id", plan.campaign.id)
    told = {key: table.text(key) for key in ("host", "server", "network", "go", "source")}
    cpus = table.inner("cpus")
    for key in ("housekeeping", "server", "client"):
        cpus.same(key, getattr(plan.host.cpus, key))
    cpus.done()
    engines = table.inner("engine")
    told |= {f"engine, {key.replace('_', ' ')}": engines.text(key) for key in engines.table}
    bootstrap = table.inner("bootstrap")
    for key in ("resamples", "seed"):
        bootstrap.same(key, getattr(plan.statistics, key))
    bootstrap.taken.add("level")
    level = bootstrap.table.get("level")
    if level is not None and defined(plan.statistics.level) and float(level) != plan.statistics.level:
        bootstrap.wrong("level", f"published {level}, but plan.toml has {plan.statistics.level}")
    told["interval"] = bootstrap.text("method")
    bootstrap.done()
    seeds = table.inner("order_seeds")
    for name in seeds.table:
        if name in plan.phases:
            seeds.same(name, plan.phases[name].order_seed)
    seeds.done()
    harness = table.text("harness")
    for name, tree in plan.trees.items():
        commit = tree.overlay.commit if tree.kind == "git" and tree.overlay else None
        if harness and commit and defined(commit) and commit != harness:
            table.wrong("harness", f"published {harness!r}, but plan.toml has {commit!r} over tree {name}")
    table.done()
    return {key: value for key, value in told.items() if value} | ({"harness commit": harness} if harness else {})


def _trees(table: Fields, plan: Plan) -> None:
    for name in table.table:
        inner = table.inner(name)
        tree = plan.trees.get(name)
        if tree is None:
            table.wrong(name, f"unknown tree; expected one of {', '.join(plan.trees)}")
        inner.same("commit", tree.commit if tree is not None and tree.kind == "git" else "undefined")
        inner.text("what")
        inner.done()


def _phases(table: Fields, plan: Plan) -> None:
    for name in table.table:
        inner = table.inner(name)
        inner.text("question")
        arms = inner.take("arms", list, "a list of arms") or []
        if name not in plan.phases:
            table.wrong(name, f"unknown phase; expected one of {', '.join(plan.phases)}")
        else:
            known = [arm.name for arm in plan.phases[name].arms]
            for arm in arms:
                if arm not in known:
                    inner.wrong("arms", f"unknown arm {arm!r}; expected one of {', '.join(known)}")
        inner.done()


DESIGN_TEXTS = ("source", "read_benchtime", "write_benchtime", "user_keys_cleared")
DESIGN_NUMBERS = (
    *("samples_per_arm_and_case", "samples_total", "workers", "warmup_operations", "measured_operations"),
    *("measured_per_arm_and_workload", "measured_total", "runs", "errors"),
)


def _designs(table: Fields, plan: Plan) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name in table.table:
        inner = table.inner(name)
        phase = plan.phases.get(name)
        if phase is None:
            table.wrong(name, f"unknown phase; expected one of {', '.join(plan.phases)}")
            continue
        for key in DESIGN_TEXTS:
            inner.text(key)
        for key in DESIGN_NUMBERS:
            inner.take(key, int, "a whole number")
        for key in ("cases", "workloads"):
            for case in inner.take(key, list, "a list of cases") or []:
                if case_name(str(case)) not in [known.name for known in phase.cases]:
                    inner.wrong(key, f"unknown case {case!r}")
        for key in ("metrics", "checks"):
            inner.take(key, list, "a list of texts")
        inner.take("record_sizes", dict, "a table")
        inner.same("blocks", phase.blocks)
        inner.same("repeats", phase.repeats)
        processes = len(phase.arms) * len(phase.cases) * (phase.blocks if defined(phase.blocks) else 0)
        inner.same("runs", processes or "undefined")
        inner.same("samples_total", processes * phase.repeats if processes and defined(phase.repeats) else "undefined")
        inner.done()
        found[name] = inner.table
    return found


def _phase(table: Fields, plan: Plan) -> Phase | None:
    name = table.text("phase", plan.phases, needed=True)
    return plan.phases[name] if name else None


def case_name(published: str) -> str:
    """A published name of a case as Go's testing, and so the plan, writes it."""
    return published.replace(" ", "_")


def _case(table: Fields, phase: Phase) -> tuple[str | None, str]:
    """The plan's name of a case, and the published one."""
    shown = table.text("case")
    known = [case.name for case in phase.cases if defined(case.name)]
    if shown and case_name(shown) not in known:
        table.wrong("case", f"unknown {shown!r}; expected one of {', '.join(known)}")
    return (case_name(shown) if shown else None), shown


def _estimate(
    table: Fields, phase: Phase, units: Mapping[str, str]
) -> tuple[PublishedEstimate, list[PublishedAbsolute]]:
    word = table.text("metric", units, needed=True)
    metric = units.get(word, "")
    contrast = table.text("contrast", [contrast.name for contrast in phase.contrasts], needed=True)
    case, shown = _case(table, phase)
    found = PublishedEstimate(
        table.place, table.text("phase"), contrast or "?/?", metric, word, case, shown,
        ratio=table.number("ratio"),
        interval=table.pair("ci"),
        below_one=bool(table.take("below_one", bool, "true or false")),
        range=table.pair("range"),
        leave_one_out=table.pair("leave_one_block_out"),
        largest_block=table.number("largest_block_ratio"),
        text=table.text("text"),
        note=table.text("note"),
        change=table.text("change"),
    )  # fmt: skip
    _consistent(table, found)
    levels = _levels(table, phase, [f"_{unit}" for unit in TIME_UNITS])
    table.done()
    by_unit: dict[str, list[Level]] = {}
    for unit, level in levels:
        by_unit.setdefault(unit, []).append(level)
    return found, [
        PublishedAbsolute(table.place, found.phase, case or "", shown, metric, word, unit, tuple(own))
        for unit, own in by_unit.items()
    ]


def _consistent(table: Fields, found: PublishedEstimate) -> None:
    """What cannot be true of one estimate, or says nothing."""
    if found.interval and found.ratio and not found.interval[0] <= found.ratio <= found.interval[1]:
        table.wrong("ci", f"[{found.interval[0]}, {found.interval[1]}] does not hold its ratio {found.ratio}")
    if found.interval and not found.ratio:
        table.wrong("ci", "an interval without its ratio")
    if found.below_one and found.interval:
        table.wrong("below_one", "is said where no interval was published, and here is one")
    if found.below_one and (found.ratio is None or found.ratio >= 1):
        table.wrong("below_one", f"expected a ratio below 1, found {found.ratio}")
    if found.change and found.ratio != _changed(found.change):
        table.wrong("change", f"expected the ratio less 1 in percent, such as -7.1%, found {found.change!r}")
    if found.range and found.case:
        table.wrong("range", "is of a group of cases, and here is one case")
    if not any((found.ratio, found.range, found.leave_one_out, found.largest_block, found.text)):
        table.wrong(
            "", "nothing was published: expected ratio, range, leave_one_block_out, largest_block_ratio or text"
        )


def _changed(change: str) -> Decimal | None:
    """1 plus a change in percent; None for a text that is none."""
    found = re.fullmatch(r"([+-]\d+(?:\.\d+)?)%", change, re.ASCII)
    return 1 + Decimal(found[1]) / 100 if found else None


def _levels(table: Fields, phase: Phase, endings: Iterable[str]) -> list[tuple[str, Level]]:
    """Values of arms: keys such as ``final_us``; with their units."""
    found = []
    for arm in phase.arms:
        for ending in endings:
            key = arm.name + ending
            value = table.number(key) if key in table.table else None
            if value is not None:
                unit = ending.lstrip("_")
                found.append((unit, Level(arm.name, value, TIME_UNITS.get(unit, Decimal(1)))))
    return found


def _absolute(table: Fields, phase: Phase, units: Mapping[str, str]) -> PublishedAbsolute:
    word = table.text("metric", needed=True)
    metric, factor = _scaled(word, units)
    if not metric:
        table.wrong("metric", f"unknown {word!r}; expected one of {', '.join(units)}, or one in another unit of time")
    case, shown = _case(table, phase)
    if case is None:
        table.wrong("case", "this key is required")
    levels = tuple(Level(level.arm, level.value, factor) for _, level in _levels(table, phase, [""]))
    if not levels:
        table.wrong("", f"no value of an arm: expected one of {', '.join(arm.name for arm in phase.arms)}")
    name = table.text("phase")
    table.done()
    return PublishedAbsolute(table.place, name, case or "", shown, metric, word, "", levels)


def _scaled(word: str, units: Mapping[str, str]) -> tuple[str, Decimal]:
    """The plan's unit, and the factor to it: ``ms/op`` is ``ns/op`` times a million."""
    if word in units:
        return units[word], Decimal(1)
    unit, slash, rest = word.partition("/")
    planned = units.get(f"ns{slash}{rest}", "")
    return (planned, TIME_UNITS[unit]) if unit in TIME_UNITS and planned else ("", Decimal(1))
