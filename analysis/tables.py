"""The tables of a page, as HTML inside a box that scrolls by itself.

Everything that comes from a plan, a log or a label is escaped: text never becomes markup. What worries a
reader about a number stands in a footnote below its table, once, with a mark at every row it belongs to.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.escaping import escaped
from analysis.formats import DASH, absolute_texts, interval_text, range_text, ratio_places, ratio_text
from analysis.model import Absolute, ClaimResult, Estimate
from analysis.sentences import interval_name

LONG = 40  # characters; a longer text gets a wide column and may be broken anywhere

STATUS_WORDS = {
    "supported": "supported",
    "contradicted": "contradicted",
    "unresolved": "unresolved",
    "nominal-only": "nominal only",
    "not-evaluable": "not evaluable",
}


class Markup(str):
    """HTML of our own making. The last value of a cell: the page then shows it as it is."""

    def _repr_html_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return text_only(self)


def text_only(markup: str) -> str:
    """What a table says, one line a row, for readers without HTML."""
    rows = re.sub(r"</t[dh]>", "\t", re.sub(r"</tr>|</p>|</li>", "\n", markup))
    lines = html.unescape(re.sub(r"<[^>]*>", "", rows)).splitlines()
    return "\n".join(line.strip() for line in lines if line.strip())


def breakable(name: str) -> str:
    """An escaped name that may be broken after a slash and before a capital, so that its column can be narrow."""
    parts = re.split(r"(?<=[/_.-])(?=\S)|(?<=[a-z0-9])(?=[A-Z])", name)
    return "<wbr>".join(map(escaped, parts))


@dataclass
class Notes:
    """Footnotes of one table: equal texts share a mark; marks are a, b, ... z, aa, ab, ..."""

    prefix: str
    _marks: dict[str, str] = field(default_factory=dict)

    def mark(self, text: str) -> str:
        """The superscript link to a text's footnote."""
        if text not in self._marks:
            self._marks[text] = _letters(len(self._marks))
        letter = self._marks[text]
        return f'<sup><a href="#{self.prefix}-{letter}">{letter}</a></sup>'

    def marks(self, texts: Iterable[str]) -> str:
        """The links to several footnotes, in the order of their marks."""
        links = {text: self.mark(text) for text in texts}
        places = list(self._marks)
        return "<sup>,</sup>".join(links[text] for text in sorted(links, key=places.index))

    def html(self) -> str:
        items = [
            f'<li id="{self.prefix}-{letter}"><span class="bb-mark">{letter}</span>{escaped(text)}</li>'
            for text, letter in self._marks.items()
        ]
        return f'<ul class="bb-notes">{"".join(items)}</ul>' if items else ""


