"""The t interval that a published percentile interval implies, approximately. Pure.

Both intervals rest on the spread of the same few blocks, so their widths keep a ratio that varies little: at six blocks of
normal noise the percentile interval of log ratios has 0.69 of the width of t (median of 20,000 simulations; 0.63 to 0.70 from
the 5th to the 95th percentile). Dividing by it turns one into the other, as a band.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.model import Interval
from analysis.sentences import side

# Width of percentile over t, simulated: 5th percentile, median, 95th percentile. Other numbers of blocks were not simulated so.
WIDTHS: dict[int, tuple[float, float, float]] = {6: (0.63, 0.69, 0.70)}


@dataclass(frozen=True)
class Implied:
    """Approximate t intervals around one published ratio, for the median of the width ratio and both ends of its band."""

    likely: Interval
    narrowest: Interval
    widest: Interval


def implied_t(ratio: float, percentile: Interval, blocks: object) -> Implied | None:
    """The t interval that a percentile interval implies at ``blocks``; None where its width ratio was not simulated.

    Centred on ln(ratio), since t is; the percentile interval need not be.
    """
    if not isinstance(blocks, int) or blocks not in WIDTHS:
        return None
    half = (math.log(percentile[1]) - math.log(percentile[0])) / 2
    least, median, most = WIDTHS[blocks]

    def around(width: float) -> Interval:
        return ratio * math.exp(-half / width), ratio * math.exp(half / width)

    return Implied(around(median), around(most), around(least))


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
