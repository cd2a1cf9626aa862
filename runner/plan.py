"""The plan: everything that is chosen before the first run, as frozen, validated data.

Keys that the format does not know are errors: a misspelt key is a choice that silently would not have been made.
`runner.planfile` reads a plan and reports everything that is wrong with it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

FORMAT = 1

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
CaseName = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f]{1,120}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
CpuList = Annotated[str, StringConstraints(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")]
RelativePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$")]
Contrast = Annotated[str, StringConstraints(pattern=r"^[^/\s]+/[^/\s]+$")]
IntervalKind = Literal["t", "percentile"]
Scalar = bool | int | float | str
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def _no_escape(path: str) -> None:
    if ".." in path.split("/") or path.startswith("/"):
        raise ValueError(f"path {path!r} leaves its folder")


class Part(BaseModel):
    """Base of every part of a plan: frozen, strict types, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Campaign(Part):
    id: Name
    title: Text
    question: Text
    payload_seed: int
    short: str = ""  # for a shortened copy: what it was shortened from


class Statistics(Part):
    primary: IntervalKind
    level: Annotated[float, Field(gt=0.5, lt=1)]
    resamples: Annotated[int, Field(ge=100, le=10_000_000)]
    seed: Annotated[int, Field(ge=0)]


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

    @model_validator(mode="after")
    def _inside(self) -> Self:
        for path in (self.source, *self.files):
            _no_escape(path)
        return self


class Checks(Part):
    """Thresholds. A check that is over its threshold marks the block; it never drops it."""

    calibration_ratio: Positive
    idle_load: Share
    steal_share: Share
    swap_pages: Annotated[int, Field(ge=0)]
    oom_kills: Annotated[int, Field(ge=0)]
    throttled_periods: Annotated[int, Field(ge=0)]


class Rules(Part):
    interruptions: tuple[Literal["runner-killed", "host-down"], ...]
    wrong_answer: Literal["go-on", "stop-phase"]
    wrong_answer_exit: Annotated[int, Field(ge=1, le=125)]
    run_limit_s: Positive
    quiet_wait_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    busy_block: Literal["mark", "refuse"]
    replacement_blocks: Annotated[int, Field(ge=0, le=100)]
    checks: Checks


class Tree(Part):
    """A pinned version of the code under test: an exact set of package versions."""

    kind: Literal["packages"]
    what: Text
    python: Annotated[str, StringConstraints(pattern=r"^3\.\d+$")]
    lock: RelativePath
    compiled: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _inside(self) -> Self:
        _no_escape(self.lock)
        return self


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
    expected_s: Positive  # a guess of one process's length, for the schedule alone
    parameters: dict[Name, Scalar | tuple[int, ...]] = {}


class AllBut(Part):
    all_but: Annotated[tuple[CaseName, ...], Field(min_length=1)]


class Within(Part):
    within: tuple[float, float]


class PointWithin(Part):
    point_within: tuple[float, float]


class Claim(Part):
    id: Name
    text: Text
    metric: CaseName
    contrast: Contrast
    cases: Literal["all"] | AllBut | Annotated[tuple[CaseName, ...], Field(min_length=1)]
    holds: Literal["below-1", "above-1", "largest", "smallest"] | Within | PointWithin
    interval: IntervalKind | None = None

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if isinstance(self.holds, Within | PointWithin):
            low, high = self.holds.within if isinstance(self.holds, Within) else self.holds.point_within
            if not 0 < low < high:
                raise ValueError(f"bounds must be 0 < low < high, found [{low}, {high}]")
        if self.holds in ("largest", "smallest") and (isinstance(self.cases, str | AllBut) or len(self.cases) != 1):
            raise ValueError(f'"{self.holds}" is said of one case: cases must list exactly one')
        return self


class Phase(Part):
    title: Text
    question: Text
    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    environment: dict[Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")], str] = {}
    blocks: Annotated[int, Field(ge=2, le=1000)]
    repeats: Annotated[int, Field(ge=1, le=1000)]
    order_seed: Annotated[int, Field(ge=0)]
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

    blocks: Annotated[int, Field(ge=2)]
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
