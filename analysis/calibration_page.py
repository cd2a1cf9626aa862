"""The page on calibration of a campaign: what its intervals cover at its own numbers of blocks. All of it is simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from matplotlib.figure import Figure

from analysis import tables
from analysis.calibration import NOISES, SIMULATIONS, Cell, Draw, calibrate, power_curve, resampled
from analysis.drawing import INK, LINE, SOFT, Picture, Sheet, bare, picture
from analysis.escaping import raw
from analysis.formats import fixed
from analysis.page_parts import bullets, paragraphs
from analysis.report import PhaseReport
from analysis.sentences import listed
from analysis.tables import Markup

TITLE = "Calibration, simulated"
MEASURED = "this campaign's null blocks"
ALIKE = "normal, drawn from as few blocks"  # what drawing from few values does by itself
POOLS = 500  # of such blocks
EFFECTS = tuple(float(effect) for effect in np.linspace(0, 3, 13))  # in block standard deviations
KINDS = ("t", "percentile", "range")
STYLES = {"t": ("-", INK), "percentile": ("--", "#0072B2"), "range": (":", "#D55E00")}


def page(reports: Mapping[str, PhaseReport]) -> str:
    """The whole page, as MyST text; ``reports`` are those of phases with known blocks, by name."""
    first = next(iter(reports.values()))
    level, seed = first.statistics.level, first.statistics.seed
    noises, series = noises_of(reports)
    parts = [f"# {TITLE}\n", raw(paragraphs(about(level, seed, series)))]
    for blocks in blocks_of(reports):
        cells = calibrate(blocks, noises, level=level, seed=seed)
        powers = curve(blocks, level, seed)
        names = [name for name, report in reports.items() if report.phase.blocks == blocks]
        parts += [
            f"## {blocks} blocks (simulated): phase{'s' * (len(names) > 1)} {listed(names)}\n",
            raw(bullets([*sentences(cells, level), size_sentence(cells), power_sentence(powers, level)])),
            raw(table(cells, level)),
            raw(power_figure(blocks, powers)._repr_html_()),
        ]
    return "\n".join(parts)


def blocks_of(reports: Mapping[str, PhaseReport]) -> list[int]:
    """The numbers of blocks that phases of the campaign have."""
    return sorted({report.phase.blocks for report in reports.values()})


def noises_of(reports: Mapping[str, PhaseReport]) -> tuple[dict[str, Draw], int]:
    """The three made-up noises, and that of the campaign's null contrasts where it has some; how many series those are."""
    series = [
        np.log(estimate.ratios)
        for report in reports.values()
        for estimate in report.estimates
        if estimate.contrast in report.null_contrasts
        and estimate.metric == report.phase.primary_metric
        and estimate.t is not None
    ]
    noises = dict(NOISES)
    if series:
        noises[MEASURED] = resampled(series)
        generator = np.random.default_rng(next(iter(reports.values())).statistics.seed)
        sizes = [len(series[i % len(series)]) for i in range(POOLS)]
        noises[ALIKE] = resampled([generator.normal(0, 1, size) for size in sizes])
    return noises, len(series)


def about(level: float, seed: int, series: int) -> list[str]:
    """What was simulated, how often, from which seed."""
    told = (
        f"Everything on this page is simulated. For each noise {SIMULATIONS} campaigns were drawn at build time, with seed {seed} "
        f"and a true ratio of 1, and each interval at level {level:g} was computed as the estimates compute it. An interval "
        "that covers less than its level is too narrow: it calls noise a difference."
    )
    noises = (
        "Noises: normal; heavy-tailed, Student's t with 3 degrees of freedom; contaminated, normal with one block in twelve "
        "shifted by 30%, of which the centre of the others is to be covered"
    )
    if series:
        return [
            told,
            f"{noises}; and {MEASURED}, drawn with replacement from the block ratios of {series} null contrasts, each "
            "centred. Of so few values the draws repeat, which lowers coverage by itself: the last row, normal noise that was "
            "drawn in the same way from as few blocks, shows by how much. What the row above it has less than that "
            f"rests on {series} series, and may be chance.",
        ]
    return [told, f"{noises}. This campaign has no null contrast, so its own noise is not among them."]


