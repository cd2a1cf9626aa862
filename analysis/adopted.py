"""The sections of a phase page of adopted logs: what `analysis.page` shows, without what nobody knows.

Each section says in its headings that the runs were not executed here. Values that the plan leaves open are printed as it
has them, "undefined".
"""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Mapping
from typing import Any

from analysis import adopted_limits, figures, headlines, page_design, page_shared, page_trees, tables
from analysis.adopted_logs import runs_of, said_by_logs
from analysis.arms import arm_places
from analysis.drawing import Picture
from analysis.escaping import escaped
from analysis.intervals import index_digest
from analysis.page_parts import Section, bullets, folded, heading, paragraphs, section
from analysis.report import PhaseReport, undefined_statistics
from analysis.sentences import interval_name, listed
from analysis.tables import Markup
from runner.store import AdoptedRun

ADOPTED = "adopted, not executed here"
Rows = list[tuple[str, object]]


def named(text: str) -> Markup:
    """A heading that says where the runs come from."""
    return heading(f"{text} ({ADOPTED})")


def answer(report: PhaseReport) -> Section:
    """Question and answer, under a notice."""
    return section(
        Markup(f'<p class="bb-question">{escaped(report.phase.question)}</p>\n'),
        notice(report),
        paragraphs([claim_counts(report)]),
        bullets(headlines.contrast_sentence(report, contrast) for contrast in report.contrasts),
        page_shared.forest(report),
    )


def notice(report: PhaseReport) -> Markup:
    """Where the runs come from, and whether arms are paired."""
    day = report.seal.content["adopted"][:10]
    if not report.runs:
        told = f"on {day} logs were taken in, none of this phase: nothing is computed."
    elif report.paired:
        told = f"{len(report.runs)} runs, taken in on {day}. Arms are paired by the blocks that the names of the files tell."
    else:
        told = (
            f"{len(report.runs)} runs, taken in on {day}. No blocks are known: arms were not paired, and the intervals are "
            "Welch's t."
        )
    text = f"{ADOPTED.capitalize()}: {told}"
    return Markup(f'<p class="bb-notice">{escaped(text)}</p>\n')


def claim_counts(report: PhaseReport) -> str:
    """How many claims of the plan have which status, each named."""
    told = [f"{len(ids)} {word} ({', '.join(ids)})" for word, ids in page_shared.claims_by_status(report).items()]
    many = f"{len(report.claims)} claims" if len(report.claims) > 1 else "1 claim"
    return (
        f"Of {many} of the plan, not preregistered with us: {listed(told)}." if told else "The plan declares no claim."
    )


# ---- results ------------------------------------------------------------------------------------------


def results(report: PhaseReport) -> Section:
    """Tables of ratios, absolute values, blocks where they and their order are known."""
    return section(
        named("Ratios"),
        paragraphs([page_shared.PAIRED_RATIOS if report.paired else UNPAIRED_RATIOS]),
        *page_shared.ratio_tables(report),
        named("Absolute values"),
        paragraphs([page_shared.ABSOLUTE_VALUES]),
        tables.absolutes(
            report.absolutes,
            cases=report.cases,
            metrics=report.metrics,
            arms=report.arms,
            measured=report.measured,
            over="blocks" if report.paired else "processes",
        ),
        named("Blocks in run order"),
        *_blocks(report),
        *_published(report),
    )


UNPAIRED_RATIOS = (
    "Each ratio is the geometric mean over the numerator's processes divided by that over the denominator's, a process "
    "counting with the median of its repeats; below 1 the numerator takes less. No blocks are known, so nothing is paired; "
    "the interval is Welch's t on the logs of these medians."
)
NO_ORDER = "The order of the runs is unknown, so blocks are not drawn in run order and nothing is said of drift."
NO_BLOCKS = "No blocks are known, so there is no ratio of a block to draw."


def _blocks(report: PhaseReport) -> list[Markup | Picture]:
    if not report.paired:
        return [paragraphs([NO_BLOCKS])]
    return page_shared.block_figures(report) if report.ordered else [paragraphs([NO_ORDER])]


def _published(report: PhaseReport) -> list[Markup]:
    """The check against published figures, where the phase's own notebook has no cell that would show it."""
    source = page_shared.notebook_of(report.plan, report.identifier).read_text(encoding="utf-8")
    if "page.specific(" in source or not page_shared.has_published(report):
        return []
    return [named(page_shared.PUBLISHED), page_shared.published(report)]


