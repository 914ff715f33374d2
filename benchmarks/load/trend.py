"""Whether a quantity grows: the slope through its readings, with a confidence interval that outliers do not move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Trend:
    """A slope per unit of time, and the interval that holds it with the confidence asked for."""

    slope: float
    low: float
    high: float

    @property
    def rises(self) -> bool:
        """Whether even the low end is above zero."""
        return self.low > 0


def trend(times: Sequence[float], values: Sequence[float], confidence: float = CONFIDENCE) -> Trend:
    """The median of the slopes between every two readings (Theil and Sen), its interval by the ranks of Kendall's test.

    Memory rises in steps and has peaks, for which least squares and their interval are not made. The interval takes
    readings for independent: give medians of spans that are long beside what makes memory come and go. Raises
    ValueError for fewer than three readings, or two at one time.
    """
    if len(times) != len(values) or len(times) < 3:
        raise ValueError(f"a trend needs three readings or more, each with its time, not {len(times)}")
    points = sorted(zip(times, values, strict=True))
    slopes = []
    for place, (t, value) in enumerate(points):
        for later, other in points[place + 1 :]:
            if later == t:
                raise ValueError(f"two readings at {t:g}")
            slopes.append((other - value) / (later - t))
    slopes.sort()
    # P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968); ties of values make
    # the variance smaller, so that this one is on the safe side.
    n, pairs = len(points), len(slopes)
    spread = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    lower = max(0, math.floor((pairs - spread) / 2))
    upper = min(pairs - 1, math.ceil((pairs + spread) / 2))
    return Trend(median(slopes), slopes[lower], slopes[upper])


def medians(times: Sequence[float], values: Sequence[float], span: float) -> tuple[list[float], list[float]]:
    """Middles of the spans that have readings, and the median of each."""
    spans: dict[int, list[float]] = {}
    for t, value in zip(times, values, strict=True):
        spans.setdefault(math.floor(t / span), []).append(value)
    return [(number + 0.5) * span for number in sorted(spans)], [median(spans[number]) for number in sorted(spans)]
