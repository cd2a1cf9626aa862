"""The front page and each campaign's own page, as MyST text with tables and figures as HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analysis import figures, page, tables
from analysis.intervals import coverage_words
from analysis.report import PhaseReport
from analysis.sentences import listed
from analysis.tables import Markup, escaped
from runner.plan import Plan
from runner.store import Store

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|$~^@:&])")


@dataclass(frozen=True)
class Entry:
    """A campaign as the front page sees it; without reports while it is not closed."""

    store: Store
    plan: Plan
    reports: dict[str, PhaseReport]

    @property
    def local(self) -> bool:
        """Whether this is a short campaign of the reader's own machine."""
        return self.store.folder.name.startswith("local-")


def state(store: Store) -> str:
    """draft, sealed, running or closed."""
    if not store.seal_path.exists():
        return "draft"
    ledger = store.ledger()
    return "closed" if ledger.closed else "running" if ledger.started else "sealed"


def markdown(text: str) -> str:
    """Text as text inside Markdown: every character that could be markup is escaped."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def raw(markup: str) -> str:
    """Our own HTML inside a page. Blank lines would not end the directive, but a fence would."""
    return f"``````{{raw}} html\n{markup}\n``````\n"


def campaign_page(store: Store, plan: Plan, reports: dict[str, PhaseReport]) -> str:
    """The overview of one campaign: what it asks, its phases with what was found, environment, trees, limits."""
    parts = [f"# {markdown(plan.campaign.title)}\n", f"{markdown(plan.campaign.question)}\n"]
    if plan.campaign.short:
        parts.append(f"A shortened copy of {markdown(plan.campaign.short)}: fewer cases and blocks.\n")
    if not reports:
        return "\n".join([*parts, f"State: {state(store)}. Nothing is shown before it is closed.\n"])
    first = next(iter(reports.values()))
    parts += [
        "## Phases\n",
        raw(_phase_table(reports)),
        raw(_strip(reports)),
        "## Environment\n",
        raw(page.environment(first)),
        "## Trees\n",
        raw(page.arms(first)),
        "## Shared limits\n",
        raw(page.bullets(shared_limits(plan, reports))),
    ]
    return "\n".join(parts)


def _strip(reports: dict[str, PhaseReport]) -> str:
    rows = {
        f"{name}: {report.phase.title}": [e for e in report.estimates if e.metric == report.phase.primary_metric]
        for name, report in reports.items()
    }
    first = next(iter(reports.values()))
    return figures.strip(rows, arms=first.arms, primary=first.primary)._repr_html_()


def _phase_table(reports: dict[str, PhaseReport], prefix: str = "") -> Markup:
    rows = []
    for name, report in reports.items():
        link = Markup(
            f'<a href="{escaped(prefix)}phase_{escaped(name.lower())}.html">{escaped(name)}: {escaped(report.phase.title)}</a>'
        )
        rows.append((link, report.phase.question, page.claim_counts(report)))
    return tables.plain(("phase", "question", "claims"), rows)


def shared_limits(plan: Plan, reports: dict[str, PhaseReport]) -> list[str]:
    """What limits every phase of a campaign."""
    first = next(iter(reports.values()))
    from analysis import limits

    texts = [limits.host(first), limits.server(first)]
    if len(plan.phases) > 1:
        texts.append("No contrast across phases: the state of the engine and of the host differs between them.")
    return [*texts, *limits.deviations(first)]


def headlines(report: PhaseReport) -> list[str]:
    """The findings of a phase for the front page: its primary metric's sentence for each contrast."""
    return [sentence.text for sentence in report.sentences if sentence.metric == report.phase.primary_metric]


def how_sure(reports: dict[str, PhaseReport]) -> list[str]:
    """Blocks, failed and void runs, the warning that most estimates carry."""
    return [_how_sure(name, report) for name, report in reports.items()]


def _how_sure(name: str, report: PhaseReport) -> str:
    metric = report.phase.primary_metric
    found = [estimate for estimate in report.estimates if estimate.metric == metric]
    kinds = [warning.kind for estimate in found for warning in estimate.warnings]
    good = sum(record["outcome"] == "ok" for record in report.runs.values())
    text = (
        f"Phase {name}: {report.phase.blocks} blocks, {good} of {len(report.runs)} executed runs with a result; "
        f"the percentile interval is {coverage_words('percentile', report.phase.blocks, report.plan.statistics.level)}."
    )
    if not kinds:
        return text + f" No estimate of {metric} carries a warning."
    warned = sum(bool(estimate.warnings) for estimate in found)
    most = max(dict.fromkeys(kinds), key=kinds.count).replace("-", " ")
    return text + f" {warned} of {len(found)} estimates of {metric} carry a warning, most often: {most}."


def front_page(entries: list[Entry]) -> str:
    """What was compared, what was found, how sure, how to check it, and every campaign of the book."""
    closed = [entry for entry in entries if entry.reports]
    leading = next((entry for entry in reversed(closed) if not entry.local), closed[-1] if closed else None)
    parts = []
    if leading:
        parts += _leading(leading)
    parts += [
        "## Campaigns in this book\n",
        raw(tables.plain(("campaign", "what", "phases", "state"), [_row(e) for e in entries])),
    ]
    return "\n".join(parts)


def _leading(entry: Entry) -> list[str]:
    name = entry.store.folder.name
    first = next(iter(entry.reports.values()))
    identity = entry.store.read_json(entry.store.host_path)["identity"]
    day = first.seal.content["sealed"][:10]
    trees = listed(tree.what for tree in entry.plan.trees.values())
    opening = f"{entry.plan.campaign.question} Compared: {trees}; on {identity['cpu_model']}, {day}."
    blocks = []
    for phase, report in entry.reports.items():
        address = f"phases/{name}/phase_{phase.lower()}.html"
        link = f'<a href="{escaped(address)}">Phase {escaped(phase)}: {escaped(report.phase.title)}</a>'
        blocks.append(f"<p>{link}. {escaped(page.claim_counts(report))}</p>{page.bullets(headlines(report))}")
    return [
        f"{markdown(opening)}\n",
        "## What was found\n",
        raw("".join(blocks)),
        raw(_strip(entry.reports)),
        "## How sure\n",
        raw(page.bullets(how_sure(entry.reports))),
        "## Check it\n",
        f"```bash\npython -m runner verify data/{name}\njupyter-book build book/\n```\n",
    ]


def _row(entry: Entry) -> tuple[object, ...]:
    name = entry.store.folder.name
    link = Markup(f'<a href="phases/{escaped(name)}/index.html">{escaped(name)}</a>')
    return link, entry.plan.campaign.title, ", ".join(entry.plan.phases), state(entry.store)
