"""The page on seeds of a campaign: every percentile interval and claim under 200 seeds, beside the exact interval."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from matplotlib.figure import Figure

from analysis import tables
from analysis.drawing import INK, LINE, SOFT, Picture, Sheet, bare, elided, picture
from analysis.escaping import raw
from analysis.formats import interval_text
from analysis.overview import page_address
from analysis.page_parts import bullets, folded, link, paragraphs
from analysis.report import PhaseReport
from analysis.sentences import listed
from analysis.sweep import SEEDS, Ends, Sweep
from analysis.sweep_exports import of_report, statuses
from analysis.tables import STATUS_WORDS, Markup

TITLE = "Seeds"
Sweeps = Mapping[str, Sweep]


def page(reports: Mapping[str, PhaseReport]) -> str:
    """The whole page, as MyST text; ``reports`` are those of phases with known blocks, by name."""
    sweeps = {name: of_report(report, tuple(SEEDS)) for name, report in reports.items()}
    first = next(iter(reports.values()))
    parts = [
        f"# {TITLE}\n",
        raw(paragraphs([about(first)])),
        "## What a seed moves\n",
        raw(bullets(moved(sweeps))),
        *([raw(strip(sweeps)._repr_html_())] if any(lanes_of(sweeps).values()) else []),
        "## Claims\n",
        raw(bullets(flips(sweeps))),
        raw(claim_table(reports, sweeps)),
        "## Every interval\n",
        raw(Markup("".join(folded(_summary(reports[n], s), interval_table(s.ends)) for n, s in sweeps.items()))),
        "## Reproduce\n",
        f"```bash\npython -m analysis estimates data/{first.store.folder.name} --phase {first.identifier} "
        f"--seeds {SEEDS[0]}-{SEEDS[-1]}\n```\n",
    ]
    return "\n".join(parts)


def about(report: PhaseReport) -> str:
    """What the page shows, in a few sentences."""
    return (
        f"A percentile interval is drawn from {report.resamples} random resamples of the blocks, and so depends on a seed. "
        f"The plan's is {report.seed}; here it is each of {len(SEEDS)} others, {SEEDS[0]} to {SEEDS[-1]}, beside the "
        "interval without any, which is enumerated. The ratio and the t interval have no seed."
    )


def moved(sweeps: Sweeps) -> list[str]:
    """By how much ends move, and where a seed decides whether 1 is excluded."""
    ends = [(name, one) for name, found in sweeps.items() for one in found.ends]
    shares = [one.moves for _, one in ends if one.moves == one.moves]
    if not shares:
        return ["No estimate has a percentile interval."]
    name, worst = max(((n, one) for n, one in ends if one.moves == one.moves), key=lambda item: item[1].moves)
    told = [
        f"Of {len(shares)} intervals an end moves by {median(shares):.1%} of the interval's width in the median, and by "
        f"{worst.moves:.1%} at most (phase {name}, {_named(worst)})."
    ]
    unsure = [f"phase {n}, {_named(one)} ({one.excludes} of {one.seeds} exclude it)" for n, one in ends if one.flips]
    if unsure:
        many = f"{len(unsure)} intervals" if len(unsure) > 1 else "one interval"
        told.append(f"Whether 1 is excluded depends on the seed in {many}: {listed(unsure)}.")
    else:
        told.append("No interval excludes 1 under one seed and includes it under another.")
    return told


def _named(ends: Ends) -> str:
    return f"{ends.contrast} {ends.case}, {ends.metric}"


def flips(sweeps: Sweeps) -> list[str]:
    """Which claims change their status with the seed."""
    claims = [claim for found in sweeps.values() for claim in found.claims]
    unsure = [f"{claim.id} ({statuses(claim)})" for claim in claims if claim.flips]
    if not claims:
        return ["The plan has no claim."]
    if not unsure:
        return [f"None of {len(claims)} claims changes its status under any of the {len(SEEDS)} seeds."]
    return [f"{len(unsure)} of {len(claims)} claims change their status with the seed: {listed(unsure)}."]


def claim_table(reports: Mapping[str, PhaseReport], sweeps: Sweeps) -> Markup:
    """Every claim with the plan's seed and under all seeds."""
    late = {(name, claim.id): claim.declared for name, report in reports.items() for claim in report.claims}
    rows = [
        (
            claim.id,
            link(page_address(name), name),
            claim.text,
            ", ".join(filter(None, (STATUS_WORDS[claim.own], late[name, claim.id]))),
            statuses(claim),
        )
        for name, found in sweeps.items()
        for claim in found.claims
    ]
    seed = next(iter(reports.values())).seed
    head = ("claim", "phase", "text", f"with the plan's seed, {seed}", f"under {len(SEEDS)} seeds")
    return tables.plain(head, rows, "Claims under every seed") if rows else Markup()


def _summary(report: PhaseReport, found: Sweep) -> str:
    return f"Phase {report.identifier}, {report.phase.title}: {len(found.ends)} intervals"


def interval_table(ends: tuple[Ends, ...]) -> Markup:
    """Each interval: enumerated, where its sampled ends lie, by how much they move."""
    rows = [
        (
            f"{one.contrast} {one.case}",
            one.metric,
            interval_text(one.exact),
            f"{one.low[0]:.4f} to {one.low[1]:.4f}",
            f"{one.high[0]:.4f} to {one.high[1]:.4f}",
            f"{one.moves:.1%}" if one.moves == one.moves else None,
            f"{one.excludes} of {one.seeds}",
        )
        for one in ends
    ]
    head = ("interval", "metric", "exact", "lower end", "upper end", "moves by", "seeds that exclude 1")
    return tables.plain(head, rows, numbers=[5, 6])


def lanes_of(sweeps: Sweeps) -> dict[str, list[float]]:
    """By how much of its width each interval's ends move, in percent, for each phase."""
    return {name: [100 * one.moves for one in found.ends if one.moves == one.moves] for name, found in sweeps.items()}


def strip(sweeps: Sweeps) -> Picture:
    """One lane for each phase that has a width to move in."""
    lanes = {name: values for name, values in lanes_of(sweeps).items() if values}

    def draw(narrow: bool) -> Figure:
        lane, left = 0.3, 0.7
        sheet = Sheet(narrow, 0.1 + lane * len(lanes) + 0.5)
        axes = sheet.axes(left, 0.1, sheet.width - left - 0.2, lane * len(lanes))
        for place, (name, values) in enumerate(lanes.items()):
            axes.axhline(place, color=LINE, linewidth=0.5, zorder=0)
            axes.plot(values, [place] * len(values), "o", color=INK, alpha=0.35, markersize=5, markeredgewidth=0)
            axes.plot([median(values)], [place], "|", color=INK, markersize=15)
            sheet.text(0.04, 0.1 + (place + 0.5) * lane, elided(f"phase {name}", 12), fontsize=8.8, va="center")
        axes.set_yticks([])
        axes.set_ylim(len(lanes) - 0.5, -0.5)
        axes.set_xlim(left=0)
        label = (
            "largest move of an end, % of the width" if narrow else "largest move of an end, % of the interval's width"
        )
        axes.set_xlabel(f"{label}; | is the median", color=SOFT, fontsize=8.5)
        bare(axes, "bottom")
        return sheet.figure

    told = ", ".join(f"phase {name} {median(values):.1f}% in the median" for name, values in lanes.items())
    return picture(draw, f"By how much ends of percentile intervals move over {len(SEEDS)} seeds: {told}.")
