"""The front page and each campaign's own page, as MyST text with tables and figures as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from analysis import amendments, figures, headlines, limits, page, page_design, page_trees, tables
from analysis.arms import arm_places
from analysis.escaping import escaped, markdown, raw
from analysis.formats import duration_text
from analysis.intervals import coverage_words
from analysis.page_parts import bullets, link, paragraphs
from analysis.report import PhaseReport
from analysis.sentences import listed
from analysis.tables import Markup
from runner.plan import Plan
from runner.store import Ledger, Store

Reports = Mapping[str, PhaseReport]


@dataclass(frozen=True)
class Entry:
    """A campaign as the front page sees it; without reports while it is not closed."""

    store: Store
    plan: Plan
    reports: Reports

    @property
    def local(self) -> bool:
        """Whether this is a short campaign of the reader's own machine."""
        return self.store.folder.name.startswith("local-")


def state(store: Store) -> str:
    """draft, sealed, running or closed; of what was executed elsewhere: figures-only or adopted."""
    if store.brought:
        return "adopted" if store.adoption_path.is_file() else "figures-only"
    if not store.seal_path.exists():
        return "draft"
    ledger = store.ledger()
    return "closed" if ledger.closed else "running" if ledger.started else "sealed"


def page_address(phase: str, prefix: str = "") -> str:
    """Where a phase's page lies, seen from its campaign's page or from one that is above it by ``prefix``."""
    return f"{prefix}phase_{phase.lower()}.html"


# ---- a campaign's page --------------------------------------------------------------------------------


def campaign_page(store: Store, plan: Plan, reports: Reports) -> str:
    """The overview of one campaign: what it asks, what was found, its phases, method, environment, trees, limits."""
    parts = [f"# {markdown(plan.campaign.title)}\n", f"{markdown(plan.campaign.question)}\n"]
    if plan.campaign.short:
        parts.append(f"A shortened copy of {markdown(plan.campaign.short)}: fewer cases and blocks.\n")
    if not reports:
        return "\n".join([*parts, f"State: {state(store)}. Nothing is shown before it is closed.\n"])
    first = next(iter(reports.values()))
    parts += [
        "## What was found\n",
        raw(findings(reports)),
        raw(strip(reports)),
        "## Phases\n",
        raw(phase_table(reports)),
        "## How sure\n",
        raw(bullets([*how_sure(reports), *beyond(has_drill(store, plan, reports))])),
        "## Method\n",
        raw(paragraphs(method(store, plan, reports))),
        "## Environment\n",
        raw(environment(store, plan, first)),
        "## Trees\n",
        raw(tree_table(plan, first)),
        "## Shared limits\n",
        raw(bullets(limits.shared(plan, reports))),
    ]
    if first.history.amendments:
        parts += ["## Amendments\n", raw(amendments.table(first.history, first.history.phases))]
    return "\n".join(parts)


def findings(reports: Reports, prefix: str = "") -> Markup:
    """The headline of every phase with a link to its page, and the rule that chose it."""
    items = [
        Markup(f"{_phase_link(name, report, prefix)}: {escaped(headlines.headline(report))}")
        for name, report in reports.items()
    ]
    primary = next(iter(reports.values())).primary
    rule = Markup(f'<p class="bb-small">{escaped(headlines.RULE.format(primary=primary))}</p>\n')
    return Markup(bullets(items) + rule)


def _phase_link(name: str, report: PhaseReport, prefix: str = "") -> Markup:
    return link(page_address(name, prefix), f"{name}, {report.phase.title}", "bb-name")


def strip(reports: Reports) -> str:
    """One lane per phase: what its headline tells of, case by case."""
    rows, arms = {}, {}
    for name, report in reports.items():
        lane = f"{name}: {report.phase.title}"
        rows[lane] = headlines.complete(report, next(iter(report.contrasts)))
        arms[lane] = arm_places(report.plan, name)
    return figures.strip(rows, arms=arms, primary=next(iter(reports.values())).primary)._repr_html_()


def phase_table(reports: Reports) -> Markup:
    """Every phase: question, cases, how its runs ended, what became of its claims."""
    rows = []
    for name, report in reports.items():
        first, late = amendments.preregistered(report.claims), [claim for claim in report.claims if claim.declared]
        rows.append(
            (
                _phase_link(name, report),
                report.phase.question,
                len(report.cases),
                run_counts(report.ledger, name),
                [
                    *(f"{len(ids)} {word}" for word, ids in page.claims_by_status(report, first).items()),
                    *(f"1 {tables.STATUS_WORDS[claim.status]}, {claim.declared}" for claim in late),
                ]
                or "none",
            )
        )
    return tables.plain(("phase", "question", "cases", "runs", "claims"), rows, numbers=[2])


STATES = {
    "ok": "done",
    "failed": "failed",
    "interrupted": "interrupted",
    "void": "void",
    "stopped": "not executed, since the phase stopped early",
    "planned": "not executed",
    "running": "without an end",
}