def _letters(number: int) -> str:
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def slug(*parts: str) -> str:
    """An identifier for use in an address: letters, digits and hyphens of the parts."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-") or "table"


# ---- the frame ----------------------------------------------------------------------------------------


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _cell(content: str, kind: str = "", tag: str = "td", **attributes: object) -> str:
    extra = "".join(f' {name}="{escaped(value)}"' for name, value in attributes.items())
    return f"<{tag}{_class(kind)}{extra}>{content}</{tag}>"


def _frame(
    caption: str, head: Sequence[tuple[str, str]], rows: Iterable[str], after: str = "", kind: str = ""
) -> Markup:
    """The caption, the box that scrolls below it, the header (text, class) and finished rows."""
    cells = "".join(_cell(escaped(text), style, "th", scope="col") for text, style in head)
    top = f'<p class="bb-caption">{escaped(caption)}</p>' if caption else ""
    header = f"<thead><tr>{cells}</tr></thead>" if head else ""
    body = "\n".join(rows)
    label = escaped(caption or "table")
    return Markup(
        f'<div class="bb-table">{top}<div class="bb-scroll" role="region" tabindex="0" aria-label="{label}">\n'
        f"<table{_class(kind)}>{header}\n<tbody>\n{body}\n</tbody></table></div>{after}</div>"
    )


def plain(
    head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "", *, numbers: Iterable[int] = ()
) -> Markup:
    """A table of texts; the first cell of a row names it. Columns whose places are in ``numbers`` align right."""
    right = set(numbers)

    def line(row: Sequence[object]) -> str:
        cells = [
            _cell(_text(value), "bb-number" if place in right else _length(value), *(("th",) if place == 0 else ()))
            for place, value in enumerate(row)
        ]
        return f"<tr>{''.join(cells)}</tr>"

    return _frame(caption, [(text, "bb-number" if i in right else "") for i, text in enumerate(head)], map(line, rows))


def _length(value: object) -> str:
    """The class of cells whose text may be broken anywhere."""
    parts = value if isinstance(value, list | tuple) else [value]
    return "bb-long" if any(len(text_only(str(part))) > LONG for part in parts) else ""


def key_values(rows: Mapping[str, object] | Iterable[tuple[str, object]], caption: str = "") -> Markup:
    """Two columns: a name and what it is. A sequence of values is written one a line."""
    pairs = rows.items() if isinstance(rows, Mapping) else rows
    lines = [
        f"<tr>{_cell(escaped(name), '', 'th', scope='row')}{_cell(_text(value), 'bb-long')}</tr>"
        for name, value in pairs
    ]
    return _frame(caption, [], lines, kind="bb-keys")


def _text(value: object) -> str:
    if isinstance(value, Markup):
        return str(value)
    if value is None or value == "" or value != value:  # the last: not a number
        return DASH
    if isinstance(value, list | tuple):
        return "<br>".join(_text(part) for part in value) or DASH
    return escaped(value).replace("\n", "<br>")


def code(text: str) -> Markup:
    """Text in a fixed-width font, escaped, for a cell of another table."""
    return Markup(f"<code>{escaped(text)}</code>")


# ---- results ------------------------------------------------------------------------------------------


def results(
    estimates: Sequence[Estimate],
    contrast: str,
    *,
    primary: str,
    cases: Sequence[str],
    metrics: Sequence[str],
    caption: str = "",
    coverage: str = "",
    measured: Mapping[str, Sequence[str]] | None = None,
) -> Markup:
    """One contrast's results: a row per case and metric, in plan order.

    ``coverage`` says what a percentile interval covers at this number of blocks; it stands in that column's head.

    Columns: case, metric, ratio [primary interval], other interval, leave-one-out range, blocks, notes. A
    planned case and metric without an estimate has a row of dashes that says so; ``measured`` gives the metrics that
    each case measures by plan, and without it every case measures all. Of unpaired estimates there is one interval, and
    processes stand where blocks would.
    """
    other = "percentile" if primary == "t" else "t"
    found = {(e.case, e.metric): e for e in estimates if e.contrast == contrast}
    notes = Notes("n-" + slug(contrast, *sorted({e.phase for e in estimates})))
    paired = all(e.paired for e in found.values())
    rows: list[str] = []
    for case in cases:
        own = _measured(case, metrics, measured)
        name = _cell(breakable(case), "", "th", scope="rowgroup", rowspan=len(own))
        for place, metric in enumerate(own):
            estimate = found.get((case, metric))
            cells = (
                _result_cells(estimate, metric, primary, other, notes)
                if paired
                else _unpaired_cells(estimate, metric, notes)
            )
            rows.append(f"<tr>{name if place == 0 else ''}{cells}</tr>")
    told = {"t": "", "percentile": f" ({coverage})" if coverage else ""}
    numbers = [
        f"ratio [{primary} interval, primary]{told[primary]}",
        f"{other} interval{told[other]}",
        "leave one out",
        "blocks",
    ]
    if not paired:
        numbers = [f"ratio [{interval_name('t', paired=False)}]", "processes"]
    head = [("case", ""), ("metric", ""), *((text, "bb-number") for text in numbers), ("notes", "")]
    return _frame(caption or f"Ratio {contrast}", head, rows, notes.html())


def _measured(case: str, metrics: Sequence[str], measured: Mapping[str, Sequence[str]] | None) -> list[str]:
    return [metric for metric in metrics if measured is None or metric in measured.get(case, ())]


def _result_cells(estimate: Estimate | None, metric: str, primary: str, other: str, notes: Notes) -> str:
    if estimate is None:
        mark = notes.mark("No estimate was computed for this case and metric.")
        return _cell(escaped(metric), "bb-unit") + _cell(DASH + mark, "bb-number") * 4 + _cell(mark)
    why = notes.marks(reasons(estimate))
    places = ratio_places(estimate.point, estimate.interval(primary))
    texts = (
        (ratio_text(estimate.point, estimate.interval(primary)), "bb-number bb-primary"),
        (interval_text(estimate.interval(other)), "bb-number bb-other"),
        (range_text(estimate.leave_one_out, places), "bb-number"),
    )
    first = next((place for place, (text, _) in enumerate(texts) if DASH in text), None)
    cells = [_cell(text + (why if place == first else ""), kind) for place, (text, kind) in enumerate(texts)]
    return "".join([_cell(escaped(metric), "bb-unit"), *cells, _cell(blocks_text(estimate), "bb-number"), _cell(why)])


def _unpaired_cells(estimate: Estimate | None, metric: str, notes: Notes) -> str:
    if estimate is None:
        mark = notes.mark("No estimate was computed for this case and metric.")
        return _cell(escaped(metric), "bb-unit") + _cell(DASH + mark, "bb-number") * 2 + _cell(mark)
    why = notes.marks(reasons(estimate))
    text = ratio_text(estimate.point, estimate.t)
    return "".join(
        [
            _cell(escaped(metric), "bb-unit"),
            _cell(text + (why if DASH in text else ""), "bb-number bb-primary"),
            _cell(processes_text(estimate), "bb-number"),
            _cell(why),
        ]
    )


def processes_text(estimate: Estimate) -> str:
    """``6 and 5 of 6``: used processes of the numerator and of the denominator, and how many there are."""
    told = []
    for arm, used in zip((estimate.numerator, estimate.denominator), estimate.processes, strict=True):
        lost = sum(gone.arm == arm for gone in estimate.missing)
        told.append(f"{used} of {used + lost}" if lost else str(used))
    return " and ".join(told)


def blocks_text(estimate: Estimate) -> str:
    """``6``, or ``4 of 6`` when blocks are missing that no other block replaces."""
    lost = {gone.block for gone in estimate.missing if gone.replaced_by is None} - set(estimate.blocks)
    used = len(estimate.blocks)
    return f"{used} of {used + len(lost)}" if lost else str(used)


def reasons(estimate: Estimate) -> list[str]:
    """The texts of an estimate's footnotes: its warnings, and whatever they leave unsaid about gaps."""
    texts = [warning.text for warning in estimate.warnings]
    for gone in estimate.missing:
        if not any(gone.reason in text for text in texts):
            after = "" if gone.replaced_by is None else f"; block {gone.replaced_by} replaces it"
            texts.append(f"{gone.unit.capitalize()} {gone.block} is missing: arm {gone.arm}, {gone.reason}{after}.")
    parts = {
        "point": estimate.point,
        "t interval": estimate.t,
        "percentile interval": estimate.percentile,
        "leave-one-out range": range_text(estimate.leave_one_out, 3).replace(DASH, "") or None,
    }
    gaps = [name for name, value in parts.items() if value is None]
    if gaps and not texts:
        texts.append(f"Not computed: {', '.join(gaps)}. The analysis gave no reason.")
    return texts


