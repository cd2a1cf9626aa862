"""The shapes that travel from raw logs to pages: samples, estimates with their warnings, claim results.

Everything here is frozen data. Estimates carry what should worry a reader inside themselves, so that a
warning reaches the footnote of the number it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Interval = tuple[float, float]


@dataclass(frozen=True)
class Sample:
    """One repeat's value of one metric, with the raw line it was read from."""

    phase: str
    case: str
    arm: str
    block: int
    position: int  # of the arm inside its block, from 0
    sequence: int  # of the run inside the campaign, from 0
    repeat: int  # from 0; a once-per-run metric has repeat 0 only
    metric: str  # the unit as written in the raw log, "ns/op"
    value: float
    file: str  # relative to the campaign folder
    line: int  # from 1


@dataclass(frozen=True)
class Missing:
    """A block that an estimate could not use: which arm's run is missing in it, and why."""

    block: int
    arm: str
    reason: str
    replaced_by: int | None = None  # the block appended in place of a void one
    unit: str = "block"  # or "process", where no block is known: ``block`` is then the number of the arm's process


@dataclass(frozen=True)
class EstimateWarning:
    """Something that should make a reader careful with one estimate."""

    kind: str  # "one-block-decides", "intervals-disagree", "few-blocks", "failed-runs", ...
    text: str  # a plain sentence, complete in itself


@dataclass(frozen=True)
class Estimate:
    """One case x metric x contrast. A field that could not be computed is None, and a warning says why.

    ``ratios`` and ``leave_one_out`` are aligned with ``blocks`` (ascending block numbers). An unpaired estimate has
    neither, no percentile interval and no range: nothing of it is a ratio of two runs. Its ``t`` is Welch's.
    """

    phase: str
    case: str
    metric: str
    contrast: str  # "final/before"
    point: float | None = None
    t: Interval | None = None
    percentile: Interval | None = None
    percentile_exact: Interval | None = None
    range: Interval | None = None
    leave_one_out: tuple[float | None, ...] = ()
    p: float | None = None  # two-sided t p-value of log ratio = 0
    holm_p: float | None = None
    blocks: tuple[int, ...] = ()
    ratios: tuple[float, ...] = ()
    missing: tuple[Missing, ...] = ()
    warnings: tuple[EstimateWarning, ...] = ()
    paired: bool = True  # False where no block is known
    processes: tuple[int, int] = (0, 0)  # of an unpaired estimate: used of the numerator and of the denominator

    @property
    def numerator(self) -> str:
        """The arm whose value is divided."""
        return self.contrast.split("/")[0]

    @property
    def denominator(self) -> str:
        """The arm it is divided by."""
        return self.contrast.split("/")[1]

    def interval(self, kind: str) -> Interval | None:
        """The interval called "t" or "percentile"."""
        return {"t": self.t, "percentile": self.percentile}[kind]


@dataclass(frozen=True)
class Absolute:
    """Median over blocks of the runs' medians, for one arm. Never divided by another."""

    case: str
    metric: str
    arm: str
    value: float | None
    blocks: int


@dataclass(frozen=True)
class ClaimResult:
    """A declared claim with its computed status and the estimates it rests on."""

    id: str
    text: str
    status: str  # "supported", "contradicted", "unresolved", "nominal-only", "not-evaluable"
    reason: str  # one plain sentence that names the deciding numbers or the failed runs
    evidence: tuple[Estimate, ...] = field(default=())
    declared: str = ""  # where an amendment added or changed it when its phase had runs: after how many
