"""The plan: everything that is chosen before the first run, as frozen, validated data.

Keys that the format does not know are errors: a misspelt key is a choice that silently would not have been made.
`runner.planfile` reads a plan and reports everything that is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from runner.plantrees import Tree
from runner.plantypes import (
    Argv,
    CaseName,
    Contrast,
    Count,
    CpuList,
    Environment,
    FileName,
    IntervalKind,
    Line,
    MayBeUndefined,
    Name,
    Parameters,
    PlanPart,
    Ratio,
    RelativePath,
    Scalar,
    Seconds,
    Seed,
    Share,
    Switches,
    Text,
    Version,
)

FORMAT = 1


class Campaign(PlanPart):
    id: Name
    title: Text
    question: Text
    payload_seed: Seed
    short: Line = ""  # for a shortened copy: what it was shortened from


class Statistics(PlanPart):
    primary: IntervalKind
    level: Annotated[float, Field(gt=0.5, lt=1), MayBeUndefined]
    resamples: Annotated[int, Field(ge=100, le=10_000_000), MayBeUndefined]
    seed: Seed


class CpuGroups(PlanPart):
    housekeeping: CpuList
    server: CpuList
    client: CpuList


class Host(PlanPart):
    cpus: CpuGroups


Delay = Annotated[int, Field(ge=0, le=10_000_000), MayBeUndefined]  # microseconds added each way


class Network(PlanPart):
    kind: Literal["veth", "loopback", "none"]
    delay_us: Delay = 0


class Engine(PlanPart):
    kind: Literal["postgres", "foundationdb", "none"]
    version: Version = ""
    storage: Literal["memory", "disk", ""] = ""
    authentication: Literal["scram-sha-256", ""] = ""
    settings: dict[Name, Line] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "postgres" and not (self.version and self.storage and self.authentication):
            raise ValueError("engine postgres needs version, storage and authentication")
        if self.kind == "foundationdb" and (self.authentication or not (self.version and self.storage)):
            raise ValueError("engine foundationdb needs version and storage, and has no authentication")
        return self

    @property
    def storage_engine(self) -> str:
        """FoundationDB's storage engine, by default the one that fits where the data lies; "" for other engines."""
        if self.kind != "foundationdb":
            return ""
        return self.settings.get("storage_engine", "memory" if self.storage == "memory" else "ssd-2")


class Harness(PlanPart):
    source: RelativePath | None = None  # None: the files lie in the campaign's own harness/ already
    files: tuple[RelativePath, ...]

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.source is not None and not self.files:
            raise ValueError("a source without files: expected some, or no source")
        return self


class Checks(PlanPart):
    """Thresholds. A check that is over its threshold marks the block; it never drops it."""

    calibration_ratio: Ratio
    idle_load: Share
    steal_share: Share
    swap_pages: Count
    oom_kills: Count
    throttled_periods: Count


class Rules(PlanPart):
    interruptions: tuple[Annotated[Literal["runner-killed", "host-down"], MayBeUndefined], ...]
    wrong_answer: Annotated[Literal["go-on", "stop-phase"], MayBeUndefined]
    wrong_answer_exit: Annotated[int, Field(ge=1, le=125), MayBeUndefined]
    run_limit_s: Seconds
    quiet_wait_s: Annotated[float, Field(ge=0, le=86_400), MayBeUndefined]
    busy_block: Annotated[Literal["mark", "refuse"], MayBeUndefined]
    replacement_blocks: Annotated[int, Field(ge=0, le=100), MayBeUndefined]
    output_limit_mb: Annotated[int, Field(ge=1, le=100_000)] = 256
    checks: Checks


class Arm(PlanPart):
    name: Name
    tree: Name
    switches: Switches = Field(default_factory=dict)


class AllBut(PlanPart):
    all_but: Annotated[tuple[CaseName, ...], Field(min_length=1)]


