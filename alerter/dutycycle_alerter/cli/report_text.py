"""A report of the ledger for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from dutycycle_alerter.cli.histogram import users_histograms
from dutycycle_alerter.cli.tables import LOW, QUIET, outside, status_lines, table
from dutycycle_alerter.reports.model import Kind, Report, UsageReport
from dutycycle_alerter.reports.sheet import Sheet, Unit
from dutycycle_alerter.reports.shown import TITLES, brief, empty, figure, more, notes, span
from dutycycle_alerter.usage import LOW_UTILIZATION_PERCENT
from dutycycle_alerter.views import Status

_WIDTH = 100
_WHOLE_NAME = 20
"""Columns of the longest name that is not folded: rules have such names, people may have others."""


def report_text(
    found: Report, tables: Sequence[Sheet], status: Status, zone: tzinfo | None = None
) -> list[RenderableType]:
    """The report's tables under its title, and what to know about them; times are of `zone` (None: the machine's)."""
    said: list[RenderableType] = [
        status_lines(status, zone),
        Text(TITLES[found.asked.kind], "bold"),
        outside(span(found, zone), QUIET, 300),
        Text(),
    ]
    nothing = empty(found, zone)
    if nothing:
        return [*said, Text(nothing)]
    for sheet in tables:
        said += [Text(sheet.title, "bold")] * bool(sheet.title)
        said += [_table(sheet), Text()]
        said += [Text(more(sheet), QUIET), Text()] * bool(sheet.rest)
    if isinstance(found, UsageReport) and found.asked.kind is Kind.USERS:
        said += [*users_histograms(found.rows), Text()]
    return [*said, Group(*(Text(note, QUIET) for note in notes(found, zone)))]


def plain(shown: Sequence[RenderableType]) -> str:
    """The same for a file: without colour, 100 columns wide."""
    text = StringIO()
    console = Console(file=text, width=_WIDTH, color_system=None, highlight=False, markup=False, emoji=False)
    for part in shown:
        console.print(part)
    return text.getvalue()


def _table(sheet: Sheet) -> RenderableType:
    columns, rows, totals = brief(sheet, wide=False)
    titles = [column.title for column in columns]
    made = table(*titles, right=[column.title for column in columns if column.unit is not Unit.TEXT])
    for row in rows:
        cells = zip(row, columns, strict=True)
        made.add_row(*(_cell(figure(value, column), column.key, value) for value, column in cells))
    if totals is not None:
        said = [figure(value, column) for value, column in zip(totals, columns, strict=True)]
        made.add_row("All", *said[1:], style="bold")
    # Rich wraps the widest first, which are long names and then headers; a short name and a figure stay in one piece.
    widths = [max((cell_len(str(cell)) for cell in column.cells), default=1) for column in made.columns]
    made.columns[0].no_wrap = widths[0] <= _WHOLE_NAME
    for column, width in zip(made.columns[1:], widths[1:], strict=True):
        column.min_width = width
    return made


def _cell(said: str, key: str, value: object) -> Text:
    low = key == "utilization" and isinstance(value, float) and 100 * value < LOW_UTILIZATION_PERCENT
    return outside(said, LOW if low else "")
