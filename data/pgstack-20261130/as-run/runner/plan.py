"""The plan: everything that is chosen before the first run, as frozen, validated data.

Keys that the format does not know are errors: a misspelt key is a choice that silently would not have been made.
`runner.planfile` reads a plan and reports everything that is wrong with it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

FORMAT = 1
LARGEST = 10**12  # of any number among parameters and switches: more is a slip, and would fill memory or disk

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
CaseName = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f]{1,120}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Contrast = Annotated[str, StringConstraints(pattern=r"^[^/\s]+/[^/\s]+$")]
IntervalKind = Literal["t", "percentile"]
Size = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Scalar = bool | Size | Number | str
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=7 * 86_400)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def _inside(path: str) -> str:
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"path {path!r} leaves its folder, or is not in its shortest form")
    return path


def _cpus(text: str) -> str:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not int(first) <= int(last or first) < 8192:
            raise ValueError(f"{part!r} is no range of CPU numbers")
    return text


CpuList = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$"), AfterValidator(_cpus)
]
RelativePath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}$"), AfterValidator(_inside)
]


class Part(BaseModel):
    """Base of every part of a plan: frozen, strict types, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Campaign(Part):
    id: Name
    title: Text
    question: Text
    payload_seed: Seed
    short: str = ""  # for a shortened copy: what it was shortened from


class Statistics(Part):
    primary: IntervalKind
    level: Annotated[float, Field(gt=0.5, lt=1)]
    resamples: Annotated[int, Field(ge=100, le=10_000_000)]
    seed: Seed


class CpuGroups(Part):
    housekeeping: CpuList
    server: CpuList
    client: CpuList


class Host(Part):
    cpus: CpuGroups


class Network(Part):
    kind: Literal["veth", "loopback", "none"]
    delay_us: Annotated[int, Field(ge=0, le=10_000_000)] = 0  # each way


class Engine(Part):
    kind: Literal["postgres", "none"]
    version: str = ""
    storage: Literal["memory", "disk", ""] = ""
    authentication: Literal["scram-sha-256", ""] = ""
    settings: dict[Name, str] = {}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "postgres" and not (self.version and self.storage and self.authentication):
            raise ValueError("engine postgres needs version, storage and authentication")
        return self


class Harness(Part):
    source: RelativePath
    files: Annotated[tuple[RelativePath, ...], Field(min_length=1)]


class Checks(Part):
    """Thresholds. A check that is over its threshold marks the block; it never drops it."""

    calibration_ratio: Ratio
    idle_load: Share
    steal_share: Share
    swap_pages: Annotated[int, Field(ge=0)]
    oom_kills: Annotated[int, Field(ge=0)]
    throttled_periods: Annotated[int, Field(ge=0)]


class Rules(Part):
    interruptions: tuple[Literal["runner-killed", "host-down"], ...]
    wrong_answer: Literal["go-on", "stop-phase"]
    wrong_answer_exit: Annotated[int, Field(ge=1, le=125)]
    run_limit_s: Seconds
    quiet_wait_s: Annotated[float, Field(ge=0, le=86_400)]
    busy_block: Literal["mark", "refuse"]
    replacement_blocks: Annotated[int, Field(ge=0, le=100)]
    checks: Checks


class Tree(Part):
    """A pinned version of the code under test: an exact set of package versions."""

    kind: Literal["packages"]
    what: Text
    python: Annotated[str, StringConstraints(pattern=r"^3\.[0-9]{1,2}$")]
    lock: RelativePath
    compiled: tuple[str, ...] = ()


class Arm(Part):
    name: Name
    tree: Name
    switches: dict[Name, Scalar] = {}


class Metric(Part):
    unit: CaseName
    better: Literal["lower", "higher"]
    per: Literal["repeat", "run"]
    scope: Text


class ContrastPart(Part):
    numerator: Name
    denominator: Name
    what: Text

    @property
    def name(self) -> str:
        """The contrast as it is written everywhere: numerator/denominator."""
        return f"{self.numerator}/{self.denominator}"


class Holm(Part):
    metrics: Annotated[tuple[CaseName, ...], Field(min_length=1)]
    contrasts: Annotated[tuple[Contrast, ...], Field(min_length=1)]


class Covariate(Part):
    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$")]
    expected: Literal["constant", "varying"]
    what: Text


class Case(Part):
    name: CaseName
    what: Text
    group: str = ""
    expected_s: Seconds  # a guess of one process's length, for the schedule alone
    parameters: dict[Name, Scalar | tuple[Size, ...]] = {}


class AllBut(Part):
    all_but: Annotated[tuple[CaseName, ...], Field(min_length=1)]


def _ordered(bounds: tuple[float, float]) -> tuple[float, float]:
    if not bounds[0] < bounds[1]:
        raise ValueError(f"bounds must be 0 < low < high, found {list(bounds)}")
    return bounds


Bounds = Annotated[tuple[Ratio, Ratio], AfterValidator(_ordered)]


class Within(Part):
    within: Bounds


class PointWithin(Part):
    point_within: Bounds


def _cases_form(value: object) -> str:
    """Which form was meant, so that an error is about that form alone."""
    if isinstance(value, dict | AllBut):
        return "a table"
    return "a list" if isinstance(value, list | tuple) else "a word"


def _holds_form(value: object) -> str:
    if isinstance(value, dict | BaseModel):
        return "a point" if "point_within" in dict(value) else "an interval"
    return "a word"


Cases = Annotated[
    Annotated[Literal["all"], Tag("a word")]
    | Annotated[AllBut, Tag("a table")]
    | Annotated[tuple[CaseName, ...], Field(min_length=1), Tag("a list")],
    Discriminator(_cases_form),
]
Holds = Annotated[
    Annotated[Literal["below-1", "above-1", "largest", "smallest"], Tag("a word")]
    | Annotated[Within, Tag("an interval")]
    | Annotated[PointWithin, Tag("a point")],
    Discriminator(_holds_form),
]


class Claim(Part):
    id: Name
    text: Text
    metric: CaseName
    contrast: Contrast
    cases: Cases
    holds: Holds
    interval: IntervalKind | None = None


class Phase(Part):
    title: Text
    question: Text
    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    environment: dict[Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")], str] = {}
    blocks: Annotated[int, Field(ge=2, le=1000)]
    repeats: Annotated[int, Field(ge=1, le=1000)]
    order_seed: Seed
    primary_metric: CaseName
    arms: Annotated[tuple[Arm, ...], Field(min_length=2)]
    metrics: Annotated[tuple[Metric, ...], Field(min_length=1)]
    contrasts: Annotated[tuple[ContrastPart, ...], Field(min_length=1)]
    holm: Holm
    covariates: tuple[Covariate, ...] = ()
    cases: Annotated[tuple[Case, ...], Field(min_length=1)]
    claims: tuple[Claim, ...] = ()
    open_questions: tuple[Text, ...] = ()
    limits: tuple[Text, ...] = ()


class Short(Part):
    """How `new --from` shortens this plan for a quick campaign on another host."""

    blocks: Annotated[int, Field(ge=2, le=1000)]
    cases: dict[Name, Annotated[tuple[CaseName, ...], Field(min_length=1)]]


class Plan(Part):
    format: Literal[1]
    campaign: Campaign
    statistics: Statistics
    host: Host
    network: Network
    engine: Engine
    harness: Harness
    rules: Rules
    trees: Annotated[dict[Name, Tree], Field(min_length=1)]
    phases: Annotated[dict[Name, Phase], Field(min_length=1)]
    short: Short | None = None