def absent(what: str) -> Section:
    """In place of a part for which runs write files or covariates: those are not taken in."""
    return section(paragraphs([f"{what} not known of these runs: {ADOPTED}, and only their metrics were taken in."]))


# ---- interpretation, limits, evidence -----------------------------------------------------------------


def interpretation(report: PhaseReport) -> Section:
    """Claims of the plan; what else was seen; what this data does not explain."""
    return section(
        named("Claims, not preregistered with us"),
        paragraphs([adopted_limits.PREREGISTRATION, "Each status is computed from the estimates above."]),
        tables.claims(report.claims, "Claims in the order of the plan, not preregistered with us"),
        named("Also seen"),
        paragraphs(["Computed from the same estimates, without a claim in the plan."]),
        *page_shared.also_seen(report),
        named("Not explained by this data"),
        bullets(report.phase.open_questions, "The plan names no open question."),
    )


def limits(report: PhaseReport) -> Section:
    """Computed limits first, then those that the plan has written down."""
    written = report.phase.limits
    after = [paragraphs(["Written into the plan:"]), bullets(written)] if written else []
    return section(
        named("What is unknown"), bullets(adopted_limits.computed(report)), *after, *page_shared.changed_files(report)
    )


def evidence(report: PhaseReport) -> Section:
    """Arms, environment, design as far as they are known, and the adopted files."""
    return section(
        named("Arms"),
        arms(report),
        named("Environment"),
        environment(report),
        named("Design"),
        design(report),
        files(report),
        failed(report),
        named("Order of the runs"),
        order(report),
        named("Where the time went"),
        paragraphs(["Unknown: logs of benchmarks do not tell how long their processes and pauses took."]),
    )


def arms(report: PhaseReport) -> Section:
    """Each arm with what the plan says of its tree; nothing of it was verified."""
    rows = []
    for arm in report.phase.arms:
        tree = report.plan.trees.get(arm.tree)  # a plan of published figures may leave an arm's tree undefined
        told = f"{arm.tree}: {tree.what}" if tree else arm.tree
        rows.append((arm.tree, (arm.name, told, page_design.values(arm.switches) or "none")))
    shown = page_trees.tree_tables(("arm", "tree", "switches"), rows, report.seal, "Arms, as the plan has them")
    return section(*shown)


def environment(report: PhaseReport) -> Section:
    """What the plan says of the host, the network and the engine, and what the logs say of themselves."""
    plan = report.plan
    rows: Rows = [
        *page_design.host_rows(report.store, plan),
        ("network, as planned", network(report)),
        *engine_rows(report),
    ]
    told = _said(report)
    own = tables.key_values(told, "What the logs say of themselves, not verified") if told else Markup()
    return section(tables.key_values(rows, "Environment"), own)


def network(report: PhaseReport) -> str:
    """The network as planned; nobody measured it."""
    planned = report.plan.network_of(report.identifier)
    kind = page_design.NETWORKS[planned.kind]
    return kind if planned.kind == "none" else f"{kind}, a delay of {planned.delay_us} us added each way"


def engine_rows(report: PhaseReport) -> Rows:
    """The engine as planned; without one in the plan it is unknown, not absent, unless the record says better."""
    assert report.adoption
    if report.plan.engine.kind == "none":
        return [("engine", "unknown" if "engine" in report.adoption.unknown else "none")]
    planned = page_design.engine_rows(report.plan, report.seal, report.identifier)
    return [(f"{name}, as planned", value) for name, value in planned]


def _said(report: PhaseReport) -> Rows:
    rows: Rows = []
    for key, by_arm in said_by_logs(report).items():
        same = len(by_arm) == len(report.arms) and len({frozenset(values) for values in by_arm.values()}) == 1
        words = {arm: page_design.value_words(values) for arm, values in by_arm.items()}
        told = [next(iter(words.values()))] if same else [f"{arm}: {words[arm]}" for arm in report.arms if arm in words]
        rows.append((key, told))
    return rows


