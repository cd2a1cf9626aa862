"""The page of a campaign that was brought from elsewhere: published figures, adopted logs, or both, as MyST text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from analysis import adopted_limits, figures, limits, overview, published_design, tables
from analysis import published_sentences as words
from analysis.arms import arm_places
from analysis.escaping import escaped, markdown, raw
from analysis.headlines import contrast_sentence
from analysis.model import Estimate
from analysis.page_parts import bullets, link, paragraphs
from analysis.published import Published, PublishedEstimate
from analysis.published_page import NOTICE, PUBLISHED, Subject, headline
from analysis.report import PhaseReport
from analysis.same_question import Peer
from analysis.sentences import listed
from analysis.tables import Markup
from runner.plan import Plan
from runner.plantypes import defined
from runner.store import Store

Reports = Mapping[str, PhaseReport]


def campaign_page(store: Store, plan: Plan, published: Published | None, reports: Reports, peer: Peer | None) -> str:
    """What was published, what was recomputed from adopted logs, how sure, and what is undefined."""
    parts = [
        f"# {markdown(plan.campaign.title)}\n",
        f"{markdown(plan.campaign.question)}\n",
        raw(_state(store, reports)),
    ]
    if reports:
        parts += ["## What adopted logs give: adopted, not executed here\n", raw(bullets(_adopted(reports)))]
    subjects = _subjects(store, plan, published, reports, peer)
    if published and subjects:
        parts += [
            f"## What was found: {PUBLISHED}\n",
            raw(findings(subjects)),
            raw(strip(subjects)),
        ]
    parts += ["## Phases\n", raw(phase_table(plan, published, reports))]
    if published and subjects:
        parts += [f"## How sure: {PUBLISHED}\n", raw(bullets(how_sure(subjects)))]
    if peer:
        parts += ["## The same questions, another stack\n", raw(same_questions(plan, peer))]
    parts += ["## Method\n", raw(paragraphs(method(store, plan, published, reports)))]
    if published:
        parts += ["## Environment\n", raw(published_design.environment(plan, published))]
    parts += [
        "## Trees\n",
        raw(published_design.trees(plan, plan.trees)),
        "## Shared limits\n",
        raw(bullets(shared(plan, published, reports))),
    ]
    return "\n".join(parts)


def _subjects(
    store: Store, plan: Plan, published: Published | None, reports: Reports, peer: Peer | None
) -> list[Subject]:
    """The phases of which published figures are shown."""
    if published is None:
        return []
    names = [name for name in plan.phases if name not in reports]
    return [Subject(f"data/{store.folder.name}", plan, published, name, peer) for name in names]


def _state(store: Store, reports: Reports) -> Markup:
    text = f"State: {overview.state(store)}. "
    if reports:
        text += f"The raw logs of phase{'s' * (len(reports) > 1)} {listed(reports)} were adopted: brought here, not executed here."
    else:
        text += NOTICE
    return Markup(f'<p class="bb-notice">{escaped(text)}</p>\n')


def _link(name: str, plan: Plan, prefix: str = "") -> Markup:
    return link(overview.page_address(name, prefix), f"{name}, {plan.phases[name].title}", "bb-name")


def _adopted(reports: Reports) -> list[Markup]:
    """The headline of each phase whose logs were adopted."""
    return [
        Markup(f"{_link(name, report.plan)}: {escaped(contrast_sentence(report, next(iter(report.contrasts))))}")
        for name, report in reports.items()
    ]


# ---- published ----------------------------------------------------------------------------------------


def findings(subjects: Iterable[Subject]) -> Markup:
    """The first sentence of each phase's page with a link to it."""
    rule = "One rule for every phase: the primary metric of the first contrast of which something was published."
    items = [Markup(f"{_link(s.name, s.plan)}: {escaped(headline(s)[0])}") for s in subjects]
    return Markup(bullets(items) + f'<p class="bb-small">{escaped(rule)}</p>\n')


def strip(subjects: Iterable[Subject]) -> Markup:
    """One lane for each phase and contrast: the published ratios of its primary metric; nothing where there is none."""
    rows, arms = {}, {}
    for subject in subjects:
        lane = f"{subject.name}: {subject.phase.title}"
        found = [e for e in subject.estimates if e.metric == subject.phase.primary_metric and e.ratio is not None]
        if found:
            rows[lane] = [as_estimate(e) for e in found]
            arms[lane] = arm_places(subject.plan, subject.name)
    if not rows:
        return Markup()
    lead = "Ratios of each phase around 1, as published, not recomputed"
    return Markup(figures.strip(rows, arms=arms, primary="percentile", lead=lead)._repr_html_())


