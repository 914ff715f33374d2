"""A table as data, how it is printed, and how its figures are written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks import results
from benchmarks.box.scoring.ratios import Share


@dataclass(frozen=True)
class Table:
    """Cells that are None are shown as a dash."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def show(found: Iterable[Table]) -> None:
    """Print them to stdout."""
    for table in found:
        results.show(table.header, table.rows, title=f"\n{table.title}")


def brief(share: Share) -> str | None:
    """A share without its interval."""
    return None if share.value is None else f"{share.value:.3f} of {share.of}"


def percent(ratio: float | None) -> str | None:
    return None if ratio is None else f"{100 * ratio:+.2f} %" if ratio else "0 %"


def number(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def minutes(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds / 60:+.1f}"


def clock(seconds: float) -> str:
    """Time of the run as hours and minutes."""
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}"