def _cases_form(value: object) -> str:
    """Which form was meant, so that an error is about that form alone."""
    if isinstance(value, dict | AllBut):
        return "a table"
    return "a list" if isinstance(value, list | tuple) else "a word"


Cases = Annotated[
    Annotated[Literal["all"], Tag("a word")]
    | Annotated[AllBut, Tag("a table")]
    | Annotated[tuple[CaseName, ...], Field(min_length=1), Tag("a list")],
    Discriminator(_cases_form),
]


def named_cases(cases: Literal["all"] | AllBut | tuple[str, ...], known: Iterable[str]) -> tuple[str, ...]:
    """The cases that "all", { all_but = [...] } or a list stands for, in the order of `known`."""
    if isinstance(cases, AllBut):
        return tuple(name for name in known if name not in cases.all_but)
    return tuple(name for name in known if cases == "all" or name in cases)


class Metric(PlanPart):
    unit: CaseName
    better: Annotated[Literal["lower", "higher"], MayBeUndefined]
    per: Annotated[Literal["repeat", "run"], MayBeUndefined]
    scope: Text
    counted: bool = False  # counted outside of all timing, so that no load of the host moves it
    cases: Cases = "all"  # that measure it


class ContrastPart(PlanPart):
    numerator: Name
    denominator: Name
    what: Text

    @property
    def name(self) -> str:
        """The contrast as it is written everywhere: numerator/denominator."""
        return f"{self.numerator}/{self.denominator}"


class Holm(PlanPart):
    metrics: tuple[CaseName, ...]  # none: no correction is planned
    contrasts: tuple[Contrast, ...]


class Covariate(PlanPart):
    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
    expected: Literal["constant", "varying"]
    what: Text
    unit: Line = ""  # of a number that the page is to show for each case and arm


class Case(PlanPart):
    name: CaseName
    what: Text
    group: Line = ""
    expected_s: Seconds  # a guess of one process's length, for the schedule alone
    parameters: Parameters = Field(default_factory=dict)
    argv: Argv | None = None  # where this case has another harness than its phase
    outputs: tuple[FileName, ...] | None = None  # where it writes other files than its phase says


def _ordered(bounds: tuple[float, float]) -> tuple[float, float]:
    if not bounds[0] < bounds[1]:
        raise ValueError(f"bounds must be 0 < low < high, found {list(bounds)}")
    return bounds


Bounds = Annotated[tuple[Ratio, Ratio], AfterValidator(_ordered)]


class Within(PlanPart):
    within: Bounds


class PointWithin(PlanPart):
    point_within: Bounds


def _holds_form(value: object) -> str:
    if isinstance(value, dict | BaseModel):
        return "a point" if "point_within" in dict(value) else "an interval"
    return "a word"


Holds = Annotated[
    Annotated[Literal["below-1", "above-1", "largest", "smallest"], Tag("a word")]
    | Annotated[Within, Tag("an interval")]
    | Annotated[PointWithin, Tag("a point")],
    Discriminator(_holds_form),
]


class Claim(PlanPart):
    id: Name
    text: Text
    metric: CaseName
    contrast: Contrast
    cases: Cases
    holds: Holds
    interval: IntervalKind | None = None


class PhaseEngine(PlanPart):
    """What is another way in one phase than the plan's engine says."""

    storage: Literal["memory", "disk"] | None = None
    settings: dict[Name, Line] = Field(default_factory=dict)


class PhaseNetwork(PlanPart):
    """What is another way in one phase than the plan's network says."""

    delay_us: Delay