def as_estimate(estimate: PublishedEstimate) -> Estimate:
    """A published ratio for a figure that draws estimates: a point, and the percentile interval where there is one."""
    point = None if estimate.ratio is None else float(estimate.ratio)
    interval = None if estimate.interval is None else words.floats(estimate.interval)
    return Estimate(
        estimate.phase, estimate.shown, words.noun(estimate.word), estimate.contrast, point, percentile=interval
    )


def phase_table(plan: Plan, published: Published | None, reports: Reports) -> Markup:
    """Every phase: its question, how much of it is known, and whether figures or logs are here."""
    if published is None:
        return _adopted_table(plan, reports)
    rows = []
    for name, phase in plan.phases.items():
        ratios = [e for e in published.estimates_of(name) if e.ratio is not None]
        given = sum(e.interval is not None for e in ratios)
        here = "adopted logs" if name in reports else "published figures"
        named = sum(defined(case.name) for case in phase.cases)
        rows.append((_link(name, plan), phase.question, named, phase.blocks, len(ratios), given, here))
    head = ("phase", "question", "named cases", "blocks", "published ratios", "with interval", "here")
    return tables.plain(head, rows, numbers=[2, 3, 4, 5])


def _adopted_table(plan: Plan, reports: Reports) -> Markup:
    rows = []
    for name, phase in plan.phases.items():
        shown = _link(name, plan) if name in reports else f"{name}, {phase.title}: no logs"
        runs = overview.run_counts(reports[name].ledger, name) if name in reports else "none"
        rows.append((shown, phase.question, len(phase.cases), phase.blocks, runs))
    return tables.plain(("phase", "question", "cases", "blocks", "adopted runs"), rows, numbers=[2])


def how_sure(subjects: list[Subject]) -> list[str]:
    """How many figures have an interval, which of them would be unresolved by t, and where nobody can say."""
    told = []
    for subject in subjects:
        if published_design.widths_known(subject.blocks):
            texts = words.assessment(subject.estimates, subject.blocks)
            told.append(
                f"Phase {subject.name}, {published_design.coverage(subject.plan, subject.name)}: {' '.join(texts)}"
            )
    unknown: dict[object, list[Subject]] = {}
    for subject in subjects:
        if not published_design.widths_known(subject.blocks):
            unknown.setdefault(subject.blocks, []).append(subject)
    for blocks, members in unknown.items():
        found = [e for s in members for e in s.estimates]
        told.append(
            f"Phase{'s' * (len(members) > 1)} {listed(s.name for s in members)}: {words.counted(found)} "
            f"{words.why_unknown(blocks)}"
        )
    return told


def same_questions(plan: Plan, peer: Peer) -> Markup:
    """The phases of the other campaign with the same questions; the published phase pages show both answers."""
    rows = [
        (_link(name, plan), _link(name, peer.plan, f"../{peer.name}/"), peer.reports[name].phase.question)
        for name in plan.phases
        if peer.asks(name)
    ]
    told = (
        "A campaign that was executed here asked the same questions of another stack. Each phase page shows both answers beside "
        "each other; their ratios are never combined."
    )
    return Markup(
        paragraphs([told])
        + tables.plain(("here", f"in {peer.name}", "its question"), rows, "The same question, another stack")
    )


def method(store: Store, plan: Plan, published: Published | None, reports: Reports) -> list[str]:
    """How the estimates of adopted logs come about; what the published pages say; and what nobody can know here."""
    told = adopted_limits.method(plan, reports) if reports else []
    return [*told, *(_as_published(store, plan) if published else _left_open(store))]


def _left_open(store: Store) -> list[str]:
    count = len(store.open_plan().undefined)
    return [
        f"plan.toml says what the logs show. What they do not show is the value \u201cundefined\u201d, {count} times."
    ]


def _as_published(store: Store, plan: Plan) -> list[str]:
    statistics = plan.statistics
    count = len(store.open_plan().undefined)
    return [
        f"As published: the {statistics.primary} interval leads, at level {statistics.level}, from {statistics.resamples} "
        f"resamples of the blocks with seed {statistics.seed}.",
        f"plan.toml says what the published pages define, in the words of this book. What they do not define is the value "
        f"\u201cundefined\u201d, {count} times; python -m runner check data/{store.folder.name} lists each.",
    ]


def shared(plan: Plan, published: Published | None, reports: Reports) -> list[str]:
    """What limits every phase."""
    told = limits.shared(plan, reports) if reports else []
    if published and len(plan.phases) > 1:
        told.append("No contrast goes across phases: each has conditions of its own, and was executed at another time.")
    if published and len(reports) < len(plan.phases):
        told += published_design.figures_only()
    if published:
        told += published_design.one_host(published)
    return told