def sentences(cells: Sequence[Cell], level: float) -> list[str]:
    """The coverage of each interval, from the least to the most over the noises."""
    told = []
    for kind in KINDS:
        found = [cell for cell in cells if cell.interval == kind and cell.noise != ALIKE]
        low, high = min(found, key=lambda c: c.coverage), max(found, key=lambda c: c.coverage)
        nominal = f"nominal {100 * level:g}%" if kind != "range" else "smallest to largest block"
        told.append(
            f"The {kind} interval ({nominal}) covers {_percent(low.coverage)} ({low.noise}) to "
            f"{_percent(high.coverage)} ({high.noise})."
        )
    return told


def size_sentence(cells: Sequence[Cell]) -> str:
    """What the percentile interval does as a test."""
    cell = next(c for c in cells if (c.noise, c.interval) == ("normal", "percentile"))
    return f"Used as a test under normal noise the percentile interval rejects a true 1 in {_percent(cell.size)} of campaigns."


def power_sentence(powers: Mapping[str, Sequence[float]], level: float) -> str:
    """From which effect on the t interval finds four of five."""
    shares = powers["t"]
    effect = float(np.interp(0.8, shares, EFFECTS)) if shares[-1] >= 0.8 else None
    if effect is None:
        return f"Up to {EFFECTS[-1]:g} block standard deviations the t interval finds less than four of five."
    return (
        f"The t interval at level {level:g} finds four of five true effects of {effect:.2f} block standard deviations; "
        "that the percentile interval finds smaller ones has its price where there is none, as the curve shows at 0."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def table(cells: Sequence[Cell], level: float) -> Markup:
    """Coverage with its simulation error, and width against that of t, noise by noise."""
    rows = []
    for noise in dict.fromkeys(cell.noise for cell in cells):
        own = {cell.interval: cell for cell in cells if cell.noise == noise}
        row: list[object] = [noise]
        for kind in KINDS:
            row.append(f"{_percent(own[kind].coverage)} \u00b1 {200 * own[kind].error:.1f}")
        row += [fixed(own[kind].width / own["t"].width, 2) for kind in KINDS[1:]]
        rows.append(row)
    head = ("noise", *(f"{kind} covers" for kind in KINDS), *(f"width of {kind} over t" for kind in KINDS[1:]))
    return tables.plain(
        head,
        rows,
        f"Simulated coverage at level {level:g} (\u00b1 two standard errors) and median widths",
        numbers=range(1, 6),
    )


@cache
def curve(blocks: int, level: float, seed: int) -> dict[str, tuple[float, ...]]:
    """The power curve of each interval; simulated once for each number of blocks."""
    return power_curve(blocks, EFFECTS, level=level, seed=seed, simulations=SIMULATIONS // 4)


def power_figure(blocks: int, powers: Mapping[str, Sequence[float]]) -> Picture:
    """How often each interval excludes 1, by the true effect; simulated under normal noise."""

    def draw(narrow: bool) -> Figure:
        sheet = Sheet(narrow, 2.9)
        axes = sheet.axes(0.6, 0.35, sheet.width - 0.8, 1.9)
        for kind, shares in powers.items():
            dash, colour = STYLES[kind]
            axes.plot(EFFECTS, [100 * share for share in shares], dash, color=colour, linewidth=1.6, label=kind)
        axes.axhline(5, color=LINE, linewidth=0.7)
        axes.axhline(80, color=LINE, linewidth=0.7)
        axes.set_ylim(0, 101)
        axes.set_xlim(0, EFFECTS[-1])
        axes.set_yticks([5, 20, 40, 60, 80, 100])
        sheet.text(0.04, 0.05, "% of simulated campaigns that exclude 1", color=SOFT, fontsize=8.5)
        label = "true effect, in block sd" if narrow else "true effect, in block standard deviations of the log ratio"
        axes.set_xlabel(label, color=SOFT, fontsize=8.5)
        axes.legend(loc="lower right", frameon=False, fontsize=8.5, handlelength=3)
        bare(axes, "bottom", "left")
        return sheet.figure

    told = "; ".join(f"{kind}: {_percent(shares[0])} without an effect" for kind, shares in powers.items())
    return picture(draw, f"Simulated power at {blocks} blocks under normal noise, by the true effect. {told}.")
