"""What every figure shares: two renditions with one alt text, the style of arms, the log axis of ratios.

A figure is drawn twice, wide for a desk and narrow for a phone, and the page's width chooses. Text is
stored as outlines of matplotlib's own font, so that a figure looks the same everywhere; labels are never
parsed as formulas.
"""

from __future__ import annotations

import base64
import io
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from analysis.escaping import escaped, printable

WIDE = 7.2  # inches; 691 CSS pixels, the width of the theme's text column
NARROW = 3.4  # inches; 326 CSS pixels, what a phone of 360 has left
PHONE = 600  # CSS pixels; a narrower page gets the narrow rendition

INK = "#1f2328"
SOFT = "#5b636d"
LINE = "#c3c9d0"

_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "axes.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "text.parse_math": False,
    "text.usetex": False,
    "axes.unicode_minus": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "benchbook",  # identical input gives identical bytes
    "hatch.linewidth": 0.8,
}

# Okabe and Ito's colours, the strong ones first; marker and hatch tell arms apart without colour.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "//", "||", "\\\\", "xx", "--", "++")


@dataclass(frozen=True)
class ArmStyle:
    """How one arm looks on every figure of a campaign."""

    colour: str
    marker: str
    hatch: str


def arm_style(name: str, all_arms: Sequence[str]) -> ArmStyle:
    """The look of an arm: its place among all arms of the campaign decides, in plan order.

    Pass the campaign's arms, not only one phase's, so that an arm looks the same on every page.
    """
    if name not in all_arms:
        raise ValueError(f"arm {name!r} is not among the arms {list(all_arms)}")
    place = list(all_arms).index(name)
    if place >= len(_COLOURS):
        raise ValueError(f"arm {name!r} is number {place + 1}; {len(_COLOURS)} arms can be told apart")
    return ArmStyle(_COLOURS[place], _MARKERS[place], _HATCHES[place])


@dataclass(frozen=True)
class Picture:
    """One figure in two renditions. The last value of a cell: the page then shows the one that fits."""

    wide: Figure
    narrow: Figure
    alt: str

    def _repr_html_(self) -> str:
        wide, narrow = _data_address(svg(self.wide)), _data_address(svg(self.narrow))
        return (
            '<figure class="bb-figure"><picture>'
            f'<source media="(max-width: {PHONE}px)" srcset="{narrow}">'
            f'<img src="{wide}" alt="{escaped(self.alt)}">'
            "</picture></figure>"
        )

    def __repr__(self) -> str:
        return self.alt

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write both renditions as SVG and the wide one as PNG, 200 dots an inch."""
        paths = [folder / f"{name}.svg", folder / f"{name}-narrow.svg", folder / f"{name}.png"]
        paths[0].write_bytes(svg(self.wide))
        paths[1].write_bytes(svg(self.narrow))
        paths[2].write_bytes(png(self.wide))
        return paths


def picture(draw: Callable[[bool], Figure], alt: str) -> Picture:
    """Call ``draw(narrow)`` for both renditions under the common style."""
    with matplotlib.rc_context(_STYLE):
        return Picture(draw(False), draw(True), alt)


def svg(figure: Figure) -> bytes:
    """The figure as SVG: no date, no outside font, the same bytes for the same input."""
    out = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        _all_printable(figure).savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def png(figure: Figure, dpi: int = 200) -> bytes:
    """The figure as PNG."""
    out = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        _all_printable(figure).savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    return out.getvalue()


def _all_printable(figure: Figure) -> Figure:
    """The figure, its texts without characters that cannot be seen: in an SVG file some of them are an error."""
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if (clean := printable(text.get_text())) != text.get_text():
            text.set_text(clean)
    return figure


def _data_address(image: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(image).decode("ascii")


class Sheet:
    """A figure of a given size in inches, on which boxes and text are placed in inches from the top left."""

    def __init__(self, narrow: bool, height: float) -> None:
        self.narrow = narrow
        self.width = NARROW if narrow else WIDE
        self.height = height
        self.figure = Figure(figsize=(self.width, height))

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes in a box; y in the box is meant to be inches downwards or any scale of its own."""
        bottom = self.height - top - height
        box = (left / self.width, bottom / self.height, width / self.width, height / self.height)
        return self.figure.add_axes(box)

    def text(self, left: float, top: float, words: str, **style: Any) -> None:
        """Text whose upper left corner (or as ``ha``, ``va`` say) is at a place in inches."""
        style.setdefault("va", "top")
        self.figure.text(left / self.width, 1 - top / self.height, words, parse_math=False, **style)


