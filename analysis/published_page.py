"""The page of a phase of which only published figures are here, as MyST text with tables and figures as HTML.

Sections stand in the order of the other phase pages. What rests on published numbers says in its heading that they are
published and not recomputed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis import figures_published, same_question, tables
from analysis import published_design as design
from analysis import published_sentences as words
from analysis.arms import arm_places
from analysis.drawing import Picture, png, svg
from analysis.escaping import escaped, markdown, raw
from analysis.formats import interval_text
from analysis.implied import IN_BAND, LOPSIDED, OF_ONE_BLOCK, WIDTHS, implied_t, lean
from analysis.page_parts import bullets, paragraphs, section
from analysis.published import Published, PublishedAbsolute, PublishedEstimate
from analysis.sentences import listed
from analysis.tables import Markup, Notes
from runner.plan import Phase, Plan

PUBLISHED = "published, not recomputed (no raw logs here)"
NOTICE = "Published figures, not recomputed: the raw logs of this campaign are not here."
RULE = (
    "Numbers are those that were published, with their decimals; the sentences are computed from them. Where a change in percent "
    "was published, the ratio is 1 plus that change, and the words are given beside it."
)


@dataclass(frozen=True)
class Subject:
    """What a page is about: a phase of a campaign, what was published of it, and who asked the same question."""

    folder: str  # of the campaign, below data/
    plan: Plan
    published: Published
    name: str
    peer: same_question.Peer | None = None

    @property
    def phase(self) -> Phase:
        """The phase as planned, as far as it is defined."""
        return self.plan.phases[self.name]

    @property
    def blocks(self) -> object:
        """The number of blocks that an implied t interval goes by: as `published_design.blocks_of`."""
        return design.blocks_of(self.plan, self.name)

    @property
    def contrasts(self) -> dict[str, str]:
        """Contrasts with what each compares, in plan order."""
        return {contrast.name: contrast.what for contrast in self.phase.contrasts}

    @property
    def metrics(self) -> list[str]:
        """Units of the metrics, in plan order."""
        return [metric.unit for metric in self.phase.metrics]

    @property
    def estimates(self) -> list[PublishedEstimate]:
        """What was published, by contrast, metric and case in plan order; of several cases together last."""
        cases = [case.name for case in self.phase.cases]

        def place(estimate: PublishedEstimate) -> tuple[int, int, int]:
            at = len(cases) if estimate.case is None else cases.index(estimate.case)
            return list(self.contrasts).index(estimate.contrast), self.metrics.index(estimate.metric), at

        return sorted(self.published.estimates_of(self.name), key=place)


def page(subject: Subject, stem: str) -> tuple[str, dict[str, bytes]]:
    """A phase's page, and the files beside it whose names begin with ``stem``."""
    picture = forest(subject)
    shown = [picture] if picture else []
    files = downloads(subject, stem, picture)
    links = ", ".join(f"{{download}}`{name} <{name}>`" for name in files)
    parts = [
        f"# Phase {subject.name}: {markdown(subject.phase.title)}\n",
        raw(_question(subject.phase)),
        f"## Findings: {PUBLISHED}\n",
        raw(section(bullets([*headline(subject), *words.assessment(subject.estimates, subject.blocks)]), *shown)),
        f"## Results: {PUBLISHED}\n",
        raw(results(subject)),
        f"### Absolute values: {PUBLISHED}\n",
        raw(absolutes(subject)),
        *beside(subject),
        f"## Interpretation: {PUBLISHED}\n",
        *interpretation(subject),
        "## Limits\n",
        raw(bullets(design.limits(subject.plan, subject.name, subject.published))),
        "## Arms, environment, design: as far as published\n",
        raw(design.evidence(subject.plan, subject.name, subject.published, subject.folder)),
        "## Reproduce\n",
        raw(design.reproduce(subject.folder, subject.name)),
        f"Download: {links}.\n",
    ]
    return "\n".join(parts), files


def _question(phase: Phase) -> Markup:
    return Markup(
        f'<p class="bb-question">{escaped(phase.question)}</p>\n<p class="bb-notice">{escaped(NOTICE)}</p>\n'
        f'<p class="bb-small">{escaped(RULE)}</p>\n'
    )


# ---- findings -----------------------------------------------------------------------------------------


