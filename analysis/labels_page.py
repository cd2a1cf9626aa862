"""The page on labels of a campaign: what becomes of copies of its aggregate that were damaged on purpose."""

from __future__ import annotations

import re
from collections import Counter

from analysis import drill, tables
from analysis.drill import Drill, Outcome
from analysis.escaping import escaped, raw
from analysis.page_parts import bullets, paragraphs
from analysis.page_trees import short_digest
from analysis.sentences import listed
from analysis.tables import Markup
from runner.plan import Plan
from runner.store import Ledger, Store

TITLE = "Labels, damaged on purpose"
KINDS = ("foreign", "missing", "duplicate")  # the checks' own words
OTHER = "unreadable"


def page(store: Store, plan: Plan, ledger: Ledger) -> str:
    """The whole page, as MyST text. Damages, checks and restores copies of the aggregate as it is written."""
    found = drill.drill(store, plan, ledger)
    name = store.folder.name
    return "\n".join(
        [
            f"# {TITLE}\n",
            raw(paragraphs(about(found))),
            "## What became of each copy\n",
            raw(bullets(sentences(found))),
            raw(table(found)),
            "## Reproduce\n",
            f"```bash\npython -m analysis labels data/{name}\n"
            f"python -m analysis labels data/{name} --aggregate damaged.csv --restore restored\n```\n",
        ]
    )


def about(found: Drill) -> list[str]:
    """What was done, to what, and why."""
    return [
        "Everything on this page was done to copies, on purpose, when the book was built: the campaign's own labels hold, and "
        "its files are as they were.",
        "Labels are easily lost. It has happened that a loop variable of a runner took the name that held the case, and the "
        "aggregate had the name of a CPU field in every row; the first line of the table is that slip, made again. The "
        f"aggregate, metrics.csv, has {found.rows} rows here. Each copy was damaged in one way, checked as the command labels "
        "checks it, and restored as that command restores, from the sealed plan and the raw log of every run. Nothing of "
        "a damaged label is believed; the columns of values are the evidence, and stay as they are.",
        "What the checks say: foreign, a row that no run has; missing, a row of a run that is not there; duplicate, a row "
        "that is there too often; unreadable, a line that is no row.",
    ]


def sentences(found: Drill) -> list[str]:
    """How many damages were found, undone and refused, counted."""
    seen = [o for o in found.outcomes if o.report.problems]
    done = [o for o in found.outcomes if o.restored is not None]
    equal = [o for o in done if o.before == o.after]
    same = [o for o in done if o.same]
    refused = [o.damage.name for o in found.outcomes if o.restored is None]
    total = len(found.outcomes)
    told = [
        f"The checks named what does not hold in {len(seen)} of {total} damaged copies.",
        f"Restored: {len(done)} of {total}. In {len(same)} of these {len(done)} every row is a row of the campaign's own "
        f"aggregate, labels and values, and in {len(equal)} the value columns have the same SHA-256 before and after.",
    ]
    if refused:
        told.append(f"Refused, and nothing written, each for the reason in the table: {listed(refused)}.")
    return told


def table(found: Drill) -> Markup:
    """A row for each damage."""
    head = ("damage", "rows damaged", "labels said", "rows restored", "SHA-256 of the values, before and after")
    rows = [_row(outcome) for outcome in found.outcomes]
    return tables.plain(head, rows, f"Copies of metrics.csv, {found.rows} rows each, damaged on purpose", numbers=[1])


def _row(outcome: Outcome) -> tuple[object, ...]:
    restored = f"{outcome.restored} of {outcome.report.rows_expected}"
    return (
        [Markup(f"<strong>{escaped(outcome.damage.name)}</strong>"), outcome.damage.what],
        outcome.damaged,
        said(outcome.report.problems),
        restored if outcome.restored is not None else f"refused: {outcome.refused}",
        [
            short_digest(outcome.before) if outcome.before else "cannot be read",
            short_digest(outcome.after) if outcome.after else "nothing written",
        ],
    )


def said(problems: list[str]) -> list[str]:
    """How many problems of which kind the checks named, a kind a line."""
    twice = [problem for problem in problems if "the heading has" in problem]
    kinds = [kind_of(problem) for problem in problems if problem not in twice]
    counts = Counter(kind if kind in KINDS else OTHER for kind in kinds)
    told = [f"{count}\u00a0{kind}" for kind, count in counts.items()]
    return [*(["a\u00a0column\u00a0twice"] if twice else []), *told] or ["every label holds"]


def kind_of(problem: str) -> str:
    """The word before a problem's first colon."""
    return re.split(r"[:\s]", problem, maxsplit=1)[0]