def run_counts(ledger: Ledger, phase: str) -> str:
    """``144 done``, and how many failed, are void or were never executed."""
    states = Counter(ledger.state(labels) for labels in ledger.labels() if labels.phase == phase)
    return ", ".join(f"{states[name]} {words}" for name, words in STATES.items() if states[name] or name == "ok")


def block_range(reports: Reports) -> str:
    """``6``, or ``4 to 6`` where phases differ."""
    numbers = sorted({report.phase.blocks for report in reports.values()})
    return f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"


def method(store: Store, plan: Plan, reports: Reports) -> list[str]:
    """Blocks, order, estimand, interval, seal and duration, in a few sentences."""
    first = next(iter(reports.values()))
    numbers = sorted({report.phase.blocks for report in reports.values()})
    other = "percentile" if first.primary == "t" else "t"
    statistics = plan.statistics
    coverage = "; ".join(dict.fromkeys(coverage_words("percentile", n, statistics.level) for n in numbers))
    events = list(store.journal().events)
    return [
        f"Every case has {block_range(reports)} blocks. In each block every arm is executed once, as one fresh process, "
        "in a counterbalanced order that is part of the plan. A ratio is the geometric mean over blocks of the block's "
        "ratio; a block's value of an arm is the median of its process's repeats.",
        f"The {first.primary} interval leads, at level {statistics.level:g}, {amendments.primary_words(first.history)}; the "
        f"{other} interval stands beside it. The percentile interval comes from {statistics.resamples} resamples "
        f"with seed {statistics.seed} "
        f"({coverage}).",
        f"{amendments.sealed_words(store, first.history, _minute(first.seal.content['sealed']))}; the seal's SHA-256 is "
        f"{first.seal.digest}. "
        f"{_duration(events)}",
    ]


def _minute(stamp: str) -> str:
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def _duration(events: list[Any]) -> str:
    """How long the campaign was under way, and in how many sessions."""
    sessions = [event for event in events if event["event"] == "session-start"]
    if not sessions:
        return "Nothing was executed."
    many = f"{len(sessions)} sessions" if len(sessions) > 1 else "one session"
    return (
        f"The runs took {duration_text(_seconds(sessions, events[-1]))} in {many}, from {_minute(sessions[0]['time'])} to "
        f"{_minute(events[-1]['time'])}."
    )


def _seconds(sessions: list[Any], last: Any) -> float:
    """From the first session's start to the last event: by the monotonic clock, unless the host was started again between."""
    if len({session.get("boot_id") for session in sessions}) == 1 and "monotonic_ns" in last:
        return float(last["monotonic_ns"] - sessions[0]["monotonic_ns"]) / 1e9
    start, end = (datetime.fromisoformat(event["time"]) for event in (sessions[0], last))
    return max(0.0, (end - start).total_seconds())


def environment(store: Store, plan: Plan, report: PhaseReport) -> Markup:
    """Host, network and engine as the plan has them for every phase, and which phases have something another way."""
    rows = [
        *page_design.host_rows(store, plan),
        ("network", page_design.NETWORKS[plan.network.kind]),
        *page_design.engine_rows(plan, report.seal),
    ]
    own = []
    for name in plan.phases:
        if plan.network_of(name).delay_us:
            own.append(f"phase {name}: {page_design.delay_words(plan, name)}")
        engine = plan.engine_of(name)
        changed = [f"{k} = {v}" for k, v in engine.settings.items() if plan.engine.settings.get(k) != v]
        if engine.storage != plan.engine.storage:
            changed.insert(0, f"data folder on {engine.storage}")
        if changed:
            own.append(f"phase {name}: {', '.join(changed)}")
    if own:
        rows.append(("in some phases", own))
    return tables.key_values(rows)


def tree_table(plan: Plan, report: PhaseReport) -> Markup:
    """Every tree: what it is, which phases have it, what it was made from, digests."""
    rows = []
    for name, tree in plan.trees.items():
        used = [phase for phase, described in plan.phases.items() if any(arm.tree == name for arm in described.arms)]
        rows.append((name, (name, tree.what, ", ".join(used) or "none")))
    head = ("tree", "what", "phases")
    made = page_trees.tree_tables(head, rows, report.seal, "")
    return Markup("".join((*made, page_trees.origins(plan, list(plan.trees)))))


# ---- how sure -----------------------------------------------------------------------------------------


def how_sure(reports: Reports) -> list[str]:
    """Blocks, failed and void runs, what the null phase could not resolve, the warning that most estimates carry."""
    return [*_runs(reports), *null_sentences(reports), *_warnings(reports)]


LABELS = "labels"  # name of the page on labels


def has_drill(store: Store, plan: Plan, reports: Reports) -> bool:
    """Whether a campaign has a page on labels: where it was executed here, closed, and is no shortened copy."""
    return bool(reports) and not store.brought and not plan.campaign.short