def headline(subject: Subject) -> list[str]:
    """The sentence of each contrast's primary metric; of a contrast without one its first sentence."""
    told = []
    for contrast in subject.contrasts:
        own = words.sentences(subject.estimates, [contrast], [subject.phase.primary_metric])
        told += own or words.sentences(subject.estimates, [contrast], subject.metrics)[:1]
    return told or ["Nothing was published of this phase."]


def also(subject: Subject) -> list[str]:
    """Every other sentence."""
    shown = headline(subject)
    return [
        text for text in words.sentences(subject.estimates, subject.contrasts, subject.metrics) if text not in shown
    ]


def forest(subject: Subject) -> Picture | None:
    """Everything of the phase that can be drawn: a panel for each contrast, rows grouped by metric; None for nothing."""
    panels = {
        contrast: figures_published.rows(
            [e for e in subject.estimates if e.contrast == contrast], subject.metrics, subject.blocks
        )
        for contrast in subject.contrasts
    }
    drawn = any(panels.values())
    return figures_published.forest(panels, arm_places(subject.plan, subject.name)) if drawn else None


# ---- results ------------------------------------------------------------------------------------------


def results(subject: Subject) -> Markup:
    """A table for each contrast: what was published, what it implies by t, and what would become of it."""
    known = design.widths_known(subject.blocks)
    told = [
        "A ratio is numerator / denominator; below 1 the numerator takes less. It is the published one, with its percentile "
        f"interval where one was published ({design.coverage(subject.plan, subject.name)}).",
    ]
    if known:
        told.append(
            "The t interval is not published. It is what the published interval implies at {3} blocks: half its width on the "
            "log axis, divided by {1:.2f} ({2:.2f} gives the narrower end of the band, {0:.2f} the wider one), around the "
            "published ratio. It is approximate; these widths are simulated, and about {4:.0f} in 100 lie in the band. A "
            "statement would be unresolved where even the narrower one includes 1, and would not where even the wider one "
            "excludes it; between them it depends on the width.".format(
                *WIDTHS[subject.phase.blocks], subject.phase.blocks, 100 * IN_BAND
            )
        )
        told += _lopsided(subject.estimates)
    parts = [_table(subject, contrast, what, known) for contrast, what in subject.contrasts.items()]
    return section(paragraphs(told), *(part for part in parts if part))


def _lopsided(estimates: Sequence[PublishedEstimate]) -> list[str]:
    """That t is symmetric on the log axis, and which published intervals lean so far that one block may decide."""
    given = [(lean(float(e.ratio), words.floats(e.interval)), e) for e in estimates if e.ratio and e.interval]
    if not given:
        return []
    told = (
        "The implied interval lies symmetrically around its ratio on the log axis, which a percentile interval need not. "
        f"Of simulated ones that reach more than {LOPSIDED} times as far to one side as to the other, about "
        f"{100 * OF_ONE_BLOCK:.0f} in 100 come from a single block that holds more than 0.71 of the spread; "
        "for them t tends to the wider end of the band, or beyond it."
    )
    found = [f"{words.named(e)}, {times:.1f} times" for times, e in given if times > LOPSIDED]
    return [f"{told} Here: {listed(found)}." if found else f"{told} Here no published interval does."]


def _table(subject: Subject, contrast: str, what: str, known: bool) -> Markup:
    own = [e for e in subject.estimates if e.contrast == contrast]
    notes = Notes("n-" + tables.slug(contrast, subject.name))
    rows = [_row(e, subject.blocks, known, notes) for e in own]
    head = ["case", "metric", "published ratio [percentile]"]
    head += ["implied t interval, approximate"] if known else []
    head += ["statement as published", *(["then unresolved?"] if known else [])]
    if not rows:
        return paragraphs([f"{contrast} ({what}): no figure was published."])
    table = tables.plain(head, rows, f"Ratio {contrast}: {what}", numbers=[2, 3] if known else [2])
    return Markup(table + notes.html())


def _row(estimate: PublishedEstimate, blocks: object, known: bool, notes: Notes) -> list[object]:
    case = tables.breakable(estimate.shown) if estimate.shown else escaped(words.SEVERAL)
    mark = notes.mark(f"{estimate.note[0].upper()}{estimate.note[1:]}.") if estimate.note else ""
    statement = words.statement(estimate)
    beside = words.beside_ratio(estimate)
    row: list[object] = [
        Markup(case + mark),
        words.noun(estimate.word),
        words.ratio_words(estimate) or words.range_words(estimate),
    ]
    if known:
        row.append(_implied(estimate, blocks))
    row.append([statement, *beside] if beside else statement)
    return [*row, words.FATES[words.fate(estimate, blocks)]] if known else row