def design(report: PhaseReport) -> Section:
    """The plan's design, with "undefined" where it has it, beside what the logs show."""
    phase = report.phase
    counts: dict[tuple[str, str], int] = {}
    for run in runs_of(report):
        counts[run.labels.case, run.labels.arm] = counts.get((run.labels.case, run.labels.arm), 0) + 1
    rows: Rows = [
        ("runs in the logs", f"{len(report.runs)}; each is what one process measured of one case"),
        ("blocks, as planned", str(phase.blocks)),
        ("repeats, as planned", str(phase.repeats)),
        ("order seed, as planned", str(phase.order_seed)),
        (
            "interval" if not report.paired else "primary interval",
            f"{interval_name(report.primary, report.paired)}, level {report.statistics.level:g}",
        ),
        ("left undefined, chosen here", listed(undefined_statistics(report.plan)) or "nothing"),
        ("command, as planned", tables.code(" ".join(phase.argv))),
    ]
    cases = [
        (
            case.name,
            case.what,
            page_design.values(case.parameters),
            *(counts.get((case.name, a), 0) for a in report.arms),
        )
        for case in phase.cases
    ]
    head = ("case", "what", "parameters", *(f"runs of {arm}" for arm in report.arms))
    numbers = range(3, 3 + len(report.arms))
    return section(tables.key_values(rows, "Design"), tables.plain(head, cases, "Cases", numbers=numbers))


OPEN_ROWS = 12  # of files or failed runs; a table of more is folded


def files(report: PhaseReport) -> Markup:
    """The adopted files of the phase, with the runs in each and its digest."""
    recorded: Mapping[str, Any] = report.seal.content["files"]
    by_file: dict[str, list[AdoptedRun]] = {}
    for run in runs_of(report):
        by_file.setdefault(run.file, []).append(run)
    rows = [
        (
            name,
            len(runs),
            listed(dict.fromkeys(run.labels.arm for run in runs)),
            page_trees.short_digest(recorded[name]),
        )
        for name, runs in by_file.items()
    ]
    caption = "Adopted files, as they were brought"
    table = tables.plain(("file", "runs", "arms", "SHA-256"), rows, caption, numbers=[1])
    return folded(f"{caption}: {len(rows)}", table) if len(rows) > OPEN_ROWS else table


def failed(report: PhaseReport) -> Markup:
    """Every run without a result, with the place in its file and the cause; nothing where there is none."""
    rows = [
        (run.labels.case, run.labels.arm, run.labels.block if report.paired else run.run, run.reason)
        for run in runs_of(report)
        if run.outcome != "ok"
    ]
    if not rows:
        return Markup()
    table = tables.plain(("case", "arm", "block" if report.paired else "process", "why"), rows, NO_RESULT)
    return folded(f"{NO_RESULT}: {len(rows)}", table) if len(rows) > OPEN_ROWS else table


NO_RESULT = "Runs without a result"


def order(report: PhaseReport) -> Markup | Picture:
    """Which arm came at which place of which block, or that nobody knows."""
    if not (report.paired and report.ordered):
        return paragraphs(["Unknown: the logs do not tell in which order the runs were made."])
    runs = sorted((run.labels for run in runs_of(report)), key=lambda labels: labels.sequence)
    places: Counter[tuple[str, int]] = Counter()
    rows = []
    for labels in runs:
        rows.append((labels.case, labels.block, places[labels.case, labels.block], labels.arm))
        places[labels.case, labels.block] += 1
    return figures.order_map(rows, arm_places(report.plan, report.identifier))


def reproduce(report: PhaseReport) -> Markup:
    """The commands, seeds and digests that this page was made with, and how the logs were taken in."""
    content = report.seal.content
    counts = sorted({len(estimate.blocks) for estimate in report.estimates})
    digests = [tables.code(f"B = {n}: {index_digest(report.seed, report.resamples, n)}") for n in counts if n]
    bootstrap: Rows = [("seed", report.seed), ("resamples", report.resamples), ("resample indices, SHA-256", digests)]
    return tables.key_values(
        [
            *page_shared.commands(report),
            *(bootstrap if report.paired else [("seed", "none: nothing is resampled")]),
            ("computed with", ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy"))),
            ("adopted from", content["source"]),
            ("maps", [tables.code(text) for text in content["maps"]]),
            ("left out by name", [f"{left['file']}, by {left['glob']}" for left in content["ignored"]] or "nothing"),
            ("noted while reading", list(content.get("notes", ())) or "nothing"),
            ("unknown", listed(content["unknown"]) or "nothing"),
            ("adopted", content["adopted"]),
            ("adoption, SHA-256", tables.code(report.seal.digest)),
        ],
        f"{ADOPTED.capitalize()}",
    )
