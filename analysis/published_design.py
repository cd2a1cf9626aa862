"""What a page of published figures shows as evidence: limits, arms, environment and design as far as they are defined.

What the published pages do not define is printed as "undefined", never as a value of ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis import page_design, tables
from analysis.implied import IN_BAND, LEVEL, ONE_BLOCK, WIDTHS
from analysis.intervals import coverage_words, covers
from analysis.page_parts import Section, section
from analysis.published import Published
from analysis.published_sentences import counted
from analysis.tables import Markup
from runner.plan import Engine, Phase, Plan
from runner.plantypes import UNDEFINED, defined

CLAIMS = "No preregistered claim is among what was published here, so that none has a status."


def widths_known(blocks: object) -> bool:
    """Whether the t interval that a percentile interval implies can be said at this number of blocks."""
    return isinstance(blocks, int) and blocks in WIDTHS


def blocks_of(plan: Plan, phase: str) -> object:
    """A phase's blocks, "undefined" where they are; None for a level at which the widths of intervals were not simulated."""
    return plan.phases[phase].blocks if plan.statistics.level == LEVEL else None


def coverage(plan: Plan, phase: str) -> str:
    """What a percentile interval covers at the phase's number of blocks, as far as that is defined."""
    blocks, level = plan.phases[phase].blocks, plan.statistics.level
    if not defined(level):
        return "its level is undefined"
    if not defined(blocks):
        return f"nominal {100 * level:g}%; what it covers depends on the number of blocks, which is undefined"
    return coverage_words("percentile", blocks, level)


def _simulated(plan: Plan, phase: str) -> bool:
    """Whether `coverage` gives a share, which is then a simulated one."""
    blocks, level = plan.phases[phase].blocks, plan.statistics.level
    return defined(blocks) and level == LEVEL and covers("percentile", blocks) is not None


def figures_only() -> list[str]:
    """What cannot be done with figures alone."""
    return [
        "Nothing here was recomputed. Without the raw logs there are no values of single blocks: whether one block decides, "
        "whether a trend runs through the blocks, and what a t interval would be can only be inferred or not be said at all.",
        "No label, no digest and no check of a run can be asserted here; failed or missing runs are known only as far as the "
        "published pages name them.",
    ]


def limits(plan: Plan, phase: str, published: Published) -> list[str]:
    """What published figures forbid; what their design limits; what the published pages say themselves."""
    described = plan.phases[phase]
    found = published.estimates_of(phase)
    told = [
        *figures_only(),
        f"{counted(found)} One without an interval says nothing about its own uncertainty, whatever was stated about it; "
        "\u201cno interval published\u201d means that what published.toml was transcribed from gives none.",
        f"The published intervals are percentile intervals: {coverage(plan, phase)}"
        + (" (simulated, under normal block noise)." if _simulated(plan, phase) else "."),
    ]
    if widths_known(blocks_of(plan, phase)):
        told.append(
            "The implied t intervals rest on the width that the percentile interval has beside t in simulations of normal "
            "block noise, and on ends that were rounded before they were published. They say which statements are fragile; "
            f"they are no estimates, and their band is no bound: of 100 simulated widths about {100 * IN_BAND:.0f} lie in it and "
            f"nearly all others above it, where t is narrower; where one block decides the width is down to {ONE_BLOCK:.2f}, and "
            "t is wider."
        )
    told.append(
        "Each interval is of one case and metric; no correction for their number is among what was published. One that includes "
        "1 does not say that two arms are the same."
    )
    told += one_host(published)
    return [*told, *described.limits]


def one_host(published: Published) -> list[str]:
    """One host and one server, as they were published."""
    said = [published.campaign[key] for key in ("host", "server") if key in published.campaign]
    return [f"One host and one server ({'; '.join(said)}): nothing here says how others would do."] if said else []


# ---- evidence -----------------------------------------------------------------------------------------


def evidence(plan: Plan, phase: str, published: Published, folder: str) -> Section:
    """Arms and their trees, environment, design, cases, and what is said about the order."""
    described = plan.phases[phase]
    rows = [(arm.name, arm.tree, page_design.values(arm.switches) or "none") for arm in described.arms]
    cases = [(case.name, case.what, page_design.values(case.parameters) or "none") for case in described.cases]
    metrics = [(metric.unit, metric.scope, metric.per) for metric in described.metrics]
    return section(
        tables.plain(("arm", "tree", "switches"), rows, "Arms"),
        trees(plan, [arm.tree for arm in described.arms if defined(arm.tree)]),
        environment(plan, published, phase),
        tables.key_values(_design(plan, phase, published), "Design"),
        tables.plain(("case", "what", "parameters"), cases, _cases_caption(plan.phases[phase])),
        tables.plain(("metric", "what", "per"), metrics, "Metrics"),
        Markup(f"<p>{order(plan, phase, folder)}</p>\n"),
    )


def _cases_caption(phase: Phase) -> str:
    """That a client's parameters count the operations of one worker, while what was published counts those of a run."""
    workers = any("workers" in case.parameters for case in phase.cases)
    return "Cases; operations are those of each worker" if workers else "Cases"