def _implied(estimate: PublishedEstimate, blocks: object) -> Markup | None:
    """The likely interval, and below it both ends of its band."""
    if estimate.ratio is None or estimate.interval is None:
        return None
    found = implied_t(float(estimate.ratio), words.floats(estimate.interval), blocks)
    if found is None:
        return None
    band = f"band from {interval_text(found.narrowest)}<br>to {interval_text(found.widest)}"
    return Markup(f'\u2248 {interval_text(found.likely)}<br><span class="bb-other">{band}</span>')


def absolutes(subject: Subject) -> Markup:
    """Absolute values as published, a row for each case and unit."""
    found = subject.published.absolutes_of(subject.name)
    if not found:
        return paragraphs(["No absolute value was published here."])
    arms = [arm.name for arm in subject.phase.arms]
    rows = [_absolute(absolute, arms) for absolute in found]
    return section(
        paragraphs(["For orientation. A ratio of two of them is not a paired estimate, and is not shown as one."]),
        tables.plain(("case", "unit", *arms), rows, "Absolute values as published", numbers=range(2, 2 + len(arms))),
    )


def _absolute(absolute: PublishedAbsolute, arms: Sequence[str]) -> list[object]:
    values: Mapping[str, str] = {level.arm: words.number(level.value) for level in absolute.levels}
    unit = f"{absolute.unit}, {words.noun(absolute.word)}" if absolute.unit else absolute.word
    return [Markup(tables.breakable(absolute.shown)), unit, *(values.get(arm) for arm in arms)]


def beside(subject: Subject) -> list[str]:
    """The other stack's answer to the same question, where there is one."""
    peer = subject.peer
    if peer is None or not peer.asks(subject.name):
        return []
    address = f"../{peer.name}/phase_{subject.name.lower()}.html"
    link = Markup(f'<p><a href="{escaped(address)}">Phase {escaped(subject.name)} of {escaped(peer.name)}</a></p>\n')
    shown = same_question.side_by_side(peer, subject.phase, subject.name, subject.estimates)
    return [f"## The same question, another stack: beside what was {PUBLISHED}\n", raw(shown + link)]


# ---- interpretation -----------------------------------------------------------------------------------


def interpretation(subject: Subject) -> list[str]:
    """What else was published; what was said; what nobody explained."""
    others = also(subject)
    said = [text for text in subject.published.remarks_of(subject.name) if not unexplained(text)]
    open_questions = list(subject.phase.open_questions) or [
        text for text in subject.published.remarks_of(subject.name) if unexplained(text)
    ]
    parts = ["### Preregistered claims\n", raw(paragraphs([design.CLAIMS]))]
    if others or said:
        parts += ["### Also published\n", raw(bullets([*others, *map(_sentence, said)]))]
    parts += ["### Not explained by what was published\n", raw(bullets(open_questions, "No open question was named."))]
    return parts


def unexplained(remark: str) -> bool:
    """Whether a remark names what its authors could not explain, or did not test."""
    return "not explained" in remark or "untested" in remark


def _sentence(text: str) -> str:
    return f"{text}."


# ---- files beside the page ----------------------------------------------------------------------------


def downloads(subject: Subject, stem: str, picture: Picture | None) -> dict[str, bytes]:
    """The published figures as CSV and the forest plot, by file name."""
    files = {f"{stem}-published.csv": _csv(subject).encode()}
    if picture:
        files[f"{stem}-forest.svg"] = svg(picture.wide)
        files[f"{stem}-forest-narrow.svg"] = svg(picture.narrow)
        files[f"{stem}-forest.png"] = png(picture.wide)
    return files


def _csv(subject: Subject) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        (
            *("case", "metric", "contrast", "published_ratio", "published_low", "published_high"),
            *("published_range_low", "published_range_high", "published_change", "text", "note"),
        )
    )
    for e in subject.estimates:
        writer.writerow(
            (
                e.case or "",
                e.metric,
                e.contrast,
                e.ratio,
                *(e.interval or ("", "")),
                *(e.range or ("", "")),
                e.change,
                e.text,
                e.note,
            )
        )
    return out.getvalue()