def elided(label: str, most: int) -> str:
    """A label of at most ``most`` characters; what is left out in its middle is an ellipsis."""
    clean = printable(label, keep="")
    if len(clean) <= most:
        return clean
    head = (most - 1) // 2
    return clean[:head] + "\u2026" + clean[len(clean) - (most - 1 - head) :]


# ---- the axis of ratios -------------------------------------------------------------------------------

# Digits of labels on wide axes, the same in every decade, finest first.
_DIGITS: tuple[tuple[float, ...], ...] = (
    (1, 1.2, 1.4, 1.7, 2, 2.4, 2.8, 3.4, 4, 5, 6, 7, 8.5),
    (1, 1.4, 2, 2.8, 4, 5, 7),
    (1, 1.5, 2, 3, 5, 7),
    (1, 2, 3, 5, 7),
    (1, 2, 5),
    (1, 3),
    (1,),
)


def _decades(low: float, high: float) -> Iterator[list[float]]:
    """Ratios inside [low, high] with round digits, finest first."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in _DIGITS:
        ticks = (round(digit * 10.0**power, 12) for power in powers for digit in digits)
        yield [tick for tick in ticks if low <= tick <= high]


def _round_steps(low: float, high: float) -> Iterator[list[float]]:
    """Multiples of 1, 2 and 5 times powers of ten inside [low, high], finest first."""
    start = math.floor(math.log10((high - low) / 20))
    for power in range(start, start + 4):
        for digit in (1, 2, 5):
            step = digit * 10.0**power
            yield [round(n * step, 12) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def ratio_ticks(low: float, high: float, most: int) -> list[float]:
    """Round ratios inside [low, high], 1 among them where it lies inside, far enough apart to be read.

    At most ``most`` of them, and no two closer than 1/(most + 1) of the axis; none where there is no such choice.
    """
    closest = math.log(high / low) / (most + 1)
    steps = _round_steps(low, high) if high / low < 1.6 else iter(())
    for ticks in itertools.chain(steps, _decades(low, high)):
        gaps = [math.log(b / a) for a, b in itertools.pairwise(ticks)]
        if 2 <= len(ticks) <= most and min(gaps) >= closest:
            return ticks
    return []


def ratio_limits(values: Sequence[float], blocks: Sequence[float] = (), most: float = 30.0) -> tuple[float, float]:
    """Limits of a log axis that holds 1, every value and, within half the room again, the single blocks.

    What lies outside is drawn as an arrow at the edge. No side goes further than a factor of ``most``.
    """
    logs = [math.log(value) for value in values if value > 0 and math.isfinite(value)] or [-0.1, 0.1]
    low, high = min([0.0, *logs]), max([0.0, *logs])
    room = max(high - low, 0.02) * 0.5
    marks = [math.log(value) for value in blocks if value > 0 and math.isfinite(value)]
    low = max(min([low, *marks]), low - room, -math.log(most))
    high = min(max([high, *marks]), high + room, math.log(most))
    margin = max(0.06 * (high - low), 0.005)
    return math.exp(low - margin), math.exp(high + margin)


def common_spans(rows: Sequence[Sequence[float]], least: float = 0.04) -> list[tuple[float, float]]:
    """Limits for panels of their own centre and one common log span, so that spreads can be compared."""
    ends = [(math.log(min(row)), math.log(max(row))) if row else (0.0, 0.0) for row in rows]
    half = max([least, *(high - low for low, high in ends)]) * 0.62
    return [(math.exp((low + high) / 2 - half), math.exp((low + high) / 2 + half)) for low, high in ends]


def ratio_axis(axes: Axes, low: float, high: float, most: int, which: str = "x") -> None:
    """Make an axis logarithmic with round labelled ticks, and draw the line at 1."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    ticks = ratio_ticks(low, high, most)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_ticklabels([f"{tick:g}" for tick in ticks])
    line = axes.axvline if which == "x" else axes.axhline
    if low < 1 < high:
        line(1.0, color=INK, linewidth=0.9, zorder=1)
    for tick in ticks:
        if tick != 1:
            line(tick, color=LINE, linewidth=0.5, zorder=0)


def bare(axes: Axes, *keep: str) -> None:
    """Hide all spines but those named."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in keep)