def trees(plan: Plan, names: Iterable[str]) -> Markup:
    """Commit and harness of each tree."""
    rows: list[tuple[object, ...]] = []
    for name in dict.fromkeys(names):
        tree = plan.trees[name]
        if tree.kind == "git":
            laid = tree.overlay.commit if tree.overlay else None
            rows.append((name, tree.what, tables.code(tree.commit), tables.code(str(laid or "none"))))
        else:
            rows.append((name, tree.what, "none", "none"))
    return tables.plain(("tree", "what", "commit", "harness commit"), rows, "Trees") if rows else Markup()


def environment(plan: Plan, published: Published, phase: str | None = None) -> Markup:
    """Host, CPU groups, network and engine, as published and planned."""
    groups, said = plan.host.cpus, published.campaign
    engine = plan.engine_of(phase) if phase else plan.engine
    rows: list[tuple[str, object]] = [
        ("host", said.get("host", UNDEFINED)),
        (
            "CPU groups",
            f"housekeeping and runner {groups.housekeeping}, server {groups.server}, benchmark process {groups.client}",
        ),
        ("network", f"{page_design.NETWORKS[plan.network.kind]}, {_delay(plan, phase)}"),
        ("server", said.get("server", UNDEFINED)),
        ("engine", f"{engine.kind} {engine.version}".strip()),
        ("storage", _storage(engine)),
        *((key, value) for key, value in said.items() if key.startswith("engine, ") and not phase),
        ("settings", [f"{key} = {value}" for key, value in engine.settings.items()] or "none"),
        ("Go", said.get("go", UNDEFINED)),
    ]
    return tables.key_values(rows, "Environment, as published")


def _delay(plan: Plan, phase: str | None) -> str:
    if phase:
        return page_design.delay_words(plan, phase)
    own = [f"{page_design.delay_words(plan, name)} in {name}" for name in plan.phases if plan.network_of(name).delay_us]
    return ", ".join(own) + "; no added delay in the others" if own else "no added delay"


def _storage(engine: Engine) -> str:
    """Where the data lies, and the storage engine where there is one."""
    told = f"data in {engine.storage}" if engine.storage == "memory" else f"data on {engine.storage or UNDEFINED}"
    return told + (f", storage engine {engine.storage_engine}" if engine.storage_engine else "")


_KEYS = {
    "read_benchtime": "duration of a read repeat",
    "write_benchtime": "operations of a write repeat",
    "samples_per_arm_and_case": "samples per arm and case",
    "samples_total": "samples",
    "user_keys_cleared": "user keys cleared",
    "warmup_operations": "warm-up operations of a run",
    "measured_operations": "measured operations of a run",
    "measured_per_arm_and_workload": "measured operations per arm and case",
    "measured_total": "measured operations",
    "runs": "runs",
    "errors": "errors",
    "workers": "workers",
    "checks": "checks that all held",
}


def _design(plan: Plan, phase: str, published: Published) -> list[tuple[str, object]]:
    described, statistics = plan.phases[phase], plan.statistics
    rows: list[tuple[str, object]] = [
        ("blocks", described.blocks),
        ("repeats", described.repeats),
        ("order seed", described.order_seed),
        ("payload seed", plan.campaign.payload_seed),
        ("interval that leads", statistics.primary),
        ("bootstrap", f"{statistics.resamples} resamples, seed {statistics.seed}, level {statistics.level}"),
        (
            "command, as far as published",
            tables.code(" ".join(part if defined(part) else "{undefined}" for part in described.argv)),
        ),
    ]
    if described.environment:
        rows.append(("environment", [tables.code(f"{k}={v}") for k, v in described.environment.items()]))
    own = published.designs.get(phase, {})
    rows += [(f"{name}, as published", _shown(own[key])) for key, name in _KEYS.items() if key in own]
    return rows


def _shown(value: object) -> str:
    return (
        ", ".join(map(str, value))
        if isinstance(value, list)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def order(plan: Plan, phase: str, folder: str) -> Markup:
    """Whose the order of the runs is."""
    described = plan.phases[phase]
    if not (defined(described.blocks) and defined(described.order_seed)):
        return Markup("Order of the runs: undefined, since the number of blocks or the seed is.")
    command = tables.code(f"python -m runner check {folder} --dry-run")
    return Markup(
        f"Order of the runs: theirs was a file of their tooling, which is not here. The order of {described.blocks} blocks that "
        f"this book's runner expands from their seed {described.order_seed} is ours; {command} prints it."
    )


def reproduce(folder: str, phase: str) -> Markup:
    """What can be done with published figures, and what it takes to recompute them."""
    return tables.key_values(
        [
            ("this page again", tables.code("jupyter-book build book/")),
            ("the figures as transcribed", tables.code(f"{folder}/published.toml")),
            ("what is undefined", tables.code(f"python -m runner check {folder}")),
            ("the commands, as far as defined", tables.code(f"python -m runner check {folder} --dry-run")),
            (
                "with the raw logs",
                [
                    tables.code(f"python -m runner adopt DIR --into {folder}"),
                    f"Phase {phase} then has the page of every other campaign, and each published figure is compared with "
                    "what is recomputed.",
                ],
            ),
        ]
    )