def beyond(drilled: bool) -> list[Markup]:
    """Where the pages on seeds, on calibration and on labels are."""
    seeds, calibration = link("seeds.html", "Seeds"), link("calibration.html", "Calibration, simulated")
    labels = link(f"{LABELS}.html", "Labels, damaged on purpose")
    more = [Markup(f"{labels}: what the checks find in damaged copies of its aggregate, and what is restored.")]
    return [
        Markup(f"{seeds}: every percentile interval and claim under 200 seeds."),
        Markup(f"{calibration}: what the intervals cover at these numbers of blocks."),
        *(more if drilled else []),
    ]


def _runs(reports: Reports) -> list[str]:
    first = next(iter(reports.values()))
    states = Counter(first.ledger.state(run) for run in first.ledger.labels() if run.phase in reports)
    lost = [f"{states[name]} {words}" for name, words in STATES.items() if states[name] and name != "ok"]
    bad = listed(lost) if lost else "none failed, none is void"
    marked = [name for name, report in reports.items() if report.marks]
    phases = f"Phase{'s' * (len(marked) > 1)} {listed(marked)}"
    checks = f"{phases}: blocks with a check that did not hold, marked and kept." if marked else "Every check held."
    return [
        f"{block_range(reports)} blocks of every case. Of {states.total()} runs {states['ok']} have a result; {bad}. "
        f"{checks}"
    ]


def null_sentences(reports: Reports) -> list[str]:
    """What this host could not resolve, where a phase compares an arm with itself; of its metrics the primary one."""
    from analysis import null

    told = []
    for name, report in reports.items():
        if page.has_null(report):
            found = null.summary(report)
            texts = null.leading(found, report.phase.primary_metric)
            told.append(f"What this host could not resolve, by phase {name}: {' '.join(texts)}")
    return told or ["No phase compares an arm with itself, so what this host cannot resolve was not measured."]


def _warnings(reports: Reports) -> list[str]:
    """The warning that most estimates of a primary metric carry, over all phases."""
    found = [e for report in reports.values() for e in report.estimates if e.metric == report.phase.primary_metric]
    kinds = Counter(kind for e in found for kind in {warning.kind for warning in e.warnings})
    if len(found) == 1:
        told = f"carries: {listed(kind.replace('-', ' ') for kind in kinds)}" if kinds else "carries no warning"
        return [f"The one estimate of a primary metric {told}."]
    if not kinds:
        return [f"None of the {len(found)} estimates of a primary metric carries a warning."]
    warned = sum(bool(e.warnings) for e in found)
    kind, count = kinds.most_common(1)[0]
    return [
        f"{warned} of {len(found)} estimates of a primary metric carry a warning, most often: {kind.replace('-', ' ')} "
        f"({count}). Each stands in the notes below its table."
    ]


# ---- the front page -----------------------------------------------------------------------------------


def front_page(entries: list[Entry]) -> str:
    """What was compared, what was found, how sure, how to check it, and every campaign of the book.

    A campaign that was executed here leads, never one that was brought from elsewhere; of several the one with most phases,
    and of those the last by name.
    """
    closed = [entry for entry in entries if entry.reports and not entry.store.brought]
    of_all = [entry for entry in closed if not entry.local] or closed[-1:]
    leading = max(of_all, key=lambda entry: (len(entry.plan.phases), entry.store.folder.name), default=None)
    parts = _leading(leading) if leading else []
    ordered = sorted(entries, key=lambda entry: (entry.local, entry.store.brought, -len(entry.plan.phases)))
    parts += [
        "## Campaigns in this book\n",
        raw(tables.plain(("campaign", "what", "phases", "state"), [_row(e) for e in ordered])),
    ]
    return "\n".join(parts)


def _leading(entry: Entry) -> list[str]:
    name = entry.store.folder.name
    return [
        f"{markdown(opening(entry))}\n",
        "## What was found\n",
        raw(findings(entry.reports, f"phases/{name}/")),
        raw(strip(entry.reports)),
        "## How sure\n",
        raw(bullets(how_sure(entry.reports))),
        "## Reproduce\n",
        f"```bash\npython -m runner verify data/{name}\njupyter-book build book/\n```\n",
    ]


def opening(entry: Entry) -> str:
    """One sentence: what was compared, on what, when."""
    first = next(iter(entry.reports.values()))
    identity = entry.store.read_json(entry.store.host_path)["identity"]
    phases = f"{len(entry.reports)} phases" if len(entry.reports) > 1 else "one phase"
    engine = first.seal.content["engine"].get("version")
    place = f"{engine} and " if engine else ""
    parts = [part.strip() for tree in entry.plan.trees.values() for part in tree.what.split(";")]
    trees = listed(dict.fromkeys(part.split(",")[0] for part in parts))
    return (
        f"Compared in {phases}: {trees}; on {place}one host ({identity['cpu_model']}, CPUs {identity['cpus']}), "
        f"{first.seal.content['sealed'][:10]}."
    )


def _row(entry: Entry) -> tuple[object, ...]:
    name = entry.store.folder.name
    address = link(f"phases/{name}/index.html", name)
    return address, entry.plan.campaign.title, ", ".join(entry.plan.phases), state(entry.store)
