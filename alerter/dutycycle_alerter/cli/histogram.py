"""The histogram of users on the terminal: one line per bin, users beside their GPU-hours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dutycycle_alerter import figures
from dutycycle_alerter.cli.tables import LOW, QUIET
from dutycycle_alerter.usage import (
    BIN_WIDTH,
    LOW_UTILIZATION_PERCENT,
    Person,
    hours_histogram,
    median_percent,
    users_histogram,
    users_under,
)

_BAR = 24
"""Characters of the longest bar."""


def users_histograms(users: Sequence[Person]) -> Iterator[RenderableType]:
    """Users by mean utilization, and the same weighted by measured GPU-hours; nothing where nobody was measured."""
    bins, hours = users_histogram(users), hours_histogram(users)
    if not any(bins):
        return
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", expand=False)
    grid.add_column("Utilization", justify="right", no_wrap=True)
    grid.add_column("Users", no_wrap=True)
    grid.add_column("GPU-hours measured", no_wrap=True)
    for number, (count, seconds) in enumerate(zip(bins, hours, strict=True)):
        start = number * BIN_WIDTH
        style = LOW if start < LOW_UTILIZATION_PERCENT else "blue"
        grid.add_row(
            Text(f"{start}–{start + BIN_WIDTH} %", QUIET),
            _bar(count, max(bins), style) + Text(f" {count:,}" if count else ""),
            _bar(seconds, max(hours), style) + Text(f" {figures.hours(seconds)}" if seconds else ""),
        )
    yield grid


def how_many_low(users: Sequence[Person]) -> str:
    """A sentence on the share of users under the bound for low utilization, and on the median."""
    measured, median = sum(users_histogram(users)), median_percent(users)
    if median is None:
        return "nothing was measured."
    low = users_under(users)
    share = figures.percent(low / measured)
    return (
        f"{low} of {measured} measured under {LOW_UTILIZATION_PERCENT:.0f} % ({share} of them), "
        f"median {figures.percent(median / 100)}."
    )


def _bar(value: float, highest: float, style: str) -> Text:
    """What is not zero is at least one block."""
    return Text("█" * max(1, round(_BAR * value / highest)) if value else "", style)