class Phase(PlanPart):
    title: Text
    question: Text
    argv: Argv
    outputs: tuple[FileName, ...] = ()  # files beside stdout and stderr that every process writes into {output}
    environment: Environment = Field(default_factory=dict)
    fixture: Name | None = None
    engine: PhaseEngine | None = None
    network: PhaseNetwork | None = None
    blocks: Annotated[int, Field(ge=2, le=1000), MayBeUndefined]
    repeats: Annotated[int, Field(ge=1, le=1000), MayBeUndefined]
    order_seed: Seed
    primary_metric: CaseName
    arms: Annotated[tuple[Arm, ...], Field(min_length=2, max_length=100)]
    metrics: Annotated[tuple[Metric, ...], Field(min_length=1, max_length=200)]
    contrasts: Annotated[tuple[ContrastPart, ...], Field(min_length=1, max_length=500)]
    holm: Holm
    covariates: Annotated[tuple[Covariate, ...], Field(max_length=200)] = ()
    cases: Annotated[tuple[Case, ...], Field(min_length=1, max_length=5000)]
    claims: Annotated[tuple[Claim, ...], Field(max_length=1000)] = ()
    open_questions: tuple[Text, ...] = ()
    limits: tuple[Text, ...] = ()

    def case(self, name: str) -> Case:
        """A case by its name."""
        return next(case for case in self.cases if case.name == name)

    def argv_of(self, case: str) -> tuple[str, ...]:
        """The command of a case's processes, as a template."""
        return self.case(case).argv or self.argv

    def outputs_of(self, case: str) -> tuple[str, ...]:
        """Files beside stdout and stderr that a case's processes write."""
        own = self.case(case).outputs
        return self.outputs if own is None else own

    def metrics_of(self, case: str) -> tuple[Metric, ...]:
        """The metrics that a case measures, in plan order."""
        return tuple(metric for metric in self.metrics if case in self.cases_of(metric.unit))

    def cases_of(self, unit: str) -> tuple[str, ...]:
        """The cases that measure a metric, in plan order."""
        metric = next(metric for metric in self.metrics if metric.unit == unit)
        return named_cases(metric.cases, [case.name for case in self.cases])

    def is_null(self, contrast: ContrastPart) -> bool:
        """Whether a contrast compares an arm with itself under another name: same tree, same switches."""
        arms = {arm.name: (arm.tree, arm.switches) for arm in self.arms}
        return arms[contrast.numerator] == arms[contrast.denominator]


class Fixture(PlanPart):
    """A database that is made once for each start of the engine, and copied for every process."""

    what: Text
    tree: Name
    argv: Argv
    environment: Environment = Field(default_factory=dict)
    parameters: Parameters = Field(default_factory=dict)  # every case of a phase with this fixture gets them too


class Short(PlanPart):
    """How `new --from` shortens this plan for a quick campaign on another host."""

    blocks: Annotated[int, Field(ge=2, le=1000)]
    cases: dict[Name, Annotated[tuple[CaseName, ...], Field(min_length=1)]]


class Plan(PlanPart):
    format: Literal[1]
    campaign: Campaign
    statistics: Statistics
    host: Host
    network: Network
    engine: Engine
    harness: Harness
    rules: Rules
    trees: Annotated[dict[Name, Tree], Field(min_length=1, max_length=200)]
    fixtures: dict[Name, Fixture] = Field(default_factory=dict)
    phases: Annotated[dict[Name, Phase], Field(min_length=1, max_length=200)]
    short: Short | None = None

    def engine_of(self, phase: str) -> Engine:
        """The engine as this phase has it."""
        own = self.phases[phase].engine
        if own is None:
            return self.engine
        return self.engine.model_copy(
            update={"storage": own.storage or self.engine.storage, "settings": self.engine.settings | own.settings}
        )

    def network_of(self, phase: str) -> Network:
        """The network as this phase has it."""
        own = self.phases[phase].network
        return self.network if own is None else self.network.model_copy(update={"delay_us": own.delay_us})

    def parameters_of(self, phase: str, case: str) -> dict[str, Scalar | tuple[int, ...]]:
        """A case's parameters as its harness gets them: the payload seed, its fixture's, its own."""
        fixture = self.phases[phase].fixture
        shared = self.fixtures[fixture].parameters if fixture else {}
        return {"payload_seed": self.campaign.payload_seed, **shared, **self.phases[phase].case(case).parameters}
