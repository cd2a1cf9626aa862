"""The t interval that a published percentile interval implies, approximately. Pure.

Both intervals rest on the spread of the same few blocks, so their widths keep a ratio that varies little: at six blocks of
normal noise the nominal 95% percentile interval of log ratios has 0.69 of the width of t (median of 20,000 simulations), and
0.63 to 0.70 of it in 93 of 100. Dividing by it turns one into the other, as a band. The band is no bound: nearly all other
simulations lie above 0.70, where t is narrower; and where one block decides the ratio of widths falls to 0.58, where t is wider.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.model import Interval
from analysis.sentences import side

# Width of percentile over t: the ends of the band, and between them the simulated median. Other numbers of blocks were not
# simulated so.
WIDTHS: dict[int, tuple[float, float, float]] = {6: (0.63, 0.69, 0.70)}
LEVEL = 0.95  # of both intervals in that simulation
IN_BAND = 0.93  # share of the simulated widths that lie in the band at six blocks
ONE_BLOCK = 0.58  # the same ratio where all blocks but one agree
LOPSIDED = 1.4  # how far an interval leans (see `lean`) before one block is suspected
OF_ONE_BLOCK = 0.97  # share of simulated intervals that lean more and have a block with over .71 of the spread


@dataclass(frozen=True)
class Implied:
    """Approximate t intervals around one published ratio, for the median of the width ratio and both ends of its band."""

    likely: Interval
    narrowest: Interval
    widest: Interval


def implied_t(ratio: float, percentile: Interval, blocks: object) -> Implied | None:
    """The t interval that a percentile interval implies at ``blocks``; None where its width ratio was not simulated.

    Both have the level `LEVEL`. Centred on ln(ratio), since t is; the percentile interval need not be: see `lean`.
    """
    if not isinstance(blocks, int) or blocks not in WIDTHS:
        return None
    half = (math.log(percentile[1]) - math.log(percentile[0])) / 2
    least, median, most = WIDTHS[blocks]

    def around(width: float) -> Interval:
        return ratio * math.exp(-half / width), ratio * math.exp(half / width)

    return Implied(around(median), around(most), around(least))


def lean(ratio: float, percentile: Interval) -> float:
    """How much farther an interval reaches on the log axis to its longer side than to the other; 1 where it is symmetric."""
    sides = sorted((math.log(ratio / percentile[0]), math.log(percentile[1] / ratio)))
    return sides[1] / sides[0] if sides[0] > 0 else math.inf


def then(percentile: Interval | None, found: Implied | None) -> str:
    """What would become of a published statement by t.

    "excludes", "includes" or "depends" for a percentile interval that excludes 1; "open" for one that includes it;
    "unknown" without an interval or without a known width.
    """
    if percentile is None or found is None:
        return "unknown"
    if side(percentile) == "includes":
        return "open"
    narrow, wide = side(found.narrowest), side(found.widest)
    if wide != "includes":
        return "excludes"
    return "includes" if narrow == "includes" else "depends"
