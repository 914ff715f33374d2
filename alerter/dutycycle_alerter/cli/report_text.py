"""A report of the ledger for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from dutycycle_alerter.cli.histogram import users_histograms
from dutycycle_alerter.cli.tables import LOW, QUIET, outside, status_lines, table
from dutycycle_alerter.reports.model import Kind, Report, UsageReport
from dutycycle_alerter.reports.sheet import Sheet, Unit
from dutycycle_alerter.reports.shown import TITLES, brief, empty, figure, more, notes, span
from dutycycle_alerter.usage import LOW_UTILIZATION_PERCENT
from dutycycle_alerter.views import Status

_WIDTH = 100
_LEAST_NAME = 8
_LEAST_WORD = 5
"""Columns for a name that has to be folded, and for a header of which words have to be cut."""


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
    return _Fitted(made)


class _Fitted:
    """A table in which a row is one line while there is room: the headers of figures wrap, the columns come closer,
    and words of headers are cut; only then a name is folded.
    """

    def __init__(self, made: Table) -> None:
        self._made = made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        gap, widths = _widths(self._made, options.max_width)
        self._made.padding = (0, gap, 0, 0)
        for column, width in zip(self._made.columns, widths, strict=True):
            column.width = width
        yield self._made


def _widths(made: Table, room: int) -> tuple[int, list[int]]:
    """The space between columns, and the width of each."""
    titles = [str(column.header) for column in made.columns]
    cells = [max((cell_len(str(cell)) for cell in column.cells), default=1) for column in made.columns]
    whole = [max(cell_len(title), width) for title, width in zip(titles, cells, strict=True)]
    words = [max([*map(cell_len, title.split()), width]) for title, width in zip(titles, cells, strict=True)]
    cut = [max(min(_LEAST_WORD, word), width) for word, width in zip(words, cells, strict=True)]
    spaces = len(titles) - 1
    for gap, least in ((2, words), (1, words), (1, cut)):
        figures = _narrowed(whole[1:], least[1:], room - whole[0] - gap * spaces)
        if figures is not None:
            return gap, [whole[0], *figures]
    figures = next((least[1:] for least in (words, cut) if sum(least[1:]) + spaces + _LEAST_NAME <= room), cut[1:])
    return 1, [max(_LEAST_NAME, room - sum(figures) - spaces), *figures]


def _narrowed(widths: list[int], least: list[int], room: int) -> list[int] | None:
    """Columns of so much in all, the widest having given way; None where they cannot."""
    widths = list(widths)
    while sum(widths) > room:
        wide = [i for i, width in enumerate(widths) if width > least[i]]
        if not wide:
            return None
        widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def _cell(said: str, key: str, value: object) -> Text:
    low = key == "utilization" and isinstance(value, float) and 100 * value < LOW_UTILIZATION_PERCENT
    return outside(said, LOW if low else "")