# ---- absolute values and claims -----------------------------------------------------------------------


def absolutes(
    values: Sequence[Absolute],
    *,
    cases: Sequence[str],
    metrics: Sequence[str],
    arms: Sequence[str],
    measured: Mapping[str, Sequence[str]] | None = None,
    over: str = "blocks",
) -> Markup:
    """Absolute values per arm, one row per case and metric, all arms of a row in one unit; ``measured`` as in `results`.

    ``over`` names what a run belongs to: blocks, or processes where no block is known.
    """
    found = {(a.case, a.metric, a.arm): a for a in values}
    notes = Notes("n-absolute")
    rows: list[str] = []
    for case in cases:
        own = _measured(case, metrics, measured)
        name = _cell(breakable(case), "", "th", scope="rowgroup", rowspan=len(own))
        for place, metric in enumerate(own):
            row = [found.get((case, metric, arm)) for arm in arms]
            texts, unit = absolute_texts([a.value if a else None for a in row], metric)
            cells = [
                _cell(_absolute(t, a, arm, over, notes), "bb-number")
                for t, a, arm in zip(texts, row, arms, strict=True)
            ]
            rows.append(f"<tr>{name if place == 0 else ''}{_cell(escaped(unit), 'bb-unit')}{''.join(cells)}</tr>")
    head = [("case", ""), ("unit", ""), *((arm, "bb-number") for arm in arms)]
    return _frame(f"Median over {over} of the runs' medians", head, rows, notes.html())


def _absolute(text: str, value: Absolute | None, arm: str, over: str, notes: Notes) -> str:
    if text != DASH:
        return text
    count = value.blocks if value else 0
    return DASH + notes.mark(f"{arm}: no value, {count} {over} with a finished run.")


def claims(found: Sequence[ClaimResult], caption: str = "Preregistered claims") -> Markup:
    """Every declared claim with its status as words and the reason, in plan order."""
    if not found:
        return Markup("<p>The plan declares no claim.</p>")
    rows = [
        "<tr>"
        + _cell(escaped(claim.id), "", "th", scope="row")
        + _cell(escaped(claim.text), "bb-long")
        + _cell(status(claim.status) + (f", {escaped(claim.declared)}" if claim.declared else ""))
        + _cell(escaped(claim.reason), "bb-long")
        + "</tr>"
        for claim in found
    ]
    return _frame(caption, [("claim", ""), ("text", ""), ("status", ""), ("why", "")], rows)


def status(name: str) -> Markup:
    """A claim's status as words; an unknown one is an error, not a guess."""
    if name not in STATUS_WORDS:
        raise ValueError(f"unknown claim status {name!r}; known: {', '.join(STATUS_WORDS)}")
    return Markup(f'<span class="bb-status bb-status-{name}">{STATUS_WORDS[name]}</span>')
